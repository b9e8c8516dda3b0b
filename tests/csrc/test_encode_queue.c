/* Compression beside the broker thread: full requests are encoded ahead and sent in order, and
 * their batches come back if the request can't be sent. */
#include <unistd.h>
#include "sender_check.h"

/* two such values fill a batch, and one batch fills a request */
enum { HALF_BYTES = 495000, WORKERS = 2, AHEAD = WORKERS + 1, ID_STEP = 1 << 20 };

static atomic_int compressions, slow_compressions; /* how many of the next compressions are slow */

static int halve(const uint8_t *src, size_t size_bytes, int level, struct kn_buffer **out)
{
    (void)level;
    atomic_fetch_add(&compressions, 1);
    if (atomic_fetch_sub(&slow_compressions, 1) > 0) usleep(30000);
    return kn_buffer_append(out, src, size_bytes / 2);
}

static void one_at_a_time(struct kn_engine_config *config)
{
    config->produce.linger_us = 0;
    config->produce.codec = KN_CODEC_ZSTD;
    config->produce.max_in_flight = 1;
    config->produce.retry_backoff_ms = config->produce.retry_backoff_max_ms = 50;
}

static void setup_workers(int workers, void (*configure)(struct kn_engine_config *config))
{
    setup_with(configure);
    engine->client.codecs.codecs[KN_CODEC_ZSTD] = (struct kn_codec){.name = "zstd",
                                                                    .compress = halve};
    kn_worker_pool_deinit(&engine->producer.workers);
    kn_worker_pool_init(&engine->producer.workers, workers);
    atomic_store(&compressions, 0);
    atomic_store(&slow_compressions, 0);
}

static void teardown_workers(void)
{
    CHECK_EQ(sender->encode_queue.count, 0);
    kn_worker_pool_stop(&engine->producer.workers);
    teardown();
}

static void produce_full(int batches)
{
    static uint8_t value[HALF_BYTES];
    struct kn_message message = {.partition = 0,
                                 .value = value,
                                 .value_bytes = HALF_BYTES,
                                 .key_bytes = -1,
                                 .timestamp_ms = 1700000000000};
    for (int i = 0; i < 2 * batches; i++) CHECK_EQ(kn_topic_produce(topic, &message), KN_OK);
}

static struct kn_accumulator *accumulator(void)
{
    return atomic_load(&topic->table)->partitions[0];
}

/* Steps until the next request is sent. */
static struct kn_produce *await_request(void)
{
    for (int i = 0; i < 5000; i++) {
        step();
        struct kn_produce *request = sent_first();
        if (request) return request;
        usleep(1000);
    }
    CHECK(!"a request within five seconds");
    return NULL;
}

static void answer_ok(struct kn_produce *request)
{
    answer_with(request, (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 0);
}

static void await_encoded(int count)
{
    CHECK_EQ(sender->encode_queue.count, count);
    for (int i = 0; i < count; i++) {
        struct kn_task *task =
            &sender->encode_queue.ring[(sender->encode_queue.first + i) % KN_ENCODE_QUEUE_MAX].task;
        for (int tries = 0; tries < 5000 && !kn_task_is_done(task); tries++) usleep(1000);
        CHECK(kn_task_is_done(task));
    }
}

/* Finishes the rest of `count` batches, each in its own request, in order from this id on. */
static void finish_in_order(int64_t id, int count)
{
    for (int i = 0; i < count; i++) {
        struct kn_produce *request = await_request();
        CHECK_EQ(request->batch_count, 1);
        CHECK_EQ(request->batches[0]->id, id + i * ID_STEP);
        CHECK_EQ(request->batches[0]->codec, KN_CODEC_ZSTD);
        answer_ok(request);
    }
    check_idle();
}

static void test_full_requests_are_encoded_ahead_and_sent_at_once_when_it_is_their_turn(void)
{
    setup_workers(WORKERS, one_at_a_time);
    produce_full(7);
    struct kn_produce *request = await_request();
    int64_t id = request->batches[0]->id;
    CHECK_EQ(step(), KN_NEVER); /* a response or the worker pool wakes the sender */
    CHECK(kn_sender_wants_connection(sender));
    await_encoded(AHEAD);
    CHECK(atomic_load(&fake.wakes) > 0);
    CHECK_EQ(list_count(&fake.sent), 0);
    CHECK_EQ(broker.in_flight, 1);
    CHECK_EQ(atomic_load(&compressions), AHEAD + 1);
    answer_ok(request);
    step();
    request = sent_first();
    CHECK(request); /* nothing had to be waited for */
    CHECK_EQ(request->batches[0]->id, id + ID_STEP);
    answer_ok(request);
    finish_in_order(id + 2 * ID_STEP, 5);
    CHECK_EQ(atomic_load(&compressions), 7);
    teardown_workers();
}

static void five_in_flight(struct kn_engine_config *config)
{
    one_at_a_time(config);
    config->produce.max_in_flight = 5;
}

static void test_encoded_requests_leave_in_the_order_of_the_picks(void)
{
    setup_workers(WORKERS, five_in_flight);
    atomic_store(&slow_compressions, 1); /* the oldest */
    produce_full(4);
    int64_t id = 0;
    struct kn_list out; /* unanswered until all four are sent */
    kn_list_init(&out);
    for (int i = 0; i < 4; i++) {
        struct kn_produce *request = await_request();
        if (i == 0) id = request->batches[0]->id;
        CHECK_EQ(request->batches[0]->id, id + i * ID_STEP);
        kn_list_push_back(&out, &request->request.node);
    }
    CHECK_EQ(broker.in_flight, 4);
    for (int i = 0; i < 4; i++) {
        struct kn_list *node = kn_list_pop_front(&out);
        answer_ok(KN_LIST_ENTRY(KN_LIST_ENTRY(node, struct kn_request, node), struct kn_produce,
                                request));
    }
    check_idle();
    teardown_workers();
}

static void test_partial_requests_wait_and_grow(void)
{
    setup_workers(WORKERS, one_at_a_time);
    produce(topic, 0, "a");
    step();
    struct kn_produce *request = sent_first(); /* small, so encoded in this thread */
    CHECK(request);
    CHECK_EQ(engine->producer.workers.started, 0);
    produce(topic, 0, "b");
    step();
    produce(topic, 0, "c");
    step();
    CHECK_EQ(sender->encode_queue.count, 0);
    answer_ok(request);
    step();
    request = sent_first();
    CHECK_EQ(request->batches[0]->writer.record_count, 2);
    answer_ok(request);
    check_idle();
    teardown_workers();
}

static void test_a_retry_isnt_overtaken_by_requests_encoded_ahead(void)
{
    setup_workers(WORKERS, one_at_a_time);
    produce_full(5);
    struct kn_produce *request = await_request();
    int64_t id = request->batches[0]->id;
    await_encoded(AHEAD);
    answer_with(request, (struct answer[]){{"one", 0, 19, NULL, 0}}, 1, 0);
    CHECK_EQ(sender->encode_queue.count, 0);
    CHECK_EQ(accumulator()->in_flight, 0);
    CHECK(step() != KN_NEVER);
    CHECK_EQ(list_count(&fake.sent), 0);       /* nothing while it waits for its backoff */
    CHECK_EQ(atomic_load(&broker.retries), 1); /* the others weren't tried yet */
    finish_in_order(id, 5);
    CHECK_EQ(atomic_load(&compressions), 5); /* an encoded batch stays encoded */
    teardown_workers();
}

static void test_a_split_batch_isnt_overtaken(void)
{
    setup_workers(WORKERS, one_at_a_time);
    engine->config.produce.report_all = 1;
    produce_full(3);
    struct kn_produce *request = await_request();
    await_encoded(2);
    answer_with(request, (struct answer[]){{"one", 0, 10, NULL, 0}}, 1, 0);
    CHECK_EQ(sender->encode_queue.count, 0);
    int32_t records = 0;
    for (int64_t id = 0; records < 6;) {
        request = await_request();
        CHECK(request->batches[0]->id >= id);
        /* the halves come first */
        if (records < 2) CHECK_EQ(request->batches[0]->writer.record_count, 1);
        id = request->batches[0]->id;
        records += request->batches[0]->writer.record_count;
        answer_ok(request);
    }
    check_idle();
    teardown_workers();
}

static void test_picked_batches_go_back_when_the_connection_is_lost(void)
{
    setup_workers(WORKERS, one_at_a_time);
    produce_full(5);
    struct kn_produce *request = await_request();
    int64_t id = request->batches[0]->id;
    CHECK_EQ(sender->encode_queue.count, AHEAD); /* encoded or not */
    finish(request, 0, KN_ERR_TRANSPORT, NULL, 0);
    kn_sender_fail_picked(sender, KN_ERR_TRANSPORT, kn_clock_us());
    CHECK_EQ(sender->encode_queue.count, 0);
    CHECK_EQ(accumulator()->in_flight, 0);
    finish_in_order(id, 5);
    teardown_workers();
}

static int delivered_with(int status)
{
    int count = 0;
    struct kn_batch *batch;
    for (; (batch = delivered_first()); count++) {
        CHECK_EQ(batch->status, status);
        CHECK_EQ(batch->persistence, KN_NOT_PERSISTED);
        kn_batch_free(batch);
    }
    return count;
}

static void test_picked_batches_fail_without_retries(void)
{
    static const struct {
        int purging, refusing, timeout_ms, status;
    } cases[] = {{1, 0, 0, KN_ERR_PURGED_IN_FLIGHT},
                 {0, KN_ERR_CLOSED, 0, KN_ERR_CLOSED},
                 {0, KN_ERR_FATAL, 0, KN_ERR_PURGED},
                 {0, 0, 1, KN_ERR_TIMED_OUT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setup_workers(WORKERS, one_at_a_time);
        produce_full(AHEAD + 1);
        struct kn_produce *request = await_request();
        CHECK_EQ(sender->encode_queue.count, AHEAD);
        sender->purging = cases[i].purging;
        engine->config.produce.message_timeout_ms = cases[i].timeout_ms;
        atomic_store(&engine->producer.refusing, cases[i].refusing);
        usleep(2000);
        if (cases[i].refusing) step(); /* sees it by itself */
        else kn_sender_fail_picked(sender, KN_ERR_TRANSPORT, kn_clock_us());
        CHECK_EQ(sender->encode_queue.count, 0);
        CHECK_EQ(list_count(&fake.sent), 0);
        CHECK_EQ(delivered_with(cases[i].status), AHEAD);
        answer_ok(request);
        teardown_workers();
    }
}

static void test_throttled_sender_holds_no_messages_back_from_their_time(void)
{
    setup_workers(WORKERS, one_at_a_time);
    produce_full(AHEAD + 1);
    struct kn_produce *request = await_request();
    int64_t id = request->batches[0]->id;
    answer_with(request, (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 60);
    CHECK(step() != KN_NEVER);
    CHECK_EQ(sender->encode_queue.count, 0);
    CHECK_EQ(accumulator()->in_flight, 0);
    finish_in_order(id + ID_STEP, AHEAD);
    teardown_workers();
}

static void test_without_workers_it_is_done_here_and_the_socket_has_its_turn_in_between(void)
{
    setup_workers(0, five_in_flight);
    produce_full(3);
    for (int i = 1; i <= 3; i++) {
        step();
        CHECK_EQ(list_count(&fake.sent), i);
    }
    for (int i = 0; i < 3; i++) answer_ok(sent_first());
    check_idle();
    teardown_workers();
}

int main(void)
{
    RUN(test_full_requests_are_encoded_ahead_and_sent_at_once_when_it_is_their_turn);
    RUN(test_encoded_requests_leave_in_the_order_of_the_picks);
    RUN(test_partial_requests_wait_and_grow);
    RUN(test_a_retry_isnt_overtaken_by_requests_encoded_ahead);
    RUN(test_a_split_batch_isnt_overtaken);
    RUN(test_picked_batches_go_back_when_the_connection_is_lost);
    RUN(test_picked_batches_fail_without_retries);
    RUN(test_throttled_sender_holds_no_messages_back_from_their_time);
    RUN(test_without_workers_it_is_done_here_and_the_socket_has_its_turn_in_between);
    return check_done();
}
