/* JSON programs and records: values, removed rows, limits, and each allocation that fails once. */
#include "check.h"

#include <stdlib.h>

#include "failing_alloc.h"
#include "../../csrc/codecs/json_program.c"
#include "../../csrc/codecs/json_decode.c"
#undef malloc
#undef calloc
#undef realloc

#include "base/buffer.h"

#define NULLABLE ARROW_FLAG_NULLABLE
#define COUNT(array) ((int32_t)(sizeof(array) / sizeof(array)[0]))

/* struct { id: int64, name: string or null, tags: list<struct{kind: dictionary, n: int8 or null}> } */
static const int32_t VALUE_OFFSETS[] = {0, 3, 8};
static const struct kn_node NODES[] = {
    {.kind = KN_NODE_STRUCT, .child_count = 3, .format = "+s", .name = ""},
    {.kind = KN_NODE_FIXED, .width_bytes = 8, .format = "l", .name = "id"},
    {.kind = KN_NODE_BYTES, .format = "u", .name = "name", .flags = NULLABLE},
    {.kind = KN_NODE_LIST, .child_count = 1, .format = "+l", .name = "tags", .flags = NULLABLE},
    {.kind = KN_NODE_STRUCT, .child_count = 2, .format = "+s", .name = "item"},
    {.kind = KN_NODE_DICTIONARY,
     .format = "u",
     .name = "kind",
     .value_count = 2,
     .value_offsets = VALUE_OFFSETS,
     .value_bytes = (const uint8_t *)"redgreen"},
    {.kind = KN_NODE_FIXED, .width_bytes = 1, .format = "c", .name = "n", .flags = NULLABLE},
};
static const struct kn_json_rule RULES[] = {
    {.code = KN_JSON_STRUCT}, {.code = KN_JSON_INT},    {.code = KN_JSON_TEXT},
    {.code = KN_JSON_LIST},   {.code = KN_JSON_STRUCT}, {.code = KN_JSON_ENUM},
    {.code = KN_JSON_INT},
};
static const char RECORD[] = "{\"tags\":[{\"kind\":\"red\",\"n\":1},{\"n\":null,\"k\\u0069nd\":"
                             "\"green\"}],\"x\":[1,{}],\"name\":\"\\u00e9\",\"id\":12}";

static struct kn_json_program *load_program(void)
{
    struct kn_layout *layout;
    struct kn_json_program *program;
    int32_t bad;
    CHECK_EQ(kn_layout_new(NODES, COUNT(NODES), &layout), KN_OK);
    CHECK_EQ(kn_json_program_new(layout, RULES, &program, &bad), KN_OK);
    kn_layout_unref(layout);
    return program;
}

static int decode_string(const struct kn_json_program *program, struct kn_builder *builder,
                         const char *text, struct kn_decode_problem *problem)
{
    return kn_json_decode(program, builder, (const uint8_t *)text, (int64_t)strlen(text), problem);
}

static void check_nothing_lives(void)
{
    CHECK_EQ(kn_layout_live(), 0);
    CHECK_EQ(kn_builder_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

static void check_rows(const struct kn_builder *builder, int64_t rows)
{
    for (int32_t i = 0; i < COUNT(NODES); i++)
        CHECK_EQ(builder->columns[i].length, i > 3 ? 2 * rows : rows);
    CHECK_EQ(builder->columns[2].bytes_used, 2 * rows);
    for (int64_t i = 0; i < rows; i++) {
        CHECK_EQ(kn_built_offsets(&builder->columns[5])[2 * i], 0);
        CHECK_EQ(kn_built_offsets(&builder->columns[5])[2 * i + 1], 1);
        CHECK_EQ(builder->columns[6].items[2 * i], 1);
        CHECK(kn_bit(builder->columns[6].validity, 2 * i));
        CHECK(!kn_bit(builder->columns[6].validity, 2 * i + 1));
    }
}

/* Each cut of a record leaves the columns as they were. A copy without room behind it shows reads
 * beyond its end to a sanitizer. */
static void test_cut_records_leave_no_trace(void)
{
    struct kn_json_program *program = load_program();
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, INT32_MAX);
    struct kn_decode_problem problem;
    int64_t size = (int64_t)sizeof RECORD - 1;

    for (int64_t rows = 0; rows < 100; rows++) {
        for (int64_t cut = 0; cut < size; cut += 1 + rows % 7) {
            uint8_t *copy = malloc((size_t)cut + !cut);
            memcpy(copy, RECORD, (size_t)cut);
            CHECK(kn_json_decode(program, builder, copy, cut, &problem) != KN_OK);
            CHECK(problem.text && problem.position >= 0 && problem.position <= cut);
            free(copy);
        }
        check_rows(builder, rows);
        CHECK_EQ(decode_string(program, builder, RECORD, &problem), KN_OK);
    }
    check_rows(builder, 100);
    kn_builder_truncate(builder, 3);
    check_rows(builder, 3);
    struct ArrowArray array;
    CHECK(builder->scratch);
    CHECK_EQ(kn_builder_export(builder, &array), KN_OK);
    CHECK(!builder->scratch);
    kn_builder_unref(builder);
    kn_json_program_free(program);
    CHECK_EQ(array.length, 3);
    kn_arrow_release_array(&array);
    check_nothing_lives();
}

static void test_a_full_column_ends_before_the_record(void)
{
    struct kn_json_program *program = load_program();
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, 7);
    struct kn_decode_problem problem;

    for (int i = 0; i < 3; i++)
        CHECK_EQ(decode_string(program, builder, "{\"name\":\"ab\",\"id\":1}", &problem), KN_OK);
    CHECK_EQ(decode_string(program, builder, "{\"name\":\"ab\",\"id\":1}", &problem), KN_ERR_FULL);
    CHECK_EQ(problem.instruction, 2);
    CHECK_EQ(builder->columns[1].length, 3);
    kn_builder_unref(builder);
    kn_json_program_free(program);
    check_nothing_lives();
}

/* Returns the status of the first call that fails. */
static int whole_way(void)
{
    static char large[3 << 20];
    struct kn_layout *layout;
    struct kn_json_program *program;
    struct kn_decode_problem problem;
    int32_t bad;
    CHECK_EQ(kn_layout_new(NODES, COUNT(NODES), &layout), KN_OK);
    int status = kn_json_program_new(layout, RULES, &program, &bad);
    kn_layout_unref(layout);
    if (status != KN_OK) return status;
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, INT32_MAX);
    memset(large, ' ', sizeof large - 1);
    memcpy(large, "{\"id\":3}", 8);
    status = decode_string(program, builder, RECORD, &problem);
    if (status == KN_OK) status = decode_string(program, builder, large, &problem);
    if (status == KN_OK) status = decode_string(program, builder, RECORD, &problem);
    if (status == KN_ERR_NOMEM) {
        CHECK_STR(problem.text, "there is not enough memory");
        CHECK_EQ(decode_string(program, builder, RECORD, &problem), KN_OK); /* it goes on */
    }
    kn_builder_unref(builder);
    kn_json_program_free(program);
    return status;
}

static void test_each_allocation_that_fails_is_reported(void)
{
    for (long count = 0;; count++) {
        allocations_left = count;
        failed = 0;
        int status = whole_way();
        allocations_left = -1;
        CHECK_EQ(status, failed ? KN_ERR_NOMEM : KN_OK);
        check_nothing_lives();
        if (!failed) break;
        CHECK(count < 1000);
    }
}

static void test_programs_that_are_refused(void)
{
    static const struct kn_node TWINS[] = {
        {.kind = KN_NODE_STRUCT, .child_count = 2, .format = "+s", .name = ""},
        {.kind = KN_NODE_BITS, .format = "b", .name = "a"},
        {.kind = KN_NODE_BITS, .format = "b", .name = "a"},
    };
    struct kn_json_rule rules[COUNT(RULES)];
    struct kn_layout *layout;
    struct kn_json_program *program;
    int32_t bad;

    CHECK_EQ(kn_layout_new(NODES, COUNT(NODES), &layout), KN_OK);
    for (int32_t node = 0; node < COUNT(NODES); node++) {
        for (int32_t code = -1; code <= KN_JSON_CODE_COUNT; code++) {
            memcpy(rules, RULES, sizeof rules);
            rules[node].code = code;
            int status = kn_json_program_new(layout, rules, &program, &bad);
            if (status == KN_OK) {
                kn_json_program_free(program);
            } else {
                CHECK_EQ(status, KN_ERR_INVALID);
                CHECK_EQ(bad, node);
                CHECK(!program);
            }
        }
    }
    kn_layout_unref(layout);
    CHECK_EQ(kn_layout_new(TWINS, COUNT(TWINS), &layout), KN_OK);
    memcpy(rules, RULES, sizeof rules);
    rules[1].code = rules[2].code = KN_JSON_BOOLEAN;
    CHECK_EQ(kn_json_program_new(layout, rules, &program, &bad), KN_ERR_INVALID);
    CHECK_EQ(bad, 0);
    kn_layout_unref(layout);
    CHECK(!kn_json_code_name(-1) && !kn_json_code_name(KN_JSON_CODE_COUNT));
    check_nothing_lives();
}

/* A build without simdjson says so when a program is made. */
static void test_no_program_without_simdjson(void)
{
    struct kn_layout *layout;
    struct kn_json_program *program;
    int32_t bad;
    CHECK_EQ(kn_layout_new(NODES, COUNT(NODES), &layout), KN_OK);
    CHECK_EQ(kn_json_program_new(layout, RULES, &program, &bad), KN_ERR_UNSUPPORTED);
    kn_layout_unref(layout);
    check_nothing_lives();
}

int main(void)
{
    if (!kn_json_is_available()) {
        RUN(test_no_program_without_simdjson);
        printf("without simdjson\n");
        return check_done();
    }
    RUN(test_cut_records_leave_no_trace);
    RUN(test_a_full_column_ends_before_the_record);
    RUN(test_each_allocation_that_fails_is_reported);
    RUN(test_programs_that_are_refused);
    return check_done();
}
