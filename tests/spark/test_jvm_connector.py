"""Spark's own Kafka connector and ours on a real Apache Kafka: one word differs, equal rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import confluent_kafka
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tests.broker.cluster import Cluster
from tests.broker.support import TopicMaker, flush, their_producer

pytestmark = pytest.mark.broker

JVM, OURS = "kafka", "kafka_native"
SCHEMA = "key binary, value binary, partition int, headers array<struct<key:string,value:binary>>"
# All optional and repeated parts of records, each in its own partition, so that both order them
# alike.
ROWS = [
    (None, None, 0, None),
    (b"", b"", 1, []),
    (b"key", b"value", 0, [("h", b"1"), ("h", b"2"), ("", None), ("empty", b"")]),
    (b"\x00\xff\xfe", None, 2, [("null", None)]),
    (None, "Grüße 🚀".encode(), 2, [("größe", "größer".encode())]),
    (b"k" * 300, b"v" * 70_000, 1, None),
]


def read(
    spark: SparkSession, format_: str, apache: Cluster, topic: str, **options: Any
) -> DataFrame:
    """Read a topic with either connector. An underscore in an option's name stands for a dot."""
    reader = spark.read.format(format_).option("kafka.bootstrap.servers", apache.bootstrap)
    if not {"assign", "subscribePattern"} & options.keys():
        reader = reader.option("subscribe", topic)
    return reader.options(
        **{name.replace("_", "."): value for name, value in options.items()}
    ).load()


def rows(frame: DataFrame) -> list[Row]:
    """Return all rows, sorted by topic, partition and offset."""
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def plain(found: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Return rows in the form of ROWS."""
    return [
        (
            *(None if part is None else bytes(part) for part in (row.key, row.value)),
            row.partition,
            # a record without headers has an empty list of them on the wire
            [
                (each.key, None if each.value is None else bytes(each.value))
                for each in row.headers or []
            ]
            or None,
        )
        for row in found
    ]


@pytest.mark.parametrize(
    ("writing", "reading"), [(OURS, JVM), (JVM, OURS)], ids=["ours-jvm", "jvm-ours"]
)
def test_one_reads_what_the_other_wrote(
    connected: SparkSession, apache: Cluster, new_topic: TopicMaker, writing: str, reading: str
) -> None:
    topic = new_topic(apache, partitions=3)
    writer = (
        connected.createDataFrame(ROWS, SCHEMA).coalesce(1).write.format(writing).mode("append")
    )
    writer = writer.option("kafka.bootstrap.servers", apache.bootstrap).option(
        "kafka.compression.type", "lz4"
    )
    writer.option("topic", topic).save()
    found = rows(read(connected, reading, apache, topic, includeHeaders="true"))
    wanted = [(*row[:3], row[3] or None) for row in sorted(ROWS, key=lambda row: row[2])]
    assert plain(found) == wanted
    assert found == rows(read(connected, writing, apache, topic, includeHeaders="true"))


def test_keys_choose_the_same_partitions(
    connected: SparkSession, apache: Cluster, new_topic: TopicMaker
) -> None:
    columns = ("cast(cast(id as string) as binary) key", "cast('v' as binary) value")
    frame = connected.range(0, 500, 1, 1).selectExpr(*columns)
    found = []
    for format_ in (JVM, OURS):
        topic = new_topic(apache, partitions=7)
        writer = (
            frame.write.format(format_)
            .mode("append")
            .option("kafka.bootstrap.servers", apache.bootstrap)
        )
        writer.option("topic", topic).save()
        found.append(
            {bytes(row.key): row.partition for row in rows(read(connected, JVM, apache, topic))}
        )
    assert len(found[0]) == 500
    assert found[0] == found[1]


@pytest.fixture
def mixed(apache: Cluster, new_topic: TopicMaker) -> str:
    """Return a topic of three partitions: all codecs, timestamps, and an aborted transaction."""
    # otherwise the broker deletes records with such old timestamps
    topic = new_topic(apache, partitions=3, retention_ms="-1")
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = their_producer(apache, compression_type=codec)
        for index in range(60):
            each = number * 60 + index
            headers = [("n", str(each).encode())] * (each % 3)
            key = None if each % 7 == 0 else b"%d" % each
            producer.produce(
                topic,
                b"v" * each,
                key,
                each % 3,
                timestamp=1_600_000_000_000 + each,
                headers=headers,
            )
        flush(producer)
    for commit in (False, True):
        producer = their_producer(apache, transactional_id=f"{topic}-{commit}")
        producer.init_transactions(30)
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, b"committed" if commit else b"aborted", partition=partition)
        flush(producer)  # a record that is aborted before it is sent is in no log
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    return topic


def by_partition(topic: str, values: dict[int, int]) -> str:
    """Return offsets or timestamps in an option's form."""
    return json.dumps({topic: {str(number): value for number, value in values.items()}})


def test_both_give_the_same_dataframe(connected: SparkSession, apache: Cluster, mixed: str) -> None:
    choices: dict[str, tuple[dict[str, Any], int]] = {
        "everything": ({}, 306),
        "committed": ({"kafka_isolation_level": "read_committed", "includeHeaders": "true"}, 303),
        "split": ({"minPartitions": 7}, 306),
        "pattern": ({"subscribePattern": f"{mixed[:-3]}.*"}, 306),
        "some": ({"assign": json.dumps({mixed: [0, 2]})}, 204),
        "offsets": (
            {
                "startingOffsets": by_partition(mixed, {0: 10, 1: -2, 2: 99}),
                "endingOffsets": by_partition(mixed, {0: 20, 1: 5, 2: -1}),
            },
            10 + 5 + 3,
        ),
        "times": (
            {"startingTimestamp": 1_600_000_000_100, "endingTimestamp": 1_600_000_000_200},
            100,
        ),
        "times by partition": (
            {
                "startingOffsetsByTimestamp": by_partition(
                    mixed, dict.fromkeys(range(3), 1_600_000_000_270)
                ),
                "endingOffsetsByTimestamp": by_partition(
                    mixed, dict.fromkeys(range(3), 1_600_000_000_290)
                ),
            },
            20,
        ),
    }
    for name, (options, count) in choices.items():
        theirs, ours = (
            read(connected, format_, apache, mixed, **options) for format_ in (JVM, OURS)
        )
        assert theirs.schema == ours.schema, name
        found = rows(theirs)
        assert len(found) == count, name
        assert rows(ours) == found, name


def test_both_end_by_time_where_times_are_in_no_order(
    connected: SparkSession, apache: Cluster, new_topic: TopicMaker
) -> None:
    topic, first_ms = new_topic(apache), 1_700_000_000_000
    producer = their_producer(apache)
    for each in (0, 9, 1, 8, 2, 7, 3, 6, 4, 5):
        producer.produce(topic, b"%d" % each, timestamp=first_ms + each)
    flush(producer)
    at = first_ms + 4  # the first record that isn't older has offset 1
    choices: list[tuple[dict[str, Any], int]] = [
        ({"startingTimestamp": at}, 9),
        ({"endingTimestamp": at}, 1),
        ({"endingOffsetsByTimestamp": by_partition(topic, {0: at})}, 1),
        ({"endingTimestamp": first_ms + 100}, 10),
    ]
    for options, count in choices:
        theirs, ours = (
            rows(read(connected, format_, apache, topic, **options)) for format_ in (JVM, OURS)
        )
        assert len(theirs) == count, options
        assert ours == theirs, options
    for condition in (
        "timestamp < {}",
        "timestamp <= {}",
        "timestamp between {} and timestamp_millis(1700000000007)",
    ):
        wanted = condition.format(f"timestamp_millis({at})")
        theirs, ours = (
            rows(read(connected, format_, apache, topic).where(wanted)) for format_ in (JVM, OURS)
        )
        assert theirs
        assert ours == theirs, wanted


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest"}, "latest"),
        ({"endingOffsets": "earliest"}, "earliest"),
        ({"kafka_auto_offset_reset": "earliest"}, "auto.offset.reset"),
        ({"kafka_enable_auto_commit": "true"}, "enable.auto.commit"),
        ({"kafka_key_deserializer": "x"}, "key.deserializer"),
        ({"startingTimestamp": 4_000_000_000_000}, "4000000000000|[Tt]imestamp"),
        ({"startingOffsets": '{"TOPIC":{"0":0}}'}, "[Oo]ffset"),
        ({"assign": '{"TOPIC":[0]}', "subscribe": "TOPIC"}, "assign"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_both_refuse_the_same(
    connected: SparkSession,
    apache: Cluster,
    two_partitions: str,
    options: dict[str, Any],
    said: str,
) -> None:
    given = {name: str(value).replace("TOPIC", two_partitions) for name, value in options.items()}
    for format_ in (JVM, OURS):
        with pytest.raises(Exception, match=said):
            read(connected, format_, apache, two_partitions, **given).collect()


@pytest.fixture(scope="module")
def two_partitions(apache: Cluster) -> str:
    """Return a topic that isn't written to any more."""
    maker = TopicMaker("refused", [])
    topic = maker(apache, partitions=2)
    producer = confluent_kafka.Producer({"bootstrap.servers": apache.bootstrap})
    for partition in range(2):
        producer.produce(topic, b"value", partition=partition)
    flush(producer)
    return topic
