/* Key hashes: murmur2, crc32 (IEEE) and fnv1a.
 *
 * Thread: any; the crc32 table is built once (pthread_once) and never changes afterwards. Lock:
 * none. */
#include "base/hash.h"

#include <pthread.h>
#include "base/crc_table.h"
#include "base/endian.h"

#define MURMUR2_SEED 0x9747b28cu
#define MURMUR2_FACTOR 0x5bd1e995u

uint32_t kn_murmur2(const void *data, size_t size_bytes)
{
    const uint8_t *at = data;
    uint32_t hash = MURMUR2_SEED ^ (uint32_t)size_bytes;
    size_t left = size_bytes;

    for (; left >= 4; left -= 4, at += 4) {
        uint32_t word = kn_get_u32_le(at) * MURMUR2_FACTOR;
        word = (word ^ word >> 24) * MURMUR2_FACTOR;
        hash = hash * MURMUR2_FACTOR ^ word;
    }
    if (left > 0) {
        if (left > 2) hash ^= (uint32_t)at[2] << 16;
        if (left > 1) hash ^= (uint32_t)at[1] << 8;
        hash = (hash ^ at[0]) * MURMUR2_FACTOR;
    }
    hash = (hash ^ hash >> 13) * MURMUR2_FACTOR;
    return hash ^ hash >> 15;
}

static struct kn_crc_table ieee_table;
static pthread_once_t ieee_once = PTHREAD_ONCE_INIT;

static void build_ieee_table(void) { kn_crc_table_build(&ieee_table, KN_CRC_POLY_IEEE); }

uint32_t kn_crc32(uint32_t crc, const void *data, size_t size_bytes)
{
    pthread_once(&ieee_once, build_ieee_table);
    return ~kn_crc_table_update(&ieee_table, ~crc, data, size_bytes);
}

uint32_t kn_fnv1a(const void *data, size_t size_bytes)
{
    const uint8_t *at = data;
    uint32_t hash = 0x811c9dc5u;

    for (size_t i = 0; i < size_bytes; i++) hash = (hash ^ at[i]) * 0x01000193u;
    /* librdkafka's partitioner takes the absolute value of the hash as a signed number. */
    return (hash & 0x80000000u) ? 0u - hash : hash;
}
