/* A simulated machine under one process: one virtual clock, one thread at a time, a network whose
 * delays and cuts come from a seed. The process loads it with LD_PRELOAD; its code isn't changed.
 *
 * How it works. The functions below replace those of the C library that wait, read a clock or use
 * a TCP socket. A thread runs until it calls one of them and has to wait, or is preempted there.
 * Then the seed chooses the next thread among those that can run. If none can, the clock moves to
 * the next deadline or delivery. So the same seed gives the same run, up to the last byte.
 *
 * Thread: only the running task executes this code, so it needs no lock. Everything is per
 * process. The functions named machine_... are for tests (ctypes).
 *
 * A TCP connection is two pairs of UNIX sockets. Their inner ends belong to the network below.
 *
 * A thread belongs to the group of the thread that made it. A group is a process that can freeze or
 * die. Its threads then run on until they wait without a lock, and without Python's own lock. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NEVER INT64_MAX
#define SHOWN __attribute__((visibility("default")))
enum {
    TASKS_MAX = 1024,
    FDS_MAX = 4096,
    LINKS_MAX = 1024,
    WAITING_MAX = 128,       /* connections that a listener hasn't accepted */
    IN_FLIGHT_MAX = 1 << 18, /* bytes of a direction; more stay in the sender's socket */
    PIECE_MAX = 1 << 16,
    WIRE_FD_MIN = 2048, /* the program's descriptors stay below */
    FIRST_PORT = 30000,
    FIRST_CLIENT_PORT = 40000,
    ONE_IN_PREEMPTS = 8,
    GROUPS_MAX = 4096,
    DEATH_STEPS_MAX = 10000,
    SEGMENT_MAX = 1448, /* bytes of a TCP segment, if bandwidth or losses matter */
    LOSSES_MAX = 6,     /* a segment that is lost so often ends its connection */
    FIRST_RTO_US = 200000,
};
#define START_US (1000 * INT64_C(1000000))            /* of the monotonic clock */
#define WALL_START_US (1800000000 * INT64_C(1000000)) /* of the time of day: January 2027 */

/* --- the seed --- */

static uint64_t choices, secrets; /* two streams: for decisions here, and for getrandom() */
static uint64_t digest = 0xcbf29ce484222325u;

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static int64_t below(int64_t bound) { return (int64_t)(next_random(&choices) % (uint64_t)bound); }

static void mix(uint64_t value) { digest = (digest ^ value) * 0x100000001b3u; }

/* --- tasks and the clock --- */

struct task { /* a thread */
    bool used, done, is_detached, blocked, woken;
    bool can_stop; /* it waits, and no other group waits for it */
    int group, lock_count;
    int kernel_id;
    const void *key; /* a lock, condition, semaphore or task: who uses it wakes the task */
    int64_t deadline_us;
    struct pollfd *fds; /* one that is ready wakes the task, too */
    nfds_t fd_count;
    uint64_t looked_at; /* `changes` when the descriptors were looked at */
    bool fd_is_ready;
    int turn; /* futex */
    pthread_t thread;
    void *(*start)(void *);
    void *argument, *result;
};

static struct task tasks[TASKS_MAX];
static int task_count;
static struct task *zombie; /* its thread ends: the next task waits for that */
static _Thread_local struct task *self;
static pthread_key_t end_key;
static int64_t now_us = START_US, wall_ahead_us = WALL_START_US - START_US;
static uint64_t changes = 1; /* counts what can change the state of a descriptor */
static int64_t switches;
static int64_t frozen_until_us[GROUPS_MAX]; /* NEVER: the group is dead */
static int64_t held_count; /* how often a frozen thread's time had come */
static FILE *trace;

static int (*real_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int (*real_join)(pthread_t, void **);
static int (*real_trylock)(pthread_mutex_t *);
static int (*real_unlock)(pthread_mutex_t *);
static int (*real_sem_post)(sem_t *);
static int (*real_close)(int);
static int (*has_python_lock)(void); /* PyGILState_Check() */

static void network_take(void);
static void network_deliver(void);
static int64_t network_next(void);

static int poll_now(struct pollfd *fds, nfds_t count)
{
    struct timespec none = {0, 0};
    return (int)syscall(SYS_ppoll, fds, count, &none, NULL, 0);
}

static bool is_held(const struct task *task)
{
    return task->can_stop && frozen_until_us[task->group] > now_us;
}

static void allow_stop(struct task *task)
{
    task->can_stop = task->group && !task->lock_count && has_python_lock && !has_python_lock();
}

static bool can_run(struct task *task)
{
    if (!task->blocked || task->woken || task->deadline_us <= now_us) return true;
    if (task->fd_count && task->looked_at != changes) {
        task->looked_at = changes;
        task->fd_is_ready = poll_now(task->fds, task->fd_count) != 0;
    }
    return task->fd_count && task->fd_is_ready;
}

static void give_up(const char *reason)
{
    fprintf(stderr, "simulated machine: %s at %lld us\n", reason, (long long)(now_us - START_US));
    for (int i = 0; i < task_count; i++) {
        struct task *task = &tasks[i];
        if (!task->used || task->done) continue;
        fprintf(stderr, "  task %d: %s key %p, %d descriptors, deadline %lld\n", i,
                task->blocked ? "waits," : "can run,", task->key, (int)task->fd_count,
                task->deadline_us == NEVER ? -1LL : (long long)(task->deadline_us - START_US));
    }
    abort();
}

static struct task *choose(void)
{
    static struct task *ready[TASKS_MAX];
    for (;;) {
        network_take();
        network_deliver();
        int count = 0;
        int64_t next_us = network_next();
        for (int i = 0; i < task_count; i++) {
            struct task *task = &tasks[i];
            if (!task->used || task->done) continue;
            if (is_held(task)) {
                int64_t until_us = frozen_until_us[task->group];
                if (until_us < next_us) next_us = until_us;
                if (until_us != NEVER && task->deadline_us <= now_us) held_count++;
                continue;
            }
            if (can_run(task)) ready[count++] = task;
            if (task->blocked && task->deadline_us < next_us) next_us = task->deadline_us;
        }
        if (count) return ready[count == 1 ? 0 : below(count)];
        if (next_us == NEVER) give_up("every thread waits for another one");
        now_us = next_us > now_us ? next_us : now_us;
    }
}

static void forget_task(struct task *task)
{
    real_join(task->thread, NULL);
    task->used = false;
}

static void wait_for_turn(struct task *task)
{
    while (!__atomic_load_n(&task->turn, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &task->turn, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    __atomic_store_n(&task->turn, 0, __ATOMIC_RELAXED);
    if (zombie) {
        /* until the kernel's thread has ended, it may still give memory back */
        while (!syscall(SYS_tgkill, getpid(), zombie->kernel_id, 0)) syscall(SYS_sched_yield);
        if (zombie->is_detached) forget_task(zombie);
        zombie = NULL;
    }
}

/* Lets the chosen task run. The caller returns when it is chosen again; never, if it is done. */
static void pass_on(void)
{
    struct task *task = self, *next = choose();
    int number = (int)(next - tasks);
    mix((uint64_t)number << 48 ^ (uint64_t)now_us);
    switches++;
    if (trace) fprintf(trace, "%lld %d\n", (long long)(now_us - START_US), number);
    if (next != task) {
        if (task->done) zombie = task;
        __atomic_store_n(&next->turn, 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &next->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        if (task->done) return;
        wait_for_turn(task);
    }
    task->blocked = task->can_stop = false;
}

/* Returns whether someone woke the task. */
static bool wait_for(const void *key, int64_t deadline_us, struct pollfd *fds, nfds_t fd_count,
                     bool is_lock)
{
    struct task *task = self;
    task->blocked = true;
    task->woken = false;
    task->key = key;
    task->deadline_us = deadline_us;
    task->fds = fds;
    task->fd_count = fd_count;
    task->looked_at = 0;
    if (!is_lock) allow_stop(task);
    pass_on();
    task->key = NULL;
    task->fd_count = 0;
    return task->woken;
}

static bool block(const void *key, int64_t deadline_us, struct pollfd *fds, nfds_t fd_count)
{
    return wait_for(key, deadline_us, fds, fd_count, false);
}

/* A frozen thread isn't woken in place of one that runs. */
static void wake(const void *key, bool all)
{
    int count = 0, held = 0;
    static struct task *found[TASKS_MAX], *frozen[TASKS_MAX];
    for (int i = 0; i < task_count; i++) {
        struct task *task = &tasks[i];
        if (!(task->used && task->blocked && !task->woken && task->key == key)) continue;
        if (is_held(task)) frozen[held++] = task;
        else found[count++] = task;
    }
    if (all || !count) {
        for (int i = 0; i < held; i++) found[count++] = frozen[i];
    }
    if (!count) return;
    if (!all) {
        found[0] = found[count == 1 ? 0 : below(count)];
        count = 1;
    }
    for (int i = 0; i < count; i++) found[i]->woken = true;
}

static void preempt(void)
{
    if (self && !self->done && below(ONE_IN_PREEMPTS) == 0) pass_on();
}

/* A place where no library has a lock that it can't name here. */
static void preempt_outside(void)
{
    if (!self || self->done) return;
    allow_stop(self);
    if (is_held(self)) pass_on();
    else preempt();
    self->can_stop = false;
}

/* --- threads --- */

static void end_task(void *argument)
{
    struct task *task = argument;
    task->done = true;
    wake(task, true);
    pass_on();
}

static void *run_task(void *argument)
{
    self = argument;
    self->kernel_id = (int)syscall(SYS_gettid);
    wait_for_turn(self);
    self->blocked = false;
    pthread_setspecific(end_key, self);
    return self->result = self->start(self->argument);
}

static struct task *new_task(void)
{
    for (int i = 0; i < TASKS_MAX; i++) {
        struct task *task = &tasks[i];
        if (task->used) continue;
        *task = (struct task){.used = true};
        if (i >= task_count) task_count = i + 1;
        return task;
    }
    give_up("too many threads");
    return NULL;
}

static void *real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

/* Other libraries' constructors may come first, and take locks. */
static void find_functions(void)
{
    real_create = real("pthread_create");
    real_join = real("pthread_join");
    real_trylock = real("pthread_mutex_trylock");
    real_unlock = real("pthread_mutex_unlock");
    real_sem_post = real("sem_post");
    real_close = real("close");
}

__attribute__((constructor)) static void begin(void)
{
    const char *seed = getenv("MACHINE_SEED"), *path = getenv("MACHINE_TRACE");
    find_functions();
    if (!seed) return;
    choices = strtoull(seed, NULL, 10) * 2 + 1;
    secrets = choices ^ 0xA5A5A5A5A5A5A5A5u;
    if (path) trace = fopen(path, "w");
    pthread_key_create(&end_key, end_task);
    has_python_lock = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Check");
    self = new_task();
    self->thread = pthread_self();
}

SHOWN int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                         void *(*start)(void *), void *argument)
{
    if (!self) return real_create(thread, attributes, start, argument);
    struct task *task = new_task();
    size_t stack = 0;
    pthread_attr_t own;
    pthread_attr_init(&own);
    if (attributes && !pthread_attr_getstacksize(attributes, &stack) && stack)
        pthread_attr_setstacksize(&own, stack);
    int detached = PTHREAD_CREATE_JOINABLE;
    if (attributes) pthread_attr_getdetachstate(attributes, &detached);
    task->is_detached = detached == PTHREAD_CREATE_DETACHED;
    task->start = start;
    task->argument = argument;
    task->group = self->group;
    int status = real_create(&task->thread, &own, run_task, task);
    pthread_attr_destroy(&own);
    if (status) task->used = false;
    else *thread = task->thread;
    return status;
}

static struct task *task_of(pthread_t thread)
{
    for (int i = 0; i < task_count; i++) {
        if (tasks[i].used && pthread_equal(tasks[i].thread, thread)) return &tasks[i];
    }
    return NULL;
}

SHOWN int pthread_join(pthread_t thread, void **result)
{
    if (!self) return real_join(thread, result);
    struct task *task = task_of(thread);
    if (!task) return ESRCH;
    while (!task->done) block(task, NEVER, NULL, 0);
    if (result) *result = task->result;
    forget_task(task);
    return 0;
}

SHOWN int pthread_detach(pthread_t thread)
{
    struct task *task = task_of(thread);
    if (!task) return ESRCH;
    task->is_detached = true;
    if (task->done) forget_task(task);
    return 0;
}

SHOWN int sched_yield(void)
{
    if (self) pass_on();
    return 0;
}

SHOWN int sched_getcpu(void) { return -1; } /* so kn_wall_ms() reads the clock each time */

/* --- locks --- */

SHOWN int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    int status;
    if (!real_trylock) find_functions();
    while ((status = real_trylock(mutex)) == EBUSY) {
        if (!self) give_up("a lock is taken outside");
        wait_for(mutex, NEVER, NULL, 0, true);
    }
    if (self && !status) self->lock_count++;
    return status;
}

SHOWN int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    if (!real_trylock) find_functions();
    int status = real_trylock(mutex);
    if (self && !status) self->lock_count++;
    return status;
}

SHOWN int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (!real_unlock) find_functions();
    int status = real_unlock(mutex);
    if (!self) return status;
    if (self->lock_count) self->lock_count--; /* it may be older than the machine */
    wake(mutex, true);
    preempt();
    return status;
}

/* A deadline of either clock: the time of day is far behind all monotonic times. */
static int64_t deadline_of(const struct timespec *at)
{
    if (!at) return NEVER;
    int64_t us = (int64_t)at->tv_sec * 1000000 + (at->tv_nsec + 999) / 1000;
    return us > WALL_START_US / 2 ? us - wall_ahead_us : us;
}

static int wait_for_condition(pthread_cond_t *condition, pthread_mutex_t *mutex,
                              int64_t deadline_us)
{
    real_unlock(mutex);
    if (self->lock_count) self->lock_count--;
    wake(mutex, true);
    bool woken = block(condition, deadline_us, NULL, 0);
    pthread_mutex_lock(mutex);
    return woken ? 0 : ETIMEDOUT;
}

SHOWN int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    return wait_for_condition(condition, mutex, NEVER);
}

SHOWN int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                 const struct timespec *at)
{
    return wait_for_condition(condition, mutex, deadline_of(at));
}

SHOWN int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                                 const struct timespec *at)
{
    (void)clock;
    return wait_for_condition(condition, mutex, deadline_of(at));
}

SHOWN int pthread_cond_signal(pthread_cond_t *condition)
{
    wake(condition, false);
    preempt();
    return 0;
}

SHOWN int pthread_cond_broadcast(pthread_cond_t *condition)
{
    wake(condition, true);
    preempt();
    return 0;
}

static int take_semaphore(sem_t *semaphore, int64_t deadline_us)
{
    while (sem_trywait(semaphore)) {
        if (errno != EAGAIN) return -1;
        if (deadline_us <= now_us) {
            errno = ETIMEDOUT;
            return -1;
        }
        block(semaphore, deadline_us, NULL, 0);
    }
    return 0;
}

SHOWN int sem_wait(sem_t *semaphore) { return take_semaphore(semaphore, NEVER); }

SHOWN int sem_timedwait(sem_t *semaphore, const struct timespec *at)
{
    return take_semaphore(semaphore, deadline_of(at));
}

SHOWN int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *at)
{
    (void)clock;
    return take_semaphore(semaphore, deadline_of(at));
}

SHOWN int sem_post(sem_t *semaphore)
{
    int status = real_sem_post(semaphore);
    wake(semaphore, false);
    preempt();
    return status;
}

/* --- clocks --- */

SHOWN int clock_gettime(clockid_t clock, struct timespec *at)
{
    if (!self) return (int)syscall(SYS_clock_gettime, clock, at);
    int64_t us = ++now_us; /* a loop that waits for a time comes to its end */
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) us += wall_ahead_us;
    at->tv_sec = us / 1000000;
    at->tv_nsec = us % 1000000 * 1000;
    return 0;
}

SHOWN int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

SHOWN time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

static int64_t after(const struct timespec *length)
{
    if (!length) return NEVER;
    return now_us + (int64_t)length->tv_sec * 1000000 + (length->tv_nsec + 999) / 1000;
}

SHOWN int clock_nanosleep(clockid_t clock, int flags, const struct timespec *length,
                          struct timespec *left)
{
    (void)clock;
    (void)left;
    block(NULL, flags & TIMER_ABSTIME ? deadline_of(length) : after(length), NULL, 0);
    return 0;
}

SHOWN int nanosleep(const struct timespec *length, struct timespec *left)
{
    return clock_nanosleep(CLOCK_MONOTONIC, 0, length, left);
}

SHOWN ssize_t getrandom(void *bytes, size_t size, unsigned flags)
{
    if (!self) return syscall(SYS_getrandom, bytes, size, flags);
    for (size_t i = 0; i < size; i++) ((uint8_t *)bytes)[i] = (uint8_t)next_random(&secrets);
    return (ssize_t)size;
}

/* --- system calls that fail --- */

static int64_t failing_until_us, failing_one_in = 1;
static int64_t failed_count;

/* Returns whether this call is to fail. Those of group 0, the cluster, don't. */
static bool fails(void)
{
    if (!self || !self->group || failing_until_us <= now_us || below(failing_one_in)) return false;
    failed_count++;
    return true;
}

static bool fails_with(const int *errors, int count)
{
    if (!fails()) return false;
    errno = errors[below(count)];
    return true;
}

/* --- waiting for descriptors --- */

static int wait_for_fds(struct pollfd *fds, nfds_t count, int64_t deadline_us)
{
    for (;;) {
        int ready = poll_now(fds, count);
        if (ready || deadline_us <= now_us) return ready;
        block(NULL, deadline_us, fds, count);
    }
}

SHOWN int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                const sigset_t *mask)
{
    if (!self) return (int)syscall(SYS_ppoll, fds, count, timeout, mask, _NSIG / 8);
    if (fails_with((int[]){EINTR}, 1)) return -1;
    return wait_for_fds(fds, count, after(timeout));
}

SHOWN int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    if (!self) return (int)syscall(SYS_poll, fds, count, timeout_ms);
    return wait_for_fds(fds, count, timeout_ms < 0 ? NEVER : now_us + timeout_ms * INT64_C(1000));
}

SHOWN int epoll_wait(int fd, struct epoll_event *events, int count, int timeout_ms)
{
    struct pollfd own = {fd, POLLIN, 0};
    if (self && !poll(&own, 1, timeout_ms)) return 0;
    return (int)syscall(SYS_epoll_wait, fd, events, count, self ? 0 : timeout_ms);
}

/* --- the network --- */

struct piece {
    struct piece *next;
    int64_t due_us;
    size_t size, done;
    bool is_end;
    char bytes[];
};

struct direction {
    int from, to; /* inner ends of the two pairs */
    struct piece *first, **last;
    size_t in_flight;
    int64_t last_due_us, stalled_until_us, busy_until_us;
    bool has_ended, is_lost;
};

struct link {
    bool used, changed;
    int port;                   /* of the listener */
    int group;                  /* of the client */
    struct direction out, back; /* from the client, and to it */
};

enum kind { NONE, UNBOUND, BOUND, LISTENER, CONNECTED };

struct outer { /* what the program's descriptor is */
    enum kind kind;
    int port, peer_port;
    struct link *link;
    int waiting[WAITING_MAX], waiting_peers[WAITING_MAX], waiting_count;
    struct link *waiting_links[WAITING_MAX];
};

static struct outer outers[FDS_MAX];
static struct link links[LINKS_MAX];
static int link_count, last_port = FIRST_PORT, last_client_port = FIRST_CLIENT_PORT;
static bool some_changed;
static int64_t next_due_us = NEVER;
static int64_t delay_min_us = 50, delay_max_us = 500;
static int64_t piece_max = PIECE_MAX;
static int64_t bytes_carried;
static int64_t bytes_per_s, lost_per_million; /* of each direction of a connection; 0: none */
static int64_t limited_count, lost_count;     /* segments */
static int64_t refused_until_us[65536], lost_until_us[65536]; /* by the listener's port */

static struct outer *outer_of(int fd)
{
    if (!self || fd < 0 || fd >= FDS_MAX || outers[fd].kind == NONE) return NULL;
    return &outers[fd];
}

static void note_change(int fd)
{
    struct outer *outer = outer_of(fd);
    changes++;
    if (outer && outer->link) outer->link->changed = some_changed = true;
}

/* Returns by how much a segment comes later: it waits for those before it, and is lost and sent
 * again, after twice the time each time. */
static int64_t segment_delay(struct direction *way, size_t size)
{
    int64_t late_us = 0, rto_us = FIRST_RTO_US;
    if (bytes_per_s) {
        if (way->busy_until_us < now_us) way->busy_until_us = now_us;
        way->busy_until_us += (int64_t)size * 1000000 / bytes_per_s;
        late_us = way->busy_until_us - now_us;
        if (late_us > delay_max_us) limited_count++;
    }
    for (int i = 0; lost_per_million && below(1000000) < lost_per_million; i++) {
        lost_count++;
        late_us += rto_us;
        rto_us *= 2;
        if (i + 1 == LOSSES_MAX) way->is_lost = true;
        if (way->is_lost) break;
    }
    return late_us;
}

static void piece_add(struct direction *way, const char *bytes, size_t size)
{
    struct piece *piece = malloc(sizeof *piece + size);
    int64_t due_us = now_us + delay_min_us + below(delay_max_us - delay_min_us + 1);
    if (!piece) abort();
    due_us += segment_delay(way, size);
    *piece = (struct piece){.size = size, .is_end = !size};
    if (size) memcpy(piece->bytes, bytes, size);
    way->last_due_us = piece->due_us = due_us > way->last_due_us ? due_us : way->last_due_us;
    *way->last = piece;
    way->last = &piece->next;
    way->in_flight += size;
}

static void direction_drop(struct direction *way)
{
    struct piece *next;
    for (struct piece *piece = way->first; piece; piece = next) {
        next = piece->next;
        free(piece);
    }
    way->first = NULL;
    way->last = &way->first;
    way->in_flight = 0;
}

static void direction_take(struct direction *way)
{
    static char bytes[PIECE_MAX];
    while (!way->has_ended && way->in_flight < IN_FLIGHT_MAX) {
        ssize_t size = syscall(SYS_recvfrom, way->from, bytes, sizeof bytes, MSG_DONTWAIT, NULL,
                               NULL);
        if (size < 0 && errno == EAGAIN) return;
        if (size <= 0) {
            way->has_ended = true;
            piece_add(way, NULL, 0);
            return;
        }
        for (ssize_t done = 0; done < size;) {
            int64_t part = piece_max >= PIECE_MAX ? size - done : 1 + below(piece_max);
            if (part > size - done) part = size - done;
            if (part > SEGMENT_MAX && (bytes_per_s || lost_per_million)) part = SEGMENT_MAX;
            piece_add(way, bytes + done, (size_t)part);
            done += part;
        }
    }
}

static int64_t direction_due(const struct direction *way)
{
    if (!way->first) return NEVER;
    int64_t due_us = way->first->due_us;
    return due_us > way->stalled_until_us ? due_us : way->stalled_until_us;
}

/* Returns false if the receiver's socket is full, or there is nothing to deliver now. */
static bool direction_deliver(struct direction *way)
{
    struct piece *piece = way->first;
    if (direction_due(way) > now_us) return false;
    if (piece->is_end) {
        syscall(SYS_shutdown, way->to, SHUT_WR);
        piece->done = 0;
    } else {
        ssize_t size = syscall(SYS_sendto, way->to, piece->bytes + piece->done,
                               piece->size - piece->done, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
        if (size < 0 && errno == EAGAIN) return false;
        if (size < 0) { /* the receiver has closed: so has the connection */
            syscall(SYS_shutdown, way->from, SHUT_RDWR);
            direction_drop(way);
            changes++;
            return false;
        }
        for (ssize_t i = 0; i < size; i++) mix((uint8_t)piece->bytes[piece->done + (size_t)i]);
        bytes_carried += size;
        piece->done += (size_t)size;
        way->in_flight -= (size_t)size;
        changes++;
        if (piece->done < piece->size) return false;
    }
    changes++;
    way->first = piece->next;
    if (!way->first) way->last = &way->first;
    free(piece);
    return true;
}

static void link_free(struct link *link)
{
    direction_drop(&link->out);
    direction_drop(&link->back);
    real_close(link->out.from);
    real_close(link->back.from);
    for (int fd = 0; fd < FDS_MAX; fd++) {
        struct outer *outer = &outers[fd];
        if (outer->link == link) outer->link = NULL;
        for (int i = 0; i < outer->waiting_count; i++) {
            if (outer->waiting_links[i] == link) outer->waiting_links[i] = NULL;
        }
    }
    link->used = false;
    changes++;
}

/* Takes what programs have sent. */
static void network_take(void)
{
    if (!some_changed) return;
    some_changed = false;
    next_due_us = NEVER;
    for (int i = 0; i < link_count; i++) {
        struct link *link = &links[i];
        if (!link->used) continue;
        if (link->changed) {
            link->changed = false;
            direction_take(&link->out);
            direction_take(&link->back);
        }
        if (link->out.is_lost || link->back.is_lost) {
            link_free(link);
            continue;
        }
        int64_t out_us = direction_due(&link->out), back_us = direction_due(&link->back);
        if (out_us < next_due_us) next_due_us = out_us;
        if (back_us < next_due_us) next_due_us = back_us;
    }
}

static void network_deliver(void)
{
    if (next_due_us > now_us) return;
    next_due_us = NEVER;
    for (int i = 0; i < link_count; i++) {
        struct link *link = &links[i];
        if (!link->used) continue;
        struct direction *ways[] = {&link->out, &link->back};
        for (int j = 0; j < 2; j++) {
            while (direction_deliver(ways[j])) direction_take(ways[j]);
            int64_t due_us = direction_due(ways[j]);
            /* a full socket is tried again when its program has read */
            if (due_us > now_us && due_us < next_due_us) next_due_us = due_us;
        }
        if (link->out.has_ended && link->back.has_ended && !link->out.first && !link->back.first)
            link_free(link);
    }
}

static int64_t network_next(void) { return next_due_us; }

static int inner_end(int fd)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, WIRE_FD_MIN);
    if (moved < 0) give_up("too many connections");
    real_close(fd);
    return moved;
}

static struct link *new_link(int port, int client_end, int server_end)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        struct link *link = &links[i];
        if (link->used) continue;
        if (i >= link_count) link_count = i + 1;
        *link = (struct link){.used = true, .port = port, .group = self->group};
        link->out.from = link->back.to = client_end;
        link->back.from = link->out.to = server_end;
        link->out.last = &link->out.first;
        link->back.last = &link->back.first;
        if (lost_until_us[port] > now_us)
            link->out.stalled_until_us = link->back.stalled_until_us = lost_until_us[port];
        return link;
    }
    give_up("too many connections");
    return NULL;
}

/* Makes a descriptor another file, with the same O_NONBLOCK. */
static void become(int fd, int other)
{
    int flags = fcntl(fd, F_GETFL);
    dup3(other, fd, O_CLOEXEC);
    fcntl(fd, F_SETFL, flags);
    real_close(other);
}

/* --- sockets of the program --- */

SHOWN int socket(int domain, int type, int protocol)
{
    bool is_tcp = self && domain == AF_INET && (type & 0xF) == SOCK_STREAM;
    if (is_tcp && fails_with((int[]){EMFILE, ENFILE, ENOBUFS, ENOMEM}, 4)) return -1;
    int fd = (int)syscall(SYS_socket, is_tcp ? AF_UNIX : domain, type, is_tcp ? 0 : protocol);
    if (is_tcp && fd >= 0) {
        if (fd >= FDS_MAX) give_up("too many descriptors");
        outers[fd] = (struct outer){.kind = UNBOUND};
    }
    return fd;
}

static int fail(int error)
{
    errno = error;
    return -1;
}

static struct outer *bound_to(int port)
{
    for (int fd = 0; fd < FDS_MAX; fd++) {
        if ((outers[fd].kind == BOUND || outers[fd].kind == LISTENER) && outers[fd].port == port)
            return &outers[fd];
    }
    return NULL;
}

SHOWN int bind(int fd, const struct sockaddr *address, socklen_t size)
{
    struct outer *outer = outer_of(fd);
    if (!outer) return (int)syscall(SYS_bind, fd, address, size);
    int port = ntohs(((const struct sockaddr_in *)address)->sin_port);
    if (port && bound_to(port)) return fail(EADDRINUSE);
    outer->port = port ? port : ++last_port;
    outer->kind = BOUND;
    return 0;
}

SHOWN int listen(int fd, int backlog)
{
    struct outer *outer = outer_of(fd);
    if (!outer) return (int)syscall(SYS_listen, fd, backlog);
    become(fd, eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC));
    outer->kind = LISTENER;
    return 0;
}

SHOWN int connect(int fd, const struct sockaddr *address, socklen_t size)
{
    struct outer *outer = outer_of(fd);
    if (!outer) return (int)syscall(SYS_connect, fd, address, size);
    int port = ntohs(((const struct sockaddr_in *)address)->sin_port);
    struct outer *listener = bound_to(port);
    if (fails_with((int[]){ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL, ETIMEDOUT}, 4)) return -1;
    if (!listener || listener->kind != LISTENER || refused_until_us[port] > now_us ||
        listener->waiting_count == WAITING_MAX)
        return fail(ECONNREFUSED);
    int client[2], server[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, client)) return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, server)) return -1;
    struct link *link = new_link(port, inner_end(client[1]), inner_end(server[1]));
    become(fd, client[0]);
    outer->kind = CONNECTED;
    outer->port = ++last_client_port;
    outer->peer_port = port;
    outer->link = link;
    int place = listener->waiting_count++;
    listener->waiting[place] = server[0];
    listener->waiting_peers[place] = outer->port;
    listener->waiting_links[place] = link;
    uint64_t one = 1;
    syscall(SYS_write, (int)(listener - outers), &one, sizeof one);
    changes++;
    preempt();
    return 0;
}

static void put_address(int port, struct sockaddr *address, socklen_t *size)
{
    struct sockaddr_in found = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (!address) return;
    found.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(address, &found, *size < sizeof found ? *size : sizeof found);
    *size = sizeof found;
}

SHOWN int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    struct outer *outer = outer_of(fd);
    if (!outer) return (int)syscall(SYS_accept4, fd, address, size, flags);
    struct pollfd own = {fd, POLLIN, 0};
    if (!outer->waiting_count && fcntl(fd, F_GETFL) & O_NONBLOCK) return fail(EAGAIN);
    while (!outer->waiting_count) wait_for_fds(&own, 1, NEVER);
    uint64_t one;
    syscall(SYS_read, fd, &one, sizeof one);
    int found = outer->waiting[0], peer = outer->waiting_peers[0];
    struct link *link = outer->waiting_links[0];
    size_t left = (size_t)--outer->waiting_count;
    memmove(outer->waiting, outer->waiting + 1, left * sizeof outer->waiting[0]);
    memmove(outer->waiting_peers, outer->waiting_peers + 1, left * sizeof outer->waiting_peers[0]);
    memmove(outer->waiting_links, outer->waiting_links + 1, left * sizeof outer->waiting_links[0]);
    outers[found] = (struct outer){CONNECTED, outer->port, peer, link, {0}, {0}, 0, {NULL}};
    if (flags & SOCK_NONBLOCK) fcntl(found, F_SETFL, O_NONBLOCK);
    put_address(peer, address, size);
    changes++;
    return found;
}

SHOWN int accept(int fd, struct sockaddr *address, socklen_t *size)
{
    return accept4(fd, address, size, 0);
}

SHOWN int getsockname(int fd, struct sockaddr *address, socklen_t *size)
{
    struct outer *outer = outer_of(fd);
    if (!outer) return (int)syscall(SYS_getsockname, fd, address, size);
    put_address(outer->port, address, size);
    return 0;
}

SHOWN int getpeername(int fd, struct sockaddr *address, socklen_t *size)
{
    struct outer *outer = outer_of(fd);
    if (!outer) return (int)syscall(SYS_getpeername, fd, address, size);
    if (outer->kind != CONNECTED) return fail(ENOTCONN);
    put_address(outer->peer_port, address, size);
    return 0;
}

SHOWN int setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
    if (outer_of(fd)) return 0;
    return (int)syscall(SYS_setsockopt, fd, level, option, value, size);
}

SHOWN int getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
    if (outer_of(fd) && level != SOL_SOCKET) {
        memset(value, 0, *size);
        return 0;
    }
    return (int)syscall(SYS_getsockopt, fd, level, option, value, size);
}

SHOWN int shutdown(int fd, int how)
{
    int status = (int)syscall(SYS_shutdown, fd, how);
    note_change(fd);
    return status;
}

SHOWN int close(int fd)
{
    struct outer *outer = outer_of(fd);
    if (!real_close) find_functions();
    note_change(fd);
    if (outer && outer->kind == LISTENER) {
        for (int i = 0; i < outer->waiting_count; i++) {
            if (outer->waiting_links[i]) outer->waiting_links[i]->changed = some_changed = true;
            real_close(outer->waiting[i]);
        }
    }
    if (outer) memset(outer, 0, sizeof *outer);
    return real_close(fd);
}

/* Before a call that may wait. Returns false if it would block a descriptor that doesn't. */
static bool wait_until(int fd, short events)
{
    struct pollfd own = {fd, events, 0};
    if (!self || fd <= STDERR_FILENO || poll_now(&own, 1)) return true;
    if (fcntl(fd, F_GETFL) & O_NONBLOCK) return false;
    wait_for_fds(&own, 1, NEVER);
    return true;
}

/* A call is interrupted, or a descriptor that doesn't block would. */
static bool is_interrupted(int fd)
{
    bool may_block = outer_of(fd) && fcntl(fd, F_GETFL) & O_NONBLOCK;
    return fd > STDERR_FILENO && fails_with((int[]){EINTR, EAGAIN}, may_block ? 2 : 1);
}

static bool cannot_send(int fd)
{
    return is_interrupted(fd) || (outer_of(fd) && fails_with((int[]){ENOBUFS}, 1));
}

/* A part of the bytes, if the call is to be a short one. */
static size_t part_of(int fd, size_t size)
{
    return size > 1 && outer_of(fd) && fails() ? 1 + (size_t)below((int64_t)size - 1) : size;
}

/* After a call that moved bytes. */
static ssize_t moved(int fd, ssize_t result)
{
    if (!self) return result;
    int error = errno;
    note_change(fd);
    preempt_outside();
    errno = error;
    return result;
}

SHOWN ssize_t read(int fd, void *bytes, size_t size)
{
    if (is_interrupted(fd)) return -1;
    if (!wait_until(fd, POLLIN)) return fail(EAGAIN);
    return moved(fd, syscall(SYS_read, fd, bytes, part_of(fd, size)));
}

SHOWN ssize_t readv(int fd, const struct iovec *parts, int count)
{
    if (is_interrupted(fd)) return -1;
    if (!wait_until(fd, POLLIN)) return fail(EAGAIN);
    struct iovec part = {parts[0].iov_base, part_of(fd, parts[0].iov_len)};
    if (part.iov_len < parts[0].iov_len) return moved(fd, syscall(SYS_readv, fd, &part, 1));
    return moved(fd, syscall(SYS_readv, fd, parts, count));
}

SHOWN ssize_t recvfrom(int fd, void *restrict bytes, size_t size, int flags,
                       struct sockaddr *restrict address, socklen_t *restrict length)
{
    if (!self) return syscall(SYS_recvfrom, fd, bytes, size, flags, address, length);
    bool waits = !(flags & MSG_DONTWAIT), takes_all = waits && flags & MSG_WAITALL;
    size_t taken = 0;
    if (is_interrupted(fd)) return -1;
    if (!takes_all) size = part_of(fd, size);
    for (;;) {
        if (waits && !wait_until(fd, POLLIN)) return taken ? (ssize_t)taken : fail(EAGAIN);
        ssize_t result = moved(fd, syscall(SYS_recvfrom, fd, (char *)bytes + taken, size - taken,
                                           (flags & ~MSG_WAITALL) | MSG_DONTWAIT, address, length));
        if (result <= 0) return taken ? (ssize_t)taken : result;
        taken += (size_t)result;
        if (!takes_all || taken == size) return (ssize_t)taken;
    }
}

SHOWN ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
    return recvfrom(fd, bytes, size, flags, NULL, NULL);
}

SHOWN ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    if (!(flags & MSG_DONTWAIT) && !wait_until(fd, POLLIN)) return fail(EAGAIN);
    return moved(fd, syscall(SYS_recvmsg, fd, message, flags));
}

/* A blocking descriptor takes all bytes: the caller goes on after each part. Python and the client
 * send the rest themselves. */
SHOWN ssize_t write(int fd, const void *bytes, size_t size)
{
    if (cannot_send(fd)) return -1;
    if (!wait_until(fd, POLLOUT)) return fail(EAGAIN);
    return moved(fd, syscall(SYS_write, fd, bytes, part_of(fd, size)));
}

SHOWN ssize_t sendto(int fd, const void *bytes, size_t size, int flags,
                     const struct sockaddr *address, socklen_t length)
{
    if (cannot_send(fd)) return -1;
    if (!(flags & MSG_DONTWAIT) && !wait_until(fd, POLLOUT)) return fail(EAGAIN);
    flags |= outer_of(fd) ? MSG_DONTWAIT : 0;
    return moved(fd, syscall(SYS_sendto, fd, bytes, part_of(fd, size), flags, address, length));
}

SHOWN ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    return sendto(fd, bytes, size, flags, NULL, 0);
}

SHOWN ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (cannot_send(fd)) return -1;
    if (!(flags & MSG_DONTWAIT) && !wait_until(fd, POLLOUT)) return fail(EAGAIN);
    flags |= outer_of(fd) ? MSG_DONTWAIT : 0;
    struct iovec part = {message->msg_iov[0].iov_base, part_of(fd, message->msg_iov[0].iov_len)};
    if (part.iov_len < message->msg_iov[0].iov_len)
        return moved(fd, syscall(SYS_sendmsg, fd, &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1},
                                 flags));
    return moved(fd, syscall(SYS_sendmsg, fd, message, flags));
}

/* --- for tests --- */

SHOWN uint64_t machine_digest(void) { return digest; }
SHOWN int64_t machine_time_us(void) { return now_us - START_US; }
SHOWN int64_t machine_switches(void) { return switches; }
SHOWN int64_t machine_bytes(void) { return bytes_carried; }
SHOWN int64_t machine_held(void) { return held_count; }
SHOWN int64_t machine_failed_calls(void) { return failed_count; }
SHOWN int64_t machine_limited(void) { return limited_count; }
SHOWN int64_t machine_lost(void) { return lost_count; }

/* The caller belongs to a group from now on, and so do the threads that it makes. */
SHOWN void machine_join(int group)
{
    if (group >= GROUPS_MAX) give_up("too many groups");
    self->group = group;
}

/* The threads of a group don't run for some time; 0 ends it. */
SHOWN void machine_freeze(int group, int64_t length_us)
{
    frozen_until_us[group] = now_us + length_us;
}

/* The threads of a group never run again. Its connections end; silently: the brokers aren't told,
 * as if its machine had lost its power. Returns how many threads never came to a stop. */
SHOWN int machine_kill(int group, int silently)
{
    int left = 1;
    frozen_until_us[group] = NEVER;
    for (int i = 0; i < DEATH_STEPS_MAX && left; i++) {
        block(NULL, now_us + 100, NULL, 0);
        left = 0;
        for (int j = 0; j < task_count; j++)
            left += tasks[j].used && !tasks[j].done && tasks[j].group == group && !is_held(&tasks[j]);
    }
    for (int i = 0; i < link_count; i++) {
        struct link *link = &links[i];
        if (!link->used || link->group != group) continue;
        if (!silently) link_free(link);
        else link->out.stalled_until_us = link->back.stalled_until_us = NEVER;
    }
    some_changed = true;
    return left;
}

SHOWN void machine_set_delay(int64_t min_us, int64_t max_us)
{
    delay_min_us = min_us;
    delay_max_us = max_us;
}

/* Bytes arrive in pieces of 1 to `size`; 0: as they were sent. */
SHOWN void machine_split(int64_t size) { piece_max = size > 0 ? size : PIECE_MAX; }

/* A connection carries this many bytes a second in each direction; 0: any number. */
SHOWN void machine_limit(int64_t bytes) { bytes_per_s = bytes; }

/* So many of a million segments are lost at each try. */
SHOWN void machine_lose(int64_t per_million) { lost_per_million = per_million; }

/* One of so many system calls of clients fails for some time. */
SHOWN void machine_fail_calls(int64_t one_in, int64_t length_us)
{
    failing_one_in = one_in;
    failing_until_us = now_us + length_us;
}

/* Cuts the connections of a listener's port. What is in flight is lost. */
SHOWN int machine_cut(int port)
{
    int count = 0;
    for (int i = 0; i < link_count; i++) {
        struct link *link = &links[i];
        if (!link->used || link->port != port) continue;
        link_free(link);
        count++;
    }
    return count;
}

/* Nothing reaches the port (1), leaves it (2) or both (3) for some time. Connections stay open. New
 * ones can be opened, and stall as well. */
SHOWN void machine_stall(int port, int ways, int64_t length_us)
{
    int64_t until_us = now_us + length_us;
    for (int i = 0; i < link_count; i++) {
        struct link *link = &links[i];
        if (!link->used || link->port != port) continue;
        if (ways & 1) link->out.stalled_until_us = until_us;
        if (ways & 2) link->back.stalled_until_us = until_us;
    }
    if (ways == 3) lost_until_us[port] = until_us;
    some_changed = true;
}

/* The port refuses connections for some time. */
SHOWN void machine_refuse(int port, int64_t length_us)
{
    refused_until_us[port] = now_us + length_us;
}

/* The time of day jumps. The monotonic clock doesn't. */
SHOWN void machine_jump(int64_t by_us) { wall_ahead_us += by_us; }
