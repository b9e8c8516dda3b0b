/* Arrow columns: the exported arrays have all appended values, for every size, and every reference
 * is dropped. */
#include "check.h"
#include "arrow/columns.h"
#include "arrow/export.h"
#include "codecs/slab.h"
#include "base/status.h"
#include "base/utf8.h"
#include "records/batch_writer.h"

#define RECORDS 1000

static struct kn_record records[RECORDS];
static uint8_t headers[RECORDS][64];
static struct kn_chunk *chunk;

static const struct kn_column_spec EVERY[] = {
    {KN_FIELD_TOPIC, KN_LAYOUT_DICTIONARY, 1, 0},    {KN_FIELD_PARTITION, KN_LAYOUT_INT32, 0, 0},
    {KN_FIELD_OFFSET, KN_LAYOUT_INT64, 0, 0},        {KN_FIELD_TIMESTAMP, KN_LAYOUT_INT64, 0, 1000},
    {KN_FIELD_TIMESTAMP_TYPE, KN_LAYOUT_INT8, 0, 0}, {KN_FIELD_KEY, KN_LAYOUT_LARGE_BYTES, 1, 0},
    {KN_FIELD_VALUE, KN_LAYOUT_VIEW, 0, 0},          {KN_FIELD_HEADERS, KN_LAYOUT_LIST, 0, 0},
    {KN_FIELD_LEADER_EPOCH, KN_LAYOUT_INT32, 0, 0},
};
#define EVERY_COUNT ((int32_t)(sizeof EVERY / sizeof EVERY[0]))

static int32_t value_bytes_of(int i) { return i % 5 == 0 ? -1 : i % 40; }
static int32_t key_bytes_of(int i) { return i % 3 ? i % 7 : -1; }
static int32_t header_count_of(int i) { return i % 4 == 3 ? 2 : 0; }

/* Makes records that point into one chunk, like fetched ones. */
static void begin(void)
{
    struct kn_buffer *buffer = kn_buffer_take(NULL, 64 * RECORDS);
    chunk = kn_chunk_new(buffer);
    for (int i = 0; i < RECORDS; i++) {
        uint8_t *at = buffer->data + buffer->size_bytes;
        memset(at, 'a' + i % 26, 64);
        uint8_t *end = kn_header_encode(headers[i], "name", 4, NULL, -1);
        end = kn_header_encode(end, "", 0, "value", 5);
        records[i] = (struct kn_record){.offset = 100 + i,
                                        .timestamp_ms = i % 9 ? i : -1,
                                        .timestamp_type = (int8_t)(i % 3 - 1)};
        records[i].value_bytes = value_bytes_of(i);
        records[i].value = records[i].value_bytes < 0 ? NULL : at;
        records[i].key_bytes = key_bytes_of(i);
        records[i].key = records[i].key_bytes < 0 ? NULL : at + 40;
        records[i].header_count = header_count_of(i);
        records[i].headers = headers[i];
        records[i].headers_bytes = (int32_t)(end - headers[i]);
        buffer->size_bytes += 64;
    }
}

static void end(void)
{
    kn_chunk_unref(chunk);
    CHECK_EQ(kn_columns_live(), 0);
    CHECK_EQ(kn_chunk_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

static int append(struct kn_columns *columns, int from, int count, const char *topic, int32_t epoch,
                  int32_t *taken)
{
    int32_t column;
    struct kn_column_block block = {records + from,         count, chunk, topic,
                                    (int32_t)strlen(topic), 7,     epoch};
    return kn_columns_append(columns, &block, taken, &column);
}

static void append_all(struct kn_columns *columns, int from, int to)
{
    for (int at = from, step = 1; at < to; at += step, step = step * 2 % KN_BLOCK_RECORDS + 1) {
        int32_t taken;
        int count = to - at < step ? to - at : step;
        CHECK_EQ(append(columns, at, count, at % 2 ? "one" : "a topic with a longer name",
                        at % 3 ? 5 : -1, &taken),
                 KN_OK);
        CHECK_EQ(taken, count);
    }
}

static int valid(const struct ArrowArray *array, int64_t at)
{
    return !array->buffers[0] || kn_bit(array->buffers[0], at);
}

static void check_view(const struct ArrowArray *array, int64_t at, const uint8_t *data,
                       int32_t size)
{
    const uint8_t *view = (const uint8_t *)array->buffers[1] + at * 16;
    int32_t parts[4];
    memcpy(parts, view, sizeof parts);
    CHECK_EQ(parts[0], size);
    if (size <= 12) {
        CHECK_MEM(view + 4, data, (size_t)size);
        for (int i = size; i < 12; i++) CHECK_EQ(view[4 + i], 0);
        return;
    }
    CHECK_MEM(view + 4, data, 4);
    CHECK(parts[2] >= 0 && parts[2] < array->n_buffers - 3);
    const int64_t *lengths = array->buffers[array->n_buffers - 1];
    CHECK(parts[3] >= 0 && parts[3] + size <= lengths[parts[2]]);
    CHECK_MEM((const uint8_t *)array->buffers[2 + parts[2]] + parts[3], data, (size_t)size);
}

static void check_headers(const struct ArrowArray *array, int64_t rows)
{
    const int32_t *offsets = array->buffers[1];
    const struct ArrowArray *item = array->children[0], *names = item->children[0],
                            *values = item->children[1];
    const int32_t *name_offsets = names->buffers[1], *value_offsets = values->buffers[1];
    for (int64_t i = 0; i < rows; i++) {
        CHECK_EQ(valid(array, i), header_count_of((int)i) != 0);
        CHECK_EQ(offsets[i + 1] - offsets[i], header_count_of((int)i));
        if (!header_count_of((int)i)) continue;
        int32_t at = offsets[i];
        CHECK_EQ(name_offsets[at + 1] - name_offsets[at], 4);
        CHECK_EQ(name_offsets[at + 2] - name_offsets[at + 1], 0);
        CHECK_MEM((const uint8_t *)names->buffers[2] + name_offsets[at], "name", 4);
        CHECK(!valid(values, at) && valid(values, at + 1));
        CHECK_MEM((const uint8_t *)values->buffers[2] + value_offsets[at + 1], "value", 5);
    }
    CHECK_EQ(item->length, offsets[rows]);
    CHECK_EQ(values->null_count, offsets[rows] / 2);
}

/* Checks the first `rows` records, made with EVERY. */
static void check_every(struct kn_columns *columns, int64_t rows)
{
    struct ArrowArray array;
    CHECK_EQ(kn_columns_export(columns, &array), KN_OK);
    CHECK_EQ(array.length, rows);
    CHECK_EQ(array.n_children, EVERY_COUNT);
    const int64_t *key_offsets = array.children[5]->buffers[1];
    int64_t nulls[EVERY_COUNT] = {0};
    for (int64_t i = 0; i < rows; i++) {
        const struct kn_record *record = &records[i];
        CHECK_EQ(((const int32_t *)array.children[1]->buffers[1])[i], 7);
        CHECK_EQ(((const int64_t *)array.children[2]->buffers[1])[i], record->offset);
        CHECK_EQ(valid(array.children[3], i), record->timestamp_ms != -1);
        if (record->timestamp_ms != -1)
            CHECK_EQ(((const int64_t *)array.children[3]->buffers[1])[i],
                     record->timestamp_ms * 1000);
        CHECK_EQ(valid(array.children[4], i), record->timestamp_type >= 0);
        if (record->timestamp_type > 0)
            CHECK_EQ(((const int8_t *)array.children[4]->buffers[1])[i], 1);
        CHECK_EQ(valid(array.children[5], i), record->key != NULL);
        CHECK_EQ(key_offsets[i + 1] - key_offsets[i], record->key ? record->key_bytes : 0);
        if (record->key)
            CHECK_MEM((const uint8_t *)array.children[5]->buffers[2] + key_offsets[i], record->key,
                      (size_t)record->key_bytes);
        CHECK_EQ(valid(array.children[6], i), record->value != NULL);
        check_view(array.children[6], i, record->value ? record->value : (const uint8_t *)"",
                   record->value ? record->value_bytes : 0);
        for (int32_t c = 3; c < 7; c++) nulls[c] += !valid(array.children[c], i);
    }
    for (int32_t c = 3; c < 7; c++) CHECK_EQ(array.children[c]->null_count, nulls[c]);
    check_headers(array.children[7], rows);
    CHECK_EQ(array.children[0]->null_count, 0);
    CHECK_EQ(array.children[0]->dictionary->length, rows ? 2 : 0);
    array.release(&array);
    CHECK(array.release == NULL);
}

static void test_every_column(void)
{
    begin();
    struct kn_columns *columns = kn_columns_new(EVERY, EVERY_COUNT, NULL, INT32_MAX);
    check_every(columns, 0);
    append_all(columns, 0, RECORDS);
    check_every(columns, RECORDS);
    CHECK(kn_columns_size_bytes(columns) > RECORDS * (4 + 4 + 8 + 8 + 1 + 16 + 4 + 4));
    kn_columns_unref(columns);
    end();
}

static void test_truncated_rows_are_removed_and_can_be_appended_again(void)
{
    begin();
    struct kn_columns *columns = kn_columns_new(EVERY, EVERY_COUNT, NULL, INT32_MAX);
    append_all(columns, 0, 300);
    append_all(columns, 500, 1000);
    kn_columns_truncate(columns, 300);
    check_every(columns, 300);
    append_all(columns, 300, RECORDS);
    check_every(columns, RECORDS);
    kn_columns_truncate(columns, 0);
    CHECK_EQ(columns->row_count, 0);
    kn_columns_unref(columns);
    end();
}

static void test_the_expected_size_is_no_limit(void)
{
    begin();
    struct kn_columns *columns = kn_columns_new(EVERY, EVERY_COUNT, NULL, INT32_MAX);
    for (int32_t i = 0; i < EVERY_COUNT; i++) kn_columns_expect(columns, i, i * 10, i * 100);
    append_all(columns, 0, RECORDS);
    check_every(columns, RECORDS);
    kn_columns_unref(columns);
    end();
}

static void test_a_full_column_takes_the_records_that_fit(void)
{
    static const struct kn_column_spec specs[] = {{KN_FIELD_OFFSET, KN_LAYOUT_INT64, 0, 0},
                                                  {KN_FIELD_VALUE, KN_LAYOUT_BYTES, 0, 0}};
    begin();
    int32_t taken, fits = 0;
    for (int64_t sum = 0; fits < 200; fits++) {
        sum += value_bytes_of(fits) > 0 ? value_bytes_of(fits) : 0;
        if (sum > 1000) break;
    }
    struct kn_columns *columns = kn_columns_new(specs, 2, NULL, 1000);
    CHECK_EQ(append(columns, 0, 200, "t", 1, &taken), KN_ERR_FULL);
    CHECK_EQ(taken, fits);
    CHECK_EQ(columns->row_count, fits);
    CHECK_EQ(columns->columns[0].length, fits);
    CHECK_EQ(append(columns, 199, 1, "t", 1, &taken), KN_ERR_FULL);
    CHECK_EQ(taken, 0);
    kn_columns_unref(columns);
    end();
}

static void test_headers_and_topics_have_the_same_limit(void)
{
    static const struct kn_column_spec of_headers[] = {{KN_FIELD_HEADERS, KN_LAYOUT_LIST, 0, 0}};
    static const struct kn_column_spec of_topic[] = {{KN_FIELD_TOPIC, KN_LAYOUT_BYTES, 1, 0}};
    begin();
    int32_t taken;
    struct kn_columns *columns = kn_columns_new(of_headers, 1, NULL, 10);
    CHECK_EQ(append(columns, 0, 200, "t", 1, &taken), KN_ERR_FULL);
    CHECK_EQ(taken, 11); /* records 3 and 7 have 5 bytes of values each, 11 would be the third */
    kn_columns_unref(columns);
    columns = kn_columns_new(of_topic, 1, NULL, 10);
    CHECK_EQ(append(columns, 0, 200, "abc", 1, &taken), KN_ERR_FULL);
    CHECK_EQ(taken, 3);
    kn_columns_unref(columns);
    end();
}

static void test_text_is_checked(void)
{
    static const struct kn_column_spec specs[] = {{KN_FIELD_VALUE, KN_LAYOUT_VIEW, 1, 0}};
    begin();
    int32_t taken, column;
    struct kn_columns *columns = kn_columns_new(specs, 1, NULL, INT32_MAX);
    chunk->buffer->data[64 * 7] = 0xc3; /* a lead byte before a letter */
    struct kn_column_block block = {records, 100, chunk, "t", 1, 0, 0};
    CHECK_EQ(kn_columns_append(columns, &block, &taken, &column), KN_ERR_INVALID);
    CHECK_EQ(taken, 7);
    CHECK_EQ(column, 0);
    block.records += 8;
    block.count -= 8;
    CHECK_EQ(kn_columns_append(columns, &block, &taken, &column), KN_OK);
    CHECK_EQ(columns->row_count, 99);
    kn_columns_unref(columns);
    end();
}

static void test_utf8(void)
{
    static const char *const good[] = {"",
                                       "plain ascii, and more than eight bytes",
                                       "\x7f",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf",
                                       "gr\xc3\xb6\xc3\x9f"
                                       "e in the middle"};
    static const char *const bad[] = {"\x80",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2 ",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xef\xbf",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "eight...\xfe",
                                      "\xf0\x90\x80",
                                      "\xf0\x90\x80 "};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        CHECK(kn_utf8_is_valid((const uint8_t *)good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(!kn_utf8_is_valid((const uint8_t *)bad[i], strlen(bad[i])));
    CHECK(kn_utf8_is_valid(NULL, 0));
}

#define R "\xef\xbf\xbd"

/* U+FFFD in the places where java.lang.String has it. */
static void test_malformed_utf8_is_replaced_as_in_java(void)
{
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"gr\xc3\xb6\xc3\x9f"
         "e",
         "gr\xc3\xb6\xc3\x9f"
         "e"},
        {"caf\xe9", "caf" R},
        {"\xe9t\xe9", R "t" R},
        {"\x80", R},
        {"\xbf\xbf", R R},
        {"\xc0\x80", R R},
        {"\xc2", R},
        {"\xc2 ", R " "},
        {"\xe0\x9f\xbf", R R R},
        {"\xe1\x80", R},
        {"\xe1\x80 ", R " "},
        {"\xe1 ", R " "},
        {"\xed\xa0\x80", R},
        {"\xed\xa0\x80\xed\xb0\x80", R R},
        {"\xed\xa0", R},
        {"\xf0\x8f\xbf\xbf", R R R R},
        {"\xf0\x90\x80", R},
        {"\xf0\x90\x80 ", R " "},
        {"\xf0\x90 ", R " "},
        {"\xf4\x90\x80\x80", R R R R},
        {"\xf5\x80\x80\x80", R R R R},
        {"\xff\xfe", R R},
        {"eight and more bytes, \xfe, and as many again",
         "eight and more bytes, " R ", and as many again"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t to[256];
        size_t size = strlen(cases[i].from), wanted = strlen(cases[i].to);
        CHECK_EQ(kn_utf8_replace(NULL, (const uint8_t *)cases[i].from, size), wanted);
        CHECK_EQ(kn_utf8_replace(to, (const uint8_t *)cases[i].from, size), wanted);
        CHECK(!memcmp(to, cases[i].to, wanted));
        CHECK(wanted <= 3 * size);
        CHECK(kn_utf8_is_valid(to, wanted));
    }
    CHECK_EQ(kn_utf8_replace(NULL, NULL, 0), 0);
}

/* 250 long names and 250 short ones. */
static void name_of(int number, char name[64])
{
    snprintf(name, 64, number % 2 ? "%d is the name of a topic" : "%d", number % 500);
}

static void test_many_names(void)
{
    static const struct kn_column_spec specs[] = {{KN_FIELD_TOPIC, KN_LAYOUT_DICTIONARY, 1, 0},
                                                  {KN_FIELD_TOPIC, KN_LAYOUT_VIEW, 1, 0}};
    begin();
    struct kn_columns *columns = kn_columns_new(specs, 2, NULL, INT32_MAX);
    char name[64];
    int32_t taken;
    for (int i = 0; i < 2000; i++) {
        name_of(i, name);
        CHECK_EQ(append(columns, 0, 1, name, 1, &taken), KN_OK);
    }
    CHECK_EQ(columns->names.count, 500);
    struct ArrowArray array;
    CHECK_EQ(kn_columns_export(columns, &array), KN_OK);
    const struct ArrowArray *names = array.children[0]->dictionary;
    const int32_t *indices = array.children[0]->buffers[1], *offsets = names->buffers[1];
    for (int i = 0; i < 2000; i++) {
        name_of(i, name);
        int32_t at = offsets[indices[i]], size = offsets[indices[i] + 1] - at;
        CHECK_EQ(size, strlen(name));
        CHECK_MEM((const uint8_t *)names->buffers[2] + at, name, (size_t)size);
        check_view(array.children[1], i, (const uint8_t *)name, size);
    }
    array.release(&array);
    kn_columns_unref(columns);
    end();
}

static void test_parts_may_be_moved_out_and_released_in_any_order(void)
{
    begin();
    struct kn_columns *columns = kn_columns_new(EVERY, EVERY_COUNT, NULL, INT32_MAX);
    append_all(columns, 0, 100);
    struct ArrowArray array, moved[2];
    CHECK_EQ(kn_columns_export(columns, &array), KN_OK);
    kn_columns_unref(columns);
    kn_chunk_unref(chunk);
    moved[0] = *array.children[6];
    array.children[6]->release = NULL;
    moved[1] = *array.children[7]->children[0];
    array.children[7]->children[0]->release = NULL;
    kn_arrow_release_array(&array);
    CHECK_EQ(kn_columns_live(), 1);
    kn_arrow_release_array(&array); /* released already: harmless */
    check_view(&moved[0], 39, records[39].value, 39);
    kn_arrow_release_array(&moved[0]);
    CHECK_EQ(kn_columns_live(), 1);
    kn_arrow_release_array(&moved[1]);
    chunk = NULL;
    end();
}

static void test_views_that_use_little_of_their_chunk_are_copied(void)
{
    begin();
    struct kn_columns *columns = kn_columns_new(EVERY, EVERY_COUNT, NULL, INT32_MAX);
    append_all(columns, 0, 100);
    kn_columns_settle(columns);
    CHECK_EQ(columns->chunk_count, 0);
    CHECK_EQ(atomic_load(&chunk->refs), 1);
    struct ArrowArray array;
    CHECK_EQ(kn_columns_export(columns, &array), KN_OK);
    kn_columns_settle(columns); /* there is nothing left to do */
    kn_columns_unref(columns);
    for (int i = 0; i < 100; i++) {
        const struct kn_record *record = &records[i];
        check_view(array.children[6], i, record->value ? record->value : (const uint8_t *)"",
                   record->value ? record->value_bytes : 0);
    }
    kn_arrow_release_array(&array);
    columns = kn_columns_new(EVERY, EVERY_COUNT, NULL, INT32_MAX);
    for (int i = 0; i < 8; i++) append_all(columns, 0, RECORDS);
    kn_columns_settle(columns); /* the views use more than a part of it */
    CHECK_EQ(columns->chunk_count, 1);
    kn_columns_unref(columns);
    end();
}

static void test_schema_and_stream(void)
{
    static const char *const formats[] = {"i", "i", "l", "tsu:UTC", "c", "U", "vz", "+l", "i"};
    begin();
    struct kn_columns *columns = kn_columns_new(EVERY, EVERY_COUNT, NULL, INT32_MAX);
    append_all(columns, 0, 10);
    struct ArrowArrayStream stream;
    CHECK_EQ(kn_columns_export_stream(columns, &stream), KN_OK);
    kn_columns_unref(columns);
    struct ArrowSchema schema;
    CHECK_EQ(stream.get_schema(&stream, &schema), 0);
    CHECK_EQ(schema.n_children, EVERY_COUNT);
    for (int i = 0; i < EVERY_COUNT; i++) {
        CHECK_STR(schema.children[i]->format, formats[i]);
        CHECK_STR(schema.children[i]->name, kn_column_name(EVERY[i].field));
        CHECK_EQ(schema.children[i]->flags, ARROW_FLAG_NULLABLE);
    }
    CHECK_STR(schema.children[0]->dictionary->format, "u");
    CHECK_EQ(schema.children[7]->children[0]->children[0]->flags, 0);
    struct ArrowSchema moved = *schema.children[7];
    schema.children[7]->release = NULL;
    schema.release(&schema);
    moved.release(&moved);
    struct ArrowArray array;
    CHECK_EQ(stream.get_next(&stream, &array), 0);
    CHECK_EQ(array.length, 10);
    struct ArrowArray after;
    CHECK_EQ(stream.get_next(&stream, &after), 0);
    CHECK(after.release == NULL);
    stream.release(&stream);
    CHECK(stream.release == NULL);
    CHECK_EQ(array.children[1]->length, 10);
    array.release(&array);
    end();
}

int main(void)
{
    RUN(test_every_column);
    RUN(test_truncated_rows_are_removed_and_can_be_appended_again);
    RUN(test_the_expected_size_is_no_limit);
    RUN(test_a_full_column_takes_the_records_that_fit);
    RUN(test_headers_and_topics_have_the_same_limit);
    RUN(test_text_is_checked);
    RUN(test_utf8);
    RUN(test_malformed_utf8_is_replaced_as_in_java);
    RUN(test_many_names);
    RUN(test_parts_may_be_moved_out_and_released_in_any_order);
    RUN(test_views_that_use_little_of_their_chunk_are_copied);
    RUN(test_schema_and_stream);
    return check_done();
}
