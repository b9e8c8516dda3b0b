/* Streams over a connected socket, and the transport of plain TCP.
 *
 * Thread: the connection's only. Who frees: see stream.h.
 */
#ifndef KN_NET_TRANSPORT_H
#define KN_NET_TRANSPORT_H

#include "net/stream.h"

extern const struct kn_transport kn_transport_tcp;

void kn_stream_init(struct kn_stream *stream, struct kn_tls *tls); /* closed; tls NULL: plain TCP */
/* another connection, nothing is known of it */
void kn_stream_open(struct kn_stream *stream, int fd);
void kn_stream_close(struct kn_stream *stream);  /* twice is harmless */
void kn_stream_deinit(struct kn_stream *stream); /* closed */

#endif
