"""Statistics of a client: what `Producer.metrics()` and its kin return, and the JSON document that ``stats_cb`` gets.

Each class is one level of librdkafka's document, with its names, units and order. Times are in microseconds, but for
the ages of topics, groups and producer ids, which are in milliseconds; sizes are in bytes. A counter rises from the
start of what it counts on. -1001 stands for an offset that isn't known.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "BrokerMetrics",
    "BrokerPartition",
    "ClientMetrics",
    "EosMetrics",
    "FatalMetrics",
    "GroupMetrics",
    "PartitionMetrics",
    "TopicMetrics",
    "Window",
    "to_json",
]

INTERNAL_PARTITION = -1
"""What of a topic belongs to no partition yet."""


@dataclass(frozen=True, slots=True)
class Window:
    """Values of a period: since the document before, or the `metrics()` before. All 0 when there were none.

    Empty without ``statistics.interval.ms``. Percentiles are less than 1 % too high at the most.
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
    """Values beyond 2^32: in none of the others."""
    hdrsize: int = 0
    """Bytes of the histogram."""
    cnt: int = 0


@dataclass(frozen=True, slots=True)
class BrokerPartition:
    """A partition that a broker handles."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class BrokerMetrics:
    """One broker and the connection to it."""

    name: str
    """host:port/id, host:port/bootstrap, or GroupCoordinator."""
    nodeid: int
    """-1: a bootstrap server or a coordinator's connection."""
    nodename: str
    """host:port."""
    source: str
    """``configured``, ``learned``, or ``logical``: the connection of a coordinator."""
    state: str
    """``INIT`` (not needed yet), ``DOWN``, ``CONNECT``, ``APIVERSION_QUERY`` (the handshake), ``AUTH_HANDSHAKE`` and
    ``AUTH_REQ`` (SASL), ``UP``, or ``REAUTH`` (SASL again, while up)."""
    stateage: int
    outbuf_cnt: int
    """Requests to be written."""
    outbuf_msg_cnt: int
    waitresp_cnt: int
    """Requests that wait for their responses."""
    waitresp_msg_cnt: int
    tx: int
    """Requests written."""
    txbytes: int
    txerrs: int
    txretries: int
    """Batches that went back for another try."""
    txidle: int
    """-1: nothing was written yet."""
    req_timeouts: int
    rx: int
    rxbytes: int
    rxerrs: int
    """Reads that failed, and responses that couldn't be right or were cut off."""
    rxcorriderrs: int
    rxpartial: int
    """Fetched partitions whose last batch was cut off."""
    rxidle: int
    zbuf_grow: int
    """Always 0, as ``buf_grow``: librdkafka's own buffers."""
    buf_grow: int
    wakeups: int
    connects: int
    """Attempts, successful or not."""
    disconnects: int
    int_latency: Window
    """From produce() to the request that carries a message."""
    outbuf_latency: Window
    """From there until the request is written."""
    rtt: Window
    """From there to its response; a Fetch waits at the broker."""
    throttle: Window
    """Milliseconds that quotas held requests back."""
    req: dict[str, int]
    """Requests written, by their names."""
    toppars: dict[str, BrokerPartition]
    """By topic-partition."""


@dataclass(frozen=True, slots=True)
class PartitionMetrics:
    """One partition. -1: what of a topic waits for its partitions to be known."""

    partition: int
    broker: int = -1
    """The node it is fetched from or produced to, -1: none."""
    leader: int = -1
    desired: bool = False
    """Assigned to this consumer."""
    unknown: bool = False
    """Metadata don't have it."""
    msgq_cnt: int = 0
    """Messages in the batch that is being filled."""
    msgq_bytes: int = 0
    """Keys, values and headers, as all bytes of what is produced."""
    xmit_msgq_cnt: int = 0
    """Messages in complete batches that wait to be sent."""
    xmit_msgq_bytes: int = 0
    fetchq_cnt: int = 0
    """Messages fetched and not handed out; a part of a fetch that is being handed out counts as a whole to its end."""
    fetchq_size: int = 0
    fetch_state: str = "none"
    """``none``, ``offset-query``, ``validate-epoch-wait``, ``offset-wait`` (tried again later), ``active``, or
    ``stopped``: paused, or failed for good.
    """
    query_offset: int = -1001
    """The logical offset that is being looked up."""
    next_offset: int = 0
    app_offset: int = -1001
    """What was handed out last + 1."""
    stored_offset: int = -1001
    stored_leader_epoch: int = -1
    committed_offset: int = -1001
    committed_leader_epoch: int = -1
    eof_offset: int = -1001
    lo_offset: int = -1001
    hi_offset: int = -1001
    ls_offset: int = -1001
    consumer_lag: int = -1
    """From the committed offset to the end: hi_offset, or with isolation.level=read_committed ls_offset."""
    consumer_lag_stored: int = -1
    leader_epoch: int = -1
    txmsgs: int = 0
    """Messages delivered."""
    txbytes: int = 0
    rxmsgs: int = 0
    """Messages fetched for the application, since the partition was assigned."""
    rxbytes: int = 0
    """The same, with each record's framing, decompressed."""
    msgs: int = 0
    """A consumer's rxmsgs; all that a producer has queued."""
    rx_ver_drops: int = 0
    """Messages that were dropped because of a seek or the like before any of their batches was looked at."""
    msgs_inflight: int = 0
    next_ack_seq: int = 0
    """Idempotent producers: the sequence number that is to be acknowledged next."""
    next_err_seq: int = 0
    """The same: answers come in order."""
    acked_msgid: int = 0
    """Idempotent producers: how many messages were acknowledged."""


@dataclass(frozen=True, slots=True)
class TopicMetrics:
    """The metrics of one topic."""

    topic: str
    age: int
    """Milliseconds since the client knows it."""
    metadata_age: int
    """Milliseconds; -1: there are none."""
    batchsize: Window
    """Bytes of batches as they were sent: compressed."""
    batchcnt: Window
    """Messages of batches."""
    partitions: dict[int, PartitionMetrics]
    """A producer's: all; a consumer's: those assigned. And -1."""


@dataclass(frozen=True, slots=True)
class GroupMetrics:
    """The metrics of a consumer's group."""

    state: str
    """``init``, ``query-coord``, ``wait-broker-transport`` or ``up``: of the coordinator's connection."""
    stateage: int
    """Milliseconds, as ``rebalance_age``."""
    join_state: str
    """``init``, ``wait-join``, ``wait-metadata``, ``wait-sync``, ``wait-assign-call``, ``wait-unassign-call``,
    ``steady``.
    """
    rebalance_age: int
    """Since the last one, 0: there was none."""
    rebalance_cnt: int
    """Assignments and revocations."""
    rebalance_reason: str
    assignment_size: int


@dataclass(frozen=True, slots=True)
class EosMetrics:
    """An idempotent producer's identity."""

    idemp_state: str
    """``RequestPID``, ``WaitPID``, ``Assigned`` or ``FatalError``."""
    idemp_stateage: int
    """Milliseconds."""
    txn_state: str
    """``Init``, ``WaitPID``, ``Ready``, ``InTransaction``, ``PreparedTransaction``, ``CommittingTransaction``,
    ``AbortableError``, ``AbortingTransaction`` or ``FatalError``; ``Init`` without transactions."""
    txn_stateage: int
    """Milliseconds."""
    txn_may_enq: bool
    """Whether messages are taken: from `Producer.begin_transaction()` on, until it ends."""
    producer_id: int
    """-1: none."""
    producer_epoch: int
    epoch_cnt: int
    """Ids and epochs since the start."""


@dataclass(frozen=True, slots=True)
class FatalMetrics:
    """The error that has ended the client."""

    error: str
    reason: str
    cnt: int


@dataclass(frozen=True, slots=True)
class ClientMetrics:
    """A client at one moment; numbers of different parts need not agree exactly."""

    name: str
    client_id: str
    type: str
    """``producer`` or ``consumer``; an AdminClient is a producer."""
    ts: int
    """Monotonic clock, microseconds."""
    time: int
    """Unix time, seconds."""
    age: int
    """Microseconds since the client was made."""
    replyq: int
    """What waits for poll(), flush() or consume(): callbacks, batches of reports, fetched pieces."""
    msg_cnt: int
    """Messages in the producer's queue or in flight."""
    msg_size: int
    msg_max: int
    msg_size_max: int
    simple_cnt: int
    """Always 0: of librdkafka's legacy consumer."""
    metadata_cache_cnt: int
    """Topics."""
    brokers: dict[str, BrokerMetrics]
    topics: dict[str, TopicMetrics]
    cgrp: GroupMetrics | None
    """None: no consumer with a group."""
    eos: EosMetrics | None
    """None: no idempotent producer."""
    tx: int
    """Requests written to all brokers, also to those that have left since; so are the following."""
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


def to_json(metrics: ClientMetrics) -> str:
    """The document of ``stats_cb``: field for field librdkafka's."""
    return json.dumps(_plain(metrics))


def _plain(value: Any) -> Any:
    """Dataclasses as dicts, without what isn't there."""
    if isinstance(value, (int, str)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    found = {name: each for name in value.__match_args__ if (each := getattr(value, name)) is not None}
    if isinstance(value, PartitionMetrics):
        found["commited_offset"] = value.committed_offset  # a misspelling that old readers look for
        return found
    return {name: _plain(each) for name, each in found.items()}
