/* The limit of messages and bytes that wait in a client's producer queues
 * (queue.buffering.max.messages, .kbytes). Threads can wait for room.
 *
 * Thread: any; atomics. The only lock is the one in `room`, taken only while a thread waits.
 * kn_budget_take() never blocks: a full queue is KN_ERR_FULL.
 *
 * Waiting for room (max.block.ms): the binding does this without the interpreter lock.
 * (1) It calls kn_budget_wait_begin().
 * (2) It calls kn_budget_take(), and if that fails kn_queue_wait() on `room`, in a loop.
 * (3) It calls kn_budget_wait_end().
 * kn_budget_give() reads `waiters` once and wakes `room` if there are any. Both sides are
 * sequentially consistent, so no wake-up is lost: the waiter writes `waiters` and then reads the
 * counters, and the giver writes the counters and then reads `waiters`.
 *
 * A failed take is in the counters for a moment, so it can make another take fail. If other
 * messages are queued, their end wakes both threads. If none are queued, a thread that sees
 * kn_budget_is_empty() after its failure tries again at once. The last of the failed threads does
 * see it. */
#ifndef KN_PRODUCE_BUDGET_H
#define KN_PRODUCE_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "net/queue.h"

struct kn_budget {
    _Atomic int64_t messages;
    _Atomic int64_t bytes;
    atomic_int waiters;   /* threads between wait_begin and wait_end */
    int64_t messages_max; /* immutable; 0 = no limit */
    int64_t bytes_max;
    struct kn_queue room; /* always empty: its kicks wake the waiting threads */
};

static inline void kn_budget_lower(struct kn_budget *budget, int64_t messages, int64_t bytes)
{
    atomic_fetch_sub_explicit(&budget->bytes, bytes, memory_order_relaxed);
    /* Sequentially consistent: the giver lowers `messages` and then checks for a flush; flush()
     * announces itself and then reads `messages`. */
    atomic_fetch_sub(&budget->messages, messages);
}

/* Called once per batch, or for a message that wasn't queued. */
static inline void kn_budget_give(struct kn_budget *budget, int64_t messages, int64_t bytes)
{
    kn_budget_lower(budget, messages, bytes);
    if (atomic_load(&budget->waiters) > 0) kn_queue_kick(&budget->room);
}

/* Takes room for all of the messages, or for none. */
static inline int kn_budget_take(struct kn_budget *budget, int64_t count, int64_t bytes)
{
    int64_t messages = atomic_fetch_add_explicit(&budget->messages, count, memory_order_relaxed) +
                       count;
    int64_t total = atomic_fetch_add_explicit(&budget->bytes, bytes, memory_order_relaxed) + bytes;
    if ((budget->messages_max && messages > budget->messages_max) ||
        (budget->bytes_max && total > budget->bytes_max)) {
        kn_budget_lower(budget, count, bytes);
        return KN_ERR_FULL;
    }
    return KN_OK;
}

static inline void kn_budget_wait_begin(struct kn_budget *budget)
{
    atomic_fetch_add(&budget->waiters, 1);
    atomic_thread_fence(memory_order_seq_cst); /* kn_budget_take() itself is relaxed */
}

static inline void kn_budget_wait_end(struct kn_budget *budget)
{
    atomic_fetch_sub(&budget->waiters, 1);
}

static inline bool kn_budget_is_empty(struct kn_budget *budget)
{
    return atomic_load(&budget->messages) == 0;
}

#endif
