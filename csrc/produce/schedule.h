/* Accumulators to check, each with the time of its next check. It is a binary heap by time, with an
 * index by accumulator, so each accumulator is in the heap at most once.
 *
 * Thread: the owner's (a sender's broker thread); no lock.
 * Who frees: kn_schedule_deinit(); the accumulators are borrowed. */
#ifndef KN_PRODUCE_SCHEDULE_H
#define KN_PRODUCE_SCHEDULE_H

#include <stdint.h>

struct kn_accumulator;

struct kn_schedule_entry {
    struct kn_accumulator *accumulator;
    int64_t at_us;
};

struct kn_schedule {
    struct kn_schedule_entry *heap; /* the earliest first */
    /* open addressing over accumulators: position in heap + 1, 0: free */
    int32_t *index;
    int32_t count;
    int32_t capacity; /* of heap; index has twice as many, a power of two */
};

void kn_schedule_init(struct kn_schedule *schedule);
void kn_schedule_deinit(struct kn_schedule *schedule);
/* Adds the accumulator. If it is in the heap, the earlier time holds. KN_OK or KN_ERR_NOMEM. */
int kn_schedule_add(struct kn_schedule *schedule, struct kn_accumulator *accumulator,
                    int64_t at_us);
/* Returns the earliest entry, or NULL. */
const struct kn_schedule_entry *kn_schedule_first(const struct kn_schedule *schedule);
/* Removes the earliest entry; there must be one. */
struct kn_schedule_entry kn_schedule_pop(struct kn_schedule *schedule);

#endif
