/* What a broker's parts and a client's topics and cursors need from above, as tables of functions
 * that their owners give them once, at init.
 *
 * Thread: as said at each function; no lock is held by the caller. None is called for a message:
 * only for a batch, a request, a response, or to wake.
 */
#ifndef KN_NET_BROKER_EVENTS_H
#define KN_NET_BROKER_EVENTS_H

#include <stddef.h>
#include <stdint.h>

struct kn_accumulator;
struct kn_batch;
struct kn_cursor;
struct kn_request;
struct kn_segment;

/* To the broker's thread. */
struct kn_broker_events {
    /* any thread: look at this accumulator from at_us on */
    void (*accumulator_ready)(void *owner, struct kn_accumulator *accumulator, int64_t at_us);
    /* any thread: it doesn't have enough queued any more, see kn_cursor_rests() */
    void (*cursor_ready)(void *owner, struct kn_cursor *cursor);
    void (*wake)(void *owner); /* any thread: one more turn */
    /* Broker thread: queue a request on the open connection (on_done comes at once when there is
     * none). */
    void (*send)(void *owner, struct kn_request *request, int64_t now_us);
    /* broker thread: of the requests that the connection holds */
    size_t (*unsent_bytes)(void *owner);
    int (*unsent_requests)(void *owner); /* the same: queued, or written in part */
};

/* To the client. */
struct kn_client_events {
    /* any thread: the batch has its outcome. Takes it. */
    void (*delivered)(void *owner, struct kn_batch *batch);
    /* broker thread: for the application. Takes it. */
    void (*fetched)(void *owner, struct kn_segment *segment);
    /* any thread: fetchers that were over the limit may go on */
    void (*queue_has_room)(void *owner);
};

#endif
