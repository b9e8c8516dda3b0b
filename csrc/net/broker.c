/* A broker's shared state: broker.h. */
#include "net/broker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "net/thread.h"

int kn_broker_init(struct kn_broker *broker, struct kn_client *client,
                   const struct kn_broker_events *on, void *owner, int32_t handle, int32_t node_id,
                   const char *host, uint16_t port)
{
    int statistics = client->config->statistics;
    broker->client = client;
    broker->on = on;
    broker->owner = owner;
    broker->handle = handle;
    broker->node_id = node_id;
    broker->port = port;
    broker->host = strdup(host);
    broker->connection = kn_connection_new(&client->config->connection, client->pool);
    if (statistics) broker->windows = kn_broker_windows_new();
    if (!broker->host || !broker->connection || (statistics && !broker->windows)) {
        kn_broker_deinit(broker);
        return KN_ERR_NOMEM;
    }
    kn_connection_set_log(broker->connection, &client->log, handle);
    broker->means.on = &client->measuring;
    kn_connection_measure(broker->connection, broker->windows, &broker->means);
    atomic_init(&broker->state, KN_BROKER_INIT);
    atomic_init(&broker->state_since_us, kn_clock_us());
    return KN_OK;
}

void kn_broker_deinit(struct kn_broker *broker)
{
    kn_connection_free(broker->connection);
    free(broker->windows);
    free(broker->host);
}

void kn_broker_release(struct kn_broker *broker, struct kn_traffic *traffic)
{
    struct kn_connection *connection = broker->connection;
    kn_connection_add_traffic(connection, traffic);
    broker->connection = NULL; /* first: a child that is forked meanwhile must find a valid one */
    kn_connection_free(connection);
    free(broker->windows);
    broker->windows = NULL;
}

void kn_broker_post_reply(struct kn_broker *broker, struct kn_event *event, int32_t generation,
                          int status, struct kn_chunk *chunk, struct kn_span body)
{
    event->status = status;
    event->generation = generation;
    if (status == KN_OK && chunk) {
        event->chunk = kn_chunk_ref(chunk);
        event->body = body.at;
        event->body_bytes = kn_span_left(&body);
    } else if (status == KN_ERR_CLOSED || status == KN_ERR_STALE) {
        snprintf(event->text, sizeof event->text, "%.120s:%u: %s", broker->host,
                 (unsigned)broker->port, kn_status_text(status));
    } else if (status) {
        const char *cause = kn_connection_error_text(broker->connection);
        if (cause[0]) snprintf(event->text, sizeof event->text, "%s", cause);
        else
            snprintf(event->text, sizeof event->text, "%.120s:%u: %s", broker->host,
                     (unsigned)broker->port, kn_status_text(status));
    }
    kn_client_post_event(broker->client, event);
}
