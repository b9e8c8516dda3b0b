/* Writes values as JSON text: text_values.h reads them. Strings come with their quotes.
 *
 * A function returns the byte after the text. NULL: JSON or ISO 8601 can't have the value.
 * Thread: any; no state. */
#ifndef KN_CODECS_JSON_OUTPUT_H
#define KN_CODECS_JSON_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include "codecs/limbs.h"

/* Of a number, date, time or timestamp. There must be room for as many. */
#define KN_JSON_SHORT_MAX_BYTES 32
#define KN_UUID_TEXT_BYTES 36
#define KN_JSON_UUID_BYTES (KN_UUID_TEXT_BYTES + 2)
#define KN_JSON_ESCAPE_MAX_BYTES 6 /* of one byte, as in \u001f */
#define KN_JSON_DECIMAL_SCALE_MAX 76
#define KN_JSON_DECIMAL_MAX_BYTES 160 /* a sign, 77 digits, a point or 76 zeros */

/* --- numbers --- */

uint8_t *kn_json_uint_put(uint8_t *to, uint64_t value);
uint8_t *kn_json_int_put(uint8_t *to, int64_t value);
/* The shortest text that reads back equal. It has a point or an exponent, so that readers without a
 * schema see a number with a fraction. NULL: NaN or infinity. */
uint8_t *kn_json_double_put(uint8_t *to, double value);
uint8_t *kn_json_float_put(uint8_t *to, float value);
/* `size` is the absolute value in limbs from the lowest one; the call uses it up. `scale` digits are
 * behind the point; it is at most KN_JSON_DECIMAL_SCALE_MAX, and at least the opposite. */
uint8_t *kn_json_decimal_put(uint8_t *to, uint32_t size[KN_LIMBS], bool is_negative, int32_t scale);

/* --- dates and times, in ISO 8601 --- */

/* "2026-11-28", from days since 1970-01-01. NULL: the year isn't 0000 to 9999. */
uint8_t *kn_json_date_put(uint8_t *to, int64_t days);
/* "23:59:59", from units since midnight. `unit` is the power of ten of the units in a second: 0, 3, 6
 * or 9. A fraction has 3, 6 or 9 digits. With is_utc a Z follows. NULL: not within a day. */
uint8_t *kn_json_time_put(uint8_t *to, int64_t value, int32_t unit, bool is_utc);
/* "2026-11-28T23:59:59", from units since 1970-01-01. NULL: the year isn't 0000 to 9999. */
uint8_t *kn_json_timestamp_put(uint8_t *to, int64_t value, int32_t unit, bool is_utc);

/* --- strings --- */

/* Without quotes: KN_UUID_TEXT_BYTES. */
uint8_t *kn_uuid_put(uint8_t *to, const uint8_t bytes[16]);
uint8_t *kn_json_uuid_put(uint8_t *to, const uint8_t bytes[16]);
/* Base64 of RFC 4648 in its standard alphabet, with padding. It needs kn_json_base64_bytes(). */
uint8_t *kn_json_base64_put(uint8_t *to, const uint8_t *bytes, int64_t size_bytes);
static inline int64_t kn_json_base64_bytes(int64_t size_bytes)
{
    return (size_bytes + 2) / 3 * 4 + 2;
}

/* Copies the bytes before the first one that needs an escape, without quotes. Returns how many.
 * `to` has room for all of them. *is_ascii: whether all of them are ASCII. */
int64_t kn_json_plain_put(uint8_t *to, const uint8_t *text, int64_t size_bytes, bool *is_ascii);
/* Writes bytes with escapes, without quotes. Each may need KN_JSON_ESCAPE_MAX_BYTES. */
uint8_t *kn_json_escaped_put(uint8_t *to, const uint8_t *text, int64_t size_bytes);

#endif
