/* Memory aligned to a cache line: for structs that exist in thousands, and of which each message
 * uses one.
 *
 * Thread: any. Who frees: the caller, with free(). */
#ifndef KN_BASE_LINE_H
#define KN_BASE_LINE_H

#include <stdlib.h>
#include <string.h>

#define KN_LINE_BYTES 64

/* Returns zeroed memory; NULL: no memory. */
static inline void *kn_line_new(size_t size_bytes)
{
    void *memory;
    if (posix_memalign(&memory, KN_LINE_BYTES, size_bytes)) return NULL;
    return memset(memory, 0, size_bytes);
}

#endif
