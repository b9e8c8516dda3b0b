/* Windows of latencies and sizes: counting.h. */
#include "engine/counting.h"

#include <stdlib.h>

#include "engine/batch.h"
#include "engine/thread.h"
#include "engine/topic.h"

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

void kn_count_batches(struct kn_broker_windows *windows, struct kn_batch *const *batches, int32_t count)
{
    if (!windows) return;
    int64_t now_us = kn_clock_us();
    for (int32_t i = 0; i < count; i++) {
        struct kn_batch *batch = batches[i];
        struct kn_topic_windows *sizes = batch->topic->windows;
        if (!batch->counted) record_ages(&windows->int_latency, batch, now_us);
        batch->counted = 1; /* another try isn't a message more */
        if (!sizes) continue;
        kn_histogram_record(&sizes->batchsize, (int64_t)batch->wire->size_bytes, 1);
        kn_histogram_record(&sizes->batchcnt, batch->writer.record_count, 1);
    }
}

void kn_count_throttle(struct kn_broker_windows *windows, int64_t throttle_ms)
{
    if (windows) kn_histogram_record(&windows->throttle, throttle_ms, 1);
}
