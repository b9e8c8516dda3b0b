/* A topic that is produced to: partitions, partitioner, and staging while its metadata isn't known.
 *
 * Thread: kn_topic_produce() from application threads; set_partitions/fail/expire from the control
 * thread (one at a time).
 * Lock: `lock` (leaf) guards the TOPIC_WANTED flag. The partition table is read through one atomic
 * pointer. A table is replaced, never changed, and old tables live until the topic is freed, so
 * that a reader needs no lock.
 * Who frees: the engine, after its broker threads ended.
 *
 * Staging is an accumulator of its own (partition KN_STAGING, no leader), whose batches remember
 * what partition each record asked for. Publishing a table ends it: the control thread drains it
 * into the partitions in rounds, and the last round holds its lock (rank TOPIC) while it fills
 * partitions (rank LEAF) and publishes, so that no record can slip in behind and be overtaken. That
 * is the one place where locks nest.
 */
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

struct kn_topic { /* on a cache line, the first of which is what produce() needs of it */
    /* immutable */
    struct kn_producer *producer;
    enum kn_partitioner partitioner;
    /* atomic */
    /* NULL: unknown, records are staged, as those for a partition that isn't in it */
    _Atomic(struct kn_partition_table *) table;
    struct kn_sticky sticky;
    /* immutable */
    char *name;
    int32_t name_bytes;
    uint64_t token; /* the binding's */
    int64_t created_us;
    struct kn_topic_windows *windows;        /* NULL: no statistics */
    struct kn_adaptive_level adaptive_level; /* atomic */
    struct kn_list node; /* in the producer's list of topics, under the producer's lock */
    /* guards itself */
    struct kn_accumulator staging;
    /* control thread only */
    struct kn_partition_table *tables;  /* newest first: all that ever were */
    struct kn_partition_table *largest; /* of them: its accumulators are all that there are */
    uint8_t id[16];                     /* topic id, zeros: none */
    /* under lock */
    struct kn_mutex lock;
    bool wanted; /* TOPIC_WANTED was sent for what is staged */
};

/* KN_OK: the record is in a batch and the opaque is the engine's. Otherwise nothing was kept:
 * KN_ERR_FULL, KN_ERR_TOO_LARGE (over message.max.bytes), KN_ERR_NOMEM, KN_ERR_CLOSED. A record for
 * a partition that isn't known is staged, and TOPIC_WANTED is sent. Never blocks beyond a leaf
 * lock. */
int kn_topic_produce(struct kn_topic *topic, const struct kn_message *message);
/* The same for up to KN_PRODUCE_RUN_MAX messages at a time: budget, locks and notifications are for
 * all of them. *queued says how many of the first ones are in; KN_OK: all of them, otherwise why
 * the next one isn't. */
#define KN_PRODUCE_RUN_MAX 64
int kn_topic_produce_run(struct kn_topic *topic, const struct kn_message *messages, int32_t count,
                         int32_t *queued);

/* A complete batch (kn_accumulator_put()) for its partition. KN_OK: it is the engine's.
 * KN_ERR_STALE: its partition isn't known; the rest is as with kn_topic_produce(). Its messages may
 * be more than the queue takes at all: then it is never KN_OK. */
int kn_topic_produce_batch(struct kn_topic *topic, struct kn_batch *batch);

/* kn_accumulator_take(); where it takes a batch that was still open, keyless records look whether
 * they are to go elsewhere. */
struct kn_batch *kn_topic_take(struct kn_accumulator *accumulator, struct kn_broker *broker,
                               int64_t now_us, int64_t *next_us);

int32_t kn_topic_partition_count(struct kn_topic *topic); /* any thread; 0: not known now */

struct kn_topic *kn_topic_new(struct kn_producer *producer, const char *name, int32_t name_bytes,
                              uint64_t token);
void kn_topic_free(struct kn_topic *topic);
/* Metadata has come, or changed: `leaders` holds count brokers (NULL: no leader now). Creates
 * missing accumulators, moves staged records over in order before the table is published, and sets
 * leaders. A smaller count than before is ignored (partitions never go away while the topic lives)
 * unless the id is another one, too: then what waits for partitions that are gone is delivered with
 * KN_ERR_UNKNOWN_PARTITION. Staged records that asked for a partition beyond `count` stay staged.
 * id NULL: none. */
int kn_topic_set_partitions(struct kn_topic *topic, const uint8_t id[16], int32_t count,
                            struct kn_broker *const *leaders, const int32_t *leader_epochs);
/* The topic can't be produced to (unknown, unauthorized): everything staged and waiting is
 * delivered with the error. Later produce() calls stage anew and send TOPIC_WANTED again. */
void kn_topic_fail(struct kn_topic *topic, int status, int16_t error_code, const char *text);
/* Control thread: what was staged before `before_us` for partitions that aren't there is delivered
 * with KN_ERR_UNKNOWN_PARTITION. Whether anything is still staged; what will be sends TOPIC_WANTED
 * again. */
bool kn_topic_fail_unknown(struct kn_topic *topic, int64_t before_us);
/* control thread: what waits is delivered with KN_ERR_PURGED */
void kn_topic_purge(struct kn_topic *topic);
/* Control thread: the client's producer id and epoch, for every partition. */
void kn_topic_grant(struct kn_topic *topic, int64_t producer_id, int16_t producer_epoch);
void kn_topic_expire(struct kn_topic *topic, int64_t now_us); /* staging and every accumulator */

/* made at first use */
struct kn_topic *kn_producer_topic(struct kn_producer *producer, const char *name,
                                   int32_t name_bytes, uint64_t token);
/* The topic after `topic` (NULL: the first), NULL at the end. Topics never go away, so no lock is
 * held between two calls. */
struct kn_topic *kn_producer_topic_next(struct kn_producer *producer, const struct kn_topic *topic);

#endif
