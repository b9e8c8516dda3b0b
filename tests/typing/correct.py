"""A typed program without a mistake. mypy in strict mode accepts it; it never runs."""

from __future__ import annotations

import array
import json
from collections.abc import Callable, Mapping
from typing import Any

from kafka_native import (
    OFFSET_BEGINNING,
    Consumer,
    DeserializingConsumer,
    DeserializingShareConsumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    SerializingProducer,
    ShareConsumer,
    TopicPartition,
)
from kafka_native.admin import AdminClient, NewTopic
from kafka_native.aio import AIOConsumer, AIOProducer
from kafka_native.serialization import StringDeserializer, StringSerializer

CONF: dict[str, Any] = {"bootstrap.servers": "localhost:9092", "group.id": "g"}
HEADERS: dict[str, str] = {"a": "b"}
PAIRS: list[tuple[str, bytes]] = [("a", b"b")]


def report(error: KafkaError | None, message: Message) -> None:
    print(error or f"{message.topic()} {message.partition()} {message.offset()}")


class Reports:
    """A callback that is a method."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def add(self, error: KafkaError | None, message: Message) -> int:
        """Note a failure."""
        if error is not None:
            self.failed.append(error.str())
        return len(self.failed)


def produce(on_delivery: Callable[[KafkaError | None, Message], None] | None) -> int:
    reports = Reports()
    with Producer(CONF, linger_ms=5) as producer:
        producer.produce("t")
        producer.produce("t", "x", "k")
        producer.produce("t", b"x", key=b"k", on_delivery=report)
        producer.produce("t", bytearray(b"x"), memoryview(b"k"), callback=reports.add)
        producer.produce("t", array.array("d", [1.5]), on_delivery=on_delivery)
        producer.produce("t", json.dumps({"a": 1}), headers=HEADERS, timestamp=5, partition=0)
        producer.produce("t", None, headers=PAIRS, on_delivery=lambda error, message: print(error))
        producer.produce("t", b"x", headers=[("a", None), ("b", "c")])
        producer.produce("t", b"x", headers={"a": b"b", "c": None})
        producer.produce_many("t", [b"x", "y", None], keys=["a", b"b", None], on_delivery=report)
        producer.produce_many("t", ["x"], headers=[HEADERS], timestamps=[1])
        producer.produce_batch("t", [{"value": b"x", "key": "k"}], on_delivery=report)
        producer.poll(0)
        producer.flush(5)
    return producer.flush(timeout=0.5) + len(producer)


def transact(producer: Producer, consumer: Consumer) -> None:
    producer.init_transactions(30)
    producer.begin_transaction()
    offsets = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
    try:
        producer.commit_transaction()
    except KafkaException as error:
        reason = error.args[0]
        if reason.txn_requires_abort():
            producer.abort_transaction()


def read(message: Message) -> tuple[str, bytes]:
    error = message.error()
    if error is not None:
        if error.code() == KafkaError._PARTITION_EOF:
            return error.name(), b""
        raise KafkaException(error)
    value, key, topic = message.value(), message.key(), message.topic()
    for name, content in message.headers() or []:
        print(name.upper(), content if content is None else content.decode())
    kind, at = message.timestamp()
    print(kind + at, message.latency(), message.leader_epoch(), topic)
    return ("" if value is None else value.decode()), key or b""


def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    for each in partitions:
        each.offset = OFFSET_BEGINNING
    consumer.assign(partitions)


def consume(conf: Mapping[str, Any]) -> None:
    with Consumer(conf) as consumer:
        consumer.subscribe(["t"], on_assign=assigned, on_revoke=lambda consumer, gone: None)
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            consumer.commit(message=message)
            consumer.commit(message, asynchronous=False)
            consumer.store_offsets(message)
        for each in consumer.consume(100, 1):
            print(read(each))
        for each in consumer:
            print(each.value())
        partitions = [TopicPartition("t", 0, 5, metadata="m")]
        consumer.commit()
        done: list[TopicPartition] = consumer.commit(offsets=partitions, asynchronous=False)
        consumer.commit(offsets=partitions, asynchronous=True)
        later = len(done) > 1
        consumer.commit(asynchronous=later)
        low, high = consumer.get_watermark_offsets(partitions[0])
        print(high - low, [each.offset for each in consumer.committed(partitions, timeout=5)])
        consumer.seek(partitions[0])
        consumer.pause(partitions)


def convert() -> None:
    producer: SerializingProducer[str, str] = SerializingProducer(
        {**CONF, "key.serializer": StringSerializer()}
    )
    producer.produce("t", key="k", value="v", on_delivery=report)
    consumer: DeserializingConsumer[str, str] = DeserializingConsumer(
        {**CONF, "value.deserializer": StringDeserializer()}
    )
    message = consumer.poll(1)
    if message is not None:
        value = message.value()
        print("" if value is None else value.upper())
        text: str | None = message.deserialized_value()
        print(text)
        consumer.commit(message)
    with consumer as reader:
        for each in reader:
            print((each.value() or "").upper())


def share() -> None:
    with ShareConsumer(CONF) as consumer:
        consumer.subscribe(["t"])
        for message in consumer.poll(1):
            print(message.value(), message.delivery_count())
            consumer.acknowledge(message)


def share_objects() -> None:
    consumer = DeserializingShareConsumer({**CONF, "value.deserializer": StringDeserializer()})
    for message in consumer.poll(1):
        print((message.value() or "").upper())
    for message in consumer:
        print((message.value() or "").upper())


def administer() -> None:
    admin = AdminClient(CONF)
    for topic, future in admin.create_topics([NewTopic("t", 3, 1, config={"a": "b"})]).items():
        future.result()
        print(topic.upper())
    admin.delete_topics(["t"])
    print(admin.list_topics("t", timeout=5).topics["t"].partitions)


async def use_asyncio() -> None:
    async with AIOProducer(CONF) as producer:
        delivered = await producer.produce("t", "x", key=b"k", headers={"a": b"b"})
        message = await delivered
        print(message.offset())
        await producer.flush(5)
    async with AIOConsumer(CONF) as consumer:
        await consumer.subscribe(["t"])
        received = await consumer.poll(1)
        if received is not None:
            print(read(received))
        await consumer.commit(asynchronous=False)
