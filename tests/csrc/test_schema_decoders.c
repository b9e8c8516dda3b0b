/* Decoders by schema: framings in front of records and in headers, many schemas, bad framings, and
 * the texts of failures. Decoded columns: a block is in every column or in none. */
#include "check.h"
#include "arrow/columns.h"
#include "arrow/export.h"
#include "base/status.h"
#include "codecs/avro_decode.h"
#include "codecs/schema_decoders.h"
#include "records/batch_writer.h"

#define COUNT(array) ((int32_t)(sizeof(array) / sizeof(array)[0]))
#define RECORDS 64

static const struct kn_node NODES[] = {
    {.kind = KN_NODE_STRUCT, .child_count = 2, .format = "+s", .name = ""},
    {.kind = KN_NODE_FIXED, .width_bytes = 8, .format = "l", .name = "id"},
    {.kind = KN_NODE_BYTES, .format = "u", .name = "name"},
};
static const struct kn_avro_op OPS[] = {
    {KN_AVRO_RECORD, 0, 0, 0, 0, 0, 0},
    {KN_AVRO_LONG, 1, 0, 0, 0, 0, 0},
    {KN_AVRO_TEXT, 2, 0, 0, 0, 0, 0},
    {KN_AVRO_DONE, -1, 0, 0, 0, 0, 0},
};
static const char *const PATHS[] = {"", "id", "name", ""};
static const struct kn_node REASONS[] = {{.kind = KN_NODE_BYTES, .format = "u", .name = ""}};

static struct kn_avro_program *program;
static struct kn_layout *reasons;
static struct kn_builder *builder;
static struct kn_schema_decoders decoders;
static struct kn_schema_failure failure;

static void begin(enum kn_framing framing, bool is_key)
{
    struct kn_layout *layout;
    int32_t bad;
    CHECK_EQ(kn_layout_new(NODES, COUNT(NODES), &layout), KN_OK);
    CHECK_EQ(kn_layout_new(REASONS, 1, &reasons), KN_OK);
    CHECK_EQ(kn_avro_program_new(layout, OPS, COUNT(OPS), NULL, &program, &bad), KN_OK);
    kn_layout_unref(layout);
    builder = kn_builder_new(program->layout, NULL, INT32_MAX);
    kn_schema_decoders_init(&decoders, framing, is_key);
}

static void end(void)
{
    kn_schema_decoders_deinit(&decoders);
    kn_builder_unref(builder);
    kn_avro_program_free(program);
    kn_layout_unref(reasons);
    CHECK_EQ(kn_layout_live(), 0);
    CHECK_EQ(kn_builder_live(), 0);
    CHECK_EQ(kn_columns_live(), 0);
    CHECK_EQ(kn_chunk_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

static struct kn_schema_decoder decoder_of(const void *key, int32_t size)
{
    struct kn_schema_decoder made = {.decoder = kn_avro_decoder(program), .paths = PATHS};
    memcpy(made.key.bytes, key, (size_t)size);
    made.key.size_bytes = size;
    return made;
}

static void add(const void *key, int32_t size)
{
    struct kn_schema_decoder made = decoder_of(key, size);
    CHECK_EQ(kn_schema_decoders_add(&decoders, &made), KN_OK);
}

static struct kn_record value_of(const void *bytes, int32_t size)
{
    return (struct kn_record){.value = bytes, .value_bytes = size, .key_bytes = -1};
}

static int decode(const void *bytes, int32_t size)
{
    struct kn_record record = value_of(bytes, size);
    return kn_schema_decoders_decode(&decoders, builder, &record, &failure);
}

static void check_text(const char *expected)
{
    char text[KN_SCHEMA_FAILURE_TEXT_BYTES];
    int32_t size = kn_schema_failure_text(&failure, text);
    CHECK_EQ(size, strlen(expected));
    CHECK_MEM(text, expected, (size_t)size);
}

static void test_ids_and_guids_find_their_decoder(void)
{
    static const uint8_t by_id[] = {0, 0, 0, 1, 4, 14, 2, 'a'};
    static const uint8_t by_guid[] = {1, 0,  1,  2,  3,  4,  5,  6,  7, 8,
                                      9, 10, 11, 12, 13, 14, 15, 16, 2, 'b'};
    begin(KN_FRAMING_ID, 0);
    CHECK_EQ(decode(by_id, sizeof by_id), KN_ERR_UNKNOWN_SCHEMA);
    CHECK_EQ(failure.key.size_bytes, 5);
    CHECK_MEM(failure.key.bytes, by_id, 5);
    add(by_id, 5);
    CHECK_EQ(decode(by_guid, sizeof by_guid), KN_ERR_UNKNOWN_SCHEMA);
    CHECK_EQ(failure.key.size_bytes, 17);
    add(by_guid, 17);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(decode(by_id, sizeof by_id), KN_OK);
        CHECK_EQ(decode(by_guid, sizeof by_guid), KN_OK);
    }
    CHECK_EQ(decode(NULL, -1), KN_OK);
    CHECK_EQ(builder->columns[0].length, 21);
    CHECK_EQ(((const int64_t *)(const void *)builder->columns[1].items)[18], 7);
    CHECK_EQ(((const int64_t *)(const void *)builder->columns[1].items)[19], 8);
    CHECK(!kn_bit(builder->columns[0].validity, 20));
    end();
}

static void test_bad_framings_are_failures(void)
{
    static const struct {
        uint8_t bytes[16];
        int32_t size;
        const char *text;
    } CASES[] = {
        {{0}, 0, "no schema framing"},
        {{2, 0, 0, 0, 1, 0}, 6, "no schema framing"},
        {{'{', '}'}, 2, "no schema framing"},
        {{0, 0, 0, 1}, 4, "within the schema id"},
        {{1, 0, 0, 1}, 4, "within the schema GUID"},
    };
    begin(KN_FRAMING_ID, 0);
    for (int i = 0; i < COUNT(CASES); i++) {
        CHECK_EQ(decode(CASES[i].bytes, CASES[i].size), KN_ERR_INVALID);
        CHECK(strstr(failure.text, CASES[i].text));
        CHECK_EQ(failure.key.size_bytes, 0);
        CHECK_EQ(builder->columns[0].length, 0);
    }
    end();
}

static void test_message_indexes_belong_to_the_framing(void)
{
    static const uint8_t first[] = {0, 0, 0, 0, 9, 0, 14, 2, 'a'};
    static const uint8_t nested[] = {0, 0, 0, 0, 9, 4, 2, 128, 1, 16, 2, 'b'};
    static const struct {
        uint8_t bytes[16];
        int32_t size;
    } BAD[] = {
        {{0, 0, 0, 0, 9}, 5},                           /* none */
        {{0, 0, 0, 0, 9, 4, 2}, 7},                     /* one of two */
        {{0, 0, 0, 0, 9, 1}, 6},                        /* a negative count */
        {{0, 0, 0, 0, 9, 2, 3}, 7},                     /* a negative index */
        {{0, 0, 0, 0, 9, 128, 128, 128, 128, 128}, 10}, /* a number of more than 32 bits */
        {{0, 0, 0, 0, 9, 254, 255, 255, 255, 15}, 10},  /* 2^31 - 1 indexes */
    };
    uint8_t many[200] = {0, 0, 0, 0, 9, 120}; /* 60 indexes are more than a key has */
    begin(KN_FRAMING_INDEXES, 0);
    CHECK_EQ(decode(nested, sizeof nested), KN_ERR_UNKNOWN_SCHEMA);
    CHECK_EQ(failure.key.size_bytes, 9);
    add(nested, 9);
    CHECK_EQ(decode(first, sizeof first), KN_ERR_UNKNOWN_SCHEMA);
    CHECK_EQ(failure.key.size_bytes, 6);
    add(first, 6);
    CHECK_EQ(decode(nested, sizeof nested), KN_OK);
    CHECK_EQ(decode(first, sizeof first), KN_OK);
    for (int i = 0; i < COUNT(BAD); i++) {
        CHECK_EQ(decode(BAD[i].bytes, BAD[i].size), KN_ERR_INVALID);
        CHECK(strstr(failure.text, "message indexes"));
    }
    CHECK_EQ(decode(many, sizeof many), KN_ERR_INVALID);
    CHECK_EQ(builder->columns[0].length, 2);
    end();
}

static void test_a_header_may_have_the_framing(void)
{
    static const uint8_t framing[] = {0, 0, 0, 0, 5, 99};
    static const uint8_t plain[] = {14, 2, 'a'};
    static const uint8_t framed[] = {0, 0, 0, 0, 5, 14, 2, 'b'};
    uint8_t headers[128];
    begin(KN_FRAMING_ID, 1);
    add(framing, 5);
    uint8_t *at = kn_header_encode(headers, "__value_schema_id", 17, "\0\0\0\0\7", 5);
    at = kn_header_encode(at, "__key_schema_id", 15, framing, sizeof framing);
    struct kn_record record = {.key = plain,
                               .key_bytes = sizeof plain,
                               .value_bytes = -1,
                               .headers = headers,
                               .headers_bytes = (int32_t)(at - headers),
                               .header_count = 2};
    CHECK_EQ(kn_schema_decoders_decode(&decoders, builder, &record, &failure), KN_OK);
    record.key_bytes = 2; /* cut off */
    CHECK_EQ(kn_schema_decoders_decode(&decoders, builder, &record, &failure), KN_ERR_INVALID);
    check_text("schema id 5, field name, byte 1: the record ends too early");
    /* a null header is none */
    at = kn_header_encode(headers, "__key_schema_id", 15, NULL, -1);
    record.headers_bytes = (int32_t)(at - headers);
    record.header_count = 1;
    CHECK_EQ(kn_schema_decoders_decode(&decoders, builder, &record, &failure), KN_ERR_INVALID);
    record.key = framed;
    record.key_bytes = sizeof framed;
    CHECK_EQ(kn_schema_decoders_decode(&decoders, builder, &record, &failure), KN_OK);
    CHECK_EQ(builder->columns[0].length, 2);
    end();
}

static void test_records_without_framing_have_one_decoder(void)
{
    static const uint8_t record[] = {14, 2, 'a'};
    begin(KN_FRAMING_NONE, 0);
    CHECK_EQ(decode(record, 3), KN_ERR_UNKNOWN_SCHEMA);
    CHECK_EQ(failure.key.size_bytes, 0);
    add("", 0);
    CHECK_EQ(decode(record, 3), KN_OK);
    CHECK_EQ(decode(record, 1), KN_ERR_INVALID);
    check_text("field name, byte 1: the record ends too early");
    CHECK_EQ(decode(record, 0), KN_ERR_INVALID);
    end();
}

static void test_thousands_of_schemas(void)
{
    uint8_t record[] = {0, 0, 0, 0, 0, 14, 2, 'a'};
    begin(KN_FRAMING_ID, 0);
    for (int i = 0; i < KN_SCHEMA_DECODERS_MAX; i++) {
        record[3] = (uint8_t)(i >> 8);
        record[4] = (uint8_t)i;
        CHECK_EQ(decode(record, sizeof record), KN_ERR_UNKNOWN_SCHEMA);
        add(record, 5);
        CHECK_EQ(decode(record, sizeof record), KN_OK);
    }
    struct kn_schema_decoder more = decoder_of("\0\1\1\1\1", 5);
    CHECK_EQ(kn_schema_decoders_add(&decoders, &more), KN_ERR_FULL);
    for (int i = 0; i < KN_SCHEMA_DECODERS_MAX; i += 7) {
        record[3] = (uint8_t)(i >> 8);
        record[4] = (uint8_t)i;
        CHECK_EQ(decode(record, sizeof record), KN_OK);
    }
    kn_schema_decoders_clear(&decoders);
    CHECK_EQ(decode(record, sizeof record), KN_ERR_UNKNOWN_SCHEMA);
    CHECK_EQ(kn_schema_decoders_add(&decoders, &more), KN_OK);
    end();
}

static void test_texts_of_failures(void)
{
    char long_path[3 * KN_SCHEMA_FAILURE_TEXT_BYTES], text[KN_SCHEMA_FAILURE_TEXT_BYTES];
    failure = (struct kn_schema_failure){{5, {0, 0xff, 0xff, 0xff, 0xff}}, NULL, -1, "unknown"};
    check_text("schema id 4294967295: unknown");
    failure.path = "";
    failure.position = 7;
    check_text("schema id 4294967295, byte 7: unknown");
    failure.key = (struct kn_schema_key){17,
                                         {1, 0x89, 0x79, 0x1b, 0x82, 0xa9, 0x9d, 0x4f, 0x11, 0xbf,
                                          0x48, 0x45, 0x1c, 0x7b, 0x5c, 0xbb, 0x3e}};
    check_text("schema 89791b82-a99d-4f11-bf48-451c7b5cbb3e, byte 7: unknown");
    failure = (struct kn_schema_failure){{0, {0}}, NULL, -1, "no framing"};
    check_text("no framing");
    for (size_t shift = 0; shift < 3; shift++) {
        memset(long_path, 'x', sizeof long_path);
        for (size_t i = shift; i + 3 < sizeof long_path; i += 3)
            memcpy(long_path + i, "\xe2\x82\xac", 3);
        long_path[sizeof long_path - 1] = 0;
        failure.path = long_path;
        int32_t size = kn_schema_failure_text(&failure, text);
        CHECK(size > KN_SCHEMA_FAILURE_TEXT_BYTES - 8 && size < KN_SCHEMA_FAILURE_TEXT_BYTES);
    }
}

/* --- columns --- */

static uint8_t bytes[RECORDS][16];
static struct kn_record records[RECORDS];

/* Makes columns value, value_error and offset, and records of schema 5. */
static struct kn_columns *columns_of(struct kn_decoding *decoding, bool skips_errors,
                                     int64_t bytes_max)
{
    struct kn_column_spec specs[] = {
        {.field = KN_FIELD_VALUE, .layout = KN_LAYOUT_DECODED, .type = program->layout},
        {.field = KN_FIELD_VALUE_ERROR, .layout = KN_LAYOUT_DECODED, .type = reasons},
        {.field = KN_FIELD_TIMESTAMP, .layout = KN_LAYOUT_INT64, .ticks = 1000},
    };
    for (int i = 0; i < RECORDS; i++) {
        memcpy(bytes[i], (uint8_t[]){0, 0, 0, 0, 5, (uint8_t)(2 * i), 4, 'a', 'b'}, 9);
        records[i] = value_of(bytes[i], 9);
        records[i].timestamp_ms = i;
    }
    struct kn_columns *columns = kn_columns_new(specs, 3, NULL, bytes_max);
    *decoding = (struct kn_decoding){.skips_errors = skips_errors, .reason_column = 1};
    kn_schema_decoders_init(&decoding->decoders, KN_FRAMING_ID, 0);
    struct kn_schema_decoder made = decoder_of(bytes[0], 5);
    CHECK_EQ(kn_schema_decoders_add(&decoding->decoders, &made), KN_OK);
    kn_columns_set_decoding(columns, 0, decoding);
    return columns;
}

static int append(struct kn_columns *columns, int from, int32_t count, int32_t *taken,
                  int32_t *column)
{
    struct kn_column_block block = {
        .records = records + from, .count = count, .topic = "t", .topic_bytes = 1};
    int status = kn_columns_append(columns, &block, taken, column);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(columns->columns[i].builder->columns[0].length, columns->row_count);
    CHECK_EQ(columns->columns[2].length, columns->row_count);
    return status;
}

static void test_a_failure_cuts_the_block_in_every_column(void)
{
    struct kn_decoding decoding;
    int32_t taken, column;
    begin(KN_FRAMING_ID, 0);
    struct kn_columns *columns = columns_of(&decoding, 0, INT32_MAX);
    records[10].value_bytes = 8;
    bytes[20][4] = 6;                     /* an unknown schema */
    records[30].timestamp_ms = INT64_MAX; /* not for the third column */
    CHECK_EQ(append(columns, 0, RECORDS, &taken, &column), KN_ERR_INVALID);
    CHECK_EQ(taken, 10);
    CHECK_EQ(column, 0);
    CHECK_STR(decoding.failure.path, "name");
    CHECK_EQ(append(columns, 10, 5, &taken, &column), KN_ERR_INVALID);
    CHECK_EQ(taken, 0);
    CHECK_EQ(append(columns, 11, 53, &taken, &column), KN_ERR_UNKNOWN_SCHEMA);
    CHECK_EQ(taken, 9);
    CHECK_EQ(decoding.failure.key.bytes[4], 6);
    CHECK_EQ(append(columns, 21, 43, &taken, &column), KN_ERR_INVALID);
    CHECK_EQ(taken, 9);
    CHECK_EQ(column, 2);
    CHECK_EQ(append(columns, 31, 33, &taken, &column), KN_OK);
    CHECK_EQ(columns->row_count, 61);
    kn_columns_truncate(columns, 7);
    CHECK_EQ(append(columns, 40, 2, &taken, &column), KN_OK);
    CHECK_EQ(columns->row_count, 9);
    CHECK(kn_columns_size_bytes(columns) >= 9 * (8 + 4 + 2 + 8));
    kn_schema_decoders_deinit(&decoding.decoders);
    kn_columns_unref(columns);
    end();
}

static void test_failures_may_be_nulls_with_reasons(void)
{
    struct kn_decoding decoding;
    struct ArrowArray array;
    struct ArrowSchema schema;
    int32_t taken, column;
    begin(KN_FRAMING_ID, 0);
    struct kn_columns *columns = columns_of(&decoding, 1, INT32_MAX);
    records[3].value_bytes = 8;
    records[4].value = NULL;
    bytes[5][0] = 9;
    CHECK_EQ(append(columns, 0, RECORDS, &taken, &column), KN_OK);
    CHECK_EQ(kn_columns_export(columns, &array), KN_OK);
    struct kn_column_spec specs[3];
    for (int i = 0; i < 3; i++) specs[i] = columns->columns[i].spec;
    CHECK_EQ(kn_columns_export_schema(specs, 3, &schema), KN_OK);
    CHECK_STR(schema.children[0]->name, "value");
    CHECK_STR(schema.children[1]->name, "value_error");
    CHECK_EQ(array.children[0]->null_count, 3);
    CHECK_EQ(array.children[1]->null_count, RECORDS - 2);
    const int32_t *offsets = array.children[1]->buffers[1];
    static const char expected[] = "schema id 5, field name, byte 6: the record ends too early";
    CHECK_EQ(offsets[4] - offsets[3], sizeof expected - 1);
    CHECK_MEM((const char *)array.children[1]->buffers[2] + offsets[3], expected,
              sizeof expected - 1);
    CHECK_EQ(offsets[5], offsets[4]); /* a null record is no failure */
    kn_arrow_release_array(&array);
    kn_arrow_release_schema(&schema);
    kn_schema_decoders_deinit(&decoding.decoders);
    kn_columns_unref(columns);
    end();
}

/* Makes the columns value and value_error of malformed records. */
static struct kn_columns *malformed_columns(int64_t bytes_max)
{
    struct kn_column_spec specs[] = {
        {.field = KN_FIELD_OFFSET, .layout = KN_LAYOUT_INT64},
        {.field = KN_FIELD_VALUE, .layout = KN_LAYOUT_BYTES},
        {.field = KN_FIELD_FIELD, .layout = KN_LAYOUT_DECODED, .type = reasons},
        {.field = KN_FIELD_ERROR, .layout = KN_LAYOUT_DECODED, .type = reasons},
    };
    return kn_columns_new(specs, 4, NULL, bytes_max);
}

/* Appends a block of columns with malformed ones, and checks that both have whole rows. */
static int append_split(struct kn_columns *columns, int from, int32_t count, int32_t *taken,
                        int32_t *column)
{
    struct kn_column_block block = {
        .records = records + from, .count = count, .topic = "t", .topic_bytes = 1};
    const struct kn_columns *malformed = columns->malformed;
    int64_t before = kn_columns_record_count(columns);
    int status = kn_columns_append(columns, &block, taken, column);
    CHECK_EQ(kn_columns_record_count(columns), before + *taken);
    CHECK_EQ(columns->columns[0].builder->columns[0].length, columns->row_count);
    CHECK_EQ(columns->columns[2].length, columns->row_count);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(malformed->columns[i].length, malformed->row_count);
        CHECK_EQ(malformed->columns[2 + i].builder->columns[0].length, malformed->row_count);
    }
    return status;
}

static void test_malformed_records_have_columns_of_their_own(void)
{
    struct kn_decoding decoding;
    int32_t taken, column;
    begin(KN_FRAMING_ID, 0);
    struct kn_columns *columns = columns_of(&decoding, 1, INT32_MAX);
    struct kn_columns *malformed = malformed_columns(INT32_MAX);
    decoding.reason_column = -1;
    kn_columns_set_malformed(columns, malformed);
    for (int i = 0; i < RECORDS; i++) records[i].offset = 100 + i;
    records[0].value_bytes = records[10].value_bytes = records[RECORDS - 1].value_bytes = 8;
    records[11].value = NULL;
    bytes[20][4] = 6; /* an unknown schema */
    CHECK_EQ(append_split(columns, 0, RECORDS, &taken, &column), KN_ERR_UNKNOWN_SCHEMA);
    CHECK_EQ(taken, 20);
    CHECK_EQ(column, 0);
    CHECK_EQ(malformed->row_count, 2);
    CHECK_EQ(append_split(columns, 21, 43, &taken, &column), KN_OK);
    CHECK_EQ(taken, 43);
    CHECK_EQ(append_split(columns, 10, 1, &taken, &column), KN_OK); /* nothing but malformed */
    CHECK_EQ(malformed->row_count, 4);
    static const int64_t offsets[] = {100, 110, 100 + RECORDS - 1, 110};
    CHECK_MEM(malformed->columns[0].items.data, offsets, sizeof offsets);
    const int64_t *times = (const int64_t *)(const void *)columns->columns[2].items.data;
    CHECK_EQ(times[0], 1000); /* of record 1 */
    CHECK_EQ(times[9], 11000);
    kn_columns_truncate(columns, 5);
    kn_columns_truncate(malformed, 1);
    CHECK_EQ(append_split(columns, 9, 2, &taken, &column), KN_OK);
    CHECK_EQ(kn_columns_record_count(columns), 8);
    kn_schema_decoders_deinit(&decoding.decoders);
    kn_columns_unref(malformed);
    kn_columns_unref(columns);
    end();
}

static void test_full_columns_of_malformed_records_end_a_block(void)
{
    struct kn_decoding decoding;
    int32_t taken, column;
    begin(KN_FRAMING_ID, 0);
    struct kn_columns *columns = columns_of(&decoding, 1, INT32_MAX);
    struct kn_columns *by_value = malformed_columns(150);
    decoding.reason_column = -1;
    kn_columns_set_malformed(columns, by_value);
    for (int i = 1; i < RECORDS; i += 2) records[i].value_bytes = 8;
    /* The texts, of 58 bytes each, are full before the values are. */
    CHECK_EQ(append_split(columns, 0, RECORDS, &taken, &column), KN_ERR_FULL);
    CHECK_EQ(taken, 5);
    CHECK_EQ(columns->row_count, 3);
    for (int i = 6; i < RECORDS; i++) bytes[i][0] = 9; /* a long text */
    CHECK_EQ(append_split(columns, 5, RECORDS - 5, &taken, &column), KN_ERR_FULL);
    CHECK_EQ(taken, 0);
    kn_columns_unref(by_value);
    kn_columns_unref(columns);
    kn_schema_decoders_deinit(&decoding.decoders);

    columns = columns_of(&decoding, 1, INT32_MAX);
    by_value = malformed_columns(120);
    decoding.reason_column = -1;
    kn_columns_set_malformed(columns, by_value);
    static const uint8_t large[100] = {0, 0, 0, 0, 5, 0, 0xfe, 0x7f};
    records[3] = records[5] = value_of(large, sizeof large);
    CHECK_EQ(append_split(columns, 0, RECORDS, &taken, &column), KN_ERR_FULL);
    CHECK_EQ(taken, 5);
    CHECK_EQ(columns->row_count, 4);
    CHECK_EQ(by_value->row_count, 1);
    kn_columns_unref(by_value);
    kn_columns_unref(columns);
    kn_schema_decoders_deinit(&decoding.decoders);
    end();
}

static void test_a_full_column_takes_the_records_that_fit(void)
{
    struct kn_decoding decoding;
    int32_t taken, column;
    begin(KN_FRAMING_ID, 0);
    struct kn_columns *columns = columns_of(&decoding, 1, 21);
    CHECK_EQ(append(columns, 0, RECORDS, &taken, &column), KN_ERR_FULL);
    CHECK_EQ(taken, 10);
    CHECK_EQ(append(columns, 10, 1, &taken, &column), KN_ERR_FULL);
    CHECK_EQ(taken, 0);
    CHECK_EQ(columns->row_count, 10);
    kn_schema_decoders_deinit(&decoding.decoders);
    kn_columns_unref(columns);
    end();
}

static void test_flat_columns_are_null_where_the_record_is(void)
{
    struct kn_decoding decoding;
    struct ArrowArray array;
    struct ArrowSchema schema;
    int32_t taken, column;
    begin(KN_FRAMING_ID, 0);
    struct kn_columns *columns = columns_of(&decoding, 1, INT32_MAX);
    columns->columns[0].spec.is_flat = 1;
    records[4].value = NULL;
    CHECK_EQ(append(columns, 0, 20, &taken, &column), KN_OK);
    struct ArrowArrayStream stream;
    CHECK_EQ(kn_columns_export_stream(columns, &stream), KN_OK);
    kn_schema_decoders_deinit(&decoding.decoders);
    kn_columns_unref(columns);
    CHECK_EQ(stream.get_schema(&stream, &schema), 0);
    CHECK_EQ(stream.get_next(&stream, &array), 0);
    stream.release(&stream);
    CHECK_EQ(schema.n_children, 4);
    CHECK_STR(schema.children[0]->name, "id");
    CHECK_STR(schema.children[1]->name, "name");
    CHECK_EQ(schema.children[0]->flags, ARROW_FLAG_NULLABLE);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(array.children[i]->length, 20);
        CHECK_EQ(array.children[i]->null_count, 1);
        CHECK(!kn_bit(array.children[i]->buffers[0], 4));
        CHECK(kn_bit(array.children[i]->buffers[0], 5));
    }
    CHECK_EQ(((const int64_t *)array.children[0]->buffers[1])[19], 19);
    kn_arrow_release_schema(&schema);
    kn_arrow_release_array(&array);
    end();
}

int main(void)
{
    RUN(test_ids_and_guids_find_their_decoder);
    RUN(test_bad_framings_are_failures);
    RUN(test_message_indexes_belong_to_the_framing);
    RUN(test_a_header_may_have_the_framing);
    RUN(test_records_without_framing_have_one_decoder);
    RUN(test_thousands_of_schemas);
    RUN(test_texts_of_failures);
    RUN(test_a_failure_cuts_the_block_in_every_column);
    RUN(test_failures_may_be_nulls_with_reasons);
    RUN(test_malformed_records_have_columns_of_their_own);
    RUN(test_full_columns_of_malformed_records_end_a_block);
    RUN(test_a_full_column_takes_the_records_that_fit);
    RUN(test_flat_columns_are_null_where_the_record_is);
    return check_done();
}
