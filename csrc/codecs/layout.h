/* The type of a column: a tree of nodes, in preorder. Python makes it from a schema.
 *
 * A node has one physical kind. Everything else that Arrow distinguishes (timestamp, decimal, map)
 * is a format string and a width.
 *
 * Thread: a layout never changes after kn_layout_new(). Any thread may take or drop references.
 * Who frees: counted references. Builders and exported structs have one each. */
#ifndef KN_CODECS_LAYOUT_H
#define KN_CODECS_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "codecs/abi.h"

enum kn_node_kind {
    KN_NODE_NONE,       /* nulls: no memory */
    KN_NODE_BITS,       /* booleans */
    KN_NODE_FIXED,      /* width_bytes an item */
    KN_NODE_BYTES,      /* 32-bit offsets and bytes */
    KN_NODE_LIST,       /* 32-bit offsets into one child; also maps */
    KN_NODE_STRUCT,     /* every child has as many items as the struct */
    KN_NODE_UNION,      /* dense: a type id and an offset into that child */
    KN_NODE_DICTIONARY, /* 32-bit indices into the node's values */
    KN_NODE_KIND_COUNT
};

#define KN_LAYOUT_NODES_MAX 65536
#define KN_LAYOUT_DEPTH_MAX 64
#define KN_LAYOUT_WIDTH_MAX_BYTES (1 << 20)
#define KN_LAYOUT_UNION_CHILDREN_MAX 127

struct kn_node {
    enum kn_node_kind kind;
    int32_t width_bytes; /* FIXED */
    int32_t child_count;
    int32_t end; /* the index after the last node below; kn_layout_new() computes it */
    const char *format;
    const char *name;
    int64_t flags;        /* ARROW_FLAG_NULLABLE, ARROW_FLAG_MAP_KEYS_SORTED */
    const char *metadata; /* as in ArrowSchema; NULL: none */
    int32_t metadata_bytes;
    /* DICTIONARY: value_count + 1 offsets into value_bytes, UTF-8 */
    int32_t value_count;
    const int32_t *value_offsets;
    const uint8_t *value_bytes;
};

struct kn_layout {
    atomic_int refs;
    int32_t node_count;
    struct kn_node nodes[];
};

/* Copies the nodes with their texts and values. KN_OK, KN_ERR_INVALID (not one tree, or a width,
 * depth or count over its limit) or KN_ERR_NOMEM. */
int kn_layout_new(const struct kn_node *nodes, int32_t node_count, struct kn_layout **out);
struct kn_layout *kn_layout_ref(struct kn_layout *layout);
void kn_layout_unref(struct kn_layout *layout); /* NULL is allowed */
long kn_layout_live(void);
/* Returns whether builders of one layout may be filled by programs of the other. */
bool kn_layout_is_equal(const struct kn_layout *layout, const struct kn_layout *other);
/* Returns the memory of one item of the group that begins with a node (see builder.h), without
 * copied bytes; at most INT32_MAX. Not for layouts with unions. */
int64_t kn_layout_group_bytes(const struct kn_layout *layout, int32_t node);
/* KN_OK, or KN_ERR_NOMEM; then *out is released. */
int kn_layout_export(struct kn_layout *layout, struct ArrowSchema *out);
/* The same for one node. A field of the first node may be null, as for kn_builder_export_field(). */
int kn_layout_export_field(struct kn_layout *layout, int32_t node, struct ArrowSchema *out);

/* Returns whether values may be null. The first node always may: a record can be missing. */
static inline bool kn_node_is_nullable(const struct kn_layout *layout, int32_t node)
{
    return !node || layout->nodes[node].flags & ARROW_FLAG_NULLABLE;
}

#endif
