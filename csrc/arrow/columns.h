/* Records as Arrow columns: builders that grow. After they are complete, the libraries that import
 * them share them.
 *
 * Thread: one at a time appends. Afterwards the columns never change, and any thread may take or
 * drop references.
 * Lock: none.
 * Who frees: counted references. The last one returns the buffers, and the chunks that views point
 * into, to their pools.
 *
 * Only the requested columns exist. A value is copied once, from the response (or the decompressed
 * batch) into its column. Views (Utf8View, BinaryView) aren't copied: they keep the chunk, unless
 * kn_columns_settle() finds that they use little of it. Buffers are aligned to 64 bytes. A column
 * with 32-bit offsets ends before they overflow. */
#ifndef KN_ARROW_COLUMNS_H
#define KN_ARROW_COLUMNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "codecs/schema_decoders.h"
#include "codecs/slab.h"
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
    KN_FIELD_DELIVERY_COUNT,
    KN_FIELD_KEY_ERROR,   /* the reason why the key is null */
    KN_FIELD_VALUE_ERROR, /* the same of the value */
    KN_FIELD_KEY_BYTES,   /* the bytes of a key that doesn't decode */
    KN_FIELD_VALUE_BYTES, /* the same of a value */
    KN_FIELD_FIELD,       /* MALFORMED columns: "key" or "value", the one that doesn't decode */
    KN_FIELD_ERROR,       /* MALFORMED columns: the reason */
    KN_FIELD_COUNT
};

enum kn_column_layout {
    KN_LAYOUT_INT8,
    KN_LAYOUT_INT32,
    KN_LAYOUT_INT64,
    KN_LAYOUT_BYTES,       /* 32-bit offsets */
    KN_LAYOUT_LARGE_BYTES, /* 64-bit offsets */
    KN_LAYOUT_VIEW,
    KN_LAYOUT_DICTIONARY, /* of topic names: 32-bit indices */
    KN_LAYOUT_LIST,       /* of headers: 32-bit offsets into two more columns */
    KN_LAYOUT_DECODED /* in a builder: decoded keys or values, reasons, or bytes that don't decode */
};

struct kn_column_spec {
    enum kn_column_field field;
    enum kn_column_layout layout;
    bool is_text;           /* checked UTF-8: a string instead of binary */
    int32_t ticks;          /* of a timestamp: units in a millisecond; else 0 */
    struct kn_layout *type; /* DECODED: borrowed, the columns take a reference */
    bool is_flat;           /* DECODED: the fields of the struct are columns of their own */
};

/* How a column of keys or values is decoded. */
struct kn_decoding {
    struct kn_schema_decoders decoders;
    /* A record that doesn't decode is null; else it ends the append, or has no row
     * (kn_columns_set_malformed()). */
    bool skips_errors;
    /* skips_errors: the column that gets the reasons; -1: none */
    int32_t reason_column;
    bool keeps_bytes;                 /* the next column gets the bytes of these records */
    struct kn_schema_failure failure; /* the last failure */
};

struct kn_view_source {  /* memory that the long values of a view column point into */
    const uint8_t *base; /* NULL: the topic names */
    int64_t size_bytes;
    const struct kn_chunk *chunk;
};

struct kn_pieces { /* the keys or the values of a block, summed up */
    int64_t size_bytes;
    int32_t null_count;
    int32_t size_max_bytes; /* size of the largest one */
};

struct kn_column {
    struct kn_column_spec spec;
    int64_t length;
    int64_t null_count;
    struct kn_slab validity; /* no data: no value is null */
    struct kn_slab items;    /* numbers, indices or views; or offsets, one more than the length */
    struct kn_slab bytes;    /* the bytes that the offsets point into */
    int64_t bytes_used;
    int64_t length_hint; /* initial room */
    int64_t bytes_hint;
    struct kn_pieces pieces; /* KEY and VALUE: of the current block */
    struct kn_view_source *sources;
    int32_t source_count;
    int32_t source_capacity;
    struct kn_column *parts; /* LIST: the columns of header names and values; else NULL */
    /* LIST: some header names of the current block aren't UTF-8, so U+FFFD replaces bad bytes */
    bool replaces;
    struct kn_builder *builder;   /* DECODED: a reference */
    struct kn_decoding *decoding; /* DECODED: borrowed; NULL: a column of reasons or bytes */
};

struct kn_names { /* the distinct topic names so far */
    int32_t count;
    struct kn_slab offsets; /* count + 1 */
    struct kn_slab bytes;
    int32_t bytes_used;
    int32_t *slots; /* a hash table: index + 1; 0: free */
    uint32_t mask;
    int32_t last; /* the index that was found last */
};

struct kn_kept_bytes {
    /* total size of the chunks that the columns of one client keep; it has counted references,
     * because columns outlive the client */
    atomic_int refs;
    _Atomic int64_t size_bytes;
    _Atomic int64_t max_bytes; /* message.pinned.max.kbytes */
};

struct kn_columns {
    atomic_int refs;
    struct kn_kept_bytes *held; /* a reference; NULL: not counted */
    struct kn_pool *pool;
    int64_t row_count;
    int64_t bytes_max; /* limit of a column with 32-bit offsets */
    struct kn_names names;
    struct kn_chunk **chunks; /* references */
    int32_t chunk_count;
    int32_t chunk_capacity;
    int32_t decoded_count;        /* columns that have a builder */
    struct kn_columns *malformed; /* a reference: gets the records that don't decode; or NULL */
    int32_t column_count;
    struct kn_column columns[];
};

#define KN_BLOCK_RECORDS 64

/* Records of one batch. A block is small, so that each column is one tight loop over data in the
 * first-level cache, with values of 100 bytes, too. */
struct kn_column_block {
    const struct kn_record *records;
    int32_t count; /* at most KN_BLOCK_RECORDS */
    struct kn_chunk *chunk;
    const char *topic;
    int32_t topic_bytes;
    int32_t partition;
    int32_t leader_epoch;   /* below 0: unknown */
    int32_t delivery_count; /* of a share group's records; 0: unknown */
};

/* bytes_max: at most INT32_MAX. The pool may be NULL. NULL: no memory. */
struct kn_columns *kn_columns_new(const struct kn_column_spec *specs, int32_t column_count,
                                  struct kn_pool *pool, int64_t bytes_max);
struct kn_columns *kn_columns_ref(struct kn_columns *columns);
void kn_columns_unref(struct kn_columns *columns); /* NULL is allowed */
long kn_columns_live(void);
/* Call before the first append: sets the initial room. */
void kn_columns_expect(struct kn_columns *columns, int32_t column, int64_t row_count,
                       int64_t size_bytes);

/* Call before the first append. The decoding is borrowed until the last append. */
void kn_columns_set_decoding(struct kn_columns *columns, int32_t column,
                             struct kn_decoding *decoding);

/* Call before the first append. Records that don't decode have no row. `malformed` gets them: columns
 * that take every record and aren't decoded. The last two are FIELD and ERROR, DECODED without a
 * decoding, for texts. If both the value and the key don't decode, these are about the value. */
void kn_columns_set_malformed(struct kn_columns *columns, struct kn_columns *malformed);
/* Returns how many records the columns have, with the malformed ones. */
static inline int64_t kn_columns_record_count(const struct kn_columns *columns)
{
    return columns->row_count + (columns->malformed ? columns->malformed->row_count : 0);
}

/* Appends the first *taken records of the block to every column, or to the malformed ones. KN_OK: all
 * of them. Otherwise the reason for the next one:
 * - KN_ERR_FULL: a column has no more room.
 * - KN_ERR_INVALID: column *column can't hold it (not UTF-8, a time out of range), or can't decode
 *   it: then decoding->failure has the reason.
 * - KN_ERR_UNKNOWN_SCHEMA: column *column needs a decoder for decoding->failure.key.
 * - KN_ERR_NOMEM: none was appended. */
int kn_columns_append(struct kn_columns *columns, const struct kn_column_block *block,
                      int32_t *taken, int32_t *column);
struct kn_kept_bytes *kn_kept_bytes_new(void); /* NULL: no memory */
void kn_kept_bytes_unref(struct kn_kept_bytes *held);
/* Call before the first append. `max_bytes` is the limit of all columns with this `held`. */
void kn_columns_set_kept_bytes(struct kn_columns *columns, struct kn_kept_bytes *held,
                               int64_t max_bytes);
/* Call after the last append. Copies the values and drops the chunks if the client's columns keep
 * more than max_bytes and these views use only a small part of their chunks. Without memory for
 * that, nothing changes. */
void kn_columns_settle(struct kn_columns *columns);
/* Keeps only the first row_count rows. The malformed records stay. */
void kn_columns_truncate(struct kn_columns *columns, int64_t row_count);
/* Size of the buffers and of the memory that views point into. */
int64_t kn_columns_size_bytes(const struct kn_columns *columns);

/* --- for column_put.c --- */
/* Decodes the first `count` records of a block into a builder, and returns how many it has decoded.
 * If these aren't all, *status has the reason. */
int32_t kn_columns_decode(struct kn_columns *columns, int32_t column,
                          const struct kn_column_block *block, int32_t count, int *status);
/* Decodes the first `count` records of a block into the builders, and returns how many it has decoded.
 * Records that don't decode have no row: malformed[] gets their indices, and the last two columns of
 * columns->malformed their texts. If these aren't all records, *status and *column have the reason. */
int32_t kn_columns_split(struct kn_columns *columns, const struct kn_column_block *block,
                         int32_t count, int32_t malformed[KN_BLOCK_RECORDS],
                         int32_t *malformed_count, int *status, int32_t *column);
/* Removes the rows of the builders behind row_count. */
void kn_columns_truncate_decoded(struct kn_columns *columns, int64_t row_count);

/* Returns the index of a name, and adds it if it is new. KN_OK, KN_ERR_NOMEM or KN_ERR_FULL. */
int kn_names_find(struct kn_names *names, struct kn_pool *pool, const char *name,
                  int32_t size_bytes, int32_t *index);

/* Adds a reference to a chunk. columns->chunks must have room. */
void kn_columns_add_chunk(struct kn_columns *columns, struct kn_chunk *chunk);
/* Drops the references to all chunks. */
void kn_columns_drop_chunks(struct kn_columns *columns);

#endif
