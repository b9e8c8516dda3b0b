/* Counting for statistics, where it happens: counters, windows of latencies and sizes, and means
 * for the metrics that brokers ask for.
 *
 * Thread: a counter has one writer, its broker's thread, and is stored and read as a relaxed
 * atomic: a move, no locked instruction. What is counted of a partition that is produced to is
 * plain and under the lock that is held anyway. Windows exist with statistics.interval.ms only;
 * they are recorded once a request or batch, never once a message. Means are there always and
 * recorded, once a request or batch, while a flag is up: no clock is read for them before.
 * Who frees: windows belong to their broker or topic, means are part of their broker. Who reads:
 * stats.h.
 */
#ifndef KN_NET_COUNTING_H
#define KN_NET_COUNTING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/histogram.h"

/* requests are counted by their API key; those of a higher one not at all */
#define KN_STATS_APIS 128

/* A counter with one writer. */
static inline void kn_count(_Atomic int64_t *counter, int64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}
static inline void kn_note(_Atomic int64_t *gauge, int64_t value)
{
    atomic_store_explicit(gauge, value, memory_order_relaxed);
}
static inline int64_t kn_counted(_Atomic int64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

struct kn_broker_windows {
    struct kn_histogram int_latency;    /* microseconds from produce() to a request */
    struct kn_histogram outbuf_latency; /* microseconds from there until it is written */
    struct kn_histogram rtt;            /* microseconds from there to its answer */
    struct kn_histogram throttle;       /* milliseconds */
};

enum kn_mean_kind { KN_MEAN_QUEUED, KN_MEAN_PRODUCE, KN_MEAN_FETCH, KN_MEAN_OTHER, KN_MEAN_KINDS };

struct kn_mean { /* one writer, its broker's thread */
    _Atomic int64_t count, sum;
    /* since it was read last: the reader sets it to 0, and of two values at that moment the smaller
     * one may be missed */
    _Atomic int64_t max;
};

struct kn_means {
    /* microseconds: how old batches are when they leave the queue, and how long requests of a kind
     * take */
    const atomic_int *on; /* immutable; whether anything is recorded */
    struct kn_mean kinds[KN_MEAN_KINDS];
};

static inline bool kn_means_on(const struct kn_means *means)
{
    return means && atomic_load_explicit(means->on, memory_order_relaxed);
}
static inline void kn_mean_record(struct kn_mean *mean, int64_t value)
{
    kn_count(&mean->count, 1);
    kn_count(&mean->sum, value);
    if (value > kn_counted(&mean->max)) kn_note(&mean->max, value);
}

struct kn_broker_windows *kn_broker_windows_new(void); /* NULL: no memory */
/* Broker thread: the answer to a request of this API has come after so long. With windows NULL and
 * means that are off: nothing is recorded. */
void kn_count_answer(struct kn_broker_windows *windows, struct kn_means *means, int16_t api_key,
                     int64_t rtt_us);
/* A request was held back by a quota. */
void kn_count_throttle(struct kn_broker_windows *windows, int64_t throttle_ms);

#endif
