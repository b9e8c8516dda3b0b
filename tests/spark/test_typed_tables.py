"""archive with decoded values into Delta and Iceberg tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_native.mock import MockCluster, MockSchemaRegistry
from kafka_native.schema_registry import SchemaRegistryClient
from kafka_native.spark.pipelines import DeltaTarget, PipelineError, maintain
from tests.spark.test_tables import Tables, tables  # noqa: F401
from tests.spark.test_typed_archive import NEWER, NEWER_ORDERS, Topic, orders  # noqa: F401
from tests.spark.typed_topics import NESTED, ORDERS, nested_rows

pytestmark = pytest.mark.usefixtures("no_consumer_left")


def rows_of(made: Tables) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = made.read().sort_by("offset").to_pylist()
    return rows


def test_values_are_structs_and_get_fields(tables: Tables, orders: Topic) -> None:  # noqa: F811
    orders.archive(tables.target(), 0, 0, 3)
    assert [row["value"] for row in rows_of(tables)] == [*ORDERS.to_pylist(), None]
    orders.produce(*orders.encode(NEWER, NEWER_ORDERS), b"bad")
    run = orders.archive(tables.target(), 1, 3, 6, mode="DROPMALFORMED")
    assert (run.result.records, run.result.left_out) == (2, 1)
    notes = [row["value"] and row["value"]["note"] for row in rows_of(tables)]
    assert notes == [None, None, None, "x", "y"]
    assert tables.target().ends() == {(orders.name, 0): 6}


def test_small_files_of_typed_columns_are_merged(tables: Tables, orders: Topic) -> None:  # noqa: F811
    orders.archive(tables.target(), 0, 0, 2)
    orders.archive(tables.target(), 1, 2, 3)
    orders.produce(*orders.encode(NEWER, NEWER_ORDERS))
    orders.archive(tables.target(), 2, 3, 5)
    before = rows_of(tables)
    assert maintain(tables.target(), before="2100-01-01").merged >= 2
    assert rows_of(tables) == before
    orders.archive(tables.target(), 3, 5, 5)


def test_fields_are_columns(tables: Tables, orders: Topic) -> None:  # noqa: F811
    orders.archive(tables.target(), 0, 0, 3, flatten="true")
    orders.produce(*orders.encode(NEWER, NEWER_ORDERS))
    orders.archive(tables.target(), 1, 3, 5, flatten="true")
    found = tables.read().sort_by("offset")
    assert found["note"].to_pylist() == [None, None, None, "x", "y"]
    assert found.select(ORDERS.column_names).to_pylist()[:2] == ORDERS.to_pylist()


def test_every_type_is_read_back(
    tables: Tables,  # noqa: F811
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
) -> None:
    made = Topic(mock_cluster, registry, client, topic)
    made.produce(*made.encode(NESTED, nested_rows(50)))
    made.archive(tables.target(), 0, 0, 50)
    rows = rows_of(tables)
    assert [row["value"]["id"] for row in rows] == list(range(50))


def test_other_changes_are_refused(tables: Tables, orders: Topic) -> None:  # noqa: F811
    orders.archive(tables.target(), 0, 0, 3)
    with pytest.raises(
        PipelineError, match=r"other columns: value\.customer goes; value\.lines goes"
    ):
        orders.archive(tables.target(), 1, 3, 3, columns="value.id")


def test_a_field_with_the_name_of_a_partition_is_refused(
    orders: Topic,  # noqa: F811
    tmp_path: Path,
) -> None:
    kind = {"type": "record", "name": "Visit", "fields": [{"name": "hour", "type": "int"}]}
    text = json.dumps(kind)
    by_hour = DeltaTarget(tmp_path / "hours", partition_by=["hour"])
    with pytest.raises(PipelineError, match="has its own column hour"):
        orders.archive(by_hour, 0, 0, 0, flatten="true", value_schema=text)
