/* Counters for statistics, updated where the events happen: counters, windows of latencies and
 * sizes, and means for the metrics that brokers request.
 *
 * Thread: a counter has one writer, its broker thread, which stores it as a relaxed atomic (a plain
 * move). The counters of a partition that is produced to are plain fields under a lock that is held
 * anyway. Windows exist only with statistics.interval.ms. Means always exist, and threads record
 * them, and read a clock for them, only while a flag is set. Both are recorded once per request or
 * batch, never once per message.
 * Who frees: windows belong to their broker or topic; means are part of their broker. Who reads:
 * stats.h. */
#ifndef KN_NET_COUNTING_H
#define KN_NET_COUNTING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/histogram.h"

/* requests are counted by API key; higher keys aren't counted */
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

struct kn_traffic { /* requests written, responses read, and their bytes */
    int64_t tx, tx_bytes, rx, rx_bytes;
};

struct kn_broker_windows {
    struct kn_histogram int_latency;    /* microseconds from produce() to a request */
    struct kn_histogram outbuf_latency; /* microseconds until the request is written */
    struct kn_histogram rtt;            /* microseconds until its response */
    struct kn_histogram throttle;       /* milliseconds */
};

enum kn_mean_kind { KN_MEAN_QUEUED, KN_MEAN_PRODUCE, KN_MEAN_FETCH, KN_MEAN_OTHER, KN_MEAN_KINDS };

struct kn_mean { /* the broker thread is the only writer */
    _Atomic int64_t count, sum;
    /* since the last read. The reader sets it to 0; of two values that come at that moment, the
     * smaller one may get lost */
    _Atomic int64_t max;
};

struct kn_means {
    /* microseconds: the age of batches when they leave the queue, and the time that requests of a
     * kind take */
    const atomic_int *on; /* immutable; not 0: record */
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
/* Broker thread: counts a response to this API and its latency. Records nothing if `windows` is
 * NULL and the means are off. */
void kn_count_response(struct kn_broker_windows *windows, struct kn_means *means, int16_t api_key,
                       int64_t rtt_us);
/* Counts a response by which a quota throttled this client. */
void kn_count_throttle(struct kn_broker_windows *windows, int64_t throttle_ms);

#endif
