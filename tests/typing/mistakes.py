"""Typed calls of clients, with one mistake on each marked line. This program never runs.

mypy finds every marked mistake, and nothing else. The first mark is for mistakes that mypy finds
with confluent_kafka too, the mark with "here" for those that it misses there.
"""
# ruff: noqa: B015, B018

from __future__ import annotations

from kafka_native import (
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from kafka_native.admin import AdminClient, NewPartitions, NewTopic
from kafka_native.aio import AIOConsumer, AIOProducer

CONF = {"bootstrap.servers": "localhost:9092", "group.id": "g"}


def report(error: KafkaError | None, message: Message) -> None:
    pass


def only_error(error: KafkaError | None) -> None:
    pass


def numbers(error: int, message: str) -> None:
    pass


def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    pass


def only_partitions(partitions: list[TopicPartition]) -> None:
    pass


def produce(producer: Producer) -> None:
    Producer("localhost:9092")  # mistake
    Producer([("bootstrap.servers", "localhost:9092")])  # mistake
    producer.produce()  # mistake
    producer.produce(5, b"x")  # mistake
    producer.produce("t", {"a": 1})  # mistake
    producer.produce("t", 5)  # mistake
    producer.produce("t", ["a"])  # mistake
    producer.produce("t", b"x", key=5)  # mistake
    producer.produce("t", b"x", key=("a", 1))  # mistake
    producer.produce("t", b"x", partition="0")  # mistake
    producer.produce("t", b"x", timestamp="now")  # mistake
    producer.produce("t", b"x", timestamp=1.5)  # mistake
    producer.produce("t", b"x", headers={"a": 5})  # mistake
    producer.produce("t", b"x", headers=[("a", 1)])  # mistake
    producer.produce("t", b"x", headers=["a"])  # mistake
    producer.produce("t", b"x", headers="a=b")  # mistake
    producer.produce("t", b"x", headers={1: b"b"})  # mistake
    producer.produce("t", b"x", on_delivery=only_error)  # mistake
    producer.produce("t", b"x", on_delivery=numbers)  # mistake
    producer.produce("t", b"x", on_delivery=lambda message: None)  # mistake
    producer.produce("t", b"x", callback=report(None, Message()))  # mistake
    producer.produce("t", b"x", acks=1)  # mistake
    producer.produce_batch("t", [b"x"])  # mistake
    producer.produce_batch("t", [{"value": b"x"}], on_delivery=only_error)  # mistake
    producer.poll("1")  # mistake
    producer.flush("5")  # mistake
    producer.flush(timeout_ms=5)  # mistake
    left: str = producer.flush(5)  # mistake
    producer.begin_transaction(5)  # mistake
    producer.commit_transaction("5")  # mistake
    producer.send_offsets_to_transaction("t", Consumer(CONF).consumer_group_metadata())  # mistake
    producer.list_topics(5)  # mistake
    print(left)


def produce_here(producer: Producer) -> None:
    producer.produce_many("t", 5)  # mistake here
    producer.produce_many("t", [5])  # mistake here
    producer.produce_many("t", [b"x"], keys=[1])  # mistake here
    producer.produce_many("t", [b"x"], on_delivery=only_error)  # mistake here
    producer.produce_many("t", [b"x"], headers=[{"a": 5}])  # mistake here
    producer.send_offsets_to_transaction([], "group")  # mistake here


def read(message: Message) -> None:
    message.value() + "x"  # mistake
    message.value().decode()  # mistake
    message.key().hex()  # mistake
    message.key().encode()  # mistake
    text: str = message.value()  # mistake
    message.error().code()  # mistake
    message.error().text  # mistake
    message.error.code()  # mistake
    message.value.decode()  # mistake
    message.headers()["a"]  # mistake
    message.headers().get("a")  # mistake
    message.topic().upper()  # mistake
    message.offset() + 1  # mistake
    message.timestamp() > 0  # mistake
    message.payload()  # mistake
    if (error := message.error()) is not None:
        error.str().code()  # mistake
        error.code().upper()  # mistake
        error.retryable()  # mistake
    print(text)


def consume(consumer: Consumer, message: Message, partition: TopicPartition) -> None:
    Consumer("localhost:9092", "group")  # mistake
    consumer.subscribe("t")  # mistake
    consumer.subscribe([5])  # mistake
    consumer.subscribe(["t"], on_assign=only_partitions)  # mistake
    consumer.subscribe(["t"], on_revoke=assigned(consumer, []))  # mistake
    consumer.poll("1")  # mistake
    consumer.poll(1).value()  # mistake
    consumer.consume("5")  # mistake
    consumer.consume(5, "1")  # mistake
    consumer.consume(5).value()  # mistake
    consumer.assign(["t"])  # mistake
    consumer.assign(partition)  # mistake
    consumer.seek("t", 0, 5)  # mistake
    consumer.position("t")  # mistake
    consumer.committed([partition], timeout="1")  # mistake
    consumer.pause(partition)  # mistake
    consumer.get_watermark_offsets("t")  # mistake
    consumer.offsets_for_times({"t": 5})  # mistake
    consumer.store_offsets(offsets="t")  # mistake
    consumer.store_offsets("t")  # mistake
    TopicPartition("t", "0")  # mistake
    TopicPartition(0)  # mistake
    partition.ofset  # mistake


def commit(consumer: Consumer, message: Message, partition: TopicPartition) -> None:
    consumer.commit(message=message, offsets=[partition])  # mistake
    consumer.commit(offsets=["t"])  # mistake
    consumer.commit(offsets=partition)  # mistake
    consumer.commit(message="t")  # mistake
    consumer.commit(asynchronous="no")  # mistake
    consumer.commit(asynchronous=False)[0].ofset  # mistake
    for each in consumer.commit():  # mistake
        print(each)
    committed: list[TopicPartition] = consumer.commit(offsets=[partition])  # mistake
    print(committed)


def administer(admin: AdminClient) -> None:
    NewTopic(5)  # mistake
    NewTopic("t", "3")  # mistake
    NewTopic("t", config=[("a", "b")])  # mistake
    NewPartitions("t")  # mistake
    admin.create_topics("t")  # mistake
    admin.create_topics(["t"])  # mistake
    admin.delete_topics("t")  # mistake
    admin.delete_topics([NewTopic("t")])  # mistake
    admin.create_topics([NewTopic("t")])["t"].wait()  # mistake
    admin.list_topics(5)  # mistake here


async def use_asyncio(producer: AIOProducer, consumer: AIOConsumer) -> None:
    await producer.produce("t", {"a": 1})  # mistake here
    await producer.produce("t", 5)  # mistake here
    await producer.produce("t", b"x", key=5)  # mistake here
    await producer.produce(5, b"x")  # mistake
    await producer.produce("t", b"x", headers=[("a", 1)])  # mistake here
    await producer.produce("t", b"x", partition="0")  # mistake here
    await producer.flush("5")  # mistake here
    await consumer.subscribe("t")  # mistake here
    await consumer.poll("1")  # mistake here
    (await consumer.poll(1)).value()  # mistake here
    await consumer.consume("5")  # mistake here
    await consumer.commit(asynchronous="no")  # mistake here
