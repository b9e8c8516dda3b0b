/* Makes segments from the record bytes of a fetched partition: see fetch_segment.h. */
#include "consume/fetch_segment.h"

#include <stdlib.h>

#include "base/planted.h"
#include "base/status.h"
#include "consume/consumer.h"
#include "records/record_reader.h"

/* Offset and length at the start: they give the size of a partial batch. */
#define BATCH_PREFIX_BYTES 12
/* A segment is closed at this size, plus one batch: decompression may multiply the size, and the
 * queue has a limit. */
#define PART_BYTES (1 << 20)
#define PART_BATCHES 4096

/* Only an opened wrapper of an old message set has the count of its messages. */
static int64_t messages_of(const struct kn_batch_view *view, int64_t next_offset)
{
    int64_t count = view->record_count >= 0 ? view->record_count
                                            : view->last_offset - next_offset + 1;
    /* limited, so that a sum doesn't overflow */
    return count < 0 ? 0 : count < INT32_MAX ? count : INT32_MAX;
}

size_t kn_fetch_job_scan(struct kn_fetch_job *job)
{
    struct kn_span span = kn_span_of(job->result.records, job->result.records_bytes);
    struct kn_batch_view view;
    int status;
    job->batch_count = 0;
    job->message_count = 0;
    job->next_offset = job->offset;
    while ((status = kn_batch_view_next(&span, &view)) == KN_OK) {
        job->batch_count++;
        job->message_count += messages_of(&view, job->next_offset);
        if (view.last_offset >= job->next_offset) job->next_offset = view.last_offset + 1;
    }
    kn_cursor_queued(job->cursor, job->message_count);
    if (status == KN_ERR_INVALID) job->batch_count++; /* opening it will report the error */
    job->is_partial = status == KN_ERR_TRUNCATED && kn_span_left(&span) > 0;
    if (job->batch_count || kn_span_left(&span) < BATCH_PREFIX_BYTES) return 0;
    kn_span_i64(&span);
    int32_t length = kn_span_i32(&span);
    return length > 0 ? (size_t)length + BATCH_PREFIX_BYTES : 0;
}

static int by_first_offset(const void *a, const void *b)
{
    int64_t x = ((const struct kn_aborted_transaction *)a)->first_offset,
            y = ((const struct kn_aborted_transaction *)b)->first_offset;
    return x < y ? -1 : x > y;
}

/* The aborted transactions of a response, and the producers that are inside one at the current
 * batch. Brokers should sort the list, but the brokers of one vendor didn't, so it is sorted here.
 * Producers are found by hash, because a response may have very many. */
struct kn_aborted_filter {
    int32_t count;
    int32_t next;  /* list[..next) began before the current batch */
    uint32_t mask; /* of the table */
    uint64_t seed;
    struct aborting {
        int64_t producer_id;
        int used, active;
    } *table;
    struct kn_aborted_transaction list[];
};

static struct aborting *aborting_of(struct kn_aborted_filter *filter, int64_t producer_id)
{
    uint64_t hash = ((uint64_t)producer_id ^ filter->seed) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t at = (uint32_t)(hash >> 32) & filter->mask;
    while (filter->table[at].used && filter->table[at].producer_id != producer_id)
        at = (at + 1) & filter->mask;
    return &filter->table[at]; /* at least half of the table is free */
}

static int aborted_filter_new(struct kn_fetch_job *job)
{
    int32_t count = job->result.aborted_count;
    uint32_t size = 2;
    if (job->filter ||
        job->cursor->consumer->config->isolation_level == KN_ISOLATION_READ_UNCOMMITTED ||
        count == 0)
        return KN_OK;
    while (size < (uint32_t)count * 2) size *= 2;
    struct kn_aborted_filter *filter = calloc(1, sizeof *filter +
                                                     (size_t)count * sizeof filter->list[0]);
    if (filter) filter->table = calloc(size, sizeof filter->table[0]);
    if (!filter || !filter->table) {
        free(filter);
        return KN_ERR_NOMEM;
    }
    filter->count = count;
    filter->mask = size - 1;
    filter->seed = (uint64_t)kn_random_below(UINT32_MAX) << 32 | kn_random_below(UINT32_MAX);
    struct kn_fetch_result result = job->result; /* a copy, because reading advances it */
    for (int32_t i = 0; i < count; i++)
        filter->list[i] = kn_fetch_result_aborted(&result, job->version);
    qsort(filter->list, (size_t)count, sizeof filter->list[0], by_first_offset);
    job->filter = filter;
    return KN_OK;
}

/* The key of a marker is version (i16) and type (i16): 0 = abort, 1 = commit. */
static int ends_transaction(const struct kn_batch_view *view)
{
    struct kn_record_reader reader;
    struct kn_record record;
    return kn_record_reader_init(&reader, view) == KN_OK &&
           kn_record_reader_next(&reader, &record) == KN_OK && record.key &&
           record.key_bytes >= 4 && record.key[2] == 0 && record.key[3] <= 1;
}

/* Returns true if the batch is part of an aborted transaction. A producer has one transaction at a
 * time, so a marker ends its earlier transaction. A commit marker does that, too: then compaction
 * has removed the abort marker, and later batches aren't part of the aborted one. */
static int aborted_filter_drops(struct kn_aborted_filter *filter, const struct kn_batch_view *view)
{
    if (!filter || view->magic < 2 || kn_planted("shown-aborted")) return 0;
    for (; filter->next < filter->count &&
           filter->list[filter->next].first_offset <= view->last_offset;
         filter->next++) {
        struct aborting *begun = aborting_of(filter, filter->list[filter->next].producer_id);
        *begun = (struct aborting){filter->list[filter->next].producer_id, 1, 1};
    }
    int control = kn_batch_view_is_control(view);
    if (!control && !(view->attributes & 0x10)) return 0;
    struct aborting *found = aborting_of(filter, view->producer_id);
    if (!control) return found->active;
    if (found->active && ends_transaction(view)) found->active = 0;
    return 0;
}

/* Returns the number of the batch's messages for the application: all but those before the
 * position. */
static int64_t wanted_of(const struct kn_fetch_job *job, const struct kn_batch_view *view)
{
    int64_t count = messages_of(view, job->offset);
    int64_t before = job->offset > view->base_offset ? job->offset - view->base_offset : 0;
    return before < count ? count - before : 0;
}

/* For statistics, once per part. Not kn_count(): two broker threads may write to one cursor for a
 * moment, and they always share the engine's counters. */
static void count_received(struct kn_fetch_job *job, int64_t size_bytes)
{
    struct kn_cursor *cursor = job->cursor;
    atomic_fetch_add_explicit(&cursor->received_messages, job->opened_count, memory_order_relaxed);
    atomic_fetch_add_explicit(&cursor->received_bytes, size_bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&cursor->consumer->received_messages, job->opened_count,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&cursor->consumer->received_bytes, size_bytes, memory_order_relaxed);
    job->opened_count = 0;
}

/* Opens one batch into the segment. A batch that the application doesn't get only moves
 * next_offset. */
static int open_batch(struct kn_fetch_job *job, struct kn_batch_view *view,
                      struct kn_segment *segment)
{
    struct kn_consumer *consumer = job->cursor->consumer;
    int status = KN_OK;
    if (consumer->config->check_crcs && (status = kn_batch_view_check(view)) != KN_OK)
        return status;
    /* a broker may begin before the requested offset */
    if (view->last_offset < job->offset) return KN_OK;
    if (kn_planted("skipped-batch") && view->base_offset % 16 == 5) return KN_OK;
    if (aborted_filter_drops(job->filter, view) || kn_batch_view_is_control(view)) return KN_OK;

    struct kn_buffer *opened = NULL;
    if (!atomic_load_explicit(&consumer->keeps_batches, memory_order_relaxed)) {
        status = kn_batch_view_open(view, &consumer->client->codecs,
                                    consumer->config->decompressed_max_bytes,
                                    consumer->client->pool, &opened);
        if (status != KN_OK) return status;
    }
    struct kn_chunk *chunk = opened ? kn_chunk_new(opened) : kn_chunk_ref(job->chunk);
    if (!chunk) {
        kn_buffer_give(opened);
        return KN_ERR_NOMEM;
    }
    struct kn_segment_batch *batch = &segment->batches[segment->batch_count++];
    batch->view = *view;
    batch->chunk = chunk;
    segment->size_bytes += (int64_t)view->records_bytes;
    job->opened_count += wanted_of(job, view);
    return KN_OK;
}

/* Returns where to go on behind an unusable batch. If it ends before its own beginning or behind
 * the log's end, its header is damaged, too. */
static int64_t offset_behind(const struct kn_fetch_job *job, const struct kn_batch_view *view,
                             int64_t offset)
{
    int is_in_log = view->last_offset >= offset && view->last_offset < job->result.high_watermark;
    return (is_in_log ? view->last_offset : offset) + 1;
}

/* Opens batches from job->rest into the segment, until a part is full. */
static int open_part(struct kn_fetch_job *job, struct kn_segment *segment, int32_t capacity,
                     int64_t *message_count, int64_t *failed_offset, int64_t *next_offset)
{
    int status = KN_OK;
    while (status == KN_OK && segment->batch_count < capacity && segment->size_bytes < PART_BYTES) {
        struct kn_batch_view view = {0};
        view.last_offset = segment->next_offset;
        status = kn_batch_view_next(&job->rest, &view);
        if (status == KN_ERR_TRUNCATED) {
            job->is_done = 1;
            return KN_OK;
        }
        *failed_offset = segment->next_offset;
        *next_offset = offset_behind(job, &view, segment->next_offset);
        if (status == KN_OK) *message_count += messages_of(&view, segment->next_offset);
        if (status == KN_OK) status = open_batch(job, &view, segment);
        if (status == KN_OK && view.last_offset >= segment->next_offset)
            segment->next_offset = view.last_offset + 1;
    }
    job->is_done = status != KN_OK || kn_span_left(&job->rest) == 0;
    return status;
}

int kn_fetch_job_open(struct kn_fetch_job *job, struct kn_segment **data, int64_t *failed_offset,
                      int64_t *next_offset)
{
    *data = NULL;
    *failed_offset = *next_offset = job->offset;
    if (job->batch_count == 0) {
        job->is_done = 1;
        return KN_OK;
    }
    int32_t capacity = job->batch_count < PART_BATCHES ? job->batch_count : PART_BATCHES;
    struct kn_segment *segment = kn_segment_new(KN_SEGMENT_DATA, job->cursor, job->epoch, capacity);
    int status = segment ? aborted_filter_new(job) : KN_ERR_NOMEM;
    if (status != KN_OK) {
        kn_segment_free(segment);
        job->is_done = 1;
        return status;
    }
    segment->fetch_offset = segment->next_offset = job->offset;
    if (!job->is_begun) job->rest = kn_span_of(job->result.records, job->result.records_bytes);
    job->is_begun = 1;
    int64_t message_count = 0;
    status = open_part(job, segment, capacity, &message_count, failed_offset, next_offset);

    int64_t size_bytes = segment->size_bytes;
    if (segment->batch_count) count_received(job, size_bytes);
    segment->size_bytes = 0;
    if (segment->next_offset == job->offset) { /* no progress: no segment is needed */
        kn_segment_free(segment);
        return status;
    }
    kn_segment_account(segment, size_bytes);
    if (job->is_done || message_count > job->message_count) message_count = job->message_count;
    segment->message_count = message_count;
    job->message_count -= message_count;
    job->offset = segment->next_offset;
    *data = segment;
    return status;
}

void kn_fetch_job_deinit(struct kn_fetch_job *job)
{
    if (job->message_count) kn_cursor_unqueued(job->cursor, job->message_count);
    if (job->filter) free(job->filter->table);
    free(job->filter);
    kn_chunk_unref(job->chunk);
    kn_cursor_unref(job->cursor);
}
