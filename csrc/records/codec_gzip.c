/* gzip with libdeflate, or with zlib if there is no libdeflate.
 *
 * Thread: any; each thread has its own contexts. Lock: none.
 * Who frees: the end of the thread frees its contexts.
 *
 * A gzip stream may have several members. The size in its trailer isn't trusted: it only chooses
 * the first buffer, within deflate's maximum ratio. libdeflate needs room for a whole member, so a
 * member that doesn't fit is tried again with twice the room. In total this is at most double the
 * work, and the limit ends it. */
#include "records/codec_builtin.h"

#if defined(KN_HAVE_LIBDEFLATE)

#include <libdeflate.h>
#include "base/endian.h"
#include "records/codec_local.h"

#define LEVEL_DEFAULT 6
#define LEVEL_MAX 12
#define MEMBER_MIN_BYTES 18 /* header 10, trailer 8 */
#define RATIO_MAX 1032      /* the largest ratio of deflate */

const char kn_gzip_library[] = "libdeflate " LIBDEFLATE_VERSION_STRING;

static void release_compressor(void *context) { libdeflate_free_compressor(context); }
static void release_decompressor(void *context) { libdeflate_free_decompressor(context); }

int kn_gzip_compress(const uint8_t *src, size_t size_bytes, int level, struct kn_buffer **out)
{
    struct kn_codec_slot *slot = kn_codec_local(KN_SLOT_DEFLATE);

    if (!slot) return KN_ERR_NOMEM;
    if (level < 0) level = LEVEL_DEFAULT;
    if (level > LEVEL_MAX) level = LEVEL_MAX;
    if (slot->context && slot->level != level) kn_codec_slot_clear(slot);
    if (!slot->context) {
        slot->context = libdeflate_alloc_compressor(level);
        slot->release = release_compressor;
        slot->level = level;
        if (!slot->context) return KN_ERR_NOMEM;
    }
    size_t bound = libdeflate_gzip_compress_bound(slot->context, size_bytes);
    int status = kn_buffer_reserve(out, bound);
    if (status != KN_OK) return status;
    size_t made = libdeflate_gzip_compress(slot->context, src, size_bytes,
                                           (*out)->data + (*out)->size_bytes, bound);
    if (made == 0) return KN_ERR_CODEC;
    (*out)->size_bytes += made;
    return KN_OK;
}

/* Decompresses one member. *src and *src_left move behind it. */
static int member(struct libdeflate_decompressor *context, const uint8_t **src, size_t *src_left,
                  size_t hint_bytes, struct kn_codec_output *output)
{
    size_t wanted = kn_codec_output_bytes(output) + hint_bytes;

    for (;;) {
        if (kn_codec_output_room(output) < hint_bytes || kn_codec_output_room(output) == 0) {
            int status = kn_codec_output_grow(output, wanted);
            /* At the limit an empty member, which needs no room, may still follow. */
            if (status == KN_ERR_NOMEM) return status;
        }
        size_t room = kn_codec_output_room(output);
        size_t used = 0, made = 0;
        enum libdeflate_result result = libdeflate_gzip_decompress_ex(
            context, *src, *src_left, kn_codec_output_at(output), room, &used, &made);
        if (result == LIBDEFLATE_SUCCESS) {
            (*output->buffer)->size_bytes += made;
            *src += used;
            *src_left -= used;
            return KN_OK;
        }
        if (result != LIBDEFLATE_INSUFFICIENT_SPACE) return KN_ERR_CODEC;
        if (room == output->max_bytes - kn_codec_output_bytes(output)) return KN_ERR_TOO_LARGE;
        hint_bytes = room * 2;
        wanted = kn_codec_output_bytes(output) + hint_bytes;
    }
}

int kn_gzip_decompress(const uint8_t *src, size_t size_bytes, size_t max_bytes,
                       struct kn_buffer **out)
{
    struct kn_codec_output output = kn_codec_output_of(out, max_bytes);
    struct kn_codec_slot *slot = kn_codec_local(KN_SLOT_INFLATE);

    if (!slot) return KN_ERR_NOMEM;
    if (!slot->context) {
        slot->context = libdeflate_alloc_decompressor();
        slot->release = release_decompressor;
        if (!slot->context) return KN_ERR_NOMEM;
    }
    if (size_bytes < MEMBER_MIN_BYTES) return KN_ERR_CODEC;
    size_t hint_bytes = kn_get_u32_le(src + size_bytes - 4);
    if (hint_bytes / RATIO_MAX > size_bytes) hint_bytes = 0;
    if (hint_bytes > max_bytes) hint_bytes = max_bytes;
    while (size_bytes > 0) {
        int status = member(slot->context, &src, &size_bytes, hint_bytes, &output);
        if (status != KN_OK) return status;
        hint_bytes = 0;
    }
    return KN_OK;
}

#elif defined(KN_HAVE_ZLIB)

#include <string.h>
#include <zlib.h>

#define GZIP_WINDOW_BITS (15 + 16)
#define MEM_LEVEL 8

const char kn_gzip_library[] = "zlib " ZLIB_VERSION;

int kn_gzip_compress(const uint8_t *src, size_t size_bytes, int level, struct kn_buffer **out)
{
    z_stream stream;

    memset(&stream, 0, sizeof stream);
    if (size_bytes > UINT32_MAX) return KN_ERR_CODEC;
    if (level > 9) level = 9;
    if (deflateInit2(&stream, level < 0 ? Z_DEFAULT_COMPRESSION : level, Z_DEFLATED,
                     GZIP_WINDOW_BITS, MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return KN_ERR_NOMEM;
    size_t bound = deflateBound(&stream, size_bytes);
    int status = bound > UINT32_MAX ? KN_ERR_CODEC : kn_buffer_reserve(out, bound);
    if (status == KN_OK) {
        stream.next_in = (Bytef *)src; /* zlib doesn't write to it */
        stream.avail_in = (uInt)size_bytes;
        stream.next_out = (*out)->data + (*out)->size_bytes;
        stream.avail_out = (uInt)bound;
        if (deflate(&stream, Z_FINISH) == Z_STREAM_END) {
            (*out)->size_bytes += bound - stream.avail_out;
        } else {
            status = KN_ERR_CODEC;
        }
    }
    deflateEnd(&stream);
    return status;
}

/* Inflates until the input is used up; several members may follow each other. */
static int inflate_all(z_stream *stream, struct kn_codec_output *output)
{
    for (;;) {
        size_t room = kn_codec_output_room(output);
        uint8_t beyond[1]; /* at the limit: one more byte proves that the output is too large */
        int at_cap = kn_codec_output_bytes(output) == output->max_bytes;
        if (room == 0 && !at_cap) {
            int status = kn_codec_output_grow(output, 0);
            if (status != KN_OK) return status;
            room = kn_codec_output_room(output);
        }
        if (room > UINT32_MAX) room = UINT32_MAX;
        stream->next_out = at_cap ? beyond : kn_codec_output_at(output);
        stream->avail_out = at_cap ? 1 : (uInt)room;
        uInt offered = stream->avail_out;
        int result = inflate(stream, Z_NO_FLUSH);
        if (at_cap && stream->avail_out == 0) return KN_ERR_TOO_LARGE;
        if (!at_cap) (*output->buffer)->size_bytes += offered - stream->avail_out;
        if (result == Z_STREAM_END) {
            if (stream->avail_in == 0) return KN_OK;
            if (inflateReset(stream) != Z_OK) return KN_ERR_CODEC;
        } else if (result == Z_MEM_ERROR) {
            return KN_ERR_NOMEM;
        } else if (result != Z_OK || (stream->avail_in == 0 && stream->avail_out > 0)) {
            return KN_ERR_CODEC; /* corrupt, or cut off */
        }
    }
}

int kn_gzip_decompress(const uint8_t *src, size_t size_bytes, size_t max_bytes,
                       struct kn_buffer **out)
{
    struct kn_codec_output output = kn_codec_output_of(out, max_bytes);
    z_stream stream;

    memset(&stream, 0, sizeof stream);
    if (size_bytes > UINT32_MAX) return KN_ERR_CODEC;
    stream.next_in = (Bytef *)src;
    stream.avail_in = (uInt)size_bytes;
    if (inflateInit2(&stream, GZIP_WINDOW_BITS) != Z_OK) return KN_ERR_NOMEM;
    int status = inflate_all(&stream, &output);
    inflateEnd(&stream);
    return status;
}

#endif

typedef int kn_codec_gzip_not_empty; /* ISO C doesn't allow an empty file */
