/* Writes the records of a batch as message sets of magic 0 and 1, for brokers that don't know magic
 * 2.
 *
 * Thread: any; no state. Who frees: the caller owns *out.
 * legacy_reader.h describes a message. The writer drops headers, and with magic 0 timestamps,
 * because the old forms don't have them. */
#ifndef KN_RECORDS_LEGACY_WRITER_H
#define KN_RECORDS_LEGACY_WRITER_H

#include "records/batch_reader.h"

struct kn_legacy_form {
    int8_t magic; /* 0 or 1 */
    /* KN_CODEC_NONE: plain messages; gzip, snappy, lz4: one wrapper around all messages */
    int8_t codec_id;
    const struct kn_codec *codec; /* the compressor; unused with KN_CODEC_NONE */
    int level;
    int64_t first_offset; /* a producer uses 0: the broker assigns the offsets */
};

/* Appends the records of an opened view, of any magic, to *out. The messages are plain if
 * compression fails or doesn't make them smaller. KN_OK, KN_ERR_NOMEM, KN_ERR_TOO_LARGE (over 2
 * GB), KN_ERR_UNSUPPORTED (zstd has no such form), KN_ERR_INVALID (malformed records, or none). */
int kn_legacy_write(const struct kn_batch_view *opened, const struct kn_legacy_form *form,
                    struct kn_buffer **out);

#endif
