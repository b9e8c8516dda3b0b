/* The surroundings of the producing half, played by the test: the engine's functions, a broker that
 * only records notifications, a connection that only counts.
 *
 * Each test program includes this file once. */
#ifndef KN_TESTS_PRODUCE_FAKES_H
#define KN_TESTS_PRODUCE_FAKES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "check.h"
#include "engine/engine.h"
#include "records/record_reader.h"

#define UNUSED __attribute__((unused)) /* no test uses everything here */

/* --- recorded calls --- */

struct fake_notice {
    struct kn_broker *broker;
    struct kn_accumulator *accumulator;
    int64_t at_us;
};

static struct {
    pthread_mutex_t lock;
    struct fake_notice notices[4096]; /* the last ones, if there were more */
    long notice_count;
    struct kn_list delivered; /* batches, in order */
    struct kn_engine *engine;
    struct kn_list sent; /* requests, in order */
    int64_t delivered_messages;
    size_t unsent_bytes;
    int unsent_requests;
    atomic_int wakes; /* workers call it */
    /* called once, when a batch is delivered: an application that reacts at once */
    void (*on_deliver)(void);
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void fake_ready(void *broker, struct kn_accumulator *accumulator, int64_t at_us)
{
    pthread_mutex_lock(&fake.lock);
    fake.notices[fake.notice_count++ % 4096] = (struct fake_notice){broker, accumulator, at_us};
    pthread_mutex_unlock(&fake.lock);
}

static void fake_wake(void *broker)
{
    (void)broker;
    atomic_fetch_add(&fake.wakes, 1);
}

static void fake_send(void *broker, struct kn_request *request, int64_t now_us)
{
    (void)broker;
    (void)now_us;
    kn_list_push_back(&fake.sent, &request->node);
}

static size_t fake_unsent_bytes(void *broker)
{
    (void)broker;
    return fake.unsent_bytes;
}

static int fake_unsent_requests(void *broker)
{
    (void)broker;
    return fake.unsent_requests;
}

static const struct kn_broker_events fake_broker_events = {
    .accumulator_ready = fake_ready,
    .wake = fake_wake,
    .send = fake_send,
    .unsent_bytes = fake_unsent_bytes,
    .unsent_requests = fake_unsent_requests,
};

UNUSED static void fake_broker_init(struct kn_broker *broker, struct kn_engine *engine)
{
    memset(broker, 0, sizeof *broker);
    broker->client = &engine->client;
    broker->on = &fake_broker_events;
    broker->owner = broker;
    broker->means.on = &engine->client.measuring;
}

static void fake_delivered(void *owner, struct kn_batch *batch)
{
    struct kn_engine *engine = owner;
    kn_budget_give(&engine->producer.budget, batch->writer.record_count, batch->budget_bytes);
    pthread_mutex_lock(&fake.lock);
    fake.delivered_messages += batch->writer.record_count;
    kn_list_push_back(&fake.delivered, &batch->node);
    void (*then)(void) = fake.on_deliver;
    fake.on_deliver = NULL;
    pthread_mutex_unlock(&fake.lock);
    if (then) then();
}

static const struct kn_client_events fake_client_events = {.delivered = fake_delivered};

/* --- an engine --- */

UNUSED static struct kn_engine *fake_engine(void)
{
    struct kn_engine *engine = calloc(1, sizeof *engine);
    CHECK(engine);
    strcpy(engine->config.client.client_id, "test");
    engine->config.produce.batch_bytes = 1000000;
    engine->config.produce.batch_messages = 10000;
    engine->config.produce.message_max_bytes = 1000000;
    engine->config.produce.linger_us = 5000;
    engine->config.produce.max_in_flight = 1000000;
    engine->config.produce.acks = -1;
    engine->config.produce.produce_timeout_ms = 30000;
    engine->config.client.request_timeout_ms = 60000;
    engine->config.produce.message_timeout_ms = 300000;
    engine->config.produce.retries = 2147483647;
    engine->config.produce.retry_backoff_ms = 100;
    engine->config.produce.retry_backoff_max_ms = 1000;
    engine->config.produce.codec_level = KN_CODEC_LEVEL_DEFAULT;
    engine->config.produce.report_all = 1;
    engine->config.produce.sticky_linger_ms = 10;
    engine->client.config = &engine->config.client;
    engine->client.on = &fake_client_events;
    engine->client.owner = fake.engine = engine;
    kn_codec_table_init(&engine->client.codecs);
    CHECK_EQ(kn_producer_init(&engine->producer, &engine->config.produce, &engine->client), KN_OK);
    engine->client.control = kn_control_queue_new(0);
    CHECK(engine->client.control);
    engine->client.pool = kn_pool_new((size_t)64 << 20);
    CHECK(engine->client.pool);
    kn_list_init(&fake.delivered);
    kn_list_init(&fake.sent);
    fake.notice_count = 0;
    fake.delivered_messages = 0;
    fake.unsent_bytes = 0;
    fake.unsent_requests = 0;
    atomic_store(&fake.wakes, 0);
    return engine;
}

UNUSED static struct kn_batch *delivered_first(void)
{
    struct kn_list *node = kn_list_pop_front(&fake.delivered);
    return node ? KN_LIST_ENTRY(node, struct kn_batch, node) : NULL;
}

UNUSED static struct kn_event *event_first(void)
{
    struct kn_list *node = kn_queue_pop(&fake.engine->client.control->events);
    return node ? KN_LIST_ENTRY(node, struct kn_event, node) : NULL;
}

UNUSED static int list_count(const struct kn_list *list)
{
    int count = 0;
    for (const struct kn_list *node = list->next; node != list; node = node->next) count++;
    return count;
}

/* The accumulator's count of batches, which is read without the lock, must equal the batches in its
 * lists. */
UNUSED static void check_batches(struct kn_accumulator *accumulator)
{
    kn_mutex_lock(&accumulator->lock);
    CHECK_EQ(atomic_load(&accumulator->batches), list_count(&accumulator->waiting) +
                                                     accumulator->in_flight +
                                                     (accumulator->open != NULL));
    kn_mutex_unlock(&accumulator->lock);
}

UNUSED static void check_batches_of(struct kn_topic *topic)
{
    for (int32_t i = 0; topic->tables && i < topic->tables->count; i++)
        check_batches(topic->tables->partitions[i]);
    check_batches(&topic->staging);
}

/* Frees the delivered batches, the posted events and the engine. Every batch and buffer must be
 * back. */
UNUSED static void fake_engine_free(struct kn_engine *engine)
{
    struct kn_batch *batch;
    struct kn_event *event;
    while ((batch = delivered_first())) kn_batch_free(batch);
    while ((event = event_first())) kn_event_free(event);
    CHECK_EQ(list_count(&fake.sent), 0);
    CHECK_EQ(kn_batch_live(), 0);
    kn_producer_deinit(&engine->producer);
    kn_control_queue_unref(engine->client.control);
    kn_pool_free(engine->client.pool);
    free(engine);
}

/* --- messages --- */

UNUSED static struct kn_message message_of_text(const char *key, const char *value)
{
    struct kn_message message = {.partition = -1, .timestamp_ms = 1700000000000};
    message.key = (const uint8_t *)key;
    message.key_bytes = key ? (int32_t)strlen(key) : -1;
    message.value = (const uint8_t *)value;
    message.value_bytes = value ? (int32_t)strlen(value) : -1;
    return message;
}

/* Calls `each` for each record of a batch, in order. Returns how many there are. */
UNUSED static int32_t each_record(const struct kn_batch *batch,
                                  void (*each)(const struct kn_record *record, void *context),
                                  void *context)
{
    struct kn_batch_view view;
    struct kn_record_reader reader;
    struct kn_record record;
    int32_t count = 0;
    CHECK_EQ(kn_batch_view_plain(batch, &view), KN_OK);
    CHECK_EQ(kn_record_reader_init(&reader, &view), KN_OK);
    int status;
    while ((status = kn_record_reader_next(&reader, &record)) == KN_OK) {
        if (each) each(&record, context);
        count++;
    }
    CHECK_EQ(status, KN_ERR_TRUNCATED);
    CHECK_EQ(count, batch->writer.record_count);
    return count;
}

struct text_join {
    char text[1 << 16];
    size_t size;
};

UNUSED static void join_value(const struct kn_record *record, void *context)
{
    struct text_join *join = context;
    CHECK(join->size + (size_t)record->value_bytes + 2 < sizeof join->text);
    if (join->size) join->text[join->size++] = ' ';
    memcpy(join->text + join->size, record->value, (size_t)record->value_bytes);
    join->size += (size_t)record->value_bytes;
    join->text[join->size] = 0;
}

/* Returns the values of a batch, separated by spaces; valid until the next call. */
UNUSED static const char *values_of(const struct kn_batch *batch)
{
    static struct text_join join;
    join.size = 0;
    join.text[0] = 0;
    each_record(batch, join_value, &join);
    return join.text;
}

#endif
