/* Decodes Protobuf messages into columns, by a program.
 *
 * Fields come in any order, and may come again, also when other fields are in between. So each
 * singular field has a slot, the item of the open row: its column is one item longer than before as
 * soon as it is set. A field that comes again replaces its item, a message goes on in the same row,
 * and a list gets more items. At the end of a row each slot that isn't set gets its default.
 *
 * Thread: the builder's. No allocation per record, except for the columns' own growth. */
#ifndef KN_CODECS_PROTOBUF_DECODE_H
#define KN_CODECS_PROTOBUF_DECODE_H

#include "codecs/decoder.h"
#include "codecs/protobuf_program.h"

/* Appends one record as one row; see decode() in decoder.h. The instruction of a problem is the
 * field's, or the number of instructions and that of a message. */
int kn_protobuf_decode(const struct kn_protobuf_program *program, struct kn_builder *builder,
                       const uint8_t *data, int64_t size_bytes, struct kn_decode_problem *problem);
struct kn_decoder kn_protobuf_decoder(const struct kn_protobuf_program *program);

#endif
