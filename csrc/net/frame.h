/* Request and response frames: the headers in front of every body.
 *
 * Thread: any; no state.
 */
#ifndef KN_NET_FRAME_H
#define KN_NET_FRAME_H

#include <stddef.h>
#include <stdint.h>
#include "base/span.h"

#define KN_FRAME_LENGTH_BYTES 4
/* length and correlation id; read before memory is allocated for a response */
#define KN_FRAME_PREFIX_BYTES 8
/* Limit of a response before the broker is open: its peer may not be authenticated yet. */
#define KN_HANDSHAKE_REPLY_MAX_BYTES ((size_t)512 << 10)

static inline uint32_t kn_frame_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Checks the first four bytes of a response of at least `min_bytes`. KN_OK, KN_ERR_TOO_LARGE, or
 * KN_ERR_PROTOCOL: the peer doesn't speak Kafka, and *why names the protocol that it resembles. */
int kn_frame_length_check(const uint8_t first[KN_FRAME_LENGTH_BYTES], size_t min_bytes,
                          size_t max_bytes, const char **why);
/* Writes length, api_key, api_version, correlation id, client id and, if flexible, an empty tag
 * section. Returns the bytes written. `to` has room for KN_FRAME_HEADER_MAX_BYTES and the client
 * id. kn_frame_head_patch() fills in length and correlation id later. */
#define KN_FRAME_HEADER_MAX_BYTES 20
size_t kn_frame_header_write(uint8_t *to, int16_t api_key, int16_t api_version,
                             const char *client_id, int flexible);
/* Writes length and correlation id into the head of a request frame. */
void kn_frame_head_patch(uint8_t *head, size_t frame_bytes, int32_t correlation_id);
/* Skips the response header: correlation id and, if flexible, tagged fields. KN_OK or
 * KN_ERR_PROTOCOL. */
int kn_frame_reply_header_skip(struct kn_span *span, int flexible);

#endif
