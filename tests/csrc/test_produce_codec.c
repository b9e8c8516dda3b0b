/* The Produce request and response on the wire, byte by byte, and every way to cut or damage a
 * response. */
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "check.h"
#include "produce/produce_codec.h"
#include "base/endian.h"
#include "base/varint.h"

/* --- request --- */

static size_t join(const struct iovec *pieces, int count, uint8_t *to)
{
    size_t size = 0;
    for (int i = 0; i < count; i++) {
        memcpy(to + size, pieces[i].iov_base, pieces[i].iov_len);
        size += pieces[i].iov_len;
    }
    return size;
}

static const struct kn_produce_partition THREE[] = {
    {.topic = "ab",
     .topic_bytes = 2,
     .topic_id = {0xaa},
     .partition = 0,
     .records = (const uint8_t *)"XXX",
     .records_bytes = 3},
    {.topic = "ab",
     .topic_bytes = 2,
     .topic_id = {0xaa},
     .partition = 7,
     .records = (const uint8_t *)"YY",
     .records_bytes = 2},
    {.topic = "c",
     .topic_bytes = 1,
     .topic_id = {0xcc},
     .partition = 1,
     .records = (const uint8_t *)"Z",
     .records_bytes = 1},
};

static void check_request(int16_t version, const char *expected, size_t expected_bytes)
{
    struct kn_produce_request request = {.version = version,
                                         .acks = -1,
                                         .timeout_ms = 1000,
                                         .partitions = THREE,
                                         .partition_count = 3};
    uint8_t glue[512], all[512];
    struct iovec pieces[7];
    int count = 0;
    size_t bound = kn_produce_request_bound_bytes(&request);
    CHECK(bound + 4 < sizeof glue);
    memcpy(glue, "HEAD", 4);
    size_t total = kn_produce_request_encode(&request, glue, glue + 4, pieces, &count);
    CHECK(count <= 7);
    CHECK(join(pieces, count, all) == total);
    CHECK(total == expected_bytes + 4);
    CHECK(memcmp(all, "HEAD", 4) == 0);
    CHECK(memcmp(all + 4, expected, expected_bytes) == 0);
    CHECK(total - 6 - 4 <= bound);
    CHECK(pieces[1].iov_base == (void *)THREE[0].records); /* borrowed, not copied */
}

#define BYTES(text) (text), sizeof(text) - 1

// clang-format off
static void test_request_bytes(void)
{
    for (int16_t version = 0; version <= 2; version++) {
        check_request(version, BYTES("\xff\xff"           /* acks */
                                     "\x00\x00\x03\xe8"   /* timeout */
                                     "\x00\x00\x00\x02"   /* topics */
                                     "\x00\x02" "ab" "\x00\x00\x00\x02"
                                     "\x00\x00\x00\x00" "\x00\x00\x00\x03" "XXX"
                                     "\x00\x00\x00\x07" "\x00\x00\x00\x02" "YY"
                                     "\x00\x01" "c" "\x00\x00\x00\x01"
                                     "\x00\x00\x00\x01" "\x00\x00\x00\x01" "Z"));
    }
    for (int16_t version = 3; version <= 8; version++) {
        check_request(version, BYTES("\xff\xff"           /* transactional id: null */
                                     "\xff\xff"           /* acks */
                                     "\x00\x00\x03\xe8"   /* timeout */
                                     "\x00\x00\x00\x02"   /* topics */
                                     "\x00\x02" "ab" "\x00\x00\x00\x02"
                                     "\x00\x00\x00\x00" "\x00\x00\x00\x03" "XXX"
                                     "\x00\x00\x00\x07" "\x00\x00\x00\x02" "YY"
                                     "\x00\x01" "c" "\x00\x00\x00\x01"
                                     "\x00\x00\x00\x01" "\x00\x00\x00\x01" "Z"));
    }
    for (int16_t version = 9; version <= 12; version++) {
        check_request(version, BYTES("\x00" "\xff\xff" "\x00\x00\x03\xe8" "\x03"
                                     "\x03" "ab" "\x03"
                                     "\x00\x00\x00\x00" "\x04" "XXX" "\x00"
                                     "\x00\x00\x00\x07" "\x03" "YY" "\x00" "\x00"
                                     "\x02" "c" "\x02"
                                     "\x00\x00\x00\x01" "\x02" "Z" "\x00" "\x00" "\x00"));
    }
    check_request(13, BYTES("\x00" "\xff\xff" "\x00\x00\x03\xe8" "\x03"
                            "\xaa\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" "\x03"
                            "\x00\x00\x00\x00" "\x04" "XXX" "\x00"
                            "\x00\x00\x00\x07" "\x03" "YY" "\x00" "\x00"
                            "\xcc\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" "\x02"
                            "\x00\x00\x00\x01" "\x02" "Z" "\x00" "\x00" "\x00"));
}
// clang-format on

/* --- response --- */

static uint8_t *put_text(uint8_t *to, int flexible, const char *text)
{
    size_t size = text ? strlen(text) : 0;
    if (flexible) to = kn_uvarint_put(to, text ? (uint32_t)size + 1 : 0);
    else to = kn_put_i16(to, text ? (int16_t)size : -1);
    if (text) memcpy(to, text, size);
    return to + size;
}

static uint8_t *put_count(uint8_t *to, int flexible, int32_t count)
{
    return flexible ? kn_uvarint_put(to, (uint32_t)count + 1) : kn_put_i32(to, count);
}

static uint8_t *put_partition(uint8_t *to, int16_t version, int32_t partition, int16_t error_code,
                              int rich)
{
    int flexible = version >= 9;
    to = kn_put_i32(to, partition);
    to = kn_put_i16(to, error_code);
    to = kn_put_i64(to, 1000 + partition);
    if (version >= 2) to = kn_put_i64(to, rich ? 55 : -1);
    if (version >= 5) to = kn_put_i64(to, 12);
    if (version >= 8) {
        to = put_count(to, flexible, rich ? 2 : 0);
        for (int i = 0; rich && i < 2; i++) {
            to = kn_put_i32(to, 3 + i);
            to = put_text(to, flexible, i ? NULL : "record is bad");
            if (flexible) *to++ = 0;
        }
        to = put_text(to, flexible, rich ? "batch is bad" : NULL);
    }
    if (!flexible) return to;
    if (version < 10 || !rich) {
        *to++ = 0;
        return to;
    }
    *to++ = 2;            /* two tags */
    *to++ = 0, *to++ = 9; /* current leader, 9 bytes */
    to = kn_put_i32(to, 4), to = kn_put_i32(to, 17), *to++ = 0;
    *to++ = 5, *to++ = 2, *to++ = 1, *to++ = 2; /* an unknown tag */
    return to;
}

/* Makes two topics: "ab" with partitions 0 and 7, and "c" with 1, which has every field of the
 * version. */
static size_t make_response(uint8_t *to, int16_t version)
{
    static const uint8_t ids[2][16] = {{0xaa}, {0xcc}};
    uint8_t *start = to;
    int flexible = version >= 9;
    to = put_count(to, flexible, 2);
    for (int topic = 0; topic < 2; topic++) {
        if (version >= 13) {
            memcpy(to, ids[topic], 16);
            to += 16;
        } else {
            to = put_text(to, flexible, topic ? "c" : "ab");
        }
        to = put_count(to, flexible, topic ? 1 : 2);
        if (topic == 0) {
            to = put_partition(to, version, 0, 0, 0);
            to = put_partition(to, version, 7, 7, 0);
        } else {
            to = put_partition(to, version, 1, 6, 1);
        }
        if (flexible) *to++ = 0;
    }
    if (version >= 1) to = kn_put_i32(to, 250);
    if (flexible && version < 10) *to++ = 0;
    if (version >= 10) {
        uint8_t tag[64], *end = tag;
        end = kn_uvarint_put(end, 3); /* two endpoints */
        end = kn_put_i32(end, 3), end = put_text(end, 1, "h3"), end = kn_put_i32(end, 9093),
        end = put_text(end, 1, NULL), *end++ = 0;
        end = kn_put_i32(end, 4), end = put_text(end, 1, "host4"), end = kn_put_i32(end, 9094),
        end = put_text(end, 1, "r"), *end++ = 0;
        *to++ = 1, *to++ = 0;
        to = kn_uvarint_put(to, (uint32_t)(end - tag));
        memcpy(to, tag, (size_t)(end - tag));
        to += end - tag;
    }
    return (size_t)(to - start);
}

static void check_result(int16_t version, int index, const struct kn_produce_result *result)
{
    static const int32_t partitions[] = {0, 7, 1};
    static const int16_t errors[] = {0, 7, 6};
    int rich = index == 2;
    CHECK(result->partition == partitions[index] && result->error_code == errors[index]);
    if (version >= 13) CHECK(result->topic == NULL && result->topic_id[0] == (rich ? 0xcc : 0xaa));
    else
        CHECK(result->topic_id == NULL && result->topic_bytes == (rich ? 1 : 2) &&
              result->topic[0] == (rich ? 'c' : 'a'));
    CHECK(result->base_offset == 1000 + result->partition);
    CHECK(result->log_append_time_ms == (rich && version >= 2 ? 55 : -1));
    CHECK(result->log_start_offset == (version >= 5 ? 12 : -1));
    int has_errors = rich && version >= 8;
    CHECK(result->record_error_count == (has_errors ? 2 : 0));
    CHECK(has_errors == (result->error != NULL) && has_errors == (result->record_error != NULL));
    if (has_errors) {
        CHECK(result->record_error_index == 3);
        CHECK(result->record_error_bytes == 13 &&
              memcmp(result->record_error, "record is bad", 13) == 0);
        CHECK(result->error_bytes == 12 && memcmp(result->error, "batch is bad", 12) == 0);
    }
    CHECK(result->leader_id == (rich && version >= 10 ? 4 : -1));
    CHECK(result->leader_epoch == (rich && version >= 10 ? 17 : -1));
}

static void test_response_of_every_version(void)
{
    for (int16_t version = 0; version <= 13; version++) {
        uint8_t bytes[512];
        size_t size = make_response(bytes, version);
        struct kn_produce_response response;
        struct kn_produce_result result;
        CHECK(kn_produce_response_open(&response, kn_span_of(bytes, size), version) == KN_OK);
        for (int i = 0; i < 3; i++) {
            CHECK(kn_produce_response_next(&response, &result) == 1);
            check_result(version, i, &result);
        }
        CHECK(kn_produce_response_next(&response, &result) == 0);
        CHECK(kn_produce_response_end(&response) == KN_OK);
        CHECK(response.throttle_ms == (version >= 1 ? 250 : 0));
        char text[32];
        CHECK(kn_produce_response_endpoint(&response, 4, text, sizeof text) == (version >= 10));
        if (version >= 10) CHECK(strcmp(text, "host4:9094") == 0);
        CHECK(kn_produce_response_endpoint(&response, 5, text, sizeof text) == 0);
        /* no room: not a truncated host name */
        CHECK(kn_produce_response_endpoint(&response, 4, text, 5) == 0);
    }
}

/* Reads the whole response; KN_OK or KN_ERR_PROTOCOL. Under ASan a read past the exact allocation
 * is fatal. */
static int read_all(const uint8_t *bytes, size_t size, int16_t version)
{
    uint8_t *exact = malloc(size ? size : 1);
    CHECK(exact);
    memcpy(exact, bytes, size);
    struct kn_produce_response response;
    struct kn_produce_result result;
    int status = kn_produce_response_open(&response, kn_span_of(exact, size), version);
    long results = 0;
    while (status == KN_OK && (status = kn_produce_response_next(&response, &result)) == 1) {
        CHECK(++results <= (long)size);
        status = KN_OK;
    }
    if (status == KN_OK) {
        char text[32];
        status = kn_produce_response_end(&response);
        kn_produce_response_endpoint(&response, 4, text, sizeof text);
    }
    CHECK(status == KN_OK || status == KN_ERR_PROTOCOL);
    free(exact);
    return status;
}

static void test_cut_response_is_refused_at_every_byte(void)
{
    for (int16_t version = 0; version <= 13; version++) {
        uint8_t bytes[513];
        size_t size = make_response(bytes, version);
        for (size_t cut = 0; cut < size; cut++)
            CHECK(read_all(bytes, cut, version) == KN_ERR_PROTOCOL);
        CHECK(read_all(bytes, size, version) == KN_OK);
        bytes[size] = 0;
        CHECK(read_all(bytes, size + 1, version) == KN_ERR_PROTOCOL); /* something left over */
    }
}

static void test_bent_response_stays_in_bounds(void)
{
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    for (int16_t version = 0; version <= 13; version++) {
        uint8_t bytes[512];
        size_t size = make_response(bytes, version);
        for (size_t at = 0; at < size; at++) {
            for (size_t v = 0; v < sizeof values; v++) {
                for (size_t width = 1; width <= 4 && at + width <= size; width += 3) {
                    uint8_t kept[4];
                    memcpy(kept, bytes + at, width);
                    memset(bytes + at, values[v], width);
                    read_all(bytes, size, version);
                    memcpy(bytes + at, kept, width);
                }
            }
        }
    }
}

static void test_huge_counts_are_refused_before_use(void)
{
    CHECK(read_all((const uint8_t *)"\x7f\xff\xff\xff\x00\x00\x00\x00", 8, 3) == KN_ERR_PROTOCOL);
    CHECK(read_all((const uint8_t *)"\xff\xff\xff\xff\x00\x00\x00\x00", 8, 3) == KN_ERR_PROTOCOL);
    CHECK(read_all((const uint8_t *)"\xff\xff\xff\xff\x0f\x00\x00\x00\x00", 9, 9) ==
          KN_ERR_PROTOCOL);
    /* a null array */
    CHECK(read_all((const uint8_t *)"\x00\x00\x00\x00\x00", 5, 9) == KN_ERR_PROTOCOL);
    /* an empty one */
    CHECK(read_all((const uint8_t *)"\x01\x00\x00\x00\x00\x00", 6, 9) == KN_OK);
}

int main(void)
{
    RUN(test_request_bytes);
    RUN(test_response_of_every_version);
    RUN(test_cut_response_is_refused_at_every_byte);
    RUN(test_bent_response_stays_in_bounds);
    RUN(test_huge_counts_are_refused_before_use);
    return check_done();
}
