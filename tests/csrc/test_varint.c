/* Varints, the bounded cursor and the list. */
#include "check.h"

#include "base/endian.h"
#include "base/list.h"
#include "base/span.h"
#include "base/status.h"
#include "base/varint.h"

static void check_both_ways(int64_t value)
{
    uint8_t room[KN_VARLONG_MAX_BYTES + 1];
    int64_t read = 0;
    memset(room, 0xff, sizeof room);
    uint8_t *end = kn_varint_put(room, value);
    CHECK_EQ(end - room, kn_varint_size(value));
    CHECK_EQ(*end, 0xff); /* nothing is written behind the end */
    CHECK(kn_varlong_get(room, end, &read) == end);
    CHECK_EQ(read, value);
    for (const uint8_t *cut = room; cut < end; cut++)
        CHECK(kn_varlong_get(room, cut, &read) == NULL);
    struct kn_span span = kn_span_of(room, (size_t)(end - room));
    CHECK_EQ(kn_span_varlong(&span), value);
    CHECK(!span.failed && span.at == end);
}

static void test_every_size_both_ways(void)
{
    for (int bit = 0; bit < 63; bit++) {
        int64_t power = (int64_t)1 << bit;
        for (int64_t near = -1; near <= 1; near++) {
            check_both_ways(power + near);
            check_both_ways(-power + near);
        }
    }
    check_both_ways(0);
    check_both_ways(INT64_MAX);
    check_both_ways(INT64_MIN);
}

static void test_int32_refuses_what_does_not_fit(void)
{
    uint8_t room[KN_VARLONG_MAX_BYTES];
    int32_t narrow = 0;
    const int64_t fit[] = {0, -1, 63, 64, INT32_MAX, INT32_MIN};
    const int64_t too_large[] = {(int64_t)INT32_MAX + 1, (int64_t)INT32_MIN - 1, INT64_MAX,
                                 INT64_MIN};
    for (size_t i = 0; i < sizeof fit / sizeof fit[0]; i++) {
        uint8_t *end = kn_varint_put(room, fit[i]);
        CHECK(kn_varint_get(room, end, &narrow) == end);
        CHECK_EQ(narrow, fit[i]);
    }
    for (size_t i = 0; i < sizeof too_large / sizeof too_large[0]; i++)
        CHECK(kn_varint_get(room, kn_varint_put(room, too_large[i]), &narrow) == NULL);
}

static void test_overlong_numbers_are_malformed(void)
{
    static const uint8_t eleven[11] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                       0x80, 0x80, 0x80, 0x80, 0x01};
    static const uint8_t tenth_too_large[10] = {0xff, 0xff, 0xff, 0xff, 0xff,
                                                0xff, 0xff, 0xff, 0xff, 0x02};
    static const uint8_t padded_zero[6] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
    int64_t wide = 0;
    int32_t narrow = 0;
    CHECK(kn_varlong_get(eleven, eleven + sizeof eleven, &wide) == NULL);
    CHECK(kn_varlong_get(tenth_too_large, tenth_too_large + sizeof tenth_too_large, &wide) == NULL);
    CHECK(kn_varint_get(padded_zero, padded_zero + sizeof padded_zero, &narrow) == NULL);
    struct kn_span span = kn_span_of(eleven, sizeof eleven);
    kn_span_varlong(&span);
    CHECK(span.failed);
}

static void test_span_failure_is_sticky(void)
{
    uint8_t data[15];
    kn_put_i64(data, INT64_MIN);
    kn_put_i32(data + 8, -2);
    kn_put_i16(data + 12, -3);
    data[14] = 0xfc;
    struct kn_span span = kn_span_of(data, sizeof data);
    CHECK_EQ(kn_span_i64(&span), INT64_MIN);
    CHECK_EQ(kn_span_i32(&span), -2);
    CHECK_EQ(kn_span_i16(&span), -3);
    CHECK_EQ(kn_span_i8(&span), -4);
    CHECK_EQ(kn_span_left(&span), 0);
    CHECK(!span.failed);
    CHECK_EQ(kn_span_i8(&span), 0);
    CHECK(span.failed);
    span = kn_span_of(data, 3);
    CHECK(kn_span_take(&span, SIZE_MAX) == NULL);
    CHECK(kn_span_take(&span, 1) == NULL); /* after a failure every read fails */
    span = kn_span_of(NULL, 0);
    CHECK_EQ(kn_span_uvarint(&span), 0);
    CHECK(span.failed);
}

static void test_uvarint_is_bounded_to_32_bits(void)
{
    static const uint8_t largest[5] = {0xff, 0xff, 0xff, 0xff, 0x0f};
    static const uint8_t larger[5] = {0xff, 0xff, 0xff, 0xff, 0x1f};
    struct kn_span span = kn_span_of(largest, sizeof largest);
    CHECK_EQ(kn_span_uvarint(&span), 0xffffffffLL);
    span = kn_span_of(larger, sizeof larger);
    kn_span_uvarint(&span);
    CHECK(span.failed);
}

struct item {
    int number;
    struct kn_list node;
};

static void test_list_keeps_order(void)
{
    struct kn_list head, other;
    struct item items[4] = {{1, {0}}, {2, {0}}, {3, {0}}, {4, {0}}};
    kn_list_init(&head);
    kn_list_init(&other);
    CHECK(kn_list_pop_front(&head) == NULL);
    kn_list_push_back(&head, &items[1].node);
    kn_list_push_front(&head, &items[0].node);
    kn_list_push_back(&other, &items[2].node);
    kn_list_push_back(&other, &items[3].node);
    kn_list_splice_back(&head, &other);
    kn_list_splice_back(&head, &other); /* empty: nothing to do */
    CHECK(kn_list_empty(&other));
    kn_list_remove(&items[2].node);
    kn_list_remove(&items[2].node);
    const int order[] = {1, 2, 4};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(KN_LIST_ENTRY(kn_list_pop_front(&head), struct item, node)->number, order[i]);
    CHECK(kn_list_empty(&head));
}

int main(void)
{
    RUN(test_every_size_both_ways);
    RUN(test_int32_refuses_what_does_not_fit);
    RUN(test_overlong_numbers_are_malformed);
    RUN(test_span_failure_is_sticky);
    RUN(test_uvarint_is_bounded_to_32_bits);
    RUN(test_list_keeps_order);
    return check_done();
}
