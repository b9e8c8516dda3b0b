/* A broker's consuming half: see fetcher.h. */
#include "consume/fetcher.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/kafka_errors.h"
#include "base/status.h"
#include "net/broker.h"
#include "consume/consumer.h"
#include "consume/fetch_codec.h"
#include "consume/fetch_segment.h"
#include "net/frame.h"

/* A larger response would only delay the next one. */
#define RESPONSE_MAX_BYTES (16 << 20)
#define OPENED_MIN_BYTES (1 << 20)
#define RESPONSE_MIN_BYTES (64 << 10)
/* The queue's limit doesn't count responses that are in flight or not yet opened. All brokers'
 * together may have 1 / UNDER_WAY_PART of that limit. */
#define UNDER_WAY_PART 4
#define EXPANSION_ONE 256         /* the ratio without compression */
#define EXPANSION_GUESS (4 * 256) /* before the first response */
/* Bytes that are opened between two reads from the socket: a broker can't continue a response that
 * the client doesn't read. */
#define OPEN_BYTES (256 << 10)
/* So many bytes are opened before the next request is sent: it takes less time than the sending. */
#define OPEN_FIRST_BYTES (16 << 10)
#define SESSION_EPOCH_FULL 0
#define SESSION_EPOCH_NONE (-1) /* the broker keeps no session */
#define BUCKETS_AT_FIRST 16
/* The longest wait of a Fetch while some partitions rest: the application may consume the resting
 * ones meanwhile. */
#define WAIT_WHILE_RESTING_MAX_MS 10

struct fetch_request { /* a request, and the data that on_done needs */
    struct kn_request request;
    struct iovec piece;
    struct kn_buffer *frame;
    uint32_t serial;
};

/* --- the table of slots: finds attached cursors by topic and partition --- */

static int slot_in_session(const struct kn_fetcher *fetcher, const struct kn_fetch_slot *slot)
{
    return slot->session == fetcher->session_serial;
}

static int has_id(const struct kn_cursor *cursor)
{
    static const uint8_t zeros[16];
    return memcmp(cursor->topic_id, zeros, sizeof zeros) != 0;
}

static uint32_t bucket_of(const struct kn_fetcher *fetcher, const void *topic, size_t topic_bytes,
                          int32_t partition)
{
    return (kn_fnv1a(topic, topic_bytes) + (uint32_t)partition * 0x9e3779b1u) &
           (fetcher->bucket_count - 1);
}

static const void *key_of(const struct kn_fetcher *fetcher, const struct kn_cursor *cursor,
                          size_t *bytes)
{
    *bytes = fetcher->by_id ? sizeof cursor->topic_id : (size_t)cursor->topic_bytes;
    return fetcher->by_id ? (const void *)cursor->topic_id : cursor->topic;
}

static void link_slot(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot)
{
    size_t bytes;
    const void *key = key_of(fetcher, slot->cursor, &bytes);
    struct kn_fetch_slot **bucket =
        &fetcher->buckets[bucket_of(fetcher, key, bytes, slot->cursor->partition)];
    slot->next = *bucket;
    *bucket = slot;
}

static void relink_all(struct kn_fetcher *fetcher)
{
    struct kn_list *lists[2] = {&fetcher->slots, &fetcher->forgotten};
    memset(fetcher->buckets, 0, fetcher->bucket_count * sizeof fetcher->buckets[0]);
    for (int i = 0; i < 2; i++)
        for (struct kn_list *node = lists[i]->next; node != lists[i]; node = node->next)
            link_slot(fetcher, KN_LIST_ENTRY(node, struct kn_fetch_slot, node));
}

static struct kn_fetch_slot *find(struct kn_fetcher *fetcher, const void *topic, size_t topic_bytes,
                                  int32_t partition, int gone)
{
    if (!fetcher->bucket_count) return NULL;
    struct kn_fetch_slot *slot =
        fetcher->buckets[bucket_of(fetcher, topic, topic_bytes, partition)];
    for (; slot; slot = slot->next) {
        size_t bytes;
        const void *key = key_of(fetcher, slot->cursor, &bytes);
        if (slot->gone == gone && slot->cursor->partition == partition && bytes == topic_bytes &&
            memcmp(key, topic, bytes) == 0)
            return slot;
    }
    return NULL;
}

static int grow(struct kn_fetcher *fetcher)
{
    uint32_t count = fetcher->bucket_count ? fetcher->bucket_count * 2 : BUCKETS_AT_FIRST;
    struct kn_fetch_slot **buckets = realloc(fetcher->buckets, count * sizeof buckets[0]);
    if (!buckets) return KN_ERR_NOMEM;
    fetcher->buckets = buckets;
    fetcher->bucket_count = count;
    relink_all(fetcher);
    return KN_OK;
}

static int add_slot(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot)
{
    if ((uint32_t)fetcher->slot_count >= fetcher->bucket_count && grow(fetcher) != KN_OK)
        return KN_ERR_NOMEM;
    kn_list_push_back(&fetcher->slots, &slot->node);
    if (fetcher->slot_count++ == 0)
        atomic_fetch_add_explicit(&fetcher->consumer->fetcher_count, 1, memory_order_relaxed);
    fetcher->idless_count += !has_id(slot->cursor);
    link_slot(fetcher, slot);
    return KN_OK;
}

/* Removes it from its hash bucket. */
static void unlink_slot(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot)
{
    size_t bytes;
    const void *key = key_of(fetcher, slot->cursor, &bytes);
    struct kn_fetch_slot **at =
        &fetcher->buckets[bucket_of(fetcher, key, bytes, slot->cursor->partition)];
    while (*at != slot) at = &(*at)->next;
    *at = slot->next;
}

static void free_slot(struct kn_fetch_slot *slot)
{
    kn_cursor_unref(slot->cursor);
    free(slot);
}

static void unlist_slot(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot)
{
    if (slot->list == KN_FETCH_LIST_CHANGED) fetcher->changed_count--;
    if (slot->list == KN_FETCH_LIST_LEAVING) fetcher->leaving_count--;
    kn_list_remove(&slot->list_node);
    slot->list = KN_FETCH_LIST_NONE;
}

/* Unlinks the slot. Moves it to `forgotten` if the session has it, else frees it. */
static void remove_slot(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot)
{
    unlist_slot(fetcher, slot);
    kn_list_remove(&slot->node);
    if (--fetcher->slot_count == 0)
        atomic_fetch_sub_explicit(&fetcher->consumer->fetcher_count, 1, memory_order_relaxed);
    fetcher->resting_count -= slot->resting;
    fetcher->idless_count -= !has_id(slot->cursor);
    if (slot_in_session(fetcher, slot)) {
        slot->gone = 1;
        kn_list_push_back(&fetcher->forgotten, &slot->node);
        fetcher->forgotten_count++;
    } else {
        unlink_slot(fetcher, slot);
        free_slot(slot);
    }
}

/* Call after any change of the slot: puts it into the list that the next request reads. */
static void list_slot(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot)
{
    int known = slot_in_session(fetcher, slot);
    enum kn_fetch_list list = KN_FETCH_LIST_NONE;
    if (slot->resting && known) list = KN_FETCH_LIST_LEAVING;
    if (!slot->resting && (!known || slot->sent_offset != slot->offset))
        list = KN_FETCH_LIST_CHANGED;
    if (list == slot->list) return;
    unlist_slot(fetcher, slot);
    slot->list = list;
    if (list == KN_FETCH_LIST_CHANGED) {
        kn_list_push_back(&fetcher->changed, &slot->list_node);
        fetcher->changed_count++;
    } else if (list == KN_FETCH_LIST_LEAVING) {
        kn_list_push_back(&fetcher->leaving, &slot->list_node);
        fetcher->leaving_count++;
    }
}

/* Returns whether the session still has a detached slot of this partition, and frees that slot; the
 * caller takes its place in the session. Compares the session's own key: a topic that was deleted
 * and created again has the same name. A request that adds and removes the same key would lose it.
 */
static int replace_forgotten(struct kn_fetcher *fetcher, const struct kn_cursor *cursor)
{
    size_t bytes;
    const void *key = key_of(fetcher, cursor, &bytes);
    struct kn_fetch_slot *old = find(fetcher, key, bytes, cursor->partition, 1);
    if (!old) return 0;
    unlink_slot(fetcher, old);
    kn_list_remove(&old->node);
    fetcher->forgotten_count--;
    free_slot(old);
    return 1;
}

/* By topic id or name, as the table is keyed. */
static struct kn_fetch_slot *find_slot(struct kn_fetcher *fetcher, const void *topic,
                                       size_t topic_bytes, int32_t partition)
{
    return find(fetcher, topic, topic_bytes, partition, 0);
}

static struct kn_fetch_slot *find_cursor(struct kn_fetcher *fetcher, const struct kn_cursor *cursor)
{
    size_t bytes;
    const void *key = key_of(fetcher, cursor, &bytes);
    if (!fetcher->bucket_count) return NULL;
    struct kn_fetch_slot *slot =
        fetcher->buckets[bucket_of(fetcher, key, bytes, cursor->partition)];
    while (slot && (slot->cursor != cursor || slot->gone)) slot = slot->next;
    return slot;
}

/* Changes the key of the table. Call without a session: then the table has only attached slots. */
static void rekey_slots(struct kn_fetcher *fetcher, int by_id)
{
    if (fetcher->by_id == by_id) return;
    fetcher->by_id = by_id;
    if (fetcher->bucket_count) relink_all(fetcher);
}

static void drop_forgotten(struct kn_fetcher *fetcher)
{
    struct kn_list *node;
    while ((node = kn_list_pop_front(&fetcher->forgotten))) {
        struct kn_fetch_slot *slot = KN_LIST_ENTRY(node, struct kn_fetch_slot, node);
        unlink_slot(fetcher, slot);
        free_slot(slot);
    }
    fetcher->forgotten_count = 0;
}

/* --- creation and end --- */

void kn_fetcher_init(struct kn_fetcher *fetcher, struct kn_broker *broker,
                     struct kn_consumer *consumer)
{
    memset(fetcher, 0, sizeof *fetcher);
    fetcher->broker = broker;
    fetcher->consumer = consumer;
    fetcher->fetch_version = -1;
    fetcher->session_serial = 1;
    fetcher->expansion = EXPANSION_GUESS;
    kn_list_init(&fetcher->slots);
    kn_list_init(&fetcher->changed);
    kn_list_init(&fetcher->leaving);
    kn_list_init(&fetcher->forgotten);
}

void kn_fetcher_deinit(struct kn_fetcher *fetcher)
{
    for (int32_t i = fetcher->job_next; i < fetcher->job_count; i++)
        kn_fetch_job_deinit(&fetcher->jobs[i]);
    free(fetcher->jobs);
    struct kn_list *node;
    drop_forgotten(fetcher);
    while ((node = kn_list_pop_front(&fetcher->slots)))
        free_slot(KN_LIST_ENTRY(node, struct kn_fetch_slot, node));
    free(fetcher->buckets);
    kn_fetcher_init(fetcher, fetcher->broker, fetcher->consumer);
}

/* Drops the session: the next request is a full one with every slot. A response in flight doesn't
 * revive the session. */
static void reset_session(struct kn_fetcher *fetcher)
{
    fetcher->session_reset_serial = fetcher->serial;
    fetcher->session_id = 0;
    fetcher->session_epoch = SESSION_EPOCH_FULL;
    fetcher->session_serial++;
    drop_forgotten(fetcher);
}

void kn_fetcher_on_down(struct kn_fetcher *fetcher)
{
    fetcher->in_flight = 0;
    fetcher->fetch_version = -1;
    reset_session(fetcher);
}

bool kn_fetcher_wants_connection(const struct kn_fetcher *fetcher)
{
    return fetcher->slot_count > 0;
}

/* --- slots --- */

/* Sets whether the slot rests. */
static void set_resting(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot)
{
    fetcher->resting_count -= slot->resting;
    slot->resting = kn_cursor_rests(slot->cursor, fetcher->broker);
    fetcher->resting_count += slot->resting;
    list_slot(fetcher, slot);
}

void kn_fetcher_wake(struct kn_fetcher *fetcher, const struct kn_cursor *cursor)
{
    struct kn_fetch_slot *slot = find_cursor(fetcher, cursor);
    if (slot && slot->resting) set_resting(fetcher, slot);
}

void kn_fetcher_wake_all(struct kn_fetcher *fetcher)
{
    for (struct kn_list *node = fetcher->slots.next; node != &fetcher->slots; node = node->next) {
        struct kn_fetch_slot *slot = KN_LIST_ENTRY(node, struct kn_fetch_slot, node);
        if (slot->resting) set_resting(fetcher, slot);
    }
}

static struct kn_fetch_slot *new_slot(struct kn_fetcher *fetcher, struct kn_cursor *cursor)
{
    struct kn_fetch_slot *slot = calloc(1, sizeof *slot);
    if (!slot) return NULL;
    slot->cursor = kn_cursor_ref(cursor);
    slot->max_bytes = fetcher->consumer->config->partition_fetch_bytes;
    kn_list_init(&slot->node);
    kn_list_init(&slot->list_node);
    /* If the session still has it from an earlier attach, the next request must move it, not remove
     * it. */
    if (replace_forgotten(fetcher, cursor)) slot->session = fetcher->session_serial;
    if (add_slot(fetcher, slot) == KN_OK) return slot;
    free_slot(slot);
    return NULL;
}

int kn_fetcher_attach(struct kn_fetcher *fetcher, struct kn_cursor *cursor, uint32_t epoch,
                      int64_t offset, int32_t leader_epoch)
{
    struct kn_fetch_slot *slot = find_cursor(fetcher, cursor);
    if (slot && (int32_t)(epoch - slot->epoch) < 0) return KN_OK; /* a newer attach came first */
    if (!slot && !(slot = new_slot(fetcher, cursor))) return KN_ERR_NOMEM;
    slot->epoch = epoch;
    slot->offset = offset;
    kn_note(&cursor->fetch_offset, offset);
    slot->leader_epoch = leader_epoch;
    slot->sent_offset = KN_OFFSET_UNKNOWN;
    slot->eof_offset = KN_OFFSET_UNKNOWN;
    slot->ignore_through = fetcher->serial;
    /* In a session the broker answers only for changed partitions. So the end of a partition that
     * was moved to its end would never be reported. */
    if (fetcher->consumer->config->partition_eof && slot_in_session(fetcher, slot))
        reset_session(fetcher);
    set_resting(fetcher, slot);
    return KN_OK;
}

void kn_fetcher_detach(struct kn_fetcher *fetcher, struct kn_cursor *cursor)
{
    struct kn_fetch_slot *slot = find_cursor(fetcher, cursor);
    if (!slot) return;
    remove_slot(fetcher, slot);
    if (fetcher->slot_count == 0) reset_session(fetcher);
}

/* --- opening results --- */

static void post_cursor_event(struct kn_fetcher *fetcher, enum kn_event_kind kind,
                              const struct kn_fetch_job *job, int status, int64_t offset)
{
    struct kn_event *event = kn_event_new(&fetcher->broker->client->control->spare_events, kind,
                                          fetcher->broker->handle);
    /* no memory: the slot is gone, and the control plane's own check finds it */
    if (!event) return;
    event->token = job->cursor->token;
    event->partition = job->cursor->partition;
    event->epoch = job->epoch;
    event->offset = offset;
    event->status = status;
    event->error_code = job->result.error_code;
    event->leader_id = kind == KN_EVENT_REPLICA ? job->result.preferred_read_replica
                                                : job->result.leader_id;
    event->leader_epoch = job->result.leader_epoch;
    kn_client_post_event(fetcher->broker->client, event);
}

static void push_segment(struct kn_fetcher *fetcher, struct kn_segment *segment)
{
    fetcher->broker->client->on->fetched(fetcher->broker->client->owner, segment);
}

/* Stops the slot. The event has the offset and the reason. The control plane may start the slot
 * again. */
static void stop_slot(struct kn_fetcher *fetcher, enum kn_event_kind kind,
                      const struct kn_fetch_job *job, int status, int64_t offset)
{
    struct kn_fetch_slot *slot = find_cursor(fetcher, job->cursor);
    /* attached again meanwhile: the event is out of date */
    if (!slot || slot->epoch != job->epoch) return;
    kn_fetcher_detach(fetcher, job->cursor);
    post_cursor_event(fetcher, kind, job, status, offset);
}

static void fail_job(struct kn_fetcher *fetcher, const struct kn_fetch_job *job, int status,
                     int64_t offset, int64_t next_offset)
{
    struct kn_segment *segment = kn_segment_new(KN_SEGMENT_ERROR, job->cursor, job->epoch, 0);
    if (segment) {
        segment->status = status;
        segment->fetch_offset = offset;
        segment->next_offset = next_offset;
        push_segment(fetcher, segment);
    }
    stop_slot(fetcher, KN_EVENT_CURSOR, job, status, offset);
    /* Later results of this slot aren't delivered: they will be fetched again. */
    for (int32_t i = fetcher->job_next; i < fetcher->job_count; i++) {
        struct kn_fetch_job *later = &fetcher->jobs[i];
        if (later != job && later->cursor == job->cursor && later->epoch == job->epoch)
            later->is_void = 1;
    }
}

static void report_end(struct kn_fetcher *fetcher, const struct kn_fetch_job *job)
{
    int8_t isolation = fetcher->consumer->config->isolation_level;
    int64_t end = isolation ? job->result.last_stable_offset : job->result.high_watermark;
    struct kn_fetch_slot *slot = find_cursor(fetcher, job->cursor);
    if (!slot || slot->epoch != job->epoch || end < 0 || job->next_offset < end ||
        slot->eof_offset == job->next_offset)
        return;
    if (fetcher->consumer->config->partition_eof_when_empty && job->result.records_bytes > 0)
        return;
    struct kn_segment *segment = kn_segment_new(KN_SEGMENT_EOF, job->cursor, job->epoch, 0);
    if (!segment) return; /* reported again with the next empty response */
    slot->eof_offset = job->next_offset;
    segment->fetch_offset = segment->next_offset = job->next_offset;
    push_segment(fetcher, segment);
}

/* Opens the next part of the job. Returns whether it was the last. */
static int open_job(struct kn_fetcher *fetcher, struct kn_fetch_job *job)
{
    /* out of date already */
    if (job->is_void ||
        job->epoch != atomic_load_explicit(&job->cursor->epoch, memory_order_acquire))
        return 1;
    struct kn_segment *data;
    int64_t failed_offset, next_offset;
    int status = kn_fetch_job_open(job, &data, &failed_offset, &next_offset);
    if (data) fetcher->opened_to_bytes += data->size_bytes;
    if (data) push_segment(fetcher, data);
    if (job->is_done) fetcher->opened_from_bytes += (int64_t)job->result.records_bytes;
    if (status != KN_OK) fail_job(fetcher, job, status, failed_offset, next_offset);
    else if (job->is_done && fetcher->consumer->config->partition_eof) report_end(fetcher, job);
    return job->is_done;
}

/* Rises at once, so that the queue's limit holds, and falls slowly. */
static void note_expansion(struct kn_fetcher *fetcher)
{
    if (fetcher->opened_to_bytes > 0 && fetcher->opened_from_bytes > 0) {
        int64_t now = fetcher->opened_to_bytes * EXPANSION_ONE / fetcher->opened_from_bytes;
        if (now < EXPANSION_ONE) now = EXPANSION_ONE;
        fetcher->expansion = now > fetcher->expansion ? now : (3 * fetcher->expansion + now) / 4;
    }
    fetcher->opened_from_bytes = fetcher->opened_to_bytes = 0;
}

/* Returns whether the queue is full. If so, sets `starved`, and the thread that frees segments
 * wakes this thread. */
static int queue_is_full(struct kn_fetcher *fetcher)
{
    struct kn_consumer *consumer = fetcher->consumer;
    if (atomic_load(&consumer->queued_bytes) < consumer->config->queued_max_bytes) return 0;
    atomic_store(&consumer->starved, 1);
    /* The application may have emptied the queue between the two lines above without seeing the
     * flag: check again. */
    return atomic_load(&consumer->queued_bytes) >= consumer->config->queued_max_bytes;
}

/* Opens results while the queue has room, and not much more than max_bytes. Returns whether the
 * queue is full. */
static int open_jobs(struct kn_fetcher *fetcher, int64_t max_bytes)
{
    int64_t stop_bytes = fetcher->opened_to_bytes + max_bytes;
    while (fetcher->job_next < fetcher->job_count) {
        if (fetcher->opened_to_bytes >= stop_bytes) return 0;
        if (queue_is_full(fetcher)) return 1;
        struct kn_fetch_job *job = &fetcher->jobs[fetcher->job_next];
        if (!open_job(fetcher, job)) continue;
        fetcher->job_bytes -= (int64_t)job->result.records_bytes;
        kn_fetch_job_deinit(job);
        fetcher->job_next++;
    }
    fetcher->job_next = fetcher->job_count = 0;
    note_expansion(fetcher);
    return 0;
}

/* --- the response --- */

static struct kn_fetch_job *add_job(struct kn_fetcher *fetcher)
{
    if (fetcher->job_count == fetcher->job_capacity && fetcher->job_next) {
        memmove(fetcher->jobs, fetcher->jobs + fetcher->job_next,
                (size_t)(fetcher->job_count - fetcher->job_next) * sizeof fetcher->jobs[0]);
        fetcher->job_count -= fetcher->job_next;
        fetcher->job_next = 0;
    }
    if (fetcher->job_count == fetcher->job_capacity) {
        int32_t capacity = fetcher->job_capacity ? fetcher->job_capacity * 2 : 16;
        struct kn_fetch_job *jobs = realloc(fetcher->jobs, (size_t)capacity * sizeof jobs[0]);
        if (!jobs) return NULL;
        fetcher->jobs = jobs;
        fetcher->job_capacity = capacity;
    }
    return &fetcher->jobs[fetcher->job_count++];
}

static void note_offsets(struct kn_cursor *cursor, uint32_t epoch,
                         const struct kn_fetch_result *result)
{
    atomic_store_explicit(&cursor->answered_epoch, epoch, memory_order_relaxed);
    atomic_store_explicit(&cursor->high_watermark, result->high_watermark, memory_order_relaxed);
    atomic_store_explicit(&cursor->last_stable_offset, result->last_stable_offset,
                          memory_order_relaxed);
    if (result->log_start_offset >= 0)
        atomic_store_explicit(&cursor->log_start_offset, result->log_start_offset,
                              memory_order_relaxed);
}

static void note_progress(struct kn_cursor *cursor, const struct kn_fetch_job *job)
{
    kn_note(&cursor->fetch_offset, job->next_offset);
    if (job->next_offset >= job->result.high_watermark)
        kn_note(&cursor->eof_offset, job->next_offset);
}

/* A broker since 0.10.1 sends a batch whole even if it is larger than the request allows. An older
 * one sends it only for a larger request. */
static void grow_slot_max_bytes(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot,
                                size_t wanted_bytes)
{
    size_t receive_max_bytes = fetcher->broker->client->config->connection.receive_max_bytes;
    if (wanted_bytes <= (size_t)slot->max_bytes || wanted_bytes > receive_max_bytes) return;
    slot->max_bytes = (int32_t)wanted_bytes;
    slot->sent_offset = KN_OFFSET_UNKNOWN;
}

/* KIP-392: if there is a closer replica, the leader responds with its id and without records. */
static int prefers_replica(const struct kn_fetcher *fetcher, const struct kn_fetch_result *result)
{
    return !result->error_code && result->preferred_read_replica >= 0 &&
           result->preferred_read_replica != fetcher->broker->node_id && result->records_bytes == 0;
}

static void log_result(const struct kn_fetcher *fetcher, const struct kn_fetch_slot *slot,
                       const struct kn_fetch_result *result)
{
    struct kn_log *log = &fetcher->broker->client->log;
    if (!kn_log_is_on(log, KN_LOG_FETCH)) return;
    kn_log_write(log, KN_LOG_FETCH, fetcher->broker->handle, -1,
                 "%.*s [%d]: %zu bytes from offset %lld on, high watermark %lld, error %d",
                 slot->cursor->topic_bytes < 80 ? (int)slot->cursor->topic_bytes : 80,
                 slot->cursor->topic, (int)result->partition, result->records_bytes,
                 (long long)slot->offset, (long long)result->high_watermark, result->error_code);
}

static int take_result(struct kn_fetcher *fetcher, const struct kn_fetch_response *response,
                       const struct kn_fetch_result *result, struct kn_chunk *chunk,
                       uint32_t serial)
{
    struct kn_fetch_slot *slot = fetcher->by_id
                                     ? find_slot(fetcher, response->topic_id, 16, result->partition)
                                     : find_slot(fetcher, response->topic,
                                                 (size_t)response->topic_bytes, result->partition);
    /* detached or moved meanwhile */
    if (!slot || (int32_t)(serial - slot->ignore_through) <= 0) return KN_OK;
    log_result(fetcher, slot, result);
    if (!result->error_code) note_offsets(slot->cursor, slot->epoch, result);
    int elsewhere = prefers_replica(fetcher, result);
    if (result->error_code || elsewhere) {
        struct kn_fetch_job job = {.cursor = slot->cursor,
                                   .epoch = slot->epoch,
                                   .offset = slot->offset,
                                   .result = *result};
        kn_cursor_ref(job.cursor); /* stop_slot() drops the slot's reference */
        stop_slot(fetcher, elsewhere ? KN_EVENT_REPLICA : KN_EVENT_CURSOR, &job, KN_OK, job.offset);
        kn_cursor_unref(job.cursor);
        return KN_OK;
    }
    if (result->records_bytes == 0 && slot->offset >= result->high_watermark)
        kn_note(&slot->cursor->eof_offset, slot->offset);
    if (result->records_bytes == 0 && !fetcher->consumer->config->partition_eof) return KN_OK;
    struct kn_fetch_job *job = add_job(fetcher);
    if (!job) return KN_ERR_NOMEM;
    *job = (struct kn_fetch_job){.cursor = kn_cursor_ref(slot->cursor),
                                 .epoch = slot->epoch,
                                 .offset = slot->offset,
                                 .version = response->version,
                                 .chunk = kn_chunk_ref(chunk),
                                 .result = *result};
    grow_slot_max_bytes(fetcher, slot, kn_fetch_job_scan(job));
    if (job->is_partial) kn_count(&fetcher->broker->partial_batches, 1);
    slot->offset = job->next_offset;
    note_progress(slot->cursor, job);
    fetcher->job_bytes += (int64_t)result->records_bytes;
    /* A full request lists partitions in this order: one that has got records goes to the end. */
    kn_list_remove(&slot->node);
    kn_list_push_back(&fetcher->slots, &slot->node);
    set_resting(fetcher, slot);
    return KN_OK;
}

static int take_response(struct kn_fetcher *fetcher, struct kn_chunk *chunk, struct kn_span body,
                         int16_t version, uint32_t serial, int64_t now_us)
{
    struct kn_fetch_response response;
    int status = kn_fetch_response_open(&response, body, version);
    if (status != KN_OK) return status;
    if (response.throttle_ms > 0) {
        fetcher->not_before_us = now_us + kn_throttle_us(response.throttle_ms);
        struct kn_event *event = kn_event_throttled(&fetcher->broker->client->control->spare_events,
                                                    fetcher->broker->handle, KN_API_FETCH,
                                                    response.throttle_ms);
        if (event) kn_client_post_event(fetcher->broker->client, event);
    }
    if (response.error_code) {
        reset_session(fetcher);
        /* The first retry comes at once. Later ones wait, because a broker may refuse every
         * session. */
        int is_first = now_us - fetcher->session_failed_us >=
                       (int64_t)fetcher->consumer->config->fetch_error_backoff_ms * 1000;
        int session_error = response.error_code == KN_KAFKA_FETCH_SESSION_ID_NOT_FOUND ||
                            response.error_code == KN_KAFKA_INVALID_FETCH_SESSION_EPOCH ||
                            response.error_code == KN_KAFKA_FETCH_SESSION_TOPIC_ID_ERROR;
        if (session_error) fetcher->session_failed_us = now_us;
        return session_error && is_first ? KN_OK : KN_ERR_STALE;
    }
    if (response.session_id == 0) {
        reset_session(fetcher); /* the broker has no room for another session */
    } else if ((int32_t)(serial - fetcher->session_reset_serial) > 0) {
        fetcher->session_id = response.session_id;
        fetcher->session_epoch = fetcher->session_epoch == INT32_MAX ? 1
                                                                     : fetcher->session_epoch + 1;
    }
    struct kn_fetch_result result;
    while ((status = kn_fetch_response_next(&response, &result)) == 1)
        if (take_result(fetcher, &response, &result, chunk, serial) != KN_OK) return KN_ERR_NOMEM;
    return status;
}

static void on_fetch_done(struct kn_request *request, int status, struct kn_chunk *chunk,
                          struct kn_span body)
{
    struct fetch_request *fetch = KN_LIST_ENTRY(request, struct fetch_request, request);
    struct kn_fetcher *fetcher = request->context;
    int64_t now_us = kn_clock_us();
    uint32_t serial = fetch->serial;
    int16_t version = request->api_version;
    kn_buffer_give(fetch->frame);
    free(fetch);

    open_jobs(fetcher, INT32_MAX); /* the broker was very quick: open the earlier results first */
    fetcher->in_flight = 0;
    if (status == KN_OK) status = take_response(fetcher, chunk, body, version, serial, now_us);
    if (status == KN_OK) return;
    reset_session(fetcher);
    fetcher->not_before_us = now_us +
                             (int64_t)fetcher->consumer->config->fetch_error_backoff_ms * 1000;
}

/* --- the request --- */

/* A broker is idle between two requests, so small responses waste its time. If few partitions share
 * a response, each may fill more of it. */
static int32_t partition_max_bytes(const struct kn_fetcher *fetcher,
                                   const struct kn_fetch_slot *slot)
{
    int32_t share = fetcher->consumer->config->shared_fetch_bytes /
                    (fetcher->slot_count > 0 ? fetcher->slot_count : 1);
    return share > slot->max_bytes ? share : slot->max_bytes;
}

static struct kn_fetch_partition partition_of(const struct kn_fetcher *fetcher,
                                              const struct kn_fetch_slot *slot)
{
    const struct kn_cursor *cursor = slot->cursor;
    return (struct kn_fetch_partition){.topic = cursor->topic,
                                       .topic_bytes = cursor->topic_bytes,
                                       .topic_id = cursor->topic_id,
                                       .partition = cursor->partition,
                                       .leader_epoch = slot->leader_epoch,
                                       .offset = slot->offset,
                                       .max_bytes = partition_max_bytes(fetcher, slot)};
}

/* Collects the slots to add to the session, and those to remove from it. Both arrays
 * are in one allocation at *out, which the caller frees. */
static int collect(struct kn_fetcher *fetcher, struct kn_fetch_request *request,
                   struct kn_fetch_partition **out)
{
    int full = fetcher->session_epoch == SESSION_EPOCH_FULL;
    if (full) drop_forgotten(fetcher);
    size_t count_max = full ? (size_t)fetcher->slot_count
                            : (size_t)fetcher->changed_count + (size_t)fetcher->leaving_count +
                                  (size_t)fetcher->forgotten_count;
    *out = malloc((count_max + 1) * sizeof **out);
    if (!*out) return KN_ERR_NOMEM;
    struct kn_fetch_partition *to = *out;
    struct kn_list *node;
    for (node = fetcher->slots.next; full && node != &fetcher->slots; node = node->next) {
        const struct kn_fetch_slot *slot = KN_LIST_ENTRY(node, struct kn_fetch_slot, node);
        if (!slot->resting) *to++ = partition_of(fetcher, slot);
    }
    for (node = fetcher->changed.next; !full && node != &fetcher->changed; node = node->next)
        *to++ = partition_of(fetcher, KN_LIST_ENTRY(node, struct kn_fetch_slot, list_node));
    request->partitions = *out;
    request->partition_count = (int32_t)(to - *out);
    request->forgotten = to;
    for (node = fetcher->forgotten.next; !full && node != &fetcher->forgotten; node = node->next)
        *to++ = partition_of(fetcher, KN_LIST_ENTRY(node, struct kn_fetch_slot, node));
    for (node = fetcher->leaving.next; !full && node != &fetcher->leaving; node = node->next)
        *to++ = partition_of(fetcher, KN_LIST_ENTRY(node, struct kn_fetch_slot, list_node));
    request->forgotten_count = (int32_t)(to - request->forgotten);
    return KN_OK;
}

static void mark_slot_sent(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot)
{
    slot->sent_offset = slot->resting ? KN_OFFSET_UNKNOWN : slot->offset;
    slot->session = slot->resting || fetcher->fetch_version < KN_FETCH_SESSION_SINCE
                        ? 0
                        : fetcher->session_serial;
    unlist_slot(fetcher, slot);
}

static void mark_sent(struct kn_fetcher *fetcher)
{
    struct kn_list *node;
    if (fetcher->session_epoch == SESSION_EPOCH_FULL)
        for (node = fetcher->slots.next; node != &fetcher->slots; node = node->next)
            mark_slot_sent(fetcher, KN_LIST_ENTRY(node, struct kn_fetch_slot, node));
    while ((node = kn_list_first(&fetcher->changed)))
        mark_slot_sent(fetcher, KN_LIST_ENTRY(node, struct kn_fetch_slot, list_node));
    while ((node = kn_list_first(&fetcher->leaving)))
        mark_slot_sent(fetcher, KN_LIST_ENTRY(node, struct kn_fetch_slot, list_node));
    drop_forgotten(fetcher);
}

static struct fetch_request *encode_request(struct kn_fetcher *fetcher,
                                            const struct kn_fetch_request *body)
{
    struct kn_consumer *consumer = fetcher->consumer;
    struct fetch_request *fetch = calloc(1, sizeof *fetch);
    if (!fetch) return NULL;
    fetch->frame = kn_buffer_take(consumer->client->pool,
                                  KN_FRAME_HEADER_MAX_BYTES +
                                      sizeof consumer->client->config->client_id);
    if (!fetch->frame) {
        free(fetch);
        return NULL;
    }
    int flexible = body->version >= KN_FETCH_FLEXIBLE_SINCE;
    fetch->frame->size_bytes = kn_frame_header_write(fetch->frame->data, KN_API_FETCH,
                                                     body->version,
                                                     consumer->client->config->client_id, flexible);
    if (kn_fetch_request_encode(body, &fetch->frame) != KN_OK) {
        kn_buffer_give(fetch->frame);
        free(fetch);
        return NULL;
    }
    fetch->piece = (struct iovec){fetch->frame->data, fetch->frame->size_bytes};
    kn_list_init(&fetch->request.node);
    fetch->request.api_key = KN_API_FETCH;
    fetch->request.api_version = body->version;
    fetch->request.flags = flexible ? KN_REQUEST_FLEXIBLE_REPLY : 0;
    fetch->request.pieces = &fetch->piece;
    fetch->request.piece_count = 1;
    fetch->request.frame_bytes = fetch->frame->size_bytes;
    fetch->request.on_done = on_fetch_done;
    fetch->request.context = fetcher;
    return fetch;
}

/* Uses topic ids from version 13 on if every topic has one. The session restarts when that changes.
 */
static int16_t choose_version(struct kn_fetcher *fetcher)
{
    int16_t version = fetcher->fetch_version;
    if (version > KN_FETCH_VERSION_MAX) version = KN_FETCH_VERSION_MAX;
    if (fetcher->idless_count && version >= KN_FETCH_TOPIC_ID_SINCE)
        version = KN_FETCH_TOPIC_ID_SINCE - 1;
    int by_id = version >= KN_FETCH_TOPIC_ID_SINCE;
    if (by_id != fetcher->by_id) {
        reset_session(fetcher);
        rekey_slots(fetcher, by_id);
    }
    return version;
}

/* Small enough that the opened response fits into the queue, and large enough to be worth a
 * request. */
static int64_t response_max_bytes(struct kn_fetcher *fetcher, int64_t room_bytes)
{
    struct kn_consumer *consumer = fetcher->consumer;
    int fetchers = atomic_load_explicit(&consumer->fetcher_count, memory_order_relaxed);
    int64_t share_bytes = consumer->config->queued_max_bytes / UNDER_WAY_PART /
                          (fetchers > 0 ? fetchers : 1);
    int64_t max_bytes = room_bytes < share_bytes ? room_bytes : share_bytes;
    if (max_bytes < OPENED_MIN_BYTES) max_bytes = OPENED_MIN_BYTES;
    max_bytes = max_bytes * EXPANSION_ONE / fetcher->expansion;
    if (max_bytes < RESPONSE_MIN_BYTES) max_bytes = RESPONSE_MIN_BYTES;
    return max_bytes < RESPONSE_MAX_BYTES ? max_bytes : RESPONSE_MAX_BYTES;
}

static int send_fetch(struct kn_fetcher *fetcher, int64_t room_bytes, int64_t now_us)
{
    const struct kn_fetch_config *config = fetcher->consumer->config;
    int16_t version = choose_version(fetcher); /* may restart the session */
    struct kn_fetch_request body = {.version = version,
                                    .max_wait_ms = config->fetch_wait_max_ms,
                                    .min_bytes = config->fetch_min_bytes,
                                    .isolation_level = config->isolation_level,
                                    .session_id = fetcher->session_id,
                                    .session_epoch = fetcher->session_epoch,
                                    .rack = config->rack};
    /* In a session the broker doesn't answer for a partition that was moved to its end. */
    if (config->partition_eof && config->partition_eof_when_empty)
        body.session_epoch = SESSION_EPOCH_NONE;
    if (fetcher->resting_count && body.max_wait_ms > WAIT_WHILE_RESTING_MAX_MS)
        body.max_wait_ms = WAIT_WHILE_RESTING_MAX_MS;
    int64_t response_bytes = response_max_bytes(fetcher, room_bytes);
    body.max_bytes = response_bytes < config->fetch_max_bytes ? (int32_t)response_bytes
                                                              : config->fetch_max_bytes;

    struct kn_fetch_partition *partitions = NULL;
    struct fetch_request *fetch = NULL;
    if (collect(fetcher, &body, &partitions) == KN_OK) fetch = encode_request(fetcher, &body);
    free(partitions);
    if (!fetch) {
        fetcher->not_before_us = now_us + (int64_t)config->fetch_error_backoff_ms * 1000;
        return KN_ERR_NOMEM;
    }
    if (kn_log_is_on(&fetcher->broker->client->log, KN_LOG_FETCH)) {
        kn_log_write(
            &fetcher->broker->client->log, KN_LOG_FETCH, fetcher->broker->handle, -1,
            "fetch of %d partition(s), %d new or changed and %d removed (session %d, epoch %d), "
            "%d rest with enough queued; at most %d bytes within %d ms",
            (int)fetcher->slot_count, (int)body.partition_count, (int)body.forgotten_count,
            (int)body.session_id, (int)body.session_epoch, (int)fetcher->resting_count,
            (int)body.max_bytes, (int)body.max_wait_ms);
    }
    mark_sent(fetcher);
    fetch->serial = ++fetcher->serial;
    fetch->request.deadline_us = now_us + ((int64_t)config->fetch_wait_max_ms +
                                           fetcher->broker->client->config->request_timeout_ms) *
                                              1000;
    fetcher->in_flight = 1;
    kn_broker_send(fetcher->broker, &fetch->request, now_us);
    return KN_OK;
}

/* Returns how many bytes may still be fetched. If 0, sets `starved`, and the thread that frees
 * segments wakes this thread. */
static int64_t room_left_bytes(struct kn_fetcher *fetcher)
{
    struct kn_consumer *consumer = fetcher->consumer;
    int64_t limit = consumer->config->queued_max_bytes -
                    fetcher->job_bytes * fetcher->expansion / EXPANSION_ONE;
    int64_t left = limit - atomic_load(&consumer->queued_bytes);
    if (left > 0) return left;
    atomic_store(&consumer->starved, 1);
    if (kn_log_is_on(&consumer->client->log, KN_LOG_FETCH)) {
        kn_log_write(&consumer->client->log, KN_LOG_FETCH, fetcher->broker->handle, -1,
                     "no fetch: %lld bytes wait to be consumed (queued.max.messages.kbytes)",
                     (long long)atomic_load(&consumer->queued_bytes));
    }
    /* The application may have emptied the queue between the two lines above without seeing the
     * flag: check again. */
    left = limit - atomic_load(&consumer->queued_bytes);
    return left > 0 ? left : 0;
}

int64_t kn_fetcher_step(struct kn_fetcher *fetcher, int64_t now_us)
{
    int sent = 0;
    int64_t next_us = KN_NEVER;
    /* An application that has read everything waits for these few messages. */
    if (fetcher->job_next < fetcher->job_count && fetcher->job_bytes <= OPEN_FIRST_BYTES)
        open_jobs(fetcher, OPEN_BYTES);
    if (!fetcher->in_flight && fetcher->slot_count > fetcher->resting_count &&
        fetcher->fetch_version >= KN_FETCH_VERSION_MIN) {
        int64_t left;
        if (fetcher->not_before_us > now_us) {
            next_us = fetcher->not_before_us;
        } else if ((left = room_left_bytes(fetcher)) > 0) {
            sent = send_fetch(fetcher, left, now_us) == KN_OK;
            if (!sent) next_us = fetcher->not_before_us;
        }
    }
    if (fetcher->job_next == fetcher->job_count) return next_us;
    if (sent) return now_us; /* send the request before opening larger results */
    int is_full = open_jobs(fetcher, OPEN_BYTES);
    /* a full queue wakes this thread when it has room */
    if (fetcher->job_next < fetcher->job_count) return is_full ? KN_NEVER : now_us;
    return fetcher->in_flight ? KN_NEVER : now_us;
}
