/* Our message sets of magic 0 and 1, read back by the reader. */
#include "check.h"

#include "base/status.h"
#include "records/batch_writer.h"
#include "records/legacy_writer.h"
#include "records/lz4_legacy.h"
#include "records/record_reader.h"

static struct kn_codec_table codecs;

#define RECORDS 50
static const int64_t FIRST_MS = 1700000000000;

static void append(struct kn_batch_writer *writer, struct kn_buffer **buffer, int64_t timestamp_ms,
                   const char *key, const char *value, int with_header)
{
    uint8_t header[64];
    size_t header_bytes = with_header
                              ? (size_t)(kn_header_encode(header, "h", 1, "dropped", 7) - header)
                              : 0;
    int32_t key_bytes = key ? (int32_t)strlen(key) : -1,
            value_bytes = value ? (int32_t)strlen(value) : -1;
    CHECK_EQ(kn_buffer_reserve(buffer, kn_record_bound_bytes(key_bytes, value_bytes, header_bytes)),
             KN_OK);
    CHECK_EQ(kn_batch_writer_append(writer, *buffer, timestamp_ms, (const uint8_t *)key, key_bytes,
                                    (const uint8_t *)value, value_bytes, header, header_bytes,
                                    with_header),
             KN_OK);
}

/* Makes RECORDS records with falling timestamps, every seventh with a header, every fifth without a
 * value, and a view of them. */
static struct kn_buffer *make_batch(struct kn_batch_view *view, int count)
{
    struct kn_buffer *buffer = kn_buffer_take(NULL, KN_BATCH_HEADER_BYTES);
    struct kn_batch_writer writer;
    CHECK_EQ(kn_batch_writer_init(&writer, buffer), KN_OK);
    for (int i = 0; i < count; i++) {
        char value[64];
        snprintf(value, sizeof value, "value %d of some length that compresses", i);
        append(&writer, &buffer, FIRST_MS - i, i % 3 ? "key" : NULL, i % 5 ? value : NULL,
               i % 7 == 0);
    }
    kn_batch_close(buffer, &writer, &(struct kn_batch_meta){0, -1, 0, -1, -1, -1});
    struct kn_span span = kn_span_of(buffer->data, buffer->size_bytes);
    memset(view, 0, sizeof *view);
    CHECK_EQ(kn_batch_view_next(&span, view), KN_OK);
    return buffer;
}

static void check_record(const struct kn_record *record, int index, int8_t magic,
                         int64_t first_offset)
{
    char value[64];
    snprintf(value, sizeof value, "value %d of some length that compresses", index);
    CHECK_EQ(record->offset, first_offset + index);
    CHECK_EQ(record->timestamp_ms, magic ? FIRST_MS - index : -1);
    CHECK_EQ(record->header_count, 0);
    CHECK_EQ(record->key != NULL, index % 3 != 0);
    if (record->key) CHECK(record->key_bytes == 3 && memcmp(record->key, "key", 3) == 0);
    CHECK_EQ(record->value != NULL, index % 5 != 0);
    if (record->value)
        CHECK(record->value_bytes == (int32_t)strlen(value) &&
              memcmp(record->value, value, strlen(value)) == 0);
}

/* Reads a whole set. Returns how many outer messages it has. */
static int check_set(const struct kn_buffer *set, int8_t magic, int8_t codec_id, int count,
                     int64_t first_offset)
{
    struct kn_span span = kn_span_of(set->data, set->size_bytes);
    struct kn_batch_view view = {0};
    int messages = 0, seen = 0;
    while (kn_batch_view_next(&span, &view) == KN_OK) {
        struct kn_buffer *opened = NULL;
        struct kn_record_reader reader;
        struct kn_record record;
        messages++;
        CHECK_EQ(view.magic, magic);
        CHECK_EQ(kn_batch_view_codec(&view), codec_id);
        CHECK_EQ(kn_batch_view_check(&view), KN_OK);
        if (codec_id) {
            CHECK_EQ(view.last_offset, first_offset + count - 1);
            CHECK_EQ(view.max_timestamp_ms, magic ? FIRST_MS : -1);
        }
        CHECK_EQ(kn_batch_view_open(&view, &codecs, 1 << 20, NULL, &opened), KN_OK);
        CHECK_EQ(kn_record_reader_init(&reader, &view), KN_OK);
        while (kn_record_reader_next(&reader, &record) == KN_OK)
            check_record(&record, seen++, magic, first_offset);
        kn_buffer_give(opened);
    }
    CHECK_EQ(kn_span_left(&span), 0);
    CHECK_EQ(seen, count);
    return messages;
}

static void test_every_form_is_read_back(void)
{
    struct kn_batch_view view;
    struct kn_buffer *batch = make_batch(&view, RECORDS);
    for (int8_t magic = 0; magic <= 1; magic++) {
        for (int8_t codec_id = 0; codec_id <= KN_CODEC_LZ4; codec_id++) {
            struct kn_legacy_form form = {.magic = magic,
                                          .codec_id = codec_id,
                                          .codec = &codecs.codecs[codec_id],
                                          .level = -1,
                                          .first_offset = 1000};
            struct kn_buffer *set = kn_buffer_take(NULL, 16);
            if (codec_id && !codecs.codecs[codec_id].compress) { /* a build without this library */
                CHECK_EQ(kn_legacy_write(&view, &form, &set), KN_ERR_UNSUPPORTED);
            } else {
                CHECK_EQ(kn_legacy_write(&view, &form, &set), KN_OK);
                CHECK_EQ(check_set(set, magic, codec_id, RECORDS, 1000), codec_id ? 1 : RECORDS);
            }
            kn_buffer_give(set);
        }
    }
    kn_buffer_give(batch);
    CHECK_EQ(kn_buffer_live(), 0);
}

static void test_earlier_bytes_in_the_buffer_stay(void)
{
    struct kn_batch_view view;
    struct kn_buffer *batch = make_batch(&view, 3), *out = kn_buffer_take(NULL, 16);
    struct kn_legacy_form form = {.magic = 1, .codec_id = KN_CODEC_NONE};
    CHECK_EQ(kn_buffer_append(&out, "before", 6), KN_OK);
    CHECK_EQ(kn_legacy_write(&view, &form, &out), KN_OK);
    CHECK_MEM(out->data, "before", 6);
    out->size_bytes -= 6;
    memmove(out->data, out->data + 6, out->size_bytes);
    CHECK_EQ(check_set(out, 1, 0, 3, 0), 3);
    kn_buffer_give(out);
    kn_buffer_give(batch);
}

static int refuse(const uint8_t *src, size_t size_bytes, int level, struct kn_buffer **out)
{
    (void)level;
    /* half of the output, then an error: *out must not keep it */
    int status = kn_buffer_append(out, src, size_bytes / 2);
    return status == KN_OK ? KN_ERR_CODEC : status;
}
static int copy(const uint8_t *src, size_t size_bytes, int level, struct kn_buffer **out)
{
    (void)level;
    return kn_buffer_append(out, src, size_bytes);
}
static int starve(const uint8_t *src, size_t size_bytes, int level, struct kn_buffer **out)
{
    (void)src, (void)size_bytes, (void)level, (void)out;
    return KN_ERR_NOMEM;
}

static void test_useless_compression_is_omitted(void)
{
    static const struct kn_codec failing = {.name = "gzip", .compress = refuse},
                                 useless = {.name = "gzip", .compress = copy};
    const struct kn_codec *const tried[] = {&failing, &useless};
    struct kn_batch_view view;
    struct kn_buffer *batch = make_batch(&view, 10);
    for (int i = 0; i < 2; i++) {
        struct kn_legacy_form form = {.magic = 1, .codec_id = KN_CODEC_GZIP, .codec = tried[i]};
        struct kn_buffer *set = kn_buffer_take(NULL, 16);
        CHECK_EQ(kn_legacy_write(&view, &form, &set), KN_OK);
        CHECK_EQ(check_set(set, 1, KN_CODEC_NONE, 10, 0), 10);
        kn_buffer_give(set);
    }
    kn_buffer_give(batch);
    CHECK_EQ(kn_buffer_live(), 0);
}

static void test_unknown_forms_are_refused(void)
{
    static const struct kn_codec any = {.name = "any", .compress = copy},
                                 poor = {.name = "poor", .compress = starve};
    static const struct kn_legacy_form wrong[] = {
        {.magic = 2, .codec_id = KN_CODEC_NONE},
        {.magic = -1, .codec_id = KN_CODEC_NONE},
        {.magic = 1, .codec_id = KN_CODEC_ZSTD, .codec = &any},
        {.magic = 1, .codec_id = 5, .codec = &any},
        {.magic = 1, .codec_id = -1, .codec = &any},
    };
    struct kn_batch_view view;
    struct kn_buffer *batch = make_batch(&view, 2), *set = kn_buffer_take(NULL, 16);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_EQ(kn_legacy_write(&view, &wrong[i], &set), KN_ERR_UNSUPPORTED);
    struct kn_legacy_form form = {.magic = 0, .codec_id = KN_CODEC_GZIP, .codec = &poor};
    CHECK_EQ(kn_legacy_write(&view, &form, &set), KN_ERR_NOMEM);
    CHECK_EQ(set->size_bytes, 0);
    kn_buffer_give(set);
    kn_buffer_give(batch);
    CHECK_EQ(kn_buffer_live(), 0);
}

static void test_truncated_records_make_no_set(void)
{
    struct kn_legacy_form form = {.magic = 1, .codec_id = KN_CODEC_NONE};
    struct kn_batch_view view;
    struct kn_buffer *batch = make_batch(&view, 2), *set = kn_buffer_take(NULL, 16);
    struct kn_batch_view cut = view;
    cut.records_bytes -= 1;
    CHECK_EQ(kn_legacy_write(&cut, &form, &set), KN_ERR_INVALID);
    cut = view;
    cut.record_count = 0;
    cut.records_bytes = 0;
    CHECK_EQ(kn_legacy_write(&cut, &form, &set), KN_ERR_INVALID);
    kn_buffer_give(set);
    kn_buffer_give(batch);
}

#ifdef KN_HAVE_LZ4
static void test_lz4_in_magic_0_has_the_checksum_that_old_brokers_expect(void)
{
    struct kn_batch_view view;
    struct kn_buffer *batch = make_batch(&view, RECORDS), *set = kn_buffer_take(NULL, 16),
                     *plain = kn_buffer_take(NULL, 16);
    struct kn_legacy_form form = {
        .magic = 0, .codec_id = KN_CODEC_LZ4, .codec = &codecs.codecs[KN_CODEC_LZ4], .level = -1};
    CHECK_EQ(kn_legacy_write(&view, &form, &set), KN_OK);
    struct kn_span span = kn_span_of(set->data, set->size_bytes);
    CHECK_EQ(kn_batch_view_next(&span, &view), KN_OK);
    CHECK_EQ(
        codecs.codecs[KN_CODEC_LZ4].decompress(view.records, view.records_bytes, 1 << 20, &plain),
        KN_ERR_CODEC);
    CHECK_EQ(kn_lz4_decompress_legacy(view.records, view.records_bytes, 1 << 20, &plain), KN_OK);
    kn_buffer_give(plain);
    kn_buffer_give(set);
    kn_buffer_give(batch);
}
#endif

static void test_only_an_lz4_frame_gets_that_checksum(void)
{
    uint8_t frame[] = {0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x00, 1, 2, 3};
    uint8_t dictionary[] = {0x04, 0x22, 0x4d, 0x18, 0x61, 0x40, 0, 0, 0, 0, 0x00};
    uint8_t sized[15] = {0x04, 0x22, 0x4d, 0x18, 0x68, 0x40, 5};
    uint8_t other[10] = {0};
    CHECK_EQ(kn_lz4_legacy_break(frame, sizeof frame), KN_OK);
    CHECK_EQ(frame[6], 0x1a); /* tests/oracle has the same value */
    CHECK_EQ(kn_lz4_legacy_break(sized, sizeof sized), KN_OK);
    CHECK(sized[14] != 0);
    for (size_t cut = 0; cut < 7; cut++) CHECK_EQ(kn_lz4_legacy_break(frame, cut), KN_ERR_CODEC);
    for (size_t cut = 0; cut < 15; cut++) CHECK_EQ(kn_lz4_legacy_break(sized, cut), KN_ERR_CODEC);
    CHECK_EQ(kn_lz4_legacy_break(dictionary, sizeof dictionary), KN_ERR_CODEC);
    CHECK_EQ(kn_lz4_legacy_break(other, sizeof other), KN_ERR_CODEC);
}

int main(void)
{
    kn_codec_table_init(&codecs);
    RUN(test_every_form_is_read_back);
    RUN(test_earlier_bytes_in_the_buffer_stay);
    RUN(test_useless_compression_is_omitted);
    RUN(test_unknown_forms_are_refused);
    RUN(test_truncated_records_make_no_set);
#ifdef KN_HAVE_LZ4
    RUN(test_lz4_in_magic_0_has_the_checksum_that_old_brokers_expect);
#endif
    RUN(test_only_an_lz4_frame_gets_that_checksum);
    return check_done();
}
