/* Protobuf programs and messages: a program that is refused, or columns whose parts fit together.
 *
 * Input: counts of nodes, instructions, messages, table entries and constant bytes, one byte each;
 * then these, in the compact form of seeds.py; then the record. It is decoded whole, then cut off. */
#include "fuzz_columns.h"
#include "codecs/protobuf_decode.h"

static void decode(const struct kn_protobuf_program *program, struct kn_span record)
{
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, FUZZ_CAP_BYTES);
    struct kn_decode_problem problem;
    int64_t rows = 0, size = (int64_t)kn_span_left(&record);
    FUZZ_CHECK(builder);
    for (int64_t cut = 0; cut <= size && cut < 8; cut++) {
        int status = kn_protobuf_decode(program, builder, record.at, size - cut, &problem);
        if (status == KN_OK) {
            rows++;
        } else {
            FUZZ_CHECK(problem.text && problem.position >= 0 && problem.position <= size);
            FUZZ_CHECK(problem.instruction >= 0 &&
                       problem.instruction < program->op_count + program->message_count);
        }
        fuzz_check_column(builder, 0, rows);
    }
    fuzz_finish_columns(builder, rows);
}

static struct kn_protobuf_op take_op(struct kn_span *span)
{
    struct kn_protobuf_op op = {0};
    const uint8_t *p = kn_span_take(span, 2);
    if (!p) return op;
    op.code = p[0];
    op.node = (int8_t)p[1];
    op.number = (int32_t)fuzz_take_u16(span);
    op.arg = (int32_t)fuzz_take_u16(span);
    if (!(p = kn_span_take(span, 6))) return op;
    op.shape = p[0];
    op.missing = p[1];
    op.count = p[2];
    op.oneof = (int8_t)p[3];
    op.constant = p[4];
    op.constant_bytes = p[5];
    return op;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct kn_span span = kn_span_of(data, size_bytes);
    struct kn_protobuf_op ops[256];
    struct kn_protobuf_message messages[256];
    struct kn_protobuf_program *program;
    int32_t table[256], bad;
    const uint8_t *counts = kn_span_take(&span, 5);

    if (!counts) return 0;
    struct kn_layout *layout = fuzz_take_layout(&span, counts[0]);
    if (!layout) return 0;
    for (int32_t i = 0; i < counts[1]; i++) ops[i] = take_op(&span);
    for (int32_t i = 0; i < counts[2]; i++) {
        const uint8_t *p = kn_span_take(&span, 3);
        messages[i] = (struct kn_protobuf_message){0};
        if (p) messages[i] = (struct kn_protobuf_message){p[0], p[1], p[2], 0, 0};
    }
    for (int32_t i = 0; i < counts[3]; i++) {
        const uint8_t *p = kn_span_take(&span, 1);
        table[i] = p ? (int8_t)*p : 0;
    }
    const uint8_t *constants = kn_span_take(&span, counts[4]);
    if (!span.failed) {
        struct kn_program_data parts = {table, counts[3], counts[4], constants};
        int status = kn_protobuf_program_new(layout, ops, counts[1], messages, counts[2], &parts,
                                             &program, &bad);
        FUZZ_CHECK(status == KN_OK || status == KN_ERR_INVALID);
        if (status == KN_OK) decode(program, span);
        if (status == KN_OK) kn_protobuf_program_free(program);
    }
    kn_layout_unref(layout);
    FUZZ_CHECK(kn_builder_live() == 0 && kn_layout_live() == 0);
    return 0;
}
