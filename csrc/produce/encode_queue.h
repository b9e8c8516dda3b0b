/* Requests to be: what each will carry is encoded (batch_encoder.h) by the worker pool, several at
 * once, and they are sent in the order in which they were picked.
 *
 * Thread: its broker's only; a worker of the worker pool has an encoding, and its batches, from
 * begin until it is done. Lock: none. Who frees: embedded in the sender; the batches stay taken.
 */
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

struct kn_picks { /* what one request will carry */
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
    struct kn_encoding ring[KN_ENCODE_QUEUE_MAX];
};

/* The picks to fill for kn_encode_queue_begin(); there is room for one more. */
static inline struct kn_picks *kn_encode_queue_next(struct kn_encode_queue *encode_queue)
{
    return &encode_queue->ring[(encode_queue->first + encode_queue->count) % KN_ENCODE_QUEUE_MAX]
                .picks;
}
/* Has what kn_encode_queue_next() was filled with encoded, and then the broker woken; what is quick
 * is done here. */
void kn_encode_queue_begin(struct kn_encode_queue *encode_queue, struct kn_producer *producer,
                           struct kn_broker *broker, int16_t produce_version);
/* Takes the oldest out if it is encoded, else NULL; valid until the next kn_encode_queue_next(). A
 * batch that couldn't be has its status set. */
struct kn_picks *kn_encode_queue_take_encoded(struct kn_encode_queue *encode_queue);
/* The same, and waits for whoever encodes it. NULL: there is none. */
struct kn_picks *kn_encode_queue_take(struct kn_encode_queue *encode_queue,
                                      struct kn_worker_pool *workers);

#endif
