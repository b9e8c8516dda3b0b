/* Requests to be: what each will carry is sealed (batch_seal.h) by the crew, several at once, and they are sent in the order in which they were picked.
 *
 * Thread: its broker's only; a worker of the crew has a sealing, and its batches, from begin until it is done. Lock: none. Who frees: embedded in the sender;
 * the batches stay taken.
 */
#ifndef KN_ENGINE_SEALING_H
#define KN_ENGINE_SEALING_H

#include <stddef.h>
#include <stdint.h>
#include "engine/crew.h"

#define KN_PICKS_MAX 512
#define KN_SEALINGS_MAX 6

struct kn_batch;
struct kn_broker;

struct kn_picks { /* what one request will carry */
    int32_t count;
    size_t size_bytes;
    struct kn_batch *batches[KN_PICKS_MAX];
};

struct kn_sealing {
    struct kn_task task;
    struct kn_broker *broker;
    int16_t produce_version;
    struct kn_picks picks;
};

struct kn_sealings { /* a ring; all zero: empty */
    int32_t first, count;
    struct kn_sealing ring[KN_SEALINGS_MAX];
};

/* The picks to fill for kn_sealings_begin(); there is room for one more. */
static inline struct kn_picks *kn_sealings_next(struct kn_sealings *sealings)
{
    return &sealings->ring[(sealings->first + sealings->count) % KN_SEALINGS_MAX].picks;
}
/* Has what kn_sealings_next() was filled with sealed, and then the broker woken; what is quick is done here. */
void kn_sealings_begin(struct kn_sealings *sealings, struct kn_broker *broker, int16_t produce_version);
/* Takes the oldest out if it is sealed, else NULL; valid until the next kn_sealings_next(). A batch that couldn't be has its status set. */
struct kn_picks *kn_sealings_take_sealed(struct kn_sealings *sealings);
/* The same, and waits for whoever seals it. NULL: there is none. */
struct kn_picks *kn_sealings_take(struct kn_sealings *sealings, struct kn_crew *crew);

#endif
