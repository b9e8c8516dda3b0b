/* Byte buffers, and the pool that keeps free buffers for reuse.
 *
 * Thread: all threads of one client share a pool. They hold its mutex (rank: leaf) only to link or
 * unlink a buffer, never around malloc or free. A buffer has one owner at a time.
 * Who frees: the owner returns a buffer with kn_buffer_give(); the pool frees the buffers that it
 * keeps.
 *
 * Why a pool: a new buffer of 1 MB has its own pages, so that the kernel gets them back after a
 * burst. The first writes to them cause 256 page faults. Debug builds (KN_DEBUG) fill the used part
 * of a returned buffer with 0xDD, and with ASan poison it. If a buffer were reused while a request
 * still points into it, the request would send another topic's data. */
#ifndef KN_BASE_BUFFER_H
#define KN_BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>
#include "base/list.h"

struct kn_pool;

struct kn_buffer {
    struct kn_list node;  /* in the pool's free list of its size class, while idle */
    struct kn_list age;   /* in the pool's age list, while idle */
    struct kn_pool *pool; /* NULL: from malloc(); kn_buffer_give() frees it */
    uint8_t *data;
    size_t size_bytes; /* used */
    size_t capacity_bytes;
    size_t backed_bytes; /* the first backed_bytes have physical memory */
};

/* keep_bytes: the pool keeps at most this much in free buffers, and frees the oldest ones beyond
 * it. NULL: no memory. */
struct kn_pool *kn_pool_new(size_t keep_bytes);
/* All buffers must have been returned. Otherwise a debug build aborts; in a release build the last
 * buffer frees the pool. */
void kn_pool_free(struct kn_pool *pool);
/* Frees idle buffers down to keep_bytes; called from time to time, so that memory shrinks after a
 * burst. */
void kn_pool_trim(struct kn_pool *pool, size_t keep_bytes);
size_t kn_pool_idle_bytes(struct kn_pool *pool);

/* Returns a buffer of at least `capacity_bytes` (rounded up to a size class) and size 0. NULL: no
 * memory. pool may be NULL. */
struct kn_buffer *kn_buffer_take(struct kn_pool *pool, size_t capacity_bytes);
/* The same for a size that a peer has announced: a large buffer is only reserved address space.
 * Pages get memory when they are written. */
struct kn_buffer *kn_buffer_take_unbacked(struct kn_pool *pool, size_t capacity_bytes);
/* A hint: the first `bytes` will be written soon. Gets their pages with one call instead of one
 * page fault each. */
void kn_buffer_back(struct kn_buffer *buffer, size_t bytes);
void kn_buffer_give(struct kn_buffer *buffer); /* NULL is allowed */
/* Makes room for `more_bytes` after size_bytes. May replace *buffer by a larger one with the same
 * content. */
int kn_buffer_reserve(struct kn_buffer **buffer, size_t more_bytes);
/* reserves and copies */
int kn_buffer_append(struct kn_buffer **buffer, const void *data, size_t size_bytes);

/* Buffers in use in the process, for the leak check of the tests. */
long kn_buffer_live(void);

#endif
