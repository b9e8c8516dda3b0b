/* Threads, mutexes and clocks.
 *
 * Locks don't nest: every mutex is a leaf, but for the one documented exception (a topic's lock is
 * held while its accumulators are filled from staging). Debug builds (KN_DEBUG) assert this per
 * thread by rank: a lock may only be taken while holding locks of a lower rank.
 */
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
/* a longer wait has no end: also for kafka_native/deadlines.py */
#define KN_FOR_EVER_S (365 * 86400)

int64_t kn_clock_us(void); /* monotonic */
/* when the time is over; KN_NEVER: it is negative, longer than KN_FOR_EVER_S, or no number */
int64_t kn_deadline_us(double timeout_s);
/* Unix time, up to a fifteenth of a millisecond old: for every message */
int64_t kn_wall_ms(void);
/* Uniform in [0, bound), bound > 0; seeded per thread from the clock and the thread's address. For
 * jitter, not for secrets. */
uint32_t kn_random_below(uint32_t bound);
void kn_thread_name(const char *name); /* names the calling thread, cut to what the system takes */
/* The system's phrase for an errno; safe in any thread. The result may or may not be `buffer`. */
const char *kn_errno_text(int error, char *buffer, size_t size_bytes);

#endif
