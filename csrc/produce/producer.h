/* The state that all topics and senders of a client share.
 *
 * Thread: each group of fields names its threads.
 * Lock: `lock` (leaf) guards the list of topics. Who frees: the engine embeds it. */
#ifndef KN_PRODUCE_PRODUCER_H
#define KN_PRODUCE_PRODUCER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "base/status.h"
#include "produce/budget.h"
#include "net/client.h"
#include "produce/partitioner.h"
#include "net/thread.h"
#include "produce/transaction.h"
#include "produce/worker_pool.h"

enum kn_idempotence { /* whether batches have sequence numbers and wait for a producer id */
                      KN_IDEMPOTENCE_OFF,
                      KN_IDEMPOTENCE_DEMANDED, /* batches are never sent without numbers */
                      /* batches have numbers unless the brokers don't support or allow it: see
                       * kn_engine_grant() */
                      KN_IDEMPOTENCE_WANTED
};

struct kn_produce_config {
    int64_t queue_messages_max;    /* queue.buffering.max.messages */
    int64_t queue_bytes_max;       /* queue.buffering.max.kbytes * 1024 */
    int32_t linger_us;             /* linger.ms */
    int32_t batch_bytes;           /* batch.size */
    int32_t batch_messages;        /* batch.num.messages */
    int32_t message_max_bytes;     /* message.max.bytes */
    int32_t max_in_flight;         /* max.in.flight.requests.per.connection */
    int32_t backpressure_requests; /* queue.buffering.backpressure.threshold; 0: not set */
    int16_t acks;                  /* request.required.acks: -1, 0, 1 */
    int32_t produce_timeout_ms;    /* request.timeout.ms, sent to the broker */
    int32_t message_timeout_ms;    /* 0: never */
    int32_t retries;               /* message.send.max.retries */
    int32_t retry_backoff_ms, retry_backoff_max_ms;
    int32_t codec; /* enum kn_codec_id */
    int32_t codec_level;
    enum kn_partitioner partitioner;
    int32_t sticky_linger_ms;        /* sticky.partitioning.linger.ms */
    bool adaptive_partitioning;      /* partitioner.adaptive.partitioning.enable */
    int32_t availability_timeout_ms; /* partitioner.availability.timeout.ms */
    bool rack_aware;                 /* partitioner.rack.aware */
    int idempotence;                 /* enable.idempotence, enum kn_idempotence */
    bool gapless;                    /* enable.gapless.guarantee: a failed batch is a fatal error */
    char transactional_id[KN_TRANSACTIONAL_ID_BYTES_MAX]; /* "": none */
    /* the client has a delivery callback for all messages: every batch is reported */
    bool report_all;
    bool report_errors_only; /* delivery.report.only.error */
};

/* The configuration of one topic. Only acks, produce_timeout_ms, message_timeout_ms, codec,
 * codec_level and partitioner may differ from the producer's. */
struct kn_topic_settings {
    struct kn_list node;
    char *name;
    int32_t name_bytes;
    struct kn_produce_config config;
};

struct kn_producer {
    /* immutable */
    const struct kn_produce_config *config;
    struct kn_list topic_settings; /* filled before the first topic is made */
    bool topics_compress;          /* one of topic_settings has a codec */
    struct kn_client *client;
    /* guards itself */
    struct kn_worker_pool workers; /* threads that compress */
    /* atomic */
    struct kn_budget budget; /* room taken by messages that aren't settled */
    atomic_int flushing;     /* > 0: linger is ignored */
    /* KN_OK; KN_ERR_FATAL or KN_ERR_CLOSED: the producer takes and sends no messages any more */
    atomic_int refusing;
    struct kn_transaction transaction;
    /* control thread only */
    int64_t producer_id; /* idempotence; -1: none yet */
    int16_t producer_epoch;
    /* under lock */
    struct kn_mutex lock;
    struct kn_list topics;
};

/* KN_OK or KN_ERR_NOMEM; after an error there is nothing to deinit. */
int kn_producer_init(struct kn_producer *producer, const struct kn_produce_config *config,
                     struct kn_client *client);
void kn_producer_deinit(struct kn_producer *producer); /* its topics must be freed before */
static inline bool kn_producer_is_transactional(const struct kn_producer *producer)
{
    return producer->config->transactional_id[0] != 0;
}
/* Sets the configuration of a topic. Call it before the engine has a broker or a topic.
 * KN_OK or KN_ERR_NOMEM. */
int kn_producer_configure_topic(struct kn_producer *producer, const char *name, int32_t name_bytes,
                                const struct kn_produce_config *config);
/* Returns the configuration of a topic: its own one, or else the producer's. */
const struct kn_produce_config *kn_producer_config_of(const struct kn_producer *producer,
                                                      const char *name, int32_t name_bytes);
static inline bool kn_producer_compresses(const struct kn_producer *producer)
{
    return producer->config->codec != 0 || producer->topics_compress;
}
/* Any thread: from now on the producer takes and sends no message. Messages in flight get their
 * outcome; kn_engine_purge() fails the rest. */
static inline void kn_producer_refuse(struct kn_producer *producer)
{
    int nothing = KN_OK;
    atomic_compare_exchange_strong(&producer->refusing, &nothing, KN_ERR_FATAL);
}

#endif
