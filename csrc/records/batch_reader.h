/* Reads record batches (magic 2) and message sets (magic 0 and 1) from borrowed bytes.
 *
 * Thread: any; no state outside the structs.
 * Who frees: the caller. Views point into the input, or into the buffer that the caller
 * decompressed into. Every length and count is checked against the remaining bytes before it is
 * used.
 *
 * kn_batch_view_next()   walks the record bytes of a fetched partition, one batch (or legacy
 *                        message) at a time
 * kn_batch_view_check()  verifies the checksum
 * kn_batch_view_open()   decompresses if needed; afterwards records/records_bytes are plain, for
 *                        record_reader.h */
#ifndef KN_RECORDS_BATCH_READER_H
#define KN_RECORDS_BATCH_READER_H

#include <stdint.h>
#include "base/buffer.h"
#include "base/span.h"
#include "records/codec.h"
#include "records/record_types.h"

/* Takes the next batch off `span`.
 * - KN_ERR_TRUNCATED: a partial batch (normal at the end of a fetch) or an empty span; the span is
 *   unchanged.
 * - KN_ERR_INVALID: malformed; raw_bytes and last_offset are set if they are known. */
int kn_batch_view_next(struct kn_span *span, struct kn_batch_view *view);
int kn_batch_view_check(const struct kn_batch_view *view); /* KN_OK or KN_ERR_CRC */
/* Decompresses the records into a buffer from `pool`. The caller owns *out; NULL: the batch wasn't
 * compressed. */
int kn_batch_view_open(struct kn_batch_view *view, const struct kn_codec_table *codecs,
                       size_t max_bytes, struct kn_pool *pool, struct kn_buffer **out);

#endif
