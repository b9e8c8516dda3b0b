/* A record batch on its way out: from the first append to its delivery report.
 *
 * Thread: whoever owns it. An accumulator's lists (under its lock) own it first, then the request
 * that carries it (broker thread), then the deliveries queue. Who frees: the last owner, with
 * kn_batch_free(), which gives its buffers back; so no request that points into them may be left.
 */
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

struct kn_batch {        /* on a cache line, which is what every append touches of it */
    struct kn_list node; /* first: the binding casts what it takes off the queue */
    /* 61-byte header + records as appended; kept while reports may need it, NULL afterwards */
    struct kn_buffer *plain;
    struct kn_batch_writer writer;
    /* one a record, NULL when no callback was given; each is given back exactly once by the
     * binding, or counted by its counter */
    void **opaques;
    int64_t budget_bytes; /* what its messages took from the budget */
    /* the rest */
    /* staged batches only: the asked partition of each record (-1: the partitioner's choice) */
    int32_t *partitions;
    int32_t opaque_capacity; /* of opaques and partitions */
    int32_t partition;       /* -1: staged */
    struct kn_topic *topic;
    /* not a batch at all, but a counter's completion (delivery_counter.h); NULL: a batch */
    struct kn_delivery_counter *counter;
    struct kn_accumulator *accumulator; /* NULL once a staged batch was drained */
    /* what is sent: plain itself, the compressed form, or a message set; NULL until encoded, unless
     * it came like that */
    struct kn_buffer *wire;
    int64_t id;
    int64_t created_us; /* first append: linger and message.timeout.ms count from here */
    /* the same in Unix time, if all records' timestamps are times of produce(); -1: some are the
     * application's */
    int64_t created_ms;
    int64_t next_try_us; /* retry backoff */
    int64_t sent_us;
    int64_t acked_us;
    /* the topic's when the batch was taken, zeros: none; given by kn_accumulator_take() */
    uint8_t topic_id[16];
    int32_t attempts; /* requests of which at least a byte was written */
    uint8_t encoded;  /* header and checksum written: immutable from then on */
    uint8_t was_open; /* it was taken while it was open: see kn_topic_take() */
    uint8_t counted;  /* its messages are in the statistics' int_latency */
    int8_t codec;     /* of wire, enum kn_codec_id */
    /* of wire. 0 and 1 are for a broker before 0.11; plain is then kept, for the next try may go to
     * a newer one */
    int8_t magic;
    /* the outcome */
    /* never falls: a retry that fails cleanly doesn't undo an earlier "possibly" */
    uint8_t persistence;
    int status;                 /* enum kn_status when error_code is 0 */
    int16_t error_code;         /* Kafka's */
    int64_t base_offset;        /* -1: unknown */
    int64_t log_append_time_ms; /* -1: create time */
    char *error_text;           /* malloc'ed broker message or NULL */
    /* idempotence: given by kn_accumulator_take(), written into the header by the encoder; -1: none
     */
    struct kn_list sequence_node; /* accumulator->sequenced, while base_sequence >= 0 */
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
};

/* An empty batch whose buffer, of the pool, holds capacity_bytes. NULL: no memory. */
struct kn_batch *kn_batch_new(struct kn_pool *pool, struct kn_topic *topic, int32_t partition,
                              size_t capacity_bytes);
/* A batch of records that are in their wire form already: a copy of what the view, which isn't
 * opened, was read from. Its header is written anew by the encoder. */
struct kn_batch *kn_batch_new_of_view(struct kn_pool *pool, struct kn_topic *topic,
                                      int32_t partition, const struct kn_batch_view *view);
/* what stands in `deliveries` for a counter; NULL: no memory */
struct kn_batch *kn_batch_new_completion(struct kn_delivery_counter *counter);
void kn_batch_free(struct kn_batch *batch); /* opaques must have been given back */
/* only its opaques and its outcome are wanted any more */
void kn_batch_drop_bytes(struct kn_batch *batch);
long kn_batch_live(void);

/* Replaces the per-record arrays by ones for `capacity` records, content kept; NULL for one that
 * isn't wanted. The caller allocates (with calloc) and frees what the pointers hold afterwards: the
 * old arrays. */
void kn_batch_swap_arrays(struct kn_batch *batch, void ***opaques, int32_t **partitions,
                          int32_t capacity);
/* A view over the plain records, as kn_batch_view_open() leaves it, for kn_record_reader_init().
 * KN_ERR_INVALID: plain was given back. */
int kn_batch_view_plain(const struct kn_batch *batch, struct kn_batch_view *view);
/* The same, decompressed from `wire` if plain was given back; *opened is then to be given back. */
int kn_batch_view_records(const struct kn_batch *batch, const struct kn_codec_table *codecs,
                          struct kn_batch_view *view, struct kn_buffer **opened);
/* Makes two batches of one with several records: the first has `at` of them, or with at = 0 about
 * half of the bytes; opaques move over, everything else that is known of the batch is copied, and a
 * numbered batch's halves share its range of numbers. The batch itself is left for kn_batch_free().
 * KN_ERR_INVALID: there are no two such parts. */
int kn_batch_split(struct kn_batch *batch, const struct kn_codec_table *codecs, int32_t at,
                   struct kn_batch *halves[2]);
/* Sets the outcome of a failure; text (text_bytes of it, may be NULL) is copied. */
void kn_batch_set_error(struct kn_batch *batch, int status, int16_t error_code, const char *text,
                        size_t text_bytes);
static inline void kn_batch_raise_persistence(struct kn_batch *batch,
                                              enum kn_persistence persistence)
{
    if (batch->persistence < persistence) batch->persistence = (uint8_t)persistence;
}

#endif
