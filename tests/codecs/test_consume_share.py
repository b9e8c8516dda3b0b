"""Share consumers return typed columns, and records that don't decode stay acquirable."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import pytest

from kafka_native import AcknowledgeType, ShareConsumer
from kafka_native.aio import AIOShareConsumer
from kafka_native.codecs import Avro, MessageDecodeError, SchemaLookupError
from tests.codecs.consume_support import (
    ID,
    NAME,
    ORDER,
    FakeRegistry,
    Topic,
    encoded,
    framed,
    orders,
    record,
    values_of,
)
from tests.waiting import WAIT_S

VALUE = ["value"]
_numbers = itertools.count()


def conf_of(topic: Topic) -> dict[str, Any]:
    """Return the configuration of a member of a new group that begins at the earliest record."""
    topic.cluster.share.settings.auto_offset_reset = "earliest"
    return {
        "bootstrap.servers": topic.cluster.bootstrap_servers,
        "group.id": f"typed-share-{next(_numbers)}",
        "fetch.wait.max.ms": 50,
        "share.acknowledgement.mode": "explicit",
    }


def rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": each, "name": f"n{each}"} for each in ids]


def test_typed_rows_of_several_schemas(topic: Topic, registry: FakeRegistry) -> None:
    first = registry.add(ORDER, f"{topic.name}-value")
    other = record(NAME, ID)
    second = registry.add(other)
    mixed = [
        orders(first, each)[0] if each % 2 else encoded(other, second, id=each, name=f"n{each}")
        for each in range(100)
    ]
    topic.produce(*mixed, None)
    with ShareConsumer(conf_of(topic)) as consumer:
        consumer.subscribe([topic.name])
        batch = consumer.consume_arrow(
            WAIT_S, columns=["value", "delivery_count"], value=Avro(registry)
        )
        consumer.acknowledge_arrow(batch)
    assert values_of(batch) == [*rows(*range(100)), None]
    assert registry.asked == [f"{topic.name}-value", second, first]


def test_a_record_that_does_not_decode(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*orders(number, 0), framed(77, b""), *orders(number, 2))
    codec = Avro(registry)
    with ShareConsumer(conf_of(topic)) as consumer:
        consumer.subscribe([topic.name])
        for _ in range(2):
            with pytest.raises(MessageDecodeError, match=r"\[0\] at offset 1.*schema id 77"):
                consumer.consume_arrow(WAIT_S, columns=VALUE, value=codec)
        batch = consumer.consume_arrow(
            WAIT_S, columns=VALUE, value=codec, on_error="column", flatten=True
        )
        assert values_of(batch, "id") == [0, None, 2]
        errors = values_of(batch, "value_error")
        mask = [each is not None for each in errors]
        assert mask == [False, True, False]
        consumer.acknowledge_arrow(batch)
        consumer.acknowledge_arrow(batch, AcknowledgeType.REJECT, mask=mask)
        consumer.commit_sync()
        assert len(consumer.consume_arrow(0, columns=VALUE, value=codec)) == 0


def test_a_registry_that_is_down(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*orders(number, 0, 1))

    def fail() -> None:
        raise OSError("down")

    with ShareConsumer(conf_of(topic)) as consumer:
        consumer.subscribe([topic.name])
        codec = Avro(registry, schema=ORDER)
        registry.hook = fail
        with pytest.raises(SchemaLookupError, match=rf"{topic.name} \[0\] at offset 0: schema id"):
            consumer.consume_arrow(WAIT_S, columns=VALUE, value=codec, on_error="null")
        registry.hook = lambda: None
        batch = consumer.consume_arrow(WAIT_S, columns=VALUE, value=codec)
        assert values_of(batch) == rows(0, 1)
        consumer.acknowledge_arrow(batch)


def test_coroutines_run_while_the_registry_is_asked(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*orders(number, 0), framed(77, b""))
    others = threading.Semaphore(0)

    def hook() -> None:
        assert others.acquire(timeout=WAIT_S), "no other coroutine ran during the look-up"

    async def release() -> None:
        for count in (1, 2, 3):
            while len(registry.asked) < count:
                await asyncio.sleep(0.002)
            others.release()

    async def main() -> list[Any]:
        helper = asyncio.create_task(release())
        async with AIOShareConsumer(conf_of(topic)) as consumer:
            await consumer.subscribe([topic.name])
            batch = await consumer.consume_arrow(
                WAIT_S, columns=VALUE, value=Avro(registry), on_error="null"
            )
            consumer.acknowledge_arrow(batch)
        await helper
        return values_of(batch)

    registry.hook = hook
    assert asyncio.run(main()) == [*rows(0), None]
    assert registry.asked == [f"{topic.name}-value", number, 77]
