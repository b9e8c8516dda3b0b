"""ShareConsumer on the mock cluster: acquisition, acknowledgement, close()."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kafka_native import (
    AcknowledgeType,
    ConcurrentModificationException,
    IllegalStateException,
    KafkaError,
    KafkaException,
    Message,
    Messages,
    ShareConsumer,
    TopicPartition,
)
from kafka_native.mock import MockCluster
from kafka_native.mock.share_partitions import State
from kafka_native.protocol import ApiKey
from tests.client.share_support import done_up_to, new_group, sharing, take, values
from tests.client.support import Client, fill
from tests.waiting import wait_for

EXPLICIT = {"share_acknowledgement_mode": "explicit"}


def test_every_record_is_delivered_once_and_accepted_by_the_next_poll(client: Client) -> None:
    topic, group = client.topic(3), new_group(client)
    fill(client, topic, 3000)
    with sharing(client, group, topic) as consumer:
        found = take(consumer, 3000)
        assert sorted(map(int, values(found))) == list(range(3000))
        assert {each.delivery_count() for each in found} == {1}
        assert consumer.poll(0.1).count() == 0
        wait_for(
            lambda: sum(done_up_to(client.cluster, group, topic, n) for n in range(3)) == 3000,
            "accepted",
        )


def test_a_poll_returns_a_container_of_messages(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 3)
    with sharing(client, group, topic) as consumer:
        messages = consumer.poll(20)
        assert isinstance(messages, Messages)
        assert [each.offset() for each in messages] == [0, 1, 2]
        assert messages[0].topic() == topic
        assert messages[0].partition() == 0
        assert messages[2].value() == b"2"
        assert messages[0].timestamp()[1] > 0


def test_two_members_share_the_records_of_one_partition(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 400)
    strict = {"max_poll_records": 50, "share_acquire_mode": "record_limit"}
    with (
        sharing(client, group, topic, **strict) as one,
        sharing(client, group, topic, **strict) as other,
    ):
        found: list[list[Message]] = [[], []]
        while len(found[0]) + len(found[1]) < 400:
            found[0] += one.poll(0.1)
            found[1] += other.poll(0.1)
        offsets = [{each.offset() for each in mine} for mine in found]
        assert offsets[0] | offsets[1] == set(range(400))
        assert not offsets[0] & offsets[1]
        assert all(offsets)
        assert {each.delivery_count() for mine in found for each in mine} == {1}


@pytest.mark.parametrize(
    ("mode", "counts"), [("batch_optimized", [8]), ("record_limit", [3, 3, 2])]
)
def test_the_acquire_mode_decides_whether_batches_are_whole(
    client: Client, topic: str, group: str, mode: str, counts: list[int]
) -> None:
    fill(client, topic, 8, **{"linger.ms": 50})
    assert len(client.cluster.batches(topic, 0)) == 1
    with sharing(client, group, topic, max_poll_records=3, share_acquire_mode=mode) as consumer:
        assert [consumer.poll(20).count() for _ in counts] == counts


def test_close_releases_unacknowledged_records(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 10)
    with sharing(client, group, topic) as consumer:
        assert len(take(consumer, 10)) == 10
    assert client.cluster.share.record(group, topic, 0, 0) == (State.AVAILABLE, 1)
    assert client.cluster.share.members(group) == []
    assert client.cluster.share.session_count() == 0
    with sharing(client, group, topic) as consumer:
        assert {each.delivery_count() for each in take(consumer, 10)} == {2}


def test_explicit_mode_requires_every_acknowledgement_before_the_next_poll(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 4)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        accepted, released, rejected, last = take(consumer, 4)
        consumer.acknowledge(accepted)
        consumer.acknowledge(released, AcknowledgeType.RELEASE)
        consumer.acknowledge_offset(topic, 0, 2, AcknowledgeType.REJECT)
        with pytest.raises(IllegalStateException, match="acknowledged"):
            consumer.poll(0)
        consumer.acknowledge(last, AcknowledgeType.REJECT)
        consumer.acknowledge(last)  # before it is sent, it can be changed
        again = take(consumer, 1)
        assert values(again) == [released.value()]
        assert again[0].delivery_count() == 2
        state = [client.cluster.share.record(group, topic, 0, at)[0] for at in (1, 2, 3)]
        assert state == [State.ACQUIRED, State.ARCHIVED, State.ACKNOWLEDGED]
        assert rejected.offset() == 2
        consumer.acknowledge(again[0])
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        assert done_up_to(client.cluster, group, topic) == 4
        with pytest.raises(IllegalStateException, match="hands"):
            consumer.acknowledge(again[0])


def test_a_rejected_record_is_not_delivered_again(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 3)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        for each in take(consumer, 3):
            consumer.acknowledge(
                each, AcknowledgeType.REJECT if each.offset() == 1 else AcknowledgeType.RELEASE
            )
        assert sorted(each.offset() or 0 for each in take(consumer, 2)) == [0, 2]


def test_a_record_that_is_always_released_is_delivered_as_often_as_the_group_allows(
    client: Client, topic: str, group: str
) -> None:
    client.cluster.share.settings.delivery_limit = 3
    fill(client, topic, 1)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        for count in (1, 2, 3):
            (message,) = take(consumer, 1)
            assert message.delivery_count() == count
            consumer.acknowledge(message, AcknowledgeType.RELEASE)
        assert consumer.poll(0.2).is_empty()
        assert done_up_to(client.cluster, group, topic) == 1


def test_part_of_a_batch_can_be_committed(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 5)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        messages = take(consumer, 5)
        for at in (0, 1, 4):
            consumer.acknowledge(messages[at])
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        assert done_up_to(client.cluster, group, topic) == 2
        assert client.cluster.share.record(group, topic, 0, 4)[0] is State.ACKNOWLEDGED
        assert consumer.commit_sync() == {}
        for at in (2, 3):
            consumer.acknowledge(messages[at])
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        assert done_up_to(client.cluster, group, topic) == 5


def test_the_callback_gets_the_acknowledged_offsets(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 3)
    calls: list[tuple[dict[TopicPartition, set[int]], KafkaException | None]] = []
    with sharing(client, group, topic) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda *call: calls.append(call))
        take(consumer, 3)
        consumer.commit_async()
        while not calls:
            consumer.poll(0.05)
    assert calls == [({TopicPartition(topic, 0): {0, 1, 2}}, None)]


def test_commit_sync_raises_the_error_of_a_callback_that_calls_the_consumer(
    client: Client, topic: str, group: str
) -> None:
    fill(client, topic, 1)
    with sharing(client, group, topic) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: consumer.poll(0))
        take(consumer, 1)
        with pytest.raises(IllegalStateException, match="callback"):
            consumer.commit_sync()
        consumer.set_acknowledgement_commit_callback(None)


def test_commit_and_callback_report_a_refused_acknowledgement(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 2)
    calls: list[Any] = []
    with sharing(client, group, topic) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda *call: calls.append(call))
        take(consumer, 2)
        client.cluster.share.expire_locks(group)
        (error,) = consumer.commit_sync().values()
        assert error is not None
        assert error.args[0].code() == KafkaError.INVALID_RECORD_STATE
        assert {each.delivery_count() for each in take(consumer, 2)} == {2}
        ((offsets, raised),) = calls
        assert offsets == {TopicPartition(topic, 0): {0, 1}}
        assert raised.args[0].code() == KafkaError.INVALID_RECORD_STATE


def test_iteration_returns_every_record_and_wakeup_ends_it(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 500)
    with sharing(client, group, topic, max_poll_records=100) as consumer:
        found = []
        for message in consumer:
            found.append(int(message.value() or b""))
            if len(found) == 500:
                consumer.wakeup()
        assert sorted(found) == list(range(500))
        wait_for(lambda: done_up_to(client.cluster, group, topic) == 500, "accepted")


@pytest.mark.parametrize("breaks", [False, True])
def test_no_commit_accepts_records_that_the_iteration_has_not_returned(
    client: Client, topic: str, group: str, breaks: bool
) -> None:
    shared = client.cluster.share
    fill(client, topic, 5)
    with sharing(client, group, topic) as consumer:
        for message in consumer:
            assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
            assert shared.start_offset(group, topic, 0) == message.offset() + 1
            if message.offset() == 2:
                break
        if breaks:
            assert consumer.poll(0.2).is_empty()
            assert consumer.commit_sync() == {}
        else:
            assert [next(consumer).offset() for _ in range(2)] == [3, 4]
            consumer.commit_sync()
    assert shared.start_offset(group, topic, 0) == (3 if breaks else 5)


def test_wakeup_from_another_thread_ends_a_poll(client: Client, topic: str, group: str) -> None:
    with sharing(client, group, topic) as consumer:
        threading.Timer(0.1, consumer.wakeup).start()
        assert consumer.poll().is_empty()


def test_wakeup_ends_an_iteration_although_records_have_arrived(
    client: Client, topic: str, group: str
) -> None:
    fill(client, topic, 5)
    with sharing(client, group, topic) as consumer:
        consumer.poll(0)
        wait_for(lambda: consumer._inbox.fetched, "records")
        consumer.wakeup()
        assert len(list(consumer)) == 5


def test_two_threads_at_once_are_refused(client: Client, topic: str, group: str) -> None:
    with sharing(client, group, topic) as consumer:
        thread = threading.Thread(target=consumer.poll)
        thread.start()
        wait_for(lambda: consumer._inbox.is_polling, "the thread polls")
        with pytest.raises(ConcurrentModificationException):
            consumer.poll(0)
        consumer.wakeup()
        thread.join()


def test_polling_needs_a_subscription(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 1)
    with sharing(client, group) as consumer:
        with pytest.raises(IllegalStateException, match="Consumer is not subscribed to any topics"):
            consumer.poll(0)
        consumer.subscribe([topic])
        assert consumer.subscription() == [topic]
        take(consumer, 1)
        consumer.subscribe([])
        assert consumer.subscription() == []
        assert client.cluster.share.members(group) == []
        assert client.cluster.share.record(group, topic, 0, 0) == (State.AVAILABLE, 1)
        consumer.subscribe([topic])
        assert take(consumer, 1)[0].delivery_count() == 2


def test_a_new_subscription_replaces_the_first(client: Client) -> None:
    first, second, group = client.topic(2), client.topic(2), new_group(client)
    fill(client, first, 10)
    fill(client, second, 10)
    with sharing(client, group, first) as consumer:
        assert {each.topic() for each in take(consumer, 10)} == {first}
        consumer.subscribe([second])
        assert {each.topic() for each in take(consumer, 10)} == {second}
        fill(client, first, 10)
        assert consumer.poll(0.3).is_empty()


def test_a_closed_share_consumer_raises(client: Client) -> None:
    consumer = ShareConsumer({"bootstrap.servers": client.bootstrap, "group.id": "closed"})
    consumer.close()
    consumer.close()
    message = Message(topic="t", partition=0, offset=0)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (consumer.poll, (0,)),
        (consumer.subscribe, (["t"],)),
        (consumer.unsubscribe, ()),
        (consumer.subscription, ()),
        (consumer.commit_sync, ()),
        (consumer.commit_async, ()),
        (consumer.acknowledge, (message,)),
        (consumer.acknowledge_offset, ("t", 0, 0)),
        (consumer.set_acknowledgement_commit_callback, (None,)),
        (consumer.set_sasl_credentials, ("a", "b")),
        (consumer.brokers_add, ("a:1",)),
    ]
    for call, arguments in calls:
        with pytest.raises(IllegalStateException, match="Share consumer closed"):
            call(*arguments)


def test_wrong_arguments_raise(client: Client) -> None:
    message = Message(topic="t", partition=0, offset=0)
    with sharing(client, "bad", "t", **EXPLICIT) as consumer:
        for topics in ("t", ("t",), [1], None):
            with pytest.raises(TypeError, match="list of topic unicode strings"):
                consumer.subscribe(topics)  # type: ignore[arg-type]
        for names in ([""], ["t", "t"], ["^t"]):
            with pytest.raises(ValueError, match="Failed to subscribe"):
                consumer.subscribe(names)
        with pytest.raises(TypeError, match="must be Message"):
            consumer.acknowledge("t")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="Failed to acknowledge message"):
            consumer.acknowledge(message, 9)  # type: ignore[arg-type]
        for unknown in (
            Message(partition=0, offset=0),
            Message(topic="t", offset=0),
            Message(topic="t", partition=0),
        ):
            with pytest.raises(ValueError, match="Failed to acknowledge message"):
                consumer.acknowledge(unknown)
        with pytest.raises(IllegalStateException, match="Failed to acknowledge message"):
            consumer.acknowledge(message)
        with pytest.raises(ValueError, match="Failed to acknowledge offset"):
            consumer.acknowledge_offset("t", -1, 0)
        with pytest.raises(TypeError, match="must be str"):
            consumer.acknowledge_offset(1, 0, 0)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="callable"):
            consumer.set_acknowledgement_commit_callback(1)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="must be a number of seconds, not str"):
            consumer.poll("1")  # type: ignore[arg-type]


def test_acknowledging_in_implicit_mode_is_refused(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 1)
    with sharing(client, group, topic) as consumer:
        (message,) = take(consumer, 1)
        with pytest.raises(IllegalStateException, match="explicit"):
            consumer.acknowledge(message)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("isolation.level", "read_committed"),
        ("group.instance.id", "i"),
        ("auto.offset.reset", "earliest"),
    ],
)
def test_properties_of_other_consumers_are_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"`{name}` is not applicable for share consumer"):
        ShareConsumer({"bootstrap.servers": "localhost:1", "group.id": "g", name: value})


def test_properties_without_effect_are_logged(client: Client) -> None:
    lines: list[str] = []
    conf = {
        "bootstrap.servers": client.bootstrap,
        "group.id": "ignored",
        "offset.store.method": "none",
    }
    with ShareConsumer({**conf, "log_cb": lambda level, facility, name, line: lines.append(line)}):
        pass
    assert any("offset.store.method has no effect in a share consumer" in line for line in lines), (
        lines
    )


def test_group_id_and_a_valid_mode_are_required() -> None:
    with pytest.raises(ValueError, match=r"group\.id must be set"):
        ShareConsumer({"bootstrap.servers": "localhost:1"})
    conf = {"bootstrap.servers": "localhost:1", "group.id": "g"}
    with pytest.raises(KafkaException, match="implicit or explicit"):
        ShareConsumer({**conf, "share.acknowledgement.mode": "auto"})


def test_acknowledgements_travel_with_the_next_fetch(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 30)
    client.cluster.clear_requests()
    with sharing(client, group, topic, max_poll_records=10) as consumer:
        take(consumer, 30)
        consumer.poll(0.1)
        wait_for(lambda: done_up_to(client.cluster, group, topic) == 30, "accepted")
        assert client.cluster.requests_of(ApiKey.SHARE_ACKNOWLEDGE) == []


def test_error_for_a_broker_without_share_groups_names_the_kip() -> None:
    with MockCluster(1, max_versions={ApiKey.SHARE_GROUP_HEARTBEAT: -1}) as old:
        old.create_topic("t")
        with ShareConsumer(
            {"bootstrap.servers": old.bootstrap_servers, "group.id": "g"}
        ) as consumer:
            consumer.subscribe(["t"])
            (message,) = consumer.poll(20)
            error = message.error()
            assert error is not None
            assert "KIP-932" in error.str()
            with pytest.raises(KafkaException, match="KIP-932"):
                consumer.poll(0)
