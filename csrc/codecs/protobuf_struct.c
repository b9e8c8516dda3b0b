/* JSON text as Protobuf's Struct: see protobuf_struct.h. */
#include "codecs/protobuf_struct.h"

#include <stdbool.h>
#include <string.h>

#include "base/endian.h"
#include "base/status.h"
#include "base/utf8.h"
#include "base/varint.h"
#include "codecs/json_reader.h"
#include "codecs/text_values.h"

struct run {
    struct kn_builder *builder;
    struct kn_built *column;
    struct kn_json_reader reader;
    int status;
    const char *problem;
    int32_t depth;
};

static bool fail(struct run *run, const char *problem)
{
    run->status = KN_ERR_INVALID;
    run->problem = problem;
    return 0;
}

/* --- output --- */

static bool reserve(struct run *run, int64_t bytes)
{
    int status = kn_builder_reserve_bytes(run->builder, run->column, bytes);
    if (status != KN_OK) run->status = status;
    return status == KN_OK;
}

static bool put(struct run *run, const void *from, int64_t size_bytes)
{
    if (!reserve(run, size_bytes)) return 0;
    if (size_bytes) memcpy(run->column->bytes + run->column->bytes_used, from, (size_t)size_bytes);
    run->column->bytes_used += size_bytes;
    return 1;
}

static bool put_two(struct run *run, uint8_t first, uint8_t second)
{
    return put(run, (uint8_t[]){first, second}, 2);
}

/* Leaves a byte for the size of what follows. */
static bool begin(struct run *run, int64_t *place)
{
    static const uint8_t size = 0;
    *place = run->column->bytes_used;
    return put(run, &size, 1);
}

/* Writes the size. Most sizes take the one byte that was left for them. */
static bool end(struct run *run, int64_t place)
{
    int64_t size = run->column->bytes_used - place - 1;
    int64_t more = (int64_t)kn_uvarint_size((uint64_t)size) - 1;
    if (!reserve(run, more)) return 0;
    uint8_t *start = run->column->bytes + place;
    if (more) memmove(start + 1 + more, start + 1, (size_t)size);
    kn_uvarint_put(start, (uint64_t)size);
    run->column->bytes_used += more;
    return 1;
}

/* --- values --- */

static enum kn_json_event next(struct run *run)
{
    enum kn_json_event event = kn_json_reader_next(&run->reader);
    if (event == KN_JSON_PROBLEM) (void)fail(run, run->reader.problem);
    return event;
}

/* Writes a key or string without its escapes, behind its size. */
static bool put_string(struct run *run)
{
    const uint8_t *text = run->reader.text, *bad;
    int64_t size = run->reader.text_bytes, place;
    if (!run->reader.has_escapes) {
        uint8_t encoded[KN_VARLONG_MAX_BYTES];
        uint8_t *after = kn_uvarint_put(encoded, (uint64_t)size);
        return put(run, encoded, after - encoded) && put(run, text, size);
    }
    if (!begin(run, &place) || !reserve(run, size)) return 0;
    const char *problem = kn_text_unescape(text, size, run->column->bytes + run->column->bytes_used,
                                           &size, &bad);
    if (problem) return fail(run, problem);
    run->column->bytes_used += size;
    return end(run, place);
}

static bool put_number(struct run *run)
{
    uint8_t copy[KN_PROTOBUF_STRUCT_NUMBER_MAX_BYTES + 1], little[8];
    struct kn_number number;
    double value;
    int64_t size = run->reader.text_bytes;
    if (size > KN_PROTOBUF_STRUCT_NUMBER_MAX_BYTES)
        return fail(run, "a number of the JSON text is too long");
    memcpy(copy, run->reader.text, (size_t)size);
    copy[size] = 0;
    const char *problem = kn_number_scan(copy, &number);
    if (problem) return fail(run, problem);
    if (kn_number_to_double(&number, copy, &value))
        return fail(run, "a number of the JSON text is out of the range of a double");
    kn_copy_little(little, &value, sizeof value);
    return put(run, (uint8_t[]){KN_STRUCT_NUMBER_TAG}, 1) && put(run, little, sizeof little);
}

/* --- messages --- */

static bool put_value(struct run *run, enum kn_json_event event);

static bool put_delimited_value(struct run *run, uint8_t tag, enum kn_json_event event)
{
    int64_t place;
    return put(run, &tag, 1) && begin(run, &place) && put_value(run, event) && end(run, place);
}

/* Writes the entry of the key that was read. */
static bool put_entry(struct run *run)
{
    int64_t place;
    return put(run, (uint8_t[]){KN_STRUCT_ENTRY_TAG}, 1) && begin(run, &place) &&
           put(run, (uint8_t[]){KN_STRUCT_ENTRY_TAG}, 1) && put_string(run) &&
           put_delimited_value(run, KN_STRUCT_ENTRY_VALUE_TAG, next(run)) && end(run, place);
}

/* Writes the entries of an object or the items of a list whose first bracket was read. */
static bool put_items(struct run *run)
{
    for (;;) {
        enum kn_json_event event = next(run);
        if (event == KN_JSON_CLOSED) return 1;
        if (event == KN_JSON_PROBLEM) return 0;
        bool is_good = event == KN_JSON_KEY ? put_entry(run)
                                            : put_delimited_value(run, KN_STRUCT_ENTRY_TAG, event);
        if (!is_good) return 0;
    }
}

static bool put_value(struct run *run, enum kn_json_event event)
{
    uint8_t tag = event == KN_JSON_OBJECT ? KN_STRUCT_STRUCT_TAG : KN_STRUCT_LIST_TAG;
    int64_t place;
    if (event == KN_JSON_PROBLEM) return 0;
    if (run->depth == KN_PROTOBUF_JSON_DEPTH_MAX) return fail(run, KN_JSON_TOO_DEEP);
    switch (event) {
    case KN_JSON_NULL: return put_two(run, KN_STRUCT_NULL_TAG, 0);
    case KN_JSON_TRUE: return put_two(run, KN_STRUCT_BOOL_TAG, 1);
    case KN_JSON_FALSE: return put_two(run, KN_STRUCT_BOOL_TAG, 0);
    case KN_JSON_NUMBER: return put_number(run);
    case KN_JSON_STRING: return put(run, (uint8_t[]){KN_STRUCT_STRING_TAG}, 1) && put_string(run);
    default: break;
    }
    run->depth++;
    bool is_good = put(run, &tag, 1) && begin(run, &place) && put_items(run) && end(run, place);
    run->depth--;
    return is_good;
}

static bool put_message(struct run *run, enum kn_protobuf_json_kind kind, const uint8_t *text,
                        int64_t size_bytes)
{
    if (!kn_utf8_is_valid(text, (size_t)size_bytes)) return fail(run, "the JSON text isn't UTF-8");
    /* a message is one level more than its value, and put_value() counts the values */
    kn_json_reader_init(&run->reader, text, size_bytes, KN_PROTOBUF_JSON_DEPTH_MAX + 1);
    enum kn_json_event event = next(run);
    if (kind == KN_PROTOBUF_JSON_VALUE) return put_value(run, event);
    if (kind == KN_PROTOBUF_JSON_STRUCT && event != KN_JSON_OBJECT)
        return fail(run, "the text is no JSON object");
    if (kind == KN_PROTOBUF_JSON_LIST && event != KN_JSON_LIST)
        return fail(run, "the text is no JSON list");
    return put_items(run);
}

int kn_protobuf_struct_put(struct kn_builder *builder, struct kn_built *column,
                           enum kn_protobuf_json_kind kind, const uint8_t *text, int64_t size_bytes,
                           const char **problem)
{
    struct run run; /* the reader isn't cleared for each text */
    int64_t place;
    run.builder = builder;
    run.column = column;
    run.status = KN_OK;
    run.problem = NULL;
    run.depth = 0;
    bool is_good = begin(&run, &place) && put_message(&run, kind, text, size_bytes);
    if (is_good && next(&run) == KN_JSON_END) (void)end(&run, place);
    *problem = run.problem;
    return run.status;
}
