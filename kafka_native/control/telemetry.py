"""Client metrics for the cluster's operators, if they have subscribed to any (KIP-714).

The values: KIP-714 prescribes the names, kinds and labels. Two metrics of Produce requests are
librdkafka's. No label contains a topic or a credential. Averages and maxima cover the time since
the last successful push. A metric without a value is left out, as the KIP recommends.

The pushes (enable.metrics.push): a client gets the subscription from a broker that it is connected
to. It pushes the wanted metrics at the end of each interval, and a last time when it is closed. It
opens no connection for that. If no broker offers this, or there is no subscription, nothing is
measured. All pushes go to the same broker while its connection is up.

Thread: the control thread only.
"""

from __future__ import annotations

import math
import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafka_native._native import snapshots
from kafka_native._native.enums import MEAN_FETCH, MEAN_PRODUCE, MEAN_QUEUED
from kafka_native._native.records import CODEC_NAMES, compress, features
from kafka_native.control.errors import (
    PUSH_SKIPPED_ERRORS,
    SUBSCRIPTION_OUTDATED_ERRORS,
    TELEMETRY_FATAL_ERRORS,
)
from kafka_native.control.mean import Mean
from kafka_native.control.metrics import Metric, Point, Times, encode
from kafka_native.control.requests import ANY_BROKER, NEVER, Backoff, Call, Reply
from kafka_native.control.states import JOIN_STATES
from kafka_native.errors import KafkaError
from kafka_native.logs import QUIET, Log
from kafka_native.protocol.schema import ZERO_UUID
from kafka_native.protocol.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
)

if TYPE_CHECKING:
    from kafka_native.control.brokers.pool import BrokerPool
    from kafka_native.control.consumer.consumer_control import ConsumerControl
    from kafka_native.control.context import ManagerContext

PREFIX = "org.apache.kafka."
ALL = "*"
"""As the only requested metric: all metrics."""
MILLISECONDS, NUMBER = "ms", "1"
MICRO, NANO = 1_000_000, 1_000_000_000
NODE = "node_id"
"""The label of metrics that concern one broker."""


class Spec(NamedTuple):
    """A metric's unit, text and name, without ``org.apache.kafka.producer.`` or ``.consumer.``."""

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
IDLE, ASSIGNED, COMMITS = (
    "poll.idle.ratio.avg",
    "coordinator.assigned.partitions",
    "coordinator.commit.latency",
)
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
    Spec(
        REBALANCING,
        MILLISECONDS,
        "The time that all rebalances took, in milliseconds.",
        is_sum=True,
    ),
    *_latencies(FETCHES, "time that a Fetch request took"),
)
SPECS: dict[str, tuple[Spec, ...]] = {
    "producer": (*_BOTH, *_PRODUCER),
    "consumer": (*_BOTH, *_CONSUMER),
    "admin": (),
    "client": (),
}
"""The metrics of each kind of client."""


def full_name(kind: str, spec: Spec) -> str:
    """The full name, for example ``org.apache.kafka.producer.connection.creation.rate``."""
    return f"{PREFIX}{kind}.{spec.name}"


def chosen(kind: str, requested: Iterable[str]) -> tuple[Spec, ...]:
    """The metrics of a kind of client whose full names begin with a requested prefix, in order."""
    prefixes = tuple(requested)
    if prefixes == (ALL,):
        return SPECS[kind]
    return tuple(spec for spec in SPECS[kind] if full_name(kind, spec).startswith(prefixes))


class RebalanceTimer:
    """Measures rebalances: from leaving a stable state to the last step of the assignment."""

    def __init__(self, control: ConsumerControl) -> None:
        """`poll()` has to be called in each iteration of the control thread."""
        self._control = control
        self._steps = 0
        self._since: float | None = None
        self.latency = Mean()
        """In milliseconds."""
        self.total_ms = 0.0

    def poll(self, now: float) -> None:
        """Records the start of a rebalance, and its duration at its end."""
        rebalance = self._control.rebalance
        state = JOIN_STATES[self._control.membership.state.name]
        # not in a group: an unfinished rebalance doesn't count
        if state == "init" and not rebalance.busy:
            self._since, self._steps = None, rebalance.count
        elif state != "steady" or rebalance.busy:
            self._since = now if self._since is None else self._since
        elif self._since is not None or rebalance.count != self._steps:
            took_ms = 0.0 if self._since is None else (now - self._since) * 1000
            self._since, self._steps = None, rebalance.count
            self.latency.record(took_ms)
            self.total_ms += took_ms


class Totals(NamedTuple):
    """The counters that only rise, at one moment."""

    connections: int
    rebalancing_ms: float
    idle_us: int
    at: float
    """Monotonic seconds."""
    at_ns: int
    """Nanoseconds since 1970."""


class Sampler:
    """Reads the values of the requested metrics, and remembers which ones were delivered."""

    def __init__(
        self,
        context: ManagerContext,
        kind: str,
        consumer: ConsumerControl | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """``kind``: "producer", "consumer", or "admin" and "client", which have no metrics."""
        self._context = context
        self.kind = kind
        self._clock = clock
        self._now_ns = now_ns
        self.throttle = Mean()
        """In milliseconds, from the broker pool."""
        self._means = {name: Mean() for name in (QUEUE, REQUESTS, FETCHES)}
        self._nodes: dict[int, Mean] = {}
        self._seen: dict[int, list[tuple[int, int, int]]] = {}  # by the engine's broker handle
        self._start = self._settled = self._taken = Totals(0, 0.0, 0, clock(), now_ns())
        self._control = consumer
        self._rebalances = None if consumer is None else RebalanceTimer(consumer)
        self._member_id = ""

    def poll(self, now: float) -> None:
        """Records the state of rebalances, in each iteration of the control thread."""
        if self._rebalances is not None:
            self._rebalances.poll(now)

    def measure(self, on: bool) -> None:
        """Switches the engine's latency recording on or off. Earlier values are dropped."""
        snapshots.set_measured(self._context.engine, on)

    @property
    def resource(self) -> dict[str, str]:
        """The client's labels that depend on its state.

        After leaving, a member keeps its last id here.
        """
        if self._control is not None:
            self._member_id = self._control.member.member_id or self._member_id
        return {"group_member_id": self._member_id} if self._member_id else {}

    # --- one push ---

    def sample(self, specs: Iterable[Spec], *, delta: bool) -> tuple[list[Metric], Times]:
        """The metrics that have a value.

        ``delta``: sums cover the time since the last successful push.
        """
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
        if self._control is not None:
            values[IDLE] = [Point(min(1.0, (now.idle_us - since.idle_us) / MICRO / seconds))]
            values[ASSIGNED] = [Point(len(self._control.fetches.assigned))]
            values[REBALANCING] = [Point(int(now.rebalancing_ms) - int(base.rebalancing_ms))]
        metrics = [
            Metric(
                full_name(self.kind, spec),
                spec.text,
                spec.unit,
                spec.is_sum,
                tuple(values[spec.name]),
            )
            for spec in specs
            if spec.name in values
        ]
        return metrics, Times(self._start.at_ns, since.at_ns, now.at_ns)

    def settle(self) -> None:
        """Marks the last sample as delivered."""
        self._settled = self._taken
        for _, mean in self._latencies():
            mean.settle()
        for mean in self._nodes.values():
            mean.settle()

    def _latencies(self) -> Iterator[tuple[str, Mean]]:
        yield from self._means.items()
        yield THROTTLE, self.throttle
        if self._control is not None and self._rebalances is not None:
            yield COMMITS, self._control.commits.latency
            yield REBALANCES, self._rebalances.latency

    @staticmethod
    def _add_latency(
        values: dict[str, list[Point]], name: str, labels: dict[str, int], mean: Mean
    ) -> None:
        count, total_ms, max_ms = mean.take()
        if count:
            values.setdefault(f"{name}.avg", []).append(Point(total_ms / count, labels))
            values.setdefault(f"{name}.max", []).append(Point(math.ceil(max_ms), labels))

    def _totals(self) -> Totals:
        return Totals(
            connections=self._context.pool.connections,
            rebalancing_ms=0.0 if self._rebalances is None else self._rebalances.total_ms,
            idle_us=0 if self._control is None else snapshots.idle_us(self._context.engine),
            at=self._clock(),
            at_ns=self._now_ns(),
        )

    def _read_brokers(self) -> None:
        """Adds the values that the broker threads have recorded since the last call."""
        nothing = [(0, 0, 0)] * 4
        seen, self._seen = self._seen, {}
        for broker in self._context.pool.brokers():
            found = self._seen[broker.handle] = snapshots.means_snapshot(
                self._context.engine, broker.handle
            )
            pairs = zip(found, seen.get(broker.handle, nothing), strict=True)
            for kind, ((count, total_us, max_us), (old_count, old_us, _)) in enumerate(pairs):
                new = (count - old_count, (total_us - old_us) / 1000, max_us / 1000)
                for mean in self._means_of(kind, broker.node_id) if new[0] else ():
                    mean.add(*new)

    def _means_of(self, kind: int, node_id: int) -> Iterator[Mean]:
        """The means that take values of this kind from a connection to this node or coordinator."""
        own = {MEAN_QUEUED: QUEUE, MEAN_PRODUCE: REQUESTS, MEAN_FETCH: FETCHES}.get(kind)
        if own is not None:
            yield self._means[own]
        if kind != MEAN_QUEUED and node_id >= 0:
            yield self._nodes.setdefault(node_id, Mean())


USUAL_INTERVAL_S = 300.0
"""The interval if the broker names none: Kafka's default."""
INTERVAL_MIN_S, INTERVAL_MAX_S = 0.1, 3600.0
"""The limits of the interval in Kafka."""
FIRST_PUSH = (0.5, 1.5)
"""The first push comes after a random share of the interval, so that clients don't push at once."""
UNANSWERED_S = 1.0
"""The first delay before another subscription request; it doubles up to the usual interval."""

NOBODY = -2
"""As a node: none is chosen yet."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The metrics that the broker wants."""

    number: int
    specs: tuple[Spec, ...]
    interval_s: float
    codecs: tuple[int, ...]
    """The codecs that this client supports, best first."""
    max_bytes: int
    delta: bool

    @classmethod
    def of(cls, reply: GetTelemetrySubscriptionsResponse, kind: str) -> Subscription:
        """Reads a subscription for this kind of client."""
        interval_s = reply.push_interval_ms / 1000
        return cls(
            reply.subscription_id,
            chosen(kind, reply.requested_metrics),
            min(max(interval_s, INTERVAL_MIN_S), INTERVAL_MAX_S)
            if interval_s > 0
            else USUAL_INTERVAL_S,
            tuple(each for each in reply.accepted_compression_types if each in _usable_codecs()),
            reply.telemetry_max_bytes,
            reply.delta_temporality,
        )


def _usable_codecs() -> set[int]:
    """The numbers of the codecs that have a library in this process, and 0 for none."""
    found = features()
    return {0} | {number for number, name in enumerate(CODEC_NAMES) if found.get(name)}


class Telemetry:
    """The manager that requests the subscription and pushes the metrics."""

    def __init__(
        self,
        pool: BrokerPool,
        sampler: Sampler,
        *,
        resource: Mapping[str, str],
        scope: tuple[str, str],
        timeout_s: float,
        log: Log = QUIET["telemetry"],
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
        choice: Callable[[Sequence[int | None]], int | None] = random.choice,
    ) -> None:
        """``resource``: the client's labels, without secrets.

        ``scope``: name and version of the client.
        """
        self._pool = pool
        self._sampler = sampler
        self._resource = resource
        self._scope = scope
        self._timeout_s = timeout_s
        self._log = log
        self._clock = clock
        self._uniform = uniform
        self._choice = choice
        self._pushes = sampler.kind != "admin"
        self._backoff = Backoff(UNANSWERED_S, USUAL_INTERVAL_S, uniform)
        self._id = ZERO_UUID
        self._subscription: Subscription | None = None
        self._outdated = False  # the subscription must be requested again
        self._due = 0.0
        self._busy = False  # a request is in flight
        self._over = False
        self._node: int | None = NOBODY
        self._limit = 0  # the maximum bytes after a push that was too large; 0: no limit
        self._warned = 0  # the code of the last error with a warning
        self._pushed_bytes = 0
        self._waiting: list[tuple[float, Callable[[bytes | KafkaError], None]]] = []

    @property
    def sampler(self) -> Sampler:
        """The source of the values."""
        return self._sampler

    # --- for the public API ---

    def identify(self, deadline: float, done: Callable[[bytes | KafkaError], None]) -> list[Call]:
        """Passes the client instance id (16 bytes) from a broker to ``done``, or an error."""
        if self._id != ZERO_UUID:
            done(self._id)
        else:
            self._waiting.append((deadline, done))
            self._due = 0.0
        return []

    def finish(self, deadline: float, done: Callable[[Reply], None]) -> list[Call]:
        """Sends the last push, if metrics are subscribed to and a broker is up.

        Calls ``done`` at the end.
        """
        subscription = self._subscription
        offering = self._target(PushTelemetryRequest)
        over, self._over = self._over, True
        if subscription is None or not subscription.specs or self._outdated or over or not offering:
            done(None)
            return []
        last = self._push(subscription, offering[0], deadline, lambda _: done(None), last=True)
        return [last]

    # --- polling ---

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        self._sampler.poll(now)
        if self._waiting:
            self._expire(now)
        wanted = bool(self._waiting) or (self._pushes and not self._over)
        if self._busy or not wanted:
            return [], self._wake_up(NEVER)
        if now < self._due:
            return [], self._wake_up(self._due)
        subscription = None if self._outdated or self._waiting else self._subscription
        asks = subscription is None or not subscription.specs
        target = self._target(GetTelemetrySubscriptionsRequest if asks else PushTelemetryRequest)
        if not target and self._waiting:
            target = [ANY_BROKER]  # the application waits: a first connection counts, too
        if not target:
            return [], self._wake_up(NEVER)  # a new connection causes another poll
        self._busy = True
        deadline = now + self._timeout_s
        if subscription is not None and not asks:
            call = self._push(subscription, target[0], deadline, self._on_pushed, last=False)
        else:
            request = GetTelemetrySubscriptionsRequest(client_instance_id=self._id)
            call = Call(request, target[0], deadline, self._on_subscription)
        return [call], self._wake_up(NEVER)

    def _wake_up(self, at: float) -> float:
        return min(at, *(deadline for deadline, _ in self._waiting)) if self._waiting else at

    def _expire(self, now: float) -> None:
        late = [done for deadline, done in self._waiting if deadline <= now]
        self._waiting = [each for each in self._waiting if each[0] > now]
        for done in late:
            done(
                KafkaError(
                    KafkaError._TIMED_OUT, "no broker has given a client instance id in time"
                )
            )

    def _report(self, outcome: bytes | KafkaError) -> None:
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            done(outcome)

    def close(self, error: KafkaError) -> None:
        """Ends the telemetry of a client that closes."""
        self._over = True
        self._report(error)

    def _target(
        self, message: type[GetTelemetrySubscriptionsRequest | PushTelemetryRequest]
    ) -> list[int | None]:
        """The target: the same broker as before while it is up. Empty: no broker is up."""
        offering = self._pool.offering(message)
        if offering and self._node not in offering:
            self._node = self._choice(offering)
            self._log.debug(
                "metrics go to %s",
                "a bootstrap server" if self._node is None else f"broker {self._node}",
            )
        return [self._node] if offering else []

    # --- the subscription ---

    def _on_subscription(self, reply: Reply) -> None:
        self._busy = False
        if isinstance(reply, KafkaError):
            self._unanswered(reply)
        elif reply.error_code:
            self._report(KafkaError(reply.error_code))
            self._refused(KafkaError(reply.error_code))
        else:
            self._subscribe(reply)

    def _subscribe(self, reply: GetTelemetrySubscriptionsResponse) -> None:
        self._backoff.reset()
        if reply.client_instance_id != ZERO_UUID:
            self._id = reply.client_instance_id
        elif self._id == ZERO_UUID:
            self._id = uuid.uuid4().bytes
        before = self._subscription
        now_wanted = self._subscription = Subscription.of(reply, self._sampler.kind)
        self._outdated = False
        if before != now_wanted:
            self._limit = self._warned = 0
        measured = bool(now_wanted.specs)
        if measured != bool(before and before.specs):
            self._sampler.measure(measured)
        share = self._uniform(*FIRST_PUSH) if measured else 1.0
        self._due = self._clock() + now_wanted.interval_s * share
        self._log.debug(
            "subscription %d: %d metric(s) each %g s",
            now_wanted.number,
            len(now_wanted.specs),
            now_wanted.interval_s,
        )
        self._report(self._id)

    def _unanswered(self, error: KafkaError) -> None:
        """Handles a request without a reply, or a broker without telemetry."""
        self._log.debug("no answer: %s", error.str())
        if error.code() == KafkaError._UNSUPPORTED_FEATURE:
            self._report(error)
        self._due = self._clock() + self._backoff.next_s()

    @property
    def _interval_s(self) -> float:
        return USUAL_INTERVAL_S if self._subscription is None else self._subscription.interval_s

    def _refused(self, error: KafkaError) -> None:
        """Handles the broker's error to either request, by the table of KIP-714."""
        code = error.code()
        self._log.debug("refused: %s", error.str())
        self._due = self._clock() + self._interval_s
        if code in TELEMETRY_FATAL_ERRORS:
            self._over = True
            self._sampler.measure(False)
            self._warn(error, "no client metrics are sent any more")
        elif code == KafkaError.INVALID_RECORD:
            self._outdated = True
            self._due = self._clock() + USUAL_INTERVAL_S
            self._warn(error, "client metrics are sent again in five minutes at the earliest")
        elif code == KafkaError.TELEMETRY_TOO_LARGE:
            self._warn(error, "fewer client metrics are sent from now on")
        elif code not in PUSH_SKIPPED_ERRORS:
            self._outdated = True

    def _warn(self, error: KafkaError, what: str) -> None:
        if self._warned != error.code():
            self._warned = error.code()
            self._log.warning("%s: %s", error.str(), what)

    # --- pushing ---

    def _push(
        self,
        subscription: Subscription,
        target: int | None,
        deadline: float,
        on_reply: Callable[[Reply], None],
        *,
        last: bool,
    ) -> Call:
        codec, payload = self._payload(subscription)
        self._log.debug(
            "pushes %d bytes (%s)%s",
            len(payload),
            CODEC_NAMES[codec],
            ", the last ones" if last else "",
        )
        request = PushTelemetryRequest(
            client_instance_id=self._id,
            subscription_id=subscription.number,
            terminating=last,
            compression_type=codec,
            metrics=payload,
        )
        self._pushed_bytes = len(payload)
        return Call(request, target, deadline, on_reply)

    def _payload(self, subscription: Subscription) -> tuple[int, bytes]:
        """Encodes the metrics; returns codec and bytes.

        Above the limit, drops metrics from the end.
        """
        metrics, times = self._sampler.sample(subscription.specs, delta=subscription.delta)
        resource = {**self._resource, **self._sampler.resource}
        limits = [each for each in (subscription.max_bytes, self._limit) if each > 0]
        codec = subscription.codecs[0] if subscription.codecs else 0
        while True:
            payload = encode(metrics, resource, self._scope, times, delta=subscription.delta)
            if codec and payload:
                payload = compress(CODEC_NAMES[codec], payload)
            if not metrics or not limits or len(payload) <= min(limits):
                return codec if payload else 0, payload
            metrics = metrics[:-1]

    def _on_pushed(self, reply: Reply) -> None:
        self._busy = False
        if isinstance(reply, KafkaError):
            # The next push carries these values, to another broker if this one is gone.
            self._log.debug("not pushed: %s", reply.str())
            self._due = self._clock() + self._interval_s
            return
        if reply.error_code == KafkaError.TELEMETRY_TOO_LARGE:
            self._limit = max(1, self._pushed_bytes // 2)
        if reply.error_code in SUBSCRIPTION_OUTDATED_ERRORS:
            self._log.debug("the subscription has changed: %s", KafkaError(reply.error_code).str())
            self._outdated = True
            self._due = self._clock()
        elif reply.error_code:
            self._refused(KafkaError(reply.error_code))
        else:
            self._sampler.settle()
            self._due = self._clock() + self._interval_s
