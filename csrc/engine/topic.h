/* A topic that is produced to: partitions, partitioner, and staging while its metadata isn't known.
 *
 * Thread: kn_topic_produce() from application threads; set_partitions/fail from the control thread. Lock: `lock` (rank TOPIC), taken by produce only
 * while the topic is unknown; after that the partition table is read through one atomic pointer. A table is replaced, never changed, and old
 * tables live until the engine is freed, so that a reader needs no lock.
 */
#ifndef KN_ENGINE_TOPIC_H
#define KN_ENGINE_TOPIC_H

#include <stdatomic.h>
#include <stdint.h>
#include "engine/accumulator.h"

enum kn_partitioner { /* ids as in kafka_native/partitioners.py */
    KN_PARTITIONER_CONSISTENT_RANDOM = 0, KN_PARTITIONER_CONSISTENT = 1, KN_PARTITIONER_RANDOM = 2, KN_PARTITIONER_MURMUR2 = 3,
    KN_PARTITIONER_MURMUR2_RANDOM = 4, KN_PARTITIONER_FNV1A = 5, KN_PARTITIONER_FNV1A_RANDOM = 6
};

struct kn_partition_table {
    struct kn_partition_table *older;
    int32_t count;
    struct kn_accumulator *partitions[]; /* count */
};

struct kn_topic {
    /* immutable */
    struct kn_engine *engine;
    char *name;
    int32_t name_bytes;
    uint64_t token;              /* the binding's */
    enum kn_partitioner partitioner;
    struct kn_list node;         /* in the engine's list of topics, under the engine's lock */
    /* atomic */
    _Atomic(struct kn_partition_table *) table; /* NULL: unknown */
    atomic_int sticky_partition; /* for keyless records: moves on when its batch completes */
    /* under lock */
    struct kn_mutex lock;
    uint8_t id[16];              /* topic id, zeros: none; read by senders under lock */
    struct kn_list staged;       /* batches, while table is NULL */
    int wanted;                  /* TOPIC_WANTED was sent */
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
    void *opaque;          /* a token, NULL: no callback */
};

/* KN_OK: the record is in a batch and the opaque is the engine's. Otherwise nothing was kept: KN_ERR_FULL, KN_ERR_TOO_LARGE (over message.max.bytes),
 * KN_ERR_UNKNOWN_PARTITION, KN_ERR_NOMEM, KN_ERR_CLOSED. Never blocks beyond a leaf lock. */
int kn_topic_produce(struct kn_topic *topic, const struct kn_message *message);

struct kn_topic *kn_topic_new(struct kn_engine *engine, const char *name, int32_t name_bytes, uint64_t token);
void kn_topic_free(struct kn_topic *topic);
/* Metadata has come, or changed: `leaders` holds count brokers (NULL: no leader now). Creates missing accumulators, moves staged records over in order
 * before the table is published, and sets leaders. A smaller count than before is ignored (partitions never go away while the topic lives). */
int kn_topic_set_partitions(struct kn_topic *topic, const uint8_t id[16], int32_t count, struct kn_broker *const *leaders,
                            const int32_t *leader_epochs);
/* The topic can't be produced to (unknown, unauthorized): everything staged and waiting is delivered with the error. Later produce() calls stage anew. */
void kn_topic_fail(struct kn_topic *topic, int status, int16_t error_code, const char *text);
void kn_topic_expire(struct kn_topic *topic, int64_t now_us); /* staging and every accumulator */

#endif
