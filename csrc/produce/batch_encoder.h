/* A batch's last step before it is sent: compression, header and checksum, in the newest form that
 * its broker takes.
 *
 * Thread: the broker's or one of the engine's worker pool, with the batch taken; outside any lock.
 * Who frees: the buffers stay the batch's.
 *
 * Batches gather their records as magic 2, whoever leads the partition. For a broker before 0.11
 * they are written again as a message set here, so that produce() knows nothing of it; headers, and
 * before 0.10 timestamps, have no place there and are left out.
 */
#ifndef KN_PRODUCE_BATCH_ENCODER_H
#define KN_PRODUCE_BATCH_ENCODER_H

#include "produce/batch.h"

struct kn_producer;

/* Encodes the batch for a broker that speaks this version of Produce. What is encoded in the right
 * form already stays as it is; no request may point into a batch that isn't. KN_OK, KN_ERR_NOMEM
 * (try again later), or why it can't be sent to such a broker: KN_ERR_UNSUPPORTED (zstd),
 * KN_ERR_TOO_LARGE. */
int kn_batch_prepare(const struct kn_producer *producer, struct kn_batch *batch,
                     int16_t produce_version);

#endif
