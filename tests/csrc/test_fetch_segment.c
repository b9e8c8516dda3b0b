/* From the bytes of a fetched partition to segments: unusual aborted transactions, parts, and
 * impossible offsets. */
#include "check.h"
#include "base/endian.h"
#include "base/status.h"
#include "engine/engine.h"
#include "consume/fetch_segment.h"
#include "records/batch_writer.h"
#include "records/record_reader.h"

#define ABORT 0
#define COMMIT 1
#define OFFSETS_MAX 64

static struct kn_engine *engine;
static struct kn_cursor *cursor;
static struct kn_buffer *log_bytes;
static struct kn_buffer *aborted_bytes;
static int32_t aborted_count;

static void begin(void)
{
    static const uint8_t no_id[16];
    struct kn_engine_config config;
    kn_engine_config_init(&config);
    engine = kn_engine_new(&config, NULL);
    cursor = kn_cursor_new(&engine->consumer, "topic", 5, no_id, 0, 1);
    log_bytes = kn_buffer_take(NULL, 4096);
    aborted_bytes = kn_buffer_take(NULL, 4096);
    aborted_count = 0;
}

static void end(void)
{
    kn_buffer_give(log_bytes);
    kn_buffer_give(aborted_bytes);
    CHECK_EQ(atomic_load(&cursor->queued_messages), 0);
    CHECK_EQ(atomic_load(&cursor->queued_bytes), 0);
    kn_cursor_unref(cursor);
    kn_engine_stop(engine);
    kn_engine_free(engine);
    CHECK_EQ(kn_engine_live(), 0);
    CHECK_EQ(kn_cursor_live(), 0);
    CHECK_EQ(kn_segment_live(), 0);
    CHECK_EQ(kn_chunk_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

static void append(int64_t offset, int32_t count, int16_t attributes, int64_t producer_id,
                   const uint8_t *key, int32_t value_bytes)
{
    static uint8_t value[300000];
    struct kn_buffer *buffer = kn_buffer_take(NULL, 4096);
    struct kn_batch_writer writer;
    struct kn_batch_meta meta = {.base_offset = offset,
                                 .attributes = attributes,
                                 .producer_id = producer_id,
                                 .producer_epoch = 0,
                                 .base_sequence = -1};
    CHECK_EQ(kn_batch_writer_init(&writer, buffer), KN_OK);
    for (int32_t i = 0; i < count; i++) {
        CHECK_EQ(kn_buffer_reserve(&buffer, kn_record_bound_bytes(4, value_bytes, 0)), KN_OK);
        CHECK_EQ(kn_batch_writer_append(&writer, buffer, 1000, key, key ? 4 : -1, value,
                                        value_bytes, NULL, 0, 0),
                 KN_OK);
    }
    kn_batch_close(buffer, &writer, &meta);
    CHECK_EQ(kn_buffer_append(&log_bytes, buffer->data, buffer->size_bytes), KN_OK);
    kn_buffer_give(buffer);
}

static void data(int64_t offset, int32_t count, int64_t producer_id)
{
    append(offset, count, producer_id < 0 ? 0 : KN_ATTR_TRANSACTIONAL, producer_id, NULL, 1);
}

static void marker(int64_t offset, int64_t producer_id, uint8_t type)
{
    uint8_t key[4] = {0, 0, 0, type};
    append(offset, 1, KN_ATTR_TRANSACTIONAL | KN_ATTR_CONTROL, producer_id, key, 6);
}

static void aborted(int64_t producer_id, int64_t first_offset)
{
    uint8_t entry[16];
    kn_put_i64(kn_put_i64(entry, producer_id), first_offset);
    CHECK_EQ(kn_buffer_append(&aborted_bytes, entry, sizeof entry), KN_OK);
    aborted_count++;
}

static struct kn_fetch_job job_new(int64_t offset)
{
    struct kn_buffer *copy = kn_buffer_take(NULL, log_bytes->size_bytes + 1);
    CHECK_EQ(kn_buffer_append(&copy, log_bytes->data, log_bytes->size_bytes), KN_OK);
    struct kn_fetch_job job = {.cursor = kn_cursor_ref(cursor),
                               .epoch = 1,
                               .offset = offset,
                               .version = 11,
                               .chunk = kn_chunk_new(copy)};
    job.result.records = copy->data;
    job.result.records_bytes = copy->size_bytes;
    job.result.aborted = kn_span_of(aborted_bytes->data, aborted_bytes->size_bytes);
    job.result.aborted_count = aborted_count;
    kn_fetch_job_scan(&job);
    return job;
}

/* Opens the log from `offset` on. Returns the offsets that the application gets, and the position
 * after them. */
static int read_from(int64_t offset, int64_t offsets[OFFSETS_MAX], int64_t *position)
{
    struct kn_fetch_job job = job_new(offset);
    int count = 0;
    *position = offset;
    while (!job.is_done) {
        struct kn_segment *segment;
        int64_t failed_offset, next_offset;
        CHECK_EQ(kn_fetch_job_open(&job, &segment, &failed_offset, &next_offset), KN_OK);
        for (int32_t i = 0; segment && i < segment->batch_count; i++) {
            struct kn_record_reader reader;
            struct kn_record record;
            CHECK_EQ(kn_record_reader_init(&reader, &segment->batches[i].view), KN_OK);
            while (kn_record_reader_next(&reader, &record) == KN_OK) {
                if (record.offset < segment->fetch_offset) continue;
                CHECK(count < OFFSETS_MAX);
                offsets[count++] = record.offset;
            }
        }
        if (segment) *position = segment->next_offset;
        kn_segment_free(segment);
    }
    kn_fetch_job_deinit(&job);
    return count;
}

/* Checks that a read from `offset` on gives exactly these offsets (-1 ends the list) and this
 * position. */
static void check_read(int64_t offset, int64_t position, const int64_t *expected)
{
    int64_t offsets[OFFSETS_MAX], reached;
    int count = read_from(offset, offsets, &reached);
    int wanted = 0;
    while (expected[wanted] >= 0) wanted++;
    for (int i = 0; i < count && i < wanted; i++) CHECK_EQ(offsets[i], expected[i]);
    CHECK_EQ(count, wanted);
    CHECK_EQ(reached, position);
}

#define READS(offset, position, ...)                                                               \
    check_read(offset, position, (const int64_t[]){__VA_ARGS__, -1})
#define READS_NOTHING(offset, position) check_read(offset, position, (const int64_t[]){-1})

static void test_an_aborted_transaction_among_others_is_left_out(void)
{
    begin();
    data(0, 2, 7);
    data(2, 2, 8);
    data(4, 1, -1);
    marker(5, 7, ABORT);
    data(6, 1, 8);
    data(7, 1, 7);
    marker(8, 8, COMMIT);
    marker(9, 7, COMMIT);
    aborted(7, 0);
    READS(0, 10, 2, 3, 4, 6, 7);
    READS(1, 10, 2, 3, 4, 6, 7);
    end();
}

static void test_the_list_needs_no_order(void)
{
    begin();
    data(0, 1, 7);
    marker(1, 7, ABORT);
    data(2, 1, 7);
    marker(3, 7, COMMIT);
    data(4, 1, 7);
    data(5, 1, 8);
    marker(6, 7, ABORT);
    marker(7, 8, ABORT);
    data(8, 1, 7);
    aborted(8, 5);
    aborted(7, 4);
    aborted(7, 0);
    READS(0, 9, 2, 8);
    end();
}

static void test_a_marker_without_data_and_a_second_one_change_nothing(void)
{
    begin();
    marker(0, 7, ABORT); /* of a transaction that began before the fetch, or had no records */
    data(1, 1, 7);
    marker(2, 7, COMMIT);
    data(3, 1, 7);
    marker(4, 7, ABORT);
    marker(5, 7, ABORT);
    data(6, 1, 7);
    marker(7, 7, COMMIT);
    data(8, 1, 7);
    marker(9, 7, ABORT);
    aborted(7, 3);
    aborted(7, 8);
    READS(0, 10, 1, 6);
    end();
}

static void test_an_aborted_transaction_without_records_hides_nothing(void)
{
    begin();
    marker(0, 7, ABORT);
    data(1, 1, 7);
    marker(2, 7, COMMIT);
    aborted(7, 0); /* begins and ends with its marker */
    aborted(9, 0); /* a producer without records here */
    READS(0, 3, 1);
    end();
}

/* Compaction removed the abort marker of the first transaction: the producer's next marker ends it,
 * too. */
static void test_a_missing_marker_hides_no_later_transaction(void)
{
    begin();
    data(0, 1, 7);
    data(3, 1, 7);
    marker(4, 7, ABORT);
    data(5, 1, 7);
    marker(6, 7, COMMIT);
    data(7, 1, 7);
    aborted(7, 0);
    aborted(7, 3);
    READS(0, 8, 5, 7);
    end();
    begin();
    data(0, 1, 7); /* aborted; its marker was removed */
    marker(6, 7, COMMIT);
    data(7, 1, 7);
    aborted(7, 0);
    READS(0, 8, 7);
    end();
}

static void test_nothing_but_markers_moves_the_position(void)
{
    begin();
    marker(0, 7, ABORT);
    marker(1, 8, COMMIT);
    READS_NOTHING(0, 2);
    end();
}

static void test_read_uncommitted_leaves_only_markers_out(void)
{
    begin();
    engine->config.fetch.isolation_level = 0;
    data(0, 2, 7);
    marker(2, 7, ABORT);
    data(3, 1, -1);
    aborted(7, 0);
    READS(0, 4, 0, 1, 3);
    end();
}

static void test_very_many_aborted_transactions_take_no_longer(void)
{
    begin();
    for (int64_t id = 0; id < 200000; id++) aborted(id, id % 3);
    for (int64_t offset = 0; offset < 2000; offset++) data(offset, 1, offset + 150000);
    /* not in the list: 200000 and on */
    for (int64_t id = 190000; id < 190010; id++) data(id, 1, id + 10000);
    READS(0, 190010, 190000, 190001, 190002, 190003, 190004, 190005, 190006, 190007, 190008,
          190009);
    end();
}

/* A large result comes in parts, in order, and each part counts its own messages. */
static void test_a_large_result_is_opened_in_parts(void)
{
    begin();
    for (int64_t offset = 0; offset < 12; offset++) append(offset, 1, 0, -1, NULL, 300000);
    struct kn_fetch_job job = job_new(0);
    CHECK_EQ(job.next_offset, 12);
    CHECK_EQ(atomic_load(&cursor->queued_messages), 12);
    int64_t position = 0;
    int parts = 0;
    for (; !job.is_done; parts++) {
        struct kn_segment *segment;
        int64_t failed_offset, next_offset;
        CHECK_EQ(kn_fetch_job_open(&job, &segment, &failed_offset, &next_offset), KN_OK);
        CHECK(segment != NULL);
        CHECK_EQ(segment->fetch_offset, position);
        CHECK_EQ(segment->message_count, segment->batch_count);
        CHECK(segment->size_bytes <= (1 << 20) + 300100);
        position = segment->next_offset;
        int64_t before = atomic_load(&cursor->queued_messages);
        int64_t count = segment->message_count;
        kn_segment_free(segment);
        CHECK_EQ(atomic_load(&cursor->queued_messages), before - count);
    }
    CHECK_EQ(position, 12);
    CHECK_EQ(parts, 3);
    kn_fetch_job_deinit(&job);
    end();
}

static void test_a_job_given_up_in_the_middle_gives_everything_back(void)
{
    begin();
    for (int64_t offset = 0; offset < 12; offset++) append(offset, 1, 0, -1, NULL, 300000);
    aborted(7, 0);
    struct kn_fetch_job job = job_new(0);
    struct kn_segment *segment;
    int64_t failed_offset, next_offset;
    CHECK_EQ(kn_fetch_job_open(&job, &segment, &failed_offset, &next_offset), KN_OK);
    CHECK_EQ(job.is_done, 0);
    kn_fetch_job_deinit(&job);
    kn_segment_free(segment);
    end();
}

static void test_damage_after_good_batches_is_reported_with_its_offset(void)
{
    begin();
    data(0, 3, -1);
    size_t good_bytes = log_bytes->size_bytes;
    data(3, 2, -1);
    log_bytes->data[good_bytes + 65] ^= 1;
    data(5, 1, -1);
    struct kn_fetch_job job = job_new(0);
    job.result.high_watermark = 6;
    struct kn_segment *segment;
    int64_t failed_offset, next_offset;
    CHECK_EQ(kn_fetch_job_open(&job, &segment, &failed_offset, &next_offset), KN_ERR_CRC);
    CHECK_EQ(job.is_done, 1);
    CHECK_EQ(failed_offset, 3);
    CHECK_EQ(next_offset, 5);
    CHECK_EQ(segment->next_offset, 3);
    kn_segment_free(segment);
    kn_fetch_job_deinit(&job);
    end();
}

static void test_a_damaged_header_does_not_say_where_to_go_on(void)
{
    static const int64_t ends[] = {2, 9}; /* before its place, behind the log's end */
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        begin();
        data(ends[i] - 1, 2, -1);
        log_bytes->data[65] ^= 1;
        struct kn_fetch_job job = job_new(4);
        job.result.high_watermark = 8;
        struct kn_segment *segment;
        int64_t failed_offset, next_offset;
        CHECK_EQ(kn_fetch_job_open(&job, &segment, &failed_offset, &next_offset), KN_ERR_CRC);
        CHECK_EQ(failed_offset, 4);
        CHECK_EQ(next_offset, 5);
        kn_fetch_job_deinit(&job);
        end();
    }
}

static void test_offsets_that_overflow_are_refused(void)
{
    static const int64_t offsets[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX - INT32_MAX + 1,
                                      INT64_MIN, -1};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        for (int8_t magic = 0; magic <= 2; magic++) {
            begin();
            data(0, 1, -1);
            kn_put_i64(log_bytes->data, offsets[i]);
            log_bytes->data[16] = (uint8_t)magic;
            struct kn_fetch_job job = job_new(0);
            struct kn_segment *segment;
            int64_t failed_offset, next_offset;
            CHECK_EQ(kn_fetch_job_open(&job, &segment, &failed_offset, &next_offset),
                     KN_ERR_INVALID);
            CHECK(segment == NULL);
            CHECK_EQ(failed_offset, 0);
            kn_fetch_job_deinit(&job);
            end();
        }
    }
}

int main(void)
{
    RUN(test_an_aborted_transaction_among_others_is_left_out);
    RUN(test_the_list_needs_no_order);
    RUN(test_a_marker_without_data_and_a_second_one_change_nothing);
    RUN(test_an_aborted_transaction_without_records_hides_nothing);
    RUN(test_a_missing_marker_hides_no_later_transaction);
    RUN(test_nothing_but_markers_moves_the_position);
    RUN(test_read_uncommitted_leaves_only_markers_out);
    RUN(test_very_many_aborted_transactions_take_no_longer);
    RUN(test_a_large_result_is_opened_in_parts);
    RUN(test_a_job_given_up_in_the_middle_gives_everything_back);
    RUN(test_damage_after_good_batches_is_reported_with_its_offset);
    RUN(test_a_damaged_header_does_not_say_where_to_go_on);
    RUN(test_offsets_that_overflow_are_refused);
    return check_done();
}
