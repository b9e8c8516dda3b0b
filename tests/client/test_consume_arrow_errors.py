"""consume_arrow() and bad input: no error is lost, and the rows before it come first."""

from __future__ import annotations

import struct

import crc32c
import pytest

from kafka_native import KafkaError, KafkaException, TopicPartition
from kafka_native._native.records import encode_batch
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S

from .arrow_support import offsets
from .support import Client, assigned, code_of, fill, filled

OFFSETS = ["offset"]


def with_checksum(batch: bytearray) -> bytes:
    """Return a changed batch with its correct checksum."""
    batch[17:21] = struct.pack(">I", crc32c.crc32c(bytes(batch[21:])))
    return bytes(batch)


def test_checksum_mismatch(cluster: MockCluster, client: Client) -> None:
    topic = filled(client, 5)
    cluster.corrupt_next_fetch(topic, 0)
    with assigned(client, topic) as consumer:
        assert code_of(lambda: consumer.consume_arrow(5, WAIT_S), "checksum") == KafkaError._BAD_MSG
        assert offsets(consumer.consume_arrow(5, WAIT_S, columns=OFFSETS)) == [0, 1, 2, 3, 4]


def test_malformed_records(cluster: MockCluster, client: Client, topic: str) -> None:
    good = encode_batch([(1, b"key", b"value %d" % number) for number in range(3)])
    bad = bytearray(encode_batch([(1, b"key", b"value"), (1, b"key", b"value")]))
    second = bad.rindex(b"key")
    assert bad[second - 1] == 6, "the key's length"
    bad[second - 1] = 126
    for batch in (good, with_checksum(bad), good):
        cluster.append_raw(topic, 0, batch)
    with assigned(client, topic) as consumer:
        first = consumer.consume_arrow(100, WAIT_S, columns=OFFSETS)
        assert offsets(first) == [0, 1, 2, 3]
        assert first.positions == {(topic, 0): 4}
        with pytest.raises(KafkaException, match=r"malformed records.*offset 4.*seek to 5"):
            consumer.consume_arrow(100, WAIT_S, columns=OFFSETS)
        assert offsets(consumer.consume_arrow(3, WAIT_S, columns=OFFSETS)) == [5, 6, 7]


def test_a_malformed_batch(cluster: MockCluster, client: Client, topic: str) -> None:
    garbage = bytearray(encode_batch([(1, None, b"x")]))
    garbage[16] = 9  # an unknown magic
    cluster.append_raw(topic, 0, bytes(garbage), record_count=1)
    with assigned(client, topic) as consumer:
        with pytest.raises(KafkaException, match=rf"{topic} \[0\] at offset 0"):
            consumer.consume_arrow(1, WAIT_S)
        consumer.seek(TopicPartition(topic, 0, 1))
        fill(client, topic, 2)
        assert offsets(consumer.consume_arrow(2, WAIT_S, columns=OFFSETS)) == [1, 2]


def test_errors_beside_good_partitions(cluster: MockCluster, client: Client) -> None:
    topic = client.topic(2)
    bomb = encode_batch([(1, None, bytes(8 << 20))], codec="zstd")
    cluster.append_raw(topic, 0, bomb)
    fill(client, topic, 30, partition=1)
    found: list[int] = []
    errors = []
    with assigned(client, topic, 2, **{"decompressed.batch.max.bytes": 1 << 20}) as consumer:
        while len(found) < 30 or not errors:
            try:
                batch = consumer.consume_arrow(30 - len(found) or 1, WAIT_S, columns=OFFSETS)
            except KafkaException as error:
                errors.append(error.args[0].code())
            else:
                found += offsets(batch)
    assert found == list(range(30))
    assert set(errors) == {KafkaError._BAD_COMPRESSION}


def test_unknown_topic(client: Client) -> None:
    conf = {"topic.metadata.propagation.max.ms": 200}
    with assigned(client, "never-made", offset=0, **conf) as consumer:
        with pytest.raises(KafkaException, match="never-made") as caught:
            consumer.consume_arrow(1, WAIT_S)
        assert caught.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_control_batches_move_the_position_without_rows(client: Client, topic: str) -> None:
    marker = bytearray(encode_batch([(1, b"\0\0\0\1", b"\0\0\0\0\0\0")]))
    marker[22] |= 0x30  # transactional, control
    client.cluster.append_raw(topic, 0, encode_batch([(1, None, b"before")]))
    client.cluster.append_raw(topic, 0, with_checksum(marker))
    with assigned(client, topic, **{"enable.partition.eof": True}) as consumer:
        count, position = 0, 0
        while position < 2:
            batch = consumer.consume_arrow(10, WAIT_S)
            assert len(batch) or batch.ends
            count += len(batch)
            position = batch.positions.get((topic, 0), position)
    assert (count, position) == (1, 2)
