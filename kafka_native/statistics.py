"""Statistics of a client: the result of `Producer.metrics()`, and the JSON that ``stats_cb`` gets.

Each class is one level of librdkafka's document, with the same names, units and order.

- Times are in microseconds. The ages of topics, groups and producer ids are in milliseconds.
- Sizes are in bytes.
- A counter starts at 0 when the object that it describes is created.
- The offset -1001 means unknown.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "BrokerMetrics",
    "BrokerPartition",
    "ClientMetrics",
    "ConsumerMetrics",
    "EosMetrics",
    "FatalMetrics",
    "GroupMetrics",
    "PartitionMetrics",
    "TopicMetrics",
    "Window",
    "to_json",
]

INTERNAL_PARTITION = -1
"""The number of the entry for records that have no partition yet."""


@dataclass(frozen=True, slots=True)
class Window:
    """The values since the previous document, or since the previous `metrics()`.

    All fields are 0 if there were no values. Windows need ``statistics.interval.ms``; without it
    they are empty. A percentile is less than 1 % too high.
    """

    min: int = 0
    max: int = 0
    avg: int = 0
    sum: int = 0
    stddev: int = 0
    p50: int = 0
    p75: int = 0
    p90: int = 0
    p95: int = 0
    p99: int = 0
    p99_99: int = 0
    outofrange: int = 0
    """The number of values above 2^32. The other fields don't include them."""
    hdrsize: int = 0
    """The size of the histogram in bytes."""
    cnt: int = 0


@dataclass(frozen=True, slots=True)
class BrokerPartition:
    """A partition that a broker serves."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class BrokerMetrics:
    """The metrics of one broker and of the connection to it."""

    name: str
    """host:port/id, host:port/bootstrap, or GroupCoordinator."""
    nodeid: int
    """The broker's id; -1 for a bootstrap server or the connection of a coordinator."""
    nodename: str
    """host:port."""
    source: str
    """``configured``, ``learned``, or ``logical`` for the connection of a coordinator."""
    state: str
    """The state of the connection:

    - ``INIT``: not needed yet.
    - ``DOWN``, ``CONNECT``.
    - ``APIVERSION_QUERY``: the handshake.
    - ``AUTH_HANDSHAKE``, ``AUTH_REQ``: SASL.
    - ``UP``.
    - ``REAUTH``: SASL again, while the connection is up.
    """
    stateage: int
    outbuf_cnt: int
    """Requests that wait to be written."""
    outbuf_msg_cnt: int
    waitresp_cnt: int
    """Requests that wait for their responses."""
    waitresp_msg_cnt: int
    tx: int
    """Requests written."""
    txbytes: int
    txerrs: int
    txretries: int
    """Batches that are sent again."""
    txidle: int
    """-1: the client has not written anything yet."""
    req_timeouts: int
    rx: int
    rxbytes: int
    rxerrs: int
    """Reads that failed, and responses that are invalid or incomplete."""
    rxcorriderrs: int
    rxpartial: int
    """Fetched partitions whose last batch is incomplete."""
    rxidle: int
    zbuf_grow: int
    """Always 0, like ``buf_grow``: these count librdkafka's own buffers."""
    buf_grow: int
    wakeups: int
    connects: int
    """Attempts to connect, successful or not."""
    disconnects: int
    int_latency: Window
    """The time from produce() to the request that carries the message."""
    outbuf_latency: Window
    """The time from the creation of the request until it is written."""
    rtt: Window
    """The time from the written request to its response.

    It includes the wait of a Fetch at the broker.
    """
    throttle: Window
    """Milliseconds by which quotas delayed requests."""
    req: dict[str, int]
    """Requests written, by request name."""
    toppars: dict[str, BrokerPartition]
    """By topic and partition."""


@dataclass(frozen=True, slots=True)
class PartitionMetrics:
    """The metrics of one partition.

    The partition -1 stands for records that wait until the client knows the topic's partitions.
    """

    partition: int
    broker: int = -1
    """The broker that serves the partition, or -1."""
    leader: int = -1
    desired: bool = False
    """True if the partition is assigned to this consumer."""
    unknown: bool = False
    """True if the metadata doesn't contain the partition."""
    msgq_cnt: int = 0
    """Messages in the open batch."""
    msgq_bytes: int = 0
    """Bytes of keys, values and headers.

    The other sizes of produced messages count the same bytes.
    """
    xmit_msgq_cnt: int = 0
    """Messages in complete batches that wait to be sent."""
    xmit_msgq_bytes: int = 0
    fetchq_cnt: int = 0
    """Messages fetched and not yet returned.

    A partly returned fetch counts as a whole until its last message is returned.
    """
    fetchq_size: int = 0
    fetch_state: str = "none"
    """The state of the fetcher:

    - ``none``, ``offset-query``, ``validate-epoch-wait``, ``active``.
    - ``offset-wait``: the consumer will try again later.
    - ``stopped``: paused, or permanently failed.
    """
    query_offset: int = -1001
    """The logical offset that the consumer is resolving."""
    next_offset: int = 0
    app_offset: int = -1001
    """The offset of the last returned message + 1."""
    stored_offset: int = -1001
    stored_leader_epoch: int = -1
    committed_offset: int = -1001
    committed_leader_epoch: int = -1
    eof_offset: int = -1001
    lo_offset: int = -1001
    hi_offset: int = -1001
    ls_offset: int = -1001
    consumer_lag: int = -1
    """Messages from the committed offset to the end.

    The end is ``hi_offset``, or ``ls_offset`` with ``isolation.level=read_committed``.
    """
    consumer_lag_stored: int = -1
    consumer_lead: int = -1
    """Messages from the log's start to the application's position (KIP-223).

    Near 0 the consumer is about to lose messages to the topic's retention. -1: unknown.
    """
    leader_epoch: int = -1
    txmsgs: int = 0
    """Messages delivered."""
    txbytes: int = 0
    rxmsgs: int = 0
    """Messages fetched for the application since the assignment of the partition."""
    rxbytes: int = 0
    """Bytes of these messages with each record's framing, decompressed."""
    msgs: int = 0
    """A consumer's ``rxmsgs``, or all messages that a producer has queued."""
    rx_ver_drops: int = 0
    """Messages dropped before their batches were opened, for instance because of a seek."""
    msgs_inflight: int = 0
    next_ack_seq: int = 0
    """Idempotent producers: the next sequence number to be acknowledged."""
    next_err_seq: int = 0
    """The same as ``next_ack_seq``, because responses come in order."""
    acked_msgid: int = 0
    """Idempotent producers: the number of acknowledged messages."""


@dataclass(frozen=True, slots=True)
class TopicMetrics:
    """The metrics of one topic."""

    topic: str
    age: int
    """Milliseconds since the client learned of the topic."""
    metadata_age: int
    """Milliseconds since the last metadata; -1 without metadata."""
    batchsize: Window
    """Bytes per batch as sent, that is, compressed."""
    batchcnt: Window
    """Messages per batch."""
    partitions: dict[int, PartitionMetrics]
    """By partition number. A producer has all partitions, a consumer the assigned ones; and -1."""


@dataclass(frozen=True, slots=True)
class GroupMetrics:
    """The metrics of a consumer's group membership."""

    state: str
    """The state of the coordinator's connection.

    ``init``, ``query-coord``, ``wait-broker-transport`` or ``up``.
    """
    stateage: int
    """Milliseconds. ``rebalance_age`` has the same unit."""
    join_state: str
    """The state of the membership.

    ``init``, ``wait-join``, ``wait-metadata``, ``wait-sync``, ``wait-assign-call``,
    ``wait-unassign-call`` or ``steady``.
    """
    rebalance_age: int
    """Milliseconds since the last rebalance; 0 if there was none."""
    rebalance_cnt: int
    """Assignments and revocations."""
    rebalance_reason: str
    assignment_size: int


@dataclass(frozen=True, slots=True)
class ConsumerMetrics:
    """The metrics of a consumer and of its application's polls (KIP-223, KIP-517).

    A poll is a call of poll(), consume() or a similar method, or a step of an iteration. Only polls
    that leave an open batch read the clock. The polls in between share the time equally.
    Averages and maxima cover the same time as a `Window`, also without ``statistics.interval.ms``.
    """

    lead_min: int
    """The smallest ``consumer_lead`` of the assigned partitions; -1: unknown."""
    lag_max: int
    """The largest distance from the application's position to the end; -1: unknown.

    It is that of `Consumer.lag_max()`: the uncommitted messages don't count.
    """
    time_between_poll_avg: int
    """From the start of a poll to the start of the next one; -1: no two polls."""
    time_between_poll_max: int
    poll_idle_ratio_avg: float
    """The share of the time in which the application waited for messages, 0 to 1.

    Near 0 the application is the bottleneck, near 1 it has time left.
    """
    last_poll_seconds_ago: int
    """Seconds since the last poll began, 0 inside a poll; -1: the application hasn't polled yet."""


@dataclass(frozen=True, slots=True)
class EosMetrics:
    """The identity and the state of an idempotent producer."""

    idemp_state: str
    """``RequestPID``, ``WaitPID``, ``Assigned`` or ``FatalError``."""
    idemp_stateage: int
    """Milliseconds."""
    txn_state: str
    """The state of transactions; ``Init`` for a producer without transactions.

    ``Init``, ``WaitPID``, ``Ready``, ``InTransaction``, ``PreparedTransaction``,
    ``CommittingTransaction``, ``AbortableError``, ``AbortingTransaction`` or ``FatalError``.
    """
    txn_stateage: int
    """Milliseconds."""
    txn_may_enq: bool
    """True between `Producer.begin_transaction()` and the end: the producer accepts messages."""
    producer_id: int
    """-1: the producer has no id yet."""
    producer_epoch: int
    epoch_cnt: int
    """The number of ids and epochs since the start."""


@dataclass(frozen=True, slots=True)
class FatalMetrics:
    """The fatal error that ended the client."""

    error: str
    reason: str
    cnt: int


@dataclass(frozen=True, slots=True)
class ClientMetrics:
    """The metrics of a client at one moment. Numbers of different parts may differ slightly."""

    name: str
    client_id: str
    type: str
    """``producer`` or ``consumer``. An AdminClient is a ``producer``."""
    ts: int
    """Microseconds of the monotonic clock."""
    time: int
    """Seconds since 1970."""
    age: int
    """Microseconds since the client was created."""
    replyq: int
    """Events that wait for poll(), flush() or consume(): callbacks, reports, fetched batches."""
    msg_cnt: int
    """Messages in the producer's queue or in flight."""
    msg_size: int
    msg_max: int
    msg_size_max: int
    simple_cnt: int
    """Always 0: it counts librdkafka's legacy consumers."""
    metadata_cache_cnt: int
    """The number of topics with metadata."""
    brokers: dict[str, BrokerMetrics]
    topics: dict[str, TopicMetrics]
    cgrp: GroupMetrics | None
    """None for a client that is no member of a group."""
    eos: EosMetrics | None
    """None for a client that is no idempotent producer."""
    tx: int
    """Requests written to all brokers, including brokers that have left the cluster.

    The following counters include them, too.
    """
    tx_bytes: int
    rx: int
    rx_bytes: int
    txmsgs: int
    """Messages delivered."""
    txmsg_bytes: int
    rxmsgs: int
    """Messages fetched for the application."""
    rxmsg_bytes: int
    fatal: FatalMetrics | None = field(default=None)
    consumer: ConsumerMetrics | None = field(default=None)
    """None for a client that is no Consumer. librdkafka doesn't have it."""


def to_json(metrics: ClientMetrics) -> str:
    """Return the JSON document of ``stats_cb``: librdkafka's fields, then those of our own."""
    return json.dumps(_plain(metrics))


def _plain(value: Any) -> object:
    """Convert dataclasses to dicts, without fields that are None."""
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    found = {
        name: each for name in value.__match_args__ if (each := getattr(value, name)) is not None
    }
    if isinstance(value, PartitionMetrics):
        # Misspelled as in librdkafka; old readers use it
        found["commited_offset"] = value.committed_offset
        return found
    return {name: _plain(each) for name, each in found.items()}
