# The functions of csrc/base and csrc/records for the bindings. The headers document them.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kafka_native._native.kn_enums cimport KN_CODEC_COUNT

cdef extern from "base/status.h" nogil:
    const char *kn_status_text(int status)

cdef extern from "base/buffer.h" nogil:
    struct kn_pool:
        pass
    struct kn_buffer:
        kn_pool *pool
        uint8_t *data
        size_t size_bytes
        size_t capacity_bytes
    kn_pool *kn_pool_new(size_t keep_bytes)
    void kn_pool_free(kn_pool *pool)
    void kn_pool_trim(kn_pool *pool, size_t keep_bytes)
    size_t kn_pool_idle_bytes(kn_pool *pool)
    kn_buffer *kn_buffer_take(kn_pool *pool, size_t capacity_bytes)
    void kn_buffer_give(kn_buffer *buffer)
    int kn_buffer_reserve(kn_buffer **buffer, size_t more_bytes)
    int kn_buffer_append(kn_buffer **buffer, const void *data, size_t size_bytes)
    long kn_buffer_live()

cdef extern from "base/span.h" nogil:
    struct kn_span:
        const uint8_t *at
        const uint8_t *end
        int failed
    kn_span kn_span_of(const void *data, size_t size_bytes)
    size_t kn_span_left(const kn_span *span)
    uint32_t kn_span_uvarint(kn_span *span)
    int64_t kn_span_varlong(kn_span *span)

cdef extern from "base/varint.h" nogil:
    enum:
        KN_VARLONG_MAX_BYTES
    size_t kn_uvarint_size(uint64_t value)
    size_t kn_varint_size(int64_t value)
    uint8_t *kn_uvarint_put(uint8_t *to, uint64_t value)
    uint8_t *kn_varint_put(uint8_t *to, int64_t value)
    const uint8_t *kn_varlong_get(const uint8_t *at, const uint8_t *end, int64_t *value)
    const uint8_t *kn_varint_get(const uint8_t *at, const uint8_t *end, int32_t *value)

cdef extern from "base/endian.h" nogil:
    uint8_t *kn_put_i16(uint8_t *to, int16_t value)
    uint8_t *kn_put_i32(uint8_t *to, int32_t value)
    uint8_t *kn_put_i64(uint8_t *to, int64_t value)
    int32_t kn_get_i32(const uint8_t *data)

cdef extern from "base/crc32c.h" nogil:
    uint32_t kn_crc32c(uint32_t crc, const void *data, size_t size_bytes)
    uint32_t kn_crc32c_portable(uint32_t crc, const void *data, size_t size_bytes)
    const char *kn_crc32c_backend()

cdef extern from "base/hash.h" nogil:
    uint32_t kn_murmur2(const void *data, size_t size_bytes)
    uint32_t kn_crc32(uint32_t crc, const void *data, size_t size_bytes)
    uint32_t kn_fnv1a(const void *data, size_t size_bytes)

cdef extern from "records/codec.h" nogil:
    ctypedef int kn_compress_fn(const uint8_t *src, size_t size_bytes, int level, kn_buffer **out) noexcept
    ctypedef int kn_decompress_fn(const uint8_t *src, size_t size_bytes, size_t max_bytes, kn_buffer **out) noexcept
    struct kn_codec:
        const char *name
        const char *library
        kn_compress_fn *compress
        kn_decompress_fn *decompress
        int quicker_forms
    struct kn_codec_table:
        kn_codec codecs[KN_CODEC_COUNT]
    void kn_codec_table_init(kn_codec_table *table)
    int kn_lz4_decompress_legacy(const uint8_t *src, size_t size_bytes, size_t max_bytes, kn_buffer **out)

cdef extern from "records/lz4_legacy.h" nogil:
    int kn_lz4_legacy_call(kn_decompress_fn *decompress, const uint8_t *src, size_t size_bytes, size_t max_bytes, kn_buffer **out)

cdef extern from "records/batch_writer.h" nogil:
    enum:
        KN_BATCH_HEADER_BYTES
        KN_BATCH_AT_LEADER_EPOCH
        KN_BATCH_AT_MAGIC
        KN_BATCH_AT_CRC
        KN_BATCH_AT_ATTRIBUTES
        KN_BATCH_AT_MAX_TIMESTAMP
        KN_RECORD_OVERHEAD_MAX_BYTES
        KN_ATTR_CODEC_MASK
        KN_ATTR_LOG_APPEND_TIME
        KN_ATTR_TRANSACTIONAL
        KN_ATTR_CONTROL
    struct kn_batch_writer:
        int32_t record_count
        int64_t base_timestamp_ms
        int64_t max_timestamp_ms
    struct kn_batch_meta:
        int64_t base_offset
        int32_t partition_leader_epoch
        int16_t attributes
        int64_t producer_id
        int16_t producer_epoch
        int32_t base_sequence
    int kn_batch_writer_init(kn_batch_writer *writer, kn_buffer *buffer)
    size_t kn_record_bound_bytes(int32_t key_bytes, int32_t value_bytes, size_t headers_bytes)
    int kn_batch_writer_append(kn_batch_writer *writer, kn_buffer *buffer, int64_t timestamp_ms, const uint8_t *key,
                               int32_t key_bytes, const uint8_t *value, int32_t value_bytes, const uint8_t *headers,
                               size_t headers_bytes, int32_t header_count)
    uint8_t *kn_header_encode(uint8_t *to, const void *key, int32_t key_bytes, const void *value, int32_t value_bytes)
    void kn_batch_close(kn_buffer *buffer, const kn_batch_writer *writer, const kn_batch_meta *meta)

cdef extern from "records/batch_reader.h" nogil:
    struct kn_batch_view:
        int64_t base_offset
        int64_t last_offset
        int64_t base_timestamp_ms
        int64_t max_timestamp_ms
        int64_t producer_id
        int32_t partition_leader_epoch
        int32_t base_sequence
        int32_t record_count
        int16_t producer_epoch
        int16_t attributes
        int8_t magic
        uint32_t crc
        const uint8_t *raw
        size_t raw_bytes
        const uint8_t *records
        size_t records_bytes
    int kn_batch_view_next(kn_span *span, kn_batch_view *view)
    int kn_batch_view_check(const kn_batch_view *view)
    int kn_batch_view_codec(const kn_batch_view *view)
    int kn_batch_view_is_control(const kn_batch_view *view)
    int kn_batch_view_open(kn_batch_view *view, const kn_codec_table *codecs, size_t max_bytes, kn_pool *pool, kn_buffer **out)

cdef extern from "records/record_reader.h" nogil:
    struct kn_record:
        int64_t offset
        int64_t timestamp_ms
        const uint8_t *key
        const uint8_t *value
        const uint8_t *headers
        int32_t key_bytes
        int32_t value_bytes
        int32_t headers_bytes
        int32_t header_count
        int8_t attributes
        int8_t timestamp_type
    struct kn_record_reader:
        kn_span span
        kn_batch_view view
        int32_t left
    int kn_record_reader_init(kn_record_reader *reader, const kn_batch_view *opened_view)
    int kn_record_reader_next(kn_record_reader *reader, kn_record *record)
    void kn_record_reread(const uint8_t *start, kn_record *record)
    struct kn_header:
        const uint8_t *key
        const uint8_t *value
        int32_t key_bytes
        int32_t value_bytes
    int kn_header_next(kn_span *span, kn_header *header)

cdef extern from "records/legacy_writer.h" nogil:
    struct kn_legacy_form:
        int8_t magic
        int8_t codec_id
        const kn_codec *codec
        int level
        int64_t first_offset
    int kn_legacy_write(const kn_batch_view *opened, const kn_legacy_form *form, kn_buffer **out)
