/* One report for many messages. See delivery_counter.h.
 *
 * A completion counts as one undelivered report. It is counted before the budget of the last batch
 * is returned, so that flush() doesn't end between the two. */
#include "produce/delivery_counter.h"

#include <stdlib.h>
#include <string.h>
#include "produce/batch.h"
#include "net/queue.h"

#define FIRST_SLOTS 8

static atomic_long live_counters; /* for the leak check of the tests */

long kn_delivery_counter_live(void)
{
    return atomic_load_explicit(&live_counters, memory_order_relaxed);
}

void kn_delivery_counters_init(struct kn_delivery_counters *counters, struct kn_queue *deliveries,
                               _Atomic int64_t *undelivered, int report_all, int report_errors_only)
{
    memset(counters, 0, sizeof *counters);
    counters->deliveries = deliveries;
    counters->undelivered = undelivered;
    counters->report_all = report_all;
    counters->report_errors_only = report_errors_only;
    kn_mutex_init(&counters->lock, KN_RANK_LEAF);
}

void kn_delivery_counters_deinit(struct kn_delivery_counters *counters)
{
    for (uint32_t i = 0; i < counters->capacity; i++) {
        struct kn_delivery_counter *counter = counters->slots[i];
        if (!counter) continue;
        /* If rows or a call are outstanding, the completion was never sent. */
        if (atomic_load(&counter->pending) > 0) kn_batch_free(counter->completion);
        kn_runs_deinit(&counter->runs);
        free(counter);
        atomic_fetch_sub_explicit(&live_counters, 1, memory_order_relaxed);
    }
    free(counters->slots);
    kn_mutex_deinit(&counters->lock);
}

/* Under the lock: finds a free slot for the counter; 0: the table is full. */
static int table_put(struct kn_delivery_counters *counters, struct kn_delivery_counter *counter)
{
    for (uint32_t i = 0; i < counters->capacity; i++) {
        uint32_t at = (counters->next + i) % counters->capacity;
        if (counters->slots[at]) continue;
        counters->slots[at] = counter;
        counter->slot = at + 1;
        counters->next = at + 1;
        return 1;
    }
    return 0;
}

/* Finds a slot for the counter, in a larger table if needed. 0: no memory, or too many counters. */
static int table_add(struct kn_delivery_counters *counters, struct kn_delivery_counter *counter)
{
    struct kn_delivery_counter **larger = NULL;
    uint32_t capacity = 0;
    for (;;) {
        kn_mutex_lock(&counters->lock);
        if (capacity > counters->capacity) {
            /* allocated without the lock: another thread may have grown the table already */
            struct kn_delivery_counter **smaller = counters->slots;
            if (counters->capacity) memcpy(larger, smaller, counters->capacity * sizeof *larger);
            counters->slots = larger;
            counters->next = counters->capacity;
            counters->capacity = capacity;
            larger = smaller;
        }
        int put = table_put(counters, counter);
        capacity = counters->capacity ? counters->capacity * 2 : FIRST_SLOTS;
        kn_mutex_unlock(&counters->lock);
        free(larger);
        if (put || capacity > KN_DELIVERY_COUNTER_SLOTS_MAX) return put;
        larger = calloc(capacity, sizeof *larger);
        if (!larger) return 0;
    }
}

struct kn_delivery_counter *kn_delivery_counter_new(struct kn_delivery_counters *counters,
                                                    void *binding)
{
    struct kn_delivery_counter *counter = calloc(1, sizeof *counter);
    if (!counter) return NULL;
    counter->counters = counters;
    counter->binding = binding;
    counter->completion = kn_batch_new_completion(counter);
    atomic_init(&counter->pending, 1);
    if (!counter->completion || !table_add(counters, counter)) {
        kn_batch_free(counter->completion);
        free(counter);
        return NULL;
    }
    atomic_fetch_add_explicit(&live_counters, 1, memory_order_relaxed);
    return counter;
}

void kn_delivery_counter_free(struct kn_delivery_counter *counter)
{
    if (!counter) return;
    struct kn_delivery_counters *counters = counter->counters;
    kn_mutex_lock(&counters->lock);
    counters->slots[counter->slot - 1] = NULL;
    kn_mutex_unlock(&counters->lock);
    kn_runs_deinit(&counter->runs);
    free(counter);
    atomic_fetch_sub_explicit(&live_counters, 1, memory_order_relaxed);
}

void kn_delivery_counter_discard(struct kn_delivery_counter *counter)
{
    struct kn_batch *completion = counter->completion;
    kn_delivery_counter_free(counter);
    kn_batch_free(completion);
}

struct kn_delivery_counter *kn_delivery_counter_of(struct kn_delivery_counters *counters,
                                                   const void *token)
{
    uint32_t slot = kn_token_slot(token);
    if (!slot) return NULL;
    kn_mutex_lock(&counters->lock);
    struct kn_delivery_counter *counter = slot <= counters->capacity ? counters->slots[slot - 1]
                                                                     : NULL;
    kn_mutex_unlock(&counters->lock);
    return counter;
}

/* Counts the rows; 1: they were the last ones. From then on the binding owns the counter, once it
 * has the completion. */
static int settle(struct kn_delivery_counter *counter, int64_t rows, int64_t delivered)
{
    if (delivered) atomic_fetch_add(&counter->delivered, delivered);
    if (atomic_fetch_sub(&counter->pending, rows) != rows) return 0;
    atomic_fetch_add(counter->counters->undelivered, 1);
    return 1;
}

void kn_delivery_counter_settle(struct kn_delivery_counter *counter, int64_t rows,
                                int64_t delivered)
{
    struct kn_queue *deliveries = counter->counters->deliveries;
    struct kn_batch *completion = counter->completion;
    if (settle(counter, rows, delivered)) kn_queue_push(deliveries, &completion->node);
}

bool kn_delivery_counter_close(struct kn_delivery_counter *counter)
{
    return settle(counter, 1, 0);
}

/* Returns whether counters cover all messages of the batch that need a report. */
static int covers_all(const struct kn_delivery_counters *counters, const struct kn_batch *batch,
                      int failed)
{
    int32_t count = batch->writer.record_count;
    int silent = !counters->report_all || (counters->report_errors_only && !failed);
    int alone = 1, tokens = 0;
    for (int32_t i = 0; i < count; i++) {
        int token = kn_token_is(batch->opaques[i]);
        alone &= token | (silent & !batch->opaques[i]);
        tokens |= token;
    }
    return alone && tokens;
}

/* Keeps the offsets of the delivered rows [first, end) of the batch. Without memory they stay
 * unknown. */
static void keep_runs(struct kn_delivery_counter *counter, const struct kn_batch *batch,
                      int32_t first, int32_t end)
{
    struct kn_delivery_counters *counters = counter->counters;
    kn_mutex_lock(&counters->lock);
    for (int32_t at = first, next; at < end; at = next) {
        int64_t row = kn_token_row(batch->opaques[at]);
        for (next = at + 1; next < end && kn_token_row(batch->opaques[next]) == row + (next - at);
             next++)
            continue;
        kn_runs_add(&counter->runs, row, batch->base_offset + at, next - at);
    }
    kn_mutex_unlock(&counters->lock);
}

enum kn_delivery_counter_verdict kn_delivery_counter_deliver(struct kn_delivery_counters *counters,
                                                             struct kn_batch *batch,
                                                             struct kn_list *completions)
{
    int failed = batch->status != KN_OK || batch->error_code != 0;
    if (!covers_all(counters, batch, failed)) return KN_DELIVERY_COUNTER_MIXED;
    if (failed) {
        kn_batch_drop_bytes(batch);
        return KN_DELIVERY_COUNTER_FAILED;
    }
    int32_t count = batch->writer.record_count;
    for (int32_t first = 0, end; first < count; first = end) {
        const void *token = batch->opaques[first];
        uint32_t slot = kn_token_slot(token);
        for (end = first + 1; end < count && kn_token_slot(batch->opaques[end]) == slot; end++)
            continue;
        struct kn_delivery_counter *counter = kn_delivery_counter_of(counters, token);
        if (!counter) continue; /* messages without a callback */
        struct kn_batch *completion = counter->completion;
        if (counter->keeps_runs && batch->base_offset >= 0) keep_runs(counter, batch, first, end);
        if (settle(counter, end - first, end - first))
            kn_list_push_back(completions, &completion->node);
    }
    return KN_DELIVERY_COUNTER_COUNTED;
}

void kn_delivery_counter_send(struct kn_delivery_counters *counters, struct kn_list *completions)
{
    struct kn_list *completion;
    while ((completion = kn_list_pop_front(completions)))
        kn_queue_push(counters->deliveries, completion);
}
