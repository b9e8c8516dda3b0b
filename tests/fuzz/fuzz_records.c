/* The records section of a magic 2 batch: the target makes a fitting header, and the rest is the
 * fuzzer's. */
#include "fuzz.h"

#include "base/endian.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct kn_batch_writer writer = {0, 1000, 2000};
    struct kn_batch_meta meta = {7, -1, 0, -1, -1, -1};

    if (size_bytes < 2) return 0;
    writer.record_count = data[0];
    meta.attributes = (int16_t)(data[1] & ~KN_ATTR_CODEC_MASK);
    struct kn_buffer *buffer = kn_buffer_take(NULL, KN_BATCH_HEADER_BYTES);
    FUZZ_CHECK(kn_batch_writer_init(&writer, buffer) == KN_OK);
    writer.record_count = data[0];
    FUZZ_CHECK(kn_buffer_append(&buffer, data + 2, size_bytes - 2) == KN_OK);
    kn_batch_close(buffer, &writer, &meta);

    /* An exact copy, so that the sanitizer finds the first byte read behind it. */
    uint8_t *exact = malloc(buffer->size_bytes);
    size_t exact_bytes = buffer->size_bytes;
    memcpy(exact, buffer->data, exact_bytes);
    kn_buffer_give(buffer);
    struct kn_span span = kn_span_of(exact, exact_bytes);
    struct kn_batch_view view;
    if (kn_batch_view_next(&span, &view) == KN_OK) FUZZ_CHECK(kn_batch_view_check(&view) == KN_OK);
    fuzz_read_batches(exact, exact_bytes);
    free(exact);
    return 0;
}
