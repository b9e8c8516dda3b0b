/* Mutexes with a rank check, clocks, random numbers per thread, thread names.
 *
 * Thread: any. Lock: this file implements them. Who frees: the owner embeds the mutex.
 * The rank check (KN_DEBUG) counts the locks that this thread holds, by rank, in thread-local
 * memory, so it needs no lock. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__) && defined(__GLIBC__)
#include <cpuid.h>
#include <sched.h>
#include <x86intrin.h>
#endif

void kn_mutex_init(struct kn_mutex *mutex, enum kn_rank rank)
{
    pthread_mutex_init(&mutex->mutex, NULL);
#ifdef KN_DEBUG
    mutex->rank = rank;
#else
    (void)rank;
#endif
}

void kn_mutex_deinit(struct kn_mutex *mutex) { pthread_mutex_destroy(&mutex->mutex); }

#ifdef KN_DEBUG
static _Thread_local int held_by_rank[KN_RANK_LEAF + 1];

static void rank_abort(const char *action, int rank)
{
    fprintf(stderr, "kafka_native: lock order broken: %s a lock of rank %d\n", action, rank);
    abort();
}

void kn_mutex_lock(struct kn_mutex *mutex)
{
    for (int rank = mutex->rank; rank <= KN_RANK_LEAF; rank++) {
        if (held_by_rank[rank])
            rank_abort("taking, while holding one of the same or a higher rank,", mutex->rank);
    }
    pthread_mutex_lock(&mutex->mutex);
    held_by_rank[mutex->rank]++;
}

void kn_mutex_unlock(struct kn_mutex *mutex)
{
    if (held_by_rank[mutex->rank] <= 0) rank_abort("releasing, without holding it,", mutex->rank);
    held_by_rank[mutex->rank]--;
    pthread_mutex_unlock(&mutex->mutex);
}
#endif

static int64_t clock_read(clockid_t clock, int64_t per_second)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * per_second + now.tv_nsec / (1000000000 / per_second);
}

int64_t kn_clock_us(void) { return clock_read(CLOCK_MONOTONIC, 1000000); }

int64_t kn_deadline_us(double timeout_s)
{
    if (!(timeout_s >= 0 && timeout_s <= KN_FOR_EVER_S)) return KN_NEVER;
    return kn_clock_us() + (int64_t)(timeout_s * 1e6);
}

#if defined(__x86_64__) && defined(__GLIBC__)
/* Reading the clock waits until the processor has finished all earlier instructions; this took a
 * tenth of produce(). Reading the processor's counter takes a third of that time. The counters of
 * several processors may differ, so the clock is read again on another processor. */
#define RECENT_TICKS 65536 /* 13 to 65 microseconds */

static int ticks_are_steady;

__attribute__((constructor)) static void detect_steady_ticks(void)
{
    unsigned eax, ebx, ecx, edx;
    /* the counter has a constant speed, also while the processor sleeps */
    ticks_are_steady = __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && (edx & 1u << 8);
}

int64_t kn_wall_ms(void)
{
    static _Thread_local struct {
        uint64_t ticks;
        int64_t wall_ms;
        int processor;
    } last;
    if (!ticks_are_steady) return clock_read(CLOCK_REALTIME, 1000);
    uint64_t ticks = __rdtsc();
    int processor = sched_getcpu(); /* glibc reads it from memory, without a system call */
    if (ticks - last.ticks >= RECENT_TICKS || processor != last.processor || processor < 0) {
        last.ticks = ticks;
        last.processor = processor;
        last.wall_ms = clock_read(CLOCK_REALTIME, 1000);
    }
    return last.wall_ms;
}
#else
int64_t kn_wall_ms(void) { return clock_read(CLOCK_REALTIME, 1000); }
#endif

/* xorshift64*: a 64-bit state per thread, without a lock; only the first call makes a system call.
 */
static uint64_t random_next(void)
{
    static _Thread_local uint64_t state;
    if (!state) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        state = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^
                (uint64_t)(uintptr_t)&state * 0x9E3779B97F4A7C15u;
        if (!state) state = 0x9E3779B97F4A7C15u;
    }
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Du;
}

uint32_t kn_random_below(uint32_t bound) { return (uint32_t)((random_next() >> 32) * bound >> 32); }

void kn_thread_name(const char *name)
{
    char cut[16]; /* Linux takes 15 characters */
    snprintf(cut, sizeof cut, "%s", name);
#if defined(__linux__)
    pthread_setname_np(pthread_self(), cut);
#elif defined(__APPLE__)
    pthread_setname_np(cut);
#endif
}

static const char *errno_phrase_int(int failed, const char *buffer)
{
    return failed ? "unknown error" : buffer;
}
static const char *errno_phrase_text(const char *text, const char *buffer)
{
    (void)buffer;
    return text;
}

const char *kn_errno_text(int error, char *buffer, size_t size_bytes)
{
    if (size_bytes) buffer[0] = 0;
    /* POSIX's function returns an int and fills the buffer; GNU's returns the text, which may be
     * elsewhere. */
    return _Generic(strerror_r(error, buffer, size_bytes),
        int: errno_phrase_int,
        char *: errno_phrase_text)(strerror_r(error, buffer, size_bytes), buffer);
}
