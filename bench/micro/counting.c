/* Counts the instructions between start() and stop(), when the process runs under callgrind. */
#include <valgrind/callgrind.h>

void start(void);
void stop(const char *name);

void start(void) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

void stop(const char *name) {
    CALLGRIND_DUMP_STATS_AT(name);
    CALLGRIND_STOP_INSTRUMENTATION;
}
