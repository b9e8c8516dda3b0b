/* Log lines: which contexts write them, and that no thread waits for room. */
#include "engine_bench.h"

#include "net/log.h"

static void debug_broker(struct kn_engine_config *config)
{
    config->client.log_contexts = 1u << KN_LOG_BROKER;
}

static void test_a_disabled_context_logs_nothing(void)
{
    struct bench bench = bench_new(debug_broker);
    struct kn_log *log = &bench.engine->client.log;
    CHECK(kn_log_is_on(log, KN_LOG_BROKER));
    CHECK(!kn_log_is_on(log, KN_LOG_PROTOCOL));
    CHECK(!kn_log_is_on(NULL, KN_LOG_BROKER));
    bench_free(&bench);
    struct bench quiet = bench_new(NULL);
    for (int context = KN_LOG_GENERIC; context <= KN_LOG_TELEMETRY; context++)
        CHECK(!kn_log_is_on(&quiet.engine->client.log, (enum kn_log_context)context));
    bench_free(&quiet);
}

static void test_a_line_has_context_text_and_time(void)
{
    struct bench bench = bench_new(debug_broker);
    int64_t before_us = kn_clock_us();
    kn_log_write(&bench.engine->client.log, KN_LOG_BROKER, 0, 3, "%s %d", "number", 7);
    struct kn_event *got = event(&bench, KN_EVENT_LOG);
    CHECK_EQ(got->status, KN_LOG_BROKER);
    CHECK_EQ(got->api_key, 3);
    CHECK_TEXT(got->text, "number 7");
    CHECK((int64_t)got->token >= before_us && (int64_t)got->token <= kn_clock_us());
    kn_event_free(got);
    bench_free(&bench);
}

static void test_over_the_limit_lines_are_dropped_and_counted(void)
{
    struct bench bench = bench_new(debug_broker);
    struct kn_log *log = &bench.engine->client.log;
    long room = 0;
    for (int i = 0; i < 100000; i++) kn_log_write(log, KN_LOG_BROKER, 0, -1, "line %d", i);
    room = kn_queue_count(&bench.engine->client.control->events);
    CHECK(room > 100 && room < 10000);
    CHECK_EQ(kn_log_take_dropped(log), 100000 - room);
    CHECK_EQ(kn_log_take_dropped(log), 0);
    struct kn_event *first = event(&bench, KN_EVENT_LOG);
    CHECK_TEXT(first->text, "line 0"); /* the lines in the queue stay */
    kn_event_free(first);
    kn_log_line_taken(log);
    kn_log_write(log, KN_LOG_BROKER, 0, -1, "fits");
    kn_log_write(log, KN_LOG_BROKER, 0, -1, "doesn't");
    CHECK_EQ(kn_queue_count(&bench.engine->client.control->events), room);
    CHECK_EQ(kn_log_take_dropped(log), 1);
    bench_free(&bench);
}

static void test_a_long_line_is_cut(void)
{
    struct bench bench = bench_new(debug_broker);
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    kn_log_write(&bench.engine->client.log, KN_LOG_BROKER, 0, -1, "%s", text);
    struct kn_event *got = event(&bench, KN_EVENT_LOG);
    CHECK_EQ(strlen(got->text), sizeof got->text - 1);
    kn_event_free(got);
    bench_free(&bench);
}

int main(void)
{
    RUN(test_a_disabled_context_logs_nothing);
    RUN(test_a_line_has_context_text_and_time);
    RUN(test_over_the_limit_lines_are_dropped_and_counted);
    RUN(test_a_long_line_is_cut);
    return check_done();
}
