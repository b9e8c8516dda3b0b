/* The sticky partition: how long messages stick to a partition, and which one is next. */
#include <time.h>
#include "produce/sticky.h"
#include "produce_fakes.h"

static struct kn_engine *engine;
static struct kn_topic *topic;
static struct kn_broker brokers[4];

/* brokers[i % 4] leads partition i. */
static void setup(int32_t partitions)
{
    struct kn_broker *leaders[256];
    engine = fake_engine();
    memset(brokers, 0, sizeof brokers);
    for (int i = 0; i < 4; i++) fake_broker_init(&brokers[i], engine);
    for (int32_t i = 0; i < partitions; i++) leaders[i] = &brokers[i % 4];
    topic = kn_topic_new(&engine->producer, "orders", 6, 77);
    CHECK(topic);
    CHECK_EQ(kn_topic_set_partitions(topic, NULL, partitions, leaders, NULL), KN_OK);
}

static void teardown(void)
{
    check_batches_of(topic);
    kn_topic_free(topic);
    fake_engine_free(engine);
}

static const struct kn_partition_table *table(void) { return atomic_load(&topic->table); }
static int32_t now_at(void)
{
    const struct kn_accumulator *sticky = atomic_load(&topic->sticky.accumulator);
    return sticky ? sticky->partition : -1;
}

/* timestamp_ms 0: produce() reads a clock. */
static void produce_at(int64_t timestamp_ms, const char *key, int32_t value_bytes)
{
    static const uint8_t value[4096];
    struct kn_message message = message_of_text(key, NULL);
    message.value = value;
    message.value_bytes = value_bytes;
    message.timestamp_ms = timestamp_ms;
    CHECK_EQ(kn_topic_produce(topic, &message), KN_OK);
}

static void sleep_ms(int ms)
{
    struct timespec time = {.tv_nsec = (long)ms * 1000000};
    nanosleep(&time, NULL);
}

static void take_all(int32_t partition)
{
    struct kn_accumulator *accumulator = table()->partitions[partition];
    struct kn_batch *batch;
    int64_t next_us;
    while ((batch = kn_topic_take(accumulator, &brokers[partition % 4], kn_clock_us() + 1000000,
                                  &next_us))) {
        kn_accumulator_settle(accumulator, batch);
    }
}

static void deliver_all(void)
{
    struct kn_batch *batch;
    for (int32_t i = 0; i < table()->count; i++) take_all(i);
    while ((batch = delivered_first())) kn_batch_free(batch);
}

/* --- how long --- */

static void test_a_stay_lasts_batch_size_bytes_and_ends_with_a_batch(void)
{
    setup(4);
    topic->sticky.linger_ms = 900000;
    engine->config.produce.batch_bytes = 20000;
    for (int32_t i = 0; i < 4; i++) table()->partitions[i]->batch_limit_bytes = 20000;
    int32_t stays = 0, bytes = 0;
    int64_t carried[4] = {0};
    int32_t seen[4] = {0};
    produce_at(1, NULL, 100);
    int32_t last = now_at();
    for (int i = 0; i < 40000; i++) {
        produce_at(1, NULL, 100);
        bytes += 100;
        if (now_at() == last) continue;
        if (++stays > 4) { /* the first times have no difference to make up */
            CHECK(bytes > 15000);
            /* a stay ends with a batch, some bytes early: in time they make half a batch */
            CHECK(bytes < 24000 || carried[last] < -9000);
        }
        CHECK(!table()->partitions[last]->open ||
              table()->partitions[last]->open->writer.record_count <= 1);
        carried[last] = table()->partitions[last]->stuck_bytes;
        seen[last]++;
        bytes = 0;
        last = now_at();
        if (stays % 50 == 0) deliver_all();
    }
    CHECK(stays > 180); /* 4 MB in pieces of 20 kB */
    for (int i = 0; i < 4; i++) CHECK(seen[i] > 20);
    teardown();
}

static void test_bytes_are_made_up_for_when_keyed_records_end_the_batches(void)
{
    setup(2);
    topic->sticky.linger_ms = 900000;
    topic->partitioner = KN_PARTITIONER_MURMUR2_RANDOM;
    for (int32_t i = 0; i < 2; i++) table()->partitions[i]->batch_limit_bytes = 20000;
    int64_t bytes[2] = {0};
    for (int i = 0; i < 100000; i++) {
        int32_t at = now_at();
        if (at >= 0) bytes[at] += 100;
        produce_at(1, NULL, 100);
        produce_at(1, "k", 300); /* all to one partition */
        if (i % 5000 == 0) deliver_all();
    }
    double share = (double)bytes[0] / (double)(bytes[0] + bytes[1]);
    CHECK(share > 0.45 && share < 0.55);
    deliver_all();
    teardown();
}

static void test_a_stay_lasts_its_time_where_a_clock_is_read(void)
{
    setup(4);
    topic->sticky.linger_ms = 20;
    /* so that bytes don't end the time */
    for (int32_t i = 0; i < 4; i++) table()->partitions[i]->batch_limit_bytes = 256 << 20;
    int32_t stays = 0;
    produce_at(0, NULL, 1);
    int32_t last = now_at();
    int64_t begin_us = kn_clock_us(), since_us = begin_us;
    while (stays < 6) {
        /* the time begins no earlier, even if this thread is delayed */
        int64_t before_us = kn_clock_us();
        CHECK(before_us < begin_us + 20000000); /* 6 stays take 120 ms on an idle machine */
        produce_at(0, NULL, 1);
        if (now_at() == last) continue;
        if (stays++) CHECK(kn_clock_us() - since_us > 18000); /* milliseconds are rounded down */
        since_us = before_us;
        last = now_at();
        deliver_all();
    }
    teardown();
}

static void test_batches_check_the_time_when_they_begin_and_leave(void)
{
    setup(4);
    produce_at(1, NULL, 1);
    int32_t first = now_at();
    take_all(first); /* too early: another batch begins there */
    CHECK_EQ(now_at(), first);
    produce_at(1, NULL, 1);
    CHECK_EQ(now_at(), first);
    sleep_ms(15);
    produce_at(1, NULL, 1); /* into an open batch, and without a clock: no check */
    CHECK_EQ(now_at(), first);
    take_all(first);
    int32_t second = now_at();
    CHECK(second != first);
    sleep_ms(15);
    produce_at(1, NULL, 1); /* begins a batch */
    CHECK(now_at() != second);
    teardown();
}

/* Returns whether the next message prolongs the time at the same partition. The choice would be
 * `next`, whose queue is by far the shortest. */
static int32_t sticks_again(int32_t next)
{
    for (int i = 0; i < 4; i++) brokers[i].in_flight = i == next ? 0 : 1000000;
    int32_t before = now_at();
    sleep_ms(15);
    produce_at(0, NULL, 1);
    return now_at() == before;
}

static void test_a_stay_goes_on_while_no_other_broker_takes_any_sooner(void)
{
    setup(4);
    engine->config.produce.adaptive_partitioning = 1;
    atomic_store(&topic->sticky.accumulator, table()->partitions[0]);
    int64_t now_us = kn_clock_us();
    for (int i = 0; i < 4; i++) atomic_store(&brokers[i].blocked_since_us, now_us - 5000);
    int64_t begin_ms = kn_wall_ms();
    CHECK(sticks_again(1)); /* for as long again */
    CHECK(atomic_load(&topic->sticky.until_ms) >= begin_ms + 15 + topic->sticky.linger_ms);
    atomic_store(&brokers[1].blocked_since_us, now_us - 9000);
    CHECK(sticks_again(1));
    atomic_store(&brokers[2].blocked_since_us, now_us - 1000); /* has taken a batch more recently */
    CHECK(!sticks_again(2));
    CHECK_EQ(now_at(), 2);
    atomic_store(&brokers[3].blocked_since_us, now_us + 60000000); /* nothing is due there yet */
    CHECK(!sticks_again(3));
    CHECK(!sticks_again(0)); /* due batches wait at 0, but none waits here */
    atomic_store(&brokers[1].blocked_since_us, 0);
    CHECK(!sticks_again(1));
    teardown();
}

static void
test_a_stay_of_brokers_that_are_behind_ends_with_its_bytes_and_none_goes_on_where_nothing_adapts(
    void)
{
    setup(4);
    engine->config.produce.adaptive_partitioning = 1;
    for (int i = 0; i < 4; i++) atomic_store(&brokers[i].blocked_since_us, 1);
    for (int32_t i = 0; i < 4; i++) table()->partitions[i]->batch_limit_bytes = 5000;
    int32_t seen[4] = {0};
    for (int i = 0; i < 400; i++) {
        produce_at(0, NULL, 1000);
        seen[now_at()] = 1;
    }
    for (int i = 0; i < 4; i++) CHECK(seen[i]);
    teardown();

    setup(4);
    engine->config.produce.adaptive_partitioning = 0;
    for (int i = 0; i < 4; i++) atomic_store(&brokers[i].blocked_since_us, 1);
    produce_at(0, NULL, 1);
    int32_t first = now_at();
    sleep_ms(15);
    produce_at(0, NULL, 1);
    CHECK(now_at() != first); /* partitioner.adaptive.partitioning.enable=false */
    teardown();
}

static void test_a_clock_set_back_ends_the_sticky_time(void)
{
    setup(4);
    produce_at(0, NULL, 1);
    int32_t first = now_at();
    atomic_store(&topic->sticky.until_ms, kn_wall_ms() + 3600000);
    produce_at(0, NULL, 1);
    CHECK(now_at() != first);
    CHECK(atomic_load(&topic->sticky.until_ms) <= kn_wall_ms() + 10);
    teardown();
}

static void test_nothing_sticks_with_a_time_of_zero(void)
{
    setup(4);
    topic->sticky.linger_ms = 0;
    for (int i = 0; i < 4000; i++) produce_at(0, NULL, 1);
    CHECK_EQ(now_at(), -1);
    for (int i = 0; i < 4; i++) {
        int32_t count = table()->partitions[i]->open->writer.record_count;
        CHECK(count > 800 && count < 1200);
    }
    teardown();
}

static void test_one_partition_has_no_choice(void)
{
    setup(1);
    engine->config.produce.adaptive_partitioning = 1;
    for (int i = 0; i < 10; i++) {
        produce_at(0, NULL, 1);
        sleep_ms(2);
    }
    CHECK_EQ(now_at(), 0);
    CHECK_EQ(table()->partitions[0]->open->writer.record_count, 10);
    teardown();
}

/* --- which next --- */

#define DRAWS 40000

static void draw(int32_t counts[4])
{
    memset(counts, 0, 4 * sizeof *counts);
    for (int i = 0; i < DRAWS; i++) counts[kn_sticky_choose(&topic->sticky, table(), 0) % 4]++;
}

static void check_share(int32_t count, double expected)
{
    CHECK(count > DRAWS * (expected - 0.02) && count < DRAWS * (expected + 0.02));
}

static void test_a_shorter_queue_gives_a_larger_weight(void)
{
    setup(4);
    engine->config.produce.adaptive_partitioning = 1;
    int32_t counts[4];
    draw(counts);
    for (int i = 0; i < 4; i++) check_share(counts[i], 0.25);
    /* queues 3 (two waiting, one open), 1, 0, 2 (its broker's requests): weights 1, 3, 4, 2 */
    engine->config.produce.batch_messages = 1;
    struct kn_message message = message_of_text("k", "v");
    message.partition = 0;
    for (int i = 0; i < 2; i++) CHECK_EQ(kn_topic_produce(topic, &message), KN_OK);
    engine->config.produce.batch_messages = 10;
    CHECK_EQ(kn_topic_produce(topic, &message), KN_OK);
    message.partition = 1;
    CHECK_EQ(kn_topic_produce(topic, &message), KN_OK);
    brokers[3].in_flight = 2;
    draw(counts);
    check_share(counts[0], 0.1);
    check_share(counts[1], 0.3);
    check_share(counts[2], 0.4);
    check_share(counts[3], 0.2);
    /* taken and without a response: still in its queue */
    int64_t next_us;
    struct kn_batch *batch = kn_topic_take(table()->partitions[0], &brokers[0],
                                           kn_clock_us() + 1000000, &next_us);
    draw(counts);
    check_share(counts[0], 0.1);
    kn_accumulator_settle(table()->partitions[0], batch);
    /* any but the last, even with the longest queue */
    engine->config.produce.adaptive_partitioning = 0;
    draw(counts);
    CHECK_EQ(counts[0], 0);
    for (int i = 1; i < 4; i++) check_share(counts[i], 1 / 3.0);
    teardown();
}

static void test_an_unavailable_broker_is_left_out(void)
{
    setup(4);
    engine->config.produce.adaptive_partitioning = 1;
    engine->config.produce.availability_timeout_ms = 100;
    int32_t counts[4];
    atomic_store(&brokers[2].blocked_since_us, kn_clock_us() - 150000);
    /* the time when the lingering batch is due */
    atomic_store(&brokers[1].blocked_since_us, kn_clock_us() + 60000000);
    draw(counts);
    CHECK_EQ(counts[2], 0);
    check_share(counts[1], 1 / 3.0);
    engine->config.produce.availability_timeout_ms = 0; /* off */
    draw(counts);
    check_share(counts[2], 0.25);
    engine->config.produce.availability_timeout_ms = 100;
    for (int i = 0; i < 4; i++) atomic_store(&brokers[i].blocked_since_us, 1);
    draw(counts); /* no partition is available: as without weights */
    for (int i = 1; i < 4; i++) check_share(counts[i], 1 / 3.0);
    teardown();
}

static void test_partitions_of_a_large_topic_are_all_drawn(void)
{
    setup(200);
    engine->config.produce.adaptive_partitioning = 1;
    int32_t seen[200] = {0};
    for (int i = 0; i < 100000; i++) seen[kn_sticky_choose(&topic->sticky, table(), 0)]++;
    for (int i = 0; i < 200; i++) CHECK(seen[i] > 350 && seen[i] < 650);
    teardown();
}

static void test_partitions_without_a_leader_are_left_out(void)
{
    setup(4);
    engine->config.produce.adaptive_partitioning = 1;
    kn_accumulator_set_leader(table()->partitions[1], NULL, -1);
    int32_t counts[4];
    draw(counts);
    CHECK_EQ(counts[1], 0);
    teardown();
}

static void set_in_rack(int broker, bool in_rack)
{
    kn_broker_set_in_client_rack(&brokers[broker], in_rack);
}

static void test_partitions_in_the_clients_rack_are_preferred(void)
{
    for (int adaptive = 0; adaptive < 2; adaptive++) {
        setup(4);
        engine->config.produce.adaptive_partitioning = adaptive;
        int32_t counts[4];
        set_in_rack(1, true);
        set_in_rack(2, true);
        draw(counts);
        CHECK(counts[3] > 0); /* racks don't matter unless the producer is rack-aware */
        engine->config.produce.rack_aware = true;
        draw(counts);
        check_share(counts[1], 0.5);
        check_share(counts[2], 0.5);
        set_in_rack(0, true);
        set_in_rack(1, false);
        set_in_rack(2, false);
        draw(counts); /* the last one again, because no other one is in the rack */
        check_share(counts[0], 1);
        set_in_rack(0, false);
        draw(counts); /* no leader is in the rack: as without racks */
        CHECK(counts[1] > 0 && counts[2] > 0 && counts[3] > 0);
        set_in_rack(1, true);
        kn_accumulator_set_leader(table()->partitions[1], NULL, -1);
        draw(counts);
        check_share(counts[1], 0);
        CHECK(counts[2] > 0 && counts[3] > 0);
        teardown();
    }
}

static void test_queues_and_silence_count_in_the_rack_too(void)
{
    setup(4);
    engine->config.produce.adaptive_partitioning = 1;
    engine->config.produce.availability_timeout_ms = 100;
    engine->config.produce.rack_aware = true;
    int32_t counts[4];
    set_in_rack(1, true);
    set_in_rack(2, true);
    brokers[1].in_flight = 2; /* weights 1 and 3 */
    draw(counts);
    check_share(counts[1], 0.25);
    check_share(counts[2], 0.75);
    for (int i = 1; i < 3; i++) atomic_store(&brokers[i].blocked_since_us, 1);
    draw(counts);
    check_share(counts[0], 0.5);
    check_share(counts[3], 0.5);
    teardown();
}

static void test_a_few_partitions_in_the_rack_of_a_large_topic_are_all_drawn(void)
{
    setup(200);
    engine->config.produce.rack_aware = true;
    set_in_rack(3, true); /* it leads 50 of them */
    for (int adaptive = 0; adaptive < 2; adaptive++) {
        engine->config.produce.adaptive_partitioning = adaptive;
        int32_t seen[200] = {0};
        for (int i = 0; i < 50000; i++) seen[kn_sticky_choose(&topic->sticky, table(), 0)]++;
        for (int i = 0; i < 200; i++)
            CHECK(i % 4 == 3 ? seen[i] > 700 && seen[i] < 1300 : seen[i] == 0);
    }
    teardown();
}

static void test_without_a_sticky_time_keyless_records_stay_in_the_rack_and_keyed_ones_dont(void)
{
    setup(4);
    topic->sticky.linger_ms = 0;
    topic->partitioner = KN_PARTITIONER_RANDOM;
    engine->config.produce.rack_aware = true;
    set_in_rack(1, true);
    set_in_rack(2, true);
    for (int i = 0; i < 1000; i++) produce_at(0, NULL, 1);
    CHECK(!table()->partitions[0]->open && !table()->partitions[3]->open);
    int32_t count = table()->partitions[1]->open->writer.record_count;
    CHECK(count > 400 && count < 600);
    for (int i = 0; i < 100; i++) produce_at(0, "key", 1);
    CHECK(table()->partitions[0]->open && table()->partitions[3]->open);
    teardown();
}

static void test_a_stay_outside_of_the_rack_ends_though_no_broker_takes_any_sooner(void)
{
    setup(2);
    engine->config.produce.adaptive_partitioning = 1;
    engine->config.produce.rack_aware = true;
    atomic_store(&topic->sticky.accumulator, table()->partitions[0]);
    for (int i = 0; i < 2; i++) atomic_store(&brokers[i].blocked_since_us, kn_clock_us() - 5000);
    set_in_rack(1, true);
    CHECK(!sticks_again(0));
    CHECK_EQ(now_at(), 1);
    CHECK(sticks_again(1));
    teardown();
}

int main(void)
{
    RUN(test_a_stay_lasts_batch_size_bytes_and_ends_with_a_batch);
    RUN(test_bytes_are_made_up_for_when_keyed_records_end_the_batches);
    RUN(test_a_stay_lasts_its_time_where_a_clock_is_read);
    RUN(test_batches_check_the_time_when_they_begin_and_leave);
    RUN(test_a_stay_goes_on_while_no_other_broker_takes_any_sooner);
    RUN(test_a_stay_of_brokers_that_are_behind_ends_with_its_bytes_and_none_goes_on_where_nothing_adapts);
    RUN(test_a_clock_set_back_ends_the_sticky_time);
    RUN(test_nothing_sticks_with_a_time_of_zero);
    RUN(test_one_partition_has_no_choice);
    RUN(test_a_shorter_queue_gives_a_larger_weight);
    RUN(test_an_unavailable_broker_is_left_out);
    RUN(test_partitions_of_a_large_topic_are_all_drawn);
    RUN(test_partitions_without_a_leader_are_left_out);
    RUN(test_partitions_in_the_clients_rack_are_preferred);
    RUN(test_queues_and_silence_count_in_the_rack_too);
    RUN(test_a_few_partitions_in_the_rack_of_a_large_topic_are_all_drawn);
    RUN(test_without_a_sticky_time_keyless_records_stay_in_the_rack_and_keyed_ones_dont);
    RUN(test_a_stay_outside_of_the_rack_ends_though_no_broker_takes_any_sooner);
    return check_done();
}
