/* The program that decodes the records of one Protobuf message type into columns. Python compiles
 * it from descriptors (kafka_native/codecs/protobuf_decoder.py).
 *
 * A message is a struct column and one instruction for each of its fields. Fields come in any order
 * on the wire, so a field is found by its number. The messages form a tree: each has one place.
 * kn_protobuf_program_new() checks each index and kind. So the decoder checks only the record.
 *
 * Thread: a program never changes, so threads may share it. Who frees: its owner, after the last
 * call. */
#ifndef KN_CODECS_PROTOBUF_PROGRAM_H
#define KN_CODECS_PROTOBUF_PROGRAM_H

#include "codecs/layout.h"
#include "codecs/program_data.h"
#include "codecs/protobuf_json.h"
#include "codecs/protobuf_wire.h"

/* X(name, kind of its column, width of its column, wire type). Kind COUNT: any. The column is the
 * node of a singular field, and the item of a repeated one.
 * - INT32 and INT64 are signed, unsigned and open enums as numbers; FIXED32 and FIXED64 are also
 *   floats.
 * - ENUM maps a number through the table at `arg`: `count` numbers, rising, and then their `count`
 *   values of the dictionary. Other numbers are null.
 * - CLOSED_ENUM: a field with another number is an unknown field. CLOSED_NUMBER: the same, for a
 *   column of numbers.
 * - TEXT checks UTF-8.
 * - TIMESTAMP and DURATION: the messages of this name, in units of `arg` nanoseconds.
 * - JSON: Struct, Value or ListValue as JSON text; `arg` is an enum kn_protobuf_json_kind.
 * - ENCODED: a message as its bytes.
 * - WRAPPER: the message number `arg`, whose only field has the same node.
 * - MESSAGE and GROUP: the message number `arg`.
 * - CLEAR: no column. A field of wire type `arg` ends the other members of its oneof. */
#define KN_PROTOBUF_OPS(X)                                                                         \
    X(INT32, KN_NODE_FIXED, 4, KN_WIRE_VARINT)                                                     \
    X(INT64, KN_NODE_FIXED, 8, KN_WIRE_VARINT)                                                     \
    X(SINT32, KN_NODE_FIXED, 4, KN_WIRE_VARINT)                                                    \
    X(SINT64, KN_NODE_FIXED, 8, KN_WIRE_VARINT)                                                    \
    X(FIXED32, KN_NODE_FIXED, 4, KN_WIRE_FIXED32)                                                  \
    X(FIXED64, KN_NODE_FIXED, 8, KN_WIRE_FIXED64)                                                  \
    X(BOOL, KN_NODE_BITS, 0, KN_WIRE_VARINT)                                                       \
    X(ENUM, KN_NODE_DICTIONARY, 0, KN_WIRE_VARINT)                                                 \
    X(CLOSED_ENUM, KN_NODE_DICTIONARY, 0, KN_WIRE_VARINT)                                          \
    X(CLOSED_NUMBER, KN_NODE_FIXED, 4, KN_WIRE_VARINT)                                             \
    X(TEXT, KN_NODE_BYTES, 0, KN_WIRE_DELIMITED)                                                   \
    X(BYTES, KN_NODE_BYTES, 0, KN_WIRE_DELIMITED)                                                  \
    X(TIMESTAMP, KN_NODE_FIXED, 8, KN_WIRE_DELIMITED)                                              \
    X(DURATION, KN_NODE_FIXED, 8, KN_WIRE_DELIMITED)                                               \
    X(JSON, KN_NODE_BYTES, 0, KN_WIRE_DELIMITED)                                                   \
    X(ENCODED, KN_NODE_BYTES, 0, KN_WIRE_DELIMITED)                                                \
    X(WRAPPER, KN_NODE_KIND_COUNT, 0, KN_WIRE_DELIMITED)                                           \
    X(MESSAGE, KN_NODE_STRUCT, 0, KN_WIRE_DELIMITED)                                               \
    X(GROUP, KN_NODE_STRUCT, 0, KN_WIRE_START_GROUP)                                               \
    X(CLEAR, KN_NODE_KIND_COUNT, 0, KN_WIRE_VARINT)

#define KN_PROTOBUF_OP_ENUM(name, kind, width, wire) KN_PROTOBUF_##name,
enum kn_protobuf_code { KN_PROTOBUF_OPS(KN_PROTOBUF_OP_ENUM) KN_PROTOBUF_CODE_COUNT };
#undef KN_PROTOBUF_OP_ENUM

/* How often a field occurs. A map is a list of messages with the fields 1 and 2. */
enum kn_protobuf_shape {
    KN_PROTOBUF_SINGULAR,
    KN_PROTOBUF_REPEATED,
    KN_PROTOBUF_PACKED, /* repeated, and usually packed; both forms are read */
    KN_PROTOBUF_MAP,
    KN_PROTOBUF_SHAPE_COUNT
};

/* A singular field that a message lacks. */
enum kn_protobuf_missing {
    KN_PROTOBUF_NULL,
    KN_PROTOBUF_ZERO,     /* zero, false, empty, or the first value of a dictionary */
    KN_PROTOBUF_CONSTANT, /* the constant: an item of the column in this machine's order */
    KN_PROTOBUF_EMPTY,    /* a message without fields */
    KN_PROTOBUF_REQUIRED, /* an error */
    KN_PROTOBUF_MISSING_COUNT
};

#define KN_PROTOBUF_OPS_MAX (1 << 20)
#define KN_PROTOBUF_NUMBER_MAX ((1 << 29) - 1)

struct kn_protobuf_op {
    int32_t code;
    int32_t node; /* -1: CLEAR */
    int32_t number;
    int32_t shape;
    int32_t missing;
    int32_t arg;
    int32_t count;
    int32_t oneof;          /* which one of the program; -1: none */
    int32_t constant;       /* CONSTANT: its place */
    int32_t constant_bytes; /* CONSTANT: its size */
    /* kn_protobuf_program_new() computes these: */
    uint32_t tag;              /* number and wire type, as usually written */
    bool is_leaf;              /* complete as soon as it is set */
    bool is_plain;             /* singular, outside of oneofs, and one value without rules */
    int32_t map;               /* MAP: which one of the program */
    int64_t item_output_bytes; /* memory of an item or message, without copied bytes */
};

struct kn_protobuf_message {
    int32_t node;
    int32_t first; /* its first instruction; they follow in the order of the fields' numbers */
    int32_t count;
    /* kn_protobuf_program_new() computes these: */
    int32_t places; /* where the table of instructions by number begins, in the program's places */
    int32_t place_count; /* numbers below it are in the table; -1: none */
};

struct kn_protobuf_program {
    int64_t serial;           /* no other program of the process has it */
    struct kn_layout *layout; /* a reference */
    int32_t op_count;
    int32_t message_count;
    int32_t oneof_count;
    int32_t map_count;
    struct kn_protobuf_op *ops;
    struct kn_protobuf_message *messages; /* the first one is the record */
    int32_t *places;
    struct kn_program_data data;
};

/* Copies its arguments; `data` may be NULL. KN_OK, KN_ERR_INVALID (*bad: the first bad instruction,
 * or the number of instructions and the first bad message) or KN_ERR_NOMEM. */
int kn_protobuf_program_new(struct kn_layout *layout, const struct kn_protobuf_op *ops,
                            int32_t op_count, const struct kn_protobuf_message *messages,
                            int32_t message_count, const struct kn_program_data *data,
                            struct kn_protobuf_program **out, int32_t *bad);
void kn_protobuf_program_free(struct kn_protobuf_program *program); /* NULL is allowed */
const char *kn_protobuf_op_name(int code); /* as above; NULL: there is none */
enum kn_wire_type kn_protobuf_op_wire(const struct kn_protobuf_op *op);

#endif
