/* Wakes a thread that sleeps in poll(2): an eventfd, or a pipe where there is none.
 *
 * Thread: signal() from any thread, no lock; clear() by the sleeper. Signals coalesce: only the
 * first after a clear makes a syscall.
 */
#ifndef KN_NET_WAKE_H
#define KN_NET_WAKE_H

#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>

struct kn_wake {
    int read_fd;
    int write_fd;
    atomic_int signalled;
};

int kn_wake_init(struct kn_wake *wake);
void kn_wake_deinit(struct kn_wake *wake);
void kn_wake_signal(struct kn_wake *wake);
/* Call when poll(2) said that read_fd is readable, and before looking at what the signal announced,
 * so that a signal that comes later is seen by the next poll. */
void kn_wake_clear(struct kn_wake *wake);

/* poll(2) with a timeout in microseconds (< 0: no limit), never shorter than asked by rounding: a
 * sleeper that woke up early would spin. Returns poll's result, or -errno. */
int kn_wake_poll(struct pollfd *fds, int count, int64_t timeout_us);
/* Staying awake for what should be here at once, the rest of a response. A fast peer fills the
 * socket again in no time, and wakes us for it: two threads that sleep for each other in turns are
 * kept on one core by the kernel, whereas one that yields instead of sleeping is moved to a core
 * that has nothing to do. Where the rest comes slowly, fewer and fewer tries are made. All zero:
 * none made yet. */
struct kn_busy_wait {
    int32_t misses; /* tries in a row in which nothing came */
    int32_t skips;  /* so many calls return at once before the next try */
};

/* For a moment (less than timeout_us, unless that is < 0) looks again and again, and lets other
 * threads run in between. 0: nothing came, or no try was due: sleep; otherwise as kn_wake_poll().
 */
int kn_wake_poll_busy(struct kn_busy_wait *busy_wait, struct pollfd *fds, int count,
                      int64_t timeout_us);

#endif
