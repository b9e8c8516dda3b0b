/* Decodes Protobuf messages: see protobuf_decode.h.
 *
 * The position in the record is a local variable, and each helper returns the next one: so it stays
 * in a register. NULL: the helper has filled in the problem. */
#include "codecs/protobuf_decode.h"

#include <stdlib.h>
#include <string.h>

#include "base/endian.h"
#include "base/utf8.h"
#include "codecs/short_bytes.h"

#define FEW_KEYS 8 /* so many are compared in pairs */
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

struct entry {         /* of a map in the open row */
    const uint8_t *at; /* NULL: a later entry has the same key */
    int64_t size_bytes;
};

struct entries { /* `count` is right if the row has any */
    struct entry *items;
    int64_t count;
    int64_t capacity;
};

struct scratch {     /* kept with the builder */
    int64_t serial;  /* of the program that it belongs to */
    int32_t *chosen; /* the instruction of the last member of each oneof; -1: none */
    struct entries *maps;
    int32_t map_count;
    struct kn_json_text json;
};

struct run { /* one record */
    const struct kn_protobuf_program *program;
    struct kn_builder *builder;
    struct kn_built *columns;
    struct scratch *scratch; /* of the program */
    const uint8_t *end;      /* of the record */
    int64_t expansion_bytes;
    bool has_unknown_value; /* the open entry of a map has an unknown number of a closed enum */
    int32_t instruction;
    struct kn_decode_failure problem;
};

/* --- problems --- */

static const uint8_t *fail(struct run *run, int status, const char *text, const uint8_t *at)
{
    return kn_decode_fail(&run->problem, status, text, at);
}

static const uint8_t *cut_off(struct run *run, const uint8_t *at)
{
    return kn_decode_cut_off(&run->problem, at);
}

static const uint8_t *no_room(struct run *run, int status, const uint8_t *at)
{
    return kn_decode_no_room(&run->problem, status, at);
}

/* Returns whether the record may expand by so many bytes. */
static inline bool may_expand(struct run *run, int64_t more_bytes, const uint8_t *at)
{
    run->expansion_bytes -= more_bytes;
    if (LIKELY(run->expansion_bytes >= 0)) return 1;
    fail(run, kn_builder_expansion_status(run->builder), "the record expands to too many bytes",
         at);
    return 0;
}

/* --- values --- */

static inline const uint8_t *put_bytes(struct run *run, struct kn_built *column, bool is_text,
                                       const uint8_t *at, const uint8_t *end)
{
    int64_t size = 0;
    const uint8_t *from = kn_wire_size(&run->problem, at, end, &size);
    if (!from) return NULL;
    int status = kn_builder_reserve_bytes(run->builder, column, size);
    if (__builtin_expect(status != KN_OK, 0)) return no_room(run, status, at);
    uint8_t *to = size ? column->bytes + column->bytes_used : NULL; /* there may be no memory yet */
    if (!kn_copy_bytes(to, from, size, run->end, is_text))
        return fail(run, KN_ERR_INVALID, "a string isn't UTF-8", at);
    kn_built_end_bytes(column, size);
    return from + size;
}

/* Stores little-endian bytes in the order of this machine. */
static inline const uint8_t *put_fixed(struct run *run, struct kn_built *column, int32_t size,
                                       const uint8_t *at, const uint8_t *end)
{
    if (__builtin_expect(end - at < size, 0)) return cut_off(run, at);
    kn_copy_little(column->items + column->length++ * size, at, (size_t)size);
    return at + size;
}

static inline void put_32(struct kn_built *column, uint32_t value)
{
    memcpy(column->items + column->length++ * 4, &value, sizeof value);
}

static inline void put_64(struct kn_built *column, uint64_t value)
{
    memcpy(column->items + column->length++ * 8, &value, sizeof value);
}

/* Returns the place of a number in the table of an enum, or -1. */
static int32_t find_number(const struct run *run, const struct kn_protobuf_op *op, int32_t number)
{
    const int32_t *numbers = run->program->data.table + op->arg;
    int64_t guess = (int64_t)number - numbers[0]; /* most enums have no gaps */
    if (guess >= 0 && guess < op->count && numbers[guess] == number) return (int32_t)guess;
    int32_t low = 0, high = op->count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (numbers[middle] < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < op->count && numbers[low] == number ? low : -1;
}

static inline const uint8_t *put_number(struct run *run, const struct kn_protobuf_op *op,
                                        struct kn_built *column, const uint8_t *at,
                                        const uint8_t *end)
{
    uint64_t value = 0;
    uint32_t narrow;
    if (!(at = kn_wire_varint(&run->problem, at, end, &value))) return NULL;
    narrow = (uint32_t)value;
    switch (op->code) {
    case KN_PROTOBUF_INT32:
    case KN_PROTOBUF_CLOSED_NUMBER: put_32(column, narrow); break;
    case KN_PROTOBUF_INT64: put_64(column, value); break;
    case KN_PROTOBUF_SINT32: put_32(column, narrow >> 1 ^ -(narrow & 1)); break;
    case KN_PROTOBUF_SINT64: put_64(column, value >> 1 ^ -(value & 1)); break;
    default: kn_bit_put(column->items, column->length++, value != 0);
    }
    return at;
}

static const uint8_t *put_symbol(struct run *run, const struct kn_protobuf_op *op,
                                 struct kn_built *column, const uint8_t *at, const uint8_t *end)
{
    uint64_t value = 0;
    if (!(at = kn_wire_varint(&run->problem, at, end, &value))) return NULL;
    int32_t place = find_number(run, op, (int32_t)(uint32_t)value);
    if (place < 0) kn_bit_put(column->validity, column->length, 0);
    put_32(column, place < 0 ? 0 : (uint32_t)run->program->data.table[op->arg + op->count + place]);
    return at;
}

/* Returns whether a number belongs to a closed enum. If not, the field is an unknown one. */
static bool is_known(struct run *run, const struct kn_protobuf_op *op, const uint8_t *at,
                     const uint8_t *end)
{
    uint64_t value = 0;
    /* a number that is cut off is reported by the next reader */
    if (!kn_wire_varint(&run->problem, at, end, &value)) return 1;
    if (find_number(run, op, (int32_t)(uint32_t)value) >= 0) return 1;
    run->has_unknown_value = 1;
    return 0;
}

static inline bool is_closed(const struct kn_protobuf_op *op)
{
    return op->code == KN_PROTOBUF_CLOSED_ENUM || op->code == KN_PROTOBUF_CLOSED_NUMBER;
}

/* --- timestamps and durations --- */

#define NANOSECONDS 1000000000

/* Splits a stored time. Seconds of a timestamp are rounded down, those of a duration to zero. */
static void split_time(bool is_timestamp, int64_t value, int64_t unit, int64_t *seconds,
                       int64_t *nanoseconds)
{
    int64_t per_second = NANOSECONDS / unit;
    *seconds = value / per_second;
    *nanoseconds = value % per_second * unit;
    if (is_timestamp && *nanoseconds < 0) {
        *seconds -= 1;
        *nanoseconds += NANOSECONDS;
    }
}

static bool join_time(bool is_timestamp, int64_t seconds, int64_t nanoseconds, int64_t unit,
                      int64_t *value)
{
    int64_t part = nanoseconds / unit;
    if (nanoseconds <= -NANOSECONDS || nanoseconds >= NANOSECONDS) return 0;
    if (is_timestamp) {
        if (seconds < KN_WIRE_TIMESTAMP_MIN_S || seconds > KN_WIRE_TIMESTAMP_MAX_S ||
            nanoseconds < 0)
            return 0;
        if (seconds < 0 && part) { /* the product alone may be below the range */
            seconds += 1;
            part -= NANOSECONDS / unit;
        }
    } else {
        if (seconds < -KN_WIRE_DURATION_MAX_S || seconds > KN_WIRE_DURATION_MAX_S) return 0;
        if ((seconds < 0 && nanoseconds > 0) || (seconds > 0 && nanoseconds < 0)) return 0;
    }
    return !__builtin_mul_overflow(seconds, NANOSECONDS / unit, value) &&
           !__builtin_add_overflow(*value, part, value);
}

/* Appends the time in the message at `at`. A time that was set before is the beginning. */
static const uint8_t *put_time(struct run *run, const struct kn_protobuf_op *op,
                               struct kn_built *column, const int64_t *before, const uint8_t *at,
                               const uint8_t *end)
{
    bool is_timestamp = op->code == KN_PROTOBUF_TIMESTAMP;
    int64_t seconds = 0, nanoseconds = 0, size = 0, value = 0;
    const uint8_t *p = kn_wire_size(&run->problem, at, end, &size), *last;
    if (!p) return NULL;
    last = p + size;
    if (before) split_time(is_timestamp, *before, op->arg, &seconds, &nanoseconds);
    while (p < last) {
        uint32_t tag = 0;
        uint64_t number = 0;
        if (!(p = kn_wire_tag(&run->problem, p, last, &tag))) return NULL;
        bool is_seconds = tag == 1 << 3, is_nanoseconds = tag == 2 << 3;
        if (!is_seconds && !is_nanoseconds) {
            if (!(p = kn_wire_skip(&run->problem, tag, p, last))) return NULL;
            continue;
        }
        if (!(p = kn_wire_varint(&run->problem, p, last, &number))) return NULL;
        if (is_seconds) seconds = (int64_t)number;
        if (is_nanoseconds) nanoseconds = (int32_t)(uint32_t)number;
    }
    if (!join_time(is_timestamp, seconds, nanoseconds, op->arg, &value))
        return fail(run, KN_ERR_INVALID,
                    is_timestamp ? "a timestamp is out of its range"
                                 : "a duration is out of its range",
                    at);
    put_64(column, (uint64_t)value);
    return last;
}

/* --- messages as JSON text or as bytes --- */

/* Appends the bytes of a message to the open item. The pieces of a message that comes again follow
 * each other, which means the same as the merged message. */
static const uint8_t *put_piece(struct run *run, struct kn_built *column, int64_t row,
                                const uint8_t *at, const uint8_t *end)
{
    int64_t size = 0;
    const uint8_t *from = kn_wire_size(&run->problem, at, end, &size);
    if (!from) return NULL;
    int status = kn_builder_reserve_bytes(run->builder, column, size);
    if (status != KN_OK) return no_room(run, status, at);
    if (size) memcpy(column->bytes + column->bytes_used, from, (size_t)size);
    column->length = row;
    kn_built_end_bytes(column, size);
    return from + size;
}

/* Puts the text in place of the message's bytes. Returns `at`. */
static const uint8_t *finish_json(struct run *run, const struct kn_protobuf_op *op,
                                  struct kn_built *column, int64_t row, const uint8_t *at)
{
    struct kn_json_text *text = &run->scratch->json;
    int64_t first = kn_built_offsets(column)[row], size = column->bytes_used - first;
    int64_t bytes_max = run->expansion_bytes < INT32_MAX ? run->expansion_bytes : INT32_MAX;
    /* without bytes the column may have no memory yet */
    const uint8_t *message = size ? column->bytes + first : at;
    int status = kn_protobuf_json(text, (enum kn_protobuf_json_kind)op->arg, message, size,
                                  bytes_max, &run->problem);
    if (status != KN_OK) {
        run->problem.at = at; /* not a place in the column */
        if (status == KN_ERR_TOO_LARGE)
            run->problem.status = kn_builder_expansion_status(run->builder);
        return NULL;
    }
    if (!may_expand(run, text->size_bytes, at)) return NULL;
    column->length = row;
    column->bytes_used = first;
    status = kn_builder_reserve_bytes(run->builder, column, text->size_bytes);
    if (status != KN_OK) return no_room(run, status, at);
    memcpy(column->bytes + first, text->data, (size_t)text->size_bytes);
    kn_built_end_bytes(column, text->size_bytes);
    return at;
}

/* --- slots --- */

/* Opens the slot of a field that was set before. */
static __attribute__((noinline)) void reopen(struct run *run, int32_t node, int64_t row)
{
    struct kn_built *column = &run->columns[node];
    column->length = row;
    if (run->builder->layout->nodes[node].kind == KN_NODE_BYTES)
        column->bytes_used = kn_built_offsets(column)[row];
    if (column->validity) kn_bit_put(column->validity, row, 1);
}

/* Appends zero, false, an empty value, or the first value of a dictionary. */
static void put_zero(struct run *run, int32_t node)
{
    const struct kn_node *type = &run->builder->layout->nodes[node];
    struct kn_built *column = &run->columns[node];
    switch (type->kind) {
    case KN_NODE_BITS: kn_bit_put(column->items, column->length++, 0); break;
    case KN_NODE_FIXED:
        memset(column->items + column->length++ * type->width_bytes, 0, (size_t)type->width_bytes);
        break;
    case KN_NODE_BYTES: kn_built_end_bytes(column, 0); break;
    default: put_32(column, 0); /* DICTIONARY */
    }
}

static const uint8_t *put_constant(struct run *run, const struct kn_protobuf_op *op,
                                   const uint8_t *at)
{
    struct kn_built *column = &run->columns[op->node];
    const uint8_t *from = run->program->data.constants + op->constant;
    size_t size = (size_t)op->constant_bytes;
    int status;
    switch (run->builder->layout->nodes[op->node].kind) {
    case KN_NODE_BITS: kn_bit_put(column->items, column->length++, from[0] != 0); break;
    case KN_NODE_BYTES:
        status = kn_builder_reserve_bytes(run->builder, column, op->constant_bytes);
        if (status != KN_OK) return no_room(run, status, at);
        if (size) memcpy(column->bytes + column->bytes_used, from, size);
        kn_built_end_bytes(column, op->constant_bytes);
        break;
    default: memcpy(column->items + (size_t)column->length++ * size, from, size);
    }
    return at;
}

/* Makes a member of a oneof the chosen one: the last one wins. */
static bool choose(struct run *run, const struct kn_protobuf_op *op, int64_t row, const uint8_t *at)
{
    const struct kn_protobuf_op *ops = run->program->ops;
    int32_t *chosen = &run->scratch->chosen[op->oneof], index = (int32_t)(op - ops);
    if (*chosen != index && *chosen >= 0) {
        const struct kn_protobuf_op *before = &ops[*chosen];
        if (before->node >= 0 && run->columns[before->node].length > row) {
            if (!may_expand(run, before->item_output_bytes, at)) return 0;
            kn_builder_truncate_node(run->builder, before->node, row);
        }
    }
    *chosen = index;
    return 1;
}

/* --- fields --- */

static const uint8_t *read_fields(struct run *run, int32_t index, int64_t row, const uint8_t *at,
                                  const uint8_t *end, uint32_t end_tag);
static const uint8_t *finish(struct run *run, int32_t index, int64_t row, const uint8_t *at);

/* Reads a message's fields into a row, from behind the tag of the message. */
static const uint8_t *read_message(struct run *run, const struct kn_protobuf_op *op, int64_t row,
                                   const uint8_t *at, const uint8_t *end)
{
    int64_t size = 0;
    if (op->code == KN_PROTOBUF_GROUP)
        return read_fields(run, op->arg, row, at, end,
                           (uint32_t)op->number << 3 | KN_WIRE_END_GROUP);
    at = kn_wire_size(&run->problem, at, end, &size);
    return at ? read_fields(run, op->arg, row, at, at + size, 0) : NULL;
}

/* Appends a value that isn't a message. */
static inline __attribute__((always_inline)) const uint8_t *put_value_inline(
    struct run *run, const struct kn_protobuf_op *op, struct kn_built *column, const uint8_t *at,
    const uint8_t *end)
{
    switch (op->code) {
    case KN_PROTOBUF_FIXED32: return put_fixed(run, column, 4, at, end);
    case KN_PROTOBUF_FIXED64: return put_fixed(run, column, 8, at, end);
    case KN_PROTOBUF_ENUM:
    case KN_PROTOBUF_CLOSED_ENUM: return put_symbol(run, op, column, at, end);
    case KN_PROTOBUF_TEXT: return put_bytes(run, column, 1, at, end);
    case KN_PROTOBUF_BYTES: return put_bytes(run, column, 0, at, end);
    case KN_PROTOBUF_TIMESTAMP:
    case KN_PROTOBUF_DURATION: return put_time(run, op, column, NULL, at, end);
    default: return put_number(run, op, column, at, end);
    }
}

static __attribute__((noinline)) const uint8_t *put_value(struct run *run,
                                                          const struct kn_protobuf_op *op,
                                                          struct kn_built *column,
                                                          const uint8_t *at, const uint8_t *end)
{
    return put_value_inline(run, op, column, at, end);
}

static const uint8_t *read_singular_again(struct run *run, const struct kn_protobuf_op *op,
                                          int64_t row, const uint8_t *at, const uint8_t *end)
{
    struct kn_built *column = &run->columns[op->node];
    int64_t before;
    if (op->code == KN_PROTOBUF_WRAPPER) return read_message(run, op, row, at, end);
    if (op->code == KN_PROTOBUF_TIMESTAMP || op->code == KN_PROTOBUF_DURATION) {
        memcpy(&before, column->items + row * 8, sizeof before);
        column->length = row;
        return put_time(run, op, column, &before, at, end);
    }
    reopen(run, op->node, row);
    return put_value(run, op, column, at, end);
}

/* Reads a field that isn't plain, or that comes again. */
static const uint8_t *read_singular(struct run *run, const struct kn_protobuf_op *op, int64_t row,
                                    uint32_t tag, const uint8_t *at, const uint8_t *end)
{
    struct kn_built *column = run->columns + op->node;
    if (__builtin_expect(is_closed(op), 0) && !is_known(run, op, at, end))
        return kn_wire_skip(&run->problem, tag, at, end);
    if (op->oneof >= 0 && !choose(run, op, row, at)) return NULL;
    switch (op->code) {
    case KN_PROTOBUF_CLEAR: return kn_wire_skip(&run->problem, tag, at, end);
    case KN_PROTOBUF_MESSAGE:
    case KN_PROTOBUF_GROUP: column->length = row + 1; return read_message(run, op, row, at, end);
    case KN_PROTOBUF_JSON:
    case KN_PROTOBUF_ENCODED: return put_piece(run, column, row, at, end);
    default: break;
    }
    if (__builtin_expect(column->length > row, 0))
        return read_singular_again(run, op, row, at, end);
    if (op->code == KN_PROTOBUF_WRAPPER) {
        put_zero(run, op->node);
        return read_message(run, op, row, at, end);
    }
    return put_value(run, op, column, at, end);
}

/* --- repeated fields --- */

static const uint8_t *make_room(struct run *run, const struct kn_protobuf_op *op, int64_t count,
                                const uint8_t *at)
{
    if (!may_expand(run, count * op->item_output_bytes, at)) return NULL;
    int status = kn_builder_reserve(run->builder, op->node + 1, count);
    return LIKELY(status == KN_OK) ? at : no_room(run, status, at);
}

static int64_t count_varints(const uint8_t *at, int64_t size_bytes)
{
    int64_t count = 0;
    for (int64_t i = 0; i < size_bytes; i++) count += at[i] < 0x80;
    return count;
}

static const uint8_t *read_packed(struct run *run, const struct kn_protobuf_op *op,
                                  const uint8_t *at, const uint8_t *end)
{
    struct kn_built *column = &run->columns[op->node + 1];
    enum kn_wire_type wire = kn_protobuf_op_wire(op);
    int64_t size = 0;
    const uint8_t *p = kn_wire_size(&run->problem, at, end, &size);
    if (!p) return NULL;
    const uint8_t *last = p + size;
    int64_t width = wire == KN_WIRE_FIXED32 ? 4 : 8;
    if (wire == KN_WIRE_VARINT) {
        if (!make_room(run, op, count_varints(p, size), at)) return NULL;
        while (p < last) {
            bool is_skipped = is_closed(op) && !is_known(run, op, p, last);
            p = is_skipped ? kn_wire_skip_value(&run->problem, KN_WIRE_VARINT, p, last)
                           : put_value(run, op, column, p, last);
            if (!p) return NULL;
        }
        return p;
    }
    if (size % width) return fail(run, KN_ERR_INVALID, "a packed list ends inside of an item", at);
    if (!make_room(run, op, size / width, at)) return NULL;
    if (KN_IS_LITTLE_ENDIAN) {
        if (size) memcpy(column->items + column->length * width, p, (size_t)size);
        column->length += size / width;
        return last;
    }
    while (p < last && p) p = put_fixed(run, column, (int32_t)width, p, last);
    return p;
}

/* Appends an entry to a map. An entry with an unknown number of a closed enum isn't one. */
static const uint8_t *read_entry(struct run *run, const struct kn_protobuf_op *op,
                                 const uint8_t *body, int64_t size_bytes)
{
    struct kn_built *entry = &run->columns[op->node + 1];
    int32_t value = run->builder->layout->nodes[op->node + 2].end;
    int64_t item = entry->length;
    if (!make_room(run, op, 1, body)) return NULL;
    entry->length++;
    run->has_unknown_value = 0;
    if (!read_fields(run, op->arg, item, body, body + size_bytes, 0)) return NULL;
    if (run->has_unknown_value && run->columns[value].length == item) {
        run->has_unknown_value = 0;
        kn_builder_truncate_node(run->builder, op->node + 1, item);
        return body + size_bytes;
    }
    return finish(run, op->arg, item, body + size_bytes);
}

static const uint8_t *read_map(struct run *run, const struct kn_protobuf_op *op, const uint8_t *at,
                               const uint8_t *end)
{
    struct entries *entries = &run->scratch->maps[op->map];
    const struct kn_built *list = &run->columns[op->node];
    int64_t size = 0, before = run->columns[op->node + 1].length;
    const uint8_t *body = kn_wire_size(&run->problem, at, end, &size);
    if (!body) return NULL;
    if (!read_entry(run, op, body, size)) return NULL;
    if (run->columns[op->node + 1].length == before) return body + size;
    if (before == kn_built_offsets(list)[list->length]) entries->count = 0;
    if (entries->count == entries->capacity) {
        int64_t capacity = entries->capacity ? 2 * entries->capacity : 16;
        struct entry *items = realloc(entries->items, (size_t)capacity * sizeof *items);
        if (!items) return no_room(run, KN_ERR_NOMEM, at);
        entries->items = items;
        entries->capacity = capacity;
    }
    entries->items[entries->count++] = (struct entry){body, size};
    return body + size;
}

/* Reads what a field adds to its list. */
static const uint8_t *read_repeated(struct run *run, const struct kn_protobuf_op *op, uint32_t tag,
                                    const uint8_t *at, const uint8_t *end)
{
    struct kn_built *column = &run->columns[op->node + 1];
    int64_t item = column->length;
    if (op->shape == KN_PROTOBUF_PACKED && (tag & 7) == KN_WIRE_DELIMITED)
        return read_packed(run, op, at, end);
    if (op->shape == KN_PROTOBUF_MAP) return read_map(run, op, at, end);
    if (is_closed(op) && !is_known(run, op, at, end))
        return kn_wire_skip(&run->problem, tag, at, end);
    if (!make_room(run, op, 1, at)) return NULL;
    switch (op->code) {
    case KN_PROTOBUF_MESSAGE:
    case KN_PROTOBUF_GROUP:
        column->length++;
        if (!(at = read_message(run, op, item, at, end))) return NULL;
        return finish(run, op->arg, item, at);
    case KN_PROTOBUF_WRAPPER:
        put_zero(run, op->node + 1);
        return read_message(run, op, item, at, end);
    case KN_PROTOBUF_JSON:
        if (!(at = put_piece(run, column, item, at, end))) return NULL;
        return finish_json(run, op, column, item, at);
    case KN_PROTOBUF_ENCODED: return put_piece(run, column, item, at, end);
    default: return put_value(run, op, column, at, end);
    }
}

/* --- duplicate keys of maps --- */

struct key {
    const uint8_t *data;
    int64_t size_bytes;
    int64_t index;
};

static struct key key_at(const struct run *run, int32_t node, int64_t first, int64_t index)
{
    static const uint8_t BOOLEANS[] = {0, 1};
    const struct kn_node *type = &run->builder->layout->nodes[node];
    const struct kn_built *column = &run->columns[node];
    int64_t at = first + index;
    if (type->kind == KN_NODE_BITS)
        return (struct key){BOOLEANS + kn_bit(column->items, at), 1, index};
    if (type->kind == KN_NODE_BYTES) {
        const int32_t *offsets = kn_built_offsets(column);
        int64_t size = offsets[at + 1] - offsets[at];
        /* without any bytes the column has no memory yet */
        return (struct key){size ? column->bytes + offsets[at] : NULL, size, index};
    }
    int64_t width = type->kind == KN_NODE_FIXED ? type->width_bytes : 4;
    return (struct key){column->items + at * width, width, index};
}

static int compare_keys(const struct key *a, const struct key *b)
{
    if (a->size_bytes != b->size_bytes) return a->size_bytes < b->size_bytes ? -1 : 1;
    return a->size_bytes ? memcmp(a->data, b->data, (size_t)a->size_bytes) : 0;
}

static int compare_keys_and_places(const void *a, const void *b)
{
    const struct key *left = a, *right = b;
    int order = compare_keys(left, right);
    return order ? order : left->index < right->index ? -1 : 1;
}

/* Marks entries whose key comes again. Returns -1 without memory, else whether there are any. */
static int mark_duplicates(struct run *run, const struct kn_protobuf_op *op, int64_t first,
                           int64_t count)
{
    struct entries *entries = &run->scratch->maps[op->map];
    int32_t node = op->node + 2;
    struct key few[FEW_KEYS], *keys = few;
    int found = 0;
    if (count > FEW_KEYS && !(keys = malloc((size_t)count * sizeof *keys))) return -1;
    for (int64_t i = 0; i < count; i++) keys[i] = key_at(run, node, first, i);
    if (count > FEW_KEYS) {
        qsort(keys, (size_t)count, sizeof *keys, compare_keys_and_places);
        for (int64_t i = 0; i + 1 < count; i++) {
            if (compare_keys(&keys[i], &keys[i + 1])) continue;
            entries->items[keys[i].index].at = NULL;
            found = 1;
        }
        free(keys);
        return found;
    }
    for (int64_t i = 0; i + 1 < count; i++) {
        for (int64_t k = i + 1; k < count && entries->items[i].at; k++) {
            if (compare_keys(&few[i], &few[k])) continue;
            entries->items[i].at = NULL;
            found = 1;
        }
    }
    return found;
}

/* Ends a map's row. The last entry of a key wins: if a key came again, the entries that stay are read
 * once more. */
static const uint8_t *finish_map(struct run *run, const struct kn_protobuf_op *op,
                                 const uint8_t *at)
{
    struct kn_built *list = &run->columns[op->node];
    struct entries *entries = &run->scratch->maps[op->map];
    int64_t first = kn_built_offsets(list)[list->length], count = list[1].length - first;
    int found = count > 1 ? mark_duplicates(run, op, first, count) : 0;
    if (found < 0) return no_room(run, KN_ERR_NOMEM, at);
    if (found) {
        kn_builder_truncate_node(run->builder, op->node + 1, first);
        for (int64_t i = 0; i < count; i++) {
            struct entry each = entries->items[i];
            if (!each.at) continue;
            /* maps in maps, all with a key that comes again, double the work at each level */
            if (!may_expand(run, each.size_bytes, at)) return NULL;
            if (!read_entry(run, op, each.at, each.size_bytes)) return NULL;
        }
    }
    kn_built_end_list(list, list + 1);
    return at;
}

/* --- messages --- */

/* Fills the slot of a field that the message lacks. */
static inline const uint8_t *put_missing(struct run *run, const struct kn_protobuf_op *op,
                                         int64_t row, const uint8_t *at)
{
    switch (op->missing) {
    case KN_PROTOBUF_NULL: kn_builder_append_null(run->builder, op->node); return at;
    case KN_PROTOBUF_ZERO: put_zero(run, op->node); return at;
    case KN_PROTOBUF_CONSTANT: return put_constant(run, op, at);
    case KN_PROTOBUF_EMPTY: run->columns[op->node].length++; return finish(run, op->arg, row, at);
    default: return fail(run, KN_ERR_INVALID, "a required field is missing", at);
    }
}

/* Ends a row: fills the slots that aren't set, and ends the lists. Returns `at`. */
static const uint8_t *finish(struct run *run, int32_t index, int64_t row, const uint8_t *at)
{
    const struct kn_protobuf_message *message = &run->program->messages[index];
    const struct kn_protobuf_op *op = run->program->ops + message->first,
                                *last = op + message->count;
    for (; op < last; op++) {
        const uint8_t *next = at;
        if (op->node < 0) continue;
        struct kn_built *column = run->columns + op->node;
        if (op->shape == KN_PROTOBUF_MAP) {
            next = finish_map(run, op, at);
        } else if (op->shape != KN_PROTOBUF_SINGULAR) {
            kn_built_end_list(column, column + 1);
        } else if (column->length <= row) {
            next = put_missing(run, op, row, at);
        } else if (!op->is_leaf) {
            next = op->code == KN_PROTOBUF_JSON ? finish_json(run, op, column, row, at)
                                                : finish(run, op->arg, row, at);
        }
        if (__builtin_expect(!next, 0)) {
            if (run->instruction < 0) run->instruction = (int32_t)(op - run->program->ops);
            return NULL;
        }
    }
    return at;
}

/* Returns the instruction of a field, or NULL if the field is unknown or has another wire type. */
static const struct kn_protobuf_op *find_op(const struct kn_protobuf_program *program,
                                            const struct kn_protobuf_message *message, uint32_t tag)
{
    const struct kn_protobuf_op *op = NULL;
    int32_t number = (int32_t)(tag >> 3), low = message->first, high = low + message->count;
    if (number < message->place_count) {
        int32_t place = program->places[message->places + number];
        if (place >= 0) op = &program->ops[place];
    } else {
        while (low < high) {
            int32_t middle = low + (high - low) / 2;
            if (program->ops[middle].number < number) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if (low < message->first + message->count && program->ops[low].number == number)
            op = &program->ops[low];
    }
    if (!op || op->tag == tag) return op;
    bool is_unpacked = op->shape == KN_PROTOBUF_PACKED && (tag & 7) == kn_protobuf_op_wire(op);
    return is_unpacked ? op : NULL;
}

/* Reads the fields of message number `index` into a row, up to `end` or to the tag that ends the
 * group. */
static const uint8_t *read_fields(struct run *run, int32_t index, int64_t row, const uint8_t *at,
                                  const uint8_t *end, uint32_t end_tag)
{
    const struct kn_protobuf_program *program = run->program;
    const struct kn_protobuf_message *message = &program->messages[index];
    const struct kn_protobuf_op *next = program->ops + message->first,
                                *last = next + message->count;
    const uint8_t *after;

    while (at < end) {
        uint32_t tag = 0;
        const struct kn_protobuf_op *op = next;
        if (!(after = kn_wire_tag(&run->problem, at, end, &tag))) goto failed;
        at = after;
        /* Most records have their fields in order. */
        if (!(op < last && op->tag == tag)) {
            if (__builtin_expect(tag == end_tag, 0)) return at;
            op = next + 1 < last && next[1].tag == tag ? next + 1 : find_op(program, message, tag);
        }
        if (__builtin_expect(!op, 0)) {
            after = kn_wire_skip(&run->problem, tag, at, end);
        } else if (LIKELY(op->is_plain) && LIKELY(run->columns[op->node].length <= row)) {
            after = put_value_inline(run, op, run->columns + op->node, at, end);
            next = op + 1;
        } else if (op->shape == KN_PROTOBUF_SINGULAR) {
            after = read_singular(run, op, row, tag, at, end);
            next = op + 1;
        } else {
            after = read_repeated(run, op, tag, at, end);
            next = op;
        }
        if (__builtin_expect(!after, 0)) {
            if (op && run->instruction < 0) run->instruction = (int32_t)(op - program->ops);
            goto failed;
        }
        at = after;
    }
    if (LIKELY(!end_tag)) return at;
    cut_off(run, at);
failed:
    if (run->instruction < 0) run->instruction = program->op_count + index;
    return NULL;
}

/* --- scratch --- */

static void free_maps(struct scratch *scratch)
{
    for (int32_t i = 0; i < scratch->map_count; i++) free(scratch->maps[i].items);
    free(scratch->maps);
    scratch->maps = NULL;
    scratch->map_count = 0;
}

static void scratch_free(void *memory)
{
    struct scratch *scratch = memory;
    free_maps(scratch);
    free(scratch->chosen);
    kn_json_text_deinit(&scratch->json);
    free(scratch);
}

/* Prepares the scratch for a program. */
static __attribute__((noinline)) bool prepare(struct kn_builder *builder,
                                              const struct kn_protobuf_program *program)
{
    struct scratch *scratch = builder->scratch;
    if (!scratch) {
        if (!(scratch = calloc(1, sizeof *scratch))) return 0;
        builder->scratch = scratch;
        builder->scratch_free = scratch_free;
    }
    scratch->serial = 0;
    free_maps(scratch);
    size_t oneofs = (size_t)program->oneof_count, maps = (size_t)program->map_count;
    int32_t *chosen = realloc(scratch->chosen, (oneofs + 1) * sizeof *chosen);
    if (!chosen) return 0;
    scratch->chosen = chosen;
    for (size_t i = 0; i < oneofs; i++) chosen[i] = -1;
    if (!(scratch->maps = calloc(maps + 1, sizeof *scratch->maps))) return 0;
    scratch->map_count = program->map_count;
    scratch->serial = program->serial;
    return 1;
}

/* Returns whether the run has the scratch of its program. */
static inline bool take_scratch(struct run *run)
{
    struct scratch *scratch = run->builder->scratch;
    bool is_ready = scratch && scratch->serial == run->program->serial;
    if (__builtin_expect(!is_ready, 0)) {
        if (!prepare(run->builder, run->program)) return 0;
        scratch = run->builder->scratch;
    }
    run->scratch = scratch;
    return 1;
}

static __attribute__((noinline, cold)) int report(struct run *run, int64_t row_count,
                                                  const uint8_t *start,
                                                  struct kn_decode_problem *problem)
{
    int32_t instruction = run->instruction < 0 ? run->program->op_count : run->instruction;
    *problem = (struct kn_decode_problem){instruction, run->problem.at - start, run->problem.text};
    kn_builder_truncate(run->builder, row_count);
    return run->problem.status;
}

int kn_protobuf_decode(const struct kn_protobuf_program *program, struct kn_builder *builder,
                       const uint8_t *data, int64_t size_bytes, struct kn_decode_problem *problem)
{
    static const uint8_t nothing[1];
    const uint8_t *start = data ? data : nothing, *at; /* NULL would be a failure */
    int64_t row = builder->columns[0].length;
    struct run run;

    run.program = program;
    run.builder = builder;
    run.columns = builder->columns;
    run.scratch = NULL;
    run.end = start + size_bytes;
    run.instruction = -1;
    run.has_unknown_value = 0;
    run.expansion_bytes = kn_builder_expansion(builder, size_bytes);
    int status = kn_builder_reserve(builder, 0, 1);
    if (status == KN_OK && !take_scratch(&run)) status = KN_ERR_NOMEM;
    if (__builtin_expect(status != KN_OK, 0)) {
        no_room(&run, status, start);
        return report(&run, row, start, problem);
    }
    builder->columns[0].length++;
    at = read_fields(&run, 0, row, start, run.end, 0);
    if (LIKELY(at != NULL) && LIKELY(finish(&run, 0, row, at) != NULL)) {
        builder->expansion_left_bytes = run.expansion_bytes;
        return KN_OK;
    }
    return report(&run, row, start, problem);
}

static int decode(const void *program, struct kn_builder *builder, const uint8_t *data,
                  int64_t size_bytes, struct kn_decode_problem *problem)
{
    return kn_protobuf_decode(program, builder, data, size_bytes, problem);
}

struct kn_decoder kn_protobuf_decoder(const struct kn_protobuf_program *program)
{
    return (struct kn_decoder){program, decode};
}
