/* Records as Arrow columns: builders that grow, and that are shared with whoever imports them once
 * they are done.
 *
 * Thread: one at a time appends; afterwards nothing changes any more, and references come and go on
 * any thread. Lock: none. Who frees: counted; the last reference gives the buffers back to their
 * pool and the chunks that views point into to theirs.
 *
 * Only the columns that were asked for exist. A value is copied once, from the response (or the
 * decompressed batch) into its column; views (Utf8View, BinaryView) aren't copied at all: they keep
 * the chunk, unless kn_columns_settle() finds that they are few in it. Buffers begin on 64 bytes. A
 * column with 32-bit offsets ends before they overflow.
 */
#ifndef KN_ARROW_COLUMNS_H
#define KN_ARROW_COLUMNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "arrow/slab.h"
#include "net/chunk.h"
#include "records/record_reader.h"

enum kn_column_field {
    KN_FIELD_TOPIC,
    KN_FIELD_PARTITION,
    KN_FIELD_OFFSET,
    KN_FIELD_TIMESTAMP,
    KN_FIELD_TIMESTAMP_TYPE,
    KN_FIELD_KEY,
    KN_FIELD_VALUE,
    KN_FIELD_HEADERS,
    KN_FIELD_LEADER_EPOCH,
    KN_FIELD_COUNT
};

enum kn_column_layout {
    KN_LAYOUT_INT8,
    KN_LAYOUT_INT32,
    KN_LAYOUT_INT64,
    KN_LAYOUT_BYTES,       /* 32-bit offsets */
    KN_LAYOUT_LARGE_BYTES, /* 64-bit offsets */
    KN_LAYOUT_VIEW,
    KN_LAYOUT_DICTIONARY, /* of the topics' names: 32-bit indices */
    KN_LAYOUT_LIST        /* of headers: 32-bit offsets into two columns of their own */
};

struct kn_column_spec {
    enum kn_column_field field;
    enum kn_column_layout layout;
    bool is_text;  /* UTF-8, checked: string rather than binary */
    int32_t ticks; /* of a timestamp: how many of its units are a millisecond; otherwise 0 */
};

struct kn_view_source {  /* what the long values of a view column point into */
    const uint8_t *base; /* NULL: the names of the topics */
    int64_t size_bytes;
    const struct kn_chunk *chunk;
};

struct kn_pieces { /* keys or values of a block, together */
    int64_t size_bytes;
    int32_t null_count;
    int32_t size_max_bytes; /* the largest one's */
};

struct kn_column {
    struct kn_column_spec spec;
    int64_t length;
    int64_t null_count;
    struct kn_slab validity; /* no data: nothing is null */
    struct kn_slab items;    /* numbers, indices, views; offsets, one more than the length */
    struct kn_slab bytes;    /* what the offsets point into */
    int64_t bytes_used;
    int64_t length_hint; /* room to begin with */
    int64_t bytes_hint;
    struct kn_pieces pieces; /* KEY and VALUE: of the block that is being appended */
    struct kn_view_source *sources;
    int32_t source_count;
    int32_t source_capacity;
    struct kn_column *parts; /* LIST: names and values of the headers; NULL otherwise */
    /* LIST: of the block that is being appended some names aren't UTF-8: U+FFFD stands for what
     * isn't */
    bool replaces;
};

struct kn_names { /* the distinct topics so far */
    int32_t count;
    struct kn_slab offsets; /* count + 1 */
    struct kn_slab bytes;
    int32_t bytes_used;
    int32_t *slots; /* a hash table: index + 1, 0 is free */
    uint32_t mask;
    int32_t last; /* found last */
};

struct kn_held {
    /* what the chunks have that the columns of one client keep; counted, for columns outlive it */
    atomic_int refs;
    _Atomic int64_t size_bytes;
    int64_t max_bytes; /* under the binding's lock; message.pinned.max.kbytes */
};

struct kn_columns {
    atomic_int refs;
    struct kn_held *held; /* a reference; NULL: nobody counts */
    struct kn_pool *pool;
    int64_t row_count;
    int64_t bytes_max; /* of a column with 32-bit offsets */
    struct kn_names names;
    struct kn_chunk **chunks; /* references */
    int32_t chunk_count;
    int32_t chunk_capacity;
    int32_t column_count;
    struct kn_column columns[];
};

#define KN_BLOCK_RECORDS 64

/* Records of one batch, so that each column is one tight loop over what is still in the first
 * cache, values of 100 bytes included. */
struct kn_column_block {
    const struct kn_record *records;
    int32_t count; /* at most KN_BLOCK_RECORDS */
    struct kn_chunk *chunk;
    const char *topic;
    int32_t topic_bytes;
    int32_t partition;
    int32_t leader_epoch; /* below 0: unknown */
};

/* bytes_max: at most INT32_MAX. The pool may be NULL. NULL: no memory. */
struct kn_columns *kn_columns_new(const struct kn_column_spec *specs, int32_t column_count,
                                  struct kn_pool *pool, int64_t bytes_max);
struct kn_columns *kn_columns_ref(struct kn_columns *columns);
void kn_columns_unref(struct kn_columns *columns); /* NULL is allowed */
long kn_columns_live(void);
/* Before the first append: about that much room to begin with. */
void kn_columns_expect(struct kn_columns *columns, int32_t column, int64_t row_count,
                       int64_t size_bytes);

/* Appends the first *taken records of the block to every column: all of them (KN_OK), or those
 * before one for which a column has no more room (KN_ERR_FULL) or that column *column can't hold
 * (KN_ERR_INVALID: not UTF-8, a time out of range). KN_ERR_NOMEM: none. */
int kn_columns_append(struct kn_columns *columns, const struct kn_column_block *block,
                      int32_t *taken, int32_t *column);
struct kn_held *kn_held_new(void); /* NULL: no memory */
void kn_held_unref(struct kn_held *held);
/* before the first append */
void kn_columns_count_in(struct kn_columns *columns, struct kn_held *held);
/* After the last append: if columns keep more than max_bytes, and the views of these use but a
 * small part of the chunks that they keep, they get bytes of their own and the chunks are let go.
 * Without memory for that, all stays as it is. */
void kn_columns_settle(struct kn_columns *columns);
/* Only the first row_count rows stay. */
void kn_columns_truncate(struct kn_columns *columns, int64_t row_count);
/* What the buffers hold, with what views point into. */
int64_t kn_columns_size_bytes(const struct kn_columns *columns);

/* --- for column_put.c --- */
/* The index of a name, which is added where it is new. KN_OK, KN_ERR_NOMEM or KN_ERR_FULL. */
int kn_names_find(struct kn_names *names, struct kn_pool *pool, const char *name,
                  int32_t size_bytes, int32_t *index);

/* A reference to a chunk more, and all of them less. */
/* there is room in columns->chunks */
void kn_columns_keep(struct kn_columns *columns, struct kn_chunk *chunk);
void kn_columns_let_go(struct kn_columns *columns);

#endif
