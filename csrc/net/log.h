/* Log lines of broker threads (property `debug`). They go into the control queue, and the control
 * thread passes them to the logger. Engines that share the queue share its limit of lines.
 *
 * Thread: kn_log_write() from any thread. It never waits: if LINES_MAX lines wait in the queue, it
 * drops the line and counts it. The control thread calls the other functions.
 * Lock: none of its own. Who frees: the engine embeds it; lines are events. */
#ifndef KN_NET_LOG_H
#define KN_NET_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "net/control_queue.h"

/* The contexts of the property `debug`. */
enum kn_log_context {
    KN_LOG_GENERIC,
    KN_LOG_BROKER,
    KN_LOG_TOPIC,
    KN_LOG_METADATA,
    KN_LOG_FEATURE,
    KN_LOG_QUEUE,
    KN_LOG_MSG,
    KN_LOG_PROTOCOL,
    KN_LOG_CGRP,
    KN_LOG_SECURITY,
    KN_LOG_FETCH,
    KN_LOG_INTERCEPTOR,
    KN_LOG_PLUGIN,
    KN_LOG_CONSUMER,
    KN_LOG_ADMIN,
    KN_LOG_EOS,
    KN_LOG_MOCK,
    KN_LOG_ASSIGNOR,
    KN_LOG_CONF,
    KN_LOG_TELEMETRY
};
#define KN_LOG_CONTEXT_COUNT (KN_LOG_TELEMETRY + 1)

/* The value of `debug` for a context. The text is static. */
const char *kn_log_context_name(enum kn_log_context context);

struct kn_log {
    /* immutable */
    uint32_t contexts; /* a bit for each enabled context: 1 << enum kn_log_context */
    struct kn_control_queue *control;
    int32_t engine; /* the number in the lines' events */
};

void kn_log_init(struct kn_log *log, uint32_t contexts, struct kn_control_queue *control,
                 int32_t engine);
/* The only cost of a line while its context is off. `log` may be NULL. */
static inline bool kn_log_is_on(const struct kn_log *log, enum kn_log_context context)
{
    return log && (log->contexts >> context & 1u);
}
/* Call only after kn_log_is_on(). `api_key` -1: the line isn't about a request; else the API's name
 * is put in front. Don't log keys, values or secrets. */
void kn_log_write(struct kn_log *log, enum kn_log_context context, int32_t broker, int16_t api_key,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));
void kn_log_line_taken(struct kn_log *log); /* the control thread took a line off the queue */
/* returns how many lines were dropped since the last call */
int64_t kn_log_take_dropped(struct kn_log *log);

#endif
