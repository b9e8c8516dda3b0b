"""Two archives with new columns of one topic in one lake: the second one never breaks the first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafka_native.spark.folder import Folder
from kafka_native.spark.pipelines import claims
from kafka_native.spark.pipelines.claims import CLAIMS
from kafka_native.spark.pipelines.lake import Lake
from kafka_native.spark.pipelines.lake_schemas import SCHEMA, schema_id
from kafka_native.spark.pipelines.maintain import maintain
from kafka_native.spark.pipelines.manifests import schema_path
from kafka_native.spark.pipelines.session import PipelineError
from tests.spark.test_lake_schemas import NEW, OLD, publish, typed

OTHER = pa.struct([("id", pa.string())])
"""It doesn't fit OLD and NEW."""


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims.time, "sleep", lambda _: None)


@pytest.fixture
def lakes(tmp_path: Path) -> tuple[Lake, Lake]:
    """Return a new lake as two drivers have it. Both have checked its columns: there are none."""
    first, second = Lake(tmp_path / "lake"), Lake(tmp_path / "lake")
    for each in (first, second):
        each.prepare()
        each.check_columns(lambda _: True)
    return first, second


def put(lake: Lake, batch: int, kind: pa.DataType, topic: str = "orders") -> None:
    """Publish ten records with values of a type: raw bytes, or a struct without an id."""
    schema = SCHEMA if kind == pa.binary() else typed(kind)
    publish(lake, batch, schema, None if kind == pa.binary() else {"id": None}, topic)


def known(lake: Lake) -> set[str]:
    """Return the names of the columns of the published files."""
    return {each.schema for each in lake.files()}


@pytest.mark.parametrize(
    ("one", "other"),
    [(OLD, OTHER), (OTHER, OLD), (OLD, pa.binary()), (pa.binary(), OLD)],
    ids=["old-other", "other-old", "typed-raw", "raw-typed"],
)
def test_columns_that_do_not_fit_are_refused(
    lakes: tuple[Lake, Lake], one: pa.DataType, other: pa.DataType
) -> None:
    first, second = lakes
    put(first, 0, one)
    with pytest.raises(PipelineError, match=r"meanwhile published files .* topic orders: .*value"):
        put(second, 1, other)
    put(first, 2, one)
    put(second, 3, other, topic="bills")
    assert known(Lake(first.root)) == {schema_id(typed(one)), schema_id(typed(other))}
    assert [each.batch for each in first.manifests()] == [0, 2, 3]
    assert Lake(first.root).dataset("orders").count_rows() == 20
    assert not first.names(CLAIMS)


@pytest.mark.parametrize(("one", "other"), [(OLD, NEW), (NEW, OLD)], ids=["adds", "lacks"])
def test_added_fields_are_merged_in_both_orders(
    lakes: tuple[Lake, Lake], one: pa.DataType, other: pa.DataType
) -> None:
    first, second = lakes
    publish(first, 0, typed(one), {"id": 1})
    publish(second, 1, typed(other), {"id": 2})
    publish(first, 2, typed(one), {"id": 3})
    rows = Lake(first.root).dataset().to_table().sort_by("offset")["value"].to_pylist()
    assert [row["id"] for row in rows[::10]] == [1, 2, 3]
    assert rows[0].keys() == {"id", "lines", "note"}


def interrupted(monkeypatch: pytest.MonkeyPatch, step: int, then: Callable[[], None]) -> list[int]:
    """Run a function once, before a step of another driver."""
    left, inside = [step], [False]

    def wrapped(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Folder, *arguments: Any) -> Any:
            if not inside[0]:
                left[0] -= 1
                if left[0] == -1:
                    inside[0] = True
                    then()
                    inside[0] = False
            return method(self, *arguments)

        return call

    for name in ("write_bytes", "move", "delete", "names", "read", "exists"):
        monkeypatch.setattr(Folder, name, wrapped(getattr(Folder, name)))
    return left


@pytest.mark.parametrize(("one", "other"), [(OLD, OTHER), (OTHER, OLD)])
def test_archives_may_interleave_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: pa.DataType, other: pa.DataType
) -> None:
    outcomes = set()
    for step in range(100):
        lakes = [Lake(tmp_path / str(step)) for _ in range(2)]
        for each in lakes:
            each.prepare()
        refused: list[str] = []

        def attempt(number: int, value: pa.DataType) -> None:
            try:
                put(lakes[number], number, value)  # noqa: B023
            except PipelineError as error:
                refused.append(str(error))  # noqa: B023

        with monkeypatch.context() as patched:
            left = interrupted(patched, step, lambda: attempt(1, other))
            attempt(0, one)
        if left[0] >= 0:
            break
        lake = Lake(lakes[0].root)
        published = [each.batch for each in lake.manifests()]
        outcomes.add((*published, len(refused)))
        assert len(published) + len(refused) == 2
        assert len(known(lake)) <= 1
        assert not lake.names(CLAIMS)
    assert step > 10
    assert outcomes == {(0, 1), (1, 1)}


def test_claim_that_stays_is_named_and_maintain_removes_it(
    lakes: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = lakes

    def stop(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:  # the driver ends before it decides its batch
        patched.setattr(Folder, "delete", stop)
        patched.setattr("kafka_native.spark.pipelines.lake.asdict", stop)
        with pytest.raises(SystemExit):
            put(first, 0, OLD)
    with pytest.raises(PipelineError, match=rf"about to publish .*delete its folder {CLAIMS}"):
        put(second, 0, OTHER)
    assert maintain(second).staged == 0
    assert len(second.names(CLAIMS)) == 1
    [claim] = second.names(CLAIMS)
    os.utime(second.full(f"{CLAIMS}/{claim}"), (0, 0))
    maintain(second)
    assert not second.names(CLAIMS)
    put(second, 0, OTHER)


def test_damaged_claim_is_named(lakes: tuple[Lake, Lake]) -> None:
    first, _ = lakes
    first.make(CLAIMS)
    first.write(f"{CLAIMS}/x.json", {"columns": 5})
    with pytest.raises(PipelineError, match=rf"{CLAIMS}/x.json is damaged"):
        put(first, 0, OLD)


def test_known_columns_need_no_claim(
    lakes: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = lakes
    put(first, 0, pa.binary(), "raw")
    put(first, 1, OLD)
    written: list[str] = []
    asked: list[str] = []
    write, exists = Folder.write_bytes, Folder.exists
    monkeypatch.setattr(
        Folder,
        "write_bytes",
        lambda self, path, data: written.append(path) or write(self, path, data),
    )
    monkeypatch.setattr(
        Folder, "exists", lambda self, path: asked.append(path) or exists(self, path)
    )
    for batch, lake in ((2, first), (3, second), (4, second)):
        put(lake, batch, OLD)
        put(lake, 10 + batch, pa.binary(), "raw")
    assert not [each for each in written if each.startswith(CLAIMS)]
    # The second driver asks once for the file with the columns.
    assert asked.count(schema_path(schema_id(typed(OLD)))) == 1
