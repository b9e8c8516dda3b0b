/* The table of compression codecs.
 *
 * Thread: any; the functions keep no state between calls (contexts are per call or thread-local).
 * Each engine has its own copy of the table. So the binding can replace a codec whose library was
 * missing at build time by the Python package. Such a function takes the interpreter lock itself.
 */
#ifndef KN_RECORDS_CODEC_H
#define KN_RECORDS_CODEC_H

#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"

enum kn_codec_id {
    KN_CODEC_NONE = 0,
    KN_CODEC_GZIP = 1,
    KN_CODEC_SNAPPY = 2,
    KN_CODEC_LZ4 = 3,
    KN_CODEC_ZSTD = 4,
    KN_CODEC_COUNT = 5
};

/* the quicker forms of a codec, if any, are the levels below this one */
#define KN_CODEC_LEVEL_DEFAULT (-1)
#define KN_DECOMPRESSED_MAX_BYTES ((size_t)128 << 20) /* default cap */

/* Appends the compressed form of src to *out, which may be replaced by a larger buffer. KN_OK,
 * KN_ERR_NOMEM, KN_ERR_CODEC. */
typedef int kn_compress_fn(const uint8_t *src, size_t size_bytes, int level,
                           struct kn_buffer **out);
/* Appends the decompressed form of src to *out. More than max_bytes is KN_ERR_TOO_LARGE; a size
 * announced in src is trusted up to max_bytes only. KN_ERR_CODEC: corrupt data. */
typedef int kn_decompress_fn(const uint8_t *src, size_t size_bytes, size_t max_bytes,
                             struct kn_buffer **out);

/* Kafka's name: none, gzip, snappy, lz4, zstd. The text is static. */
const char *kn_codec_name(enum kn_codec_id id);

struct kn_codec {
    const char *name;    /* kn_codec_name() */
    const char *library; /* library and version, such as "libdeflate 1.14"; NULL: not built in */
    kn_compress_fn *compress; /* NULL: not built in */
    kn_decompress_fn *decompress;
    /* number of quicker forms of KN_CODEC_LEVEL_DEFAULT; on suitable data their output is nearly as
     * small */
    int quicker_forms;
};

struct kn_codec_table {
    struct kn_codec codecs[KN_CODEC_COUNT];
};

void kn_codec_table_init(struct kn_codec_table *table); /* the codecs of this build */

/* lz4 as in message sets of magic 0: old clients computed the checksum of the frame header wrongly.
 */
int kn_lz4_decompress_legacy(const uint8_t *src, size_t size_bytes, size_t max_bytes,
                             struct kn_buffer **out);

#endif
