/* Avro programs and records: a program that is refused, or columns whose parts fit together.
 *
 * Input: counts of nodes, instructions, table entries and constant bytes, one byte each; then these,
 * in the compact form of seeds.py; then the record. It is decoded whole, then cut off. */
#include <string.h>

#include "fuzz.h"
#include "fuzz_columns.h"
#include "codecs/avro_decode.h"

#define NODE_BYTES 6
#define OP_BYTES 7

static uint32_t take_u16(struct kn_span *span)
{
    const uint8_t *p = kn_span_take(span, 2);
    return p ? p[0] | (uint32_t)p[1] << 8 : 0;
}

static struct kn_layout *take_layout(struct kn_span *span, int32_t count)
{
    static const int32_t offsets[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    struct kn_node nodes[256];
    struct kn_layout *layout = NULL;
    for (int32_t i = 0; i < count; i++) {
        const uint8_t *p = kn_span_take(span, NODE_BYTES);
        if (!p) return NULL;
        nodes[i] = (struct kn_node){.kind = (enum kn_node_kind)p[0],
                                    .width_bytes = p[1] | p[2] << 8,
                                    .child_count = p[3],
                                    .format = "z",
                                    .name = "n",
                                    .flags = p[4],
                                    .value_count = p[5] & 7,
                                    .value_offsets = offsets,
                                    .value_bytes = (const uint8_t *)"abcdefgh"};
    }
    int status = kn_layout_new(nodes, count, &layout);
    FUZZ_CHECK((status == KN_OK) == (layout != NULL));
    return layout;
}

static void decode(const struct kn_avro_program *program, struct kn_span record)
{
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, FUZZ_CAP_BYTES);
    struct kn_decode_problem problem;
    int64_t rows = 0, size = (int64_t)kn_span_left(&record);
    FUZZ_CHECK(builder);
    for (int64_t cut = 0; cut <= size && cut < 8; cut++) {
        int status = kn_avro_decode(program, builder, record.at, size - cut, &problem);
        if (status == KN_OK) {
            rows++;
        } else {
            FUZZ_CHECK(problem.text && problem.position >= 0 && problem.position <= size);
            FUZZ_CHECK(problem.instruction >= 0 && problem.instruction < program->op_count);
        }
        fuzz_check_column(builder, 0, rows);
    }
    if (kn_builder_reserve(builder, 0, 1) == KN_OK) {
        kn_builder_append_null(builder, 0);
        fuzz_check_column(builder, 0, ++rows);
    }
    struct ArrowArray array;
    FUZZ_CHECK(kn_builder_export(builder, &array) == KN_OK);
    FUZZ_CHECK(array.length == rows);
    kn_arrow_release_array(&array);
    kn_builder_truncate(builder, rows / 2);
    fuzz_check_column(builder, 0, rows / 2);
    kn_builder_unref(builder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct kn_span span = kn_span_of(data, size_bytes);
    struct kn_avro_op ops[256];
    int32_t table[256], bad;
    struct kn_avro_program *program;
    const uint8_t *counts = kn_span_take(&span, 4);

    if (!counts) return 0;
    struct kn_layout *layout = take_layout(&span, counts[0]);
    if (!layout) return 0;
    for (int32_t i = 0; i < counts[1]; i++) {
        const uint8_t *p = kn_span_take(&span, 3);
        ops[i] = (struct kn_avro_op){0};
        if (!p) break;
        ops[i].code = p[0];
        ops[i].node = (int8_t)p[1];
        ops[i].end = p[2];
        ops[i].arg = (int32_t)take_u16(&span);
        ops[i].count = (int32_t)take_u16(&span);
    }
    for (int32_t i = 0; i < counts[2]; i++) {
        const uint8_t *p = kn_span_take(&span, 1);
        table[i] = p && *p != 255 ? *p : -1;
    }
    const uint8_t *constants = kn_span_take(&span, counts[3]);
    if (!span.failed) {
        int status = kn_avro_program_new(layout, ops, counts[1], table, counts[2], constants,
                                         counts[3], &program, &bad);
        FUZZ_CHECK(status == KN_OK || status == KN_ERR_INVALID);
        if (status == KN_OK) decode(program, span);
        if (status == KN_OK) kn_avro_program_unref(program);
    }
    kn_layout_unref(layout);
    FUZZ_CHECK(kn_builder_live() == 0 && kn_layout_live() == 0);
    return 0;
}
