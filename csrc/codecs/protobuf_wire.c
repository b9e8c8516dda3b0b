/* Protobuf's wire format: see protobuf_wire.h. */
#include "codecs/protobuf_wire.h"

#include <stddef.h>

#include "base/status.h"

#define VARINT_MAX_BYTES 10
#define TAG_MAX_BYTES 5

/* Bits beyond 64 are ignored, as by all of Protobuf's own decoders. */
const uint8_t *kn_wire_long_varint(struct kn_decode_failure *problem, const uint8_t *at,
                                   const uint8_t *end, uint64_t *value)
{
    uint64_t number = 0;
    const uint8_t *p = at;
    for (unsigned shift = 0; shift < 7 * VARINT_MAX_BYTES; shift += 7) {
        if (p == end) return kn_decode_cut_off(problem, at);
        number |= (uint64_t)(*p & 0x7f) << shift;
        if (*p++ < 0x80) {
            *value = number;
            return p;
        }
    }
    return kn_decode_fail(problem, KN_ERR_INVALID, "a number has too many bits", at);
}

const uint8_t *kn_wire_long_tag(struct kn_decode_failure *problem, const uint8_t *at,
                                const uint8_t *end, uint32_t *tag)
{
    uint64_t value = 0;
    const uint8_t *next = kn_wire_varint(problem, at, end, &value);
    if (!next) return next;
    if (value > UINT32_MAX || next - at > TAG_MAX_BYTES || value < 8)
        return kn_decode_fail(problem, KN_ERR_INVALID, "a field has an impossible number", at);
    *tag = (uint32_t)value;
    return next;
}

const uint8_t *kn_wire_skip_value(struct kn_decode_failure *problem, uint32_t tag,
                                  const uint8_t *at, const uint8_t *end)
{
    uint64_t number = 0;
    int64_t size = 0;
    switch (tag & 7) {
    case KN_WIRE_VARINT: return kn_wire_varint(problem, at, end, &number);
    case KN_WIRE_FIXED64: return end - at >= 8 ? at + 8 : kn_decode_cut_off(problem, at);
    case KN_WIRE_FIXED32: return end - at >= 4 ? at + 4 : kn_decode_cut_off(problem, at);
    case KN_WIRE_DELIMITED:
        at = kn_wire_size(problem, at, end, &size);
        return at ? at + size : NULL;
    default:
        return kn_decode_fail(problem, KN_ERR_INVALID, "a field has an impossible wire type", at);
    }
}

const uint8_t *kn_wire_skip(struct kn_decode_failure *problem, uint32_t tag, const uint8_t *at,
                            const uint8_t *end)
{
    uint32_t open[KN_WIRE_GROUPS_MAX];
    int32_t depth = 0;
    for (;;) {
        if ((tag & 7) == KN_WIRE_START_GROUP) {
            if (depth == KN_WIRE_GROUPS_MAX)
                return kn_decode_fail(problem, KN_ERR_INVALID, "groups are nested too deeply", at);
            open[depth++] = tag + KN_WIRE_END_GROUP - KN_WIRE_START_GROUP;
        } else if ((tag & 7) == KN_WIRE_END_GROUP) {
            if (!depth || open[--depth] != tag)
                return kn_decode_fail(problem, KN_ERR_INVALID, "a group ends that isn't open", at);
        } else if (!(at = kn_wire_skip_value(problem, tag, at, end))) {
            return NULL;
        }
        if (!depth) return at;
        if (!(at = kn_wire_tag(problem, at, end, &tag))) return NULL;
    }
}
