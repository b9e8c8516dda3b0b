/* The worker pool: each task runs once, several owners at a time, and the end. */
#include <stdlib.h>
#include <unistd.h>
#include "check.h"
#include "produce/worker_pool.h"

enum { TASKS = 5, ROUNDS = 300, OWNERS = 3 };

struct job {
    struct kn_task task;
    int times; /* a plain field: it may be read after `done` */
    int by_owner;
    pthread_t owner;
    int sleep_us;
};

static struct kn_worker_pool workers;
static atomic_int notified;

static void work(struct kn_task *task)
{
    struct job *job = KN_LIST_ENTRY(task, struct job, task);
    job->times++;
    job->by_owner = pthread_equal(pthread_self(), job->owner);
    if (job->sleep_us) usleep((useconds_t)job->sleep_us);
}

static void notify(void *context) { atomic_fetch_add((atomic_int *)context, 1); }

static struct job job_of(int sleep_us)
{
    return (struct job){.task = {.work = work, .notify = notify, .context = &notified},
                        .owner = pthread_self(),
                        .sleep_us = sleep_us};
}

static void *owner_main(void *argument)
{
    struct job jobs[TASKS];
    (void)argument;
    for (int i = 0; i < TASKS; i++) jobs[i] = job_of(0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < TASKS; i++) kn_worker_pool_begin(&workers, &jobs[i].task);
        /* Every other round from the end, where no worker has begun yet. */
        for (int i = 0; i < TASKS; i++)
            kn_worker_pool_finish(&workers, &jobs[round % 2 ? TASKS - 1 - i : i].task);
        for (int i = 0; i < TASKS; i++) CHECK_EQ(jobs[i].times, round + 1);
    }
    return NULL;
}

static void test_each_task_is_done_once_with_several_owners(void)
{
    pthread_t threads[OWNERS];
    kn_worker_pool_init(&workers, 2);
    for (int i = 0; i < OWNERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, owner_main, NULL), 0);
    for (int i = 0; i < OWNERS; i++) pthread_join(threads[i], NULL);
    CHECK_EQ(workers.started, 2);
    kn_worker_pool_stop(&workers);
    kn_worker_pool_deinit(&workers);
}

static void test_tasks_run_in_parallel_and_notify_at_their_end(void)
{
    struct job jobs[TASKS];
    atomic_store(&notified, 0);
    kn_worker_pool_init(&workers, KN_WORKERS_MAX + 9); /* more than the maximum */
    CHECK_EQ(workers.size, KN_WORKERS_MAX);
    for (int i = 0; i < TASKS; i++) {
        jobs[i] = job_of(50000);
        kn_worker_pool_begin(&workers, &jobs[i].task);
    }
    CHECK_EQ(workers.started, TASKS); /* none waits for another */
    for (int tries = 0; tries < 5000 && atomic_load(&notified) < TASKS; tries++) usleep(1000);
    CHECK_EQ(atomic_load(&notified), TASKS);
    for (int i = 0; i < TASKS; i++) {
        CHECK(kn_task_is_done(&jobs[i].task));
        CHECK_EQ(jobs[i].by_owner, 0);
    }
    kn_worker_pool_begin(&workers, &jobs[0].task); /* a worker is idle: no other one is started */
    kn_worker_pool_finish(&workers, &jobs[0].task);
    CHECK_EQ(workers.started, TASKS);
    kn_worker_pool_stop(&workers);
    kn_worker_pool_deinit(&workers);
}

static void test_finish_runs_a_task_that_no_worker_has_begun(void)
{
    struct job busy, job;
    kn_worker_pool_init(&workers, 1);
    busy = job_of(50000);
    job = job_of(0);
    kn_worker_pool_begin(&workers, &busy.task);
    kn_worker_pool_begin(&workers, &job.task);
    kn_worker_pool_finish(&workers, &job.task);
    CHECK_EQ(job.times, 1);
    kn_worker_pool_finish(&workers, &busy.task); /* waits */
    CHECK_EQ(busy.times, 1);
    kn_worker_pool_stop(&workers);
    kn_worker_pool_deinit(&workers);
}

static void test_without_workers_it_is_done_at_once(void)
{
    struct job job = job_of(0);
    struct kn_worker_pool none = {0};
    atomic_store(&notified, 0);
    kn_worker_pool_begin(&none, &job.task);
    CHECK(kn_task_is_done(&job.task));
    kn_worker_pool_finish(&none, &job.task);
    kn_worker_pool_init(&workers, 2);
    kn_task_run_here(&job.task);
    CHECK_EQ(job.times, 2);
    CHECK_EQ(job.by_owner, 1);
    CHECK_EQ(workers.started, 0);
    CHECK_EQ(atomic_load(&notified), 0); /* the thread that did the task needs no notification */
    kn_worker_pool_stop(&workers);
    kn_worker_pool_deinit(&workers);
}

int main(void)
{
    RUN(test_each_task_is_done_once_with_several_owners);
    RUN(test_tasks_run_in_parallel_and_notify_at_their_end);
    RUN(test_finish_runs_a_task_that_no_worker_has_begun);
    RUN(test_without_workers_it_is_done_at_once);
    return check_done();
}
