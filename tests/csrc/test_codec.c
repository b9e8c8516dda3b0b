/* The codecs of this build: compression and decompression, limits, and contexts that are usable
 * after an error. */
#include "check.h"

#include <pthread.h>

#include "base/status.h"
#include "records/codec.h"

static struct kn_codec_table table;

#define TEXT_BYTES 300000
static uint8_t text[TEXT_BYTES];

static void fill_text(void)
{
    uint32_t seed = 1;
    for (size_t i = 0; i < TEXT_BYTES; i++) {
        if (i % 64 == 0) seed = seed * 1103515245u + 12345u;
        text[i] = (uint8_t)('a' + (seed >> (i % 20)) % 16);
    }
}

static struct kn_buffer *compressed(const struct kn_codec *codec, const uint8_t *data,
                                    size_t size_bytes, int level)
{
    struct kn_buffer *out = kn_buffer_take(NULL, 10);
    CHECK_EQ(codec->compress(data, size_bytes, level, &out), KN_OK);
    return out;
}

static int decompress_status(const struct kn_codec *codec, const struct kn_buffer *packed,
                             size_t max_bytes, size_t *made)
{
    struct kn_buffer *out = kn_buffer_take(NULL, 10);
    out->size_bytes = 5;
    int status = codec->decompress(packed->data, packed->size_bytes, max_bytes, &out);
    *made = out->size_bytes - 5;
    if (status == KN_OK && *made == TEXT_BYTES) CHECK_MEM(out->data + 5, text, TEXT_BYTES);
    kn_buffer_give(out);
    return status;
}

static void test_both_ways_at_every_level(void)
{
    const int levels[] = {KN_CODEC_LEVEL_DEFAULT, 0, 1, 6, 9, 12, 100};
    size_t made;
    for (int id = 1; id < KN_CODEC_COUNT; id++) {
        const struct kn_codec *codec = &table.codecs[id];
        if (!codec->compress) continue;
        for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
            size_t size = levels[i] == 100 ? 5000 : TEXT_BYTES; /* zstd's highest level is slow */
            struct kn_buffer *packed = compressed(codec, text, size, levels[i]);
            CHECK_EQ(decompress_status(codec, packed, TEXT_BYTES, &made), KN_OK);
            CHECK_EQ(made, size);
            kn_buffer_give(packed);
        }
    }
    CHECK(table.codecs[KN_CODEC_NONE].compress == NULL);
}

static void test_nothing_both_ways(void)
{
    size_t made;
    for (int id = 1; id < KN_CODEC_COUNT; id++) {
        const struct kn_codec *codec = &table.codecs[id];
        if (!codec->compress) continue;
        struct kn_buffer *packed = compressed(codec, text, 0, KN_CODEC_LEVEL_DEFAULT);
        CHECK_EQ(decompress_status(codec, packed, 0, &made), KN_OK);
        CHECK_EQ(made, 0);
        packed->size_bytes = 0; /* no input at all is corrupt, not empty */
        CHECK_EQ(decompress_status(codec, packed, 100, &made), KN_ERR_CODEC);
        kn_buffer_give(packed);
    }
    CHECK_EQ(kn_buffer_live(), 0);
}

static void test_the_cap_is_exact(void)
{
    const size_t caps[] = {0, 1, 4095, 4096, 65536, TEXT_BYTES - 1};
    size_t made;
    for (int id = 1; id < KN_CODEC_COUNT; id++) {
        const struct kn_codec *codec = &table.codecs[id];
        if (!codec->compress) continue;
        struct kn_buffer *packed = compressed(codec, text, TEXT_BYTES, KN_CODEC_LEVEL_DEFAULT);
        for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
            CHECK_EQ(decompress_status(codec, packed, caps[i], &made), KN_ERR_TOO_LARGE);
            CHECK(made <= caps[i]);
        }
        CHECK_EQ(decompress_status(codec, packed, TEXT_BYTES, &made), KN_OK);
        CHECK_EQ(made, TEXT_BYTES);
        kn_buffer_give(packed);
    }
    CHECK_EQ(kn_buffer_live(), 0);
}

static void test_a_cut_or_broken_stream_does_not_spoil_the_next(void)
{
    size_t made;
    for (int id = 1; id < KN_CODEC_COUNT; id++) {
        const struct kn_codec *codec = &table.codecs[id];
        if (!codec->compress) continue;
        struct kn_buffer *packed = compressed(codec, text, 2000, KN_CODEC_LEVEL_DEFAULT);
        struct kn_buffer *good = compressed(codec, text, TEXT_BYTES, KN_CODEC_LEVEL_DEFAULT);
        size_t whole = packed->size_bytes;
        for (size_t cut = 0; cut < whole; cut++) {
            packed->size_bytes = cut;
            CHECK(decompress_status(codec, packed, 1 << 20, &made) != KN_OK);
            if (cut % 50 == 0) CHECK_EQ(decompress_status(codec, good, TEXT_BYTES, &made), KN_OK);
        }
        packed->size_bytes = whole;
        for (size_t at = 0; at < whole; at++) {
            packed->data[at] ^= 0x55;
            (void)decompress_status(codec, packed, 1 << 20, &made);
            packed->data[at] ^= 0x55;
        }
        CHECK_EQ(decompress_status(codec, good, TEXT_BYTES, &made), KN_OK);
        kn_buffer_give(packed);
        kn_buffer_give(good);
    }
}

static void *work(void *argument)
{
    size_t made;
    (void)argument;
    for (int i = 0; i < 5; i++) {
        for (int id = 1; id < KN_CODEC_COUNT; id++) {
            const struct kn_codec *codec = &table.codecs[id];
            if (!codec->compress) continue;
            struct kn_buffer *packed = compressed(codec, text, 50000, 1 + i);
            CHECK_EQ(decompress_status(codec, packed, 50000, &made), KN_OK);
            kn_buffer_give(packed);
        }
    }
    return NULL;
}

/* Under ASan the end of the thread also proves that its contexts are freed. */
static void test_threads_have_contexts_of_their_own(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_create(&threads[i], NULL, work, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK_EQ(kn_buffer_live(), 0);
}

static void test_the_table_names_its_codecs_and_libraries(void)
{
    static const char *const names[] = {"none", "gzip", "snappy", "lz4", "zstd"};
    for (int id = 0; id < KN_CODEC_COUNT; id++) {
        const struct kn_codec *codec = &table.codecs[id];
        CHECK_STR(codec->name, names[id]);
        CHECK((codec->library != NULL) == (codec->compress != NULL));
        CHECK((codec->library != NULL) == (codec->decompress != NULL));
    }
}

int main(void)
{
    kn_codec_table_init(&table);
    fill_text();
    RUN(test_the_table_names_its_codecs_and_libraries);
    RUN(test_both_ways_at_every_level);
    RUN(test_nothing_both_ways);
    RUN(test_the_cap_is_exact);
    RUN(test_a_cut_or_broken_stream_does_not_spoil_the_next);
    RUN(test_threads_have_contexts_of_their_own);
    return check_done();
}
