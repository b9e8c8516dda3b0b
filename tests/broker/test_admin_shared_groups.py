"""Share and streams groups on a real Apache Kafka, with AdminClient. Kafka's own tools check the
results.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafka_native import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    Node,
    ShareConsumer,
    TopicPartition,
)
from kafka_native.admin import AdminClient, StreamsGroupDescription, StreamsTopicInfo
from kafka_native.aio import AIOAdminClient
from kafka_native.protocol import ApiKey, decode_response, encode_request
from kafka_native.protocol.streams import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TopicInfo,
)
from tests.broker.cluster import Cluster
from tests.broker.java import SHARE_GROUPS
from tests.broker.support import TopicMaker, admin_of, code_of
from tests.broker.test_share_kafka import group_at_start, produce
from tests.waiting import WAIT_S, wait_for

Tool = Callable[..., bytes]
STREAMS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"


def table(text: bytes, group: str) -> list[list[str]]:
    """Return the lines about a group in a tool's output."""
    return [line.split() for line in text.decode().splitlines() if line.split()[:1] == [group]]


def listed(admin: AdminClient, kind: ConsumerGroupType) -> dict[str, ConsumerGroupState]:
    result = admin.list_consumer_groups(types={kind}).result(WAIT_S)
    assert result.errors == []
    assert {each.type for each in result.valid or []} <= {kind}
    return {each.group_id: each.state for each in result.valid or []}


# --- share groups ---


def test_share_groups_are_described_and_their_offsets_changed(
    kafka3: Cluster, new_topic: TopicMaker, tool: Tool
) -> None:
    topic = new_topic(kafka3)
    group = group_at_start(kafka3, topic, tool)
    produce(kafka3, topic, 0, 5)
    describe = ["--bootstrap-server", kafka3.bootstrap, "--describe", "--group", group]
    place = TopicPartition(topic, 0)
    with admin_of(kafka3) as admin:
        with ShareConsumer(
            {"bootstrap.servers": kafka3.bootstrap, "group.id": group, "client.id": "sharer"}
        ) as consumer:
            consumer.subscribe([topic])
            taken: list[Any] = []
            wait_for(lambda: len(taken.extend(consumer.poll(0.5)) or taken) >= 5, "all messages")  # type: ignore[func-returns-value]
            consumer.commit_sync()
            described = admin.describe_share_groups(
                [group, "nobody"], include_authorized_operations=True
            )
            assert code_of(described["nobody"]) == KafkaError.GROUP_ID_NOT_FOUND
            found = described[group].result(WAIT_S)
            assert found.group_state is ConsumerGroupState.STABLE
            assert found.coordinator.id in (1, 2, 3)
            assert found.group_epoch == found.target_assignment_epoch > 0
            assert found.authorized_operations
            (member,) = found.members
            assert (member.client_id, member.assignment.topic_partitions) == ("sharer", [place])
            assert member.consumer_id in tool(SHARE_GROUPS, *describe, "--members").decode()
            assert listed(admin, ConsumerGroupType.SHARE)[group] is ConsumerGroupState.STABLE
            assert group not in listed(admin, ConsumerGroupType.CONSUMER)
            (one,) = admin.list_groups(group, WAIT_S, types={ConsumerGroupType.SHARE})
            assert (one.type, one.state, one.error) == (ConsumerGroupType.SHARE, "Stable", None)
            assert (
                code_of(admin.alter_share_group_offsets(group, {place: 0})[place])
                == KafkaError.NON_EMPTY_GROUP
            )
            assert (
                code_of(admin.delete_share_group_offsets(group, [topic])[topic])
                == KafkaError.NON_EMPTY_GROUP
            )
            assert code_of(admin.delete_share_groups([group])[group]) == KafkaError.NON_EMPTY_GROUP
        _check_offsets_without_members(admin, group, place)
        assert table(tool(SHARE_GROUPS, *describe), group)[0][1:4] == [topic, "0", "2"]
        with ShareConsumer({"bootstrap.servers": kafka3.bootstrap, "group.id": group}) as consumer:
            consumer.subscribe([topic])
            again: list[Any] = []
            wait_for(
                lambda: len(again.extend(consumer.poll(0.5)) or again) >= 3, "what is from 2 on"
            )  # type: ignore[func-returns-value]
            assert [each.value() for each in again] == [b"2", b"3", b"4"]
        assert admin.delete_share_group_offsets(group, [topic])[topic].result(WAIT_S) is None
        assert admin.list_share_group_offsets({group: None})[group].result(WAIT_S) == {}
        assert not [line for line in table(tool(SHARE_GROUPS, *describe), group) if topic in line]
        assert admin.delete_share_groups([group])[group].result(WAIT_S) is None
        assert group not in listed(admin, ConsumerGroupType.SHARE)
        assert (
            group
            not in tool(SHARE_GROUPS, "--bootstrap-server", kafka3.bootstrap, "--list")
            .decode()
            .split()
        )


def _check_offsets_without_members(admin: AdminClient, group: str, place: TopicPartition) -> None:
    """Read the offsets of a group without members, and move them to 2."""
    unknown = TopicPartition(place.topic, 7)

    def offsets() -> Any:
        found = admin.list_share_group_offsets({group: [place], "nobody": None})
        assert found["nobody"].result(WAIT_S) == {}, (
            "as with OffsetFetch: a missing group has no offsets"
        )
        return found[group].result(WAIT_S)[place]

    wait_for(lambda: offsets().lag == 0, "what was accepted")
    assert offsets().leader_epoch is not None
    negative = TopicPartition(place.topic, 1)
    altered = admin.alter_share_group_offsets(group, {place: 2, unknown: 0, negative: -1})
    assert altered[place].result(WAIT_S) is None
    assert code_of(altered[unknown]) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert code_of(altered[negative]) == KafkaError._INVALID_ARG
    moved = offsets()
    assert (moved.start_offset, moved.lag) == (2, 3)
    # Only once: a coordinator that doesn't lead all partitions looks for a missing one for half a
    # minute.
    assert (
        admin.list_share_group_offsets({group: [place, unknown]})[group].result(WAIT_S)[unknown]
        is None
    )
    forgotten = admin.delete_share_group_offsets(group, ["no-topic"])
    assert code_of(forgotten["no-topic"]) == KafkaError.UNKNOWN_TOPIC_OR_PART
    missing = admin.delete_share_group_offsets("nobody", [place.topic])
    assert code_of(missing[place.topic]) == KafkaError.GROUP_ID_NOT_FOUND


# --- streams groups ---


class Member:
    """A member of a streams group from its coordinator's view: one heartbeat after the other."""

    def __init__(self, coordinator: Node, group: str, topic: str) -> None:
        self._socket = socket.create_connection((coordinator.host, coordinator.port), WAIT_S)
        self._file = self._socket.makefile("rb")
        self._numbers = itertools.count(1)
        self.group, self.topic = group, topic
        self.id = str(uuid.uuid4())
        self.epoch = 0
        self.tasks: list[TaskIds] = []

    def heartbeat(self, **what: Any) -> None:
        """Send one heartbeat. The broker's answer has no error."""
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group, member_id=self.id, member_epoch=self.epoch, **what
        )
        frame = encode_request(request, 0, next(self._numbers), "a-stream")
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
        answer = self._file.read(int.from_bytes(self._file.read(4), "big"))
        reply = decode_response(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, answer)[1]
        assert isinstance(reply, StreamsGroupHeartbeatResponse)
        assert (reply.error_code, reply.error_message) == (0, None)
        self.epoch = reply.member_epoch
        if reply.active_tasks is not None:
            self.tasks = reply.active_tasks

    def join(self) -> None:
        """Send the application's topology."""
        kind = StreamsGroupHeartbeatRequest.Topology
        policy = [KeyValue(key="cleanup.policy", value="compact")]
        changelog = TopicInfo(name=f"{self.group}-counts-changelog", topic_configs=policy)
        part = kind.Subtopology(
            subtopology_id="0", source_topics=[self.topic], state_changelog_topics=[changelog]
        )
        self.heartbeat(
            rebalance_timeout_ms=30_000,
            topology=kind(epoch=0, subtopologies=[part]),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="a-process",
            client_tags=[KeyValue(key="zone", value="a")],
        )

    def has_tasks(self) -> bool:
        """Send another heartbeat, and return whether the member has tasks."""
        self.heartbeat(active_tasks=self.tasks, standby_tasks=[], warmup_tasks=[])
        return bool(self.tasks)

    def leave(self) -> None:
        """Leave the group."""
        self.epoch = -1
        self.heartbeat()
        self._file.close()
        self._socket.close()


@contextmanager
def streaming(admin: AdminClient, group: str, topic: str) -> Iterator[Member]:
    described = admin.describe_consumer_groups([group])[group].result(WAIT_S)
    member = Member(described.coordinator, group, topic)
    member.join()
    try:
        yield member
    finally:
        member.leave()


def test_streams_groups_are_described_and_their_offsets_changed(
    kafka3: Cluster, new_topic: TopicMaker, tool: Tool
) -> None:
    topic, group = new_topic(kafka3, 2), f"streams-{uuid.uuid4().hex[:8]}"
    at = ["--bootstrap-server", kafka3.bootstrap]
    places = [TopicPartition(topic, number, 3 + number) for number in range(2)]
    with admin_of(kafka3) as admin:
        missing = admin.describe_streams_groups([group])[group]
        assert code_of(missing) == KafkaError.GROUP_ID_NOT_FOUND, (
            "the coordinator is available from now on"
        )
        with streaming(admin, group, topic) as member:
            wait_for(member.has_tasks, "tasks")
            described = admin.describe_streams_groups([group, "nobody"])
            assert code_of(described["nobody"]) == KafkaError.GROUP_ID_NOT_FOUND
            _check_streams(described[group].result(WAIT_S), member)
            more = admin.describe_streams_groups([group], include_topology_description=True)
            found = more[group].result(WAIT_S)
            assert found.topology_description_status.name == "NOT_STORED", "there is no plugin"
            assert (found.topology_description, found.assignor_name) == (None, "sticky")
            assert (
                member.id
                in tool(STREAMS, *at, "--describe", "--members", "--group", group).decode()
            )
            assert listed(admin, ConsumerGroupType.STREAMS)[group] is ConsumerGroupState.STABLE
            asked = [ConsumerGroupTopicPartitions(group, places)]
            refused = admin.alter_streams_group_offsets(asked)[group].result(WAIT_S)
            assert {each.error.code() for each in refused.topic_partitions} == {
                KafkaError.UNKNOWN_MEMBER_ID
            }
            assert (
                code_of(admin.delete_streams_groups([group])[group]) == KafkaError.NON_EMPTY_GROUP
            )
        assert (group, "Streams") in {
            tuple(line.split()[:2]) for line in tool(GROUPS, *at, "--list").decode().splitlines()
        }
        done = admin.alter_streams_group_offsets(asked)[group].result(WAIT_S)
        assert [each.error for each in done.topic_partitions] == [None, None]
        with streaming(admin, group, topic) as member:  # the tool shows the members' positions
            wait_for(member.has_tasks, "tasks")
            shown = table(
                tool(STREAMS, *at, "--describe", "--offsets", "--verbose", "--group", group), group
            )
        assert {(line[1], int(line[2])): line[3] for line in shown} == {
            (topic, 0): "3",
            (topic, 1): "4",
        }
        gone = admin.delete_streams_group_offsets(group, places[:1])
        assert gone[places[0]].result(WAIT_S) is None
        left = admin.list_streams_group_offsets([ConsumerGroupTopicPartitions(group)])[
            group
        ].result(WAIT_S)
        assert [(each.partition, each.offset) for each in left.topic_partitions] == [(1, 4)]
        assert admin.delete_streams_groups([group])[group].result(WAIT_S) is None
        assert group not in tool(STREAMS, *at, "--list").decode().split()


def _check_streams(found: StreamsGroupDescription, member: Member) -> None:
    assert (found.group_state, found.topology_epoch) == (ConsumerGroupState.STABLE, 0)
    assert found.group_epoch == found.target_assignment_epoch == member.epoch
    (part,) = found.subtopologies
    assert (part.subtopology_id, part.source_topics) == ("0", [member.topic])
    changelog = StreamsTopicInfo(2, 0, {"cleanup.policy": "compact"})
    assert part.state_changelog_topics == {f"{member.group}-counts-changelog": changelog}
    (one,) = found.members
    assert (one.member_id, one.client_id, one.process_id) == (member.id, "a-stream", "a-process")
    assert (one.client_tags, one.user_endpoint, one.is_classic) == ({"zone": "a"}, None, False)
    assert {name: sorted(parts) for name, parts in one.assignment.active_tasks.items()} == {
        "0": [0, 1]
    }
    assert one.target_assignment.active_tasks == one.assignment.active_tasks


def test_the_asyncio_client_sends_the_same(kafka3: Cluster) -> None:
    async def main() -> None:
        async with AIOAdminClient({"bootstrap.servers": kafka3.bootstrap}) as admin:
            for call in (
                admin.describe_share_groups,
                admin.describe_streams_groups,
                admin.delete_streams_groups,
            ):
                with pytest.raises(KafkaException) as error:
                    await call(["nobody"])["nobody"]
                assert error.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
            found = await admin.list_groups(
                timeout=WAIT_S, types={ConsumerGroupType.SHARE, ConsumerGroupType.STREAMS}
            )
            assert {each.type for each in found} <= {
                ConsumerGroupType.SHARE,
                ConsumerGroupType.STREAMS,
            }

    asyncio.run(main())
