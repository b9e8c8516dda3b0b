/* How a connection's bytes travel: a table of functions over a connected, non-blocking socket. The
 * entries are TCP (transport.h), and TLS over it (tls.h).
 *
 * Thread: the connection's only. Who frees: the connection embeds the stream, closes it, and
 * deinits it at its own end.
 */
#ifndef KN_NET_STREAM_H
#define KN_NET_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct kn_chunk;
struct kn_stream;
struct kn_tls;

/* FAILED: stream->error is an errno, or `text` says why */
enum kn_stream_result { KN_STREAM_AGAIN = -1, KN_STREAM_FAILED = -2 };

struct kn_transport {
    const char *name;
    /* After the TCP connect, and again whenever poll(2) reports what `wants` asked for: 0 when
     * bytes may flow, or AGAIN, or FAILED. */
    int (*start)(struct kn_stream *stream, const char *host);
    /* Bytes moved (> 0), AGAIN, FAILED; read returns 0 at the end of the stream. What a write that
     * said AGAIN was given comes again, first. */
    ssize_t (*read)(struct kn_stream *stream, struct iovec *pieces, int count);
    ssize_t (*write)(struct kn_stream *stream, const struct iovec *pieces, int count);
    /* frees the session; the descriptor is closed by kn_stream_close() */
    void (*stop)(struct kn_stream *stream);
};

struct kn_stream {
    const struct kn_transport *transport;
    struct kn_tls *tls; /* NULL: plain */
    int fd;             /* -1: closed */
    int error;          /* errno of the last FAILED, 0: none */
    bool drained;       /* the last read left nothing behind that poll(2) wouldn't tell of */
    short wants;        /* poll(2) events that the transport itself waits for */
    void *session;
    /* of TLS; they outlast the descriptor */
    char text[160]; /* why the last FAILED was, "": an errno */
    /* why the peer's certificate isn't believed (X509_V_ERR_...), 0: it isn't that */
    int verify_error;
    /* the peer's, in DER, when it isn't believed, followed by the one above it that is the cause,
     * if it is; NULL */
    struct kn_chunk *certificate;
    void *ticket;          /* to resume the session with */
    uint32_t ticket_epoch; /* of the context under which it was got */
    char ticket_host[256]; /* whose certificate was verified for it */
    int64_t verified_us;   /* when that was (monotonic) */
};

#endif
