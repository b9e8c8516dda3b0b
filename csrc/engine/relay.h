/* Fetched record batches on their way to a partition of another topic, maybe of another cluster:
 * whole where that can be, else record by record.
 *
 * A batch that goes whole stays compressed; its header alone is written anew. That can be when all
 * of it is wanted, its offsets have no gaps, its times are those of its records, its codec is the
 * producer's (or the producer has none), and it isn't small. Everything else is opened, and its
 * records are appended as produce() does it: they fill batches of the producer's size.
 *
 * Thread: one at a time, without the interpreter lock; the engines are the producer's. Nothing
 * waits but kn_relay_run_waiting(). Who frees: the binding, kn_relay_deinit(), when no
 * kn_relay_run() is on; the counter is the binding's.
 */
#ifndef KN_ENGINE_RELAY_H
#define KN_ENGINE_RELAY_H

#include <stdbool.h>
#include <stdint.h>
#include "base/runs.h"
#include "consume/cursor.h"
#include "produce/topic.h"

/* Batches as they were fetched, without the segment they came in, so that nothing of the consumer
 * is needed any more. */
struct kn_fetched {
    int32_t count;
    int32_t next; /* the relay's progress */
    struct kn_segment_batch batches[];
};

/* a DATA segment's; NULL: no memory, and the segment has them still */
struct kn_fetched *kn_fetched_take(struct kn_segment *segment);
void kn_fetched_free(struct kn_fetched *fetched); /* NULL is allowed */

struct kn_relay {
    /* set by the binding before the first batch */
    struct kn_engine *engine;
    struct kn_topic *topic; /* of the engine */
    int32_t partition;
    struct kn_delivery_counter *counter; /* hears of each record: row 0 is the first */
    /* so far */
    int64_t rows;        /* queued */
    int64_t bytes;       /* of them: as compressed as they went in */
    struct kn_runs runs; /* their offsets in the source */
    /* at hand */
    struct kn_fetched *fetched; /* owned; NULL: nothing */
    int64_t stop;               /* no more than so many rows for now */
    int64_t first, end;         /* offsets that are wanted: from, to before */
    struct kn_batch *made;      /* the next batch, whole, for which there wasn't room */
    bool is_reading;            /* the next batch goes record by record */
    struct kn_record_reader reader;
    struct kn_buffer *opened;
    int64_t offset; /* when it fails: of the record, or of the batch's first */
    /* KN_ERR_FULL is for ever: that record is larger than the whole queue */
    bool never_fits;
};

void kn_relay_deinit(struct kn_relay *relay);
/* The batches to go on with, the relay's from here on; what was at hand was relayed. */
void kn_relay_give(struct kn_relay *relay, struct kn_fetched *fetched, int64_t first, int64_t end);
/* Queues records, at most `most` (a batch goes whole only if it is among them). KN_OK: as many, or
 * all that is at hand: fetched is NULL then. Otherwise why it stopped: KN_ERR_FULL, KN_ERR_CRC,
 * KN_ERR_INVALID, KN_ERR_CODEC, KN_ERR_TOO_LARGE, KN_ERR_UNKNOWN_PARTITION, KN_ERR_NOMEM,
 * KN_ERR_CLOSED, KN_ERR_FATAL, KN_ERR_NO_TRANSACTION. */
int kn_relay_run(struct kn_relay *relay, int64_t most);
/* The same, and waits for room until deadline_us: KN_ERR_FULL then. KN_ERR_INTERRUPTED: a signal.
 */
int kn_relay_run_waiting(struct kn_relay *relay, int64_t most, int64_t deadline_us);

#endif
