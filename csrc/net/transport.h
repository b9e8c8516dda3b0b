/* Streams over a connected socket, and the transport of plain TCP.
 *
 * Thread: the connection's only. Who frees: see stream.h.
 */
#ifndef KN_NET_TRANSPORT_H
#define KN_NET_TRANSPORT_H

#include "net/stream.h"

extern const struct kn_transport kn_transport_tcp;

/* initially closed; tls NULL: plain TCP */
void kn_stream_init(struct kn_stream *stream, struct kn_tls *tls);
/* begins a new connection and forgets the state of the last one */
void kn_stream_open(struct kn_stream *stream, int fd);
void kn_stream_close(struct kn_stream *stream);  /* a second call does nothing */
void kn_stream_deinit(struct kn_stream *stream); /* must be closed */

#endif
