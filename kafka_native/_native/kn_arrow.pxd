# The Arrow C data and stream interfaces, and the functions of csrc/arrow for the bindings. The headers document them.
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafka_native._native.kn_engine cimport kn_chunk, kn_engine, kn_queue, kn_segment, kn_delivery_counter, kn_topic
from kafka_native._native.kn_records cimport kn_pool, kn_record, kn_record_reader


cdef extern from "codecs/abi.h" nogil:
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
        void (*release)(ArrowSchema *schema) noexcept nogil
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
        void (*release)(ArrowArray *array) noexcept nogil
        void *private_data
    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *stream, ArrowSchema *out) noexcept nogil
        int (*get_next)(ArrowArrayStream *stream, ArrowArray *out) noexcept nogil
        const char *(*get_last_error)(ArrowArrayStream *stream) noexcept nogil
        void (*release)(ArrowArrayStream *stream) noexcept nogil
        void *private_data

cdef extern from "arrow/columns.h" nogil:
    enum kn_column_field:
        KN_FIELD_KEY
        KN_FIELD_KEY_ERROR
        KN_FIELD_VALUE_ERROR
        KN_FIELD_KEY_BYTES
        KN_FIELD_VALUE_BYTES
        KN_FIELD_COUNT
    enum kn_column_layout:
        KN_LAYOUT_INT8
        KN_LAYOUT_INT32
        KN_LAYOUT_INT64
        KN_LAYOUT_BYTES
        KN_LAYOUT_LARGE_BYTES
        KN_LAYOUT_VIEW
        KN_LAYOUT_DICTIONARY
        KN_LAYOUT_LIST
        KN_LAYOUT_DECODED
    struct kn_column_spec:
        kn_column_field field
        kn_column_layout layout
        int is_text
        int32_t ticks
        void *type  # kn_layout
        bint is_flat
    struct kn_column:
        int64_t bytes_used
    struct kn_columns:
        int64_t row_count
        int32_t column_count
        kn_column *columns
    enum:
        KN_BLOCK_RECORDS
    struct kn_column_block:
        const kn_record *records
        int32_t count
        kn_chunk *chunk
        const char *topic
        int32_t topic_bytes
        int32_t partition
        int32_t leader_epoch
        int32_t delivery_count
    kn_columns *kn_columns_new(const kn_column_spec *specs, int32_t column_count, kn_pool *pool, int64_t bytes_max)
    kn_columns *kn_columns_ref(kn_columns *columns)
    void kn_columns_unref(kn_columns *columns)
    long kn_columns_live()
    void kn_columns_expect(kn_columns *columns, int32_t column, int64_t row_count, int64_t size_bytes)
    int kn_columns_append(kn_columns *columns, const kn_column_block *block, int32_t *taken, int32_t *column)
    void kn_columns_set_malformed(kn_columns *columns, kn_columns *malformed)
    int64_t kn_columns_record_count(const kn_columns *columns)
    void kn_columns_truncate(kn_columns *columns, int64_t row_count)
    struct kn_kept_bytes:
        pass
    kn_kept_bytes *kn_kept_bytes_new()
    void kn_kept_bytes_unref(kn_kept_bytes *held)
    void kn_columns_set_kept_bytes(kn_columns *columns, kn_kept_bytes *held, int64_t max_bytes)
    void kn_columns_settle(kn_columns *columns)
    int64_t kn_columns_size_bytes(const kn_columns *columns)

cdef extern from "arrow/export.h" nogil:
    int kn_columns_export_schema(const kn_column_spec *specs, int32_t column_count, ArrowSchema *out)
    int kn_columns_export(kn_columns *columns, ArrowArray *out)
    int kn_columns_export_stream(kn_columns *columns, ArrowArrayStream *out)
    const char *kn_column_name(kn_column_field field)
    void kn_arrow_release_schema(ArrowSchema *schema)
    void kn_arrow_release_array(ArrowArray *array)
    void kn_arrow_release_stream(ArrowArrayStream *stream)

cdef extern from "arrow/fill.h" nogil:
    enum kn_fill_end:
        KN_FILL_PAUSED
        KN_FILL_DRAINED
        KN_FILL_FULL
        KN_FILL_NOTICE
        KN_FILL_BROKEN
        KN_FILL_UNFIT
        KN_FILL_UNKNOWN_SCHEMA
        KN_FILL_NOMEM
    struct kn_taken_segment:
        kn_segment *segment
        int64_t first_offset
        int64_t next_offset
        int32_t leader_epoch
        int has_batch
        int is_done
    struct kn_fill:
        kn_columns *columns
        kn_queue *queue
        int64_t records_max
        kn_segment *segment
        kn_record_reader reader
        int is_reading
        int32_t taken_count
        int32_t unfit_column
        int64_t unfit_offset
        kn_taken_segment *taken
    kn_fill_end kn_fill_run(kn_fill *fill)
    void kn_fill_revert(kn_fill *fill, int32_t start)
    void kn_fill_finish(kn_fill *fill)

cdef extern from "codecs/import.h" nogil:
    struct kn_arrow_problem:
        int64_t row
        const char *text
    const char *kn_arrow_check_schema(const ArrowSchema *schema)
    int kn_arrow_check_array(const ArrowArray *array, int64_t skip, int64_t length, int64_t buffers, kn_arrow_problem *problem)

cdef extern from "arrow/rows.h" nogil:
    enum kn_rows_role:
        KN_ROWS_VALUE
        KN_ROWS_KEY
        KN_ROWS_HEADERS
        KN_ROWS_TIMESTAMP
        KN_ROWS_PARTITION
        KN_ROWS_TOPIC
        KN_ROWS_ROLES
    struct kn_rows:
        int32_t *columns
        int table_is_column
        int needs_partition
        kn_topic *topic
        int32_t partition
        int64_t timestamp_ms
        int zero_is_time
        kn_delivery_counter *counter
        int64_t length
        int64_t at
        int64_t before
    const char *kn_rows_check_type(const ArrowSchema *schema, kn_rows_role role)
    void kn_rows_init(kn_rows *rows)
    void kn_rows_deinit(kn_rows *rows)
    int kn_rows_add_header(
        kn_rows *rows, kn_rows_role role, const uint8_t *name, int32_t name_bytes, const uint8_t *value, int32_t value_bytes)
    int kn_rows_bind(kn_rows *rows, const ArrowSchema *schema, const ArrowArray *array, kn_arrow_problem *problem, int *role)
    int kn_rows_append_waiting(kn_rows *rows, kn_engine *engine, int64_t *deadline_us, int64_t stall_us)
    void kn_rows_topic_name(const kn_rows *rows, const uint8_t **name, int64_t *size)
    int kn_rows_add_topic(kn_rows *rows, kn_topic *topic)
