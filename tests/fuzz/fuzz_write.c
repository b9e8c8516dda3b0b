/* The writers: the reader gets back exactly what they write. The fuzzer chooses records, timestamps
 * and headers. */
#include "fuzz.h"

#include "records/legacy_writer.h"

#define RECORDS_MAX 64

struct wanted {
    int64_t timestamp_ms;
    const uint8_t *key, *value, *headers;
    int32_t key_bytes, value_bytes, header_count;
    size_t headers_bytes;
};

/* Returns a slice of the input, or null, by its first byte. */
static const uint8_t *slice(struct kn_span *span, int32_t *size_bytes)
{
    *size_bytes = kn_span_i8(span);
    if (*size_bytes < 0) return NULL;
    if ((size_t)*size_bytes > kn_span_left(span)) *size_bytes = (int32_t)kn_span_left(span);
    return kn_span_take(span, (size_t)*size_bytes);
}

static void check_record(const struct kn_record *record, const struct wanted *wanted,
                         int64_t offset)
{
    FUZZ_CHECK(record->offset == offset && record->timestamp_ms == wanted->timestamp_ms);
    FUZZ_CHECK((record->key == NULL) == (wanted->key == NULL) &&
               (record->value == NULL) == (wanted->value == NULL));
    if (wanted->key)
        FUZZ_CHECK(record->key_bytes == wanted->key_bytes &&
                   memcmp(record->key, wanted->key, (size_t)wanted->key_bytes) == 0);
    if (wanted->value)
        FUZZ_CHECK(record->value_bytes == wanted->value_bytes &&
                   memcmp(record->value, wanted->value, (size_t)wanted->value_bytes) == 0);
    FUZZ_CHECK(record->header_count == wanted->header_count &&
               (size_t)record->headers_bytes == wanted->headers_bytes);
}

/* Writes the same records as a message set, in every form of this build. The parts that the form
 * doesn't have are lost; the rest is the same. */
static void check_message_sets(const struct kn_batch_view *batch, const struct wanted *wanted,
                               int count)
{
    struct kn_codec_table codecs;
    kn_codec_table_init(&codecs);
    for (int form_id = 0; form_id < 2 * (KN_CODEC_LZ4 + 1); form_id++) {
        struct kn_legacy_form form = {.magic = (int8_t)(form_id & 1),
                                      .codec_id = (int8_t)(form_id / 2),
                                      .codec = &codecs.codecs[form_id / 2],
                                      .level = -1,
                                      .first_offset = 100};
        struct kn_buffer *set = kn_buffer_take(NULL, 16);
        if (form.codec_id && !form.codec->compress) {
            kn_buffer_give(set);
            continue;
        }
        int status = kn_legacy_write(batch, &form, &set);
        FUZZ_CHECK(status == (count ? KN_OK : KN_ERR_INVALID));
        struct kn_span span = kn_span_of(set->data, set->size_bytes);
        struct kn_batch_view view = {0};
        int seen = 0;
        while (status == KN_OK && kn_batch_view_next(&span, &view) == KN_OK) {
            struct kn_buffer *opened;
            struct kn_record_reader reader;
            struct kn_record record;
            FUZZ_CHECK(kn_batch_view_check(&view) == KN_OK &&
                       kn_batch_view_open(&view, &codecs, 1 << 20, NULL, &opened) == KN_OK);
            FUZZ_CHECK(kn_record_reader_init(&reader, &view) == KN_OK);
            while (kn_record_reader_next(&reader, &record) == KN_OK) {
                struct wanted w = wanted[seen];
                w.header_count = 0, w.headers_bytes = 0;
                if (form.magic == 0) w.timestamp_ms = -1;
                check_record(&record, &w, 100 + seen++);
            }
            kn_buffer_give(opened);
        }
        FUZZ_CHECK(seen == count && kn_span_left(&span) == 0);
        kn_buffer_give(set);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static struct wanted wanted[RECORDS_MAX];
    static uint8_t headers[RECORDS_MAX][10 + 127 + 127 + 10];
    struct kn_span span = kn_span_of(data, size_bytes);
    struct kn_buffer *buffer = kn_buffer_take(NULL, KN_BATCH_HEADER_BYTES);
    struct kn_batch_writer writer;
    int count = 0;

    FUZZ_CHECK(kn_batch_writer_init(&writer, buffer) == KN_OK);
    for (; count < RECORDS_MAX && kn_span_left(&span) > 0; count++) {
        struct wanted *w = &wanted[count];
        w->timestamp_ms = kn_span_varlong(&span);
        w->key = slice(&span, &w->key_bytes);
        w->value = slice(&span, &w->value_bytes);
        w->headers = headers[count];
        w->headers_bytes = 0;
        w->header_count = w->timestamp_ms & 1;
        if (w->header_count)
            w->headers_bytes = (size_t)(kn_header_encode(headers[count], w->key, w->key_bytes,
                                                         w->value, w->value_bytes) -
                                        headers[count]);
        FUZZ_CHECK(kn_buffer_reserve(&buffer, kn_record_bound_bytes(w->key_bytes, w->value_bytes,
                                                                    w->headers_bytes)) == KN_OK);
        FUZZ_CHECK(kn_batch_writer_append(&writer, buffer, w->timestamp_ms, w->key, w->key_bytes,
                                          w->value, w->value_bytes, w->headers, w->headers_bytes,
                                          w->header_count) == KN_OK);
    }
    kn_batch_close(buffer, &writer, &(struct kn_batch_meta){100, -1, 0, -1, -1, -1});

    struct kn_span batch = kn_span_of(buffer->data, buffer->size_bytes);
    struct kn_batch_view view;
    struct kn_record_reader reader;
    struct kn_record record;
    FUZZ_CHECK(kn_batch_view_next(&batch, &view) == KN_OK && kn_batch_view_check(&view) == KN_OK);
    FUZZ_CHECK(kn_record_reader_init(&reader, &view) == KN_OK);
    for (int i = 0; i < count; i++) {
        FUZZ_CHECK(kn_record_reader_next(&reader, &record) == KN_OK);
        check_record(&record, &wanted[i], 100 + i);
    }
    FUZZ_CHECK(kn_record_reader_next(&reader, &record) == KN_ERR_TRUNCATED);
    check_message_sets(&view, wanted, count);
    kn_buffer_give(buffer);
    return 0;
}
