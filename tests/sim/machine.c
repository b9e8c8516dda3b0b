/* A simulated machine under one process: one virtual clock, one thread at a time, a network whose
 * delays and cuts come from a seed. The process loads it with LD_PRELOAD; its code isn't changed.
 *
 * How it works. The functions below replace those of the C library that wait, read a clock or use
 * a TCP socket (those are in network.c). A thread runs until it calls one of them and has to wait, or is preempted there.
 * Then the seed chooses the next thread among those that can run. If none can, the clock moves to
 * the next deadline or delivery. So the same seed gives the same run, up to the last byte.
 *
 * Thread: only the running task executes this code, so it needs no lock. Everything is per
 * process. The functions named machine_... are for tests (ctypes).
 *
 * A thread belongs to the group of the thread that made it. A group is a process that can freeze or
 * die. Its threads then run on until they wait without a lock, and without Python's own lock. */
#include "machine.h"

#define START_US (1000 * INT64_C(1000000))            /* of the monotonic clock */
#define WALL_START_US (1800000000 * INT64_C(1000000)) /* of the time of day: January 2027 */

enum {
    TASKS_MAX = 1024,
    ONE_IN_PREEMPTS = 8,
    GROUPS_MAX = 4096,
    DEATH_STEPS_MAX = 10000,
};

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

int64_t below(int64_t bound) { return (int64_t)(next_random(&choices) % (uint64_t)bound); }

void mix(uint64_t value) { digest = (digest ^ value) * 0x100000001b3u; }

/* --- tasks and the clock --- */

static struct task tasks[TASKS_MAX];
static int task_count;
static struct task *zombie; /* its thread ends: the next task waits for that */
_Thread_local struct task *self;
static pthread_key_t end_key;
int64_t now_us = START_US;
static int64_t wall_ahead_us = WALL_START_US - START_US;
uint64_t changes = 1;
static int64_t switches;
static int64_t frozen_until_us[GROUPS_MAX]; /* NEVER: the group is dead */
static int64_t held_count;                  /* how often a frozen thread's time had come */
static FILE *trace;

static int (*real_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int (*real_join)(pthread_t, void **);
static int (*real_trylock)(pthread_mutex_t *);
static int (*real_unlock)(pthread_mutex_t *);
static int (*real_sem_post)(sem_t *);
int (*real_close)(int);
static int (*has_python_lock)(void); /* PyGILState_Check() */

int poll_now(struct pollfd *fds, nfds_t count)
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

static bool has_to_look(const struct task *task)
{
    return task->used && !task->done && task->blocked && task->fd_count &&
           task->looked_at != changes && !is_held(task);
}

/* Finds out which tasks have a ready descriptor, with one system call for all of them. */
static void look_at_descriptors(void)
{
    static struct pollfd all[FDS_MAX];
    static struct task *found[TASKS_MAX];
    nfds_t count = 0;
    int found_count = 0;
    for (int i = 0; i < task_count; i++) {
        struct task *task = &tasks[i];
        if (!has_to_look(task)) continue;
        if (count + task->fd_count > FDS_MAX) give_up("too many descriptors");
        memcpy(all + count, task->fds, task->fd_count * sizeof all[0]);
        count += task->fd_count;
        found[found_count++] = task;
    }
    if (!count) return;
    if (poll_now(all, count) < 0) give_up("poll() failed");
    struct pollfd *fd = all;
    for (int i = 0; i < found_count; i++) {
        struct task *task = found[i];
        task->looked_at = changes;
        task->fd_is_ready = false;
        for (nfds_t j = 0; j < task->fd_count; j++) task->fd_is_ready |= (fd++)->revents != 0;
    }
}

static bool can_run(const struct task *task)
{
    return !task->blocked || task->woken || task->deadline_us <= now_us ||
           (task->fd_count && task->fd_is_ready);
}

void give_up(const char *reason)
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
        look_at_descriptors();
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
    task->fd_is_ready = false;
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

void preempt(void)
{
    if (self && !self->done && below(ONE_IN_PREEMPTS) == 0) pass_on();
}

/* A place where no library has a lock that it can't name here. */
void preempt_outside(void)
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
void find_functions(void)
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
bool fails(void)
{
    if (!self || !self->group || failing_until_us <= now_us || below(failing_one_in)) return false;
    failed_count++;
    return true;
}

bool fails_with(const int *errors, int count)
{
    if (!fails()) return false;
    errno = errors[below(count)];
    return true;
}

/* --- waiting for descriptors --- */

int wait_for_fds(struct pollfd *fds, nfds_t count, int64_t deadline_us)
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

/* --- for tests --- */

SHOWN uint64_t machine_digest(void) { return digest; }
SHOWN int64_t machine_time_us(void) { return now_us - START_US; }
SHOWN int64_t machine_switches(void) { return switches; }

SHOWN int64_t machine_held(void) { return held_count; }
SHOWN int64_t machine_failed_calls(void) { return failed_count; }

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

/* The threads of a group never run again. Its connections end; silently: the brokers get no sign,
 * as if its machine had lost its power. Returns how many threads never came to a stop. */
SHOWN int machine_kill(int group, int silently)
{
    int left = 1;
    frozen_until_us[group] = NEVER;
    for (int i = 0; i < DEATH_STEPS_MAX && left; i++) {
        block(NULL, now_us + 100, NULL, 0);
        left = 0;
        for (int j = 0; j < task_count; j++) {
            struct task *task = &tasks[j];
            left += task->used && !task->done && task->group == group && !is_held(task);
        }
    }
    network_end_group(group, silently);
    return left;
}

/* One of so many system calls of clients fails for some time. */
SHOWN void machine_fail_calls(int64_t one_in, int64_t length_us)
{
    failing_one_in = one_in;
    failing_until_us = now_us + length_us;
}

/* The time of day jumps. The monotonic clock doesn't. */
SHOWN void machine_jump(int64_t by_us) { wall_ahead_us += by_us; }
