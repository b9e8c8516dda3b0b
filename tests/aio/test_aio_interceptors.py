"""AIOProducer and AsyncSerializingProducer call interceptors in the event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException, Message, ProducerInterceptor, ProducerRecord
from kafka_native.aio import AsyncSerializingProducer
from kafka_native.serialization import StringSerializer

from .support import Client, in_loop


class Sending(ProducerInterceptor):
    """Records its calls, and adds its name to values."""

    def __init__(self, name: str, calls: list[tuple[Any, ...]]) -> None:
        self._name, self._calls = name, calls
        self.threads: set[int] = set()

    def on_send(self, record: ProducerRecord) -> None:
        self.threads.add(threading.get_ident())
        self._calls.append((self._name, "send", record.value))
        record.value = record.value + self._name.encode()

    def on_acknowledgement(self, error: KafkaError | None, message: Message) -> None:
        self.threads.add(threading.get_ident())
        self._calls.append((self._name, "ack", error and error.name(), message.value()))

    def close(self) -> None:
        self._calls.append((self._name, "close"))


@in_loop
async def test_interceptors_see_each_message_and_its_report(client: Client) -> None:
    calls: list[tuple[Any, ...]] = []
    first, second = Sending("A", calls), Sending("B", calls)
    topic = client.topic()

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        calls.append(("callback", error, message.value()))

    async with client.producer(interceptors=[first, second]) as producer:
        message = await (await producer.produce(topic, b"x", on_delivery=on_delivery))
        assert message.value() == b"xAB"
        assert (await (await producer.produce(topic, b"y"))).value() == b"yAB"
    assert calls == [
        ("A", "send", b"x"),
        ("B", "send", b"xA"),
        ("A", "ack", None, b"xAB"),
        ("B", "ack", None, b"xAB"),
        ("callback", None, b"xAB"),
        ("A", "send", b"y"),
        ("B", "send", b"yA"),
        ("A", "ack", None, b"yAB"),
        ("B", "ack", None, b"yAB"),
        ("A", "close"),
        ("B", "close"),
    ]
    assert first.threads == second.threads == {threading.get_ident()}


@in_loop
async def test_interceptors_see_a_message_once_that_waits_for_room(client: Client) -> None:
    calls: list[tuple[Any, ...]] = []
    topic = client.topic()
    conf = {"queue.buffering.max.messages": 5, "linger.ms": 1}
    async with client.producer(**conf, interceptors=[Sending("A", calls)]) as producer:
        deliveries = [await producer.produce(topic, b"%d." % number) for number in range(50)]
        values = [(await each).value() for each in deliveries]
    assert values == [b"%d.A" % number for number in range(50)]
    assert [call[2] for call in calls if call[1] == "send"] == [b"%d." % n for n in range(50)]
    assert [call[3] for call in calls if call[1] == "ack"] == values


@in_loop
async def test_interceptors_see_a_message_that_is_refused(client: Client) -> None:
    calls: list[tuple[Any, ...]] = []
    topic = client.topic()
    async with client.producer(interceptors=[Sending("A", calls)]) as producer:
        with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
            await producer.produce(topic, bytes(2_000_000))
        assert [call[:3] for call in calls[1:]] == [("A", "ack", "MSG_SIZE_TOO_LARGE")]


@in_loop
async def test_interceptors_see_a_message_whose_call_is_cancelled(client: Client) -> None:
    calls: list[tuple[Any, ...]] = []
    conf = {"queue.buffering.max.messages": 1, "bootstrap.servers": "127.0.0.1:1"}
    producer = client.producer(**conf, interceptors=[Sending("A", calls)])
    await producer.produce("t", b"1")
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(producer.produce("t", b"2"), 0.05)
    assert calls[1:] == [("A", "send", b"2"), ("A", "ack", "_FAIL", b"2A")]
    await producer.close(0)


@in_loop
async def test_interceptors_get_the_bytes_of_a_serializing_producer(client: Client) -> None:
    calls: list[tuple[Any, ...]] = []
    topic = client.topic()
    conf = {
        "bootstrap.servers": client.cluster.bootstrap_servers,
        "value.serializer": StringSerializer(),
        "interceptors": [Sending("A", calls)],
    }
    async with await AsyncSerializingProducer[str, str](conf) as producer:
        assert (await (await producer.produce(topic, value="x"))).value() == b"xA"
    assert calls[:2] == [("A", "send", b"x"), ("A", "ack", None, b"xA")]
