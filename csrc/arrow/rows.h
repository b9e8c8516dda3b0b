/* Rows of Arrow columns as messages: bound chunk by chunk, appended to the producer's batches in
 * runs.
 *
 * Thread: one at a time, the caller of produce_arrow(), without the interpreter lock: everything
 * here touches is foreign memory that the caller keeps alive, leaf locks, and the budget. Who
 * frees: the caller, kn_rows_deinit(). Nothing waits: a full queue is KN_ERR_FULL.
 *
 * A chunk is checked whole when it is bound (kn_rows_bind), so that a mistake in it comes before
 * its first row is queued; what only the engine knows (sizes, partitions) comes row by row.
 */
#ifndef KN_ARROW_ROWS_H
#define KN_ARROW_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "arrow/import.h"
#include "engine/engine.h"
#include "produce/delivery_counter.h"
#include "produce/topic.h"

enum kn_rows_role {
    KN_ROWS_VALUE,
    KN_ROWS_KEY,
    KN_ROWS_HEADERS,
    KN_ROWS_TIMESTAMP,
    KN_ROWS_PARTITION,
    KN_ROWS_TOPIC,
    KN_ROWS_ROLES
};

struct kn_rows_topic { /* an entry of the table of topics by name */
    uint32_t hash;
    struct kn_topic *topic; /* NULL: free */
};

struct kn_rows {
    /* set by the caller before the first chunk */
    int32_t columns[KN_ROWS_ROLES]; /* which child; -1: none */
    bool table_is_column;           /* the arrays are no structs, but the one column itself */
    /* the partitioner is the binding's: rows without a partition are refused */
    bool needs_partition;
    struct kn_topic *topic;              /* of rows that name none; NULL: they have to */
    int32_t partition;                   /* without a column; -1: the partitioner's choice */
    int64_t timestamp_ms;                /* without a column; 0: now */
    struct kn_delivery_counter *counter; /* NULL: nobody wants a report */
    /* of the chunk */
    struct kn_arrow_bytes value, key, topics;
    struct kn_arrow_pairs headers;
    struct kn_arrow_numbers timestamp, partitions;
    int64_t length; /* rows in it */
    int64_t at;     /* the next one */
    int64_t before; /* rows of the chunks before it */
    /* own */
    uint8_t *scratch; /* encoded headers of a run */
    size_t scratch_bytes;
    struct kn_rows_topic *table; /* open addressing */
    uint32_t table_size, table_count;
    struct kn_topic *last_topic;
};

/* What a column has to be able to be, from the schema alone: NULL, or a phrase that says what was
 * expected. */
const char *kn_rows_check_type(const struct ArrowSchema *schema, enum kn_rows_role role);

void kn_rows_init(struct kn_rows *rows);
void kn_rows_deinit(struct kn_rows *rows);
/* The next chunk, of which every row is checked. KN_ERR_INVALID with *problem (its row counts from
 * the first chunk on) and the role of the column that has it, -1: the chunk itself. */
int kn_rows_bind(struct kn_rows *rows, const struct ArrowSchema *schema,
                 const struct ArrowArray *array, struct kn_arrow_problem *problem, int *role);

/* Queues rows from `at` on, at most `most` (about). KN_OK: as many, or to the chunk's end.
 * Otherwise row `at` is why it stopped: KN_ERR_FULL, KN_ERR_TOO_LARGE, KN_ERR_STALE: its topic
 * isn't in the table (kn_rows_topic_name()), KN_ERR_INVALID: foreign memory has changed since it
 * was checked, KN_ERR_NOMEM, KN_ERR_CLOSED, KN_ERR_FATAL. */
int kn_rows_append(struct kn_rows *rows, int64_t most);
/* The same, and when the queue is full waits for room, until *deadline_us (KN_NEVER: no limit), a
 * signal (KN_ERR_INTERRUPTED), or the end of the client (KN_ERR_CLOSED). stall_us > 0: *deadline_us
 * is so much later after each row that got in. Returns from time to time with KN_OK. */
int kn_rows_append_waiting(struct kn_rows *rows, struct kn_engine *engine, int64_t *deadline_us,
                           int64_t stall_us);
void kn_rows_topic_name(const struct kn_rows *rows, const uint8_t **name, int64_t *size);
int kn_rows_add_topic(struct kn_rows *rows, struct kn_topic *topic); /* KN_OK, KN_ERR_NOMEM */

#endif
