/* A heartbeat: a request that the broker thread sends repeatedly on one connection, without Python
 * and the interpreter lock.
 *
 * Thread: the control thread makes and posts it; from the inbox on, the broker thread owns it. No
 * locks.
 * Who frees: a heartbeat frees itself after it has ended or was replaced, and nothing of it is in
 * flight. A heartbeat that was never posted belongs to its maker.
 *
 * Each outcome is a KN_EVENT_REPLY with the heartbeat's token, like that of a submitted request.
 * The broker thread drops a response whose body is the same as the previous one. A failure ends the
 * heartbeat and is always reported. If a heartbeat is replaced or stopped, the outcome of its
 * request in flight is still reported with its own token. */
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
    int32_t interval_ms; /* > 0: time between two requests, and before the first one */
    int32_t timeout_ms;  /* > 0: timeout of each request */
};

/* Allocates everything for the first outcome, so that nothing can fail once it is posted. NULL: no
 * memory. */
struct kn_heartbeat *kn_heartbeat_new(struct kn_broker *broker,
                                      const struct kn_heartbeat_plan *plan);
void kn_heartbeat_free(struct kn_heartbeat *heartbeat); /* only for one that was never posted */
/* Any thread: reports with `status` that the heartbeat never begins. Takes the heartbeat. */
void kn_heartbeat_refuse(struct kn_heartbeat *heartbeat, int status);
/* Broker thread, as all functions below. Replaces the broker's current heartbeat by this one (NULL:
 * none) and takes it. */
void kn_heartbeat_start(struct kn_broker *broker, struct kn_heartbeat *heartbeat, int64_t now_us);
/* Sends the heartbeat on the open connection if it is due. Returns the latest time for the next
 * call. */
int64_t kn_heartbeat_step(struct kn_broker *broker, int64_t now_us);
/* The connection is gone. The outcome of a request in flight was reported before. */
void kn_heartbeat_on_down(struct kn_broker *broker, int status);
long kn_heartbeat_live(void);

#endif
