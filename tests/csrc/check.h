/* Checks for C tests. A failed check prints its place. The program counts its checks, and fails if
 * there were none.
 *
 *     static void test_empty_span_has_nothing_left(void) { CHECK_EQ(kn_span_left(&span), 0); }
 *     int main(void) { RUN(test_empty_span_has_nothing_left); return check_done(); } */
#ifndef KN_TESTS_CHECK_H
#define KN_TESTS_CHECK_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_long check_count; /* atomic, because threads of a test may check, too */

/* The same random numbers in every run (xorshift); for one thread. */
static inline uint64_t check_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        atomic_fetch_add(&check_count, 1);                                                         \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #condition);  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define CHECK_EQ(left, right)                                                                      \
    do {                                                                                           \
        long long check_left = (long long)(left), check_right = (long long)(right);                \
        atomic_fetch_add(&check_count, 1);                                                         \
        if (check_left != check_right) {                                                           \
            fprintf(stderr, "%s:%d: %s: %s is %lld, %s is %lld\n", __FILE__, __LINE__, __func__,   \
                    #left, check_left, #right, check_right);                                       \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define CHECK_MEM(left, right, size)                                                               \
    do {                                                                                           \
        atomic_fetch_add(&check_count, 1);                                                         \
        if (memcmp((left), (right), (size)) != 0) {                                                \
            fprintf(stderr, "%s:%d: %s: %s differs from %s\n", __FILE__, __LINE__, __func__,       \
                    #left, #right);                                                                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define CHECK_STR(left, right)                                                                     \
    do {                                                                                           \
        const char *check_left = (left), *check_right = (right);                                   \
        atomic_fetch_add(&check_count, 1);                                                         \
        if (strcmp(check_left, check_right) != 0) {                                                \
            fprintf(stderr, "%s:%d: %s: \"%s\" is not \"%s\"\n", __FILE__, __LINE__, __func__,     \
                    check_left, check_right);                                                      \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define RUN(test)                                                                                  \
    do {                                                                                           \
        long check_before = atomic_load(&check_count);                                             \
        test();                                                                                    \
        if (atomic_load(&check_count) == check_before) {                                           \
            fprintf(stderr, "%s checked nothing\n", #test);                                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static inline int check_done(void)
{
    printf("%ld checks\n", atomic_load(&check_count));
    return atomic_load(&check_count) > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
