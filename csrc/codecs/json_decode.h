/* Decodes JSON records into columns, by a program.
 *
 * A record is one JSON value in UTF-8, with whitespace around it. Each value is checked, also those
 * that no column wants. Fields come in any order; the last one of equal names wins.
 *
 * Thread: the builder's. No allocation per record, except for the columns' own growth, and for a
 * record that is larger than those before it. */
#ifndef KN_CODECS_JSON_DECODE_H
#define KN_CODECS_JSON_DECODE_H

#include "codecs/decoder.h"
#include "codecs/json_program.h"

#define KN_JSON_SKIPPED_DEPTH_MAX 512 /* nesting of a value that no column wants, or of RAW */

/* Appends one record as one row; see decode() in decoder.h. The problem's instruction is a node. */
int kn_json_decode(const struct kn_json_program *program, struct kn_builder *builder,
                   const uint8_t *data, int64_t size_bytes, struct kn_decode_problem *problem);
struct kn_decoder kn_json_decoder(const struct kn_json_program *program);

#endif
