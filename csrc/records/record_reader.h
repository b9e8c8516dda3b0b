/* Iterates the records of an opened batch view, of any magic, from borrowed bytes.
 *
 * Thread: any; no state outside the structs.
 * Who frees: the caller. Records point into the input, or into the buffer that the caller
 * decompressed into. Every length and count is checked against the remaining bytes before it is
 * used.
 *
 * The common kind of record is read inline: the caller's loop keeps the fields that it uses in
 * registers, and the compiler drops the others. */
#ifndef KN_RECORDS_RECORD_READER_H
#define KN_RECORDS_RECORD_READER_H

#include <stdint.h>
#include "base/span.h"
#include "base/status.h"
#include "base/varint.h"
#include "records/batch_reader.h"
#include "records/batch_writer.h"
#include "records/legacy_reader.h"

/* attributes, five varints before the value */
#define KN_RECORD_NUMBERS_BYTES (1 + 5 * KN_UVARINT_SHORT_BYTES)
/* distance behind a record's end: half of this or more is as quick, less is slower */
#define KN_PREFETCH_BYTES 1024

int kn_record_reader_init(struct kn_record_reader *reader, const struct kn_batch_view *opened_view);
/* Reads key, value and headers of a record of magic 2 again, which kn_record_reader_next() has
 * accepted. `start` is the position of the reader's span before that record. Leaves offset and
 * timestamp alone, because they need the batch. */
void kn_record_reread(const uint8_t *start, struct kn_record *record);

struct kn_header {
    const uint8_t *key;
    const uint8_t *value; /* NULL: a null value */
    int32_t key_bytes;
    int32_t value_bytes;
};
/* Takes the next header off a span over record->headers. */
int kn_header_next(struct kn_span *span, struct kn_header *header);

/* Like kn_record_reader_next(), for every kind of record. */
int kn_record_reader_any(struct kn_record_reader *reader, struct kn_record *record);

/* Prefetches the memory behind a record. Another core has written the records, and the reader jumps
 * over their values. A processor that doesn't predict this would wait for memory once per record. A
 * prefetch reads nothing, so the address may be behind the end. */
static inline void kn_record_prefetch(const uint8_t *end)
{
    __builtin_prefetch((const void *)((uintptr_t)end + KN_PREFETCH_BYTES));
    __builtin_prefetch((const void *)((uintptr_t)end + KN_PREFETCH_BYTES + 64));
}

/* Computes offset and timestamp of a record of magic 2 from its deltas and the batch. The reader
 * goes on at `end`. */
static inline void kn_record_complete(struct kn_record_reader *reader, struct kn_record *record,
                                      const uint8_t *end, int64_t timestamp_delta,
                                      int32_t offset_delta)
{
    const struct kn_batch_view *view = &reader->view;

    record->offset = view->base_offset + offset_delta;
    record->timestamp_type = (view->attributes & KN_ATTR_LOG_APPEND_TIME) != 0;
    record->timestamp_ms = record->timestamp_type ? view->max_timestamp_ms
                                                  : (int64_t)((uint64_t)view->base_timestamp_ms +
                                                              (uint64_t)timestamp_delta);
    reader->span.at = end;
    reader->left--;
}

/* Takes the next record if it is of the common kind: magic 2, no headers, numbers of at most three
 * bytes, and not among the last bytes. Then a few checks of the remaining length cover the whole
 * record. Otherwise takes nothing and returns 0. */
static inline __attribute__((always_inline)) int kn_record_reader_usual(
    struct kn_record_reader *reader, struct kn_record *record)
{
    const struct kn_batch_view *view = &reader->view;
    const uint8_t *at = reader->span.at;
    /* zig-zag: odd numbers are negative, 1 is null */
    uint32_t length, timestamp, offset, key, value;

    if (view->magic != 2 || reader->left <= 0 || reader->span.end - at < KN_RECORD_NUMBERS_BYTES)
        return 0;
    if (!(at = kn_uvarint_get_short(at, &length)) || length & 1 ||
        length >> 1 > (size_t)(reader->span.end - at))
        return 0;
    const uint8_t *end = at + (length >> 1);
    kn_record_prefetch(end);
    record->attributes = (int8_t)*at++;
    if (!(at = kn_uvarint_get_short(at, &timestamp)) || !(at = kn_uvarint_get_short(at, &offset)) ||
        !(at = kn_uvarint_get_short(at, &key)))
        return 0;
    record->key = key == 1 ? NULL : at;
    record->key_bytes = key == 1 ? -1 : (int32_t)(key >> 1);
    if (key != 1) {
        if (key & 1 || (ptrdiff_t)(key >> 1) > end - at - KN_UVARINT_SHORT_BYTES) return 0;
        at += key >> 1;
    }
    if (!(at = kn_uvarint_get_short(at, &value))) return 0;
    record->value = value == 1 ? NULL : at;
    record->value_bytes = value == 1 ? -1 : (int32_t)(value >> 1);
    if (value != 1) {
        if (value & 1 || (ptrdiff_t)(value >> 1) >= end - at) return 0;
        at += value >> 1;
    }
    if (end - at != 1 || *at != 0 || offset & 1 ||
        offset >> 1 > view->last_offset - view->base_offset)
        return 0;

    record->headers = end;
    record->headers_bytes = record->header_count = 0;
    kn_record_complete(reader, record, end, kn_unzigzag(timestamp), (int32_t)(offset >> 1));
    return 1;
}

/* KN_OK: *record is filled. KN_ERR_TRUNCATED: the end. KN_ERR_INVALID: malformed; the reader's
 * position is unchanged. */
static inline __attribute__((always_inline)) int kn_record_reader_next(
    struct kn_record_reader *reader, struct kn_record *record)
{
    struct kn_record other; /* so that the address of *record isn't passed on */
    int status;

    if (__builtin_expect(kn_record_reader_usual(reader, record), 1)) return KN_OK;
    if ((status = kn_record_reader_any(reader, &other)) == KN_OK) *record = other;
    return status;
}

#endif
