/* The sender's schedule against a plain array that is searched. */
#include <stdlib.h>
#include "base/status.h"
#include "check.h"
#include "produce/schedule.h"

#define MEMBERS 300

static char members[MEMBERS][48]; /* only their addresses are used */
static int64_t model[MEMBERS];    /* -1: not in it */

static struct kn_accumulator *member(int i) { return (struct kn_accumulator *)(void *)members[i]; }

static unsigned next_random(void) { return (unsigned)(check_random() >> 16); }

static int check_first(const struct kn_schedule *schedule)
{
    int64_t least = INT64_MAX;
    int count = 0;
    for (int i = 0; i < MEMBERS; i++) {
        if (model[i] < 0) continue;
        count++;
        if (model[i] < least) least = model[i];
    }
    CHECK(schedule->count == count);
    const struct kn_schedule_entry *first = kn_schedule_first(schedule);
    if (!count) {
        CHECK(!first);
        return 0;
    }
    CHECK(first->at_us == least);
    return 1;
}

static void test_each_is_in_once_at_its_earliest_time(void)
{
    struct kn_schedule schedule;
    kn_schedule_init(&schedule);
    for (int i = 0; i < MEMBERS; i++) model[i] = -1;
    for (int turn = 0; turn < 60000; turn++) {
        /* in waves: the schedule grows and shrinks */
        int adding = (turn / 2000) % 2 ? next_random() % 4 == 0 : next_random() % 4 != 0;
        if (adding) {
            int i = (int)(next_random() % MEMBERS);
            int64_t at_us = next_random() % 1000;
            CHECK(kn_schedule_add(&schedule, member(i), at_us) == KN_OK);
            if (model[i] < 0 || at_us < model[i]) model[i] = at_us;
        } else if (check_first(&schedule)) {
            struct kn_schedule_entry entry = kn_schedule_pop(&schedule);
            int i = (int)(((char *)(void *)entry.accumulator - members[0]) /
                          (int)sizeof members[0]);
            CHECK(model[i] == entry.at_us);
            model[i] = -1;
        }
    }
    int64_t last = -1;
    while (check_first(&schedule)) {
        struct kn_schedule_entry entry = kn_schedule_pop(&schedule);
        CHECK(entry.at_us >= last);
        last = entry.at_us;
        model[((char *)(void *)entry.accumulator - members[0]) / (int)sizeof members[0]] = -1;
    }
    kn_schedule_deinit(&schedule);
}

int main(void)
{
    RUN(test_each_is_in_once_at_its_earliest_time);
    return check_done();
}
