/* JSON text as Struct: the bytes, cut and changed texts, and a column that is full. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "codecs/encoder.h"
#include "codecs/protobuf_struct.h"

static const char TEXT[] = " {\"a\" : {\"x\\u00e9\":true},\n\"b\":[2.5, null,\"\"] , \"c\":-0} ";
static const uint8_t
    MESSAGE[] =
        {
            64, /* its size */
            0x0a, 18,   0x0a, 1,    'a',  0x12, 13, 0x2a, 11, 0x0a,
            9,    0x0a, 3,    'x',  0xc3,                     /* a: {x.. */
            0xa9, 0x12, 2,    0x20, 1,                        /* ..: true} */
            0x0a, 26,   0x0a, 1,    'b',  0x12, 21, 0x32, 19, /* b: [ */
            0x0a, 9,    0x11, 0,    0,    0,    0,  0,    0,  4,
            0x40, 0x0a, 2,    0x08, 0,    0x0a, 2,  0x1a, 0, /* items */
            0x0a, 14,   0x0a, 1,    'c',  0x12, 9,  0x11, 0,  0,
            0,    0,    0,    0,    0,    0x80, /* c: -0.0 */
};

/* Writes a copy of the text that has exactly its size, so that ASan sees any access behind it. */
static int write(struct kn_builder *builder, enum kn_protobuf_json_kind kind, const char *text,
                 size_t size, const char **problem)
{
    uint8_t *copy = malloc(size ? size : 1);
    CHECK(copy != NULL);
    memcpy(copy, text, size);
    builder->columns[0].bytes_used = 0;
    int status = kn_protobuf_struct_put(builder, &builder->columns[0], kind, copy, (int64_t)size,
                                        problem);
    CHECK_EQ(*problem != NULL, status == KN_ERR_INVALID);
    free(copy);
    return status;
}

static void check_message(const struct kn_builder *builder)
{
    CHECK_EQ(builder->columns[0].bytes_used, sizeof MESSAGE);
    CHECK_MEM(builder->columns[0].bytes, MESSAGE, sizeof MESSAGE);
}

static void test_a_text_becomes_a_message(void)
{
    struct kn_builder *builder = kn_records_builder_new(INT32_MAX);
    const char *problem;
    CHECK_EQ(write(builder, KN_PROTOBUF_JSON_STRUCT, TEXT, sizeof TEXT - 1, &problem), KN_OK);
    check_message(builder);
    kn_builder_unref(builder);
    CHECK_EQ(kn_builder_live(), 0);
}

static void test_a_column_has_at_most_its_limit(void)
{
    const char *problem;
    for (int64_t limit = 0; limit <= (int64_t)sizeof MESSAGE; limit++) {
        struct kn_builder *builder = kn_records_builder_new(limit);
        int status = write(builder, KN_PROTOBUF_JSON_STRUCT, TEXT, sizeof TEXT - 1, &problem);
        CHECK(builder->columns[0].bytes_used <= limit);
        CHECK(status == KN_ERR_FULL || limit >= (int64_t)sizeof MESSAGE);
        if (status == KN_OK) check_message(builder);
        kn_builder_unref(builder);
    }
}

static void test_cut_and_changed_texts(void)
{
    struct kn_builder *builder = kn_records_builder_new(INT32_MAX);
    const char *problem;
    char text[sizeof TEXT];
    int refused = 0;
    for (size_t size = 0; size + 2 < sizeof TEXT; size++) /* the last space may be missing */
        CHECK_EQ(write(builder, KN_PROTOBUF_JSON_STRUCT, TEXT, size, &problem), KN_ERR_INVALID);
    for (size_t i = 0; i + 1 < sizeof TEXT; i++) {
        for (int byte = 0; byte < 256; byte++) {
            memcpy(text, TEXT, sizeof text);
            text[i] = (char)byte;
            int status = write(builder, KN_PROTOBUF_JSON_STRUCT, text, sizeof text - 1, &problem);
            CHECK(status == KN_OK || status == KN_ERR_INVALID);
            refused += status == KN_ERR_INVALID;
        }
    }
    CHECK(refused > 9000);
    kn_builder_unref(builder);
}

/* As deep as Struct may be read, and one level more. */
static void test_deep_values(void)
{
    struct kn_builder *builder = kn_records_builder_new(INT32_MAX);
    struct kn_json_text shown = {0};
    struct kn_decode_failure wire;
    const char *problem;
    char text[2 * KN_PROTOBUF_JSON_DEPTH_MAX + 2];
    for (int depth = 1; depth <= KN_PROTOBUF_JSON_DEPTH_MAX; depth++) {
        size_t size = 2 * (size_t)depth;
        memset(text, '[', size / 2);
        memset(text + size / 2, ']', size / 2);
        int status = write(builder, KN_PROTOBUF_JSON_VALUE, text, size, &problem);
        CHECK_EQ(status, KN_OK);
        const uint8_t *bytes = builder->columns[0].bytes, *end;
        int64_t bytes_size = 0;
        end = kn_wire_size(&wire, bytes, bytes + builder->columns[0].bytes_used, &bytes_size);
        CHECK(end != NULL);
        CHECK_EQ(
            kn_protobuf_json(&shown, KN_PROTOBUF_JSON_VALUE, end, bytes_size, INT32_MAX, &wire),
            KN_OK);
        CHECK_EQ(shown.size_bytes, size);
        CHECK_MEM(shown.data, text, size);
    }
    memset(text, '[', sizeof text);
    CHECK_EQ(write(builder, KN_PROTOBUF_JSON_VALUE, text, sizeof text, &problem), KN_ERR_INVALID);
    CHECK(strstr(problem, "too deeply") != NULL);
    kn_json_text_deinit(&shown);
    kn_builder_unref(builder);
}

static void test_long_numbers_are_refused(void)
{
    struct kn_builder *builder = kn_records_builder_new(INT32_MAX);
    char text[KN_PROTOBUF_STRUCT_NUMBER_MAX_BYTES + 1];
    const char *problem;
    memset(text, '1', sizeof text);
    text[1] = '.';
    CHECK_EQ(write(builder, KN_PROTOBUF_JSON_VALUE, text, sizeof text - 1, &problem), KN_OK);
    CHECK_EQ(write(builder, KN_PROTOBUF_JSON_VALUE, text, sizeof text, &problem), KN_ERR_INVALID);
    CHECK(strstr(problem, "too long") != NULL);
    kn_builder_unref(builder);
}

int main(void)
{
    RUN(test_a_text_becomes_a_message);
    RUN(test_a_column_has_at_most_its_limit);
    RUN(test_cut_and_changed_texts);
    RUN(test_deep_values);
    RUN(test_long_numbers_are_refused);
    return check_done();
}
