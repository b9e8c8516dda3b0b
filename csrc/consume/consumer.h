/* The state that all cursors and fetchers of a client share.
 *
 * Thread: any; immutable or atomic. Lock: none. Who frees: the engine embeds it.
 */
#ifndef KN_CONSUME_CONSUMER_H
#define KN_CONSUME_CONSUMER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "net/client.h"

/* The numbers are those of Kafka's protocol (KIP-98). */
enum kn_isolation_level { KN_ISOLATION_READ_UNCOMMITTED = 0, KN_ISOLATION_READ_COMMITTED = 1 };

struct kn_fetch_config {
    int32_t fetch_min_bytes, fetch_wait_max_ms, fetch_max_bytes, partition_fetch_bytes;
    /* the partitions of a broker share this many bytes of a request, if that is more than
     * partition_fetch_bytes each */
    int32_t shared_fetch_bytes;
    int64_t queued_max_bytes;    /* queued.max.messages.kbytes * 1024, for the whole client */
    int64_t queued_min_messages; /* queued.min.messages, of each partition */
    int32_t fetch_error_backoff_ms;
    bool check_crcs, partition_eof;
    /* report the end of a partition only after an empty response, as librdkafka does */
    bool partition_eof_when_empty;
    int8_t isolation_level; /* enum kn_isolation_level */
    size_t decompressed_max_bytes;
    char rack[256]; /* client.rack */
};

struct kn_consumer {
    /* immutable */
    const struct kn_fetch_config *config;
    struct kn_client *client;
    /* atomic */
    _Atomic int64_t queued_bytes; /* fetched and not yet consumed, with its segments */
    _Atomic int64_t received_messages, received_bytes; /* fetched since the start */
    atomic_int starved;       /* a fetcher waits for queued_bytes to fall */
    atomic_int fetcher_count; /* brokers that the client fetches from */
    atomic_int keeps_batches; /* fetched batches stay unopened */
};

/* Called when segments are freed: wakes fetchers that had reached the limit. */
static inline void kn_consumer_consumed(struct kn_consumer *consumer, int64_t size_bytes)
{
    int64_t left = atomic_fetch_sub(&consumer->queued_bytes, size_bytes) - size_bytes;
    /* A fetcher sets `starved` and then reads queued_bytes again; this function does the reverse.
     * Both are sequentially consistent, so at least one sees the other, and no fetcher waits for
     * ever. */
    if (!atomic_load(&consumer->starved) || left >= consumer->config->queued_max_bytes) return;
    if (atomic_exchange(&consumer->starved, 0))
        consumer->client->on->queue_has_room(consumer->client->owner);
}

#endif
