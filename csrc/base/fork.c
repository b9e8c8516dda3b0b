/* Forks: see fork.h. */
#include "base/fork.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t guards_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kn_list guards = {&guards, &guards}; /* under guards_lock */
static atomic_uint fork_count;

static void before_fork(void) { pthread_mutex_lock(&guards_lock); }

static void after_fork_in_parent(void) { pthread_mutex_unlock(&guards_lock); }

static void after_fork_in_child(void)
{
    struct kn_list *node;
    atomic_fetch_add_explicit(&fork_count, 1, memory_order_relaxed);
    while ((node = kn_list_pop_front(&guards))) {
        struct kn_fork_guard *guard = KN_LIST_ENTRY(node, struct kn_fork_guard, node);
        guard->in_child(guard);
    }
    pthread_mutex_unlock(&guards_lock);
}

/* Called when the library is loaded, before any fork. */
__attribute__((constructor)) static void register_handlers(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

unsigned kn_fork_count(void) { return atomic_load_explicit(&fork_count, memory_order_relaxed); }

void kn_fork_watch(struct kn_fork_guard *guard, void (*in_child)(struct kn_fork_guard *guard))
{
    guard->in_child = in_child;
    pthread_mutex_lock(&guards_lock);
    kn_list_push_back(&guards, &guard->node);
    pthread_mutex_unlock(&guards_lock);
}

void kn_fork_unwatch(struct kn_fork_guard *guard)
{
    pthread_mutex_lock(&guards_lock);
    kn_list_remove(&guard->node);
    pthread_mutex_unlock(&guards_lock);
}
