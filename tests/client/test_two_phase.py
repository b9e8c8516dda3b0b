"""Two-phase commit (KIP-939) on the mock cluster: prepare, recover, and complete as decided."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException, PreparedTxnState, Producer, TopicPartition
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.mock.transactions import State
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

from .bank import Bank, error_of
from .support import deliver

E = KafkaError
TWO_PHASE = "transaction.two.phase.commit.enable"
KEEPS = pytest.mark.parametrize("keeps", [True, False], ids=["kept", "4.3"])
"""Whether the coordinator keeps prepared transactions. Apache Kafka 4.3 has UNSUPPORTED_VERSION."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=3, two_phase_commit=True) as running:
        yield running


def two_phase(bank: Bank) -> Producer:
    return bank.producer(**{TWO_PHASE: True})


def prepared(bank: Bank, *values: str) -> tuple[Producer, PreparedTxnState]:
    """Return a producer with a prepared transaction, which it never ends."""
    producer = two_phase(bank)
    producer.begin_transaction()
    for value in values:
        producer.produce(bank.topic, value, partition=0)
    return producer, producer.prepare_transaction(WAIT_S)


def recovering(bank: Bank, *, keeps: bool = True) -> Producer:
    """Return the next producer with the same id."""
    if not keeps:
        bank.cluster.push_request_errors(ApiKey.INIT_PRODUCER_ID, [E.UNSUPPORTED_VERSION])
    producer = Producer(bank.conf(**{TWO_PHASE: True}))
    bank.made.append(producer)
    producer.init_transactions(WAIT_S, keep_prepared_txn=True)
    return producer


def test_complete_transaction_commits_only_the_same_state(bank: Bank) -> None:
    producer, state = prepared(bank, "one", "two")
    assert bank.seen() == []
    assert bank.seen("read_uncommitted") == ["one", "two"]
    producer.complete_transaction(PreparedTxnState(str(state)), WAIT_S)
    assert bank.seen() == ["one", "two"]
    producer.begin_transaction()
    producer.produce(bank.topic, "three", partition=0)
    assert producer.prepare_transaction(WAIT_S) != state
    producer.complete_transaction(state, WAIT_S)
    assert (bank.seen(), bank.state()) == (["one", "two"], State.ABORTED)


def test_commit_and_abort_end_a_prepared_transaction(bank: Bank) -> None:
    producer, _ = prepared(bank, "kept")
    producer.commit_transaction(WAIT_S)
    producer.begin_transaction()
    producer.produce(bank.topic, "lost", partition=0)
    producer.prepare_transaction(WAIT_S)
    producer.abort_transaction(WAIT_S)
    assert bank.seen() == ["kept"]


@KEEPS
@pytest.mark.parametrize("decided", [True, False], ids=["commit", "abort"])
def test_new_producer_completes_the_transaction_as_decided(
    bank: Bank, keeps: bool, decided: bool
) -> None:
    old, state = prepared(bank, "one", "two")
    new = recovering(bank, keeps=keeps)
    assert bank.state() is State.ONGOING
    new.complete_transaction(state if decided else PreparedTxnState(), WAIT_S)
    assert bank.state() is not State.ONGOING
    assert bank.seen() == (["one", "two"] if decided else [])
    assert error_of(old.commit_transaction, WAIT_S).fatal()
    bank.commit(new, "three", partition=1)
    assert bank.seen() == (["one", "three", "two"] if decided else ["three"])


@KEEPS
def test_unprepared_transaction_is_aborted(bank: Bank, keeps: bool) -> None:
    old, first = prepared(bank, "one")
    old.commit_transaction(WAIT_S)
    old.begin_transaction()
    deliver(old, bank.topic, "half", partition=0)
    new = recovering(bank, keeps=keeps)
    new.complete_transaction(first, WAIT_S)  # the last decision, which is carried out
    assert bank.seen() == ["one"]
    assert bank.seen("read_uncommitted") == ["half", "one"]
    bank.commit(new, "two", partition=1)


@KEEPS
def test_prepared_transaction_survives_repeated_crashes(bank: Bank, keeps: bool) -> None:
    _, state = prepared(bank, "one")
    for _ in range(3):
        recovering(bank, keeps=keeps).close(0)
    recovering(bank, keeps=keeps).complete_transaction(state, WAIT_S)
    assert bank.seen() == ["one"]


@KEEPS
def test_committed_transaction_can_be_completed_again(bank: Bank, keeps: bool) -> None:
    producer, state = prepared(bank, "one")
    producer.commit_transaction(WAIT_S)  # the application may not have recorded the result
    new = recovering(bank, keeps=keeps)
    new.complete_transaction(state, WAIT_S)
    assert bank.seen() == ["one"]
    bank.commit(new, "two", partition=1)
    assert bank.seen() == ["one", "two"]


@KEEPS
def test_prepared_transaction_can_be_aborted_without_its_state(bank: Bank, keeps: bool) -> None:
    prepared(bank, "one")
    new = recovering(bank, keeps=keeps)
    new.abort_transaction(WAIT_S)
    bank.commit(new, "two", partition=1)
    assert bank.seen() == ["two"]


def test_init_transactions_aborts_a_prepared_transaction_by_default(bank: Bank) -> None:
    prepared(bank, "one")
    bank.commit(two_phase(bank), "two", partition=1)
    assert bank.seen() == ["two"]


@pytest.mark.parametrize("key", [ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN])
@KEEPS
def test_temporary_errors_are_retried(bank: Bank, keeps: bool, key: int) -> None:
    _, state = prepared(bank, "one")
    codes = [
        E.COORDINATOR_LOAD_IN_PROGRESS,
        CLOSE_CONNECTION,
        E.NOT_COORDINATOR,
        E.CONCURRENT_TRANSACTIONS,
    ]
    bank.cluster.push_request_errors(key, codes)
    new = recovering(bank, keeps=keeps)
    new.complete_transaction(state, WAIT_S)
    assert bank.seen() == ["one"]
    bank.commit(new, "two", partition=1)


@pytest.mark.parametrize("done", [True, False])
@KEEPS
def test_end_with_a_lost_response_is_repeated(bank: Bank, keeps: bool, done: bool) -> None:
    _, state = prepared(bank, "one")
    new = recovering(bank, keeps=keeps)
    bank.cluster.push_request_errors(ApiKey.END_TXN, [CLOSE_CONNECTION], done=done)
    new.complete_transaction(state, WAIT_S)
    assert bank.seen() == ["one"]
    bank.commit(new, "two", partition=1)
    assert bank.seen() == ["one", "two"]


@KEEPS
def test_timed_out_completion_can_be_repeated(bank: Bank, keeps: bool) -> None:
    _, state = prepared(bank, "one")
    new = recovering(bank, keeps=keeps)
    codes = [E.COORDINATOR_LOAD_IN_PROGRESS] * 30
    bank.cluster.push_request_errors(ApiKey.END_TXN, codes)
    error = error_of(new.complete_transaction, state, 0.05)
    assert (error, error.retriable()) == (E._TIMED_OUT, True)
    error = error_of(new.complete_transaction, PreparedTxnState(), 0.05)
    assert error == E._CONFLICT or bank.seen() == ["one"]
    bank.cluster.faults.clear()
    new.complete_transaction(state, WAIT_S)
    assert bank.seen() == ["one"]


def test_prepared_transaction_survives_its_coordinator(bank: Bank) -> None:
    _, state = prepared(bank, "one")
    coordinator = bank.cluster.coordinator_of(f"{bank.topic}-tx")
    assert coordinator is not None
    bank.cluster.broker_down(coordinator.id)
    try:
        recovering(bank).complete_transaction(state, WAIT_S)
        assert bank.seen() == ["one"]
    finally:
        bank.cluster.broker_up(coordinator.id)


def test_offsets_are_part_of_a_prepared_transaction(bank: Bank) -> None:
    place = TopicPartition(bank.topic, 0, 7)
    with bank.consumer() as consumer:
        producer = two_phase(bank)
        producer.begin_transaction()
        producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), WAIT_S)
        state = producer.prepare_transaction(WAIT_S)
        metadata = consumer.consumer_group_metadata()
        error = error_of(producer.send_offsets_to_transaction, [place], metadata, WAIT_S)
        assert error == E._STATE
        recovering(bank).complete_transaction(state, WAIT_S)
        [found] = consumer.committed([place], WAIT_S)
    assert found.offset == 7


def test_other_calls_than_the_end_raise_after_prepare(bank: Bank) -> None:
    producer, state = prepared(bank, "one")
    for call in (
        producer.begin_transaction,
        producer.prepare_transaction,
        producer.init_transactions,
        lambda: producer.produce(bank.topic, "late"),
    ):
        error = error_of(call)
        assert (error, error.fatal(), error.txn_requires_abort()) == (E._STATE, False, False)
    producer.complete_transaction(state, WAIT_S)
    assert error_of(producer.complete_transaction, state, WAIT_S) == E._STATE
    assert bank.seen() == ["one"]


def test_undelivered_message_prevents_prepare(bank: Bank) -> None:
    producer = two_phase(bank)
    producer.begin_transaction()
    bank.cluster.push_request_errors(ApiKey.PRODUCE, [E.TOPIC_AUTHORIZATION_FAILED])
    producer.produce(bank.topic, "refused", partition=0)
    assert error_of(producer.prepare_transaction, WAIT_S).txn_requires_abort()
    producer.abort_transaction(WAIT_S)
    assert bank.seen() == []


def test_timed_out_prepare_can_be_repeated(bank: Bank) -> None:
    producer = two_phase(bank)
    producer.begin_transaction()
    bank.cluster.push_request_errors(ApiKey.PRODUCE, [E.NOT_LEADER_FOR_PARTITION] * 5)
    producer.produce(bank.topic, "slow", partition=0)
    error = error_of(producer.prepare_transaction, 0)
    assert (error, error.retriable()) == (E._TIMED_OUT, True)
    producer.complete_transaction(producer.prepare_transaction(WAIT_S), WAIT_S)
    assert bank.seen() == ["slow"]


def test_prepared_transaction_has_no_timeout(bank: Bank) -> None:
    _, state = prepared(bank, "one")
    found = bank.cluster.transactions.find(f"{bank.topic}-tx")
    assert found is not None
    assert found.timeout_s > 24 * 86_400
    recovering(bank).complete_transaction(state, WAIT_S)


def unsupported(bank: Bank, cluster: MockCluster) -> KafkaError:
    """Return the error of init_transactions() on a cluster."""
    conf = {"bootstrap.servers": cluster.bootstrap_servers, TWO_PHASE: True}
    with Producer(bank.conf(**conf)) as producer:
        return error_of(producer.init_transactions, WAIT_S)


def test_error_names_the_missing_feature_of_the_brokers(bank: Bank) -> None:
    with MockCluster(brokers=1) as stable:
        error = unsupported(bank, stable)
        assert (error.fatal(), "`unstable.api.versions.enable=true`" in error.str()) == (True, True)
    with MockCluster(brokers=1, two_phase_commit=True, transaction_version=1) as old:
        error = unsupported(bank, old)
        assert (error.fatal(), "`transaction.version` 2" in error.str()) == (True, True)
    bank.cluster.push_request_errors(
        ApiKey.INIT_PRODUCER_ID, [E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    )
    error = unsupported(bank, bank.cluster)
    assert (error, error.fatal()) == (E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, True)
    assert f"`{TWO_PHASE}=true` of the brokers" in error.str()
    assert "TWO_PHASE_COMMIT" in error.str()


def test_without_the_property_requests_are_unchanged(bank: Bank) -> None:
    bank.cluster.clear_requests()
    producer = bank.producer()
    assert [each.version for each in bank.cluster.requests_of(ApiKey.INIT_PRODUCER_ID)] == [5]
    producer.begin_transaction()
    assert error_of(producer.prepare_transaction, WAIT_S) == E._STATE
    assert error_of(producer.complete_transaction, PreparedTxnState(), WAIT_S) == E._STATE
    producer.abort_transaction(WAIT_S)
    conf = bank.conf(**{"transactional.id": "other"})
    with Producer(conf) as other, pytest.raises(KafkaException) as caught:
        other.init_transactions(WAIT_S, keep_prepared_txn=True)
    assert (caught.value.args[0], TWO_PHASE in str(caught.value)) == (E._INVALID_ARG, True)


@pytest.mark.parametrize(
    ("conf", "text"),
    [
        (
            {"transactional.id": "tx", "transaction.timeout.ms": 60_000},
            "`transaction.timeout.ms` has no effect with",
        ),
        ({}, f"`{TWO_PHASE}` requires `transactional.id`"),
        (
            {"transactional.id": "tx", "enable.idempotence": False},
            "requires `enable.idempotence=true`",
        ),
    ],
)
def test_settings_that_conflict_with_two_phase_commit(conf: dict[str, Any], text: str) -> None:
    with pytest.raises(KafkaException) as caught:
        Producer({"bootstrap.servers": "localhost:1", TWO_PHASE: True, **conf})
    assert text in caught.value.args[0].str()


def test_a_state_is_text_and_can_be_pickled() -> None:
    state = PreparedTxnState("4000:7")
    assert (state.producer_id, state.epoch, str(state)) == (4000, 7, "4000:7")
    assert state.has_transaction()
    assert pickle.loads(pickle.dumps(state)) == state == PreparedTxnState(str(state))
    assert len({state, PreparedTxnState("4000:7"), PreparedTxnState("4000:8")}) == 2
    none = PreparedTxnState()
    assert (none.producer_id, none.epoch, none.has_transaction(), str(none)) == (-1, -1, False, "")
    assert pickle.loads(pickle.dumps(none)) == none != state
    assert repr(state) == "PreparedTxnState('4000:7')"
    for text in ("x", "1", "1:", ":1", "1:2:3", "-1:-1", "1:32768", f"{2**63}:1", " 1:2", "١:2"):
        with pytest.raises(ValueError, match="not the state of a prepared transaction"):
            PreparedTxnState(text)
    with pytest.raises(TypeError, match="must be str"):
        PreparedTxnState(4000)  # type: ignore[arg-type]


def test_complete_transaction_requires_a_state(bank: Bank) -> None:
    producer, state = prepared(bank, "one")
    with pytest.raises(TypeError, match="must be PreparedTxnState, not str"):
        producer.complete_transaction(str(state))  # type: ignore[arg-type]
    producer.complete_transaction(state, WAIT_S)
