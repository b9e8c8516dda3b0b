/* The program that decodes the records of one Avro schema into columns. Python compiles it from the
 * writer's and the reader's schema (kafka_native/codecs/avro_decoder.py).
 *
 * The instructions follow the order of the fields on the wire. Some of them have a body, the
 * instructions from the next one to `end`. kn_avro_program_new() checks each index and range, and
 * that each path through the program appends one item to each column of a group. So the decoder
 * checks only the record.
 *
 * Thread: a program never changes, so threads may share it. Who frees: its owner, after the last
 * call. */
#ifndef KN_CODECS_AVRO_PROGRAM_H
#define KN_CODECS_AVRO_PROGRAM_H

#include "codecs/layout.h"
#include "codecs/program_data.h"

/* X(name, kind of its node, width of its node). Kind COUNT: any node, or no node.
 * - from NONE to DURATION: read a value into `node`.
 *   INT_AS_LONG and so on are promotions. TIME_MILLIS and TIME_MICROS read a number that is a time
 *   of day. TEXT checks UTF-8. FIXED and DECIMAL_FIXED read `arg` bytes. The size of a decimal's
 *   number must be below the constant at `count`, which is as wide as its node and little-endian.
 *   ENUM maps a symbol through `count` table entries from `arg`; -1 is an error. ENUM_TEXT has
 *   `count` pairs of entries: where the symbol's text begins in the constants, and its size.
 * - RECORD begins a struct. The instructions of its fields follow.
 * - ARRAY reads items into a list, or skips them without a node. Its body ends with NEXT, whose
 *   `arg` is the index of the ARRAY.
 * - NULLABLE reads a branch. Branch `arg` is null, the other one of two has the body.
 * - UNION reads one of `count` branches. Table entries from `arg` are the first instructions of the
 *   branches, in rising order; -1 is an error. Each branch ends with a JUMP to the union's end. All
 *   branches fill `node` and its group.
 * - TYPE begins an item of a dense union: child number `arg`, which the body fills.
 * - SET_NULL appends a null to `node` and its group.
 * - DEFAULT runs its body over `count` constant bytes from `arg`. The body ends with RESTORE.
 * - SKIP_FIXED passes over `arg` bytes.
 * - DONE is the last one. */
#define KN_AVRO_OPS(X)                                                                             \
    X(NONE, KN_NODE_NONE, 0)                                                                       \
    X(BOOLEAN, KN_NODE_BITS, 0)                                                                    \
    X(INT, KN_NODE_FIXED, 4)                                                                       \
    X(LONG, KN_NODE_FIXED, 8)                                                                      \
    X(FLOAT, KN_NODE_FIXED, 4)                                                                     \
    X(DOUBLE, KN_NODE_FIXED, 8)                                                                    \
    X(INT_AS_LONG, KN_NODE_FIXED, 8)                                                               \
    X(INT_AS_FLOAT, KN_NODE_FIXED, 4)                                                              \
    X(INT_AS_DOUBLE, KN_NODE_FIXED, 8)                                                             \
    X(LONG_AS_FLOAT, KN_NODE_FIXED, 4)                                                             \
    X(LONG_AS_DOUBLE, KN_NODE_FIXED, 8)                                                            \
    X(FLOAT_AS_DOUBLE, KN_NODE_FIXED, 8)                                                           \
    X(TIME_MILLIS, KN_NODE_FIXED, 4)                                                               \
    X(TIME_MICROS, KN_NODE_FIXED, 8)                                                               \
    X(BYTES, KN_NODE_BYTES, 0)                                                                     \
    X(TEXT, KN_NODE_BYTES, 0)                                                                      \
    X(FIXED, KN_NODE_FIXED, -1)                                                                    \
    X(ENUM, KN_NODE_DICTIONARY, 0)                                                                 \
    X(ENUM_TEXT, KN_NODE_BYTES, 0)                                                                 \
    X(DECIMAL_BYTES, KN_NODE_FIXED, -1)                                                            \
    X(DECIMAL_FIXED, KN_NODE_FIXED, -1)                                                            \
    X(UUID_TEXT, KN_NODE_FIXED, 16)                                                                \
    X(DURATION, KN_NODE_FIXED, 16)                                                                 \
    X(RECORD, KN_NODE_STRUCT, 0)                                                                   \
    X(ARRAY, KN_NODE_KIND_COUNT, 0)                                                                \
    X(NEXT, KN_NODE_KIND_COUNT, 0)                                                                 \
    X(NULLABLE, KN_NODE_KIND_COUNT, 0)                                                             \
    X(UNION, KN_NODE_KIND_COUNT, 0)                                                                \
    X(JUMP, KN_NODE_KIND_COUNT, 0)                                                                 \
    X(TYPE, KN_NODE_UNION, 0)                                                                      \
    X(SET_NULL, KN_NODE_KIND_COUNT, 0)                                                             \
    X(DEFAULT, KN_NODE_KIND_COUNT, 0)                                                              \
    X(RESTORE, KN_NODE_KIND_COUNT, 0)                                                              \
    X(SKIP_FIXED, KN_NODE_KIND_COUNT, 0)                                                           \
    X(SKIP_VARINT, KN_NODE_KIND_COUNT, 0)                                                          \
    X(SKIP_BYTES, KN_NODE_KIND_COUNT, 0)                                                           \
    X(DONE, KN_NODE_KIND_COUNT, 0)

#define KN_AVRO_OP_ENUM(name, kind, width) KN_AVRO_##name,
enum kn_avro_code { KN_AVRO_OPS(KN_AVRO_OP_ENUM) KN_AVRO_CODE_COUNT };
#undef KN_AVRO_OP_ENUM

#define KN_AVRO_OPS_MAX (1 << 20)
#define KN_AVRO_FRAMES_MAX 64

struct kn_avro_op {
    int32_t code;
    int32_t node; /* -1: none */
    int32_t end;
    int32_t arg;
    int32_t count;
    /* kn_avro_program_new() computes these for ARRAY: */
    int32_t item_min_bytes;    /* the smallest item on the wire */
    int64_t item_output_bytes; /* memory of an item, without copied bytes; at most INT32_MAX */
};

struct kn_avro_program {
    struct kn_layout *layout; /* a reference */
    int32_t op_count;
    struct kn_avro_op *ops;
    struct kn_program_data data;
};

/* Copies its arguments; `data` may be NULL. KN_OK, KN_ERR_INVALID (*bad_op: the first bad
 * instruction) or KN_ERR_NOMEM. */
int kn_avro_program_new(struct kn_layout *layout, const struct kn_avro_op *ops, int32_t op_count,
                        const struct kn_program_data *data, struct kn_avro_program **out,
                        int32_t *bad_op);
void kn_avro_program_free(struct kn_avro_program *program); /* NULL is allowed */
const char *kn_avro_op_name(int code);                      /* as above; NULL: there is none */

#endif
