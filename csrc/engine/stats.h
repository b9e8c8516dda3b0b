/* Snapshots of the engine's statistics, for the control plane (statistics.interval.ms, metrics()).
 *
 * Thread: the control thread only (it ends the histograms' windows). It never waits for a broker
 * thread; it takes the leaf locks of accumulators one at a time.
 * Who frees: the caller owns the snapshots.
 * counting.h describes how the engine counts. */
#ifndef KN_ENGINE_STATS_H
#define KN_ENGINE_STATS_H

#include <stdint.h>
#include "net/counting.h"

struct kn_accumulator;
struct kn_broker;
struct kn_cursor;
struct kn_engine;
struct kn_topic;

/* --- snapshots: control thread. `end`: ends the windows; without statistics they are empty. --- */

struct kn_broker_snapshot {
    int64_t state;    /* enum kn_broker_state */
    int64_t stateage; /* microseconds, like all times here */
    int64_t outbuf_cnt, outbuf_msg_cnt, waitresp_cnt, waitresp_msg_cnt;
    int64_t tx, txbytes, txerrs, txretries, txidle, req_timeouts;
    int64_t rx, rxbytes, rxerrs, rxcorriderrs, rxpartial, rxidle;
    int64_t wakeups, connects, disconnects;
    struct kn_window int_latency, outbuf_latency, rtt, throttle;
    int64_t requests[KN_STATS_APIS];
};

struct kn_topic_snapshot {
    int64_t age; /* milliseconds */
    int64_t partition_count;
    struct kn_window batchsize, batchcnt;
};

struct kn_partition_snapshot {
    /* of a partition that is produced to; KN_STAGING: the messages that wait for partitions */
    int64_t msgq_cnt, msgq_bytes, xmit_msgq_cnt, xmit_msgq_bytes;
    int64_t txmsgs, txbytes, msgs, msgs_inflight;
    /* of the oldest batch without an outcome; if there is none, of the next batch */
    int64_t next_seq;
};

struct kn_cursor_snapshot {
    int64_t fetchq_cnt, fetchq_size, next_offset, eof_offset, lo_offset, hi_offset, ls_offset;
    int64_t rxmsgs, rxbytes, rx_ver_drops;
};

struct kn_mean_snapshot {
    /* count and sum only rise; max covers the time since the previous snapshot */
    int64_t count, sum, max;
};

struct kn_client_snapshot { /* sums since the client began */
    int64_t replyq, msg_cnt, msg_size, msg_max, msg_size_max;
    int64_t tx, tx_bytes, rx, rx_bytes, txmsgs, txmsg_bytes, rxmsgs, rxmsg_bytes;
};

void kn_stats_broker(struct kn_broker *broker, int64_t now_us, int end,
                     struct kn_broker_snapshot *snapshot);
void kn_stats_topic(struct kn_topic *topic, int64_t now_us, int end,
                    struct kn_topic_snapshot *snapshot);
/* `partition`: 0 to the topic's count - 1, or KN_STAGING. */
void kn_stats_partition(struct kn_topic *topic, int32_t partition,
                        struct kn_partition_snapshot *snapshot);
void kn_stats_cursor(struct kn_cursor *cursor, struct kn_cursor_snapshot *snapshot);
/* The means of a broker, in the order of enum kn_mean_kind. */
void kn_stats_means(struct kn_broker *broker, struct kn_mean_snapshot snapshots[KN_MEAN_KINDS]);
void kn_stats_client(struct kn_engine *engine, struct kn_client_snapshot *snapshot);
#endif
