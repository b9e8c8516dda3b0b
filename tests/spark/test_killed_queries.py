"""Streaming queries on a real Apache Kafka whose driver or executors are killed by kill -9.

Each query reports that it waits inside a micro-batch. Then its processes are killed. At the end its
rows equal those of a run with Spark's own connector, which nothing has interrupted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import Row, SparkSession

from tests.broker.cluster import Cluster
from tests.broker.support import TopicMaker, delete_topics, flush, their_producer
from tests.spark.held_queries import QUERIES, READING, RESULT, WRITTEN, Hold, Inputs, Settings, run
from tests.spark.killing import module_running

pytestmark = [pytest.mark.slow, pytest.mark.broker]

ORDERS: Final = 20_000
BATCH: Final = 2_500
"""The offsets of a micro-batch."""
FIRST_MS: Final = 1_700_000_000_000
INTERVAL_MS: Final = 50
PRODUCTS: Final = 7
KILLS: Final = (1, 3, 5)
"""The micro-batches in which a driver is killed. Without kills a query has eight or more."""
SLOTS: Final = "local[10]"
"""Room for a waiting task of each query, and for the others."""
DRIVER: Final = "tests.spark.held_queries"
STEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "windows": (READING, RESULT, READING),
    "joined_streams": (READING, RESULT, RESULT),
    "joined_table": (RESULT, READING, RESULT),
    "batches": (READING, WRITTEN, WRITTEN),
}
"""The steps of each query at which it is killed."""


def fill(apache: Cluster, topics: Mapping[str, str]) -> None:
    """Write orders, payments of three quarters of them, and products.

    The last batches of orders also have some from the first second, which are too late.
    """
    producer = their_producer(apache, queue_buffering_max_messages=3 * ORDERS)
    for each in range(ORDERS):
        is_late = each > ORDERS * 3 // 4 and each % 100 == 0
        stamp = FIRST_MS + (0 if is_late else each * INTERVAL_MS)
        order = f"product-{each % PRODUCTS} {each}"
        producer.produce(topics["orders"], order, f"order-{each}", each % 2, timestamp=stamp)
        if each % 4:
            paid = stamp + 1_000 * (each % 20)
            producer.produce(
                topics["payments"], f"paid {each * 3}", f"order-{each}", each % 2, timestamp=paid
            )
    for each in range(PRODUCTS):
        producer.produce(topics["products"], f"price {each + 1}", f"product-{each}", 0)
    flush(producer)


@pytest.fixture(scope="module")
def inputs(apache: Cluster) -> Iterator[Inputs]:
    made: list[tuple[Cluster, str]] = []
    maker = TopicMaker("killed-queries", made)
    sizes = {"orders": 2, "payments": 2, "products": 1}
    # otherwise the broker deletes records with such old timestamps
    topics = {name: maker(apache, size, retention_ms="-1") for name, size in sizes.items()}
    fill(apache, topics)
    yield Inputs("kafka_native", apache.bootstrap, topics, BATCH)
    delete_topics(made)


def folders(parent: Path, names: tuple[str, ...] = tuple(QUERIES)) -> dict[str, str]:
    return {name: str(parent / name) for name in names}


def rows(spark: SparkSession, folder: str) -> list[Row]:
    """Return the rows of a query, sorted, without the number of the batch."""
    found = spark.read.parquet(f"{folder}/rows").drop("batch")
    return sorted(found.collect(), key=repr)


@pytest.fixture(scope="module")
def expected(
    connected: SparkSession, inputs: Inputs, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Row]]:
    """Return the rows of each query with Spark's own connector."""
    places = folders(tmp_path_factory.mktemp("connector"))
    run(connected, Settings("", replace(inputs, format="kafka"), {}, places))
    return {name: rows(connected, folder) for name, folder in places.items()}


def test_connector_gives_what_was_produced(expected: dict[str, list[Row]]) -> None:
    """The comparison would prove little if the connector's rows were few or wrong."""
    places = {(each % 2, each // 2) for each in range(ORDERS)}
    for name in ("joined_table", "batches"):
        assert {(row.partition, row.offset) for row in expected[name]} == places
        assert len(expected[name]) == ORDERS
    late = sum(1 for each in range(ORDERS * 3 // 4 + 1, ORDERS) if each % 100 == 0)
    counted = sum(row.orders for row in expected["windows"])
    assert ORDERS - late - 2 * 30 * 20 < counted <= ORDERS - late, "open windows have no rows"
    paid = Counter(row.paid is not None for row in expected["joined_streams"])
    assert paid[True] > ORDERS * 0.7
    assert paid[False] > ORDERS * 0.2
    assert len({row.id for row in expected["joined_streams"]}) == paid.total()


# --- the driver ---


class Rounds:
    """Starts of the same queries. Each one waits inside a micro-batch, and is killed there."""

    def __init__(self, inputs: Inputs, parent: Path, names: tuple[str, ...]) -> None:
        self.inputs, self.parent = inputs, parent
        self.folders = folders(parent, names)
        self.killed: dict[str, list[int]] = {name: [] for name in names}
        """The micro-batches in which each query was killed."""

    def holds(self, round_: int, batch: int) -> dict[str, Hold]:
        gate = str(self.parent / f"gate-{round_}")
        return {
            name: Hold(STEPS[name][round_], batch, str(self.mark(name, round_)), gate)
            for name in self.folders
        }

    def mark(self, name: str, round_: int) -> Path:
        return self.parent / f"marks-{round_}" / name

    def is_held(self, round_: int) -> bool:
        return all(self.mark(name, round_).exists() for name in self.folders)

    def held_batch(self, name: str, round_: int) -> int:
        """Return the micro-batch in which a query waits, and check that Spark is inside of it."""
        batch: int = json.loads(self.mark(name, round_).read_text())["batch"]
        checkpoint = Path(self.folders[name], "checkpoint")
        assert (checkpoint / "offsets" / str(batch)).exists(), "the batch has begun"
        assert not (checkpoint / "commits" / str(batch)).exists(), "the batch hasn't ended"
        return batch

    def kill_drivers(self, master: str, *, is_remote: bool = False) -> None:
        """Start and kill a driver at each of KILLS."""
        for round_, batch in enumerate(KILLS):
            holds = self.holds(round_, batch)
            settings = Settings(master, self.inputs, holds, self.folders, is_remote)
            output = self.parent / f"output-{round_}"
            with module_running(output, DRIVER, settings.text()) as driver:
                driver.wait_until(lambda at=round_: self.is_held(at), "a query that waits")
                driver.kill()
            for name in self.folders:
                self.killed[name].append(self.held_batch(name, round_))

    def finish(self, spark: SparkSession) -> None:
        """Run the queries to their ends."""
        run(spark, Settings("", self.inputs, {}, self.folders))


@pytest.fixture(scope="module")
def killed(spark: SparkSession, inputs: Inputs, tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    """Return queries whose driver was killed, and that another driver has run to their ends."""
    rounds = Rounds(inputs, tmp_path_factory.mktemp("killed"), tuple(QUERIES))
    rounds.kill_drivers(SLOTS)
    rounds.finish(spark)
    return rounds


@pytest.mark.parametrize("name", QUERIES)
def test_query_whose_driver_was_killed_gives_each_row_once(
    spark: SparkSession, killed: Rounds, expected: dict[str, list[Row]], name: str
) -> None:
    assert len(set(killed.killed[name])) == len(KILLS), "each kill was in another micro-batch"
    assert rows(spark, killed.folders[name]) == expected[name]
