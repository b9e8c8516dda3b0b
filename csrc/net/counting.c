/* Windows of latencies and sizes, and means: counting.h. */
#include "net/counting.h"

#include <stdlib.h>

#define API_PRODUCE 0
#define API_FETCH 1

struct kn_broker_windows *kn_broker_windows_new(void)
{
    struct kn_broker_windows *windows = malloc(sizeof *windows);
    if (!windows) return NULL;
    kn_histogram_init(&windows->int_latency);
    kn_histogram_init(&windows->outbuf_latency);
    kn_histogram_init(&windows->rtt);
    kn_histogram_init(&windows->throttle);
    return windows;
}

/* --- recording --- */

void kn_count_response(struct kn_broker_windows *windows, struct kn_means *means, int16_t api_key,
                       int64_t rtt_us)
{
    enum kn_mean_kind kind = api_key == API_PRODUCE ? KN_MEAN_PRODUCE
                             : api_key == API_FETCH ? KN_MEAN_FETCH
                                                    : KN_MEAN_OTHER;
    if (windows) kn_histogram_record(&windows->rtt, rtt_us, 1);
    if (kn_means_on(means)) kn_mean_record(&means->kinds[kind], rtt_us);
}

void kn_count_throttle(struct kn_broker_windows *windows, int64_t throttle_ms)
{
    if (windows) kn_histogram_record(&windows->throttle, throttle_ms, 1);
}
