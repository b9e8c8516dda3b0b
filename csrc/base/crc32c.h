/* CRC32C (Castagnoli), as Kafka checksums record batches.
 *
 * Thread: any. The implementation (AVX-512 folding, SSE4.2 interleaved, ARMv8, portable) is chosen
 * once per process, at first use.
 */
#ifndef KN_BASE_CRC32C_H
#define KN_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* crc: 0 to start, or the result so far */
uint32_t kn_crc32c(uint32_t crc, const void *data, size_t size_bytes);
const char *kn_crc32c_backend(void);
/* Without the widest instructions, and the table version: for tests on any machine. */
uint32_t kn_crc32c_lanes(uint32_t crc, const void *data, size_t size_bytes);
uint32_t kn_crc32c_portable(uint32_t crc, const void *data, size_t size_bytes);

#endif
