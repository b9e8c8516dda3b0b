/* The Fetch request and response on the wire, versions 0 to 18.
 *
 * Thread: any; pure functions over bytes.
 * Who frees: the caller. A response points into its input.
 * kafka_native/protocol/fetch.py declares the same form; a test compares the two byte for byte. */
#ifndef KN_CONSUME_FETCH_CODEC_H
#define KN_CONSUME_FETCH_CODEC_H

#include <stdint.h>
#include "base/buffer.h"
#include "base/span.h"

#define KN_API_FETCH 1
#define KN_FETCH_VERSION_MIN 0
#define KN_FETCH_VERSION_MAX 18
#define KN_FETCH_ISOLATION_SINCE 4
#define KN_FETCH_SESSION_SINCE 7
#define KN_FETCH_FLEXIBLE_SINCE 12
#define KN_FETCH_TOPIC_ID_SINCE 13

struct kn_fetch_partition { /* one partition of a request */
    const char *topic;
    int32_t topic_bytes;
    const uint8_t *topic_id;
    int32_t partition;
    int32_t leader_epoch;
    int64_t offset;
    int32_t max_bytes;
};

struct kn_fetch_request {
    int16_t version;
    int32_t max_wait_ms, min_bytes, max_bytes;
    int8_t isolation_level;
    int32_t session_id, session_epoch;
    /* consecutive partitions of one topic are sent as one topic */
    const struct kn_fetch_partition *partitions;
    int32_t partition_count;
    const struct kn_fetch_partition *forgotten;
    int32_t forgotten_count;
    const char *rack;
};

/* Appends the request body to *buffer. KN_OK or KN_ERR_NOMEM. */
int kn_fetch_request_encode(const struct kn_fetch_request *request, struct kn_buffer **buffer);

struct kn_fetch_response {
    int32_t throttle_ms;
    int16_t error_code;
    int32_t session_id;
    struct kn_span topics; /* for kn_fetch_response_next() */
    int32_t topics_left;
    int32_t partitions_left; /* of the current topic */
    int16_t version;
    const char *topic; /* current topic: name (old versions) or id */
    int32_t topic_bytes;
    const uint8_t *topic_id;
};

struct kn_aborted_transaction { /* an aborted transaction of a partition */
    int64_t producer_id;
    int64_t first_offset;
};

struct kn_fetch_result { /* one partition of a response */
    int32_t partition;
    int16_t error_code;
    int64_t high_watermark;
    int64_t last_stable_offset; /* before version 4: high_watermark, as there are no transactions */
    int64_t log_start_offset;   /* -1: not in the response */
    int32_t aborted_count;      /* entries in `aborted`, for kn_fetch_result_aborted() */
    struct kn_span aborted;
    int32_t preferred_read_replica;
    const uint8_t *records;
    size_t records_bytes;
    int32_t leader_id, leader_epoch; /* KIP-951, -1: no hint */
    int64_t diverging_end_offset;    /* KIP-595, -1: none */
    int32_t diverging_epoch;
};

/* Reads the head of a response. KN_OK or KN_ERR_PROTOCOL. */
int kn_fetch_response_open(struct kn_fetch_response *response, struct kn_span body,
                           int16_t version);
/* Reads the next partition. 1: *result is filled; 0: no more; KN_ERR_PROTOCOL: malformed. */
int kn_fetch_response_next(struct kn_fetch_response *response, struct kn_fetch_result *result);
/* Reads the next entry. kn_fetch_response_next() has checked the count against the bytes. */
struct kn_aborted_transaction kn_fetch_result_aborted(struct kn_fetch_result *result,
                                                      int16_t version);

#endif
