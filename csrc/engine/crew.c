/* Helping threads: see crew.h for threads, lock and owners. */
#include "engine/crew.h"

#include <signal.h>
#include <unistd.h>

struct job {
    struct kn_list node; /* in crew->jobs while next < count */
    void (*work)(void *context, int32_t index);
    void *context;
    int32_t count;
    int32_t next; /* under the crew's lock, as `done` */
    int32_t done;
};

int kn_crew_useful_size(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (processors < 2) return 0;
    return processors - 1 < KN_CREW_MAX ? (int)processors - 1 : KN_CREW_MAX;
}

void kn_crew_init(struct kn_crew *crew, int size)
{
    crew->size = size < KN_CREW_MAX ? size : KN_CREW_MAX;
    crew->started = crew->stopping = 0;
    kn_list_init(&crew->jobs);
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

/* Under lock, let go of while the piece is done. */
static void do_one(struct kn_crew *crew, struct job *job)
{
    int32_t index = job->next++;
    if (job->next == job->count) kn_list_remove(&job->node);
    kn_mutex_unlock(&crew->lock);
    job->work(job->context, index);
    kn_mutex_lock(&crew->lock);
    if (++job->done == job->count) pthread_cond_broadcast(&crew->finished); /* from here on the job may be gone */
}

static void *crew_main(void *argument)
{
    struct kn_crew *crew = argument;
    kn_thread_name("kn-crew");
    kn_mutex_lock(&crew->lock);
    while (!crew->stopping) {
        struct kn_list *first = kn_list_first(&crew->jobs);
        if (first) do_one(crew, KN_LIST_ENTRY(first, struct job, node));
        else pthread_cond_wait(&crew->wanted, &crew->lock.mutex);
    }
    kn_mutex_unlock(&crew->lock);
    return NULL;
}

/* Under lock, once for each worker. One that can't be started is done without. */
static void start_workers(struct kn_crew *crew, int32_t wanted)
{
    sigset_t all, before;
    if (crew->started >= crew->size || crew->started >= wanted) return;
    sigfillset(&all); /* as with broker threads: signals belong to the application's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (crew->started < crew->size && crew->started < wanted) {
        if (pthread_create(&crew->threads[crew->started], NULL, crew_main, crew)) break;
        crew->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void kn_crew_run(struct kn_crew *crew, void (*work)(void *context, int32_t index), void *context, int32_t count)
{
    if (count < 2 || crew->size == 0) {
        for (int32_t i = 0; i < count; i++) work(context, i);
        return;
    }
    struct job job = {.work = work, .context = context, .count = count};
    kn_mutex_lock(&crew->lock);
    start_workers(crew, count - 1);
    kn_list_push_back(&crew->jobs, &job.node);
    pthread_cond_broadcast(&crew->wanted);
    while (job.next < count) do_one(crew, &job);
    while (job.done < count) pthread_cond_wait(&crew->finished, &crew->lock.mutex);
    kn_mutex_unlock(&crew->lock);
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
