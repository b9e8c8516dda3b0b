/* From the records bytes of a fetched partition to segments: see fetch_segment.h. */
#include "engine/fetch_segment.h"

#include <stdlib.h>

#include "base/status.h"
#include "engine/engine.h"

/* Offset and length in front of everything: enough to know how large a partial batch is. */
#define BATCH_PREFIX_BYTES 12

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
        /* A compressed wrapper of an old message set doesn't tell its count before it is opened. */
        int64_t count = view.record_count >= 0 ? view.record_count : view.last_offset - job->next_offset + 1;
        if (count > 0) job->message_count += count;
        if (view.last_offset >= job->next_offset) job->next_offset = view.last_offset + 1;
    }
    kn_cursor_queued(job->cursor, job->message_count);
    if (status == KN_ERR_INVALID) job->batch_count++; /* opening it will say so */
    if (job->batch_count || kn_span_left(&span) < BATCH_PREFIX_BYTES) return 0;
    kn_span_i64(&span);
    int32_t length = kn_span_i32(&span);
    return length > 0 ? (size_t)length + BATCH_PREFIX_BYTES : 0;
}

static int by_first_offset(const void *a, const void *b)
{
    int64_t x = ((const struct kn_aborted *)a)->first_offset, y = ((const struct kn_aborted *)b)->first_offset;
    return x < y ? -1 : x > y;
}

/* The aborted transactions of a response, and which producers are inside one as the batches go by. Brokers should sort the list; one
 * vendor's didn't, so it is sorted here. */
struct aborted_filter {
    struct kn_aborted *list;
    int32_t count;
    int32_t next;      /* list[..next) has begun at the current batch */
};

static int aborted_filter_init(struct aborted_filter *filter, struct kn_fetch_job *job)
{
    filter->list = NULL;
    filter->count = filter->next = 0;
    if (job->cursor->engine->config.isolation_level == 0 || job->result.aborted_count == 0) return KN_OK;
    filter->list = malloc((size_t)job->result.aborted_count * sizeof filter->list[0]);
    if (!filter->list) return KN_ERR_NOMEM;
    filter->count = job->result.aborted_count;
    struct kn_fetch_result result = job->result; /* reading advances a copy */
    for (int32_t i = 0; i < filter->count; i++) filter->list[i] = kn_fetch_result_aborted(&result, job->version);
    qsort(filter->list, (size_t)filter->count, sizeof filter->list[0], by_first_offset);
    return KN_OK;
}

#define NO_PRODUCER (-1)

/* True when the batch is part of an aborted transaction. An abort marker ends its producer's transaction. */
static int aborted_filter_drops(struct aborted_filter *filter, const struct kn_batch_view *view)
{
    if (!filter->count || view->magic < 2) return 0;
    while (filter->next < filter->count && filter->list[filter->next].first_offset <= view->last_offset) filter->next++;
    int control = kn_batch_view_is_control(view);
    if (!control && !(view->attributes & 0x10)) return 0;
    for (int32_t i = 0; i < filter->next; i++) {
        if (filter->list[i].producer_id != view->producer_id) continue;
        if (!control) return 1;
        struct kn_record_reader reader;
        struct kn_record record;
        /* A marker's key is version (i16) and type (i16): 0 = abort. Only the oldest of the producer's transactions ends. */
        if (kn_record_reader_init(&reader, view) == KN_OK && kn_record_reader_next(&reader, &record) == KN_OK && record.key &&
            record.key_bytes >= 4 && record.key[2] == 0 && record.key[3] == 0)
            filter->list[i].producer_id = NO_PRODUCER;
        return 0;
    }
    return 0;
}

/* Opens one batch into the segment; batches that are not for the application only count for next_offset. */
static int open_batch(struct kn_fetch_job *job, struct aborted_filter *filter, struct kn_batch_view *view, struct kn_segment *segment)
{
    struct kn_engine *engine = job->cursor->engine;
    int status = KN_OK;
    if (engine->config.check_crcs && (status = kn_batch_view_check(view)) != KN_OK) return status;
    if (view->last_offset < job->offset) return KN_OK; /* a broker may begin before what was asked for */
    if (aborted_filter_drops(filter, view) || kn_batch_view_is_control(view)) return KN_OK;

    struct kn_buffer *opened = NULL;
    status = kn_batch_view_open(view, &engine->codecs, engine->config.decompressed_max_bytes, engine->pool, &opened);
    if (status != KN_OK) return status;
    struct kn_chunk *chunk = opened ? kn_chunk_new(opened) : kn_chunk_ref(job->chunk);
    if (!chunk) return KN_ERR_NOMEM;
    struct kn_segment_batch *batch = &segment->batches[segment->batch_count++];
    batch->view = *view;
    batch->chunk = chunk;
    segment->size_bytes += (int64_t)view->records_bytes;
    return KN_OK;
}

int kn_fetch_job_open(struct kn_fetch_job *job, struct kn_segment **data, int64_t *failed_offset, int64_t *next_offset)
{
    *data = NULL;
    *failed_offset = job->offset;
    *next_offset = job->offset;
    if (job->batch_count == 0) return KN_OK;
    struct kn_segment *segment = kn_segment_new(KN_SEGMENT_DATA, job->cursor, job->epoch, job->batch_count);
    if (!segment) return KN_ERR_NOMEM;
    segment->fetch_offset = segment->next_offset = job->offset;

    struct aborted_filter filter;
    int status = aborted_filter_init(&filter, job);
    struct kn_span span = kn_span_of(job->result.records, job->result.records_bytes);
    while (status == KN_OK && segment->batch_count < job->batch_count) {
        struct kn_batch_view view = {0};
        view.last_offset = segment->next_offset;
        status = kn_batch_view_next(&span, &view);
        if (status == KN_ERR_TRUNCATED) {
            status = KN_OK;
            break;
        }
        *failed_offset = segment->next_offset;
        *next_offset = view.last_offset + 1;
        if (status == KN_OK) status = open_batch(job, &filter, &view, segment);
        if (status == KN_OK && view.last_offset >= segment->next_offset) segment->next_offset = view.last_offset + 1;
    }
    free(filter.list);

    int64_t size_bytes = segment->size_bytes;
    segment->size_bytes = 0;
    if (segment->next_offset == job->offset) { /* nothing moved: nothing to tell */
        kn_segment_free(segment);
        return status;
    }
    kn_segment_account(segment, size_bytes);
    segment->message_count = job->message_count;
    job->message_count = 0;
    *data = segment;
    return status;
}

void kn_fetch_job_deinit(struct kn_fetch_job *job)
{
    if (job->message_count) kn_cursor_unqueued(job->cursor, job->message_count);
    kn_chunk_unref(job->chunk);
    kn_cursor_unref(job->cursor);
}
