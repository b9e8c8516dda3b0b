/* Bounded read cursor over borrowed bytes.
 *
 * A failure is sticky: the first read past the end (or a malformed varint) sets `failed`, and every
 * later read returns 0 or NULL. The caller checks once at the end. No read leaves the span. */
#ifndef KN_BASE_SPAN_H
#define KN_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct kn_span {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

static inline struct kn_span kn_span_of(const void *data, size_t size_bytes)
{
    const uint8_t *start = data;
    /* `data` may be NULL if size_bytes is 0; even NULL + 0 is undefined in C. */
    struct kn_span span = {start, size_bytes ? start + size_bytes : start, 0};
    return span;
}
static inline size_t kn_span_left(const struct kn_span *span)
{
    return (size_t)(span->end - span->at);
}

/* Returns the next size_bytes. If fewer are left, sets `failed` and returns NULL. */
static inline const uint8_t *kn_span_take(struct kn_span *span, size_t size_bytes)
{
    if (span->failed || size_bytes > kn_span_left(span)) {
        span->failed = 1;
        span->at = span->end;
        return NULL;
    }
    const uint8_t *data = span->at;
    span->at += size_bytes;
    return data;
}
static inline int8_t kn_span_i8(struct kn_span *span)
{
    const uint8_t *p = kn_span_take(span, 1);
    return p ? (int8_t)p[0] : 0;
}
static inline int16_t kn_span_i16(struct kn_span *span)
{
    const uint8_t *p = kn_span_take(span, 2);
    return p ? (int16_t)((uint16_t)p[0] << 8 | p[1]) : 0;
}
static inline int32_t kn_span_i32(struct kn_span *span)
{
    const uint8_t *p = kn_span_take(span, 4);
    return p ? (int32_t)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3])
             : 0;
}
static inline int64_t kn_span_i64(struct kn_span *span)
{
    const uint8_t *p = kn_span_take(span, 8);
    if (!p) return 0;
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v = v << 8 | p[i];
    return (int64_t)v;
}
/* Unsigned varint of at most 5 bytes (lengths and tags of the protocol). */
static inline uint32_t kn_span_uvarint(struct kn_span *span)
{
    uint32_t v = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        const uint8_t *p = kn_span_take(span, 1);
        if (!p) return 0;
        if (shift == 28 && (*p & 0xf0)) break;
        v |= (uint32_t)(*p & 0x7f) << shift;
        if (!(*p & 0x80)) return v;
    }
    span->failed = 1;
    span->at = span->end;
    return 0;
}
/* Zig-zag varint of at most 10 bytes. varint.h has the fast version for records. */
static inline int64_t kn_span_varlong(struct kn_span *span)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        const uint8_t *p = kn_span_take(span, 1);
        if (!p) return 0;
        if (shift == 63 && (*p & 0xfe)) break;
        v |= (uint64_t)(*p & 0x7f) << shift;
        if (!(*p & 0x80)) return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
    }
    span->failed = 1;
    span->at = span->end;
    return 0;
}

#endif
