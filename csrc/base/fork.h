/* Detects forks of this process, also those that Python's hooks don't see (uWSGI, a C program,
 * calls fork(2) itself).
 *
 * A child has one thread, and a copy of the memory at the time of the fork. A lock that another
 * thread held stays held for ever, and its data may be inconsistent. So a child never takes a lock
 * of its parent. A struct with a `kn_fork_guard` gets a call in the child. Other structs (a pool of
 * buffers) compare kn_fork_count() with the count at their creation.
 *
 * Thread: any.
 * Lock: one for the list of guards (leaf). A fork waits for it, so the child's list is consistent.
 * Who frees: the owner embeds a guard. */
#ifndef KN_BASE_FORK_H
#define KN_BASE_FORK_H

#include "base/list.h"

struct kn_fork_guard {
    struct kn_list node;
    /* called by the child's only thread; must not call kn_fork_watch() or kn_fork_unwatch() */
    void (*in_child)(struct kn_fork_guard *guard);
};

/* Returns the number of forks between the process that loaded this library and this one. */
unsigned kn_fork_count(void);
/* Calls in_child() in each child that is forked until unwatch(). It isn't called in children of
 * such a child. */
void kn_fork_watch(struct kn_fork_guard *guard, void (*in_child)(struct kn_fork_guard *guard));
void kn_fork_unwatch(struct kn_fork_guard *guard);

#endif
