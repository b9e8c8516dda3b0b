/* An encoder: the function of one format, with the program of one schema and one type of columns.
 * It turns rows of nested columns into records, which become the items of a column of bytes.
 *
 * Thread: one at a time for a builder. No allocation per record, except for the growing bytes.
 * Who frees: the owner of the program, after the last call. */
#ifndef KN_CODECS_ENCODER_H
#define KN_CODECS_ENCODER_H

#include "codecs/builder.h"
#include "codecs/nested.h"

struct kn_encode_problem {
    int32_t instruction; /* its index in the program */
    const char *text;    /* a static English phrase */
};

struct kn_encoder {
    const void *program; /* borrowed */
    /* Appends the bytes of one row, without the end of the item. KN_OK, KN_ERR_NOMEM, KN_ERR_FULL
     * (no more room in the column), KN_ERR_TOO_LARGE (the row expands beyond the format's limits)
     * or KN_ERR_INVALID (a value doesn't fit the schema). */
    int (*encode)(const void *program, const struct kn_nested *columns, int64_t row,
                  struct kn_builder *builder, struct kn_encode_problem *problem);
};

/* Encodes the rows [*row, end). Each record begins with the prefix; a null row becomes a null.
 * *row becomes the row that failed, or the end. The builder must have one node, of kind BYTES; it
 * keeps the rows before a failure. The result is that of encode(). KN_ERR_FULL: encode this row into
 * the next builder. KN_ERR_TOO_LARGE: also a record that doesn't fit an empty builder. */
int kn_encode_rows(const struct kn_encoder *encoder, const struct kn_nested *columns,
                   const uint8_t *prefix, int64_t prefix_bytes, int64_t *row, int64_t end,
                   struct kn_builder *builder, struct kn_encode_problem *problem);
/* Makes a builder for records. NULL: no memory. */
struct kn_builder *kn_records_builder_new(int64_t bytes_max);

#endif
