/* Prepared requests. The worker pool encodes the batches of several requests at once
 * (batch_encoder.h). The sender sends the requests in the order in which it picked the batches.
 *
 * Thread: the broker thread only. While a worker runs an encoding, the worker owns the encoding and
 * its batches.
 * Lock: none. Who frees: kn_encode_queue_deinit() frees the ring; the batches stay taken. */
#ifndef KN_PRODUCE_ENCODE_QUEUE_H
#define KN_PRODUCE_ENCODE_QUEUE_H

#include <stddef.h>
#include <stdint.h>
#include "produce/worker_pool.h"

#define KN_PICKS_MAX 512
#define KN_ENCODE_QUEUE_MAX 6

struct kn_batch;
struct kn_broker;
struct kn_producer;

struct kn_picks { /* the batches of one request */
    int32_t count;
    size_t size_bytes;
    struct kn_batch *batches[KN_PICKS_MAX];
};

struct kn_encoding {
    struct kn_task task;
    const struct kn_producer *producer;
    int16_t produce_version;
    struct kn_picks picks;
};

struct kn_encode_queue { /* a ring; all zero: empty */
    int32_t first, count;
    struct kn_encoding *ring; /* of KN_ENCODE_QUEUE_MAX; NULL before the first picks */
};

/* Returns the picks to fill before kn_encode_queue_begin(). There must be room for one more. NULL:
 * no memory. */
struct kn_picks *kn_encode_queue_next(struct kn_encode_queue *encode_queue);
/* Frees the ring of an empty queue. Its next use makes a new one. */
void kn_encode_queue_deinit(struct kn_encode_queue *encode_queue);
/* Starts to encode the picks of kn_encode_queue_next(), and wakes the broker thread when they are
 * done. Quick work is done in this call. */
void kn_encode_queue_begin(struct kn_encode_queue *encode_queue, struct kn_producer *producer,
                           struct kn_broker *broker, int16_t produce_version);
/* Removes the oldest picks if they are encoded, else returns NULL. They are valid until the next
 * kn_encode_queue_next(). A batch that couldn't be encoded has its status set. */
struct kn_picks *kn_encode_queue_take_encoded(struct kn_encode_queue *encode_queue);
/* The same, but waits until the oldest picks are encoded. NULL: the queue is empty. */
struct kn_picks *kn_encode_queue_take(struct kn_encode_queue *encode_queue,
                                      struct kn_worker_pool *workers);

#endif
