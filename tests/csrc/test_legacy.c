/* Message sets of magic 0 and 1. */
#include "check.h"

#include "base/endian.h"
#include "base/hash.h"
#include "base/status.h"
#include "records/batch_writer.h"
#include "records/record_reader.h"

/* A codec that copies: so wrappers are tested without a library. */
static int copy_decompress(const uint8_t *src, size_t size_bytes, size_t max_bytes,
                           struct kn_buffer **out)
{
    if (size_bytes > max_bytes) return KN_ERR_TOO_LARGE;
    return kn_buffer_append(out, src, size_bytes);
}

static struct kn_codec_table copying;

static uint8_t *put_message(uint8_t *to, int64_t offset, int8_t magic, int8_t attributes,
                            int64_t timestamp_ms, const char *key, const void *value,
                            int32_t value_bytes)
{
    uint8_t *body = to + 16;
    uint8_t *end = kn_put_i8(body, magic);
    end = kn_put_i8(end, attributes);
    if (magic == 1) end = kn_put_i64(end, timestamp_ms);
    end = kn_put_i32(end, key ? (int32_t)strlen(key) : -1);
    if (key) memcpy(end, key, strlen(key)), end += strlen(key);
    end = kn_put_i32(end, value_bytes);
    if (value_bytes > 0) memcpy(end, value, (size_t)value_bytes), end += value_bytes;
    kn_put_i64(to, offset);
    kn_put_i32(to + 8, (int32_t)(end - to - 12));
    kn_put_i32(to + 12, (int32_t)kn_crc32(0, body, (size_t)(end - body)));
    return end;
}

static void test_plain_messages(void)
{
    uint8_t set[256];
    struct kn_batch_view view;
    struct kn_record_reader reader;
    struct kn_record record;
    struct kn_buffer *opened = NULL;
    uint8_t *end = put_message(set, 40, 0, 0, 0, "k", "old", 3);
    end = put_message(end, 41, 1, 0, 777, NULL, NULL, -1);
    end = put_message(end, 42, 1, KN_ATTR_LOG_APPEND_TIME, 888, "", "x", 1);
    struct kn_span span = kn_span_of(set, (size_t)(end - set));

    const int64_t times[] = {-1, 777, 888};
    const int types[] = {-1, 0, 1};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kn_batch_view_next(&span, &view), KN_OK);
        CHECK_EQ(kn_batch_view_check(&view), KN_OK);
        CHECK_EQ(view.base_offset, 40 + i);
        CHECK_EQ(view.last_offset, 40 + i);
        CHECK_EQ(view.record_count, 1);
        CHECK_EQ(view.producer_id, -1);
        CHECK_EQ(kn_batch_view_open(&view, &copying, 1000, NULL, &opened), KN_OK);
        CHECK(opened == NULL);
        CHECK_EQ(kn_record_reader_init(&reader, &view), KN_OK);
        CHECK_EQ(kn_record_reader_next(&reader, &record), KN_OK);
        CHECK_EQ(record.offset, 40 + i);
        CHECK_EQ(record.timestamp_ms, times[i]);
        CHECK_EQ(record.timestamp_type, types[i]);
        CHECK_EQ(record.header_count, 0);
        CHECK((record.key == NULL) == (i == 1));
        CHECK((record.value == NULL) == (i == 1));
        CHECK_EQ(kn_record_reader_next(&reader, &record), KN_ERR_TRUNCATED);
    }
    CHECK_EQ(kn_batch_view_next(&span, &view), KN_ERR_TRUNCATED);
}

/* Makes a wrapper of codec 1 (which copies here) around messages with these offsets. Opens it and
 * returns the status at the end of reading. */
static int read_wrapper(int8_t magic, int8_t inner_magic, int8_t attributes,
                        int8_t inner_attributes, const int64_t *inner_offsets, int count,
                        int64_t outer_offset, struct kn_record *records)
{
    uint8_t inner[1024], outer[2048];
    struct kn_batch_view view;
    struct kn_record_reader reader;
    struct kn_buffer *opened = NULL;
    uint8_t *end = inner;
    for (int i = 0; i < count; i++)
        end = put_message(end, inner_offsets[i], inner_magic, inner_attributes, 100 + i, NULL, "v",
                          1);
    uint8_t *outer_end = put_message(outer, outer_offset, magic, (int8_t)(attributes | 1), 9999,
                                     NULL, inner, (int32_t)(end - inner));
    struct kn_span span = kn_span_of(outer, (size_t)(outer_end - outer));
    CHECK_EQ(kn_batch_view_next(&span, &view), KN_OK);
    CHECK_EQ(view.record_count, -1);
    CHECK_EQ(view.last_offset, outer_offset);
    CHECK_EQ(kn_record_reader_init(&reader, &view), KN_ERR_INVALID); /* not opened */
    int status = kn_batch_view_open(&view, &copying, 1000, NULL, &opened);
    if (status == KN_OK) CHECK_EQ(view.record_count, count);
    if (status == KN_OK) status = kn_record_reader_init(&reader, &view);
    for (int i = 0; status == KN_OK; i++) status = kn_record_reader_next(&reader, &records[i]);
    kn_buffer_give(opened);
    CHECK_EQ(kn_buffer_live(), 0);
    return status;
}

static void test_wrapper_of_magic_1_has_relative_offsets(void)
{
    const int64_t relative[] = {0, 1, 5}; /* compaction removed some */
    const int64_t absolute[] = {105, 106, 110};
    struct kn_record records[4];
    CHECK_EQ(read_wrapper(1, 1, 0, 0, relative, 3, 110, records), KN_ERR_TRUNCATED);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(records[i].offset, absolute[i]);
        CHECK_EQ(records[i].timestamp_ms, 100 + i);
        CHECK_EQ(records[i].timestamp_type, 0);
    }
    /* Some producers wrote absolute offsets: the same sum restores them. */
    CHECK_EQ(read_wrapper(1, 1, 0, 0, absolute, 3, 110, records), KN_ERR_TRUNCATED);
    for (int i = 0; i < 3; i++) CHECK_EQ(records[i].offset, absolute[i]);
}

static void test_wrapper_of_magic_0_has_absolute_offsets(void)
{
    const int64_t absolute[] = {7, 8, 9};
    struct kn_record records[4];
    CHECK_EQ(read_wrapper(0, 0, 0, 0, absolute, 3, 9, records), KN_ERR_TRUNCATED);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(records[i].offset, 7 + i);
        CHECK_EQ(records[i].timestamp_ms, -1);
        CHECK_EQ(records[i].timestamp_type, -1);
    }
}

static void test_log_append_time_of_a_wrapper_counts_for_all(void)
{
    const int64_t relative[] = {0, 1};
    struct kn_record records[3];
    CHECK_EQ(read_wrapper(1, 1, KN_ATTR_LOG_APPEND_TIME, 0, relative, 2, 1, records),
             KN_ERR_TRUNCATED);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(records[i].timestamp_ms, 9999);
        CHECK_EQ(records[i].timestamp_type, 1);
    }
}

static void test_wrong_wrappers_are_refused(void)
{
    const int64_t offsets[] = {0, 1}, huge[] = {0, INT64_MAX}, negative[] = {-5, 1};
    struct kn_record records[3];
    /* magic inside differs */
    CHECK_EQ(read_wrapper(1, 0, 0, 0, offsets, 2, 1, records), KN_ERR_INVALID);
    /* compressed again inside */
    CHECK_EQ(read_wrapper(1, 1, 0, 1, offsets, 2, 1, records), KN_ERR_INVALID);
    CHECK_EQ(read_wrapper(1, 1, 0, 0, offsets, 0, 1, records), KN_ERR_INVALID); /* nothing inside */
    /* offsets below zero */
    CHECK_EQ(read_wrapper(1, 1, 0, 0, huge, 2, 1, records), KN_ERR_INVALID);
    CHECK_EQ(read_wrapper(0, 0, 0, 0, negative, 2, 1, records), KN_ERR_INVALID);
}

static void test_every_cut_and_every_flip_is_harmless(void)
{
    uint8_t set[256], copy[256];
    struct kn_batch_view view;
    struct kn_record_reader reader;
    struct kn_record record;
    uint8_t *end = put_message(set, 3, 1, 0, 777, "key", "value", 5);
    size_t size = (size_t)(end - set);
    for (size_t cut = 0; cut < size; cut++) {
        struct kn_span span = kn_span_of(set, cut);
        CHECK_EQ(kn_batch_view_next(&span, &view), KN_ERR_TRUNCATED);
    }
    for (size_t at = 0; at < size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            memcpy(copy, set, size);
            copy[at] ^= (uint8_t)(1 << bit);
            struct kn_span span = kn_span_of(copy, size);
            if (kn_batch_view_next(&span, &view) != KN_OK) continue;
            if (at >= 12) CHECK_EQ(kn_batch_view_check(&view), KN_ERR_CRC);
            if (kn_record_reader_init(&reader, &view) == KN_OK)
                (void)kn_record_reader_next(&reader, &record);
        }
    }
}

static void test_a_wrapper_over_the_cap_is_refused(void)
{
    uint8_t inner[1024] = {0}, outer[2048];
    struct kn_batch_view view;
    struct kn_buffer *opened = NULL;
    uint8_t *end = put_message(outer, 0, 1, 1, 0, NULL, inner, 1001);
    struct kn_span span = kn_span_of(outer, (size_t)(end - outer));
    CHECK_EQ(kn_batch_view_next(&span, &view), KN_OK);
    CHECK_EQ(kn_batch_view_open(&view, &copying, 1000, NULL, &opened), KN_ERR_TOO_LARGE);
    CHECK(opened == NULL);
    CHECK_EQ(kn_buffer_live(), 0);
}

int main(void)
{
    copying.codecs[KN_CODEC_GZIP].decompress = copy_decompress;
    RUN(test_plain_messages);
    RUN(test_wrapper_of_magic_1_has_relative_offsets);
    RUN(test_wrapper_of_magic_0_has_absolute_offsets);
    RUN(test_log_append_time_of_a_wrapper_counts_for_all);
    RUN(test_wrong_wrappers_are_refused);
    RUN(test_every_cut_and_every_flip_is_harmless);
    RUN(test_a_wrapper_over_the_cap_is_refused);
    return check_done();
}
