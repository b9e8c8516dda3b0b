"""The KIP-848 coordinator on the wire: epochs, reconciliation, fencing, static members, regexes."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol.group_admin import (
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka_native.protocol.groups import ConsumerGroupHeartbeatRequest, LeaveGroupRequest
from kafka_native.protocol.offsets import OffsetCommitRequest, OffsetFetchRequest
from tests.mock.wire import Wire

GROUP = "group"
Request = ConsumerGroupHeartbeatRequest


class Member:
    """A member that sends a consumer's requests by hand."""

    def __init__(self, cluster: MockCluster, member_id: str, *topics: str, **options: Any) -> None:
        coordinator = cluster.coordinator_of(GROUP)
        assert coordinator is not None
        self.cluster = cluster
        self.wire = Wire(cluster, coordinator.id)
        self.id = member_id
        self.topics = list(topics)
        self.epoch = 0
        self.owned: set[tuple[bytes, int]] = set()
        self.instance_id: str | None = options.pop("instance_id", None)
        self.options = options

    def parts(self) -> list[Request.TopicPartitions]:
        topics = sorted({topic_id for topic_id, _ in self.owned})
        return [
            Request.TopicPartitions(
                topic_id=one,
                partitions=sorted(index for other, index in self.owned if other == one),
            )
            for one in topics
        ]

    def ask(self, epoch: int, version: int = 1, **fields: Any) -> Any:
        request = Request(
            group_id=GROUP,
            member_id=self.id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            **fields,
        )
        response = self.wire.ask(request, version)
        if response.error_code == 0:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                given = response.assignment.topic_partitions
                self.given = {(one.topic_id, index) for one in given for index in one.partitions}
        return response

    def join(self, version: int = 1, **fields: Any) -> Any:
        self.owned, self.given = set(), set()
        fields = {
            "subscribed_topic_names": self.topics,
            "topic_partitions": [],
            **self.options,
            **fields,
        }
        return self.ask(
            0, version, rebalance_timeout_ms=fields.pop("rebalance_timeout_ms", 10_000), **fields
        )

    def heartbeat(self, **fields: Any) -> Any:
        return self.ask(self.epoch, **fields)

    def acknowledge(self) -> Any:
        """Own the assigned partitions, and confirm that."""
        self.owned = set(self.given)
        return self.heartbeat(topic_partitions=self.parts())

    def leave(self, epoch: int = -1) -> Any:
        return self.ask(epoch)

    @property
    def numbers(self) -> list[int]:
        return sorted(index for _, index in self.given)

    def commit(self, offset: int, epoch: int, version: int = 9) -> int:
        part = OffsetCommitRequest.Topic.Partition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        topic = OffsetCommitRequest.Topic(
            name="a", topic_id=self.cluster.topic_id("a"), partitions=[part]
        )
        request = OffsetCommitRequest(
            group_id=GROUP, generation_id_or_member_epoch=epoch, member_id=self.id, topics=[topic]
        )
        if version < 10:
            topic.topic_id = bytes(16)
        return int(self.wire.ask(request, version).topics[0].partitions[0].error_code)

    def committed(self, epoch: int, member_id: str | None = None, version: int = 9) -> Any:
        topic = OffsetFetchRequest.Group.Topic(
            name="a", topic_id=self.cluster.topic_id("a"), partition_indexes=[0]
        )
        if version < 10:
            topic.topic_id = bytes(16)
        asked = OffsetFetchRequest.Group(
            group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=[topic]
        )
        found = self.wire.ask(
            OffsetFetchRequest(groups=[asked], require_stable=True), version
        ).groups[0]
        return found.error_code or found.topics[0].partitions[0].committed_offset


def settled(*members: Member) -> list[list[int]]:
    """Send heartbeats of all members until the group is stable. Return each member's partitions."""
    for _ in range(10):
        for member in members:
            assert member.acknowledge().error_code == 0
        is_reported = all(member.owned == member.given for member in members)
        if is_reported and members[0].cluster.group(GROUP).state == "Stable":
            return [member.numbers for member in members]
    raise AssertionError([(member.epoch, member.numbers) for member in members])


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_partition_gets_its_new_owner_after_the_old_one_revoked_it(
    assignor: str, cluster: MockCluster
) -> None:
    cluster.create_topic("a", 4)
    first = Member(cluster, "1", "a", server_assignor=assignor)
    second = Member(cluster, "2", "a", server_assignor=assignor)
    response = first.join()
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == (
        "1",
        1,
        500,
    )
    assert first.numbers == [0, 1, 2, 3]
    assert first.acknowledge().assignment is None
    assert second.join().member_epoch == 2
    assert second.numbers == []  # the first member still owns everything
    # it must revoke two, and stays in its epoch until then
    assert first.heartbeat().member_epoch == 1
    assert len(first.numbers) == 2
    kept = first.numbers
    assert second.heartbeat().assignment is None
    assert first.heartbeat().member_epoch == 1
    assert cluster.group(GROUP).state == "Reconciling"
    assert first.acknowledge().member_epoch == 2
    assert first.numbers == kept
    assert sorted(second.numbers + first.numbers) == kept
    assert second.heartbeat().error_code == 0
    assert sorted(second.numbers + first.numbers) == [0, 1, 2, 3]
    second.acknowledge()
    info = cluster.group(GROUP)
    assert (info.state, info.type, info.generation, info.protocol) == (
        "Stable",
        "consumer",
        2,
        assignor,
    )
    assert info.members["1"].assignment == [("a", index) for index in kept]


def test_partitions_of_members_that_leave_or_expire_are_reassigned(cluster: MockCluster) -> None:
    cluster.create_topic("a", 3)
    first, second = Member(cluster, "1", "a"), Member(cluster, "2", "a")
    assert (first.join().error_code, second.join().error_code) == (0, 0)
    settled(first, second)
    assert second.leave().member_epoch == -1
    assert [one.member_id for one in cluster.group(GROUP).left] == ["2"]
    assert settled(first) == [[0, 1, 2]]
    assert second.ask(3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    second.join()
    settled(first, second)
    cluster.advance(30)
    first.acknowledge()
    assert len(cluster.group(GROUP).members) == 2
    cluster.advance(30)  # sessions end after 45 s of silence
    assert settled(first) == [[0, 1, 2]]
    assert len(cluster.group(GROUP).members) == 1
    assert second.ask(second.epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_does_not_revoke_in_time_is_removed(cluster: MockCluster) -> None:
    cluster.create_topic("a", 2)
    slow, other = (
        Member(cluster, "slow", "a", rebalance_timeout_ms=20_000),
        Member(cluster, "2", "a"),
    )
    slow.join()
    slow.acknowledge()
    other.join()
    assert slow.heartbeat().member_epoch == 1
    cluster.advance(19)
    assert slow.ask(1).error_code == 0
    other.acknowledge()
    assert other.numbers != [0, 1]
    cluster.advance(2)
    slow.ask(1)
    assert settled(other) == [[0, 1]]
    assert slow.ask(1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_epochs_are_checked(cluster: MockCluster) -> None:
    cluster.create_topic("a", 2)
    member, other = Member(cluster, "1", "a"), Member(cluster, "2", "a")
    assert member.ask(3).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    member.join()
    member.acknowledge()
    assert other.ask(3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.ask(9).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    cluster.rebalance_group(GROUP)
    assert member.heartbeat().member_epoch == 2
    # A response may be lost, so the previous epoch is valid with the assigned partitions.
    assert member.ask(1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert member.ask(1, topic_partitions=member.parts()).member_epoch == 2
    answer = member.ask(
        2, subscribed_topic_names=["a"], rebalance_timeout_ms=500, topic_partitions=member.parts()
    )
    assert answer.assignment is not None  # a full heartbeat gets the full assignment
    cluster.fence_member(GROUP, "1")
    answer = member.heartbeat()
    assert (answer.error_code, bool(answer.error_message)) == (ErrorCode.FENCED_MEMBER_EPOCH, True)
    assert member.join().error_code == 0
    assert member.numbers == [0, 1]
    cluster.expel_member(GROUP, "1")
    assert member.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "a["}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "a(?=b)"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": r"(a)\1"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_bad_joins_are_refused(fields: dict[str, Any], code: int, cluster: MockCluster) -> None:
    member = Member(cluster, "1", "a")
    assert member.join(**fields).error_code == code
    assert member.ask(-2).error_code == ErrorCode.INVALID_REQUEST
    assert member.ask(-3).error_code == ErrorCode.INVALID_REQUEST
    member.id = ""
    assert member.join().error_code == ErrorCode.INVALID_REQUEST
    assert member.join(version=0).member_id


def test_regular_expression_follows_the_topics(cluster: MockCluster) -> None:
    for name in ("log-a", "log-b", "else"):
        cluster.create_topic(name)
    member = Member(cluster, "1")
    member.join(subscribed_topic_regex="log-.*", subscribed_topic_names=None)
    assert {topic_id for topic_id, _ in member.given} == {
        cluster.topic_id("log-a"),
        cluster.topic_id("log-b"),
    }
    member.acknowledge()
    cluster.create_topic("log-c", 2)
    assert member.heartbeat().member_epoch == 2
    assert len(member.given) == 4
    cluster.create_partitions("log-a", 3)
    member.acknowledge()
    assert len(member.given) == 6
    member.heartbeat(subscribed_topic_regex="", subscribed_topic_names=["else"])
    assert settled(member) == [[0]]
    cluster.deny_topic("else")
    assert (
        member.heartbeat(subscribed_topic_names=["else"]).error_code
        == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )


def test_static_member_leaves_for_a_while(cluster: MockCluster) -> None:
    cluster.create_topic("a", 4)
    other = Member(cluster, "o", "a")
    old = Member(cluster, "old", "a", instance_id="one")
    new = Member(cluster, "new", "a", instance_id="one")
    old.join()
    other.join()
    before = settled(other, old)
    assert new.join().error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert old.leave(-2).member_epoch == -2
    other.acknowledge()
    assert other.numbers == before[0]  # the static member's partitions are kept for it
    assert new.join().error_code == 0
    assert new.numbers == before[1]
    assert new.epoch == other.epoch == 2  # no rebalance
    assert old.ask(2).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert new.leave(-1).member_epoch == -1
    assert settled(other) == [[0, 1, 2, 3]]


def test_a_new_assignor_of_the_group_raises_its_epoch(cluster: MockCluster) -> None:
    cluster.create_topic("a", 4)
    one, two = Member(cluster, "1", "a"), Member(cluster, "2", "a")
    one.join()
    two.join()
    settled(one, two)
    epoch = cluster.group(GROUP).generation
    one.heartbeat(server_assignor="range")
    assert cluster.group(GROUP).generation == epoch + 1
    two.heartbeat(server_assignor="range")
    assert cluster.group(GROUP).generation == epoch + 1  # the group's assignor is the same


def test_administrator_removes_a_static_member(cluster: MockCluster) -> None:
    cluster.create_topic("a", 4)
    one, two = Member(cluster, "1", "a", instance_id="one"), Member(cluster, "2", "a")
    one.join()
    two.join()
    assert len(settled(one, two)) == 2

    def remove(member_id: str, instance_id: str | None) -> int:
        leaver = LeaveGroupRequest.Member(member_id=member_id, group_instance_id=instance_id)
        answer = two.wire.ask(LeaveGroupRequest(group_id=GROUP, members=[leaver]))
        return int(answer.members[0].error_code)

    assert remove("2", "one") == ErrorCode.FENCED_INSTANCE_ID
    assert remove("", "one") == 0
    assert remove("", "one") == ErrorCode.UNKNOWN_MEMBER_ID
    assert one.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert settled(two) == [[0, 1, 2, 3]]
    assert remove("2", None) == 0
    assert cluster.group(GROUP).members == {}


def test_offsets_are_checked_against_the_member_epoch(cluster: MockCluster) -> None:
    cluster.create_topic("a", 1)
    member, nobody = Member(cluster, "1", "a"), Member(cluster, "nobody", "a")
    assert member.commit(1, 1, 8) == ErrorCode.ILLEGAL_GENERATION
    assert member.commit(1, 1) == ErrorCode.GROUP_ID_NOT_FOUND
    member.join()
    assert member.commit(5, 1) == 0
    assert member.commit(6, 1, version=10) == 0
    assert member.commit(7, 1, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert member.commit(7, 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert member.commit(7, 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert nobody.commit(7, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert nobody.commit(7, -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.committed(1, "1") == 6
    assert member.committed(1, "1", version=10) == 6
    assert nobody.committed(-1) == 6
    assert member.committed(0, "1") == ErrorCode.STALE_MEMBER_EPOCH
    assert nobody.committed(1, "nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    member.leave()
    assert nobody.commit(8, -1) == 0
    assert cluster.group(GROUP).offsets["a", 0].offset == 8


def test_group_is_described_and_listed(cluster: MockCluster) -> None:
    cluster.create_topic("a", 1)
    member = Member(cluster, "1", "a", instance_id="one", rack_id="r")
    member.join()
    group = member.wire.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP, "none"])).groups
    assert group[1].error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NOT_COORDINATOR)
    found = group[0]
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 1, 1)
    assert (found.assignor_name, found.members[0].member_type) == ("uniform", 1)
    [one] = found.members
    assert (one.member_id, one.instance_id, one.rack_id, one.subscribed_topic_names) == (
        "1",
        "one",
        "r",
        ["a"],
    )
    assert one.assignment.topic_partitions[0].topic_name == "a"
    assert one.target_assignment.topic_partitions[0].partitions == [0]
    listed = member.wire.ask(ListGroupsRequest(types_filter=["Consumer"])).groups
    assert [(one.group_id, one.group_state, one.group_type) for one in listed] == [
        (GROUP, "Stable", "consumer")
    ]
    assert member.wire.ask(ListGroupsRequest(types_filter=["classic"])).groups == []
    classic = member.wire.ask(DescribeGroupsRequest(groups=[GROUP])).groups[0]
    assert (classic.error_code, classic.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")


def test_methods_set_targets_intervals_and_limits(cluster: MockCluster) -> None:
    cluster.create_topic("a", 4)
    first, second = Member(cluster, "1", "a"), Member(cluster, "2", "a")
    first.join()
    second.join()
    settled(first, second)
    cluster.set_target(GROUP, {"1": [("a", 3)], "2": [("a", 0), ("a", 1)]})
    assert settled(first, second) == [[3], [0, 1]]
    cluster.set_target(GROUP, None)
    assert sorted(index for numbers in settled(first, second) for index in numbers) == [0, 1, 2, 3]
    cluster.set_heartbeat_interval(2.0, GROUP)
    assert first.heartbeat().heartbeat_interval_ms == 2000
    cluster.set_heartbeat_interval(3.0)
    assert first.heartbeat().heartbeat_interval_ms == 2000
    cluster.set_group_max_size(2)
    assert Member(cluster, "3", "a").join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.heartbeat().error_code == 0
    cluster.deny_group(GROUP)
    assert first.heartbeat().error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    cluster.deny_group(GROUP, False)
    cluster.load_coordinator(GROUP, 60)
    assert first.heartbeat().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.load_coordinator(GROUP, 0)
    coordinator = cluster.coordinator_of(GROUP)
    assert coordinator is not None
    cluster.move_coordinator(GROUP, 1 + coordinator.id % 3)
    assert first.heartbeat().error_code == ErrorCode.NOT_COORDINATOR
    cluster.move_coordinator(GROUP, None)
    assert first.heartbeat().error_code == 0
