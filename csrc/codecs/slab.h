/* Growing memory of a column, aligned to 64 bytes as Arrow recommends, and functions for bitmaps.
 *
 * Thread: the columns'. Who frees: kn_slab_deinit(). */
#ifndef KN_CODECS_SLAB_H
#define KN_CODECS_SLAB_H

#include <stdbool.h>
#include <string.h>
#include "base/buffer.h"
#include "base/status.h"

#define KN_SLAB_ALIGNMENT 64

struct kn_slab { /* aligned bytes in a buffer of the pool */
    struct kn_buffer *buffer;
    uint8_t *data; /* NULL: none yet */
    size_t capacity_bytes;
};

/* Makes room for size_bytes in all and keeps the first used_bytes. It at least doubles the room.
 * KN_OK, or KN_ERR_NOMEM; then nothing has changed. */
int kn_slab_grow(struct kn_pool *pool, struct kn_slab *slab, size_t used_bytes, size_t size_bytes);
static inline int kn_slab_reserve(struct kn_pool *pool, struct kn_slab *slab, size_t used_bytes,
                                  size_t size_bytes)
{
    return size_bytes <= slab->capacity_bytes ? KN_OK
                                              : kn_slab_grow(pool, slab, used_bytes, size_bytes);
}
void kn_slab_deinit(struct kn_slab *slab);

static inline bool kn_bit(const uint8_t *bits, int64_t at) { return bits[at >> 3] >> (at & 7) & 1; }
static inline void kn_bit_put(uint8_t *bits, int64_t at, int value)
{
    uint8_t mask = (uint8_t)(1u << (at & 7));
    bits[at >> 3] = (uint8_t)(value ? bits[at >> 3] | mask : bits[at >> 3] & ~mask);
}
/* Sets the bits [from, to) to `value`. */
static inline void kn_bits_fill(uint8_t *bits, int64_t from, int64_t to, int value)
{
    for (; from < to && (from & 7); from++) kn_bit_put(bits, from, value);
    if (from + 8 <= to) {
        memset(bits + (from >> 3), value ? 0xff : 0, (size_t)(to - from) / 8);
        from += (to - from) / 8 * 8;
    }
    for (; from < to; from++) kn_bit_put(bits, from, value);
}
static inline size_t kn_bits_bytes(int64_t count) { return (size_t)(count + 7) / 8; }

#endif
