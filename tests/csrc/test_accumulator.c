/* An accumulator alone: batches, buffers, notifications, order, expiry. */
#include <pthread.h>
#include "base/kafka_errors.h"
#include "produce_fakes.h"

static struct kn_engine *engine;
static struct kn_topic *topic;
static struct kn_accumulator accumulator;
static struct kn_broker leader, other;

static void setup(void)
{
    engine = fake_engine();
    topic = kn_topic_new(&engine->producer, "t", 1, 7);
    CHECK(topic);
    kn_accumulator_init(&accumulator, topic->producer, topic, topic->token, 0);
    fake_broker_init(&leader, engine);
    fake_broker_init(&other, engine);
}

static void teardown(void)
{
    check_batches(&accumulator);
    kn_accumulator_deinit(&accumulator);
    kn_topic_free(topic);
    fake_engine_free(engine);
}

static void reinit(void) /* after a change of the configuration */
{
    kn_accumulator_deinit(&accumulator);
    kn_accumulator_init(&accumulator, topic->producer, topic, topic->token, 0);
}

static int append_with(const char *value, void *opaque)
{
    struct kn_message message = message_of_text(NULL, value);
    message.opaque = opaque;
    struct kn_append append = {.message = &message,
                               .bound_bytes = kn_record_bound_bytes(-1, message.value_bytes, 0),
                               .budget_bytes = message.value_bytes,
                               .timestamp_ms = message.timestamp_ms};
    struct kn_notice notice;
    int status = kn_budget_take(&engine->producer.budget, 1, append.budget_bytes);
    CHECK_EQ(status, KN_OK);
    status = kn_accumulator_append(&accumulator, &append, &notice);
    kn_notice_send(&notice, &accumulator);
    if (status != KN_OK) kn_budget_give(&engine->producer.budget, 1, append.budget_bytes);
    check_batches(&accumulator);
    return status;
}

static void append(const char *value) { CHECK_EQ(append_with(value, NULL), KN_OK); }

static struct kn_batch *take_at(struct kn_broker *broker, int64_t now_us, int64_t *next_us)
{
    check_batches(&accumulator);
    return kn_accumulator_take(&accumulator, broker, now_us, next_us);
}

static struct kn_batch *take_now(struct kn_broker *broker)
{
    int64_t next_us;
    return take_at(broker, kn_clock_us() + 1000000, &next_us);
}

static void test_records_of_one_batch_keep_order_and_budget(void)
{
    setup();
    kn_accumulator_set_leader(&accumulator, &leader, 3);
    append("a");
    append("bb");
    append("ccc");
    struct kn_batch *batch = take_now(&leader);
    CHECK(batch);
    CHECK(strcmp(values_of(batch), "a bb ccc") == 0);
    CHECK_EQ(batch->budget_bytes, 6);
    CHECK(batch->opaques == NULL && batch->partitions == NULL);
    CHECK_EQ(accumulator.in_flight, 1);
    kn_accumulator_settle(&accumulator, batch);
    CHECK_EQ(accumulator.in_flight, 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.bytes), 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    CHECK(delivered_first() == batch);
    kn_batch_free(batch);
    teardown();
}

static void test_opaques_are_parallel_to_records_and_only_if_asked_for(void)
{
    setup();
    kn_accumulator_set_leader(&accumulator, &leader, 0);
    static int tokens[200];
    append("none");
    CHECK(accumulator.open->opaques == NULL);
    for (int i = 0; i < 200; i++) CHECK_EQ(append_with("x", i % 3 ? &tokens[i] : NULL), KN_OK);
    struct kn_batch *batch = take_now(&leader);
    CHECK_EQ(batch->writer.record_count, 201);
    CHECK(batch->opaques[0] == NULL);
    for (int i = 0; i < 200; i++) CHECK(batch->opaques[i + 1] == (i % 3 ? &tokens[i] : NULL));
    kn_accumulator_settle(&accumulator, batch);
    teardown();
}

static void test_buffer_starts_small_grows_to_the_batch_size_and_the_next_starts_there(void)
{
    setup();
    kn_accumulator_set_leader(&accumulator, &leader, 0);
    static char value[1001];
    memset(value, 'v', 1000);
    append(value);
    CHECK(accumulator.open->plain->capacity_bytes <= 32 << 10);
    struct kn_batch *first = accumulator.open;
    while (accumulator.open == first) append(value);
    CHECK(accumulator.open->plain->capacity_bytes >= 1000000);
    CHECK(accumulator.open->plain->capacity_bytes < 4000000);
    struct kn_batch *batch = take_now(&leader);
    CHECK(batch == first);
    CHECK(batch->plain->size_bytes <= 1000000 && batch->plain->size_bytes > 990000);
    CHECK(each_record(batch, NULL, NULL) > 900);
    kn_accumulator_settle(&accumulator, batch);
    teardown();
}

static void test_batch_is_complete_at_its_message_count(void)
{
    setup();
    engine->config.produce.batch_messages = 3;
    kn_accumulator_set_leader(&accumulator, &leader, 0);
    append("1");
    append("2");
    CHECK(accumulator.open);
    append("3");
    CHECK(accumulator.open == NULL);
    append("4");
    int64_t next_us, now_us = kn_clock_us();
    struct kn_batch *batch = take_at(&leader, now_us, &next_us);
    CHECK(strcmp(values_of(batch), "1 2 3") == 0);
    CHECK(next_us > now_us && next_us <= now_us + 5000); /* the rest lingers */
    CHECK(take_at(&leader, now_us, &next_us) == NULL);
    struct kn_batch *rest = take_at(&leader, next_us, &next_us);
    CHECK(strcmp(values_of(rest), "4") == 0);
    CHECK_EQ(next_us, KN_NEVER);
    CHECK(rest->id > batch->id);
    kn_accumulator_settle(&accumulator, batch);
    kn_accumulator_settle(&accumulator, rest);
    teardown();
}

static void test_record_larger_than_a_batch_travels_alone(void)
{
    setup();
    engine->config.produce.batch_bytes = 200;
    reinit();
    kn_accumulator_set_leader(&accumulator, &leader, 0);
    static char large[5001];
    memset(large, 'L', 5000);
    append("small");
    append(large);
    append("after");
    CHECK_EQ(list_count(&accumulator.waiting), 2);
    static const int32_t counts[] = {1, 1, 1};
    for (int i = 0; i < 3; i++) {
        struct kn_batch *batch = take_now(&leader);
        CHECK_EQ(batch->writer.record_count, counts[i]);
        kn_accumulator_settle(&accumulator, batch);
    }
    teardown();
}

static void test_notifications_are_one_to_linger_and_one_when_complete(void)
{
    setup();
    engine->config.produce.batch_messages = 100;
    kn_accumulator_set_leader(&accumulator, &leader, 0);
    CHECK_EQ(fake.notice_count, 0);
    int64_t before_us = kn_clock_us();
    for (int i = 0; i < 99; i++) append("x");
    CHECK_EQ(fake.notice_count, 1);
    CHECK(fake.notices[0].broker == &leader && fake.notices[0].accumulator == &accumulator);
    CHECK(fake.notices[0].at_us >= before_us + 5000 &&
          fake.notices[0].at_us <= kn_clock_us() + 5000);
    append("x");
    CHECK_EQ(fake.notice_count, 2);
    CHECK(fake.notices[1].at_us <= kn_clock_us());
    /* the leader hasn't checked yet: its one check will see all */
    for (int i = 0; i < 500; i++) append("x");
    CHECK_EQ(fake.notice_count, 2);
    struct kn_batch *batch = take_now(&leader);
    kn_accumulator_settle(&accumulator, batch);
    teardown();
}

static void test_without_linger_there_is_one_notification_until_the_leader_looks(void)
{
    setup();
    engine->config.produce.linger_us = 0;
    engine->config.produce.batch_messages = 10;
    kn_accumulator_set_leader(&accumulator, &leader, 0);
    for (int i = 0; i < 35; i++) append("x");
    CHECK_EQ(fake.notice_count, 1);
    int64_t next_us;
    struct kn_batch *batch = take_at(&leader, kn_clock_us(), &next_us);
    CHECK(batch && next_us <= kn_clock_us());
    append("x");
    CHECK_EQ(fake.notice_count, 1); /* the leader will check again at next_us by itself */
    kn_accumulator_settle(&accumulator, batch);
    while ((batch = take_now(&leader))) kn_accumulator_settle(&accumulator, batch);
    append("x");
    CHECK_EQ(fake.notice_count, 2);
    teardown();
}

static void test_flushing_switches_linger_off(void)
{
    setup();
    engine->config.produce.linger_us = 900000000;
    kn_accumulator_set_leader(&accumulator, &leader, 0);
    append("x");
    int64_t next_us;
    CHECK(take_at(&leader, kn_clock_us(), &next_us) == NULL);
    CHECK(next_us > kn_clock_us() + 800000000);
    atomic_fetch_add(&engine->producer.flushing, 1);
    append("y");
    struct kn_batch *batch = take_at(&leader, kn_clock_us(), &next_us);
    CHECK(strcmp(values_of(batch), "x y") == 0);
    kn_accumulator_settle(&accumulator, batch);
    append("z");
    CHECK(fake.notices[fake.notice_count - 1].at_us <= kn_clock_us());
    teardown();
}

static void test_a_recreated_topic_waits_for_the_responses_of_the_old_one(void)
{
    setup();
    const uint8_t first[16] = {1}, second[16] = {2};
    engine->config.produce.batch_messages = 1;
    kn_accumulator_set_leader(&accumulator, &leader, 0);
    kn_accumulator_set_topic_id(&accumulator, first);
    append("1");
    append("2");
    append("3");
    struct kn_batch *one = take_now(&leader), *two = take_now(&leader);
    CHECK(one && two && memcmp(two->topic_id, first, 16) == 0);
    kn_accumulator_set_topic_id(&accumulator, second);
    kn_accumulator_set_leader(&accumulator, &leader, 0); /* as metadata does */
    CHECK(take_now(&leader) == NULL);
    kn_accumulator_settle(&accumulator, one);
    CHECK(take_now(&leader) == NULL);
    long notices = fake.notice_count;
    kn_accumulator_requeue(&accumulator, two, 0); /* UNKNOWN_TOPIC_ID */
    CHECK_EQ(fake.notice_count, notices + 1);
    struct kn_batch *again = take_now(&leader), *three = take_now(&leader);
    CHECK(again == two && three);
    CHECK(memcmp(two->topic_id, second, 16) == 0 && memcmp(three->topic_id, second, 16) == 0);
    /* a broker that doesn't know topic ids: the topic counts as the same */
    kn_accumulator_set_topic_id(&accumulator, kn_no_topic_id);
    append("4");
    struct kn_batch *four = take_now(&leader);
    CHECK(four != NULL);
    kn_accumulator_settle(&accumulator, two);
    kn_accumulator_settle(&accumulator, three);
    kn_accumulator_settle(&accumulator, four);
    teardown();
}

static void test_only_the_leader_takes_and_a_new_one_waits_for_the_old_ones_answers(void)
{
    setup();
    engine->config.produce.batch_messages = 1;
    kn_accumulator_set_leader(&accumulator, &leader, 0);
    append("1");
    append("2");
    append("3");
    CHECK(take_now(&other) == NULL);
    struct kn_batch *one = take_now(&leader), *two = take_now(&leader);
    CHECK(one && two);
    kn_accumulator_set_leader(&accumulator, &other, 1);
    CHECK(fake.notices[fake.notice_count - 1].broker == &other);
    CHECK(take_now(&leader) == NULL);
    CHECK(take_now(&other) == NULL);
    kn_accumulator_settle(&accumulator, one);
    CHECK(take_now(&other) == NULL);
    long notices = fake.notice_count;
    /* the old leader refused it: now none is in flight */
    kn_accumulator_requeue(&accumulator, two, 0);
    CHECK_EQ(fake.notice_count, notices + 1);
    CHECK(fake.notices[notices].broker == &other);
    struct kn_batch *again = take_now(&other);
    CHECK(again == two);
    kn_accumulator_settle(&accumulator, again);
    kn_accumulator_settle(&accumulator, take_now(&other));
    CHECK(accumulator.in_flight_broker == NULL);
    teardown();
}

static void test_retries_go_back_in_order_and_delay_younger_batches(void)
{
    setup();
    engine->config.produce.batch_messages = 1;
    kn_accumulator_set_leader(&accumulator, &leader, 0);
    for (int i = 0; i < 4; i++) append("x");
    struct kn_batch *batches[3];
    for (int i = 0; i < 3; i++) batches[i] = take_now(&leader);
    int64_t now_us = kn_clock_us() + 1000000, next_us;
    kn_accumulator_requeue(&accumulator, batches[1], now_us + 50);
    kn_accumulator_requeue(&accumulator, batches[2], now_us);
    kn_accumulator_requeue(&accumulator, batches[0], now_us + 100);
    CHECK(take_at(&leader, now_us, &next_us) == NULL);
    CHECK_EQ(next_us, now_us + 100);
    for (int i = 0; i < 4; i++) {
        struct kn_batch *batch = take_at(&leader, now_us + 100, &next_us);
        CHECK(batch);
        CHECK_EQ(batch->id, 1 + ((int64_t)i << 20));
        kn_accumulator_settle(&accumulator, batch);
    }
    teardown();
}

static void test_the_parts_of_a_split_batch_go_first(void)
{
    setup();
    kn_accumulator_set_leader(&accumulator, &leader, 0);
    for (int i = 0; i < 4; i++) append("abcd" + i);
    struct kn_batch *batch = take_now(&leader);
    append("later");
    CHECK_EQ(kn_accumulator_split(&accumulator, batch, 1), KN_OK);
    static const char *const values[] = {"abcd", "bcd cd d", "later"};
    for (int i = 0; i < 3; i++) {
        batch = take_now(&leader);
        CHECK(batch && strcmp(values_of(batch), values[i]) == 0);
        kn_accumulator_settle(&accumulator, batch);
    }
    teardown();
}

static void test_expiry_leaves_taken_batches_alone(void)
{
    setup();
    engine->config.produce.batch_messages = 1;
    engine->config.produce.message_timeout_ms = 10;
    kn_accumulator_set_leader(&accumulator, &leader, 0);
    append("in flight");
    append("retried");
    append("waiting");
    struct kn_batch *in_flight = take_now(&leader), *retried = take_now(&leader);
    kn_batch_raise_persistence(retried, KN_POSSIBLY_PERSISTED);
    kn_accumulator_requeue(&accumulator, retried, kn_clock_us() + 1000000000);
    engine->config.produce.batch_messages = 10;
    append("open");
    kn_accumulator_expire(&accumulator, kn_clock_us() + 9000);
    CHECK(kn_list_empty(&fake.delivered));
    kn_accumulator_expire(&accumulator, kn_clock_us() + 10000);
    static const char *const values[] = {"retried", "waiting", "open"};
    for (int i = 0; i < 3; i++) {
        struct kn_batch *batch = delivered_first();
        CHECK_EQ(batch->status, KN_ERR_TIMED_OUT);
        CHECK(strcmp(values_of(batch), values[i]) == 0);
        CHECK_EQ(batch->persistence, i == 0 ? KN_POSSIBLY_PERSISTED : KN_NOT_PERSISTED);
        kn_batch_free(batch);
    }
    CHECK(kn_list_empty(&fake.delivered));
    CHECK(strcmp(values_of(in_flight), "in flight") == 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 1);
    kn_accumulator_settle(&accumulator, in_flight);
    teardown();
}

static void test_wants_resets_the_notification(void)
{
    setup();
    engine->config.produce.message_timeout_ms = 1;
    kn_accumulator_set_leader(&accumulator, &leader, 0);
    append("x");
    CHECK_EQ(fake.notice_count, 1);
    CHECK_EQ(kn_accumulator_wants(&accumulator, &leader), 1);
    CHECK_EQ(kn_accumulator_wants(&accumulator, &other), 0);
    kn_accumulator_expire(&accumulator, kn_clock_us() + 1000000);
    append("y");
    CHECK_EQ(fake.notice_count, 1); /* the first notification is still valid */
    kn_accumulator_expire(&accumulator, kn_clock_us() + 1000000);
    CHECK_EQ(kn_accumulator_wants(&accumulator, &leader), 0);
    append("z");
    CHECK_EQ(fake.notice_count, 2);
    teardown();
}

static void test_closed_engine_refuses_and_keeps_nothing(void)
{
    setup();
    atomic_store(&engine->producer.refusing, KN_ERR_CLOSED);
    CHECK_EQ(append_with("x", NULL), KN_ERR_CLOSED);
    CHECK(accumulator.open == NULL);
    teardown();
}

/* --- threads: four produce; one leader takes, and settles or requeues; one expires --- */

#define THREADS 4
#define PER_THREAD 20000

static atomic_int producers_left;

static void *produce_many(void *argument)
{
    int thread = (int)(intptr_t)argument;
    char text[64];
    for (int i = 0; i < PER_THREAD; i++) {
        snprintf(text, sizeof text, "%d:%d", thread, i);
        CHECK_EQ(append_with(text, i % 7 == 0 ? text : NULL), KN_OK);
    }
    atomic_fetch_sub(&producers_left, 1);
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

static void *take_all(void *argument)
{
    (void)argument;
    int64_t next_us;
    int turn = 0;
    for (;;) {
        int last = atomic_load(&producers_left) == 0;
        struct kn_batch *batch = take_at(&leader, kn_clock_us(), &next_us);
        if (!batch) {
            if (last && next_us == KN_NEVER) return NULL;
            kn_accumulator_expire(&accumulator, kn_clock_us());
            continue;
        }
        if (++turn % 3 == 0) kn_accumulator_requeue(&accumulator, batch, kn_clock_us() + 100);
        else kn_accumulator_settle(&accumulator, batch);
    }
}

static void test_threads_lose_and_reorder_nothing(void)
{
    setup();
    engine->config.produce.linger_us = 200;
    engine->config.produce.batch_messages = 500;
    engine->config.produce.batch_bytes = 4000;
    reinit();
    kn_accumulator_set_leader(&accumulator, &leader, 0);
    memset(next_of, 0, sizeof next_of);
    atomic_store(&producers_left, THREADS);
    pthread_t threads[THREADS], taker;
    CHECK_EQ(pthread_create(&taker, NULL, take_all, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, produce_many, (void *)(intptr_t)i), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    pthread_join(taker, NULL);
    struct kn_batch *batch;
    while ((batch = delivered_first())) {
        each_record(batch, check_order, NULL);
        kn_batch_free(batch);
    }
    for (int i = 0; i < THREADS; i++) CHECK_EQ(next_of[i], PER_THREAD);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.bytes), 0);
    teardown();
}

static struct kn_batch *take_number(int32_t base_sequence, int16_t epoch)
{
    struct kn_batch *batch = take_now(&leader);
    CHECK(batch);
    CHECK_EQ(batch->base_sequence, base_sequence);
    CHECK_EQ(batch->producer_epoch, epoch);
    return batch;
}

static void number_setup(void)
{
    setup();
    engine->config.produce.idempotence = KN_IDEMPOTENCE_DEMANDED;
    engine->config.produce.batch_messages = 2;
    reinit();
    kn_accumulator_set_leader(&accumulator, &leader, 0);
}

static void settle_as(struct kn_batch *batch, enum kn_persistence persistence)
{
    batch->persistence = persistence;
    kn_accumulator_settle(&accumulator, batch);
    kn_batch_free(delivered_first());
}

static void settle_and_free(struct kn_batch *batch) { settle_as(batch, KN_PERSISTED); }

static void test_nothing_is_taken_before_there_is_a_producer_id(void)
{
    number_setup();
    append("a");
    CHECK(take_now(&leader) == NULL);
    kn_accumulator_grant(&accumulator, 9, 0);
    struct kn_batch *batch = take_number(0, 0);
    CHECK_EQ(batch->producer_id, 9);
    settle_and_free(batch);
    teardown();
}

static void test_without_an_identity_to_be_had_batches_go_out_without_numbers(void)
{
    number_setup();
    append("a");
    CHECK(take_now(&leader) == NULL);
    kn_accumulator_grant(&accumulator, KN_PRODUCER_WAIVED, -1);
    struct kn_batch *batch = take_number(-1, -1);
    CHECK_EQ(batch->producer_id, -1);
    append("b");
    append("c");
    append("d");
    struct kn_batch *beside = take_number(-1, -1); /* one in flight at a time isn't needed here */
    settle_and_free(batch);
    settle_and_free(beside);
    teardown();
}

static void test_numbers_rise_by_records_wrap_and_stay_with_a_retry(void)
{
    number_setup();
    kn_accumulator_grant(&accumulator, 9, 0);
    append("a");
    append("b");
    append("c");
    settle_and_free(take_number(0, 0));
    accumulator.sequence.next = INT32_MAX;
    struct kn_batch *last = take_number(INT32_MAX, 0);
    append("d");
    struct kn_batch *wrapped = take_number(0, 0);
    kn_accumulator_requeue(&accumulator, wrapped, 0);
    kn_accumulator_requeue(&accumulator, last, 0);
    CHECK(take_number(INT32_MAX, 0) == last);
    CHECK(take_number(0, 0) == wrapped);
    settle_and_free(wrapped);
    settle_and_free(last);
    teardown();
}

static void test_a_new_epoch_waits_for_batches_numbered_in_the_old_one(void)
{
    number_setup();
    kn_accumulator_grant(&accumulator, 9, 0);
    append("a");
    struct kn_batch *old = take_number(0, 0);
    kn_accumulator_grant(&accumulator, 9, 1); /* as if another partition had asked for it */
    append("b");
    CHECK(take_now(&leader) == NULL);
    kn_accumulator_requeue(&accumulator, old, 0);
    CHECK(take_number(0, 0) == old);
    CHECK(take_now(&leader) == NULL);
    settle_and_free(old);
    settle_and_free(take_number(0, 1));
    teardown();
}

static void test_only_a_refusal_of_the_oldest_batch_renumbers_all(void)
{
    number_setup();
    kn_accumulator_grant(&accumulator, 9, 0);
    append("a");
    append("b");
    struct kn_batch *first = take_number(0, 0);
    append("c");
    CHECK(take_now(&leader) == NULL); /* the broker may not know the producer yet */
    accumulator.sequence.proved = 1;
    struct kn_batch *second = take_number(2, 0);
    first->encoded = second->encoded = 1;
    CHECK_EQ(
        kn_accumulator_out_of_sequence(&accumulator, second, KN_KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER),
        KN_SEQUENCE_RETRY);
    CHECK_EQ(kn_accumulator_out_of_sequence(&accumulator, first, KN_KAFKA_UNKNOWN_PRODUCER_ID),
             KN_SEQUENCE_RESTART);
    kn_accumulator_requeue(&accumulator, first, 0);
    CHECK(take_now(&leader) == NULL); /* the second one is still in flight */
    kn_accumulator_requeue(&accumulator, second, 0);
    CHECK(take_now(&leader) == NULL); /* and there is no newer epoch yet */
    kn_accumulator_grant(&accumulator, 9, 1);
    CHECK(take_number(0, 1) == first);
    CHECK(!first->encoded && !second->encoded);
    settle_and_free(first);
    CHECK(take_number(2, 1) == second);
    settle_and_free(second);
    teardown();
}

static void refuse(struct kn_batch *batch, int16_t error_code)
{
    kn_batch_set_error(batch, KN_OK, error_code, NULL, 0);
    settle_as(batch, KN_NOT_PERSISTED);
}

/* Takes six batches of two records each, beginning with this number. One before was written. */
static void take_six(struct kn_batch **batches, int32_t first)
{
    append("a");
    append("b");
    settle_and_free(take_number(0, 0));
    accumulator.sequence.next = first;
    for (int i = 0; i < 6; i++) {
        append("a");
        append("b");
        batches[i] = take_number((int32_t)(((uint32_t)first + 2 * (uint32_t)i) & INT32_MAX), 0);
    }
}

static void test_a_tolerated_batch_gives_its_numbers_to_those_behind_it(void)
{
    number_setup();
    atomic_store(&engine->producer.transaction.tolerant, 1);
    kn_accumulator_grant(&accumulator, 9, 0);
    struct kn_batch *batches[6];
    take_six(batches, INT32_MAX - 4); /* the fourth has the number 2 */
    settle_and_free(batches[0]);
    /* The broker checks records before numbers: the fourth is refused, too. The second one has no
     * answer yet, so it may have been written. */
    refuse(batches[3], KN_KAFKA_INVALID_RECORD);
    refuse(batches[2], KN_KAFKA_MESSAGE_TOO_LARGE);
    CHECK_EQ(accumulator.sequence.gap, INT32_MAX);
    append("c");
    append("d");
    CHECK(take_now(&leader) == NULL); /* others are in flight */
    CHECK_EQ(kn_accumulator_out_of_sequence(&accumulator, batches[4],
                                            KN_KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER),
             KN_SEQUENCE_RETRY);
    batches[4]->attempts = 3;
    kn_accumulator_requeue(&accumulator, batches[4], KN_NEVER - 1);
    kn_batch_raise_persistence(batches[1], KN_POSSIBLY_PERSISTED);
    kn_accumulator_requeue(&accumulator, batches[1], 0);
    CHECK(take_now(&leader) == NULL);
    kn_accumulator_requeue(&accumulator, batches[5], 0);
    CHECK(take_number(INT32_MAX - 2, 0) == batches[1]); /* it keeps its number */
    CHECK(take_number(INT32_MAX, 0) ==
          batches[4]); /* at once: it was refused for no fault of its own */
    CHECK_EQ(batches[4]->attempts, 0);
    CHECK(take_number(1, 0) == batches[5]);
    settle_and_free(batches[1]);
    settle_and_free(batches[4]);
    settle_and_free(batches[5]);
    settle_and_free(take_number(3, 0));
    teardown();
}

static void test_batches_behind_a_failed_one_dont_wait_for_their_next_try(void)
{
    number_setup();
    kn_accumulator_grant(&accumulator, 9, 0);
    struct kn_batch *batches[6];
    take_six(batches, 2);
    refuse(batches[0], KN_KAFKA_INVALID_RECORD);
    CHECK_EQ(kn_accumulator_out_of_sequence(&accumulator, batches[1],
                                            KN_KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER),
             KN_SEQUENCE_RESTART);
    for (int i = 1; i < 6; i++) kn_accumulator_requeue(&accumulator, batches[i], KN_NEVER - 1);
    CHECK(take_now(&leader) == NULL); /* there is no newer epoch yet */
    kn_accumulator_grant(&accumulator, 9, 1);
    CHECK(take_number(0, 1) == batches[1]);
    /* refused again, for no known reason: this time it waits */
    CHECK_EQ(kn_accumulator_out_of_sequence(&accumulator, batches[1],
                                            KN_KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER),
             KN_SEQUENCE_RESTART);
    kn_accumulator_requeue(&accumulator, batches[1], KN_NEVER - 1);
    kn_accumulator_grant(&accumulator, 9, 2);
    CHECK(take_now(&leader) == NULL);
    batches[1]->next_try_us = 0;
    for (int i = 1; i < 6; i++) {
        CHECK(take_number(2 * (i - 1), 2) == batches[i]);
        settle_and_free(batches[i]);
    }
    teardown();
}

static void test_only_surely_unwritten_batches_are_tolerated(void)
{
    number_setup();
    kn_accumulator_grant(&accumulator, 9, 0);
    struct kn_batch *batches[6];
    take_six(batches, 2);
    refuse(batches[0], KN_KAFKA_INVALID_RECORD); /* nothing is tolerated yet */
    atomic_store(&engine->producer.transaction.tolerant, 1);
    refuse(batches[1], KN_KAFKA_NOT_ENOUGH_REPLICAS);
    kn_batch_set_error(batches[2], KN_OK, KN_KAFKA_INVALID_RECORD, NULL, 0);
    settle_as(batches[2], KN_POSSIBLY_PERSISTED);
    kn_batch_set_error(batches[3], KN_ERR_TIMED_OUT, KN_KAFKA_INVALID_RECORD, NULL, 0);
    settle_as(batches[3], KN_NOT_PERSISTED);
    settle_and_free(batches[4]);
    CHECK(!accumulator.sequence.has_gap);
    refuse(batches[5], KN_KAFKA_RECORD_LIST_TOO_LARGE);
    append("c");
    append("d");
    settle_and_free(take_number(12, 0));
    teardown();
}

static void test_a_refusal_without_a_failed_batch_means_lost_records(void)
{
    number_setup();
    kn_accumulator_grant(&accumulator, 9, 0);
    struct kn_batch *batches[6];
    for (int i = 0; i < 6; i++) {
        append("a");
        append("b");
        batches[i] = take_number(2 * i, 0);
        accumulator.sequence.proved = 1;
    }
    /* The first batch was written, so nothing explains that the second is out of order. But an
     * unknown producer id is no loss yet. */
    settle_and_free(batches[0]);
    CHECK_EQ(kn_accumulator_out_of_sequence(&accumulator, batches[1],
                                            KN_KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER),
             KN_SEQUENCE_LOST);
    kn_batch_raise_persistence(batches[1], KN_POSSIBLY_PERSISTED);
    CHECK_EQ(kn_accumulator_out_of_sequence(&accumulator, batches[1], KN_KAFKA_UNKNOWN_PRODUCER_ID),
             KN_SEQUENCE_LOST);
    CHECK(!accumulator.sequence.restart);
    /* The third batch fails before the second is written. The broker may refuse the batches behind
     * the third, but none after the fourth was written. */
    settle_as(batches[2], KN_NOT_PERSISTED);
    settle_and_free(batches[1]);
    CHECK_EQ(kn_accumulator_out_of_sequence(&accumulator, batches[3],
                                            KN_KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER),
             KN_SEQUENCE_RESTART);
    accumulator.sequence.restart = 0;
    settle_and_free(batches[3]);
    CHECK_EQ(kn_accumulator_out_of_sequence(&accumulator, batches[4],
                                            KN_KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER),
             KN_SEQUENCE_LOST);
    CHECK_EQ(kn_accumulator_out_of_sequence(&accumulator, batches[4], KN_KAFKA_UNKNOWN_PRODUCER_ID),
             KN_SEQUENCE_RESTART);
    settle_and_free(batches[4]);
    settle_and_free(batches[5]);
    teardown();
}

/* Takes four batches behind a written one; all may have been written. */
static void take_four_possible(struct kn_batch **batches)
{
    number_setup();
    kn_accumulator_grant(&accumulator, 9, 0);
    append("a");
    append("b");
    struct kn_batch *first = take_number(0, 0);
    first->base_offset = 100;
    settle_and_free(first);
    accumulator.sequence.proved = 1;
    for (int i = 0; i < 4; i++) {
        append("a");
        append("b");
        batches[i] = take_number(2 + 2 * i, 0);
        kn_batch_raise_persistence(batches[i], KN_POSSIBLY_PERSISTED);
    }
}

static enum kn_sequence_verdict out_of_order(struct kn_batch *batch)
{
    return kn_accumulator_out_of_sequence(&accumulator, batch,
                                          KN_KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER);
}

static void write_last(struct kn_batch **batches, int64_t base_offset)
{
    batches[3]->persistence = KN_PERSISTED;
    batches[3]->base_offset = base_offset;
    kn_accumulator_settle(&accumulator, batches[3]);
}

/* Ends with three failed batches. Then the last one, which was written, is reported. */
static void fail_others(struct kn_batch **batches)
{
    for (int i = 0; i < 3; i++) settle_as(batches[i], KN_POSSIBLY_PERSISTED);
    CHECK(delivered_first() == batches[3]);
    kn_batch_free(batches[3]);
    teardown();
}

/* A restarted broker knows only the last batch of a producer. */
static void test_a_later_batch_proves_that_refused_ones_were_written(void)
{
    struct kn_batch *batches[4];
    take_four_possible(batches);
    for (int i = 0; i < 3; i++) CHECK_EQ(out_of_order(batches[i]), KN_SEQUENCE_RETRY);
    write_last(batches, 108);              /* 102 was the end, and six records are between */
    CHECK(kn_list_empty(&fake.delivered)); /* it waits for those before it */
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(out_of_order(batches[i]), KN_SEQUENCE_WRITTEN);
        settle_and_free(batches[i]);
    }
    CHECK(delivered_first() == batches[3]);
    kn_batch_free(batches[3]);
    CHECK(!accumulator.sequence.restart);
    teardown();
}

static void test_a_refusal_of_the_last_possible_batch_proves_a_loss(void)
{
    struct kn_batch *batches[4];
    take_four_possible(batches);
    CHECK_EQ(out_of_order(batches[0]), KN_SEQUENCE_RETRY);
    CHECK_EQ(out_of_order(batches[3]), KN_SEQUENCE_RETRY);
    CHECK_EQ(out_of_order(batches[0]), KN_SEQUENCE_LOST);
    for (int i = 0; i < 4; i++) settle_as(batches[i], KN_POSSIBLY_PERSISTED);
    teardown();
}

/* A broker that has forgotten the producer accepts any number. So a batch proves nothing about one
 * that the broker refuses only after it. */
static void test_a_batch_that_was_written_before_the_refusal_proves_nothing(void)
{
    struct kn_batch *batches[4];
    take_four_possible(batches);
    write_last(batches, 108);
    CHECK_EQ(out_of_order(batches[2]), KN_SEQUENCE_RETRY);
    CHECK_EQ(out_of_order(batches[0]), KN_SEQUENCE_LOST);
    fail_others(batches);
}

/* After an unclean election, the log may end before the batch that was written last. */
static void test_an_offset_without_room_for_the_older_batches_proves_nothing(void)
{
    struct kn_batch *batches[4];
    take_four_possible(batches);
    for (int i = 0; i < 3; i++) CHECK_EQ(out_of_order(batches[i]), KN_SEQUENCE_RETRY);
    write_last(batches, 107);
    CHECK_EQ(out_of_order(batches[0]), KN_SEQUENCE_LOST);
    fail_others(batches);
}

static void test_a_batch_waits_only_so_long_for_a_later_one(void)
{
    struct kn_batch *batches[4];
    take_four_possible(batches);
    for (int i = 0; i < 3; i++) CHECK_EQ(out_of_order(batches[0]), KN_SEQUENCE_RETRY);
    CHECK_EQ(out_of_order(batches[0]), KN_SEQUENCE_LOST);
    for (int i = 0; i < 4; i++) settle_as(batches[i], KN_POSSIBLY_PERSISTED);
    teardown();
}

static void test_a_loss_restarts_the_numbers_if_idempotence_is_only_wanted(void)
{
    number_setup();
    engine->config.produce.idempotence = KN_IDEMPOTENCE_WANTED;
    kn_accumulator_grant(&accumulator, 9, 0);
    append("a");
    append("b");
    settle_and_free(take_number(0, 0));
    append("c");
    append("d");
    struct kn_batch *batch = take_number(2, 0);
    CHECK_EQ(
        kn_accumulator_out_of_sequence(&accumulator, batch, KN_KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER),
        KN_SEQUENCE_RESTART);
    kn_accumulator_requeue(&accumulator, batch, 0);
    CHECK(take_now(&leader) == NULL); /* not before there is a newer epoch */
    kn_accumulator_grant(&accumulator, 9, 1);
    settle_and_free(take_number(0, 1));
    teardown();
}

static void test_after_a_fatal_error_nothing_is_taken_in_or_out(void)
{
    number_setup();
    kn_accumulator_grant(&accumulator, 9, 0);
    append("a");
    kn_producer_refuse(&engine->producer);
    CHECK(take_now(&leader) == NULL);
    struct kn_message message = {.value = (const uint8_t *)"b", .value_bytes = 1};
    struct kn_append append = {.message = &message, .bound_bytes = 40};
    struct kn_notice notice;
    CHECK_EQ(kn_accumulator_append(&accumulator, &append, &notice), KN_ERR_FATAL);
    teardown();
}

int main(void)
{
    RUN(test_records_of_one_batch_keep_order_and_budget);
    RUN(test_opaques_are_parallel_to_records_and_only_if_asked_for);
    RUN(test_buffer_starts_small_grows_to_the_batch_size_and_the_next_starts_there);
    RUN(test_batch_is_complete_at_its_message_count);
    RUN(test_record_larger_than_a_batch_travels_alone);
    RUN(test_notifications_are_one_to_linger_and_one_when_complete);
    RUN(test_without_linger_there_is_one_notification_until_the_leader_looks);
    RUN(test_flushing_switches_linger_off);
    RUN(test_a_recreated_topic_waits_for_the_responses_of_the_old_one);
    RUN(test_only_the_leader_takes_and_a_new_one_waits_for_the_old_ones_answers);
    RUN(test_retries_go_back_in_order_and_delay_younger_batches);
    RUN(test_the_parts_of_a_split_batch_go_first);
    RUN(test_expiry_leaves_taken_batches_alone);
    RUN(test_wants_resets_the_notification);
    RUN(test_closed_engine_refuses_and_keeps_nothing);
    RUN(test_threads_lose_and_reorder_nothing);
    RUN(test_nothing_is_taken_before_there_is_a_producer_id);
    RUN(test_without_an_identity_to_be_had_batches_go_out_without_numbers);
    RUN(test_numbers_rise_by_records_wrap_and_stay_with_a_retry);
    RUN(test_a_new_epoch_waits_for_batches_numbered_in_the_old_one);
    RUN(test_only_a_refusal_of_the_oldest_batch_renumbers_all);
    RUN(test_a_tolerated_batch_gives_its_numbers_to_those_behind_it);
    RUN(test_batches_behind_a_failed_one_dont_wait_for_their_next_try);
    RUN(test_only_surely_unwritten_batches_are_tolerated);
    RUN(test_a_refusal_without_a_failed_batch_means_lost_records);
    RUN(test_a_later_batch_proves_that_refused_ones_were_written);
    RUN(test_a_refusal_of_the_last_possible_batch_proves_a_loss);
    RUN(test_a_batch_that_was_written_before_the_refusal_proves_nothing);
    RUN(test_an_offset_without_room_for_the_older_batches_proves_nothing);
    RUN(test_a_batch_waits_only_so_long_for_a_later_one);
    RUN(test_a_loss_restarts_the_numbers_if_idempotence_is_only_wanted);
    RUN(test_after_a_fatal_error_nothing_is_taken_in_or_out);
    return check_done();
}
