/* lz4 frames.
 *
 * Thread: any; each thread has its own contexts. Lock: none.
 * Who frees: the end of the thread frees its contexts.
 *
 * Frames are written like the Java client's (64 KiB blocks, independent, no content checksum): its
 * reader refuses linked blocks. */
#include "records/codec_builtin.h"

#ifdef KN_HAVE_LZ4

#include <lz4.h>
#include <lz4frame.h>
#include <string.h>
#include "records/codec_local.h"

#define LEVEL_MAX 12
#define RATIO_MAX 255 /* the largest ratio of lz4 */

const char kn_lz4_library[] = "liblz4 " LZ4_VERSION_STRING;

static void release_compressor(void *context) { LZ4F_freeCompressionContext(context); }
static void release_decompressor(void *context) { LZ4F_freeDecompressionContext(context); }

int kn_lz4_compress(const uint8_t *src, size_t size_bytes, int level, struct kn_buffer **out)
{
    struct kn_codec_slot *slot = kn_codec_local(KN_SLOT_LZ4_COMPRESS);
    LZ4F_preferences_t prefs;

    if (!slot) return KN_ERR_NOMEM;
    if (!slot->context) {
        LZ4F_compressionContext_t context;
        if (LZ4F_isError(LZ4F_createCompressionContext(&context, LZ4F_VERSION)))
            return KN_ERR_NOMEM;
        slot->context = context;
        slot->release = release_compressor;
    }
    memset(&prefs, 0, sizeof prefs);
    prefs.frameInfo.blockSizeID = LZ4F_max64KB;
    prefs.frameInfo.blockMode = LZ4F_blockIndependent;
    prefs.compressionLevel = level < 0 ? 0 : (level > LEVEL_MAX ? LEVEL_MAX : level);
    prefs.autoFlush = 1; /* blocks are written directly from src, without a copy in the context */

    size_t bound = LZ4F_HEADER_SIZE_MAX + LZ4F_compressBound(size_bytes, &prefs);
    int status = kn_buffer_reserve(out, bound);
    if (status != KN_OK) return status;
    uint8_t *to = (*out)->data + (*out)->size_bytes;
    size_t total = 0;
    size_t made = LZ4F_compressBegin(slot->context, to, bound, &prefs);
    if (!LZ4F_isError(made)) {
        total += made;
        made = LZ4F_compressUpdate(slot->context, to + total, bound - total, src, size_bytes, NULL);
    }
    if (!LZ4F_isError(made)) {
        total += made;
        made = LZ4F_compressEnd(slot->context, to + total, bound - total, NULL);
    }
    if (LZ4F_isError(made)) {
        kn_codec_slot_clear(slot); /* frees the context in any state */
        return KN_ERR_CODEC;
    }
    (*out)->size_bytes += total + made;
    return KN_OK;
}

/* Reads the frame header; *src moves behind it. The announced size becomes a hint, within lz4's
 * maximum ratio. */
static int frame_begin(LZ4F_dctx *context, const uint8_t **src, size_t *src_left,
                       struct kn_codec_output *output, int *large_blocks)
{
    LZ4F_frameInfo_t info;
    size_t used = *src_left;

    if (LZ4F_isError(LZ4F_getFrameInfo(context, &info, *src, &used))) return KN_ERR_CODEC;
    *src += used;
    *src_left -= used;
    *large_blocks = info.blockSizeID > LZ4F_max256KB;
    unsigned long long announced = info.contentSize;
    if (announced == 0 || announced / RATIO_MAX > *src_left ||
        announced > output->max_bytes - kn_codec_output_bytes(output))
        return KN_OK;
    size_t wanted = kn_codec_output_bytes(output) + (size_t)announced;
    return kn_codec_output_room(output) < announced ? kn_codec_output_grow(output, wanted) : KN_OK;
}

/* Decodes one frame; more may follow. */
static int frame(LZ4F_dctx *context, const uint8_t **src, size_t *src_left,
                 struct kn_codec_output *output)
{
    for (;;) {
        uint8_t beyond[1]; /* at the limit: one more byte proves that the output is too large */
        int at_cap = kn_codec_output_bytes(output) == output->max_bytes;
        if (!at_cap && kn_codec_output_room(output) == 0) {
            int status = kn_codec_output_grow(output, 0);
            if (status != KN_OK) return status;
        }
        size_t made = at_cap ? 1 : kn_codec_output_room(output);
        size_t used = *src_left;
        size_t result = LZ4F_decompress(context, at_cap ? beyond : kn_codec_output_at(output),
                                        &made, *src, &used, NULL);
        if (LZ4F_isError(result)) return KN_ERR_CODEC;
        *src += used;
        *src_left -= used;
        if (at_cap && made > 0) return KN_ERR_TOO_LARGE;
        (*output->buffer)->size_bytes += made;
        if (result == 0) return KN_OK;
        if (used == 0 && made == 0) return KN_ERR_CODEC; /* no progress: cut off */
    }
}

int kn_lz4_decompress(const uint8_t *src, size_t size_bytes, size_t max_bytes,
                      struct kn_buffer **out)
{
    struct kn_codec_output output = kn_codec_output_of(out, max_bytes);
    struct kn_codec_slot *slot = kn_codec_local(KN_SLOT_LZ4_DECOMPRESS);
    int status = size_bytes > 0 ? KN_OK : KN_ERR_CODEC;
    int large_blocks = 0;

    if (!slot) return KN_ERR_NOMEM;
    if (!slot->context) {
        LZ4F_decompressionContext_t context;
        if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)))
            return KN_ERR_NOMEM;
        slot->context = context;
        slot->release = release_decompressor;
    }
    while (status == KN_OK && size_bytes > 0) {
        int large = 0;
        status = frame_begin(slot->context, &src, &size_bytes, &output, &large);
        large_blocks |= large;
        if (status == KN_OK) status = frame(slot->context, &src, &size_bytes, &output);
    }
    /* After an error the context is freed: LZ4F_resetDecompressionContext() (1.9.4) keeps the rest
     * of an announced content size, and the next frame without one would fail. */
    if (large_blocks || status != KN_OK) kn_codec_slot_clear(slot);
    return status;
}

#endif

typedef int kn_codec_lz4_not_empty; /* ISO C doesn't allow an empty file */
