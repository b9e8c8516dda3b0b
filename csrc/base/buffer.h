/* Byte buffers and the pool that keeps them warm.
 *
 * Thread: a pool is shared by all threads of one client; its mutex (rank: leaf) is held only to
 * link or unlink a buffer, never around malloc or free. A buffer has one owner at a time.
 * Who frees: the owner gives it back with kn_buffer_give(); the pool frees what it keeps.
 *
 * Why a pool: a fresh buffer of 1 MB has pages of its own (so that the kernel has them back once a
 * burst is over), and touching it page-faults 256 times. Debug builds (KN_DEBUG) fill what was used
 * of a given-back buffer with 0xDD, and under ASan poison it, because a buffer reused while a
 * request still pointed into it is how another client lost data.
 */
#ifndef KN_BASE_BUFFER_H
#define KN_BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>
#include "base/list.h"

struct kn_pool;

struct kn_buffer {
    struct kn_list node;  /* in the pool's free list of its size class, while idle */
    struct kn_list age;   /* in the pool's age list, while idle */
    struct kn_pool *pool; /* NULL: plain malloc, freed by give */
    uint8_t *data;
    size_t size_bytes; /* used */
    size_t capacity_bytes;
    size_t backed_bytes; /* the first so many are known to have memory behind them */
};

/* keep_bytes: most memory held in free buffers (older ones are freed beyond it). NULL: no memory.
 */
struct kn_pool *kn_pool_new(size_t keep_bytes);
/* Every buffer must have been given back: debug builds abort otherwise; release builds let the last
 * buffer free the pool. */
void kn_pool_free(struct kn_pool *pool);
/* Frees idle buffers down to keep_bytes; called now and then so that a burst doesn't stay resident.
 */
void kn_pool_trim(struct kn_pool *pool, size_t keep_bytes);
size_t kn_pool_idle_bytes(struct kn_pool *pool);

/* A buffer with at least `capacity_bytes` (rounded to a size class), size 0. NULL: no memory. pool
 * may be NULL. */
struct kn_buffer *kn_buffer_take(struct kn_pool *pool, size_t capacity_bytes);
/* The same for a size that a peer has announced: a large buffer is address space only, and has
 * memory where it is written to. */
struct kn_buffer *kn_buffer_take_unbacked(struct kn_pool *pool, size_t capacity_bytes);
/* The first `bytes` are about to be written: their pages come in one call rather than by a fault
 * each. Only a hint. */
void kn_buffer_back(struct kn_buffer *buffer, size_t bytes);
void kn_buffer_give(struct kn_buffer *buffer); /* NULL is allowed */
/* Room for `more` bytes after size_bytes; may replace *buffer by a larger one (content kept). */
int kn_buffer_reserve(struct kn_buffer **buffer, size_t more_bytes);
/* reserve + copy */
int kn_buffer_append(struct kn_buffer **buffer, const void *data, size_t size_bytes);

/* Live buffers in the process, for the test session's leak check. */
long kn_buffer_live(void);

#endif
