/* A broker: its inbox, its connection's state machine, and the thread that runs them.
 *
 * Thread: the broker thread calls kn_broker_thread_step() and the functions below it. Any thread
 * may call post, notify, wake and stop.
 * Lock: `lock` (leaf) guards the inbox; held only to swap or append.
 * Who frees: the engine, after the join.
 *
 * States: INIT (not needed yet) or DOWN -> CONNECTING (TCP) -> HANDSHAKE (CONNECTED was sent, the
 * control plane negotiates on this generation) -> UP (OPEN came) -> DOWN ... STOPPED. HOLD moves UP
 * back to HANDSHAKE on the same generation. The thread connects only on demand.
 *
 * How a sleeping thread misses no notification: before poll(2) the thread takes the lock and checks
 * whether the inbox is empty. If it is, the thread stores sleep_until_us; if not, it stores 0 and
 * polls without waiting. A notifier appends under the same lock. It signals the descriptor only if
 * sleep_until_us isn't 0 and is later than the time that the notifier needs. Then it sets
 * sleep_until_us to 0, so the next notifier doesn't signal again. The cases:
 *
 * - The notifier appends before the check: the thread finds the entry and doesn't sleep.
 * - It appends after the check, before or during poll: it sees sleep_until_us and signals. The
 *   descriptor is readable, so poll returns at once.
 * - It appends for a time at or after sleep_until_us: no signal is needed, because the thread reads
 *   the inbox when it wakes up by itself.
 * - The thread is awake (sleep_until_us is 0): no signal is needed, because the thread checks the
 *   inbox under the lock before it sleeps. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine/broker_thread.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "produce/topic.h"
#include "net/transport.h"

#define WORK_TURNS_MAX 4 /* then the thread reads from the socket before it works on */
/* an open connection works after this time, even without any response (acks=0) */
#define WORKS_AFTER_US 10000000

static atomic_long live_count;

long kn_broker_thread_live(void) { return atomic_load(&live_count); }

static void on_accumulator_ready(void *owner, struct kn_accumulator *accumulator, int64_t at_us);
static void on_cursor_ready(void *owner, struct kn_cursor *cursor);
static void on_wake(void *owner) { kn_broker_thread_wake(owner); }
static void on_send(void *owner, struct kn_request *request, int64_t now_us);

static size_t on_unsent_bytes(void *owner)
{
    return kn_connection_unsent_bytes(((struct kn_broker_thread *)owner)->broker.connection);
}
static int on_unsent_requests(void *owner)
{
    return kn_connection_unsent_requests(((struct kn_broker_thread *)owner)->broker.connection);
}

static const struct kn_broker_events events = {
    .accumulator_ready = on_accumulator_ready,
    .cursor_ready = on_cursor_ready,
    .wake = on_wake,
    .send = on_send,
    .unsent_bytes = on_unsent_bytes,
    .unsent_requests = on_unsent_requests,
};

/* --- creation --- */

struct kn_broker_thread *kn_broker_thread_new(struct kn_client *client,
                                              struct kn_producer *producer,
                                              struct kn_consumer *consumer, int32_t handle,
                                              int32_t node_id, const char *host, uint16_t port)
{
    struct kn_broker_thread *thread = calloc(1, sizeof *thread);
    if (!thread) return NULL;
    if (kn_broker_init(&thread->broker, client, &events, thread, handle, node_id, host, port)) {
        free(thread);
        return NULL;
    }
    if (kn_wake_init(&thread->wake)) {
        kn_broker_deinit(&thread->broker);
        free(thread);
        return NULL;
    }
    thread->producer = producer;
    kn_mutex_init(&thread->lock, KN_RANK_LEAF);
    kn_list_init(&thread->ops);
    kn_list_init(&thread->unsent);
    kn_list_init(&thread->woken);
    kn_sender_init(&thread->sender, &thread->broker, producer);
    kn_fetcher_init(&thread->fetcher, &thread->broker, consumer);
    atomic_fetch_add(&live_count, 1);
    return thread;
}

/* Removes the first cursor from the list; from here on it may be added to another list. */
static struct kn_cursor *woken_pop(struct kn_list *woken)
{
    struct kn_list *node = kn_list_pop_front(woken);
    if (!node) return NULL;
    struct kn_cursor *cursor = KN_LIST_ENTRY(node, struct kn_cursor, wake_node);
    atomic_store(&cursor->woken, 0);
    return cursor;
}

/* Frees what the thread keeps of partitions and cursors. Call after the end of its inbox; a second
 * call does nothing. */
static void forget_partitions(struct kn_broker_thread *thread)
{
    struct kn_cursor *cursor;
    while ((cursor = woken_pop(&thread->woken))) kn_cursor_unref(cursor);
    kn_sender_deinit(&thread->sender);
    kn_fetcher_deinit(&thread->fetcher);
    free(thread->ready);
    free(thread->taken);
    thread->ready = thread->taken = NULL;
    thread->ready_count = thread->ready_capacity = thread->taken_capacity = 0;
}

void kn_broker_thread_free(struct kn_broker_thread *thread)
{
    if (!thread) return;
    forget_partitions(thread);
    kn_event_free(thread->down_event);
    kn_wake_deinit(&thread->wake);
    kn_mutex_deinit(&thread->lock);
    kn_broker_deinit(&thread->broker);
    free(thread);
    atomic_fetch_sub(&live_count, 1);
}

static enum kn_broker_state broker_state(const struct kn_broker_thread *thread)
{
    return (enum kn_broker_state)atomic_load_explicit(&thread->broker.state, memory_order_relaxed);
}

static void broker_set_state(struct kn_broker_thread *thread, enum kn_broker_state state)
{
    kn_note(&thread->broker.state_since_us, kn_clock_us());
    atomic_store_explicit(&thread->broker.state, (int)state, memory_order_release);
}

static int broker_is_connected(const struct kn_broker_thread *thread)
{
    enum kn_broker_state state = broker_state(thread);
    return state == KN_BROKER_HANDSHAKE || state == KN_BROKER_UP;
}

/* Debug builds: checks that this is the broker's own thread. A broker without a thread has no
 * owner. */
static void broker_check_role(const struct kn_broker_thread *thread)
{
#ifdef KN_DEBUG
    if (!thread->has_owner || pthread_equal(thread->owner, pthread_self())) return;
    fprintf(stderr, "kafka_native: broker %d is stepped by a thread that isn't its own\n",
            (int)thread->broker.handle);
    abort();
#else
    (void)thread;
#endif
}

/* --- the inbox, any thread --- */

/* Under the lock: returns whether a signal must wake the thread for an entry that is due at at_us.
 */
static int inbox_needs_signal(struct kn_broker_thread *thread, int64_t at_us)
{
    if (thread->sleep_until_us == 0 || at_us >= thread->sleep_until_us) return 0;
    thread->sleep_until_us = 0;
    return 1;
}

static void request_fail(struct kn_request *request, int status)
{
    kn_list_remove(&request->node);
    request->on_done(request, status, NULL, kn_span_of("", 0));
}

/* Ends an op that the thread won't handle any more. */
static void op_refuse(struct kn_broker_thread *thread, struct kn_op *op, int status)
{
    if (op->request) request_fail(op->request, status);
    if (op->heartbeat) kn_heartbeat_refuse(op->heartbeat, status);
    if (op->cursor) kn_cursor_unref(op->cursor);
    kn_reserve_give(&thread->broker.client->spare_ops, op);
}

void kn_broker_thread_post(struct kn_broker_thread *thread, struct kn_op *op)
{
    kn_mutex_lock(&thread->lock);
    int closed = thread->inbox_closed;
    if (!closed) kn_list_push_back(&thread->ops, &op->node);
    int signal = !closed && inbox_needs_signal(thread, 0);
    kn_mutex_unlock(&thread->lock);
    if (closed) op_refuse(thread, op, KN_ERR_CLOSED);
    if (signal) kn_wake_signal(&thread->wake);
}

static void on_accumulator_ready(void *owner, struct kn_accumulator *accumulator, int64_t at_us)
{
    struct kn_broker_thread *thread = owner;
    /* During a flush linger is ignored. The flush has woken all threads when it began, and this
     * entry came later. */
    if (atomic_load_explicit(&thread->producer->flushing, memory_order_acquire) > 0) at_us = 0;
    kn_mutex_lock(&thread->lock);
    if (thread->inbox_closed) {
        kn_mutex_unlock(&thread->lock);
        return;
    }
    if (thread->ready_count == thread->ready_capacity && !thread->ready_lost) {
        int32_t capacity = thread->ready_capacity ? thread->ready_capacity * 2 : 64;
        struct kn_ready_accumulator *larger = realloc(thread->ready,
                                                      (size_t)capacity * sizeof *larger);
        if (larger) {
            thread->ready = larger;
            thread->ready_capacity = capacity;
        }
    }
    if (thread->ready_count < thread->ready_capacity) {
        thread->ready[thread->ready_count++] = (struct kn_ready_accumulator){accumulator, at_us};
    } else {
        thread->ready_lost = 1;
    }
    int signal = inbox_needs_signal(thread, at_us);
    kn_mutex_unlock(&thread->lock);
    if (signal) kn_wake_signal(&thread->wake);
}

void kn_broker_thread_wake(struct kn_broker_thread *thread)
{
    kn_mutex_lock(&thread->lock);
    thread->wake_pending = 1;
    int signal = inbox_needs_signal(thread, 0);
    kn_mutex_unlock(&thread->lock);
    if (signal) kn_wake_signal(&thread->wake);
}

static void on_cursor_ready(void *owner, struct kn_cursor *cursor)
{
    struct kn_broker_thread *thread = owner;
    /* another broker may have the cursor in its list */
    int listed = atomic_exchange(&cursor->woken, 1);
    kn_mutex_lock(&thread->lock);
    if (thread->inbox_closed) {
        kn_mutex_unlock(&thread->lock);
        if (!listed) atomic_store(&cursor->woken, 0);
        return;
    }
    if (listed) thread->wake_all = 1;
    else kn_list_push_back(&thread->woken, &kn_cursor_ref(cursor)->wake_node);
    int signal = inbox_needs_signal(thread, 0);
    kn_mutex_unlock(&thread->lock);
    if (signal) kn_wake_signal(&thread->wake);
}

void kn_broker_thread_stop(struct kn_broker_thread *thread)
{
    kn_mutex_lock(&thread->lock);
    thread->stop_requested = 1;
    int signal = inbox_needs_signal(thread, 0);
    kn_mutex_unlock(&thread->lock);
    if (signal) kn_wake_signal(&thread->wake);
}

/* --- connecting and disconnecting, broker thread --- */

/* reconnect.backoff.ms, doubled per failure, at most reconnect.backoff.max.ms. 20 % jitter, so that
 * clients don't all reconnect at the same time. */
static int64_t broker_backoff_us(const struct kn_broker_thread *thread)
{
    int64_t backoff_us = (int64_t)thread->broker.client->config->reconnect_backoff_ms * 1000;
    int64_t max_us = (int64_t)thread->broker.client->config->reconnect_backoff_max_ms * 1000;
    for (int32_t i = 1; i < thread->failures && backoff_us < max_us; i++) backoff_us *= 2;
    if (backoff_us > max_us) backoff_us = max_us;
    return backoff_us - backoff_us / 5 +
           (int64_t)kn_random_below((uint32_t)(backoff_us / 1000 * 400 + 1));
}

static void broker_note_use(struct kn_broker_thread *thread, int64_t now_us)
{
    struct kn_connection_stats *stats = kn_connection_stats(thread->broker.connection);
    int64_t traffic = kn_counted(&stats->tx) + kn_counted(&stats->rx);
    if (traffic != thread->traffic_seen) thread->last_used_us = now_us;
    thread->traffic_seen = traffic;
}

/* TLS failed: adds OpenSSL's error text, and the certificate if that was refused. */
static void event_report_tls(struct kn_event *event, const struct kn_stream *stream)
{
    snprintf(event->text, sizeof event->text, "%s", stream->text);
    event->verify_error = stream->verify_error;
    if (!stream->certificate) return;
    event->chunk = kn_chunk_ref(stream->certificate);
    event->body = event->chunk->buffer->data;
    event->body_bytes = event->chunk->buffer->size_bytes;
}

/* The connection is gone or couldn't be made. `text` NULL: use the connection's text. `quiet`: it
 * was closed because it was idle, so this isn't a failure. */
static void broker_down(struct kn_broker_thread *thread, int status, const char *text, int quiet,
                        int64_t now_us)
{
    enum kn_broker_state was = broker_state(thread);
    struct kn_event *event = thread->down_event;
    thread->down_event = NULL;
    if (was == KN_BROKER_CONNECTING ||
        (!quiet && (was == KN_BROKER_HANDSHAKE || !thread->is_working)))
        thread->failures++;
    else if (quiet && was == KN_BROKER_UP) thread->failures = 0;
    broker_set_state(thread, quiet ? KN_BROKER_INIT : KN_BROKER_DOWN);
    thread->connect_requested = 0;
    if (event) {
        event->generation = was == KN_BROKER_CONNECTING ? 0 : thread->broker.generation;
        event->status = status;
        event->attempts = quiet ? 0 : thread->failures > 0 ? thread->failures : 1;
        event->peer_closed = kn_connection_peer_closed(thread->broker.connection);
        snprintf(event->text, sizeof event->text, "%s",
                 text ? text : kn_connection_error_text(thread->broker.connection));
        if (status == KN_ERR_TLS)
            event_report_tls(event, kn_connection_stream(thread->broker.connection));
    }
    kn_connection_close(thread->broker.connection, status ? status : KN_ERR_TRANSPORT);
    kn_sender_fail_picked(&thread->sender, status ? status : KN_ERR_TRANSPORT, now_us);
    kn_heartbeat_on_down(&thread->broker,
                         status && status != KN_ERR_TIMED_OUT ? status : KN_ERR_TRANSPORT);
    broker_note_use(thread, now_us);
    kn_fetcher_on_down(&thread->fetcher);
    thread->sender.produce_version = thread->fetcher.fetch_version = -1;
    if (was != KN_BROKER_CONNECTING) kn_count(&thread->broker.disconnects, 1);
    /* After a working connection the thread reconnects at once, but not more often than
     * reconnect.backoff.ms allows. */
    thread->connect_at_us = (thread->failures ? now_us : thread->connected_us) +
                            broker_backoff_us(thread);
    if (kn_log_is_on(&thread->broker.client->log, KN_LOG_BROKER)) {
        kn_log_write(
            &thread->broker.client->log, KN_LOG_BROKER, thread->broker.handle, -1,
            "down%s; not connected to again for %.0f ms", quiet ? ", which is no failure" : "",
            thread->connect_at_us > now_us ? (double)(thread->connect_at_us - now_us) / 1000 : 0.0);
    }
    /* Requests for that one connection fail. */
    struct kn_list kept;
    kn_list_init(&kept);
    struct kn_list *node;
    while ((node = kn_list_pop_front(&thread->unsent))) {
        struct kn_request *request = KN_LIST_ENTRY(node, struct kn_request, node);
        if (request->generation) request_fail(request, status ? status : KN_ERR_TRANSPORT);
        else kn_list_push_back(&kept, node);
    }
    kn_list_splice_back(&thread->unsent, &kept);
    if (event) kn_client_post_event(thread->broker.client, event);
}

static void broker_down_because(struct kn_broker_thread *thread, int status, const char *why,
                                int quiet, int64_t now_us)
{
    char text[240];
    snprintf(text, sizeof text, "%.120s:%u: %s", thread->broker.host, (unsigned)thread->broker.port,
             why);
    broker_down(thread, status, text, quiet, now_us);
}

static int broker_wants_connection(struct kn_broker_thread *thread)
{
    return thread->connect_requested || !kn_list_empty(&thread->unsent) ||
           kn_sender_wants_connection(&thread->sender) ||
           kn_fetcher_wants_connection(&thread->fetcher);
}

static void broker_expect_open(struct kn_broker_thread *thread, int64_t now_us)
{
    thread->ready_by_us = now_us +
                          (int64_t)thread->broker.client->config->connection.setup_timeout_ms *
                              1000;
    broker_set_state(thread, KN_BROKER_HANDSHAKE);
}

/* The connection is up: the control plane negotiates on it. */
static void broker_connected(struct kn_broker_thread *thread, int64_t now_us)
{
    struct kn_event *event = kn_event_new(&thread->broker.client->control->spare_events,
                                          KN_EVENT_CONNECTED, thread->broker.handle);
    if (!event) {
        broker_down_because(thread, KN_ERR_NOMEM, kn_status_text(KN_ERR_NOMEM), 0, now_us);
        return;
    }
    thread->broker.generation = thread->broker.generation == INT32_MAX
                                    ? 1
                                    : thread->broker.generation + 1;
    thread->connected_us = now_us;
    thread->is_working = 0;
    broker_expect_open(thread, now_us);
    event->generation = thread->broker.generation;
    snprintf(event->text, sizeof event->text, "%.120s:%u (%s)", thread->broker.host,
             (unsigned)thread->broker.port, kn_connection_peer_text(thread->broker.connection));
    kn_client_post_event(thread->broker.client, event);
}

static void broker_connect(struct kn_broker_thread *thread, int64_t now_us)
{
    thread->down_event = kn_event_new(&thread->broker.client->control->spare_events,
                                      KN_EVENT_DISCONNECTED, thread->broker.handle);
    if (!thread->down_event) {
        thread->connect_at_us = now_us + 100000;
        return;
    }
    broker_set_state(thread, KN_BROKER_CONNECTING);
    kn_count(&thread->broker.connects, 1);
    if (kn_log_is_on(&thread->broker.client->log, KN_LOG_BROKER)) {
        kn_log_write(&thread->broker.client->log, KN_LOG_BROKER, thread->broker.handle, -1,
                     "connecting (attempt %d in a row)", (int)thread->failures + 1);
    }
    int status = kn_connection_open(thread->broker.connection, thread->broker.host,
                                    thread->broker.port, now_us);
    if (status) {
        broker_down(thread, status, NULL, 0, now_us);
    } else if (kn_connection_state(thread->broker.connection) == KN_CONNECTION_UP) {
        broker_connected(thread, now_us);
    }
}

/* --- operations, broker thread --- */

static int op_is_current(const struct kn_broker_thread *thread, const struct kn_op *op)
{
    return op->generation == 0 ||
           (broker_is_connected(thread) && op->generation == thread->broker.generation);
}

static void op_submit(struct kn_broker_thread *thread, struct kn_op *op, int64_t now_us)
{
    struct kn_request *request = op->request;
    enum kn_broker_state state = broker_state(thread);
    request->generation = op->generation;
    if (!op_is_current(thread, op)) {
        request_fail(request, KN_ERR_STALE);
    } else if (request->flags & KN_REQUEST_HANDSHAKE) {
        if (broker_is_connected(thread))
            kn_connection_send(thread->broker.connection, request, now_us);
        else request_fail(request, KN_ERR_TRANSPORT);
    } else if (state == KN_BROKER_UP) {
        kn_connection_send(thread->broker.connection, request, now_us);
    } else {
        kn_list_push_back(&thread->unsent, &request->node);
    }
}

static void op_open(struct kn_broker_thread *thread, const struct kn_op *op, int64_t now_us)
{
    if (!broker_is_connected(thread) || !op_is_current(thread, op)) return;
    thread->connect_requested = 0;
    thread->sender.produce_version = op->produce_version;
    thread->fetcher.fetch_version = op->fetch_version;
    thread->last_used_us = now_us;
    thread->handshake_responses = kn_counted(&kn_connection_stats(thread->broker.connection)->rx);
    broker_set_state(thread, KN_BROKER_UP);
    struct kn_list *node;
    while ((node = kn_list_pop_front(&thread->unsent))) {
        kn_connection_send(thread->broker.connection, KN_LIST_ENTRY(node, struct kn_request, node),
                           now_us);
    }
}

/* During re-authentication (KIP-368) the client may send no other requests. The responses to
 * earlier ones come first, because responses come in order. */
static void op_hold(struct kn_broker_thread *thread, const struct kn_op *op, int64_t now_us)
{
    if (broker_state(thread) != KN_BROKER_UP || !op_is_current(thread, op)) return;
    kn_sender_recall(&thread->sender, now_us);
    thread->sender.produce_version = thread->fetcher.fetch_version = -1;
    broker_expect_open(thread, now_us);
}

static void op_close(struct kn_broker_thread *thread, const struct kn_op *op, int64_t now_us)
{
    int connecting = broker_state(thread) == KN_BROKER_CONNECTING && op->generation == 0;
    if (!connecting && (!broker_is_connected(thread) || !op_is_current(thread, op))) return;
    broker_down_because(thread, op->status,
                        op->status ? kn_status_text(op->status) : "closed on request",
                        op->status == KN_OK, now_us);
}

/* Produce requests in flight can't be cancelled, so the thread closes their connection. */
static void op_purge(struct kn_broker_thread *thread, int64_t now_us)
{
    if (!thread->broker.in_flight && !thread->sender.encode_queue.count) return;
    thread->sender.purging = 1;
    broker_down_because(thread, KN_OK, "purged", 1, now_us);
    thread->sender.purging = 0;
}

static void op_attach(struct kn_broker_thread *thread, const struct kn_op *op)
{
    int status = kn_fetcher_attach(&thread->fetcher, op->cursor, op->epoch, op->offset,
                                   op->leader_epoch);
    if (status == KN_OK) return;
    struct kn_event *event = kn_event_new(&thread->broker.client->control->spare_events,
                                          KN_EVENT_CURSOR, thread->broker.handle);
    /* no memory for the event: the control plane's watchdog notices a cursor without progress */
    if (!event) return;
    event->token = op->cursor->token;
    event->partition = op->cursor->partition;
    event->status = status;
    event->epoch = op->epoch;
    event->offset = op->offset;
    kn_client_post_event(thread->broker.client, event);
}

static void op_heartbeat(struct kn_broker_thread *thread, const struct kn_op *op, int64_t now_us)
{
    int current = broker_state(thread) == KN_BROKER_UP && op_is_current(thread, op);
    if (current || !op->heartbeat) kn_heartbeat_start(&thread->broker, op->heartbeat, now_us);
    else kn_heartbeat_refuse(op->heartbeat, KN_ERR_STALE);
}

static void broker_run_op(struct kn_broker_thread *thread, struct kn_op *op, int64_t now_us)
{
    switch (op->kind) {
    case KN_OP_SUBMIT: op_submit(thread, op, now_us); break;
    case KN_OP_ATTACH: op_attach(thread, op); break;
    case KN_OP_DETACH: kn_fetcher_detach(&thread->fetcher, op->cursor); break;
    case KN_OP_OPEN: op_open(thread, op, now_us); break;
    case KN_OP_HOLD: op_hold(thread, op, now_us); break;
    case KN_OP_CLOSE: op_close(thread, op, now_us); break;
    case KN_OP_CONNECT: thread->connect_requested = !broker_is_connected(thread); break;
    case KN_OP_PURGE: op_purge(thread, now_us); break;
    case KN_OP_HEARTBEAT: op_heartbeat(thread, op, now_us); break;
    case KN_OP_STOP: thread->stopping = 1; break;
    }
    if (op->cursor) kn_cursor_unref(op->cursor);
    kn_reserve_give(&thread->broker.client->spare_ops, op);
}

/* A notification was lost because memory was short: checks everything that this broker leads. */
static int broker_check_all(struct kn_broker_thread *thread, int64_t now_us)
{
    int status = KN_OK;
    for (struct kn_topic *topic = kn_producer_topic_next(thread->producer, NULL); topic;
         topic = kn_producer_topic_next(thread->producer, topic)) {
        struct kn_partition_table *table = atomic_load_explicit(&topic->table,
                                                                memory_order_acquire);
        for (int32_t i = 0; table && i < table->count; i++) {
            struct kn_accumulator *accumulator = table->partitions[i];
            if (kn_accumulator_leader(accumulator) == &thread->broker &&
                kn_sender_add(&thread->sender, accumulator, now_us))
                status = KN_ERR_NOMEM;
        }
    }
    return status;
}

/* Swaps the inbox out under the lock and handles it outside. */
static void broker_take_inbox(struct kn_broker_thread *thread, int64_t now_us)
{
    struct kn_list ops, woken;
    kn_list_init(&ops);
    kn_list_init(&woken);
    kn_mutex_lock(&thread->lock);
    kn_list_splice_back(&ops, &thread->ops);
    kn_list_splice_back(&woken, &thread->woken);
    int wake_all = thread->wake_all;
    thread->wake_all = 0;
    struct kn_ready_accumulator *ready = thread->ready;
    int32_t ready_count = thread->ready_count, ready_capacity = thread->ready_capacity;
    thread->ready = thread->taken;
    thread->ready_capacity = thread->taken_capacity;
    thread->ready_count = 0;
    thread->taken = ready;
    thread->taken_capacity = ready_capacity;
    int lost = thread->ready_lost;
    thread->ready_lost = thread->wake_pending = 0;
    thread->sleep_until_us = 0;
    if (thread->stop_requested) thread->stopping = 1;
    kn_mutex_unlock(&thread->lock);

    struct kn_list *node;
    while ((node = kn_list_pop_front(&ops)))
        broker_run_op(thread, KN_LIST_ENTRY(node, struct kn_op, node), now_us);
    struct kn_cursor *cursor;
    while ((cursor = woken_pop(&woken))) {
        kn_fetcher_wake(&thread->fetcher, cursor);
        kn_cursor_unref(cursor);
    }
    if (wake_all) kn_fetcher_wake_all(&thread->fetcher);
    for (int32_t i = 0; i < ready_count; i++) {
        if (kn_sender_add(&thread->sender, ready[i].accumulator, ready[i].at_us)) lost = 1;
    }
    if (lost && broker_check_all(thread, now_us)) {
        kn_mutex_lock(&thread->lock);
        thread->ready_lost = 1;
        kn_mutex_unlock(&thread->lock);
    }
}

/* --- one iteration --- */

/* Ends the broker; the inbox refuses ops and notifications from here on. */
static void broker_finish(struct kn_broker_thread *thread, int64_t now_us)
{
    struct kn_list ops;
    kn_list_init(&ops);
    enum kn_broker_state state = broker_state(thread);
    if (state != KN_BROKER_INIT && state != KN_BROKER_DOWN)
        broker_down_because(thread, KN_ERR_CLOSED, "stopped", 1, now_us);
    kn_mutex_lock(&thread->lock);
    thread->inbox_closed = 1;
    kn_list_splice_back(&ops, &thread->ops);
    kn_mutex_unlock(&thread->lock);
    struct kn_list *node;
    while ((node = kn_list_pop_front(&ops)))
        op_refuse(thread, KN_LIST_ENTRY(node, struct kn_op, node), KN_ERR_CLOSED);
    while ((node = kn_list_first(&thread->unsent)))
        request_fail(KN_LIST_ENTRY(node, struct kn_request, node), KN_ERR_CLOSED);
    forget_partitions(thread);
    broker_set_state(thread, KN_BROKER_STOPPED);
}

/* A finished handshake proves little. A SASL listener answers ApiVersions of a client that doesn't
 * authenticate, and closes the connection at its next request. Only a working connection ends the
 * backoff, and the outage that the control plane reports. */
static void broker_note_working(struct kn_broker_thread *thread, int64_t now_us)
{
    if (thread->is_working || broker_state(thread) != KN_BROKER_UP) return;
    int answered = kn_counted(&kn_connection_stats(thread->broker.connection)->rx) >
                   thread->handshake_responses;
    int lasts = now_us - thread->connected_us >= WORKS_AFTER_US &&
                !kn_connection_in_flight(thread->broker.connection);
    if (!answered && !lasts) return;
    thread->failures = 0;
    struct kn_event *event = kn_event_new(NULL, KN_EVENT_WORKING, thread->broker.handle);
    if (!event) return; /* no memory: the next iteration tries again */
    thread->is_working = 1;
    event->generation = thread->broker.generation;
    kn_client_post_event(thread->broker.client, event);
}

/* The connection's part of an iteration. */
static void broker_step_connection(struct kn_broker_thread *thread, short revents, int64_t now_us)
{
    int status = kn_connection_step(thread->broker.connection, revents, now_us);
    broker_note_working(thread, now_us);
    if (status) {
        broker_down(thread, status, NULL, kn_connection_was_idle_close(thread->broker.connection),
                    now_us);
    } else if (broker_state(thread) == KN_BROKER_CONNECTING &&
               kn_connection_state(thread->broker.connection) == KN_CONNECTION_UP) {
        broker_connected(thread, now_us);
    }
}

/* Fails control requests that waited too long for a connection. */
static int64_t broker_expire_unsent(struct kn_broker_thread *thread, int64_t now_us)
{
    int64_t next_us = KN_NEVER;
    struct kn_list *node = thread->unsent.next;
    while (node != &thread->unsent) {
        struct kn_request *request = KN_LIST_ENTRY(node, struct kn_request, node);
        node = node->next;
        if (request->deadline_us <= now_us) {
            kn_count(&thread->broker.unsent_timeouts, 1);
            request_fail(request, KN_ERR_TIMED_OUT);
        } else if (request->deadline_us < next_us) {
            next_us = request->deadline_us;
        }
    }
    return next_us;
}

/* connections.max.idle.ms: closes an unused connection. Returns the time of the next check. */
static int64_t broker_check_idle(struct kn_broker_thread *thread, int64_t now_us)
{
    int32_t idle_ms = thread->broker.client->config->connections_max_idle_ms;
    if (idle_ms <= 0 || broker_state(thread) != KN_BROKER_UP) return KN_NEVER;
    /* The end of each of these (a response, a detach) wakes the thread, and the next iteration
     * checks again. */
    if (thread->broker.heartbeat || kn_connection_in_flight(thread->broker.connection) ||
        broker_wants_connection(thread))
        return KN_NEVER;
    int64_t close_at_us = thread->last_used_us + (int64_t)idle_ms * 1000;
    if (now_us < close_at_us) return close_at_us;
    broker_down_because(thread, KN_OK, "idle for connections.max.idle.ms", 1, now_us);
    return KN_NEVER;
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

/* Runs the sender and the fetcher, then writes their frames to the socket without a poll in
 * between. Repeats this while the socket takes all bytes, because both hold back while bytes are
 * unsent. */
static int64_t broker_work(struct kn_broker_thread *thread, int64_t now_us)
{
    for (int turn = 0; turn < WORK_TURNS_MAX; turn++) {
        int64_t next_us = kn_sender_step(&thread->sender, now_us);
        next_us = earlier(next_us, kn_fetcher_step(&thread->fetcher, now_us));
        if (!kn_connection_unsent_bytes(thread->broker.connection)) return next_us;
        broker_step_connection(thread, 0, now_us);
        /* poll(2) reports when the socket takes bytes again */
        if (kn_connection_unsent_bytes(thread->broker.connection)) return next_us;
    }
    return now_us;
}

int64_t kn_broker_thread_step(struct kn_broker_thread *thread, short revents, int64_t now_us)
{
    int64_t next_us;
    broker_check_role(thread);
    if (broker_state(thread) == KN_BROKER_STOPPED) return KN_NEVER;
    broker_take_inbox(thread, now_us);
    if (thread->stopping) {
        broker_finish(thread, now_us);
        return KN_NEVER;
    }
    if (kn_connection_state(thread->broker.connection) != KN_CONNECTION_CLOSED)
        broker_step_connection(thread, revents, now_us);
    if (broker_state(thread) == KN_BROKER_HANDSHAKE && now_us >= thread->ready_by_us) {
        broker_down_because(thread, KN_ERR_TIMED_OUT,
                            "the handshake didn't end within socket.connection.setup.timeout.ms", 0,
                            now_us);
    }
    enum kn_broker_state state = broker_state(thread);
    if ((state == KN_BROKER_INIT || state == KN_BROKER_DOWN) && now_us >= thread->connect_at_us &&
        broker_wants_connection(thread)) {
        broker_connect(thread, now_us);
    }
    /* first, so that its frame goes out together with others */
    int64_t heartbeat_us = kn_heartbeat_step(&thread->broker, now_us);
    /* in every state: batches that were fetched before the connection ended are still opened */
    next_us = broker_work(thread, now_us);
    broker_note_use(thread, now_us);
    next_us = earlier(next_us, heartbeat_us);
    next_us = earlier(next_us, broker_check_idle(thread, now_us));
    next_us = earlier(next_us, broker_expire_unsent(thread, now_us));
    state = broker_state(thread);
    if ((state == KN_BROKER_INIT || state == KN_BROKER_DOWN) && broker_wants_connection(thread))
        next_us = earlier(next_us, thread->connect_at_us);
    if (state == KN_BROKER_HANDSHAKE) next_us = earlier(next_us, thread->ready_by_us);
    if (kn_connection_state(thread->broker.connection) != KN_CONNECTION_CLOSED) {
        next_us = earlier(next_us, kn_connection_next_deadline_us(thread->broker.connection));
    }
    return next_us;
}

static void on_send(void *owner, struct kn_request *request, int64_t now_us)
{
    struct kn_broker_thread *thread = owner;
    broker_check_role(thread);
    if (broker_state(thread) == KN_BROKER_UP) {
        kn_connection_send(thread->broker.connection, request, now_us);
    } else {
        request->on_done(request, KN_ERR_TRANSPORT, NULL, kn_span_of("", 0));
    }
}

/* --- the thread --- */

/* Sleeps until next_us, a signal of the inbox, or an event of the connection. Returns the
 * connection's events. */
static short broker_sleep(struct kn_broker_thread *thread, int64_t next_us)
{
    struct pollfd fds[2] = {{.fd = thread->wake.read_fd, .events = POLLIN}, {.fd = -1}};
    fds[1].fd = kn_connection_poll_fd(thread->broker.connection, &fds[1].events);
    int64_t left_us = next_us == KN_NEVER ? -1 : next_us - kn_clock_us();
    if (next_us != KN_NEVER && left_us < 0) left_us = 0;
    kn_mutex_lock(&thread->lock);
    int waiting = !kn_list_empty(&thread->ops) || thread->ready_count || thread->wake_pending ||
                  thread->stop_requested || !kn_list_empty(&thread->woken) || thread->wake_all;
    thread->sleep_until_us = waiting || left_us == 0 ? 0 : next_us;
    /* memory was short: try again soon */
    int64_t lost_us = thread->ready_lost ? 100000 : -1;
    kn_mutex_unlock(&thread->lock);
    if (waiting) left_us = 0;
    else if (lost_us >= 0 && (left_us < 0 || left_us > lost_us)) left_us = lost_us;
    int ready = kn_connection_is_receiving(thread->broker.connection)
                    ? kn_wake_poll_busy(&thread->busy_wait, fds, 2, left_us)
                    : 0;
    if (ready == 0) ready = kn_wake_poll(fds, 2, left_us);
    kn_count(&thread->broker.wakeups, 1);
    if (ready <= 0) return 0;
    if (fds[0].revents) kn_wake_clear(&thread->wake);
    return fds[1].revents;
}

static void *broker_main(void *argument)
{
    struct kn_broker_thread *thread = argument;
    char name[32];
    snprintf(name, sizeof name, "kn-broker-%d", (int)thread->broker.node_id);
    kn_thread_name(name);
    thread->owner = pthread_self();
    thread->has_owner = 1;
    int64_t next_us = kn_broker_thread_step(thread, 0, kn_clock_us());
    while (broker_state(thread) != KN_BROKER_STOPPED) {
        short revents = broker_sleep(thread, next_us);
        next_us = kn_broker_thread_step(thread, revents, kn_clock_us());
    }
    return NULL;
}

int kn_broker_thread_start(struct kn_broker_thread *thread)
{
    /* Signals belong to the application's threads. They are blocked before the thread exists, so
     * even its first instruction gets none. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread->id, NULL, broker_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    thread->has_thread = !failed;
    return failed ? KN_ERR_NOMEM : KN_OK;
}

void kn_broker_thread_join(struct kn_broker_thread *thread)
{
    if (thread->has_thread) pthread_join(thread->id, NULL);
    /* there is no thread: end it here */
    else kn_broker_thread_step(thread, 0, kn_clock_us());
    thread->has_thread = thread->has_owner = 0;
}

bool kn_broker_thread_inherit(struct kn_broker_thread *thread, struct kn_broker_thread *ended)
{
    if (broker_state(ended) != KN_BROKER_STOPPED || ended->wake.read_fd < 0) return 0;
    kn_broker_thread_join(ended);
    kn_wake_deinit(&thread->wake);
    thread->wake.read_fd = ended->wake.read_fd;
    thread->wake.write_fd = ended->wake.write_fd;
    ended->wake.read_fd = ended->wake.write_fd = -1;
    kn_wake_clear(&thread->wake);
    return 1;
}
