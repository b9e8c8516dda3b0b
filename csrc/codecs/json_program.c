/* Checks JSON programs, and makes their hash tables: see json_program.h. */
#include "codecs/json_program.h"

#include <stdlib.h>

#include "base/status.h"
#include "codecs/json_tokens.h"

#define KN_JSON_CODE_NODE(name, kind, width) {#name, kind, width},
static const struct {
    const char *name;
    enum kn_node_kind kind;
    int32_t width_bytes;
} CODES[KN_JSON_CODE_COUNT] = {KN_JSON_CODES(KN_JSON_CODE_NODE)};

const char *kn_json_code_name(int code)
{
    return code >= 0 && code < KN_JSON_CODE_COUNT ? CODES[code].name : NULL;
}

bool kn_json_is_available(void) { return KN_JSON_IS_AVAILABLE; }

/* --- checks --- */

static bool decimal_is_good(const struct kn_json_rule *rule, int32_t width_bytes)
{
    int32_t digits_max = width_bytes == 16 ? 38 : 76;
    return (width_bytes == 16 || width_bytes == 32) && rule->arg >= 1 && rule->arg <= digits_max &&
           rule->scale >= -digits_max && rule->scale <= digits_max;
}

static bool is_unit(int32_t unit) { return unit == 0 || unit == 3 || unit == 6 || unit == 9; }

/* A map has entries of a key that is never null, and a value. */
static bool map_is_good(const struct kn_layout *layout, const struct kn_json_rule *rules,
                        int32_t at)
{
    const struct kn_node *entries = &layout->nodes[at + 1];
    return rules[at + 1].code == KN_JSON_STRUCT && entries->kind == KN_NODE_STRUCT &&
           entries->child_count == 2 && !kn_node_is_nullable(layout, at + 1) &&
           rules[at + 2].code == KN_JSON_TEXT && !kn_node_is_nullable(layout, at + 2);
}

static bool is_good(const struct kn_layout *layout, const struct kn_json_rule *rules, int32_t at)
{
    const struct kn_node *node = &layout->nodes[at];
    const struct kn_json_rule *rule = &rules[at];
    int32_t width = node->width_bytes;

    if (rule->code < 0 || rule->code >= KN_JSON_CODE_COUNT || CODES[rule->code].kind != node->kind)
        return 0;
    if (CODES[rule->code].width_bytes > 0 && CODES[rule->code].width_bytes != width) return 0;
    switch (rule->code) {
    case KN_JSON_INT:
    case KN_JSON_UINT: return width == 1 || width == 2 || width == 4 || width == 8;
    case KN_JSON_DECIMAL:
    case KN_JSON_DECIMAL_BYTES: return decimal_is_good(rule, width);
    case KN_JSON_TIME: return is_unit(rule->arg) && width == (rule->arg > 3 ? 8 : 4);
    case KN_JSON_TIMESTAMP: return is_unit(rule->arg) && (rule->scale == 0 || rule->scale == 1);
    case KN_JSON_MAP: return map_is_good(layout, rules, at);
    default: return 1;
    }
}

/* --- names --- */

static uint64_t hash(const uint8_t *text, int64_t size_bytes)
{
    uint64_t state = (uint64_t)size_bytes;
    for (int64_t at = 0; at < size_bytes; at += 8) {
        state = (state ^ kn_json_word(text + at, size_bytes - at)) * UINT64_C(0x9e3779b97f4a7c15);
        state ^= state >> 32;
    }
    return state;
}

int32_t kn_json_find_name(const struct kn_json_program *program, const struct kn_json_rule *rule,
                          const uint8_t *text, int64_t size_bytes)
{
    const int32_t *table = program->tables + rule->table;
    if (!(rule->name_bits & kn_json_name_bit(text, size_bytes))) return -1;
    for (uint64_t at = hash(text, size_bytes);; at++) {
        int32_t number = table[at & rule->table_mask];
        if (number < 0) return -1;
        const struct kn_json_name *name = &program->names[number];
        if (name->size_bytes == size_bytes && kn_json_name_is_at(name, text)) return number;
    }
}

/* Returns whether JSON text may have a name as it is. */
static bool is_plain(const uint8_t *text, int32_t size_bytes)
{
    for (int32_t i = 0; i < size_bytes; i++)
        if (text[i] < 0x20 || text[i] == '"' || text[i] == '\\') return 0;
    return 1;
}

struct naming { /* where the next name goes */
    struct kn_json_program *program;
    int64_t text_bytes;
    int64_t table_entries;
};

static void add_name(struct naming *naming, const void *text, size_t size_bytes, int32_t node)
{
    struct kn_json_program *program = naming->program;
    uint8_t *copy = program->texts + naming->text_bytes;
    if (size_bytes) memcpy(copy, text, size_bytes);
    program->names[program->name_count++] = (struct kn_json_name){
        copy, (int32_t)size_bytes, node, is_plain(copy, (int32_t)size_bytes)};
    naming->text_bytes += (int64_t)size_bytes + KN_JSON_NAME_SLACK_BYTES;
}

/* Adds the names of a struct or a dictionary, and fills its table. Returns 0 if two are equal. */
static bool add_names(struct naming *naming, int32_t at)
{
    struct kn_json_program *program = naming->program;
    const struct kn_node *nodes = program->layout->nodes, *node = &nodes[at];
    struct kn_json_rule *rule = &program->rules[at];

    rule->first_name = program->name_count;
    if (rule->code == KN_JSON_STRUCT) {
        for (int32_t i = at + 1; i < node->end; i = nodes[i].end)
            add_name(naming, nodes[i].name, strlen(nodes[i].name), i);
    } else {
        for (int32_t i = 0; i < node->value_count; i++)
            add_name(naming, node->value_bytes + node->value_offsets[i],
                     (size_t)(node->value_offsets[i + 1] - node->value_offsets[i]), i);
    }
    rule->name_count = program->name_count - rule->first_name;
    rule->table = (int32_t)naming->table_entries;
    rule->table_mask = 1;
    while ((int64_t)rule->table_mask < (int64_t)rule->name_count * 2)
        rule->table_mask = rule->table_mask * 2 + 1;
    naming->table_entries += (int64_t)rule->table_mask + 1;
    int32_t *table = program->tables + rule->table;
    for (uint32_t i = 0; i <= rule->table_mask; i++) table[i] = -1;
    for (int32_t i = rule->first_name; i < program->name_count; i++) {
        const struct kn_json_name *name = &program->names[i];
        if (kn_json_find_name(program, rule, name->text, name->size_bytes) >= 0) return 0;
        rule->name_bits |= kn_json_name_bit(name->text, name->size_bytes);
        uint64_t place = hash(name->text, name->size_bytes);
        while (table[place & rule->table_mask] >= 0) place++;
        table[place & rule->table_mask] = i;
    }
    return 1;
}

/* Allocates the tables: up to eight entries for each name, and two for each node. */
static int allocate_names(struct kn_json_program *program)
{
    const struct kn_layout *layout = program->layout;
    int64_t names = 0, bytes = 0;
    for (int32_t i = 0; i < layout->node_count; i++) {
        const struct kn_node *node = &layout->nodes[i];
        names++;
        bytes += (int64_t)strlen(node->name) + KN_JSON_NAME_SLACK_BYTES;
        if (node->kind != KN_NODE_DICTIONARY) continue;
        names += node->value_count;
        bytes += node->value_offsets[node->value_count] +
                 (int64_t)node->value_count * KN_JSON_NAME_SLACK_BYTES;
    }
    int64_t entries = names * 8 + layout->node_count * 2;
    if (entries > INT32_MAX) return KN_ERR_INVALID;
    program->names = calloc((size_t)names, sizeof *program->names);
    program->tables = calloc((size_t)entries, sizeof *program->tables);
    program->texts = calloc((size_t)bytes, 1);
    return program->names && program->tables && program->texts ? KN_OK : KN_ERR_NOMEM;
}

/* --- programs --- */

static int fill(struct kn_json_program *program, const struct kn_json_rule *rules,
                int32_t *bad_node)
{
    const struct kn_layout *layout = program->layout;
    struct naming naming = {program, 0, 0};
    int status = allocate_names(program);
    if (status != KN_OK) return status;
    program->rules = calloc((size_t)layout->node_count, sizeof *rules);
    if (!program->rules) return KN_ERR_NOMEM;
    for (int32_t i = 0; i < layout->node_count; i++) {
        *bad_node = i;
        if (!is_good(layout, rules, i)) return KN_ERR_INVALID;
        struct kn_json_rule *rule = &program->rules[i];
        *rule = (struct kn_json_rule){
            .code = rules[i].code, .arg = rules[i].arg, .scale = rules[i].scale};
        if (layout->nodes[i].kind == KN_NODE_LIST)
            rule->item_output_bytes = (int32_t)kn_layout_group_bytes(layout, i + 1);
        if ((rule->code == KN_JSON_STRUCT || rule->code == KN_JSON_ENUM) && !add_names(&naming, i))
            return KN_ERR_INVALID;
    }
    return KN_OK;
}

int kn_json_program_new(struct kn_layout *layout, const struct kn_json_rule *rules,
                        struct kn_json_program **out, int32_t *bad_node)
{
    *out = NULL;
    *bad_node = 0;
    if (!KN_JSON_IS_AVAILABLE) return KN_ERR_UNSUPPORTED;
    struct kn_json_program *program = calloc(1, sizeof *program);
    if (!program) return KN_ERR_NOMEM;
    program->layout = kn_layout_ref(layout);
    int status = fill(program, rules, bad_node);
    if (status == KN_OK) {
        *out = program;
    } else {
        kn_json_program_free(program);
    }
    return status;
}

void kn_json_program_free(struct kn_json_program *program)
{
    if (!program) return;
    free(program->rules);
    free(program->names);
    free(program->tables);
    free(program->texts);
    kn_layout_unref(program->layout);
    free(program);
}
