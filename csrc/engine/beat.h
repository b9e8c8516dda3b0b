/* A heartbeat: one request that the broker's thread sends again and again on one connection, without Python and the interpreter lock.
 *
 * Thread: made and posted by the control thread; from the inbox on, the broker's own. No locks.
 * Who frees: itself, once it has ended or was replaced and nothing of it is in flight any more; the poster, if it is never posted.
 *
 * An outcome is a KN_EVENT_REPLY with the beat's token, as a submitted request's is; one whose body has the same bytes as the one before is dropped here.
 * A failure ends the beat and is always told. What is in flight when a beat is replaced or stopped is still told, with its own token.
 */
#ifndef KN_ENGINE_BEAT_H
#define KN_ENGINE_BEAT_H

#include <stdint.h>
#include "engine/connection.h"

struct kn_beat;
struct kn_broker;

struct kn_beat_plan {
    int16_t api_key, api_version;
    int request_flexible, reply_flexible;
    const uint8_t *body;       /* copied */
    size_t body_bytes;
    uint64_t token;
    int32_t interval_ms;       /* > 0: from one sending to the next, and to the first */
    int32_t timeout_ms;        /* > 0: of each */
};

/* Has everything that its first outcome needs, so that nothing can fail once it is posted. NULL: no memory. */
struct kn_beat *kn_beat_new(struct kn_broker *broker, const struct kn_beat_plan *plan);
void kn_beat_free(struct kn_beat *beat); /* never posted */
/* Any thread: the beat never begins; that is told with `status`. Takes it. */
void kn_beat_refuse(struct kn_beat *beat, int status);
/* The rest by the broker's thread. This beat (NULL: none) instead of the broker's current one; taken. */
void kn_beat_start(struct kn_broker *broker, struct kn_beat *beat, int64_t now_us);
/* Sends what is due on the open connection; returns when to be called again at the latest. */
int64_t kn_beat_step(struct kn_broker *broker, int64_t now_us);
/* The connection is gone (what was in flight has been told already). */
void kn_beat_on_down(struct kn_broker *broker, int status);
long kn_beat_live(void);

#endif
