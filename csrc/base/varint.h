/* Zig-zag varints of records, used for every append and every record that is read.
 *
 * Thread: any; no state. Reads stay before `end` and refuse numbers longer than 5 (int32) or 10
 * (int64) bytes. Most numbers are small (deltas, short lengths), so one and two bytes have their
 * own branch. */
#ifndef KN_BASE_VARINT_H
#define KN_BASE_VARINT_H

#include <stddef.h>
#include <stdint.h>

#define KN_VARINT_MAX_BYTES 5
#define KN_VARLONG_MAX_BYTES 10
#define KN_UVARINT_SHORT_BYTES 3

static inline uint64_t kn_zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}
static inline int64_t kn_unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* Bytes of an unsigned varint. */
static inline size_t kn_uvarint_size(uint64_t value)
{
    if (value < 0x80) return 1;
    if (value < 0x4000) return 2;
    unsigned top_bit = 63u - (unsigned)__builtin_clzll(value);
    return (top_bit * 9 + 73) / 64; /* bits / 7 rounded up, without a division */
}
static inline size_t kn_varint_size(int64_t value) { return kn_uvarint_size(kn_zigzag(value)); }

static inline uint8_t *kn_uvarint_put(uint8_t *to, uint64_t value)
{
    if (value < 0x80) {
        to[0] = (uint8_t)value;
        return to + 1;
    }
    if (value < 0x4000) {
        to[0] = (uint8_t)(value | 0x80);
        to[1] = (uint8_t)(value >> 7);
        return to + 2;
    }
    while (value >= 0x80) {
        *to++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *to++ = (uint8_t)value;
    return to;
}
/* Room at `to`: kn_varint_size(value), at most 10 bytes. */
static inline uint8_t *kn_varint_put(uint8_t *to, int64_t value)
{
    return kn_uvarint_put(to, kn_zigzag(value));
}

/* kn_varlong_get() for three and more bytes. */
static __attribute__((noinline, unused)) const uint8_t *kn_varlong_get_slow(const uint8_t *at,
                                                                            const uint8_t *end,
                                                                            int64_t *value)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (at == end) return NULL;
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1) return NULL;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = kn_unzigzag(v);
            return at;
        }
    }
    return NULL;
}
/* Reads a zig-zag int64 from [at, end). Returns the next position, or NULL if the number is cut off
 * or too long. */
static inline const uint8_t *kn_varlong_get(const uint8_t *at, const uint8_t *end, int64_t *value)
{
    if (at < end && at[0] < 0x80) {
        *value = kn_unzigzag(at[0]);
        return at + 1;
    }
    if (end - at >= 2 && at[1] < 0x80) {
        *value = kn_unzigzag((uint64_t)(at[0] & 0x7f) | (uint64_t)at[1] << 7);
        return at + 2;
    }
    return kn_varlong_get_slow(at, end, value);
}
/* The same for an int32: a number of more than five bytes or 32 bits is malformed. */
static inline const uint8_t *kn_varint_get(const uint8_t *at, const uint8_t *end, int32_t *value)
{
    int64_t wide;

    if (at < end && at[0] < 0x80) {
        /* a separate first branch: a record without headers ends with one such byte */
        uint32_t only = at[0];
        *value = (int32_t)(only >> 1) ^ -(int32_t)(only & 1);
        return at + 1;
    }
    if (end - at >= 2 && at[1] < 0x80) {
        uint32_t both = (at[0] & 0x7fu) | (uint32_t)at[1] << 7;
        *value = (int32_t)(both >> 1) ^ -(int32_t)(both & 1);
        return at + 2;
    }
    const uint8_t *next = kn_varlong_get_slow(at, end, &wide);
    if (!next || next - at > KN_VARINT_MAX_BYTES || wide < INT32_MIN || wide > INT32_MAX)
        return NULL;
    *value = (int32_t)wide;
    return next;
}

/* An unsigned varint of at most KN_UVARINT_SHORT_BYTES. So many bytes must be readable. NULL: it is
 * longer. */
static inline const uint8_t *kn_uvarint_get_short(const uint8_t *at, uint32_t *value)
{
    uint32_t v = at[0];
    if (v < 0x80) {
        *value = v;
        return at + 1;
    }
    v += ((uint32_t)at[1] << 7) - 0x80; /* the first byte's high bit is subtracted */
    if (at[1] < 0x80) {
        *value = v;
        return at + 2;
    }
    *value = v + ((uint32_t)at[2] << 14) - 0x4000;
    return at[2] < 0x80 ? at + 3 : NULL;
}

#endif
