/* Nested Arrow columns of other libraries, checked before use: import.h reads flat ones.
 *
 * A type is a tree of nodes, in preorder; the values of a dictionary are its only child. Python
 * makes it from the format strings. A binding has the buffers of one array for each node.
 *
 * A group is the nodes whose items have the same index: a node, and the nodes below it except those
 * below a list, union or dictionary. Each of their children begins a group. `root` is the first
 * node of a group. An index below the length of the root can be read at every node of its group.
 *
 * As in import.h, an array has no sizes of its buffers. So the possible checks are counts, pointers,
 * offsets that rise from 0, places in view buffers, indices, and the length of each child.
 *
 * Thread: the caller's. A type never changes. Nothing here locks or changes its input.
 * Who frees: a type has counted references. The owner of the arrays frees them after the binding. */
#ifndef KN_CODECS_NESTED_H
#define KN_CODECS_NESTED_H

#include <stdatomic.h>
#include "codecs/import.h"
#include "codecs/slab.h"

enum kn_nested_kind {
    KN_NESTED_SKIPPED, /* a column that isn't read, of any type: its parts are no nodes */
    KN_NESTED_NONE,    /* nulls: no buffers */
    KN_NESTED_BITS,
    KN_NESTED_FIXED, /* `width` bytes an item */
    KN_NESTED_BYTES32,
    KN_NESTED_BYTES64,
    KN_NESTED_VIEWS,
    KN_NESTED_LIST32, /* also maps */
    KN_NESTED_LIST64,
    KN_NESTED_FIXED_LIST, /* `width` items of the child in each */
    KN_NESTED_STRUCT,
    KN_NESTED_DENSE_UNION,
    KN_NESTED_SPARSE_UNION,
    KN_NESTED_DICTIONARY, /* indices of `width` bytes */
    KN_NESTED_KIND_COUNT
};

#define KN_NESTED_NODES_MAX 65536
#define KN_NESTED_DEPTH_MAX 64
#define KN_NESTED_WIDTH_MAX (1 << 20)

struct kn_nested_node {
    enum kn_nested_kind kind;
    int32_t width;
    int32_t is_signed; /* DICTIONARY */
    int32_t child_count;
    /* kn_nested_type_new() computes these: */
    int32_t end;  /* the index after the last node below */
    int32_t root; /* of its group */
};

struct kn_nested_type {
    atomic_int refs;
    int32_t node_count;
    struct kn_nested_node nodes[];
};

/* Copies the nodes. KN_OK, KN_ERR_INVALID (not one tree, or a width, depth or count over its limit)
 * or KN_ERR_NOMEM. */
int kn_nested_type_new(const struct kn_nested_node *nodes, int32_t node_count,
                       struct kn_nested_type **out);
struct kn_nested_type *kn_nested_type_ref(struct kn_nested_type *type);
void kn_nested_type_unref(struct kn_nested_type *type); /* NULL is allowed */
long kn_nested_type_live(void);

struct kn_nested_column {
    struct kn_arrow_validity validity;
    const uint8_t *items; /* of item 0: values, offsets, indices, or the offsets of a dense union */
    const uint8_t *ids;   /* unions: the type id of item 0 */
    int64_t first;        /* BITS: the bit of item 0. FIXED_LIST: its index in the array */
    int64_t length;
    struct kn_arrow_bytes bytes; /* FIXED, BYTES32, BYTES64 and VIEWS */
};

struct kn_nested {
    const struct kn_nested_type *type; /* borrowed */
    struct kn_nested_column *columns;  /* one for each node */
    struct kn_arrow_validity rows; /* of the table around the first node; zeros: there is none */
};

/* Binds an array, whose rows [skip, skip + length) become the items of the first node. `columns` has
 * room for every node. KN_OK, or KN_ERR_INVALID with *problem. */
int kn_nested_bind(struct kn_nested *nested, const struct ArrowArray *array, int64_t skip,
                   int64_t length, struct kn_arrow_problem *problem);

/* The same for a column of a table, all of whose rows become the items. A null row of the table is
 * null, too: Arrow doesn't say which value its column has there. */
int kn_nested_bind_column(struct kn_nested *nested, const struct ArrowArray *table, int64_t column,
                          struct kn_arrow_problem *problem);

/* --- values. Each call checks again, because foreign memory may have changed. --- */

/* Returns the index of a dictionary's item in the values; -1: null; -2: out of range. */
int64_t kn_nested_entry(const struct kn_nested *nested, int32_t node, int64_t index);

/* Returns whether an item is null. Unions have no nulls of their own. */
static inline bool kn_nested_is_null(const struct kn_nested *nested, int32_t node, int64_t index)
{
    const struct kn_nested_column *column = &nested->columns[node];
    if (kn_arrow_is_null(&column->validity, index)) return 1;
    enum kn_nested_kind kind = nested->type->nodes[node].kind;
    if (__builtin_expect(kind != KN_NESTED_DICTIONARY, 1)) return kind == KN_NESTED_NONE;
    int64_t entry = kn_nested_entry(nested, node, index);
    return entry >= 0 && kn_nested_is_null(nested, node + 1, entry);
}

static inline bool kn_nested_row_is_null(const struct kn_nested *nested, int64_t row)
{
    return kn_arrow_is_null(&nested->rows, row) || kn_nested_is_null(nested, 0, row);
}

/* Returns the items [*first, *end) of a list in its child. KN_OK or KN_ERR_INVALID. */
int kn_nested_range(const struct kn_nested *nested, int32_t node, int64_t index, int64_t *first,
                    int64_t *end);

#endif
