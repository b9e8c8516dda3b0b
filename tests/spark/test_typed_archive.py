"""archive with decoded values: columns, bad records and schemas without a JVM, then whole runs."""

from __future__ import annotations

import itertools
import json
import logging
import pickle
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import expr, from_json, sha2, to_json
from pyspark.sql.types import StructType

from kafka_native import Producer
from kafka_native._native import codec_core
from kafka_native.codecs import AvroEncoder
from kafka_native.mock import MockCluster, MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaRegistryClient
from kafka_native.spark.commands import archive as archive_command
from kafka_native.spark.errors import MalformedRecordError, OptionError
from kafka_native.spark.folder import Folder
from kafka_native.spark.pipelines import (
    Lake,
    ParquetSettings,
    PipelineError,
    archive,
    maintain,
    replay_dead_letters,
)
from kafka_native.spark.pipelines.archive import ArchiveTask, _Run
from kafka_native.spark.pipelines.lake_schemas import SCHEMA
from kafka_native.spark.pipelines.session import topic_options
from kafka_native.spark.pipelines.typed_archive import (
    check_columns,
    file_schema,
    open_targets,
    task_options,
)
from kafka_native.spark.ranges import OffsetRange
from tests.broker.cluster import Cluster
from tests.broker.support import TopicMaker
from tests.spark.lakes import NOON_MS, FakeFrame
from tests.spark.test_maintain import fails_after
from tests.spark.test_manifest_log import KilledError
from tests.spark.test_typed_frames import JSON_ORDER, encoded, json_order, real
from tests.spark.typed_topics import NESTED, ORDER, ORDERS, nested_rows

pytestmark = pytest.mark.usefixtures("no_consumer_left")

LINES = [[{"sku": "a", "count": 3}], []]
NEWER = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}]}  # type: ignore[misc]
NEWER_ORDERS = ORDERS.append_column("note", pa.array(["x", "y"]))


class Topic:
    """A topic with Avro records, its registry, and archives of it."""

    def __init__(
        self,
        cluster: MockCluster,
        registry: MockSchemaRegistry,
        client: SchemaRegistryClient,
        name: str,
    ) -> None:
        self.cluster, self.registry, self.client, self.name = cluster, registry, client, name
        self.config = {"bootstrap.servers": cluster.bootstrap_servers}
        self.count = 0

    def produce(self, *values: bytes | None, key: bytes = b"k") -> None:
        with Producer(self.config) as producer:
            for value in values:
                producer.produce(self.name, value, key, timestamp=NOON_MS + self.count)
                self.count += 1
            assert producer.flush(30) == 0

    def encode(self, schema: Any, rows: pa.Table) -> list[bytes]:
        """Register a schema, and return the rows as records with its framing."""
        number = self.client.register_schema(f"{self.name}-value", Schema(json.dumps(schema)))
        encoder = AvroEncoder(schema, prefix=b"\0" + number.to_bytes(4, "big"))
        return pa.chunked_array(encoder.encode(rows)).to_pylist()

    def options(self, **more: str) -> dict[str, str]:
        """Return Avro options. An option's name has underscores in place of dots."""
        avro = {"value.format": "avro", "schema.registry.url": self.registry.url}
        return avro | {name.replace("_", "."): value for name, value in more.items()}

    def task_options(self, **more: str) -> Any:
        return task_options(topic_options(self.config, [self.name], None, **self.options(**more)))

    def archive(
        self, lake: Lake, batch: int, start: int, end: int, tasks: int = 1, **more: str
    ) -> _Run:
        """Archive offsets as one batch, with tasks that were pickled as in Spark."""
        options = self.task_options(**more)
        open_targets(lake, options)
        run = _Run(lake, options, ParquetSettings(), "error", _Counter())  # type: ignore[arg-type]
        edges = [start + (end - start) * number // tasks for number in range(tasks + 1)]
        ranges = [(self.name, 0, *each) for each in itertools.pairwise(edges)]
        run.commit(FakeFrame(ranges), batch)  # type: ignore[arg-type]
        return run


class _Counter:
    def add(self, records: int, size_bytes: int) -> None:
        """Count nothing."""


@pytest.fixture
def orders(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
) -> Topic:
    """Return a topic with two orders and a tombstone."""
    made = Topic(mock_cluster, registry, client, topic)
    made.produce(*made.encode(ORDER, ORDERS), None)
    return made


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def rows_of(lake: Lake) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = lake.dataset().to_table().sort_by("offset").to_pylist()
    return rows


VALUES = [{**row, "lines": lines} for row, lines in zip(ORDERS.to_pylist(), LINES, strict=True)]


# --- columns ---


def test_values_are_structs_beside_the_other_columns(orders: Topic, lake: Lake) -> None:
    run = orders.archive(lake, 0, 0, 3)
    assert (run.result.records, run.result.left_out, run.result.corrupt) == (3, 0, 0)
    rows = rows_of(lake)
    assert [row["value"] for row in rows] == [*VALUES, None]
    assert [row["offset"] for row in rows] == [0, 1, 2]
    assert {(row["key"], row["timestamp_type"], row["topic"]) for row in rows} == {
        (b"k", 0, orders.name)
    }
    assert rows[2]["timestamp"].timestamp() * 1000 == NOON_MS + 2
    [schema] = lake.schemas()[orders.name]
    assert schema.names == SCHEMA.names
    assert pq.read_schema(lake.paths()[0]).equals(schema)


def test_fields_are_chosen_and_flattened(orders: Topic, lake: Lake) -> None:
    orders.archive(lake, 0, 0, 3, columns="value.customer,value.id", flatten="true")
    table = lake.dataset().to_table().sort_by("offset")
    wanted = ["partition", "offset", "timestamp", "timestamp_type", "key", "id", "customer"]
    assert table.schema.names == [*wanted, "headers", "topic", "date"]
    assert table["id"].to_pylist() == [1, 2, None]
    assert table["customer"].to_pylist() == ["ann", None, None]


def test_keys_are_decoded_alone(orders: Topic, lake: Lake) -> None:
    orders.produce(b"raw", key=b"\x06abc")
    only_keys = {"key.format": "avro", "key.schema": '"string"', "mode": "DROPMALFORMED"}
    options = task_options(topic_options(orders.config, [orders.name], None, **only_keys))
    open_targets(lake, options)
    task = ArchiveTask(lake, options, "q", 0)
    copy = pickle.loads(CloudPickleSerializer().dumps(task))
    result = copy(OffsetRange(orders.name, 0, 0, 4))
    assert (result["records"], result["left_out"]) == (1, 3)
    found = pq.read_table(lake.full(result["files"][0]["staged"])).to_pylist()
    assert [(row["key"], row["value"]) for row in found] == [("abc", b"raw")]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"columns": "value.id,offset"}, "option columns: 'offset' isn't a field"),
        ({"flatten": "true", "value_schema": "TOPIC"}, "a lake has a column topic itself"),
        ({"flatten": "true", "value_schema": "OFFSET"}, "two columns are named offset"),
        ({"value_subject": "none"}, "the registry doesn't return none"),
    ],
)
def test_an_invalid_option_says_what_to_write(
    orders: Topic, more: dict[str, str], text: str
) -> None:
    if "value_schema" in more:
        field = {"name": more["value_schema"].lower(), "type": "string"}
        schema = {"type": "record", "name": "R", "fields": [field]}
        more = {**more, "value_schema": json.dumps(schema)}
    with pytest.raises(OptionError, match=text):
        orders.task_options(**more)


def test_fields_need_a_format(orders: Topic) -> None:
    source = topic_options(orders.config, [orders.name], None, columns="value")
    with pytest.raises(OptionError, match="option columns: it chooses fields"):
        task_options(source)


# --- records that don't decode ---


def test_failfast_names_the_record_and_publishes_nothing(orders: Topic, lake: Lake) -> None:
    orders.produce(b"bad")
    with pytest.raises(MalformedRecordError, match=rf"{orders.name} \[0\] at offset 3: its value"):
        orders.archive(lake, 0, 0, 4)
    assert lake.files() == []
    assert lake.manifests() == []


def test_permissive_keeps_the_bytes_and_the_reason(orders: Topic, lake: Lake) -> None:
    orders.produce(b"bad")
    run = orders.archive(lake, 0, 0, 4, mode="PERMISSIVE")
    assert (run.result.records, run.result.corrupt, run.result.left_out) == (4, 1, 0)
    last = rows_of(lake)[3]
    assert (last["value"], last["_corrupt_record"]) == (None, b"bad")
    assert "framing" in last["_corrupt_record_reason"]


def test_good_and_left_out_records_are_all_records(orders: Topic, lake: Lake) -> None:
    orders.produce(b"bad", *orders.encode(ORDER, ORDERS), b"worse")
    run = orders.archive(lake, 0, 0, 7, mode="DROPMALFORMED")
    assert (run.result.records, run.result.left_out) == (5, 2)
    lake.compact(1)
    [manifest] = Lake(lake.root).manifests()
    assert manifest.records + manifest.left_out == 7
    assert lake.ends() == {(orders.name, 0): 7}


def test_dead_letters_go_to_a_folder(orders: Topic, lake: Lake, tmp_path: Path) -> None:
    orders.produce(b"bad", *orders.encode(ORDER, ORDERS))
    for _ in range(2):  # the second run repeats the first one's task
        run = orders.archive(lake, 0, 0, 6, deadLetters=f"{tmp_path}/dead")
    assert run.result.repeated == 1
    [manifest] = lake.manifests()
    [letter] = pq.read_table(tmp_path / "dead").to_pylist()
    assert (letter["offset"], letter["value"], manifest.left_out) == (3, b"bad", 1)
    assert [row["offset"] for row in rows_of(lake)] == [0, 1, 2, 4, 5]


def test_a_repeated_batch_with_other_tasks_has_each_dead_letter_once(
    orders: Topic, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first driver ends before it publishes the batch."""
    orders.produce(b"bad", *orders.encode(ORDER, ORDERS), b"bad")
    dead = tmp_path / "dead"

    def die(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(Lake, "publish", die)
        with pytest.raises(KilledError):
            orders.archive(lake, 0, 0, 7, deadLetters=str(dead))
    assert pq.read_table(dead)["offset"].to_pylist() == [3, 6]
    orders.archive(Lake(lake.root), 0, 0, 7, deadLetters=str(dead), tasks=4)
    assert sorted(pq.read_table(dead)["offset"].to_pylist()) == [3, 6]
    assert len(list(dead.glob("*.parquet"))) == 2


def test_dead_letters_are_archived_after_a_fix(orders: Topic, lake: Lake, tmp_path: Path) -> None:
    probe = {"type": "record", "name": "Probe", "fields": [], "doc": orders.name}
    known = orders.client.register_schema(orders.name, Schema(json.dumps(probe)))
    late = {**ORDER, "doc": orders.name}
    encoder = AvroEncoder(late, prefix=b"\0" + (known + 1).to_bytes(4, "big"))
    orders.produce(*pa.chunked_array(encoder.encode(ORDERS)).to_pylist())
    dead = f"{tmp_path}/dead"
    assert orders.archive(lake, 0, 0, 5, deadLetters=dead).result.left_out == 2
    orders.encode(late, ORDERS)  # registers the schema
    assert replay_dead_letters(orders.config, dead).records == 2
    run = orders.archive(lake, 1, 5, 7, deadLetters=dead, value_schema="1")
    assert (run.result.records, run.result.left_out) == (2, 0)
    rows = rows_of(lake)
    assert [(row["offset"], row["value"]) for row in rows] == [
        *zip((0, 1, 2), [*VALUES, None], strict=True),
        *zip((5, 6), VALUES, strict=True),
    ]
    assert rows[3]["headers"][2] == {"key": "__kafka_native.replayed.offset", "value": b"3"}


def test_a_missing_topic_of_dead_letters_is_noticed_before_the_start(
    orders: Topic, lake: Lake
) -> None:
    with pytest.raises(OptionError, match="topic no-such-topic doesn't exist"):
        orders.archive(lake, 0, 0, 3, deadLetters="no-such-topic")
    assert lake.files() == []


def test_driver_may_end_at_any_step(
    orders: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step of the driver is the last one in turn, and Spark runs the batch again."""
    orders.produce(b"bad", *orders.encode(ORDER, ORDERS))
    for steps in range(50):
        lake = Lake(tmp_path / f"lake-{steps}")
        dead = tmp_path / f"dead-{steps}"
        lake.prepare()
        left = [steps]
        with monkeypatch.context() as patched:
            for name in ("write_bytes", "move", "delete", "remove"):
                patched.setattr(Folder, name, fails_after(left, getattr(Folder, name)))
            try:
                orders.archive(lake, 0, 0, 6, deadLetters=str(dead))
                break
            except KilledError:
                pass
        again = Lake(lake.root)
        orders.archive(again, 0, 0, 6, deadLetters=str(dead))
        assert [row["offset"] for row in rows_of(again)] == [0, 1, 2, 4, 5]
        assert pq.read_table(dead)["offset"].to_pylist() == [3]
        assert [each.left_out for each in again.manifests()] == [1]
    assert steps > 5


# --- schemas ---


def test_added_fields_are_null_in_old_files_and_others_are_refused(
    orders: Topic, lake: Lake
) -> None:
    orders.archive(lake, 0, 0, 3)
    orders.produce(*orders.encode(NEWER, NEWER_ORDERS))
    orders.archive(lake, 1, 3, 5)
    assert [row["value"] and row["value"]["note"] for row in rows_of(lake)] == [
        *(None, None, None),
        *("x", "y"),
    ]
    with pytest.raises(PipelineError, match=r"other columns: value\.note goes\. Columns may be"):
        orders.archive(lake, 2, 5, 5, value_schema="1")
    with pytest.raises(PipelineError, match="value goes"):
        orders.archive(lake, 2, 5, 5, flatten="true")
    raw = task_options(topic_options(orders.config, [orders.name], None))
    with pytest.raises(PipelineError, match="value changes from struct"):
        check_columns(lake, raw)
    assert len(lake.manifests()) == 2


def test_the_mode_may_change_between_runs(orders: Topic, lake: Lake) -> None:
    orders.produce(b"bad", *orders.encode(NEWER, NEWER_ORDERS))
    orders.archive(lake, 0, 0, 4, mode="PERMISSIVE", value_schema="1")
    orders.archive(lake, 1, 4, 6)
    orders.archive(lake, 2, 6, 6, mode="PERMISSIVE")
    rows = rows_of(lake)
    assert [row["_corrupt_record"] for row in rows] == [None, None, None, b"bad", None, None]
    assert [row["value"] and row["value"]["note"] for row in rows] == [*[None] * 4, "x", "y"]
    with pytest.raises(PipelineError, match="_corrupt_record goes; _corrupt_record_reason goes"):
        orders.archive(lake, 3, 6, 6, mode="PERMISSIVE", columnNameOfCorruptRecord="broken")


def test_protobuf_values_and_several_topics(orders: Topic, lake: Lake) -> None:
    pytest.importorskip("google.protobuf")
    names = [f"{orders.name}-{each}" for each in ("a", "b")]
    text = 'syntax = "proto3"; message Visit { string page = 1; uint32 seconds = 2; }'
    typed = {"value.format": "protobuf", "value.schema": text}
    options = task_options(topic_options(orders.config, [], f"{orders.name}-.*", **typed))
    open_targets(lake, options)
    run = _Run(lake, options, ParquetSettings(), "error", _Counter())  # type: ignore[arg-type]
    with Producer(orders.config) as producer:
        for name in names:
            orders.cluster.create_topic(name, 1)
            producer.produce(name, b"\x0a\x04home\x10\x07")
        assert producer.flush(30) == 0
    run.commit(FakeFrame([(name, 0, 0, 1) for name in names]), 0)  # type: ignore[arg-type]
    assert [row["value"] for row in rows_of(lake)] == [{"page": "home", "seconds": 7}] * 2
    assert sorted(lake.schemas()) == names
    narrow = task_options(
        topic_options(orders.config, [], f"{orders.name}-.*", **typed, columns="value.page")
    )
    with pytest.raises(PipelineError, match=rf"files of {names[0]} .*value\.seconds goes"):
        check_columns(lake, narrow)


def test_every_type_is_read_back(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
    lake: Lake,
) -> None:
    made = Topic(mock_cluster, registry, client, topic)
    for _ in range(2):
        made.produce(*made.encode(NESTED, nested_rows(50)))
    for batch in range(2):
        made.archive(lake, batch, 50 * batch, 50 * batch + 50)
    before = rows_of(lake)
    assert [row["value"]["id"] for row in before] == [*range(50), *range(50)]
    assert maintain(lake).merged == 2
    assert rows_of(lake) == before
    [path] = lake.paths()
    table = pl.read_parquet(path)
    assert table["value"].struct.field("price").to_list() == [
        row["value"]["price"] for row in before
    ]
    [total] = duckdb.sql(f"select sum(value.id), count(value.lines) from '{path}'").fetchall()
    assert total == (sum(range(50)) * 2, 100)


@pytest.mark.skipif(not codec_core.HAS_JSON, reason="this build has no simdjson")
def test_json_values_need_no_registry(orders: Topic, lake: Lake) -> None:
    orders.produce(b'{"id":7}')
    schema = '{"type":"object","properties":{"id":{"type":"integer"}}}'
    typed = {"value.format": "json", "value.schema": schema, "mode": "DROPMALFORMED"}
    options = task_options(topic_options(orders.config, [orders.name], None, **typed))
    open_targets(lake, options)
    run = _Run(lake, options, ParquetSettings(), "error", _Counter())  # type: ignore[arg-type]
    run.commit(FakeFrame([(orders.name, 0, 0, 4)]), 0)  # type: ignore[arg-type]
    assert [row["value"] for row in rows_of(lake)] == [None, {"id": 7}]
    assert run.result.left_out == 2


def test_a_raw_archive_has_the_columns_as_ever(orders: Topic) -> None:
    options = task_options(topic_options(orders.config, [orders.name], None))
    assert (options.rows, file_schema(options)) == ("ranges", SCHEMA)


# --- whole runs ---


def test_an_archive_keeps_its_schema_until_an_upgrade(
    spark: SparkSession, orders: Topic, lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    def run(**more: str) -> Any:
        options = orders.options(**more)
        return archive(orders.config, lake, topics=[orders.name], session=spark, options=options)

    assert run().records == 3
    orders.produce(*orders.encode(NEWER, NEWER_ORDERS))
    assert run().records == 2
    assert rows_of(lake)[3]["value"] == VALUES[0]
    with caplog.at_level(logging.WARNING, "kafka_native.spark"):
        assert run(value_schema_upgrade="true").records == 0
    assert "added note string" in caplog.text
    orders.produce(*orders.encode(NEWER, NEWER_ORDERS))
    assert run().records == 2
    assert [row["value"] and row["value"].get("note") for row in rows_of(lake)] == [
        *[None] * 5,
        *("x", "y"),
    ]
    frame = spark.read.option("mergeSchema", "true").parquet(*lake.paths())
    found = frame.where("value.note is not null").select("value.*").orderBy("id").collect()
    assert [(row.id, row.note) for row in found] == [(1, "x"), (2, "y")]
    newest = {**NEWER, "fields": [*NEWER["fields"], {"name": "x", "type": "int", "default": 0}]}  # type: ignore[misc]
    newest_orders = NEWER_ORDERS.append_column("x", pa.array([1, 2], pa.int32()))
    orders.config["bootstrap.servers"] += ",127.0.0.1:1"  # the same checkpoint
    orders.produce(b"bad", *orders.encode(newest, newest_orders))
    with pytest.raises(PipelineError, match="at offset 7: its value doesn't decode"):
        run()
    done = run(mode="DROPMALFORMED")
    assert (done.records, done.left_out) == (2, 1)
    assert "x" not in [each.name for each in lake.dataset().schema.field("value").type]
    assert lake.gaps() == []


def test_command(spark: SparkSession, orders: Topic, lake: Lake, tmp_path: Path) -> None:
    orders.produce(b"bad")
    words = ["--bootstrap", orders.config["bootstrap.servers"], "--topics", orders.name]
    words += ["--lake", lake.root]
    registry = ["-X", f"schema.registry.url={orders.registry.url}"]
    environment = {"SCHEMA_REGISTRY_URL": orders.registry.url}
    raw = CliRunner(env=environment).invoke(
        archive_command.command, [*words, *registry, "--dry-run"]
    )
    assert raw.exit_code == 0, raw.output
    words += ["--value-format", "avro"]
    missing = CliRunner().invoke(archive_command.command, words)
    assert missing.exit_code == 1
    assert "option schema.registry.url: it is missing" in missing.output
    words += ["-r", orders.registry.url, "-X", "schema.registry.timeout=10"]
    unknown = [*words, "--dry-run", "--value-subject", "none"]
    refused = CliRunner().invoke(archive_command.command, unknown)
    assert "the registry doesn't return none" in refused.output
    planned = CliRunner().invoke(archive_command.command, [*words, "--dry-run"])
    assert (planned.exit_code, "4 offsets" in planned.output) == (0, True), planned.output
    failed = CliRunner().invoke(archive_command.command, words)
    assert failed.exit_code == 1
    assert "at offset 3: its value doesn't decode" in failed.output
    dead = f"{tmp_path}/dead"
    done = CliRunner().invoke(
        archive_command.command, [*words, "--dead-letters", dead, "--columns", "value.id"]
    )
    assert done.exit_code == 0, done.output
    assert "1 records: dead letters in" in " ".join(done.output.split())
    assert [row["value"] for row in rows_of(lake)] == [{"id": 1}, {"id": 2}, None]


def test_command_options_need_a_format(tmp_path: Path) -> None:
    words = ["--bootstrap", "127.0.0.1:1", "--pattern", "a", "--lake", str(tmp_path / "lake")]
    named = CliRunner().invoke(archive_command.command, [*words, "--value-format", "xml"])
    assert named.exit_code == 2
    for more, text in (
        (["--mode", "failfast"], "option mode: it needs value.format"),
        (["-r", "http://127.0.0.1:1"], "option schema.registry.url: it needs value.format"),
        (["--value-subject", "a"], "option value.subject: it needs value.format"),
        (["--dead-letters", "dead"], "option deadLetters: it needs value.format"),
        (
            ["--key-format", "avro", "-r", "http://127.0.0.1:1"],
            "option key.subject: the query doesn't name exactly one topic",
        ),
    ):
        done = CliRunner().invoke(archive_command.command, [*words, *more])
        assert (done.exit_code, text in done.output) == (1, True), done.output


# --- Spark's own connector and functions as witnesses ---

HASHED = {
    "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}
"""Options of to_json, so that each text has the whole value."""


def hashes(frame: DataFrame) -> list[Row]:
    """Return the hash of each value, with its place."""
    whole = sha2(to_json("value", HASHED), 256)
    return sorted(frame.select("partition", "offset", whole).collect())


def same_values(values: Any) -> list[Any]:
    """Return values of any reader in one form: maps as dicts, and times in UTC."""
    return [_same(each, "") for each in values]


def _same(value: Any, name: str) -> Any:
    if name == "tags" and isinstance(value, list):  # a map
        pairs = [each.values() if isinstance(each, dict) else each for each in value]
        return dict(map(tuple, pairs))
    if isinstance(value, dict):
        return {key: _same(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_same(each, "") for each in value]
    if isinstance(value, datetime) and name != "local":
        return value.astimezone(timezone.utc)
    return bytes(value) if isinstance(value, bytearray) else value


def archived(session: SparkSession, apache: Cluster, topic: str, lake: Lake, **typed: str) -> None:
    options = {name.replace("_", "."): value for name, value in typed.items()}
    config = {"bootstrap.servers": apache.bootstrap}
    archive(config, lake, topics=[topic], session=session, options=options)


def theirs(session: SparkSession, apache: Cluster, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": apache.bootstrap, "subscribe": topic}
    return session.read.format("kafka").options(**options).load()


@pytest.mark.broker
def test_files_have_the_values_of_from_avro(
    connected: SparkSession,
    apache: Cluster,
    new_topic: TopicMaker,
    registry: MockSchemaRegistry,
    lake: Lake,
) -> None:
    from pyspark.sql.avro.functions import from_avro

    topic = new_topic(apache, 2)
    records = encoded(registry, topic, NESTED, nested_rows(2000))
    real(apache).produce(
        topic, [*({"value": each, "partition": n % 2} for n, each in enumerate(records)), {}]
    )
    archived(connected, apache, topic, lake, value_format="avro", schema_registry_url=registry.url)
    schema = json.dumps(NESTED).replace('"logicalType": "time-micros"', '"x": ""')
    witness = theirs(connected, apache, topic).select(
        "partition", "offset", from_avro(expr("substring(value, 6)"), schema).alias("value")
    )
    ours = connected.read.parquet(*lake.paths())
    assert ours.select("value").schema.simpleString() == (
        witness.select("value").schema.simpleString()
    )
    assert len(hashes(ours)) == 2001
    assert hashes(ours) == hashes(witness)
    collected = witness.orderBy("partition", "offset").collect()
    wanted = same_values(row.asDict(recursive=True)["value"] for row in collected)
    order = ["partition", "offset"]
    table = lake.dataset().to_table().sort_by([(name, "ascending") for name in order])
    assert same_values(table["value"].to_pylist()) == wanted
    frame = pl.concat(pl.read_parquet(path) for path in lake.paths()).sort(order)
    assert same_values(frame["value"].to_list()) == wanted
    query = f'select value from read_parquet({lake.paths()}) order by partition, "offset"'
    assert same_values(row[0] for row in duckdb.sql(query).fetchall()) == wanted


@pytest.mark.broker
@pytest.mark.skipif(not codec_core.HAS_JSON, reason="this build has no simdjson")
def test_files_have_the_values_of_from_json(
    connected: SparkSession, apache: Cluster, new_topic: TopicMaker, lake: Lake
) -> None:
    topic = new_topic(apache, 2)
    real(apache).produce(topic, ({"value": json_order(n), "partition": n % 2} for n in range(2000)))
    kind = StructType.fromDDL(JSON_ORDER)
    archived(connected, apache, topic, lake, value_format="json", value_schema=kind.json())
    witness = theirs(connected, apache, topic).select(
        "partition", "offset", from_json(expr("cast(value as string)"), kind).alias("value")
    )
    found = hashes(connected.read.parquet(*lake.paths()))
    assert len(found) == 2000
    assert found == hashes(witness)
