/* A tunnel to a broker through a proxy: SOCKS5 (RFC 1928, with user and password of RFC 1929) or
 * HTTP CONNECT (RFC 9110). The client first exchanges messages with the proxy. All later bytes of the
 * connection are the broker's. This includes TLS, so with TLS the proxy can't read Kafka's data.
 *
 * Thread: the client owns struct kn_proxy, which is immutable and shared by its broker threads. A
 * connection owns its tunnel.
 * Lock: none.
 * Who frees: kn_proxy has a reference count; engines may share it. The last unref overwrites the
 * login. A tunnel is embedded and owns nothing. The login is sent from its only copy in memory. */
#ifndef KN_NET_PROXY_H
#define KN_NET_PROXY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct kn_stream;
struct kn_transport;
struct sockaddr;

#define KN_PROXY_HOST_BYTES 256
#define KN_PROXY_LOGIN_BYTES_MAX 1024
/* limit of a request, and of the proxy's answer */
#define KN_TUNNEL_SCRATCH_BYTES 8192

enum kn_proxy_kind { KN_PROXY_SOCKS5 = 1, KN_PROXY_HTTP = 2 };

struct kn_proxy {
    atomic_int refs;
    enum kn_proxy_kind kind;
    /* the proxy resolves the brokers' names; false: the client does (only SOCKS5) */
    bool remote_dns;
    char host[KN_PROXY_HOST_BYTES];
    uint16_t port;
    size_t login_bytes; /* 0: none */
    /* ready to send: SOCKS5's message with user and password, or HTTP's header line */
    uint8_t login[KN_PROXY_LOGIN_BYTES_MAX];
};

/* NULL: no memory, or `host` or `login` is too long. The caller has the first reference. */
struct kn_proxy *kn_proxy_new(enum kn_proxy_kind kind, int remote_dns, const char *host,
                              uint16_t port, const uint8_t *login, size_t login_bytes);
struct kn_proxy *kn_proxy_ref(struct kn_proxy *proxy); /* NULL is allowed */
void kn_proxy_unref(struct kn_proxy *proxy);           /* NULL is allowed */

enum kn_tunnel_stage {
    KN_TUNNEL_GREETING,
    KN_TUNNEL_LOGIN,
    KN_TUNNEL_REQUEST,
    KN_TUNNEL_CONNECT,
    KN_TUNNEL_OPEN
};

struct kn_tunnel {
    const struct kn_proxy *proxy;
    const struct kn_transport *transport; /* the transport under the tunnel: TCP, except in tests */
    const char *host;                     /* the broker's host, borrowed from the connection */
    uint16_t port;
    /* one of the broker's addresses, borrowed; NULL: the proxy resolves */
    const struct sockaddr *target;
    enum kn_tunnel_stage stage;
    size_t written_bytes; /* bytes of this stage's message that were written */
    size_t read_bytes;    /* bytes of the proxy's answer that were read */
    bool refused;         /* the proxy answered that it can't reach this target */
    char text[160];       /* the reason why the last step() failed */
};

/* Starts a tunnel on a new connection to the proxy. */
void kn_tunnel_begin(struct kn_tunnel *tunnel, const struct kn_proxy *proxy, const char *host,
                     uint16_t port, const struct sockaddr *target);
/* Writes and reads as much as the socket allows. The tunnel uses `scratch`
 * (KN_TUNNEL_SCRATCH_BYTES) until it is open. 0: open. KN_STREAM_AGAIN: see stream->wants.
 * KN_STREAM_FAILED: see tunnel->text. It reads no bytes behind the proxy's answer. */
int kn_tunnel_step(struct kn_tunnel *tunnel, struct kn_stream *stream, uint8_t *scratch);

/* The two halves of a step, without the socket.
 * - build(): puts this stage's message into `pieces`, built in `scratch` if needed. Returns the
 *   number of pieces, or KN_STREAM_FAILED.
 * - parse(): parses the `tunnel->read_bytes` bytes at `answer`. Returns the maximum number of bytes
 *   to read next, or KN_STREAM_FAILED. 0: the answer is complete and accepted, and the next stage
 *   begins.
 */
int kn_tunnel_build(struct kn_tunnel *tunnel, uint8_t *scratch, struct iovec pieces[3]);
long kn_tunnel_parse(struct kn_tunnel *tunnel, const uint8_t *answer);

#endif
