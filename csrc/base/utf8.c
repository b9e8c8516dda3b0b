/* Checks UTF-8: see utf8.h. It handles eight bytes at a time while they are ASCII, like most text.
 *
 * Thread: any. Lock: none. */
#include "base/utf8.h"

#include <string.h>

#define HIGH_BITS UINT64_C(0x8080808080808080)

/* Returns the end of the ASCII at the start. */
static const uint8_t *skip_ascii(const uint8_t *at, const uint8_t *end)
{
    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        if (word & HIGH_BITS) break;
        at += 8;
    }
    while (at < end && *at < 0x80) at++;
    return at;
}

/* Returns the end of one character that isn't ASCII, or NULL. Its second byte excludes overlong
 * forms, surrogates and values beyond Unicode. */
static const uint8_t *skip_one(const uint8_t *at, const uint8_t *end)
{
    uint8_t first = *at++, low = 0x80, high = 0xbf;
    int more;
    if (first >= 0xc2 && first <= 0xdf) {
        more = 1;
    } else if (first >= 0xe0 && first <= 0xef) {
        more = 2;
        if (first == 0xe0) low = 0xa0;
        if (first == 0xed) high = 0x9f;
    } else if (first >= 0xf0 && first <= 0xf4) {
        more = 3;
        if (first == 0xf0) low = 0x90;
        if (first == 0xf4) high = 0x8f;
    } else {
        return NULL;
    }
    if (end - at < more || *at < low || *at > high) return NULL;
    for (int i = 1; i < more; i++) {
        if (at[i] < 0x80 || at[i] > 0xbf) return NULL;
    }
    return at + more;
}

/* Returns how many malformed bytes one U+FFFD replaces: as many as could begin a character, and all
 * three of a surrogate. */
static size_t malformed_bytes(const uint8_t *at, const uint8_t *end)
{
    uint8_t first = *at, low = 0x80, high = 0xbf;
    size_t size_max = first >= 0xc2 && first <= 0xdf   ? 2
                      : first >= 0xe0 && first <= 0xef ? 3
                      : first >= 0xf0 && first <= 0xf4 ? 4
                                                       : 1;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
    if (size_max == 1 || end - at < 2 || at[1] < low || at[1] > high) return 1;
    size_t size = 2;
    while (size < size_max && at + size < end && at[size] >= 0x80 && at[size] <= 0xbf) size++;
    return size;
}

size_t kn_utf8_replace(uint8_t *to, const uint8_t *data, size_t size_bytes)
{
    static const uint8_t replacement[] = {0xef, 0xbf, 0xbd};
    size_t used = 0;
    for (const uint8_t *at = data, *end = data + size_bytes; size_bytes && at < end;) {
        const uint8_t *next = *at < 0x80 ? skip_ascii(at, end) : skip_one(at, end);
        const uint8_t *source = next ? at : replacement;
        size_t size = next ? (size_t)(next - at) : sizeof replacement;
        if (to) memcpy(to + used, source, size);
        used += size;
        at = next ? next : at + malformed_bytes(at, end);
    }
    return used;
}

bool kn_utf8_is_valid(const uint8_t *data, size_t size_bytes)
{
    if (!size_bytes) return 1;
    const uint8_t *at = data, *end = data + size_bytes;
    while ((at = skip_ascii(at, end)) < end) {
        if (!(at = skip_one(at, end))) return 0;
    }
    return 1;
}
