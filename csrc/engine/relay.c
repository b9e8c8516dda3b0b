/* Copies fetched batches to a producer's partition. See relay.h. */
#include "engine/relay.h"

#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "engine/engine.h"
#include "produce/delivery_counter.h"

/* A batch below both limits is copied record by record: a batch costs the broker and its readers as
 * much as several records. */
#define WHOLE_BYTES ((size_t)16 << 10)
#define WHOLE_RECORDS 64

struct kn_fetched_batches *kn_fetched_batches_take(struct kn_segment *segment)
{
    struct kn_fetched_batches *fetched = malloc(sizeof *fetched + (size_t)segment->batch_count *
                                                                      sizeof fetched->batches[0]);
    if (!fetched) return NULL;
    fetched->count = segment->batch_count;
    fetched->next = 0;
    memcpy(fetched->batches, segment->batches,
           (size_t)segment->batch_count * sizeof fetched->batches[0]);
    segment->batch_next = segment->batch_count;
    for (int32_t i = 0; i < segment->batch_count; i++) segment->batches[i].chunk = NULL;
    return fetched;
}

void kn_fetched_batches_free(struct kn_fetched_batches *fetched)
{
    if (!fetched) return;
    for (int32_t i = 0; i < fetched->count; i++) kn_chunk_unref(fetched->batches[i].chunk);
    free(fetched);
}

static void stop_reading(struct kn_relay *relay)
{
    kn_buffer_give(relay->opened);
    relay->opened = NULL;
    relay->is_reading = 0;
}

static void drop_fetched(struct kn_relay *relay)
{
    stop_reading(relay);
    kn_batch_free(relay->made);
    relay->made = NULL;
    kn_fetched_batches_free(relay->fetched);
    relay->fetched = NULL;
}

void kn_relay_deinit(struct kn_relay *relay)
{
    drop_fetched(relay);
    kn_runs_deinit(&relay->runs);
}

void kn_relay_give(struct kn_relay *relay, struct kn_fetched_batches *fetched, int64_t first,
                   int64_t end)
{
    drop_fetched(relay);
    relay->fetched = fetched;
    relay->first = first;
    relay->end = end;
}

/* --- whole batches --- */

static int goes_whole(const struct kn_relay *relay, const struct kn_batch_view *view)
{
    const struct kn_produce_config *config = relay->topic->config;
    const struct kn_budget *budget = &relay->topic->producer->budget;
    int codec = kn_batch_view_codec(view);
    int64_t count = view->record_count, bytes = (int64_t)view->raw_bytes;
    if (view->magic != 2 || count < 1 || count > relay->stop - relay->rows ||
        view->last_offset - view->base_offset != count - 1)
        return 0;
    if (view->base_offset < relay->first || view->last_offset >= relay->end) return 0;
    if (view->attributes & KN_ATTR_LOG_APPEND_TIME || view->base_timestamp_ms <= 0 ||
        view->max_timestamp_ms <= 0)
        return 0;
    if (codec >= KN_CODEC_COUNT || (config->codec != KN_CODEC_NONE && config->codec != codec))
        return 0;
    if (view->raw_bytes < WHOLE_BYTES && count < WHOLE_RECORDS) return 0;
    /* The header's count isn't checked yet, and each record gets a token. So the count may not
     * exceed the number of bytes. */
    if (count > bytes || bytes > config->message_max_bytes) return 0;
    return !(budget->messages_max && count > budget->messages_max) &&
           !(budget->bytes_max && bytes > budget->bytes_max);
}

static int make_whole(struct kn_relay *relay, const struct kn_batch_view *view)
{
    struct kn_batch *batch = kn_batch_new_of_view(relay->engine->client.pool, relay->topic,
                                                  relay->partition, view);
    if (!batch) return KN_ERR_NOMEM;
    batch->opaques = malloc((size_t)view->record_count * sizeof *batch->opaques);
    if (!batch->opaques) {
        kn_batch_free(batch);
        return KN_ERR_NOMEM;
    }
    for (int32_t i = 0; i < view->record_count; i++)
        batch->opaques[i] = kn_delivery_counter_token(relay->counter, relay->rows + i);
    batch->opaque_capacity = view->record_count;
    batch->budget_bytes = (int64_t)view->raw_bytes;
    relay->made = batch;
    return KN_OK;
}

/* Notes the queued records. Room for their run was reserved before: records that are queued but not
 * noted would be queued again. */
static void note_queued(struct kn_relay *relay, int64_t offset, int64_t count, int64_t bytes)
{
    kn_runs_add(&relay->runs, relay->rows, offset, count);
    relay->rows += count;
    relay->bytes += bytes;
}

/* --- record by record --- */

/* Reads the next wanted record; KN_ERR_TRUNCATED: there is none. */
static int next_wanted(struct kn_relay *relay, struct kn_record *record)
{
    int status;
    do status = kn_record_reader_next(&relay->reader, record);
    while (status == KN_OK && record->offset < relay->first);
    if (status == KN_OK) relay->offset = record->offset;
    return status == KN_OK && record->offset >= relay->end ? KN_ERR_TRUNCATED : status;
}

/* Moves the reader behind `count` wanted records. */
static int skip_wanted(struct kn_relay *relay, int32_t count)
{
    struct kn_record record;
    int status = KN_OK;
    for (int32_t i = 0; i < count && status == KN_OK; i++) {
        status = next_wanted(relay, &record);
        if (status == KN_OK) note_queued(relay, record.offset, 1, kn_record_bytes(&record));
    }
    return status;
}

static int put_records(struct kn_relay *relay)
{
    struct kn_message messages[KN_PRODUCE_RUN_MAX];
    struct kn_record record;
    struct kn_record_reader before = relay->reader;
    int64_t records_max = relay->stop - relay->rows;
    int32_t count = 0, queued = 0;
    int status = kn_runs_reserve(&relay->runs, KN_PRODUCE_RUN_MAX);
    if (status != KN_OK) return status;
    while (count < KN_PRODUCE_RUN_MAX && count < records_max &&
           (status = next_wanted(relay, &record)) == KN_OK) {
        messages[count] = kn_message_of(
            &record, relay->partition,
            kn_delivery_counter_token(relay->counter, relay->rows + count));
        count++;
    }
    if (count == 0) {
        if (status != KN_ERR_TRUNCATED) return status;
        stop_reading(relay);
        relay->fetched->next++;
        return KN_OK;
    }
    kn_delivery_counter_begin(relay->counter, count);
    status = kn_topic_produce_run(relay->topic, messages, count, &queued);
    if (queued < count) kn_delivery_counter_settle(relay->counter, count - queued, 0);
    relay->reader = before;
    int passed = skip_wanted(relay, queued);
    if (status != KN_OK && passed == KN_OK) {
        before = relay->reader;
        next_wanted(relay, &record); /* to report its offset */
        relay->reader = before;
    }
    return passed == KN_OK ? status : passed;
}

static int begin_reading(struct kn_relay *relay, const struct kn_batch_view *fetched)
{
    const struct kn_engine *engine = relay->engine;
    struct kn_batch_view view = *fetched;
    int status = kn_batch_view_open(&view, &engine->client.codecs,
                                    engine->config.fetch.decompressed_max_bytes,
                                    engine->client.pool, &relay->opened);
    if (status == KN_OK) status = kn_record_reader_init(&relay->reader, &view);
    relay->is_reading = status == KN_OK;
    if (status != KN_OK) stop_reading(relay);
    return status;
}

/* --- both ways --- */

static int put_whole(struct kn_relay *relay, const struct kn_batch_view *view)
{
    int32_t count = view->record_count;
    int status = kn_runs_reserve(&relay->runs, 1);
    if (status != KN_OK) return status;
    kn_delivery_counter_begin(relay->counter, count); /* before any of them can have its outcome */
    status = kn_topic_produce_batch(relay->topic, relay->made);
    if (status == KN_OK) {
        relay->made = NULL;
        relay->fetched->next++;
        note_queued(relay, view->base_offset, count, (int64_t)view->raw_bytes);
        return KN_OK;
    }
    kn_delivery_counter_settle(relay->counter, count, 0);
    if (status != KN_ERR_STALE) return status;
    /* the topic's partitions became unknown: single records can wait for them in staging */
    kn_batch_free(relay->made);
    relay->made = NULL;
    return begin_reading(relay, view);
}

/* Makes one step with the next batch: opens it, or queues a part or all of it. */
static int step(struct kn_relay *relay)
{
    const struct kn_batch_view *view = &relay->fetched->batches[relay->fetched->next].view;
    if (relay->is_reading) return put_records(relay);
    if (relay->made) return put_whole(relay, view);
    if (view->last_offset < relay->first || view->base_offset >= relay->end) {
        relay->fetched->next++;
        return KN_OK;
    }
    relay->offset = view->base_offset;
    /* the new checksum must not hide bytes that were damaged in transfer */
    int status = kn_batch_view_check(view);
    if (status != KN_OK) return status;
    return goes_whole(relay, view) && kn_topic_partition_count(relay->topic) > relay->partition
               ? make_whole(relay, view)
               : begin_reading(relay, view);
}

static int run(struct kn_relay *relay)
{
    int status = KN_OK;
    while (status == KN_OK && relay->fetched && relay->rows < relay->stop) {
        if (relay->fetched->next == relay->fetched->count) drop_fetched(relay);
        else status = step(relay);
    }
    return status;
}

static int run_again(void *context)
{
    struct kn_relay *relay = context;
    int64_t before = relay->rows;
    int status = run(relay);
    return status == KN_ERR_FULL && relay->rows > before ? KN_OK : status;
}

int kn_relay_run(struct kn_relay *relay, int64_t records_max)
{
    relay->stop = records_max > INT64_MAX - relay->rows ? INT64_MAX : relay->rows + records_max;
    return run(relay);
}

int kn_relay_run_waiting(struct kn_relay *relay, int64_t records_max, int64_t deadline_us)
{
    int tries = 0, status = kn_relay_run(relay, records_max);
    while (status == KN_ERR_FULL) {
        status = kn_engine_wait_for_room(relay->engine, run_again, relay, deadline_us, &tries);
        if (status == KN_ERR_FULL) break;
        if (status == KN_OK) status = run(relay);
    }
    /* else the deadline has passed */
    relay->never_fits = status == KN_ERR_FULL && tries == KN_ROOM_TRIES;
    return status;
}
