/* A reserve: a few pieces of memory of one size, allocated ahead. They are for data that must not
 * be lost: an event that the control plane waits for, an operation for a broker.
 *
 * Pieces come from malloc(). When malloc() fails, they come from the reserve. Pieces that are given
 * back fill the reserve again.
 *
 * Thread: any.
 * Lock: `lock` (leaf), held to link and unlink only, and only while memory is short.
 * Who frees: the engine embeds it. */
#ifndef KN_NET_RESERVE_H
#define KN_NET_RESERVE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "base/list.h"
#include "net/thread.h"

struct kn_reserve {
    size_t piece_bytes; /* immutable */
    atomic_int missing; /* how many pieces the reserve lacks */
    struct kn_mutex lock;
    struct kn_list pieces; /* under lock */
};

/* Each piece begins with a struct kn_list, which the reserve uses while it holds the piece. KN_OK
 * or KN_ERR_NOMEM; after an error there is nothing to deinit. */
int kn_reserve_init(struct kn_reserve *reserve, size_t piece_bytes, int count);
void kn_reserve_deinit(struct kn_reserve *reserve);
/* zeroed; NULL: malloc() fails and the reserve is empty */
void *kn_reserve_take(struct kn_reserve *reserve);
void kn_reserve_give(struct kn_reserve *reserve, void *piece);

#endif
