/* A sender that the test drives: two topics that its broker leads, its steps, and the responses to
 * its requests. Each test program includes this file once. */
#ifndef KN_TESTS_SENDER_CHECK_H
#define KN_TESTS_SENDER_CHECK_H

#include "base/endian.h"
#include "base/varint.h"
#include "produce_fakes.h"

static struct kn_engine *engine;
static struct kn_topic *topic, *second_topic;
static struct kn_broker broker, other;
static struct kn_sender the_sender, *sender = &the_sender;

UNUSED static void setup_with(void (*configure)(struct kn_engine_config *config))
{
    engine = fake_engine();
    if (configure) configure(&engine->config);
    fake_broker_init(&broker, engine);
    fake_broker_init(&other, engine);
    broker.handle = 3;
    kn_sender_init(sender, &broker, &engine->producer);
    sender->produce_version = 12;
    topic = kn_topic_new(&engine->producer, "one", 3, 71);
    second_topic = kn_topic_new(&engine->producer, "two", 3, 72);
    struct kn_broker *leaders[8];
    for (int i = 0; i < 8; i++) leaders[i] = &broker;
    CHECK_EQ(kn_topic_set_partitions(topic, NULL, 8, leaders, NULL), KN_OK);
    CHECK_EQ(kn_topic_set_partitions(second_topic, NULL, 2, leaders, NULL), KN_OK);
}

UNUSED static void no_linger(struct kn_engine_config *config) { config->produce.linger_us = 0; }
UNUSED static void setup(void) { setup_with(no_linger); }

UNUSED static void teardown(void)
{
    CHECK_EQ(broker.in_flight, 0);
    check_batches_of(topic);
    check_batches_of(second_topic);
    kn_sender_deinit(sender);
    kn_topic_free(topic);
    kn_topic_free(second_topic);
    fake_engine_free(engine);
}

UNUSED static void produce(struct kn_topic *to, int32_t partition, const char *value)
{
    struct kn_message message = message_of_text(NULL, value);
    message.partition = partition;
    CHECK_EQ(kn_topic_produce(to, &message), KN_OK);
}

/* Does what the broker thread does: passes notifications to the sender and then calls its step. */
UNUSED static int64_t step_at(int64_t now_us)
{
    for (long i = 0; i < fake.notice_count; i++) {
        if (fake.notices[i].broker == &broker)
            CHECK_EQ(kn_sender_add(sender, fake.notices[i].accumulator, fake.notices[i].at_us),
                     KN_OK);
    }
    fake.notice_count = 0;
    return kn_sender_step(sender, now_us);
}
UNUSED static int64_t step(void) { return step_at(kn_clock_us()); }

UNUSED static struct kn_produce *sent_first(void)
{
    struct kn_list *node = kn_list_pop_front(&fake.sent);
    return node ? KN_LIST_ENTRY(KN_LIST_ENTRY(node, struct kn_request, node), struct kn_produce,
                                request)
                : NULL;
}

UNUSED static void finish(struct kn_produce *produce_request, int written, int status,
                          const uint8_t *body, size_t body_bytes)
{
    struct kn_chunk chunk; /* freed after the call, like a real response */
    uint8_t *exact = malloc(body_bytes + 1);
    CHECK(exact);
    if (body_bytes) memcpy(exact, body, body_bytes);
    produce_request->request.was_written = (uint8_t)written;
    if (written && !produce_request->request.sent_us)
        produce_request->request.sent_us = kn_clock_us();
    produce_request->request.on_done(&produce_request->request, status,
                                     status == KN_OK && body ? &chunk : NULL,
                                     kn_span_of(exact, body_bytes));
    memset(exact, 0xdd, body_bytes);
    free(exact);
}

struct answer { /* of one partition */
    const char *topic;
    int32_t partition;
    int16_t error_code;
    const char *text;
    int32_t leader_id;
};

/* Writes a Produce response of version 12 (or 13, without names). */
UNUSED static size_t write_answers(uint8_t *to, const struct answer *answers, int count,
                                   int32_t throttle_ms)
{
    uint8_t *start = to;
    to = kn_uvarint_put(to, (uint32_t)count + 1);
    for (int i = 0; i < count; i++) {
        const struct answer *answer = &answers[i];
        size_t name = strlen(answer->topic), text = answer->text ? strlen(answer->text) : 0;
        to = kn_uvarint_put(to, (uint32_t)name + 1);
        memcpy(to, answer->topic, name), to += name;
        *to++ = 2;
        to = kn_put_i32(to, answer->partition);
        to = kn_put_i16(to, answer->error_code);
        to = kn_put_i64(to, answer->error_code ? -1 : 500 + answer->partition);
        to = kn_put_i64(to, -1), to = kn_put_i64(to, 0), *to++ = 1;
        to = kn_uvarint_put(to, answer->text ? (uint32_t)text + 1 : 0);
        if (text) memcpy(to, answer->text, text), to += text;
        if (answer->leader_id > 0) {
            *to++ = 1, *to++ = 0, *to++ = 9;
            to = kn_put_i32(to, answer->leader_id), to = kn_put_i32(to, 21);
        }
        *to++ = 0, *to++ = 0;
    }
    to = kn_put_i32(to, throttle_ms);
    *to++ = 1, *to++ = 0, *to++ = 14, *to++ = 2; /* endpoints: one */
    to = kn_put_i32(to, 9), *to++ = 3, *to++ = 'h', *to++ = '9', to = kn_put_i32(to, 9092),
    *to++ = 0, *to++ = 0;
    return (size_t)(to - start);
}

UNUSED static void answer_with(struct kn_produce *request, const struct answer *answers, int count,
                               int32_t throttle_ms)
{
    uint8_t body[4096];
    finish(request, 1, KN_OK, body, write_answers(body, answers, count, throttle_ms));
}

UNUSED static void check_idle(void)
{
    CHECK_EQ(atomic_load(&engine->producer.budget.messages), 0);
    CHECK_EQ(atomic_load(&engine->producer.budget.bytes), 0);
    CHECK_EQ(step(), KN_NEVER);
    CHECK(kn_list_empty(&fake.sent));
}

#endif
