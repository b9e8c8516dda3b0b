/* A broker's producing half: from ready partitions to requests, and the outcomes of their batches.
 * See sender.h. */
#include "produce/sender.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/kafka_errors.h"
#include "base/planted.h"
#include "base/status.h"
#include "produce/batch_stats.h"
#include "net/broker.h"
#include "net/frame.h"
#include "produce/topic.h"

/* the size of one request: a full batch of the default size is sent alone */
#define REQUEST_BYTES ((size_t)960 << 10)
/* a batch of the default size may be complete with this size: the next message didn't fit */
#define FULL_BYTES (REQUEST_BYTES / 2)
/* limit of the bytes in the socket's queue: more would only wait there */
#define UNSENT_BYTES_MAX ((size_t)2 << 20)
/* keeps the socket busy; the broker handles a connection's requests one by one */
#define PIPELINE_MAX 5
#define LEAST_PERIOD_US 10000000 /* how long the least time of a response counts, at least */
#define DUE_SLACK_US 250         /* the clock was read earlier in this iteration */
#define NO_MEMORY_BACKOFF_US 100000
/* minimum timeout of a request whose messages are about to expire */
#define LAST_CHANCE_US 1000000
#define BACKOFF_DOUBLINGS_MAX 20
#define CONCURRENT_BACKOFF_MAX_MS 20

void kn_sender_init(struct kn_sender *sender, struct kn_broker *broker,
                    struct kn_producer *producer)
{
    memset(sender, 0, sizeof *sender);
    sender->broker = broker;
    sender->producer = producer;
    sender->produce_version = -1;
    kn_schedule_init(&sender->schedule);
}

void kn_sender_deinit(struct kn_sender *sender)
{
    kn_schedule_deinit(&sender->schedule);
    kn_encode_queue_deinit(&sender->encode_queue);
}

int kn_sender_add(struct kn_sender *sender, struct kn_accumulator *accumulator, int64_t at_us)
{
    int status = kn_schedule_add(&sender->schedule, accumulator, at_us);
    /* so that the next record notifies again */
    if (status != KN_OK) kn_accumulator_forget_notice(accumulator, sender->broker);
    return status;
}

bool kn_sender_wants_connection(struct kn_sender *sender)
{
    const struct kn_schedule_entry *first;
    while ((first = kn_schedule_first(&sender->schedule))) {
        if (kn_accumulator_wants(first->accumulator, sender->broker)) return 1;
        kn_schedule_pop(&sender->schedule);
    }
    return sender->broker->in_flight > 0 || sender->encode_queue.count > 0;
}

/* --- collecting --- */

/* A request has one value of acks and one timeout for all its batches. */
static bool may_share_request(const struct kn_produce_config *one,
                              const struct kn_produce_config *other)
{
    return one == other ||
           (one->acks == other->acks && one->produce_timeout_ms == other->produce_timeout_ms);
}

/* Checks each partition that is due. Partitions to check again are added only afterwards, so that a
 * request gets one batch per partition. */
static void pick_batches(struct kn_sender *sender, struct kn_picks *picks, int64_t now_us)
{
    struct kn_producer *producer = sender->producer;
    struct kn_schedule_entry again[KN_PICKS_MAX];
    int32_t again_count = 0;
    int flushing = atomic_load_explicit(&producer->flushing, memory_order_relaxed) > 0;
    const struct kn_schedule_entry *first;
    picks->count = 0;
    picks->size_bytes = 0;
    while (picks->size_bytes < REQUEST_BYTES && again_count < KN_PICKS_MAX &&
           picks->count < KN_PICKS_MAX && (first = kn_schedule_first(&sender->schedule)) &&
           (flushing || first->at_us <= now_us)) {
        struct kn_schedule_entry entry = kn_schedule_pop(&sender->schedule);
        struct kn_accumulator *accumulator = entry.accumulator;
        if (picks->count > 0 &&
            !may_share_request(accumulator->topic->config, picks->batches[0]->topic->config)) {
            again[again_count++] = entry; /* for the next request */
            continue;
        }
        int64_t next_us;
        struct kn_batch *batch = kn_topic_take(accumulator, sender->broker, now_us, &next_us);
        if (next_us != KN_NEVER)
            again[again_count++] = (struct kn_schedule_entry){accumulator, next_us};
        if (!batch) continue;
        picks->batches[picks->count++] = batch;
        picks->size_bytes += batch->wire ? batch->wire->size_bytes : batch->plain->size_bytes;
    }
    for (int32_t i = 0; i < again_count; i++)
        kn_sender_add(sender, again[i].accumulator, again[i].at_us);
}

/* --- batches that can't be encoded --- */

/* A guarantee is broken in this partition. The client first stops, so that no batch behind the
 * failed one is sent, and then notifies the control plane. */
static void raise_fatal(struct kn_sender *sender, const struct kn_accumulator *accumulator,
                        int status, int16_t error_code)
{
    kn_producer_refuse(sender->producer);
    struct kn_event *event = kn_event_new(&sender->broker->client->control->spare_events,
                                          KN_EVENT_FATAL, sender->broker->handle);
    if (!event) return; /* produce() reports the error anyway, though without the reason */
    event->token = accumulator->topic->token;
    event->partition = accumulator->partition;
    event->status = status;
    event->error_code = error_code;
    kn_client_post_event(sender->broker->client, event);
}

static void refuse(struct kn_sender *sender, struct kn_batch *batch, int status)
{
    char text[160];
    int length = snprintf(
        text, sizeof text, "%s can't be sent to a broker that has Produce up to version %d only",
        status == KN_ERR_UNSUPPORTED
            ? sender->broker->client->codecs.codecs[batch->topic->config->codec].name
            : "so much at once",
        (int)sender->produce_version);
    kn_batch_set_error(batch, status, 0, text, (size_t)length);
    kn_accumulator_settle(batch->accumulator, batch);
}

static void requeue(struct kn_batch *batch, int64_t next_try_us)
{
    batch->status = KN_OK;
    kn_accumulator_requeue(batch->accumulator, batch, next_try_us);
}

void kn_sender_put_back(struct kn_sender *sender, struct kn_batch *batch, int64_t next_try_us,
                        int64_t now_us)
{
    requeue(batch, next_try_us);
    kn_sender_recall(sender, now_us);
}

/* Removes the batches that couldn't be encoded from the picks. They go back or are settled. */
static void drop_unencoded(struct kn_sender *sender, struct kn_picks *picks, int64_t now_us)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < picks->count; i++) {
        struct kn_batch *batch = picks->batches[i];
        int status = batch->status;
        if (status == KN_OK) picks->batches[kept++] = batch;
        else if (status != KN_ERR_NOMEM) refuse(sender, batch, status);
        else kn_sender_put_back(sender, batch, now_us + NO_MEMORY_BACKOFF_US, now_us);
    }
    picks->count = kept;
}

/* The broker is older than idempotence. Waiting batches fail, because they would lose the guarantee
 * that the configuration asks for. */
static int64_t refuse_all(struct kn_sender *sender)
{
    static const char text[] =
        "enable.idempotence needs brokers from 0.11 on, and this partition's leader is older";
    while (kn_schedule_first(&sender->schedule)) {
        struct kn_accumulator *accumulator = kn_schedule_pop(&sender->schedule).accumulator;
        if (!kn_accumulator_wants(accumulator, sender->broker)) continue;
        /* first, so that a later append notifies again */
        kn_accumulator_forget_notice(accumulator, sender->broker);
        if (sender->producer->config->gapless)
            raise_fatal(sender, accumulator, KN_ERR_UNSUPPORTED, 0);
        kn_accumulator_fail(accumulator, KN_ERR_UNSUPPORTED, 0, text);
    }
    return KN_NEVER;
}

/* --- requests --- */

static int64_t deadline_us(const struct kn_sender *sender, struct kn_batch *const *batches,
                           int32_t count, int64_t now_us)
{
    int32_t request_timeout_ms = sender->broker->client->config->request_timeout_ms;
    /* so that the broker's own timeout response arrives in time */
    int64_t timeout_ms = batches[0]->topic->config->produce_timeout_ms + 500;
    if (timeout_ms < request_timeout_ms) timeout_ms = request_timeout_ms;
    int64_t deadline = now_us + timeout_ms * 1000;
    int64_t expiry = INT64_MAX;
    for (int32_t i = 0; i < count; i++) {
        int64_t message_timeout_ms = batches[i]->topic->config->message_timeout_ms;
        int64_t expiry_us = batches[i]->created_us + message_timeout_ms * 1000;
        if (message_timeout_ms > 0 && expiry_us < expiry) expiry = expiry_us;
    }
    if (expiry < now_us + LAST_CHANCE_US) expiry = now_us + LAST_CHANCE_US;
    return expiry < deadline ? expiry : deadline;
}

/* Fills in the descriptions. Returns the version: topic ids only if every topic has one. */
static int16_t describe_partitions(const struct kn_sender *sender, struct kn_produce *produce)
{
    struct kn_producer *producer = sender->producer;
    int16_t version = sender->produce_version < KN_PRODUCE_VERSION_MAX ? sender->produce_version
                                                                       : KN_PRODUCE_VERSION_MAX;
    int adds = !kn_producer_is_transactional(producer) ||
               atomic_load(&producer->transaction.implicit);
    if (!adds && version >= KN_PRODUCE_IMPLICIT_SINCE) version = KN_PRODUCE_IMPLICIT_SINCE - 1;
    for (int32_t i = 0; i < produce->batch_count; i++) {
        const struct kn_batch *batch = produce->batches[i];
        struct kn_produce_partition *partition = &produce->partitions[i];
        partition->topic = batch->topic->name;
        partition->topic_bytes = batch->topic->name_bytes;
        partition->partition = batch->partition;
        const struct kn_batch *source = kn_planted("foreign-bytes") ? produce->batches[0] : batch;
        partition->records = source->wire->data;
        partition->records_bytes = source->wire->size_bytes;
        memcpy(partition->topic_id, batch->topic_id, sizeof partition->topic_id);
        if (version >= KN_PRODUCE_TOPIC_ID_SINCE && !memcmp(batch->topic_id, kn_no_topic_id, 16))
            version = KN_PRODUCE_TOPIC_ID_SINCE - 1;
    }
    return version;
}

/* One block of memory: the struct, its arrays, and the bytes around the batches. */
static struct kn_produce *produce_allocate(struct kn_batch *const *batches, int32_t count,
                                           size_t id_bytes)
{
    size_t n = (size_t)count;
    size_t around = KN_FRAME_HEADER_MAX_BYTES + id_bytes;
    for (size_t i = 0; i < n; i++) {
        struct kn_produce_partition alone = {.topic = batches[i]->topic->name,
                                             .topic_bytes = batches[i]->topic->name_bytes};
        struct kn_produce_request bound = {.partitions = &alone, .partition_count = 1};
        around += kn_produce_request_bound_bytes(&bound);
    }
    struct kn_produce *produce = calloc(1, sizeof *produce);
    if (!produce) return NULL;
    produce->batch_count = count;
    size_t pieces = (2 * n + 1) * sizeof(struct iovec);
    size_t arrays = n * (sizeof *produce->partitions + sizeof *produce->outcomes +
                         sizeof *produce->batches);
    uint8_t *block = calloc(1, pieces + arrays + around);
    if (!block) {
        free(produce);
        return NULL;
    }
    /* the first entry: its address is the block's */
    produce->request.pieces = (struct iovec *)(void *)block;
    produce->partitions = (struct kn_produce_partition *)(void *)(block + pieces);
    produce->outcomes = (struct kn_produce_outcome *)(void *)(produce->partitions + n);
    produce->batches = (struct kn_batch **)(void *)(produce->outcomes + n);
    memcpy(produce->batches, batches, n * sizeof *batches);
    return produce;
}

static void on_produce_done(struct kn_request *request, int status, struct kn_chunk *chunk,
                            struct kn_span body);

static void log_batches(const struct kn_sender *sender, const struct kn_produce *produce,
                        int64_t now_us)
{
    for (int32_t i = 0; i < produce->batch_count; i++) {
        const struct kn_batch *batch = produce->batches[i];
        kn_log_write(&sender->broker->client->log, KN_LOG_MSG, sender->broker->handle, -1,
                     "%.80s [%d]: a batch of %d message(s), %zu bytes on the wire, is sent %.1f ms "
                     "after its first message, attempt %d",
                     batch->topic->name, (int)batch->partition, (int)batch->writer.record_count,
                     batch->wire->size_bytes, (double)(now_us - batch->created_us) / 1000,
                     (int)batch->attempts + 1);
    }
}

/* Logs that the batch is settled or tried again. */
static void log_outcome(const struct kn_sender *sender, const struct kn_batch *batch, int status,
                        int16_t error_code, const char *outcome)
{
    struct kn_log *log = &sender->broker->client->log;
    if (!kn_log_is_on(log, KN_LOG_MSG)) return;
    if (status == KN_OK && !error_code) {
        kn_log_write(
            log, KN_LOG_MSG, sender->broker->handle, -1,
            "%.80s [%d]: %d message(s) written from offset %lld on, %.1f ms after the first "
            "was produced",
            batch->topic->name, (int)batch->partition, (int)batch->writer.record_count,
            (long long)batch->base_offset, (double)(batch->acked_us - batch->created_us) / 1000);
        return;
    }
    kn_log_write(log, KN_LOG_MSG, sender->broker->handle, -1,
                 "%.80s [%d]: a batch of %d message(s) %s: %s %d, attempt %d", batch->topic->name,
                 (int)batch->partition, (int)batch->writer.record_count, outcome,
                 error_code ? "the broker's error" : kn_status_text(status),
                 error_code ? error_code : status, (int)batch->attempts);
}

/* Takes encoded, sorted batches of different partitions. NULL: no memory, and it took none. */
static struct kn_produce *produce_new(struct kn_sender *sender, struct kn_batch *const *batches,
                                      int32_t batch_count, int64_t now_us)
{
    const struct kn_produce_config *config = sender->producer->config;
    const struct kn_produce_config *of_topic = batches[0]->topic->config; /* may_share_request() */
    const char *client_id = sender->broker->client->config->client_id;
    struct kn_produce *produce = produce_allocate(
        batches, batch_count, strlen(client_id) + strlen(config->transactional_id));
    if (!produce) return NULL;
    produce->sender = sender;
    struct kn_request *request = &produce->request;
    request->api_key = KN_API_PRODUCE;
    request->api_version = describe_partitions(sender, produce);
    int flexible = request->api_version >= KN_PRODUCE_FLEXIBLE_SINCE;
    if (of_topic->acks == 0) request->flags |= KN_REQUEST_NO_REPLY;
    if (flexible) request->flags |= KN_REQUEST_FLEXIBLE_REPLY;
    request->deadline_us = deadline_us(sender, batches, batch_count, now_us);
    request->on_done = on_produce_done;
    for (int32_t i = 0; i < batch_count; i++)
        request->message_count += batches[i]->writer.record_count;
    struct kn_produce_request body = {
        .version = request->api_version,
        .acks = of_topic->acks,
        .timeout_ms = of_topic->produce_timeout_ms,
        .transactional_id = config->transactional_id[0] ? config->transactional_id : NULL,
        .partitions = produce->partitions,
        .partition_count = batch_count,
    };
    uint8_t *from = (uint8_t *)(produce->batches + batch_count);
    uint8_t *to = from + kn_frame_header_write(from, KN_API_PRODUCE, request->api_version,
                                               client_id, flexible);
    request->frame_bytes = kn_produce_request_encode(&body, from, to, request->pieces,
                                                     &request->piece_count);
    if (kn_log_is_on(&sender->broker->client->log, KN_LOG_MSG))
        log_batches(sender, produce, now_us);
    return produce;
}

/* --- outcomes --- */

int kn_produce_error_action(int16_t error_code)
{
    switch (error_code) {
    case KN_KAFKA_UNKNOWN_TOPIC_OR_PARTITION: /* just created, or moved to another broker */
    case KN_KAFKA_NOT_LEADER_OR_FOLLOWER:
    case KN_KAFKA_STORAGE_ERROR:
    case KN_KAFKA_UNKNOWN_TOPIC_ID:
    case KN_KAFKA_INCONSISTENT_TOPIC_ID:
        /* A leader also answers this if it appended the batch and lost leadership before the
         * replicas had it. */
        return KN_PRODUCE_RETRY | KN_PRODUCE_REFRESH | KN_PRODUCE_POSSIBLE;
    case KN_KAFKA_LEADER_NOT_AVAILABLE:
    case KN_KAFKA_BROKER_NOT_AVAILABLE:
    case KN_KAFKA_REPLICA_NOT_AVAILABLE:
    case KN_KAFKA_NETWORK_EXCEPTION:
    case KN_KAFKA_LISTENER_NOT_FOUND:
    case KN_KAFKA_FENCED_LEADER_EPOCH:
    case KN_KAFKA_UNKNOWN_LEADER_EPOCH: return KN_PRODUCE_RETRY | KN_PRODUCE_REFRESH;
    /* The leader has the batch; the replicas didn't confirm in time. A leader that is cut off from
     * the cluster answers this: the others may have elected another one. */
    case KN_KAFKA_REQUEST_TIMED_OUT:
        return KN_PRODUCE_RETRY | KN_PRODUCE_REFRESH | KN_PRODUCE_POSSIBLE;
    case KN_KAFKA_NOT_ENOUGH_REPLICAS_AFTER_APPEND: return KN_PRODUCE_RETRY | KN_PRODUCE_POSSIBLE;
    case KN_KAFKA_CORRUPT_MESSAGE: /* damaged in transfer */
    case KN_KAFKA_COORDINATOR_LOAD_IN_PROGRESS:
    case KN_KAFKA_NOT_ENOUGH_REPLICAS:
    case KN_KAFKA_CONCURRENT_TRANSACTIONS:
    case KN_KAFKA_THROTTLING_QUOTA_EXCEEDED: return KN_PRODUCE_RETRY;
    case KN_KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER:
    case KN_KAFKA_INVALID_PRODUCER_EPOCH:
    /* the broker's state was lost with its log or by retention */
    case KN_KAFKA_UNKNOWN_PRODUCER_ID: return KN_PRODUCE_RETRY | KN_PRODUCE_SEQUENCE;
    /* written so long ago that the broker doesn't know the offset any more */
    case KN_KAFKA_DUPLICATE_SEQUENCE_NUMBER: return KN_PRODUCE_WRITTEN;
    case KN_KAFKA_MESSAGE_TOO_LARGE:
    case KN_KAFKA_RECORD_LIST_TOO_LARGE: return KN_PRODUCE_SPLIT;
    case KN_KAFKA_UNKNOWN_SERVER_ERROR: /* the broker may have written it */
        return KN_PRODUCE_POSSIBLE;
    default: return 0;
    }
}

/* KN_KAFKA_CONCURRENT_TRANSACTIONS: the coordinator still writes the markers of the last
 * transaction, so a short backoff is enough. */
static int64_t backoff_us(const struct kn_produce_config *config, int32_t attempts,
                          int16_t error_code)
{
    int doublings = attempts > 1 ? attempts - 1 : 0;
    if (doublings > BACKOFF_DOUBLINGS_MAX) doublings = BACKOFF_DOUBLINGS_MAX;
    int64_t ms = (int64_t)config->retry_backoff_ms << doublings;
    if (ms > config->retry_backoff_max_ms) ms = config->retry_backoff_max_ms;
    if (error_code == KN_KAFKA_CONCURRENT_TRANSACTIONS && ms > CONCURRENT_BACKOFF_MAX_MS)
        ms = CONCURRENT_BACKOFF_MAX_MS;
    return ms * (800 + (int64_t)kn_random_below(401)); /* jitter: 80 to 120 % */
}

/* This try of the batch failed. It goes back to its partition if another try is allowed, else it is
 * reported. */
static void fail_batch(struct kn_sender *sender, struct kn_batch *batch, int may_retry, int status,
                       int16_t error_code, const char *text, int32_t text_bytes, int64_t now_us)
{
    struct kn_producer *producer = sender->producer;
    const struct kn_produce_config *config = producer->config;
    int refusing = atomic_load_explicit(&producer->refusing, memory_order_acquire);
    int closed = refusing == KN_ERR_CLOSED;
    int64_t timeout_us = (int64_t)batch->topic->config->message_timeout_ms * 1000;
    int expired = timeout_us > 0 && batch->created_us + timeout_us <= now_us;
    if (may_retry && !refusing && !expired && !sender->purging &&
        batch->attempts <= config->retries) {
        int written = error_code != 0 || batch->sent_us != 0;
        kn_count(&sender->broker->retries, 1);
        log_outcome(sender, batch, status, error_code, "is to be sent again");
        kn_sender_put_back(
            sender, batch,
            written ? now_us + backoff_us(config, batch->attempts, error_code) : now_us, now_us);
        return;
    }
    log_outcome(sender, batch, status, error_code, "has failed");
    if (may_retry && (sender->purging || (closed && batch->sent_us)))
        kn_batch_set_error(batch, KN_ERR_PURGED_IN_FLIGHT, 0, NULL, 0);
    else if (may_retry && refusing)
        kn_batch_set_error(batch, closed ? KN_ERR_CLOSED : KN_ERR_PURGED, 0, NULL, 0);
    else if (may_retry && expired)
        kn_batch_set_error(batch, KN_ERR_TIMED_OUT, 0, text, (size_t)text_bytes);
    else {
        kn_batch_set_error(batch, status, error_code, text, (size_t)text_bytes);
        if (config->gapless) raise_fatal(sender, batch->accumulator, status, error_code);
    }
    kn_accumulator_settle(batch->accumulator, batch);
}

/* An encoded batch isn't sent. It goes back to its partition if another try is allowed, else it is
 * reported with this status. */
static void fail_unsent(struct kn_sender *sender, struct kn_batch *batch, int status,
                        int64_t now_us)
{
    batch->sent_us = 0;
    fail_batch(sender, batch, 1, status, 0, NULL, 0, now_us);
}

static void request_metadata(struct kn_sender *sender, const struct kn_batch *batch,
                             const struct kn_produce_outcome *outcome,
                             const struct kn_produce_response *response)
{
    struct kn_event *event = kn_event_new(&sender->broker->client->control->spare_events,
                                          KN_EVENT_PARTITION, sender->broker->handle);
    if (!event) return; /* the next failure asks again */
    event->token = batch->topic->token;
    event->partition = batch->partition;
    event->error_code = outcome->error_code;
    event->leader_id = outcome->leader_id;
    event->leader_epoch = outcome->leader_epoch;
    if (outcome->leader_id >= 0)
        kn_produce_response_endpoint(response, outcome->leader_id, event->text, sizeof event->text);
    kn_client_post_event(sender->broker->client, event);
}

static void settle_written(const struct kn_sender *sender, struct kn_batch *batch,
                           int64_t base_offset, int64_t log_append_time_ms)
{
    batch->status = KN_OK;
    batch->base_offset = kn_planted("wrong-offset") ? base_offset + 1 : base_offset;
    batch->log_append_time_ms = log_append_time_ms;
    kn_batch_raise_persistence(batch, KN_PERSISTED);
    log_outcome(sender, batch, KN_OK, 0, "");
    kn_accumulator_settle(batch->accumulator, batch);
}

/* If an older batch is outstanding, its loss or delay is the reason, and another try is enough.
 * Otherwise the batch was written, the numbering restarts, or a guarantee is broken. */
static enum kn_sequence_verdict on_sequence_refused(struct kn_sender *sender,
                                                    struct kn_batch *batch, int16_t error_code)
{
    /* First: without memory for the event, the restart would never end. */
    struct kn_event *event = kn_event_new(&sender->broker->client->control->spare_events,
                                          KN_EVENT_OUT_OF_SEQUENCE, sender->broker->handle);
    if (!event) return KN_SEQUENCE_RETRY; /* the broker refuses the next try, too */
    enum kn_sequence_verdict verdict = kn_accumulator_out_of_sequence(batch->accumulator, batch,
                                                                      error_code);
    if (verdict == KN_SEQUENCE_LOST) raise_fatal(sender, batch->accumulator, KN_OK, error_code);
    if (verdict != KN_SEQUENCE_RESTART) {
        kn_event_free(event);
        return verdict;
    }
    event->token = batch->topic->token;
    event->partition = batch->partition;
    event->error_code = error_code;
    event->offset = batch->producer_id;
    event->epoch = (uint32_t)batch->producer_epoch;
    kn_client_post_event(sender->broker->client, event);
    return verdict;
}

/* Splits a batch that is too large, or in which one record makes the broker refuse the others
 * (KIP-467), until only the cause fails. Consecutive bad records become the beginning of a batch,
 * then a batch of their own, which fails as a whole. */
static int split_refused(struct kn_sender *sender, struct kn_batch *batch,
                         const struct kn_produce_outcome *outcome, int action, int64_t now_us)
{
    int by_size = action & KN_PRODUCE_SPLIT;
    if (!by_size && (action & KN_PRODUCE_RETRY || outcome->bad_record < 0)) return 0;
    if (atomic_load_explicit(&sender->producer->refusing, memory_order_acquire)) return 0;
    /* all records are bad: no split */
    int32_t at = outcome->bad_record > 0 ? outcome->bad_record : outcome->bad_run;
    if (kn_accumulator_split(batch->accumulator, batch, by_size ? 0 : at) != KN_OK) return 0;
    kn_sender_recall(sender, now_us);
    return 1;
}

/* With idempotence another try can't write twice, so an impossible response counts as none. */
static int is_numbered(const struct kn_batch *batch) { return batch->base_sequence >= 0; }

static void settle_answered(struct kn_sender *sender, struct kn_batch *batch,
                            const struct kn_produce_outcome *outcome,
                            const struct kn_produce_response *response, int64_t now_us)
{
    if (!outcome->answered) {
        static const char text[] = "partition missing from the Produce response";
        fail_batch(sender, batch, is_numbered(batch), KN_ERR_PROTOCOL, 0, text, sizeof text - 1,
                   now_us);
        return;
    }
    int action = outcome->error_code ? kn_produce_error_action(outcome->error_code)
                                     : KN_PRODUCE_WRITTEN;
    /* an impossible response */
    if (outcome->error_code && batch->base_sequence < 0 &&
        action & (KN_PRODUCE_WRITTEN | KN_PRODUCE_SEQUENCE))
        action = 0;
    if (action & KN_PRODUCE_WRITTEN) {
        settle_written(sender, batch, outcome->error_code ? -1 : outcome->base_offset,
                       outcome->log_append_time_ms);
        return;
    }
    if (split_refused(sender, batch, outcome, action, now_us)) return;
    int may_retry = action & KN_PRODUCE_RETRY;
    if (action & KN_PRODUCE_SEQUENCE) {
        enum kn_sequence_verdict verdict = on_sequence_refused(sender, batch, outcome->error_code);
        if (verdict == KN_SEQUENCE_WRITTEN) {
            settle_written(sender, batch, -1, -1);
            return;
        }
        may_retry = verdict != KN_SEQUENCE_LOST;
    }
    if (action & KN_PRODUCE_POSSIBLE) kn_batch_raise_persistence(batch, KN_POSSIBLY_PERSISTED);
    if (action & KN_PRODUCE_REFRESH) request_metadata(sender, batch, outcome, response);
    fail_batch(sender, batch, may_retry, KN_OK, outcome->error_code, outcome->text,
               outcome->text_bytes, now_us);
}

/* --- the response --- */

static int is_result_of(const struct kn_produce_result *result,
                        const struct kn_produce_partition *sent)
{
    if (result->partition != sent->partition) return 0;
    if (result->topic_id) return memcmp(result->topic_id, sent->topic_id, 16) == 0;
    return result->topic_bytes == sent->topic_bytes &&
           memcmp(result->topic, sent->topic, (size_t)sent->topic_bytes) == 0;
}

/* Returns the index of the result's batch; -1: none. `guess` is the index by the broker's usual
 * order. */
static int32_t find_sent(const struct kn_produce *produce, const struct kn_produce_result *result,
                         int32_t guess)
{
    for (int32_t i = 0; i < produce->batch_count; i++) {
        int32_t at = (guess + i) % produce->batch_count;
        if (is_result_of(result, &produce->partitions[at])) return at;
    }
    return -1;
}

/* Reads the whole response before any batch is settled, so a malformed response changes nothing. */
static int read_outcomes(struct kn_produce *produce, struct kn_produce_response *response,
                         struct kn_span body)
{
    struct kn_produce_result result;
    int32_t guess = 0;
    int32_t left = produce->batch_count;
    int status = kn_produce_response_open(response, body, produce->request.api_version);
    if (status != KN_OK) return status;
    while ((status = kn_produce_response_next(response, &result)) == 1) {
        int32_t at = left > 0 ? find_sent(produce, &result, guess) : -1;
        /* not requested, or a second result */
        if (at < 0 || produce->outcomes[at].answered) return KN_ERR_PROTOCOL;
        left--;
        guess = at + 1;
        struct kn_produce_outcome *outcome = &produce->outcomes[at];
        outcome->answered = 1;
        outcome->error_code = result.error_code;
        outcome->base_offset = result.base_offset;
        outcome->log_append_time_ms = result.log_append_time_ms;
        outcome->bad_record = result.record_error_count > 0 ? result.record_error_index : -1;
        outcome->bad_run = result.record_error_run;
        outcome->leader_id = result.leader_id;
        outcome->leader_epoch = result.leader_epoch;
        outcome->text = result.record_error ? result.record_error : result.error;
        outcome->text_bytes = result.record_error ? result.record_error_bytes : result.error_bytes;
    }
    return status < 0 ? status : kn_produce_response_end(response);
}

static void note_throttle(struct kn_sender *sender, int32_t throttle_ms, int64_t now_us)
{
    if (throttle_ms <= 0) return;
    sender->held_until_us = now_us + kn_throttle_us(throttle_ms);
    struct kn_event *event = kn_event_throttled(&sender->broker->client->control->spare_events,
                                                sender->broker->handle, KN_API_PRODUCE,
                                                throttle_ms);
    if (event) kn_client_post_event(sender->broker->client, event);
}

static void on_response(struct kn_produce *produce, struct kn_span body, int64_t now_us)
{
    static const char malformed[] = "malformed Produce response";
    struct kn_produce_response response;
    int status = read_outcomes(produce, &response, body);
    if (status == KN_OK) note_throttle(produce->sender, response.throttle_ms, now_us);
    for (int32_t i = 0; i < produce->batch_count; i++) {
        struct kn_batch *batch = produce->batches[i];
        if (status == KN_OK && produce->outcomes[i].answered) {
            settle_answered(produce->sender, batch, &produce->outcomes[i], &response, now_us);
            continue;
        }
        kn_batch_raise_persistence(batch, KN_POSSIBLY_PERSISTED);
        if (status == KN_OK)
            settle_answered(produce->sender, batch, &produce->outcomes[i], &response, now_us);
        else
            fail_batch(produce->sender, batch, is_numbered(batch), KN_ERR_PROTOCOL, 0, malformed,
                       sizeof malformed - 1, now_us);
    }
}

static void on_failure(struct kn_produce *produce, int status, int64_t now_us)
{
    for (int32_t i = 0; i < produce->batch_count; i++) {
        struct kn_batch *batch = produce->batches[i];
        if (produce->request.was_written && !kn_planted("denied-write"))
            kn_batch_raise_persistence(batch, KN_POSSIBLY_PERSISTED);
        if (produce->request.was_written && kn_planted("acked-unanswered")) {
            settle_written(produce->sender, batch, 0, -1);
            continue;
        }
        fail_batch(produce->sender, batch, 1, status, 0, NULL, 0, now_us);
    }
}

static void on_written(struct kn_produce *produce) /* acks=0: there is no response */
{
    for (int32_t i = 0; i < produce->batch_count; i++) {
        struct kn_batch *batch = produce->batches[i];
        batch->status = KN_OK;
        kn_batch_raise_persistence(batch, KN_POSSIBLY_PERSISTED);
        log_outcome(produce->sender, batch, KN_OK, 0, "");
        kn_accumulator_settle(batch->accumulator, batch);
    }
}

static void note_response_time(struct kn_response_times *times, int64_t sent_us, int64_t now_us)
{
    int64_t taken_us = now_us > sent_us ? now_us - sent_us : 1;
    times->last_us = taken_us;
    if (now_us >= times->period_ends_us) {
        times->least_us = times->least_of_period_us;
        times->least_of_period_us = taken_us;
        times->period_ends_us = now_us + LEAST_PERIOD_US;
    }
    if (taken_us < times->least_of_period_us) times->least_of_period_us = taken_us;
    if (!times->least_us || taken_us < times->least_us) times->least_us = taken_us;
}

static void on_produce_done(struct kn_request *request, int status, struct kn_chunk *chunk,
                            struct kn_span body)
{
    struct kn_produce *produce = KN_LIST_ENTRY(request, struct kn_produce, request);
    int64_t now_us = kn_clock_us();
    (void)chunk; /* text that outlives this call is copied */
    produce->sender->broker->in_flight--;
    for (int32_t i = 0; i < produce->batch_count; i++) {
        struct kn_batch *batch = produce->batches[i];
        batch->sent_us = request->was_written ? (request->sent_us ? request->sent_us : now_us) : 0;
        batch->acked_us = now_us;
        if (request->was_written) batch->attempts++;
    }
    if (status != KN_OK) {
        on_failure(produce, status, now_us);
    } else if (request->flags & KN_REQUEST_NO_REPLY) {
        on_written(produce);
    } else {
        if (request->sent_us)
            note_response_time(&produce->sender->response_times, request->sent_us, now_us);
        on_response(produce, body, now_us);
    }
    free(request->pieces);
    free(produce);
}

/* --- sending --- */

static int by_topic_and_partition(const void *left, const void *right)
{
    const struct kn_batch *a = *(struct kn_batch *const *)left,
                          *b = *(struct kn_batch *const *)right;
    if (a->topic != b->topic) return (uintptr_t)a->topic < (uintptr_t)b->topic ? -1 : 1;
    return a->partition < b->partition ? -1 : 1;
}

static void log_request(const struct kn_sender *sender, const struct kn_picks *picks)
{
    struct kn_producer *producer = sender->producer;
    int64_t messages = 0;
    for (int32_t i = 0; i < picks->count; i++) messages += picks->batches[i]->writer.record_count;
    kn_log_write(
        &sender->broker->client->log, KN_LOG_QUEUE, sender->broker->handle, -1,
        "%lld message(s) of %d partition(s) leave the queue in one request; %lld queued or "
        "in flight, in %d request(s) so far",
        (long long)messages, (int)picks->count,
        (long long)atomic_load_explicit(&producer->budget.messages, memory_order_relaxed),
        (int)sender->broker->in_flight);
}

static void send_produce(struct kn_sender *sender, struct kn_picks *picks, int64_t now_us)
{
    drop_unencoded(sender, picks, now_us);
    if (picks->count == 0) return;
    qsort(picks->batches, (size_t)picks->count, sizeof *picks->batches, by_topic_and_partition);
    struct kn_produce *produce = produce_new(sender, picks->batches, picks->count, now_us);
    if (!produce) {
        for (int32_t i = 0; i < picks->count; i++)
            kn_sender_put_back(sender, picks->batches[i], now_us + NO_MEMORY_BACKOFF_US, now_us);
        return;
    }
    kn_count_batches(sender->broker->windows, &sender->broker->means, picks->batches, picks->count);
    sender->broker->in_flight++;
    if (kn_log_is_on(&sender->broker->client->log, KN_LOG_QUEUE)) log_request(sender, picks);
    kn_broker_send(sender->broker, &produce->request, now_us);
}

/* A request built now would only wait, while later messages could go with it. */
static int is_backed_up(const struct kn_sender *sender)
{
    const struct kn_broker *broker = sender->broker;
    int32_t requests_max = sender->producer->config->backpressure_requests;
    return broker->on->unsent_bytes(broker->owner) >= UNSENT_BYTES_MAX ||
           (requests_max > 0 && broker->on->unsent_requests(broker->owner) >= requests_max);
}

/* Notes since when a batch is due; for kn_sticky_choose(). */
static int64_t note_blocked(struct kn_sender *sender, int64_t now_us, int64_t next_us)
{
    const struct kn_schedule_entry *first = kn_schedule_first(&sender->schedule);
    int64_t since_us = atomic_load_explicit(&sender->broker->blocked_since_us,
                                            memory_order_relaxed);
    if (!first) since_us = 0;
    else if (!since_us) since_us = first->at_us > now_us ? first->at_us : now_us;
    atomic_store_explicit(&sender->broker->blocked_since_us, since_us, memory_order_relaxed);
    return next_us;
}

/* Returns whether a request waits at the broker, which handles a connection's requests one by one. If
 * a response takes longer than the least time, the rest is the time of the requests before it. Over
 * a long distance many requests are in flight, and none waits. */
static int is_request_waiting(const struct kn_sender *sender)
{
    const struct kn_response_times *times = &sender->response_times;
    int32_t in_flight = sender->broker->in_flight;
    return in_flight > 1 && in_flight * (times->last_us - times->least_us) > times->last_us;
}

/* Returns whether the next request can still grow: the batch that is due first isn't complete. */
static int may_grow(const struct kn_sender *sender)
{
    const struct kn_schedule_entry *first = kn_schedule_first(&sender->schedule);
    return first && !kn_accumulator_has_complete(first->accumulator);
}

/* Returns whether another request may be picked now. While one waits at the broker, a request that
 * can grow waits here. Beyond the in-flight limit a request is only encoded ahead, and only if it is
 * full. */
static int may_pick(const struct kn_sender *sender, int can_send, int32_t limit)
{
    const struct kn_producer *producer = sender->producer;
    int32_t ahead = producer->workers.size + 1 < KN_ENCODE_QUEUE_MAX ? producer->workers.size + 1
                                                                     : KN_ENCODE_QUEUE_MAX;
    if (sender->encode_queue.count >= ahead) return 0;
    if (can_send && sender->broker->in_flight + sender->encode_queue.count < limit &&
        !(is_request_waiting(sender) && may_grow(sender)))
        return 1;
    return kn_producer_compresses(producer) && sender->picked_full;
}

void kn_sender_fail_picked(struct kn_sender *sender, int status, int64_t now_us)
{
    struct kn_picks *picks;
    while ((picks = kn_encode_queue_take(&sender->encode_queue, &sender->producer->workers))) {
        for (int32_t i = 0; i < picks->count; i++)
            fail_unsent(sender, picks->batches[i], status, now_us);
    }
}

void kn_sender_recall(struct kn_sender *sender, int64_t now_us)
{
    struct kn_picks *picks;
    while ((picks = kn_encode_queue_take(&sender->encode_queue, &sender->producer->workers))) {
        for (int32_t i = 0; i < picks->count; i++) requeue(picks->batches[i], now_us);
    }
}

int64_t kn_sender_step(struct kn_sender *sender, int64_t now_us)
{
    const struct kn_produce_config *config = sender->producer->config;
    int32_t limit = config->max_in_flight < PIPELINE_MAX ? config->max_in_flight : PIPELINE_MAX;
    int is_slow_here = kn_producer_compresses(sender->producer) &&
                       sender->producer->workers.size == 0;
    if (sender->produce_version < KN_PRODUCE_VERSION_MIN)
        return note_blocked(sender, now_us, KN_NEVER);
    if (config->idempotence == KN_IDEMPOTENCE_DEMANDED &&
        sender->produce_version < KN_PRODUCE_BATCHES_SINCE)
        return note_blocked(sender, now_us, refuse_all(sender));
    for (;;) {
        if (atomic_load_explicit(&sender->producer->refusing, memory_order_acquire))
            kn_sender_fail_picked(sender, KN_ERR_TRANSPORT, now_us);
        if (now_us < sender->held_until_us) {
            kn_sender_recall(sender, now_us); /* so that messages can expire while they wait */
            return note_blocked(sender, now_us, sender->held_until_us);
        }
        int can_send = sender->broker->in_flight < limit && !is_backed_up(sender);
        struct kn_picks *encoded = can_send ? kn_encode_queue_take_encoded(&sender->encode_queue)
                                            : NULL;
        if (encoded) {
            send_produce(sender, encoded, now_us);
            if (is_slow_here) break; /* write to the socket first */
            continue;
        }
        /* Written bytes, a response or the worker pool cause the next call. */
        if (!may_pick(sender, can_send, limit)) return note_blocked(sender, now_us, KN_NEVER);
        atomic_store_explicit(&sender->broker->blocked_since_us, 0, memory_order_relaxed);
        struct kn_picks *picks = kn_encode_queue_next(&sender->encode_queue);
        if (!picks) return note_blocked(sender, now_us, now_us + NO_MEMORY_BACKOFF_US);
        pick_batches(sender, picks, now_us + DUE_SLACK_US);
        if (picks->count == 0) break;
        sender->picked_full = picks->size_bytes >= FULL_BYTES;
        kn_encode_queue_begin(&sender->encode_queue, sender->producer, sender->broker,
                              sender->produce_version);
    }
    const struct kn_schedule_entry *first = kn_schedule_first(&sender->schedule);
    return first ? first->at_us : KN_NEVER;
}
