/* Rows of columns as records: see encoder.h. */
#include "codecs/encoder.h"

#define STEP_ROWS 1024 /* that room is made for at once */

struct kn_builder *kn_records_builder_new(int64_t bytes_max)
{
    static const struct kn_node node = {.kind = KN_NODE_BYTES, .format = "z", .name = ""};
    struct kn_layout *layout;
    if (kn_layout_new(&node, 1, &layout) != KN_OK) return NULL;
    struct kn_builder *builder = kn_builder_new(layout, NULL, bytes_max);
    kn_layout_unref(layout);
    return builder;
}

static int encode_row(const struct kn_encoder *encoder, const struct kn_nested *columns,
                      const uint8_t *prefix, int64_t prefix_bytes, int64_t row,
                      struct kn_builder *builder, struct kn_encode_problem *problem)
{
    struct kn_built *records = &builder->columns[0];
    int status = kn_builder_reserve_bytes(builder, records, prefix_bytes);
    if (status != KN_OK) return status;
    if (prefix_bytes) memcpy(records->bytes + records->bytes_used, prefix, (size_t)prefix_bytes);
    records->bytes_used += prefix_bytes;
    status = encoder->encode(encoder->program, columns, row, builder, problem);
    if (__builtin_expect(status == KN_OK, 1)) {
        kn_built_end_bytes(records, 0);
    } else {
        records->bytes_used = kn_built_offsets(records)[records->length];
    }
    return status;
}

int kn_encode_rows(const struct kn_encoder *encoder, const struct kn_nested *columns,
                   const uint8_t *prefix, int64_t prefix_bytes, int64_t *row, int64_t end,
                   struct kn_builder *builder, struct kn_encode_problem *problem)
{
    int status = KN_OK;
    *problem = (struct kn_encode_problem){0, "there is not enough memory"};
    while (*row < end) {
        int64_t step = end - *row < STEP_ROWS ? end - *row : STEP_ROWS;
        status = kn_builder_reserve(builder, 0, step);
        for (int64_t stop = *row + step; *row < stop && status == KN_OK; *row += status == KN_OK) {
            if (kn_nested_row_is_null(columns, *row)) {
                kn_builder_append_null(builder, 0);
                continue;
            }
            status = encode_row(encoder, columns, prefix, prefix_bytes, *row, builder, problem);
        }
        if (status != KN_OK) break;
    }
    if (status == KN_ERR_FULL && !builder->columns[0].bytes_used) {
        *problem = (struct kn_encode_problem){0,
                                              "the record has more bytes than a column may have"};
        return KN_ERR_TOO_LARGE;
    }
    return status;
}
