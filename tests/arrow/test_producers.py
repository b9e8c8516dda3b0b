"""produce_arrow() takes data of pyarrow, polars, DuckDB and pandas, with equal messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest

from kafka_native import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S

PRODUCERS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(7),
    "struct": lambda table: table.to_struct_array(),
    "polars": polars.from_arrow,
    "duckdb": lambda table: duckdb.from_arrow(table),
    "pandas": lambda table: table.to_pandas(),
    "pandas of arrow": lambda table: table.to_pandas(types_mapper=pandas.ArrowDtype),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    """Yield one broker."""
    with MockCluster(brokers=1) as cluster:
        yield cluster


def sent(
    cluster: MockCluster, topic: str, data: Any, count: int, **arguments: Any
) -> list[Message]:
    """Produce to a new topic of one partition, and return its messages."""
    cluster.create_topic(topic, 1)
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        assert producer.produce_arrow(topic, data, **arguments) == count
    with Consumer({"bootstrap.servers": cluster.bootstrap_servers}) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        return list(consumer.consume(count, WAIT_S))


@pytest.mark.parametrize("name", list(PRODUCERS))
def test_every_producer_of_arrow(cluster: MockCluster, name: str) -> None:
    words = [None if n % 11 == 0 else f"value {n}" + "." * (n % 30) for n in range(100)]
    table = pa.table(
        {"other": list(range(100)), "key": [f"k{n}" for n in range(100)], "value": words}
    )
    messages = sent(cluster, name.replace(" ", "-"), PRODUCERS[name](table), 100, key="key")
    assert [message.value() for message in messages] == [
        None if word is None else word.encode() for word in words
    ]
    assert [message.key() for message in messages] == [f"k{n}".encode() for n in range(100)]


def test_polars_categories_and_lists(cluster: MockCluster) -> None:
    frame = polars.DataFrame({"value": ["a", "b", "a", None]}, schema={"value": polars.Categorical})
    assert [message.value() for message in sent(cluster, "categories", frame, 4)] == [
        b"a",
        b"b",
        b"a",
        None,
    ]
