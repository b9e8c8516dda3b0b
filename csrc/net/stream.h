/* The transport of a connection's bytes: a table of functions over a connected, non-blocking
 * socket. There are two: TCP (transport.h), and TLS over TCP (tls.h).
 *
 * Thread: the connection's only.
 * Who frees: the connection embeds the stream, closes it, and deinits it at its own end. */
#ifndef KN_NET_STREAM_H
#define KN_NET_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct kn_chunk;
struct kn_stream;
struct kn_tls;

/* FAILED: stream->error is an errno, or `text` is the reason */
enum kn_stream_result { KN_STREAM_AGAIN = -1, KN_STREAM_FAILED = -2 };

struct kn_transport {
    const char *name;
    /* Called after the TCP connect, and again when poll(2) reports the events in `wants`. 0: ready
     * for data; or AGAIN or FAILED. */
    int (*start)(struct kn_stream *stream, const char *host);
    /* Bytes moved (> 0), AGAIN or FAILED; read returns 0 at the end of the stream. After a write
     * returned AGAIN, the next write must begin with the same bytes. */
    ssize_t (*read)(struct kn_stream *stream, struct iovec *pieces, int count);
    ssize_t (*write)(struct kn_stream *stream, const struct iovec *pieces, int count);
    /* frees the session; kn_stream_close() closes the descriptor */
    void (*stop)(struct kn_stream *stream);
};

struct kn_stream {
    const struct kn_transport *transport;
    struct kn_tls *tls; /* NULL: plain */
    int fd;             /* -1: closed */
    int error;          /* errno of the last FAILED, 0: none */
    bool drained;       /* the last read left no bytes in a buffer that poll(2) doesn't see */
    short wants;        /* poll(2) events that the transport needs */
    void *session;
    /* for TLS; they outlive the descriptor */
    char text[160]; /* the reason of the last FAILED; "": see `error` */
    /* why the peer's certificate was refused (X509_V_ERR_...); 0: it wasn't */
    int verify_error;
    /* the refused certificate in DER, then the certificate of its chain that is the cause, if that
     * is another one; NULL: none */
    struct kn_chunk *certificate;
    void *ticket;          /* to resume the session */
    uint32_t ticket_epoch; /* of the context that made the ticket */
    char ticket_host[256]; /* the host whose certificate was verified for it */
    int64_t verified_us;   /* when it was verified (monotonic) */
};

#endif
