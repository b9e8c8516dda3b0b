/* The Produce request and response on the wire, versions 0 to 13.
 *
 * Thread: any; pure functions over bytes.
 * Who frees: the caller. A request's pieces point into the batches, and a response points into its
 * input.
 * kafka_native/protocol/produce.py declares the same form; a test compares the two byte for byte.
 */
#ifndef KN_PRODUCE_PRODUCE_CODEC_H
#define KN_PRODUCE_PRODUCE_CODEC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include "base/span.h"

#define KN_API_PRODUCE 0
#define KN_PRODUCE_VERSION_MIN 0
#define KN_PRODUCE_VERSION_MAX 13
#define KN_PRODUCE_FLEXIBLE_SINCE 9
#define KN_PRODUCE_TOPIC_ID_SINCE 13
/* writing a batch adds its partition to the transaction (KIP-890) */
#define KN_PRODUCE_IMPLICIT_SINCE 12
#define KN_PRODUCE_BATCHES_SINCE 3 /* magic 2; older versions carry message sets */
#define KN_PRODUCE_ZSTD_SINCE 7

/* The newest magic that this version of Produce may carry. */
static inline int8_t kn_produce_magic(int16_t version)
{
    return version >= KN_PRODUCE_BATCHES_SINCE ? 2 : version == 2 ? 1 : 0;
}

struct kn_produce_partition { /* one batch of a request */
    const char *topic;
    int32_t topic_bytes;
    uint8_t topic_id[16]; /* zeros: none */
    int32_t partition;
    const uint8_t *records; /* the encoded batch or message set, borrowed */
    size_t records_bytes;
};

struct kn_produce_request {
    int16_t version;
    int16_t acks;
    int32_t timeout_ms;
    const char *transactional_id; /* NULL: none */
    /* consecutive partitions of one topic are sent as one topic */
    const struct kn_produce_partition *partitions;
    int32_t partition_count;
};

/* An upper bound of the bytes that encode() writes, without the batches. */
size_t kn_produce_request_bound_bytes(const struct kn_produce_request *request);
/* Writes the body around the batches at `to`. Sets pieces[] (room for 2 * partition_count + 1) to
 * the body's parts and the batches in turn. The first piece begins at `from` <= to, so it includes
 * a header that was written before `to`. Returns the bytes of all pieces. */
size_t kn_produce_request_encode(const struct kn_produce_request *request, uint8_t *from,
                                 uint8_t *to, struct iovec *pieces, int *piece_count);

struct kn_produce_result { /* one partition of a response */
    const char *topic;     /* NULL from version 13 on */
    int32_t topic_bytes;
    const uint8_t *topic_id; /* NULL before version 13 */
    int32_t partition;
    int16_t error_code;
    int64_t base_offset;
    int64_t log_append_time_ms; /* -1: create time, or not in the response */
    int64_t log_start_offset;   /* -1: not in the response */
    int32_t record_error_count; /* how many records the broker refused */
    int32_t record_error_index;
    /* the refused records that follow each other, beginning with record_error_index */
    int32_t record_error_run;
    const char *record_error; /* NULL: none */
    int32_t record_error_bytes;
    const char *error; /* NULL: none */
    int32_t error_bytes;
    int32_t leader_id; /* KIP-951, -1: no hint */
    int32_t leader_epoch;
};

struct kn_produce_response {
    struct kn_span span;
    int16_t version;
    int32_t topics_left;
    int32_t partitions_left; /* of the current topic */
    const char *topic;
    int32_t topic_bytes;
    const uint8_t *topic_id;
    /* valid after kn_produce_response_end() */
    int32_t throttle_ms;
    struct kn_span endpoints; /* the node endpoints tag, for kn_produce_response_endpoint() */
};

/* Reads the head of a response. KN_OK or KN_ERR_PROTOCOL. */
int kn_produce_response_open(struct kn_produce_response *response, struct kn_span body,
                             int16_t version);
/* Reads the next partition. 1: *result is filled; 0: no more; KN_ERR_PROTOCOL: malformed. */
int kn_produce_response_next(struct kn_produce_response *response,
                             struct kn_produce_result *result);
/* Call after next() has returned 0: reads the throttle time and the endpoints. KN_ERR_PROTOCOL:
 * malformed, or bytes are left over. */
int kn_produce_response_end(struct kn_produce_response *response);
/* Writes "host:port" of node_id from the endpoints tag (KIP-951) to text. 0: the tag doesn't have
 * the node. */
int kn_produce_response_endpoint(const struct kn_produce_response *response, int32_t node_id,
                                 char *text, size_t capacity_bytes);

#endif
