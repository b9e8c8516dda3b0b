"""Sinks: a frame's columns, the outcome of its rows, and the effects of a failure."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    Row,
    StringType,
    StructField,
    StructType,
)

from kafka_native import KafkaError
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.spark import producers, writers
from kafka_native.spark.errors import OptionError
from kafka_native.spark.options import SinkOptions
from kafka_native.spark.writers import (
    SchemaError,
    WriteError,
    batch_writer,
    row_batches,
    stream_writer,
    write_rows,
)
from tests.spark.streams import completed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
ARROW_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
UNREACHABLE = {"kafka.bootstrap.servers": "localhost:1", "topic": "t"}


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    """Yield two brokers, without producers of earlier tests."""
    with MockCluster(brokers=2, auto_create_topics=False) as running:
        yield running
        producers.close_idle()


@pytest.fixture
def topic(cluster: MockCluster) -> str:
    """Return a topic of three partitions."""
    cluster.create_topic("t", 3)
    return "t"


def frame_of(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def options_of(cluster: MockCluster, **more: str) -> SinkOptions:
    return SinkOptions.parse({"kafka.bootstrap.servers": cluster.bootstrap_servers, **more})


def stored(cluster: MockCluster, topic: str, partition: int | None = None) -> list[Any]:
    wanted = range(3) if partition is None else [partition]
    return [record for each in wanted for record in cluster.messages(topic, each)]


def values(cluster: MockCluster, topic: str) -> Counter[str]:
    return Counter(record.value.decode() for record in stored(cluster, topic))


def write_batches(batches: Iterable[pa.RecordBatch], options: SinkOptions) -> int:
    return write_rows(producers.borrowed, batches, options)


def texts(*items: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(items, pa.string())})


# --- the driver's side ---


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (
            frame_of(key=StringType()),
            "there is no column value (there are: key): select what to write AS value",
        ),
        (
            frame_of(value=LongType()),
            "column value is bigint, but has to be string or binary: CAST(value AS string)",
        ),
        (
            frame_of(value=NullType()),
            "column value is void, but has to be string or binary: CAST(value AS string)",
        ),
        (
            frame_of(value=StringType(), key=NullType()),
            "column key is void, but has to be string or binary: drop it",
        ),
        (
            frame_of(value=StringType(), partition=LongType()),
            "column partition is bigint, but has to be int",
        ),
        (
            frame_of(value=StringType(), headers=StringType()),
            "make it by array(struct(name AS key, bytes AS value))",
        ),
    ],
)
@pytest.mark.parametrize("make", [batch_writer, stream_writer])
def test_schema_that_cannot_be_written_is_refused(make: Any, schema: StructType, text: str) -> None:
    with pytest.raises(SchemaError) as caught:
        make(UNREACHABLE, schema, False)
    assert text in str(caught.value)


def test_a_row_needs_a_topic() -> None:
    servers = {"kafka.bootstrap.servers": "localhost:1"}
    with pytest.raises(SchemaError, match="write option topic, or have a column topic"):
        batch_writer(servers, frame_of(value=StringType()), False)
    with pytest.raises(SchemaError, match="column topic is int, but has to be string"):
        batch_writer(servers, frame_of(value=StringType(), topic=IntegerType()), False)
    # the option wins
    batch_writer(UNREACHABLE, frame_of(value=StringType(), topic=IntegerType()), False)
    # others aren't checked
    batch_writer(UNREACHABLE, frame_of(value=BinaryType(), timestamp=LongType()), False)


def test_topics_are_not_overwritten() -> None:
    with pytest.raises(OptionError, match=r'option mode: .*write mode\("append"\)'):
        batch_writer(UNREACHABLE, frame_of(value=StringType()), True)
    # output mode complete: every result is added
    stream_writer(UNREACHABLE, frame_of(value=StringType()), True)


@pytest.mark.parametrize("name", ["key.serializer", "value.serializer"])
def test_serializers_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"option kafka.{name}: it can't be set"):
        batch_writer({**UNREACHABLE, f"kafka.{name}": "x"}, frame_of(value=StringType()), False)


@pytest.mark.parametrize("acks", ["0", "1"])
def test_weaker_acks_end_idempotence_as_in_java(acks: str) -> None:
    assert (
        SinkOptions.parse({**UNREACHABLE, "kafka.acks": acks}).producer["enable.idempotence"]
        == "false"
    )
    with pytest.raises(OptionError, match="acks"):
        SinkOptions.parse({**UNREACHABLE, "kafka.acks": acks, "kafka.enable.idempotence": "true"})


def test_writers_and_messages_show_no_secrets() -> None:
    secret = {"bootstrap.servers": "localhost:1", "sasl.password": "hunter2"}
    options = SinkOptions(secret, "t", {f"kafka.{name}": value for name, value in secret.items()})
    both = [
        writers.BatchWriter(options),
        writers.StreamWriter(options, frame_of(value=StringType())),
    ]
    for shown in (*both, *map(vars, both), writers.Written(3)):
        assert "hunter2" not in repr(shown)
    assert b"hunter2" not in pickle.dumps(writers.Written(3))


# --- a task's side ---


def test_every_column_is_written(cluster: MockCluster, topic: str) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "offset": pa.array([7, 8, 9]),
            "key": pa.array([b"a", None, b""], pa.binary()),
            "value": pa.array(["one", "zwölf", None], pa.string()),
            "partition": pa.array([2, 0, 2], pa.int32()),
            "headers": pa.array(
                [[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None, []],
                ARROW_HEADERS,
            ),
        }
    )
    assert write_batches([batch, batch.slice(1, 0)], options_of(cluster, topic=topic)) == 3
    found = [(record.key, record.value, list(record.headers)) for record in stored(cluster, topic)]
    assert found == [
        (None, "zwölf".encode(), []),
        (b"a", b"one", [("h", b"x"), ("h", None)]),
        (b"", None, []),
    ]


def test_topic_column_and_option(cluster: MockCluster, topic: str) -> None:
    cluster.create_topic("elsewhere", 1)
    batch = pa.RecordBatch.from_pydict(
        {"topic": [topic, "elsewhere", topic], "value": ["1", "2", "3"]}
    )
    assert write_batches([batch], options_of(cluster)) == 3
    assert values(cluster, topic) == {"1": 1, "3": 1}
    assert [record.value for record in cluster.messages("elsewhere", 0)] == [b"2"]
    write_batches([batch], options_of(cluster, topic="elsewhere"))
    assert [record.value for record in cluster.messages("elsewhere", 0)] == [b"2", b"1", b"2", b"3"]


def test_keys_go_where_javas_producer_sends_them(cluster: MockCluster, topic: str) -> None:
    keys = pa.array([f"key-{number}" for number in range(50)])
    batch = pa.RecordBatch.from_arrays([keys, keys], ["key", "value"])
    write_batches([batch], options_of(cluster, topic=topic))
    from kafka_native._native.primitives import murmur2

    for partition in range(3):
        found = stored(cluster, topic, partition)
        assert found
        assert all((murmur2(record.key) & 0x7FFFFFFF) % 3 == partition for record in found)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (
            {"topic": pa.array(["t", None, None])},
            "2 rows have a null in column topic: write option topic",
        ),
        ({"partition": pa.array([0, None, -1], pa.int32())}, "column partition has -1: write null"),
        ({"partition": pa.array([0, 0, 9], pa.int32())}, "partition 9"),
        (
            {"headers": pa.array([None, None, [{"key": None, "value": b""}]], ARROW_HEADERS)},
            "header",
        ),
        ({"key": pa.array([b"", b"", bytes(2_000_000)])}, "MSG_SIZE_TOO_LARGE"),
    ],
    ids=["topic", "negative", "partition", "header", "size"],
)
def test_a_row_that_cannot_be_sent_fails_the_task(
    cluster: MockCluster, topic: str, columns: dict[str, pa.Array], text: str
) -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["1", "2", "3"], **columns})
    more = {"kafka.topic.metadata.propagation.max.ms": "500"}
    options = (
        options_of(cluster, **more)
        if "topic" in columns
        else options_of(cluster, topic=topic, **more)
    )
    with pytest.raises(WriteError) as caught:
        write_batches([batch], options)
    assert text in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args
    assert producers._producers.idle == []


def test_a_refused_row_fails_the_task_and_the_next_attempt_writes_all(
    cluster: MockCluster, topic: str
) -> None:
    options = options_of(cluster, topic=topic)
    cluster.push_request_errors(
        ApiKey.PRODUCE, [KafkaError.TOPIC_AUTHORIZATION_FAILED], topic=topic
    )
    with pytest.raises(
        WriteError,
        match=rf"\d+ of 3 rows weren't written; the first: topic {topic}: .*TOPIC_AUTHOR",
    ):
        write_batches([texts("1", "2", "3")], options)
    assert write_batches([texts("1", "2", "3")], options) == 3
    assert set(values(cluster, topic)) == {"1", "2", "3"}


def test_a_lost_connection_writes_nothing_twice(cluster: MockCluster, topic: str) -> None:
    cluster.push_request_errors(ApiKey.PRODUCE, [CLOSE_CONNECTION] * 2, done=True)
    options = options_of(cluster, topic=topic, **{"kafka.retry.backoff.ms": "10"})
    write_batches([texts(*map(str, range(100)))], options)
    assert values(cluster, topic) == {str(number): 1 for number in range(100)}


def test_writer_waits_while_the_queue_is_full(cluster: MockCluster, topic: str) -> None:
    options = options_of(cluster, topic=topic, **{"kafka.queue.buffering.max.messages": "10"})
    batches = [texts(*(f"{start + number}" for number in range(200))) for start in (0, 200)]
    assert write_batches(batches, options) == 400
    assert values(cluster, topic) == {str(number): 1 for number in range(400)}


def test_unacknowledged_rows_fail_after_delivery_timeout(cluster: MockCluster, topic: str) -> None:
    options = options_of(
        cluster,
        topic=topic,
        **{"kafka.delivery.timeout.ms": "300", "kafka.request.timeout.ms": "200"},
    )
    cluster.delay_responses(None, 60, ApiKey.PRODUCE)
    with pytest.raises(WriteError, match="_MSG_TIMED_OUT"):
        write_batches([texts("1")], options)


def test_a_failing_source_discards_the_queue(cluster: MockCluster, topic: str) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield texts("1")
        raise EOFError("Spark has gone away")

    with pytest.raises(EOFError):
        write_batches(broken(), options_of(cluster, topic=topic))
    assert producers._producers.idle == []


def test_a_worker_keeps_a_producer_for_each_configuration(cluster: MockCluster, topic: str) -> None:
    options = [options_of(cluster, topic=topic, **{"kafka.linger.ms": str(ms)}) for ms in range(6)]
    write_batches([texts("1")], options[0])
    [first] = producers._producers.idle
    write_batches([texts("2")], options[0])
    assert producers._producers.idle == [first]
    for each in options:
        write_batches([texts("3")], each)
    assert [kept.config["linger.ms"] for kept in producers._producers.idle] == ["2", "3", "4", "5"]
    assert "closed" in repr(first.client)


def test_a_forked_worker_makes_its_own_producer(cluster: MockCluster, topic: str) -> None:
    options = options_of(cluster, topic=topic)
    write_batches([texts("parent")], options)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            write_batches([texts("child")], options)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    write_batches([texts("parent again")], options)
    assert values(cluster, topic) == {"parent": 1, "child": 1, "parent again": 1}


def test_rows_of_pyspark_4_0_become_batches() -> None:
    schema = frame_of(
        n=LongType(), value=BinaryType(), key=StringType(), headers=HEADERS, partition=IntegerType()
    )
    rows = [
        Row(
            n=1, value=bytearray(b"1"), key="a", headers=[Row(key="h", value=b"x")], partition=None
        ),
        Row(n=2, value=None, key=None, headers=None, partition=2),
    ]
    [batch] = row_batches(iter(rows), schema)
    assert batch.to_pylist() == [
        {"value": b"1", "key": "a", "headers": [{"key": "h", "value": b"x"}], "partition": None},
        {"value": None, "key": None, "headers": None, "partition": 2},
    ]


# --- with Spark ---


def write(
    frame: DataFrame, cluster: MockCluster, mode: str | None = "append", **options: str
) -> None:
    writer = frame.write.format("kafka_native").option(
        "kafka.bootstrap.servers", cluster.bootstrap_servers
    )
    (writer.options(**options) if mode is None else writer.options(**options).mode(mode)).save()


def test_batch_write_of_every_column(spark: SparkSession, cluster: MockCluster, topic: str) -> None:
    frame = spark.range(0, 1000, numPartitions=2).selectExpr(
        "CAST(id AS string) AS key",
        "CAST(CAST(id AS string) AS binary) AS value",
        f"'{topic}' AS topic",
        "CAST(id % 3 AS int) AS partition",
        "IF(id % 2 = 0, array(named_struct('key', 'n', 'value', CAST('x' AS binary))), NULL) "
        "AS headers",
        "current_timestamp() AS timestamp",
    )
    write(frame, cluster)
    assert values(cluster, topic) == {str(number): 1 for number in range(1000)}
    for partition in range(3):
        for record in stored(cluster, topic, partition):
            number = int(record.value)
            assert number % 3 == partition
            assert record.key == record.value
            assert list(record.headers) == ([("n", b"x")] if number % 2 == 0 else [])


def test_spark_refuses_frames_that_cannot_be_written(
    spark: SparkSession, cluster: MockCluster, topic: str
) -> None:
    frame = spark.range(3).selectExpr("CAST(id AS string) AS value")
    with pytest.raises(AnalysisException, match="Append"):
        write(frame, cluster, None, topic=topic)
    with pytest.raises(Exception, match="a topic can't be overwritten"):
        write(frame, cluster, "overwrite", topic=topic)
    with pytest.raises(Exception, match="there is no column value"):
        write(frame.withColumnRenamed("value", "v"), cluster, topic=topic)
    with pytest.raises(Exception, match="write option topic"):
        write(frame, cluster)
    with pytest.raises(Exception, match="3 rows have a null in column topic"):
        write(frame.selectExpr("value", "CAST(NULL AS string) AS topic").coalesce(1), cluster)
    sasl = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    with pytest.raises(Exception, match=r"sasl\.username") as caught:
        write(frame, cluster, topic=topic, **sasl, **{"kafka.sasl.password": "hunter2"})
    assert "hunter2" not in str(caught.value)
    assert stored(cluster, topic) == []


def test_failed_task_is_tried_again(spark: SparkSession, cluster: MockCluster, topic: str) -> None:
    cluster.push_request_errors(
        ApiKey.PRODUCE, [KafkaError.TOPIC_AUTHORIZATION_FAILED], topic=topic
    )
    write(
        spark.range(0, 100, numPartitions=1).selectExpr("CAST(id AS string) AS value"),
        cluster,
        topic=topic,
    )
    assert set(values(cluster, topic)) == {str(number) for number in range(100)}


def test_stream_loses_nothing_when_it_fails_and_starts_again(
    spark: SparkSession, cluster: MockCluster, topic: str, tmp_path: Path
) -> None:
    def run() -> None:
        source = (
            spark.readStream.schema("value string")
            .option("maxFilesPerTrigger", 1)
            .text(str(tmp_path / "in"))
        )
        writer = source.writeStream.format("kafka_native").trigger(availableNow=True)
        writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers).option(
            "topic", topic
        )
        completed(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start)

    (tmp_path / "in").mkdir()
    for name in range(4):
        (tmp_path / "in" / f"{name}.txt").write_text(
            "".join(f"{name}-{line}\n" for line in range(50))
        )
    everything = {f"{name}-{line}" for name in range(4) for line in range(50)}
    cluster.push_request_errors(
        ApiKey.PRODUCE, [0, 0, *[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 200], topic=topic
    )
    with pytest.raises(StreamingQueryException, match="TOPIC_AUTHORIZATION_FAILED"):
        run()
    assert 0 < len(values(cluster, topic)) < 200
    cluster.faults.clear()
    run()
    assert set(values(cluster, topic)) == everything
    # killed before Spark noted the last batch as done: it runs again
    before = values(cluster, topic)
    (tmp_path / "checkpoint" / "commits" / "3").unlink()
    (tmp_path / "checkpoint" / "commits" / ".3.crc").unlink(missing_ok=True)
    run()
    again = values(cluster, topic) - before
    assert len(again) == 50
    assert set(again.values()) == {1}


def test_value_that_javas_producer_takes_is_written(cluster: MockCluster, topic: str) -> None:
    options = options_of(cluster, topic=topic)
    rows = pa.RecordBatch.from_pydict(
        {"value": [b"x" * 1_020_000], "partition": pa.array([0], pa.int32())}
    )
    assert write_rows(producers.borrowed, [rows], options) == 1
    assert [len(each.value or b"") for each in cluster.messages(topic, 0)] == [1_020_000]


def test_refused_row_names_the_limit_and_no_broker(cluster: MockCluster, topic: str) -> None:
    rows = pa.RecordBatch.from_pydict({"value": [b"x" * 1_050_000]})
    with pytest.raises(WriteError) as raised:
        write_rows(producers.borrowed, [rows], options_of(cluster, topic=topic))
    text = str(raised.value)
    assert "a row is larger than kafka.max.request.size=1048576 (MSG_SIZE_TOO_LARGE)" in text
    assert "Broker" not in text


def test_wrong_topic_is_searched_for_seconds_only(cluster: MockCluster) -> None:
    assert options_of(cluster, topic="nope").propagation_s == 5
    quick = options_of(cluster, topic="nope", **{"kafka.topic.metadata.propagation.max.ms": "200"})
    with pytest.raises(WriteError, match="topic nope doesn't exist on this cluster"):
        write_rows(producers.borrowed, [pa.RecordBatch.from_pydict({"value": [b"x"]})], quick)
