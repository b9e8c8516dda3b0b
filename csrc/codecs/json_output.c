/* Values as JSON text: see json_output.h. */
#include "codecs/json_output.h"

#include <math.h>
#include <string.h>

#include "codecs/shortest_number.h"

#define ONES UINT64_C(0x0101010101010101)
#define HIGH_BITS UINT64_C(0x8080808080808080)
#define UINT_DIGITS_MAX 20
#define LIMB_DIGITS 9 /* of a chunk of a decimal */
#define LIMB_BASE 1000000000
#define CHUNKS_MAX 9 /* in 256 bits */
#define DAY_S 86400
#define DAY_MIN (-719528) /* 0000-01-01 */
#define DAY_MAX 2932896   /* 9999-12-31 */
#define EXACT_INTEGER_MAX 1e15

static const char PAIRS[] = "00010203040506070809101112131415161718192021222324252627282930313233"
                            "34353637383940414243444546474849505152535455565758596061626364656667"
                            "6869707172737475767778798081828384858687888990919293949596979899";

/* --- numbers --- */

/* Writes exactly `count` digits. */
static inline uint8_t *put_digits(uint8_t *to, uint64_t value, int64_t count)
{
    uint8_t *at = to + count;
    for (; at - to >= 2; value /= 100) {
        at -= 2;
        memcpy(at, PAIRS + value % 100 * 2, 2);
    }
    if (at > to) *to = (uint8_t)('0' + value % 10);
    return to + count;
}

uint8_t *kn_json_uint_put(uint8_t *to, uint64_t value)
{
    uint8_t digits[2 * UINT_DIGITS_MAX] = {0}, *end = digits + UINT_DIGITS_MAX, *at = end;
    for (; value >= 100; value /= 100) {
        at -= 2;
        memcpy(at, PAIRS + value % 100 * 2, 2);
    }
    if (value >= 10) {
        at -= 2;
        memcpy(at, PAIRS + value * 2, 2);
    } else {
        *--at = (uint8_t)('0' + value);
    }
    memcpy(to, at, UINT_DIGITS_MAX); /* a fixed size is faster; what is behind the number is free */
    return to + (end - at);
}

uint8_t *kn_json_int_put(uint8_t *to, int64_t value)
{
    if (value >= 0) return kn_json_uint_put(to, (uint64_t)value);
    *to = '-';
    return kn_json_uint_put(to + 1, 0 - (uint64_t)value);
}

/* Appends .0 to a number that has neither a point nor an exponent. NULL: `end` is NULL. */
static uint8_t *as_real(const uint8_t *start, uint8_t *end)
{
    if (!end) return NULL; /* a build without C++ */
    for (const uint8_t *p = start; p < end; p++)
        if (*p == '.' || *p == 'e') return end;
    memcpy(end, ".0", 2);
    return end + 2;
}

/* Writes a whole number, which is the usual case for some columns. NULL: it isn't one. */
static inline uint8_t *put_whole(uint8_t *to, double value)
{
    if (!(value > -EXACT_INTEGER_MAX && value < EXACT_INTEGER_MAX)) return NULL;
    int64_t whole = (int64_t)value;
    if ((double)whole != value || (!whole && signbit(value))) return NULL;
    to = kn_json_int_put(to, whole);
    memcpy(to, ".0", 2);
    return to + 2;
}

uint8_t *kn_json_double_put(uint8_t *to, double value)
{
    uint8_t *end = put_whole(to, value);
    if (end) return end;
    return isfinite(value) ? as_real(to, kn_shortest_double_put(to, value)) : NULL;
}

uint8_t *kn_json_float_put(uint8_t *to, float value)
{
    return isfinite(value) ? as_real(to, kn_shortest_float_put(to, value)) : NULL;
}

/* Writes the digits of a number from its limbs. Returns how many. */
static int64_t put_limbs(uint8_t *to, uint32_t size[KN_LIMBS])
{
    uint32_t chunks[CHUNKS_MAX];
    int top = KN_LIMBS, count = 0;
    for (;;) {
        while (top && !size[top - 1]) top--;
        if (top <= 2) break;
        uint64_t rest = 0;
        for (int i = top; i-- > 0;) {
            rest = rest << 32 | size[i];
            size[i] = (uint32_t)(rest / LIMB_BASE);
            rest %= LIMB_BASE;
        }
        chunks[count++] = (uint32_t)rest;
    }
    uint8_t *end = kn_json_uint_put(to, (uint64_t)size[1] << 32 | size[0]);
    while (count) end = put_digits(end, chunks[--count], LIMB_DIGITS);
    return end - to;
}

uint8_t *kn_json_decimal_put(uint8_t *to, uint32_t size[KN_LIMBS], bool is_negative, int32_t scale)
{
    uint8_t digits[CHUNKS_MAX * LIMB_DIGITS + UINT_DIGITS_MAX];
    int64_t count = put_limbs(digits, size), whole = count - scale;
    bool is_zero = count == 1 && digits[0] == '0';
    if (is_negative && !is_zero) *to++ = '-';
    if (scale <= 0) {
        memcpy(to, digits, (size_t)count);
        to += count;
        if (is_zero) return to;
        memset(to, '0', (size_t)-scale);
        return to - scale;
    }
    if (whole > 0) {
        memcpy(to, digits, (size_t)whole);
        to += whole;
    } else {
        *to++ = '0';
    }
    *to++ = '.';
    if (whole < 0) {
        memset(to, '0', (size_t)-whole);
        to -= whole;
    }
    int64_t behind = whole > 0 ? scale : count;
    memcpy(to, digits + (count - behind), (size_t)behind);
    return to + behind;
}

/* --- dates and times --- */

/* Writes the day in the proleptic Gregorian calendar. Years begin in March here, so that the leap
 * day is the last one. */
static uint8_t *put_day(uint8_t *to, int64_t days)
{
    if (days < DAY_MIN || days > DAY_MAX) return NULL;
    int32_t shifted = (int32_t)days + 719468 + 146097; /* never negative */
    int32_t era = shifted / 146097, day_of_era = shifted % 146097;
    int32_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 -
                           day_of_era / 146096) /
                          365;
    int32_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int32_t month = (5 * day_of_year + 2) / 153, day = day_of_year - (153 * month + 2) / 5 + 1;
    month += month < 10 ? 3 : -9;
    int32_t year = year_of_era + (era - 1) * 400 + (month <= 2);
    to = put_digits(to, (uint64_t)year, 4);
    *to++ = '-';
    to = put_digits(to, (uint64_t)month, 2);
    *to++ = '-';
    return put_digits(to, (uint64_t)day, 2);
}

/* Writes a time of day. `fraction` is in the unit. */
static uint8_t *put_clock(uint8_t *to, int32_t seconds, int64_t fraction, int32_t unit, bool is_utc)
{
    to = put_digits(to, (uint64_t)(seconds / 3600), 2);
    *to++ = ':';
    to = put_digits(to, (uint64_t)(seconds / 60 % 60), 2);
    *to++ = ':';
    to = put_digits(to, (uint64_t)(seconds % 60), 2);
    if (fraction) {
        for (; fraction % 1000 == 0; unit -= 3) fraction /= 1000;
        *to++ = '.';
        to = put_digits(to, (uint64_t)fraction, unit);
    }
    if (is_utc) *to++ = 'Z';
    return to;
}

static int64_t units_per_second(int32_t unit)
{
    return unit == 0 ? 1 : unit == 3 ? 1000 : unit == 6 ? 1000000 : 1000000000;
}

uint8_t *kn_json_date_put(uint8_t *to, int64_t days)
{
    *to++ = '"';
    if (!(to = put_day(to, days))) return NULL;
    *to++ = '"';
    return to;
}

uint8_t *kn_json_time_put(uint8_t *to, int64_t value, int32_t unit, bool is_utc)
{
    int64_t units = units_per_second(unit);
    if (value < 0 || value >= DAY_S * units) return NULL;
    *to++ = '"';
    to = put_clock(to, (int32_t)(value / units), value % units, unit, is_utc);
    *to++ = '"';
    return to;
}

uint8_t *kn_json_timestamp_put(uint8_t *to, int64_t value, int32_t unit, bool is_utc)
{
    int64_t units = units_per_second(unit);
    int64_t seconds = value / units, fraction = value % units;
    if (fraction < 0) {
        seconds--;
        fraction += units;
    }
    int64_t days = seconds / DAY_S, second = seconds % DAY_S;
    if (second < 0) {
        days--;
        second += DAY_S;
    }
    *to++ = '"';
    if (!(to = put_day(to, days))) return NULL;
    *to++ = 'T';
    to = put_clock(to, (int32_t)second, fraction, unit, is_utc);
    *to++ = '"';
    return to;
}

/* --- strings --- */

static const char HEX[] = "0123456789abcdef";

uint8_t *kn_uuid_put(uint8_t *to, const uint8_t bytes[16])
{
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *to++ = '-';
        *to++ = (uint8_t)HEX[bytes[i] >> 4];
        *to++ = (uint8_t)HEX[bytes[i] & 15];
    }
    return to;
}

uint8_t *kn_json_uuid_put(uint8_t *to, const uint8_t bytes[16])
{
    *to++ = '"';
    to = kn_uuid_put(to, bytes);
    *to++ = '"';
    return to;
}

uint8_t *kn_json_base64_put(uint8_t *to, const uint8_t *bytes, int64_t size_bytes)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    *to++ = '"';
    for (; size_bytes > 0; bytes += 3, size_bytes -= 3) {
        uint32_t bits = (uint32_t)bytes[0] << 16;
        if (size_bytes > 1) bits |= (uint32_t)bytes[1] << 8;
        if (size_bytes > 2) bits |= bytes[2];
        *to++ = (uint8_t)DIGITS[bits >> 18];
        *to++ = (uint8_t)DIGITS[bits >> 12 & 63];
        *to++ = size_bytes > 1 ? (uint8_t)DIGITS[bits >> 6 & 63] : '=';
        *to++ = size_bytes > 2 ? (uint8_t)DIGITS[bits & 63] : '=';
    }
    *to++ = '"';
    return to;
}

/* Returns whether one of eight bytes needs an escape: a quote, a backslash or a control character. A
 * byte that is zero after the exclusive or, or below 0x20, sets the high bit of its place. */
static inline bool needs_escape(uint64_t word)
{
    uint64_t quote = word ^ ONES * '"', backslash = word ^ ONES * '\\';
    return (((quote - ONES) & ~quote) | ((backslash - ONES) & ~backslash) |
            ((word - ONES * 0x20) & ~word)) &
           HIGH_BITS;
}

/* The letter behind the backslash of a short escape. 'u': there is none. 0: no escape. */
static const char ESCAPES[256] = {'u', 'u', 'u', 'u', 'u', 'u',         'u',          'u', 'b',
                                  't', 'n', 'u', 'f', 'r', 'u',         'u',          'u', 'u',
                                  'u', 'u', 'u', 'u', 'u', 'u',         'u',          'u', 'u',
                                  'u', 'u', 'u', 'u', 'u', ['"'] = '"', ['\\'] = '\\'};

int64_t kn_json_plain_put(uint8_t *to, const uint8_t *text, int64_t size_bytes, bool *is_ascii)
{
    uint64_t seen = 0, word;
    int64_t at = 0;
    for (; size_bytes - at >= 8; at += 8) {
        memcpy(&word, text + at, 8);
        if (needs_escape(word)) break;
        memcpy(to + at, &word, 8);
        seen |= word;
    }
    int64_t left = size_bytes - at; /* at least 8: an escape is in the next word */
    if (left && left < 8 && size_bytes >= 8) {
        memcpy(&word, text + size_bytes - 8, 8);
        if (!needs_escape(word)) {
            memcpy(to + size_bytes - 8, &word, 8);
            seen |= word;
            at = size_bytes;
        }
    } else if (left >= 4 && left < 8) {
        uint32_t low, high;
        memcpy(&low, text, 4);
        memcpy(&high, text + size_bytes - 4, 4);
        word = (uint64_t)high << 32 | low;
        if (!needs_escape(word)) {
            memcpy(to, &low, 4);
            memcpy(to + size_bytes - 4, &high, 4);
            seen |= word;
            at = size_bytes;
        }
    }
    for (; at < size_bytes; at++) {
        uint8_t c = text[at];
        if (ESCAPES[c]) break;
        to[at] = c;
        seen |= c;
    }
    *is_ascii = !(seen & HIGH_BITS);
    return at;
}

uint8_t *kn_json_escaped_put(uint8_t *to, const uint8_t *text, int64_t size_bytes)
{
    for (int64_t i = 0; i < size_bytes; i++) {
        uint8_t c = text[i];
        char letter = ESCAPES[c];
        if (!letter) {
            *to++ = c;
            continue;
        }
        *to++ = '\\';
        *to++ = (uint8_t)letter;
        if (letter != 'u') continue;
        memcpy(to, "00", 2);
        to[2] = (uint8_t)HEX[c >> 4];
        to[3] = (uint8_t)HEX[c & 15];
        to += 4;
    }
    return to;
}
