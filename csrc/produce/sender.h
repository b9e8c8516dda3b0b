/* A broker's producing half: collects ready batches, has them encoded (batch_encoder.h), makes
 * Produce requests, settles responses.
 *
 * Thread: its broker's only; no locks of its own (it takes accumulators' locks one at a time). Who
 * frees: embedded in struct kn_broker; a request in flight is the connection's until its outcome is
 * told, and its batches with it.
 *
 * A struct kn_produce, a request on its way, frees itself once its outcome is told; its batches go
 * back to their accumulators or are settled, and not before, because the connection may be writing
 * from their buffers until then.
 *
 * A request carries at most one batch a partition, of as many partitions as are ready, until it has
 * about 1 MB; a few requests are out at once, and none is built while much is unsent, so under load
 * batches grow by themselves.
 */
#ifndef KN_PRODUCE_SENDER_H
#define KN_PRODUCE_SENDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "produce/accumulator.h"
#include "net/connection.h"
#include "produce/schedule.h"
#include "produce/encode_queue.h"
#include "produce/produce_codec.h"
#include "produce/producer.h"

struct kn_sender {
    /* immutable */
    struct kn_broker *broker;
    struct kn_producer *producer;
    /* its own */
    struct kn_schedule schedule; /* partitions to look at, each once, with the time from when on */
    int16_t produce_version;     /* negotiated, -1 before open */
    int64_t held_until_us;       /* throttled by the broker */
    /* the last request that was picked: there is more than one request carries */
    bool picked_full;
    bool purging; /* what fails now was thrown away: no other try */
    struct kn_encode_queue encode_queue;
};

struct kn_produce_outcome { /* of one batch; text borrows from the response */
    bool answered;
    int16_t error_code;
    int64_t base_offset;
    int64_t log_append_time_ms;
    /* the first one that the broker names as the reason (KIP-467), -1: none */
    int32_t bad_record;
    int32_t bad_run; /* it and its neighbours that are named, too */
    int32_t leader_id, leader_epoch;
    const char *text;
    int32_t text_bytes;
};

struct kn_produce {
    struct kn_request request;
    struct kn_sender *sender;
    int32_t batch_count;
    struct kn_batch **batches;               /* by topic, then partition */
    struct kn_produce_partition *partitions; /* the same, as sent */
    struct kn_produce_outcome *outcomes;     /* filled from the response */
};

void kn_sender_init(struct kn_sender *sender, struct kn_broker *broker,
                    struct kn_producer *producer);
void kn_sender_deinit(struct kn_sender *sender); /* nothing in flight */
/* Look at this accumulator from at_us on (entries may repeat; an accumulator with nothing to take
 * is harmless). KN_OK or KN_ERR_NOMEM. */
int kn_sender_add(struct kn_sender *sender, struct kn_accumulator *accumulator, int64_t at_us);
/* True when there is something to send, now or later: the broker should be connected. Forgets
 * partitions that have another leader by now. */
bool kn_sender_wants_connection(struct kn_sender *sender);
/* Called when the broker is open: builds and sends requests while the in-flight limit allows.
 * Returns when to be called again at the latest. */
int64_t kn_sender_step(struct kn_sender *sender, int64_t now_us);
/* What was picked but not sent never will be: the connection is gone, or the client at its end. As
 * with a request that wasn't written, what may have another try goes back, and the rest fails. */
void kn_sender_fail_picked(struct kn_sender *sender, int status, int64_t now_us);
/* What was picked but not sent goes back to its partitions. */
void kn_sender_recall(struct kn_sender *sender, int64_t now_us);
/* A batch goes back for another try, and what was picked after it, too, so that order holds. */
void kn_sender_put_back(struct kn_sender *sender, struct kn_batch *batch, int64_t next_try_us,
                        int64_t now_us);

/* What to do about an error code of a Produce response. */
#define KN_PRODUCE_RETRY 1    /* another try may succeed */
#define KN_PRODUCE_REFRESH 2  /* and the metadata is out of date */
#define KN_PRODUCE_POSSIBLE 4 /* the records may have been written all the same */
#define KN_PRODUCE_SEQUENCE 8 /* idempotence: the number is refused; the records were not written */
#define KN_PRODUCE_SPLIT 32   /* too large together; one record alone that is too large fails */
#define KN_PRODUCE_WRITTEN 16 /* idempotence: an earlier try has written the records */
int kn_produce_error_action(int16_t error_code);

#endif
