"""Streaming queries on a real Apache Kafka whose driver or executors are killed by kill -9.

Each query reports that it waits inside a micro-batch. Then its processes are killed. At the end its
rows equal those of a run with Spark's own connector, which nothing has interrupted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from kafka_native.codecs import AvroEncoder
from kafka_native.spark.dead_letters import HEADERS
from tests.broker.cluster import Cluster
from tests.broker.support import (
    TopicMaker,
    delete_topics,
    end_of,
    flush,
    read,
    their_consumer,
    their_producer,
)
from tests.spark.held_queries import (
    READING,
    RESULT,
    SCHEMA,
    WRITTEN,
    Hold,
    Inputs,
    Settings,
    run,
)
from tests.spark.killing import CLUSTER, module_running
from tests.spark.support import connect_missing, needs_limits
from tests.waiting import PROGRAM_S

# A test has several starts of Spark, which take a minute each on a busy machine.
pytestmark = [needs_limits, pytest.mark.slow, pytest.mark.broker, pytest.mark.timeout(1800)]

ORDERS: Final = 20_000
BATCH: Final = 2_500
"""The offsets of a micro-batch."""
FIRST_MS: Final = 1_700_000_000_000
INTERVAL_MS: Final = 50
PRODUCTS: Final = 7
KILLS: Final = (1, 3, 5)
"""The micro-batches in which a driver is killed. Without kills a query has eight or more."""
SLOTS: Final = "local[14]"
"""Room for a waiting task of each query, and for the others."""
DRIVER: Final = "tests.spark.held_queries"
STEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "windows": (READING, RESULT, READING),
    "joined_streams": (READING, RESULT, RESULT),
    "joined_table": (RESULT, READING, RESULT),
    "batches": (READING, WRITTEN, WRITTEN),
    "letters_folder": (READING, RESULT, READING),
    "letters_topic": (READING, RESULT, READING),
}
"""The steps of each query at which it is killed."""
COMPARED: Final = ("windows", "joined_streams", "joined_table", "batches")
"""The queries that Spark's own connector can run, too."""
BAD_EVERY: Final = 10
"""One of so many records doesn't decode."""


def fill(apache: Cluster, topics: Mapping[str, str]) -> None:
    """Write orders, payments of three quarters of them, and products.

    The last batches of orders also have some from the first second, which are too late.
    """
    producer = their_producer(apache, queue_buffering_max_messages=4 * ORDERS)
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
    rows = pa.table({"id": range(ORDERS), "text": ["text"] * ORDERS})
    values = pa.chunked_array(AvroEncoder(SCHEMA).encode(rows)).to_pylist()
    for each, value in enumerate(values):
        size = -1 if each // 2 % BAD_EVERY == 0 else None
        producer.produce(topics["records"], value[:size], partition=each % 2)
    flush(producer)


@pytest.fixture(scope="module")
def inputs(apache: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inputs]:
    made: list[tuple[Cluster, str]] = []
    maker = TopicMaker("killed-queries", made)
    sizes = {"orders": 2, "payments": 2, "products": 1, "records": 2, "dead": 1}
    # otherwise the broker deletes records with such old timestamps
    topics = {name: maker(apache, size, retention_ms="-1") for name, size in sizes.items()}
    fill(apache, topics)
    folder = str(tmp_path_factory.mktemp("letters"))
    dead_letters = {"letters_folder": folder, "letters_topic": topics["dead"]}
    yield Inputs("kafka_native", apache.bootstrap, topics, BATCH, dead_letters)
    delete_topics(made)


Place = tuple[int, int]
"""A partition and an offset."""


def folders(parent: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: str(parent / name) for name in names}


def letters_in(inputs: Inputs) -> list[Place]:
    """Return the places of the dead letters in the folder, sorted."""
    files = Path(inputs.dead_letters["letters_folder"]).glob("*.parquet")
    found = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted((row["partition"], row["offset"]) for row in found)


def rows(spark: SparkSession, folder: str) -> list[Row]:
    """Return the rows of a query, sorted, without the number of the batch."""
    found = spark.read.parquet(f"{folder}/rows").drop("batch")
    return sorted(found.collect(), key=repr)


@pytest.fixture(scope="module")
def expected(
    connected: SparkSession, inputs: Inputs, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Row]]:
    """Return the rows of each query with Spark's own connector."""
    places = folders(tmp_path_factory.mktemp("connector"), COMPARED)
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


# --- kills of the driver ---


class Rounds:
    """Starts of the same queries. Each one waits inside a micro-batch, and is killed there."""

    def __init__(self, inputs: Inputs, parent: Path, steps: Mapping[str, Sequence[str]]) -> None:
        self.inputs, self.parent, self.steps = inputs, parent, steps
        self.folders = folders(parent, steps)
        self.killed: dict[str, list[int]] = {name: [] for name in steps}
        """The micro-batches in which each query was killed."""
        self.letters: list[list[Place]] = []
        """The dead letters in the folder, at each kill."""

    def holds(self, round_: int, batch: int) -> dict[str, Hold]:
        gate = str(self.parent / f"gate-{round_}")
        return {
            name: Hold(self.steps[name][round_], batch, str(self.mark(name, round_)), gate)
            for name in self.folders
        }

    def mark(self, name: str, round_: int) -> Path:
        return self.parent / f"marks-{round_}" / name

    def is_held(self, round_: int) -> bool:
        """Return whether all queries wait, and the micro-batch has stored dead letters."""
        if not all(self.mark(name, round_).exists() for name in self.folders):
            return False
        if "letters_folder" not in self.folders:
            return True
        start = self.held_batch("letters_folder", round_) * BATCH // 2
        return any(offset >= start for _, offset in letters_in(self.inputs))

    def held_batch(self, name: str, round_: int) -> int:
        """Return the micro-batch in which a query waits, and check that Spark is inside of it."""
        batch: int = json.loads(self.mark(name, round_).read_text())["batch"]
        checkpoint = Path(self.folders[name], "checkpoint")
        assert (checkpoint / "offsets" / str(batch)).exists(), "the batch has begun"
        assert not (checkpoint / "commits" / str(batch)).exists(), "the batch hasn't ended"
        return batch

    def kill_drivers(self, master: str, *, is_remote: bool = False) -> None:
        """Start and kill a driver at each of KILLS.

        :param is_remote: Whether the session is one of Spark Connect. Its server dies, too.
        """
        for round_, batch in enumerate(KILLS):
            holds = self.holds(round_, batch)
            settings = Settings(master, self.inputs, holds, self.folders, is_remote)
            output = self.parent / f"output-{round_}"
            with module_running(output, DRIVER, settings.text()) as driver:
                driver.wait_until(lambda at=round_: self.is_held(at), "a query that waits")
                driver.kill()
            for name in self.folders:
                self.killed[name].append(self.held_batch(name, round_))
            self.letters.append(letters_in(self.inputs))

    def finish(self, spark: SparkSession) -> None:
        """Run the queries to their ends."""
        run(spark, Settings("", self.inputs, {}, self.folders))


@pytest.fixture(scope="module")
def killed(spark: SparkSession, inputs: Inputs, tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    """Return queries whose driver was killed, and that another driver has run to their ends."""
    rounds = Rounds(inputs, tmp_path_factory.mktemp("killed"), STEPS)
    rounds.kill_drivers(SLOTS)
    rounds.finish(spark)
    return rounds


@pytest.mark.parametrize("name", COMPARED)
def test_query_whose_driver_was_killed_gives_each_row_once(
    spark: SparkSession, killed: Rounds, expected: dict[str, list[Row]], name: str
) -> None:
    assert len(set(killed.killed[name])) == len(KILLS), "each kill was in another micro-batch"
    assert rows(spark, killed.folders[name]) == expected[name]


def check_good_and_dead(spark: SparkSession, folder: str, dead: set[Place]) -> None:
    """Check that each record is either a row, once, or a dead letter."""
    good = [(row.partition, row.offset) for row in rows(spark, folder)]
    places = {(partition, each) for partition in range(2) for each in range(ORDERS // 2)}
    assert dead == {place for place in places if place[1] % BAD_EVERY == 0}
    assert sorted(good) == sorted(places - dead)


def test_folder_of_killed_query_has_each_dead_letter_once(
    spark: SparkSession, killed: Rounds
) -> None:
    found = letters_in(killed.inputs)
    assert len(found) == len(set(found))
    check_good_and_dead(spark, killed.folders["letters_folder"], set(found))
    for letters in killed.letters:
        assert len(letters) == len(set(letters)), "a micro-batch that is cut off adds none twice"


def test_topic_of_killed_query_has_each_dead_letter(
    spark: SparkSession, apache: Cluster, killed: Rounds
) -> None:
    topic = killed.inputs.dead_letters["letters_topic"]
    witness = their_consumer(apache)
    records = read(witness, topic, [0], end_of(witness, topic, 0))
    witness.close()
    found = Counter(place_of(dict(each.headers)) for each in records)
    check_good_and_dead(spark, killed.folders["letters_topic"], set(found))
    assert max(found.values()) <= 1 + len(KILLS), "only repeated tasks write them again"


def place_of(headers: Mapping[str, bytes | None]) -> Place:
    partition, offset = (headers[HEADERS[name]] for name in ("partition", "offset"))
    assert partition is not None
    assert offset is not None
    return int(partition), int(offset)


def test_query_of_spark_connect_whose_server_was_killed_gives_each_row_once(
    spark: SparkSession,
    inputs: Inputs,
    expected: dict[str, list[Row]],
    tmp_path: Path,
) -> None:
    why = connect_missing()
    if why:
        pytest.skip(f"no Spark Connect: {why}")
    # With Connect the tasks of foreachBatch don't know the number of the micro-batch.
    steps = {"windows": STEPS["windows"], "batches": (WRITTEN, WRITTEN, WRITTEN)}
    rounds = Rounds(inputs, tmp_path, steps)
    rounds.kill_drivers("local[6]", is_remote=True)
    rounds.finish(spark)
    for name in steps:
        assert len(set(rounds.killed[name])) == len(KILLS)
        assert rows(spark, rounds.folders[name]) == expected[name]


# --- kills of executors ---


def test_query_goes_on_after_its_executors_were_killed(
    spark: SparkSession,
    inputs: Inputs,
    expected: dict[str, list[Row]],
    tmp_path: Path,
) -> None:
    """Each executor has one task. So a kill of the executor of one query spares the others."""
    steps = {"windows": RESULT, "batches": READING, "letters_folder": READING}
    marks, gates = ({name: tmp_path / kind / name for name in steps} for kind in ("mark", "gate"))
    (tmp_path / "gate").mkdir()
    holds = {
        name: Hold(step, 1, str(marks[name]), str(gates[name])) for name, step in steps.items()
    }
    inputs = replace(inputs, dead_letters={"letters_folder": str(tmp_path / "letters")})
    places = folders(tmp_path, steps)
    settings = Settings(CLUSTER, inputs, holds, places, conf={"spark_executor_memory": "512m"})
    with module_running(tmp_path / "output", DRIVER, settings.text()) as driver:
        for _ in steps:
            driver.wait_until(lambda: any(each.exists() for each in marks.values()), "a task")
            name = next(name for name, mark in marks.items() if mark.exists())
            driver.kill_executor_of(json.loads(marks.pop(name).read_text())["pid"])
            gates[name].touch()
        driver.wait_for_success(PROGRAM_S)
    for name in ("windows", "batches"):
        assert rows(spark, places[name]) == expected[name]
    letters = letters_in(inputs)
    assert len(letters) == len(set(letters))
    check_good_and_dead(spark, places["letters_folder"], set(letters))
