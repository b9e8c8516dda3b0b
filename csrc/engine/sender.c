/* A broker's producing half. What, thread and ownership: sender.h. Here: from ready partitions to requests; produce_request.c has the way back. */
#include "engine/sender.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "engine/engine.h"
#include "engine/produce_request.h"

#define REQUEST_BYTES ((size_t)960 << 10)    /* enough for one request: a full batch of the default size goes alone */
#define FULL_BYTES (REQUEST_BYTES / 2)        /* a batch of the default size may be complete with so much: the next message didn't fit */
#define UNSENT_BYTES_MAX ((size_t)2 << 20)   /* waiting in the socket's queue: more would only grow old there */
#define PIPELINE_MAX 5                       /* keeps the socket busy; the broker serves a connection's requests one by one */
#define DUE_SLACK_US 250                     /* the clock of this turn was read a moment ago */
#define NO_MEMORY_BACKOFF_US 100000

void kn_sender_init(struct kn_sender *sender, struct kn_broker *broker)
{
    memset(sender, 0, sizeof *sender);
    sender->broker = broker;
    sender->produce_version = -1;
    kn_schedule_init(&sender->schedule);
}

void kn_sender_deinit(struct kn_sender *sender) { kn_schedule_deinit(&sender->schedule); }

int kn_sender_add(struct kn_sender *sender, struct kn_accumulator *accumulator, int64_t at_us)
{
    int status = kn_schedule_add(&sender->schedule, accumulator, at_us);
    if (status != KN_OK) kn_accumulator_forget_notice(accumulator, sender->broker); /* the next record announces itself again */
    return status;
}

int kn_sender_wants_connection(struct kn_sender *sender)
{
    const struct kn_schedule_entry *first;
    while ((first = kn_schedule_first(&sender->schedule))) {
        if (kn_accumulator_wants(first->accumulator, sender->broker)) return 1;
        kn_schedule_pop(&sender->schedule);
    }
    return sender->in_flight > 0 || sender->encode_queue.count > 0;
}

/* --- collecting --- */

/* One look at each partition that is due. Partitions to look at again go back in only afterwards: one batch a partition and request. */
static void collect(struct kn_sender *sender, struct kn_picks *picks, int64_t now_us)
{
    struct kn_engine *engine = sender->broker->engine;
    struct kn_schedule_entry again[KN_PICKS_MAX];
    int32_t again_count = 0;
    int flushing = atomic_load_explicit(&engine->flushing, memory_order_relaxed) > 0;
    const struct kn_schedule_entry *first;
    picks->count = 0;
    picks->size_bytes = 0;
    while (picks->size_bytes < REQUEST_BYTES && again_count < KN_PICKS_MAX && picks->count < KN_PICKS_MAX &&
           (first = kn_schedule_first(&sender->schedule)) && (flushing || first->at_us <= now_us)) {
        struct kn_accumulator *accumulator = kn_schedule_pop(&sender->schedule).accumulator;
        int64_t next_us;
        struct kn_batch *batch = kn_accumulator_take(accumulator, sender->broker, now_us, &next_us);
        if (next_us != KN_NEVER) again[again_count++] = (struct kn_schedule_entry){accumulator, next_us};
        if (!batch) continue;
        picks->batches[picks->count++] = batch;
        picks->size_bytes += batch->wire ? batch->wire->size_bytes : batch->plain->size_bytes;
    }
    for (int32_t i = 0; i < again_count; i++) kn_sender_add(sender, again[i].accumulator, again[i].at_us);
}

/* --- what can't be encoded --- */

static void refuse(struct kn_sender *sender, struct kn_batch *batch, int status)
{
    char text[160];
    const struct kn_engine *engine = sender->broker->engine;
    int length = snprintf(text, sizeof text, "%s can't be sent to a broker that has Produce up to version %d only",
                          status == KN_ERR_UNSUPPORTED ? engine->codecs.codecs[engine->config.codec].name : "so much at once", (int)sender->produce_version);
    kn_batch_set_error(batch, status, 0, text, (size_t)length);
    kn_accumulator_settle(batch->accumulator, batch);
}

static void requeue(struct kn_batch *batch, int64_t next_try_us)
{
    batch->status = KN_OK;
    kn_accumulator_requeue(batch->accumulator, batch, next_try_us);
}

void kn_sender_put_back(struct kn_sender *sender, struct kn_batch *batch, int64_t next_try_us, int64_t now_us)
{
    requeue(batch, next_try_us);
    kn_sender_recall(sender, now_us);
}

/* What couldn't be encoded goes back or is settled, and leaves the picks. */
static void drop_unencoded(struct kn_sender *sender, struct kn_picks *picks, int64_t now_us)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < picks->count; i++) {
        struct kn_batch *batch = picks->batches[i];
        int status = batch->status;
        if (status == KN_OK) picks->batches[kept++] = batch;
        else if (status != KN_ERR_NOMEM) refuse(sender, batch, status);
        else kn_sender_put_back(sender, batch, now_us + NO_MEMORY_BACKOFF_US, now_us);
    }
    picks->count = kept;
}

/* The broker is older than idempotence: what waits for it fails, because it would be without the guarantee that was asked for. */
static int64_t refuse_all(struct kn_sender *sender)
{
    static const char text[] = "enable.idempotence needs brokers from 0.11 on, and this partition's leader is older";
    while (kn_schedule_first(&sender->schedule)) {
        struct kn_accumulator *accumulator = kn_schedule_pop(&sender->schedule).accumulator;
        if (!kn_accumulator_wants(accumulator, sender->broker)) continue;
        kn_accumulator_forget_notice(accumulator, sender->broker); /* first: what is appended from here on announces itself again */
        if (sender->broker->engine->config.gapless) kn_produce_raise_fatal(sender, accumulator, KN_ERR_UNSUPPORTED, 0);
        kn_accumulator_fail(accumulator, KN_ERR_UNSUPPORTED, 0, text);
    }
    return KN_NEVER;
}

/* --- sending --- */

static int by_topic_and_partition(const void *left, const void *right)
{
    const struct kn_batch *a = *(struct kn_batch *const *)left, *b = *(struct kn_batch *const *)right;
    if (a->topic != b->topic) return (uintptr_t)a->topic < (uintptr_t)b->topic ? -1 : 1;
    return a->partition < b->partition ? -1 : 1;
}

static void log_request(const struct kn_sender *sender, const struct kn_picks *picks)
{
    struct kn_engine *engine = sender->broker->engine;
    int64_t messages = 0;
    for (int32_t i = 0; i < picks->count; i++) messages += picks->batches[i]->writer.record_count;
    kn_log_say(&engine->log, KN_LOG_QUEUE, sender->broker->handle, -1,
               "%lld message(s) of %d partition(s) leave the queue in one request; %lld queued or in flight, in %d request(s) so far", (long long)messages,
               (int)picks->count, (long long)atomic_load_explicit(&engine->budget.messages, memory_order_relaxed), (int)sender->in_flight);
}

static void send_request(struct kn_sender *sender, struct kn_picks *picks, int64_t now_us)
{
    drop_unencoded(sender, picks, now_us);
    if (picks->count == 0) return;
    qsort(picks->batches, (size_t)picks->count, sizeof *picks->batches, by_topic_and_partition);
    struct kn_produce *produce = kn_produce_new(sender, picks->batches, picks->count, now_us);
    if (!produce) {
        for (int32_t i = 0; i < picks->count; i++) kn_sender_put_back(sender, picks->batches[i], now_us + NO_MEMORY_BACKOFF_US, now_us);
        return;
    }
    kn_count_batches(sender->broker->windows, &sender->broker->means, picks->batches, picks->count);
    sender->in_flight++;
    if (kn_log_is_on(&sender->broker->engine->log, KN_LOG_QUEUE)) log_request(sender, picks);
    kn_broker_send(sender->broker, &produce->request, now_us);
}

/* What is built now would only grow old, while messages that come later could go with it. */
static int is_backed_up(const struct kn_sender *sender)
{
    const struct kn_connection *connection = sender->broker->connection;
    int32_t most = sender->broker->engine->config.backpressure_requests;
    return kn_connection_unsent_bytes(connection) >= UNSENT_BYTES_MAX || (most > 0 && kn_connection_unsent_requests(connection) >= most);
}

/* Notes since when something is due; for kn_sticky_choose(). */
static int64_t blocked(struct kn_sender *sender, int64_t now_us, int64_t next_us)
{
    const struct kn_schedule_entry *first = kn_schedule_first(&sender->schedule);
    int64_t since_us = atomic_load_explicit(&sender->blocked_since_us, memory_order_relaxed);
    if (!first) since_us = 0;
    else if (!since_us) since_us = first->at_us > now_us ? first->at_us : now_us;
    atomic_store_explicit(&sender->blocked_since_us, since_us, memory_order_relaxed);
    return next_us;
}

/* Whether another request may be picked now. Beyond those that may be out there it is only encoded, ahead of its turn, and only while requests are full: one
 * that isn't had better wait and grow. */
static int may_pick(const struct kn_sender *sender, int can_send, int32_t limit)
{
    const struct kn_engine *engine = sender->broker->engine;
    int32_t ahead = engine->workers.size + 1 < KN_ENCODE_QUEUE_MAX ? engine->workers.size + 1 : KN_ENCODE_QUEUE_MAX;
    if (sender->encode_queue.count >= ahead) return 0;
    if (can_send && sender->in_flight + sender->encode_queue.count < limit) return 1;
    return engine->config.codec != KN_CODEC_NONE && sender->picked_full;
}

void kn_sender_fail_picked(struct kn_sender *sender, int status, int64_t now_us)
{
    struct kn_picks *picks;
    while ((picks = kn_encode_queue_take(&sender->encode_queue, &sender->broker->engine->workers))) {
        for (int32_t i = 0; i < picks->count; i++) kn_produce_unsent(sender, picks->batches[i], status, now_us);
    }
}

void kn_sender_recall(struct kn_sender *sender, int64_t now_us)
{
    struct kn_picks *picks;
    while ((picks = kn_encode_queue_take(&sender->encode_queue, &sender->broker->engine->workers))) {
        for (int32_t i = 0; i < picks->count; i++) requeue(picks->batches[i], now_us);
    }
}

int64_t kn_sender_step(struct kn_sender *sender, int64_t now_us)
{
    const struct kn_engine_config *config = &sender->broker->engine->config;
    int32_t limit = config->max_in_flight < PIPELINE_MAX ? config->max_in_flight : PIPELINE_MAX;
    int is_slow_here = config->codec != KN_CODEC_NONE && sender->broker->engine->workers.size == 0;
    if (sender->produce_version < KN_PRODUCE_VERSION_MIN) return blocked(sender, now_us, KN_NEVER);
    if (config->idempotence == KN_IDEMPOTENCE_DEMANDED && sender->produce_version < KN_PRODUCE_BATCHES_SINCE) return blocked(sender, now_us, refuse_all(sender));
    for (;;) {
        if (atomic_load_explicit(&sender->broker->engine->refusing, memory_order_acquire)) kn_sender_fail_picked(sender, KN_ERR_TRANSPORT, now_us);
        if (now_us < sender->held_until_us) {
            kn_sender_recall(sender, now_us); /* messages whose time is up don't stay for it */
            return blocked(sender, now_us, sender->held_until_us);
        }
        int can_send = sender->in_flight < limit && !is_backed_up(sender);
        struct kn_picks *encoded = can_send ? kn_encode_queue_take_encoded(&sender->encode_queue) : NULL;
        if (encoded) {
            send_request(sender, encoded, now_us);
            if (is_slow_here) break; /* let the socket have its turn */
            continue;
        }
        /* Bytes that get written, an answer, or the worker pool bring us back. */
        if (!may_pick(sender, can_send, limit)) return blocked(sender, now_us, KN_NEVER);
        atomic_store_explicit(&sender->blocked_since_us, 0, memory_order_relaxed);
        struct kn_picks *picks = kn_encode_queue_next(&sender->encode_queue);
        collect(sender, picks, now_us + DUE_SLACK_US);
        if (picks->count == 0) break;
        sender->picked_full = picks->size_bytes >= FULL_BYTES;
        kn_encode_queue_begin(&sender->encode_queue, sender->broker, sender->produce_version);
    }
    const struct kn_schedule_entry *first = kn_schedule_first(&sender->schedule);
    return first ? first->at_us : KN_NEVER;
}
