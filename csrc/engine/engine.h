/* The engine: one client's brokers, topics, cursors and queues behind one façade. The binding calls
 * this file's functions and nothing below them.
 *
 * Thread: each function names its thread.
 * Lock: `lock` (leaf) guards the broker table, `routes_lock` the list of routes.
 * Who frees: the binding. It calls stop(), which ends and joins the threads, and then free().
 *
 * In a forked child the threads are gone and locks may be held, so the engine joins and frees
 * nothing. It closes its copies of the descriptors, refuses every call, and clears the binding's
 * pointer to it. */
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

/* A queue for the segments of one partition, so that a thread can read it alone. It is reused, and
 * freed with the engine: a broker thread may still offer a segment to a closed route. */
struct kn_route {
    struct kn_list node;
    struct kn_queue queue;
    atomic_bool used;
};

struct kn_engine {
    /* immutable after new */
    struct kn_engine_config config; /* the engine refers to client.connection.tls and .proxy */
    struct kn_fork_guard fork_guard;
    /* the binding's pointer, set to NULL in a forked child; may be NULL */
    struct kn_engine **owner;
    /* parts that the brokers share; each guards itself */
    struct kn_client client;
    struct kn_producer producer;
    struct kn_consumer consumer;
    /* queues to Python */
    struct kn_queue deliveries;  /* struct kn_batch: poll(), flush() */
    struct kn_queue fetched;     /* struct kn_segment: poll(), consume() */
    struct kn_mutex routes_lock; /* the queues are kicked under it */
    struct kn_list routes;       /* struct kn_route; under routes_lock, only grows */
    /* guards itself */
    struct kn_delivery_counters counters; /* reports for many messages */
    /* atomic */
    _Atomic int64_t undelivered; /* settled messages whose report waits in `deliveries` */
    /* batches settled without a report since kn_engine_take_unreported() */
    _Atomic int64_t unreported;
    atomic_int polling; /* threads between poll_begin and poll_end */
    /* control thread only */
    int64_t quiet_since_us;     /* the queue has been empty since this time; 0: it isn't empty */
    struct kn_traffic departed; /* of released brokers */
    /* under lock */
    struct kn_mutex lock;
    struct kn_broker_thread **brokers; /* grows; the engine never removes an entry */
    int32_t broker_count, broker_capacity;
};

void kn_engine_config_init(struct kn_engine_config *config); /* sets librdkafka's defaults */
/* NULL: no memory or descriptors. Otherwise the engine takes the references in
 * config->client.connection.tls and .proxy. `control`: the queue of another engine, whose control
 * thread also serves this one; NULL: a queue of its own. */
struct kn_engine *kn_engine_new(const struct kn_engine_config *config,
                                struct kn_control_queue *control);
/* Fails all queued messages (deliveries get KN_ERR_CLOSED), then stops and joins every broker
 * thread. Blocks until each thread has noticed, so call it without the interpreter lock. */
void kn_engine_stop(struct kn_engine *engine);
/* Call after stop(). The binding drains the queues first, because it owns the opaques. */
void kn_engine_free(struct kn_engine *engine);
/* A closed engine for clients whose own engine was freed. Its queues are empty, it refuses every
 * call and has no descriptor. The process has one and never frees it. NULL: no memory. */
struct kn_engine *kn_engine_closed(void);

/* Returns a route without segments; NULL: no memory or descriptors. */
struct kn_route *kn_engine_route_open(struct kn_engine *engine);
/* Frees the route's segments. Call it after kn_cursor_set_route(cursor, NULL). */
void kn_engine_route_close(struct kn_route *route);
/* Kicks all routes in use. */
void kn_engine_kick_routes(struct kn_engine *engine);

/* --- brokers (control thread) --- */
/* Adds a broker with its own thread. Returns its handle or a negative status. The thread connects
 * only when there is a reason to. */
int kn_engine_broker_add(struct kn_engine *engine, int32_t node_id, const char *host,
                         uint16_t port);
/* NULL: no such handle */
struct kn_broker *kn_engine_broker(struct kn_engine *engine, int32_t handle);
/* Sends a request header and a copy of `body`. One KN_EVENT_REPLY with `token` reports the outcome.
 * With KN_REQUEST_RAW in `flags` there is no header, only the length.
 * - generation: if not 0, the request goes out on that connection only.
 * - reply_flexible: the response header is v1.
 * - timeout_ms: counts from now and includes the wait for a connection. */
int kn_engine_submit(struct kn_engine *engine, int32_t handle, int32_t generation, int16_t api_key,
                     int16_t api_version, int request_flexible, int reply_flexible, uint8_t flags,
                     const uint8_t *body, size_t body_bytes, uint64_t token, int64_t timeout_ms);
/* Makes the broker thread send this request every interval_ms. It replaces the current heartbeat.
 * - generation: the connection to use; 0: any connection.
 * - The first request goes out after interval_ms.
 * - Only one request is in flight: the next one waits for the response.
 * heartbeat.h describes how the outcomes are reported. */
int kn_engine_heartbeat(struct kn_engine *engine, int32_t handle, int32_t generation,
                        const struct kn_heartbeat_plan *plan);
/* the broker thread still reports the heartbeat in flight */
int kn_engine_stop_heartbeat(struct kn_engine *engine, int32_t handle);
int kn_engine_broker_open(struct kn_engine *engine, int32_t handle, int32_t generation,
                          int16_t produce_version, int16_t fetch_version);
/* The connection must authenticate again: until kn_engine_broker_open() only handshake requests go
 * out. */
int kn_engine_broker_hold(struct kn_engine *engine, int32_t handle, int32_t generation);
/* Connects once, even if there is nothing to send. CONNECTED or DISCONNECTED reports the result. */
int kn_engine_broker_connect(struct kn_engine *engine, int32_t handle);
/* closes the connection; the broker thread may reconnect */
int kn_engine_broker_close(struct kn_engine *engine, int32_t handle, int32_t generation,
                           int status);
/* stops the broker for good */
int kn_engine_broker_stop(struct kn_engine *engine, int32_t handle);

/* --- producing --- */
/* The binding has made all reports of a batch: counts and frees the batch. */
void kn_engine_batch_reported(struct kn_engine *engine, struct kn_batch *batch);
/* messages that are queued, in flight, or whose report wasn't served yet */
int64_t kn_engine_outstanding(struct kn_engine *engine);
int64_t kn_engine_unsettled(struct kn_engine *engine); /* messages that are queued or in flight */
/* Marks that a thread waits for outcomes, until the matching end. Meanwhile a batch that settles
 * without a report also wakes waiters on `deliveries`. Call begin, then check, then wait. */
static inline void kn_engine_poll_begin(struct kn_engine *engine)
{
    atomic_fetch_add(&engine->polling, 1);
}
static inline void kn_engine_poll_end(struct kn_engine *engine)
{
    atomic_fetch_sub(&engine->polling, 1);
}
/* Returns how many batches settled without a report since the last call. */
static inline int64_t kn_engine_take_unreported(struct kn_engine *engine)
{
    return atomic_exchange(&engine->unreported, 0);
}
/* wakes every sender and ignores linger until the matching end */
void kn_engine_flush_begin(struct kn_engine *engine);
void kn_engine_flush_end(struct kn_engine *engine);
/* A thread waits for room in the queue (budget.h) until the matching end. Meanwhile queued batches
 * don't linger. */
/* number of tries with an empty queue before the engine reports that a message is larger than the
 * queue (other threads may try at the same time) */
#define KN_ROOM_TRIES 100
void kn_engine_room_begin(struct kn_engine *engine);
void kn_engine_room_end(struct kn_engine *engine);
/* For a caller that queues messages without the interpreter lock. Calls `retry` once. If
 * `retry` returns KN_ERR_FULL, waits once for room; batches don't linger meanwhile.
 * - KN_OK: the caller may go on.
 * - KN_ERR_FULL: no room before deadline_us (KN_NEVER: no limit), or the message never fits.
 * - KN_ERR_INTERRUPTED: a signal ended the wait.
 * - Other: the status of `retry`, or the reason why the engine takes no more messages.
 * Set *tries to 0 before the first call. */
int kn_engine_wait_for_room(struct kn_engine *engine, int (*retry)(void *context), void *context,
                            int64_t deadline_us, int *tries);
/* Control thread: fails queued messages with KN_ERR_PURGED. Each broker thread soon fails its
 * messages in flight with KN_ERR_PURGED_IN_FLIGHT. KN_ERR_NOMEM: some messages in flight weren't
 * purged. */
int kn_engine_purge(struct kn_engine *engine, int in_queue, int in_flight);
/* Control thread: from now on batches get sequence numbers under this id and epoch (see struct
 * kn_sequence). KN_PRODUCER_WAIVED: batches get no numbers; allowed only if the engine never had an
 * id. */
void kn_engine_grant(struct kn_engine *engine, int64_t producer_id, int16_t producer_epoch);
/* Control thread: begins transaction `number`. From now on the engine takes messages; broker
 * threads send them after `hold_us`. Returns KN_OK or KN_ERR_NOMEM. */
int kn_engine_transaction_begin(struct kn_engine *engine, int64_t number, int implicit,
                                int64_t hold_us);
/* Control thread: whether the transaction continues without batches that the broker refuses because
 * of their records (kn_accumulator_tolerates()). The delivery reports name them. */
void kn_engine_transaction_tolerate(struct kn_engine *engine, int tolerant);
/* accepts no more messages; broker threads still send the accepted ones */
void kn_engine_transaction_close(struct kn_engine *engine);
void kn_engine_transaction_admit(struct kn_engine *engine, struct kn_topic *topic,
                                 int32_t partition, int64_t number);
/* control thread, about once a second: fails messages whose timeout is over */
void kn_engine_expire(struct kn_engine *engine, int64_t now_us);

/* --- consuming --- */
int kn_engine_fetch_start(struct kn_engine *engine, struct kn_cursor *cursor, int32_t handle,
                          uint32_t epoch, int64_t offset, int32_t leader_epoch);
int kn_engine_fetch_stop(struct kn_engine *engine, struct kn_cursor *cursor, int32_t handle);
/* Any thread: the bytes that are fetched and not yet consumed, and the bytes of spare buffers. */
void kn_engine_memory(struct kn_engine *engine, int64_t *queued_bytes, int64_t *idle_bytes);
void kn_engine_wake_brokers(struct kn_engine *engine);

/* --- leaks: live objects in the process --- */
long kn_engine_live(void);
/* requests of kn_engine_submit() that wait for their response */
long kn_control_request_live(void);

#endif
