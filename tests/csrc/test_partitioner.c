/* Partitioners against librdkafka's results: the constants are its 32-bit hashes, and the table for
 * 4 partitions was recorded from it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "check.h"
#include "produce/partitioner.h"

static const char *const KEYS[] = {
    NULL, "", "23456", "this is another string with more length to it perhaps", "hejsan"};
#define KEY_COUNT 5
#define ANY KN_PARTITION_ANY

static int32_t choose(enum kn_partitioner partitioner, int key, int32_t count)
{
    /* at an odd address, so that the hashes read unaligned memory */
    char unaligned[80] = {0};
    if (KEYS[key]) strcpy(unaligned + 1, KEYS[key]);
    return kn_partitioner_choose(partitioner, KEYS[key] ? (const uint8_t *)unaligned + 1 : NULL,
                                 KEYS[key] ? (int32_t)strlen(KEYS[key]) : 0, count);
}

static void test_results_are_librdkafkas_hash_modulo_count(void)
{
    static const struct {
        enum kn_partitioner plain, random;
        uint32_t hashes[KEY_COUNT];
        int empty_is_random;
    } cases[] = {
        {KN_PARTITIONER_CONSISTENT,
         KN_PARTITIONER_CONSISTENT_RANDOM,
         {0, 0, 0xb1b451d7, 0xb0150df7, 0xd077037e},
         1},
        {KN_PARTITIONER_MURMUR2,
         KN_PARTITIONER_MURMUR2_RANDOM,
         {0x106e08d9, 0x106e08d9, 0x058d780f, 0x4f7703da, 0x5ec19395},
         0},
        {KN_PARTITIONER_FNV1A,
         KN_PARTITIONER_FNV1A_RANDOM,
         {0x7ee3623b, 0x7ee3623b, 0x27e6f469, 0x155e3e5f, 0x17b1e27a},
         0},
    };
    static const int32_t counts[] = {1, 2, 3, 4, 17, 100, 9999};
    for (size_t c = 0; c < 3; c++) {
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
            for (int key = 0; key < KEY_COUNT; key++) {
                int32_t expected = (int32_t)(cases[c].hashes[key] % (uint32_t)counts[n]);
                CHECK_EQ(choose(cases[c].plain, key, counts[n]), expected);
                int any = key == 0 || (key == 1 && cases[c].empty_is_random);
                CHECK_EQ(choose(cases[c].random, key, counts[n]), any ? ANY : expected);
                CHECK_EQ(choose(KN_PARTITIONER_RANDOM, key, counts[n]), ANY);
                CHECK_EQ(choose(KN_PARTITIONER_ROUND_ROBIN, key, counts[n]), ANY);
                CHECK_EQ(choose(KN_PARTITIONER_STICKY, key, counts[n]), ANY);
            }
        }
    }
}

static void test_results_recorded_from_librdkafka_with_4_partitions(void)
{
    static const int8_t recorded[][KEY_COUNT] = {
        [KN_PARTITIONER_CONSISTENT_RANDOM] = {ANY, ANY, 3, 3, 2},
        [KN_PARTITIONER_CONSISTENT] = {0, 0, 3, 3, 2},
        [KN_PARTITIONER_RANDOM] = {ANY, ANY, ANY, ANY, ANY},
        [KN_PARTITIONER_MURMUR2] = {1, 1, 3, 2, 1},
        [KN_PARTITIONER_MURMUR2_RANDOM] = {ANY, 1, 3, 2, 1},
        [KN_PARTITIONER_FNV1A] = {3, 3, 1, 3, 2},
        [KN_PARTITIONER_FNV1A_RANDOM] = {ANY, 3, 1, 3, 2},
    };
    for (int partitioner = 0; partitioner < 7; partitioner++) {
        for (int key = 0; key < KEY_COUNT; key++) {
            CHECK_EQ(choose((enum kn_partitioner)partitioner, key, 4), recorded[partitioner][key]);
        }
    }
    /* bytes above 127 */
    static const uint8_t high[3] = {0xff, 0xfe, 0x00};
    CHECK_EQ(kn_partitioner_choose(KN_PARTITIONER_CONSISTENT, high, 3, 4), 0);
    CHECK_EQ(kn_partitioner_choose(KN_PARTITIONER_MURMUR2, high, 3, 4), 0);
    CHECK_EQ(kn_partitioner_choose(KN_PARTITIONER_FNV1A, high, 3, 4), 0);
}

static void test_sticking_records(void)
{
    const uint8_t *key = (const uint8_t *)"k";
    for (int partitioner = 0; partitioner < 7; partitioner++) {
        CHECK_EQ(kn_partitioner_sticks((enum kn_partitioner)partitioner, NULL, 0), 1);
        CHECK_EQ(kn_partitioner_sticks((enum kn_partitioner)partitioner, key, 1), 0);
        CHECK_EQ(kn_partitioner_sticks((enum kn_partitioner)partitioner, key, 0),
                 partitioner == KN_PARTITIONER_CONSISTENT_RANDOM);
    }
    CHECK_EQ(kn_partitioner_sticks(KN_PARTITIONER_STICKY, key, 1), 1);
}

int main(void)
{
    RUN(test_results_are_librdkafkas_hash_modulo_count);
    RUN(test_results_recorded_from_librdkafka_with_4_partitions);
    RUN(test_sticking_records);
    return check_done();
}
