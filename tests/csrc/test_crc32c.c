/* Checksums and hashes: published values, then the hardware versions against the table, at every
 * relevant length and alignment. */
#include "check.h"

#include <pthread.h>

#include "base/crc32c.h"
#include "base/hash.h"
#include "base/status.h"

static uint8_t data[70000];

static void test_published_values(void)
{
    uint8_t zeros[32] = {0}, ones[32];
    memset(ones, 0xff, sizeof ones);
    CHECK_EQ(kn_crc32c(0, "123456789", 9), 0xe3069283u);
    CHECK_EQ(kn_crc32c(0, zeros, 32), 0x8a9136aau); /* RFC 3720, B.4 */
    CHECK_EQ(kn_crc32c(0, ones, 32), 0x62a8ab43u);
    CHECK_EQ(kn_crc32c_portable(0, "123456789", 9), 0xe3069283u);
    CHECK_EQ(kn_crc32(0, "123456789", 9), 0xcbf43926u);
    CHECK_EQ(kn_crc32c(0, NULL, 0), 0);
    CHECK(strlen(kn_crc32c_backend()) > 0);
}

static void agrees(uint32_t crc, size_t start, size_t size)
{
    uint32_t expected = kn_crc32c_portable(crc, data + start, size);
    CHECK_EQ(kn_crc32c(crc, data + start, size), expected);
    CHECK_EQ(kn_crc32c_lanes(crc, data + start, size), expected);
}

static void test_hardware_agrees_with_the_table(void)
{
    uint32_t seed = 1;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)((seed = seed * 1103515245u + 12345u) >> 16);
    for (size_t size = 0; size < 1200; size++) agrees((uint32_t)size * 77, size % 71, size);
    for (size_t size = 6100; size < 69000; size += 761) agrees(7, 3, size);
    for (size_t start = 0; start < 64; start++) agrees(UINT32_MAX, start, 1024);
}

static void test_a_checksum_can_be_continued(void)
{
    uint32_t whole = kn_crc32c(0, data, 20000);
    for (size_t cut = 0; cut <= 20000; cut += 999)
        CHECK_EQ(kn_crc32c(kn_crc32c(0, data, cut), data + cut, 20000 - cut), whole);
    CHECK_EQ(kn_crc32(kn_crc32(0, data, 77), data + 77, 1000), kn_crc32(0, data, 1077));
}

static void *first_use(void *result)
{
    *(uint32_t *)result = kn_crc32c(0, "123456789", 9);
    return NULL;
}

/* The first test, so that the threads race for the choice itself. */
static void test_threads_may_race_for_the_first_use(void)
{
    pthread_t threads[8];
    uint32_t results[8];
    for (int i = 0; i < 8; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, first_use, &results[i]), 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 8; i++) CHECK_EQ(results[i], 0xe3069283u);
}

static void test_murmur2_as_the_java_client(void)
{
    CHECK_EQ((int32_t)kn_murmur2("21", 2), -973932308);
    CHECK_EQ((int32_t)kn_murmur2("foobar", 6), -790332482);
    CHECK_EQ((int32_t)kn_murmur2("a-little-bit-long-string", 24), -985981536);
    CHECK_EQ((int32_t)kn_murmur2("abc", 3), 479470107);
    CHECK_EQ((int32_t)kn_murmur2("", 0), 275646681);
}

static void test_fnv1a_as_librdkafka(void)
{
    CHECK_EQ(kn_fnv1a("kafka", 5), 0xd33c4e1);
    CHECK_EQ(kn_fnv1a("giberish123456789", 17), 0x77a58295);
    CHECK_EQ(kn_fnv1a("", 0), 0x7ee3623b);
}

int main(void)
{
    RUN(test_threads_may_race_for_the_first_use);
    RUN(test_published_values);
    RUN(test_hardware_agrees_with_the_table);
    RUN(test_a_checksum_can_be_continued);
    RUN(test_murmur2_as_the_java_client);
    RUN(test_fnv1a_as_librdkafka);
    return check_done();
}
