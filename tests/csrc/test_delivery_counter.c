/* Delivery counters: each row has one outcome, the completion comes with the last row, and
 * delivered batches need no poll(). */
#include "check.h"
#include "base/status.h"
#include "engine/engine.h"

static struct kn_engine *engine;
static struct kn_topic *topic;

static void begin(int report_all)
{
    struct kn_engine_config config;
    kn_engine_config_init(&config);
    config.produce.report_all = report_all;
    engine = kn_engine_new(&config, NULL);
    topic = kn_producer_topic(&engine->producer, "t", 1, 1);
}

static void end(void)
{
    kn_engine_stop(engine);
    kn_engine_free(engine);
    CHECK_EQ(kn_delivery_counter_live(), 0);
    CHECK_EQ(kn_batch_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

/* Makes a batch with these opaques, as if it had been sent. */
static struct kn_batch *batch_of(void **opaques, int32_t count)
{
    struct kn_batch *batch = kn_batch_new(engine->client.pool, topic, 0, 1024);
    batch->opaques = calloc((size_t)count, sizeof *opaques);
    memcpy(batch->opaques, opaques, (size_t)count * sizeof *opaques);
    batch->opaque_capacity = batch->writer.record_count = count;
    kn_budget_take(&engine->producer.budget, count, 0);
    return batch;
}

static struct kn_batch *next(void)
{
    struct kn_list *node = kn_queue_pop(&engine->deliveries);
    return node ? KN_LIST_ENTRY(node, struct kn_batch, node) : NULL;
}

static void check_completion(struct kn_delivery_counter *counter, int64_t delivered)
{
    struct kn_batch *completion = next();
    CHECK(completion != NULL && completion->counter == counter);
    CHECK_EQ(atomic_load(&counter->delivered), delivered);
    CHECK_EQ(kn_engine_outstanding(engine), 1); /* flush() waits for it */
    kn_delivery_counter_free(counter);
    kn_engine_batch_reported(engine, completion);
    CHECK_EQ(kn_engine_outstanding(engine), 0);
}

static void test_tokens_keep_slot_and_row(void)
{
    struct kn_delivery_counter counter = {.slot = KN_DELIVERY_COUNTER_SLOTS_MAX};
    void *token = kn_delivery_counter_token(&counter, KN_DELIVERY_COUNTER_ROWS_MAX - 1);
    CHECK(kn_token_is(token));
    CHECK_EQ(kn_token_slot(token), KN_DELIVERY_COUNTER_SLOTS_MAX);
    CHECK_EQ(kn_token_row(token), KN_DELIVERY_COUNTER_ROWS_MAX - 1);
    CHECK(kn_token_is(KN_TOKEN_TAKEN) && kn_token_slot(KN_TOKEN_TAKEN) == 0);
    CHECK(!kn_token_is(&counter) && !kn_token_is(NULL));
}

static void test_delivered_rows_are_counted_and_freed(void)
{
    begin(0);
    struct kn_delivery_counter *one = kn_delivery_counter_new(&engine->counters, NULL),
                               *two = kn_delivery_counter_new(&engine->counters, NULL);
    kn_delivery_counter_begin(one, 3);
    kn_delivery_counter_begin(two, 2);
    void *opaques[] = {kn_delivery_counter_token(one, 0), kn_delivery_counter_token(one, 1), NULL,
                       kn_delivery_counter_token(two, 0), kn_delivery_counter_token(one, 2)};
    kn_client_deliver(&engine->client, batch_of(opaques, 5));
    CHECK(next() == NULL); /* both calls still run */
    CHECK_EQ(kn_engine_outstanding(engine), 0);
    kn_delivery_counter_settle(two, 1, 0); /* a row that couldn't be queued */
    CHECK_EQ(kn_delivery_counter_close(two), 1);
    kn_queue_push(&engine->deliveries, &two->completion->node);
    check_completion(two, 1);
    kn_delivery_counter_begin(one, 1);
    CHECK_EQ(kn_delivery_counter_close(one), 0);
    kn_client_deliver(&engine->client, batch_of((void *[]){kn_delivery_counter_token(one, 3)}, 1));
    check_completion(one, 4);
    end();
}

static void test_failed_and_mixed_batches_go_to_the_binding(void)
{
    int object;
    begin(0);
    struct kn_delivery_counter *counter = kn_delivery_counter_new(&engine->counters, NULL);
    kn_delivery_counter_begin(counter, 2);
    struct kn_batch *failed = batch_of((void *[]){kn_delivery_counter_token(counter, 0)}, 1);
    kn_batch_set_error(failed, KN_ERR_TIMED_OUT, 0, NULL, 0);
    kn_client_deliver(&engine->client, failed);
    kn_client_deliver(&engine->client,
                      batch_of((void *[]){kn_delivery_counter_token(counter, 1), &object}, 2));
    CHECK_EQ(kn_delivery_counter_close(counter), 0);
    CHECK(next() == failed);
    CHECK(failed->plain == NULL); /* its bytes are freed */
    CHECK_EQ(kn_token_row(failed->opaques[0]), 0);
    CHECK(kn_delivery_counter_of(&engine->counters, failed->opaques[0]) == counter);
    kn_delivery_counter_settle(counter, 1, 0);
    kn_engine_batch_reported(engine, failed);
    struct kn_batch *mixed = next();
    CHECK(mixed->plain != NULL);
    kn_delivery_counter_settle(counter, 1, 1);
    kn_engine_batch_reported(engine, mixed);
    check_completion(counter, 1);
    end();
}

static void test_messages_of_others_are_reported_where_everything_is(void)
{
    begin(1);
    struct kn_delivery_counter *counter = kn_delivery_counter_new(&engine->counters, NULL);
    kn_delivery_counter_begin(counter, 1);
    kn_client_deliver(&engine->client,
                      batch_of((void *[]){kn_delivery_counter_token(counter, 0), NULL}, 2));
    struct kn_batch *batch = next();
    CHECK(batch != NULL && batch->counter == NULL);
    kn_engine_batch_reported(engine, batch);
    end(); /* the engine frees the counter and its completion */
}

static void test_many_at_a_time(void)
{
    enum { COUNT = 100 };
    struct kn_delivery_counter *counters[COUNT];
    begin(0);
    for (int i = 0; i < COUNT; i++)
        CHECK((counters[i] = kn_delivery_counter_new(&engine->counters, NULL)) != NULL);
    for (int i = 0; i < COUNT; i++)
        CHECK(kn_delivery_counter_of(&engine->counters,
                                     kn_delivery_counter_token(counters[i], i)) == counters[i]);
    for (int i = 0; i < COUNT; i += 2) kn_delivery_counter_discard(counters[i]);
    for (int i = 0; i < COUNT; i += 2)
        CHECK((counters[i] = kn_delivery_counter_new(&engine->counters, NULL)) != NULL);
    CHECK(engine->counters.capacity <= 2 * COUNT); /* slots are reused */
    for (int i = 0; i < COUNT; i++)
        CHECK(kn_delivery_counter_of(&engine->counters,
                                     kn_delivery_counter_token(counters[i], i)) == counters[i]);
    for (int i = 0; i < COUNT; i++) kn_delivery_counter_discard(counters[i]);
    end();
}

int main(void)
{
    RUN(test_tokens_keep_slot_and_row);
    RUN(test_delivered_rows_are_counted_and_freed);
    RUN(test_failed_and_mixed_batches_go_to_the_binding);
    RUN(test_messages_of_others_are_reported_where_everything_is);
    RUN(test_many_at_a_time);
    return check_done();
}
