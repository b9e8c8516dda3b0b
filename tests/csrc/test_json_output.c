/* Values as JSON text: each reads back equal, and text is JSON or is refused. */
#include "check.h"
#include "codecs/json_output.h"

#include <math.h>
#include "codecs/shortest_number.h"
#include "codecs/text_values.h"

static uint8_t output[4096];

static const char *ended(uint8_t *end)
{
    if (!end) return "(refused)";
    *end = 0;
    return (const char *)output;
}

static const char *integer(int64_t value) { return ended(kn_json_int_put(output, value)); }

static void test_integers_of_every_length(void)
{
    char wanted[32];
    CHECK_STR(integer(0), "0");
    CHECK_STR(integer(INT64_MIN), "-9223372036854775808");
    CHECK_STR(ended(kn_json_uint_put(output, UINT64_MAX)), "18446744073709551615");
    uint64_t power = 1;
    for (int i = 0; i < 20; i++, power *= 10) {
        for (int step = -1; step <= 1; step++) {
            snprintf(wanted, sizeof wanted, "%llu", (unsigned long long)(power + (uint64_t)step));
            CHECK_STR(ended(kn_json_uint_put(output, power + (uint64_t)step)), wanted);
        }
    }
    for (int i = 0; i < 20000; i++) {
        int64_t value = (int64_t)(check_random() >> (check_random() % 64));
        if (i & 1) value = -value;
        snprintf(wanted, sizeof wanted, "%lld", (long long)value);
        CHECK_STR(integer(value), wanted);
    }
}

static const char *real(double value) { return ended(kn_json_double_put(output, value)); }

static const char *single(float value) { return ended(kn_json_float_put(output, value)); }

static void test_numbers_read_back_equal_and_have_a_point(void)
{
    if (!KN_SHORTEST_IS_AVAILABLE) { /* a build without C++ has no JSON columns */
        CHECK(!kn_shortest_double_put(output, 1));
        return;
    }
    CHECK_STR(real(0), "0.0");
    CHECK_STR(real(-0.0), "-0.0");
    CHECK_STR(real(5), "5.0");
    CHECK_STR(real(0.1), "0.1");
    CHECK_STR(real(-2.5e-7), "-2.5e-07");
    CHECK_STR(real(1e15), "1e+15");
    CHECK_STR(real(123456789012345680.0), "123456789012345680.0");
    CHECK_STR(real(1.7976931348623157e308), "1.7976931348623157e+308");
    CHECK_STR(real(5e-324), "5e-324");
    CHECK_STR(real(-2.2250738585072014e-308), "-2.2250738585072014e-308");
    CHECK_STR(single(0.1f), "0.1");
    CHECK_STR(single(-0.0f), "-0.0");
    CHECK_STR(single(16777216), "16777216.0");
    CHECK(!kn_json_double_put(output, NAN) && !kn_json_double_put(output, INFINITY));
    CHECK(!kn_json_float_put(output, -INFINITY) && !kn_json_float_put(output, NAN));
    for (int i = 0; i < 50000; i++) {
        uint64_t bits = check_random();
        double value;
        memcpy(&value, &bits, sizeof value);
        if (i % 4 == 0) value = (double)(bits % 100000) / 100;
        if (!isfinite(value)) continue;
        double found = strtod(real(value), NULL);
        CHECK(!memcmp(&found, &value, sizeof value));
        CHECK(strlen((char *)output) <= KN_JSON_SHORT_MAX_BYTES);
    }
}

static void test_floats_survive_a_reader_of_doubles(void)
{
    if (!KN_SHORTEST_IS_AVAILABLE) {
        CHECK(!kn_shortest_float_put(output, 1));
        return;
    }
    for (uint32_t i = 0; i < 50000; i++) {
        uint32_t bits = i ? (uint32_t)check_random() : UINT32_C(0x15ae43fd); /* 7.038531e-26 */
        float value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        float found = (float)strtod(single(value), NULL);
        CHECK(!memcmp(&found, &value, sizeof value));
    }
}

static const char *decimal(uint64_t high, uint64_t low, bool is_negative, int32_t scale)
{
    uint32_t size[KN_LIMBS] = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high,
                               (uint32_t)(high >> 32)};
    return ended(kn_json_decimal_put(output, size, is_negative, scale));
}

static void test_decimals_have_their_scale(void)
{
    CHECK_STR(decimal(0, 0, 0, 0), "0");
    CHECK_STR(decimal(0, 0, 1, 2), "0.00");
    CHECK_STR(decimal(0, 0, 1, -2), "0");
    CHECK_STR(decimal(0, 1234, 1, 2), "-12.34");
    CHECK_STR(decimal(0, 1234, 0, 4), "0.1234");
    CHECK_STR(decimal(0, 5, 1, 3), "-0.005");
    CHECK_STR(decimal(0, 12, 0, -3), "12000");
    CHECK_STR(decimal(1, 0, 0, 0), "18446744073709551616");
    CHECK_STR(decimal(1, 0, 0, 20), "0.18446744073709551616");
    CHECK_STR(decimal(UINT64_MAX, UINT64_MAX, 1, 10), "-34028236692093846346337460743.1768211455");
    CHECK_STR(decimal(UINT64_C(1000000000), 0, 0, 0), "18446744073709551616000000000");
    uint32_t all[KN_LIMBS];
    memset(all, 0xff, sizeof all);
    CHECK_STR(ended(kn_json_decimal_put(output, all, 1, 0)),
              "-1157920892373161954235709850086879078532699846656405640394575840079131296399"
              "35");
    memset(all, 0xff, sizeof all);
    uint8_t *end = kn_json_decimal_put(output, all, 1, -KN_JSON_DECIMAL_SCALE_MAX);
    CHECK(end - output <= KN_JSON_DECIMAL_MAX_BYTES);
}

static const char *date(int64_t days) { return ended(kn_json_date_put(output, days)); }

static void test_every_day_of_ten_thousand_years(void)
{
    CHECK_STR(date(0), "\"1970-01-01\"");
    CHECK_STR(date(-719528), "\"0000-01-01\"");
    CHECK_STR(date(2932896), "\"9999-12-31\"");
    CHECK(!kn_json_date_put(output, -719529) && !kn_json_date_put(output, 2932897));
    CHECK(!kn_json_date_put(output, INT64_MIN) && !kn_json_date_put(output, INT64_MAX));
    int32_t same = 0, found = 0;
    for (int32_t days = -719528; days <= 2932896; days++) {
        kn_json_date_put(output, days);
        same += !kn_text_date(output + 1, 10, &found) && found == days;
    }
    CHECK_EQ(same, 719528 + 2932896 + 1);
}

static const char *clock_of(int64_t value, int32_t unit, bool is_utc)
{
    return ended(kn_json_time_put(output, value, unit, is_utc));
}

static const char *timestamp(int64_t value, int32_t unit, bool is_utc)
{
    return ended(kn_json_timestamp_put(output, value, unit, is_utc));
}

static void test_times_have_the_digits_that_they_need(void)
{
    CHECK_STR(clock_of(0, 0, 0), "\"00:00:00\"");
    CHECK_STR(clock_of(86399, 0, 1), "\"23:59:59Z\"");
    CHECK_STR(clock_of(3723004, 3, 0), "\"01:02:03.004\"");
    CHECK_STR(clock_of(INT64_C(3723004000), 6, 0), "\"01:02:03.004\"");
    CHECK_STR(clock_of(INT64_C(3723004005), 6, 0), "\"01:02:03.004005\"");
    CHECK_STR(clock_of(INT64_C(3723000000006), 9, 1), "\"01:02:03.000000006Z\"");
    CHECK_STR(clock_of(INT64_C(3723000006000), 9, 0), "\"01:02:03.000006\"");
    CHECK(!kn_json_time_put(output, -1, 3, 0) && !kn_json_time_put(output, 86400, 0, 0));
    CHECK_STR(timestamp(0, 0, 0), "\"1970-01-01T00:00:00\"");
    CHECK_STR(timestamp(-1, 9, 1), "\"1969-12-31T23:59:59.999999999Z\"");
    CHECK_STR(timestamp(INT64_MIN, 9, 1), "\"1677-09-21T00:12:43.145224192Z\"");
    CHECK_STR(timestamp(-1, 3, 0), "\"1969-12-31T23:59:59.999\"");
    CHECK(!kn_json_timestamp_put(output, INT64_MAX, 6, 1));
    CHECK(!kn_json_timestamp_put(output, INT64_MIN, 0, 0));
    for (int i = 0; i < 20000; i++) {
        int32_t unit = (int32_t)(check_random() % 4) * 3;
        int64_t value = (int64_t)check_random() >> (check_random() % 64), found = 0;
        uint8_t *end = kn_json_timestamp_put(output, value, unit, i & 1);
        if (!end) continue;
        CHECK(!kn_text_timestamp(output + 1, end - output - 2, unit, i & 1, &found));
        CHECK_EQ(found, value);
    }
}

static void test_bytes_as_strings(void)
{
    uint8_t bytes[300], found[302];
    int64_t size;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)check_random();
    for (int64_t count = 0; count <= 300; count++) {
        uint8_t *end = kn_json_base64_put(output, bytes, count);
        CHECK_EQ(end - output, kn_json_base64_bytes(count));
        CHECK(!kn_text_base64(output + 1, end - output - 2, found, &size));
        CHECK(size == count && !memcmp(found, bytes, (size_t)count));
    }
    CHECK_STR(ended(kn_json_base64_put(output, (const uint8_t *)"\xff\xfe", 2)), "\"//4=\"");
    uint8_t *end = kn_json_uuid_put(output, bytes);
    CHECK_EQ(end - output, KN_JSON_UUID_BYTES);
    CHECK(!kn_text_uuid(output + 1, 36, found) && !memcmp(found, bytes, 16));
}

/* Writes a string as the encoder does. */
static const char *string(const char *text, size_t size, int64_t *plain, bool *is_ascii)
{
    const uint8_t *from = (const uint8_t *)text;
    *plain = kn_json_plain_put(output, from, (int64_t)size, is_ascii);
    return ended(kn_json_escaped_put(output + *plain, from + *plain, (int64_t)size - *plain));
}

static void test_escapes_at_every_place(void)
{
    static const char *const ESCAPED[] = {"\\\"", "\\\\", "\\n", "\\t", "\\u0001", "\\u001f"};
    static const char SPECIAL[] = "\"\\\n\t\x01\x1f";
    char text[41], wanted[64];
    int64_t plain;
    bool is_ascii;
    for (size_t size = 0; size <= 40; size++) {
        for (size_t at = 0; at <= size; at++) {
            size_t which = (size + at) % 6;
            memset(text, at % 2 ? ' ' : '~', size);
            if (at < size) text[at] = SPECIAL[which];
            snprintf(wanted, sizeof wanted, "%.*s%s%.*s", (int)at, text,
                     at < size ? ESCAPED[which] : "", at < size ? (int)(size - at - 1) : 0,
                     text + at + (at < size));
            CHECK_STR(string(text, size, &plain, &is_ascii), wanted);
            CHECK_EQ(plain, (int64_t)at);
            CHECK(is_ascii);
            if (at == size) continue;
            text[at] = (char)0xc3; /* no escape, and not ASCII */
            string(text, size, &plain, &is_ascii);
            CHECK(plain == (int64_t)size && !is_ascii && !memcmp(output, text, size));
        }
    }
    CHECK_STR(string("\b\f\r\x7f/", 5, &plain, &is_ascii), "\\b\\f\\r\x7f/");
}

int main(void)
{
    RUN(test_integers_of_every_length);
    RUN(test_numbers_read_back_equal_and_have_a_point);
    RUN(test_floats_survive_a_reader_of_doubles);
    RUN(test_decimals_have_their_scale);
    RUN(test_every_day_of_ten_thousand_years);
    RUN(test_times_have_the_digits_that_they_need);
    RUN(test_bytes_as_strings);
    RUN(test_escapes_at_every_place);
    return check_done();
}
