/* A partition that is produced to: its open batch, its complete batches, and their bookkeeping.
 *
 * Thread: append by application threads (the interpreter lock may be held: the lock's other holders
 * never block), take/settle by the leader's broker thread, expire by the control thread. Lock:
 * `lock` (leaf). No buffer is taken, nothing is compressed, and no broker is notified under it.
 * Who frees: an accumulator lives as long as its topic, which lives as long as its engine. A batch
 * is owned by the accumulator's lists, then by the request that carries it, then by the deliveries
 * queue; kn_batch_free() gives its buffers back.
 * Order: batches carry a rising `id`; a retried batch goes back in id order, and nothing younger is
 * taken while it waits for its backoff. A broker may take batches only while no other broker has
 * one in flight (in_flight_broker), so that a leader change drains first and order and sequences
 * hold.
 * Notifications: `notified_us` is the earliest time at which the leader is already going to look
 * here, so each batch costs at most two notifications, and none while an earlier one is
 * outstanding. The leader's look (take, wants) resets it, under the lock, so no wake-up is lost.
 */
#ifndef KN_PRODUCE_ACCUMULATOR_H
#define KN_PRODUCE_ACCUMULATOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/line.h"
#include "base/list.h"
#include "produce/batch.h"
#include "net/thread.h"

struct kn_broker;
struct kn_producer;
struct kn_topic;
struct kn_message;

#define KN_PRODUCER_WAIVED (-2) /* in place of a producer id: batches go out without numbers */

/* Idempotence (KIP-98, KIP-360): which producer id and epoch the partition's batches carry, and
 * from which sequence number on. The client's identity may move on to another epoch while batches
 * of the old one have no outcome yet; they keep it, and the partition changes over once they are
 * settled. Only a batch that the broker refuses as out of sequence although nothing older is
 * outstanding proves that none of them was written: then all of them are numbered anew (`restart`).
 * So no batch is ever written under two numbers. */
struct kn_sequence {
    /* the client's newest identity, -1: none yet, or KN_PRODUCER_WAIVED */
    int64_t granted_id;
    int16_t granted_epoch;
    int16_t epoch; /* what `next` counts under */
    int64_t id;
    int32_t next;
    bool restart;
    /* of the newest numbered batch that was written, that wasn't: what comes behind a failed one
     * may be refused */
    int64_t written_id, failed_id;
    /* a batch of this id and epoch was written. Before, one at a time: a broker that knows nothing
     * of a producer accepts any number, also of a batch behind one that it has just refused. */
    bool proved;
    /* kn_batch.sequence_node, by sequence: numbered, without an outcome */
    struct kn_list unsettled;
};

/* Ten thousand partitions aren't in the cache, so what an append touches is in two lines of it: the
 * lock with what it guards most often, and the line that is on its way while the lock is still
 * taken. */
struct kn_accumulator {
    /* under lock; `leader` and `batches` change under it, and are read without it, too */
    _Alignas(KN_LINE_BYTES) struct kn_mutex lock;
    struct kn_batch *open;              /* being appended to, or NULL */
    _Atomic(struct kn_broker *) leader; /* NULL: unknown; batches wait */
    atomic_int batches;                 /* open, waiting, in flight */
    int32_t leader_epoch;
    /* immutable */
    struct kn_producer *producer;
    int32_t partition; /* KN_STAGING: a topic's staging accumulator */
    /* under lock */
    size_t batch_limit_bytes; /* a batch of several records stays below */
    /* of keyless records that stuck to this partition, minus batch_limit_bytes for each time they
     * moved on for it */
    int64_t stuck_bytes;
    /* the leader looks here then, at the latest; KN_NEVER: it doesn't */
    int64_t notified_us;
    /* the last append's, and where in it that ended: memory to fetch ahead; both may be gone */
    const struct kn_buffer *last_buffer;
    const uint8_t *last_end;
    /* how large the last batches became: the next buffer's first size */
    size_t buffer_hint_bytes;
    uint8_t topic_id[16]; /* zeros: none */
    /* the topic was made anew while batches were in flight to the old one: those are settled first
     */
    bool remade;
    struct kn_broker *in_flight_broker; /* whose requests carry our batches */
    int32_t in_flight;                  /* batches out there */
    int32_t opaque_hint;                /* how many opaques the last batch had */
    struct kn_list waiting;             /* complete batches, in id order */
    int64_t next_id;
    struct kn_sequence sequence; /* idempotence */
    /* the transaction that admission to was asked for last, and given */
    int64_t asked_number, admitted_number;
    int64_t closed_messages;                     /* ever, in batches that were closed */
    int64_t delivered_messages, delivered_bytes; /* ever; bytes of keys, values and headers */
    int64_t in_flight_messages;
    /* staging: of the table that is published; 0: there is none */
    int32_t known_partitions;
    /* immutable */
    struct kn_topic *topic;
    uint64_t topic_token; /* the topic's */
};

#define KN_STAGING (-1)
extern const uint8_t kn_no_topic_id[16]; /* zeros */

enum kn_move_on {
    KN_STAY,
    KN_MOVE_ON_NOW, /* keyless records had better go to another partition from now on */
    /* if they have stuck to this one for long enough: a batch has begun, and no clock was read */
    KN_MOVE_ON_LATE
};

/* What an append wants done once the lock is dropped. */
struct kn_notice {
    struct kn_broker *broker; /* NULL: nobody */
    int64_t at_us;
    enum kn_move_on move_on;
    bool completed; /* a batch was */
};

/* What is appended: a message with what produce() has already worked out about it. */
struct kn_append {
    const struct kn_message *message;
    size_t bound_bytes;   /* kn_record_bound_bytes() of it */
    int64_t budget_bytes; /* what it took from the budget */
    int64_t timestamp_ms;
    int64_t created_us; /* 0: now */
    int64_t created_ms; /* with created_us: kn_batch.created_ms */
    int64_t wall_ms;    /* kn_wall_ms() as read for this message; 0: it wasn't */
    bool timed;         /* timestamp_ms is when it was produced */
    bool sticks;        /* a keyless record, here because others are (sticky.h) */
};

void kn_accumulator_init(struct kn_accumulator *accumulator, struct kn_producer *producer,
                         struct kn_topic *topic, uint64_t topic_token, int32_t partition);
void kn_accumulator_deinit(struct kn_accumulator *accumulator); /* frees what is left */

/* Appends one record in wire form. KN_OK, KN_ERR_NOMEM, KN_ERR_CLOSED, KN_ERR_STALE (staging only:
 * its partition is known by now). The caller passes `notice` on to kn_notice_send(). */
int kn_accumulator_append(struct kn_accumulator *accumulator, const struct kn_append *append,
                          struct kn_notice *notice);
/* The same with one lock for several. *appended says how many of the first ones are in; with KN_OK
 * it is fewer than `count` when notice->move_on says so. */
int kn_accumulator_append_run(struct kn_accumulator *accumulator, const struct kn_append *appends,
                              int32_t count, int32_t *appended, struct kn_notice *notice);
/* A batch of one partition's records that is complete, as kn_batch_new_of_view() makes it: behind
 * everything that was appended, ahead of what will be. KN_OK: it is the accumulator's.
 * KN_ERR_CLOSED, KN_ERR_FATAL: it is still the caller's. */
int kn_accumulator_put(struct kn_accumulator *accumulator, struct kn_batch *batch,
                       struct kn_notice *notice);
void kn_notice_send(const struct kn_notice *notice, struct kn_accumulator *accumulator);

/* Sets the leader (control thread); notifies it when something waits. */
void kn_accumulator_set_leader(struct kn_accumulator *accumulator, struct kn_broker *leader,
                               int32_t leader_epoch);
/* Sets the topic's id, zeros for none (control thread). With another id the topic was deleted and
 * made anew: nothing is sent to the new one before the answers of the old one are there, or the
 * order could change. */
void kn_accumulator_set_topic_id(struct kn_accumulator *accumulator, const uint8_t id[16]);
static inline struct kn_broker *kn_accumulator_leader(const struct kn_accumulator *accumulator)
{
    return atomic_load_explicit(&accumulator->leader, memory_order_acquire);
}
/* The next batch that `broker` may send at `now_us`, or NULL; an open batch is taken when it is
 * full, lingered or flushing. *next_us says when to ask again (KN_NEVER: wait for a notification):
 * the caller must do so, no notification will come before then. */
struct kn_batch *kn_accumulator_take(struct kn_accumulator *accumulator, struct kn_broker *broker,
                                     int64_t now_us, int64_t *next_us);
/* Whether `broker` leads this partition and something waits in it. False promises a notification
 * when that changes. */
bool kn_accumulator_wants(struct kn_accumulator *accumulator, struct kn_broker *broker);
/* A notification to `broker` came to nothing: the next record notifies again. */
void kn_accumulator_forget_notice(struct kn_accumulator *accumulator, struct kn_broker *broker);
/* A taken batch comes back for another try, in id order. */
void kn_accumulator_requeue(struct kn_accumulator *accumulator, struct kn_batch *batch,
                            int64_t next_try_us);
/* The broker refused a taken batch because of its size (at = 0) or of some record in it: two
 * batches go back in its place, the first with `at` records or half of the bytes; after at = 0 what
 * is appended makes smaller batches, too. Fails (KN_ERR_INVALID: no two parts, KN_ERR_NOMEM) with
 * the batch as it was. */
int kn_accumulator_split(struct kn_accumulator *accumulator, struct kn_batch *batch, int32_t at);
/* A taken batch has its outcome: the in-flight count drops, the batch goes to kn_client_deliver().
 */
void kn_accumulator_settle(struct kn_accumulator *accumulator, struct kn_batch *batch);
/* Control thread: the partition is in transaction `number`, its batches may be sent. */
void kn_accumulator_admit(struct kn_accumulator *accumulator, int64_t number);
/* Control thread: the client's producer id and epoch, from now on. */
void kn_accumulator_grant(struct kn_accumulator *accumulator, int64_t producer_id,
                          int16_t producer_epoch);
/* The broker refused the number of a taken batch. RESTART: nothing older is outstanding, so
 * numbering starts anew once a newer identity is granted.
 * LOST: neither that, nor a failure before it, can be the reason: the broker has lost what it
 * acknowledged, or what it may have written. Where idempotence is only wanted, that is a RESTART,
 * too: then nothing is worse than without it. */
enum kn_sequence_verdict { KN_SEQUENCE_RETRY, KN_SEQUENCE_RESTART, KN_SEQUENCE_LOST };
enum kn_sequence_verdict kn_accumulator_out_of_sequence(struct kn_accumulator *accumulator,
                                                        const struct kn_batch *batch,
                                                        int16_t error_code);
/* Control thread, about once a second: batches older than message.timeout.ms are delivered with
 * KN_ERR_TIMED_OUT. Taken ones are left alone: a request may still point into them. */
void kn_accumulator_expire(struct kn_accumulator *accumulator, int64_t now_us);
/* Control thread, or the leader's when it can't take anything: delivers everything that isn't taken
 * with this error. */
void kn_accumulator_fail(struct kn_accumulator *accumulator, int status, int16_t error_code,
                         const char *text);
/* Control thread: delivers what was created before `before_us`, and isn't taken, with this status.
 */
void kn_accumulator_fail_older(struct kn_accumulator *accumulator, int64_t before_us, int status,
                               const char *text);
/* Under lock: moves every batch that isn't taken to the initialised list `into`, in order. */
void kn_accumulator_steal(struct kn_accumulator *accumulator, struct kn_list *into);
/* Under lock: puts stolen batches back, behind nothing: nothing was appended since. Empties
 * `batches`. */
void kn_accumulator_return(struct kn_accumulator *accumulator, struct kn_list *batches);

#endif
