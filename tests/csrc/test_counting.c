/* Means: recorded only while they are wanted, by kind of request, and read without losing a
 * value. */
#include "engine_check.h"
#include "produce/batch_stats.h"
#include "net/counting.h"
#include "engine/engine.h"
#include "engine/stats.h"

#include <string.h>

#define PRODUCE 0
#define FETCH 1
#define HEARTBEAT 12

static struct kn_engine *engine_new(struct kn_broker **broker)
{
    struct kn_engine_config config;
    kn_engine_config_init(&config);
    struct kn_engine *engine = kn_engine_new(&config, NULL);
    CHECK(engine);
    int handle = kn_engine_broker_add(engine, 1, "127.0.0.1", 1);
    CHECK_EQ(handle, 0);
    *broker = kn_engine_broker(engine, handle);
    return engine;
}

static void engine_end(struct kn_engine *engine)
{
    kn_engine_stop(engine);
    kn_engine_free(engine);
}

static void check_mean(const struct kn_mean_snapshot *found, int64_t count, int64_t sum,
                       int64_t most)
{
    CHECK_EQ(found->count, count);
    CHECK_EQ(found->sum, sum);
    CHECK_EQ(found->max, most);
}

static void test_nothing_is_recorded_until_measuring_is_on(void)
{
    struct kn_broker *broker;
    struct kn_mean_snapshot found[KN_MEAN_KINDS];
    struct kn_engine *engine = engine_new(&broker);
    kn_count_response(NULL, &broker->means, PRODUCE, 100);
    kn_count_response(NULL, NULL, PRODUCE, 100);
    kn_stats_means(broker, found);
    for (int i = 0; i < KN_MEAN_KINDS; i++) check_mean(&found[i], 0, 0, 0);
    atomic_store(&engine->client.measuring, 1);
    kn_count_response(NULL, &broker->means, PRODUCE, 100);
    atomic_store(&engine->client.measuring, 0);
    kn_count_response(NULL, &broker->means, PRODUCE, 100);
    kn_stats_means(broker, found);
    check_mean(&found[KN_MEAN_PRODUCE], 1, 100, 100);
    engine_end(engine);
}

static void test_kinds_are_apart_and_the_greatest_is_of_the_time_since_it_was_read(void)
{
    struct kn_broker *broker;
    struct kn_mean_snapshot found[KN_MEAN_KINDS];
    struct kn_engine *engine = engine_new(&broker);
    atomic_store(&engine->client.measuring, 1);
    kn_count_response(NULL, &broker->means, PRODUCE, 5);
    kn_count_response(NULL, &broker->means, FETCH, 500);
    kn_count_response(NULL, &broker->means, FETCH, 300);
    kn_count_response(NULL, &broker->means, HEARTBEAT, 7);
    kn_stats_means(broker, found);
    check_mean(&found[KN_MEAN_QUEUED], 0, 0, 0);
    check_mean(&found[KN_MEAN_PRODUCE], 1, 5, 5);
    check_mean(&found[KN_MEAN_FETCH], 2, 800, 500);
    check_mean(&found[KN_MEAN_OTHER], 1, 7, 7);
    kn_count_response(NULL, &broker->means, FETCH, 20);
    kn_stats_means(broker, found);
    check_mean(&found[KN_MEAN_PRODUCE], 1, 5, 0);
    check_mean(&found[KN_MEAN_FETCH], 3, 820, 20);
    engine_end(engine);
}

static void test_a_batchs_age_is_taken_when_it_goes_out_the_first_time(void)
{
    struct kn_broker *broker;
    struct kn_mean_snapshot found[KN_MEAN_KINDS];
    struct kn_engine *engine = engine_new(&broker);
    struct kn_topic topic = {.windows = NULL};
    int64_t now_us = kn_clock_us();
    struct kn_batch old = {.topic = &topic, .created_us = now_us - 5000000},
                    unborn = {.topic = &topic, .created_us = now_us + 60000000};
    struct kn_batch unmeasured = {.topic = &topic, .created_us = now_us};
    struct kn_batch *batches[2] = {&old, &unborn}, *others[1] = {&unmeasured};
    kn_count_batches(NULL, &broker->means, others, 1);
    CHECK_EQ(unmeasured.counted, 0);
    atomic_store(&engine->client.measuring, 1);
    kn_count_batches(NULL, &broker->means, batches, 2);
    kn_count_batches(NULL, &broker->means, batches, 2); /* another try of the same batches */
    kn_stats_means(broker, found);
    CHECK_EQ(found[KN_MEAN_QUEUED].count, 2);
    CHECK(found[KN_MEAN_QUEUED].max >= 5000000 &&
          found[KN_MEAN_QUEUED].max <= 5000000 + kn_clock_us() - now_us);
    /* a clock that went back gives no negative age */
    CHECK_EQ(found[KN_MEAN_QUEUED].sum, found[KN_MEAN_QUEUED].max);
    engine_end(engine);
}

int main(void)
{
    RUN(test_nothing_is_recorded_until_measuring_is_on);
    RUN(test_kinds_are_apart_and_the_greatest_is_of_the_time_since_it_was_read);
    RUN(test_a_batchs_age_is_taken_when_it_goes_out_the_first_time);
    return check_done();
}
