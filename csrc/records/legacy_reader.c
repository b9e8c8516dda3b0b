/* Reads message sets of magic 0 and 1: see legacy_reader.h.
 *
 * Thread: any. Lock: none. Everything points into the input. */
#include "records/legacy_reader.h"

#include <string.h>
#include "base/endian.h"
#include "base/hash.h"
#include "base/status.h"
#include "records/batch_writer.h"
#include "records/codec.h"

#define CRC_END 16 /* the checksum covers the bytes from here on */

struct legacy_message {
    int64_t offset;
    int64_t timestamp_ms;
    const uint8_t *key;
    const uint8_t *value;
    int32_t key_bytes;
    int32_t value_bytes;
    uint32_t crc;
    int8_t magic;
    int8_t attributes;
};

/* Reads an i32 size and its bytes. -1 is null; other negative sizes are malformed. */
static const uint8_t *take_bytes(struct kn_span *span, int32_t *size_bytes)
{
    *size_bytes = kn_span_i32(span);
    if (*size_bytes == -1) return NULL;
    if (*size_bytes < 0) {
        span->failed = 1;
        return NULL;
    }
    return kn_span_take(span, (size_t)*size_bytes);
}

/* Takes one complete message off the span. A message with trailing bytes is malformed, and so is a
 * message that is cut off. */
static int message_next(struct kn_span *span, struct legacy_message *message)
{
    message->offset = kn_span_i64(span);
    int32_t size = kn_span_i32(span);
    if (span->failed || size < KN_LEGACY_MESSAGE_MIN_BYTES) return KN_ERR_INVALID;
    const uint8_t *bytes = kn_span_take(span, (size_t)size);
    if (!bytes) return KN_ERR_INVALID;

    struct kn_span body = kn_span_of(bytes, (size_t)size);
    message->crc = (uint32_t)kn_span_i32(&body);
    message->magic = kn_span_i8(&body);
    message->attributes = kn_span_i8(&body);
    if (message->magic != 0 && message->magic != 1) return KN_ERR_INVALID;
    message->timestamp_ms = message->magic == 1 ? kn_span_i64(&body) : -1;
    message->key = take_bytes(&body, &message->key_bytes);
    message->value = take_bytes(&body, &message->value_bytes);
    return body.failed || kn_span_left(&body) != 0 ? KN_ERR_INVALID : KN_OK;
}

int kn_legacy_view_parse(struct kn_batch_view *view)
{
    struct kn_span span = kn_span_of(view->raw, view->raw_bytes);
    struct legacy_message message;

    view->last_offset = view->base_offset;
    if (message_next(&span, &message) != KN_OK) return KN_ERR_INVALID;
    view->crc = message.crc;
    view->attributes = message.attributes;
    view->base_timestamp_ms = view->max_timestamp_ms = message.timestamp_ms;
    if (kn_batch_view_codec(view) == KN_CODEC_NONE) {
        view->record_count = 1;
        view->records = view->raw;
        view->records_bytes = view->raw_bytes;
        return KN_OK;
    }
    if (!message.value) return KN_ERR_INVALID;
    view->record_count = -1;
    view->records = message.value;
    view->records_bytes = (size_t)message.value_bytes;
    return KN_OK;
}

int kn_legacy_view_check(const struct kn_batch_view *view)
{
    return kn_crc32(0, view->raw + CRC_END, view->raw_bytes - CRC_END) == view->crc ? KN_OK
                                                                                    : KN_ERR_CRC;
}

/* Checks the offsets and sizes of a message set and counts its messages. */
static int count_messages(const struct kn_batch_view *view, int32_t *count, int64_t *last_offset)
{
    struct kn_span span = kn_span_of(view->records, view->records_bytes);

    for (*count = 0; kn_span_left(&span) > 0; (*count)++) {
        *last_offset = kn_span_i64(&span);
        int32_t size = kn_span_i32(&span);
        if (span.failed || size < KN_LEGACY_MESSAGE_MIN_BYTES || !kn_span_take(&span, (size_t)size))
            return KN_ERR_INVALID;
    }
    return *count > 0 ? KN_OK : KN_ERR_INVALID;
}

int kn_legacy_view_opened(struct kn_batch_view *view)
{
    int64_t last_offset;
    return count_messages(view, &view->record_count, &last_offset);
}

int kn_legacy_reader_init(struct kn_record_reader *reader)
{
    const struct kn_batch_view *view = &reader->view;
    int64_t last_offset;

    reader->legacy_base = 0;
    if (kn_batch_view_codec(view) == KN_CODEC_NONE) {
        reader->left = 1;
        return KN_OK;
    }
    /* A wrapper that isn't opened still points into its own raw bytes. */
    if (view->records >= view->raw && view->records < view->raw + view->raw_bytes)
        return KN_ERR_INVALID;
    int status = count_messages(view, &reader->left, &last_offset);
    if (status != KN_OK) return status;
    if (view->magic == 1)
        reader->legacy_base = (int64_t)((uint64_t)view->base_offset - (uint64_t)last_offset);
    return KN_OK;
}

int kn_legacy_reader_next(struct kn_record_reader *reader, struct kn_record *record)
{
    const struct kn_batch_view *view = &reader->view;
    struct legacy_message message;

    if (reader->left == 0) return kn_span_left(&reader->span) ? KN_ERR_INVALID : KN_ERR_TRUNCATED;
    reader->left--;
    if (message_next(&reader->span, &message) != KN_OK || message.magic != view->magic)
        return KN_ERR_INVALID;

    int compressed = kn_batch_view_codec(view) != KN_CODEC_NONE;
    /* a wrapper may not be inside another wrapper */
    if (compressed && (message.attributes & KN_ATTR_CODEC_MASK)) return KN_ERR_INVALID;
    int log_append = view->magic == 1 && (view->attributes & KN_ATTR_LOG_APPEND_TIME);

    memset(record, 0, sizeof *record);
    record->offset = (int64_t)((uint64_t)message.offset + (uint64_t)reader->legacy_base);
    if (record->offset < 0) return KN_ERR_INVALID;
    record->timestamp_ms = compressed && log_append ? view->max_timestamp_ms : message.timestamp_ms;
    record->timestamp_type = view->magic == 0 ? -1 : (log_append ? 1 : 0);
    record->attributes = message.attributes;
    record->key = message.key;
    record->key_bytes = message.key_bytes;
    record->value = message.value;
    record->value_bytes = message.value_bytes;
    return KN_OK;
}
