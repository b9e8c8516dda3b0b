/* How hard a topic's batches are compressed where that is left to us: with the quickest form of the
 * codec's default level that costs hardly any bytes, as was tried on one of the last batches.
 *
 * Thread: whoever encodes the topic's batches, several at once: a level is a number, and any that
 * was found will do. Lock: none. Who frees: the topic embeds it.
 */
#ifndef KN_PRODUCE_ADAPTIVE_LEVEL_H
#define KN_PRODUCE_ADAPTIVE_LEVEL_H

#include <stdatomic.h>
#include "records/codec.h"

/* between two tries, each of which takes as long as three or four batches */
#define KN_ADAPTIVE_LEVEL_BATCHES 128
/* smaller batches don't need large tables, whatever the level */
#define KN_ADAPTIVE_LEVEL_BYTES ((size_t)256 << 10)
/* a fortieth more bytes is what a quicker form may cost */
#define KN_ADAPTIVE_LEVEL_LOSS 40

struct kn_adaptive_level { /* all zero at first */
    atomic_uint batches;
    atomic_int form; /* quicker than the default by so many levels */
};

/* As codec->compress() with KN_CODEC_LEVEL_DEFAULT, or a quicker form of it. */
int kn_adaptive_level_compress(struct kn_adaptive_level *adaptive_level,
                               const struct kn_codec *codec, const uint8_t *src, size_t size_bytes,
                               struct kn_buffer **out);

#endif
