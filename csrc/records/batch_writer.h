/* Writes record batches (magic 2) directly in their wire form.
 *
 * Thread: the caller's. A writer has no lock; its accumulator's lock guards it.
 * Usage: call init with a buffer and append the records. kn_batch_close() then fills in the header
 * and the checksum. To compress, the caller compresses the records section (data +
 * KN_BATCH_HEADER_BYTES ...) into another buffer and closes that one. */
#ifndef KN_RECORDS_BATCH_WRITER_H
#define KN_RECORDS_BATCH_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"

#define KN_BATCH_HEADER_BYTES 61
#define KN_RECORD_OVERHEAD_MAX_BYTES 36 /* the attributes, and each varint at its maximum length */

/* Offsets of fields in the batch header. */
#define KN_BATCH_AT_LENGTH 8
#define KN_BATCH_AT_LEADER_EPOCH 12
#define KN_BATCH_AT_MAGIC 16
#define KN_BATCH_AT_CRC 17
#define KN_BATCH_AT_ATTRIBUTES 21
#define KN_BATCH_AT_MAX_TIMESTAMP 35

#define KN_ATTR_CODEC_MASK 0x07
#define KN_ATTR_LOG_APPEND_TIME 0x08
#define KN_ATTR_TRANSACTIONAL 0x10
#define KN_ATTR_CONTROL 0x20

struct kn_batch_writer {
    int32_t record_count;
    int64_t base_timestamp_ms;
    int64_t max_timestamp_ms;
};

/* Header fields that the writer doesn't count itself. */
struct kn_batch_meta {
    int64_t base_offset;            /* a producer sends 0 */
    int32_t partition_leader_epoch; /* a producer sends -1 */
    int16_t attributes;             /* codec | KN_ATTR_* */
    int64_t producer_id;            /* -1: none */
    int16_t producer_epoch;         /* -1 */
    int32_t base_sequence;          /* -1 */
};

/* Reserves space for the header in an empty buffer. */
int kn_batch_writer_init(struct kn_batch_writer *writer, struct kn_buffer *buffer);

/* An upper bound of the bytes that one append needs. Sizes < 0 mean null. headers_bytes: the
 * encoded headers without their count. */
static inline size_t kn_record_bound_bytes(int32_t key_bytes, int32_t value_bytes,
                                           size_t headers_bytes)
{
    return KN_RECORD_OVERHEAD_MAX_BYTES + (key_bytes > 0 ? (size_t)key_bytes : 0) +
           (value_bytes > 0 ? (size_t)value_bytes : 0) + headers_bytes;
}

/* Appends one record. The buffer must have kn_record_bound_bytes() of room, else KN_ERR_FULL. A
 * NULL key or value is null. headers: header_count headers in wire form (varint key length, key,
 * varint value length or -1, value ...). */
int kn_batch_writer_append(struct kn_batch_writer *writer, struct kn_buffer *buffer,
                           int64_t timestamp_ms, const uint8_t *key, int32_t key_bytes,
                           const uint8_t *value, int32_t value_bytes, const uint8_t *headers,
                           size_t headers_bytes, int32_t header_count);
/* The same for a record without key and headers, in half the time. */
int kn_batch_writer_append_value(struct kn_batch_writer *writer, struct kn_buffer *buffer,
                                 int64_t timestamp_ms, const uint8_t *value, int32_t value_bytes);

/* Encodes one header at `to` (room: 10 + key + value bytes) and returns its end. A NULL value is
 * null. */
uint8_t *kn_header_encode(uint8_t *to, const void *key, int32_t key_bytes, const void *value,
                          int32_t value_bytes);

/* Fills in the 61-byte header in front of the (possibly compressed) records, and computes the CRC
 * up to buffer->size_bytes. */
void kn_batch_close(struct kn_buffer *buffer, const struct kn_batch_writer *writer,
                    const struct kn_batch_meta *meta);

#endif
