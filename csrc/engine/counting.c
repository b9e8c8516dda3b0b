/* Windows of latencies and sizes, and means: counting.h. */
#include "engine/counting.h"

#include <stdlib.h>

#include "engine/batch.h"
#include "engine/thread.h"
#include "engine/topic.h"

#define API_PRODUCE 0
#define API_FETCH 1
#define POINTS 5 /* the ages of a batch's messages are taken at so many of them */

struct kn_broker_windows *kn_broker_windows_new(void)
{
    struct kn_broker_windows *windows = malloc(sizeof *windows);
    if (!windows) return NULL;
    kn_histogram_init(&windows->int_latency);
    kn_histogram_init(&windows->outbuf_latency);
    kn_histogram_init(&windows->rtt);
    kn_histogram_init(&windows->throttle);
    return windows;
}

struct kn_topic_windows *kn_topic_windows_new(void)
{
    struct kn_topic_windows *windows = malloc(sizeof *windows);
    if (!windows) return NULL;
    kn_histogram_init(&windows->batchsize);
    kn_histogram_init(&windows->batchcnt);
    return windows;
}

/* --- recording --- */

/* Messages come evenly between the first and the last, as far as a batch tells: its age is known, and the times of both if they are of produce(). */
static void record_ages(struct kn_histogram *histogram, const struct kn_batch *batch, int64_t now_us)
{
    uint32_t count = (uint32_t)batch->writer.record_count;
    uint32_t points = count < POINTS ? count : POINTS;
    int64_t oldest_us = now_us - batch->created_us;
    int64_t span_us = batch->created_ms < 0 ? 0 : (batch->writer.max_timestamp_ms - batch->writer.base_timestamp_ms) * 1000;
    if (span_us < 0) span_us = 0;
    if (span_us > oldest_us) span_us = oldest_us > 0 ? oldest_us : 0;
    for (uint32_t i = 0; i < points; i++) {
        int64_t later_us = points > 1 ? span_us * i / (points - 1) : 0;
        kn_histogram_record(histogram, oldest_us - later_us, count / points + (i < count % points));
    }
}

void kn_count_batches(struct kn_broker_windows *windows, struct kn_means *means, struct kn_batch *const *batches, int32_t count)
{
    int measured = kn_means_on(means);
    if (!windows && !measured) return;
    int64_t now_us = kn_clock_us();
    for (int32_t i = 0; i < count; i++) {
        struct kn_batch *batch = batches[i];
        struct kn_topic_windows *sizes = batch->topic->windows;
        if (!batch->counted && windows) record_ages(&windows->int_latency, batch, now_us);
        if (!batch->counted && measured) kn_mean_record(&means->kinds[KN_MEAN_QUEUED], now_us > batch->created_us ? now_us - batch->created_us : 0);
        batch->counted = 1; /* another try isn't a message more */
        if (!sizes) continue;
        kn_histogram_record(&sizes->batchsize, (int64_t)batch->wire->size_bytes, 1);
        kn_histogram_record(&sizes->batchcnt, batch->writer.record_count, 1);
    }
}

void kn_count_answer(struct kn_broker_windows *windows, struct kn_means *means, int16_t api_key, int64_t rtt_us)
{
    enum kn_mean_kind kind = api_key == API_PRODUCE ? KN_MEAN_PRODUCE : api_key == API_FETCH ? KN_MEAN_FETCH : KN_MEAN_OTHER;
    if (windows) kn_histogram_record(&windows->rtt, rtt_us, 1);
    if (kn_means_on(means)) kn_mean_record(&means->kinds[kind], rtt_us);
}

void kn_count_throttle(struct kn_broker_windows *windows, int64_t throttle_ms)
{
    if (windows) kn_histogram_record(&windows->throttle, throttle_ms, 1);
}
