/* A message as the application passes it to produce().
 *
 * Thread: any. Who frees: the caller owns all memory. */
#ifndef KN_PRODUCE_MESSAGE_H
#define KN_PRODUCE_MESSAGE_H

#include <stdint.h>
#include "records/record_reader.h"

#define KN_TIMESTAMP_GIVEN (-1) /* in place of wall_ms: a timestamp of 0 is 1970, not now */

struct kn_message {     /* the arguments of produce(), borrowed for the call */
    const uint8_t *key; /* NULL: null */
    const uint8_t *value;
    const uint8_t *headers; /* wire form, see batch_writer.h */
    size_t headers_bytes;
    int32_t key_bytes;
    int32_t value_bytes;
    int32_t header_count;
    int32_t partition;    /* -1: the partitioner chooses */
    int64_t timestamp_ms; /* 0: now, see KN_TIMESTAMP_GIVEN */
    int64_t wall_ms;      /* kn_wall_ms(), if the caller has just read it; 0: it hasn't; or
                           * KN_TIMESTAMP_GIVEN */
    void *opaque;         /* a token; NULL: no callback */
};

/* Makes a message of a record that was read. */
static inline struct kn_message kn_message_of(const struct kn_record *record, int32_t partition,
                                              void *opaque)
{
    return (struct kn_message){
        .key = record->key,
        .value = record->value,
        .headers = record->headers,
        .headers_bytes = (size_t)record->headers_bytes,
        .key_bytes = record->key_bytes,
        .value_bytes = record->value_bytes,
        .header_count = record->header_count,
        .partition = partition,
        .timestamp_ms = record->timestamp_ms,
        .wall_ms = KN_TIMESTAMP_GIVEN,
        .opaque = opaque,
    };
}

#endif
