/* Writes floating-point numbers as the shortest text that reads back equal, with std::to_chars of
 * C++. It doesn't depend on the locale, and doesn't allocate.
 *
 * Thread: any; no state. */
#ifndef KN_CODECS_SHORTEST_NUMBER_H
#define KN_CODECS_SHORTEST_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#define KN_SHORTEST_NUMBER_MAX_BYTES 24 /* as in -2.2250738585072014e-308 */

#ifdef KN_HAVE_SIMDJSON /* a build with C++ */
#define KN_SHORTEST_IS_AVAILABLE 1
#ifdef __cplusplus
extern "C" {
#endif

/* The number must be finite. Returns the end of the text. */
uint8_t *kn_shortest_double_put(uint8_t *to, double value);
uint8_t *kn_shortest_float_put(uint8_t *to, float value);

#ifdef __cplusplus
}
#endif
#else /* no program writes such numbers as text */
#define KN_SHORTEST_IS_AVAILABLE 0
static inline uint8_t *kn_shortest_double_put(uint8_t *to, double value)
{
    (void)to, (void)value;
    return NULL;
}
static inline uint8_t *kn_shortest_float_put(uint8_t *to, float value)
{
    (void)to, (void)value;
    return NULL;
}
#endif

#endif
