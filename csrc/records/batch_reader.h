/* Reads record batches (magic 2) and message sets (magic 0 and 1) from borrowed bytes.
 *
 * Thread: any; no state outside the structs. Who frees: nobody, everything borrows from the input (or from the buffer that the
 * caller decompressed into). Every length and count is checked against what is left before it is used.
 *
 *   kn_batch_view_next()  walks the records bytes of a fetched partition, one batch (or legacy message) at a time
 *   kn_batch_view_check() verifies the checksum
 *   kn_batch_view_open()  decompresses if needed; afterwards records/records_bytes are plain
 *   kn_record_reader_*    iterates the records of an opened view, whatever its magic
 */
#ifndef KN_RECORDS_BATCH_READER_H
#define KN_RECORDS_BATCH_READER_H

#include <stdint.h>
#include "base/buffer.h"
#include "base/span.h"
#include "records/codec.h"

struct kn_batch_view {
    int64_t base_offset;      /* legacy: the offset field of the (outer) message */
    int64_t last_offset;      /* base_offset + last_offset_delta; legacy: the outer offset */
    int64_t base_timestamp_ms;
    int64_t max_timestamp_ms; /* log-append time where the attribute says so */
    int64_t producer_id;
    int32_t partition_leader_epoch;
    int32_t base_sequence;
    int32_t record_count;     /* legacy: 1, or unknown (-1) for a compressed wrapper until opened */
    int16_t producer_epoch;
    int16_t attributes;
    int8_t magic;
    uint32_t crc;
    const uint8_t *raw;       /* the whole batch as it came */
    size_t raw_bytes;
    const uint8_t *records;   /* records section; after open: plain */
    size_t records_bytes;
};

/* Takes the next batch off `span`. KN_OK; KN_ERR_TRUNCATED: the last, partial batch (normal at the end of a fetch, span untouched);
 * KN_ERR_INVALID: malformed (raw_bytes and last_offset are set when they can be known). An empty span is KN_ERR_TRUNCATED. */
int kn_batch_view_next(struct kn_span *span, struct kn_batch_view *view);
int kn_batch_view_check(const struct kn_batch_view *view); /* KN_OK or KN_ERR_CRC */
static inline int kn_batch_view_codec(const struct kn_batch_view *view) { return view->attributes & 0x07; }
static inline int kn_batch_view_is_control(const struct kn_batch_view *view) { return view->magic == 2 && (view->attributes & 0x20) != 0; }
/* Decompresses the records into a buffer taken from `pool` (*out, owned by the caller; NULL when the batch wasn't compressed). */
int kn_batch_view_open(struct kn_batch_view *view, const struct kn_codec_table *codecs, size_t max_bytes, struct kn_pool *pool,
                       struct kn_buffer **out);

struct kn_record {
    int64_t offset;
    int64_t timestamp_ms;     /* -1: none (magic 0) */
    const uint8_t *key;       /* NULL: null */
    const uint8_t *value;     /* NULL: null */
    const uint8_t *headers;   /* header_count headers in wire form */
    int32_t key_bytes;
    int32_t value_bytes;
    int32_t headers_bytes;
    int32_t header_count;
    int8_t attributes;
    int8_t timestamp_type;    /* 0 create time, 1 log append time, -1 not available */
};

struct kn_record_reader {
    struct kn_span span;
    struct kn_batch_view view; /* by value: the reader outlives the caller's copy */
    int32_t left;              /* records left (magic 2) */
    int64_t legacy_base;       /* what to add to a v1 wrapper's relative offsets */
};

int kn_record_reader_init(struct kn_record_reader *reader, const struct kn_batch_view *opened_view);
/* KN_OK with *record filled; KN_ERR_TRUNCATED at the clean end; KN_ERR_INVALID for malformed records. */
int kn_record_reader_next(struct kn_record_reader *reader, struct kn_record *record);
/* Key, value and headers once more, of a record of magic 2 that kn_record_reader_next() has accepted; `start` is where its span
 * stood before. Offset and timestamp are left alone: they need the batch. */
void kn_record_reread(const uint8_t *start, struct kn_record *record);

struct kn_header {
    const uint8_t *key;
    const uint8_t *value; /* NULL: null */
    int32_t key_bytes;
    int32_t value_bytes;
};
/* Takes the next header off a span over record->headers. */
int kn_header_next(struct kn_span *span, struct kn_header *header);

#endif
