/* lz4 frames as the first clients wrote them into message sets of magic 0.
 *
 * They computed the header checksum over the magic number too, so a correct reader refuses the
 * frame. The checksum is put right in a copy, then any decompressor of the table does the rest.
 * Brokers before 0.10 read such frames only.
 * Thread: any. Who frees: the copy lives for the call only.
 */
#ifndef KN_RECORDS_LZ4_LEGACY_H
#define KN_RECORDS_LZ4_LEGACY_H

#include "records/codec.h"

/* The other way round: gives a frame that was written correctly the checksum that those readers
 * expect. KN_OK or KN_ERR_CODEC (no frame, or one that names a dictionary). */
int kn_lz4_legacy_break(uint8_t *frame, size_t size_bytes);

int kn_lz4_legacy_call(kn_decompress_fn *decompress, const uint8_t *src, size_t size_bytes,
                       size_t max_bytes, struct kn_buffer **out);

#endif
