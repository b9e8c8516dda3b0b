/* Copies short byte strings by whole words, and finds out on the way whether they are ASCII.
 *
 * Thread: any; no state. */
#ifndef KN_CODECS_SHORT_BYTES_H
#define KN_CODECS_SHORT_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define KN_IS_LITTLE_ENDIAN 1
#else
#define KN_IS_LITTLE_ENDIAN 0
#endif

#define KN_SHORT_BYTES_MAX 16

/* Returns a word's bits of the first `count` bytes in memory. */
static inline uint64_t kn_low_bytes(int64_t count)
{
    return count >= 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * count) - 1;
}

/* Copies up to KN_SHORT_BYTES_MAX bytes. Returns whether they are ASCII for sure. So many bytes must
 * be readable at `from` and writable at `to`. */
static inline bool kn_copy_short(uint8_t *to, const uint8_t *from, int64_t size_bytes)
{
    uint64_t low, high;
    memcpy(&low, from, 8);
    memcpy(&high, from + 8, 8);
    memcpy(to, &low, 8);
    memcpy(to + 8, &high, 8);
    if (!KN_IS_LITTLE_ENDIAN) return 0;
    low &= kn_low_bytes(size_bytes);
    high &= size_bytes > 8 ? kn_low_bytes(size_bytes - 8) : 0;
    return !((low | high) & UINT64_C(0x8080808080808080));
}

#endif
