/* CRC32C (Castagnoli), Kafka's checksum of record batches.
 *
 * Thread: any. The first call in a process chooses the implementation: AVX-512 folding, SSE4.2
 * interleaved, ARMv8, or portable. */
#ifndef KN_BASE_CRC32C_H
#define KN_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* crc: 0 to start, or the previous result */
uint32_t kn_crc32c(uint32_t crc, const void *data, size_t size_bytes);
const char *kn_crc32c_backend(void);
/* The versions without the widest instructions, and by table: so that tests run them on any
 * machine. */
uint32_t kn_crc32c_lanes(uint32_t crc, const void *data, size_t size_bytes);
uint32_t kn_crc32c_portable(uint32_t crc, const void *data, size_t size_bytes);

#endif
