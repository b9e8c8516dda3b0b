/* Histograms against a plain computation over the same values. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/histogram.h"
#include "check.h"

#define COUNT 20000

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static struct kn_histogram *histogram_new(void)
{
    struct kn_histogram *histogram = malloc(sizeof *histogram);
    CHECK(histogram);
    kn_histogram_init(histogram);
    return histogram;
}

/* Checks that it isn't below the exact percentile, and at most 1 % above it. */
static void check_percentile(int64_t reported, const int64_t *sorted, int64_t count, int64_t share)
{
    int64_t rank = (count * share + 9999) / 10000;
    int64_t plain = sorted[rank < 1 ? 0 : rank - 1];
    CHECK(reported >= plain);
    CHECK(reported <= plain + plain / 100);
}

static void check_against_plain(int64_t *values, int64_t count)
{
    struct kn_histogram *histogram = histogram_new();
    struct kn_window window;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        kn_histogram_record(histogram, values[i], 1);
        sum += (double)values[i];
    }
    kn_histogram_window(histogram, 1, &window);
    qsort(values, (size_t)count, sizeof *values, by_value);
    for (int64_t i = 0; i < count; i++)
        squares += ((double)values[i] - sum / (double)count) *
                   ((double)values[i] - sum / (double)count);
    CHECK_EQ(window.cnt, count);
    CHECK_EQ(window.sum, (int64_t)sum);
    CHECK_EQ(window.avg, (int64_t)(sum / (double)count));
    CHECK_EQ(window.min, values[0]);
    CHECK_EQ(window.max, values[count - 1]);
    CHECK_EQ(window.outofrange, 0);
    CHECK_EQ(window.hdrsize, KN_HISTOGRAM_BUCKETS * 4);
    double variance = squares / (double)count,
           reported = (double)window.stddev * (double)window.stddev;
    /* the buckets' width, and rounding to a whole number */
    double slack = variance / 25 + 4 * (double)window.stddev + 4;
    CHECK(reported <= variance + slack && reported >= variance - slack);
    const int64_t shares[] = {5000, 7500, 9000, 9500, 9900, 9999};
    const int64_t got[] = {window.p50, window.p75, window.p90,
                           window.p95, window.p99, window.p99_99};
    for (int i = 0; i < 6; i++) check_percentile(got[i], values, count, shares[i]);
    free(histogram);
}

static void test_percentiles_are_those_of_the_values(void)
{
    static int64_t values[COUNT];
    for (int i = 0; i < COUNT; i++) values[i] = (int64_t)(check_random() % 200); /* exact */
    check_against_plain(values, COUNT);
    for (int i = 0; i < COUNT; i++) values[i] = (int64_t)(check_random() % 5000000);
    check_against_plain(values, COUNT);
    /* of every size */
    for (int i = 0; i < COUNT; i++)
        values[i] = (int64_t)(check_random() >> (32 + check_random() % 31));
    check_against_plain(values, COUNT);
    for (int i = 0; i < COUNT; i++) values[i] = 123456;
    check_against_plain(values, COUNT);
    for (int64_t count = 1; count < 40; count++) {
        for (int i = 0; i < count; i++) values[i] = (int64_t)(check_random() % 1000000);
        check_against_plain(values, count);
    }
}

static void test_every_size_is_reported_within_one_percent(void)
{
    struct kn_histogram *histogram = histogram_new();
    struct kn_window window;
    for (int64_t value = 0; value < (INT64_C(1) << KN_HISTOGRAM_VALUE_BITS);
         value += 1 + value / 97) {
        kn_histogram_record(histogram, value, 3);
        kn_histogram_window(histogram, 1, &window);
        CHECK_EQ(window.cnt, 3);
        CHECK_EQ(window.min, value);
        CHECK_EQ(window.max, value);
        CHECK_EQ(window.avg, value);
        CHECK_EQ(window.p50, value);
        CHECK_EQ(window.stddev, 0);
    }
    free(histogram);
}

static void test_too_large_and_negative_values_are_counted(void)
{
    struct kn_histogram *histogram = histogram_new();
    struct kn_window window;
    kn_histogram_record(histogram, -5, 1);
    kn_histogram_record(histogram, UINT32_MAX, 1);
    kn_histogram_record(histogram, (int64_t)UINT32_MAX + 1, 4);
    kn_histogram_record(histogram, INT64_MAX, 1);
    kn_histogram_window(histogram, 1, &window);
    CHECK_EQ(window.cnt, 2);
    CHECK_EQ(window.min, 0);
    CHECK_EQ(window.max, UINT32_MAX);
    CHECK_EQ(window.outofrange, 5);
    kn_histogram_window(histogram, 1, &window);
    CHECK_EQ(window.outofrange, 0);
    free(histogram);
}

static void test_a_window_has_the_values_since_the_last_one_ended(void)
{
    struct kn_histogram *histogram = histogram_new();
    struct kn_window window;
    kn_histogram_window(histogram, 0, &window);
    CHECK_EQ(window.cnt, 0);
    CHECK_EQ(window.min + window.max + window.avg + window.sum + window.stddev + window.p99_99, 0);
    kn_histogram_record(histogram, 1000, 2);
    kn_histogram_window(histogram, 0, &window); /* reading doesn't end the window */
    CHECK_EQ(window.cnt, 2);
    kn_histogram_window(histogram, 1, &window);
    CHECK_EQ(window.cnt, 2);
    CHECK_EQ(window.sum, 2000);
    kn_histogram_record(histogram, 7, 1);
    kn_histogram_window(histogram, 1, &window);
    CHECK_EQ(window.cnt, 1);
    CHECK_EQ(window.max, 7);
    kn_histogram_window(histogram, 1, &window);
    CHECK_EQ(window.cnt, 0);
    CHECK_EQ(window.max, 0);
    free(histogram);
}

static void test_a_sum_seen_before_its_values_goes_with_them(void)
{
    struct kn_histogram *histogram = histogram_new();
    struct kn_window window;
    /* the reader comes in the middle of kn_histogram_record(histogram, 20, 2) */
    atomic_fetch_add(&histogram->sum, 40);
    kn_histogram_window(histogram, 1, &window);
    CHECK_EQ(window.cnt, 0);
    CHECK_EQ(window.sum, 0);
    atomic_fetch_add(&histogram->counts[20], 2);
    kn_histogram_window(histogram, 1, &window);
    CHECK_EQ(window.cnt, 2);
    CHECK_EQ(window.sum, 40);
    free(histogram);
}

static void check_ordered(const struct kn_window *window)
{
    CHECK(window->min <= window->avg && window->avg <= window->max);
    CHECK(window->min <= window->p50 && window->p50 <= window->p99_99 &&
          window->p99_99 <= window->max);
}

static void test_lost_extremes_come_from_the_buckets(void)
{
    struct kn_histogram *histogram = histogram_new();
    struct kn_window window;
    kn_histogram_record(histogram, 11297, 1);
    /* as if the reader had ended a window in the middle of a record */
    atomic_store(&histogram->min, UINT32_MAX);
    atomic_store(&histogram->max, 0);
    kn_histogram_window(histogram, 1, &window);
    CHECK_EQ(window.min, 11264);
    CHECK_EQ(window.max, 11327);
    CHECK_EQ(window.avg, 11297);
    check_ordered(&window);
    kn_histogram_record(histogram, 11310, 1);
    kn_histogram_record(histogram, 11290, 1);
    atomic_store(&histogram->min, 11310); /* two threads at once: both extremes are wrong */
    atomic_store(&histogram->max, 11290);
    kn_histogram_window(histogram, 1, &window);
    CHECK_EQ(window.avg, 11310); /* as exact as the extremes allow */
    check_ordered(&window);
    free(histogram);
}

#define WRITERS 3
#define RECORDS 20000

static struct kn_histogram *shared;

static void *record_many(void *unused)
{
    (void)unused;
    for (int i = 0; i < RECORDS; i++) kn_histogram_record(shared, i % 5000, 1);
    return NULL;
}

static void test_nothing_is_lost_between_threads(void)
{
    pthread_t threads[WRITERS];
    struct kn_window window;
    int64_t count = 0, sum = 0;
    shared = histogram_new();
    for (int i = 0; i < WRITERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, record_many, NULL), 0);
    for (int i = 0; i < 50; i++) {
        kn_histogram_window(shared, 1, &window);
        check_ordered(&window);
        count += window.cnt;
        sum += window.sum;
    }
    for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
    kn_histogram_window(shared, 1, &window);
    CHECK_EQ(count + window.cnt, WRITERS * RECORDS);
    if (window.cnt)
        CHECK_EQ(sum + window.sum, (int64_t)WRITERS * (RECORDS / 5000) * (5000LL * 4999 / 2));
    free(shared);
}

int main(void)
{
    RUN(test_percentiles_are_those_of_the_values);
    RUN(test_every_size_is_reported_within_one_percent);
    RUN(test_too_large_and_negative_values_are_counted);
    RUN(test_a_window_has_the_values_since_the_last_one_ended);
    RUN(test_a_sum_seen_before_its_values_goes_with_them);
    RUN(test_lost_extremes_come_from_the_buckets);
    RUN(test_nothing_is_lost_between_threads);
    return check_done();
}
