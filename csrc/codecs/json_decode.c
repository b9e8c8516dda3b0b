/* Decodes JSON records: see json_decode.h.
 *
 * json_tokens finds the tokens, and checks UTF-8 and strings. The functions here walk over the tokens
 * and check everything else. Each takes the token where a value begins and returns the one after the
 * value, or NULL: then it has filled in the problem.
 *
 * The text is copied to the scratch, with spaces behind it. So the token after the last one is a
 * space, which is no value: nothing else stops the walk at the end. */
#include "codecs/json_decode.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "codecs/json_tokens.h"
#include "codecs/text_values.h"

#define SCRATCH_MIN_BYTES 1024
#define SCRATCH_KEPT_MAX_BYTES (1 << 20) /* a larger one is freed after its record */
#define ONES UINT64_C(0x0101010101010101)
#define HIGH_BITS UINT64_C(0x8080808080808080)

struct scratch { /* of a builder */
    struct kn_json_tokenizer *tokenizer;
    uint8_t *text;      /* the record, and its padding */
    uint8_t *unescaped; /* behind it: a string without its escapes, and padding */
    int64_t capacity_bytes;
    /* For each struct: which child came first, and which one came after each child. */
    int32_t guesses[];
};

struct run { /* one record */
    const struct kn_json_program *program;
    struct kn_builder *builder;
    struct scratch *scratch;
    const uint8_t *text;
    const uint8_t *end;
    int32_t failed_node;
    struct kn_decode_failure problem;
    int64_t expansion_bytes;
};

static const uint32_t *put_value(struct run *run, int32_t node, const uint32_t *at);

/* --- words --- */

/* Returns whether a number or a word may end before a byte. */
static inline bool is_end(uint8_t c)
{
    static const bool ENDS[256] = {[' '] = 1, ['\t'] = 1, ['\n'] = 1, ['\r'] = 1, [','] = 1,
                                   [':'] = 1, ['['] = 1,  [']'] = 1,  ['{'] = 1,  ['}'] = 1};
    return ENDS[c];
}

static inline bool is_word(const uint8_t *text, const char *word, size_t size_bytes)
{
    return !memcmp(text, word, size_bytes) && is_end(text[size_bytes]);
}

/* --- problems --- */

static __attribute__((noinline, cold)) const uint32_t *fail(struct run *run, int32_t node,
                                                            int status, const char *problem,
                                                            const uint8_t *at)
{
    run->failed_node = node;
    kn_decode_fail(&run->problem, status, problem, at < run->end ? at : run->end);
    return NULL;
}

/* Another token is expected. */
static __attribute__((noinline, cold)) const uint32_t *unexpected(struct run *run, int32_t node,
                                                                  const char *problem,
                                                                  const uint32_t *at)
{
    const uint8_t *text = run->text + *at;
    if (text >= run->end)
        return fail(run, node, KN_ERR_TRUNCATED, "the record ends too early", text);
    return fail(run, node, KN_ERR_INVALID, problem, text);
}

static __attribute__((noinline, cold)) const uint32_t *wrong_type(struct run *run, int32_t node,
                                                                  const uint32_t *at)
{
    static const char *const EXPECTED[KN_JSON_CODE_COUNT] = {
        [KN_JSON_NONE] = "null is expected",
        [KN_JSON_BOOLEAN] = "true or false is expected",
        [KN_JSON_INT] = "a number is expected",
        [KN_JSON_UINT] = "a number is expected",
        [KN_JSON_FLOAT] = "a number is expected",
        [KN_JSON_DOUBLE] = "a number is expected",
        [KN_JSON_TEXT] = "a string is expected",
        [KN_JSON_RAW] = "a value is expected",
        [KN_JSON_BINARY] = "a string of base64 is expected",
        [KN_JSON_FIXED] = "a string of base64 is expected",
        [KN_JSON_UUID] = "a string with a UUID is expected",
        [KN_JSON_DECIMAL] = "a number, or a string with one, is expected",
        [KN_JSON_DECIMAL_BYTES] = "a string of base64 is expected",
        [KN_JSON_DATE] = "a string with a date, or a number of days, is expected",
        [KN_JSON_TIME] = "a string with a time, or a number, is expected",
        [KN_JSON_TIMESTAMP] = "a string with a timestamp, or a number, is expected",
        [KN_JSON_ENUM] = "a string is expected",
        [KN_JSON_STRUCT] = "an object is expected",
        [KN_JSON_LIST] = "an array is expected",
        [KN_JSON_MAP] = "an object is expected",
    };
    if (is_word(run->text + *at, "null", 4))
        return fail(run, node, KN_ERR_INVALID, "the field must not be null", run->text + *at);
    return unexpected(run, node, EXPECTED[run->program->rules[node].code], at);
}

static __attribute__((noinline, cold)) const uint32_t *no_room(struct run *run, int32_t node,
                                                               int status, const uint32_t *at)
{
    const uint8_t *text = run->text + *at;
    run->failed_node = node;
    kn_decode_no_room(&run->problem, status, text < run->end ? text : run->end);
    return NULL;
}

/* --- tokens --- */

/* Returns the end of the value before a token. */
static inline const uint8_t *end_before(const struct run *run, const uint32_t *next)
{
    const uint8_t *end = run->text + *next;
    while (end[-1] == ' ' || end[-1] == '\n' || end[-1] == '\r' || end[-1] == '\t') end--;
    return end;
}

struct string { /* between its quotes */
    const uint8_t *text;
    int64_t size_bytes;
};

/* `at` must be the token of a string: only whitespace is between its end and the next token. */
static inline struct string string_at(const struct run *run, const uint32_t *at)
{
    const uint8_t *text = run->text + *at + 1;
    return (struct string){text, end_before(run, at + 1) - 1 - text};
}

/* --- escapes --- */

/* Writes a string without its escapes; that is never longer. Returns the size, or -1. */
static int64_t unescape(struct run *run, int32_t node, struct string string, uint8_t *to)
{
    const uint8_t *bad;
    int64_t size;
    const char *problem = kn_text_unescape(string.text, string.size_bytes, to, &size, &bad);
    if (!problem) return size;
    fail(run, node, KN_ERR_INVALID, problem, bad);
    return -1;
}

static inline bool has_escapes(struct string string)
{
    if (string.size_bytes > 16) return memchr(string.text, '\\', (size_t)string.size_bytes) != NULL;
    /* A byte that is zero after the exclusive or sets the high bit of its place. */
    uint64_t low = kn_json_word(string.text, string.size_bytes) ^ ONES * '\\', high = ONES;
    if (string.size_bytes > 8)
        high = kn_json_word(string.text + 8, string.size_bytes - 8) ^ ONES * '\\';
    return (((low - ONES) & ~low) | ((high - ONES) & ~high)) & HIGH_BITS;
}

/* Finds the string of a token, without escapes. Behind it there is slack for whole words. Returns
 * whether it is one. */
static inline bool read_string(struct run *run, int32_t node, const uint32_t *at,
                               struct string *string)
{
    *string = string_at(run, at);
    if (__builtin_expect(!has_escapes(*string), 1)) return 1;
    int64_t size = unescape(run, node, *string, run->scratch->unescaped);
    if (size < 0) return 0;
    run->scratch->unescaped[size] = '"'; /* no part of a number */
    *string = (struct string){run->scratch->unescaped, size};
    return 1;
}

/* --- values that no column wants --- */

/* Reads an integer of at most 18 digits without a fraction or exponent: the usual case. */
static inline bool read_short_int(const uint8_t *text, int64_t *value)
{
    bool negative = *text == '-';
    const uint8_t *start = text += negative;
    int64_t sum = 0;
    while ((uint8_t)(*text - '0') <= 9 && text - start < 18) sum = sum * 10 + (*text++ - '0');
    *value = negative ? -sum : sum;
    return text > start && is_end(*text) && (*start != '0' || text - start == 1);
}

static const uint32_t *skip_scalar(struct run *run, int32_t node, const uint32_t *at)
{
    const uint8_t *text = run->text + *at;
    struct string string;
    struct kn_number number;
    int64_t value;
    if (*text == '"') return read_string(run, node, at, &string) ? at + 1 : NULL;
    if (is_word(text, "true", 4) || is_word(text, "false", 5) || is_word(text, "null", 4))
        return at + 1;
    if (read_short_int(text, &value)) return at + 1;
    if (*text != '-' && (*text < '0' || *text > '9'))
        return unexpected(run, node, "a value is expected", at);
    const char *problem = kn_number_scan(text, &number);
    if (!problem && !is_end(*number.end)) problem = "a number is malformed";
    return problem ? fail(run, node, KN_ERR_INVALID, problem, text) : at + 1;
}

/* Returns the token after the colon. */
static inline const uint32_t *after_colon(struct run *run, int32_t node, const uint32_t *at)
{
    if (__builtin_expect(run->text[at[1]] == ':', 1)) return at + 2;
    return unexpected(run, node, "a colon is expected", at + 1);
}

static const uint32_t *skip_key(struct run *run, int32_t node, const uint32_t *at)
{
    struct string string;
    if (run->text[*at] != '"') return unexpected(run, node, "a name in quotes is expected", at);
    return read_string(run, node, at, &string) ? after_colon(run, node, at) : NULL;
}

static const uint32_t *skip(struct run *run, int32_t node, const uint32_t *at)
{
    uint8_t objects[KN_JSON_SKIPPED_DEPTH_MAX]; /* whether an open value is an object */
    int depth = 0;
    for (;;) {
        uint8_t c = run->text[*at];
        if ((c == '{' || c == '[') && run->text[at[1]] == c + 2) { /* empty */
            at += 2;
        } else if (c == '{' || c == '[') {
            if (depth == KN_JSON_SKIPPED_DEPTH_MAX)
                return fail(run, node, KN_ERR_TOO_LARGE, "values are nested too deeply",
                            run->text + *at);
            objects[depth++] = c == '{';
            at++;
            if (c == '{' && !(at = skip_key(run, node, at))) return NULL;
            continue;
        } else if (!(at = skip_scalar(run, node, at))) {
            return NULL;
        }
        while (depth && run->text[*at] == (objects[depth - 1] ? '}' : ']')) depth--, at++;
        if (!depth) return at;
        if (run->text[*at] != ',') return unexpected(run, node, "a comma is expected", at);
        at++;
        if (objects[depth - 1] && !(at = skip_key(run, node, at))) return NULL;
    }
}

/* --- numbers --- */

static inline void store(struct kn_built *column, const void *value, size_t width_bytes)
{
    memcpy(column->items + (size_t)column->length++ * width_bytes, value, width_bytes);
}

static const char *scan_number(const uint8_t *text, struct kn_number *number)
{
    const char *problem = kn_number_scan(text, number);
    return problem || is_end(*number->end) ? problem : "a number is malformed";
}

static const char *read_int(const uint8_t *text, int64_t min, int64_t max, int64_t *value)
{
    struct kn_number number;
    if (__builtin_expect(read_short_int(text, value) && *value >= min && *value <= max, 1))
        return NULL;
    const char *problem = scan_number(text, &number);
    return problem ? problem : kn_number_to_int(&number, min, max, value);
}

static inline bool is_number(const uint8_t *text)
{
    return *text == '-' || (uint8_t)(*text - '0') <= 9;
}

static const char *put_int(struct kn_built *column, int32_t width, const uint8_t *text)
{
    int64_t value = 0, max = INT64_MAX >> (64 - 8 * width);
    const char *problem = read_int(text, -max - 1, max, &value);
    if (problem) return problem;
    int8_t tiny = (int8_t)value;
    int16_t narrow = (int16_t)value;
    int32_t middle = (int32_t)value;
    switch (width) {
    case 1: store(column, &tiny, 1); break;
    case 2: store(column, &narrow, 2); break;
    case 4: store(column, &middle, 4); break;
    default: store(column, &value, 8);
    }
    return NULL;
}

static const char *put_uint(struct kn_built *column, int32_t width, const uint8_t *text)
{
    uint64_t value = 0, max = UINT64_MAX >> (64 - 8 * width);
    int64_t signed_value = 0;
    if (read_short_int(text, &signed_value) && signed_value >= 0 && (uint64_t)signed_value <= max) {
        value = (uint64_t)signed_value;
    } else {
        struct kn_number number;
        const char *problem = scan_number(text, &number);
        if (!problem) problem = kn_number_to_uint(&number, max, &value);
        if (problem) return problem;
    }
    uint8_t tiny = (uint8_t)value;
    uint16_t narrow = (uint16_t)value;
    uint32_t middle = (uint32_t)value;
    switch (width) {
    case 1: store(column, &tiny, 1); break;
    case 2: store(column, &narrow, 2); break;
    case 4: store(column, &middle, 4); break;
    default: store(column, &value, 8);
    }
    return NULL;
}

static const char *put_float(struct kn_built *column, int32_t code, const uint8_t *text)
{
    struct kn_number number;
    double value = 0;
    float narrow = 0;
    const char *problem = scan_number(text, &number);
    if (problem) return problem;
    if (code == KN_JSON_DOUBLE) {
        problem = kn_number_to_double(&number, text, &value);
        if (!problem) store(column, &value, 8);
    } else {
        problem = kn_number_to_float(&number, text, &narrow);
        if (!problem) store(column, &narrow, 4);
    }
    return problem;
}

static const char *put_decimal(struct kn_built *column, const struct kn_json_rule *rule,
                               int32_t width, const uint8_t *text, const uint8_t *end)
{
    struct kn_number number;
    const char *problem = kn_number_scan(text, &number);
    if (!problem && (end ? number.end != end : !is_end(*number.end)))
        problem = "a decimal is malformed";
    if (!problem)
        problem = kn_number_to_decimal(&number, rule->arg, rule->scale,
                                       column->items + column->length * width, width);
    if (!problem) column->length++;
    return problem;
}

/* --- dates and times --- */

static const char *put_moment(struct kn_built *column, const struct kn_json_rule *rule,
                              int32_t width, const uint8_t *text, const struct string *string)
{
    int64_t value = 0, min = INT64_MIN, max = INT64_MAX;
    int32_t days = 0;
    const char *problem;
    if (rule->code == KN_JSON_DATE) {
        min = INT32_MIN;
        max = INT32_MAX;
    } else if (rule->code == KN_JSON_TIME) {
        min = 0;
        max = 86400;
        for (int32_t i = 0; i < rule->arg; i++) max *= 10;
        max--;
    }
    if (!string) {
        problem = read_int(text, min, max, &value);
    } else if (rule->code == KN_JSON_DATE) {
        problem = kn_text_date(string->text, string->size_bytes, &days);
        value = days;
    } else if (rule->code == KN_JSON_TIME) {
        problem = kn_text_time(string->text, string->size_bytes, rule->arg, &value);
    } else {
        problem = kn_text_timestamp(string->text, string->size_bytes, rule->arg, rule->scale == 1,
                                    &value);
    }
    if (problem) return problem;
    days = (int32_t)value;
    if (width == 4) {
        store(column, &days, 4);
    } else {
        store(column, &value, 8);
    }
    return NULL;
}

/* --- strings --- */

/* Appends a string to a column. */
static const uint32_t *put_text(struct run *run, int32_t node, const uint32_t *at)
{
    struct kn_built *column = &run->builder->columns[node];
    struct string string = string_at(run, at);
    int64_t size = string.size_bytes;
    int status = kn_builder_reserve_bytes(run->builder, column, size);
    if (__builtin_expect(status != KN_OK, 0)) return no_room(run, node, status, at);
    if (size) {
        uint8_t *to = column->bytes + column->bytes_used;
        if (__builtin_expect(has_escapes(string), 0)) {
            if ((size = unescape(run, node, string, to)) < 0) return NULL;
        } else if (size <= 16) {
            memcpy(to, string.text, 16);
        } else {
            memcpy(to, string.text, (size_t)size);
        }
    }
    kn_built_end_bytes(column, size);
    return at + 1;
}

static const uint32_t *put_raw(struct run *run, int32_t node, const uint32_t *at)
{
    struct kn_built *column = &run->builder->columns[node];
    const uint32_t *next = skip(run, node, at);
    if (!next) return NULL;
    const uint8_t *text = run->text + *at;
    int64_t size = end_before(run, next) - text;
    int status = kn_builder_reserve_bytes(run->builder, column, size);
    if (status != KN_OK) return no_room(run, node, status, at);
    memcpy(column->bytes + column->bytes_used, text, (size_t)size);
    kn_built_end_bytes(column, size);
    return next;
}

static const uint32_t *put_binary(struct run *run, int32_t node, const uint32_t *at)
{
    struct kn_built *column = &run->builder->columns[node];
    struct string string;
    int64_t size = 0;
    if (!read_string(run, node, at, &string)) return NULL;
    int status = kn_builder_reserve_bytes(run->builder, column, string.size_bytes + 2);
    if (status != KN_OK) return no_room(run, node, status, at);
    const char *problem = kn_text_base64(string.text, string.size_bytes,
                                         column->bytes + column->bytes_used, &size);
    if (problem) return fail(run, node, KN_ERR_INVALID, problem, run->text + *at);
    kn_built_end_bytes(column, size);
    return at + 1;
}

/* Reads the codes whose values are strings of a fixed width. */
static const char *put_fixed(struct run *run, int32_t node, struct string string)
{
    const struct kn_json_rule *rule = &run->program->rules[node];
    struct kn_built *column = &run->builder->columns[node];
    int64_t width = run->program->layout->nodes[node].width_bytes, size = 0;
    const char *problem;
    if (rule->code == KN_JSON_ENUM) {
        int32_t name = kn_json_find_name(run->program, rule, string.text, string.size_bytes);
        if (name < 0) return "the string is none of the column's values";
        kn_built_offsets(column)[column->length++] = run->program->names[name].node;
        return NULL;
    }
    if (rule->code == KN_JSON_UUID) {
        problem = kn_text_uuid(string.text, string.size_bytes, column->items + column->length * 16);
        if (!problem) column->length++;
        return problem;
    }
    /* Decoded bytes never overtake the text, which may be in the same place. */
    problem = kn_text_base64(string.text, string.size_bytes, run->scratch->unescaped, &size);
    if (!problem && rule->code == KN_JSON_DECIMAL_BYTES) {
        problem = kn_bytes_to_decimal(run->scratch->unescaped, size, rule->arg,
                                      column->items + column->length * width, (int32_t)width);
        if (!problem) column->length++;
        return problem;
    }
    if (!problem && size != width) problem = "base64 has the wrong number of bytes";
    if (problem) return problem;
    if (size) memcpy(column->items + column->length * width, run->scratch->unescaped, (size_t)size);
    column->length++;
    return NULL;
}

/* --- nested values --- */

/* Makes room for one more item of a list or map. */
static inline bool begin_item(struct run *run, int32_t node, const uint32_t *at)
{
    run->expansion_bytes -= run->program->rules[node].item_output_bytes;
    if (__builtin_expect(run->expansion_bytes < 0, 0))
        return fail(run, node, kn_builder_expansion_status(run->builder),
                    "arrays expand to too many bytes", run->text + *at);
    int status = kn_builder_reserve(run->builder, node + 1, 1);
    return __builtin_expect(status == KN_OK, 1) || no_room(run, node, status, at);
}

static const uint32_t *put_list(struct run *run, int32_t node, const uint32_t *at)
{
    struct kn_built *list = &run->builder->columns[node];
    if (run->text[*++at] == ']') {
        at++;
    } else {
        for (;;) {
            if (!begin_item(run, node, at) || !(at = put_value(run, node + 1, at))) return NULL;
            uint8_t c = run->text[*at];
            if (c != ',' && c != ']') return unexpected(run, node, "a comma or ] is expected", at);
            at++;
            if (c == ']') break;
        }
    }
    kn_built_end_list(list, list + 1);
    return at;
}

static const uint32_t *put_map(struct run *run, int32_t node, const uint32_t *at)
{
    struct kn_built *list = &run->builder->columns[node];
    if (run->text[*++at] == '}') {
        at++;
    } else {
        for (;;) {
            if (run->text[*at] != '"')
                return unexpected(run, node, "a name in quotes is expected", at);
            if (!begin_item(run, node, at) || !put_text(run, node + 2, at)) return NULL;
            if (!(at = after_colon(run, node, at)) || !(at = put_value(run, node + 3, at)))
                return NULL;
            list[1].length++;
            uint8_t c = run->text[*at];
            if (c != ',' && c != '}') return unexpected(run, node, "a comma or } is expected", at);
            at++;
            if (c == '}') break;
        }
    }
    kn_built_end_list(list, list + 1);
    return at;
}

/* Finds the field of a key that isn't the expected one. Returns its number, -1 (no column wants it),
 * or -2 (an escape is wrong). */
static __attribute__((noinline)) int32_t find_field(struct run *run, int32_t node,
                                                    const uint32_t *at, int32_t *guess)
{
    const struct kn_json_rule *rule = &run->program->rules[node];
    struct string key;
    if (!read_string(run, node, at, &key)) return -2;
    int32_t name = kn_json_find_name(run->program, rule, key.text, key.size_bytes);
    return name < 0 ? -1 : (*guess = name - rule->first_name);
}

/* Returns whether the key at a token is a name. */
static inline bool is_key(const struct run *run, const struct kn_json_name *name,
                          const uint32_t *at)
{
    const uint8_t *key = run->text + *at + 1;
    return name->is_plain && name->size_bytes < run->end - key && kn_json_name_is_at(name, key) &&
           key[name->size_bytes] == '"';
}

/* Gives the children without a field in the record a null. */
static bool put_missing(struct run *run, int32_t node, int64_t row, const uint32_t *at)
{
    const struct kn_node *nodes = run->program->layout->nodes;
    for (int32_t i = node + 1; i < nodes[node].end; i = nodes[i].end) {
        if (run->builder->columns[i].length > row) continue;
        if (!kn_node_is_nullable(run->program->layout, i))
            return fail(run, i, KN_ERR_INVALID, "the field is missing", run->text + *at);
        kn_builder_append_null(run->builder, i);
    }
    return 1;
}

static const uint32_t *put_struct(struct run *run, int32_t node, const uint32_t *at)
{
    const struct kn_json_rule *rule = &run->program->rules[node];
    const struct kn_json_name *names = run->program->names + rule->first_name;
    int32_t *guess = run->scratch->guesses + rule->first_name + node;
    struct kn_built *columns = run->builder->columns;
    const uint32_t *start = at++;
    int64_t row = columns[node].length;
    int32_t last = 0, put_count = 0; /* last: the number of the last field, plus 1 */
    uint8_t c = run->text[*at];

    if (c == '}') at++;
    while (c != '}') {
        if (__builtin_expect(run->text[*at] != '"', 0))
            return unexpected(run, node, "a name in quotes is expected", at);
        int32_t field = guess[last];
        if (__builtin_expect(!rule->name_count || !is_key(run, &names[field], at), 0) &&
            (field = find_field(run, node, at, &guess[last])) == -2)
            return NULL;
        if (!(at = after_colon(run, node, at))) return NULL;
        if (field >= 0) {
            int32_t child = names[field].node;
            if (__builtin_expect(columns[child].length > row, 0)) {
                kn_builder_truncate_node(run->builder, child, row);
                put_count--;
            }
            at = put_value(run, child, at);
            last = field + 1;
            put_count++;
        } else {
            c = run->text[*at];
            at = c == '{' || c == '[' ? skip(run, node, at) : skip_scalar(run, node, at);
        }
        if (__builtin_expect(!at, 0)) return NULL;
        c = run->text[*at];
        if (__builtin_expect(c != ',' && c != '}', 0))
            return unexpected(run, node, "a comma or } is expected", at);
        at++;
    }
    if (put_count < rule->name_count && !put_missing(run, node, row, start)) return NULL;
    columns[node].length++;
    return at;
}

/* --- one value --- */

static const uint32_t *put_scalar(struct run *run, int32_t node, const uint32_t *at)
{
    const struct kn_json_rule *rule = &run->program->rules[node];
    struct kn_built *column = &run->builder->columns[node];
    int32_t width = run->program->layout->nodes[node].width_bytes;
    const uint8_t *text = run->text + *at;
    struct string string = {0};
    bool is_string = *text == '"';
    const char *problem;

    if (is_string ? rule->code <= KN_JSON_DOUBLE : !is_number(text))
        return wrong_type(run, node, at);
    if (is_string && !read_string(run, node, at, &string)) return NULL;
    switch (rule->code) {
    case KN_JSON_INT: problem = put_int(column, width, text); break;
    case KN_JSON_UINT: problem = put_uint(column, width, text); break;
    case KN_JSON_FLOAT:
    case KN_JSON_DOUBLE: problem = put_float(column, rule->code, text); break;
    case KN_JSON_DECIMAL:
        problem = put_decimal(column, rule, width, is_string ? string.text : text,
                              is_string ? string.text + string.size_bytes : NULL);
        break;
    case KN_JSON_DATE:
    case KN_JSON_TIME:
    case KN_JSON_TIMESTAMP:
        problem = put_moment(column, rule, width, text, is_string ? &string : NULL);
        break;
    default: /* FIXED, UUID, DECIMAL_BYTES, ENUM */
        if (!is_string) return wrong_type(run, node, at);
        problem = put_fixed(run, node, string);
    }
    return problem ? fail(run, node, KN_ERR_INVALID, problem, text) : at + 1;
}

static const uint32_t *put_value(struct run *run, int32_t node, const uint32_t *at)
{
    struct kn_built *column = &run->builder->columns[node];
    const uint8_t *text = run->text + *at;
    int32_t code = run->program->rules[node].code;

    if (*text == 'n' && is_word(text, "null", 4) &&
        (code == KN_JSON_NONE || kn_node_is_nullable(run->program->layout, node))) {
        kn_builder_append_null(run->builder, node);
        return at + 1;
    }
    switch (code) {
    case KN_JSON_TEXT: return *text == '"' ? put_text(run, node, at) : wrong_type(run, node, at);
    case KN_JSON_STRUCT:
        return *text == '{' ? put_struct(run, node, at) : wrong_type(run, node, at);
    case KN_JSON_LIST: return *text == '[' ? put_list(run, node, at) : wrong_type(run, node, at);
    case KN_JSON_MAP: return *text == '{' ? put_map(run, node, at) : wrong_type(run, node, at);
    case KN_JSON_BOOLEAN:
        if (!is_word(text, "true", 4) && !is_word(text, "false", 5))
            return wrong_type(run, node, at);
        kn_bit_put(column->items, column->length++, *text == 't');
        return at + 1;
    case KN_JSON_BINARY:
        return *text == '"' ? put_binary(run, node, at) : wrong_type(run, node, at);
    case KN_JSON_RAW: return put_raw(run, node, at);
    case KN_JSON_NONE: return wrong_type(run, node, at);
    default: return put_scalar(run, node, at);
    }
}

/* --- the scratch --- */

static void scratch_free(void *memory)
{
    struct scratch *scratch = memory;
    kn_json_tokenizer_free(scratch->tokenizer);
    free(scratch->text);
    free(scratch);
}

/* At first each struct's fields are expected in their order. */
static struct scratch *scratch_new(const struct kn_json_program *program)
{
    size_t count = (size_t)program->name_count + (size_t)program->layout->node_count;
    struct scratch *scratch = calloc(1, sizeof *scratch + count * sizeof scratch->guesses[0]);
    if (!scratch) return NULL;
    if (kn_json_tokenizer_new(&scratch->tokenizer) != KN_OK) {
        free(scratch);
        return NULL;
    }
    for (int32_t node = 0; node < program->layout->node_count; node++) {
        const struct kn_json_rule *rule = &program->rules[node];
        if (rule->code != KN_JSON_STRUCT) continue;
        for (int32_t i = 0; i < rule->name_count; i++)
            scratch->guesses[rule->first_name + node + i] = i;
    }
    return scratch;
}

/* Makes the scratch large enough for a record, and copies it there. KN_OK or KN_ERR_NOMEM. */
static int load(struct run *run, const uint8_t *data, int64_t size_bytes)
{
    struct scratch *scratch = run->builder->scratch;
    if (!scratch) {
        if (!(scratch = scratch_new(run->program))) return KN_ERR_NOMEM;
        run->builder->scratch = scratch;
        run->builder->scratch_free = scratch_free;
    }
    if (size_bytes > scratch->capacity_bytes || !scratch->text) {
        int64_t capacity = size_bytes;
        if (size_bytes < SCRATCH_KEPT_MAX_BYTES / 2) capacity += size_bytes / 2;
        if (capacity < SCRATCH_MIN_BYTES) capacity = SCRATCH_MIN_BYTES;
        int status = kn_json_tokenizer_reserve(scratch->tokenizer, capacity);
        if (status != KN_OK) return status;
        size_t half = (size_t)capacity + KN_JSON_PADDING_BYTES;
        free(scratch->text);
        scratch->text = malloc(half * 2);
        scratch->capacity_bytes = 0;
        if (!scratch->text) return KN_ERR_NOMEM;
        scratch->unescaped = scratch->text + half;
        memset(scratch->unescaped, 0, half);
        scratch->capacity_bytes = capacity;
    }
    if (size_bytes) memcpy(scratch->text, data, (size_t)size_bytes);
    memset(scratch->text + size_bytes, ' ', KN_JSON_PADDING_BYTES);
    run->scratch = scratch;
    run->text = scratch->text;
    run->end = scratch->text + size_bytes;
    return KN_OK;
}

/* --- records --- */

/* Finds the first byte that the tokenizer doesn't accept, and says why. */
static __attribute__((cold)) const uint32_t *explain(struct run *run, int status)
{
    bool in_string = 0;
    const uint8_t *p = run->text;
    while (p < run->end) {
        size_t size = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
        if ((size_t)(run->end - p) < size || !kn_utf8_is_valid(p, size))
            return fail(run, 0, KN_ERR_INVALID, "the record isn't UTF-8", p);
        if (in_string && *p < 0x20)
            return fail(run, 0, KN_ERR_INVALID, "a string has a control character", p);
        if (*p == '"') in_string = !in_string;
        if (*p == '\\' && in_string && p + 1 < run->end && p[1] >= 0x20 && p[1] < 0x80) p++;
        p += size;
    }
    if (in_string) return fail(run, 0, KN_ERR_TRUNCATED, "a string doesn't end", run->end);
    return fail(run, 0, status, "the record has no value", run->end);
}

static const uint32_t *decode_text(struct run *run, const uint8_t *data, int64_t size_bytes)
{
    struct kn_json_tokens tokens;
    run->text = run->end = data; /* for a problem before the copy */
    if (size_bytes > KN_JSON_TEXT_MAX_BYTES)
        return fail(run, 0, KN_ERR_TOO_LARGE, "the record is too large", data);
    int status = kn_builder_reserve(run->builder, 0, 1);
    if (status == KN_OK) status = load(run, data, size_bytes);
    if (__builtin_expect(status != KN_OK, 0)) {
        run->failed_node = 0;
        kn_decode_no_room(&run->problem, status, data);
        return NULL;
    }
    status = kn_json_tokenize(run->scratch->tokenizer, run->text, size_bytes, &tokens);
    if (__builtin_expect(status != KN_OK, 0)) return explain(run, status);
    const uint32_t *at = put_value(run, 0, tokens.starts);
    if (!at || __builtin_expect(at == tokens.starts + tokens.count, 1)) return at;
    return fail(run, 0, KN_ERR_INVALID, "more text follows the value", run->text + *at);
}

int kn_json_decode(const struct kn_json_program *program, struct kn_builder *builder,
                   const uint8_t *data, int64_t size_bytes, struct kn_decode_problem *problem)
{
    int64_t row_count = builder->columns[0].length;
    struct run run;
    run.program = program;
    run.builder = builder;
    run.expansion_bytes = kn_builder_expansion(builder, size_bytes);
    bool is_decoded = decode_text(&run, data, size_bytes);
    if (__builtin_expect(!is_decoded, 0)) {
        *problem = (struct kn_decode_problem){run.failed_node, run.problem.at - run.text,
                                              run.problem.text};
        kn_builder_truncate(builder, row_count);
    }
    struct scratch *scratch = builder->scratch;
    if (__builtin_expect(scratch && scratch->capacity_bytes > SCRATCH_KEPT_MAX_BYTES, 0)) {
        builder->scratch = NULL;
        scratch_free(scratch);
    }
    if (__builtin_expect(!is_decoded, 0)) return run.problem.status;
    builder->expansion_left_bytes = run.expansion_bytes;
    return KN_OK;
}

static int decode(const void *program, struct kn_builder *builder, const uint8_t *data,
                  int64_t size_bytes, struct kn_decode_problem *problem)
{
    return kn_json_decode(program, builder, data, size_bytes, problem);
}

struct kn_decoder kn_json_decoder(const struct kn_json_program *program)
{
    return (struct kn_decoder){program, decode};
}
