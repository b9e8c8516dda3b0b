"""The classic coordinator on the wire: members, generations, time, offsets."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol.coordinator import FindCoordinatorRequest
from kafka_native.protocol.group_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka_native.protocol.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kafka_native.protocol.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from tests.mock.wire import Wire
from tests.waiting import WAIT_S, wait_for

GROUP = "group"


class Member:
    """A member that sends a consumer's requests by hand. Requests that wait run in a thread."""

    def __init__(self, cluster: MockCluster, pool: ThreadPoolExecutor, **options: Any) -> None:
        coordinator = cluster.coordinator_of(GROUP)
        assert coordinator is not None
        self.wire = Wire(cluster, coordinator.id)
        self.pool = pool
        self.id = ""
        self.generation = -1
        self.protocol: str | None = "range"
        self.protocols = options.pop("protocols", {"range": b"mine"})
        self.instance_id: str | None = options.pop("instance_id", None)
        self.session_ms: int = options.pop("session_ms", 10_000)
        self.rebalance_ms: int = options.pop("rebalance_ms", 10_000)

    def join_once(self, version: int = 9) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequest.Protocol(name=name, metadata=data)
                for name, data in self.protocols.items()
            ],
        )
        response: JoinGroupResponse = self.wire.ask(request, version)
        return response

    def join(self) -> JoinGroupResponse:
        response = self.join_once()
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = response.member_id
            response = self.join_once()
        if response.error_code == 0:
            self.id, self.generation = response.member_id, response.generation_id
            self.protocol = response.protocol_name
        return response

    def start_join(self) -> Future[JoinGroupResponse]:
        return self.pool.submit(self.join)

    def sync(self, assignments: dict[str, bytes] | None = None) -> Any:
        return self.wire.ask(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocol_name=self.protocol,
                assignments=[
                    SyncGroupRequest.Assignment(member_id=one, assignment=data)
                    for one, data in (assignments or {}).items()
                ],
            )
        )

    def heartbeat(self, generation: int | None = None) -> int:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation if generation is None else generation,
            member_id=self.id,
            group_instance_id=self.instance_id,
        )
        return int(self.wire.ask(request).error_code)

    def wait_for_rebalance(self) -> None:
        """Send heartbeats until one returns an error."""
        while self.heartbeat() == 0:
            time.sleep(0.002)

    def leave(self) -> int:
        member = LeaveGroupRequest.Member(member_id=self.id)
        return int(
            self.wire.ask(LeaveGroupRequest(group_id=GROUP, members=[member])).members[0].error_code
        )

    def commit(self, offset: int, partition: int = 0, topic: str = "a", metadata: str = "") -> int:
        part = OffsetCommitRequest.Topic.Partition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.id,
            topics=[OffsetCommitRequest.Topic(name=topic, partitions=[part])],
        )
        return int(self.wire.ask(request, 9).topics[0].partitions[0].error_code)

    def committed(self, partition: int = 0) -> tuple[int, str]:
        wanted = OffsetFetchRequest.Group.Topic(name="a", partition_indexes=[partition])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequest.Group(group_id=GROUP, topics=[wanted])]
        )
        part = self.wire.ask(request, 9).groups[0].topics[0].partitions[0]
        return part.committed_offset, part.metadata


def stable_pair(
    cluster: MockCluster, pool: ThreadPoolExecutor, *, session_ms: int = 10_000, **options: Any
) -> tuple[Member, Member]:
    """Return a leader and a follower in a stable group. The leader has this session timeout."""
    first, second = (
        Member(cluster, pool, session_ms=session_ms, **options),
        Member(cluster, pool, **options),
    )
    assert first.join().error_code == 0
    assert first.sync({first.id: b"all"}).assignment == b"all"
    joining = second.start_join()
    first.wait_for_rebalance()
    response = first.join()
    assert joining.result(5).error_code == 0
    assert {one.member_id: one.metadata for one in response.members} == {
        first.id: b"mine",
        second.id: b"mine",
    }
    assert joining.result().members == []
    waiting = pool.submit(second.sync)
    assert first.sync({first.id: b"1", second.id: b"2"}).assignment == b"1"
    assert waiting.result(5).assignment == b"2"
    assert first.generation == second.generation == 2
    return first, second


def test_two_members_share_a_generation(cluster: MockCluster, pool: ThreadPoolExecutor) -> None:
    first, second = stable_pair(cluster, pool)
    assert (first.heartbeat(), second.heartbeat()) == (0, 0)
    assert first.heartbeat(1) == ErrorCode.ILLEGAL_GENERATION
    assert second.sync().assignment == b"2"


def test_leave_makes_the_others_join_again(cluster: MockCluster, pool: ThreadPoolExecutor) -> None:
    first, second = stable_pair(cluster, pool)
    assert first.leave() == 0
    assert first.leave() == ErrorCode.UNKNOWN_MEMBER_ID
    assert second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    response = second.join()
    assert (response.leader, response.generation_id) == (second.id, 3)
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_silent_member_expires(cluster: MockCluster, pool: ThreadPoolExecutor) -> None:
    first, second = stable_pair(cluster, pool, session_ms=9_000)
    cluster.advance(5)
    assert second.heartbeat() == 0
    cluster.advance(5)
    assert second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.join().leader == second.id
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


REBALANCE_MS = 5_000
"""Less than the members' sessions."""


def after_rebalance_timeout(cluster: MockCluster, member: Member, answer: Future[Any]) -> Any:
    """Let a request wait until the rebalance timeout is over, and return its response."""

    def is_waiting() -> bool:
        group = cluster.groups.find(GROUP)
        known = None if group is None else group.members.get(member.id)
        return known is not None and bool(known.waiting)  # type: ignore[union-attr]

    wait_for(is_waiting, "the request that is_waiting")
    cluster.advance(REBALANCE_MS / 1000)
    return answer.result(WAIT_S)


def test_rebalance_continues_without_late_members(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    first, second = stable_pair(cluster, pool, rebalance_ms=REBALANCE_MS)
    second.protocols = {"range": b"changed"}
    response = after_rebalance_timeout(
        cluster, second, second.start_join()
    )  # the first member doesn't join
    assert (response.error_code, response.leader) == (0, second.id)
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_follower_gets_an_error_if_the_leader_sends_no_assignment(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    first, second = stable_pair(cluster, pool, rebalance_ms=REBALANCE_MS)
    second.protocols = {"range": b"changed"}
    joining = second.start_join()
    first.wait_for_rebalance()
    assert first.join().leader == first.id
    assert joining.result(5).error_code == 0
    answer = after_rebalance_timeout(cluster, second, pool.submit(second.sync))
    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.join().leader == second.id


def test_retried_join_of_a_follower_keeps_the_generation(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    first, second = stable_pair(cluster, pool)
    assert second.join().generation_id == 2
    assert first.heartbeat() == 0


def test_member_id_is_required_from_version_4_on(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    assert Member(cluster, pool).join_once(3).error_code == 0
    with MockCluster(1) as other:
        response = Member(other, pool).join_once(4)
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert response.member_id.startswith("wire-")


def test_unknown_members_and_bad_requests_are_refused(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    member = Member(cluster, pool)
    member.id = "nobody"
    assert member.join().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.sync().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        Member(cluster, pool, session_ms=0).join().error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    )
    assert (
        Member(cluster, pool, protocols={}).join().error_code
        == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    stable_pair(cluster, pool)
    other = Member(cluster, pool, protocols={"sticky": b""})
    assert other.join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_common_protocol_is_chosen(cluster: MockCluster, pool: ThreadPoolExecutor) -> None:
    first = Member(cluster, pool, protocols={"sticky": b"s", "range": b"r"})
    assert first.join().protocol_name == "sticky"
    first.sync({first.id: b""})
    second = Member(cluster, pool, protocols={"range": b"R"})
    joining = second.start_join()
    first.wait_for_rebalance()
    response = first.join()
    assert response.protocol_name == joining.result(5).protocol_name == "range"
    assert {one.metadata for one in response.members} == {b"r", b"R"}


def test_static_member_replaces_its_old_instance(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    old = Member(cluster, pool, instance_id="one")
    assert old.join().error_code == 0
    old.sync({old.id: b"x"})
    new = Member(cluster, pool, instance_id="one")
    response = new.join()
    assert (response.error_code, response.leader) == (0, new.id)
    assert [one.group_instance_id for one in response.members] == ["one"]
    assert old.heartbeat() == ErrorCode.FENCED_INSTANCE_ID


def test_empty_group_waits_for_more_members_with_rebalance_delay(pool: ThreadPoolExecutor) -> None:
    with MockCluster(1, rebalance_delay=0.3) as cluster:
        members = [Member(cluster, pool) for _ in range(3)]
        joins = [member.start_join() for member in members]
        assert {join.result(5).generation_id for join in joins} == {1}
        assert sum(len(join.result().members) for join in joins) == 3


def test_offsets_are_stored_and_found(cluster: MockCluster, pool: ThreadPoolExecutor) -> None:
    cluster.create_topic("a", 2)
    first, second = stable_pair(cluster, pool)
    assert first.committed() == (-1, "")
    assert first.commit(5, metadata="note") == 0
    assert second.committed() == (5, "note")
    assert first.commit(5, partition=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert first.commit(5, topic="none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert first.commit(5, metadata="x" * 5000) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    first.generation = 1
    assert first.commit(6) == ErrorCode.ILLEGAL_GENERATION
    outsider = Member(cluster, pool)
    assert outsider.commit(7) == ErrorCode.UNKNOWN_MEMBER_ID
    first.leave()
    second.leave()
    assert outsider.commit(7) == 0
    assert outsider.committed() == (7, "")
    part = OffsetDeleteRequest.Topic.Partition(partition_index=0)
    topics = [OffsetDeleteRequest.Topic(name="a", partitions=[part])]
    outsider.wire.ask(OffsetDeleteRequest(group_id=GROUP, topics=topics))
    assert outsider.committed() == (-1, "")


def test_groups_are_described_listed_and_deleted(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    first, second = stable_pair(cluster, pool)
    described = first.wire.ask(DescribeGroupsRequest(groups=[GROUP])).groups[0]
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert {one.member_id: one.member_assignment for one in described.members} == {
        first.id: b"1",
        second.id: b"2",
    }
    listed = first.wire.ask(ListGroupsRequest(states_filter=["stable"])).groups
    assert [(one.group_id, one.group_state, one.group_type) for one in listed] == [
        (GROUP, "Stable", "classic")
    ]
    delete = DeleteGroupsRequest(groups_names=[GROUP])
    assert first.wire.ask(delete).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    assert (first.leave(), second.leave()) == (0, 0)
    assert first.wire.ask(DescribeGroupsRequest(groups=[GROUP])).groups[0].group_state == "Empty"
    assert first.wire.ask(delete).results[0].error_code == 0
    assert first.wire.ask(ListGroupsRequest()).groups == []


def test_groups_move_from_a_coordinator_that_is_down(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    cluster.create_topic("a")

    def find(broker: int) -> int:
        with Wire(cluster, broker) as wire:
            found = wire.ask(FindCoordinatorRequest(coordinator_keys=[GROUP])).coordinators[0]
        assert f"{found.host}:{found.port}" == cluster.address(found.node_id)
        return int(found.node_id)

    first, _ = stable_pair(cluster, pool)
    assert first.commit(3) == 0
    coordinator = find(1)
    other = 1 + coordinator % 3
    with Wire(cluster, other) as wire:
        request = HeartbeatRequest(group_id=GROUP, member_id=first.id, generation_id=2)
        assert wire.ask(request).error_code == ErrorCode.NOT_COORDINATOR
    cluster.broker_down(coordinator)
    assert find(other) != coordinator
    moved = Member(cluster, pool)
    moved.id, moved.generation = first.id, first.generation
    assert moved.heartbeat() == 0
    assert moved.committed() == (3, "")


def test_waiting_join_ends_with_the_broker(cluster: MockCluster, pool: ThreadPoolExecutor) -> None:
    first, _ = stable_pair(cluster, pool)
    late = Member(cluster, pool)
    joining = late.start_join()
    coordinator = cluster.coordinator_of(GROUP)
    assert coordinator is not None
    first.wait_for_rebalance()
    cluster.broker_down(coordinator.id)
    assert joining.exception(20) is not None
