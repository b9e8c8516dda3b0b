/* Wake-ups, clocks and locks: signals coalesce, none is lost, sleepers don't return early. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine_check.h"
#include "net/thread.h"
#include "net/wake.h"

#include <signal.h>
#include <sys/wait.h>

static int readable(const struct kn_wake *wake)
{
    struct pollfd fd = {.fd = wake->read_fd, .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

static void test_signal_makes_the_descriptor_readable_until_cleared(void)
{
    struct kn_wake wake;
    CHECK_EQ(kn_wake_init(&wake), KN_OK);
    CHECK(!readable(&wake));
    for (int i = 0; i < 3; i++) kn_wake_signal(&wake);
    CHECK(readable(&wake));
    kn_wake_clear(&wake);
    CHECK(!readable(&wake));
    kn_wake_signal(&wake);
    CHECK(readable(&wake));
    kn_wake_deinit(&wake);
    kn_wake_deinit(&wake);
}

static void test_signals_after_the_first_write_nothing(void)
{
    struct kn_wake wake;
    CHECK_EQ(kn_wake_init(&wake), KN_OK);
    for (int i = 0; i < 1000; i++) kn_wake_signal(&wake);
    uint64_t count = 0;
    CHECK(read(wake.read_fd, &count, sizeof count) > 0);
#ifdef __linux__
    CHECK_EQ(count, 1);
#endif
    kn_wake_deinit(&wake);
}

static void test_clear_without_signal_returns_and_the_next_signal_arrives(void)
{
    struct kn_wake wake;
    CHECK_EQ(kn_wake_init(&wake), KN_OK);
    kn_wake_clear(&wake);
    kn_wake_clear(&wake);
    kn_wake_signal(&wake);
    CHECK(readable(&wake));
    kn_wake_deinit(&wake);
}

static void test_poll_never_returns_before_its_time(void)
{
    struct kn_wake wake;
    CHECK_EQ(kn_wake_init(&wake), KN_OK);
    struct pollfd fd = {.fd = wake.read_fd, .events = POLLIN};
    for (int64_t timeout_us = 1; timeout_us <= 5000; timeout_us = timeout_us * 3 + 7) {
        int64_t before_us = kn_clock_us();
        CHECK_EQ(kn_wake_poll(&fd, 1, timeout_us), 0);
        CHECK(kn_clock_us() - before_us >= timeout_us);
    }
    kn_wake_signal(&wake);
    CHECK_EQ(kn_wake_poll(&fd, 1, -1), 1);
    kn_wake_deinit(&wake);
}

/* Two threads pass a number back and forth: one lost signal hangs this test. */
struct ping {
    struct kn_wake wake[2];
    _Atomic long turn[2];
};

#define ROUNDS 5000

static void wait_for(struct ping *ping, int side, long value)
{
    for (;;) {
        if (atomic_load_explicit(&ping->turn[side], memory_order_relaxed) >= value) return;
        struct pollfd fd = {.fd = ping->wake[side].read_fd, .events = POLLIN};
        CHECK_EQ(kn_wake_poll(&fd, 1, 10000000), 1);
        kn_wake_clear(&ping->wake[side]);
    }
}

static void *ping_other_side(void *argument)
{
    struct ping *ping = argument;
    for (long i = 1; i <= ROUNDS; i++) {
        wait_for(ping, 1, i);
        atomic_store_explicit(&ping->turn[0], i, memory_order_relaxed);
        kn_wake_signal(&ping->wake[0]);
    }
    return NULL;
}

static void test_no_signal_is_lost_between_two_threads(void)
{
    struct ping ping = {.turn = {0, 0}};
    pthread_t thread;
    CHECK_EQ(kn_wake_init(&ping.wake[0]), KN_OK);
    CHECK_EQ(kn_wake_init(&ping.wake[1]), KN_OK);
    CHECK_EQ(pthread_create(&thread, NULL, ping_other_side, &ping), 0);
    for (long i = 1; i <= ROUNDS; i++) {
        atomic_store_explicit(&ping.turn[1], i, memory_order_relaxed);
        kn_wake_signal(&ping.wake[1]);
        wait_for(&ping, 0, i);
    }
    pthread_join(thread, NULL);
    kn_wake_deinit(&ping.wake[0]);
    kn_wake_deinit(&ping.wake[1]);
}

static int32_t skipped_after_a_miss(struct kn_busy_wait *busy_wait, struct pollfd *fd)
{
    CHECK_EQ(kn_wake_poll_busy(busy_wait, fd, 1, -1), 0);
    int32_t skips = busy_wait->skips;
    for (int32_t left = skips; left > 0; left--) {
        CHECK_EQ(busy_wait->skips, left);
        CHECK_EQ(kn_wake_poll_busy(busy_wait, fd, 1, -1), 0);
    }
    CHECK_EQ(busy_wait->skips, 0);
    return skips;
}

static void test_staying_awake_is_tried_less_and_less_where_nothing_comes(void)
{
    static const int32_t expected[] = {0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 64, 64};
    struct kn_wake wake;
    struct kn_busy_wait busy_wait = {0};
    CHECK_EQ(kn_wake_init(&wake), KN_OK);
    struct pollfd fd = {.fd = wake.read_fd, .events = POLLIN};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        CHECK_EQ(skipped_after_a_miss(&busy_wait, &fd), expected[i]);
    kn_wake_signal(&wake);
    CHECK_EQ(kn_wake_poll_busy(&busy_wait, &fd, 1, -1), 1);
    CHECK_EQ(fd.revents & POLLIN, POLLIN);
    CHECK_EQ(busy_wait.misses, 0);
    kn_wake_clear(&wake);
    CHECK_EQ(skipped_after_a_miss(&busy_wait, &fd), 0);
    kn_wake_deinit(&wake);
}

static void test_busy_waiting_ends_at_the_timeout(void)
{
    struct kn_wake wake;
    struct kn_busy_wait busy_wait = {0};
    CHECK_EQ(kn_wake_init(&wake), KN_OK);
    struct pollfd fd = {.fd = wake.read_fd, .events = POLLIN};
    kn_wake_signal(&wake);
    /* without time it doesn't poll at all; the later sleep does */
    CHECK_EQ(kn_wake_poll_busy(&busy_wait, &fd, 1, 0), 0);
    CHECK_EQ(kn_wake_poll_busy(&busy_wait, &fd, 1, 1), 1);
    kn_wake_clear(&wake);
    CHECK_EQ(kn_wake_poll_busy(&busy_wait, &fd, 1, 1), 0);
    CHECK_EQ(busy_wait.misses, 1);
    kn_wake_deinit(&wake);
}

static void test_random_stays_below_its_bound_and_reaches_both_ends(void)
{
    int seen[10] = {0};
    for (int i = 0; i < 10000; i++) {
        uint32_t value = kn_random_below(10);
        CHECK(value < 10);
        seen[value]++;
    }
    for (int i = 0; i < 10; i++) CHECK(seen[i] > 700 && seen[i] < 1300);
    CHECK_EQ(kn_random_below(1), 0);
}

static void test_clocks_are_in_their_units(void)
{
    int64_t wall_ms = kn_wall_ms();
    CHECK(wall_ms > INT64_C(1600000000000) && wall_ms < INT64_C(4102444800000)); /* 2020 .. 2100 */
    int64_t before_us = kn_clock_us();
    usleep(2000);
    int64_t passed_us = kn_clock_us() - before_us;
    CHECK(passed_us >= 2000 && passed_us < 2000000);
    char buffer[64];
    CHECK_TEXT(kn_errno_text(ECONNREFUSED, buffer, sizeof buffer), "refused");
}

#ifdef KN_DEBUG
static int child_aborts(enum kn_rank first, enum kn_rank second)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct kn_mutex a, b;
        int null = open("/dev/null", O_WRONLY);
        signal(SIGABRT, SIG_DFL);
        dup2(null, 2);
        kn_mutex_init(&a, first);
        kn_mutex_init(&b, second);
        kn_mutex_lock(&a);
        kn_mutex_lock(&b);
        kn_mutex_unlock(&b);
        kn_mutex_unlock(&a);
        _exit(0);
    }
    int result;
    CHECK_EQ(waitpid(pid, &result, 0), pid);
    return WIFSIGNALED(result) && WTERMSIG(result) == SIGABRT;
}

static void test_debug_builds_abort_on_nested_leaf_locks(void)
{
    CHECK(child_aborts(KN_RANK_LEAF, KN_RANK_LEAF));
    CHECK(child_aborts(KN_RANK_LEAF, KN_RANK_TOPIC));
    CHECK(!child_aborts(KN_RANK_TOPIC, KN_RANK_LEAF));
}
#endif

int main(void)
{
    RUN(test_signal_makes_the_descriptor_readable_until_cleared);
    RUN(test_signals_after_the_first_write_nothing);
    RUN(test_clear_without_signal_returns_and_the_next_signal_arrives);
    RUN(test_poll_never_returns_before_its_time);
    RUN(test_no_signal_is_lost_between_two_threads);
    RUN(test_staying_awake_is_tried_less_and_less_where_nothing_comes);
    RUN(test_busy_waiting_ends_at_the_timeout);
    RUN(test_random_stays_below_its_bound_and_reaches_both_ends);
    RUN(test_clocks_are_in_their_units);
#ifdef KN_DEBUG
    RUN(test_debug_builds_abort_on_nested_leaf_locks);
#endif
    return check_done();
}
