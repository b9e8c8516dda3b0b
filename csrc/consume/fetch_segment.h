/* Makes segments from the record bytes of a fetched partition: checks checksums, drops aborted
 * transactions, decompresses.
 *
 * Thread: the broker thread, outside any lock.
 * Who frees: the caller owns the segments. */
#ifndef KN_CONSUME_FETCH_SEGMENT_H
#define KN_CONSUME_FETCH_SEGMENT_H

#include <stdbool.h>
#include "net/chunk.h"
#include "consume/cursor.h"
#include "consume/fetch_codec.h"

struct kn_aborted_filter;

struct kn_fetch_job {         /* the fetch result of one partition, to be opened */
    struct kn_cursor *cursor; /* a reference */
    uint32_t epoch;
    int64_t offset;      /* the requested offset; while batches are opened, the progress */
    int64_t next_offset; /* the next offset by the batch headers */
    int32_t batch_count;
    int64_t message_count;  /* counted in the cursor's queued_messages */
    int64_t opened_count;   /* messages for the application that aren't counted as received yet */
    int16_t version;        /* version of the Fetch */
    struct kn_chunk *chunk; /* a reference; result points into it */
    bool is_begun, is_done; /* is_begun: some batches are opened; is_done: all are */
    bool is_partial;        /* the last batch is cut off */
    bool is_void;           /* an earlier result failed, so this one isn't opened */
    struct kn_span rest;    /* batches that aren't opened yet */
    struct kn_aborted_filter *filter; /* owned; NULL: nothing was aborted */
    struct kn_fetch_result result;
};

/* Reads only the batch headers: sets batch_count and next_offset, and counts the messages as
 * queued. If the fetch size was too small even for the first batch, returns the full size of that
 * batch, else 0. */
size_t kn_fetch_job_scan(struct kn_fetch_job *job);

/* Opens batches into at most one DATA segment in *data (NULL: nothing for the application). Call
 * again until is_done is set. KN_OK, or the reason why the batch at *failed_offset is unusable
 * (KN_ERR_CRC, KN_ERR_TOO_LARGE, ...). After an error *next_offset is the first offset behind that
 * batch, and *data still has the batches before it. */
int kn_fetch_job_open(struct kn_fetch_job *job, struct kn_segment **data, int64_t *failed_offset,
                      int64_t *next_offset);

void kn_fetch_job_deinit(struct kn_fetch_job *job);

#endif
