/* Forks of this process, also those that no Python hook sees (a C program such as uWSGI calls
 * fork(2) itself).
 *
 * A child has one thread and the memory as it was at the fork: a lock that another thread held then
 * is held for ever, and what it guards may be half done. So a child never takes a lock of its
 * parent's: what embeds a `kn_fork_guard` is told in the child, and what is left over (a pool of
 * buffers) is recognized by its count of forks.
 *
 * Thread: any. Lock: one for the list of guards (leaf), which a fork waits for, so that the child
 * finds the list whole. Who frees: nobody; a guard is embedded.
 */
#ifndef KN_BASE_FORK_H
#define KN_BASE_FORK_H

#include "base/list.h"

struct kn_fork_guard {
    struct kn_list node;
    /* by the child's only thread; may not call kn_fork_watch() and kn_fork_unwatch() */
    void (*in_child)(struct kn_fork_guard *guard);
};

/* How many forks lie between the process in which this library was loaded and this one. */
unsigned kn_fork_count(void);
/* in_child() is called in a child that is forked from now on, until unwatch(); once: in the child
 * of that child it isn't. */
void kn_fork_watch(struct kn_fork_guard *guard, void (*in_child)(struct kn_fork_guard *guard));
void kn_fork_unwatch(struct kn_fork_guard *guard);

#endif
