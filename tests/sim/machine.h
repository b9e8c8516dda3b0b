/* What the machine's scheduler (machine.c) and its network (network.c) share. */
#ifndef SIMULATED_MACHINE_H
#define SIMULATED_MACHINE_H
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NEVER INT64_MAX
#define SHOWN __attribute__((visibility("default")))

enum { FDS_MAX = 4096 }; /* of the process */

struct task { /* a thread */
    bool used, done, is_detached, blocked, woken;
    bool can_stop; /* it waits, and no other group waits for it */
    int group, lock_count;
    int kernel_id;
    const void *key; /* a lock, condition, semaphore or task: who uses it wakes the task */
    int64_t deadline_us;
    struct pollfd *fds; /* one that is ready wakes the task, too */
    nfds_t fd_count;
    uint64_t looked_at; /* `changes` when the descriptors were looked at */
    bool fd_is_ready;
    int turn; /* futex */
    pthread_t thread;
    void *(*start)(void *);
    void *argument, *result;
};

extern _Thread_local struct task *self;
extern int64_t now_us;
extern uint64_t changes; /* counts what can change the state of a descriptor */
extern int (*real_close)(int);

void find_functions(void);
void give_up(const char *reason);
int64_t below(int64_t bound); /* the seed's choice: 0 to bound - 1 */
void mix(uint64_t value);     /* into the digest */

void preempt(void);
void preempt_outside(void);
int poll_now(struct pollfd *fds, nfds_t count);
int wait_for_fds(struct pollfd *fds, nfds_t count, int64_t deadline_us);
bool fails(void);
bool fails_with(const int *errors, int count);

void network_take(void);    /* takes what programs have sent */
void network_deliver(void); /* delivers what is due */
int64_t network_next(void); /* the time of the next delivery */
void network_end_group(int group, bool silently);

#endif
