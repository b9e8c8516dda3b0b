/* A topic that is produced to: partitions, partitioner, and staging while its metadata isn't known.
 *
 * Thread: kn_topic_produce() from application threads; set_partitions/fail/expire from the control thread (one at a time).
 * Lock: `lock` (leaf) guards the TOPIC_WANTED flag. The partition table is read through one atomic
 * pointer. A table is replaced, never changed, and old tables live until the topic is freed, so that a reader needs no lock.
 * Who frees: the engine, after its broker threads ended.
 *
 * Staging is an accumulator of its own (partition KN_STAGING, no leader), whose batches remember what partition each record asked for. Publishing a table
 * ends it: the control thread drains it into the partitions in rounds, and the last round holds its lock (rank TOPIC) while it fills partitions
 * (rank LEAF) and publishes, so that no record can slip in behind and be overtaken. That is the one place where locks nest.
 */
#ifndef KN_ENGINE_TOPIC_H
#define KN_ENGINE_TOPIC_H

#include <stdatomic.h>
#include <stdint.h>
#include "engine/accumulator.h"
#include "engine/adaptive_level.h"
#include "engine/partitioner.h"
#include "records/record_reader.h"

struct kn_partition_table {
    struct kn_partition_table *older;
    int32_t count;
    struct kn_accumulator *partitions[]; /* count; shared with the older tables */
};

struct kn_topic { /* on a cache line, the first of which is what produce() needs of it */
    /* immutable */
    struct kn_engine *engine;
    enum kn_partitioner partitioner;
    int32_t sticky_linger_ms;    /* sticky.partitioning.linger.ms; 0: keyless records don't stick */
    /* atomic */
    _Atomic(struct kn_partition_table *) table; /* NULL: unknown, records are staged, as those for a partition that isn't in it */
    _Atomic(struct kn_accumulator *) sticky; /* for keyless records (sticky.h); NULL: none yet */
    _Atomic int64_t sticky_until_ms; /* Unix time: they go to another one then */
    /* immutable */
    char *name;
    int32_t name_bytes;
    uint64_t token;              /* the binding's */
    int64_t created_us;
    struct kn_topic_windows *windows; /* NULL: no statistics */
    struct kn_adaptive_level adaptive_level;     /* atomic */
    struct kn_list node;         /* in the engine's list of topics, under the engine's lock */
    /* guards itself */
    struct kn_accumulator staging;
    /* control thread only */
    struct kn_partition_table *tables; /* newest first: all that ever were */
    struct kn_partition_table *largest;/* of them: its accumulators are all that there are */
    uint8_t id[16];              /* topic id, zeros: none */
    /* under lock */
    struct kn_mutex lock;
    int wanted;                  /* TOPIC_WANTED was sent for what is staged */
};

struct kn_message { /* what produce() was called with; borrowed for the call */
    const uint8_t *key;    /* NULL: null */
    const uint8_t *value;
    const uint8_t *headers;/* wire form, see batch_writer.h */
    size_t headers_bytes;
    int32_t key_bytes;
    int32_t value_bytes;
    int32_t header_count;
    int32_t partition;     /* -1: the partitioner's choice */
    int64_t timestamp_ms;  /* <= 0: now */
    int64_t wall_ms;       /* kn_wall_ms(), if the caller has just looked; 0: it hasn't */
    void *opaque;          /* a token, NULL: no callback */
};

/* A record once more as a message. */
static inline struct kn_message kn_message_of(const struct kn_record *record, int32_t partition, void *opaque)
{
    return (struct kn_message){
        .key = record->key,
        .value = record->value,
        .headers = record->headers,
        .headers_bytes = (size_t)record->headers_bytes,
        .key_bytes = record->key_bytes,
        .value_bytes = record->value_bytes,
        .header_count = record->header_count,
        .partition = partition,
        .timestamp_ms = record->timestamp_ms,
        .opaque = opaque,
    };
}

/* KN_OK: the record is in a batch and the opaque is the engine's. Otherwise nothing was kept: KN_ERR_FULL, KN_ERR_TOO_LARGE (over message.max.bytes),
 * KN_ERR_NOMEM, KN_ERR_CLOSED. A record for a partition that isn't known is staged, and TOPIC_WANTED is sent. Never blocks beyond a leaf lock. */
int kn_topic_produce(struct kn_topic *topic, const struct kn_message *message);
/* The same for up to KN_PRODUCE_RUN_MAX messages at a time: budget, locks and notifications are for all of them. *queued says how many of the first ones
 * are in; KN_OK: all of them, otherwise why the next one isn't. */
#define KN_PRODUCE_RUN_MAX 64
int kn_topic_produce_run(struct kn_topic *topic, const struct kn_message *messages, int32_t count, int32_t *queued);

/* A complete batch (kn_accumulator_put()) for its partition. KN_OK: it is the engine's. KN_ERR_STALE: its partition isn't known; the rest is as with
 * kn_topic_produce(). Its messages may be more than the queue takes at all: then it is never KN_OK. */
int kn_topic_produce_batch(struct kn_topic *topic, struct kn_batch *batch);

int32_t kn_topic_partition_count(struct kn_topic *topic); /* any thread; 0: not known now */

struct kn_topic *kn_topic_new(struct kn_engine *engine, const char *name, int32_t name_bytes, uint64_t token);
void kn_topic_free(struct kn_topic *topic);
/* Metadata has come, or changed: `leaders` holds count brokers (NULL: no leader now). Creates missing accumulators, moves staged records over in order
 * before the table is published, and sets leaders. A smaller count than before is ignored (partitions never go away while the topic lives) unless the
 * id is another one, too: then what waits for partitions that are gone is delivered with KN_ERR_UNKNOWN_PARTITION. Staged records that asked for a
 * partition beyond `count` stay staged. id NULL: none. */
int kn_topic_set_partitions(struct kn_topic *topic, const uint8_t id[16], int32_t count, struct kn_broker *const *leaders,
                            const int32_t *leader_epochs);
/* The topic can't be produced to (unknown, unauthorized): everything staged and waiting is delivered with the error. Later produce() calls stage anew
 * and send TOPIC_WANTED again. */
void kn_topic_fail(struct kn_topic *topic, int status, int16_t error_code, const char *text);
/* Control thread: what was staged before `before_us` for partitions that aren't there is delivered with KN_ERR_UNKNOWN_PARTITION. Whether anything is still
 * staged; what will be sends TOPIC_WANTED again. */
int kn_topic_fail_unknown(struct kn_topic *topic, int64_t before_us);
void kn_topic_purge(struct kn_topic *topic); /* control thread: what waits is delivered with KN_ERR_PURGED */
/* Control thread: the client's producer id and epoch, for every partition. */
void kn_topic_grant(struct kn_topic *topic, int64_t producer_id, int16_t producer_epoch);
void kn_topic_expire(struct kn_topic *topic, int64_t now_us); /* staging and every accumulator */

#endif
