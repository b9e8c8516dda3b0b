"""Transactions of AIOProducer, on the mock cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from kafka_native import KafkaError, KafkaException, PreparedTxnState, TopicPartition
from kafka_native.aio import AIOConsumer, AIOProducer
from kafka_native.mock import MockCluster
from kafka_native.mock.transactions import State
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

from .support import in_loop, kafka_error


@pytest.fixture(params=[1, 2], scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[MockCluster]:
    with MockCluster(brokers=3, transaction_version=request.param) as running:
        yield running


@pytest.fixture
def topic(cluster: MockCluster, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name.replace("[", "-").replace("]", "")
    cluster.create_topic(name, 1)
    return name


def producer_of(cluster: MockCluster, topic: str) -> AIOProducer:
    return AIOProducer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": topic,
            "retry.backoff.ms": 10,
        }
    )


async def seen(cluster: MockCluster, topic: str, count: int) -> list[bytes | None]:
    conf = {"bootstrap.servers": cluster.bootstrap_servers, "isolation.level": "read_committed"}
    async with AIOConsumer(conf) as consumer:
        await consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in await consumer.consume(count, WAIT_S)]


@in_loop
async def test_blocks_commit_and_abort(cluster: MockCluster, topic: str) -> None:
    async def failing(producer: AIOProducer) -> None:
        async with producer.transaction(timeout=WAIT_S):
            await producer.produce(topic, "lost")
            raise ValueError("oops")

    async with producer_of(cluster, topic) as producer:
        await producer.init_transactions(WAIT_S)
        async with producer.transaction(timeout=WAIT_S):
            await producer.produce(topic, "kept")
        with pytest.raises(ValueError, match="oops"):
            await failing(producer)
        await producer.begin_transaction()
        delivery = await producer.produce(topic, "also kept")
        await producer.commit_transaction(WAIT_S)
        assert (await delivery).error() is None
    assert await seen(cluster, topic, 2) == [b"kept", b"also kept"]


async def half_written_block(producer: AIOProducer, topic: str) -> asyncio.Task[None]:
    """Return a task in the block of a transaction, after a message was written."""
    written = asyncio.Event()

    async def block() -> None:
        async with producer.transaction(timeout=WAIT_S):
            await (await producer.produce(topic, "half"))
            written.set()
            await asyncio.sleep(WAIT_S)

    task = asyncio.create_task(block())
    await asyncio.wait_for(written.wait(), WAIT_S)
    return task


@in_loop
async def test_a_block_that_is_cancelled_is_aborted(cluster: MockCluster, topic: str) -> None:
    async with producer_of(cluster, topic) as producer:
        await producer.init_transactions(WAIT_S)
        task = await half_written_block(producer, topic)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert state_of(cluster, topic) is State.ABORTED


def state_of(cluster: MockCluster, topic: str) -> State | None:
    found = cluster.transactions.find(topic)
    return None if found is None else found.state


@pytest.mark.parametrize("cancels", [1, 2])
@in_loop
async def test_block_that_is_cancelled_while_it_begins_leaves_no_transaction_open(
    cluster: MockCluster, topic: str, cancels: int
) -> None:
    async with producer_of(cluster, topic) as producer:
        await producer.init_transactions(WAIT_S)

        async def block() -> None:
            async with producer.transaction(timeout=WAIT_S):
                await producer.produce(topic, "never")

        task = asyncio.create_task(block())
        for _ in range(cancels):
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with producer.transaction(timeout=WAIT_S):
            await producer.produce(topic, "next")
    assert await seen(cluster, topic, 1) == [b"next"]


@pytest.mark.parametrize("is_cancelled", [False, True])
@in_loop
async def test_block_that_could_not_begin_aborts_no_other_transaction(
    cluster: MockCluster, topic: str, is_cancelled: bool
) -> None:
    async with producer_of(cluster, topic) as producer:
        await producer.init_transactions(WAIT_S)

        async def block() -> None:
            async with producer.transaction(timeout=WAIT_S):
                raise AssertionError("it has begun")

        await producer.begin_transaction()
        await producer.produce(topic, "kept")
        task = asyncio.create_task(block())
        await asyncio.sleep(0)
        if is_cancelled:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with kafka_error(KafkaError._STATE):
                await task
        await producer.commit_transaction(WAIT_S)
    assert await seen(cluster, topic, 1) == [b"kept"]


@pytest.mark.parametrize("follows", ["block", "abort", "close"])
@in_loop
async def test_abort_continues_when_the_block_is_cancelled_again(
    cluster: MockCluster, topic: str, follows: str
) -> None:
    producer = producer_of(cluster, topic)
    await producer.init_transactions(WAIT_S)
    task = await half_written_block(producer, topic)
    cluster.delay_responses(None, 0.5, ApiKey.END_TXN)
    try:
        task.cancel()
        await asyncio.sleep(0)  # the abort has begun
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if follows == "block":
            async with producer.transaction(timeout=WAIT_S):
                await producer.produce(topic, "next")
        elif follows == "abort":
            await producer.abort_transaction(WAIT_S)
            async with producer.transaction(timeout=WAIT_S):
                await producer.produce(topic, "next")
    finally:
        await producer.close()
        cluster.delay_responses(None, 0.0, ApiKey.END_TXN)
    if follows == "close":
        assert state_of(cluster, topic) is State.ABORTED
    else:
        assert await seen(cluster, topic, 1) == [b"next"]


@in_loop
async def test_commit_that_timed_out_in_a_busy_client_can_be_called_again(
    cluster: MockCluster, topic: str
) -> None:
    async def block(producer: AIOProducer) -> None:
        async with producer.transaction(timeout=0.0):
            await producer.produce(topic, "kept")
            await producer.flush(WAIT_S)
            # keep the control thread busy for longer than other calls wait for it
            producer._core._client.main.post(lambda: time.sleep(2.0))

    async with producer_of(cluster, topic) as producer:
        await producer.init_transactions(WAIT_S)
        with pytest.raises(KafkaException) as caught:
            await block(producer)
        error = caught.value.args[0]
        assert (error == KafkaError._TIMED_OUT, error.retriable()) == (True, True)
        await producer.commit_transaction(WAIT_S)
    assert await seen(cluster, topic, 1) == [b"kept"]


@in_loop
async def test_close_ends_a_commit_that_waits(cluster: MockCluster, topic: str) -> None:
    cluster.push_request_errors(ApiKey.END_TXN, [KafkaError.COORDINATOR_LOAD_IN_PROGRESS] * 100_000)
    try:
        producer = producer_of(cluster, topic)
        await producer.init_transactions(WAIT_S)
        await producer.begin_transaction()
        await producer.produce(topic, "not yet")
        await producer.flush(WAIT_S)
        cluster.clear_requests()
        commit = asyncio.create_task(producer.commit_transaction())
        # after the second request the commit waits to retry, without a request in flight
        while len(cluster.requests_of(ApiKey.END_TXN)) < 2:
            await asyncio.sleep(0.01)
        await producer.close(0)
        with kafka_error(KafkaError._DESTROY):
            await asyncio.wait_for(commit, WAIT_S)
    finally:
        cluster.faults.clear()


@in_loop
async def test_transaction_commits_consumers_positions(cluster: MockCluster, topic: str) -> None:
    conf = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": topic,
        "auto.offset.reset": "earliest",
    }
    async with producer_of(cluster, topic) as producer, AIOConsumer(conf) as consumer:
        await producer.init_transactions(WAIT_S)
        async with producer.transaction(timeout=WAIT_S):
            await producer.produce(topic, "in")
        await consumer.assign([TopicPartition(topic, 0)])
        (message,) = await consumer.consume(1, WAIT_S)
        async with producer.transaction(consumer, WAIT_S):
            await producer.produce(topic, message.value())
        (stored,) = await consumer.committed([TopicPartition(topic, 0)], WAIT_S)
        assert stored.offset == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@in_loop
async def test_expelled_member_commits_no_positions(
    cluster: MockCluster, topic: str, protocol: str
) -> None:
    """Its messages may belong to another member now. Brokers would accept the offsets."""
    conf = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": topic,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        **({"heartbeat.interval.ms": 100} if protocol == "classic" else {}),
    }
    cluster.set_heartbeat_interval(0.1)
    async with producer_of(cluster, topic) as producer, AIOConsumer(conf) as consumer:
        await producer.init_transactions(WAIT_S)
        async with producer.transaction(timeout=WAIT_S):
            await producer.produce(topic, "in")
        await consumer.subscribe([topic])
        assert len(await consumer.consume(1, WAIT_S)) == 1
        member = consumer.memberid()
        assert member is not None
        cluster.expel_member(topic, member)
        deadline = time.monotonic() + WAIT_S
        while (await consumer.consumer_group_metadata()).generation >= 0:
            assert time.monotonic() < deadline, "the consumer doesn't know that it was expelled"
            await asyncio.sleep(0.01)
        with kafka_error(KafkaError._ASSIGNMENT_LOST):
            async with producer.transaction(consumer, WAIT_S):
                pass
        (stored,) = await consumer.committed([TopicPartition(topic, 0)], WAIT_S)
        assert stored.offset < 0


@in_loop
async def test_producer_without_transactional_id_refuses_transactions(
    cluster: MockCluster, topic: str
) -> None:
    async with AIOProducer({"bootstrap.servers": cluster.bootstrap_servers}) as plain:
        with kafka_error(KafkaError._NOT_CONFIGURED):
            await plain.init_transactions(WAIT_S)


@pytest.mark.parametrize("commits", [True, False], ids=["committed", "aborted"])
@pytest.mark.parametrize("keeps_prepared", [True, False], ids=["kept by brokers", "old brokers"])
@in_loop
async def test_prepared_transaction_ends_as_decided(keeps_prepared: bool, commits: bool) -> None:
    topic = "two-phase"
    with MockCluster(brokers=1, two_phase_commit=True) as cluster:
        cluster.create_topic(topic, 1)
        conf = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": topic,
            "transaction.two.phase.commit.enable": True,
        }
        async with AIOProducer(conf) as old, AIOProducer(conf) as new:
            await old.init_transactions(WAIT_S)
            await old.begin_transaction()
            await old.produce(topic, "one")
            state = await old.prepare_transaction(WAIT_S)
            with kafka_error(KafkaError._STATE):
                await old.begin_transaction()
            if not keeps_prepared:
                cluster.push_request_errors(
                    ApiKey.INIT_PRODUCER_ID, [KafkaError.UNSUPPORTED_VERSION]
                )
            await new.init_transactions(WAIT_S, keep_prepared_txn=True)
            await new.complete_transaction(state if commits else PreparedTxnState(), WAIT_S)
            async with new.transaction(timeout=WAIT_S):
                await new.produce(topic, "two")
        expected: list[bytes | None] = [b"one", b"two"] if commits else [b"two"]
        assert await seen(cluster, topic, len(expected)) == expected
