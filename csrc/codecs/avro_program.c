/* Checks Avro programs: see avro_program.h. */
#include "codecs/avro_program.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define KN_AVRO_OP_RULE(name, kind, width) {#name, kind, width},
static const struct {
    const char *name;
    enum kn_node_kind kind;
    int32_t width_bytes; /* -1: any */
} RULES[KN_AVRO_CODE_COUNT] = {KN_AVRO_OPS(KN_AVRO_OP_RULE)};

const char *kn_avro_op_name(int code)
{
    return code >= 0 && code < KN_AVRO_CODE_COUNT ? RULES[code].name : NULL;
}

/* --- the check ---
 *
 * It walks every path once. An instruction marks the nodes that it appends to. At the end of a body
 * exactly the nodes of the expected group must be marked; then their marks are removed. A mark is the
 * number of bodies around it, so that a body can't use the marks from outside. */

#define CHECK_DEPTH_MAX 128

struct check {
    const struct kn_avro_program *program;
    const struct kn_node *nodes;
    uint8_t *marks;
    int32_t marked; /* how many nodes are marked */
    uint8_t scope;  /* the mark: how many filling bodies are open */
    int32_t depth;  /* of bodies */
    int32_t frames; /* of arrays and defaults */
    int32_t at;     /* the instruction being checked, for the error */
};

struct sizes {
    int64_t min_bytes; /* on the wire */
    int64_t output_bytes;
};

static int32_t after_in_group(const struct kn_node *nodes, int32_t i)
{
    bool is_end = nodes[i].kind == KN_NODE_LIST || nodes[i].kind == KN_NODE_UNION;
    return is_end ? nodes[i].end : i + 1;
}

static int64_t width_of(const struct kn_node *node)
{
    return node->kind == KN_NODE_FIXED ? node->width_bytes + 1 : node->kind == KN_NODE_NONE ? 0 : 5;
}

static bool mark(struct check *check, int32_t node, struct sizes *sizes)
{
    if (check->marks[node]) return 0;
    check->marks[node] = check->scope;
    check->marked++;
    sizes->output_bytes += width_of(&check->nodes[node]);
    return 1;
}

static bool mark_group(struct check *check, int32_t node, struct sizes *sizes)
{
    for (int32_t i = node; i < check->nodes[node].end; i = after_in_group(check->nodes, i)) {
        if (!mark(check, i, sizes)) return 0;
        /* a null of a union is one of its first child */
        struct sizes child = {0};
        if (check->nodes[i].kind == KN_NODE_UNION) {
            for (int32_t k = i + 1; k < check->nodes[i].end; k++)
                child.output_bytes += width_of(&check->nodes[k]);
        }
        sizes->output_bytes += child.output_bytes;
    }
    return 1;
}

/* Returns whether a body that began with `before` marks has filled the group of a node (-1: has
 * marked nothing). Removes the marks. */
static bool unmark_group(struct check *check, int32_t node, int32_t before)
{
    if (node >= 0) {
        for (int32_t i = node; i < check->nodes[node].end; i = after_in_group(check->nodes, i)) {
            if (check->marks[i] != check->scope) return 0;
            check->marks[i] = 0;
            check->marked--;
        }
    }
    return check->marked == before;
}

static bool check_body(struct check *check, int32_t first, int32_t limit, struct sizes *sizes,
                       int32_t *jump);

/* The body [first, limit) must fill the group of `node`. */
static bool check_filling(struct check *check, int32_t first, int32_t limit, int32_t node,
                          struct sizes *sizes)
{
    int32_t before = check->marked;
    check->scope++;
    if (!check_body(check, first, limit, sizes, NULL) || !unmark_group(check, node, before))
        return 0;
    check->scope--;
    return 1;
}

static bool check_array(struct check *check, int32_t at, struct sizes *sizes)
{
    struct kn_avro_op *op = &check->program->ops[at];
    const struct kn_avro_op *last = &check->program->ops[op->end - 1];
    struct sizes item = {0};

    if (op->node >= 0 && check->nodes[op->node].kind != KN_NODE_LIST) return 0;
    if (op->end - 1 == at || last->code != KN_AVRO_NEXT || last->arg != at) return 0;
    if (++check->frames > KN_AVRO_FRAMES_MAX) return 0;
    int32_t child = op->node >= 0 ? op->node + 1 : -1;
    if (!check_filling(check, at + 1, op->end - 1, child, &item)) return 0;
    check->frames--;
    op->item_min_bytes = item.min_bytes < INT32_MAX ? (int32_t)item.min_bytes : INT32_MAX;
    op->item_output_bytes = item.output_bytes < INT32_MAX ? item.output_bytes : INT32_MAX;
    sizes->min_bytes += 1;
    return op->node < 0 || mark(check, op->node, sizes);
}

static bool check_nullable(struct check *check, int32_t at, struct sizes *sizes)
{
    const struct kn_avro_op *op = &check->program->ops[at];
    struct sizes body = {0};
    if (op->node < 0 || op->arg < 0 || op->arg > 1) return 0;
    if (!check_filling(check, at + 1, op->end, op->node, &body)) return 0;
    sizes->min_bytes += 1;
    return mark_group(check, op->node, sizes);
}

static bool check_union(struct check *check, int32_t at, struct sizes *sizes)
{
    const struct kn_avro_program *program = check->program;
    const struct kn_avro_op *op = &program->ops[at];
    int32_t from = at + 1, jump;
    int64_t min_bytes = INT64_MAX, output_bytes = 0;

    if (op->count < 1 || !kn_program_has_entries(&program->data, op->arg, op->count, 1)) return 0;
    for (int32_t i = 0; i < op->count; i++) {
        int32_t first = program->data.table[op->arg + i], before = check->marked;
        struct sizes branch = {0};
        if (first == -1) continue;
        if (first < from || first >= op->end) return 0;
        check->scope++;
        if (!check_body(check, first, op->end, &branch, &jump)) return 0;
        if (program->ops[jump].end != op->end || !unmark_group(check, op->node, before)) return 0;
        check->scope--;
        from = jump + 1;
        if (branch.min_bytes < min_bytes) min_bytes = branch.min_bytes;
        if (branch.output_bytes > output_bytes) output_bytes = branch.output_bytes;
    }
    sizes->min_bytes += 1 + (min_bytes == INT64_MAX ? 0 : min_bytes);
    sizes->output_bytes += output_bytes;
    return op->node < 0 || mark_group(check, op->node, sizes);
}

static bool check_type(struct check *check, int32_t at, struct sizes *sizes)
{
    const struct kn_avro_op *op = &check->program->ops[at];
    const struct kn_node *node = &check->nodes[op->node];
    int32_t child = op->node + 1;
    if (op->arg < 0 || op->arg >= node->child_count) return 0;
    for (int32_t i = 0; i < op->arg; i++) child = check->nodes[child].end;
    if (op->count != child) return 0;
    return check_filling(check, at + 1, op->end, child, sizes) && mark(check, op->node, sizes);
}

static bool check_default(struct check *check, int32_t at, struct sizes *sizes)
{
    const struct kn_avro_program *program = check->program;
    const struct kn_avro_op *op = &program->ops[at];
    struct sizes body = {0};
    if (!kn_program_has_constant(&program->data, op->arg, op->count)) return 0;
    if (op->end - 1 == at || program->ops[op->end - 1].code != KN_AVRO_RESTORE) return 0;
    if (++check->frames > KN_AVRO_FRAMES_MAX) return 0;
    if (!check_body(check, at + 1, op->end - 1, &body, NULL)) return 0;
    check->frames--;
    sizes->output_bytes += body.output_bytes + op->count;
    return 1;
}

static bool check_enum(const struct check *check, const struct kn_avro_op *op)
{
    const struct kn_avro_program *program = check->program;
    if (!kn_program_has_entries(&program->data, op->arg, op->count, 1)) return 0;
    for (int32_t i = 0; i < op->count; i++) {
        int32_t value = program->data.table[op->arg + i];
        if (value < -1 || value >= check->nodes[op->node].value_count) return 0;
    }
    return 1;
}

static bool check_enum_text(const struct check *check, const struct kn_avro_op *op,
                            struct sizes *sizes)
{
    const struct kn_avro_program *program = check->program;
    int32_t size_max = 0;
    if (!kn_program_has_entries(&program->data, op->arg, op->count, 2)) return 0;
    for (int32_t i = 0; i < op->count; i++) {
        const int32_t *entry = &program->data.table[op->arg + 2 * i];
        if (entry[0] == -1) continue;
        if (!kn_program_has_constant(&program->data, entry[0], entry[1]) ||
            !kn_utf8_is_valid(program->data.constants + entry[0], (size_t)entry[1]))
            return 0;
        if (entry[1] > size_max) size_max = entry[1];
    }
    sizes->output_bytes += size_max;
    return 1;
}

/* Instructions that append a value to their own node. */
static bool check_value(struct check *check, const struct kn_avro_op *op, struct sizes *sizes)
{
    int32_t width = check->nodes[op->node].width_bytes;
    switch (op->code) {
    case KN_AVRO_NONE:
    case KN_AVRO_RECORD: break;
    case KN_AVRO_FLOAT:
    case KN_AVRO_FLOAT_AS_DOUBLE: sizes->min_bytes += 4; break;
    case KN_AVRO_DOUBLE: sizes->min_bytes += 8; break;
    case KN_AVRO_DURATION: sizes->min_bytes += 12; break;
    case KN_AVRO_UUID_TEXT: sizes->min_bytes += 37; break;
    case KN_AVRO_FIXED:
        if (op->arg != width) return 0;
        sizes->min_bytes += width;
        break;
    case KN_AVRO_DECIMAL_FIXED:
        if (op->arg < 0 || op->arg > KN_LAYOUT_WIDTH_MAX_BYTES) return 0;
        sizes->min_bytes += op->arg;
        /* fall through */
    case KN_AVRO_DECIMAL_BYTES:
        if (width != 16 && width != 32) return 0;
        if (!kn_program_has_constant(&check->program->data, op->count, width)) return 0;
        sizes->min_bytes += op->code == KN_AVRO_DECIMAL_BYTES;
        break;
    default: sizes->min_bytes += 1;
    }
    if (op->code == KN_AVRO_ENUM && !check_enum(check, op)) return 0;
    if (op->code == KN_AVRO_ENUM_TEXT && !check_enum_text(check, op, sizes)) return 0;
    return mark(check, op->node, sizes);
}

static bool check_op(struct check *check, int32_t at, struct sizes *sizes)
{
    const struct kn_avro_op *op = &check->program->ops[at];
    switch (op->code) {
    case KN_AVRO_ARRAY: return check_array(check, at, sizes);
    case KN_AVRO_NULLABLE: return check_nullable(check, at, sizes);
    case KN_AVRO_UNION: return check_union(check, at, sizes);
    case KN_AVRO_TYPE: return check_type(check, at, sizes);
    case KN_AVRO_DEFAULT: return check_default(check, at, sizes);
    case KN_AVRO_SET_NULL: return op->node >= 0 && mark_group(check, op->node, sizes);
    case KN_AVRO_SKIP_FIXED: sizes->min_bytes += op->arg; return op->arg >= 0;
    case KN_AVRO_SKIP_VARINT:
    case KN_AVRO_SKIP_BYTES: sizes->min_bytes += 1; return 1;
    case KN_AVRO_NEXT:
    case KN_AVRO_JUMP:
    case KN_AVRO_RESTORE:
    case KN_AVRO_DONE: return 0; /* in a wrong place */
    default: return check_value(check, op, sizes);
    }
}

static bool has_body(int32_t code)
{
    return code == KN_AVRO_ARRAY || code == KN_AVRO_NULLABLE || code == KN_AVRO_UNION ||
           code == KN_AVRO_TYPE || code == KN_AVRO_DEFAULT;
}

/* Checks the instructions up to `limit`; with `jump`, up to a JUMP before it, which it returns. */
static bool check_body(struct check *check, int32_t first, int32_t limit, struct sizes *sizes,
                       int32_t *jump)
{
    if (++check->depth > CHECK_DEPTH_MAX) return 0;
    for (int32_t at = first; at < limit;) {
        const struct kn_avro_op *op = &check->program->ops[at];
        check->at = at;
        if (op->code < 0 || op->code >= KN_AVRO_CODE_COUNT) return 0;
        if (jump && op->code == KN_AVRO_JUMP) {
            *jump = at;
            check->depth--;
            return 1;
        }
        if (op->node < -1 || op->node >= check->program->layout->node_count) return 0;
        enum kn_node_kind kind = RULES[op->code].kind;
        int32_t width = RULES[op->code].width_bytes;
        if (kind != KN_NODE_KIND_COUNT) {
            if (op->node < 0 || check->nodes[op->node].kind != kind) return 0;
            if (kind == KN_NODE_FIXED && width >= 0 && check->nodes[op->node].width_bytes != width)
                return 0;
        }
        if (has_body(op->code) && (op->end <= at || op->end > limit)) return 0;
        if (!check_op(check, at, sizes)) return 0;
        at = has_body(op->code) ? op->end : at + 1;
    }
    check->depth--;
    return !jump;
}

/* KN_OK, KN_ERR_INVALID or KN_ERR_NOMEM */
static int check_program(const struct kn_avro_program *program, int32_t *bad_op)
{
    struct check check = {.program = program, .nodes = program->layout->nodes};
    struct sizes sizes = {0};
    int32_t last = program->op_count - 1;
    if (program->ops[last].code != KN_AVRO_DONE) {
        *bad_op = last;
        return KN_ERR_INVALID;
    }
    check.marks = calloc((size_t)program->layout->node_count, 1);
    if (!check.marks) return KN_ERR_NOMEM;
    bool is_good = check_filling(&check, 0, last, 0, &sizes);
    free(check.marks);
    *bad_op = check.at;
    return is_good ? KN_OK : KN_ERR_INVALID;
}

int kn_avro_program_new(struct kn_layout *layout, const struct kn_avro_op *ops, int32_t op_count,
                        const struct kn_program_data *data, struct kn_avro_program **out,
                        int32_t *bad_op)
{
    *out = NULL;
    *bad_op = 0;
    if (op_count < 1 || op_count > KN_AVRO_OPS_MAX) return KN_ERR_INVALID;
    struct kn_avro_program *program = calloc(1, sizeof *program);
    if (!program) return KN_ERR_NOMEM;
    program->layout = kn_layout_ref(layout);
    program->op_count = op_count;
    program->ops = kn_copy_of(ops, (size_t)op_count * sizeof *ops);
    int status = program->ops ? kn_program_data_init(&program->data, data) : KN_ERR_NOMEM;
    if (status == KN_OK) status = check_program(program, bad_op);
    if (status == KN_OK) {
        *out = program;
    } else {
        kn_avro_program_free(program);
    }
    return status;
}

void kn_avro_program_free(struct kn_avro_program *program)
{
    if (!program) return;
    kn_layout_unref(program->layout);
    free(program->ops);
    kn_program_data_deinit(&program->data);
    free(program);
}
