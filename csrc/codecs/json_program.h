/* The program that decodes JSON records into columns: one rule for each node of a layout, and a hash
 * table of names for each struct and each dictionary. Python makes it
 * (kafka_native/codecs/json_decoder.py).
 *
 * kn_json_program_new() checks that each rule fits its node. So the decoder checks only the record.
 *
 * Thread: a program never changes, so threads may share it. Who frees: its owner, after the last
 * call. */
#ifndef KN_CODECS_JSON_PROGRAM_H
#define KN_CODECS_JSON_PROGRAM_H

#include <string.h>
#include "codecs/layout.h"
#include "codecs/short_bytes.h"

/* X(name, kind of its node, width of its node; 0: none, -1: several)
 * - NONE reads null. BOOLEAN reads true and false.
 * - INT and UINT read a number without a fraction into 1, 2, 4 or 8 bytes.
 * - FLOAT and DOUBLE read a number.
 * - TEXT reads a string. RAW keeps the JSON text of any value.
 * - BINARY and FIXED read base64. UUID reads 36 characters.
 * - DECIMAL reads a number, or a string that is one: `arg` digits, `scale` of them behind the point.
 *   DECIMAL_BYTES reads base64 of a big-endian number, without the point, as Kafka Connect writes it.
 * - DATE reads YYYY-MM-DD or a number of days.
 * - TIME reads HH:MM:SS, TIMESTAMP a date and a time; or both a number of units. `arg` is the power
 *   of ten of the units in a second. TIMESTAMP with scale 1: the text has a time zone.
 * - ENUM reads a string that is one of the node's values.
 * - STRUCT reads an object, LIST an array, MAP an object with any keys. */
#define KN_JSON_CODES(X)                                                                           \
    X(NONE, KN_NODE_NONE, 0)                                                                       \
    X(BOOLEAN, KN_NODE_BITS, 0)                                                                    \
    X(INT, KN_NODE_FIXED, -1)                                                                      \
    X(UINT, KN_NODE_FIXED, -1)                                                                     \
    X(FLOAT, KN_NODE_FIXED, 4)                                                                     \
    X(DOUBLE, KN_NODE_FIXED, 8)                                                                    \
    X(TEXT, KN_NODE_BYTES, 0)                                                                      \
    X(RAW, KN_NODE_BYTES, 0)                                                                       \
    X(BINARY, KN_NODE_BYTES, 0)                                                                    \
    X(FIXED, KN_NODE_FIXED, -1)                                                                    \
    X(UUID, KN_NODE_FIXED, 16)                                                                     \
    X(DECIMAL, KN_NODE_FIXED, -1)                                                                  \
    X(DECIMAL_BYTES, KN_NODE_FIXED, -1)                                                            \
    X(DATE, KN_NODE_FIXED, 4)                                                                      \
    X(TIME, KN_NODE_FIXED, -1)                                                                     \
    X(TIMESTAMP, KN_NODE_FIXED, 8)                                                                 \
    X(ENUM, KN_NODE_DICTIONARY, 0)                                                                 \
    X(STRUCT, KN_NODE_STRUCT, 0)                                                                   \
    X(LIST, KN_NODE_LIST, 0)                                                                       \
    X(MAP, KN_NODE_LIST, 0)

#define KN_JSON_CODE_ENUM(name, kind, width) KN_JSON_##name,
enum kn_json_code { KN_JSON_CODES(KN_JSON_CODE_ENUM) KN_JSON_CODE_COUNT };
#undef KN_JSON_CODE_ENUM

#define KN_JSON_NAME_SLACK_BYTES 16 /* zeros behind each name, so that whole words are compared */

struct kn_json_rule {
    int32_t code;
    int32_t arg;
    int32_t scale;
    /* kn_json_program_new() computes the rest. STRUCT and ENUM: */
    int32_t first_name; /* of the children in their order, or of the values */
    int32_t name_count;
    int32_t table; /* the start of the hash table: numbers of names, -1: empty */
    uint32_t table_mask;
    uint64_t name_bits; /* the bit of kn_json_name_bit() for each name: most other names lack it */
    /* LIST and MAP: */
    int32_t item_output_bytes; /* memory of an item, without copied bytes; at most INT32_MAX */
};

struct kn_json_name {
    const uint8_t *text;
    int32_t size_bytes;
    int32_t node;  /* STRUCT: the child; ENUM: the index of the value */
    bool is_plain; /* JSON text may have it without escapes */
};

struct kn_json_program {
    struct kn_layout *layout; /* a reference */
    struct kn_json_rule *rules;
    struct kn_json_name *names;
    int32_t name_count;
    int32_t *tables;
    uint8_t *texts;
};

/* Copies its arguments; there is a rule for each node. KN_OK, KN_ERR_INVALID (*bad_node: the first
 * node whose rule is wrong), KN_ERR_UNSUPPORTED (a build without simdjson) or KN_ERR_NOMEM. */
int kn_json_program_new(struct kn_layout *layout, const struct kn_json_rule *rules,
                        struct kn_json_program **out, int32_t *bad_node);
void kn_json_program_free(struct kn_json_program *program); /* NULL is allowed */
bool kn_json_is_available(void);                            /* whether this build has simdjson */
const char *kn_json_code_name(int code);                    /* as above; NULL: there is none */

static inline uint64_t kn_json_word(const uint8_t *text, int64_t size_bytes)
{
    uint64_t word;
    memcpy(&word, text, sizeof word);
    if (KN_IS_LITTLE_ENDIAN) return word & kn_low_bytes(size_bytes);
    if (size_bytes >= 8) return word;
    return size_bytes ? word >> 8 * (8 - size_bytes) << 8 * (8 - size_bytes) : 0;
}

/* Returns whether a name begins at a text. Behind the text, KN_JSON_NAME_SLACK_BYTES are readable. */
static inline bool kn_json_name_is_at(const struct kn_json_name *name, const uint8_t *text)
{
    int64_t size = name->size_bytes;
    if (size > 16) return !memcmp(name->text, text, (size_t)size);
    uint64_t differs = kn_json_word(name->text, size) ^ kn_json_word(text, size);
    if (size > 8)
        differs |= kn_json_word(name->text + 8, size - 8) ^ kn_json_word(text + 8, size - 8);
    return !differs;
}

/* Returns one of 64 bits for a name, by its size and its first bytes. */
static inline uint64_t kn_json_name_bit(const uint8_t *text, int64_t size_bytes)
{
    uint64_t word = kn_json_word(text, size_bytes) + (uint64_t)size_bytes;
    return UINT64_C(1) << (word * UINT64_C(0x9e3779b97f4a7c15) >> 58);
}

/* Returns the number of a name of a rule, or -1. Behind the text, the slack is readable. */
int32_t kn_json_find_name(const struct kn_json_program *program, const struct kn_json_rule *rule,
                          const uint8_t *text, int64_t size_bytes);

#endif
