/* Each allocation of a decoded column fails once: the block is in no column, nothing leaks, and the
 * same block fits afterwards. */
#include "check.h"

#include <stdlib.h>

#include "failing_alloc.h"
#include "../../csrc/base/buffer.c"
#include "../../csrc/codecs/builder.c"
#include "../../csrc/codecs/schema_decoders.c"
#undef malloc
#undef calloc
#undef realloc

#include "arrow/columns.h"
#include "codecs/avro_decode.h"

#define RECORDS 40

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
static const struct kn_node REASONS[] = {{.kind = KN_NODE_BYTES, .format = "u", .name = ""}};
static const char *const PATHS[] = {"", "id", "name", ""};

static struct kn_avro_program *program;
static struct kn_layout *reasons;
static uint8_t bytes[RECORDS][16];
static struct kn_record records[RECORDS];

static void prepare(void)
{
    struct kn_layout *layout;
    int32_t bad;
    CHECK_EQ(kn_layout_new(NODES, 3, &layout), KN_OK);
    CHECK_EQ(kn_layout_new(REASONS, 1, &reasons), KN_OK);
    CHECK_EQ(kn_avro_program_new(layout, OPS, 4, NULL, &program, &bad), KN_OK);
    kn_layout_unref(layout);
    for (int i = 0; i < RECORDS; i++) {
        memcpy(bytes[i], (uint8_t[]){0, 0, 0, 0, 5, (uint8_t)(2 * i), 4, 'a', 'b'}, 9);
        records[i] = (struct kn_record){.value = bytes[i], .value_bytes = i % 7 ? 9 : 8};
    }
}

static void add_decoder(struct kn_decoding *decoding)
{
    struct kn_schema_decoder made = {.decoder = kn_avro_decoder(program), .paths = PATHS};
    int status = KN_ERR_NOMEM;
    made.key.size_bytes = 5;
    memcpy(made.key.bytes, bytes[0], 5);
    while (status != KN_OK) {
        status = kn_schema_decoders_add(&decoding->decoders, &made);
        CHECK(status == KN_OK || (status == KN_ERR_NOMEM && failed));
        CHECK_EQ(decoding->decoders.count, status == KN_OK);
    }
}

static int append(struct kn_columns *columns)
{
    struct kn_column_block block = {
        .records = records, .count = RECORDS, .topic = "t", .topic_bytes = 1};
    int32_t taken, column;
    int64_t before = columns->row_count;
    int status = kn_columns_append(columns, &block, &taken, &column);
    CHECK_EQ(taken, status == KN_OK ? RECORDS : 0);
    CHECK_EQ(columns->row_count, before + taken);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(columns->columns[i].builder->columns[0].length, columns->row_count);
    return status;
}

/* Makes columns of many blocks. Returns 0 if there was no allocation number `fail_at`. */
static int run(long fail_at)
{
    struct kn_column_spec specs[] = {
        {.field = KN_FIELD_VALUE, .layout = KN_LAYOUT_DECODED, .type = program->layout},
        {.field = KN_FIELD_VALUE_ERROR, .layout = KN_LAYOUT_DECODED, .type = reasons},
        {.field = KN_FIELD_VALUE_BYTES, .layout = KN_LAYOUT_DECODED, .type = reasons},
        {.field = KN_FIELD_OFFSET, .layout = KN_LAYOUT_INT64},
    };
    struct kn_decoding decoding = {.skips_errors = 1, .reason_column = 1, .keeps_bytes = 1};
    struct ArrowArray array;
    struct kn_columns *columns = NULL;
    failed = 0;
    allocations_left = fail_at;
    while (!columns) {
        columns = kn_columns_new(specs, 4, NULL, INT32_MAX);
        CHECK(columns || failed);
    }
    kn_schema_decoders_init(&decoding.decoders, KN_FRAMING_ID, 0);
    add_decoder(&decoding);
    kn_columns_set_decoding(columns, 0, &decoding);
    for (int i = 0; i < 20; i++) {
        int status = append(columns);
        if (status == KN_OK) continue;
        CHECK_EQ(status, KN_ERR_NOMEM);
        CHECK(failed);
        CHECK_EQ(append(columns), KN_OK);
    }
    int status = kn_builder_export_field(columns->columns[0].builder, 1, &array);
    if (status != KN_OK) status = kn_builder_export_field(columns->columns[0].builder, 1, &array);
    CHECK_EQ(status, KN_OK);
    CHECK_EQ(array.null_count, 20 * 6);
    kn_arrow_release_array(&array);
    allocations_left = -1;
    kn_schema_decoders_deinit(&decoding.decoders);
    kn_columns_unref(columns);
    CHECK_EQ(kn_builder_live(), 0);
    CHECK_EQ(kn_columns_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
    return failed;
}

static int append_split(struct kn_columns *columns)
{
    struct kn_column_block block = {
        .records = records, .count = RECORDS, .topic = "t", .topic_bytes = 1};
    const struct kn_columns *malformed = columns->malformed;
    int32_t taken, column;
    int64_t before = kn_columns_record_count(columns);
    int status = kn_columns_append(columns, &block, &taken, &column);
    CHECK_EQ(taken, status == KN_OK ? RECORDS : 0);
    CHECK_EQ(kn_columns_record_count(columns), before + taken);
    CHECK_EQ(columns->columns[0].builder->columns[0].length, columns->row_count);
    CHECK_EQ(columns->columns[1].length, columns->row_count);
    CHECK_EQ(malformed->columns[0].length, malformed->row_count);
    for (int i = 1; i < 3; i++)
        CHECK_EQ(malformed->columns[i].builder->columns[0].length, malformed->row_count);
    return status;
}

/* The same with columns of malformed records. */
static int run_split(long fail_at)
{
    struct kn_column_spec specs[] = {
        {.field = KN_FIELD_VALUE, .layout = KN_LAYOUT_DECODED, .type = program->layout},
        {.field = KN_FIELD_OFFSET, .layout = KN_LAYOUT_INT64},
    };
    struct kn_column_spec malformed_specs[] = {
        {.field = KN_FIELD_VALUE, .layout = KN_LAYOUT_BYTES},
        {.field = KN_FIELD_FIELD, .layout = KN_LAYOUT_DECODED, .type = reasons},
        {.field = KN_FIELD_ERROR, .layout = KN_LAYOUT_DECODED, .type = reasons},
    };
    struct kn_decoding decoding = {.skips_errors = 1, .reason_column = -1};
    struct kn_columns *columns = kn_columns_new(specs, 2, NULL, INT32_MAX);
    struct kn_columns *malformed = kn_columns_new(malformed_specs, 3, NULL, INT32_MAX);
    CHECK(columns && malformed);
    kn_columns_set_malformed(columns, malformed);
    kn_columns_unref(malformed);
    kn_schema_decoders_init(&decoding.decoders, KN_FRAMING_ID, 0);
    failed = 0;
    allocations_left = fail_at;
    add_decoder(&decoding);
    kn_columns_set_decoding(columns, 0, &decoding);
    for (int i = 0; i < 20; i++) {
        int status = append_split(columns);
        if (status == KN_OK) continue;
        CHECK_EQ(status, KN_ERR_NOMEM);
        CHECK(failed);
        CHECK_EQ(append_split(columns), KN_OK);
    }
    allocations_left = -1;
    CHECK_EQ(malformed->row_count, 20 * ((RECORDS + 6) / 7));
    kn_schema_decoders_deinit(&decoding.decoders);
    kn_columns_unref(columns);
    CHECK_EQ(kn_builder_live(), 0);
    CHECK_EQ(kn_columns_live(), 0);
    return failed;
}

static void test_each_failed_allocation_leaves_every_column_alike(void)
{
    long count = 0;
    prepare();
    while (run(count)) count++;
    CHECK(count > 20); /* there were allocations to fail */
    count = 0;
    while (run_split(count)) count++;
    CHECK(count > 20);
    kn_avro_program_free(program);
    kn_layout_unref(reasons);
    CHECK_EQ(kn_layout_live(), 0);
}

int main(void)
{
    RUN(test_each_failed_allocation_leaves_every_column_alike);
    return check_done();
}
