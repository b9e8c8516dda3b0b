/* Frames with the wrong header checksum: see lz4_legacy.h.
 *
 * Thread: any. Lock: none. Who frees: the corrected copy exists during the call only. */
#include "records/lz4_legacy.h"

#include "base/endian.h"
#include "records/codec_builtin.h"

#define FRAME_MAGIC 0x184d2204u
#define AT_FLAGS 4
#define FLAG_CONTENT_SIZE 0x08
#define FLAG_DICTIONARY 0x01

#define XXH_PRIME_1 0x9e3779b1u
#define XXH_PRIME_2 0x85ebca77u
#define XXH_PRIME_3 0xc2b2ae3du
#define XXH_PRIME_4 0x27d4eb2fu
#define XXH_PRIME_5 0x165667b1u

static uint32_t rotate_left(uint32_t value, unsigned by)
{
    return value << by | value >> (32 - by);
}

/* xxHash32 with seed 0 of fewer than 16 bytes. A frame descriptor is never longer; with the magic
 * number this holds if it has no dictionary. */
static uint32_t xxh32_short(const uint8_t *at, size_t size_bytes)
{
    uint32_t hash = XXH_PRIME_5 + (uint32_t)size_bytes;

    for (; size_bytes >= 4; size_bytes -= 4, at += 4)
        hash = rotate_left(hash + kn_get_u32_le(at) * XXH_PRIME_3, 17) * XXH_PRIME_4;
    for (; size_bytes > 0; size_bytes--)
        hash = rotate_left(hash + *at++ * XXH_PRIME_5, 11) * XXH_PRIME_1;
    hash = (hash ^ hash >> 15) * XXH_PRIME_2;
    hash = (hash ^ hash >> 13) * XXH_PRIME_3;
    return hash ^ hash >> 16;
}

/* Returns the size of the frame descriptor without its checksum; 0: this isn't such a frame. */
static size_t descriptor_bytes(const uint8_t *frame, size_t size_bytes)
{
    if (size_bytes < AT_FLAGS + 3 || kn_get_u32_le(frame) != FRAME_MAGIC) return 0;
    uint8_t flags = frame[AT_FLAGS];
    size_t size = 2u + (flags & FLAG_CONTENT_SIZE ? 8u : 0) + (flags & FLAG_DICTIONARY ? 4u : 0);
    return size_bytes < AT_FLAGS + size + 1 ? 0 : size;
}

int kn_lz4_legacy_break(uint8_t *frame, size_t size_bytes)
{
    size_t size = descriptor_bytes(frame, size_bytes);
    if (size == 0 || frame[AT_FLAGS] & FLAG_DICTIONARY) return KN_ERR_CODEC;
    frame[AT_FLAGS + size] = (uint8_t)(xxh32_short(frame, AT_FLAGS + size) >> 8);
    return KN_OK;
}

int kn_lz4_legacy_call(kn_decompress_fn *decompress, const uint8_t *src, size_t size_bytes,
                       size_t max_bytes, struct kn_buffer **out)
{
    size_t size = descriptor_bytes(src, size_bytes);
    if (size == 0) return KN_ERR_CODEC;
    struct kn_buffer *copy = kn_buffer_take((*out)->pool, size_bytes);
    if (!copy) return KN_ERR_NOMEM;
    int status = kn_buffer_append(&copy, src, size_bytes);
    if (status == KN_OK) {
        copy->data[AT_FLAGS + size] = (uint8_t)(xxh32_short(src + AT_FLAGS, size) >> 8);
        status = decompress(copy->data, size_bytes, max_bytes, out);
    }
    kn_buffer_give(copy);
    return status;
}

int kn_lz4_decompress_legacy(const uint8_t *src, size_t size_bytes, size_t max_bytes,
                             struct kn_buffer **out)
{
#ifdef KN_HAVE_LZ4
    return kn_lz4_legacy_call(kn_lz4_decompress, src, size_bytes, max_bytes, out);
#else
    (void)src, (void)size_bytes, (void)max_bytes, (void)out;
    return KN_ERR_UNSUPPORTED;
#endif
}
