"""The mock cluster and Apache Kafka answer the same group requests equally."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol.coordinator import FindCoordinatorRequest
from kafka_native.protocol.group_admin import ConsumerGroupDescribeRequest, DescribeGroupsRequest
from kafka_native.protocol.groups import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kafka_native.protocol.metadata import MetadataRequest
from kafka_native.protocol.offsets import OffsetDeleteRequest
from kafka_native.protocol.topics import CreateTopicsRequest
from tests.broker import java
from tests.broker.support import running
from tests.mock import test_mock_consumer_groups as modern
from tests.mock import test_mock_groups as classic
from tests.mock.test_mock_group_verbs import assignment, read, subscription
from tests.mock.wire import OneBroker, Wire
from tests.waiting import WAIT_S, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow]
# Targets are computed at once instead of periodically, so that equal steps give equal answers.
AT_ONCE = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
}


class Prepared(OneBroker):
    """A single broker, with the part of a cluster that the members of these tests use."""

    def coordinator_of(self, group: str) -> Any:
        return SimpleNamespace(id=1)

    def topic_id(self, name: str) -> bytes:
        with Wire(self) as wire:
            found = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=name)]), 12).topics[
                0
            ]
        return bytes(found.topic_id)

    def prepare(self) -> None:
        """Create a topic, and wait until the coordinator is ready."""
        deadline = time.monotonic() + WAIT_S
        with Wire(self) as wire:
            topic = CreateTopicsRequest.Topic(name="a", num_partitions=4, replication_factor=1)
            code = (
                wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7)
                .topics[0]
                .error_code
            )
            assert code in (0, ErrorCode.TOPIC_ALREADY_EXISTS)
            while True:
                found = wire.ask(FindCoordinatorRequest(coordinator_keys=["x"]), 4).coordinators[0]
                member = modern.Member(self, "ready", "a")  # type: ignore[arg-type]
                if (
                    found.error_code == 0
                    and member.ask(7).error_code == ErrorCode.GROUP_ID_NOT_FOUND
                ):
                    return
                assert time.monotonic() < deadline, found
                time.sleep(0.1)


@pytest.fixture(scope="module")
def apache() -> Iterator[Prepared]:
    if java.missing():
        pytest.skip(str(java.missing()))
    with running(1, changes=AT_ONCE) as cluster:
        broker = Prepared(cluster.bootstrap.split(",")[0])
        broker.prepare()
        yield broker


@pytest.fixture(scope="module")
def ours() -> Iterator[Prepared]:
    with MockCluster(1) as cluster:
        broker = Prepared(cluster.address(1))
        broker.prepare()
        yield broker


Steps = list[tuple[str, Any]]
Scenario = Callable[[Any, ThreadPoolExecutor, Steps], None]


def modern_bad_joins(cluster: Any, pool: ThreadPoolExecutor, steps: Steps) -> None:
    first = modern.Member(cluster, "1", "a")

    def note(text: str, member: modern.Member, answer: Any) -> None:
        steps.append((text, (ErrorCode(answer.error_code).name, answer.member_epoch)))

    note("an epoch without a group", first, first.ask(1))
    for text, fields in (
        ("no assignor of that name", {"server_assignor": "mine"}),
        ("no timeout", {"rebalance_timeout_ms": -1}),
        ("no subscription", {"subscribed_topic_names": None}),
        ("no owned partitions", {"topic_partitions": None}),
        ("not RE2", {"subscribed_topic_regex": "a(?=b)"}),
        ("not closed", {"subscribed_topic_regex": "a["}),
    ):
        note(text, first, first.join(**fields))
    note("epoch -2 of a dynamic member", first, first.ask(-2))
    note("epoch -3", first, first.ask(-3))


def modern_note(steps: Steps, base: int) -> Callable[[str, modern.Member, Any], None]:
    """Return a function that notes a consumer member's answers, with epochs above ``base``."""

    def note(text: str, member: modern.Member, answer: Any) -> None:
        given = None if answer.assignment is None else len(member.given)
        epoch = answer.member_epoch - base if answer.member_epoch > 0 else answer.member_epoch
        steps.append((text, (ErrorCode(answer.error_code).name, epoch, given)))

    return note


def modern_members(cluster: Any, pool: ThreadPoolExecutor, steps: Steps) -> None:
    first, second = modern.Member(cluster, "1", "a"), modern.Member(cluster, "2", "a")

    answer = first.join()
    base = first.epoch - 1  # a new group's epoch: 0, or 1 from Apache Kafka 4.3 on
    note = modern_note(steps, base)
    note("first joins", first, answer)
    note("first has all", first, first.acknowledge())
    note("second joins", second, second.join())
    note("first is to revoke", first, first.heartbeat())
    note("second waits", second, second.heartbeat())
    note("first has not revoked", first, first.heartbeat())
    note("first has", first, first.acknowledge())
    note("first goes on", first, first.heartbeat())
    note("second gets it", second, second.heartbeat())
    note("second has it", second, second.acknowledge())
    note("a newer epoch", first, first.ask(9))
    first.epoch = base + 2
    note("the previous epoch, without partitions", first, first.ask(base + 1))
    note(
        "the previous epoch, with the owned partitions",
        first,
        first.ask(base + 1, topic_partitions=first.parts()),
    )
    first.epoch = base + 2
    note("a stranger", second, modern.Member(cluster, "3", "a").ask(base + 2))
    full = {
        "subscribed_topic_names": ["a"],
        "rebalance_timeout_ms": 10_000,
        "topic_partitions": first.parts(),
    }
    note("a full heartbeat", first, first.ask(base + 2, **full))
    modern_offsets(cluster, first, base, steps)
    note("first joins again", first, first.join())
    note("and heartbeats", first, first.heartbeat())
    note("and has", first, first.acknowledge())
    note("second goes on", second, second.heartbeat())
    note(
        "second joins also with an expression",
        second,
        second.join(subscribed_topic_regex="nothing"),
    )
    note("second goes on", second, second.acknowledge())
    note("first changes its assignor", first, first.heartbeat(server_assignor="range"))
    note("second goes on", second, second.heartbeat())
    note("second has", second, second.acknowledge())
    note("first has", first, first.acknowledge())
    note("second wants the same assignor", second, second.heartbeat(server_assignor="range"))
    note("second has", second, second.acknowledge())
    note("first has", first, first.acknowledge())
    note("second leaves", second, second.leave())
    note("first moves on", first, first.heartbeat())
    note("second again", second, second.leave())
    note("first leaves", first, first.leave())
    steps.append(("commit without a member, to an empty group", first.commit(6, -1)))


def modern_offsets(cluster: Any, first: modern.Member, base: int, steps: Steps) -> None:
    steps.append(("commit", first.commit(5, base + 2)))
    steps.append(("commit by version 8", first.commit(5, base + 2, version=8)))
    steps.append(("commit of a later epoch", first.commit(5, base + 3)))
    steps.append(("commit without a member", first.commit(5, -1)))
    steps.append(("commit by a stranger", modern.Member(cluster, "3", "a").commit(5, base + 2)))
    steps.append(("fetch", first.committed(base + 2, "1")))
    steps.append(("fetch of an earlier epoch", first.committed(base + 1, "1")))
    steps.append(("fetch by a stranger", first.committed(base + 2, "3")))
    steps.append(("fetch without a member", first.committed(-1)))
    described = first.wire.ask(
        ConsumerGroupDescribeRequest(group_ids=[modern.GROUP, "none"]), 1
    ).groups
    steps.append(
        (
            "described",
            [
                (one.error_code, one.group_state, max(one.group_epoch - base, 0))
                for one in described
            ],
        )
    )
    steps.append(("assignor", described[0].assignor_name))
    other = first.wire.ask(DescribeGroupsRequest(groups=[modern.GROUP]), 6).groups[0]
    steps.append(("described as classic", (other.error_code, other.group_state)))
    part = OffsetDeleteRequest.Topic.Partition(partition_index=0)
    request = OffsetDeleteRequest(
        group_id=modern.GROUP, topics=[OffsetDeleteRequest.Topic(name="a", partitions=[part])]
    )
    steps.append(
        (
            "delete offsets of a subscribed topic",
            first.wire.ask(request).topics[0].partitions[0].error_code,
        )
    )


def modern_static(cluster: Any, pool: ThreadPoolExecutor, steps: Steps) -> None:
    old, other = (
        modern.Member(cluster, "old", "a", instance_id="one"),
        modern.Member(cluster, "o", "a"),
    )
    new = modern.Member(cluster, "new", "a", instance_id="one")

    answer = old.join()
    base = old.epoch - 1  # a new group's epoch: 0, or 1 from Apache Kafka 4.3 on
    note = modern_note(steps, base)
    note("old joins", old, answer)
    old.acknowledge()
    note("other joins", other, other.join())
    old.heartbeat()
    note("old has revoked", old, old.acknowledge())
    note("other gets", other, other.heartbeat())
    other.acknowledge()
    note("new comes too early", new, new.join())
    note("new heartbeats", new, new.ask(base + 2))
    note("old leaves for a while", old, old.leave(-2))
    note("other stays", other, other.heartbeat())
    note("new joins", new, new.join())
    new.acknowledge()
    note("old is gone", old, old.ask(base + 2))
    note("other goes on", other, other.heartbeat())
    note("new leaves", new, new.leave())
    note("other gets the rest", other, other.heartbeat())
    other.leave()


def modern_removals(cluster: Any, pool: ThreadPoolExecutor, steps: Steps) -> None:
    """An administrator removes members of the consumer protocol with LeaveGroup."""
    static = modern.Member(cluster, "static", "a", instance_id="one")
    dynamic = modern.Member(cluster, "dynamic", "a")
    other = modern.Member(cluster, "other", "a")
    for member in (static, dynamic, other):
        assert member.join().error_code == 0

    def remove(text: str, member_id: str, instance_id: str | None, version: int = 5) -> None:
        one = LeaveGroupRequest.Member(member_id=member_id, group_instance_id=instance_id)
        request = LeaveGroupRequest(group_id=modern.GROUP, members=[one])
        answer = other.wire.ask(request, version)
        codes = [ErrorCode(each.error_code).name for each in answer.members]
        steps.append((text, (ErrorCode(answer.error_code).name, codes)))

    remove("no such instance", "", "two")
    remove("another member of the instance", "dynamic", "one")
    remove("the instance", "", "one")
    remove("the instance again", "", "one")
    remove("the dynamic member", "dynamic", None)
    remove("no such member", "nobody", None)
    steps.append(("static is gone", ErrorCode(static.heartbeat().error_code).name))
    steps.append(("dynamic is gone", ErrorCode(dynamic.heartbeat().error_code).name))
    steps.append(("other stays", ErrorCode(other.heartbeat().error_code).name))
    old = LeaveGroupRequest(group_id=modern.GROUP, member_id="other")
    steps.append(("by version 2", ErrorCode(other.wire.ask(old, 2).error_code).name))
    steps.append(("other is gone", ErrorCode(other.heartbeat().error_code).name))


def static_member_returns(
    cluster: Any,
    pool: ThreadPoolExecutor,
    steps: Steps,
    members: tuple[classic.Member, classic.Member],
    version: int,
) -> classic.Member:
    one, two = members

    def note(text: str, code: int) -> None:
        steps.append((text, ErrorCode(code).name))

    back = classic.Member(
        cluster, pool, protocols=subscription("a"), instance_id="one", session_ms=20_000
    )
    answer = back.join_once(version)
    back.id, back.generation, back.protocol = (
        answer.member_id,
        answer.generation_id,
        answer.protocol_name,
    )
    leads = "me" if answer.leader == back.id else "before" if answer.leader == one.id else "other"
    seen = (
        answer.error_code,
        answer.generation_id,
        leads,
        len(answer.members),
        answer.skip_assignment,
    )
    steps.append((f"the static member is back with version {version}", seen))
    note("the old one is fenced", one.heartbeat())
    note("the old one can't commit", one.commit(3) if version < 0 else back.commit(3))
    steps.append(("its assignment", back.sync().assignment))
    note("the other goes on", two.heartbeat())
    return back


def refused_syncs(one: classic.Member, note: Callable[[str, int], None]) -> None:
    silent = SyncGroupRequest(
        group_id=classic.GROUP, generation_id=one.generation, member_id=one.id
    )
    note("sync without a protocol", one.wire.ask(silent, 5).error_code)
    note("sync without a protocol, version 4", one.wire.ask(silent, 4).error_code)
    wrong = SyncGroupRequest(
        group_id=classic.GROUP,
        generation_id=one.generation,
        member_id=one.id,
        protocol_type="other",
    )
    note("sync of another type", one.wire.ask(wrong).error_code)


def classic_members(cluster: Any, pool: ThreadPoolExecutor, steps: Steps) -> None:
    one = classic.Member(
        cluster, pool, protocols=subscription("a"), instance_id="one", session_ms=20_000
    )
    two = classic.Member(cluster, pool, protocols=subscription("a"), session_ms=20_000)

    def note(text: str, code: int) -> None:
        steps.append((text, ErrorCode(code).name))

    note("heartbeat without a group", one.heartbeat(1))
    note("commit without a group", one.commit(1) if one.generation >= 0 else 0)
    joined = one.join()
    steps.append(
        (
            "joined",
            (joined.error_code, joined.generation_id, joined.leader == one.id, len(joined.members)),
        )
    )
    note("commit before the assignment", one.commit(1))
    note("sync", one.sync({one.id: assignment(a=[0, 1, 2, 3])}).error_code)
    note("heartbeat", one.heartbeat())
    note("heartbeat of another generation", one.heartbeat(7))
    note("commit", one.commit(1))
    two.id = "two"
    note("unknown member joins", two.join_once().error_code)
    note("unknown member syncs", two.sync().error_code)
    two.id = ""
    joining = two.start_join()
    note("time to join again", wait_for(one.heartbeat, "the rebalance"))
    note("sync during the rebalance", one.sync().error_code)
    note("commit during the rebalance", one.commit(2))
    again = one.join()
    steps.append(
        (
            "joined again",
            (again.error_code, again.generation_id, len(again.members), again.skip_assignment),
        )
    )
    steps.append(
        (
            "second",
            (joining.result(WAIT_S).error_code, joining.result().generation_id, two.generation),
        )
    )
    waiting = pool.submit(two.sync)
    note("sync of the leader", one.sync({one.id: b"1", two.id: b"2"}).error_code)
    steps.append(("sync of the other", waiting.result(WAIT_S).assignment))
    for version in (8, 9):
        one = static_member_returns(cluster, pool, steps, (one, two), version)
    refused_syncs(one, note)
    stranger = classic.Member(cluster, pool, protocols={"other": b""})
    note("another assignor", stranger.join().error_code)
    note("two leaves", two.leave())
    note("two leaves again", two.leave())
    note("commit without a member", classic.Member(cluster, pool).commit(3))
    note("one leaves", one.leave())
    note("commit without a member, to an empty group", classic.Member(cluster, pool).commit(4))
    steps.append(("committed", one.committed()))


def refused_joins(one: classic.Member, note: Callable[[str, int], None]) -> None:
    for text, fields in (
        ("no session", {"session_timeout_ms": 0}),
        ("a session of days", {"session_timeout_ms": 1 << 30}),
        ("no protocols", {"protocols": []}),
        ("no group", {"group_id": ""}),
        ("a stranger", {"member_id": "stranger"}),
    ):
        request = JoinGroupRequest(
            group_id=classic.GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=1000,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        note(text, one.wire.ask(request, 9).error_code)


def classic_odds(cluster: Any, pool: ThreadPoolExecutor, steps: Steps) -> None:
    one = classic.Member(
        cluster, pool, protocols=subscription("a"), session_ms=20_000, rebalance_ms=1500
    )

    def note(text: str, code: int) -> None:
        steps.append((text, ErrorCode(code).name))

    refused_joins(one, note)
    leaver = LeaveGroupRequest.Member(member_id="stranger")
    left = one.wire.ask(LeaveGroupRequest(group_id=classic.GROUP, members=[leaver]))
    steps.append(
        ("a stranger leaves", (left.error_code, [member.error_code for member in left.members]))
    )
    note("an unknown topic", one.commit(1, topic="none"))
    note("an unknown partition", one.commit(1, partition=9))
    note("too much metadata", one.commit(1, metadata="x" * 5000))
    steps.append(("nothing is stored", one.committed()))
    shown = one.wire.ask(DescribeGroupsRequest(groups=["none"]), 6).groups[0]
    steps.append(("no such group", (shown.error_code, shown.group_state)))
    shown = one.wire.ask(DescribeGroupsRequest(groups=["none"]), 5).groups[0]
    steps.append(("no such group, for older clients", (shown.error_code, shown.group_state)))
    # A follower that doesn't fetch its assignment, and a leader that sends none.
    one.join()
    one.sync({one.id: b"x"})
    two = classic.Member(
        cluster, pool, protocols=subscription("a"), session_ms=20_000, rebalance_ms=1500
    )
    joining = two.start_join()
    wait_for(one.heartbeat, "the rebalance")
    again = one.join()
    steps.append(
        (
            "both are in",
            (again.error_code, joining.result(WAIT_S).error_code, again.leader == one.id),
        )
    )
    note("the follower waits in vain", two.sync().error_code)
    note("the leader is removed", one.heartbeat())
    steps.append(("the follower leads", two.join().leader == two.id))
    note("and sends the assignment", two.sync({two.id: b"y"}).error_code)
    three = classic.Member(
        cluster, pool, protocols=subscription("a"), session_ms=20_000, rebalance_ms=1500
    )
    joining = three.start_join()
    wait_for(two.heartbeat, "the rebalance")
    two.join()
    joining.result(WAIT_S)
    note("the leader assigns", two.sync({two.id: b"y", three.id: b"z"}).error_code)
    note("the group is stable", two.heartbeat())
    note(
        "the follower hasn't fetched its assignment", wait_for(two.heartbeat, "the next rebalance")
    )
    note("the follower is removed", three.heartbeat())
    steps.append(("one is left", len(two.join().members)))
    two.sync({two.id: b"y"})
    joining = classic.Member(
        cluster, pool, protocols=subscription("a"), rebalance_ms=1500
    ).start_join()
    wait_for(two.heartbeat, "the rebalance")
    steps.append(
        ("a late member", (joining.result(WAIT_S).error_code, len(joining.result().members)))
    )
    note("the late member is removed", two.heartbeat())


def protocols_change(cluster: Any, pool: ThreadPoolExecutor, steps: Steps) -> None:
    old = classic.Member(cluster, pool, protocols=subscription("a"), session_ms=20_000)
    new = modern.Member(cluster, "new", "a")

    def note(text: str, code: int) -> None:
        steps.append((text, ErrorCode(code).name))

    old.join()
    old.sync({old.id: assignment(a=[0, 1, 2, 3])})
    note("commit", old.commit(5))
    note("new joins", new.join().error_code)
    steps.append(("epoch", (new.epoch, len(new.given))))
    note("old must join again", old.heartbeat())
    old.protocols = subscription("a", owned={"a": [0, 1, 2, 3]})
    answer = old.join()
    steps.append(
        (
            "old joins again",
            (answer.error_code, answer.generation_id, answer.leader, answer.protocol_name),
        )
    )
    kept = read(old.sync().assignment).get("a", [])
    steps.append(("old keeps", len(kept)))
    note("old must join again, without the rest", old.heartbeat())
    old.protocols = subscription("a", owned={"a": kept})
    answer = old.join()
    steps.append(
        ("old joins without the rest", (answer.error_code, answer.generation_id, answer.leader))
    )
    steps.append(("old keeps the same", len(read(old.sync().assignment).get("a", []))))
    note("old stays", old.heartbeat())
    note("old commits", old.commit(6))
    new.heartbeat()
    steps.append(("new gets", (new.epoch, len(new.given))))
    new.acknowledge()
    note(
        "a foreign assignor",
        classic.Member(cluster, pool, protocols={"x": b"?"}).join_once().error_code,
    )
    stranger = classic.Member(cluster, pool, protocols=subscription("a"))
    stranger.id = "stranger"
    note("a stranger", stranger.join().error_code)
    note("the stranger leaves", stranger.leave())
    note("old must join once again", old.heartbeat())
    note("old joins once again", old.join().error_code)
    note("the same assignment", len(read(old.sync().assignment)["a"]))
    new.acknowledge()
    note("new as a classic member", _with(old, "new").heartbeat(new.epoch))
    note("new leaves", new.leave().error_code)
    wait_for(old.heartbeat, "the rebalance that makes the group classic")
    answer = old.join()
    steps.append(("old leads again", (answer.error_code, answer.leader == old.id)))
    steps.append(("committed", old.committed()))
    old.leave()
    note("new in an empty classic group", new.join().error_code)
    new.leave()


def _with(member: classic.Member, member_id: str) -> classic.Member:
    other = classic.Member.__new__(classic.Member)
    other.__dict__.update(member.__dict__, id=member_id)
    return other


@pytest.mark.parametrize(
    "scenario",
    [
        modern_bad_joins,
        modern_members,
        modern_static,
        modern_removals,
        classic_members,
        classic_odds,
        protocols_change,
    ],
)
def test_groups_answer_as_those_of_apache_kafka(
    scenario: Scenario, apache: Prepared, ours: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (modern, classic):
        monkeypatch.setattr(module, "GROUP", scenario.__name__)
    expected: Steps = []
    got: Steps = []
    with ThreadPoolExecutor(4) as pool:
        scenario(apache, pool, expected)
        scenario(ours, pool, got)
    different = [
        (theirs[0], theirs[1], mine[1])
        for theirs, mine in zip(expected, got, strict=True)
        if theirs != mine
    ]
    assert not different, "\n".join(map(str, different))
