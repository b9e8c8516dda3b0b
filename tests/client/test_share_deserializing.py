"""DeserializingShareConsumer: objects as keys and values, and undeserializable records."""

from __future__ import annotations

import pytest

from kafka_native import AcknowledgeType, DeserializingShareConsumer, KafkaError
from kafka_native.error import ConsumeError
from kafka_native.mock.share_partitions import State
from kafka_native.serialization import IntegerDeserializer, SerializationContext, StringDeserializer
from tests.client.share_support import new_group, take
from tests.client.support import Client, fill
from tests.waiting import WAIT_S

INTEGER = (7).to_bytes(4, "big")


def produce(client: Client, topic: str, *pairs: tuple[bytes | None, bytes | None]) -> None:
    with client.producer() as producer:
        for key, value in pairs:
            producer.produce(topic, value, key)


def test_keys_and_values_are_deserialized(client: Client, topic: str, group: str) -> None:
    produce(client, topic, (b"seven", INTEGER), (None, None))
    conf = {"bootstrap.servers": client.bootstrap, "group.id": group}
    serdes = {"key.deserializer": StringDeserializer(), "value.deserializer": IntegerDeserializer()}
    with DeserializingShareConsumer({**conf, **serdes}) as consumer:
        consumer.subscribe([topic])
        first, second = take(consumer, 2)
        assert (first.key(), first.value(), first.delivery_count()) == ("seven", 7, 1)
        assert (second.key(), second.value()) == (None, None)


def test_undeserializable_records_have_errors_and_can_be_rejected(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    produce(client, topic, (b"\xff", b"good"), (b"good", b"\xff"), (b"good", b"good"))

    def text(data: bytes | None, context: SerializationContext | None) -> str:
        return (data or b"").decode()

    conf = {"bootstrap.servers": client.bootstrap, "group.id": group}
    conf |= {"share.acknowledgement.mode": "explicit"}
    serdes = {"key.deserializer": text, "value.deserializer": text}
    with DeserializingShareConsumer({**conf, **serdes}) as consumer:
        consumer.subscribe([topic])
        messages = take(consumer, 3)
        errors = [None if (error := each.error()) is None else error.code() for each in messages]
        assert errors == [KafkaError._KEY_DESERIALIZATION, KafkaError._VALUE_DESERIALIZATION, None]
        assert [each.value() for each in messages] == [b"good", b"\xff", "good"]
        for each in messages:
            consumer.acknowledge(
                each, AcknowledgeType.REJECT if each.error() else AcknowledgeType.ACCEPT
            )
        assert set(consumer.commit_sync().values()) == {None}
        assert client.cluster.share.record(group, topic, 0, 2)[0] is State.ACKNOWLEDGED
        assert client.cluster.share.start_offset(group, topic, 0) == 3


def test_no_commit_accepts_records_of_an_interrupted_poll(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 5)
    calls: list[bytes | None] = []

    def interrupt(value: bytes | None, _: object) -> bytes | None:
        calls.append(value)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return value

    with DeserializingShareConsumer(
        {"bootstrap.servers": client.bootstrap, "group.id": group, "value.deserializer": interrupt}
    ) as consumer:
        consumer.subscribe([topic])
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(WAIT_S)
        consumer.commit_sync()
        assert client.cluster.share.start_offset(group, topic, 0) == 0
        found = consumer.poll(WAIT_S)
        assert [(each.offset(), each.delivery_count()) for each in found] == [
            (number, 2) for number in range(5)
        ]


def test_an_iteration_hands_over_the_record_that_cannot_be_deserialized(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    produce(client, topic, (None, INTEGER), (None, b"bad"), (None, INTEGER))
    conf = {
        "bootstrap.servers": client.bootstrap,
        "group.id": group,
        "value.deserializer": IntegerDeserializer(),
        "share.acknowledgement.mode": "explicit",
    }
    with DeserializingShareConsumer(conf) as consumer:
        consumer.subscribe([topic])
        consumer.acknowledge(next(consumer))
        with pytest.raises(ConsumeError) as raised:
            next(consumer)
        bad = raised.value.kafka_message
        assert bad is not None
        assert (raised.value.code, bad.value()) == (KafkaError._VALUE_DESERIALIZATION, b"bad")
        consumer.acknowledge(bad, AcknowledgeType.REJECT)
        consumer.acknowledge(next(consumer))
        assert consumer.poll(0.1).is_empty()
    assert client.cluster.share.start_offset(group, topic, 0) == 3
