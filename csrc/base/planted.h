/* Planted bugs: mistakes that a test build makes on purpose, so that we see the checkers of long
 * runs catch them (tests/broker/test_planted.py). Only a build with KN_PLANT=1 contains them. The
 * environment variable KN_PLANTED names the one to make. Thread: any. */
#ifndef KN_BASE_PLANTED_H
#define KN_BASE_PLANTED_H

#ifdef KN_PLANT
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool kn_planted(const char *bug)
{
    const char *chosen = getenv("KN_PLANTED");
    return chosen && strcmp(chosen, bug) == 0;
}
#else
#define kn_planted(bug) 0
#endif

#endif
