/* Decodes Avro records into columns, by a program.
 *
 * Thread: the builder's. No allocation per record, except for the columns' own growth. */
#ifndef KN_CODECS_AVRO_DECODE_H
#define KN_CODECS_AVRO_DECODE_H

#include "codecs/avro_program.h"
#include "codecs/decoder.h"

/* The limit of one record against input that is small and takes long. */
#ifndef KN_AVRO_EMPTY_ITEMS_MAX       /* the fuzz targets have less */
#define KN_AVRO_EMPTY_ITEMS_MAX 65536 /* items of arrays that take no bytes on the wire */
#endif

/* Appends one record as one row; see decode() in decoder.h. Bytes after the record are ignored, as
 * by other decoders. */
int kn_avro_decode(const struct kn_avro_program *program, struct kn_builder *builder,
                   const uint8_t *data, int64_t size_bytes, struct kn_decode_problem *problem);
struct kn_decoder kn_avro_decoder(const struct kn_avro_program *program);

#endif
