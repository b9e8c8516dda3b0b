/* A Produce request on its way, and what becomes of its batches.
 *
 * Thread: its broker's. Lock: none held. Who frees: kn_produce frees itself once its outcome is told; its batches go back to their accumulators or are
 * settled, and not before, because the connection may be writing from their buffers until then.
 */
#ifndef KN_ENGINE_PRODUCE_REQUEST_H
#define KN_ENGINE_PRODUCE_REQUEST_H

#include "engine/batch.h"
#include "engine/broker.h"
#include "engine/connection.h"
#include "engine/produce_codec.h"
#include "engine/sender.h"

struct kn_produce_outcome { /* of one batch; text borrows from the response */
    int answered;
    int16_t error_code;
    int64_t base_offset;
    int64_t log_append_time_ms;
    int32_t bad_record;      /* the first one that the broker names as the reason (KIP-467), -1: none */
    int32_t bad_run;         /* it and its neighbours that are named, too */
    int32_t leader_id, leader_epoch;
    const char *text;
    int32_t text_bytes;
};

struct kn_produce {
    struct kn_request request;
    struct kn_sender *sender;
    int32_t batch_count;
    struct kn_batch **batches;                /* by topic, then partition */
    struct kn_produce_partition *partitions;  /* the same, as sent */
    struct kn_produce_outcome *outcomes;      /* filled from the response */
};

/* Takes encoded, sorted batches of different partitions. NULL: no memory, nothing taken. */
struct kn_produce *kn_produce_new(struct kn_sender *sender, struct kn_batch *const *batches, int32_t batch_count, int64_t now_us);
/* A encoded batch that is in no request after all: back to its partition, or, where it may have no other try, to its report with this status. */
void kn_produce_unsent(struct kn_sender *sender, struct kn_batch *batch, int status, int64_t now_us);
/* A guarantee can't be kept in this partition. The engine stops first, so that nothing behind what failed is sent; then the control plane is told. */
void kn_produce_raise_fatal(struct kn_sender *sender, const struct kn_accumulator *accumulator, int status, int16_t error_code);

#endif
