/* A broker that the test drives step by step with its own clock: states, generations, backoff,
 * deadlines, the end. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine_bench.h"

static void submit(struct bench *bench, int32_t generation, uint8_t flags, uint64_t token,
                   int32_t timeout_ms)
{
    CHECK_EQ(kn_engine_submit(bench->engine, 0, generation, 18, 0, 0, 0, flags,
                              (const uint8_t *)"BODY", 4, token, timeout_ms),
             KN_OK);
}

/* Checks for one REPLY with this token and status. */
static void reply(struct bench *bench, uint64_t token, int status)
{
    struct kn_event *got = event(bench, KN_EVENT_REPLY);
    CHECK_EQ(got->token, token);
    CHECK_EQ(got->status, status);
    CHECK_EQ(got->api_key, 18);
    CHECK(status == KN_OK || got->text[0]);
    kn_event_free(got);
}

/* Reads a request at the peer and answers it. */
static void serve(struct bench *bench, const char *body)
{
    size_t size;
    int32_t correlation_id;
    uint8_t *frame = peer_read_request(bench->peer, &size, &correlation_id);
    CHECK(memcmp(frame + size - 4, "BODY", 4) == 0);
    free(frame);
    peer_reply(bench->peer, correlation_id, body, strlen(body));
}

static void test_nothing_connects_without_demand(void)
{
    struct bench bench = bench_new(NULL);
    CHECK_EQ(turn(&bench, 0, 1), KN_NEVER);
    CHECK_EQ(turn(&bench, 0, 1000000 * MS), KN_NEVER);
    CHECK_EQ(state(&bench), KN_BROKER_INIT);
    no_event(&bench);
    bench_free(&bench);
}

static void test_requests_wait_for_open_and_then_go_out_in_order(void)
{
    struct bench bench = bench_new(NULL);
    submit(&bench, 0, 0, 100, 60000);
    submit(&bench, 0, 0, 101, 60000);
    int32_t generation = connect_now(&bench, 1);
    CHECK_EQ(generation, 1);
    submit(&bench, generation, KN_REQUEST_HANDSHAKE, 200, 60000);
    turn(&bench, 0, 1);
    /* only the handshake's request */
    CHECK_EQ(kn_connection_in_flight(bench.broker->broker.connection), 1);
    serve(&bench, "versions");
    turn(&bench, 1000, 1);
    struct kn_event *got = event(&bench, KN_EVENT_REPLY);
    CHECK_EQ(got->token, 200);
    CHECK_EQ(got->body_bytes, 8);
    CHECK(memcmp(got->body, "versions", 8) == 0);
    kn_event_free(got);

    CHECK_EQ(kn_engine_broker_open(bench.engine, 0, generation, 9, 12), KN_OK);
    turn(&bench, 0, 1);
    CHECK_EQ(state(&bench), KN_BROKER_UP);
    CHECK_EQ(bench.broker->sender.produce_version, 9);
    CHECK_EQ(bench.broker->fetcher.fetch_version, 12);
    serve(&bench, "a");
    serve(&bench, "b");
    for (int i = 0; i < 10 && kn_queue_count(&bench.engine->client.control->events) < 3; i++)
        turn(&bench, 1000, 1);
    reply(&bench, 100, KN_OK);
    reply(&bench, 101, KN_OK);
    CHECK_EQ(kn_connection_stats(bench.broker->broker.connection)->tx, 3);
    CHECK_EQ(kn_connection_stats(bench.broker->broker.connection)->rx, 3);
    CHECK_EQ(turn(&bench, 0, 1), KN_NEVER); /* idle: no reason to wake up */
    bench_free(&bench);
}

static void test_only_the_current_generation_may_open_close_or_shake_hands(void)
{
    struct bench bench = bench_new(NULL);
    submit(&bench, 0, 0, 1, 60000);
    int32_t generation = connect_now(&bench, 1);
    submit(&bench, generation + 1, KN_REQUEST_HANDSHAKE, 2, 60000);
    CHECK_EQ(kn_engine_broker_open(bench.engine, 0, generation + 1, 9, 12), KN_OK);
    CHECK_EQ(kn_engine_broker_close(bench.engine, 0, generation + 1, KN_ERR_PROTOCOL), KN_OK);
    turn(&bench, 0, 1);
    CHECK_EQ(state(&bench), KN_BROKER_HANDSHAKE);
    reply(&bench, 2, KN_ERR_STALE);
    submit(&bench, generation, 0, 3, 60000); /* for this connection only */
    CHECK_EQ(kn_engine_broker_close(bench.engine, 0, generation, KN_ERR_PROTOCOL), KN_OK);
    turn(&bench, 0, 1);
    CHECK_EQ(state(&bench), KN_BROKER_DOWN);
    reply(&bench, 3, KN_ERR_PROTOCOL); /* the one without a generation still waits */
    struct kn_event *got = event(&bench, KN_EVENT_DISCONNECTED);
    CHECK_EQ(got->generation, generation);
    CHECK_EQ(got->status, KN_ERR_PROTOCOL);
    CHECK_EQ(got->attempts, 1);
    kn_event_free(got);
    submit(&bench, 0, KN_REQUEST_HANDSHAKE, 4, 60000);
    turn(&bench, 0, 1);
    reply(&bench, 4, KN_ERR_TRANSPORT); /* no connection to shake hands on */
    CHECK_EQ(connect_now(&bench, 60000 * MS - 1), generation + 1);
    bench_free(&bench);
}

static void test_a_held_connection_sends_only_the_handshake_until_it_is_open_again(void)
{
    struct bench bench = bench_new(NULL);
    submit(&bench, 0, 0, 1, 60000);
    int32_t generation = connect_now(&bench, 1);
    CHECK_EQ(kn_engine_broker_open(bench.engine, 0, generation, 9, 12), KN_OK);
    turn(&bench, 0, 1);
    /* for a connection that is gone: ignored */
    CHECK_EQ(kn_engine_broker_hold(bench.engine, 0, generation + 1), KN_OK);
    turn(&bench, 0, 1);
    CHECK_EQ(state(&bench), KN_BROKER_UP);
    CHECK_EQ(kn_engine_broker_hold(bench.engine, 0, generation), KN_OK);
    submit(&bench, generation, 0, 2, 60000);
    submit(&bench, generation, KN_REQUEST_HANDSHAKE, 3, 60000);
    turn(&bench, 0, 1);
    CHECK_EQ(state(&bench), KN_BROKER_HANDSHAKE);
    CHECK_EQ(bench.broker->sender.produce_version, -1);
    CHECK_EQ(bench.broker->fetcher.fetch_version, -1);
    serve(&bench, "sent before"); /* its response comes first */
    serve(&bench, "handshake");
    for (int i = 0; i < 10 && kn_queue_count(&bench.engine->client.control->events) < 2; i++)
        turn(&bench, 1000, 1);
    reply(&bench, 1, KN_OK);
    reply(&bench, 3, KN_OK);
    CHECK_EQ(kn_connection_stats(bench.broker->broker.connection)->tx, 2);
    CHECK_EQ(kn_engine_broker_open(bench.engine, 0, generation, 9, 12), KN_OK);
    turn(&bench, 0, 1);
    CHECK_EQ(bench.broker->sender.produce_version, 9);
    serve(&bench, "held back");
    for (int i = 0; i < 10 && kn_queue_count(&bench.engine->client.control->events) < 1; i++)
        turn(&bench, 1000, 1);
    reply(&bench, 2, KN_OK);
    CHECK_EQ(kn_counted(&bench.broker->broker.disconnects), 0);

    CHECK_EQ(kn_engine_broker_hold(bench.engine, 0, generation), KN_OK);
    int64_t give_up_us = turn(&bench, 0, 1);
    CHECK_EQ(give_up_us, bench.broker->ready_by_us);
    turn(&bench, 0, give_up_us);
    /* if the broker isn't opened again, the connection is closed */
    CHECK_EQ(state(&bench), KN_BROKER_DOWN);
    bench_free(&bench);
}

static void test_requests_time_out_while_there_is_no_connection(void)
{
    struct bench bench = bench_new(NULL);
    close(bench.listener);
    bench.listener = -1;
    int64_t start_us = kn_clock_us(); /* submit() counts on the real clock */
    submit(&bench, 0, 0, 1, 50);
    submit(&bench, 0, 0, 2, 5000);
    turn(&bench, 0, start_us);
    for (int i = 0; i < 100 && state(&bench) != KN_BROKER_DOWN; i++) turn(&bench, 100, start_us);
    struct kn_event *got = event(&bench, KN_EVENT_DISCONNECTED);
    CHECK_EQ(got->status, KN_ERR_TRANSPORT);
    CHECK_EQ(got->attempts, 1);
    CHECK_TEXT(got->text, "Connection refused");
    kn_event_free(got);
    bench.broker->connect_at_us = KN_NEVER; /* no further attempt in this test */
    CHECK(turn(&bench, 0, start_us + 49 * MS) >= start_us + 50 * MS);
    no_event(&bench);
    turn(&bench, 0, start_us + 3000 * MS);
    struct kn_event *late = event(&bench, KN_EVENT_REPLY);
    CHECK_EQ(late->token, 1);
    CHECK_EQ(late->status, KN_ERR_TIMED_OUT);
    /* the event has the reason why there was no connection */
    CHECK_TEXT(late->text, "Connection refused");
    kn_event_free(late);
    no_event(&bench);
    kn_engine_stop(bench.engine);
    reply(&bench, 2, KN_ERR_CLOSED);
    bench_free(&bench);
}

static void test_back_off_doubles_up_to_its_maximum_within_the_jitter(void)
{
    struct bench bench = bench_new(NULL);
    int64_t now_us = 1, expected_us = 100 * MS;
    int64_t shortest = KN_NEVER, longest = 0;
    close(bench.listener);
    bench.listener = -1;
    submit(&bench, 0, 0, 1, -1);
    for (int failure = 1; failure <= 40; failure++) {
        int64_t next_us = 0;
        for (int i = 0; i < 100 && (i == 0 || state(&bench) == KN_BROKER_CONNECTING); i++)
            next_us = turn(&bench, 100, now_us);
        struct kn_event *got = event(&bench, KN_EVENT_DISCONNECTED);
        CHECK_EQ(got->attempts, failure);
        CHECK_EQ(got->generation, 0); /* never came up */
        kn_event_free(got);
        int64_t wait_us = bench.broker->connect_at_us - now_us;
        CHECK(next_us == bench.broker->connect_at_us); /* sleeps exactly until then */
        CHECK(wait_us >= expected_us * 79 / 100 && wait_us <= expected_us * 121 / 100);
        if (expected_us == 10000 * MS) {
            if (wait_us < shortest) shortest = wait_us;
            if (wait_us > longest) longest = wait_us;
        }
        turn(&bench, 0, bench.broker->connect_at_us - 1);
        CHECK_EQ(state(&bench), KN_BROKER_DOWN);
        now_us = bench.broker->connect_at_us;
        expected_us = expected_us * 2 < 10000 * MS ? expected_us * 2 : 10000 * MS;
    }
    CHECK(longest - shortest > 1000 * MS); /* there is jitter */
    bench_free(&bench);
}

/* A SASL listener answers ApiVersions of every client, and closes the connection at the next
 * request. */
static void test_a_connection_that_answers_its_handshake_alone_is_a_failure(void)
{
    struct bench bench = bench_new(NULL);
    int64_t now_us = 1;
    for (int failures = 1; failures <= 4; failures++) {
        submit(&bench, 0, 0, 1, -1);
        int32_t generation = connect_now(&bench, now_us);
        submit(&bench, generation, KN_REQUEST_HANDSHAKE, 2, -1);
        turn(&bench, 0, now_us);
        serve(&bench, "versions");
        turn(&bench, 1000, now_us);
        reply(&bench, 2, KN_OK);
        CHECK_EQ(kn_engine_broker_open(bench.engine, 0, generation, 9, 12), KN_OK);
        turn(&bench, 0, now_us);
        shutdown(bench.peer, SHUT_RDWR);
        turn(&bench, 1000, now_us);
        reply(&bench, 1, KN_ERR_TRANSPORT);
        struct kn_event *got = event(&bench, KN_EVENT_DISCONNECTED);
        CHECK_EQ(got->attempts, failures);
        kn_event_free(got);
        CHECK_EQ(kn_queue_count(&bench.engine->client.control->events), 0); /* no WORKING event */
        /* the back-off grows */
        CHECK(bench.broker->connect_at_us - now_us >= 80 * MS << (failures - 1));
        now_us = bench.broker->connect_at_us;
    }
    bench_free(&bench);
}

static void working(struct bench *bench, int32_t generation)
{
    struct kn_list *node = kn_queue_pop(&bench->engine->client.control->events);
    CHECK(node != NULL);
    struct kn_event *got = KN_LIST_ENTRY(node, struct kn_event, node);
    CHECK_EQ(got->kind, KN_EVENT_WORKING);
    CHECK_EQ(got->generation, generation);
    CHECK_EQ(bench->broker->failures, 0);
    kn_event_free(got);
}

static void test_a_connection_works_once_it_has_answered_or_has_lasted(void)
{
    struct bench bench = bench_new(NULL);
    bench.broker->failures = 7;
    submit(&bench, 0, 0, 1, -1);
    int32_t generation = open_now(&bench, 1);
    CHECK_EQ(bench.broker->failures, 7);
    serve(&bench, "");
    turn(&bench, 1000, 2);
    reply(&bench, 1, KN_OK);
    working(&bench, generation);
    submit(&bench, 0, 0, 2, -1);
    turn(&bench, 0, 2);
    serve(&bench, "");
    turn(&bench, 1000, 2);
    reply(&bench, 2, KN_OK);
    CHECK_EQ(kn_queue_count(&bench.engine->client.control->events),
             0); /* one event per connection */

    shutdown(bench.peer, SHUT_RDWR);
    turn(&bench, 1000, 3);
    kn_event_free(event(&bench, KN_EVENT_DISCONNECTED));
    bench.broker->failures = 7;
    CHECK_EQ(kn_engine_broker_connect(bench.engine, 0), KN_OK);
    generation = open_now(&bench, 60000 * MS);
    turn(&bench, 0, 60000 * MS + 9000 * MS);
    CHECK_EQ(kn_queue_count(&bench.engine->client.control->events), 0);
    turn(&bench, 0, 60000 * MS + 10000 * MS); /* a producer with acks=0 never gets a response */
    working(&bench, generation);
    bench_free(&bench);
}

static void test_backoff_starts_again_after_a_good_connection(void)
{
    struct bench bench = bench_new(NULL);
    bench.broker->failures = 7;
    submit(&bench, 0, 0, 1, -1);
    open_now(&bench, 1);
    serve(&bench, "");
    turn(&bench, 1000, 1);
    reply(&bench, 1, KN_OK);
    CHECK_EQ(bench.broker->failures, 0);
    submit(&bench, 0, 0, 1, -1);
    turn(&bench, 0, 1);
    shutdown(bench.peer, SHUT_RDWR);
    turn(&bench, 1000, 500 * MS);
    CHECK_EQ(state(&bench), KN_BROKER_DOWN);
    struct kn_event *got = event(&bench, KN_EVENT_REPLY);
    CHECK_EQ(got->status, KN_ERR_TRANSPORT);
    kn_event_free(got);
    got = event(&bench, KN_EVENT_DISCONNECTED);
    CHECK_EQ(got->attempts, 1);
    CHECK_EQ(got->status, KN_ERR_TRANSPORT);
    kn_event_free(got);
    /* The connection lasted longer than the backoff: new demand connects at once. */
    submit(&bench, 0, 0, 2, -1);
    connect_now(&bench, 500 * MS);
    bench_free(&bench);
}

static void test_a_peer_that_closes_an_idle_connection_is_no_failure(void)
{
    struct bench bench = bench_new(NULL);
    submit(&bench, 0, 0, 1, -1);
    open_now(&bench, 1);
    serve(&bench, "");
    turn(&bench, 1000, 1);
    reply(&bench, 1, KN_OK);
    close(bench.peer);
    bench.peer = -1;
    turn(&bench, 1000, 2);
    struct kn_event *got = event(&bench, KN_EVENT_DISCONNECTED);
    CHECK_EQ(got->attempts, 0);
    CHECK_TEXT(got->text, "idle");
    kn_event_free(got);
    CHECK_EQ(turn(&bench, 0, 1000000 * MS), KN_NEVER); /* and nothing reconnects without demand */
    CHECK_EQ(state(&bench), KN_BROKER_INIT);
    bench_free(&bench);
}

static void short_idle(struct kn_engine_config *config)
{
    config->client.connections_max_idle_ms = 1000;
}

static void test_an_unused_connection_is_closed_after_max_idle(void)
{
    struct bench bench = bench_new(short_idle);
    submit(&bench, 0, 0, 1, -1);
    open_now(&bench, 1);
    turn(&bench, 0, 5000 * MS); /* a request is in flight: not idle */
    CHECK_EQ(state(&bench), KN_BROKER_UP);
    serve(&bench, "");
    CHECK_EQ(turn(&bench, 1000, 6000 * MS), 7000 * MS); /* sleeps exactly until then */
    CHECK_EQ(turn(&bench, 0, 6999 * MS), 7000 * MS);
    CHECK_EQ(turn(&bench, 0, 7000 * MS), KN_NEVER);
    CHECK_EQ(state(&bench), KN_BROKER_INIT);
    reply(&bench, 1, KN_OK);
    struct kn_event *got = event(&bench, KN_EVENT_DISCONNECTED);
    CHECK_EQ(got->status, KN_OK);
    CHECK_EQ(got->attempts, 0);
    kn_event_free(got);
    bench_free(&bench);
}

static void test_a_handshake_without_end_is_given_up(void)
{
    struct bench bench = bench_new(NULL);
    submit(&bench, 0, 0, 1, -1);
    connect_now(&bench, 1);
    CHECK_EQ(turn(&bench, 0, 2), 30000 * MS + 1);
    turn(&bench, 0, 30000 * MS + 1);
    CHECK_EQ(state(&bench), KN_BROKER_DOWN);
    struct kn_event *got = event(&bench, KN_EVENT_DISCONNECTED);
    CHECK_EQ(got->status, KN_ERR_TIMED_OUT);
    CHECK_EQ(got->attempts, 1);
    kn_event_free(got);
    bench_free(&bench);
}

static void test_stop_fails_waiting_requests_and_refuses_new_ones(void)
{
    struct bench bench = bench_new(NULL);
    submit(&bench, 0, 0, 1, -1);
    int32_t generation = open_now(&bench, 1);
    submit(&bench, 0, 0, 2, -1);
    CHECK_EQ(kn_engine_broker_stop(bench.engine, 0), KN_OK);
    CHECK_EQ(turn(&bench, 0, 2), KN_NEVER);
    CHECK_EQ(state(&bench), KN_BROKER_STOPPED);
    reply(&bench, 1, KN_ERR_CLOSED);
    reply(&bench, 2, KN_ERR_CLOSED);
    struct kn_event *got = event(&bench, KN_EVENT_DISCONNECTED);
    CHECK_EQ(got->status, KN_ERR_CLOSED);
    CHECK_EQ(got->generation, generation);
    kn_event_free(got);
    submit(&bench, 0, 0, 3, -1);
    reply(&bench, 3, KN_ERR_CLOSED);
    CHECK_EQ(kn_engine_submit(bench.engine, 7, 0, 18, 0, 0, 0, 0, NULL, 0, 9, -1), KN_ERR_INVALID);
    bench_free(&bench);
}

static int descriptor_signalled(struct bench *bench)
{
    struct pollfd fd = {.fd = bench->broker->wake.read_fd, .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

static void test_a_notification_signals_only_a_thread_that_would_oversleep(void)
{
    struct bench bench = bench_new(NULL);
    struct kn_topic *topic = kn_producer_topic(&bench.engine->producer, "t", 1, 1);
    struct kn_accumulator accumulator;
    kn_accumulator_init(&accumulator, topic->producer, topic, topic->token, 0);
    /* awake: the thread will check the inbox by itself */
    kn_broker_notify(&bench.broker->broker, &accumulator, 5000);
    CHECK(!descriptor_signalled(&bench));
    turn(&bench, 0, 1);
    bench.broker->sleep_until_us = 5000; /* what the thread stores before poll(2) */
    kn_broker_notify(&bench.broker->broker, &accumulator, 6000);
    kn_broker_notify(&bench.broker->broker, &accumulator, 5000);
    CHECK(!descriptor_signalled(&bench));
    kn_broker_notify(&bench.broker->broker, &accumulator, 4999);
    CHECK(descriptor_signalled(&bench));
    CHECK_EQ(bench.broker->sleep_until_us, 0); /* the next one needs no signal */
    turn(&bench, 0, 2);
    kn_wake_clear(&bench.broker->wake);

    bench.broker->sleep_until_us = 5000;
    atomic_store(&bench.engine->producer.flushing, 1);
    kn_broker_notify(&bench.broker->broker, &accumulator, 9000); /* a flush doesn't linger */
    CHECK(descriptor_signalled(&bench));
    atomic_store(&bench.engine->producer.flushing, 0);
    turn(&bench, 0, 3);
    kn_accumulator_deinit(&accumulator);
    bench_free(&bench);
}

static void test_a_produced_record_reaches_the_wire_after_linger_and_is_settled(void)
{
    struct bench bench = bench_new(NULL);
    struct kn_topic *topic = kn_producer_topic(&bench.engine->producer, "t", 1, 1);
    struct kn_broker *leaders[1] = {&bench.broker->broker};
    int32_t epochs[1] = {0};
    CHECK_EQ(kn_topic_set_partitions(topic, NULL, 1, leaders, epochs), KN_OK);
    struct kn_message message = {
        .value = (const uint8_t *)"hello", .value_bytes = 5, .partition = 0};
    int64_t before_us = kn_clock_us();
    CHECK_EQ(kn_topic_produce(topic, &message), KN_OK);
    int64_t after_us = kn_clock_us();
    CHECK_EQ(kn_engine_outstanding(bench.engine), 1);
    int32_t generation = connect_now(&bench, kn_clock_us());
    CHECK_EQ(kn_engine_broker_open(bench.engine, 0, generation, 3, -1), KN_OK);
    for (int i = 0; i < 100 && !bench.broker->broker.in_flight; i++) {
        int64_t next_us = turn(&bench, 0, kn_clock_us());
        if (bench.broker->broker.in_flight) break;
        CHECK(next_us <= after_us + 6 * MS); /* the thread wakes up for it by itself */
        int64_t wait_us = next_us - kn_clock_us();
        if (wait_us > 0) usleep((useconds_t)wait_us);
    }
    CHECK(kn_clock_us() - before_us >= 4 * MS); /* linger.ms is 5 */
    size_t size;
    int32_t correlation_id;
    uint8_t *frame = peer_read_request(bench.peer, &size, &correlation_id);
    CHECK_EQ(frame[1], 0); /* Produce v3 */
    CHECK_EQ(frame[3], 3);
    CHECK(memmem(frame, size, "hello", 5) != NULL);
    free(frame);
    static const uint8_t body[] = {0,   0,   0,   1,   0,   1,   't', 0, 0, 0, 1, 0,  0,
                                   0,   0,   0,   0,   0,   0,   0,   0, 0, 0, 0, 42, 255,
                                   255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0};
    peer_reply(bench.peer, correlation_id, body, sizeof body);
    for (int i = 0; i < 10 && kn_engine_outstanding(bench.engine); i++)
        turn(&bench, 1000, kn_clock_us());
    CHECK_EQ(kn_engine_outstanding(bench.engine), 0);
    CHECK_EQ(kn_queue_count(&bench.engine->deliveries), 0); /* no report was requested */
    CHECK_EQ(kn_batch_live(), 0);
    bench_free(&bench);
}

int main(void)
{
    RUN(test_nothing_connects_without_demand);
    RUN(test_requests_wait_for_open_and_then_go_out_in_order);
    RUN(test_only_the_current_generation_may_open_close_or_shake_hands);
    RUN(test_a_held_connection_sends_only_the_handshake_until_it_is_open_again);
    RUN(test_requests_time_out_while_there_is_no_connection);
    RUN(test_back_off_doubles_up_to_its_maximum_within_the_jitter);
    RUN(test_a_connection_that_answers_its_handshake_alone_is_a_failure);
    RUN(test_a_connection_works_once_it_has_answered_or_has_lasted);
    RUN(test_backoff_starts_again_after_a_good_connection);
    RUN(test_a_peer_that_closes_an_idle_connection_is_no_failure);
    RUN(test_an_unused_connection_is_closed_after_max_idle);
    RUN(test_a_handshake_without_end_is_given_up);
    RUN(test_stop_fails_waiting_requests_and_refuses_new_ones);
    RUN(test_a_notification_signals_only_a_thread_that_would_oversleep);
    RUN(test_a_produced_record_reaches_the_wire_after_linger_and_is_settled);
    return check_done();
}
