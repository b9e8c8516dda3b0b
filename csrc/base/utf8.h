/* Whether bytes are UTF-8, as Unicode defines it: no overlong forms, no surrogates, nothing beyond U+10FFFF.
 *
 * Thread: any; no state.
 */
#ifndef KN_BASE_UTF8_H
#define KN_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

int kn_utf8_is_valid(const uint8_t *data, size_t size_bytes);

#endif
