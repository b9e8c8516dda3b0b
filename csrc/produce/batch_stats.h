/* What is counted of batches for statistics, as they go into requests: counting.h.
 *
 * Thread: the broker's.
 */
#ifndef KN_PRODUCE_BATCH_STATS_H
#define KN_PRODUCE_BATCH_STATS_H

#include <stdint.h>
#include "produce/batch.h"
#include "net/counting.h"

/* These batches go into a request, the first time or again. With windows NULL and means that are
 * off: nothing is recorded. */
void kn_count_batches(struct kn_broker_windows *windows, struct kn_means *means,
                      struct kn_batch *const *batches, int32_t count);

#endif
