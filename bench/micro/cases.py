"""The measured operations. A case prepares its work, and returns it with the number of operations.

The work runs once before the counted run, so that caches are filled and Python has specialized its
code.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import kafka_native
from kafka_native import Consumer, Producer, TopicPartition
from kafka_native._native import primitives, records
from kafka_native._native.delivery import Delivery
from kafka_native.aio import AIOProducer

MESSAGES = 50_000
RECORDS = 1000
CALLS = 20_000
STEP = 10_000
WAIT_S = 60.0
VALUE = b"x" * 100

Work = tuple[int, Callable[[], object]]


def _batch(codec: str) -> list[records.Record]:
    return [records.Record(number, 1_700_000_000_000, None, VALUE) for number in range(RECORDS)]


def encode_batch(_: str) -> Work:
    batch = _batch("none")
    return RECORDS * 20, lambda: [records.encode_batch(batch) for _ in range(20)]


def decode_batch(_: str) -> Work:
    data = records.encode_batch(_batch("none"))
    return RECORDS * 20, lambda: [records.decode_batches(data) for _ in range(20)]


def crc32c_kib(_: str) -> Work:
    data = bytes(2**20)
    return 2**10, lambda: primitives.crc32c(data)


def murmur2(_: str) -> Work:
    keys = [b"key-%d" % number for number in range(CALLS)]

    def work() -> None:  # keeps no results: the growth of their list depends on the heap
        for key in keys:
            primitives.murmur2(key)

    return CALLS, work


def _producer(bootstrap: str, **more: Any) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "1", **more})
    producer.list_topics("micro", WAIT_S)
    return producer


def _flush(producer: Producer) -> None:
    left = producer.flush(WAIT_S)
    if left:
        raise RuntimeError(f"{left} messages weren't delivered")


def produce(bootstrap: str) -> Work:
    producer = _producer(bootstrap)

    def work() -> None:
        call = producer.produce
        for _ in range(MESSAGES):
            call("micro", VALUE)
        _flush(producer)

    return MESSAGES, work


def produce_with_key_and_headers(bootstrap: str) -> Work:
    producer = _producer(bootstrap)
    headers = [("trace", b"0123456789abcdef")]

    def work() -> None:
        call = producer.produce
        for _ in range(MESSAGES):
            call("micro", VALUE, b"key", headers=headers)
        _flush(producer)

    return MESSAGES, work


def produce_with_callback(bootstrap: str) -> Work:
    producer = _producer(bootstrap)
    delivered = [0]

    def on_delivery(error: object, _: object) -> None:
        delivered[0] += error is None

    def work() -> None:
        call = producer.produce
        for number in range(MESSAGES):
            call("micro", VALUE, on_delivery=on_delivery)
            if not number % 1000:
                producer.poll(0)
        _flush(producer)

    return MESSAGES, work


def produce_many(bootstrap: str) -> Work:
    producer = _producer(bootstrap)
    values = [VALUE] * STEP

    def work() -> None:
        for _ in range(MESSAGES // STEP):
            producer.produce_many("micro", values)
        _flush(producer)

    return MESSAGES, work


def produce_async(bootstrap: str) -> Work:
    loop = asyncio.new_event_loop()

    async def connected() -> AIOProducer:
        producer = AIOProducer({"bootstrap.servers": bootstrap, "acks": "1"})
        await (await producer.produce("micro", VALUE))
        return producer

    producer = loop.run_until_complete(connected())

    async def work() -> None:
        call = producer.produce
        pending: deque[Delivery] = deque()
        for _ in range(MESSAGES):
            pending.append(await call("micro", VALUE))
            if len(pending) == STEP:
                await pending.popleft()
        while pending:
            await pending.popleft()

    return MESSAGES, lambda: loop.run_until_complete(work())


def _consumer(bootstrap: str) -> Callable[[], Consumer]:
    producer = _producer(bootstrap)
    producer.produce_many("consumed", [VALUE] * MESSAGES)
    _flush(producer)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "micro"})

    def from_the_beginning() -> Consumer:
        consumer.assign([TopicPartition("consumed", 0, kafka_native.OFFSET_BEGINNING)])
        return consumer

    return from_the_beginning


def consume(bootstrap: str) -> Work:
    begin = _consumer(bootstrap)

    def work() -> None:
        consumer, taken = begin(), 0
        while taken < MESSAGES:
            messages = consumer.consume(STEP, WAIT_S)
            for message in messages:
                message.value()
            taken += len(messages)

    return MESSAGES, work


def poll(bootstrap: str) -> Work:
    begin = _consumer(bootstrap)

    def work() -> None:
        take = begin().poll
        for _ in range(MESSAGES):
            take(WAIT_S).value()  # type: ignore[union-attr]

    return MESSAGES, work


def consume_arrow(bootstrap: str) -> Work:
    begin = _consumer(bootstrap)

    def work() -> None:
        consumer, taken = begin(), 0
        while taken < MESSAGES:
            taken += len(consumer.consume_arrow(STEP, WAIT_S, columns=["key", "value", "offset"]))

    return MESSAGES, work


CASES = {
    case.__name__: case
    for case in (
        encode_batch,
        decode_batch,
        crc32c_kib,
        murmur2,
        produce,
        produce_with_key_and_headers,
        produce_with_callback,
        produce_many,
        produce_async,
        consume,
        poll,
        consume_arrow,
    )
}
