/* One broker: a thread, a connection, a sender and a fetcher. kn_broker_thread_step() drives them.
 *
 * Thread: the broker thread calls step() and everything marked "broker thread" (tests call step()
 * themselves). Any thread may call post, notify and wake.
 * Lock: `lock` (leaf) guards the inbox. The inbox takes the operations of enum kn_op_kind only.
 * Who frees: the engine, after it has joined the thread.
 *
 * The thread connects only while a SUBMIT is queued, the sender or the fetcher has work, or the
 * control thread asked for a connection. It reconnects with exponential backoff and jitter
 * (reconnect.backoff.ms .. reconnect.backoff.max.ms). */
#ifndef KN_ENGINE_BROKER_THREAD_H
#define KN_ENGINE_BROKER_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "net/broker.h"
#include "net/heartbeat.h"
#include "consume/fetcher.h"
#include "produce/sender.h"
#include "net/thread.h"
#include "net/wake.h"

enum kn_op_kind {
    KN_OP_SUBMIT,
    KN_OP_ATTACH,
    KN_OP_DETACH,
    KN_OP_OPEN,
    KN_OP_HOLD,
    KN_OP_CLOSE,
    KN_OP_CONNECT,
    KN_OP_PURGE,
    KN_OP_HEARTBEAT,
    KN_OP_STOP
};

struct kn_op {
    struct kn_list node; /* the first field: see reserve.h */
    enum kn_op_kind kind;
    struct kn_request *request;     /* SUBMIT: owned */
    struct kn_cursor *cursor;       /* ATTACH, DETACH: a reference */
    struct kn_heartbeat *heartbeat; /* HEARTBEAT: owned; NULL: stop */
    uint32_t epoch;
    int64_t offset;
    int32_t leader_epoch;
    /* OPEN, HOLD, CLOSE, HEARTBEAT, handshake SUBMIT: the connection that the op is for. The broker
     * thread ignores the op if this connection is gone. 0: any connection. */
    int32_t generation;
    int16_t produce_version; /* OPEN: highest common version; -1: the broker has none */
    int16_t fetch_version;
    int status; /* CLOSE: the reason */
};

struct kn_ready_accumulator { /* an accumulator to check from at_us on */
    struct kn_accumulator *accumulator;
    int64_t at_us;
};

struct kn_broker_thread {
    struct kn_broker broker;
    /* immutable */
    struct kn_producer *producer;
    pthread_t id;
    bool has_thread;
    struct kn_wake wake;
    /* under lock */
    struct kn_mutex lock;
    struct kn_list ops;
    struct kn_ready_accumulator *ready;
    int32_t ready_count, ready_capacity;
    /* no memory for a notification: the thread checks every accumulator that this broker leads */
    bool ready_lost;
    struct kn_list woken; /* cursors that rested and can be fetched again; each a reference */
    /* a cursor couldn't be added to `woken`: the thread checks every resting cursor */
    bool wake_all;
    /* kn_broker_thread_wake() was called: run one more iteration before sleeping */
    bool wake_pending;
    bool stop_requested;
    /* the thread has ended: posted ops complete at once, notifications end here */
    bool inbox_closed;
    /* the time until which the thread sleeps; 0: it is awake and will read the inbox */
    int64_t sleep_until_us;
    /* broker thread only */
    struct kn_list unsent; /* control requests that wait for the end of the handshake */
    /* the other half of `ready`: the thread swaps the two under the lock and works through this one
     * outside it */
    struct kn_ready_accumulator *taken;
    int32_t taken_capacity;
    /* the DISCONNECTED event, allocated before connecting, so that sending it can't fail */
    struct kn_event *down_event;
    /* a CONNECT op came: connect once, even if there is nothing to send */
    bool connect_requested;
    int32_t failures; /* consecutive connections that failed before they worked */
    /* this connection has answered requests after its handshake, or has lasted for some time */
    bool is_working;
    /* responses read during the handshake; any response after these sets `is_working` */
    int64_t handshake_responses;
    int64_t connect_at_us; /* don't connect before this time */
    int64_t connected_us;  /* when this connection, or the last one, was established */
    int64_t ready_by_us;   /* HANDSHAKE: the deadline */
    int64_t last_used_us;
    int64_t traffic_seen; /* count of requests and responses when last_used_us was set */
    struct kn_busy_wait busy_wait;
    bool stopping;
    pthread_t owner; /* KN_DEBUG: the only thread that may call step(), once it runs */
    bool has_owner;
    struct kn_sender sender;
    struct kn_fetcher fetcher;
};

struct kn_broker_thread *kn_broker_thread_new(struct kn_client *client,
                                              struct kn_producer *producer,
                                              struct kn_consumer *consumer, int32_t handle,
                                              /* NULL: no memory or descriptors */
                                              int32_t node_id, const char *host, uint16_t port);
int kn_broker_thread_start(struct kn_broker_thread *thread);
void kn_broker_thread_free(struct kn_broker_thread *thread); /* call after join */
/* Any thread, without a lock held. The inbox takes the op. */
void kn_broker_thread_post(struct kn_broker_thread *thread, struct kn_op *op);
/* wakes the broker thread for one more iteration */
void kn_broker_thread_wake(struct kn_broker_thread *thread);
/* stops the thread for good; needs no memory, so it can't fail */
void kn_broker_thread_stop(struct kn_broker_thread *thread);
/* call after stop; a second call does nothing */
void kn_broker_thread_join(struct kn_broker_thread *thread);
/* Control thread: joins `ended`, whose thread has ended, and moves its descriptor to `thread`, whose
 * own thread hasn't started yet. So brokers that leave and come back for years use up no
 * descriptors and no stacks. The descriptor stays open: a late signal for `ended` only wakes
 * `thread` once in vain. Returns false if `ended` hasn't ended or has no descriptor. */
bool kn_broker_thread_inherit(struct kn_broker_thread *thread, struct kn_broker_thread *ended);
/* Runs one iteration: inbox, connection, sender, fetcher, timeouts. `revents` comes from poll(2) on
 * the connection. Returns the latest time for the next call. */
int64_t kn_broker_thread_step(struct kn_broker_thread *thread, short revents, int64_t now_us);
long kn_broker_thread_live(void);

#endif
