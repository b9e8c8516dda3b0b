/* Computes the partition of a key: partitioner.h.
 *
 * Thread: any. Lock: none. It allocates nothing. */
#include "produce/partitioner.h"

#include <stddef.h>
#include "base/hash.h"

int32_t kn_partitioner_choose(enum kn_partitioner partitioner, const uint8_t *key,
                              int32_t key_bytes, int32_t count)
{
    static const uint8_t nothing[1];
    size_t size = key && key_bytes > 0 ? (size_t)key_bytes : 0;
    const uint8_t *data = size ? key : nothing;
    uint32_t hash;
    switch (partitioner) {
    case KN_PARTITIONER_CONSISTENT_RANDOM:
        if (size == 0) return KN_PARTITION_ANY;
        hash = kn_crc32(0, data, size);
        break;
    case KN_PARTITIONER_CONSISTENT: hash = kn_crc32(0, data, size); break;
    case KN_PARTITIONER_MURMUR2_RANDOM:
        if (!key) return KN_PARTITION_ANY;
        hash = kn_murmur2(data, size) & 0x7fffffff;
        break;
    case KN_PARTITIONER_MURMUR2: hash = kn_murmur2(data, size) & 0x7fffffff; break;
    case KN_PARTITIONER_FNV1A_RANDOM:
        if (!key) return KN_PARTITION_ANY;
        hash = kn_fnv1a(data, size);
        break;
    case KN_PARTITIONER_FNV1A: hash = kn_fnv1a(data, size); break;
    case KN_PARTITIONER_RANDOM:
    case KN_PARTITIONER_ROUND_ROBIN:
    case KN_PARTITIONER_STICKY:
    default: return KN_PARTITION_ANY;
    }
    return (int32_t)(hash % (uint32_t)count);
}
