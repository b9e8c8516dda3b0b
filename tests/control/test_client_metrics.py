"""The values of client metrics: changes since the last push that arrived, from all counters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_native._native import snapshots
from kafka_native.control.mean import Mean
from kafka_native.control.metrics import Metric
from kafka_native.control.telemetry import SPECS, RebalanceTimer, Sampler

SECOND_NS = 1_000_000_000


class Rig:
    """A sampler over counters that a test sets."""

    def __init__(self, kind: str, patch: pytest.MonkeyPatch, consumer: Any = None) -> None:
        self.now = 100.0
        self.brokers: dict[int, SimpleNamespace] = {}
        self.means: dict[int, list[tuple[int, int, int]]] = {}
        self.idle_us = 0
        self.pool = SimpleNamespace(connections=0, brokers=lambda: list(self.brokers.values()))
        patch.setattr(snapshots, "means_snapshot", lambda engine, handle: list(self.means[handle]))
        patch.setattr(snapshots, "idle_us", lambda engine: self.idle_us)
        context: Any = SimpleNamespace(engine=None, pool=self.pool)
        self.kind = kind
        self.sampler = Sampler(
            context,
            kind,
            consumer,
            clock=lambda: self.now,
            now_ns=lambda: int(self.now * SECOND_NS),
        )

    def broker(self, handle: int, node_id: int) -> None:
        """Add a connection."""
        self.brokers[handle] = SimpleNamespace(handle=handle, node_id=node_id)
        self.means[handle] = [(0, 0, 0)] * 4

    def values(self, *, delta: bool = True) -> dict[str, Any]:
        """Return a sample without the common name prefix. Values of nodes are by id."""
        metrics, self.times = self.sampler.sample(SPECS[self.kind], delta=delta)
        self.metrics: list[Metric] = metrics
        found: dict[str, Any] = {}
        for metric in metrics:
            name = metric.name.removeprefix(f"org.apache.kafka.{self.kind}.")
            by_node = {
                point.attributes["node_id"]: point.value
                for point in metric.points
                if point.attributes
            }
            found[name] = by_node or metric.points[0].value
        return found


class ConsumerControl:
    """The parts of a consumer that the sampler reads."""

    def __init__(self) -> None:
        self.rebalance = SimpleNamespace(busy=False, count=0)
        self.membership = SimpleNamespace(state=SimpleNamespace(name="OUT"))
        self.member = SimpleNamespace(member_id="")
        self.commits = SimpleNamespace(latency=Mean())
        self.fetches = SimpleNamespace(assigned={})


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Rig:
    rig = Rig("producer", monkeypatch)
    rig.broker(0, -1)
    rig.broker(1, 11)
    rig.broker(2, 12)
    return rig


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> tuple[Rig, ConsumerControl]:
    control = ConsumerControl()
    rig = Rig("consumer", monkeypatch, control)
    rig.broker(0, 11)
    return rig, control


def test_metrics_without_a_value_are_left_out(producer: Rig) -> None:
    assert set(producer.values()) == {"connection.creation.rate", "connection.creation.total"}


def test_latencies_cover_the_time_since_the_last_push(producer: Rig) -> None:
    producer.means[1] = [(4, 8000, 5000), (2, 3000, 2000), (0, 0, 0), (1, 500, 500)]
    producer.means[2] = [(1, 2500, 2500), (1, 6200, 6200), (0, 0, 0), (0, 0, 0)]
    found = producer.values()
    assert found["record.queue.time.avg"] == pytest.approx(10.5 / 5)
    assert found["record.queue.time.max"] == 5
    assert found["request.latency.avg"] == pytest.approx(9.2 / 3)
    assert found["request.latency.max"] == 7  # rounded up
    assert found["node.request.latency.avg"] == {11: pytest.approx(3.5 / 3), 12: pytest.approx(6.2)}
    assert found["node.request.latency.max"] == {11: 2, 12: 7}
    producer.sampler.settle()
    producer.means[1] = [(4, 8000, 0), (3, 4000, 1000), (0, 0, 0), (1, 500, 0)]
    found = producer.values()
    assert "record.queue.time.avg" not in found
    assert found["request.latency.avg"] == found["request.latency.max"] == 1
    assert found["node.request.latency.avg"] == {11: 1}


def test_a_push_that_has_not_arrived_is_in_the_next_one(producer: Rig) -> None:
    producer.means[1][1] = (1, 9000, 9000)
    producer.pool.connections = 2
    producer.now += 10
    assert producer.values()["connection.creation.total"] == 2
    producer.means[1][1] = (2, 10000, 1000)
    producer.pool.connections = 3
    producer.now += 10
    found = producer.values()
    assert (found["request.latency.avg"], found["request.latency.max"]) == (5, 9)
    assert found["connection.creation.total"] == 3
    assert found["connection.creation.rate"] == pytest.approx(3 / 20)
    producer.sampler.settle()
    producer.now += 10
    found = producer.values()
    assert found["connection.creation.total"] == 0
    assert "request.latency.avg" not in found


def test_counts_during_a_push_are_not_lost(producer: Rig) -> None:
    producer.sampler.throttle.record(100)
    assert producer.values()["produce.throttle.time.avg"] == 100
    producer.sampler.throttle.record(20)
    producer.sampler.settle()
    found = producer.values()
    assert (found["produce.throttle.time.avg"], found["produce.throttle.time.max"]) == (20, 20)


def test_cumulative_sums_are_since_the_start_and_deltas_since_the_last_push(producer: Rig) -> None:
    producer.pool.connections = 5
    producer.now += 10
    assert producer.values(delta=False)["connection.creation.total"] == 5
    producer.sampler.settle()
    producer.pool.connections = 7
    producer.now += 10
    assert producer.values(delta=False)["connection.creation.total"] == 7
    assert (producer.times.started, producer.times.since, producer.times.now) == (
        100e9,
        110e9,
        120e9,
    )
    assert producer.values(delta=True)["connection.creation.total"] == 2


def test_counts_survive_brokers_that_come_and_go(producer: Rig) -> None:
    producer.means[1][1] = (10, 10000, 1000)
    producer.values()
    del producer.brokers[1]
    producer.broker(3, 11)
    producer.means[3][1] = (1, 3000, 3000)
    found = producer.values()
    assert found["request.latency.avg"] == pytest.approx(13 / 11)
    assert found["node.request.latency.max"] == {11: 3}


def test_only_chosen_metrics_are_pushed_and_the_others_are_kept(producer: Rig) -> None:
    producer.pool.connections = 1
    metrics, _ = producer.sampler.sample(SPECS["producer"][1:2], delta=True)
    assert [metric.name for metric in metrics] == [
        "org.apache.kafka.producer.connection.creation.total"
    ]


def test_labels_name_no_topic(producer: Rig) -> None:
    producer.means[1] = [(1, 1, 1)] * 4
    producer.values()
    assert {
        label
        for metric in producer.metrics
        for point in metric.points
        for label in point.attributes
    } == {"node_id"}


def test_a_consumers_figures(consumer: tuple[Rig, ConsumerControl]) -> None:
    rig, control = consumer
    control.fetches.assigned = dict.fromkeys("abc")
    control.commits.latency.record(12.5)
    rig.means[0] = [(0, 0, 0), (0, 0, 0), (2, 600_000, 500_000), (1, 2000, 2000)]
    rig.idle_us = 7_500_000
    rig.now += 10
    found = rig.values()
    assert found["poll.idle.ratio.avg"] == pytest.approx(0.75)
    assert found["coordinator.assigned.partitions"] == 3
    assert (found["coordinator.commit.latency.avg"], found["coordinator.commit.latency.max"]) == (
        12.5,
        13,
    )
    assert (found["fetch.manager.fetch.latency.avg"], found["fetch.manager.fetch.latency.max"]) == (
        300,
        500,
    )
    assert found["node.request.latency.max"] == {11: 500}
    rig.sampler.settle()
    rig.now += 10
    assert rig.values()["poll.idle.ratio.avg"] == 0


def test_a_client_that_left_the_group_keeps_its_member_id(
    consumer: tuple[Rig, ConsumerControl],
) -> None:
    rig, control = consumer
    assert rig.sampler.resource == {}
    control.member.member_id = "m-1"
    assert rig.sampler.resource == {"group_member_id": "m-1"}
    control.member.member_id = ""
    assert rig.sampler.resource == {"group_member_id": "m-1"}


class Group:
    """A membership that changes its state, as the watch sees it."""

    def __init__(self) -> None:
        self.control = ConsumerControl()
        control: Any = self.control
        self.watch = RebalanceTimer(control)

    def at(self, now: float, state: str, *, busy: bool = False, steps: int = 0) -> None:
        self.control.membership.state.name = state
        self.control.rebalance.busy = busy
        self.control.rebalance.count = steps
        self.watch.poll(now)


def test_a_rebalance_lasts_from_joining_to_the_end_of_its_last_step() -> None:
    group = Group()
    group.at(0.0, "OUT")
    group.at(1.0, "UNJOINED")
    group.at(1.1, "JOINING")
    group.at(1.2, "SYNCING")
    group.at(1.3, "STABLE", busy=True)
    assert group.watch.latency.take()[0] == 0
    group.at(1.5, "STABLE", steps=1)
    group.at(9.0, "STABLE", steps=1)
    assert group.watch.latency.take() == (1, pytest.approx(500), pytest.approx(500))
    assert group.watch.total_ms == pytest.approx(500)


def test_a_rebalance_within_one_turn_counts_with_no_time() -> None:
    group = Group()
    group.at(0.0, "JOINED")
    group.at(1.0, "JOINED", steps=1)
    assert group.watch.latency.take() == (1, 0, 0)


def test_leaving_the_group_counts_as_no_rebalance() -> None:
    group = Group()
    group.at(0.0, "JOINED")
    group.at(1.0, "LEAVING", busy=True)
    group.at(2.0, "OUT", steps=1)
    assert group.watch.latency.take()[0] == 0
    assert group.watch.total_ms == 0
