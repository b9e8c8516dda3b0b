/* JSON text: what is one value, the events, and the problems of each cut. */
#include "check.h"

#include <stdlib.h>

#include "codecs/json_reader.h"

/* Checks a copy of the text that has exactly its size, so that ASan sees any access behind it. */
static const char *problem_of(const char *text, size_t size, int32_t depth_max)
{
    uint8_t *copy = malloc(size ? size : 1);
    CHECK(copy != NULL);
    memcpy(copy, text, size);
    const char *problem = kn_json_text_check(copy, (int64_t)size, depth_max);
    free(copy);
    return problem;
}

static bool is_json(const char *text) { return !problem_of(text, strlen(text), 3); }

static void test_text_is_one_json_value(void)
{
    static const char *const GOOD[] = {"0",
                                       "-0.5e+3",
                                       "\"\"",
                                       "true",
                                       " null\r\n\t",
                                       "[]",
                                       "{}",
                                       "[1,2]",
                                       "{\"a\":1,\"b\":[{}]}",
                                       "[ [ ] , { \"x\" : false } ]",
                                       "\"\\ud83d\\ude00\\n\\/\"",
                                       "[[[]]]"};
    static const char *const BAD[] = {"",
                                      " ",
                                      "01",
                                      "-",
                                      "1.",
                                      ".5",
                                      "1e",
                                      "+1",
                                      "tru",
                                      "truex",
                                      "nul",
                                      "\"",
                                      "\"\\\"",
                                      "\"\n\"",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\ud800\"",
                                      "\"\\ud800\\u0041\"",
                                      "\"\\udc00\"",
                                      "[",
                                      "[1",
                                      "[1,",
                                      "[1,]",
                                      "]",
                                      "[1 2]",
                                      "{",
                                      "{\"a\"",
                                      "{\"a\":",
                                      "{\"a\":1",
                                      "{\"a\":1,}",
                                      "{1:2}",
                                      "{\"a\" 1}",
                                      "[1}",
                                      "{\"a\":1]",
                                      "1 2",
                                      "[]]",
                                      "NaN",
                                      "\"\\",
                                      "'a'"};
    for (size_t i = 0; i < sizeof GOOD / sizeof GOOD[0]; i++) CHECK(is_json(GOOD[i]));
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) CHECK(!is_json(BAD[i]));
    CHECK(problem_of("0\0", 2, 3) != NULL); /* a NUL isn't the end */
    CHECK(problem_of("\"\\\0\"", 4, 3) != NULL);
}

static void test_problems(void)
{
    static const struct {
        const char *text, *problem;
    } CASES[] = {
        {"", "the JSON text ends within a value"},
        {"[1,", "the JSON text ends within a value"},
        {"[1,]", "the JSON text lacks a value"},
        {"{\"a\":}", "the JSON text lacks a value"},
        {"nul", "the JSON text has an unknown word"},
        {"NaN", "the JSON text has an unknown word"},
        {"-", "a number of the JSON text is malformed"},
        {"1.e", "a number of the JSON text is malformed"},
        {"-01", "a number of the JSON text begins with a zero"},
        {"1 2", "more text follows the JSON value"},
        {"[1", "an object or list of the JSON text doesn't end"},
        {"[}", "the JSON text lacks a value"},
        {"[1}", "an object or list of the JSON text doesn't end"},
        {"{1", "an object of the JSON text lacks a key"},
        {"{\"a\" 1", "an object of the JSON text lacks a colon"},
        {"\"", "a string of the JSON text doesn't end"},
        {"\"\t\"", "a string of the JSON text has a control character"},
        {"\"\\", "a string ends within an escape"},
        {"\"\\q\"", "a string has an unknown escape"},
        {"\"\\ud83d\"", "an escape is malformed, or half of a surrogate pair"},
        {"[[[[", "values of the JSON text are nested too deeply"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        CHECK_STR(problem_of(CASES[i].text, strlen(CASES[i].text), 3), CASES[i].problem);
}

static void test_each_event(void)
{
    static const char TEXT[] = " {\"a\\n\": [true ,false,null, -1.5e3],\"\":{} , \"b\":\"x\"} ";
    static const struct {
        enum kn_json_event event;
        const char *text;
        bool has_escapes;
    } EVENTS[] = {
        {KN_JSON_OBJECT, NULL, 0},     {KN_JSON_KEY, "a\\n", 1},  {KN_JSON_LIST, NULL, 0},
        {KN_JSON_TRUE, NULL, 0},       {KN_JSON_FALSE, NULL, 0},  {KN_JSON_NULL, NULL, 0},
        {KN_JSON_NUMBER, "-1.5e3", 0}, {KN_JSON_CLOSED, NULL, 0}, {KN_JSON_KEY, "", 0},
        {KN_JSON_OBJECT, NULL, 0},     {KN_JSON_CLOSED, NULL, 0}, {KN_JSON_KEY, "b", 0},
        {KN_JSON_STRING, "x", 0},      {KN_JSON_CLOSED, NULL, 0}, {KN_JSON_END, NULL, 0},
    };
    struct kn_json_reader reader;
    kn_json_reader_init(&reader, (const uint8_t *)TEXT, sizeof TEXT - 1, 2);
    for (size_t i = 0; i < sizeof EVENTS / sizeof *EVENTS; i++) {
        CHECK_EQ(kn_json_reader_next(&reader), EVENTS[i].event);
        if (!EVENTS[i].text) continue;
        CHECK_EQ(reader.text_bytes, strlen(EVENTS[i].text));
        CHECK_MEM(reader.text, EVENTS[i].text, strlen(EVENTS[i].text));
        if (EVENTS[i].event != KN_JSON_NUMBER) CHECK_EQ(reader.has_escapes, EVENTS[i].has_escapes);
    }
    for (size_t size = 0; size + 2 < sizeof TEXT; size++) /* the last space may be missing */
        CHECK(problem_of(TEXT, size, 2) != NULL);
    CHECK_EQ(problem_of(TEXT, sizeof TEXT - 2, 2), NULL);
}

static void test_the_deepest_text(void)
{
    char text[2 * KN_JSON_READER_DEPTH_MAX + 2];
    size_t half = sizeof text / 2;
    memset(text, '[', half);
    memset(text + half, ']', half);
    CHECK_EQ(problem_of(text + 1, sizeof text - 2, KN_JSON_READER_DEPTH_MAX), NULL);
    CHECK_STR(problem_of(text, sizeof text, INT32_MAX), KN_JSON_TOO_DEEP);
}

int main(void)
{
    RUN(test_text_is_one_json_value);
    RUN(test_problems);
    RUN(test_each_event);
    RUN(test_the_deepest_text);
    return check_done();
}
