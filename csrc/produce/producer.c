/* The state that all topics and senders of a client share: producer.h. */
#include "produce/producer.h"

#include <stdlib.h>
#include <string.h>
#include "base/status.h"

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
    kn_list_init(&producer->topic_settings);
    return KN_OK;
}

int kn_producer_configure_topic(struct kn_producer *producer, const char *name, int32_t name_bytes,
                                const struct kn_produce_config *config)
{
    struct kn_topic_settings *settings = malloc(sizeof *settings);
    char *copy = malloc((size_t)name_bytes + 1);
    if (!settings || !copy) {
        free(settings);
        free(copy);
        return KN_ERR_NOMEM;
    }
    memcpy(copy, name, (size_t)name_bytes);
    settings->name = copy;
    settings->name_bytes = name_bytes;
    settings->config = *config;
    kn_list_push_back(&producer->topic_settings, &settings->node);
    if (config->codec != KN_CODEC_NONE) {
        producer->topics_compress = 1;
        if (producer->workers.size == 0) producer->workers.size = kn_worker_pool_useful_size();
    }
    return KN_OK;
}

const struct kn_produce_config *kn_producer_config_of(const struct kn_producer *producer,
                                                      const char *name, int32_t name_bytes)
{
    for (const struct kn_list *node = producer->topic_settings.next;
         node != &producer->topic_settings; node = node->next) {
        const struct kn_topic_settings *each = KN_LIST_ENTRY(node, struct kn_topic_settings, node);
        if (each->name_bytes == name_bytes && memcmp(each->name, name, (size_t)name_bytes) == 0)
            return &each->config;
    }
    return producer->config;
}

void kn_producer_deinit(struct kn_producer *producer)
{
    kn_queue_deinit(&producer->budget.room);
    kn_worker_pool_deinit(&producer->workers);
    kn_mutex_deinit(&producer->lock);
    struct kn_list *node;
    while ((node = kn_list_pop_front(&producer->topic_settings))) {
        struct kn_topic_settings *settings = KN_LIST_ENTRY(node, struct kn_topic_settings, node);
        free(settings->name);
        free(settings);
    }
}
