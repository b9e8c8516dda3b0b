/* The state that all topics and senders of a client share: producer.h. */
#include "produce/producer.h"

int kn_producer_init(struct kn_producer *producer, const struct kn_produce_config *config,
                     struct kn_client *client)
{
    producer->config = config;
    producer->client = client;
    producer->producer_id = producer->producer_epoch = -1;
    producer->budget.messages_max = config->queue_messages_max;
    producer->budget.bytes_max = config->queue_bytes_max;
    if (kn_queue_init(&producer->budget.room) != KN_OK) return KN_ERR_NOMEM;
    kn_worker_pool_init(&producer->workers,
                        config->codec == KN_CODEC_NONE ? 0 : kn_worker_pool_useful_size());
    kn_mutex_init(&producer->lock, KN_RANK_LEAF);
    kn_list_init(&producer->topics);
    return KN_OK;
}

void kn_producer_deinit(struct kn_producer *producer)
{
    kn_queue_deinit(&producer->budget.room);
    kn_worker_pool_deinit(&producer->workers);
    kn_mutex_deinit(&producer->lock);
}
