/* One TCP connection: connect, gather-write requests, read framed responses, match them, time them
 * out.
 *
 * Thread: its broker's only. No locks. Who frees: requests belong to whoever made them; the
 * connection holds a request from send() until it has called on_done exactly once (also with an
 * error, from close()).
 */
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

/* Broker thread, exactly once a request. status KN_OK: `body` is the response after its header and
 * borrows from `chunk` (ref to keep; a NO_REPLY request completes with chunk NULL once written).
 * Otherwise KN_ERR_TRANSPORT, KN_ERR_TIMED_OUT, KN_ERR_PROTOCOL, KN_ERR_CLOSED ...;
 * request->was_written tells whether any byte had left. */
typedef void kn_request_done_fn(struct kn_request *request, int status, struct kn_chunk *chunk,
                                struct kn_span body);

#define KN_REQUEST_HANDSHAKE 1      /* may go out before the broker is open */
#define KN_REQUEST_NO_REPLY 2       /* acks=0 */
#define KN_REQUEST_FLEXIBLE_REPLY 4 /* response header v1 (tagged fields) */

struct kn_request {
    struct kn_list node;
    int16_t api_key;
    int16_t api_version;
    uint8_t flags;
    uint8_t was_written;    /* set when the first byte has been handed to the kernel */
    int32_t correlation_id; /* set by send() */
    int64_t deadline_us;
    /* != 0: for that connection only (the broker's bookkeeping while it waits) */
    int32_t generation;
    int64_t sent_us;       /* when the last byte was written */
    int64_t queued_us;     /* with windows: when it was queued */
    int32_t message_count; /* of a Produce */
    /* the whole frame, first piece starts with the 4-byte length; advanced in place by writes */
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
    struct kn_proxy *proxy; /* NULL: straight to the brokers */
};

struct kn_connection_stats {
    /* since kn_connection_new(); written by its thread, read by any (kn_counted()) */
    _Atomic int64_t tx, tx_bytes, rx, rx_bytes; /* requests written, responses read */
    _Atomic int64_t reads, writes;              /* system calls */
    /* writes that failed; reads that did, responses that can't be right, or were cut off */
    _Atomic int64_t tx_errors, rx_errors;
    /* of the latter: another correlation id than the one that was due, or none was */
    _Atomic int64_t rx_unmatched;
    _Atomic int64_t timeouts;               /* requests */
    _Atomic int64_t last_tx_us, last_rx_us; /* 0: never */
    /* now: to be written, the one that is half written among them */
    _Atomic int64_t queued, queued_messages;
    _Atomic int64_t waiting, waiting_messages; /* now: for their responses */
    _Atomic int64_t requests[KN_STATS_APIS];   /* written, by API key */
};

enum kn_connection_state { KN_CONNECTION_CLOSED, KN_CONNECTION_CONNECTING, KN_CONNECTION_UP };

struct kn_connection; /* defined in connection.c */

struct kn_connection *kn_connection_new(const struct kn_connection_config *config,
                                        struct kn_pool *pool);
void kn_connection_free(struct kn_connection *connection); /* closed */
/* Lets requests and responses be told (context protocol) as those of this broker. Before the first
 * open(). */
void kn_connection_set_log(struct kn_connection *connection, struct kn_log *log, int32_t broker);
enum kn_connection_state kn_connection_state(const struct kn_connection *connection);
/* Resolves (blocking, without any lock) and starts a non-blocking connect, to the proxy if there is
 * one; tries the next address when one fails. Up means: through the proxy, and with TLS. KN_OK:
 * under way or up already (see kn_connection_state()). Otherwise nothing is open. */
int kn_connection_open(struct kn_connection *connection, const char *host, uint16_t port,
                       int64_t now_us);
/* Queues the request; written by step(). The connection must be up. */
void kn_connection_send(struct kn_connection *connection, struct kn_request *request,
                        int64_t now_us);
/* sent or queued, not yet done */
int kn_connection_in_flight(const struct kn_connection *connection);
size_t kn_connection_unsent_bytes(const struct kn_connection *connection);
/* queued, or written in part */
int kn_connection_unsent_requests(const struct kn_connection *connection);
/* What to give poll(2): fd (-1 when closed) and events. */
int kn_connection_poll_fd(const struct kn_connection *connection, short *events);
/* Progresses connect, writes and reads after poll(2) returned `revents`; calls on_done of what
 * completed. KN_OK, or an error: the caller closes. */
int kn_connection_step(struct kn_connection *connection, short revents, int64_t now_us);
/* a response has come in part */
bool kn_connection_is_receiving(const struct kn_connection *connection);
int64_t kn_connection_next_deadline_us(const struct kn_connection *connection);
/* Closes the socket and fails everything in flight or queued with `status`, in order.
 * KN_ERR_TIMED_OUT is for those whose deadline has passed: the others were cut off by it and get
 * KN_ERR_TRANSPORT. */
void kn_connection_close(struct kn_connection *connection, int status);
/* Cause of the last failure with the peer's address, for humans. */
const char *kn_connection_error_text(const struct kn_connection *connection);
/* address and port of the peer, or "proxy" and its; "" before it is known */
const char *kn_connection_peer_text(const struct kn_connection *connection);
/* after KN_ERR_TLS: what it says of the failure */
const struct kn_stream *kn_connection_stream(const struct kn_connection *connection);
/* The last step() failed because the peer closed while nothing was queued, in flight or half
 * received: not an error. */
bool kn_connection_was_idle_close(const struct kn_connection *connection);
struct kn_connection_stats *kn_connection_stats(struct kn_connection *connection);
/* Latencies are recorded there from now on; NULL: no longer. */
void kn_connection_measure(struct kn_connection *connection, struct kn_broker_windows *windows,
                           struct kn_means *means);
/* the last failure was the peer's closing or resetting it: enum kn_peer_closed */
int kn_connection_peer_closed(const struct kn_connection *connection);
int kn_connection_fd(const struct kn_connection *connection); /* for a forked child to close; -1 */

#endif
