/* Reads values from text: numbers in JSON's grammar, decimals, dates, times, UUIDs, base64, and
 * JSON's escapes.
 *
 * A function returns NULL, or the reason as a static English phrase. All text may have any bytes.
 * Thread: any; no state. */
#ifndef KN_CODECS_TEXT_VALUES_H
#define KN_CODECS_TEXT_VALUES_H

#include <stdbool.h>
#include <stdint.h>

/* A number in JSON's grammar: (-1)^negative * digits * 10^exponent. */
struct kn_number {
    const uint8_t
        *first; /* digits, from the first one to the last one that aren't zeros at an end; */
    const uint8_t *last; /* a decimal point may be between them */
    const uint8_t *end;  /* the byte after the text */
    int64_t digit_count; /* 0: the number is zero */
    int64_t exponent;    /* of the last digit; saturated far beyond all types */
    bool negative;
};

/* Reads a number at the start of a text. Behind the text there must be a byte that is no part of a
 * number, such as a NUL. Doesn't check that byte. */
const char *kn_number_scan(const uint8_t *text, struct kn_number *number);
/* Exact, without fractions: 1.0 and 1e3 are integers. */
const char *kn_number_to_int(const struct kn_number *number, int64_t min, int64_t max,
                             int64_t *value);
const char *kn_number_to_uint(const struct kn_number *number, uint64_t max, uint64_t *value);
/* The nearest double or float. `text` is where the scan began. */
const char *kn_number_to_double(const struct kn_number *number, const uint8_t *text, double *value);
const char *kn_number_to_float(const struct kn_number *number, const uint8_t *text, float *value);
/* Exact, to a number of 16 or 32 bytes in this machine's order, with `scale` digits behind the
 * point and at most `precision` digits. */
const char *kn_number_to_decimal(const struct kn_number *number, int32_t precision, int32_t scale,
                                 uint8_t *value, int32_t width_bytes);

/* The same for a big-endian two's complement of any size, which has no point. */
const char *kn_bytes_to_decimal(const uint8_t *bytes, int64_t size_bytes, int32_t precision,
                                uint8_t *value, int32_t width_bytes);

/* YYYY-MM-DD, to days since 1970-01-01. */
const char *kn_text_date(const uint8_t *text, int64_t size_bytes, int32_t *days);
/* HH:MM, with seconds and up to nine digits of a fraction, with or without a Z; to units since
 * midnight. `unit` is the power of ten of the units in a second: 0, 3, 6 or 9. Digits that the unit
 * can't hold must be zeros. */
const char *kn_text_time(const uint8_t *text, int64_t size_bytes, int32_t unit, int64_t *value);
/* A date, T or a space, and a time; to units since 1970-01-01. With has_zone the text needs Z or an
 * offset, otherwise it must have neither. */
const char *kn_text_timestamp(const uint8_t *text, int64_t size_bytes, int32_t unit, bool has_zone,
                              int64_t *value);
/* 36 characters, to 16 bytes. */
const char *kn_text_uuid(const uint8_t *text, int64_t size_bytes, uint8_t *value);
/* Base64 of RFC 4648 in its standard or URL-safe alphabet. The padding may be missing.
 * `value` has room for size_bytes / 4 * 3 + 2 bytes. */
const char *kn_text_base64(const uint8_t *text, int64_t size_bytes, uint8_t *value,
                           int64_t *value_bytes);
/* An escape of JSON, from the byte after the backslash on. *text moves behind it. */
const char *kn_text_escape(const uint8_t **text, const uint8_t *end, int32_t *character);
/* The content of a string of JSON: it ends before a quote that isn't escaped. It becomes text without
 * escapes, which is never longer. *bad: the first bad escape. */
const char *kn_text_unescape(const uint8_t *text, int64_t size_bytes, uint8_t *to,
                             int64_t *to_bytes, const uint8_t **bad);

#endif
