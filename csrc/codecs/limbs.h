/* Decimals as limbs: the absolute value of a number of 256 bits, from its lowest 32 bits on.
 *
 * Thread: any; no state. */
#ifndef KN_CODECS_LIMBS_H
#define KN_CODECS_LIMBS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/endian.h"

#define KN_LIMBS 8
#define KN_LIMBS_BYTES (KN_LIMBS * 4)

/* limbs = limbs * factor + more. Returns what has no room. */
static inline uint32_t kn_limbs_multiply(uint32_t limbs[KN_LIMBS], uint32_t factor, uint32_t more)
{
    uint64_t carry = more;
    for (int i = 0; i < KN_LIMBS; i++) {
        carry += (uint64_t)limbs[i] * factor;
        limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return (uint32_t)carry;
}

/* Stores a two's complement of a multiple of 4 bytes, in this machine's order. */
static inline void kn_limbs_store(const uint32_t limbs[KN_LIMBS], bool is_negative, uint8_t *value,
                                  int32_t width_bytes)
{
    uint32_t invert = is_negative ? ~UINT32_C(0) : 0;
    uint64_t carry = is_negative;
    int count = width_bytes / 4;
    for (int i = 0; i < count; i++) {
        carry += limbs[i] ^ invert;
        uint32_t limb = (uint32_t)carry;
        memcpy(value + (KN_IS_LITTLE_ENDIAN ? i : count - 1 - i) * 4, &limb, 4);
        carry >>= 32;
    }
}

/* Loads an integer of up to 32 bytes in this machine's order. Returns whether it is negative. */
bool kn_limbs_load(uint32_t limbs[KN_LIMBS], const uint8_t *value, int32_t width_bytes,
                   bool is_signed);
/* Multiplies by a power of ten. Returns whether the result is exact and has room. */
bool kn_limbs_scale(uint32_t limbs[KN_LIMBS], int32_t power);
/* Returns whether the number is below a limit of 32 bytes, the lowest one first. */
bool kn_limbs_are_below(const uint32_t limbs[KN_LIMBS], const uint8_t *limit);
/* Writes the two's complement, the lowest byte first. Returns how many bytes the number needs. */
int32_t kn_limbs_to_little(const uint32_t limbs[KN_LIMBS], bool is_negative,
                           uint8_t little[KN_LIMBS_BYTES]);

#endif
