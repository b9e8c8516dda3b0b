/* Types that the readers of batches and records share: the view of a batch, a record, and the state
 * of a reader.
 *
 * Thread: any.
 * Who frees: the caller. All point into the input, or into the buffer that the caller decompressed
 * into. */
#ifndef KN_RECORDS_RECORD_TYPES_H
#define KN_RECORDS_RECORD_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/span.h"

#define KN_RECORD_MIN_BYTES 7 /* length, attributes, five varints */

struct kn_batch_view {
    int64_t base_offset; /* legacy: the offset field of the (outer) message */
    int64_t last_offset; /* base_offset + last_offset_delta; legacy: the outer offset */
    int64_t base_timestamp_ms;
    int64_t max_timestamp_ms; /* the log-append time if the attribute is set */
    int64_t producer_id;
    int32_t partition_leader_epoch;
    int32_t base_sequence;
    int32_t record_count; /* legacy: 1, or unknown (-1) for a compressed wrapper until opened */
    int16_t producer_epoch;
    int16_t attributes;
    int8_t magic;
    uint32_t crc;
    const uint8_t *raw; /* the whole batch as fetched */
    size_t raw_bytes;
    const uint8_t *records; /* the records section; plain after kn_batch_view_open() */
    size_t records_bytes;
};

static inline int kn_batch_view_codec(const struct kn_batch_view *view)
{
    return view->attributes & 0x07;
}
static inline bool kn_batch_view_is_control(const struct kn_batch_view *view)
{
    return view->magic == 2 && (view->attributes & 0x20) != 0;
}

struct kn_record {
    int64_t offset;
    int64_t timestamp_ms;   /* -1: none (magic 0) */
    const uint8_t *key;     /* NULL: null */
    const uint8_t *value;   /* NULL: null */
    const uint8_t *headers; /* header_count headers in wire form */
    int32_t key_bytes;
    int32_t value_bytes;
    int32_t headers_bytes;
    int32_t header_count;
    int8_t attributes;
    int8_t timestamp_type; /* 0 create time, 1 log append time, -1 not available */
};

/* Bytes of key, value and headers: the size that counts for limits. */
static inline int64_t kn_record_bytes(const struct kn_record *record)
{
    return (record->key ? record->key_bytes : 0) +
           (int64_t)(record->value ? record->value_bytes : 0) + record->headers_bytes;
}

struct kn_record_reader {
    struct kn_span span;
    struct kn_batch_view view; /* a copy: the reader outlives the caller's view */
    int32_t left;              /* records left (magic 2) */
    int64_t legacy_base;       /* added to the relative offsets in a v1 wrapper */
};

#endif
