/* The engine: one client's brokers, topics, cursors and queues behind one façade. The binding calls this and nothing below it.
 *
 * Thread: as said at each function. Lock: `lock` (leaf) guards the broker table and the list of topics.
 * Who frees: the binding, by stop() (ends and joins the threads) and then free(). In a forked child threads are gone and locks may be held, so
 * nothing is joined or freed: the engine closes its copies of descriptors, refuses everything, and clears the binding's pointer to it.
 */
#ifndef KN_ENGINE_ENGINE_H
#define KN_ENGINE_ENGINE_H

#include <stdatomic.h>
#include <stdint.h>
#include "base/fork.h"
#include "base/status.h"
#include "engine/broker.h"
#include "engine/budget.h"
#include "engine/connection.h"
#include "engine/worker_pool.h"
#include "engine/cursor.h"
#include "engine/events.h"
#include "engine/log.h"
#include "engine/queue.h"
#include "engine/reserve.h"
#include "engine/delivery_counter.h"
#include "engine/tls.h"
#include "engine/topic.h"
#include "engine/transaction.h"
#include "records/codec.h"

enum kn_idempotence { /* whether batches are numbered, and wait for a producer id */
    KN_IDEMPOTENCE_OFF,
    KN_IDEMPOTENCE_DEMANDED, /* or not sent at all */
    KN_IDEMPOTENCE_WANTED    /* unless the brokers can't, or won't have it: kn_engine_grant() says so */
};

struct kn_engine_config {
    char client_id[256];
    struct kn_connection_config connection;
    int32_t reconnect_backoff_ms, reconnect_backoff_max_ms;
    int32_t request_timeout_ms;        /* socket.timeout.ms: fetches */
    int32_t connections_max_idle_ms;   /* 0: never */
    /* producer */
    int64_t queue_messages_max;        /* queue.buffering.max.messages */
    int64_t queue_bytes_max;           /* queue.buffering.max.kbytes * 1024 */
    int32_t linger_us;                 /* linger.ms */
    int32_t batch_bytes;               /* batch.size */
    int32_t batch_messages;            /* batch.num.messages */
    int32_t message_max_bytes;         /* message.max.bytes */
    int32_t max_in_flight;             /* max.in.flight.requests.per.connection */
    int32_t backpressure_requests;     /* queue.buffering.backpressure.threshold; 0: not set */
    int16_t acks;                      /* request.required.acks: -1, 0, 1 */
    int32_t produce_timeout_ms;        /* request.timeout.ms, sent to the broker */
    int32_t message_timeout_ms;        /* 0: never */
    int32_t retries;                   /* message.send.max.retries */
    int32_t retry_backoff_ms, retry_backoff_max_ms;
    int32_t codec;                     /* enum kn_codec_id */
    int32_t codec_level;
    enum kn_partitioner partitioner;
    int32_t sticky_linger_ms;          /* sticky.partitioning.linger.ms */
    int adaptive_partitioning;         /* partitioner.adaptive.partitioning.enable */
    int32_t availability_timeout_ms;   /* partitioner.availability.timeout.ms */
    int idempotence;                   /* enable.idempotence, enum kn_idempotence */
    int gapless;                       /* enable.gapless.guarantee: a batch that fails is fatal */
    char transactional_id[KN_TRANSACTIONAL_ID_BYTES_MAX]; /* "": none */
    int report_all;                    /* a client-wide delivery callback: every batch is reported */
    int report_errors_only;            /* delivery.report.only.error */
    /* consumer */
    int32_t fetch_min_bytes, fetch_wait_max_ms, fetch_max_bytes, partition_fetch_bytes;
    int32_t shared_fetch_bytes;        /* a broker's few partitions may share so much in a request, if that is more than partition_fetch_bytes each */
    int64_t queued_max_bytes;          /* queued.max.messages.kbytes * 1024, for the whole client */
    int64_t queued_min_messages;       /* queued.min.messages, of each partition */
    int32_t fetch_error_backoff_ms;
    int check_crcs, partition_eof;
    int8_t isolation_level;            /* 0 read_uncommitted, 1 read_committed */
    size_t decompressed_max_bytes;
    char rack[256];                    /* client.rack */
    int statistics;                    /* statistics.interval.ms is set: latencies and sizes are recorded */
    uint32_t log_contexts;             /* debug: struct kn_log's contexts */
};

struct kn_engine {
    /* immutable after new */
    struct kn_engine_config config;    /* connection.tls and .proxy are the engine's own */
    struct kn_codec_table codecs;      /* the binding may replace entries before start */
    struct kn_pool *pool;
    struct kn_worker_pool workers;               /* compresses beside the broker threads */
    struct kn_fork_guard fork_guard;
    struct kn_engine **owners[2];      /* set to NULL in a forked child: the binding's pointers; NULL: there is none */
    /* queues to Python */
    struct kn_queue events;            /* struct kn_event: control thread */
    struct kn_queue deliveries;        /* struct kn_batch: poll(), flush() */
    struct kn_queue fetched;           /* struct kn_segment: poll(), consume() */
    /* guards itself */
    struct kn_delivery_counters counters;         /* reports for many messages */
    struct kn_log log;                 /* lines in `events` */
    struct kn_reserve spare_events, spare_ops; /* what must not get lost for want of memory */
    /* atomic */
    struct kn_budget budget;           /* messages not yet settled */
    _Atomic int64_t undelivered;       /* messages settled whose report waits in `deliveries` */
    _Atomic int64_t unreported;        /* batches settled without a report since kn_engine_take_unreported() */
    atomic_int polling;                /* threads between poll_begin and poll_end */
    _Atomic int64_t queued_bytes;      /* fetched, not yet consumed */
    _Atomic int64_t received_messages, received_bytes; /* fetched, ever */
    atomic_int starved;                /* a fetcher waits for queued_bytes to fall */
    atomic_int fetcher_count;          /* brokers that something is fetched from */
    atomic_int flushing;               /* > 0: linger doesn't apply */
    atomic_int measuring;              /* brokers record means (counting.h) */
    atomic_int keeps_batches;          /* fetched batches stay as they are: not opened */
    atomic_int refusing;               /* KN_OK; KN_ERR_FATAL or KN_ERR_CLOSED: messages are neither taken nor sent any more */
    struct kn_transaction transaction;
    /* control thread only */
    int64_t quiet_since_us;            /* nothing queued since then; 0: busy */
    int64_t producer_id;               /* idempotence; -1: none yet */
    int16_t producer_epoch;
    /* under lock */
    struct kn_mutex lock;
    struct kn_list topics;
    struct kn_broker **brokers;        /* grows; entries are never removed */
    int32_t broker_count, broker_capacity;
};

void kn_engine_config_init(struct kn_engine_config *config); /* librdkafka's defaults */
/* NULL: no memory or descriptors. Otherwise config->connection.tls and .proxy are the engine's. */
struct kn_engine *kn_engine_new(const struct kn_engine_config *config);
/* Fails what is queued (KN_ERR_CLOSED to deliveries), stops and joins every broker thread. Blocks for as long as a thread needs to notice: no interpreter lock held. */
void kn_engine_stop(struct kn_engine *engine);
void kn_engine_free(struct kn_engine *engine); /* stopped; queues drained by the binding first (opaques are its own) */
/* An engine that is closed for ever, for every client whose own one was freed: its queues are empty, it refuses everything and has no descriptor. One a process, never
 * freed. NULL: no memory. */
struct kn_engine *kn_engine_closed(void);

/* --- brokers (control thread) --- */
/* A new broker with its own thread; returns its handle or a negative status. Nothing connects before there is a reason to. */
int kn_engine_broker_add(struct kn_engine *engine, int32_t node_id, const char *host, uint16_t port);
struct kn_broker *kn_engine_broker(struct kn_engine *engine, int32_t handle); /* NULL: no such handle */
/* Sends `body` (copied) with a request header; the outcome comes as one KN_EVENT_REPLY with `token`. generation != 0: only on that connection.
 * reply_flexible: the response header is v1. timeout counts from now, waiting for a connection included. */
int kn_engine_submit(struct kn_engine *engine, int32_t handle, int32_t generation, int16_t api_key, int16_t api_version, int request_flexible,
                     int reply_flexible, uint8_t flags, const uint8_t *body, size_t body_bytes, uint64_t token, int64_t timeout_ms);
/* Has the broker's thread send this request every interval_ms on the open connection `generation` (0: whichever it is), the first one after interval_ms;
 * instead of the heartbeat that is on. Outcomes come as heartbeat.h says. Never two at a time: while one is unanswered the next one waits. */
int kn_engine_heartbeat(struct kn_engine *engine, int32_t handle, int32_t generation, const struct kn_heartbeat_plan *plan);
int kn_engine_stop_heartbeat(struct kn_engine *engine, int32_t handle); /* what is in flight is still told */
int kn_engine_broker_open(struct kn_engine *engine, int32_t handle, int32_t generation, int16_t produce_version, int16_t fetch_version);
/* An open connection is to authenticate anew: until it is opened again, only handshake requests go out. */
int kn_engine_broker_hold(struct kn_engine *engine, int32_t handle, int32_t generation);
/* Connects once, also when there is nothing to send; CONNECTED or DISCONNECTED tells how it went. */
int kn_engine_broker_connect(struct kn_engine *engine, int32_t handle);
int kn_engine_broker_close(struct kn_engine *engine, int32_t handle, int32_t generation, int status); /* may reconnect */
int kn_engine_broker_stop(struct kn_engine *engine, int32_t handle);                          /* for good */

/* --- producing --- */
struct kn_topic *kn_engine_topic(struct kn_engine *engine, const char *name, int32_t name_bytes, uint64_t token); /* made at first use */
/* A batch with its outcome: reported through `deliveries` if anybody wants to know, else freed. Budget returned. Any thread, no lock held. */
void kn_engine_deliver(struct kn_engine *engine, struct kn_batch *batch);
/* The binding has served a batch's reports. */
void kn_engine_delivered(struct kn_engine *engine, struct kn_batch *batch);
/* The topic after `topic` (NULL: the first), NULL at the end. Topics never go away, so no lock is held between two calls. */
struct kn_topic *kn_engine_topic_next(struct kn_engine *engine, const struct kn_topic *topic);
int64_t kn_engine_outstanding(struct kn_engine *engine); /* messages: queued, in flight, and reports not served */
int64_t kn_engine_unsettled(struct kn_engine *engine);   /* of these, queued and in flight */
/* A thread waits for outcomes, until the matching end: batches that are settled without a report kick `deliveries`, too. Begin, then look, then wait. */
static inline void kn_engine_poll_begin(struct kn_engine *engine) { atomic_fetch_add(&engine->polling, 1); }
static inline void kn_engine_poll_end(struct kn_engine *engine) { atomic_fetch_sub(&engine->polling, 1); }
/* How many batches were settled without a report since the last call. */
static inline int64_t kn_engine_take_unreported(struct kn_engine *engine) { return atomic_exchange(&engine->unreported, 0); }
void kn_engine_flush_begin(struct kn_engine *engine);    /* wakes every sender; linger is off until the matching end */
void kn_engine_flush_end(struct kn_engine *engine);
/* A thread waits for room in the queue (budget.h) until the matching end; what holds the room doesn't linger meanwhile. */
#define KN_ROOM_TRIES 100 /* on an empty queue, before a message counts as larger than the queue: others may be trying, too */
void kn_engine_room_begin(struct kn_engine *engine);
void kn_engine_room_end(struct kn_engine *engine);
/* For who queues without the interpreter lock: one more try, and if the queue is still full one wait for room; while it lasts nothing lingers, so it is no
 * longer than need be. `retry` says KN_ERR_FULL if nothing got in. KN_OK: it makes sense to go on; KN_ERR_FULL: not before deadline_us (KN_NEVER: no limit), or never;
 * else what `retry` said, KN_ERR_INTERRUPTED or why nothing is taken any more. *tries is 0 before the first call. */
int kn_engine_wait_for_room(struct kn_engine *engine, int (*retry)(void *context), void *context, int64_t deadline_us, int *tries);
/* Control thread: delivers what waits with KN_ERR_PURGED, what is in flight with KN_ERR_PURGED_IN_FLIGHT as soon as its broker's thread gets to it.
 * KN_ERR_NOMEM: something in flight was left alone. */
int kn_engine_purge(struct kn_engine *engine, int in_queue, int in_flight);
/* Control thread: batches are numbered under this id and epoch from now on (see struct kn_sequence). KN_PRODUCER_WAIVED: they aren't numbered; only for
 * an engine that never had an id. */
void kn_engine_grant(struct kn_engine *engine, int64_t producer_id, int16_t producer_epoch);
/* Control thread: transaction `number` begins; from now on messages are taken, and sent after `hold_us`. KN_OK or KN_ERR_NOMEM. */
int kn_engine_transaction_begin(struct kn_engine *engine, int64_t number, int implicit, int64_t hold_us);
void kn_engine_transaction_shut(struct kn_engine *engine); /* nothing is taken any more; what was is sent */
void kn_engine_transaction_admit(struct kn_engine *engine, struct kn_topic *topic, int32_t partition, int64_t number);
static inline int kn_engine_is_transactional(const struct kn_engine *engine) { return engine->config.transactional_id[0] != 0; }
/* Any thread: no message is taken or sent from now on; what is in flight gets its outcome, kn_engine_purge() is for the rest. */
static inline void kn_engine_refuse(struct kn_engine *engine)
{
    int nothing = KN_OK;
    atomic_compare_exchange_strong(&engine->refusing, &nothing, KN_ERR_FATAL);
}
void kn_engine_expire(struct kn_engine *engine, int64_t now_us); /* control thread, about once a second */

/* --- consuming --- */
int kn_engine_fetch_start(struct kn_engine *engine, struct kn_cursor *cursor, int32_t handle, uint32_t epoch, int64_t offset, int32_t leader_epoch);
int kn_engine_fetch_stop(struct kn_engine *engine, struct kn_cursor *cursor, int32_t handle);
/* Called when segments are freed: wakes fetchers that were over the limit. */
void kn_engine_consumed(struct kn_engine *engine, int64_t size_bytes);
/* Any thread: bytes fetched and not yet consumed, and bytes of buffers kept for the next ones. */
void kn_engine_memory(struct kn_engine *engine, int64_t *queued_bytes, int64_t *idle_bytes);
void kn_engine_wake_brokers(struct kn_engine *engine);
void kn_engine_post_event(struct kn_engine *engine, struct kn_event *event);
/* Fills a REPLY event with an outcome and posts it. Broker thread; the caller's own when the broker was stopped already. */
void kn_engine_post_reply(struct kn_broker *broker, struct kn_event *event, int32_t generation, int status, struct kn_chunk *chunk, struct kn_span body);

/* --- leaks: live objects in the process --- */
long kn_engine_live(void);
long kn_control_request_live(void); /* kn_engine_submit()'s, waiting for their reply */

#endif
