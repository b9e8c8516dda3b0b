/* Accumulators to look at, each with the time from when on: a binary heap by time, with an index by
 * accumulator, so that each is in it at most once and however often it announces itself.
 *
 * Thread: its owner's (a sender's broker thread); no lock. Who frees: kn_schedule_deinit();
 * accumulators are borrowed.
 */
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
/* Adds it, or moves it to the earlier of the two times. KN_OK or KN_ERR_NOMEM. */
int kn_schedule_add(struct kn_schedule *schedule, struct kn_accumulator *accumulator,
                    int64_t at_us);
/* The earliest, or NULL. */
const struct kn_schedule_entry *kn_schedule_first(const struct kn_schedule *schedule);
/* Takes the earliest off; there must be one. */
struct kn_schedule_entry kn_schedule_pop(struct kn_schedule *schedule);

#endif
