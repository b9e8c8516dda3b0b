/* How long a process holds its mutexes, and waits for them. Loaded with LD_PRELOAD, it prints a
 * line for each function that locked one, with the most locked first. It counts mutexes of the C
 * library only: neither those in Python objects nor the interpreter lock.
 *
 * Thread: any. The counts of a place are atomic. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { PLACES_MAX = 1024, HELD_MAX = 16, SHOWN_MAX = 8 };

struct place {
    _Atomic(void *) caller;
    atomic_llong count, held_ns, held_max_ns, waited_ns;
};

static struct place places[PLACES_MAX];
static _Thread_local struct {
    pthread_mutex_t *mutex;
    struct place *place;
    int64_t since_ns;
} held[HELD_MAX];
static _Thread_local int held_count;
static int (*real_lock)(pthread_mutex_t *), (*real_unlock)(pthread_mutex_t *);
static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *);

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void find_functions(void)
{
    real_unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    real_wait = dlsym(RTLD_NEXT, "pthread_cond_wait");
    real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
}

static struct place *place_of(void *caller)
{
    size_t at = (uintptr_t)caller / 4 % PLACES_MAX;
    for (int tries = 0; tries < PLACES_MAX; tries++, at = (at + 1) % PLACES_MAX) {
        void *found = NULL;
        if (atomic_compare_exchange_strong(&places[at].caller, &found, caller) || found == caller)
            return &places[at];
    }
    return NULL;
}

static void begin_hold(pthread_mutex_t *mutex, struct place *place)
{
    if (held_count == HELD_MAX || !place) return;
    held[held_count].mutex = mutex;
    held[held_count].place = place;
    held[held_count++].since_ns = now_ns();
}

static struct place *end_hold(pthread_mutex_t *mutex)
{
    int64_t end_ns = now_ns();
    for (int i = held_count - 1; i >= 0; i--) {
        if (held[i].mutex != mutex) continue;
        struct place *place = held[i].place;
        long long time_ns = end_ns - held[i].since_ns;
        held[i] = held[--held_count];
        atomic_fetch_add(&place->count, 1);
        atomic_fetch_add(&place->held_ns, time_ns);
        long long most = atomic_load(&place->held_max_ns);
        while (most < time_ns &&
               !atomic_compare_exchange_weak(&place->held_max_ns, &most, time_ns)) {
        }
        return place;
    }
    return NULL;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (!real_lock) find_functions();
    struct place *place = place_of(__builtin_return_address(0));
    int64_t begin_ns = now_ns();
    int status = real_lock(mutex);
    if (place) atomic_fetch_add(&place->waited_ns, now_ns() - begin_ns);
    begin_hold(mutex, place);
    return status;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (!real_unlock) find_functions();
    end_hold(mutex);
    return real_unlock(mutex);
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    if (!real_wait) find_functions();
    struct place *place = end_hold(mutex); /* waiting isn't holding */
    int status = real_wait(condition, mutex);
    begin_hold(mutex, place);
    return status;
}

__attribute__((destructor)) static void show(void)
{
    for (int line = 0; line < SHOWN_MAX; line++) {
        struct place *most = NULL;
        for (int i = 0; i < PLACES_MAX; i++) {
            if (places[i].count && (!most || places[i].count > most->count)) most = &places[i];
        }
        if (!most) return;
        Dl_info info = {0};
        dladdr(most->caller, &info);
        fprintf(stderr, "%10lld locks in %s: held %lld ns, at most %lld ns; waited %lld ns\n",
                (long long)most->count, info.dli_sname ? info.dli_sname : "another function",
                most->held_ns / most->count, (long long)most->held_max_ns,
                most->waited_ns / most->count);
        most->count = 0;
    }
}
