/* Values from text: see text_values.h. */
#define _GNU_SOURCE /* strtod_l */
#include "codecs/text_values.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include "base/endian.h"
#include "codecs/limbs.h"
#include "codecs/powers_of_five.h"

#define EXPONENT_MAX 1000000000
#define FLOAT_REST UINT64_C(0x1fffffff) /* bits of a double that a float lacks */
#define FLOAT_MIDDLE UINT64_C(0x10000000)

static const char OUT_OF_RANGE[] = "a number is beyond the range of its column";
static const char NO_MEMORY[] = "there is not enough memory";
static const char HAS_FRACTION[] = "a number has a fraction, but its column has integers";

static inline bool is_digit(uint8_t c) { return (uint8_t)(c - '0') <= 9; }

/* --- numbers --- */

/* Reads e+12. Returns the byte after it, or NULL. */
static const uint8_t *scan_exponent(const uint8_t *p, int64_t *exponent)
{
    bool negative = *++p == '-';
    int64_t value = 0;
    if (*p == '-' || *p == '+') p++;
    if (!is_digit(*p)) return NULL;
    for (; is_digit(*p); p++)
        if (value < EXPONENT_MAX) value = value * 10 + (*p - '0');
    *exponent += negative ? -value : value;
    return p;
}

const char *kn_number_scan(const uint8_t *text, struct kn_number *number)
{
    static const char MALFORMED[] = "a number is malformed";
    const uint8_t *p = text, *point = NULL;
    *number = (struct kn_number){.negative = *p == '-'};
    if (*p == '-') p++;
    const uint8_t *start = p;
    if (!is_digit(*p)) return MALFORMED;
    if (*p == '0' && is_digit(p[1])) return "a number begins with a zero";
    while (is_digit(*p)) p++;
    if (*p == '.') {
        point = p++;
        if (!is_digit(*p)) return MALFORMED;
        while (is_digit(*p)) p++;
    }
    const uint8_t *stop = p;
    if ((*p | 0x20) == 'e' && !(p = scan_exponent(p, &number->exponent))) return MALFORMED;
    number->end = p;
    if (point) number->exponent -= stop - point - 1;

    while (start < stop && (*start == '0' || start == point)) start++;
    if (start == stop) return NULL; /* zero */
    for (stop--; *stop == '0' || stop == point; stop--) number->exponent += stop != point;
    number->first = start;
    number->last = stop;
    number->digit_count = stop - start + 1 - (point && point > start && point < stop);
    return NULL;
}

/* Computes the absolute value of a number that must be an integer. */
static const char *to_integer(const struct kn_number *number, uint64_t *value)
{
    uint64_t sum = 0;
    *value = 0;
    if (!number->digit_count) return NULL;
    if (number->exponent < 0) return HAS_FRACTION;
    if (number->digit_count + number->exponent > 20) return OUT_OF_RANGE;
    for (const uint8_t *p = number->first; p <= number->last; p++) {
        if (*p == '.') continue;
        if (__builtin_mul_overflow(sum, UINT64_C(10), &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*p - '0'), &sum))
            return OUT_OF_RANGE;
    }
    for (int64_t i = 0; i < number->exponent; i++)
        if (__builtin_mul_overflow(sum, UINT64_C(10), &sum)) return OUT_OF_RANGE;
    *value = sum;
    return NULL;
}

const char *kn_number_to_int(const struct kn_number *number, int64_t min, int64_t max,
                             int64_t *value)
{
    uint64_t size;
    const char *problem = to_integer(number, &size);
    if (problem) return problem;
    uint64_t limit = number->negative ? 0 - (uint64_t)min : (uint64_t)max;
    if (size > limit) return OUT_OF_RANGE;
    *value = (int64_t)(number->negative ? 0 - size : size);
    return NULL;
}

const char *kn_number_to_uint(const struct kn_number *number, uint64_t max, uint64_t *value)
{
    const char *problem = to_integer(number, value);
    if (problem) return problem;
    return *value > max || (number->negative && *value) ? OUT_OF_RANGE : NULL;
}

static locale_t plain_locale;
static pthread_once_t plain_locale_once = PTHREAD_ONCE_INIT;

static void make_plain_locale(void) { plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

/* The application may have a locale with a decimal comma. */
static double read_double(const uint8_t *text)
{
    pthread_once(&plain_locale_once, make_plain_locale);
    return plain_locale ? strtod_l((const char *)text, NULL, plain_locale) : (double)NAN;
}

static float read_float(const uint8_t *text)
{
    pthread_once(&plain_locale_once, make_plain_locale);
    return plain_locale ? strtof_l((const char *)text, NULL, plain_locale) : NAN;
}

#ifdef __SIZEOF_INT128__
/* Computes the double that is nearest to digits * 10^exponent, with the algorithm of Eisel and Lemire.
 * digits: 1 to 19 of them. The exponent must be in the table: then no result is too large, too small
 * or subnormal. Returns whether the table is exact enough. */
static bool nearest_double(uint64_t digits, int32_t exponent, double *value)
{
    const uint64_t *power = KN_POWERS_OF_FIVE[exponent + KN_POWERS_OF_FIVE_MAX];
    int zeros = __builtin_clzll(digits);
    digits <<= zeros;
    unsigned __int128 product = (unsigned __int128)digits * power[0];
    uint64_t high = (uint64_t)(product >> 64), low = (uint64_t)product;
    if ((high & 0x1ff) == 0x1ff) { /* the power's lower half may change the bits that stay */
        uint64_t more = (uint64_t)((unsigned __int128)digits * power[1] >> 64);
        low += more;
        high += low < more;
    }
    if (low == UINT64_MAX && (exponent < -27 || exponent > 55)) return 0;
    int upper = (int)(high >> 63);
    uint64_t mantissa = high >> (upper + 9); /* 53 bits, and one to round */
    /* 217706 / 65536 is the binary logarithm of ten. */
    int64_t binary = ((INT64_C(217706) * exponent) >> 16) + 63 + upper - zeros + 1023;
    bool is_half = low <= 1 && exponent >= -4 && exponent <= 23 && (mantissa & 3) == 1 &&
                   mantissa << (upper + 9) == high;
    if (is_half) mantissa &= ~UINT64_C(1); /* to the even one */
    mantissa = (mantissa + (mantissa & 1)) >> 1;
    if (mantissa >> 53) { /* rounded up to the next power of two */
        mantissa >>= 1;
        binary++;
    }
    uint64_t bits = (mantissa & ((UINT64_C(1) << 52) - 1)) | (uint64_t)binary << 52;
    memcpy(value, &bits, sizeof bits);
    return 1;
}
#endif

/* Computes the absolute value of a number with at most 19 digits. Returns whether it could. */
static bool quick_double(const struct kn_number *number, double *value)
{
    static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t digits = 0;
    *value = 0;
    if (!number->digit_count) return 1;
    if (number->digit_count > 19 || number->exponent < -KN_POWERS_OF_FIVE_MAX ||
        number->exponent > KN_POWERS_OF_FIVE_MAX)
        return 0;
    for (const uint8_t *p = number->first; p <= number->last; p++)
        if (*p != '.') digits = digits * 10 + (uint64_t)(*p - '0');
    int32_t exponent = (int32_t)number->exponent;
    if (digits <= UINT64_C(1) << 53 && exponent >= -22 && exponent <= 22) {
        /* Both are exact, so the result is rounded once. */
        *value = exponent < 0 ? (double)digits / POWERS[-exponent]
                              : (double)digits * POWERS[exponent];
        return 1;
    }
#ifdef __SIZEOF_INT128__
    return nearest_double(digits, exponent, value);
#else
    return 0;
#endif
}

const char *kn_number_to_double(const struct kn_number *number, const uint8_t *text, double *value)
{
    if (__builtin_expect(quick_double(number, value), 1)) {
        if (number->negative) *value = -*value;
        return NULL;
    }
    *value = read_double(text);
    if (*value != *value) return NO_MEMORY;
    return isinf(*value) ? OUT_OF_RANGE : NULL;
}

const char *kn_number_to_float(const struct kn_number *number, const uint8_t *text, float *value)
{
    double wide;
    uint64_t bits;
    const char *problem = kn_number_to_double(number, text, &wide);
    if (problem) return problem;
    memcpy(&bits, &wide, sizeof bits);
    /* In the middle between two floats, the double may have been rounded itself. */
    bool is_middle = (bits & FLOAT_REST) == FLOAT_MIDDLE || (wide != 0 && fabs(wide) < FLT_MIN);
    *value = is_middle ? read_float(text) : (float)wide;
    if (*value != *value) return NO_MEMORY;
    return isinf(*value) ? OUT_OF_RANGE : NULL;
}

static const char TOO_MANY_DIGITS[] = "a decimal has too many digits";

const char *kn_number_to_decimal(const struct kn_number *number, int32_t precision, int32_t scale,
                                 uint8_t *value, int32_t width_bytes)
{
    uint32_t limbs[KN_LIMBS] = {0};
    int64_t zeros = number->exponent + scale;
    if (number->digit_count) {
        if (zeros < 0) return "a decimal has too many digits behind the point";
        if (number->digit_count + zeros > precision) return TOO_MANY_DIGITS;
        for (const uint8_t *p = number->first; p <= number->last; p++)
            if (*p != '.') kn_limbs_multiply(limbs, 10, (uint32_t)(*p - '0'));
        for (; zeros; zeros--) kn_limbs_multiply(limbs, 10, 0);
    }
    kn_limbs_store(limbs, number->negative, value, width_bytes);
    return NULL;
}

const char *kn_bytes_to_decimal(const uint8_t *bytes, int64_t size_bytes, int32_t precision,
                                uint8_t *value, int32_t width_bytes)
{
    uint32_t limbs[KN_LIMBS] = {0}, limit[KN_LIMBS] = {1};
    uint8_t sign = size_bytes && bytes[0] & 0x80 ? 0xff : 0;
    for (; size_bytes > KN_LIMBS_BYTES; bytes++, size_bytes--)
        if (*bytes != sign) return TOO_MANY_DIGITS;
    if (size_bytes && ((bytes[0] ^ sign) & 0x80)) return TOO_MANY_DIGITS;
    uint32_t carry = sign & 1;
    for (int64_t i = 0; i < KN_LIMBS_BYTES; i++) { /* the absolute value */
        carry += (uint32_t)((i < size_bytes ? bytes[size_bytes - 1 - i] : sign) ^ sign);
        limbs[i / 4] |= (carry & 0xff) << 8 * (i % 4);
        carry >>= 8;
    }
    for (int32_t i = 0; i < precision; i++) kn_limbs_multiply(limit, 10, 0);
    int top = KN_LIMBS - 1;
    while (top && limbs[top] == limit[top]) top--;
    if (limbs[top] >= limit[top]) return TOO_MANY_DIGITS;
    kn_limbs_store(limbs, sign, value, width_bytes);
    return NULL;
}

/* --- dates and times --- */

/* Reads `count` digits at an index. Returns the number, or -1. */
static int32_t digits_at(const uint8_t *text, int64_t size_bytes, int64_t at, int count)
{
    int32_t value = 0;
    if (size_bytes - at < count) return -1;
    for (int i = 0; i < count; i++) {
        if (!is_digit(text[at + i])) return -1;
        value = value * 10 + (text[at + i] - '0');
    }
    return value;
}

/* Returns the days since 1970-01-01 in the proleptic Gregorian calendar. Years begin in March here,
 * so that the leap day is the last one. */
static int32_t days_of(int32_t year, int32_t month, int32_t day)
{
    year -= month <= 2;
    int32_t era = (year >= 0 ? year : year - 399) / 400, year_of_era = year - era * 400;
    int32_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
           719468;
}

static const char *date_at_start(const uint8_t *text, int64_t size_bytes, int32_t *days)
{
    static const int8_t LENGTHS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int32_t year = digits_at(text, size_bytes, 0, 4), month = digits_at(text, size_bytes, 5, 2);
    int32_t day = digits_at(text, size_bytes, 8, 2);
    if (year < 0 || month < 0 || day < 0 || text[4] != '-' || text[7] != '-')
        return "a date is malformed";
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (month < 1 || month > 12 || day < 1 || day > LENGTHS[month - 1] + (month == 2 && is_leap))
        return "a date doesn't exist";
    *days = days_of(year, month, day);
    return NULL;
}

const char *kn_text_date(const uint8_t *text, int64_t size_bytes, int32_t *days)
{
    return size_bytes == 10 ? date_at_start(text, size_bytes, days) : "a date is malformed";
}

struct clock { /* a time of day, and the text after it */
    int32_t seconds;
    int64_t fraction; /* in the unit */
    int64_t end;
};

static const char *clock_at(const uint8_t *text, int64_t size_bytes, int64_t at, int32_t unit,
                            struct clock *clock)
{
    static const char MALFORMED[] = "a time is malformed";
    int32_t hour = digits_at(text, size_bytes, at, 2), second = 0, count = 0;
    int32_t minute = digits_at(text, size_bytes, at + 3, 2);
    if (hour < 0 || minute < 0 || text[at + 2] != ':') return MALFORMED;
    *clock = (struct clock){.end = at + 5};
    if (clock->end < size_bytes && text[clock->end] == ':') {
        if ((second = digits_at(text, size_bytes, at + 6, 2)) < 0) return MALFORMED;
        clock->end += 3;
        if (clock->end < size_bytes && text[clock->end] == '.') {
            for (clock->end++; clock->end < size_bytes && is_digit(text[clock->end]);
                 clock->end++) {
                int32_t digit = text[clock->end] - '0';
                if (count++ < unit) {
                    clock->fraction = clock->fraction * 10 + digit;
                } else if (digit) {
                    return "a time has more digits than its column";
                }
            }
            if (!count) return MALFORMED;
        }
    }
    if (hour > 23 || minute > 59 || second > 59) return "a time doesn't exist";
    for (; count < unit; count++) clock->fraction *= 10;
    clock->seconds = (hour * 60 + minute) * 60 + second;
    return NULL;
}

static int64_t units_per_second(int32_t unit)
{
    int64_t units = 1;
    for (; unit > 0; unit--) units *= 10;
    return units;
}

const char *kn_text_time(const uint8_t *text, int64_t size_bytes, int32_t unit, int64_t *value)
{
    struct clock clock;
    const char *problem = clock_at(text, size_bytes, 0, unit, &clock);
    if (problem) return problem;
    if (clock.end == size_bytes - 1 && (text[clock.end] | 0x20) == 'z') clock.end++;
    if (clock.end != size_bytes) return "a time is malformed, or isn't in UTC";
    *value = clock.seconds * units_per_second(unit) + clock.fraction;
    return NULL;
}

/* Reads Z, +hh, +hhmm or +hh:mm up to the end of the text. */
static const char *zone_at(const uint8_t *text, int64_t size_bytes, int64_t at, int32_t *seconds)
{
    static const char MALFORMED[] = "the time zone of a timestamp is malformed";
    *seconds = 0;
    if (at == size_bytes) return "a timestamp has no time zone";
    if ((text[at] | 0x20) == 'z') return at + 1 == size_bytes ? NULL : MALFORMED;
    if (text[at] != '+' && text[at] != '-') return MALFORMED;
    int32_t hours = digits_at(text, size_bytes, at + 1, 2), minutes = 0;
    int64_t next = at + 3;
    if (next < size_bytes) {
        next += text[next] == ':';
        minutes = digits_at(text, size_bytes, next, 2);
        next += 2;
    }
    if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59 || next != size_bytes)
        return MALFORMED;
    *seconds = (hours * 60 + minutes) * 60 * (text[at] == '-' ? -1 : 1);
    return NULL;
}

const char *kn_text_timestamp(const uint8_t *text, int64_t size_bytes, int32_t unit, bool has_zone,
                              int64_t *value)
{
    int32_t days = 0, offset = 0;
    struct clock clock;
    const char *problem = date_at_start(text, size_bytes, &days);
    if (problem) return problem;
    if (size_bytes < 11 || ((text[10] | 0x20) != 't' && text[10] != ' '))
        return "a timestamp is malformed";
    if ((problem = clock_at(text, size_bytes, 11, unit, &clock))) return problem;
    if (has_zone) {
        if ((problem = zone_at(text, size_bytes, clock.end, &offset))) return problem;
    } else if (clock.end != size_bytes) {
        return "a timestamp has a time zone, but its column has none";
    }
    int64_t seconds = (int64_t)days * 86400 + clock.seconds - offset;
    int64_t fraction = clock.fraction, units = units_per_second(unit);
    /* The first second of the range begins below INT64_MIN: count from its end. */
    if (seconds < 0 && fraction) {
        seconds++;
        fraction -= units;
    }
    if (__builtin_mul_overflow(seconds, units, value) ||
        __builtin_add_overflow(*value, fraction, value))
        return "a timestamp is beyond the range of its column";
    return NULL;
}

/* --- bytes --- */

static int hex_digit(uint8_t c)
{
    if (is_digit(c)) return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *kn_text_uuid(const uint8_t *text, int64_t size_bytes, uint8_t *value)
{
    static const char MALFORMED[] = "a UUID is malformed";
    if (size_bytes != 36) return MALFORMED;
    for (int i = 0; i < 36; i++) {
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            if (text[i] != '-') return MALFORMED;
            continue;
        }
        int high = hex_digit(text[i]), low = hex_digit(text[++i]);
        if (high < 0 || low < 0) return MALFORMED;
        *value++ = (uint8_t)(high << 4 | low);
    }
    return NULL;
}

static int base64_digit(uint8_t c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (is_digit(c)) return c - '0' + 52;
    if (c == '+' || c == '-') return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

const char *kn_text_base64(const uint8_t *text, int64_t size_bytes, uint8_t *value,
                           int64_t *value_bytes)
{
    static const char MALFORMED[] = "base64 is malformed";
    const uint8_t *start = value;
    uint32_t bits = 0;
    int64_t padding = 0;
    int bit_count = 0;
    while (size_bytes && padding < 2 && text[size_bytes - 1] == '=') size_bytes--, padding++;
    if (size_bytes % 4 == 1 || (padding && (size_bytes + padding) % 4)) return MALFORMED;
    for (int64_t i = 0; i < size_bytes; i++) {
        int digit = base64_digit(text[i]);
        if (digit < 0) return MALFORMED;
        bits = bits << 6 | (uint32_t)digit;
        if ((bit_count += 6) < 8) continue;
        bit_count -= 8;
        *value++ = (uint8_t)(bits >> bit_count);
        bits &= (1u << bit_count) - 1;
    }
    if (bits) return MALFORMED; /* bits that belong to no byte */
    *value_bytes = value - start;
    return NULL;
}

/* --- escapes --- */

static int32_t hex4(const uint8_t *text, const uint8_t *end)
{
    int32_t value = 0;
    if (end - text < 4) return -1;
    for (int i = 0; i < 4; i++) {
        uint8_t c = text[i], letter = c | 0x20;
        if (c >= '0' && c <= '9') {
            value = value << 4 | (c - '0');
        } else if (letter >= 'a' && letter <= 'f') {
            value = value << 4 | (letter - 'a' + 10);
        } else {
            return -1;
        }
    }
    return value;
}

/* Reads the four digits after \u, and the second half of a pair. Returns the character, or -1. */
static int32_t unicode_escape(const uint8_t **text, const uint8_t *end)
{
    int32_t high = hex4(*text, end);
    if (high < 0) return -1;
    *text += 4;
    if (high < 0xd800 || high > 0xdfff) return high;
    if (high > 0xdbff || end - *text < 6 || (*text)[0] != '\\' || (*text)[1] != 'u') return -1;
    int32_t low = hex4(*text + 2, end);
    if (low < 0xdc00 || low > 0xdfff) return -1;
    *text += 6;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

static uint8_t *put_utf8(uint8_t *to, int32_t character)
{
    if (character < 0x80) {
        *to++ = (uint8_t)character;
        return to;
    }
    if (character < 0x800) {
        *to++ = (uint8_t)(0xc0 | character >> 6);
    } else {
        if (character < 0x10000) {
            *to++ = (uint8_t)(0xe0 | character >> 12);
        } else {
            *to++ = (uint8_t)(0xf0 | character >> 18);
            *to++ = (uint8_t)(0x80 | (character >> 12 & 0x3f));
        }
        *to++ = (uint8_t)(0x80 | (character >> 6 & 0x3f));
    }
    *to++ = (uint8_t)(0x80 | (character & 0x3f));
    return to;
}

const char *kn_text_escape(const uint8_t **text, const uint8_t *end, int32_t *character)
{
    static const uint8_t CHARACTERS[256] = {['"'] = '"',  ['\\'] = '\\', ['/'] = '/',
                                            ['b'] = '\b', ['f'] = '\f',  ['n'] = '\n',
                                            ['r'] = '\r', ['t'] = '\t'};
    if (*text == end) return "a string ends within an escape";
    uint8_t letter = *(*text)++;
    if (letter != 'u') {
        *character = CHARACTERS[letter];
        return *character ? NULL : "a string has an unknown escape";
    }
    *character = unicode_escape(text, end);
    return *character < 0 ? "an escape is malformed, or half of a surrogate pair" : NULL;
}

const char *kn_text_unescape(const uint8_t *text, int64_t size_bytes, uint8_t *to,
                             int64_t *to_bytes, const uint8_t **bad)
{
    const uint8_t *end = text + size_bytes;
    uint8_t *start = to;
    while (text < end) {
        if (*text != '\\') {
            *to++ = *text++;
            continue;
        }
        int32_t character;
        *bad = text++;
        const char *problem = kn_text_escape(&text, end, &character);
        if (problem) return problem;
        to = put_utf8(to, character);
    }
    *to_bytes = to - start;
    return NULL;
}
