"""Classic groups on the mock cluster: members join, leave, crash and resubscribe."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from kafka_native import Consumer, KafkaError, TopicPartition
from kafka_native.control.assignors import Assignor
from kafka_native.protocol import ApiKey
from tests.waiting import wait_for

from .classic_support import Readers
from .support import Client


class ByNumber(Assignor):
    """An assignor of the application: partition n goes to member n, ordered by id."""

    name = "by-number"

    def assign(self, partitions: Any, members: Any) -> Any:
        found: dict[str, list[tuple[str, int]]] = {}
        for topic, infos in partitions.items():
            subscribed = sorted(each for each, member in members.items() if topic in member.topics)
            for info in infos:
                found.setdefault(subscribed[info.number % len(subscribed)], []).append(
                    (topic, info.number)
                )
        return found


@pytest.mark.parametrize(
    "strategy",
    ["range", "roundrobin", "sticky", "cooperative-sticky", "range,roundrobin", [ByNumber()]],
    ids=str,
)
def test_members_share_partitions_join_and_leave(client: Client, strategy: Any):
    with Readers(client, strategy) as group:
        group.fill(600)
        first = group.add_and_settle()
        second = group.add_and_settle()
        third = group.add_and_settle()
        wait_for(lambda: len(set(group.values())) == 600, lambda: repr(len(group.values())))
        seen = [reader.messages for reader in group.readers]
        second.stop()
        group.settle()
        group.fill(600, start=600)
        kept = {int(message.value()) for messages in seen for message in messages}
        group.wait(lambda: len(kept | set(group.values())) == 1200)
        assert first.failure is third.failure is None
        assert first.errors == third.errors == []


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_stored_offsets_are_committed_before_partitions_move(client: Client, strategy: str):
    with Readers(client, strategy, **{"auto.commit.interval.ms": 60_000}) as group:
        group.fill(300)
        first = group.add()
        group.wait(lambda: len(first.messages) == 300)
        second = group.add_and_settle()
        group.fill(300, start=300)
        group.wait(lambda: len(group.values()) >= 600)
        # no message is read twice, although the timer has committed nothing
        assert group.values() == list(range(600))
        first.stop()
        group.settle()
        group.fill(300, start=600)
        group.wait(lambda: len(first.messages) + len(second.messages) >= 900)
        values = [int(message.value()) for message in (*first.messages, *second.messages)]
        assert sorted(values) == list(range(900))


def test_cooperative_members_keep_their_other_partitions(client: Client):
    with Readers(client, "cooperative-sticky") as group:
        first = group.add_and_settle()
        before = set(first.owned)
        second = group.add_and_settle()
        revoked = {key for kind, keys in first.events if kind == "revoke" for key in keys}
        assert revoked == before - first.owned == second.owned
        assert ("lose", []) not in first.events
        assigned = first.do(lambda consumer: consumer.assignment())
        assert {(each.topic, each.partition) for each in assigned} == first.owned


def test_callbacks_run_in_poll(client: Client):
    with Readers(client) as group:
        first = group.add_and_settle()
        group.add_and_settle()
        [thread] = first.threads
        assert thread != threading.get_ident()
        assert [kind for kind, _ in first.events] == ["assign", "revoke", "assign"]


def test_member_that_crashes_is_replaced_after_its_session(client: Client):
    with Readers(client, **{"session.timeout.ms": 1000}) as group:
        first, second = group.add(), group.add()
        group.settle()
        first.stop(leave=False)
        group.settle()
        assert len(second.owned) == group.partitions


def test_rebalance_by_the_coordinator(client: Client):
    with Readers(client, "cooperative-sticky") as group:
        reader = group.add_and_settle()
        generation = client.cluster.group(group.id).generation
        client.cluster.rebalance_group(group.id)
        group.wait(lambda: reader.events[1:] == [("assign", [])])
        assert client.cluster.group(group.id).generation > generation


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_expelled_member_loses_its_partitions(client: Client, strategy: str):
    with Readers(client, strategy) as group:
        reader = group.add_and_settle()
        [member] = client.cluster.group(group.id).members
        client.cluster.expel_member(group.id, member)
        group.wait(lambda: len(reader.events) == 3 and group.shared())
        assert reader.events[1] == ("lose", sorted(group.all))
        assert member not in client.cluster.group(group.id).members


# --- network and coordinator ---


def test_moved_coordinator_causes_no_rebalance(client: Client):
    cluster = client.cluster
    with Readers(client) as group:
        reader = group.add_and_settle()
        coordinator = cluster.coordinator_of(group.id)
        assert coordinator is not None
        cluster.clear_requests()
        other = 1 + coordinator.id % 3
        cluster.move_coordinator(group.id, other)
        group.wait(lambda: len(cluster.requests_of(ApiKey.HEARTBEAT, other)) >= 3)
        assert [kind for kind, _ in reader.events] == ["assign"]
        group.fill(60)
        group.wait(lambda: len(reader.messages) == 60)
        cluster.move_coordinator(group.id, None)


def test_broken_connection_causes_no_rebalance(client: Client):
    cluster = client.cluster
    with Readers(client) as group:
        reader = group.add_and_settle()
        coordinator = cluster.coordinator_of(group.id)
        assert coordinator is not None
        for _ in range(3):
            cluster.clear_requests()
            cluster.disconnect(coordinator.id)
            group.wait(lambda: len(cluster.requests_of(ApiKey.HEARTBEAT)) >= 3)
        assert [kind for kind, _ in reader.events] == ["assign"]
        assert cluster.group(group.id).generation == 1


def test_loading_coordinator(client: Client):
    client.cluster.load_coordinator("loading", 1.0)
    with Readers(client, **{"group.id": "loading"}) as group:
        reader = group.add_and_settle()
        assert reader.errors == []


def test_session_ends_while_no_coordinator_answers(client: Client):
    cluster = client.cluster
    with Readers(client, **{"session.timeout.ms": 1000}) as group:
        reader = group.add_and_settle()
        cluster.push_request_errors(
            ApiKey.HEARTBEAT, [KafkaError.COORDINATOR_NOT_AVAILABLE] * 10_000
        )
        group.wait(lambda: ("lose", sorted(group.all)) in reader.events)
        cluster.faults.clear()
        group.settle()


# --- static members ---


def test_static_member_that_comes_back_causes_no_rebalance(client: Client):
    cluster = client.cluster
    with Readers(client) as group:
        first = group.add(**{"group.instance.id": "one"})
        second = group.add_and_settle(**{"group.instance.id": "two"})
        group.wait(lambda: cluster.group(group.id).state == "Stable")
        second.do(lambda consumer: None)
        generation, count = cluster.group(group.id).generation, len(second.events)
        owned = set(first.owned)
        first.stop()
        again = group.add(**{"group.instance.id": "one"})
        group.wait(lambda: again.owned == owned)
        assert cluster.group(group.id).generation == generation
        assert len(second.events) == count


def test_second_member_of_the_same_instance_id_fences_the_first(client: Client):
    with Readers(client) as group:
        first = group.add_and_settle(**{"group.instance.id": "one"})
        second = group.add(**{"group.instance.id": "one"})
        group.wait(lambda: ("lose", sorted(group.all)) in first.events)
        group.wait(lambda: second.owned == group.all)
        group.wait(
            lambda: first.failure is not None or any(error.fatal() for error in first.errors)
        )
        group.owners.conflicts.clear()  # the fenced member learns of it last


# --- max.poll.interval.ms ---


def test_member_that_does_not_poll_leaves_until_it_polls(client: Client):
    conf = {"max.poll.interval.ms": 1500, "session.timeout.ms": 1500}
    with Readers(client, **conf) as group:
        first, second = group.add(), group.add()
        group.settle()
        first.pause.set()
        group.wait(lambda: second.owned == group.all)
        [left] = client.cluster.group(group.id).left
        assert "max.poll.interval.ms" in str(left)
        group.owners.conflicts.clear()  # a member that doesn't poll doesn't learn of its loss
        first.pause.clear()
        group.settle()
        assert [error.code() for error in first.errors] == [KafkaError._MAX_POLL_EXCEEDED]
        assert any(kind == "lose" for kind, _ in first.events)


# --- subscriptions ---


def test_pattern_matches_later_topics(client: Client):
    with Readers(client, **{"topic.metadata.refresh.interval.ms": 200}) as group:
        prefix = f"^{group.topic}-"
        reader = group.add(prefix)
        client.cluster.create_topic(f"{group.topic}-a", 2)
        group.wait(lambda: len(reader.owned) == 2)
        client.cluster.create_topic(f"{group.topic}-b", 1)
        group.wait(lambda: len(reader.owned) == 3)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_added_partitions_are_assigned(client: Client, strategy: str):
    with Readers(client, strategy, **{"topic.metadata.refresh.interval.ms": 200}) as group:
        group.add()
        group.add_and_settle()
        client.cluster.create_partitions(group.topic, 10)
        group.partitions = 10
        group.settle()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_replaced_subscription(client: Client, strategy: str):
    other = client.topic(2)
    with Readers(client, strategy) as group:
        reader = group.add_and_settle()
        reader.do(lambda consumer: reader.subscribe([other]))
        group.wait(lambda: reader.owned == {(other, 0), (other, 1)})
        assert ("revoke", sorted(group.all)) in reader.events
        assert not any(kind == "lose" for kind, _ in reader.events)


def test_unsubscribe_and_subscribe_again_quickly(client: Client):
    with Readers(client) as group:
        reader = group.add_and_settle()
        for _ in range(5):
            reader.do(lambda consumer: (consumer.unsubscribe(), reader.subscribe([group.topic])))
        group.settle()
        reader.do(lambda consumer: consumer.unsubscribe())
        assert reader.owned == set()
        group.wait(lambda: client.cluster.group(group.id).state == "Empty")


def test_topic_that_does_not_exist_yet(client: Client):
    name = "topic-that-comes-later"
    with Readers(client, **{"topic.metadata.refresh.interval.ms": 200}) as group:
        reader = group.add(group.topic, name, **{"allow.auto.create.topics": False})
        group.wait(lambda: reader.owned == group.all)
        client.cluster.create_topic(name, 1)
        group.wait(lambda: (name, 0) in reader.owned)


# --- leaving ---


def test_close_sends_its_reason_and_others_take_over_at_once(client: Client):
    with Readers(client, **{"session.timeout.ms": 45_000}) as group:
        first, second = group.add(), group.add()
        group.settle()
        first.stop()
        group.wait(lambda: second.owned == group.all, timeout_s=20)
        [left] = client.cluster.group(group.id).left
        assert "close" in str(left)


def test_close_while_a_join_waits_for_others(client: Client):
    with Readers(client, **{"session.timeout.ms": 45_000, "max.poll.interval.ms": 45_000}) as group:
        first = group.add_and_settle()
        first.pause.set()  # it doesn't revoke, so new members wait
        second = group.add()
        group.wait(lambda: client.cluster.group(group.id).state == "PreparingRebalance")
        started = time.monotonic()
        second.stop()
        assert time.monotonic() - started < 15
        first.pause.clear()
        group.settle()


def test_closing_leader_assigns_first(client: Client):
    """The coordinator refuses its final commit until it has assigned."""
    conf = {"session.timeout.ms": 45_000, "auto.commit.interval.ms": 60_000}
    with Readers(client, "cooperative-sticky", **conf) as group:
        group.fill(300)
        first = group.add()
        group.wait(lambda: len(first.messages) == 300)
        other = client.topic(1)
        # the leader requests a topic that it doesn't know
        client.cluster.delay_responses(None, 4.0, ApiKey.METADATA)
        second = group.add(other)
        wait_for(
            lambda: client.cluster.group(group.id).state == "CompletingRebalance", timeout_s=20
        )
        first.stop()  # fails after 30 s
        client.cluster.delay_responses(None, 0.0, ApiKey.METADATA)
        committed = client.cluster.group(group.id).offsets
        assert sum(each.offset for each in committed.values()) == 300
        group.wait(lambda: second.owned == {(other, 0)})


def test_close_before_the_first_poll(client: Client):
    group = Readers(client)
    for _ in range(3):
        consumer = Consumer(group.settings({}))
        consumer.subscribe([group.topic])
        consumer.close()
    with group:
        group.add_and_settle()


def test_close_without_any_broker(client: Client):
    consumer = Consumer(
        {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "error_cb": lambda error: None}
    )
    consumer.subscribe(["t"])
    assert consumer.poll(0.1) is None
    started = time.monotonic()
    consumer.close()
    assert time.monotonic() - started < 20


# --- errors ---


class Wrong(ByNumber):
    """Raises, or assigns every partition to every member, until ``way`` is changed."""

    def __init__(self, way: str) -> None:
        self.way = way

    def assign(self, partitions: Any, members: Any) -> Any:
        if self.way == "raises":
            raise RuntimeError("out of order")
        right = super().assign(partitions, members)
        if self.way == "twice":
            every = [key for keys in right.values() for key in keys]
            return dict.fromkeys(members, every)
        return right


@pytest.mark.parametrize("way", ["raises", "twice"])
def test_wrong_assignor_is_reported_and_the_group_recovers(client: Client, way: str):
    wrong = Wrong(way)
    with Readers(client, [wrong]) as group:
        group.add()
        group.add()
        group.wait(lambda: any(reader.errors for reader in group.readers))
        if way == "raises":
            assert group.owners.of == {}
        errors = [error for reader in group.readers for error in reader.errors]
        assert ("out of order" if way == "raises" else "both to") in errors[0].str()
        wrong.way = "right"
        group.settle()


@pytest.mark.parametrize(
    "metadata", [b"", b"\xff", b"\0\3\x7f\xff\xff\xff", b"\0\1\0\0\0\1\xff\xff" + b"x" * 1000]
)
def test_hostile_metadata_of_another_member(client: Client, metadata: bytes):
    group = Readers(client)
    with group:
        first = group.add_and_settle()
        evil: list[str] = []

        def edit(member_id: str, given: bytes) -> bytes:
            return metadata if member_id in evil else given

        client.cluster.edit_member_metadata(group.id, edit)
        known = set(client.cluster.group(group.id).members)
        second = group.add()
        group.wait(lambda: len(client.cluster.group(group.id).members) == 2)
        evil.extend(set(client.cluster.group(group.id).members) - known)
        client.cluster.rebalance_group(group.id)
        group.wait(lambda: first.owned == group.all and not second.owned)
        client.cluster.edit_member_metadata(group.id, None)
        client.cluster.rebalance_group(group.id)
        group.settle()


def test_full_group(client: Client):
    client.cluster.set_group_max_size(1)
    try:
        with Readers(client) as group:
            first = group.add_and_settle()
            second = group.add()
            group.wait(lambda: second.errors)
            assert second.errors[0].code() == KafkaError.GROUP_MAX_SIZE_REACHED
            assert first.owned == group.all
            client.cluster.set_group_max_size(None)
            group.settle()
    finally:
        client.cluster.set_group_max_size(None)


def test_unauthorized_group(client: Client):
    with Readers(client) as group:
        client.cluster.deny_group(group.id)
        reader = group.add()
        group.wait(lambda: reader.errors)
        assert reader.errors[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        client.cluster.deny_group(group.id, False)
        group.settle()


def test_members_without_a_common_assignor(client: Client):
    with Readers(client, "range") as group:
        first = group.add_and_settle()
        second = group.add(**{"partition.assignment.strategy": "roundrobin"})
        group.wait(lambda: second.errors)
        assert second.errors[0].code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
        assert first.owned == group.all
        second.stop()
        group.settle()


def test_callback_that_raises_does_not_stop_the_group(client: Client):
    group = Readers(client)

    def raising(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        raise ZeroDivisionError

    consumer = Consumer(group.settings({}))
    try:
        consumer.subscribe([group.topic], on_assign=raising)
        group.fill(10)
        raised = 0
        values: list[int] = []
        deadline = time.monotonic() + 30
        while len(values) < 10 and time.monotonic() < deadline:
            try:
                message = consumer.poll(0.1)
            except ZeroDivisionError:
                raised += 1
                continue
            if message is not None:
                assert message.error() is None
                values.append(int(message.value()))
        assert raised == 1
        assert sorted(values) == list(range(10))
    finally:
        consumer.close()
