/* Checks whether bytes are UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing
 * beyond U+10FFFF. Also replaces the bytes that aren't.
 *
 * Thread: any; no state. */
#ifndef KN_BASE_UTF8_H
#define KN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool kn_utf8_is_valid(const uint8_t *data, size_t size_bytes);
/* Copies the bytes with U+FFFD in place of those that aren't UTF-8, like Java's strings. Returns
 * the size of the result, at most three times the input's. `to` may be NULL: then it only computes
 * the size. */
size_t kn_utf8_replace(uint8_t *to, const uint8_t *data, size_t size_bytes);

#endif
