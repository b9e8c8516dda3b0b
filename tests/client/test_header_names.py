"""Header names are any bytes on the wire. Clients read, show and forward names that aren't UTF-8."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pyarrow
import pytest

from kafka_native import Message
from kafka_native._native.records import encode_batch
from kafka_native.aio import AIOProducer
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S

from .support import Client, assigned

NAMES = [b"caf\xe9", b"\xff\xfe", b"plain", "größe".encode(), b"\xed\xa0\x80", b"", b"\xf0\x90\x80"]
"""The names of one record. The fifth is a surrogate, which is not valid UTF-8 in Python."""
SHOWN = ["caf\ufffd", "\ufffd\ufffd", "plain", "größe", "\ufffd", "", "\ufffd"]
"""The same names in Java."""
HEADERS = [(name, b"%d" % number) for number, name in enumerate(NAMES)]


@pytest.fixture
def topic(cluster: MockCluster, client: Client) -> str:
    """Return a topic: one record has these names, the others have usual ones."""
    name = client.topic()
    usual = (2, None, b"after", [("kind", b"x")])
    cluster.append_raw(name, 0, encode_batch([(1, None, b"v", HEADERS), usual, usual]), 3)
    return name


def first_of(client: Client, topic: str) -> Message:
    with assigned(client, topic) as consumer:
        message = consumer.poll(WAIT_S)
    assert message is not None
    assert message.error() is None
    return message


def copied(cluster: MockCluster, topic: str) -> list[tuple[bytes, bytes | None]]:
    """Return the headers of the last record, with their names as bytes."""
    return [
        (name.encode("utf-8", "surrogateescape"), value)
        for name, value in cluster.messages(topic, 0)[-1].headers
    ]


def test_names_are_escaped_as_surrogates(client: Client, topic: str) -> None:
    message = first_of(client, topic)
    headers = message.headers()
    assert headers is not None
    assert [name.encode("utf-8", "surrogateescape") for name, _ in headers] == NAMES
    assert headers[0][0] == "caf\udce9"
    assert pickle.loads(pickle.dumps(message)).headers() == headers
    assert str(message)
    assert "caf" in repr(headers)


def test_names_are_forwarded_unchanged(cluster: MockCluster, client: Client, topic: str) -> None:
    headers: Any = first_of(client, topic).headers()
    copy = client.topic()
    with client.producer() as producer:
        producer.produce(copy, b"x", headers=headers)
        producer.flush(WAIT_S)
        assert copied(cluster, copy) == HEADERS
        producer.produce(copy, b"x", headers=dict(headers[:2]))
        producer.flush(WAIT_S)
        assert copied(cluster, copy) == HEADERS[:2]
        assert producer.produce_many(copy, [b"x"], headers=[headers]) == 1
        producer.flush(WAIT_S)
        assert copied(cluster, copy) == HEADERS
        producer.produce_batch(copy, [{"value": b"x", "headers": headers[:1]}])
        producer.flush(WAIT_S)
        assert copied(cluster, copy) == HEADERS[:1]

    async def main() -> None:
        async with AIOProducer({"bootstrap.servers": client.bootstrap}) as producer:
            await producer.produce(copy, b"x", headers=headers)

    asyncio.run(asyncio.wait_for(main(), WAIT_S))
    assert copied(cluster, copy) == HEADERS


def test_other_surrogates_are_refused(client: Client) -> None:
    with client.producer() as producer, pytest.raises(UnicodeEncodeError):
        producer.produce(client.topic(), b"x", headers=[("\ud800", b"")])
    assert len(producer) == 0


def test_columns_show_names_as_java_does(client: Client, topic: str) -> None:
    with assigned(client, topic) as consumer:
        table = pyarrow.table(consumer.consume_arrow(3, WAIT_S, columns=["value", "headers"]))
    table.validate(full=True)
    first, *others = table.column("headers").to_pylist()
    assert first == [{"key": name, "value": b"%d" % number} for number, name in enumerate(SHOWN)]
    assert others == [[{"key": "kind", "value": b"x"}]] * 2


def test_many_names_in_columns(cluster: MockCluster, client: Client) -> None:
    topic = client.topic()
    rows = [
        (1, None, b"v", [(b"\xff" * (number % 40), b"x"), ("kind", None)]) for number in range(500)
    ]
    cluster.append_raw(topic, 0, encode_batch(rows), 500)
    with assigned(client, topic) as consumer:
        table = pyarrow.table(consumer.consume_arrow(500, WAIT_S, columns=["headers"]))
    table.validate(full=True)
    assert table.column("headers").to_pylist() == [
        [{"key": "\ufffd" * (number % 40), "value": b"x"}, {"key": "kind", "value": None}]
        for number in range(500)
    ]
