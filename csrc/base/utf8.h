/* Whether bytes are UTF-8, as Unicode defines it: no overlong forms, no surrogates, nothing beyond
 * U+10FFFF; and what to show of those that aren't.
 *
 * Thread: any; no state.
 */
#ifndef KN_BASE_UTF8_H
#define KN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool kn_utf8_is_valid(const uint8_t *data, size_t size_bytes);
/* Writes the bytes with U+FFFD in place of what isn't UTF-8, as Java's strings are made of bytes,
 * and returns how many that are: at most three times as many. `to` may be NULL: nothing is written.
 */
size_t kn_utf8_replace(uint8_t *to, const uint8_t *data, size_t size_bytes);

#endif
