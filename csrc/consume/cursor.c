/* Cursors and segments: see cursor.h for threads, locks and owners. */
#include "consume/cursor.h"

#include <stdlib.h>
#include <string.h>

#include "net/broker.h"
#include "consume/consumer.h"

/* The memory of a segment besides its bytes: its batch, its chunk, the unused end of the buffer. */
#define SEGMENT_COST_BYTES 512

static atomic_long live_cursors;
static atomic_long live_segments;

struct kn_cursor *kn_cursor_new(struct kn_consumer *consumer, const char *topic,
                                int32_t topic_bytes, const uint8_t topic_id[16], int32_t partition,
                                uint64_t token)
{
    struct kn_cursor *cursor = calloc(1, sizeof *cursor);
    if (!cursor) return NULL;
    cursor->topic = malloc((size_t)topic_bytes + 1);
    if (!cursor->topic) {
        free(cursor);
        return NULL;
    }
    memcpy(cursor->topic, topic, (size_t)topic_bytes);
    cursor->topic[topic_bytes] = '\0';
    cursor->topic_bytes = topic_bytes;
    cursor->consumer = consumer;
    cursor->partition = partition;
    memcpy(cursor->topic_id, topic_id, sizeof cursor->topic_id);
    cursor->token = token;
    atomic_init(&cursor->refs, 1);
    atomic_init(&cursor->epoch, 1);
    atomic_init(&cursor->queued_bytes, 0);
    atomic_init(&cursor->queued_messages, 0);
    atomic_init(&cursor->resting_broker, NULL);
    atomic_init(&cursor->route, NULL);
    atomic_init(&cursor->woken, 0);
    kn_list_init(&cursor->wake_node);
    atomic_init(&cursor->answered_epoch, 0);
    atomic_init(&cursor->high_watermark, KN_OFFSET_UNKNOWN);
    atomic_init(&cursor->last_stable_offset, KN_OFFSET_UNKNOWN);
    atomic_init(&cursor->log_start_offset, KN_OFFSET_UNKNOWN);
    atomic_init(&cursor->fetch_offset, KN_OFFSET_UNKNOWN);
    atomic_init(&cursor->eof_offset, KN_OFFSET_UNKNOWN);
    atomic_fetch_add(&live_cursors, 1);
    return cursor;
}

struct kn_cursor *kn_cursor_ref(struct kn_cursor *cursor)
{
    atomic_fetch_add_explicit(&cursor->refs, 1, memory_order_relaxed);
    return cursor;
}

void kn_cursor_unref(struct kn_cursor *cursor)
{
    if (!cursor || atomic_fetch_sub_explicit(&cursor->refs, 1, memory_order_acq_rel) != 1) return;
    free(cursor->topic);
    free(cursor);
    atomic_fetch_sub(&live_cursors, 1);
}

long kn_cursor_live(void) { return atomic_load(&live_cursors); }

uint32_t kn_cursor_next_epoch(struct kn_cursor *cursor)
{
    return atomic_fetch_add_explicit(&cursor->epoch, 1, memory_order_acq_rel) + 1;
}

bool kn_cursor_rests(struct kn_cursor *cursor, struct kn_broker *broker)
{
    int64_t enough = cursor->consumer->config->queued_min_messages;
    if (atomic_load_explicit(&cursor->queued_messages, memory_order_relaxed) < enough) return 0;
    /* Writes the mark and then reads the count; kn_cursor_unqueued() does the reverse. Both are
     * sequentially consistent, so at least one sees the other, and no partition rests for ever. A
     * partition that changes its leader may rest at two brokers for a moment. The one whose mark is
     * replaced is woken and checks again. */
    struct kn_broker *other = atomic_exchange(&cursor->resting_broker, broker);
    if (other && other != broker) kn_broker_wake_cursor(other, cursor);
    if (atomic_load(&cursor->queued_messages) >= enough) return 1;
    struct kn_broker *mine = broker;
    atomic_compare_exchange_strong(&cursor->resting_broker, &mine, NULL);
    return 0;
}

void kn_cursor_queued(struct kn_cursor *cursor, int64_t message_count)
{
    atomic_fetch_add_explicit(&cursor->queued_messages, message_count, memory_order_relaxed);
}

void kn_cursor_unqueued(struct kn_cursor *cursor, int64_t message_count)
{
    int64_t left = atomic_fetch_sub(&cursor->queued_messages, message_count) - message_count;
    if (!atomic_load(&cursor->resting_broker) ||
        left >= cursor->consumer->config->queued_min_messages)
        return;
    struct kn_broker *resting_broker = atomic_exchange(&cursor->resting_broker, NULL);
    if (resting_broker) kn_broker_wake_cursor(resting_broker, cursor);
}

struct kn_segment *kn_segment_new(enum kn_segment_kind kind, struct kn_cursor *cursor,
                                  uint32_t epoch, int32_t batch_capacity)
{
    struct kn_segment *segment = calloc(1, sizeof *segment +
                                               (size_t)batch_capacity * sizeof segment->batches[0]);
    if (!segment) return NULL;
    kn_list_init(&segment->node);
    segment->kind = kind;
    segment->cursor = kn_cursor_ref(cursor);
    segment->epoch = epoch;
    atomic_fetch_add(&live_segments, 1);
    return segment;
}

void kn_segment_account(struct kn_segment *segment, int64_t size_bytes)
{
    if (!size_bytes) return;
    segment->size_bytes = size_bytes;
    atomic_fetch_add_explicit(&segment->cursor->queued_bytes, size_bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&segment->cursor->consumer->queued_bytes,
                              size_bytes + SEGMENT_COST_BYTES, memory_order_relaxed);
}

void kn_segment_free(struct kn_segment *segment)
{
    if (!segment) return;
    struct kn_cursor *cursor = segment->cursor;
    if (segment->message_count && segment->batch_next == 0 && kn_segment_is_stale(segment)) {
        atomic_fetch_add_explicit(&cursor->dropped_messages, segment->message_count,
                                  memory_order_relaxed);
    }
    for (int32_t i = 0; i < segment->batch_count; i++) kn_chunk_unref(segment->batches[i].chunk);
    if (segment->size_bytes) {
        atomic_fetch_sub_explicit(&cursor->queued_bytes, segment->size_bytes, memory_order_relaxed);
        kn_consumer_consumed(cursor->consumer, segment->size_bytes + SEGMENT_COST_BYTES);
    }
    if (segment->message_count) kn_cursor_unqueued(cursor, segment->message_count);
    free(segment);
    kn_cursor_unref(cursor);
    atomic_fetch_sub(&live_segments, 1);
}

long kn_segment_live(void) { return atomic_load(&live_segments); }
