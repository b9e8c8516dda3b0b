/* Snappy: raw blocks, and the Xerial framing that the Java client writes.
 *
 * Thread: any; no state. Lock: none.
 *
 * A raw block begins with its decompressed size, which is trusted only up to the limit and snappy's
 * maximum ratio. Xerial: 8 magic bytes, version i32, compatible version i32, then blocks, each with
 * its compressed size as i32. Concatenated streams repeat the header in the place of a block size.
 */
#include "records/codec_builtin.h"

#ifdef KN_HAVE_SNAPPY

#include <snappy-c.h>
#include <string.h>
#include "base/endian.h"
#include "base/span.h"

#define RATIO_MAX 32 /* three bytes may be a copy of 64 bytes */
#define XERIAL_HEADER_BYTES 16

#ifdef KN_SNAPPY_VERSION
const char kn_snappy_library[] = "libsnappy " KN_SNAPPY_VERSION;
#else
const char kn_snappy_library[] = "libsnappy";
#endif

static const uint8_t xerial_magic[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};

int kn_snappy_compress(const uint8_t *src, size_t size_bytes, int level, struct kn_buffer **out)
{
    (void)level; /* snappy has no levels */
    if (size_bytes > UINT32_MAX) return KN_ERR_CODEC;
    size_t made = snappy_max_compressed_length(size_bytes);
    int status = kn_buffer_reserve(out, made);
    if (status != KN_OK) return status;
    if (snappy_compress((const char *)src, size_bytes, (char *)(*out)->data + (*out)->size_bytes,
                        &made) != SNAPPY_OK)
        return KN_ERR_CODEC;
    (*out)->size_bytes += made;
    return KN_OK;
}

static int decompress_block(const uint8_t *src, size_t size_bytes, struct kn_codec_output *output)
{
    size_t made;

    if (snappy_uncompressed_length((const char *)src, size_bytes, &made) != SNAPPY_OK)
        return KN_ERR_CODEC;
    if (made > output->max_bytes - kn_codec_output_bytes(output)) return KN_ERR_TOO_LARGE;
    if (made / RATIO_MAX > size_bytes) return KN_ERR_CODEC;
    int status = kn_buffer_reserve(output->buffer, made);
    if (status != KN_OK) return status;
    if (snappy_uncompress((const char *)src, size_bytes, (char *)kn_codec_output_at(output),
                          &made) != SNAPPY_OK)
        return KN_ERR_CODEC;
    (*output->buffer)->size_bytes += made;
    return KN_OK;
}

static int is_xerial(const struct kn_span *span)
{
    return kn_span_left(span) >= XERIAL_HEADER_BYTES &&
           memcmp(span->at, xerial_magic, sizeof xerial_magic) == 0;
}

int kn_snappy_decompress(const uint8_t *src, size_t size_bytes, size_t max_bytes,
                         struct kn_buffer **out)
{
    struct kn_codec_output output = kn_codec_output_of(out, max_bytes);
    struct kn_span span = kn_span_of(src, size_bytes);

    if (!is_xerial(&span)) return decompress_block(src, size_bytes, &output);
    while (kn_span_left(&span) > 0) {
        if (is_xerial(&span)) {
            kn_span_take(&span, XERIAL_HEADER_BYTES);
            continue;
        }
        int32_t block_bytes = kn_span_i32(&span);
        if (span.failed || block_bytes < 0) return KN_ERR_CODEC;
        const uint8_t *block = kn_span_take(&span, (size_t)block_bytes);
        if (!block) return KN_ERR_CODEC;
        int status = decompress_block(block, (size_t)block_bytes, &output);
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

#endif

typedef int kn_codec_snappy_not_empty; /* ISO C doesn't allow an empty file */
