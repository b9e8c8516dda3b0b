"""A damaged request gets an answer or a closed connection, never an exception or a hang."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_native.mock import MockCluster
from kafka_native.mock.handlers import Incoming
from kafka_native.mock.replies import Close, frame_pieces
from kafka_native.mock.sasl import Login
from kafka_native.mock.server import Connection
from kafka_native.mock.versions import ADVERTISED
from kafka_native.protocol import ApiKey, ProtocolError, encode_request, registry
from tests.mock.test_mock_protocol import MAKE
from tests.mock.wire import batch

ROUNDS = 60


def damaged(frame: bytes, dice: random.Random) -> bytearray:
    """Return the frame with changed bytes after its API version, a cut end, or extra bytes."""
    data = bytearray(frame)
    for _ in range(dice.randint(1, 4)):
        data[dice.randrange(4, len(data))] = dice.choice(
            [0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)]
        )
    if dice.random() < 0.3:
        del data[dice.randrange(8, len(data) + 1) :]
    return data + dice.randbytes(dice.randint(0, 9)) if dice.random() < 0.2 else data


@pytest.mark.parametrize("key", ADVERTISED, ids=lambda key: key.name)
def test_damaged_requests_are_answered_or_end_connection(key: ApiKey, cluster: MockCluster) -> None:
    cluster.create_topic("a", 3)
    cluster.append_raw("a", 0, batch(b"v"))
    broker = cluster.coordinator_of("g")
    # The connection is closing already, so no handler waits.
    closing: Any = SimpleNamespace(
        broker=broker, peer=("127.0.0.1", 1), is_closing=True, stop=lambda: None
    )
    closing.login = Login(None, 1)
    make = MAKE.get(key, lambda *_: registry.request(key)())
    first, last = ADVERTISED[key]
    dice = random.Random(key)
    answered = 0
    for version in range(first, last + 1):
        frame = encode_request(make(version, "a", cluster.topic_id("a")), version, 1, "me")
        for _ in range(ROUNDS):
            try:
                incoming = Incoming.read(
                    cluster.state, damaged(frame, dice), cast("Connection", closing)
                )
            except ProtocolError:
                continue
            reply = None if incoming is None else incoming.handle()
            if incoming is not None and reply is not None and not isinstance(reply, Close):
                assert frame_pieces(reply, incoming.reply_version, incoming.correlation_id)
                answered += 1
    assert answered > 0
