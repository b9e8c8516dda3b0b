/* Zstandard.
 *
 * Thread: any; each thread has its own contexts. Lock: none.
 * Who frees: the end of the thread frees its contexts.
 *
 * Decompression streams into the growing output. So neither the announced content size nor the
 * ratio (four bytes may be a block of 128 KiB) decides how much is allocated. Frames with a window
 * over 128 MiB are refused. */
#include "records/codec_builtin.h"

#ifdef KN_HAVE_ZSTD

#include <zstd.h>
#include "records/codec_local.h"

#define LEVEL_DEFAULT 3
#define WINDOW_LOG_MAX 27
#define KEEP_CONTEXT_BYTES ((size_t)4 << 20) /* a larger context is freed after use */
/* an announced size is trusted up to this, until output has been produced */
#define HINT_MAX_BYTES ((size_t)8 << 20)

const char kn_zstd_library[] = "libzstd " ZSTD_VERSION_STRING;

static void release_compressor(void *context) { ZSTD_freeCCtx(context); }
static void release_decompressor(void *context) { ZSTD_freeDCtx(context); }

/* For a batch of 1 MB the tables of level 3 take 768 KiB, more than a core's second-level cache.
 * Most of the time goes into lookups there. With smaller tables similar records are compressed in
 * 60 to 85 % of the time, for 0 to 2.5 % more bytes. But small tables forget earlier data: data
 * that repeats at a distance may become three times as large. So the choice depends on the data
 * (produce/adaptive_level.h). */
static const struct tables {
    /* log2 of the number of 4-byte entries; libzstd's hashLog, chainLog. 0: the level's default */
    int long_hash_log, short_hash_log;
} tables_of_form[1 + KN_ZSTD_QUICKER_FORMS] = {{0, 0}, {15, 14}, {13, 13}};

static void set_level(ZSTD_CCtx *context, int level)
{
    int form = level <= KN_CODEC_LEVEL_DEFAULT ? KN_CODEC_LEVEL_DEFAULT - level : 0;
    struct tables tables = form <= KN_ZSTD_QUICKER_FORMS ? tables_of_form[form]
                                                         : (struct tables){0, 0};

    ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters);
    /* libzstd limits the value */
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel,
                           level <= KN_CODEC_LEVEL_DEFAULT ? LEVEL_DEFAULT : level);
    if (tables.long_hash_log) ZSTD_CCtx_setParameter(context, ZSTD_c_hashLog, tables.long_hash_log);
    if (tables.short_hash_log)
        ZSTD_CCtx_setParameter(context, ZSTD_c_chainLog, tables.short_hash_log);
}

int kn_zstd_compress(const uint8_t *src, size_t size_bytes, int level, struct kn_buffer **out)
{
    struct kn_codec_slot *slot = kn_codec_local(KN_SLOT_ZSTD_COMPRESS);

    if (!slot) return KN_ERR_NOMEM;
    if (!slot->context) {
        slot->context = ZSTD_createCCtx();
        slot->release = release_compressor;
        if (!slot->context) return KN_ERR_NOMEM;
    }
    set_level(slot->context, level);
    size_t bound = ZSTD_compressBound(size_bytes);
    int status = kn_buffer_reserve(out, bound);
    if (status != KN_OK) return status;
    size_t made = ZSTD_compress2(slot->context, (*out)->data + (*out)->size_bytes, bound, src,
                                 size_bytes);
    int failed = ZSTD_isError(made) != 0;
    if (failed || ZSTD_sizeof_CCtx(slot->context) > KEEP_CONTEXT_BYTES * 4)
        kn_codec_slot_clear(slot);
    if (failed) return KN_ERR_CODEC;
    (*out)->size_bytes += made;
    return KN_OK;
}

/* Makes room for the size that the frame at src announces, within a limit. */
static int frame_begin(const uint8_t *src, size_t size_bytes, struct kn_codec_output *output)
{
    unsigned long long announced = ZSTD_getFrameContentSize(src, size_bytes);

    if (announced == ZSTD_CONTENTSIZE_ERROR) return KN_ERR_CODEC;
    if (announced == ZSTD_CONTENTSIZE_UNKNOWN || announced == 0) return KN_OK;
    size_t cap_left = output->max_bytes - kn_codec_output_bytes(output);
    if (announced > cap_left) return KN_ERR_TOO_LARGE;
    size_t hint = announced < HINT_MAX_BYTES ? (size_t)announced : HINT_MAX_BYTES;
    if (kn_codec_output_room(output) >= hint) return KN_OK;
    return kn_codec_output_grow(output, kn_codec_output_bytes(output) + hint);
}

static int decompress_stream(ZSTD_DCtx *context, ZSTD_inBuffer *in, struct kn_codec_output *output)
{
    int in_frame = 0;

    while (in->pos < in->size || in_frame) {
        uint8_t beyond[1]; /* at the limit: one more byte proves that the output is too large */
        int status = in_frame ? KN_OK
                              : frame_begin((const uint8_t *)in->src + in->pos, in->size - in->pos,
                                            output);
        if (status != KN_OK) return status;
        int at_cap = kn_codec_output_bytes(output) == output->max_bytes;
        if (!at_cap && kn_codec_output_room(output) == 0) {
            status = kn_codec_output_grow(output, 0);
            if (status != KN_OK) return status;
        }
        ZSTD_outBuffer to = {at_cap ? beyond : kn_codec_output_at(output),
                             at_cap ? 1 : kn_codec_output_room(output), 0};
        size_t in_before = in->pos;
        size_t result = ZSTD_decompressStream(context, &to, in);
        if (ZSTD_isError(result)) return KN_ERR_CODEC;
        if (at_cap && to.pos > 0) return KN_ERR_TOO_LARGE;
        (*output->buffer)->size_bytes += to.pos;
        in_frame = result != 0;
        /* no progress: cut off */
        if (in_frame && in->pos == in_before && to.pos == 0) return KN_ERR_CODEC;
    }
    return KN_OK;
}

int kn_zstd_decompress(const uint8_t *src, size_t size_bytes, size_t max_bytes,
                       struct kn_buffer **out)
{
    struct kn_codec_output output = kn_codec_output_of(out, max_bytes);
    struct kn_codec_slot *slot = kn_codec_local(KN_SLOT_ZSTD_DECOMPRESS);

    if (!slot) return KN_ERR_NOMEM;
    if (!slot->context) {
        slot->context = ZSTD_createDCtx();
        slot->release = release_decompressor;
        if (!slot->context) return KN_ERR_NOMEM;
        ZSTD_DCtx_setParameter(slot->context, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    }
    ZSTD_inBuffer in = {src, size_bytes, 0};
    int status = size_bytes > 0 ? decompress_stream(slot->context, &in, &output) : KN_ERR_CODEC;
    if (ZSTD_sizeof_DCtx(slot->context) > KEEP_CONTEXT_BYTES) {
        kn_codec_slot_clear(slot);
    } else if (status != KN_OK) {
        ZSTD_DCtx_reset(slot->context, ZSTD_reset_session_only);
    }
    return status;
}

#endif

typedef int kn_codec_zstd_not_empty; /* ISO C doesn't allow an empty file */
