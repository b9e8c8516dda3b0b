/* The budget of queued messages: limits, and waiting for room without losing a wake-up. */
#include <pthread.h>
#include "check.h"
#include "produce/budget.h"

static void setup(struct kn_budget *budget, int64_t messages_max, int64_t bytes_max)
{
    atomic_init(&budget->messages, 0);
    atomic_init(&budget->bytes, 0);
    atomic_init(&budget->waiters, 0);
    budget->messages_max = messages_max;
    budget->bytes_max = bytes_max;
    CHECK_EQ(kn_queue_init(&budget->room), KN_OK);
}

static void test_limits(void)
{
    struct kn_budget budget;
    setup(&budget, 2, 100);
    CHECK_EQ(kn_budget_take(&budget, 1, 60), KN_OK);
    CHECK_EQ(kn_budget_take(&budget, 1, 41), KN_ERR_FULL);
    CHECK_EQ(kn_budget_take(&budget, 1, 40), KN_OK);
    CHECK_EQ(kn_budget_take(&budget, 1, 0), KN_ERR_FULL); /* the third message */
    CHECK(!kn_budget_is_empty(&budget));
    kn_budget_give(&budget, 2, 100);
    CHECK(kn_budget_is_empty(&budget));
    CHECK_EQ(atomic_load(&budget.bytes), 0);
    kn_queue_deinit(&budget.room);
}

static void test_without_waiters_give_wakes_no_thread(void)
{
    struct kn_budget budget;
    setup(&budget, 1, 0);
    CHECK_EQ(kn_budget_take(&budget, 1, 1), KN_OK);
    kn_budget_give(&budget, 1, 1);
    CHECK_EQ(kn_queue_wait(&budget.room, 0), KN_ERR_TIMED_OUT);
    CHECK_EQ(kn_budget_take(&budget, 1, 1), KN_OK);
    kn_budget_wait_begin(&budget);
    kn_budget_give(&budget, 1, 1);
    CHECK_EQ(kn_queue_wait(&budget.room, 0), KN_OK);
    kn_budget_wait_end(&budget);
    kn_queue_deinit(&budget.room);
}

/* Takers wait without a time limit, so a lost wake-up would hang here. Givers return the taken room
 * piece by piece. */
#define TAKERS 4
#define ROUNDS 3000

static struct kn_budget shared;
static atomic_int owed; /* taken room that the giver must return */
static atomic_int takers_left;

static void *take_all(void *argument)
{
    int64_t bytes = 10 + (int64_t)(intptr_t)argument * 20; /* some fit together, some don't */
    for (int i = 0; i < ROUNDS; i++) {
        kn_budget_wait_begin(&shared);
        while (kn_budget_take(&shared, 1, bytes) != KN_OK) {
            if (!kn_budget_is_empty(&shared)) kn_queue_wait(&shared.room, -1);
        }
        kn_budget_wait_end(&shared);
        atomic_fetch_add(&owed, (int)bytes + 1000); /* a message, and its bytes */
    }
    atomic_fetch_sub(&takers_left, 1);
    return NULL;
}

static void *give_all(void *argument)
{
    (void)argument;
    while (atomic_load(&takers_left) || atomic_load(&owed)) {
        int sum = atomic_exchange(&owed, 0);
        if (sum) kn_budget_give(&shared, sum / 1000, sum % 1000);
    }
    return NULL;
}

static void test_no_wakeup_is_lost(void)
{
    pthread_t takers[TAKERS], giver;
    setup(&shared, 2, 100);
    atomic_init(&owed, 0);
    atomic_init(&takers_left, TAKERS);
    for (intptr_t i = 0; i < TAKERS; i++)
        CHECK_EQ(pthread_create(&takers[i], NULL, take_all, (void *)i), 0);
    CHECK_EQ(pthread_create(&giver, NULL, give_all, NULL), 0);
    for (int i = 0; i < TAKERS; i++) pthread_join(takers[i], NULL);
    pthread_join(giver, NULL);
    CHECK(kn_budget_is_empty(&shared));
    CHECK_EQ(atomic_load(&shared.bytes), 0);
    CHECK_EQ(atomic_load(&shared.waiters), 0);
    kn_queue_deinit(&shared.room);
}

int main(void)
{
    RUN(test_limits);
    RUN(test_without_waiters_give_wakes_no_thread);
    RUN(test_no_wakeup_is_lost);
    return check_done();
}
