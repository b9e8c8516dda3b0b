/* How a connection's bytes travel: a table of functions over a connected, non-blocking socket. TCP is the only entry so far; TLS is one more
 * table, with its session in `session`.
 *
 * Thread: the connection's only. Who frees: the connection embeds the stream and closes it.
 */
#ifndef KN_ENGINE_TRANSPORT_H
#define KN_ENGINE_TRANSPORT_H

#include <sys/types.h>
#include <sys/uio.h>

struct kn_stream;

enum kn_stream_result { KN_STREAM_AGAIN = -1, KN_STREAM_FAILED = -2 }; /* FAILED: stream->error is an errno */

struct kn_transport {
    const char *name;
    /* After the TCP connect, and again whenever poll(2) reports what `wants` asked for: 0 when bytes may flow, or AGAIN, or FAILED. */
    int (*start)(struct kn_stream *stream, const char *host);
    /* Bytes moved (> 0), AGAIN, FAILED; read returns 0 at the end of the stream. */
    ssize_t (*read)(struct kn_stream *stream, struct iovec *pieces, int count);
    ssize_t (*write)(struct kn_stream *stream, const struct iovec *pieces, int count);
    void (*stop)(struct kn_stream *stream); /* frees the session; the descriptor is closed by kn_stream_close() */
};

struct kn_stream {
    const struct kn_transport *transport;
    int fd;        /* -1: closed */
    int error;     /* errno of the last FAILED */
    short wants;   /* poll(2) events that the transport itself waits for */
    void *session;
};

extern const struct kn_transport kn_transport_tcp;

void kn_stream_close(struct kn_stream *stream); /* twice is harmless */

#endif
