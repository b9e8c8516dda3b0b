"""Transactions in an operator's view, on a real Apache Kafka. Its own tools check the results."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException, TopicPartition
from kafka_native.admin import AdminClient, TransactionState
from kafka_native.errors import ErrorCode
from kafka_native.protocol.producer_ids import InitProducerIdRequest
from tests.broker.cluster import Cluster
from tests.broker.java import TRANSACTIONS
from tests.broker.support import TopicMaker, admin_of, leaders, our_consumer, our_producer, running
from tests.mock import wire
from tests.waiting import WAIT_S, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow]

HOUR_MS = 3_600_000

Tool = Callable[..., bytes]


@pytest.fixture(scope="module")
def trusting() -> Iterator[Cluster]:
    """Yield one broker that, like those before 3.6, accepts transactional batches without its
    coordinator.
    """
    with running(3, changes={"transaction.partition.verification.enable": "false"}) as cluster:
        yield cluster


def rows(tool: Tool, cluster: Cluster, *command: str) -> list[dict[str, str]]:
    """Return the table that kafka-transactions.sh prints."""
    lines = (
        tool(TRANSACTIONS, "--bootstrap-server", cluster.bootstrap, *command).decode().splitlines()
    )
    head_at = next(number for number, line in enumerate(lines) if "\t" in line)
    names, *found = ([each.strip() for each in line.split("\t")] for line in lines[head_at:])
    return [dict(zip(names, each, strict=True)) for each in found]


def test_transactions_are_listed_described_and_fenced(
    trusting: Cluster, new_topic: TopicMaker, tool: Tool
) -> None:
    topic, name = new_topic(trusting), f"seen-{uuid.uuid4().hex[:8]}"
    place = TopicPartition(topic, 0)
    conf = {"bootstrap.servers": trusting.bootstrap}
    with AdminClient(conf) as admin, our_producer(trusting, transactional_id=name) as producer:
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        producer.produce(topic, b"x", partition=0)
        assert producer.flush(WAIT_S) == 0
        described = admin.describe_transactions([name])[name].result(WAIT_S)
        assert (described.state, described.topic_partitions) == (TransactionState.ONGOING, [place])
        assert abs((described.transaction_start_time_ms or 0) / 1000 - time.time()) < WAIT_S
        (row,) = rows(tool, trusting, "describe", "--transactional-id", name)
        assert (int(row["ProducerId"]), int(row["ProducerEpoch"])) == (
            described.producer_id,
            described.producer_epoch,
        )
        assert (row["TransactionState"], row["TopicPartitions"]) == ("Ongoing", f"{topic}-0")
        assert int(row["TransactionTimeoutMs"]) == described.transaction_timeout_ms

        found = admin.list_transactions(
            states={TransactionState.ONGOING},
            producer_ids={described.producer_id},
            duration_ms=0,
            transactional_id_pattern="seen-.*",
        ).result(WAIT_S)
        assert found.errors == []
        assert [(each.transactional_id, each.state) for each in found.valid] == [
            (name, TransactionState.ONGOING)
        ]
        assert admin.list_transactions(transactional_id_pattern="seen-").result(WAIT_S).valid == []
        with_old = admin.list_transactions(duration_ms=HOUR_MS).result(WAIT_S)
        assert name not in {each.transactional_id for each in with_old.valid}

        (state,) = admin.describe_producers([place])[place].result(WAIT_S)
        (row,) = rows(tool, trusting, "describe-producers", "--topic", topic, "--partition", "0")
        assert (
            int(row["CurrentTransactionStartOffset"]) == state.current_transaction_start_offset == 0
        )
        assert int(row["LastTimestamp"]) == state.last_timestamp
        assert int(row["LatestCoordinatorEpoch"]) == (
            -1 if state.coordinator_epoch is None else state.coordinator_epoch
        )
        nothing = admin.find_hanging_transactions([place], max_transaction_timeout_ms=0).result(
            WAIT_S
        )
        assert (nothing.valid, nothing.errors) == ([], {}), "its coordinator has it"

        fenced = admin.fence_producers([name])[name].result(WAIT_S)
        assert fenced.producer_epoch > described.producer_epoch
        with pytest.raises(KafkaException) as refused:
            producer.commit_transaction(WAIT_S)
        assert refused.value.args[0].code() in (KafkaError._FENCED, KafkaError._FATAL)
        (row,) = rows(tool, trusting, "describe", "--transactional-id", name)
        assert row["TransactionState"] in ("CompleteAbort", "Empty")
        unknown = admin.describe_transactions(["never-was"])["never-was"]
        with pytest.raises(KafkaException) as missing:
            unknown.result(WAIT_S)
        assert missing.value.args[0].code() == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def hang(cluster: Cluster, topic: str) -> int:
    """Write in a transaction that no coordinator has, and return the producer id."""
    leader = cluster.admin().list_topics(timeout=10).brokers[leaders(cluster, topic)[0]]
    where: Any = SimpleNamespace(address=lambda broker: f"{leader.host}:{leader.port}")
    with wire.Wire(where) as connection:
        asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        # A new broker has no producer ids yet.
        identity: Any = wait_for(
            lambda: (
                identified if (identified := connection.ask(asked, 5)).error_code == 0 else None
            ),
            "a producer id",
        )
        now_ms = int(time.time() * 1000)
        data = wire.batch(
            b"hanging",
            timestamp=now_ms - HOUR_MS,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        request = wire.produce_request(topic, 0, data, acks=-1)
        request.transactional_id, request.timeout_ms = "by-hand", 10_000
        answer = connection.ask(request, 11).responses[0].partition_responses[0]
        assert answer.error_code == 0, answer
        producer_id: int = identity.producer_id
        return producer_id


def test_a_hanging_transaction_is_found_and_aborted(
    trusting: Cluster, new_topic: TopicMaker, tool: Tool
) -> None:
    topic = new_topic(trusting, 2)
    place = TopicPartition(topic, 0)
    producer_id = hang(trusting, topic)
    with our_producer(trusting) as producer:
        producer.produce(topic, b"behind", partition=0)
        assert producer.flush(WAIT_S) == 0
    with admin_of(trusting) as admin:
        for found in (
            admin.find_hanging_transactions([place, TopicPartition(topic, 1)]).result(WAIT_S),
            admin.find_hanging_transactions().result(WAIT_S),
            admin.find_hanging_transactions(broker=1).result(WAIT_S),
        ):
            assert found.errors == {}
            (hanging,) = found.valid
            assert (hanging.topic_partition, hanging.producer.producer_id) == (place, producer_id)
            assert hanging.producer.current_transaction_start_offset == 0
        (row,) = rows(tool, trusting, "find-hanging", "--topic", topic)
        assert (row["Topic"], row["Partition"], int(row["ProducerId"])) == (topic, "0", producer_id)
        with our_consumer(
            trusting, group_id="committed", isolation_level="read_committed"
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            assert consumer.poll(2.0) is None, "no committed reader gets past it"
            assert admin.abort_transaction(hanging.abort_spec).result(WAIT_S) is None
            message = wait_for(lambda: consumer.poll(1.0), "the message behind it")
            assert message.value() == b"behind"
        assert admin.find_hanging_transactions([place]).result(WAIT_S).valid == []
        assert rows(tool, trusting, "find-hanging", "--topic", topic) == []
        stale = admin.abort_transaction(hanging.abort_spec)
        assert stale.exception(WAIT_S) is None, "a repeated abort is no error"
