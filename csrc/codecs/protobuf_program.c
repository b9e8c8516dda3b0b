/* Checks Protobuf programs: see protobuf_program.h. */
#include "codecs/protobuf_program.h"

#include <stdlib.h>
#include <string.h>

#define KN_PROTOBUF_OP_RULE(name, kind, width, wire) {#name, kind, width, wire},
static const struct {
    const char *name;
    enum kn_node_kind kind;
    int32_t width_bytes;
    enum kn_wire_type wire;
} RULES[KN_PROTOBUF_CODE_COUNT] = {KN_PROTOBUF_OPS(KN_PROTOBUF_OP_RULE)};

static atomic_long serials;

const char *kn_protobuf_op_name(int code)
{
    return code >= 0 && code < KN_PROTOBUF_CODE_COUNT ? RULES[code].name : NULL;
}

enum kn_wire_type kn_protobuf_op_wire(const struct kn_protobuf_op *op)
{
    return op->code == KN_PROTOBUF_CLEAR ? (enum kn_wire_type)op->arg : RULES[op->code].wire;
}

/* --- the check ---
 *
 * It walks the tree of messages once. Each message must fill each child of its struct once. */

struct check {
    struct kn_protobuf_program *program;
    const struct kn_node *nodes;
    int32_t *parents;    /* of nodes */
    uint8_t *is_filled;  /* nodes */
    uint8_t *is_visited; /* messages */
    int32_t *owners;     /* of oneofs: a message's node, or -1 */
    int32_t depth;
    int32_t at; /* the instruction or message being checked, for the error */
};

static bool is_message(int32_t code)
{
    return code == KN_PROTOBUF_MESSAGE || code == KN_PROTOBUF_GROUP;
}

static bool is_plain(const struct kn_protobuf_op *op)
{
    if (op->shape != KN_PROTOBUF_SINGULAR || op->oneof >= 0) return 0;
    switch (op->code) {
    case KN_PROTOBUF_CLOSED_ENUM:
    case KN_PROTOBUF_CLOSED_NUMBER:
    case KN_PROTOBUF_JSON:
    case KN_PROTOBUF_ENCODED:
    case KN_PROTOBUF_WRAPPER:
    case KN_PROTOBUF_MESSAGE:
    case KN_PROTOBUF_GROUP:
    case KN_PROTOBUF_CLEAR: return 0;
    default: return 1;
    }
}

static int32_t column_of(const struct kn_protobuf_op *op)
{
    return op->shape == KN_PROTOBUF_SINGULAR ? op->node : op->node + 1;
}

static bool check_table(const struct check *check, const struct kn_protobuf_op *op)
{
    const struct kn_protobuf_program *program = check->program;
    bool has_values = op->code != KN_PROTOBUF_CLOSED_NUMBER;
    if (op->count < 1 ||
        !kn_program_has_entries(&program->data, op->arg, op->count, has_values ? 2 : 1))
        return 0;
    const int32_t *numbers = program->data.table + op->arg, *values = numbers + op->count;
    for (int32_t i = 0; i < op->count; i++) {
        if (i && numbers[i] <= numbers[i - 1]) return 0;
        if (has_values && (values[i] < 0 || values[i] >= check->nodes[column_of(op)].value_count))
            return 0;
    }
    return 1;
}

/* A constant must be one item of the column. */
static bool check_constant(const struct check *check, const struct kn_protobuf_op *op)
{
    const struct kn_protobuf_program *program = check->program;
    const struct kn_node *node = &check->nodes[op->node];
    int32_t index;
    if (!kn_program_has_constant(&program->data, op->constant, op->constant_bytes)) return 0;
    switch (node->kind) {
    case KN_NODE_BITS: return op->constant_bytes == 1;
    case KN_NODE_FIXED: return op->constant_bytes == node->width_bytes;
    case KN_NODE_BYTES: return 1;
    case KN_NODE_DICTIONARY:
        if (op->constant_bytes != sizeof index) return 0;
        memcpy(&index, program->data.constants + op->constant, sizeof index);
        return index >= 0 && index < node->value_count;
    default: return 0;
    }
}

static bool check_missing(const struct check *check, const struct kn_protobuf_op *op)
{
    switch (op->missing) {
    case KN_PROTOBUF_NULL:
    case KN_PROTOBUF_REQUIRED: return 1;
    case KN_PROTOBUF_ZERO: return !is_message(op->code);
    case KN_PROTOBUF_EMPTY: return is_message(op->code);
    case KN_PROTOBUF_CONSTANT: return check_constant(check, op);
    default: return 0;
    }
}

static bool check_message(struct check *check, int32_t index, int32_t node, int32_t wrapped,
                          int64_t *output_bytes);

static bool check_map(const struct check *check, const struct kn_protobuf_op *op)
{
    const struct kn_protobuf_program *program = check->program;
    const struct kn_protobuf_message *entry = &program->messages[op->arg];
    int32_t child = op->node + 1;
    if (op->code != KN_PROTOBUF_MESSAGE || check->nodes[child].child_count != 2) return 0;
    if (entry->count != 2) return 0;
    const struct kn_protobuf_op *key = &program->ops[entry->first];
    return key[0].number == 1 && key[1].number == 2 && key[0].node == child + 1 &&
           key[0].shape == KN_PROTOBUF_SINGULAR && key[1].shape == KN_PROTOBUF_SINGULAR &&
           key[0].code <= KN_PROTOBUF_BYTES && key[0].code != KN_PROTOBUF_ENUM;
}

/* Checks the column, the wire type and the argument of a field with a column. */
static bool check_field(struct check *check, struct kn_protobuf_op *op, int32_t wrapped)
{
    const struct kn_node *nodes = check->nodes;
    int32_t column = column_of(op);
    enum kn_node_kind kind = RULES[op->code].kind;

    if (op->shape != KN_PROTOBUF_SINGULAR && (wrapped >= 0 || nodes[op->node].kind != KN_NODE_LIST))
        return 0;
    if (kind != KN_NODE_KIND_COUNT && nodes[column].kind != kind) return 0;
    if (kind == KN_NODE_FIXED && nodes[column].width_bytes != RULES[op->code].width_bytes) return 0;
    if (op->shape == KN_PROTOBUF_PACKED && RULES[op->code].wire != KN_WIRE_VARINT &&
        RULES[op->code].wire != KN_WIRE_FIXED32 && RULES[op->code].wire != KN_WIRE_FIXED64)
        return 0;
    switch (op->code) {
    case KN_PROTOBUF_ENUM:
        /* unknown numbers are null */
        if (!(nodes[column].flags & ARROW_FLAG_NULLABLE)) return 0;
        /* fall through */
    case KN_PROTOBUF_CLOSED_ENUM:
    case KN_PROTOBUF_CLOSED_NUMBER: return check_table(check, op);
    case KN_PROTOBUF_TIMESTAMP:
    case KN_PROTOBUF_DURATION: return op->arg >= 1 && op->arg <= 1000000000;
    case KN_PROTOBUF_JSON:
        return op->arg >= 0 && op->arg < KN_PROTOBUF_JSON_KIND_COUNT && wrapped < 0;
    case KN_PROTOBUF_ENCODED: return wrapped < 0;
    case KN_PROTOBUF_WRAPPER: return nodes[column].kind <= KN_NODE_BYTES && wrapped < 0;
    default: return 1;
    }
}

/* A oneof belongs to one message. */
static bool check_oneof(struct check *check, const struct kn_protobuf_op *op, int32_t message_node)
{
    if (op->oneof < 0 || op->oneof >= check->program->op_count) return 0;
    int32_t *owner = &check->owners[op->oneof];
    if (*owner >= 0 && *owner != message_node) return 0;
    *owner = message_node;
    if (op->oneof >= check->program->oneof_count) check->program->oneof_count = op->oneof + 1;
    return op->shape == KN_PROTOBUF_SINGULAR;
}

/* `wrapped`: the column of a wrapper, whose field is the same column; else -1. */
static bool check_op(struct check *check, struct kn_protobuf_op *op, int32_t message_node,
                     int32_t wrapped, int64_t *output_bytes)
{
    int64_t inner_bytes = 0;
    if (op->code < 0 || op->code >= KN_PROTOBUF_CODE_COUNT) return 0;
    if (op->shape < 0 || op->shape >= KN_PROTOBUF_SHAPE_COUNT) return 0;
    if (op->oneof != -1 && (wrapped >= 0 || !check_oneof(check, op, message_node))) return 0;
    if (op->code == KN_PROTOBUF_CLEAR)
        return op->node == -1 && op->oneof >= 0 && op->arg >= 0 && op->arg <= KN_WIRE_FIXED32 &&
               op->arg != KN_WIRE_END_GROUP;
    if (op->node < 0 || op->node >= check->program->layout->node_count) return 0;
    if (wrapped >= 0 && op->node != wrapped) return 0;
    if (wrapped < 0) {
        if (check->parents[op->node] != message_node || check->is_filled[op->node]) return 0;
        check->is_filled[op->node] = 1;
    }
    if (!check_field(check, op, wrapped) || !check_missing(check, op)) return 0;
    if (is_message(op->code) || op->code == KN_PROTOBUF_WRAPPER) {
        int32_t column = column_of(op);
        bool is_wrapper = op->code == KN_PROTOBUF_WRAPPER;
        if (!check_message(check, op->arg, column, is_wrapper ? column : -1, &inner_bytes))
            return 0;
    }
    if (op->shape == KN_PROTOBUF_MAP) {
        if (!check_map(check, op)) return 0;
        op->map = check->program->map_count++;
    }
    if (op->missing == KN_PROTOBUF_CONSTANT) inner_bytes += op->constant_bytes;
    int64_t item_bytes = kn_layout_group_bytes(check->program->layout, column_of(op)) + inner_bytes;
    op->item_output_bytes = item_bytes < INT32_MAX ? item_bytes : INT32_MAX;
    if (op->shape == KN_PROTOBUF_SINGULAR) *output_bytes += inner_bytes;
    return 1;
}

static bool check_message(struct check *check, int32_t index, int32_t node, int32_t wrapped,
                          int64_t *output_bytes)
{
    struct kn_protobuf_program *program = check->program;
    int32_t filled = 0, op_count = program->op_count;

    if (index < 0 || index >= program->message_count || check->is_visited[index]) return 0;
    check->at = op_count + index;
    const struct kn_protobuf_message *message = &program->messages[index];
    if (message->node != node || ++check->depth > KN_LAYOUT_DEPTH_MAX) return 0;
    check->is_visited[index] = 1;
    if (wrapped < 0 && check->nodes[node].kind != KN_NODE_STRUCT) return 0;
    for (int32_t i = 0; i < message->count; i++) {
        struct kn_protobuf_op *op = &program->ops[message->first + i];
        check->at = message->first + i;
        if (op->number < 1 || op->number > KN_PROTOBUF_NUMBER_MAX) return 0;
        if (i && op->number <= op[-1].number) return 0;
        if (!check_op(check, op, node, wrapped, output_bytes)) return 0;
        check->at = message->first + i;
        filled += op->node >= 0;
        enum kn_wire_type wire = kn_protobuf_op_wire(op);
        if (op->shape == KN_PROTOBUF_PACKED) wire = KN_WIRE_DELIMITED;
        op->tag = (uint32_t)op->number << 3 | wire;
        op->is_leaf = !is_message(op->code) && op->code != KN_PROTOBUF_JSON;
        op->is_plain = is_plain(op);
    }
    check->at = op_count + index;
    check->depth--;
    return wrapped >= 0 ? filled == 1 : filled == check->nodes[node].child_count;
}

static void find_parents(const struct kn_layout *layout, int32_t *parents)
{
    parents[0] = -1;
    for (int32_t i = 0; i < layout->node_count; i++) {
        for (int32_t child = i + 1; child < layout->nodes[i].end; child = layout->nodes[child].end)
            parents[child] = i;
    }
}

/* The messages must share the instructions out among them, in their order. */
static bool check_ranges(const struct kn_protobuf_program *program, int32_t *bad)
{
    int32_t next = 0;
    for (int32_t i = 0; i < program->message_count; i++) {
        const struct kn_protobuf_message *message = &program->messages[i];
        *bad = program->op_count + i;
        if (message->first != next || message->count < 0 ||
            message->count > program->op_count - next)
            return 0;
        next += message->count;
    }
    return next == program->op_count;
}

/* KN_OK, KN_ERR_INVALID or KN_ERR_NOMEM */
static int check_program(struct kn_protobuf_program *program, int32_t *bad)
{
    struct check check = {.program = program, .nodes = program->layout->nodes};
    size_t nodes = (size_t)program->layout->node_count, messages = (size_t)program->message_count;
    int64_t output_bytes = 0;
    if (!check_ranges(program, bad)) return KN_ERR_INVALID;
    check.parents = malloc(nodes * sizeof *check.parents);
    check.is_filled = calloc(nodes, 1);
    check.is_visited = calloc(messages, 1);
    check.owners = malloc(((size_t)program->op_count + 1) * sizeof *check.owners);
    bool has_memory = check.parents && check.is_filled && check.is_visited && check.owners;
    int status = has_memory ? KN_OK : KN_ERR_NOMEM;
    if (status == KN_OK) {
        for (int32_t i = 0; i < program->op_count; i++) check.owners[i] = -1;
        find_parents(program->layout, check.parents);
        if (!check_message(&check, 0, 0, -1, &output_bytes)) status = KN_ERR_INVALID;
        *bad = check.at;
        for (int32_t i = 0; i < program->message_count && status == KN_OK; i++) {
            *bad = program->op_count + i;
            if (!check.is_visited[i]) status = KN_ERR_INVALID;
        }
    }
    free(check.parents);
    free(check.is_filled);
    free(check.is_visited);
    free(check.owners);
    return status;
}

/* Makes the tables of instructions by number. Large numbers aren't in them. */
static int make_places(struct kn_protobuf_program *program)
{
    size_t total = 0;
    for (int32_t i = 0; i < program->message_count; i++) {
        struct kn_protobuf_message *message = &program->messages[i];
        int32_t last = message->first + message->count - 1, max = 4 * message->count + 16;
        int32_t number = message->count ? program->ops[last].number : -1;
        message->place_count = number < max ? number + 1 : max;
        message->places = (int32_t)total;
        total += (size_t)message->place_count;
    }
    program->places = malloc((total ? total : 1) * sizeof *program->places);
    if (!program->places) return KN_ERR_NOMEM;
    for (size_t i = 0; i < total; i++) program->places[i] = -1;
    for (int32_t i = 0; i < program->message_count; i++) {
        const struct kn_protobuf_message *message = &program->messages[i];
        for (int32_t k = message->first; k < message->first + message->count; k++) {
            int32_t number = program->ops[k].number;
            if (number < message->place_count) program->places[message->places + number] = k;
        }
    }
    return KN_OK;
}

/* --- life --- */

int kn_protobuf_program_new(struct kn_layout *layout, const struct kn_protobuf_op *ops,
                            int32_t op_count, const struct kn_protobuf_message *messages,
                            int32_t message_count, const struct kn_program_data *data,
                            struct kn_protobuf_program **out, int32_t *bad)
{
    *out = NULL;
    *bad = 0;
    if (op_count < 0 || op_count > KN_PROTOBUF_OPS_MAX || message_count < 1 ||
        message_count > KN_PROTOBUF_OPS_MAX)
        return KN_ERR_INVALID;
    struct kn_protobuf_program *program = calloc(1, sizeof *program);
    if (!program) return KN_ERR_NOMEM;
    program->serial = atomic_fetch_add(&serials, 1) + 1;
    program->layout = kn_layout_ref(layout);
    program->op_count = op_count;
    program->message_count = message_count;
    program->ops = kn_copy_of(ops, (size_t)op_count * sizeof *ops);
    program->messages = kn_copy_of(messages, (size_t)message_count * sizeof *messages);
    bool has_memory = program->ops && program->messages;
    int status = has_memory ? kn_program_data_init(&program->data, data) : KN_ERR_NOMEM;
    if (status == KN_OK) status = check_program(program, bad);
    if (status == KN_OK) status = make_places(program);
    if (status == KN_OK) {
        *out = program;
    } else {
        kn_protobuf_program_free(program);
    }
    return status;
}

void kn_protobuf_program_free(struct kn_protobuf_program *program)
{
    if (!program) return;
    kn_layout_unref(program->layout);
    free(program->ops);
    free(program->messages);
    free(program->places);
    kn_program_data_deinit(&program->data);
    free(program);
}
