/* Threads, mutexes and clocks.
 *
 * Locks don't nest: every mutex is a leaf, with one exception: the control thread holds a topic's
 * lock while it moves staged records to accumulators. Debug builds (KN_DEBUG) check this per thread
 * by rank: a thread may take a lock only while it holds locks of lower ranks. */
#ifndef KN_NET_THREAD_H
#define KN_NET_THREAD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum kn_rank { KN_RANK_TOPIC = 1, KN_RANK_LEAF = 2 };

struct kn_mutex {
    pthread_mutex_t mutex;
#ifdef KN_DEBUG
    int rank;
#endif
};

void kn_mutex_init(struct kn_mutex *mutex, enum kn_rank rank);
void kn_mutex_deinit(struct kn_mutex *mutex);
#ifdef KN_DEBUG
void kn_mutex_lock(struct kn_mutex *mutex);
void kn_mutex_unlock(struct kn_mutex *mutex);
#else
static inline void kn_mutex_lock(struct kn_mutex *mutex) { pthread_mutex_lock(&mutex->mutex); }
static inline void kn_mutex_unlock(struct kn_mutex *mutex) { pthread_mutex_unlock(&mutex->mutex); }
#endif

#define KN_NEVER INT64_MAX /* a time that never comes, in microseconds */
/* a longer wait has no limit: kafka_native/deadlines.py uses it, too */
#define KN_FOR_EVER_S (365 * 86400)

int64_t kn_clock_us(void); /* monotonic */
/* the end of the time; KN_NEVER: timeout_s is negative, longer than KN_FOR_EVER_S, or NaN */
int64_t kn_deadline_us(double timeout_s);
/* Unix time, at most 1/15 ms old: cheap enough for every message */
int64_t kn_wall_ms(void);
/* Uniform in [0, bound), bound > 0. Each thread is seeded from the clock and its own address. For
 * jitter, not for secrets. */
uint32_t kn_random_below(uint32_t bound);
/* names the calling thread; the system may limit the length */
void kn_thread_name(const char *name);
/* Returns the system's text for an errno; safe in any thread. The result isn't always `buffer`. */
const char *kn_errno_text(int error, char *buffer, size_t size_bytes);

#endif
