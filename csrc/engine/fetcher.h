/* A broker's consuming half: Fetch requests from its slots (incremental sessions, KIP-227), responses into segments.
 *
 * Thread: its broker's only; no locks. A slot is this broker's view of one attached cursor: the fetch position lives here.
 * Who frees: embedded in struct kn_broker; slots are freed on detach.
 */
#ifndef KN_ENGINE_FETCHER_H
#define KN_ENGINE_FETCHER_H

#include <stdint.h>
#include "base/list.h"
#include "base/span.h"
#include "engine/chunk.h"
#include "engine/cursor.h"

struct kn_broker;

struct kn_fetcher {
    struct kn_broker *broker;
    struct kn_list slots;        /* every attached cursor, rotated for fairness */
    int32_t slot_count;
    int32_t session_id;          /* 0: none */
    int32_t session_epoch;       /* 0: the next request is a full one */
    int in_flight;
    int16_t fetch_version;       /* negotiated, -1 before open */
    int64_t not_before_us;       /* back-off after an error, or throttled */
};

void kn_fetcher_init(struct kn_fetcher *fetcher, struct kn_broker *broker);
void kn_fetcher_deinit(struct kn_fetcher *fetcher);
/* Start (or restart, with a newer epoch) fetching this cursor at `offset`. Takes a reference. */
int kn_fetcher_attach(struct kn_fetcher *fetcher, struct kn_cursor *cursor, uint32_t epoch, int64_t offset, int32_t leader_epoch);
void kn_fetcher_detach(struct kn_fetcher *fetcher, struct kn_cursor *cursor);
int kn_fetcher_wants_connection(const struct kn_fetcher *fetcher);
int64_t kn_fetcher_step(struct kn_fetcher *fetcher, int64_t now_us);
void kn_fetcher_on_down(struct kn_fetcher *fetcher); /* the connection is gone: no session any more */

#endif
