"""Transactions of the mock cluster, in both versions, with librdkafka's and Java's producers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

import kafka_native
from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.mock.transactions import LAST_EPOCH, State
from kafka_native.protocol import ApiKey
from kafka_native.protocol.fetch import FetchRequest
from kafka_native.protocol.offsets import ListOffsetsRequest, OffsetFetchRequest
from kafka_native.protocol.producer_ids import InitProducerIdRequest
from kafka_native.protocol.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    TxnOffsetCommitRequest,
)
from kafka_native.protocol.versions import ApiVersionsRequest
from tests.broker import java
from tests.mock.wire import Wire, batch, fetch_request, produce

V1_PRODUCE, V1_END, V1_COMMIT = 11, 4, 4


@pytest.fixture
def alone() -> Iterator[tuple[MockCluster, Wire]]:
    """Yield a cluster with one broker, and a connection to it."""
    with MockCluster(brokers=1) as running, Wire(running) as connection:
        running.create_topic("t", 2)
        yield running, connection


class Producer:
    """The producer of a transactional id, by hand."""

    def __init__(self, wire: Wire, name: str = "tx", timeout_ms: int = 60_000) -> None:
        self.wire = wire
        self.name = name
        found = wire.ask(
            InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms), 5
        )
        assert found.error_code == ErrorCode.NO_ERROR
        self.id, self.epoch = found.producer_id, found.producer_epoch
        self.sequences: dict[int, int] = {}

    def add(self, *partitions: int, topic: str = "t") -> list[int]:
        """Add partitions in version 3, and return the error codes."""
        reply = self.wire.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))
                ],
            ),
            3,
        )
        return [
            each.partition_error_code
            for each in reply.results_by_topic_v3_and_below[0].results_by_partition
        ]

    def write(self, partition: int, *values: bytes, version: int = 12) -> int:
        """Produce a batch, and return the error code."""
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + len(values)
        data = batch(
            *values,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        code: int = produce(self.wire, "t", partition, data, version).error_code
        return code

    def end(self, *, commit: bool, version: int = 5) -> int:
        """End the transaction, take the next epoch, and return the error code."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        reply = self.wire.ask(request, version)
        if version >= 5 and reply.error_code == ErrorCode.NO_ERROR:
            self.id, self.epoch = reply.producer_id, reply.producer_epoch
            self.sequences.clear()
        code: int = reply.error_code
        return code

    def commit_offset(self, offset: int, version: int = 5, group: str = "g") -> int:
        """Commit an offset of partition 0 with TxnOffsetCommit, and return the error code."""
        part = TxnOffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequest.Topic(name="t", partitions=[part])],
        )
        code: int = self.wire.ask(request, version).topics[0].partitions[0].error_code
        return code


def committed(wire: Wire, group: str = "g") -> tuple[int, int]:
    """Return the stable stored offset of partition 0, and the error code."""
    topic = OffsetFetchRequest.Group.Topic(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequest.Group(group_id=group, topics=[topic])], require_stable=True
    )
    found = wire.ask(request, 9).groups[0].topics[0].partitions[0]
    return found.committed_offset, found.error_code


def stable_end(wire: Wire) -> int:
    asked = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        isolation_level=1, topics=[ListOffsetsRequest.Topic(name="t", partitions=[asked])]
    )
    offset: int = wire.ask(request, 7).topics[0].partitions[0].offset
    return offset


def fetched(wire: Wire, max_wait_ms: int = 0) -> Any:
    """Fetch partition 0 from the beginning with read_committed."""
    request: FetchRequest = fetch_request("t", {0: 0}, max_wait_ms=max_wait_ms)
    request.isolation_level = 1
    return wire.ask(request, 12).responses[0].partitions[0]


def test_api_versions_has_the_transaction_version(alone: tuple[MockCluster, Wire]) -> None:
    def level(wire: Wire) -> int:
        features = wire.ask(ApiVersionsRequest(), 3).finalized_features
        levels = {each.name: each.max_version_level for each in features}
        return int(levels["transaction.version"])

    assert level(alone[1]) == 2
    with MockCluster(brokers=1, transaction_version=1) as old, Wire(old) as wire:
        assert level(wire) == 1


def test_partitions_must_be_added_and_records_are_unstable_before_the_end(
    alone: tuple[MockCluster, Wire],
) -> None:
    cluster, wire = alone
    one = Producer(wire)
    assert one.write(0, b"early", version=V1_PRODUCE) == ErrorCode.INVALID_TXN_STATE
    one.sequences.clear()
    assert one.add(0, 9) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert one.add(0) == [ErrorCode.NO_ERROR]
    assert one.write(0, b"a", b"b", version=V1_PRODUCE) == ErrorCode.NO_ERROR
    assert (stable_end(wire), cluster.watermarks("t", 0)[1]) == (0, 2)
    assert fetched(wire).records in (b"", None)
    epoch = one.epoch
    assert one.end(commit=True, version=V1_END) == ErrorCode.NO_ERROR
    assert one.epoch == epoch
    assert one.end(commit=True, version=V1_END) == ErrorCode.NO_ERROR, (
        "a repeated request has the same result"
    )
    assert one.end(commit=False, version=V1_END) == ErrorCode.INVALID_TXN_STATE
    assert stable_end(wire) == 3, "two records and the marker"
    assert (fetched(wire).last_stable_offset, fetched(wire).aborted_transactions) == (3, [])


def test_offsets_are_committed_by_topic_id(alone: tuple[MockCluster, Wire]) -> None:
    cluster, wire = alone
    cluster.create_topic("other")
    one = Producer(wire)
    kind, own, unknown = TxnOffsetCommitRequest.Topic, cluster.topic_id("t"), b"1" * 16

    def commit(*topics: tuple[bytes, str, int], version: int = 6, **member: Any) -> list[int]:
        request = TxnOffsetCommitRequest(
            transactional_id=one.name,
            group_id=member.pop("group", "g"),
            producer_id=one.id,
            producer_epoch=one.epoch,
            topics=[
                kind(
                    topic_id=topic_id,
                    name=name,
                    partitions=[kind.Partition(partition_index=index, committed_offset=7)],
                )
                for topic_id, name, index in topics
            ],
            **member,
        )
        found = wire.ask(request, version).topics
        assert [each.topic_id for each in found] == [
            topic_id if version >= 6 else bytes(16) for topic_id, _, _ in topics
        ]
        return [topic.partitions[0].error_code for topic in found]

    by_id, by_name = (own, "", 0), (bytes(16), "t", 0)
    assert commit(by_id, (own, "", 77), (unknown, "", 0), by_name) == [
        ErrorCode.NO_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert commit(by_name, (bytes(16), "none", 0), version=5) == [
        ErrorCode.NO_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    member: dict[str, Any] = {"group": "new", "member_id": "m", "generation_id_or_member_epoch": 3}
    assert commit(by_id, **member) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert commit(by_name, version=5, **member) == [ErrorCode.ILLEGAL_GENERATION]
    assert one.end(commit=True) == ErrorCode.NO_ERROR
    assert committed(wire) == (7, ErrorCode.NO_ERROR)


def test_write_adds_its_partition_and_each_end_bumps_epoch(alone: tuple[MockCluster, Wire]) -> None:
    cluster, wire = alone
    one = Producer(wire)
    late = Producer.__new__(Producer)
    late.__dict__.update(vars(one), sequences={})
    assert one.write(0, b"a") == ErrorCode.NO_ERROR
    assert one.end(commit=False) == ErrorCode.NO_ERROR
    assert one.epoch == late.epoch + 1
    assert late.end(commit=False) == ErrorCode.NO_ERROR, (
        "a client without a response repeats its request"
    )
    assert late.epoch == one.epoch
    late.epoch -= 1
    assert late.write(0, b"late") == ErrorCode.INVALID_PRODUCER_EPOCH, (
        "a late write doesn't get into the next transaction"
    )
    assert late.end(commit=True) == ErrorCode.INVALID_TXN_STATE, (
        "the transaction was aborted, so a repeated request can't commit it"
    )
    assert one.end(commit=True) == ErrorCode.INVALID_TXN_STATE, "no transaction is open"
    assert one.end(commit=False) == ErrorCode.NO_ERROR, (
        "an abort is possible, because writes may be in flight"
    )
    assert one.write(0, b"b") == ErrorCode.NO_ERROR
    assert one.end(commit=True) == ErrorCode.NO_ERROR
    found = fetched(wire)
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions] == [
        (one.id, 0)
    ]
    assert [record.value for record in cluster.messages("t", 0)][::2] == [b"a", b"b"]


def test_offsets_are_stored_with_the_commit_and_unstable_before(
    alone: tuple[MockCluster, Wire],
) -> None:
    _, wire = alone
    one = Producer(wire)
    assert one.commit_offset(5, V1_COMMIT) == ErrorCode.INVALID_TXN_STATE, "the group wasn't added"
    added = AddOffsetsToTxnRequest(
        transactional_id="tx", producer_id=one.id, producer_epoch=one.epoch, group_id="g"
    )
    assert wire.ask(added, 3).error_code == ErrorCode.NO_ERROR
    assert one.commit_offset(5, V1_COMMIT) == ErrorCode.NO_ERROR
    assert committed(wire)[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert one.end(commit=False, version=V1_END) == ErrorCode.NO_ERROR
    assert committed(wire) == (-1, ErrorCode.NO_ERROR)
    assert one.commit_offset(6) == ErrorCode.NO_ERROR, "the newest version adds the group"
    assert one.end(commit=True) == ErrorCode.NO_ERROR
    assert committed(wire) == (6, ErrorCode.NO_ERROR)


def test_a_new_instance_fences_the_old_one_and_aborts_its_transaction(
    alone: tuple[MockCluster, Wire],
) -> None:
    cluster, wire = alone
    old = Producer(wire)
    assert old.write(0, b"open") == ErrorCode.NO_ERROR
    asked = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
    assert wire.ask(asked, 5).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    new = Producer(wire)
    assert (new.id, new.epoch > old.epoch + 1) == (old.id, True)
    assert old.write(0, b"zombie") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.add(0) == [ErrorCode.PRODUCER_FENCED]
    assert old.commit_offset(1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.end(commit=True) == ErrorCode.PRODUCER_FENCED
    assert fetched(wire).aborted_transactions[0].producer_id == old.id
    resumed = InitProducerIdRequest(
        transactional_id="tx",
        transaction_timeout_ms=60_000,
        producer_id=new.id,
        producer_epoch=new.epoch,
    )
    assert wire.ask(resumed, 5).producer_epoch == new.epoch + 1, (
        "the owner of the id gets the next epoch"
    )
    assert wire.ask(resumed, 5).error_code == ErrorCode.PRODUCER_FENCED
    found = cluster.transactions.find("tx")
    assert found is not None
    found.epoch = LAST_EPOCH
    newest = Producer(wire)
    assert (newest.id != new.id, newest.epoch) == (True, 0), (
        "an id without further epochs is replaced"
    )


def test_a_prepared_transaction_is_kept_for_the_next_instance() -> None:
    """KIP-939: later instances get it too, even if the producer id has no epochs left."""

    def kept(wire: Wire) -> tuple[int, int]:
        asked = InitProducerIdRequest(
            transactional_id="tx", enable2_pc=True, keep_prepared_txn=True
        )
        found = wire.ask(asked, 6)
        assert found.error_code == ErrorCode.NO_ERROR
        newest.id, newest.epoch = found.producer_id, found.producer_epoch
        return found.ongoing_txn_producer_id, found.ongoing_txn_producer_epoch

    with MockCluster(brokers=1, two_phase_commit=True) as running, Wire(running) as wire:
        running.create_topic("t", 1)
        old, newest = Producer(wire), Producer(wire)
        old.epoch = newest.epoch
        assert kept(wire) == (-1, -1), "nothing is open"
        old.epoch = newest.epoch
        assert old.write(0, b"prepared") == ErrorCode.NO_ERROR
        for _ in range(2):
            assert kept(wire) == (old.id, old.epoch)
            assert old.write(0, b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
        found = running.transactions.find("tx")
        assert found is not None
        found.epoch = LAST_EPOCH
        assert kept(wire) == (old.id, old.epoch)
        assert newest.id != old.id
        assert stable_end(wire) == 0
        assert old.end(commit=True) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert newest.end(commit=True) == ErrorCode.NO_ERROR
        assert (stable_end(wire), fetched(wire).aborted_transactions) == (2, [])
        assert kept(wire) == (-1, -1)


@pytest.mark.parametrize(
    ("name", "timeout_ms", "code"),
    [
        ("", 1000, ErrorCode.INVALID_REQUEST),
        ("tx", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("tx", 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_wrong_transactional_ids_and_timeouts_are_refused(
    alone: tuple[MockCluster, Wire], name: str, timeout_ms: int, code: int
) -> None:
    asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms)
    assert alone[1].ask(asked, 5).error_code == code


def test_strangers_and_wrong_brokers_are_refused(cluster: MockCluster) -> None:
    cluster.create_topic("t", 2)
    owner = cluster.coordinator_of("tx")
    assert owner is not None
    with Wire(cluster, owner.id) as right, Wire(cluster, owner.id % 3 + 1) as wrong:
        asked = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
        assert wrong.ask(asked, 5).error_code == ErrorCode.NOT_COORDINATOR
        one = Producer(right)
        one.id += 7
        assert one.end(commit=True) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_transaction_that_takes_too_long_is_aborted_and_cannot_be_committed(
    alone: tuple[MockCluster, Wire],
) -> None:
    cluster, wire = alone
    one = Producer(wire, timeout_ms=50)
    assert one.write(0, b"slow") == ErrorCode.NO_ERROR
    deadline = time.monotonic() + 30
    while fetched(wire, max_wait_ms=200).last_stable_offset < 2:
        assert time.monotonic() < deadline
    found = cluster.transactions.find("tx")
    assert found is not None
    assert (found.state, found.epoch) == (State.ABORTED, one.epoch + 1)
    assert one.end(commit=True, version=V1_END) == ErrorCode.PRODUCER_FENCED
    assert one.end(commit=True) == ErrorCode.INVALID_TXN_STATE
    assert one.end(commit=False) == ErrorCode.NO_ERROR, (
        "KIP-890: the producer gets the new epoch and continues"
    )
    assert one.epoch == found.epoch


def test_pushed_errors_are_in_the_results_of_partitions(alone: tuple[MockCluster, Wire]) -> None:
    cluster, wire = alone
    one = Producer(wire)
    cluster.push_request_errors(ApiKey.ADD_PARTITIONS_TO_TXN, [ErrorCode.CONCURRENT_TRANSACTIONS])
    assert one.add(0, 1) == [ErrorCode.CONCURRENT_TRANSACTIONS] * 2
    assert one.add(0) == [ErrorCode.NO_ERROR]
    cluster.push_request_errors(ApiKey.TXN_OFFSET_COMMIT, [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
    assert one.commit_offset(5) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.push_request_errors(ApiKey.END_TXN, [ErrorCode.COORDINATOR_NOT_AVAILABLE], done=True)
    epoch = one.epoch
    assert one.end(commit=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert one.end(commit=True) == ErrorCode.NO_ERROR, (
        "the repeated request reports the first one's result"
    )
    assert one.epoch == epoch + 1


def values_of(lib: Any, cluster: MockCluster, isolation: str) -> list[str]:
    """Return the values that a reader gets from both partitions."""
    conf = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "readers",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = lib.Consumer(conf)
    consumer.assign([lib.TopicPartition("t", number, 0) for number in range(2)])
    found, ends, deadline = [], 0, time.monotonic() + 60
    while ends < 2:
        assert time.monotonic() < deadline
        message = consumer.poll(1)
        if message is not None and message.error():
            assert message.error().code() == lib.KafkaError._PARTITION_EOF
            ends += 1
        elif message is not None:
            found.append(message.value().decode())
    consumer.close()
    return sorted(found)


@pytest.mark.parametrize("version", [1, 2])
def test_librdkafkas_transactions(version: int) -> None:
    with MockCluster(brokers=3, transaction_version=version) as cluster:
        cluster.create_topic("t", 2)
        conf = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        producer = confluent_kafka.Producer({**conf, "transactional.id": "tx"})
        producer.init_transactions(60)
        reader = confluent_kafka.Consumer({**conf, "group.id": "g"})
        for name, ends in (("a", producer.commit_transaction), ("b", producer.abort_transaction)):
            producer.begin_transaction()
            for number in range(4):
                producer.produce("t", f"{name}{number}", partition=number % 2)
            position = confluent_kafka.TopicPartition("t", 0, ord(name))
            producer.send_offsets_to_transaction([position], reader.consumer_group_metadata(), 60)
            assert producer.flush(60) == 0  # an abort would discard unsent messages
            ends(60)
        producer.begin_transaction()
        producer.produce("t", "open", partition=0)
        assert producer.flush(60) == 0
        for lib in (confluent_kafka, kafka_native):
            assert values_of(lib, cluster, "read_committed") == ["a0", "a1", "a2", "a3"]
            everything = ["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3", "open"]
            assert values_of(lib, cluster, "read_uncommitted") == everything
        (stored,) = reader.committed([confluent_kafka.TopicPartition("t", 0)], timeout=60)
        assert stored.offset == ord("a")
        reader.close()


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.skipif(java.missing() is not None, reason=str(java.missing()))
def test_javas_transactions(cluster: MockCluster) -> None:
    cluster.create_topic("t", 3)
    where = ("--bootstrap-server", cluster.bootstrap_servers)
    load = ("--num-records", "3000", "--record-size", "10", "--throughput", "10000")
    kept = ("--transactional-id", "java", "--transaction-duration-ms", "20")
    java.java_tool(
        "org.apache.kafka.tools.ProducerPerformance", *where, "--topic", "t", *load, *kept
    )
    assert {each.version for each in cluster.requests_of(ApiKey.END_TXN)} == {5}, (
        "transactions of KIP-890"
    )
    assert cluster.requests_of(ApiKey.ADD_PARTITIONS_TO_TXN) == []
    ends = ("--max-messages", "3000", "--timeout-ms", "120000", "--from-beginning")
    stable = ("--isolation-level", "read_committed")
    read = java.java_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", *where, "--topic", "t", *ends, *stable
    )
    assert len(read.decode().splitlines()) == 3000
    found = cluster.transactions.find("java")
    assert found is not None
    assert found.state is State.COMMITTED
    assert sum(cluster.watermarks("t", number)[1] for number in range(3)) > 3000, (
        "markers count too"
    )
