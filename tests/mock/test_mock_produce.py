"""Produce: checks, stored bytes, leaders, sequences, retention, cost."""

from __future__ import annotations

import os
import time
import zlib

import crc32c
import pytest

from kafka_native._native import records
from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.protocol.metadata import MetadataRequest
from kafka_native.protocol.produce import ProduceRequest
from kafka_native.protocol.producer_ids import InitProducerIdRequest
from tests.mock.wire import Wire, batch, produce, produce_request

MAGIC_0_MESSAGE = b"\0\0" + b"\xff\xff\xff\xff" + b"\0\0\0\x01" + b"x"
MAGIC_0_SET = (
    bytes(8) + b"\0\0\0\x0f" + zlib.crc32(MAGIC_0_MESSAGE).to_bytes(4, "big") + MAGIC_0_MESSAGE
)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batch_is_kept_unchanged_except_offset_and_epoch(
    codec: str, cluster: MockCluster, wire: Wire
) -> None:
    cluster.create_topic("a", 3)
    cluster.move_leader("a", 0, 2)
    cluster.move_leader("a", 0, 1)
    data = batch(b"one", b"two", codec=codec)
    assert [produce(wire, "a", 0, data).base_offset for _ in range(3)] == [0, 2, 4]
    stored = cluster.batches("a", 0)
    for number, kept in enumerate(stored):
        assert kept[:8] == (2 * number).to_bytes(8, "big")
        assert kept[8:12] == data[8:12]
        assert kept[12:16] == (2).to_bytes(4, "big")
        assert kept[16:] == data[16:]
    assert cluster.watermarks("a", 0) == (0, 6)
    assert [record.offset for record in cluster.messages("a", 0)] == list(range(6))


def test_each_partition_of_a_request_has_its_result(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a", 4)
    request = produce_request("a", 0, batch(b"x"))
    request.topic_data[0].partition_data += [
        ProduceRequest.Topic.Partition(index=index, records=batch(b"y", b"z"))
        for index in (1, 3, 7)
    ]
    answers = wire.ask(request, 12).responses[0].partition_responses
    assert [(one.index, one.error_code, one.base_offset) for one in answers] == [
        (0, ErrorCode.NO_ERROR, 0),
        (1, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        (3, ErrorCode.NO_ERROR, 0),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    assert [cluster.watermarks("a", index)[1] for index in range(4)] == [1, 0, 0, 2]


def broken_crc() -> bytes:
    data = bytearray(batch(b"value"))
    data[-1] ^= 1
    return bytes(data)


def wrong_count() -> bytes:
    data = bytearray(batch(b"value"))
    data[57:61] = (2).to_bytes(4, "big")
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (broken_crc(), ErrorCode.CORRUPT_MESSAGE),
        (batch(b"value")[:-1], ErrorCode.INVALID_RECORD),
        (batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (os.urandom(200), None),
        (MAGIC_0_SET, None),
        (wrong_count(), None),
        (batch(b"c", control=True), ErrorCode.INVALID_RECORD),
        (batch(bytes(2_000_000)), ErrorCode.MESSAGE_TOO_LARGE),
    ],
    ids=["crc", "cut", "two", "empty", "random", "magic 0", "count", "control", "large"],
)
def test_bad_batch_is_refused_and_nothing_is_stored(
    data: bytes, code: ErrorCode | None, cluster: MockCluster, wire: Wire
) -> None:
    cluster.create_topic("a")
    answer = produce(wire, "a", 0, data)
    refusals = {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD} if code is None else {code}
    assert answer.error_code in refusals
    assert answer.error_message
    assert cluster.watermarks("a", 0) == (0, 0)
    assert produce(wire, "a", 0, batch(b"good")).error_code == 0


def test_zstd_needs_a_newer_version(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    data = batch(b"x" * 100, codec="zstd")
    assert produce(wire, "a", 0, data, 6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(wire, "a", 0, data, 7).error_code == 0


def test_limits_of_cluster_and_topic() -> None:
    with MockCluster(1, message_max_bytes=100) as cluster, Wire(cluster) as wire:
        cluster.create_topic("small")
        cluster.create_topic("large", configs={"max.message.bytes": "1000"})
        data = batch(bytes(200))
        assert produce(wire, "small", 0, data).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert produce(wire, "large", 0, data).error_code == 0


def test_old_leader_names_the_new_one(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    cluster.move_leader("a", 0, 3)
    response = wire.ask(produce_request("a", 0, batch(b"x")), 12)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (3, 1)
    endpoint = response.node_endpoints[0]
    assert (endpoint.node_id, f"{endpoint.host}:{endpoint.port}") == (3, cluster.address(3))
    assert wire.ask(produce_request("a", 0, batch(b"x")), 9).node_endpoints == []


def test_cluster_can_omit_leader_hints() -> None:
    with MockCluster(2, leader_hints=False) as cluster, Wire(cluster, 2) as wire:
        cluster.create_topic("a")
        response = wire.ask(produce_request("a", 0, batch(b"x")), 12)
        assert response.responses[0].partition_responses[0].current_leader.leader_id == -1
        assert response.node_endpoints == []


def test_topic_ids_instead_of_names(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    assert produce(wire, "", 0, batch(b"x"), 13, cluster.topic_id("a")).error_code == 0
    assert produce(wire, "", 0, batch(b"x"), 13, b"1" * 16).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    old = cluster.topic_id("a")
    cluster.delete_topic("a")
    cluster.create_topic("a")
    assert cluster.topic_id("a") != old
    assert produce(wire, "", 0, batch(b"x"), 13, old).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_log_append_time_is_stamped(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a", configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    answer = produce(wire, "a", 0, batch(b"x", timestamp=5))
    assert before <= answer.log_append_time_ms <= time.time() * 1000
    (record,) = cluster.messages("a", 0)  # decoding checks the new checksum
    assert (record.timestamp, record.timestamp_type) == (answer.log_append_time_ms, 1)


def test_acks_0_is_stored_without_a_response(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    wire.send(produce_request("a", 0, batch(b"x"), acks=0), 12)
    assert wire.ask(MetadataRequest(topics=None), 12).brokers  # the next frame is this request's
    assert cluster.watermarks("a", 0) == (0, 1)
    wire.send(produce_request("a", 5, batch(b"x"), acks=0), 12)
    assert wire.is_closed()


def test_other_acks_are_refused(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    response = wire.ask(produce_request("a", 0, batch(b"x"), acks=2), 12)
    assert (
        response.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS
    )


def sequenced(sequence: int, count: int = 2, *, producer: int = 7, epoch: int = 0) -> bytes:
    return batch(
        *[b"x"] * count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence
    )


def test_sequences_are_kept_and_duplicates_found(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    assert [produce(wire, "a", 0, sequenced(number)).base_offset for number in (0, 2, 4)] == [
        0,
        2,
        4,
    ]
    again = produce(wire, "a", 0, sequenced(2))
    assert (again.error_code, again.base_offset) == (0, 2)
    assert cluster.watermarks("a", 0) == (0, 6)
    assert produce(wire, "a", 0, sequenced(8)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (
        produce(wire, "a", 0, sequenced(3, epoch=1)).error_code
        == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert produce(wire, "a", 0, sequenced(0, epoch=1)).error_code == 0
    assert produce(wire, "a", 0, sequenced(6)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    # a producer unknown so far
    assert produce(wire, "a", 0, sequenced(100, producer=8)).error_code == 0


def test_sequences_wrap_around(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    assert produce(wire, "a", 0, sequenced(0x7FFFFFFF)).error_code == 0
    assert produce(wire, "a", 0, sequenced(1)).error_code == 0
    assert produce(wire, "a", 0, sequenced(4)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_producer_ids_are_new_and_epochs_grow(wire: Wire) -> None:
    first = wire.ask(InitProducerIdRequest(transactional_id=None), 5)
    second = wire.ask(InitProducerIdRequest(transactional_id=None), 5)
    assert first.producer_id != second.producer_id
    assert (first.producer_epoch, second.producer_epoch) == (0, 0)
    bumped = wire.ask(
        InitProducerIdRequest(
            transactional_id=None,
            producer_id=first.producer_id,
            producer_epoch=first.producer_epoch,
        ),
        5,
    )
    assert (bumped.producer_id, bumped.producer_epoch) == (first.producer_id, 1)


def test_retention_drops_the_oldest_batches_of_all_partitions() -> None:
    data = batch(bytes(1000))
    limit = 10 * len(data)
    with MockCluster(1, retention_bytes=limit) as cluster, Wire(cluster) as wire:
        cluster.create_topic("a", 2)
        for number in range(30):
            produce(wire, "a", number % 2, data)
        assert cluster.kept_bytes == limit
        assert [cluster.watermarks("a", index) for index in (0, 1)] == [(10, 15), (10, 15)]
        cluster.delete_topic("a")
        cluster.create_topic("b")
        for _ in range(12):
            produce(wire, "b", 0, data)
        assert cluster.kept_bytes == limit
        assert cluster.watermarks("b", 0) == (2, 12)


def test_old_broker_takes_message_sets() -> None:
    plain = records.batch_headers(MAGIC_0_SET)
    assert [header.magic for header in plain] == [0]
    with (
        MockCluster(1, max_versions={ApiKey.PRODUCE: 2, ApiKey.FETCH: 3}) as cluster,
        Wire(cluster) as wire,
    ):
        cluster.create_topic("a")
        assert [produce(wire, "a", 0, MAGIC_0_SET * 2, 2).base_offset for _ in range(2)] == [0, 2]
        assert [record.offset for record in cluster.messages("a", 0)] == [0, 1, 2, 3]
        assert (
            produce(wire, "a", 0, batch(b"x"), 2).error_code
            == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        )
        assert (
            produce(wire, "a", 0, MAGIC_0_SET[:-1] + b"y", 2).error_code
            == ErrorCode.CORRUPT_MESSAGE
        )


def test_cost_of_a_megabyte(capsys: pytest.CaptureFixture[str]) -> None:
    """Print the cost of a request of 1 MB, without a limit."""
    data = batch(*[os.urandom(1000)] * 1000)
    count = 40
    with MockCluster(1, retention_bytes=8 << 20) as cluster, Wire(cluster) as wire:
        cluster.create_topic("a")
        for _ in range(12):
            assert produce(wire, "a", 0, data).error_code == 0
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            produce(wire, "a", 0, data)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    with capsys.disabled():
        print(
            f" [1 MB produced in {wall / count * 1e6:.0f} us, {cpu / count * 1e6:.0f} us CPU "
            "with its client]",
            end="",
        )
