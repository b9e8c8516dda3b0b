"""Dead letters: records that don't decode, in a folder and in a topic; one test has a JVM."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kafka_native import Consumer, Producer, TopicPartition
from kafka_native.codecs import AvroEncoder
from kafka_native.mock import MockCluster, MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaRegistryClient
from kafka_native.spark import dead_letters, range_reader
from kafka_native.spark.batch import BatchReader
from kafka_native.spark.dead_letters import HEADERS, UNFINISHED, file_name, remove_stale
from kafka_native.spark.errors import DeadLetterError, OptionError
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.pipelines import dead_letter_files
from kafka_native.spark.ranges import OffsetRange
from kafka_native.spark.stream_reader import StreamReader
from kafka_native.spark.typed_columns import resolve
from tests.spark.streams import completed
from tests.spark.support import FORMAT, source_options
from tests.waiting import WAIT_S

pytestmark = pytest.mark.usefixtures("no_consumer_left")

_numbers = itertools.count()
FIRST_MS = 1_700_000_000_000
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": {"type": "record", "name": "Customer", "fields": [
            {"name": "city", "type": "string"}]}},
    ],
}  # fmt: skip
GUID = bytes(range(16))


@pytest.fixture(scope="module")
def registry() -> Iterator[MockSchemaRegistry]:
    with MockSchemaRegistry() as running:
        yield running


class Orders:
    """A topic with Avro orders, and a schema registry."""

    def __init__(self, cluster: MockCluster, registry: MockSchemaRegistry, topic: str = "") -> None:
        number = next(_numbers)
        self.cluster = cluster
        self.registry = registry
        self.topic, self.dead_topic = topic or f"orders-{number}", f"dead-{number}"
        cluster.create_topic(self.topic, 1)
        cluster.create_topic(self.dead_topic, 1)
        with SchemaRegistryClient({"url": registry.url}) as client:
            for field, schema in (("value", SCHEMA), ("key", "string")):
                self.schema_id = client.register_schema(
                    f"{self.topic}-{field}", Schema(json.dumps(schema))
                )
                setattr(self, f"{field}_id", self.schema_id)
        self.count = 0

    def value(self, number: int, size: int | None = None) -> bytes:
        """Return an order; with a size, only its first bytes."""
        rows = pa.table({"id": [number], "customer": [{"city": "Rome"}]})
        return self._framed("value", SCHEMA, rows)[:size]

    def key(self, text: str) -> bytes:
        """Return an encoded key."""
        return self._framed("key", "string", pa.table({"key": [text]})["key"])

    def _framed(self, field: str, schema: Any, rows: Any) -> bytes:
        prefix = b"\0" + getattr(self, f"{field}_id").to_bytes(4, "big")
        [made] = pa.chunked_array(AvroEncoder(schema, prefix=prefix).encode(rows)).to_pylist()
        assert isinstance(made, bytes)
        return made

    def produce(self, value: bytes | None, key: bytes | None = b"k", headers: Any = None) -> None:
        """Produce a record. Each one is a second younger than the one before it."""
        with Producer({"bootstrap.servers": self.cluster.bootstrap_servers}) as producer:
            stamp = FIRST_MS + self.count * 1000
            producer.produce(self.topic, value, key, timestamp=stamp, headers=headers)
            assert producer.flush(WAIT_S) == 0
        self.count += 1

    def options(self, target: str | Path, **more: str | None) -> SourceOptions:
        """Return the options of a source. An option's name has underscores in place of dots.

        None removes an option.
        """
        chosen = {
            "value.format": "avro",
            "schema.registry.url": self.registry.url,
            "deadLetters": target,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        options = source_options(
            self.cluster.bootstrap_servers,
            self.topic,
            **{name: value for name, value in chosen.items() if value is not None},
        )
        parsed = SourceOptions.parse(options)
        assert parsed.typed is not None
        return parsed.with_columns(resolve(parsed.typed))

    def range(self, start: int = 0, end: int | None = None, topic_id: str = "") -> OffsetRange:
        """Return the range of a task."""
        end = self.count if end is None else end
        return OffsetRange(self.topic, 0, start, end, topic_id=topic_id)

    def dead_messages(self) -> list[Any]:
        """Return the messages of the dead-letter topic."""
        config = {"bootstrap.servers": self.cluster.bootstrap_servers}
        with Consumer(config) as consumer:
            place = TopicPartition(self.dead_topic, 0, 0)
            end = consumer.get_watermark_offsets(place, WAIT_S)[1]
            consumer.assign([place])
            return consumer.consume(end, WAIT_S) if end else []


@pytest.fixture
def orders(mock_cluster: MockCluster, registry: MockSchemaRegistry) -> Orders:
    return Orders(mock_cluster, registry)


def read(options: SourceOptions, range_: OffsetRange) -> list[dict[str, Any]]:
    """Return the rows of a task."""
    return [row for batch in range_reader.read_rows(options, range_) for row in batch.to_pylist()]


def letters_in(folder: Path) -> list[dict[str, Any]]:
    """Return the dead letters of a folder, by offset."""
    rows = [row for path in folder.glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    return sorted(rows, key=lambda row: row["offset"])


def fill(orders: Orders) -> None:
    """Produce six records. Those at offsets 1, 3 and 5 don't decode."""
    orders.produce(orders.value(0))
    orders.produce(b"no Avro", headers=[("a", b"1"), ("b", None)])
    orders.produce(None)
    orders.produce(orders.value(3, -2), None)
    orders.produce(orders.value(4))
    orders.produce(b"\1" + GUID + b"value", headers=[("c", b"3")])


def test_a_folder_has_the_records_that_dont_decode(
    orders: Orders, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(orders)
    rows = read(orders.options(tmp_path / "dead", columns="value.id,offset"), orders.range())
    assert rows == [
        {"value": {"id": 0}, "offset": 0},
        {"value": None, "offset": 2},
        {"value": {"id": 3}, "offset": 3},  # its end is cut off, but no field of it is read
        {"value": {"id": 4}, "offset": 4},
    ]
    rows = read(orders.options(tmp_path / "dead"), orders.range())
    assert [row["offset"] for row in rows] == [0, 2, 4]
    found = letters_in(tmp_path / "dead")
    assert [row["offset"] for row in found] == [1, 3, 5]
    assert f"3 rows, and 3 dead letters in {tmp_path / 'dead'}; the first: " in caplog.text
    first, second, third = found
    assert first.pop("error").startswith("there is no schema framing")
    stamp = first.pop("timestamp")
    assert int(stamp.timestamp() * 1000) == FIRST_MS + 1000
    assert first == {
        "topic": orders.topic,
        "partition": 0,
        "offset": 1,
        "timestamp_type": 0,
        "key": b"k",
        "value": b"no Avro",
        "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        "field": "value",
        "schema_id": None,
        "schema_guid": None,
        "path": None,
        "position": None,
    }
    assert (second["schema_id"], second["path"]) == (orders.value_id, "customer.city")
    assert (second["key"], second["value"]) == (None, orders.value(3, -2))
    assert second["position"] == len(orders.value(3, -2)) - 3
    assert "field" not in second["error"]
    assert third["schema_guid"] == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert (third["schema_id"], third["path"], third["position"]) == (None, None, None)
    assert third["headers"] == [{"key": "c", "value": b"3"}]


def test_a_repeated_task_replaces_its_file(orders: Orders, tmp_path: Path) -> None:
    fill(orders)
    options = orders.options(tmp_path)
    for _ in range(2):
        read(options, orders.range(0, 4))
        read(options, orders.range(4))
        assert [row["offset"] for row in letters_in(tmp_path)] == [1, 3, 5]
    assert len(list(tmp_path.glob("*.parquet"))) == 2
    assert not list((tmp_path / UNFINISHED).iterdir())


def test_a_repeated_micro_batch_with_other_ranges_removes_its_files(
    orders: Orders, tmp_path: Path
) -> None:
    """Only those of this micro-batch: not of others, of other topics, or of a recreated topic."""
    id_ = "a+b/c=="
    others = [orders.range(0, 6, id_), orders.range(12, 20, id_), orders.range(6, 12)]
    others += [orders.range(6, 12, "another"), orders.range(4, 12, id_), orders.range(6, 13, id_)]
    named = [file_name(each) for each in others]
    named += [f"x-{named[0]}", named[0].replace("-0-", "-1-", 1), "q-0000000007.parquet"]
    stale = [file_name(orders.range(*each, id_)) for each in ((6, 12), (6, 9), (8, 10), (9, 12))]
    for name in (*named, *stale):
        (tmp_path / name).touch()
    planned = [orders.range(6, 9, id_), orders.range(9, 12, id_)]
    remove_stale(orders.options(tmp_path), planned)
    left = {each.name for each in tmp_path.iterdir()}
    assert left == {*named, *map(file_name, planned)}
    remove_stale(orders.options(orders.dead_topic), planned)


def test_a_topic_with_the_longest_name_has_dead_letters(
    mock_cluster: MockCluster, registry: MockSchemaRegistry, tmp_path: Path
) -> None:
    orders = Orders(mock_cluster, registry, "x" * 249)
    fill(orders)
    options = orders.options(tmp_path)
    topics = orders.topic, "x" * 248 + "y"
    names = {file_name(OffsetRange(each, 10**9, 0, 6, topic_id="i" * 22)) for each in topics}
    assert len(names) == 2
    assert max(map(len, names)) + len(".") + 32 <= 255  # while it isn't finished
    read(options, orders.range())
    assert [row["offset"] for row in letters_in(tmp_path)] == [1, 3, 5]
    [file] = dead_letter_files(tmp_path)
    assert (file.topic, file.topic_id) == (orders.topic, "")
    remove_stale(options, [orders.range(0, 3), orders.range(3, 6)])
    assert letters_in(tmp_path) == []


def test_a_stream_that_was_killed_may_split_its_micro_batch_anew(
    orders: Orders, tmp_path: Path
) -> None:
    def run(task_count: int, left: int, **more: str) -> None:
        """Plan the micro-batch as a new driver, and run its tasks but for the last ones."""
        reader = StreamReader(orders.options(tmp_path, startingOffsets="earliest", **more))
        start: dict[str, Any] = {orders.topic: {"0": 0}}
        end: dict[str, Any] = {orders.topic: {"0": 6}}
        planned = reader.partitions(start, end)
        assert len(planned) == task_count
        for each in planned[: task_count - left]:
            list(reader.read(each))
        reader.partitions(start, end)  # Spark may ask again
        reader.stop()

    fill(orders)
    run(1, 0)
    assert [row["offset"] for row in letters_in(tmp_path)] == [1, 3, 5]
    for splits, left, offsets in (
        (3, 1, [1, 3]),
        (2, 0, [1, 3, 5]),
        (6, 2, [1, 3]),
        (1, 0, [1, 3, 5]),
    ):
        run(splits, left, minPartitions=str(splits))
        assert [row["offset"] for row in letters_in(tmp_path)] == offsets


def test_a_recreated_topic_has_files_of_its_own(orders: Orders) -> None:
    names = {file_name(orders.range(0, 9, topic_id)) for topic_id in ("", "a/b+c==", "a+b/c==")}
    assert len(names) == 3
    assert not any("/" in name for name in names)


def test_a_file_goes_when_its_records_decode(orders: Orders, tmp_path: Path) -> None:
    """An earlier attempt had dead letters, for example before a schema was registered."""
    orders.produce(orders.value(0))
    stale = tmp_path / file_name(orders.range())
    other = tmp_path / file_name(orders.range(5, 9))
    stale.write_bytes(b"")
    other.write_bytes(b"")
    assert len(read(orders.options(tmp_path), orders.range())) == 1
    assert list(tmp_path.glob("*.parquet")) == [other]


def test_the_file_of_a_killed_attempt_is_removed(orders: Orders, tmp_path: Path) -> None:
    fill(orders)
    unfinished = tmp_path / UNFINISHED
    unfinished.mkdir()
    killed = unfinished / file_name(orders.range()).replace(".parquet", ".1234.parquet")
    other = unfinished / file_name(orders.range(9, 12)).replace(".parquet", ".1234.parquet")
    killed.write_bytes(b"half")
    other.write_bytes(b"half")
    read(orders.options(tmp_path), orders.range())
    assert list(unfinished.iterdir()) == [other]
    assert len(letters_in(tmp_path)) == 3


def test_a_range_that_isnt_read_to_its_end_leaves_no_file(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_ROWS_MAX", 1)  # each one is written by itself
    fill(orders)
    batches = range_reader.read_rows(orders.options(tmp_path, batchRows="2"), orders.range())
    assert [row["offset"] for row in next(batches).to_pylist()] == [0]
    assert list((tmp_path / UNFINISHED).iterdir())
    batches.close()
    assert not list(tmp_path.glob("*.parquet"))
    assert not list((tmp_path / UNFINISHED).iterdir())


@pytest.mark.parametrize("rows_max", [1, 2, 100])
def test_dead_letters_are_written_in_parts(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_max: int
) -> None:
    monkeypatch.setattr(dead_letters, "_ROWS_MAX", rows_max)
    for number in range(3):
        orders.produce(orders.value(number), b"bad key")
        orders.produce(b"bad value", orders.key("b"))
    assert read(orders.options(tmp_path, key_format="avro"), orders.range()) == []
    [path] = tmp_path.glob("*.parquet")
    found = pq.read_table(path)
    assert found["offset"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert found["field"].to_pylist() == ["key", "value"] * 3


def test_keys_and_values_are_kept_when_the_other_one_is_bad(orders: Orders, tmp_path: Path) -> None:
    orders.produce(orders.value(0), orders.key("a"))
    orders.produce(orders.value(1), b"bad key")
    orders.produce(b"bad value", orders.key("b"))
    orders.produce(b"both", b"bad")
    orders.produce(b"no key", None)
    rows = read(orders.options(tmp_path, key_format="avro", columns="key,value"), orders.range())
    assert [row["key"] for row in rows] == ["a"]
    assert [(row["field"], row["key"], row["value"]) for row in letters_in(tmp_path)] == [
        ("key", b"bad key", orders.value(1)),
        ("value", orders.key("b"), b"bad value"),
        ("value", b"bad", b"both"),
        ("value", None, b"no key"),
    ]
    only_keys = orders.options(tmp_path / "keys", key_format="avro", columns="key,offset")
    assert [row["offset"] for row in read(only_keys, orders.range())] == [0, 2, 4]
    assert [row["value"] for row in letters_in(tmp_path / "keys")] == [orders.value(1), b"both"]


def test_values_that_spark_cant_have_are_dead_letters(
    orders: Orders, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The year 300,000 is a valid timestamp-millis, but not one of Spark's timestamps."""
    at = {"type": "long", "logicalType": "timestamp-millis"}
    encoder = AvroEncoder({"type": "record", "name": "At", "fields": [{"name": "at", "type": at}]})
    too_late = 1 << 62
    stamps = [1000, too_late, 3000, 4000, too_late, 6000]
    rows = pa.table({"at": pa.array(stamps, pa.timestamp("ms", "UTC"))})
    values = pa.chunked_array(encoder.encode(rows)).to_pylist()
    for value in [*values, b"", values[0]]:
        orders.produce(value, headers=[("a", b"1")])
    schema = json.dumps({"type": "record", "name": "At", "fields": [{"name": "at", "type": at}]})
    options = orders.options(
        tmp_path, value_schema=schema, schema_registry_url=None, columns="value"
    )
    caplog.set_level("INFO", "kafka_native.spark")
    found = read(options, orders.range())
    assert [row["value"]["at"].timestamp() for row in found] == [1, 3, 4, 6, 1]
    [report] = [each for each in caplog.messages if "bytes" in each]  # although some are read twice
    assert report.endswith(", 3 records that don't decode")
    letters = letters_in(tmp_path)
    assert [row["offset"] for row in letters] == [1, 4, 6]
    assert [(row["key"], row["value"], row["field"]) for row in letters[:2]] == [
        (b"k", values[1], "value"),
        (b"k", values[4], "value"),
    ]
    assert letters[0]["headers"] == [{"key": "a", "value": b"1"}]
    assert int(letters[1]["timestamp"].timestamp() * 1000) == FIRST_MS + 4000
    assert "timestamp" in letters[0]["error"]
    assert pq.read_table(next(tmp_path.glob("*.parquet")))["offset"].to_pylist() == [1, 4, 6]


def test_a_topic_has_the_records_with_their_context(orders: Orders) -> None:
    fill(orders)
    options = orders.options(orders.dead_topic, deadLetters_kafka_linger_ms="0")
    assert [row["offset"] for row in read(options, orders.range())] == [0, 2, 4]
    first, second, third = orders.dead_messages()
    assert (first.key(), first.value(), first.timestamp()[1]) == (
        b"k", b"no Avro", FIRST_MS + 1000
    )  # fmt: skip
    headers = first.headers()
    assert headers[:2] == [("a", b"1"), ("b", None)]
    own = dict(headers[2:])
    assert own.pop("__connect.errors.exception.message").startswith(b"there is no schema framing")
    assert own == {
        "__connect.errors.topic": orders.topic.encode(),
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"1",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__kafka_native.errors.timestamp": str(FIRST_MS + 1000).encode(),
    }
    assert (second.key(), second.value()) == (None, orders.value(3, -2))
    own = dict(second.headers())
    assert own[HEADERS["path"]] == b"customer.city"
    assert own[HEADERS["schema_id"]] == str(orders.value_id).encode()
    assert own[HEADERS["position"]].isdigit()
    assert third.headers()[0] == ("c", b"3")
    assert dict(third.headers())[HEADERS["schema_guid"]] == b"00010203-0405-0607-0809-0a0b0c0d0e0f"


def test_a_topic_that_takes_no_dead_letter_fails_the_task(orders: Orders) -> None:
    orders.produce(b"x" * 2000)
    options = orders.options(orders.dead_topic, deadLetters_kafka_max_request_size="1000")
    with pytest.raises(DeadLetterError, match=f"topic {orders.dead_topic}: .*message.max.bytes"):
        read(options, orders.range())
    assert orders.dead_messages() == []


def test_the_consumers_properties_dont_reach_the_producer(orders: Orders) -> None:
    more = {
        "kafka_fetch_max_wait_ms": "10",
        "kafka_client_id": "c",
        "kafka_isolation_level": "read_committed",
    }
    options = orders.options("dead", **more, deadLetters_kafka_acks="1")
    assert options.dead_letters is not None
    assert options.dead_letters.sink is not None
    producer = options.dead_letters.sink.producer
    assert producer["client.id"] == "c"
    assert producer["acks"] == "1"
    assert not {"fetch.wait.max.ms", "isolation.level"} & set(producer)


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_missing_target_ends_the_query_before_a_task_starts(
    registry: MockSchemaRegistry, tmp_path: Path, is_stream: bool
) -> None:
    def plan(target: str | Path) -> None:
        options = orders.options(target, fetchOffset_numRetries="0")
        if is_stream:
            reader = StreamReader(options)
            reader.initialOffset()
            reader.stop()
        else:
            BatchReader(options).partitions()

    with MockCluster(brokers=1, auto_create_topics=False) as cluster:
        orders = Orders(cluster, registry)
        plan(orders.dead_topic)
        with pytest.raises(OptionError, match=r"deadLetters: topic nowhere doesn't exist: make it"):
            plan("nowhere")
        plan(tmp_path / "dead")
        (tmp_path / "file").touch()
        with pytest.raises(OptionError, match=r"deadLetters: no folder .*/file/dead: "):
            plan(tmp_path / "file" / "dead")


BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}
AVRO = {"value.format": "avro", "value.schema": '"int"'}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"deadLetters": "dead"}, "it needs value.format or key.format"),
        ({**AVRO, "deadLetters": ""}, "it is missing: write a topic or a folder"),
        ({**AVRO, "deadLetters.kafka.acks": "1"}, "it is missing: write a topic or a folder"),
        ({**AVRO, "deadLetters": "/dead", "mode": "PERMISSIVE"}, "leave mode=PERMISSIVE out"),
        ({**AVRO, "deadLetters": "dead letters"}, "'dead letters' is neither"),
        ({**AVRO, "deadLetters": "a"}, "the query reads topic a itself: write another"),
    ],
)
def test_an_impossible_target_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match="option deadLetters: .*" + text):
        SourceOptions.parse({**BASE, **options})


def test_a_pattern_may_not_match_the_target() -> None:
    options = {**BASE, **AVRO, "deadLetters": "orders-dead", "subscribePattern": "orders.*"}
    del options["subscribe"]
    with pytest.raises(OptionError, match="the query reads topic orders-dead itself"):
        SourceOptions.parse(options)
    options["deadLetters"] = "dead-orders"
    assert SourceOptions.parse(options).dead_letters is not None


def test_the_report_of_a_task_counts_dead_letters(
    orders: Orders, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kafka_native.spark")
    fill(orders)
    read(orders.options(tmp_path), orders.range())
    [report] = [each for each in caplog.messages if "bytes" in each]
    assert "from offset 0 to 6: 3 rows, " in report
    assert report.endswith(", 3 records that don't decode")


def test_a_stream_stores_dead_letters(spark: SparkSession, orders: Orders, tmp_path: Path) -> None:
    def run(target: str | Path) -> None:
        checkpoint = str(tmp_path / "checkpoint")
        options = orders.options(target, columns="value,offset").given
        stream = spark.readStream.format(FORMAT).options(**options)
        stream = stream.option("startingOffsets", "earliest")
        writer = stream.load().writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", checkpoint)
        query = completed(lambda: writer.start(str(tmp_path / "rows")))
        assert query.exception() is None

    def rows() -> set[int]:
        found = spark.read.parquet(str(tmp_path / "rows"))
        return {row.offset for row in found.select("offset").collect()}

    fill(orders)
    run(tmp_path / "dead")
    letters = spark.read.parquet(str(tmp_path / "dead"))
    assert rows() == {0, 2, 4}
    assert {row.offset for row in letters.collect()} == {1, 3, 5}
    fill(orders)
    run(orders.dead_topic)
    assert rows() == {0, 2, 4, 6, 8, 10}
    places = [dict(each.headers())[HEADERS["offset"]] for each in orders.dead_messages()]
    assert places == [b"7", b"9", b"11"]
