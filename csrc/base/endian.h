/* Big-endian stores and loads at any alignment; copies of little-endian numbers.
 *
 * The caller has checked that the bytes exist; use span.h for untrusted input. Compilers turn the
 * byte loops into one bswap and one mov. */
#ifndef KN_BASE_ENDIAN_H
#define KN_BASE_ENDIAN_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define KN_IS_LITTLE_ENDIAN 1
#else
#define KN_IS_LITTLE_ENDIAN 0
#endif

/* Copies a little-endian number to one in this machine's order, or the other way. */
static inline void kn_copy_little(void *to, const void *from, size_t size_bytes)
{
    if (KN_IS_LITTLE_ENDIAN) {
        memcpy(to, from, size_bytes);
    } else {
        for (size_t i = 0; i < size_bytes; i++)
            ((uint8_t *)to)[i] = ((const uint8_t *)from)[size_bytes - 1 - i];
    }
}

static inline uint8_t *kn_put_i8(uint8_t *to, int8_t value)
{
    to[0] = (uint8_t)value;
    return to + 1;
}
static inline uint8_t *kn_put_i16(uint8_t *to, int16_t value)
{
    uint16_t v = (uint16_t)value;
    to[0] = (uint8_t)(v >> 8);
    to[1] = (uint8_t)v;
    return to + 2;
}
static inline uint8_t *kn_put_i32(uint8_t *to, int32_t value)
{
    uint32_t v = (uint32_t)value;
    to[0] = (uint8_t)(v >> 24);
    to[1] = (uint8_t)(v >> 16);
    to[2] = (uint8_t)(v >> 8);
    to[3] = (uint8_t)v;
    return to + 4;
}
static inline uint8_t *kn_put_i64(uint8_t *to, int64_t value)
{
    kn_put_i32(to, (int32_t)((uint64_t)value >> 32));
    kn_put_i32(to + 4, (int32_t)(uint32_t)(uint64_t)value);
    return to + 8;
}
static inline uint32_t kn_get_u32(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}
static inline int32_t kn_get_i32(const uint8_t *from) { return (int32_t)kn_get_u32(from); }
static inline uint32_t kn_get_u32_le(const uint8_t *from)
{
    return (uint32_t)from[3] << 24 | (uint32_t)from[2] << 16 | (uint32_t)from[1] << 8 | from[0];
}

#endif
