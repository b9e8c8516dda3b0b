"""subscribe(): groups of Consumers on the mock cluster."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest

from kafka_native import (
    Consumer,
    ConsumerGroupMetadata,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import poll_until, wait_for

from .consumer_support import GROUPS, forever, group, read, subscribed
from .log_support import PlainLogger
from .support import Client, client_threads, code_of, fill, filled

PROTOCOLS = [
    pytest.param({}, id="range"),
    pytest.param({"partition.assignment.strategy": "cooperative-sticky"}, id="cooperative"),
    pytest.param({"group.protocol": "consumer"}, id="consumer"),
]


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the configuration of a member in each protocol."""
    conf: dict[str, Any] = request.param
    return conf


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as open_consumers:
        yield open_consumers


# --- joining, sharing, leaving ---


def test_members_read_everything_once(client: Client, protocol: dict[str, Any], stack: ExitStack):
    topic = client.topic(partitions=4)
    fill(client, topic, 400)
    name = f"shared-{next(GROUPS)}"
    members = [stack.enter_context(group(client, name, **protocol)) for _ in range(3)]
    for member in members:
        member.subscribe([topic])
        assert member.subscription() == [topic]
    poll_until(
        lambda: (
            sum(len(each.assignment()) for each in members) == 4
            and all(map(len, map(Consumer.assignment, members)))
        ),
        *members,
    )
    fill(client, topic, 100, start=1000)
    found: list[int] = []
    deadline = time.monotonic() + 30
    while len(set(found)) < 100:
        assert time.monotonic() < deadline
        for member in members:
            found += [value for m in member.consume(100, 0.05) if (value := int(m.value())) >= 1000]
    assert sorted(found) == list(range(1000, 1100))


def test_a_later_member_starts_at_the_committed_offset(client: Client, protocol: dict[str, Any]):
    topic = filled(client, 20)
    name = f"later-{next(GROUPS)}"
    with subscribed(client, topic, name, **protocol) as first:
        assert read(first, 12) == list(range(12))
    with subscribed(client, topic, name, **protocol) as second:
        assert read(second, 8) == list(range(12, 20))


def test_a_pattern_matches_topics_that_are_created_later(client: Client, protocol: dict[str, Any]):
    base = filled(client, 3)
    settings = {"topic.metadata.refresh.interval.ms": 200, **protocol}
    with group(client, **settings) as consumer:
        consumer.subscribe([f"^{base}.*"])
        assert consumer.subscription() == [f"^{base}.*"]
        assert read(consumer, 3) == [0, 1, 2]
        client.cluster.create_topic(f"{base}-more", 1)
        fill(client, f"{base}-more", 2, start=10)
        assert read(consumer, 2) == [10, 11]


def test_another_subscription_replaces_the_first(client: Client, protocol: dict[str, Any]):
    one, two = client.topic(), client.topic()
    fill(client, one, 3)
    fill(client, two, 3, start=10)
    with subscribed(client, one, **protocol) as consumer:
        assert read(consumer, 3) == [0, 1, 2]
        consumer.subscribe([two])
        assert read(consumer, 3) == [10, 11, 12]
        poll_until(lambda: consumer.assignment() == [TopicPartition(two, 0)], consumer)


def test_unsubscribe_revokes_everything_and_commits(client: Client, protocol: dict[str, Any]):
    topic = filled(client, 5)
    seen: list[Any] = []
    with group(client, **protocol) as consumer:
        consumer.unsubscribe()  # without a subscription
        consumer.subscribe([topic], on_revoke=lambda _, partitions: seen.append(partitions))
        assert read(consumer, 5) == list(range(5))
        consumer.unsubscribe()
        assert seen == [[TopicPartition(topic, 0)]]
        assert consumer.subscription() == []
        assert consumer.assignment() == []
        assert consumer.memberid() is None
        assert consumer.committed([TopicPartition(topic, 0)], 10)[0].offset == 5
        consumer.assign([TopicPartition(topic, 0, 0)])  # allowed without a subscription
        assert read(consumer, 5) == list(range(5))


def test_close_leaves_the_group_so_that_others_take_over_at_once(
    client: Client, protocol: dict[str, Any], stack: ExitStack
):
    topic = client.topic(partitions=2)
    name = f"leaving-{next(GROUPS)}"
    first, second = (stack.enter_context(group(client, name, **protocol)) for _ in range(2))
    for each in (first, second):
        each.subscribe([topic])
    poll_until(lambda: len(first.assignment()) == len(second.assignment()) == 1, first, second)
    closing = threading.Thread(target=first.close)
    closing.start()
    # session.timeout.ms: 45 s
    poll_until(lambda: len(second.assignment()) == 2, second, timeout_s=40)
    closing.join()


def test_member_id_and_group_metadata(client: Client, topic: str, protocol: dict[str, Any]):
    with group(client, "named", **protocol) as consumer:
        assert consumer.memberid() is None
        assert consumer.rebalance_protocol() == "NONE"
        assert consumer.consumer_group_metadata() == ConsumerGroupMetadata("named")
        consumer.subscribe([topic])
        poll_until(consumer.assignment, consumer)
        metadata = consumer.consumer_group_metadata()
        assert metadata.group_id == "named"
        assert metadata.member_id == consumer.memberid() != ""
        assert metadata.generation > 0
        assert pickle.loads(pickle.dumps(metadata)) == metadata
        eager = protocol == {}
        assert consumer.rebalance_protocol() == ("EAGER" if eager else "COOPERATIVE")


# --- callbacks ---


def test_callbacks_get_their_partitions(client: Client, protocol: dict[str, Any], stack: ExitStack):
    topic = client.topic(partitions=2)
    name = f"callbacks-{next(GROUPS)}"
    seen: list[tuple[str, list[int]]] = []

    def note(kind: str) -> Any:
        def callback(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            assert threading.current_thread() is threading.main_thread()
            seen.append((kind, sorted(each.partition for each in partitions)))

        return callback

    first = stack.enter_context(group(client, name, **protocol))
    first.subscribe(
        [topic], on_assign=note("assign"), on_revoke=note("revoke"), on_lost=note("lost")
    )
    poll_until(lambda: len(first.assignment()) == 2, first)
    assert [each for each in seen if each[1]] == [("assign", [0, 1])]
    with subscribed(client, topic, name, **protocol) as second:
        poll_until(lambda: len(first.assignment()) == len(second.assignment()) == 1, first, second)
    poll_until(lambda: len(first.assignment()) == 2, first)
    first.close()
    now: set[int] = set()
    for kind, partitions in seen:
        assert kind != "lost"
        if kind == "assign":
            assert now.isdisjoint(partitions)
            now.update(partitions)
        else:
            assert now.issuperset(partitions)
            now.difference_update(partitions)
    assert now == set()
    assert seen[-1] == ("revoke", [0, 1])


def test_on_assign_may_choose_the_offsets(client: Client, protocol: dict[str, Any]):
    topic = filled(client, 10)

    def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            each.offset = 7
        if consumer.rebalance_protocol() == "EAGER":
            with pytest.raises(KafkaException, match="using assign") as caught:
                consumer.incremental_assign(partitions)
            consumer.assign(partitions)
        else:
            with pytest.raises(KafkaException, match="using incremental_assign") as caught:
                consumer.assign(partitions)
            consumer.incremental_assign(partitions)
        assert caught.value.args[0] == KafkaError._STATE

    with group(client, **protocol) as consumer:
        consumer.subscribe([topic], on_assign=on_assign)
        assert read(consumer, 3) == [7, 8, 9]


def test_on_assign_may_seek_pause_and_commit(client: Client, protocol: dict[str, Any]):
    topic = client.topic(partitions=2)
    fill(client, topic, 10, partition=0)
    fill(client, topic, 10, partition=1, start=100)
    outcomes: list[Any] = []

    def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        cooperative = consumer.rebalance_protocol() == "COOPERATIVE"
        (consumer.incremental_assign if cooperative else consumer.assign)(partitions)
        consumer.pause([TopicPartition(topic, 1)])
        consumer.seek(TopicPartition(topic, 0, 8))
        outcomes.append(
            consumer.commit(offsets=[TopicPartition(topic, 1, 4, "note")], asynchronous=False)
        )
        outcomes.append(consumer.committed([TopicPartition(topic, 1)], 10))

    with group(client, **protocol) as consumer:
        consumer.subscribe([topic], on_assign=on_assign)
        assert read(consumer, 2) == [8, 9]
        assert consumer.poll(0.2) is None
        assert consumer.paused() == [TopicPartition(topic, 1)]
        assert [(each[0].offset, each[0].error) for each in outcomes] == [(4, None)] * 2
        assert outcomes[1][0].metadata == "note"


def test_on_revoke_can_commit(client: Client, protocol: dict[str, Any], stack: ExitStack):
    topic = filled(client, 10)
    name = f"revoke-{next(GROUPS)}"
    conf = {"enable.auto.commit": False, **protocol}
    first = stack.enter_context(group(client, name, **conf))

    def on_revoke(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.commit(offsets=consumer.position(partitions), asynchronous=False)

    first.subscribe([topic], on_revoke=on_revoke)
    assert read(first, 6) == list(range(6))
    first.close()
    with subscribed(client, topic, name, **conf) as second:
        assert read(second, 4) == list(range(6, 10))


@pytest.mark.parametrize("when", ["on_assign", "on_revoke"])
def test_a_group_survives_a_raising_callback(client: Client, protocol: dict[str, Any], when: str):
    topic = filled(client, 3)

    def broken(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        raise ZeroDivisionError

    with group(client, **protocol) as consumer:
        consumer.subscribe([topic], **{when: broken})
        if when == "on_assign":
            with pytest.raises(ZeroDivisionError):
                poll_until(lambda: False, consumer)
        assert read(consumer, 3) == [0, 1, 2]
        if when == "on_revoke":
            with pytest.raises(ZeroDivisionError):
                consumer.unsubscribe()
            assert consumer.assignment() == []
            consumer.subscribe([topic], on_revoke=broken)
            fill(client, topic, 1, partition=0, start=3)
            assert read(consumer, 1) == [3]
            with pytest.raises(ZeroDivisionError):
                consumer.close()
            with pytest.raises(RuntimeError, match="Consumer closed"):
                consumer.poll(0)


@pytest.mark.parametrize("when", ["on_assign", "on_revoke"])
def test_a_callback_that_closes(client: Client, protocol: dict[str, Any], when: str):
    topic = client.topic(partitions=2)
    name = f"closes-{next(GROUPS)}"
    consumer = group(client, name, **protocol)
    consumer.subscribe([topic], **{when: lambda it, partitions: it.close()})
    with group(client, name, **protocol) as other:

        def turn() -> None:
            consumer.poll(0.05)
            if when == "on_revoke" and consumer.assignment() and not other.subscription():
                other.subscribe([topic])
            if other.subscription():
                other.poll(0.01)

        with pytest.raises(RuntimeError, match="Consumer closed"):
            forever(turn)
        other.subscribe([topic])
        poll_until(lambda: len(other.assignment()) == 2, other, timeout_s=40)


def test_close_with_a_timeout_returns_despite_a_blocked_callback(client: Client, topic: str):
    entered, leave = threading.Event(), threading.Event()

    def blocks(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        entered.set()
        leave.wait(60)

    consumer = group(client)
    consumer.subscribe([topic], on_assign=blocks)
    thread = threading.Thread(target=lambda: consumer.poll(60))
    thread.start()
    assert entered.wait(20)
    started = time.monotonic()
    consumer.close(1.0)
    assert time.monotonic() - started < 20
    leave.set()
    thread.join(20)
    assert not thread.is_alive()


# --- manual assignment and pauses ---


def test_subscribe_ends_an_assignment_by_hand(client: Client, protocol: dict[str, Any]):
    topic, other = client.topic(partitions=2), client.topic()
    with group(client, **protocol) as consumer:
        consumer.assign([TopicPartition(other, 0)])
        consumer.subscribe([topic])
        poll_until(lambda: len(consumer.assignment()) == 2, consumer)
        assert TopicPartition(other, 0) not in consumer.assignment()


def test_subscribed_consumer_changes_its_assignment(client: Client, protocol: dict[str, Any]):
    topic, other = client.topic(partitions=2), client.topic()
    name = f"changes-{next(GROUPS)}"
    with subscribed(client, topic, name, **protocol) as consumer:
        poll_until(lambda: len(consumer.assignment()) == 2, consumer)
        here = [TopicPartition(topic, 0, 0)]
        if consumer.rebalance_protocol() == "COOPERATIVE":
            assert code_of(lambda: consumer.assign(here), "incremental") == KafkaError._STATE
            assert code_of(consumer.unassign, "incremental") == KafkaError._STATE
            consumer.incremental_unassign(here)
            consumer.incremental_assign([TopicPartition(other, 0)])
            assert set(consumer.assignment()) == {
                TopicPartition(topic, 1),
                TopicPartition(other, 0),
            }
        else:
            change = partial(consumer.incremental_assign, here)
            assert code_of(change, "EAGER") == KafkaError._STATE
            consumer.assign([TopicPartition(other, 0)])
            assert consumer.assignment() == [TopicPartition(other, 0)]
        consumer.unsubscribe()
        assert consumer.assignment() == []


def test_pauses_outlive_a_rebalance(client: Client, protocol: dict[str, Any], stack: ExitStack):
    topic = client.topic(partitions=2)
    name = f"pauses-{next(GROUPS)}"
    first = stack.enter_context(subscribed(client, topic, name, **protocol))
    poll_until(lambda: len(first.assignment()) == 2, first)
    first.pause(first.assignment())
    with subscribed(client, topic, name, **protocol) as second:
        poll_until(lambda: len(first.assignment()) == len(second.assignment()) == 1, first, second)
        assert first.paused() == first.assignment()


# --- bad input ---


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("t",), TypeError),
        (([1],), TypeError),
        ((None,), TypeError),
        ((["t"], 3), TypeError),
        ((["t"], None, "x"), TypeError),
        ((["t"], None, None, object()), TypeError),
        (([],), KafkaException),
        ((["t", ""],), KafkaException),
        ((["^(("],), KafkaException),
    ],
)
def test_wrong_subscriptions(client: Client, arguments: Any, error: type[Exception]):
    with group(client) as consumer:
        with pytest.raises(error) as caught:
            consumer.subscribe(*arguments)
        if error is KafkaException:
            assert caught.value.args[0] == KafkaError._INVALID_ARG
        assert consumer.subscription() == []


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.subscribe(["t"]),
        lambda consumer: consumer.commit(),
        lambda consumer: consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False),
        lambda consumer: consumer.committed([TopicPartition("t", 0)]),
        lambda consumer: consumer.consumer_group_metadata(),
    ],
)
def test_calls_that_need_a_group_fail_without_one(client: Client, call: Any):
    with client.consumer() as consumer:
        assert code_of(lambda: call(consumer), r"set `group\.id`") == KafkaError._UNKNOWN_GROUP
        assert consumer.memberid() is None


def test_a_missing_topic_is_reported_once_and_read_after_its_creation(client: Client):
    name = f"{client.topic()}-missing"
    conf = {"topic.metadata.propagation.max.ms": 200, "topic.metadata.refresh.interval.ms": 300}
    with subscribed(client, name, **conf) as consumer:
        message = consumer.poll(20)
        assert message is not None
        assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        assert message.topic() == name
        client.cluster.create_topic(name, 1)
        fill(client, name, 3)
        assert read(consumer, 3) == [0, 1, 2]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_missing_topic_is_reported_before_the_propagation_time(client: Client, protocol: str):
    name, logger = f"{client.topic()}-missing", PlainLogger()
    conf = {"group.protocol": protocol, "logger": logger, "topic.metadata.refresh.interval.ms": 300}
    conf["topic.metadata.propagation.max.ms"] = 3_600_000
    with subscribed(client, name, **conf) as consumer:
        message = consumer.poll(60)
        assert (message.topic(), message.error().code()) == (name, KafkaError.UNKNOWN_TOPIC_OR_PART)
        text = f"Subscribed topic not available: {name}: Broker: Unknown topic or partition"
        assert message.error().str() == text
        assert consumer.poll(1.5) is None, "the error is reported once"
        line = f"topic {name} doesn't exist on this cluster"
        assert [text for text in logger.texts() if line in text]
        client.cluster.create_topic(name, 1)
        fill(client, name, 3)
        assert read(consumer, 3) == [0, 1, 2]


def test_a_topic_that_the_subscription_creates_is_not_missing(client: Client):
    name = f"{client.topic()}-made"
    client.cluster.hide_topic(name, replies=2)
    with subscribed(client, name, **{"allow.auto.create.topics": True}) as consumer:
        poll_until(consumer.assignment, consumer)
        fill(client, name, 3)
        assert read(consumer, 3) == [0, 1, 2]


def test_a_consumer_that_is_dropped_ends_its_threads(client: Client, topic: str):
    before = client_threads()
    consumer = group(client)
    consumer.subscribe([topic], on_assign=lambda it, partitions: None)
    poll_until(consumer.assignment, consumer)
    assert client_threads() > before
    del consumer
    wait_for(lambda: client_threads() <= before)


def test_changes_are_refused_after_a_fatal_error(client: Client, topic: str):
    with group(client) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.fatal_error() is None
        cause = KafkaError(KafkaError.FENCED_INSTANCE_ID)
        consumer._client.main.run(lambda: consumer._client.on_fatal(cause))
        assert consumer.fatal_error() == cause
        for call in (
            lambda: consumer.subscribe([topic]),
            lambda: consumer.assign([]),
            consumer.unassign,
            lambda: consumer.incremental_assign([]),
            lambda: consumer.seek(TopicPartition(topic, 0, 0)),
            lambda: consumer.pause([TopicPartition(topic, 0)]),
            lambda: consumer.commit(asynchronous=False),
            lambda: consumer.store_offsets(offsets=[TopicPartition(topic, 0, 0)]),
        ):
            with pytest.raises(KafkaException) as caught:
                call()
            assert caught.value.args[0] == KafkaError._FATAL
            assert caught.value.args[0].fatal()
        assert consumer.assignment() == [TopicPartition(topic, 0)]


def test_another_member_of_the_same_instance_fences_the_first(client: Client):
    topic = client.topic()
    name = f"static-{next(GROUPS)}"
    first = subscribed(client, topic, name, **{"group.instance.id": "one"})
    poll_until(first.assignment, first)
    with subscribed(client, topic, name, **{"group.instance.id": "one"}) as second:
        poll_until(second.assignment, second)
        fatal = wait_for(lambda: first.poll(0.1)).error()
        assert fatal.fatal()
        assert first.fatal_error() == KafkaError.FENCED_INSTANCE_ID
        with pytest.raises(KafkaException):
            next(first)
        first.close()
        poll_until(second.assignment, second)


MAX_POLL_S = 2.5
"""It can't be shorter: on a busy machine a heartbeat or a poll may be a second late."""
SHORT = {
    "max.poll.interval.ms": int(MAX_POLL_S * 1000),
    "session.timeout.ms": int(MAX_POLL_S * 1000),
    "heartbeat.interval.ms": 100,
}


@contextmanager
def member_with_short_timeouts(client: Client, topic: str) -> Iterator[tuple[Consumer, list[Any]]]:
    """Yield a member that must poll every ``MAX_POLL_S``, and the list of its lost partitions."""
    lost: list[Any] = []
    with group(client, **SHORT) as consumer:
        consumer.subscribe([topic], on_lost=lambda _, partitions: lost.append(partitions))
        yield consumer, lost


def wait_unpolled(consumer: Consumer) -> None:
    """Wait until the consumer has left its group because it doesn't poll."""
    time.sleep(MAX_POLL_S)
    wait_for(lambda: consumer.memberid() is None)


def test_a_consumer_that_does_not_poll_leaves_the_group_until_it_does(client: Client):
    topic = filled(client, 3)
    with member_with_short_timeouts(client, topic) as (consumer, lost):
        assert read(consumer, 3) == [0, 1, 2]
        wait_unpolled(consumer)
        message = wait_for(lambda: consumer.poll(0.1))
        assert message.error() == KafkaError._MAX_POLL_EXCEEDED
        poll_until(consumer.assignment, consumer)
        assert lost == [[TopicPartition(topic, 0)]]


def test_messages_of_lost_partitions_are_not_returned(client: Client):
    topic = filled(client, 100)
    with member_with_short_timeouts(client, topic) as (consumer, lost):
        assert len(consumer.consume(10, 10)) == 10  # the rest of the batch stays in the queue
        # it can't get the partition back before the check
        later = [KafkaError.COORDINATOR_LOAD_IN_PROGRESS] * 1000
        client.cluster.push_request_errors(ApiKey.JOIN_GROUP, later)
        try:
            wait_unpolled(consumer)
            found: list[Message] = []
            wait_for(lambda: found.extend(consumer.consume(50, 0.2)) or lost, "on_lost")
        finally:
            client.cluster.faults.clear()
        assert [message.error() for message in found] == [KafkaError._MAX_POLL_EXCEEDED]


@pytest.mark.slow
def test_waiting_in_consume_counts_as_polling(client: Client):
    topic = filled(client, 3)
    with subscribed(client, topic, **SHORT) as consumer:
        found = consumer.consume(10, MAX_POLL_S + 1)
        # consume() has waited for longer than max.poll.interval.ms
        assert [message.error() for message in found] == [None] * 3
        member_id = consumer.memberid()
        assert consumer.poll(2.0) is None
        assert consumer.memberid() == member_id
        assert member_id is not None


def error_of(consumer: Consumer, timeout: float = 20.0) -> tuple[str | None, int]:
    """Return topic and code of the first error."""
    deadline = time.monotonic() + timeout
    while True:
        assert time.monotonic() < deadline, "no error"
        message = consumer.poll(0.1)
        if message is not None and message.error() is not None:
            return message.topic(), message.error().code()


def test_an_unauthorized_group(cluster: MockCluster, client: Client, protocol: dict[str, Any]):
    topic = filled(client, 3)
    name = f"denied-{next(GROUPS)}"
    cluster.deny_group(name)
    with group(client, name, **protocol) as consumer:
        for call in (
            lambda: consumer.committed([TopicPartition(topic, 0)], 10),
            lambda: consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False),
        ):
            assert code_of(call) == KafkaError.GROUP_AUTHORIZATION_FAILED
        consumer.subscribe([topic])
        assert error_of(consumer) == (None, KafkaError.GROUP_AUTHORIZATION_FAILED)
        assert consumer.fatal_error() is None
        cluster.deny_group(name, False)
        consumer.unsubscribe()
        consumer.subscribe([topic])
        deadline = time.monotonic() + 20
        while (message := consumer.poll(0.1)) is None or message.error() is not None:
            assert time.monotonic() < deadline
        assert message.offset() == 0


def test_an_unauthorized_topic_beside_an_authorized_one(cluster: MockCluster, client: Client):
    allowed, denied = client.topic(), client.topic()
    fill(client, allowed, 3, partition=0)
    fill(client, denied, 3, partition=0, start=10)
    cluster.deny_topic(denied)
    conf = {"topic.metadata.refresh.interval.ms": 200}
    with group(client, **{"group.protocol": "consumer"}) as consumer:
        consumer.subscribe([denied, allowed])
        # the broker refuses such a member
        assert error_of(consumer)[1] == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with group(client, **conf) as consumer:
        consumer.subscribe([denied, allowed])
        found, errors = [], []
        deadline = time.monotonic() + 20
        while len(found) < 3 or not errors:
            assert time.monotonic() < deadline
            message = consumer.poll(0.1)
            if message is not None and message.error() is not None:
                errors.append((message.topic(), message.error().code()))
            elif message is not None:
                found.append(int(message.value()))
        assert found == [0, 1, 2]
        assert set(errors) == {(denied, KafkaError.TOPIC_AUTHORIZATION_FAILED)}
        cluster.deny_topic(denied, False)
        assert read(consumer, 3) == [10, 11, 12]


def test_an_expelled_member_loses_its_partitions_and_rejoins(
    cluster: MockCluster, client: Client, protocol: dict[str, Any]
):
    topic = filled(client, 3)
    name = f"expelled-{next(GROUPS)}"
    seen: list[str] = []
    with group(client, name, **protocol) as consumer:
        consumer.subscribe(
            [topic],
            on_assign=lambda _, partitions: seen.append("assign"),
            on_revoke=lambda _, partitions: seen.append("revoke"),
            on_lost=lambda _, partitions: seen.append("lost"),
        )
        assert read(consumer, 3) == [0, 1, 2]
        cluster.expel_member(name, consumer.memberid())
        poll_until(lambda: seen.count("assign") == 2, consumer)
        assert seen == ["assign", "lost", "assign"]
        fill(client, topic, 3, partition=0, start=3)
        last = -1
        while (
            last != 5
        ):  # it restarts at the last commit: some values may be read twice, none is skipped
            [value] = read(consumer, 1)
            assert value <= last + 1 or last == -1
            last = value


def test_rebalance_on_demand(client: Client):
    topic = client.topic(partitions=2)
    assigned: list[int] = []
    with group(client, "demand") as consumer:
        assert code_of(consumer.enforce_rebalance) == KafkaError._STATE
        consumer.subscribe(
            [topic], on_assign=lambda _, partitions: assigned.append(len(partitions))
        )
        poll_until(lambda: assigned == [2], consumer)
        generation = client.cluster.group("demand").generation
        consumer.enforce_rebalance("news")
        poll_until(lambda: assigned == [2, 2], consumer)
        assert client.cluster.group("demand").generation == generation + 1
    with group(client, **{"group.protocol": "consumer"}) as consumer:
        assert code_of(consumer.enforce_rebalance) == KafkaError._UNSUPPORTED_FEATURE
