/* The fetcher, driven by the test against a scripted broker: what each request adds to the session,
 * resting, closer replicas, hostile responses. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine_bench.h"
#include "base/endian.h"
#include "records/batch_writer.h"

#define NOW (1000 * MS)
#define VERSION 11
#define PARTITIONS_MAX 10000
#define OFFSET_NONE INT64_C(-77)
#define SESSION 4711

struct asked { /* a Fetch request as the broker reads it, by partition of topic "topic" */
    int32_t correlation_id, session_id, session_epoch, max_wait_ms;
    int32_t count, forgotten_count;
    int32_t first;                   /* the first partition in the request */
    int64_t offsets[PARTITIONS_MAX]; /* OFFSET_NONE: not in the request */
    int32_t max_bytes[PARTITIONS_MAX];
    int forgotten[PARTITIONS_MAX];
    char rack[16];
};

static struct asked asked;
static struct kn_cursor *cursors[PARTITIONS_MAX];

static void ask_partitions(struct kn_span *span)
{
    int32_t topics = kn_span_i32(span);
    for (int32_t t = 0; t < topics; t++) {
        kn_span_take(span, (size_t)kn_span_i16(span));
        int32_t partitions = kn_span_i32(span);
        for (int32_t p = 0; p < partitions; p++) {
            int32_t index = kn_span_i32(span);
            kn_span_i32(span);
            CHECK(index >= 0 && index < PARTITIONS_MAX);
            CHECK_EQ(asked.offsets[index], OFFSET_NONE); /* each once */
            if (!asked.count++) asked.first = index;
            asked.offsets[index] = kn_span_i64(span);
            kn_span_i64(span);
            asked.max_bytes[index] = kn_span_i32(span);
        }
    }
    topics = kn_span_i32(span);
    for (int32_t t = 0; t < topics; t++) {
        kn_span_take(span, (size_t)kn_span_i16(span));
        int32_t partitions = kn_span_i32(span);
        for (int32_t p = 0; p < partitions; p++) {
            int32_t index = kn_span_i32(span);
            /* added and removed in one request: the broker would lose it */
            CHECK_EQ(asked.offsets[index], OFFSET_NONE);
            CHECK_EQ(asked.forgotten[index]++, 0);
            asked.forgotten_count++;
        }
    }
}

/* Waits for the next request and fills in `asked`. */
static void ask(struct bench *bench, int64_t now_us)
{
    size_t size;
    for (int i = 0; i < 20; i++) {
        struct pollfd fd = {.fd = bench->peer, .events = POLLIN};
        turn(bench, 0, now_us);
        if (poll(&fd, 1, 0) == 1) break;
    }
    memset(&asked, 0, sizeof asked);
    for (int i = 0; i < PARTITIONS_MAX; i++) asked.offsets[i] = OFFSET_NONE;
    uint8_t length[4];
    peer_read(bench->peer, length, 4);
    size = get_u32(length);
    uint8_t *frame = malloc(size);
    for (size_t got = 0; got < size;) {
        /* larger than the socket's buffers: the writer needs several steps */
        struct pollfd fd = {.fd = bench->peer, .events = POLLIN};
        turn(bench, 0, now_us);
        if (poll(&fd, 1, 10) != 1) continue;
        ssize_t more = recv(bench->peer, frame + got, size - got, 0);
        CHECK(more > 0);
        got += (size_t)more;
    }
    struct kn_span span = kn_span_of(frame, size);
    CHECK_EQ(kn_span_i16(&span), 1);
    CHECK_EQ(kn_span_i16(&span), VERSION);
    asked.correlation_id = kn_span_i32(&span);
    kn_span_take(&span, (size_t)kn_span_i16(&span));
    kn_span_i32(&span);
    asked.max_wait_ms = kn_span_i32(&span);
    kn_span_take(&span, 4 + 4 + 1);
    asked.session_id = kn_span_i32(&span);
    asked.session_epoch = kn_span_i32(&span);
    ask_partitions(&span);
    int16_t rack_bytes = kn_span_i16(&span);
    CHECK(rack_bytes >= 0 && rack_bytes < (int16_t)sizeof asked.rack);
    if (rack_bytes) memcpy(asked.rack, kn_span_take(&span, (size_t)rack_bytes), (size_t)rack_bytes);
    CHECK(!span.failed);
    CHECK_EQ(kn_span_left(&span), 0);
    free(frame);
}

struct answer { /* a response being made */
    struct kn_buffer *buffer;
};

static void put(struct answer *answer, const void *data, size_t bytes)
{
    CHECK_EQ(kn_buffer_append(&answer->buffer, data, bytes), KN_OK);
}
static void put16(struct answer *answer, int value)
{
    uint8_t b[2];
    kn_put_i16(b, (int16_t)value);
    put(answer, b, 2);
}
static void put32(struct answer *answer, int32_t value)
{
    uint8_t b[4];
    kn_put_i32(b, value);
    put(answer, b, 4);
}
static void put64(struct answer *answer, int64_t value)
{
    uint8_t b[8];
    kn_put_i64(b, value);
    put(answer, b, 8);
}

static int32_t throttle_ms; /* for the next responses */

static struct answer answer_new(int error_code, int32_t session_id, int32_t partitions)
{
    struct answer answer = {kn_buffer_take(NULL, 4096)};
    put32(&answer, throttle_ms);
    put16(&answer, error_code);
    put32(&answer, session_id);
    put32(&answer, partitions ? 1 : 0);
    if (!partitions) return answer;
    put16(&answer, 5);
    put(&answer, "topic", 5);
    put32(&answer, partitions);
    return answer;
}

/* Writes a partition's result with `count` records from `offset` on. */
static void put_partition(struct answer *answer, int32_t partition, int error_code, int32_t replica,
                          int64_t offset, int32_t count)
{
    put32(answer, partition);
    put16(answer, error_code);
    put64(answer, 1000000);
    put64(answer, 1000000);
    put64(answer, 0);
    put32(answer, 0);
    put32(answer, replica);
    if (!count) {
        put32(answer, 0);
        return;
    }
    struct kn_buffer *buffer = kn_buffer_take(NULL, 4096 + (size_t)count * 10);
    struct kn_batch_writer writer;
    struct kn_batch_meta meta = {
        .base_offset = offset, .producer_id = -1, .producer_epoch = -1, .base_sequence = -1};
    kn_batch_writer_init(&writer, buffer);
    for (int32_t i = 0; i < count; i++)
        CHECK_EQ(kn_batch_writer_append(&writer, buffer, 1000, NULL, -1, (const uint8_t *)"v", 1,
                                        NULL, 0, 0),
                 KN_OK);
    kn_batch_close(buffer, &writer, &meta);
    put32(answer, (int32_t)buffer->size_bytes);
    put(answer, buffer->data, buffer->size_bytes);
    kn_buffer_give(buffer);
}

static void send_answer(struct bench *bench, struct answer *answer, int64_t now_us)
{
    int64_t rx = kn_connection_stats(bench->broker->broker.connection)->rx;
    peer_reply(bench->peer, asked.correlation_id, answer->buffer->data, answer->buffer->size_bytes);
    kn_buffer_give(answer->buffer);
    for (int i = 0; i < 100 && kn_connection_stats(bench->broker->broker.connection)->rx == rx &&
                    state(bench) == KN_BROKER_UP;
         i++)
        turn(bench, 100, now_us);
}

/* Sends a response without partitions. */
static void send_empty(struct bench *bench, int error_code, int32_t session_id)
{
    struct answer answer = answer_new(error_code, session_id, 0);
    send_answer(bench, &answer, NOW);
}

static struct kn_cursor *cursor_new(struct bench *bench, int32_t partition, uint8_t id)
{
    uint8_t topic_id[16] = {id};
    return kn_cursor_new(&bench->engine->consumer, "topic", 5, topic_id, partition,
                         (uint64_t)partition + 1);
}

static void start(struct bench *bench, int32_t partition, int64_t offset)
{
    struct kn_cursor *cursor = cursors[partition];
    CHECK_EQ(
        kn_engine_fetch_start(bench->engine, cursor, 0, kn_cursor_next_epoch(cursor), offset, -1),
        KN_OK);
}

/* Makes a bench with this many cursors attached at offset 0, connected and open. */
static struct bench bench_with(int32_t count, void (*configure)(struct kn_engine_config *config))
{
    struct bench bench = bench_new(configure);
    for (int32_t i = 0; i < count; i++) {
        cursors[i] = cursor_new(&bench, i, 0);
        start(&bench, i, 0);
    }
    int32_t generation = connect_now(&bench, NOW);
    CHECK_EQ(kn_engine_broker_open(bench.engine, 0, generation, -1, VERSION), KN_OK);
    return bench;
}

static int drop_segments(struct bench *bench)
{
    int count = 0;
    struct kn_list *node;
    for (; (node = kn_queue_pop(&bench->engine->fetched)); count++)
        kn_segment_free(KN_LIST_ENTRY(node, struct kn_segment, node));
    return count;
}

static void bench_end(struct bench *bench, int32_t count)
{
    kn_engine_stop(bench->engine);
    drop_segments(bench);
    struct kn_list *node;
    while ((node = kn_queue_pop(&bench->engine->client.control->events)))
        kn_event_free(KN_LIST_ENTRY(node, struct kn_event, node));
    for (int32_t i = 0; i < count; i++) kn_cursor_unref(cursors[i]);
    bench_free(bench);
}

/* Makes the session: answers the first, full request without data. */
static void begin_session(struct bench *bench, int32_t count)
{
    ask(bench, NOW);
    CHECK_EQ(asked.count, count);
    CHECK_EQ(asked.session_id, 0);
    CHECK_EQ(asked.session_epoch, 0);
    send_empty(bench, 0, SESSION);
}

static void test_a_session_gets_only_changed_partitions(void)
{
    struct bench bench = bench_with(PARTITIONS_MAX, NULL);
    begin_session(&bench, PARTITIONS_MAX);
    for (int32_t epoch = 1; epoch < 4; epoch++) {
        ask(&bench, NOW);
        CHECK_EQ(asked.session_id, SESSION);
        CHECK_EQ(asked.session_epoch, epoch);
        CHECK_EQ(asked.count, epoch == 3 ? 2 : 0);
        CHECK_EQ(asked.forgotten_count, 0);
        if (epoch == 3) break;
        struct answer answer = answer_new(0, SESSION, epoch == 2 ? 2 : 0);
        if (epoch == 2) put_partition(&answer, 17, 0, -1, 0, 5);
        if (epoch == 2) put_partition(&answer, 9999, 0, -1, 0, 7);
        send_answer(&bench, &answer, NOW);
    }
    CHECK_EQ(asked.offsets[17], 5);
    CHECK_EQ(asked.offsets[9999], 7);
    start(&bench, 3, 42); /* a seek */
    kn_engine_fetch_stop(bench.engine, cursors[4], 0);
    send_empty(&bench, 0, SESSION);
    ask(&bench, NOW);
    CHECK_EQ(asked.count, 1);
    CHECK_EQ(asked.offsets[3], 42);
    CHECK_EQ(asked.forgotten_count, 1);
    CHECK_EQ(asked.forgotten[4], 1);
    bench_end(&bench, PARTITIONS_MAX);
}

static void test_a_lost_session_restarts_with_all_partitions(void)
{
    struct bench bench = bench_with(3, NULL);
    begin_session(&bench, 3);
    ask(&bench, NOW);
    send_empty(&bench, 70, 0); /* FETCH_SESSION_ID_NOT_FOUND */
    ask(&bench, NOW);
    CHECK_EQ(asked.session_epoch, 0);
    CHECK_EQ(asked.count, 3);
    struct answer answer = answer_new(0, 99, 1);
    put_partition(&answer, 1, 0, -1, 0, 5);
    send_answer(&bench, &answer, NOW);
    ask(&bench, NOW);
    CHECK_EQ(asked.session_id, 99);
    CHECK_EQ(asked.session_epoch, 1);
    CHECK_EQ(asked.count, 1);
    CHECK_EQ(asked.offsets[1], 5);
    bench_end(&bench, 3);
}

/* A broker may answer every request that it doesn't know the session. */
static void test_repeatedly_lost_sessions_cause_a_backoff(void)
{
    struct bench bench = bench_with(1, NULL);
    struct kn_fetcher *fetcher = &bench.broker->fetcher;
    int64_t backoff_us = (int64_t)bench.engine->config.fetch.fetch_error_backoff_ms * 1000;
    begin_session(&bench, 1);
    ask(&bench, NOW);
    send_empty(&bench, 70, 0); /* FETCH_SESSION_ID_NOT_FOUND */
    CHECK(fetcher->not_before_us <= kn_clock_us());
    ask(&bench, NOW);
    int64_t before_us = kn_clock_us();
    send_empty(&bench, 71, 0); /* INVALID_FETCH_SESSION_EPOCH */
    CHECK(fetcher->not_before_us >= before_us + backoff_us);
    bench_end(&bench, 1);
}

static void test_without_a_session_partitions_take_turns(void)
{
    struct bench bench = bench_with(3, NULL);
    for (int round = 0; round < 6; round++) {
        ask(&bench, NOW);
        CHECK_EQ(asked.session_epoch, 0);
        CHECK_EQ(asked.count, 3);
        /* a broker that fills its response in this order leaves no partition out for ever */
        CHECK_EQ(asked.first, round % 3);
        struct answer answer = answer_new(0, 0, 1);
        put_partition(&answer, asked.first, 0, -1, asked.offsets[asked.first], 5);
        send_answer(&bench, &answer, NOW);
    }
    bench_end(&bench, 3);
}

static void test_a_reattached_partition_stays_in_the_session(void)
{
    struct bench bench = bench_with(3, NULL);
    begin_session(&bench, 3);
    ask(&bench, NOW);
    kn_engine_fetch_stop(bench.engine, cursors[1], 0);
    kn_engine_fetch_stop(bench.engine, cursors[2], 0);
    /* the second one belongs to a topic that was created again */
    struct kn_cursor *again = cursor_new(&bench, 1, 0), *recreated = cursor_new(&bench, 2, 9);
    kn_cursor_unref(cursors[1]);
    kn_cursor_unref(cursors[2]);
    cursors[1] = again;
    cursors[2] = recreated;
    start(&bench, 1, 11);
    start(&bench, 2, 12);
    send_empty(&bench, 0, SESSION);
    ask(&bench, NOW);
    CHECK_EQ(asked.forgotten_count, 0);
    CHECK_EQ(asked.count, 2);
    CHECK_EQ(asked.offsets[1], 11);
    CHECK_EQ(asked.offsets[2], 12);
    bench_end(&bench, 3);
}

static void five_are_enough(struct kn_engine_config *config)
{
    config->fetch.queued_min_messages = 5;
}

static void test_a_resting_partition_leaves_the_session_and_returns_when_consumed(void)
{
    struct bench bench = bench_with(4, five_are_enough);
    begin_session(&bench, 4);
    ask(&bench, NOW);
    struct answer answer = answer_new(0, SESSION, 3);
    put_partition(&answer, 0, 0, -1, 0, 5);
    put_partition(&answer, 1, 0, -1, 0, 4); /* not enough */
    put_partition(&answer, 2, 0, -1, 0, 6);
    send_answer(&bench, &answer, NOW);
    ask(&bench, NOW);
    CHECK_EQ(asked.count, 1);
    CHECK_EQ(asked.offsets[1], 4);
    CHECK_EQ(asked.forgotten_count, 2);
    CHECK(asked.forgotten[0] && asked.forgotten[2]);
    CHECK(asked.max_wait_ms <= 10); /* resting partitions may be consumed meanwhile */
    CHECK_EQ(bench.broker->fetcher.resting_count, 2);
    kn_engine_fetch_stop(bench.engine, cursors[2], 0); /* one of them is detached */
    CHECK_EQ(drop_segments(&bench), 3);
    send_empty(&bench, 0, SESSION);
    ask(&bench, NOW);
    CHECK_EQ(asked.count, 1);
    CHECK_EQ(asked.offsets[0], 5); /* one is back */
    CHECK_EQ(asked.forgotten_count, 0);
    CHECK_EQ(asked.max_wait_ms, 500);
    CHECK_EQ(bench.broker->fetcher.resting_count, 0);
    send_empty(&bench, 0, SESSION);
    ask(&bench, NOW);
    CHECK_EQ(asked.count, 0);
    bench_end(&bench, 4);
}

static void test_nothing_is_asked_while_everything_rests(void)
{
    struct bench bench = bench_with(2, five_are_enough);
    ask(&bench, NOW);
    struct answer answer = answer_new(0, SESSION, 2);
    put_partition(&answer, 0, 0, -1, 0, 5);
    put_partition(&answer, 1, 0, -1, 0, 5);
    send_answer(&bench, &answer, NOW);
    CHECK_EQ(turn(&bench, 0, NOW), KN_NEVER);
    CHECK_EQ(kn_connection_in_flight(bench.broker->broker.connection), 0);
    /* a seek: the queued messages are stale, but the application hasn't dropped them yet */
    start(&bench, 0, 50);
    turn(&bench, 0, NOW);
    CHECK_EQ(kn_connection_in_flight(bench.broker->broker.connection), 0);
    CHECK_EQ(drop_segments(&bench), 2);
    CHECK(bench.broker->sleep_until_us == 0);
    ask(&bench, NOW);
    CHECK_EQ(asked.count, 2);
    CHECK_EQ(asked.offsets[0], 50);
    CHECK_EQ(asked.offsets[1], 5);
    bench_end(&bench, 2);
}

static void test_a_partition_that_rests_at_two_brokers_wakes_both(void)
{
    struct bench bench = bench_with(1, five_are_enough);
    struct kn_broker_thread *other = kn_broker_thread_new(
        &bench.engine->client, &bench.engine->producer, &bench.engine->consumer, 1, 2, "127.0.0.1",
        bench.port);
    bench.engine->brokers[bench.engine->broker_count++] = other;
    ask(&bench, NOW);
    struct answer answer = answer_new(0, SESSION, 1);
    put_partition(&answer, 0, 0, -1, 0, 5);
    send_answer(&bench, &answer, NOW);
    CHECK_EQ(bench.broker->fetcher.resting_count, 1);
    /* The control plane moves the partition; the old broker still has it. */
    CHECK_EQ(kn_fetcher_attach(&other->fetcher, cursors[0], kn_cursor_epoch(cursors[0]), 5, -1),
             KN_OK);
    CHECK_EQ(other->fetcher.resting_count, 1);
    turn(&bench, 0, NOW); /* the old broker checks again and takes the mark back */
    kn_broker_thread_step(other, 0, NOW);
    CHECK_EQ(kn_engine_fetch_stop(bench.engine, cursors[0], 0), KN_OK);
    for (int i = 0; i < 3; i++) {
        turn(&bench, 0, NOW);
        kn_broker_thread_step(other, 0, NOW);
    }
    CHECK_EQ(drop_segments(&bench), 1);
    kn_broker_thread_step(other, 0, NOW);
    CHECK_EQ(other->fetcher.resting_count, 0);
    bench_end(&bench, 1);
}

static void fifty_bytes(struct kn_engine_config *config) { config->fetch.queued_max_bytes = 50; }

static void test_a_full_queue_delays_the_opening_of_results(void)
{
    struct bench bench = bench_with(3, fifty_bytes);
    ask(&bench, NOW);
    struct answer answer = answer_new(0, SESSION, 3);
    for (int32_t i = 0; i < 3; i++) put_partition(&answer, i, 0, -1, 0, 10);
    send_answer(&bench, &answer, NOW);
    kn_cursor_next_epoch(cursors[1]); /* stale before it was opened */
    for (int i = 0; i < 3; i++) turn(&bench, 0, NOW);
    CHECK_EQ(kn_queue_count(&bench.engine->fetched), 1);
    CHECK_EQ(atomic_load(&bench.engine->consumer.starved), 1);
    CHECK_EQ(drop_segments(&bench), 1);
    turn(&bench, 0, NOW);
    CHECK_EQ(kn_queue_count(&bench.engine->fetched), 1);
    struct kn_segment *segment = KN_LIST_ENTRY(kn_queue_pop(&bench.engine->fetched),
                                               struct kn_segment, node);
    CHECK_EQ(segment->cursor->partition, 2);
    CHECK_EQ(segment->message_count, 10);
    kn_segment_free(segment);
    turn(&bench, 0, NOW);
    CHECK_EQ(bench.broker->fetcher.job_count, 0);
    CHECK_EQ(bench.broker->fetcher.job_bytes, 0);
    ask(&bench, NOW);
    CHECK_EQ(asked.offsets[0], 10);
    bench_end(&bench, 3);
}

static void test_a_small_response_is_opened_before_the_next_request(void)
{
    struct bench bench = bench_with(1, fifty_bytes);
    ask(&bench, NOW);
    struct answer answer = answer_new(0, SESSION, 1);
    put_partition(&answer, 0, 0, -1, 0, 10);
    uint32_t serial = bench.broker->fetcher.serial;
    send_answer(&bench, &answer, NOW);
    for (int i = 0; i < 3; i++) turn(&bench, 0, NOW);
    CHECK_EQ(kn_queue_count(&bench.engine->fetched), 1);
    CHECK_EQ(bench.broker->fetcher.serial, serial); /* they fill the queue */
    CHECK_EQ(drop_segments(&bench), 1);
    ask(&bench, NOW);
    CHECK_EQ(asked.offsets[0], 10);
    bench_end(&bench, 1);
}

static void thousand_bytes(struct kn_engine_config *config)
{
    config->fetch.queued_max_bytes = 1000;
}

static void test_results_after_damage_are_not_delivered(void)
{
    struct bench bench = bench_with(2, thousand_bytes);
    ask(&bench, NOW);
    bench.broker->fetcher.expansion = 1; /* so that the fetched bytes seem to fit */
    struct answer answer = answer_new(0, SESSION, 2);
    /* so large that the next request is sent before it is opened */
    put_partition(&answer, 0, 0, -1, 0, 2000);
    size_t at = answer.buffer->size_bytes;
    put_partition(&answer, 1, 0, -1, 0, 2000);
    answer.buffer->data[at + 38 + 70] ^= 1; /* within its batch */
    send_answer(&bench, &answer, NOW);
    /* The response to the request that was sent before the first response was opened; half of the
     * first is still unopened. */
    ask(&bench, NOW);
    CHECK_EQ(asked.offsets[1], 2000);
    CHECK_EQ(kn_queue_count(&bench.engine->fetched), 1);
    answer = answer_new(0, SESSION, 1);
    put_partition(&answer, 1, 0, -1, 2000, 10);
    send_answer(&bench, &answer, NOW);
    int errors = 0;
    for (int i = 0; i < 6; i++) {
        struct kn_list *node;
        while ((node = kn_queue_pop(&bench.engine->fetched))) {
            struct kn_segment *segment = KN_LIST_ENTRY(node, struct kn_segment, node);
            errors += segment->kind == KN_SEGMENT_ERROR;
            CHECK(segment->kind == KN_SEGMENT_ERROR || segment->cursor->partition == 0);
            kn_segment_free(segment);
        }
        turn(&bench, 0, NOW);
    }
    CHECK_EQ(errors, 1);
    struct kn_event *got = event(&bench, KN_EVENT_CURSOR);
    CHECK_EQ(got->status, KN_ERR_CRC);
    CHECK_EQ(got->offset, 0);
    kn_event_free(got);
    bench_end(&bench, 2);
}

/* --- KIP-392 --- */

static void with_rack(struct kn_engine_config *config)
{
    snprintf(config->fetch.rack, sizeof config->fetch.rack, "rack-a");
}

static void test_a_closer_replica_stops_the_slot_and_keeps_queued_segments(void)
{
    struct bench bench = bench_with(2, with_rack);
    ask(&bench, NOW);
    CHECK_STR(asked.rack, "rack-a");
    struct answer answer = answer_new(0, SESSION, 1);
    put_partition(&answer, 1, 0, -1, 0, 5);
    send_answer(&bench, &answer, NOW);
    ask(&bench, NOW);
    answer = answer_new(0, SESSION, 1);
    put_partition(&answer, 1, 0, 3, 0, 0);
    send_answer(&bench, &answer, NOW);
    struct kn_event *got = event(&bench, KN_EVENT_REPLICA);
    CHECK_EQ(got->token, 2);
    CHECK_EQ(got->partition, 1);
    CHECK_EQ(got->leader_id, 3);
    CHECK_EQ(got->offset, 5);
    CHECK_EQ(got->epoch, kn_cursor_epoch(cursors[1]));
    CHECK_EQ(got->error_code, 0);
    CHECK_EQ(got->status, KN_OK);
    kn_event_free(got);
    no_event(&bench);
    struct kn_segment *segment = KN_LIST_ENTRY(kn_queue_pop(&bench.engine->fetched),
                                               struct kn_segment, node);
    CHECK(!kn_segment_is_stale(segment));
    kn_segment_free(segment);
    ask(&bench, NOW);
    CHECK_EQ(asked.count, 0);
    CHECK_EQ(asked.forgotten[1], 1);
    bench_end(&bench, 2);
}

static void test_an_impossible_replica_is_ignored(void)
{
    struct bench bench = bench_with(2, with_rack);
    ask(&bench, NOW);
    struct answer answer = answer_new(0, SESSION, 2);
    /* the replica is the broker itself (node 1): this would never end */
    put_partition(&answer, 0, 0, 1, 0, 0);
    /* with records: they are used, and the broker will answer it again */
    put_partition(&answer, 1, 0, 3, 0, 5);
    send_answer(&bench, &answer, NOW);
    no_event(&bench);
    ask(&bench, NOW);
    CHECK_EQ(asked.count, 1);
    CHECK_EQ(asked.offsets[1], 5);
    answer = answer_new(0, SESSION, 1);
    put_partition(&answer, 1, 78, 3, 0, 0); /* OFFSET_NOT_AVAILABLE: an error is an error */
    send_answer(&bench, &answer, NOW);
    struct kn_event *got = event(&bench, KN_EVENT_CURSOR);
    CHECK_EQ(got->error_code, 78);
    CHECK_EQ(got->leader_id, -1);
    kn_event_free(got);
    bench_end(&bench, 2);
}

/* --- bad answers --- */

static void test_partitions_that_were_not_requested_are_ignored(void)
{
    struct bench bench = bench_with(2, NULL);
    ask(&bench, NOW);
    struct answer answer = answer_new(0, SESSION, 4);
    put_partition(&answer, 5, 0, -1, 0, 5);
    put_partition(&answer, -1, 0, -1, 0, 5);
    put_partition(&answer, INT32_MAX, 6, -1, 0, 0);
    put_partition(&answer, 1, 0, -1, 0, 5);
    send_answer(&bench, &answer, NOW);
    ask(&bench, NOW);
    CHECK_EQ(asked.count, 1);
    CHECK_EQ(asked.offsets[1], 5);
    CHECK_EQ(drop_segments(&bench), 1);
    no_event(&bench);
    bench_end(&bench, 2);
}

static void test_a_repeated_partition_is_not_read_twice(void)
{
    struct bench bench = bench_with(1, NULL);
    ask(&bench, NOW);
    struct answer answer = answer_new(0, SESSION, 2);
    put_partition(&answer, 0, 0, -1, 0, 5);
    put_partition(&answer, 0, 0, -1, 0, 5);
    send_answer(&bench, &answer, NOW);
    ask(&bench, NOW);
    CHECK_EQ(asked.offsets[0], 5);
    CHECK_EQ(drop_segments(&bench), 1);
    bench_end(&bench, 1);
}

/* Impossible counts and sizes: the session restarts after the backoff, and nothing is read outside
 * the response. */
static void test_counts_and_sizes_beyond_the_answer_are_refused(void)
{
    /* of the counts of partitions and of aborted transactions, and of the records' size */
    static const size_t places[3] = {21, 55, 63};
    static const int32_t bad[] = {INT32_MAX, INT32_MIN + 1, 1 << 30, 1000};
    for (int at = 0; at < 3; at++) {
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            struct bench bench = bench_with(1, NULL);
            ask(&bench, NOW);
            struct answer answer = answer_new(0, SESSION, 1);
            put_partition(&answer, 0, 0, -1, 0, 5);
            set_u32(answer.buffer->data + places[at], (uint32_t)bad[i]);
            send_answer(&bench, &answer, NOW);
            for (int turns = 0; turns < 4; turns++) turn(&bench, 0, NOW);
            CHECK(drop_segments(&bench) <= 1);
            ask(&bench, kn_clock_us() + 60000 * MS);
            CHECK(asked.offsets[0] == OFFSET_NONE || asked.offsets[0] == 0 ||
                  asked.offsets[0] == 5);
            bench_end(&bench, 1);
        }
    }
}

static void share_a_thousand(struct kn_engine_config *config)
{
    config->fetch.partition_fetch_bytes = 100;
    config->fetch.shared_fetch_bytes = 1000;
}

static void test_few_partitions_share_a_fetch(void)
{
    static const int32_t limits[][2] = {{1, 1000}, {2, 500}, {3, 333}, {10, 100}, {11, 100}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct bench bench = bench_with(limits[i][0], share_a_thousand);
        begin_session(&bench, limits[i][0]);
        for (int32_t p = 0; p < limits[i][0]; p++) CHECK_EQ(asked.max_bytes[p], limits[i][1]);
        bench_end(&bench, limits[i][0]);
    }
}

static void test_without_sharing_a_partition_has_its_configured_size(void)
{
    struct bench bench = bench_with(1, NULL);
    begin_session(&bench, 1);
    CHECK_EQ(asked.max_bytes[0], 1048576);
    bench_end(&bench, 1);
}

static void test_throttle_time_has_a_bound(void)
{
    static const struct {
        int32_t said_ms, held_ms;
    } cases[] = {{5000, 5000},
                 {KN_THROTTLE_MAX_MS, KN_THROTTLE_MAX_MS},
                 {INT32_MAX, KN_THROTTLE_MAX_MS},
                 {-1, 0},
                 {INT32_MIN, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench bench = bench_with(1, NULL);
        struct kn_fetcher *fetcher = &bench.broker->fetcher;
        throttle_ms = cases[i].said_ms;
        int64_t before_us = kn_clock_us();
        begin_session(&bench, 1);
        int64_t after_us = kn_clock_us(), held_us = (int64_t)cases[i].held_ms * 1000;
        throttle_ms = 0;
        if (!held_us) CHECK_EQ(fetcher->not_before_us, 0);
        else
            CHECK(fetcher->not_before_us >= before_us + held_us &&
                  fetcher->not_before_us <= after_us + held_us);
        /* no request before that time */
        CHECK_EQ(kn_fetcher_step(fetcher, after_us), held_us ? fetcher->not_before_us : KN_NEVER);
        CHECK_EQ(fetcher->in_flight, !held_us);
        bench_end(&bench, 1);
    }
}

/* The engine keeps the object of a broker that has left, but none of its partitions. */
static void test_a_stopped_broker_keeps_no_partition(void)
{
    struct bench bench = bench_with(2, NULL);
    begin_session(&bench, 2);
    CHECK_EQ(kn_engine_broker_stop(bench.engine, 0), KN_OK);
    turn(&bench, 0, NOW);
    CHECK_EQ(state(&bench), KN_BROKER_STOPPED);
    kn_broker_wake_cursor(&bench.broker->broker, cursors[0]); /* too late, and kept nowhere */
    CHECK(kn_list_empty(&bench.broker->woken));
    CHECK_EQ(atomic_load(&cursors[0]->woken), 0);
    for (int32_t i = 0; i < 2; i++) kn_cursor_unref(cursors[i]);
    CHECK_EQ(kn_cursor_live(), 0);
    bench_end(&bench, 0);
}

int main(void)
{
    RUN(test_a_stopped_broker_keeps_no_partition);
    RUN(test_throttle_time_has_a_bound);
    RUN(test_few_partitions_share_a_fetch);
    RUN(test_without_sharing_a_partition_has_its_configured_size);
    RUN(test_a_session_gets_only_changed_partitions);
    RUN(test_a_lost_session_restarts_with_all_partitions);
    RUN(test_repeatedly_lost_sessions_cause_a_backoff);
    RUN(test_without_a_session_partitions_take_turns);
    RUN(test_a_reattached_partition_stays_in_the_session);
    RUN(test_a_resting_partition_leaves_the_session_and_returns_when_consumed);
    RUN(test_nothing_is_asked_while_everything_rests);
    RUN(test_a_partition_that_rests_at_two_brokers_wakes_both);
    RUN(test_a_full_queue_delays_the_opening_of_results);
    RUN(test_a_small_response_is_opened_before_the_next_request);
    RUN(test_results_after_damage_are_not_delivered);
    RUN(test_a_closer_replica_stops_the_slot_and_keeps_queued_segments);
    RUN(test_an_impossible_replica_is_ignored);
    RUN(test_partitions_that_were_not_requested_are_ignored);
    RUN(test_a_repeated_partition_is_not_read_twice);
    RUN(test_counts_and_sizes_beyond_the_answer_are_refused);
    return check_done();
}
