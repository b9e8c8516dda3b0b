/* Varints: the bounded cursor and the fast readers give the same result for every input, and never
 * read outside it. */
#include "fuzz.h"

#include "base/varint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct kn_span span = kn_span_of(data, size_bytes);
    const uint8_t *at = data;
    const uint8_t *end = data + size_bytes;

    while (at != end) {
        int64_t value = 0;
        int32_t narrow = 0;
        const uint8_t *next = kn_varlong_get(at, end, &value);
        int64_t spanned = kn_span_varlong(&span);
        FUZZ_CHECK((next == NULL) == (span.failed != 0));
        if (!next) break;
        FUZZ_CHECK(span.at == next && spanned == value);
        const uint8_t *narrow_next = kn_varint_get(at, end, &narrow);
        if (narrow_next) FUZZ_CHECK(narrow_next == next && narrow == value);
        if (value >= INT32_MIN && value <= INT32_MAX && next - at <= KN_VARINT_MAX_BYTES)
            FUZZ_CHECK(narrow_next == next);
        uint8_t again[KN_VARLONG_MAX_BYTES];
        FUZZ_CHECK((size_t)(kn_varint_put(again, value) - again) == kn_varint_size(value));
        at = next;
    }
    span = kn_span_of(data, size_bytes);
    while (!span.failed && kn_span_left(&span) > 0) {
        kn_span_uvarint(&span);
        kn_span_i64(&span);
        kn_span_i32(&span);
        kn_span_i16(&span);
        kn_span_i8(&span);
    }
    FUZZ_CHECK(span.at <= end);
    return 0;
}
