/* The worker pool: threads that run long computations (compression) beside the broker threads. A
 * task never waits.
 *
 * Thread: any broker thread calls begin and finish, each task by its owner. The workers start when
 * there is a task for them.
 * Lock: `lock` (leaf), held only to pass tasks to workers.
 * Who frees: the engine embeds the pool; the owner embeds its task, which must not move until it is
 * done. */
#ifndef KN_PRODUCE_WORKER_POOL_H
#define KN_PRODUCE_WORKER_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "net/thread.h"

#define KN_WORKERS_MAX 8

struct kn_task {
    /* the owner sets this field and the next two before it begins the task */
    void (*work)(struct kn_task *task);
    /* Called after the task is done, with `context`. The owner may reuse the task at that time, so
     * the function doesn't get the task. */
    void (*notify)(void *context);
    void *context;
    /* under the pool's lock: in workers->tasks until a worker begins the task */
    struct kn_list node;
    /* stored with release after the work: a thread that reads 1 sees the task's results */
    atomic_int done;
};

struct kn_worker_pool {
    /* immutable: the largest number of workers; 0: the caller of kn_worker_pool_begin() does the
     * task */
    int size;
    struct kn_mutex lock;
    pthread_cond_t wanted;   /* wakes workers: there is a task, or it is time to end */
    pthread_cond_t finished; /* wakes owners: a task is done */
    /* under lock, like all fields below: tasks that no worker has begun, in order */
    struct kn_list tasks;
    int32_t waiting; /* length of `tasks` */
    int idle;        /* workers that wait for a task */
    int started;
    bool stopping;
    pthread_t threads[KN_WORKERS_MAX];
};

/* Returns the number of processors, at most KN_WORKERS_MAX. 0 on a single processor, where workers
 * would only take turns with the broker threads. */
int kn_worker_pool_useful_size(void);
void kn_worker_pool_init(struct kn_worker_pool *workers, int size);
/* ends and joins the workers; no task may be left */
void kn_worker_pool_stop(struct kn_worker_pool *workers);
void kn_worker_pool_deinit(struct kn_worker_pool *workers); /* call after stop */
/* Has a worker call task->work(task). Without workers, calls it here. */
void kn_worker_pool_begin(struct kn_worker_pool *workers, struct kn_task *task);
static inline bool kn_task_is_done(struct kn_task *task)
{
    return atomic_load_explicit(&task->done, memory_order_acquire);
}
void kn_task_run_here(struct kn_task *task); /* call instead of kn_worker_pool_begin() */
/* Waits until the task is done. If no worker has begun it yet, does it here. */
void kn_worker_pool_finish(struct kn_worker_pool *workers, struct kn_task *task);

#endif
