/* Tables of functions that lower parts call in their owner. The owner passes each table once, at
 * init, to the parts of a broker and to the topics and cursors of a client.
 *
 * Thread: each function names its threads; the caller holds no lock. Calls are made for a batch, a
 * request or a response, or to wake a thread, never for a single message. */
#ifndef KN_NET_BROKER_EVENTS_H
#define KN_NET_BROKER_EVENTS_H

#include <stddef.h>
#include <stdint.h>

struct kn_accumulator;
struct kn_batch;
struct kn_cursor;
struct kn_request;
struct kn_segment;

/* Calls to the owner of the broker thread. */
struct kn_broker_events {
    /* any thread: check this accumulator from at_us on */
    void (*accumulator_ready)(void *owner, struct kn_accumulator *accumulator, int64_t at_us);
    /* any thread: this cursor no longer has enough messages queued, see kn_cursor_rests() */
    void (*cursor_ready)(void *owner, struct kn_cursor *cursor);
    void (*wake)(void *owner); /* any thread: wakes the broker thread for one more iteration */
    /* Broker thread: queues a request on the open connection. Without a connection, calls on_done
     * at once. */
    void (*send)(void *owner, struct kn_request *request, int64_t now_us);
    /* broker thread: unsent bytes of the requests that the connection holds */
    size_t (*unsent_bytes)(void *owner);
    int (*unsent_requests)(void *owner); /* the same: requests that are queued or partly written */
};

/* Calls to the owner of the client. */
struct kn_client_events {
    /* any thread: the batch has its outcome. The owner takes the batch. */
    void (*delivered)(void *owner, struct kn_batch *batch);
    /* broker thread: the segment is for the application. The owner takes it. */
    void (*fetched)(void *owner, struct kn_segment *segment);
    /* any thread: fetchers that had reached the limit may go on */
    void (*queue_has_room)(void *owner);
};

#endif
