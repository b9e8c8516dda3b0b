/* A cursor: the engine's state of one assigned partition. It has the offset to fetch next, and
 * counts the segments of fetched data on their way to the application.
 *
 * Thread: broker threads read the immutable and atomic fields. The binding keeps the application's
 * position.
 * Who frees: counted references. The binding has one, and each segment and each fetcher's slot has
 * one.
 *
 * `epoch` is the fetch epoch: each start, seek, pause or stop raises it. Data that was fetched
 * under an older epoch is dropped by comparing the two numbers, without a search through the
 * queues. */
#ifndef KN_CONSUME_CURSOR_H
#define KN_CONSUME_CURSOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "net/chunk.h"
#include "records/batch_reader.h"

struct kn_broker;
struct kn_consumer;
struct kn_queue;

#define KN_OFFSET_UNKNOWN (-1001) /* librdkafka's RD_KAFKA_OFFSET_INVALID */

struct kn_cursor {
    /* immutable */
    struct kn_consumer *consumer;
    char *topic;
    int32_t topic_bytes;
    int32_t partition;
    uint8_t topic_id[16]; /* zeros: none */
    uint64_t token;       /* the binding's token */
    /* atomic */
    atomic_int refs;
    atomic_uint epoch;
    _Atomic int64_t queued_bytes;    /* of segments not yet consumed */
    _Atomic int64_t queued_messages; /* the same, and those in results that aren't opened yet */
    /* the broker that leaves the cursor out of Fetch until queued_messages is below
     * queued.min.messages; NULL: none */
    _Atomic(struct kn_broker *) resting_broker;
    /* the queue of its segments, one of the engine's routes; NULL: the engine's `fetched` */
    _Atomic(struct kn_queue *) route;
    atomic_int woken; /* in a broker's list of cursors to check */
    /* under that broker's lock */
    struct kn_list wake_node;
    /* the last fetch epoch in which a leader answered without an error; 0: none */
    atomic_uint answered_epoch;
    _Atomic int64_t high_watermark; /* -1001: unknown */
    _Atomic int64_t last_stable_offset;
    _Atomic int64_t log_start_offset;
    _Atomic int64_t fetch_offset; /* where the next Fetch goes on; -1001: unknown */
    /* the partition's end when it was last reached; -1001: never */
    _Atomic int64_t eof_offset;
    /* since the start, opened for the application */
    _Atomic int64_t received_messages, received_bytes;
    /* since the start, of the received ones: fetched under an older epoch */
    _Atomic int64_t dropped_messages;
};

/* A part of a fetch response for the application: opened batches of one partition, its end, or an
 * error. */
enum kn_segment_kind { KN_SEGMENT_DATA, KN_SEGMENT_EOF, KN_SEGMENT_ERROR };

struct kn_segment_batch {
    struct kn_batch_view view; /* opened, unless the consumer keeps batches unopened */
    struct kn_chunk *chunk;    /* its records point into this chunk; a reference */
};

struct kn_segment {
    struct kn_list node;
    enum kn_segment_kind kind;
    struct kn_cursor *cursor; /* a reference */
    uint32_t epoch;
    /* the application doesn't get records below this offset (a batch may begin earlier) */
    int64_t fetch_offset;
    int64_t next_offset;   /* the position after this segment */
    int64_t size_bytes;    /* its share of queued_bytes */
    int64_t message_count; /* its share of queued_messages */
    /* ERROR: KN_ERR_CRC, KN_ERR_TOO_LARGE (decompression bomb), KN_ERR_CODEC, KN_ERR_INVALID ... */
    int status;
    int16_t error_code;
    int32_t batch_count;
    int32_t batch_next; /* the binding's progress in batches */
    struct kn_segment_batch batches[];
};

struct kn_cursor *kn_cursor_new(struct kn_consumer *consumer, const char *topic,
                                int32_t topic_bytes, const uint8_t topic_id[16], int32_t partition,
                                uint64_t token);
struct kn_cursor *kn_cursor_ref(struct kn_cursor *cursor);
void kn_cursor_unref(struct kn_cursor *cursor);
long kn_cursor_live(void);
static inline uint32_t kn_cursor_epoch(struct kn_cursor *cursor)
{
    return atomic_load_explicit(&cursor->epoch, memory_order_acquire);
}
/* Returns whether a Fetch of this fetch epoch was answered without an error. Then the offset that
 * it began with belongs to this topic. */
static inline bool kn_cursor_is_answered(struct kn_cursor *cursor)
{
    return atomic_load_explicit(&cursor->answered_epoch, memory_order_relaxed) ==
           kn_cursor_epoch(cursor);
}
/* Sends later segments to this queue; NULL: to the engine's `fetched`. The caller then begins a new
 * fetch epoch, because older segments may be anywhere. */
static inline void kn_cursor_set_route(struct kn_cursor *cursor, struct kn_queue *queue)
{
    atomic_store_explicit(&cursor->route, queue, memory_order_release);
}
/* Forgets the answers of this fetch epoch, to learn whether another follows. Call it only while the
 * cursor isn't fetched. */
static inline void kn_cursor_forget_answer(struct kn_cursor *cursor)
{
    atomic_store_explicit(&cursor->answered_epoch, 0, memory_order_relaxed);
}
/* The values of the last fetch response; before that, KN_OFFSET_UNKNOWN. */
static inline int64_t kn_cursor_high_watermark(struct kn_cursor *cursor)
{
    return atomic_load_explicit(&cursor->high_watermark, memory_order_relaxed);
}
static inline int64_t kn_cursor_last_stable_offset(struct kn_cursor *cursor)
{
    return atomic_load_explicit(&cursor->last_stable_offset, memory_order_relaxed);
}
static inline int64_t kn_cursor_log_start_offset(struct kn_cursor *cursor)
{
    return atomic_load_explicit(&cursor->log_start_offset, memory_order_relaxed);
}
/* Sets the first epoch of a new cursor, before any other call. A cursor that reuses the token of an
 * older one begins above its epochs, so it can ignore the older one's events. */
static inline void kn_cursor_set_epoch(struct kn_cursor *cursor, uint32_t epoch)
{
    atomic_store(&cursor->epoch, epoch);
}
/* Begins a new fetch epoch and returns it; pass it to kn_engine_fetch_start(). Segments of older
 * epochs are stale from now on. */
uint32_t kn_cursor_next_epoch(struct kn_cursor *cursor);
static inline bool kn_segment_is_stale(const struct kn_segment *segment)
{
    return segment->epoch != atomic_load_explicit(&segment->cursor->epoch, memory_order_acquire);
}
/* For the fetcher: returns whether enough messages are queued for the application
 * (queued.min.messages). If so, this broker is woken when they no longer are. */
bool kn_cursor_rests(struct kn_cursor *cursor, struct kn_broker *broker);
/* For the fetcher: counts messages that were fetched, or that were dropped before they became part
 * of a segment. */
void kn_cursor_queued(struct kn_cursor *cursor, int64_t message_count);
void kn_cursor_unqueued(struct kn_cursor *cursor, int64_t message_count);
/* For the fetcher: makes a segment with room for its batches (all zero). kn_segment_account()
 * counts it once its size is known: its bytes as the cursor's, and as the consumer's together with
 * the memory of the segment itself. So a limit also holds for many responses of one message. */
struct kn_segment *kn_segment_new(enum kn_segment_kind kind, struct kn_cursor *cursor,
                                  uint32_t epoch, int32_t batch_capacity);
void kn_segment_account(struct kn_segment *segment, int64_t size_bytes);
/* Subtracts its bytes and messages from the limits (which wakes starved fetchers) and drops its
 * references. */
void kn_segment_free(struct kn_segment *segment);
long kn_segment_live(void);

#endif
