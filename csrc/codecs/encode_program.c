/* Checks programs that encode records: see encode_program.h. */
#include "codecs/encode_program.h"

#include <stdlib.h>

#include "codecs/json_output.h"
#include "codecs/limbs.h"
#include "codecs/protobuf_json.h"
#include "codecs/shortest_number.h"

#define CHECK_DEPTH_MAX 256

#define KN_ENCODE_NAME(name) #name,
static const char *const NAMES[KN_ENCODE_CODE_COUNT] = {KN_ENCODE_OPS(KN_ENCODE_NAME)};

const char *kn_encode_op_name(int code)
{
    return code >= 0 && code < KN_ENCODE_CODE_COUNT ? NAMES[code] : NULL;
}

struct check {
    const struct kn_encode_program *program;
    const struct kn_nested_node *nodes;
    int32_t depth;  /* of bodies */
    int32_t frames; /* bodies that set the index */
    int32_t at;     /* the instruction being checked, for the error */
};

static bool is_bytes(const struct kn_nested_node *node)
{
    return node->kind == KN_NESTED_FIXED || node->kind == KN_NESTED_BYTES32 ||
           node->kind == KN_NESTED_BYTES64 || node->kind == KN_NESTED_VIEWS;
}

static bool is_integer(const struct kn_nested_node *node)
{
    int32_t width = node->width;
    return node->kind == KN_NESTED_FIXED && (width == 1 || width == 2 || width == 4 || width == 8);
}

static bool is_list(const struct kn_nested_node *node)
{
    return node->kind == KN_NESTED_LIST32 || node->kind == KN_NESTED_LIST64 ||
           node->kind == KN_NESTED_FIXED_LIST;
}

static bool check_number(const struct kn_nested_node *node, int32_t number)
{
    static const int32_t WIDTHS[] = {2, 4, 8};
    if (number < 0 || number >= KN_ENCODE_NUMBER_COUNT) return 0;
    if (number >= KN_ENCODE_NUMBER_SIGNED) return is_integer(node);
    return node->kind == KN_NESTED_FIXED && node->width == WIDTHS[number];
}

static bool check_enum(const struct kn_encode_program *program, const struct kn_encode_op *op)
{
    if (!kn_program_has_entries(&program->data, op->arg, op->count, 3)) return 0;
    for (int32_t i = 0; i < op->count; i++) {
        const int32_t *entry = program->data.table + op->arg + 3 * i;
        if (!kn_program_has_constant(&program->data, entry[0], entry[1])) return 0;
    }
    return 1;
}

static bool check_one_of(const struct check *check, const struct kn_encode_op *op, int32_t root)
{
    if (!kn_program_has_entries(&check->program->data, op->arg, op->count, 1)) return 0;
    for (int32_t i = 0; i < op->count; i++) {
        int32_t node = check->program->data.table[op->arg + i];
        if (node < 0 || node >= check->program->type->node_count) return 0;
        if (check->nodes[node].root != root) return 0;
    }
    return 1;
}

/* Checks all entries but the third one. */
static bool check_decimal(const struct kn_encode_program *program,
                          const struct kn_nested_node *node, const struct kn_encode_op *op)
{
    bool is_wide = node->kind == KN_NESTED_FIXED && (node->width == 16 || node->width == 32);
    if (!is_wide && !is_integer(node)) return 0;
    if (!kn_program_has_entries(&program->data, op->arg, 1, KN_ENCODE_DECIMAL_ENTRIES)) return 0;
    const int32_t *entry = program->data.table + op->arg;
    return entry[1] >= -KN_ENCODE_DECIMAL_POWER_MAX && entry[1] <= KN_ENCODE_DECIMAL_POWER_MAX &&
           kn_program_has_constant(&program->data, entry[3], KN_LIMBS_BYTES);
}

static bool check_json(const struct check *check, const struct kn_encode_op *op)
{
    const struct kn_encode_program *program = check->program;
    const struct kn_nested_node *node = &check->nodes[op->node];
    int32_t scale_max = KN_JSON_DECIMAL_SCALE_MAX, unit = op->arg;
    switch (op->code) {
    case KN_ENCODE_JSON_BOOLEAN: return node->kind == KN_NESTED_BITS;
    case KN_ENCODE_JSON_INTEGER:
        return is_integer(node) &&
               (op->count == 8 || op->count == 16 || op->count == 32 || op->count == 64);
    case KN_ENCODE_JSON_MULTIPLY:
    case KN_ENCODE_JSON_DIVIDE: return is_integer(node) && op->arg >= 1;
    case KN_ENCODE_JSON_REAL:
        return KN_SHORTEST_IS_AVAILABLE && op->arg < KN_ENCODE_NUMBER_SIGNED &&
               check_number(node, op->arg);
    case KN_ENCODE_JSON_TEXT:
    case KN_ENCODE_JSON_RAW:
    case KN_ENCODE_JSON_BASE64:
    case KN_ENCODE_JSON_UUID: return is_bytes(node);
    case KN_ENCODE_JSON_ENUM: return is_bytes(node) && check_enum(program, op);
    case KN_ENCODE_JSON_UUID_TEXT: return node->kind == KN_NESTED_FIXED && node->width == 16;
    case KN_ENCODE_JSON_DECIMAL:
        if (op->count < 0 || op->count >= KN_ENCODE_DECIMAL_COUNT) return 0;
        if (!check_decimal(program, node, op)) return 0;
        return program->data.table[op->arg + 2] >= -scale_max &&
               program->data.table[op->arg + 2] <= scale_max;
    case KN_ENCODE_JSON_DATE: return is_integer(node) && op->arg >= 1;
    case KN_ENCODE_JSON_TIME:
    case KN_ENCODE_JSON_TIMESTAMP:
        return is_integer(node) && (unit == 0 || unit == 3 || unit == 6 || unit == 9);
    default: return 0; /* NEXT, LEAVE and DONE in a wrong place */
    }
}

/* Checks an instruction that writes a value of its own node. *writes: it writes a byte at least. */
static bool check_value(const struct check *check, const struct kn_encode_op *op, bool *writes)
{
    const struct kn_encode_program *program = check->program;
    const struct kn_nested_node *node = &check->nodes[op->node];
    *writes = 1;
    switch (op->code) {
    case KN_ENCODE_RECORD: *writes = 0; return node->kind == KN_NESTED_STRUCT;
    case KN_ENCODE_NONE: *writes = 0; return node->kind == KN_NESTED_NONE;
    case KN_ENCODE_BOOLEAN: return node->kind == KN_NESTED_BITS;
    case KN_ENCODE_LONG:
    case KN_ENCODE_VARINT:
    case KN_ENCODE_LITTLE: return is_integer(node) && (op->count == 32 || op->count == 64);
    case KN_ENCODE_TIMESTAMP:
    case KN_ENCODE_TIME_SPAN: return is_integer(node) && op->arg >= 1 && op->arg <= 1000000000;
    case KN_ENCODE_TIME_OF_DAY:
        *writes = 0;
        return is_integer(node) && op->arg >= 1 && op->arg <= 1000000000;
    case KN_ENCODE_MULTIPLY:
    case KN_ENCODE_DIVIDE:
        return is_integer(node) && op->arg >= 1 && (op->count == 32 || op->count == 64);
    case KN_ENCODE_FLOAT:
    case KN_ENCODE_DOUBLE: return check_number(node, op->arg);
    case KN_ENCODE_BYTES:
    case KN_ENCODE_TEXT:
    case KN_ENCODE_UUID: return is_bytes(node);
    case KN_ENCODE_STRUCT_FROM_JSON:
        return is_bytes(node) && op->arg >= 0 && op->arg < KN_PROTOBUF_JSON_KIND_COUNT;
    case KN_ENCODE_FIXED:
        *writes = op->arg > 0;
        return is_bytes(node) && op->arg >= 0 && op->arg <= KN_NESTED_WIDTH_MAX;
    case KN_ENCODE_UUID_TEXT:
    case KN_ENCODE_DURATION: return node->kind == KN_NESTED_FIXED && node->width == 16;
    case KN_ENCODE_ENUM_NUMBER:
    case KN_ENCODE_ENUM: return is_bytes(node) && check_enum(program, op);
    case KN_ENCODE_DECIMAL:
        if (!check_decimal(program, node, op)) return 0;
        *writes = program->data.table[op->arg + 2] != 0;
        return program->data.table[op->arg + 2] >= -1 &&
               program->data.table[op->arg + 2] <= KN_NESTED_WIDTH_MAX;
    default: return check_json(check, op);
    }
}

static bool check_body(struct check *check, int32_t first, int32_t limit, int32_t root,
                       bool *writes, int32_t *leave);

/* Checks a body that sets the index: its nodes are in the group of a child. */
static bool check_inner(struct check *check, int32_t first, int32_t limit, int32_t child,
                        bool *writes, int32_t *leave)
{
    if (++check->frames > KN_ENCODE_FRAMES_MAX) return 0;
    if (!check_body(check, first, limit, child, writes, leave)) return 0;
    check->frames--;
    return 1;
}

static bool check_array(struct check *check, int32_t at, bool *writes)
{
    struct kn_encode_op *op = &check->program->ops[at];
    const struct kn_encode_op *last = &check->program->ops[op->end - 1];
    bool item_writes;
    *writes = op->code == KN_ENCODE_ARRAY;
    if (!is_list(&check->nodes[op->node])) return 0;
    if (op->end - 1 == at || last->code != KN_ENCODE_NEXT || last->arg != at) return 0;
    if (!check_inner(check, at + 1, op->end - 1, op->node + 1, &item_writes, NULL)) return 0;
    op->is_empty = !item_writes;
    return 1;
}

static bool check_dictionary(struct check *check, int32_t at, bool *writes)
{
    const struct kn_encode_op *op = &check->program->ops[at];
    int32_t leave;
    if (check->nodes[op->node].kind != KN_NESTED_DICTIONARY) return 0;
    if (!check_inner(check, at + 1, op->end, op->node + 1, writes, &leave)) return 0;
    return leave == op->end - 1 && check->program->ops[leave].end == op->end;
}

static bool check_union(struct check *check, int32_t at, bool *writes)
{
    const struct kn_encode_program *program = check->program;
    const struct kn_encode_op *op = &program->ops[at];
    const struct kn_nested_node *node = &check->nodes[op->node];
    int32_t from = at + 1, leave;
    bool branch_writes;

    if (node->kind != KN_NESTED_DENSE_UNION && node->kind != KN_NESTED_SPARSE_UNION) return 0;
    if (op->count < 1 || op->count > 128) return 0;
    if (!kn_program_has_entries(&program->data, op->arg, op->count, 2)) return 0;
    *writes = 1;
    for (int32_t i = 0; i < op->count; i++) {
        int32_t first = program->data.table[op->arg + 2 * i], child = op->node + 1;
        int32_t wanted = program->data.table[op->arg + 2 * i + 1];
        if (first == -1) continue;
        if (first < from || first >= op->end) return 0;
        while (child < node->end && child != wanted) child = check->nodes[child].end;
        if (child >= node->end) return 0;
        if (!check_inner(check, first, op->end, child, &branch_writes, &leave)) return 0;
        if (program->ops[leave].end != op->end) return 0;
        *writes = *writes && branch_writes;
        from = leave + 1;
    }
    return 1;
}

static bool check_choice(struct check *check, int32_t at, bool *writes)
{
    const struct kn_encode_program *program = check->program;
    const struct kn_encode_op *op = &program->ops[at];
    int32_t root = check->nodes[op->node].root, from = at + 1, leave;
    bool branch_writes;

    if (check->nodes[op->node].kind != KN_NESTED_STRUCT || op->count < 1) return 0;
    if (!kn_program_has_entries(&program->data, op->arg, op->count, 2)) return 0;
    *writes = 1;
    for (int32_t i = 0; i < op->count; i++) {
        int32_t first = program->data.table[op->arg + 2 * i];
        int32_t child = program->data.table[op->arg + 2 * i + 1];
        if (first < from || first >= op->end) return 0;
        if (child < 0 || child >= program->type->node_count) return 0;
        if (check->nodes[child].root != root) return 0;
        if (!check_inner(check, first, op->end, root, &branch_writes, &leave)) return 0;
        if (program->ops[leave].end != op->end) return 0;
        *writes = *writes && branch_writes;
        from = leave + 1;
    }
    return 1;
}

static bool has_body(int32_t code)
{
    return code == KN_ENCODE_ARRAY || code == KN_ENCODE_NULLABLE || code == KN_ENCODE_UNION ||
           code == KN_ENCODE_CHOICE || code == KN_ENCODE_DICTIONARY || code == KN_ENCODE_REPEATED ||
           code == KN_ENCODE_DELIMITED || code == KN_ENCODE_UNLESS_EMPTY;
}

/* Checks a body of the same group. *writes: the instruction writes a byte at least. */
static bool check_same_group(struct check *check, int32_t at, int32_t root, bool *writes)
{
    const struct kn_encode_op *op = &check->program->ops[at];
    bool is_delimited = op->code == KN_ENCODE_DELIMITED, body_writes;
    int32_t last = op->end - is_delimited;
    if (is_delimited) {
        if (last == at || check->program->ops[last].code != KN_ENCODE_CLOSE) return 0;
        if (++check->frames > KN_ENCODE_FRAMES_MAX) return 0;
    }
    if (!check_body(check, at + 1, last, root, &body_writes, NULL)) return 0;
    check->frames -= is_delimited;
    *writes = is_delimited;
    if (op->code != KN_ENCODE_NULLABLE) return 1;
    *writes = op->count > 0 && body_writes;
    return kn_program_has_constant(&check->program->data, op->arg, op->count);
}

/* Checks an instruction of a group. */
static bool check_op(struct check *check, int32_t at, int32_t limit, int32_t root, bool *writes)
{
    const struct kn_encode_op *op = &check->program->ops[at];
    *writes = 0;
    if (op->code == KN_ENCODE_CONSTANT) {
        *writes = op->count > 0;
        return kn_program_has_constant(&check->program->data, op->arg, op->count);
    }
    if (op->code == KN_ENCODE_ONE_OF) return check_one_of(check, op, root);
    if (op->code == KN_ENCODE_JSON_END) return op->arg >= 0 && op->arg <= UINT8_MAX;
    bool needs_node = op->code != KN_ENCODE_DELIMITED;
    if (needs_node && (op->node < 0 || op->node >= check->program->type->node_count)) return 0;
    if (needs_node && check->nodes[op->node].root != root) return 0;
    if (!has_body(op->code)) return check_value(check, op, writes);
    if (op->end <= at || op->end > limit) return 0;
    switch (op->code) {
    case KN_ENCODE_ARRAY:
    case KN_ENCODE_REPEATED: return check_array(check, at, writes);
    case KN_ENCODE_DICTIONARY: return check_dictionary(check, at, writes);
    case KN_ENCODE_UNION: return check_union(check, at, writes);
    case KN_ENCODE_CHOICE: return check_choice(check, at, writes);
    default: return check_same_group(check, at, root, writes);
    }
}

/* Checks the instructions up to `limit`; with `leave`, up to a LEAVE before it, which it returns. */
static bool check_body(struct check *check, int32_t first, int32_t limit, int32_t root,
                       bool *writes, int32_t *leave)
{
    if (++check->depth > CHECK_DEPTH_MAX) return 0;
    *writes = 0;
    for (int32_t at = first; at < limit;) {
        const struct kn_encode_op *op = &check->program->ops[at];
        bool op_writes;
        check->at = at;
        if (leave && op->code == KN_ENCODE_LEAVE) {
            *leave = at;
            check->depth--;
            return 1;
        }
        if (!check_op(check, at, limit, root, &op_writes)) return 0;
        *writes = *writes || op_writes;
        at = has_body(op->code) ? op->end : at + 1;
    }
    check->depth--;
    return !leave;
}

static bool check_program(const struct kn_encode_program *program, int32_t *bad_op)
{
    struct check check = {.program = program, .nodes = program->type->nodes};
    int32_t last = program->op_count - 1;
    bool writes;
    *bad_op = last;
    if (program->ops[last].code != KN_ENCODE_DONE) return 0;
    bool is_good = check_body(&check, 0, last, 0, &writes, NULL);
    *bad_op = check.at;
    return is_good;
}

int kn_encode_program_new(struct kn_nested_type *type, const struct kn_encode_op *ops,
                          int32_t op_count, const struct kn_program_data *data,
                          struct kn_encode_program **out, int32_t *bad_op)
{
    *out = NULL;
    *bad_op = 0;
    if (op_count < 1 || op_count > KN_ENCODE_OPS_MAX) return KN_ERR_INVALID;
    struct kn_encode_program *program = calloc(1, sizeof *program);
    if (!program) return KN_ERR_NOMEM;
    program->type = kn_nested_type_ref(type);
    program->op_count = op_count;
    program->ops = kn_copy_of(ops, (size_t)op_count * sizeof *ops);
    int status = program->ops ? kn_program_data_init(&program->data, data) : KN_ERR_NOMEM;
    if (status == KN_OK && !check_program(program, bad_op)) status = KN_ERR_INVALID;
    if (status == KN_OK) {
        *out = program;
    } else {
        kn_encode_program_free(program);
    }
    return status;
}

void kn_encode_program_free(struct kn_encode_program *program)
{
    if (!program) return;
    kn_nested_type_unref(program->type);
    free(program->ops);
    kn_program_data_deinit(&program->data);
    free(program);
}
