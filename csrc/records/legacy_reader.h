/* Reads message sets of magic 0 and 1 for batch_reader.c and record_reader.h.
 *
 * Thread: any; no state outside the structs. Who frees: as in batch_reader.h.
 *
 * A message: offset i64, size i32, crc i32 (IEEE, over the rest), magic i8, attributes i8,
 * timestamp i64 (magic 1 only), key and value with i32 sizes (-1: null). A compressed message
 * ("wrapper") has a whole message set as its value. The messages in a magic 0 wrapper have absolute
 * offsets. In a magic 1 wrapper they have relative offsets, and the wrapper has the offset of the
 * last one. */
#ifndef KN_RECORDS_LEGACY_READER_H
#define KN_RECORDS_LEGACY_READER_H

#include "records/record_types.h"

#define KN_LEGACY_PREFIX_BYTES 12      /* offset, size */
#define KN_LEGACY_MESSAGE_MIN_BYTES 14 /* crc, magic, attributes, key and value sizes */

/* Fills in the view from its raw bytes (raw, raw_bytes, base_offset and magic are set). KN_OK or
 * KN_ERR_INVALID. */
int kn_legacy_view_parse(struct kn_batch_view *view);
int kn_legacy_view_check(const struct kn_batch_view *view);
/* Call after the decompression of a wrapper: counts its messages. KN_OK or KN_ERR_INVALID. */
int kn_legacy_view_opened(struct kn_batch_view *view);

int kn_legacy_reader_init(struct kn_record_reader *reader);
int kn_legacy_reader_next(struct kn_record_reader *reader, struct kn_record *record);

#endif
