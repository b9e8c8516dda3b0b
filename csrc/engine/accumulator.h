/* A partition that is produced to: its open batch, its sealed batches, and their bookkeeping.
 *
 * Thread: append by application threads (the interpreter lock may be held: the lock's other holders never block), take/settle by the
 * leader's broker thread, expire by the control thread. Lock: `lock` (leaf). No buffer is taken, nothing is compressed, and no broker is notified
 * under it.
 * Who frees: an accumulator lives as long as its engine. A batch is owned by the accumulator's lists, then by the request
 * that carries it, then by the deliveries queue; kn_batch_free() gives its buffers back.
 * Order: batches carry a rising `id`; a retried batch goes back in id order. A broker may take batches only while no other broker has
 * one in flight (in_flight_broker), so that a leader change drains first and order and sequences hold.
 */
#ifndef KN_ENGINE_ACCUMULATOR_H
#define KN_ENGINE_ACCUMULATOR_H

#include <stdint.h>
#include "base/buffer.h"
#include "base/list.h"
#include "engine/thread.h"
#include "records/batch_writer.h"

struct kn_engine;
struct kn_broker;
struct kn_topic;

enum kn_persistence { KN_NOT_PERSISTED = 0, KN_POSSIBLY_PERSISTED = 1, KN_PERSISTED = 2 };

struct kn_batch {
    struct kn_list node;
    struct kn_topic *topic;
    struct kn_accumulator *accumulator; /* NULL while staged */
    struct kn_buffer *plain;   /* 61-byte header + records as appended; kept while reports may need it */
    struct kn_buffer *wire;    /* what is sent: plain itself, or the compressed form */
    struct kn_batch_writer writer;
    void **opaques;            /* one a record, NULL when no callback was given; each token is given back exactly once by the binding */
    int32_t *partitions;       /* staged batches only: the asked partition of each record (-1: the partitioner's choice) */
    int32_t opaque_capacity;
    int32_t partition;
    int64_t id;
    int64_t budget_bytes;      /* what its messages took from the budget */
    int64_t created_us;        /* first append: linger and message.timeout.ms count from here */
    int64_t next_try_us;       /* retry backoff */
    int64_t sent_us;
    int64_t acked_us;
    int32_t attempts;
    uint8_t sealed;            /* header and checksum written: immutable from then on */
    /* the outcome */
    uint8_t persistence;
    int status;                /* enum kn_status when error_code is 0 */
    int16_t error_code;        /* Kafka's */
    int64_t base_offset;       /* -1: unknown */
    int64_t log_append_time_ms;/* -1: create time */
    char *error_text;          /* malloc'ed broker message or NULL */
};

struct kn_accumulator {
    /* immutable */
    struct kn_topic *topic;
    int32_t partition;
    /* under lock */
    struct kn_mutex lock;
    struct kn_broker *leader;          /* NULL: unknown; batches wait */
    int32_t leader_epoch;
    struct kn_broker *in_flight_broker;/* whose requests carry our batches */
    int32_t in_flight;                 /* batches out there */
    struct kn_batch *open;             /* being appended to, or NULL */
    struct kn_list waiting;            /* complete batches, in id order */
    int64_t next_id;
    size_t buffer_hint_bytes;          /* how large the last batches became: the next buffer's first size */
};

struct kn_batch *kn_batch_new(struct kn_topic *topic, int32_t partition, size_t capacity_bytes); /* NULL: no memory */
void kn_batch_free(struct kn_batch *batch); /* opaques must have been given back */
long kn_batch_live(void);

void kn_accumulator_init(struct kn_accumulator *accumulator, struct kn_topic *topic, int32_t partition);
void kn_accumulator_deinit(struct kn_accumulator *accumulator); /* frees what is left */

/* Sets the leader (control thread); notifies it when something waits. */
void kn_accumulator_set_leader(struct kn_accumulator *accumulator, struct kn_broker *leader, int32_t leader_epoch);
/* The next batch that `broker` may send at `now_us`, or NULL; an open batch is taken when it is full, lingered or flushing. *next_us says when to ask again
 * (KN_NEVER: wait for a notification). */
struct kn_batch *kn_accumulator_take(struct kn_accumulator *accumulator, struct kn_broker *broker, int64_t now_us, int64_t *next_us);
/* A taken batch comes back for another try, in id order. */
void kn_accumulator_requeue(struct kn_accumulator *accumulator, struct kn_batch *batch, int64_t next_try_us);
/* A taken batch has its outcome: the in-flight count drops, the batch goes to kn_engine_deliver(). */
void kn_accumulator_settle(struct kn_accumulator *accumulator, struct kn_batch *batch);
/* Control thread, about once a second: batches older than message.timeout.ms are delivered with KN_ERR_TIMED_OUT. */
void kn_accumulator_expire(struct kn_accumulator *accumulator, int64_t now_us);

#endif
