"""Other clients run their groups on the mock cluster: members join, leave and come back."""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import aiokafka
import confluent_kafka
import pytest

from kafka_native.mock import MockCluster
from tests.mock.wire import batch
from tests.waiting import WAIT_S

# newer Pythons warn about how kafka-python reads its schemas
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

PARTITIONS = 4
GROUP = "group"


class Runner:
    """A consumer in its own thread. It reads until it is stopped, and commits on command."""

    def __init__(self, cluster: MockCluster, instance_id: str | None = None) -> None:
        self.bootstrap = cluster.bootstrap_servers
        self.instance_id = instance_id
        self.seen: list[tuple[int, bytes]] = []
        self.owned: frozenset[int] = frozenset()
        self.error: BaseException | None = None
        self.must_commit = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._thread.start()

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as error:  # stop() raises it in the test's own thread
            self.error = error

    def run(self) -> None:
        raise NotImplementedError

    @property
    def is_wanted(self) -> bool:
        return not self._stop.is_set()

    def commit(self) -> None:
        self.must_commit.set()
        wait(lambda: not self.must_commit.is_set(), self)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "the client doesn't close"
        if self.error is not None:
            raise self.error


class Confluent(Runner):
    """A confluent_kafka consumer. Subclasses choose the kind of group."""

    options: dict[str, Any] = {"heartbeat.interval.ms": 100}  # noqa: RUF012 - never changed

    def run(self) -> None:
        conf = {
            "bootstrap.servers": self.bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            **self.options,
        }
        conf |= {"log_level": 0, "enable.auto.commit": False}
        if self.instance_id is not None:
            conf["group.instance.id"] = self.instance_id
        consumer = confluent_kafka.Consumer(conf)
        consumer.subscribe(["a"])
        while self.is_wanted:
            for one in consumer.consume(100, 0.05):
                if one.error() is None:
                    self.seen.append((one.partition(), one.value()))
            self.owned = frozenset(one.partition for one in consumer.assignment())
            if self.must_commit.is_set():
                consumer.commit(asynchronous=False)
                self.must_commit.clear()
        consumer.close()


class ConfluentCooperative(Confluent):
    options = {"heartbeat.interval.ms": 100, "partition.assignment.strategy": "cooperative-sticky"}  # noqa: RUF012


class ConfluentModern(Confluent):
    options = {"group.protocol": "consumer"}  # noqa: RUF012


class ConfluentModernRange(Confluent):
    options = {"group.protocol": "consumer", "group.remote.assignor": "range"}  # noqa: RUF012


class KafkaPython(Runner):
    def run(self) -> None:
        options = {} if self.instance_id is None else {"group_instance_id": self.instance_id}
        consumer = kafka.KafkaConsumer(
            "a",
            bootstrap_servers=self.bootstrap.split(","),
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
            **options,
        )
        # A leader that doesn't know the topic would assign nothing, and not notice the topic later.
        while self.is_wanted and not consumer.partitions_for_topic("a"):
            pass
        while self.is_wanted:
            for records in consumer.poll(timeout_ms=50).values():
                self.seen.extend((one.partition, one.value) for one in records)
            self.owned = frozenset(one.partition for one in consumer.assignment())
            if self.must_commit.is_set():
                consumer.commit()
                self.must_commit.clear()
        consumer.close()


class AioKafka(Runner):
    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        async with aiokafka.AIOKafkaConsumer(
            "a",
            bootstrap_servers=self.bootstrap,
            group_id=GROUP,
            group_instance_id=self.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
        ) as consumer:
            while self.is_wanted:
                for records in (await consumer.getmany(timeout_ms=50)).values():
                    self.seen.extend((one.partition, one.value) for one in records)
                self.owned = frozenset(one.partition for one in consumer.assignment())
                if self.must_commit.is_set():
                    await consumer.commit()
                    self.must_commit.clear()


CLIENTS: list[type[Runner]] = [
    Confluent,
    ConfluentCooperative,
    ConfluentModern,
    ConfluentModernRange,
    KafkaPython,
    AioKafka,
]


def wait(what: Callable[[], bool], *runners: Runner) -> None:
    deadline = time.monotonic() + WAIT_S
    while not what():
        for one in runners:
            if one.error is not None:
                raise one.error
        assert time.monotonic() < deadline, [sorted(one.owned) for one in runners]
        time.sleep(0.02)


def share(*runners: Runner) -> bool:
    """Return whether each partition has one owner, and each member at least one partition."""
    owned = [one.owned for one in runners]
    return all(owned) and sorted(index for one in owned for index in one) == list(range(PARTITIONS))


@pytest.fixture
def running(cluster: MockCluster) -> MockCluster:
    cluster.create_topic("a", PARTITIONS)
    cluster.set_heartbeat_interval(0.1)
    return cluster


def fill(cluster: MockCluster, first: int, count: int = 20) -> set[tuple[int, bytes]]:
    """Produce messages to each partition."""
    for index in range(PARTITIONS):
        for number in range(first, first + count):
            cluster.append_raw("a", index, batch(b"%d" % number))
    return {
        (index, b"%d" % number)
        for index in range(PARTITIONS)
        for number in range(first, first + count)
    }


@pytest.mark.parametrize("client", CLIENTS)
def test_members_come_and_go_and_continue_where_others_stopped(
    client: type[Runner], running: MockCluster
) -> None:
    sent = fill(running, 0)
    first = client(running)
    wait(lambda: set(first.seen) == sent, first)
    first.commit()
    assert {one.offset for one in running.group(GROUP).offsets.values()} == {20}
    second = client(running)
    wait(lambda: share(first, second), first, second)
    third = client(running)
    wait(lambda: share(first, second, third), first, second, third)
    third.stop()
    first.stop()
    wait(lambda: len(second.owned) == PARTITIONS, second)
    assert (second.seen, third.seen) == ([], [])  # all of it had been committed
    more = fill(running, 20)
    wait(lambda: len(second.seen) >= len(more), second)
    assert sorted(second.seen) == sorted(more)
    second.stop()
    assert running.group(GROUP).members == {}


@pytest.mark.parametrize("client", CLIENTS)
def test_static_member_comes_back_without_a_rebalance(
    client: type[Runner], running: MockCluster
) -> None:
    first = client(running, "one")
    wait(lambda: len(first.owned) == PARTITIONS, first)
    second = client(running, "two")
    wait(lambda: share(first, second), first, second)
    wait(lambda: running.group(GROUP).state == "Stable")
    generation, owned = running.group(GROUP).generation, second.owned
    second.stop()
    again = client(running, "two")
    wait(lambda: again.owned == owned, first, again)
    assert running.group(GROUP).generation == generation
    assert share(first, again)
    first.stop()
    again.stop()


@pytest.mark.parametrize("client", CLIENTS)
def test_group_recovers_from_what_tests_do_to_it(
    client: type[Runner], running: MockCluster
) -> None:
    first = client(running)
    wait(lambda: len(first.owned) == PARTITIONS, first)
    second = client(running)
    wait(lambda: share(first, second), first, second)
    disturbances: list[tuple[Callable[[], object], bool]] = [
        (lambda: running.rebalance_group(GROUP), True),
        (lambda: running.expel_member(GROUP, next(iter(running.group(GROUP).members))), True),
        (lambda: running.move_coordinator(GROUP, 1), False),
        (lambda: running.move_coordinator(GROUP, 2), False),
        (lambda: running.load_coordinator(GROUP, 0.3), False),
    ]
    if client is AioKafka:
        # it ends at a heartbeat that is answered with COORDINATOR_LOAD_IN_PROGRESS
        disturbances.pop()
    for number, (disturb, rebalances) in enumerate(disturbances):
        before = running.group(GROUP).generation
        disturb()

        def settled(before: int = before, rebalances: bool = rebalances) -> bool:
            group = running.group(GROUP)
            at_rest = group.state == "Stable" and len(group.members) == 2 and share(first, second)
            return at_rest and (not rebalances or group.generation > before)

        wait(settled, first, second)
        # All messages are read before the next step: a client may still be fetching its offsets.
        sent = fill(running, 100 * (number + 1), 2)
        wait(lambda sent=sent: sent <= set(first.seen) | set(second.seen), first, second)  # type: ignore[misc]
    first.stop()
    second.stop()


def test_group_of_confluent_members_changes_its_protocol(running: MockCluster) -> None:
    old = ConfluentCooperative(running)
    wait(lambda: len(old.owned) == PARTITIONS, old)
    new = ConfluentModern(running)
    wait(lambda: share(old, new), old, new)
    assert running.group(GROUP).type == "consumer"
    new.stop()
    wait(lambda: len(old.owned) == PARTITIONS and running.group(GROUP).type == "classic", old)
    old.stop()
