/* The consuming half of a broker: it builds Fetch requests from its slots (incremental sessions,
 * KIP-227) and makes segments from the responses.
 *
 * Thread: the broker thread only; no locks. A slot is this broker's state of one attached cursor;
 * it holds the fetch position.
 * Who frees: struct kn_broker embeds it. The fetcher frees a slot when it is detached, and a job
 * (an unopened result) once it is opened.
 *
 * Only one request is in flight, because the epochs of a session are sequential. To keep the broker
 * busy, the fetcher first only scans a response for the next offsets (in the batch headers). It
 * sends the next request, and then checks and opens the batches. A small response is opened first.
 * If a batch is unusable, the fetcher detaches its slot and ignores the result in flight for it.
 *
 * An iteration handles only slots that changed: a response had data for them, they were attached,
 * or they began or stopped resting. Other slots cost nothing. Only a full request (the first of a
 * session) goes over all slots. */
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

enum kn_fetch_list { KN_FETCH_LIST_NONE, KN_FETCH_LIST_CHANGED, KN_FETCH_LIST_LEAVING };

struct kn_fetch_slot {
    struct kn_list node;        /* fetcher->slots or ->forgotten */
    struct kn_list list_node;   /* fetcher->changed or ->leaving */
    enum kn_fetch_list list;    /* the list of `list_node` */
    struct kn_fetch_slot *next; /* in its hash bucket */
    struct kn_cursor *cursor;   /* a reference */
    uint32_t epoch;
    /* the slot ignores results of requests up to this serial: they were sent before the attach */
    uint32_t ignore_through;
    int32_t leader_epoch;
    int32_t max_bytes;   /* grows if a batch doesn't fit */
    int64_t offset;      /* the fetch position */
    int64_t sent_offset; /* the offset that the session has; KN_OFFSET_UNKNOWN: must be sent */
    int64_t eof_offset;  /* the end that was reported last */
    /* the session that has this slot, as fetcher->session_serial; 0: none */
    uint32_t session;
    bool resting; /* left out of requests, because enough messages are queued */
    bool gone;    /* detached; kept only until the session has removed it */
};

struct kn_fetcher {
    /* immutable */
    struct kn_broker *broker;
    struct kn_consumer *consumer;
    /* fields of the broker thread */
    struct kn_list slots; /* every attached cursor */
    int32_t slot_count;
    int32_t idless_count; /* slots whose topic has no id: they need version 12 or older */
    /* slots to send with the next incremental request; a full request has every slot that doesn't
     * rest */
    struct kn_list changed;
    struct kn_list leaving;   /* resting slots that the session still has */
    struct kn_list forgotten; /* detached slots that the session still has */
    int32_t changed_count, leaving_count, forgotten_count, resting_count;
    struct kn_fetch_slot **buckets; /* hash table of the slots, by topic and partition */
    uint32_t bucket_count;          /* a power of two, 0 before the first slot */
    bool by_id;                     /* hashed by topic id (version 13 and newer), else by name */
    int32_t session_id;             /* 0: none */
    int32_t session_epoch;          /* 0: the next request is a full one */
    /* number of the session, from 1 on; it rises when a session is dropped. A slot with another
     * number is in no session */
    uint32_t session_serial;
    bool in_flight;
    uint32_t serial; /* counts requests */
    /* responses up to this request belong to a dropped session */
    uint32_t session_reset_serial;
    int16_t fetch_version; /* negotiated, -1 before open */
    int64_t not_before_us; /* don't send before this time: backoff after an error, or throttling */
    int64_t session_failed_us; /* when a session was last lost */
    /* results in their order that are scanned but not, or not fully, opened */
    struct kn_fetch_job *jobs;
    int32_t job_next, job_count, job_capacity; /* jobs before job_next are done */
    int64_t job_bytes;
    /* recent ratio of opened to fetched bytes, times 256; at least 256 */
    int64_t expansion;
    int64_t opened_from_bytes, opened_to_bytes; /* the two sums for the response in work */
};

void kn_fetcher_init(struct kn_fetcher *fetcher, struct kn_broker *broker,
                     struct kn_consumer *consumer);
void kn_fetcher_deinit(struct kn_fetcher *fetcher); /* leaves it empty, as after init */
/* Starts to fetch this cursor at `offset`, or restarts it with a newer epoch. Takes its own
 * reference. KN_OK or KN_ERR_NOMEM. */
int kn_fetcher_attach(struct kn_fetcher *fetcher, struct kn_cursor *cursor, uint32_t epoch,
                      int64_t offset, int32_t leader_epoch);
void kn_fetcher_detach(struct kn_fetcher *fetcher, struct kn_cursor *cursor);
/* Messages of a resting cursor were consumed; all: of any resting cursor. */
void kn_fetcher_wake(struct kn_fetcher *fetcher, const struct kn_cursor *cursor);
void kn_fetcher_wake_all(struct kn_fetcher *fetcher);
bool kn_fetcher_wants_connection(const struct kn_fetcher *fetcher);
/* Call while the broker is open: sends the next Fetch and opens responses. Returns the latest time
 * for the next call. */
int64_t kn_fetcher_step(struct kn_fetcher *fetcher, int64_t now_us);
/* the connection is gone, and so is the session */
void kn_fetcher_on_down(struct kn_fetcher *fetcher);

#endif
