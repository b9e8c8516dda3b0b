/* The parts of record_reader.h that aren't inline: every kind of record, and headers.
 *
 * Thread: any. Lock: none. Everything points into the input. */
#include "records/record_reader.h"

#define HEADER_MIN_BYTES 2 /* two lengths */

int kn_record_reader_init(struct kn_record_reader *reader, const struct kn_batch_view *opened_view)
{
    reader->view = *opened_view;
    reader->span = kn_span_of(opened_view->records, opened_view->records_bytes);
    reader->legacy_base = 0;
    reader->left = opened_view->record_count;
    if (opened_view->magic < 2) return kn_legacy_reader_init(reader);
    if (kn_batch_view_codec(opened_view) != KN_CODEC_NONE &&
        opened_view->records == opened_view->raw + KN_BATCH_HEADER_BYTES &&
        opened_view->records_bytes > 0)
        return KN_ERR_INVALID; /* the view wasn't opened */
    return KN_OK;
}

/* Reads a varint length and its bytes within [at, end). Returns the next position, or NULL.
 * Negative lengths other than -1 are malformed. */
static const uint8_t *get_bytes(const uint8_t *at, const uint8_t *end, const uint8_t **bytes,
                                int32_t *size_bytes)
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

/* Walks `count` headers, which must end exactly at `end`. */
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

/* Reads the fields of a record between its length and `end`, without applying the deltas. Returns
 * KN_OK or KN_ERR_INVALID. Doesn't walk the headers; if *has_headers isn't set there are none.
 * *has_headers avoids a processor stall, which happens when two fields are stored separately and
 * read together. */
static int get_fields(const uint8_t *at, const uint8_t *end, struct kn_record *record,
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

int kn_record_reader_any(struct kn_record_reader *reader, struct kn_record *record)
{
    const struct kn_batch_view *view = &reader->view;
    const uint8_t *at = reader->span.at;
    const uint8_t *end = reader->span.end;
    int32_t length, offset_delta;
    int64_t timestamp_delta;
    int has_headers;

    if (view->magic < 2) return kn_legacy_reader_next(reader, record);
    if (reader->left <= 0) return at == end ? KN_ERR_TRUNCATED : KN_ERR_INVALID;

    if (!(at = kn_varint_get(at, end, &length)) || length < KN_RECORD_MIN_BYTES - 1 ||
        length > end - at)
        return KN_ERR_INVALID;
    end = at + length;
    kn_record_prefetch(end);
    if (get_fields(at, end, record, &timestamp_delta, &offset_delta, &has_headers) != KN_OK)
        return KN_ERR_INVALID;
    if (has_headers && !headers_valid(record->headers, end, record->header_count))
        return KN_ERR_INVALID;
    if (offset_delta < 0 || offset_delta > view->last_offset - view->base_offset)
        return KN_ERR_INVALID;
    kn_record_complete(reader, record, end, timestamp_delta, offset_delta);
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
    const uint8_t *at = span->failed
                            ? NULL
                            : get_bytes(span->at, span->end, &header->key, &header->key_bytes);

    if (at && header->key) at = get_bytes(at, span->end, &header->value, &header->value_bytes);
    if (!at || !header->key) {
        span->failed = 1;
        span->at = span->end;
        return KN_ERR_INVALID;
    }
    span->at = at;
    return KN_OK;
}
