/* A reserve gives its pieces when there is no memory: as many as it has, and again after they were
 * given back.
 *
 * The program has its own calloc (over glibc's), which fails when a test wants it. The sanitizers
 * have their own, too: see test_engine_nomem.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "check.h"
#include "net/reserve.h"

#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

int main(void)
{
    CHECK(1);
    puts("not run: the allocator can't be replaced under a sanitizer or without glibc");
    return check_done();
}

#else

#define PIECE_BYTES 100
#define COUNT 3

extern void *__libc_calloc(size_t count, size_t size_bytes);
extern void *__libc_malloc(size_t size_bytes);

static int out_of_memory;
static long mallocs_left = -1; /* calls before malloc() fails; < 0: it doesn't fail */

void *calloc(size_t count, size_t size_bytes)
{
    return out_of_memory ? NULL : __libc_calloc(count, size_bytes);
}
void *malloc(size_t size_bytes)
{
    return mallocs_left >= 0 && mallocs_left-- == 0 ? NULL : __libc_malloc(size_bytes);
}

static int is_zero(const unsigned char *piece)
{
    for (int i = 0; i < PIECE_BYTES; i++)
        if (piece[i]) return 0;
    return 1;
}

static void test_pieces_are_there_without_memory(void)
{
    struct kn_reserve reserve;
    void *pieces[COUNT + 1];
    CHECK_EQ(kn_reserve_init(&reserve, PIECE_BYTES, COUNT), KN_OK);
    for (int round = 0; round < 3; round++) {
        out_of_memory = 1;
        for (int i = 0; i < COUNT; i++) {
            CHECK((pieces[i] = kn_reserve_take(&reserve)));
            CHECK(is_zero(pieces[i]));
            /* as its user would; the next user must not see it */
            memset(pieces[i], 0xff, PIECE_BYTES);
        }
        CHECK(!kn_reserve_take(&reserve));
        out_of_memory = 0;
        CHECK((pieces[COUNT] = kn_reserve_take(&reserve))); /* this one is from malloc() */
        /* one of them is too many and is freed */
        for (int i = COUNT; i >= 0; i--) kn_reserve_give(&reserve, pieces[i]);
    }
    kn_reserve_deinit(&reserve);
}

static void test_a_failed_init_of_a_reserve_leaves_nothing(void)
{
    struct kn_reserve reserve;
    for (int nth = 0; nth < COUNT; nth++) {
        mallocs_left = nth;
        CHECK_EQ(kn_reserve_init(&reserve, PIECE_BYTES, COUNT), KN_ERR_NOMEM);
    }
    mallocs_left = -1;
}

int main(void)
{
    RUN(test_pieces_are_there_without_memory);
    RUN(test_a_failed_init_of_a_reserve_leaves_nothing);
    return check_done();
}

#endif
