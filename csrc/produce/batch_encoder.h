/* Encodes a batch before it is sent: compression, header and checksum, in the newest form that its
 * broker accepts.
 *
 * Thread: the broker thread or a worker, with the batch taken and outside any lock.
 * Who frees: the batch owns the buffers.
 *
 * A batch collects its records as magic 2 for every leader. For a broker before 0.11 the encoder
 * writes them again as a message set, so produce() needn't know the broker's version. Message sets
 * have no headers, and before 0.10 no timestamps; the encoder drops them. */
#ifndef KN_PRODUCE_BATCH_ENCODER_H
#define KN_PRODUCE_BATCH_ENCODER_H

#include "produce/batch.h"

struct kn_producer;

/* Encodes the batch for a broker with this version of Produce. A batch that already has the right
 * form stays unchanged. While a request points into the batch, it must have the right form. KN_OK,
 * KN_ERR_NOMEM (try again later), or why this broker can't get it: KN_ERR_UNSUPPORTED (zstd),
 * KN_ERR_TOO_LARGE. */
int kn_batch_encode(const struct kn_producer *producer, struct kn_batch *batch,
                    int16_t produce_version);

#endif
