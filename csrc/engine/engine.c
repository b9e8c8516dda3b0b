/* The façade: one client's brokers, topics, queues and budget.
 *
 * Thread: see each function in engine.h.
 * Lock: `lock` (leaf) guards the broker table. The table only grows, so its entries may be used
 * without the lock.
 * Who frees: the binding calls stop(), drains `deliveries`, and calls free(). */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/wipe.h"
#include "net/frame.h"
#include "net/proxy.h"
#include "net/tls.h"

#define POOL_KEEP_BYTES ((size_t)64 << 20)
#define POOL_KEEP_QUIET_BYTES ((size_t)1 << 20)
#define SPARE_EVENTS 16
#define SPARE_OPS 32
/* a client that is idle for this time keeps only POOL_KEEP_QUIET_BYTES */
#define QUIET_US 10000000

static atomic_long live_engines;
static atomic_long live_requests;

long kn_engine_live(void) { return atomic_load(&live_engines); }
long kn_control_request_live(void) { return atomic_load(&live_requests); }

/* --- creation and end --- */

void kn_engine_config_init(struct kn_engine_config *config)
{
    *config = (struct kn_engine_config){
        .client =
            {
                .client_id = "rdkafka",
                .connection = {.receive_max_bytes = 100000000,
                               .setup_timeout_ms = 30000,
                               .socket.nagle_disable = 1},
                .reconnect_backoff_ms = 100,
                .reconnect_backoff_max_ms = 10000,
                .request_timeout_ms = 60000,
            },
        .produce =
            {
                .queue_messages_max = 100000,
                .queue_bytes_max = (int64_t)1 << 30,
                .linger_us = 5000,
                .batch_bytes = 1000000,
                .batch_messages = 10000,
                .message_max_bytes = 1000000,
                .max_in_flight = 1000000,
                .acks = -1,
                .produce_timeout_ms = 30000,
                .message_timeout_ms = 300000,
                .retries = INT32_MAX,
                .retry_backoff_ms = 100,
                .retry_backoff_max_ms = 1000,
                .codec = KN_CODEC_NONE,
                .codec_level = KN_CODEC_LEVEL_DEFAULT,
                .partitioner = KN_PARTITIONER_CONSISTENT_RANDOM,
                .sticky_linger_ms = 10,
                .adaptive_partitioning = 1,
            },
        .fetch =
            {
                .fetch_min_bytes = 1,
                .fetch_wait_max_ms = 500,
                .fetch_max_bytes = 52428800,
                .partition_fetch_bytes = 1048576,
                .queued_max_bytes = (int64_t)65536 * 1024,
                .queued_min_messages = 100000,
                .fetch_error_backoff_ms = 500,
                .check_crcs = 1,
                .isolation_level = KN_ISOLATION_READ_COMMITTED,
                .decompressed_max_bytes = KN_DECOMPRESSED_MAX_BYTES,
            },
    };
}

static int engine_queues_init(struct kn_engine *engine)
{
    struct kn_queue *queues[2] = {&engine->deliveries, &engine->fetched};
    for (int i = 0; i < 2; i++) {
        if (kn_queue_init(queues[i]) == KN_OK) continue;
        kn_queue_deinit(queues[i]);
        while (i-- > 0) kn_queue_deinit(queues[i]);
        return KN_ERR_NOMEM;
    }
    return KN_OK;
}

/* Closes the eventfds or pipes of the queues. */
static void engine_wakes_deinit(struct kn_engine *engine)
{
    kn_wake_deinit(&engine->client.control->events.wake);
    kn_wake_deinit(&engine->deliveries.wake);
    kn_wake_deinit(&engine->fetched.wake);
    kn_wake_deinit(&engine->producer.budget.room.wake);
    for (struct kn_list *node = engine->routes.next; node != &engine->routes; node = node->next)
        kn_wake_deinit(&KN_LIST_ENTRY(node, struct kn_route, node)->queue.wake);
}

/* Called in a forked child. Takes no lock, because a thread that doesn't exist here may hold it.
 * Closes this process's copies of the descriptors and shuts no connection down. Frees nothing,
 * because Messages, topics and cursors still point into the engine. */
static void engine_abandon(struct kn_fork_guard *guard)
{
    struct kn_engine *engine = KN_LIST_ENTRY(guard, struct kn_engine, fork_guard);
    atomic_store(&engine->producer.refusing, KN_ERR_CLOSED);
    if (engine->owner) *engine->owner = NULL;
    for (int32_t i = 0; i < engine->broker_count; i++) {
        struct kn_broker_thread *broker = engine->brokers[i];
        struct kn_connection *connection = broker->broker.connection;
        int fd = connection ? kn_connection_fd(connection) : -1;
        if (fd >= 0) close(fd);
        kn_wake_deinit(&broker->wake);
    }
    engine_wakes_deinit(engine);
}

/* --- routes --- */

/* Returns a closed route, open again; NULL: there is none. */
static struct kn_route *route_reopen(struct kn_engine *engine)
{
    struct kn_route *found = NULL;
    kn_mutex_lock(&engine->routes_lock);
    for (struct kn_list *node = engine->routes.next; node != &engine->routes; node = node->next) {
        struct kn_route *route = KN_LIST_ENTRY(node, struct kn_route, node);
        if (atomic_exchange(&route->used, 1)) continue;
        kn_queue_reopen(&route->queue);
        found = route;
        break;
    }
    kn_mutex_unlock(&engine->routes_lock);
    return found;
}

struct kn_route *kn_engine_route_open(struct kn_engine *engine)
{
    struct kn_route *route = route_reopen(engine);
    if (route) return route;
    route = malloc(sizeof *route);
    if (!route) return NULL;
    if (kn_queue_init(&route->queue) != KN_OK) {
        kn_queue_deinit(&route->queue);
        free(route);
        return NULL;
    }
    atomic_init(&route->used, 1);
    kn_mutex_lock(&engine->routes_lock);
    kn_list_push_back(&engine->routes, &route->node);
    kn_mutex_unlock(&engine->routes_lock);
    return route;
}

void kn_engine_route_close(struct kn_route *route)
{
    struct kn_list left, *node;
    kn_list_init(&left);
    kn_queue_close(&route->queue, &left);
    while ((node = kn_list_pop_front(&left)))
        kn_segment_free(KN_LIST_ENTRY(node, struct kn_segment, node));
    atomic_store(&route->used, 0);
}

void kn_engine_kick_routes(struct kn_engine *engine)
{
    kn_mutex_lock(&engine->routes_lock);
    for (struct kn_list *node = engine->routes.next; node != &engine->routes; node = node->next) {
        struct kn_route *route = KN_LIST_ENTRY(node, struct kn_route, node);
        if (atomic_load(&route->used)) kn_queue_kick(&route->queue);
    }
    kn_mutex_unlock(&engine->routes_lock);
}

static void routes_free(struct kn_engine *engine)
{
    struct kn_list *node;
    while ((node = kn_list_pop_front(&engine->routes))) {
        struct kn_route *route = KN_LIST_ENTRY(node, struct kn_route, node);
        kn_queue_deinit(&route->queue);
        free(route);
    }
}

static struct kn_broker_thread *broker_of(struct kn_engine *engine, int32_t handle);
static void on_delivered(void *owner, struct kn_batch *batch);
static void on_fetched(void *owner, struct kn_segment *segment)
{
    struct kn_queue *route = atomic_load_explicit(&segment->cursor->route, memory_order_acquire);
    if (route && kn_queue_offer(route, &segment->node)) return;
    kn_queue_push(&((struct kn_engine *)owner)->fetched, &segment->node);
}
static void on_queue_has_room(void *owner) { kn_engine_wake_brokers(owner); }

static const struct kn_client_events events = {
    .delivered = on_delivered, .fetched = on_fetched, .queue_has_room = on_queue_has_room};

/* Everything that can fail. KN_ERR_NOMEM: nothing is left to deinit. */
static int engine_memory_init(struct kn_engine *engine)
{
    engine->client.pool = kn_pool_new(POOL_KEEP_BYTES);
    if (!engine->client.pool) return KN_ERR_NOMEM;
    if (kn_reserve_init(&engine->client.spare_ops, sizeof(struct kn_op), SPARE_OPS) == KN_OK) {
        if (engine_queues_init(engine) == KN_OK) {
            if (kn_producer_init(&engine->producer, &engine->config.produce, &engine->client) ==
                KN_OK)
                return KN_OK;
            kn_queue_deinit(&engine->deliveries);
            kn_queue_deinit(&engine->fetched);
        }
        kn_reserve_deinit(&engine->client.spare_ops);
    }
    kn_pool_free(engine->client.pool);
    return KN_ERR_NOMEM;
}

struct kn_engine *kn_engine_new(const struct kn_engine_config *config,
                                struct kn_control_queue *control)
{
    struct kn_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return NULL;
    engine->config = *config;
    kn_list_init(&engine->routes);
    engine->client.config = &engine->config.client;
    engine->client.on = &events;
    engine->client.owner = engine;
    engine->consumer.config = &engine->config.fetch;
    engine->consumer.client = &engine->client;
    kn_codec_table_init(&engine->client.codecs);
    engine->client.control = control ? kn_control_queue_ref(control)
                                     : kn_control_queue_new(SPARE_EVENTS);
    if (!engine->client.control || engine_memory_init(engine)) {
        if (engine->client.control) kn_control_queue_unref(engine->client.control);
        free(engine);
        return NULL;
    }
    engine->client.number = atomic_fetch_add(&engine->client.control->engine_count, 1);
    kn_mutex_init(&engine->lock, KN_RANK_LEAF);
    kn_mutex_init(&engine->routes_lock, KN_RANK_TOPIC);
    kn_delivery_counters_init(&engine->counters, &engine->deliveries, &engine->undelivered,
                              config->produce.report_all, config->produce.report_errors_only);
    kn_log_init(&engine->client.log, config->client.log_contexts, engine->client.control,
                engine->client.number);
    atomic_fetch_add(&live_engines, 1);
    kn_fork_watch(&engine->fork_guard, engine_abandon);
    return engine;
}

void kn_engine_stop(struct kn_engine *engine)
{
    struct kn_broker_thread *broker;
    atomic_store(&engine->producer.refusing, KN_ERR_CLOSED);
    for (int32_t i = 0; (broker = broker_of(engine, i)); i++) kn_broker_thread_stop(broker);
    for (int32_t i = 0; (broker = broker_of(engine, i)); i++) kn_broker_thread_join(broker);
    kn_worker_pool_stop(&engine->producer.workers);
    for (struct kn_topic *topic = kn_producer_topic_next(&engine->producer, NULL); topic;
         topic = kn_producer_topic_next(&engine->producer, topic)) {
        kn_topic_fail(topic, KN_ERR_CLOSED, 0, "the client was closed");
    }
    kn_queue_kick(&engine->client.control->events);
    kn_queue_kick(&engine->deliveries);
    kn_queue_kick(&engine->fetched);
    kn_queue_kick(&engine->producer.budget.room);
}

/* Frees the entries of its own queues. Segments come first: freeing one may wake brokers, which still
 * exist. */
static void engine_drain(struct kn_engine *engine)
{
    struct kn_list *node;
    for (node = engine->routes.next; node != &engine->routes; node = node->next)
        kn_engine_route_close(KN_LIST_ENTRY(node, struct kn_route, node));
    while ((node = kn_queue_pop(&engine->fetched)))
        kn_segment_free(KN_LIST_ENTRY(node, struct kn_segment, node));
    kn_event_free(atomic_load(&engine->producer.transaction.failure));
    while ((node = kn_queue_pop(&engine->deliveries)))
        kn_batch_free(KN_LIST_ENTRY(node, struct kn_batch, node));
}

void kn_engine_free(struct kn_engine *engine)
{
    if (!engine) return;
    kn_fork_unwatch(&engine->fork_guard);
    engine_drain(engine);
    for (int32_t i = 0; i < engine->broker_count; i++) kn_broker_thread_free(engine->brokers[i]);
    free(engine->brokers);
    struct kn_list *node;
    while ((node = kn_list_pop_front(&engine->producer.topics)))
        kn_topic_free(KN_LIST_ENTRY(node, struct kn_topic, node));
    kn_delivery_counters_deinit(&engine->counters);
    kn_queue_deinit(&engine->deliveries);
    kn_queue_deinit(&engine->fetched);
    routes_free(engine);
    kn_producer_deinit(&engine->producer);
    kn_reserve_deinit(&engine->client.spare_ops);
    kn_mutex_deinit(&engine->routes_lock);
    kn_mutex_deinit(&engine->lock);
    kn_pool_free(engine->client.pool);
    kn_control_queue_unref(engine->client.control);
    kn_tls_unref(engine->config.client.connection.tls);
    kn_proxy_unref(engine->config.client.connection.proxy);
    free(engine);
    atomic_fetch_sub(&live_engines, 1);
}

static struct kn_engine *closed_engine;

static void make_closed_engine(void)
{
    struct kn_engine_config config;
    kn_engine_config_init(&config);
    struct kn_engine *engine = kn_engine_new(&config, NULL);
    if (!engine) return;
    kn_engine_stop(engine);
    engine_wakes_deinit(engine);
    atomic_fetch_sub(&live_engines, 1); /* it is never freed and isn't a leak */
    closed_engine = engine;
}

struct kn_engine *kn_engine_closed(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_closed_engine);
    return closed_engine;
}

/* --- brokers --- */

/* Under the lock. Not with realloc(): a child that is forked meanwhile must find a complete table.
 */
static int engine_table_reserve(struct kn_engine *engine)
{
    if (engine->broker_count < engine->broker_capacity) return KN_OK;
    int32_t capacity = engine->broker_capacity ? engine->broker_capacity * 2 : 8;
    struct kn_broker_thread **smaller = engine->brokers,
                            **larger = calloc((size_t)capacity, sizeof *larger);
    if (!larger) return KN_ERR_NOMEM;
    if (smaller) memcpy(larger, smaller, (size_t)engine->broker_count * sizeof *larger);
    engine->brokers = larger;
    engine->broker_capacity = capacity;
    free(smaller);
    return KN_OK;
}

/* The new broker takes the descriptor of one that has ended, which is released: clients live for
 * years, and brokers come back with other addresses. */
static void replace_ended(struct kn_engine *engine, struct kn_broker_thread *broker)
{
    for (int32_t i = 0; i < engine->broker_count; i++) {
        struct kn_broker_thread *ended = engine->brokers[i];
        if (!kn_broker_thread_inherit(broker, ended)) continue;
        kn_broker_release(&ended->broker, &engine->departed);
        return;
    }
}

int kn_engine_broker_add(struct kn_engine *engine, int32_t node_id, const char *host, uint16_t port)
{
    if (atomic_load(&engine->producer.refusing) == KN_ERR_CLOSED) return KN_ERR_CLOSED;
    /* Only the control thread adds brokers, so this handle is still the next one below. */
    kn_mutex_lock(&engine->lock);
    int32_t handle = engine->broker_count;
    int status = engine_table_reserve(engine);
    kn_mutex_unlock(&engine->lock);
    if (status) return status;
    struct kn_broker_thread *broker = kn_broker_thread_new(
        &engine->client, &engine->producer, &engine->consumer, handle, node_id, host, port);
    if (!broker) return KN_ERR_NOMEM;
    replace_ended(engine, broker);
    status = kn_broker_thread_start(broker);
    if (status) {
        kn_broker_thread_free(broker);
        return status;
    }
    kn_mutex_lock(&engine->lock);
    engine->brokers[engine->broker_count] = broker;
    engine->broker_count++; /* after the entry is written: see engine_abandon() */
    kn_mutex_unlock(&engine->lock);
    /* kn_engine_stop() in another thread may have stopped all brokers before this one was here, and
     * waits for this one, too */
    if (atomic_load(&engine->producer.refusing) == KN_ERR_CLOSED) kn_broker_thread_stop(broker);
    return handle;
}

static struct kn_broker_thread *broker_of(struct kn_engine *engine, int32_t handle)
{
    kn_mutex_lock(&engine->lock);
    struct kn_broker_thread *broker = handle >= 0 && handle < engine->broker_count
                                          ? engine->brokers[handle]
                                          : NULL;
    kn_mutex_unlock(&engine->lock);
    return broker;
}

struct kn_broker *kn_engine_broker(struct kn_engine *engine, int32_t handle)
{
    struct kn_broker_thread *thread = broker_of(engine, handle);
    return thread ? &thread->broker : NULL;
}

void kn_engine_wake_brokers(struct kn_engine *engine)
{
    struct kn_broker_thread *broker;
    for (int32_t i = 0; (broker = broker_of(engine, i)); i++) kn_broker_thread_wake(broker);
}

/* Makes an op for the inbox; NULL: no memory. */
static struct kn_op *op_new(struct kn_engine *engine, enum kn_op_kind kind, int32_t generation)
{
    struct kn_op *op = kn_reserve_take(&engine->client.spare_ops);
    if (!op) return NULL;
    kn_list_init(&op->node);
    op->kind = kind;
    op->generation = generation;
    return op;
}

/* A control request, with all memory for its outcome, so that nothing can fail once it is posted.
 */
struct kn_control_request {
    struct kn_request request;
    struct kn_broker *broker;
    struct kn_event *event;
    struct iovec piece;
    uint8_t frame[];
};

static void control_request_done(struct kn_request *request, int status, struct kn_chunk *chunk,
                                 struct kn_span body)
{
    struct kn_control_request *control = request->context;
    struct kn_broker *broker = control->broker;
    struct kn_event *event = control->event;
    int32_t generation = request->generation;
    kn_wipe(control->frame, request->frame_bytes); /* a SASL request has a password */
    free(control);
    atomic_fetch_sub(&live_requests, 1);
    kn_broker_post_reply(broker, event, generation, status, chunk, body);
}

static struct kn_control_request *control_request_new(struct kn_broker *broker, int16_t api_key,
                                                      size_t frame_max_bytes, uint64_t token)
{
    struct kn_control_request *control = calloc(1, sizeof *control + frame_max_bytes);
    struct kn_event *event = control ? kn_event_new(&broker->client->control->spare_events,
                                                    KN_EVENT_REPLY, broker->handle)
                                     : NULL;
    if (!event) {
        free(control);
        return NULL;
    }
    event->token = token;
    event->api_key = api_key;
    control->event = event;
    control->broker = broker;
    kn_list_init(&control->request.node);
    control->request.on_done = control_request_done;
    control->request.context = control;
    atomic_fetch_add(&live_requests, 1);
    return control;
}

int kn_engine_submit(struct kn_engine *engine, int32_t handle, int32_t generation, int16_t api_key,
                     int16_t api_version, int request_flexible, int reply_flexible, uint8_t flags,
                     const uint8_t *body, size_t body_bytes, uint64_t token, int64_t timeout_ms)
{
    struct kn_broker_thread *broker = broker_of(engine, handle);
    if (!broker) return KN_ERR_INVALID;
    if (body_bytes > INT32_MAX / 2) return KN_ERR_TOO_LARGE;
    struct kn_op *op = op_new(engine, KN_OP_SUBMIT, generation);
    struct kn_control_request *control = op ? control_request_new(
                                                  &broker->broker, api_key,
                                                  KN_FRAME_HEADER_MAX_BYTES +
                                                      sizeof engine->client.config->client_id +
                                                      body_bytes,
                                                  token)
                                            : NULL;
    if (!control) {
        if (op) kn_reserve_give(&engine->client.spare_ops, op);
        return KN_ERR_NOMEM;
    }
    size_t head_bytes = flags & KN_REQUEST_RAW
                            ? KN_FRAME_LENGTH_BYTES
                            : kn_frame_header_write(control->frame, api_key, api_version,
                                                    engine->client.config->client_id,
                                                    request_flexible);
    if (body_bytes) memcpy(control->frame + head_bytes, body, body_bytes);
    control->piece.iov_base = control->frame;
    control->piece.iov_len = head_bytes + body_bytes;
    struct kn_request *request = &control->request;
    request->api_key = api_key;
    request->api_version = api_version;
    request->flags = (uint8_t)(flags | (reply_flexible ? KN_REQUEST_FLEXIBLE_REPLY : 0));
    request->deadline_us = timeout_ms < 0 ? KN_NEVER : kn_clock_us() + timeout_ms * 1000;
    request->pieces = &control->piece;
    request->piece_count = 1;
    request->frame_bytes = head_bytes + body_bytes;
    op->request = request;
    kn_broker_thread_post(broker, op);
    return KN_OK;
}

/* Posts an op without arguments. */
static int post_plain(struct kn_engine *engine, int32_t handle, int32_t generation,
                      enum kn_op_kind kind)
{
    struct kn_broker_thread *broker = broker_of(engine, handle);
    struct kn_op *op = broker ? op_new(engine, kind, generation) : NULL;
    if (!op) return broker ? KN_ERR_NOMEM : KN_ERR_INVALID;
    kn_broker_thread_post(broker, op);
    return KN_OK;
}

int kn_engine_heartbeat(struct kn_engine *engine, int32_t handle, int32_t generation,
                        const struct kn_heartbeat_plan *plan)
{
    struct kn_broker_thread *broker = broker_of(engine, handle);
    if (!broker || plan->interval_ms <= 0 || plan->timeout_ms <= 0) return KN_ERR_INVALID;
    if (plan->body_bytes > INT32_MAX / 2) return KN_ERR_TOO_LARGE;
    struct kn_heartbeat *heartbeat = kn_heartbeat_new(&broker->broker, plan);
    struct kn_op *op = heartbeat ? op_new(engine, KN_OP_HEARTBEAT, generation) : NULL;
    if (!op) {
        if (heartbeat) kn_heartbeat_free(heartbeat);
        return KN_ERR_NOMEM;
    }
    op->heartbeat = heartbeat;
    kn_broker_thread_post(broker, op);
    return KN_OK;
}

int kn_engine_stop_heartbeat(struct kn_engine *engine, int32_t handle)
{
    return post_plain(engine, handle, 0, KN_OP_HEARTBEAT);
}

int kn_engine_broker_open(struct kn_engine *engine, int32_t handle, int32_t generation,
                          int16_t produce_version, int16_t fetch_version)
{
    struct kn_broker_thread *broker = broker_of(engine, handle);
    struct kn_op *op = broker ? op_new(engine, KN_OP_OPEN, generation) : NULL;
    if (!op) return broker ? KN_ERR_NOMEM : KN_ERR_INVALID;
    op->produce_version = produce_version;
    op->fetch_version = fetch_version;
    kn_broker_thread_post(broker, op);
    return KN_OK;
}

int kn_engine_broker_hold(struct kn_engine *engine, int32_t handle, int32_t generation)
{
    return post_plain(engine, handle, generation, KN_OP_HOLD);
}

int kn_engine_broker_close(struct kn_engine *engine, int32_t handle, int32_t generation, int status)
{
    struct kn_broker_thread *broker = broker_of(engine, handle);
    struct kn_op *op = broker ? op_new(engine, KN_OP_CLOSE, generation) : NULL;
    if (!op) return broker ? KN_ERR_NOMEM : KN_ERR_INVALID;
    op->status = status;
    kn_broker_thread_post(broker, op);
    return KN_OK;
}

int kn_engine_broker_connect(struct kn_engine *engine, int32_t handle)
{
    return post_plain(engine, handle, 0, KN_OP_CONNECT);
}

int kn_engine_broker_stop(struct kn_engine *engine, int32_t handle)
{
    struct kn_broker_thread *broker = broker_of(engine, handle);
    if (!broker) return KN_ERR_INVALID;
    kn_broker_thread_stop(broker);
    return KN_OK;
}

/* --- producing --- */

int64_t kn_engine_outstanding(struct kn_engine *engine)
{
    /* Reads the budget first: kn_client_deliver() raises `undelivered` before it lowers the budget.
     * So a message that moves between the two is counted at least once. In the other order it could
     * be missed in both. */
    int64_t queued = atomic_load(&engine->producer.budget.messages);
    return queued + atomic_load(&engine->undelivered);
}

int64_t kn_engine_unsettled(struct kn_engine *engine)
{
    return atomic_load(&engine->producer.budget.messages);
}

/* flush() waits on `deliveries`: if the last message had no report, only this kick wakes it. */
static void engine_settled(struct kn_engine *engine)
{
    if (atomic_load(&engine->producer.flushing) > 0 && kn_engine_outstanding(engine) == 0)
        kn_queue_kick(&engine->deliveries);
}

static int batch_is_reported(const struct kn_engine *engine, const struct kn_batch *batch)
{
    /* also if only errors are reported: the binding takes its tokens back */
    if (batch->opaques) return 1;
    if (!engine->producer.config->report_all) return 0;
    return !engine->producer.config->report_errors_only || batch->status || batch->error_code;
}

static void report_failed(struct kn_engine *engine, const struct kn_batch *batch);

static void on_delivered(void *owner, struct kn_batch *batch)
{
    struct kn_engine *engine = owner;
    int32_t messages = batch->writer.record_count;
    int64_t bytes = batch->budget_bytes;
    struct kn_list completions;
    kn_list_init(&completions);
    if (kn_producer_is_transactional(&engine->producer)) report_failed(engine, batch);
    enum kn_delivery_counter_verdict verdict = batch->opaques
                                                   ? kn_delivery_counter_deliver(
                                                         &engine->counters, batch, &completions)
                                                   : KN_DELIVERY_COUNTER_MIXED;
    if (verdict != KN_DELIVERY_COUNTER_COUNTED && batch_is_reported(engine, batch)) {
        atomic_fetch_add(&engine->undelivered, messages);
        /* Before the push, so that a callback that produces again finds room. */
        kn_budget_give(&engine->producer.budget, messages, bytes);
        kn_queue_push(&engine->deliveries, &batch->node);
        return;
    }
    kn_batch_free(batch);
    /* Before the budget: when flush() finds no outstanding message it reads this number.
     * Sequentially consistent, because poll() first announces that it waits and then reads the
     * number. */
    atomic_fetch_add(&engine->unreported, 1);
    kn_budget_give(&engine->producer.budget, messages, bytes);
    kn_delivery_counter_send(&engine->counters, &completions);
    if (atomic_load(&engine->polling) > 0) kn_queue_kick(&engine->deliveries);
    else engine_settled(engine);
}

void kn_engine_batch_reported(struct kn_engine *engine, struct kn_batch *batch)
{
    atomic_fetch_sub(&engine->undelivered, batch->writer.record_count);
    kn_batch_free(batch);
    /* for a flush() in another thread than the poll() that served this batch */
    engine_settled(engine);
}

void kn_engine_flush_begin(struct kn_engine *engine)
{
    atomic_fetch_add(&engine->producer.flushing, 1);
    kn_engine_wake_brokers(engine);
}

void kn_engine_flush_end(struct kn_engine *engine)
{
    atomic_fetch_sub(&engine->producer.flushing, 1);
}

void kn_engine_room_begin(struct kn_engine *engine)
{
    kn_budget_wait_begin(&engine->producer.budget);
    kn_engine_flush_begin(engine);
}

void kn_engine_room_end(struct kn_engine *engine)
{
    kn_engine_flush_end(engine);
    kn_budget_wait_end(&engine->producer.budget);
}

static int wait_in_room(struct kn_engine *engine, int64_t deadline_us)
{
    int64_t left_us = deadline_us == KN_NEVER ? KN_NEVER : deadline_us - kn_clock_us();
    if (left_us <= 0) return KN_ERR_FULL;
    int status = kn_queue_wait(&engine->producer.budget.room,
                               left_us == KN_NEVER ? -1 : (left_us + 999) / 1000);
    return status == KN_ERR_TIMED_OUT ? KN_OK : status; /* the next try reports it */
}

int kn_engine_wait_for_room(struct kn_engine *engine, int (*retry)(void *context), void *context,
                            int64_t deadline_us, int *tries)
{
    kn_engine_room_begin(engine);
    int status = retry(context);
    if (status == KN_ERR_FULL) {
        int refusing = atomic_load_explicit(&engine->producer.refusing, memory_order_acquire);
        if (refusing != KN_OK) {
            status = refusing;
        } else if (kn_budget_is_empty(&engine->producer.budget)) {
            /* else the message is larger than the whole queue and never fits */
            if (++*tries < KN_ROOM_TRIES) status = KN_OK;
        } else {
            *tries = 0;
            status = wait_in_room(engine, deadline_us);
        }
    } else {
        *tries = 0; /* only consecutive tries count */
    }
    kn_engine_room_end(engine);
    return status;
}

int kn_engine_purge(struct kn_engine *engine, int in_queue, int in_flight)
{
    int status = KN_OK;
    struct kn_broker_thread *broker;
    for (int32_t i = 0; in_flight && (broker = broker_of(engine, i)); i++) {
        struct kn_op *op = op_new(engine, KN_OP_PURGE, 0);
        if (op) kn_broker_thread_post(broker, op);
        else status = KN_ERR_NOMEM;
    }
    for (struct kn_topic *topic = kn_producer_topic_next(&engine->producer, NULL);
         in_queue && topic; topic = kn_producer_topic_next(&engine->producer, topic)) {
        kn_topic_purge(topic);
    }
    return status;
}

void kn_engine_grant(struct kn_engine *engine, int64_t producer_id, int16_t producer_epoch)
{
    engine->producer.producer_id = producer_id;
    engine->producer.producer_epoch = producer_epoch;
    for (struct kn_topic *topic = kn_producer_topic_next(&engine->producer, NULL); topic;
         topic = kn_producer_topic_next(&engine->producer, topic)) {
        kn_topic_grant(topic, producer_id, producer_epoch);
    }
}

int kn_engine_transaction_begin(struct kn_engine *engine, int64_t number, int implicit,
                                int64_t hold_us)
{
    struct kn_event *failure = atomic_exchange(&engine->producer.transaction.failure, NULL);
    /* allocated now: if the failure couldn't be reported, the transaction would be committed
     * without the batch */
    if (!failure)
        failure = kn_event_new(&engine->client.control->spare_events, KN_EVENT_TXN_FAILED, -1);
    if (!failure) return KN_ERR_NOMEM;
    failure->offset = number;
    atomic_store(&engine->producer.transaction.failure, failure);
    atomic_store(&engine->producer.transaction.held_us, kn_clock_us() + hold_us);
    atomic_store(&engine->producer.transaction.implicit, implicit);
    atomic_store(&engine->producer.transaction.number, number);
    atomic_store(&engine->producer.transaction.open, 1);
    return KN_OK;
}

void kn_engine_transaction_tolerate(struct kn_engine *engine, int tolerant)
{
    atomic_store(&engine->producer.transaction.tolerant, tolerant);
}

void kn_engine_transaction_close(struct kn_engine *engine)
{
    atomic_store(&engine->producer.transaction.open, 0);
}

void kn_engine_transaction_admit(struct kn_engine *engine, struct kn_topic *topic,
                                 int32_t partition, int64_t number)
{
    if (number != atomic_load(&engine->producer.transaction.number)) return;
    struct kn_partition_table *table = atomic_load_explicit(&topic->table, memory_order_acquire);
    if (table && partition < table->count)
        kn_accumulator_admit(table->partitions[partition], number);
}

/* A failed batch: the transaction can't be committed without it. Reported before any thread can see
 * that no message is outstanding. */
static void report_failed(struct kn_engine *engine, const struct kn_batch *batch)
{
    if ((batch->status == KN_OK && !batch->error_code) || batch->status == KN_ERR_CLOSED) return;
    if (kn_accumulator_tolerates(&engine->producer, batch)) return;
    struct kn_event *event = atomic_exchange(&engine->producer.transaction.failure, NULL);
    if (!event) return;
    event->token = batch->topic->token;
    event->partition = batch->partition;
    event->status = batch->status;
    event->error_code = batch->error_code;
    event->attempts = batch->error_code && batch->sent_us;
    kn_client_post_event(&engine->client, event);
}

void kn_engine_expire(struct kn_engine *engine, int64_t now_us)
{
    /* Repeatedly: a request that failed at the same moment may have returned its batches after the
     * first purge. */
    if (atomic_load(&engine->producer.refusing) == KN_ERR_FATAL) kn_engine_purge(engine, 1, 0);
    for (struct kn_topic *topic = kn_producer_topic_next(&engine->producer, NULL); topic;
         topic = kn_producer_topic_next(&engine->producer, topic)) {
        kn_topic_expire(topic, now_us);
    }
    int quiet = kn_engine_outstanding(engine) == 0 &&
                atomic_load(&engine->consumer.queued_bytes) == 0;
    if (!quiet) {
        engine->quiet_since_us = 0;
    } else if (!engine->quiet_since_us) {
        engine->quiet_since_us = now_us;
    } else if (now_us - engine->quiet_since_us >= QUIET_US &&
               kn_pool_idle_bytes(engine->client.pool) > POOL_KEEP_QUIET_BYTES) {
        kn_pool_trim(engine->client.pool, POOL_KEEP_QUIET_BYTES);
    }
}

/* --- consuming --- */

static int engine_fetch_op(struct kn_engine *engine, enum kn_op_kind kind, struct kn_cursor *cursor,
                           int32_t handle, uint32_t epoch, int64_t offset, int32_t leader_epoch)
{
    struct kn_broker_thread *broker = broker_of(engine, handle);
    struct kn_op *op = broker ? op_new(engine, kind, 0) : NULL;
    if (!op) return broker ? KN_ERR_NOMEM : KN_ERR_INVALID;
    op->cursor = kn_cursor_ref(cursor);
    op->epoch = epoch;
    op->offset = offset;
    op->leader_epoch = leader_epoch;
    kn_broker_thread_post(broker, op);
    return KN_OK;
}

int kn_engine_fetch_start(struct kn_engine *engine, struct kn_cursor *cursor, int32_t handle,
                          uint32_t epoch, int64_t offset, int32_t leader_epoch)
{
    return engine_fetch_op(engine, KN_OP_ATTACH, cursor, handle, epoch, offset, leader_epoch);
}

int kn_engine_fetch_stop(struct kn_engine *engine, struct kn_cursor *cursor, int32_t handle)
{
    return engine_fetch_op(engine, KN_OP_DETACH, cursor, handle, 0, 0, -1);
}

void kn_engine_memory(struct kn_engine *engine, int64_t *queued_bytes, int64_t *idle_bytes)
{
    *queued_bytes = atomic_load(&engine->consumer.queued_bytes);
    *idle_bytes = (int64_t)kn_pool_idle_bytes(engine->client.pool);
}
