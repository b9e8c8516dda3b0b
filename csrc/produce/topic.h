/* A topic that is produced to: its partitions, its partitioner, and staging while its metadata is
 * unknown.
 *
 * Thread: application threads call kn_topic_produce(). The control thread calls
 * set_partitions/fail/expire, one at a time.
 * Lock: `lock` (leaf) guards the `wanted` flag. Threads read the partition table through one atomic
 * pointer. A table never changes; a new one replaces it, and old tables live until the topic is
 * freed. So a reader needs no lock.
 * Who frees: the engine, after its broker threads ended.
 *
 * Staging is an accumulator (partition KN_STAGING, no leader) whose batches remember the partition
 * that each record asked for. When the metadata comes, the control thread moves the staged records
 * into the partitions, in rounds. In the last round it holds staging's lock (rank TOPIC) while it
 * fills the partitions (rank LEAF) and publishes the table. So no later record can overtake a
 * staged one. Only here do two locks nest. */
#ifndef KN_PRODUCE_TOPIC_H
#define KN_PRODUCE_TOPIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/histogram.h"
#include "produce/accumulator.h"
#include "produce/adaptive_level.h"
#include "produce/message.h"
#include "produce/producer.h"
#include "produce/sticky.h"

struct kn_topic_windows {          /* for statistics: counting.h */
    struct kn_histogram batchsize; /* bytes as sent */
    struct kn_histogram batchcnt;  /* messages */
};

struct kn_topic { /* begins on a cache line; the first line has the fields that produce() reads */
    /* immutable */
    struct kn_producer *producer;
    const struct kn_produce_config *config; /* its own one, or the producer's */
    enum kn_partitioner partitioner;
    /* atomic */
    /* NULL: unknown, so records are staged; a record for a partition that isn't in the table is
     * staged, too */
    _Atomic(struct kn_partition_table *) table;
    struct kn_sticky sticky;
    /* immutable */
    char *name;
    int32_t name_bytes;
    uint64_t token; /* the binding's token */
    int64_t created_us;
    struct kn_topic_windows *windows;        /* NULL: no statistics */
    struct kn_adaptive_level adaptive_level; /* atomic */
    atomic_uint turn;    /* for the partitioner round_robin: counts its choices */
    atomic_bool missing; /* the cluster has no such topic: records aren't staged */
    struct kn_list node; /* in the producer's list of topics, under the producer's lock */
    /* guards itself */
    struct kn_accumulator staging;
    /* control thread only */
    struct kn_partition_table *tables;  /* every table since the start, newest first */
    struct kn_partition_table *largest; /* the largest of them: it has all accumulators */
    bool forgotten;                     /* kn_topic_forget(), until the next partitions */
    uint8_t id[16];                     /* topic id, zeros: none */
    /* under lock */
    struct kn_mutex lock;
    bool wanted; /* TOPIC_WANTED was sent for the staged records */
};

/* Appends a record to a batch. A record for an unknown partition is staged, and TOPIC_WANTED is
 * sent. Never blocks, except on a leaf lock. KN_OK: the engine owns the opaque. Otherwise the
 * caller still owns everything: KN_ERR_FULL, KN_ERR_TOO_LARGE (over message.max.bytes), KN_ERR_NOMEM,
 * KN_ERR_CLOSED. */
int kn_topic_produce(struct kn_topic *topic, const struct kn_message *message);
/* The same for at most KN_PRODUCE_RUN_MAX messages, with one budget, one lock and one notification
 * for all. *queued is how many of the first ones were queued. KN_OK: all; otherwise the reason why
 * the next one wasn't. */
#define KN_PRODUCE_RUN_MAX 64
int kn_topic_produce_run(struct kn_topic *topic, const struct kn_message *messages, int32_t count,
                         int32_t *queued);

/* Queues a complete batch for its partition (kn_accumulator_put()). KN_OK: the engine owns it.
 * KN_ERR_STALE: its partition is unknown. Other statuses as in kn_topic_produce(). A batch that is
 * larger than the whole queue always fails. */
int kn_topic_produce_batch(struct kn_topic *topic, struct kn_batch *batch);

/* Calls kn_accumulator_take(). If that takes an open batch, also checks whether keyless records
 * should go to another partition. */
struct kn_batch *kn_topic_take(struct kn_accumulator *accumulator, struct kn_broker *broker,
                               int64_t now_us, int64_t *next_us);

int32_t kn_topic_partition_count(struct kn_topic *topic); /* any thread; 0: unknown */

struct kn_topic *kn_topic_new(struct kn_producer *producer, const char *name, int32_t name_bytes,
                              uint64_t token);
void kn_topic_free(struct kn_topic *topic);
/* Sets the partitions after a metadata response. `leaders` has `count` brokers (NULL: no leader
 * now). Creates missing accumulators, moves staged records to them in order, publishes the table,
 * and sets the leaders.
 * - A smaller count with the same id is ignored: partitions don't disappear while the topic lives.
 * - A smaller count with another id fails the messages of the missing partitions with
 *   KN_ERR_UNKNOWN_PARTITION.
 * - Staged records for a partition beyond `count` stay staged.
 * id NULL: the topic has no id. */
int kn_topic_set_partitions(struct kn_topic *topic, const uint8_t id[16], int32_t count,
                            struct kn_broker *const *leaders, const int32_t *leader_epochs);
/* The topic can't be produced to (unknown, unauthorized): fails all staged and waiting records with
 * this error. Later kn_topic_produce() calls stage again and send TOPIC_WANTED again. */
void kn_topic_fail(struct kn_topic *topic, int status, int16_t error_code, const char *text);
/* Control thread: further records are refused with KN_ERR_UNKNOWN_TOPIC and send TOPIC_WANTED, until
 * the topic has partitions. */
void kn_topic_refuse(struct kn_topic *topic);
/* Control thread: records that were staged before `before_us` for missing partitions fail with
 * KN_ERR_UNKNOWN_PARTITION. Returns whether records are still staged. Records that are staged later
 * send TOPIC_WANTED again. */
bool kn_topic_fail_unknown(struct kn_topic *topic, int64_t before_us);
/* Control thread: returns whether messages wait, or some were queued since `since_us`. */
bool kn_topic_used_since(struct kn_topic *topic, int64_t since_us);
/* Control thread: withdraws the partitions, because the client doesn't refresh the topic's metadata
 * any more. The next record is staged and sends TOPIC_WANTED. Returns false, and does nothing, if
 * messages wait. */
bool kn_topic_forget(struct kn_topic *topic);
/* control thread: fails waiting messages with KN_ERR_PURGED */
void kn_topic_purge(struct kn_topic *topic);
/* Control thread: sets the client's producer id and epoch for every partition. */
void kn_topic_grant(struct kn_topic *topic, int64_t producer_id, int16_t producer_epoch);
/* Expires the records of staging and of every accumulator. If a record reached a forgotten topic
 * while it was being withdrawn, sends TOPIC_WANTED. */
void kn_topic_expire(struct kn_topic *topic, int64_t now_us);

/* returns the topic, created at first use */
struct kn_topic *kn_producer_topic(struct kn_producer *producer, const char *name,
                                   int32_t name_bytes, uint64_t token);
/* Returns the topic after `topic` (NULL: the first); NULL at the end. A client never removes a
 * topic, so no lock is held between two calls. */
struct kn_topic *kn_producer_topic_next(struct kn_producer *producer, const struct kn_topic *topic);

#endif
