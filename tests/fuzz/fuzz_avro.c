/* Avro programs and records: a program that is refused, or columns whose parts fit together.
 *
 * Input: counts of nodes, instructions, table entries and constant bytes, one byte each; then these,
 * in the compact form of seeds.py; then the record. It is decoded whole, then cut off. */
#include "fuzz_columns.h"
#include "codecs/avro_decode.h"

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
    fuzz_finish_columns(builder, rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct kn_span span = kn_span_of(data, size_bytes);
    struct kn_avro_op ops[256];
    int32_t table[256], bad;
    struct kn_avro_program *program;
    const uint8_t *counts = kn_span_take(&span, 4);

    if (!counts) return 0;
    struct kn_layout *layout = fuzz_take_layout(&span, counts[0]);
    if (!layout) return 0;
    for (int32_t i = 0; i < counts[1]; i++) {
        const uint8_t *p = kn_span_take(&span, 3);
        ops[i] = (struct kn_avro_op){0};
        if (!p) break;
        ops[i].code = p[0];
        ops[i].node = (int8_t)p[1];
        ops[i].end = p[2];
        ops[i].arg = (int32_t)fuzz_take_u16(&span);
        ops[i].count = (int32_t)fuzz_take_u16(&span);
    }
    for (int32_t i = 0; i < counts[2]; i++) {
        const uint8_t *p = kn_span_take(&span, 1);
        table[i] = p && *p != 255 ? *p : -1;
    }
    const uint8_t *constants = kn_span_take(&span, counts[3]);
    if (!span.failed) {
        struct kn_program_data parts = {table, counts[2], counts[3], constants};
        int status = kn_avro_program_new(layout, ops, counts[1], &parts, &program, &bad);
        FUZZ_CHECK(status == KN_OK || status == KN_ERR_INVALID);
        if (status == KN_OK) decode(program, span);
        if (status == KN_OK) kn_avro_program_free(program);
    }
    kn_layout_unref(layout);
    FUZZ_CHECK(kn_builder_live() == 0 && kn_layout_live() == 0);
    return 0;
}
