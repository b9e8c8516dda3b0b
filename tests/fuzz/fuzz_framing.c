/* Framings of records: each record finds the decoder of its schema, or fails with a text, and the
 * builder keeps exactly the rows before it.
 *
 * Input: a byte with the framing (2 bits), key or value (1 bit) and the number of headers (3 bits);
 * the size of the headers, one byte; the headers; then the record. */
#include "fuzz.h"

#include "base/utf8.h"
#include "codecs/schema_decoders.h"

static const char *const PATHS[] = {"", "field"};

/* Reads every byte, so that a sanitizer sees wrong bounds. Half of the records fail. */
static int decode_any(const void *program, struct kn_builder *builder, const uint8_t *data,
                      int64_t size_bytes, struct kn_decode_problem *problem)
{
    unsigned sum = 0;
    (void)program;
    FUZZ_CHECK(size_bytes >= 0);
    for (int64_t i = 0; i < size_bytes; i++) sum += data[i];
    if (sum & 1) {
        *problem = (struct kn_decode_problem){1, size_bytes, "the sum is odd"};
        return KN_ERR_INVALID;
    }
    FUZZ_CHECK(kn_builder_reserve(builder, 0, 1) == KN_OK);
    kn_builder_append_null(builder, 0);
    return KN_OK;
}

static void check_text(const struct kn_schema_failure *failure)
{
    char text[KN_SCHEMA_FAILURE_TEXT_BYTES];
    int32_t size = kn_schema_failure_text(failure, text);
    FUZZ_CHECK(size > 0 && size < KN_SCHEMA_FAILURE_TEXT_BYTES);
    FUZZ_CHECK(kn_utf8_is_valid((const uint8_t *)text, (size_t)size));
}

/* Decodes a record until no schema is unknown any more. */
static void decode(struct kn_schema_decoders *decoders, struct kn_builder *builder,
                   const struct kn_record *record)
{
    struct kn_schema_failure failure;
    int64_t rows = builder->columns[0].length;
    int status = kn_schema_decoders_decode(decoders, builder, record, &failure);
    if (status == KN_ERR_UNKNOWN_SCHEMA) {
        struct kn_schema_decoder made = {
            .key = failure.key, .decoder = {NULL, decode_any}, .paths = PATHS};
        FUZZ_CHECK(failure.key.size_bytes >= 0 &&
                   failure.key.size_bytes <= KN_SCHEMA_KEY_MAX_BYTES);
        FUZZ_CHECK(kn_schema_decoders_add(decoders, &made) == KN_OK);
        status = kn_schema_decoders_decode(decoders, builder, record, &failure);
    }
    FUZZ_CHECK(status == KN_OK || status == KN_ERR_INVALID);
    FUZZ_CHECK(builder->columns[0].length == rows + (status == KN_OK));
    if (status != KN_OK) check_text(&failure);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const struct kn_node node = {.kind = KN_NODE_BYTES, .format = "z", .name = ""};
    struct kn_span span = kn_span_of(data, size_bytes);
    struct kn_schema_decoders decoders;
    struct kn_layout *layout;
    const uint8_t *head = kn_span_take(&span, 2);
    if (!head || (head[0] & 3) > KN_FRAMING_INDEXES) return 0;
    struct kn_record record = {.headers_bytes = head[1], .header_count = head[0] >> 3 & 7};
    if (!(record.headers = kn_span_take(&span, head[1]))) return 0;
    record.key = record.value = span.at;
    record.key_bytes = record.value_bytes = (int32_t)kn_span_left(&span);

    FUZZ_CHECK(kn_layout_new(&node, 1, &layout) == KN_OK);
    struct kn_builder *builder = kn_builder_new(layout, NULL, INT32_MAX);
    FUZZ_CHECK(builder);
    kn_schema_decoders_init(&decoders, (enum kn_framing)(head[0] & 3), head[0] >> 2 & 1);
    decode(&decoders, builder, &record);
    record.header_count = 0;
    decode(&decoders, builder, &record);
    /* each cut, with the decoders of the cuts before it */
    for (int32_t size = 0; size < record.value_bytes && size < 32; size++) {
        struct kn_record cut = record;
        cut.key_bytes = cut.value_bytes = size;
        decode(&decoders, builder, &cut);
    }
    kn_schema_decoders_deinit(&decoders);
    kn_builder_unref(builder);
    kn_layout_unref(layout);
    FUZZ_CHECK(kn_builder_live() == 0 && kn_layout_live() == 0);
    return 0;
}
