"""AsyncSerializingProducer and AsyncDeserializingConsumer of both libraries have the same results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from kafka_native.compat.drop_in import confluent_kafka as drop_in
from kafka_native.mock import MockCluster
from tests.aio.support import in_loop
from tests.compat.sides import Side, on_both
from tests.compat.test_aio_side_by_side import consumed, next_of, outcome, report_of
from tests.waiting import WAIT_S

pytest.importorskip("confluent_kafka.aio", reason="this confluent_kafka has no aio")


def conf_of(side: Side, **conf: Any) -> dict[str, Any]:
    basics = {"bootstrap.servers": side.servers, "log_level": 0}
    return basics | {name.replace("_", "."): value for name, value in conf.items()}


async def producer_of(side: Side, **conf: Any) -> Any:
    return await side.lib.aio.AsyncSerializingProducer(conf_of(side, **conf), buffer_timeout=0)


async def consumer_of(side: Side, **conf: Any) -> Any:
    whole = conf_of(side, group_id=side.group, **conf)
    return await side.lib.aio.AsyncDeserializingConsumer(whole, max_workers=4)


class Upper:
    """A serializer and a deserializer that record their calls."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.resolver: Any = None

    async def __call__(self, obj: Any, context: Any) -> Any:
        await asyncio.sleep(0)
        self.log.append((context.topic, str(context.field), context.headers))
        if obj in ("bad", b"bad"):
            raise ValueError("a bad object")
        return obj if obj is None else obj.upper()

    def set_cluster_id_resolver(self, resolver: Any) -> None:
        self.log.append("resolver that blocks")

    def set_async_cluster_id_resolver(self, resolver: Any) -> None:
        self.resolver = resolver

    async def aclose(self) -> None:
        self.log.append("closed")

    def close(self) -> None:
        self.log.append("closed by blocking")


class Builder:
    """Removes its own properties from the configuration."""

    def __init__(self, log: list[Any], result: Any = None) -> None:
        self.log = log
        self.result = result

    async def build(self, conf: dict[str, Any], is_key: bool) -> Any:
        self.log.append(("built", sorted(conf), is_key))
        if self.result is not None:
            return self.result
        return Upper(self.log), {name: conf[name] for name in conf if not name.startswith("upper")}


class BlockingBuilder(Builder):
    def build(self, conf: dict[str, Any], is_key: bool) -> Any:  # type: ignore[override]
        return str.encode, conf


@on_both
async def test_objects_go_and_come(side: Side) -> Any:
    log: list[Any] = []
    text = side.lib.serialization
    producer = await producer_of(
        side, key_serializer=text.StringSerializer(), value_serializer=Upper(log)
    )
    deliveries = [
        await producer.produce(side.topic, "k", b"v", 0),
        await producer.produce(side.topic, key=None, value=None, partition=0),
        await producer.produce(topic=side.topic, value=b"w", partition=0),
    ]
    await producer.flush(WAIT_S)
    reports = [report_of(await each) for each in deliveries]
    await producer.close()
    consumer = await consumer_of(
        side, key_deserializer=text.StringDeserializer(), value_deserializer=Upper(log)
    )
    await consumer.assign([side.at(0, 0)])
    first = await next_of(consumer)
    others = await consumed(consumer, 2)
    found = [(each.key(), each.value()) for each in (first, *others)]
    nothing = await consumer.poll(0), await consumer.consume(1, 0)
    await consumer.close()
    return reports, found, nothing, log


@on_both
async def test_builders(side: Side) -> Any:
    log: list[Any] = []
    conf = {"key_serializer_builder": Builder(log), "upper_a": 1}
    producer = await producer_of(side, **conf, value_serializer_builder=BlockingBuilder(log))
    message = await producer.produce(side.topic, b"k", "v", 0)
    await producer.flush(WAIT_S)
    found = [report_of(await message), await producer.close(), await producer.close()]
    conf = {"value_deserializer_builder": Builder(log), "upper_a": 1}
    consumer = await consumer_of(side, **conf)
    await consumer.assign([side.at(0, 0)])
    message = await next_of(consumer)
    found += [message.key(), message.value(), await consumer.close(), await consumer.close()]
    return found, log


@on_both
async def test_the_resolver_of_the_cluster_id(side: Side) -> Any:
    serializer = Upper([])
    producer = await producer_of(side, value_serializer=serializer)
    ids = await asyncio.gather(serializer.resolver(), serializer.resolver())
    ids.append(await serializer.resolver())
    same = set(ids) == {await producer.cluster_id(timeout=WAIT_S)}
    await producer.close()
    return same, serializer.log


@pytest.mark.parametrize("result", [1, (1,), (1, 2), (1, 2, 3), "ab"])
@on_both
async def test_builders_that_return_something_else(side: Side, result: Any) -> Any:
    log: list[Any] = []
    conf = {
        "key_serializer_builder": Builder(log),
        "value_serializer_builder": Builder(log, result),
    }
    try:
        await producer_of(side, **conf)
    except ValueError as error:
        return str(error), log[-1]


@on_both
async def test_wrong_configurations(side: Side) -> Any:
    log: list[Any] = []
    calls = (
        (producer_of, {"key_serializer": Upper(log), "key_serializer_builder": Builder(log)}),
        (producer_of, {"value_serializer_builder": Builder(log), "no_such_property": 1}),
        (consumer_of, {"key_deserializer": Upper(log), "key_deserializer_builder": Builder(log)}),
        (consumer_of, {"value_deserializer_builder": Builder(log), "no_such_property": 1}),
    )
    found = [await outcome(partial(make, side, **conf)) for make, conf in calls]
    return found, log


@on_both
async def test_objects_that_cannot_be_converted(side: Side) -> Any:
    log: list[Any] = []
    producer = await producer_of(side, key_serializer=Upper(log), value_serializer=Upper(log))
    found = []
    for key, value in (("bad", "v"), ("k", "bad")):
        try:
            await producer.produce(side.topic, key, value)
        except side.lib.KafkaException as error:
            found += [type(error).__name__, error.args[0].name(), str(error.exception)]
    found.append(await outcome(lambda: producer.produce(3, "k", "v")))
    found.append(
        await outcome(lambda: producer.produce(side.topic, "k", "v", headers=[("h", b"x")]))
    )
    await producer.close()
    found.append(await outcome(lambda: producer.produce(side.topic, "k", "v")))
    blocking = side.producer()
    for key, value in ((b"bad", b"v"), (b"k", b"bad"), (b"k", b"v")):
        blocking.produce(side.topic, value, key, partition=0)
    blocking.flush(WAIT_S)
    consumer = await consumer_of(
        side, key_deserializer=Upper(log), value_deserializer=Upper(log), enable_partition_eof=True
    )
    await consumer.assign([side.at(0, 0)])
    for _ in range(4):
        try:
            message = await next_of(consumer)
            found.append((message.key(), message.value()))
        except side.lib.KafkaException as error:
            message = error.kafka_message
            given = () if message.error() else (message.key(), message.value())
            found += [type(error).__name__, error.args[0].name(), given]
    await consumer.close()
    found.append(await outcome(lambda: consumer.poll(0)))
    return found, [each for each in log if each != "closed"]


@on_both
async def test_a_class_with_its_own_init(side: Side) -> Any:
    class Producer(side.lib.aio.AsyncSerializingProducer):  # type: ignore[misc, name-defined]
        async def __init__(self, conf: dict[str, Any]) -> None:
            await super().__init__({**conf, "linger.ms": 1})
            self.extra = 1

    async with await Producer(conf_of(side)) as producer:
        return (
            type(producer).__name__,
            producer.extra,
            isinstance(producer, side.lib.aio.AIOProducer),
        )


@contextmanager
def hooked(side: Side, calls: list[str]) -> Iterator[None]:
    """Put a class in place of Consumer that records calls, as an import hook does."""
    consumer_class = side.lib.Consumer

    class Hooked(consumer_class):  # type: ignore[misc, valid-type]
        def poll(self, *args: Any, **kwargs: Any) -> Any:
            message = super().poll(*args, **kwargs)
            if message is not None:
                calls.append("poll")
            return message

        def close(self) -> None:
            calls.append("close")
            super().close()

    side.lib.Consumer = Hooked
    try:
        yield
    finally:
        side.lib.Consumer = consumer_class


@on_both
async def test_a_hooked_consumer_deserializes(side: Side) -> Any:
    side.fill()
    calls: list[str] = []
    log: list[Any] = []
    with hooked(side, calls):
        consumer = await consumer_of(side, value_deserializer_builder=Builder(log))
    await consumer.assign([side.at(0, 0)])
    first = await next_of(consumer)
    others = await consumed(consumer, 2)
    found = [each.value() for each in (first, *others)]
    found += [type(consumer).__name__, await consumer.close(), await outcome(consumer.close)]
    return found, calls[:1], calls[-1:], log


@on_both
async def test_a_hooked_consumer_keeps_the_methods_of_its_class(side: Side) -> Any:
    class Consumer(side.lib.aio.AIOConsumer):  # type: ignore[misc, name-defined]
        async def poll(self, *args: Any) -> Any:
            calls.append("own poll")
            return await super().poll(*args)

    side.fill()
    calls: list[str] = []
    with hooked(side, calls):
        consumer = Consumer(conf_of(side, group_id=side.group))
    await consumer.assign([side.at(0, 0)])
    message = await next_of(consumer)
    await consumer.close()
    return message.value(), sorted(set(calls)), isinstance(consumer, Consumer)


@in_loop
async def test_hooked_call_cancelled_in_a_deserializer_loses_no_message(
    cluster: MockCluster,
) -> None:
    side = Side(drop_in, cluster)
    side.fill()
    ready, begun = asyncio.Event(), asyncio.Event()

    async def value(data: bytes, context: Any) -> str:
        begun.set()
        await ready.wait()
        return data.decode()

    with hooked(side, []):
        consumer = await consumer_of(side, value_deserializer=value)
    await consumer.assign([side.at(0, 0)])
    polling = asyncio.ensure_future(consumer.poll(WAIT_S))
    await begun.wait()
    polling.cancel()
    await asyncio.wait([polling])
    ready.set()
    assert (await next_of(consumer)).value() == "value 0"
    await consumer.close()
