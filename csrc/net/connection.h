/* One TCP connection: connects, writes requests, reads responses, matches them to requests, and
 * times requests out.
 *
 * Thread: the broker thread only. No locks.
 * Who frees: a request belongs to its maker. The connection holds it from send() until it has
 * called on_done exactly once (also with an error, from close()). */
#ifndef KN_NET_CONNECTION_H
#define KN_NET_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include "base/buffer.h"
#include "base/list.h"
#include "base/span.h"
#include "net/address.h"
#include "net/chunk.h"
#include "net/counting.h"

struct kn_log;
struct kn_proxy;
struct kn_request;
struct kn_stream;
struct kn_tls;

/* The broker thread calls it exactly once per request.
 * - KN_OK: `body` is the response after its header. It points into `chunk`; take a reference to
 *   keep it. A NO_REPLY request is done once it is written, and its chunk is NULL.
 * - Otherwise: KN_ERR_TRANSPORT, KN_ERR_TIMED_OUT, KN_ERR_PROTOCOL, KN_ERR_CLOSED ...
 *   request->was_written shows whether any byte was sent. */
typedef void kn_request_done_fn(struct kn_request *request, int status, struct kn_chunk *chunk,
                                struct kn_span body);

#define KN_REQUEST_HANDSHAKE 1      /* may be sent before the broker is open */
#define KN_REQUEST_NO_REPLY 2       /* acks=0 */
#define KN_REQUEST_FLEXIBLE_REPLY 4 /* response header v1 (tagged fields) */
/* Length and body, without any header, in both directions. SASL before Kafka 1.0 has such frames.
 * No other request is in flight meanwhile. */
#define KN_REQUEST_RAW 8

struct kn_request {
    struct kn_list node;
    int16_t api_key;
    int16_t api_version;
    uint8_t flags;
    uint8_t was_written;    /* set when the kernel has taken the first byte */
    int32_t correlation_id; /* set by send() */
    int64_t deadline_us;
    /* if not 0: only for that connection (the broker uses it while the request waits) */
    int32_t generation;
    int64_t sent_us;       /* when the kernel took the last byte */
    int64_t queued_us;     /* with windows: when the request was queued */
    int32_t message_count; /* messages of a Produce request */
    /* the whole frame; the first piece begins with the 4-byte length. Writes move the pieces
     * forward in place */
    struct iovec *pieces;
    int piece_count;
    int piece_next;
    size_t frame_bytes; /* including the length */
    kn_request_done_fn *on_done;
    void *context;
};

struct kn_connection_config {
    size_t receive_max_bytes; /* receive.message.max.bytes */
    int32_t setup_timeout_ms; /* socket.connection.setup.timeout.ms */
    struct kn_socket_config socket;
    struct kn_tls *tls;     /* NULL: plain TCP */
    struct kn_proxy *proxy; /* NULL: connect to the brokers directly */
};

struct kn_connection_stats {
    /* since kn_connection_new(); its thread writes them, any thread reads them (kn_counted()) */
    _Atomic int64_t tx, tx_bytes, rx, rx_bytes; /* requests written, responses read */
    _Atomic int64_t reads, writes;              /* system calls */
    /* failed writes; failed reads and malformed or incomplete responses */
    _Atomic int64_t tx_errors, rx_errors;
    /* of the rx_errors: responses without a matching request */
    _Atomic int64_t rx_unmatched;
    _Atomic int64_t timeouts;               /* requests that timed out */
    _Atomic int64_t last_tx_us, last_rx_us; /* 0: never */
    /* requests that aren't fully written now */
    _Atomic int64_t queued, queued_messages;
    _Atomic int64_t waiting, waiting_messages; /* requests that wait for their responses now */
    _Atomic int64_t requests[KN_STATS_APIS];   /* written requests, by API key */
};

enum kn_connection_state { KN_CONNECTION_CLOSED, KN_CONNECTION_CONNECTING, KN_CONNECTION_UP };

struct kn_connection; /* defined in connection.c */

struct kn_connection *kn_connection_new(const struct kn_connection_config *config,
                                        struct kn_pool *pool);
void kn_connection_free(struct kn_connection *connection); /* must be closed */
/* Makes the connection log its requests and responses (context protocol) under this broker's name.
 * Call before the first open(). */
void kn_connection_set_log(struct kn_connection *connection, struct kn_log *log, int32_t broker);
enum kn_connection_state kn_connection_state(const struct kn_connection *connection);
/* Resolves the host (this blocks, so call it without a lock) and starts a non-blocking connect, to
 * the proxy if there is one. Tries the next address if one fails. KN_CONNECTION_UP includes the
 * proxy's tunnel and TLS. KN_OK: connecting or up (see kn_connection_state()). After an error
 * nothing is open. */
int kn_connection_open(struct kn_connection *connection, const char *host, uint16_t port,
                       int64_t now_us);
/* Queues the request, and step() writes it. The connection must be up. */
void kn_connection_send(struct kn_connection *connection, struct kn_request *request,
                        int64_t now_us);
/* requests that are sent or queued and not done */
int kn_connection_in_flight(const struct kn_connection *connection);
size_t kn_connection_unsent_bytes(const struct kn_connection *connection);
/* requests that are queued or partly written */
int kn_connection_unsent_requests(const struct kn_connection *connection);
/* Returns the arguments for poll(2): the descriptor (-1 when closed) and the events. */
int kn_connection_poll_fd(const struct kn_connection *connection, short *events);
/* Continues connecting, writing and reading after poll(2) returned `revents`, and calls on_done of
 * finished requests. After an error the caller closes the connection. */
int kn_connection_step(struct kn_connection *connection, short revents, int64_t now_us);
/* part of a response has arrived */
bool kn_connection_is_receiving(const struct kn_connection *connection);
int64_t kn_connection_next_deadline_us(const struct kn_connection *connection);
/* Closes the socket and fails all requests in flight or queued with `status`, in order. With
 * KN_ERR_TIMED_OUT, requests whose deadline hasn't passed get KN_ERR_TRANSPORT. */
void kn_connection_close(struct kn_connection *connection, int status);
/* Text for users: the cause of the last failure, and the peer's address. */
const char *kn_connection_error_text(const struct kn_connection *connection);
/* "address:port" of the peer, or "proxy" and the proxy's; "" before it is known */
const char *kn_connection_peer_text(const struct kn_connection *connection);
/* after KN_ERR_TLS: the stream has the details of the failure */
const struct kn_stream *kn_connection_stream(const struct kn_connection *connection);
/* The last step() failed because the peer closed an idle connection: nothing was queued, in flight
 * or partly received. This is no error. */
bool kn_connection_was_idle_close(const struct kn_connection *connection);
struct kn_connection_stats *kn_connection_stats(struct kn_connection *connection);
/* Any thread: adds the connection's counts to `traffic`. */
void kn_connection_add_traffic(struct kn_connection *connection, struct kn_traffic *traffic);
/* Records latencies in `windows` and `means` from now on; NULL: stops recording. */
void kn_connection_measure(struct kn_connection *connection, struct kn_broker_windows *windows,
                           struct kn_means *means);
/* whether the last failure was that the peer closed or reset the connection: enum kn_peer_closed */
int kn_connection_peer_closed(const struct kn_connection *connection);
/* so that a forked child can close it; -1: closed */
int kn_connection_fd(const struct kn_connection *connection);

#endif
