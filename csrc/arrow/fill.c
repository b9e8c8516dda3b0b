/* Copies fetched segments into columns: see fill.h. */
#include "arrow/fill.h"

#include "base/status.h"

struct gathered { /* a block, and the reader's position before each record of it */
    struct kn_record records[KN_BLOCK_RECORDS];
    const uint8_t *starts[KN_BLOCK_RECORDS];
    int32_t lefts[KN_BLOCK_RECORDS];
    int32_t count;
};

static void rewind_reader(struct kn_fill *fill, const uint8_t *start, int32_t left)
{
    fill->reader.span.at = start;
    fill->reader.span.failed = 0;
    fill->reader.left = left;
}

/* Reads up to `records_max` records. Other than KN_OK: the reader's status for the next record; the
 * reader is back before that record. */
static int gather(struct kn_fill *fill, struct gathered *gathered, int64_t records_max)
{
    int64_t from_offset = fill->segment->fetch_offset;
    int32_t room = records_max < KN_BLOCK_RECORDS ? (int32_t)records_max : KN_BLOCK_RECORDS,
            count = 0;
    int status = KN_OK;
    while (count < room) {
        const uint8_t *start = fill->reader.span.at;
        int32_t left = fill->reader.left;
        status = kn_record_reader_next(&fill->reader, &gathered->records[count]);
        if (status != KN_OK) {
            rewind_reader(fill, start, left);
            break;
        }
        if (gathered->records[count].offset < from_offset) continue;
        gathered->starts[count] = start;
        gathered->lefts[count++] = left;
    }
    gathered->count = count;
    return status;
}

/* Appends the gathered records. KN_FILL_PAUSED: all were appended. */
static enum kn_fill_end append(struct kn_fill *fill, const struct gathered *gathered,
                               struct kn_taken_segment *taken)
{
    const struct kn_segment *segment = fill->segment;
    const struct kn_segment_batch *batch = &segment->batches[segment->batch_next - 1];
    struct kn_column_block block = {gathered->records,
                                    gathered->count,
                                    batch->chunk,
                                    segment->cursor->topic,
                                    segment->cursor->topic_bytes,
                                    segment->cursor->partition,
                                    batch->view.partition_leader_epoch,
                                    0};
    int32_t count;
    int status = kn_columns_append(fill->columns, &block, &count, &fill->unfit_column);
    if (count) {
        if (taken->first_offset < 0) taken->first_offset = gathered->records[0].offset;
        taken->next_offset = gathered->records[count - 1].offset + 1;
    }
    if (status == KN_OK) return KN_FILL_PAUSED;
    rewind_reader(fill, gathered->starts[count], gathered->lefts[count]);
    if (status == KN_ERR_NOMEM) return KN_FILL_NOMEM;
    if (status == KN_ERR_FULL) return KN_FILL_FULL;
    fill->unfit_offset = gathered->records[count].offset;
    return status == KN_ERR_UNKNOWN_SCHEMA ? KN_FILL_UNKNOWN_SCHEMA : KN_FILL_UNFIT;
}

/* Appends the records of the opened batch. KN_FILL_PAUSED: up to its end. */
static enum kn_fill_end fill_batch(struct kn_fill *fill, struct kn_taken_segment *taken)
{
    struct gathered gathered;
    for (;;) {
        int64_t room = fill->records_max - kn_columns_record_count(fill->columns);
        if (room <= 0) return KN_FILL_FULL;
        int status = gather(fill, &gathered, room);
        if (gathered.count) {
            enum kn_fill_end end = append(fill, &gathered, taken);
            if (end != KN_FILL_PAUSED) return end;
        }
        if (status == KN_OK) continue;
        if (status != KN_ERR_TRUNCATED) return KN_FILL_BROKEN;
        fill->is_reading = 0;
        return KN_FILL_PAUSED;
    }
}

/* Opens the segment's next batch; 0: there is none. */
static int next_batch(struct kn_fill *fill, struct kn_taken_segment *taken)
{
    struct kn_segment *segment = fill->segment;
    while (segment->batch_next < segment->batch_count) {
        const struct kn_segment_batch *batch = &segment->batches[segment->batch_next++];
        if (kn_record_reader_init(&fill->reader, &batch->view) != KN_OK) continue;
        taken->leader_epoch = batch->view.partition_leader_epoch;
        taken->has_batch = fill->is_reading = 1;
        return 1;
    }
    return 0;
}

/* Appends the records of the current segment. KN_FILL_PAUSED: up to its end, and there is no
 * current segment any more. */
static enum kn_fill_end fill_segment(struct kn_fill *fill)
{
    struct kn_taken_segment *taken = &fill->taken[fill->taken_count++];
    const struct kn_columns *malformed = fill->columns->malformed;
    *taken = (struct kn_taken_segment){.segment = fill->segment,
                                       .row_begin = fill->columns->row_count,
                                       .malformed_begin = malformed ? malformed->row_count : 0,
                                       .first_offset = -1};
    do {
        enum kn_fill_end end = fill->is_reading ? fill_batch(fill, taken) : KN_FILL_PAUSED;
        if (end != KN_FILL_PAUSED) return end;
    } while (next_batch(fill, taken));
    taken->is_done = 1;
    fill->segment = NULL;
    return KN_FILL_PAUSED;
}

enum kn_fill_end kn_fill_run(struct kn_fill *fill)
{
    fill->taken_count = 0;
    while (fill->taken_count < KN_FILL_SEGMENTS) {
        if (!fill->segment) {
            struct kn_list *node = kn_queue_pop(fill->queue);
            if (!node) return KN_FILL_DRAINED;
            fill->segment = KN_LIST_ENTRY(node, struct kn_segment, node);
            fill->is_reading = 0;
        }
        if (kn_segment_is_stale(fill->segment)) {
            kn_segment_free(fill->segment);
            fill->segment = NULL;
            fill->is_reading = 0;
            continue;
        }
        if (fill->segment->kind != KN_SEGMENT_DATA) return KN_FILL_NOTICE;
        enum kn_fill_end end = fill_segment(fill);
        if (end != KN_FILL_PAUSED) return end;
    }
    return KN_FILL_PAUSED;
}

void kn_fill_revert(struct kn_fill *fill, int32_t from)
{
    struct kn_list back;
    kn_list_init(&back);
    kn_columns_truncate(fill->columns, fill->taken[from].row_begin);
    if (fill->columns->malformed)
        kn_columns_truncate(fill->columns->malformed, fill->taken[from].malformed_begin);
    for (int32_t i = from + 1; i < fill->taken_count; i++) {
        fill->taken[i].segment->batch_next = 0;
        kn_list_push_back(&back, &fill->taken[i].segment->node);
    }
    struct kn_segment *at_hand = fill->segment;
    if (at_hand && at_hand != fill->taken[fill->taken_count - 1].segment)
        kn_list_push_back(&back, &at_hand->node);
    kn_segment_free(fill->taken[from].segment);
    fill->segment = NULL;
    fill->is_reading = 0;
    fill->taken_count = from;
    kn_queue_put_back(fill->queue, &back);
}

void kn_fill_finish(struct kn_fill *fill)
{
    for (int32_t i = 0; i < fill->taken_count; i++) {
        if (fill->taken[i].is_done) kn_segment_free(fill->taken[i].segment);
    }
    fill->taken_count = 0;
}
