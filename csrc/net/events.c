/* Events for the control plane.
 *
 * Thread: any thread makes them; the thread that takes one off the queue frees it. Lock: none. */
#include "net/events.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/wipe.h"

#define API_CREATE_DELEGATION_TOKEN 38
#define API_DESCRIBE_DELEGATION_TOKEN 41

static atomic_long live_count;

long kn_event_live(void) { return atomic_load(&live_count); }

struct kn_event *kn_event_new(struct kn_reserve *reserve, enum kn_event_kind kind, int32_t broker)
{
    struct kn_event *event = reserve ? kn_reserve_take(reserve) : calloc(1, sizeof *event);
    if (!event) return NULL;
    event->reserve = reserve;
    kn_list_init(&event->node);
    event->kind = kind;
    event->broker = broker;
    event->partition = event->leader_id = event->leader_epoch = -1;
    event->offset = -1;
    atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
    return event;
}

struct kn_event *kn_event_throttled(struct kn_reserve *reserve, int32_t broker, int16_t api_key,
                                    int32_t throttle_ms)
{
    struct kn_event *event = kn_event_new(reserve, KN_EVENT_THROTTLED, broker);
    if (!event) return NULL;
    event->api_key = api_key;
    event->throttle_ms = throttle_ms;
    return event;
}

/* Responses with a secret: the password of a delegation token. */
static int is_secret(int16_t api_key)
{
    return api_key == API_CREATE_DELEGATION_TOKEN || api_key == API_DESCRIBE_DELEGATION_TOKEN;
}

void kn_event_free(struct kn_event *event)
{
    if (!event) return;
    /* no other thread reads the response */
    if (event->body && is_secret(event->api_key))
        kn_wipe((uint8_t *)event->body, event->body_bytes);
    kn_chunk_unref(event->chunk);
    if (event->reserve) kn_reserve_give(event->reserve, event);
    else free(event);
    atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
}
