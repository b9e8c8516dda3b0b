/* The sticky partition: the partition for messages whose partition the partitioner leaves open,
 * such as those without a key. They go to the same one until they have filled a batch or for some
 * time, so that batches become large (KIP-480). The next one is chosen by how busy partitions and
 * their brokers are (KIP-794).
 *
 * Thread: any application thread or broker thread.
 * Lock: none of its own; the choice reads values that accumulators publish. `accumulator` and
 * `until_ms` are atomic. The thread that first exchanges the partition makes the choice; all others
 * follow it.
 *
 * Duration: batch.size bytes or sticky.partitioning.linger.ms, whichever comes first. The
 * accumulator counts the bytes under its lock, and append reports the end as kn_notice.move_on. The
 * end isn't the time when the batch leaves: a slow broker, which takes batches late, would then get
 * the largest share. Threads check the time only where they read a clock anyway: in produce() for
 * the message's timestamp, and when a batch begins or leaves.
 *
 * With adaptive partitioning the time begins again with the same partition on two conditions: due
 * batches wait for this partition's broker, and due batches for the next partition's broker have
 * waited as long or longer. A change wouldn't send the messages sooner then, and with thousands of
 * partitions the batches would be tiny.
 *
 * The next partition (partitioner.adaptive.partitioning.enable): a partition's queue is its batches (open,
 * waiting, in flight) plus its broker's requests in flight. Its weight is the length of the longest
 * queue minus its own, plus one. The weight is 0 for a partition without a leader, or whose broker
 * hasn't been ready for partitioner.availability.timeout.ms. Without adaptive partitioning the next
 * one is random, but not the last one.
 *
 * With partitioner.rack.aware the next one is chosen among the partitions whose leader is in the
 * client's rack (KIP-1123). If none of these should get messages, it is chosen among all. */
#ifndef KN_PRODUCE_STICKY_H
#define KN_PRODUCE_STICKY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "produce/accumulator.h"
#include "produce/producer.h"

struct kn_partition_table {
    struct kn_partition_table *older;
    int32_t count;
    struct kn_accumulator *partitions[]; /* `count` entries; older tables share them */
};

struct kn_sticky {                                /* one per topic */
    _Atomic(struct kn_accumulator *) accumulator; /* for keyless records; NULL: none yet */
    _Atomic int64_t until_ms; /* Unix time: then the records go to another partition */
    /* immutable */
    const struct kn_produce_config *config;
    /* sticky.partitioning.linger.ms; 0: keyless records have no sticky partition */
    int32_t linger_ms;
};

/* Chooses another sticky partition, unless another thread has done so since `last` was read.
 * Returns the sticky partition. */
struct kn_accumulator *kn_sticky_next(struct kn_sticky *sticky,
                                      const struct kn_partition_table *table,
                                      struct kn_accumulator *last, int64_t wall_ms);

/* The same at the end of the time. It may choose `last` again. */
struct kn_accumulator *kn_sticky_renew(struct kn_sticky *sticky,
                                       const struct kn_partition_table *table,
                                       struct kn_accumulator *last, int64_t wall_ms);

/* Returns whether the time is over. It is also over if the clock was set back, so that no partition
 * stays sticky for long. */
static inline bool kn_sticky_is_over(const struct kn_sticky *sticky, int64_t wall_ms)
{
    int64_t left_ms = atomic_load_explicit(&sticky->until_ms, memory_order_relaxed) - wall_ms;
    return left_ms <= 0 || left_ms > sticky->linger_ms;
}

/* Returns the sticky partition. wall_ms: kn_wall_ms(), if the caller has read it for this message,
 * else 0. Inline, because every message needs it. */
static inline struct kn_accumulator *kn_sticky_accumulator(struct kn_sticky *sticky,
                                                           const struct kn_partition_table *table,
                                                           int64_t wall_ms)
{
    struct kn_accumulator *current = atomic_load_explicit(&sticky->accumulator,
                                                          memory_order_acquire);
    if (current && (!wall_ms || !kn_sticky_is_over(sticky, wall_ms))) return current;
    return kn_sticky_renew(sticky, table, current, wall_ms);
}

/* Returns a random partition: not `not` if there is a choice, and one with a leader if it finds one
 * quickly. */
int32_t kn_sticky_random(const struct kn_partition_table *table, int32_t not);
/* Returns a random partition for a message without a key: in the client's rack, if the producer is
 * rack-aware and there is one. Not `last` if there is another one. */
int32_t kn_sticky_draw(const struct kn_sticky *sticky, const struct kn_partition_table *table,
                       int32_t last);
/* Returns the next choice; `not` is the last one. */
int32_t kn_sticky_choose(const struct kn_sticky *sticky, const struct kn_partition_table *table,
                         int32_t not);
/* Messages that stick to `from` go to another partition from now on. Call without a partition's
 * lock. table may be NULL. */
void kn_sticky_move_on(struct kn_sticky *sticky, const struct kn_partition_table *table,
                       struct kn_accumulator *from);
/* The same, but only if the time is over. Called when a batch of `from` has begun or left. */
void kn_sticky_check(struct kn_sticky *sticky, const struct kn_partition_table *table,
                     struct kn_accumulator *from);

#endif
