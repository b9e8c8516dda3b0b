/* Reads Arrow columns of other libraries and checks them before use: types by their format strings,
 * buffers row by row.
 *
 * Thread: the caller's. Nothing here locks, allocates or changes its input.
 * Who frees: the owner of the arrays. They outlive the structs that are bound to them.
 *
 * The C data interface has the number of items of an array but not the size of its buffers (except
 * view buffers). So the possible checks are: counts and pointers, offsets that rise from 0, the place
 * of a string in its view buffer, dictionary indices, and the length of a child. The last offset is
 * taken as the end of a plain data buffer. Nothing recurses: only known types are read, one level
 * deep. nested.h reads types of any depth. Values are loaded with memcpy, because a foreign buffer may have any alignment. */
#ifndef KN_CODECS_IMPORT_H
#define KN_CODECS_IMPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "codecs/abi.h"
#include "base/status.h"

enum kn_arrow_layout {
    KN_ARROW_OTHER,   /* a type that isn't accepted here */
    KN_ARROW_NULL,    /* n */
    KN_ARROW_BYTES32, /* z, u: int32 offsets */
    KN_ARROW_BYTES64, /* Z, U: int64 offsets */
    KN_ARROW_VIEWS,   /* vz, vu */
    KN_ARROW_FIXED,   /* w:N */
    KN_ARROW_INT,     /* c C s S i I l L */
    KN_ARROW_TIME,    /* tss: tsm: tsu: tsn: */
    KN_ARROW_LIST32,  /* +l, +m */
    KN_ARROW_LIST64,  /* +L */
    KN_ARROW_STRUCT   /* +s */
};

struct kn_arrow_type {
    enum kn_arrow_layout layout;
    int32_t width;  /* FIXED, INT, TIME: bytes per item */
    bool is_signed; /* INT, TIME */
    int64_t per_ms; /* TIME: units in a millisecond; 0: seconds */
};

/* Parses one format string. An unknown one gives OTHER. */
struct kn_arrow_type kn_arrow_type_of(const char *format);

/* An error text for a row: one static phrase. Row -1: the error isn't about a row. */
struct kn_arrow_problem {
    int64_t row;
    const char *text;
};

static inline int kn_arrow_wrong(struct kn_arrow_problem *problem, int64_t row, const char *text)
{
    *problem = (struct kn_arrow_problem){row, text};
    return KN_ERR_INVALID;
}

/* The null items of an array. */
struct kn_arrow_validity {
    const uint8_t *bits; /* NULL: no item is null */
    int64_t first;       /* bit of row 0 */
};

static inline bool kn_arrow_is_null(const struct kn_arrow_validity *validity, int64_t row)
{
    if (!validity->bits) return 0;
    uint64_t bit = (uint64_t)validity->first + (uint64_t)row;
    return !(validity->bits[bit >> 3] >> (bit & 7) & 1);
}

/* Numbers: INT, TIME or NULL. */
struct kn_arrow_numbers {
    struct kn_arrow_type type;
    struct kn_arrow_validity validity;
    const uint8_t *data; /* of row 0 */
};

/* Byte strings, plain or by dictionary: BYTES32, BYTES64, VIEWS, FIXED or NULL. */
struct kn_arrow_bytes {
    struct kn_arrow_type type;
    struct kn_arrow_validity validity; /* validity of the values */
    const uint8_t *offsets;            /* of row 0: offsets, views or fixed-size items */
    const uint8_t *data;
    int64_t data_bytes; /* the last offset of the array */
    const void **view_buffers;
    const uint8_t *view_sizes;
    int64_t view_count;
    int64_t length;     /* number of values */
    bool by_dictionary; /* then the rows are rows of the indices */
    struct kn_arrow_numbers indices;
};

/* Lists of key and value: LIST32, LIST64 or NULL. */
struct kn_arrow_pairs {
    struct kn_arrow_type type;
    struct kn_arrow_validity validity;
    const uint8_t *offsets;           /* of row 0 */
    struct kn_arrow_validity entries; /* validity of the structs */
    int64_t entry_count;
    struct kn_arrow_bytes keys, values;
};

/* Binds a column. `array` is a child, whose rows [skip, skip + length) are used (skip is the
 * parent's offset). KN_OK: every row in [0, length) can be read. KN_ERR_INVALID: *problem has the
 * reason: impossible counts or pointers, or offsets that don't rise. */
int kn_arrow_bind_numbers(const struct ArrowSchema *schema, const struct ArrowArray *array,
                          int64_t skip, int64_t length, struct kn_arrow_numbers *numbers,
                          struct kn_arrow_problem *problem);
int kn_arrow_bind_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array,
                        int64_t skip, int64_t length, struct kn_arrow_bytes *bytes,
                        struct kn_arrow_problem *problem);
int kn_arrow_bind_pairs(const struct ArrowSchema *schema, const struct ArrowArray *array,
                        int64_t skip, int64_t length, struct kn_arrow_pairs *pairs,
                        struct kn_arrow_problem *problem);
/* Binds a column of bytes without a dictionary: NULL, BYTES32, BYTES64, VIEWS or FIXED. */
int kn_arrow_bind_plain(struct kn_arrow_type type, const struct ArrowArray *array, int64_t skip,
                        int64_t length, struct kn_arrow_bytes *bytes,
                        struct kn_arrow_problem *problem);
/* Parts of a binding. */
/* Checks counts and pointers of one array, which must have the rows [skip, skip + length), and
 * `buffers` buffers; negative: at least as many; 0: any, because none is read. Polars' nulls have an
 * empty one. */
int kn_arrow_check_array(const struct ArrowArray *array, int64_t skip, int64_t length,
                         int64_t buffers, struct kn_arrow_problem *problem);
int kn_arrow_bind_validity(const struct ArrowArray *array, int64_t skip,
                           struct kn_arrow_validity *validity, struct kn_arrow_problem *problem);
/* Checks that count + 1 offsets (int64 if `wide`, else int32) rise from 0 on. */
int kn_arrow_check_offsets(const uint8_t *offsets, int wide, int64_t count,
                           struct kn_arrow_problem *problem);
/* Checks the table itself: a struct array that fits its schema. */
int kn_arrow_check_table(const struct ArrowSchema *schema, const struct ArrowArray *array,
                         struct kn_arrow_problem *problem);
/* Checks that the schema isn't released, and its counts and pointers, so that its `children` can be
 * walked, one level deep. NULL, or a static phrase with the error. */
const char *kn_arrow_check_schema(const struct ArrowSchema *schema);

/* Which roles a column may have, by its schema alone. */
bool kn_arrow_can_be_numbers(const struct ArrowSchema *schema, int times);
bool kn_arrow_can_be_bytes(const struct ArrowSchema *schema);
bool kn_arrow_can_be_pairs(const struct ArrowSchema *schema);

/* Checks every row of a bound column once, so that an error is found before the first row is used.
 */
int kn_arrow_check_bytes(const struct kn_arrow_bytes *bytes, int64_t length,
                         struct kn_arrow_problem *problem);
int kn_arrow_check_pairs(const struct kn_arrow_pairs *pairs, int64_t length,
                         struct kn_arrow_problem *problem);

/* --- values by row. Each call checks again, because foreign memory may have changed. --- */

static inline int32_t kn_arrow_i32(const uint8_t *at)
{
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline int64_t kn_arrow_i64(const uint8_t *at)
{
    int64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Reads a number. KN_ERR_INVALID: over INT64_MAX. Not for NULL columns. */
static inline int kn_arrow_number(const struct kn_arrow_numbers *numbers, int64_t row,
                                  int64_t *value)
{
    const uint8_t *at = numbers->data + row * numbers->type.width;
    int is_signed = numbers->type.is_signed;
    switch (numbers->type.width) {
    case 1: *value = is_signed ? (int64_t)(int8_t)*at : (int64_t)*at; return KN_OK;
    case 2: {
        uint16_t raw;
        memcpy(&raw, at, sizeof raw);
        *value = is_signed ? (int64_t)(int16_t)raw : (int64_t)raw;
        return KN_OK;
    }
    case 4: {
        int32_t raw = kn_arrow_i32(at);
        *value = is_signed ? raw : (int64_t)(uint32_t)raw;
        return KN_OK;
    }
    default: *value = kn_arrow_i64(at); return is_signed || *value >= 0 ? KN_OK : KN_ERR_INVALID;
    }
}

static inline bool kn_arrow_number_is_null(const struct kn_arrow_numbers *numbers, int64_t row)
{
    return numbers->type.layout == KN_ARROW_NULL || kn_arrow_is_null(&numbers->validity, row);
}

int kn_arrow_view(const struct kn_arrow_bytes *bytes, int64_t index, const uint8_t **data,
                  int64_t *size);
/* with a dictionary: *index is -1 for a null */
int kn_arrow_entry(const struct kn_arrow_bytes *bytes, int64_t row, int64_t *index);

/* Returns the bytes of a row. *data NULL: null (an empty string has a pointer). KN_ERR_INVALID: the
 * bytes are outside of the buffers. */
static inline int kn_arrow_value(const struct kn_arrow_bytes *bytes, int64_t row,
                                 const uint8_t **data, int64_t *size)
{
    static const uint8_t nothing[1];
    int64_t start, end;
    *data = NULL;
    *size = 0;
    if (bytes->by_dictionary) {
        int status = kn_arrow_entry(bytes, row, &row);
        if (status != KN_OK || row < 0) return status;
    }
    if (bytes->type.layout == KN_ARROW_NULL || kn_arrow_is_null(&bytes->validity, row))
        return KN_OK;
    switch (bytes->type.layout) {
    case KN_ARROW_BYTES32:
        start = kn_arrow_i32(bytes->offsets + row * 4);
        end = kn_arrow_i32(bytes->offsets + row * 4 + 4);
        break;
    case KN_ARROW_BYTES64:
        start = kn_arrow_i64(bytes->offsets + row * 8);
        end = kn_arrow_i64(bytes->offsets + row * 8 + 8);
        break;
    case KN_ARROW_FIXED:
        *data = bytes->type.width ? bytes->offsets + row * bytes->type.width : nothing;
        *size = bytes->type.width;
        return KN_OK;
    default: return kn_arrow_view(bytes, row, data, size);
    }
    if (start < 0 || end < start || end > bytes->data_bytes) return KN_ERR_INVALID;
    *data = end > start ? bytes->data + start : nothing;
    *size = end - start;
    return KN_OK;
}

/* Returns the entries [*first, *end) of a row; both 0: null or empty. */
static inline int kn_arrow_pair_range(const struct kn_arrow_pairs *pairs, int64_t row,
                                      int64_t *first, int64_t *end)
{
    *first = *end = 0;
    if (pairs->type.layout == KN_ARROW_NULL || kn_arrow_is_null(&pairs->validity, row))
        return KN_OK;
    int wide = pairs->type.layout == KN_ARROW_LIST64;
    *first = wide ? kn_arrow_i64(pairs->offsets + row * 8) : kn_arrow_i32(pairs->offsets + row * 4);
    *end = wide ? kn_arrow_i64(pairs->offsets + row * 8 + 8)
                : kn_arrow_i32(pairs->offsets + row * 4 + 4);
    return *first < 0 || *end < *first || *end > pairs->entry_count ? KN_ERR_INVALID : KN_OK;
}

#endif
