"""Dead letters of sinks: rows that can't be written, in a folder and in a topic."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.functions import from_json

from kafka_native import KafkaError, KafkaException, Producer
from kafka_native.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.spark import by_partition, exactly_once, producers, sink_dead_letters
from kafka_native.spark.commands import cli
from kafka_native.spark.dead_letters import HEADERS, UNFINISHED
from kafka_native.spark.errors import DeadLetterError, OptionError, PipelineError
from kafka_native.spark.options import SinkOptions
from kafka_native.spark.pipelines import dead_letter_files, replay_dead_letters
from kafka_native.spark.sink_dead_letters import ROW_ERRORS, ROW_HEADER, RowLetters
from kafka_native.spark.writers import WriteError, Written, batch_writer, stream_writer
from tests.spark.micro_batches import TypedBatches, seen, task_context
from tests.spark.streams import completed
from tests.spark.support import FORMAT, needs_stream_writer
from tests.spark.typed_topics import spark_type
from tests.waiting import WAIT_S

NUMBER = json.dumps({
    "type": "record", "name": "Reading", "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "record", "name": "At", "fields": [
            {"name": "city", "type": "string"}]}}],
})  # fmt: skip
AT = pa.struct([("city", pa.string())])
SMALL = {"kafka.max.request.size": "1000"}


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    """Yield a broker with topics, without producers of earlier tests."""
    with MockCluster(brokers=1, auto_create_topics=False) as running:
        running.create_topic("t", 3)
        running.create_topic("dead", 2)
        sink_dead_letters._checked.clear()
        yield running
        producers.close_idle()


def options_of(cluster: MockCluster, target: str | Path, **more: str) -> dict[str, str]:
    """Return the options of a sink. An option's name has underscores in place of dots."""
    options = {name.replace("_", "."): value for name, value in more.items()}
    quick = {"kafka.topic.metadata.propagation.max.ms": "300", "deadLetters": str(target)}
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers, **quick, **options}


def write(options: dict[str, str], *tasks: pa.Table) -> list[Written]:
    """Write tables as the tasks of a batch query, and commit as the driver."""
    made = batch_writer(CaseInsensitiveDict(options), spark_type(tasks[0].schema), False)
    messages = []
    for number, rows in enumerate(tasks):
        writer = pickle.loads(CloudPickleSerializer().dumps(made))
        with task_context(number, None, 0):
            messages.append(writer.write(iter(rows.to_batches())))
    made.commit(messages)
    return messages


def letters_in(folder: Path) -> list[dict[str, Any]]:
    """Return the dead letters of a folder."""
    paths = sorted(folder.glob("*.parquet"))
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def values(cluster: MockCluster, topic: str = "t", partitions: int = 3) -> list[bytes | None]:
    found = [each for number in range(partitions) for each in cluster.messages(topic, number)]
    return [each.value for each in found]


def test_rows_that_no_topic_takes_are_dead_letters(
    cluster: MockCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A row is too large, names no topic, a missing one, or a missing partition."""
    caplog.set_level("INFO", "kafka_native.spark")
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = pa.table({
        "topic": ["t", "t", None, "nowhere", "t", "t", "t"],
        "value": [b"1", b"x" * 2000, b"3", b"4", b"5", b"6", b"7"],
        "key": pa.array([None, b"k", None, None, None, None, None], pa.binary()),
        "partition": pa.array([0, 1, 0, None, 9, -1, 0], pa.int32()),
        "headers": pa.array([None, [("a", b"1")], *[None] * 4, [(None, b"1")]], header),
    })  # fmt: skip
    [written] = write(options_of(cluster, tmp_path, **SMALL), rows)
    assert (written.rows, written.dead) == (1, 6)
    assert values(cluster) == [b"1"]
    found = {row["value"]: row for row in letters_in(tmp_path)}
    assert set(found) == {b"x" * 2000, b"3", b"4", b"5", b"6", b"7"}
    large = found[b"x" * 2000]
    assert large.pop("error").startswith("a row is larger than kafka.max.request.size=1000 (MSG_")
    assert large.pop("timestamp").year >= 2024
    assert large.pop("value")
    assert large == {
        "topic": "t",
        "partition": 1,
        "offset": None,
        "timestamp_type": None,
        "key": b"k",
        "headers": [{"key": "a", "value": b"1"}],
        "field": None,
        "schema_id": None,
        "schema_guid": None,
        "path": None,
        "position": None,
        "row": None,
    }
    assert (found[b"3"]["topic"], found[b"3"]["error"]) == (None, "column topic is null")
    assert (found[b"4"]["topic"], found[b"4"]["partition"]) == ("nowhere", None)
    assert "UNKNOWN_TOPIC" in found[b"4"]["error"]
    assert "UNKNOWN_PARTITION" in found[b"5"]["error"]
    assert "column partition has -1" in found[b"6"]["error"]
    assert "header" in found[b"7"]["error"]
    assert not list((tmp_path / UNFINISHED).iterdir())
    [line] = [each for each in caplog.messages if "bytes" in each]
    assert ": 1 rows written, " in line
    assert line.endswith(" s, 6 dead letters")
    assert f"6 rows are dead letters in {tmp_path}; the first: " in caplog.text
    assert "1 rows and 6 dead letters written by 1 tasks" in caplog.messages


def test_rows_that_dont_encode_are_kept_as_json(cluster: MockCluster, tmp_path: Path) -> None:
    cities = [{"city": "a"}, {"city": None}, {"city": "c"}, None, {"city": "x" * 2000}]
    rows = pa.table({"id": [1, 2, None, 4, 5], "at": pa.array(cities, AT), "key": list("abcde")})
    typed = {"topic": "t", "value_format": "avro", "value_schema": NUMBER, **SMALL}
    [written] = write(options_of(cluster, tmp_path, **typed), rows)
    assert (written.rows, written.dead) == (1, 4)
    second, third, fourth, large = sorted(letters_in(tmp_path), key=lambda row: row["key"])
    assert json.loads(second["row"]) == {"id": 2, "at": {"city": None}}
    assert json.loads(third["row"]) == {"id": None, "at": {"city": "c"}}
    assert json.loads(fourth["row"]) == {"id": 4, "at": None}
    places = [(each["field"], each["path"]) for each in (second, third, fourth)]
    assert places == [("value", "at.city"), ("value", "id"), ("value", "at")]
    assert second["error"] == "the schema doesn't allow null here"
    assert [each["value"] for each in (second, third, fourth)] == [None] * 3
    assert (second["topic"], second["key"]) == ("t", b"b")
    # A row that encodes has its bytes.
    assert (large["row"], large["field"]) == (None, None)
    assert large["value"].endswith(b"x" * 2000)
    assert large["value"][0] == 10


def test_keys_and_values_of_bad_rows(cluster: MockCluster, tmp_path: Path) -> None:
    """The key is encoded, too: a row that doesn't encode has both in its JSON."""
    rows = pa.table({
        "value": pa.array([{"id": 1, "at": {"city": "a"}}, {"id": None, "at": {"city": "a"}},
                           {"id": 3, "at": {"city": "a"}}, None],
                          pa.struct([("id", pa.int64()), ("at", AT)])),
        "key": pa.array([1, 2, 1 << 40, 4]),
    })  # fmt: skip
    typed = {"topic": "t", "value_format": "avro", "value_schema": NUMBER}
    typed |= {"key_format": "avro", "key_schema": '"int"'}
    [written] = write(options_of(cluster, tmp_path, **typed), rows)
    assert (written.rows, written.dead) == (2, 2)
    first, second = letters_in(tmp_path)
    assert (first["field"], first["path"], first["key"]) == ("value", "id", None)
    assert json.loads(first["row"]) == {"value": {"id": None, "at": {"city": "a"}}, "key": 2}
    assert (second["field"], second["path"]) == ("key", None)
    assert json.loads(second["row"])["key"] == 1 << 40


def test_a_number_out_of_range_is_a_dead_letter(cluster: MockCluster, tmp_path: Path) -> None:
    """The conversion of a whole column fails: halves of it are tried."""
    proto = tmp_path / "n.proto"
    proto.write_text('syntax = "proto3"; message N { uint64 n = 1; }')
    numbers = [Decimal(number) for number in range(40)]
    numbers[7] = numbers[31] = Decimal(-1)
    rows = pa.table({"n": pa.array(numbers, pa.decimal128(20, 0))})
    typed = {"topic": "t", "value_format": "protobuf", "value_schema": proto.read_text()}
    [written] = write(options_of(cluster, tmp_path / "dead", **typed), rows)
    assert (written.rows, written.dead) == (38, 2)
    assert [json.loads(each["row"]) for each in letters_in(tmp_path / "dead")] == [{"n": "-1"}] * 2


@pytest.mark.parametrize("broken", ["a", "bcd", "abcd"])
def test_records_that_the_broker_refuses(cluster: MockCluster, tmp_path: Path, broken: str) -> None:
    """A compacted topic takes no record without a key. The others of its batch are written."""
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        topic = NewTopic("compacted", 1, config={"cleanup.policy": "compact"})
        admin.create_topics([topic])["compacted"].result(WAIT_S)
    keys = [None if each in broken else each for each in "abcd"]
    rows = pa.table({"value": list("abcd"), "key": pa.array(keys, pa.string())})
    [written] = write(options_of(cluster, tmp_path, topic="compacted"), rows)
    assert (written.rows, written.dead) == (4 - len(broken), len(broken))
    good = [each.encode() for each in "abcd" if each not in broken]
    assert values(cluster, "compacted", 1) == good
    letters = letters_in(tmp_path)
    assert sorted(each["value"] for each in letters) == [each.encode() for each in broken]
    assert all("INVALID_RECORD" in each["error"] for each in letters)


def test_a_topic_has_rows_with_their_context(cluster: MockCluster) -> None:
    rows = pa.table({"id": [1, None], "at": pa.array([{"city": "a"}] * 2, AT), "key": ["a", "b"]})
    typed = {"topic": "t", "value_format": "avro", "value_schema": NUMBER}
    [written] = write(options_of(cluster, "dead", **typed), rows)
    assert (written.rows, written.dead, written.letters) == (1, 1, ())
    [letter] = [each for number in (0, 1) for each in cluster.messages("dead", number)]
    assert (letter.key, json.loads(letter.value or b"")) == (
        b"b",
        {"id": None, "at": {"city": "a"}},
    )
    headers = dict(letter.headers)
    assert headers.pop(HEADERS["timestamp"]).isdigit()
    assert headers == {
        HEADERS["topic"]: b"t",
        HEADERS["field"]: b"VALUE_CONVERTER",
        HEADERS["error"]: b"the schema doesn't allow null here",
        HEADERS["path"]: b"id",
        ROW_HEADER: b"row",
    }
    large = pa.table({"value": [b"x" * 2000]})
    roomy = {"deadLetters_kafka_max_request_size": "1000000"}
    [written] = write(options_of(cluster, "dead", topic="t", **SMALL, **roomy), large)
    assert (written.rows, written.dead) == (0, 1)
    letter = max(
        (each for number in (0, 1) for each in cluster.messages("dead", number)),
        key=lambda each: len(each.value or b""),
    )
    assert letter.value == b"x" * 2000
    assert dict(letter.headers)[HEADERS["field"]] == b"KAFKA_PRODUCE"
    assert ROW_HEADER not in dict(letter.headers)


def test_a_topic_that_takes_no_dead_letter_fails_the_task(cluster: MockCluster) -> None:
    rows = pa.table({"value": [b"x" * 2000]})
    with pytest.raises(DeadLetterError, match=r"topic dead: .*message\.max\.bytes"):
        write(options_of(cluster, "dead", topic="t", **SMALL), rows)


def test_which_errors_are_a_rows_own() -> None:
    """The table, and where it counts."""
    codes = {getattr(KafkaError, name) for name in dir(KafkaError) if name.strip("_").isupper()}
    codes = {each for each in codes if isinstance(each, int)}
    assert len(codes) > 150

    def own(**columns: str) -> set[str]:
        options = SinkOptions.parse(
            {"kafka.bootstrap.servers": "x:1", "deadLetters": "/d", **columns}
        )
        letters = RowLetters(options, "p")
        return {KafkaError(each).name() for each in codes if letters.takes(KafkaError(each))}

    everywhere = {"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD"}
    assert own(topic="t") == everywhere | {"_UNKNOWN_PARTITION"}
    named = {"TOPIC_EXCEPTION", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"}
    assert own() == everywhere | named | {"_UNKNOWN_PARTITION"}
    options = SinkOptions.parse({"kafka.bootstrap.servers": "x:1", "deadLetters": "/d"})
    replayed = RowLetters(options, "p", has_timestamps=True)
    assert {each for each in codes if replayed.takes(KafkaError(each))} == set(ROW_ERRORS)
    assert set(ROW_ERRORS) - {KafkaError.INVALID_TIMESTAMP} == {
        each for each in codes if RowLetters(options, "p").takes(KafkaError(each))
    }


@pytest.mark.parametrize(
    "code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.POLICY_VIOLATION]
)
def test_other_errors_fail_the_task(cluster: MockCluster, tmp_path: Path, code: int) -> None:
    cluster.push_request_errors(ApiKey.PRODUCE, [code], topic="t")
    with pytest.raises(WriteError, match=r"of 2 rows weren't written; the first: topic t"):
        write(options_of(cluster, tmp_path, topic="t"), pa.table({"value": ["a", "b"]}))
    assert letters_in(tmp_path) == []


def test_a_missing_topic_of_all_rows_fails_the_task(cluster: MockCluster, tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="topic nowhere doesn't exist"):
        write(options_of(cluster, tmp_path, topic="nowhere"), pa.table({"value": ["a"]}))


def test_without_the_option_a_bad_row_fails_the_task(cluster: MockCluster, tmp_path: Path) -> None:
    options = options_of(cluster, tmp_path, topic="t", value_format="avro", value_schema=NUMBER)
    del options["deadLetters"]
    with pytest.raises(WriteError, match=r"row 1, field value\.id: "):
        write(options, pa.table({"id": [1, None], "at": pa.array([{"city": "a"}] * 2, AT)}))


# --- the driver ---


BAD = pa.table({"value": ["a", "x" * 2000]})
GOOD = pa.table({"value": ["a", "b"]})


def test_a_batch_query_makes_one_file(cluster: MockCluster, tmp_path: Path) -> None:
    options = options_of(cluster, tmp_path, topic="t", **SMALL)
    assert [each.dead for each in write(options, BAD, GOOD, BAD)] == [1, 0, 1]
    assert len(list(tmp_path.glob("*.parquet"))) == 1
    assert len(letters_in(tmp_path)) == 2
    write(options, BAD)  # another query has a file of its own
    assert len(list(tmp_path.glob("*.parquet"))) == 2
    write(options, GOOD)
    assert len(letters_in(tmp_path)) == 3
    assert not list((tmp_path / UNFINISHED).iterdir())


def test_a_failed_query_leaves_no_file(cluster: MockCluster, tmp_path: Path) -> None:
    options = options_of(cluster, tmp_path, topic="t", **SMALL)
    made = batch_writer(CaseInsensitiveDict(options), spark_type(BAD.schema), False)
    written = made.write(iter(BAD.to_batches()))
    [part] = written.letters
    assert (tmp_path / part).exists()
    made.abort([written, None])
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


@needs_stream_writer
def test_a_repeated_micro_batch_replaces_its_file(cluster: MockCluster, tmp_path: Path) -> None:
    """Also with other tasks, and if an attempt was killed before the driver's commit."""
    stream = TypedBatches(options_of(cluster, tmp_path, topic="t", **SMALL))
    stream.run(7, BAD, BAD)
    stream.run(8, BAD)
    stream.run(8, BAD, BAD, GOOD, commits=False)
    stream.run(8, GOOD, BAD)
    names = sorted(each.name for each in tmp_path.glob("*.parquet"))
    assert names == ["q-0000000007.parquet", "q-0000000008.parquet"]
    assert [len(pq.read_table(tmp_path / each)) for each in names] == [2, 1]
    assert not list((tmp_path / UNFINISHED).iterdir())
    stream.run(8, GOOD)
    assert [each.name for each in tmp_path.glob("*.parquet")] == names[:1]
    stream.run(7, BAD, query="another")  # a new checkpoint
    assert len(letters_in(tmp_path)) == 3


def test_a_missing_target_ends_the_query_before_a_task_starts(
    cluster: MockCluster, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for make in (batch_writer, lambda *given: pickle.dumps(stream_writer(*given))):
        options: Any = options_of(cluster, tmp_path / "file" / "dead", topic="t")
        with pytest.raises(OptionError, match="deadLetters: no folder"):
            make(options, spark_type(GOOD.schema), False)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"deadLetters": ""}, "it is missing: write a topic or a folder"),
        ({"deadLetters.kafka.acks": "1"}, "it is missing: write a topic or a folder"),
        ({"deadLetters": "dead letters"}, "'dead letters' is neither"),
        ({"deadLetters": "t"}, "the rows go to topic t themselves: write another"),
    ],
)
def test_an_impossible_target_is_refused(options: dict[str, str], text: str) -> None:
    base = {"kafka.bootstrap.servers": "localhost:1", "topic": "t"}
    with pytest.raises(OptionError, match="option deadLetters: .*" + text):
        SinkOptions.parse({**base, **options})


def test_every_value_of_spark_has_a_json_form() -> None:
    late = pa.array([1 << 62], pa.timestamp("us", "UTC"))[0]
    found = [
        (pa.scalar(b"\xff", pa.binary()), "/w=="),
        (pa.scalar(Decimal("1.50"), pa.decimal128(10, 2)), "1.50"),
        (pa.scalar(math.nan), "NaN"),
        (pa.scalar(-math.inf), "-Infinity"),
        (pa.scalar(1.5), 1.5),
        (pa.scalar(date(2026, 1, 2)), "2026-01-02"),
        (
            pa.scalar(datetime(2026, 1, 2, 3, 4, 5, 6, timezone.utc), pa.timestamp("us", "UTC")),
            "2026-01-02T03:04:05.000006+00:00",
        ),
        (late, 1 << 62),
        (pa.scalar(3, pa.duration("us")), 3),
        (pa.scalar([1, None], pa.list_(pa.int32())), [1, None]),
        (pa.scalar([("a", 1)], pa.map_(pa.string(), pa.int32())), {"a": 1}),
        (pa.scalar(None, pa.string()), None),
    ]
    for value, wanted in found:
        assert json.loads(json.dumps(sink_dead_letters._json_value(value))) == wanted
        # Rows with simple values take a shorter way.
        row = (
            pa.StructArray.from_arrays([pa.array([value.as_py()], value.type)], names=["x"])
            if (value is not late)
            else pa.StructArray.from_arrays([pa.array([1 << 62], value.type)], names=["x"])
        )
        assert list(map(json.loads, sink_dead_letters._json_texts(row))) == [{"x": wanted}]


# --- replay ---


def config(cluster: MockCluster) -> dict[str, str]:
    return {"bootstrap.servers": cluster.bootstrap_servers}


def test_replay_produces_refused_rows_after_a_fix(cluster: MockCluster, tmp_path: Path) -> None:
    rows = pa.table({
        "topic": ["t", "t", "later"],
        "value": [b"x" * 2000, b"y" * 3000, b"3"],
        "key": [b"k", None, b"3"],
        "partition": pa.array([2, -1, None], pa.int32()),
    })  # fmt: skip
    write(options_of(cluster, tmp_path, **SMALL), rows)
    with pytest.raises(PipelineError, match="topic later doesn't exist: make it first"):
        replay_dead_letters(config(cluster), tmp_path)
    cluster.create_topic("later", 1)
    done = replay_dead_letters(config(cluster), tmp_path)
    assert (done.files, done.records, done.rows_left) == (1, 3, 0)
    assert done.targets == ("later", "t")
    assert (b"k", b"x" * 2000) in [(each.key, each.value) for each in cluster.messages("t", 2)]
    assert sorted(values(cluster)) == [b"x" * 2000, b"y" * 3000]  # type: ignore[type-var]
    [later] = cluster.messages("later", 0)
    assert dict(later.headers) == {"__kafka_native.replayed.topic": b"later"}
    assert dead_letter_files(tmp_path) == []


def test_replay_of_chosen_topics_leaves_the_other_rows_of_a_file(
    cluster: MockCluster, tmp_path: Path
) -> None:
    cluster.create_topic("later", 1)
    rows = pa.table({
        "topic": ["t", None, "later", "t", "gone"],
        "value": [b"a" * 2000, b"b", b"c" * 2000, b"d" * 2000, b"e" * 2000],
    })  # fmt: skip
    write(options_of(cluster, tmp_path, **SMALL), rows)
    [file] = dead_letter_files(tmp_path)
    [chosen] = dead_letter_files(tmp_path, ["t", "other"])
    assert (file.records, file.topic, file.others) == (5, "", 0)
    assert (chosen.records, chosen.topic, chosen.others) == (2, "t", 3)
    assert dead_letter_files(tmp_path, ["other"]) == []
    for topic, records in (("t", 2), ("t", 0), ("later", 1)):
        done = replay_dead_letters(config(cluster), tmp_path, topics=[topic])
        assert (done.records, done.rows_left) == (records, 0)
    assert sorted(each[:1] for each in values(cluster) if each) == [b"a", b"d"]
    assert len(cluster.messages("later", 0)) == 1
    left = [row["value"][:1] for row in letters_in(tmp_path)]
    assert left == [b"b", b"e"]
    assert replay_dead_letters(config(cluster), tmp_path, topic="t").records == 2
    assert dead_letter_files(tmp_path) == []


def test_replay_leaves_rows_that_dont_encode(cluster: MockCluster, tmp_path: Path) -> None:
    cities = [{"city": None}, {"city": "x" * 2000}, {"city": None}]
    rows = pa.table({"id": [1, 2, 3], "at": pa.array(cities, AT)})
    typed = {"topic": "t", "value_format": "avro", "value_schema": NUMBER, **SMALL}
    [written] = write(options_of(cluster, tmp_path, **typed), rows)
    assert written.dead == 3
    run = ["replay", "--bootstrap", cluster.bootstrap_servers, "--dead-letters", str(tmp_path)]
    done = CliRunner().invoke(cli, [*run, "--dry-run"])
    assert "3 dead letters in 2 files, 2 of them rows that don't encode;" in done.output
    done = CliRunner().invoke(cli, run)
    assert done.exit_code == 0, done.output
    assert "2 rows that don't encode" in done.output
    [value] = values(cluster)
    assert (value or b"").endswith(b"x" * 2000)
    [left] = dead_letter_files(tmp_path)
    assert (left.is_encoded, left.records, left.topic) == (False, 2, "t")
    done = CliRunner().invoke(cli, run)
    assert done.exit_code == 1
    assert "2 rows" in done.output
    assert "write them again with Spark" in done.output


def test_rows_without_a_topic_need_one(cluster: MockCluster, tmp_path: Path) -> None:
    rows = pa.table({"topic": pa.array([None, "t"]), "value": ["a", "b"]})
    write(options_of(cluster, tmp_path), rows)
    with pytest.raises(PipelineError, match="rows without a topic: say where to with topic"):
        replay_dead_letters(config(cluster), tmp_path)
    assert replay_dead_letters(config(cluster), tmp_path, topic="t").records == 1
    assert sorted(values(cluster)) == [b"a", b"b"]  # type: ignore[type-var]


def test_a_header_without_a_key_is_refused_again(cluster: MockCluster, tmp_path: Path) -> None:
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = pa.table({"value": ["a"], "headers": pa.array([[(None, b"1")]], header)})
    for target in (tmp_path, "dead"):
        [written] = write(options_of(cluster, target, topic="t"), rows)
        assert written.dead == 1
    assert len(values(cluster, "dead", 2)) == 1
    with pytest.raises(PipelineError, match=r"a record can't be produced: .*header"):
        replay_dead_letters(config(cluster), tmp_path)


# --- Spark ---


def test_a_frame_and_its_rows_after_a_fix(
    spark: SparkSession, cluster: MockCluster, tmp_path: Path
) -> None:
    """The rows that don't encode go back through ``from_json``, as the guide shows."""
    frame = spark.sql(
        "SELECT IF(id % 4 = 0, null, id) AS id, named_struct('city', 'c') AS at, "
        "CAST(id AS string) AS key FROM range(0, 20, 1, 3)"
    )
    typed = {"topic": "t", "value_format": "avro", "value_schema": NUMBER}
    options = options_of(cluster, tmp_path, **typed)
    frame.write.format(FORMAT).options(**options).mode("append").save()
    assert len(values(cluster)) == 15
    letters = spark.read.parquet(str(tmp_path))
    assert letters.where("row IS NOT NULL").count() == letters.count() == 5
    kind = "id bigint, at struct<city:string>"
    rows = letters.select(from_json("row", kind).alias("row"), "key").select("row.*", "key")
    repaired = rows.na.fill(-1, ["id"])
    repaired.write.format(FORMAT).options(**options).mode("append").save()
    assert len(values(cluster)) == 20
    keys = [each.key for number in range(3) for each in cluster.messages("t", number)]
    assert sorted(keys) == sorted(str(number).encode() for number in range(20))


def test_a_stream_stores_dead_letters(
    spark: SparkSession, cluster: MockCluster, tmp_path: Path
) -> None:
    """Each micro-batch has a file; a batch that runs again replaces it."""

    def add(*numbers: int) -> None:
        rows = [(str(each) * (1 if each % 3 else 2000),) for each in numbers]
        frame = spark.createDataFrame(rows, "value string").coalesce(1)
        frame.write.mode("append").parquet(str(tmp_path / "source"))

    def run(target: str | Path) -> None:
        source = spark.readStream.schema("value string").parquet(str(tmp_path / "source"))
        writer = source.writeStream.format(FORMAT).options(**options_of(cluster, target, **small))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = completed(lambda: writer.trigger(availableNow=True).start())
        assert query.exception() is None

    small = {"topic": "t", **SMALL}
    folder = tmp_path / "dead"
    add(1, 2, 3)
    run(folder)
    add(4, 5, 6, 9)
    run(folder)
    assert [len(pq.read_table(each)) for each in sorted(folder.glob("*.parquet"))] == [1, 2]
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    run(folder)
    assert [len(pq.read_table(each)) for each in sorted(folder.glob("*.parquet"))] == [1, 2]
    assert {row["value"][:1] for row in letters_in(folder)} == {b"3", b"6", b"9"}
    assert {len(each or b"") for each in values(cluster)} == {1}


# --- exactly once ---


@pytest.fixture(params=[1, 2])
def transactional(request: pytest.FixtureRequest) -> Iterator[MockCluster]:
    """Yield a cluster with either version of transactions."""
    with MockCluster(
        brokers=2, auto_create_topics=False, transaction_version=request.param
    ) as running:
        running.create_topic("t", 3)
        running.create_topic("dead", 2)
        sink_dead_letters._checked.clear()
        yield running
        producers.close_idle()
        exactly_once.close_idle()


def transaction_options(cluster: MockCluster, target: str | Path, **more: str) -> dict[str, str]:
    quick = {"kafka_retry_backoff_ms": "10", "kafka_transactional_id": "tx"}
    return options_of(cluster, target, topic="t", **quick, **more)


def rows_of(*values: str | None, size: int = 2000) -> pa.Table:
    """Return rows for partition 0. The ones with an ``x`` are too large."""
    texts = [each and each.replace("x", "x" * size) for each in values]
    return pa.table({"value": texts, "partition": pa.array([0] * len(texts), pa.int32())})


def committed(cluster: MockCluster, topic: str, partitions: int) -> list[str]:
    found = seen(cluster.bootstrap_servers, topic, partitions)
    return [value for values in found.values() for value in values]


@needs_stream_writer
def test_dead_letters_for_a_topic_are_in_the_transaction(transactional: MockCluster) -> None:
    options = transaction_options(transactional, "dead", kafka_max_request_size="1000000")
    set_max_message_bytes(transactional, 1500)
    stream = TypedBatches(options)
    stream.run(0, rows_of("a", "x", "b", "c"), other(rows_of("d", "x1", "x2")))
    assert sorted(committed(transactional, "t", 3)) == ["a", "b", "c", "d"]
    assert sorted(map(len, committed(transactional, "dead", 2))) == [2000, 2001, 2001]
    stream.run(1, rows_of("x"), commits=False)  # killed before its commit
    stream.run(1, rows_of("x", "e"))
    stream.run(1, rows_of("x", "e"))  # it is committed already
    assert sorted(committed(transactional, "t", 3)) == ["a", "b", "c", "d", "e"]
    assert len(committed(transactional, "dead", 2)) == 4
    stream.run(2, rows_of("x"))  # nothing but dead letters
    stream.run(2, rows_of("x"))
    assert len(committed(transactional, "dead", 2)) == 5


def other(rows: pa.Table) -> pa.Table:
    """Return rows for partition 1: each task has its own partition."""
    return rows.set_column(1, "partition", pa.array([1] * len(rows), pa.int32()))


def set_max_message_bytes(cluster: MockCluster, size: int) -> None:
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        set_ = AlterConfigOpType.SET
        entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=set_)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "t", incremental_configs=[entry])
        [future] = admin.incremental_alter_configs([resource]).values()
        future.result(WAIT_S)


@needs_stream_writer
@pytest.mark.parametrize("in_flight", ["1", "5"])
def test_records_that_the_broker_refuses_dont_end_the_transaction(
    transactional: MockCluster, tmp_path: Path, in_flight: str
) -> None:
    """Many small batches are in flight when some of them are refused."""
    set_max_message_bytes(transactional, 1500)
    options = transaction_options(
        transactional,
        tmp_path,
        kafka_max_request_size="1000000",
        kafka_max_in_flight_requests_per_connection=in_flight,
        kafka_batch_num_messages="3",
    )
    numbers = range(200)
    texts = [f"{each}x" if each % 17 in (0, 5, 6) else str(each) for each in numbers]
    stream = TypedBatches(options)
    stream.run(0, rows_of(*texts))
    good = [each for each in texts if "x" not in each]
    assert committed(transactional, "t", 3) == good
    stream.run(1, rows_of("end"))
    assert committed(transactional, "t", 3) == [*good, "end"]
    assert len(letters_in(tmp_path)) == len(texts) - len(good)
    assert all("MSG_SIZE_TOO_LARGE" in each["error"] for each in letters_in(tmp_path))


@needs_stream_writer
def test_files_are_published_before_the_commit(transactional: MockCluster, tmp_path: Path) -> None:
    """After it the micro-batch isn't repeated, so they would be lost."""
    stream = TypedBatches(transaction_options(transactional, tmp_path, **SMALL_))
    stream.run(0, rows_of("a", "x"))
    stream.run(0, rows_of("a", "x"))  # Spark has not recorded it: its tasks write nothing
    assert len(letters_in(tmp_path)) == 1
    assert committed(transactional, "t", 3) == ["a"]
    stream.run(1, rows_of("x", "x"), commits=False)
    assert len(letters_in(tmp_path)) == 1
    stream.run(1, rows_of("b", "x"))
    assert len(letters_in(tmp_path)) == 2
    assert not list((tmp_path / UNFINISHED).iterdir())


SMALL_ = {"kafka_max_request_size": "1000"}


@needs_stream_writer
def test_rows_for_missing_partitions_are_dead_letters_of_a_transaction(
    transactional: MockCluster, tmp_path: Path
) -> None:
    rows = pa.table({
        "topic": ["t", "t", "nowhere", None, "t", "t"],
        "value": list("abcdef"),
        "partition": pa.array([0, 9, 0, 0, None, -1], pa.int32()),
    })  # fmt: skip
    options = transaction_options(transactional, tmp_path)
    del options["topic"]
    TypedBatches(options).run(0, rows, rows.slice(1, 3))
    assert committed(transactional, "t", 3) == ["a"]
    errors = {each["value"]: each["error"] for each in letters_in(tmp_path)}
    assert "_UNKNOWN_PARTITION" in errors[b"b"]
    assert "_UNKNOWN_TOPIC" in errors[b"c"]
    assert errors[b"d"] == "column topic is null"
    assert errors[b"e"] == "column partition is null: exactly once needs a number"
    assert "column partition has -1" in errors[b"f"]
    assert len(letters_in(tmp_path)) == 8
    with pytest.raises(KafkaException, match="nowhere"):
        TypedBatches({**options, "topic": "nowhere"}).run(1, rows.slice(0, 1))


@needs_stream_writer
def test_a_dead_letter_that_the_topic_refuses_fails_the_batch(transactional: MockCluster) -> None:
    with pytest.raises(DeadLetterError, match=r"topic dead: .*message\.max\.bytes"):
        TypedBatches(transaction_options(transactional, "dead", **SMALL_)).run(0, rows_of("a", "x"))
    assert committed(transactional, "t", 3) == []


@needs_stream_writer
def test_options_of_a_transaction(transactional: MockCluster) -> None:
    options = transaction_options(transactional, "dead")
    with pytest.raises(OptionError, match="in the transaction of the other rows: leave it out"):
        SinkOptions.parse({**options, "deadLetters.kafka.acks": "all"})
    rows = pa.table({"topic": ["dead"], "value": ["a"], "partition": pa.array([0], pa.int32())})
    del options["topic"]
    with pytest.raises(WriteError, match="rows name topic dead, which has the dead letters"):
        TypedBatches(options).run(0, rows)


@needs_stream_writer
@pytest.mark.parametrize("target", ["topic", "folder"])
def test_driver_that_dies_at_its_commit_stores_each_letter_once(
    transactional: MockCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """It dies before the end of the transaction, or before Spark hears of it."""
    where = tmp_path if target == "folder" else "dead"
    stream = TypedBatches(
        transaction_options(transactional, where, kafka_max_request_size="1000000")
    )
    set_max_message_bytes(transactional, 1500)
    commit = Producer.commit_transaction

    def die(producer: Producer, timeout: float) -> None:
        raise KeyboardInterrupt

    def die_late(producer: Producer, timeout: float) -> None:
        commit(producer, timeout)
        raise KeyboardInterrupt

    for number, end in enumerate((die, die_late)):
        rows = rows_of(f"a{number}", f"x{number}")
        with monkeypatch.context() as patched:
            patched.setattr(Producer, "commit_transaction", end)
            with pytest.raises(KeyboardInterrupt):
                stream.run(number, rows)
        stream.run(number, rows)
        assert committed(transactional, "t", 3) == [f"a{each}" for each in range(number + 1)]
        letters = committed(transactional, "dead", 2)
        found = letters if target == "topic" else letters_in(tmp_path)
        assert len(found) == number + 1


def test_a_stream_written_exactly_once_stores_dead_letters(
    spark: SparkSession, transactional: MockCluster, tmp_path: Path
) -> None:
    """Its last micro-batch runs again, because Spark hasn't recorded it."""
    options = transaction_options(transactional, tmp_path / "dead", **SMALL_)
    texts = [(str(each) * (1 if each % 3 else 2000),) for each in range(1, 10)]

    def run() -> None:
        source = spark.readStream.schema("value string").parquet(str(tmp_path / "source"))
        writer = by_partition(source, 3).writeStream.format(FORMAT).options(**options)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = completed(lambda: writer.trigger(availableNow=True).start())
        assert query.exception() is None

    frame = spark.createDataFrame(texts, "value string")
    frame.write.parquet(str(tmp_path / "source"))
    run()
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    run()
    assert sorted(committed(transactional, "t", 3)) == [str(each) for each in (1, 2, 4, 5, 7, 8)]
    assert sorted(row["value"][:1] for row in letters_in(tmp_path / "dead")) == [b"3", b"6", b"9"]


def test_many_bad_rows_of_a_batch(cluster: MockCluster, tmp_path: Path) -> None:
    """They are left out at once. The others stay in order, also around tombstones."""
    count = 1000
    ids = [None if number % 7 == 0 else number for number in range(count)]
    value = pa.StructArray.from_arrays(
        [pa.array(ids, pa.int64()), pa.array([{"city": "a"}] * count, AT)],
        names=["id", "at"],
        mask=pa.array([number % 10 == 0 for number in range(count)]),
    )
    keys = [f"{number}" for number in range(count)]
    rows = pa.table({"value": value, "key": keys, "partition": pa.array([0] * count, pa.int32())})
    typed = {"topic": "t", "value_format": "avro", "value_schema": NUMBER}
    [written] = write(options_of(cluster, tmp_path, **typed), rows)
    bad = [number for number in range(count) if number % 7 == 0 and number % 10]
    assert (written.rows, written.dead) == (count - len(bad), len(bad))
    stored = [int(each.key) for each in cluster.messages("t", 0)]
    assert stored == [number for number in range(count) if number not in bad]
    assert [each.key for each in cluster.messages("t", 0) if each.value is None] == [
        str(number).encode() for number in range(0, count, 10)
    ]
    assert [int(each["key"]) for each in letters_in(tmp_path)] == bad


def test_a_refused_row_may_not_encode_either(cluster: MockCluster, tmp_path: Path) -> None:
    """A row without a topic is found before its value is encoded."""
    rows = pa.table({
        "topic": pa.array([None, None, "t"], pa.string()),
        "id": [1, None, 3],
        "at": pa.array([{"city": "a"}] * 3, AT),
    })  # fmt: skip
    typed = {"value_format": "avro", "value_schema": NUMBER}
    [written] = write(options_of(cluster, tmp_path, **typed), rows)
    assert (written.rows, written.dead) == (1, 2)
    encoded, unfit = sorted(letters_in(tmp_path), key=lambda row: row["row"] or "")
    assert (encoded["value"], encoded["row"]) == (b"\x02\x02a", None)
    assert unfit["error"] == "column topic is null. the schema doesn't allow null here"
    assert (unfit["field"], unfit["path"], unfit["topic"]) == ("value", "id", None)
    assert json.loads(unfit["row"]) == {"id": None, "at": {"city": "a"}}
