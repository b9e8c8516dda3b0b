/* The queue to the control thread: control_queue.h. */
#include "net/control_queue.h"

#include <stdlib.h>

#include "base/status.h"
#include "net/events.h"

struct kn_control_queue *kn_control_queue_new(int spare_events)
{
    struct kn_control_queue *control = calloc(1, sizeof *control);
    if (!control) return NULL;
    atomic_init(&control->refs, 1);
    if (kn_reserve_init(&control->spare_events, sizeof(struct kn_event), spare_events) == KN_OK) {
        if (kn_queue_init(&control->events) == KN_OK) return control;
        kn_queue_deinit(&control->events);
        kn_reserve_deinit(&control->spare_events);
    }
    free(control);
    return NULL;
}

struct kn_control_queue *kn_control_queue_ref(struct kn_control_queue *control)
{
    atomic_fetch_add_explicit(&control->refs, 1, memory_order_relaxed);
    return control;
}

void kn_control_queue_unref(struct kn_control_queue *control)
{
    if (atomic_fetch_sub_explicit(&control->refs, 1, memory_order_acq_rel) != 1) return;
    struct kn_list *node;
    while ((node = kn_queue_pop(&control->events)))
        kn_event_free(KN_LIST_ENTRY(node, struct kn_event, node));
    kn_queue_deinit(&control->events);
    kn_reserve_deinit(&control->spare_events);
    free(control);
}
