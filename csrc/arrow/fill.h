/* Copies fetched segments into columns, many at a time and without the interpreter lock.
 *
 * kn_fill_run()     takes segments off the queue and appends their records; changes nothing outside
 *                   the fill and its columns
 * kn_fill_revert()  undoes the segments from one on; the binding calls it if they became stale
 * kn_fill_finish()  frees the finished segments
 *
 * Thread: the application's. run() takes only the queue's lock. Meanwhile the binding lets no other
 * thread of the application take segments. Afterwards it updates the positions, under the
 * interpreter lock. So a seek() or pause() of another thread seems to come either before a segment
 * is taken, or after its records were delivered.
 * Who frees: the fill owns the segments that it took until finish(). The binding passes the current
 * one (`segment`) to the fill and takes it back. */
#ifndef KN_ARROW_FILL_H
#define KN_ARROW_FILL_H

#include <stdbool.h>
#include "arrow/columns.h"
#include "consume/cursor.h"
#include "net/queue.h"

/* at most so many between two updates of the positions: some tens of milliseconds */
#define KN_FILL_SEGMENTS 32

enum kn_fill_end {
    KN_FILL_PAUSED,  /* time to update the positions: there may be more */
    KN_FILL_DRAINED, /* the queue is empty */
    /* records_max is reached, or a column has no more room; with no record: not even for one record */
    KN_FILL_FULL,
    KN_FILL_NOTICE, /* the current segment is an end of partition or an error */
    KN_FILL_BROKEN, /* the reader is at a malformed record; another call returns the same */
    /* column unfit_column can't hold the record at unfit_offset; the reader is at that record */
    KN_FILL_UNFIT,
    /* the same, because column unfit_column needs another decoder: see kn_columns_append() */
    KN_FILL_UNKNOWN_SCHEMA,
    KN_FILL_NOMEM /* the reader is at the first record that isn't in the columns */
};

struct kn_taken_segment { /* a segment whose records were taken */
    struct kn_segment *segment;
    int64_t row_begin;       /* rows before this segment */
    int64_t malformed_begin; /* malformed records before it */
    int64_t first_offset;    /* -1: none of its records was taken */
    int64_t next_offset;     /* offset behind the last taken record */
    int32_t leader_epoch;    /* of the last opened batch */
    bool has_batch;          /* a batch was opened */
    bool is_done;            /* all its records were taken */
};

struct kn_fill {
    struct kn_columns *columns;
    struct kn_queue *queue;
    int64_t records_max; /* with the malformed ones */
    /* where to go on: set at the start, and valid at the end */
    struct kn_segment *segment;     /* NULL: no current segment */
    struct kn_record_reader reader; /* reads batch segment->batch_next - 1, if is_reading */
    bool is_reading;
    /* results */
    int32_t taken_count;
    int32_t unfit_column;
    int64_t unfit_offset;
    struct kn_taken_segment taken[KN_FILL_SEGMENTS];
};

enum kn_fill_end kn_fill_run(struct kn_fill *fill);
/* Removes the rows of taken[from] and later ones from the columns. Frees that segment, and puts the
 * later segments back to the front of the queue. */
void kn_fill_revert(struct kn_fill *fill, int32_t from);
void kn_fill_finish(struct kn_fill *fill);

#endif
