/* Decodes Avro records into columns, by a program.
 *
 * Thread: the builder's. No allocation per record, except for the columns' own growth. */
#ifndef KN_CODECS_AVRO_DECODE_H
#define KN_CODECS_AVRO_DECODE_H

#include "codecs/avro_program.h"
#include "codecs/builder.h"
#include "codecs/decode_problem.h"

/* Limits of one record against input that is small and expands. */
#define KN_AVRO_EMPTY_ITEMS_MAX 65536 /* items of arrays that take no bytes on the wire */
#define KN_AVRO_OUTPUT_MAX_BYTES ((int64_t)64 << 20) /* items of arrays, plus this factor: */
#define KN_AVRO_OUTPUT_MAX_FACTOR 16

/* Appends one record as one row. The builder must have the program's layout. Bytes after the record
 * are ignored, as by other decoders. Otherwise the builder keeps the rows before it, *problem says
 * where and why, and the result is:
 * - KN_ERR_TRUNCATED: the record ends too early.
 * - KN_ERR_INVALID: the record is malformed, or a value doesn't fit the reader's type.
 * - KN_ERR_TOO_LARGE: its arrays expand beyond the limits above.
 * - KN_ERR_FULL: a column has no more room; the record is the first one for the next columns.
 * - KN_ERR_NOMEM. */
int kn_avro_decode(const struct kn_avro_program *program, struct kn_builder *builder,
                   const uint8_t *data, int64_t size_bytes, struct kn_decode_problem *problem);

#endif
