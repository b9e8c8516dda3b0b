# The Arrow C data and stream interfaces, and what the bindings call of csrc/arrow. Comments, threads and owners are in the headers.
from libc.stdint cimport int64_t


cdef extern from "arrow/abi.h" nogil:
    enum:
        ARROW_FLAG_DICTIONARY_ORDERED
        ARROW_FLAG_NULLABLE
        ARROW_FLAG_MAP_KEYS_SORTED
    struct ArrowSchema:
        const char *format
        const char *name
        const char *metadata
        int64_t flags
        int64_t n_children
        ArrowSchema **children
        ArrowSchema *dictionary
        void (*release)(ArrowSchema *schema) noexcept
        void *private_data
    struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void **buffers
        ArrowArray **children
        ArrowArray *dictionary
        void (*release)(ArrowArray *array) noexcept
        void *private_data
    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *stream, ArrowSchema *out) noexcept
        int (*get_next)(ArrowArrayStream *stream, ArrowArray *out) noexcept
        const char *(*get_last_error)(ArrowArrayStream *stream) noexcept
        void (*release)(ArrowArrayStream *stream) noexcept
        void *private_data
