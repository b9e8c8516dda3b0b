/* Nested foreign columns and programs that encode them: values, hostile arrays, refused programs, no memory. */
#include "check.h"

#include <stdlib.h>

#include "failing_alloc.h"
#include "../../csrc/base/buffer.c"
#include "../../csrc/codecs/nested.c"
#include "../../csrc/codecs/encode_program.c"
#undef malloc
#undef calloc
#undef realloc

#include "codecs/record_encode.h"

#define COUNT(array) ((int32_t)(sizeof(array) / sizeof(array)[0]))
#define OP(code) KN_ENCODE_##code

/* struct { id: int64, tags: list<dictionary<string>>, u: dense_union<bool, binary_view> } */
static const struct kn_nested_node NODES[] = {
    {.kind = KN_NESTED_STRUCT, .child_count = 3},
    {.kind = KN_NESTED_FIXED, .width = 8},
    {.kind = KN_NESTED_LIST32, .child_count = 1},
    {.kind = KN_NESTED_DICTIONARY, .width = 1, .is_signed = 1, .child_count = 1},
    {.kind = KN_NESTED_BYTES32},
    {.kind = KN_NESTED_DENSE_UNION, .child_count = 2},
    {.kind = KN_NESTED_BITS},
    {.kind = KN_NESTED_VIEWS},
};
static const struct kn_encode_op OPS[] = {
    {OP(RECORD), 0, 0, 0, 0, 0},  {OP(NULLABLE), 1, 4, 0, 1, 0},  {OP(CONSTANT), -1, 0, 1, 1, 0},
    {OP(LONG), 1, 0, 1, 64, 0},   {OP(ARRAY), 2, 9, 0, 0, 0},     {OP(DICTIONARY), 3, 8, 0, 0, 0},
    {OP(TEXT), 4, 0, 0, 0, 0},    {OP(LEAVE), -1, 8, 0, 0, 0},    {OP(NEXT), -1, 0, 4, 0, 0},
    {OP(UNION), 5, 15, 0, 2, 0},  {OP(CONSTANT), -1, 0, 0, 1, 0}, {OP(BOOLEAN), 6, 0, 0, 0, 0},
    {OP(LEAVE), -1, 15, 0, 0, 0}, {OP(BYTES), 7, 0, 0, 0, 0},     {OP(LEAVE), -1, 15, 0, 0, 0},
    {OP(DONE), -1, 0, 0, 0, 0},
};
/* the same columns as parts of a Protobuf message */
static const struct kn_encode_op PROTOBUF_OPS[] = {
    {OP(RECORD), 0, 0, 0, 0, 0},       {OP(NULLABLE), 1, 6, 0, 0, 0},
    {OP(UNLESS_EMPTY), 1, 6, 0, 0, 0}, {OP(CONSTANT), -1, 0, 2, 1, 0},
    {OP(VARINT), 1, 0, 3, 64, 0},      {OP(TIMESTAMP), 1, 0, 1000, 0, 0},
    {OP(DELIMITED), -1, 13, 0, 0, 0},  {OP(REPEATED), 2, 12, 0, 0, 0},
    {OP(DICTIONARY), 3, 11, 0, 0, 0},  {OP(TEXT), 4, 0, 1, 0, 0},
    {OP(LEAVE), -1, 11, 0, 0, 0},      {OP(NEXT), -1, 0, 7, 0, 0},
    {OP(CLOSE), -1, 0, 0, 0, 0},       {OP(ONE_OF), -1, 0, 4, 2, 0},
    {OP(CONSTANT), -1, 0, 0, 0, 0},    {OP(DONE), -1, 0, 0, 0, 0},
};
/* the same columns as JSON values */
static const struct kn_encode_op JSON_OPS[] = {
    {OP(RECORD), 0, 0, 0, 0, 0},         {OP(NULLABLE), 1, 6, 0, 0, 0},
    {OP(JSON_INTEGER), 1, 0, 3, 64, 0},  {OP(CONSTANT), -1, 0, 3, 1, 0},
    {OP(JSON_TIMESTAMP), 1, 0, 0, 1, 0}, {OP(CONSTANT), -1, 0, 3, 1, 0},
    {OP(REPEATED), 2, 12, 0, 0, 0},      {OP(DICTIONARY), 3, 10, 0, 0, 0},
    {OP(JSON_TEXT), 4, 0, 0, 0, 0},      {OP(LEAVE), -1, 10, 0, 0, 0},
    {OP(CONSTANT), -1, 0, 3, 1, 0},      {OP(NEXT), -1, 0, 6, 0, 0},
    {OP(JSON_END), -1, 0, ']', 0, 0},    {OP(CONSTANT), -1, 0, 0, 0, 0},
    {OP(CONSTANT), -1, 0, 0, 0, 0},      {OP(DONE), -1, 0, 0, 0, 0},
};
/* the struct as a union of the types of id and tags, or null */
static const struct kn_encode_op CHOICE_OPS[] = {
    {OP(CHOICE), 0, 15, 6, 3, 0},    {OP(CONSTANT), -1, 0, 1, 1, 0}, {OP(LONG), 1, 0, 1, 64, 0},
    {OP(LEAVE), -1, 15, 0, 0, 0},    {OP(CONSTANT), -1, 0, 2, 1, 0}, {OP(ARRAY), 2, 10, 0, 0, 0},
    {OP(DICTIONARY), 3, 9, 0, 0, 0}, {OP(TEXT), 4, 0, 0, 0, 0},      {OP(LEAVE), -1, 9, 0, 0, 0},
    {OP(NEXT), -1, 0, 5, 0, 0},      {OP(LEAVE), -1, 15, 0, 0, 0},   {OP(CONSTANT), -1, 0, 0, 1, 0},
    {OP(LEAVE), -1, 15, 0, 0, 0},    {OP(CONSTANT), -1, 0, 0, 0, 0}, {OP(CONSTANT), -1, 0, 0, 0, 0},
    {OP(DONE), -1, 0, 0, 0, 0},
};
_Static_assert(sizeof PROTOBUF_OPS == sizeof OPS, "one loop serves all");
_Static_assert(sizeof CHOICE_OPS == sizeof OPS, "one loop serves all");
_Static_assert(sizeof JSON_OPS == sizeof OPS, "one loop serves all");
static const int32_t TABLE[] = {10, 6, 13, 7, 1, 2, 1, 1, 4, 2, 11, 0};
static const uint8_t CONSTANTS[] = {0, 2, 8, ','};

/* two rows: {7, ["ab", ""], true} and {null, [], "x"} */
struct rows {
    int64_t ids[2];
    uint8_t valid[1];
    int32_t offsets[3];
    int8_t indices[2];
    int32_t text_offsets[3];
    char text[2];
    int8_t types[2];
    int32_t places[2];
    uint8_t bits[1];
    uint8_t views[16];
    int64_t sizes[1];
    const void *buffers[8][3];
    struct ArrowArray arrays[8];
    struct ArrowArray *children[5];
};

static void release(struct ArrowArray *array) { array->release = NULL; }

static void set(struct rows *rows, int node, int64_t length, int64_t count, const void *first,
                const void *second)
{
    rows->buffers[node][0] = NULL;
    rows->buffers[node][1] = first;
    rows->buffers[node][2] = second;
    rows->arrays[node] = (struct ArrowArray){
        .length = length, .n_buffers = count, .buffers = rows->buffers[node], .release = release};
}

static void fill(struct rows *rows)
{
    *rows = (struct rows){.ids = {7, 8},
                          .valid = {1},
                          .offsets = {0, 2, 2},
                          .indices = {1, 0},
                          .text_offsets = {0, 0, 2},
                          .text = {'a', 'b'},
                          .types = {0, 1},
                          .places = {0, 0},
                          .bits = {1},
                          .views = {1, 0, 0, 0, 'x'}};
    set(rows, 0, 2, 1, NULL, NULL);
    set(rows, 1, 2, 2, rows->ids, NULL);
    rows->buffers[1][0] = rows->valid;
    rows->arrays[1].null_count = 1;
    set(rows, 2, 2, 2, rows->offsets, NULL);
    set(rows, 3, 2, 2, rows->indices, NULL);
    set(rows, 4, 2, 3, rows->text_offsets, rows->text);
    set(rows, 5, 2, 2, rows->places, NULL);
    rows->buffers[5][0] = rows->types;
    set(rows, 6, 1, 2, rows->bits, NULL);
    set(rows, 7, 1, 3, rows->views, rows->sizes);
    struct ArrowArray *children[] = {&rows->arrays[1], &rows->arrays[2], &rows->arrays[5],
                                     &rows->arrays[6], &rows->arrays[7]};
    memcpy(rows->children, children, sizeof children);
    static struct ArrowArray *list[1];
    list[0] = &rows->arrays[3];
    rows->arrays[0].children = rows->children;
    rows->arrays[0].n_children = 3;
    rows->arrays[2].children = list;
    rows->arrays[2].n_children = 1;
    rows->arrays[3].dictionary = &rows->arrays[4];
    rows->arrays[5].children = rows->children + 3;
    rows->arrays[5].n_children = 2;
}

static struct kn_nested_type *make_type(void)
{
    struct kn_nested_type *type;
    CHECK_EQ(kn_nested_type_new(NODES, COUNT(NODES), &type), KN_OK);
    return type;
}

static int load(struct kn_nested_type *type, const struct kn_encode_op *ops,
                struct kn_encode_program **program)
{
    static const struct kn_program_data DATA = {TABLE, COUNT(TABLE), COUNT(CONSTANTS), CONSTANTS};
    int32_t bad;
    return kn_encode_program_new(type, ops, COUNT(OPS), &DATA, program, &bad);
}

static void check_nothing_lives(void)
{
    CHECK_EQ(kn_nested_type_live(), 0);
    CHECK_EQ(kn_layout_live(), 0);
    CHECK_EQ(kn_builder_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

/* Encodes the rows [first, first + count). Returns the status; *builder has the records. */
static int encode_rows(const struct kn_encode_program *program, struct rows *rows, int64_t first,
                       int64_t count, int64_t bytes_max, struct kn_builder **builder)
{
    struct kn_nested_column columns[COUNT(NODES)];
    struct kn_nested nested = {.type = program->type, .columns = columns};
    struct kn_arrow_problem problem;
    struct kn_encode_problem encode_problem;
    struct kn_encoder encoder = kn_record_encoder(program);
    int64_t row = 0;
    *builder = NULL;
    int status = kn_nested_bind(&nested, &rows->arrays[0], first, count, &problem);
    if (status != KN_OK) return status;
    *builder = kn_records_builder_new(bytes_max);
    if (!*builder) return KN_ERR_NOMEM;
    return kn_encode_rows(&encoder, &nested, (const uint8_t *)"P", 1, &row, count, *builder,
                          &encode_problem);
}

static const uint8_t RECORDS[] = {'P', 2, 14, 4, 4, 'a', 'b', 0, 0, 0, 1, 'P', 0, 0, 2, 'x'};

static void test_rows_become_records(void)
{
    struct kn_nested_type *type = make_type();
    struct kn_encode_program *program;
    struct kn_builder *builder;
    struct rows rows;
    CHECK_EQ(load(type, OPS, &program), KN_OK);
    fill(&rows);
    CHECK_EQ(encode_rows(program, &rows, 0, 2, INT32_MAX, &builder), KN_OK);
    CHECK_EQ(builder->columns[0].length, 2);
    CHECK_EQ(builder->columns[0].bytes_used, sizeof RECORDS);
    CHECK_MEM(builder->columns[0].bytes, RECORDS, sizeof RECORDS);
    kn_builder_unref(builder);
    /* the same rows through an offset of the struct */
    rows.arrays[0].offset = 1;
    rows.arrays[0].length = 1;
    CHECK_EQ(encode_rows(program, &rows, 0, 1, INT32_MAX, &builder), KN_OK);
    CHECK_EQ(builder->columns[0].bytes_used, 5);
    CHECK_MEM(builder->columns[0].bytes, RECORDS + 11, 5);
    kn_builder_unref(builder);
    kn_encode_program_free(program);
    kn_nested_type_unref(type);
    check_nothing_lives();
}

static void test_rows_become_messages(void)
{
    static const uint8_t messages[] = {'P', 8, 7, 5,   0x10, 0xc0, 0x9f, 0xab,
                                       3,   4, 2, 'a', 'b',  0,    'P',  0};
    struct kn_nested_type *type = make_type();
    struct kn_encode_program *program;
    struct kn_builder *builder;
    struct rows rows;
    CHECK_EQ(load(type, PROTOBUF_OPS, &program), KN_OK);
    fill(&rows);
    CHECK_EQ(encode_rows(program, &rows, 0, 2, INT32_MAX, &builder), KN_ERR_INVALID); /* ONE_OF */
    kn_builder_unref(builder);
    kn_encode_program_free(program);
    struct kn_encode_op ops[COUNT(OPS)];
    memcpy(ops, PROTOBUF_OPS, sizeof ops);
    ops[13].count = 1;
    CHECK_EQ(load(type, ops, &program), KN_OK);
    CHECK_EQ(encode_rows(program, &rows, 0, 2, INT32_MAX, &builder), KN_OK);
    CHECK_EQ(builder->columns[0].bytes_used, sizeof messages);
    CHECK_MEM(builder->columns[0].bytes, messages, sizeof messages);
    kn_builder_unref(builder);
    kn_encode_program_free(program);
    kn_nested_type_unref(type);
    check_nothing_lives();
}

/* The record of the only child that isn't null; none and two of them. */
static void test_a_choice_writes_one_child(void)
{
    static const uint8_t records[] = {'P', 2, 14, 'P', 8, 4, 4, 'a', 'b', 0, 0, 'P', 0};
    struct kn_nested_type *type = make_type();
    struct kn_encode_program *program;
    struct kn_builder *builder;
    struct rows rows;
    static const uint8_t first = 1, second = 2;
    CHECK_EQ(load(type, CHOICE_OPS, &program), KN_OK);
    for (int i = 0; i < 3; i++) {
        static const int64_t starts[] = {0, 3, 11};
        int64_t size = (i == 2 ? (int64_t)sizeof records : starts[i + 1]) - starts[i];
        fill(&rows);
        rows.valid[0] = i == 0 ? first : second;
        rows.buffers[2][0] = i == 1 ? &first : &second;
        rows.arrays[2].null_count = 1;
        CHECK_EQ(encode_rows(program, &rows, 0, 1, INT32_MAX, &builder), KN_OK);
        CHECK_EQ(builder->columns[0].bytes_used, size);
        CHECK_MEM(builder->columns[0].bytes, records + starts[i], (size_t)size);
        kn_builder_unref(builder);
    }
    fill(&rows);
    CHECK_EQ(encode_rows(program, &rows, 0, 1, INT32_MAX, &builder), KN_ERR_INVALID);
    kn_builder_unref(builder);
    kn_encode_program_free(program);
    kn_nested_type_unref(type);
    check_nothing_lives();
}

static void test_rows_become_json(void)
{
    static const char TEXTS[] = "P7,\"1970-01-01T00:00:07Z\",\"ab\",\"\"]P]";
    struct kn_nested_type *type = make_type();
    struct kn_encode_program *program;
    struct kn_builder *builder;
    struct rows rows;
    CHECK_EQ(load(type, JSON_OPS, &program), KN_OK);
    fill(&rows);
    CHECK_EQ(encode_rows(program, &rows, 0, 2, INT32_MAX, &builder), KN_OK);
    CHECK_EQ(builder->columns[0].bytes_used, sizeof TEXTS - 1);
    CHECK_MEM(builder->columns[0].bytes, TEXTS, sizeof TEXTS - 1);
    kn_builder_unref(builder);
    rows.ids[0] = INT64_MAX; /* no year of a date */
    CHECK_EQ(encode_rows(program, &rows, 0, 2, INT32_MAX, &builder), KN_ERR_INVALID);
    CHECK_EQ(builder->columns[0].length, 0);
    kn_builder_unref(builder);
    kn_encode_program_free(program);
    kn_nested_type_unref(type);
    check_nothing_lives();
}

/* The records end where the column is full. A record that fits no column is too large. */
static void test_a_full_column_keeps_the_records_before(void)
{
    struct kn_nested_type *type = make_type();
    struct kn_encode_program *program;
    struct kn_builder *builder;
    struct rows rows;
    CHECK_EQ(load(type, OPS, &program), KN_OK);
    for (int64_t bytes_max = 0; bytes_max < 40; bytes_max++) {
        fill(&rows);
        int status = encode_rows(program, &rows, 0, 2, bytes_max, &builder);
        int64_t used = builder->columns[0].bytes_used;
        CHECK(used <= bytes_max);
        CHECK_EQ(used, builder->columns[0].length == 2   ? 16
                       : builder->columns[0].length == 1 ? 11
                                                         : 0);
        CHECK_EQ(status, builder->columns[0].length == 2   ? KN_OK
                         : builder->columns[0].length == 1 ? KN_ERR_FULL
                                                           : KN_ERR_TOO_LARGE);
        CHECK_MEM(builder->columns[0].bytes ? builder->columns[0].bytes : RECORDS, RECORDS,
                  (size_t)used);
        kn_builder_unref(builder);
    }
    CHECK_EQ(encode_rows(program, &rows, 0, 2, 40, &builder), KN_OK);
    kn_builder_unref(builder);
    kn_encode_program_free(program);
    kn_nested_type_unref(type);
    check_nothing_lives();
}

static void test_hostile_arrays_are_refused(void)
{
    struct kn_nested_type *type = make_type();
    struct kn_encode_program *program;
    struct kn_builder *builder;
    struct rows rows;
    CHECK_EQ(load(type, OPS, &program), KN_OK);
    for (int attack = 0; attack < 26; attack++) {
        fill(&rows);
        switch (attack) {
        case 0: rows.offsets[1] = 3; break;
        case 1: rows.offsets[0] = -1; break;
        case 2: rows.offsets[2] = 3; break;
        case 3: rows.offsets[1] = INT32_MAX; break;
        case 4: rows.indices[0] = 2; break;
        case 5: rows.indices[0] = -1; break;
        case 6: rows.text_offsets[2] = -1; break;
        case 7: rows.text_offsets[0] = 1; break;
        case 8: rows.types[0] = 2; break;
        case 9: rows.types[0] = -1; break;
        case 10: rows.places[0] = 1; break;
        case 11: rows.places[1] = -1; break;
        case 12: rows.views[0] = 200; break;
        case 13: rows.views[3] = 0x80; break;
        case 14: rows.arrays[1].length = 1; break;
        case 15:
            rows.arrays[1].offset = 1 << 30;
            rows.arrays[1].length = -1;
            break;
        case 16: rows.arrays[2].buffers = NULL; break;
        case 17: rows.arrays[2].n_children = 0; break;
        case 18: rows.arrays[3].dictionary = NULL; break;
        case 19: rows.arrays[4].release = NULL; break;
        case 20: rows.buffers[5][0] = NULL; break;
        case 21: rows.children[2] = NULL; break;
        case 22: rows.arrays[5].children = NULL; break;
        case 23: rows.arrays[0].n_children = 2; break;
        case 24: rows.arrays[7].n_buffers = 2; break;
        default: rows.text[0] = '\xff'; /* not UTF-8 */
        }
        CHECK_EQ(encode_rows(program, &rows, 0, 2, INT32_MAX, &builder), KN_ERR_INVALID);
        if (builder) CHECK(builder->columns[0].length < 2);
        kn_builder_unref(builder);
    }
    fill(&rows);
    CHECK_EQ(encode_rows(program, &rows, 1, INT64_MAX, INT32_MAX, &builder), KN_ERR_INVALID);
    CHECK_EQ(encode_rows(program, &rows, 0, 3, INT32_MAX, &builder), KN_ERR_INVALID);
    kn_encode_program_free(program);
    kn_nested_type_unref(type);
    check_nothing_lives();
}

/* The child of a fixed-size list would need more than 2^63 items. UBSan watches. */
static void test_a_list_with_too_many_items_is_refused(void)
{
    static const struct kn_nested_node nodes[] = {
        {.kind = KN_NESTED_FIXED_LIST, .width = KN_NESTED_WIDTH_MAX, .child_count = 1},
        {.kind = KN_NESTED_NONE},
    };
    struct ArrowArray item = {.release = release}, *children[] = {&item};
    const void *buffers[] = {NULL};
    struct ArrowArray list = {.length = 1,
                              .offset = (int64_t)1 << 44,
                              .n_buffers = 1,
                              .n_children = 1,
                              .buffers = buffers,
                              .children = children,
                              .release = release};
    struct kn_nested_column columns[COUNT(nodes)];
    struct kn_arrow_problem problem;
    struct kn_nested_type *type;
    CHECK_EQ(kn_nested_type_new(nodes, COUNT(nodes), &type), KN_OK);
    struct kn_nested nested = {.type = type, .columns = columns};
    CHECK_EQ(kn_nested_bind(&nested, &list, 0, 1, &problem), KN_ERR_INVALID);
    CHECK(!strcmp(problem.text, "an impossible length or offset"));
    list.offset = 0;
    item.length = KN_NESTED_WIDTH_MAX;
    CHECK_EQ(kn_nested_bind(&nested, &list, 0, 1, &problem), KN_OK);
    kn_nested_type_unref(type);
    check_nothing_lives();
}

/* Any other value of any field is refused, or harmless: ASan watches. */
static int32_t refused_changes(const struct kn_encode_op *wanted)
{
    static const int32_t VALUES[] = {-2, -1, 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                     12, 13, 14, 15, 16, 17, 20, 22, 23, 24, 25, 26, 27, 28,
                                     29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42,
                                     43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 99};
    struct kn_nested_type *type = make_type();
    int32_t refused = 0;
    for (int32_t i = 0; i < COUNT(OPS); i++) {
        for (int32_t k = 0; k < 5 * COUNT(VALUES); k++) {
            struct kn_encode_op ops[COUNT(OPS)];
            struct kn_encode_program *program;
            struct kn_builder *builder;
            struct rows rows;
            memcpy(ops, wanted, sizeof ops);
            int32_t *fields[] = {&ops[i].code, &ops[i].node, &ops[i].end, &ops[i].arg,
                                 &ops[i].count};
            *fields[k % 5] = VALUES[k / 5];
            int status = load(type, ops, &program);
            refused += status == KN_ERR_INVALID;
            if (status != KN_OK) continue;
            fill(&rows);
            (void)encode_rows(program, &rows, 0, 2, INT32_MAX, &builder);
            kn_builder_unref(builder);
            kn_encode_program_free(program);
        }
    }
    kn_nested_type_unref(type);
    check_nothing_lives();
    return refused;
}

static void test_programs_that_would_read_elsewhere_are_refused(void)
{
    CHECK(refused_changes(OPS) > 700);
    CHECK(refused_changes(PROTOBUF_OPS) > 600);
    CHECK(refused_changes(CHOICE_OPS) > 600);
    CHECK(refused_changes(JSON_OPS) > 600);
}

static void test_types_that_are_no_tree_are_refused(void)
{
    struct kn_nested_type *type;
    struct kn_nested_node nodes[COUNT(NODES)];
    CHECK_EQ(kn_nested_type_new(NODES, 0, &type), KN_ERR_INVALID);
    CHECK_EQ(kn_nested_type_new(NODES, COUNT(NODES) - 1, &type), KN_ERR_INVALID);
    for (int32_t i = 0; i < COUNT(NODES); i++) {
        memcpy(nodes, NODES, sizeof nodes);
        nodes[i].child_count += 1;
        CHECK_EQ(kn_nested_type_new(nodes, COUNT(nodes), &type), KN_ERR_INVALID);
    }
    memcpy(nodes, NODES, sizeof nodes);
    nodes[3].width = 3; /* indices */
    CHECK_EQ(kn_nested_type_new(nodes, COUNT(nodes), &type), KN_ERR_INVALID);
    struct kn_nested_node deep[KN_NESTED_DEPTH_MAX + 1];
    for (int32_t i = 0; i < COUNT(deep); i++)
        deep[i] = (struct kn_nested_node){.kind = KN_NESTED_LIST32, .child_count = 1};
    deep[COUNT(deep) - 1] = (struct kn_nested_node){.kind = KN_NESTED_NONE};
    CHECK_EQ(kn_nested_type_new(deep, COUNT(deep), &type), KN_ERR_INVALID);
    CHECK_EQ(kn_nested_type_new(deep + 1, COUNT(deep) - 1, &type), KN_OK);
    kn_nested_type_unref(type);
    check_nothing_lives();
}

static int whole_way(void)
{
    struct kn_nested_type *type;
    struct kn_encode_program *program = NULL;
    struct kn_builder *builder = NULL;
    struct rows rows;
    fill(&rows);
    int status = kn_nested_type_new(NODES, COUNT(NODES), &type);
    if (status == KN_OK) status = load(type, OPS, &program);
    if (status == KN_OK) status = encode_rows(program, &rows, 0, 2, INT32_MAX, &builder);
    kn_builder_unref(builder);
    kn_encode_program_free(program);
    kn_nested_type_unref(type);
    return status;
}

static void test_each_failed_allocation_is_reported_and_leaks_nothing(void)
{
    long fail_at = 0;
    for (failed = 1; failed; fail_at++) {
        failed = 0;
        allocations_left = fail_at;
        int status = whole_way();
        allocations_left = -1;
        CHECK_EQ(status, failed ? KN_ERR_NOMEM : KN_OK);
        check_nothing_lives();
    }
    CHECK(fail_at > 5); /* there were allocations to fail */
}

int main(void)
{
    RUN(test_rows_become_records);
    RUN(test_rows_become_messages);
    RUN(test_a_choice_writes_one_child);
    RUN(test_rows_become_json);
    RUN(test_a_full_column_keeps_the_records_before);
    RUN(test_hostile_arrays_are_refused);
    RUN(test_a_list_with_too_many_items_is_refused);
    RUN(test_programs_that_would_read_elsewhere_are_refused);
    RUN(test_types_that_are_no_tree_are_refused);
    RUN(test_each_failed_allocation_is_reported_and_leaks_nothing);
    return check_done();
}
