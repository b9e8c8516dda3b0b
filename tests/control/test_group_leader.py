"""The leader of a classic group: it knows all topics, assigns, reports failures, and watches."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native.control.assignors import Assignor, wire
from kafka_native.errors import KafkaError
from kafka_native.protocol.groups import JoinGroupRequest

from .classic import Group, subscription

T0, T1, T2, T3 = (("t", number) for number in range(4))


def lead(group: Group, call: Any = None, generation: int = 1, **members: bytes) -> None:
    call = group.join() if call is None else call
    group.joined(call, generation, leader="me", members=members)


def assigned(call: Any) -> dict[str, list[tuple[str, int]]]:
    """Return the assignment in a leader's SyncGroup."""
    return {
        each.member_id: wire.unpack_assignment(each.assignment) for each in call.message.assignments
    }


def test_leader_assigns_to_all():
    group = Group(subscribed="t")
    lead(group, me=subscription(["t"]), other=subscription(["t"]))
    call = group.sync()
    assert assigned(call) == {"me": [T0, T1], "other": [T2, T3]}
    group.synced(call, T0, T1)
    assert group.log == [("assign", [T0, T1])]


def test_leader_asks_for_the_topics_of_others_and_heartbeats_meanwhile():
    group = Group(subscribed="t")
    lead(group, me=subscription(["t"]), other=subscription(["u"]))
    group.quiet()
    assert group.pool.heartbeating is not None
    group.metadata.learn("u", 2)
    assert assigned(group.sync()) == {"me": [T0, T1, T2, T3], "other": [("u", 0), ("u", 1)]}


def test_leader_does_without_topics_that_do_not_come():
    group = Group(subscribed="t")
    lead(group, me=subscription(["t"]), other=subscription(["missing"]))
    [call] = group.wait(6.0)
    assert assigned(call) == {"me": [T0, T1, T2, T3], "other": []}


def test_leader_does_not_wait_for_topics_that_are_known_to_be_missing():
    group = Group(subscribed="t")
    group.metadata.want("missing", 0.0).missing_since = 1.0
    lead(group, me=subscription(["t", "missing"]))
    assert assigned(group.sync()) == {"me": [T0, T1, T2, T3]}


def test_hostile_metadata_gets_nothing():
    group = Group(subscribed="t")
    lead(group, me=subscription(["t"]), evil=b"\0\1\x7f\xff\xff\xff", empty=b"")
    assert assigned(group.sync()) == {"me": [T0, T1, T2, T3], "evil": [], "empty": []}


def test_leader_rejoins_when_partition_counts_change():
    group = Group(topics={"t": 4}, subscribed="t")
    lead(group, me=subscription(["t"]), other=subscription(["u"]))
    group.metadata.learn("u", 2)
    group.synced(group.sync(), T0)
    group.metadata.learn("t", 4)
    group.quiet()
    group.metadata.learn("u", 3)  # a topic that only the other member wants
    request: Any = group.join().message
    assert "u has 3 partitions" in request.reason


def test_follower_does_not_rejoin_when_partition_counts_change():
    group = Group(subscribed="t")
    group.enter(T0)
    group.metadata.learn("t", 8)
    group.quiet()


def test_leader_forgets_the_topics_of_others():
    group = Group(subscribed="t")
    lead(group, me=subscription(["t"]), other=subscription(["u"]))
    group.metadata.learn("u", 2)
    group.synced(group.sync(), T0)
    assert "u" in group.metadata.topics
    group.heartbeat(KafkaError.REBALANCE_IN_PROGRESS)
    group.joined(group.join(), 2)
    assert "u" not in group.metadata.topics
    assert "t" in group.metadata.topics


class BrokenAssignor(Assignor):
    """Raises, or gives a partition to two members."""

    name = "broken"

    def __init__(self, way: str) -> None:
        self.way = way

    def user_data(self, topics: list[str], owned: list[Any], generation: int) -> bytes | None:
        if self.way == "user_data":
            raise RuntimeError("no data today")
        return None

    def on_assignment(self, partitions: list[Any], generation: int) -> None:
        if self.way == "on_assignment":
            raise RuntimeError("not for me")

    def assign(self, partitions: Any, members: Any) -> Any:
        if self.way == "raises":
            raise RuntimeError("out of order")
        return {each: [T0] for each in members} if self.way == "twice" else {"me": [T0]}


@pytest.mark.parametrize(("way", "text"), [("raises", "out of order"), ("twice", "both to")])
def test_assignor_that_fails_is_reported_and_the_group_goes_on(way: str, text: str):
    assignor = BrokenAssignor(way)
    group = Group([assignor], subscribed="t")
    lead(group, me=subscription(["t"]), other=subscription(["t"]))
    group.quiet()
    assert text in group.errors[0].str()
    assert "broken" in group.errors[0].str()
    # otherwise the group would wait for the end of its session
    assert group.pool.heartbeating is not None
    tries = 0
    for _ in range(60):
        for call in group.wait(1.0):
            tries += 1
            lead(group, call, tries + 1, me=subscription(["t"]), other=subscription(["t"]))
    assert 4 <= tries <= 12
    group.quiet()
    assignor.way = "right"
    [call] = group.wait(12.0)
    lead(group, call, 100, me=subscription(["t"]), other=subscription(["t"]))
    assert assigned(group.sync()) == {"me": [T0], "other": []}


@pytest.mark.parametrize("way", ["user_data", "on_assignment"])
def test_assignor_of_a_member_that_raises_is_reported(way: str):
    group = Group([BrokenAssignor(way)], subscribed="t")
    group.enter(T0)
    assert "RuntimeError" in group.errors[0].str()
    assert group.log == [("assign", [T0])]


def test_racks_of_replicas_reach_the_assignor():
    seen: list[Any] = []

    class RecordingAssignor(BrokenAssignor):
        """Records its input."""

        def assign(self, partitions: Any, members: Any) -> Any:
            seen.append((partitions, members))
            return {}

    group = Group([RecordingAssignor("right")])
    group.pool.nodes = {node: type("Broker", (), {"rack": f"r{node}"})() for node in (1, 2)}
    group.metadata.learn("t", 1, replicas=(1, 2, 9))
    group.subscribe("t")
    lead(group, me=subscription(["t"]))
    group.sync()
    [(partitions, members)] = seen
    assert [(each.number, each.racks) for each in partitions["t"]] == [(0, {"r1", "r2"})]
    assert members["me"].topics == ["t"]


def test_coordinator_that_is_lost_while_the_leader_waits():
    group = Group(subscribed="t")
    lead(group, me=subscription(["u"]))
    group.coordinator.hidden = True
    group.heartbeat_fails()
    group.metadata.learn("u", 1)
    group.quiet()
    group.coordinator.find()
    assert any(isinstance(call.message, JoinGroupRequest) for call in group.turn())
