/* Copies on the heap.
 *
 * Thread: any; no state. Who frees: the caller, with free(). */
#ifndef KN_BASE_COPY_H
#define KN_BASE_COPY_H

#include <stdlib.h>
#include <string.h>

/* Returns a copy, also of no bytes. NULL: there is not enough memory. */
static inline void *kn_copy_of(const void *from, size_t size_bytes)
{
    void *copy = malloc(size_bytes ? size_bytes : 1);
    if (copy && size_bytes) memcpy(copy, from, size_bytes);
    return copy;
}

#endif
