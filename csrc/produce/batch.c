/* Record batches on their way to a broker: memory and outcome. See batch.h.
 *
 * Thread: the batch's owner. Lock: none. Who frees: the last owner. */
#include "produce/batch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/line.h"
#include "base/status.h"
#include "net/thread.h"
#include "records/record_reader.h"

static atomic_long live_batches; /* for the leak check of the tests */

long kn_batch_live(void) { return atomic_load_explicit(&live_batches, memory_order_relaxed); }

/* Makes a batch without buffers. */
static struct kn_batch *batch_new(struct kn_topic *topic, int32_t partition)
{
    struct kn_batch *batch = kn_line_new(sizeof *batch);
    if (!batch) return NULL;
    kn_list_init(&batch->node);
    kn_list_init(&batch->sequence_node);
    batch->topic = topic;
    batch->partition = partition;
    batch->base_offset = -1;
    batch->log_append_time_ms = -1;
    batch->producer_id = -1;
    batch->producer_epoch = -1;
    batch->base_sequence = -1;
    atomic_fetch_add_explicit(&live_batches, 1, memory_order_relaxed);
    return batch;
}

struct kn_batch *kn_batch_new(struct kn_pool *pool, struct kn_topic *topic, int32_t partition,
                              size_t capacity_bytes)
{
    struct kn_batch *batch = batch_new(topic, partition);
    if (!batch) return NULL;
    if (capacity_bytes < KN_BATCH_HEADER_BYTES) capacity_bytes = KN_BATCH_HEADER_BYTES;
    batch->plain = kn_buffer_take(pool, capacity_bytes);
    if (!batch->plain || kn_batch_writer_init(&batch->writer, batch->plain) != KN_OK) {
        kn_batch_free(batch);
        return NULL;
    }
    return batch;
}

struct kn_batch *kn_batch_new_of_view(struct kn_pool *pool, struct kn_topic *topic,
                                      int32_t partition, const struct kn_batch_view *view)
{
    struct kn_batch *batch = batch_new(topic, partition);
    if (!batch) return NULL;
    batch->wire = kn_buffer_take(pool, view->raw_bytes);
    if (!batch->wire) {
        kn_batch_free(batch);
        return NULL;
    }
    memcpy(batch->wire->data, view->raw, view->raw_bytes);
    batch->wire->size_bytes = view->raw_bytes;
    batch->magic = view->magic;
    batch->codec = (int8_t)kn_batch_view_codec(view);
    batch->writer.record_count = view->record_count;
    batch->writer.base_timestamp_ms = view->base_timestamp_ms;
    batch->writer.max_timestamp_ms = view->max_timestamp_ms;
    batch->created_us = kn_clock_us();
    batch->created_ms = -1;
    return batch;
}

struct kn_batch *kn_batch_new_completion(struct kn_delivery_counter *counter)
{
    struct kn_batch *batch = calloc(1, sizeof *batch);
    if (!batch) return NULL;
    kn_list_init(&batch->node);
    kn_list_init(&batch->sequence_node);
    batch->counter = counter;
    batch->writer.record_count = 1; /* it counts as one undelivered report */
    atomic_fetch_add_explicit(&live_batches, 1, memory_order_relaxed);
    return batch;
}

void kn_batch_drop_bytes(struct kn_batch *batch)
{
    if (batch->wire != batch->plain) kn_buffer_give(batch->wire);
    kn_buffer_give(batch->plain);
    batch->wire = batch->plain = NULL;
}

void kn_batch_free(struct kn_batch *batch)
{
    if (!batch) return;
    kn_batch_drop_bytes(batch);
    free(batch->opaques);
    free(batch->partitions);
    free(batch->error_text);
    free(batch);
    atomic_fetch_sub_explicit(&live_batches, 1, memory_order_relaxed);
}

void kn_batch_swap_arrays(struct kn_batch *batch, void ***opaques, int32_t **partitions,
                          int32_t capacity)
{
    size_t count = (size_t)batch->writer.record_count;
    if (*opaques) {
        void **old = batch->opaques;
        if (old) memcpy(*opaques, old, count * sizeof *old);
        batch->opaques = *opaques;
        *opaques = old;
    }
    if (*partitions) {
        int32_t *old = batch->partitions;
        if (old) memcpy(*partitions, old, count * sizeof *old);
        batch->partitions = *partitions;
        *partitions = old;
    }
    batch->opaque_capacity = capacity;
}

int kn_batch_view_plain(const struct kn_batch *batch, struct kn_batch_view *view)
{
    if (!batch->plain) return KN_ERR_INVALID;
    memset(view, 0, sizeof *view);
    view->magic = 2;
    view->base_offset = batch->base_offset < 0 ? 0 : batch->base_offset;
    /* Records that stayed in a staged batch keep their offset deltas, so the offsets have gaps. */
    view->last_offset = view->base_offset +
                        (batch->partitions ? INT32_MAX - 1 : batch->writer.record_count - 1);
    view->base_timestamp_ms = batch->writer.base_timestamp_ms;
    view->max_timestamp_ms = batch->writer.max_timestamp_ms;
    view->producer_id = batch->producer_id;
    view->producer_epoch = batch->producer_epoch;
    view->base_sequence = batch->base_sequence;
    view->partition_leader_epoch = -1;
    view->record_count = batch->writer.record_count;
    view->raw = batch->plain->data;
    view->raw_bytes = batch->plain->size_bytes;
    view->records = batch->plain->data + KN_BATCH_HEADER_BYTES;
    view->records_bytes = batch->plain->size_bytes - KN_BATCH_HEADER_BYTES;
    return KN_OK;
}

int kn_batch_view_records(const struct kn_batch *batch, const struct kn_codec_table *codecs,
                          struct kn_batch_view *view, struct kn_buffer **opened)
{
    *opened = NULL;
    if (batch->plain) return kn_batch_view_plain(batch, view);
    struct kn_span span = kn_span_of(batch->wire->data, batch->wire->size_bytes);
    int status = kn_batch_view_next(&span, view);
    if (status == KN_OK)
        status = kn_batch_view_open(view, codecs, SIZE_MAX / 4, batch->wire->pool, opened);
    return status;
}

/* --- splitting --- */

#define SPLIT_SLACK_BYTES 10 /* a timestamp delta may take more bytes with another base */

/* Makes a half for at most record_count records of a batch with records_bytes. */
static struct kn_batch *half_new(const struct kn_batch *batch, size_t records_bytes,
                                 int32_t record_count)
{
    struct kn_pool *pool = (batch->plain ? batch->plain : batch->wire)->pool;
    struct kn_batch *half = kn_batch_new(pool, batch->topic, batch->partition,
                                         KN_BATCH_HEADER_BYTES + records_bytes +
                                             KN_RECORD_OVERHEAD_MAX_BYTES +
                                             (size_t)record_count * SPLIT_SLACK_BYTES);
    void **opaques = batch->opaques ? calloc((size_t)record_count, sizeof *opaques) : NULL;
    if (!half || (batch->opaques && !opaques)) {
        free(opaques);
        kn_batch_free(half);
        return NULL;
    }
    half->opaques = opaques;
    half->opaque_capacity = opaques ? record_count : 0;
    half->accumulator = batch->accumulator;
    half->id = batch->id;
    half->created_us = batch->created_us;
    half->created_ms = batch->created_ms;
    half->sent_us = batch->sent_us;
    half->attempts = batch->attempts;
    half->counted = batch->counted;
    half->persistence = batch->persistence;
    half->producer_id = batch->producer_id;
    half->producer_epoch = batch->producer_epoch;
    half->base_sequence = batch->base_sequence;
    return half;
}

/* Appends the record. The opaque stays with the batch until nothing can fail any more. */
static int half_append(struct kn_batch *half, const struct kn_record *record)
{
    int status = kn_batch_writer_append(&half->writer, half->plain, record->timestamp_ms,
                                        record->key, record->key ? record->key_bytes : -1,
                                        record->value, record->value ? record->value_bytes : -1,
                                        record->headers, (size_t)record->headers_bytes,
                                        record->header_count);
    half->budget_bytes += kn_record_bytes(record);
    return status;
}

static int fill_halves(const struct kn_batch_view *view, int32_t at, struct kn_batch *halves[2])
{
    struct kn_record_reader reader;
    struct kn_record record;
    int status = kn_record_reader_init(&reader, view);
    int32_t count = view->record_count;
    for (int32_t index = 0; status == KN_OK && index < count; index++) {
        /* Each half gets at least one record. */
        size_t done = (size_t)(reader.span.at - view->records);
        int by_bytes = halves[1]->writer.record_count > 0 || index == count - 1 ||
                       (index > 0 && done >= view->records_bytes / 2);
        int second = at ? index >= at : by_bytes;
        status = kn_record_reader_next(&reader, &record);
        if (status == KN_OK) status = half_append(halves[second], &record);
    }
    return status;
}

int kn_batch_split(struct kn_batch *batch, const struct kn_codec_table *codecs, int32_t at,
                   struct kn_batch *halves[2])
{
    struct kn_batch_view view;
    struct kn_buffer *opened;
    if (batch->writer.record_count < 2 || at < 0 || at >= batch->writer.record_count)
        return KN_ERR_INVALID;
    int status = kn_batch_view_records(batch, codecs, &view, &opened);
    if (status != KN_OK) return status;
    halves[0] = half_new(batch, view.records_bytes, view.record_count);
    halves[1] = half_new(batch, view.records_bytes, view.record_count);
    status = halves[0] && halves[1] ? fill_halves(&view, at, halves) : KN_ERR_NOMEM;
    kn_buffer_give(opened);
    if (status != KN_OK) {
        kn_batch_free(halves[0]);
        kn_batch_free(halves[1]);
        return status;
    }
    int32_t first = halves[0]->writer.record_count;
    if (batch->opaques) {
        memcpy(halves[0]->opaques, batch->opaques, (size_t)first * sizeof *batch->opaques);
        memcpy(halves[1]->opaques, batch->opaques + first,
               (size_t)halves[1]->writer.record_count * sizeof *batch->opaques);
        free(batch->opaques);
        batch->opaques = NULL;
    }
    halves[1]->id = batch->id + first;
    if (batch->base_sequence >= 0)
        halves[1]->base_sequence = (int32_t)(((uint32_t)batch->base_sequence + (uint32_t)first) &
                                             INT32_MAX);
    return KN_OK;
}

void kn_batch_set_error(struct kn_batch *batch, int status, int16_t error_code, const char *text,
                        size_t text_bytes)
{
    batch->status = status;
    batch->error_code = error_code;
    free(batch->error_text);
    batch->error_text = NULL;
    if (!text || text_bytes == 0) return;
    char *copy = malloc(text_bytes + 1);
    if (!copy) return; /* without memory there is only the code */
    memcpy(copy, text, text_bytes);
    copy[text_bytes] = 0;
    batch->error_text = copy;
}
