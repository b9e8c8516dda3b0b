/* A broker that the test drives step by step with its own clock, and the broker's peer. */
#ifndef KN_TESTS_ENGINE_BENCH_H
#define KN_TESTS_ENGINE_BENCH_H

#include "engine_check.h"
#include "engine/engine.h"

#define MS INT64_C(1000)

struct bench {
    struct kn_engine *engine;
    struct kn_broker_thread *broker;
    int listener, peer;
    uint16_t port;
};

__attribute__((unused)) static struct bench bench_new(
    void (*configure)(struct kn_engine_config *config))
{
    struct bench bench = {.peer = -1};
    struct kn_engine_config config;
    kn_engine_config_init(&config);
    if (configure) configure(&config);
    bench.engine = kn_engine_new(&config, NULL);
    CHECK(bench.engine);
    bench.listener = peer_listen(&bench.port, 8);
    /* A broker thread of the engine's table; the test's thread takes its place. */
    bench.broker = kn_broker_thread_new(&bench.engine->client, &bench.engine->producer,
                                        &bench.engine->consumer, 0, 1, "127.0.0.1", bench.port);
    CHECK(bench.broker);
    bench.engine->brokers = malloc(8 * sizeof *bench.engine->brokers);
    bench.engine->broker_capacity = 8;
    bench.engine->brokers[bench.engine->broker_count++] = bench.broker;
    return bench;
}

__attribute__((unused)) static void bench_free(struct bench *bench)
{
    kn_engine_stop(bench->engine);
    CHECK_EQ(atomic_load(&bench->broker->broker.state), KN_BROKER_STOPPED);
    kn_engine_free(bench->engine);
    if (bench->peer >= 0) close(bench->peer);
    if (bench->listener >= 0) close(bench->listener);
    CHECK_EQ(kn_engine_live(), 0);
    CHECK_EQ(kn_broker_thread_live(), 0);
    CHECK_EQ(kn_event_live(), 0);
    CHECK_EQ(kn_chunk_live(), 0);
    CHECK_EQ(kn_batch_live(), 0);
    CHECK_EQ(kn_control_request_live(), 0);
    CHECK_EQ(kn_heartbeat_live(), 0);
    CHECK_EQ(kn_cursor_live(), 0);
    CHECK_EQ(kn_segment_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

/* Does what the broker thread does around step(), but with the test's clock. */
__attribute__((unused)) static int64_t turn(struct bench *bench, int timeout_ms, int64_t now_us)
{
    struct pollfd fd;
    fd.fd = kn_connection_poll_fd(bench->broker->broker.connection, &fd.events);
    fd.revents = 0;
    poll(&fd, 1, fd.fd < 0 ? 0 : timeout_ms);
    return kn_broker_thread_step(bench->broker, fd.revents, now_us);
}

__attribute__((unused)) static enum kn_broker_state state(struct bench *bench)
{
    return (enum kn_broker_state)atomic_load(&bench->broker->broker.state);
}

/* Returns the next event, except WORKING events; NULL: there is none. */
__attribute__((unused)) static struct kn_event *next_event(struct bench *bench)
{
    struct kn_list *node;
    while ((node = kn_queue_pop(&bench->engine->client.control->events))) {
        struct kn_event *event = KN_LIST_ENTRY(node, struct kn_event, node);
        if (event->kind != KN_EVENT_WORKING) return event;
        kn_event_free(event);
    }
    return NULL;
}

/* Returns the next event, which must be of this kind. */
__attribute__((unused)) static struct kn_event *event(struct bench *bench, enum kn_event_kind kind)
{
    struct kn_event *event = next_event(bench);
    CHECK(event != NULL);
    CHECK_EQ(event->kind, kind);
    CHECK_EQ(event->broker, 0);
    return event;
}

__attribute__((unused)) static void no_event(struct bench *bench)
{
    CHECK(next_event(bench) == NULL);
}

/* Connects (there must be demand) and returns the generation of the CONNECTED event. */
__attribute__((unused)) static int32_t connect_now(struct bench *bench, int64_t now_us)
{
    for (int i = 0; i < 100 && state(bench) != KN_BROKER_HANDSHAKE; i++) turn(bench, 100, now_us);
    CHECK_EQ(state(bench), KN_BROKER_HANDSHAKE);
    if (bench->peer >= 0) close(bench->peer);
    bench->peer = peer_accept(bench->listener);
    struct kn_event *got = event(bench, KN_EVENT_CONNECTED);
    int32_t generation = got->generation;
    CHECK_TEXT(got->text, "127.0.0.1");
    kn_event_free(got);
    return generation;
}

__attribute__((unused)) static int32_t open_now(struct bench *bench, int64_t now_us)
{
    int32_t generation = connect_now(bench, now_us);
    CHECK_EQ(kn_engine_broker_open(bench->engine, 0, generation, 9, 12), KN_OK);
    turn(bench, 0, now_us);
    CHECK_EQ(state(bench), KN_BROKER_UP);
    return generation;
}

#endif
