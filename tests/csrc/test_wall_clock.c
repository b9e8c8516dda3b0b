/* kn_wall_ms() is called for every message. Its result may be a little old, but never older than
 * its limit, on any thread and processor. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "net/thread.h"

#define OLD_US 70 /* 65,536 ticks of a slow processor, and the rounding error */
#define LOOPS 200000
#define THREADS 4

static int64_t real_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void check_now(void)
{
    int64_t before_us = real_us();
    int64_t wall_ms = kn_wall_ms();
    CHECK(wall_ms >= (before_us - OLD_US) / 1000);
    CHECK(wall_ms <= real_us() / 1000);
}

static void *ask(void *unused)
{
    (void)unused;
    for (int i = 0; i < LOOPS; i++) check_now();
    return NULL;
}

static void test_it_is_now(void) { ask(NULL); }

static void test_it_is_now_in_every_thread(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK_EQ(pthread_create(&threads[i], NULL, ask, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void test_it_is_now_after_a_while(void)
{
    const struct timespec pauses[] = {{0, 1000}, {0, 60000}, {0, 1000000}, {0, 20000000}};
    for (size_t i = 0; i < sizeof pauses / sizeof pauses[0]; i++) {
        for (int round = 0; round < 5; round++) {
            check_now();
            nanosleep(&pauses[i], NULL);
        }
    }
}

static void test_it_is_now_on_every_processor(void)
{
#ifdef __linux__
    cpu_set_t allowed, one;
    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int round = 0; round < 200; round++) {
        for (int processor = 0; processor < CPU_SETSIZE; processor++) {
            if (!CPU_ISSET(processor, &allowed)) continue;
            CPU_ZERO(&one);
            CPU_SET(processor, &one);
            CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
            for (int i = 0; i < 20; i++) check_now();
        }
    }
    CHECK_EQ(sched_setaffinity(0, sizeof allowed, &allowed), 0);
#else
    check_now();
#endif
}

static void test_it_goes_on(void)
{
    int64_t first_ms = kn_wall_ms(), last_ms = first_ms;
    int64_t end_us = kn_clock_us() + 50000;
    while (kn_clock_us() < end_us) {
        for (int i = 0; i < 1000; i++) {
            int64_t now_ms = kn_wall_ms();
            CHECK(now_ms >= last_ms); /* if the clock isn't set meanwhile */
            last_ms = now_ms;
        }
    }
    CHECK(last_ms >= first_ms + 49);
}

int main(void)
{
    RUN(test_it_is_now);
    RUN(test_it_is_now_in_every_thread);
    RUN(test_it_is_now_after_a_while);
    RUN(test_it_is_now_on_every_processor);
    RUN(test_it_goes_on);
    return check_done();
}
