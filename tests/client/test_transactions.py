"""The transactional producer on the mock cluster: readers' views, errors, both versions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from kafka_native import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.mock.transactions import LAST_EPOCH, State
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S, wait_for

from .bank import Bank, error_of
from .support import Client, assigned, deliver


@pytest.fixture(params=[1, 2], scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[MockCluster]:
    with MockCluster(brokers=3, transaction_version=request.param) as running:
        yield running


def test_readers_see_exactly_the_committed_transactions(bank: Bank) -> None:
    producer = bank.producer()
    for name, end in (("a", producer.commit_transaction), ("b", producer.abort_transaction)):
        producer.begin_transaction()
        for number in range(4):
            producer.produce(bank.topic, f"{name}{number}", partition=number % 2)
        assert producer.flush(WAIT_S) == 0
        end(WAIT_S)
    producer.begin_transaction()
    deliver(producer, bank.topic, "open", partition=0)
    assert bank.seen() == ["a0", "a1", "a2", "a3"]
    assert bank.seen("read_uncommitted") == ["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3", "open"]
    producer.commit_transaction(WAIT_S)
    assert bank.seen() == ["a0", "a1", "a2", "a3", "open"]


@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction"])
def test_two_threads_that_end_a_transaction_both_return(bank: Bank, call: str) -> None:
    producer = bank.producer()
    producer.begin_transaction()
    deliver(producer, bank.topic, "x", partition=0)
    bank.cluster.delay_responses(None, 0.3, ApiKey.END_TXN)
    try:
        threads = [threading.Thread(target=getattr(producer, call), daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert [thread.is_alive() for thread in threads] == [False, False]
    finally:
        bank.cluster.delay_responses(None, 0, ApiKey.END_TXN)
    producer.begin_transaction()
    producer.abort_transaction(WAIT_S)


def test_commit_delivers_queued_messages_and_abort_discards_them(bank: Bank) -> None:
    reports: list[tuple[int | None, str]] = []

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        reports.append((error and error.code(), message.value().decode()))

    producer = bank.producer(**{"linger.ms": 5000})
    producer.begin_transaction()
    producer.produce(bank.topic, "kept", on_delivery=on_delivery)
    producer.commit_transaction(WAIT_S)
    producer.begin_transaction()
    producer.produce(bank.topic, "dropped", on_delivery=on_delivery)
    producer.abort_transaction(WAIT_S)
    assert reports == [(None, "kept"), (KafkaError._PURGE_QUEUE, "dropped")]
    assert bank.seen("read_uncommitted") == ["kept"]


def test_offsets_are_committed_with_the_transaction(bank: Bank) -> None:
    producer = bank.producer()
    with bank.consumer() as consumer:
        place = TopicPartition(bank.topic, 0)
        for offset, end in ((5, producer.abort_transaction), (7, producer.commit_transaction)):
            producer.begin_transaction()
            positions = [TopicPartition(bank.topic, 0, offset), TopicPartition(bank.topic, 1)]
            producer.send_offsets_to_transaction(
                positions, consumer.consumer_group_metadata(), WAIT_S
            )
            end(WAIT_S)
        assert [each.offset for each in consumer.committed([place], WAIT_S)] == [7]
        with pytest.raises(TypeError, match="consumer_group_metadata"):
            producer.send_offsets_to_transaction([place], "group")  # type: ignore[arg-type]


def test_the_block_commits_and_aborts_and_takes_the_consumers_positions(bank: Bank) -> None:
    source = f"{bank.topic}-in"
    bank.cluster.create_topic(source, 1)
    with Producer({"bootstrap.servers": bank.cluster.bootstrap_servers}) as filling:
        filling.produce_many(source, [str(number) for number in range(3)])
    producer = bank.producer()
    conf = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    with bank.consumer(**conf) as consumer:
        consumer.subscribe([source])
        taken = consumer.consume(3, WAIT_S)
        assert len(taken) == 3
        with suppress(ValueError), producer.transaction(consumer, WAIT_S):
            producer.produce(bank.topic, "lost")
            raise ValueError("oops")
        [place] = consumer.committed(consumer.assignment(), WAIT_S)
        assert place.offset == OFFSET_INVALID
        with producer.transaction(consumer, WAIT_S):
            for message in taken:
                producer.produce(bank.topic, message.value())
        [place] = consumer.committed(consumer.assignment(), WAIT_S)
        assert place.offset == 3
    assert bank.seen() == ["0", "1", "2"]


def test_calls_in_a_wrong_state_raise(bank: Bank) -> None:
    plain = Producer({"bootstrap.servers": bank.cluster.bootstrap_servers})
    error = error_of(plain.init_transactions)
    assert (error == KafkaError._NOT_CONFIGURED, "transactional.id" in error.str()) == (True, True)
    plain.close()
    producer = bank.producer()
    assert error_of(producer.produce, bank.topic, "outside") == KafkaError._STATE
    assert error_of(producer.produce_many, bank.topic, ["outside"]) == KafkaError._STATE
    assert error_of(producer.commit_transaction, WAIT_S) == KafkaError._STATE
    assert error_of(producer.abort_transaction, WAIT_S) == KafkaError._STATE
    assert error_of(producer.init_transactions, WAIT_S) == KafkaError._STATE
    producer.begin_transaction()
    assert error_of(producer.begin_transaction) == KafkaError._STATE
    place = TopicPartition(bank.topic, 0, 1)
    for wrong in (None, "group"):
        text = r"must be what Consumer.consumer_group_metadata\(\) returns, not (None|str)"
        with pytest.raises(TypeError, match=text):
            producer.send_offsets_to_transaction([place], wrong)  # type: ignore[arg-type]
    assert len(producer) == 0


def test_a_new_instance_fences_the_old_one(bank: Bank) -> None:
    old = bank.producer()
    old.begin_transaction()
    deliver(old, bank.topic, "zombie")
    new = bank.producer()
    error = error_of(old.commit_transaction, WAIT_S)
    assert (error == KafkaError._FENCED, error.fatal()) == (True, True)
    assert old.fatal_error() == KafkaError._FENCED
    assert error_of(old.begin_transaction).fatal()
    bank.commit(new, "new")
    assert bank.seen() == ["new"]


def test_undelivered_message_requires_an_abort(bank: Bank) -> None:
    producer = bank.producer()
    bank.commit(producer, "before", partition=0)
    denied = [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    bank.cluster.push_request_errors(ApiKey.PRODUCE, denied, topic=bank.topic, partition=0)
    producer.begin_transaction()
    producer.produce(bank.topic, "refused", partition=0)
    producer.produce(bank.topic, "fine", partition=1)
    error = error_of(producer.commit_transaction, WAIT_S)
    assert (error.code(), error.txn_requires_abort()) == (denied[0], True), error
    assert error_of(producer.commit_transaction, WAIT_S).txn_requires_abort()
    producer.abort_transaction(WAIT_S)
    bank.commit(producer, "after", partition=0)
    assert bank.seen() == ["after", "before"]


def offset_commits(bank: Bank) -> list[int]:
    """Return the versions of the requests that commit offsets with transactions."""
    return [
        each.version for each in bank.cluster.requests if each.api_key == ApiKey.TXN_OFFSET_COMMIT
    ]


def send_offset(bank: Bank, producer: Producer, consumer: Consumer, offset: int) -> None:
    with producer.transaction(timeout=WAIT_S):
        metadata = consumer.consumer_group_metadata()
        place = TopicPartition(bank.topic, 0, offset)
        producer.send_offsets_to_transaction([place], metadata, WAIT_S)


def test_offsets_name_their_topics_by_id(bank: Bank) -> None:
    bank.cluster.clear_requests()
    with bank.consumer() as consumer:
        producer = bank.producer()
        bank.commit(producer, "one")  # the producer knows the topic's id now
        send_offset(bank, producer, consumer, 3)
        if bank.cluster.state.transaction_version == 1:
            assert offset_commits(bank) == [4], "the later versions add the group themselves"
            return
        assert offset_commits(bank) == [6]
        bank.cluster.delete_topic(bank.topic)
        bank.cluster.create_topic(bank.topic, 2)
        send_offset(bank, producer, consumer, 5)
        assert set(offset_commits(bank)) == {6}
        assert len(offset_commits(bank)) > 2, "the old id is refused until metadata have the new"
        [place] = consumer.committed([TopicPartition(bank.topic, 0)], WAIT_S)
        assert place.offset == 5


def test_offsets_name_their_topics_if_metadata_have_no_ids() -> None:
    with (
        MockCluster(brokers=1, max_versions={ApiKey.METADATA: 9}) as cluster,
        Bank(cluster, "nameless") as bank,
        bank.consumer() as consumer,
    ):
        producer = bank.producer()
        bank.commit(producer, "one")
        send_offset(bank, producer, consumer, 3)
        assert offset_commits(bank) == [5]
        [place] = consumer.committed([TopicPartition(bank.topic, 0)], WAIT_S)
        assert place.offset == 3


@pytest.mark.parametrize(
    "key", [ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.ADD_PARTITIONS_TO_TXN]
)
@pytest.mark.parametrize("done", [False, True])
def test_requests_with_lost_responses_are_repeated(bank: Bank, key: int, done: bool) -> None:
    producer = bank.producer()
    bank.cluster.push_request_errors(
        key,
        [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, CLOSE_CONNECTION, KafkaError.NOT_COORDINATOR],
        done=done,
    )
    with bank.consumer() as consumer:
        with producer.transaction():
            producer.produce(bank.topic, "one")
            places, metadata = (
                [TopicPartition(bank.topic, 0, 3)],
                consumer.consumer_group_metadata(),
            )
            producer.send_offsets_to_transaction(places, metadata, WAIT_S)
        [place] = consumer.committed([TopicPartition(bank.topic, 0)], WAIT_S)
        assert place.offset == 3
    bank.commit(producer, "two")
    assert bank.seen() == ["one", "two"]


def test_timed_out_call_can_be_repeated(bank: Bank) -> None:
    producer = bank.producer()
    producer.begin_transaction()
    deliver(producer, bank.topic, "slow")
    bank.cluster.delay_responses(None, 60.0, ApiKey.END_TXN)
    error = error_of(producer.commit_transaction, 0.05)
    assert (error == KafkaError._TIMED_OUT, error.retriable()) == (True, True)
    refused = error_of(producer.abort_transaction, 0.05)
    assert refused.code() == KafkaError._CONFLICT
    bank.cluster.delay_responses(None, 0.0, ApiKey.END_TXN)
    bank.cluster.advance(60)
    producer.commit_transaction(WAIT_S)
    assert bank.seen() == ["slow"]


def test_producer_finds_another_coordinator(bank: Bank) -> None:
    producer = bank.producer()
    bank.commit(producer, "before")
    owner = bank.cluster.coordinator_of(f"{bank.topic}-tx")
    assert owner is not None
    producer.begin_transaction()
    producer.produce(bank.topic, "meanwhile")
    bank.cluster.broker_down(owner.id)
    try:
        producer.commit_transaction(WAIT_S)
        assert bank.seen() == ["before", "meanwhile"]
    finally:
        bank.cluster.broker_up(owner.id)


def test_transaction_over_its_timeout_is_aborted(bank: Bank) -> None:
    producer = bank.producer(**{"transaction.timeout.ms": 60_000})
    producer.begin_transaction()
    deliver(producer, bank.topic, "late")
    bank.cluster.advance(60)
    wait_for(
        lambda: (bank.seen("read_uncommitted"), bank.state() is not State.ONGOING)[1], "its end"
    )
    error = error_of(producer.commit_transaction, WAIT_S)
    assert bank.seen() == []
    if bank.cluster.transaction_version < 2:
        assert error.fatal()
        return
    assert error.txn_requires_abort()
    producer.abort_transaction(WAIT_S)
    bank.commit(producer, "in time")
    assert bank.seen() == ["in time"]


def test_threads_produce_while_one_ends_transactions(bank: Bank) -> None:
    """A message is in the transaction that ends next, or it is refused."""
    producer = bank.producer()
    stop = threading.Event()
    counts = [0, 0]
    refused: set[int] = set()

    def work(number: int) -> None:
        while not stop.is_set():
            try:
                producer.produce(bank.topic, str(number), partition=number)
                counts[number] += 1
            except KafkaException as error:
                refused.add(error.args[0].code())
            except BufferError:
                producer.poll(0.01)

    producer.begin_transaction()
    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for worker in workers:
        worker.start()
    for _ in range(20):
        time.sleep(0.005)
        producer.commit_transaction(WAIT_S)
        producer.begin_transaction()
    stop.set()
    for worker in workers:
        worker.join(WAIT_S)
    producer.commit_transaction(WAIT_S)
    seen = bank.seen()
    assert refused <= {KafkaError._STATE}
    assert [seen.count(str(number)) for number in range(2)] == counts


@pytest.mark.parametrize(
    ("conf", "text"),
    [
        ({"enable.idempotence": False}, "requires `enable.idempotence=true`"),
        ({"acks": 1}, "`acks` must be set to `all`"),
        (
            {"message.timeout.ms": 90_000},
            "`message.timeout.ms` must be set <= `transaction.timeout.ms`",
        ),
        ({"transactional.id": "x" * 512}, "longer than 511 bytes"),
    ],
)
def test_settings_that_conflict_with_transactions(conf: dict[str, Any], text: str) -> None:
    with pytest.raises(KafkaException) as caught:
        Producer({"bootstrap.servers": "localhost:1", "transactional.id": "tx", **conf})
    assert text in caught.value.args[0].str()


@pytest.mark.parametrize("lost", [False, True])
def test_an_id_without_further_epochs_is_replaced_and_its_transactions_end(lost: bool) -> None:
    """Each end of a transaction needs an epoch (KIP-890): an id lasts for 32,766 of them.

    ``lost``: the answers that could give the new id are lost, so the producer asks again.
    """
    with MockCluster(brokers=1) as cluster:
        client = Client(cluster)
        topic = client.topic()
        conf = {"transactional.id": "long", "retry.backoff.ms": 20, "reconnect.backoff.max.ms": 50}
        with client.producer(**conf) as first:
            first.init_transactions(WAIT_S)
        state = cluster.transactions.find("long")
        assert state is not None
        old_id, state.epoch = state.producer_id, LAST_EPOCH - 3
        with client.producer(**conf) as producer:
            producer.init_transactions(WAIT_S)
            for number in range(6):
                if lost:
                    cluster.close_mid_frame(1, 2, ApiKey.END_TXN)
                producer.begin_transaction()
                producer.produce(topic, b"%d" % number)
                producer.commit_transaction(WAIT_S)
        assert state.producer_id != old_id
        with assigned(client, topic, **{"isolation.level": "read_committed"}) as consumer:
            messages = consumer.consume(6, WAIT_S)
        assert [message.value() for message in messages] == [b"%d" % n for n in range(6)]
