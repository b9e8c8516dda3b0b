/* Foreign Arrow arrays: errors that can be known are found before a value is read, and values are
 * read from every layout. */
#include "check.h"
#include "codecs/import.h"

static void release_schema(struct ArrowSchema *schema) { schema->release = NULL; }
static void release_array(struct ArrowArray *array) { array->release = NULL; }

static struct ArrowSchema schema_of(const char *format)
{
    return (struct ArrowSchema){.format = format, .name = "x", .release = release_schema};
}

static struct ArrowArray array_of(int64_t length, int64_t buffer_count, const void **buffers)
{
    return (struct ArrowArray){
        .length = length, .n_buffers = buffer_count, .buffers = buffers, .release = release_array};
}

static void check_value(const struct kn_arrow_bytes *bytes, int64_t row, const char *expected)
{
    const uint8_t *data;
    int64_t size;
    CHECK_EQ(kn_arrow_value(bytes, row, &data, &size), KN_OK);
    CHECK_EQ(data == NULL, expected == NULL);
    if (!expected) return;
    CHECK_EQ(size, strlen(expected));
    CHECK_MEM(data, expected, strlen(expected));
}

static void test_formats(void)
{
    static const struct {
        const char *format;
        int layout, width;
    } KNOWN[] = {
        {"n", KN_ARROW_NULL, 0},       {"z", KN_ARROW_BYTES32, 0},   {"U", KN_ARROW_BYTES64, 0},
        {"vz", KN_ARROW_VIEWS, 0},     {"w:16", KN_ARROW_FIXED, 16}, {"c", KN_ARROW_INT, 1},
        {"S", KN_ARROW_INT, 2},        {"i", KN_ARROW_INT, 4},       {"L", KN_ARROW_INT, 8},
        {"tsn:UTC", KN_ARROW_TIME, 8}, {"+m", KN_ARROW_LIST32, 0},   {"+L", KN_ARROW_LIST64, 0},
        {"+s", KN_ARROW_STRUCT, 0},
    };
    static const char *const OTHERS[] = {"",
                                         "b",
                                         "f",
                                         "g",
                                         "w:",
                                         "w:-1",
                                         "w:99999999999999999999",
                                         "w:2147483648",
                                         "w:1x",
                                         "ts",
                                         "tsx:",
                                         "tsm",
                                         "tdm",
                                         "+",
                                         "+r",
                                         "+vl",
                                         "+ud:0",
                                         "zz"};
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        struct kn_arrow_type type = kn_arrow_type_of(KNOWN[i].format);
        CHECK_EQ(type.layout, KNOWN[i].layout);
        CHECK_EQ(type.width, KNOWN[i].width);
    }
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        CHECK_EQ(kn_arrow_type_of(OTHERS[i]).layout, KN_ARROW_OTHER);
    CHECK_EQ(kn_arrow_type_of("tss:").per_ms, 0);
    CHECK_EQ(kn_arrow_type_of("tsu:").per_ms, 1000);
}

static void test_strings_with_offsets_in_array_and_parent(void)
{
    int32_t offsets[] = {0, 1, 1, 3, 6, 10};
    uint8_t valid[] = {0xf7}; /* item 3 is null */
    const void *buffers[] = {valid, offsets, "abbcccdddd"};
    struct ArrowSchema schema = schema_of("z");
    struct ArrowArray array = array_of(4, 3, buffers);
    struct kn_arrow_bytes bytes;
    struct kn_arrow_problem problem;
    array.offset = 1;
    array.null_count = -1;
    CHECK_EQ(kn_arrow_bind_bytes(&schema, &array, 1, 3, &bytes, &problem), KN_OK);
    check_value(&bytes, 0, "bb");
    check_value(&bytes, 1, NULL);
    check_value(&bytes, 2, "dddd");
    /* one more than the array has */
    CHECK_EQ(kn_arrow_bind_bytes(&schema, &array, 2, 3, &bytes, &problem), KN_ERR_INVALID);
    /* A value that became wrong after the binding is found, too. */
    CHECK_EQ(kn_arrow_bind_bytes(&schema, &array, 0, 4, &bytes, &problem), KN_OK);
    offsets[2] = 11;
    const uint8_t *data;
    int64_t size;
    CHECK_EQ(kn_arrow_value(&bytes, 0, &data, &size), KN_ERR_INVALID);
    CHECK_EQ(kn_arrow_value(&bytes, 1, &data, &size), KN_ERR_INVALID);
}

static void bind_fails(const char *format, int64_t length, int64_t buffer_count,
                       const void **buffers, int64_t row)
{
    struct ArrowSchema schema = schema_of(format);
    struct ArrowArray array = array_of(length, buffer_count, buffers);
    struct kn_arrow_bytes bytes;
    struct kn_arrow_problem problem = {-2, NULL};
    int status = kn_arrow_bind_bytes(&schema, &array, 0, length, &bytes, &problem);
    if (status == KN_OK) status = kn_arrow_check_bytes(&bytes, length, &problem);
    CHECK_EQ(status, KN_ERR_INVALID);
    CHECK_EQ(problem.row, row);
    CHECK(problem.text != NULL);
}

static void test_impossible_buffers(void)
{
    int32_t falls[] = {0, 5, 4}, negative[] = {-4, 0, 2}, fine[] = {0, 1, 2};
    int64_t wide_falls[] = {0, INT64_MAX, 4};
    bind_fails("z", 2, 3, (const void *[]){NULL, falls, "hello"}, 1);
    bind_fails("u", 2, 3, (const void *[]){NULL, negative, "hello"}, 0);
    bind_fails("Z", 2, 3, (const void *[]){NULL, wide_falls, "hello"}, 1);
    bind_fails("z", 2, 3, (const void *[]){NULL, NULL, "hello"}, -1);
    bind_fails("z", 2, 3, (const void *[]){NULL, fine, NULL}, -1);
    bind_fails("z", 2, 2, (const void *[]){NULL, fine}, -1);
    bind_fails("z", 2, 3, NULL, -1);
    bind_fails("z", -1, 3, (const void *[]){NULL, fine, "ab"}, -1);
    bind_fails("z", INT64_MAX, 3, (const void *[]){NULL, fine, "ab"}, -1);
    /* more bytes than an int64 can count */
    bind_fails("w:2147483647", (int64_t)1 << 40, 2, (const void *[]){NULL, fine}, -1);
    bind_fails("w:4", 1, 2, (const void *[]){NULL, NULL}, -1);
}

static void test_views(void)
{
    int64_t sizes[] = {40};
    struct {
        int32_t length, prefix, buffer, start;
    } views[] = {{3, 0, 0, 0}, {20, 0, 0, 20}};
    memcpy(&views[0].prefix, "abc", 3);
    const char *text = "....................abcdefghijklmnopqrst";
    const void *buffers[] = {NULL, views, text, sizes};
    struct ArrowSchema schema = schema_of("vz");
    struct ArrowArray array = array_of(2, 4, buffers);
    struct kn_arrow_bytes bytes;
    struct kn_arrow_problem problem;
    CHECK_EQ(kn_arrow_bind_bytes(&schema, &array, 0, 2, &bytes, &problem), KN_OK);
    CHECK_EQ(kn_arrow_check_bytes(&bytes, 2, &problem), KN_OK);
    check_value(&bytes, 0, "abc");
    check_value(&bytes, 1, "abcdefghijklmnopqrst");
    views[1].start = 21;
    bind_fails("vz", 2, 4, buffers, 1);
    views[1].start = INT32_MAX;
    bind_fails("vz", 2, 4, buffers, 1);
    views[1].start = 0;
    views[1].buffer = 1;
    bind_fails("vz", 2, 4, buffers, 1);
    views[1].buffer = -1;
    bind_fails("vz", 2, 4, buffers, 1);
    views[0].length = -1;
    bind_fails("vz", 2, 4, buffers, 0);
    buffers[3] = NULL;
    bind_fails("vz", 2, 4, buffers, -1);
    bind_fails("vz", 2, 2, buffers, -1);
}

static void test_dictionaries(void)
{
    int32_t offsets[] = {0, 1, 3};
    uint8_t words_valid[] = {1};
    const void *words[] = {words_valid, offsets, "abb"};
    int8_t indices[] = {1, 0, 2, -1};
    const void *buffers[] = {NULL, indices};
    struct ArrowSchema schema = schema_of("c"), word = schema_of("u");
    struct ArrowArray array = array_of(4, 2, buffers), dictionary = array_of(2, 3, words);
    struct kn_arrow_bytes bytes;
    struct kn_arrow_problem problem;
    dictionary.null_count = 1;
    schema.dictionary = &word;
    /* the array has no dictionary */
    CHECK_EQ(kn_arrow_bind_bytes(&schema, &array, 0, 4, &bytes, &problem), KN_ERR_INVALID);
    array.dictionary = &dictionary;
    CHECK_EQ(kn_arrow_bind_bytes(&schema, &array, 0, 4, &bytes, &problem), KN_OK);
    check_value(&bytes, 0, NULL); /* a null in the dictionary */
    check_value(&bytes, 1, "a");
    CHECK_EQ(kn_arrow_check_bytes(&bytes, 4, &problem), KN_ERR_INVALID);
    CHECK_EQ(problem.row, 2);
    indices[2] = 0;
    CHECK_EQ(kn_arrow_check_bytes(&bytes, 4, &problem), KN_ERR_INVALID);
    CHECK_EQ(problem.row, 3);
    CHECK(kn_arrow_can_be_bytes(&schema));
    word.dictionary = &word; /* a dictionary whose dictionary is itself */
    CHECK(!kn_arrow_can_be_bytes(&schema));
}

static void test_impossible_schemas(void)
{
    struct ArrowSchema child = schema_of("z"), table = schema_of("+s"),
                       *children[] = {&child, NULL};
    CHECK(kn_arrow_check_schema(&table) == NULL);
    table.n_children = 1;
    CHECK(kn_arrow_check_schema(&table) != NULL); /* no pointers */
    table.children = children;
    CHECK(kn_arrow_check_schema(&table) == NULL);
    table.n_children = 2;
    CHECK(kn_arrow_check_schema(&table) != NULL);
    table.n_children = -1;
    CHECK(kn_arrow_check_schema(&table) != NULL);
    table.n_children = 1;
    child.release = NULL;
    CHECK(kn_arrow_check_schema(&table) != NULL);
    child = schema_of("+l");
    CHECK(!kn_arrow_can_be_pairs(&child)); /* a list without an item type */
    table.release = NULL;
    CHECK(kn_arrow_check_schema(&table) != NULL);
}

static void test_numbers(void)
{
    uint64_t values[] = {1, UINT64_MAX};
    const void *buffers[] = {NULL, values};
    struct ArrowSchema schema = schema_of("L");
    struct ArrowArray array = array_of(2, 2, buffers);
    struct kn_arrow_numbers numbers;
    struct kn_arrow_problem problem;
    int64_t value;
    CHECK_EQ(kn_arrow_bind_numbers(&schema, &array, 0, 2, &numbers, &problem), KN_OK);
    CHECK_EQ(kn_arrow_number(&numbers, 0, &value), KN_OK);
    CHECK_EQ(value, 1);
    CHECK_EQ(kn_arrow_number(&numbers, 1, &value), KN_ERR_INVALID);
    schema.format = "C";
    CHECK_EQ(kn_arrow_bind_numbers(&schema, &array, 0, 2, &numbers, &problem), KN_OK);
    numbers.data = (const uint8_t *)"\xff";
    CHECK_EQ(kn_arrow_number(&numbers, 0, &value), KN_OK);
    CHECK_EQ(value, 255);
}

int main(void)
{
    RUN(test_formats);
    RUN(test_strings_with_offsets_in_array_and_parent);
    RUN(test_impossible_buffers);
    RUN(test_views);
    RUN(test_dictionaries);
    RUN(test_impossible_schemas);
    RUN(test_numbers);
    return check_done();
}
