/* Writes record batches (magic 2) in their wire form: see batch_writer.h.
 *
 * Thread: the caller's. Lock: none here; an accumulator's lock guards its writer.
 * Who frees: the caller owns the buffer. */
#include "records/batch_writer.h"

#include <string.h>
#include "base/crc32c.h"
#include "base/endian.h"
#include "base/status.h"
#include "base/varint.h"

#define MAGIC 2

int kn_batch_writer_init(struct kn_batch_writer *writer, struct kn_buffer *buffer)
{
    if (buffer->capacity_bytes < KN_BATCH_HEADER_BYTES) return KN_ERR_FULL;
    buffer->size_bytes = KN_BATCH_HEADER_BYTES;
    writer->record_count = 0;
    writer->base_timestamp_ms = -1;
    writer->max_timestamp_ms = -1;
    return KN_OK;
}

static uint8_t *put_bytes(uint8_t *to, const uint8_t *bytes, size_t size_bytes)
{
    if (!bytes) return kn_varint_put(to, -1);
    to = kn_varint_put(to, (int64_t)size_bytes);
    memcpy(to, bytes, size_bytes);
    return to + size_bytes;
}

/* Always inline, so that the record without key and headers gets code of its own. */
static inline __attribute__((always_inline)) int append(struct kn_batch_writer *writer,
                                                        struct kn_buffer *buffer,
                                                        int64_t timestamp_ms, const uint8_t *key,
                                                        int32_t key_bytes, const uint8_t *value,
                                                        int32_t value_bytes, const uint8_t *headers,
                                                        size_t headers_bytes, int32_t header_count)
{
    /* A null pointer or a negative size is null; an empty string has a pointer. */
    if (!key || key_bytes < 0) key = NULL, key_bytes = 0;
    if (!value || value_bytes < 0) value = NULL, value_bytes = 0;

    size_t room = buffer->capacity_bytes - buffer->size_bytes;
    if (headers_bytes > INT32_MAX ||
        kn_record_bound_bytes(key_bytes, value_bytes, headers_bytes) > INT32_MAX)
        return KN_ERR_TOO_LARGE;
    if (kn_record_bound_bytes(key_bytes, value_bytes, headers_bytes) > room ||
        writer->record_count == INT32_MAX)
        return KN_ERR_FULL;

    if (writer->record_count == 0)
        writer->base_timestamp_ms = writer->max_timestamp_ms = timestamp_ms;
    /* Unsigned: the delta between distant timestamps wraps, and wraps back when it is read. */
    int64_t timestamp_delta = (int64_t)((uint64_t)timestamp_ms -
                                        (uint64_t)writer->base_timestamp_ms);

    size_t body_bytes = 1 + kn_varint_size(timestamp_delta) + kn_varint_size(writer->record_count) +
                        kn_varint_size(key ? key_bytes : -1) + (size_t)key_bytes +
                        kn_varint_size(value ? value_bytes : -1) + (size_t)value_bytes +
                        kn_varint_size(header_count) + headers_bytes;

    uint8_t *to = buffer->data + buffer->size_bytes;
    to = kn_varint_put(to, (int64_t)body_bytes);
    *to++ = 0; /* record attributes: none are defined */
    to = kn_varint_put(to, timestamp_delta);
    to = kn_varint_put(to, writer->record_count);
    to = put_bytes(to, key, (size_t)key_bytes);
    to = put_bytes(to, value, (size_t)value_bytes);
    to = kn_varint_put(to, header_count);
    if (headers_bytes) memcpy(to, headers, headers_bytes);
    to += headers_bytes;

    buffer->size_bytes = (size_t)(to - buffer->data);
    writer->record_count++;
    if (timestamp_ms > writer->max_timestamp_ms) writer->max_timestamp_ms = timestamp_ms;
    return KN_OK;
}

int kn_batch_writer_append(struct kn_batch_writer *writer, struct kn_buffer *buffer,
                           int64_t timestamp_ms, const uint8_t *key, int32_t key_bytes,
                           const uint8_t *value, int32_t value_bytes, const uint8_t *headers,
                           size_t headers_bytes, int32_t header_count)
{
    return append(writer, buffer, timestamp_ms, key, key_bytes, value, value_bytes, headers,
                  headers_bytes, header_count);
}

int kn_batch_writer_append_value(struct kn_batch_writer *writer, struct kn_buffer *buffer,
                                 int64_t timestamp_ms, const uint8_t *value, int32_t value_bytes)
{
    return append(writer, buffer, timestamp_ms, NULL, -1, value, value_bytes, NULL, 0, 0);
}

uint8_t *kn_header_encode(uint8_t *to, const void *key, int32_t key_bytes, const void *value,
                          int32_t value_bytes)
{
    static const uint8_t nothing[1];
    to = put_bytes(to, key && key_bytes > 0 ? key : nothing, key_bytes > 0 ? (size_t)key_bytes : 0);
    return put_bytes(to, value_bytes < 0 ? NULL : value, value_bytes < 0 ? 0 : (size_t)value_bytes);
}

void kn_batch_close(struct kn_buffer *buffer, const struct kn_batch_writer *writer,
                    const struct kn_batch_meta *meta)
{
    uint8_t *to = buffer->data;

    to = kn_put_i64(to, meta->base_offset);
    to = kn_put_i32(to, (int32_t)(buffer->size_bytes - (KN_BATCH_AT_LENGTH + 4)));
    to = kn_put_i32(to, meta->partition_leader_epoch);
    to = kn_put_i8(to, MAGIC);
    to = kn_put_i32(to, 0); /* the checksum, filled in at the end */
    to = kn_put_i16(to, meta->attributes);
    to = kn_put_i32(to, writer->record_count - 1);
    to = kn_put_i64(to, writer->base_timestamp_ms);
    to = kn_put_i64(to, writer->max_timestamp_ms);
    to = kn_put_i64(to, meta->producer_id);
    to = kn_put_i16(to, meta->producer_epoch);
    to = kn_put_i32(to, meta->base_sequence);
    kn_put_i32(to, writer->record_count);

    uint32_t crc = kn_crc32c(0, buffer->data + KN_BATCH_AT_ATTRIBUTES,
                             buffer->size_bytes - KN_BATCH_AT_ATTRIBUTES);
    kn_put_i32(buffer->data + KN_BATCH_AT_CRC, (int32_t)crc);
}
