/* Walks, checks and opens record batches: see batch_reader.h.
 *
 * Thread: any. Lock: none.
 * Who frees: the caller owns the buffer of an opened batch; everything else points into the input.
 *
 * The input comes from the network. So the order is always: check that the bytes exist, check the
 * value (ranges and limits), then use it. */
#include "records/batch_reader.h"

#include <string.h>
#include "base/crc32c.h"
#include "base/endian.h"
#include "base/status.h"
#include "records/batch_writer.h"
#include "records/legacy_reader.h"
#include "records/lz4_legacy.h"

#define PREFIX_BYTES 12 /* base offset, length: the same in every magic */

/* Fills in a magic 2 view from its raw bytes, which are complete. */
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
    if (span.failed || view->base_offset < 0 || last_offset_delta < -1 || view->record_count < 0)
        return KN_ERR_INVALID;
    view->last_offset += last_offset_delta;
    if (last_offset_delta < 0 && view->record_count > 0) return KN_ERR_INVALID;
    if (view->record_count > (int64_t)last_offset_delta + 1) return KN_ERR_INVALID;
    if (kn_batch_view_codec(view) == KN_CODEC_NONE &&
        (size_t)view->record_count > view->records_bytes / KN_RECORD_MIN_BYTES)
        return KN_ERR_INVALID;
    return KN_OK;
}

int kn_batch_view_next(struct kn_span *span, struct kn_batch_view *view)
{
    size_t left = kn_span_left(span);

    if (span->failed || left < PREFIX_BYTES) return KN_ERR_TRUNCATED;
    int32_t length = kn_get_i32(span->at + KN_BATCH_AT_LENGTH);
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
    view->magic = (int8_t)span->at[KN_BATCH_AT_MAGIC];
    /* Otherwise the offsets behind the batch could overflow. */
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
    return kn_crc32c(0, view->raw + KN_BATCH_AT_ATTRIBUTES,
                     view->raw_bytes - KN_BATCH_AT_ATTRIBUTES) == view->crc
               ? KN_OK
               : KN_ERR_CRC;
}

/* Decompresses the records section of a view into a new buffer. */
static int decompress(const struct kn_batch_view *view, const struct kn_codec *codec,
                      size_t max_bytes, struct kn_pool *pool, struct kn_buffer **out)
{
    /* The codecs grow the buffer themselves; three times the input is enough for most batches. */
    size_t guess_bytes = view->records_bytes < max_bytes / 3 ? view->records_bytes * 3 : max_bytes;
    struct kn_buffer *buffer = kn_buffer_take(pool, guess_bytes);
    int status;

    if (!buffer) return KN_ERR_NOMEM;
    if (view->magic == 0 && kn_batch_view_codec(view) == KN_CODEC_LZ4) {
        status = kn_lz4_legacy_call(codec->decompress, view->records, view->records_bytes,
                                    max_bytes, &buffer);
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

int kn_batch_view_open(struct kn_batch_view *view, const struct kn_codec_table *codecs,
                       size_t max_bytes, struct kn_pool *pool, struct kn_buffer **out)
{
    int codec_id = kn_batch_view_codec(view);
    int status;

    *out = NULL;
    if (codec_id == KN_CODEC_NONE) return KN_OK;
    if (codec_id >= KN_CODEC_COUNT || !codecs->codecs[codec_id].decompress)
        return KN_ERR_UNSUPPORTED;
    /* A batch that compaction has emptied may still name its codec, without data to decompress. */
    if (view->magic == 2 && view->record_count == 0 && view->records_bytes == 0) return KN_OK;

    struct kn_batch_view opened = *view;
    status = decompress(view, &codecs->codecs[codec_id], max_bytes, pool, out);
    if (status != KN_OK) return status;
    opened.records = (*out)->data;
    opened.records_bytes = (*out)->size_bytes;
    if (view->magic < 2) {
        status = kn_legacy_view_opened(&opened);
    } else if ((size_t)view->record_count > opened.records_bytes / KN_RECORD_MIN_BYTES) {
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
