/* The state of a broker that its sender, its fetcher and its requests use. broker_thread.h has its
 * thread.
 *
 * Thread: each group of fields names its threads.
 * Who frees: struct kn_broker_thread embeds it. It lives as long as its engine, so pointers to it
 * stay valid. */
#ifndef KN_NET_BROKER_H
#define KN_NET_BROKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/span.h"
#include "net/broker_events.h"
#include "net/client.h"
#include "net/counting.h"

struct kn_heartbeat;

enum kn_broker_state {
    KN_BROKER_INIT, /* never connected, or closed because nothing needed the connection */
    KN_BROKER_DOWN,
    KN_BROKER_CONNECTING,
    KN_BROKER_HANDSHAKE,
    KN_BROKER_UP,
    KN_BROKER_STOPPED
};

struct kn_broker {
    /* immutable */
    struct kn_client *client;
    const struct kn_broker_events *on;
    void *owner;
    int32_t handle;
    int32_t node_id; /* -1: bootstrap */
    char *host;
    uint16_t port;
    struct kn_connection *connection;  /* broker thread only; NULL: released */
    struct kn_broker_windows *windows; /* NULL: no statistics */
    /* broker thread only */
    /* the heartbeat of this connection, sent repeatedly; NULL: none */
    struct kn_heartbeat *heartbeat;
    int32_t generation;
    /* atomic */
    atomic_int state; /* enum kn_broker_state; any thread may read it */
    _Atomic int64_t state_since_us;
    _Atomic int64_t connects, disconnects, wakeups; /* connects: attempts to connect */
    _Atomic int64_t retries;                        /* batches that are tried again */
    _Atomic int64_t unsent_timeouts, partial_batches;
    atomic_bool in_client_rack; /* its rack is client.rack */
    /* when the last answered heartbeat was sent; 0: none was answered */
    _Atomic int64_t heartbeat_sent_us;
    /* Produce requests in flight; threads that choose a partition read it */
    atomic_int in_flight;
    /* the time when a batch became due that can't be sent, because the broker isn't connected, is
     * throttled, or has too much in flight; 0: none */
    _Atomic int64_t blocked_since_us;
    struct kn_means means;
};

/* *broker must be all zero. KN_OK or KN_ERR_NOMEM; after an error there is nothing to deinit. */
int kn_broker_init(struct kn_broker *broker, struct kn_client *client,
                   const struct kn_broker_events *on, void *owner, int32_t handle, int32_t node_id,
                   const char *host, uint16_t port);
void kn_broker_deinit(struct kn_broker *broker);
/* Control thread, after the broker's thread has ended: frees what only that thread and the
 * statistics use. Adds the connection's counts to `traffic`. The rest stays valid, because
 * partitions, cursors and requests may still point to it. */
void kn_broker_release(struct kn_broker *broker, struct kn_traffic *traffic);
static inline int kn_broker_state_now(struct kn_broker *broker)
{
    return atomic_load_explicit(&broker->state, memory_order_acquire);
}
/* Any thread: when the last answered heartbeat was sent; 0: none was answered. */
static inline int64_t kn_broker_heartbeat_sent_us(struct kn_broker *broker)
{
    return atomic_load_explicit(&broker->heartbeat_sent_us, memory_order_relaxed);
}
/* Any thread: whether the broker's rack is client.rack. */
static inline void kn_broker_set_in_client_rack(struct kn_broker *broker, bool in_client_rack)
{
    atomic_store_explicit(&broker->in_client_rack, in_client_rack, memory_order_relaxed);
}
/* Fills a REPLY event with an outcome and posts it. Broker thread; if the broker was stopped
 * already, the caller's thread. */
void kn_broker_post_reply(struct kn_broker *broker, struct kn_event *event, int32_t generation,
                          int status, struct kn_chunk *chunk, struct kn_span body);

/* These functions call struct kn_broker_events. */
static inline void kn_broker_notify(struct kn_broker *broker, struct kn_accumulator *accumulator,
                                    int64_t at_us)
{
    broker->on->accumulator_ready(broker->owner, accumulator, at_us);
}
static inline void kn_broker_wake_cursor(struct kn_broker *broker, struct kn_cursor *cursor)
{
    broker->on->cursor_ready(broker->owner, cursor);
}
static inline void kn_broker_wake(struct kn_broker *broker) { broker->on->wake(broker->owner); }
static inline void kn_broker_send(struct kn_broker *broker, struct kn_request *request,
                                  int64_t now_us)
{
    broker->on->send(broker->owner, request, now_us);
}

#endif
