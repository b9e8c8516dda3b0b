/* A decompressor on the fuzzer's bytes: never more output than the limit, never a byte outside.
 * FUZZ_CODEC chooses the codec. */
#include "fuzz.h"

#ifndef FUZZ_CODEC
#error "FUZZ_CODEC is the id of the codec, or 5 for lz4 with the wrong header checksum"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static struct kn_codec_table codecs;
    static const size_t caps[] = {0, 1, 100, FUZZ_CAP_BYTES};

    if (!codecs.codecs[0].name) kn_codec_table_init(&codecs);
    if (size_bytes == 0) return 0;
    kn_decompress_fn *decompress = FUZZ_CODEC == KN_CODEC_COUNT
                                       ? kn_lz4_decompress_legacy
                                       : codecs.codecs[FUZZ_CODEC % KN_CODEC_COUNT].decompress;
    size_t cap = caps[data[0] & 3];
    struct kn_buffer *out = kn_buffer_take(NULL, data[0]);
    out->size_bytes = 3; /* output is appended behind these bytes */
    int status = decompress(data + 1, size_bytes - 1, cap, &out);
    FUZZ_CHECK(out->size_bytes >= 3 && out->size_bytes - 3 <= cap);
    FUZZ_CHECK(status == KN_OK || status == KN_ERR_CODEC || status == KN_ERR_TOO_LARGE);
    if (status == KN_OK) {
        fuzz_touch(out->data + 3, (int64_t)out->size_bytes - 3);
        /* A limit of one byte less must refuse: every size has exactly one result. */
        size_t made = out->size_bytes - 3;
        if (made > 0) {
            out->size_bytes = 0;
            FUZZ_CHECK(decompress(data + 1, size_bytes - 1, made - 1, &out) == KN_ERR_TOO_LARGE);
            FUZZ_CHECK(out->size_bytes < made);
        }
    }
    kn_buffer_give(out);
    return 0;
}
