/* A record batch on its way to a broker: from the first append to its delivery report.
 *
 * Thread: the owner's. The owners are, in this order: the accumulator's lists (under its lock), the
 * request that carries it (broker thread), the deliveries queue.
 * Who frees: the last owner, with kn_batch_free(), which returns its buffers. So no request may
 * point into them any more. */
#ifndef KN_PRODUCE_BATCH_H
#define KN_PRODUCE_BATCH_H

#include <stdint.h>
#include "base/buffer.h"
#include "base/list.h"
#include "records/batch_reader.h"
#include "records/batch_writer.h"
#include "records/codec.h"

struct kn_topic;
struct kn_accumulator;
struct kn_delivery_counter;

enum kn_persistence { KN_NOT_PERSISTED = 0, KN_POSSIBLY_PERSISTED = 1, KN_PERSISTED = 2 };

struct kn_batch { /* on a cache line of its own, which holds every field that an append touches */
    struct kn_list node; /* the first field: the binding casts queue entries to struct kn_batch */
    /* 61-byte header and records as appended; kept while a report may need it, then NULL */
    struct kn_buffer *plain;
    struct kn_batch_writer writer;
    /* one per record; NULL: no callback was given. The binding releases each exactly once, or its
     * delivery counter counts it. */
    void **opaques;
    int64_t budget_bytes; /* the bytes of its messages in the budget */
    /* the fields that an append doesn't touch */
    /* staged batches only: the partition that each record asked for; -1: the partitioner's */
    int32_t *partitions;
    int32_t opaque_capacity; /* of opaques and partitions */
    int32_t partition;       /* -1: staged */
    struct kn_topic *topic;
    /* if set, this is no batch but the completion of a counter (delivery_counter.h) */
    struct kn_delivery_counter *counter;
    struct kn_accumulator *accumulator; /* NULL after a staged batch was drained */
    /* the bytes to send: plain itself, the compressed form, or a message set. NULL until encoded,
     * except for a batch that was already compressed */
    struct kn_buffer *wire;
    int64_t id;
    /* time of the first append: linger and message.timeout.ms count from here */
    int64_t created_us;
    /* the same in Unix time, if every record's timestamp is the time of its produce(); -1: the
     * application set some of them */
    int64_t created_ms;
    int64_t next_try_us; /* retry backoff */
    int64_t sent_us;
    int64_t acked_us;
    /* set by kn_accumulator_take(): the topic's id at that time; zeros: none */
    uint8_t topic_id[16];
    int32_t attempts; /* requests of which at least one byte was written */
    uint8_t encoded;  /* header and checksum are written: the bytes never change from then on */
    uint8_t was_open; /* it was open when it was taken: see kn_topic_take() */
    uint8_t counted;  /* the statistics' int_latency has its messages */
    int8_t codec;     /* codec of `wire`, enum kn_codec_id */
    /* magic of `wire`. 0 and 1 are for brokers before 0.11. Then `plain` is kept, because the next
     * try may go to a newer broker */
    int8_t magic;
    /* the outcome */
    /* never lowered: a later failure doesn't undo an earlier "possibly" */
    uint8_t persistence;
    uint8_t refusals;           /* how often its sequence number was out of order */
    uint8_t is_proved_written;  /* by a later batch: see kn_accumulator_out_of_sequence() */
    int status;                 /* enum kn_status, valid if error_code is 0 */
    int16_t error_code;         /* Kafka's error code */
    int64_t base_offset;        /* -1: unknown */
    int64_t log_append_time_ms; /* -1: create time */
    char *error_text;           /* the broker's message, from malloc(), or NULL */
    /* idempotence: set by kn_accumulator_take(), and the encoder writes them into the header; -1:
     * none */
    struct kn_list sequence_node; /* accumulator->sequenced, while base_sequence >= 0 */
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
};

/* Makes an empty batch whose buffer, from the pool, holds capacity_bytes. NULL: no memory. */
struct kn_batch *kn_batch_new(struct kn_pool *pool, struct kn_topic *topic, int32_t partition,
                              size_t capacity_bytes);
/* Makes a batch from records that are in wire form already: copies the bytes of the unopened view.
 * The encoder writes a new header. */
struct kn_batch *kn_batch_new_of_view(struct kn_pool *pool, struct kn_topic *topic,
                                      int32_t partition, const struct kn_batch_view *view);
/* makes the entry of `deliveries` for a counter; NULL: no memory */
struct kn_batch *kn_batch_new_completion(struct kn_delivery_counter *counter);
void kn_batch_free(struct kn_batch *batch); /* the opaques must have been released */
/* frees the records: the caller needs only the opaques and the outcome */
void kn_batch_drop_bytes(struct kn_batch *batch);
long kn_batch_live(void);

/* Replaces the per-record arrays by arrays for `capacity` records and keeps their content; NULL for
 * an unused array. The caller allocates the new arrays (calloc) and frees the old ones, which the
 * pointers hold afterwards. */
void kn_batch_swap_arrays(struct kn_batch *batch, void ***opaques, int32_t **partitions,
                          int32_t capacity);
/* Makes a view of the plain records, as kn_batch_view_open() does, for kn_record_reader_init().
 * KN_ERR_INVALID: `plain` was freed. */
int kn_batch_view_plain(const struct kn_batch *batch, struct kn_batch_view *view);
/* The same, but decompresses `wire` if `plain` was freed. Then the caller returns *opened to the
 * pool. */
int kn_batch_view_records(const struct kn_batch *batch, const struct kn_codec_table *codecs,
                          struct kn_batch_view *view, struct kn_buffer **opened);
/* Divides a batch of several records into two. The first has `at` records, or about half of the
 * bytes if at = 0. Opaques move to the halves, which also share the batch's range of sequence
 * numbers; all other fields are copied. The caller frees the batch with kn_batch_free().
 * KN_ERR_INVALID: the batch can't be divided so. */
int kn_batch_split(struct kn_batch *batch, const struct kn_codec_table *codecs, int32_t at,
                   struct kn_batch *halves[2]);
/* Sets the error as the outcome. Copies text_bytes of `text`, which may be NULL. */
void kn_batch_set_error(struct kn_batch *batch, int status, int16_t error_code, const char *text,
                        size_t text_bytes);
static inline void kn_batch_raise_persistence(struct kn_batch *batch,
                                              enum kn_persistence persistence)
{
    if (batch->persistence < persistence) batch->persistence = (uint8_t)persistence;
}

#endif
