/* Encodes a batch's records to the bytes that are sent: batch_encoder.h. */
#include "produce/batch_encoder.h"

#include <string.h>
#include "base/status.h"
#include "produce/produce_codec.h"
#include "produce/producer.h"
#include "produce/topic.h"
#include "records/batch_writer.h"
#include "records/legacy_writer.h"

/* Makes the compressed form of a batch, with an empty header; NULL: send it uncompressed. */
static struct kn_buffer *compress(const struct kn_producer *producer, const struct kn_codec *codec,
                                  const struct kn_batch *batch)
{
    const struct kn_buffer *plain = batch->plain;
    const uint8_t *records = plain->data + KN_BATCH_HEADER_BYTES;
    size_t records_bytes = plain->size_bytes - KN_BATCH_HEADER_BYTES;
    int level = batch->topic->config->codec_level;
    struct kn_buffer *out = kn_buffer_take(producer->client->pool, plain->size_bytes);
    if (!out) return NULL;
    out->size_bytes = KN_BATCH_HEADER_BYTES;
    int status = level == KN_CODEC_LEVEL_DEFAULT
                     ? kn_adaptive_level_compress(&batch->topic->adaptive_level, codec, records,
                                                  records_bytes, &out)
                     : codec->compress(records, records_bytes, level, &out);
    if (status == KN_OK && out->size_bytes < plain->size_bytes) return out;
    kn_buffer_give(out);
    return NULL;
}

static void encode(const struct kn_producer *producer, struct kn_batch *batch,
                   int16_t produce_version)
{
    int32_t codec_id = batch->topic->config->codec;
    const struct kn_codec *codec = &producer->client->codecs.codecs[codec_id];
    struct kn_batch_meta meta = {
        .partition_leader_epoch = -1,
        .producer_id = batch->producer_id,
        .producer_epoch = batch->producer_epoch,
        .base_sequence = batch->base_sequence,
    };
    if (kn_producer_is_transactional(producer)) meta.attributes |= KN_ATTR_TRANSACTIONAL;
    int again = batch->wire != NULL; /* the batch has a new number, and its records are the same */
    int usable = !again && codec_id != KN_CODEC_NONE && codec->compress &&
                 (codec_id != KN_CODEC_ZSTD || produce_version >= KN_PRODUCE_ZSTD_SINCE);
    struct kn_buffer *compressed = usable ? compress(producer, codec, batch) : NULL;
    if (!again) batch->wire = compressed ? compressed : batch->plain;
    if (!again) batch->codec = (int8_t)(compressed ? codec_id : KN_CODEC_NONE);
    meta.attributes |= batch->codec;
    if (compressed) {
        if (!batch->opaques && !producer->config->report_all) {
            /* no report needs the plain records */
            kn_buffer_give(batch->plain);
            batch->plain = NULL;
        }
    }
    kn_batch_close(batch->wire, &batch->writer, &meta);
}

static int encode_legacy(const struct kn_producer *producer, struct kn_batch *batch, int8_t magic)
{
    const struct kn_produce_config *config = batch->topic->config;
    const struct kn_codec *codec = &producer->client->codecs.codecs[config->codec];
    struct kn_batch_view view;
    struct kn_legacy_form form = {
        .magic = magic,
        .codec_id = codec->compress || config->codec == KN_CODEC_ZSTD ? (int8_t)config->codec
                                                                      : KN_CODEC_NONE,
        .codec = codec,
        .level = config->codec_level,
    };
    int status = kn_batch_view_plain(batch, &view);
    if (status != KN_OK) return status;
    struct kn_buffer *set = kn_buffer_take(producer->client->pool, batch->plain->size_bytes);
    if (!set) return KN_ERR_NOMEM;
    status = kn_legacy_write(&view, &form, &set);
    if (status != KN_OK) {
        kn_buffer_give(set);
        return status;
    }
    batch->wire = set;
    return KN_OK;
}

/* Returns whether a broker with this version of Produce accepts the batch's wire form. */
static int is_in_form(const struct kn_batch *batch, int16_t produce_version)
{
    return batch->magic == kn_produce_magic(produce_version) &&
           (batch->codec != KN_CODEC_ZSTD || produce_version >= KN_PRODUCE_ZSTD_SINCE);
}

/* Restores the plain records: the leader of an earlier try, or the source of the batch, had a newer
 * or older protocol than this leader. */
static int reopen(const struct kn_producer *producer, struct kn_batch *batch)
{
    if (!batch->plain) {
        struct kn_batch_view view;
        struct kn_buffer *opened;
        int status = kn_batch_view_records(batch, &producer->client->codecs, &view, &opened);
        if (status != KN_OK) return status;
        struct kn_buffer *plain = kn_buffer_take(producer->client->pool,
                                                 KN_BATCH_HEADER_BYTES + view.records_bytes);
        if (plain) {
            plain->size_bytes = KN_BATCH_HEADER_BYTES + view.records_bytes;
            memset(plain->data, 0, KN_BATCH_HEADER_BYTES);
            memcpy(plain->data + KN_BATCH_HEADER_BYTES, view.records, view.records_bytes);
        }
        kn_buffer_give(opened);
        if (!plain) return KN_ERR_NOMEM;
        batch->plain = plain;
    }
    if (batch->wire != batch->plain) kn_buffer_give(batch->wire);
    batch->wire = NULL;
    batch->codec = KN_CODEC_NONE;
    batch->encoded = 0;
    return KN_OK;
}

int kn_batch_encode(const struct kn_producer *producer, struct kn_batch *batch,
                    int16_t produce_version)
{
    int8_t magic = kn_produce_magic(produce_version);
    int status = KN_OK;
    if (batch->wire && !is_in_form(batch, produce_version)) status = reopen(producer, batch);
    if (status != KN_OK || batch->encoded) return status;
    if (magic < 2) status = encode_legacy(producer, batch, magic);
    else encode(producer, batch, produce_version);
    if (status != KN_OK) return status;
    batch->magic = magic;
    batch->encoded = 1;
    return KN_OK;
}
