/* Encodes records: see record_encode.h.
 *
 * The place to write is a local variable, and each helper returns the next one: so it stays in a
 * register. NULL: the helper has filled in the problem. Up to KN_BUILDER_SLACK_BYTES may be written
 * without a check: the loop makes room again after each instruction. */
#include "codecs/record_encode.h"

#include "base/endian.h"
#include "base/utf8.h"
#include "base/varint.h"
#include "codecs/json_output.h"
#include "codecs/json_reader.h"
#include "codecs/limbs.h"
#include "codecs/protobuf_struct.h"
#include "codecs/protobuf_wire.h"

#define ESCAPED_PART_BYTES 1024 /* of text, for which room is made at once */
#define DAY_S 86400

static const char OUTSIDE_OF_DAY[] = "the time isn't within a day";

struct frame { /* a body that has set the index */
    const struct kn_encode_op *op;
    int64_t index; /* to restore */
    int64_t next;  /* lists: the next item, and the end; DELIMITED: the place of its size */
    int64_t end;
};

struct run { /* one record */
    const struct kn_encode_program *program;
    const struct kn_nested *columns;
    struct kn_builder *builder;
    uint8_t *limit; /* the slack follows */
    int64_t used;   /* the bytes before the record */
    int32_t status;
    const char *text;
    int32_t frame_count;
    int64_t empty_items_left;
    struct frame frames[KN_ENCODE_FRAMES_MAX];
};

/* --- room and problems --- */

static __attribute__((noinline, cold)) uint8_t *fail(struct run *run, int status, const char *text)
{
    run->status = status;
    run->text = text;
    return NULL;
}

static uint8_t *refuse(struct run *run, const char *text)
{
    return fail(run, KN_ERR_INVALID, text);
}

static uint8_t *refuse_null(struct run *run)
{
    return refuse(run, "the schema doesn't allow null here");
}

static uint8_t *refuse_changed(struct run *run)
{
    return refuse(run, "the column is malformed: an item is outside of its buffers");
}

static __attribute__((noinline)) uint8_t *grow(struct run *run, uint8_t *to, int64_t more_bytes)
{
    struct kn_built *records = &run->builder->columns[0];
    int64_t before = records->bytes_used;
    records->bytes_used = to - records->bytes;
    int status = kn_builder_grow_bytes(run->builder, records, more_bytes);
    int64_t used = records->bytes_used;
    records->bytes_used = before;
    if (status != KN_OK) return fail(run, status, "there is no more room");
    run->limit = records->bytes + records->bytes_room;
    return records->bytes + used;
}

static inline uint8_t *reserve(struct run *run, uint8_t *to, int64_t bytes)
{
    return bytes <= run->limit - to ? to : grow(run, to, bytes);
}

/* --- numbers --- */

/* Writes a number, the lowest byte first. */
static inline uint8_t *put_little(uint8_t *to, const void *number, int32_t size)
{
    kn_copy_little(to, number, (size_t)size);
    return to + size;
}

static inline int64_t load_integer(const uint8_t *at, int32_t width, bool is_signed)
{
    uint16_t two;
    uint32_t four;
    switch (width) {
    case 1: return is_signed ? (int64_t)(int8_t)*at : *at;
    case 2: memcpy(&two, at, 2); return is_signed ? (int64_t)(int16_t)two : two;
    case 4: memcpy(&four, at, 4); return is_signed ? (int64_t)(int32_t)four : four;
    default: return kn_arrow_i64(at);
    }
}

static inline uint8_t *put_integer(struct run *run, int64_t value, int32_t bits, uint8_t *to)
{
    if (bits == 32 && value != (int32_t)value)
        return refuse(run, "the number is out of the range of an int");
    return kn_varint_put(to, value);
}

static inline uint8_t *put_long(struct run *run, const struct kn_encode_op *op, int64_t index,
                                uint8_t *to)
{
    int32_t width = run->columns->type->nodes[op->node].width;
    int64_t value = load_integer(run->columns->columns[op->node].items + index * width, width,
                                 op->arg);
    if (width == 8 && !op->arg && value < 0)
        return refuse(run, "the number is out of the range of a long");
    return put_integer(run, value, op->count, to);
}

/* Reads an integer that VARINT, LITTLE or JSON_INTEGER writes. Unsigned ones have the bits of an int64. */
static bool load_in_range(const struct run *run, const struct kn_encode_op *op, int64_t index,
                          int64_t *value)
{
    int32_t width = run->columns->type->nodes[op->node].width;
    bool is_signed = op->arg & 1, wants_signed = op->arg & 2;
    *value = load_integer(run->columns->columns[op->node].items + index * width, width, is_signed);
    if (width == 8 && *value < 0 && is_signed != wants_signed) return 0;
    if (*value < 0 && is_signed && !wants_signed) return 0;
    if (op->count == 64) return 1;
    int64_t max = INT64_MAX >> (64 - op->count - !wants_signed);
    return *value <= max && *value >= (wants_signed ? -max - 1 : 0);
}

static uint8_t *put_plain_integer(struct run *run, const struct kn_encode_op *op, int64_t index,
                                  uint8_t *to)
{
    int64_t value;
    if (!load_in_range(run, op, index, &value))
        return refuse(run, "the number is out of the range of the field");
    if (op->code == KN_ENCODE_VARINT) return kn_uvarint_put(to, (uint64_t)value);
    uint32_t low = (uint32_t)value;
    return op->count == 32 ? put_little(to, &low, 4) : put_little(to, &value, 8);
}

/* Writes the message Timestamp or Duration: seconds and nanoseconds, behind the size. */
static uint8_t *put_seconds(struct run *run, const struct kn_encode_op *op, int64_t index,
                            uint8_t *to)
{
    int32_t width = run->columns->type->nodes[op->node].width;
    int64_t value = load_integer(run->columns->columns[op->node].items + index * width, width, 1);
    int64_t seconds = value / op->arg, rest = value % op->arg;
    bool is_timestamp = op->code == KN_ENCODE_TIMESTAMP;
    if (is_timestamp && rest < 0) {
        seconds--;
        rest += op->arg;
    }
    if (is_timestamp ? seconds < KN_WIRE_TIMESTAMP_MIN_S || seconds > KN_WIRE_TIMESTAMP_MAX_S
                     : seconds < -KN_WIRE_DURATION_MAX_S || seconds > KN_WIRE_DURATION_MAX_S)
        return refuse(run, "the time is out of Protobuf's range");
    int64_t nanoseconds = rest * (1000000000 / op->arg);
    uint8_t *start = to++;
    if (seconds) {
        *to++ = 0x08;
        to = kn_uvarint_put(to, (uint64_t)seconds);
    }
    if (nanoseconds) {
        *to++ = 0x10;
        to = kn_uvarint_put(to, (uint64_t)nanoseconds);
    }
    *start = (uint8_t)(to - start - 1);
    return to;
}

/* Multiplies or divides a number by `arg`. Returns whether the result is exact. */
static bool load_scaled(struct run *run, const struct kn_encode_op *op, int64_t index,
                        bool is_quotient, int64_t *value)
{
    int32_t width = run->columns->type->nodes[op->node].width;
    *value = load_integer(run->columns->columns[op->node].items + index * width, width, 1);
    if (!is_quotient) {
        if (!__builtin_mul_overflow(*value, (int64_t)op->arg, value)) return 1;
        return refuse(run, "the time is out of range in the schema's unit");
    }
    if (*value % op->arg) return refuse(run, "the schema's unit is too coarse for the time");
    *value /= op->arg;
    return 1;
}

static uint8_t *put_scaled(struct run *run, const struct kn_encode_op *op, int64_t index,
                           uint8_t *to)
{
    int64_t value;
    if (!load_scaled(run, op, index, op->code == KN_ENCODE_DIVIDE, &value)) return NULL;
    return put_integer(run, value, op->count, to);
}

static uint8_t *check_time(struct run *run, const struct kn_encode_op *op, int64_t index,
                           uint8_t *to)
{
    int32_t width = run->columns->type->nodes[op->node].width;
    int64_t value = load_integer(run->columns->columns[op->node].items + index * width, width, 1);
    return value >= 0 && value < (int64_t)DAY_S * op->arg ? to : refuse(run, OUTSIDE_OF_DAY);
}

static double half_to_double(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double sign = half & 0x8000 ? -1.0 : 1.0;
    if (exponent == 31) return sign * (fraction ? __builtin_nan("") : __builtin_inf());
    return sign * (exponent ? __builtin_ldexp(1024 + fraction, exponent - 25)
                            : __builtin_ldexp(fraction, -24));
}

/* Reads a number that FLOAT or DOUBLE writes. *is_exact: whether it is unchanged. */
static double load_real(const uint8_t *at, int32_t width, int32_t number, bool *is_exact)
{
    uint16_t half;
    float single;
    double real;
    *is_exact = 1;
    if (number == KN_ENCODE_NUMBER_HALF) {
        memcpy(&half, at, sizeof half);
        return half_to_double(half);
    }
    if (number == KN_ENCODE_NUMBER_SINGLE) {
        memcpy(&single, at, sizeof single);
        return single;
    }
    if (number == KN_ENCODE_NUMBER_DOUBLE) {
        memcpy(&real, at, sizeof real);
        return real;
    }
    int64_t value = load_integer(at, width, number == KN_ENCODE_NUMBER_SIGNED);
    bool is_huge = number == KN_ENCODE_NUMBER_UNSIGNED && value < 0;
    uint64_t size = value < 0 && !is_huge ? -(uint64_t)value : (uint64_t)value;
    /* exact: no more than 53 bits between the highest and the lowest one */
    *is_exact = !size || 64 - __builtin_clzll(size) - __builtin_ctzll(size) <= 53;
    return is_huge ? (double)(uint64_t)value : (double)value;
}

static uint8_t *put_real(struct run *run, const struct kn_encode_op *op, int64_t index, uint8_t *to)
{
    int32_t width = run->columns->type->nodes[op->node].width;
    bool is_exact;
    double real = load_real(run->columns->columns[op->node].items + index * width, width, op->arg,
                            &is_exact);
    if (op->code == KN_ENCODE_DOUBLE) {
        if (!is_exact) return refuse(run, "the number has too many digits for a double");
        return put_little(to, &real, 8);
    }
    float single = (float)real;
    bool is_integer = op->arg >= KN_ENCODE_NUMBER_SIGNED;
    if ((op->arg == KN_ENCODE_NUMBER_DOUBLE || is_integer) && real == real &&
        (!is_exact || (double)single != real))
        return refuse(run, "the number has too many digits for a float");
    return put_little(to, &single, 4);
}

/* --- bytes --- */

/* Returns the bytes of an item that isn't null. */
static inline const uint8_t *bytes_of(struct run *run, const struct kn_encode_op *op, int64_t index,
                                      int64_t *size)
{
    const uint8_t *data;
    int status = kn_arrow_value(&run->columns->columns[op->node].bytes, index, &data, size);
    if (__builtin_expect(status != KN_OK || !data, 0)) {
        refuse_changed(run);
        return NULL;
    }
    return data;
}

static bool is_uuid(const uint8_t *text, int64_t size)
{
    if (size != KN_UUID_TEXT_BYTES) return 0;
    for (int i = 0; i < KN_UUID_TEXT_BYTES; i++) {
        uint8_t c = text[i], lower = c | 0x20;
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        bool is_hex = (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'f');
        if (is_dash ? c != '-' : !is_hex) return 0;
    }
    return 1;
}

static uint8_t *put_bytes(struct run *run, const struct kn_encode_op *op, int64_t index,
                          uint8_t *to)
{
    int64_t size;
    const uint8_t *from = bytes_of(run, op, index, &size);
    if (!from) return NULL;
    if (op->code == KN_ENCODE_TEXT && !kn_utf8_is_valid(from, (size_t)size))
        return refuse(run, "the text isn't UTF-8");
    if (op->code == KN_ENCODE_UUID && !is_uuid(from, size))
        return refuse(run, "the text isn't a UUID");
    if (op->code == KN_ENCODE_FIXED && size != op->arg)
        return refuse(run, "the value has another size than the fixed");
    if (size > INT32_MAX) return fail(run, KN_ERR_TOO_LARGE, "the value is too large");
    if (!(to = reserve(run, to, size + KN_VARLONG_MAX_BYTES))) return NULL;
    if (op->code != KN_ENCODE_FIXED)
        to = op->arg ? kn_uvarint_put(to, (uint64_t)size) : kn_varint_put(to, size);
    if (size) memcpy(to, from, (size_t)size);
    return to + size;
}

static uint8_t *put_struct(struct run *run, const struct kn_encode_op *op, int64_t index,
                           uint8_t *to)
{
    struct kn_built *records = &run->builder->columns[0];
    int64_t before = records->bytes_used, size;
    const uint8_t *text = bytes_of(run, op, index, &size);
    const char *problem = NULL;
    if (!text) return NULL;
    records->bytes_used = to - records->bytes;
    int status = kn_protobuf_struct_put(run->builder, records, (enum kn_protobuf_json_kind)op->arg,
                                        text, size, &problem);
    to = records->bytes + records->bytes_used;
    records->bytes_used = before;
    run->limit = records->bytes + records->bytes_room;
    if (status == KN_OK) return to;
    return fail(run, status, problem ? problem : "there is no more room");
}

static uint8_t *put_uuid_text(struct run *run, const struct kn_encode_op *op, int64_t index,
                              uint8_t *to)
{
    const uint8_t *from = run->columns->columns[op->node].items + index * 16;
    if (!(to = reserve(run, to, KN_UUID_TEXT_BYTES + 1))) return NULL;
    return kn_uuid_put(kn_varint_put(to, KN_UUID_TEXT_BYTES), from);
}

/* Returns the table entries of the symbol with these bytes; NULL: there is none. */
static const int32_t *find_symbol(struct run *run, const struct kn_encode_op *op,
                                  const uint8_t *bytes, int64_t size)
{
    for (int32_t low = 0, high = op->count; low < high;) {
        int32_t middle = (low + high) / 2;
        const int32_t *symbol = run->program->data.table + op->arg + 3 * middle;
        int64_t common = size < symbol[1] ? size : symbol[1];
        int order = memcmp(bytes, run->program->data.constants + symbol[0], (size_t)common);
        if (!order) order = (size > symbol[1]) - (size < symbol[1]);
        if (!order) return symbol;
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    refuse(run, "the enum has no such symbol");
    return NULL;
}

static uint8_t *put_symbol(struct run *run, const struct kn_encode_op *op, int64_t index,
                           uint8_t *to)
{
    int64_t size;
    const uint8_t *from = bytes_of(run, op, index, &size);
    const int32_t *symbol = from ? find_symbol(run, op, from, size) : NULL;
    if (!symbol) return NULL;
    if (op->code == KN_ENCODE_ENUM) return kn_varint_put(to, symbol[2]);
    return kn_uvarint_put(to, (uint64_t)(int64_t)symbol[2]);
}

/* Arrow: months, days and nanoseconds. Avro: months, days and milliseconds, unsigned. */
static uint8_t *put_duration(struct run *run, const struct kn_encode_op *op, int64_t index,
                             uint8_t *to)
{
    const uint8_t *from = run->columns->columns[op->node].items + index * 16;
    int64_t nanoseconds = kn_arrow_i64(from + 8);
    if (kn_arrow_i32(from) < 0 || kn_arrow_i32(from + 4) < 0 || nanoseconds < 0)
        return refuse(run, "Avro has no negative durations");
    if (nanoseconds % 1000000) return refuse(run, "Avro's durations have whole milliseconds");
    if (nanoseconds / 1000000 > UINT32_MAX)
        return refuse(run, "the duration has too many milliseconds");
    uint32_t milliseconds = (uint32_t)(nanoseconds / 1000000);
    to = put_little(put_little(to, from, 4), from + 4, 4);
    return put_little(to, &milliseconds, 4);
}

/* --- decimals --- */

/* Loads a decimal in the schema's scale. Returns whether it fits. */
static bool load_decimal(struct run *run, const struct kn_encode_op *op, int64_t index,
                         uint32_t size[KN_LIMBS], bool *is_negative)
{
    const int32_t *entry = run->program->data.table + op->arg;
    int32_t width = run->columns->type->nodes[op->node].width;
    *is_negative = kn_limbs_load(size, run->columns->columns[op->node].items + index * width, width,
                                 entry[0]);
    if (!kn_limbs_scale(size, entry[1]))
        return refuse(run, entry[1] < 0 ? "the schema's scale has too few digits for the decimal"
                                        : "a decimal has too many digits");
    return kn_limbs_are_below(size, run->program->data.constants + entry[3]) ||
           refuse(run, "a decimal has too many digits");
}

static uint8_t *put_decimal(struct run *run, const struct kn_encode_op *op, int64_t index,
                            uint8_t *to)
{
    int32_t wanted = run->program->data.table[op->arg + 2];
    uint8_t little[KN_LIMBS_BYTES];
    uint32_t size[KN_LIMBS];
    bool is_negative;

    if (!load_decimal(run, op, index, size, &is_negative)) return NULL;
    int32_t count = kn_limbs_to_little(size, is_negative, little);
    if (wanted < 0) {
        /* 1 + 32 bytes: one more than the slack */
        if (!(to = reserve(run, to, KN_LIMBS_BYTES + 1))) return NULL;
        to = kn_varint_put(to, count);
        wanted = count;
    } else if (count > wanted) {
        return refuse(run, "a decimal has too many digits for the fixed");
    }
    if (!(to = reserve(run, to, wanted))) return NULL;
    uint8_t sign = little[KN_LIMBS_BYTES - 1] & 0x80 ? 0xff : 0;
    for (int32_t i = 0; i < wanted; i++) to[wanted - 1 - i] = i < KN_LIMBS_BYTES ? little[i] : sign;
    return to + wanted;
}

/* --- JSON --- */

/* Writes a number, date or time, which fits the slack. */
static uint8_t *put_json_number(struct run *run, const struct kn_encode_op *op, int64_t index,
                                uint8_t *to)
{
    int64_t value;
    if (op->code == KN_ENCODE_JSON_INTEGER) {
        if (!load_in_range(run, op, index, &value))
            return refuse(run, "the number is out of the range of the field");
        return op->arg & 2 ? kn_json_int_put(to, value) : kn_json_uint_put(to, (uint64_t)value);
    }
    if (op->code == KN_ENCODE_JSON_MULTIPLY || op->code == KN_ENCODE_JSON_DIVIDE) {
        bool is_quotient = op->code == KN_ENCODE_JSON_DIVIDE;
        return load_scaled(run, op, index, is_quotient, &value) ? kn_json_int_put(to, value) : NULL;
    }
    int32_t width = run->columns->type->nodes[op->node].width;
    const uint8_t *from = run->columns->columns[op->node].items + index * width;
    if (op->code == KN_ENCODE_JSON_REAL) {
        bool is_exact;
        double real = load_real(from, width, op->arg, &is_exact);
        to = op->arg == KN_ENCODE_NUMBER_DOUBLE ? kn_json_double_put(to, real)
                                                : kn_json_float_put(to, (float)real);
        return to ? to : refuse(run, "JSON has neither NaN nor infinity");
    }
    value = load_integer(from, width, 1);
    if (op->code == KN_ENCODE_JSON_TIME) {
        to = kn_json_time_put(to, value, op->arg, op->count);
        return to ? to : refuse(run, OUTSIDE_OF_DAY);
    }
    if (op->code == KN_ENCODE_JSON_TIMESTAMP) {
        to = kn_json_timestamp_put(to, value, op->arg, op->count);
    } else if (value % op->arg) {
        return refuse(run, "the date isn't at midnight");
    } else {
        to = kn_json_date_put(to, value / op->arg);
    }
    return to ? to : refuse(run, "the year isn't between 0000 and 9999");
}

static uint8_t *put_json_text(struct run *run, const uint8_t *from, int64_t size, uint8_t *to)
{
    bool is_ascii;
    if (!(to = reserve(run, to, size + 2))) return NULL;
    *to++ = '"';
    int64_t plain = kn_json_plain_put(to, from, size, &is_ascii);
    to += plain;
    if (__builtin_expect(!is_ascii || plain < size, 0)) {
        if (!kn_utf8_is_valid(from, (size_t)size)) return refuse(run, "the text isn't UTF-8");
        for (int64_t part; plain < size; plain += part) {
            part = size - plain < ESCAPED_PART_BYTES ? size - plain : ESCAPED_PART_BYTES;
            if (!(to = reserve(run, to, part * KN_JSON_ESCAPE_MAX_BYTES))) return NULL;
            to = kn_json_escaped_put(to, from + plain, part);
        }
        if (!(to = reserve(run, to, 1))) return NULL;
    }
    *to++ = '"';
    return to;
}

static uint8_t *put_json_bytes(struct run *run, const struct kn_encode_op *op, int64_t index,
                               uint8_t *to)
{
    int64_t size;
    const uint8_t *from = bytes_of(run, op, index, &size);
    if (!from) return NULL;
    if (size > INT32_MAX) return fail(run, KN_ERR_TOO_LARGE, "the value is too large");
    const char *problem;
    switch (op->code) {
    case KN_ENCODE_JSON_BASE64:
        if (op->count && size != op->arg)
            return refuse(run, "the value has another size than the field");
        if (!(to = reserve(run, to, kn_json_base64_bytes(size)))) return NULL;
        return kn_json_base64_put(to, from, size);
    case KN_ENCODE_JSON_RAW:
        if (!kn_utf8_is_valid(from, (size_t)size)) return refuse(run, "the text isn't UTF-8");
        problem = kn_json_text_check(from, size, KN_JSON_READER_DEPTH_MAX);
        if (problem) return refuse(run, problem);
        if (!(to = reserve(run, to, size))) return NULL;
        memcpy(to, from, (size_t)size);
        return to + size;
    case KN_ENCODE_JSON_UUID:
        if (!is_uuid(from, size)) return refuse(run, "the text isn't a UUID");
        break;
    case KN_ENCODE_JSON_ENUM:
        if (!find_symbol(run, op, from, size)) return NULL;
        break;
    default: break;
    }
    return put_json_text(run, from, size, to);
}

static uint8_t *put_json_decimal(struct run *run, const struct kn_encode_op *op, int64_t index,
                                 uint8_t *to)
{
    int32_t digits = run->program->data.table[op->arg + 2];
    uint8_t little[KN_LIMBS_BYTES], big[KN_LIMBS_BYTES];
    uint32_t size[KN_LIMBS];
    bool is_negative;

    if (!load_decimal(run, op, index, size, &is_negative)) return NULL;
    if (!(to = reserve(run, to, KN_JSON_DECIMAL_MAX_BYTES + 2))) return NULL;
    if (op->count == KN_ENCODE_DECIMAL_BASE64) {
        int32_t count = kn_limbs_to_little(size, is_negative, little);
        for (int32_t i = 0; i < count; i++) big[i] = little[count - 1 - i];
        return kn_json_base64_put(to, big, count);
    }
    if (op->count == KN_ENCODE_DECIMAL_STRING) *to++ = '"';
    to = kn_json_decimal_put(to, size, is_negative, digits);
    if (op->count == KN_ENCODE_DECIMAL_STRING) *to++ = '"';
    return to;
}

static uint8_t *put_json(struct run *run, const struct kn_encode_op *op, int64_t index, uint8_t *to)
{
    const struct kn_nested_column *column = &run->columns->columns[op->node];
    switch (op->code) {
    case KN_ENCODE_JSON_BOOLEAN:
        if (kn_bit(column->items, column->first + index)) {
            memcpy(to, "true", 4);
            return to + 4;
        }
        memcpy(to, "false", 5);
        return to + 5;
    case KN_ENCODE_JSON_TEXT:
    case KN_ENCODE_JSON_BASE64:
    case KN_ENCODE_JSON_UUID:
    case KN_ENCODE_JSON_ENUM:
    case KN_ENCODE_JSON_RAW: return put_json_bytes(run, op, index, to);
    case KN_ENCODE_JSON_UUID_TEXT:
        if (!(to = reserve(run, to, KN_JSON_UUID_BYTES))) return NULL;
        return kn_json_uuid_put(to, column->items + index * 16);
    case KN_ENCODE_JSON_DECIMAL: return put_json_decimal(run, op, index, to);
    default: return put_json_number(run, op, index, to);
    }
}

/* Ends an object or array. Each of its values may have written a comma behind itself. */
static inline uint8_t *end_json(const struct run *run, const struct kn_encode_op *op, uint8_t *to)
{
    const struct kn_built *records = &run->builder->columns[0];
    if (to - records->bytes > records->bytes_used && to[-1] == ',') to--;
    *to = (uint8_t)op->arg;
    return to + 1;
}

/* --- bodies --- */

static inline void push(struct run *run, const struct kn_encode_op *op, int64_t *index,
                        int64_t inner)
{
    run->frames[run->frame_count++] = (struct frame){.op = op, .index = *index};
    *index = inner;
}

/* Begins a list. *op becomes the instruction before the next one. */
static uint8_t *begin_array(struct run *run, const struct kn_encode_op **op, int64_t *index,
                            uint8_t *to)
{
    const struct kn_encode_op *array = *op;
    int64_t first, end;
    if (kn_nested_range(run->columns, array->node, *index, &first, &end) != KN_OK)
        return refuse_changed(run);
    bool is_block = array->code == KN_ENCODE_ARRAY;
    if (first == end) {
        *op = run->program->ops + array->end - 1;
        *to = 0;
        return to + is_block;
    }
    if (array->is_empty && (run->empty_items_left -= end - first) < 0)
        return fail(run, KN_ERR_TOO_LARGE, "arrays have too many empty items");
    push(run, array, index, first);
    run->frames[run->frame_count - 1].next = first + 1;
    run->frames[run->frame_count - 1].end = end;
    return is_block ? kn_varint_put(to, end - first) : to;
}

static uint8_t *next_item(struct run *run, const struct kn_encode_op **op, int64_t *index,
                          uint8_t *to)
{
    struct frame *frame = &run->frames[run->frame_count - 1];
    if (frame->next < frame->end) {
        *index = frame->next++;
        *op = frame->op;
        return to;
    }
    *index = frame->index;
    run->frame_count--;
    *to = 0;
    return to + (frame->op->code == KN_ENCODE_ARRAY);
}

static uint8_t *begin_delimited(struct run *run, const struct kn_encode_op *op, int64_t *index,
                                uint8_t *to)
{
    push(run, op, index, *index);
    run->frames[run->frame_count - 1].next = to - run->builder->columns[0].bytes;
    return to + 1;
}

/* Writes the size before the bytes. Most sizes take the one byte that was left for them. */
static uint8_t *end_delimited(struct run *run, uint8_t *to)
{
    int64_t place = run->frames[--run->frame_count].next;
    uint8_t *start = run->builder->columns[0].bytes + place;
    int64_t size = to - start - 1;
    int64_t more = (int64_t)kn_uvarint_size((uint64_t)size) - 1;
    if (more) {
        if (!(to = reserve(run, to, more))) return NULL;
        start = run->builder->columns[0].bytes + place;
        memmove(start + 1 + more, start + 1, (size_t)size);
    }
    kn_uvarint_put(start, (uint64_t)size);
    return to + more;
}

static bool is_empty(const struct run *run, const struct kn_encode_op *op, int64_t index)
{
    const struct kn_nested_node *node = &run->columns->type->nodes[op->node];
    const struct kn_nested_column *column = &run->columns->columns[op->node];
    const uint8_t *data;
    int64_t first, end;
    switch (node->kind) {
    case KN_NESTED_BITS: return !kn_bit(column->items, column->first + index);
    case KN_NESTED_FIXED:
        for (int32_t i = 0; i < node->width; i++)
            if (column->items[index * node->width + i]) return 0;
        return 1;
    case KN_NESTED_BYTES32:
    case KN_NESTED_BYTES64:
    case KN_NESTED_VIEWS:
        return kn_arrow_value(&column->bytes, index, &data, &end) == KN_OK && !end;
    case KN_NESTED_LIST32:
    case KN_NESTED_LIST64:
    case KN_NESTED_FIXED_LIST:
        return kn_nested_range(run->columns, op->node, index, &first, &end) == KN_OK &&
               first == end;
    default: return 0;
    }
}

static uint8_t *check_one_of(struct run *run, const struct kn_encode_op *op, int64_t index,
                             uint8_t *to)
{
    int32_t count = 0;
    for (int32_t i = 0; i < op->count; i++)
        count += !kn_nested_is_null(run->columns, run->program->data.table[op->arg + i], index);
    return count > 1 ? refuse(run, "more than one field of the oneof is set") : to;
}

static uint8_t *begin_union(struct run *run, const struct kn_encode_op **op, int64_t *index,
                            uint8_t *to)
{
    const struct kn_encode_op *at = *op;
    const struct kn_nested_column *column = &run->columns->columns[at->node];
    uint8_t id = column->ids[*index];
    if (id >= at->count) return refuse(run, "the schema has no type for this item of the union");
    const int32_t *entry = run->program->data.table + at->arg + 2 * (int32_t)id;
    if (entry[0] < 0) return refuse(run, "the schema has no type for this item of the union");
    int64_t inner = *index;
    if (run->columns->type->nodes[at->node].kind == KN_NESTED_DENSE_UNION) {
        inner = kn_arrow_i32(column->items + *index * 4);
        if (inner < 0 || inner >= run->columns->columns[entry[1]].length)
            return refuse_changed(run);
    }
    push(run, at, index, inner);
    *op = run->program->ops + entry[0] - 1;
    return to;
}

static uint8_t *begin_choice(struct run *run, const struct kn_encode_op **op, int64_t *index,
                             uint8_t *to)
{
    const struct kn_encode_op *at = *op;
    const int32_t *entry = run->program->data.table + at->arg, *last = entry + 2 * at->count;
    int32_t first = -1, empty = -1;
    bool is_null = kn_nested_is_null(run->columns, at->node, *index);
    for (; entry < last; entry += 2) {
        if (entry[1] == at->node) {
            empty = entry[0];
        } else if (!is_null && !kn_nested_is_null(run->columns, entry[1], *index)) {
            if (first >= 0) return refuse(run, "more than one field of the union's struct is set");
            first = entry[0];
        }
    }
    if (first < 0) first = empty;
    if (first < 0 && is_null) return refuse_null(run);
    if (first < 0) return refuse(run, "no field of the union's struct is set");
    push(run, at, index, *index);
    *op = run->program->ops + first - 1;
    return to;
}

static uint8_t *begin_dictionary(struct run *run, const struct kn_encode_op *op, int64_t *index,
                                 uint8_t *to)
{
    int64_t entry = kn_nested_entry(run->columns, op->node, *index);
    if (entry < 0) return entry == -1 ? refuse_null(run) : refuse_changed(run);
    push(run, op, index, entry);
    return to;
}

static uint8_t *put_constant(struct run *run, int32_t place, int32_t size, uint8_t *to)
{
    if (size > KN_BUILDER_SLACK_BYTES && !(to = reserve(run, to, size))) return NULL;
    memcpy(to, run->program->data.constants + place, (size_t)size);
    return to + size;
}

/* --- the loop --- */

/* Writes the value of an instruction that has neither a body nor a constant. */
static inline uint8_t *put_value(struct run *run, const struct kn_encode_op *op, int64_t index,
                                 uint8_t *to)
{
    const struct kn_nested_column *column = &run->columns->columns[op->node];
    if (__builtin_expect(kn_arrow_is_null(&column->validity, index), 0)) return refuse_null(run);
    switch (op->code) {
    case KN_ENCODE_BOOLEAN:
        *to = (uint8_t)kn_bit(column->items, column->first + index);
        return to + 1;
    case KN_ENCODE_LONG: return put_long(run, op, index, to);
    case KN_ENCODE_MULTIPLY:
    case KN_ENCODE_DIVIDE: return put_scaled(run, op, index, to);
    case KN_ENCODE_TIME_OF_DAY: return check_time(run, op, index, to);
    case KN_ENCODE_FLOAT:
    case KN_ENCODE_DOUBLE: return put_real(run, op, index, to);
    case KN_ENCODE_BYTES:
    case KN_ENCODE_TEXT:
    case KN_ENCODE_UUID:
    case KN_ENCODE_FIXED: return put_bytes(run, op, index, to);
    case KN_ENCODE_UUID_TEXT: return put_uuid_text(run, op, index, to);
    case KN_ENCODE_STRUCT_FROM_JSON: return put_struct(run, op, index, to);
    case KN_ENCODE_ENUM:
    case KN_ENCODE_ENUM_NUMBER: return put_symbol(run, op, index, to);
    case KN_ENCODE_VARINT:
    case KN_ENCODE_LITTLE: return put_plain_integer(run, op, index, to);
    case KN_ENCODE_TIMESTAMP:
    case KN_ENCODE_TIME_SPAN: return put_seconds(run, op, index, to);
    case KN_ENCODE_DECIMAL: return put_decimal(run, op, index, to);
    case KN_ENCODE_DURATION: return put_duration(run, op, index, to);
    case KN_ENCODE_RECORD:
    case KN_ENCODE_NONE: return to;
    default: return put_json(run, op, index, to);
    }
}

/* Runs the program. Returns NULL at its end, or the instruction that failed. *out becomes the end of
 * the record. */
static const struct kn_encode_op *execute(struct run *run, int64_t index, uint8_t **out)
{
    const struct kn_encode_op *op = run->program->ops, *failed;
    uint8_t *to = *out;

    for (;; op++) {
        failed = op;
        switch (op->code) {
        case KN_ENCODE_CONSTANT: to = put_constant(run, op->arg, op->count, to); break;
        case KN_ENCODE_NULLABLE:
            if (!kn_nested_is_null(run->columns, op->node, index)) break;
            to = put_constant(run, op->arg, op->count, to);
            op = run->program->ops + op->end - 1;
            break;
        case KN_ENCODE_UNLESS_EMPTY:
            if (is_empty(run, op, index)) op = run->program->ops + op->end - 1;
            break;
        case KN_ENCODE_DELIMITED: to = begin_delimited(run, op, &index, to); break;
        case KN_ENCODE_CLOSE: to = end_delimited(run, to); break;
        case KN_ENCODE_ONE_OF: to = check_one_of(run, op, index, to); break;
        case KN_ENCODE_ARRAY:
        case KN_ENCODE_REPEATED:
            if (kn_arrow_is_null(&run->columns->columns[op->node].validity, index)) {
                refuse_null(run);
                return failed;
            }
            to = begin_array(run, &op, &index, to);
            break;
        case KN_ENCODE_NEXT: to = next_item(run, &op, &index, to); break;
        case KN_ENCODE_DICTIONARY: to = begin_dictionary(run, op, &index, to); break;
        case KN_ENCODE_UNION: to = begin_union(run, &op, &index, to); break;
        case KN_ENCODE_CHOICE: to = begin_choice(run, &op, &index, to); break;
        case KN_ENCODE_LEAVE:
            index = run->frames[--run->frame_count].index;
            op = run->program->ops + op->end - 1;
            break;
        case KN_ENCODE_JSON_END: to = end_json(run, op, to); break;
        case KN_ENCODE_DONE: *out = to; return NULL;
        default: to = put_value(run, op, index, to);
        }
        if (__builtin_expect(!to, 0)) return failed;
        if (__builtin_expect(to > run->limit, 0) && !(to = grow(run, to, 0))) return failed;
    }
}

int kn_record_encode(const struct kn_encode_program *program, const struct kn_nested *columns,
                     int64_t row, struct kn_builder *builder, struct kn_encode_problem *problem)
{
    struct kn_built *records = &builder->columns[0];
    struct run run;
    run.program = program;
    run.columns = columns;
    run.builder = builder;
    run.status = KN_OK;
    run.frame_count = 0;
    run.empty_items_left = KN_ENCODE_EMPTY_ITEMS_MAX;
    run.limit = records->bytes + records->bytes_room;
    uint8_t *to = records->bytes + records->bytes_used;
    if (!records->bytes && !(to = grow(&run, to, 0))) {
        *problem = (struct kn_encode_problem){0, run.text};
        return run.status;
    }
    const struct kn_encode_op *failed = execute(&run, row, &to);
    if (__builtin_expect(!failed, 1)) {
        records->bytes_used = to - records->bytes;
        return KN_OK;
    }
    *problem = (struct kn_encode_problem){(int32_t)(failed - program->ops), run.text};
    return run.status;
}

static int encode(const void *program, const struct kn_nested *columns, int64_t row,
                  struct kn_builder *builder, struct kn_encode_problem *problem)
{
    return kn_record_encode(program, columns, row, builder, problem);
}

struct kn_encoder kn_record_encoder(const struct kn_encode_program *program)
{
    return (struct kn_encoder){program, encode};
}
