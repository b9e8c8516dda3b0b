/* Columns for others, through the Arrow C data interface: nothing is copied, each exported struct
 * holds a reference to the columns.
 *
 * Thread: any; a struct is released on whatever thread its consumer likes, and needs neither the
 * interpreter lock nor the client that fetched. Who frees: the consumer, by release(). Columns may
 * be exported any number of times.
 */
#ifndef KN_ARROW_EXPORT_H
#define KN_ARROW_EXPORT_H

#include "arrow/abi.h"
#include "arrow/columns.h"

/* A struct array with a child a column, and its type. KN_OK or KN_ERR_NOMEM; then *out is released.
 */
int kn_columns_export_schema(const struct kn_column_spec *specs, int32_t column_count,
                             struct ArrowSchema *out);
int kn_columns_export(struct kn_columns *columns, struct ArrowArray *out);
/* A stream of that one array. */
int kn_columns_export_stream(struct kn_columns *columns, struct ArrowArrayStream *out);
/* As users and Arrow's own documentation write the types: `format` is what the C data interface has
 * for them. NULL: there is no such column. */
const char *kn_column_format(const struct kn_column_spec *spec);
const char *kn_column_name(enum kn_column_field field);

/* For who has taken a struct and may or may not have moved it on. */
static inline void kn_arrow_release_schema(struct ArrowSchema *schema)
{
    if (schema->release) schema->release(schema);
}
static inline void kn_arrow_release_array(struct ArrowArray *array)
{
    if (array->release) array->release(array);
}
static inline void kn_arrow_release_stream(struct ArrowArrayStream *stream)
{
    if (stream->release) stream->release(stream);
}

#endif
