/* Big-endian integers and unsigned varints out, each returning the end of what it wrote. The caller has made room. */
#ifndef KN_ENGINE_PUT_H
#define KN_ENGINE_PUT_H

#include <stdint.h>

static inline uint8_t *kn_put_i16(uint8_t *to, int16_t value)
{
    to[0] = (uint8_t)((uint16_t)value >> 8);
    to[1] = (uint8_t)value;
    return to + 2;
}
static inline uint8_t *kn_put_i32(uint8_t *to, int32_t value)
{
    uint32_t v = (uint32_t)value;
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
    return to + 4;
}
static inline uint8_t *kn_put_i64(uint8_t *to, int64_t value)
{
    uint64_t v = (uint64_t)value;
    for (int i = 0; i < 8; i++) to[i] = (uint8_t)(v >> (56 - 8 * i));
    return to + 8;
}
static inline uint8_t *kn_put_uvarint(uint8_t *to, uint32_t value)
{
    while (value >= 0x80) {
        *to++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *to++ = (uint8_t)value;
    return to;
}

#endif
