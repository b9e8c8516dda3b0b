/* A transactional producer: when messages are taken, when a partition's batches may be sent, which
 * failures are reported. */
#include <pthread.h>
#include "base/kafka_errors.h"
#include "engine_check.h"
#include "engine/engine.h"

static struct kn_engine *engine;
static struct kn_topic *topic;
static struct kn_broker *leader;

/* A leader that never connects: the test takes the batches itself. */
static void setup(void)
{
    struct kn_engine_config config;
    int32_t epochs[2] = {0};
    kn_engine_config_init(&config);
    strcpy(config.produce.transactional_id, "tx");
    config.produce.idempotence = KN_IDEMPOTENCE_DEMANDED;
    config.produce.report_all = 1;
    config.produce.batch_messages = 1;
    engine = kn_engine_new(&config, NULL);
    CHECK(engine);
    topic = kn_producer_topic(&engine->producer, "topic", 5, 3);
    CHECK(topic);
    CHECK_EQ(kn_engine_broker_add(engine, 1, "127.0.0.1", peer_closed_port()), 0);
    leader = kn_engine_broker(engine, 0);
    struct kn_broker *leaders[2] = {leader, leader};
    CHECK_EQ(kn_topic_set_partitions(topic, NULL, 2, leaders, epochs), KN_OK);
    kn_engine_grant(engine, 7, 0);
}

static void teardown(void)
{
    kn_engine_stop(engine);
    kn_engine_free(engine);
    CHECK_EQ(kn_event_live(), 0);
    CHECK_EQ(kn_batch_live(), 0);
}

static int produce_to(int32_t partition)
{
    struct kn_message message = {
        .partition = partition, .key_bytes = -1, .value = (const uint8_t *)"v", .value_bytes = 1};
    return kn_topic_produce(topic, &message);
}

static struct kn_accumulator *partition_of(int32_t partition)
{
    return atomic_load(&topic->table)->partitions[partition];
}

static struct kn_batch *take(int32_t partition)
{
    int64_t next_us;
    return kn_accumulator_take(partition_of(partition), leader, kn_clock_us() + 1000000, &next_us);
}

/* Finds the next event of a kind and drops others. Returns whether there was one. */
static int next_event(enum kn_event_kind kind, struct kn_event *copy)
{
    struct kn_list *node;
    while ((node = kn_queue_pop(&engine->client.control->events))) {
        struct kn_event *event = KN_LIST_ENTRY(node, struct kn_event, node);
        int found = event->kind == kind;
        if (found) *copy = *event;
        kn_event_free(event);
        if (found) return 1;
    }
    return 0;
}

static int none_of(enum kn_event_kind kind)
{
    struct kn_event event;
    return !next_event(kind, &event);
}

static void settle(int32_t partition, struct kn_batch *batch, int16_t error_code)
{
    batch->error_code = error_code;
    if (!error_code) kn_batch_raise_persistence(batch, KN_PERSISTED);
    kn_accumulator_settle(partition_of(partition), batch);
}

static void test_messages_are_taken_from_begin_to_shut_only(void)
{
    setup();
    CHECK_EQ(produce_to(0), KN_ERR_NO_TRANSACTION);
    CHECK_EQ(kn_engine_transaction_begin(engine, 1, 1, 0), KN_OK);
    CHECK_EQ(produce_to(0), KN_OK);
    kn_engine_transaction_close(engine);
    CHECK_EQ(produce_to(0), KN_ERR_NO_TRANSACTION);
    struct kn_message run[3] = {{0}};
    int32_t queued = 0;
    for (int i = 0; i < 3; i++)
        run[i] = (struct kn_message){
            .key_bytes = -1, .value = (const uint8_t *)"v", .value_bytes = 1};
    CHECK_EQ(kn_topic_produce_run(topic, run, 3, &queued), KN_ERR_NO_TRANSACTION);
    CHECK_EQ(queued, 0);
    /* a refused message has returned its room */
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 1);
    teardown();
}

static void test_a_partition_is_asked_for_once_a_transaction_and_sends_once_it_is_in(void)
{
    struct kn_event event;
    setup();
    for (int64_t number = 1; number <= 2; number++) {
        CHECK_EQ(kn_engine_transaction_begin(engine, number, 0, 0), KN_OK);
        CHECK(take(0) == NULL);
        CHECK(none_of(KN_EVENT_TXN_PARTITION)); /* there is nothing to send */
        CHECK_EQ(produce_to(0), KN_OK);
        CHECK_EQ(produce_to(1), KN_OK);
        CHECK(take(0) == NULL);
        CHECK(next_event(KN_EVENT_TXN_PARTITION, &event));
        CHECK_EQ(event.partition, 0);
        CHECK_EQ(event.token, 3);
        CHECK_EQ(event.offset, number);
        CHECK(take(0) == NULL);
        CHECK(none_of(KN_EVENT_TXN_PARTITION));
        /* a late answer for the last transaction */
        kn_engine_transaction_admit(engine, topic, 0, number - 1);
        CHECK(take(0) == NULL);
        kn_engine_transaction_admit(engine, topic, 0, number);
        struct kn_batch *batch = take(0);
        CHECK(batch);
        settle(0, batch, 0);
        CHECK(take(1) == NULL);
        CHECK(next_event(KN_EVENT_TXN_PARTITION, &event));
        CHECK_EQ(event.partition, 1);
        kn_engine_transaction_admit(engine, topic, 1, number);
        batch = take(1);
        CHECK(batch);
        settle(1, batch, 0);
        kn_engine_transaction_close(engine);
    }
    teardown();
}

static void test_messages_queued_before_a_transaction_closes_are_sent_in_it(void)
{
    setup();
    CHECK_EQ(kn_engine_transaction_begin(engine, 1, 0, 0), KN_OK);
    CHECK_EQ(produce_to(0), KN_OK);
    kn_engine_transaction_close(engine);
    CHECK(take(0) == NULL);
    kn_engine_transaction_admit(engine, topic, 0, 1);
    struct kn_batch *batch = take(0);
    CHECK(batch);
    settle(0, batch, 0);
    teardown();
}

static void test_with_implicit_admission_a_partition_does_not_wait(void)
{
    struct kn_event event;
    setup();
    for (int64_t number = 1; number <= 2; number++) {
        CHECK_EQ(kn_engine_transaction_begin(engine, number, 1, 0), KN_OK);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(produce_to(0), KN_OK);
            struct kn_batch *batch = take(0);
            CHECK(batch);
            /* before anything is sent, once */
            CHECK_EQ(next_event(KN_EVENT_TXN_PARTITION, &event), i == 0);
            settle(0, batch, 0);
        }
        kn_engine_transaction_close(engine);
    }
    teardown();
}

static void test_held_batches_are_sent_at_their_time(void)
{
    setup();
    CHECK_EQ(kn_engine_transaction_begin(engine, 1, 1, 0), KN_OK);
    int64_t held_us = kn_clock_us() + 3600000000, next_us;
    atomic_store(&engine->producer.transaction.held_us, held_us);
    CHECK(kn_accumulator_take(partition_of(0), leader, kn_clock_us(), &next_us) == NULL);
    CHECK_EQ(next_us, KN_NEVER); /* there is nothing to send */
    CHECK_EQ(produce_to(0), KN_OK);
    CHECK(kn_accumulator_take(partition_of(0), leader, held_us - 1, &next_us) == NULL);
    CHECK_EQ(next_us, held_us);
    CHECK(none_of(KN_EVENT_TXN_PARTITION));
    struct kn_batch *batch = kn_accumulator_take(partition_of(0), leader, held_us, &next_us);
    CHECK(batch);
    settle(0, batch, 0);
    teardown();
}

static void test_the_first_failure_of_a_transaction_is_reported_before_outstanding_is_zero(void)
{
    struct kn_event event;
    setup();
    for (int64_t number = 1; number <= 2; number++) {
        CHECK_EQ(kn_engine_transaction_begin(engine, number, 1, 0), KN_OK);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(produce_to(0), KN_OK);
            struct kn_batch *batch = take(0);
            CHECK(batch);
            settle(0, batch, i ? 29 : 0);
            CHECK_EQ(next_event(KN_EVENT_TXN_FAILED, &event), i == 1);
        }
        CHECK_EQ(event.error_code, 29);
        CHECK_EQ(event.offset, number);
        CHECK_EQ(event.token, 3);
    }
    teardown();
}

static void test_a_purge_costs_the_transaction_and_closing_says_nothing(void)
{
    struct kn_event event;
    setup();
    CHECK_EQ(kn_engine_transaction_begin(engine, 1, 0, 0), KN_OK);
    CHECK_EQ(produce_to(0), KN_OK);
    CHECK_EQ(kn_engine_purge(engine, 1, 0), KN_OK);
    CHECK(next_event(KN_EVENT_TXN_FAILED, &event));
    CHECK_EQ(event.status, KN_ERR_PURGED);
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    CHECK_EQ(kn_engine_transaction_begin(engine, 2, 0, 0), KN_OK);
    CHECK_EQ(produce_to(0), KN_OK);
    kn_engine_stop(engine);
    CHECK(none_of(KN_EVENT_TXN_FAILED));
    teardown();
}

/* A leader that lost messages isn't fatal for the producer: an abort undoes the transaction. */
static void test_refused_numbers_fail_only_the_transaction(void)
{
    setup();
    CHECK_EQ(kn_engine_transaction_begin(engine, 1, 1, 0), KN_OK);
    CHECK_EQ(produce_to(0), KN_OK);
    settle(0, take(0), 0);
    CHECK_EQ(produce_to(0), KN_OK);
    struct kn_batch *batch = take(0);
    CHECK(batch);
    CHECK_EQ(kn_accumulator_out_of_sequence(partition_of(0), batch,
                                            KN_KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER),
             KN_SEQUENCE_RESTART);
    kn_accumulator_requeue(partition_of(0), batch, 0);
    CHECK(take(0) == NULL); /* nothing more under this epoch */
    CHECK_EQ(kn_engine_purge(engine, 1, 0), KN_OK);
    kn_engine_grant(engine, 7, 1);
    CHECK_EQ(kn_engine_transaction_begin(engine, 2, 1, 0), KN_OK);
    CHECK_EQ(produce_to(0), KN_OK);
    batch = take(0);
    CHECK(batch);
    CHECK_EQ(batch->producer_epoch, 1);
    CHECK_EQ(batch->base_sequence, 0);
    settle(0, batch, 0);
    teardown();
}

/* --- threads: each message is in the transaction that ends next, or is refused --- */

static atomic_int stopping;

static void *produce_on(void *counted)
{
    while (!atomic_load(&stopping)) {
        if (produce_to(0) == KN_OK) ++*(int64_t *)counted;
    }
    return NULL;
}

static void test_nothing_gets_in_between_two_transactions(void)
{
    setup();
    pthread_t threads[2];
    int64_t counts[2] = {0}, taken = 0;
    atomic_store(&stopping, 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, produce_on, &counts[i]), 0);
    for (int64_t number = 1; number <= 200; number++) {
        CHECK_EQ(kn_engine_transaction_begin(engine, number, 1, 0), KN_OK);
        while (number % 2 && atomic_load(&engine->producer.budget.messages) == 0) sched_yield();
        kn_engine_transaction_close(engine);
        while (atomic_load(&engine->producer.budget.messages) > 0) {
            /* like a commit: until no message is outstanding */
            struct kn_batch *batch = take(0);
            if (!batch) continue;
            taken += batch->writer.record_count;
            settle(0, batch, 0);
        }
        CHECK(take(0) == NULL);
    }
    atomic_store(&stopping, 1);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK_EQ(taken, counts[0] + counts[1]);
    teardown();
}

int main(void)
{
    RUN(test_messages_are_taken_from_begin_to_shut_only);
    RUN(test_a_partition_is_asked_for_once_a_transaction_and_sends_once_it_is_in);
    RUN(test_messages_queued_before_a_transaction_closes_are_sent_in_it);
    RUN(test_with_implicit_admission_a_partition_does_not_wait);
    RUN(test_held_batches_are_sent_at_their_time);
    RUN(test_the_first_failure_of_a_transaction_is_reported_before_outstanding_is_zero);
    RUN(test_a_purge_costs_the_transaction_and_closing_says_nothing);
    RUN(test_refused_numbers_fail_only_the_transaction);
    RUN(test_nothing_gets_in_between_two_transactions);
    return check_done();
}
