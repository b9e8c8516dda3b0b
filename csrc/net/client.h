/* What all parts of one client share: its configuration, memory, codecs, events, and who takes what
 * they make.
 *
 * Thread: any. Lock: none of its own; each part guards itself. Who frees: the engine embeds it.
 */
#ifndef KN_NET_CLIENT_H
#define KN_NET_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "net/broker_events.h"
#include "net/connection.h"
#include "net/events.h"
#include "net/log.h"
#include "net/queue.h"
#include "net/reserve.h"
#include "records/codec.h"

struct kn_client_config {
    char client_id[256];
    struct kn_connection_config connection;
    int32_t reconnect_backoff_ms, reconnect_backoff_max_ms;
    int32_t request_timeout_ms;      /* socket.timeout.ms: fetches */
    int32_t connections_max_idle_ms; /* 0: never */
    /* statistics.interval.ms is set: latencies and sizes are recorded */
    bool statistics;
    uint32_t log_contexts; /* debug: struct kn_log's contexts */
};

struct kn_client {
    /* immutable */
    const struct kn_client_config *config;
    const struct kn_client_events *on;
    void *owner;
    struct kn_codec_table codecs; /* the binding may replace entries before start */
    struct kn_pool *pool;
    /* guards itself */
    struct kn_queue events;                    /* struct kn_event: control thread */
    struct kn_log log;                         /* lines in `events` */
    struct kn_reserve spare_events, spare_ops; /* what must not get lost for want of memory */
    /* atomic */
    atomic_int measuring; /* brokers record means (counting.h) */
};

static inline void kn_client_post_event(struct kn_client *client, struct kn_event *event)
{
    kn_queue_push(&client->events, &event->node);
}
/* A batch with its outcome: reported if anybody wants to know, else freed. Budget returned. Any
 * thread, no lock held. */
static inline void kn_client_deliver(struct kn_client *client, struct kn_batch *batch)
{
    client->on->delivered(client->owner, batch);
}

#endif
