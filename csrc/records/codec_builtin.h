/* The codec functions that this build may have, and what they share. Internal to csrc/records.
 *
 * Each exists only where its library was found (KN_HAVE_*). codec_gzip.c has two ways, libdeflate
 * before zlib.
 */
#ifndef KN_RECORDS_CODEC_BUILTIN_H
#define KN_RECORDS_CODEC_BUILTIN_H

#include "base/status.h"
#include "records/codec.h"

#if defined(KN_HAVE_LIBDEFLATE) || defined(KN_HAVE_ZLIB)
#define KN_BUILTIN_GZIP 1
extern const char kn_gzip_library[];
kn_compress_fn kn_gzip_compress;
kn_decompress_fn kn_gzip_decompress;
#endif
#ifdef KN_HAVE_SNAPPY
extern const char kn_snappy_library[];
kn_compress_fn kn_snappy_compress;
kn_decompress_fn kn_snappy_decompress;
#endif
#ifdef KN_HAVE_LZ4
extern const char kn_lz4_library[];
kn_compress_fn kn_lz4_compress;
kn_decompress_fn kn_lz4_decompress;
#endif
#ifdef KN_HAVE_ZSTD
extern const char kn_zstd_library[];
#define KN_ZSTD_QUICKER_FORMS 2
kn_compress_fn kn_zstd_compress;
kn_decompress_fn kn_zstd_decompress;
#endif

/* Where a decompression stands: `start` is the output's size before it, so that the cap counts only
 * what it adds. */
struct kn_codec_output {
    struct kn_buffer **buffer;
    size_t start_bytes;
    size_t max_bytes;
};

static inline struct kn_codec_output kn_codec_output_of(struct kn_buffer **buffer, size_t max_bytes)
{
    struct kn_codec_output output = {buffer, (*buffer)->size_bytes, max_bytes};
    return output;
}

/* Produced so far. */
static inline size_t kn_codec_output_bytes(const struct kn_codec_output *output)
{
    return (*output->buffer)->size_bytes - output->start_bytes;
}

/* Room that may be written now: what the buffer has, up to the cap. */
static inline size_t kn_codec_output_room(const struct kn_codec_output *output)
{
    size_t free_bytes = (*output->buffer)->capacity_bytes - (*output->buffer)->size_bytes;
    size_t cap_bytes = output->max_bytes - kn_codec_output_bytes(output);
    return free_bytes < cap_bytes ? free_bytes : cap_bytes;
}

static inline uint8_t *kn_codec_output_at(const struct kn_codec_output *output)
{
    return (*output->buffer)->data + (*output->buffer)->size_bytes;
}

/* Makes sure of some room, doubling; `hint_bytes` is what the input suggests in total (0: nothing),
 * believed up to the cap only. KN_ERR_TOO_LARGE when the cap is reached. */
int kn_codec_output_grow(struct kn_codec_output *output, size_t hint_bytes);

#endif
