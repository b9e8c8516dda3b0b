/* Copies byte strings of records. Short ones are copied by whole words, which shows on the way
 * whether they are ASCII.
 *
 * Thread: any; no state. */
#ifndef KN_CODECS_SHORT_BYTES_H
#define KN_CODECS_SHORT_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/endian.h"
#include "base/utf8.h"

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

/* Copies bytes of a record that ends at `end`. KN_SHORT_BYTES_MAX must be writable at `to`. Returns
 * 0 if the bytes are a text, and not UTF-8. */
static inline bool kn_copy_bytes(uint8_t *to, const uint8_t *from, int64_t size_bytes,
                                 const uint8_t *end, bool is_text)
{
    bool is_ascii = 0;
    if (size_bytes && size_bytes <= KN_SHORT_BYTES_MAX && end - from >= KN_SHORT_BYTES_MAX) {
        is_ascii = kn_copy_short(to, from, size_bytes);
    } else if (size_bytes) {
        memcpy(to, from, (size_t)size_bytes);
    }
    return !is_text || is_ascii || kn_utf8_is_valid(from, (size_t)size_bytes);
}

#endif
