"""Groups on a real Apache Kafka: our members, librdkafka's and Java's in one group, in both
protocols.

Members come and go while messages are produced. Each commits before it leaves, so that all of them
together read each message exactly once.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import kafka_native
from kafka_native import KafkaError
from kafka_native.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.broker.cluster import Cluster
from tests.broker.group_members import Members
from tests.broker.support import TopicMaker, create, delete, flush, our_consumer, our_producer
from tests.waiting import WAIT_S, wait_for

Tool = Callable[..., bytes]

# A cooperative rebalance may refuse the last commit of these members, so that the next owner starts
# at the one before. A group of librdkafka's members alone reads some messages twice, too.
REPEATS = ("theirs", "java")

PARTITIONS = 6
SESSION_MS = 45_000
CONSUMER = {"group.protocol": "consumer"}
CLASSIC = {"partition.assignment.strategy": "cooperative-sticky"}


class NumberProducer:
    """Produces numbers to all partitions in turn during the block. ``sent`` counts them for each
    partition.
    """

    def __init__(self, kafka: Cluster, topic: str, per_second: int = 300) -> None:
        self.sent: Counter[int] = Counter()
        self._producer = our_producer(kafka, linger_ms=5, enable_idempotence=True)
        self._topic, self._pause_s = topic, PARTITIONS / per_second
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._ended.wait(self._pause_s):
            for partition in range(PARTITIONS):
                self._producer.produce(
                    self._topic, b"%d" % self.sent[partition], partition=partition
                )
                self.sent[partition] += 1
            self._producer.poll(0)

    def __enter__(self) -> NumberProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30)
        flush(self._producer)
        self._producer.close()


@pytest.fixture
def members(kafka: Cluster, new_topic: TopicMaker, tool: Tool, tmp_path: Path) -> Iterator[Members]:
    """Yield an empty group. ``tool`` skips the test without Java."""
    topic = new_topic(kafka, PARTITIONS)
    with Members(kafka, topic, PARTITIONS, f"group-{uuid.uuid4().hex[:8]}", tmp_path) as group:
        yield group


def committed_by(module: Any, members: Members) -> dict[int, int]:
    """Return the group's offsets as a client of either module sees them outside the group."""
    config = {"bootstrap.servers": members.cluster.bootstrap, "group.id": members.group}
    consumer = module.Consumer(config)
    try:
        wanted = [module.TopicPartition(members.topic, number) for number in range(PARTITIONS)]
        return {each.partition: each.offset for each in consumer.committed(wanted, 20)}
    finally:
        consumer.close()


def expect_all_committed(members: Members, sent: dict[int, int]) -> None:
    """Wait until both clients see that the former members have committed everything."""
    for module in (kafka_native, confluent_kafka):
        wait_for(
            lambda m=module: committed_by(m, members) == dict(sent),
            f"offsets for {module.__name__}",
        )  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "others"),
    [
        pytest.param({"partition.assignment.strategy": "range"}, ("theirs", "java"), id="range"),
        pytest.param(
            {"partition.assignment.strategy": "roundrobin"}, ("theirs", "java"), id="roundrobin"
        ),
        pytest.param(
            {"partition.assignment.strategy": "sticky"}, ("java",), id="sticky"
        ),  # librdkafka has none
        pytest.param(CLASSIC, ("theirs", "java"), id="cooperative-sticky"),
        pytest.param(CONSUMER, ("theirs", "java"), id="consumer"),
    ],
)
def test_three_clients_in_one_group_read_everything_once(
    members: Members, config: dict[str, str], others: tuple[str, ...]
) -> None:
    repeats = REPEATS if config in (CLASSIC, CONSUMER) else ()
    with NumberProducer(members.cluster, members.topic) as producing:
        first = members.join("ours", **config)
        strangers = [members.join(kind, **config) for kind in others]
        members.settle()
        second = members.join("ours", **config)
        members.settle()
        members.leave(first)
        for stranger in strangers:
            members.leave(stranger)
        members.settle()
        assert len(second.owned) == PARTITIONS
        last = members.join(others[0], **config)
        members.settle()
    members.expect_each_once(producing.sent, but=repeats)
    members.leave(second)
    members.settle()
    members.leave(last)
    members.expect_each_once(producing.sent, but=repeats)
    expect_all_committed(members, producing.sent)


@pytest.mark.slow
def test_live_migration_to_the_consumer_protocol_and_back(members: Members) -> None:
    with NumberProducer(members.cluster, members.topic) as producing:
        old = [members.join("ours", **CLASSIC), members.join("theirs", **CLASSIC)]
        members.settle()
        new = [
            members.join("ours", **CONSUMER)
        ]  # the first one moves the group over; the others don't notice
        members.settle()
        members.leave(old[0])
        members.settle()
        new.append(members.join("theirs", **CONSUMER))
        members.settle()
        members.leave(old[1])
        members.settle()
        back = members.join("ours", **CLASSIC)
        members.settle()
        for member in new:  # the last one of the new protocol moves the group back
            members.leave(member)
            # One after the other: a classic member that doesn't have the group's newest epoch
            # when the group moves back gets ILLEGAL_GENERATION, and loses its partitions.
            members.settle()
        assert len(back.owned) == PARTITIONS
    members.expect_each_once(producing.sent, but=REPEATS)
    members.leave(back)
    expect_all_committed(members, producing.sent)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_a_pattern_matches_later_topics(
    kafka: Cluster, new_topic: TopicMaker, protocol: dict[str, str]
) -> None:
    first = new_topic(kafka, 2)
    pattern = f"^{first.rpartition('-')[0]}-[0-9a-f]+$"
    config = {
        **protocol,
        "topic.metadata.refresh.interval.ms": 500,
        "group.id": f"group-{uuid.uuid4().hex[:8]}",
    }
    with our_consumer(kafka, **config) as consumer, our_producer(kafka) as producer:

        def read(value: bytes) -> bool:
            message = consumer.poll(0.05)
            if message is not None and message.topic() == "not-there":
                assert message.error() == KafkaError.UNKNOWN_TOPIC_OR_PART
                return False
            assert message is None or message.error() is None, message.error()
            return message is not None and message.value() == value

        def owned() -> set[str]:
            return {each.topic for each in consumer.assignment()}

        consumer.subscribe([pattern, "not-there"] if protocol is CONSUMER else [pattern])
        wait_for(lambda: read(b"nothing") or len(consumer.assignment()) == 2, "its partitions")
        assert owned() == {first}
        second = new_topic(kafka, 3)
        producer.produce(second, b"from the new one")
        wait_for(lambda: read(b"from the new one"), "a message of the topic that came later")
        assert owned() == {first, second}
        assert len(consumer.assignment()) == 5


def test_static_members_keep_their_partitions_and_their_ids(
    kafka: Cluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(kafka, 4)
    config = {"group_id": f"group-{uuid.uuid4().hex[:8]}", "group_protocol": "consumer"}

    def member(name: str) -> kafka_native.Consumer:
        consumer = our_consumer(kafka, group_instance_id=name, **config)
        consumer.subscribe([topic])
        return consumer

    def owned(consumer: kafka_native.Consumer) -> set[int]:
        return {each.partition for each in consumer.assignment()}

    one, two = member("one"), member("two")
    wait_for(
        lambda: one.poll(0.02) or two.poll(0.02) or len(owned(one)) == len(owned(two)) == 2,
        "two each",
    )
    before = owned(one)
    other = member("one")
    refused = wait_for(lambda: other.poll(0.1), "the second of a name is refused")
    assert refused.error() is not None
    assert refused.error().fatal()
    assert other.fatal_error() == KafkaError.UNRELEASED_INSTANCE_ID
    other.close()
    one.close()
    one = member("one")
    wait_for(lambda: one.poll(0.02) or two.poll(0.02) or owned(one), "it is back")
    assert owned(one) == before
    assert owned(two) == {0, 1, 2, 3} - before
    for consumer in (one, two):
        consumer.close()


@pytest.mark.parametrize(
    ("module", "more"),
    [(kafka_native, {}), (kafka_native, CONSUMER), (confluent_kafka, {})],
    ids=["ours, classic", "ours, consumer", "theirs, classic"],
)
def test_a_subscription_to_a_missing_topic_is_reported(
    kafka: Cluster, module: Any, more: dict[str, str]
) -> None:
    """The error has the words of librdkafka, which doesn't report it in the consumer protocol."""
    topic = f"missing-{uuid.uuid4().hex[:8]}"
    conf = {"auto.offset.reset": "earliest", "topic.metadata.refresh.interval.ms": 500, **more}
    consumer = module.Consumer(kafka.conf(**{"group.id": topic, **conf}))
    try:
        consumer.subscribe([topic])
        error = wait_for(lambda: consumer.poll(0.1), "the error").error()
        text = f"Subscribed topic not available: {topic}: Broker: Unknown topic or partition"
        assert (error.code(), error.str()) == (KafkaError.UNKNOWN_TOPIC_OR_PART, text)
        if module is kafka_native:
            create(kafka, topic)
            producer = our_producer(kafka)
            producer.produce(topic, b"at last")
            flush(producer)
            producer.close()
            message = wait_for(lambda: consumer.poll(0.1), "the message")
            assert (message.error(), message.value()) == (None, b"at last"), (
                "the error isn't repeated"
            )
            delete(kafka, topic)
    finally:
        consumer.close()


def test_an_assignment_to_a_missing_topic_is_reported(kafka: Cluster) -> None:
    topic = f"missing-{uuid.uuid4().hex[:8]}"
    consumer = our_consumer(kafka, topic_metadata_propagation_max_ms=3_600_000)
    consumer.assign([kafka_native.TopicPartition(topic, 0, 0)])
    error = wait_for(lambda: consumer.poll(0.1), "the error")
    assert (error.topic(), error.error().code()) == (topic, KafkaError.UNKNOWN_TOPIC_OR_PART)
    consumer.close()


def coordinator_of(cluster: Cluster, group: str) -> int:
    """Return the broker that coordinates a group, or -1 while none answers."""
    admin = cluster.admin()  # it must live until the future has its result
    try:
        return int(
            admin.describe_consumer_groups([group], request_timeout=3)[group]
            .result(5)
            .coordinator.id
        )
    except (confluent_kafka.KafkaException, TimeoutError):
        return -1


def set_session_timeout(cluster: Cluster, group: str, milliseconds: int) -> None:
    """Set the session timeout of a group in the consumer protocol, where the brokers decide it."""
    entry = ConfigEntry(
        "consumer.session.timeout.ms",
        str(milliseconds),
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    with AdminClient(cluster.conf()) as admin:
        admin.incremental_alter_configs([resource])[resource].result(WAIT_S)


def test_a_killed_coordinator_causes_no_rebalance(
    owned3: Cluster, new_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = new_topic(owned3, PARTITIONS)
    groups = {protocol: f"group-{uuid.uuid4().hex[:8]}" for protocol in ("classic", "consumer")}
    # The cluster notices a dead broker after six seconds, and its start takes as long on two busy
    # cores.
    set_session_timeout(owned3, groups["consumer"], SESSION_MS)
    classic_conf = {**CLASSIC, "session.timeout.ms": str(SESSION_MS)}
    with (
        Members(owned3, topic, PARTITIONS, groups["classic"], tmp_path) as classic,
        Members(owned3, topic, PARTITIONS, groups["consumer"], tmp_path) as modern,
    ):
        everybody = [classic.join("ours", **classic_conf), modern.join("ours", **CONSUMER)]
        classic.settle()
        modern.settle()
        # It coordinates both groups: there is one partition of offsets.
        node = wait_for(lambda: max(coordinator_of(owned3, modern.group), 0), "a coordinator")
        victim = owned3.brokers[node]
        logs = [list(member.log) for member in everybody]
        with NumberProducer(owned3, topic) as producing:
            victim.kill()
            wait_for(
                lambda: coordinator_of(owned3, modern.group) not in (-1, victim.node),
                "another coordinator",
            )
            for members in (classic, modern):
                wait_for(
                    lambda m=members: committed_by(kafka_native, m).get(0, -1) > 0, "commits go on"
                )  # type: ignore[misc]
            victim.start()
            owned3.wait_until_up()
        for members in (classic, modern):
            members.expect_each_once(producing.sent)
        assert [member.log for member in everybody] == logs
