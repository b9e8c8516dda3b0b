/* Rows and their offsets, stored as runs in which both rise by one.
 *
 * Thread: any, one at a time. Who frees: the owner, with kn_runs_deinit(). */
#ifndef KN_BASE_RUNS_H
#define KN_BASE_RUNS_H

#include <stdint.h>
#include <stdlib.h>
#include "base/status.h"

#define KN_RUNS_FIRST 8

struct kn_run {
    int64_t row;
    int64_t offset;
    int64_t length;
};

struct kn_runs { /* all zero: empty */
    struct kn_run *runs;
    int64_t count, capacity;
};

/* Makes room for `count` more runs, so that as many calls of kn_runs_add() can't fail. KN_OK or
 * KN_ERR_NOMEM. */
static inline int kn_runs_reserve(struct kn_runs *runs, int64_t count)
{
    int64_t capacity = runs->capacity ? runs->capacity : KN_RUNS_FIRST;
    while (capacity < runs->count + count) capacity *= 2;
    if (capacity == runs->capacity) return KN_OK;
    struct kn_run *larger = realloc(runs->runs, (size_t)capacity * sizeof *larger);
    if (!larger) return KN_ERR_NOMEM;
    runs->runs = larger;
    runs->capacity = capacity;
    return KN_OK;
}

/* Adds rows behind the present ones. KN_ERR_NOMEM: they aren't added. */
static inline int kn_runs_add(struct kn_runs *runs, int64_t row, int64_t offset, int64_t length)
{
    struct kn_run *last = runs->count ? &runs->runs[runs->count - 1] : NULL;
    if (last && last->row + last->length == row && last->offset + last->length == offset) {
        last->length += length;
        return KN_OK;
    }
    if (kn_runs_reserve(runs, 1) != KN_OK) return KN_ERR_NOMEM;
    runs->runs[runs->count++] = (struct kn_run){row, offset, length};
    return KN_OK;
}

static inline void kn_runs_deinit(struct kn_runs *runs)
{
    free(runs->runs);
    *runs = (struct kn_runs){0};
}

#endif
