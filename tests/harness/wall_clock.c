/* Preloaded into a program with a client: its wall clock jumps, its monotonic clock doesn't.
 *
 * The file of KN_WALL_CLOCK has one 64-bit number: the seconds that are added to the time of day.
 * The test changes it while the program runs, as an operator or NTP sets a clock.
 *
 * Thread: any. Lock: none.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset_s;

__attribute__((constructor)) static void map(void)
{
    const char *path = getenv("KN_WALL_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) offset_s = found;
}

static int64_t jumped_s(void) { return offset_s ? *offset_s : 0; }

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += jumped_s();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int result = (int)syscall(SYS_gettimeofday, now, zone);
    if (result == 0 && now) now->tv_sec += jumped_s();
    return result;
}

time_t time(time_t *now)
{
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now) *now = found.tv_sec;
    return found.tv_sec;
}
