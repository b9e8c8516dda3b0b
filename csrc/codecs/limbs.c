/* Decimals as limbs: see limbs.h. */
#include "codecs/limbs.h"

#define LIMB_POWER_MAX 9 /* 10^9 fits a limb */

static uint32_t limb_at(const uint8_t *little)
{
    uint32_t limb;
    kn_copy_little(&limb, little, sizeof limb);
    return limb;
}

bool kn_limbs_load(uint32_t limbs[KN_LIMBS], const uint8_t *value, int32_t width_bytes,
                   bool is_signed)
{
    uint8_t little[KN_LIMBS_BYTES];
    kn_copy_little(little, value, (size_t)width_bytes);
    bool is_negative = is_signed && little[width_bytes - 1] & 0x80;
    memset(little + width_bytes, is_negative ? 0xff : 0, sizeof little - (size_t)width_bytes);
    for (int i = 0; i < KN_LIMBS; i++) limbs[i] = limb_at(little + 4 * i);
    uint64_t carry = 1;
    for (int i = 0; i < KN_LIMBS && is_negative; i++) {
        carry += (uint32_t)~limbs[i];
        limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return is_negative;
}

static uint32_t power_of_ten(int32_t exponent)
{
    uint32_t power = 1;
    while (exponent-- > 0) power *= 10;
    return power;
}

/* Divides by a number. Returns the remainder. */
static uint32_t divide(uint32_t limbs[KN_LIMBS], uint32_t divisor)
{
    uint64_t rest = 0;
    for (int i = KN_LIMBS - 1; i >= 0; i--) {
        rest = rest << 32 | limbs[i];
        limbs[i] = (uint32_t)(rest / divisor);
        rest %= divisor;
    }
    return (uint32_t)rest;
}

bool kn_limbs_scale(uint32_t limbs[KN_LIMBS], int32_t power)
{
    while (power) {
        int32_t step = power > 0 ? power : -power;
        if (step > LIMB_POWER_MAX) step = LIMB_POWER_MAX;
        uint32_t factor = power_of_ten(step);
        if (power > 0 ? kn_limbs_multiply(limbs, factor, 0) : divide(limbs, factor)) return 0;
        power += power > 0 ? -step : step;
    }
    return 1;
}

bool kn_limbs_are_below(const uint32_t limbs[KN_LIMBS], const uint8_t *limit)
{
    for (int i = KN_LIMBS - 1; i >= 0; i--) {
        uint32_t limb = limb_at(limit + 4 * i);
        if (limbs[i] != limb) return limbs[i] < limb;
    }
    return 0;
}

int32_t kn_limbs_to_little(const uint32_t limbs[KN_LIMBS], bool is_negative,
                           uint8_t little[KN_LIMBS_BYTES])
{
    uint8_t value[KN_LIMBS_BYTES];
    kn_limbs_store(limbs, is_negative, value, KN_LIMBS_BYTES);
    kn_copy_little(little, value, sizeof value);
    int32_t count = KN_LIMBS_BYTES;
    uint8_t sign = little[count - 1] & 0x80 ? 0xff : 0;
    while (count > 1 && little[count - 1] == sign && !((little[count - 2] ^ sign) & 0x80)) count--;
    return count;
}
