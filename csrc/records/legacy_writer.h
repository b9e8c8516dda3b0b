/* Writes message sets of magic 0 and 1, for brokers that don't know magic 2, from the records of a
 * batch.
 *
 * Thread: any; no state. Who frees: the caller owns *out. The form of a message is in
 * legacy_reader.h. What the old forms have no place for is left out: headers, and in magic 0 the
 * timestamps.
 */
#ifndef KN_RECORDS_LEGACY_WRITER_H
#define KN_RECORDS_LEGACY_WRITER_H

#include "records/batch_reader.h"

struct kn_legacy_form {
    int8_t magic; /* 0 or 1 */
    /* KN_CODEC_NONE: plain messages; gzip, snappy, lz4: one wrapper around them */
    int8_t codec_id;
    const struct kn_codec *codec; /* who compresses; not looked at for KN_CODEC_NONE */
    int level;
    int64_t first_offset; /* 0 from a producer: the broker gives the offsets */
};

/* Appends the records of an opened view, of any magic, to *out. Where compression fails or gains
 * nothing, the messages are plain. KN_OK, KN_ERR_NOMEM, KN_ERR_TOO_LARGE (over 2 GB),
 * KN_ERR_UNSUPPORTED (such a form doesn't exist: zstd), KN_ERR_INVALID (malformed records, or
 * none). */
int kn_legacy_write(const struct kn_batch_view *opened, const struct kn_legacy_form *form,
                    struct kn_buffer **out);

#endif
