/* The program that encodes rows of columns as Avro, Protobuf or JSON records. Python compiles it from
 * a schema and the type of the columns (kafka_native/codecs/avro_encoder.py, protobuf_encoder.py,
 * json_encoder.py).
 *
 * The instructions follow the order on the wire. They read the item of their node at the current
 * index, which begins as the row. An instruction that leads into another group of nodes sets the
 * index; its body, up to `end`, reads only that group, and restores the index at its end.
 * kn_encode_program_new() checks each index and range, and the groups. So a wrong program makes
 * wrong records, but touches no other memory.
 *
 * Thread: a program never changes, so threads may share it. Who frees: its owner, after the last
 * call. */
#ifndef KN_CODECS_ENCODE_PROGRAM_H
#define KN_CODECS_ENCODE_PROGRAM_H

#include "codecs/nested.h"
#include "codecs/program_data.h"

/* Each instruction that writes a value refuses a null. For all formats:
 * - RECORD, NONE: write nothing. RECORD refuses a null struct.
 * - BOOLEAN: a byte. FLOAT, DOUBLE: `arg` is an enum kn_encode_number.
 * - LONG: a zigzag varint (`arg`: signed; `count`: bits of the schema's type).
 * - BYTES, TEXT (UTF-8): `arg` 0: with the size as a zigzag varint, 1: as a varint.
 * - CONSTANT: `count` constant bytes from `arg`.
 * - NULLABLE: if the item is null, the constant byte string (`arg`, `count`), and on at `end`.
 * - ARRAY: the items of a list, in Avro's one block. REPEATED: the items alone. The body ends with
 *   NEXT, whose `arg` is the index of the list's instruction.
 * - DICTIONARY: the body reads the values.
 * - UNION: two table entries for each of `count` type ids from `arg`: the first instruction of its
 *   branch (-1: there is no such id) and the child. Each branch ends with a LEAVE to the union's end.
 * - CHOICE: a union as a struct, of whose `count` children one isn't null. The table and the branches
 *   are those of UNION, each with its child; the entry of the struct itself has the branch for a row
 *   without a child.
 * - DONE is the last one.
 * For Avro:
 * - MULTIPLY, DIVIDE: the signed number times or by `arg`, exactly; `count` as for LONG.
 * - TIME_OF_DAY: refuses a signed number that isn't within a day, with `arg` ticks a second. It writes
 *   nothing.
 * - UUID (text of a UUID), UUID_TEXT (from 16 bytes), FIXED (`arg` bytes).
 * - ENUM: the symbol with these bytes. Table entries from `arg`, three for each of `count` symbols,
 *   sorted by bytes: place and size of a constant, and the symbol's number.
 * - DECIMAL: four table entries from `arg`: signed, power of ten to multiply with, size of the Avro
 *   fixed (-1: bytes), and place of the constant that the number must be below (32 bytes,
 *   little-endian).
 * - DURATION: from months, days and nanoseconds.
 * For Protobuf:
 * - VARINT, LITTLE (the lowest byte first): an integer. `arg`: bit 0: the column is signed, bit 1:
 *   the schema's type is. `count`: bits of the schema's type.
 * - ENUM_NUMBER: as ENUM, but a varint.
 * - TIMESTAMP, TIME_SPAN: the messages Timestamp and Duration with their size, from an int64 with
 *   `arg` ticks a second.
 * - STRUCT_FROM_JSON: JSON text as a message with its size; `arg` is an enum kn_protobuf_json_kind.
 * - DELIMITED: the bytes of the body, after their size. The body ends with CLOSE.
 * - UNLESS_EMPTY: on at `end` if the item is zero, false, or has no bytes or items.
 * - ONE_OF: refuses a row if more than one of `count` nodes, table entries from `arg`, isn't null.
 * For JSON, where strings have quotes:
 * - JSON_BOOLEAN. JSON_INTEGER: `arg` as for VARINT; `count`: bits of the schema's type.
 * - JSON_MULTIPLY, JSON_DIVIDE: the signed number times or by `arg`, exactly.
 * - JSON_REAL: `arg` is an enum kn_encode_number of a real number.
 * - JSON_TEXT. JSON_BASE64: with `count`, only `arg` bytes. JSON_UUID: text. JSON_UUID_TEXT: 16 bytes.
 * - JSON_ENUM: as JSON_TEXT, but only the symbols of ENUM.
 * - JSON_RAW: text that is JSON.
 * - JSON_DECIMAL: as DECIMAL, but the third entry is the scale of the text. `count` is an enum
 *   kn_encode_decimal.
 * - JSON_DATE: `arg` units a day. JSON_TIME, JSON_TIMESTAMP: `arg` is the power of ten of the units
 *   in a second; `count` is 1 if a Z follows.
 * - JSON_END: the byte `arg`, in place of a comma if one is before it. */
#define KN_ENCODE_OPS(X)                                                                           \
    X(RECORD)                                                                                      \
    X(NONE)                                                                                        \
    X(BOOLEAN)                                                                                     \
    X(LONG)                                                                                        \
    X(MULTIPLY)                                                                                    \
    X(DIVIDE)                                                                                      \
    X(TIME_OF_DAY)                                                                                 \
    X(FLOAT)                                                                                       \
    X(DOUBLE)                                                                                      \
    X(BYTES)                                                                                       \
    X(TEXT)                                                                                        \
    X(UUID)                                                                                        \
    X(UUID_TEXT)                                                                                   \
    X(FIXED)                                                                                       \
    X(ENUM)                                                                                        \
    X(DECIMAL)                                                                                     \
    X(DURATION)                                                                                    \
    X(CONSTANT)                                                                                    \
    X(NULLABLE)                                                                                    \
    X(ARRAY)                                                                                       \
    X(NEXT)                                                                                        \
    X(DICTIONARY)                                                                                  \
    X(UNION)                                                                                       \
    X(LEAVE)                                                                                       \
    X(REPEATED)                                                                                    \
    X(VARINT)                                                                                      \
    X(LITTLE)                                                                                      \
    X(ENUM_NUMBER)                                                                                 \
    X(TIMESTAMP)                                                                                   \
    X(TIME_SPAN)                                                                                   \
    X(DELIMITED)                                                                                   \
    X(CLOSE)                                                                                       \
    X(UNLESS_EMPTY)                                                                                \
    X(ONE_OF)                                                                                      \
    X(CHOICE)                                                                                      \
    X(STRUCT_FROM_JSON)                                                                            \
    X(JSON_BOOLEAN)                                                                                \
    X(JSON_INTEGER)                                                                                \
    X(JSON_MULTIPLY)                                                                               \
    X(JSON_DIVIDE)                                                                                 \
    X(JSON_REAL)                                                                                   \
    X(JSON_TEXT)                                                                                   \
    X(JSON_BASE64)                                                                                 \
    X(JSON_UUID)                                                                                   \
    X(JSON_UUID_TEXT)                                                                              \
    X(JSON_ENUM)                                                                                   \
    X(JSON_RAW)                                                                                    \
    X(JSON_DECIMAL)                                                                                \
    X(JSON_DATE)                                                                                   \
    X(JSON_TIME)                                                                                   \
    X(JSON_TIMESTAMP)                                                                              \
    X(JSON_END)                                                                                    \
    X(DONE)

#define KN_ENCODE_OP_CODE(name) KN_ENCODE_##name,
enum kn_encode_code { KN_ENCODE_OPS(KN_ENCODE_OP_CODE) KN_ENCODE_CODE_COUNT };
#undef KN_ENCODE_OP_CODE

enum kn_encode_number { /* what FLOAT and DOUBLE read */
                        KN_ENCODE_NUMBER_HALF,
                        KN_ENCODE_NUMBER_SINGLE,
                        KN_ENCODE_NUMBER_DOUBLE,
                        KN_ENCODE_NUMBER_SIGNED,
                        KN_ENCODE_NUMBER_UNSIGNED,
                        KN_ENCODE_NUMBER_COUNT
};

enum kn_encode_decimal { /* what JSON_DECIMAL writes */
                         KN_ENCODE_DECIMAL_NUMBER,
                         KN_ENCODE_DECIMAL_STRING,
                         KN_ENCODE_DECIMAL_BASE64, /* of the big-endian number without its point */
                         KN_ENCODE_DECIMAL_COUNT
};

#define KN_ENCODE_OPS_MAX (1 << 20)
#define KN_ENCODE_FRAMES_MAX 128
#define KN_ENCODE_DECIMAL_ENTRIES 4
#define KN_ENCODE_DECIMAL_POWER_MAX 152 /* the largest difference of two scales */

struct kn_encode_op {
    int32_t code;
    int32_t node; /* -1: none */
    int32_t end;
    int32_t arg;
    int32_t count;
    /* ARRAY, REPEATED: whether an item may take no bytes; kn_encode_program_new() computes it */
    int32_t is_empty;
};

struct kn_encode_program {
    struct kn_nested_type *type; /* a reference */
    int32_t op_count;
    struct kn_encode_op *ops;
    struct kn_program_data data;
};

/* Copies its arguments; `data` may be NULL. KN_OK, KN_ERR_INVALID (*bad_op: the first bad
 * instruction) or KN_ERR_NOMEM. */
int kn_encode_program_new(struct kn_nested_type *type, const struct kn_encode_op *ops,
                          int32_t op_count, const struct kn_program_data *data,
                          struct kn_encode_program **out, int32_t *bad_op);
void kn_encode_program_free(struct kn_encode_program *program); /* NULL is allowed */
const char *kn_encode_op_name(int code);                        /* as above; NULL: there is none */

#endif
