/* A broker's producing half with a scripted broker: the requests, and the outcome of each batch. */
#include "sender_check.h"

/* Returns the frame as on the wire; the caller frees it. */
static uint8_t *frame_of(const struct kn_produce *request, size_t *size)
{
    uint8_t *frame = malloc(request->request.frame_bytes), *to = frame;
    CHECK(frame);
    for (int i = 0; i < request->request.piece_count; i++) {
        memcpy(to, request->request.pieces[i].iov_base, request->request.pieces[i].iov_len);
        to += request->request.pieces[i].iov_len;
    }
    *size = (size_t)(to - frame);
    CHECK_EQ(*size, request->request.frame_bytes);
    return frame;
}

/* Checks the batch in the frame (its checksum too) and returns its codec. */
static int check_wire(const struct kn_produce_partition *partition, int32_t records)
{
    struct kn_span span = kn_span_of(partition->records, partition->records_bytes);
    struct kn_batch_view view;
    CHECK_EQ(kn_batch_view_next(&span, &view), KN_OK);
    CHECK_EQ(kn_span_left(&span), 0);
    CHECK_EQ(kn_batch_view_check(&view), KN_OK);
    CHECK_EQ(view.record_count, records);
    CHECK_EQ(view.producer_id, -1);
    CHECK_EQ(view.base_sequence, -1);
    return kn_batch_view_codec(&view);
}

/* --- requests --- */

static void test_one_request_carries_a_batch_of_each_ready_partition(void)
{
    setup();
    produce(topic, 5, "a");
    produce(second_topic, 0, "b");
    produce(topic, 1, "c");
    produce(topic, 5, "d");
    step();
    struct kn_produce *request = sent_first();
    CHECK(request && kn_list_empty(&fake.sent));
    CHECK_EQ(request->batch_count, 3);
    CHECK_EQ(request->request.api_version, 12);
    CHECK_EQ(request->request.flags, KN_REQUEST_FLEXIBLE_REPLY);
    size_t size;
    uint8_t *frame = frame_of(request, &size);
    CHECK(frame[4] == 0 && frame[5] == 0 && frame[7] == 12);
    CHECK_MEM(frame + 12, "\x00\x04test\x00", 7); /* client id, tags */
    /* no transaction, acks=all, 30 s, two topics */
    CHECK_MEM(frame + 19, "\x00\xff\xff\x00\x00\x75\x30\x03", 8);
    free(frame);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(check_wire(&request->partitions[i], request->partitions[i].partition == 5 ? 2 : 1),
                 KN_CODEC_NONE);
    int32_t topics = 1;
    for (int i = 1; i < 3; i++)
        topics += request->batches[i]->topic != request->batches[i - 1]->topic;
    CHECK_EQ(topics, 2); /* grouped */
    answer_with(
        request,
        (struct answer[]){{"two", 0, 0, NULL, 0}, {"one", 1, 0, NULL, 0}, {"one", 5, 0, NULL, 0}},
        3, 0);
    CHECK_EQ(list_count(&fake.delivered), 3);
    for (int i = 0; i < 3; i++) {
        struct kn_batch *batch = delivered_first();
        CHECK_EQ(batch->status, KN_OK);
        CHECK_EQ(batch->base_offset, 500 + batch->partition);
        CHECK_EQ(batch->persistence, KN_PERSISTED);
        CHECK(batch->sent_us > 0 && batch->acked_us >= batch->sent_us &&
              batch->sent_us >= batch->created_us);
        kn_batch_free(batch);
    }
    check_idle();
    teardown();
}

static void setup_two_kinds_of_topics(void)
{
    setup();
    struct kn_produce_config own = *engine->producer.config;
    own.acks = 1;
    own.message_timeout_ms = 5000;
    own.codec = KN_CODEC_GZIP;
    CHECK_EQ(kn_producer_configure_topic(&engine->producer, "two", 3, &own), KN_OK);
    kn_topic_free(second_topic);
    second_topic = kn_topic_new(&engine->producer, "two", 3, 72);
    CHECK(second_topic->config != topic->config && second_topic->config->acks == 1);
    struct kn_broker *leaders[2] = {&broker, &broker};
    CHECK_EQ(kn_topic_set_partitions(second_topic, NULL, 2, leaders, NULL), KN_OK);
}

static void test_topics_with_other_acks_go_in_another_request(void)
{
    setup_two_kinds_of_topics();
    char text[2000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    for (int32_t i = 0; i < 2; i++) {
        produce(topic, i, text);
        produce(second_topic, i, text);
    }
    step();
    int32_t counts[2] = {0};
    for (int i = 0; i < 2; i++) {
        struct kn_produce *request = sent_first();
        CHECK(request && request->batch_count == 2);
        int own = request->batches[0]->topic == second_topic;
        CHECK(request->batches[1]->topic == request->batches[0]->topic);
        for (int32_t at = 0; at < 2; at++)
            CHECK_EQ(check_wire(&request->partitions[at], 1), own ? KN_CODEC_GZIP : KN_CODEC_NONE);
        size_t size;
        uint8_t *frame = frame_of(request, &size);
        CHECK_MEM(frame + 20, own ? "\x00\x01" : "\xff\xff", 2);
        free(frame);
        /* its batches expire earlier */
        int64_t left_us = request->request.deadline_us - request->batches[0]->created_us;
        CHECK(own ? left_us <= 5000000 : left_us > 5000000);
        counts[own]++;
        const char *name = own ? "two" : "one";
        answer_with(request, (struct answer[]){{name, 0, 0, NULL, 0}, {name, 1, 0, NULL, 0}}, 2, 0);
    }
    CHECK_EQ(counts[0], 1);
    CHECK_EQ(counts[1], 1);
    CHECK(kn_list_empty(&fake.sent));
    CHECK_EQ(list_count(&fake.delivered), 4);
    for (int i = 0; i < 4; i++) kn_batch_free(delivered_first());
    check_idle();
    teardown();
}

static void test_lingering_partition_is_looked_at_again_in_time(void)
{
    setup_with(NULL);
    produce(topic, 0, "a");
    int64_t now_us = kn_clock_us(), at_us = step();
    CHECK(at_us > now_us && at_us <= now_us + 5000);
    CHECK(kn_list_empty(&fake.sent));
    CHECK(kn_sender_wants_connection(sender));
    step_at(at_us);
    struct kn_produce *request = sent_first();
    CHECK(request);
    answer_with(request, (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 0);
    CHECK(!kn_sender_wants_connection(sender));
    check_idle();
    teardown();
}

static void test_flush_sends_lingering_batches_at_once(void)
{
    setup_with(NULL);
    engine->config.produce.linger_us = 900000000;
    produce(topic, 0, "a");
    CHECK(step() > kn_clock_us() + 800000000);
    atomic_fetch_add(&engine->producer.flushing, 1);
    step();
    struct kn_produce *request = sent_first();
    CHECK(request);
    answer_with(request, (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 0);
    check_idle();
    teardown();
}

static void small_batches(struct kn_engine_config *config)
{
    config->produce.linger_us = 0;
    config->produce.batch_messages = 1;
}

static void test_requests_in_flight_and_unsent_bytes_are_limited(void)
{
    setup_with(small_batches);
    for (int i = 0; i < 20; i++) produce(topic, 0, "x");
    CHECK_EQ(step(), KN_NEVER);
    CHECK_EQ(list_count(&fake.sent), 5);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(KN_LIST_ENTRY(fake.sent.next, struct kn_request, node)->api_key, 0);
    engine->config.produce.max_in_flight = 1;
    for (int i = 0; i < 5; i++)
        answer_with(sent_first(), (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 0);
    step();
    CHECK_EQ(list_count(&fake.sent), 1);
    engine->config.produce.max_in_flight = 100;
    fake.unsent_bytes = 3 << 20;
    step();
    CHECK_EQ(list_count(&fake.sent), 1);
    fake.unsent_bytes = 0;
    for (int i = 0; i < 20; i++) {
        step();
        struct kn_produce *request = sent_first();
        if (!request) break;
        answer_with(request, (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 0);
    }
    check_idle();
    teardown();
}

/* The response to the oldest request comes after this time. */
static void answer_after(int64_t taken_us)
{
    struct kn_produce *request = sent_first();
    CHECK(request);
    request->request.sent_us = kn_clock_us() - taken_us;
    answer_with(request, (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 0);
}

/* How many requests are in flight after some more messages. */
static int32_t in_flight_after(int32_t message_count)
{
    for (int32_t i = 0; i < message_count; i++) {
        produce(topic, 0, "x");
        step();
    }
    return broker.in_flight;
}

static void test_a_batch_that_can_grow_waits_while_a_request_waits_at_the_broker(void)
{
    setup();
    CHECK_EQ(in_flight_after(1), 1);
    answer_after(50000);
    CHECK_EQ(in_flight_after(9), 5); /* a long way: the broker has answered at once */
    answer_after(55000);
    CHECK_EQ(in_flight_after(1), 5);
    for (int32_t in_flight = 4; in_flight >= 2; in_flight--) {
        answer_after(200000); /* they came after others */
        CHECK_EQ(in_flight_after(1), in_flight);
    }
    CHECK_EQ(atomic_load(&topic->table)->partitions[0]->open->writer.record_count, 3);
    engine->config.produce.batch_messages = 4;
    CHECK_EQ(in_flight_after(1), 3); /* complete */
    CHECK_EQ(in_flight_after(1), 3);
    answer_after(200000);
    CHECK_EQ(in_flight_after(1), 2);
    answer_after(200000);
    CHECK_EQ(in_flight_after(1), 2); /* one was in flight, so the open batch has left */
    CHECK(!atomic_load(&topic->table)->partitions[0]->open);
    while (broker.in_flight > 0) answer_after(200000);
    check_idle();
    teardown();
}

static void test_the_least_time_of_a_response_is_a_recent_one(void)
{
    setup_with(small_batches);
    const struct kn_response_times *times = &sender->response_times;
    int64_t taken_us[] = {1000, 200000, 200000, 200000};
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(in_flight_after(1), 1);
        answer_after(taken_us[i]);
        CHECK(times->last_us >= taken_us[i]);
        /* it counts in its own period and in the next one */
        CHECK(i < 3 ? times->least_us < 100000 : times->least_us >= 200000);
        CHECK(times->period_ends_us > kn_clock_us() + 5000000);
        if (i > 0) sender->response_times.period_ends_us = kn_clock_us();
    }
    check_idle();
    teardown();
}

static void test_unsent_requests_are_limited_where_asked(void)
{
    setup_with(small_batches);
    fake.unsent_requests = 2;
    produce(topic, 0, "x");
    step();
    CHECK_EQ(list_count(&fake.sent), 1); /* not asked */
    engine->config.produce.backpressure_requests = 2;
    produce(topic, 1, "x");
    CHECK_EQ(step(), KN_NEVER);
    CHECK_EQ(list_count(&fake.sent), 1);
    CHECK(atomic_load(&broker.blocked_since_us) > 0);
    fake.unsent_requests = 1; /* one was written */
    produce(topic, 2, "x");
    step();
    CHECK_EQ(list_count(&fake.sent), 2);
    answer_with(sent_first(), (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 0);
    /* they came in one request */
    answer_with(sent_first(), (struct answer[]){{"one", 1, 0, NULL, 0}, {"one", 2, 0, NULL, 0}}, 2,
                0);
    check_idle();
    teardown();
}

static void test_request_ends_at_about_a_megabyte(void)
{
    setup();
    static char value[300001];
    memset(value, 'v', 300000);
    for (int32_t partition = 0; partition < 8; partition++) produce(topic, partition, value);
    step();
    static const int counts[] = {4, 4};
    for (int i = 0; i < 2; i++) {
        struct kn_produce *request = sent_first();
        CHECK_EQ(request->batch_count, counts[i]);
        struct answer answers[4];
        for (int j = 0; j < 4; j++)
            answers[j] = (struct answer){"one", request->batches[j]->partition, 0, NULL, 0};
        answer_with(request, answers, 4, 0);
    }
    check_idle();
    teardown();
}

static void test_topic_ids_are_used_only_when_every_topic_has_one(void)
{
    setup();
    sender->produce_version = 13;
    static const uint8_t id[16] = {0xab, [15] = 0xcd};
    struct kn_broker *leaders[8];
    for (int i = 0; i < 8; i++) leaders[i] = &broker;
    CHECK_EQ(kn_topic_set_partitions(topic, id, 8, leaders, NULL), KN_OK);
    produce(topic, 0, "a");
    step();
    struct kn_produce *request = sent_first();
    CHECK_EQ(request->request.api_version, 13);
    /* header: topic id, one partition; then the throttle time */
    uint8_t body[128], *to = body;
    *to++ = 2, memcpy(to, id, 16), to += 16, *to++ = 2;
    to = kn_put_i32(to, 0), to = kn_put_i16(to, 0), to = kn_put_i64(to, 9), to = kn_put_i64(to, -1),
    to = kn_put_i64(to, 0);
    *to++ = 1, *to++ = 0, *to++ = 0, *to++ = 0, to = kn_put_i32(to, 0), *to++ = 0;
    finish(request, 1, KN_OK, body, (size_t)(to - body));
    struct kn_batch *batch = delivered_first();
    CHECK_EQ(batch->base_offset, 9);
    kn_batch_free(batch);
    produce(topic, 0, "b");
    produce(second_topic, 0, "c"); /* has none */
    step();
    request = sent_first();
    CHECK_EQ(request->request.api_version, 12);
    answer_with(request, (struct answer[]){{"one", 0, 0, NULL, 0}, {"two", 0, 0, NULL, 0}}, 2, 0);
    check_idle();
    teardown();
}

static void test_nothing_is_sent_to_a_broker_without_produce(void)
{
    setup();
    sender->produce_version = -1;
    produce(topic, 0, "a");
    CHECK_EQ(step(), KN_NEVER);
    CHECK(kn_list_empty(&fake.sent));
    CHECK(kn_sender_wants_connection(sender));
    kn_topic_fail(topic, KN_ERR_CLOSED, 0, NULL);
    CHECK(!kn_sender_wants_connection(sender));
    teardown();
}

/* --- compression --- */

static int halve(const uint8_t *src, size_t size_bytes, int level, struct kn_buffer **out)
{
    CHECK_EQ(level, 7);
    return kn_buffer_append(out, src, size_bytes / 2);
}
static int inflate_it(const uint8_t *src, size_t size_bytes, int level, struct kn_buffer **out)
{
    (void)level;
    int status = kn_buffer_append(out, src, size_bytes);
    return status == KN_OK ? kn_buffer_append(out, src, size_bytes) : status;
}
static int refuse(const uint8_t *src, size_t size_bytes, int level, struct kn_buffer **out)
{
    (void)src, (void)size_bytes, (void)level, (void)out;
    return KN_ERR_CODEC;
}

static void zstd(struct kn_engine_config *config)
{
    config->produce.linger_us = 0;
    config->produce.codec = KN_CODEC_ZSTD;
    config->produce.codec_level = 7;
    config->produce.report_all = 0;
}

/* Sends one batch. Returns the codec of the request. */
static int send_one(int settle)
{
    produce(topic, 0, "a value of some length, so that half of it is less");
    step();
    struct kn_produce *request = sent_first();
    CHECK(request);
    int codec = check_wire(&request->partitions[0], 1);
    if (settle) answer_with(request, (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 0);
    else kn_list_push_front(&fake.sent, &request->request.node);
    return codec;
}

static void test_compressed_form_is_sent_where_it_is_smaller(void)
{
    setup_with(zstd);
    engine->client.codecs.codecs[KN_CODEC_ZSTD].compress = halve;
    CHECK_EQ(send_one(1), KN_CODEC_ZSTD);
    engine->client.codecs.codecs[KN_CODEC_ZSTD].compress = inflate_it;
    CHECK_EQ(send_one(1), KN_CODEC_NONE);
    engine->client.codecs.codecs[KN_CODEC_ZSTD].compress = refuse;
    CHECK_EQ(send_one(1), KN_CODEC_NONE);
    engine->client.codecs.codecs[KN_CODEC_ZSTD].compress = NULL;
    CHECK_EQ(send_one(1), KN_CODEC_NONE);
    CHECK(kn_batch_live() == 4);
    teardown();
}

static void test_zstd_isnt_sent_to_a_broker_that_doesnt_know_it(void)
{
    setup_with(zstd);
    engine->client.codecs.codecs[KN_CODEC_ZSTD].compress = halve;
    sender->produce_version = 6;
    CHECK_EQ(send_one(0), KN_CODEC_NONE);
    struct kn_produce *request = sent_first();
    CHECK_EQ(request->request.flags, 0);
    finish(request, 1, KN_ERR_CLOSED, NULL, 0);
    kn_topic_fail(topic, KN_ERR_CLOSED, 0, NULL);
    teardown();
}

static void test_plain_bytes_are_kept_only_if_a_report_may_need_them(void)
{
    setup_with(zstd);
    engine->client.codecs.codecs[KN_CODEC_ZSTD].compress = halve;
    send_one(1);
    struct kn_batch *batch = delivered_first();
    CHECK(batch->plain == NULL && batch->wire);
    struct kn_batch_view view;
    CHECK_EQ(kn_batch_view_plain(batch, &view), KN_ERR_INVALID);
    kn_batch_free(batch);
    engine->config.produce.report_all = 1;
    send_one(1);
    batch = delivered_first();
    CHECK(batch->plain && batch->wire && batch->plain != batch->wire);
    CHECK_STR(values_of(batch), "a value of some length, so that half of it is less");
    kn_batch_free(batch);
    teardown();
}

/* --- errors --- */

static void test_leader_change_asks_for_metadata_and_retries_the_same_bytes(void)
{
    setup();
    produce(topic, 0, "a");
    step();
    struct kn_produce *request = sent_first();
    struct kn_batch *batch = request->batches[0];
    uint8_t first[256];
    size_t size = batch->wire->size_bytes;
    memcpy(first, batch->wire->data, size);
    int64_t begin_us = kn_clock_us();
    answer_with(request, (struct answer[]){{"one", 0, 6, NULL, 9}}, 1, 0);
    int64_t answered_us = kn_clock_us();
    struct kn_event *event = event_first();
    CHECK_EQ(event->kind, KN_EVENT_PARTITION);
    CHECK_EQ(event->broker, 3);
    CHECK_EQ(event->token, 71);
    CHECK_EQ(event->error_code, 6);
    CHECK_EQ(event->leader_id, 9);
    CHECK_EQ(event->leader_epoch, 21);
    CHECK_STR(event->text, "h9:9092");
    kn_event_free(event);
    CHECK(kn_list_empty(&fake.delivered));
    produce(topic, 0, "younger");
    int64_t at_us = step();
    /* 100 ms, give or take the jitter */
    CHECK(at_us >= begin_us + 75000 && at_us <= answered_us + 121000);
    CHECK(kn_list_empty(&fake.sent));
    step_at(at_us);
    request = sent_first();
    CHECK(request->batches[0] == batch && batch->attempts == 1);
    CHECK_EQ(batch->wire->size_bytes, size);
    CHECK_MEM(batch->wire->data, first, size);
    answer_with(request, (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 0);
    CHECK(delivered_first() == batch);
    CHECK_EQ(batch->persistence, KN_PERSISTED);
    kn_batch_free(batch);
    step_at(kn_clock_us() + 1000000);
    answer_with(sent_first(), (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 0);
    check_idle();
    teardown();
}

static void test_backoff_doubles_up_to_its_maximum(void)
{
    setup();
    produce(topic, 0, "a");
    int64_t now_us = kn_clock_us();
    static const int64_t expected_ms[] = {100, 200, 400, 800, 1000, 1000};
    step_at(now_us);
    for (int i = 0; i < 6; i++) {
        answer_with(sent_first(), (struct answer[]){{"one", 0, 19, NULL, 0}}, 1, 0);
        int64_t answered_us = kn_clock_us(), at_us = step();
        CHECK(at_us - answered_us >= expected_ms[i] * 800 - 20000 &&
              at_us - answered_us <= expected_ms[i] * 1200);
        step_at(at_us);
    }
    answer_with(sent_first(), (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 0);
    CHECK(kn_list_empty(
        &engine->client.control->events.items)); /* the metadata is right, so no event */
    teardown();
}

static void test_permanent_error_is_reported_with_the_brokers_words(void)
{
    setup();
    produce(topic, 0, "a");
    produce(topic, 1, "b");
    step();
    answer_with(sent_first(),
                (struct answer[]){{"one", 0, 10, "too large for me", 0}, {"one", 1, 0, NULL, 0}}, 2,
                0);
    struct kn_batch *batch = delivered_first();
    CHECK_EQ(batch->error_code, 10);
    CHECK_EQ(batch->persistence, KN_NOT_PERSISTED);
    CHECK_STR(batch->error_text, "too large for me");
    kn_batch_free(batch);
    batch = delivered_first();
    CHECK_EQ(batch->error_code, 0);
    kn_batch_free(batch);
    check_idle();
    teardown();
}

static void few_retries(struct kn_engine_config *config)
{
    config->produce.linger_us = 0;
    config->produce.retries = 1;
    config->produce.retry_backoff_ms = config->produce.retry_backoff_max_ms = 1;
}

static void test_a_lost_connection_is_retried_and_counts_only_written_attempts(void)
{
    setup_with(few_retries);
    produce(topic, 0, "a");
    step();
    for (int i = 0; i < 5; i++) { /* never sent: may be tried any number of times */
        finish(sent_first(), 0, KN_ERR_TRANSPORT, NULL, 0);
        CHECK(kn_list_empty(&fake.delivered));
        step();
    }
    finish(sent_first(), 1, KN_ERR_TRANSPORT, NULL, 0);
    CHECK(kn_list_empty(&fake.delivered));
    step_at(kn_clock_us() + 10000);
    struct kn_produce *request = sent_first();
    CHECK_EQ(request->batches[0]->attempts, 1);
    finish(request, 1, KN_ERR_TIMED_OUT, NULL, 0);
    struct kn_batch *batch = delivered_first();
    CHECK_EQ(batch->status, KN_ERR_TIMED_OUT);
    CHECK_EQ(batch->persistence, KN_POSSIBLY_PERSISTED);
    kn_batch_free(batch);
    check_idle();
    teardown();
}

static void test_clean_refusal_doesnt_undo_possibly_persisted(void)
{
    setup_with(few_retries);
    produce(topic, 0, "a");
    step();
    finish(sent_first(), 1, KN_ERR_TRANSPORT, NULL, 0);
    step_at(kn_clock_us() + 10000);
    answer_with(sent_first(), (struct answer[]){{"one", 0, 29, NULL, 0}}, 1, 0);
    struct kn_batch *batch = delivered_first();
    CHECK_EQ(batch->error_code, 29);
    CHECK_EQ(batch->persistence, KN_POSSIBLY_PERSISTED);
    kn_batch_free(batch);
    teardown();
}

static void test_message_timeout_ends_retries(void)
{
    setup();
    engine->config.produce.message_timeout_ms = 1;
    produce(topic, 0, "a");
    step();
    struct kn_produce *request = sent_first();
    CHECK(request->request.deadline_us <= kn_clock_us() + 1000000);
    request->batches[0]->created_us -= 10000;
    answer_with(request, (struct answer[]){{"one", 0, 6, NULL, 0}}, 1, 0);
    struct kn_batch *batch = delivered_first();
    CHECK_EQ(batch->status, KN_ERR_TIMED_OUT);
    CHECK_EQ(batch->error_code, 0);
    kn_batch_free(batch);
    check_idle();
    teardown();
}

static void test_closing_client_settles_instead_of_retrying(void)
{
    setup();
    produce(topic, 0, "a");
    step();
    atomic_store(&engine->producer.refusing, KN_ERR_CLOSED);
    finish(sent_first(), 1, KN_ERR_CLOSED, NULL, 0);
    struct kn_batch *batch = delivered_first();
    CHECK_EQ(batch->status, KN_ERR_PURGED_IN_FLIGHT);
    CHECK_EQ(batch->persistence, KN_POSSIBLY_PERSISTED);
    kn_batch_free(batch);
    teardown();
}

static void test_partition_missing_from_the_response_is_a_protocol_error_of_it_alone(void)
{
    setup();
    produce(topic, 0, "a");
    produce(topic, 1, "b");
    step();
    answer_with(sent_first(), (struct answer[]){{"one", 1, 0, NULL, 0}}, 1, 0);
    for (int i = 0; i < 2; i++) {
        struct kn_batch *batch = delivered_first();
        CHECK_EQ(batch->status, batch->partition == 0 ? KN_ERR_PROTOCOL : KN_OK);
        CHECK_EQ(batch->persistence, batch->partition == 0 ? KN_POSSIBLY_PERSISTED : KN_PERSISTED);
        kn_batch_free(batch);
    }
    check_idle();
    teardown();
}

static void check_all_protocol_errors(int count)
{
    for (int i = 0; i < count; i++) {
        struct kn_batch *batch = delivered_first();
        CHECK_EQ(batch->status, KN_ERR_PROTOCOL);
        CHECK_EQ(batch->persistence, KN_POSSIBLY_PERSISTED);
        kn_batch_free(batch);
    }
    check_idle();
}

static void test_a_malformed_response_settles_no_batch(void)
{
    static const struct answer foreign[] = {{"one", 0, 0, NULL, 0}, {"one", 6, 0, NULL, 0}};
    static const struct answer twice[] = {{"one", 0, 0, NULL, 0}, {"one", 0, 0, NULL, 0}};
    static const struct answer stranger[] = {{"one", 0, 0, NULL, 0}, {"six", 1, 0, NULL, 0}};
    const struct answer *const cases[] = {foreign, twice, stranger};
    setup();
    for (int i = 0; i < 3; i++) {
        produce(topic, 0, "a");
        produce(topic, 1, "b");
        step();
        answer_with(sent_first(), cases[i], 2, 0);
        check_all_protocol_errors(2);
    }
    uint8_t body[256];
    size_t size = write_answers(body, foreign, 1, 0);
    for (size_t cut = 0; cut < size; cut += 7) {
        produce(topic, 0, "a");
        step();
        finish(sent_first(), 1, KN_OK, body, cut);
        check_all_protocol_errors(1);
    }
    teardown();
}

static void acks_0(struct kn_engine_config *config)
{
    config->produce.linger_us = 0;
    config->produce.acks = 0;
}

static void test_without_acks_written_is_all_there_is(void)
{
    setup_with(acks_0);
    produce(topic, 0, "a");
    step();
    struct kn_produce *request = sent_first();
    CHECK(request->request.flags & KN_REQUEST_NO_REPLY);
    finish(request, 1, KN_OK, NULL, 0);
    struct kn_batch *batch = delivered_first();
    CHECK_EQ(batch->status, KN_OK);
    CHECK_EQ(batch->base_offset, -1);
    CHECK_EQ(batch->persistence, KN_POSSIBLY_PERSISTED);
    kn_batch_free(batch);
    check_idle();
    teardown();
}

static void test_throttled_sender_holds_back(void)
{
    setup();
    produce(topic, 0, "a");
    step();
    answer_with(sent_first(), (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 300);
    struct kn_event *event = event_first();
    CHECK_EQ(event->kind, KN_EVENT_THROTTLED);
    CHECK_EQ(event->throttle_ms, 300);
    kn_event_free(event);
    produce(topic, 0, "b");
    int64_t now_us = kn_clock_us(), at_us = step();
    CHECK(kn_list_empty(&fake.sent));
    CHECK(at_us > now_us + 200000 && at_us <= now_us + 300000);
    step_at(at_us);
    answer_with(sent_first(), (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 0);
    CHECK_EQ(list_count(&fake.delivered), 2);
    teardown();
}

static void test_throttle_time_has_a_bound(void)
{
    static const int32_t said_ms[] = {INT32_MAX, KN_THROTTLE_MAX_MS + 1, KN_THROTTLE_MAX_MS};
    for (size_t i = 0; i < sizeof said_ms / sizeof said_ms[0]; i++) {
        setup();
        produce(topic, 0, "a");
        step();
        answer_with(sent_first(), (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, said_ms[i]);
        struct kn_event *event = event_first();
        /* the broker's value, not the limited one */
        CHECK_EQ(event->throttle_ms, said_ms[i]);
        kn_event_free(event);
        produce(topic, 0, "b");
        int64_t now_us = kn_clock_us(), at_us = step();
        CHECK(at_us > now_us + (int64_t)(KN_THROTTLE_MAX_MS - 1000) * 1000 &&
              at_us <= now_us + (int64_t)KN_THROTTLE_MAX_MS * 1000);
        teardown();
    }
}

static void test_negative_throttle_time_is_none(void)
{
    setup();
    produce(topic, 0, "a");
    step();
    answer_with(sent_first(), (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, INT32_MIN);
    produce(topic, 0, "b");
    step();
    answer_with(sent_first(), (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 0);
    CHECK_EQ(list_count(&fake.delivered), 2);
    teardown();
}

static int64_t blocked_since(void) { return atomic_load(&broker.blocked_since_us); }

static void test_sender_says_since_when_it_is_blocked(void)
{
    setup();
    step_at(5000);
    CHECK_EQ(blocked_since(), 0); /* nothing to send */
    engine->config.produce.max_in_flight = 1;
    produce(topic, 0, "a");
    int64_t now_us = kn_clock_us();
    step_at(now_us);
    CHECK_EQ(blocked_since(), 0); /* sent, and nothing else is due */
    produce(topic, 1, "b");
    step_at(now_us + 1000);
    CHECK_EQ(blocked_since(), now_us + 1000);
    produce(topic, 2, "c");
    step_at(now_us + 2000);
    CHECK_EQ(blocked_since(), now_us + 1000);
    struct kn_produce *sent = sent_first();
    finish(sent, 1, KN_ERR_TRANSPORT, NULL, 0); /* room; "a" goes back with a backoff */
    sender->produce_version = -1;               /* not connected */
    step_at(now_us + 3000);
    CHECK_EQ(blocked_since(), now_us + 1000);
    sender->produce_version = 12;
    sender->held_until_us = now_us + 9000;
    step_at(now_us + 4000);
    CHECK_EQ(blocked_since(), now_us + 1000);
    step_at(now_us + 9000);
    CHECK_EQ(broker.in_flight, 1);
    /* "a" is due after its backoff, and the one request is out */
    CHECK(blocked_since() > now_us + 9000);
    kn_topic_fail(topic, KN_ERR_CLOSED, 0, NULL);
    finish(sent_first(), 1, KN_OK, NULL, 0);
    sender->produce_version = -1;
    CHECK(!kn_sender_wants_connection(sender));
    step_at(now_us + 10000);
    CHECK_EQ(blocked_since(), 0);
    teardown();
}

static void test_a_moved_partition_needs_no_connection(void)
{
    setup();
    produce(topic, 0, "a");
    sender->produce_version = -1;
    step();
    CHECK(kn_sender_wants_connection(sender));
    kn_accumulator_set_leader(atomic_load(&topic->table)->partitions[0], &other, 2);
    CHECK(!kn_sender_wants_connection(sender));
    CHECK_EQ(fake.notices[0].broker == &other, 1);
    kn_topic_fail(topic, KN_ERR_CLOSED, 0, NULL);
    teardown();
}

/* The bug behind CVE-2026-35554: a batch expires while its request is being written, its buffer is
 * reused, and the request sends other bytes. */
static void test_expiry_never_touches_bytes_that_a_request_points_into(void)
{
    setup();
    engine->config.produce.message_timeout_ms = 1;
    produce(topic, 0, "the bytes that were promised");
    step();
    struct kn_produce *request = sent_first();
    kn_topic_expire(topic, kn_clock_us() + 3600000000);
    CHECK(kn_list_empty(&fake.delivered));
    for (int i = 0; i < 50; i++)
        produce(second_topic, 0, "somebody else's bytes, which may come to lie anywhere");
    size_t size;
    uint8_t *frame = frame_of(request, &size);
    CHECK(memmem(frame, size, "the bytes that were promised", 28));
    CHECK_EQ(check_wire(&request->partitions[0], 1), KN_CODEC_NONE);
    free(frame);
    answer_with(request, (struct answer[]){{"one", 0, 0, NULL, 0}}, 1, 0);
    struct kn_batch *batch = delivered_first();
    CHECK_EQ(batch->status, KN_OK); /* the broker acknowledged it */
    kn_batch_free(batch);
    kn_topic_fail(second_topic, KN_ERR_CLOSED, 0, NULL);
    teardown();
}

int main(void)
{
    RUN(test_one_request_carries_a_batch_of_each_ready_partition);
    RUN(test_topics_with_other_acks_go_in_another_request);
    RUN(test_lingering_partition_is_looked_at_again_in_time);
    RUN(test_flush_sends_lingering_batches_at_once);
    RUN(test_requests_in_flight_and_unsent_bytes_are_limited);
    RUN(test_a_batch_that_can_grow_waits_while_a_request_waits_at_the_broker);
    RUN(test_the_least_time_of_a_response_is_a_recent_one);
    RUN(test_unsent_requests_are_limited_where_asked);
    RUN(test_request_ends_at_about_a_megabyte);
    RUN(test_topic_ids_are_used_only_when_every_topic_has_one);
    RUN(test_nothing_is_sent_to_a_broker_without_produce);
    RUN(test_compressed_form_is_sent_where_it_is_smaller);
    RUN(test_zstd_isnt_sent_to_a_broker_that_doesnt_know_it);
    RUN(test_plain_bytes_are_kept_only_if_a_report_may_need_them);
    RUN(test_leader_change_asks_for_metadata_and_retries_the_same_bytes);
    RUN(test_backoff_doubles_up_to_its_maximum);
    RUN(test_permanent_error_is_reported_with_the_brokers_words);
    RUN(test_a_lost_connection_is_retried_and_counts_only_written_attempts);
    RUN(test_clean_refusal_doesnt_undo_possibly_persisted);
    RUN(test_message_timeout_ends_retries);
    RUN(test_closing_client_settles_instead_of_retrying);
    RUN(test_partition_missing_from_the_response_is_a_protocol_error_of_it_alone);
    RUN(test_a_malformed_response_settles_no_batch);
    RUN(test_without_acks_written_is_all_there_is);
    RUN(test_throttled_sender_holds_back);
    RUN(test_throttle_time_has_a_bound);
    RUN(test_negative_throttle_time_is_none);
    RUN(test_sender_says_since_when_it_is_blocked);
    RUN(test_a_moved_partition_needs_no_connection);
    RUN(test_expiry_never_touches_bytes_that_a_request_points_into);
    return check_done();
}
