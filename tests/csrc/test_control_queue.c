/* Engines that share a control queue: whose event it is, and which of them ends first. */
#include "engine_bench.h"

#include "net/log.h"

static void debug_broker(struct kn_engine_config *config)
{
    config->client.log_contexts = 1u << KN_LOG_BROKER;
}

static struct kn_engine *sharing_engine(struct kn_engine *host)
{
    struct kn_engine_config config = host->config;
    config.client.connection.tls = NULL;
    struct kn_engine *engine = kn_engine_new(&config, host->client.control);
    CHECK(engine);
    return engine;
}

static void engine_end(struct kn_engine *engine)
{
    kn_engine_stop(engine);
    kn_engine_free(engine);
}

static struct kn_event *popped_event(struct kn_engine *engine)
{
    struct kn_list *node = kn_queue_pop(&engine->client.control->events);
    CHECK(node);
    return KN_LIST_ENTRY(node, struct kn_event, node);
}

static void test_events_have_the_number_of_their_engine(void)
{
    struct bench bench = bench_new(debug_broker);
    struct kn_engine *host = bench.engine, *first = sharing_engine(host),
                     *second = sharing_engine(host);
    CHECK(first->client.number != host->client.number);
    CHECK(first->client.number != second->client.number);
    CHECK(first->client.control == host->client.control);
    kn_log_write(&second->client.log, KN_LOG_BROKER, 0, -1, "line");
    kn_client_post_event(&first->client,
                         kn_event_new(&first->client.control->spare_events, KN_EVENT_WORKING, 3));
    struct kn_event *line = popped_event(host), *working = popped_event(host);
    CHECK_EQ(line->engine, second->client.number);
    CHECK_EQ(working->engine, first->client.number);
    CHECK_EQ(working->broker, 3);
    kn_event_free(line);
    kn_event_free(working);
    kn_log_line_taken(&host->client.log);
    engine_end(first);
    engine_end(second);
    bench_free(&bench);
}

static void test_an_event_outlives_its_engine(void)
{
    long live = kn_event_live();
    struct bench bench = bench_new(NULL);
    struct kn_engine *role = sharing_engine(bench.engine);
    int32_t number = role->client.number;
    kn_client_post_event(&role->client,
                         kn_event_new(&role->client.control->spare_events, KN_EVENT_WORKING, 0));
    engine_end(role);
    struct kn_event *left = popped_event(bench.engine);
    CHECK_EQ(left->engine, number);
    kn_event_free(left);
    struct kn_engine *next = sharing_engine(bench.engine);
    CHECK(next->client.number != number); /* a late event isn't taken for another engine's */
    engine_end(next);
    bench_free(&bench);
    CHECK_EQ(kn_event_live(), live);
}

static void test_the_last_engine_frees_the_queue(void)
{
    long live = kn_event_live();
    struct kn_engine_config config;
    kn_engine_config_init(&config);
    struct kn_engine *host = kn_engine_new(&config, NULL), *role = sharing_engine(host);
    kn_client_post_event(&host->client, kn_event_new(NULL, KN_EVENT_WORKING, 0));
    engine_end(host);
    CHECK_EQ(kn_queue_count(&role->client.control->events), 1);
    kn_queue_kick(&role->client.control->events);
    engine_end(role);
    CHECK_EQ(kn_event_live(), live);
}

int main(void)
{
    RUN(test_events_have_the_number_of_their_engine);
    RUN(test_an_event_outlives_its_engine);
    RUN(test_the_last_engine_frees_the_queue);
    return check_done();
}
