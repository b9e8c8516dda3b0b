/* JSON programs and records: a program that is refused, or columns whose parts fit together.
 *
 * Input: the count of nodes; for each node its kind, width, children, flags, values, name, and its
 * rule's code, argument and scale, one byte each; then the record. It is decoded whole, then cut off.
 * A record that any program accepts must be JSON to the program that keeps any text. */
#include <string.h>

#include "fuzz.h"
#include "fuzz_columns.h"
#include "codecs/json_decode.h"

#define NODE_BYTES 9
#define NODES_MAX 64

static const char *const NAMES[] = {"a",
                                    "b",
                                    "c",
                                    "d",
                                    "e",
                                    "f",
                                    "",
                                    "id",
                                    "\"",
                                    "\\",
                                    "\xc3\xa9",
                                    "12345678",
                                    "123456789",
                                    "1234567890123456",
                                    "12345678901234567",
                                    "a name that is longer than all of them"};

#ifdef FUZZ_JSON_PLAIN /* simdjson without the processor's instructions */
int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    (void)count, (void)arguments;
    return setenv("SIMDJSON_FORCE_IMPLEMENTATION", "fallback", 1);
}
#endif

static struct kn_json_program *take_program(struct kn_span *span, int32_t count)
{
    static const int32_t offsets[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    struct kn_node nodes[NODES_MAX];
    struct kn_json_rule rules[NODES_MAX];
    struct kn_layout *layout;
    struct kn_json_program *program;
    int32_t bad;
    for (int32_t i = 0; i < count; i++) {
        const uint8_t *p = kn_span_take(span, NODE_BYTES);
        if (!p) return NULL;
        nodes[i] = (struct kn_node){.kind = (enum kn_node_kind)p[0],
                                    .width_bytes = p[1],
                                    .child_count = p[2],
                                    .format = "z",
                                    .name = NAMES[p[5] & 15],
                                    .flags = p[3],
                                    .value_count = p[4] & 7,
                                    .value_offsets = offsets,
                                    .value_bytes = (const uint8_t *)"abcdefgh"};
        rules[i] = (struct kn_json_rule){.code = p[6], .arg = p[7], .scale = (int8_t)p[8]};
    }
    if (kn_layout_new(nodes, count, &layout) != KN_OK) return NULL;
    int status = kn_json_program_new(layout, rules, &program, &bad);
    kn_layout_unref(layout);
    FUZZ_CHECK(status == KN_OK || status == KN_ERR_INVALID);
    FUZZ_CHECK((status == KN_OK) == (program != NULL) && bad >= 0 && bad < count);
    return program;
}

/* A program whose column keeps the text of any value. */
static struct kn_json_program *any_program(void)
{
    static const struct kn_node node = {.kind = KN_NODE_BYTES, .format = "u", .name = ""};
    static const struct kn_json_rule rule = {.code = KN_JSON_RAW};
    struct kn_layout *layout;
    struct kn_json_program *program;
    int32_t bad;
    FUZZ_CHECK(kn_layout_new(&node, 1, &layout) == KN_OK);
    FUZZ_CHECK(kn_json_program_new(layout, &rule, &program, &bad) == KN_OK);
    kn_layout_unref(layout);
    return program;
}

static void decode(const struct kn_json_program *program, const uint8_t *data, int64_t size)
{
    struct kn_json_program *any = any_program();
    struct kn_builder *builder = kn_builder_new(program->layout, NULL, FUZZ_CAP_BYTES);
    struct kn_builder *texts = kn_builder_new(any->layout, NULL, INT32_MAX);
    struct kn_decode_problem problem;
    int64_t rows = 0;
    FUZZ_CHECK(builder && texts);
    for (int64_t cut = 0; cut <= size && cut < 8; cut++) {
        int status = kn_json_decode(program, builder, data, size - cut, &problem);
        if (status == KN_OK) {
            rows++;
        } else {
            FUZZ_CHECK(problem.text && problem.position >= 0 && problem.position <= size - cut);
            FUZZ_CHECK(problem.instruction >= 0 &&
                       problem.instruction < program->layout->node_count);
        }
        fuzz_check_column(builder, 0, rows);
        int any_status = kn_json_decode(any, texts, data, size - cut, &problem);
        FUZZ_CHECK(status != KN_OK || any_status == KN_OK || any_status == KN_ERR_TOO_LARGE);
        fuzz_check_column(texts, 0, texts->columns[0].length);
    }
    if (kn_builder_reserve(builder, 0, 1) == KN_OK) {
        kn_builder_append_null(builder, 0);
        fuzz_check_column(builder, 0, ++rows);
    }
    struct ArrowArray array;
    FUZZ_CHECK(kn_builder_export(builder, &array) == KN_OK && array.length == rows);
    kn_arrow_release_array(&array);
    kn_builder_truncate(builder, rows / 2);
    fuzz_check_column(builder, 0, rows / 2);
    kn_builder_unref(builder);
    kn_builder_unref(texts);
    kn_json_program_free(any);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct kn_span span = kn_span_of(data, size_bytes);
    const uint8_t *count = kn_span_take(&span, 1);

    if (!count || *count > NODES_MAX || !kn_json_is_available()) return 0;
    struct kn_json_program *program = take_program(&span, *count);
    if (!program) return 0;
    decode(program, span.at, (int64_t)kn_span_left(&span));
    kn_json_program_free(program);
    FUZZ_CHECK(kn_builder_live() == 0 && kn_layout_live() == 0);
    return 0;
}
