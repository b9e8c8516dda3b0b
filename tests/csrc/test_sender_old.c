/* A broker's producing half with a broker older than 0.11: it sends message sets, and batches
 * survive a change between old and new leaders. */
#include "base/endian.h"
#include "produce_fakes.h"

static struct kn_engine *engine;
static struct kn_topic *topic;
static struct kn_broker broker;
static struct kn_sender the_sender, *sender = &the_sender;

static void setup_with(int16_t produce_version, void (*configure)(struct kn_engine_config *config))
{
    engine = fake_engine();
    engine->config.produce.linger_us = 0;
    engine->config.produce.retry_backoff_ms = 0;
    if (configure) configure(&engine->config);
    fake_broker_init(&broker, engine);
    kn_sender_init(sender, &broker, &engine->producer);
    sender->produce_version = produce_version;
    topic = kn_topic_new(&engine->producer, "one", 3, 71);
    struct kn_broker *leaders[1] = {&broker};
    CHECK_EQ(kn_topic_set_partitions(topic, NULL, 1, leaders, NULL), KN_OK);
}

static void teardown(void)
{
    CHECK_EQ(broker.in_flight, 0);
    kn_sender_deinit(sender);
    kn_topic_free(topic);
    fake_engine_free(engine);
}

static void produce(const char *value)
{
    struct kn_message message = message_of_text("key", value);
    message.partition = 0;
    CHECK_EQ(kn_topic_produce(topic, &message), KN_OK);
}

static struct kn_produce *send_now(void)
{
    for (long i = 0; i < fake.notice_count; i++)
        CHECK_EQ(kn_sender_add(sender, fake.notices[i].accumulator, fake.notices[i].at_us), KN_OK);
    fake.notice_count = 0;
    kn_sender_step(sender, kn_clock_us() + 1000);
    struct kn_list *node = kn_list_pop_front(&fake.sent);
    return node ? KN_LIST_ENTRY(KN_LIST_ENTRY(node, struct kn_request, node), struct kn_produce,
                                request)
                : NULL;
}

/* The response of a version before 9. */
static void answer(struct kn_produce *request, int16_t error_code, int64_t append_time_ms)
{
    uint8_t body[64], *to = kn_put_i32(body, 1);
    int16_t version = request->request.api_version;
    CHECK(version < 9);
    to = kn_put_i16(to, 3);
    memcpy(to, "one", 3), to += 3;
    to = kn_put_i32(to, 1);
    to = kn_put_i32(to, 0), to = kn_put_i16(to, error_code),
    to = kn_put_i64(to, error_code ? -1 : 42);
    if (version >= 2) to = kn_put_i64(to, append_time_ms);
    if (version >= 5) to = kn_put_i64(to, 0);
    if (version >= 8) to = kn_put_i32(to, 0), to = kn_put_i16(to, -1);
    if (version >= 1) to = kn_put_i32(to, 0);
    request->request.was_written = 1;
    request->request.sent_us = kn_clock_us();
    struct kn_chunk chunk;
    request->request.on_done(&request->request, KN_OK, &chunk,
                             kn_span_of(body, (size_t)(to - body)));
}

/* Checks the request for the one partition: `values` separated by spaces, in this form. */
static void check_wire(const struct kn_produce *request, int8_t magic, int codec,
                       const char *values)
{
    static struct text_join join;
    const struct kn_produce_partition *sent = &request->partitions[0];
    struct kn_span span = kn_span_of(sent->records, sent->records_bytes);
    struct kn_batch_view view = {0};
    struct kn_record record;
    struct kn_record_reader reader;
    join.size = 0;
    while (kn_batch_view_next(&span, &view) == KN_OK) {
        struct kn_buffer *opened;
        CHECK_EQ(view.magic, magic);
        CHECK_EQ(kn_batch_view_codec(&view), codec);
        CHECK_EQ(kn_batch_view_check(&view), KN_OK);
        CHECK_EQ(kn_batch_view_open(&view, &engine->client.codecs, 1 << 20, NULL, &opened), KN_OK);
        CHECK_EQ(kn_record_reader_init(&reader, &view), KN_OK);
        while (kn_record_reader_next(&reader, &record) == KN_OK) {
            CHECK_EQ(record.timestamp_ms, magic ? 1700000000000 : -1);
            CHECK_EQ(record.key_bytes, 3);
            join_value(&record, &join);
        }
        kn_buffer_give(opened);
    }
    CHECK_EQ(kn_span_left(&span), 0);
    CHECK_STR(join.text, values);
}

static void check_delivered(int64_t append_time_ms, const char *values)
{
    struct kn_batch *batch = delivered_first();
    CHECK(batch);
    CHECK_EQ(batch->status, KN_OK);
    CHECK_EQ(batch->error_code, 0);
    CHECK_EQ(batch->base_offset, 42);
    CHECK_EQ(batch->log_append_time_ms, append_time_ms);
    CHECK_EQ(batch->persistence, KN_PERSISTED);
    if (values) CHECK_STR(values_of(batch), values);
    kn_batch_free(batch);
}

static void test_each_old_version_carries_its_newest_form(void)
{
    for (int16_t version = 0; version <= 3; version++) {
        setup_with(version, NULL);
        produce("a");
        produce("b");
        struct kn_produce *request = send_now();
        CHECK_EQ(request->request.api_version, version);
        CHECK_EQ(request->request.flags, 0);
        check_wire(request,
                   (int8_t)(version == 3   ? 2
                            : version == 2 ? 1
                                           : 0),
                   KN_CODEC_NONE, "a b");
        answer(request, 0, 77);
        check_delivered(version >= 2 ? 77 : -1, "a b");
        teardown();
    }
}

/* --- compression --- */

/* keeps the first byte of each pair */
static int take_half(const uint8_t *src, size_t size_bytes, int level, struct kn_buffer **out)
{
    CHECK_EQ(level, 7);
    int status = kn_buffer_reserve(out, size_bytes / 2);
    for (size_t i = 0; status == KN_OK && i + 1 < size_bytes; i += 2)
        (*out)->data[(*out)->size_bytes++] = src[i];
    return status;
}

static void gzip(struct kn_engine_config *config)
{
    config->produce.codec = KN_CODEC_GZIP;
    config->produce.codec_level = 7;
    config->produce.report_all = 0;
}
static void zstd(struct kn_engine_config *config) { config->produce.codec = KN_CODEC_ZSTD; }

static void test_compressed_set_is_one_message(void)
{
    setup_with(2, gzip);
    /* a codec of the test in the place of gzip */
    engine->client.codecs.codecs[KN_CODEC_GZIP].compress = take_half;
    produce("one that is long enough to be worth it");
    produce("and another one of some length");
    struct kn_produce *request = send_now();
    struct kn_span span = kn_span_of(request->partitions[0].records,
                                     request->partitions[0].records_bytes);
    struct kn_batch_view view = {0};
    CHECK_EQ(kn_batch_view_next(&span, &view), KN_OK);
    CHECK_EQ(kn_span_left(&span), 0);
    CHECK_EQ(kn_batch_view_codec(&view), KN_CODEC_GZIP);
    CHECK_EQ(view.last_offset, 1);
    CHECK_EQ(kn_batch_view_check(&view), KN_OK);
    answer(request, 0, -1);
    /* kept anyway */
    check_delivered(-1, "one that is long enough to be worth it and another one of some length");
    teardown();
}

static void test_zstd_fails_each_message_with_a_reason(void)
{
    setup_with(2, zstd);
    engine->client.codecs.codecs[KN_CODEC_ZSTD].compress = take_half;
    produce("a");
    CHECK(send_now() == NULL);
    struct kn_batch *batch = delivered_first();
    CHECK(batch);
    CHECK_EQ(batch->status, KN_ERR_UNSUPPORTED);
    CHECK_STR(batch->error_text,
              "zstd can't be sent to a broker that has Produce up to version 2 only");
    CHECK_EQ(batch->persistence, KN_NOT_PERSISTED);
    kn_batch_free(batch);
    produce("b"); /* and the partition can go on */
    CHECK(send_now() == NULL);
    CHECK_EQ(list_count(&fake.delivered), 1);
    teardown();
}

/* --- a newer or older leader --- */

static void test_retry_is_written_in_the_form_of_the_new_leader(void)
{
    static const struct {
        int16_t version;
        int8_t magic;
    } eras[] = {{8, 2}, {2, 1}, {0, 0}, {1, 0}, {3, 2}, {2, 1}};
    setup_with(0, NULL);
    produce("a");
    produce("b");
    for (size_t i = 0; i < sizeof eras / sizeof eras[0]; i++) {
        sender->produce_version = eras[i].version;
        struct kn_produce *request = send_now();
        CHECK(request);
        CHECK_EQ(request->request.api_version, eras[i].version);
        check_wire(request, eras[i].magic, KN_CODEC_NONE, "a b");
        answer(request, 19, -1);
        CHECK(kn_list_empty(&fake.delivered));
    }
    answer(send_now(), 0, -1);
    check_delivered(-1, "a b");
    teardown();
}

#if defined(KN_HAVE_LZ4)
static void lz4(struct kn_engine_config *config)
{
    config->produce.codec = KN_CODEC_LZ4;
    config->produce.report_all = 0; /* the plain bytes are freed */
}

static void test_compressed_batch_finds_back_to_its_records(void)
{
    static const char value[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    static const struct {
        int16_t version;
        int8_t magic;
    } eras[] = {{8, 2}, {2, 1}, {0, 0}, {8, 2}, {0, 0}};
    setup_with(0, lz4);
    produce(value);
    for (size_t i = 0; i < sizeof eras / sizeof eras[0]; i++) {
        sender->produce_version = eras[i].version;
        struct kn_produce *request = send_now();
        CHECK(request);
        check_wire(request, eras[i].magic, KN_CODEC_LZ4, value);
        CHECK_EQ(request->batches[0]->plain == NULL, eras[i].magic == 2);
        answer(request, 19, -1);
    }
    answer(send_now(), 0, -1);
    check_delivered(-1, value);
    teardown();
}
#endif

static void test_set_too_large_for_the_broker_is_halved(void)
{
    setup_with(1, NULL);
    produce("a");
    produce("b");
    answer(send_now(), 10, -1);
    struct kn_produce *first = send_now(), *second = NULL;
    CHECK(first);
    check_wire(first, 0, KN_CODEC_NONE, "a");
    answer(first, 0, -1);
    second = send_now();
    check_wire(second, 0, KN_CODEC_NONE, "b");
    answer(second, 0, -1);
    check_delivered(-1, "a");
    check_delivered(-1, "b");
    teardown();
}

/* --- idempotence --- */

static void idempotent(struct kn_engine_config *config)
{
    config->produce.idempotence = KN_IDEMPOTENCE_DEMANDED;
}

static void check_refused(const char *values)
{
    struct kn_batch *batch = delivered_first();
    CHECK(batch);
    CHECK_EQ(batch->status, KN_ERR_UNSUPPORTED);
    CHECK_STR(
        batch->error_text,
        "enable.idempotence needs brokers from 0.11 on, and this partition's leader is older");
    CHECK_STR(values_of(batch), values);
    kn_batch_free(batch);
}

static void test_idempotence_fails_at_once_where_the_leader_cant_have_it(void)
{
    setup_with(2, idempotent);
    produce("without an id"); /* there is no producer id */
    CHECK(send_now() == NULL);
    check_refused("without an id");
    produce("again");
    CHECK(send_now() == NULL);
    check_refused("again");
    kn_topic_grant(topic, 1000, 3); /* from another broker of the cluster */
    produce("with an id");
    CHECK(send_now() == NULL);
    check_refused("with an id");
    sender->produce_version = 8; /* the broker was upgraded */
    produce("now");
    struct kn_produce *request = send_now();
    CHECK(request);
    check_wire(request, 2, KN_CODEC_NONE, "now");
    CHECK_EQ(request->batches[0]->base_sequence, 0);
    answer(request, 0, -1);
    check_delivered(-1, "now");
    teardown();
}

static void wanted(struct kn_engine_config *config)
{
    config->produce.idempotence = KN_IDEMPOTENCE_WANTED;
}

static void test_wanted_idempotence_is_dropped_at_an_old_leader(void)
{
    setup_with(2, wanted);
    kn_topic_grant(topic, 1000, 3); /* from another broker of the cluster */
    produce("numbered in vain");
    struct kn_produce *request = send_now();
    CHECK(request);
    answer(request, 0, -1);
    check_delivered(-1, "numbered in vain");
    teardown();
}

static void gapless(struct kn_engine_config *config)
{
    config->produce.idempotence = KN_IDEMPOTENCE_DEMANDED;
    config->produce.gapless = 1;
}

static void test_with_gapless_a_failure_is_fatal(void)
{
    setup_with(0, gapless);
    produce("a");
    CHECK(send_now() == NULL);
    check_refused("a");
    struct kn_event *event = event_first();
    CHECK(event);
    CHECK_EQ(event->kind, KN_EVENT_FATAL);
    CHECK_EQ(event->token, 71);
    CHECK_EQ(event->partition, 0);
    CHECK_EQ(event->status, KN_ERR_UNSUPPORTED);
    kn_event_free(event);
    teardown();
}

int main(void)
{
    RUN(test_each_old_version_carries_its_newest_form);
    RUN(test_compressed_set_is_one_message);
    RUN(test_zstd_fails_each_message_with_a_reason);
    RUN(test_retry_is_written_in_the_form_of_the_new_leader);
#if defined(KN_HAVE_LZ4)
    RUN(test_compressed_batch_finds_back_to_its_records);
#endif
    RUN(test_set_too_large_for_the_broker_is_halved);
    RUN(test_idempotence_fails_at_once_where_the_leader_cant_have_it);
    RUN(test_wanted_idempotence_is_dropped_at_an_old_leader);
    RUN(test_with_gapless_a_failure_is_fatal);
    return check_done();
}
