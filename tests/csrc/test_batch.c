/* Record batches of magic 2: the writer, the reader, and the input that the reader refuses. */
#include "check.h"

#include "base/crc32c.h"
#include "base/endian.h"
#include "base/status.h"
#include "base/varint.h"
#include "records/batch_writer.h"
#include "records/record_reader.h"

#define AT_LENGTH 8
#define AT_CRC 17
#define AT_ATTRIBUTES 21
#define AT_LAST_OFFSET_DELTA 23
#define AT_COUNT 57

static const struct kn_batch_meta plain_meta = {100, 3, 0, -1, -1, -1};

static void append(struct kn_batch_writer *writer, struct kn_buffer **buffer, int64_t timestamp_ms,
                   const char *key, const char *value, const uint8_t *headers, size_t headers_bytes,
                   int32_t header_count)
{
    int32_t key_bytes = key ? (int32_t)strlen(key) : -1;
    int32_t value_bytes = value ? (int32_t)strlen(value) : -1;
    CHECK_EQ(
        kn_buffer_reserve(buffer, kn_record_bound_bytes(key_bytes, value_bytes, headers_bytes)),
        KN_OK);
    CHECK_EQ(kn_batch_writer_append(writer, *buffer, timestamp_ms, (const uint8_t *)key, key_bytes,
                                    (const uint8_t *)value, value_bytes, headers, headers_bytes,
                                    header_count),
             KN_OK);
}

/* Three records: a key and headers; null key, earlier timestamp; empty key, null value. */
static struct kn_buffer *sample(const struct kn_batch_meta *meta)
{
    struct kn_buffer *buffer = kn_buffer_take(NULL, KN_BATCH_HEADER_BYTES);
    struct kn_batch_writer writer;
    uint8_t headers[64];
    uint8_t *end = kn_header_encode(headers, "trace", 5, "x", 1);
    end = kn_header_encode(end, "", 0, NULL, -1);
    CHECK_EQ(kn_batch_writer_init(&writer, buffer), KN_OK);
    append(&writer, &buffer, 5000, "key", "value", headers, (size_t)(end - headers), 2);
    append(&writer, &buffer, 4000, NULL, "second", NULL, 0, 0);
    append(&writer, &buffer, 6000, "", NULL, NULL, 0, 0);
    CHECK_EQ(writer.record_count, 3);
    kn_batch_close(buffer, &writer, meta);
    return buffer;
}

static void encode_again(struct kn_buffer *buffer)
{
    kn_put_i32(buffer->data + AT_CRC, (int32_t)kn_crc32c(0, buffer->data + AT_ATTRIBUTES,
                                                         buffer->size_bytes - AT_ATTRIBUTES));
}

static void test_header_in_wire_form(void)
{
    const struct kn_batch_meta meta = {0x0102030405060708, 0x11121314, KN_ATTR_TRANSACTIONAL,
                                       0x2122232425262728, 0x3132,     0x41424344};
    struct kn_buffer *buffer = sample(&meta);
    static const uint8_t start[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const uint8_t middle[] = {0x11, 0x12, 0x13, 0x14, 2};
    static const uint8_t after_crc[] = {0,    0x10, 0,    0,    0,    2,    0,    0,    0,    0,
                                        0,    0,    0x13, 0x88, 0,    0,    0,    0,    0,    0,
                                        0x17, 0x70, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
                                        0x31, 0x32, 0x41, 0x42, 0x43, 0x44, 0,    0,    0,    3};
    CHECK_MEM(buffer->data, start, sizeof start);
    CHECK_EQ(kn_get_i32(buffer->data + AT_LENGTH), buffer->size_bytes - 12);
    CHECK_MEM(buffer->data + 12, middle, sizeof middle);
    CHECK_EQ(
        kn_get_u32(buffer->data + AT_CRC),
        kn_crc32c_portable(0, buffer->data + AT_ATTRIBUTES, buffer->size_bytes - AT_ATTRIBUTES));
    CHECK_MEM(buffer->data + AT_ATTRIBUTES, after_crc, sizeof after_crc);
    kn_buffer_give(buffer);
}

static void test_written_records_are_read_back(void)
{
    struct kn_buffer *buffer = sample(&plain_meta);
    struct kn_span span = kn_span_of(buffer->data, buffer->size_bytes);
    struct kn_batch_view view;
    struct kn_record_reader reader;
    struct kn_record record;
    struct kn_header header;

    CHECK_EQ(kn_batch_view_next(&span, &view), KN_OK);
    CHECK_EQ(kn_batch_view_check(&view), KN_OK);
    CHECK_EQ(view.base_offset, 100);
    CHECK_EQ(view.last_offset, 102);
    CHECK_EQ(view.record_count, 3);
    CHECK_EQ(view.partition_leader_epoch, 3);
    CHECK_EQ(view.max_timestamp_ms, 6000);
    CHECK(!kn_batch_view_is_control(&view));
    CHECK_EQ(kn_record_reader_init(&reader, &view), KN_OK);

    CHECK_EQ(kn_record_reader_next(&reader, &record), KN_OK);
    CHECK_EQ(record.offset, 100);
    CHECK_EQ(record.timestamp_ms, 5000);
    CHECK_EQ(record.key_bytes, 3);
    CHECK_MEM(record.value, "value", 5);
    CHECK_EQ(record.header_count, 2);
    struct kn_span headers = kn_span_of(record.headers, (size_t)record.headers_bytes);
    CHECK_EQ(kn_header_next(&headers, &header), KN_OK);
    CHECK_MEM(header.key, "trace", 5);
    CHECK_EQ(header.value_bytes, 1);
    CHECK_EQ(kn_header_next(&headers, &header), KN_OK);
    CHECK_EQ(header.key_bytes, 0);
    CHECK(header.value == NULL);
    CHECK_EQ(kn_header_next(&headers, &header), KN_ERR_INVALID);

    CHECK_EQ(kn_record_reader_next(&reader, &record), KN_OK);
    CHECK(record.key == NULL);
    CHECK_EQ(record.timestamp_ms, 4000); /* a negative delta */
    CHECK_EQ(kn_record_reader_next(&reader, &record), KN_OK);
    CHECK(record.key != NULL && record.key_bytes == 0 && record.value == NULL);
    CHECK_EQ(record.timestamp_type, 0);
    CHECK_EQ(kn_record_reader_next(&reader, &record), KN_ERR_TRUNCATED);
    CHECK_EQ(kn_batch_view_next(&span, &view), KN_ERR_TRUNCATED);
    kn_buffer_give(buffer);
}

static void test_far_timestamps_wrap_and_come_back(void)
{
    struct kn_buffer *buffer = kn_buffer_take(NULL, 4096);
    struct kn_batch_writer writer;
    struct kn_batch_view view;
    struct kn_record_reader reader;
    struct kn_record record;
    const int64_t times[] = {INT64_MAX, INT64_MIN, -1, 0};
    kn_batch_writer_init(&writer, buffer);
    for (int i = 0; i < 4; i++) append(&writer, &buffer, times[i], NULL, "v", NULL, 0, 0);
    kn_batch_close(buffer, &writer, &plain_meta);
    struct kn_span span = kn_span_of(buffer->data, buffer->size_bytes);
    CHECK_EQ(kn_batch_view_next(&span, &view), KN_OK);
    CHECK_EQ(view.max_timestamp_ms, INT64_MAX);
    kn_record_reader_init(&reader, &view);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(kn_record_reader_next(&reader, &record), KN_OK);
        CHECK_EQ(record.timestamp_ms, times[i]);
    }
    kn_buffer_give(buffer);
}

static void test_record_with_only_a_value_has_the_same_bytes(void)
{
    struct kn_buffer *buffers[2] = {kn_buffer_take(NULL, 1 << 16), kn_buffer_take(NULL, 1 << 16)};
    struct kn_batch_writer writers[2];
    static const uint8_t value[9000] = {1, 2, 3};
    static const int32_t sizes[] = {-1, 0, 1, 63, 64, 100, 8191, 8192};
    static const int64_t times[] = {1000, 1000, 999, 1063, 1064, 9191, 9193, INT64_MIN};
    for (int i = 0; i < 2; i++) kn_batch_writer_init(&writers[i], buffers[i]);
    for (int i = 0; i < 8; i++) {
        const uint8_t *data = sizes[i] < 0 ? NULL : value;
        CHECK_EQ(kn_batch_writer_append(&writers[0], buffers[0], times[i], NULL, -1, data, sizes[i],
                                        NULL, 0, 0),
                 KN_OK);
        CHECK_EQ(kn_batch_writer_append_value(&writers[1], buffers[1], times[i], data, sizes[i]),
                 KN_OK);
    }
    CHECK_EQ(buffers[0]->size_bytes, buffers[1]->size_bytes);
    size_t records_bytes = buffers[0]->size_bytes - KN_BATCH_HEADER_BYTES;
    CHECK_EQ(memcmp(buffers[0]->data + KN_BATCH_HEADER_BYTES,
                    buffers[1]->data + KN_BATCH_HEADER_BYTES, records_bytes),
             0);
    CHECK_EQ(writers[0].record_count, writers[1].record_count);
    CHECK_EQ(writers[0].max_timestamp_ms, writers[1].max_timestamp_ms);
    for (int i = 0; i < 2; i++) kn_buffer_give(buffers[i]);
}

static void test_append_refuses_a_record_without_room(void)
{
    struct kn_buffer *buffer = kn_buffer_take(NULL, 4096);
    struct kn_batch_writer writer;
    uint8_t value[4096] = {0};
    kn_batch_writer_init(&writer, buffer);
    int32_t room = 4096 - KN_BATCH_HEADER_BYTES - KN_RECORD_OVERHEAD_MAX_BYTES;
    CHECK_EQ(kn_batch_writer_append(&writer, buffer, 0, NULL, -1, value, room + 1, NULL, 0, 0),
             KN_ERR_FULL);
    CHECK_EQ(buffer->size_bytes, KN_BATCH_HEADER_BYTES); /* the records were not written */
    CHECK_EQ(writer.record_count, 0);
    CHECK_EQ(kn_batch_writer_append(&writer, buffer, 0, NULL, -1, value, room, NULL, 0, 0), KN_OK);
    CHECK_EQ(
        kn_batch_writer_append(&writer, buffer, 0, value, INT32_MAX, value, INT32_MAX, NULL, 0, 0),
        KN_ERR_TOO_LARGE);
    kn_buffer_give(buffer);
}

static void test_log_append_time_is_the_time_of_all(void)
{
    const struct kn_batch_meta meta = {0, -1, KN_ATTR_LOG_APPEND_TIME, -1, -1, -1};
    struct kn_buffer *buffer = sample(&meta);
    struct kn_span span = kn_span_of(buffer->data, buffer->size_bytes);
    struct kn_batch_view view;
    struct kn_record_reader reader;
    struct kn_record record;
    CHECK_EQ(kn_batch_view_next(&span, &view), KN_OK);
    kn_record_reader_init(&reader, &view);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kn_record_reader_next(&reader, &record), KN_OK);
        CHECK_EQ(record.timestamp_ms, 6000);
        CHECK_EQ(record.timestamp_type, 1);
    }
    kn_buffer_give(buffer);
}

/* A fetch ends where the broker stopped copying: a batch that is cut off there is no error. */
static void test_a_partial_batch_is_the_end(void)
{
    struct kn_buffer *buffer = sample(&plain_meta);
    struct kn_batch_view view;
    for (size_t size = 0; size < buffer->size_bytes; size++) {
        struct kn_span span = kn_span_of(buffer->data, size);
        CHECK_EQ(kn_batch_view_next(&span, &view), KN_ERR_TRUNCATED);
        CHECK_EQ(kn_span_left(&span), size);
    }
    kn_buffer_give(buffer);
}

static int next_status(const struct kn_buffer *buffer)
{
    struct kn_span span = kn_span_of(buffer->data, buffer->size_bytes);
    struct kn_batch_view view;
    view.last_offset = 55;
    int status = kn_batch_view_next(&span, &view);
    if (status != KN_OK) CHECK_EQ(kn_span_left(&span), buffer->size_bytes); /* untouched */
    return status;
}

static void test_impossible_headers_are_refused(void)
{
    struct kn_buffer *buffer = sample(&plain_meta);
    const int32_t lengths[] = {-1, 0, 13, INT32_MIN, 48};
    int32_t length = kn_get_i32(buffer->data + AT_LENGTH);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        kn_put_i32(buffer->data + AT_LENGTH, lengths[i]);
        CHECK_EQ(next_status(buffer), KN_ERR_INVALID);
    }
    kn_put_i32(buffer->data + AT_LENGTH, INT32_MAX);
    CHECK_EQ(next_status(buffer), KN_ERR_TRUNCATED);
    kn_put_i32(buffer->data + AT_LENGTH, length);

    const int8_t magics[] = {-1, 3, 127};
    for (size_t i = 0; i < sizeof magics; i++) {
        buffer->data[16] = (uint8_t)magics[i];
        CHECK_EQ(next_status(buffer), KN_ERR_INVALID);
    }
    buffer->data[16] = 2;
    const int32_t counts[] = {-1, 4, 1000000, INT32_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        kn_put_i32(buffer->data + AT_COUNT, counts[i]);
        CHECK_EQ(next_status(buffer), KN_ERR_INVALID);
    }
    kn_put_i32(buffer->data + AT_LAST_OFFSET_DELTA, INT32_MAX);
    CHECK_EQ(next_status(buffer), KN_ERR_INVALID); /* more records than bytes for them */
    kn_put_i32(buffer->data + AT_COUNT, 3);
    CHECK_EQ(next_status(buffer), KN_OK); /* compaction leaves such deltas */
    kn_put_i64(buffer->data, INT64_MAX);
    CHECK_EQ(next_status(buffer), KN_ERR_INVALID);
    kn_put_i64(buffer->data, -1);
    CHECK_EQ(next_status(buffer), KN_ERR_INVALID);
    kn_buffer_give(buffer);
}

static void test_every_flipped_bit_is_seen(void)
{
    struct kn_buffer *buffer = sample(&plain_meta);
    for (size_t at = AT_CRC; at < buffer->size_bytes; at++) {
        for (int bit = 0; bit < 8; bit++) {
            struct kn_span span = kn_span_of(buffer->data, buffer->size_bytes);
            struct kn_batch_view view;
            buffer->data[at] ^= (uint8_t)(1 << bit);
            int status = kn_batch_view_next(&span, &view);
            CHECK(status == KN_ERR_INVALID || kn_batch_view_check(&view) == KN_ERR_CRC);
            buffer->data[at] ^= (uint8_t)(1 << bit);
        }
    }
    kn_buffer_give(buffer);
}

/* Makes a batch around a hand-made records section. Returns the status at the end of iterating. */
static int read_section(const uint8_t *section, size_t section_bytes, int32_t count)
{
    struct kn_buffer *buffer = kn_buffer_take(NULL, KN_BATCH_HEADER_BYTES);
    struct kn_batch_writer writer = {0, 0, 0};
    struct kn_batch_view view;
    struct kn_record_reader reader;
    struct kn_record record;
    kn_batch_writer_init(&writer, buffer);
    writer.record_count = count;
    kn_buffer_append(&buffer, section, section_bytes);
    kn_batch_close(buffer, &writer, &plain_meta);
    struct kn_span span = kn_span_of(buffer->data, buffer->size_bytes);
    int status = kn_batch_view_next(&span, &view);
    if (status == KN_OK) status = kn_record_reader_init(&reader, &view);
    while (status == KN_OK) status = kn_record_reader_next(&reader, &record);
    kn_buffer_give(buffer);
    return status;
}

#define SECTION(count, ...)                                                                        \
    read_section((const uint8_t[]){__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}), count)

static void test_malformed_records_are_refused(void)
{
    /* length, attributes, timestamp delta, offset delta, key length, value length, header count */
    CHECK_EQ(SECTION(1, 12, 0, 0, 0, 1, 1, 0), KN_ERR_TRUNCATED); /* the good one */
    /* shorter than its parts */
    CHECK_EQ(SECTION(1, 10, 0, 0, 0, 1, 1, 0), KN_ERR_INVALID);
    /* longer than what is there */
    CHECK_EQ(SECTION(1, 14, 0, 0, 0, 1, 1, 0), KN_ERR_INVALID);
    CHECK_EQ(SECTION(1, 11, 0, 0, 0, 1, 1, 0), KN_ERR_INVALID); /* negative length */
    /* a byte left in the record */
    CHECK_EQ(SECTION(1, 14, 0, 0, 0, 1, 1, 0, 0), KN_ERR_INVALID);
    /* a byte left in the batch */
    CHECK_EQ(SECTION(1, 12, 0, 0, 0, 1, 1, 0, 0), KN_ERR_INVALID);
    CHECK_EQ(SECTION(1, 12, 0, 0, 0, 3, 1, 0), KN_ERR_INVALID); /* key length -2 */
    /* value longer than the record */
    CHECK_EQ(SECTION(1, 12, 0, 0, 0, 1, 4, 0), KN_ERR_INVALID);
    CHECK_EQ(SECTION(1, 12, 0, 0, 0, 1, 1, 1), KN_ERR_INVALID); /* header count -1 */
    /* two headers announced, one there */
    CHECK_EQ(SECTION(1, 16, 0, 0, 0, 1, 1, 4, 0, 1), KN_ERR_INVALID);
    /* a header without a key */
    CHECK_EQ(SECTION(1, 16, 0, 0, 0, 1, 1, 2, 1, 1), KN_ERR_INVALID);
    /* offset beyond the batch's last */
    CHECK_EQ(SECTION(1, 12, 0, 0, 2, 1, 1, 0), KN_ERR_INVALID);
    /* offset before the batch's first */
    CHECK_EQ(SECTION(1, 12, 0, 0, 1, 1, 1, 0), KN_ERR_INVALID);
    /* key length beyond 32 bits */
    CHECK_EQ(SECTION(1, 22, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x1f, 1, 0, 0), KN_ERR_INVALID);
}

static void test_a_compressed_batch_must_be_opened_first(void)
{
    struct kn_buffer *buffer = sample(&plain_meta);
    struct kn_codec_table none;
    struct kn_batch_view view;
    struct kn_record_reader reader;
    struct kn_buffer *opened = buffer;
    memset(&none, 0, sizeof none);
    for (int codec = 1; codec < 8; codec++) {
        buffer->data[AT_ATTRIBUTES + 1] = (uint8_t)codec;
        encode_again(buffer);
        struct kn_span span = kn_span_of(buffer->data, buffer->size_bytes);
        CHECK_EQ(kn_batch_view_next(&span, &view), KN_OK);
        CHECK_EQ(kn_record_reader_init(&reader, &view), KN_ERR_INVALID);
        CHECK_EQ(kn_batch_view_open(&view, &none, 1000, NULL, &opened), KN_ERR_UNSUPPORTED);
        CHECK(opened == NULL);
    }
    kn_buffer_give(buffer);
}

int main(void)
{
    RUN(test_header_in_wire_form);
    RUN(test_written_records_are_read_back);
    RUN(test_far_timestamps_wrap_and_come_back);
    RUN(test_record_with_only_a_value_has_the_same_bytes);
    RUN(test_append_refuses_a_record_without_room);
    RUN(test_log_append_time_is_the_time_of_all);
    RUN(test_a_partial_batch_is_the_end);
    RUN(test_impossible_headers_are_refused);
    RUN(test_every_flipped_bit_is_seen);
    RUN(test_malformed_records_are_refused);
    RUN(test_a_compressed_batch_must_be_opened_first);
    CHECK_EQ(kn_buffer_live(), 0);
    return check_done();
}
