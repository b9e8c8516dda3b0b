/* One report for many messages. What, threads, lock and ownership: tally.h.
 *
 * A ticket counts as one undelivered report from before the budget of its last batch is given back, so that flush() doesn't end between the two.
 */
#include "engine/tally.h"

#include <stdlib.h>
#include <string.h>
#include "engine/engine.h"

#define FIRST_SLOTS 8

static atomic_long live_tallies; /* the leak check of the test session reads it */

long kn_tally_live(void) { return atomic_load_explicit(&live_tallies, memory_order_relaxed); }

void kn_tallies_init(struct kn_tallies *tallies)
{
    memset(tallies, 0, sizeof *tallies);
    kn_mutex_init(&tallies->lock, KN_RANK_LEAF);
}

void kn_tallies_deinit(struct kn_tallies *tallies)
{
    for (uint32_t i = 0; i < tallies->capacity; i++) {
        struct kn_tally *tally = tallies->slots[i];
        if (!tally) continue;
        /* With rows or a call outstanding the ticket was never sent. */
        if (atomic_load(&tally->pending) > 0) kn_batch_free(tally->ticket);
        kn_runs_deinit(&tally->runs);
        free(tally);
        atomic_fetch_sub_explicit(&live_tallies, 1, memory_order_relaxed);
    }
    free(tallies->slots);
    kn_mutex_deinit(&tallies->lock);
}

/* Under the lock: a free place for the tally; 0: the table is full. */
static int table_put(struct kn_tallies *tallies, struct kn_tally *tally)
{
    for (uint32_t i = 0; i < tallies->capacity; i++) {
        uint32_t at = (tallies->next + i) % tallies->capacity;
        if (tallies->slots[at]) continue;
        tallies->slots[at] = tally;
        tally->slot = at + 1;
        tallies->next = at + 1;
        return 1;
    }
    return 0;
}

/* A place for the tally, in a larger table if need be. 0: no memory, or too many. */
static int table_add(struct kn_tallies *tallies, struct kn_tally *tally)
{
    struct kn_tally **larger = NULL;
    uint32_t capacity = 0;
    for (;;) {
        kn_mutex_lock(&tallies->lock);
        if (capacity > tallies->capacity) { /* got without the lock: another thread may have been faster */
            struct kn_tally **smaller = tallies->slots;
            if (tallies->capacity) memcpy(larger, smaller, tallies->capacity * sizeof *larger);
            tallies->slots = larger;
            tallies->next = tallies->capacity;
            tallies->capacity = capacity;
            larger = smaller;
        }
        int put = table_put(tallies, tally);
        capacity = tallies->capacity ? tallies->capacity * 2 : FIRST_SLOTS;
        kn_mutex_unlock(&tallies->lock);
        free(larger);
        if (put || capacity > KN_TALLY_SLOTS_MAX) return put;
        larger = calloc(capacity, sizeof *larger);
        if (!larger) return 0;
    }
}

struct kn_tally *kn_tally_new(struct kn_engine *engine, void *binding)
{
    struct kn_tally *tally = calloc(1, sizeof *tally);
    if (!tally) return NULL;
    tally->engine = engine;
    tally->binding = binding;
    tally->ticket = kn_batch_new_ticket(tally);
    atomic_init(&tally->pending, 1);
    if (!tally->ticket || !table_add(&engine->tallies, tally)) {
        kn_batch_free(tally->ticket);
        free(tally);
        return NULL;
    }
    atomic_fetch_add_explicit(&live_tallies, 1, memory_order_relaxed);
    return tally;
}

void kn_tally_free(struct kn_tally *tally)
{
    if (!tally) return;
    struct kn_tallies *tallies = &tally->engine->tallies;
    kn_mutex_lock(&tallies->lock);
    tallies->slots[tally->slot - 1] = NULL;
    kn_mutex_unlock(&tallies->lock);
    kn_runs_deinit(&tally->runs);
    free(tally);
    atomic_fetch_sub_explicit(&live_tallies, 1, memory_order_relaxed);
}

void kn_tally_discard(struct kn_tally *tally)
{
    struct kn_batch *ticket = tally->ticket;
    kn_tally_free(tally);
    kn_batch_free(ticket);
}

struct kn_tally *kn_tally_of(struct kn_engine *engine, const void *token)
{
    struct kn_tallies *tallies = &engine->tallies;
    uint32_t slot = kn_token_slot(token);
    if (!slot) return NULL;
    kn_mutex_lock(&tallies->lock);
    struct kn_tally *tally = slot <= tallies->capacity ? tallies->slots[slot - 1] : NULL;
    kn_mutex_unlock(&tallies->lock);
    return tally;
}

/* The rows are counted; 1: they were the last ones. From then on the tally is the binding's as soon as it has the ticket. */
static int settle(struct kn_tally *tally, int64_t rows, int64_t delivered)
{
    if (delivered) atomic_fetch_add(&tally->delivered, delivered);
    if (atomic_fetch_sub(&tally->pending, rows) != rows) return 0;
    atomic_fetch_add(&tally->engine->undelivered, 1);
    return 1;
}

void kn_tally_settle(struct kn_tally *tally, int64_t rows, int64_t delivered)
{
    struct kn_engine *engine = tally->engine;
    struct kn_batch *ticket = tally->ticket;
    if (settle(tally, rows, delivered)) kn_queue_push(&engine->deliveries, &ticket->node);
}

int kn_tally_close(struct kn_tally *tally) { return settle(tally, 1, 0); }

/* Whether all that anybody wants to know of the batch is in tallies. */
static int is_alone(const struct kn_engine *engine, const struct kn_batch *batch, int failed)
{
    int32_t count = batch->writer.record_count;
    int silent = !engine->config.report_all || (engine->config.report_errors_only && !failed);
    int alone = 1, tokens = 0;
    for (int32_t i = 0; i < count; i++) {
        int token = kn_token_is(batch->opaques[i]);
        alone &= token | (silent & !batch->opaques[i]);
        tokens |= token;
    }
    return alone && tokens;
}

/* Delivered rows, numbers first to before end of the batch. Those that there is no memory for stay unknown. */
static void keep_runs(struct kn_tally *tally, const struct kn_batch *batch, int32_t first, int32_t end)
{
    struct kn_tallies *tallies = &tally->engine->tallies;
    kn_mutex_lock(&tallies->lock);
    for (int32_t at = first, next; at < end; at = next) {
        int64_t row = kn_token_row(batch->opaques[at]);
        for (next = at + 1; next < end && kn_token_row(batch->opaques[next]) == row + (next - at); next++) continue;
        kn_runs_add(&tally->runs, row, batch->base_offset + at, next - at);
    }
    kn_mutex_unlock(&tallies->lock);
}

enum kn_tally_verdict kn_tally_deliver(struct kn_engine *engine, struct kn_batch *batch, struct kn_list *tickets)
{
    int failed = batch->status != KN_OK || batch->error_code != 0;
    if (!is_alone(engine, batch, failed)) return KN_TALLY_NOT_ALONE;
    if (failed) {
        kn_batch_drop_bytes(batch);
        return KN_TALLY_FAILED;
    }
    int32_t count = batch->writer.record_count;
    for (int32_t first = 0, end; first < count; first = end) {
        const void *token = batch->opaques[first];
        uint32_t slot = kn_token_slot(token);
        for (end = first + 1; end < count && kn_token_slot(batch->opaques[end]) == slot; end++) continue;
        struct kn_tally *tally = kn_tally_of(engine, token);
        if (!tally) continue; /* messages without a callback */
        struct kn_batch *ticket = tally->ticket;
        if (tally->keeps_runs && batch->base_offset >= 0) keep_runs(tally, batch, first, end);
        if (settle(tally, end - first, end - first)) kn_list_push_back(tickets, &ticket->node);
    }
    return KN_TALLY_COUNTED;
}

void kn_tally_send(struct kn_engine *engine, struct kn_list *tickets)
{
    struct kn_list *ticket;
    while ((ticket = kn_list_pop_front(tickets))) kn_queue_push(&engine->deliveries, ticket);
}
