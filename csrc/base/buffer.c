/* Byte buffers and their pool. See buffer.h.
 *
 * Thread: any.
 * Lock: the pool's mutex (leaf), held to link and unlink only. A forked child never takes it,
 * because a thread that doesn't exist there may hold it. The child frees buffers instead of keeping
 * them, and leaves the pool unchanged.
 *
 * An idle buffer is in two lists: its size class (newest first, because its memory is in the CPU
 * cache) and the age list of the whole pool (oldest first). So an unused class can't fill the pool
 * for ever. */
#include "base/buffer.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/fork.h"
#include "base/status.h"

#if defined(__SANITIZE_ADDRESS__)
#define KN_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KN_ASAN 1
#endif
#endif
#ifdef KN_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(data, size) __asan_poison_memory_region((data), (size))
#define UNPOISON(data, size) __asan_unpoison_memory_region((data), (size))
#else
#define POISON(data, size) ((void)0)
#define UNPOISON(data, size) ((void)0)
#endif

#define SMALLEST_SHIFT 8 /* 256 bytes: a queue of a slow consumer may have a buffer per message */
/* sizes below this can be added and doubled without an overflow */
#define IMPOSSIBLE_BYTES (SIZE_MAX / 4)
#define LARGE_BYTES ((size_t)256 << 10) /* from this size on a buffer has its own pages */
#define PAGE_BYTES 4096 /* real pages may be larger: then fewer bytes are populated */
#define CLASS_COUNT 24  /* the largest class is 2 GiB; larger buffers are never kept */

struct kn_pool {
    /* immutable */
    size_t keep_bytes;
    unsigned fork_count; /* the value when the pool was made */

    pthread_mutex_t lock;
    /* under lock */
    struct kn_list idle[CLASS_COUNT]; /* kn_buffer.node */
    struct kn_list by_age;            /* kn_buffer.age, oldest first */
    size_t idle_bytes;
    size_t taken_count; /* buffers in use */
    int closed;         /* the owner has called kn_pool_free(): the last buffer frees the pool */
};

/* For the leak check: the only state of the whole process here. */
static atomic_long live_count;

long kn_buffer_live(void) { return atomic_load_explicit(&live_count, memory_order_relaxed); }

/* Returns the size class for `bytes`; CLASS_COUNT: none. */
static unsigned class_of(size_t bytes)
{
    if (bytes <= (size_t)1 << SMALLEST_SHIFT) return 0;
    unsigned bits = (unsigned)(CHAR_BIT * sizeof bytes) - (unsigned)__builtin_clzl(bytes - 1);
    unsigned cls = bits - SMALLEST_SHIFT;
    return cls < CLASS_COUNT ? cls : CLASS_COUNT;
}

static size_t rounded_bytes(size_t bytes)
{
    unsigned cls = class_of(bytes);
    return cls < CLASS_COUNT ? (size_t)1 << (SMALLEST_SHIFT + cls) : bytes;
}

/* Large buffers come from the kernel and go back to it. With malloc() a burst would stay resident,
 * because malloc() keeps memory below a block in use. AddressSanitizer gets all of them from
 * malloc(), whose bounds it checks. */
static int from_kernel(size_t capacity_bytes)
{
#ifdef KN_ASAN
    (void)capacity_bytes;
    return 0;
#else
    return capacity_bytes >= LARGE_BYTES;
#endif
}

static uint8_t *data_new(size_t capacity_bytes)
{
    if (!from_kernel(capacity_bytes)) return malloc(capacity_bytes);
    void *data = mmap(NULL, capacity_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                      0);
    return data == MAP_FAILED ? NULL : data;
}

static void data_free(uint8_t *data, size_t capacity_bytes)
{
    if (from_kernel(capacity_bytes)) munmap(data, capacity_bytes);
    else free(data);
}

static void buffer_free(struct kn_buffer *buffer)
{
    UNPOISON(buffer->data, buffer->capacity_bytes);
    data_free(buffer->data, buffer->capacity_bytes);
    free(buffer);
}

static void free_all(struct kn_list *doomed)
{
    struct kn_list *node;
    while ((node = kn_list_pop_front(doomed)) != NULL)
        buffer_free(KN_LIST_ENTRY(node, struct kn_buffer, node));
}

/* Under lock: unlinks the oldest idle buffers until at most keep_bytes are left. Puts them into
 * `doomed`, to be freed outside the lock. */
static void evict(struct kn_pool *pool, size_t keep_bytes, struct kn_list *doomed)
{
    while (pool->idle_bytes > keep_bytes) {
        struct kn_buffer *oldest = KN_LIST_ENTRY(kn_list_first(&pool->by_age), struct kn_buffer,
                                                 age);
        kn_list_remove(&oldest->age);
        kn_list_remove(&oldest->node);
        pool->idle_bytes -= oldest->capacity_bytes;
        kn_list_push_back(doomed, &oldest->node);
    }
}

static void pool_destroy(struct kn_pool *pool)
{
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static int is_of_parent(const struct kn_pool *pool) { return pool->fork_count != kn_fork_count(); }

struct kn_pool *kn_pool_new(size_t keep_bytes)
{
    struct kn_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pool->keep_bytes = keep_bytes;
    pool->fork_count = kn_fork_count();
    if (pthread_mutex_init(&pool->lock, NULL) != 0) {
        free(pool);
        return NULL;
    }
    for (unsigned cls = 0; cls < CLASS_COUNT; cls++) kn_list_init(&pool->idle[cls]);
    kn_list_init(&pool->by_age);
    return pool;
}

void kn_pool_free(struct kn_pool *pool)
{
    struct kn_list doomed;
    size_t taken;

    if (!pool || is_of_parent(pool)) return;
    kn_list_init(&doomed);
    pthread_mutex_lock(&pool->lock);
    evict(pool, 0, &doomed);
    taken = pool->taken_count;
    pool->closed = 1;
    pthread_mutex_unlock(&pool->lock);
    free_all(&doomed);
    /* Otherwise Messages still use buffers after their client was closed; the last buffer frees the
     * pool. */
    if (taken == 0) pool_destroy(pool);
}

void kn_pool_trim(struct kn_pool *pool, size_t keep_bytes)
{
    struct kn_list doomed;

    if (is_of_parent(pool)) return;
    kn_list_init(&doomed);
    pthread_mutex_lock(&pool->lock);
    evict(pool, keep_bytes, &doomed);
    pthread_mutex_unlock(&pool->lock);
    free_all(&doomed);
}

size_t kn_pool_idle_bytes(struct kn_pool *pool)
{
    if (is_of_parent(pool)) return 0;
    pthread_mutex_lock(&pool->lock);
    size_t bytes = pool->idle_bytes;
    pthread_mutex_unlock(&pool->lock);
    return bytes;
}

/* Returns an idle buffer of the class and counts it as taken; NULL: none. */
static struct kn_buffer *pool_take(struct kn_pool *pool, unsigned cls)
{
    struct kn_buffer *buffer = NULL;

    pthread_mutex_lock(&pool->lock);
    struct kn_list *node = kn_list_pop_front(&pool->idle[cls]);
    if (node) {
        buffer = KN_LIST_ENTRY(node, struct kn_buffer, node);
        kn_list_remove(&buffer->age);
        pool->idle_bytes -= buffer->capacity_bytes;
        pool->taken_count++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (buffer) {
        UNPOISON(buffer->data, buffer->capacity_bytes);
        atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
    }
    return buffer;
}

void kn_buffer_back(struct kn_buffer *buffer, size_t bytes)
{
    if (bytes > buffer->capacity_bytes) bytes = buffer->capacity_bytes;
    if (bytes <= buffer->backed_bytes) return;
#ifdef MADV_POPULATE_WRITE
    uintptr_t from = ((uintptr_t)buffer->data + buffer->backed_bytes + PAGE_BYTES - 1) &
                     ~(uintptr_t)(PAGE_BYTES - 1);
    uintptr_t to = ((uintptr_t)buffer->data + bytes) & ~(uintptr_t)(PAGE_BYTES - 1);
    if (from_kernel(buffer->capacity_bytes) && to > from)
        (void)madvise((void *)from, to - from, MADV_POPULATE_WRITE);
#endif
    buffer->backed_bytes = bytes;
}

struct kn_buffer *kn_buffer_take_unbacked(struct kn_pool *pool, size_t capacity_bytes)
{
    unsigned cls = class_of(capacity_bytes);

    if (capacity_bytes > IMPOSSIBLE_BYTES) return NULL;
    if (pool && is_of_parent(pool)) pool = NULL;
    if (pool && cls < CLASS_COUNT) {
        struct kn_buffer *warm = pool_take(pool, cls);
        if (warm) return warm;
    }
    struct kn_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) return NULL;
    kn_list_init(&buffer->node);
    kn_list_init(&buffer->age);
    buffer->capacity_bytes = rounded_bytes(capacity_bytes);
    buffer->data = data_new(buffer->capacity_bytes);
    if (!buffer->data) {
        free(buffer);
        return NULL;
    }
    buffer->pool = pool;
    if (pool) {
        pthread_mutex_lock(&pool->lock);
        pool->taken_count++;
        pthread_mutex_unlock(&pool->lock);
    }
    atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
    return buffer;
}

struct kn_buffer *kn_buffer_take(struct kn_pool *pool, size_t capacity_bytes)
{
    struct kn_buffer *buffer = kn_buffer_take_unbacked(pool, capacity_bytes);
    if (buffer) kn_buffer_back(buffer, capacity_bytes);
    return buffer;
}

void kn_buffer_give(struct kn_buffer *buffer)
{
    struct kn_list doomed;
    struct kn_pool *pool;
    int last;

    if (!buffer) return;
    pool = buffer->pool;
#ifdef KN_DEBUG
    memset(buffer->data, 0xdd,
           buffer->size_bytes > buffer->backed_bytes ? buffer->size_bytes : buffer->backed_bytes);
#endif
    buffer->size_bytes = 0;
    atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
    if (!pool || is_of_parent(pool)) {
        buffer_free(buffer);
        return;
    }
    POISON(buffer->data, buffer->capacity_bytes);

    kn_list_init(&doomed);
    unsigned cls = class_of(buffer->capacity_bytes);
    pthread_mutex_lock(&pool->lock);
    pool->taken_count--;
    last = pool->closed && pool->taken_count == 0;
    if (pool->closed || cls >= CLASS_COUNT || buffer->capacity_bytes > pool->keep_bytes) {
        kn_list_push_back(&doomed, &buffer->node);
    } else {
        kn_list_push_front(&pool->idle[cls], &buffer->node);
        kn_list_push_back(&pool->by_age, &buffer->age);
        pool->idle_bytes += buffer->capacity_bytes;
        evict(pool, pool->keep_bytes, &doomed);
    }
    pthread_mutex_unlock(&pool->lock);
    free_all(&doomed);
    if (last) pool_destroy(pool);
}

int kn_buffer_reserve(struct kn_buffer **buffer, size_t more_bytes)
{
    struct kn_buffer *old = *buffer;

    if (more_bytes <= old->capacity_bytes - old->size_bytes) return KN_OK;
    if (more_bytes > IMPOSSIBLE_BYTES || old->size_bytes > IMPOSSIBLE_BYTES) return KN_ERR_NOMEM;

    /* Doubling keeps the copies of a growing buffer linear in its final size. */
    size_t wanted = old->size_bytes + more_bytes;
    if (wanted < old->capacity_bytes * 2) wanted = old->capacity_bytes * 2;
    unsigned cls = class_of(wanted);
    if (old->pool && is_of_parent(old->pool)) old->pool = NULL;
    struct kn_buffer *warm = old->pool && cls < CLASS_COUNT ? pool_take(old->pool, cls) : NULL;
    if (warm) {
        memcpy(warm->data, old->data, old->size_bytes);
        warm->size_bytes = old->size_bytes;
        *buffer = warm;
        kn_buffer_give(old);
        return KN_OK;
    }
    size_t capacity = rounded_bytes(wanted);
    uint8_t *data = data_new(capacity);
    if (!data) return KN_ERR_NOMEM;
    memcpy(data, old->data, old->size_bytes);
    data_free(old->data, old->capacity_bytes);
    old->data = data;
    old->capacity_bytes = capacity;
    old->backed_bytes = old->size_bytes;
    return KN_OK;
}

int kn_buffer_append(struct kn_buffer **buffer, const void *data, size_t size_bytes)
{
    int status = kn_buffer_reserve(buffer, size_bytes);
    if (status != KN_OK) return status;
    if (size_bytes > 0) memcpy((*buffer)->data + (*buffer)->size_bytes, data, size_bytes);
    (*buffer)->size_bytes += size_bytes;
    return KN_OK;
}
