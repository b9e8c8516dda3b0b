/* The messages to a proxy, and the checks of its answers.
 *
 * Thread: the connection's. Lock: none. Who frees: kn_proxy_unref() the proxy.
 *
 * It reads exactly the bytes of an answer: SOCKS5's by their lengths, HTTP's up to the empty line.
 * (A broker sends nothing before a request, so later bytes aren't a broker's.) Error texts contain
 * only numbers from a proxy's answer, because the proxy knows the login. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/wipe.h"
#include "net/thread.h"
#include "net/transport.h"

#define SOCKS_VERSION 5
#define SOCKS_LOGIN_VERSION 1
#define SOCKS_NO_LOGIN 0
#define SOCKS_USER_AND_PASSWORD 2
#define SOCKS_NOTHING_SUITS 255
#define SOCKS_CONNECT 1
#define SOCKS_IP4 1
#define SOCKS_NAME 3
#define SOCKS_IP6 4
#define STATUS_LINE_BYTES 13 /* "HTTP/1.1 200 " */

/* --- the client's --- */

struct kn_proxy *kn_proxy_new(enum kn_proxy_kind kind, int remote_dns, const char *host,
                              uint16_t port, const uint8_t *login, size_t login_bytes)
{
    if (strlen(host) >= KN_PROXY_HOST_BYTES || login_bytes > KN_PROXY_LOGIN_BYTES_MAX) return NULL;
    struct kn_proxy *proxy = calloc(1, sizeof *proxy);
    if (!proxy) return NULL;
    atomic_init(&proxy->refs, 1);
    proxy->kind = kind;
    proxy->remote_dns = remote_dns || kind == KN_PROXY_HTTP;
    snprintf(proxy->host, sizeof proxy->host, "%s", host);
    proxy->port = port;
    proxy->login_bytes = login_bytes;
    if (login_bytes) memcpy(proxy->login, login, login_bytes);
    return proxy;
}

struct kn_proxy *kn_proxy_ref(struct kn_proxy *proxy)
{
    if (proxy) atomic_fetch_add_explicit(&proxy->refs, 1, memory_order_relaxed);
    return proxy;
}

void kn_proxy_unref(struct kn_proxy *proxy)
{
    if (!proxy || atomic_fetch_sub_explicit(&proxy->refs, 1, memory_order_acq_rel) != 1) return;
    kn_wipe(proxy->login, sizeof proxy->login);
    free(proxy);
}

/* --- writing --- */

void kn_tunnel_begin(struct kn_tunnel *tunnel, const struct kn_proxy *proxy, const char *host,
                     uint16_t port, const struct sockaddr *target)
{
    *tunnel = (struct kn_tunnel){.proxy = proxy,
                                 .transport = &kn_transport_tcp,
                                 .host = host,
                                 .port = port,
                                 .target = target};
    tunnel->stage = proxy->kind == KN_PROXY_HTTP ? KN_TUNNEL_CONNECT : KN_TUNNEL_GREETING;
}

static int tunnel_fail(struct kn_tunnel *tunnel, const char *text)
{
    snprintf(tunnel->text, sizeof tunnel->text, "%s", text);
    return KN_STREAM_FAILED;
}

/* "text (SOCKS5 says 2)" */
static int tunnel_refused(struct kn_tunnel *tunnel, const char *text, const char *protocol,
                          int number)
{
    snprintf(tunnel->text, sizeof tunnel->text, "%s (%s says %d)", text, protocol, number);
    return KN_STREAM_FAILED;
}

/* The metadata has the brokers' names, and other people write it: no name may begin a second line
 * of a request. */
static int is_sendable(const char *host)
{
    size_t size = strlen(host);
    for (size_t i = 0; i < size; i++) {
        if ((uint8_t)host[i] <= ' ' || (uint8_t)host[i] >= 127) return 0;
    }
    return size > 0 && size <= UINT8_MAX;
}

static size_t put_port(uint8_t *to, uint16_t port)
{
    to[0] = (uint8_t)(port >> 8);
    to[1] = (uint8_t)port;
    return 2;
}

/* The SOCKS5 CONNECT message: to an address or to a name. */
static size_t socks_request(const struct kn_tunnel *tunnel, uint8_t *to)
{
    size_t at = 0;
    to[at++] = SOCKS_VERSION;
    to[at++] = SOCKS_CONNECT;
    to[at++] = 0;
    if (tunnel->target && tunnel->target->sa_family == AF_INET) {
        to[at++] = SOCKS_IP4;
        memcpy(to + at, &((const struct sockaddr_in *)(const void *)tunnel->target)->sin_addr, 4);
        at += 4;
    } else if (tunnel->target) {
        to[at++] = SOCKS_IP6;
        memcpy(to + at, &((const struct sockaddr_in6 *)(const void *)tunnel->target)->sin6_addr,
               16);
        at += 16;
    } else {
        size_t size = strlen(tunnel->host);
        to[at++] = SOCKS_NAME;
        to[at++] = (uint8_t)size;
        memcpy(to + at, tunnel->host, size);
        at += size;
    }
    return at + put_port(to + at, tunnel->port);
}

static size_t http_request(const struct kn_tunnel *tunnel, uint8_t *to)
{
    char where[KN_PROXY_HOST_BYTES + 16];
    snprintf(where, sizeof where, strchr(tunnel->host, ':') ? "[%s]:%u" : "%s:%u", tunnel->host,
             (unsigned)tunnel->port);
    return (size_t)snprintf((char *)to, KN_TUNNEL_SCRATCH_BYTES,
                            "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", where, where);
}

int kn_tunnel_build(struct kn_tunnel *tunnel, uint8_t *scratch, struct iovec pieces[3])
{
    static const uint8_t ways[] = {SOCKS_VERSION, 2, SOCKS_NO_LOGIN, SOCKS_USER_AND_PASSWORD},
                         only_way[] = {SOCKS_VERSION, 1, SOCKS_NO_LOGIN};
    const struct kn_proxy *proxy = tunnel->proxy;
    struct iovec login = {(void *)proxy->login, proxy->login_bytes};
    switch (tunnel->stage) {
    case KN_TUNNEL_GREETING:
        pieces[0] = proxy->login_bytes ? (struct iovec){(void *)ways, sizeof ways}
                                       : (struct iovec){(void *)only_way, sizeof only_way};
        return 1;
    case KN_TUNNEL_LOGIN: pieces[0] = login; return 1;
    case KN_TUNNEL_REQUEST:
        if (!is_sendable(tunnel->host)) break;
        pieces[0] = (struct iovec){scratch, socks_request(tunnel, scratch)};
        return 1;
    case KN_TUNNEL_CONNECT:
        if (!is_sendable(tunnel->host)) break;
        pieces[0] = (struct iovec){scratch, http_request(tunnel, scratch)};
        pieces[1] = login;
        pieces[2] = (struct iovec){(void *)"\r\n", 2};
        return 3;
    case KN_TUNNEL_OPEN: return 0;
    }
    return tunnel_fail(tunnel, "the broker's host name can't be one");
}

/* --- reading --- */

static long tunnel_next(struct kn_tunnel *tunnel, enum kn_tunnel_stage stage)
{
    tunnel->stage = stage;
    tunnel->written_bytes = tunnel->read_bytes = 0;
    return 0;
}

static long parse_greeting(struct kn_tunnel *tunnel, const uint8_t *answer)
{
    if (tunnel->read_bytes && answer[0] != SOCKS_VERSION) {
        return tunnel_fail(tunnel, answer[0] == 'H'
                                       ? "it speaks HTTP, not SOCKS5: set proxy.url to http://"
                                       : "it doesn't speak SOCKS5: see proxy.url");
    }
    if (tunnel->read_bytes < 2) return 2 - (long)tunnel->read_bytes;
    int login = tunnel->proxy->login_bytes != 0;
    if (answer[1] == SOCKS_NO_LOGIN) return tunnel_next(tunnel, KN_TUNNEL_REQUEST);
    if (answer[1] == SOCKS_USER_AND_PASSWORD && login) return tunnel_next(tunnel, KN_TUNNEL_LOGIN);
    if (answer[1] == SOCKS_NOTHING_SUITS) {
        return tunnel_refused(
            tunnel,
            login ? "it takes neither no login nor a user and password"
                  : "it wants a login: set proxy.url to socks5://user:password@host:port",
            "SOCKS5", answer[1]);
    }
    return tunnel_refused(tunnel, "it wants a login that wasn't offered", "SOCKS5", answer[1]);
}

static long parse_login(struct kn_tunnel *tunnel, const uint8_t *answer)
{
    if (tunnel->read_bytes < 2) return 2 - (long)tunnel->read_bytes;
    if (answer[1] == 0) return tunnel_next(tunnel, KN_TUNNEL_REQUEST);
    return tunnel_refused(tunnel, "it refuses the user and password of proxy.url", "SOCKS5",
                          answer[1]);
}

static const char *socks_reason(int reply)
{
    switch (reply) {
    case 1: return "it has failed, and its log says why";
    case 2: return "its rules don't allow connections to this broker";
    case 3: return "it has no route to the broker's network";
    case 4: return "it can't reach the broker's host; with socks5h:// it looks the name up itself";
    case 5: return "the broker refuses its connection: see the broker's address and port";
    case 6: return "the broker is too far away from it (TTL)";
    case 7: return "it makes no connections for clients (command CONNECT)";
    case 8:
        return "it doesn't know this kind of address: try the other one of socks5:// and "
               "socks5h://";
    default: return "it refuses, for a reason that SOCKS5 doesn't have";
    }
}

/* Version, reply, reserved, and the proxy's bound address, which isn't used. */
static long parse_request(struct kn_tunnel *tunnel, const uint8_t *answer)
{
    size_t have = tunnel->read_bytes;
    if (have && answer[0] != SOCKS_VERSION) return tunnel_fail(tunnel, "its answer isn't SOCKS5");
    if (have >= 2 && answer[1]) {
        tunnel->refused = 1;
        return tunnel_refused(tunnel, socks_reason(answer[1]), "SOCKS5", answer[1]);
    }
    if (have < 5) return 5 - (long)have;
    size_t address_bytes = answer[3] == SOCKS_IP4    ? 4
                           : answer[3] == SOCKS_IP6  ? 16
                           : answer[3] == SOCKS_NAME ? 1 + (size_t)answer[4]
                                                     : 0;
    if (!address_bytes)
        return tunnel_fail(tunnel,
                           "its answer isn't SOCKS5: it has a kind of address that doesn't exist");
    size_t whole = 4 + address_bytes + 2;
    return have < whole ? (long)(whole - have) : tunnel_next(tunnel, KN_TUNNEL_OPEN);
}

static const char *http_reason(const struct kn_tunnel *tunnel, int status)
{
    switch (status) {
    case 407:
        return tunnel->proxy->login_bytes
                   ? "it refuses the user and password of proxy.url"
                   : "it wants a login: set proxy.url to http://user:password@host:port";
    case 400:
    case 405:
    case 501: return "it makes no connections for clients (method CONNECT): see proxy.url";
    case 401:
    case 403: return "its rules don't allow connections to this broker";
    case 404:
    case 502:
    case 503: return "it can't reach the broker";
    case 504: return "the broker doesn't answer it";
    default: return "it refuses the connection";
    }
}

/* Returns the status of "HTTP/1.1 200 "; -1: malformed. */
static int http_status(const uint8_t *line)
{
    if (line[7] < '0' || line[7] > '9' || line[8] != ' ' || (line[12] != ' ' && line[12] != '\r'))
        return -1;
    int status = 0;
    for (int i = 9; i < 12; i++) {
        if (line[i] < '0' || line[i] > '9') return -1;
        status = status * 10 + line[i] - '0';
    }
    return status;
}

static long parse_connect(struct kn_tunnel *tunnel, const uint8_t *answer)
{
    static const char begin[] = "HTTP/1.";
    size_t have = tunnel->read_bytes,
           compared_bytes = have < sizeof begin - 1 ? have : sizeof begin - 1;
    if (memcmp(answer, begin, compared_bytes)) {
        return tunnel_fail(tunnel, have && answer[0] == SOCKS_VERSION
                                       ? "it speaks SOCKS5, not HTTP: set proxy.url to socks5h://"
                                       : "it doesn't speak HTTP: see proxy.url");
    }
    if (have < STATUS_LINE_BYTES) return STATUS_LINE_BYTES - (long)have;
    int status = http_status(answer);
    if (status < 0) return tunnel_fail(tunnel, "its answer isn't HTTP: see proxy.url");
    if (status / 100 != 2) {
        tunnel->refused = status != 407;
        return tunnel_refused(tunnel, http_reason(tunnel, status), "HTTP", status);
    }
    const uint8_t *end = memmem(answer, have, "\r\n\r\n", 4);
    if (end && end + 4 == answer + have) return tunnel_next(tunnel, KN_TUNNEL_OPEN);
    if (end)
        return tunnel_fail(tunnel,
                           "it sends more than the answer to CONNECT: brokers don't speak first");
    if (have == KN_TUNNEL_SCRATCH_BYTES)
        return tunnel_fail(tunnel, "its answer to CONNECT has no end");
    return (long)(KN_TUNNEL_SCRATCH_BYTES - have);
}

long kn_tunnel_parse(struct kn_tunnel *tunnel, const uint8_t *answer)
{
    switch (tunnel->stage) {
    case KN_TUNNEL_GREETING: return parse_greeting(tunnel, answer);
    case KN_TUNNEL_LOGIN: return parse_login(tunnel, answer);
    case KN_TUNNEL_REQUEST: return parse_request(tunnel, answer);
    case KN_TUNNEL_CONNECT: return parse_connect(tunnel, answer);
    case KN_TUNNEL_OPEN: break;
    }
    return 0;
}

/* --- both, over the socket --- */

/* Returns the result of a read or write that moved no bytes. */
static int tunnel_stopped(struct kn_tunnel *tunnel, struct kn_stream *stream, ssize_t moved,
                          short wants)
{
    char phrase[96];
    if (moved == KN_STREAM_AGAIN) {
        stream->wants = wants;
        return KN_STREAM_AGAIN;
    }
    if (moved == 0 || stream->error == ECONNRESET || stream->error == EPIPE) {
        return tunnel_fail(
            tunnel, tunnel->proxy->kind == KN_PROXY_HTTP
                        ? "it closed the connection in the middle of CONNECT: does it speak HTTP?"
                        : "it closed the connection before it was through: does it speak SOCKS5?");
    }
    return tunnel_fail(tunnel, kn_errno_text(stream->error, phrase, sizeof phrase));
}

static int tunnel_write(struct kn_tunnel *tunnel, struct kn_stream *stream, uint8_t *scratch)
{
    struct iovec pieces[3];
    int count = kn_tunnel_build(tunnel, scratch, pieces);
    if (count < 0) return count;
    size_t before = tunnel->written_bytes;
    for (int i = 0; i < count; i++) { /* skips the bytes that were written already */
        size_t skip = before < pieces[i].iov_len ? before : pieces[i].iov_len;
        pieces[i].iov_base = (uint8_t *)pieces[i].iov_base + skip;
        pieces[i].iov_len -= skip;
        before -= skip;
    }
    while (count && !pieces[count - 1].iov_len) count--;
    if (!count) return 0;
    ssize_t sent = tunnel->transport->write(stream, pieces, count);
    if (sent <= 0) return tunnel_stopped(tunnel, stream, sent, POLLOUT);
    tunnel->written_bytes += (size_t)sent;
    return 1;
}

int kn_tunnel_step(struct kn_tunnel *tunnel, struct kn_stream *stream, uint8_t *scratch)
{
    stream->wants = 0;
    while (tunnel->stage != KN_TUNNEL_OPEN) {
        /* The answer begins only after the whole request is written, so both use `scratch`. */
        if (!tunnel->read_bytes) {
            int more = tunnel_write(tunnel, stream, scratch);
            if (more < 0) return more;
            if (more) continue;
        }
        long room = kn_tunnel_parse(tunnel, scratch);
        if (room < 0) return KN_STREAM_FAILED;
        if (!room) continue;
        struct iovec piece = {scratch + tunnel->read_bytes, (size_t)room};
        ssize_t got = tunnel->transport->read(stream, &piece, 1);
        if (got <= 0) return tunnel_stopped(tunnel, stream, got, POLLIN);
        tunnel->read_bytes += (size_t)got;
    }
    return 0;
}
