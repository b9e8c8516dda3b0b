/* What the engine tells the control plane: typed events on one queue.
 *
 * Thread: created by broker threads (and by the façade), consumed by the control thread, which
 * frees each with kn_event_free().
 */
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
    /* status + text say why; attempts counts failures in a row; KN_ERR_TLS: text is OpenSSL's
     * reason alone, verify_error and body (DER) are about the peer's certificate */
    KN_EVENT_DISCONNECTED,
    KN_EVENT_REPLY,     /* token's reply: body in chunk, or status != KN_OK */
    KN_EVENT_PARTITION, /* a produce error that needs new metadata: error_code, leader hint */
    /* a fetch error on cursor `token`: it has stopped at `offset`; error_code or status */
    KN_EVENT_CURSOR,
    /* first produce to a topic that has no metadata: token = the topic's token */
    KN_EVENT_TOPIC_WANTED,
    KN_EVENT_THROTTLED, /* throttle_ms as the broker said it, not bounded */
    /* a partition's numbering must start anew, under another epoch than offset (producer id) and
     * epoch: error_code */
    KN_EVENT_OUT_OF_SEQUENCE,
    /* a partition's guarantee can't be kept, the engine takes nothing new: error_code or status,
     * text */
    KN_EVENT_FATAL,
    /* the leader would rather have cursor `token` read at the replica leader_id (KIP-392): it has
     * stopped at `offset` */
    KN_EVENT_REPLICA,
    /* topic `token` and partition are to be written to in transaction `offset`; nothing is sent
     * before it is admitted, if it has to be */
    KN_EVENT_TXN_PARTITION,
    /* a batch of transaction `offset` wasn't delivered: error_code or status; told once a
     * transaction */
    KN_EVENT_TXN_FAILED,
    /* a line (log.h): status = enum kn_log_context, text, api_key or -1; token = when
     * (kn_clock_us()) */
    KN_EVENT_LOG,
    /* the broker has answered the first request after the handshake of this `generation`, or kept
     * it for so long: it works */
    KN_EVENT_WORKING
};

enum kn_peer_closed {
    KN_PEER_NOT = 0,
    KN_PEER_CLOSED_IDLE,
    KN_PEER_CLOSED,
    KN_PEER_CLOSED_IN_FLIGHT
};

struct kn_event {
    struct kn_list node;        /* first: see reserve.h */
    struct kn_reserve *reserve; /* where its memory goes back to; NULL: to malloc() */
    enum kn_event_kind kind;
    int32_t broker;     /* handle; -1 */
    int32_t generation; /* the connection's, from CONNECTED */
    uint64_t token;
    int status;         /* enum kn_status */
    int16_t error_code; /* Kafka's, 0 = none */
    int16_t api_key;
    int32_t partition;
    int32_t leader_id; /* KIP-951 hint, -1 = none */
    int32_t leader_epoch;
    uint32_t epoch; /* CURSOR, REPLICA: fetch epoch it belongs to */
    int32_t throttle_ms;
    int32_t attempts;
    int peer_closed;  /* DISCONNECTED: the peer ended it, not we; enum kn_peer_closed */
    int verify_error; /* DISCONNECTED: X509_V_ERR_... */
    int64_t offset;
    struct kn_chunk *chunk; /* REPLY, DISCONNECTED: owned reference */
    const uint8_t *body;    /* within chunk, of a REPLY after the response header; NULL: none */
    size_t body_bytes;
    char text[240]; /* DISCONNECTED and others: cause and address, ASCII, no secrets */
};

/* `reserve`: the engine's, so that it can be had without memory, too; NULL where it may get lost.
 * NULL: nothing is left of the reserve, either. */
struct kn_event *kn_event_new(struct kn_reserve *reserve, enum kn_event_kind kind, int32_t broker);
/* The longest that a broker's throttle time holds this client back: a broker that says days may
 * delay it, not stop it. Kafka's quotas look at eleven seconds by default, and a broker keeps a
 * client waiting by itself, too. */
#define KN_THROTTLE_MAX_MS 60000
/* How long a throttle time of a response holds its broker's requests back. */
static inline int64_t kn_throttle_us(int32_t throttle_ms)
{
    return (int64_t)(throttle_ms < 0                    ? 0
                     : throttle_ms > KN_THROTTLE_MAX_MS ? KN_THROTTLE_MAX_MS
                                                        : throttle_ms) *
           1000;
}
/* A response said that a quota holds this client back: `throttle_ms` as it is there. NULL: no
 * memory; it is only told, that sender and fetcher hold back is what counts. */
struct kn_event *kn_event_throttled(struct kn_reserve *reserve, int32_t broker, int16_t api_key,
                                    int32_t throttle_ms);
void kn_event_free(struct kn_event *event); /* NULL is allowed */
long kn_event_live(void);

#endif
