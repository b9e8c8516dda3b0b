/* Reads JSON text value by value, and checks it (RFC 8259). json_tokens.h is for whole records; this
 * reader needs no C++, no memory and no bytes behind the text.
 *
 * It doesn't check that the text is UTF-8: kn_utf8_is_valid() does.
 *
 * Thread: one at a time uses a reader. */
#ifndef KN_CODECS_JSON_READER_H
#define KN_CODECS_JSON_READER_H

#include <stdbool.h>
#include <stdint.h>

#define KN_JSON_READER_DEPTH_MAX 512 /* of objects and lists in each other */
#define KN_JSON_TOO_DEEP "values of the JSON text are nested too deeply"

enum kn_json_event {
    KN_JSON_PROBLEM,
    KN_JSON_OBJECT,
    KN_JSON_LIST,
    KN_JSON_CLOSED, /* an object or list */
    KN_JSON_KEY,
    KN_JSON_STRING,
    KN_JSON_NUMBER,
    KN_JSON_TRUE,
    KN_JSON_FALSE,
    KN_JSON_NULL,
    KN_JSON_END, /* of the text */
};

struct kn_json_reader {
    const uint8_t *at;
    const uint8_t *end;
    /* of a key or string: without its quotes, with its escapes; of a number */
    const uint8_t *text;
    int64_t text_bytes;
    bool has_escapes;    /* the key or string */
    const char *problem; /* a static English phrase */
    int32_t expected;    /* what may come next; json_reader.c has the values */
    int32_t depth;
    int32_t depth_max;
    uint8_t closing[KN_JSON_READER_DEPTH_MAX]; /* the bracket that ends each open value */
};

/* depth_max: at most KN_JSON_READER_DEPTH_MAX. */
void kn_json_reader_init(struct kn_json_reader *reader, const uint8_t *text, int64_t size_bytes,
                         int32_t depth_max);
/* The next event. Nothing comes after KN_JSON_PROBLEM and KN_JSON_END. */
enum kn_json_event kn_json_reader_next(struct kn_json_reader *reader);

/* Returns NULL if a text is one JSON value between whitespace, with at most `depth_max` objects and
 * lists in each other; else the problem. */
const char *kn_json_text_check(const uint8_t *text, int64_t size_bytes, int32_t depth_max);

#endif
