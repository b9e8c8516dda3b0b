/* Nested columns and Avro programs: values, limits, removed rows, and programs that are refused. */
#include "check.h"
#include "base/buffer.h"
#include "base/status.h"
#include "codecs/avro_decode.h"

#define NULLABLE ARROW_FLAG_NULLABLE
#define COUNT(array) ((int32_t)(sizeof(array) / sizeof(array)[0]))

/* struct { id: long, name: string or null, tags: list<union<int, string>> } */
static const struct kn_node NODES[] = {
    {.kind = KN_NODE_STRUCT, .child_count = 3, .format = "+s", .name = ""},
    {.kind = KN_NODE_FIXED, .width_bytes = 8, .format = "l", .name = "id"},
    {.kind = KN_NODE_BYTES, .format = "u", .name = "name", .flags = NULLABLE},
    {.kind = KN_NODE_LIST, .child_count = 1, .format = "+l", .name = "tags"},
    {.kind = KN_NODE_UNION, .child_count = 2, .format = "+ud:0,1", .name = "item"},
    {.kind = KN_NODE_FIXED, .width_bytes = 4, .format = "i", .name = "int"},
    {.kind = KN_NODE_BYTES, .format = "u", .name = "string"},
};
static const struct kn_avro_op OPS[] = {
    {KN_AVRO_RECORD, 0, 0, 0, 0, 0, 0},   {KN_AVRO_LONG, 1, 0, 0, 0, 0, 0},
    {KN_AVRO_NULLABLE, 2, 4, 0, 0, 0, 0}, {KN_AVRO_TEXT, 2, 0, 0, 0, 0, 0},
    {KN_AVRO_ARRAY, 3, 13, 0, 0, 0, 0},   {KN_AVRO_UNION, 4, 12, 0, 2, 0, 0},
    {KN_AVRO_TYPE, 4, 8, 0, 5, 0, 0},     {KN_AVRO_INT, 5, 0, 0, 0, 0, 0},
    {KN_AVRO_JUMP, -1, 12, 0, 0, 0, 0},   {KN_AVRO_TYPE, 4, 11, 1, 6, 0, 0},
    {KN_AVRO_TEXT, 6, 0, 0, 0, 0, 0},     {KN_AVRO_JUMP, -1, 12, 0, 0, 0, 0},
    {KN_AVRO_NEXT, -1, 0, 4, 0, 0, 0},    {KN_AVRO_DONE, -1, 0, 0, 0, 0, 0},
};
static const int32_t TABLE[] = {6, 9};
static const struct kn_program_data DATA = {TABLE, COUNT(TABLE), 0, NULL};

/* 7, "ab", [1, "c"], in one block with its size */
static const uint8_t RECORD[] = {14, 2, 4, 'a', 'b', 3, 10, 0, 2, 2, 2, 'c', 0};

static struct kn_avro_program *load(void)
{
    struct kn_layout *layout;
    struct kn_avro_program *program;
    int32_t bad;
    CHECK_EQ(kn_layout_new(NODES, COUNT(NODES), &layout), KN_OK);
    CHECK_EQ(kn_avro_program_new(layout, OPS, COUNT(OPS), &DATA, &program, &bad), KN_OK);
    kn_layout_unref(layout);
    return program;
}

static void check_nothing_lives(void)
{
    CHECK_EQ(kn_layout_live(), 0);
    CHECK_EQ(kn_builder_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

static void test_records_become_columns_that_outlive_their_builder(void)
{
    struct kn_avro_program *program = load();
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, INT32_MAX);
    struct kn_decode_problem problem;
    struct ArrowArray array;
    struct ArrowSchema schema;

    for (int i = 0; i < 1000; i++)
        CHECK_EQ(kn_avro_decode(program, builder, RECORD, sizeof RECORD, &problem), KN_OK);
    CHECK_EQ(kn_builder_reserve(builder, 0, 1), KN_OK);
    kn_builder_append_null(builder, 0);
    CHECK_EQ(kn_builder_export(builder, &array), KN_OK);
    CHECK_EQ(kn_layout_export(program->layout, &schema), KN_OK);
    kn_builder_unref(builder);
    kn_avro_program_free(program);

    CHECK_STR(schema.format, "+s");
    CHECK_STR(schema.children[2]->children[0]->children[1]->name, "string");
    CHECK_EQ(array.length, 1001);
    CHECK_EQ(array.null_count, 1);
    const int32_t *offsets = array.children[1]->buffers[1];
    const char *bytes = array.children[1]->buffers[2];
    CHECK_EQ(offsets[1000], 2000);
    CHECK_EQ(offsets[1001], 2000);
    CHECK_MEM(bytes + 1998, "ab", 2);
    const struct ArrowArray *items = array.children[2]->children[0];
    CHECK_EQ(items->length, 2000);
    const int8_t *types = items->buffers[0];
    CHECK_EQ(types[1999], 1);
    CHECK_EQ(((const int32_t *)items->children[0]->buffers[1])[999], 1);
    kn_arrow_release_array(&array);
    kn_arrow_release_schema(&schema);
    check_nothing_lives();
}

/* Each cut of a record leaves the columns as they were, and the next record is right. */
static void test_a_failed_record_is_removed_from_every_column(void)
{
    struct kn_avro_program *program = load();
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, INT32_MAX);
    struct kn_decode_problem problem;
    struct kn_built *columns = builder->columns;
    int64_t rows = 0;

    for (int round = 0; round < 50; round++) {
        for (size_t size = 0; size < sizeof RECORD; size++) {
            CHECK_EQ(kn_avro_decode(program, builder, RECORD, (int64_t)size, &problem),
                     KN_ERR_TRUNCATED);
            CHECK(problem.position <= (int64_t)size);
            CHECK_EQ(columns[0].length, rows);
            CHECK_EQ(columns[4].length, 2 * rows);
        }
        CHECK_EQ(kn_avro_decode(program, builder, RECORD, sizeof RECORD, &problem), KN_OK);
        rows++;
        CHECK_EQ(columns[2].bytes_used, 2 * rows);
        CHECK_EQ(columns[5].length, rows);
        CHECK_EQ(columns[6].length, rows);
    }
    kn_builder_truncate(builder, 3);
    for (int32_t i = 0; i < COUNT(NODES); i++) CHECK_EQ(columns[i].length, i == 4 ? 6 : 3);
    kn_builder_truncate(builder, 0);
    for (int32_t i = 0; i < COUNT(NODES); i++) CHECK_EQ(columns[i].length, 0);
    kn_builder_unref(builder);
    kn_avro_program_free(program);
    check_nothing_lives();
}

static void test_a_removed_null_leaves_a_valid_row(void)
{
    static const uint8_t with_null[] = {14, 0, 0};
    struct kn_avro_program *program = load();
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, INT32_MAX);
    struct kn_decode_problem problem;

    CHECK_EQ(kn_avro_decode(program, builder, with_null, 3, &problem), KN_OK);
    CHECK_EQ(kn_bit(builder->columns[2].validity, 0), 0);
    kn_builder_truncate(builder, 0);
    CHECK_EQ(kn_avro_decode(program, builder, RECORD, sizeof RECORD, &problem), KN_OK);
    CHECK_EQ(kn_bit(builder->columns[2].validity, 0), 1);
    kn_builder_unref(builder);
    kn_avro_program_free(program);
    check_nothing_lives();
}

static void test_a_column_is_full_before_the_record_that_is_too_much(void)
{
    struct kn_avro_program *program = load();
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, 7);
    struct kn_decode_problem problem;

    for (int i = 0; i < 3; i++)
        CHECK_EQ(kn_avro_decode(program, builder, RECORD, sizeof RECORD, &problem), KN_OK);
    CHECK_EQ(kn_avro_decode(program, builder, RECORD, sizeof RECORD, &problem), KN_ERR_FULL);
    CHECK_EQ(problem.instruction, 3);
    CHECK_EQ(builder->columns[1].length, 3);
    kn_builder_unref(builder);
    kn_avro_program_free(program);
    check_nothing_lives();
}

static int decode_once(const uint8_t *data, int64_t size_bytes, const char **text)
{
    struct kn_avro_program *program = load();
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, INT32_MAX);
    struct kn_decode_problem problem = {0, 0, ""};
    int status = kn_avro_decode(program, builder, data, size_bytes, &problem);
    *text = problem.text;
    kn_builder_unref(builder);
    kn_avro_program_free(program);
    check_nothing_lives();
    return status;
}

static void test_hostile_records_are_refused(void)
{
    static const struct {
        uint8_t data[20];
        int32_t size;
        int status;
        const char *text;
    } CASES[] = {
        {{255, 255, 255, 255, 255, 255, 255, 255, 255, 2}, 10, KN_ERR_INVALID, "too many bits"},
        {{2, 4}, 2, KN_ERR_INVALID, "no such branch"},
        {{2, 2, 1}, 3, KN_ERR_INVALID, "negative"},
        {{2, 2, 200, 1, 'a'}, 5, KN_ERR_TRUNCATED, "too early"},
        {{2, 2, 2, 0xff, 0}, 5, KN_ERR_INVALID, "UTF-8"},
        {{2, 0, 254, 255, 255, 255, 15, 0, 0}, 9, KN_ERR_TRUNCATED, "too early"},
        {{2, 0, 2, 4}, 4, KN_ERR_TRUNCATED, "too early"},
        {{2, 0, 2, 4, 0}, 5, KN_ERR_INVALID, "no such branch"},
        {{2, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 12, KN_ERR_INVALID, "too large"},
    };
    for (int32_t i = 0; i < COUNT(CASES); i++) {
        const char *text;
        CHECK_EQ(decode_once(CASES[i].data, CASES[i].size, &text), CASES[i].status);
        CHECK(strstr(text, CASES[i].text));
    }
}

/* A few bytes must not become a billion nulls. */
static void test_items_without_bytes_have_a_limit(void)
{
    static const struct kn_node nodes[] = {
        {.kind = KN_NODE_LIST, .child_count = 1, .format = "+l", .name = ""},
        {.kind = KN_NODE_NONE, .format = "n", .name = "item"},
    };
    static const struct kn_avro_op ops[] = {{KN_AVRO_ARRAY, 0, 3, 0, 0, 0, 0},
                                            {KN_AVRO_NONE, 1, 0, 0, 0, 0, 0},
                                            {KN_AVRO_NEXT, -1, 0, 0, 0, 0, 0},
                                            {KN_AVRO_DONE, -1, 0, 0, 0, 0, 0}};
    static const uint8_t billion[] = {128, 168, 214, 185, 7, 0}, many[] = {128, 128, 8, 0};
    struct kn_layout *layout;
    struct kn_avro_program *program;
    struct kn_decode_problem problem;
    int32_t bad;

    CHECK_EQ(kn_layout_new(nodes, 2, &layout), KN_OK);
    CHECK_EQ(kn_avro_program_new(layout, ops, 4, NULL, &program, &bad), KN_OK);
    struct kn_builder *builder = kn_builder_new(layout, NULL, INT32_MAX);
    CHECK_EQ(kn_avro_decode(program, builder, billion, sizeof billion, &problem), KN_ERR_TOO_LARGE);
    CHECK_EQ(kn_avro_decode(program, builder, many, sizeof many, &problem), KN_OK);
    CHECK_EQ(builder->columns[1].length, KN_AVRO_EMPTY_ITEMS_MAX);
    kn_builder_unref(builder);
    kn_avro_program_free(program);
    kn_layout_unref(layout);
    check_nothing_lives();
}

static void test_layouts_that_are_no_tree_are_refused(void)
{
    struct kn_node nodes[COUNT(NODES)];
    struct kn_layout *layout;
    for (int32_t count = 0; count < COUNT(NODES); count++)
        CHECK_EQ(kn_layout_new(NODES, count, &layout), KN_ERR_INVALID);
    for (int32_t i = 0; i < COUNT(NODES); i++) {
        memcpy(nodes, NODES, sizeof nodes);
        nodes[i].child_count += 1;
        CHECK_EQ(kn_layout_new(nodes, COUNT(nodes), &layout), KN_ERR_INVALID);
        memcpy(nodes, NODES, sizeof nodes);
        nodes[i].child_count -= 1;
        CHECK_EQ(kn_layout_new(nodes, COUNT(nodes), &layout), KN_ERR_INVALID);
        memcpy(nodes, NODES, sizeof nodes);
        nodes[i].kind = KN_NODE_KIND_COUNT;
        CHECK_EQ(kn_layout_new(nodes, COUNT(nodes), &layout), KN_ERR_INVALID);
    }
    check_nothing_lives();
}

/* Any other value of any field of an instruction is refused, except where it has no meaning. */
static void test_programs_that_would_write_elsewhere_are_refused(void)
{
    static const int32_t VALUES[] = {-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 99};
    struct kn_layout *layout;
    struct kn_avro_program *program;
    int32_t bad, refused = 0;

    CHECK_EQ(kn_layout_new(NODES, COUNT(NODES), &layout), KN_OK);
    for (int32_t i = 0; i < COUNT(OPS); i++) {
        for (int32_t k = 0; k < 5 * COUNT(VALUES); k++) {
            struct kn_avro_op ops[COUNT(OPS)];
            memcpy(ops, OPS, sizeof ops);
            int32_t *fields[] = {&ops[i].code, &ops[i].node, &ops[i].end, &ops[i].arg,
                                 &ops[i].count};
            *fields[k % 5] = VALUES[k / 5];
            int status = kn_avro_program_new(layout, ops, COUNT(ops), &DATA, &program, &bad);
            refused += status == KN_ERR_INVALID;
            if (status != KN_OK) continue;
            /* What is accepted decodes without touching other memory: ASan watches. */
            struct kn_builder *builder = kn_builder_new(layout, NULL, INT32_MAX);
            struct kn_decode_problem problem;
            for (int repeat = 0; repeat < 70; repeat++)
                (void)kn_avro_decode(program, builder, RECORD, sizeof RECORD, &problem);
            for (int32_t n = 1; n < 4; n++)
                CHECK_EQ(builder->columns[n].length, builder->columns[0].length);
            kn_builder_unref(builder);
            kn_avro_program_free(program);
        }
    }
    CHECK(refused > 400);
    kn_layout_unref(layout);
    check_nothing_lives();
}

/* A branch that fills another node than its union, which is filled already. */
static void test_a_body_must_fill_its_own_node(void)
{
    static const struct kn_node nodes[] = {
        {.kind = KN_NODE_STRUCT, .child_count = 2, .format = "+s", .name = ""},
        {.kind = KN_NODE_FIXED, .width_bytes = 8, .format = "l", .name = "a"},
        {.kind = KN_NODE_FIXED, .width_bytes = 8, .format = "l", .name = "b"},
    };
    struct kn_avro_op ops[] = {{KN_AVRO_RECORD, 0, 0, 0, 0, 0, 0},
                               {KN_AVRO_LONG, 1, 0, 0, 0, 0, 0},
                               {KN_AVRO_NULLABLE, 1, 4, 0, 0, 0, 0},
                               {KN_AVRO_LONG, 2, 0, 0, 0, 0, 0},
                               {KN_AVRO_DONE, -1, 0, 0, 0, 0, 0}};
    struct kn_layout *layout;
    struct kn_avro_program *program;
    int32_t bad;

    CHECK_EQ(kn_layout_new(nodes, 3, &layout), KN_OK);
    CHECK_EQ(kn_avro_program_new(layout, ops, 5, NULL, &program, &bad), KN_ERR_INVALID);
    ops[2].node = 2;
    CHECK_EQ(kn_avro_program_new(layout, ops, 5, NULL, &program, &bad), KN_OK);
    kn_avro_program_free(program);
    kn_layout_unref(layout);
    check_nothing_lives();
}

int main(void)
{
    RUN(test_records_become_columns_that_outlive_their_builder);
    RUN(test_a_failed_record_is_removed_from_every_column);
    RUN(test_a_removed_null_leaves_a_valid_row);
    RUN(test_a_column_is_full_before_the_record_that_is_too_much);
    RUN(test_hostile_records_are_refused);
    RUN(test_items_without_bytes_have_a_limit);
    RUN(test_layouts_that_are_no_tree_are_refused);
    RUN(test_programs_that_would_write_elsewhere_are_refused);
    RUN(test_a_body_must_fill_its_own_node);
    return check_done();
}
