/* Counts batches for statistics when they go into requests (see counting.h).
 *
 * Thread: the broker thread. */
#ifndef KN_PRODUCE_BATCH_STATS_H
#define KN_PRODUCE_BATCH_STATS_H

#include <stdint.h>
#include "produce/batch.h"
#include "net/counting.h"

/* Records batches that go into a request, for the first time or again. Records nothing if `windows`
 * is NULL and the means are off. */
void kn_count_batches(struct kn_broker_windows *windows, struct kn_means *means,
                      struct kn_batch *const *batches, int32_t count);

#endif
