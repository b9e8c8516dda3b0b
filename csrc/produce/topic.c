/* A topic that is produced to. See topic.h. */
#include "produce/topic.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"

#define UNLOCKED_DRAINS 8 /* rounds without the staging lock before the last one with it */
#define TURNS_MAX 32 /* partitions without a leader that round_robin passes over for a record */

static struct kn_topic_windows *windows_new(void)
{
    struct kn_topic_windows *windows = malloc(sizeof *windows);
    if (!windows) return NULL;
    kn_histogram_init(&windows->batchsize);
    kn_histogram_init(&windows->batchcnt);
    return windows;
}

struct kn_topic *kn_topic_new(struct kn_producer *producer, const char *name, int32_t name_bytes,
                              uint64_t token)
{
    struct kn_topic *topic = kn_line_new(sizeof *topic);
    if (!topic) return NULL;
    topic->name = malloc((size_t)name_bytes + 1);
    if (!topic->name) {
        free(topic);
        return NULL;
    }
    memcpy(topic->name, name, (size_t)name_bytes);
    topic->name[name_bytes] = 0;
    topic->name_bytes = name_bytes;
    topic->producer = producer;
    topic->created_us = kn_clock_us();
    /* without memory the statistics stay empty */
    if (producer->client->config->statistics) topic->windows = windows_new();
    topic->token = token;
    topic->config = kn_producer_config_of(producer, name, name_bytes);
    topic->partitioner = topic->config->partitioner;
    /* with round_robin no record sticks */
    topic->sticky.linger_ms = topic->partitioner == KN_PARTITIONER_ROUND_ROBIN
                                  ? 0
                                  : producer->config->sticky_linger_ms;
    kn_list_init(&topic->node);
    atomic_init(&topic->adaptive_level.batches, 0);
    atomic_init(&topic->adaptive_level.form, 0);
    atomic_init(&topic->table, NULL);
    atomic_init(&topic->turn, 0);
    atomic_init(&topic->missing, false);
    atomic_init(&topic->sticky.accumulator, NULL);
    atomic_init(&topic->sticky.until_ms, 0);
    topic->sticky.config = producer->config;
    kn_accumulator_init(&topic->staging, producer, topic, token, KN_STAGING);
    topic->staging.config = topic->config;
    kn_mutex_init(&topic->lock, KN_RANK_LEAF);
    return topic;
}

void kn_topic_free(struct kn_topic *topic)
{
    if (!topic) return;
    kn_accumulator_deinit(&topic->staging);
    struct kn_partition_table *table = topic->tables;
    for (int32_t i = 0; topic->largest && i < topic->largest->count; i++) {
        kn_accumulator_deinit(topic->largest->partitions[i]);
        free(topic->largest->partitions[i]);
    }
    while (table) {
        struct kn_partition_table *older = table->older;
        free(table);
        table = older;
    }
    kn_mutex_deinit(&topic->lock);
    free(topic->windows);
    free(topic->name);
    free(topic);
}

int32_t kn_topic_partition_count(struct kn_topic *topic)
{
    const struct kn_partition_table *table = atomic_load_explicit(&topic->table,
                                                                  memory_order_acquire);
    return table ? table->count : 0;
}

/* --- choosing a partition --- */

/* Returns the next partition in turn that has a leader; the next one if it finds none. A record
 * keeps its turn if it is looked at twice, otherwise partitions would be skipped. */
static struct kn_accumulator *partition_in_turn(struct kn_topic *topic,
                                                const struct kn_partition_table *table,
                                                struct kn_append *append)
{
    uint32_t count = (uint32_t)table->count;
    int32_t chosen = append->turn - 1;
    if (chosen < 0 || chosen >= table->count) {
        int32_t tries = table->count < TURNS_MAX ? table->count : TURNS_MAX;
        do
            chosen = (int32_t)(atomic_fetch_add_explicit(&topic->turn, 1, memory_order_relaxed) %
                               count);
        while (!kn_accumulator_leader(table->partitions[chosen]) && tries-- > 0);
        append->turn = chosen + 1;
    }
    return table->partitions[chosen];
}

/* Chooses the partition of a record; NULL: it asked for an unknown partition. Sets append->sticks.
 */
static inline struct kn_accumulator *choose_partition(struct kn_topic *topic,
                                                      const struct kn_partition_table *table,
                                                      struct kn_append *append)
{
    const struct kn_message *message = append->message;
    append->sticks = 0;
    if (message->partition >= 0)
        return message->partition < table->count ? table->partitions[message->partition] : NULL;
    int32_t chosen = kn_partitioner_choose(topic->partitioner, message->key, message->key_bytes,
                                           table->count);
    if (chosen >= 0) return table->partitions[chosen];
    if (topic->partitioner == KN_PARTITIONER_ROUND_ROBIN)
        return partition_in_turn(topic, table, append);
    if (!kn_partitioner_sticks(topic->partitioner, message->key, message->key_bytes))
        return table->partitions[kn_sticky_random(table, -1)];
    if (!topic->sticky.linger_ms)
        return table->partitions[kn_sticky_draw(&topic->sticky, table, -1)];
    append->sticks = 1;
    return kn_sticky_accumulator(&topic->sticky, table, append->wall_ms);
}

/* --- produce --- */

static void want_metadata(struct kn_topic *topic)
{
    kn_mutex_lock(&topic->lock);
    int first = !topic->wanted;
    topic->wanted = 1;
    kn_mutex_unlock(&topic->lock);
    if (!first) return;
    struct kn_event *event = kn_event_new(&topic->producer->client->control->spare_events,
                                          KN_EVENT_TOPIC_WANTED, -1);
    if (event) {
        event->token = topic->token;
        kn_client_post_event(topic->producer->client, event);
        return;
    }
    kn_mutex_lock(&topic->lock);
    topic->wanted = 0; /* no memory for the event: the next record tries again */
    kn_mutex_unlock(&topic->lock);
}

static void move_sticky_on(struct kn_topic *topic, const struct kn_partition_table *table,
                           struct kn_accumulator *from, enum kn_move_on why)
{
    if (why == KN_MOVE_ON_NOW) kn_sticky_move_on(&topic->sticky, table, from);
    else kn_sticky_check(&topic->sticky, table, from);
}

static inline int append_to(struct kn_topic *topic, const struct kn_partition_table *table,
                            struct kn_accumulator *accumulator, const struct kn_append *appends,
                            int32_t count, int32_t *appended)
{
    struct kn_notice notice;
    int status = kn_accumulator_append_run(accumulator, appends, count, appended, &notice);
    if (notice.broker) kn_notice_send(&notice, accumulator);
    if (notice.move_on) move_sticky_on(topic, table, accumulator, notice.move_on);
    return status;
}

static int produce_staged(struct kn_topic *topic, const struct kn_append *appends, int32_t count,
                          int32_t *appended)
{
    struct kn_notice notice;
    if (atomic_load_explicit(&topic->missing, memory_order_relaxed)) {
        *appended = 0;
        want_metadata(topic);
        return KN_ERR_UNKNOWN_TOPIC;
    }
    int status = kn_accumulator_append_run(&topic->staging, appends, count, appended, &notice);
    if (*appended > 0) want_metadata(topic);
    return status;
}

/* KN_OK, or the reason why the client takes no messages. Read before any lock: in a forked child a
 * thread that doesn't exist may hold a lock. */
static inline int refusal_of(const struct kn_producer *producer)
{
    return atomic_load_explicit(&producer->refusing, memory_order_acquire);
}

static inline int append_init(const struct kn_topic *topic, const struct kn_message *message,
                              struct kn_append *append)
{
    int refusal = refusal_of(topic->producer);
    if (refusal != KN_OK) return refusal;
    int32_t key_bytes = message->key ? message->key_bytes : -1;
    int32_t value_bytes = message->value ? message->value_bytes : -1;
    size_t bound_bytes = kn_record_bound_bytes(key_bytes, value_bytes, message->headers_bytes);
    if (bound_bytes > (size_t)topic->producer->config->message_max_bytes) return KN_ERR_TOO_LARGE;
    *append = (struct kn_append){
        .message = message,
        .bound_bytes = bound_bytes,
        .budget_bytes = (int64_t)(bound_bytes - KN_RECORD_OVERHEAD_MAX_BYTES),
        .timestamp_ms = message->timestamp_ms,
        .wall_ms = message->wall_ms,
    };
    if (append->wall_ms == KN_TIMESTAMP_GIVEN) append->wall_ms = 0;
    else if (append->timestamp_ms == 0) append->timestamp_ms = append->wall_ms = kn_wall_ms();
    append->timed = append->wall_ms != 0;
    return KN_OK;
}

/* A record is staged while its topic's partitions, or its own partition, are unknown: a partition
 * may be newer than the metadata. STALE: a table was published or withdrawn between the check and
 * the append. */

static int append_one(struct kn_topic *topic, struct kn_append *append)
{
    int status;
    do {
        int32_t appended;
        struct kn_accumulator *accumulator;
        const struct kn_partition_table *table = atomic_load_explicit(&topic->table,
                                                                      memory_order_acquire);
        if (!table || !(accumulator = choose_partition(topic, table, append)))
            status = produce_staged(topic, append, 1, &appended);
        else status = append_to(topic, table, accumulator, append, 1, &appended);
    } while (status == KN_ERR_STALE);
    return status;
}

/* Whether a record goes where the one before it sticks: neither has a key, and it is the same
 * moment. */
static inline int sticks_like(const struct kn_append *before, const struct kn_append *append)
{
    return before->sticks && !before->message->key && !append->message->key &&
           append->message->partition < 0 && append->wall_ms == before->wall_ms;
}

/* The partition of the record that ended a run, chosen once. table NULL: not chosen. */
struct chosen {
    const struct kn_partition_table *table;
    struct kn_accumulator *accumulator;
};

/* Appends the first records that go to one partition. *chosen: the partition of the first record,
 * and on return that of the record behind the appended ones. */
static int append_run(struct kn_topic *topic, struct kn_append *appends, int32_t count,
                      struct chosen *chosen, int32_t *appended)
{
    const struct kn_partition_table *table = atomic_load_explicit(&topic->table,
                                                                  memory_order_acquire);
    struct kn_accumulator *accumulator, *next = NULL;
    int32_t run = 1;
    *appended = 0;
    if (!table) return produce_staged(topic, appends, count, appended);
    accumulator = chosen->table == table ? chosen->accumulator
                                         : choose_partition(topic, table, &appends[0]);
    for (; run < count; run++) {
        if (sticks_like(&appends[run - 1], &appends[run])) appends[run].sticks = 1;
        else if ((next = choose_partition(topic, table, &appends[run])) != accumulator) break;
    }
    int status = !accumulator ? produce_staged(topic, appends, run, appended)
                              : append_to(topic, table, accumulator, appends, run, appended);
    *chosen = (struct chosen){*appended == run && run < count ? table : NULL, next};
    return status;
}

/* Checked after the budget was taken: the thread that ends a transaction first closes it and then
 * waits until the budget is empty. */
static inline int in_transaction(const struct kn_producer *producer)
{
    return !kn_producer_is_transactional(producer) || atomic_load(&producer->transaction.open);
}

/* Returns the reason why there is no transaction; a fatal error comes first. */
static int no_transaction(const struct kn_producer *producer)
{
    int refusal = refusal_of(producer);
    return refusal != KN_OK ? refusal : KN_ERR_NO_TRANSACTION;
}

int kn_topic_produce(struct kn_topic *topic, const struct kn_message *message)
{
    struct kn_producer *producer = topic->producer;
    struct kn_append append;
    int status = append_init(topic, message, &append);
    if (status == KN_OK) status = kn_budget_take(&producer->budget, 1, append.budget_bytes);
    if (status != KN_OK) return status;
    status = in_transaction(producer) ? append_one(topic, &append) : no_transaction(producer);
    if (status != KN_OK) kn_budget_give(&producer->budget, 1, append.budget_bytes);
    return status;
}

int kn_topic_produce_run(struct kn_topic *topic, const struct kn_message *messages, int32_t count,
                         int32_t *queued)
{
    struct kn_budget *budget = &topic->producer->budget;
    struct kn_append appends[KN_PRODUCE_RUN_MAX];
    int32_t ready = 0;
    int64_t bytes = 0;
    int refusal = KN_OK, status = KN_OK;
    struct chosen chosen = {NULL, NULL};
    *queued = 0;
    for (; ready < count &&
           (refusal = append_init(topic, &messages[ready], &appends[ready])) == KN_OK;
         ready++)
        bytes += appends[ready].budget_bytes;
    if (ready == 0) return refusal;
    if (kn_budget_take(budget, ready, bytes) != KN_OK) {
        /* no room for all: only for some */
        int32_t wanted = ready;
        for (ready = 0, bytes = 0; ready < wanted; ready++) {
            if (kn_budget_take(budget, 1, appends[ready].budget_bytes) != KN_OK) break;
            bytes += appends[ready].budget_bytes;
        }
        if (ready < wanted) refusal = KN_ERR_FULL;
        if (ready == 0) return refusal;
    }
    if (!in_transaction(topic->producer)) status = no_transaction(topic->producer);
    while (*queued < ready && (status == KN_OK || status == KN_ERR_STALE)) {
        int32_t appended;
        status = append_run(topic, appends + *queued, ready - *queued, &chosen, &appended);
        *queued += appended;
    }
    if (*queued == ready) return refusal;
    for (int32_t i = 0; i < *queued; i++) bytes -= appends[i].budget_bytes;
    kn_budget_give(budget, ready - *queued, bytes);
    return status;
}

int kn_topic_produce_batch(struct kn_topic *topic, struct kn_batch *batch)
{
    struct kn_producer *producer = topic->producer;
    struct kn_notice notice;
    const struct kn_partition_table *table = atomic_load_explicit(&topic->table,
                                                                  memory_order_acquire);
    int32_t count = batch->writer.record_count;
    int refusal = refusal_of(producer);
    if (refusal != KN_OK) return refusal;
    if (!table || batch->partition >= table->count) return KN_ERR_STALE;
    struct kn_accumulator *accumulator = table->partitions[batch->partition];
    /* read now: once the engine owns the batch it may be freed at any time */
    int64_t budget_bytes = batch->budget_bytes;
    int status = kn_budget_take(&producer->budget, count, budget_bytes);
    if (status != KN_OK) return status;
    status = in_transaction(producer) ? kn_accumulator_put(accumulator, batch, &notice)
                                      : no_transaction(producer);
    if (status != KN_OK) kn_budget_give(&producer->budget, count, budget_bytes);
    else kn_notice_send(&notice, accumulator);
    return status;
}

/* --- sending --- */

struct kn_batch *kn_topic_take(struct kn_accumulator *accumulator, struct kn_broker *broker,
                               int64_t now_us, int64_t *next_us)
{
    struct kn_batch *batch = kn_accumulator_take(accumulator, broker, now_us, next_us);
    struct kn_topic *topic = accumulator->topic;
    if (batch && batch->was_open)
        kn_sticky_check(&topic->sticky, atomic_load_explicit(&topic->table, memory_order_acquire),
                        accumulator);
    return batch;
}

/* --- metadata --- */

static int drain_record(struct kn_topic *topic, const struct kn_partition_table *table,
                        const struct kn_batch *from, const struct kn_message *message,
                        int64_t budget_bytes)
{
    struct kn_append append = {
        .message = message,
        .bound_bytes = (size_t)budget_bytes + KN_RECORD_OVERHEAD_MAX_BYTES,
        .budget_bytes = budget_bytes,
        .timestamp_ms = message->timestamp_ms,
        .created_us = from->created_us,
        .created_ms = from->created_ms,
        .timed = from->created_ms >= 0,
    };
    struct kn_accumulator *to = choose_partition(topic, table, &append);
    if (!to) return KN_ERR_UNKNOWN_PARTITION;
    struct kn_notice notice; /* unused: set_leaders() notifies for all records afterwards */
    int status = kn_accumulator_append(to, &append, &notice);
    if (notice.move_on) move_sticky_on(topic, table, to, notice.move_on);
    return status;
}

/* Moves a staged batch's records to their partitions. A record that asks for a partition beyond the
 * table goes to `unknown`; other failed records are delivered with the reason. Both stay in the
 * batch, moved together in place, so that no allocation can fail here. */
static void drain_batch(struct kn_topic *topic, const struct kn_partition_table *table,
                        struct kn_batch *batch, struct kn_list *unknown)
{
    struct kn_batch_view view;
    struct kn_record_reader reader;
    struct kn_record record;
    uint8_t *kept_end = batch->plain->data + KN_BATCH_HEADER_BYTES;
    int32_t kept = 0, index = 0;
    int64_t kept_budget = 0;
    int reason = KN_OK;
    int status = kn_batch_view_plain(batch, &view);
    if (status == KN_OK) status = kn_record_reader_init(&reader, &view);
    while (status == KN_OK) {
        const uint8_t *start = reader.span.at;
        if ((status = kn_record_reader_next(&reader, &record)) != KN_OK) break;
        struct kn_message message = kn_message_of(&record, batch->partitions[index],
                                                  batch->opaques[index]);
        int64_t budget_bytes = kn_record_bytes(&record);
        int refused = drain_record(topic, table, batch, &message, budget_bytes);
        if (refused != KN_OK) {
            size_t size = (size_t)(reader.span.at - start);
            memmove(kept_end, start, size);
            kept_end += size;
            batch->partitions[kept] = batch->partitions[index];
            batch->opaques[kept++] = batch->opaques[index];
            kept_budget += budget_bytes;
            if (reason == KN_OK || refused != KN_ERR_UNKNOWN_PARTITION) reason = refused;
        }
        index++;
    }
    assert(index == batch->writer.record_count); /* this client wrote the bytes */
    if (kept == 0) {
        kn_batch_free(batch);
        return;
    }
    batch->writer.record_count = kept;
    batch->plain->size_bytes = (size_t)(kept_end - batch->plain->data);
    batch->budget_bytes = kept_budget;
    if (reason == KN_ERR_UNKNOWN_PARTITION) {
        kn_list_push_back(unknown, &batch->node);
        return;
    }
    batch->accumulator = NULL;
    kn_batch_set_error(batch, reason, 0, NULL, 0);
    kn_client_deliver(topic->producer->client, batch);
}

static void drain_list(struct kn_topic *topic, const struct kn_partition_table *table,
                       struct kn_list *batches, struct kn_list *unknown)
{
    struct kn_list *node;
    while ((node = kn_list_pop_front(batches)))
        drain_batch(topic, table, KN_LIST_ENTRY(node, struct kn_batch, node), unknown);
}

/* Moves the staged records to the partitions: in rounds while more may come, the last time with the
 * lock held. Then publishes the table. Records for partitions that aren't in it stay staged, ahead
 * of later ones. */
static void publish(struct kn_topic *topic, struct kn_partition_table *table)
{
    struct kn_list batches, unknown;
    kn_list_init(&batches);
    kn_list_init(&unknown);
    kn_mutex_lock(&topic->lock);
    topic->wanted = 0; /* so that the next staged record sends it again */
    kn_mutex_unlock(&topic->lock);
    for (int round = 0;; round++) {
        kn_mutex_lock(&topic->staging.lock);
        kn_accumulator_steal(&topic->staging, &batches);
        if (kn_list_empty(&batches) || round == UNLOCKED_DRAINS) break;
        kn_mutex_unlock(&topic->staging.lock);
        drain_list(topic, table, &batches, &unknown);
    }
    drain_list(topic, table, &batches, &unknown);
    kn_accumulator_return(&topic->staging, &unknown);
    atomic_store_explicit(&topic->table, table, memory_order_release);
    topic->staging.known_partitions = table->count;
    kn_mutex_unlock(&topic->staging.lock);
}

/* Makes a table of `count` partitions that shares the existing accumulators; NULL: no memory. */
static struct kn_partition_table *table_new(struct kn_topic *topic, int32_t count)
{
    struct kn_partition_table *table = malloc(sizeof *table +
                                              (size_t)count * sizeof *table->partitions);
    if (!table) return NULL;
    table->older = topic->tables;
    table->count = count;
    int32_t shared = topic->largest ? topic->largest->count : 0;
    if (shared > count) shared = count;
    if (shared)
        memcpy(table->partitions, topic->largest->partitions,
               (size_t)shared * sizeof *table->partitions);
    for (int32_t i = shared; i < count; i++) {
        struct kn_accumulator *accumulator = kn_line_new(sizeof *accumulator);
        if (!accumulator) {
            while (i-- > shared) {
                kn_accumulator_deinit(table->partitions[i]);
                free(table->partitions[i]);
            }
            free(table);
            return NULL;
        }
        kn_accumulator_init(accumulator, topic->producer, topic, topic->token, i);
        accumulator->config = topic->config;
        kn_accumulator_grant(accumulator, topic->producer->producer_id,
                             topic->producer->producer_epoch);
        kn_accumulator_set_topic_id(accumulator, topic->id);
        table->partitions[i] = accumulator;
    }
    return table;
}

static void set_leaders(struct kn_partition_table *table, int32_t count,
                        struct kn_broker *const *leaders, const int32_t *leader_epochs)
{
    for (int32_t i = 0; i < count; i++) {
        kn_accumulator_set_leader(table->partitions[i], leaders[i],
                                  leader_epochs ? leader_epochs[i] : -1);
    }
}

/* Returns whether the topic was deleted and recreated. */
static int is_recreated(const struct kn_topic *topic, const uint8_t id[16])
{
    return memcmp(topic->id, id, 16) != 0 && memcmp(topic->id, kn_no_topic_id, 16) != 0 &&
           memcmp(id, kn_no_topic_id, 16) != 0;
}

static void set_id(struct kn_topic *topic, const uint8_t id[16])
{
    memcpy(topic->id, id, 16);
    for (int32_t i = 0; i < topic->largest->count; i++)
        kn_accumulator_set_topic_id(topic->largest->partitions[i], id);
}

/* Fails the messages of partitions that the topic doesn't have any more. */
static void drop_partitions(struct kn_topic *topic, int32_t count)
{
    for (int32_t i = count; i < topic->largest->count; i++) {
        kn_accumulator_set_leader(topic->largest->partitions[i], NULL, -1);
        kn_accumulator_fail(topic->largest->partitions[i], KN_ERR_UNKNOWN_PARTITION, 0, NULL);
    }
}

int kn_topic_set_partitions(struct kn_topic *topic, const uint8_t id[16], int32_t count,
                            struct kn_broker *const *leaders, const int32_t *leader_epochs)
{
    if (count <= 0) return KN_ERR_INVALID;
    if (!id) id = kn_no_topic_id;
    struct kn_partition_table *table = topic->tables;
    int shrinks = table && table->count > count && is_recreated(topic, id);
    if (!table || table->count < count || shrinks) {
        table = table_new(topic, count);
        if (!table) return KN_ERR_NOMEM;
        topic->tables = table;
        if (!topic->largest || topic->largest->count < count) topic->largest = table;
    }
    if (memcmp(topic->id, id, 16) != 0) set_id(topic, id);
    topic->forgotten = false;
    atomic_store_explicit(&topic->missing, false, memory_order_relaxed);
    set_leaders(table, count, leaders, leader_epochs);
    if (atomic_load_explicit(&topic->table, memory_order_acquire) != table) {
        publish(topic, table);
        /* again, to notify the leaders of the moved records */
        set_leaders(table, count, leaders, leader_epochs);
    }
    if (shrinks) drop_partitions(topic, count);
    return KN_OK;
}

bool kn_topic_used_since(struct kn_topic *topic, int64_t since_us)
{
    if (kn_accumulator_used_since(&topic->staging, since_us)) return true;
    for (int32_t i = 0; topic->largest && i < topic->largest->count; i++)
        if (kn_accumulator_used_since(topic->largest->partitions[i], since_us)) return true;
    return false;
}

/* After this only a thread that has read the table before may append to a partition. Its record
 * goes to the last known leader; kn_topic_expire() looks after it. */
static void withdraw_table(struct kn_topic *topic)
{
    /* first, so that the next staged record sends TOPIC_WANTED */
    kn_mutex_lock(&topic->lock);
    topic->wanted = 0;
    kn_mutex_unlock(&topic->lock);
    kn_mutex_lock(&topic->staging.lock);
    atomic_store_explicit(&topic->table, NULL, memory_order_release);
    topic->staging.known_partitions = 0;
    kn_mutex_unlock(&topic->staging.lock);
}

bool kn_topic_forget(struct kn_topic *topic)
{
    if (kn_topic_used_since(topic, KN_NEVER)) return false;
    withdraw_table(topic);
    topic->forgotten = true;
    return true;
}

void kn_topic_refuse(struct kn_topic *topic)
{
    atomic_store_explicit(&topic->missing, true, memory_order_relaxed);
}

void kn_topic_fail(struct kn_topic *topic, int status, int16_t error_code, const char *text)
{
    /* First: a callback that gets the error may produce at once. */
    withdraw_table(topic);
    kn_accumulator_fail(&topic->staging, status, error_code, text);
    for (int32_t i = 0; topic->largest && i < topic->largest->count; i++) {
        kn_accumulator_fail(topic->largest->partitions[i], status, error_code, text);
    }
}

bool kn_topic_fail_unknown(struct kn_topic *topic, int64_t before_us)
{
    static const char text[] = "the topic has no such partition";
    kn_mutex_lock(&topic->lock);
    topic->wanted = 0; /* first, so that the next staged record sends it again */
    kn_mutex_unlock(&topic->lock);
    kn_accumulator_fail_older(&topic->staging, before_us, KN_ERR_UNKNOWN_PARTITION, text);
    return atomic_load_explicit(&topic->staging.batches, memory_order_relaxed) > 0;
}

void kn_topic_purge(struct kn_topic *topic)
{
    kn_accumulator_fail(&topic->staging, KN_ERR_PURGED, 0, NULL);
    for (int32_t i = 0; topic->largest && i < topic->largest->count; i++) {
        kn_accumulator_fail(topic->largest->partitions[i], KN_ERR_PURGED, 0, NULL);
    }
}

void kn_topic_grant(struct kn_topic *topic, int64_t producer_id, int16_t producer_epoch)
{
    for (int32_t i = 0; topic->largest && i < topic->largest->count; i++) {
        kn_accumulator_grant(topic->largest->partitions[i], producer_id, producer_epoch);
    }
}

void kn_topic_expire(struct kn_topic *topic, int64_t now_us)
{
    kn_accumulator_expire(&topic->staging, now_us);
    for (int32_t i = 0; topic->largest && i < topic->largest->count; i++)
        kn_accumulator_expire(topic->largest->partitions[i], now_us);
    if (topic->forgotten && kn_topic_used_since(topic, KN_NEVER)) want_metadata(topic);
}

/* --- the client's topics --- */

/* Under the lock. */
static struct kn_topic *find_topic(struct kn_producer *producer, const char *name,
                                   int32_t name_bytes)
{
    for (struct kn_list *node = producer->topics.next; node != &producer->topics;
         node = node->next) {
        struct kn_topic *topic = KN_LIST_ENTRY(node, struct kn_topic, node);
        if (topic->name_bytes == name_bytes && memcmp(topic->name, name, (size_t)name_bytes) == 0)
            return topic;
    }
    return NULL;
}

struct kn_topic *kn_producer_topic(struct kn_producer *producer, const char *name,
                                   int32_t name_bytes, uint64_t token)
{
    kn_mutex_lock(&producer->lock);
    struct kn_topic *topic = find_topic(producer, name, name_bytes);
    kn_mutex_unlock(&producer->lock);
    if (topic) return topic;
    struct kn_topic *made = kn_topic_new(producer, name, name_bytes, token);
    if (!made) return NULL;
    kn_mutex_lock(&producer->lock);
    topic = find_topic(producer, name, name_bytes);
    if (!topic) kn_list_push_back(&producer->topics, &made->node);
    kn_mutex_unlock(&producer->lock);
    if (!topic) return made;
    kn_topic_free(made); /* another thread has added it meanwhile */
    return topic;
}

struct kn_topic *kn_producer_topic_next(struct kn_producer *producer, const struct kn_topic *topic)
{
    kn_mutex_lock(&producer->lock);
    struct kn_list *next = topic ? topic->node.next : producer->topics.next;
    if (next == &producer->topics) next = NULL;
    kn_mutex_unlock(&producer->lock);
    return next ? KN_LIST_ENTRY(next, struct kn_topic, node) : NULL;
}
