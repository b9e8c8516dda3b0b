/* From fetched segments to columns, many at a time and without the interpreter lock.
 *
 *   kn_fill_run()     takes segments off the queue and appends their records; nothing outside the
 * fill and its columns changes kn_fill_revert()  undoes what came from one segment on: what the
 * binding calls when it has become stale meanwhile kn_fill_finish()  frees the segments that are
 * done
 *
 * Thread: the application's. run() holds no lock but the queue's; the binding lets no other thread
 * of the application take segments meanwhile, and settles positions afterwards, under the
 * interpreter lock. So a seek() or pause() of another thread comes either before a segment is
 * taken, as far as anybody can see, or after its records count as handed out. Who frees: the
 * segments taken belong to the fill until finish(), the one at hand (`segment`) is given to it by
 * the binding and taken back.
 */
#ifndef KN_ARROW_FILL_H
#define KN_ARROW_FILL_H

#include <stdbool.h>
#include "arrow/columns.h"
#include "consume/cursor.h"
#include "net/queue.h"

#define KN_FILL_SEGMENTS 32 /* at most before positions are settled: some tens of milliseconds */

enum kn_fill_end {
    KN_FILL_PAUSED,  /* for settling: there may be more */
    KN_FILL_DRAINED, /* nothing is queued */
    /* rows_max are there, or a column has no more room; without any row: not even for one record */
    KN_FILL_FULL,
    KN_FILL_NOTICE, /* the segment at hand is an end of partition or an error */
    KN_FILL_BROKEN, /* what the reader stands at isn't a record; reading on says so again */
    /* column unfit_column can't hold the record at unfit_offset, at which the reader stands */
    KN_FILL_UNFIT,
    KN_FILL_NOMEM /* the reader stands at the first record that isn't in the columns */
};

struct kn_taken { /* a segment that records came from */
    struct kn_segment *segment;
    int64_t row_begin;    /* the rows there were before */
    int64_t first_offset; /* -1: no record of it was taken */
    int64_t next_offset;  /* behind the last record taken */
    int32_t leader_epoch; /* of the batch opened last */
    bool has_batch;       /* one was opened */
    bool is_done;         /* nothing is left in it */
};

struct kn_fill {
    struct kn_columns *columns;
    struct kn_queue *queue;
    int64_t rows_max;
    /* where it goes on, and where it has ended */
    struct kn_segment *segment;     /* NULL: none at hand */
    struct kn_record_reader reader; /* of its batch_next - 1, if is_reading */
    bool is_reading;
    /* what it did */
    int32_t taken_count;
    int32_t unfit_column;
    int64_t unfit_offset;
    struct kn_taken taken[KN_FILL_SEGMENTS];
};

enum kn_fill_end kn_fill_run(struct kn_fill *fill);
/* Takes the rows of taken[from] and all after it out of the columns and frees that segment; the
 * ones behind it go back to the front of the queue, whole. */
void kn_fill_revert(struct kn_fill *fill, int32_t from);
void kn_fill_finish(struct kn_fill *fill);

#endif
