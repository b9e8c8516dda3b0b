/* The codec table, and how decompressed output grows.
 *
 * Thread: any. Lock: none. Library names are static. */
#include "records/codec_builtin.h"

#include <string.h>

#define FIRST_ROOM_BYTES 4096

int kn_codec_output_grow(struct kn_codec_output *output, size_t hint_bytes)
{
    size_t done_bytes = kn_codec_output_bytes(output);
    size_t cap_left = output->max_bytes - done_bytes;

    if (cap_left == 0) return KN_ERR_TOO_LARGE;
    size_t more = hint_bytes > done_bytes
                      ? hint_bytes - done_bytes
                      : (done_bytes > FIRST_ROOM_BYTES ? done_bytes : FIRST_ROOM_BYTES);
    if (more > cap_left) more = cap_left;
    return kn_buffer_reserve(output->buffer, more);
}

static const char *const names[KN_CODEC_COUNT] = {
    [KN_CODEC_NONE] = "none", [KN_CODEC_GZIP] = "gzip", [KN_CODEC_SNAPPY] = "snappy",
    [KN_CODEC_LZ4] = "lz4",   [KN_CODEC_ZSTD] = "zstd",
};

const char *kn_codec_name(enum kn_codec_id id) { return names[id]; }

void kn_codec_table_init(struct kn_codec_table *table)
{
    memset(table, 0, sizeof *table);
    for (int id = 0; id < KN_CODEC_COUNT; id++) table->codecs[id].name = names[id];
#ifdef KN_BUILTIN_GZIP
    table->codecs[KN_CODEC_GZIP] = (struct kn_codec){names[KN_CODEC_GZIP], kn_gzip_library,
                                                     kn_gzip_compress, kn_gzip_decompress, 0};
#endif
#ifdef KN_HAVE_SNAPPY
    table->codecs[KN_CODEC_SNAPPY] = (struct kn_codec){names[KN_CODEC_SNAPPY], kn_snappy_library,
                                                       kn_snappy_compress, kn_snappy_decompress, 0};
#endif
#ifdef KN_HAVE_LZ4
    table->codecs[KN_CODEC_LZ4] = (struct kn_codec){names[KN_CODEC_LZ4], kn_lz4_library,
                                                    kn_lz4_compress, kn_lz4_decompress, 0};
#endif
#ifdef KN_HAVE_ZSTD
    table->codecs[KN_CODEC_ZSTD] = (struct kn_codec){names[KN_CODEC_ZSTD], kn_zstd_library,
                                                     kn_zstd_compress, kn_zstd_decompress,
                                                     KN_ZSTD_QUICKER_FORMS};
#endif
}
