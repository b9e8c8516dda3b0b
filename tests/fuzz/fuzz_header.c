/* Record headers as a consumer walks them. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct kn_span span = kn_span_of(data, size_bytes);
    struct kn_header header;

    while (kn_header_next(&span, &header) == KN_OK) {
        FUZZ_CHECK(header.key != NULL && header.key_bytes >= 0);
        fuzz_touch(header.key, header.key_bytes);
        if (header.value) fuzz_touch(header.value, header.value_bytes);
    }
    FUZZ_CHECK(span.failed && kn_span_left(&span) == 0);
    return 0;
}
