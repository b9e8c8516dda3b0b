/* What a forked child may do with its parent's objects while threads that don't exist there hold
 * every lock. */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.c" /* included for its lock */
#include "base/fork.h"

#define CHILD_S 60 /* a child that hangs */

/* Runs `child` in a child process and returns its result. */
static int in_child(int (*child)(void *context), void *context)
{
    int status = -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(CHILD_S);
        _exit(child(context));
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct buffers {
    struct kn_pool *pool;
    struct kn_buffer *taken[2];
};

static int use_buffers(void *context)
{
    struct buffers *had = context;
    struct kn_buffer *more = kn_buffer_take(had->pool, 5000);
    int whole = more && kn_buffer_append(&more, "abc", 3) == KN_OK &&
                kn_buffer_reserve(&had->taken[1], 100000) == KN_OK;
    kn_buffer_give(more);
    for (int i = 0; i < 2; i++) kn_buffer_give(had->taken[i]);
    kn_pool_trim(had->pool, 0);
    whole &= kn_pool_idle_bytes(had->pool) == 0;
    kn_pool_free(had->pool);
    struct kn_pool *own = kn_pool_new(1 << 20); /* a pool of its own works normally */
    kn_buffer_give(kn_buffer_take(own, 5000));
    whole &= kn_pool_idle_bytes(own) == 8192;
    kn_pool_free(own);
    return whole ? 42 : 1;
}

static void test_buffers_of_the_parent_can_be_given_back(void)
{
    struct buffers had = {.pool = kn_pool_new(1 << 20)};
    kn_buffer_give(kn_buffer_take(had.pool, 5000)); /* one is idle */
    for (int i = 0; i < 2; i++) had.taken[i] = kn_buffer_take(had.pool, 5000 + (size_t)i);
    pthread_mutex_lock(&had.pool->lock);
    CHECK_EQ(in_child(use_buffers, &had), 42);
    pthread_mutex_unlock(&had.pool->lock);
    for (int i = 0; i < 2; i++) kn_buffer_give(had.taken[i]);
    CHECK_EQ(kn_pool_idle_bytes(had.pool), 16384);
    kn_pool_free(had.pool);
}

struct watched {
    struct kn_fork_guard guard;
    int calls;
};

static void count_call(struct kn_fork_guard *guard)
{
    KN_LIST_ENTRY(guard, struct watched, guard)->calls++;
}

static int all_reported(void *context)
{
    struct watched *watched = context;
    return 10 * watched[0].calls + watched[1].calls;
}

static int reported_in_grandchild(void *context) { return in_child(all_reported, context); }

static void test_guards_are_called_in_the_child_once(void)
{
    struct watched watched[2] = {0};
    unsigned before = kn_fork_count();
    for (int i = 0; i < 2; i++) kn_fork_watch(&watched[i].guard, count_call);
    CHECK_EQ(in_child(all_reported, watched), 11);
    CHECK_EQ(in_child(reported_in_grandchild, watched), 11);
    kn_fork_unwatch(&watched[0].guard);
    CHECK_EQ(in_child(all_reported, watched), 1);
    kn_fork_unwatch(&watched[1].guard);
    CHECK_EQ(watched[0].calls + watched[1].calls, 0);
    CHECK_EQ(kn_fork_count(), before);
}

static int count(void *context)
{
    (void)context;
    return (int)kn_fork_count();
}

static void test_forks_are_counted(void)
{
    CHECK_EQ(in_child(count, NULL), (int)kn_fork_count() + 1);
}

static atomic_int going = 1;

static void *watch_and_unwatch(void *context)
{
    (void)context;
    struct watched watched = {0};
    while (atomic_load(&going)) {
        kn_fork_watch(&watched.guard, count_call);
        kn_fork_unwatch(&watched.guard);
    }
    return NULL;
}

static int is_reported(void *context) { return ((struct watched *)context)->calls; }

static void test_the_list_is_whole_in_a_child_whenever_it_is_forked(void)
{
    struct watched mine = {0};
    pthread_t thread;
    kn_fork_watch(&mine.guard, count_call);
    CHECK_EQ(pthread_create(&thread, NULL, watch_and_unwatch, NULL), 0);
    for (int i = 0; i < 200; i++) CHECK_EQ(in_child(is_reported, &mine), 1);
    atomic_store(&going, 0);
    pthread_join(thread, NULL);
    kn_fork_unwatch(&mine.guard);
}

int main(void)
{
    RUN(test_forks_are_counted);
    RUN(test_guards_are_called_in_the_child_once);
    RUN(test_buffers_of_the_parent_can_be_given_back);
    RUN(test_the_list_is_whole_in_a_child_whenever_it_is_forked);
    return check_done();
}
