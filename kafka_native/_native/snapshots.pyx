# cython: freethreading_compatible=True
"""The engine's statistics as dicts, for `kafka_native.control.statistics`.

csrc/engine/stats.h has the names. With ``end`` the windows of latencies and sizes end, and the next
ones begin. Thread: the control thread; any other one does no harm, because a call has its own
snapshot, and the engine guards what it counts.
"""
from libc.stdint cimport int32_t, int64_t

from kafka_native._native.engine cimport Cursor, Engine, EngineHandle, Topic
from kafka_native._native.kn_engine cimport kn_broker, kn_clock_us, kn_cursor, kn_engine, kn_engine_broker, kn_queue_idle_us, kn_topic


cdef extern from "base/histogram.h" nogil:
    struct kn_window:
        int64_t min, max, avg, sum, stddev, p50, p75, p90, p95, p99, p99_99, outofrange, hdrsize, cnt

cdef extern from "net/counting.h" nogil:
    enum:
        KN_STATS_APIS
        KN_MEAN_KINDS
    struct kn_broker_windows:
        pass
    void kn_count_throttle(kn_broker_windows *windows, int64_t throttle_ms)

cdef extern from "engine/stats.h" nogil:
    struct kn_broker_snapshot:
        int64_t state, stateage, outbuf_cnt, outbuf_msg_cnt, waitresp_cnt, waitresp_msg_cnt
        int64_t tx, txbytes, txerrs, txretries, txidle, req_timeouts
        int64_t rx, rxbytes, rxerrs, rxcorriderrs, rxpartial, rxidle
        int64_t wakeups, connects, disconnects
        kn_window int_latency, outbuf_latency, rtt, throttle
        int64_t requests[KN_STATS_APIS]
    struct kn_topic_snapshot:
        int64_t age, partition_count
        kn_window batchsize, batchcnt
    struct kn_partition_snapshot:
        int64_t msgq_cnt, msgq_bytes, xmit_msgq_cnt, xmit_msgq_bytes, txmsgs, txbytes, msgs, msgs_inflight, next_seq
    struct kn_cursor_snapshot:
        int64_t fetchq_cnt, fetchq_size, next_offset, eof_offset, lo_offset, hi_offset, ls_offset, rxmsgs, rxbytes, rx_ver_drops
    struct kn_client_snapshot:
        int64_t replyq, msg_cnt, msg_size, msg_max, msg_size_max, tx, tx_bytes, rx, rx_bytes, txmsgs, txmsg_bytes, rxmsgs, rxmsg_bytes
    struct kn_mean_snapshot:
        int64_t count, sum, max
    void kn_stats_means(kn_broker *broker, kn_mean_snapshot *snapshots)
    void kn_stats_broker(kn_broker *broker, int64_t now_us, int end, kn_broker_snapshot *snapshot)
    void kn_stats_topic(kn_topic *topic, int64_t now_us, int end, kn_topic_snapshot *snapshot)
    void kn_stats_partition(kn_topic *topic, int32_t partition, kn_partition_snapshot *snapshot)
    void kn_stats_cursor(kn_cursor *cursor, kn_cursor_snapshot *snapshot)
    void kn_stats_client(kn_engine *engine, kn_client_snapshot *snapshot)

cdef extern from "net/broker.h" nogil:
    """
    #include "engine/engine.h"
    static void measure(struct kn_engine *engine, int on) { atomic_store_explicit(&engine->client.measuring, on, memory_order_relaxed); }
    static struct kn_broker_windows *windows_of(struct kn_broker *broker) { return broker->windows; }
    """
    kn_broker_windows *windows_of(kn_broker *broker)
    void measure(kn_engine *engine, int on)


cdef kn_broker *_broker(EngineHandle alive, int handle) except NULL:
    cdef kn_broker *broker = kn_engine_broker(alive.engine, handle)
    if broker == NULL:
        raise IndexError(f"there is no broker {handle}")
    return broker


def client_snapshot(Engine engine not None):
    """Return queues and traffic of the whole client: sums over all brokers and partitions so far.
    """
    cdef kn_client_snapshot snapshot
    cdef EngineHandle alive = engine._alive()
    cdef kn_engine *it = alive.engine
    with nogil:
        kn_stats_client(it, &snapshot)
    return snapshot


def broker_snapshot(Engine engine not None, int handle, bint end):
    """Return a broker's connection. ``requests`` are by API key. Times are in microseconds."""
    cdef kn_broker_snapshot snapshot
    cdef EngineHandle alive = engine._alive()
    cdef kn_broker *broker = _broker(alive, handle)
    with nogil:
        kn_stats_broker(broker, kn_clock_us(), end, &snapshot)
    return snapshot


def topic_snapshot(Topic topic not None, bint end):
    """Return a topic of the producer. ``age`` is in milliseconds."""
    cdef kn_topic_snapshot snapshot
    cdef EngineHandle _alive = topic.owner._alive()
    with nogil:
        kn_stats_topic(topic.topic, kn_clock_us(), end, &snapshot)
    return snapshot


def partition_snapshot(Topic topic not None, int32_t partition):
    """Return a partition of the producer. -1 means the messages that wait for the topic's metadata.
    """
    cdef kn_partition_snapshot snapshot
    cdef EngineHandle _alive = topic.owner._alive()
    with nogil:
        kn_stats_partition(topic.topic, partition, &snapshot)
    return snapshot


def cursor_snapshot(Cursor cursor not None):
    """Return a partition of the consumer."""
    cdef kn_cursor_snapshot snapshot
    kn_stats_cursor(cursor.cursor, &snapshot)
    return snapshot


def set_measured(Engine engine not None, bint on):
    """Enable or disable the measurements for `means_snapshot()`."""
    cdef EngineHandle alive = engine._alive()
    measure(alive.engine, on)


def means_snapshot(Engine engine not None, int handle):
    """Return (count, sum, max) tuples in microseconds.

    The first is the age of batches that left the queue. Then follow the durations of Produce, Fetch
    and other requests. Counts and sums only rise. ``max`` is the maximum since the previous
    snapshot.
    """
    cdef kn_mean_snapshot[KN_MEAN_KINDS] found
    cdef kn_mean_snapshot *each = found
    cdef EngineHandle alive = engine._alive()
    kn_stats_means(_broker(alive, handle), each)
    return [(each[kind].count, each[kind].sum, each[kind].max) for kind in range(KN_MEAN_KINDS)]


def idle_us(Engine engine not None):
    """Return the total time that the application has waited for messages, in microseconds."""
    cdef EngineHandle alive = engine._alive()
    return kn_queue_idle_us(&alive.engine.fetched)


def note_throttle(Engine engine not None, int handle, int64_t throttle_ms):
    """Count a request to this broker that a quota has delayed."""
    cdef EngineHandle alive = engine._alive()
    kn_count_throttle(windows_of(_broker(alive, handle)), throttle_ms)
