"""Tokens of dropped cursors are used again, and what their old cursors left behind isn't taken for the new ones'."""

from __future__ import annotations

from typing import Any

from kafka_native._native.engine import Engine
from kafka_native.config import parse
from kafka_native.control.settings import connection_settings, consumer_settings, producer_settings

NO_ID = bytes(16)


def _engine() -> Engine:
    config = parse({}, "consumer")
    settings: dict[str, Any] = {
        **connection_settings(config),
        **producer_settings(config, 0, False),
        **consumer_settings(config),
    }
    return Engine(settings, lambda status, code, text: AssertionError(text))  # type: ignore[arg-type,return-value]


def test_tokens_are_used_again_and_epochs_never() -> None:
    engine = _engine()
    seen: set[tuple[int, int]] = set()
    for _ in range(50):
        cursors = [engine.cursor("t", NO_ID, number) for number in range(3)]
        for cursor in cursors:
            assert engine.cursors[cursor.token - 1] is cursor
            for _ in range(3):
                assert (cursor.token, cursor.epoch) not in seen
                seen.add((cursor.token, cursor.epoch))
                cursor.stop()  # every stop and start is a new epoch
        for cursor in cursors:
            engine.drop_cursor(cursor)
    assert len(engine.cursors) == 3
    engine.close()


def test_a_cursor_that_is_dropped_twice_leaves_its_successor_alone() -> None:
    engine = _engine()
    first = engine.cursor("t", NO_ID, 0)
    engine.drop_cursor(first)
    second = engine.cursor("t", NO_ID, 1)
    assert second.token == first.token
    engine.drop_cursor(first)
    assert engine.cursors[second.token - 1] is second
    engine.close()
