/* Layouts from fuzzed bytes, and checks of decoded columns: for the decoders' targets. */
#ifndef KN_TESTS_FUZZ_COLUMNS_H
#define KN_TESTS_FUZZ_COLUMNS_H

#include "fuzz.h"
#include "codecs/builder.h"

#define FUZZ_NODE_BYTES 6

static inline uint32_t fuzz_take_u16(struct kn_span *span)
{
    const uint8_t *p = kn_span_take(span, 2);
    return p ? p[0] | (uint32_t)p[1] << 8 : 0;
}

static inline struct kn_layout *fuzz_take_layout(struct kn_span *span, int32_t count)
{
    static const int32_t offsets[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    struct kn_node nodes[256];
    struct kn_layout *layout = NULL;
    for (int32_t i = 0; i < count; i++) {
        const uint8_t *p = kn_span_take(span, FUZZ_NODE_BYTES);
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

/* Checks that a column has `length` items, and touches them all. */
static inline void fuzz_check_column(const struct kn_builder *builder, int32_t at, int64_t length)
{
    const struct kn_node *nodes = builder->layout->nodes, *node = &nodes[at];
    const struct kn_built *column = &builder->columns[at];
    const int32_t *offsets = kn_built_offsets(column);
    int64_t counts[KN_LAYOUT_UNION_CHILDREN_MAX] = {0};

    FUZZ_CHECK(column->length == length && length <= column->capacity + !column->capacity);
    if (!length && !column->items) offsets = NULL;
    if (column->validity) fuzz_touch(column->validity, (length + 7) / 8);
    if (node->kind == KN_NODE_FIXED) fuzz_touch(column->items, length * node->width_bytes);
    if (node->kind == KN_NODE_BYTES && offsets) {
        for (int64_t i = 0; i < length; i++) FUZZ_CHECK(offsets[i] <= offsets[i + 1]);
        FUZZ_CHECK(!offsets[0] && offsets[length] == column->bytes_used);
        fuzz_touch(column->bytes, column->bytes_used);
    }
    if (node->kind == KN_NODE_LIST && offsets) {
        for (int64_t i = 0; i < length; i++) FUZZ_CHECK(offsets[i] <= offsets[i + 1]);
        fuzz_check_column(builder, at + 1, offsets[length]);
    }
    for (int64_t i = 0; node->kind == KN_NODE_UNION && i < length; i++) {
        FUZZ_CHECK(column->bytes[i] < node->child_count);
        FUZZ_CHECK(offsets[i] == counts[column->bytes[i]]++);
    }
    if (node->kind != KN_NODE_STRUCT && node->kind != KN_NODE_UNION) return;
    int32_t child = at + 1;
    for (int32_t i = 0; i < node->child_count; i++, child = nodes[child].end)
        fuzz_check_column(builder, child, node->kind == KN_NODE_STRUCT ? length : counts[i]);
}

/* Appends a missing record, exports the columns, and removes half of the rows. */
static inline void fuzz_finish_columns(struct kn_builder *builder, int64_t rows)
{
    struct ArrowArray array;
    if (kn_builder_reserve(builder, 0, 1) == KN_OK) {
        kn_builder_append_null(builder, 0);
        fuzz_check_column(builder, 0, ++rows);
    }
    FUZZ_CHECK(kn_builder_export(builder, &array) == KN_OK);
    FUZZ_CHECK(array.length == rows);
    kn_arrow_release_array(&array);
    kn_builder_truncate(builder, rows / 2);
    fuzz_check_column(builder, 0, rows / 2);
    kn_builder_unref(builder);
}

#endif
