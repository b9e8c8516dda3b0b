/* The queue of events to the control thread, with the memory for them. The engines of one shared
 * client (its own and those of its roles) use one control queue, so one control thread serves them.
 *
 * Thread: any thread pushes; the control thread takes and waits.
 * Lock: the queue's and the reserve's (leaf).
 * Who frees: it has a reference count. Each engine has a reference. The last unref frees the queue
 * with its events, so an event may outlive its engine. */
#ifndef KN_NET_CONTROL_QUEUE_H
#define KN_NET_CONTROL_QUEUE_H

#include <stdatomic.h>
#include <stdint.h>
#include "net/queue.h"
#include "net/reserve.h"

struct kn_control_queue {
    struct kn_queue events; /* struct kn_event */
    /* memory for events that must not be lost when malloc() fails */
    struct kn_reserve spare_events;
    /* atomic */
    atomic_int refs;
    atomic_int engine_count;       /* engines that have used the queue: the next one's number */
    atomic_int lines_queued;       /* log lines in `events` */
    _Atomic int64_t lines_dropped; /* dropped log lines that aren't reported yet */
};

/* NULL: no memory or descriptors. The caller has the first reference. */
struct kn_control_queue *kn_control_queue_new(int spare_events);
struct kn_control_queue *kn_control_queue_ref(struct kn_control_queue *control);
void kn_control_queue_unref(struct kn_control_queue *control);

#endif
