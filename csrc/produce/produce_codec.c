/* The Produce request and response on the wire: produce_codec.h.
 *
 * Thread: any. Lock: none. It allocates nothing. Every count in a response is checked against the
 * remaining bytes before use. */
#include "produce/produce_codec.h"

#include <stdio.h>
#include "base/status.h"
#include "base/endian.h"
#include "base/varint.h"

/* --- request --- */

#define BODY_FIXED_BYTES 16      /* transactional id, acks, timeout, topic count, tags */
#define TOPIC_FIXED_BYTES 24     /* name length or id, partition count, tags */
#define PARTITION_FIXED_BYTES 12 /* index, records length, tags */

static int same_topic(const struct kn_produce_partition *a, const struct kn_produce_partition *b)
{
    return a->topic_bytes == b->topic_bytes &&
           memcmp(a->topic, b->topic, (size_t)a->topic_bytes) == 0 &&
           memcmp(a->topic_id, b->topic_id, 16) == 0;
}

/* Returns how many partitions from `first` on belong to one topic. */
static int32_t topic_run(const struct kn_produce_request *request, int32_t first)
{
    int32_t end = first + 1;
    while (end < request->partition_count &&
           same_topic(&request->partitions[first], &request->partitions[end]))
        end++;
    return end - first;
}

size_t kn_produce_request_bound_bytes(const struct kn_produce_request *request)
{
    size_t size = BODY_FIXED_BYTES +
                  (request->transactional_id ? strlen(request->transactional_id) : 0);
    for (int32_t i = 0; i < request->partition_count; i++) {
        size += TOPIC_FIXED_BYTES + PARTITION_FIXED_BYTES +
                (size_t)request->partitions[i].topic_bytes;
    }
    return size;
}

static uint8_t *put_count(uint8_t *to, int flexible, int32_t count)
{
    return flexible ? kn_uvarint_put(to, (uint32_t)count + 1) : kn_put_i32(to, count);
}

static uint8_t *put_topic(uint8_t *to, int16_t version, const struct kn_produce_partition *topic)
{
    if (version >= KN_PRODUCE_TOPIC_ID_SINCE) {
        memcpy(to, topic->topic_id, 16);
        return to + 16;
    }
    if (version >= KN_PRODUCE_FLEXIBLE_SINCE)
        to = kn_uvarint_put(to, (uint32_t)topic->topic_bytes + 1);
    else to = kn_put_i16(to, (int16_t)topic->topic_bytes);
    memcpy(to, topic->topic, (size_t)topic->topic_bytes);
    return to + topic->topic_bytes;
}

static uint8_t *put_transactional_id(uint8_t *to, int flexible, const char *text)
{
    size_t size = text ? strlen(text) : 0;
    if (flexible) to = kn_uvarint_put(to, text ? (uint32_t)size + 1 : 0);
    else to = kn_put_i16(to, text ? (int16_t)size : -1);
    if (text) memcpy(to, text, size);
    return to + size;
}

size_t kn_produce_request_encode(const struct kn_produce_request *request, uint8_t *from,
                                 uint8_t *to, struct iovec *pieces, int *piece_count)
{
    int flexible = request->version >= KN_PRODUCE_FLEXIBLE_SINCE;
    int count = 0;
    size_t total = 0;
    int32_t topics = 0;
    for (int32_t i = 0; i < request->partition_count; i += topic_run(request, i)) topics++;
    if (request->version >= KN_PRODUCE_BATCHES_SINCE)
        to = put_transactional_id(to, flexible, request->transactional_id);
    to = kn_put_i16(to, request->acks);
    to = kn_put_i32(to, request->timeout_ms);
    to = put_count(to, flexible, topics);
    for (int32_t i = 0; i < request->partition_count;) {
        int32_t run = topic_run(request, i);
        to = put_topic(to, request->version, &request->partitions[i]);
        to = put_count(to, flexible, run);
        for (int32_t end = i + run; i < end; i++) {
            const struct kn_produce_partition *partition = &request->partitions[i];
            to = kn_put_i32(to, partition->partition);
            if (flexible) to = kn_uvarint_put(to, (uint32_t)partition->records_bytes + 1);
            else to = kn_put_i32(to, (int32_t)partition->records_bytes);
            pieces[count++] = (struct iovec){from, (size_t)(to - from)};
            pieces[count++] = (struct iovec){(void *)partition->records, partition->records_bytes};
            total += (size_t)(to - from) + partition->records_bytes;
            from = to;
            if (flexible) *to++ = 0;
        }
        if (flexible) *to++ = 0;
    }
    if (flexible) *to++ = 0;
    if (to > from) {
        pieces[count++] = (struct iovec){from, (size_t)(to - from)};
        total += (size_t)(to - from);
    }
    *piece_count = count;
    return total;
}

/* --- response --- */

#define PARTITION_MIN_BYTES 14 /* index, error, offset: the fields of version 0 */

static int is_flexible(const struct kn_produce_response *response)
{
    return response->version >= KN_PRODUCE_FLEXIBLE_SINCE;
}

static void fail(struct kn_span *span)
{
    span->failed = 1;
    span->at = span->end;
}

/* Reads a count of entries that have at least min_bytes each. */
static int32_t take_count(struct kn_span *span, int flexible, size_t min_bytes)
{
    int64_t count = flexible ? (int64_t)kn_span_uvarint(span) - 1 : kn_span_i32(span);
    if (span->failed) return 0;
    if (count < 0 || (uint64_t)count > kn_span_left(span) / min_bytes) {
        fail(span);
        return 0;
    }
    return (int32_t)count;
}

/* Reads a string; NULL: null or malformed. */
static const char *take_string(struct kn_span *span, int flexible, int32_t *size_bytes)
{
    int64_t size = flexible ? (int64_t)kn_span_uvarint(span) - 1 : kn_span_i16(span);
    *size_bytes = 0;
    if (span->failed || size == -1) return NULL;
    if (size < 0 || size > INT16_MAX) {
        fail(span);
        return NULL;
    }
    const char *text = (const char *)kn_span_take(span, (size_t)size);
    if (text) *size_bytes = (int32_t)size;
    return text;
}

/* Reads the next tagged field of a section. Returns its tag, and *field covers its bytes; -1: none
 * is left. */
static int64_t take_tag(struct kn_span *span, uint32_t *left, struct kn_span *field)
{
    if (*left == 0 || span->failed) return -1;
    (*left)--;
    uint32_t tag = kn_span_uvarint(span);
    uint32_t size = kn_span_uvarint(span);
    const uint8_t *data = kn_span_take(span, size);
    if (!data) return -1;
    *field = kn_span_of(data, size);
    return tag;
}

static void skip_tags(struct kn_span *span)
{
    struct kn_span field;
    uint32_t left = kn_span_uvarint(span);
    while (take_tag(span, &left, &field) >= 0) {
    }
}

int kn_produce_response_open(struct kn_produce_response *response, struct kn_span body,
                             int16_t version)
{
    memset(response, 0, sizeof *response);
    response->span = body;
    response->version = version;
    response->topics_left = take_count(&response->span, is_flexible(response), 2);
    return response->span.failed ? KN_ERR_PROTOCOL : KN_OK;
}

static void take_record_errors(struct kn_span *span, int flexible, struct kn_produce_result *result)
{
    result->record_error_count = take_count(span, flexible, 5);
    for (int32_t i = 0; i < result->record_error_count && !span->failed; i++) {
        int32_t size, index = kn_span_i32(span);
        const char *text = take_string(span, flexible, &size);
        if (flexible) skip_tags(span);
        if (i > 0) {
            if (index == (int64_t)result->record_error_index + result->record_error_run)
                result->record_error_run++;
            continue;
        }
        result->record_error_run = 1;
        result->record_error_index = index;
        result->record_error = text;
        result->record_error_bytes = size;
    }
}

static void take_partition_tags(struct kn_span *span, struct kn_produce_result *result)
{
    struct kn_span field;
    uint32_t left = kn_span_uvarint(span);
    int64_t tag;
    while ((tag = take_tag(span, &left, &field)) >= 0) {
        if (tag != 0) continue; /* 0: current leader */
        result->leader_id = kn_span_i32(&field);
        result->leader_epoch = kn_span_i32(&field);
        skip_tags(&field);
        if (field.failed) fail(span);
    }
}

static void take_partition(struct kn_produce_response *response, struct kn_produce_result *result)
{
    struct kn_span *span = &response->span;
    int flexible = is_flexible(response);
    memset(result, 0, sizeof *result);
    result->topic = response->topic;
    result->topic_bytes = response->topic_bytes;
    result->topic_id = response->topic_id;
    result->leader_id = -1;
    result->leader_epoch = -1;
    result->partition = kn_span_i32(span);
    result->error_code = kn_span_i16(span);
    result->base_offset = kn_span_i64(span);
    result->log_append_time_ms = response->version >= 2 ? kn_span_i64(span) : -1;
    result->log_start_offset = response->version >= 5 ? kn_span_i64(span) : -1;
    if (response->version >= 8) {
        take_record_errors(span, flexible, result);
        result->error = take_string(span, flexible, &result->error_bytes);
    }
    if (flexible) take_partition_tags(span, result);
}

int kn_produce_response_next(struct kn_produce_response *response, struct kn_produce_result *result)
{
    struct kn_span *span = &response->span;
    int flexible = is_flexible(response);
    while (response->partitions_left == 0) {
        if (response->topic || response->topic_id) {
            if (flexible) skip_tags(span);
            response->topic = NULL;
            response->topic_id = NULL;
        }
        if (span->failed) return KN_ERR_PROTOCOL;
        if (response->topics_left == 0) return 0;
        response->topics_left--;
        if (response->version >= KN_PRODUCE_TOPIC_ID_SINCE)
            response->topic_id = kn_span_take(span, 16);
        else response->topic = take_string(span, flexible, &response->topic_bytes);
        if (!response->topic && !response->topic_id) return KN_ERR_PROTOCOL; /* also a null name */
        response->partitions_left = take_count(span, flexible, PARTITION_MIN_BYTES);
    }
    response->partitions_left--;
    take_partition(response, result);
    return span->failed ? KN_ERR_PROTOCOL : 1;
}

int kn_produce_response_end(struct kn_produce_response *response)
{
    struct kn_span *span = &response->span;
    response->throttle_ms = response->version >= 1 ? kn_span_i32(span) : 0;
    if (is_flexible(response)) {
        struct kn_span field;
        uint32_t left = kn_span_uvarint(span);
        int64_t tag;
        while ((tag = take_tag(span, &left, &field)) >= 0) {
            if (tag == 0) response->endpoints = field;
        }
    }
    return span->failed || kn_span_left(span) ? KN_ERR_PROTOCOL : KN_OK;
}

int kn_produce_response_endpoint(const struct kn_produce_response *response, int32_t node_id,
                                 char *text, size_t capacity_bytes)
{
    struct kn_span span = response->endpoints;
    if (!span.at) return 0;
    int32_t count = take_count(&span, 1, 11);
    for (int32_t i = 0; i < count && !span.failed; i++) {
        int32_t host_bytes, rack_bytes;
        int32_t id = kn_span_i32(&span);
        const char *host = take_string(&span, 1, &host_bytes);
        int32_t port = kn_span_i32(&span);
        take_string(&span, 1, &rack_bytes);
        skip_tags(&span);
        if (span.failed || id != node_id || !host || port <= 0 || port > UINT16_MAX) continue;
        int length = snprintf(text, capacity_bytes, "%.*s:%d", (int)host_bytes, host, (int)port);
        return length > 0 && (size_t)length < capacity_bytes;
    }
    return 0;
}
