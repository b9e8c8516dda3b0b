/* A queue to Python, and the descriptor to wait on.
 *
 * Thread: any thread pushes, pops and waits.
 * Lock: `lock` (leaf), for linking and counting only; no system call under it.
 * Who frees: the engine embeds it.
 *
 * The descriptor is readable whenever an item is queued or a kick is pending. It may stay readable
 * a little longer: taking items never clears it. So a busy consumer makes no system call, and
 * neither do the producers (the flag in kn_wake coalesces them). Only a waiter that finds no item
 * clears it, and then checks again:
 *
 * - A push between the waiter's clear and its second check: the check finds the item. It signals
 *   again, because the clear may have removed the push's signal, and another thread or an event
 *   loop may wait for that.
 * - A push after the second check: the flag is 0, so the push writes, and poll returns.
 *
 * Kicks are counted, and each thread remembers the last count that it saw (thread-locally). So a
 * kick reaches every waiting thread, and poll() in one thread can't use up the kick for flush() in
 * another. While a sleeper hasn't seen a kick (`unseen`), other threads don't leave the descriptor
 * cleared.
 *
 * An event loop that watches the descriptor takes items when it fires. When the loop finds none, it
 * calls kn_queue_rest() and checks the state that kicks announce. It must not call
 * kn_queue_wait(queue, 0) for that: with several queues in one thread, each call would return for
 * an old kick. */
#include "net/queue.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>

#include "base/status.h"

static _Atomic uint64_t last_id; /* ids are never reused, unlike addresses */

int kn_queue_init(struct kn_queue *queue)
{
    kn_mutex_init(&queue->lock, KN_RANK_LEAF);
    kn_list_init(&queue->items);
    queue->count = 0;
    queue->closed = 0;
    queue->id = atomic_fetch_add(&last_id, 1) + 1;
    queue->kicks = 0;
    queue->sleepers = queue->unseen = queue->idlers = 0;
    queue->idle_since_us = queue->idle_us = 0;
    return kn_wake_init(&queue->wake);
}

void kn_queue_deinit(struct kn_queue *queue)
{
    kn_wake_deinit(&queue->wake);
    kn_mutex_deinit(&queue->lock);
}

void kn_queue_push(struct kn_queue *queue, struct kn_list *node)
{
    kn_mutex_lock(&queue->lock);
    kn_list_push_back(&queue->items, node);
    queue->count++;
    kn_mutex_unlock(&queue->lock);
    kn_wake_signal(&queue->wake);
}

bool kn_queue_offer(struct kn_queue *queue, struct kn_list *node)
{
    kn_mutex_lock(&queue->lock);
    bool takes = !queue->closed;
    if (takes) {
        kn_list_push_back(&queue->items, node);
        queue->count++;
    }
    kn_mutex_unlock(&queue->lock);
    if (takes) kn_wake_signal(&queue->wake);
    return takes;
}

void kn_queue_close(struct kn_queue *queue, struct kn_list *into)
{
    kn_mutex_lock(&queue->lock);
    queue->closed = 1;
    kn_list_splice_back(into, &queue->items);
    queue->count = 0;
    kn_mutex_unlock(&queue->lock);
}

void kn_queue_reopen(struct kn_queue *queue)
{
    kn_mutex_lock(&queue->lock);
    queue->closed = 0;
    kn_mutex_unlock(&queue->lock);
}

struct kn_list *kn_queue_pop(struct kn_queue *queue)
{
    kn_mutex_lock(&queue->lock);
    struct kn_list *node = kn_list_pop_front(&queue->items);
    if (node) queue->count--;
    kn_mutex_unlock(&queue->lock);
    return node;
}

void kn_queue_take_all(struct kn_queue *queue, struct kn_list *into)
{
    kn_mutex_lock(&queue->lock);
    kn_list_splice_back(into, &queue->items);
    queue->count = 0;
    kn_mutex_unlock(&queue->lock);
}

void kn_queue_put_back(struct kn_queue *queue, struct kn_list *from)
{
    long count = 0;
    for (struct kn_list *node = from->next; node != from; node = node->next) count++;
    if (!count) return;
    kn_mutex_lock(&queue->lock);
    kn_list_splice_back(from, &queue->items);
    kn_list_splice_back(&queue->items, from);
    queue->count += count;
    kn_mutex_unlock(&queue->lock);
    kn_wake_signal(&queue->wake);
}

long kn_queue_count(struct kn_queue *queue)
{
    kn_mutex_lock(&queue->lock);
    long count = queue->count;
    kn_mutex_unlock(&queue->lock);
    return count;
}

/* The last kick that this thread has seen, and its queue. A thread that waits on several queues in
 * turn forgets, and may return for an old kick. */
static _Thread_local struct {
    uint64_t queue_id;
    uint64_t kicks;
} seen;

/* Returns whether a wait can return. */
static int queue_ready(struct kn_queue *queue)
{
    kn_mutex_lock(&queue->lock);
    int ready = queue->count > 0 || queue->kicks != seen.kicks;
    kn_mutex_unlock(&queue->lock);
    return ready;
}

/* Clears the descriptor and checks again: see the top of this file. */
static int queue_ready_after_clear(struct kn_queue *queue)
{
    kn_wake_clear(&queue->wake);
    kn_mutex_lock(&queue->lock);
    int ready = queue->count > 0 || queue->kicks != seen.kicks;
    int others = queue->unseen;
    kn_mutex_unlock(&queue->lock);
    if (ready || others) kn_wake_signal(&queue->wake);
    if (!ready && others) sched_yield(); /* lets them run, and then checks */
    return ready;
}

/* --- idle time; only a thread that would sleep anyway reads the clock --- */

static void queue_idle_begin(struct kn_queue *queue) /* under lock */
{
    if (queue->idlers++ == 0) queue->idle_since_us = kn_clock_us();
}

static void queue_idle_end(struct kn_queue *queue) /* under lock */
{
    if (--queue->idlers == 0) queue->idle_us += kn_clock_us() - queue->idle_since_us;
}

void kn_queue_idle_begin(struct kn_queue *queue)
{
    kn_mutex_lock(&queue->lock);
    queue_idle_begin(queue);
    kn_mutex_unlock(&queue->lock);
}

void kn_queue_idle_end(struct kn_queue *queue)
{
    kn_mutex_lock(&queue->lock);
    queue_idle_end(queue);
    kn_mutex_unlock(&queue->lock);
}

int64_t kn_queue_idle_us(struct kn_queue *queue)
{
    kn_mutex_lock(&queue->lock);
    int64_t idle_us = queue->idle_us;
    if (queue->idlers) idle_us += kn_clock_us() - queue->idle_since_us;
    kn_mutex_unlock(&queue->lock);
    return idle_us;
}

static int queue_sleep(struct kn_queue *queue, int64_t timeout_ms)
{
    /* poll(2) would sleep without a descriptor */
    if (queue->wake.read_fd < 0) return KN_ERR_CLOSED;
    /* A signal for items that were taken long ago: clearing it here saves a useless poll. */
    if (atomic_load_explicit(&queue->wake.signalled, memory_order_relaxed) &&
        queue_ready_after_clear(queue))
        return KN_OK;
    int64_t until_us = timeout_ms < 0 ? KN_NEVER : kn_clock_us() + timeout_ms * 1000;
    for (;;) {
        int64_t left_us = -1;
        if (until_us != KN_NEVER) {
            left_us = until_us - kn_clock_us();
            if (left_us < 0) left_us = 0;
        }
        struct pollfd fd = {.fd = queue->wake.read_fd, .events = POLLIN};
        int ready = kn_wake_poll(&fd, 1, left_us);
        if (ready == -EINTR) return KN_ERR_INTERRUPTED;
        if (ready < 0 || (fd.revents & (POLLNVAL | POLLERR))) return KN_ERR_CLOSED;
        if (queue_ready(queue)) return KN_OK;
        if (ready > 0 && queue_ready_after_clear(queue)) return KN_OK;
        if (left_us == 0) return KN_ERR_TIMED_OUT;
    }
}

int kn_queue_wait(struct kn_queue *queue, int64_t timeout_ms)
{
    kn_mutex_lock(&queue->lock);
    if (seen.queue_id != queue->id) {
        seen.queue_id = queue->id;
        seen.kicks = 0;
    }
    int ready = queue->count > 0 || queue->kicks != seen.kicks;
    if (!ready) {
        queue->sleepers++;
        queue_idle_begin(queue);
    } else if (queue->count == 0) seen.kicks = queue->kicks;
    kn_mutex_unlock(&queue->lock);
    if (ready) return KN_OK;

    int status = queue_sleep(queue, timeout_ms);
    kn_mutex_lock(&queue->lock);
    queue->sleepers--;
    queue_idle_end(queue);
    if (queue->kicks != seen.kicks) {
        queue->unseen--;
        seen.kicks = queue->kicks;
        if (status == KN_ERR_TIMED_OUT) status = KN_OK; /* an item came at the deadline */
    }
    kn_mutex_unlock(&queue->lock);
    return status;
}

bool kn_queue_rest(struct kn_queue *queue)
{
    kn_wake_clear(&queue->wake);
    kn_mutex_lock(&queue->lock);
    int ready = queue->count > 0;
    int others = queue->unseen;
    kn_mutex_unlock(&queue->lock);
    if (ready || others) kn_wake_signal(&queue->wake);
    return ready;
}

void kn_queue_kick(struct kn_queue *queue)
{
    kn_mutex_lock(&queue->lock);
    queue->kicks++;
    queue->unseen = queue->sleepers;
    kn_mutex_unlock(&queue->lock);
    kn_wake_signal(&queue->wake);
}
