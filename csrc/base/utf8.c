/* UTF-8, checked: see utf8.h. Eight bytes at a time as long as they are ASCII, which most text is.
 *
 * Thread: any. Lock: none. Who frees: nobody.
 */
#include "base/utf8.h"

#include <string.h>

#define HIGH_BITS UINT64_C(0x8080808080808080)

/* Behind the ASCII at the start. */
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

/* Behind one character that isn't ASCII, or NULL. Its second byte decides about overlong forms, surrogates and the end of Unicode. */
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

int kn_utf8_is_valid(const uint8_t *data, size_t size_bytes)
{
    if (!size_bytes) return 1;
    const uint8_t *at = data, *end = data + size_bytes;
    while ((at = skip_ascii(at, end)) < end) {
        if (!(at = skip_one(at, end))) return 0;
    }
    return 1;
}
