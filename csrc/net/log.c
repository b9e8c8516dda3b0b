/* Log lines of broker threads: log.h. */
#include "net/log.h"

#include <stdarg.h>
#include <stdio.h>
#include "net/events.h"

#define LINES_MAX 2000 /* half a megabyte */

const char *kn_log_context_name(enum kn_log_context context)
{
    static const char *const names[KN_LOG_CONTEXT_COUNT] = {
        [KN_LOG_GENERIC] = "generic", [KN_LOG_BROKER] = "broker",
        [KN_LOG_TOPIC] = "topic",     [KN_LOG_METADATA] = "metadata",
        [KN_LOG_FEATURE] = "feature", [KN_LOG_QUEUE] = "queue",
        [KN_LOG_MSG] = "msg",         [KN_LOG_PROTOCOL] = "protocol",
        [KN_LOG_CGRP] = "cgrp",       [KN_LOG_SECURITY] = "security",
        [KN_LOG_FETCH] = "fetch",     [KN_LOG_INTERCEPTOR] = "interceptor",
        [KN_LOG_PLUGIN] = "plugin",   [KN_LOG_CONSUMER] = "consumer",
        [KN_LOG_ADMIN] = "admin",     [KN_LOG_EOS] = "eos",
        [KN_LOG_MOCK] = "mock",       [KN_LOG_ASSIGNOR] = "assignor",
        [KN_LOG_CONF] = "conf",       [KN_LOG_TELEMETRY] = "telemetry",
    };
    return names[context];
}

void kn_log_init(struct kn_log *log, uint32_t contexts, struct kn_control_queue *control,
                 int32_t engine)
{
    log->contexts = contexts;
    log->control = control;
    log->engine = engine;
}

void kn_log_write(struct kn_log *log, enum kn_log_context context, int32_t broker, int16_t api_key,
                  const char *format, ...)
{
    struct kn_event *event = NULL;
    if (atomic_fetch_add_explicit(&log->control->lines_queued, 1, memory_order_relaxed) < LINES_MAX)
        event = kn_event_new(NULL, KN_EVENT_LOG, broker);
    if (!event) {
        atomic_fetch_sub_explicit(&log->control->lines_queued, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&log->control->lines_dropped, 1, memory_order_relaxed);
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(event->text, sizeof event->text, format, arguments);
    va_end(arguments);
    event->status = (int)context;
    event->api_key = api_key;
    event->token = (uint64_t)kn_clock_us();
    event->engine = log->engine;
    kn_queue_push(&log->control->events, &event->node);
}

int64_t kn_log_take_dropped(struct kn_log *log)
{
    return atomic_exchange_explicit(&log->control->lines_dropped, 0, memory_order_relaxed);
}

void kn_log_line_taken(struct kn_log *log)
{
    atomic_fetch_sub_explicit(&log->control->lines_queued, 1, memory_order_relaxed);
}
