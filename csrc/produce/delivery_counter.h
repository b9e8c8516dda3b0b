/* A delivery counter: one report for many messages. It counts the messages as their batches get an
 * outcome. After the last one it puts a completion into `deliveries`.
 *
 * A message has no reference to its counter. Its place among the batch's opaques holds a token: the
 * number of the counter and the number of the message's row. So a queued row costs eight bytes, and
 * retries, splits and staging needn't know about counters. If all messages of a batch belong to
 * counters and were delivered, the broker thread counts and frees the batch at once; nothing waits
 * for poll(). A batch that failed, or that has other messages too, goes through `deliveries`. There
 * the binding takes the tokens out and makes the errors.
 *
 * A counter may keep the offsets of its rows, as runs: the mirror (relay.h) uses them.
 *
 * Thread: the binding calls new and free; the thread that appends calls begin; the thread that
 * delivers a batch calls deliver.
 * Lock: kn_delivery_counters.lock (leaf) guards the table, for lookups and for runs. The numbers of
 * a counter are atomics.
 * Who frees: the binding, after it has taken the completion out of `deliveries`. The engine frees
 * the rest when it ends. */
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
    /* 1 .. KN_DELIVERY_COUNTER_SLOTS_MAX: its index in the table, plus one */
    uint32_t slot;
    /* an object of the binding, which keeps it alive as long as the counter lives */
    void *binding;
    /* goes into `deliveries` after the last outcome; the binding owns it from then on */
    struct kn_batch *completion;
    bool keeps_runs; /* the binding sets it before the first row to get `runs` */
    /* under kn_delivery_counters.lock; only the binding uses it once it has the completion */
    struct kn_runs runs; /* delivered rows by offset, for which the broker returned an offset */
    /* atomic */
    /* started rows without an outcome, plus one until kn_delivery_counter_close() */
    _Atomic int64_t pending;
    _Atomic int64_t delivered;
};

struct kn_delivery_counters { /* of a client */
    /* immutable */
    struct kn_queue *deliveries;         /* completions go here */
    _Atomic int64_t *undelivered;        /* number of reports that wait there */
    bool report_all, report_errors_only; /* as in struct kn_produce_config */
    struct kn_mutex lock;
    struct kn_delivery_counter **slots; /* under lock, like the fields below; NULL: free */
    uint32_t capacity;
    uint32_t next; /* index at which the search for a free slot begins */
};

_Static_assert(sizeof(void *) >= 8, "a token needs 64 bits");

/* Tokens are odd, unlike every address of an object. Slot 0: the binding has taken the token out.
 */
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
/* frees the counters that are left; the caller has emptied `deliveries` */
void kn_delivery_counters_deinit(struct kn_delivery_counters *counters);

/* NULL: no memory, or too many counters at a time. */
struct kn_delivery_counter *kn_delivery_counter_new(struct kn_delivery_counters *counters,
                                                    void *binding);
/* its completion is freed already, or kn_engine_batch_reported() will free it; NULL is allowed */
void kn_delivery_counter_free(struct kn_delivery_counter *counter);
/* NULL: the binding has taken the token out */
struct kn_delivery_counter *kn_delivery_counter_of(struct kn_delivery_counters *counters,
                                                   const void *token);

/* Announces `rows` rows, before the first of them is queued. The caller settles the rows that
 * weren't queued with kn_delivery_counter_settle(). */
static inline void kn_delivery_counter_begin(struct kn_delivery_counter *counter, int64_t rows)
{
    atomic_fetch_add(&counter->pending, rows);
}
/* Counts `rows` rows as done, `delivered` of them without an error. The last one sends the
 * completion, and then the binding owns the counter. Call without a lock held. */
void kn_delivery_counter_settle(struct kn_delivery_counter *counter, int64_t rows,
                                int64_t delivered);
/* Call this instead of close for a counter without any row. */
void kn_delivery_counter_discard(struct kn_delivery_counter *counter);
/* No more rows will come. True: all rows have an outcome; then the caller gets the completion, and
 * serves it or pushes it to `deliveries`. */
bool kn_delivery_counter_close(struct kn_delivery_counter *counter);

enum kn_delivery_counter_verdict {
    /* some messages need single reports: the binding must read the batch */
    KN_DELIVERY_COUNTER_MIXED,
    /* no message needs a single report, but the batch failed, so the binding must take out the
     * tokens. The batch's bytes are freed. */
    KN_DELIVERY_COUNTER_FAILED,
    KN_DELIVERY_COUNTER_COUNTED /* all messages are counted: the caller may free the batch */
};
/* Counts a batch that has its outcome. Adds the completions of finished counters to the initialised
 * list `completions`, for kn_delivery_counter_send(). */
enum kn_delivery_counter_verdict kn_delivery_counter_deliver(struct kn_delivery_counters *counters,
                                                             struct kn_batch *batch,
                                                             struct kn_list *completions);
void kn_delivery_counter_send(struct kn_delivery_counters *counters, struct kn_list *completions);

long kn_delivery_counter_live(void);

#endif
