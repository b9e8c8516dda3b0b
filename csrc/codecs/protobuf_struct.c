/* JSON text as Protobuf's Struct: see protobuf_struct.h. */
#include "codecs/protobuf_struct.h"

#include <stdbool.h>
#include <string.h>

#include "base/endian.h"
#include "base/status.h"
#include "base/utf8.h"
#include "base/varint.h"
#include "codecs/text_values.h"

static const char NUMBER_CHARACTERS[] = "+-.0123456789Ee";

struct run {
    struct kn_builder *builder;
    struct kn_built *column;
    const uint8_t *at;
    const uint8_t *end;
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

/* --- input --- */

/* Returns the next byte behind whitespace, without taking it; 0: the end. */
static uint8_t next(struct run *run)
{
    while (run->at < run->end &&
           (*run->at == ' ' || *run->at == '\n' || *run->at == '\r' || *run->at == '\t'))
        run->at++;
    return run->at < run->end ? *run->at : 0;
}

static bool take(struct run *run, uint8_t wanted, const char *problem)
{
    if (next(run) != wanted) return fail(run, problem);
    run->at++;
    return 1;
}

static bool take_word(struct run *run, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(run->end - run->at) < size || memcmp(run->at, word, size))
        return fail(run, "the JSON text has an unknown word");
    run->at += size;
    return 1;
}

/* Copies a string without its quotes and escapes, behind its size. */
static bool put_string(struct run *run)
{
    const uint8_t *text = ++run->at, *bad;
    bool has_escapes = 0;
    int64_t place, size;
    for (;; run->at++) {
        if (run->at == run->end) return fail(run, "a string of the JSON text doesn't end");
        if (*run->at == '"') break;
        if (*run->at < 0x20) return fail(run, "a string of the JSON text has a control character");
        if (*run->at != '\\') continue;
        has_escapes = 1;
        if (++run->at == run->end) return fail(run, "a string of the JSON text doesn't end");
    }
    size = run->at++ - text;
    if (!has_escapes) {
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
    int64_t size = 0;
    while (run->at + size < run->end &&
           memchr(NUMBER_CHARACTERS, run->at[size], sizeof NUMBER_CHARACTERS - 1)) {
        if (size == KN_PROTOBUF_STRUCT_NUMBER_MAX_BYTES)
            return fail(run, "a number of the JSON text is too long");
        copy[size] = run->at[size];
        size++;
    }
    copy[size] = 0;
    const char *problem = kn_number_scan(copy, &number);
    if (!problem && number.end != copy + size) problem = "a number is malformed";
    if (!problem && kn_number_to_double(&number, copy, &value))
        problem = "a number of the JSON text is out of the range of a double";
    if (problem) return fail(run, problem);
    run->at += size;
    kn_copy_little(little, &value, sizeof value);
    return put(run, (uint8_t[]){KN_STRUCT_NUMBER_TAG}, 1) && put(run, little, sizeof little);
}

/* --- messages --- */

static bool put_value(struct run *run);

static bool put_delimited_value(struct run *run, uint8_t tag)
{
    int64_t place;
    return put(run, &tag, 1) && begin(run, &place) && put_value(run) && end(run, place);
}

static bool put_entry(struct run *run)
{
    int64_t place;
    if (!put(run, (uint8_t[]){KN_STRUCT_ENTRY_TAG}, 1) || !begin(run, &place)) return 0;
    if (next(run) != '"') return fail(run, "an object of the JSON text lacks a key");
    if (!put(run, (uint8_t[]){KN_STRUCT_ENTRY_TAG}, 1) || !put_string(run)) return 0;
    if (!take(run, ':', "an object of the JSON text lacks a colon")) return 0;
    return put_delimited_value(run, KN_STRUCT_ENTRY_VALUE_TAG) && end(run, place);
}

/* Writes the entries of an object, or the items of a list, from its first bracket on. */
static bool put_items(struct run *run, bool is_object)
{
    uint8_t last = is_object ? '}' : ']';
    run->at++;
    if (next(run) == last) {
        run->at++;
        return 1;
    }
    for (;;) {
        if (!(is_object ? put_entry(run) : put_delimited_value(run, KN_STRUCT_ENTRY_TAG))) return 0;
        if (next(run) == last) {
            run->at++;
            return 1;
        }
        if (!take(run, ',', "an object or list of the JSON text doesn't end")) return 0;
    }
}

static bool put_value(struct run *run)
{
    uint8_t first = next(run);
    bool is_object = first == '{';
    int64_t place;
    if (run->depth == KN_PROTOBUF_JSON_DEPTH_MAX)
        return fail(run, "values of the JSON text are nested too deeply");
    switch (first) {
    case 0: return fail(run, "the JSON text ends within a value");
    case 'n': return take_word(run, "null") && put_two(run, KN_STRUCT_NULL_TAG, 0);
    case 't': return take_word(run, "true") && put_two(run, KN_STRUCT_BOOL_TAG, 1);
    case 'f': return take_word(run, "false") && put_two(run, KN_STRUCT_BOOL_TAG, 0);
    case '"': return put(run, (uint8_t[]){KN_STRUCT_STRING_TAG}, 1) && put_string(run);
    case '{':
    case '[': break;
    default: return put_number(run);
    }
    if (!put(run, is_object ? (uint8_t[]){KN_STRUCT_STRUCT_TAG} : (uint8_t[]){KN_STRUCT_LIST_TAG},
             1))
        return 0;
    run->depth++;
    bool is_good = begin(run, &place) && put_items(run, is_object) && end(run, place);
    run->depth--;
    return is_good;
}

static bool put_message(struct run *run, enum kn_protobuf_json_kind kind)
{
    if (!kn_utf8_is_valid(run->at, (size_t)(run->end - run->at)))
        return fail(run, "the JSON text isn't UTF-8");
    if (kind == KN_PROTOBUF_JSON_VALUE) return put_value(run);
    bool is_object = kind == KN_PROTOBUF_JSON_STRUCT;
    if (next(run) != (is_object ? '{' : '['))
        return fail(run, is_object ? "the text is no JSON object" : "the text is no JSON list");
    return put_items(run, is_object);
}

int kn_protobuf_struct_put(struct kn_builder *builder, struct kn_built *column,
                           enum kn_protobuf_json_kind kind, const uint8_t *text, int64_t size_bytes,
                           const char **problem)
{
    struct run run = {.builder = builder, .column = column, .at = text, .end = text + size_bytes};
    int64_t place;
    run.status = KN_OK;
    bool is_good = begin(&run, &place) && put_message(&run, kind);
    if (is_good) (void)next(&run);
    if (is_good && run.at < run.end) is_good = fail(&run, "more text follows the JSON value");
    if (is_good) (void)end(&run, place);
    *problem = run.problem;
    return run.status;
}
