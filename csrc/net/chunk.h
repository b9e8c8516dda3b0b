/* A receive buffer with a reference count: a response body, a decompressed batch, or a delivered
 * batch whose bytes Messages use.
 *
 * Thread: any thread calls ref and unref (atomic). The last unref returns the buffer to its pool.
 */
#ifndef KN_NET_CHUNK_H
#define KN_NET_CHUNK_H

#include <stdatomic.h>
#include <stdbool.h>
#include "base/buffer.h"

struct kn_chunk {
    atomic_int refs;
    atomic_int in_columns; /* references from Arrow columns */
    struct kn_buffer *buffer;
    /* under the binding's lock: see Pins in message.pxd */
    int32_t message_refs; /* references of Messages, through their Batches */
    /* bytes that these Messages would copy to release the chunk; below 0: they must keep it */
    int64_t kept_bytes;
};

/* takes the buffer; NULL: no memory, and the caller still owns the buffer */
struct kn_chunk *kn_chunk_new(struct kn_buffer *buffer);
struct kn_chunk *kn_chunk_ref(struct kn_chunk *chunk);
void kn_chunk_unref(struct kn_chunk *chunk); /* NULL is allowed */
/* Returns whether only Messages have references to it. */
static inline bool kn_chunk_has_only_messages(const struct kn_chunk *chunk)
{
    return atomic_load_explicit(&chunk->refs, memory_order_acquire) == chunk->message_refs;
}
long kn_chunk_live(void);

#endif
