"""Members of streams groups (KIP-1071): tasks, their moves between members, and statuses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from kafka_native import (
    OFFSET_BEGINNING,
    IllegalStateException,
    KafkaError,
    KafkaException,
    StreamsGroupMember,
    TopicPartition,
)
from kafka_native.admin import AdminClient, StreamsTopicInfo
from kafka_native.mock import MockCluster
from kafka_native.mock.streams_groups import Roles
from kafka_native.protocol.api_keys import ApiKey
from kafka_native.streams_group import (
    InternalTopic,
    StatusCode,
    Subtopology,
    TaskAssignment,
    TaskId,
    Topology,
)
from tests.client.support import Client
from tests.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.usefixtures("fast_heartbeats")
_numbers = itertools.count()


@pytest.fixture
def fast_heartbeats(cluster: MockCluster) -> Iterator[None]:
    settings = cluster.groups.settings
    before = settings.heartbeat_seconds
    cluster.groups.set_heartbeat_interval(0.1)
    yield
    cluster.groups.set_heartbeat_interval(before)


@pytest.fixture
def group() -> str:
    return f"streams-{next(_numbers)}"


def conf_of(client: Client, group: str, **conf: Any) -> dict[str, Any]:
    settings = {name.replace("_", "."): value for name, value in conf.items()}
    return {
        "bootstrap.servers": client.bootstrap,
        "group.id": group,
        "reconnect.backoff.ms": 20,
        **settings,
    }


def one_part(*topics: str) -> Topology:
    return Topology([Subtopology("0", source_topics=topics)])


@contextmanager
def joined(
    client: Client, group: str, topology: Topology, **conf: Any
) -> Iterator[StreamsGroupMember]:
    with StreamsGroupMember(conf_of(client, group, **conf), topology) as member:
        yield member


def tasks(*partitions: int, part: str = "0") -> frozenset[TaskId]:
    return frozenset(TaskId(part, number) for number in partitions)


def next_of(member: StreamsGroupMember) -> TaskAssignment:
    """Return the member's next assignment."""
    found = member.poll(WAIT_S)
    assert found is not None, "no assignment in time"
    return found


def poll_all(members: list[StreamsGroupMember]) -> list[TaskAssignment]:
    """Poll each member once, and return what they own now."""
    for member in members:
        member.poll(0.01)
    return [member.assignment() for member in members]


def test_a_member_gets_one_task_for_each_partition(client: Client, group: str) -> None:
    topic = client.topic(partitions=3)
    with joined(client, group, one_part(topic)) as member:
        assert member.assignment() == TaskAssignment()
        found = next_of(member)
        assert found == TaskAssignment(active=tasks(0, 1, 2))
        assert member.assignment() is found
        assert member.poll(0.3) is None
        assert repr(member).endswith("(3 active tasks)>")
        metadata = member.consumer_group_metadata()
        assert (metadata.group_id, metadata.member_id) == (group, member.member_id())
        assert metadata.generation > 0
    described = client.cluster.group(group)
    assert (described.type, described.members) == ("streams", {})
    with pytest.raises(IllegalStateException, match="Streams group member closed"):
        member.poll(0)


def test_tasks_move_only_after_their_owner_has_confirmed_that_it_stopped_them(
    client: Client, group: str
) -> None:
    topology = one_part(client.topic(partitions=4))
    with joined(client, group, topology) as first, joined(client, group, topology) as second:
        held = [TaskAssignment(), TaskAssignment()]

        def both_have_half() -> bool:
            held[:] = poll_all([first, second])
            assert not held[0].active & held[1].active
            return [len(each.active) for each in held] == [2, 2]

        wait_for(both_have_half, lambda: f"two tasks each: {held}")
        moved = held[0].active
    with joined(client, group, topology) as first:
        assert next_of(first).active == tasks(0, 1, 2, 3)
        with joined(client, group, topology) as second:
            shrunk = next_of(first)
            assert len(shrunk.active) == 2
            assert shrunk.revoked == tasks(0, 1, 2, 3) - shrunk.active
            assert second.poll(0.5) is None, "the first member hasn't confirmed yet"
            assert not shrunk.is_lost
            assert first.poll(0) is None
            assert next_of(second).active == shrunk.revoked
        assert moved
        assert next_of(first).active == tasks(0, 1, 2, 3)


def test_standby_and_warmup_tasks_are_reported_in_their_roles(client: Client, group: str) -> None:
    topic = client.topic(partitions=2)
    topology = one_part(topic)
    groups = client.cluster.groups
    with ExitStack() as stack:
        first, second = (stack.enter_context(joined(client, group, topology)) for _ in range(2))
        wait_for(
            lambda: [len(each.active) for each in poll_all([first, second])] == [1, 1], "one each"
        )
        groups.set_standby_tasks(group, 1)

        def copies() -> bool:
            one, two = poll_all([first, second])
            return (one.standby, two.standby) == (two.active, one.active)

        wait_for(copies, "each member copies the other's task")
        groups.assign_tasks(
            group,
            {
                first.member_id(): Roles(active=tasks(0, 1)),
                second.member_id(): Roles(warmup=tasks(1)),
            },
        )
        wait_for(
            lambda: (
                poll_all([first, second])
                == [TaskAssignment(tasks(0, 1)), TaskAssignment(warmup=tasks(1))]
            ),
            "the roles of the test",
        )


@pytest.mark.parametrize("is_fenced", [False, True])
def test_a_removed_member_loses_its_tasks_and_joins_again(
    client: Client, group: str, is_fenced: bool
) -> None:
    topology = one_part(client.topic(partitions=2))
    with joined(client, group, topology) as member:
        assert next_of(member).active == tasks(0, 1)
        assert member.poll(0) is None
        groups = client.cluster.groups
        remove = groups.fence_member if is_fenced else groups.expel_member
        remove(group, member.member_id())
        lost = next_of(member)
        assert lost == TaskAssignment(revoked=tasks(0, 1), is_lost=True)
        assert client.cluster.group(group).members == {}, "it waits for the application"
        again = next_of(member)
        assert (again.active, again.is_lost) == (tasks(0, 1), False)


def test_a_session_that_expires_frees_the_tasks(client: Client, group: str) -> None:
    topology = one_part(client.topic(partitions=2))
    with joined(client, group, topology) as first, joined(client, group, topology) as second:
        wait_for(
            lambda: [len(each.active) for each in poll_all([first, second])] == [1, 1], "one each"
        )
        before = second.assignment().active
        first._client.main.run(first._control.membership._stop_heartbeat)
        clock, held = client.cluster.clock, client.cluster.state.groups.find(group)
        assert held is not None
        alive, session_s = held.members[second.member_id()], held.settings.session_seconds
        for _ in range(2):  # too long for the first member only
            clock.advance(0.6 * session_s)
            wait_for(lambda: clock.now() - alive.last_seen < 0.3 * session_s, "a heartbeat")
        wait_for(
            lambda: (second.poll(0.1), second.assignment().active)[1] == tasks(0, 1) != before,
            "the second member has both tasks",
        )


def test_a_member_that_is_not_polled_leaves_until_it_polls_again(
    client: Client, group: str
) -> None:
    topology = one_part(client.topic())
    with joined(client, group, topology, max_poll_interval_ms=1000) as member:
        assert next_of(member).active == tasks(0)
        wait_for(lambda: not client.cluster.group(group).members, "it leaves")
        assert next_of(member).is_lost
        with pytest.raises(KafkaException, match=r"max\.poll\.interval\.ms") as raised:
            wait_for(lambda: member.poll(0.1) and None)
        assert raised.value.args[0].code() == KafkaError._MAX_POLL_EXCEEDED
        wait_for(lambda: (member.poll(0.1), member.assignment().active)[1] == tasks(0), "again")


def test_a_missing_source_topic_is_a_status(client: Client, group: str) -> None:
    topic = f"later-{group}"
    with joined(client, group, one_part(topic)) as member:
        found = next_of(member)
        assert [each.code for each in found.statuses] == [StatusCode.MISSING_SOURCE_TOPICS]
        assert topic in found.statuses[0].detail
        assert not found.active
        client.cluster.create_topic(topic, 1)
        wait_for(
            lambda: (member.poll(0.1), member.assignment())[1] == TaskAssignment(tasks(0)),
            "a task, and no status",
        )


def test_topics_that_belong_together_need_equally_many_partitions(
    client: Client, group: str
) -> None:
    left, right = client.topic(partitions=1), client.topic(partitions=2)
    part = Subtopology("0", source_topics=[left, right], copartition_groups=[{left, right}])
    with joined(client, group, Topology([part])) as member:
        codes = [each.code for each in next_of(member).statuses]
        assert codes == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]


def test_a_requested_shutdown_reaches_every_member(client: Client, group: str) -> None:
    topology = one_part(client.topic())
    with joined(client, group, topology) as first, joined(client, group, topology) as second:
        wait_for(lambda: any(each.active for each in poll_all([first, second])), "a task")
        first.shut_down_application()

        def are_told() -> bool:
            return all(
                [status.code for status in each.statuses] == [StatusCode.SHUTDOWN_APPLICATION]
                for each in poll_all([first, second])
            )

        wait_for(are_told, "the status of both members")


def test_internal_topics_are_created_and_the_group_is_described(client: Client, group: str) -> None:
    topic = client.topic(partitions=2)
    changelog = InternalTopic(f"{group}-store-changelog", configs={"cleanup.policy": "compact"})
    repartition = InternalTopic(f"{group}-by-name-repartition", partitions=3)
    topology = Topology(
        [
            Subtopology("1", repartition_source_topics=[repartition]),
            Subtopology(
                "0",
                source_topics=[topic],
                repartition_sink_topics=[repartition.name],
                state_changelog_topics=[changelog],
            ),
        ]
    )
    conf = conf_of(client, group, client_rack="east")
    with (
        StreamsGroupMember(
            conf,
            topology,
            process_id="a-process",
            user_endpoint=("localhost", 8080),
            client_tags={"zone": "a"},
        ) as member,
        AdminClient({"bootstrap.servers": client.bootstrap}) as admin,
    ):
        assert next_of(member).active == tasks(0, 1) | tasks(0, 1, 2, part="1")
        assert member.poll(0) is None
        member.report({TaskId("0", 1): 7}, {TaskId("0", 1): 9})

        def described() -> Any:
            found = admin.describe_streams_groups([group])[group].result(WAIT_S)
            return found if found.members[0].task_end_offsets else None

        found = wait_for(described, "the offsets of the task")
        (one,) = found.members
        assert (one.process_id, one.rack_id, one.client_tags) == (
            "a-process",
            "east",
            {"zone": "a"},
        )
        assert one.user_endpoint == ("localhost", 8080)
        assert [each.offset for each in one.task_offsets] == [7]
        assert one.assignment.active_tasks == {"0": [0, 1], "1": [0, 1, 2]}
        parts = {each.subtopology_id: each for each in found.subtopologies}
        wanted = {changelog.name: StreamsTopicInfo(0, -1, {"cleanup.policy": "compact"})}
        assert parts["0"].state_changelog_topics == wanted

        def has_endpoints() -> Any:
            member.poll(0.05)
            return member.endpoints()

        partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        partitions += [TopicPartition(repartition.name, number) for number in range(3)]
        assert wait_for(has_endpoints, "endpoints") == {
            ("localhost", 8080): {"active": partitions, "standby": []}
        }
    assert len(client.cluster.topics[changelog.name].partitions) == 2
    assert len(client.cluster.topics[repartition.name].partitions) == 3


def test_another_topology_is_refused_for_good(client: Client, group: str) -> None:
    with joined(client, group, one_part(client.topic())) as first:
        assert next_of(first).active == tasks(0)
        with joined(client, group, one_part(client.topic())) as second:
            with pytest.raises(KafkaException) as raised:
                second.poll(WAIT_S)
            assert raised.value.args[0].fatal()
            assert second.fatal_error() is not None
            assert second.fatal_error().code() == KafkaError.INVALID_REQUEST  # type: ignore[union-attr]


def test_a_lost_reply_loses_no_assignment(client: Client, group: str) -> None:
    topology = one_part(client.topic(partitions=2))
    cluster = client.cluster
    with joined(client, group, topology) as member:
        assert next_of(member).active == tasks(0, 1)
        assert member.poll(0) is None
        before = len(cluster.requests_of(ApiKey.STREAMS_GROUP_HEARTBEAT))
        coordinator = cluster.state.coordinator_of(group).id
        cluster.disconnect(coordinator)
        wait_for(
            lambda: len(cluster.requests_of(ApiKey.STREAMS_GROUP_HEARTBEAT)) > before + 2,
            "further heartbeats",
        )
        assert member.poll(0.2) is None, "it keeps its tasks"
        cluster.groups.assign_tasks(group, {member.member_id(): Roles(active=tasks(1))})
        assert next_of(member).active == tasks(1)


def test_arguments_are_checked(client: Client, group: str) -> None:
    topology = one_part("t")
    conf = conf_of(client, group)
    for name in ("group.instance.id", "group.protocol", "group.remote.assignor"):
        with pytest.raises(ValueError, match=name):
            StreamsGroupMember({**conf, name: "x"}, topology)
    with pytest.raises(ValueError, match=r"group\.id must be set"):
        StreamsGroupMember({"bootstrap.servers": client.bootstrap}, topology)
    wrong = [
        Topology([]),
        Topology([Subtopology("0", ["t"]), Subtopology("0", ["u"])]),
        Topology([Subtopology("0")]),
        Topology([Subtopology("0", ["t"], copartition_groups=[{"t", "u"}])]),
    ]
    for each in wrong:
        with pytest.raises(ValueError, match="topology"):
            StreamsGroupMember(conf, each)
    for field in ("source_topics", "source_topic_patterns", "repartition_sink_topics"):
        letters = Topology([Subtopology("0", **{"source_topics": ["t"], field: "orders"})])
        with pytest.raises(TypeError, match=f"{field} must be a sequence"):
            StreamsGroupMember(conf, letters)
    endpoints: list[Any] = ["localhost:80", ("localhost",), ("localhost", "80"), (1, 80)]
    for endpoint in endpoints:
        with pytest.raises(TypeError):
            StreamsGroupMember(conf, topology, user_endpoint=endpoint)
    with pytest.raises(ValueError, match="70000 is no port"):
        StreamsGroupMember(conf, topology, user_endpoint=("localhost", 70000))


def test_a_dropped_member_leaves_its_group(client: Client, group: str) -> None:
    member = StreamsGroupMember(conf_of(client, group), one_part(client.topic()))
    assert next_of(member).active == tasks(0)
    del member
    wait_for(lambda: not client.cluster.group(group).members, "it leaves")


def test_commits_carry_the_member_and_its_newest_epoch(client: Client, group: str) -> None:
    topic = client.topic(partitions=2)
    with joined(client, group, one_part(topic)) as member:
        next_of(member)
        done = member.commit([TopicPartition(topic, 0, 7), TopicPartition(topic, 1, 8)])
        assert [(each.partition, each.offset, each.error) for each in done] == [
            (0, 7, None),
            (1, 8, None),
        ]
        cluster = client.cluster
        cluster.groups.rebalance_group(group)  # its epoch is old until the next heartbeat
        assert member.commit([TopicPartition(topic, 1, 9)])[0].error is None
        codes = [KafkaError.NOT_COORDINATOR, KafkaError.STALE_MEMBER_EPOCH]
        cluster.push_request_errors(ApiKey.OFFSET_COMMIT, codes)
        assert member.commit([TopicPartition(topic, 0, 10)])[0].error is None
        offsets = cluster.group(group).offsets
        assert {key: each.offset for key, each in offsets.items()} == {
            (topic, 0): 10,
            (topic, 1): 9,
        }
        cluster.push_request_errors(ApiKey.OFFSET_COMMIT, [KafkaError.TOPIC_AUTHORIZATION_FAILED])
        error = member.commit([TopicPartition(topic, 0, 11)])[0].error
        assert error is not None
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert member.commit([]) == []
        assert member.commit([TopicPartition(topic, 0)])[0].error is None, "nothing to commit"
        mixed = member.commit([TopicPartition(topic, 0), TopicPartition(topic, 1, 12)])
        assert [each.error for each in mixed] == [None, None]
        with pytest.raises(ValueError, match="negative"):
            member.commit([TopicPartition(topic, 0, OFFSET_BEGINNING)])


def test_a_removed_member_commits_nothing(client: Client, group: str) -> None:
    topic = client.topic()
    with joined(client, group, one_part(topic)) as member:
        next_of(member)
        client.cluster.groups.expel_member(group, member.member_id())
        with pytest.raises(KafkaException) as raised:
            member.commit([TopicPartition(topic, 0, 7)])
        assert raised.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
        assert client.cluster.group(group).offsets == {}
        assert next_of(member).is_lost


def test_a_commit_without_an_answer_ends_in_time(client: Client, group: str) -> None:
    topic = client.topic()
    with joined(client, group, one_part(topic)) as member:
        next_of(member)
        codes = [KafkaError.NOT_COORDINATOR] * 1000
        client.cluster.push_request_errors(ApiKey.OFFSET_COMMIT, codes)
        with pytest.raises(KafkaException) as raised:
            member.commit([TopicPartition(topic, 0, 7)], 0.3)
        assert raised.value.args[0].code() == KafkaError._TIMED_OUT
        client.cluster.faults.clear()
