/* Receive buffers with a reference count.
 *
 * Thread: any. Lock: none, one atomic count. Who frees: the last unref. */
#include "net/chunk.h"

#include <stdlib.h>

static atomic_long live_count;

long kn_chunk_live(void) { return atomic_load(&live_count); }

struct kn_chunk *kn_chunk_new(struct kn_buffer *buffer)
{
    struct kn_chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk) return NULL;
    atomic_init(&chunk->refs, 1);
    chunk->buffer = buffer;
    atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
    return chunk;
}

struct kn_chunk *kn_chunk_ref(struct kn_chunk *chunk)
{
    atomic_fetch_add_explicit(&chunk->refs, 1, memory_order_relaxed);
    return chunk;
}

void kn_chunk_unref(struct kn_chunk *chunk)
{
    if (!chunk || atomic_fetch_sub_explicit(&chunk->refs, 1, memory_order_acq_rel) != 1) return;
    kn_buffer_give(chunk->buffer);
    free(chunk);
    atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
}
