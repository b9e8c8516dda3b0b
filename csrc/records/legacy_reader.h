/* Message sets of magic 0 and 1: what batch_reader.c and record_reader.h hand over when they meet
 * one.
 *
 * Thread: any; no state outside the structs. Who frees: as in batch_reader.h.
 *
 * A message: offset i64, size i32, crc i32 (IEEE, over what follows it), magic i8, attributes i8,
 * timestamp i64 (magic 1 only), key and value with i32 sizes (-1 null). A compressed message
 * ("wrapper") carries a whole message set in its value. The messages inside a magic 0 wrapper have
 * absolute offsets; inside a magic 1 wrapper they are relative, and the wrapper has the offset of
 * the last.
 */
#ifndef KN_RECORDS_LEGACY_READER_H
#define KN_RECORDS_LEGACY_READER_H

#include "records/record_types.h"

#define KN_LEGACY_PREFIX_BYTES 12      /* offset, size */
#define KN_LEGACY_MESSAGE_MIN_BYTES 14 /* crc, magic, attributes, key and value sizes */

/* Fills the view from its raw bytes (raw, raw_bytes, base_offset and magic are set). KN_OK or
 * KN_ERR_INVALID. */
int kn_legacy_view_parse(struct kn_batch_view *view);
int kn_legacy_view_check(const struct kn_batch_view *view);
/* After the decompression of a wrapper: counts the messages inside. KN_OK or KN_ERR_INVALID. */
int kn_legacy_view_opened(struct kn_batch_view *view);

int kn_legacy_reader_init(struct kn_record_reader *reader);
int kn_legacy_reader_next(struct kn_record_reader *reader, struct kn_record *record);

#endif
