"""Offsets of a mirror: a translated offset never skips a record, and the files survive crashes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafka_native.spark.pipelines import translation
from kafka_native.spark.pipelines.translation import (
    Piece,
    Run,
    Translations,
    pieces_of,
    thinned,
    translate,
)

ROUTE = ("orders", 3, "backup.orders")


def runs_of(offsets: list[int]) -> list[Run]:
    """Return runs as a task sees them."""
    found: list[Run] = []
    for row, offset in enumerate(offsets):
        last = found[-1] if found else None
        if last is not None and last.offset + last.length == offset:
            found[-1] = Run(last.row, last.offset, last.length + 1)
        else:
            found.append(Run(row, offset, 1))
    return found


def check_loses_nothing(pieces: list[Piece], target_offsets: dict[int, int]) -> int:
    """Check that no translated offset skips records. Return the number of exact offsets."""
    exact = 0
    for offset in range(min(target_offsets) - 2, max(target_offsets) + 3):
        found = translate(pieces, offset)
        assert found is not None
        ahead = [place for source, place in target_offsets.items() if source >= offset]
        assert found[1] <= min(ahead, default=max(target_offsets.values()) + 1), (
            f"offset {offset} misses a record"
        )
        exact += bool(ahead) and found[1] == min(ahead)
    return exact


def test_one_run_is_one_piece() -> None:
    placed = [Run(0, 7, 40), Run(40, 47, 210)]
    assert pieces_of(ROUTE, [Run(0, 100, 250)], placed) == [Piece(*ROUTE, 100, 350, 7, 257)]


def test_gaps_of_the_source_cut_pieces() -> None:
    pieces = pieces_of(ROUTE, [Run(0, 0, 3), Run(3, 5, 2), Run(5, 10, 1)], [Run(0, 100, 6)])
    assert [(each.source_start, each.source_end, each.target_start) for each in pieces] == [
        (0, 3, 100),
        (5, 7, 103),
        (10, 11, 105),
    ]
    assert [translate(pieces, offset) for offset in (2, 3, 5, 9, 10, 11)] == [
        ("backup.orders", each) for each in (102, 103, 103, 105, 105, 106)
    ]


def test_foreign_records_in_the_target_cut_pieces() -> None:
    pieces = pieces_of(ROUTE, [Run(0, 0, 10)], [Run(0, 50, 1), Run(1, 53, 3), Run(4, 57, 6)])
    assert [(each.source_start, each.target_start, each.exact) for each in pieces] == [
        (0, 50, True),
        (1, 53, True),
        (4, 57, True),
    ]
    target_offsets = {
        0: 50,
        1: 53,
        2: 54,
        3: 55,
        **{number: 53 + number for number in range(4, 10)},
    }
    assert check_loses_nothing(pieces, target_offsets) >= 10


def test_unknown_target_offsets_are_bridged() -> None:
    for placed in (
        [],
        [Run(4, 24, 1)],
        [Run(0, 20, 1)],
        [Run(9, 29, 1)],
        [Run(6, 26, 2), Run(2, 22, 3)],
    ):
        pieces = pieces_of(ROUTE, [Run(0, 0, 10)], placed)
        check_loses_nothing(pieces, {number: 20 + number for number in range(10)})


@pytest.mark.parametrize("seed", range(20))
def test_random_gaps_on_both_sides_lose_nothing(seed: int) -> None:
    chance = random.Random(seed)
    offset, target = chance.randrange(5), chance.randrange(5)
    target_offsets: dict[int, int] = {}
    for _ in range(200):
        offset += 1 + (chance.random() < 0.1) * chance.randrange(1, 4)
        target += 1 + (chance.random() < 0.05) * chance.randrange(1, 4)
        target_offsets[offset] = target
    where = runs_of(list(target_offsets.values()))
    placed = [run for run in where if chance.random() < 0.8]
    pieces = pieces_of(ROUTE, runs_of(list(target_offsets)), placed)
    assert check_loses_nothing(pieces, target_offsets) > 20
    check_loses_nothing(thinned(pieces, 5), target_offsets)
    assert len(thinned(pieces, 5)) <= 5


def test_files_are_read_in_order_and_a_repeated_batch_replaces_its_first_attempt(
    tmp_path: Path,
) -> None:
    kept = Translations(str(tmp_path / "translation"))
    assert kept.load() == {}
    assert kept.translate("orders", 3, 0) is None
    kept.write(0, [Piece(*ROUTE, 0, 10, 100, 110)])
    kept.write(1, [Piece(*ROUTE, 10, 20, 110, 120)])
    kept.write(1, [Piece(*ROUTE, 10, 20, 120, 130)])  # the first attempt is there too, from 110 on
    again = Translations((tmp_path / "translation").as_uri())
    assert again.load() == {
        ("orders", 3): [Piece(*ROUTE, 0, 10, 100, 110), Piece(*ROUTE, 10, 20, 120, 130)]
    }
    assert [again.translate("orders", 3, offset) for offset in (5, 10, 19, 99)] == [
        105,
        120,
        129,
        130,
    ]


def test_many_files_become_one(tmp_path: Path) -> None:
    kept = Translations(str(tmp_path))
    count = translation.COMPACT_AFTER + 10
    for number in range(count):
        kept.write(
            number, [Piece(*ROUTE, number * 10, number * 10 + 10, number * 10, number * 10 + 10)]
        )
    kept.write(count - 1, [Piece(*ROUTE, count * 10 - 10, count * 10, count * 10, count * 10 + 10)])
    names = sorted(each.name for each in tmp_path.iterdir())
    assert len(names) < 20
    assert sum(name.startswith("through-") for name in names) == 1
    end = count * 10
    newest = Piece(*ROUTE, end - 10, end, end, end + 10)
    assert kept.load()["orders", 3] == [Piece(*ROUTE, 0, end - 10, 0, end - 10), newest]


def test_unfinished_files_are_ignored(tmp_path: Path) -> None:
    kept = Translations(str(tmp_path))
    kept.write(0, [Piece(*ROUTE, 0, 10, 100, 110)])
    (tmp_path / f".batch-{1:020}.parquet.abc").write_bytes(b"PAR1")
    assert kept.translate("orders", 3, 3) == 103
