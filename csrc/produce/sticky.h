/* Where a message goes that belongs to no partition: it sticks with others of its kind to one,
 * until they have filled a batch or stuck for long enough, so that batches become large (KIP-480);
 * and the next one is chosen by how busy partitions and their brokers are (KIP-794).
 *
 * Thread: any, application threads and brokers' alike. Lock: none of its own; choosing reads what
 * accumulators publish of themselves. State: `accumulator` and `until_ms`, both atomic; a new
 * choice wins by exchanging the partition, and everybody else follows it.
 *
 * How long: batch.size bytes (counted by the accumulator, under its lock: append reports it as
 * kn_notice.move_on), or sticky.partitioning.linger.ms, whichever comes first; not until the batch
 * leaves, because then a slow broker, which takes batches late, would get the most. Time is only
 * looked at where a clock was read anyway: in produce() for the message's timestamp, and when a
 * batch begins or leaves. The stay goes on for as long again where the brokers are behind
 * (adaptive, as below): where what is due waits for its broker, and the next partition's broker has
 * kept what is due there waiting for as long or longer. Elsewhere the messages would leave no
 * sooner, and with thousands of partitions they would leave in batches of a few.
 *
 * Which next (partitioner.adaptive.partitioning.enable): each partition weighs as many as the
 * longest queue is longer than its own, plus one. Its queue: its batches (open, waiting, in flight)
 * and its broker's requests in flight. Partitions without a leader, and those whose broker has not
 * been ready for partitioner.availability.timeout.ms, weigh nothing. Otherwise a random one, other
 * than the last.
 */
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
    struct kn_accumulator *partitions[]; /* count; shared with the older tables */
};

struct kn_sticky {                                /* of a topic */
    _Atomic(struct kn_accumulator *) accumulator; /* for keyless records; NULL: none yet */
    _Atomic int64_t until_ms;                     /* Unix time: they go to another one then */
    /* immutable */
    const struct kn_produce_config *config;
    int32_t linger_ms; /* sticky.partitioning.linger.ms; 0: keyless records don't stick */
};

/* Chooses anew, unless another thread has done so since `last` was read; the partition to stick to.
 */
struct kn_accumulator *kn_sticky_anew(struct kn_sticky *sticky,
                                      const struct kn_partition_table *table,
                                      struct kn_accumulator *last, int64_t wall_ms);

/* The same because the time is over: it may begin once more with `last`. */
struct kn_accumulator *kn_sticky_when_over(struct kn_sticky *sticky,
                                           const struct kn_partition_table *table,
                                           struct kn_accumulator *last, int64_t wall_ms);

/* Whether the time is over; also when the clock was set back, so that nothing sticks for long. */
static inline bool kn_sticky_is_over(const struct kn_sticky *sticky, int64_t wall_ms)
{
    int64_t left_ms = atomic_load_explicit(&sticky->until_ms, memory_order_relaxed) - wall_ms;
    return left_ms <= 0 || left_ms > sticky->linger_ms;
}

/* The partition to stick to now. wall_ms: kn_wall_ms() as it was read for this message, 0: it
 * wasn't. For every message: inline. */
static inline struct kn_accumulator *kn_sticky_accumulator(struct kn_sticky *sticky,
                                                           const struct kn_partition_table *table,
                                                           int64_t wall_ms)
{
    struct kn_accumulator *current = atomic_load_explicit(&sticky->accumulator,
                                                          memory_order_acquire);
    if (current && (!wall_ms || !kn_sticky_is_over(sticky, wall_ms))) return current;
    return kn_sticky_when_over(sticky, table, current, wall_ms);
}

/* A random partition, other than `not` where there is a choice, and with a leader if one is found
 * quickly. */
int32_t kn_sticky_random(const struct kn_partition_table *table, int32_t not);
/* What the next choice would be; `not` is the last one. */
int32_t kn_sticky_choose(const struct kn_sticky *sticky, const struct kn_partition_table *table,
                         int32_t not);
/* Messages that stick to `from` go elsewhere from now on. No lock of a partition held; table NULL:
 * there is none. */
void kn_sticky_move_on(struct kn_sticky *sticky, const struct kn_partition_table *table,
                       struct kn_accumulator *from);
/* A batch of `from` has begun or left: the same, if the time is over. */
void kn_sticky_check(struct kn_sticky *sticky, const struct kn_partition_table *table,
                     struct kn_accumulator *from);

#endif
