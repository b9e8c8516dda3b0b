/* Tallies: each row has one outcome, the ticket comes with the last, and what is delivered waits for nobody. */
#include "check.h"
#include "base/status.h"
#include "engine/engine.h"

static struct kn_engine *engine;
static struct kn_topic *topic;

static void begin(int report_all)
{
    struct kn_engine_config config;
    kn_engine_config_init(&config);
    config.report_all = report_all;
    engine = kn_engine_new(&config);
    topic = kn_engine_topic(engine, "t", 1, 1);
}

static void end(void)
{
    kn_engine_stop(engine);
    kn_engine_free(engine);
    CHECK_EQ(kn_tally_live(), 0);
    CHECK_EQ(kn_batch_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

/* A batch with these opaques, as if it had been sent. */
static struct kn_batch *batch_of(void **opaques, int32_t count)
{
    struct kn_batch *batch = kn_batch_new(topic, 0, 1024);
    batch->opaques = calloc((size_t)count, sizeof *opaques);
    memcpy(batch->opaques, opaques, (size_t)count * sizeof *opaques);
    batch->opaque_capacity = batch->writer.record_count = count;
    kn_budget_take(&engine->budget, count, 0);
    return batch;
}

static struct kn_batch *next(void)
{
    struct kn_list *node = kn_queue_pop(&engine->deliveries);
    return node ? KN_LIST_ENTRY(node, struct kn_batch, node) : NULL;
}

static void check_ticket(struct kn_tally *tally, int64_t delivered)
{
    struct kn_batch *ticket = next();
    CHECK(ticket != NULL && ticket->tally == tally);
    CHECK_EQ(atomic_load(&tally->delivered), delivered);
    CHECK_EQ(kn_engine_outstanding(engine), 1); /* flush() waits for it */
    kn_tally_free(tally);
    kn_engine_delivered(engine, ticket);
    CHECK_EQ(kn_engine_outstanding(engine), 0);
}

static void test_tokens_keep_slot_and_row(void)
{
    struct kn_tally tally = {.slot = KN_TALLY_SLOTS_MAX};
    void *token = kn_tally_token(&tally, KN_TALLY_ROWS_MAX - 1);
    CHECK(kn_token_is(token));
    CHECK_EQ(kn_token_slot(token), KN_TALLY_SLOTS_MAX);
    CHECK_EQ(kn_token_row(token), KN_TALLY_ROWS_MAX - 1);
    CHECK(kn_token_is(KN_TOKEN_TAKEN) && kn_token_slot(KN_TOKEN_TAKEN) == 0);
    CHECK(!kn_token_is(&tally) && !kn_token_is(NULL));
}

static void test_delivered_rows_are_counted_and_freed(void)
{
    begin(0);
    struct kn_tally *one = kn_tally_new(engine, NULL), *two = kn_tally_new(engine, NULL);
    kn_tally_begin(one, 3);
    kn_tally_begin(two, 2);
    void *opaques[] = {kn_tally_token(one, 0), kn_tally_token(one, 1), NULL, kn_tally_token(two, 0), kn_tally_token(one, 2)};
    kn_engine_deliver(engine, batch_of(opaques, 5));
    CHECK(next() == NULL); /* both calls are on */
    CHECK_EQ(kn_engine_outstanding(engine), 0);
    kn_tally_settle(two, 1, 0); /* a row that wasn't queued after all */
    CHECK_EQ(kn_tally_close(two), 1);
    kn_queue_push(&engine->deliveries, &two->ticket->node);
    check_ticket(two, 1);
    kn_tally_begin(one, 1);
    CHECK_EQ(kn_tally_close(one), 0);
    kn_engine_deliver(engine, batch_of((void *[]){kn_tally_token(one, 3)}, 1));
    check_ticket(one, 4);
    end();
}

static void test_failed_and_mixed_batches_go_to_the_binding(void)
{
    int object;
    begin(0);
    struct kn_tally *tally = kn_tally_new(engine, NULL);
    kn_tally_begin(tally, 2);
    struct kn_batch *failed = batch_of((void *[]){kn_tally_token(tally, 0)}, 1);
    kn_batch_set_error(failed, KN_ERR_TIMED_OUT, 0, NULL, 0);
    kn_engine_deliver(engine, failed);
    kn_engine_deliver(engine, batch_of((void *[]){kn_tally_token(tally, 1), &object}, 2));
    CHECK_EQ(kn_tally_close(tally), 0);
    CHECK(next() == failed);
    CHECK(failed->plain == NULL); /* nobody needs its bytes */
    CHECK_EQ(kn_token_row(failed->opaques[0]), 0);
    CHECK(kn_tally_of(engine, failed->opaques[0]) == tally);
    kn_tally_settle(tally, 1, 0);
    kn_engine_delivered(engine, failed);
    struct kn_batch *mixed = next();
    CHECK(mixed->plain != NULL);
    kn_tally_settle(tally, 1, 1);
    kn_engine_delivered(engine, mixed);
    check_ticket(tally, 1);
    end();
}

static void test_messages_of_others_are_reported_where_everything_is(void)
{
    begin(1);
    struct kn_tally *tally = kn_tally_new(engine, NULL);
    kn_tally_begin(tally, 1);
    kn_engine_deliver(engine, batch_of((void *[]){kn_tally_token(tally, 0), NULL}, 2));
    struct kn_batch *batch = next();
    CHECK(batch != NULL && batch->tally == NULL);
    kn_engine_delivered(engine, batch);
    end(); /* the tally goes with the engine, with its ticket */
}

static void test_many_at_a_time(void)
{
    enum { COUNT = 100 };
    struct kn_tally *tallies[COUNT];
    begin(0);
    for (int i = 0; i < COUNT; i++) CHECK((tallies[i] = kn_tally_new(engine, NULL)) != NULL);
    for (int i = 0; i < COUNT; i++) CHECK(kn_tally_of(engine, kn_tally_token(tallies[i], i)) == tallies[i]);
    for (int i = 0; i < COUNT; i += 2) kn_tally_discard(tallies[i]);
    for (int i = 0; i < COUNT; i += 2) CHECK((tallies[i] = kn_tally_new(engine, NULL)) != NULL);
    CHECK(engine->tallies.capacity <= 2 * COUNT); /* places are used again */
    for (int i = 0; i < COUNT; i++) CHECK(kn_tally_of(engine, kn_tally_token(tallies[i], i)) == tallies[i]);
    for (int i = 0; i < COUNT; i++) kn_tally_discard(tallies[i]);
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
