"""Client metrics for the cluster's operators, where they have subscribed to any (KIP-714, enable.metrics.push).

A client asks a broker that it is connected to for the subscription, pushes what is wanted each time that its interval
is over, and a last time when it is closed. It connects to nobody for it, and where no broker offers this, or nobody has
subscribed, nothing is measured. All pushes go to the same broker for as long as it is up.

Thread: the control thread only.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_native._native.records import CODEC_NAMES, compress
from kafka_native.control.backoff import Backoff
from kafka_native.control.client_metrics import Spec, chosen
from kafka_native.control.metrics import encode
from kafka_native.control.requests import ANY_BROKER, NEVER, Call, Reply
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
    from kafka_native.control.client_metrics import Sampler

USUAL_INTERVAL_S = 300.0
"""Where the broker names no interval: Kafka's default."""
INTERVAL_MIN_S, INTERVAL_MAX_S = 0.1, 3600.0
"""The least and the most that Kafka lets operators choose."""
FIRST_PUSH = (0.5, 1.5)
"""Shares of the interval that the first push comes after, drawn anew, so that clients don't push all at once."""
UNANSWERED_S = 1.0
"""After which a subscription is asked for again at first; doubles up to the usual interval."""

NOBODY = -2
"""As a node: none was chosen yet."""

OUTDATED = (KafkaError.UNKNOWN_SUBSCRIPTION_ID, KafkaError.UNSUPPORTED_COMPRESSION_TYPE)
"""Answers to a push after which the subscription is asked for at once."""
NEXT_TIME = (KafkaError.TELEMETRY_TOO_LARGE, KafkaError.THROTTLING_QUOTA_EXCEEDED)
"""Answers after which the next push is due when the interval is over."""
FOR_GOOD = (KafkaError.INVALID_REQUEST, KafkaError.UNSUPPORTED_VERSION)
"""Answers after which the broker is left alone."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What the broker wants."""

    number: int
    specs: tuple[Spec, ...]
    interval_s: float
    codecs: tuple[int, ...]
    """Those that can be used, best first."""
    max_bytes: int
    delta: bool

    @classmethod
    def of(cls, reply: GetTelemetrySubscriptionsResponse, kind: str) -> Subscription:
        """For this kind of client."""
        interval_s = reply.push_interval_ms / 1000
        return cls(
            reply.subscription_id,
            chosen(kind, reply.requested_metrics),
            min(max(interval_s, INTERVAL_MIN_S), INTERVAL_MAX_S) if interval_s > 0 else USUAL_INTERVAL_S,
            tuple(each for each in reply.accepted_compression_types if 0 <= each < len(CODEC_NAMES)),
            reply.telemetry_max_bytes,
            reply.delta_temporality,
        )


class Telemetry:
    """A manager: asks for the subscription, and pushes."""

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
        """``resource``: labels of the client, without any secret; ``scope``: name and version of what measures."""
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
        self._outdated = False  # it is to be asked for again
        self._due = 0.0
        self._busy = False  # a request is under way
        self._over = False
        self._node: int | None = NOBODY
        self._limit = 0  # bytes of a push that was too large; 0: none was
        self._warned = 0  # the error that was warned of last
        self._pushed_bytes = 0
        self._waiting: list[tuple[float, Callable[[bytes | KafkaError], None]]] = []

    @property
    def sampler(self) -> Sampler:
        """Where the values come from."""
        return self._sampler

    # --- for the public API ---

    def identify(self, deadline: float, done: Callable[[bytes | KafkaError], None]) -> list[Call]:
        """``done`` gets the client instance id, 16 bytes, as soon as a broker has given one; or why there is none."""
        if self._id != ZERO_UUID:
            done(self._id)
        else:
            self._waiting.append((deadline, done))
            self._due = 0.0
        return []

    def finish(self, deadline: float, done: Callable[[Reply], None]) -> list[Call]:
        """The last push, if metrics are subscribed to and a broker is up; ``done`` when nothing is waited for."""
        subscription = self._subscription
        offering = self._target(PushTelemetryRequest)
        over, self._over = self._over, True
        if subscription is None or not subscription.specs or self._outdated or over or not offering:
            done(None)
            return []
        target = offering[0]
        if self._sampler.kind == "consumer" and target is not None:
            try:
                target = self._pool.uncontended(PushTelemetryRequest, target)
            except MemoryError:
                done(None)
                return []
        return [self._push(subscription, target, deadline, lambda reply: done(None), last=True)]

    # --- turns ---

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        self._sampler.poll(now)
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
            target = [ANY_BROKER]  # somebody waits: also for a connection
        if not target:
            return [], self._wake_up(NEVER)  # a connection that comes up is a turn, too
        self._busy = True
        deadline = now + self._timeout_s
        if subscription is not None and not asks:
            call = self._push(subscription, target[0], deadline, self._on_pushed, last=False)
        else:
            request = GetTelemetrySubscriptionsRequest(client_instance_id=self._id)
            call = Call(request, target[0], deadline, self._on_subscription)
        return [call], self._wake_up(NEVER)

    def _wake_up(self, at: float) -> float:
        return min([at, *(deadline for deadline, _ in self._waiting)])

    def _expire(self, now: float) -> None:
        late = [done for deadline, done in self._waiting if deadline <= now]
        self._waiting = [each for each in self._waiting if each[0] > now]
        for done in late:
            done(KafkaError(KafkaError._TIMED_OUT, "no broker has given a client instance id in time"))

    def _report(self, outcome: bytes | KafkaError) -> None:
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            done(outcome)

    def close(self, error: KafkaError) -> None:
        """The client ends."""
        self._over = True
        self._report(error)

    def _target(self, message: type[GetTelemetrySubscriptionsRequest | PushTelemetryRequest]) -> list[int | None]:
        """The broker to talk to: the same as before while it is up. Empty: none is."""
        offering = self._pool.offering(message)
        if offering and self._node not in offering:
            self._node = self._choice(offering)
            self._log.debug("metrics go to %s", "a bootstrap server" if self._node is None else f"broker {self._node}")
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
            "subscription %d: %d metric(s) each %g s", now_wanted.number, len(now_wanted.specs), now_wanted.interval_s
        )
        self._report(self._id)

    def _unanswered(self, error: KafkaError) -> None:
        """No answer, or none from somebody who knows the question."""
        self._log.debug("no answer: %s", error.str())
        if error.code() == KafkaError._UNSUPPORTED_FEATURE:
            self._report(error)
        self._due = self._clock() + self._backoff.next_s()

    @property
    def _interval_s(self) -> float:
        return USUAL_INTERVAL_S if self._subscription is None else self._subscription.interval_s

    def _refused(self, error: KafkaError) -> None:
        """The broker's error, to either request (the table of KIP-714)."""
        code = error.code()
        self._log.debug("refused: %s", error.str())
        self._due = self._clock() + self._interval_s
        if code in FOR_GOOD:
            self._over = True
            self._sampler.measure(False)
            self._warn(error, "no client metrics are sent any more")
        elif code == KafkaError.INVALID_RECORD:
            self._outdated = True
            self._due = self._clock() + USUAL_INTERVAL_S
            self._warn(error, "client metrics are sent again in five minutes at the earliest")
        elif code == KafkaError.TELEMETRY_TOO_LARGE:
            self._warn(error, "fewer client metrics are sent from now on")
        elif code not in NEXT_TIME:
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
        self._log.debug("pushes %d bytes (%s)%s", len(payload), CODEC_NAMES[codec], ", the last ones" if last else "")
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
        """Codec and bytes of what there is; where the broker takes less, of the first metrics that it does take."""
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
            # By another broker, if this one is gone; the values go with the next push.
            self._log.debug("not pushed: %s", reply.str())
            self._due = self._clock() + self._interval_s
            return
        if reply.error_code == KafkaError.TELEMETRY_TOO_LARGE:
            self._limit = max(1, self._pushed_bytes // 2)
        if reply.error_code in OUTDATED:
            self._log.debug("the subscription has changed: %s", KafkaError(reply.error_code).str())
            self._outdated = True
            self._due = self._clock()
        elif reply.error_code:
            self._refused(KafkaError(reply.error_code))
        else:
            self._sampler.settle()
            self._due = self._clock() + self._interval_s
