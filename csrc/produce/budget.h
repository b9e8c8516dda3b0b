/* How many messages and bytes may wait in one client's producer queues
 * (queue.buffering.max.messages, .kbytes), and who waits for room in them.
 *
 * Thread: any; atomics, no lock but the one in `room`, which is only taken when somebody waits.
 * Taking never blocks: full is KN_ERR_FULL.
 *
 * Waiting for room (max.block.ms) is done by the binding, without the interpreter lock:
 * kn_budget_wait_begin(), then in a loop take and, when that fails, kn_queue_wait() on `room`;
 * kn_budget_wait_end(). Giving looks at `waiters` once and kicks `room` when there are any. Both
 * sides are sequentially consistent ("I wait, then is there room?" against "there is room, then
 * does anybody wait?"), so no wake-up is lost. A take that fails is in the counters for a moment,
 * and another one may fail for it. As long as something else is queued, its end wakes both. When
 * nothing is, whoever sees kn_budget_is_empty() after its failure tries again at once: the last of
 * them does see it.
 */
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
    struct kn_queue room; /* nothing is ever queued: its kicks wake the waiters */
};

static inline void kn_budget_lower(struct kn_budget *budget, int64_t messages, int64_t bytes)
{
    atomic_fetch_sub_explicit(&budget->bytes, bytes, memory_order_relaxed);
    /* Sequentially consistent: "messages fell, then is anybody flushing?" against flush()'s "I am
     * flushing, then are messages left?". */
    atomic_fetch_sub(&budget->messages, messages);
}

/* Once a batch, or a message that wasn't queued after all. */
static inline void kn_budget_give(struct kn_budget *budget, int64_t messages, int64_t bytes)
{
    kn_budget_lower(budget, messages, bytes);
    if (atomic_load(&budget->waiters) > 0) kn_queue_kick(&budget->room);
}

/* For all of them, or for none. */
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
    atomic_thread_fence(memory_order_seq_cst); /* take() itself is relaxed */
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
