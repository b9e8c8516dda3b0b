/* The engine: one client's brokers, topics, cursors and queues behind one façade. The binding calls
 * this and nothing below it.
 *
 * Thread: as said at each function. Lock: `lock` (leaf) guards the broker table.
 * Who frees: the binding, by stop() (ends and joins the threads) and then free(). In a forked child
 * threads are gone and locks may be held, so nothing is joined or freed: the engine closes its
 * copies of descriptors, refuses everything, and clears the binding's pointer to it.
 */
#ifndef KN_ENGINE_ENGINE_H
#define KN_ENGINE_ENGINE_H

#include <stdatomic.h>
#include <stdint.h>
#include "base/fork.h"
#include "base/status.h"
#include "engine/broker_thread.h"
#include "net/client.h"
#include "consume/consumer.h"
#include "produce/delivery_counter.h"
#include "produce/producer.h"
#include "produce/topic.h"

struct kn_engine_config {
    struct kn_client_config client;
    struct kn_produce_config produce;
    struct kn_fetch_config fetch;
};

struct kn_engine {
    /* immutable after new */
    struct kn_engine_config config; /* client.connection.tls and .proxy are the engine's own */
    struct kn_fork_guard fork_guard;
    /* set to NULL in a forked child: the binding's pointers; NULL: there is none */
    struct kn_engine **owners[2];
    /* what its parts share; each guards itself */
    struct kn_client client;
    struct kn_producer producer;
    struct kn_consumer consumer;
    /* queues to Python */
    struct kn_queue deliveries; /* struct kn_batch: poll(), flush() */
    struct kn_queue fetched;    /* struct kn_segment: poll(), consume() */
    /* guards itself */
    struct kn_delivery_counters counters; /* reports for many messages */
    /* atomic */
    _Atomic int64_t undelivered; /* messages settled whose report waits in `deliveries` */
    /* batches settled without a report since kn_engine_take_unreported() */
    _Atomic int64_t unreported;
    atomic_int polling; /* threads between poll_begin and poll_end */
    /* control thread only */
    int64_t quiet_since_us; /* nothing queued since then; 0: busy */
    /* under lock */
    struct kn_mutex lock;
    struct kn_broker_thread **brokers; /* grows; entries are never removed */
    int32_t broker_count, broker_capacity;
};

void kn_engine_config_init(struct kn_engine_config *config); /* librdkafka's defaults */
/* NULL: no memory or descriptors. Otherwise config->client.connection.tls and .proxy are the
 * engine's. */
struct kn_engine *kn_engine_new(const struct kn_engine_config *config);
/* Fails what is queued (KN_ERR_CLOSED to deliveries), stops and joins every broker thread. Blocks
 * for as long as a thread needs to notice: no interpreter lock held. */
void kn_engine_stop(struct kn_engine *engine);
/* stopped; queues drained by the binding first (opaques are its own) */
void kn_engine_free(struct kn_engine *engine);
/* An engine that is closed for ever, for every client whose own one was freed: its queues are
 * empty, it refuses everything and has no descriptor. One a process, never freed. NULL: no memory.
 */
struct kn_engine *kn_engine_closed(void);

/* --- brokers (control thread) --- */
/* A new broker with its own thread; returns its handle or a negative status. Nothing connects
 * before there is a reason to. */
int kn_engine_broker_add(struct kn_engine *engine, int32_t node_id, const char *host,
                         uint16_t port);
/* NULL: no such handle */
struct kn_broker *kn_engine_broker(struct kn_engine *engine, int32_t handle);
/* Sends `body` (copied) with a request header; the outcome comes as one KN_EVENT_REPLY with
 * `token`. generation != 0: only on that connection. reply_flexible: the response header is v1.
 * timeout counts from now, waiting for a connection included. */
int kn_engine_submit(struct kn_engine *engine, int32_t handle, int32_t generation, int16_t api_key,
                     int16_t api_version, int request_flexible, int reply_flexible, uint8_t flags,
                     const uint8_t *body, size_t body_bytes, uint64_t token, int64_t timeout_ms);
/* Has the broker's thread send this request every interval_ms on the open connection `generation`
 * (0: whichever it is), the first one after interval_ms; instead of the heartbeat that is on.
 * Outcomes come as heartbeat.h says. Never two at a time: while one is unanswered the next one
 * waits. */
int kn_engine_heartbeat(struct kn_engine *engine, int32_t handle, int32_t generation,
                        const struct kn_heartbeat_plan *plan);
/* what is in flight is still told */
int kn_engine_stop_heartbeat(struct kn_engine *engine, int32_t handle);
int kn_engine_broker_open(struct kn_engine *engine, int32_t handle, int32_t generation,
                          int16_t produce_version, int16_t fetch_version);
/* An open connection is to authenticate anew: until it is opened again, only handshake requests go
 * out. */
int kn_engine_broker_hold(struct kn_engine *engine, int32_t handle, int32_t generation);
/* Connects once, also when there is nothing to send; CONNECTED or DISCONNECTED tells how it went.
 */
int kn_engine_broker_connect(struct kn_engine *engine, int32_t handle);
/* may reconnect */
int kn_engine_broker_close(struct kn_engine *engine, int32_t handle, int32_t generation,
                           int status);
/* for good */
int kn_engine_broker_stop(struct kn_engine *engine, int32_t handle);

/* --- producing --- */
/* The binding has served a batch's reports. */
void kn_engine_delivered(struct kn_engine *engine, struct kn_batch *batch);
/* messages: queued, in flight, and reports not served */
int64_t kn_engine_outstanding(struct kn_engine *engine);
int64_t kn_engine_unsettled(struct kn_engine *engine); /* of these, queued and in flight */
/* A thread waits for outcomes, until the matching end: batches that are settled without a report
 * kick `deliveries`, too. Begin, then look, then wait. */
static inline void kn_engine_poll_begin(struct kn_engine *engine)
{
    atomic_fetch_add(&engine->polling, 1);
}
static inline void kn_engine_poll_end(struct kn_engine *engine)
{
    atomic_fetch_sub(&engine->polling, 1);
}
/* How many batches were settled without a report since the last call. */
static inline int64_t kn_engine_take_unreported(struct kn_engine *engine)
{
    return atomic_exchange(&engine->unreported, 0);
}
/* wakes every sender; linger is off until the matching end */
void kn_engine_flush_begin(struct kn_engine *engine);
void kn_engine_flush_end(struct kn_engine *engine);
/* A thread waits for room in the queue (budget.h) until the matching end; what holds the room
 * doesn't linger meanwhile. */
/* on an empty queue, before a message counts as larger than the queue: others may be trying, too */
#define KN_ROOM_TRIES 100
void kn_engine_room_begin(struct kn_engine *engine);
void kn_engine_room_end(struct kn_engine *engine);
/* For who queues without the interpreter lock: one more try, and if the queue is still full one
 * wait for room; while it lasts nothing lingers, so it is no longer than need be. `retry` says
 * KN_ERR_FULL if nothing got in. KN_OK: it makes sense to go on; KN_ERR_FULL: not before
 * deadline_us (KN_NEVER: no limit), or never; else what `retry` said, KN_ERR_INTERRUPTED or why
 * nothing is taken any more. *tries is 0 before the first call. */
int kn_engine_wait_for_room(struct kn_engine *engine, int (*retry)(void *context), void *context,
                            int64_t deadline_us, int *tries);
/* Control thread: delivers what waits with KN_ERR_PURGED, what is in flight with
 * KN_ERR_PURGED_IN_FLIGHT as soon as its broker's thread gets to it. KN_ERR_NOMEM: something in
 * flight was left alone. */
int kn_engine_purge(struct kn_engine *engine, int in_queue, int in_flight);
/* Control thread: batches are numbered under this id and epoch from now on (see struct
 * kn_sequence). KN_PRODUCER_WAIVED: they aren't numbered; only for an engine that never had an id.
 */
void kn_engine_grant(struct kn_engine *engine, int64_t producer_id, int16_t producer_epoch);
/* Control thread: transaction `number` begins; from now on messages are taken, and sent after
 * `hold_us`. KN_OK or KN_ERR_NOMEM. */
int kn_engine_transaction_begin(struct kn_engine *engine, int64_t number, int implicit,
                                int64_t hold_us);
/* nothing is taken any more; what was is sent */
void kn_engine_transaction_shut(struct kn_engine *engine);
void kn_engine_transaction_admit(struct kn_engine *engine, struct kn_topic *topic,
                                 int32_t partition, int64_t number);
/* control thread, about once a second */
void kn_engine_expire(struct kn_engine *engine, int64_t now_us);

/* --- consuming --- */
int kn_engine_fetch_start(struct kn_engine *engine, struct kn_cursor *cursor, int32_t handle,
                          uint32_t epoch, int64_t offset, int32_t leader_epoch);
int kn_engine_fetch_stop(struct kn_engine *engine, struct kn_cursor *cursor, int32_t handle);
/* Any thread: bytes fetched and not yet consumed, and bytes of buffers kept for the next ones. */
void kn_engine_memory(struct kn_engine *engine, int64_t *queued_bytes, int64_t *idle_bytes);
void kn_engine_wake_brokers(struct kn_engine *engine);

/* --- leaks: live objects in the process --- */
long kn_engine_live(void);
long kn_control_request_live(void); /* kn_engine_submit()'s, waiting for their reply */

#endif
