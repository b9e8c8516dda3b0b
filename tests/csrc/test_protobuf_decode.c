/* Protobuf programs: values, failed records, failed allocations, and programs that are refused. */
#include "check.h"

#include <stdlib.h>

#include "failing_alloc.h"
#include "../../csrc/base/buffer.c"
#include "../../csrc/codecs/protobuf_decode.c"
#undef malloc
#undef calloc
#undef realloc

#define NULLABLE ARROW_FLAG_NULLABLE
#define COUNT(array) ((int32_t)(sizeof(array) / sizeof(array)[0]))

/* message M { int64 id = 1; optional string name = 2; map<string, int32> m = 3;
 *             oneof { sint32 a = 4; I i = 5; } }
 * message I { repeated int32 list = 1; } */
static const struct kn_node NODES[] = {
    {.kind = KN_NODE_STRUCT, .child_count = 5, .format = "+s", .name = ""},
    {.kind = KN_NODE_FIXED, .width_bytes = 8, .format = "l", .name = "id"},
    {.kind = KN_NODE_BYTES, .format = "u", .name = "name", .flags = NULLABLE},
    {.kind = KN_NODE_LIST, .child_count = 1, .format = "+m", .name = "m"},
    {.kind = KN_NODE_STRUCT, .child_count = 2, .format = "+s", .name = "entries"},
    {.kind = KN_NODE_BYTES, .format = "u", .name = "key"},
    {.kind = KN_NODE_FIXED, .width_bytes = 4, .format = "i", .name = "value"},
    {.kind = KN_NODE_FIXED, .width_bytes = 4, .format = "i", .name = "a", .flags = NULLABLE},
    {.kind = KN_NODE_STRUCT, .child_count = 1, .format = "+s", .name = "i", .flags = NULLABLE},
    {.kind = KN_NODE_LIST, .child_count = 1, .format = "+l", .name = "list"},
    {.kind = KN_NODE_FIXED, .width_bytes = 4, .format = "i", .name = "item"},
};
#define OP(code, node, number, shape, missing, arg, oneof)                                         \
    {KN_PROTOBUF_##code,                                                                           \
     node,                                                                                         \
     number,                                                                                       \
     KN_PROTOBUF_##shape,                                                                          \
     KN_PROTOBUF_##missing,                                                                        \
     arg,                                                                                          \
     0,                                                                                            \
     oneof,                                                                                        \
     0,                                                                                            \
     0,                                                                                            \
     0,                                                                                            \
     0,                                                                                            \
     0,                                                                                            \
     0}
static const struct kn_protobuf_op OPS[] = {
    OP(INT64, 1, 1, SINGULAR, ZERO, 0, -1),  OP(TEXT, 2, 2, SINGULAR, NULL, 0, -1),
    OP(MESSAGE, 3, 3, MAP, NULL, 1, -1),     OP(SINT32, 7, 4, SINGULAR, NULL, 0, 0),
    OP(MESSAGE, 8, 5, SINGULAR, NULL, 2, 0), OP(TEXT, 5, 1, SINGULAR, ZERO, 0, -1),
    OP(INT32, 6, 2, SINGULAR, ZERO, 0, -1),  OP(INT32, 9, 1, PACKED, NULL, 0, -1),
};
static const struct kn_protobuf_message MESSAGES[] = {
    {0, 0, 5, 0, 0}, {4, 5, 2, 0, 0}, {8, 7, 1, 0, 0}};

/* id 7, name "ab", i {1, 300}, m {k: 5}, a -1, m {k: 6}, i {2}: the oneof ends as {2} */
static const uint8_t RECORD[] = {0x08, 7,    0x12, 2,    'a', 'b',  0x2a, 5,    0x0a, 3, 1,    0xac,
                                 2,    0x1a, 5,    0x0a, 1,   'k',  0x10, 5,    0x20, 1, 0x1a, 5,
                                 0x0a, 1,    'k',  0x10, 6,   0x2a, 3,    0x0a, 1,    2};

static int load(struct kn_protobuf_program **program)
{
    struct kn_layout *layout;
    int32_t bad;
    CHECK_EQ(kn_layout_new(NODES, COUNT(NODES), &layout), KN_OK);
    int status = kn_protobuf_program_new(layout, OPS, COUNT(OPS), MESSAGES, COUNT(MESSAGES), NULL,
                                         program, &bad);
    kn_layout_unref(layout);
    return status;
}

static void check_nothing_lives(void)
{
    CHECK_EQ(kn_layout_live(), 0);
    CHECK_EQ(kn_builder_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

static void check_lengths(const struct kn_builder *builder, int64_t rows)
{
    const struct kn_built *columns = builder->columns;
    static const int32_t PER_ROW[] = {0, 1, 2, 3, 7, 8, 9};
    for (int32_t i = 0; i < COUNT(PER_ROW); i++) CHECK_EQ(columns[PER_ROW[i]].length, rows);
    CHECK_EQ(columns[2].bytes_used, 2 * rows);
    for (int32_t i = 4; i < 7; i++) CHECK_EQ(columns[i].length, rows); /* one entry is left */
    CHECK_EQ(columns[10].length, rows);
}

static void test_a_failed_record_is_removed_from_every_column(void)
{
    struct kn_protobuf_program *program;
    struct kn_decode_problem problem;
    int64_t rows = 0, cuts = 0;
    CHECK_EQ(load(&program), KN_OK);
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, INT32_MAX);

    for (int round = 0; round < 50; round++) {
        for (size_t size = 1; size < sizeof RECORD; size++) {
            int status = kn_protobuf_decode(program, builder, RECORD, (int64_t)size, &problem);
            if (status == KN_OK) { /* cut off between two fields */
                kn_builder_truncate(builder, rows);
            } else {
                CHECK_EQ(status, KN_ERR_TRUNCATED);
                CHECK(problem.position <= (int64_t)size);
                cuts++;
            }
            check_lengths(builder, rows);
        }
        CHECK_EQ(kn_protobuf_decode(program, builder, RECORD, sizeof RECORD, &problem), KN_OK);
        check_lengths(builder, ++rows);
        CHECK_EQ(((int32_t *)(void *)builder->columns[6].items)[rows - 1], 6);
        CHECK_EQ(((int32_t *)(void *)builder->columns[10].items)[rows - 1], 2);
        CHECK_EQ(kn_bit(builder->columns[7].validity, rows - 1), 0);
        CHECK_EQ(kn_bit(builder->columns[8].validity, rows - 1), 1);
    }
    CHECK_EQ(cuts, 50 * 27);
    kn_builder_unref(builder);
    kn_protobuf_program_free(program);
    check_nothing_lives();
}

static void test_an_empty_record_is_a_row_of_defaults(void)
{
    struct kn_protobuf_program *program;
    struct kn_decode_problem problem;
    struct ArrowArray array;
    CHECK_EQ(load(&program), KN_OK);
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, INT32_MAX);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(kn_protobuf_decode(program, builder, NULL, 0, &problem), KN_OK);
    CHECK_EQ(kn_builder_export(builder, &array), KN_OK);
    kn_builder_unref(builder);
    kn_protobuf_program_free(program);
    CHECK_EQ(array.length, 1000);
    CHECK_EQ(array.null_count, 0);
    CHECK_EQ(array.children[0]->null_count, 0);
    CHECK_EQ(array.children[1]->null_count, 1000);
    CHECK_EQ(array.children[2]->children[0]->length, 0);
    CHECK_EQ(array.children[4]->null_count, 1000);
    kn_arrow_release_array(&array);
    check_nothing_lives();
}

static void test_a_column_is_full_before_the_record_that_is_too_much(void)
{
    struct kn_protobuf_program *program;
    struct kn_decode_problem problem;
    CHECK_EQ(load(&program), KN_OK);
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, 7);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(kn_protobuf_decode(program, builder, RECORD, sizeof RECORD, &problem), KN_OK);
    CHECK_EQ(kn_protobuf_decode(program, builder, RECORD, sizeof RECORD, &problem), KN_ERR_FULL);
    CHECK_EQ(problem.instruction, 1);
    check_lengths(builder, 3);
    kn_builder_unref(builder);
    kn_protobuf_program_free(program);
    check_nothing_lives();
}

/* A builder may be filled by the programs of several schemas. */
static void test_two_programs_fill_one_builder(void)
{
    struct kn_protobuf_program *program, *other;
    struct kn_decode_problem problem;
    CHECK_EQ(load(&program), KN_OK);
    CHECK_EQ(load(&other), KN_OK);
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, INT32_MAX);
    for (int i = 0; i < 10; i++) {
        const struct kn_protobuf_program *each = i % 2 ? other : program;
        CHECK_EQ(kn_protobuf_decode(each, builder, RECORD, sizeof RECORD, &problem), KN_OK);
        check_lengths(builder, i + 1);
    }
    kn_builder_unref(builder);
    kn_protobuf_program_free(program);
    kn_protobuf_program_free(other);
    check_nothing_lives();
}

/* 20 entries, with two keys */
static int64_t make_map(uint8_t *to)
{
    uint8_t *at = to;
    for (uint8_t i = 0; i < 20; i++) {
        const uint8_t entry[] = {0x1a, 5, 0x0a, 1, (uint8_t)('a' + i % 2), 0x10, i};
        memcpy(at, entry, sizeof entry);
        at += sizeof entry;
    }
    return at - to;
}

static void test_each_failed_allocation_leaves_the_rows_before(void)
{
    struct kn_protobuf_program *program;
    struct kn_decode_problem problem;
    uint8_t map[200];
    int64_t map_bytes = make_map(map);
    long fail_at = 0, lost = 0;

    CHECK_EQ(load(&program), KN_OK);
    for (failed = 1; failed; fail_at++) {
        struct kn_builder *builder = kn_builder_new(program->layout, NULL, INT32_MAX);
        allocations_left = fail_at;
        failed = 0;
        int64_t rows = 0;
        for (int i = 0; i < 200; i++) {
            int status = kn_protobuf_decode(program, builder, RECORD, sizeof RECORD, &problem);
            CHECK(status == KN_OK || (status == KN_ERR_NOMEM && failed));
            rows += status == KN_OK;
            CHECK_EQ(builder->columns[0].length, rows);
        }
        check_lengths(builder, rows);
        int status = kn_protobuf_decode(program, builder, map, map_bytes, &problem);
        CHECK(status == KN_OK || (status == KN_ERR_NOMEM && failed));
        allocations_left = -1;
        int64_t decoded = rows + (status == KN_OK);
        /* a column that can't get twice its memory gets what it needs */
        CHECK(decoded == 201 || (failed && decoded == 200));
        lost += decoded == 200;
        CHECK_EQ(builder->columns[4].length, rows + (status == KN_OK ? 2 : 0));
        kn_builder_unref(builder);
    }
    CHECK(lost > 20); /* there were allocations to fail */
    kn_protobuf_program_free(program);
    check_nothing_lives();
}

/* Any other value of any field of an instruction is refused, except where it has no meaning. */
static void test_programs_that_would_write_elsewhere_are_refused(void)
{
    static const int32_t VALUES[] = {-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 99};
    struct kn_layout *layout;
    struct kn_protobuf_program *program;
    int32_t bad, refused = 0;

    CHECK_EQ(kn_layout_new(NODES, COUNT(NODES), &layout), KN_OK);
    for (int32_t i = 0; i < COUNT(OPS) + COUNT(MESSAGES); i++) {
        for (int32_t k = 0; k < 10 * COUNT(VALUES); k++) {
            struct kn_protobuf_op ops[COUNT(OPS)];
            struct kn_protobuf_message messages[COUNT(MESSAGES)];
            memcpy(ops, OPS, sizeof ops);
            memcpy(messages, MESSAGES, sizeof messages);
            int32_t *fields = i < COUNT(OPS) ? &ops[i].code : &messages[i - COUNT(OPS)].node;
            if (i >= COUNT(OPS) && k % 10 > 2) continue;
            fields[k % 10] = VALUES[k / 10];
            int status = kn_protobuf_program_new(layout, ops, COUNT(ops), messages, COUNT(messages),
                                                 NULL, &program, &bad);
            refused += status == KN_ERR_INVALID;
            if (status != KN_OK) continue;
            /* What is accepted decodes without touching other memory: ASan watches. */
            struct kn_builder *builder = kn_builder_new(layout, NULL, INT32_MAX);
            struct kn_decode_problem problem;
            for (int repeat = 0; repeat < 70; repeat++)
                (void)kn_protobuf_decode(program, builder, RECORD, sizeof RECORD, &problem);
            for (int32_t n = 1; n < 4; n++)
                CHECK_EQ(builder->columns[n].length, builder->columns[0].length);
            kn_builder_unref(builder);
            kn_protobuf_program_free(program);
        }
    }
    CHECK(refused > 700);
    kn_layout_unref(layout);
    check_nothing_lives();
}

int main(void)
{
    RUN(test_a_failed_record_is_removed_from_every_column);
    RUN(test_an_empty_record_is_a_row_of_defaults);
    RUN(test_a_column_is_full_before_the_record_that_is_too_much);
    RUN(test_two_programs_fill_one_builder);
    RUN(test_each_failed_allocation_leaves_the_rows_before);
    RUN(test_programs_that_would_write_elsewhere_are_refused);
    return check_done();
}
