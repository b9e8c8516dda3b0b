/* From the records bytes of a fetched partition to segments: checksums, aborted transactions,
 * decompression.
 *
 * Thread: the broker's, outside any lock. Who frees: the segments made belong to the caller's list.
 */
#ifndef KN_CONSUME_FETCH_SEGMENT_H
#define KN_CONSUME_FETCH_SEGMENT_H

#include <stdbool.h>
#include "net/chunk.h"
#include "consume/cursor.h"
#include "consume/fetch_codec.h"

struct kn_aborted_filter;

struct kn_fetch_job {         /* one partition's result, waiting to be opened */
    struct kn_cursor *cursor; /* a reference */
    uint32_t epoch;
    int64_t offset;      /* what was asked for; while it is opened, where that stands */
    int64_t next_offset; /* what the batches' headers promise */
    int32_t batch_count;
    int64_t message_count;  /* counted in the cursor's queued_messages */
    int64_t opened_count;   /* messages for the application, not counted yet as received */
    int16_t version;        /* of the Fetch */
    struct kn_chunk *chunk; /* a reference; result borrows from it */
    bool is_begun, is_done; /* opened in part; nothing is left to open */
    bool is_partial;        /* a batch is cut off at its end */
    bool is_void;           /* one before it failed: not to be opened */
    struct kn_span rest;    /* batches not yet opened */
    struct kn_aborted_filter *filter; /* owned; NULL: nothing was aborted */
    struct kn_fetch_result result;
};

/* Walks the batch headers only: fills batch_count and next_offset, and counts the messages as
 * queued. Returns the bytes of a partial first batch's full size when not even one batch is
 * complete (the fetch size was too small for it), else 0. */
size_t kn_fetch_job_scan(struct kn_fetch_job *job);

/* Opens batches into at most one DATA segment in *data (NULL: nothing for the application); as long
 * as is_done isn't set there is more. KN_OK, or why the batch at *failed_offset can't be used
 * (KN_ERR_CRC, KN_ERR_TOO_LARGE, ...; *next_offset is then the first offset after it); what came
 * before it is in *data all the same. */
int kn_fetch_job_open(struct kn_fetch_job *job, struct kn_segment **data, int64_t *failed_offset,
                      int64_t *next_offset);

void kn_fetch_job_deinit(struct kn_fetch_job *job);

#endif
