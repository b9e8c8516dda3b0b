/* Compression codecs behind one table.
 *
 * Thread: any; the functions keep no state between calls (contexts are per call or thread-local).
 * An engine holds its own copy of the table, so that a codec whose library was missing at build
 * time can be replaced by the Python package (bindings fill the entry; that function takes the
 * interpreter lock itself).
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

/* quicker forms of it, where a codec has some, are the levels below */
#define KN_CODEC_LEVEL_DEFAULT (-1)
#define KN_DECOMPRESSED_MAX_BYTES ((size_t)128 << 20) /* default cap */

/* Appends the compressed form of src to *out (which may be replaced by a larger buffer). KN_OK,
 * KN_ERR_NOMEM, KN_ERR_CODEC. */
typedef int kn_compress_fn(const uint8_t *src, size_t size_bytes, int level,
                           struct kn_buffer **out);
/* Appends the decompressed form of src to *out; at most max_bytes are ever produced, else
 * KN_ERR_TOO_LARGE. Never trusts a size that src announces beyond max_bytes. KN_ERR_CODEC for
 * corrupt data. */
typedef int kn_decompress_fn(const uint8_t *src, size_t size_bytes, size_t max_bytes,
                             struct kn_buffer **out);

struct kn_codec {
    const char *name;         /* Kafka's name: none, gzip, snappy, lz4, zstd */
    const char *library;      /* what serves it, e.g. "libdeflate 1.14"; NULL: not built in */
    kn_compress_fn *compress; /* NULL: not built in */
    kn_decompress_fn *decompress;
    /* how many KN_CODEC_LEVEL_DEFAULT has: for data that they suit, nearly as small */
    int quicker_forms;
};

struct kn_codec_table {
    struct kn_codec codecs[KN_CODEC_COUNT];
};

void kn_codec_table_init(struct kn_codec_table *table); /* what this build has */

/* lz4 as in message set v0, whose frame header checksum was computed wrongly by old clients. */
int kn_lz4_decompress_legacy(const uint8_t *src, size_t size_bytes, size_t max_bytes,
                             struct kn_buffer **out);

#endif
