"""Client metrics: requests for the subscription, pushes and their brokers, and errors."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native.control.metrics import Metric, Point, Times
from kafka_native.control.requests import ANY_BROKER, NEVER, Call
from kafka_native.control.telemetry import SPECS, USUAL_INTERVAL_S, Spec, Telemetry, chosen
from kafka_native.errors import KafkaError
from kafka_native.mock.telemetry import decode
from kafka_native.protocol.schema import ZERO_UUID
from kafka_native.protocol.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from tests.waiting import WAIT_S

ID = bytes(range(16))
INTERVAL_S = 10.0
TRANSPORT = KafkaError(KafkaError._TRANSPORT)


class FakePool:
    """Brokers that are up and support telemetry."""

    def __init__(self) -> None:
        self.up: list[int | None] = [1, 2, 3]

    def offering(self, message: Any) -> list[int | None]:
        return list(self.up)


class FakeSampler:
    """The value of each metric is the number of samples so far."""

    def __init__(self, kind: str = "producer") -> None:
        self.kind = kind
        self.resource = {"group_member_id": "m"}
        self.polled: list[float] = []
        self.measured: list[bool] = []
        self.deltas: list[bool] = []
        self.settled = 0

    def poll(self, now: float) -> None:
        self.polled.append(now)

    def measure(self, on: bool) -> None:
        self.measured.append(on)

    def sample(self, specs: tuple[Spec, ...], *, delta: bool) -> tuple[list[Metric], Times]:
        self.deltas.append(delta)
        point = Point(len(self.deltas))
        return [
            Metric(spec.name, spec.text, spec.unit, spec.is_sum, (point,)) for spec in specs
        ], Times(1, 2, 3)

    def settle(self) -> None:
        self.settled += 1


class Log:
    """Records warnings."""

    on = False

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def debug(self, text: str, *args: object) -> None:
        assert text % args

    def warning(self, text: str, *args: object) -> None:
        self.warnings.append(text % args)


class Rig:
    """Telemetry with its clock and its requests."""

    def __init__(
        self, kind: str = "producer", *, share: float = 0.5, subscription: Any = None
    ) -> None:
        self.now = 100.0
        self.pool, self.sampler, self.log = FakePool(), FakeSampler(kind), Log()
        self.shares: list[tuple[float, float]] = []

        def uniform(low: float, high: float) -> float:
            self.shares.append((low, high))
            return 1.0 if high < 1.5 else share  # the back-off's jitter, and the first push's

        pool, sampler, log = (each for each in (self.pool, self.sampler, self.log))
        self.telemetry = Telemetry(
            pool,  # type: ignore[arg-type]
            sampler,  # type: ignore[arg-type]
            resource={"client_rack": "r"},
            scope=("name", "1"),
            timeout_s=WAIT_S,
            log=log,  # type: ignore[arg-type]
            clock=lambda: self.now,
            uniform=uniform,
            choice=lambda choices: choices[0],
        )
        if subscription is not None:
            self.asks(subscription)

    def call(self) -> Call:
        """Return the request that is due now."""
        calls, wake_up = self.telemetry.poll(self.now)
        [call] = calls
        assert call.deadline == self.now + WAIT_S
        assert wake_up > self.now
        return call

    def waits(self) -> float:
        """Check that nothing is due, and return the time until the next request."""
        calls, wake_up = self.telemetry.poll(self.now)
        assert calls == []
        return wake_up - self.now

    def asks(self, reply: Any) -> Call:
        """Check that it requests the subscription, and give it this reply."""
        call = self.call()
        assert isinstance(call.message, GetTelemetrySubscriptionsRequest)
        call.on_reply(reply)
        return call

    def pushes(self, reply: Any) -> Call:
        """Wait for the next push, and give it this reply."""
        self.now += self.waits()
        call = self.call()
        assert isinstance(call.message, PushTelemetryRequest)
        call.on_reply(reply)
        return call

    def finish(self) -> tuple[list[Call], list[Any]]:
        done: list[Any] = []
        return self.telemetry.finish(self.now + 0.5, done.append), done

    def identify(self, timeout_s: float = 5.0) -> list[Any]:
        identified: list[Any] = []
        assert self.telemetry.identify(self.now + timeout_s, identified.append) == []
        return identified


def wanted(**changes: Any) -> GetTelemetrySubscriptionsResponse:
    """Return a subscription to everything."""
    fields: dict[str, Any] = {
        "client_instance_id": ID,
        "subscription_id": 7,
        "accepted_compression_types": [4, 1],
        "push_interval_ms": int(INTERVAL_S * 1000),
        "telemetry_max_bytes": 1 << 20,
        "delta_temporality": True,
        "requested_metrics": ["*"],
    }
    return GetTelemetrySubscriptionsResponse(**{**fields, **changes})


def refused(code: int) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=code)


TAKEN = PushTelemetryResponse()


# --- the subscription ---


def test_the_id_is_asked_for_once_and_kept() -> None:
    rig = Rig()
    assert rig.asks(wanted(requested_metrics=[])).message.client_instance_id == ZERO_UUID
    assert rig.waits() == INTERVAL_S
    rig.now += INTERVAL_S
    assert (
        rig.asks(
            wanted(requested_metrics=[], client_instance_id=ZERO_UUID)
        ).message.client_instance_id
        == ID
    )
    rig.now += INTERVAL_S
    assert rig.asks(wanted()).message.client_instance_id == ID


def test_an_id_is_made_where_the_broker_gives_none() -> None:
    rig = Rig(subscription=wanted(client_instance_id=ZERO_UUID))
    [identified] = rig.identify()
    assert len(identified) == 16
    assert identified != ZERO_UUID


def test_only_one_request_is_open_at_a_time() -> None:
    rig = Rig()
    rig.call()
    assert rig.waits() == NEVER


def test_nothing_is_requested_or_measured_without_a_broker_that_supports_it() -> None:
    rig = Rig()
    rig.pool.up = []
    assert rig.waits() == NEVER
    assert rig.sampler.measured == []
    rig.pool.up = [None]  # a bootstrap server
    assert rig.call().target is ANY_BROKER


def test_latencies_are_measured_only_during_a_subscription() -> None:
    rig = Rig(subscription=wanted(requested_metrics=["com.example."]))
    assert rig.sampler.measured == []
    rig.now += INTERVAL_S
    rig.asks(wanted())
    assert rig.sampler.measured == [True]
    rig.pushes(refused(KafkaError.UNKNOWN_SUBSCRIPTION_ID))
    rig.asks(wanted(requested_metrics=[]))
    assert rig.sampler.measured == [True, False]


def test_an_admin_client_requests_it_only_for_a_call_that_needs_the_id() -> None:
    rig = Rig("admin")
    assert rig.waits() == NEVER
    identified = rig.identify()
    rig.asks(wanted())
    assert identified == [ID]
    assert rig.sampler.measured == []
    assert rig.waits() == NEVER


@pytest.mark.parametrize("interval_ms", [0, -1])
def test_a_missing_interval_gets_the_default(interval_ms: int) -> None:
    rig = Rig(subscription=wanted(push_interval_ms=interval_ms, requested_metrics=[]))
    assert rig.waits() == USUAL_INTERVAL_S


def test_an_interval_that_is_too_short_is_bounded() -> None:
    rig = Rig(subscription=wanted(push_interval_ms=1, requested_metrics=[]))
    assert rig.waits() == pytest.approx(0.1)


@pytest.mark.parametrize("interval_ms", [3_600_001, 2**31 - 1])
def test_an_interval_that_is_too_long_is_bounded(interval_ms: int) -> None:
    rig = Rig(subscription=wanted(push_interval_ms=interval_ms, requested_metrics=[]))
    assert rig.waits() == pytest.approx(3600)


def test_an_unanswered_request_is_retried_after_a_growing_delay() -> None:
    rig = Rig()
    for delay in (1.0, 2.0, 4.0, 8.0):
        rig.asks(TRANSPORT)
        assert rig.waits() == pytest.approx(delay)
        rig.now += delay
    rig.asks(wanted())
    assert rig.waits() == pytest.approx(INTERVAL_S / 2)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.INVALID_CONFIG,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNKNOWN_SUBSCRIPTION_ID,
    ],
)
def test_a_refused_request_is_retried_after_the_interval(code: int) -> None:
    rig = Rig()
    rig.asks(GetTelemetrySubscriptionsResponse(error_code=code))
    assert rig.waits() == USUAL_INTERVAL_S
    rig.now += USUAL_INTERVAL_S
    rig.asks(wanted(requested_metrics=[]))
    rig.now += INTERVAL_S
    rig.asks(GetTelemetrySubscriptionsResponse(error_code=code))
    assert rig.waits() == INTERVAL_S


# --- which metrics ---


def test_prefixes_choose_metrics_and_the_order_stays() -> None:
    everything = SPECS["consumer"]
    assert chosen("consumer", ["*"]) == chosen("consumer", [""]) == everything
    assert chosen("consumer", []) == ()
    assert chosen("consumer", ["org.apache.kafka.producer."]) == ()
    names = [
        spec.name
        for spec in chosen(
            "consumer", ["org.apache.kafka.consumer.poll", "org.apache.kafka.consumer.n"]
        )
    ]
    assert names == ["node.request.latency.avg", "node.request.latency.max", "poll.idle.ratio.avg"]
    assert chosen("consumer", ["*", "x"]) == ()
    assert chosen("admin", ["*"]) == ()


def test_every_metric_that_kip_714_requires_is_there() -> None:
    both = """connection.creation.rate connection.creation.total node.request.latency.avg node.request.latency.max"""
    producer = """produce.throttle.time.avg produce.throttle.time.max record.queue.time.avg record.queue.time.max
        request.latency.avg request.latency.max"""
    consumer = """poll.idle.ratio.avg coordinator.commit.latency.avg coordinator.commit.latency.max
        coordinator.assigned.partitions coordinator.rebalance.latency.avg coordinator.rebalance.latency.max
        coordinator.rebalance.latency.total fetch.manager.fetch.latency.avg fetch.manager.fetch.latency.max"""
    assert {spec.name for spec in SPECS["producer"]} == {*both.split(), *producer.split()}
    assert {spec.name for spec in SPECS["consumer"]} == {*both.split(), *consumer.split()}
    for specs in SPECS.values():
        assert all(spec.is_sum == spec.name.endswith(".total") for spec in specs)


# --- pushing ---


@pytest.mark.parametrize("share", [0.5, 1.25, 1.5])
def test_the_first_push_comes_after_a_share_of_the_interval_and_others_after_a_whole_one(
    share: float,
) -> None:
    rig = Rig(share=share, subscription=wanted())
    assert rig.shares == [(0.5, 1.5)]
    assert rig.waits() == pytest.approx(INTERVAL_S * share)
    rig.pushes(TAKEN)
    assert rig.waits() == pytest.approx(INTERVAL_S)
    rig.pushes(TAKEN)
    assert rig.waits() == pytest.approx(INTERVAL_S)
    assert rig.sampler.settled == 2


def test_the_interval_counts_from_the_answer() -> None:
    rig = Rig(subscription=wanted())
    rig.now += rig.waits()
    call = rig.call()
    rig.now += 3.0
    call.on_reply(TAKEN)
    assert rig.waits() == pytest.approx(INTERVAL_S)


def test_a_push_has_the_client_and_its_metrics() -> None:
    rig = Rig(subscription=wanted(requested_metrics=["org.apache.kafka.producer.connection"]))
    message: PushTelemetryRequest = rig.pushes(TAKEN).message  # type: ignore[assignment]
    assert (message.client_instance_id, message.subscription_id, message.terminating) == (
        ID,
        7,
        False,
    )
    assert message.compression_type == 4
    read = decode(message.compression_type, message.metrics)
    assert read.resource == {"client_rack": "r", "group_member_id": "m"}
    assert read.scope == ("name", "1")
    assert [(each.name, each.value) for each in read.metrics] == [
        ("connection.creation.rate", 1),
        ("connection.creation.total", 1),
    ]
    assert rig.sampler.deltas == [True]


@pytest.mark.parametrize(
    ("accepted", "used"),
    [
        ([4, 3, 2, 1], 4),
        ([1, 4], 1),
        ([3], 3),
        ([2], 2),
        ([], 0),
        ([0, 4], 0),
        ([9, -1, 3], 3),
        ([9], 0),
    ],
)
def test_the_first_codec_of_the_brokers_that_is_known_is_used(
    accepted: list[int], used: int
) -> None:
    rig = Rig(subscription=wanted(accepted_compression_types=accepted))
    message: PushTelemetryRequest = rig.pushes(TAKEN).message  # type: ignore[assignment]
    assert message.compression_type == used
    assert len(decode(used, message.metrics).metrics) == len(SPECS["producer"])


def test_the_same_broker_gets_every_push_while_it_is_up() -> None:
    rig = Rig()
    rig.pool.up = [2, 1]
    assert rig.asks(wanted()).target == 2
    rig.pool.up = [3, 1, 2]
    assert rig.pushes(TAKEN).target == 2
    rig.pool.up = [1, 3]
    assert rig.pushes(TAKEN).target == 1
    rig.pool.up = [2, 3, 1]
    assert rig.pushes(TAKEN).target == 1


def test_an_unanswered_push_is_retried_at_another_broker() -> None:
    rig = Rig(subscription=wanted())
    rig.pushes(TRANSPORT)
    assert rig.sampler.settled == 0
    rig.pool.up = [2]
    assert rig.waits() == pytest.approx(INTERVAL_S)
    assert rig.pushes(TAKEN).target == 2
    assert rig.sampler.settled == 1


# --- errors ---


@pytest.mark.parametrize(
    "code", [KafkaError.UNKNOWN_SUBSCRIPTION_ID, KafkaError.UNSUPPORTED_COMPRESSION_TYPE]
)
def test_an_outdated_subscription_is_requested_at_once_and_pushed_after_a_share_of_the_interval(
    code: int,
) -> None:
    rig = Rig(subscription=wanted())
    rig.pushes(refused(code))
    assert rig.asks(wanted(subscription_id=8)).message.client_instance_id == ID
    assert rig.waits() == pytest.approx(INTERVAL_S / 2)
    message: PushTelemetryRequest = rig.pushes(TAKEN).message  # type: ignore[assignment]
    assert message.subscription_id == 8
    assert rig.log.warnings == []


def test_throttling_delays_the_next_push_by_the_interval() -> None:
    rig = Rig(subscription=wanted())
    rig.pushes(refused(KafkaError.THROTTLING_QUOTA_EXCEEDED))
    assert rig.waits() == pytest.approx(INTERVAL_S)
    rig.pushes(TAKEN)
    assert rig.log.warnings == []


def test_a_push_that_is_too_large_shrinks_until_the_subscription_changes() -> None:
    rig = Rig(subscription=wanted(accepted_compression_types=[]))
    sizes = [
        len(rig.pushes(reply).message.metrics)
        for reply in (*[refused(KafkaError.TELEMETRY_TOO_LARGE)] * 2, TAKEN)
    ]
    assert sizes[1] <= sizes[0] / 2
    assert 0 < sizes[2] <= sizes[1] / 2
    assert len(rig.pushes(refused(KafkaError.UNKNOWN_SUBSCRIPTION_ID)).message.metrics) == sizes[2]
    assert len(rig.log.warnings) == 1
    rig.asks(wanted(accepted_compression_types=[], subscription_id=8))
    assert len(rig.pushes(TAKEN).message.metrics) == sizes[0]


def test_a_push_keeps_to_the_brokers_limit() -> None:
    rig = Rig(subscription=wanted(telemetry_max_bytes=300, accepted_compression_types=[]))
    message: PushTelemetryRequest = rig.pushes(TAKEN).message  # type: ignore[assignment]
    assert 0 < len(message.metrics) <= 300
    rig = Rig(subscription=wanted(telemetry_max_bytes=1))
    message = rig.pushes(TAKEN).message  # type: ignore[assignment]
    assert (message.metrics, message.compression_type) == (b"", 0)


def test_an_invalid_record_is_warned_of_once_and_retried_later() -> None:
    rig = Rig(subscription=wanted())
    for _ in range(3):
        rig.pushes(refused(KafkaError.INVALID_RECORD))
        assert rig.waits() == USUAL_INTERVAL_S
        rig.now += USUAL_INTERVAL_S
        rig.asks(wanted())
    assert len(rig.log.warnings) == 1
    assert "five minutes" in rig.log.warnings[0]


@pytest.mark.parametrize("code", [KafkaError.INVALID_REQUEST, KafkaError.UNSUPPORTED_VERSION])
def test_an_overloaded_broker_gets_no_more_requests(code: int) -> None:
    rig = Rig(subscription=wanted())
    rig.pushes(refused(code))
    assert rig.waits() == NEVER
    assert rig.sampler.measured == [True, False]
    assert len(rig.log.warnings) == 1
    assert rig.finish() == ([], [None])


@pytest.mark.parametrize(
    "code", [KafkaError.INVALID_CONFIG, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, 12345]
)
def test_any_other_error_requests_the_subscription_after_the_interval(code: int) -> None:
    rig = Rig(subscription=wanted())
    rig.pushes(refused(code))
    assert rig.waits() == pytest.approx(INTERVAL_S)
    rig.now += INTERVAL_S
    rig.asks(wanted())


# --- the end ---


def test_the_last_push_is_marked_and_nothing_follows() -> None:
    rig = Rig(subscription=wanted())
    [call], done = rig.finish()
    assert call.message.terminating
    assert (call.deadline, call.target) == (rig.now + 0.5, 1)
    assert done == []
    call.on_reply(TRANSPORT)
    assert done == [None]
    assert rig.waits() == NEVER
    assert rig.finish() == ([], [None])


@pytest.mark.parametrize("metrics", [None, []])
def test_closing_does_not_wait_without_a_subscription(metrics: list[str] | None) -> None:
    rig = Rig()
    if metrics is not None:
        rig.asks(wanted(requested_metrics=metrics))
    assert rig.finish() == ([], [None])


def test_closing_does_not_wait_without_a_broker() -> None:
    rig = Rig(subscription=wanted())
    rig.pool.up = []
    assert rig.finish() == ([], [None])


# --- the id ---


def test_the_id_is_returned_when_it_arrives_and_later_at_once() -> None:
    rig = Rig()
    rig.pool.up = []
    identified = rig.identify()
    call, _ = rig.telemetry.poll(rig.now)
    assert call[0].target is ANY_BROKER  # a waiting call needs a connection
    call[0].on_reply(wanted())
    assert identified == [ID]
    assert rig.identify() == [ID]


def test_a_call_that_waits_for_the_id_gets_the_error() -> None:
    rig = Rig()
    for reply, code in (
        (KafkaError(KafkaError._UNSUPPORTED_FEATURE), KafkaError._UNSUPPORTED_FEATURE),
        (
            GetTelemetrySubscriptionsResponse(error_code=KafkaError.INVALID_CONFIG),
            KafkaError.INVALID_CONFIG,
        ),
    ):
        identified = rig.identify()
        rig.asks(reply)
        assert [error.code() for error in identified] == [code]
    identified = rig.identify()
    rig.telemetry.close(KafkaError(KafkaError._DESTROY))
    assert [error.code() for error in identified] == [KafkaError._DESTROY]


def test_a_call_that_waits_for_the_id_has_a_timeout() -> None:
    rig = Rig()
    identified = rig.identify(5.0)
    calls, wake_up = rig.telemetry.poll(rig.now)
    assert wake_up == rig.now + 5.0
    calls[0].on_reply(TRANSPORT)
    assert identified == []
    rig.now += 5.0
    rig.telemetry.poll(rig.now)
    assert [error.code() for error in identified] == [KafkaError._TIMED_OUT]
