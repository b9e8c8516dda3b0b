/* Reads all counters for the snapshots: stats.h. */
#include "engine/stats.h"

#include "engine/engine.h"

static int64_t idle_us(_Atomic int64_t *last_us, int64_t now_us)
{
    int64_t at_us = kn_counted(last_us);
    return at_us == 0 ? -1 : now_us > at_us ? now_us - at_us : 0;
}

void kn_stats_broker(struct kn_broker *broker, int64_t now_us, int end,
                     struct kn_broker_snapshot *snapshot)
{
    struct kn_broker_windows *windows = broker->windows;
    if (!broker->connection) {
        *snapshot = (struct kn_broker_snapshot){.state = KN_BROKER_STOPPED};
        return;
    }
    struct kn_connection_stats *from = kn_connection_stats(broker->connection);
    *snapshot = (struct kn_broker_snapshot){
        .state = kn_broker_state_now(broker),
        .stateage = now_us - kn_counted(&broker->state_since_us),
        .outbuf_cnt = kn_counted(&from->queued),
        .outbuf_msg_cnt = kn_counted(&from->queued_messages),
        .waitresp_cnt = kn_counted(&from->waiting),
        .waitresp_msg_cnt = kn_counted(&from->waiting_messages),
        .tx = kn_counted(&from->tx),
        .txbytes = kn_counted(&from->tx_bytes),
        .txerrs = kn_counted(&from->tx_errors),
        .txretries = kn_counted(&broker->retries),
        .txidle = idle_us(&from->last_tx_us, now_us),
        .req_timeouts = kn_counted(&from->timeouts) + kn_counted(&broker->unsent_timeouts),
        .rx = kn_counted(&from->rx),
        .rxbytes = kn_counted(&from->rx_bytes),
        .rxerrs = kn_counted(&from->rx_errors),
        .rxcorriderrs = kn_counted(&from->rx_unmatched),
        .rxpartial = kn_counted(&broker->partial_batches),
        .rxidle = idle_us(&from->last_rx_us, now_us),
        .wakeups = kn_counted(&broker->wakeups),
        .connects = kn_counted(&broker->connects),
        .disconnects = kn_counted(&broker->disconnects),
    };
    if (snapshot->stateage < 0) snapshot->stateage = 0;
    for (int i = 0; i < KN_STATS_APIS; i++) snapshot->requests[i] = kn_counted(&from->requests[i]);
    if (!windows) return;
    kn_histogram_window(&windows->int_latency, end, &snapshot->int_latency);
    kn_histogram_window(&windows->outbuf_latency, end, &snapshot->outbuf_latency);
    kn_histogram_window(&windows->rtt, end, &snapshot->rtt);
    kn_histogram_window(&windows->throttle, end, &snapshot->throttle);
}

void kn_stats_topic(struct kn_topic *topic, int64_t now_us, int end,
                    struct kn_topic_snapshot *snapshot)
{
    *snapshot = (struct kn_topic_snapshot){.age = (now_us - topic->created_us) / 1000,
                                           .partition_count = kn_topic_partition_count(topic)};
    if (!topic->windows) return;
    kn_histogram_window(&topic->windows->batchsize, end, &snapshot->batchsize);
    kn_histogram_window(&topic->windows->batchcnt, end, &snapshot->batchcnt);
}

static void read_accumulator(struct kn_accumulator *accumulator,
                             struct kn_partition_snapshot *snapshot)
{
    *snapshot = (struct kn_partition_snapshot){0};
    kn_mutex_lock(&accumulator->lock);
    const struct kn_batch *open = accumulator->open;
    const struct kn_sequence *sequence = &accumulator->sequence;
    for (const struct kn_list *node = accumulator->waiting.next; node != &accumulator->waiting;
         node = node->next) {
        const struct kn_batch *batch = KN_LIST_ENTRY(node, const struct kn_batch, node);
        snapshot->xmit_msgq_cnt += batch->writer.record_count;
        snapshot->xmit_msgq_bytes += batch->budget_bytes;
    }
    if (open) {
        snapshot->msgq_cnt = open->writer.record_count;
        snapshot->msgq_bytes = open->budget_bytes;
    }
    snapshot->txmsgs = accumulator->delivered_messages;
    snapshot->txbytes = accumulator->delivered_bytes;
    snapshot->msgs = accumulator->closed_messages + snapshot->msgq_cnt;
    snapshot->msgs_inflight = accumulator->in_flight_messages;
    snapshot->next_seq = kn_list_empty(&sequence->unsettled)
                             ? sequence->next
                             : KN_LIST_ENTRY(sequence->unsettled.next, const struct kn_batch,
                                             sequence_node)
                                   ->base_sequence;
    kn_mutex_unlock(&accumulator->lock);
}

void kn_stats_partition(struct kn_topic *topic, int32_t partition,
                        struct kn_partition_snapshot *snapshot)
{
    /* the control thread's own field: the newest table, also while records are staged again */
    struct kn_partition_table *table = topic->tables;
    if (partition == KN_STAGING) read_accumulator(&topic->staging, snapshot);
    else if (table && partition >= 0 && partition < table->count)
        read_accumulator(table->partitions[partition], snapshot);
    else *snapshot = (struct kn_partition_snapshot){0};
}

void kn_stats_cursor(struct kn_cursor *cursor, struct kn_cursor_snapshot *snapshot)
{
    *snapshot = (struct kn_cursor_snapshot){
        .fetchq_cnt = kn_counted(&cursor->queued_messages),
        .fetchq_size = kn_counted(&cursor->queued_bytes),
        .next_offset = kn_counted(&cursor->fetch_offset),
        .eof_offset = kn_counted(&cursor->eof_offset),
        .lo_offset = kn_counted(&cursor->log_start_offset),
        .hi_offset = kn_counted(&cursor->high_watermark),
        .ls_offset = kn_counted(&cursor->last_stable_offset),
        .rxmsgs = kn_counted(&cursor->received_messages),
        .rxbytes = kn_counted(&cursor->received_bytes),
        .rx_ver_drops = kn_counted(&cursor->dropped_messages),
    };
}

void kn_stats_means(struct kn_broker *broker, struct kn_mean_snapshot snapshots[KN_MEAN_KINDS])
{
    for (int i = 0; i < KN_MEAN_KINDS; i++) {
        struct kn_mean *from = &broker->means.kinds[i];
        int64_t max = atomic_exchange_explicit(&from->max, 0, memory_order_relaxed);
        snapshots[i] = (struct kn_mean_snapshot){
            .count = kn_counted(&from->count), .sum = kn_counted(&from->sum), .max = max};
    }
}

static void add_topic(struct kn_topic *topic, struct kn_client_snapshot *snapshot)
{
    for (int32_t i = 0; topic->largest && i < topic->largest->count; i++) {
        struct kn_accumulator *accumulator = topic->largest->partitions[i];
        kn_mutex_lock(&accumulator->lock);
        snapshot->txmsgs += accumulator->delivered_messages;
        snapshot->txmsg_bytes += accumulator->delivered_bytes;
        kn_mutex_unlock(&accumulator->lock);
    }
}

void kn_stats_client(struct kn_engine *engine, struct kn_client_snapshot *snapshot)
{
    struct kn_broker *broker;
    struct kn_traffic traffic = engine->departed;
    for (int32_t i = 0; (broker = kn_engine_broker(engine, i)); i++)
        if (broker->connection) kn_connection_add_traffic(broker->connection, &traffic);
    *snapshot = (struct kn_client_snapshot){
        .replyq = kn_queue_count(&engine->deliveries) + kn_queue_count(&engine->fetched),
        .msg_cnt = atomic_load_explicit(&engine->producer.budget.messages, memory_order_relaxed),
        .msg_size = atomic_load_explicit(&engine->producer.budget.bytes, memory_order_relaxed),
        .msg_max = engine->producer.budget.messages_max,
        .msg_size_max = engine->producer.budget.bytes_max,
        .rxmsgs = kn_counted(&engine->consumer.received_messages),
        .rxmsg_bytes = kn_counted(&engine->consumer.received_bytes),
        .tx = traffic.tx,
        .tx_bytes = traffic.tx_bytes,
        .rx = traffic.rx,
        .rx_bytes = traffic.rx_bytes,
    };
    for (struct kn_topic *topic = kn_producer_topic_next(&engine->producer, NULL); topic;
         topic = kn_producer_topic_next(&engine->producer, topic))
        add_topic(topic, snapshot);
}
