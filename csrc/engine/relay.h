/* Copies fetched record batches to a partition of another topic, possibly in another cluster. It
 * copies a batch whole where it can, else record by record.
 *
 * A batch that is copied whole stays compressed; only its header is written again. This needs all
 * of these:
 * - The caller wants every record of the batch.
 * - The offsets have no gaps, and each record has its own timestamp.
 * - The batch has the producer's codec, or the producer has none.
 * - The batch isn't small.
 * The relay opens every other batch and appends its records as produce() does, so they fill batches
 * of the producer's size.
 *
 * Thread: one at a time, without the interpreter lock. The engine is the producer's. Only
 * kn_relay_run_waiting() waits.
 * Who frees: the binding calls kn_relay_deinit() while no kn_relay_run() is running. The binding
 * owns the counter. */
#ifndef KN_ENGINE_RELAY_H
#define KN_ENGINE_RELAY_H

#include <stdbool.h>
#include <stdint.h>
#include "base/runs.h"
#include "consume/cursor.h"
#include "produce/topic.h"

/* Batches that were taken out of their segment. They no longer depend on the consumer. */
struct kn_fetched_batches {
    int32_t count;
    int32_t next; /* the relay's progress */
    struct kn_segment_batch batches[];
};

/* takes the batches of a DATA segment; NULL: no memory, and the segment keeps them */
struct kn_fetched_batches *kn_fetched_batches_take(struct kn_segment *segment);
void kn_fetched_batches_free(struct kn_fetched_batches *fetched); /* NULL is allowed */

struct kn_relay {
    /* set by the binding before the first batch */
    struct kn_engine *engine;
    struct kn_topic *topic; /* a topic of the engine */
    int32_t partition;
    struct kn_delivery_counter *counter; /* counts every record: row 0 is the first */
    /* progress */
    int64_t rows;        /* rows queued so far */
    int64_t bytes;       /* their bytes, compressed as they were queued */
    struct kn_runs runs; /* their offsets in the source */
    /* the batches in work */
    struct kn_fetched_batches *fetched; /* owned; NULL: nothing */
    int64_t stop;                       /* stop after this many rows for now */
    int64_t first, end;                 /* the wanted offsets: [first, end) */
    /* the next batch, ready to be queued whole, which didn't fit into the queue */
    struct kn_batch *made;
    bool is_reading; /* the relay copies the next batch record by record */
    struct kn_record_reader reader;
    struct kn_buffer *opened;
    int64_t offset; /* after an error: offset of the record, or of the batch's first record */
    /* with KN_ERR_FULL: the record is larger than the whole queue, so a retry is useless */
    bool never_fits;
};

void kn_relay_deinit(struct kn_relay *relay);
/* Passes the next batches to the relay, which owns them from now on. The relay must have finished
 * the previous ones. */
void kn_relay_give(struct kn_relay *relay, struct kn_fetched_batches *fetched, int64_t first,
                   int64_t end);
/* Queues at most `records_max` records (a batch is copied whole only if all its records are among
 * them). KN_OK: it queued `records_max` records, or all; then fetched is NULL. Otherwise the reason
 * why it stopped: KN_ERR_FULL, KN_ERR_CRC, KN_ERR_INVALID, KN_ERR_CODEC, KN_ERR_TOO_LARGE,
 * KN_ERR_UNKNOWN_PARTITION, KN_ERR_NOMEM, KN_ERR_CLOSED, KN_ERR_FATAL, KN_ERR_NO_TRANSACTION. */
int kn_relay_run(struct kn_relay *relay, int64_t records_max);
/* The same, but waits for room until deadline_us, then returns KN_ERR_FULL. KN_ERR_INTERRUPTED: a
 * signal ended the wait. */
int kn_relay_run_waiting(struct kn_relay *relay, int64_t records_max, int64_t deadline_us);

#endif
