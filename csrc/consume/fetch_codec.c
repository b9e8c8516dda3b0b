/* The Fetch request and response on the wire: see fetch_codec.h. */
#include "consume/fetch_codec.h"

#include <string.h>

#include "base/endian.h"
#include "base/status.h"
#include "base/varint.h"

static int same_topic(const struct kn_fetch_partition *a, const struct kn_fetch_partition *b)
{
    if (a->topic == b->topic) return 1;
    if (a->topic_bytes != b->topic_bytes || memcmp(a->topic, b->topic, (size_t)a->topic_bytes) != 0)
        return 0;
    return memcmp(a->topic_id, b->topic_id, 16) == 0;
}

/* Returns how many partitions from `at` on belong to one topic. */
static int32_t topic_run(const struct kn_fetch_partition *partitions, int32_t count, int32_t at)
{
    int32_t end = at + 1;
    while (end < count && same_topic(&partitions[at], &partitions[end])) end++;
    return end - at;
}

static int32_t topic_runs(const struct kn_fetch_partition *partitions, int32_t count)
{
    int32_t runs = 0;
    for (int32_t at = 0; at < count; at += topic_run(partitions, count, at)) runs++;
    return runs;
}

static uint8_t *put_count(uint8_t *to, int32_t count, int flexible)
{
    return flexible ? kn_uvarint_put(to, (uint32_t)count + 1) : kn_put_i32(to, count);
}

static uint8_t *put_string(uint8_t *to, const char *text, size_t bytes, int flexible)
{
    to = flexible ? kn_uvarint_put(to, (uint32_t)bytes + 1) : kn_put_i16(to, (int16_t)bytes);
    memcpy(to, text, bytes);
    return to + bytes;
}

static uint8_t *put_topic(uint8_t *to, const struct kn_fetch_partition *partition, int16_t version)
{
    if (version >= KN_FETCH_TOPIC_ID_SINCE) {
        memcpy(to, partition->topic_id, 16);
        return to + 16;
    }
    return put_string(to, partition->topic, (size_t)partition->topic_bytes,
                      version >= KN_FETCH_FLEXIBLE_SINCE);
}

static uint8_t *put_partition(uint8_t *to, const struct kn_fetch_partition *partition,
                              int16_t version)
{
    to = kn_put_i32(to, partition->partition);
    if (version >= 9) to = kn_put_i32(to, partition->leader_epoch);
    to = kn_put_i64(to, partition->offset);
    if (version >= 12) to = kn_put_i32(to, -1); /* last fetched epoch: for followers only */
    if (version >= 5) to = kn_put_i64(to, -1);  /* log start offset: for followers only */
    to = kn_put_i32(to, partition->max_bytes);
    if (version >= KN_FETCH_FLEXIBLE_SINCE) *to++ = 0;
    return to;
}

static uint8_t *put_topics(uint8_t *to, const struct kn_fetch_request *request)
{
    int flexible = request->version >= KN_FETCH_FLEXIBLE_SINCE;
    const struct kn_fetch_partition *partitions = request->partitions;
    to = put_count(to, topic_runs(partitions, request->partition_count), flexible);
    for (int32_t at = 0; at < request->partition_count;) {
        int32_t run = topic_run(partitions, request->partition_count, at);
        to = put_topic(to, &partitions[at], request->version);
        to = put_count(to, run, flexible);
        for (int32_t end = at + run; at < end; at++)
            to = put_partition(to, &partitions[at], request->version);
        if (flexible) *to++ = 0;
    }
    return to;
}

static uint8_t *put_forgotten(uint8_t *to, const struct kn_fetch_request *request)
{
    int flexible = request->version >= KN_FETCH_FLEXIBLE_SINCE;
    const struct kn_fetch_partition *forgotten = request->forgotten;
    to = put_count(to, topic_runs(forgotten, request->forgotten_count), flexible);
    for (int32_t at = 0; at < request->forgotten_count;) {
        int32_t run = topic_run(forgotten, request->forgotten_count, at);
        to = put_topic(to, &forgotten[at], request->version);
        to = put_count(to, run, flexible);
        for (int32_t end = at + run; at < end; at++) to = kn_put_i32(to, forgotten[at].partition);
        if (flexible) *to++ = 0;
    }
    return to;
}

int kn_fetch_request_encode(const struct kn_fetch_request *request, struct kn_buffer **buffer)
{
    size_t rack_bytes = strlen(request->rack);
    size_t bound = 64 + rack_bytes; /* fixed fields */
    for (int32_t i = 0; i < request->partition_count; i++)
        bound += 64 + (size_t)request->partitions[i].topic_bytes;
    for (int32_t i = 0; i < request->forgotten_count; i++)
        bound += 32 + (size_t)request->forgotten[i].topic_bytes;
    int status = kn_buffer_reserve(buffer, bound);
    if (status != KN_OK) return status;

    uint8_t *to = (*buffer)->data + (*buffer)->size_bytes;
    int16_t version = request->version;
    if (version < 15) to = kn_put_i32(to, -1); /* replica id: -1 for a consumer */
    to = kn_put_i32(to, request->max_wait_ms);
    to = kn_put_i32(to, request->min_bytes);
    if (version >= 3) to = kn_put_i32(to, request->max_bytes);
    if (version >= KN_FETCH_ISOLATION_SINCE) *to++ = (uint8_t)request->isolation_level;
    if (version >= 7) {
        to = kn_put_i32(to, request->session_id);
        to = kn_put_i32(to, request->session_epoch);
    }
    to = put_topics(to, request);
    if (version >= 7) to = put_forgotten(to, request);
    if (version >= 11)
        to = put_string(to, request->rack, rack_bytes, version >= KN_FETCH_FLEXIBLE_SINCE);
    if (version >= KN_FETCH_FLEXIBLE_SINCE) *to++ = 0;
    (*buffer)->size_bytes = (size_t)(to - (*buffer)->data);
    return KN_OK;
}

/* Reads a count of items with at least `item_bytes` each; -1 (null) is read as 0. Fails the span if
 * the rest is too short for them. */
static int32_t take_count(struct kn_span *span, int flexible, size_t item_bytes)
{
    int64_t count = flexible ? (int64_t)kn_span_uvarint(span) - 1 : kn_span_i32(span);
    if (count <= 0) return 0;
    if ((uint64_t)count > kn_span_left(span) / item_bytes) {
        span->failed = 1;
        return 0;
    }
    return (int32_t)count;
}

static void skip_tags(struct kn_span *span)
{
    uint32_t count = kn_span_uvarint(span);
    for (uint32_t i = 0; i < count && !span->failed; i++) {
        kn_span_uvarint(span);
        kn_span_take(span, kn_span_uvarint(span));
    }
}

int kn_fetch_response_open(struct kn_fetch_response *response, struct kn_span body, int16_t version)
{
    memset(response, 0, sizeof *response);
    response->version = version;
    if (version >= 1) response->throttle_ms = kn_span_i32(&body);
    if (version >= 7) {
        response->error_code = kn_span_i16(&body);
        response->session_id = kn_span_i32(&body);
    }
    response->topics_left = take_count(&body, version >= KN_FETCH_FLEXIBLE_SINCE, 2);
    response->topics = body;
    return body.failed ? KN_ERR_PROTOCOL : KN_OK;
}

static void open_topic(struct kn_fetch_response *response)
{
    struct kn_span *span = &response->topics;
    int flexible = response->version >= KN_FETCH_FLEXIBLE_SINCE;
    response->topic = NULL;
    response->topic_id = NULL;
    if (response->version >= KN_FETCH_TOPIC_ID_SINCE) {
        response->topic_id = kn_span_take(span, 16);
    } else {
        int64_t bytes = flexible ? (int64_t)kn_span_uvarint(span) - 1 : kn_span_i16(span);
        if (bytes < 0) span->failed = 1;
        response->topic_bytes = span->failed ? 0 : (int32_t)bytes;
        response->topic = (const char *)kn_span_take(span, (size_t)response->topic_bytes);
    }
    response->partitions_left = take_count(span, flexible, 4);
}

static void take_partition_tags(struct kn_span *span, struct kn_fetch_result *result)
{
    uint32_t count = kn_span_uvarint(span);
    for (uint32_t i = 0; i < count && !span->failed; i++) {
        uint32_t tag = kn_span_uvarint(span);
        uint32_t bytes = kn_span_uvarint(span);
        const uint8_t *data = kn_span_take(span, bytes);
        if (!data) return;
        struct kn_span field = kn_span_of(data, bytes);
        if (tag == 0) {
            result->diverging_epoch = kn_span_i32(&field);
            result->diverging_end_offset = kn_span_i64(&field);
        } else if (tag == 1) {
            result->leader_id = kn_span_i32(&field);
            result->leader_epoch = kn_span_i32(&field);
        }
        if (field.failed) span->failed = 1;
    }
}

static void take_aborted(struct kn_span *span, struct kn_fetch_result *result, int flexible)
{
    size_t entry_bytes = flexible ? 17 : 16;
    result->aborted_count = take_count(span, flexible, entry_bytes);
    result->aborted = *span;
    for (int32_t i = 0; i < result->aborted_count; i++) {
        kn_span_take(span, 16);
        if (flexible) skip_tags(span);
    }
}

int kn_fetch_response_next(struct kn_fetch_response *response, struct kn_fetch_result *result)
{
    struct kn_span *span = &response->topics;
    int flexible = response->version >= KN_FETCH_FLEXIBLE_SINCE;
    while (response->partitions_left == 0) {
        if (response->topics_left == 0) return 0;
        response->topics_left--;
        open_topic(response);
        if (response->partitions_left == 0 && flexible) skip_tags(span);
        if (span->failed) return KN_ERR_PROTOCOL;
    }
    memset(result, 0, sizeof *result);
    result->leader_id = result->leader_epoch = result->diverging_epoch = -1;
    result->diverging_end_offset = -1;
    result->preferred_read_replica = -1;
    result->log_start_offset = -1;
    result->partition = kn_span_i32(span);
    result->error_code = kn_span_i16(span);
    result->high_watermark = kn_span_i64(span);
    result->last_stable_offset = result->high_watermark;
    if (response->version >= KN_FETCH_ISOLATION_SINCE)
        result->last_stable_offset = kn_span_i64(span);
    if (response->version >= 5) result->log_start_offset = kn_span_i64(span);
    if (response->version >= KN_FETCH_ISOLATION_SINCE) take_aborted(span, result, flexible);
    if (response->version >= 11) result->preferred_read_replica = kn_span_i32(span);
    int64_t records_bytes = flexible ? (int64_t)kn_span_uvarint(span) - 1 : kn_span_i32(span);
    if (records_bytes > 0) {
        result->records = kn_span_take(span, (size_t)records_bytes);
        result->records_bytes = result->records ? (size_t)records_bytes : 0;
    }
    if (flexible) take_partition_tags(span, result);
    if (--response->partitions_left == 0 && flexible) skip_tags(span);
    return span->failed ? KN_ERR_PROTOCOL : 1;
}

struct kn_aborted_transaction kn_fetch_result_aborted(struct kn_fetch_result *result,
                                                      int16_t version)
{
    struct kn_aborted_transaction aborted;
    aborted.producer_id = kn_span_i64(&result->aborted);
    aborted.first_offset = kn_span_i64(&result->aborted);
    if (version >= KN_FETCH_FLEXIBLE_SINCE) skip_tags(&result->aborted);
    return aborted;
}
