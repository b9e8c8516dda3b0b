/* Exports columns through the Arrow C data interface, without a copy: each exported struct has a
 * reference to the columns.
 *
 * Thread: any. The consumer may release a struct on any thread, without the interpreter lock, and
 * after the client that fetched is closed.
 * Who frees: the consumer, with release(). Columns may be exported any number of times. */
#ifndef KN_ARROW_EXPORT_H
#define KN_ARROW_EXPORT_H

#include "codecs/abi.h"
#include "arrow/columns.h"

/* Makes a struct array with a child per column, and its type. KN_OK, or KN_ERR_NOMEM; then *out is
 * released. */
int kn_columns_export_schema(const struct kn_column_spec *specs, int32_t column_count,
                             struct ArrowSchema *out);
int kn_columns_export(struct kn_columns *columns, struct ArrowArray *out);
/* Makes a stream of that one array. */
int kn_columns_export_stream(struct kn_columns *columns, struct ArrowArrayStream *out);
/* Type names as in Arrow's documentation; `format` is the C data interface's name. NULL: there is
 * no such column. */
const char *kn_column_format(const struct kn_column_spec *spec);
const char *kn_column_name(enum kn_column_field field);

#endif
