/* Each allocation of a whole conversation fails once: no crash, no leak, and every accepted message
 * is settled.
 *
 * The program has its own malloc, calloc and realloc (over glibc's), which fail the n-th call of
 * the thread that asked for it. The sanitizers have their own, too, so with them this program only
 * prints why it does nothing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine_server.h"
#include "engine/engine.h"

#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

int main(void)
{
    CHECK(1);
    puts("not run: the allocator can't be replaced under a sanitizer or without glibc");
    return check_done();
}

#else

extern void *__libc_malloc(size_t size_bytes);
extern void *__libc_calloc(size_t count, size_t size_bytes);
extern void *__libc_realloc(void *data, size_t size_bytes);

static _Thread_local int armed;
static _Thread_local long left; /* allocations until the one that fails */

static int fails(void) { return armed && left-- == 0; }
void *malloc(size_t size_bytes) { return fails() ? NULL : __libc_malloc(size_bytes); }
void *calloc(size_t count, size_t size_bytes)
{
    return fails() ? NULL : __libc_calloc(count, size_bytes);
}
void *realloc(void *data, size_t size_bytes)
{
    return fails() ? NULL : __libc_realloc(data, size_bytes);
}

#define BEAT_TOKEN 99

struct talk {
    struct kn_engine *engine;
    struct kn_broker_thread *broker;
    struct server *server;
    long accepted, reported;
    long submitted, replied, heartbeats;
};

static struct kn_engine *engine_for_test(void)
{
    struct kn_engine_config config;
    kn_engine_config_init(&config);
    config.produce.report_all = 1;
    config.produce.linger_us = 0;
    config.client.reconnect_backoff_ms = config.client.reconnect_backoff_max_ms = 1;
    config.produce.retry_backoff_ms = config.produce.retry_backoff_max_ms = 1;
    config.fetch.fetch_error_backoff_ms = 1;
    config.fetch.fetch_wait_max_ms = 1;
    return kn_engine_new(&config, NULL);
}

static void serve_queues(struct talk *talk)
{
    struct kn_list *node;
    while ((node = kn_queue_pop(&talk->engine->client.control->events))) {
        struct kn_event *event = KN_LIST_ENTRY(node, struct kn_event, node);
        /* from the reserve */
        if (event->kind == KN_EVENT_CONNECTED)
            CHECK_EQ(kn_engine_broker_open(talk->engine, 0, event->generation, 3, 4), KN_OK);
        if (event->kind == KN_EVENT_CONNECTED) {
            struct kn_heartbeat_plan heartbeat = {.api_key = 12,
                                                  .body = (const uint8_t *)"BEAT",
                                                  .body_bytes = 4,
                                                  .token = BEAT_TOKEN,
                                                  .interval_ms = 1,
                                                  .timeout_ms = 5000};
            /* without memory the end of a heartbeat isn't reported, but the end of its connection
             * is */
            kn_engine_heartbeat(talk->engine, 0, event->generation, &heartbeat);
        }
        if (event->kind == KN_EVENT_REPLY && event->token == BEAT_TOKEN) talk->heartbeats++;
        else if (event->kind == KN_EVENT_REPLY) talk->replied++;
        kn_event_free(event);
    }
    while ((node = kn_queue_pop(&talk->engine->deliveries))) {
        struct kn_batch *batch = KN_LIST_ENTRY(node, struct kn_batch, node);
        talk->reported += batch->writer.record_count;
        kn_engine_batch_reported(talk->engine, batch);
    }
    while ((node = kn_queue_pop(&talk->engine->fetched)))
        kn_segment_free(KN_LIST_ENTRY(node, struct kn_segment, node));
}

static void turn(struct talk *talk)
{
    struct pollfd fd;
    fd.fd = kn_connection_poll_fd(talk->broker->broker.connection, &fd.events);
    fd.revents = 0;
    poll(&fd, 1, 1);
    kn_broker_thread_step(talk->broker, fd.revents, kn_clock_us());
    serve_queues(talk);
}

/* Produces, sends requests and fetches. Leaves out the parts for which there is no memory. */
static struct kn_cursor *converse(struct talk *talk)
{
    static const uint8_t no_id[16] = {0};
    static const int32_t epochs[2] = {0, 0};
    struct kn_broker *leaders[2] = {&talk->broker->broker, &talk->broker->broker};
    struct kn_topic *topic = kn_producer_topic(&talk->engine->producer, "topic", 5, 1);
    for (uint32_t i = 0; topic && i < 12; i++) {
        uint8_t value[200] = {0};
        set_u32(value, i);
        struct kn_message message = {
            .value = value, .value_bytes = sizeof value, .partition = (int32_t)(i % 2)};
        /* The first few are staged. */
        if (i == 4 && kn_topic_set_partitions(topic, NULL, 2, leaders, epochs)) continue;
        if (kn_topic_produce(topic, &message) == KN_OK) talk->accepted++;
    }
    for (int i = 0; i < 3; i++) {
        if (kn_engine_submit(talk->engine, 0, 0, 18, 0, 0, 0, 0, (const uint8_t *)"BODY", 4, 1,
                             5000) == KN_OK)
            talk->submitted++;
    }
    struct kn_cursor *cursor = kn_cursor_new(&talk->engine->consumer, "topic", 5, no_id, 0, 7);
    if (cursor)
        CHECK_EQ(
            kn_engine_fetch_start(talk->engine, cursor, 0, kn_cursor_next_epoch(cursor), 0, -1),
            KN_OK);
    for (int i = 0; i < 12; i++) turn(talk);
    /* From here on there is memory: accepted messages must be settled. */
    armed = 0;
    if (topic) CHECK_EQ(kn_topic_set_partitions(topic, NULL, 2, leaders, epochs), KN_OK);
    int64_t until_us = kn_clock_us() + 10000000;
    while ((talk->reported < talk->accepted || talk->replied < talk->submitted) &&
           kn_clock_us() < until_us)
        turn(talk);
    CHECK_EQ(talk->reported, talk->accepted);
    CHECK_EQ(talk->replied, talk->submitted);
    return cursor;
}

/* Returns 0 once `nth` is beyond the last allocation. */
static int conversation(struct server *server, long nth)
{
    struct talk talk = {.server = server};
    struct kn_cursor *cursor = NULL;
    armed = 1;
    left = nth;
    talk.engine = engine_for_test();
    talk.broker = talk.engine ? kn_broker_thread_new(&talk.engine->client, &talk.engine->producer,
                                                     &talk.engine->consumer, 0, 0, "127.0.0.1",
                                                     server->port)
                              : NULL;
    if (talk.broker) {
        armed = 0;
        talk.engine->brokers = malloc(8 * sizeof *talk.engine->brokers);
        talk.engine->broker_capacity = 8;
        talk.engine->brokers[talk.engine->broker_count++] = talk.broker;
        armed = 1;
        cursor = converse(&talk);
    }
    armed = 0;
    if (talk.engine) {
        kn_engine_stop(talk.engine);
        serve_queues(&talk);
        if (cursor) kn_cursor_unref(cursor);
        kn_engine_free(talk.engine);
    }
    CHECK_EQ(kn_engine_live(), 0);
    CHECK_EQ(kn_broker_thread_live(), 0);
    CHECK_EQ(kn_event_live(), 0);
    CHECK_EQ(kn_control_request_live(), 0);
    CHECK_EQ(kn_heartbeat_live(), 0);
    CHECK_EQ(kn_batch_live(), 0);
    CHECK_EQ(kn_cursor_live(), 0);
    CHECK_EQ(kn_segment_live(), 0);
    CHECK_EQ(kn_chunk_live(), 0);
    return left < 0;
}

static void test_each_allocation_may_fail(void)
{
    struct server *server = server_start(100);
    long nth = 0;
    while (conversation(server, nth)) nth++;
    CHECK(nth > 30); /* there were allocations to fail */
    server_stop(server);
}

int main(void)
{
    RUN(test_each_allocation_may_fail);
    return check_done();
}

#endif
