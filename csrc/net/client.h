/* The state that all parts of a client share: configuration, memory, codecs, events, and the
 * owner's functions.
 *
 * Thread: any. Lock: none of its own; each part guards itself. Who frees: the engine embeds it. */
#ifndef KN_NET_CLIENT_H
#define KN_NET_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "net/broker_events.h"
#include "net/connection.h"
#include "net/control_queue.h"
#include "net/events.h"
#include "net/log.h"
#include "net/reserve.h"
#include "records/codec.h"

struct kn_client_config {
    char client_id[256];
    struct kn_connection_config connection;
    int32_t reconnect_backoff_ms, reconnect_backoff_max_ms;
    int32_t request_timeout_ms;      /* socket.timeout.ms: for Fetch */
    int32_t connections_max_idle_ms; /* 0: never */
    /* statistics.interval.ms is set: record latencies and sizes */
    bool statistics;
    uint32_t log_contexts; /* property `debug`: the contexts of struct kn_log */
};

struct kn_client {
    /* immutable */
    const struct kn_client_config *config;
    const struct kn_client_events *on;
    void *owner;
    struct kn_codec_table codecs; /* the binding may replace entries before the start */
    struct kn_pool *pool;
    struct kn_control_queue
        *control;   /* events for the control thread; other engines may share it */
    int32_t number; /* the engine's among those that share `control` */
    /* guards itself */
    struct kn_log log; /* log lines in `control` */
    /* memory for ops that must not be lost when malloc() fails */
    struct kn_reserve spare_ops;
    /* atomic */
    atomic_int measuring; /* > 0: brokers record means (counting.h) */
};

static inline void kn_client_post_event(struct kn_client *client, struct kn_event *event)
{
    event->engine = client->number;
    kn_queue_push(&client->control->events, &event->node);
}
/* Any thread, without a lock held: passes on a batch that has its outcome. The owner returns its
 * budget. It reports the batch if a report is wanted, else frees it. */
static inline void kn_client_deliver(struct kn_client *client, struct kn_batch *batch)
{
    client->on->delivered(client->owner, batch);
}

#endif
