/* The Arrow C data interface and C stream interface: three structs whose layout is the contract
 * between libraries that share no code.
 *
 * Thread: the owner's; no locks.
 * Who frees: the consumer of a struct calls its release() once, from any thread. A released struct
 * has release == NULL. To move a struct, copy its bytes and set release to NULL in the old place. A
 * child may be moved out of its parent.
 *
 * Source: https://arrow.apache.org/docs/format/CDataInterface.html. The names are Arrow's own; the
 * guards prevent a second declaration by other headers. */
#ifndef KN_CODECS_ABI_H
#define KN_CODECS_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    /* "i" int32, "l" int64, "z" binary, "u" string, "vz" and "vu" views, "tsm:UTC" timestamp[ms],
     * "+s" struct, ... */
    const char *format;
    const char *name;
    const char *metadata; /* NULL: none */
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    /* the type of the values; then `format` is the type of the indices */
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *schema);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count; /* -1: not counted */
    int64_t offset;     /* how many items to skip at the start of every buffer and every child */
    int64_t n_buffers;
    int64_t n_children;
    /* [0] is the validity bitmap, least significant bit first; NULL: nothing is null */
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *array);
    void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    /* 0, or an errno value. The caller must release *out. */
    int (*get_schema)(struct ArrowArrayStream *stream, struct ArrowSchema *out);
    /* The same; at the end of the stream *out is released. */
    int (*get_next)(struct ArrowArrayStream *stream, struct ArrowArray *out);
    /* Text of the last failed call, valid until the next call; NULL: none. */
    const char *(*get_last_error)(struct ArrowArrayStream *stream);
    void (*release)(struct ArrowArrayStream *stream);
    void *private_data;
};

#endif

/* Releases a struct unless it was moved or released. */
static inline void kn_arrow_release_schema(struct ArrowSchema *schema)
{
    if (schema->release) schema->release(schema);
    schema->release = NULL;
}
static inline void kn_arrow_release_array(struct ArrowArray *array)
{
    if (array->release) array->release(array);
    array->release = NULL;
}
static inline void kn_arrow_release_stream(struct ArrowArrayStream *stream)
{
    if (stream->release) stream->release(stream);
    stream->release = NULL;
}

#endif
