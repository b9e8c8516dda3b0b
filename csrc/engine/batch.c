/* Record batches on their way out: memory and outcome.
 *
 * Thread: the batch's owner. Lock: none. Who frees: the last owner; see batch.h.
 */
#include "engine/batch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "engine/engine.h"

static atomic_long live_batches; /* the leak check of the test session reads it */

long kn_batch_live(void) { return atomic_load_explicit(&live_batches, memory_order_relaxed); }

struct kn_batch *kn_batch_new(struct kn_topic *topic, int32_t partition, size_t capacity_bytes)
{
    struct kn_batch *batch = calloc(1, sizeof *batch);
    if (!batch) return NULL;
    if (capacity_bytes < KN_BATCH_HEADER_BYTES) capacity_bytes = KN_BATCH_HEADER_BYTES;
    batch->plain = kn_buffer_take(topic->engine->pool, capacity_bytes);
    if (!batch->plain || kn_batch_writer_init(&batch->writer, batch->plain) != KN_OK) {
        kn_buffer_give(batch->plain);
        free(batch);
        return NULL;
    }
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

void kn_batch_free(struct kn_batch *batch)
{
    if (!batch) return;
    if (batch->wire != batch->plain) kn_buffer_give(batch->wire);
    kn_buffer_give(batch->plain);
    free(batch->opaques);
    free(batch->partitions);
    free(batch->error_text);
    free(batch);
    atomic_fetch_sub_explicit(&live_batches, 1, memory_order_relaxed);
}

void kn_batch_swap_arrays(struct kn_batch *batch, void ***opaques, int32_t **partitions, int32_t capacity)
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
    /* Records left over from staging have kept their places, so their offsets have gaps. */
    view->last_offset = view->base_offset + (batch->partitions ? INT32_MAX - 1 : batch->writer.record_count - 1);
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

void kn_batch_set_error(struct kn_batch *batch, int status, int16_t error_code, const char *text, size_t text_bytes)
{
    batch->status = status;
    batch->error_code = error_code;
    free(batch->error_text);
    batch->error_text = NULL;
    if (!text || text_bytes == 0) return;
    char *copy = malloc(text_bytes + 1);
    if (!copy) return; /* the code says enough */
    memcpy(copy, text, text_bytes);
    copy[text_bytes] = 0;
    batch->error_text = copy;
}
