"""The Consumer of both libraries in situations where kafka_native's own behaves differently."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest

import kafka_native
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S, poll_until, wait_for

from .sides import Lib, Side, assert_same, drop_in, next_message

Use = Callable[[Side], Any]
CALLBACK_CLASSES = (kafka_native.Consumer, drop_in.Consumer)


def joined(side: Side, consumer: Any, **callbacks: Any) -> None:
    """Subscribe, and poll until there are partitions."""
    consumer.subscribe([side.topic], **callbacks)
    poll_until(lambda: len(consumer.assignment()) == 2, consumer)


def tried(side: Side, *calls: Callable[[], Any]) -> list[Any]:
    """Return the outcomes, exceptions without their texts."""
    outcomes = []
    for call in calls:
        outcome = side.tried(call)
        is_refusal = isinstance(outcome, tuple) and isinstance(outcome[1], str)
        outcomes.append(outcome[0] if is_refusal else outcome)
    return outcomes


def shown(side: Side, message: Any) -> Any:
    """Return an error's Message without its text, which differs."""
    if message is None:
        return None
    assert message.value() == message.error().str().encode()
    message.set_value(None)
    return side.plain(message)


# --- the assignment ---


def rewind(side: Side) -> Any:
    side.fill()
    with side.consumer() as consumer:
        joined(side, consumer)
        consumer.assign([side.at(offset=5)])
        message = next_message(consumer)
        assigned = len(consumer.assignment())
        consumer.unassign()
        return message.offset(), assigned, consumer.assignment()


def change_incrementally(side: Side) -> Any:
    side.fill()
    with side.consumer(partition_assignment_strategy="cooperative-sticky") as consumer:
        joined(side, consumer)
        consumer.incremental_unassign([side.at()])
        left = consumer.assignment()
        consumer.incremental_assign([side.at(offset=7)])
        return len(left), next_message(consumer).offset(), *tried(side, consumer.unassign)


def change_around_the_membership(strategy: str) -> Use:
    """By hand before the group has chosen an assignor, and after the consumer has left."""

    def use(side: Side) -> Any:
        with side.consumer(partition_assignment_strategy=strategy) as consumer:
            other = side.lib.TopicPartition("by-hand", 3)
            consumer.subscribe([side.topic])
            outcomes = tried(
                side,
                lambda: consumer.assign([other]),
                lambda: consumer.incremental_unassign([other]),
                lambda: consumer.incremental_assign([other]),
            )
            poll_until(
                lambda: side.topic in {each.topic for each in consumer.assignment()}, consumer
            )
            outcomes.append(sorted(each.topic == side.topic for each in consumer.assignment()))
            if strategy == "cooperative-sticky":
                consumer.incremental_unassign([other])
            consumer.unsubscribe()
            poll_until(lambda: not consumer.assignment(), consumer)
            return outcomes + tried(
                side,
                lambda: consumer.assign([side.at()]),
                consumer.unassign,
                lambda: consumer.incremental_assign([side.at()]),
                lambda: consumer.incremental_unassign([side.at()]),
            )

    use.__name__ = f"change around the membership, {strategy}"
    return use


def assignment(side: Side) -> Any:
    """The assignment is sorted, with the given epochs and metadata."""
    with side.consumer() as consumer:
        given = side.lib.TopicPartition(side.topic, 0, 3, "note", 2)
        consumer.assign([side.at(1), given])
        consumer.incremental_assign([side.lib.TopicPartition("a", 7)])
        found = consumer.assignment()
        again = [given, given]
        return (
            side.plain(found),
            [each.leader_epoch for each in found],
            tried(side, lambda: consumer.incremental_assign(again)),
        )


def assign_what_cannot_be(side: Side) -> Any:
    with side.consumer() as consumer:
        lists = ([side.at(), side.at()], [side.at(offset=-7)], [side.at(-1)], (side.at(),))
        calls = [lambda each=each: consumer.assign(each) for each in lists]
        calls.append(lambda: consumer.incremental_assign([side.at(1), side.at(1)]))
        return tried(side, *calls)


def unsubscribe(side: Side) -> Any:
    """The next poll() revokes the partitions and returns none of their messages."""
    events: list[Any] = []
    side.fill()
    with side.consumer() as consumer:
        joined(side, consumer, on_revoke=lambda _, partitions: events.append(len(partitions)))
        next_message(consumer)
        consumer.unsubscribe()
        before = len(consumer.assignment()), list(events)
        return before, consumer.poll(1), consumer.assignment(), events


def close_after_unsubscribe(side: Side) -> Any:
    events: list[Any] = []
    consumer = side.consumer()
    joined(side, consumer, on_revoke=lambda _, partitions: events.append(len(partitions)))
    consumer.unsubscribe()
    consumer.close()
    return events


def exceed_the_poll_interval(side: Side) -> Any:
    events: list[Any] = []
    with side.consumer(max_poll_interval_ms=1000, session_timeout_ms=1000) as consumer:
        joined(side, consumer, on_lost=lambda *_: events.append("lost"))
        time.sleep(2.5)  # librdkafka checks twice a second
        message = next_message(consumer)
        return events, shown(side, message)


# --- messages ---


def end_of_partition(side: Side) -> Any:
    """A message that arrives before the next fetch comes before the end of the partition."""
    side.fill()
    with side.consumer(enable_partition_eof=True, fetch_wait_max_ms=1000) as consumer:
        consumer.assign([side.at(offset=9)])
        found = [next_message(consumer).offset()]
        producer = side.producer()
        producer.produce(side.topic, "late", partition=0)
        producer.flush(WAIT_S)
        found += [side.plain(next_message(consumer)) for _ in range(2)]
        return [each if isinstance(each, int) else (each[2], each[7]) for each in found]


def missing_topics(subscription: list[str], **conf: Any) -> Use:
    def use(side: Side) -> Any:
        with side.consumer(**conf) as consumer:
            consumer.subscribe(subscription)
            return shown(side, consumer.poll(1))

    return use


def assign_a_missing_topic(side: Side) -> Any:
    with side.consumer() as consumer:
        consumer.assign([side.lib.TopicPartition("no-such-topic", 0)])
        return consumer.poll(1)


def be_fenced(side: Side) -> Any:
    called: list[Any] = []
    conf = {"group_instance_id": "member", "session_timeout_ms": 6000}
    first = side.consumer(**conf, error_cb=called.append)
    joined(side, first)
    second = side.consumer(**conf)
    second.subscribe([side.topic])
    found = wait_for(lambda: (second.poll(0.05), first.poll(0.1))[1])
    outcomes = tried(
        side,
        lambda: first.poll(0),
        lambda: first.subscribe([side.topic]),
        first.unsubscribe,
        lambda: first.commit(asynchronous=False),
        lambda: first.pause([side.at()]),
        lambda: first.assign([]),
    )
    first.close()
    second.close()
    return shown(side, found), outcomes, called


# --- offsets ---


def on_commit(side: Side) -> Any:
    reported: list[Any] = []
    conf = {"on_commit": lambda error, partitions: reported.append((error, partitions[0].offset))}
    with side.lib.Consumer({**side.consuming(), **conf}) as consumer:
        consumer.commit(offsets=[side.at(offset=1)], asynchronous=False)
        consumer.poll(0.2)
        quiet = list(reported)
        consumer.commit(offsets=[side.at(offset=2)])
        poll_until(lambda: reported, consumer)
        return quiet, reported


def commit_of_others(side: Side) -> Any:
    with side.consumer() as consumer:
        joined(side, consumer)
        consumer.assign([side.at()])
        both = [side.at(offset=1), side.at(7, 1)]
        return tried(
            side,
            lambda: consumer.commit(offsets=[side.at(1, 3)], asynchronous=False),
            lambda: consumer.commit(offsets=both, asynchronous=False),
        )


def empty_metadata(side: Side) -> Any:
    with side.consumer() as consumer:
        wanted = [side.lib.TopicPartition(side.topic, 0, 1, "")]
        consumer.commit(offsets=wanted, asynchronous=False)
        consumer.commit(offsets=[side.at(1, 1)], asynchronous=False)
        named = [side.lib.TopicPartition(side.topic, 0, 0, "mine")]
        found = consumer.committed([side.at(), side.at(1)], timeout=WAIT_S)
        return [each.metadata for each in (*found, *consumer.position(named))]


def stores(side: Side) -> Any:
    with side.consumer(enable_auto_offset_store=False) as consumer:
        outcomes = tried(side, lambda: consumer.store_offsets(offsets=[side.at(offset=1)]))
        consumer.assign([side.at()])
        lists = ([side.at(1, 1)], [side.at(offset=-1001)], [side.at(offset=1), side.at(1, 1)], [])
        calls = [lambda each=each: consumer.store_offsets(offsets=each) for each in lists]
        return outcomes + tried(side, *calls)


def hand_made_messages(side: Side) -> Any:
    with side.consumer() as consumer:
        made = side.lib.Message(topic=side.topic, partition=0)
        return tried(side, lambda: consumer.commit(message=made, asynchronous=False))


def seeks(side: Side) -> Any:
    with side.consumer() as consumer:
        outcomes = tried(side, lambda: consumer.seek(side.at(offset=1)))
        side.fill()
        consumer.assign([side.at()])
        next_message(consumer)
        offsets = (-1001, -7, -1000, 99)
        calls = [lambda each=each: consumer.seek(side.at(offset=each)) for each in offsets]
        calls += [lambda: consumer.seek(side.at(1, 0)), lambda: consumer.seek([side.at()])]
        return outcomes + tried(side, *calls)


def lookups(side: Side) -> Any:
    unknown = side.lib.TopicPartition("no-such-topic", 0, 0)
    with side.consumer() as consumer:
        return tried(
            side,
            lambda: consumer.offsets_for_times([], timeout=WAIT_S),
            lambda: consumer.offsets_for_times([side.at(7, 0)], timeout=WAIT_S),
            lambda: consumer.offsets_for_times([unknown], timeout=WAIT_S),
            lambda: consumer.get_watermark_offsets(side.at(7), timeout=WAIT_S),
            lambda: consumer.get_watermark_offsets(side.at(-1), timeout=WAIT_S),
            lambda: consumer.committed([side.at(-1)], timeout=WAIT_S),
            lambda: consumer.pause([side.at(-1)]),
        )


# --- the client ---


def constructors(side: Side) -> Any:
    consumer = side.consumer()
    outcomes = tried(
        side,
        side.lib.Consumer,
        lambda: side.lib.Consumer(None),
        lambda: side.lib.Consumer({}),
        lambda: side.lib.Consumer({"bootstrap.servers": side.servers}),
        lambda: consumer.__init__(side.consuming()),
    )
    consumer.close()
    consumer.__init__(side.consuming())
    joined(side, consumer)
    consumer.close()
    return outcomes


def without_a_constructor(side: Side) -> Any:
    class Forgetful(side.lib.Consumer):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            pass

    consumer = Forgetful()
    with consumer:
        pass
    return [
        side.tried(call)
        for call in (
            consumer.close,
            lambda: consumer.poll(0),
            consumer.consume,
            consumer.memberid,
            lambda: consumer.subscribe([side.topic]),
            consumer.assignment,
            consumer.list_topics,
            consumer.consumer_group_metadata,
        )
    ]


def subscriptions(side: Side) -> Any:
    with side.consumer() as consumer:
        topics: list[Any] = [
            (side.topic,),
            {side.topic: 1},
            [side.topic, 5],
            [None],
            [side.topic] * 2,
            [],
            [""],
            ["^["],
        ]
        calls = [lambda each=each: consumer.subscribe(each) for each in topics]
        calls.append(lambda: consumer.subscribe([side.topic], on_assign=None))
        return tried(side, *calls)


def group_metadata(side: Side) -> Any:
    with side.consumer() as consumer, side.consumer(group_instance_id="one") as static:
        shown = [each.consumer_group_metadata() for each in (consumer, static)]
        joined(side, consumer)
        member = consumer.memberid().encode()
        found = pickle.loads(pickle.dumps(consumer.consumer_group_metadata()))
        shown.append(found.replace(member, b"MEMBER"))
        transactional = {"transactional_id": side.topic}
        producer = side.producer(**transactional)
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        outcomes = tried(
            side,
            lambda: producer.send_offsets_to_transaction([side.at(offset=4)], found, WAIT_S),
            lambda: producer.send_offsets_to_transaction([side.at(offset=4)], b"x", WAIT_S),
            lambda: producer.send_offsets_to_transaction([side.at(offset=4)], None, WAIT_S),
        )
        producer.commit_transaction(WAIT_S)
        committed = consumer.committed([side.at()], timeout=WAIT_S)[0].offset
        group = side.group.encode()
        return [each.replace(group, b"GROUP") for each in shown], outcomes, committed


def times(side: Side) -> Any:
    with side.consumer() as consumer:
        return tried(
            side, lambda: consumer.poll(None), lambda: consumer.poll("1"), lambda: consumer.poll(0)
        )


USES: list[Use] = [
    rewind,
    change_incrementally,
    change_around_the_membership("range"),
    change_around_the_membership("cooperative-sticky"),
    assignment,
    assign_what_cannot_be,
    unsubscribe,
    close_after_unsubscribe,
    exceed_the_poll_interval,
    end_of_partition,
    assign_a_missing_topic,
    be_fenced,
    on_commit,
    commit_of_others,
    empty_metadata,
    stores,
    hand_made_messages,
    seeks,
    lookups,
    constructors,
    without_a_constructor,
    subscriptions,
    group_metadata,
    times,
]


@pytest.fixture(scope="module")
def cluster() -> Any:
    with MockCluster(brokers=1, auto_create_topics=False) as cluster:
        yield cluster


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_consumers_do_the_same(use: Use, cluster: MockCluster) -> None:
    assert_same(cluster, use)


@pytest.mark.parametrize(
    ("subscription", "conf"),
    [
        (["no-such-topic"], {}),
        (["^no-such-topic.*"], {}),
        (["no such topic"], {}),
        (["no-such-topic"], {"group_protocol": "consumer"}),
        (["^no-such-topic.*"], {"group_protocol": "consumer"}),
    ],
    ids=str,
)
def test_missing_topics_are_the_same_messages(
    subscription: list[str], conf: dict[str, Any], cluster: MockCluster
) -> None:
    if conf:  # session.timeout.ms and others belong to the classic protocol
        conf = {**conf, "auto_offset_reset": "earliest"}
    assert_same(cluster, missing_topics(subscription, **conf))


# --- the callbacks of librdkafka's C interface ---


@pytest.fixture
def side(cluster: MockCluster) -> Side:
    side = Side(drop_in, cluster)
    side.fill()
    return side


@pytest.mark.parametrize("kind", CALLBACK_CLASSES)
def test_rebalance_cb_gets_the_kind_and_the_partitions(kind: Lib, side: Side) -> None:
    events: list[Any] = []

    def rebalance_cb(consumer: Any, error: Any, partitions: list[Any]) -> None:
        events.append((error.name(), len(partitions)))
        if error.code() == kafka_native.KafkaError._ASSIGN_PARTITIONS:
            consumer.assign([kafka_native.TopicPartition(side.topic, 0, 8)])

    with kind({**side.consuming(), "rebalance_cb": rebalance_cb}) as consumer:
        consumer.subscribe([side.topic])
        assert next_message(consumer).offset() == 8
    assert events == [("_ASSIGN_PARTITIONS", 2), ("_REVOKE_PARTITIONS", 2)]


def test_callbacks_of_subscribe_take_the_place_of_rebalance_cb(side: Side) -> None:
    events: list[str] = []
    conf = {**side.consuming(), "rebalance_cb": lambda _, error, __: events.append(error.name())}
    with drop_in.Consumer(conf) as consumer:
        joined(side, consumer, on_assign=lambda *_: events.append("on_assign"))
    assert events == ["on_assign", "_REVOKE_PARTITIONS"]


@pytest.mark.parametrize("kind", CALLBACK_CLASSES)
def test_offset_commit_cb_is_on_commit(kind: Lib, side: Side) -> None:
    events: list[Any] = []
    conf = {**side.consuming(), "offset_commit_cb": lambda *given: events.append(given)}
    with kind(conf) as consumer:
        consumer.commit(offsets=[side.at(offset=3)])
        poll_until(lambda: events, consumer)
    [(error, [partition])] = events
    assert error is None
    assert partition.offset == 3


@pytest.mark.parametrize("kind", CALLBACK_CLASSES)
def test_consume_cb_gets_the_messages_of_poll(kind: Lib, side: Side) -> None:
    messages: list[Any] = []
    with kind({**side.consuming(), "consume_cb": messages.append}) as consumer:
        consumer.assign([side.at()])
        poll_until(lambda: len(messages) == 10, consumer)
        assert consumer.poll(0) is None
    assert [message.offset() for message in messages] == list(range(10))
