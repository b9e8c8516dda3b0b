/* A histogram with buckets that grow with the value (as in an HDR histogram). It computes the
 * percentiles of a window without keeping its values.
 *
 * Thread: any thread calls record(), without a lock: three or four relaxed atomics, meant for once
 * per batch or request. One thread at a time calls window().
 * Who frees: the owner embeds it. All zero is an empty histogram, except for the
 * fields that kn_histogram_init() sets.
 *
 * A window has the values that were recorded since the end of the last one. Buckets only rise, and
 * the reader remembers the counts it has seen. So no value is lost or counted twice. The sum and
 * extremes of a value that is being recorded may go into the next window.
 *
 * A value up to 255 has its own bucket. Above that, 128 buckets double the value, so a result is
 * less than 1 % too high. */
#ifndef KN_BASE_HISTOGRAM_H
#define KN_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#define KN_HISTOGRAM_FINE_BITS 7
#define KN_HISTOGRAM_VALUE_BITS 32 /* larger values only count as out of range */
#define KN_HISTOGRAM_BUCKETS                                                                       \
    ((KN_HISTOGRAM_VALUE_BITS - KN_HISTOGRAM_FINE_BITS + 1) << KN_HISTOGRAM_FINE_BITS)

struct kn_histogram {
    _Atomic uint32_t counts[KN_HISTOGRAM_BUCKETS]; /* may wrap: only differences are used */
    _Atomic uint32_t out_of_range;
    _Atomic uint32_t min, max; /* of the window */
    _Atomic int64_t sum;
    /* the reader's fields */
    uint32_t seen[KN_HISTOGRAM_BUCKETS];
    uint32_t seen_out_of_range;
    int64_t seen_sum;
};

struct kn_window { /* librdkafka's names; all 0 if cnt is 0 */
    int64_t min, max, avg, sum, stddev, p50, p75, p90, p95, p99, p99_99, outofrange;
    int64_t hdrsize; /* size of the buckets in bytes */
    int64_t cnt;
};

void kn_histogram_init(struct kn_histogram *histogram);
/* Records the value `count` times; a negative one (a clock was read late) counts as 0. */
void kn_histogram_record(struct kn_histogram *histogram, int64_t value, uint32_t count);
/* Returns the values since the end of the last window; `end`: ends this window. */
void kn_histogram_window(struct kn_histogram *histogram, int end, struct kn_window *window);

#endif
