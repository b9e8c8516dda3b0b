/* Overwrites secrets in memory after use: passwords for a broker or a proxy.
 *
 * Thread: any; no state. */
#ifndef KN_BASE_WIPE_H
#define KN_BASE_WIPE_H

#include <stddef.h>
#include <string.h>

/* Writes zeros. The compiler can't remove the write, although nothing reads them. */
static inline void kn_wipe(void *bytes, size_t size)
{
    memset(bytes, 0, size);
    __asm__ __volatile__("" : : "r"(bytes) : "memory");
}

#endif
