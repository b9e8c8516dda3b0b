"""The constructor of a client closes it if its managers can't be made."""

from __future__ import annotations

import pytest

from kafka_native import Consumer
from kafka_native.client_core import ClientCore


def test_a_client_without_its_managers_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ClientCore] = []

    def fail(self: Consumer, settings: object, assignors: object, client: ClientCore) -> None:
        made.append(client)
        raise RuntimeError("no managers")

    monkeypatch.setattr(Consumer, "_make_managers", fail)
    with pytest.raises(RuntimeError, match="no managers"):
        Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
    [client] = made
    assert client.closed
    assert client.engine.closed
