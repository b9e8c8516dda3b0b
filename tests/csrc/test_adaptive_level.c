/* The adaptive compression level: the quickest form of the default level that costs hardly any
 * bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "check.h"
#include "produce/adaptive_level.h"

enum { LARGE = KN_ADAPTIVE_LEVEL_BYTES, FORMS = 3 };

static struct {
    size_t made[FORMS]; /* output size of each form */
    int calls[FORMS];
    int fails; /* this form; -1: none */
} fake;

static uint8_t anything[1 << 20];

static int fake_compress(const uint8_t *src, size_t size_bytes, int level, struct kn_buffer **out)
{
    int form = KN_CODEC_LEVEL_DEFAULT - level;
    CHECK(form >= 0 && form < FORMS && size_bytes <= sizeof anything);
    fake.calls[form]++;
    if (form == fake.fails) return KN_ERR_CODEC;
    uint8_t filled[4096];
    memset(filled, form, sizeof filled);
    (void)src;
    return kn_buffer_append(out, filled, fake.made[form]);
}

static const struct kn_codec fake_codec = {
    .name = "fake", .compress = fake_compress, .quicker_forms = FORMS - 1};
static struct kn_pool *pool;

/* Compresses behind a header of five bytes. Returns the form whose output is there; -1: it
 * failed. */
static int form_of(struct kn_adaptive_level *adaptive_level, const struct kn_codec *codec,
                   size_t size_bytes)
{
    struct kn_buffer *out = kn_buffer_take(pool, 8);
    CHECK(out);
    memcpy(out->data, "head.", 5);
    out->size_bytes = 5;
    int status = kn_adaptive_level_compress(adaptive_level, codec, anything, size_bytes, &out);
    int form = status == KN_OK ? out->data[5] : -1;
    if (status == KN_OK) CHECK_EQ(out->size_bytes, 5 + fake.made[form]);
    CHECK_MEM(out->data, "head.", 5);
    kn_buffer_give(out);
    return form;
}

static void expect_form(size_t own, size_t quicker, size_t quickest, int form)
{
    struct kn_adaptive_level adaptive_level = {0};
    memset(fake.calls, 0, sizeof fake.calls);
    fake.fails = -1;
    fake.made[0] = own, fake.made[1] = quicker, fake.made[2] = quickest;
    for (int i = 0; i < KN_ADAPTIVE_LEVEL_BATCHES; i++)
        CHECK_EQ(form_of(&adaptive_level, &fake_codec, LARGE), form);
    int sum = 0;
    for (int i = 0; i < FORMS; i++) sum += fake.calls[i];
    /* one trial, and one more compression if the last form wasn't chosen */
    CHECK_EQ(sum, KN_ADAPTIVE_LEVEL_BATCHES - 1 + FORMS + (form != FORMS - 1));
}

static void test_quickest_form_with_few_more_bytes_is_kept(void)
{
    expect_form(1000, 1025, 1025, 2); /* exactly the allowed loss */
    expect_form(1000, 1025, 1026, 1);
    expect_form(1000, 1026, 1026, 0);
    expect_form(1000, 1100, 990, 2);
    expect_form(1000, 900, 3000, 1);
}

static void test_another_trial_adapts_to_different_data(void)
{
    struct kn_adaptive_level adaptive_level = {0};
    fake.fails = -1;
    fake.made[0] = fake.made[1] = fake.made[2] = 1000;
    CHECK_EQ(form_of(&adaptive_level, &fake_codec, LARGE), 2);
    fake.made[2] = 3000;
    for (int i = 1; i < KN_ADAPTIVE_LEVEL_BATCHES; i++)
        CHECK_EQ(form_of(&adaptive_level, &fake_codec, LARGE), 2);
    CHECK_EQ(form_of(&adaptive_level, &fake_codec, LARGE), 1);
    CHECK_EQ(form_of(&adaptive_level, &fake_codec, LARGE), 1);
}

static void test_small_batches_and_codecs_without_forms_are_left_to_the_default(void)
{
    struct kn_adaptive_level adaptive_level = {0};
    struct kn_codec plain = fake_codec;
    plain.quicker_forms = 0;
    memset(fake.calls, 0, sizeof fake.calls);
    fake.fails = -1;
    fake.made[0] = fake.made[1] = fake.made[2] = 1000;
    CHECK_EQ(form_of(&adaptive_level, &fake_codec, LARGE - 1), 0);
    CHECK_EQ(form_of(&adaptive_level, &plain, LARGE), 0);
    CHECK_EQ(fake.calls[0], 2);
    CHECK_EQ(fake.calls[1] + fake.calls[2], 0);
}

static void test_a_failed_form_is_reported(void)
{
    struct kn_adaptive_level adaptive_level = {0};
    fake.made[0] = fake.made[1] = fake.made[2] = 1000;
    fake.fails = 1;
    CHECK_EQ(form_of(&adaptive_level, &fake_codec, LARGE), -1);
}

/* --- zstd's forms --- */

static size_t fill_alike(uint8_t *to, size_t room) /* similar events */
{
    uint32_t chance = 1;
    size_t size = 0;
    while (size + 200 < room) {
        chance = chance * 1664525 + 1013904223;
        size += (size_t)sprintf((char *)to + size,
                                "{\"id\": %u, \"user\": \"user-%u\", \"page\": \"/products/%u\", "
                                "\"price\": %u.%02u, \"session\": \"%08x\"}",
                                (unsigned)size, chance >> 12, chance >> 20, chance >> 25,
                                chance >> 26, (unsigned)(chance * 2654435761u));
    }
    return size;
}

static size_t fill_distant(uint8_t *to, size_t room) /* noise that repeats at a long distance */
{
    enum { BLOCK = 600, BLOCKS = 400 };
    uint32_t chance = 7;
    for (size_t at = 0; at < room; at++) {
        if (at >= (size_t)BLOCK * BLOCKS && at % BLOCK == 0) {
            chance = chance * 1664525 + 1013904223;
            size_t from = (chance >> 8) % BLOCKS * BLOCK;
            size_t take = room - at < BLOCK ? room - at : BLOCK;
            memcpy(to + at, to + from, take);
            at += take - 1;
            continue;
        }
        chance = chance * 1664525 + 1013904223;
        to[at] = (uint8_t)(chance >> 24);
    }
    return room;
}

static size_t size_at(const struct kn_codec *zstd, const uint8_t *data, size_t size_bytes,
                      int level)
{
    struct kn_buffer *out = kn_buffer_take(pool, 8), *back = kn_buffer_take(pool, 8);
    CHECK(out && back);
    CHECK_EQ(zstd->compress(data, size_bytes, level, &out), KN_OK);
    CHECK_EQ(zstd->decompress(out->data, out->size_bytes, size_bytes, &back), KN_OK);
    CHECK_EQ(back->size_bytes, size_bytes);
    CHECK_MEM(back->data, data, size_bytes);
    size_t made = out->size_bytes;
    kn_buffer_give(out);
    kn_buffer_give(back);
    return made;
}

static void check_choice(const struct kn_codec *zstd, size_t (*fill)(uint8_t *, size_t), int form)
{
    uint8_t *data = malloc(1 << 20);
    CHECK(data);
    size_t size_bytes = fill(data, 1 << 20), own = size_at(zstd, data, size_bytes, 3);
    /* the default is level 3 */
    CHECK_EQ(size_at(zstd, data, size_bytes, KN_CODEC_LEVEL_DEFAULT), own);
    struct kn_adaptive_level adaptive_level = {0};
    for (int i = 0; i < 2; i++) { /* the trial, and then the chosen form */
        struct kn_buffer *out = kn_buffer_take(pool, 8);
        CHECK_EQ(kn_adaptive_level_compress(&adaptive_level, zstd, data, size_bytes, &out), KN_OK);
        CHECK(out->size_bytes <= own + own / KN_ADAPTIVE_LEVEL_LOSS);
        CHECK_EQ(atomic_load(&adaptive_level.form), form);
        kn_buffer_give(out);
    }
    /* the quicker form is much worse here */
    if (form == 0)
        CHECK(size_at(zstd, data, size_bytes, KN_CODEC_LEVEL_DEFAULT - zstd->quicker_forms) >
              own * 2);
    free(data);
}

static void
test_zstd_takes_small_tables_for_records_that_look_alike_and_its_own_for_distant_repeats(void)
{
    struct kn_codec_table table;
    kn_codec_table_init(&table);
    const struct kn_codec *zstd = &table.codecs[KN_CODEC_ZSTD];
    if (!zstd->compress) {
        printf("zstd is not built in: its forms are not tested\n");
        return;
    }
    check_choice(zstd, fill_alike, zstd->quicker_forms);
    check_choice(zstd, fill_distant, 0);
}

int main(void)
{
    pool = kn_pool_new((size_t)16 << 20);
    RUN(test_quickest_form_with_few_more_bytes_is_kept);
    RUN(test_another_trial_adapts_to_different_data);
    RUN(test_small_batches_and_codecs_without_forms_are_left_to_the_default);
    RUN(test_a_failed_form_is_reported);
    RUN(test_zstd_takes_small_tables_for_records_that_look_alike_and_its_own_for_distant_repeats);
    kn_pool_free(pool);
    return check_done();
}
