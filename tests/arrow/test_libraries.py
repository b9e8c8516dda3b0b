"""The guide's promise: pyarrow, pandas, polars and DuckDB read ArrowBatch and ArrowStream
directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from kafka_native import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_native.arrow import COLUMNS
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S

COUNT = 1000
TOPIC = "measured"
TYPES = [
    {},
    {"key": "string", "value": "large_binary", "topic": "large_string"},
    {"key": "large_string", "value": "binary_view", "topic": "string_view"},
    {"key": "string_view", "value": "binary_view", "topic": "string"},
]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """Yield a topic with keys that are numbers or null, and values of 0 to 29 bytes."""
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC, 1)
        with Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "compression.type": "lz4"}
        ) as producer:
            for number in range(COUNT):
                producer.produce(
                    TOPIC,
                    b"v" * (number % 30),
                    key=None if number % 10 == 0 else f"{number}",
                    headers=[("number", b"%d" % number)] if number % 2 else None,
                    timestamp=1_700_000_000_000 + number,
                )
        yield cluster.bootstrap_servers


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[Consumer]:
    """Yield a consumer at the beginning."""
    with Consumer({"bootstrap.servers": bootstrap}) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        yield consumer


def keys(text: bool) -> list[Any]:
    """Return the expected keys."""
    every = [None if number % 10 == 0 else f"{number}" for number in range(COUNT)]
    return every if text else [None if key is None else key.encode() for key in every]


@pytest.mark.parametrize("types", TYPES, ids=lambda types: types.get("key", "default"))
def test_pyarrow(consumer: Consumer, types: dict[str, str]) -> None:
    columns = {name: types.get(name) for name in COLUMNS}
    batch = consumer.consume_arrow(COUNT, WAIT_S, columns=columns)
    table = pa.table(batch)
    table.validate(full=True)
    assert table.num_rows == COUNT
    assert table.column("key").to_pylist() == keys("key" in types)
    assert table.column("offset").to_pylist() == list(range(COUNT))
    assert table.schema.equals(pa.schema(batch))


@pytest.mark.parametrize("types", TYPES, ids=lambda types: types.get("key", "default"))
def test_polars(consumer: Consumer, types: dict[str, str]) -> None:
    columns = {name: types.get(name) for name in COLUMNS}
    batch = consumer.consume_arrow(COUNT, WAIT_S, columns=columns)
    frame = pl.DataFrame(batch)
    assert frame.height == COUNT
    assert frame["key"].to_list() == keys("key" in types)
    assert frame["topic"].cast(pl.String).unique().to_list() == [TOPIC]
    sizes = frame.select(pl.col("value").bin.size().sum()).item()
    assert sizes == sum(number % 30 for number in range(COUNT))
    assert frame["headers"].to_list()[1] == [{"key": "number", "value": b"1"}]
    assert frame["headers"].null_count() == COUNT // 2


def test_pandas(consumer: Consumer) -> None:
    batch = consumer.consume_arrow(COUNT, WAIT_S)
    frame = pa.record_batch(batch).to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame["key"].tolist() == keys(False)
    assert frame["timestamp"].dt.tz is not None
    assert frame["offset"].sum() == COUNT * (COUNT - 1) // 2
    assert frame["topic"].cat.categories.tolist() == [TOPIC]


@pytest.mark.skipif(
    not hasattr(pd.DataFrame, "from_arrow"), reason="pandas before 3.0 has no DataFrame.from_arrow"
)
def test_pandas_by_itself(consumer: Consumer) -> None:
    frame = pd.DataFrame.from_arrow(
        consumer.consume_arrow(COUNT, WAIT_S, columns=["offset", "value"])
    )
    assert frame["offset"].tolist() == list(range(COUNT))


def test_duckdb(consumer: Consumer) -> None:
    table = pa.table(consumer.consume_arrow(COUNT, WAIT_S, columns=list(COLUMNS)))
    found = duckdb.sql(
        "select topic::varchar, count(*), count(key), sum(octet_length(value)), epoch_ms(max(timestamp)), "
        "sum(len(headers)) from messages group by 1",
        connection=over(table),
    ).fetchall()
    assert len(found) == 1
    assert found[0][:4] == (
        TOPIC,
        COUNT,
        COUNT - COUNT // 10,
        sum(number % 30 for number in range(COUNT)),
    )
    assert found[0][4:] == (1_700_000_000_000 + COUNT - 1, COUNT // 2)


def over(table: Any) -> duckdb.DuckDBPyConnection:
    """Return a database that has the table as `messages`."""
    connection = duckdb.connect()
    connection.register("messages", table)
    return connection


def test_stream_to_pyarrow(consumer: Consumer) -> None:
    stream = consumer.arrow_stream(300, timeout=1.0, columns=["offset", "value"])
    reader = pa.RecordBatchReader.from_stream(stream)
    assert reader.schema.equals(pa.schema(stream))
    batches = list(reader)
    assert [len(batch) for batch in batches] == [300, 300, 300, 100]
    assert pa.Table.from_batches(batches).column("offset").to_pylist() == list(range(COUNT))


def test_stream_to_polars(consumer: Consumer) -> None:
    frame = pl.DataFrame(
        consumer.arrow_stream(300, timeout=1.0, columns={"offset": None, "key": "string"})
    )
    assert frame["key"].to_list() == keys(True)


def test_stream_to_duckdb(consumer: Consumer) -> None:
    reader = pa.RecordBatchReader.from_stream(consumer.arrow_stream(300, timeout=1.0))
    assert over(reader).sql(
        'select count(*), min("offset"), max("offset") from messages'
    ).fetchall() == [(COUNT, 0, COUNT - 1)]
