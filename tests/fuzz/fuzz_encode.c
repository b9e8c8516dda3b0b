/* Columns of other libraries as records of any format (codecs/nested.c, codecs/record_encode.c): a type,
 * program or array that is refused, or records that fit together.
 *
 * Input: counts of nodes, instructions, table entries and constant bytes, one byte each; then these,
 * in the compact form of seeds.py; then the arrays, in preorder: length, offset, number of nulls,
 * and the content of each buffer. The target gives each buffer exactly the size that its array must
 * have, so ASan sees any access behind it. Offsets, indices and views are the input's. */
#include <string.h>

#include "fuzz.h"
#include "codecs/record_encode.h"

#define NODE_BYTES 4
#define OP_BYTES 5
#define COUNT_MAX 255
#define ITEMS_MAX 40   /* of an array, with its offset */
#define TEXT_BYTES 128 /* offsets and views point into so many bytes */
#define ROWS_MAX 8

struct source {
    struct kn_span span;
    const struct kn_nested_node *nodes;
    int32_t node_count;
    int32_t at;
    int32_t memory_count;
    void *memory[8 * COUNT_MAX];
};

static void *take_memory(struct source *source, size_t size_bytes)
{
    void *memory = calloc(1, size_bytes ? size_bytes : 1);
    FUZZ_CHECK(memory && source->memory_count < 8 * COUNT_MAX);
    return source->memory[source->memory_count++] = memory;
}

static uint8_t take_byte(struct source *source)
{
    const uint8_t *p = kn_span_take(&source->span, 1);
    return p ? *p : 0;
}

static void release(struct ArrowArray *array) { array->release = NULL; }

/* A buffer of numbers from signed bytes; `first` of them rise, so that more inputs get further. */
static void *take_numbers(struct source *source, int64_t count, int64_t width, bool is_rising)
{
    uint8_t *memory = take_memory(source, (size_t)(count * width));
    int64_t last = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t value = (int8_t)take_byte(source);
        if (is_rising) value = last = value < 0 ? value : (last + value) % TEXT_BYTES;
        memcpy(memory + i * width, &value, (size_t)width); /* little-endian */
    }
    return memory;
}

static void *take_bytes(struct source *source, size_t size_bytes)
{
    uint8_t *memory = take_memory(source, size_bytes);
    for (size_t i = 0; i < size_bytes; i++) memory[i] = take_byte(source);
    return memory;
}

/* Views: sizes, buffers and starts are single bytes of the input. */
static void take_views(struct source *source, int64_t count, const void **buffers)
{
    int32_t *views = take_memory(source, (size_t)count * 16);
    int64_t *sizes = take_memory(source, 8);
    for (int64_t i = 0; i < count; i++) {
        views[4 * i] = (int8_t)take_byte(source);
        views[4 * i + 2] = (int8_t)take_byte(source);
        views[4 * i + 3] = (int8_t)take_byte(source);
    }
    sizes[0] = TEXT_BYTES;
    buffers[1] = views;
    buffers[2] = take_bytes(source, TEXT_BYTES);
    buffers[3] = sizes;
}

static void take_buffers(struct source *source, const struct kn_nested_node *node, int64_t count,
                         struct ArrowArray *array)
{
    const void **buffers = take_memory(source, 4 * sizeof *buffers);
    bool is_wide = node->kind == KN_NESTED_BYTES64 || node->kind == KN_NESTED_LIST64;
    array->buffers = buffers;
    if (array->null_count) buffers[0] = take_bytes(source, (size_t)(count + 7) / 8);
    switch (node->kind) {
    case KN_NESTED_BITS: buffers[1] = take_bytes(source, (size_t)(count + 7) / 8); break;
    case KN_NESTED_FIXED:
        buffers[1] = take_bytes(source, (size_t)(count * (node->width & 255)));
        break;
    case KN_NESTED_BYTES32:
    case KN_NESTED_BYTES64: buffers[2] = take_bytes(source, TEXT_BYTES); /* fall through */
    case KN_NESTED_LIST32:
    case KN_NESTED_LIST64: buffers[1] = take_numbers(source, count + 1, is_wide ? 8 : 4, 1); break;
    case KN_NESTED_VIEWS: take_views(source, count, buffers); break;
    case KN_NESTED_DENSE_UNION: buffers[1] = take_numbers(source, count, 4, 0); /* fall through */
    case KN_NESTED_SPARSE_UNION: buffers[0] = take_bytes(source, (size_t)count); break;
    case KN_NESTED_DICTIONARY: buffers[1] = take_numbers(source, count, node->width, 0); break;
    default: break;
    }
}

static struct ArrowArray *take_array(struct source *source)
{
    static const int8_t BUFFERS[KN_NESTED_KIND_COUNT] = {
        [KN_NESTED_BITS] = 2,        [KN_NESTED_FIXED] = 2,        [KN_NESTED_BYTES32] = 3,
        [KN_NESTED_BYTES64] = 3,     [KN_NESTED_VIEWS] = 4,        [KN_NESTED_LIST32] = 2,
        [KN_NESTED_LIST64] = 2,      [KN_NESTED_FIXED_LIST] = 1,   [KN_NESTED_STRUCT] = 1,
        [KN_NESTED_DENSE_UNION] = 2, [KN_NESTED_SPARSE_UNION] = 1, [KN_NESTED_DICTIONARY] = 2};
    const struct kn_nested_node *node = &source->nodes[source->at++];
    struct ArrowArray *array = take_memory(source, sizeof *array);
    array->length = take_byte(source) % ITEMS_MAX;
    array->offset = take_byte(source) % 4;
    array->null_count = (int8_t)take_byte(source);
    array->n_buffers = BUFFERS[node->kind];
    array->release = release;
    int64_t count = array->length + array->offset;
    if (array->null_count < -1) array->null_count = 0;
    take_buffers(source, node, count, array);
    bool is_dictionary = node->kind == KN_NESTED_DICTIONARY;
    if (is_dictionary) {
        array->dictionary = take_array(source);
        return array;
    }
    array->n_children = node->child_count;
    array->children = take_memory(source, (size_t)node->child_count * sizeof *array->children);
    for (int32_t i = 0; i < node->child_count; i++) array->children[i] = take_array(source);
    return array;
}

static void encode(const struct kn_encode_program *program, struct source *source)
{
    struct kn_nested_column *columns = take_memory(source, (size_t)program->type->node_count *
                                                               sizeof *columns);
    struct kn_nested nested = {.type = program->type, .columns = columns};
    struct kn_arrow_problem problem;
    struct kn_encode_problem encode_problem;
    struct kn_encoder encoder = kn_record_encoder(program);
    struct ArrowArray *array = take_array(source);
    int64_t skip = take_byte(source) % 3, row = 0;
    int64_t count = array->length - skip < ROWS_MAX ? array->length - skip : ROWS_MAX;
    int64_t bytes_max = take_byte(source) & 1 ? 200 : (int64_t)FUZZ_CAP_BYTES;

    if (count < 0 || kn_nested_bind(&nested, array, skip, count, &problem) != KN_OK) return;
    struct kn_builder *builder = kn_records_builder_new(bytes_max);
    FUZZ_CHECK(builder);
    int status = kn_encode_rows(&encoder, &nested, (const uint8_t *)"prefix", 6, &row, count,
                                builder, &encode_problem);
    const struct kn_built *records = &builder->columns[0];
    FUZZ_CHECK(row == records->length && (status == KN_OK) == (row == count));
    FUZZ_CHECK(records->bytes_used <= bytes_max);
    FUZZ_CHECK(status == KN_OK || status == KN_ERR_INVALID || status == KN_ERR_FULL ||
               status == KN_ERR_TOO_LARGE);
    if (row) FUZZ_CHECK(kn_built_offsets(records)[row] == records->bytes_used);
    if (records->bytes) fuzz_touch(records->bytes, records->bytes_used);
    kn_builder_unref(builder);
}

static struct kn_nested_type *take_type(struct kn_span *span, int32_t count)
{
    struct kn_nested_node nodes[COUNT_MAX];
    struct kn_nested_type *type = NULL;
    for (int32_t i = 0; i < count; i++) {
        const uint8_t *p = kn_span_take(span, NODE_BYTES);
        if (!p) return NULL;
        nodes[i] = (struct kn_nested_node){.kind = (enum kn_nested_kind)p[0],
                                           .width = p[1],
                                           .is_signed = p[2],
                                           .child_count = p[3]};
    }
    int status = kn_nested_type_new(nodes, count, &type);
    FUZZ_CHECK((status == KN_OK) == (type != NULL));
    return type;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct kn_span span = kn_span_of(data, size_bytes);
    struct kn_encode_op ops[COUNT_MAX];
    int32_t table[COUNT_MAX], bad;
    struct kn_encode_program *program;
    const uint8_t *counts = kn_span_take(&span, 4);

    if (!counts) return 0;
    struct kn_nested_type *type = take_type(&span, counts[0]);
    if (!type) return 0;
    for (int32_t i = 0; i < counts[1]; i++) {
        const uint8_t *p = kn_span_take(&span, OP_BYTES);
        ops[i] = (struct kn_encode_op){0};
        if (!p) break;
        ops[i] = (struct kn_encode_op){p[0], (int8_t)p[1], p[2], p[3], p[4], 0};
    }
    for (int32_t i = 0; i < counts[2]; i++) {
        const uint8_t *p = kn_span_take(&span, 1);
        table[i] = p ? (int8_t)*p : 0;
    }
    const uint8_t *constants = kn_span_take(&span, counts[3]);
    if (!span.failed) {
        struct kn_program_data parts = {table, counts[2], counts[3], constants};
        int status = kn_encode_program_new(type, ops, counts[1], &parts, &program, &bad);
        FUZZ_CHECK(status == KN_OK || status == KN_ERR_INVALID);
        if (status == KN_OK) {
            struct source source = {.span = span, .nodes = type->nodes};
            encode(program, &source);
            while (source.memory_count) free(source.memory[--source.memory_count]);
            kn_encode_program_free(program);
        }
    }
    kn_nested_type_unref(type);
    FUZZ_CHECK(kn_builder_live() == 0 && kn_nested_type_live() == 0);
    return 0;
}
