/* One broker: a thread, a connection, a sender and a fetcher, driven by kn_broker_thread_step().
 *
 * Thread: step() and everything marked "broker thread" by its own thread (tests drive step() by
 * hand); post/notify/wake from any thread.
 * Lock: `lock` (leaf) guards the inbox. The inbox knows these operations and nothing else.
 * Who frees: the engine, after the thread was joined.
 *
 * Connection demand is sparse: connected while a SUBMIT is queued, the sender or the fetcher has
 * work, or the control plane asked; reconnects with exponential backoff and jitter
 * (reconnect.backoff.ms .. reconnect.backoff.max.ms).
 */
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
    struct kn_list node; /* first: see reserve.h */
    enum kn_op_kind kind;
    struct kn_request *request;     /* SUBMIT: owned */
    struct kn_cursor *cursor;       /* ATTACH, DETACH: a reference */
    struct kn_heartbeat *heartbeat; /* HEARTBEAT: owned, NULL to stop */
    uint32_t epoch;
    int64_t offset;
    int32_t leader_epoch;
    /* OPEN, HOLD, CLOSE, HEARTBEAT, handshake SUBMIT: ignored unless it is still this connection (0
     * = whichever) */
    int32_t generation;
    int16_t produce_version; /* OPEN: highest common version, -1 = the broker has none */
    int16_t fetch_version;
    int status; /* CLOSE: why */
};

struct kn_ready { /* an accumulator that wants this broker's attention from at_us on */
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
    struct kn_ready *ready;
    int32_t ready_count, ready_capacity;
    /* no memory for a notification: look at every accumulator that this broker leads */
    bool ready_lost;
    struct kn_list woken; /* cursors that rested and may be fetched again; each a reference */
    bool wake_all;        /* one couldn't be put there: look at every one that rests */
    /* kn_broker_thread_wake() came: one more turn before sleeping */
    bool wake_pending;
    bool stop_asked;
    bool inbox_closed; /* the thread is gone: posts complete at once */
    /* the thread sleeps until then; 0: it is awake and will look at the inbox */
    int64_t sleep_until_us;
    /* broker thread only */
    struct kn_list unsent; /* control requests waiting for the handshake to end */
    /* the other half of `ready`: swapped under the lock, worked through outside */
    struct kn_ready *taken;
    int32_t taken_capacity;
    /* DISCONNECTED, allocated when connecting begins, so that it can't fail to be sent */
    struct kn_event *down_event;
    /* CONNECT was asked for: one attempt, also when there is nothing to send */
    bool wanted;
    int32_t failures; /* connections in a row that failed before they worked */
    /* this connection has answered more than its handshake, or has lasted */
    bool works;
    /* responses read until it was opened: more than these, and it works */
    int64_t handshake_responses;
    int64_t connect_at_us; /* not before */
    int64_t connected_us;  /* when this or the last connection came up */
    int64_t ready_by_us;   /* HANDSHAKE: give up then */
    int64_t last_used_us;
    int64_t traffic_seen; /* requests and responses when it was used last */
    struct kn_busy_wait busy_wait;
    bool stopping;
    pthread_t owner; /* KN_DEBUG: the thread that may step, once it runs */
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
void kn_broker_thread_free(struct kn_broker_thread *thread); /* joined already */
/* Any thread, no lock held. The op is the inbox's from here on. */
void kn_broker_thread_post(struct kn_broker_thread *thread, struct kn_op *op);
void kn_broker_thread_wake(struct kn_broker_thread *thread); /* one more turn, whatever for */
/* for good; needs no memory, so it can't fail. The thread ends soon. */
void kn_broker_thread_stop(struct kn_broker_thread *thread);
void kn_broker_thread_join(struct kn_broker_thread *thread); /* after stop; twice is harmless */
/* Control thread: joins `gone`, whose thread has ended, and gives its descriptor to `thread`, whose
 * own thread isn't running yet. So brokers that leave and come back for years cost no descriptors
 * and no stacks. The descriptor isn't closed: a signal that was decided on before the end may still
 * come, and wakes `thread` for nothing. 0: `gone` hasn't ended, or has nothing left to give. */
bool kn_broker_thread_inherit(struct kn_broker_thread *thread, struct kn_broker_thread *gone);
/* One turn: inbox, connection, sender, fetcher, timeouts. `revents` from poll(2) on the connection.
 * Returns when to run again at the latest. */
int64_t kn_broker_thread_step(struct kn_broker_thread *thread, short revents, int64_t now_us);
long kn_broker_thread_live(void);

#endif
