/* The queues to Python: order, waiting, kicks, signals, and many threads at once. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine_check.h"
#include "net/queue.h"

#include <math.h>
#include <signal.h>

struct item {
    struct kn_list node;
    long value;
};

static struct item *item_new(long value)
{
    struct item *item = malloc(sizeof *item);
    item->value = value;
    kn_list_init(&item->node);
    return item;
}

static long pop_value(struct kn_queue *queue)
{
    struct kn_list *node = kn_queue_pop(queue);
    if (!node) return -1;
    struct item *item = KN_LIST_ENTRY(node, struct item, node);
    long value = item->value;
    free(item);
    return value;
}

static int readable(const struct kn_queue *queue)
{
    struct pollfd fd = {.fd = queue->wake.read_fd, .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

static void test_items_come_in_order_and_go_back_in_front(void)
{
    struct kn_queue queue;
    struct kn_list taken;
    CHECK_EQ(kn_queue_init(&queue), KN_OK);
    kn_list_init(&taken);
    CHECK_EQ(pop_value(&queue), -1);
    for (long i = 0; i < 4; i++) kn_queue_push(&queue, &item_new(i)->node);
    CHECK_EQ(kn_queue_count(&queue), 4);
    CHECK_EQ(pop_value(&queue), 0);
    kn_queue_take_all(&queue, &taken);
    CHECK_EQ(kn_queue_count(&queue), 0);
    kn_queue_push(&queue, &item_new(4)->node);
    kn_queue_put_back(&queue, &taken);
    kn_queue_put_back(&queue, &taken); /* empty: nothing happens */
    CHECK_EQ(kn_queue_count(&queue), 4);
    for (long i = 1; i <= 4; i++) CHECK_EQ(pop_value(&queue), i);
    kn_queue_deinit(&queue);
}

static void test_wait_returns_at_once_with_items_and_in_time_without(void)
{
    struct kn_queue queue;
    CHECK_EQ(kn_queue_init(&queue), KN_OK);
    int64_t before_us = kn_clock_us();
    CHECK_EQ(kn_queue_wait(&queue, 0), KN_ERR_TIMED_OUT);
    CHECK_EQ(kn_queue_wait(&queue, 20), KN_ERR_TIMED_OUT);
    CHECK(kn_clock_us() - before_us >= 20000);
    kn_queue_push(&queue, &item_new(7)->node);
    CHECK_EQ(kn_queue_wait(&queue, -1), KN_OK);
    CHECK_EQ(kn_queue_wait(&queue, -1), KN_OK); /* still there */
    CHECK_EQ(pop_value(&queue), 7);
    CHECK_EQ(kn_queue_wait(&queue, 1), KN_ERR_TIMED_OUT); /* the stale signal doesn't count */
    kn_queue_deinit(&queue);
}

static void test_a_kick_ends_one_wait_also_when_it_came_before(void)
{
    struct kn_queue queue;
    CHECK_EQ(kn_queue_init(&queue), KN_OK);
    kn_queue_kick(&queue);
    CHECK_EQ(kn_queue_wait(&queue, -1), KN_OK);
    CHECK_EQ(kn_queue_wait(&queue, 1), KN_ERR_TIMED_OUT);
    kn_queue_deinit(&queue);
}

#define SLEEPERS 4

struct kicked {
    struct kn_queue queue;
    _Atomic long rounds[SLEEPERS];
    _Atomic int next, stop;
};

/* Waits repeatedly: a thread that comes back early must not use up a kick that another thread
 * needs. */
static void *kicked_sleeper(void *argument)
{
    struct kicked *kicked = argument;
    int me = atomic_fetch_add(&kicked->next, 1);
    while (!atomic_load(&kicked->stop)) {
        CHECK_EQ(kn_queue_wait(&kicked->queue, 10000), KN_OK);
        atomic_fetch_add(&kicked->rounds[me], 1);
    }
    return NULL;
}

static void test_a_kick_reaches_every_sleeper(void)
{
    struct kicked kicked = {.next = 0};
    pthread_t threads[SLEEPERS];
    CHECK_EQ(kn_queue_init(&kicked.queue), KN_OK);
    for (int i = 0; i < SLEEPERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, kicked_sleeper, &kicked), 0);
    for (int kick = 0; kick < 300; kick++) {
        long before[SLEEPERS];
        for (int i = 0; i < SLEEPERS; i++) before[i] = atomic_load(&kicked.rounds[i]);
        kn_queue_kick(&kicked.queue);
        for (int i = 0; i < SLEEPERS; i++) {
            while (atomic_load(&kicked.rounds[i]) == before[i]) usleep(10);
        }
    }
    atomic_store(&kicked.stop, 1);
    kn_queue_kick(&kicked.queue);
    for (int i = 0; i < SLEEPERS; i++) pthread_join(threads[i], NULL);
    CHECK_EQ(kicked.queue.unseen, 0);
    CHECK_EQ(kicked.queue.sleepers, 0);
    kn_queue_deinit(&kicked.queue);
}

static void test_an_event_loop_sees_the_descriptor_until_it_rests(void)
{
    struct kn_queue queue;
    CHECK_EQ(kn_queue_init(&queue), KN_OK);
    CHECK(!readable(&queue));
    kn_queue_push(&queue, &item_new(1)->node);
    kn_queue_push(&queue, &item_new(2)->node);
    CHECK(readable(&queue));
    CHECK_EQ(pop_value(&queue), 1);
    CHECK_EQ(kn_queue_rest(&queue), 1);
    CHECK(readable(&queue)); /* one is left */
    CHECK_EQ(pop_value(&queue), 2);
    CHECK_EQ(kn_queue_rest(&queue), 0);
    CHECK(!readable(&queue));
    kn_queue_kick(&queue);
    CHECK(readable(&queue));
    CHECK_EQ(kn_queue_rest(&queue), 0); /* also after waiting on other queues */
    CHECK(!readable(&queue));
    kn_queue_push(&queue, &item_new(3)->node);
    CHECK(readable(&queue));
    CHECK_EQ(pop_value(&queue), 3);
    kn_queue_deinit(&queue);
}

static void on_signal(int number) { (void)number; }

static void *interrupt_soon(void *argument)
{
    usleep(20000);
    pthread_kill(*(pthread_t *)argument, SIGUSR1);
    return NULL;
}

static void test_a_signal_ends_the_wait_at_once(void)
{
    struct kn_queue queue;
    /* poll(2) is never restarted */
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    pthread_t self = pthread_self(), thread;
    CHECK_EQ(kn_queue_init(&queue), KN_OK);
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, interrupt_soon, &self), 0);
    int64_t before_us = kn_clock_us();
    CHECK_EQ(kn_queue_wait(&queue, 10000), KN_ERR_INTERRUPTED);
    CHECK(kn_clock_us() - before_us < 2000000);
    pthread_join(thread, NULL);
    kn_queue_deinit(&queue);
}

#define PER_PRODUCER 30000
#define PRODUCERS 3
#define CONSUMERS 2

struct crowd {
    struct kn_queue queue;
    _Atomic long sum, taken;
};

static void *crowd_produce(void *argument)
{
    struct crowd *crowd = argument;
    for (long i = 1; i <= PER_PRODUCER; i++) {
        kn_queue_push(&crowd->queue, &item_new(i)->node);
        if (i % 64 == 0) sched_yield(); /* so that the consumers find the queue empty and sleep */
    }
    return NULL;
}

/* One consumer takes single items, the other takes all at once. A lost wake-up ends in the
 * timeout. */
static void *crowd_consume(void *argument)
{
    struct crowd *crowd = argument;
    int one_by_one = kn_random_below(2) == 0;
    while (atomic_load(&crowd->taken) < (long)PER_PRODUCER * PRODUCERS) {
        int status = kn_queue_wait(&crowd->queue, 5000);
        if (status == KN_ERR_TIMED_OUT)
            CHECK_EQ(atomic_load(&crowd->taken), (long)PER_PRODUCER * PRODUCERS);
        struct kn_list taken;
        kn_list_init(&taken);
        if (one_by_one) {
            struct kn_list *node = kn_queue_pop(&crowd->queue);
            if (node) kn_list_push_back(&taken, node);
        } else {
            kn_queue_take_all(&crowd->queue, &taken);
        }
        struct kn_list *node;
        while ((node = kn_list_pop_front(&taken))) {
            struct item *item = KN_LIST_ENTRY(node, struct item, node);
            atomic_fetch_add(&crowd->sum, item->value);
            atomic_fetch_add(&crowd->taken, 1);
            free(item);
        }
    }
    kn_queue_kick(&crowd->queue); /* the other consumer may be asleep */
    return NULL;
}

static void test_many_threads_lose_no_item_and_no_wakeup(void)
{
    struct crowd crowd = {.sum = 0};
    pthread_t threads[PRODUCERS + CONSUMERS];
    CHECK_EQ(kn_queue_init(&crowd.queue), KN_OK);
    for (int i = 0; i < CONSUMERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, crowd_consume, &crowd), 0);
    for (int i = 0; i < PRODUCERS; i++)
        CHECK_EQ(pthread_create(&threads[CONSUMERS + i], NULL, crowd_produce, &crowd), 0);
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++) pthread_join(threads[i], NULL);
    CHECK_EQ(atomic_load(&crowd.taken), (long)PER_PRODUCER * PRODUCERS);
    CHECK_EQ(atomic_load(&crowd.sum), (long)PRODUCERS * PER_PRODUCER * (PER_PRODUCER + 1) / 2);
    CHECK_EQ(kn_queue_count(&crowd.queue), 0);
    kn_queue_deinit(&crowd.queue);
}

static void test_idle_time_is_counted_once_for_many_waiters(void)
{
    struct kn_queue queue;
    CHECK_EQ(kn_queue_init(&queue), KN_OK);
    kn_queue_push(&queue, &item_new(1)->node);
    CHECK_EQ(kn_queue_wait(&queue, 1000), KN_OK); /* the item was there, so no thread waited */
    CHECK_EQ(kn_queue_idle_us(&queue), 0);
    CHECK_EQ(pop_value(&queue), 1);
    CHECK_EQ(kn_queue_wait(&queue, 20), KN_ERR_TIMED_OUT);
    int64_t slept_us = kn_queue_idle_us(&queue);
    CHECK(slept_us >= 15000);
    CHECK_EQ(kn_queue_idle_us(&queue), slept_us); /* no thread waits now */
    int64_t began_us = kn_clock_us();
    kn_queue_idle_begin(&queue);
    kn_queue_idle_begin(&queue);
    CHECK_EQ(kn_queue_wait(&queue, 5), KN_ERR_TIMED_OUT);
    CHECK(kn_queue_idle_us(&queue) >= slept_us + 4000); /* the current wait counts, too */
    kn_queue_idle_end(&queue);
    kn_queue_idle_end(&queue);
    int64_t all_us = kn_queue_idle_us(&queue);
    CHECK(all_us - slept_us <= kn_clock_us() - began_us);
    CHECK_EQ(kn_queue_idle_us(&queue), all_us);
    kn_queue_deinit(&queue);
}

static void test_a_wait_of_more_than_a_year_has_no_end(void)
{
    int64_t now_us = kn_clock_us();
    CHECK(kn_deadline_us(0) >= now_us && kn_deadline_us(0) <= kn_clock_us());
    int64_t year_us = (int64_t)KN_FOR_EVER_S * 1000000;
    CHECK(kn_deadline_us(KN_FOR_EVER_S) >= now_us + year_us &&
          kn_deadline_us(KN_FOR_EVER_S) <= kn_clock_us() + year_us);
    const double longer[] = {KN_FOR_EVER_S + 1.0, 1e10, 9.3e18, 1e300, INFINITY, -1, -1e300,
                             -INFINITY,           NAN};
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
        CHECK_EQ(kn_deadline_us(longer[i]), KN_NEVER);
}

/* --- a queue that is closed and opened again while other threads offer items --- */

#define OFFERS 2000
static struct kn_queue offered, fallback;

static void *offer_all(void *unused)
{
    (void)unused;
    for (long i = 0; i < OFFERS; i++) {
        struct item *item = item_new(i);
        if (!kn_queue_offer(&offered, &item->node)) kn_queue_push(&fallback, &item->node);
    }
    return NULL;
}

static long drain(struct kn_queue *queue)
{
    long count = 0;
    while (pop_value(queue) >= 0) count++;
    return count;
}

static void test_a_closed_queue_takes_nothing_and_loses_nothing(void)
{
    pthread_t threads[2];
    long taken = 0;
    CHECK_EQ(kn_queue_init(&offered), KN_OK);
    CHECK_EQ(kn_queue_init(&fallback), KN_OK);
    for (int i = 0; i < 2; i++) CHECK(!pthread_create(&threads[i], NULL, offer_all, NULL));
    for (int i = 0; i < 200; i++) {
        struct kn_list left, *node;
        kn_list_init(&left);
        kn_queue_close(&offered, &left);
        while ((node = kn_list_pop_front(&left))) {
            free(KN_LIST_ENTRY(node, struct item, node));
            taken++;
        }
        CHECK_EQ(kn_queue_count(&offered), 0);
        kn_queue_reopen(&offered);
        taken += drain(&offered);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK_EQ(taken + drain(&offered) + drain(&fallback), 2 * OFFERS);
    kn_queue_deinit(&offered);
    kn_queue_deinit(&fallback);
}

int main(void)
{
    RUN(test_items_come_in_order_and_go_back_in_front);
    RUN(test_wait_returns_at_once_with_items_and_in_time_without);
    RUN(test_a_kick_ends_one_wait_also_when_it_came_before);
    RUN(test_a_kick_reaches_every_sleeper);
    RUN(test_an_event_loop_sees_the_descriptor_until_it_rests);
    RUN(test_a_signal_ends_the_wait_at_once);
    RUN(test_a_wait_of_more_than_a_year_has_no_end);
    RUN(test_idle_time_is_counted_once_for_many_waiters);
    RUN(test_many_threads_lose_no_item_and_no_wakeup);
    RUN(test_a_closed_queue_takes_nothing_and_loses_nothing);
    return check_done();
}
