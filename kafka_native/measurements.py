"""A client's statistics as single measurements with labels, for Prometheus and OpenTelemetry.

Spark's streams have measurements of their own (`STREAM_SPECS`).

Each numeric field of `kafka_native.statistics` has its own name here, ``<level>_<field>``. Times
are in seconds, and their names end in ``_seconds``. Unknown values and windows without values are
left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias

from kafka_native.statistics import (
    BrokerMetrics,
    ClientMetrics,
    ConsumerMetrics,
    GroupMetrics,
    PartitionMetrics,
    TopicMetrics,
    Window,
)

__all__ = ["SPECS", "STREAM_SPECS", "Measured", "Measurement", "Spec", "measurements"]

Metrics: TypeAlias = (
    ClientMetrics | ConsumerMetrics | GroupMetrics | BrokerMetrics | TopicMetrics | PartitionMetrics
)

COUNTER = "counter"
GAUGE = "gauge"

MESSAGES, REQUESTS, BYTES, SECONDS, NUMBER = "{message}", "{request}", "By", "s", "1"
MICROSECONDS, MILLISECONDS = 1e-6, 1e-3

STATS = ("min", "max", "avg", "p50", "p75", "p90", "p95", "p99", "p99_99")
"""The statistics of a window, each with its value of the label ``stat``."""


class Spec(NamedTuple):
    """The specification of a measurement: one field of one level."""

    level: str
    field: str
    kind: str
    """``counter`` or ``gauge``."""
    unit: str
    """The unit in OpenTelemetry's notation (UCUM)."""
    text: str
    scale: float = 1
    """The factor that converts the field to the unit."""
    labels: tuple[str, ...] = ()
    """The labels besides those of the level."""

    @property
    def name(self) -> str:
        """The name without a prefix, for instance ``broker_rtt_seconds``."""
        return f"{self.level}_{self.field}{'_seconds' if self.unit == SECONDS else ''}"


class Measurement(NamedTuple):
    """One measured value with its specification and its labels."""

    spec: Spec
    labels: dict[str, str]
    value: float


LABELS: dict[str, tuple[str, ...]] = {
    "client": ("client",),
    "group": ("client",),
    "consumer": ("client",),
    "broker": ("client", "broker"),
    "topic": ("client", "topic"),
    "partition": ("client", "topic", "partition"),
    "stream": ("query",),
}
"""The labels of each level."""


def _specs(level: str, kind: str, unit: str, **texts: str) -> list[Spec]:
    return [Spec(level, field, kind, unit, text) for field, text in texts.items()]


def _windows(level: str, unit: str, scale: float, **texts: str) -> list[Spec]:
    return [
        Spec(level, field, GAUGE, unit, text, scale, ("stat",)) for field, text in texts.items()
    ]


_ALL = [
    *_specs("client", GAUGE, NUMBER, replyq="Events that wait for poll(), flush() or consume()"),
    *_specs(
        "client",
        GAUGE,
        MESSAGES,
        msg_cnt="Messages queued or in flight",
        msg_max="Limit of msg_cnt",
    ),
    *_specs(
        "client",
        GAUGE,
        BYTES,
        msg_size="Bytes of messages queued or in flight",
        msg_size_max="Limit of msg_size",
    ),
    *_specs(
        "client",
        GAUGE,
        NUMBER,
        metadata_cache_cnt="Topics with known metadata",
        fatal="1 after a fatal error",
    ),
    *_specs("client", COUNTER, REQUESTS, tx="Requests written", rx="Responses read"),
    *_specs("client", COUNTER, BYTES, tx_bytes="Bytes written", rx_bytes="Bytes read"),
    *_specs("client", COUNTER, MESSAGES, txmsgs="Messages delivered", rxmsgs="Messages fetched"),
    *_specs(
        "client",
        COUNTER,
        BYTES,
        txmsg_bytes="Bytes of messages delivered",
        rxmsg_bytes="Bytes of messages fetched",
    ),
    *_specs(
        "group",
        GAUGE,
        NUMBER,
        assignment_size="Partitions assigned",
        joined="1: a member of its group, no rebalance in progress",
    ),
    *_specs("group", COUNTER, NUMBER, rebalance_cnt="Assignments and revocations"),
    *_specs(
        "consumer",
        GAUGE,
        MESSAGES,
        lead_min="From the log's start to the position, the smallest of all partitions",
        lag_max="From the position to the end, the largest of all partitions",
    ),
    *[
        Spec("consumer", field, GAUGE, SECONDS, text, MICROSECONDS)
        for field, text in (
            ("time_between_poll_avg", "From the start of a poll to the next one"),
            ("time_between_poll_max", "The longest time from the start of a poll to the next one"),
        )
    ],
    *_specs(
        "consumer",
        GAUGE,
        NUMBER,
        poll_idle_ratio_avg="The share of the time in which the application waited for messages",
        last_poll_seconds_ago="Seconds since the last poll began",
    ),
    *_specs("broker", GAUGE, NUMBER, up="1: connected and ready for requests"),
    *_specs(
        "broker",
        GAUGE,
        REQUESTS,
        outbuf_cnt="Requests that wait to be written",
        waitresp_cnt="Requests without a response",
    ),
    *_specs(
        "broker",
        GAUGE,
        MESSAGES,
        outbuf_msg_cnt="Messages in requests that wait to be written",
        waitresp_msg_cnt="Messages in requests without a response",
    ),
    *_specs("broker", COUNTER, BYTES, txbytes="Bytes written", rxbytes="Bytes read"),
    *_specs(
        "broker",
        COUNTER,
        NUMBER,
        tx="Requests written",
        txerrs="Writes that failed",
        txretries="Batches that are sent again",
        req_timeouts="Requests that timed out",
        rx="Responses read",
        rxerrs="Reads that failed, and responses that are invalid or incomplete",
        rxcorriderrs="Responses without a waiting request",
        rxpartial="Fetched partitions whose last batch is incomplete",
        wakeups="Times that the broker's thread woke up",
        connects="Attempts to connect",
        disconnects="Connections that ended",
    ),
    Spec(
        "broker", "req", COUNTER, REQUESTS, "Requests written, by their kind", labels=("request",)
    ),
    *_windows(
        "broker",
        SECONDS,
        MICROSECONDS,
        int_latency="From produce() to the request that carries a message",
        outbuf_latency="From the creation of the request until it is written",
        rtt="From the written request to its response",
    ),
    *_windows("broker", SECONDS, MILLISECONDS, throttle="Time by which quotas delayed requests"),
    *_windows("topic", BYTES, 1, batchsize="Bytes per batch, compressed"),
    *_windows("topic", MESSAGES, 1, batchcnt="Messages per batch"),
    *_specs(
        "partition",
        GAUGE,
        MESSAGES,
        msgq_cnt="Messages in the open batch",
        xmit_msgq_cnt="Messages in complete batches",
        msgs_inflight="Messages in flight",
        fetchq_cnt="Messages fetched and not yet returned",
        consumer_lag="Messages from the committed offset to the end",
        consumer_lag_stored="Messages from the stored offset to the end",
        consumer_lead="Messages from the log's start to the position",
    ),
    *_specs(
        "partition",
        GAUGE,
        BYTES,
        msgq_bytes="Bytes in the open batch",
        xmit_msgq_bytes="Bytes in complete batches",
        fetchq_size="Bytes fetched and not yet returned",
    ),
    *_specs(
        "partition",
        GAUGE,
        NUMBER,
        app_offset="The offset after the last returned message",
        stored_offset="The offset that the next commit takes",
        committed_offset="The last committed offset",
        lo_offset="The first offset of the partition",
        hi_offset="The end of the partition (high watermark)",
        ls_offset="The last stable offset: the start of the first open transaction, or the end",
    ),
    *_specs(
        "partition",
        COUNTER,
        MESSAGES,
        txmsgs="Messages delivered",
        rxmsgs="Messages fetched since the assignment",
        rx_ver_drops="Messages dropped, for instance because of a seek",
    ),
    *_specs(
        "partition",
        COUNTER,
        BYTES,
        txbytes="Bytes of messages delivered",
        rxbytes="Bytes of messages fetched",
    ),
]
SPECS: Mapping[str, Spec] = {spec.name: spec for spec in _ALL}
"""Every specification of clients by its name."""

_STREAM = [
    *_specs(
        "stream",
        COUNTER,
        NUMBER,
        batches="Micro-batches, and triggers without new records that Spark reported",
        rows="Rows of all sources",
        offsets="Offsets of Kafka sources, without those of the first micro-batch",
        skipped_offsets="Offsets that were deleted before the query could read them",
        retries="Attempts of tasks that have failed",
        malformed="Records that don't decode and have left the frame",
    ),
    *_specs("stream", COUNTER, BYTES, bytes="Bytes of rows in Arrow columns"),
    *_specs("stream", COUNTER, SECONDS, busy="Time in triggers"),
    *(
        Spec("stream", f"{name}_offsets_behind_latest", GAUGE, NUMBER, text, labels=("source",))
        for name, text in (
            ("min", "The smallest lag of a partition at the last micro-batch"),
            ("max", "The largest lag of a partition at the last micro-batch"),
            ("avg", "The average lag of the partitions at the last micro-batch"),
        )
    ),
]
STREAM_SPECS: Mapping[str, Spec] = {spec.name: spec for spec in _STREAM}
"""The specifications of Spark's streams by their names."""


class Measured(Protocol):
    """An object with measurements, such as `kafka_native.spark.ProgressListener`."""

    def measurements(self) -> Iterable[Measurement]:
        """The current measurements. Exporters call it on their own threads."""


UNKNOWN: Final = -1
"""A value that isn't measured now."""


def measurements(metrics: ClientMetrics, *, partitions: bool = True) -> Iterator[Measurement]:
    """Yield all measurements of a client.

    :param partitions: False leaves out the measurements of single partitions.
    """
    client = {"client": metrics.name}
    own = {"fatal": int(metrics.fatal is not None)}
    yield from _level("client", client, metrics, own)
    if metrics.cgrp is not None:
        yield from _level(
            "group", client, metrics.cgrp, {"joined": int(metrics.cgrp.join_state == "steady")}
        )
    if metrics.consumer is not None:
        yield from _level("consumer", client, metrics.consumer, {})
    for broker in metrics.brokers.values():
        yield from _broker({**client, "broker": broker.name}, broker)
    for topic in metrics.topics.values():
        yield from _topic({**client, "topic": topic.topic}, topic, partitions)


def _broker(labels: dict[str, str], broker: BrokerMetrics) -> Iterator[Measurement]:
    # A connection that nothing has needed yet, or no longer needs, isn't down
    up = UNKNOWN if broker.state == "INIT" else int(broker.state == "UP")
    yield from _level("broker", labels, broker, {"up": up})
    for request, count in broker.req.items():
        if count:
            yield Measurement(SPECS["broker_req"], {**labels, "request": request}, count)


def _topic(labels: dict[str, str], topic: TopicMetrics, partitions: bool) -> Iterator[Measurement]:
    yield from _level("topic", labels, topic, {})
    for partition in topic.partitions.values() if partitions else ():
        yield from _level(
            "partition", {**labels, "partition": str(partition.partition)}, partition, {}
        )


def _level(
    level: str, labels: dict[str, str], source: Metrics, own: dict[str, int]
) -> Iterator[Measurement]:
    for spec in _ALL:
        if spec.level != level or spec.field == "req":
            continue
        value = own[spec.field] if spec.field in own else getattr(source, spec.field)
        if isinstance(value, Window):
            yield from _window(spec, labels, value)
        elif value >= 0:  # UNKNOWN and -1001 stand for an unknown value
            yield Measurement(spec, labels, value * spec.scale)


def _window(spec: Spec, labels: dict[str, str], window: Window) -> Iterator[Measurement]:
    if window.cnt:
        for stat in STATS:
            yield Measurement(spec, {**labels, "stat": stat}, getattr(window, stat) * spec.scale)
