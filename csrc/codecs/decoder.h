/* A decoder: the function of one format, with the program of one schema. Callers that decode need
 * no other name of a format.
 *
 * Thread: decode() may run on any thread, for one builder at a time.
 * Who frees: the owner of the program, after the last call. Builders don't refer to programs. */
#ifndef KN_CODECS_DECODER_H
#define KN_CODECS_DECODER_H

#include "codecs/builder.h"
#include "codecs/decode_problem.h"

struct kn_decoder {
    const void *program; /* borrowed */
    /* Appends one record as one row. The builder must have the program's layout. Otherwise the
     * builder keeps the rows before it, *problem says where and why, and the result is:
     * - KN_ERR_TRUNCATED: the record ends too early.
     * - KN_ERR_INVALID: the record is malformed, or a value doesn't fit its column.
     * - KN_ERR_TOO_LARGE: it expands beyond the format's limits.
     * - KN_ERR_FULL: a column has no more room; the record is the first one for the next columns.
     * - KN_ERR_NOMEM. */
    int (*decode)(const void *program, struct kn_builder *builder, const uint8_t *data,
                  int64_t size_bytes, struct kn_decode_problem *problem);
};

static inline int kn_decode(const struct kn_decoder *decoder, struct kn_builder *builder,
                            const uint8_t *data, int64_t size_bytes,
                            struct kn_decode_problem *problem)
{
    return decoder->decode(decoder->program, builder, data, size_bytes, problem);
}

#endif
