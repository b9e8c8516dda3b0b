/* Writes message sets of magic 0 and 1: see legacy_writer.h.
 *
 * Thread: any. Lock: none. Who frees: the inner set of a wrapper exists during the call only. */
#include "records/legacy_writer.h"

#include <string.h>
#include "base/endian.h"
#include "base/hash.h"
#include "base/status.h"
#include "records/legacy_reader.h"
#include "records/lz4_legacy.h"
#include "records/record_reader.h"

#define AT_SIZE 8
#define AT_CRC 12
#define CRC_END 16 /* the checksum covers the bytes from here on */
#define OVERHEAD_BYTES (KN_LEGACY_PREFIX_BYTES + KN_LEGACY_MESSAGE_MIN_BYTES)
#define TIMESTAMP_BYTES 8 /* magic 1 only */

static size_t overhead_bytes(int8_t magic)
{
    return OVERHEAD_BYTES + (magic == 1 ? TIMESTAMP_BYTES : 0);
}

/* Writes the fields before the key; close_message() fills in size and checksum. */
static uint8_t *put_head(uint8_t *to, int64_t offset, int8_t magic, int8_t attributes,
                         int64_t timestamp_ms)
{
    to = kn_put_i64(to, offset);
    to += CRC_END - AT_SIZE;
    to = kn_put_i8(to, magic);
    to = kn_put_i8(to, attributes);
    return magic == 1 ? kn_put_i64(to, timestamp_ms) : to;
}

static void close_message(uint8_t *start, size_t size_bytes)
{
    kn_put_i32(start + AT_SIZE, (int32_t)(size_bytes - KN_LEGACY_PREFIX_BYTES));
    kn_put_i32(start + AT_CRC, (int32_t)kn_crc32(0, start + CRC_END, size_bytes - CRC_END));
}

static uint8_t *put_bytes(uint8_t *to, const uint8_t *bytes, int32_t size_bytes)
{
    if (!bytes) return kn_put_i32(to, -1);
    to = kn_put_i32(to, size_bytes);
    memcpy(to, bytes, (size_t)size_bytes);
    return to + size_bytes;
}

static int append_message(const struct kn_record *record, int8_t magic, int64_t offset,
                          struct kn_buffer **out)
{
    size_t key_bytes = record->key ? (size_t)record->key_bytes : 0;
    size_t value_bytes = record->value ? (size_t)record->value_bytes : 0;
    size_t size_bytes = overhead_bytes(magic) + key_bytes + value_bytes;
    if (size_bytes > INT32_MAX) return KN_ERR_TOO_LARGE;
    int status = kn_buffer_reserve(out, size_bytes);
    if (status != KN_OK) return status;
    uint8_t *start = (*out)->data + (*out)->size_bytes;
    uint8_t *to = put_head(start, offset, magic, 0, record->timestamp_ms);
    to = put_bytes(to, record->key, record->key_bytes);
    put_bytes(to, record->value, record->value_bytes);
    close_message(start, size_bytes);
    (*out)->size_bytes += size_bytes;
    return KN_OK;
}

struct written { /* the numbers of its messages that a wrapper needs */
    int64_t count;
    int64_t max_timestamp_ms;
};

static int append_messages(const struct kn_batch_view *opened, int8_t magic, int64_t first_offset,
                           struct kn_buffer **out, struct written *written)
{
    struct kn_record_reader reader;
    struct kn_record record;
    written->count = 0;
    written->max_timestamp_ms = -1;
    int status = kn_record_reader_init(&reader, opened);
    while (status == KN_OK && (status = kn_record_reader_next(&reader, &record)) == KN_OK) {
        status = append_message(&record, magic, first_offset + written->count, out);
        written->count++;
        if (record.timestamp_ms > written->max_timestamp_ms)
            written->max_timestamp_ms = record.timestamp_ms;
    }
    if (status != KN_ERR_TRUNCATED) return status;
    return written->count > 0 ? KN_OK : KN_ERR_INVALID;
}

/* Appends the wrapper around a set. KN_ERR_CODEC: compression failed or the wrapper is no smaller,
 * and *out is unchanged. */
static int append_wrapper(const struct kn_buffer *set, const struct kn_legacy_form *form,
                          const struct written *written, struct kn_buffer **out)
{
    size_t before = (*out)->size_bytes;
    size_t head_bytes = overhead_bytes(form->magic);
    int status = kn_buffer_reserve(out, head_bytes);
    if (status != KN_OK) return status;
    (*out)->size_bytes += head_bytes;
    status = form->codec->compress(set->data, set->size_bytes, form->level, out);
    uint8_t *start = (*out)->data + before;
    size_t size_bytes = (*out)->size_bytes - before;
    if (status == KN_OK && size_bytes >= set->size_bytes) status = KN_ERR_CODEC;
    if (status == KN_OK && form->magic == 0 && form->codec_id == KN_CODEC_LZ4)
        status = kn_lz4_legacy_break(start + head_bytes, size_bytes - head_bytes);
    if (status != KN_OK) {
        (*out)->size_bytes = before;
        return status;
    }
    uint8_t *to = put_head(start, form->first_offset + written->count - 1, form->magic,
                           form->codec_id, written->max_timestamp_ms);
    to = put_bytes(to, NULL, -1);
    kn_put_i32(to, (int32_t)(size_bytes - head_bytes));
    close_message(start, size_bytes);
    return KN_OK;
}

int kn_legacy_write(const struct kn_batch_view *opened, const struct kn_legacy_form *form,
                    struct kn_buffer **out)
{
    struct written written;
    if (form->magic != 0 && form->magic != 1) return KN_ERR_UNSUPPORTED;
    if (form->codec_id == KN_CODEC_NONE)
        return append_messages(opened, form->magic, form->first_offset, out, &written);
    if (form->codec_id < 0 || form->codec_id > KN_CODEC_LZ4 || !form->codec->compress)
        return KN_ERR_UNSUPPORTED;

    struct kn_buffer *set = kn_buffer_take((*out)->pool,
                                           opened->records_bytes + overhead_bytes(form->magic));
    if (!set) return KN_ERR_NOMEM;
    /* In a wrapper of magic 1 offsets are relative. */
    int status = append_messages(opened, form->magic, form->magic == 1 ? 0 : form->first_offset,
                                 &set, &written);
    if (status == KN_OK && set->size_bytes > INT32_MAX) status = KN_ERR_TOO_LARGE;
    if (status == KN_OK) {
        status = append_wrapper(set, form, &written, out);
        if (status == KN_ERR_CODEC)
            status = append_messages(opened, form->magic, form->first_offset, out, &written);
    }
    kn_buffer_give(set);
    return status;
}
