/* eventfd (Linux) or a pipe, with a flag that makes signals coalesce.
 *
 * Thread: any thread calls signal(), the sleeper calls clear(). Lock: none. Who frees: the owner
 * embeds it.
 *
 * How it works. signal(): the caller has stored its data before. If the flag goes from 0 to 1,
 * signal() writes; if it was 1, it doesn't. clear(): reads the descriptor, and then sets the flag
 * to 0 with an exchange; after that the sleeper checks for data.
 *
 * - A signal before the read: the descriptor is readable, and the sleeper sees the data.
 * - A signal between the read and the exchange: the flag is 1, so it doesn't write. The exchange
 *   comes later in the flag's order and acquires the signaller's stores, so the following check
 *   sees the data.
 * - A signal after the exchange: it writes, and the next poll returns at once.
 * - A signaller sets the flag and hasn't written yet while another thread clears without a poll
 *   before: the late write makes one poll return in vain, and that leads to another clear(). So
 *   clear() always reads, even if the flag is 0.
 *
 * The other order (flag first, then read) would lose a signal: a signal between the two writes, the
 * read removes the byte, and the flag stays 1 with an empty descriptor for ever. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#endif

#include "base/status.h"
#include "net/thread.h"

/* longer than a peer on the same machine needs to fill a socket, and little more than the CPU time
 * of a sleep and a wakeup */
#define BUSY_WAIT_US 20
#define BUSY_WAIT_PATIENCE 4    /* consecutive misses before a call is skipped */
#define BUSY_WAIT_MISSES_MAX 10 /* then 64 calls are skipped per try */

#ifndef __linux__
static int wake_pipe(int fds[2])
{
    if (pipe(fds)) return -1;
    for (int i = 0; i < 2; i++) {
        fcntl(fds[i], F_SETFD, FD_CLOEXEC);
        fcntl(fds[i], F_SETFL, O_NONBLOCK);
    }
    return 0;
}
#endif

int kn_wake_init(struct kn_wake *wake)
{
    atomic_init(&wake->signalled, 0);
#ifdef __linux__
    wake->read_fd = wake->write_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return wake->read_fd < 0 ? KN_ERR_NOMEM : KN_OK;
#else
    int fds[2];
    wake->read_fd = wake->write_fd = -1;
    if (wake_pipe(fds)) return KN_ERR_NOMEM;
    wake->read_fd = fds[0];
    wake->write_fd = fds[1];
    return KN_OK;
#endif
}

void kn_wake_deinit(struct kn_wake *wake)
{
    int read_fd = wake->read_fd, write_fd = wake->write_fd;
    /* before close(): a forked child closes the descriptors that it finds here, and after close()
     * the numbers may belong to other files */
    wake->read_fd = wake->write_fd = -1;
    if (write_fd >= 0 && write_fd != read_fd) close(write_fd);
    if (read_fd >= 0) close(read_fd);
}

void kn_wake_signal(struct kn_wake *wake)
{
    if (atomic_exchange_explicit(&wake->signalled, 1, memory_order_acq_rel)) return;
    uint64_t one = 1;
    /* EAGAIN means that the pipe is full and so readable: the sleeper wakes up anyway. */
    while (write(wake->write_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void kn_wake_clear(struct kn_wake *wake)
{
    uint64_t sink[8];
    ssize_t got;
    do {
        got = read(wake->read_fd, sink, sizeof sink);
    } while (got == (ssize_t)sizeof sink || (got < 0 && errno == EINTR));
    atomic_exchange_explicit(&wake->signalled, 0, memory_order_acq_rel);
}

int kn_wake_poll(struct pollfd *fds, int count, int64_t timeout_us)
{
#ifdef __linux__
    struct timespec limit = {.tv_sec = (time_t)(timeout_us / 1000000),
                             .tv_nsec = (long)(timeout_us % 1000000) * 1000};
    int ready = ppoll(fds, (nfds_t)count, timeout_us < 0 ? NULL : &limit, NULL);
#else
    int64_t timeout_ms = timeout_us < 0 ? -1 : (timeout_us + 999) / 1000;
    int ready = poll(fds, (nfds_t)count, timeout_ms > 0x7fffffff ? 0x7fffffff : (int)timeout_ms);
#endif
    return ready < 0 ? -errno : ready;
}

static int poll_yielding(struct pollfd *fds, int count, int64_t timeout_us)
{
    int64_t until_us = kn_clock_us() + timeout_us;
    int ready;
    do {
        sched_yield();
        ready = kn_wake_poll(fds, count, 0);
    } while (ready == 0 && kn_clock_us() < until_us);
    return ready;
}

int kn_wake_poll_busy(struct kn_busy_wait *busy_wait, struct pollfd *fds, int count,
                      int64_t timeout_us)
{
    if (timeout_us == 0) return 0;
    if (busy_wait->skips > 0) {
        busy_wait->skips--;
        return 0;
    }
    int ready = poll_yielding(
        fds, count, timeout_us > 0 && timeout_us < BUSY_WAIT_US ? timeout_us : BUSY_WAIT_US);
    if (ready) {
        busy_wait->misses = 0;
    } else {
        if (busy_wait->misses < BUSY_WAIT_MISSES_MAX) busy_wait->misses++;
        busy_wait->skips = (1 << busy_wait->misses) >> BUSY_WAIT_PATIENCE;
    }
    return ready;
}
