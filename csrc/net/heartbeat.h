/* A heartbeat: one request that the broker's thread sends again and again on one connection,
 * without Python and the interpreter lock.
 *
 * Thread: made and posted by the control thread; from the inbox on, the broker's own. No locks.
 * Who frees: itself, once it has ended or was replaced and nothing of it is in flight any more; the
 * poster, if it is never posted.
 *
 * An outcome is a KN_EVENT_REPLY with the heartbeat's token, as a submitted request's is; one whose
 * body has the same bytes as the one before is dropped here. A failure ends the heartbeat and is
 * always told. What is in flight when a heartbeat is replaced or stopped is still told, with its
 * own token.
 */
#ifndef KN_NET_HEARTBEAT_H
#define KN_NET_HEARTBEAT_H

#include <stdbool.h>
#include <stdint.h>
#include "net/connection.h"

struct kn_heartbeat;
struct kn_broker;

struct kn_heartbeat_plan {
    int16_t api_key, api_version;
    bool request_flexible, reply_flexible;
    const uint8_t *body; /* copied */
    size_t body_bytes;
    uint64_t token;
    int32_t interval_ms; /* > 0: from one sending to the next, and to the first */
    int32_t timeout_ms;  /* > 0: of each */
};

/* Has everything that its first outcome needs, so that nothing can fail once it is posted. NULL: no
 * memory. */
struct kn_heartbeat *kn_heartbeat_new(struct kn_broker *broker,
                                      const struct kn_heartbeat_plan *plan);
void kn_heartbeat_free(struct kn_heartbeat *heartbeat); /* never posted */
/* Any thread: the heartbeat never begins; that is told with `status`. Takes it. */
void kn_heartbeat_refuse(struct kn_heartbeat *heartbeat, int status);
/* The rest by the broker's thread. This heartbeat (NULL: none) instead of the broker's current one;
 * taken. */
void kn_heartbeat_start(struct kn_broker *broker, struct kn_heartbeat *heartbeat, int64_t now_us);
/* Sends what is due on the open connection; returns when to be called again at the latest. */
int64_t kn_heartbeat_step(struct kn_broker *broker, int64_t now_us);
/* The connection is gone (what was in flight has been told already). */
void kn_heartbeat_on_down(struct kn_broker *broker, int status);
long kn_heartbeat_live(void);

#endif
