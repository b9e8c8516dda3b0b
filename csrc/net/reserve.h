/* A few pieces of memory of one size, allocated ahead, for what must not get lost: an event that
 * the control plane waits for, an operation for a broker.
 *
 * Pieces come from malloc() as long as it has any. When it hasn't, they come from the reserve,
 * which is filled again with the pieces that are given back.
 * Thread: any. Lock: `lock` (leaf), held to link and unlink only, and only while memory is short.
 * Who frees: the engine embeds it.
 */
#ifndef KN_NET_RESERVE_H
#define KN_NET_RESERVE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "base/list.h"
#include "net/thread.h"

struct kn_reserve {
    size_t piece_bytes; /* immutable */
    atomic_int missing; /* pieces to be filled up with */
    struct kn_mutex lock;
    struct kn_list pieces; /* under lock */
};

/* Pieces begin with a struct kn_list, which is the reserve's while they are in it. KN_OK or
 * KN_ERR_NOMEM, with nothing to deinit. */
int kn_reserve_init(struct kn_reserve *reserve, size_t piece_bytes, int count);
void kn_reserve_deinit(struct kn_reserve *reserve);
/* zeroed; NULL: no memory, and nothing is left of the reserve */
void *kn_reserve_take(struct kn_reserve *reserve);
void kn_reserve_give(struct kn_reserve *reserve, void *piece);

#endif
