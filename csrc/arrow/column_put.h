/* Putting records into columns: what columns.c and column_put.c share.
 *
 * Thread: of the columns.
 */
#ifndef KN_ARROW_COLUMN_PUT_H
#define KN_ARROW_COLUMN_PUT_H

#include "arrow/columns.h"

/* The index of a name, which is added where it is new. KN_OK, KN_ERR_NOMEM or KN_ERR_FULL. */
int kn_names_find(struct kn_names *names, struct kn_pool *pool, const char *name, int32_t size_bytes, int32_t *index);

/* A reference to a chunk more, and all of them less. */
void kn_columns_keep(struct kn_columns *columns, struct kn_chunk *chunk); /* there is room in columns->chunks */
void kn_columns_let_go(struct kn_columns *columns);

#endif
