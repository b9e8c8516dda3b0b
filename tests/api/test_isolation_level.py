"""isolation.level: which messages of a transactional producer the application gets.

The tests append batches and markers of transactions to the mock cluster's log. They edit its Fetch
responses, so that these name the aborted transactions as a broker's would.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from kafka_native import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from kafka_native._native.records import encode_batch
from kafka_native.mock import MockCluster
from kafka_native.mock.handlers import fetch
from kafka_native.protocol.fetch import FetchResponse

ABORT, COMMIT = 0, 1
TOPIC = "transactions"


class Log:
    """A partition with transactions in it."""

    def __init__(self, cluster: MockCluster) -> None:
        self.cluster = cluster
        self.aborted: list[tuple[int, int]] = []  # producer id, first offset
        cluster.create_topic(TOPIC, 1)

    def write(self, producer: int, *values: bytes, codec: str = "none") -> int:
        """Append a batch of a transaction, or of none for producer -1, and return its first
        offset.
        """
        sequence = self.cluster.watermarks(TOPIC, 0)[1] if producer >= 0 else -1
        data = encode_batch(
            [(1, None, value) for value in values],
            codec=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
            transactional=producer >= 0,
        )
        return self.cluster.append_raw(TOPIC, 0, data)

    def end(self, producer: int, kind: int) -> None:
        """Append the marker that a transaction coordinator writes."""
        marker = (1, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
        data = encode_batch(
            [marker], producer_id=producer, producer_epoch=0, transactional=True, control=True
        )
        self.cluster.append_raw(TOPIC, 0, data)

    def abort(self, producer: int, *values: bytes, codec: str = "none") -> None:
        """Append an aborted transaction."""
        self.aborted.append((producer, self.write(producer, *values, codec=codec)))
        self.end(producer, ABORT)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    with MockCluster(brokers=1) as cluster:
        made = Log(cluster)
        look_at = fetch._FetchAttempt._read_partition

        def check_and_report(self: fetch._FetchAttempt, wanted: fetch.FetchPartition) -> None:
            look_at(self, wanted)
            answer = self.answers[-1][1]
            if answer.aborted_transactions is not None:
                entry = FetchResponse.Topic.Partition.AbortedTransaction
                # newest first: a client mustn't rely on their order
                answer.aborted_transactions = [
                    entry(producer_id=producer, first_offset=offset)
                    for producer, offset in reversed(made.aborted)
                ]

        monkeypatch.setattr(fetch._FetchAttempt, "_read_partition", check_and_report)
        yield made


def read(
    log: Log, level: str | None, start: int = OFFSET_BEGINNING
) -> tuple[list[bytes | None], int]:
    """Return all values up to the end of the partition, and the position there."""
    conf = {"bootstrap.servers": log.cluster.bootstrap_servers, "enable.partition.eof": True}
    values: list[bytes | None] = []
    with Consumer(conf if level is None else {**conf, "isolation.level": level}) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, start)])
        while True:
            message = consumer.poll(10)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error == KafkaError._PARTITION_EOF
                return values, consumer.position([TopicPartition(TOPIC, 0)])[0].offset
            values.append(message.value())


def mixed(log: Log) -> None:
    """Append two producers' overlapping transactions, and a batch without one."""
    log.write(-1, b"plain 0")
    log.aborted.append((7, log.write(7, b"aborted 1", b"aborted 2")))
    log.write(8, b"committed 3", codec="gzip")
    log.write(-1, b"plain 4")
    log.write(7, b"aborted 5", codec="gzip")
    log.end(7, ABORT)
    log.write(7, b"committed 7")
    log.end(8, COMMIT)
    log.end(7, COMMIT)
    log.abort(8, b"aborted 10")
    log.abort(7, b"aborted 12")
    log.write(-1, b"plain 14")


@pytest.mark.parametrize("level", [None, "read_committed"])
def test_committed_reads_leave_out_exactly_the_aborted_messages(
    log: Log, level: str | None
) -> None:
    mixed(log)
    values, position = read(log, level)
    assert values == [b"plain 0", b"committed 3", b"plain 4", b"committed 7", b"plain 14"]
    assert position == 15


def test_uncommitted_reads_have_everything_but_the_markers(log: Log) -> None:
    mixed(log)
    values, position = read(log, "read_uncommitted")
    assert [int((value or b"").split()[1]) for value in values] == [0, 1, 2, 3, 4, 5, 7, 10, 12, 14]
    assert position == 15


def test_reading_may_start_inside_an_aborted_transaction(log: Log) -> None:
    mixed(log)
    assert read(log, "read_committed", start=2)[0] == [
        b"committed 3",
        b"plain 4",
        b"committed 7",
        b"plain 14",
    ]


def test_position_passes_aborted_messages_at_the_end_of_a_log(log: Log) -> None:
    log.write(-1, b"plain 0")
    log.abort(7, b"aborted 1")
    assert read(log, "read_committed") == ([b"plain 0"], 3)
