"""SerializingProducer and DeserializingConsumer against confluent_kafka's, on one mock cluster."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import confluent_kafka.error
import confluent_kafka.serialization
import pytest

import kafka_native
import kafka_native.error
import kafka_native.serialization
from kafka_native.mock import MockCluster
from kafka_native.serialization import DeserializerBuilder, SerializerBuilder
from tests.compat import sides
from tests.waiting import WAIT_S

Lib = Any
BOTH = pytest.mark.parametrize(
    "lib", [confluent_kafka, kafka_native], ids=["confluent_kafka", "kafka_native"]
)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as running:
        yield running


@pytest.fixture
def topic(cluster: MockCluster) -> str:
    name = f"converting-{next(_numbers)}"
    cluster.create_topic(name, 1)
    return name


def producer_of(lib: Lib, cluster: MockCluster, **conf: Any) -> Any:
    given = {name.replace("_", "."): value for name, value in conf.items()}
    return lib.SerializingProducer({"bootstrap.servers": cluster.bootstrap_servers, **given})


def consumer_of(lib: Lib, cluster: MockCluster, topic: str, **conf: Any) -> Any:
    given = {name.replace("_", "."): value for name, value in conf.items()}
    basics = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
    }
    consumer = lib.DeserializingConsumer({**basics, **given})
    consumer.assign([lib.TopicPartition(topic, 0, 0)])
    return consumer


@pytest.mark.parametrize(
    ("sender", "receiver"),
    [
        (kafka_native, kafka_native),
        (confluent_kafka, kafka_native),
        (kafka_native, confluent_kafka),
    ],
    ids=["both ours", "theirs to ours", "ours to theirs"],
)
def test_objects_are_serialized_and_deserialized(
    cluster: MockCluster, topic: str, sender: Lib, receiver: Lib
) -> None:
    contexts: list[tuple[str, str, Any]] = []

    def recording(serde: Any) -> Any:
        def call(obj: Any, context: Any) -> Any:
            contexts.append((context.topic, str(context.field), context.headers))
            return serde(obj, context)

        return call

    serdes, reported = sender.serialization, []
    producer = producer_of(
        sender,
        cluster,
        key_serializer=recording(serdes.StringSerializer()),
        value_serializer=recording(serdes.IntegerSerializer()),
    )
    for number in range(3):
        producer.produce(
            topic,
            f"k{number}",
            number,
            on_delivery=lambda *args: reported.append(args),
            headers=[("h", b"1")],
        )
    producer.produce(topic=topic, key=None, value=None)
    assert producer.flush(WAIT_S) == 0
    assert [error for error, _ in reported] == [None] * 3
    headers = [("h", b"1")]
    assert contexts[:4] == [(topic, "key", headers), (topic, "value", headers)] * 2

    contexts.clear()
    serdes = receiver.serialization
    consumer = consumer_of(
        receiver,
        cluster,
        topic,
        key_deserializer=recording(serdes.StringDeserializer()),
        value_deserializer=recording(serdes.IntegerDeserializer()),
    )
    got = [consumer.poll(WAIT_S) for _ in range(4)]
    consumer.close()
    assert [(each.key(), each.value()) for each in got] == [
        ("k0", 0),
        ("k1", 1),
        ("k2", 2),
        (None, None),
    ]
    assert contexts[:2] == [(topic, "key", headers), (topic, "value", headers)]


@BOTH
def test_objects_that_cannot_be_serialized_are_not_queued(
    cluster: MockCluster, topic: str, lib: Lib
) -> None:
    producer = producer_of(
        lib,
        cluster,
        key_serializer=lib.serialization.StringSerializer(),
        value_serializer=lib.serialization.IntegerSerializer(),
    )
    with pytest.raises(lib.error.KeySerializationError) as caught:
        producer.produce(topic, key="\ud800", value=1)
    assert isinstance(caught.value.exception, lib.serialization.SerializationError)
    with pytest.raises(lib.error.ValueSerializationError) as wrong:
        producer.produce(topic, key="k", value="no number")
    assert wrong.value.code == lib.KafkaError._VALUE_SERIALIZATION
    assert len(producer) == 0
    with pytest.raises(TypeError, match="topic must be a str, not int"):
        producer.produce(3, "k", 1)
    producer.close()
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        producer.produce(topic, "k", 1)


@BOTH
def test_deserialization_errors_are_raised_once_with_their_message(
    cluster: MockCluster, topic: str, lib: Lib
) -> None:
    producer = producer_of(lib, cluster)
    producer.produce(topic, key=b"\xff", value=b"a")
    producer.produce(topic, key=b"k", value=b"three")
    producer.produce(topic, key=b"k", value=b"\0\0\0\x07")
    assert producer.flush(WAIT_S) == 0
    consumer = consumer_of(
        lib,
        cluster,
        topic,
        key_deserializer=lib.serialization.StringDeserializer(),
        value_deserializer=lib.serialization.IntegerDeserializer(),
        enable_partition_eof=True,
    )
    with pytest.raises(lib.error.KeyDeserializationError) as key:
        consumer.poll(WAIT_S)
    assert key.value.kafka_message.key() == b"\xff"
    with pytest.raises(lib.error.ValueDeserializationError) as value:
        consumer.poll(WAIT_S)
    assert (value.value.kafka_message.offset(), value.value.kafka_message.value()) == (1, b"three")
    assert consumer.poll(WAIT_S).value() == 7
    with pytest.raises(lib.error.ConsumeError) as end:
        consumer.poll(WAIT_S)
    assert end.value.name == "_PARTITION_EOF"
    assert consumer.poll(0) is None
    with pytest.raises(NotImplementedError):
        consumer.consume()
    consumer.close()


def test_iteration_deserializes_too(cluster: MockCluster, topic: str) -> None:
    with producer_of(kafka_native, cluster) as producer:
        producer.produce(topic, value="text")
    deserializer = kafka_native.serialization.StringDeserializer()
    with consumer_of(kafka_native, cluster, topic, value_deserializer=deserializer) as consumer:
        assert next(iter(consumer)).value() == "text"


class Upper:
    """A serializer and a deserializer that record their calls."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.resolver: Any = None

    def __call__(self, obj: Any, context: Any) -> Any:
        return obj if obj is None else obj.upper()

    def set_cluster_id_resolver(self, resolver: Any) -> None:
        self.resolver = resolver

    def close(self) -> None:
        self.log.append("closed")


class Builder(SerializerBuilder, DeserializerBuilder):
    """Removes "upper.log" from the configuration."""

    def __init__(self) -> None:
        self.built: list[tuple[Upper, bool]] = []

    def build(self, conf: dict[str, Any], is_key: bool) -> Any:
        made = Upper(conf["upper.log"])
        self.built.append((made, is_key))
        return made, {name: value for name, value in conf.items() if name != "upper.log"}


def test_serializers_of_builders_are_closed_with_client(cluster: MockCluster, topic: str) -> None:
    builder, log = Builder(), list[str]()
    producer = producer_of(kafka_native, cluster, key_serializer_builder=builder, upper_log=log)
    (made, is_key) = builder.built[0]
    assert is_key
    assert made.resolver() == producer.list_topics(timeout=WAIT_S).cluster_id
    producer.produce(topic, key="abc", value="abc")
    producer.close()
    producer.close()
    assert log == ["closed"]

    consumer = consumer_of(
        kafka_native, cluster, topic, value_deserializer_builder=builder, upper_log=log
    )
    message = consumer.poll(WAIT_S)
    assert (message.key(), message.value()) == (b"ABC", b"ABC")
    consumer.close()
    assert log == ["closed", "closed"]


def test_wrong_configuration_raises_and_closes_built_serializers(cluster: MockCluster) -> None:
    builder, log = Builder(), list[str]()
    with pytest.raises(
        ValueError, match=r"Cannot configure both key\.serializer and key\.serializer\.builder"
    ):
        producer_of(
            kafka_native, cluster, key_serializer=Upper(log), key_serializer_builder=builder
        )
    with pytest.raises(kafka_native.KafkaException, match="No such configuration property"):
        producer_of(kafka_native, cluster, key_serializer_builder=builder, upper_log=log, no_such=1)
    assert log == ["closed"]
    with pytest.raises(
        kafka_native.KafkaException, match="SerializingProducer doesn't support `interceptors`"
    ):
        producer_of(kafka_native, cluster, interceptors=[object()])


@pytest.mark.parametrize("conf", [None, "x", [], {"bootstrap.servers": "127.0.0.1:1"}], ids=repr)
def test_what_is_no_configuration_raises_the_same_exception(conf: Any) -> None:
    kinds = []
    for lib in sides.BOTH:
        with pytest.raises(Exception) as raised:  # noqa: PT011 - it is compared
            lib.DeserializingConsumer(conf)
        kinds.append(type(raised.value))
    assert kinds[0] is kinds[1]


class Bad(SerializerBuilder):
    def build(self, conf: dict[str, Any], is_key: bool) -> Any:
        return None


def test_a_builder_that_builds_nothing_is_named(cluster: MockCluster) -> None:
    with pytest.raises(
        ValueError, match=r"value\.serializer\.builder must return a \(serde, configuration\) tuple"
    ):
        producer_of(kafka_native, cluster, value_serializer_builder=Bad())


BOTH_NAMES = pytest.mark.parametrize("lib", sides.BOTH, ids=["confluent_kafka", "drop-in"])


@BOTH_NAMES
def test_agents_replace_the_serializers_of_a_client(
    lib: Lib, cluster: MockCluster, topic: str
) -> None:
    producer = producer_of(lib, cluster, value_serializer=lambda value, _: value.encode())
    assert producer._key_serializer is None
    serialize = producer._value_serializer
    producer._value_serializer = lambda value, context: serialize(value, context) + b" wrapped"
    producer.produce(topic, key=b"key", value="value")
    producer._value_serializer = None
    producer.produce(topic, value=b"bytes")
    with pytest.raises(TypeError):
        producer.produce(topic, value=object())
    assert producer.flush(WAIT_S) == 0
    consumer = consumer_of(
        lib, cluster, topic, key_deserializer=lambda key, _: key and key.decode()
    )
    deserialize = consumer._key_deserializer
    assert consumer._value_deserializer is None
    consumer._key_deserializer = lambda key, context: [deserialize(key, context)]
    consumer._value_deserializer = lambda value, _: value.decode()
    first, second = consumer.poll(WAIT_S), consumer.poll(WAIT_S)
    assert (first.key(), first.value()) == (["key"], "value wrapped")
    assert (second.key(), second.value()) == ([None], "bytes")
    consumer.close()
