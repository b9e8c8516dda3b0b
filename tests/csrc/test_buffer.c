/* Buffers and their pool. */
#include "check.h"

#include <pthread.h>

#include "base/buffer.h"
#include "base/status.h"

static void test_take_rounds_up_to_a_size_class(void)
{
    struct kn_buffer *small = kn_buffer_take(NULL, 0);
    struct kn_buffer *even = kn_buffer_take(NULL, 512);
    struct kn_buffer *odd = kn_buffer_take(NULL, 4097);
    CHECK_EQ(small->capacity_bytes, 256);
    CHECK_EQ(small->size_bytes, 0);
    CHECK_EQ(even->capacity_bytes, 512);
    CHECK_EQ(odd->capacity_bytes, 8192);
    kn_buffer_give(small);
    kn_buffer_give(even);
    kn_buffer_give(odd);
}

static void test_a_given_buffer_comes_back_warm(void)
{
    struct kn_pool *pool = kn_pool_new(1 << 20);
    struct kn_buffer *first = kn_buffer_take(pool, 5000);
    uint8_t *data = first->data;
    first->size_bytes = 17;
    kn_buffer_give(first);
    CHECK_EQ(kn_pool_idle_bytes(pool), 8192);
    struct kn_buffer *again = kn_buffer_take(pool, 8192);
    CHECK(again->data == data);
    CHECK_EQ(again->size_bytes, 0);
    CHECK_EQ(kn_pool_idle_bytes(pool), 0);
    kn_buffer_give(again);
    kn_pool_free(pool);
}

static void test_pool_keeps_at_most_its_cap_and_frees_the_oldest(void)
{
    struct kn_pool *pool = kn_pool_new(16384);
    struct kn_buffer *old = kn_buffer_take(pool, 4096);
    struct kn_buffer *middle = kn_buffer_take(pool, 8192);
    struct kn_buffer *new = kn_buffer_take(pool, 8192);
    uint8_t *kept = new->data;
    kn_buffer_give(old);
    kn_buffer_give(middle);
    CHECK_EQ(kn_pool_idle_bytes(pool), 12288);
    kn_buffer_give(new);
    CHECK_EQ(kn_pool_idle_bytes(pool), 16384); /* the 4 KiB one went */
    struct kn_buffer *again = kn_buffer_take(pool, 8192);
    CHECK(again->data == kept); /* newest first */
    kn_buffer_give(again);
    struct kn_buffer *huge = kn_buffer_take(pool, 1 << 20);
    kn_buffer_give(huge);
    CHECK_EQ(kn_pool_idle_bytes(pool), 16384); /* larger than the cap: never kept */
    kn_pool_trim(pool, 8192);
    CHECK_EQ(kn_pool_idle_bytes(pool), 8192);
    kn_pool_trim(pool, 0);
    CHECK_EQ(kn_pool_idle_bytes(pool), 0);
    kn_pool_free(pool);
}

static void test_live_counts_taken_buffers(void)
{
    struct kn_pool *pool = kn_pool_new(1 << 20);
    CHECK_EQ(kn_buffer_live(), 0);
    struct kn_buffer *a = kn_buffer_take(pool, 1);
    struct kn_buffer *b = kn_buffer_take(NULL, 1);
    CHECK_EQ(kn_buffer_live(), 2);
    kn_buffer_give(a);
    CHECK_EQ(kn_buffer_live(), 1); /* idle in the pool is not live */
    a = kn_buffer_take(pool, 1);
    CHECK_EQ(kn_buffer_live(), 2);
    kn_buffer_give(a);
    kn_buffer_give(b);
    kn_buffer_give(NULL);
    CHECK_EQ(kn_buffer_live(), 0);
    kn_pool_free(pool);
}

static void grow_and_check(struct kn_pool *pool)
{
    struct kn_buffer *buffer = kn_buffer_take(pool, 10);
    uint8_t piece[1000];
    for (int i = 0; i < 1000; i++) piece[i] = (uint8_t)i;
    /* from malloc() to pages of its own */
    for (int i = 0; i < 1000; i++) CHECK_EQ(kn_buffer_append(&buffer, piece, sizeof piece), KN_OK);
    CHECK_EQ(buffer->size_bytes, 1000000);
    CHECK(buffer->capacity_bytes >= 1000000 && buffer->capacity_bytes <= 2097152);
    for (int i = 0; i < 1000; i++) CHECK_MEM(buffer->data + i * 1000, piece, sizeof piece);
    CHECK_EQ(kn_buffer_append(&buffer, NULL, 0), KN_OK);
    kn_buffer_give(buffer);
}

static void test_reserve_keeps_the_content(void)
{
    struct kn_pool *pool = kn_pool_new(4 << 20);
    grow_and_check(NULL);
    grow_and_check(pool);
    grow_and_check(pool); /* now there are warm ones to move into */
    CHECK_EQ(kn_buffer_live(), 0);
    kn_pool_free(pool);
}

static void test_impossible_sizes_are_refused(void)
{
    struct kn_buffer *buffer = kn_buffer_take(NULL, 10);
    uint8_t *data = buffer->data;
    CHECK_EQ(kn_buffer_reserve(&buffer, SIZE_MAX), KN_ERR_NOMEM);
    CHECK_EQ(kn_buffer_reserve(&buffer, SIZE_MAX / 3), KN_ERR_NOMEM);
    CHECK(buffer->data == data);
    CHECK(kn_buffer_take(NULL, SIZE_MAX / 3) == NULL);
    kn_buffer_give(buffer);
    CHECK_EQ(kn_buffer_live(), 0);
}

#ifdef KN_DEBUG
static void test_a_given_buffer_is_poisoned(void)
{
    struct kn_pool *pool = kn_pool_new(1 << 20);
    struct kn_buffer *buffer = kn_buffer_take(pool, 4096);
    memset(buffer->data, 1, 4096);
    kn_buffer_give(buffer);
    buffer = kn_buffer_take(pool, 4096);
    CHECK_EQ(buffer->data[0], 0xdd);
    CHECK_EQ(buffer->data[4095], 0xdd);
    kn_buffer_give(buffer);
    kn_pool_free(pool);
}
#endif

static void *churn(void *argument)
{
    struct kn_pool *pool = argument;
    for (int i = 0; i < 2000; i++) {
        struct kn_buffer *buffer = kn_buffer_take(pool, (size_t)(i % 5) * 3000);
        buffer->data[0] = (uint8_t)i;
        if (i % 7 == 0) kn_buffer_reserve(&buffer, 20000);
        kn_buffer_give(buffer);
    }
    return NULL;
}

static void test_threads_share_a_pool(void)
{
    struct kn_pool *pool = kn_pool_new(65536);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_create(&threads[i], NULL, churn, pool), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK(kn_pool_idle_bytes(pool) <= 65536);
    CHECK_EQ(kn_buffer_live(), 0);
    kn_pool_free(pool);
}

int main(void)
{
    RUN(test_take_rounds_up_to_a_size_class);
    RUN(test_a_given_buffer_comes_back_warm);
    RUN(test_pool_keeps_at_most_its_cap_and_frees_the_oldest);
    RUN(test_live_counts_taken_buffers);
    RUN(test_reserve_keeps_the_content);
    RUN(test_impossible_sizes_are_refused);
#ifdef KN_DEBUG
    RUN(test_a_given_buffer_is_poisoned);
#endif
    RUN(test_threads_share_a_pool);
    return check_done();
}
