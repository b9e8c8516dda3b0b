/* Layouts of columns: see layout.h. */
#include "codecs/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/status.h"
#include "base/utf8.h"

static atomic_long live;

long kn_layout_live(void) { return atomic_load(&live); }

/* --- checks --- */

static bool values_are_good(const struct kn_node *node)
{
    if (node->value_count < 1 || node->value_offsets[0]) return 0;
    for (int32_t i = 0; i < node->value_count; i++) {
        int32_t from = node->value_offsets[i], to = node->value_offsets[i + 1];
        if (to < from || !kn_utf8_is_valid(node->value_bytes + from, (size_t)(to - from))) return 0;
    }
    return 1;
}

static bool is_good(const struct kn_node *node)
{
    int32_t count = node->child_count;
    if (!node->format || !node->name) return 0;
    switch (node->kind) {
    case KN_NODE_NONE:
    case KN_NODE_BITS:
    case KN_NODE_BYTES: return !count;
    case KN_NODE_FIXED:
        return !count && node->width_bytes >= 0 && node->width_bytes <= KN_LAYOUT_WIDTH_MAX_BYTES;
    case KN_NODE_DICTIONARY: return !count && values_are_good(node);
    case KN_NODE_LIST: return count == 1;
    case KN_NODE_STRUCT: return count >= 0 && count < KN_LAYOUT_NODES_MAX;
    case KN_NODE_UNION: return count >= 1 && count <= KN_LAYOUT_UNION_CHILDREN_MAX;
    default: return 0;
    }
}

/* Computes the ends. Returns whether the nodes are one tree. */
static bool link_nodes(struct kn_node *nodes, int32_t node_count)
{
    int32_t open[KN_LAYOUT_DEPTH_MAX], left[KN_LAYOUT_DEPTH_MAX], depth = 0;
    for (int32_t i = 0; i < node_count; i++) {
        if (!is_good(&nodes[i]) || (i && !depth)) return 0;
        if (depth) left[depth - 1]--;
        if (depth == KN_LAYOUT_DEPTH_MAX) return 0;
        open[depth] = i;
        left[depth++] = nodes[i].child_count;
        while (depth && !left[depth - 1]) nodes[open[--depth]].end = i + 1;
    }
    return !depth;
}

/* --- copies --- */

static int copy_node(struct kn_node *to, const struct kn_node *from)
{
    *to = *from;
    to->format = kn_copy_of(from->format, strlen(from->format) + 1);
    to->name = kn_copy_of(from->name, strlen(from->name) + 1);
    to->metadata = from->metadata ? kn_copy_of(from->metadata, (size_t)from->metadata_bytes) : NULL;
    to->value_offsets = NULL;
    to->value_bytes = NULL;
    if (from->kind == KN_NODE_DICTIONARY) {
        size_t count = (size_t)from->value_count;
        size_t size = (size_t)from->value_offsets[count];
        to->value_offsets = kn_copy_of(from->value_offsets, (count + 1) * sizeof(int32_t));
        to->value_bytes = kn_copy_of(from->value_bytes, size);
        if (!to->value_offsets || !to->value_bytes) return KN_ERR_NOMEM;
    }
    if (from->metadata && !to->metadata) return KN_ERR_NOMEM;
    return to->format && to->name ? KN_OK : KN_ERR_NOMEM;
}

int kn_layout_new(const struct kn_node *nodes, int32_t node_count, struct kn_layout **out)
{
    *out = NULL;
    if (node_count < 1 || node_count > KN_LAYOUT_NODES_MAX) return KN_ERR_INVALID;
    struct kn_node *linked = kn_copy_of(nodes, (size_t)node_count * sizeof *nodes);
    if (!linked) return KN_ERR_NOMEM;
    if (!link_nodes(linked, node_count)) {
        free(linked);
        return KN_ERR_INVALID;
    }
    struct kn_layout *layout = calloc(1, sizeof *layout + (size_t)node_count * sizeof *nodes);
    if (!layout) {
        free(linked);
        return KN_ERR_NOMEM;
    }
    atomic_fetch_add(&live, 1);
    atomic_init(&layout->refs, 1);
    int status = KN_OK;
    while (layout->node_count < node_count && status == KN_OK) {
        int32_t i = layout->node_count++;
        status = copy_node(&layout->nodes[i], &linked[i]);
    }
    free(linked);
    if (status == KN_OK) {
        *out = layout;
    } else {
        kn_layout_unref(layout);
    }
    return status;
}

struct kn_layout *kn_layout_ref(struct kn_layout *layout)
{
    atomic_fetch_add_explicit(&layout->refs, 1, memory_order_relaxed);
    return layout;
}

void kn_layout_unref(struct kn_layout *layout)
{
    if (!layout || atomic_fetch_sub_explicit(&layout->refs, 1, memory_order_acq_rel) > 1) return;
    for (int32_t i = 0; i < layout->node_count; i++) {
        const struct kn_node *node = &layout->nodes[i];
        free((void *)(uintptr_t)node->format);
        free((void *)(uintptr_t)node->name);
        free((void *)(uintptr_t)node->metadata);
        free((void *)(uintptr_t)node->value_offsets);
        free((void *)(uintptr_t)node->value_bytes);
    }
    free(layout);
    atomic_fetch_sub(&live, 1);
}

/* --- comparison --- */

static bool node_is_equal(const struct kn_node *node, const struct kn_node *other)
{
    if (node->kind != other->kind || node->width_bytes != other->width_bytes ||
        node->child_count != other->child_count || node->flags != other->flags ||
        node->value_count != other->value_count || strcmp(node->format, other->format) ||
        strcmp(node->name, other->name) || node->metadata_bytes != other->metadata_bytes)
        return 0;
    if (node->metadata_bytes &&
        memcmp(node->metadata, other->metadata, (size_t)node->metadata_bytes))
        return 0;
    if (node->kind != KN_NODE_DICTIONARY) return 1;
    size_t count = (size_t)node->value_count;
    return !memcmp(node->value_offsets, other->value_offsets, (count + 1) * sizeof(int32_t)) &&
           !memcmp(node->value_bytes, other->value_bytes, (size_t)node->value_offsets[count]);
}

int64_t kn_layout_group_bytes(const struct kn_layout *layout, int32_t node)
{
    const struct kn_node *nodes = layout->nodes;
    int64_t size = 0;
    for (int32_t i = node; i < nodes[node].end;
         i = nodes[i].kind == KN_NODE_LIST ? nodes[i].end : i + 1)
        size += nodes[i].kind == KN_NODE_FIXED ? nodes[i].width_bytes + 1 : 5;
    return size < INT32_MAX ? size : INT32_MAX;
}

bool kn_layout_is_equal(const struct kn_layout *layout, const struct kn_layout *other)
{
    if (layout->node_count != other->node_count) return 0;
    for (int32_t i = 0; i < layout->node_count; i++) {
        if (!node_is_equal(&layout->nodes[i], &other->nodes[i])) return 0;
    }
    return 1;
}

/* --- export --- */

static void schema_release(struct ArrowSchema *schema)
{
    for (int64_t i = 0; i < schema->n_children; i++) kn_arrow_release_schema(schema->children[i]);
    free(schema->children);
    if (schema->dictionary) kn_arrow_release_schema(schema->dictionary);
    free(schema->dictionary);
    schema->release = NULL;
    kn_layout_unref(schema->private_data);
}

/* On failure *out is released. */
static int schema_make(struct kn_layout *layout, int32_t at, struct ArrowSchema *out)
{
    const struct kn_node *node = &layout->nodes[at];
    *out = (struct ArrowSchema){.format = node->format,
                                .name = node->name,
                                .metadata = node->metadata,
                                .flags = node->flags,
                                .release = schema_release};
    if (kn_node_is_nullable(layout, at)) out->flags |= ARROW_FLAG_NULLABLE;
    out->private_data = kn_layout_ref(layout);
    int status = KN_OK;
    if (node->kind == KN_NODE_DICTIONARY) {
        out->format = "i";
        status = (out->dictionary = calloc(1, sizeof *out->dictionary)) ? KN_OK : KN_ERR_NOMEM;
        if (status == KN_OK) {
            *out->dictionary = (struct ArrowSchema){
                .format = node->format, .name = "", .release = schema_release};
            out->dictionary->private_data = kn_layout_ref(layout);
        }
    }
    size_t count = (size_t)node->child_count;
    if (status == KN_OK && count) {
        /* pointers, then the structs behind them */
        out->children = calloc(count, sizeof *out->children + sizeof **out->children);
        if (!out->children) status = KN_ERR_NOMEM;
    }
    struct ArrowSchema *child = out->children ? (void *)(out->children + count) : NULL;
    int32_t next = at + 1;
    for (size_t i = 0; i < count && status == KN_OK; i++, next = layout->nodes[next].end) {
        out->children[i] = child + i;
        status = schema_make(layout, next, child + i);
        if (status == KN_OK) out->n_children++;
    }
    if (status != KN_OK) schema_release(out);
    return status;
}

int kn_layout_export(struct kn_layout *layout, struct ArrowSchema *out)
{
    return schema_make(layout, 0, out);
}

int kn_layout_export_field(struct kn_layout *layout, int32_t node, struct ArrowSchema *out)
{
    int status = schema_make(layout, node, out);
    if (status == KN_OK) out->flags |= ARROW_FLAG_NULLABLE;
    return status;
}
