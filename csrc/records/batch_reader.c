/* Walks, checks, opens and iterates record batches: see batch_reader.h.
 *
 * Thread: any. Lock: none. Who frees: everything borrows from the input; the buffer of an opened batch is the caller's.
 *
 * The input comes from the network. The order is always: is it there (bytes left), can it be (ranges and caps), then use it.
 */
#include "records/batch_reader.h"

#include <string.h>
#include "base/crc32c.h"
#include "base/endian.h"
#include "base/status.h"
#include "base/varint.h"
#include "records/batch_writer.h"
#include "records/legacy_reader.h"
#include "records/lz4_legacy.h"

#define PREFIX_BYTES 12 /* base offset, length: what every magic starts with */
#define AT_LENGTH 8
#define AT_MAGIC 16
#define AT_ATTRIBUTES 21
#define PREFETCH_BYTES 1024 /* ahead of a record's end: half as much and more is as quick, less is slower */
#define RECORD_MIN_BYTES 7 /* length, attributes, five varints */
#define HEADER_MIN_BYTES 2 /* two lengths */

/* Fills a magic 2 view from its raw bytes, which are all there. */
static int parse_v2(struct kn_batch_view *view)
{
    struct kn_span span = kn_span_of(view->raw, view->raw_bytes);

    kn_span_take(&span, PREFIX_BYTES);
    view->partition_leader_epoch = kn_span_i32(&span);
    kn_span_i8(&span);
    view->crc = (uint32_t)kn_span_i32(&span);
    view->attributes = kn_span_i16(&span);
    int32_t last_offset_delta = kn_span_i32(&span);
    view->base_timestamp_ms = kn_span_i64(&span);
    view->max_timestamp_ms = kn_span_i64(&span);
    view->producer_id = kn_span_i64(&span);
    view->producer_epoch = kn_span_i16(&span);
    view->base_sequence = kn_span_i32(&span);
    view->record_count = kn_span_i32(&span);
    view->records = span.at;
    view->records_bytes = kn_span_left(&span);

    view->last_offset = view->base_offset;
    if (span.failed || view->base_offset < 0 || last_offset_delta < -1 || view->record_count < 0) return KN_ERR_INVALID;
    view->last_offset += last_offset_delta;
    if (last_offset_delta < 0 && view->record_count > 0) return KN_ERR_INVALID;
    if (view->record_count > (int64_t)last_offset_delta + 1) return KN_ERR_INVALID;
    if (kn_batch_view_codec(view) == KN_CODEC_NONE && (size_t)view->record_count > view->records_bytes / RECORD_MIN_BYTES)
        return KN_ERR_INVALID;
    return KN_OK;
}

int kn_batch_view_next(struct kn_span *span, struct kn_batch_view *view)
{
    size_t left = kn_span_left(span);

    if (span->failed || left < PREFIX_BYTES) return KN_ERR_TRUNCATED;
    int32_t length = kn_get_i32(span->at + AT_LENGTH);
    if (length < KN_LEGACY_MESSAGE_MIN_BYTES) return KN_ERR_INVALID;
    if ((size_t)length > left - PREFIX_BYTES) return KN_ERR_TRUNCATED;

    int64_t unknown_last_offset = view->last_offset;
    memset(view, 0, sizeof *view);
    view->last_offset = unknown_last_offset;
    view->producer_id = -1;
    view->producer_epoch = -1;
    view->base_sequence = -1;
    view->partition_leader_epoch = -1;
    view->raw = span->at;
    view->raw_bytes = PREFIX_BYTES + (size_t)length;
    view->base_offset = (int64_t)((uint64_t)kn_get_u32(span->at) << 32 | kn_get_u32(span->at + 4));
    view->magic = (int8_t)span->at[AT_MAGIC];
    /* Offsets after the batch can be calculated, whatever its deltas. */
    if (view->base_offset < 0 || view->base_offset > INT64_MAX - INT32_MAX) return KN_ERR_INVALID;

    int status;
    if (view->magic == 2) {
        status = view->raw_bytes < KN_BATCH_HEADER_BYTES ? KN_ERR_INVALID : parse_v2(view);
    } else if (view->magic == 0 || view->magic == 1) {
        status = kn_legacy_view_parse(view);
    } else {
        status = KN_ERR_INVALID;
    }
    if (status == KN_OK) span->at += view->raw_bytes;
    return status;
}

int kn_batch_view_check(const struct kn_batch_view *view)
{
    if (view->magic < 2) return kn_legacy_view_check(view);
    return kn_crc32c(0, view->raw + AT_ATTRIBUTES, view->raw_bytes - AT_ATTRIBUTES) == view->crc ? KN_OK : KN_ERR_CRC;
}

/* Decompresses the records section of a view into a fresh buffer. */
static int decompress(const struct kn_batch_view *view, const struct kn_codec *codec, size_t max_bytes, struct kn_pool *pool,
                      struct kn_buffer **out)
{
    /* The functions grow the buffer themselves; three times the input is where most batches end. */
    size_t guess_bytes = view->records_bytes < max_bytes / 3 ? view->records_bytes * 3 : max_bytes;
    struct kn_buffer *buffer = kn_buffer_take(pool, guess_bytes);
    int status;

    if (!buffer) return KN_ERR_NOMEM;
    if (view->magic == 0 && kn_batch_view_codec(view) == KN_CODEC_LZ4) {
        status = kn_lz4_legacy_call(codec->decompress, view->records, view->records_bytes, max_bytes, &buffer);
    } else {
        status = codec->decompress(view->records, view->records_bytes, max_bytes, &buffer);
    }
    if (status != KN_OK) {
        kn_buffer_give(buffer);
        return status;
    }
    *out = buffer;
    return KN_OK;
}

int kn_batch_view_open(struct kn_batch_view *view, const struct kn_codec_table *codecs, size_t max_bytes, struct kn_pool *pool,
                       struct kn_buffer **out)
{
    int codec_id = kn_batch_view_codec(view);
    int status;

    *out = NULL;
    if (codec_id == KN_CODEC_NONE) return KN_OK;
    if (codec_id >= KN_CODEC_COUNT || !codecs->codecs[codec_id].decompress) return KN_ERR_UNSUPPORTED;
    /* A batch that compaction emptied may keep its codec and have nothing to decompress. */
    if (view->magic == 2 && view->record_count == 0 && view->records_bytes == 0) return KN_OK;

    struct kn_batch_view opened = *view;
    status = decompress(view, &codecs->codecs[codec_id], max_bytes, pool, out);
    if (status != KN_OK) return status;
    opened.records = (*out)->data;
    opened.records_bytes = (*out)->size_bytes;
    if (view->magic < 2) {
        status = kn_legacy_view_opened(&opened);
    } else if ((size_t)view->record_count > opened.records_bytes / RECORD_MIN_BYTES) {
        status = KN_ERR_INVALID;
    }
    if (status != KN_OK) {
        kn_buffer_give(*out);
        *out = NULL;
        return status;
    }
    *view = opened;
    return KN_OK;
}

int kn_record_reader_init(struct kn_record_reader *reader, const struct kn_batch_view *opened_view)
{
    reader->view = *opened_view;
    reader->span = kn_span_of(opened_view->records, opened_view->records_bytes);
    reader->legacy_base = 0;
    reader->left = opened_view->record_count;
    if (opened_view->magic < 2) return kn_legacy_reader_init(reader);
    if (kn_batch_view_codec(opened_view) != KN_CODEC_NONE && opened_view->records == opened_view->raw + KN_BATCH_HEADER_BYTES &&
        opened_view->records_bytes > 0)
        return KN_ERR_INVALID; /* nobody opened it */
    return KN_OK;
}

/* A varint length and its bytes within [at, end); returns what follows, or NULL. A negative length other than -1 is malformed. */
static inline __attribute__((always_inline)) const uint8_t *get_bytes(const uint8_t *at, const uint8_t *end, const uint8_t **bytes, int32_t *size_bytes)
{
    at = kn_varint_get(at, end, size_bytes);
    if (!at || *size_bytes < -1) return NULL;
    if (*size_bytes == -1) {
        *bytes = NULL;
        return at;
    }
    if (*size_bytes > end - at) return NULL;
    *bytes = at;
    return at + *size_bytes;
}

/* Walks `count` headers, which have to end exactly at `end`. */
static int headers_valid(const uint8_t *at, const uint8_t *end, int32_t count)
{
    struct kn_span span = kn_span_of(at, (size_t)(end - at));
    struct kn_header header;

    if (count < 0 || count > (end - at) / HEADER_MIN_BYTES) return 0;
    while (count-- > 0) {
        if (kn_header_next(&span, &header) != KN_OK) return 0;
    }
    return kn_span_left(&span) == 0;
}

/* The fields of the record between its length and `end`, its deltas apart; returns KN_OK or KN_ERR_INVALID. Headers aren't walked: where *has_headers isn't
 * set, there is nothing to walk. It is found in registers: two fields that were stored one by one and are read as one stall the processor. */
static inline __attribute__((always_inline)) int get_fields(const uint8_t *at, const uint8_t *end, struct kn_record *record,
                                                            int64_t *timestamp_delta, int32_t *offset_delta, int *has_headers)
{
    int32_t header_count;
    record->attributes = (int8_t)*at++;
    if (!(at = kn_varlong_get(at, end, timestamp_delta))) return KN_ERR_INVALID;
    if (!(at = kn_varint_get(at, end, offset_delta))) return KN_ERR_INVALID;
    if (!(at = get_bytes(at, end, &record->key, &record->key_bytes))) return KN_ERR_INVALID;
    if (!(at = get_bytes(at, end, &record->value, &record->value_bytes))) return KN_ERR_INVALID;
    if (!(at = kn_varint_get(at, end, &header_count))) return KN_ERR_INVALID;
    *has_headers = header_count != 0 || at != end;
    record->header_count = header_count;
    record->headers = at;
    record->headers_bytes = (int32_t)(end - at);
    return KN_OK;
}

/* Another core has written the records, and the reader jumps over their values to what follows: where processors don't foresee it, it would wait for
 * memory once a record. Nothing is read, so the address may be behind the end. */
static inline void prefetch(const uint8_t *end)
{
    __builtin_prefetch((const void *)((uintptr_t)end + PREFETCH_BYTES));
    __builtin_prefetch((const void *)((uintptr_t)end + PREFETCH_BYTES + 64));
}

int kn_record_reader_next(struct kn_record_reader *reader, struct kn_record *record)
{
    const struct kn_batch_view *view = &reader->view;
    const uint8_t *at = reader->span.at;
    const uint8_t *end = reader->span.end;
    int32_t length, offset_delta;
    int64_t timestamp_delta;
    int has_headers;

    if (view->magic < 2) return kn_legacy_reader_next(reader, record);
    if (reader->left <= 0) return at == end ? KN_ERR_TRUNCATED : KN_ERR_INVALID;

    if (!(at = kn_varint_get(at, end, &length)) || length < RECORD_MIN_BYTES - 1 || length > end - at) return KN_ERR_INVALID;
    end = at + length;
    prefetch(end);
    if (get_fields(at, end, record, &timestamp_delta, &offset_delta, &has_headers) != KN_OK) return KN_ERR_INVALID;
    if (has_headers && !headers_valid(record->headers, end, record->header_count)) return KN_ERR_INVALID;
    if (offset_delta < 0 || offset_delta > view->last_offset - view->base_offset) return KN_ERR_INVALID;

    record->offset = view->base_offset + offset_delta;
    if (view->attributes & KN_ATTR_LOG_APPEND_TIME) {
        record->timestamp_ms = view->max_timestamp_ms;
        record->timestamp_type = 1;
    } else {
        record->timestamp_ms = (int64_t)((uint64_t)view->base_timestamp_ms + (uint64_t)timestamp_delta);
        record->timestamp_type = 0;
    }
    reader->span.at = end;
    reader->left--;
    return KN_OK;
}

void kn_record_reread(const uint8_t *start, struct kn_record *record)
{
    int32_t length = 0, offset_delta;
    int64_t timestamp_delta;
    int has_headers;
    const uint8_t *at = kn_varint_get(start, start + KN_VARINT_MAX_BYTES, &length);

    (void)get_fields(at, at + length, record, &timestamp_delta, &offset_delta, &has_headers);
}

int kn_header_next(struct kn_span *span, struct kn_header *header)
{
    const uint8_t *at = span->failed ? NULL : get_bytes(span->at, span->end, &header->key, &header->key_bytes);

    if (at && header->key) at = get_bytes(at, span->end, &header->value, &header->value_bytes);
    if (!at || !header->key) {
        span->failed = 1;
        span->at = span->end;
        return KN_ERR_INVALID;
    }
    span->at = at;
    return KN_OK;
}
