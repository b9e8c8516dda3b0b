"""Tokens of dropped cursors are used again, but data of old cursors doesn't reach new ones."""

from __future__ import annotations

from .support import bare_engine

NO_ID = bytes(16)


def test_tokens_are_used_again_and_epochs_never() -> None:
    engine = bare_engine()
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
    engine = bare_engine()
    first = engine.cursor("t", NO_ID, 0)
    engine.drop_cursor(first)
    second = engine.cursor("t", NO_ID, 1)
    assert second.token == first.token
    engine.drop_cursor(first)
    assert engine.cursors[second.token - 1] is second
    engine.close()
