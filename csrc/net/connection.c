/* One connection: connects, writes requests, reads and matches responses, times requests out.
 *
 * Thread: the broker thread only. Lock: none.
 * Who frees: kn_connection_free(); requests go back to their makers through on_done.
 *
 * Reading. Small responses arrive in `ahead`, many per system call, and each is copied into a
 * pooled buffer of its own size. A response that isn't complete in `ahead` gets its buffer after
 * its length and correlation id were checked. Then the kernel writes directly into that buffer, so
 * only the bytes in `ahead` are copied. The buffer is address space of the announced length. It
 * gets memory one step ahead of the bytes, so a peer that announces much and sends little costs
 * little. One read fills that buffer and then `ahead`, so the bytes behind a large response come
 * with it.
 *
 * Deadlines. `check_at_us` is a lower bound of all deadlines. A new request may lower it. It is
 * computed again only when it is reached, so a response costs nothing. A wake-up for a request that
 * was answered long ago comes at most once per timeout period. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/connection.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/endian.h"
#include "base/status.h"
#include "base/wipe.h"
#include "net/address.h"
#include "net/events.h"
#include "net/frame.h"
#include "net/log.h"
#include "net/proxy.h"
#include "net/thread.h"
#include "net/transport.h"

#define READ_AHEAD_BYTES ((size_t)32 << 10)
/* reads per step, so that a fast peer doesn't delay writes and timeouts */
#define READ_TURNS_MAX 16
/* Within a large response poll(2) reports no less than this: waking up for each piece of a fast
 * peer costs both sides more than the piece. */
#define READ_LOW_BYTES ((size_t)128 << 10)
/* bytes that the transport may have buffered: a TLS record and its overhead */
#define READ_LOW_SLACK_BYTES ((size_t)32 << 10)
/* A response gets memory for this many bytes before they come, and later for as many again as have
 * come. Most responses are smaller, so one call gets all their memory. */
#define BACKED_AHEAD_BYTES ((size_t)2 << 20)
#define WRITE_PIECES_MAX 256 /* below IOV_MAX on every system */
#define WRITE_TURNS_MAX 16
#define PEER_TEXT_BYTES (KN_ADDRESS_TEXT_BYTES + 80)

_Static_assert(READ_AHEAD_BYTES >= KN_TUNNEL_SCRATCH_BYTES,
               "a tunnel works in the read-ahead buffer");

struct kn_connection {
    struct kn_connection_config config;
    struct kn_pool *pool;
    enum kn_connection_state state;
    struct kn_stream stream;
    /* TCP is up; the proxy's or the transport's handshake isn't done */
    int starting;
    char host[256];
    uint16_t port;
    struct kn_address_list addresses; /* where TCP connects to: the broker or the proxy */
    struct kn_address_list targets;   /* the broker's addresses, if the proxy gets addresses */
    const struct addrinfo *address;   /* the current address */
    const struct addrinfo *target;    /* the address that the proxy gets; NULL: the name */
    struct kn_tunnel tunnel;          /* used with a proxy */
    int attempts;                     /* addresses that failed in this round */
    int64_t setup_deadline_us;
    int64_t now_us; /* time of the last step */
    /* requests */
    struct kn_list queued;    /* the first may be partly written */
    struct kn_list in_flight; /* written, in the order of their responses */
    int request_count;
    int in_flight_count;
    size_t unsent_bytes;
    int low_bytes;     /* SO_RCVLOWAT */
    int read_on;       /* the transport may hold bytes that poll(2) doesn't see */
    int write_blocked; /* the socket's buffer is full: poll for POLLOUT */
    int32_t next_correlation_id;
    int64_t check_at_us;
    /* responses */
    struct kn_buffer *ahead; /* bytes read ahead; [ahead_at, ahead_end) is not consumed */
    size_t ahead_at, ahead_end;
    struct kn_buffer *frame; /* the response being received, without its length; NULL: none */
    size_t frame_bytes;
    int peer_closed; /* enum kn_peer_closed */
    struct kn_connection_stats stats;
    struct kn_broker_windows *windows; /* NULL: no statistics */
    struct kn_means *means;            /* NULL: means aren't recorded */
    struct kn_log *log;                /* NULL: no log */
    int32_t broker;                    /* the broker of this connection, for the log */
    char peer[PEER_TEXT_BYTES];
    char text[240];
};

/* --- creation and end --- */

struct kn_connection *kn_connection_new(const struct kn_connection_config *config,
                                        struct kn_pool *pool)
{
    struct kn_connection *connection = calloc(1, sizeof *connection);
    if (!connection) return NULL;
    connection->config = *config;
    connection->pool = pool;
    kn_stream_init(&connection->stream, config->tls);
    connection->check_at_us = KN_NEVER;
    kn_list_init(&connection->queued);
    kn_list_init(&connection->in_flight);
    return connection;
}

void kn_connection_free(struct kn_connection *connection)
{
    if (!connection) return;
    kn_connection_close(connection, KN_ERR_CLOSED);
    kn_stream_deinit(&connection->stream);
    kn_address_list_clear(&connection->addresses);
    kn_address_list_clear(&connection->targets);
    free(connection);
}

void kn_connection_set_log(struct kn_connection *connection, struct kn_log *log, int32_t broker)
{
    connection->log = log;
    connection->broker = broker;
}

enum kn_connection_state kn_connection_state(const struct kn_connection *connection)
{
    return connection->state;
}
int kn_connection_in_flight(const struct kn_connection *connection)
{
    return connection->request_count;
}
size_t kn_connection_unsent_bytes(const struct kn_connection *connection)
{
    return connection->unsent_bytes;
}
int kn_connection_unsent_requests(const struct kn_connection *connection)
{
    return connection->request_count - connection->in_flight_count;
}
const char *kn_connection_error_text(const struct kn_connection *connection)
{
    return connection->text;
}
const char *kn_connection_peer_text(const struct kn_connection *connection)
{
    return connection->peer;
}
bool kn_connection_was_idle_close(const struct kn_connection *connection)
{
    return connection->peer_closed == KN_PEER_CLOSED_IDLE;
}
int kn_connection_peer_closed(const struct kn_connection *connection)
{
    return connection->peer_closed;
}
struct kn_connection_stats *kn_connection_stats(struct kn_connection *connection)
{
    return &connection->stats;
}

void kn_connection_add_traffic(struct kn_connection *connection, struct kn_traffic *traffic)
{
    traffic->tx += kn_counted(&connection->stats.tx);
    traffic->tx_bytes += kn_counted(&connection->stats.tx_bytes);
    traffic->rx += kn_counted(&connection->stats.rx);
    traffic->rx_bytes += kn_counted(&connection->stats.rx_bytes);
}
void kn_connection_measure(struct kn_connection *connection, struct kn_broker_windows *windows,
                           struct kn_means *means)
{
    connection->windows = windows;
    connection->means = means;
}

int kn_connection_fd(const struct kn_connection *connection) { return connection->stream.fd; }

const struct kn_stream *kn_connection_stream(const struct kn_connection *connection)
{
    return &connection->stream;
}

/* "host:port (address): ..." */
static int connection_fail(struct kn_connection *connection, int status, const char *format, ...)
{
    int used = snprintf(connection->text, sizeof connection->text, "%s:%u (%s): ", connection->host,
                        (unsigned)connection->port,
                        connection->peer[0] ? connection->peer : "not connected");
    if (used < 0 || (size_t)used >= sizeof connection->text) return status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(connection->text + used, sizeof connection->text - (size_t)used, format, arguments);
    va_end(arguments);
    return status;
}

static void connection_note_peer_closed(struct kn_connection *connection)
{
    connection->peer_closed = connection->in_flight_count ? KN_PEER_CLOSED_IN_FLIGHT
                                                          : KN_PEER_CLOSED;
}

/* Returns the cause of the stream's failure: the transport's text, or the system's. */
static const char *stream_cause(const struct kn_stream *stream, char *phrase, size_t phrase_bytes)
{
    return stream->text[0] ? stream->text : kn_errno_text(stream->error, phrase, phrase_bytes);
}

static int stream_status(const struct kn_stream *stream)
{
    return stream->text[0] ? KN_ERR_TLS : KN_ERR_TRANSPORT;
}

static int connection_fail_stream(struct kn_connection *connection, const char *action)
{
    char phrase[96];
    const struct kn_stream *stream = &connection->stream;
    if (!stream->text[0] && (stream->error == ECONNRESET || stream->error == EPIPE))
        connection_note_peer_closed(connection);
    return connection_fail(connection, stream_status(stream), "%s: %s", action,
                           stream_cause(stream, phrase, sizeof phrase));
}

/* --- connecting --- */

/* Adds "; address: cause" to the failures of earlier addresses. */
static void connection_note_attempt(struct kn_connection *connection, const char *cause)
{
    size_t used = strlen(connection->text);
    const char *before = connection->attempts++ ? "; " : "connect failed: ";
    snprintf(connection->text + used, sizeof connection->text - used, "%s%s: %s", before,
             connection->peer, cause);
}

static void connection_rewind(struct kn_connection *connection)
{
    kn_address_list_rewind(&connection->addresses);
    kn_address_list_rewind(&connection->targets);
}

static int connection_up(struct kn_connection *connection)
{
    connection->state = KN_CONNECTION_UP;
    connection->starting = 0;
    connection->text[0] = 0;
    connection_rewind(connection);
    return KN_OK;
}

/* TCP is up: starts the proxy's tunnel, and then the transport's handshake. */
static int connection_start(struct kn_connection *connection)
{
    connection->starting = 1;
    int result = 0;
    if (connection->config.proxy)
        result = kn_tunnel_step(&connection->tunnel, &connection->stream, connection->ahead->data);
    if (result == KN_STREAM_FAILED) return KN_ERR_TRANSPORT;
    if (result == 0)
        result = connection->stream.transport->start(&connection->stream, connection->host);
    if (result == 0) return connection_up(connection);
    return result == KN_STREAM_AGAIN ? KN_OK : stream_status(&connection->stream);
}

/* Returns the cause of connection_start()'s failure. */
static const char *start_cause(const struct kn_connection *connection, char *phrase,
                               size_t phrase_bytes)
{
    const char *text = connection->config.proxy ? connection->tunnel.text : "";
    return text[0] ? text : stream_cause(&connection->stream, phrase, phrase_bytes);
}

/* Returns the next address to connect to. If a proxy can't reach one of the broker's addresses, it
 * gets the next one. */
static const struct addrinfo *connection_next_address(struct kn_connection *connection)
{
    if (connection->config.proxy && connection->tunnel.refused) {
        connection->target = kn_address_next(&connection->targets);
        return connection->target ? connection->address : NULL;
    }
    return kn_address_next(&connection->addresses);
}

static void connection_name_peer(struct kn_connection *connection)
{
    const struct kn_proxy *proxy = connection->config.proxy;
    const struct addrinfo *address = connection->address;
    char text[KN_ADDRESS_TEXT_BYTES];
    kn_address_text(address->ai_addr, address->ai_addrlen, text);
    if (!proxy) snprintf(connection->peer, sizeof connection->peer, "%s", text);
    else if (strstr(text, proxy->host))
        snprintf(connection->peer, sizeof connection->peer, "proxy %s", text);
    else
        snprintf(connection->peer, sizeof connection->peer, "proxy %.60s at %s", proxy->host, text);
}

/* Starts to connect to the next address that can be tried. */
static int connection_try_next(struct kn_connection *connection, int64_t now_us)
{
    const struct kn_proxy *proxy = connection->config.proxy;
    while ((connection->address = connection_next_address(connection))) {
        char phrase[96];
        int connected;
        connection_name_peer(connection);
        if (proxy) {
            const struct sockaddr *target = connection->target ? connection->target->ai_addr : NULL;
            kn_tunnel_begin(&connection->tunnel, proxy, connection->host, connection->port, target);
        }
        int fd = kn_address_connect(connection->address, &connection->config.socket, &connected);
        if (fd < 0) {
            connection_note_attempt(connection, kn_errno_text(-fd, phrase, sizeof phrase));
            continue;
        }
        kn_stream_open(&connection->stream, fd);
        connection->low_bytes = 1;
        connection->state = KN_CONNECTION_CONNECTING;
        connection->starting = 0;
        connection->setup_deadline_us = now_us +
                                        (int64_t)connection->config.setup_timeout_ms * 1000;
        if (!connected) return KN_OK;
        if (connection_start(connection) == KN_OK) return KN_OK;
        connection_note_attempt(connection, start_cause(connection, phrase, sizeof phrase));
        kn_stream_close(&connection->stream);
    }
    connection->state = KN_CONNECTION_CLOSED;
    return stream_status(&connection->stream);
}

static int connection_connect_step(struct kn_connection *connection, short revents, int64_t now_us)
{
    char phrase[96];
    const char *cause;
    if (connection->starting ? revents != 0 : (revents & (POLLOUT | POLLERR | POLLHUP)) != 0) {
        int error = 0;
        socklen_t error_bytes = sizeof error;
        /* Once TCP is up, the transport must find the error: reading it here would clear it. */
        if (!connection->starting)
            getsockopt(connection->stream.fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
        if (!error && connection_start(connection) == KN_OK) return KN_OK;
        cause = error ? kn_errno_text(error, phrase, sizeof phrase)
                      : start_cause(connection, phrase, sizeof phrase);
    } else if (now_us >= connection->setup_deadline_us) {
        int is_through = connection->config.proxy && connection->tunnel.stage == KN_TUNNEL_OPEN;
        snprintf(phrase, sizeof phrase, "no answer%s within %d ms",
                 is_through ? " of the broker behind it" : "",
                 (int)connection->config.setup_timeout_ms);
        cause = phrase;
    } else {
        return KN_OK;
    }
    connection_note_attempt(connection, cause);
    kn_stream_close(&connection->stream);
    return connection_try_next(connection, now_us);
}

/* Resolves the names that are needed before connecting. */
static int connection_resolve(struct kn_connection *connection)
{
    const struct kn_proxy *proxy = connection->config.proxy;
    const char *why = "";
    const char *host = proxy ? proxy->host : connection->host;
    int status = kn_address_resolve(&connection->addresses, host,
                                    proxy ? proxy->port : connection->port,
                                    &connection->config.socket, &why);
    if (status)
        return connection_fail(connection, status, "cannot resolve the %s name: %s",
                               proxy ? "proxy's" : "host", why);
    connection->target = NULL;
    if (!proxy || proxy->remote_dns) return KN_OK;
    status = kn_address_resolve(&connection->targets, connection->host, connection->port,
                                &connection->config.socket, &why);
    if (status)
        return connection_fail(
            connection, status,
            "cannot resolve the host name: %s; with socks5h:// the proxy does it", why);
    connection->target = kn_address_next(&connection->targets);
    return KN_OK;
}

int kn_connection_open(struct kn_connection *connection, const char *host, uint16_t port,
                       int64_t now_us)
{
    if (strcmp(connection->host, host) || connection->port != port)
        kn_address_list_clear(connection->config.proxy ? &connection->targets
                                                       : &connection->addresses);
    snprintf(connection->host, sizeof connection->host, "%s", host);
    connection->port = port;
    connection->peer[0] = connection->text[0] = 0;
    connection->peer_closed = KN_PEER_NOT;
    connection->tunnel.refused = 0;
    connection->tunnel.text[0] = 0;
    if (!connection->ahead) connection->ahead = kn_buffer_take(connection->pool, READ_AHEAD_BYTES);
    if (!connection->ahead)
        return connection_fail(connection, KN_ERR_NOMEM, "%s", kn_status_text(KN_ERR_NOMEM));
    connection->ahead_at = connection->ahead_end = 0;
    /* Resolving may take seconds: the setup timeout counts from its end. */
    int64_t before_us = kn_clock_us();
    int status = connection_resolve(connection);
    now_us += kn_clock_us() - before_us;
    if (status) return status;
    connection->now_us = now_us;
    connection->attempts = 0;
    snprintf(connection->text, sizeof connection->text, "%.120s:%u: ", host, (unsigned)port);
    return connection_try_next(connection, now_us);
}

/* --- requests --- */

static void count_queued(struct kn_connection *connection, const struct kn_request *request, int by)
{
    kn_count(&connection->stats.queued, by);
    kn_count(&connection->stats.queued_messages, (int64_t)by * request->message_count);
}

static void count_waiting(struct kn_connection *connection, const struct kn_request *request,
                          int by)
{
    kn_count(&connection->stats.waiting, by);
    kn_count(&connection->stats.waiting_messages, (int64_t)by * request->message_count);
}

void kn_connection_send(struct kn_connection *connection, struct kn_request *request,
                        int64_t now_us)
{
    (void)now_us;
    request->correlation_id = connection->next_correlation_id;
    connection->next_correlation_id = connection->next_correlation_id == INT32_MAX
                                          ? 0
                                          : connection->next_correlation_id + 1;
    if (request->flags & KN_REQUEST_RAW)
        kn_put_i32(request->pieces[0].iov_base,
                   (int32_t)(request->frame_bytes - KN_FRAME_LENGTH_BYTES));
    else
        kn_frame_head_patch(request->pieces[0].iov_base, request->frame_bytes,
                            request->correlation_id);
    kn_list_push_back(&connection->queued, &request->node);
    connection->request_count++;
    count_queued(connection, request, 1);
    if (connection->windows) request->queued_us = kn_clock_us();
    connection->unsent_bytes += request->frame_bytes;
    if (request->deadline_us < connection->check_at_us)
        connection->check_at_us = request->deadline_us;
}

/* The request leaves the connection; on_done may free it. */
static void connection_complete(struct kn_connection *connection, struct kn_request *request,
                                int status, struct kn_chunk *chunk, struct kn_span body)
{
    kn_list_remove(&request->node);
    if (--connection->request_count == 0) connection->check_at_us = KN_NEVER;
    request->on_done(request, status, chunk, body);
}

static void connection_request_written(struct kn_connection *connection, struct kn_request *request,
                                       int64_t now_us)
{
    request->sent_us = now_us;
    kn_count(&connection->stats.tx, 1);
    if (request->api_key >= 0 && request->api_key < KN_STATS_APIS)
        kn_count(&connection->stats.requests[request->api_key], 1);
    count_queued(connection, request, -1);
    /* now_us is the start of the iteration: too coarse for latencies */
    if (connection->windows || kn_means_on(connection->means)) request->sent_us = kn_clock_us();
    if (connection->windows)
        kn_histogram_record(&connection->windows->outbuf_latency,
                            request->sent_us - request->queued_us, 1);
    if (kn_log_is_on(connection->log, KN_LOG_PROTOCOL)) {
        request->sent_us = kn_clock_us(); /* now_us is too coarse here, too */
        kn_log_write(connection->log, KN_LOG_PROTOCOL, connection->broker, request->api_key,
                     "v%d request sent: correlation id %d, %zu bytes%s", request->api_version,
                     (int)request->correlation_id, request->frame_bytes,
                     request->flags & KN_REQUEST_NO_REPLY ? ", no response is asked for" : "");
    }
    if (request->flags & KN_REQUEST_NO_REPLY) {
        connection_complete(connection, request, KN_OK, NULL, kn_span_of("", 0));
        return;
    }
    kn_list_remove(&request->node);
    kn_list_push_back(&connection->in_flight, &request->node);
    connection->in_flight_count++;
    count_waiting(connection, request, 1);
}

/* Moves the queued pieces forward by `size_bytes` that the kernel took. */
static void connection_wrote(struct kn_connection *connection, size_t size_bytes, int64_t now_us)
{
    connection->unsent_bytes -= size_bytes;
    kn_count(&connection->stats.tx_bytes, (int64_t)size_bytes);
    kn_note(&connection->stats.last_tx_us, now_us);
    while (size_bytes) {
        struct kn_request *request = KN_LIST_ENTRY(kn_list_first(&connection->queued),
                                                   struct kn_request, node);
        request->was_written = 1;
        while (request->piece_next < request->piece_count) {
            struct iovec *piece = &request->pieces[request->piece_next];
            size_t taken = piece->iov_len < size_bytes ? piece->iov_len : size_bytes;
            piece->iov_base = (uint8_t *)piece->iov_base + taken;
            piece->iov_len -= taken;
            size_bytes -= taken;
            if (piece->iov_len) break;
            request->piece_next++;
        }
        if (request->piece_next < request->piece_count) return; /* size_bytes is 0 */
        connection_request_written(connection, request, now_us);
    }
}

static int connection_gather(struct kn_connection *connection, struct iovec *pieces,
                             size_t *total_bytes)
{
    int count = 0;
    *total_bytes = 0;
    for (struct kn_list *node = connection->queued.next; node != &connection->queued;
         node = node->next) {
        struct kn_request *request = KN_LIST_ENTRY(node, struct kn_request, node);
        for (int i = request->piece_next; i < request->piece_count; i++) {
            if (count == WRITE_PIECES_MAX) return count;
            pieces[count++] = request->pieces[i];
            *total_bytes += request->pieces[i].iov_len;
        }
    }
    return count;
}

static int connection_write(struct kn_connection *connection, int64_t now_us)
{
    for (int turn = 0; turn < WRITE_TURNS_MAX && !connection->write_blocked &&
                       !kn_list_empty(&connection->queued);
         turn++) {
        struct iovec pieces[WRITE_PIECES_MAX];
        size_t total_bytes;
        int count = connection_gather(connection, pieces, &total_bytes);
        ssize_t sent = connection->stream.transport->write(&connection->stream, pieces, count);
        kn_count(&connection->stats.writes, 1);
        if (sent == KN_STREAM_FAILED) kn_count(&connection->stats.tx_errors, 1);
        if (sent == KN_STREAM_FAILED) return connection_fail_stream(connection, "write failed");
        if (sent == KN_STREAM_AGAIN) {
            connection->write_blocked = 1;
            break;
        }
        /* A short write means a full socket buffer: the next write would return EAGAIN. */
        if ((size_t)sent < total_bytes) connection->write_blocked = 1;
        connection_wrote(connection, (size_t)sent, now_us);
    }
    return KN_OK;
}

/* --- responses --- */

static size_t connection_reply_max_bytes(const struct kn_connection *connection,
                                         const struct kn_request *request)
{
    size_t max_bytes = connection->config.receive_max_bytes;
    if ((request->flags & KN_REQUEST_HANDSHAKE) && max_bytes > KN_HANDSHAKE_REPLY_MAX_BYTES)
        return KN_HANDSHAKE_REPLY_MAX_BYTES;
    return max_bytes;
}

/* Whether the next response has no header: see KN_REQUEST_RAW. */
static bool connection_awaits_raw(struct kn_connection *connection)
{
    struct kn_list *first = kn_list_first(&connection->in_flight);
    return first && (KN_LIST_ENTRY(first, struct kn_request, node)->flags & KN_REQUEST_RAW);
}

/* Checks whether the frame at `head` is the next expected response. `head` has
 * KN_FRAME_PREFIX_BYTES, or at least the length. */
static int connection_check_frame(struct kn_connection *connection, const uint8_t *head,
                                  size_t have_bytes)
{
    const char *why = "";
    struct kn_list *first = kn_list_first(&connection->in_flight);
    struct kn_request *request = first ? KN_LIST_ENTRY(first, struct kn_request, node) : NULL;
    size_t max_bytes = request ? connection_reply_max_bytes(connection, request)
                               : connection->config.receive_max_bytes;
    bool is_raw = connection_awaits_raw(connection);
    int status = kn_frame_length_check(head, is_raw ? 0 : sizeof request->correlation_id, max_bytes,
                                       &why);
    if (status == KN_ERR_TOO_LARGE) {
        const char *whose = max_bytes == connection->config.receive_max_bytes
                                ? "receive.message.max.bytes"
                                : "for a handshake";
        return connection_fail(connection, status,
                               "a response of %u bytes is over the limit of %zu (%s)",
                               (unsigned)kn_frame_u32(head), max_bytes, whose);
    }
    if (status) return connection_fail(connection, status, "%s", why);
    if (!request) kn_count(&connection->stats.rx_unmatched, 1);
    if (!request)
        return connection_fail(connection, KN_ERR_PROTOCOL,
                               "it sent a response that nobody asked for");
    if (is_raw || have_bytes < KN_FRAME_PREFIX_BYTES) return KN_OK;
    int32_t correlation_id = (int32_t)kn_frame_u32(head + KN_FRAME_LENGTH_BYTES);
    if (correlation_id == request->correlation_id) return KN_OK;
    kn_count(&connection->stats.rx_unmatched, 1);
    return connection_fail(
        connection, KN_ERR_PROTOCOL, "correlation id %d came where %d was due (API %d v%d)",
        (int)correlation_id, (int)request->correlation_id, request->api_key, request->api_version);
}

/* Delivers a whole response in `buffer`, and takes the buffer. */
static int connection_deliver(struct kn_connection *connection, struct kn_buffer *buffer)
{
    struct kn_request *request = KN_LIST_ENTRY(kn_list_first(&connection->in_flight),
                                               struct kn_request, node);
    struct kn_chunk *chunk = kn_chunk_new(buffer);
    if (!chunk) {
        kn_buffer_give(buffer);
        return connection_fail(connection, KN_ERR_NOMEM, "%s", kn_status_text(KN_ERR_NOMEM));
    }
    struct kn_span body = kn_span_of(chunk->buffer->data, chunk->buffer->size_bytes);
    int status = request->flags & KN_REQUEST_RAW
                     ? KN_OK
                     : kn_frame_reply_header_skip(&body,
                                                  request->flags & KN_REQUEST_FLEXIBLE_REPLY);
    if (status) {
        connection_fail(connection, status, "the header of a response is malformed (API %d v%d)",
                        request->api_key, request->api_version);
    } else {
        connection->in_flight_count--;
        kn_count(&connection->stats.rx, 1);
        count_waiting(connection, request, -1);
        if (connection->windows || kn_means_on(connection->means)) {
            kn_count_response(connection->windows, connection->means, request->api_key,
                              kn_clock_us() - request->sent_us);
        }
        if (kn_log_is_on(connection->log, KN_LOG_PROTOCOL)) {
            kn_log_write(connection->log, KN_LOG_PROTOCOL, connection->broker, request->api_key,
                         "v%d response: correlation id %d, %zu bytes, %.3f ms",
                         request->api_version, (int)request->correlation_id,
                         chunk->buffer->size_bytes,
                         (double)(kn_clock_us() - request->sent_us) / 1000);
        }
        connection_complete(connection, request, KN_OK, chunk, body);
    }
    kn_chunk_unref(chunk);
    return status;
}

/* Gets memory for the next bytes of a response of frame_bytes. */
static void back_frame(struct kn_buffer *frame, size_t frame_bytes)
{
    size_t have = frame->size_bytes;
    size_t wanted = have + (have > BACKED_AHEAD_BYTES ? have : BACKED_AHEAD_BYTES);
    if (frame->backed_bytes <= have + READ_LOW_BYTES)
        kn_buffer_back(frame, wanted < frame_bytes ? wanted : frame_bytes);
}

/* Takes complete responses out of `ahead`, until less than a prefix is left or a response needs
 * more bytes. */
static int connection_parse(struct kn_connection *connection)
{
    while (!connection->frame &&
           connection->ahead_end - connection->ahead_at >= KN_FRAME_LENGTH_BYTES) {
        const uint8_t *head = connection->ahead->data + connection->ahead_at;
        size_t have = connection->ahead_end - connection->ahead_at;
        int status = connection_check_frame(connection, head, have);
        if (status) return status;
        if (have < KN_FRAME_PREFIX_BYTES && !connection_awaits_raw(connection)) break;
        size_t frame_bytes = kn_frame_u32(head);
        struct kn_buffer *buffer = kn_buffer_take_unbacked(connection->pool, frame_bytes);
        if (!buffer)
            return connection_fail(connection, KN_ERR_NOMEM,
                                   "no memory for a response of %zu bytes", frame_bytes);
        back_frame(buffer, frame_bytes);
        size_t got = have - KN_FRAME_LENGTH_BYTES < frame_bytes ? have - KN_FRAME_LENGTH_BYTES
                                                                : frame_bytes;
        memcpy(buffer->data, head + KN_FRAME_LENGTH_BYTES, got);
        buffer->size_bytes = got;
        connection->ahead_at += KN_FRAME_LENGTH_BYTES + got;
        if (got < frame_bytes) {
            connection->frame = buffer;
            connection->frame_bytes = frame_bytes;
            break;
        }
        status = connection_deliver(connection, buffer);
        if (status) return status;
    }
    return KN_OK;
}

/* Sets the memory for the next read: the rest of the current response, then `ahead`. */
static int connection_read_pieces(struct kn_connection *connection, struct iovec pieces[2])
{
    int count = 0;
    if (connection->ahead_at) {
        /* less than KN_FRAME_PREFIX_BYTES: connection_parse() took the rest */
        connection->ahead_end -= connection->ahead_at;
        memmove(connection->ahead->data, connection->ahead->data + connection->ahead_at,
                connection->ahead_end);
        connection->ahead_at = 0;
    }
    if (connection->frame) {
        back_frame(connection->frame, connection->frame_bytes);
        pieces[count].iov_base = connection->frame->data + connection->frame->size_bytes;
        pieces[count++].iov_len = connection->frame_bytes - connection->frame->size_bytes;
    }
    pieces[count].iov_base = connection->ahead->data + connection->ahead_end;
    pieces[count++].iov_len = READ_AHEAD_BYTES - connection->ahead_end;
    return count;
}

static int connection_received(struct kn_connection *connection, size_t got_bytes)
{
    kn_count(&connection->stats.rx_bytes, (int64_t)got_bytes);
    kn_note(&connection->stats.last_rx_us, connection->now_us);
    if (connection->frame) {
        size_t missing = connection->frame_bytes - connection->frame->size_bytes;
        size_t taken = got_bytes < missing ? got_bytes : missing;
        connection->frame->size_bytes += taken;
        got_bytes -= taken;
        if (taken == missing) {
            struct kn_buffer *whole = connection->frame;
            connection->frame = NULL;
            int status = connection_deliver(connection, whole);
            if (status) return status;
        }
    }
    connection->ahead_end += got_bytes;
    return connection_parse(connection);
}

static int connection_peer_closed(struct kn_connection *connection)
{
    connection_note_peer_closed(connection);
    size_t partial = connection->ahead_end - connection->ahead_at;
    if (connection->frame) {
        return connection_fail(
            connection, KN_ERR_TRANSPORT,
            "the peer closed the connection within a response: %zu of %zu bytes had come",
            connection->frame->size_bytes, connection->frame_bytes);
    }
    if (partial) {
        return connection_fail(connection, KN_ERR_TRANSPORT,
                               "the peer closed the connection %zu bytes into a response's header",
                               partial);
    }
    if (connection->request_count == 0) connection->peer_closed = KN_PEER_CLOSED_IDLE;
    if (connection->peer_closed == KN_PEER_CLOSED_IDLE)
        return connection_fail(connection, KN_ERR_TRANSPORT, "the peer closed the idle connection");
    return connection_fail(connection, KN_ERR_TRANSPORT,
                           "the peer closed the connection with %d requests unanswered",
                           connection->request_count);
}

/* Sets how many bytes must arrive before the thread wakes up: many for a response that lacks many,
 * otherwise any. */
static void connection_set_low(struct kn_connection *connection)
{
    size_t missing = connection->frame ? connection->frame_bytes - connection->frame->size_bytes
                                       : 0;
    int low = missing >= READ_LOW_BYTES + READ_LOW_SLACK_BYTES ? (int)READ_LOW_BYTES : 1;
    if (low == connection->low_bytes) return;
    /* Errors are ignored: on a system without the option the thread only wakes up too often. */
    setsockopt(connection->stream.fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
    connection->low_bytes = low;
}

static int connection_read(struct kn_connection *connection)
{
    connection->read_on = 0;
    for (int turn = 0; turn < READ_TURNS_MAX; turn++) {
        struct iovec pieces[2];
        int count = connection_read_pieces(connection, pieces);
        ssize_t got = connection->stream.transport->read(&connection->stream, pieces, count);
        kn_count(&connection->stats.reads, 1);
        if (got == KN_STREAM_AGAIN) {
            connection_set_low(connection);
            return KN_OK;
        }
        if (got == KN_STREAM_FAILED) return connection_fail_stream(connection, "read failed");
        if (got == 0) return connection_peer_closed(connection);
        int status = connection_received(connection, (size_t)got);
        if (status) return status;
        if (connection->stream.drained) {
            connection_set_low(connection);
            return KN_OK;
        }
    }
    connection->read_on = 1;
    return KN_OK;
}

/* --- time and steps --- */

static int connection_expire(struct kn_connection *connection, int64_t now_us)
{
    if (now_us < connection->check_at_us) return KN_OK;
    connection->check_at_us = KN_NEVER;
    struct kn_list *lists[2] = {&connection->in_flight, &connection->queued};
    for (int i = 0; i < 2; i++) {
        for (struct kn_list *node = lists[i]->next; node != lists[i]; node = node->next) {
            struct kn_request *request = KN_LIST_ENTRY(node, struct kn_request, node);
            if (request->deadline_us <= now_us) {
                return connection_fail(
                    connection, KN_ERR_TIMED_OUT,
                    "no response in time (API %d v%d, correlation id %d, %s, %d requests waiting)",
                    request->api_key, request->api_version, (int)request->correlation_id,
                    i == 0                 ? "sent"
                    : request->was_written ? "partly sent"
                                           : "not sent",
                    connection->request_count);
            }
            if (request->deadline_us < connection->check_at_us)
                connection->check_at_us = request->deadline_us;
        }
    }
    return KN_OK;
}

int kn_connection_step(struct kn_connection *connection, short revents, int64_t now_us)
{
    int status = KN_OK;
    connection->now_us = now_us;
    if (connection->state == KN_CONNECTION_CLOSED) return KN_OK;
    if (connection->state == KN_CONNECTION_CONNECTING) {
        status = connection_connect_step(connection, revents, now_us);
        if (status || connection->state != KN_CONNECTION_UP) return status;
    } else {
        int wanted = revents & (POLLIN | POLLHUP | POLLERR | connection->stream.wants);
        if (wanted || connection->read_on) status = connection_read(connection);
        if (status && connection->peer_closed != KN_PEER_CLOSED_IDLE)
            kn_count(&connection->stats.rx_errors, 1);
        if (status) return status;
        if (revents & POLLOUT) connection->write_blocked = 0;
    }
    status = connection_write(connection, now_us);
    return status ? status : connection_expire(connection, now_us);
}

int kn_connection_poll_fd(const struct kn_connection *connection, short *events)
{
    *events = connection->stream.wants;
    if (connection->state == KN_CONNECTION_CONNECTING && !connection->starting) *events |= POLLOUT;
    if (connection->state == KN_CONNECTION_UP)
        *events |= connection->write_blocked ? POLLIN | POLLOUT : POLLIN;
    return connection->stream.fd;
}

bool kn_connection_is_receiving(const struct kn_connection *connection)
{
    return connection->frame != NULL;
}

int64_t kn_connection_next_deadline_us(const struct kn_connection *connection)
{
    if (connection->state == KN_CONNECTION_CONNECTING) return connection->setup_deadline_us;
    /* More bytes to read or write than one step allows: continue at once. */
    if (connection->state == KN_CONNECTION_UP && connection->read_on) return connection->now_us;
    if (connection->state == KN_CONNECTION_UP && !connection->write_blocked &&
        !kn_list_empty(&connection->queued))
        return connection->now_us;
    return connection->check_at_us;
}

void kn_connection_close(struct kn_connection *connection, int status)
{
    kn_stream_close(&connection->stream);
    connection->state = KN_CONNECTION_CLOSED;
    connection->starting = connection->write_blocked = connection->read_on = 0;
    connection_rewind(connection);
    /* the response may have a token's secret */
    if (connection->frame) kn_wipe(connection->frame->data, connection->frame->size_bytes);
    if (connection->ahead) kn_wipe(connection->ahead->data, READ_AHEAD_BYTES);
    kn_buffer_give(connection->frame);
    kn_buffer_give(connection->ahead);
    connection->frame = connection->ahead = NULL;
    connection->ahead_at = connection->ahead_end = 0;
    connection->unsent_bytes = 0;
    connection->in_flight_count = 0;
    kn_note(&connection->stats.queued, 0);
    kn_note(&connection->stats.queued_messages, 0);
    kn_note(&connection->stats.waiting, 0);
    kn_note(&connection->stats.waiting_messages, 0);
    struct kn_list failed;
    kn_list_init(&failed);
    kn_list_splice_back(&failed, &connection->in_flight);
    kn_list_splice_back(&failed, &connection->queued);
    struct kn_list *node;
    while ((node = kn_list_first(&failed))) {
        struct kn_request *request = KN_LIST_ENTRY(node, struct kn_request, node);
        if (kn_log_is_on(connection->log, KN_LOG_PROTOCOL)) {
            kn_log_write(connection->log, KN_LOG_PROTOCOL, connection->broker, request->api_key,
                         "v%d request without a response: correlation id %d, %s: %s",
                         request->api_version, (int)request->correlation_id,
                         request->was_written ? "sent" : "not sent", kn_status_text(status));
        }
        int cut_off = status == KN_ERR_TIMED_OUT && request->deadline_us > connection->now_us;
        if (status == KN_ERR_TIMED_OUT && !cut_off) kn_count(&connection->stats.timeouts, 1);
        connection_complete(connection, request, cut_off ? KN_ERR_TRANSPORT : status, NULL,
                            kn_span_of("", 0));
    }
}
