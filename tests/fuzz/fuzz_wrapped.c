/* Compressed batches and wrappers: the fuzzer writes the content, and the target compresses it and
 * builds the frame around it. */
#include "fuzz.h"

#include "base/endian.h"

static struct kn_codec_table codecs;

static struct kn_buffer *compressed(int codec, const uint8_t *data, size_t size_bytes,
                                    size_t before_bytes)
{
    struct kn_buffer *buffer = kn_buffer_take(NULL, before_bytes + size_bytes);
    memset(buffer->data, 0, before_bytes);
    buffer->size_bytes = before_bytes;
    FUZZ_CHECK(codecs.codecs[codec].compress(data, size_bytes, 1, &buffer) == KN_OK);
    return buffer;
}

static void batch(int codec, uint8_t count, const uint8_t *data, size_t size_bytes)
{
    struct kn_batch_writer writer = {count, 1000, 2000};
    struct kn_batch_meta meta = {0, -1, (int16_t)codec, -1, -1, -1};
    struct kn_buffer *buffer = compressed(codec, data, size_bytes, KN_BATCH_HEADER_BYTES);

    kn_batch_close(buffer, &writer, &meta);
    fuzz_read_batches(buffer->data, buffer->size_bytes);
    kn_buffer_give(buffer);
}

static void wrapper(int codec, int8_t magic, uint8_t attributes, const uint8_t *data,
                    size_t size_bytes)
{
    size_t before_bytes = magic == 1 ? 34 : 26;
    struct kn_buffer *buffer = compressed(codec, data, size_bytes, before_bytes);
    uint8_t *to = kn_put_i64(buffer->data, attributes);

    to = kn_put_i32(to, (int32_t)(buffer->size_bytes - 12));
    to = kn_put_i32(to, 0);
    to = kn_put_i8(to, magic);
    to = kn_put_i8(to, (int8_t)((attributes & 0x08) | codec));
    if (magic == 1) to = kn_put_i64(to, 5000);
    to = kn_put_i32(to, -1);
    kn_put_i32(to, (int32_t)(buffer->size_bytes - before_bytes));
    fuzz_read_batches(buffer->data, buffer->size_bytes);
    kn_buffer_give(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (!codecs.codecs[0].name) kn_codec_table_init(&codecs);
    if (size_bytes < 3) return 0;
    int codec = 1 + data[0] % (KN_CODEC_COUNT - 1);
    int magic = data[1] % 3;
    if (!codecs.codecs[codec].compress) return 0;
    if (magic == 2) {
        batch(codec, data[2], data + 3, size_bytes - 3);
    } else {
        wrapper(codec, (int8_t)magic, data[2], data + 3, size_bytes - 3);
    }
    return 0;
}
