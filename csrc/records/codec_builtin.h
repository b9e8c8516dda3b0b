/* The codec functions of this build, and their common code. Internal to csrc/records.
 *
 * Each codec exists only if its library was found (KN_HAVE_*). codec_gzip.c has two versions:
 * libdeflate, else zlib. */
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

/* The output of a decompression. `start_bytes` is the buffer's size before it, so that max_bytes
 * limits only the added bytes. */
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

/* Bytes produced so far. */
static inline size_t kn_codec_output_bytes(const struct kn_codec_output *output)
{
    return (*output->buffer)->size_bytes - output->start_bytes;
}

/* Bytes that may be written now: the free room in the buffer, within max_bytes. */
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

/* Makes some room, at least by doubling. `hint_bytes` is the total size that the input suggests (0:
 * unknown), used up to max_bytes only. KN_ERR_TOO_LARGE: max_bytes is reached. */
int kn_codec_output_grow(struct kn_codec_output *output, size_t hint_bytes);

#endif
