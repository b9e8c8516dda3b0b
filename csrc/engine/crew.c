/* Helping threads: see crew.h for threads, lock and owners. */
#include "engine/crew.h"

#include <signal.h>
#include <unistd.h>

int kn_crew_useful_size(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (processors < 2) return 0;
    return processors < KN_CREW_MAX ? (int)processors : KN_CREW_MAX;
}

void kn_crew_init(struct kn_crew *crew, int size)
{
    crew->size = size < KN_CREW_MAX ? size : KN_CREW_MAX;
    crew->waiting = 0;
    crew->idle = crew->started = crew->stopping = 0;
    kn_list_init(&crew->tasks);
    kn_mutex_init(&crew->lock, KN_RANK_LEAF);
    pthread_cond_init(&crew->wanted, NULL);
    pthread_cond_init(&crew->finished, NULL);
}

void kn_crew_deinit(struct kn_crew *crew)
{
    pthread_cond_destroy(&crew->finished);
    pthread_cond_destroy(&crew->wanted);
    kn_mutex_deinit(&crew->lock);
}

void kn_task_do_here(struct kn_task *task)
{
    task->work(task);
    atomic_store_explicit(&task->done, 1, memory_order_release);
}

/* Under lock. */
static void take_out(struct kn_crew *crew, struct kn_task *task)
{
    kn_list_remove(&task->node); /* not in any list: that is how kn_crew_finish() sees that somebody has begun it */
    crew->waiting--;
}

/* Under lock, let go of meanwhile. */
static void work_on(struct kn_crew *crew, struct kn_task *task)
{
    void (*tell)(void *) = task->tell;
    void *whom = task->whom;
    take_out(crew, task);
    kn_mutex_unlock(&crew->lock);
    task->work(task);
    kn_mutex_lock(&crew->lock);
    atomic_store_explicit(&task->done, 1, memory_order_release); /* from here on it may be used anew */
    pthread_cond_broadcast(&crew->finished);
    kn_mutex_unlock(&crew->lock);
    tell(whom);
    kn_mutex_lock(&crew->lock);
}

static void *crew_main(void *argument)
{
    struct kn_crew *crew = argument;
    kn_thread_name("kn-crew");
    kn_mutex_lock(&crew->lock);
    while (!crew->stopping) {
        struct kn_list *first = kn_list_first(&crew->tasks);
        if (first) {
            work_on(crew, KN_LIST_ENTRY(first, struct kn_task, node));
            continue;
        }
        crew->idle++;
        pthread_cond_wait(&crew->wanted, &crew->lock.mutex);
        crew->idle--;
    }
    kn_mutex_unlock(&crew->lock);
    return NULL;
}

/* Under lock. One that can't be started is done without. */
static void start_worker(struct kn_crew *crew)
{
    sigset_t all, before;
    sigfillset(&all); /* as with broker threads: signals belong to the application's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!pthread_create(&crew->threads[crew->started], NULL, crew_main, crew)) crew->started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void kn_crew_begin(struct kn_crew *crew, struct kn_task *task)
{
    kn_list_init(&task->node);
    atomic_store_explicit(&task->done, 0, memory_order_relaxed);
    if (crew->size == 0) {
        kn_task_do_here(task);
        return;
    }
    kn_mutex_lock(&crew->lock);
    if (crew->waiting >= crew->idle && crew->started < crew->size) start_worker(crew);
    int alone = crew->started == 0;
    if (!alone) {
        kn_list_push_back(&crew->tasks, &task->node);
        crew->waiting++;
        pthread_cond_signal(&crew->wanted);
    }
    kn_mutex_unlock(&crew->lock);
    if (alone) kn_task_do_here(task);
}

void kn_crew_finish(struct kn_crew *crew, struct kn_task *task)
{
    if (kn_task_is_done(task)) return;
    kn_mutex_lock(&crew->lock);
    int here = !kn_task_is_done(task) && !kn_list_empty(&task->node);
    if (here) take_out(crew, task);
    while (!here && !kn_task_is_done(task)) pthread_cond_wait(&crew->finished, &crew->lock.mutex);
    kn_mutex_unlock(&crew->lock);
    if (here) kn_task_do_here(task);
}

void kn_crew_stop(struct kn_crew *crew)
{
    kn_mutex_lock(&crew->lock);
    crew->stopping = 1;
    pthread_cond_broadcast(&crew->wanted);
    kn_mutex_unlock(&crew->lock);
    for (int i = 0; i < crew->started; i++) pthread_join(crew->threads[i], NULL);
    crew->started = 0;
}
