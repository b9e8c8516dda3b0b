"""The standard client metrics of KIP-714: which there are, and their values.

Names, kinds and labels are those that KIP-714 requires of every client, and librdkafka's two of Produce requests. No
topic and no credential is among the labels. Averages and maxima are over what came since the last push that has
arrived; a metric without a value is left out, as the KIP recommends.

Thread: the control thread only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kafka_native._native import snapshots
from kafka_native._native.enums import MEAN_FETCH, MEAN_PRODUCE, MEAN_QUEUED
from kafka_native.control.means import Mean
from kafka_native.control.otlp import Metric, Point, Times
from kafka_native.control.statistics import JOIN_STATES

if TYPE_CHECKING:
    from kafka_native.control.consuming import Consuming
    from kafka_native.control.main_thread import MainThread

PREFIX = "org.apache.kafka."
ALL = "*"
"""As the only requested metric: all of them."""
MILLISECONDS, NUMBER = "ms", "1"
MICRO, NANO = 1_000_000, 1_000_000_000
NODE = "node_id"
"""The label of what is told of single brokers."""


class Spec(NamedTuple):
    """A metric: what comes behind ``org.apache.kafka.producer.`` or ``.consumer.``, and its unit."""

    name: str
    unit: str
    text: str
    is_sum: bool = False


def _latencies(name: str, what: str) -> tuple[Spec, Spec]:
    return (
        Spec(f"{name}.avg", MILLISECONDS, f"The average {what} in milliseconds."),
        Spec(f"{name}.max", MILLISECONDS, f"The maximum {what} in milliseconds."),
    )


CONNECTIONS, RATE = "connection.creation.total", "connection.creation.rate"
NODES, REQUESTS, QUEUE = "node.request.latency", "request.latency", "record.queue.time"
THROTTLE, FETCHES = "produce.throttle.time", "fetch.manager.fetch.latency"
IDLE, ASSIGNED, COMMITS = "poll.idle.ratio.avg", "coordinator.assigned.partitions", "coordinator.commit.latency"
REBALANCES, REBALANCING = "coordinator.rebalance.latency", "coordinator.rebalance.latency.total"

_BOTH = (
    Spec(RATE, NUMBER, "Connections that came up, each second."),
    Spec(CONNECTIONS, NUMBER, "Connections that came up.", is_sum=True),
    *_latencies(NODES, "time that a broker took to answer a request"),
)
_PRODUCER = (
    *_latencies(THROTTLE, "time for which a broker throttled this producer"),
    *_latencies(QUEUE, "time that batches spent in the queue"),
    *_latencies(REQUESTS, "time that a Produce request took"),
)
_CONSUMER = (
    Spec(IDLE, NUMBER, "The share of time that the consumer waited for messages."),
    *_latencies(COMMITS, "time that a commit took"),
    Spec(ASSIGNED, NUMBER, "Partitions assigned to this consumer."),
    *_latencies(REBALANCES, "time that a rebalance took"),
    Spec(REBALANCING, MILLISECONDS, "The time that all rebalances took, in milliseconds.", is_sum=True),
    *_latencies(FETCHES, "time that a Fetch request took"),
)
SPECS: dict[str, tuple[Spec, ...]] = {"producer": (*_BOTH, *_PRODUCER), "consumer": (*_BOTH, *_CONSUMER), "admin": ()}
"""What each kind of client has."""


def full_name(kind: str, spec: Spec) -> str:
    """``org.apache.kafka.producer.connection.creation.rate``, say."""
    return f"{PREFIX}{kind}.{spec.name}"


def chosen(kind: str, requested: Iterable[str]) -> tuple[Spec, ...]:
    """Those of a kind of client whose full names begin with one of the requested prefixes, in order."""
    prefixes = tuple(requested)
    if prefixes == (ALL,):
        return SPECS[kind]
    return tuple(spec for spec in SPECS[kind] if full_name(kind, spec).startswith(prefixes))


class RebalanceWatch:
    """How long rebalances take: from leaving a settled state until every step of the new assignment has ended."""

    def __init__(self, consuming: Consuming) -> None:
        """To be asked in each turn of the control thread."""
        self._consuming = consuming
        self._steps = 0
        self._since: float | None = None
        self.latency = Mean()
        """Milliseconds."""
        self.total_ms = 0.0

    def poll(self, now: float) -> None:
        """Notes when one begins, and how long it took when it has ended."""
        rebalance = self._consuming.rebalance
        state = JOIN_STATES[self._consuming.membership.state.name]
        if state == "init" and not rebalance.busy:  # not in a group: what was under way came to nothing
            self._since, self._steps = None, rebalance.count
        elif state != "steady" or rebalance.busy:
            self._since = now if self._since is None else self._since
        elif self._since is not None or rebalance.count != self._steps:
            took_ms = 0.0 if self._since is None else (now - self._since) * 1000
            self._since, self._steps = None, rebalance.count
            self.latency.record(took_ms)
            self.total_ms += took_ms


class Totals(NamedTuple):
    """What only rises, at one moment."""

    connections: int
    rebalancing_ms: float
    idle_us: int
    at: float
    """Monotonic seconds."""
    at_ns: int
    """Since 1970."""


class Sampler:
    """Reads the values that were chosen, and remembers up to when they have arrived."""

    def __init__(
        self,
        main: MainThread,
        kind: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """``kind``: "producer", "consumer", or "admin", which has no metrics."""
        self._main = main
        self.kind = kind
        self._clock = clock
        self._now_ns = now_ns
        self.throttle = Mean()
        """Milliseconds, from whoever hears of throttling."""
        self._means = {name: Mean() for name in (QUEUE, REQUESTS, FETCHES)}
        self._nodes: dict[int, Mean] = {}
        self._seen: dict[int, list[tuple[int, int, int]]] = {}  # by the engine's handle
        self._start = self._settled = self._taken = Totals(0, 0.0, 0, clock(), now_ns())
        self._consuming: Consuming | None = None
        self._rebalances: RebalanceWatch | None = None
        self._member_id = ""

    def consumes(self, consuming: Consuming) -> None:
        """A consumer's managers are there."""
        self._consuming = consuming
        self._rebalances = RebalanceWatch(consuming)

    def poll(self, now: float) -> None:
        """In each turn of the control thread: notes what doesn't say so itself."""
        if self._rebalances is not None:
            self._rebalances.poll(now)

    def measure(self, on: bool) -> None:
        """Whether the engine records latencies; what was recorded before counts for nobody."""
        snapshots.set_measured(self._main.engine, on)

    @property
    def resource(self) -> dict[str, str]:
        """Labels of the client itself that depend on its state. Who has left its group is the member that it was."""
        if self._consuming is not None:
            self._member_id = self._consuming.member.member_id or self._member_id
        return {"group_member_id": self._member_id} if self._member_id else {}

    # --- one push ---

    def sample(self, specs: Iterable[Spec], *, delta: bool) -> tuple[list[Metric], Times]:
        """The metrics that have a value; ``delta``: sums since what has arrived, not since the start."""
        self._read_brokers()
        self._taken = now = self._totals()
        since = self._settled
        latencies = self._latencies()
        values: dict[str, list[Point]] = {}
        for name, mean in latencies:
            self._add_latency(values, name, {}, mean)
        for node_id, mean in sorted(self._nodes.items()):
            self._add_latency(values, NODES, {NODE: node_id}, mean)
        seconds = max(now.at - since.at, 1e-6)
        base = since if delta else self._start
        values[CONNECTIONS] = [Point(now.connections - base.connections)]
        values[RATE] = [Point((now.connections - since.connections) / seconds)]
        if self._consuming is not None:
            values[IDLE] = [Point(min(1.0, (now.idle_us - since.idle_us) / MICRO / seconds))]
            values[ASSIGNED] = [Point(len(self._consuming.fetching.assigned))]
            values[REBALANCING] = [Point(int(now.rebalancing_ms) - int(base.rebalancing_ms))]
        metrics = [
            Metric(full_name(self.kind, spec), spec.text, spec.unit, spec.is_sum, tuple(values[spec.name]))
            for spec in specs
            if spec.name in values
        ]
        return metrics, Times(self._start.at_ns, since.at_ns, now.at_ns)

    def settle(self) -> None:
        """What was sampled last has arrived."""
        self._settled = self._taken
        for _, mean in self._latencies():
            mean.settle()
        for mean in self._nodes.values():
            mean.settle()

    def _latencies(self) -> Iterator[tuple[str, Mean]]:
        yield from self._means.items()
        yield THROTTLE, self.throttle
        if self._consuming is not None and self._rebalances is not None:
            yield COMMITS, self._consuming.committing.latency
            yield REBALANCES, self._rebalances.latency

    @staticmethod
    def _add_latency(values: dict[str, list[Point]], name: str, labels: dict[str, int], mean: Mean) -> None:
        count, total_ms, max_ms = mean.take()
        if count:
            values.setdefault(f"{name}.avg", []).append(Point(total_ms / count, labels))
            values.setdefault(f"{name}.max", []).append(Point(math.ceil(max_ms), labels))

    def _totals(self) -> Totals:
        return Totals(
            connections=self._main.pool.connections,
            rebalancing_ms=0.0 if self._rebalances is None else self._rebalances.total_ms,
            idle_us=0 if self._consuming is None else snapshots.idle_us(self._main.engine),
            at=self._clock(),
            at_ns=self._now_ns(),
        )

    def _read_brokers(self) -> None:
        """Takes over what broker threads have recorded since the last time."""
        nothing = [(0, 0, 0)] * 4
        seen, self._seen = self._seen, {}
        for broker in self._main.pool.brokers():
            found = self._seen[broker.handle] = snapshots.means_snapshot(self._main.engine, broker.handle)
            pairs = zip(found, seen.get(broker.handle, nothing), strict=True)
            for kind, ((count, total_us, max_us), (old_count, old_us, _)) in enumerate(pairs):
                new = (count - old_count, (total_us - old_us) / 1000, max_us / 1000)
                for mean in self._means_of(kind, broker.node_id) if new[0] else ():
                    mean.add(*new)

    def _means_of(self, kind: int, node_id: int) -> Iterator[Mean]:
        """Where values of this kind go, of a connection to this node (a coordinator's is one)."""
        own = {MEAN_QUEUED: QUEUE, MEAN_PRODUCE: REQUESTS, MEAN_FETCH: FETCHES}.get(kind)
        if own is not None:
            yield self._means[own]
        if kind != MEAN_QUEUED and node_id >= 0:
            yield self._nodes.setdefault(node_id, Mean())
