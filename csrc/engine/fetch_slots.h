/* The fetcher's slots: the attached cursors of one broker, found by topic and partition.
 *
 * Thread: the broker's only; no locks. Who frees: see fetcher.h.
 */
#ifndef KN_ENGINE_FETCH_SLOTS_H
#define KN_ENGINE_FETCH_SLOTS_H

#include "engine/fetch_codec.h"
#include "engine/fetcher.h"

enum kn_fetch_file { KN_FETCH_FILE_NONE, KN_FETCH_FILE_CHANGED, KN_FETCH_FILE_LEAVING };

struct kn_fetch_slot {
    struct kn_list node;         /* fetcher->slots or ->forgotten */
    struct kn_list file_node;    /* fetcher->changed or ->leaving */
    enum kn_fetch_file file;     /* which of them */
    struct kn_fetch_slot *next;  /* in its hash bucket */
    struct kn_cursor *cursor;    /* a reference */
    uint32_t epoch;
    uint32_t ignore_through;     /* results of requests up to this serial are from before the attach */
    int32_t leader_epoch;
    int32_t max_bytes;           /* grows when a batch doesn't fit */
    int64_t offset;              /* the fetch position */
    int64_t sent_offset;         /* what the session has; KN_OFFSET_UNKNOWN: must be sent */
    int64_t eof_offset;          /* where the end was reported last */
    uint32_t session;            /* the session that knows it, by fetcher->session_serial; 0: none */
    int resting;                 /* left out of requests: enough of it is queued */
    int gone;                    /* detached, and kept only until the session has forgotten it */
};

static inline int kn_fetch_slot_in_session(const struct kn_fetcher *fetcher, const struct kn_fetch_slot *slot)
{
    return slot->session == fetcher->session_serial;
}
int kn_fetch_slots_add(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot);
/* Unlinks the slot and forgets it: into `forgotten` when the session knows it, else freed. */
void kn_fetch_slots_remove(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot);
void kn_fetch_slot_free(struct kn_fetch_slot *slot);
/* After any change: files the slot where the next request looks for it. */
void kn_fetch_slots_file(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot);
void kn_fetch_slots_unfile(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot);
/* Whether a detached slot of this partition is still known to the session; it is freed, its place in the session must be taken over. (By the session's own
 * key: a topic that was deleted and made anew has the same name, and whoever told it to the session and forgot it in one request would lose it.) */
int kn_fetch_slots_unforget(struct kn_fetcher *fetcher, const struct kn_cursor *cursor);
/* By topic id or name, as the table is keyed. */
struct kn_fetch_slot *kn_fetch_slots_find(struct kn_fetcher *fetcher, const void *topic, size_t topic_bytes, int32_t partition);
struct kn_fetch_slot *kn_fetch_slots_find_cursor(struct kn_fetcher *fetcher, const struct kn_cursor *cursor);
/* Without a session: the table keeps what is attached only. */
void kn_fetch_slots_key_by(struct kn_fetcher *fetcher, int by_id);
void kn_fetch_slots_drop_forgotten(struct kn_fetcher *fetcher);

#endif
