/* Protobuf's Struct as JSON text: see protobuf_json.h.
 *
 * A message that comes in pieces is put together first: its pieces in a row mean the same as the
 * merged message. */
#include "codecs/protobuf_json.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/utf8.h"
#include "codecs/json_output.h"

#define EXACT_INTEGER_MAX 1e15 /* whole numbers below it are written without an exponent */
#define ESCAPED_PART_BYTES 128 /* of a string, in one piece */

struct run {
    struct kn_json_text *text;
    struct kn_decode_failure *problem;
    int64_t bytes_max;
    int32_t depth;
};

struct piece { /* bytes of a message */
    const uint8_t *at;
    const uint8_t *end;
};

struct entry {
    struct piece key;
    struct piece body;
    int64_t index;
};

static bool fail(struct run *run, int status, const char *text, const uint8_t *at)
{
    kn_decode_fail(run->problem, status, text, at);
    return 0;
}

/* --- text --- */

static bool grow(struct run *run, int64_t more_bytes, const uint8_t *at)
{
    struct kn_json_text *text = run->text;
    int64_t size = text->size_bytes + more_bytes, capacity = 2 * text->capacity_bytes;
    if (size > run->bytes_max)
        return fail(run, KN_ERR_TOO_LARGE, "the record expands to too many bytes", at);
    if (size <= text->capacity_bytes) return 1;
    if (capacity < 256) capacity = 256;
    if (capacity < size) capacity = size;
    uint8_t *data = realloc(text->data, (size_t)capacity);
    if (!data) return fail(run, KN_ERR_NOMEM, "there is not enough memory", at);
    text->data = data;
    text->capacity_bytes = capacity;
    return 1;
}

static bool put(struct run *run, const void *from, int64_t size_bytes, const uint8_t *at)
{
    if (!grow(run, size_bytes, at)) return 0;
    if (size_bytes) memcpy(run->text->data + run->text->size_bytes, from, (size_t)size_bytes);
    run->text->size_bytes += size_bytes;
    return 1;
}

static bool put_text(struct run *run, const char *from, const uint8_t *at)
{
    return put(run, from, (int64_t)strlen(from), at);
}

static bool put_string(struct run *run, struct piece string)
{
    const uint8_t *at = string.at;
    int64_t size = string.end - at, plain;
    bool is_ascii;
    if (!grow(run, size + 2, at)) return 0; /* with its quotes */
    uint8_t *to = run->text->data + run->text->size_bytes;
    *to = '"';
    plain = kn_json_plain_put(to + 1, at, size, &is_ascii);
    run->text->size_bytes += plain + 1;
    if (!is_ascii || plain < size) {
        if (!kn_utf8_is_valid(at, (size_t)size))
            return fail(run, KN_ERR_INVALID, "a string isn't UTF-8", at);
        for (int64_t part; plain < size; plain += part) {
            uint8_t escaped[ESCAPED_PART_BYTES * KN_JSON_ESCAPE_MAX_BYTES];
            part = size - plain < ESCAPED_PART_BYTES ? size - plain : ESCAPED_PART_BYTES;
            const uint8_t *end = kn_json_escaped_put(escaped, at + plain, part);
            if (!put(run, escaped, end - escaped, at)) return 0;
        }
    }
    return put(run, "\"", 1, at);
}

/* Writes a number with 15 to 17 digits, which give it back. */
static bool put_number(struct run *run, const uint8_t *at)
{
    char digits[40];
    uint64_t bits = 0;
    double number;
    for (int i = 8; i-- > 0;) bits = bits << 8 | at[i];
    memcpy(&number, &bits, sizeof number);
    if (!isfinite(number))
        return fail(run, KN_ERR_INVALID, "a number isn't finite, so JSON can't have it", at);
    if (number == 0 && signbit(number)) return put_text(run, "-0.0", at);
    if (number > -EXACT_INTEGER_MAX && number < EXACT_INTEGER_MAX &&
        number == (double)(int64_t)number) {
        snprintf(digits, sizeof digits, "%lld", (long long)number);
        return put_text(run, digits, at);
    }
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        if (precision == 17 || strtod(digits, NULL) == number) break;
    }
    /* the decimal point of the process's locale, which may have several bytes */
    char *to = digits;
    for (const char *p = digits; *p; p++) {
        if (strchr("0123456789+-e", *p)) *to++ = *p;
        else if (to == digits || to[-1] != '.') *to++ = '.';
    }
    return put(run, digits, to - digits, at);
}

/* --- messages in pieces --- */

/* Puts the fields of a tag from `first` on together. *made is new memory, or NULL if there is only
 * one field. */
static bool join(struct run *run, uint32_t wanted, const uint8_t *first, const uint8_t *end,
                 struct piece *whole, uint8_t **made)
{
    int64_t size = 0, total = 0, count = 0;
    uint32_t tag = 0;
    uint8_t *to = NULL;
    *made = NULL;
    for (int pass = 0; pass < 2; pass++) {
        for (const uint8_t *at = first; at < end;) {
            if (!(at = kn_wire_tag(run->problem, at, end, &tag))) return 0;
            if (tag != wanted) {
                if (!(at = kn_wire_skip(run->problem, tag, at, end))) return 0;
                continue;
            }
            if (!(at = kn_wire_size(run->problem, at, end, &size))) return 0;
            if (pass && size) memcpy(to, at, (size_t)size);
            if (pass) to += size;
            if (!pass) *whole = (struct piece){at, at + size};
            total += pass ? 0 : size;
            count += !pass;
            at += size;
        }
        if (count < 2) return 1;
        if (pass) break;
        if (!(*made = to = malloc((size_t)total + 1)))
            return fail(run, KN_ERR_NOMEM, "there is not enough memory", first);
    }
    *whole = (struct piece){*made, *made + total};
    return 1;
}

static bool put_struct(struct run *run, struct piece message);
static bool put_list(struct run *run, struct piece message);

/* --- values --- */

/* Finds the field that counts: the last one with a kind. *first is where its pieces begin. */
static bool find_kind(struct run *run, struct piece message, uint32_t *kind, const uint8_t **first)
{
    uint32_t tag = 0;
    *kind = 0;
    for (const uint8_t *at = message.at; at < message.end;) {
        const uint8_t *start = at;
        if (!(at = kn_wire_tag(run->problem, at, message.end, &tag))) return 0;
        bool is_message = tag == KN_STRUCT_STRUCT_TAG || tag == KN_STRUCT_LIST_TAG;
        if (is_message || tag == KN_STRUCT_NULL_TAG || tag == KN_STRUCT_NUMBER_TAG ||
            tag == KN_STRUCT_STRING_TAG || tag == KN_STRUCT_BOOL_TAG) {
            /* only messages are merged */
            if (tag != *kind || !is_message) *first = start;
            *kind = tag;
        }
        if (!(at = kn_wire_skip(run->problem, tag, at, message.end))) return 0;
    }
    return 1;
}

static bool put_value(struct run *run, struct piece message)
{
    uint32_t kind = 0;
    const uint8_t *first = message.at, *at;
    uint64_t number = 0;
    int64_t size = 0;
    uint8_t *made = NULL;
    struct piece inner;

    if (run->depth == KN_PROTOBUF_JSON_DEPTH_MAX)
        return fail(run, KN_ERR_INVALID, "values are nested too deeply", message.at);
    if (!find_kind(run, message, &kind, &first)) return 0;
    if (!kind || kind == KN_STRUCT_NULL_TAG) return put_text(run, "null", first);
    if (kind == KN_STRUCT_STRUCT_TAG || kind == KN_STRUCT_LIST_TAG) {
        if (!join(run, kind, first, message.end, &inner, &made)) return 0;
        run->depth++;
        bool is_good = kind == KN_STRUCT_STRUCT_TAG ? put_struct(run, inner) : put_list(run, inner);
        run->depth--;
        free(made);
        return is_good;
    }
    at = kn_wire_tag(run->problem, first, message.end, &kind);
    if (kind == KN_STRUCT_NUMBER_TAG) return put_number(run, at);
    if (kind == KN_STRUCT_BOOL_TAG) {
        if (!kn_wire_varint(run->problem, at, message.end, &number)) return 0;
        return put_text(run, number ? "true" : "false", at);
    }
    if (!(at = kn_wire_size(run->problem, at, message.end, &size))) return 0;
    return put_string(run, (struct piece){at, at + size});
}

static bool put_list(struct run *run, struct piece message)
{
    uint32_t tag = 0;
    int64_t size = 0, count = 0;
    if (!put(run, "[", 1, message.at)) return 0;
    for (const uint8_t *at = message.at; at < message.end;) {
        if (!(at = kn_wire_tag(run->problem, at, message.end, &tag))) return 0;
        if (tag != KN_STRUCT_ENTRY_TAG) {
            if (!(at = kn_wire_skip(run->problem, tag, at, message.end))) return 0;
            continue;
        }
        if (!(at = kn_wire_size(run->problem, at, message.end, &size))) return 0;
        if (count++ && !put(run, ",", 1, at)) return 0;
        if (!put_value(run, (struct piece){at, at + size})) return 0;
        at += size;
    }
    return put(run, "]", 1, message.end);
}

/* --- structs --- */

static int compare_bytes(struct piece a, struct piece b)
{
    int64_t left = a.end - a.at, right = b.end - b.at, size = left < right ? left : right;
    int order = size ? memcmp(a.at, b.at, (size_t)size) : 0;
    return order ? order : left < right ? -1 : left > right;
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;
    int order = compare_bytes(left->key, right->key);
    return order ? order : left->index < right->index ? -1 : left->index > right->index;
}

static bool find_key(struct run *run, struct entry *entry)
{
    uint32_t tag = 0;
    int64_t size = 0;
    entry->key = (struct piece){entry->body.at, entry->body.at};
    for (const uint8_t *at = entry->body.at; at < entry->body.end;) {
        if (!(at = kn_wire_tag(run->problem, at, entry->body.end, &tag))) return 0;
        if (tag == KN_STRUCT_ENTRY_TAG) {
            const uint8_t *from = kn_wire_size(run->problem, at, entry->body.end, &size);
            if (!from) return 0;
            entry->key = (struct piece){from, from + size};
        }
        if (!(at = kn_wire_skip(run->problem, tag, at, entry->body.end))) return 0;
    }
    return 1;
}

/* Collects the entries of a struct. With NULL it only counts them. Returns -1 if it fails. */
static int64_t find_entries(struct run *run, struct piece message, struct entry *entries)
{
    uint32_t tag = 0;
    int64_t size = 0, count = 0;
    for (const uint8_t *at = message.at; at < message.end;) {
        if (!(at = kn_wire_tag(run->problem, at, message.end, &tag))) return -1;
        if (tag != KN_STRUCT_ENTRY_TAG) {
            if (!(at = kn_wire_skip(run->problem, tag, at, message.end))) return -1;
            continue;
        }
        if (!(at = kn_wire_size(run->problem, at, message.end, &size))) return -1;
        if (entries) {
            entries[count] = (struct entry){.body = {at, at + size}, .index = count};
            if (!find_key(run, &entries[count])) return -1;
        }
        count++;
        at += size;
    }
    return count;
}

static bool put_entry(struct run *run, const struct entry *entry)
{
    struct piece value = {entry->body.at, entry->body.at};
    uint8_t *made = NULL;
    bool is_good = put_string(run, entry->key) && put(run, ":", 1, entry->body.at) &&
                   join(run, KN_STRUCT_ENTRY_VALUE_TAG, entry->body.at, entry->body.end, &value,
                        &made) &&
                   put_value(run, value);
    free(made);
    return is_good;
}

static bool put_struct(struct run *run, struct piece message)
{
    int64_t count = find_entries(run, message, NULL), written = 0;
    bool is_good = 1;
    if (count < 0) return 0;
    if (!count) return put_text(run, "{}", message.at);
    struct entry *entries = malloc((size_t)count * sizeof *entries);
    if (!entries) return fail(run, KN_ERR_NOMEM, "there is not enough memory", message.at);
    is_good = find_entries(run, message, entries) >= 0;
    if (is_good) qsort(entries, (size_t)count, sizeof *entries, compare_entries);
    is_good = is_good && put(run, "{", 1, message.at);
    for (int64_t i = 0; i < count && is_good; i++) {
        if (i + 1 < count && !compare_bytes(entries[i].key, entries[i + 1].key)) continue;
        if (written++) is_good = put(run, ",", 1, message.at);
        is_good = is_good && put_entry(run, &entries[i]);
    }
    free(entries);
    return is_good && put(run, "}", 1, message.end);
}

int kn_protobuf_json(struct kn_json_text *text, enum kn_protobuf_json_kind kind,
                     const uint8_t *data, int64_t size_bytes, int64_t bytes_max,
                     struct kn_decode_failure *problem)
{
    struct run run = {.text = text, .problem = problem, .bytes_max = bytes_max};
    struct piece message = {data, data + size_bytes};
    text->size_bytes = 0;
    bool is_good = kind == KN_PROTOBUF_JSON_STRUCT  ? put_struct(&run, message)
                   : kind == KN_PROTOBUF_JSON_VALUE ? put_value(&run, message)
                                                    : put_list(&run, message);
    return is_good ? KN_OK : problem->status;
}

void kn_json_text_deinit(struct kn_json_text *text)
{
    free(text->data);
    *text = (struct kn_json_text){0};
}
