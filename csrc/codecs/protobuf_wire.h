/* Reads Protobuf's wire format: numbers, tags, sizes, and fields that are skipped; the limits of its
 * times.
 *
 * Each function returns the next position. NULL: it has filled in the failure.
 *
 * Thread: any; no state. */
#ifndef KN_CODECS_PROTOBUF_WIRE_H
#define KN_CODECS_PROTOBUF_WIRE_H

#include "codecs/decode_problem.h"

#define KN_WIRE_GROUPS_MAX 100                          /* nested unknown groups */
#define KN_WIRE_TIMESTAMP_MIN_S (-INT64_C(62135596800)) /* the year 1 */
#define KN_WIRE_TIMESTAMP_MAX_S INT64_C(253402300799)   /* the end of the year 9999 */
#define KN_WIRE_DURATION_MAX_S INT64_C(315576000000)

enum kn_wire_type {
    KN_WIRE_VARINT,
    KN_WIRE_FIXED64,
    KN_WIRE_DELIMITED,
    KN_WIRE_START_GROUP,
    KN_WIRE_END_GROUP,
    KN_WIRE_FIXED32,
};

/* Skips a value that isn't a group. */
const uint8_t *kn_wire_skip_value(struct kn_decode_failure *problem, uint32_t tag,
                                  const uint8_t *at, const uint8_t *end);
/* Skips a field behind its tag, also a group with groups in it. */
const uint8_t *kn_wire_skip(struct kn_decode_failure *problem, uint32_t tag, const uint8_t *at,
                            const uint8_t *end);

/* kn_wire_varint() for three and more bytes, and for numbers that are cut off. */
const uint8_t *kn_wire_long_varint(struct kn_decode_failure *problem, const uint8_t *at,
                                   const uint8_t *end, uint64_t *value);
static inline const uint8_t *kn_wire_varint(struct kn_decode_failure *problem, const uint8_t *at,
                                            const uint8_t *end, uint64_t *value)
{
    if (__builtin_expect(at < end && at[0] < 0x80, 1)) {
        *value = at[0];
        return at + 1;
    }
    if (__builtin_expect(end - at >= 2 && at[1] < 0x80, 1)) {
        *value = (uint64_t)(at[0] & 0x7f) | (uint64_t)at[1] << 7;
        return at + 2;
    }
    return kn_wire_long_varint(problem, at, end, value);
}

/* kn_wire_tag() for two and more bytes, and for tags that are wrong. */
const uint8_t *kn_wire_long_tag(struct kn_decode_failure *problem, const uint8_t *at,
                                const uint8_t *end, uint32_t *tag);
static inline const uint8_t *kn_wire_tag(struct kn_decode_failure *problem, const uint8_t *at,
                                         const uint8_t *end, uint32_t *tag)
{
    if (__builtin_expect(at < end && at[0] < 0x80 && at[0] >= 8, 1)) {
        *tag = at[0];
        return at + 1;
    }
    return kn_wire_long_tag(problem, at, end, tag);
}

/* Reads the size of bytes that follow, and checks it. */
static inline const uint8_t *kn_wire_size(struct kn_decode_failure *problem, const uint8_t *at,
                                          const uint8_t *end, int64_t *size_bytes)
{
    uint64_t size = 0;
    const uint8_t *next = kn_wire_varint(problem, at, end, &size);
    if (!next) return next;
    if (__builtin_expect(size > (uint64_t)(end - next), 0)) return kn_decode_cut_off(problem, at);
    *size_bytes = (int64_t)size;
    return next;
}

#endif
