/* How many messages and bytes may wait in one client's producer queues (queue.buffering.max.messages, .kbytes).
 *
 * Thread: any; two atomics, no lock. Never blocks: full is KN_ERR_FULL.
 */
#ifndef KN_ENGINE_BUDGET_H
#define KN_ENGINE_BUDGET_H

#include <stdatomic.h>
#include <stdint.h>
#include "base/status.h"

struct kn_budget {
    _Atomic int64_t messages;
    _Atomic int64_t bytes;
    int64_t messages_max; /* immutable; 0 = no limit */
    int64_t bytes_max;
};

static inline void kn_budget_give(struct kn_budget *budget, int64_t messages, int64_t bytes)
{
    atomic_fetch_sub_explicit(&budget->bytes, bytes, memory_order_relaxed);
    /* Sequentially consistent: "messages fell, then is anybody flushing?" against flush()'s "I am flushing, then are messages left?". */
    atomic_fetch_sub(&budget->messages, messages);
}

static inline int kn_budget_take(struct kn_budget *budget, int64_t bytes)
{
    int64_t messages = atomic_fetch_add_explicit(&budget->messages, 1, memory_order_relaxed);
    int64_t total = atomic_fetch_add_explicit(&budget->bytes, bytes, memory_order_relaxed) + bytes;
    if ((budget->messages_max && messages >= budget->messages_max) || (budget->bytes_max && total > budget->bytes_max)) {
        kn_budget_give(budget, 1, bytes);
        return KN_ERR_FULL;
    }
    return KN_OK;
}

#endif
