/* A broker's consuming half: Fetch requests from its slots (incremental sessions, KIP-227),
 * responses into segments.
 *
 * Thread: its broker's only; no locks. A slot is this broker's view of one attached cursor: the
 * fetch position lives here.
 * Who frees: embedded in struct kn_broker; slots are freed on detach, jobs (results not yet opened)
 * once they are opened.
 *
 * One request is in flight at a time, because a session's epochs are sequential. To keep the broker
 * busy all the same, a response is only scanned at first (batch headers tell the next offsets), the
 * next request goes out, and then the batches are checked and opened. When one turns out to be
 * unusable, its slot is detached, and the result that is on its way for it is ignored.
 *
 * A turn looks only at slots with news: what a response brought, what was attached, what began or
 * ceased to rest. The others cost nothing, however many they are. Only a full request (the first of
 * a session) goes over all of them.
 */
#ifndef KN_CONSUME_FETCHER_H
#define KN_CONSUME_FETCHER_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "base/span.h"
#include "net/chunk.h"
#include "consume/cursor.h"

struct kn_broker;
struct kn_consumer;
struct kn_fetch_job;

enum kn_fetch_file { KN_FETCH_FILE_NONE, KN_FETCH_FILE_CHANGED, KN_FETCH_FILE_LEAVING };

struct kn_fetch_slot {
    struct kn_list node;        /* fetcher->slots or ->forgotten */
    struct kn_list file_node;   /* fetcher->changed or ->leaving */
    enum kn_fetch_file file;    /* which of them */
    struct kn_fetch_slot *next; /* in its hash bucket */
    struct kn_cursor *cursor;   /* a reference */
    uint32_t epoch;
    /* results of requests up to this serial are from before the attach */
    uint32_t ignore_through;
    int32_t leader_epoch;
    int32_t max_bytes;   /* grows when a batch doesn't fit */
    int64_t offset;      /* the fetch position */
    int64_t sent_offset; /* what the session has; KN_OFFSET_UNKNOWN: must be sent */
    int64_t eof_offset;  /* where the end was reported last */
    /* the session that knows it, by fetcher->session_serial; 0: none */
    uint32_t session;
    bool resting; /* left out of requests: enough of it is queued */
    bool gone;    /* detached, and kept only until the session has forgotten it */
};

struct kn_fetcher {
    /* immutable */
    struct kn_broker *broker;
    struct kn_consumer *consumer;
    /* its own */
    struct kn_list slots; /* every attached cursor */
    int32_t slot_count;
    int32_t idless_count; /* slots whose topic has no id: they need version 12 or older */
    /* slots that the next incremental request tells the session of; a full one has all that don't
     * rest */
    struct kn_list changed;
    struct kn_list leaving;   /* resting slots that the session still has */
    struct kn_list forgotten; /* detached slots that the session still has */
    int32_t changed_count, leaving_count, forgotten_count, resting_count;
    struct kn_fetch_slot **buckets; /* hash table over the slots, by topic and partition */
    uint32_t bucket_count;          /* a power of two, 0 before the first slot */
    bool by_id;                     /* hashed by topic id (version 13 and newer) or by name */
    int32_t session_id;             /* 0: none */
    int32_t session_epoch;          /* 0: the next request is a full one */
    /* counts sessions given up, from 1 on: slots of another one are in no session */
    uint32_t session_serial;
    bool in_flight;
    uint32_t serial; /* counts requests */
    /* answers up to this request belong to a session that was given up */
    uint32_t session_reset_serial;
    int16_t fetch_version;     /* negotiated, -1 before open */
    int64_t not_before_us;     /* back-off after an error, or throttled */
    int64_t session_failed_us; /* when a session was last lost */
    /* fetched partitions in their order, scanned but not opened, or not to their end */
    struct kn_fetch_job *jobs;
    int32_t job_next, job_count, job_capacity; /* those before job_next are done */
    int64_t job_bytes;
    /* bytes that 256 fetched ones become when they are opened, as of late; at least 256 */
    int64_t expansion;
    int64_t opened_from_bytes, opened_to_bytes; /* the same of the response being opened */
};

void kn_fetcher_init(struct kn_fetcher *fetcher, struct kn_broker *broker,
                     struct kn_consumer *consumer);
void kn_fetcher_deinit(struct kn_fetcher *fetcher);
/* Start (or restart, with a newer epoch) fetching this cursor at `offset`. Takes a reference of its
 * own. KN_OK or KN_ERR_NOMEM. */
int kn_fetcher_attach(struct kn_fetcher *fetcher, struct kn_cursor *cursor, uint32_t epoch,
                      int64_t offset, int32_t leader_epoch);
void kn_fetcher_detach(struct kn_fetcher *fetcher, struct kn_cursor *cursor);
/* Something of a cursor that rested was consumed; all: of any one. */
void kn_fetcher_wake(struct kn_fetcher *fetcher, const struct kn_cursor *cursor);
void kn_fetcher_wake_all(struct kn_fetcher *fetcher);
bool kn_fetcher_wants_connection(const struct kn_fetcher *fetcher);
/* When the broker is open: sends the next Fetch, opens what came. Returns when to be called again
 * at the latest. */
int64_t kn_fetcher_step(struct kn_fetcher *fetcher, int64_t now_us);
/* the connection is gone: no session any more */
void kn_fetcher_on_down(struct kn_fetcher *fetcher);

#endif
