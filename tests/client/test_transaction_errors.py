"""The effect of each error of each request on a transaction, in both versions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_native import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    SerializingProducer,
    TopicPartition,
)
from kafka_native.interceptors import ProducerInterceptor, ProducerRecord
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.mock.transactions import State
from kafka_native.protocol import ApiKey
from kafka_native.serialization import StringSerializer
from tests.waiting import WAIT_S, wait_for

from .bank import Bank, error_of
from .support import deliver

E = KafkaError
TRANSACTION_ABORTABLE = 120
TEMPORARY_ERRORS = [
    E.COORDINATOR_LOAD_IN_PROGRESS,
    CLOSE_CONNECTION,
    E.NOT_COORDINATOR,
    E.REQUEST_TIMED_OUT,
]
EXPLICIT = (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN)
"""Requests that KIP-890 has made unnecessary."""


@pytest.fixture(params=[1, 2], scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[MockCluster]:
    with MockCluster(
        brokers=3, transaction_version=request.param, auto_create_topics=False
    ) as running:
        yield running


@pytest.fixture
def reader(bank: Bank) -> Iterator[Consumer]:
    """Yield a consumer with offsets to commit."""
    with bank.consumer(**{"retry.backoff.ms": 10, "reconnect.backoff.ms": 10}) as consumer:
        yield consumer


def write(bank: Bank, producer: Producer, reader: Consumer, value: str, offset: int) -> None:
    """Write a message and an offset in a transaction, without its end."""
    producer.begin_transaction()
    producer.produce(bank.topic, value, partition=0)
    metadata = reader.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(bank.topic, 0, offset)], metadata, WAIT_S)


def write_and_commit(
    bank: Bank, producer: Producer, reader: Consumer, value: str, offset: int
) -> None:
    write(bank, producer, reader, value, offset)
    producer.commit_transaction(WAIT_S)


def commit_with_retries(
    bank: Bank, producer: Producer, reader: Consumer, value: str, offset: int
) -> None:
    """Write and commit. Abort and repeat it after errors, because an error may come twice."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            write_and_commit(bank, producer, reader, value, offset)
            return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort() or time.monotonic() > deadline:
                raise
            producer.abort_transaction(WAIT_S)


def committed(bank: Bank, reader: Consumer) -> int:
    [place] = reader.committed([TopicPartition(bank.topic, 0)], WAIT_S)
    offset: int = place.offset
    return offset


def skip_if_unused(bank: Bank, key: int) -> None:
    if bank.cluster.transaction_version > 1 and key in EXPLICIT:
        pytest.skip("KIP-890 has no such request")


@pytest.mark.parametrize(
    ("key", "codes"),
    [
        (
            ApiKey.FIND_COORDINATOR,
            [E.COORDINATOR_NOT_AVAILABLE, CLOSE_CONNECTION, E.COORDINATOR_NOT_AVAILABLE],
        ),
        (ApiKey.INIT_PRODUCER_ID, [*TEMPORARY_ERRORS, E.CONCURRENT_TRANSACTIONS]),
        (
            ApiKey.ADD_PARTITIONS_TO_TXN,
            [*TEMPORARY_ERRORS, E.CONCURRENT_TRANSACTIONS, E.UNKNOWN_TOPIC_OR_PART],
        ),
        (ApiKey.ADD_OFFSETS_TO_TXN, [*TEMPORARY_ERRORS, E.CONCURRENT_TRANSACTIONS]),
        (ApiKey.TXN_OFFSET_COMMIT, [*TEMPORARY_ERRORS, E.UNKNOWN_TOPIC_OR_PART]),
        (ApiKey.END_TXN, [*TEMPORARY_ERRORS, E.CONCURRENT_TRANSACTIONS]),
        (ApiKey.PRODUCE, [E.NOT_LEADER_FOR_PARTITION, CLOSE_CONNECTION, E.CONCURRENT_TRANSACTIONS]),
    ],
)
def test_temporary_errors_are_retried_without_a_report(
    bank: Bank, reader: Consumer, key: int, codes: list[int]
) -> None:
    skip_if_unused(bank, key)
    bank.cluster.clear_requests()
    bank.cluster.push_request_errors(key, codes)
    producer = bank.producer()
    write_and_commit(bank, producer, reader, "one", 3)
    assert len(bank.cluster.requests_of(key)) > len(codes)
    assert (bank.seen(), committed(bank, reader)) == (["one"], 3)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (ApiKey.ADD_PARTITIONS_TO_TXN, E.TOPIC_AUTHORIZATION_FAILED),
        (ApiKey.ADD_PARTITIONS_TO_TXN, E.INVALID_PRODUCER_ID_MAPPING),
        (ApiKey.PRODUCE, E.TOPIC_AUTHORIZATION_FAILED),
        (ApiKey.PRODUCE, E.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (ApiKey.PRODUCE, E.INVALID_TXN_STATE),
        (ApiKey.PRODUCE, E.INVALID_PRODUCER_EPOCH),
        (ApiKey.PRODUCE, TRANSACTION_ABORTABLE),
        (ApiKey.FIND_COORDINATOR, E.GROUP_AUTHORIZATION_FAILED),
        (ApiKey.ADD_OFFSETS_TO_TXN, E.GROUP_AUTHORIZATION_FAILED),
        (ApiKey.TXN_OFFSET_COMMIT, E.ILLEGAL_GENERATION),
        (ApiKey.TXN_OFFSET_COMMIT, E.FENCED_INSTANCE_ID),
        (ApiKey.TXN_OFFSET_COMMIT, TRANSACTION_ABORTABLE),
        (ApiKey.END_TXN, E.INVALID_PRODUCER_ID_MAPPING),
        (ApiKey.END_TXN, TRANSACTION_ABORTABLE),
    ],
)
def test_abortable_errors_cost_only_the_transaction(
    bank: Bank, reader: Consumer, key: int, code: int
) -> None:
    skip_if_unused(bank, key)
    producer = bank.producer()
    write_and_commit(bank, producer, reader, "before", 1)
    if key == ApiKey.FIND_COORDINATOR:  # so that the group needs a request
        producer.close(0)
        producer = bank.producer()
    bank.cluster.push_request_errors(key, [code])

    error = error_of(write_and_commit, bank, producer, reader, "refused", 2)
    assert (error.code(), error.txn_requires_abort(), error.fatal()) == (code, True, False), error
    for call in (producer.begin_transaction, producer.commit_transaction):
        assert error_of(call).txn_requires_abort()
    producer.abort_transaction(WAIT_S)
    assert bank.state() is not State.ONGOING
    commit_with_retries(bank, producer, reader, "after", 3)
    assert (bank.seen(), committed(bank, reader)) == (["after", "before"], 3)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (ApiKey.ADD_PARTITIONS_TO_TXN, E.PRODUCER_FENCED),
        (ApiKey.ADD_PARTITIONS_TO_TXN, E.INVALID_TXN_STATE),
        (ApiKey.ADD_OFFSETS_TO_TXN, E.PRODUCER_FENCED),
        (ApiKey.TXN_OFFSET_COMMIT, E.INVALID_PRODUCER_EPOCH),
        (ApiKey.TXN_OFFSET_COMMIT, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (ApiKey.PRODUCE, E.CLUSTER_AUTHORIZATION_FAILED),
        (ApiKey.PRODUCE, E.PRODUCER_FENCED),
        (ApiKey.END_TXN, E.PRODUCER_FENCED),
        (ApiKey.END_TXN, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_fatal_errors_fail_every_call(bank: Bank, reader: Consumer, key: int, code: int) -> None:
    skip_if_unused(bank, key)
    producer = bank.producer()
    bank.cluster.push_request_errors(key, [code] * 2)

    error = error_of(write_and_commit, bank, producer, reader, "refused", 2)
    fenced = code in (E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH)
    assert (error.code(), error.fatal()) == (E._FENCED if fenced else code, True), error
    for call in (
        producer.commit_transaction,
        producer.abort_transaction,
        producer.init_transactions,
    ):
        assert error_of(call, WAIT_S).fatal()
    assert error_of(producer.begin_transaction).fatal()
    assert error_of(producer.produce, bank.topic, "more").code() in (E._FATAL, E._STATE)
    assert bank.seen() == []


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (ApiKey.FIND_COORDINATOR, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (ApiKey.INIT_PRODUCER_ID, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (ApiKey.INIT_PRODUCER_ID, E.INVALID_TRANSACTION_TIMEOUT),
        (ApiKey.INIT_PRODUCER_ID, E.PRODUCER_FENCED),
    ],
)
def test_refused_transactional_id_fails_at_once(bank: Bank, key: int, code: int) -> None:
    bank.cluster.push_request_errors(key, [code])
    error = error_of(bank.producer)
    assert (error.code(), error.fatal()) == (E._FENCED if code == E.PRODUCER_FENCED else code, True)


def test_too_long_transaction_timeout_fails_at_once(bank: Bank) -> None:
    error = error_of(lambda: bank.producer(**{"transaction.timeout.ms": 900_001}))
    assert (error == E.INVALID_TRANSACTION_TIMEOUT, error.fatal()) == (True, True)


def test_purged_messages_are_reported_and_prevent_the_commit(bank: Bank) -> None:
    codes: dict[str, int] = {}
    producer = bank.producer(**{"linger.ms": 30_000})
    producer.begin_transaction()
    producer.produce(
        bank.topic, "sent", partition=0, on_delivery=lambda e, m: codes.update(sent=e.code())
    )
    bank.cluster.delay_responses(None, 60.0, ApiKey.PRODUCE)
    before = len(bank.cluster.requests_of(ApiKey.PRODUCE))
    until = time.monotonic() + WAIT_S
    while len(bank.cluster.requests_of(ApiKey.PRODUCE)) == before:
        assert time.monotonic() < until
        assert producer.flush(0.1) == 1
    producer.produce(
        bank.topic, "queued", partition=1, on_delivery=lambda e, m: codes.update(queued=e.code())
    )
    producer.purge()
    assert producer.flush(WAIT_S) == 0
    assert codes == {"sent": E._PURGE_INFLIGHT, "queued": E._PURGE_QUEUE}
    bank.cluster.delay_responses(None, 0.0, ApiKey.PRODUCE)
    error = error_of(producer.commit_transaction, WAIT_S)
    assert error.code() in {E._PURGE_INFLIGHT, E._PURGE_QUEUE}
    assert error.txn_requires_abort()
    producer.abort_transaction(WAIT_S)
    bank.commit(producer, "after", partition=0)
    assert bank.seen() == ["after"]


def test_abort_discards_messages_that_are_being_retried(bank: Bank) -> None:
    producer = bank.producer()
    bank.commit(producer, "before", partition=0)
    bank.cluster.push_request_errors(
        ApiKey.PRODUCE, [E.NOT_ENOUGH_REPLICAS] * 200, topic=bank.topic, partition=0
    )
    producer.begin_transaction()
    producer.produce(bank.topic, "stuck", partition=0)
    assert producer.flush(0.2) == 1
    producer.abort_transaction(WAIT_S)
    bank.cluster.faults.clear()
    bank.commit(producer, "after", partition=0)
    assert bank.seen() == ["after", "before"]


def test_commit_continues_after_all_brokers_were_down(bank: Bank) -> None:
    producer = bank.producer(**{"message.timeout.ms": 60_000})
    producer.begin_transaction()
    producer.produce(bank.topic, "away", partition=0)
    for broker in bank.cluster.broker_ids:
        bank.cluster.broker_down(broker)
    try:
        error = error_of(producer.commit_transaction, 0.3)
        assert (error == E._TIMED_OUT, error.retriable()) == (True, True)
    finally:
        for broker in bank.cluster.broker_ids:
            bank.cluster.broker_up(broker)
    producer.commit_transaction(WAIT_S)
    assert bank.seen() == ["away"]


def test_timed_out_commit_of_a_block_can_be_repeated(bank: Bank) -> None:
    producer = bank.producer()
    bank.cluster.delay_responses(None, 60.0, ApiKey.END_TXN)

    def work() -> None:
        with producer.transaction(timeout=3.0):
            producer.produce(bank.topic, "kept")

    error = error_of(work)
    assert (error == E._TIMED_OUT, error.retriable()) == (True, True)
    bank.cluster.delay_responses(None, 0.0, ApiKey.END_TXN)
    owner = bank.cluster.coordinator_of(f"{bank.topic}-tx")
    assert owner is not None
    bank.cluster.disconnect(owner.id)  # the delayed answer is lost
    producer.commit_transaction(WAIT_S)
    assert bank.seen() == ["kept"]


def test_commit_that_a_busy_client_has_not_begun_can_be_repeated(bank: Bank) -> None:
    producer = bank.producer()

    def work() -> None:
        with producer.transaction(timeout=0.0):
            deliver(producer, bank.topic, "kept")
            # longer than other calls wait for the control thread
            producer._client.main.post(lambda: time.sleep(2.0))

    error = error_of(work)
    assert (error == E._TIMED_OUT, error.retriable()) == (True, True)
    assert "call it again" in error.str()
    producer.commit_transaction(WAIT_S)
    assert bank.seen() == ["kept"]


def test_close_ends_a_waiting_call(bank: Bank) -> None:
    producer = bank.producer()
    bank.cluster.push_request_errors(ApiKey.END_TXN, [E.COORDINATOR_LOAD_IN_PROGRESS] * 100_000)
    producer.begin_transaction()
    deliver(producer, bank.topic, "not yet")
    bank.cluster.clear_requests()
    with ThreadPoolExecutor(1) as pool:
        commit = pool.submit(error_of, producer.commit_transaction)
        # between two requests the commit waits for the retry
        bank.cluster.wait_for_requests(ApiKey.END_TXN, 2, timeout=WAIT_S)
        producer.close(0)
        assert commit.result(WAIT_S) == E._DESTROY


def test_call_during_close_ends(bank: Bank) -> None:
    producer = bank.producer()
    producer.begin_transaction()
    deliver(producer, bank.topic, "never")
    main, goes_on = producer._client.main, threading.Event()
    main.post(lambda: goes_on.wait(WAIT_S) and None)
    wait_for(lambda: not main._work, "the control thread to be held up")
    with ThreadPoolExecutor(2) as pool:
        commit = pool.submit(error_of, producer.commit_transaction)
        wait_for(lambda: main._work, "the commit")
        closing = pool.submit(producer.close, 0)
        wait_for(lambda: main.stopping, "the end")
        goes_on.set()
        assert commit.result(WAIT_S) == E._DESTROY
        assert closing.result(WAIT_S)


def test_timed_out_offsets_can_be_aborted(bank: Bank, reader: Consumer) -> None:
    producer = bank.producer()
    bank.cluster.push_request_errors(
        ApiKey.TXN_OFFSET_COMMIT, [E.COORDINATOR_LOAD_IN_PROGRESS] * 10_000
    )
    producer.begin_transaction()
    places, metadata = [TopicPartition(bank.topic, 0, 5)], reader.consumer_group_metadata()
    error = error_of(producer.send_offsets_to_transaction, places, metadata, 0.2)
    assert (error == E._TIMED_OUT, error.retriable()) == (True, True)
    refused = error_of(producer.commit_transaction, WAIT_S)
    assert refused == E._CONFLICT
    producer.abort_transaction(WAIT_S)
    bank.cluster.faults.clear()
    write_and_commit(bank, producer, reader, "after", 7)
    assert (bank.seen(), committed(bank, reader)) == (["after"], 7)


def test_deleted_topic_requires_an_abort(bank: Bank) -> None:
    producer = bank.producer(**{"message.timeout.ms": 1500})
    other = f"{bank.topic}-other"
    bank.cluster.create_topic(other, 1)
    with producer.transaction(timeout=WAIT_S):
        producer.produce(other, "before")
    producer.begin_transaction()
    bank.cluster.delete_topic(other)
    producer.produce(bank.topic, "refused", partition=0)
    producer.produce(other, "nowhere")
    error = error_of(producer.commit_transaction, WAIT_S)
    assert error.txn_requires_abort(), error
    producer.abort_transaction(WAIT_S)
    bank.commit(producer, "after", partition=0)
    assert bank.seen() == ["after"]


def test_committed_waits_for_a_transaction_with_offsets(bank: Bank, reader: Consumer) -> None:
    producer = bank.producer()
    write(bank, producer, reader, "one", 4)
    found: list[int] = []
    waiting = threading.Thread(target=lambda: found.append(committed(bank, reader)))
    before = len(bank.cluster.requests_of(ApiKey.OFFSET_FETCH))
    waiting.start()
    bank.cluster.wait_for_requests(ApiKey.OFFSET_FETCH, before + 2)  # refused once, sent again
    assert found == []
    producer.commit_transaction(WAIT_S)
    waiting.join(WAIT_S)
    assert found == [4]


def test_statistics_have_the_state_of_the_transaction(bank: Bank) -> None:
    producer = bank.producer()

    def state() -> tuple[str, bool]:
        eos = producer.metrics().eos
        assert eos is not None
        assert eos.idemp_state == "Assigned"
        assert min(eos.producer_id, eos.producer_epoch) >= 0
        assert eos.txn_stateage >= 0
        return eos.txn_state, eos.txn_may_enq

    assert state() == ("Ready", False)
    first = producer.metrics().eos
    assert first is not None
    assert first.epoch_cnt == 1
    producer.begin_transaction()
    assert state() == ("InTransaction", True)
    bank.cluster.push_request_errors(ApiKey.PRODUCE, [E.TOPIC_AUTHORIZATION_FAILED])
    producer.produce(bank.topic, "refused")
    error_of(producer.commit_transaction, WAIT_S)
    assert state() == ("AbortableError", False)
    producer.abort_transaction(WAIT_S)
    assert state() == ("Ready", False)
    last = producer.metrics().eos
    assert last is not None
    assert last.epoch_cnt == 2, "the producer has a new epoch"
    with bank.producer():
        producer.begin_transaction()
        producer.produce(bank.topic, "fenced")
        error_of(producer.commit_transaction, WAIT_S)
        assert error_of(producer.abort_transaction, WAIT_S).fatal()
        eos = producer.metrics().eos
        assert eos is not None
        assert eos.idemp_state == eos.txn_state == "FatalError"
        assert not eos.txn_may_enq


@pytest.mark.parametrize("kind", [Producer, SerializingProducer])
def test_producers_that_serialize_or_have_interceptors_have_transactions(
    bank: Bank, kind: type[Producer]
) -> None:
    seen: list[str] = []

    class Watching(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> None:
            seen.append("sent")

        def on_acknowledgement(self, error: KafkaError | None, message: Message) -> None:
            seen.append("refused" if error else "acked")

    own = (
        {"value.serializer": StringSerializer()}
        if kind is SerializingProducer
        else {"interceptors": [Watching()]}
    )
    with kind(bank.conf(**own)) as producer:
        producer.init_transactions(WAIT_S)
        for value, end in (
            ("kept", producer.commit_transaction),
            ("dropped", producer.abort_transaction),
        ):
            producer.begin_transaction()
            producer.produce(topic=bank.topic, value=value, partition=0)
            assert producer.flush(WAIT_S) == 0
            end(WAIT_S)
    assert bank.seen() == ["kept"]
    assert seen == ([] if kind is SerializingProducer else ["sent", "acked"] * 2)


def test_transaction_timeout_does_not_end_a_producer_without_writes(bank: Bank) -> None:
    producer = bank.producer(**{"transaction.timeout.ms": 1000})
    bank.commit(producer, "one")
    producer.begin_transaction()  # no broker knows it before the first write
    ends = time.monotonic() + 1.2
    while time.monotonic() < ends:
        bank.seen("read_uncommitted")
    producer.produce(bank.topic, "two")
    producer.commit_transaction(WAIT_S)
    assert bank.seen() == ["one", "two"]
