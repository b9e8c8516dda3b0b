/* Accumulators by the time of their next check: schedule.h.
 *
 * Thread: the owner's. Lock: none. The index uses linear probing with backward-shift deletion, so
 * it needs no tombstones. */
#include "produce/schedule.h"

#include <stdlib.h>
#include <string.h>
#include "base/status.h"

#define FIRST_CAPACITY 16

void kn_schedule_init(struct kn_schedule *schedule) { memset(schedule, 0, sizeof *schedule); }

void kn_schedule_deinit(struct kn_schedule *schedule)
{
    free(schedule->heap);
    free(schedule->index);
    memset(schedule, 0, sizeof *schedule);
}

static uint32_t mask_of(const struct kn_schedule *schedule)
{
    return (uint32_t)schedule->capacity * 2 - 1;
}

static uint32_t home_of(const struct kn_schedule *schedule,
                        const struct kn_accumulator *accumulator)
{
    return (uint32_t)(((uint64_t)(uintptr_t)accumulator * UINT64_C(0x9E3779B97F4A7C15)) >> 32) &
           mask_of(schedule);
}

/* Returns the index slot of the accumulator, or the free slot for it. */
static uint32_t slot_of(const struct kn_schedule *schedule,
                        const struct kn_accumulator *accumulator)
{
    uint32_t slot = home_of(schedule, accumulator);
    while (schedule->index[slot] &&
           schedule->heap[schedule->index[slot] - 1].accumulator != accumulator) {
        slot = (slot + 1) & mask_of(schedule);
    }
    return slot;
}

static void place(struct kn_schedule *schedule, int32_t at, struct kn_schedule_entry entry,
                  uint32_t slot)
{
    schedule->heap[at] = entry;
    schedule->index[slot] = at + 1;
}

/* Moves `entry`, whose index slot is `slot`, from position `at` towards the top. */
static void sift_up(struct kn_schedule *schedule, int32_t at, struct kn_schedule_entry entry,
                    uint32_t slot)
{
    while (at > 0) {
        int32_t parent = (at - 1) / 2;
        if (schedule->heap[parent].at_us <= entry.at_us) break;
        uint32_t parent_slot = slot_of(schedule, schedule->heap[parent].accumulator);
        place(schedule, at, schedule->heap[parent], parent_slot);
        at = parent;
    }
    place(schedule, at, entry, slot);
}

static void sift_down(struct kn_schedule *schedule, struct kn_schedule_entry entry, uint32_t slot)
{
    int32_t at = 0;
    for (;;) {
        int32_t child = at * 2 + 1;
        if (child >= schedule->count) break;
        if (child + 1 < schedule->count &&
            schedule->heap[child + 1].at_us < schedule->heap[child].at_us)
            child++;
        if (schedule->heap[child].at_us >= entry.at_us) break;
        uint32_t child_slot = slot_of(schedule, schedule->heap[child].accumulator);
        place(schedule, at, schedule->heap[child], child_slot);
        at = child;
    }
    place(schedule, at, entry, slot);
}

static int grow(struct kn_schedule *schedule)
{
    int32_t capacity = schedule->capacity ? schedule->capacity * 2 : FIRST_CAPACITY;
    int32_t *index = calloc((size_t)capacity * 2, sizeof *index);
    if (!index) return KN_ERR_NOMEM;
    struct kn_schedule_entry *heap = realloc(schedule->heap, (size_t)capacity * sizeof *heap);
    if (!heap) {
        free(index);
        return KN_ERR_NOMEM;
    }
    free(schedule->index);
    schedule->heap = heap;
    schedule->index = index;
    schedule->capacity = capacity;
    for (int32_t i = 0; i < schedule->count; i++)
        schedule->index[slot_of(schedule, heap[i].accumulator)] = i + 1;
    return KN_OK;
}

int kn_schedule_add(struct kn_schedule *schedule, struct kn_accumulator *accumulator, int64_t at_us)
{
    struct kn_schedule_entry entry = {accumulator, at_us};
    if (schedule->count == schedule->capacity) {
        int status = grow(schedule);
        if (status != KN_OK) return status;
    }
    uint32_t slot = slot_of(schedule, accumulator);
    int32_t at = schedule->index[slot] - 1;
    if (at >= 0) {
        if (at_us < schedule->heap[at].at_us) sift_up(schedule, at, entry, slot);
        return KN_OK;
    }
    /* Written before it sinks, so that a probe finds the accumulator in its new slot. */
    place(schedule, schedule->count, entry, slot);
    sift_up(schedule, schedule->count++, entry, slot);
    return KN_OK;
}

const struct kn_schedule_entry *kn_schedule_first(const struct kn_schedule *schedule)
{
    return schedule->count ? &schedule->heap[0] : NULL;
}

static void forget(struct kn_schedule *schedule, uint32_t hole)
{
    uint32_t mask = mask_of(schedule);
    for (uint32_t slot = (hole + 1) & mask; schedule->index[slot]; slot = (slot + 1) & mask) {
        uint32_t home = home_of(schedule, schedule->heap[schedule->index[slot] - 1].accumulator);
        /* its home slot lies behind the hole */
        if (((slot - home) & mask) < ((slot - hole) & mask)) continue;
        schedule->index[hole] = schedule->index[slot];
        hole = slot;
    }
    schedule->index[hole] = 0;
}

struct kn_schedule_entry kn_schedule_pop(struct kn_schedule *schedule)
{
    struct kn_schedule_entry first = schedule->heap[0];
    forget(schedule, slot_of(schedule, first.accumulator));
    struct kn_schedule_entry last = schedule->heap[--schedule->count];
    if (schedule->count > 0) sift_down(schedule, last, slot_of(schedule, last.accumulator));
    return first;
}
