/* A broker's producing half: collects ready batches, compresses and seals them, makes Produce requests, settles responses.
 *
 * Thread: its broker's only; no locks of its own (it takes accumulators' locks one at a time). Who frees: embedded in struct kn_broker.
 */
#ifndef KN_ENGINE_SENDER_H
#define KN_ENGINE_SENDER_H

#include <stdint.h>
#include "base/list.h"
#include "engine/accumulator.h"

struct kn_sender {
    struct kn_broker *broker;
    /* partitions to look at, each with the time from when on: a ring for "now" and a time-ordered list for linger and backoff */
    struct kn_sender_entry *entries;
    int32_t entry_count, entry_capacity;
    int32_t in_flight;          /* Produce requests out there */
    int16_t produce_version;    /* negotiated, -1 before open */
};

void kn_sender_init(struct kn_sender *sender, struct kn_broker *broker);
void kn_sender_deinit(struct kn_sender *sender);
/* Look at this accumulator from at_us on (entries may repeat; an accumulator with nothing to take is harmless). */
int kn_sender_add(struct kn_sender *sender, struct kn_accumulator *accumulator, int64_t at_us);
/* True when there is something to send, now or later: the broker should be connected. */
int kn_sender_wants_connection(const struct kn_sender *sender);
/* Called when the broker is open: builds and sends requests while the in-flight limit allows. Returns when to be called again at the latest. */
int64_t kn_sender_step(struct kn_sender *sender, int64_t now_us);

#endif
