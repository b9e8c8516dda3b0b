"""The columns of a lake's files: which changes are allowed, and how readers see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from kafka_native.spark.pipelines import compacted_manifests as compacted
from kafka_native.spark.pipelines.lake import Lake
from kafka_native.spark.pipelines.lake_schemas import SCHEMA, merged, refused_changes, schema_id
from kafka_native.spark.pipelines.lanes import lanes_of
from kafka_native.spark.pipelines.maintain import maintain
from kafka_native.spark.pipelines.manifests import LOG, Range, schema_path
from kafka_native.spark.pipelines.session import PipelineError
from tests.spark.lakes import records, stage

LINE = pa.struct([("sku", pa.string())])
LONG_LINE = pa.struct([("count", pa.int32()), ("sku", pa.string())])
OLD = pa.struct([("id", pa.int64()), ("lines", pa.list_(LINE))])
NEW = pa.struct([("id", pa.int64()), ("note", pa.string()), ("lines", pa.list_(LONG_LINE))])


def typed(value: pa.DataType, *more: pa.Field) -> pa.Schema:
    """Return the columns of files with this value, and more columns before the headers."""
    fields = [each if each.name != "value" else pa.field("value", value) for each in SCHEMA]
    return pa.schema([*fields[:-1], *more, fields[-1]])


def publish(
    lake: Lake, batch: int, schema: pa.Schema, value: Any = None, topic: str = "orders"
) -> None:
    """Publish ten records, all with this value."""
    offsets = range(batch * 10, batch * 10 + 10)
    raw = records(offsets)
    columns = dict(zip(raw.schema.names, raw.columns, strict=True))
    found = {
        field.name: columns.get(field.name, pa.nulls(10, field.type))
        for field in schema
        if field.name != "timestamp_type"
    }
    if value is not None:
        found["value"] = pa.array([value] * 10, schema.field("value").type)
    names = ["timestampType" if name == "timestamp_type" else name for name in schema.names]
    given = pa.RecordBatch.from_pydict({**found, "timestampType": columns["timestampType"]})
    files = stage(lake, given.select(names), batch=batch, topic=topic, schema=schema)
    lake.keep_schema(schema)
    lake.publish("q", batch, [Range(topic, 0, offsets.start, offsets.stop)], files)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "lake")
    made.prepare()
    return made


@pytest.fixture
def grown(lake: Lake) -> Lake:
    """Return a lake whose value gets two fields, and whose files get a column."""
    publish(lake, 0, typed(OLD), {"id": 1, "lines": [{"sku": "a"}]})
    new = {"id": 2, "note": "n", "lines": [{"count": 3, "sku": "b"}]}
    publish(lake, 1, typed(NEW, pa.field("more", pa.int32())), new)
    return lake


VALUES = [{"id": 1, "note": None, "lines": [{"count": None, "sku": "a"}]}] * 10
VALUES += [{"id": 2, "note": "n", "lines": [{"count": 3, "sku": "b"}]}] * 10


def test_readers_see_nulls_in_place_of_added_columns(grown: Lake) -> None:
    for lake in (grown, Lake(grown.root)):
        table = lake.dataset().to_table().sort_by("offset")
        assert table["value"].to_pylist() == VALUES
        assert table["more"].null_count == 20
        assert lake.dataset().count_rows(filter=pads.field("value", "note") == "n") == 10


def test_duckdb_and_polars_read_added_columns(grown: Lake) -> None:
    paths = grown.paths()
    rows = duckdb.sql(
        f'select value from read_parquet({paths}, union_by_name=true) order by "offset"'
    ).fetchall()
    assert [row[0] for row in rows] == VALUES
    added = pl.ScanCastOptions(missing_struct_fields="insert")
    options: dict[str, Any] = {"missing_columns": "insert", "cast_options": added}
    empty = pl.from_arrow(grown.dataset().schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    schema = {name: kind for name, kind in empty.schema.items() if name not in ("topic", "date")}
    found = pl.scan_parquet(paths, schema=schema, **options)
    assert found.sort("offset").collect()["value"].to_list() == VALUES


def test_columns_are_known_after_compaction_and_merges(grown: Lake) -> None:
    for _ in range(2):
        assert len(grown.schemas()["orders"]) == 2
        assert {each.schema for each in grown.files()} == {
            schema_id(typed(OLD)),
            schema_id(typed(NEW, pa.field("more", pa.int32()))),
        }
        grown.compact(1)
        grown = Lake(grown.root)
    assert [manifest.left_out for manifest in grown.manifests()] == [0, 0]


def test_maintain_merges_files_of_the_same_columns(grown: Lake) -> None:
    publish(grown, 2, typed(OLD), {"id": 3, "lines": None})
    publish(grown, 3, typed(OLD), {"id": 4, "lines": []})
    assert maintain(grown).merged == 2
    found = [(each.first_offset, each.last_offset) for each in Lake(grown.root).files()]
    assert found == [(0, 9), (10, 19), (20, 39)]
    rows = grown.dataset().to_table().sort_by("offset")["value"].to_pylist()
    assert [row["id"] for row in rows] == [*[1] * 10, *[2] * 10, *[3] * 10, *[4] * 10]


def test_replay_of_decoded_values_is_refused(grown: Lake) -> None:
    publish(grown, 5, SCHEMA, topic="raw")
    with pytest.raises(PipelineError, match="has each value of orders decoded"):
        lanes_of(grown.root)
    assert [lane.topic for lane in lanes_of(grown.root, ["raw"])] == ["raw"]
    with pytest.raises(PipelineError, match="has each value decoded, and not the bytes"):
        lanes_of(f"{grown.root}/topic=orders")


def check(lake: Lake, schema: pa.Schema, topic: str) -> None:
    """Check that files of a topic may have these columns."""
    lake.use_columns(schema)
    lake.check_columns(lambda name: name == topic)


def test_added_columns_are_allowed_and_others_are_named(grown: Lake) -> None:
    newer = typed(NEW, pa.field("more", pa.int32()), pa.field("last", pa.string()))
    check(grown, newer, "orders")
    check(grown, SCHEMA, "bills")
    for schema, text in (
        (typed(NEW), "more goes"),
        (typed(OLD, pa.field("more", pa.int32())), r"value\.note goes; value\.lines\[\]\.count"),
        (typed(NEW, pa.field("more", pa.int64())), "more changes from int32 to int64"),
        (SCHEMA, "value changes from struct<.*> to binary; more goes"),
    ):
        with pytest.raises(PipelineError, match=text):
            check(Lake(grown.root), schema, "orders")


def test_raw_files_stay_raw(lake: Lake) -> None:
    publish(lake, 0, SCHEMA)
    assert lake.schemas() == {"orders": [SCHEMA]}
    assert not lake.exists(f"{LOG}/schemas")
    check(lake, SCHEMA, "orders")
    with pytest.raises(PipelineError, match="value changes from binary to struct"):
        check(lake, typed(OLD), "orders")


def test_topics_with_different_columns_are_read_one_by_one(grown: Lake) -> None:
    publish(grown, 5, SCHEMA, topic="raw")
    with pytest.raises(PipelineError, match="the files have no common columns: value is"):
        grown.dataset()
    assert grown.dataset("raw").schema.field("value").type == pa.binary()
    assert grown.dataset("orders").count_rows() == 20


def test_changes_inside_maps_and_lists_are_found() -> None:
    def schema(kind: pa.DataType) -> pa.Schema:
        return pa.schema([("a", pa.map_(pa.string(), pa.list_(kind)))])

    one, two = schema(LINE), schema(LONG_LINE)
    assert refused_changes(one, two) == []
    assert refused_changes(two, one) == ["a[][].count goes"]
    other = pa.schema([("a", pa.map_(pa.int32(), pa.list_(LINE)))])
    assert refused_changes(one, other) == ["a[key] changes from string to int32"]
    assert {each.name for each in merged([one, two]).field("a").type.item_type.value_type} == {
        "sku",
        "count",
    }
    with pytest.raises(PipelineError, match=r"no common columns: a is map<string, .* or map<int"):
        merged([one, other])


@pytest.mark.parametrize("content", [{}, {"arrow": "!"}, {"arrow": "AAAA"}, {"arrow": 3}])
def test_damaged_columns_are_reported(grown: Lake, content: Any) -> None:
    path = schema_path(schema_id(typed(OLD)))
    grown.write(path, content)
    with pytest.raises(PipelineError, match="is damaged"):
        Lake(grown.root).dataset()


def test_manifest_cannot_name_columns_outside_the_lake(grown: Lake) -> None:
    path = f"{LOG}/manifests/q-0000000000.json"
    content = grown.content(path)
    content["files"][0]["schema"] = "../../secret"
    grown.write(path, content)
    with pytest.raises(PipelineError, match="isn't the name of columns"):
        Lake(grown.root).files()


def test_compacted_manifests_of_the_layout_before_are_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(lake, 0, SCHEMA)
    before = lake.files()
    old = compacted.SCHEMA.remove(compacted.SCHEMA.get_field_index("schema"))
    packed_now = compacted.Summary.pack

    def pack_before(summary: compacted.Summary) -> bytes:
        return packed_now(summary).replace(b'"schemas"', b'"unknown"')

    monkeypatch.setattr(compacted.Summary, "pack", pack_before)
    rows = pq.read_table(pa.BufferReader(compacted.pack(compacted.rows_of(lake.manifests()), 0)))
    sink = pa.BufferOutputStream()
    pq.write_table(rows.select(old.names), sink)
    lake.make(f"{LOG}/compacted")
    lake.write_bytes(f"{LOG}/compacted/0-old.parquet", sink.getvalue().to_pybytes())
    lake.delete(f"{LOG}/manifests/q-0000000000.json")
    again = Lake(lake.root)
    assert again.files() == before
    assert again.schemas() == {"orders": [SCHEMA]}
