/* Counts of values in buckets that grow with the value (as in an HDR histogram): percentiles of a
 * window without keeping its values.
 *
 * Thread: record() from any thread, without lock: three or four relaxed atomics, meant for once a
 * batch or request. window() from one thread at a time. A window is what was recorded since the one
 * before it was ended; buckets only rise, the reader remembers what it has seen. So nothing
 * recorded is lost or counted twice, whatever the moment. Sum and extremes of a value that is being
 * recorded may fall into the next window.
 * Who frees: whoever embeds it; all zero is an empty one, but for kn_histogram_init().
 *
 * A value up to 255 has a bucket of its own; above, 128 buckets double the value, so what is told
 * is less than 1 % too high.
 */
#ifndef KN_BASE_HISTOGRAM_H
#define KN_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#define KN_HISTOGRAM_FINE_BITS 7
#define KN_HISTOGRAM_VALUE_BITS 32 /* larger values are only counted, as out of range */
#define KN_HISTOGRAM_BUCKETS                                                                       \
    ((KN_HISTOGRAM_VALUE_BITS - KN_HISTOGRAM_FINE_BITS + 1) << KN_HISTOGRAM_FINE_BITS)

struct kn_histogram {
    _Atomic uint32_t counts[KN_HISTOGRAM_BUCKETS]; /* may wrap: only differences are looked at */
    _Atomic uint32_t out_of_range;
    _Atomic uint32_t least, max; /* of the window */
    _Atomic int64_t sum;
    /* the reader's */
    uint32_t seen[KN_HISTOGRAM_BUCKETS];
    uint32_t seen_out_of_range;
    int64_t seen_sum;
};

struct kn_window { /* librdkafka's names; all 0 when cnt is 0 */
    int64_t min, max, avg, sum, stddev, p50, p75, p90, p95, p99, p99_99, outofrange;
    int64_t hdrsize; /* bytes of the buckets */
    int64_t cnt;
};

void kn_histogram_init(struct kn_histogram *histogram);
/* `count` times the value; a negative one (a clock was read late) counts as 0. */
void kn_histogram_record(struct kn_histogram *histogram, int64_t value, uint32_t count);
/* What was recorded since the last window was ended; `end`: this one ends. */
void kn_histogram_window(struct kn_histogram *histogram, int end, struct kn_window *window);

#endif
