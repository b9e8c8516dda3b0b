/* The worker pool: see worker_pool.h for threads, lock and owners. */
#include "produce/worker_pool.h"

#include <signal.h>
#include <unistd.h>

int kn_worker_pool_useful_size(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (processors < 2) return 0;
    return processors < KN_WORKERS_MAX ? (int)processors : KN_WORKERS_MAX;
}

void kn_worker_pool_init(struct kn_worker_pool *workers, int size)
{
    workers->size = size < KN_WORKERS_MAX ? size : KN_WORKERS_MAX;
    workers->waiting = 0;
    workers->idle = workers->started = workers->stopping = 0;
    kn_list_init(&workers->tasks);
    kn_mutex_init(&workers->lock, KN_RANK_LEAF);
    pthread_cond_init(&workers->wanted, NULL);
    pthread_cond_init(&workers->finished, NULL);
}

void kn_worker_pool_deinit(struct kn_worker_pool *workers)
{
    pthread_cond_destroy(&workers->finished);
    pthread_cond_destroy(&workers->wanted);
    kn_mutex_deinit(&workers->lock);
}

void kn_task_run_here(struct kn_task *task)
{
    task->work(task);
    atomic_store_explicit(&task->done, 1, memory_order_release);
}

/* Under lock. */
static void unlink_task(struct kn_worker_pool *workers, struct kn_task *task)
{
    /* in no list: so kn_worker_pool_finish() sees that a thread has begun it */
    kn_list_remove(&task->node);
    workers->waiting--;
}

/* Called with the lock, which is released while the task runs. */
static void run_task(struct kn_worker_pool *workers, struct kn_task *task)
{
    void (*notify)(void *) = task->notify;
    void *context = task->context;
    unlink_task(workers, task);
    kn_mutex_unlock(&workers->lock);
    task->work(task);
    kn_mutex_lock(&workers->lock);
    /* from here on its owner may reuse it */
    atomic_store_explicit(&task->done, 1, memory_order_release);
    pthread_cond_broadcast(&workers->finished);
    kn_mutex_unlock(&workers->lock);
    notify(context);
    kn_mutex_lock(&workers->lock);
}

static void *worker_main(void *argument)
{
    struct kn_worker_pool *workers = argument;
    kn_thread_name("kn-worker");
    kn_mutex_lock(&workers->lock);
    while (!workers->stopping) {
        struct kn_list *first = kn_list_first(&workers->tasks);
        if (first) {
            run_task(workers, KN_LIST_ENTRY(first, struct kn_task, node));
            continue;
        }
        workers->idle++;
        pthread_cond_wait(&workers->wanted, &workers->lock.mutex);
        workers->idle--;
    }
    kn_mutex_unlock(&workers->lock);
    return NULL;
}

/* Under lock. If a thread can't be started, the pool goes on without it. */
static void start_worker(struct kn_worker_pool *workers)
{
    sigset_t all, before;
    sigfillset(&all); /* signals belong to the application's threads, as with broker threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!pthread_create(&workers->threads[workers->started], NULL, worker_main, workers))
        workers->started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void kn_worker_pool_begin(struct kn_worker_pool *workers, struct kn_task *task)
{
    kn_list_init(&task->node);
    atomic_store_explicit(&task->done, 0, memory_order_relaxed);
    if (workers->size == 0) {
        kn_task_run_here(task);
        return;
    }
    kn_mutex_lock(&workers->lock);
    if (workers->waiting >= workers->idle && workers->started < workers->size)
        start_worker(workers);
    int alone = workers->started == 0;
    if (!alone) {
        kn_list_push_back(&workers->tasks, &task->node);
        workers->waiting++;
        pthread_cond_signal(&workers->wanted);
    }
    kn_mutex_unlock(&workers->lock);
    if (alone) kn_task_run_here(task);
}

void kn_worker_pool_finish(struct kn_worker_pool *workers, struct kn_task *task)
{
    if (kn_task_is_done(task)) return;
    kn_mutex_lock(&workers->lock);
    int here = !kn_task_is_done(task) && !kn_list_empty(&task->node);
    if (here) unlink_task(workers, task);
    while (!here && !kn_task_is_done(task))
        pthread_cond_wait(&workers->finished, &workers->lock.mutex);
    kn_mutex_unlock(&workers->lock);
    if (here) kn_task_run_here(task);
}

void kn_worker_pool_stop(struct kn_worker_pool *workers)
{
    kn_mutex_lock(&workers->lock);
    workers->stopping = 1;
    pthread_cond_broadcast(&workers->wanted);
    kn_mutex_unlock(&workers->lock);
    for (int i = 0; i < workers->started; i++) pthread_join(workers->threads[i], NULL);
    workers->started = 0;
}
