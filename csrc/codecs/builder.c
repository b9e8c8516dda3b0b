/* Growing nested columns: see builder.h. */
#include "codecs/builder.h"

#include <stdlib.h>

static atomic_long live;

long kn_builder_live(void) { return atomic_load(&live); }

struct kn_builder *kn_builder_new(struct kn_layout *layout, struct kn_pool *pool, int64_t bytes_max)
{
    size_t count = (size_t)layout->node_count;
    struct kn_builder *builder = calloc(1, sizeof *builder + count * sizeof builder->columns[0]);
    if (!builder) return NULL;
    atomic_init(&builder->refs, 1);
    builder->layout = kn_layout_ref(layout);
    builder->pool = pool;
    builder->bytes_max = bytes_max;
    builder->expansion_left_bytes = KN_EXPANSION_MAX_BYTES;
    atomic_fetch_add(&live, 1);
    return builder;
}

struct kn_builder *kn_builder_ref(struct kn_builder *builder)
{
    atomic_fetch_add_explicit(&builder->refs, 1, memory_order_relaxed);
    return builder;
}

static void free_scratch(struct kn_builder *builder)
{
    if (builder->scratch) builder->scratch_free(builder->scratch);
    builder->scratch = NULL;
}

void kn_builder_unref(struct kn_builder *builder)
{
    if (!builder || atomic_fetch_sub_explicit(&builder->refs, 1, memory_order_acq_rel) > 1) return;
    for (int32_t i = 0; i < builder->layout->node_count; i++) {
        kn_slab_deinit(&builder->columns[i].items_slab);
        kn_slab_deinit(&builder->columns[i].validity_slab);
        kn_slab_deinit(&builder->columns[i].bytes_slab);
    }
    free_scratch(builder);
    kn_layout_unref(builder->layout);
    free(builder);
    atomic_fetch_sub(&live, 1);
}

/* --- room --- */

static bool has_offsets(enum kn_node_kind kind)
{
    return kind == KN_NODE_BYTES || kind == KN_NODE_LIST;
}

/* Returns the size of the items' memory. */
static size_t items_bytes(const struct kn_node *node, int64_t count)
{
    switch (node->kind) {
    case KN_NODE_BITS: return kn_bits_bytes(count);
    case KN_NODE_FIXED: return (size_t)count * (size_t)node->width_bytes;
    case KN_NODE_BYTES:
    case KN_NODE_LIST: return (size_t)(count + 1) * sizeof(int32_t);
    case KN_NODE_UNION:
    case KN_NODE_DICTIONARY: return (size_t)count * sizeof(int32_t);
    default: return 0;
    }
}

/* Unions have no validity in Arrow: their nulls are values of a child. */
static bool has_validity(const struct kn_layout *layout, int32_t at)
{
    enum kn_node_kind kind = layout->nodes[at].kind;
    return kind != KN_NODE_NONE && kind != KN_NODE_UNION && kn_node_is_nullable(layout, at);
}

/* Gives one column room for `capacity` items, a multiple of 64. */
static int grow_column(struct kn_builder *builder, int32_t at, int64_t capacity)
{
    const struct kn_node *node = &builder->layout->nodes[at];
    struct kn_built *column = &builder->columns[at];
    int64_t used = column->length;
    size_t bits = kn_bits_bytes(column->capacity);

    if (capacity <= column->capacity) return KN_OK;
    size_t size = items_bytes(node, capacity);
    if (size) {
        bool is_first = !column->items;
        int status = kn_slab_reserve(builder->pool, &column->items_slab,
                                     is_first ? 0 : items_bytes(node, used), size);
        if (status != KN_OK) return status;
        column->items = column->items_slab.data;
        if (is_first && has_offsets(node->kind)) kn_built_offsets(column)[0] = 0;
    }
    if (node->kind == KN_NODE_UNION) {
        int status = kn_slab_reserve(builder->pool, &column->bytes_slab, (size_t)used,
                                     (size_t)capacity);
        if (status != KN_OK) return status;
        column->bytes = column->bytes_slab.data;
    }
    if (has_validity(builder->layout, at)) {
        int status = kn_slab_reserve(builder->pool, &column->validity_slab, bits,
                                     kn_bits_bytes(capacity));
        if (status != KN_OK) return status;
        column->validity = column->validity_slab.data;
        memset(column->validity + bits, 0xff, kn_bits_bytes(capacity) - bits);
    }
    column->capacity = capacity;
    return KN_OK;
}

int kn_builder_grow(struct kn_builder *builder, int32_t node, int64_t count)
{
    const struct kn_node *nodes = builder->layout->nodes;
    struct kn_built *first = &builder->columns[node];
    int64_t capacity = first->length + count;

    if (count < 0 || count > INT32_MAX || capacity > INT32_MAX) return KN_ERR_FULL;
    if (capacity < first->capacity * 2) capacity = first->capacity * 2;
    if (capacity < 64) capacity = 64;
    capacity = (capacity + 63) / 64 * 64;
    /* The first column is the last one to grow: it has the capacity of the whole group. */
    for (int32_t i = node + 1, end = nodes[node].end; nodes[node].kind != KN_NODE_LIST && i < end;
         i = nodes[i].kind == KN_NODE_LIST ? nodes[i].end : i + 1) {
        int status = grow_column(builder, i, capacity);
        if (status != KN_OK) return status;
    }
    return grow_column(builder, node, capacity);
}

int kn_builder_grow_bytes(struct kn_builder *builder, struct kn_built *column, int64_t more_bytes)
{
    int64_t size = column->bytes_used + more_bytes;
    if (more_bytes < 0 || size > builder->bytes_max) return KN_ERR_FULL;
    if (size < 1024) size = 1024;
    int status = kn_slab_reserve(builder->pool, &column->bytes_slab, (size_t)column->bytes_used,
                                 (size_t)size + KN_BUILDER_SLACK_BYTES);
    if (status != KN_OK) return status;
    column->bytes = column->bytes_slab.data;
    int64_t room = (int64_t)column->bytes_slab.capacity_bytes - KN_BUILDER_SLACK_BYTES;
    column->bytes_room = room < builder->bytes_max ? room : builder->bytes_max;
    return KN_OK;
}

/* --- rows --- */

void kn_builder_append_null(struct kn_builder *builder, int32_t node)
{
    const struct kn_node *type = &builder->layout->nodes[node];
    struct kn_built *column = &builder->columns[node];

    if (column->validity) kn_bit_put(column->validity, column->length, 0);
    switch (type->kind) {
    case KN_NODE_BITS: kn_bit_put(column->items, column->length++, 0); break;
    case KN_NODE_FIXED:
        if (type->width_bytes)
            memset(column->items + column->length * type->width_bytes, 0,
                   (size_t)type->width_bytes);
        column->length++;
        break;
    case KN_NODE_BYTES: kn_built_end_bytes(column, 0); break;
    case KN_NODE_LIST: kn_built_end_list(column, &builder->columns[node + 1]); break;
    case KN_NODE_DICTIONARY: kn_built_offsets(column)[column->length++] = 0; break;
    case KN_NODE_UNION:
        kn_built_put_type(column, 0, &builder->columns[node + 1]);
        kn_builder_append_null(builder, node + 1);
        break;
    case KN_NODE_STRUCT:
        column->length++;
        for (int32_t i = node + 1; i < type->end; i = builder->layout->nodes[i].end)
            kn_builder_append_null(builder, i);
        break;
    default: column->length++;
    }
}

/* Each child ends where its first removed item began. */
static void truncate_union(struct kn_builder *builder, int32_t node, int64_t length)
{
    const struct kn_layout *layout = builder->layout;
    const struct kn_built *column = &builder->columns[node];
    int64_t lengths[KN_LAYOUT_UNION_CHILDREN_MAX];
    int32_t child = node + 1, count = layout->nodes[node].child_count;

    for (int32_t i = 0; i < count; i++, child = layout->nodes[child].end)
        lengths[i] = builder->columns[child].length;
    for (int64_t row = column->length; row-- > length;)
        lengths[column->bytes[row]] = kn_built_offsets(column)[row];
    child = node + 1;
    for (int32_t i = 0; i < count; i++, child = layout->nodes[child].end)
        kn_builder_truncate_node(builder, child, lengths[i]);
}

void kn_builder_truncate_node(struct kn_builder *builder, int32_t node, int64_t length)
{
    const struct kn_node *type = &builder->layout->nodes[node];
    struct kn_built *column = &builder->columns[node];

    /* A record that failed may have ended before this column. */
    if (length >= column->length && type->kind != KN_NODE_LIST && type->kind != KN_NODE_STRUCT)
        return;
    if (type->kind == KN_NODE_STRUCT) {
        for (int32_t i = node + 1; i < type->end; i = builder->layout->nodes[i].end)
            kn_builder_truncate_node(builder, i, length);
    } else if (type->kind == KN_NODE_LIST && column->items) {
        /* The items of a list whose end wasn't reached are behind the last offset. */
        int64_t at = length < column->length ? length : column->length;
        kn_builder_truncate_node(builder, node + 1, kn_built_offsets(column)[at]);
    } else if (type->kind == KN_NODE_BYTES) {
        column->bytes_used = kn_built_offsets(column)[length];
    } else if (type->kind == KN_NODE_UNION) {
        truncate_union(builder, node, length);
    }
    if (length >= column->length) return;
    if (column->validity) kn_bits_fill(column->validity, length, column->length, 1);
    column->length = length;
}

void kn_builder_truncate(struct kn_builder *builder, int64_t row_count)
{
    kn_builder_truncate_node(builder, 0, row_count);
    if (!row_count) builder->expansion_left_bytes = KN_EXPANSION_MAX_BYTES;
}

int64_t kn_builder_size_bytes(const struct kn_builder *builder)
{
    const struct kn_layout *layout = builder->layout;
    int64_t size = 0;
    for (int32_t i = 0; i < layout->node_count; i++) {
        const struct kn_built *column = &builder->columns[i];
        size += (int64_t)items_bytes(&layout->nodes[i], column->length) + column->bytes_used;
        if (column->validity) size += (int64_t)kn_bits_bytes(column->length);
        if (layout->nodes[i].kind == KN_NODE_UNION) size += column->length;
    }
    return size;
}

/* --- export --- */

struct exported {               /* the private data of one ArrowArray */
    struct kn_builder *builder; /* a reference */
    struct kn_slab validity;    /* of a field */
    const void *buffers[3];
};

static void array_release(struct ArrowArray *array)
{
    struct exported *exported = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) kn_arrow_release_array(array->children[i]);
    free(array->children);
    if (array->dictionary) kn_arrow_release_array(array->dictionary);
    free(array->dictionary);
    array->release = NULL;
    kn_slab_deinit(&exported->validity);
    kn_builder_unref(exported->builder);
    free(exported);
}

/* On failure *out is released. */
static int array_make(struct kn_builder *builder, int64_t length, int64_t buffer_count,
                      struct ArrowArray *out)
{
    *out = (struct ArrowArray){0};
    struct exported *exported = calloc(1, sizeof *exported);
    if (!exported) return KN_ERR_NOMEM;
    exported->builder = kn_builder_ref(builder);
    out->length = length;
    out->n_buffers = buffer_count;
    out->buffers = exported->buffers;
    out->private_data = exported;
    out->release = array_release;
    return KN_OK;
}

/* An empty buffer isn't NULL, because some importers don't accept NULL. It begins with an offset of
 * zero. */
static const uint8_t *data_or_nothing(const uint8_t *data)
{
    static const _Alignas(KN_SLAB_ALIGNMENT) uint8_t nothing[KN_SLAB_ALIGNMENT];
    return data ? data : nothing;
}

static int64_t count_nulls(const uint8_t *bits, int64_t length)
{
    int64_t valid = 0, at = 0;
    for (; at + 64 <= length; at += 64) {
        uint64_t word;
        memcpy(&word, bits + at / 8, sizeof word);
        valid += __builtin_popcountll(word);
    }
    for (; at < length; at++) valid += kn_bit(bits, at);
    return length - valid;
}

static int array_of_values(struct kn_builder *builder, const struct kn_node *node,
                           struct ArrowArray *out)
{
    int status = array_make(builder, node->value_count, 3, out);
    if (status != KN_OK) return status;
    out->buffers[1] = node->value_offsets;
    out->buffers[2] = node->value_bytes;
    return KN_OK;
}

static void set_buffers(const struct kn_node *node, const struct kn_built *column,
                        struct ArrowArray *out)
{
    static const int8_t COUNTS[KN_NODE_KIND_COUNT] = {
        [KN_NODE_NONE] = 0, [KN_NODE_BITS] = 2,   [KN_NODE_FIXED] = 2, [KN_NODE_BYTES] = 3,
        [KN_NODE_LIST] = 2, [KN_NODE_STRUCT] = 1, [KN_NODE_UNION] = 2, [KN_NODE_DICTIONARY] = 2};
    out->n_buffers = COUNTS[node->kind];
    if (node->kind == KN_NODE_NONE) {
        out->null_count = column->length;
    } else if (node->kind == KN_NODE_UNION) {
        out->buffers[0] = data_or_nothing(column->bytes);
        out->buffers[1] = data_or_nothing(column->items);
    } else {
        if (column->validity) out->null_count = count_nulls(column->validity, column->length);
        out->buffers[0] = out->null_count ? column->validity : NULL;
        if (out->n_buffers > 1) out->buffers[1] = data_or_nothing(column->items);
        if (out->n_buffers > 2) out->buffers[2] = data_or_nothing(column->bytes);
    }
}

static int array_of(struct kn_builder *builder, int32_t at, struct ArrowArray *out)
{
    const struct kn_node *nodes = builder->layout->nodes, *node = &nodes[at];
    size_t count = (size_t)node->child_count;
    int status = array_make(builder, builder->columns[at].length, 0, out);

    if (status != KN_OK) return status;
    set_buffers(node, &builder->columns[at], out);
    if (node->kind == KN_NODE_DICTIONARY) {
        out->dictionary = calloc(1, sizeof *out->dictionary);
        status = out->dictionary ? array_of_values(builder, node, out->dictionary) : KN_ERR_NOMEM;
    }
    if (status == KN_OK && count) {
        /* pointers, then the structs behind them */
        out->children = calloc(count, sizeof *out->children + sizeof **out->children);
        if (!out->children) status = KN_ERR_NOMEM;
    }
    struct ArrowArray *child = out->children ? (void *)(out->children + count) : NULL;
    int32_t next = at + 1;
    for (size_t i = 0; i < count && status == KN_OK; i++, next = nodes[next].end) {
        out->children[i] = child + i;
        status = array_of(builder, next, child + i);
        if (status == KN_OK) out->n_children++;
    }
    if (status != KN_OK) array_release(out);
    return status;
}

int kn_builder_export(struct kn_builder *builder, struct ArrowArray *out)
{
    free_scratch(builder);
    return array_of(builder, 0, out);
}

int kn_builder_export_field(struct kn_builder *builder, int32_t node, struct ArrowArray *out)
{
    const struct kn_built *row = &builder->columns[0];
    enum kn_node_kind kind = builder->layout->nodes[node].kind;
    int status = array_of(builder, node, out);

    if (status != KN_OK || kind == KN_NODE_NONE || kind == KN_NODE_UNION) return status;
    if (!row->validity || !count_nulls(row->validity, row->length)) return KN_OK;
    struct exported *exported = out->private_data;
    size_t size = kn_bits_bytes(row->length);
    if (kn_slab_reserve(NULL, &exported->validity, 0, size) != KN_OK) {
        array_release(out);
        return KN_ERR_NOMEM;
    }
    const uint8_t *own = builder->columns[node].validity;
    for (size_t i = 0; i < size; i++)
        exported->validity.data[i] = own ? own[i] & row->validity[i] : row->validity[i];
    out->buffers[0] = exported->validity.data;
    out->null_count = count_nulls(exported->validity.data, row->length);
    return KN_OK;
}
