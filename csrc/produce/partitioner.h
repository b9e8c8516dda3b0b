/* Computes the partition of a key, with the same results as librdkafka and the Java client.
 *
 * Thread: any; no state.
 * The topic chooses the partition if the result is KN_PARTITION_ANY.
 *
 * consistent          crc32(key) % count; a null key hashes like an empty one
 * consistent_random   the same, but ANY for a null or empty key
 * murmur2             (murmur2(key) & 0x7fffffff) % count, as the Java client; a null key hashes
 *                     like an empty one
 * murmur2_random      the same, but ANY for a null key (an empty one is hashed)
 * fnv1a, fnv1a_random likewise with FNV-1a, as Sarama
 * random              ANY for every key
 * round_robin         ANY for every key: the topic takes its partitions in turn
 * sticky              ANY for every key, as if no record had one. It has no name for users: a
 *                     partitioner_cb that returns ANY leaves the choice to it */
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
                      KN_PARTITIONER_FNV1A_RANDOM = 6,
                      KN_PARTITIONER_ROUND_ROBIN = 7,
                      KN_PARTITIONER_STICKY = 8
};

#define KN_PARTITION_ANY (-1)

/* key NULL: a null key. count > 0. */
int32_t kn_partitioner_choose(enum kn_partitioner partitioner, const uint8_t *key,
                              int32_t key_bytes, int32_t count);
/* Returns whether such a record goes to the sticky partition (sticky.h). With `random`, a record
 * with a null key does. A record with a key goes to a new random partition each time, as in
 * librdkafka. */
static inline bool kn_partitioner_sticks(enum kn_partitioner partitioner, const uint8_t *key,
                                         int32_t key_bytes)
{
    return !key || partitioner == KN_PARTITIONER_STICKY ||
           (key_bytes == 0 && partitioner == KN_PARTITIONER_CONSISTENT_RANDOM);
}

#endif
