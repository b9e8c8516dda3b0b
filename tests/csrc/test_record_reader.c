/* The common kind of record is read inline, every other kind out of line: both ways give the same
 * result for every input. */
#include "check.h"

#include "base/status.h"
#include "base/varint.h"
#include "records/batch_writer.h"
#include "records/record_reader.h"

/* bytes of a second record behind the first, so that the first isn't among the last bytes */
#define LEFT_BYTES 40

static const int32_t sizes[] = {-1, 0, 1, 63, 64, 127, 128, 8191, 8192, 1 << 20};
static const int64_t times[] = {0,
                                1,
                                -1,
                                63,
                                -64,
                                64,
                                8191,
                                -8192,
                                8192,
                                (1 << 20) - 1,
                                1 << 20,
                                -(1 << 20) - 1,
                                INT64_C(1) << 40};
static const int32_t offsets[] = {0, 63, 64, 8191, 8192, (1 << 20) - 1, 1 << 20, INT32_MAX};
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* How often each way was used: a test must use both. */
static int usual_count, other_count;

static struct kn_batch_view view_of(const uint8_t *records, size_t records_bytes, int32_t count)
{
    struct kn_batch_view view = {0};
    view.magic = 2;
    view.base_offset = 1000;
    view.last_offset = view.base_offset + INT32_MAX;
    view.base_timestamp_ms = 1700000000000;
    view.max_timestamp_ms = 1700000000999;
    view.record_count = count;
    view.records = records;
    view.records_bytes = records_bytes;
    return view;
}

static void check_same(const struct kn_record *one, const struct kn_record *other)
{
    CHECK_EQ(one->offset, other->offset);
    CHECK_EQ(one->timestamp_ms, other->timestamp_ms);
    CHECK_EQ(one->timestamp_type, other->timestamp_type);
    CHECK_EQ(one->attributes, other->attributes);
    CHECK(one->key == other->key);
    CHECK(one->value == other->value);
    CHECK(one->headers == other->headers);
    if (one->key) CHECK_EQ(one->key_bytes, other->key_bytes);
    if (one->value) CHECK_EQ(one->value_bytes, other->value_bytes);
    CHECK_EQ(one->headers_bytes, other->headers_bytes);
    CHECK_EQ(one->header_count, other->header_count);
}

/* Reads a section in both ways, and each record once more. Returns the status at the end. */
static int read_both_ways(const uint8_t *section, size_t section_bytes, int32_t count,
                          int16_t attributes)
{
    /* so that AddressSanitizer finds a read of one byte too many */
    uint8_t *exact = malloc(section_bytes ? section_bytes : 1);
    struct kn_batch_view view;
    struct kn_record_reader reader, other_reader;
    struct kn_record record, other, again;
    int status;

    memcpy(exact, section, section_bytes);
    view = view_of(exact, section_bytes, count);
    view.attributes = attributes;
    CHECK_EQ(kn_record_reader_init(&reader, &view), KN_OK);
    other_reader = reader;
    do {
        struct kn_record_reader tried = reader;
        const uint8_t *start = reader.span.at;
        if (kn_record_reader_usual(&tried, &record)) usual_count++;
        else other_count++;
        status = kn_record_reader_next(&reader, &record);
        CHECK_EQ(kn_record_reader_any(&other_reader, &other), status);
        CHECK(reader.span.at == other_reader.span.at);
        CHECK_EQ(reader.left, other_reader.left);
        if (status != KN_OK) break;
        check_same(&record, &other);
        again = record;
        kn_record_reread(start, &again);
        check_same(&record, &again);
    } while (1);
    free(exact);
    return status;
}

/* Writes a record from its parts; offset and timestamp are deltas. Returns the end. */
static uint8_t *put_record(uint8_t *to, int64_t timestamp, int32_t offset, int32_t key_bytes,
                           int32_t value_bytes, int32_t header_count)
{
    uint8_t *start = to + KN_VARINT_MAX_BYTES, *at = start;
    *at++ = 0;
    at = kn_varint_put(at, timestamp);
    at = kn_varint_put(at, offset);
    at = kn_varint_put(at, key_bytes);
    if (key_bytes > 0) memset(at, 'k', (size_t)key_bytes);
    if (key_bytes > 0) at += key_bytes;
    at = kn_varint_put(at, value_bytes);
    if (value_bytes > 0) memset(at, 'v', (size_t)value_bytes);
    if (value_bytes > 0) at += value_bytes;
    at = kn_varint_put(at, header_count);
    for (int32_t i = 0; i < header_count; i++)
        at = kn_header_encode(at, "h", 1, i % 2 ? NULL : "x", i % 2 ? -1 : 1);
    size_t record_bytes = (size_t)(at - start);
    to = kn_varint_put(to, (int64_t)record_bytes);
    memmove(to, start, record_bytes);
    return to + record_bytes;
}

static uint8_t room[(3 << 20) + 4096];

static void test_records_of_every_size(void)
{
    usual_count = other_count = 0;
    for (int key = 0; key < COUNT(sizes); key++) {
        for (int value = 0; value < COUNT(sizes); value++) {
            for (int32_t headers = 0; headers < 3; headers++) {
                uint8_t *end = put_record(room, 5, 0, sizes[key], sizes[value], headers);
                end = put_record(end, 6, 1, -1, LEFT_BYTES, 0);
                CHECK_EQ(read_both_ways(room, (size_t)(end - room), 2, 0), KN_ERR_TRUNCATED);
            }
        }
    }
    /* In 300 sections every second record is common. Of the first records, those without headers
     * and without a mebibyte are common: 9 by 9. The exception is eight keys that aren't null
     * before an empty or null value: too few bytes follow them. */
    CHECK_EQ(usual_count, 300 + 81 - 8 * 2);
    CHECK_EQ(other_count, 300 /* ends */ + 300 - (81 - 8 * 2));
}

static void test_deltas_of_every_size(void)
{
    usual_count = other_count = 0;
    for (int time = 0; time < COUNT(times); time++) {
        for (int offset = 0; offset < COUNT(offsets); offset++) {
            for (int16_t attributes = 0; attributes <= KN_ATTR_LOG_APPEND_TIME;
                 attributes += KN_ATTR_LOG_APPEND_TIME) {
                uint8_t *end = put_record(room, times[time], offsets[offset], 3, 100, 0);
                end = put_record(end, 6, 1, -1, LEFT_BYTES, 0);
                CHECK_EQ(read_both_ways(room, (size_t)(end - room), 2, attributes),
                         KN_ERR_TRUNCATED);
            }
        }
    }
    /* In 13 by 8 by 2 sections every second record is common. Of the first records, those with one
     * of ten times and of six offsets are common: these have at most three bytes. */
    CHECK_EQ(usual_count, 208 + 10 * 6 * 2);
    CHECK_EQ(other_count, 208 /* ends */ + 208 - 10 * 6 * 2);
}

static void test_an_offset_behind_the_batch_is_refused(void)
{
    struct kn_record_reader reader;
    struct kn_record record;
    uint8_t *end = put_record(room, 0, 5, -1, 100, 0);
    struct kn_batch_view view = view_of(
        room, (size_t)(put_record(end, 0, 6, -1, LEFT_BYTES, 0) - room), 2);

    for (int32_t last = 5; last >= 4; last--) {
        view.last_offset = view.base_offset + last;
        CHECK_EQ(kn_record_reader_init(&reader, &view), KN_OK);
        CHECK_EQ(kn_record_reader_next(&reader, &record), last == 5 ? KN_OK : KN_ERR_INVALID);
        CHECK(reader.span.at == (last == 5 ? end : room));
    }
}

static void test_a_count_that_is_too_low_or_too_high_is_refused(void)
{
    uint8_t *end = room;
    for (int32_t i = 0; i < 5; i++) end = put_record(end, i, i, -1, 50, 0);
    size_t section_bytes = (size_t)(end - room);
    CHECK_EQ(read_both_ways(room, section_bytes, 5, 0), KN_ERR_TRUNCATED);
    CHECK_EQ(read_both_ways(room, section_bytes, 4, 0), KN_ERR_INVALID);
    CHECK_EQ(read_both_ways(room, section_bytes, 6, 0), KN_ERR_INVALID);
    CHECK_EQ(read_both_ways(room, section_bytes, 0, 0), KN_ERR_INVALID);
}

static uint32_t random_below(uint32_t limit) { return (uint32_t)(check_random() >> 32) % limit; }

static void test_whatever_is_changed_both_ways_agree(void)
{
    int refused = 0;
    usual_count = 0;
    for (int round = 0; round < 200000; round++) {
        uint8_t *end = room;
        for (int32_t i = 0; i < 4; i++)
            end = put_record(end, (int64_t)random_below(200) - 100, i, (int32_t)random_below(5) - 1,
                             (int32_t)random_below(90) - 1, (int32_t)(random_below(4) == 0));
        size_t section_bytes = (size_t)(end - room);
        for (uint32_t changes = random_below(4); changes > 0; changes--) {
            uint8_t *at = room + random_below((uint32_t)section_bytes);
            *at = random_below(2) ? (uint8_t)(*at ^ (1u << random_below(8)))
                                  : (uint8_t)random_below(256);
        }
        if (random_below(8) == 0) section_bytes -= random_below((uint32_t)section_bytes);
        if (read_both_ways(room, section_bytes, 4, 0) == KN_ERR_INVALID) refused++;
    }
    CHECK(refused > 20000);
    CHECK(usual_count > 200000);
}

int main(void)
{
    RUN(test_records_of_every_size);
    RUN(test_deltas_of_every_size);
    RUN(test_an_offset_behind_the_batch_is_refused);
    RUN(test_a_count_that_is_too_low_or_too_high_is_refused);
    RUN(test_whatever_is_changed_both_ways_agree);
    return check_done();
}
