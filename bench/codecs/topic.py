"""From a topic of Avro records to columns or dicts, over a broker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import confluent_kafka
import pyarrow

import kafka_native
from bench.adapters import Figures, Stopwatch
from bench.adapters.confluent_kafka import TUNING
from bench.adapters.consumer_api import ROWS, STEP, WAIT_S, assign
from bench.codecs import OURS, RAW, Work, records
from bench.codecs.contestants import column_type
from bench.codecs.messages import FRAME, SUBJECT, value_deserializer
from kafka_native.codecs import Avro
from kafka_native.schema_registry import SchemaRegistryClient

Take = Callable[[Any, int], int]


MALFORMED_EVERY = 100
"""One in so many records doesn't decode (the scenario ``malformed``)."""


def spoiled(work: Work) -> tuple[str, ...]:
    """The further topics of a scenario, which have malformed records."""
    return (f"{work.topic}-0",) if work.scenario == "malformed" else ()


def fill(work: Work) -> None:
    """Produce the records with the framing of the registry's first schema."""
    values = [FRAME + payload for payload in records.avro(nested=False)]
    produce(work, work.topic, values)
    for name in spoiled(work):
        cut = [
            value if number % MALFORMED_EVERY else value[: len(value) // 2]
            for number, value in enumerate(values)
        ]
        produce(work, name, cut)


def produce(work: Work, topic: str, values: list[bytes]) -> None:
    """Produce ``work.count`` records, the same values again and again."""
    with kafka_native.Producer(
        {"bootstrap.servers": work.bootstrap, "max.block.ms": 60_000}
    ) as producer:
        for first in range(0, work.count, len(values)):
            left = values[: work.count - first]
            partition = first // len(values) % work.partitions
            while left:
                left = left[producer.produce_many(topic, left, partition=partition) :]
        if producer.flush(WAIT_S):
            raise RuntimeError("records were not delivered")


def measured(work: Work) -> Figures:
    """Read all records from assigned partitions. The first one isn't measured."""
    with ExitStack() as stack:
        client = confluent_kafka if work.contestant == "confluent_kafka" else kafka_native
        conf: dict[str, Any] = {"bootstrap.servers": work.bootstrap, "group.id": "bench"}
        conf |= {"enable.auto.commit": False, **(TUNING if client is confluent_kafka else {})}
        if work.scenario == "deserializing_consumer":
            conf["value.deserializer"] = value_deserializer(
                "avro", work.contestant, work.registry, stack, nested=False
            )
            consumer, take = client.DeserializingConsumer(conf), polled
        else:
            make = split if work.scenario == "malformed" else TAKES[work.contestant]
            take = make(work, stack)
            consumer = client.Consumer(conf)
        stack.callback(consumer.close)
        [name] = (spoiled(work) if work.contestant == OURS else ()) or (work.topic,)
        assign(client, consumer, name, work.partitions)
        if consumer.poll(WAIT_S) is None:
            raise RuntimeError("no record came")
        watch, taken = Stopwatch(), 1
        while taken < work.count:
            count = take(consumer, work.count - taken)
            if not count:
                raise RuntimeError(f"only {taken} of {work.count} records came")
            taken += count
        return watch.figures(taken - 1)


def raw(work: Work, stack: ExitStack) -> Take:
    """Take columns of bytes."""
    return lambda consumer, left: len(
        consumer.consume_arrow(min(ROWS, left), WAIT_S, columns=["value"])
    )


def typed(work: Work, stack: ExitStack) -> Take:
    """Take columns of decoded records."""
    client = stack.enter_context(SchemaRegistryClient({"url": work.registry}))
    codec = Avro(client, subject=SUBJECT)
    return lambda consumer, left: len(
        consumer.consume_arrow(min(ROWS, left), WAIT_S, columns=["value"], value=codec)
    )


def split(work: Work, stack: ExitStack) -> Take:
    """Take columns of decoded records, and the malformed ones beside them."""
    client = stack.enter_context(SchemaRegistryClient({"url": work.registry}))
    codec = Avro(client, subject=SUBJECT)

    def take(consumer: Any, left: int) -> int:
        batch = consumer.consume_arrow(
            min(ROWS, left), WAIT_S, columns=["value"], value=codec, on_error="split"
        )
        return len(batch) + len(batch.malformed)

    return take


def confluent(work: Work, stack: ExitStack) -> Take:
    """Deserialize each message, and make a column of the dicts."""
    from confluent_kafka.serialization import MessageField, SerializationContext

    deserializer = value_deserializer("avro", "confluent_kafka", work.registry, stack, nested=False)
    context = SerializationContext(work.topic, MessageField.VALUE)
    kind = column_type(nested=False)

    def take(consumer: Any, left: int) -> int:
        messages = consumer.consume(min(STEP, left), WAIT_S)
        rows = [deserializer(message.value(), context) for message in messages]
        return len(pyarrow.array(rows, kind))

    return take


def polled(consumer: Any, left: int) -> int:
    """Poll messages whose values are deserialized."""
    for taken in range(min(STEP, left)):
        message = consumer.poll(WAIT_S)
        if message is None:
            return taken
        message.value()
    return min(STEP, left)


TAKES: dict[str, Callable[[Work, ExitStack], Take]] = {
    OURS: typed,
    RAW: raw,
    "confluent_kafka": confluent,
}
