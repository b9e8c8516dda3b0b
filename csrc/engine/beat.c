/* A heartbeat of the broker's thread: see beat.h for threads and owners. */
#include "engine/beat.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "engine/engine.h"

#define NOMEM_RETRY_US 100000

struct kn_beat {
    struct kn_request request;  /* its generation: that of the connection, for the outcome */
    struct iovec piece;
    struct kn_broker *broker;
    struct kn_event *event;     /* the next outcome's, had before it is sent; NULL: there was no memory for it yet */
    struct kn_chunk *last;      /* what holds the last outcome's body; NULL: there was none */
    struct kn_span last_body;
    uint64_t token;
    int64_t due_us;
    int32_t interval_ms, timeout_ms;
    int in_flight;
    int replaced;               /* lives only until what is in flight is answered */
    size_t frame_bytes;
    uint8_t frame[];
};

static atomic_long live_count;

long kn_beat_live(void) { return atomic_load(&live_count); }

static int make_event(struct kn_beat *beat)
{
    if (beat->event) return KN_OK;
    beat->event = kn_event_new(&beat->broker->engine->spare_events, KN_EVENT_REPLY, beat->broker->handle);
    if (!beat->event) return KN_ERR_NOMEM;
    beat->event->token = beat->token;
    beat->event->api_key = beat->request.api_key;
    return KN_OK;
}

void kn_beat_free(struct kn_beat *beat)
{
    kn_event_free(beat->event);
    kn_chunk_unref(beat->last);
    free(beat);
    atomic_fetch_sub(&live_count, 1);
}

static void tell(struct kn_beat *beat, int status, struct kn_chunk *chunk, struct kn_span body)
{
    struct kn_event *event = beat->event;
    beat->event = NULL;
    kn_engine_post_reply(beat->broker, event, beat->request.generation, status, chunk, body);
}

static int is_news(const struct kn_beat *beat, struct kn_span body)
{
    size_t size_bytes = kn_span_left(&body);
    return !beat->last || kn_span_left(&beat->last_body) != size_bytes || (size_bytes && memcmp(beat->last_body.at, body.at, size_bytes) != 0);
}

static void beat_done(struct kn_request *request, int status, struct kn_chunk *chunk, struct kn_span body)
{
    struct kn_beat *beat = request->context;
    beat->in_flight = 0;
    if (status != KN_OK) {
        tell(beat, status, NULL, kn_span_of("", 0));
        if (!beat->replaced) beat->broker->beat = NULL;
        kn_beat_free(beat);
        return;
    }
    if (is_news(beat, body)) {
        kn_chunk_unref(beat->last);
        beat->last = kn_chunk_ref(chunk);
        beat->last_body = body;
        tell(beat, KN_OK, chunk, body);
    }
    if (beat->replaced) kn_beat_free(beat);
}

struct kn_beat *kn_beat_new(struct kn_broker *broker, const struct kn_beat_plan *plan)
{
    const char *client_id = broker->engine->config.client_id;
    struct kn_beat *beat = calloc(1, sizeof *beat + KN_FRAME_HEADER_MAX_BYTES + strlen(client_id) + plan->body_bytes);
    if (!beat) return NULL;
    atomic_fetch_add(&live_count, 1);
    beat->broker = broker;
    beat->token = plan->token;
    beat->interval_ms = plan->interval_ms;
    beat->timeout_ms = plan->timeout_ms;
    struct kn_request *request = &beat->request;
    kn_list_init(&request->node);
    request->api_key = plan->api_key;
    request->api_version = plan->api_version;
    request->flags = plan->reply_flexible ? KN_REQUEST_FLEXIBLE_REPLY : 0;
    request->on_done = beat_done;
    request->context = beat;
    beat->frame_bytes = kn_frame_header_write(beat->frame, plan->api_key, plan->api_version, client_id, plan->request_flexible);
    if (plan->body_bytes) memcpy(beat->frame + beat->frame_bytes, plan->body, plan->body_bytes);
    beat->frame_bytes += plan->body_bytes;
    if (make_event(beat) == KN_OK) return beat;
    kn_beat_free(beat);
    return NULL;
}

void kn_beat_refuse(struct kn_beat *beat, int status)
{
    tell(beat, status, NULL, kn_span_of("", 0));
    kn_beat_free(beat);
}

void kn_beat_start(struct kn_broker *broker, struct kn_beat *beat, int64_t now_us)
{
    struct kn_beat *old = broker->beat;
    broker->beat = beat;
    if (old && old->in_flight) old->replaced = 1;
    else if (old) kn_beat_free(old);
    if (!beat) return;
    beat->request.generation = broker->generation;
    beat->due_us = now_us + (int64_t)beat->interval_ms * 1000;
}

int64_t kn_beat_step(struct kn_broker *broker, int64_t now_us)
{
    struct kn_beat *beat = broker->beat;
    if (!beat || beat->in_flight) return KN_NEVER; /* the answer wakes the thread, or its deadline */
    if (now_us < beat->due_us) return beat->due_us;
    if (kn_broker_state_now(broker) != KN_BROKER_UP) return KN_NEVER; /* held: what opens it again is a turn, too */
    if (make_event(beat) != KN_OK) return now_us + NOMEM_RETRY_US; /* an outcome could not be told: later */
    struct kn_request *request = &beat->request;
    beat->piece = (struct iovec){beat->frame, beat->frame_bytes};
    request->pieces = &beat->piece;
    request->piece_count = 1;
    request->piece_next = 0;
    request->was_written = 0;
    request->frame_bytes = beat->frame_bytes;
    request->deadline_us = now_us + (int64_t)beat->timeout_ms * 1000;
    beat->in_flight = 1;
    beat->due_us = now_us + (int64_t)beat->interval_ms * 1000;
    kn_connection_send(broker->connection, request, now_us);
    return KN_NEVER;
}

void kn_beat_on_down(struct kn_broker *broker, int status)
{
    struct kn_beat *beat = broker->beat;
    if (!beat) return;
    /* Without memory the end can't be told by itself; the broker's DISCONNECTED event tells the same. */
    if (make_event(beat) == KN_OK) tell(beat, status, NULL, kn_span_of("", 0));
    broker->beat = NULL;
    kn_beat_free(beat);
}
