"""Common parts of the tests on a real broker: topics, and both clients."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import confluent_kafka
import pytest
from confluent_kafka.admin import NewTopic, OffsetSpec

import kafka_native
from kafka_native import KafkaError
from kafka_native.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    FeatureUpdate,
    ResourceType,
    UpgradeType,
)
from tests.broker.cluster import Cluster, NoBroker, quiet, shared, start
from tests.waiting import WAIT_S, wait_for

T = TypeVar("T")

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

LEADER_MOVES = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
)
"""The errors of a new leader until it knows its high watermark. librdkafka doesn't retry them."""

Headers = tuple[tuple[str, bytes | None], ...]


def shared_or_skip(size: int) -> Cluster:
    """Return the shared cluster of this size. Without one the test is skipped."""
    try:
        return shared(size)
    except NoBroker as reason:
        pytest.skip(f"no Apache Kafka: {reason}")


@contextmanager
def running(size: int, **how: Any) -> Iterator[Cluster]:
    """Yield a cluster for the block. Without one the test is skipped. ``how``: see `start`."""
    try:
        cluster = start(size, **how)
    except NoBroker as reason:
        pytest.skip(f"no Apache Kafka: {reason}")
    try:
        yield cluster
    finally:
        cluster.close()


def output_of(tool: Callable[..., bytes], cluster: Cluster, command: str, *options: str) -> str:
    """Return the output of one of Kafka's own tools."""
    return tool(command, "--bootstrap-server", cluster.bootstrap, *options).decode()


def result_of(futures: Mapping[Any, Future[T]]) -> T:
    """Return the result of the only future."""
    (future,) = futures.values()
    return future.result(WAIT_S)


def check_done(futures: Mapping[Any, Future[None]]) -> None:
    """Wait for the only future, which has no result."""
    assert result_of(futures) is None


def admin_of(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def code_of(future: Future[Any]) -> int:
    """Return the error code of a future."""
    with pytest.raises(kafka_native.KafkaException) as failed:
        future.result(WAIT_S)
    code: int = failed.value.args[0].code()
    return code


def lower(cluster: Cluster, feature: str, level: int) -> None:
    """Lower the level of a feature, until each broker knows it."""
    with AdminClient(quiet({"bootstrap.servers": cluster.bootstrap})) as admin:
        update = FeatureUpdate(level, UpgradeType.SAFE_DOWNGRADE)
        admin.update_features({feature: update})[feature].result(WAIT_S)

        def level_at(broker: int) -> int:
            found = (
                admin.describe_features(broker=broker)
                .result(WAIT_S)
                .finalized_features.get(feature)
            )
            return 0 if found is None else found.max_version_level

        wait_for(
            lambda: all(level_at(broker) == level for broker in cluster.brokers),
            f"{feature} {level}",
        )


class Record(NamedTuple):
    """All fields of a message in either client."""

    partition: int
    offset: int
    timestamp_type: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @classmethod
    def of(cls, message: Any) -> Record:
        """Return the record of a Message of either client."""
        kind, timestamp = message.timestamp()
        return cls(
            *(
                message.partition(),
                message.offset(),
                kind,
                timestamp,
                message.key(),
                message.value(),
            ),
            tuple(message.headers() or ()),
        )


class TopicMaker:
    """Makes topics: `maker(kafka, partitions, **config)` returns a name."""

    def __init__(self, test_name: str, made: list[tuple[Cluster, str]]) -> None:
        self._prefix = re.sub(r"[^\w.-]+", "-", test_name.removeprefix("test_"))[:60]
        self._made = made

    def __call__(self, cluster: Cluster, partitions: int = 1, **config: str) -> str:
        """Make a topic on all brokers. An underscore in a config's name stands for a dot."""
        name = f"{self._prefix}-{uuid.uuid4().hex[:8]}"
        create(
            cluster,
            name,
            partitions,
            {key.replace("_", "."): value for key, value in config.items()},
        )
        self._made.append((cluster, name))
        return name


def create(
    cluster: Cluster, name: str, partitions: int = 1, config: dict[str, str] | None = None
) -> None:
    """Make a topic, and wait until each partition has a leader that knows its role."""
    admin = cluster.admin()
    new = NewTopic(name, partitions, replication_factor=min(cluster.size, 3), config=config or {})
    admin.create_topics([new], operation_timeout=20)[name].result(30)
    wait_for(lambda: len(leaders(cluster, name, admin)) == partitions, f"leaders of {name}")
    wait_for_answers(admin, name, partitions)


def wait_for_answers(admin: Any, topic: str, partitions: int) -> None:
    """Wait until the leaders have taken over their partitions, which is later than the metadata
    say.

    Until then they refuse messages, and the retries of a producer without idempotence may change
    the order.
    """
    wanted = {
        confluent_kafka.TopicPartition(topic, each): OffsetSpec.earliest()
        for each in range(partitions)
    }
    errors: list[BaseException] = []

    def all_answer() -> bool:
        errors[:] = filter(
            None, [future.exception(30) for future in admin.list_offsets(wanted).values()]
        )
        return not errors

    wait_for(all_answer, lambda: f"answers of the leaders of {topic}: {errors}")


def leaders(cluster: Cluster, topic: str, admin: Any = None) -> dict[int, int]:
    """Return the leader of each partition that has one."""
    found = (admin or cluster.admin()).list_topics(topic, timeout=10).topics[topic]
    return {
        number: each.leader
        for number, each in found.partitions.items()
        if each.leader >= 0 and not found.error
    }


def in_sync(cluster: Cluster, topic: str) -> bool:
    """Return whether every replica of every partition is in sync."""
    found = cluster.admin().list_topics(topic, timeout=10).topics[topic].partitions.values()
    return bool(found) and all(
        len(each.isrs) == len(each.replicas) and each.leader >= 0 for each in found
    )


def change_group(cluster: Cluster, group: str, **settings: str) -> None:
    """Change settings of a group. They have underscores for dots."""
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    with AdminClient(quiet(cluster.conf())) as admin:
        admin.incremental_alter_configs([resource])[resource].result(WAIT_S)


def delete(cluster: Cluster, *names: str) -> None:
    """Delete topics. Missing ones are ignored."""
    admin = cluster.admin()  # it must live until the futures have their results
    for future in admin.delete_topics(list(names), operation_timeout=20).values():
        try:
            future.result(30)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise


def delete_topics(made: list[tuple[Cluster, str]]) -> None:
    """Delete the topics that a TopicMaker has made."""
    for cluster in {id(cluster): cluster for cluster, _ in made}.values():
        delete(cluster, *(name for owner, name in made if owner is cluster))


def our_producer(cluster: Cluster, **config: Any) -> kafka_native.Producer:
    """Return a producer whose messages time out early enough for a failed test to end."""
    return kafka_native.Producer(
        cluster.conf(**{"message.timeout.ms": int(WAIT_S * 1000), **dotted(config)})
    )


def our_consumer(cluster: Cluster, **config: Any) -> kafka_native.Consumer:
    return kafka_native.Consumer(
        cluster.conf(**{"auto.offset.reset": "earliest", **dotted(config)})
    )


def their_producer(cluster: Cluster, **config: Any) -> confluent_kafka.Producer:
    """Return an idempotent producer: otherwise a retry at a new leader would change the order."""
    return confluent_kafka.Producer(
        quiet(cluster.conf(**{"enable.idempotence": True, **dotted(config)}))
    )


def their_consumer(cluster: Cluster, **config: Any) -> confluent_kafka.Consumer:
    base = {"group.id": "witness", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    return confluent_kafka.Consumer(quiet(cluster.conf(**{**base, **dotted(config)})))


def end_of(witness: confluent_kafka.Consumer, topic: str, partition: int) -> int:
    """Return the end in librdkafka's view, after waiting for a moving leader."""

    def low_and_high() -> tuple[int, int] | None:
        place = confluent_kafka.TopicPartition(topic, partition)
        try:
            found: tuple[int, int] = witness.get_watermark_offsets(place, 10)
        except confluent_kafka.KafkaException as error:
            if not error.args[0].retriable() and error.args[0].code() not in LEADER_MOVES:
                raise
            return None
        return found

    return wait_for(low_and_high, f"the end of {topic} [{partition}]")[1]


def dotted(config: dict[str, Any]) -> dict[str, Any]:
    """Return `linger_ms=5` as `{"linger.ms": 5}`. Callbacks keep their names."""
    return {
        name if callable(value) else name.replace("_", "."): value for name, value in config.items()
    }


def read(
    consumer: Any,
    topic: str,
    partitions: Iterable[int],
    count: int,
    timeout: float = WAIT_S,
    settle: float = 0.3,
) -> list[Record]:
    """Read ``count`` messages of a topic from its start, with either client's consumer.

    More messages within ``settle`` seconds are an error.
    """
    module = kafka_native if isinstance(consumer, kafka_native.Consumer) else confluent_kafka
    consumer.assign(
        [module.TopicPartition(topic, number, module.OFFSET_BEGINNING) for number in partitions]
    )
    found: list[Record] = []
    deadline = time.monotonic() + timeout
    while len(found) < count:
        left = deadline - time.monotonic()
        assert left > 0, f"{len(found)} of {count} messages in {timeout} s"
        for message in consumer.consume(min(count - len(found), 10000), min(left, 1.0)):
            assert message.error() is None, message.error()
            found.append(Record.of(message))
    found += [Record.of(message) for message in consumer.consume(10, settle)]
    assert len(found) == count, f"{len(found) - count} messages too many: {found[count:]}"
    return found


def flush(producer: Any, timeout: float = WAIT_S) -> None:
    """Wait until every message has an outcome."""
    left = producer.flush(timeout)
    assert left == 0, f"{left} messages were not settled in {timeout} s"
