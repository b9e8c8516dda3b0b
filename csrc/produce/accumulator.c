/* A partition that is produced to. See accumulator.h.
 *
 * How an append works: all allocations happen without the lock. append_ready() checks under the
 * lock whether the record can be appended now. If a batch, a larger buffer or room for opaques is
 * missing, append_allocate() allocates it without the lock. Then the loop checks again, because
 * another thread may have filled, completed or expired the batch meanwhile. */
#include "produce/accumulator.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "base/kafka_errors.h"
#include "base/planted.h"
#include "base/status.h"
#include "net/broker.h"
#include "produce/message.h"
#include "produce/producer.h"

/* small, because ten thousand partitions with little traffic have a buffer each */
#define FIRST_BUFFER_BYTES ((size_t)16 << 10)
#define SMALLEST_BUFFER_BYTES ((size_t)1 << 10)
#define FIRST_OPAQUES 32
/* a batch waits for a later one only so long; else a broker that never answers the later one would
 * hold it up */
#define REFUSALS_MAX 3
/* approximate time between the first and the last record of a staged batch */
#define STAGED_SPAN_US 500000
/* more than the records of a batch, so that the parts of a split batch get ids in between */
#define ID_STRIDE ((int64_t)1 << 20)

enum need { NEED_NOTHING, NEED_BATCH, NEED_BUFFER, NEED_ARRAYS };

/* Memory that was allocated without the lock, for use under it. */
struct spare {
    struct kn_batch *batch;
    struct kn_buffer *buffer;
    void **opaques;
    int32_t *partitions;
    int32_t array_capacity;
    int used; /* an allocation was made; nearly every append needs none */
    int64_t now_us;
};

/* The allocation that is needed, noted under the lock. */
struct want {
    size_t buffer_bytes;
    int32_t array_capacity;
};

const uint8_t kn_no_topic_id[16];

static inline const struct kn_produce_config *config_of(const struct kn_accumulator *accumulator)
{
    return accumulator->producer->config;
}

void kn_accumulator_init(struct kn_accumulator *accumulator, struct kn_producer *producer,
                         struct kn_topic *topic, uint64_t topic_token, int32_t partition)
{
    const struct kn_produce_config *config = producer->config;
    memset(accumulator, 0, sizeof *accumulator);
    atomic_init(&accumulator->leader, NULL);
    atomic_init(&accumulator->batches, 0);
    accumulator->producer = producer;
    accumulator->config = config;
    accumulator->topic = topic;
    accumulator->topic_token = topic_token;
    accumulator->partition = partition;
    int32_t limit = config->batch_bytes < config->message_max_bytes ? config->batch_bytes
                                                                    : config->message_max_bytes;
    accumulator->batch_limit_bytes = limit > 0 ? (size_t)limit : 1;
    kn_mutex_init(&accumulator->lock, partition == KN_STAGING ? KN_RANK_TOPIC : KN_RANK_LEAF);
    accumulator->leader_epoch = -1;
    kn_list_init(&accumulator->waiting);
    accumulator->next_id = 1;
    accumulator->notified_us = KN_NEVER;
    accumulator->buffer_hint_bytes = FIRST_BUFFER_BYTES;
    accumulator->opaque_hint = FIRST_OPAQUES;
    accumulator->sequence.id = accumulator->sequence.granted_id = -1;
    accumulator->sequence.written_id = accumulator->sequence.failed_id = -1;
    accumulator->sequence.excused_id = accumulator->sequence.written_end = -1;
    kn_list_init(&accumulator->sequence.unsettled);
    kn_list_init(&accumulator->sequence.held);
}

void kn_accumulator_deinit(struct kn_accumulator *accumulator)
{
    struct kn_list *node;
    while ((node = kn_list_pop_front(&accumulator->waiting)))
        kn_batch_free(KN_LIST_ENTRY(node, struct kn_batch, node));
    while ((node = kn_list_pop_front(&accumulator->sequence.held)))
        kn_batch_free(KN_LIST_ENTRY(node, struct kn_batch, node));
    kn_batch_free(accumulator->open);
    kn_mutex_deinit(&accumulator->lock);
}

void kn_notice_send(const struct kn_notice *notice, struct kn_accumulator *accumulator)
{
    if (notice->broker) kn_broker_notify(notice->broker, accumulator, notice->at_us);
}

/* Under lock. */
static void count_batches(struct kn_accumulator *accumulator, int more)
{
    int batches = atomic_load_explicit(&accumulator->batches, memory_order_relaxed);
    atomic_store_explicit(&accumulator->batches, batches + more, memory_order_relaxed);
}

/* Under lock: the leader should check at `at_us`. Sets *notice unless an earlier check is
 * due. */
static void request_check(struct kn_accumulator *accumulator, int64_t at_us,
                          struct kn_notice *notice)
{
    struct kn_broker *leader = kn_accumulator_leader(accumulator);
    if (!leader || at_us >= accumulator->notified_us) return;
    accumulator->notified_us = at_us;
    notice->broker = leader;
    notice->at_us = at_us;
}

/* Under lock: returns when an open batch is due. */
static int64_t open_due_us(const struct kn_accumulator *accumulator)
{
    const struct kn_batch *batch = accumulator->open;
    const struct kn_producer *producer = accumulator->producer;
    if (atomic_load_explicit(&producer->flushing, memory_order_relaxed) > 0)
        return batch->created_us;
    return batch->created_us + producer->config->linger_us;
}

/* Under lock: closes the open batch for more records. */
static struct kn_batch *close_open(struct kn_accumulator *accumulator)
{
    struct kn_batch *batch = accumulator->open;
    size_t size = batch->plain->size_bytes;
    /* shrinks slowly after a burst */
    size_t hint = accumulator->buffer_hint_bytes - accumulator->buffer_hint_bytes / 4;
    if (size > hint) hint = size;
    if (hint > accumulator->batch_limit_bytes / 2) hint = accumulator->batch_limit_bytes;
    accumulator->buffer_hint_bytes = hint < SMALLEST_BUFFER_BYTES ? SMALLEST_BUFFER_BYTES : hint;
    if (batch->opaques) accumulator->opaque_hint = batch->writer.record_count;
    accumulator->open = NULL;
    accumulator->closed_messages += batch->writer.record_count;
    return batch;
}

static void complete_open(struct kn_accumulator *accumulator, struct kn_notice *notice)
{
    struct kn_batch *batch = close_open(accumulator);
    kn_list_push_back(&accumulator->waiting, &batch->node);
    notice->completed = 1;
    request_check(accumulator, batch->created_us, notice); /* a time in the past: at once */
}

/* --- append --- */

static inline int arrays_fit(const struct kn_accumulator *accumulator, const struct kn_batch *batch,
                             const struct kn_message *message)
{
    int wanted = batch->opaques || message->opaque;
    if (!wanted && accumulator->partition != KN_STAGING) return 1;
    if (batch->writer.record_count >= batch->opaque_capacity) return 0;
    return batch->opaques || !message->opaque;
}

static int32_t array_capacity_for(const struct kn_accumulator *accumulator, int32_t record_count)
{
    int32_t messages_max = config_of(accumulator)->batch_messages;
    int32_t capacity = accumulator->opaque_hint;
    if (capacity < FIRST_OPAQUES) capacity = FIRST_OPAQUES;
    if (capacity <= record_count)
        capacity = record_count > messages_max / 2 ? messages_max : record_count * 2;
    if (capacity > messages_max) capacity = messages_max;
    return capacity > record_count ? capacity : record_count + 1;
}

/* Under lock. */
static int64_t take_id(struct kn_accumulator *accumulator)
{
    int64_t id = accumulator->next_id;
    accumulator->next_id += ID_STRIDE;
    return id;
}

/* Under lock: checks that the record fits, with the help of *spare. Returns the missing kind of
 * memory. */
static enum need append_ready(struct kn_accumulator *accumulator, const struct kn_append *append,
                              struct spare *spare, struct want *want, struct kn_notice *notice)
{
    struct kn_batch *batch = accumulator->open;
    if (batch && batch->plain->size_bytes + append->bound_bytes > accumulator->batch_limit_bytes) {
        complete_open(accumulator, notice);
        batch = NULL;
    }
    if (!batch) {
        size_t needed_bytes = KN_BATCH_HEADER_BYTES + append->bound_bytes;
        if (!spare->batch || spare->batch->plain->capacity_bytes < needed_bytes) {
            want->buffer_bytes = accumulator->buffer_hint_bytes > needed_bytes
                                     ? accumulator->buffer_hint_bytes
                                     : needed_bytes;
            want->array_capacity = array_capacity_for(accumulator, 0);
            return NEED_BATCH;
        }
        batch = accumulator->open = spare->batch;
        spare->batch = NULL;
        count_batches(accumulator, 1);
        batch->id = take_id(accumulator);
        batch->accumulator = accumulator;
        batch->created_us = append->created_us ? append->created_us : spare->now_us;
        accumulator->used_us = batch->created_us;
        batch->created_ms = append->created_us ? append->created_ms : append->timestamp_ms;
    }
    struct kn_buffer *plain = batch->plain;
    if (plain->capacity_bytes - plain->size_bytes < append->bound_bytes) {
        size_t needed_bytes = plain->size_bytes + append->bound_bytes;
        if (!spare->buffer || spare->buffer->capacity_bytes < needed_bytes) {
            size_t twice = plain->capacity_bytes * 2;
            if (twice > accumulator->batch_limit_bytes) twice = accumulator->batch_limit_bytes;
            want->buffer_bytes = twice > needed_bytes ? twice : needed_bytes;
            return NEED_BUFFER;
        }
        memcpy(spare->buffer->data, plain->data, plain->size_bytes);
        spare->buffer->size_bytes = plain->size_bytes;
        batch->plain = spare->buffer;
        spare->buffer = plain;
    }
    if (!arrays_fit(accumulator, batch, append->message)) {
        want->array_capacity = array_capacity_for(accumulator, batch->writer.record_count);
        if (!spare->opaques || spare->array_capacity <= batch->writer.record_count)
            return NEED_ARRAYS;
        kn_batch_swap_arrays(batch, &spare->opaques, &spare->partitions, spare->array_capacity);
    }
    return NEED_NOTHING;
}

static int allocate_arrays(struct spare *spare, int32_t capacity, int staging)
{
    free(spare->opaques);
    free(spare->partitions);
    spare->partitions = NULL;
    spare->array_capacity = capacity;
    spare->opaques = calloc((size_t)capacity, sizeof *spare->opaques);
    if (staging) spare->partitions = calloc((size_t)capacity, sizeof *spare->partitions);
    return spare->opaques && (!staging || spare->partitions) ? KN_OK : KN_ERR_NOMEM;
}

/* Without lock: allocates the memory that append_ready() asked for. */
static int append_allocate(struct kn_accumulator *accumulator, const struct kn_append *append,
                           enum need need, const struct want *want, struct spare *spare)
{
    int staging = accumulator->partition == KN_STAGING;
    spare->used = 1;
    if (need == NEED_BUFFER) {
        kn_buffer_give(spare->buffer);
        spare->buffer = kn_buffer_take(accumulator->producer->client->pool, want->buffer_bytes);
        return spare->buffer ? KN_OK : KN_ERR_NOMEM;
    }
    if (need == NEED_ARRAYS) return allocate_arrays(spare, want->array_capacity, staging);
    kn_batch_free(spare->batch);
    spare->batch = kn_batch_new(accumulator->producer->client->pool, accumulator->topic,
                                accumulator->partition, want->buffer_bytes);
    if (!spare->batch) return KN_ERR_NOMEM;
    if (!append->created_us) spare->now_us = kn_clock_us();
    if (staging || append->message->opaque) {
        int status = allocate_arrays(spare, want->array_capacity, staging);
        if (status != KN_OK) return status;
        kn_batch_swap_arrays(spare->batch, &spare->opaques, &spare->partitions,
                             spare->array_capacity);
    }
    return KN_OK;
}

static void spare_deinit(struct spare *spare)
{
    kn_batch_free(spare->batch);
    kn_buffer_give(spare->buffer);
    free(spare->opaques);
    free(spare->partitions);
}

/* Under lock: keyless records move on after batch.size bytes, or at the end of a batch near that
 * point. The difference is carried over to the next time, so that on average every partition gets
 * the same number of bytes. */
static inline void count_stuck(struct kn_accumulator *accumulator, int64_t size_bytes,
                               struct kn_notice *notice)
{
    int64_t limit = (int64_t)accumulator->batch_limit_bytes;
    accumulator->stuck_bytes += size_bytes;
    if (accumulator->stuck_bytes < (notice->completed ? limit / 2 : limit + limit / 2)) return;
    accumulator->stuck_bytes -= limit;
    /* records larger than the limit, or the limit was lowered */
    if (accumulator->stuck_bytes > limit) accumulator->stuck_bytes = 0;
    notice->move_on = KN_MOVE_ON_NOW;
}

static inline int write_record(struct kn_batch_writer *writer, struct kn_buffer *buffer,
                               int64_t timestamp_ms, const struct kn_message *message)
{
    int32_t value_bytes = message->value ? message->value_bytes : -1;
    if (!message->key && !message->header_count)
        return kn_batch_writer_append_value(writer, buffer, timestamp_ms, message->value,
                                            value_bytes);
    return kn_batch_writer_append(writer, buffer, timestamp_ms, message->key,
                                  message->key ? message->key_bytes : -1, message->value,
                                  value_bytes, message->headers, message->headers_bytes,
                                  message->header_count);
}

/* Under lock, with all memory in place: appends the record and its opaque, and updates the state.
 */
static int append_record(struct kn_accumulator *accumulator, const struct kn_append *append,
                         struct kn_notice *notice)
{
    const struct kn_message *message = append->message;
    struct kn_batch *batch = accumulator->open;
    const struct kn_buffer *plain = batch->plain;
    int32_t index = batch->writer.record_count;
    size_t before_bytes = plain->size_bytes;
    int status = write_record(&batch->writer, batch->plain, append->timestamp_ms, message);
    if (status != KN_OK) return status;
    if (batch->opaques) batch->opaques[index] = message->opaque;
    if (accumulator->partition == KN_STAGING) batch->partitions[index] = message->partition;
    batch->budget_bytes += append->budget_bytes;
    if (!append->timed) batch->created_ms = -1;
    if (index + 1 >= config_of(accumulator)->batch_messages ||
        batch->plain->size_bytes >= accumulator->batch_limit_bytes) {
        complete_open(accumulator, notice);
    } else if (index == 0) {
        request_check(accumulator, open_due_us(accumulator), notice);
        if (!kn_accumulator_leader(accumulator)) notice->move_on = KN_MOVE_ON_NOW;
        else if (append->sticks && !append->wall_ms) notice->move_on = KN_MOVE_ON_LATE;
    }
    if (append->sticks)
        count_stuck(accumulator, (int64_t)(plain->size_bytes - before_bytes), notice);
    accumulator->last_buffer = plain;
    accumulator->last_end = plain->data + plain->size_bytes;
    return KN_OK;
}

/* Under lock: appends the first records that only need room in the open batch. Returns their number,
 * which may be 0. Checks once what append_ready() and append_record() check for each record. */
static int32_t append_plain(struct kn_accumulator *accumulator, const struct kn_append *appends,
                            int32_t count, struct kn_notice *notice)
{
    struct kn_batch *batch = accumulator->open;
    if (!batch || batch->opaques || accumulator->partition == KN_STAGING) return 0;
    struct kn_buffer *plain = batch->plain;
    size_t begin_bytes = plain->size_bytes, end_bytes = plain->capacity_bytes;
    if (end_bytes > accumulator->batch_limit_bytes) end_bytes = accumulator->batch_limit_bytes;
    /* the last record of a batch completes it, so append_record() has to append it */
    int32_t room = config_of(accumulator)->batch_messages - 1 - batch->writer.record_count;
    int32_t done = 0, timed = 1;
    int64_t budget_bytes = 0;
    if (count > room) count = room;
    for (; done < count; done++) {
        const struct kn_append *append = &appends[done];
        const struct kn_message *message = append->message;
        if (message->opaque || append->sticks != appends[0].sticks ||
            plain->size_bytes + append->bound_bytes > end_bytes)
            break;
        if (write_record(&batch->writer, plain, append->timestamp_ms, message) != KN_OK) break;
        budget_bytes += append->budget_bytes;
        timed &= append->timed;
    }
    if (done == 0) return 0;
    batch->budget_bytes += budget_bytes;
    if (!timed) batch->created_ms = -1;
    if (appends[0].sticks)
        count_stuck(accumulator, (int64_t)(plain->size_bytes - begin_bytes), notice);
    accumulator->last_buffer = plain;
    accumulator->last_end = plain->data + plain->size_bytes;
    return done;
}

/* Under lock. With thousands of partitions the CPU cache has none of this partition's memory. The
 * thread would wait for the batch, the buffer and the bytes one after another, so it prefetches
 * them. A prefetch reads nothing, so the memory may be freed already. */
static inline void prefetch_open(const struct kn_accumulator *accumulator)
{
    __builtin_prefetch(
        (const void *)((uintptr_t)accumulator->last_buffer + offsetof(struct kn_buffer, data)));
    __builtin_prefetch(accumulator->last_end, 1);
    __builtin_prefetch((const void *)((uintptr_t)accumulator->last_end + KN_LINE_BYTES), 1);
}

/* Under the lock of staging: returns whether the record's partition is known by now. A table is
 * published under this lock, after the staged records were moved. */
static inline int is_known(const struct kn_accumulator *staging, const struct kn_message *message)
{
    return staging->known_partitions > 0 && message->partition < staging->known_partitions;
}

int kn_accumulator_append_run(struct kn_accumulator *accumulator, const struct kn_append *appends,
                              int32_t count, int32_t *appended, struct kn_notice *notice)
{
    const struct kn_producer *producer = accumulator->producer;
    struct spare spare = {0};
    struct want want = {0};
    int status = KN_OK;
    int32_t done = 0;
    notice->broker = NULL;
    notice->move_on = KN_STAY;
    notice->completed = 0;
    kn_mutex_lock(&accumulator->lock);
    prefetch_open(accumulator);
    while (done < count && notice->move_on == KN_STAY) {
        /* Checked under the lock: when the client closes, it drains the records that were appended
         * before, and later ones are refused. */
        status = atomic_load_explicit(&producer->refusing, memory_order_acquire);
        if (status == KN_OK && accumulator->partition == KN_STAGING &&
            is_known(accumulator, appends[done].message))
            status = KN_ERR_STALE;
        if (status != KN_OK) break;
        enum need need = append_ready(accumulator, &appends[done], &spare, &want, notice);
        if (need == NEED_NOTHING) {
            status = append_record(accumulator, &appends[done], notice);
            if (status != KN_OK) break;
            done++;
            notice->completed = 0;
            if (done < count && notice->move_on == KN_STAY)
                done += append_plain(accumulator, appends + done, count - done, notice);
            continue;
        }
        kn_mutex_unlock(&accumulator->lock);
        status = append_allocate(accumulator, &appends[done], need, &want, &spare);
        kn_mutex_lock(&accumulator->lock);
        if (status != KN_OK) break;
    }
    kn_mutex_unlock(&accumulator->lock);
    if (spare.used) spare_deinit(&spare);
    *appended = done;
    return status;
}

int kn_accumulator_append(struct kn_accumulator *accumulator, const struct kn_append *append,
                          struct kn_notice *notice)
{
    int32_t appended;
    return kn_accumulator_append_run(accumulator, append, 1, &appended, notice);
}

int kn_accumulator_put(struct kn_accumulator *accumulator, struct kn_batch *batch,
                       struct kn_notice *notice)
{
    *notice = (struct kn_notice){0};
    kn_mutex_lock(&accumulator->lock);
    int status = atomic_load_explicit(&accumulator->producer->refusing, memory_order_acquire);
    if (status == KN_OK) {
        if (accumulator->open && accumulator->open->writer.record_count > 0)
            complete_open(accumulator, notice);
        batch->id = take_id(accumulator);
        batch->accumulator = accumulator;
        accumulator->used_us = batch->created_us;
        accumulator->closed_messages += batch->writer.record_count;
        count_batches(accumulator, 1);
        kn_list_push_back(&accumulator->waiting, &batch->node);
        request_check(accumulator, batch->created_us, notice);
    }
    kn_mutex_unlock(&accumulator->lock);
    return status;
}

/* --- the leader's side --- */

/* Under lock: returns when the leader should check next, by the current lists. */
static int64_t next_check_us(const struct kn_accumulator *accumulator)
{
    if (!kn_list_empty(&accumulator->waiting)) {
        const struct kn_batch *head = KN_LIST_ENTRY(accumulator->waiting.next,
                                                    const struct kn_batch, node);
        return head->next_try_us > head->created_us ? head->next_try_us : head->created_us;
    }
    return accumulator->open && accumulator->open->writer.record_count > 0
               ? open_due_us(accumulator)
               : KN_NEVER;
}

/* Under lock: the leader may be able to take again, so it is notified. */
static void recheck_leader(struct kn_accumulator *accumulator, struct kn_notice *notice)
{
    accumulator->notified_us = KN_NEVER;
    int64_t at_us = next_check_us(accumulator);
    if (at_us != KN_NEVER) request_check(accumulator, at_us, notice);
}

void kn_accumulator_set_leader(struct kn_accumulator *accumulator, struct kn_broker *leader,
                               int32_t leader_epoch)
{
    struct kn_notice notice = {0};
    kn_mutex_lock(&accumulator->lock);
    atomic_store_explicit(&accumulator->leader, leader, memory_order_release);
    accumulator->leader_epoch = leader_epoch;
    recheck_leader(accumulator, &notice);
    kn_mutex_unlock(&accumulator->lock);
    kn_notice_send(&notice, accumulator);
}

void kn_accumulator_set_topic_id(struct kn_accumulator *accumulator, const uint8_t id[16])
{
    kn_mutex_lock(&accumulator->lock);
    int both_known = memcmp(accumulator->topic_id, kn_no_topic_id, 16) != 0 &&
                     memcmp(id, kn_no_topic_id, 16) != 0;
    if (both_known && memcmp(accumulator->topic_id, id, 16) != 0)
        accumulator->remade = accumulator->in_flight > 0;
    memcpy(accumulator->topic_id, id, 16);
    kn_mutex_unlock(&accumulator->lock);
}

/* --- sequence numbers --- */

void kn_accumulator_grant(struct kn_accumulator *accumulator, int64_t producer_id,
                          int16_t producer_epoch)
{
    struct kn_notice notice = {0};
    kn_mutex_lock(&accumulator->lock);
    accumulator->sequence.granted_id = producer_id;
    accumulator->sequence.granted_epoch = producer_epoch;
    recheck_leader(accumulator, &notice);
    kn_mutex_unlock(&accumulator->lock);
    kn_notice_send(&notice, accumulator);
}

void kn_accumulator_admit(struct kn_accumulator *accumulator, int64_t number)
{
    struct kn_notice notice = {0};
    kn_mutex_lock(&accumulator->lock);
    accumulator->admitted_number = number;
    recheck_leader(accumulator, &notice);
    kn_mutex_unlock(&accumulator->lock);
    kn_notice_send(&notice, accumulator);
}

/* Under lock: returns when to check again if the transaction may not send yet; KN_NEVER: there is
 * another reason. */
static int64_t held_until_us(const struct kn_accumulator *accumulator, int64_t now_us)
{
    int64_t held_us = atomic_load(&accumulator->producer->transaction.held_us);
    return held_us > now_us && next_check_us(accumulator) <= now_us ? held_us : KN_NEVER;
}

/* Under lock: returns whether the partition has joined the transaction. *asks: it has its first
 * batch of the transaction, so the control thread must be asked. */
static int is_admitted(struct kn_accumulator *accumulator, int *asks)
{
    const struct kn_transaction *transaction = &accumulator->producer->transaction;
    int64_t number = atomic_load(&transaction->number);
    int implicit = atomic_load(&transaction->implicit);
    *asks = accumulator->requested_number != number;
    if (implicit) accumulator->admitted_number = number;
    return accumulator->admitted_number == number;
}

/* Without lock. */
static void request_admission(struct kn_accumulator *accumulator, struct kn_broker *broker)
{
    struct kn_producer *producer = accumulator->producer;
    struct kn_event *event = kn_event_new(&producer->client->control->spare_events,
                                          KN_EVENT_TXN_PARTITION, broker->handle);
    if (!event) return; /* the next check asks again */
    event->token = accumulator->topic_token;
    event->partition = accumulator->partition;
    event->offset = atomic_load(&producer->transaction.number);
    kn_mutex_lock(&accumulator->lock);
    accumulator->requested_number = event->offset;
    kn_mutex_unlock(&accumulator->lock);
    kn_client_post_event(producer->client, event);
}

/* Under lock: returns whether both have numbers of the same series. */
static int is_same_series(const struct kn_batch *batch, const struct kn_batch *other)
{
    return batch->producer_id == other->producer_id &&
           batch->producer_epoch == other->producer_epoch;
}

/* Under lock: returns whether a batch behind this one may still prove that it was written: a batch
 * that may have been written, and that the broker hasn't refused yet. */
static int may_be_proved_written(const struct kn_sequence *sequence, const struct kn_batch *batch)
{
    if (batch->persistence != KN_POSSIBLY_PERSISTED || batch->refusals > REFUSALS_MAX) return 0;
    for (struct kn_list *node = sequence->unsettled.prev; node != &batch->sequence_node;
         node = node->prev) {
        struct kn_batch *later = KN_LIST_ENTRY(node, struct kn_batch, sequence_node);
        if (later->persistence == KN_POSSIBLY_PERSISTED)
            return !later->refusals && is_same_series(batch, later);
    }
    return 0;
}

enum kn_sequence_verdict kn_accumulator_out_of_sequence(struct kn_accumulator *accumulator,
                                                        struct kn_batch *batch, int16_t error_code)
{
    struct kn_sequence *sequence = &accumulator->sequence;
    enum kn_sequence_verdict verdict = KN_SEQUENCE_RETRY;
    kn_mutex_lock(&accumulator->lock);
    int is_oldest = sequence->unsettled.next == &batch->sequence_node;
    int waits = 0;
    if (error_code == KN_KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER) {
        if (batch->refusals < UINT8_MAX) batch->refusals++;
        waits = may_be_proved_written(sequence, batch);
    }
    if (batch->is_proved_written) {
        verdict = KN_SEQUENCE_WRITTEN;
    } else if (is_oldest && !waits) {
        int lost_acknowledged = error_code == KN_KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER &&
                                sequence->failed_id <= sequence->written_id;
        int lost_possible = error_code == KN_KAFKA_UNKNOWN_PRODUCER_ID &&
                            batch->persistence == KN_POSSIBLY_PERSISTED;
        /* Within a transaction only the transaction fails: an abort undoes the rest. */
        int demanded = config_of(accumulator)->idempotence == KN_IDEMPOTENCE_DEMANDED &&
                       !kn_producer_is_transactional(accumulator->producer);
        if (!sequence->has_gap)
            verdict = demanded && (lost_acknowledged || lost_possible) ? KN_SEQUENCE_LOST
                                                                       : KN_SEQUENCE_RESTART;
        if (verdict == KN_SEQUENCE_RESTART) sequence->restart = 1;
    }
    kn_mutex_unlock(&accumulator->lock);
    return verdict;
}

/* Under lock: returns whether the older unsettled batches fit between the batch and the one that was
 * written before. */
static int leaves_room_for_older(const struct kn_sequence *sequence, const struct kn_batch *batch)
{
    if (batch->base_offset < 0 || sequence->written_end < 0) return 0;
    int64_t room = batch->base_offset - sequence->written_end;
    for (struct kn_list *node = sequence->unsettled.next; node != &batch->sequence_node;
         node = node->next)
        room -= KN_LIST_ENTRY(node, struct kn_batch, sequence_node)->writer.record_count;
    return room >= 0;
}

/* Under lock: the batch was written. A broker that knows the producer accepts a number only behind
 * the one before it. It has refused an older batch as out of order, so it knows the producer. If
 * that batch may have been written, it was.
 *
 * A broker that has lost the end of its log may have forgotten the producer, too, and then it has
 * accepted this batch as its first. Its offset shows that. */
static void prove_older(const struct kn_sequence *sequence, const struct kn_batch *batch)
{
    if (!leaves_room_for_older(sequence, batch)) return;
    for (struct kn_list *node = sequence->unsettled.next; node != &batch->sequence_node;
         node = node->next) {
        struct kn_batch *older = KN_LIST_ENTRY(node, struct kn_batch, sequence_node);
        if (older->refusals && older->persistence == KN_POSSIBLY_PERSISTED &&
            is_same_series(older, batch))
            older->is_proved_written = 1;
    }
}

/* Under lock: the batch has an outcome. */
static void forget_sequence(struct kn_batch *batch)
{
    if (batch->base_sequence < 0) return;
    struct kn_sequence *sequence = &batch->accumulator->sequence;
    if (batch->persistence == KN_PERSISTED) {
        prove_older(sequence, batch);
        sequence->written_end = batch->base_offset < 0
                                    ? -1
                                    : batch->base_offset + batch->writer.record_count;
    }
    kn_list_remove(&batch->sequence_node);
    int64_t *newest = batch->persistence == KN_PERSISTED ? &sequence->written_id
                                                         : &sequence->failed_id;
    if (batch->id > *newest) *newest = batch->id;
}

/* Under lock: returns the position of a batch with this id in a list in id order. */
static struct kn_list *position_of(struct kn_list *list, int64_t id)
{
    struct kn_list *at = list->next;
    while (at != list && KN_LIST_ENTRY(at, struct kn_batch, node)->id < id) at = at->next;
    return at;
}

/* Under lock: an id; INT64_MAX: none. */
static int64_t oldest_unsettled(struct kn_sequence *sequence)
{
    struct kn_list *node = kn_list_first(&sequence->unsettled);
    return node ? KN_LIST_ENTRY(node, struct kn_batch, sequence_node)->id : INT64_MAX;
}

/* Under lock: the batch is reported now, in `ready`, or held. */
static void report_in_order(struct kn_sequence *sequence, struct kn_batch *batch,
                            struct kn_list *ready)
{
    if (batch->persistence != KN_PERSISTED || batch->id < oldest_unsettled(sequence))
        kn_list_push_back(ready, &batch->node);
    else kn_list_insert_before(position_of(&sequence->held, batch->id), &batch->node);
}

/* Under lock, after batches were settled: the held ones whose turn has come go to `ready`. */
static void release_held(struct kn_sequence *sequence, struct kn_list *ready)
{
    int64_t oldest = oldest_unsettled(sequence);
    struct kn_list *node;
    while ((node = kn_list_first(&sequence->held)) &&
           KN_LIST_ENTRY(node, struct kn_batch, node)->id < oldest) {
        kn_list_remove(node);
        kn_list_push_back(ready, node);
    }
}

static int is_current(const struct kn_sequence *sequence)
{
    return sequence->id == sequence->granted_id && sequence->epoch == sequence->granted_epoch;
}

/* Under lock: the batch gets a new number when it is taken. The broker hasn't written it. */
static void unnumber(struct kn_batch *batch)
{
    kn_list_remove(&batch->sequence_node);
    batch->base_sequence = -1;
    batch->refusals = batch->is_proved_written = 0;
    batch->encoded = 0; /* so that its header is written again */
}

/* Under lock, with nothing in flight: every unsettled batch waits, and none was written. They get
 * new numbers when they are taken. */
static void unnumber_all(struct kn_sequence *sequence)
{
    struct kn_list *node;
    while ((node = kn_list_first(&sequence->unsettled)))
        unnumber(KN_LIST_ENTRY(node, struct kn_batch, sequence_node));
    sequence->restart = 0;
    sequence->has_gap = 0;
}

bool kn_accumulator_tolerates(const struct kn_producer *producer, const struct kn_batch *batch)
{
    if (!atomic_load(&producer->transaction.tolerant)) return 0;
    if (batch->status != KN_OK || batch->persistence != KN_NOT_PERSISTED) return 0;
    return batch->error_code == KN_KAFKA_MESSAGE_TOO_LARGE ||
           batch->error_code == KN_KAFKA_RECORD_LIST_TOO_LARGE ||
           batch->error_code == KN_KAFKA_INVALID_RECORD;
}

/* Numbers wrap, and the unsettled ones are close to each other. */
static int is_before(int32_t number, int32_t other)
{
    return (((uint32_t)number - (uint32_t)other) & INT32_MAX) > INT32_MAX / 2;
}

/* Under lock. Brokers check records before numbers, so a batch behind a gap may leave another. */
static void note_gap(struct kn_sequence *sequence, const struct kn_batch *batch)
{
    if (!sequence->has_gap || is_before(batch->base_sequence, sequence->gap))
        sequence->gap = batch->base_sequence;
    sequence->has_gap = 1;
}

/* Under lock, with nothing in flight: batches were refused because one before them has failed. They
 * don't wait longer for that, but only once for each failed batch: another refusal has another
 * reason. */
static void retry_at_once(struct kn_sequence *sequence)
{
    if (sequence->failed_id <= sequence->written_id || sequence->failed_id == sequence->excused_id)
        return;
    sequence->excused_id = sequence->failed_id;
    for (struct kn_list *node = sequence->unsettled.next; node != &sequence->unsettled;
         node = node->next) {
        struct kn_batch *batch = KN_LIST_ENTRY(node, struct kn_batch, sequence_node);
        batch->attempts = 0;
        batch->next_try_us = 0;
    }
}

/* Under lock, with nothing in flight: the batches behind the gap get new numbers when they are
 * taken. Those before it keep theirs, because they may have been written. */
static void close_gap(struct kn_sequence *sequence)
{
    struct kn_list *node = sequence->unsettled.prev;
    while (node != &sequence->unsettled) {
        struct kn_batch *batch = KN_LIST_ENTRY(node, struct kn_batch, sequence_node);
        if (is_before(batch->base_sequence, sequence->gap)) break;
        node = node->prev;
        unnumber(batch);
        batch->attempts = 0;
        batch->next_try_us = 0;
    }
    sequence->next = sequence->gap;
    sequence->has_gap = 0;
}

/* Under lock: returns whether the next batch has a number or may get one now. If not,
 * kn_accumulator_grant() or the last outcome notifies. */
static int may_number(struct kn_accumulator *accumulator)
{
    struct kn_sequence *sequence = &accumulator->sequence;
    if (sequence->restart) {
        if (accumulator->in_flight > 0 || is_current(sequence)) return 0;
        unnumber_all(sequence);
    }
    if (sequence->has_gap) return 0; /* batches are in flight */
    if (!sequence->proved && accumulator->in_flight > 0) return 0;
    if (!kn_list_empty(&accumulator->waiting) &&
        KN_LIST_ENTRY(accumulator->waiting.next, struct kn_batch, node)->base_sequence >= 0)
        return 1;
    if (sequence->granted_id < 0) return 0;
    if (is_current(sequence)) return 1;
    if (!kn_list_empty(&sequence->unsettled)) return 0;
    sequence->id = sequence->granted_id;
    sequence->epoch = sequence->granted_epoch;
    sequence->next = 0;
    sequence->proved = 0;
    return 1;
}

/* Under lock. */
static void number_batch(struct kn_sequence *sequence, struct kn_batch *batch)
{
    if (batch->base_sequence >= 0) return;
    batch->producer_id = sequence->id;
    batch->producer_epoch = sequence->epoch;
    batch->base_sequence = sequence->next;
    /* wraps to 0 */
    sequence->next = (int32_t)(((uint32_t)sequence->next + (uint32_t)batch->writer.record_count) &
                               INT32_MAX);
    kn_list_push_back(&sequence->unsettled, &batch->sequence_node);
}

struct kn_batch *kn_accumulator_take(struct kn_accumulator *accumulator, struct kn_broker *broker,
                                     int64_t now_us, int64_t *next_us)
{
    struct kn_batch *batch = NULL;
    int asks = 0, transactional = kn_producer_is_transactional(accumulator->producer);
    *next_us = KN_NEVER;
    kn_mutex_lock(&accumulator->lock);
    if (kn_accumulator_leader(accumulator) != broker) {
        /* notified_us belongs to the new leader: don't change it */
        kn_mutex_unlock(&accumulator->lock);
        return NULL;
    }
    accumulator->notified_us = KN_NEVER;
    /* Responses of another broker, or for a deleted topic, are outstanding: the last one notifies
     * this broker. */
    int blocked = accumulator->in_flight > 0 &&
                  (accumulator->in_flight_broker != broker || accumulator->remade);
    int numbered = config_of(accumulator)->idempotence &&
                   accumulator->sequence.granted_id != KN_PRODUCER_WAIVED;
    if (numbered && !blocked) blocked = !may_number(accumulator);
    if (transactional && !blocked && (*next_us = held_until_us(accumulator, now_us)) != KN_NEVER) {
        accumulator->notified_us = *next_us;
        blocked = 1;
    }
    if (transactional && !blocked && next_check_us(accumulator) <= now_us)
        blocked = !is_admitted(accumulator, &asks);
    if (!blocked && !atomic_load_explicit(&accumulator->producer->refusing, memory_order_acquire)) {
        if (next_check_us(accumulator) <= now_us) {
            struct kn_list *node = kn_list_pop_front(&accumulator->waiting);
            batch = node ? KN_LIST_ENTRY(node, struct kn_batch, node) : close_open(accumulator);
            batch->was_open = !node;
            if (numbered) number_batch(&accumulator->sequence, batch);
            memcpy(batch->topic_id, accumulator->topic_id, 16);
            accumulator->in_flight++;
            accumulator->in_flight_messages += batch->writer.record_count;
            accumulator->in_flight_broker = broker;
        }
        *next_us = accumulator->notified_us = next_check_us(accumulator);
    }
    kn_mutex_unlock(&accumulator->lock);
    if (asks) request_admission(accumulator, broker);
    return batch;
}

bool kn_accumulator_has_complete(struct kn_accumulator *accumulator)
{
    kn_mutex_lock(&accumulator->lock);
    bool found = !kn_list_empty(&accumulator->waiting);
    kn_mutex_unlock(&accumulator->lock);
    return found;
}

bool kn_accumulator_wants(struct kn_accumulator *accumulator, struct kn_broker *broker)
{
    kn_mutex_lock(&accumulator->lock);
    int wants = 0;
    if (kn_accumulator_leader(accumulator) == broker) {
        wants = next_check_us(accumulator) != KN_NEVER;
        if (!wants) accumulator->notified_us = KN_NEVER;
    }
    kn_mutex_unlock(&accumulator->lock);
    return wants;
}

void kn_accumulator_forget_notice(struct kn_accumulator *accumulator, struct kn_broker *broker)
{
    kn_mutex_lock(&accumulator->lock);
    if (kn_accumulator_leader(accumulator) == broker) accumulator->notified_us = KN_NEVER;
    kn_mutex_unlock(&accumulator->lock);
}

/* Under lock: a taken batch is back. After the last one, a leader that had to wait may start. */
static void batch_is_back(struct kn_accumulator *accumulator, const struct kn_batch *batch,
                          struct kn_notice *notice)
{
    accumulator->in_flight_messages -= batch->writer.record_count;
    struct kn_broker *from = accumulator->in_flight_broker;
    int held_off = accumulator->remade || kn_accumulator_leader(accumulator) != from;
    if (--accumulator->in_flight == 0) {
        struct kn_sequence *sequence = &accumulator->sequence;
        accumulator->in_flight_broker = NULL;
        accumulator->remade = 0;
        if (sequence->has_gap) close_gap(sequence);
        else if (sequence->restart) retry_at_once(sequence);
    }
    int64_t at_us = next_check_us(accumulator);
    if (at_us == KN_NEVER) return;
    if (accumulator->in_flight == 0 && held_off) accumulator->notified_us = KN_NEVER;
    request_check(accumulator, at_us, notice);
}

int kn_accumulator_split(struct kn_accumulator *accumulator, struct kn_batch *batch, int32_t at)
{
    struct kn_notice notice = {0};
    struct kn_batch *halves[2];
    size_t size_bytes = batch->plain ? batch->plain->size_bytes : batch->wire->size_bytes;
    int status = kn_batch_split(batch, &accumulator->producer->client->codecs, at, halves);
    if (status != KN_OK) return status;
    kn_mutex_lock(&accumulator->lock);
    struct kn_list *place = position_of(&accumulator->waiting, batch->id);
    for (int i = 0; i < 2; i++) {
        kn_list_insert_before(place, &halves[i]->node);
        if (halves[i]->base_sequence >= 0)
            kn_list_insert_before(&batch->sequence_node, &halves[i]->sequence_node);
    }
    /* its parts have the sequence numbers */
    if (batch->base_sequence >= 0) kn_list_remove(&batch->sequence_node);
    /* The limit has a lower end: the broker may have refused a compressed batch whose records are
     * small. */
    if (at == 0 && accumulator->batch_limit_bytes > size_bytes / 2 &&
        size_bytes / 2 > SMALLEST_BUFFER_BYTES)
        accumulator->batch_limit_bytes = size_bytes / 2;
    count_batches(accumulator, 1);
    batch_is_back(accumulator, batch, &notice);
    kn_mutex_unlock(&accumulator->lock);
    kn_notice_send(&notice, accumulator);
    kn_batch_free(batch);
    return KN_OK;
}

void kn_accumulator_requeue(struct kn_accumulator *accumulator, struct kn_batch *batch,
                            int64_t next_try_us)
{
    struct kn_notice notice = {0};
    batch->next_try_us = next_try_us;
    kn_mutex_lock(&accumulator->lock);
    if (kn_planted("renumbered-retry") && batch->base_sequence >= 0) {
        kn_list_remove(&batch->sequence_node);
        batch->base_sequence = -1;
        batch->encoded = 0;
    }
    kn_list_insert_before(position_of(&accumulator->waiting, batch->id), &batch->node);
    batch_is_back(accumulator, batch, &notice);
    kn_mutex_unlock(&accumulator->lock);
    kn_notice_send(&notice, accumulator);
}

static void deliver_all(struct kn_accumulator *accumulator, struct kn_list *ready)
{
    struct kn_list *node;
    while ((node = kn_list_pop_front(ready)))
        kn_client_deliver(accumulator->producer->client,
                          KN_LIST_ENTRY(node, struct kn_batch, node));
}

void kn_accumulator_settle(struct kn_accumulator *accumulator, struct kn_batch *batch)
{
    struct kn_notice notice = {0};
    kn_mutex_lock(&accumulator->lock);
    forget_sequence(batch);
    if (batch->base_sequence >= 0 && kn_accumulator_tolerates(accumulator->producer, batch))
        note_gap(&accumulator->sequence, batch);
    if (batch->base_sequence >= 0 && batch->persistence == KN_PERSISTED)
        accumulator->sequence.proved = 1;
    if (batch->status == KN_OK && batch->error_code == 0) {
        accumulator->delivered_messages += batch->writer.record_count;
        accumulator->delivered_bytes += batch->budget_bytes;
    }
    count_batches(accumulator, -1);
    batch_is_back(accumulator, batch, &notice);
    struct kn_list ready;
    kn_list_init(&ready);
    report_in_order(&accumulator->sequence, batch, &ready);
    release_held(&accumulator->sequence, &ready);
    kn_mutex_unlock(&accumulator->lock);
    kn_notice_send(&notice, accumulator);
    deliver_all(accumulator, &ready);
}

/* --- the control thread's side --- */

/* Reports the failed batches, and then those that were held behind them. */
static void deliver_failed(struct kn_accumulator *accumulator, struct kn_list *failed,
                           struct kn_list *released, int status, int16_t error_code,
                           const char *text)
{
    for (struct kn_list *node = failed->next; node != failed; node = node->next)
        kn_batch_set_error(KN_LIST_ENTRY(node, struct kn_batch, node), status, error_code, text,
                           text ? strlen(text) : 0);
    deliver_all(accumulator, failed);
    deliver_all(accumulator, released);
}

/* The open batch of staging grows while a partition is unknown. It is closed from time to time, so
 * that its records are about as old as the batch. */
static void close_staged(struct kn_accumulator *staging, int64_t now_us)
{
    struct kn_notice no_notice = {0}; /* staging has no leader */
    kn_mutex_lock(&staging->lock);
    if (staging->open && staging->open->writer.record_count > 0 &&
        staging->open->created_us + STAGED_SPAN_US <= now_us)
        complete_open(staging, &no_notice);
    kn_mutex_unlock(&staging->lock);
}

void kn_accumulator_fail_older(struct kn_accumulator *accumulator, int64_t before_us, int status,
                               const char *text)
{
    struct kn_list failed, released;
    kn_list_init(&failed);
    kn_list_init(&released);
    kn_mutex_lock(&accumulator->lock);
    struct kn_list *node;
    while ((node = kn_list_first(&accumulator->waiting))) {
        struct kn_batch *batch = KN_LIST_ENTRY(node, struct kn_batch, node);
        if (batch->created_us > before_us) break;
        forget_sequence(batch);
        kn_list_remove(node);
        kn_list_push_back(&failed, node);
        count_batches(accumulator, -1);
    }
    struct kn_batch *open = accumulator->open;
    if (open && kn_list_empty(&accumulator->waiting) && open->created_us <= before_us) {
        kn_list_push_back(&failed, &close_open(accumulator)->node);
        count_batches(accumulator, -1);
    }
    release_held(&accumulator->sequence, &released);
    kn_mutex_unlock(&accumulator->lock);
    deliver_failed(accumulator, &failed, &released, status, 0, text);
}

bool kn_accumulator_used_since(struct kn_accumulator *accumulator, int64_t since_us)
{
    if (atomic_load_explicit(&accumulator->batches, memory_order_relaxed) > 0) return true;
    kn_mutex_lock(&accumulator->lock);
    bool used = accumulator->used_us > 0 && accumulator->used_us >= since_us;
    kn_mutex_unlock(&accumulator->lock);
    return used;
}

void kn_accumulator_expire(struct kn_accumulator *accumulator, int64_t now_us)
{
    int64_t timeout_us = (int64_t)accumulator->config->message_timeout_ms * 1000;
    if (accumulator->partition == KN_STAGING) close_staged(accumulator, now_us);
    if (timeout_us > 0)
        kn_accumulator_fail_older(accumulator, now_us - timeout_us, KN_ERR_TIMED_OUT, NULL);
}

void kn_accumulator_steal(struct kn_accumulator *accumulator, struct kn_list *into)
{
    for (struct kn_list *node = accumulator->waiting.next; node != &accumulator->waiting;
         node = node->next)
        forget_sequence(KN_LIST_ENTRY(node, struct kn_batch, node));
    kn_list_splice_back(into, &accumulator->waiting);
    if (accumulator->open) kn_list_push_back(into, &close_open(accumulator)->node);
    atomic_store_explicit(&accumulator->batches, accumulator->in_flight, memory_order_relaxed);
}

void kn_accumulator_return(struct kn_accumulator *accumulator, struct kn_list *batches)
{
    for (struct kn_list *node = batches->next; node != batches; node = node->next)
        count_batches(accumulator, 1);
    kn_list_splice_back(&accumulator->waiting, batches);
}

void kn_accumulator_fail(struct kn_accumulator *accumulator, int status, int16_t error_code,
                         const char *text)
{
    struct kn_list failed, released;
    kn_list_init(&failed);
    kn_list_init(&released);
    kn_mutex_lock(&accumulator->lock);
    kn_accumulator_steal(accumulator, &failed);
    release_held(&accumulator->sequence, &released);
    kn_mutex_unlock(&accumulator->lock);
    deliver_failed(accumulator, &failed, &released, status, error_code, text);
}
