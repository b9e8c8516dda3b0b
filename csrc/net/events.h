/* Events that the engine reports to the control plane, on one queue (control_queue.h).
 *
 * Thread: broker threads (and the façade) create them. The control thread takes them and frees each
 * with kn_event_free(). */
#ifndef KN_NET_EVENTS_H
#define KN_NET_EVENTS_H

#include <stdint.h>
#include "base/list.h"
#include "net/chunk.h"
#include "net/reserve.h"

enum kn_event_kind {
    /* TCP, the proxy's tunnel and TLS are up: start the handshake (ApiVersions, SASL) on this
     * `generation` */
    KN_EVENT_CONNECTED = 1,
    /* the connection is down. status and text: the reason; attempts: consecutive failures. With
     * KN_ERR_TLS, text is only OpenSSL's reason, and verify_error and body (DER) describe the
     * peer's certificate */
    KN_EVENT_DISCONNECTED,
    /* the response to the request with this token: body in chunk, or status != KN_OK */
    KN_EVENT_REPLY,
    KN_EVENT_PARTITION, /* a Produce error that needs new metadata: error_code, leader hint */
    /* a Fetch error stopped cursor `token` at `offset`: error_code or status */
    KN_EVENT_CURSOR,
    /* the first message for a topic without metadata: token is the topic's */
    KN_EVENT_TOPIC_WANTED,
    KN_EVENT_THROTTLED, /* throttle_ms as in the response, without a limit */
    /* a partition must restart its sequence numbers under another epoch than this producer id
     * (`offset`) and epoch: error_code */
    KN_EVENT_OUT_OF_SEQUENCE,
    /* a partition's guarantee is broken, and the engine takes no more messages: error_code or
     * status, text */
    KN_EVENT_FATAL,
    /* the leader asks the client to read cursor `token` from the replica leader_id (KIP-392); the
     * cursor has stopped at `offset` */
    KN_EVENT_REPLICA,
    /* the partition of topic `token` has records for transaction `offset`. If the partition must
     * join the transaction first, nothing is sent before it is admitted */
    KN_EVENT_TXN_PARTITION,
    /* a batch of transaction `offset` failed: error_code or status; attempts: 1 if the broker has
     * refused it; once per transaction */
    KN_EVENT_TXN_FAILED,
    /* a log line (log.h): status = enum kn_log_context, text, api_key or -1; token = time
     * (kn_clock_us()) */
    KN_EVENT_LOG,
    /* this `generation` works: the broker has answered the first request after the handshake, or
     * the connection has lasted for some time */
    KN_EVENT_WORKING
};

enum kn_peer_closed {
    KN_PEER_NOT = 0,
    KN_PEER_CLOSED_IDLE,
    KN_PEER_CLOSED,
    KN_PEER_CLOSED_IN_FLIGHT
};

struct kn_event {
    struct kn_list node;        /* the first field: see reserve.h */
    struct kn_reserve *reserve; /* the reserve that gets the memory back; NULL: free() */
    enum kn_event_kind kind;
    int32_t engine;     /* its number (control_queue.h) */
    int32_t broker;     /* handle; -1 */
    int32_t generation; /* the connection's, as in CONNECTED */
    uint64_t token;
    int status;         /* enum kn_status */
    int16_t error_code; /* Kafka's error code; 0: none */
    int16_t api_key;
    int32_t partition;
    int32_t leader_id; /* KIP-951 hint, -1 = none */
    int32_t leader_epoch;
    uint32_t epoch; /* CURSOR, REPLICA: the fetch epoch */
    int32_t throttle_ms;
    int32_t attempts;
    int peer_closed;  /* DISCONNECTED: enum kn_peer_closed, set if the peer closed the connection */
    int verify_error; /* DISCONNECTED: X509_V_ERR_... */
    int64_t offset;
    struct kn_chunk *chunk; /* REPLY, DISCONNECTED: owned reference */
    const uint8_t *body;    /* REPLY: the part of chunk after the response header; NULL: none */
    size_t body_bytes;
    char text[240]; /* DISCONNECTED and others: cause and address; ASCII, without secrets */
};

/* `reserve`: the engine's, for an event that must not be lost when malloc() fails; NULL: the event
 * may be lost. Returns NULL if there is no memory, and none in the reserve. */
struct kn_event *kn_event_new(struct kn_reserve *reserve, enum kn_event_kind kind, int32_t broker);
/* The limit of a broker's throttle time in this client, so that a wrong value of days can't stop
 * it. By default Kafka computes quotas over eleven seconds, and a broker delays a client by itself,
 * too. */
#define KN_THROTTLE_MAX_MS 60000
/* Returns how long the requests to a broker wait after a response with this throttle time. */
static inline int64_t kn_throttle_us(int32_t throttle_ms)
{
    return (int64_t)(throttle_ms < 0                    ? 0
                     : throttle_ms > KN_THROTTLE_MAX_MS ? KN_THROTTLE_MAX_MS
                                                        : throttle_ms) *
           1000;
}
/* Reports that a quota throttled this client, with `throttle_ms` as in the response. NULL: no
 * memory. Losing this event is harmless, because the sender and the fetcher wait in any case. */
struct kn_event *kn_event_throttled(struct kn_reserve *reserve, int32_t broker, int16_t api_key,
                                    int32_t throttle_ms);
void kn_event_free(struct kn_event *event); /* NULL is allowed */
long kn_event_live(void);

#endif
