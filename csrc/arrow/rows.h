/* Rows of Arrow columns as messages: bound chunk by chunk, and appended to the producer's batches
 * in runs.
 *
 * Thread: one at a time, the caller of produce_arrow(), without the interpreter lock. This code
 * uses foreign memory that the caller keeps alive, leaf locks, and the budget.
 * Who frees: the caller, with kn_rows_deinit().
 * Nothing waits: a full queue is KN_ERR_FULL.
 *
 * kn_rows_bind() checks a whole chunk, so an error is found before its first row is queued. The
 * engine checks sizes and partitions row by row. */
#ifndef KN_ARROW_ROWS_H
#define KN_ARROW_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "codecs/import.h"
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

struct kn_rows_header { /* encoded */
    uint8_t *data;      /* NULL: none */
    size_t size_bytes;
};

struct kn_rows {
    /* set by the caller before the first chunk */
    int32_t columns[KN_ROWS_ROLES]; /* which child; -1: no column */
    bool table_is_column;           /* the arrays are the value column itself, without a struct */
    /* the binding runs the partitioner, so each row must have a partition */
    bool needs_partition;
    struct kn_topic *topic; /* topic of rows without a topic; NULL: each row must have one */
    int32_t partition;      /* if there is no column; -1: the partitioner chooses */
    int64_t timestamp_ms;   /* if there is no column; 0: now */
    bool zero_is_time;      /* in the column of timestamps, 0 is 1970; otherwise it is now */
    struct kn_delivery_counter *counter; /* NULL: no report is wanted */
    /* of the current chunk */
    struct kn_arrow_bytes value, key, topics;
    struct kn_arrow_pairs headers;
    struct kn_arrow_numbers timestamp, partitions;
    int64_t length; /* its rows */
    int64_t at;     /* the next row */
    int64_t before; /* rows of the earlier chunks */
    /* internal */
    struct kn_rows_header added_headers[KN_ROWS_KEY + 1];
    uint8_t *scratch; /* encoded headers of a run */
    size_t scratch_bytes;
    struct kn_rows_topic *table; /* open addressing */
    uint32_t table_size, table_count;
    struct kn_topic *last_topic;
};

/* Checks whether the schema of a column fits the role. NULL, or a phrase with the expected type. */
const char *kn_rows_check_type(const struct ArrowSchema *schema, enum kn_rows_role role);

void kn_rows_init(struct kn_rows *rows);
void kn_rows_deinit(struct kn_rows *rows);
/* Adds a header to each row whose value or key (the role) isn't null, behind its own headers. Once a
 * role, before the first chunk. KN_OK or KN_ERR_NOMEM. */
int kn_rows_add_header(struct kn_rows *rows, enum kn_rows_role role, const uint8_t *name,
                       int32_t name_bytes, const uint8_t *value, int32_t value_bytes);
/* Binds the next chunk and checks its rows. KN_ERR_INVALID: *problem has the error (its row counts
 * from the first chunk), and *role the column; -1: the chunk itself. */
int kn_rows_bind(struct kn_rows *rows, const struct ArrowSchema *schema,
                 const struct ArrowArray *array, struct kn_arrow_problem *problem, int *role);

/* Queues about `rows_max` rows at most, from `at` on. KN_OK: it queued them, or reached the end of
 * the chunk. Otherwise the reason why row `at` wasn't queued:
 * - KN_ERR_STALE: its topic isn't in the table (kn_rows_topic_name()).
 * - KN_ERR_INVALID: foreign memory has changed since the check.
 * - KN_ERR_FULL, KN_ERR_TOO_LARGE, KN_ERR_NOMEM, KN_ERR_CLOSED, KN_ERR_FATAL. */
int kn_rows_append(struct kn_rows *rows, int64_t rows_max);
/* The same, but waits while the queue is full: until *deadline_us (KN_NEVER: no limit), a signal
 * (KN_ERR_INTERRUPTED) or the end of the client (KN_ERR_CLOSED). If stall_us > 0, each queued row
 * moves *deadline_us to stall_us from then. Returns KN_OK from time to time. */
int kn_rows_append_waiting(struct kn_rows *rows, struct kn_engine *engine, int64_t *deadline_us,
                           int64_t stall_us);
void kn_rows_topic_name(const struct kn_rows *rows, const uint8_t **name, int64_t *size);
int kn_rows_add_topic(struct kn_rows *rows, struct kn_topic *topic); /* KN_OK, KN_ERR_NOMEM */

#endif
