/* Helping threads: every piece once, several who run at a time, and an end. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include "check.h"
#include "engine/crew.h"

enum { PIECES = 7, ROUNDS = 300, RUNNERS = 3 };

struct tally {
    atomic_int times[PIECES];
    atomic_int helped;   /* pieces done by another thread than who runs */
    pthread_t runner;
    int sleep_us;
};

static void count_piece(void *context, int32_t index)
{
    struct tally *tally = context;
    CHECK(index >= 0 && index < PIECES);
    atomic_fetch_add(&tally->times[index], 1);
    if (!pthread_equal(pthread_self(), tally->runner)) atomic_fetch_add(&tally->helped, 1);
    if (tally->sleep_us) usleep((useconds_t)tally->sleep_us);
}

static struct kn_crew crew;

static void *runner_main(void *argument)
{
    struct tally *tally = argument;
    tally->runner = pthread_self();
    for (int round = 0; round < ROUNDS; round++) {
        kn_crew_run(&crew, count_piece, tally, 1 + round % PIECES);
        for (int i = 0; i <= round % PIECES; i++) CHECK_EQ(atomic_exchange(&tally->times[i], 0), 1);
        for (int i = 1 + round % PIECES; i < PIECES; i++) CHECK_EQ(atomic_load(&tally->times[i]), 0);
    }
    return NULL;
}

static void test_each_piece_is_done_once_whoever_runs_beside(void)
{
    struct tally *tallies = calloc(RUNNERS, sizeof *tallies);
    pthread_t threads[RUNNERS];
    kn_crew_init(&crew, 2);
    for (int i = 0; i < RUNNERS; i++) CHECK_EQ(pthread_create(&threads[i], NULL, runner_main, &tallies[i]), 0);
    for (int i = 0; i < RUNNERS; i++) pthread_join(threads[i], NULL);
    kn_crew_stop(&crew);
    kn_crew_deinit(&crew);
    free(tallies);
}

static void test_pieces_are_done_side_by_side(void)
{
    struct tally tally = {.runner = pthread_self(), .sleep_us = 20000};
    kn_crew_init(&crew, KN_CREW_MAX + 9); /* more than there may be */
    CHECK_EQ(crew.size, KN_CREW_MAX);
    kn_crew_run(&crew, count_piece, &tally, PIECES);
    CHECK(atomic_load(&tally.helped) > 0);
    CHECK_EQ(crew.started, KN_CREW_MAX);
    kn_crew_stop(&crew);
    kn_crew_deinit(&crew);
}

static void test_without_workers_or_for_one_piece_nobody_is_woken(void)
{
    struct tally tally = {.runner = pthread_self()};
    struct kn_crew none = {0};
    kn_crew_run(&none, count_piece, &tally, PIECES);
    for (int i = 0; i < PIECES; i++) CHECK_EQ(atomic_load(&tally.times[i]), 1);
    kn_crew_init(&crew, 2);
    kn_crew_run(&crew, count_piece, &tally, 1);
    kn_crew_run(&crew, count_piece, &tally, 0);
    CHECK_EQ(atomic_load(&tally.times[0]), 2);
    CHECK_EQ(crew.started, 0);
    CHECK_EQ(atomic_load(&tally.helped), 0);
    kn_crew_stop(&crew);
    kn_crew_deinit(&crew);
}

int main(void)
{
    RUN(test_each_piece_is_done_once_whoever_runs_beside);
    RUN(test_pieces_are_done_side_by_side);
    RUN(test_without_workers_or_for_one_piece_nobody_is_woken);
    return check_done();
}
