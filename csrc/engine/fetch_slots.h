/* The fetcher's slots: the attached cursors of one broker, found by topic and partition.
 *
 * Thread: the broker's only; no locks. Who frees: see fetcher.h.
 */
#ifndef KN_ENGINE_FETCH_SLOTS_H
#define KN_ENGINE_FETCH_SLOTS_H

#include "engine/fetch_codec.h"
#include "engine/fetcher.h"

struct kn_fetch_slot {
    struct kn_list node;         /* fetcher->slots or ->forgotten */
    struct kn_fetch_slot *next;  /* in its hash bucket */
    struct kn_cursor *cursor;    /* a reference */
    uint32_t epoch;
    uint32_t ignore_through;     /* results of requests up to this serial are from before the attach */
    int32_t leader_epoch;
    int32_t max_bytes;           /* grows when a batch doesn't fit */
    int64_t offset;              /* the fetch position */
    int64_t sent_offset;         /* what the session has; KN_OFFSET_UNKNOWN: must be sent */
    int64_t eof_offset;          /* where the end was reported last */
    int in_session;
    int resting;                 /* left out of the request being made: enough of it is queued */
};

int kn_fetch_slots_add(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot);
/* Unlinks the slot and forgets it: into `forgotten` when the session knows it, else freed. */
void kn_fetch_slots_remove(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot);
void kn_fetch_slot_free(struct kn_fetch_slot *slot);
/* By topic id or name, as the table is keyed. */
struct kn_fetch_slot *kn_fetch_slots_find(struct kn_fetcher *fetcher, const void *topic, size_t topic_bytes, int32_t partition);
struct kn_fetch_slot *kn_fetch_slots_find_cursor(struct kn_fetcher *fetcher, const struct kn_cursor *cursor);
void kn_fetch_slots_key_by(struct kn_fetcher *fetcher, int by_id);
void kn_fetch_slots_drop_forgotten(struct kn_fetcher *fetcher);

#endif
