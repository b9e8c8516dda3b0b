/* A histogram and the values of a window: see histogram.h. */
#include "base/histogram.h"

#include <string.h>

#define FINE (1u << KN_HISTOGRAM_FINE_BITS)

static uint32_t bucket_of(uint32_t value)
{
    if (value < 2 * FINE) return value;
    uint32_t shift = 31u - (uint32_t)__builtin_clz(value) - KN_HISTOGRAM_FINE_BITS;
    return (shift << KN_HISTOGRAM_FINE_BITS) + (value >> shift);
}

static int64_t lowest_of(uint32_t bucket)
{
    if (bucket < 2 * FINE) return bucket;
    return (int64_t)(bucket % FINE + FINE) << (bucket / FINE - 1);
}

static int64_t highest_of(uint32_t bucket) { return lowest_of(bucket + 1) - 1; }

void kn_histogram_init(struct kn_histogram *histogram)
{
    memset(histogram, 0, sizeof *histogram);
    atomic_init(&histogram->min, UINT32_MAX);
}

void kn_histogram_record(struct kn_histogram *histogram, int64_t value, uint32_t count)
{
    if (value < 0) value = 0;
    if (value >> KN_HISTOGRAM_VALUE_BITS) {
        atomic_fetch_add_explicit(&histogram->out_of_range, count, memory_order_relaxed);
        return;
    }
    uint32_t it = (uint32_t)value;
    /* With two threads at once, one of two extremes may be lost; the buckets still have it to
     * within 1 %. */
    if (it < atomic_load_explicit(&histogram->min, memory_order_relaxed))
        atomic_store_explicit(&histogram->min, it, memory_order_relaxed);
    if (it > atomic_load_explicit(&histogram->max, memory_order_relaxed))
        atomic_store_explicit(&histogram->max, it, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum, value * count, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->counts[bucket_of(it)], count, memory_order_relaxed);
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Newton's method, so that libm isn't needed. */
static int64_t square_root(double square)
{
    if (square < 1) return 0;
    double root = square;
    for (int i = 0; i < 64; i++) {
        double next = (root + square / root) / 2;
        if (next >= root) break;
        root = next;
    }
    return (int64_t)(root + 0.5);
}

/* Returns the value that `share` of 10000 values don't exceed. */
static int64_t percentile(const uint32_t *counts, const struct kn_window *window, int64_t share)
{
    /* rounded up, without a large product */
    int64_t rank = (window->cnt / 10000) * share + (window->cnt % 10000 * share + 9999) / 10000;
    int64_t passed = 0;
    if (rank < 1) rank = 1;
    for (uint32_t i = 0; i < KN_HISTOGRAM_BUCKETS; i++) {
        passed += counts[i];
        if (passed >= rank) return clamp(highest_of(i), window->min, window->max);
    }
    return window->max;
}

static void summarise(const uint32_t *counts, int64_t min, int64_t max, struct kn_window *window)
{
    uint32_t first = KN_HISTOGRAM_BUCKETS, last = 0;
    for (uint32_t i = 0; i < KN_HISTOGRAM_BUCKETS; i++) {
        if (!counts[i]) continue;
        window->cnt += counts[i];
        if (first == KN_HISTOGRAM_BUCKETS) first = i;
        last = i;
    }
    if (window->cnt == 0) {
        window->sum = 0;
        return;
    }
    /* An extreme may be another window's, or lost (see record()): then its bucket gives it. */
    window->min = min >= lowest_of(first) && min <= highest_of(first) ? min : lowest_of(first);
    window->max = max >= lowest_of(last) && max <= highest_of(last) && max >= window->min
                      ? max
                      : highest_of(last);
    window->avg = clamp(window->sum / window->cnt, window->min, window->max);
    double squares = 0;
    for (uint32_t i = first; i <= last; i++) {
        double away = (double)(lowest_of(i) + highest_of(i)) / 2 -
                      (double)window->sum / (double)window->cnt;
        squares += counts[i] * away * away;
    }
    window->stddev = first == last ? 0 : square_root(squares / (double)window->cnt);
    window->p50 = percentile(counts, window, 5000);
    window->p75 = percentile(counts, window, 7500);
    window->p90 = percentile(counts, window, 9000);
    window->p95 = percentile(counts, window, 9500);
    window->p99 = percentile(counts, window, 9900);
    window->p99_99 = percentile(counts, window, 9999);
}

void kn_histogram_window(struct kn_histogram *histogram, int end, struct kn_window *window)
{
    uint32_t counts[KN_HISTOGRAM_BUCKETS];
    uint32_t min = atomic_load_explicit(&histogram->min, memory_order_relaxed);
    uint32_t max = atomic_load_explicit(&histogram->max, memory_order_relaxed);
    if (end) {
        atomic_store_explicit(&histogram->min, UINT32_MAX, memory_order_relaxed);
        atomic_store_explicit(&histogram->max, 0, memory_order_relaxed);
    }
    memset(window, 0, sizeof *window);
    window->hdrsize = sizeof histogram->counts;
    for (uint32_t i = 0; i < KN_HISTOGRAM_BUCKETS; i++) {
        uint32_t now = atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
        counts[i] = now - histogram->seen[i];
        if (end) histogram->seen[i] = now;
    }
    int64_t sum = atomic_load_explicit(&histogram->sum, memory_order_relaxed);
    uint32_t out_of_range = atomic_load_explicit(&histogram->out_of_range, memory_order_relaxed);
    window->sum = sum - histogram->seen_sum;
    window->outofrange = out_of_range - histogram->seen_out_of_range;
    summarise(counts, min, max, window);
    if (!end) return;
    histogram->seen_out_of_range = out_of_range;
    /* without values in the buckets the sum goes into the next window, with its values */
    if (window->cnt) histogram->seen_sum = sum;
}
