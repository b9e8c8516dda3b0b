/* Handles lz4 frames of the first clients, in message sets of magic 0.
 *
 * Those clients included the magic number in the header checksum, so a correct reader refuses the
 * frame. This code corrects the checksum in a copy; then any decompressor can read it. Brokers
 * before 0.10 accept only frames with the wrong checksum.
 *
 * Thread: any. Who frees: the copy exists during the call only. */
#ifndef KN_RECORDS_LZ4_LEGACY_H
#define KN_RECORDS_LZ4_LEGACY_H

#include "records/codec.h"

/* The reverse: writes the wrong checksum, which old brokers expect, into a correct frame. KN_OK or
 * KN_ERR_CODEC (no frame, or one with a dictionary). */
int kn_lz4_legacy_break(uint8_t *frame, size_t size_bytes);

int kn_lz4_legacy_call(kn_decompress_fn *decompress, const uint8_t *src, size_t size_bytes,
                       size_t max_bytes, struct kn_buffer **out);

#endif
