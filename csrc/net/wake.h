/* Wakes a thread that waits in poll(2): an eventfd, or a pipe on systems without eventfd.
 *
 * Thread: any thread calls signal(), without a lock; the waiting thread calls clear(). Only the
 * first signal after a clear makes a system call. */
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
/* Call after poll(2) reported read_fd as readable, and before you check the state that the signal
 * announced. Then the next poll sees a later signal. */
void kn_wake_clear(struct kn_wake *wake);

/* poll(2) with a timeout in microseconds (< 0: no limit). It rounds the timeout up: a thread that
 * woke up early would spin. Returns poll's result, or -errno. */
int kn_wake_poll(struct pollfd *fds, int count, int64_t timeout_us);
/* Busy waiting for bytes that should arrive immediately: the rest of a response. A fast peer refills
 * the socket at once, and each refill would wake the sleeping thread. The kernel keeps two threads
 * that alternate on one core. It moves a thread that yields instead of sleeping to an idle core. If
 * the rest arrives slowly, tries become rarer. All zero: no try yet. */
struct kn_busy_wait {
    int32_t misses; /* consecutive tries in which no bytes came */
    int32_t skips;  /* this many calls return at once before the next try */
};

/* Polls repeatedly for a short time (less than timeout_us, unless that is < 0) and yields to other
 * threads in between. 0: no bytes came, or no try was due, so sleep. Otherwise the result of
 * kn_wake_poll(). */
int kn_wake_poll_busy(struct kn_busy_wait *busy_wait, struct pollfd *fds, int count,
                      int64_t timeout_us);

#endif
