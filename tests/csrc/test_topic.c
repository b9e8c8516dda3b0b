/* A topic that is produced to: partitions, staging, sticky partition, limits; and the cost of
 * kn_topic_produce(). */
#include <pthread.h>
#include <time.h>
#include "produce_fakes.h"

static struct kn_engine *engine;
static struct kn_topic *topic;
static struct kn_broker brokers[2];
static const uint8_t NO_ID[16];

static void setup(void)
{
    engine = fake_engine();
    for (int i = 0; i < 2; i++) fake_broker_init(&brokers[i], engine);
    topic = kn_topic_new(&engine->producer, "orders", 6, 77);
    CHECK(topic);
}

static void teardown(void)
{
    check_batches_of(topic);
    kn_topic_free(topic);
    fake_engine_free(engine);
}

static int produce_to(int32_t partition, const char *key, const char *value)
{
    struct kn_message message = message_of_text(key, value);
    message.partition = partition;
    return kn_topic_produce(topic, &message);
}

/* brokers[0] leads the even partitions, brokers[1] the odd ones. */
static void set_partitions(int32_t count)
{
    struct kn_broker *leaders[64];
    int32_t epochs[64];
    for (int32_t i = 0; i < count; i++) {
        leaders[i] = &brokers[i % 2];
        epochs[i] = 5;
    }
    CHECK_EQ(kn_topic_set_partitions(topic, NO_ID, count, leaders, epochs), KN_OK);
}

static struct kn_accumulator *partition_of(int32_t partition)
{
    return atomic_load(&topic->table)->partitions[partition];
}

/* Takes and settles all batches of a partition. Returns the values, separated by spaces. */
static const char *drain(int32_t partition)
{
    static char all[1 << 16];
    struct kn_batch *batch;
    int64_t next_us;
    all[0] = 0;
    while ((batch = kn_accumulator_take(partition_of(partition), &brokers[partition % 2],
                                        kn_clock_us() + 1000000, &next_us))) {
        if (all[0]) strcat(all, " ");
        strcat(all, values_of(batch));
        kn_accumulator_settle(partition_of(partition), batch);
    }
    return all;
}

static void test_staged_records_move_in_order_to_where_they_belong(void)
{
    setup();
    engine->config.produce.partitioner = topic->partitioner = KN_PARTITIONER_MURMUR2;
    CHECK_EQ(produce_to(2, NULL, "a"), KN_OK);
    CHECK_EQ(produce_to(-1, "23456", "b"), KN_OK); /* 3 of 4 */
    CHECK_EQ(produce_to(2, NULL, "c"), KN_OK);
    CHECK_EQ(produce_to(-1, "hejsan", "d"), KN_OK); /* 1 of 4 */
    CHECK_EQ(produce_to(3, NULL, "e"), KN_OK);
    CHECK_EQ(fake.notice_count, 0);
    set_partitions(4);
    CHECK_EQ(fake.notice_count, 3); /* once per partition with records */
    CHECK_EQ(produce_to(2, NULL, "f"), KN_OK);
    CHECK(strcmp(drain(0), "") == 0);
    CHECK(strcmp(drain(1), "d") == 0);
    CHECK(strcmp(drain(2), "a c f") == 0);
    CHECK(strcmp(drain(3), "b e") == 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.bytes), 0);
    teardown();
}

static void test_staged_records_keep_key_headers_timestamp_opaque_and_age(void)
{
    setup();
    static int token;
    /* one header: "h" = "v", zig-zag lengths */
    static const uint8_t headers[] = {2, 'h', 2, 'v'};
    struct kn_message message = message_of_text("key", NULL);
    message.headers = headers;
    message.headers_bytes = sizeof headers;
    message.header_count = 1;
    message.timestamp_ms = 123456789;
    message.opaque = &token;
    CHECK_EQ(kn_topic_produce(topic, &message), KN_OK);
    CHECK_EQ(produce_to(-1, "key", "second"), KN_OK);
    int64_t created_us = topic->staging.open->created_us;
    set_partitions(1);
    int64_t next_us;
    struct kn_batch *batch = kn_accumulator_take(partition_of(0), &brokers[0],
                                                 kn_clock_us() + 1000000, &next_us);
    CHECK_EQ(batch->created_us, created_us);
    CHECK_EQ(batch->created_ms, -1); /* the application's timestamps */
    CHECK(batch->opaques[0] == &token && batch->opaques[1] == NULL);
    CHECK(batch->partitions == NULL);
    struct kn_batch_view view;
    struct kn_record_reader reader;
    struct kn_record record;
    CHECK_EQ(kn_batch_view_plain(batch, &view), KN_OK);
    CHECK_EQ(kn_record_reader_init(&reader, &view), KN_OK);
    CHECK_EQ(kn_record_reader_next(&reader, &record), KN_OK);
    CHECK(record.value == NULL && record.key_bytes == 3 && memcmp(record.key, "key", 3) == 0);
    CHECK_EQ(record.timestamp_ms, 123456789);
    CHECK_EQ(record.header_count, 1);
    CHECK_EQ(record.headers_bytes, sizeof headers);
    CHECK(memcmp(record.headers, headers, sizeof headers) == 0);
    kn_accumulator_settle(partition_of(0), batch);
    teardown();
}

static void check_timestamp(const struct kn_record *record, void *context)
{
    (void)context;
    CHECK_EQ(record->timestamp_ms, 0);
}

static void test_a_given_timestamp_of_0_is_no_missing_one(void)
{
    setup();
    struct kn_message message = message_of_text("k", "v");
    message.timestamp_ms = 0;
    message.wall_ms = KN_TIMESTAMP_GIVEN;
    CHECK_EQ(kn_topic_produce(topic, &message), KN_OK); /* staged */
    set_partitions(1);
    CHECK_EQ(kn_topic_produce(topic, &message), KN_OK);
    struct kn_batch *batch = partition_of(0)->open;
    CHECK_EQ(each_record(batch, check_timestamp, NULL), 2);
    CHECK_EQ(batch->created_ms, -1); /* the application's timestamps */
    message.wall_ms = 0;
    CHECK_EQ(kn_topic_produce(topic, &message), KN_OK);
    CHECK(batch->writer.max_timestamp_ms > 1700000000000);
    drain(0);
    teardown();
}

/* Produces a message for `partition`, reported with this token. */
static void produce_token(int32_t partition, const char *value, void *token)
{
    struct kn_message message = message_of_text("k", value);
    message.partition = partition;
    message.opaque = token;
    CHECK_EQ(kn_topic_produce(topic, &message), KN_OK);
}

static void test_a_staged_record_of_a_missing_partition_waits_and_fails_alone(void)
{
    setup();
    static int tokens[6];
    for (int i = 0; i < 6; i++) {
        char value[2] = {(char)('0' + i), 0};
        produce_token(i % 3 == 1 ? 10 - i : 0, value, &tokens[i]);
    }
    set_partitions(2);
    set_partitions(2);
    CHECK(kn_topic_fail_unknown(topic, kn_clock_us() - 1000000)); /* it is newer than that */
    CHECK(kn_list_empty(&fake.delivered));
    CHECK(!kn_topic_fail_unknown(topic, kn_clock_us()));
    struct kn_batch *batch = delivered_first();
    CHECK_EQ(batch->status, KN_ERR_UNKNOWN_PARTITION);
    CHECK_EQ(batch->persistence, KN_NOT_PERSISTED);
    CHECK(strcmp(values_of(batch), "1 4") == 0);
    CHECK(batch->opaques[0] == &tokens[1] && batch->opaques[1] == &tokens[4]);
    CHECK_EQ(batch->partitions[0], 9);
    CHECK_EQ(batch->partitions[1], 6);
    CHECK_EQ(batch->budget_bytes, 4);
    kn_batch_free(batch);
    CHECK(kn_list_empty(&fake.delivered));
    CHECK(strcmp(drain(0), "0 2 3 5") == 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.bytes), 0);
    teardown();
}

static void test_records_for_a_later_partition_wait_in_order(void)
{
    setup();
    set_partitions(1);
    CHECK_EQ(produce_to(2, NULL, "a"), KN_OK);
    CHECK_EQ(produce_to(0, NULL, "0"), KN_OK); /* doesn't wait */
    CHECK_EQ(produce_to(4, NULL, "x"), KN_OK);
    CHECK_EQ(produce_to(2, NULL, "b"), KN_OK);
    CHECK_EQ(list_count(&engine->client.control->events.items), 1);
    kn_event_free(event_first());
    CHECK(strcmp(drain(0), "0") == 0);
    set_partitions(3);
    CHECK_EQ(produce_to(2, NULL, "c"), KN_OK);
    CHECK_EQ(produce_to(4, NULL, "y"), KN_OK);
    /* that record was staged before */
    CHECK_EQ(list_count(&engine->client.control->events.items), 1);
    kn_event_free(event_first());
    CHECK(strcmp(drain(2), "a b c") == 0);
    set_partitions(5);
    CHECK(strcmp(drain(4), "x y") == 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    teardown();
}

static void test_a_recreated_topic_with_fewer_partitions_has_only_those(void)
{
    setup();
    static const uint8_t old_id[16] = {1}, new_id[16] = {2};
    struct kn_broker *leaders[3] = {&brokers[0], &brokers[1], &brokers[0]};
    engine->config.produce.partitioner = topic->partitioner = KN_PARTITIONER_MURMUR2;
    CHECK_EQ(kn_topic_set_partitions(topic, old_id, 3, leaders, NULL), KN_OK);
    CHECK_EQ(produce_to(0, NULL, "kept"), KN_OK);
    CHECK_EQ(produce_to(2, NULL, "gone"), KN_OK);
    /* a broker with old metadata */
    CHECK_EQ(kn_topic_set_partitions(topic, old_id, 1, leaders, NULL), KN_OK);
    CHECK_EQ(kn_topic_partition_count(topic), 3);
    CHECK_EQ(kn_topic_set_partitions(topic, new_id, 1, leaders, NULL), KN_OK);
    CHECK_EQ(kn_topic_partition_count(topic), 1);
    struct kn_batch *batch = delivered_first();
    CHECK_EQ(batch->status, KN_ERR_UNKNOWN_PARTITION);
    CHECK(strcmp(values_of(batch), "gone") == 0);
    kn_batch_free(batch);
    CHECK_EQ(produce_to(-1, "23456", "keyed"), KN_OK); /* 0 of 1 */
    CHECK(strcmp(drain(0), "kept keyed") == 0);
    CHECK_EQ(produce_to(2, NULL, "later"), KN_OK);
    CHECK_EQ(kn_topic_set_partitions(topic, new_id, 3, leaders, NULL), KN_OK);
    CHECK(strcmp(drain(2), "later") == 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    teardown();
}

static void test_metadata_is_wanted_once_per_unknown_period(void)
{
    setup();
    for (int i = 0; i < 5; i++) CHECK_EQ(produce_to(-1, NULL, "x"), KN_OK);
    CHECK_EQ(list_count(&engine->client.control->events.items), 1);
    struct kn_event *event = event_first();
    CHECK_EQ(event->kind, KN_EVENT_TOPIC_WANTED);
    CHECK_EQ(event->token, 77);
    kn_event_free(event);
    kn_topic_fail(topic, KN_OK, 3, "no such topic");
    struct kn_batch *batch = delivered_first();
    CHECK_EQ(batch->error_code, 3);
    CHECK(strcmp(batch->error_text, "no such topic") == 0);
    CHECK_EQ(batch->writer.record_count, 5);
    kn_batch_free(batch);
    CHECK_EQ(produce_to(-1, NULL, "y"), KN_OK);
    CHECK_EQ(list_count(&engine->client.control->events.items), 1);
    set_partitions(1);
    CHECK(strcmp(drain(0), "y") == 0);
    teardown();
}

static void test_a_failed_topic_reports_waiting_records_and_stages_again(void)
{
    setup();
    set_partitions(2);
    CHECK_EQ(produce_to(0, NULL, "a"), KN_OK);
    CHECK_EQ(produce_to(1, NULL, "b"), KN_OK);
    struct kn_accumulator *first = partition_of(0);
    kn_topic_fail(topic, KN_OK, 29, NULL);
    CHECK_EQ(list_count(&fake.delivered), 2);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    CHECK_EQ(produce_to(1, NULL, "c"), KN_OK);
    CHECK(atomic_load(&topic->table) == NULL);
    set_partitions(3);
    CHECK(partition_of(0) == first);
    CHECK(strcmp(drain(1), "c") == 0);
    teardown();
}

static void produce_again(void) { CHECK_EQ(produce_to(-1, NULL, "again"), KN_OK); }

static void test_a_message_after_the_failure_of_its_topic_requests_metadata_again(void)
{
    setup();
    CHECK_EQ(produce_to(-1, NULL, "x"), KN_OK);
    kn_event_free(event_first());
    fake.on_deliver = produce_again;
    kn_topic_fail(topic, KN_OK, 3, "no such topic");
    CHECK_EQ(list_count(&fake.delivered), 1);
    CHECK_EQ(list_count(&engine->client.control->events.items), 1);
    kn_event_free(event_first());
    set_partitions(1);
    CHECK(strcmp(drain(0), "again") == 0);
    teardown();
}

static void test_partitions_are_added_and_never_taken_away(void)
{
    setup();
    set_partitions(2);
    struct kn_accumulator *second = partition_of(1);
    set_partitions(5);
    CHECK(partition_of(1) == second);
    CHECK_EQ(produce_to(4, NULL, "x"), KN_OK);
    set_partitions(2);
    CHECK_EQ(atomic_load(&topic->table)->count, 5);
    CHECK(strcmp(drain(4), "x") == 0);
    teardown();
}

static void test_keyless_records_prefer_a_partition_with_a_leader(void)
{
    setup();
    struct kn_broker *leaders[16] = {NULL};
    leaders[11] = &brokers[1];
    CHECK_EQ(kn_topic_set_partitions(topic, NULL, 16, leaders, NULL), KN_OK);
    for (int i = 0; i < 50; i++) CHECK_EQ(produce_to(-1, NULL, "x"), KN_OK);
    CHECK_EQ(atomic_load(&topic->sticky.accumulator)->partition, 11);
    CHECK(partition_of(11)->open && partition_of(11)->open->writer.record_count >= 49);
    teardown();
}

static void test_limits_keep_nothing(void)
{
    setup();
    set_partitions(1);
    engine->config.produce.message_max_bytes = 1000;
    static char value[1001];
    memset(value, 'v', 1000);
    CHECK_EQ(produce_to(-1, NULL, value), KN_ERR_TOO_LARGE);
    value[1000 - KN_RECORD_OVERHEAD_MAX_BYTES] = 0;
    CHECK_EQ(produce_to(-1, NULL, value), KN_OK);
    engine->producer.budget.messages_max = 3;
    CHECK_EQ(produce_to(-1, NULL, "1"), KN_OK);
    CHECK_EQ(produce_to(-1, NULL, "2"), KN_OK);
    CHECK_EQ(produce_to(-1, NULL, "3"), KN_ERR_FULL);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 3);
    drain(0);
    CHECK_EQ(produce_to(-1, NULL, "3"), KN_OK);
    engine->producer.budget.messages_max = 0;
    engine->producer.budget.bytes_max = 100;
    CHECK_EQ(produce_to(-1, NULL, value), KN_ERR_FULL);
    drain(0);
    atomic_store(&engine->producer.refusing, KN_ERR_CLOSED);
    CHECK_EQ(produce_to(-1, NULL, "x"), KN_ERR_CLOSED);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.bytes), 0);
    teardown();
}

/* Produces ten messages "0".."9" with this key and partition. Returns how many were queued, and the
 * reason for the next one. */
static int32_t produce_ten(const char *key, int32_t partition, int *status)
{
    static const char values[10][2] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    struct kn_message messages[10];
    int32_t queued = -1;
    for (int i = 0; i < 10; i++) {
        messages[i] = message_of_text(key, values[i]);
        messages[i].partition = partition;
    }
    *status = kn_topic_produce_run(topic, messages, 10, &queued);
    return queued;
}

static void test_a_run_equals_single_calls(void)
{
    setup();
    int status;
    CHECK_EQ(produce_ten("hejsan", -1, &status), 10); /* staged */
    CHECK_EQ(status, KN_OK);
    CHECK_EQ(fake.notice_count, 0);
    engine->config.produce.partitioner = topic->partitioner = KN_PARTITIONER_MURMUR2;
    set_partitions(4);
    CHECK_EQ(produce_ten("hejsan", -1, &status), 10); /* 1 of 4 */
    CHECK_EQ(produce_ten(NULL, 2, &status), 10);
    CHECK(strcmp(drain(1), "0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9") == 0);
    CHECK(strcmp(drain(2), "0 1 2 3 4 5 6 7 8 9") == 0);
    CHECK_EQ(produce_ten(NULL, 4, &status), 10); /* staged */
    CHECK_EQ(status, KN_OK);
    set_partitions(5);
    CHECK(strcmp(drain(4), "0 1 2 3 4 5 6 7 8 9") == 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.bytes), 0);
    teardown();
}

static void test_a_run_stops_where_a_single_call_would_fail(void)
{
    setup();
    int status;
    set_partitions(1);
    engine->producer.budget.messages_max = 7;
    CHECK_EQ(produce_ten(NULL, 0, &status), 7);
    CHECK_EQ(status, KN_ERR_FULL);
    CHECK_EQ(produce_ten(NULL, 0, &status), 0);
    CHECK_EQ(status, KN_ERR_FULL);
    CHECK(strcmp(drain(0), "0 1 2 3 4 5 6") == 0);
    engine->producer.budget.messages_max = 0;
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);

    static char large[2000001];
    memset(large, 'x', sizeof large - 1);
    struct kn_message messages[3] = {message_of_text(NULL, "a"), message_of_text(NULL, large),
                                     message_of_text(NULL, "c")};
    int32_t queued;
    CHECK_EQ(kn_topic_produce_run(topic, messages, 3, &queued), KN_ERR_TOO_LARGE);
    CHECK_EQ(queued, 1);
    CHECK(strcmp(drain(0), "a") == 0);
    messages[1] = message_of_text(NULL, "b");
    messages[1].partition = 1;
    /* "b" waits for its partition */
    CHECK_EQ(kn_topic_produce_run(topic, messages, 3, &queued), KN_OK);
    CHECK_EQ(queued, 3);
    CHECK(strcmp(drain(0), "a c") == 0);
    set_partitions(2);
    CHECK(strcmp(drain(1), "b") == 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.bytes), 0);
    atomic_store(&engine->producer.refusing, KN_ERR_CLOSED);
    CHECK_EQ(produce_ten(NULL, 0, &status), 0);
    CHECK_EQ(status, KN_ERR_CLOSED);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    teardown();
}

/* Small batches, so that keyless records move to another partition in the middle of a run: none is
 * lost, and both partitions get some. */
static void test_a_run_chooses_each_partition_once(void)
{
    setup();
    topic->sticky.linger_ms = 0; /* a random partition each */
    set_partitions(4);
    struct kn_message messages[2] = {message_of_text(NULL, "a"), message_of_text(NULL, "b")};
    int together = 0, used, queued;
    for (int i = 0; i < 4000; i++) {
        CHECK_EQ(kn_topic_produce_run(topic, messages, 2, &queued), KN_OK);
        CHECK_EQ(queued, 2);
        used = 0;
        for (int32_t partition = 0; partition < 4; partition++) used += drain(partition)[0] != 0;
        together += used == 1;
    }
    CHECK(together > 850 && together < 1150); /* a quarter: the second choice is as the first */
    teardown();
}

static void test_a_run_goes_on_elsewhere_when_a_batch_is_full(void)
{
    setup();
    int status;
    engine->config.produce.batch_messages = 4;
    engine->config.produce.batch_bytes = 120;
    set_partitions(2);
    for (int i = 0; i < 20; i++) CHECK_EQ(produce_ten(NULL, -1, &status), 10);
    size_t first = strlen(drain(0)), second = strlen(drain(1));
    CHECK(first > 0 && second > 0);
    CHECK_EQ(first + second + 2, 2 * 200);
    teardown();
}

/* A message of a mixed run: with and without key, callback, time and sticking. */
static struct kn_message mixed_message(int number)
{
    static char values[41][41];
    static int opaques[41];
    memset(values[number], 'a' + number % 26, (size_t)(number * 7 % 40));
    struct kn_message message = message_of_text(number % 5 == 2 ? "key" : NULL, values[number]);
    message.partition = number % 3 ? 0 : -1; /* the only partition, in both cases */
    message.timestamp_ms = 1700000000000 + number / 4;
    message.wall_ms = number % 11 ? message.timestamp_ms : KN_TIMESTAMP_GIVEN;
    if (number >= 20 && number % 4 == 0) message.opaque = &opaques[number];
    return message;
}

/* Describes the batches of the only partition, and empties it. */
static const char *describe_batches(void)
{
    static char text[2][1 << 12];
    static int turn;
    char *at = text[turn ^= 1];
    int64_t next_us;
    struct kn_batch *batch;
    while ((batch = kn_accumulator_take(partition_of(0), &brokers[0], kn_clock_us() + 1000000,
                                        &next_us))) {
        at += sprintf(at, "%d records, %zu bytes, budget %lld, %s:", batch->writer.record_count,
                      batch->plain->size_bytes, (long long)batch->budget_bytes,
                      batch->created_ms < 0 ? "untimed" : "timed");
        for (int32_t i = 0; batch->opaques && i < batch->writer.record_count; i++)
            at += sprintf(at, " %p", batch->opaques[i]);
        at += sprintf(at, " %s\n", values_of(batch));
        kn_accumulator_settle(partition_of(0), batch);
    }
    return text[turn];
}

static void test_a_run_fills_the_same_batches_as_single_calls(void)
{
    static const int32_t limits[][2] = {{10000, 1000000}, {7, 1000000}, {10000, 300}, {1, 100}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct kn_message messages[40];
        int32_t queued;
        setup();
        engine->config.produce.batch_messages = limits[i][0];
        engine->config.produce.batch_bytes = limits[i][1];
        set_partitions(1);
        for (int number = 0; number < 40; number++) {
            messages[number] = mixed_message(number);
            CHECK_EQ(kn_topic_produce(topic, &messages[number]), KN_OK);
        }
        int64_t stuck_bytes = partition_of(0)->stuck_bytes;
        const char *single = describe_batches();
        partition_of(0)->stuck_bytes = 0;
        CHECK_EQ(kn_topic_produce_run(topic, messages, 40, &queued), KN_OK);
        CHECK_EQ(queued, 40);
        if (i < 2) CHECK_EQ(partition_of(0)->stuck_bytes, stuck_bytes);
        CHECK(strcmp(describe_batches(), single) == 0);
        CHECK_EQ(atomic_load(&engine->producer.budget.bytes), 0);
        teardown();
    }
}

static void setup_with(enum kn_partitioner partitioner)
{
    setup();
    kn_topic_free(topic);
    engine->config.produce.partitioner = partitioner;
    topic = kn_topic_new(&engine->producer, "orders", 6, 77);
    CHECK(topic);
}

static void test_round_robin_takes_the_partitions_in_turn(void)
{
    setup_with(KN_PARTITIONER_ROUND_ROBIN);
    int status;
    CHECK_EQ(produce_ten("k", -1, &status), 10); /* staged */
    set_partitions(5);
    CHECK_EQ(produce_ten("k", -1, &status), 10); /* in a run */
    for (int i = 0; i < 5; i++) CHECK_EQ(produce_to(-1, i % 2 ? "k" : NULL, "x"), KN_OK);
    CHECK_EQ(produce_to(3, "k", "named"), KN_OK);
    CHECK(strcmp(drain(0), "0 5 0 5 x") == 0);
    CHECK(strcmp(drain(1), "1 6 1 6 x") == 0);
    CHECK(strcmp(drain(2), "2 7 2 7 x") == 0);
    CHECK(strcmp(drain(3), "3 8 3 8 x named") == 0);
    CHECK(strcmp(drain(4), "4 9 4 9 x") == 0);
    teardown();
}

static void test_round_robin_leaves_out_partitions_without_a_leader(void)
{
    setup_with(KN_PARTITIONER_ROUND_ROBIN);
    int status;
    struct kn_broker *leaders[5] = {&brokers[0], NULL, &brokers[0], NULL, NULL};
    CHECK_EQ(kn_topic_set_partitions(topic, NULL, 5, leaders, NULL), KN_OK);
    CHECK_EQ(produce_ten("k", -1, &status), 10);
    CHECK(strcmp(drain(0), "0 2 4 6 8") == 0);
    CHECK(strcmp(drain(2), "1 3 5 7 9") == 0);
    leaders[0] = leaders[2] = NULL;
    CHECK_EQ(kn_topic_set_partitions(topic, NULL, 5, leaders, NULL), KN_OK);
    CHECK_EQ(produce_ten("k", -1, &status), 10); /* none has one: all wait in turn */
    for (int i = 0; i < 5; i++) CHECK_EQ(partition_of(i)->open->writer.record_count, 2);
    set_partitions(5);
    for (int i = 0; i < 5; i++) CHECK_EQ(strlen(drain(i)), 3);
    teardown();
}

static void test_sticky_ignores_keys(void)
{
    setup_with(KN_PARTITIONER_STICKY);
    int status;
    set_partitions(4);
    CHECK_EQ(produce_ten("k", -1, &status), 10);
    CHECK_EQ(produce_ten(NULL, -1, &status), 10);
    int32_t partition = atomic_load(&topic->sticky.accumulator)->partition;
    CHECK_EQ(partition_of(partition)->open->writer.record_count, 20);
    drain(partition);
    teardown();
}

static void test_staged_records_expire(void)
{
    setup();
    engine->config.produce.message_timeout_ms = 10;
    CHECK_EQ(produce_to(-1, NULL, "x"), KN_OK);
    kn_topic_expire(topic, kn_clock_us());
    CHECK(kn_list_empty(&fake.delivered));
    kn_topic_expire(topic, kn_clock_us() + 10000);
    CHECK_EQ(list_count(&fake.delivered), 1);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    teardown();
}

static void test_a_forgotten_topic_stages_and_requests_metadata(void)
{
    setup();
    set_partitions(2);
    CHECK(!kn_topic_used_since(topic, 0));
    int64_t before_us = kn_clock_us();
    CHECK_EQ(produce_to(1, NULL, "waits"), KN_OK);
    CHECK(kn_topic_used_since(topic, KN_NEVER));
    CHECK(!kn_topic_forget(topic)); /* a message waits */
    CHECK_EQ(kn_topic_partition_count(topic), 2);
    CHECK(strcmp(drain(1), "waits") == 0);
    CHECK(kn_topic_used_since(topic, before_us));
    CHECK(!kn_topic_used_since(topic, kn_clock_us() + 1));
    CHECK(kn_topic_forget(topic));
    CHECK_EQ(kn_topic_partition_count(topic), 0);
    int events = list_count(&engine->client.control->events.items);
    CHECK_EQ(produce_to(1, NULL, "again"), KN_OK);
    CHECK_EQ(list_count(&engine->client.control->events.items), events + 1); /* TOPIC_WANTED */
    set_partitions(2);
    CHECK(strcmp(drain(1), "again") == 0);
    teardown();
}

static void test_a_record_that_meets_the_withdrawal_requests_metadata(void)
{
    setup();
    set_partitions(1);
    struct kn_accumulator *partition = partition_of(0);
    CHECK(kn_topic_forget(topic));
    kn_topic_expire(topic, kn_clock_us());
    int events = list_count(&engine->client.control->events.items);
    /* as a thread that has read the table before */
    struct kn_message message = message_of_text(NULL, "late");
    struct kn_append append = {.message = &message, .bound_bytes = 100, .budget_bytes = 0};
    struct kn_notice notice;
    CHECK_EQ(kn_accumulator_append(partition, &append, &notice), KN_OK);
    for (int i = 0; i < 2; i++) kn_topic_expire(topic, kn_clock_us());
    CHECK_EQ(list_count(&engine->client.control->events.items),
             events + 1); /* TOPIC_WANTED, once */
    set_partitions(1);
    CHECK(strcmp(drain(0), "late") == 0);
    teardown();
}

static void test_a_refusing_engine_takes_no_lock(void)
{
    setup();
    set_partitions(1);
    engine->producer.budget.messages_max = 1;
    CHECK_EQ(produce_to(0, NULL, "1"), KN_OK);
    CHECK_EQ(produce_to(0, NULL, "2"), KN_ERR_FULL);
    atomic_store(&engine->producer.refusing, KN_ERR_CLOSED);
    kn_mutex_lock(&partition_of(0)->lock); /* as a thread that the fork has left behind */
    CHECK_EQ(produce_to(0, NULL, "2"), KN_ERR_CLOSED);
    struct kn_message message = message_of_text(NULL, "2");
    int32_t queued;
    CHECK_EQ(kn_topic_produce_run(topic, &message, 1, &queued), KN_ERR_CLOSED);
    CHECK_EQ(queued, 0);
    kn_mutex_unlock(&partition_of(0)->lock);
    teardown();
}

static void test_topic_id(void)
{
    setup();
    const uint8_t set[16] = {1, 2, 3}, *ids[] = {set, NO_ID, set};
    struct kn_broker *leaders[3] = {&brokers[0], &brokers[0], &brokers[0]};
    for (int32_t count = 1; count <= 3; count++) {
        /* the existing partitions and the new one */
        CHECK_EQ(kn_topic_set_partitions(topic, ids[count - 1], count, leaders, NULL), KN_OK);
        for (int32_t i = 0; i < count; i++)
            CHECK(memcmp(topic->tables->partitions[i]->topic_id, ids[count - 1], 16) == 0);
    }
    CHECK_EQ(kn_topic_set_partitions(topic, NO_ID, 0, leaders, NULL), KN_ERR_INVALID);
    teardown();
}

/* --- threads: three produce with keys while the table is published and grows; order per producer
 * holds --- */

#define THREADS 3
#define PER_THREAD 20000

static void *produce_many(void *argument)
{
    int thread = (int)(intptr_t)argument;
    char text[64];
    for (int i = 0; i < PER_THREAD; i++) {
        snprintf(text, sizeof text, "%d:%d", thread, i);
        CHECK_EQ(produce_to(thread % 2, "k", text), KN_OK);
    }
    return NULL;
}

static int next_of[THREADS];

static void check_order(const struct kn_record *record, void *context)
{
    (void)context;
    char text[64];
    memcpy(text, record->value, (size_t)record->value_bytes);
    text[record->value_bytes] = 0;
    int thread, number;
    CHECK_EQ(sscanf(text, "%d:%d", &thread, &number), 2);
    CHECK_EQ(number, next_of[thread]);
    next_of[thread]++;
}

static void test_publishing_under_fire_keeps_order(void)
{
    setup();
    engine->config.produce.batch_bytes = 20000;
    kn_topic_free(topic);
    topic = kn_topic_new(&engine->producer, "orders", 6, 77);
    memset(next_of, 0, sizeof next_of);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, produce_many, (void *)(intptr_t)i), 0);
    struct timespec moment = {0, 1000000};
    nanosleep(&moment, NULL);
    set_partitions(2);
    set_partitions(3);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int32_t partition = 0; partition < 2; partition++) {
        struct kn_batch *batch;
        int64_t next_us;
        while ((batch = kn_accumulator_take(partition_of(partition), &brokers[partition],
                                            kn_clock_us() + 1000000, &next_us))) {
            each_record(batch, check_order, NULL);
            kn_accumulator_settle(partition_of(partition), batch);
        }
    }
    for (int i = 0; i < THREADS; i++) CHECK_EQ(next_of[i], PER_THREAD);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    teardown();
}

/* No check: prints what a call costs on this machine, in this build. */
static void print_cost(void)
{
    enum { ROUNDS = 30, COUNT = 10000 };
    setup();
    set_partitions(2);
    static char value[101];
    memset(value, 'v', 100);
    int64_t least_ns = INT64_MAX, total_ns = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct kn_message message = message_of_text(NULL, value);
        message.timestamp_ms = 0;
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        int failed = 0;
        for (int i = 0; i < COUNT; i++) failed |= kn_topic_produce(topic, &message);
        CHECK_EQ(failed, KN_OK);
        clock_gettime(CLOCK_MONOTONIC, &to);
        int64_t ns = (int64_t)(to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec;
        total_ns += ns;
        if (ns < least_ns) least_ns = ns;
        for (int32_t partition = 0; partition < 2; partition++) {
            struct kn_batch *batch;
            int64_t next_us;
            while ((batch = kn_accumulator_take(partition_of(partition), &brokers[partition],
                                                kn_clock_us() + 1000000, &next_us))) {
                kn_accumulator_settle(partition_of(partition), batch);
                kn_batch_free(delivered_first());
            }
        }
    }
    printf("kn_topic_produce, 100-byte value: %lld ns a call, best round %lld ns\n",
           (long long)(total_ns / ROUNDS / COUNT), (long long)(least_ns / COUNT));
    teardown();
}

int main(void)
{
    RUN(test_staged_records_move_in_order_to_where_they_belong);
    RUN(test_staged_records_keep_key_headers_timestamp_opaque_and_age);
    RUN(test_a_given_timestamp_of_0_is_no_missing_one);
    RUN(test_a_staged_record_of_a_missing_partition_waits_and_fails_alone);
    RUN(test_records_for_a_later_partition_wait_in_order);
    RUN(test_a_recreated_topic_with_fewer_partitions_has_only_those);
    RUN(test_metadata_is_wanted_once_per_unknown_period);
    RUN(test_a_failed_topic_reports_waiting_records_and_stages_again);
    RUN(test_a_message_after_the_failure_of_its_topic_requests_metadata_again);
    RUN(test_partitions_are_added_and_never_taken_away);
    RUN(test_keyless_records_prefer_a_partition_with_a_leader);
    RUN(test_limits_keep_nothing);
    RUN(test_a_run_equals_single_calls);
    RUN(test_a_run_fills_the_same_batches_as_single_calls);
    RUN(test_a_run_stops_where_a_single_call_would_fail);
    RUN(test_a_run_chooses_each_partition_once);
    RUN(test_a_run_goes_on_elsewhere_when_a_batch_is_full);
    RUN(test_round_robin_takes_the_partitions_in_turn);
    RUN(test_round_robin_leaves_out_partitions_without_a_leader);
    RUN(test_sticky_ignores_keys);
    RUN(test_staged_records_expire);
    RUN(test_a_forgotten_topic_stages_and_requests_metadata);
    RUN(test_a_record_that_meets_the_withdrawal_requests_metadata);
    RUN(test_a_refusing_engine_takes_no_lock);
    RUN(test_topic_id);
    RUN(test_publishing_under_fire_keeps_order);
    print_cost();
    return check_done();
}
