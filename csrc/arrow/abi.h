/* The Arrow C data interface and C stream interface: three structs whose layout is the contract
 * between libraries that share no code.
 *
 * Thread: whoever owns a struct; nothing here locks. Who frees: the consumer of a struct calls its
 * release(), once, from any thread; a released struct has release == NULL. Moving one is copying
 * its bytes and setting release to NULL in the old place. A child may be moved out of its parent.
 * Source: https://arrow.apache.org/docs/format/CDataInterface.html. The names are Arrow's own; the
 * guards keep other headers from declaring them twice.
 */
#ifndef KN_ARROW_ABI_H
#define KN_ARROW_ABI_H

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
    /* the type of the values; `format` is then that of the indices */
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *schema);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count; /* -1: not counted */
    int64_t offset;     /* items of every buffer, and of every child, to leave out in front */
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
    /* 0, or an errno value; *out has to be released. */
    int (*get_schema)(struct ArrowArrayStream *stream, struct ArrowSchema *out);
    /* The same; a released *out is the end of the stream. */
    int (*get_next)(struct ArrowArrayStream *stream, struct ArrowArray *out);
    /* What the last call that failed has to say, until the next call; NULL: nothing. */
    const char *(*get_last_error)(struct ArrowArrayStream *stream);
    void (*release)(struct ArrowArrayStream *stream);
    void *private_data;
};

#endif

#endif
