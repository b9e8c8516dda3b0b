/* Checks of built columns, for the fuzz targets of decoders. */
#ifndef KN_TESTS_FUZZ_COLUMNS_H
#define KN_TESTS_FUZZ_COLUMNS_H

#include "fuzz.h"
#include "codecs/builder.h"

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

#endif
