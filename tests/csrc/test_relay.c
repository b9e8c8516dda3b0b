/* Fetched batches copied to a producer's partition: which batches are copied whole, which are read,
 * and that no record is lost or reported twice. */
#include "check.h"
#include "base/crc32c.h"
#include "base/endian.h"
#include "base/status.h"
#include "produce/batch_encoder.h"
#include "engine/engine.h"
#include "engine/relay.h"
#include "records/record_reader.h"

#define COUNT 100
#define AT_CRC 17
#define AT_ATTRIBUTES 21
#define AT_LAST_OFFSET_DELTA 23
#define AT_RECORD_COUNT 57
#define ALL INT64_MAX
#define T0 1700000000000

static struct kn_engine *engine;
static struct kn_topic *topic;
static struct kn_relay relay;

static void begin(int32_t codec, int64_t messages_max)
{
    struct kn_engine_config config;
    struct kn_broker *leaders[2] = {NULL, NULL};
    kn_engine_config_init(&config);
    config.produce.codec = codec;
    config.produce.queue_messages_max = messages_max;
    engine = kn_engine_new(&config, NULL);
    topic = kn_producer_topic(&engine->producer, "t", 1, 1);
    CHECK_EQ(kn_topic_set_partitions(topic, NULL, 2, leaders, NULL), KN_OK);
    memset(&relay, 0, sizeof relay);
    relay.engine = engine;
    relay.topic = topic;
    relay.partition = 1;
    relay.counter = kn_delivery_counter_new(&engine->counters, NULL);
    relay.counter->keeps_runs = 1;
}

static void end(void)
{
    kn_relay_deinit(&relay);
    kn_topic_purge(topic);
    struct kn_list *node;
    while ((node = kn_queue_pop(&engine->deliveries)))
        kn_engine_batch_reported(engine, KN_LIST_ENTRY(node, struct kn_batch, node));
    CHECK_EQ(kn_engine_outstanding(engine), 0);
    kn_engine_stop(engine);
    kn_engine_free(engine);
    CHECK_EQ(kn_delivery_counter_live(), 0);
    CHECK_EQ(kn_batch_live(), 0);
    CHECK_EQ(kn_chunk_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

/* --- fetched batches --- */

/* Makes a batch of records with values "000", "001" ... from `offset` on, one millisecond apart. */
static struct kn_buffer *batch_bytes(int64_t offset, int32_t count, int codec_id,
                                     int16_t attributes)
{
    struct kn_batch_writer writer;
    struct kn_batch_meta meta = {.base_offset = offset,
                                 .attributes = (int16_t)(attributes | codec_id),
                                 .producer_id = 77,
                                 .producer_epoch = 3,
                                 .base_sequence = 5};
    struct kn_buffer *plain = kn_buffer_take(NULL, (size_t)1 << 20),
                     *out = kn_buffer_take(NULL, (size_t)1 << 20);
    CHECK_EQ(kn_batch_writer_init(&writer, plain), KN_OK);
    for (int32_t i = 0; i < count; i++) {
        char value[16];
        uint8_t header[32];
        int size = snprintf(value, sizeof value, "%03d", (int)i);
        size_t header_bytes = (size_t)(kn_header_encode(header, "h", 1, value, size) - header);
        CHECK_EQ(kn_batch_writer_append(&writer, plain, T0 + i, (const uint8_t *)"k", 1,
                                        (const uint8_t *)value, size, header, header_bytes, 1),
                 KN_OK);
    }
    if (codec_id == KN_CODEC_NONE) {
        kn_buffer_give(out);
        out = plain;
    } else {
        const struct kn_codec *codec = &engine->client.codecs.codecs[codec_id];
        out->size_bytes = KN_BATCH_HEADER_BYTES;
        CHECK_EQ(codec->compress(plain->data + KN_BATCH_HEADER_BYTES,
                                 plain->size_bytes - KN_BATCH_HEADER_BYTES, KN_CODEC_LEVEL_DEFAULT,
                                 &out),
                 KN_OK);
        kn_buffer_give(plain);
    }
    kn_batch_close(out, &writer, &meta);
    return out;
}

static void patch(struct kn_buffer *batch, size_t at, int32_t value)
{
    kn_put_i32(batch->data + at, value);
    kn_put_i32(batch->data + AT_CRC, (int32_t)kn_crc32c(0, batch->data + AT_ATTRIBUTES,
                                                        batch->size_bytes - AT_ATTRIBUTES));
}

/* Joins two batches. Takes both buffers. */
static struct kn_buffer *joined(struct kn_buffer *first, struct kn_buffer *second)
{
    CHECK_EQ(kn_buffer_append(&first, second->data, second->size_bytes), KN_OK);
    kn_buffer_give(second);
    return first;
}

/* Takes the buffer. */
static struct kn_fetched_batches *fetched_of(struct kn_buffer *bytes)
{
    struct kn_span span = kn_span_of(bytes->data, bytes->size_bytes);
    struct kn_batch_view views[64];
    int32_t count = 0;
    while (kn_batch_view_next(&span, &views[count]) == KN_OK) count++;
    CHECK(count > 0 && count < 64);
    struct kn_fetched_batches *fetched = malloc(sizeof *fetched +
                                                (size_t)count * sizeof fetched->batches[0]);
    struct kn_chunk *chunk = kn_chunk_new(bytes);
    fetched->count = count;
    fetched->next = 0;
    for (int32_t i = 0; i < count; i++)
        fetched->batches[i] = (struct kn_segment_batch){views[i], i ? kn_chunk_ref(chunk) : chunk};
    return fetched;
}

/* Relays everything in the bytes, and takes them. */
static int relay_all(struct kn_buffer *bytes)
{
    kn_relay_give(&relay, fetched_of(bytes), 0, ALL);
    return kn_relay_run(&relay, ALL);
}

/* --- results --- */

static struct kn_accumulator *target(void) { return topic->tables->partitions[relay.partition]; }

/* Returns the next complete batch of the partition, or the open one; deliver() takes it. */
static struct kn_batch *next(void)
{
    struct kn_list *node = kn_list_first(&target()->waiting);
    if (node) return KN_LIST_ENTRY(node, struct kn_batch, node);
    return target()->open;
}

/* Delivers it as if the broker had written it from this offset on. */
static void deliver(int64_t base_offset)
{
    struct kn_list *node = kn_list_pop_front(&target()->waiting);
    struct kn_batch *batch = node ? KN_LIST_ENTRY(node, struct kn_batch, node) : target()->open;
    if (!node) target()->open = NULL;
    atomic_fetch_sub(&target()->batches, 1);
    batch->base_offset = base_offset;
    kn_client_deliver(&engine->client, batch);
}

/* Checks the batch as it is sent with this version of Produce: the numbers first .. first + count -
 * 1, in the source's order. */
static void check_sent(struct kn_batch *batch, int16_t version, int codec_id, int32_t first,
                       int32_t count, int64_t row)
{
    struct kn_batch_view view;
    struct kn_record_reader reader;
    struct kn_record record;
    struct kn_buffer *opened;
    CHECK_EQ(kn_batch_encode(&engine->producer, batch, version), KN_OK);
    struct kn_span span = kn_span_of(batch->wire->data, batch->wire->size_bytes);
    CHECK_EQ(kn_batch_view_next(&span, &view), KN_OK);
    CHECK_EQ(kn_span_left(&span), 0);
    CHECK_EQ(kn_batch_view_check(&view), KN_OK);
    CHECK_EQ(kn_batch_view_codec(&view), codec_id);
    CHECK_EQ(view.base_offset, 0);
    CHECK_EQ(view.producer_id, -1);
    CHECK_EQ(view.base_sequence, -1);
    CHECK_EQ(view.attributes, codec_id); /* no other attribute of the source */
    CHECK_EQ(
        kn_batch_view_open(&view, &engine->client.codecs, 1 << 20, engine->client.pool, &opened),
        KN_OK);
    CHECK_EQ(kn_record_reader_init(&reader, &view), KN_OK);
    CHECK_EQ(batch->writer.record_count, count);
    for (int32_t i = 0; i < count; i++) {
        char value[16];
        snprintf(value, sizeof value, "%03d", (int)(first + i));
        CHECK_EQ(kn_record_reader_next(&reader, &record), KN_OK);
        CHECK_EQ(record.offset, i);
        CHECK_EQ(record.timestamp_ms, T0 + first + i);
        CHECK_EQ(record.header_count, 1);
        CHECK_EQ(record.value_bytes, 3);
        CHECK_MEM(record.value, value, 3);
        CHECK(batch->opaques[i] == kn_delivery_counter_token(relay.counter, row + i));
    }
    CHECK_EQ(kn_record_reader_next(&reader, &record), KN_ERR_TRUNCATED);
    kn_buffer_give(opened);
}

static void check_runs(const struct kn_runs *runs, int64_t count, const struct kn_run *wanted)
{
    CHECK_EQ(runs->count, count);
    for (int64_t i = 0; i < count; i++) {
        CHECK_EQ(runs->runs[i].row, wanted[i].row);
        CHECK_EQ(runs->runs[i].offset, wanted[i].offset);
        CHECK_EQ(runs->runs[i].length, wanted[i].length);
    }
}

/* Checks that every row has its outcome, at these offsets. */
static void check_reported(int64_t count, const struct kn_run *placed)
{
    struct kn_delivery_counter *counter = relay.counter;
    CHECK_EQ(kn_delivery_counter_close(counter), 1);
    CHECK_EQ(atomic_load(&counter->delivered), relay.rows);
    check_runs(&counter->runs, count, placed);
    kn_batch_free(counter->completion);
    kn_delivery_counter_free(counter);
    atomic_fetch_sub(&engine->undelivered, 1);
}

static int is_whole(const struct kn_batch *batch) { return !batch->plain && batch->wire; }

/* --- tests --- */

static void test_batches_go_whole(void)
{
    begin(KN_CODEC_NONE, 0);
    struct kn_buffer *two = joined(batch_bytes(1000, COUNT, KN_CODEC_GZIP, KN_ATTR_TRANSACTIONAL),
                                   batch_bytes(1000 + COUNT, COUNT, KN_CODEC_NONE, 0));
    int64_t bytes = (int64_t)two->size_bytes;
    kn_relay_give(&relay, fetched_of(two), 1000, ALL);
    CHECK_EQ(kn_relay_run(&relay, ALL), KN_OK);
    CHECK(relay.fetched == NULL && kn_chunk_live() == 0);
    CHECK_EQ(relay.rows, 2 * COUNT);
    CHECK_EQ(relay.bytes, bytes);
    check_runs(&relay.runs, 1, &(struct kn_run){0, 1000, 2 * COUNT});
    CHECK(is_whole(next()));
    check_sent(next(), 9, KN_CODEC_GZIP, 0, COUNT, 0);
    deliver(7);
    CHECK(is_whole(next()));
    check_sent(next(), 9, KN_CODEC_NONE, 0, COUNT, COUNT);
    deliver(7 + COUNT + 1); /* another producer's records are in between */
    CHECK(next() == NULL);
    check_reported(2, (struct kn_run[]){{0, 7, COUNT}, {COUNT, 8 + COUNT, COUNT}});
    end();
}

static void test_whole_batches_keep_their_place(void)
{
    begin(KN_CODEC_GZIP, 0);
    struct kn_message message = {.value = (const uint8_t *)"v",
                                 .value_bytes = 1,
                                 .key_bytes = -1,
                                 .partition = 1,
                                 .timestamp_ms = T0};
    CHECK_EQ(kn_topic_produce(topic, &message), KN_OK);
    CHECK_EQ(relay_all(batch_bytes(0, COUNT, KN_CODEC_GZIP, 0)), KN_OK);
    CHECK_EQ(kn_topic_produce(topic, &message), KN_OK);
    CHECK_EQ(next()->writer.record_count, 1);
    int64_t first_id = next()->id;
    deliver(0);
    CHECK(is_whole(next()) && next()->id > first_id);
    int64_t second_id = next()->id;
    deliver(1);
    CHECK(next() == target()->open && next()->id > second_id);
    CHECK_EQ(atomic_load(&target()->batches), 1);
    CHECK_EQ(kn_engine_outstanding(engine), 1);
    check_reported(1, &(struct kn_run){0, 1, COUNT});
    end();
}

/* Checks a batch that can't be copied whole, and how it is sent. */
static void check_read(struct kn_buffer *bytes, int64_t first, int64_t end_offset, int32_t number,
                       int32_t count)
{
    int64_t row = relay.rows;
    kn_relay_give(&relay, fetched_of(bytes), first, end_offset);
    CHECK_EQ(kn_relay_run(&relay, ALL), KN_OK);
    CHECK(relay.fetched == NULL);
    CHECK_EQ(relay.rows, row + count);
    CHECK(next()->plain != NULL);
    check_sent(next(), 9, engine->config.produce.codec, number, count, row);
    deliver(row);
}

static void test_batches_that_cannot_be_copied_whole_are_read(void)
{
    begin(KN_CODEC_NONE, 0);
    check_read(batch_bytes(50, COUNT, KN_CODEC_GZIP, 0), 60, ALL, 10, COUNT - 10);
    check_read(batch_bytes(50, COUNT, KN_CODEC_NONE, 0), 0, 149, 0, COUNT - 1);
    struct kn_buffer *gap = batch_bytes(200, COUNT, KN_CODEC_GZIP, 0);
    patch(gap, AT_LAST_OFFSET_DELTA, COUNT); /* compaction has removed the last one */
    check_read(gap, 0, ALL, 0, COUNT);
    check_runs(&relay.runs, 3, (struct kn_run[]){{0, 60, 90}, {90, 50, 99}, {189, 200, COUNT}});
    check_reported(1, &(struct kn_run){0, 0, 289});
    end();
    begin(KN_CODEC_GZIP, 0);
    /* the producer has another codec */
    check_read(batch_bytes(0, COUNT, KN_CODEC_NONE, 0), 0, ALL, 0, COUNT);
    check_reported(1, &(struct kn_run){0, 0, COUNT});
    end();
    begin(KN_CODEC_NONE, COUNT - 1);
    /* larger than the whole queue */
    CHECK_EQ(relay_all(batch_bytes(0, COUNT, KN_CODEC_NONE, 0)), KN_ERR_FULL);
    CHECK_EQ(relay.rows, COUNT - 1);
    deliver(0);
    CHECK_EQ(kn_relay_run(&relay, ALL), KN_OK);
    check_sent(next(), 9, KN_CODEC_NONE, COUNT - 1, 1, COUNT - 1);
    deliver(COUNT - 1);
    check_reported(1, &(struct kn_run){0, 0, COUNT});
    end();
}

static void test_times_of_the_log_become_those_of_records(void)
{
    begin(KN_CODEC_NONE, 0);
    CHECK_EQ(relay_all(batch_bytes(0, COUNT, KN_CODEC_GZIP, KN_ATTR_LOG_APPEND_TIME)), KN_OK);
    CHECK_EQ(next()->writer.base_timestamp_ms, T0 + COUNT - 1);
    CHECK_EQ(next()->writer.max_timestamp_ms, T0 + COUNT - 1);
    deliver(0);
    check_reported(1, &(struct kn_run){0, 0, COUNT});
    end();
}

static void test_small_batches_are_gathered(void)
{
    begin(KN_CODEC_NONE, 0);
    struct kn_buffer *many = batch_bytes(0, 1, KN_CODEC_NONE, 0);
    for (int64_t i = 1; i < 50; i++) many = joined(many, batch_bytes(i, 1, KN_CODEC_NONE, 0));
    CHECK_EQ(relay_all(many), KN_OK);
    CHECK_EQ(next()->writer.record_count, 50);
    deliver(0);
    CHECK(next() == NULL);
    check_reported(1, &(struct kn_run){0, 0, 50});
    end();
}

static void test_a_full_queue_is_gone_on_with(void)
{
    begin(KN_CODEC_NONE, COUNT + COUNT / 2);
    CHECK_EQ(relay_all(joined(batch_bytes(0, COUNT, KN_CODEC_GZIP, 0),
                              batch_bytes(COUNT, COUNT, KN_CODEC_GZIP, 0))),
             KN_ERR_FULL);
    CHECK_EQ(relay.rows, COUNT);
    CHECK_EQ(kn_relay_run_waiting(&relay, ALL, kn_clock_us() + 2000), KN_ERR_FULL);
    deliver(0);
    CHECK_EQ(kn_relay_run_waiting(&relay, ALL, KN_NEVER), KN_OK);
    CHECK(is_whole(next()));
    check_sent(next(), 9, KN_CODEC_GZIP, 0, COUNT, COUNT);
    deliver(COUNT);
    check_reported(1, &(struct kn_run){0, 0, 2 * COUNT});
    end();
}

static void test_so_many_at_a_time(void)
{
    begin(KN_CODEC_NONE, 0);
    kn_relay_give(&relay, fetched_of(batch_bytes(0, COUNT, KN_CODEC_GZIP, 0)), 0, ALL);
    for (int32_t rows = 30; rows <= 90; rows += 30) {
        CHECK_EQ(kn_relay_run(&relay, 30), KN_OK);
        CHECK_EQ(relay.rows, rows);
        CHECK(relay.fetched != NULL);
    }
    CHECK_EQ(kn_relay_run(&relay, 30), KN_OK);
    CHECK(relay.fetched == NULL);
    check_sent(next(), 9, KN_CODEC_NONE, 0, COUNT, 0);
    deliver(0);
    check_reported(1, &(struct kn_run){0, 0, COUNT});
    end();
}

static void test_damaged_batches_are_not_sent(void)
{
    begin(KN_CODEC_NONE, 0);
    struct kn_buffer *changed = batch_bytes(40, COUNT, KN_CODEC_GZIP, 0);
    changed->data[changed->size_bytes - 20] ^= 1;
    CHECK_EQ(relay_all(changed), KN_ERR_CRC);
    CHECK_EQ(relay.offset, 40);
    struct kn_buffer *boasting = batch_bytes(40, COUNT, KN_CODEC_GZIP, 0);
    patch(boasting, AT_LAST_OFFSET_DELTA, INT32_MAX - 1);
    patch(boasting, AT_RECORD_COUNT, INT32_MAX); /* tokens for all of them would need 16 GB */
    CHECK_EQ(relay_all(boasting), KN_ERR_INVALID);
    struct kn_buffer *short_one = batch_bytes(40, COUNT, KN_CODEC_GZIP, 0);
    patch(short_one, AT_LAST_OFFSET_DELTA, COUNT + 1);
    patch(short_one, AT_RECORD_COUNT, COUNT + 1); /* and a gap, so it is read */
    kn_relay_give(&relay, fetched_of(short_one), 0, ALL);
    int status;
    while ((status = kn_relay_run(&relay, 10)) == KN_OK && relay.fetched) continue;
    CHECK_EQ(status, KN_ERR_INVALID);
    CHECK_EQ(relay.rows, COUNT); /* the records before it are queued */
    deliver(0);
    check_reported(1, &(struct kn_run){0, 0, COUNT});
    end();
}

static void test_an_unknown_partition_is_waited_for(void)
{
    begin(KN_CODEC_NONE, 0);
    struct kn_broker *leaders[3] = {NULL, NULL, NULL};
    relay.partition = 2; /* unknown yet: records wait */
    CHECK_EQ(relay_all(batch_bytes(0, COUNT, KN_CODEC_GZIP, 0)), KN_OK);
    CHECK_EQ(relay.rows, COUNT);
    CHECK_EQ(kn_topic_set_partitions(topic, NULL, 3, leaders, NULL), KN_OK);
    check_sent(next(), 9, KN_CODEC_NONE, 0, COUNT, 0);
    deliver(0);
    check_reported(1, &(struct kn_run){0, 0, COUNT});
    end();
}

static void test_a_topic_becomes_unknown(void)
{
    begin(KN_CODEC_NONE, 0);
    struct kn_broker *leaders[2] = {NULL, NULL};
    relay.partition = 1;
    kn_topic_fail(topic, KN_ERR_TIMED_OUT, 0, NULL);
    CHECK_EQ(relay_all(batch_bytes(0, COUNT, KN_CODEC_GZIP, 0)), KN_OK);
    CHECK_EQ(kn_topic_set_partitions(topic, NULL, 2, leaders, NULL), KN_OK);
    check_sent(next(), 9, KN_CODEC_NONE, 0, COUNT, 0);
    deliver(0);
    check_reported(1, &(struct kn_run){0, 0, COUNT});
    end();
}

static void test_a_closing_client_takes_nothing(void)
{
    begin(KN_CODEC_NONE, 0);
    kn_relay_give(&relay, fetched_of(batch_bytes(0, COUNT, KN_CODEC_GZIP, 0)), 0, ALL);
    atomic_store(&engine->producer.refusing, KN_ERR_FATAL);
    CHECK_EQ(kn_relay_run(&relay, ALL), KN_ERR_FATAL);
    CHECK_EQ(kn_relay_run_waiting(&relay, ALL, KN_NEVER), KN_ERR_FATAL);
    atomic_store(&engine->producer.refusing, KN_OK);
    CHECK_EQ(relay.rows, 0);
    CHECK_EQ(kn_relay_run(&relay, ALL), KN_OK);
    deliver(0);
    check_reported(1, &(struct kn_run){0, 0, COUNT});
    end();
}

static void test_older_brokers_get_their_own_form(void)
{
    begin(KN_CODEC_NONE, 0);
    CHECK_EQ(relay_all(batch_bytes(0, COUNT, KN_CODEC_GZIP, 0)), KN_OK);
    CHECK_EQ(kn_batch_encode(&engine->producer, next(), 2), KN_OK); /* message sets */
    CHECK_EQ(next()->magic, 1);
    check_sent(next(), 9, KN_CODEC_NONE, 0, COUNT, 0); /* and the next leader is newer */
    deliver(0);
    if (engine->client.codecs.codecs[KN_CODEC_ZSTD].compress) {
        CHECK_EQ(relay_all(batch_bytes(COUNT, COUNT, KN_CODEC_ZSTD, 0)), KN_OK);
        CHECK(is_whole(next()));
        check_sent(next(), 6, KN_CODEC_NONE, 0, COUNT, COUNT);
        deliver(COUNT);
    }
    check_reported(1, &(struct kn_run){0, 0, relay.rows});
    end();
}

static void test_a_whole_batch_is_split(void)
{
    begin(KN_CODEC_NONE, 0);
    CHECK_EQ(relay_all(batch_bytes(0, COUNT, KN_CODEC_GZIP, 0)), KN_OK);
    struct kn_batch *batch = KN_LIST_ENTRY(kn_list_pop_front(&target()->waiting), struct kn_batch,
                                           node);
    target()->in_flight++; /* as if it had been taken */
    CHECK_EQ(kn_accumulator_split(target(), batch, 30), KN_OK);
    check_sent(next(), 9, KN_CODEC_NONE, 0, 30, 0);
    deliver(0);
    check_sent(next(), 9, KN_CODEC_NONE, 30, COUNT - 30, 30);
    deliver(30);
    check_reported(1, &(struct kn_run){0, 0, COUNT});
    end();
}

static void test_a_failed_batch_reports_each_row_once(void)
{
    begin(KN_CODEC_NONE, 0);
    CHECK_EQ(relay_all(batch_bytes(0, COUNT, KN_CODEC_GZIP, 0)), KN_OK);
    kn_topic_purge(topic);
    struct kn_batch *failed = KN_LIST_ENTRY(kn_queue_pop(&engine->deliveries), struct kn_batch,
                                            node);
    CHECK(failed->plain == NULL && failed->wire == NULL);
    for (int32_t i = 0; i < COUNT; i++) CHECK_EQ(kn_token_row(failed->opaques[i]), i);
    kn_delivery_counter_settle(relay.counter, COUNT, 0);
    kn_engine_batch_reported(engine, failed);
    CHECK_EQ(kn_delivery_counter_close(relay.counter), 1);
    CHECK_EQ(relay.counter->runs.count, 0);
    kn_batch_free(relay.counter->completion);
    kn_delivery_counter_free(relay.counter);
    atomic_fetch_sub(&engine->undelivered, 1);
    end();
}

static void test_a_segment_gives_its_batches(void)
{
    static const uint8_t no_id[16];
    begin(KN_CODEC_NONE, 0);
    struct kn_cursor *cursor = kn_cursor_new(&engine->consumer, "t", 1, no_id, 0, 1);
    struct kn_segment *segment = kn_segment_new(KN_SEGMENT_DATA, cursor, 0, 2);
    struct kn_chunk *chunk = kn_chunk_new(batch_bytes(0, COUNT, KN_CODEC_GZIP, 0));
    struct kn_span span = kn_span_of(chunk->buffer->data, chunk->buffer->size_bytes);
    CHECK_EQ(kn_batch_view_next(&span, &segment->batches[0].view), KN_OK);
    segment->batches[0].chunk = chunk;
    segment->batch_count = 1;
    struct kn_fetched_batches *fetched = kn_fetched_batches_take(segment);
    kn_segment_free(segment);
    kn_cursor_unref(cursor);
    CHECK_EQ(kn_chunk_live(), 1);
    kn_relay_give(&relay, fetched, 0, ALL);
    CHECK_EQ(kn_relay_run(&relay, ALL), KN_OK);
    deliver(0);
    check_reported(1, &(struct kn_run){0, 0, COUNT});
    kn_relay_give(&relay, NULL, 0, 0);
    kn_fetched_batches_free(NULL);
    end();
}

int main(void)
{
    RUN(test_batches_go_whole);
    RUN(test_whole_batches_keep_their_place);
    RUN(test_batches_that_cannot_be_copied_whole_are_read);
    RUN(test_times_of_the_log_become_those_of_records);
    RUN(test_small_batches_are_gathered);
    RUN(test_a_full_queue_is_gone_on_with);
    RUN(test_so_many_at_a_time);
    RUN(test_damaged_batches_are_not_sent);
    RUN(test_an_unknown_partition_is_waited_for);
    RUN(test_a_topic_becomes_unknown);
    RUN(test_a_closing_client_takes_nothing);
    RUN(test_older_brokers_get_their_own_form);
    RUN(test_a_whole_batch_is_split);
    RUN(test_a_failed_batch_reports_each_row_once);
    RUN(test_a_segment_gives_its_batches);
    return check_done();
}
