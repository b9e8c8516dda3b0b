"""librdkafka and Java read our messages byte for byte, and we read theirs, through a real broker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import kafka_native
from tests.broker.cluster import Cluster, ProcessBroker
from tests.broker.support import (
    CODECS,
    Record,
    TopicMaker,
    delete_topics,
    flush,
    our_consumer,
    our_producer,
    read,
    their_consumer,
    their_producer,
)

Tool = Callable[..., bytes]

START_MS = 1_700_000_000_000
EVERY_BYTE = bytes(range(256))
# (key, value, headers): nulls, empties, duplicates, every byte, more than one page, and text.
SAMPLES: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (b"key", b"value", []),
    (None, b"no key", []),
    (b"no value", None, []),
    (None, None, []),
    (b"", b"", []),
    (b"", None, [("h", b"")]),
    (None, b"", [("h", None)]),
    (b"k", b"v", [("same", b"1"), ("other", b"x"), ("same", b"2"), ("same", None), ("same", b"")]),
    (EVERY_BYTE, EVERY_BYTE[::-1], [("bytes", EVERY_BYTE), ("n\u00e4me", b"\xff\x00")]),
    (b"large", b"a line of text that repeats " * 4000, [("long", b"y" * 3000)]),
    ("schl\u00fcssel".encode(), "\u4e16\u754c".encode(), [("h", "w\u00e4rt".encode())]),
    *(
        (b"k%d" % (i % 7), b"value %d " % i * (i % 50), [("i", b"%d" % i)] * (i % 3))
        for i in range(100)
    ),
]


def expected(partition: int) -> list[Record]:
    """Return SAMPLES as the records of one partition."""
    return [
        Record(
            partition,
            offset,
            kafka_native.TIMESTAMP_CREATE_TIME,
            START_MS + offset,
            key,
            value,
            tuple(headers),
        )
        for offset, (key, value, headers) in enumerate(SAMPLES)
    ]


def write_samples(producer: Any, topic: str, partition: int) -> None:
    """Produce SAMPLES with either client. Both take headers as pairs."""
    for number, (key, value, headers) in enumerate(SAMPLES):
        producer.produce(
            topic, value, key, partition, timestamp=START_MS + number, headers=headers or None
        )
    flush(producer)


def write_with_all_codecs(make_producer: Callable[..., Any], kafka: Cluster, topic: str) -> None:
    """Produce to one partition for each codec."""
    for partition, codec in enumerate(CODECS):
        producer = make_producer(kafka, compression_codec=codec, linger_ms=50)
        write_samples(producer, topic, partition)
        if isinstance(producer, kafka_native.Producer):
            producer.close()


def by_partition(found: list[Record]) -> dict[int, list[Record]]:
    """Return the records of each partition in their order."""
    partitions: dict[int, list[Record]] = {}
    for record in found:
        partitions.setdefault(record.partition, []).append(record)
    return partitions


ALL_EXPECTED = {partition: expected(partition) for partition in range(len(CODECS))}
ALL_COUNT = len(SAMPLES) * len(CODECS)


@pytest.fixture(scope="module")
def ours(kafka: Cluster) -> Iterator[str]:
    """Yield a topic of our producer, with one partition for each codec."""
    made: list[tuple[Cluster, str]] = []
    topic = TopicMaker("ours", made)(kafka, len(CODECS))
    write_with_all_codecs(our_producer, kafka, topic)
    yield topic
    delete_topics(made)


def test_we_read_our_messages(kafka: Cluster, ours: str) -> None:
    with our_consumer(kafka) as consumer:
        assert by_partition(read(consumer, ours, range(len(CODECS)), ALL_COUNT)) == ALL_EXPECTED


def test_librdkafka_reads_our_messages(kafka: Cluster, ours: str) -> None:
    consumer = their_consumer(kafka, check_crcs=True)
    assert by_partition(read(consumer, ours, range(len(CODECS)), ALL_COUNT)) == ALL_EXPECTED
    consumer.close()


def test_we_read_librdkafkas_messages(kafka: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(kafka, len(CODECS))
    write_with_all_codecs(their_producer, kafka, topic)
    with our_consumer(kafka, check_crcs=True) as consumer:
        assert by_partition(read(consumer, topic, range(len(CODECS)), ALL_COUNT)) == ALL_EXPECTED


# The console consumer separates with texts; these don't occur in the samples.
FIELD, LINE, NULL = "<-field->", "<-line->", "<-null->"


def formatted(record: Record) -> bytes:
    """Return a record as Java's console consumer prints it with all fields."""
    separator, null = FIELD.encode(), NULL.encode()
    headers = b"\x01".join(
        name.encode() + b":" + (null if value is None else value) for name, value in record.headers
    )
    fields = [
        b"CreateTime:%d" % record.timestamp,
        b"Partition:%d" % record.partition,
        b"Offset:%d" % record.offset,
        headers or b"NO_HEADERS",
        null if record.key is None else record.key,
        null if record.value is None else record.value,
    ]
    return separator.join(fields)


def place(line: bytes) -> tuple[int, int]:
    """Return the partition and the offset of a printed record."""
    _, partition, offset, *_ = line.split(FIELD.encode())
    return int(partition.removeprefix(b"Partition:")), int(offset.removeprefix(b"Offset:"))


def console_consumer(tool: Tool, kafka: Cluster, topic: str, count: int) -> list[bytes]:
    """Return the output of Java's console consumer for a topic, one item a record."""
    printed = [
        f"print.{what}=true"
        for what in ("timestamp", "partition", "offset", "headers", "key", "value")
    ]
    separators = [
        f"key.separator={FIELD}",
        f"line.separator={LINE}",
        "headers.separator=\x01",
        f"null.literal={NULL}",
    ]
    options = [part for each in (*printed, *separators) for part in ("--formatter-property", each)]
    said = tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", kafka.bootstrap, "--topic", topic, "--from-beginning"),
        *("--max-messages", str(count), "--timeout-ms", "120000", *options),
    )
    return said.removesuffix(LINE.encode()).split(LINE.encode())


def check_lines(lines: list[bytes]) -> None:
    """Check that the console consumer printed each sample once.

    The first assertion compares places only, because its message is short.
    """
    found = Counter(map(place, lines))
    assert found == dict.fromkeys(((p, o) for p in ALL_EXPECTED for o in range(len(SAMPLES))), 1)
    assert sorted(lines) == sorted(
        formatted(record) for records in ALL_EXPECTED.values() for record in records
    )


def test_java_reads_our_messages(kafka: Cluster, ours: str, tool: Tool) -> None:
    lines = console_consumer(tool, kafka, ours, ALL_COUNT)
    check_lines(lines)
    for partition in range(len(CODECS)):
        mine = [
            line
            for line in lines
            if FIELD.join(("", f"Partition:{partition}", "")).encode() in line
        ]
        assert mine == [formatted(record) for record in ALL_EXPECTED[partition]]


@pytest.mark.slow
def test_we_read_javas_messages(kafka: Cluster, new_topic: TopicMaker, tool: Tool) -> None:
    topic = new_topic(kafka)
    expected_records: list[
        tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
    ] = []
    started_ms = int(time.time() * 1000)
    for codec in CODECS:
        rows: list[tuple[str, str, str]] = [
            ("a:1,a:2,b:", "key", f"value {codec}"),
            ("h:\u00fc", "", ""),
            ("n:NULL", "NULL", "no key"),
            ("h:x", "no value", "NULL"),
            *((f"i:{i}", f"k{i}", f"{codec} {i} " * (i % 40)) for i in range(50)),
        ]
        text = "".join("\t".join(row) + "\n" for row in rows)
        properties = ["parse.key=true", "parse.headers=true", "null.marker=NULL"]
        options = [part for each in properties for part in ("--reader-property", each)]
        tool(
            "org.apache.kafka.tools.ConsoleProducer",
            *(
                "--bootstrap-server",
                kafka.bootstrap,
                "--topic",
                topic,
                "--compression-codec",
                codec,
                *options,
            ),
            input=text.encode(),
        )
        expected_records += [
            (unmarked(key), unmarked(value), parsed(headers)) for headers, key, value in rows
        ]
    with our_consumer(kafka) as consumer:
        found = read(consumer, topic, [0], len(expected_records))
    assert [(record.key, record.value, record.headers) for record in found] == expected_records
    assert [record.offset for record in found] == list(range(len(found)))
    assert all(started_ms <= record.timestamp <= time.time() * 1000 for record in found)


def unmarked(text: str) -> bytes | None:
    return None if text == "NULL" else text.encode()


def parsed(headers: str) -> tuple[tuple[str, bytes | None], ...]:
    pairs = (pair.split(":") for pair in headers.split(","))
    return tuple((name, unmarked(value)) for name, value in pairs)


def test_java_accepts_our_log_file(kafka: Cluster, ours: str, tool: Tool) -> None:
    brokers = list(kafka.brokers.values())
    if not brokers or not isinstance(brokers[0], ProcessBroker):
        pytest.skip(f"the log files of {kafka.kind} are out of reach")
    files = [log_file(brokers[0], ours, partition) for partition in range(len(CODECS))]
    said = tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--deep-iteration",
        "--files",
        ",".join(map(str, files)),
    ).decode()
    for codec, part in zip(CODECS, said.split("Dumping ")[1:], strict=True):
        batches = [line for line in part.splitlines() if line.startswith("baseOffset:")]
        records = [line for line in part.splitlines() if line.startswith("|")]
        assert batches
        assert all(
            "isvalid: true" in line and f"compresscodec: {codec}" in line for line in batches
        ), batches
        assert all("magic: 2" in line and "isTransactional: false" in line for line in batches), (
            batches
        )
        offsets = [int(line.split("offset: ")[1].split()[0]) for line in records]
        assert offsets == list(range(len(SAMPLES)))


def log_file(broker: ProcessBroker, topic: str, partition: int) -> Path:
    """Return the only segment of a partition."""
    [found] = (broker.log_dir / f"{topic}-{partition}").glob("*.log")
    return found


def test_log_append_time_is_the_brokers(kafka: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(kafka, message_timestamp_type="LogAppendTime")
    reports: list[Record] = []
    before_ms = int(time.time() * 1000)
    with our_producer(kafka, compression_codec="zstd") as producer:
        for number in range(20):
            producer.produce(
                topic,
                str(number),
                timestamp=START_MS,
                on_delivery=lambda _, message: reports.append(Record.of(message)),
            )
        flush(producer)
    after_ms = int(time.time() * 1000)
    with our_consumer(kafka) as consumer:
        mine = read(consumer, topic, [0], 20)
    witness = their_consumer(kafka)
    assert mine == read(witness, topic, [0], 20)
    witness.close()
    assert {record.timestamp_type for record in mine} == {kafka_native.TIMESTAMP_LOG_APPEND_TIME}
    assert all(before_ms <= record.timestamp <= after_ms for record in mine)
    assert [record._replace(headers=()) for record in reports] == mine


def test_partitioners_agree_with_librdkafka(kafka: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(kafka, 5)
    keys = [b"key %d" % number for number in range(100)] + [b"\xff\x80", b"a" * 300]
    names = (
        "consistent",
        "consistent_random",
        "murmur2",
        "murmur2_random",
        "fnv1a",
        "fnv1a_random",
    )
    for name in names:
        for make in (our_producer, their_producer):
            producer = make(kafka, partitioner=name)
            for key in keys:
                producer.produce(topic, f"{make.__name__} {name}", key)
            flush(producer)
            if isinstance(producer, kafka_native.Producer):
                producer.close()
    places: dict[str, dict[bytes | None, int]] = {}
    with our_consumer(kafka) as consumer:
        for record in read(consumer, topic, range(5), len(keys) * len(names) * 2):
            places.setdefault((record.value or b"").decode(), {})[record.key] = record.partition
    for name in names:
        assert places[f"our_producer {name}"] == places[f"their_producer {name}"]
        assert len(places[f"our_producer {name}"]) == len(keys)


def test_watermarks_agree_with_librdkafka(kafka: Cluster, ours: str) -> None:
    witness = their_consumer(kafka)
    with our_consumer(kafka) as consumer:
        for partition in range(len(CODECS)):
            mine = consumer.get_watermark_offsets(kafka_native.TopicPartition(ours, partition), 10)
            theirs = witness.get_watermark_offsets(
                confluent_kafka.TopicPartition(ours, partition), 10
            )
            assert mine == theirs == (0, len(SAMPLES))
    witness.close()
