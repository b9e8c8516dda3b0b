"""Client metrics: when the subscription is asked for, when what is pushed to whom, and what errors
change of that.
"""

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
    """Brokers that are up and offer it."""

    def __init__(self) -> None:
        self.up: list[int | None] = [1, 2, 3]
        self.uncontended_calls: list[int] = []

    def offering(self, message: Any) -> list[int | None]:
        return list(self.up)

    def uncontended(self, message: Any, node_id: int) -> int:
        self.uncontended_calls.append(node_id)
        return 1000 + node_id


class FakeSampler:
    """A value for each metric: how many samples there were."""

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
    """What is said aloud."""

    on = False

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def debug(self, text: str, *args: object) -> None:
        assert text % args

    def warning(self, text: str, *args: object) -> None:
        self.warnings.append(text % args)


class Rig:
    """Telemetry, its clock, and the requests that it makes."""

    def __init__(self, kind: str = "producer", *, share: float = 0.5) -> None:
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

    def call(self) -> Call:
        """The request that is due now."""
        calls, wake_up = self.telemetry.poll(self.now)
        [call] = calls
        assert call.deadline == self.now + WAIT_S
        assert wake_up > self.now
        return call

    def waits(self) -> float:
        """Nothing is due: for how long."""
        calls, wake_up = self.telemetry.poll(self.now)
        assert calls == []
        return wake_up - self.now

    def asks(self, reply: Any) -> Call:
        """It asks for the subscription, and gets this reply."""
        call = self.call()
        assert isinstance(call.message, GetTelemetrySubscriptionsRequest)
        call.on_reply(reply)
        return call

    def pushes(self, reply: Any) -> Call:
        """It pushes, when the time has come, and gets this reply."""
        self.now += self.waits()
        call = self.call()
        assert isinstance(call.message, PushTelemetryRequest)
        call.on_reply(reply)
        return call

    def finish(self) -> tuple[list[Call], list[Any]]:
        done: list[Any] = []
        return self.telemetry.finish(self.now + 0.5, done.append), done

    def identify(self, timeout_s: float = 5.0) -> list[Any]:
        told: list[Any] = []
        assert self.telemetry.identify(self.now + timeout_s, told.append) == []
        return told


def wanted(**changes: Any) -> GetTelemetrySubscriptionsResponse:
    """A subscription to everything."""
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
    rig = Rig()
    rig.asks(wanted(client_instance_id=ZERO_UUID))
    [told] = rig.identify()
    assert len(told) == 16
    assert told != ZERO_UUID


def test_nobody_is_asked_twice_at_a_time() -> None:
    rig = Rig()
    rig.call()
    assert rig.waits() == NEVER


def test_nothing_is_asked_or_measured_while_no_broker_offers_it() -> None:
    rig = Rig()
    rig.pool.up = []
    assert rig.waits() == NEVER
    assert rig.sampler.measured == []
    rig.pool.up = [None]  # a bootstrap server
    assert rig.call().target is ANY_BROKER


def test_latencies_are_measured_only_while_something_is_wanted() -> None:
    rig = Rig()
    rig.asks(wanted(requested_metrics=["com.example."]))
    assert rig.sampler.measured == []
    rig.now += INTERVAL_S
    rig.asks(wanted())
    assert rig.sampler.measured == [True]
    rig.pushes(refused(KafkaError.UNKNOWN_SUBSCRIPTION_ID))
    rig.asks(wanted(requested_metrics=[]))
    assert rig.sampler.measured == [True, False]


def test_an_admin_client_asks_only_when_somebody_wants_the_id() -> None:
    rig = Rig("admin")
    assert rig.waits() == NEVER
    told = rig.identify()
    rig.asks(wanted())
    assert told == [ID]
    assert rig.sampler.measured == []
    assert rig.waits() == NEVER


@pytest.mark.parametrize("interval_ms", [0, -1])
def test_the_usual_interval_stands_in_for_none(interval_ms: int) -> None:
    rig = Rig()
    rig.asks(wanted(push_interval_ms=interval_ms, requested_metrics=[]))
    assert rig.waits() == USUAL_INTERVAL_S


def test_an_interval_that_is_too_short_is_bounded() -> None:
    rig = Rig()
    rig.asks(wanted(push_interval_ms=1, requested_metrics=[]))
    assert rig.waits() == pytest.approx(0.1)


@pytest.mark.parametrize("interval_ms", [3_600_001, 2**31 - 1])
def test_an_interval_that_is_too_long_is_bounded(interval_ms: int) -> None:
    rig = Rig()
    rig.asks(wanted(push_interval_ms=interval_ms, requested_metrics=[]))
    assert rig.waits() == pytest.approx(3600)


def test_no_answer_is_asked_for_again_after_a_growing_delay() -> None:
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
def test_a_refused_question_is_asked_again_when_the_interval_is_over(code: int) -> None:
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
def test_the_first_push_comes_after_a_share_of_the_interval_and_others_after_all_of_it(
    share: float,
) -> None:
    rig = Rig(share=share)
    rig.asks(wanted())
    assert rig.shares == [(0.5, 1.5)]
    assert rig.waits() == pytest.approx(INTERVAL_S * share)
    rig.pushes(TAKEN)
    assert rig.waits() == pytest.approx(INTERVAL_S)
    rig.pushes(TAKEN)
    assert rig.waits() == pytest.approx(INTERVAL_S)
    assert rig.sampler.settled == 2


def test_the_interval_counts_from_the_answer() -> None:
    rig = Rig()
    rig.asks(wanted())
    rig.now += rig.waits()
    call = rig.call()
    rig.now += 3.0
    call.on_reply(TAKEN)
    assert rig.waits() == pytest.approx(INTERVAL_S)


def test_a_push_says_whose_it_is_and_what_was_measured() -> None:
    rig = Rig()
    rig.asks(wanted(requested_metrics=["org.apache.kafka.producer.connection"]))
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
    rig = Rig()
    rig.asks(wanted(accepted_compression_types=accepted))
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


def test_a_push_without_an_answer_is_made_up_for_by_another_broker() -> None:
    rig = Rig()
    rig.asks(wanted())
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
def test_what_is_outdated_is_asked_for_at_once_and_pushed_after_a_share_again(code: int) -> None:
    rig = Rig()
    rig.asks(wanted())
    rig.pushes(refused(code))
    assert rig.asks(wanted(subscription_id=8)).message.client_instance_id == ID
    assert rig.waits() == pytest.approx(INTERVAL_S / 2)
    message: PushTelemetryRequest = rig.pushes(TAKEN).message  # type: ignore[assignment]
    assert message.subscription_id == 8
    assert rig.log.warnings == []


def test_throttling_puts_the_next_push_off_by_the_interval() -> None:
    rig = Rig()
    rig.asks(wanted())
    rig.pushes(refused(KafkaError.THROTTLING_QUOTA_EXCEEDED))
    assert rig.waits() == pytest.approx(INTERVAL_S)
    rig.pushes(TAKEN)
    assert rig.log.warnings == []


def test_what_is_too_large_becomes_less_until_the_subscription_changes() -> None:
    rig = Rig()
    rig.asks(wanted(accepted_compression_types=[]))
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


def test_no_more_is_pushed_than_the_broker_takes() -> None:
    rig = Rig()
    rig.asks(wanted(telemetry_max_bytes=300, accepted_compression_types=[]))
    message: PushTelemetryRequest = rig.pushes(TAKEN).message  # type: ignore[assignment]
    assert 0 < len(message.metrics) <= 300
    rig = Rig()
    rig.asks(wanted(telemetry_max_bytes=1))
    message = rig.pushes(TAKEN).message  # type: ignore[assignment]
    assert (message.metrics, message.compression_type) == (b"", 0)


def test_a_record_that_is_no_good_is_warned_of_once_and_tried_again_later() -> None:
    rig = Rig()
    rig.asks(wanted())
    for _ in range(3):
        rig.pushes(refused(KafkaError.INVALID_RECORD))
        assert rig.waits() == USUAL_INTERVAL_S
        rig.now += USUAL_INTERVAL_S
        rig.asks(wanted())
    assert len(rig.log.warnings) == 1
    assert "five minutes" in rig.log.warnings[0]


@pytest.mark.parametrize("code", [KafkaError.INVALID_REQUEST, KafkaError.UNSUPPORTED_VERSION])
def test_a_broker_that_has_had_enough_is_left_alone(code: int) -> None:
    rig = Rig()
    rig.asks(wanted())
    rig.pushes(refused(code))
    assert rig.waits() == NEVER
    assert rig.sampler.measured == [True, False]
    assert len(rig.log.warnings) == 1
    assert rig.finish() == ([], [None])


@pytest.mark.parametrize(
    "code", [KafkaError.INVALID_CONFIG, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, 12345]
)
def test_any_other_error_has_the_subscription_asked_for_when_the_interval_is_over(
    code: int,
) -> None:
    rig = Rig()
    rig.asks(wanted())
    rig.pushes(refused(code))
    assert rig.waits() == pytest.approx(INTERVAL_S)
    rig.now += INTERVAL_S
    rig.asks(wanted())


# --- the end ---


def test_the_last_push_says_so_and_nothing_comes_after_it() -> None:
    rig = Rig()
    rig.asks(wanted())
    [call], done = rig.finish()
    assert call.message.terminating
    assert (call.deadline, call.target) == (rig.now + 0.5, 1)
    assert done == []
    call.on_reply(TRANSPORT)
    assert done == [None]
    assert rig.waits() == NEVER
    assert rig.finish() == ([], [None])


def test_a_consumers_last_push_goes_past_its_fetches() -> None:
    rig = Rig("consumer")
    rig.asks(wanted())
    [call], _ = rig.finish()
    assert call.target == 1001
    assert rig.pool.uncontended_calls == [1]


@pytest.mark.parametrize("metrics", [None, []])
def test_nobody_waits_at_the_end_where_nothing_is_wanted(metrics: list[str] | None) -> None:
    rig = Rig()
    if metrics is not None:
        rig.asks(wanted(requested_metrics=metrics))
    assert rig.finish() == ([], [None])


def test_nobody_waits_at_the_end_where_no_broker_is_up() -> None:
    rig = Rig()
    rig.asks(wanted())
    rig.pool.up = []
    assert rig.finish() == ([], [None])


# --- the id ---


def test_the_id_is_told_as_soon_as_it_is_there_and_then_at_once() -> None:
    rig = Rig()
    rig.pool.up = []
    told = rig.identify()
    call, _ = rig.telemetry.poll(rig.now)
    assert call[0].target is ANY_BROKER  # for somebody who waits a connection is made
    call[0].on_reply(wanted())
    assert told == [ID]
    assert rig.identify() == [ID]


def test_who_waits_for_the_id_is_told_why_there_is_none() -> None:
    rig = Rig()
    for reply, code in (
        (KafkaError(KafkaError._UNSUPPORTED_FEATURE), KafkaError._UNSUPPORTED_FEATURE),
        (
            GetTelemetrySubscriptionsResponse(error_code=KafkaError.INVALID_CONFIG),
            KafkaError.INVALID_CONFIG,
        ),
    ):
        told = rig.identify()
        rig.asks(reply)
        assert [error.code() for error in told] == [code]
    told = rig.identify()
    rig.telemetry.close(KafkaError(KafkaError._DESTROY))
    assert [error.code() for error in told] == [KafkaError._DESTROY]


def test_who_waits_for_the_id_waits_no_longer_than_asked() -> None:
    rig = Rig()
    told = rig.identify(5.0)
    calls, wake_up = rig.telemetry.poll(rig.now)
    assert wake_up == rig.now + 5.0
    calls[0].on_reply(TRANSPORT)
    assert told == []
    rig.now += 5.0
    rig.telemetry.poll(rig.now)
    assert [error.code() for error in told] == [KafkaError._TIMED_OUT]
