/* Encodes rows of columns as records, by a program.
 *
 * Thread: the builder's. No allocation per record, except for the growing bytes. */
#ifndef KN_CODECS_RECORD_ENCODE_H
#define KN_CODECS_RECORD_ENCODE_H

#include "codecs/encode_program.h"
#include "codecs/encoder.h"

/* Limit of the items of one record that take no bytes. Decoders have the same one. */
#define KN_ENCODE_EMPTY_ITEMS_MAX 65536

/* See encode() in encoder.h. The columns must have the program's type. */
int kn_record_encode(const struct kn_encode_program *program, const struct kn_nested *columns,
                     int64_t row, struct kn_builder *builder, struct kn_encode_problem *problem);
struct kn_encoder kn_record_encoder(const struct kn_encode_program *program);

#endif
