"""Methods that act on classic groups and on coordinators, and groups that change their protocol."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.mock.versions import ADVERTISED
from kafka_native.protocol import ApiKey
from kafka_native.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka_native.protocol.coordinator import FindCoordinatorRequest
from kafka_native.protocol.groups import JoinGroupRequest, LeaveGroupRequest
from kafka_native.protocol.metadata import MetadataRequest
from kafka_native.protocol.offsets import OffsetDeleteRequest
from tests.mock import test_mock_consumer_groups as modern
from tests.mock.test_mock_groups import (
    GROUP,
    REBALANCE_MS,
    Member,
    after_rebalance_timeout,
    stable_pair,
)
from tests.mock.test_mock_protocol import MAKE
from tests.mock.wire import Wire, fetch_request, fetched


def subscription(*topics: str, owned: dict[str, list[int]] | None = None) -> dict[str, bytes]:
    part = ConsumerProtocolSubscription.OwnedPartitions
    parts = [part(topic=name, partitions=indexes) for name, indexes in (owned or {}).items()]
    packed = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=parts).pack(1)
    return {"cooperative-sticky": packed}


def assignment(**topics: list[int]) -> bytes:
    part = ConsumerProtocolAssignment.AssignedPartitions
    parts = [part(topic=name, partitions=indexes) for name, indexes in topics.items()]
    return ConsumerProtocolAssignment(assigned_partitions=parts).pack(0)


def read(data: bytes) -> dict[str, list[int]]:
    parts = ConsumerProtocolAssignment.unpack(data).assigned_partitions
    return {one.topic: list(one.partitions) for one in parts}


# --- static members ---


@pytest.mark.parametrize("version", [8, 9])
def test_static_member_comes_back_without_a_rebalance(
    version: int, cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    leader, follower = (
        Member(cluster, pool, instance_id="one"),
        Member(cluster, pool, instance_id="two"),
    )
    leader.join()
    leader.sync({leader.id: b"all"})
    joining = follower.start_join()
    leader.wait_for_rebalance()
    assert leader.join().leader == leader.id
    assert joining.result(5).error_code == 0
    waiting = pool.submit(follower.sync)
    assert leader.sync({leader.id: b"L", follower.id: b"F"}).error_code == 0
    assert waiting.result(5).assignment == b"F"
    generation = cluster.group(GROUP).generation
    back = Member(cluster, pool, instance_id=leader.instance_id)
    response = back.join_once(version)
    assert (response.error_code, response.generation_id, response.skip_assignment) == (
        0,
        generation,
        version == 9,
    )
    back.id, back.generation = response.member_id, response.generation_id
    back.protocol = response.protocol_name
    if version == 9:
        assert response.leader == back.id
        assert {one.group_instance_id for one in response.members} == {"one", "two"}
    else:  # an older client would assign again, so the response names the old leader
        assert (response.leader, response.members) == (leader.id, [])
    assert back.sync().assignment == b"L"
    assert (back.heartbeat(), follower.heartbeat()) == (0, 0)
    assert leader.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert cluster.group(GROUP).generation == generation
    back.instance_id = "unknown"
    assert back.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_waiting_static_member_is_fenced_by_the_next_instance(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    first = Member(cluster, pool)
    first.join()
    first.sync({first.id: b"x"})
    waits = Member(cluster, pool, instance_id="one")
    joining = waits.start_join()
    first.wait_for_rebalance()
    newer = Member(cluster, pool, instance_id="one")
    rejoining = newer.start_join()
    assert joining.result(5).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert first.join().error_code == 0
    assert rejoining.result(5).error_code == 0
    assert len(cluster.group(GROUP).members) == 2


def test_absent_static_member_stays_until_its_session_ends(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    away = Member(cluster, pool, instance_id="one", rebalance_ms=REBALANCE_MS)
    away.join()
    away.sync({away.id: b"x"})
    other = Member(cluster, pool, rebalance_ms=REBALANCE_MS)
    # The rebalance doesn't wait for the static member, and keeps it.
    response = after_rebalance_timeout(cluster, other, other.start_join())
    assert (response.error_code, response.leader) == (0, other.id)
    assert {one.instance_id for one in cluster.group(GROUP).members.values()} == {"one", None}


# --- verbs ---


def test_reasons_sizes_and_metadata(cluster: MockCluster, pool: ThreadPoolExecutor) -> None:
    cluster.edit_member_metadata(GROUP, lambda member_id, metadata: b"hostile " + metadata)
    first = Member(cluster, pool)
    assert [one.metadata for one in first.join().members] == [b"hostile mine"]
    first.sync({first.id: assignment(a=[1, 0])})
    info = cluster.group(GROUP)
    assert (info.type, info.state, info.generation, info.leader) == (
        "classic",
        "Stable",
        1,
        first.id,
    )
    member = info.members[first.id]
    assert (member.assignment, member.metadata) == ([("a", 0), ("a", 1)], {"range": b"mine"})
    cluster.set_group_max_size(1)
    assert Member(cluster, pool).join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    request = LeaveGroupRequest.Member(member_id=first.id, reason="done with it")
    assert (
        first.wire.ask(LeaveGroupRequest(group_id=GROUP, members=[request])).members[0].error_code
        == 0
    )
    assert cluster.group(GROUP).left == [(first.id, None, "done with it")]
    with pytest.raises(KeyError):
        cluster.group("none")


def test_members_must_join_again_or_are_expelled(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    first, second = stable_pair(cluster, pool)
    cluster.rebalance_group(GROUP)
    # a member may commit before it joins again
    assert first.commit(1, topic="none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (first.heartbeat(), second.heartbeat()) == (ErrorCode.REBALANCE_IN_PROGRESS,) * 2
    cluster.expel_member(GROUP, second.id)
    assert second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.join().error_code == 0
    assert first.commit(1) == ErrorCode.REBALANCE_IN_PROGRESS
    first.sync({first.id: b""})
    static = Member(cluster, pool, instance_id="s")
    joining = static.start_join()
    first.wait_for_rebalance()
    first.join()
    assert joining.result(5).error_code == 0
    cluster.fence_member(GROUP, "s")
    assert static.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    with pytest.raises(KeyError):
        cluster.expel_member(GROUP, "nobody")


def test_coordinator_moves_loads_and_disappears(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    first, _ = stable_pair(cluster, pool)
    old = cluster.coordinator_of(GROUP)
    assert old is not None
    late = Member(cluster, pool).start_join()
    first.wait_for_rebalance()
    cluster.move_coordinator(GROUP, 1 + old.id % 3)
    assert late.result(5).error_code == ErrorCode.NOT_COORDINATOR  # the join waited there
    assert first.heartbeat() == ErrorCode.NOT_COORDINATOR
    find = FindCoordinatorRequest(coordinator_keys=[GROUP])
    assert first.wire.ask(find).coordinators[0].node_id == 1 + old.id % 3
    cluster.move_coordinator(GROUP, -1)
    assert first.wire.ask(find).coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.move_coordinator(GROUP, None)
    cluster.load_coordinator(GROUP, 60)
    assert first.heartbeat() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert first.commit(1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.load_coordinator(GROUP, 0)
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    cluster.deny_group(GROUP)
    assert first.heartbeat() == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert first.wire.ask(find).coordinators[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_denied_topic_is_refused_everywhere(cluster: MockCluster, pool: ThreadPoolExecutor) -> None:
    cluster.create_topic("a")
    cluster.create_topic("b")
    cluster.set_committed(GROUP, {("a", 0): 3})
    member = Member(cluster, pool)
    assert member.committed() == (3, "")
    cluster.deny_topic("a")
    wanted = MetadataRequest(topics=[MetadataRequest.Topic(name="a")])
    assert member.wire.ask(wanted).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [one.name for one in member.wire.ask(MetadataRequest(topics=None)).topics] == ["b"]
    assert member.commit(1) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert member.committed() == (-1, "")
    with Wire(cluster) as wire:
        found = fetched(wire.ask(fetch_request("a", {0: 0}), 12))[0]
        assert found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    cluster.deny_topic("a", False)
    assert member.committed() == (3, "")


def test_offsets_of_single_partitions_fail_on_request(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    cluster.create_topic("a", 2)
    member = Member(cluster, pool)
    for key in (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH):
        code = (
            ErrorCode.UNSTABLE_OFFSET_COMMIT
            if key == ApiKey.OFFSET_FETCH
            else ErrorCode.REQUEST_TIMED_OUT
        )
        cluster.push_request_errors(key, [code], topic="a", partition=1)
    assert member.commit(4) == 0
    assert member.commit(4, partition=1) == ErrorCode.REQUEST_TIMED_OUT
    assert member.commit(4, partition=1) == 0
    assert member.committed(1) == (-1, "")
    assert member.committed(1) == (4, "")


@pytest.mark.parametrize(
    "key",
    [
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
    ],
    ids=lambda key: key.name,
)
def test_any_error_can_be_pushed_in_any_version(key: ApiKey, cluster: MockCluster) -> None:
    cluster.create_topic("a")
    make = MAKE.get(key, lambda *_: modern.Request(group_id="g", member_id="m"))
    first, last = ADVERTISED[key]
    with Wire(cluster) as wire:
        for version in range(first, last + 1):
            cluster.push_request_errors(key, [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
            text = repr(wire.ask(make(version, "a", cluster.topic_id("a")), version))
            assert str(int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)) in text


def test_offsets_of_a_subscribed_topic_are_not_deleted(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    cluster.create_topic("a")
    member = Member(cluster, pool, protocols=subscription("a"))
    member.join()
    member.sync({member.id: b""})
    member.commit(2)
    part = OffsetDeleteRequest.Topic.Partition(partition_index=0)
    request = OffsetDeleteRequest(
        group_id=GROUP, topics=[OffsetDeleteRequest.Topic(name="a", partitions=[part])]
    )
    found = member.wire.ask(request).topics[0].partitions[0]
    assert found.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert member.committed() == (2, "")


# --- groups that change their protocol ---


def test_group_changes_its_protocol_and_back(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    cluster.create_topic("a", 4)
    classic = Member(cluster, pool, protocols=subscription("a"))
    classic.join()
    classic.sync({classic.id: assignment(a=[0, 1, 2, 3])})
    assert classic.commit(7) == 0
    new = modern.Member(cluster, "new", "a")
    assert new.join().member_epoch == 2
    assert new.numbers == []
    info = cluster.group(GROUP)
    assert (info.type, info.offsets["a", 0].offset) == ("consumer", 7)
    assert classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    # A cooperative member joins with its partitions, gets those to keep, and joins again with them.
    classic.protocols = subscription("a", owned={"a": [0, 1, 2, 3]})
    response = classic.join()
    assert (response.error_code, response.leader, response.members) == (0, "", [])
    kept = read(classic.sync().assignment)["a"]
    assert len(kept) == 2
    assert classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    classic.protocols = subscription("a", owned={"a": kept})
    assert classic.join().generation_id == 2
    assert read(classic.sync().assignment) == {"a": kept}
    assert classic.heartbeat() == 0
    assert classic.commit(8) == 0
    classic.generation = 1
    assert classic.commit(9) == ErrorCode.ILLEGAL_GENERATION
    classic.generation = 2
    new.heartbeat()
    assert sorted(new.numbers + kept) == [0, 1, 2, 3]
    # The last member of the consumer protocol leaves, so the group is classic again.
    new.acknowledge()
    assert new.leave().error_code == 0
    assert (cluster.group(GROUP).type, cluster.group(GROUP).offsets["a", 0].offset) == (
        "classic",
        8,
    )
    assert classic.heartbeat(cluster.group(GROUP).generation) == ErrorCode.REBALANCE_IN_PROGRESS
    response = classic.join()
    assert (response.error_code, response.leader) == (0, classic.id)
    assert new.heartbeat().error_code != 0


def test_classic_member_joins_a_group_of_the_consumer_protocol(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    cluster.create_topic("a", 2)
    new = modern.Member(cluster, "new", "a")
    new.join()
    new.acknowledge()
    assert (
        Member(cluster, pool, protocols={"range": b"?"}).join().error_code
        == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    classic = Member(cluster, pool, protocols=subscription("a"))
    assert classic.join().error_code == 0
    assert read(classic.sync().assignment) == {}
    new.heartbeat()
    new.acknowledge()
    assert classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS  # its partition was revoked
    assert classic.join().error_code == 0
    assert len(read(classic.sync().assignment)["a"]) == 1
    assert classic.leave() == 0
    assert modern.settled(new) == [[0, 1]]


def test_groups_that_can_not_change_are_refused(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    cluster.create_topic("a", 1)
    classic = Member(cluster, pool, protocols=subscription("a"))
    classic.join()
    classic.sync({classic.id: b""})
    new = modern.Member(cluster, "new", "a")
    cluster.set_migration("disabled")
    assert new.join().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert new.ask(3).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert classic.leave() == 0
    assert new.join().error_code == 0  # an empty group may change
    request = JoinGroupRequest(group_id="", session_timeout_ms=100, protocol_type="consumer")
    assert new.wire.ask(request).error_code == ErrorCode.INVALID_GROUP_ID
