/* A counted receive buffer: a response body, a decompressed batch, or a delivered batch that Messages borrow from.
 *
 * Thread: ref/unref from any thread (atomic). The last unref gives the buffer back to its pool.
 */
#ifndef KN_ENGINE_CHUNK_H
#define KN_ENGINE_CHUNK_H

#include <stdatomic.h>
#include "base/buffer.h"

struct kn_chunk {
    atomic_int refs;
    struct kn_buffer *buffer;
};

struct kn_chunk *kn_chunk_new(struct kn_buffer *buffer); /* takes the buffer; NULL: no memory, and the buffer stays the caller's */
struct kn_chunk *kn_chunk_ref(struct kn_chunk *chunk);
void kn_chunk_unref(struct kn_chunk *chunk); /* NULL is allowed */
long kn_chunk_live(void);

#endif
