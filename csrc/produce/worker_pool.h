/* Threads that do what takes long and waits for nobody, compression, beside the broker threads.
 *
 * Thread: begin, finish from any broker's thread, each task by its owner; the workers start when
 * there is something for them. Lock: `lock` (leaf), held to hand out tasks only. Who frees: the
 * engine embeds the worker pool, its owner a task, which stays where it is until it is done.
 */
#ifndef KN_PRODUCE_WORKER_POOL_H
#define KN_PRODUCE_WORKER_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "net/thread.h"

#define KN_WORKERS_MAX 8

struct kn_task {
    void (*work)(struct kn_task *task); /* by its owner, as the next two, before it begins */
    /* called once it is done, when its owner may have gone on already: so only with `whom` */
    void (*notify)(void *whom);
    void *whom;
    /* under the worker pool's lock: in workers->tasks while nobody has begun it */
    struct kn_list node;
    /* set with release by who did it: what the work wrote is there */
    atomic_int done;
};

struct kn_worker_pool {
    /* immutable: workers at most; 0 (also when all is zero): whoever begins a task does it */
    int size;
    struct kn_mutex lock;
    pthread_cond_t wanted;   /* for workers: a task is there, or it is time to end */
    pthread_cond_t finished; /* for owners: some task is done */
    struct kn_list tasks;    /* under lock, as all below: that nobody has begun, in order */
    int32_t waiting;         /* so many */
    int idle;                /* workers that wait for one */
    int started;
    bool stopping;
    pthread_t threads[KN_WORKERS_MAX];
};

/* As many workers as there are processors, at most KN_WORKERS_MAX; 0 on a single one, where they
 * would only take turns. */
int kn_worker_pool_useful_size(void);
void kn_worker_pool_init(struct kn_worker_pool *workers, int size);
/* no task is left: ends and joins the workers */
void kn_worker_pool_stop(struct kn_worker_pool *workers);
void kn_worker_pool_deinit(struct kn_worker_pool *workers); /* stopped */
/* Has task->work(task) done by a worker, or here and now where there is none. */
void kn_worker_pool_begin(struct kn_worker_pool *workers, struct kn_task *task);
static inline bool kn_task_is_done(struct kn_task *task)
{
    return atomic_load_explicit(&task->done, memory_order_acquire);
}
void kn_task_do_here(struct kn_task *task); /* instead of kn_worker_pool_begin() */
/* Returns when the task, which has begun or not, is done: what no worker has got to yet is done
 * here. */
void kn_worker_pool_finish(struct kn_worker_pool *workers, struct kn_task *task);

#endif
