/* Values from text: exact numbers, dates across all years, and text that is refused. */
#include "check.h"
#include "codecs/text_values.h"

#include <math.h>

static const char *scan(const char *text, struct kn_number *number)
{
    return kn_number_scan((const uint8_t *)text, number);
}

static void test_numbers_keep_their_digits_between_zeros(void)
{
    static const struct {
        const char *text;
        int64_t digits, exponent;
    } CASES[] = {{"0", 0, 0},     {"0.00", 0, 0},      {"120", 2, 1},    {"-0.0120", 2, -3},
                 {"1.50", 2, -1}, {"100.0010", 6, -3}, {"1e5", 1, 5},    {"12.5E-3", 3, -4},
                 {"9", 1, 0},     {"10.5", 3, -1},     {"0.10e+2", 1, 1}};
    struct kn_number number;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        CHECK(!scan(CASES[i].text, &number));
        CHECK_EQ(number.digit_count, CASES[i].digits);
        if (number.digit_count) CHECK_EQ(number.exponent, CASES[i].exponent);
        CHECK_EQ(*number.end, 0);
        CHECK_EQ(number.negative, CASES[i].text[0] == '-');
    }
    static const char *const BAD[] = {"", "-", "a", "01", "-01", ".5", "1.", "1.e5", "1e", "1e+"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) CHECK(scan(BAD[i], &number));
}

static void test_integers_of_every_length_are_exact(void)
{
    struct kn_number number;
    char text[64];
    int64_t value;
    uint64_t size;
    for (int i = 0; i < 20000; i++) {
        int64_t wanted = (int64_t)(check_random() >> (check_random() % 64));
        if (i & 1) wanted = -wanted;
        snprintf(text, sizeof text, "%lld", (long long)wanted);
        CHECK(!scan(text, &number) && !kn_number_to_int(&number, INT64_MIN, INT64_MAX, &value));
        CHECK_EQ(value, wanted);
        snprintf(text, sizeof text, "%llu.0", (unsigned long long)wanted);
        CHECK(!scan(text, &number) && !kn_number_to_uint(&number, UINT64_MAX, &size));
        CHECK_EQ(size, (uint64_t)wanted);
    }
    CHECK(!scan("18446744073709551616", &number) && kn_number_to_uint(&number, UINT64_MAX, &size));
    CHECK(!scan("1e30", &number) && kn_number_to_int(&number, INT64_MIN, INT64_MAX, &value));
    CHECK(!scan("128", &number) && kn_number_to_int(&number, INT8_MIN, INT8_MAX, &value));
    CHECK(!scan("-128", &number) && !kn_number_to_int(&number, INT8_MIN, INT8_MAX, &value));
}

static void check_double(const char *text)
{
    struct kn_number number;
    double value, wanted = strtod(text, NULL);
    if (scan(text, &number) || kn_number_to_double(&number, (const uint8_t *)text, &value) ||
        memcmp(&value, &wanted, sizeof value))
        CHECK_STR(text, "a number with another double");
}

/* The quick ways and the library's way give the same. Halves between two doubles are the hard ones. */
static void test_doubles_of_every_length(void)
{
    char text[64];
    for (int i = 0; i < 300000; i++) {
        uint64_t digits = check_random() >> (check_random() % 60);
        snprintf(text, sizeof text, "%llue%d", (unsigned long long)digits,
                 (int)(check_random() % 150) - 75);
        check_double(text);
        snprintf(text, sizeof text, "-%u.%018llu", (unsigned)(digits % 10),
                 (unsigned long long)(check_random() % UINT64_C(1000000000000000000)));
        check_double(text);
    }
    for (int bit = 53; bit < 63; bit++) {
        for (int i = 0; i < 2000; i++) {
            uint64_t half = (UINT64_C(1) << bit) + ((check_random() % 4096 * 2 + 1) << (bit - 53));
            for (int more = -1; more <= 1; more++) {
                snprintf(text, sizeof text, "%llu", (unsigned long long)half + (uint64_t)more);
                check_double(text);
                snprintf(text, sizeof text, "%llue-3", (unsigned long long)half + (uint64_t)more);
                check_double(text);
            }
        }
    }
    for (int exponent = -65; exponent <= 65; exponent++) {
        snprintf(text, sizeof text, "9007199254740993e%d", exponent);
        check_double(text);
        snprintf(text, sizeof text, "9999999999999999999e%d", exponent);
        check_double(text);
        snprintf(text, sizeof text, "1e%d", exponent);
        check_double(text);
    }
    CHECK(1);
}

/* 17 digits of a double give it back. */
static void test_doubles_are_the_nearest_ones(void)
{
    struct kn_number number;
    char text[64];
    double value;
    for (int i = 0; i < 50000; i++) {
        uint64_t bits = check_random();
        double wanted;
        memcpy(&wanted, &bits, sizeof wanted);
        if (i & 1) wanted = (double)(int64_t)(bits >> 30) / 1000;
        if (!isfinite(wanted)) continue;
        snprintf(text, sizeof text, "%.17g", wanted);
        CHECK(!scan(text, &number));
        CHECK(!kn_number_to_double(&number, (const uint8_t *)text, &value));
        CHECK_MEM(&value, &wanted, sizeof value);
    }
    CHECK(!scan("-1e309", &number));
    CHECK(kn_number_to_double(&number, (const uint8_t *)"-1e309", &value));
}

static void test_decimals_have_all_their_digits(void)
{
    struct kn_number number;
    int64_t words[4];
    CHECK(!scan("-1.5", &number));
    CHECK(!kn_number_to_decimal(&number, 38, 2, (uint8_t *)words, 16));
    CHECK_EQ(words[0], -150);
    CHECK_EQ(words[1], -1);
    CHECK(!kn_number_to_decimal(&number, 76, 1, (uint8_t *)words, 32));
    CHECK_EQ(words[0], -15);
    CHECK_EQ(words[3], -1);
    CHECK(kn_number_to_decimal(&number, 38, 0, (uint8_t *)words, 16));
    CHECK(kn_number_to_decimal(&number, 2, 2, (uint8_t *)words, 16));
    CHECK(!scan("18446744073709551616", &number));
    CHECK(!kn_number_to_decimal(&number, 38, 0, (uint8_t *)words, 16));
    CHECK_EQ(words[0], 0);
    CHECK_EQ(words[1], 1);
}

static void test_dates_of_all_years_follow_each_other(void)
{
    static const int LENGTHS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    char text[48];
    int32_t days, wanted = -719528; /* 0000-01-01 */
    for (int year = 0; year < 10000; year++) {
        for (int month = 1; month <= 12; month++) {
            int leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            for (int day = 1; day <= LENGTHS[month - 1] + leap; day++, wanted++) {
                snprintf(text, sizeof text, "%04d-%02d-%02d", year, month, day);
                if (kn_text_date((const uint8_t *)text, 10, &days) || days != wanted)
                    CHECK_STR(text, "a date is wrong");
            }
            snprintf(text, sizeof text, "%04d-%02d-%02d", year, month,
                     LENGTHS[month - 1] + leap + 1);
            CHECK(kn_text_date((const uint8_t *)text, 10, &days));
        }
    }
    CHECK_EQ(wanted, 2932897); /* 10000-01-01 */
}

/* Each prefix of a timestamp is refused, or is a shorter timestamp; none reads behind its end. */
static void test_cut_timestamps(void)
{
    static const char whole[] = "2024-02-29T23:59:58.123456789+05:30";
    int64_t value;
    for (int64_t size = 0; size < (int64_t)sizeof whole - 1; size++) {
        uint8_t *copy = malloc((size_t)size + !size);
        memcpy(copy, whole, (size_t)size);
        bool is_good = size == 32; /* +05 */
        const char *problem = kn_text_timestamp(copy, size, 9, 1, &value);
        CHECK_EQ(!problem, is_good);
        is_good = size == 16 || size == 19 || (size >= 21 && size <= 29);
        CHECK_EQ(!kn_text_timestamp(copy, size, 9, 0, &value), is_good);
        free(copy);
    }
    CHECK(!kn_text_timestamp((const uint8_t *)whole, sizeof whole - 1, 9, 1, &value));
    CHECK_EQ(value, INT64_C(1709231398123456789));
}

static void test_base64_of_every_length(void)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t bytes[64], text[96], found[80];
    for (int64_t size = 0; size < 64; size++) {
        int64_t length = 0, found_bytes = -1;
        for (int64_t i = 0; i < size; i++) bytes[i] = (uint8_t)check_random();
        for (int64_t i = 0; i < size; i += 3) {
            uint32_t bits = 0;
            for (int64_t k = i; k < i + 3; k++) bits = bits << 8 | (k < size ? bytes[k] : 0u);
            for (int k = 0; k < 4; k++)
                text[length++] = i + k <= size ? (uint8_t)DIGITS[bits >> (18 - 6 * k) & 63] : '=';
        }
        CHECK(!kn_text_base64(text, length, found, &found_bytes));
        CHECK_EQ(found_bytes, size);
        CHECK_MEM(found, bytes, (size_t)size);
        while (length && text[length - 1] == '=') length--;
        CHECK(!kn_text_base64(text, length, found, &found_bytes));
        CHECK_EQ(found_bytes, size);
        text[length] = '*';
        CHECK(kn_text_base64(text, length + 1, found, &found_bytes));
    }
}

int main(void)
{
    RUN(test_numbers_keep_their_digits_between_zeros);
    RUN(test_integers_of_every_length_are_exact);
    RUN(test_doubles_of_every_length);
    RUN(test_doubles_are_the_nearest_ones);
    RUN(test_decimals_have_all_their_digits);
    RUN(test_dates_of_all_years_follow_each_other);
    RUN(test_cut_timestamps);
    RUN(test_base64_of_every_length);
    return check_done();
}
