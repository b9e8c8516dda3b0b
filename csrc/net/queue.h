/* A queue from broker threads to Python, with a descriptor to wait on.
 *
 * Thread: any thread pushes; any thread (usually one) takes and waits.
 * Lock: `lock` (leaf), held to link nodes only. The queue owns a node until a thread takes it.
 * Threads wait with poll(2) on the wake descriptor, so a signal ends the wait (EINTR). */
#ifndef KN_NET_QUEUE_H
#define KN_NET_QUEUE_H

#include <stdbool.h>
#include "base/list.h"
#include "net/thread.h"
#include "net/wake.h"

struct kn_queue {
    uint64_t id; /* immutable: unique among all queues of the process */
    struct kn_mutex lock;
    struct kn_list items;  /* under lock */
    long count;            /* under lock */
    bool closed;           /* under lock: kn_queue_offer() refuses items */
    uint64_t kicks;        /* under lock: rises with each kick */
    int sleepers;          /* under lock: threads in kn_queue_wait() */
    int unseen;            /* under lock: sleepers that a kick hasn't woken yet */
    int idlers;            /* under lock: sleepers, and waiters of kn_queue_idle_begin() */
    int64_t idle_since_us; /* under lock: since when `idlers` isn't 0 */
    int64_t idle_us;       /* under lock: sum of the earlier idle times */
    struct kn_wake wake;
};

int kn_queue_init(struct kn_queue *queue);
void kn_queue_deinit(struct kn_queue *queue); /* must be empty */
void kn_queue_push(struct kn_queue *queue, struct kn_list *node);
/* The same, unless the queue is closed. Returns whether the queue has taken the node. */
bool kn_queue_offer(struct kn_queue *queue, struct kn_list *node);
/* Closes the queue and appends its items to an initialised list. */
void kn_queue_close(struct kn_queue *queue, struct kn_list *into);
void kn_queue_reopen(struct kn_queue *queue);
struct kn_list *kn_queue_pop(struct kn_queue *queue); /* NULL: empty */
/* appends to an initialised list */
void kn_queue_take_all(struct kn_queue *queue, struct kn_list *into);
/* Puts a list back in front, in order (after a callback has raised halfway). */
void kn_queue_put_back(struct kn_queue *queue, struct kn_list *from);
long kn_queue_count(struct kn_queue *queue);
/* Waits until an item is queued. Returns KN_OK at once if there is one, or after a kick since this
 * thread's last wait here. Otherwise KN_ERR_TIMED_OUT or KN_ERR_INTERRUPTED. timeout_ms < 0: no
 * limit. The first wait of a thread may return because of an old kick. The caller has released the
 * interpreter lock; no lock is held during the wait. */
int kn_queue_wait(struct kn_queue *queue, int64_t timeout_ms);
/* Marks that a thread waits for this queue in another way, such as an event loop, until the
 * matching end. */
void kn_queue_idle_begin(struct kn_queue *queue);
void kn_queue_idle_end(struct kn_queue *queue);
/* Returns the total time, in microseconds, during which some thread waited here. */
int64_t kn_queue_idle_us(struct kn_queue *queue);
/* For an event loop that has nothing to do: the descriptor becomes unreadable until the next push
 * or kick. Returns true if an item is queued. Forgets earlier kicks: the caller must check the
 * state that a kick announces, before or after this call. */
bool kn_queue_rest(struct kn_queue *queue);
/* Ends the current wait of every thread, or its next one. */
void kn_queue_kick(struct kn_queue *queue);

#endif
