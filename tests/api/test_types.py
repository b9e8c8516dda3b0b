"""The value types: the same data and behaviour as in confluent_kafka, and a few additions."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

import kafka_native
from kafka_native import types
from kafka_native.errors import KafkaError
from kafka_native.types import TopicPartition, Uuid


def outcome(call: Callable[[], Any]) -> object:
    """Return the result of a call as text, or the class of its exception."""
    try:
        return repr(call())
    except (TypeError, OverflowError, AttributeError) as error:
        return type(error)


@pytest.mark.parametrize(
    "name", [n for n in types.__all__ if n.startswith(("OFFSET_", "TIMESTAMP_"))]
)
def test_constants_are_those_of_confluent_kafka(name: str) -> None:
    assert getattr(types, name) == getattr(confluent_kafka, name)


TOPIC_PARTITION_ARGS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("a",), {}),
    (("a", 1), {}),
    (("a", 1, 5), {}),
    (("a", 1, -2), {}),
    (("a", 1, -1), {}),
    (("a", 1, -1000), {}),
    (("a", 1, -5), {}),
    (("a", 1, 5, "meta"), {}),
    (("a", 1, 5, "meta", 7), {}),
    (("é", 1, 1 << 62), {}),
    ((), {"topic": "x", "partition": 1, "offset": 2, "metadata": "m", "leader_epoch": 3}),
    (("a",), {"leader_epoch": -1}),
    ((), {}),
    ((5,), {}),
    ((b"a",), {}),
    (("a", "b"), {}),
    (("a", None), {}),
    (("a", 1.5), {}),
    (("a", 1 << 40), {}),
    (("a", 1, 1 << 70), {}),
    (("a", 1, 5, b"x"), {}),
]


@pytest.mark.parametrize(("args", "kwargs"), TOPIC_PARTITION_ARGS)
def test_topic_partition_is_made_and_shown_as_in_confluent_kafka(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    def fields(cls: Any) -> object:
        tp = cls(*args, **kwargs)
        return (
            str(tp),
            repr(tp),
            tp.topic,
            tp.partition,
            tp.offset,
            tp.metadata,
            tp.leader_epoch,
            tp.error,
        )

    assert outcome(lambda: fields(TopicPartition)) == outcome(
        lambda: fields(confluent_kafka.TopicPartition)
    )


@pytest.mark.parametrize("attribute", ["topic", "metadata", "error", "leader_epoch", "nonsense"])
@pytest.mark.parametrize("cls", [TopicPartition, confluent_kafka.TopicPartition])
def test_topic_partition_attributes_are_read_only(cls: Any, attribute: str) -> None:
    with pytest.raises(AttributeError):
        setattr(cls("a", 1), attribute, "z")


def test_partition_and_offset_can_be_assigned_and_are_checked() -> None:
    for cls in (TopicPartition, confluent_kafka.TopicPartition):
        tp: Any = cls("a", 1)
        tp.partition, tp.offset = 9, types.OFFSET_BEGINNING
        assert (tp.partition, tp.offset) == (9, -2)
        with pytest.raises(TypeError):
            tp.offset = "x"


def test_topic_partition_equality_order_and_hash_ignore_the_offset() -> None:
    for cls in (TopicPartition, confluent_kafka.TopicPartition):
        a: Any = cls
        assert a("a", 1, 5) == a("a", 1, 6)
        assert a("a", 1) != a("a", 2)
        assert a("a", 1) != a("b", 1)
        assert a("a", 1) < a("a", 2) < a("b", 0)
        assert a("a", 1) <= a("a", 1, 9)
        assert a("b", 0) > a("a", 9)
        assert hash(a("a", 1)) == hash(a("a", 1, 5))
        assert hash(a("a", 1)) != hash(a("a", 2))
    assert TopicPartition("a", 1) != "a"
    assert sorted([TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 2)]) == [
        TopicPartition("a", 2), TopicPartition("a", 10), TopicPartition("b", 0)]  # fmt: skip


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_topic_partition_survives_copy_and_pickle_with_its_error(
    duplicate: Callable[[TopicPartition], TopicPartition],
) -> None:
    tp = TopicPartition("a", 1, 5, "m", 7).with_error(KafkaError(3))
    twin = duplicate(tp)
    assert repr(twin) == repr(tp)
    assert twin.metadata == "m"
    assert twin.error == KafkaError(3)
    assert tp.error is not None
    assert str(tp.error) in repr(tp)


@pytest.mark.parametrize(
    "name", ["ClusterMetadata", "BrokerMetadata", "TopicMetadata", "PartitionMetadata"]
)
def test_metadata_has_the_attributes_and_texts_of_confluent_kafka(name: str) -> None:
    ours, theirs = getattr(types, name)(), getattr(confluent_kafka.admin, name)()
    assert vars(ours) == vars(theirs)
    values = {
        "id": 3,
        "host": "h",
        "port": 9,
        "topic": "t",
        "partitions": {0: None},
        "cluster_id": "c",
    }
    for error_of in (None, KafkaError, confluent_kafka.KafkaError):
        for obj, cls in ((ours, KafkaError), (theirs, confluent_kafka.KafkaError)):
            for key in vars(obj).keys() & values.keys():
                setattr(obj, key, values[key])
            if error_of is not None and "error" in vars(obj):
                obj.error = cls(3)
        assert (str(ours), repr(ours)) == (str(theirs), repr(theirs))


@pytest.mark.parametrize("rack", [None, "", "r1"])
def test_node_reads_as_in_confluent_kafka(rack: str | None) -> None:
    ours, theirs = types.Node(1, "h", 9092, rack), confluent_kafka.Node(1, "h", 9092, rack)
    assert str(ours) == str(theirs)
    assert vars(ours) == vars(theirs)


@pytest.mark.parametrize(
    "halves",
    [
        (1, 2),
        (0, 0),
        (-1, -2),
        (0x123456789ABCDEF0, 0x0FEDCBA987654321),
        (-(2**63), 2**63 - 1),
        (1 << 63, 1),
        ("a", 1),
        (),
    ],
)
def test_uuid_reads_as_in_confluent_kafka(halves: tuple[Any, ...]) -> None:
    def facts(cls: Any) -> object:
        uuid = cls(*halves)
        return (
            str(uuid),
            repr(uuid),
            uuid.get_most_significant_bits(),
            uuid.get_least_significant_bits(),
            uuid == 3,
        )

    assert outcome(lambda: facts(Uuid)) == outcome(lambda: facts(confluent_kafka.Uuid))


def test_uuid_goes_through_its_bytes_and_pickle() -> None:
    raw = bytes(range(240, 256))
    uuid = Uuid.from_bytes(raw)
    assert bytes(uuid) == raw
    assert pickle.loads(pickle.dumps(uuid)) == uuid
    assert len({uuid, Uuid.from_bytes(raw)}) == 1
    assert Uuid(1, 2) != Uuid(2, 1)
    with pytest.raises(ValueError, match="16 bytes"):
        Uuid.from_bytes(b"short")


def test_throttle_event_reads_as_in_confluent_kafka() -> None:
    ours, theirs = types.ThrottleEvent("b", 2, 1.5), confluent_kafka.ThrottleEvent("b", 2, 1.5)
    assert str(ours) == str(theirs)
    assert vars(ours) == vars(theirs)


def test_version_and_libversion_agree() -> None:
    text, number = types.libversion()
    assert text == types.version() == kafka_native.__version__
    major, minor, patch = (
        int(p) if p.isdigit() else 0 for p in ([*text.split("+")[0].split("."), "0", "0"])[:3]
    )
    assert number == major << 24 | minor << 16 | patch << 8


def test_partition_with_an_error_reads_as_in_confluent_kafka() -> None:
    producer = confluent_kafka.Producer({"test.mock.num.brokers": 1})
    producer.produce("t", b"x")
    assert producer.flush(10) == 0
    brokers = producer.list_topics(timeout=5).brokers.values()
    servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "g"})
    try:
        (theirs,) = consumer.committed([confluent_kafka.TopicPartition("t", 99)], timeout=5)
    finally:
        consumer.close()
    assert theirs.error is not None
    assert repr(TopicPartition("t", 99).with_error(KafkaError(theirs.error.code()))) == repr(theirs)
