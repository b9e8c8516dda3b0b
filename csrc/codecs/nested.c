/* Nested Arrow columns of other libraries: see nested.h. */
#include "codecs/nested.h"

#include <stdlib.h>

static atomic_long live;

long kn_nested_type_live(void) { return atomic_load(&live); }

/* --- types --- */

static bool is_good(const struct kn_nested_node *node)
{
    int32_t count = node->child_count, width = node->width;
    switch (node->kind) {
    case KN_NESTED_SKIPPED:
    case KN_NESTED_NONE:
    case KN_NESTED_BITS:
    case KN_NESTED_BYTES32:
    case KN_NESTED_BYTES64:
    case KN_NESTED_VIEWS: return !count;
    case KN_NESTED_FIXED: return !count && width >= 0 && width <= KN_NESTED_WIDTH_MAX;
    case KN_NESTED_LIST32:
    case KN_NESTED_LIST64: return count == 1;
    case KN_NESTED_FIXED_LIST: return count == 1 && width >= 0 && width <= KN_NESTED_WIDTH_MAX;
    case KN_NESTED_STRUCT: return count >= 0 && count < KN_NESTED_NODES_MAX;
    case KN_NESTED_DENSE_UNION:
    case KN_NESTED_SPARSE_UNION: return count >= 1 && count <= 128;
    case KN_NESTED_DICTIONARY:
        return count == 1 && (width == 1 || width == 2 || width == 4 || width == 8);
    default: return 0;
    }
}

/* Computes ends and roots. Returns whether the nodes are one tree. */
static bool link_nodes(struct kn_nested_node *nodes, int32_t node_count)
{
    int32_t open[KN_NESTED_DEPTH_MAX], left[KN_NESTED_DEPTH_MAX], depth = 0;
    for (int32_t i = 0; i < node_count; i++) {
        struct kn_nested_node *node = &nodes[i];
        if (!is_good(node) || (i && !depth)) return 0;
        node->root = i;
        if (depth) {
            const struct kn_nested_node *parent = &nodes[open[depth - 1]];
            if (parent->kind == KN_NESTED_STRUCT) node->root = parent->root;
            /* Arrow has no dictionary in a dictionary. */
            if (parent->kind == KN_NESTED_DICTIONARY && node->kind == KN_NESTED_DICTIONARY)
                return 0;
            left[depth - 1]--;
        }
        if (depth == KN_NESTED_DEPTH_MAX) return 0;
        open[depth] = i;
        left[depth++] = node->child_count;
        while (depth && !left[depth - 1]) nodes[open[--depth]].end = i + 1;
    }
    return !depth;
}

int kn_nested_type_new(const struct kn_nested_node *nodes, int32_t node_count,
                       struct kn_nested_type **out)
{
    *out = NULL;
    if (node_count < 1 || node_count > KN_NESTED_NODES_MAX) return KN_ERR_INVALID;
    struct kn_nested_type *type = malloc(sizeof *type + (size_t)node_count * sizeof *nodes);
    if (!type) return KN_ERR_NOMEM;
    memcpy(type->nodes, nodes, (size_t)node_count * sizeof *nodes);
    if (!link_nodes(type->nodes, node_count)) {
        free(type);
        return KN_ERR_INVALID;
    }
    atomic_init(&type->refs, 1);
    type->node_count = node_count;
    atomic_fetch_add(&live, 1);
    *out = type;
    return KN_OK;
}

struct kn_nested_type *kn_nested_type_ref(struct kn_nested_type *type)
{
    atomic_fetch_add_explicit(&type->refs, 1, memory_order_relaxed);
    return type;
}

void kn_nested_type_unref(struct kn_nested_type *type)
{
    if (!type || atomic_fetch_sub_explicit(&type->refs, 1, memory_order_acq_rel) > 1) return;
    free(type);
    atomic_fetch_sub(&live, 1);
}

/* --- binding --- */

static int bind_node(struct kn_nested *nested, int32_t at, const struct ArrowArray *array,
                     int64_t skip, int64_t length, struct kn_arrow_problem *problem);

/* Binds the children; all of them have the rows [skip, skip + length). */
static int bind_children(struct kn_nested *nested, int32_t at, const struct ArrowArray *array,
                         int64_t skip, int64_t length, struct kn_arrow_problem *problem)
{
    const struct kn_nested_node *nodes = nested->type->nodes;
    int status = KN_OK;
    int32_t child = at + 1;
    for (int32_t i = 0; i < nodes[at].child_count && status == KN_OK; i++) {
        status = bind_node(nested, child, array->children[i], skip, length, problem);
        child = nodes[child].end;
    }
    return status;
}

static int bind_list(struct kn_nested *nested, int32_t at, const struct ArrowArray *array,
                     int64_t base, int64_t length, struct kn_arrow_problem *problem)
{
    const struct kn_nested_node *node = &nested->type->nodes[at];
    struct kn_nested_column *column = &nested->columns[at];
    int64_t items = 0;
    if (node->kind == KN_NESTED_FIXED_LIST) {
        column->first = base;
        if (length && __builtin_mul_overflow(base + length, (int64_t)node->width, &items))
            return kn_arrow_wrong(problem, -1, "an impossible length or offset");
    } else if (length) {
        bool is_wide = node->kind == KN_NESTED_LIST64;
        if (!array->buffers[1]) return kn_arrow_wrong(problem, -1, "no buffer of offsets");
        column->items = (const uint8_t *)array->buffers[1] + base * (is_wide ? 8 : 4);
        int status = kn_arrow_check_offsets(column->items, is_wide, length, problem);
        if (status != KN_OK) return status;
        items = is_wide ? kn_arrow_i64(column->items + length * 8)
                        : kn_arrow_i32(column->items + length * 4);
    }
    return bind_children(nested, at, array, 0, items, problem);
}

static int bind_union(struct kn_nested *nested, int32_t at, const struct ArrowArray *array,
                      int64_t base, int64_t length, struct kn_arrow_problem *problem)
{
    const struct kn_nested_node *nodes = nested->type->nodes;
    struct kn_nested_column *column = &nested->columns[at];
    bool is_dense = nodes[at].kind == KN_NESTED_DENSE_UNION;
    if (length) {
        if (!array->buffers[0]) return kn_arrow_wrong(problem, -1, "no buffer of type ids");
        column->ids = (const uint8_t *)array->buffers[0] + base;
        if (is_dense && !array->buffers[1])
            return kn_arrow_wrong(problem, -1, "no buffer of offsets");
        if (is_dense) column->items = (const uint8_t *)array->buffers[1] + base * 4;
    }
    if (!is_dense) return bind_children(nested, at, array, base, length, problem);
    int status = KN_OK;
    int32_t child = at + 1;
    for (int32_t i = 0; i < nodes[at].child_count && status == KN_OK; i++) {
        const struct ArrowArray *items = array->children[i];
        status = bind_node(nested, child, items, 0, items && items->release ? items->length : 0,
                           problem);
        child = nodes[child].end;
    }
    return status;
}

static enum kn_arrow_layout flat_layout(enum kn_nested_kind kind)
{
    return kind == KN_NESTED_FIXED     ? KN_ARROW_FIXED
           : kind == KN_NESTED_BYTES32 ? KN_ARROW_BYTES32
           : kind == KN_NESTED_BYTES64 ? KN_ARROW_BYTES64
                                       : KN_ARROW_VIEWS;
}

static int bind_flat(struct kn_nested_column *column, const struct kn_nested_node *node,
                     const struct ArrowArray *array, int64_t skip, int64_t length,
                     struct kn_arrow_problem *problem)
{
    struct kn_arrow_type type = {.layout = flat_layout(node->kind), .width = node->width};
    int status = kn_arrow_bind_plain(type, array, skip, length, &column->bytes, problem);
    column->validity = column->bytes.validity;
    column->items = column->bytes.offsets;
    return status;
}

/* Binds what isn't flat: after the counts of buffers and children were checked. */
static int bind_parts(struct kn_nested *nested, int32_t at, const struct ArrowArray *array,
                      int64_t base, int64_t length, struct kn_arrow_problem *problem)
{
    const struct kn_nested_node *node = &nested->type->nodes[at];
    struct kn_nested_column *column = &nested->columns[at];
    switch (node->kind) {
    case KN_NESTED_STRUCT: return bind_children(nested, at, array, base, length, problem);
    case KN_NESTED_DENSE_UNION:
    case KN_NESTED_SPARSE_UNION: return bind_union(nested, at, array, base, length, problem);
    case KN_NESTED_BITS:
        column->items = array->buffers[1];
        column->first = base;
        if (length && !column->items) return kn_arrow_wrong(problem, -1, "no data buffer");
        return KN_OK;
    case KN_NESTED_DICTIONARY:
        if (length && !array->buffers[1]) return kn_arrow_wrong(problem, -1, "no data buffer");
        if (length) column->items = (const uint8_t *)array->buffers[1] + base * node->width;
        if (!array->dictionary || !array->dictionary->release)
            return kn_arrow_wrong(problem, -1, "no dictionary");
        return bind_node(nested, at + 1, array->dictionary, 0, array->dictionary->length, problem);
    case KN_NESTED_NONE: return KN_OK;
    default: return bind_list(nested, at, array, base, length, problem);
    }
}

static int bind_node(struct kn_nested *nested, int32_t at, const struct ArrowArray *array,
                     int64_t skip, int64_t length, struct kn_arrow_problem *problem)
{
    static const int8_t BUFFERS[KN_NESTED_KIND_COUNT] = {
        [KN_NESTED_BITS] = 2,         [KN_NESTED_LIST32] = 2,    [KN_NESTED_LIST64] = 2,
        [KN_NESTED_FIXED_LIST] = 1,   [KN_NESTED_STRUCT] = 1,    [KN_NESTED_DENSE_UNION] = 2,
        [KN_NESTED_SPARSE_UNION] = 1, [KN_NESTED_DICTIONARY] = 2};
    const struct kn_nested_node *node = &nested->type->nodes[at];
    struct kn_nested_column *column = &nested->columns[at];
    memset(column, 0, sizeof *column);
    column->length = length;
    if (node->kind == KN_NESTED_SKIPPED) return KN_OK;
    if (node->kind == KN_NESTED_FIXED || node->kind == KN_NESTED_BYTES32 ||
        node->kind == KN_NESTED_BYTES64 || node->kind == KN_NESTED_VIEWS)
        return bind_flat(column, node, array, skip, length, problem);
    int status = kn_arrow_check_array(array, skip, length < 0 ? 0 : length, BUFFERS[node->kind],
                                      problem);
    if (status != KN_OK) return status;
    if (length < 0) return kn_arrow_wrong(problem, -1, "an impossible length or offset");
    if (node->kind != KN_NESTED_DICTIONARY && array->n_children != node->child_count)
        return kn_arrow_wrong(problem, -1, "a wrong number of children for its type");
    bool has_validity = node->kind != KN_NESTED_NONE && node->kind != KN_NESTED_DENSE_UNION &&
                        node->kind != KN_NESTED_SPARSE_UNION;
    if (has_validity) status = kn_arrow_bind_validity(array, skip, &column->validity, problem);
    if (status != KN_OK) return status;
    return bind_parts(nested, at, array, array->offset + skip, length, problem);
}

int kn_nested_bind(struct kn_nested *nested, const struct ArrowArray *array, int64_t skip,
                   int64_t length, struct kn_arrow_problem *problem)
{
    if (skip < 0 || length < 0 || skip > INT64_MAX - length)
        return kn_arrow_wrong(problem, -1, "an impossible length or offset");
    return bind_node(nested, 0, array, skip, length, problem);
}

int kn_nested_bind_column(struct kn_nested *nested, const struct ArrowArray *table, int64_t column,
                          struct kn_arrow_problem *problem)
{
    int status = kn_arrow_check_array(table, 0, 0, 1, problem);
    if (status == KN_OK) status = kn_arrow_bind_validity(table, 0, &nested->rows, problem);
    if (status != KN_OK) return status;
    if (column < 0 || column >= table->n_children)
        return kn_arrow_wrong(problem, -1, "the number of columns isn't that of its schema");
    return kn_nested_bind(nested, table->children[column], table->offset, table->length, problem);
}

/* --- values --- */

int64_t kn_nested_entry(const struct kn_nested *nested, int32_t node, int64_t index)
{
    const struct kn_nested_node *type = &nested->type->nodes[node];
    struct kn_arrow_numbers indices = {
        .type = {.layout = KN_ARROW_INT, .width = type->width, .is_signed = type->is_signed},
        .validity = nested->columns[node].validity,
        .data = nested->columns[node].items};
    int64_t entry;
    if (kn_arrow_is_null(&indices.validity, index)) return -1;
    int status = kn_arrow_number(&indices, index, &entry);
    bool is_good = status == KN_OK && entry >= 0 && entry < nested->columns[node + 1].length;
    return is_good ? entry : -2;
}

int kn_nested_range(const struct kn_nested *nested, int32_t node, int64_t index, int64_t *first,
                    int64_t *end)
{
    const struct kn_nested_node *type = &nested->type->nodes[node];
    const struct kn_nested_column *list = &nested->columns[node];
    if (type->kind == KN_NESTED_FIXED_LIST) {
        *first = (list->first + index) * type->width;
        *end = *first + type->width;
    } else if (type->kind == KN_NESTED_LIST64) {
        *first = kn_arrow_i64(list->items + index * 8);
        *end = kn_arrow_i64(list->items + index * 8 + 8);
    } else {
        *first = kn_arrow_i32(list->items + index * 4);
        *end = kn_arrow_i32(list->items + index * 4 + 4);
    }
    bool is_good = *first >= 0 && *end >= *first && *end <= nested->columns[node + 1].length;
    return is_good ? KN_OK : KN_ERR_INVALID;
}
