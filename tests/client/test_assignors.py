"""Assignment strategies on the mock cluster: built-in ones, lists of them, and custom ones."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from kafka_native import Assignor, Consumer, KafkaError, MemberSubscription, PartitionInfo
from tests.waiting import WAIT_S

from .support import Client

GROUPS = itertools.count()
Key = tuple[str, int]
Partitions = Mapping[str, list[PartitionInfo]]
Members = Mapping[str, MemberSubscription]


@pytest.fixture
def join(client: Client) -> Iterator[Callable[..., Consumer]]:
    """Yield a function that returns a new member of one group. It subscribes to a topic."""
    group = {"group.id": f"strategy-{next(GROUPS)}", "heartbeat.interval.ms": 100}
    with ExitStack() as stack:

        def join_group(topic: str, strategy: Any, **conf: Any) -> Consumer:
            settings = {**group, "topic.metadata.refresh.fast.interval.ms": 50, **conf}
            settings["partition.assignment.strategy"] = strategy
            consumer = stack.enter_context(client.consumer(**settings))
            consumer.subscribe([topic])
            return consumer

        yield join_group


def owned(consumer: Consumer) -> set[Key]:
    return {(each.topic, each.partition) for each in consumer.assignment()}


def drive(consumers: list[Consumer], done: Callable[[], bool]) -> list[KafkaError]:
    """Poll all consumers until ``done()``, and return their errors."""
    errors = []
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline, [owned(each) for each in consumers]
        for consumer in consumers:
            message = consumer.poll(0.01)
            if message is not None and (error := message.error()) is not None:
                errors.append(error)
    return errors


def shares(consumers: list[Consumer], *counts: int) -> Callable[[], bool]:
    """Return a condition: so many partitions are assigned, each once."""

    def settled() -> bool:
        each = [owned(consumer) for consumer in consumers]
        return sorted(map(len, each)) == sorted(counts) and len(set().union(*each)) == sum(counts)

    return settled


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_group_stays_balanced_when_members_come_and_go(
    client: Client, join: Any, strategy: str
) -> None:
    topic = client.topic(6)
    consumers = [join(topic, strategy) for _ in range(2)]
    assert drive(consumers, shares(consumers, 3, 3)) == []
    before = [owned(consumer) for consumer in consumers]
    consumers.append(join(topic, strategy))
    assert drive(consumers, shares(consumers, 2, 2, 2)) == []
    if "sticky" in strategy:
        for consumer, had in zip(consumers, before, strict=False):
            assert owned(consumer) < had, "the other members keep two each"
    consumers.pop(0).close()
    assert drive(consumers, shares(consumers, 3, 3)) == []


def test_group_chooses_a_strategy_that_all_members_have(client: Client, join: Any) -> None:
    topic = client.topic(5)
    first = join(topic, ["sticky", "roundrobin"], **{"group.instance.id": "a"})
    consumers = [first, join(topic, "range,roundrobin", **{"group.instance.id": "b"})]
    drive(consumers, shares(consumers, 2, 3))
    assert owned(first) == {(topic, 0), (topic, 2), (topic, 4)}, "round robin"


class Weighted(Assignor):
    """Assigns partitions by the weight that each member sends."""

    name = "weighted"

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.assignments: list[tuple[list[Key], int]] = []

    def user_data(self, topics: list[str], owned: list[Key], generation: int) -> bytes:
        return str(self.weight).encode()

    def assign(self, partitions: Partitions, members: Members) -> dict[str, list[Key]]:
        turns = [m for m in sorted(members) for _ in range(int(members[m].user_data or b"1"))]
        keys = [(topic, each.number) for topic in sorted(partitions) for each in partitions[topic]]
        found: dict[str, list[Key]] = {}
        for key, member_id in zip(keys, itertools.cycle(turns), strict=False):
            found.setdefault(member_id, []).append(key)
        return found

    def on_assignment(self, partitions: list[Key], generation: int) -> None:
        self.assignments.append((partitions, generation))


def test_custom_strategy_of_the_application(client: Client, join: Any) -> None:
    topic = client.topic(8)
    assignors = [Weighted(3), Weighted(1)]
    consumers = [join(topic, each) for each in assignors]
    drive(consumers, shares(consumers, 6, 2))
    assert [len(owned(consumer)) for consumer in consumers] == [6, 2]
    for consumer, assignor in zip(consumers, assignors, strict=True):
        partitions, generation = assignor.assignments[-1]
        assert set(partitions) == owned(consumer)
        assert generation > 0


class Wrong(Weighted):
    """Returns wrong assignments at first."""

    def __init__(self, wrong: Callable[[dict[str, list[Key]]], Any]) -> None:
        super().__init__(1)
        self.wrong: Callable[[dict[str, list[Key]]], Any] | None = wrong

    def assign(self, partitions: Partitions, members: Members) -> dict[str, list[Key]]:
        right = super().assign(partitions, members)
        wrong, self.wrong = self.wrong, None
        return right if wrong is None else wrong(right)


def raising(right: dict[str, list[Key]]) -> None:
    raise ZeroDivisionError("no idea")


def twice(right: dict[str, list[Key]]) -> dict[str, list[Key]]:
    return {member_id: [*keys, keys[0]] for member_id, keys in right.items()}


def stranger(right: dict[str, list[Key]]) -> dict[str, list[Key]]:
    return {"stranger": next(iter(right.values()))}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (raising, "ZeroDivisionError: no idea"),
        (twice, "a partition twice"),
        (stranger, "'stranger', which is no member"),
    ],
)
def test_failed_strategy_is_a_clear_error_and_is_called_again(
    client: Client, join: Any, wrong: Callable[[dict[str, list[Key]]], Any], text: str
) -> None:
    consumer = join(client.topic(2), Wrong(wrong))
    errors = drive([consumer], shares([consumer], 2))
    assert any(text in error.str() for error in errors), errors
