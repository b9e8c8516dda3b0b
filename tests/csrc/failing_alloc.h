/* One allocation of the sources that a test includes after this header fails. Include the libraries'
 * headers before it, and undefine the three names after the sources. */
#ifndef KN_TEST_FAILING_ALLOC_H
#define KN_TEST_FAILING_ALLOC_H

#include <stdlib.h>

static long allocations_left = -1; /* allocations before the one that fails; -1: none fails */
static int failed;

static int fails(void)
{
    if (allocations_left < 0) return 0;
    if (allocations_left-- > 0) return 0;
    failed = 1;
    allocations_left = -1;
    return 1;
}

#define KN_MAYBE_UNUSED __attribute__((unused)) /* not all sources call all three */

KN_MAYBE_UNUSED static void *test_malloc(size_t size) { return fails() ? NULL : malloc(size); }
KN_MAYBE_UNUSED static void *test_calloc(size_t count, size_t size)
{
    return fails() ? NULL : calloc(count, size);
}
KN_MAYBE_UNUSED static void *test_realloc(void *memory, size_t size)
{
    return fails() ? NULL : realloc(memory, size);
}

#define malloc test_malloc
#define calloc test_calloc
#define realloc test_realloc

#endif
