/* A counted receive buffer: a response body, a decompressed batch, or a delivered batch that
 * Messages borrow from.
 *
 * Thread: ref/unref from any thread (atomic). The last unref gives the buffer back to its pool.
 */
#ifndef KN_NET_CHUNK_H
#define KN_NET_CHUNK_H

#include <stdatomic.h>
#include <stdbool.h>
#include "base/buffer.h"

struct kn_chunk {
    atomic_int refs;
    atomic_int in_columns; /* references of Arrow columns */
    struct kn_buffer *buffer;
    /* under the binding's lock: see Pins in message.pxd */
    int32_t lent;       /* references of Messages, which they may be made to do without */
    int64_t kept_bytes; /* what Messages would take without it; below 0: they are to keep it */
};

/* takes the buffer; NULL: no memory, and the buffer stays the caller's */
struct kn_chunk *kn_chunk_new(struct kn_buffer *buffer);
struct kn_chunk *kn_chunk_ref(struct kn_chunk *chunk);
void kn_chunk_unref(struct kn_chunk *chunk); /* NULL is allowed */
/* Whether nothing but Messages has references to it. */
static inline bool kn_chunk_is_left(const struct kn_chunk *chunk)
{
    return atomic_load_explicit(&chunk->refs, memory_order_acquire) == chunk->lent;
}
long kn_chunk_live(void);

#endif
