/* A partition that is consumed: the application's position, and the segments of fetched data on
 * their way to it.
 *
 * Thread: the application owns `position`; broker threads read the immutable and atomic fields.
 * `epoch` is the fetch epoch: each start, seek, pause or stop raises it, and whatever was fetched
 * under an older one is dropped by comparing the integer, never by searching queues.
 * Who frees: counted; the binding holds one reference, each segment and each fetcher's slot
 * another.
 */
#ifndef KN_CONSUME_CURSOR_H
#define KN_CONSUME_CURSOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "net/chunk.h"
#include "records/batch_reader.h"

struct kn_broker;
struct kn_consumer;

#define KN_OFFSET_UNKNOWN (-1001) /* librdkafka's RD_KAFKA_OFFSET_INVALID */

struct kn_cursor {
    /* immutable */
    struct kn_consumer *consumer;
    char *topic;
    int32_t topic_bytes;
    int32_t partition;
    uint8_t topic_id[16]; /* zeros: none */
    uint64_t token;       /* the binding's */
    /* atomic */
    atomic_int refs;
    atomic_uint epoch;
    _Atomic int64_t queued_bytes;    /* of segments not yet consumed */
    _Atomic int64_t queued_messages; /* the same, and those of results not yet opened */
    /* leaves it out of Fetch until queued_messages falls below queued.min.messages; NULL: nobody */
    _Atomic(struct kn_broker *) rester;
    atomic_int woken; /* in a broker's list of cursors that it shall look at */
    /* under that broker's lock */
    struct kn_list wake_node;
    /* the fetch epoch in which a leader has last had this partition; 0: never */
    atomic_uint answered_epoch;
    _Atomic int64_t high_watermark; /* -1001: unknown */
    _Atomic int64_t last_stable_offset;
    _Atomic int64_t log_start_offset;
    _Atomic int64_t fetch_offset; /* where the next Fetch goes on; -1001: nowhere yet */
    /* the end of the partition as it was reached last; -1001: never */
    _Atomic int64_t eof_offset;
    _Atomic int64_t received_messages, received_bytes; /* ever, opened for the application */
    _Atomic int64_t dropped_messages; /* ever, of those: fetched under an older epoch */
};

/* A piece of a fetch response: the opened batches of one partition, ready for the application.
 * Data, end-of-partition or an error. */
enum kn_segment_kind { KN_SEGMENT_DATA, KN_SEGMENT_EOF, KN_SEGMENT_ERROR };

struct kn_segment_batch {
    struct kn_batch_view view; /* opened, unless the engine keeps batches as they are */
    struct kn_chunk *chunk;    /* what its records borrow from; a reference */
};

struct kn_segment {
    struct kn_list node;
    enum kn_segment_kind kind;
    struct kn_cursor *cursor; /* a reference */
    uint32_t epoch;
    /* records below are not for the application (a batch may begin earlier) */
    int64_t fetch_offset;
    int64_t next_offset;   /* where the position stands after this segment */
    int64_t size_bytes;    /* what it counts in queued_bytes */
    int64_t message_count; /* ... and in queued_messages */
    /* ERROR: KN_ERR_CRC, KN_ERR_TOO_LARGE (bomb), KN_ERR_CODEC, KN_ERR_INVALID ... */
    int status;
    int16_t error_code;
    int32_t batch_count;
    int32_t batch_next; /* the binding's progress */
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
/* Whether a Fetch was answered without an error in this fetch epoch: the offset that it began with
 * is one of this topic's. */
static inline bool kn_cursor_is_answered(struct kn_cursor *cursor)
{
    return atomic_load_explicit(&cursor->answered_epoch, memory_order_relaxed) ==
           kn_cursor_epoch(cursor);
}
/* As the last fetch response told them, KN_OFFSET_UNKNOWN before. */
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
/* A new cursor, before anything else: its epochs go on from here. For a token that was another
 * cursor's: an event of that one carries an older epoch. */
static inline void kn_cursor_set_epoch(struct kn_cursor *cursor, uint32_t epoch)
{
    atomic_store(&cursor->epoch, epoch);
}
/* New fetch epoch: returned, to be passed to kn_engine_fetch_start(). Segments of older epochs are
 * stale from now on. */
uint32_t kn_cursor_next_epoch(struct kn_cursor *cursor);
static inline bool kn_segment_is_stale(const struct kn_segment *segment)
{
    return segment->epoch != atomic_load_explicit(&segment->cursor->epoch, memory_order_acquire);
}
/* For the fetcher: whether enough is queued for the application (queued.min.messages). Then this
 * broker is woken once it isn't any more. */
bool kn_cursor_rests(struct kn_cursor *cursor, struct kn_broker *broker);
/* For the fetcher: messages fetched, and given up without becoming a segment's. */
void kn_cursor_queued(struct kn_cursor *cursor, int64_t message_count);
void kn_cursor_unqueued(struct kn_cursor *cursor, int64_t message_count);
/* For the fetcher: a segment with room for its batches (all zero), and counting it once its size is
 * known. */
struct kn_segment *kn_segment_new(enum kn_segment_kind kind, struct kn_cursor *cursor,
                                  uint32_t epoch, int32_t batch_capacity);
void kn_segment_account(struct kn_segment *segment, int64_t size_bytes);
/* Gives its bytes and messages back to their limits (waking starved fetchers) and its references to
 * their owners. */
void kn_segment_free(struct kn_segment *segment);
long kn_segment_live(void);

#endif
