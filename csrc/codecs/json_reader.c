/* JSON text, value by value: see json_reader.h. */
#include "codecs/json_reader.h"

#include <string.h>

#include "codecs/text_values.h"

enum expected {
    A_VALUE,
    FIRST, /* a value or key, or the end of the object or list that has just begun */
    BEHIND /* a comma, or the end of an object, of a list, or of the text */
};

static const char UNKNOWN_WORD[] = "the JSON text has an unknown word";

static enum kn_json_event fail(struct kn_json_reader *reader, const char *problem)
{
    reader->problem = problem;
    return KN_JSON_PROBLEM;
}

/* Returns the next byte without taking it; 0: the end. */
static inline uint8_t peek(const struct kn_json_reader *reader)
{
    return reader->at < reader->end ? *reader->at : 0;
}

static inline uint8_t peek_behind_space(struct kn_json_reader *reader)
{
    uint8_t c;
    while ((c = peek(reader)) == ' ' || c == '\n' || c == '\r' || c == '\t') reader->at++;
    return c;
}

static inline bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

/* --- values --- */

static enum kn_json_event read_word(struct kn_json_reader *reader, const char *word,
                                    enum kn_json_event event)
{
    size_t size = strlen(word);
    if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, word, size))
        return fail(reader, UNKNOWN_WORD);
    reader->at += size;
    return event;
}

static bool skip_digits(struct kn_json_reader *reader)
{
    const uint8_t *start = reader->at;
    while (is_digit(peek(reader))) reader->at++;
    return reader->at > start;
}

static enum kn_json_event read_number(struct kn_json_reader *reader)
{
    static const char MALFORMED[] = "a number of the JSON text is malformed";
    reader->text = reader->at;
    if (peek(reader) == '-') reader->at++;
    const uint8_t *first = reader->at;
    if (!skip_digits(reader)) return fail(reader, MALFORMED);
    if (*first == '0' && reader->at - first > 1)
        return fail(reader, "a number of the JSON text begins with a zero");
    if (peek(reader) == '.') {
        reader->at++;
        if (!skip_digits(reader)) return fail(reader, MALFORMED);
    }
    if ((peek(reader) | 0x20) == 'e') {
        reader->at++;
        if (peek(reader) == '+' || peek(reader) == '-') reader->at++;
        if (!skip_digits(reader)) return fail(reader, MALFORMED);
    }
    reader->text_bytes = reader->at - reader->text;
    return KN_JSON_NUMBER;
}

/* Reads a string from its first quote on. */
static enum kn_json_event read_string(struct kn_json_reader *reader, enum kn_json_event event)
{
    int32_t character;
    reader->text = ++reader->at;
    reader->has_escapes = 0;
    while (reader->at < reader->end) {
        uint8_t c = *reader->at++;
        if (c == '"') {
            reader->text_bytes = reader->at - 1 - reader->text;
            return event;
        }
        if (c < 0x20) return fail(reader, "a string of the JSON text has a control character");
        if (c != '\\') continue;
        reader->has_escapes = 1;
        const char *problem = kn_text_escape(&reader->at, reader->end, &character);
        if (problem) return fail(reader, problem);
    }
    return fail(reader, "a string of the JSON text doesn't end");
}

static enum kn_json_event read_key(struct kn_json_reader *reader)
{
    if (peek_behind_space(reader) != '"')
        return fail(reader, "an object of the JSON text lacks a key");
    if (read_string(reader, KN_JSON_KEY) != KN_JSON_KEY) return KN_JSON_PROBLEM;
    if (peek_behind_space(reader) != ':')
        return fail(reader, "an object of the JSON text lacks a colon");
    reader->at++;
    reader->expected = A_VALUE;
    return KN_JSON_KEY;
}

static enum kn_json_event open_value(struct kn_json_reader *reader, uint8_t closing,
                                     enum kn_json_event event)
{
    if (reader->depth == reader->depth_max) return fail(reader, KN_JSON_TOO_DEEP);
    reader->closing[reader->depth++] = closing;
    reader->expected = FIRST;
    reader->at++;
    return event;
}

static enum kn_json_event read_value(struct kn_json_reader *reader)
{
    reader->expected = BEHIND;
    switch (peek_behind_space(reader)) {
    case '{': return open_value(reader, '}', KN_JSON_OBJECT);
    case '[': return open_value(reader, ']', KN_JSON_LIST);
    case '"': return read_string(reader, KN_JSON_STRING);
    case 't': return read_word(reader, "true", KN_JSON_TRUE);
    case 'f': return read_word(reader, "false", KN_JSON_FALSE);
    case 'n': return read_word(reader, "null", KN_JSON_NULL);
    case ',':
    case '}':
    case ']': return fail(reader, "the JSON text lacks a value");
    default: break;
    }
    if (reader->at == reader->end) return fail(reader, "the JSON text ends within a value");
    if (peek(reader) == '-' || is_digit(peek(reader))) return read_number(reader);
    return fail(reader, UNKNOWN_WORD);
}

/* --- objects and lists --- */

void kn_json_reader_init(struct kn_json_reader *reader, const uint8_t *text, int64_t size_bytes,
                         int32_t depth_max)
{
    reader->at = reader->text = text;
    reader->end = text + size_bytes;
    reader->text_bytes = 0;
    reader->has_escapes = 0;
    reader->problem = NULL;
    reader->expected = A_VALUE;
    reader->depth = 0;
    reader->depth_max = depth_max < KN_JSON_READER_DEPTH_MAX ? depth_max : KN_JSON_READER_DEPTH_MAX;
}

enum kn_json_event kn_json_reader_next(struct kn_json_reader *reader)
{
    if (reader->expected == A_VALUE) return read_value(reader);
    uint8_t c = peek_behind_space(reader);
    if (reader->depth && c == reader->closing[reader->depth - 1]) {
        reader->at++;
        reader->depth--;
        reader->expected = BEHIND;
        return KN_JSON_CLOSED;
    }
    if (reader->expected == BEHIND) {
        if (!reader->depth)
            return reader->at == reader->end ? KN_JSON_END
                                             : fail(reader, "more text follows the JSON value");
        if (c != ',') return fail(reader, "an object or list of the JSON text doesn't end");
        reader->at++;
    }
    return reader->closing[reader->depth - 1] == '}' ? read_key(reader) : read_value(reader);
}

const char *kn_json_text_check(const uint8_t *text, int64_t size_bytes, int32_t depth_max)
{
    struct kn_json_reader reader;
    enum kn_json_event event;
    kn_json_reader_init(&reader, text, size_bytes, depth_max);
    do event = kn_json_reader_next(&reader);
    while (event != KN_JSON_PROBLEM && event != KN_JSON_END);
    return event == KN_JSON_END ? NULL : reader.problem;
}
