/* Key hashes for partitioners, bit for bit as the Java client and librdkafka compute them. */
#ifndef KN_BASE_HASH_H
#define KN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint32_t kn_murmur2(const void *data, size_t size_bytes); /* Java's Utils.murmur2, as unsigned */
uint32_t kn_crc32(uint32_t crc, const void *data, size_t size_bytes); /* IEEE 802.3 */
/* librdkafka's variant: signed 32-bit arithmetic, absolute value of the result */
uint32_t kn_fnv1a(const void *data, size_t size_bytes);

#endif
