/* One report for many messages: how many of them were delivered, counted as batches get their
 * outcome, and a completion in `deliveries` when the last one has.
 *
 * A message of a counter carries no reference to it but a token in its place among the batch's
 * opaques: which counter, and the number of its row. So a row costs eight bytes while it is queued,
 * retries, splits and staging need to know nothing of it, and a batch of which nobody wants to hear
 * anything else is settled where it was delivered, and freed: no message waits for poll(). A batch
 * that failed, or that has other messages, too, goes through `deliveries`, and the binding takes
 * the tokens out of it: it makes the errors.
 *
 * A counter may keep the offsets that its rows got, as runs: where a mirror's records are
 * (relay.h).
 *
 * Thread: new and free by the binding; begin by whoever appends; deliver by whoever delivers a
 * batch. Lock: kn_delivery_counters.lock (leaf) guards the table, for looking up and for runs; the
 * counters of a counter are atomics. Who frees: the binding, after it has taken the completion out
 * of `deliveries`; what is left when the engine ends goes with it.
 */
#ifndef KN_PRODUCE_DELIVERY_COUNTER_H
#define KN_PRODUCE_DELIVERY_COUNTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "base/runs.h"
#include "net/thread.h"

struct kn_batch;
struct kn_delivery_counters;
struct kn_queue;

#define KN_DELIVERY_COUNTER_ROW_BITS 40
#define KN_DELIVERY_COUNTER_ROWS_MAX ((int64_t)1 << KN_DELIVERY_COUNTER_ROW_BITS)
#define KN_DELIVERY_COUNTER_SLOTS_MAX ((uint32_t)1 << 22)

struct kn_delivery_counter {
    /* immutable */
    struct kn_delivery_counters *counters;
    /* 1 .. KN_DELIVERY_COUNTER_SLOTS_MAX: its place in the table plus one */
    uint32_t slot;
    /* the binding's: an object that it holds for as long as the counter lives */
    void *binding;
    /* in `deliveries` after the last outcome, and the binding's from then on */
    struct kn_batch *completion;
    bool keeps_runs; /* set by the binding before the first row: `runs` are wanted */
    /* under kn_delivery_counters.lock, and the binding's alone once it has the completion */
    struct kn_runs runs; /* of delivered rows, by offset, as far as the broker told it */
    /* atomic */
    /* rows begun that have no outcome, plus one until kn_delivery_counter_close() */
    _Atomic int64_t pending;
    _Atomic int64_t delivered;
};

struct kn_delivery_counters { /* of a client */
    /* immutable */
    struct kn_queue *deliveries;         /* where completions go */
    _Atomic int64_t *undelivered;        /* reports that wait there */
    bool report_all, report_errors_only; /* as in struct kn_produce_config */
    struct kn_mutex lock;
    struct kn_delivery_counter **slots; /* under lock, as what follows; NULL: free */
    uint32_t capacity;
    uint32_t next; /* where to look for a free one first */
};

_Static_assert(sizeof(void *) >= 8, "a token needs 64 bits");

/* Tokens are odd, which no address of an object is. The slot is 0 where the binding has taken one
 * out: nobody's. */
#define KN_TOKEN_TAKEN ((void *)(uintptr_t)1)
static inline void *kn_delivery_counter_token(const struct kn_delivery_counter *counter,
                                              int64_t row)
{
    return (void *)(uintptr_t)(((uint64_t)counter->slot << (KN_DELIVERY_COUNTER_ROW_BITS + 1)) |
                               ((uint64_t)row << 1) | 1);
}
static inline bool kn_token_is(const void *opaque) { return (int)((uintptr_t)opaque & 1); }
static inline uint32_t kn_token_slot(const void *opaque)
{
    return (uint32_t)((uint64_t)(uintptr_t)opaque >> (KN_DELIVERY_COUNTER_ROW_BITS + 1));
}
static inline int64_t kn_token_row(const void *opaque)
{
    return (int64_t)(((uint64_t)(uintptr_t)opaque >> 1) &
                     (((uint64_t)1 << KN_DELIVERY_COUNTER_ROW_BITS) - 1));
}

void kn_delivery_counters_init(struct kn_delivery_counters *counters, struct kn_queue *deliveries,
                               _Atomic int64_t *undelivered, int report_all,
                               int report_errors_only);
/* frees what is left; what `deliveries` holds was freed before */
void kn_delivery_counters_deinit(struct kn_delivery_counters *counters);

/* NULL: no memory, or too many at a time. */
struct kn_delivery_counter *kn_delivery_counter_new(struct kn_delivery_counters *counters,
                                                    void *binding);
/* its completion was freed, or is to be freed by kn_engine_delivered(); NULL is harmless */
void kn_delivery_counter_free(struct kn_delivery_counter *counter);
/* NULL: the token was taken out */
struct kn_delivery_counter *kn_delivery_counter_of(struct kn_delivery_counters *counters,
                                                   const void *token);

/* So many rows are about to be queued: before the first of them is. Those that weren't are taken
 * back with kn_delivery_counter_settle(). */
static inline void kn_delivery_counter_begin(struct kn_delivery_counter *counter, int64_t rows)
{
    atomic_fetch_add(&counter->pending, rows);
}
/* So many rows have their outcome, `delivered` of them a good one. The last one sends the
 * completion; the counter is the binding's then. No lock held. */
void kn_delivery_counter_settle(struct kn_delivery_counter *counter, int64_t rows,
                                int64_t delivered);
/* Instead of closing one of which no row was begun. */
void kn_delivery_counter_discard(struct kn_delivery_counter *counter);
/* No row comes any more. 1: nothing is outstanding, and the caller has the completion, to serve it
 * or to push it to `deliveries`. */
bool kn_delivery_counter_close(struct kn_delivery_counter *counter);

enum kn_delivery_counter_verdict {
    /* the batch has messages that somebody wants to hear of, each on its own: the binding has to
     * look at it */
    KN_DELIVERY_COUNTER_NOT_ALONE,
    /* it has none, but the binding has to take out the tokens: it failed. Its bytes are dropped. */
    KN_DELIVERY_COUNTER_FAILED,
    KN_DELIVERY_COUNTER_COUNTED /* done: the batch can be freed */
};
/* A batch with its outcome. The counters that are done by it have their completions in the
 * initialised list `completions`, for kn_delivery_counter_send(). */
enum kn_delivery_counter_verdict kn_delivery_counter_deliver(struct kn_delivery_counters *counters,
                                                             struct kn_batch *batch,
                                                             struct kn_list *completions);
void kn_delivery_counter_send(struct kn_delivery_counters *counters, struct kn_list *completions);

long kn_delivery_counter_live(void);

#endif
