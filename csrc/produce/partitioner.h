/* Which partition a key belongs to, with the results that librdkafka and the Java client have.
 *
 * Thread: any; no state. A partitioner that has no say for a key (random, or a null key under a
 * *_random one) answers KN_PARTITION_ANY, and the topic chooses.
 *
 *   consistent          crc32(key) % count; a null key hashes like an empty one consistent_random
 * the same, but null and empty keys are anybody's murmur2             (murmur2(key) & 0x7fffffff) %
 * count, as the Java client; a null key hashes like an empty one murmur2_random      the same, but
 * a null key is anybody's (an empty one is hashed) fnv1a, fnv1a_random likewise with FNV-1a, as
 * Sarama random              anybody's, whatever the key
 */
#ifndef KN_PRODUCE_PARTITIONER_H
#define KN_PRODUCE_PARTITIONER_H

#include <stdbool.h>
#include <stdint.h>

enum kn_partitioner { /* named in kafka_native/partitioners.py */
                      KN_PARTITIONER_CONSISTENT_RANDOM = 0,
                      KN_PARTITIONER_CONSISTENT = 1,
                      KN_PARTITIONER_RANDOM = 2,
                      KN_PARTITIONER_MURMUR2 = 3,
                      KN_PARTITIONER_MURMUR2_RANDOM = 4,
                      KN_PARTITIONER_FNV1A = 5,
                      KN_PARTITIONER_FNV1A_RANDOM = 6
};

#define KN_PARTITION_ANY (-1)

/* key NULL: null. count > 0. */
int32_t kn_partitioner_choose(enum kn_partitioner partitioner, const uint8_t *key,
                              int32_t key_bytes, int32_t count);
/* Whether such a record goes where others go for a while (sticky.h). Where a key is null under
 * `random` it does, with a key it doesn't: each goes somewhere else, as in librdkafka. */
bool kn_partitioner_sticks(enum kn_partitioner partitioner, const uint8_t *key, int32_t key_bytes);

#endif
