/* The producing half of a broker: it collects ready batches, has them encoded (batch_encoder.h),
 * builds Produce requests, and settles the responses.
 *
 * Thread: the broker thread only. It has no lock of its own and takes the accumulators' locks one
 * at a time.
 * Who frees: struct kn_broker embeds it. The connection owns a request in flight until its outcome
 * is reported.
 *
 * A struct kn_produce is one request in flight. It frees itself after its outcome is reported. Only
 * then its batches go back to their accumulators or are settled, because the connection may be
 * writing from their buffers until then.
 *
 * A request has at most one batch per partition, from all ready partitions, up to about 1 MB. A few
 * requests are in flight at once. The sender builds none while much is unsent, and none that
 * can grow while another one waits at the broker, so under load batches grow by themselves. */
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

struct kn_response_times { /* from the writing of a request to its response; 0: no response yet */
    int64_t last_us;
    int64_t least_us; /* of this period and the one before it */
    int64_t least_of_period_us;
    int64_t period_ends_us;
};

struct kn_sender {
    /* immutable */
    struct kn_broker *broker;
    struct kn_producer *producer;
    /* fields of the broker thread */
    struct kn_schedule schedule; /* partitions to check, each once, with the time of the check */
    int16_t produce_version;     /* negotiated, -1 before open */
    int64_t held_until_us;       /* end of the broker's throttle time */
    /* the last pick filled a request, and more batches are ready */
    bool picked_full;
    struct kn_response_times response_times;
    bool purging; /* a purge is running: a batch that fails isn't tried again */
    struct kn_encode_queue encode_queue;
};

struct kn_produce_outcome { /* the outcome of one batch; text points into the response */
    bool answered;
    int16_t error_code;
    int64_t base_offset;
    int64_t log_append_time_ms;
    /* the first record that the broker names as the reason (KIP-467); -1: none */
    int32_t bad_record;
    int32_t bad_run; /* how many neighbouring records it names, including bad_record */
    int32_t leader_id, leader_epoch;
    const char *text;
    int32_t text_bytes;
};

struct kn_produce {
    struct kn_request request;
    struct kn_sender *sender;
    int32_t batch_count;
    struct kn_batch **batches;               /* by topic, then partition */
    struct kn_produce_partition *partitions; /* the same partitions, as sent */
    struct kn_produce_outcome *outcomes;     /* filled from the response */
};

void kn_sender_init(struct kn_sender *sender, struct kn_broker *broker,
                    struct kn_producer *producer);
void kn_sender_deinit(struct kn_sender *sender); /* no request may be in flight */
/* Check this accumulator from at_us on. Repeated calls and accumulators without a batch are
 * harmless. KN_OK or KN_ERR_NOMEM. */
int kn_sender_add(struct kn_sender *sender, struct kn_accumulator *accumulator, int64_t at_us);
/* Returns true if there is something to send, now or later, so the broker should be connected.
 * Removes partitions that have another leader by now. */
bool kn_sender_wants_connection(struct kn_sender *sender);
/* Call while the broker is open. Builds and sends requests while the in-flight limit allows.
 * Returns the latest time for the next call. */
int64_t kn_sender_step(struct kn_sender *sender, int64_t now_us);
/* Fails the batches that were picked but not sent, because the connection is gone or the client
 * ends. Batches that may be tried again go back to their partitions, like those of an unwritten
 * request. */
void kn_sender_fail_picked(struct kn_sender *sender, int status, int64_t now_us);
/* Returns the batches that were picked but not sent to their partitions. */
void kn_sender_recall(struct kn_sender *sender, int64_t now_us);
/* Returns a batch to its partition for another try, and also the batches picked after it, so that
 * the order holds. */
void kn_sender_put_back(struct kn_sender *sender, struct kn_batch *batch, int64_t next_try_us,
                        int64_t now_us);

/* The action for an error code of a Produce response: a set of these bits. */
#define KN_PRODUCE_RETRY 1    /* another try may succeed */
#define KN_PRODUCE_REFRESH 2  /* another try may succeed after a metadata update */
#define KN_PRODUCE_POSSIBLE 4 /* the broker may have written the records in spite of the error */
/* idempotence: the broker refused the sequence number and didn't write the records */
#define KN_PRODUCE_SEQUENCE 8
#define KN_PRODUCE_SPLIT 32 /* the records are too large together; if there is only one, it fails */
#define KN_PRODUCE_WRITTEN 16 /* idempotence: an earlier try has written the records */
int kn_produce_error_action(int16_t error_code);

#endif
