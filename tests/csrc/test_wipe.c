/* Freed memory never holds a password: requests, a proxy's login and TLS overwrite their copies.
 *
 * The program has its own free (over glibc's), which searches the freed block. The sanitizers have
 * their own, too, so with them this program only prints why it does nothing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine_bench.h"
#include "net/proxy.h"

#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

int main(void)
{
    CHECK(1);
    puts("not run: the allocator can't be replaced under a sanitizer or without glibc");
    return check_done();
}

#else

#include <malloc.h>

extern void __libc_free(void *data);

static const char secret[] = "s3cret-of-alice";
static _Thread_local int is_checking, found;

void free(void *data)
{
    if (data && is_checking && memmem(data, malloc_usable_size(data), secret, sizeof secret - 1))
        found++;
    __libc_free(data);
}

/* Returns how many blocks with the secret were freed since the last call. */
static int leaked(void)
{
    int count = found;
    found = 0;
    return count;
}

static void test_unwiped_bytes_are_found(void)
{
    char *block = malloc(100);
    CHECK(block);
    memcpy(block + 40, secret, sizeof secret);
    free(block);
    CHECK_EQ(leaked(), 1);
}

static void submit_to(struct bench *bench, int32_t generation, int16_t api_key, uint8_t flags,
                      uint64_t token)
{
    CHECK_EQ(kn_engine_submit(bench->engine, 0, generation, api_key, 1, 0, 0, flags,
                              (const uint8_t *)secret, sizeof secret - 1, token, 60000),
             KN_OK);
}

static void submit(struct bench *bench, int32_t generation, uint8_t flags, uint64_t token)
{
    submit_to(bench, generation, 36, flags, token);
}

static void settled(struct bench *bench, uint64_t token, int status)
{
    struct kn_event *got = event(bench, KN_EVENT_REPLY);
    CHECK_EQ(got->token, token);
    CHECK_EQ(got->status, status);
    kn_event_free(got);
}

static void test_answered_requests(void)
{
    struct bench bench = bench_new(NULL);
    submit(&bench, 0, 0, 1);
    int32_t generation = connect_now(&bench, 1);
    submit(&bench, generation, KN_REQUEST_HANDSHAKE, 2);
    turn(&bench, 0, 1);
    size_t size;
    int32_t correlation_id;
    is_checking = 0; /* the peer's copy belongs to the test */
    uint8_t *frame = peer_read_request(bench.peer, &size, &correlation_id);
    CHECK_MEM(frame + size - (sizeof secret - 1), secret, sizeof secret - 1);
    free(frame);
    is_checking = 1;
    peer_reply(bench.peer, correlation_id, "in", 2);
    turn(&bench, 1000, 1);
    settled(&bench, 2, KN_OK);
    CHECK_EQ(leaked(), 0);
    bench_free(&bench);
    CHECK_EQ(leaked(), 0);
}

static void test_unsent_requests(void)
{
    struct bench bench = bench_new(NULL);
    submit(&bench, 0, 0, 1);
    int32_t generation = connect_now(&bench, 1);
    submit(&bench, generation + 1, KN_REQUEST_HANDSHAKE, 2); /* of another connection */
    turn(&bench, 0, 1);
    settled(&bench, 2, KN_ERR_STALE);
    CHECK_EQ(kn_engine_broker_stop(bench.engine, 0), KN_OK);
    turn(&bench, 0, 2);
    kn_event_free(event(&bench, KN_EVENT_DISCONNECTED));
    settled(&bench, 1, KN_ERR_CLOSED);
    submit(&bench, 0, 0, 3);
    settled(&bench, 3, KN_ERR_CLOSED);
    bench_free(&bench);
    CHECK_EQ(leaked(), 0);
}

/* The secret of a delegation token: wiped from a response's buffer, which the pool may keep for the
 * next one. */
static void test_answers_with_a_tokens_secret(void)
{
    struct bench bench = bench_new(NULL);
    submit(&bench, 0, 0, 1);
    int32_t generation = connect_now(&bench, 1);
    for (int16_t api_key = 38; api_key <= 41; api_key += 3) {
        /* CreateDelegationToken, DescribeDelegationToken */
        submit_to(&bench, generation, api_key, KN_REQUEST_HANDSHAKE, 2);
        turn(&bench, 0, 1);
        size_t size;
        int32_t correlation_id;
        is_checking = 0; /* the peer's copies belong to the test */
        free(peer_read_request(bench.peer, &size, &correlation_id));
        peer_reply(bench.peer, correlation_id, secret, sizeof secret);
        is_checking = 1;
        turn(&bench, 1000, 1);
        struct kn_event *got = event(&bench, KN_EVENT_REPLY);
        struct kn_chunk *chunk = kn_chunk_ref(got->chunk);
        const uint8_t *body = got->body;
        static const char nothing[sizeof secret];
        CHECK_MEM(body, secret, sizeof secret);
        kn_event_free(got);
        CHECK_MEM(body, nothing, sizeof secret);
        kn_chunk_unref(chunk);
    }
    bench_free(&bench);
    CHECK_EQ(leaked(), 0);
}

static void test_the_login_of_a_proxy(void)
{
    struct kn_proxy *proxy = kn_proxy_new(KN_PROXY_HTTP, 1, "proxy", 3128, (const uint8_t *)secret,
                                          sizeof secret - 1);
    CHECK(proxy);
    CHECK_MEM(proxy->login, secret, sizeof secret - 1);
    kn_proxy_unref(proxy);
    CHECK_EQ(leaked(), 0);
}

int main(void)
{
    is_checking = 1;
    RUN(test_unwiped_bytes_are_found);
    RUN(test_answered_requests);
    RUN(test_unsent_requests);
    RUN(test_answers_with_a_tokens_secret);
    RUN(test_the_login_of_a_proxy);
    return check_done();
}

#endif
