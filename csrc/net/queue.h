/* A queue from broker threads to Python, with a descriptor to sleep on.
 *
 * Thread: push from any thread; take and wait from any thread (usually one). Lock: `lock` (leaf),
 * held to link nodes only. A node's owner is the queue until it is taken. Waiting is poll(2) on the
 * wake descriptor, so that a signal ends it (EINTR).
 */
#ifndef KN_NET_QUEUE_H
#define KN_NET_QUEUE_H

#include <stdbool.h>
#include "base/list.h"
#include "net/thread.h"
#include "net/wake.h"

struct kn_queue {
    uint64_t id; /* immutable: of all queues there ever were */
    struct kn_mutex lock;
    struct kn_list items;  /* under lock */
    long count;            /* under lock */
    uint64_t kicks;        /* under lock: changes with each kick */
    int sleepers;          /* under lock: threads in kn_queue_wait() */
    int unseen;            /* under lock: those of them that a kick hasn't woken yet */
    int idlers;            /* under lock: sleepers, and those of kn_queue_idle_begin() */
    int64_t idle_since_us; /* under lock: since when there are any */
    int64_t idle_us;       /* under lock: how long there were before */
    struct kn_wake wake;
};

int kn_queue_init(struct kn_queue *queue);
void kn_queue_deinit(struct kn_queue *queue); /* must be empty */
void kn_queue_push(struct kn_queue *queue, struct kn_list *node);
struct kn_list *kn_queue_pop(struct kn_queue *queue); /* NULL: empty */
/* appends to an initialised list */
void kn_queue_take_all(struct kn_queue *queue, struct kn_list *into);
/* Puts a list back in front, in order (a callback raised halfway). */
void kn_queue_put_back(struct kn_queue *queue, struct kn_list *from);
long kn_queue_count(struct kn_queue *queue);
/* Returns KN_OK at once when something is queued or a kick has come since this thread's last wait
 * here, KN_ERR_TIMED_OUT, or KN_ERR_INTERRUPTED. timeout_ms < 0: no limit. A thread's first wait
 * may return for an old kick. No lock held while asleep; the caller has released the interpreter
 * lock. */
int kn_queue_wait(struct kn_queue *queue, int64_t timeout_ms);
/* Somebody waits for this queue in another way, an event loop say, until the matching end. */
void kn_queue_idle_begin(struct kn_queue *queue);
void kn_queue_idle_end(struct kn_queue *queue);
/* How long anybody has waited here, all in all, in microseconds. */
int64_t kn_queue_idle_us(struct kn_queue *queue);
/* For an event loop that has found nothing to do: the descriptor isn't readable until the next push
 * or kick. Returns 1 when something is queued after all, else 0. Kicks are forgotten: whoever kicks
 * has set something that the caller looks at, before or after. */
bool kn_queue_rest(struct kn_queue *queue);
/* Ends one wait of every thread, also of one that is just about to begin. */
void kn_queue_kick(struct kn_queue *queue);

#endif
