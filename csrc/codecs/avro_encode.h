/* Encodes rows of columns as Avro records, by a program.
 *
 * Thread: the builder's. No allocation per record, except for the growing bytes. */
#ifndef KN_CODECS_AVRO_ENCODE_H
#define KN_CODECS_AVRO_ENCODE_H

#include "codecs/avro_encode_program.h"
#include "codecs/encoder.h"

/* Limit of the items of one record that take no bytes. Decoders have the same one. */
#define KN_AVRO_ENCODE_EMPTY_ITEMS_MAX 65536

/* See encode() in encoder.h. The columns must have the program's type. */
int kn_avro_encode(const struct kn_avro_encode_program *program, const struct kn_nested *columns,
                   int64_t row, struct kn_builder *builder, struct kn_encode_problem *problem);
struct kn_encoder kn_avro_encoder(const struct kn_avro_encode_program *program);

#endif
