/* Decoders by schema: finds the decoder of each record by the schema id in its framing.
 *
 * A framing is the byte 0 and a schema id of four bytes, or the byte 1 and a GUID of 16 bytes. For
 * Protobuf the indexes of the message type follow. It stands before the record, or in a header.
 * Its bytes are the key of a decoder.
 *
 * Thread: one at a time. Python adds decoders while no record is decoded.
 * Who frees: the owner. It keeps the programs, reasons and paths alive. */
#ifndef KN_CODECS_SCHEMA_DECODERS_H
#define KN_CODECS_SCHEMA_DECODERS_H

#include "codecs/decoder.h"
#include "records/record_types.h"

#define KN_SCHEMA_KEY_MAX_BYTES 64
#define KN_SCHEMA_DECODERS_MAX 4096
#define KN_SCHEMA_FAILURE_TEXT_BYTES 1024

enum kn_framing {
    KN_FRAMING_NONE,   /* no framing: one decoder has the empty key */
    KN_FRAMING_ID,     /* a schema id or a GUID */
    KN_FRAMING_INDEXES /* a schema id or a GUID, and message indexes */
};

struct kn_schema_key {
    int32_t size_bytes; /* 0: none */
    uint8_t bytes[KN_SCHEMA_KEY_MAX_BYTES];
};

struct kn_schema_decoder {
    struct kn_schema_key key;
    struct kn_decoder decoder; /* decode is NULL: its records can't be decoded */
    const char *reason;        /* the reason for that, UTF-8 */
    const char *const *paths;  /* the field of each instruction, UTF-8; "": the whole record */
};

struct kn_schema_decoders {
    enum kn_framing framing;
    bool is_key; /* decodes the records' keys, else their values */
    struct kn_schema_decoder *items;
    int32_t count;
    int32_t capacity;
    int32_t last;   /* index of the decoder that was found last */
    int32_t *slots; /* a hash table: index + 1; 0: free */
    uint32_t mask;
};

struct kn_schema_failure { /* why a record has no row */
    struct kn_schema_key key;
    const char *path; /* NULL: not about a field */
    int64_t position; /* of the message's key or value, with its framing; -1: unknown */
    const char *text;
};

void kn_schema_decoders_init(struct kn_schema_decoders *decoders, enum kn_framing framing,
                             bool is_key);
void kn_schema_decoders_deinit(struct kn_schema_decoders *decoders);
/* Adds a decoder whose key isn't there yet. KN_OK, KN_ERR_NOMEM, or KN_ERR_FULL
 * (KN_SCHEMA_DECODERS_MAX). */
int kn_schema_decoders_add(struct kn_schema_decoders *decoders,
                           const struct kn_schema_decoder *decoder);
/* Removes all decoders. */
void kn_schema_decoders_clear(struct kn_schema_decoders *decoders);

/* Appends a record's key or value as one row. NULL becomes a null. Otherwise the builder keeps the
 * rows before it, *failure says why, and the result is:
 * - KN_ERR_UNKNOWN_SCHEMA: there is no decoder for failure->key.
 * - KN_ERR_INVALID: the record has no framing, or doesn't decode.
 * - KN_ERR_FULL, KN_ERR_NOMEM: as of decode() in decoder.h. */
int kn_schema_decoders_decode(struct kn_schema_decoders *decoders, struct kn_builder *builder,
                              const struct kn_record *record, struct kn_schema_failure *failure);
/* Writes the text of a failure, at most KN_SCHEMA_FAILURE_TEXT_BYTES of UTF-8 without a NUL. Returns
 * its size. */
int32_t kn_schema_failure_text(const struct kn_schema_failure *failure,
                               char out[KN_SCHEMA_FAILURE_TEXT_BYTES]);

#endif
