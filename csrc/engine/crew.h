/* Threads that help with what takes long and waits for nobody: compression. A broker's thread that has several pieces of such work runs them here, takes
 * part itself, and goes on when all are done.
 *
 * Thread: kn_crew_run() from any broker's thread, several at once; the workers start when there is first something for them. Lock: `lock` (leaf), held to
 * hand out work only. Who frees: the engine embeds it; a job lives on the stack of who runs it.
 */
#ifndef KN_ENGINE_CREW_H
#define KN_ENGINE_CREW_H

#include <stdint.h>
#include "base/list.h"
#include "engine/thread.h"

#define KN_CREW_MAX 4

struct kn_crew {
    int size;                        /* immutable: workers at most; 0 (also when all is zero): who runs does everything itself */
    struct kn_mutex lock;
    pthread_cond_t wanted;           /* for workers: a job is there, or it is time to end */
    pthread_cond_t finished;         /* for who runs: the last piece of some job is done */
    struct kn_list jobs;             /* under lock: with pieces that nobody has begun */
    int started;                     /* under lock */
    int stopping;                    /* under lock */
    pthread_t threads[KN_CREW_MAX];
};

/* As many workers as there are processors besides the caller's, at most KN_CREW_MAX. */
int kn_crew_useful_size(void);
void kn_crew_init(struct kn_crew *crew, int size);
void kn_crew_stop(struct kn_crew *crew); /* nothing is running: ends and joins the workers */
void kn_crew_deinit(struct kn_crew *crew); /* stopped */
/* Calls work(context, index) for each index from 0 to count - 1, in any order and on several threads; returns when all have returned. */
void kn_crew_run(struct kn_crew *crew, void (*work)(void *context, int32_t index), void *context, int32_t count);

#endif
