/* Heartbeats of a broker thread: when they are sent, which responses are reported, and how they
 * end. The test drives the broker, except in the last test. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine_bench.h"
#include "engine_server.h"

#define HEARTBEAT 12
#define START (1000 * MS)

static struct kn_heartbeat_plan plan(uint64_t token, int32_t interval_ms)
{
    return (struct kn_heartbeat_plan){.api_key = HEARTBEAT,
                                      .api_version = 3,
                                      .body = (const uint8_t *)"BEAT",
                                      .body_bytes = 4,
                                      .token = token,
                                      .interval_ms = interval_ms,
                                      .timeout_ms = 5000};
}

static void heartbeat(struct bench *bench, int32_t generation, uint64_t token, int32_t interval_ms)
{
    struct kn_heartbeat_plan made = plan(token, interval_ms);
    CHECK_EQ(kn_engine_heartbeat(bench->engine, 0, generation, &made), KN_OK);
}

/* Connects and opens the broker at START. Returns the generation. */
static int32_t open_at_start(struct bench *bench)
{
    CHECK_EQ(kn_engine_broker_connect(bench->engine, 0), KN_OK);
    return open_now(bench, START);
}

/* The peer reads one heartbeat. Returns its correlation id. */
static int32_t received(struct bench *bench)
{
    size_t size;
    int32_t correlation_id;
    uint8_t *frame = peer_read_request(bench->peer, &size, &correlation_id);
    CHECK_EQ(frame[1], HEARTBEAT);
    CHECK_EQ(frame[3], 3);
    CHECK_MEM(frame + size - 4, "BEAT", 4);
    free(frame);
    return correlation_id;
}

static int nothing_received(struct bench *bench)
{
    struct pollfd fd = {.fd = bench->peer, .events = POLLIN};
    return poll(&fd, 1, 0) == 0;
}

/* The response to `correlation_id` arrives at now_us. */
static void answer(struct bench *bench, int32_t correlation_id, const char *body, int64_t now_us)
{
    int64_t rx = kn_connection_stats(bench->broker->broker.connection)->rx;
    peer_reply(bench->peer, correlation_id, body, strlen(body));
    for (int i = 0; i < 100 && kn_connection_stats(bench->broker->broker.connection)->rx == rx; i++)
        turn(bench, 100, now_us);
    CHECK_EQ(kn_connection_stats(bench->broker->broker.connection)->rx, rx + 1);
}

/* Checks that the next event is a REPLY of this heartbeat with this body. */
static void expect_reply(struct bench *bench, uint64_t token, int32_t generation, const char *body)
{
    struct kn_event *got = event(bench, KN_EVENT_REPLY);
    CHECK_EQ(got->status, KN_OK);
    CHECK_EQ(got->token, token);
    CHECK_EQ(got->generation, generation);
    CHECK_EQ(got->api_key, HEARTBEAT);
    CHECK_EQ(got->body_bytes, strlen(body));
    CHECK_MEM(got->body, body, got->body_bytes);
    kn_event_free(got);
}

static void expect_failure(struct bench *bench, uint64_t token, int status)
{
    struct kn_event *got = event(bench, KN_EVENT_REPLY);
    CHECK_EQ(got->status, status);
    CHECK_EQ(got->token, token);
    CHECK(got->text[0]);
    CHECK(got->body == NULL);
    kn_event_free(got);
}

static void expect_no_heartbeat(struct bench *bench)
{
    kn_event_free(event(bench, KN_EVENT_DISCONNECTED));
    CHECK(bench->broker->broker.heartbeat == NULL);
    no_event(bench);
}

static void test_the_first_one_goes_out_after_an_interval_and_the_next_after_another(void)
{
    struct bench bench = bench_new(NULL);
    int32_t generation = open_at_start(&bench);
    heartbeat(&bench, generation, 7, 3000);
    CHECK_EQ(turn(&bench, 0, START), START + 3000 * MS); /* sleeps exactly until then */
    CHECK_EQ(turn(&bench, 0, START + 3000 * MS - 1), START + 3000 * MS);
    CHECK(nothing_received(&bench));
    turn(&bench, 0, START + 3000 * MS);
    answer(&bench, received(&bench), "good", START + 3010 * MS);
    expect_reply(&bench, 7, generation, "good");
    CHECK_EQ(turn(&bench, 0, START + 3010 * MS), START + 6000 * MS);
    turn(&bench, 0, START + 6000 * MS);
    answer(&bench, received(&bench), "bad", START + 6010 * MS);
    expect_reply(&bench, 7, generation, "bad");
    no_event(&bench);
    bench_free(&bench);
}

static void test_a_response_with_the_same_bytes_is_not_reported_again(void)
{
    static const char *const bodies[] = {"good", "good", "good", "goof", "goof",
                                         "goo",  "good", "",     ""};
    static const int is_reported[] = {1, 0, 0, 1, 0, 1, 1, 1, 0};
    struct bench bench = bench_new(NULL);
    int32_t generation = open_at_start(&bench);
    int64_t now_us = START;
    heartbeat(&bench, generation, 7, 100);
    turn(&bench, 0, now_us);
    for (int i = 0; i < 9; i++) {
        now_us += 100 * MS;
        turn(&bench, 0, now_us);
        answer(&bench, received(&bench), bodies[i], now_us);
        if (is_reported[i]) expect_reply(&bench, 7, generation, bodies[i]);
        no_event(&bench);
    }
    bench_free(&bench);
}

static void test_no_second_one_while_one_is_unanswered(void)
{
    struct bench bench = bench_new(NULL);
    int32_t generation = open_at_start(&bench);
    heartbeat(&bench, generation, 7, 100);
    turn(&bench, 0, START);
    turn(&bench, 0, START + 100 * MS);
    int32_t first = received(&bench);
    /* its deadline */
    for (int i = 2; i < 40; i++) CHECK_EQ(turn(&bench, 0, START + i * 100 * MS), START + 5100 * MS);
    CHECK(nothing_received(&bench));
    answer(&bench, first, "late", START + 4000 * MS);
    expect_reply(&bench, 7, generation, "late");
    turn(&bench, 0, START + 4000 * MS); /* overdue: sent at once */
    answer(&bench, received(&bench), "late", START + 4010 * MS);
    CHECK_EQ(turn(&bench, 0, START + 4010 * MS), START + 4100 * MS);
    no_event(&bench);
    bench_free(&bench);
}

static void test_a_later_heartbeat_replaces_the_earlier_one(void)
{
    struct bench bench = bench_new(NULL);
    int32_t generation = open_at_start(&bench);
    heartbeat(&bench, generation, 7, 100);
    turn(&bench, 0, START);
    turn(&bench, 0, START + 100 * MS);
    int32_t first = received(&bench);
    heartbeat(&bench, generation, 8, 1000);
    CHECK_EQ(turn(&bench, 0, START + 150 * MS), START + 1150 * MS);
    CHECK_EQ(kn_heartbeat_live(), 2);
    answer(&bench, first, "good", START + 200 * MS);
    CHECK_EQ(kn_heartbeat_live(), 1);
    expect_reply(&bench, 7, generation, "good");
    turn(&bench, 0, START + 1150 * MS);
    answer(&bench, received(&bench), "good", START + 1160 * MS);
    /* its first outcome is reported, although the other heartbeat's was the same */
    expect_reply(&bench, 8, generation, "good");
    heartbeat(&bench, generation, 9, 1000); /* with nothing in flight */
    turn(&bench, 0, START + 1200 * MS);
    CHECK_EQ(kn_heartbeat_live(), 1);
    turn(&bench, 0, START + 2200 * MS);
    answer(&bench, received(&bench), "good", START + 2210 * MS);
    expect_reply(&bench, 9, generation, "good");
    no_event(&bench);
    bench_free(&bench);
}

static void test_two_heartbeats_in_flight_keep_their_own_tokens(void)
{
    struct bench bench = bench_new(NULL);
    int32_t generation = open_at_start(&bench);
    heartbeat(&bench, generation, 7, 100);
    turn(&bench, 0, START);
    turn(&bench, 0, START + 100 * MS);
    int32_t first = received(&bench);
    heartbeat(&bench, generation, 8, 100);
    turn(&bench, 0, START + 110 * MS);
    turn(&bench, 0, START + 210 * MS);
    int32_t second = received(&bench);
    answer(&bench, first, "one", START + 220 * MS);
    answer(&bench, second, "two", START + 220 * MS);
    expect_reply(&bench, 7, generation, "one");
    expect_reply(&bench, 8, generation, "two");
    no_event(&bench);
    bench_free(&bench);
}

static void test_stop_ends_it_and_the_one_in_flight_is_still_reported(void)
{
    struct bench bench = bench_new(NULL);
    int32_t generation = open_at_start(&bench);
    heartbeat(&bench, generation, 7, 100);
    turn(&bench, 0, START);
    turn(&bench, 0, START + 100 * MS);
    int32_t first = received(&bench);
    CHECK_EQ(kn_engine_stop_heartbeat(bench.engine, 0), KN_OK);
    turn(&bench, 0, START + 110 * MS);
    answer(&bench, first, "good", START + 120 * MS);
    expect_reply(&bench, 7, generation, "good");
    CHECK_EQ(turn(&bench, 0, START + 9000 * MS), KN_NEVER);
    CHECK(nothing_received(&bench));
    CHECK_EQ(kn_heartbeat_live(), 0);
    CHECK_EQ(kn_engine_stop_heartbeat(bench.engine, 0), KN_OK); /* nothing to stop */
    heartbeat(&bench, generation, 8, 100);
    CHECK_EQ(kn_engine_stop_heartbeat(bench.engine, 0), KN_OK);
    CHECK_EQ(turn(&bench, 0, START + 9000 * MS), KN_NEVER);
    CHECK_EQ(kn_heartbeat_live(), 0);
    no_event(&bench);
    bench_free(&bench);
}

static void test_it_is_bound_to_its_connection(void)
{
    struct bench bench = bench_new(NULL);
    heartbeat(&bench, 1, 5, 100); /* nothing is connected */
    turn(&bench, 0, START);
    expect_failure(&bench, 5, KN_ERR_STALE);
    int32_t generation = open_at_start(&bench);
    heartbeat(&bench, generation + 1, 6, 100);
    turn(&bench, 0, START);
    expect_failure(&bench, 6, KN_ERR_STALE);
    heartbeat(&bench, generation, 7, 100);
    turn(&bench, 0, START);
    shutdown(bench.peer, SHUT_RDWR);
    for (int i = 0; i < 100 && state(&bench) == KN_BROKER_UP; i++) turn(&bench, 100, START + 1);
    expect_failure(&bench, 7, KN_ERR_TRANSPORT); /* although nothing was in flight */
    expect_no_heartbeat(&bench);
    CHECK_EQ(kn_engine_broker_connect(bench.engine, 0), KN_OK);
    CHECK_EQ(open_now(&bench, START + 60000 * MS), generation + 1);
    /* the heartbeat doesn't go on with the new connection */
    CHECK_EQ(turn(&bench, 0, START + 70000 * MS), KN_NEVER);
    CHECK(nothing_received(&bench));
    bench_free(&bench);
}

static void test_a_connection_that_breaks_fails_the_one_in_flight_once(void)
{
    struct bench bench = bench_new(NULL);
    int32_t generation = open_at_start(&bench);
    heartbeat(&bench, generation, 7, 100);
    turn(&bench, 0, START);
    turn(&bench, 0, START + 100 * MS);
    received(&bench);
    heartbeat(&bench, generation, 8, 100);
    turn(&bench, 0, START + 110 * MS);
    shutdown(bench.peer, SHUT_RDWR);
    for (int i = 0; i < 100 && state(&bench) == KN_BROKER_UP; i++)
        turn(&bench, 100, START + 111 * MS);
    expect_failure(&bench, 7, KN_ERR_TRANSPORT);
    expect_failure(&bench, 8, KN_ERR_TRANSPORT);
    expect_no_heartbeat(&bench);
    CHECK_EQ(kn_heartbeat_live(), 0);
    bench_free(&bench);
}

static void test_a_timeout_ends_the_heartbeat(void)
{
    struct bench bench = bench_new(NULL);
    int32_t generation = open_at_start(&bench);
    heartbeat(&bench, generation, 7, 100);
    turn(&bench, 0, START);
    turn(&bench, 0, START + 100 * MS);
    received(&bench);
    turn(&bench, 0, START + 5100 * MS - 1);
    no_event(&bench);
    turn(&bench, 0, START + 5100 * MS);
    expect_failure(&bench, 7, KN_ERR_TIMED_OUT);
    expect_no_heartbeat(&bench);
    bench_free(&bench);
}

static void test_stopping_the_broker_reports_every_heartbeat(void)
{
    struct bench bench = bench_new(NULL);
    int32_t generation = open_at_start(&bench);
    heartbeat(&bench, generation, 7, 100);
    turn(&bench, 0, START);
    CHECK_EQ(kn_engine_broker_stop(bench.engine, 0), KN_OK);
    turn(&bench, 0, START + 1);
    expect_failure(&bench, 7, KN_ERR_CLOSED);
    expect_no_heartbeat(&bench);
    heartbeat(&bench, generation, 8, 100); /* its inbox is closed */
    expect_failure(&bench, 8, KN_ERR_CLOSED);
    CHECK_EQ(kn_engine_stop_heartbeat(bench.engine, 0), KN_OK);
    no_event(&bench);
    bench_free(&bench);
}

static void test_nonsense_is_refused(void)
{
    struct bench bench = bench_new(NULL);
    struct kn_heartbeat_plan made = plan(1, 0);
    CHECK_EQ(kn_engine_heartbeat(bench.engine, 0, 1, &made), KN_ERR_INVALID);
    made = plan(1, 100);
    made.timeout_ms = 0;
    CHECK_EQ(kn_engine_heartbeat(bench.engine, 0, 1, &made), KN_ERR_INVALID);
    made = plan(1, 100);
    CHECK_EQ(kn_engine_heartbeat(bench.engine, 9, 1, &made), KN_ERR_INVALID);
    made.body_bytes = INT32_MAX;
    CHECK_EQ(kn_engine_heartbeat(bench.engine, 0, 1, &made), KN_ERR_TOO_LARGE);
    CHECK_EQ(kn_engine_stop_heartbeat(bench.engine, 9), KN_ERR_INVALID);
    bench_free(&bench);
}

static void short_idle(struct kn_engine_config *config)
{
    config->client.connections_max_idle_ms = 1000;
}

static void test_a_connection_with_a_heartbeat_is_not_idle(void)
{
    struct bench bench = bench_new(short_idle);
    int32_t generation = open_at_start(&bench);
    heartbeat(&bench, generation, 7, 5000);
    CHECK_EQ(turn(&bench, 0, START), START + 5000 * MS);
    turn(&bench, 0, START + 4000 * MS);
    CHECK_EQ(state(&bench), KN_BROKER_UP);
    CHECK_EQ(kn_engine_stop_heartbeat(bench.engine, 0), KN_OK);
    turn(&bench, 0, START + 4000 * MS);
    CHECK_EQ(state(&bench), KN_BROKER_INIT);
    expect_no_heartbeat(&bench);
    bench_free(&bench);
}

/* --- with threads --- */

static struct kn_event *wait_for(struct kn_engine *engine, enum kn_event_kind kind)
{
    int64_t until_us = kn_clock_us() + 30000000;
    while (kn_clock_us() < until_us) {
        struct kn_list *node = kn_queue_pop(&engine->client.control->events);
        struct kn_event *got = node ? KN_LIST_ENTRY(node, struct kn_event, node) : NULL;
        if (got && got->kind == kind) return got;
        kn_event_free(got);
        if (!got) kn_queue_wait(&engine->client.control->events, 100);
    }
    CHECK(!"the event came in time");
    return NULL;
}

static void test_a_heartbeat_goes_on_while_other_threads_sleep(void)
{
    struct kn_engine_config config;
    kn_engine_config_init(&config);
    struct kn_engine *engine = kn_engine_new(&config, NULL);
    struct server *server = server_start(0);
    CHECK_EQ(kn_engine_broker_add(engine, 0, "127.0.0.1", server->port), 0);
    CHECK_EQ(kn_engine_broker_connect(engine, 0), KN_OK);
    struct kn_event *got = wait_for(engine, KN_EVENT_CONNECTED);
    int32_t generation = got->generation;
    kn_event_free(got);
    CHECK_EQ(kn_engine_broker_open(engine, 0, generation, 3, 4), KN_OK);
    for (uint64_t token = 1; token <= 3; token++) { /* the last one stays */
        struct kn_heartbeat_plan made = plan(token, 2);
        CHECK_EQ(kn_engine_heartbeat(engine, 0, generation, &made), KN_OK);
    }
    int64_t until_us = kn_clock_us() + 30000000;
    while (atomic_load(&server->requests) < 50 && kn_clock_us() < until_us) usleep(1000);
    CHECK(atomic_load(&server->requests) >= 50);
    long reported_count = 0;
    struct kn_list *node;
    while ((node = kn_queue_pop(&engine->client.control->events))) {
        got = KN_LIST_ENTRY(node, struct kn_event, node);
        CHECK(got->kind == KN_EVENT_REPLY || got->kind == KN_EVENT_WORKING);
        reported_count += got->kind == KN_EVENT_REPLY && got->token == 3;
        kn_event_free(got);
    }
    CHECK_EQ(reported_count, 1); /* the server answers the same each time */
    atomic_store(&server->break_every, 1);
    got = wait_for(engine, KN_EVENT_REPLY);
    CHECK_EQ(got->token, 3);
    CHECK_EQ(got->status, KN_ERR_TRANSPORT);
    kn_event_free(got);
    kn_engine_stop(engine);
    kn_engine_free(engine);
    server_stop(server);
    CHECK_EQ(kn_heartbeat_live(), 0);
    CHECK_EQ(kn_event_live(), 0);
    CHECK_EQ(kn_chunk_live(), 0);
    CHECK_EQ(kn_engine_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

int main(void)
{
    RUN(test_the_first_one_goes_out_after_an_interval_and_the_next_after_another);
    RUN(test_a_response_with_the_same_bytes_is_not_reported_again);
    RUN(test_no_second_one_while_one_is_unanswered);
    RUN(test_a_later_heartbeat_replaces_the_earlier_one);
    RUN(test_two_heartbeats_in_flight_keep_their_own_tokens);
    RUN(test_stop_ends_it_and_the_one_in_flight_is_still_reported);
    RUN(test_it_is_bound_to_its_connection);
    RUN(test_a_connection_that_breaks_fails_the_one_in_flight_once);
    RUN(test_a_timeout_ends_the_heartbeat);
    RUN(test_stopping_the_broker_reports_every_heartbeat);
    RUN(test_nonsense_is_refused);
    RUN(test_a_connection_with_a_heartbeat_is_not_idle);
    RUN(test_a_heartbeat_goes_on_while_other_threads_sleep);
    return check_done();
}
