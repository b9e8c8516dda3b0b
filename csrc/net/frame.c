/* Headers of requests and responses.
 *
 * Thread: any. Lock: none. It allocates nothing. */
#include "net/frame.h"

#include <string.h>

#include "base/status.h"
#include "base/endian.h"
#include "base/varint.h"

size_t kn_frame_header_write(uint8_t *to, int16_t api_key, int16_t api_version,
                             const char *client_id, int flexible)
{
    size_t client_id_bytes = client_id ? strlen(client_id) : 0;
    if (client_id_bytes > INT16_MAX) client_id_bytes = INT16_MAX;
    uint8_t *at = kn_put_i32(to, 0); /* length: patched by kn_frame_head_patch() */
    at = kn_put_i16(at, api_key);
    at = kn_put_i16(at, api_version);
    at = kn_put_i32(at, 0); /* correlation id: patched */
    at = kn_put_i16(at, client_id ? (int16_t)client_id_bytes : -1);
    if (client_id_bytes) memcpy(at, client_id, client_id_bytes);
    at += client_id_bytes;
    if (flexible) *at++ = 0; /* no tagged fields */
    return (size_t)(at - to);
}

void kn_frame_head_patch(uint8_t *head, size_t frame_bytes, int32_t correlation_id)
{
    kn_put_i32(head, (int32_t)(frame_bytes - KN_FRAME_LENGTH_BYTES));
    kn_put_i32(head + 8, correlation_id);
}

int kn_frame_length_check(const uint8_t first[KN_FRAME_LENGTH_BYTES], size_t min_bytes,
                          size_t max_bytes, const char **why)
{
    /* Both would be legal lengths under a large receive.message.max.bytes (1.2 GB and 352 MB), but
     * no broker sends them. */
    if (memcmp(first, "HTTP", 4) == 0) {
        *why = "it answered with HTTP: this is a web server's port, not a Kafka listener";
        return KN_ERR_PROTOCOL;
    }
    if (first[0] == 0x15 && first[1] == 0x03) {
        *why = "it answered with a TLS alert: the listener wants TLS, and this connection is "
               "plaintext (see security.protocol)";
        return KN_ERR_PROTOCOL;
    }
    uint32_t length = kn_frame_u32(first);
    if (length < min_bytes || length > INT32_MAX) {
        *why = "it sent an impossible frame length: not a Kafka broker, or a listener with another "
               "security.protocol";
        return KN_ERR_PROTOCOL;
    }
    if (length > max_bytes) {
        *why = "its response is larger than allowed";
        return KN_ERR_TOO_LARGE;
    }
    return KN_OK;
}

int kn_frame_reply_header_skip(struct kn_span *span, int flexible)
{
    kn_span_i32(span); /* correlation id: checked when the frame began */
    if (flexible) {
        uint32_t tag_count = kn_span_uvarint(span);
        /* A tag takes at least two bytes. */
        if (tag_count > kn_span_left(span) / 2) return KN_ERR_PROTOCOL;
        for (uint32_t i = 0; i < tag_count && !span->failed; i++) {
            kn_span_uvarint(span);
            kn_span_take(span, kn_span_uvarint(span));
        }
    }
    return span->failed ? KN_ERR_PROTOCOL : KN_OK;
}
