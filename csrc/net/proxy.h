/* The way to a broker through a proxy: SOCKS5 (RFC 1928, with RFC 1929's user and password) or HTTP
 * CONNECT (RFC 9110). What is said to the proxy comes first on a connection; behind it, the bytes
 * are the broker's (TLS, too, so the proxy sees none of Kafka's where there is TLS).
 *
 * Thread: struct kn_proxy is the client's, immutable and shared by its broker threads; a tunnel is
 * its connection's. Lock: none. Who frees: the engine frees kn_proxy, which wipes the login; a
 * tunnel is embedded and owns nothing. The login is written from where it lies, so no other copy of
 * it is made.
 */
#ifndef KN_NET_PROXY_H
#define KN_NET_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct kn_stream;
struct kn_transport;
struct sockaddr;

#define KN_PROXY_HOST_BYTES 256
#define KN_PROXY_LOGIN_BYTES_MAX 1024
/* for a request, and for the answer: a longer one is refused */
#define KN_TUNNEL_SCRATCH_BYTES 8192

enum kn_proxy_kind { KN_PROXY_SOCKS5 = 1, KN_PROXY_HTTP = 2 };

struct kn_proxy {
    enum kn_proxy_kind kind;
    /* brokers' names go to the proxy; 0: their addresses, which are looked up here (SOCKS5 alone)
     */
    bool resolves;
    char host[KN_PROXY_HOST_BYTES];
    uint16_t port;
    size_t login_bytes; /* 0: none */
    /* ready to be sent: SOCKS5's message with user and password, or HTTP's header line */
    uint8_t login[KN_PROXY_LOGIN_BYTES_MAX];
};

/* NULL: no memory, or `host` or `login` is longer than there is room for. */
struct kn_proxy *kn_proxy_new(enum kn_proxy_kind kind, int resolves, const char *host,
                              uint16_t port, const uint8_t *login, size_t login_bytes);
void kn_proxy_free(struct kn_proxy *proxy); /* NULL is allowed */

enum kn_tunnel_stage {
    KN_TUNNEL_GREETING,
    KN_TUNNEL_LOGIN,
    KN_TUNNEL_REQUEST,
    KN_TUNNEL_CONNECT,
    KN_TUNNEL_OPEN
};

struct kn_tunnel {
    const struct kn_proxy *proxy;
    const struct kn_transport *transport; /* under the tunnel: TCP, but for tests */
    const char *host;                     /* the broker's, borrowed from the connection */
    uint16_t port;
    /* one of the broker's addresses, borrowed; NULL: the proxy resolves */
    const struct sockaddr *target;
    enum kn_tunnel_stage stage;
    size_t said;    /* bytes of this stage's message that were written */
    size_t heard;   /* bytes of its answer that have come */
    bool refused;   /* the proxy has answered that it doesn't get to this target */
    char text[160]; /* why the last step() failed */
};

/* Another connection to the proxy: nothing is said yet. */
void kn_tunnel_begin(struct kn_tunnel *tunnel, const struct kn_proxy *proxy, const char *host,
                     uint16_t port, const struct sockaddr *target);
/* Says and hears what the socket takes and has; `scratch` (KN_TUNNEL_SCRATCH_BYTES) is the tunnel's
 * until it is open. 0: it is. KN_STREAM_AGAIN: with stream->wants. KN_STREAM_FAILED: with
 * tunnel->text. Nothing behind the proxy's answer is read. */
int kn_tunnel_step(struct kn_tunnel *tunnel, struct kn_stream *stream, uint8_t *scratch);

/* The two halves of a step, without the socket. say(): this stage's message in `pieces`, built in
 * `scratch` where it isn't ready-made; the number of pieces, or KN_STREAM_FAILED. hear(): how many
 * bytes to read next at most, behind the `tunnel->heard` that are at `answer`; 0: the answer is
 * whole and good, and the stage another one; KN_STREAM_FAILED. */
int kn_tunnel_say(struct kn_tunnel *tunnel, uint8_t *scratch, struct iovec pieces[3]);
long kn_tunnel_hear(struct kn_tunnel *tunnel, const uint8_t *answer);

#endif
