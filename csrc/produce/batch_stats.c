/* Counts batches for statistics: batch_stats.h. */
#include "produce/batch_stats.h"

#include "net/thread.h"
#include "produce/topic.h"

#define POINTS 5 /* number of points at which the ages of a batch's messages are computed */

/* Assumes that messages came evenly between the first and the last. The batch's age is known, and
 * both times if the timestamps are times of produce(). */
static void record_ages(struct kn_histogram *histogram, const struct kn_batch *batch,
                        int64_t now_us)
{
    uint32_t count = (uint32_t)batch->writer.record_count;
    uint32_t points = count < POINTS ? count : POINTS;
    int64_t oldest_us = now_us - batch->created_us;
    int64_t span_us = batch->created_ms < 0
                          ? 0
                          : (batch->writer.max_timestamp_ms - batch->writer.base_timestamp_ms) *
                                1000;
    if (span_us < 0) span_us = 0;
    if (span_us > oldest_us) span_us = oldest_us > 0 ? oldest_us : 0;
    for (uint32_t i = 0; i < points; i++) {
        int64_t later_us = points > 1 ? span_us * i / (points - 1) : 0;
        kn_histogram_record(histogram, oldest_us - later_us, count / points + (i < count % points));
    }
}

void kn_count_batches(struct kn_broker_windows *windows, struct kn_means *means,
                      struct kn_batch *const *batches, int32_t count)
{
    int measured = kn_means_on(means);
    if (!windows && !measured) return;
    int64_t now_us = kn_clock_us();
    for (int32_t i = 0; i < count; i++) {
        struct kn_batch *batch = batches[i];
        struct kn_topic_windows *sizes = batch->topic->windows;
        if (!batch->counted && windows) record_ages(&windows->int_latency, batch, now_us);
        if (!batch->counted && measured)
            kn_mean_record(&means->kinds[KN_MEAN_QUEUED],
                           now_us > batch->created_us ? now_us - batch->created_us : 0);
        batch->counted = 1; /* another try adds no messages */
        if (!sizes) continue;
        kn_histogram_record(&sizes->batchsize, (int64_t)batch->wire->size_bytes, 1);
        kn_histogram_record(&sizes->batchcnt, batch->writer.record_count, 1);
    }
}
