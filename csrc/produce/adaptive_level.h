/* The adaptive compression level of a topic, for a producer whose configuration sets no level. It
 * is the quickest form of the codec's default level that costs hardly any bytes. The encoder finds
 * it by trying the forms on a batch from time to time.
 *
 * Thread: any thread that encodes the topic's batches, several at once. A level is one number, and
 * every number that a trial found is usable.
 * Lock: none. Who frees: the topic embeds it. */
#ifndef KN_PRODUCE_ADAPTIVE_LEVEL_H
#define KN_PRODUCE_ADAPTIVE_LEVEL_H

#include <stdatomic.h>
#include "records/codec.h"

/* batches between two trials; a trial takes as long as three or four batches */
#define KN_ADAPTIVE_LEVEL_BATCHES 128
/* smaller batches use the default level itself: they don't need large tables */
#define KN_ADAPTIVE_LEVEL_BYTES ((size_t)256 << 10)
/* a quicker form may make the output 1/40 larger */
#define KN_ADAPTIVE_LEVEL_LOSS 40

struct kn_adaptive_level { /* initially all zero */
    atomic_uint batches;
    atomic_int form; /* how many levels quicker than the default */
};

/* Compresses like codec->compress() with KN_CODEC_LEVEL_DEFAULT, or with a quicker form of that
 * level. */
int kn_adaptive_level_compress(struct kn_adaptive_level *adaptive_level,
                               const struct kn_codec *codec, const uint8_t *src, size_t size_bytes,
                               struct kn_buffer **out);

#endif
