/* A partition that is produced to: its open batch, its complete batches, and their state.
 *
 * Thread: application threads append (they may hold the interpreter lock, because no holder of
 * `lock` blocks). The leader's broker thread takes and settles. The control thread expires.
 * Lock: `lock` (leaf). Under it nothing takes a buffer, compresses, or notifies a broker.
 * Who frees: an accumulator lives as long as its topic, and the topic as long as its engine. The
 * accumulator's lists own a batch first, then the request that carries it, then the deliveries
 * queue. kn_batch_free() returns the batch's buffers.
 *
 * Order: batches have a rising `id`. A batch that is retried goes back in id order, and while it
 * waits for its backoff the broker thread takes no later batch. A broker may take batches only
 * while no other broker has one in flight (in_flight_broker). So after a leader change the old
 * leader's batches are settled first, and order and sequence numbers stay correct. A broker may
 * write a batch, answer with an error, and answer the next ones well. Their reports are held until
 * the first one is settled.
 *
 * Notifications: the leader will check this accumulator at `notified_us` without another
 * notification. So a batch costs at most two notifications, and none while an earlier one is
 * outstanding. The leader resets the time under the lock when it checks (take, wants), so no
 * wake-up is lost. */
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

#define KN_PRODUCER_WAIVED (-2) /* replaces a producer id: batches have no sequence numbers */

/* Idempotence (KIP-98, KIP-360): the producer id and epoch of the partition's batches, and their
 * next sequence number.
 *
 * The client may get a new epoch while batches of the old one have no outcome yet. They keep the
 * old epoch, and the partition changes to the new one once they are settled. One case proves that
 * none of them was written: the broker refuses a batch as out of sequence although no older batch
 * is outstanding, and no later one that may have been written was. Then all of them get new numbers
 * (`restart`). So the broker never writes a batch
 * under two numbers. */
struct kn_sequence {
    /* the client's newest id; -1: none yet; or KN_PRODUCER_WAIVED */
    int64_t granted_id;
    int16_t granted_epoch;
    int16_t epoch; /* the epoch that `next` belongs to */
    int64_t id;
    int32_t next;
    bool restart;
    /* ids of the newest numbered batch that was written, and of the newest that failed: the broker
     * may refuse the batches behind a failed one */
    int64_t written_id, failed_id;
    int64_t excused_id;  /* the newest failed batch behind which batches were retried at once */
    int64_t written_end; /* the offset behind the last batch that was written; -1: unknown */
    /* the broker wrote a batch of this id and epoch. Until then only one batch is in flight: a
     * broker that doesn't know the producer accepts any number, even that of a batch behind one
     * that it has just refused. */
    bool proved;
    /* A tolerated batch leaves a gap, so the broker refuses the batches behind it. Once nothing is
     * in flight, they get new numbers from `gap` on. None of them was written. */
    bool has_gap;
    int32_t gap;
    /* kn_batch.sequence_node, in sequence order: numbered batches without an outcome */
    struct kn_list unsettled;
    /* in id order: written batches behind an unsettled one. They are reported after it. */
    struct kn_list held;
};

/* Ten thousand partitions don't fit into the CPU cache. So an append touches two cache lines only:
 * one has the lock and the fields used most, and the CPU fetches the other while the thread takes
 * the lock. */
struct kn_accumulator {
    /* under lock; threads also read `leader` and `batches` without it */
    _Alignas(KN_LINE_BYTES) struct kn_mutex lock;
    struct kn_batch *open;              /* the batch that records are appended to, or NULL */
    _Atomic(struct kn_broker *) leader; /* NULL: unknown, so batches wait */
    atomic_int batches;                 /* open, waiting, in flight */
    int32_t leader_epoch;
    /* immutable */
    struct kn_producer *producer;
    int32_t partition; /* KN_STAGING: a topic's staging accumulator */
    /* under lock */
    size_t batch_limit_bytes; /* a batch of several records stays below this size */
    /* bytes of keyless records that stuck to this partition, minus batch_limit_bytes for each time
     * they moved to another one because of the size */
    int64_t stuck_bytes;
    /* latest time of the leader's next check; KN_NEVER: only after a notification */
    int64_t notified_us;
    /* the buffer of the last append, and where the append ended in it: used to prefetch memory
     * only, because both may be freed */
    const struct kn_buffer *last_buffer;
    const uint8_t *last_end;
    /* size of the recent batches: the next buffer begins with this capacity */
    size_t buffer_hint_bytes;
    uint8_t topic_id[16]; /* zeros: none */
    /* the topic was deleted and recreated while batches were in flight to the old one: these
     * are settled first */
    bool remade;
    struct kn_broker *in_flight_broker; /* the broker whose requests carry these batches */
    int32_t in_flight;                  /* batches in these requests */
    int32_t opaque_hint;                /* how many opaques the last batch had */
    struct kn_list waiting;             /* complete batches, in id order */
    int64_t next_id;
    int64_t used_us;             /* when the newest batch was created; 0: never */
    struct kn_sequence sequence; /* idempotence */
    /* the last transaction that the leader asked to join, and the last that it joined */
    int64_t requested_number, admitted_number;
    int64_t closed_messages; /* since the start, in batches that were closed */
    /* since the start; the bytes of keys, values and headers */
    int64_t delivered_messages, delivered_bytes;
    int64_t in_flight_messages;
    /* staging: partition count of the published table; 0: there is none */
    int32_t known_partitions;
    /* immutable */
    struct kn_topic *topic;
    const struct kn_produce_config *config; /* the topic's */
    uint64_t topic_token;                   /* the topic's token */
};

#define KN_STAGING (-1)
extern const uint8_t kn_no_topic_id[16]; /* zeros */

enum kn_move_on {
    KN_STAY,
    KN_MOVE_ON_NOW, /* keyless records should go to another partition from now on */
    /* the same, if they have stuck to this one for long enough: a batch has begun, and no clock was
     * read */
    KN_MOVE_ON_LATE
};

/* The tasks of an append's caller after it has dropped the lock. */
struct kn_notice {
    struct kn_broker *broker; /* the broker to notify; NULL: none */
    int64_t at_us;
    enum kn_move_on move_on;
    bool completed; /* a batch became complete */
};

/* One record to append: a message, and the values that produce() has computed for it. */
struct kn_append {
    const struct kn_message *message;
    size_t bound_bytes;   /* kn_record_bound_bytes() of it */
    int64_t budget_bytes; /* its bytes in the budget */
    int64_t timestamp_ms;
    int64_t created_us; /* 0: now */
    int64_t created_ms; /* with created_us: kn_batch.created_ms */
    int64_t wall_ms;    /* kn_wall_ms(), if the caller read it for this message; 0: it didn't */
    bool timed;         /* timestamp_ms is the time of produce() */
    bool sticks;        /* a keyless record that stuck to this partition (sticky.h) */
    int32_t turn;       /* round_robin's choice for this record plus one; 0: none yet */
};

void kn_accumulator_init(struct kn_accumulator *accumulator, struct kn_producer *producer,
                         struct kn_topic *topic, uint64_t topic_token, int32_t partition);
/* frees the batches that are left */
void kn_accumulator_deinit(struct kn_accumulator *accumulator);

/* Appends one record in wire form. KN_OK, KN_ERR_NOMEM, KN_ERR_CLOSED, KN_ERR_STALE (staging only:
 * the record's partition is known by now). The caller passes `notice` to kn_notice_send(). */
int kn_accumulator_append(struct kn_accumulator *accumulator, const struct kn_append *append,
                          struct kn_notice *notice);
/* The same for several records under one lock. *appended is how many of the first ones were
 * appended. With KN_OK it is less than `count` if notice->move_on isn't KN_STAY. */
int kn_accumulator_append_run(struct kn_accumulator *accumulator, const struct kn_append *appends,
                              int32_t count, int32_t *appended, struct kn_notice *notice);
/* Adds a complete batch (kn_batch_new_of_view()) behind all records that were appended before.
 * KN_OK: the accumulator owns it. KN_ERR_CLOSED, KN_ERR_FATAL: the caller still owns it. */
int kn_accumulator_put(struct kn_accumulator *accumulator, struct kn_batch *batch,
                       struct kn_notice *notice);
void kn_notice_send(const struct kn_notice *notice, struct kn_accumulator *accumulator);

/* Sets the leader (control thread). Notifies it if a batch waits. */
void kn_accumulator_set_leader(struct kn_accumulator *accumulator, struct kn_broker *leader,
                               int32_t leader_epoch);
/* Sets the topic's id (control thread); zeros: none. A new id means that the topic was deleted and
 * created again. Then the batches in flight to the old topic are settled before the first one goes
 * to the new topic; otherwise the order could change. */
void kn_accumulator_set_topic_id(struct kn_accumulator *accumulator, const uint8_t id[16]);
static inline struct kn_broker *kn_accumulator_leader(const struct kn_accumulator *accumulator)
{
    return atomic_load_explicit(&accumulator->leader, memory_order_acquire);
}
/* Returns the next batch that `broker` may send at `now_us`, or NULL. Takes an open batch if it is
 * full, if its linger is over, or during a flush. The caller must ask again at *next_us (KN_NEVER:
 * after a notification); there is no notification before that time. */
struct kn_batch *kn_accumulator_take(struct kn_accumulator *accumulator, struct kn_broker *broker,
                                     int64_t now_us, int64_t *next_us);
/* Returns whether a batch waits that is complete, so it won't grow. */
bool kn_accumulator_has_complete(struct kn_accumulator *accumulator);
/* Returns whether `broker` leads this partition and a batch waits in it. After false, a
 * notification comes when that changes. */
bool kn_accumulator_wants(struct kn_accumulator *accumulator, struct kn_broker *broker);
/* A notification couldn't be delivered to `broker`: the next record notifies it again. */
void kn_accumulator_forget_notice(struct kn_accumulator *accumulator, struct kn_broker *broker);
/* Puts a taken batch back for another try, in id order. */
void kn_accumulator_requeue(struct kn_accumulator *accumulator, struct kn_batch *batch,
                            int64_t next_try_us);
/* The broker refused a taken batch because of its size (at = 0) or because of one record in it. Two
 * batches replace it: the first has `at` records, or half of the bytes. After at = 0 later batches
 * are smaller, too. On failure the batch is unchanged (KN_ERR_INVALID: it can't be divided;
 * KN_ERR_NOMEM). */
int kn_accumulator_split(struct kn_accumulator *accumulator, struct kn_batch *batch, int32_t at);
/* A taken batch has its outcome: lowers the in-flight count and passes the batch to
 * kn_client_deliver(). */
void kn_accumulator_settle(struct kn_accumulator *accumulator, struct kn_batch *batch);
/* Returns whether the accumulator has batches, or got one since `since_us`. */
bool kn_accumulator_used_since(struct kn_accumulator *accumulator, int64_t since_us);
/* Control thread: the partition has joined transaction `number`, so its batches may be sent. */
void kn_accumulator_admit(struct kn_accumulator *accumulator, int64_t number);
/* Control thread: sets the client's producer id and epoch for later batches. */
void kn_accumulator_grant(struct kn_accumulator *accumulator, int64_t producer_id,
                          int16_t producer_epoch);
/* Returns whether the transaction continues without a failed batch: the broker has refused it
 * because of its records, and surely hasn't written it. Then its sequence numbers are free. */
bool kn_accumulator_tolerates(const struct kn_producer *producer, const struct kn_batch *batch);
/* Called when the broker refused the sequence number of a taken batch.
 * - WRITTEN: a later batch was written, so the broker had this one, too. A restarted broker knows
 *   only the last batch of a producer, and an earlier one that comes again is out of order.
 * - RETRY: an earlier batch explains it, or a later one may still prove that this one was written.
 *   So the batch is sent again.
 * - RESTART: no older batch is outstanding, so the partition restarts its sequence numbers once the
 *   client has a newer epoch.
 * - LOST: neither is the reason: the broker has lost records that it acknowledged or may have
 *   written. With KN_IDEMPOTENCE_WANTED the result is RESTART instead, which is as good as no
 *   idempotence. */
enum kn_sequence_verdict {
    KN_SEQUENCE_WRITTEN,
    KN_SEQUENCE_RETRY,
    KN_SEQUENCE_RESTART,
    KN_SEQUENCE_LOST
};
enum kn_sequence_verdict kn_accumulator_out_of_sequence(struct kn_accumulator *accumulator,
                                                        struct kn_batch *batch, int16_t error_code);
/* Control thread, about once a second: fails batches older than message.timeout.ms with
 * KN_ERR_TIMED_OUT. It leaves taken batches alone, because a request may still point into them. */
void kn_accumulator_expire(struct kn_accumulator *accumulator, int64_t now_us);
/* Control thread, or the leader's thread when it can't send to this partition: fails every batch
 * that isn't taken with this error. */
void kn_accumulator_fail(struct kn_accumulator *accumulator, int status, int16_t error_code,
                         const char *text);
/* Control thread: fails the batches that were created before `before_us` and aren't taken. */
void kn_accumulator_fail_older(struct kn_accumulator *accumulator, int64_t before_us, int status,
                               const char *text);
/* Under lock: moves every batch that isn't taken to the initialised list `into`, in order. */
void kn_accumulator_steal(struct kn_accumulator *accumulator, struct kn_list *into);
/* Under lock: puts stolen batches back and empties `batches`. Nothing was appended since. */
void kn_accumulator_return(struct kn_accumulator *accumulator, struct kn_list *batches);

#endif
