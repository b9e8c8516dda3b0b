/* Builds columns of any nesting, one growing column for each node of a layout.
 *
 * Memory is reserved once per block of rows, or of list items. Afterwards items of a fixed width
 * are appended by unchecked stores. Only bytes still need a check, as their size isn't known.
 *
 * A group is the columns that grow together: a node, and the nodes below it except those below a
 * list. The first node of a group has the capacity of all its columns. The children of a dense union
 * belong to the group, and never have more items than the union.
 *
 * Validity: reserved bits are 1, so that an append of a value needs no store. An append of a null
 * clears its bit. kn_builder_truncate() sets the bits of the removed rows again.
 *
 * Thread: one at a time appends. After kn_builder_export() the columns never change, and any thread
 * may take or drop references.
 * Who frees: counted references. Exported structs have one each. */
#ifndef KN_CODECS_BUILDER_H
#define KN_CODECS_BUILDER_H

#include <stdatomic.h>
#include "codecs/layout.h"
#include "codecs/slab.h"

/* This much more memory than reserved may be written behind the bytes of a column, so that short
 * values are copied by whole words. */
#define KN_BUILDER_SLACK_BYTES 32

/* How far the records of a builder may expand, so that few bytes of input can't take much memory: the
 * items of lists take at most EXPANSION_MAX_BYTES plus FACTOR times the bytes of the records. */
#ifndef KN_EXPANSION_MAX_BYTES /* the fuzz targets have less */
#define KN_EXPANSION_MAX_BYTES ((int64_t)64 << 20)
#endif
#define KN_EXPANSION_FACTOR 16

struct kn_built {      /* one column; not its group's length, but its own */
    uint8_t *items;    /* values, indices or offsets; a list's and bytes' first offset is 0 */
    uint8_t *validity; /* NULL: never null */
    uint8_t *bytes;    /* BYTES: what the offsets point into; UNION: the type ids */
    int64_t length;
    int64_t bytes_used;
    int64_t bytes_room; /* BYTES: writable, without the slack */
    int64_t capacity;   /* items; the first column of a group has it for the whole group */
    struct kn_slab items_slab;
    struct kn_slab validity_slab;
    struct kn_slab bytes_slab;
};

struct kn_builder {
    atomic_int refs;
    struct kn_layout *layout; /* a reference */
    struct kn_pool *pool;
    int64_t bytes_max;            /* limit of the bytes of one column */
    int64_t expansion_left_bytes; /* for the next record, without what its own size allows */
    /* Memory that the decoder of a format keeps between two records, and its end; NULL: none. All
     * decoders that fill a builder have one format. */
    void *scratch;
    void (*scratch_free)(void *scratch);
    struct kn_built columns[];
};

/* bytes_max: at most INT32_MAX. The pool may be NULL. NULL: no memory. */
struct kn_builder *kn_builder_new(struct kn_layout *layout, struct kn_pool *pool,
                                  int64_t bytes_max);
struct kn_builder *kn_builder_ref(struct kn_builder *builder);
void kn_builder_unref(struct kn_builder *builder); /* NULL is allowed */
long kn_builder_live(void);

int kn_builder_grow(struct kn_builder *builder, int32_t node, int64_t count);
/* Makes room for `count` more items in the group that begins with `node`: the first node, or the
 * child of a list. KN_OK, KN_ERR_NOMEM, or KN_ERR_FULL (more than INT32_MAX items). */
static inline int kn_builder_reserve(struct kn_builder *builder, int32_t node, int64_t count)
{
    const struct kn_built *first = &builder->columns[node];
    return count <= first->capacity - first->length ? KN_OK : kn_builder_grow(builder, node, count);
}

int kn_builder_grow_bytes(struct kn_builder *builder, struct kn_built *column, int64_t more_bytes);
/* Makes room for more bytes of a BYTES column. KN_OK, KN_ERR_NOMEM, or KN_ERR_FULL (bytes_max). */
static inline int kn_builder_reserve_bytes(struct kn_builder *builder, struct kn_built *column,
                                           int64_t more_bytes)
{
    return more_bytes <= column->bytes_room - column->bytes_used
               ? KN_OK
               : kn_builder_grow_bytes(builder, column, more_bytes);
}

/* Appends a null to a node and to the nodes that must have as many items. A node that can't be null
 * gets an empty value: zeros, no bytes, the first child of a union. The group must have room. */
void kn_builder_append_null(struct kn_builder *builder, int32_t node);
/* Keeps only the first items of a node and of the nodes below it. */
void kn_builder_truncate_node(struct kn_builder *builder, int32_t node, int64_t length);
/* Keeps only the first row_count rows. */
void kn_builder_truncate(struct kn_builder *builder, int64_t row_count);
/* Keeps only the first `length` items of a node, and what belongs to them below it. The caller appends
 * the group's missing items again. */
void kn_builder_truncate_node(struct kn_builder *builder, int32_t node, int64_t length);
/* A decoder takes this much for a record, counts down, and gives the rest back if it decodes. */
static inline int64_t kn_builder_expansion(const struct kn_builder *builder, int64_t record_bytes)
{
    return builder->expansion_left_bytes + record_bytes * KN_EXPANSION_FACTOR;
}
/* Returns why a record has used it up: KN_ERR_TOO_LARGE, or KN_ERR_FULL if it may fit into a new
 * builder. */
static inline int kn_builder_expansion_status(const struct kn_builder *builder)
{
    return builder->expansion_left_bytes < KN_EXPANSION_MAX_BYTES ? KN_ERR_FULL : KN_ERR_TOO_LARGE;
}
/* Bytes of the buffers. */
int64_t kn_builder_size_bytes(const struct kn_builder *builder);
/* Also frees the scratch, because exported columns never change. KN_OK, or KN_ERR_NOMEM; then *out is
 * released. */
int kn_builder_export(struct kn_builder *builder, struct ArrowArray *out);
/* The same for a field of the first node, a struct. It is null where the struct is null. A union
 * can't be null: there it has an empty value. */
int kn_builder_export_field(struct kn_builder *builder, int32_t node, struct ArrowArray *out);

static inline int32_t *kn_built_offsets(const struct kn_built *column)
{
    return (int32_t *)(void *)column->items;
}
/* Ends an item of a BYTES column. The bytes are in their place already. */
static inline void kn_built_end_bytes(struct kn_built *column, int64_t size_bytes)
{
    column->bytes_used += size_bytes;
    kn_built_offsets(column)[++column->length] = (int32_t)column->bytes_used;
}
/* Ends an item of a list, which has the child's items since the last end. */
static inline void kn_built_end_list(struct kn_built *list, const struct kn_built *child)
{
    kn_built_offsets(list)[++list->length] = (int32_t)child->length;
}
/* Begins an item of a union: the next one of a child. */
static inline void kn_built_put_type(struct kn_built *column, int32_t type_id,
                                     const struct kn_built *child)
{
    column->bytes[column->length] = (uint8_t)type_id;
    kn_built_offsets(column)[column->length++] = (int32_t)child->length;
}

#endif
