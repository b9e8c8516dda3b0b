"""Two archives of one topic with their own checkpoints: the lake gets each offset once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafka_native.spark.folder import Folder
from kafka_native.spark.pipelines import claims
from kafka_native.spark.pipelines.claims import RANGE_CLAIMS
from kafka_native.spark.pipelines.lake import Lake
from kafka_native.spark.pipelines.maintain import maintain
from kafka_native.spark.pipelines.manifests import Range, Skipped
from kafka_native.spark.pipelines.session import PipelineError
from tests.spark.lakes import records, stage
from tests.spark.test_column_claims import interrupted


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims.time, "sleep", lambda _: None)


@pytest.fixture
def lakes(tmp_path: Path) -> tuple[Lake, Lake]:
    return opened(tmp_path / "lake")


def opened(path: Path) -> tuple[Lake, Lake]:
    """Return a lake as two drivers have it."""
    first, second = Lake(path), Lake(path)
    for each in (first, second):
        each.prepare()
    return first, second


def put(lake: Lake, query: str, start: int, end: int, batch: int = 0) -> None:
    """Publish offsets of a partition."""
    files = stage(lake, records(range(start, end)), query=query, batch=batch)
    lake.publish(query, batch, [Range("orders", 0, start, end)], files)


def test_offsets_that_another_archive_has_published_meanwhile_are_refused(
    lakes: tuple[Lake, Lake],
) -> None:
    first, second = lakes
    assert second.published("new", 0).ends == {}
    put(first, "old", 0, 20)
    with pytest.raises(PipelineError, match=r"orders \[0\] from offset 0 to 20 meanwhile"):
        put(second, "new", 10, 30)
    with pytest.raises(PipelineError, match="another archive"):
        second.publish("new", 0, [], [], [Skipped("orders", 0, 5, 10, "gone")])
    put(second, "new", 20, 30)
    put(second, "new", 40, 50, batch=1)
    put(first, "old", 30, 40, batch=1)
    assert Lake(first.root).gaps() == []
    assert Lake(first.root).dataset().count_rows() == 50
    assert not first.names(RANGE_CLAIMS)


def test_archives_of_the_same_offsets_may_interleave_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = set()
    for step in range(100):
        lakes = opened(tmp_path / str(step))
        refused: list[str] = []

        def attempt(number: int, start: int, end: int) -> None:
            try:
                put(lakes[number], f"q{number}", start, end)  # noqa: B023
            except PipelineError as error:
                refused.append(str(error))  # noqa: B023

        with monkeypatch.context() as patched:
            left = interrupted(patched, step, lambda: attempt(1, 5, 15))
            attempt(0, 0, 10)
        if left[0] >= 0:
            break
        lake = Lake(lakes[0].root)
        assert lake.gaps() == []
        assert lake.dataset().count_rows() == 10
        assert not lake.names(RANGE_CLAIMS)
        outcomes.add((*(each.query for each in lake.manifests()), len(refused)))
    assert step > 10
    assert outcomes == {("q0", 1), ("q1", 1)}


def stopped(monkeypatch: pytest.MonkeyPatch, lake: Lake, name: str) -> None:
    """Publish offsets 0 to 10, and end the driver at its first call of a function."""

    def stop(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "delete", stop)
        patched.setattr(f"kafka_native.spark.pipelines.lake.{name}", stop)
        with pytest.raises(SystemExit):
            put(lake, "old", 0, 10)


def test_offsets_of_a_decided_batch_count_before_its_files_are_moved(
    lakes: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = lakes
    stopped(monkeypatch, first, "Lake._finish")
    assert second.published("new", 0).ends == {("orders", 0): 10}
    assert second.archived({("orders", 0): 10}) == {("orders", 0): [(0, 10)]}
    with pytest.raises(PipelineError, match="meanwhile"):
        put(second, "new", 5, 15)
    second.prepare()
    assert second.dataset().count_rows() == 10


def test_claim_of_a_killed_archive_stops_only_others(
    lakes: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = lakes
    stopped(monkeypatch, first, "asdict")
    [claim] = second.names(RANGE_CLAIMS)
    with pytest.raises(PipelineError, match=rf"about to publish .*delete .*{RANGE_CLAIMS}"):
        put(second, "new", 5, 15)
    put(second, "new", 10, 15)
    maintain(second)
    assert second.names(RANGE_CLAIMS) == {claim}
    put(Lake(first.root), "old", 0, 10)  # the same checkpoint, started again
    assert not second.names(RANGE_CLAIMS)
    assert Lake(first.root).gaps() == []


def test_maintain_removes_old_claims_of_offsets(
    lakes: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = lakes
    stopped(monkeypatch, first, "asdict")
    [claim] = second.names(RANGE_CLAIMS)
    os.utime(second.full(f"{RANGE_CLAIMS}/{claim}"), (0, 0))
    maintain(second)
    assert not second.names(RANGE_CLAIMS)
    put(second, "new", 5, 15)


def test_damaged_claim_of_offsets_is_named(lakes: tuple[Lake, Lake]) -> None:
    first, _ = lakes
    first.make(RANGE_CLAIMS)
    first.write(f"{RANGE_CLAIMS}/x.json", {"ranges": 5})
    with pytest.raises(PipelineError, match=rf"{RANGE_CLAIMS}/x.json is damaged"):
        put(first, "old", 0, 10)
