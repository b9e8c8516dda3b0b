/* Decodes Avro records: see avro_decode.h.
 *
 * The position in the record is a local variable, and each helper returns the next one: so it stays
 * in a register. NULL: the helper has filled in the problem. */
#include "codecs/avro_decode.h"

#include "base/endian.h"
#include "base/utf8.h"
#include "base/varint.h"
#include "codecs/short_bytes.h"
#include "codecs/text_values.h"

#define DAY_MILLIS INT64_C(86400000)
#define DAY_MICROS INT64_C(86400000000)

struct frame { /* an array or a default that is open */
    const struct kn_avro_op *op;
    int64_t items_left; /* ARRAY: of the current block */
    const uint8_t *at;  /* DEFAULT: where the record goes on */
    const uint8_t *end;
};

struct run { /* one record */
    const struct kn_avro_program *program;
    struct kn_builder *builder;
    const uint8_t *end; /* of the record, or of a default's constant */
    struct kn_decode_failure problem;
    int32_t frame_count;
    int64_t empty_items_left;
    int64_t expansion_bytes;
    struct frame frames[KN_AVRO_FRAMES_MAX];
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

/* A number that doesn't end, or that has too many bits. */
static __attribute__((noinline, cold)) const uint8_t *bad_number(struct run *run, const uint8_t *at)
{
    const uint8_t *p = at;
    while (p < run->end && p - at < KN_VARLONG_MAX_BYTES && *p >= 0x80) p++;
    if (p == run->end) return cut_off(run, at);
    return fail(run, KN_ERR_INVALID, "a number has too many bits", at);
}

/* --- numbers --- */

static inline const uint8_t *read_long(struct run *run, const uint8_t *at, int64_t *value)
{
    const uint8_t *next = kn_varlong_get(at, run->end, value);
    return __builtin_expect(next != NULL, 1) ? next : bad_number(run, at);
}

static inline const uint8_t *read_int(struct run *run, const uint8_t *at, int32_t *value)
{
    const uint8_t *next = kn_varint_get(at, run->end, value);
    return __builtin_expect(next != NULL, 1) ? next : bad_number(run, at);
}

static inline void store(struct kn_built *column, const void *value, size_t width_bytes)
{
    memcpy(column->items + (size_t)column->length++ * width_bytes, value, width_bytes);
}

static inline const uint8_t *put_int(struct run *run, struct kn_built *column, int32_t code,
                                     const uint8_t *at)
{
    int32_t value = 0;
    if (!(at = read_int(run, at, &value))) return NULL;
    int64_t as_long = value;
    float as_float = (float)value;
    double as_double = value;
    switch (code) {
    case KN_AVRO_INT: store(column, &value, 4); break;
    case KN_AVRO_INT_AS_LONG: store(column, &as_long, 8); break;
    case KN_AVRO_INT_AS_FLOAT: store(column, &as_float, 4); break;
    default: store(column, &as_double, 8);
    }
    return at;
}

static inline const uint8_t *put_long(struct run *run, struct kn_built *column, int32_t code,
                                      const uint8_t *at)
{
    int64_t value = 0;
    if (!(at = read_long(run, at, &value))) return NULL;
    float as_float = (float)value;
    double as_double = (double)value;
    switch (code) {
    case KN_AVRO_LONG: store(column, &value, 8); break;
    case KN_AVRO_LONG_AS_FLOAT: store(column, &as_float, 4); break;
    default: store(column, &as_double, 8);
    }
    return at;
}

static inline const uint8_t *put_float(struct run *run, struct kn_built *column, int32_t code,
                                       const uint8_t *at)
{
    int32_t size = code == KN_AVRO_DOUBLE ? 8 : 4;
    float narrow;
    double wide;
    if (run->end - at < size) return cut_off(run, at);
    if (code == KN_AVRO_FLOAT_AS_DOUBLE) {
        kn_copy_little(&narrow, at, sizeof narrow);
        wide = (double)narrow;
        store(column, &wide, sizeof wide);
    } else if (code == KN_AVRO_DOUBLE) {
        kn_copy_little(&wide, at, sizeof wide);
        store(column, &wide, sizeof wide);
    } else {
        kn_copy_little(&narrow, at, sizeof narrow);
        store(column, &narrow, sizeof narrow);
    }
    return at + size;
}

static inline const uint8_t *put_boolean(struct run *run, struct kn_built *column,
                                         const uint8_t *at)
{
    if (at == run->end) return cut_off(run, at);
    if (*at > 1) return fail(run, KN_ERR_INVALID, "a boolean is neither 0 nor 1", at);
    kn_bit_put(column->items, column->length++, *at);
    return at + 1;
}

/* --- bytes --- */

/* Reads the size of bytes that follow, and checks it. */
static inline const uint8_t *read_size(struct run *run, const uint8_t *at, int64_t *size_bytes)
{
    const uint8_t *next = read_long(run, at, size_bytes);
    if (!next) return NULL;
    if (__builtin_expect((uint64_t)*size_bytes <= (uint64_t)(run->end - next), 1)) return next;
    return *size_bytes < 0 ? fail(run, KN_ERR_INVALID, "a length is negative", at)
                           : cut_off(run, at);
}

static inline const uint8_t *put_bytes(struct run *run, struct kn_built *column, bool is_text,
                                       const uint8_t *at)
{
    int64_t size = 0;
    const uint8_t *from = read_size(run, at, &size);
    if (!from) return NULL;
    int status = kn_builder_reserve_bytes(run->builder, column, size);
    if (__builtin_expect(status != KN_OK, 0)) return no_room(run, status, at);
    uint8_t *to = size ? column->bytes + column->bytes_used : NULL; /* there may be no memory yet */
    if (!kn_copy_bytes(to, from, size, run->end, is_text))
        return fail(run, KN_ERR_INVALID, "a string isn't UTF-8", at);
    kn_built_end_bytes(column, size);
    return from + size;
}

static inline const uint8_t *skip(struct run *run, const uint8_t *at, int64_t size_bytes)
{
    return size_bytes <= run->end - at ? at + size_bytes : cut_off(run, at);
}

static inline const uint8_t *skip_bytes(struct run *run, const uint8_t *at)
{
    int64_t size = 0;
    const uint8_t *from = read_size(run, at, &size);
    return from ? from + size : NULL;
}

static const uint8_t *put_fixed(struct run *run, struct kn_built *column, int64_t size,
                                const uint8_t *at)
{
    if (size > run->end - at) return cut_off(run, at);
    if (size) memcpy(column->items + column->length * size, at, (size_t)size);
    column->length++;
    return at + size;
}

/* --- logical types --- */

/* Returns whether the size of a number is below a limit. Both are little-endian, of `width` bytes. */
static bool is_below(const uint8_t *number, const uint8_t *limit, int64_t width)
{
    uint8_t invert = number[width - 1] & 0x80 ? 0xff : 0;
    unsigned carry = invert & 1;
    bool is_less = 0;
    for (int64_t i = 0; i < width; i++) {
        unsigned digit = (unsigned)(number[i] ^ invert) + carry;
        carry = digit >> 8;
        digit &= 0xff;
        if (digit != limit[i]) is_less = digit < limit[i];
    }
    return is_less;
}

/* Big-endian two's complement of any size, to a little-endian item of `width` bytes. */
static const uint8_t *put_decimal(struct run *run, struct kn_built *column,
                                  const struct kn_avro_op *op, const uint8_t *at)
{
    int64_t width = run->program->layout->nodes[op->node].width_bytes, size = op->arg;
    const uint8_t *from = at;
    if (op->code == KN_AVRO_DECIMAL_BYTES && !(from = read_size(run, at, &size))) return NULL;
    if (size > run->end - from) return cut_off(run, at);
    uint8_t sign = size && from[0] & 0x80 ? 0xff : 0;
    const uint8_t *last = from + size;
    uint8_t little[32], *item = column->items + column->length * width;
    bool fits = 1;
    for (int64_t i = 0; i < width; i++) little[i] = i < size ? last[-1 - i] : sign;
    for (int64_t i = 0; i < size - width; i++) fits &= from[i] == sign;
    fits &= (little[width - 1] & 0x80) == (sign & 0x80);
    if (!fits || !is_below(little, run->program->data.constants + op->count, width))
        return fail(run, KN_ERR_INVALID, "a decimal has too many digits", at);
    kn_copy_little(item, little, (size_t)width);
    column->length++;
    return last;
}

static const uint8_t *put_time(struct run *run, struct kn_built *column, int32_t code,
                               const uint8_t *at)
{
    int64_t value = 0, day = code == KN_AVRO_TIME_MICROS ? DAY_MICROS : DAY_MILLIS;
    const uint8_t *next = read_long(run, at, &value);
    if (!next) return NULL;
    if (value < 0 || value >= day)
        return fail(run, KN_ERR_INVALID, "a time is outside of the day", at);
    int32_t millis = (int32_t)value;
    if (code == KN_AVRO_TIME_MICROS) store(column, &value, 8);
    else store(column, &millis, 4);
    return next;
}

static const uint8_t *put_uuid(struct run *run, struct kn_built *column, const uint8_t *at)
{
    int64_t size = 0;
    const uint8_t *from = read_size(run, at, &size);
    if (!from) return NULL;
    const char *problem = kn_text_uuid(from, size, column->items + column->length * 16);
    if (problem) return fail(run, KN_ERR_INVALID, problem, at);
    column->length++;
    return from + size;
}

/* Avro: months, days and milliseconds. Arrow: months, days and nanoseconds, signed. */
static const uint8_t *put_duration(struct run *run, struct kn_built *column, const uint8_t *at)
{
    uint32_t parts[3];
    if (run->end - at < 12) return cut_off(run, at);
    for (int i = 0; i < 3; i++) kn_copy_little(&parts[i], at + 4 * i, 4);
    if (parts[0] > INT32_MAX || parts[1] > INT32_MAX)
        return fail(run, KN_ERR_INVALID, "a duration is out of its range", at);
    int64_t nanoseconds = (int64_t)parts[2] * 1000000;
    uint8_t *item = column->items + column->length++ * 16;
    memcpy(item, parts, 8);
    memcpy(item + 8, &nanoseconds, 8);
    return at + 12;
}

static const uint8_t *put_symbol(struct run *run, struct kn_built *column,
                                 const struct kn_avro_op *op, const uint8_t *at)
{
    int32_t symbol = 0;
    const uint8_t *next = read_int(run, at, &symbol);
    if (!next) return NULL;
    if (symbol < 0 || symbol >= op->count)
        return fail(run, KN_ERR_INVALID, "an enum has no such symbol", at);
    bool is_text = op->code == KN_AVRO_ENUM_TEXT;
    const int32_t *entry = &run->program->data.table[op->arg + (is_text ? 2 * symbol : symbol)];
    if (*entry < 0) return fail(run, KN_ERR_INVALID, "the reader's enum lacks a symbol", at);
    if (!is_text) {
        kn_built_offsets(column)[column->length++] = *entry;
        return next;
    }
    int status = kn_builder_reserve_bytes(run->builder, column, entry[1]);
    if (status != KN_OK) return no_room(run, status, at);
    if (entry[1])
        memcpy(column->bytes + column->bytes_used, run->program->data.constants + *entry,
               (size_t)entry[1]);
    kn_built_end_bytes(column, entry[1]);
    return next;
}

/* --- arrays, unions, defaults --- */

/* Reads the header of a block of the array in the top frame, and makes room for its items. Blocks
 * that are skipped and have their size are passed over. */
static const uint8_t *read_block(struct run *run, const uint8_t *at)
{
    struct frame *frame = &run->frames[run->frame_count - 1];
    const struct kn_avro_op *op = frame->op;
    const uint8_t *next = at;
    int64_t count = 0, size = 0;
    for (;;) {
        if (!(next = read_long(run, next, &count))) return NULL;
        if (count >= 0) break;
        if (count == INT64_MIN) return fail(run, KN_ERR_INVALID, "a block is too large", at);
        if (!(next = read_size(run, next, &size))) return NULL;
        count = -count;
        if (op->node >= 0) break;
        next += size;
    }
    frame->items_left = count;
    if (op->item_min_bytes) {
        if (count > (run->end - next) / op->item_min_bytes) return cut_off(run, at);
    } else if ((run->empty_items_left -= count < INT32_MAX ? count : INT32_MAX) < 0) {
        return fail(run, KN_ERR_TOO_LARGE, "arrays have too many empty items", at);
    }
    if (op->node < 0 || !count) return next;
    if (count > INT32_MAX || (run->expansion_bytes -= count * op->item_output_bytes) < 0)
        return fail(run, kn_builder_expansion_status(run->builder),
                    "arrays expand to too many bytes", at);
    int status = kn_builder_reserve(run->builder, op->node + 1, count);
    return status == KN_OK ? next : no_room(run, status, at);
}

/* Begins or goes on with the array in the top frame. *op becomes the instruction before the next
 * one. */
static const uint8_t *next_block(struct run *run, const struct kn_avro_op **op, const uint8_t *at)
{
    const struct kn_avro_op *array = run->frames[run->frame_count - 1].op;
    const uint8_t *next = read_block(run, at);
    if (!next) return NULL;
    if (run->frames[run->frame_count - 1].items_left) {
        *op = array;
        return next;
    }
    if (array->node >= 0) {
        struct kn_built *list = &run->builder->columns[array->node];
        kn_built_end_list(list, list + 1);
    }
    run->frame_count--;
    *op = run->program->ops + array->end - 1;
    return next;
}

/* Returns the first instruction of the branch that the record has, or NULL. */
static const struct kn_avro_op *find_branch(struct run *run, const struct kn_avro_op *op,
                                            const uint8_t **at)
{
    int64_t branch = 0;
    const uint8_t *next = read_long(run, *at, &branch);
    if (!next) return NULL;
    if (branch < 0 || branch >= op->count) {
        fail(run, KN_ERR_INVALID, "a union has no such branch", *at);
        return NULL;
    }
    int32_t first = run->program->data.table[op->arg + branch];
    if (first < 0) {
        fail(run, KN_ERR_INVALID, "a branch of a union doesn't fit the reader's type", *at);
        return NULL;
    }
    *at = next;
    return run->program->ops + first;
}

static const uint8_t *begin_default(struct run *run, const struct kn_avro_op *op, const uint8_t *at)
{
    run->frames[run->frame_count++] = (struct frame){op, 0, at, run->end};
    run->end = run->program->data.constants + op->arg + op->count;
    return run->program->data.constants + op->arg;
}

static const uint8_t *end_default(struct run *run)
{
    const struct frame *frame = &run->frames[--run->frame_count];
    run->end = frame->end;
    return frame->at;
}

/* Returns the branch of a NULLABLE: 0, 1, or -1. Two branches are one byte. */
static inline int read_branch(struct run *run, const uint8_t **at)
{
    if (__builtin_expect(*at < run->end && (**at == 0 || **at == 2), 1)) return *(*at)++ >> 1;
    int64_t branch = 0;
    const uint8_t *next = read_long(run, *at, &branch);
    if (next && (branch == 0 || branch == 1)) {
        *at = next;
        return (int)branch;
    }
    if (next) fail(run, KN_ERR_INVALID, "a union has no such branch", *at);
    return -1;
}

/* --- the loop --- */

/* Runs the program. Returns NULL at its end, or the instruction that failed. */
static const struct kn_avro_op *execute(struct run *run, const uint8_t *at)
{
    const struct kn_avro_op *ops = run->program->ops, *op = ops, *failed;
    struct kn_builder *builder = run->builder;
    struct kn_built *columns = builder->columns;
    int64_t number = 0;
    int branch;

    for (;; op++) {
        struct kn_built *column = columns + op->node;
        failed = op;
        switch (op->code) {
        case KN_AVRO_NONE:
        case KN_AVRO_RECORD: column->length++; break;
        case KN_AVRO_BOOLEAN: at = put_boolean(run, column, at); break;
        case KN_AVRO_INT: at = put_int(run, column, KN_AVRO_INT, at); break;
        case KN_AVRO_LONG: at = put_long(run, column, KN_AVRO_LONG, at); break;
        case KN_AVRO_FLOAT: at = put_float(run, column, KN_AVRO_FLOAT, at); break;
        case KN_AVRO_DOUBLE: at = put_float(run, column, KN_AVRO_DOUBLE, at); break;
        case KN_AVRO_INT_AS_LONG:
        case KN_AVRO_INT_AS_FLOAT:
        case KN_AVRO_INT_AS_DOUBLE: at = put_int(run, column, op->code, at); break;
        case KN_AVRO_LONG_AS_FLOAT:
        case KN_AVRO_LONG_AS_DOUBLE: at = put_long(run, column, op->code, at); break;
        case KN_AVRO_FLOAT_AS_DOUBLE: at = put_float(run, column, op->code, at); break;
        case KN_AVRO_TIME_MILLIS:
        case KN_AVRO_TIME_MICROS: at = put_time(run, column, op->code, at); break;
        case KN_AVRO_BYTES: at = put_bytes(run, column, 0, at); break;
        case KN_AVRO_TEXT: at = put_bytes(run, column, 1, at); break;
        case KN_AVRO_FIXED: at = put_fixed(run, column, op->arg, at); break;
        case KN_AVRO_ENUM:
        case KN_AVRO_ENUM_TEXT: at = put_symbol(run, column, op, at); break;
        case KN_AVRO_DECIMAL_BYTES:
        case KN_AVRO_DECIMAL_FIXED: at = put_decimal(run, column, op, at); break;
        case KN_AVRO_UUID_TEXT: at = put_uuid(run, column, at); break;
        case KN_AVRO_DURATION: at = put_duration(run, column, at); break;
        case KN_AVRO_ARRAY:
            run->frames[run->frame_count++] = (struct frame){.op = op};
            at = next_block(run, &op, at);
            break;
        case KN_AVRO_NEXT:
            if (--run->frames[run->frame_count - 1].items_left) {
                op = ops + op->arg;
            } else {
                at = next_block(run, &op, at);
            }
            break;
        case KN_AVRO_NULLABLE:
            if ((branch = read_branch(run, &at)) < 0) return failed;
            if (branch != op->arg) break;
            kn_builder_append_null(builder, op->node);
            op = ops + op->end - 1;
            break;
        case KN_AVRO_UNION:
            if (!(op = find_branch(run, op, &at))) return failed;
            op--;
            break;
        case KN_AVRO_JUMP: op = ops + op->end - 1; break;
        case KN_AVRO_TYPE: kn_built_put_type(column, op->arg, columns + op->count); break;
        case KN_AVRO_SET_NULL: kn_builder_append_null(builder, op->node); break;
        case KN_AVRO_DEFAULT: at = begin_default(run, op, at); break;
        case KN_AVRO_RESTORE: at = end_default(run); break;
        case KN_AVRO_SKIP_FIXED: at = skip(run, at, op->arg); break;
        case KN_AVRO_SKIP_VARINT: at = read_long(run, at, &number); break;
        case KN_AVRO_SKIP_BYTES: at = skip_bytes(run, at); break;
        default: return NULL; /* DONE */
        }
        if (__builtin_expect(!at, 0)) return failed;
    }
}

int kn_avro_decode(const struct kn_avro_program *program, struct kn_builder *builder,
                   const uint8_t *data, int64_t size_bytes, struct kn_decode_problem *problem)
{
    static const uint8_t nothing[1];
    const uint8_t *start = data ? data : nothing; /* NULL would be a failure */
    int64_t row_count = builder->columns[0].length;
    struct run run;

    run.program = program;
    run.builder = builder;
    run.end = start + size_bytes;
    run.frame_count = 0;
    run.empty_items_left = KN_AVRO_EMPTY_ITEMS_MAX;
    run.expansion_bytes = kn_builder_expansion(builder, size_bytes);
    int status = kn_builder_reserve(builder, 0, 1);
    if (__builtin_expect(status != KN_OK, 0)) {
        no_room(&run, status, start);
        *problem = (struct kn_decode_problem){0, 0, run.problem.text};
        return status;
    }
    const struct kn_avro_op *failed = execute(&run, start);
    if (__builtin_expect(!failed, 1)) {
        builder->expansion_left_bytes = run.expansion_bytes;
        return KN_OK;
    }
    /* A default isn't in the record: the position is where the outermost one began. */
    const uint8_t *at = run.problem.at;
    for (int32_t i = run.frame_count; i-- > 0;)
        if (run.frames[i].at) at = run.frames[i].at;
    *problem = (struct kn_decode_problem){(int32_t)(failed - program->ops), at - start,
                                          run.problem.text};
    kn_builder_truncate(builder, row_count);
    return run.problem.status;
}

static int decode(const void *program, struct kn_builder *builder, const uint8_t *data,
                  int64_t size_bytes, struct kn_decode_problem *problem)
{
    return kn_avro_decode(program, builder, data, size_bytes, problem);
}

struct kn_decoder kn_avro_decoder(const struct kn_avro_program *program)
{
    return (struct kn_decoder){program, decode};
}
