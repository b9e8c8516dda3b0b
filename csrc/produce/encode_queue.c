/* Prepared requests: see encode_queue.h. */
#include "produce/encode_queue.h"

#include <stdlib.h>
#include "produce/batch.h"
#include "produce/batch_encoder.h"
#include "net/broker.h"
#include "produce/producer.h"

/* 0.1 ms of work, or half of that with gzip: too little to wake another thread */
#define ENCODE_HERE_BYTES ((size_t)32 << 10)

/* A worker's function. It notes errors in the batch, and the broker thread handles them. */
static void encode(struct kn_task *task)
{
    struct kn_encoding *encoding = KN_LIST_ENTRY(task, struct kn_encoding, task);
    for (int32_t i = 0; i < encoding->picks.count; i++) {
        struct kn_batch *batch = encoding->picks.batches[i];
        batch->status = kn_batch_encode(encoding->producer, batch, encoding->produce_version);
    }
}

static void wake(void *broker) { kn_broker_wake(broker); }

static struct kn_encoding *free_entry(struct kn_encode_queue *encode_queue)
{
    return &encode_queue->ring[(encode_queue->first + encode_queue->count) % KN_ENCODE_QUEUE_MAX];
}

struct kn_picks *kn_encode_queue_next(struct kn_encode_queue *encode_queue)
{
    if (!encode_queue->ring)
        encode_queue->ring = calloc(KN_ENCODE_QUEUE_MAX, sizeof *encode_queue->ring);
    return encode_queue->ring ? &free_entry(encode_queue)->picks : NULL;
}

void kn_encode_queue_deinit(struct kn_encode_queue *encode_queue)
{
    free(encode_queue->ring);
    encode_queue->ring = NULL;
}

void kn_encode_queue_begin(struct kn_encode_queue *encode_queue, struct kn_producer *producer,
                           struct kn_broker *broker, int16_t produce_version)
{
    struct kn_encoding *encoding = free_entry(encode_queue);
    encoding->task.work = encode;
    encoding->task.notify = wake;
    encoding->task.context = broker;
    encoding->producer = producer;
    encoding->produce_version = produce_version;
    encode_queue->count++;
    if (!kn_producer_compresses(producer) || encoding->picks.size_bytes < ENCODE_HERE_BYTES)
        kn_task_run_here(&encoding->task);
    else kn_worker_pool_begin(&producer->workers, &encoding->task);
}

struct kn_picks *kn_encode_queue_take_encoded(struct kn_encode_queue *encode_queue)
{
    if (encode_queue->count == 0) return NULL;
    struct kn_encoding *oldest = &encode_queue->ring[encode_queue->first];
    if (!kn_task_is_done(&oldest->task)) return NULL;
    encode_queue->first = (encode_queue->first + 1) % KN_ENCODE_QUEUE_MAX;
    encode_queue->count--;
    return &oldest->picks;
}

struct kn_picks *kn_encode_queue_take(struct kn_encode_queue *encode_queue,
                                      struct kn_worker_pool *workers)
{
    if (encode_queue->count > 0)
        kn_worker_pool_finish(workers, &encode_queue->ring[encode_queue->first].task);
    return kn_encode_queue_take_encoded(encode_queue);
}
