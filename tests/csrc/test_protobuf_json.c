/* Struct as JSON text: failed allocations, limits, and the locale. */
#include "check.h"

#include <locale.h>
#include <stdlib.h>

#include "failing_alloc.h"
#include "../../csrc/codecs/protobuf_json.c"
#undef malloc
#undef calloc
#undef realloc

/* {"b": 2.5, "a": {"x": true}}; the struct of "a" comes in two pieces, and "b" comes twice */
static const uint8_t MESSAGE[] = {
    0x0a, 5,  0x0a, 1,  'b',  0x12, 0,                                          /* b: null */
    0x0a, 22, 0x0a, 1,  'a',  0x12, 2,    0x2a, 0,                              /* a: {} */
    0x12, 13, 0x2a, 11, 0x0a, 9,    0x0a, 1,    'x', 0x12, 2, 0x20, 1, 0x1a, 0, /* and x: true */
    0x0a, 14, 0x0a, 1,  'b',  0x12, 9,    0x11, 0,   0,    0, 0,    0, 0,    4, 0x40, /* b: 2.5 */
};

static int write_text(struct kn_json_text *text, int64_t bytes_max,
                      struct kn_decode_failure *problem)
{
    return kn_protobuf_json(text, KN_PROTOBUF_JSON_STRUCT, MESSAGE, sizeof MESSAGE, bytes_max,
                            problem);
}

static void check_text(const struct kn_json_text *text)
{
    static const char expected[] = "{\"a\":{\"x\":true},\"b\":2.5}";
    CHECK_EQ(text->size_bytes, (int64_t)sizeof expected - 1);
    CHECK_MEM(text->data, expected, sizeof expected - 1);
}

static void test_each_failed_allocation_is_reported_and_leaks_nothing(void)
{
    struct kn_decode_failure problem;
    long fail_at = 0;
    for (failed = 1; failed; fail_at++) {
        struct kn_json_text text = {0};
        allocations_left = fail_at;
        failed = 0;
        int status = write_text(&text, INT32_MAX, &problem);
        allocations_left = -1;
        CHECK_EQ(status, failed ? KN_ERR_NOMEM : KN_OK);
        if (status == KN_OK) check_text(&text);
        CHECK_EQ(write_text(&text, INT32_MAX, &problem), KN_OK);
        check_text(&text);
        kn_json_text_deinit(&text);
    }
    CHECK(fail_at > 4); /* there were allocations to fail */
}

static void test_a_text_has_at_most_its_limit(void)
{
    struct kn_decode_failure problem;
    struct kn_json_text text = {0};
    for (int64_t limit = 0; limit < 24; limit++)
        CHECK_EQ(write_text(&text, limit, &problem), KN_ERR_TOO_LARGE);
    CHECK_EQ(write_text(&text, 24, &problem), KN_OK);
    check_text(&text);
    kn_json_text_deinit(&text);
}

static void test_each_cut_is_reported(void)
{
    struct kn_decode_failure problem;
    struct kn_json_text text = {0};
    int64_t cuts = 0;
    for (int64_t size = 0; size < (int64_t)sizeof MESSAGE; size++) {
        int status = kn_protobuf_json(&text, KN_PROTOBUF_JSON_STRUCT, MESSAGE, size, INT32_MAX,
                                      &problem);
        CHECK(status == KN_OK || status == KN_ERR_TRUNCATED);
        cuts += status == KN_ERR_TRUNCATED;
    }
    CHECK_EQ(cuts, (int64_t)sizeof MESSAGE - 3); /* 3 cuts are between two entries */
    kn_json_text_deinit(&text);
}

/* The text has a decimal point in each locale. */
static void test_numbers_dont_depend_on_the_locale(void)
{
    struct kn_decode_failure problem;
    struct kn_json_text text = {0};
    static const char *const LOCALES[] = {"C", "de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF.UTF-8"};
    for (size_t i = 0; i < sizeof LOCALES / sizeof *LOCALES; i++) {
        (void)setlocale(LC_NUMERIC, LOCALES[i]); /* not each machine has all of them */
        CHECK_EQ(write_text(&text, INT32_MAX, &problem), KN_OK);
        check_text(&text);
    }
    kn_json_text_deinit(&text);
}

/* A Value with a string of a size and an escape at each place, and the text's exact limit. */
static void test_escapes_and_the_limit(void)
{
    struct kn_decode_failure problem;
    struct kn_json_text text = {0};
    enum { SIZE = 300 };
    uint8_t message[SIZE + 3] = {KN_STRUCT_STRING_TAG, (SIZE & 0x7f) | 0x80, SIZE >> 7};
    for (int at = 0; at < SIZE; at++) {
        memset(message + 3, 'x', SIZE);
        message[3 + at] = '\x1f';
        int64_t limit = SIZE + 2 + 5;
        CHECK_EQ(kn_protobuf_json(&text, KN_PROTOBUF_JSON_VALUE, message, sizeof message, limit - 1,
                                  &problem),
                 KN_ERR_TOO_LARGE);
        CHECK_EQ(kn_protobuf_json(&text, KN_PROTOBUF_JSON_VALUE, message, sizeof message, limit,
                                  &problem),
                 KN_OK);
        CHECK_EQ(text.size_bytes, limit);
        CHECK(text.data[0] == '"' && text.data[limit - 1] == '"');
        CHECK_MEM(text.data + 1 + at, "\\u001f", 6);
        message[3 + at] = 0xff;
        CHECK_EQ(kn_protobuf_json(&text, KN_PROTOBUF_JSON_VALUE, message, sizeof message, limit,
                                  &problem),
                 KN_ERR_INVALID);
    }
    kn_json_text_deinit(&text);
}

int main(void)
{
    RUN(test_each_failed_allocation_is_reported_and_leaks_nothing);
    RUN(test_a_text_has_at_most_its_limit);
    RUN(test_each_cut_is_reported);
    RUN(test_escapes_and_the_limit);
    RUN(test_numbers_dont_depend_on_the_locale);
    return check_done();
}
