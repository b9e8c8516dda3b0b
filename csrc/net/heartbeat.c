/* A heartbeat of a broker thread: see heartbeat.h. */
#include "net/heartbeat.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "net/broker.h"
#include "net/frame.h"

#define NOMEM_RETRY_US 100000

struct kn_heartbeat {
    struct kn_request request; /* its `generation` is the connection's, for the outcome */
    struct iovec piece;
    struct kn_broker *broker;
    /* for the next outcome, allocated before the request is sent; NULL: no memory yet */
    struct kn_event *event;
    struct kn_chunk *last; /* the body of the last outcome; NULL: there was none */
    struct kn_span last_body;
    uint64_t token;
    int64_t due_us;
    int64_t sent_us; /* of the request in flight */
    int32_t interval_ms, timeout_ms;
    int in_flight;
    int replaced; /* it only waits for the response in flight */
    size_t frame_bytes;
    uint8_t frame[];
};

static atomic_long live_count;

long kn_heartbeat_live(void) { return atomic_load(&live_count); }

static int make_event(struct kn_heartbeat *heartbeat)
{
    if (heartbeat->event) return KN_OK;
    heartbeat->event = kn_event_new(&heartbeat->broker->client->control->spare_events,
                                    KN_EVENT_REPLY, heartbeat->broker->handle);
    if (!heartbeat->event) return KN_ERR_NOMEM;
    heartbeat->event->token = heartbeat->token;
    heartbeat->event->api_key = heartbeat->request.api_key;
    return KN_OK;
}

void kn_heartbeat_free(struct kn_heartbeat *heartbeat)
{
    kn_event_free(heartbeat->event);
    kn_chunk_unref(heartbeat->last);
    free(heartbeat);
    atomic_fetch_sub(&live_count, 1);
}

static void report(struct kn_heartbeat *heartbeat, int status, struct kn_chunk *chunk,
                   struct kn_span body)
{
    struct kn_event *event = heartbeat->event;
    heartbeat->event = NULL;
    kn_broker_post_reply(heartbeat->broker, event, heartbeat->request.generation, status, chunk,
                         body);
}

static int has_changed(const struct kn_heartbeat *heartbeat, struct kn_span body)
{
    size_t size_bytes = kn_span_left(&body);
    return !heartbeat->last || kn_span_left(&heartbeat->last_body) != size_bytes ||
           (size_bytes && memcmp(heartbeat->last_body.at, body.at, size_bytes) != 0);
}

static void heartbeat_done(struct kn_request *request, int status, struct kn_chunk *chunk,
                           struct kn_span body)
{
    struct kn_heartbeat *heartbeat = request->context;
    heartbeat->in_flight = 0;
    if (status != KN_OK) {
        report(heartbeat, status, NULL, kn_span_of("", 0));
        if (!heartbeat->replaced) heartbeat->broker->heartbeat = NULL;
        kn_heartbeat_free(heartbeat);
        return;
    }
    /* Before the report. A process that was frozen may find an answer from long before. */
    if (!heartbeat->replaced)
        atomic_store_explicit(&heartbeat->broker->heartbeat_sent_us, heartbeat->sent_us,
                              memory_order_relaxed);
    if (has_changed(heartbeat, body)) {
        kn_chunk_unref(heartbeat->last);
        heartbeat->last = kn_chunk_ref(chunk);
        heartbeat->last_body = body;
        report(heartbeat, KN_OK, chunk, body);
    }
    if (heartbeat->replaced) kn_heartbeat_free(heartbeat);
}

struct kn_heartbeat *kn_heartbeat_new(struct kn_broker *broker,
                                      const struct kn_heartbeat_plan *plan)
{
    const char *client_id = broker->client->config->client_id;
    struct kn_heartbeat *heartbeat = calloc(1, sizeof *heartbeat + KN_FRAME_HEADER_MAX_BYTES +
                                                   strlen(client_id) + plan->body_bytes);
    if (!heartbeat) return NULL;
    atomic_fetch_add(&live_count, 1);
    heartbeat->broker = broker;
    heartbeat->token = plan->token;
    heartbeat->interval_ms = plan->interval_ms;
    heartbeat->timeout_ms = plan->timeout_ms;
    struct kn_request *request = &heartbeat->request;
    kn_list_init(&request->node);
    request->api_key = plan->api_key;
    request->api_version = plan->api_version;
    request->flags = plan->reply_flexible ? KN_REQUEST_FLEXIBLE_REPLY : 0;
    request->on_done = heartbeat_done;
    request->context = heartbeat;
    heartbeat->frame_bytes = kn_frame_header_write(
        heartbeat->frame, plan->api_key, plan->api_version, client_id, plan->request_flexible);
    if (plan->body_bytes)
        memcpy(heartbeat->frame + heartbeat->frame_bytes, plan->body, plan->body_bytes);
    heartbeat->frame_bytes += plan->body_bytes;
    if (make_event(heartbeat) == KN_OK) return heartbeat;
    kn_heartbeat_free(heartbeat);
    return NULL;
}

void kn_heartbeat_refuse(struct kn_heartbeat *heartbeat, int status)
{
    report(heartbeat, status, NULL, kn_span_of("", 0));
    kn_heartbeat_free(heartbeat);
}

void kn_heartbeat_start(struct kn_broker *broker, struct kn_heartbeat *heartbeat, int64_t now_us)
{
    struct kn_heartbeat *old = broker->heartbeat;
    broker->heartbeat = heartbeat;
    if (old && old->in_flight) old->replaced = 1;
    else if (old) kn_heartbeat_free(old);
    if (!heartbeat) return;
    heartbeat->request.generation = broker->generation;
    heartbeat->due_us = now_us + (int64_t)heartbeat->interval_ms * 1000;
}

int64_t kn_heartbeat_step(struct kn_broker *broker, int64_t now_us)
{
    struct kn_heartbeat *heartbeat = broker->heartbeat;
    /* the response or its deadline wakes the thread */
    if (!heartbeat || heartbeat->in_flight) return KN_NEVER;
    if (now_us < heartbeat->due_us) return heartbeat->due_us;
    /* on hold: the op that opens the broker again wakes the thread */
    if (kn_broker_state_now(broker) != KN_BROKER_UP) return KN_NEVER;
    /* no memory to report an outcome: try again later */
    if (make_event(heartbeat) != KN_OK) return now_us + NOMEM_RETRY_US;
    struct kn_request *request = &heartbeat->request;
    heartbeat->piece = (struct iovec){heartbeat->frame, heartbeat->frame_bytes};
    request->pieces = &heartbeat->piece;
    request->piece_count = 1;
    request->piece_next = 0;
    request->was_written = 0;
    request->frame_bytes = heartbeat->frame_bytes;
    request->deadline_us = now_us + (int64_t)heartbeat->timeout_ms * 1000;
    heartbeat->in_flight = 1;
    heartbeat->sent_us = now_us;
    heartbeat->due_us = now_us + (int64_t)heartbeat->interval_ms * 1000;
    kn_connection_send(broker->connection, request, now_us);
    return KN_NEVER;
}

void kn_heartbeat_on_down(struct kn_broker *broker, int status)
{
    struct kn_heartbeat *heartbeat = broker->heartbeat;
    if (!heartbeat) return;
    /* Without memory the end can't be reported separately; the broker's DISCONNECTED event implies
     * it. */
    if (make_event(heartbeat) == KN_OK) report(heartbeat, status, NULL, kn_span_of("", 0));
    broker->heartbeat = NULL;
    kn_heartbeat_free(heartbeat);
}
