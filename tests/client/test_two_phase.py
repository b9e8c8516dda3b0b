"""Two-phase commit (KIP-939) on the mock cluster: prepare, leave, keep, and end as decided."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native import (
    Consumer,
    KafkaError,
    KafkaException,
    PreparedTxnState,
    Producer,
    TopicPartition,
)
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.mock.transactions import State
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

from .bank import SOON, Bank, error_of

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
    settings = {
        "bootstrap.servers": bank.cluster.bootstrap_servers,
        "transactional.id": f"{bank.topic}-tx",
        **SOON,
    }
    producer = Producer({**settings, TWO_PHASE: True})
    bank.made.append(producer)
    producer.init_transactions(WAIT_S, keep_prepared_txn=True)
    return producer


def commits_another(bank: Bank, producer: Producer, value: str) -> None:
    """Check that it works as any other afterwards."""
    with producer.transaction(timeout=WAIT_S):
        producer.produce(bank.topic, value, partition=1)


def test_who_prepared_commits_or_aborts_by_comparing(bank: Bank) -> None:
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


def test_commit_and_abort_end_what_is_prepared(bank: Bank) -> None:
    producer, _ = prepared(bank, "kept")
    producer.commit_transaction(WAIT_S)
    producer.begin_transaction()
    producer.produce(bank.topic, "lost", partition=0)
    producer.prepare_transaction(WAIT_S)
    producer.abort_transaction(WAIT_S)
    assert bank.seen() == ["kept"]


@KEEPS
@pytest.mark.parametrize("decided", [True, False], ids=["commit", "abort"])
def test_a_new_producer_ends_it_as_was_decided(bank: Bank, keeps: bool, decided: bool) -> None:
    old, state = prepared(bank, "one", "two")
    new = recovering(bank, keeps=keeps)
    assert bank.state() is State.ONGOING
    new.complete_transaction(state if decided else PreparedTxnState(), WAIT_S)
    assert bank.state() is not State.ONGOING
    assert bank.seen() == (["one", "two"] if decided else [])
    assert error_of(old.commit_transaction, WAIT_S).fatal()
    commits_another(bank, new, "three")
    assert bank.seen() == (["one", "three", "two"] if decided else ["three"])


@KEEPS
def test_what_was_open_and_not_prepared_is_aborted(bank: Bank, keeps: bool) -> None:
    old, first = prepared(bank, "one")
    old.commit_transaction(WAIT_S)
    old.begin_transaction()
    old.produce(bank.topic, "half", partition=0)
    assert old.flush(WAIT_S) == 0
    new = recovering(bank, keeps=keeps)
    new.complete_transaction(first, WAIT_S)  # the last decision, which is done
    assert bank.seen() == ["one"]
    assert bank.seen("read_uncommitted") == ["half", "one"]
    commits_another(bank, new, "two")


@KEEPS
def test_who_crashes_again_and_again_finds_the_same_transaction(bank: Bank, keeps: bool) -> None:
    _, state = prepared(bank, "one")
    for _ in range(3):
        recovering(bank, keeps=keeps).close(0)
    recovering(bank, keeps=keeps).complete_transaction(state, WAIT_S)
    assert bank.seen() == ["one"]


@KEEPS
def test_a_transaction_that_is_completed_already_is_completed(bank: Bank, keeps: bool) -> None:
    producer, state = prepared(bank, "one")
    producer.commit_transaction(WAIT_S)  # its answer may not have been recorded
    new = recovering(bank, keeps=keeps)
    new.complete_transaction(state, WAIT_S)
    assert bank.seen() == ["one"]
    commits_another(bank, new, "two")
    assert bank.seen() == ["one", "two"]


@KEEPS
def test_what_is_kept_can_be_aborted_without_knowing_it(bank: Bank, keeps: bool) -> None:
    prepared(bank, "one")
    new = recovering(bank, keeps=keeps)
    new.abort_transaction(WAIT_S)
    commits_another(bank, new, "two")
    assert bank.seen() == ["two"]


def test_without_keeping_it_is_aborted(bank: Bank) -> None:
    prepared(bank, "one")
    commits_another(bank, two_phase(bank), "two")
    assert bank.seen() == ["two"]


@pytest.mark.parametrize("key", [ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN])
@KEEPS
def test_what_passes_is_asked_again(bank: Bank, keeps: bool, key: int) -> None:
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
    commits_another(bank, new, "two")


@pytest.mark.parametrize("done", [True, False])
@KEEPS
def test_an_end_whose_answer_is_lost_is_asked_for_again(
    bank: Bank, keeps: bool, done: bool
) -> None:
    _, state = prepared(bank, "one")
    new = recovering(bank, keeps=keeps)
    bank.cluster.push_request_errors(ApiKey.END_TXN, [CLOSE_CONNECTION], done=done)
    new.complete_transaction(state, WAIT_S)
    assert bank.seen() == ["one"]
    commits_another(bank, new, "two")
    assert bank.seen() == ["one", "two"]


@KEEPS
def test_completing_goes_on_when_its_time_is_up(bank: Bank, keeps: bool) -> None:
    _, state = prepared(bank, "one")
    new = recovering(bank, keeps=keeps)
    codes = [E.COORDINATOR_LOAD_IN_PROGRESS] * 30
    bank.cluster.push_request_errors(ApiKey.END_TXN, codes)
    error = error_of(new.complete_transaction, state, 0.05)
    assert (error, error.retriable()) == (E._TIMED_OUT, True)
    assert error_of(
        new.complete_transaction, PreparedTxnState(), 0.05
    ) == E._CONFLICT or bank.seen() == ["one"]
    bank.cluster.faults.clear()
    new.complete_transaction(state, WAIT_S)
    assert bank.seen() == ["one"]


def test_a_coordinator_that_goes_down_takes_nothing_with_it(bank: Bank) -> None:
    _, state = prepared(bank, "one")
    coordinator = bank.cluster.coordinator_of(f"{bank.topic}-tx")
    assert coordinator is not None
    bank.cluster.broker_down(coordinator.id)
    try:
        recovering(bank).complete_transaction(state, WAIT_S)
        assert bank.seen() == ["one"]
    finally:
        bank.cluster.broker_up(coordinator.id)


def test_offsets_are_prepared_with_it(bank: Bank) -> None:
    conf = {"bootstrap.servers": bank.cluster.bootstrap_servers, "group.id": f"{bank.topic}-group"}
    place = TopicPartition(bank.topic, 0, 7)
    with Consumer(conf) as consumer:
        producer = two_phase(bank)
        producer.begin_transaction()
        producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), WAIT_S)
        state = producer.prepare_transaction(WAIT_S)
        error = error_of(
            producer.send_offsets_to_transaction,
            [place],
            consumer.consumer_group_metadata(),
            WAIT_S,
        )
        assert error == E._STATE
        recovering(bank).complete_transaction(state, WAIT_S)
        [found] = consumer.committed([place], WAIT_S)
    assert found.offset == 7


def test_only_the_end_comes_after_prepare(bank: Bank) -> None:
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


def test_what_was_not_delivered_cannot_be_prepared(bank: Bank) -> None:
    producer = two_phase(bank)
    producer.begin_transaction()
    bank.cluster.push_request_errors(ApiKey.PRODUCE, [E.TOPIC_AUTHORIZATION_FAILED])
    producer.produce(bank.topic, "refused", partition=0)
    assert error_of(producer.prepare_transaction, WAIT_S).txn_requires_abort()
    producer.abort_transaction(WAIT_S)
    assert bank.seen() == []


def test_prepare_that_has_no_time_is_called_again(bank: Bank) -> None:
    producer = two_phase(bank)
    producer.begin_transaction()
    bank.cluster.push_request_errors(ApiKey.PRODUCE, [E.NOT_LEADER_FOR_PARTITION] * 5)
    producer.produce(bank.topic, "slow", partition=0)
    error = error_of(producer.prepare_transaction, 0)
    assert (error, error.retriable()) == (E._TIMED_OUT, True)
    producer.complete_transaction(producer.prepare_transaction(WAIT_S), WAIT_S)
    assert bank.seen() == ["slow"]


def test_no_timeout_ends_it(bank: Bank) -> None:
    _, state = prepared(bank, "one")
    found = bank.cluster.transactions.find(f"{bank.topic}-tx")
    assert found is not None
    assert found.timeout_s > 24 * 86_400
    recovering(bank).complete_transaction(state, WAIT_S)


def unsupported(cluster: MockCluster, **conf: Any) -> KafkaError:
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "transactional.id": "tx",
        TWO_PHASE: True,
        **SOON,
    }
    with Producer({**settings, **conf}) as producer:
        return error_of(producer.init_transactions, WAIT_S)


def test_brokers_without_it_are_named_what_they_need(bank: Bank) -> None:
    with MockCluster(brokers=1) as stable:
        error = unsupported(stable)
        assert (error.fatal(), "`unstable.api.versions.enable=true`" in error.str()) == (True, True)
    with MockCluster(brokers=1, two_phase_commit=True, transaction_version=1) as old:
        error = unsupported(old)
        assert (error.fatal(), "`transaction.version` 2" in error.str()) == (True, True)
    bank.cluster.push_request_errors(
        ApiKey.INIT_PRODUCER_ID, [E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    )
    error = unsupported(bank.cluster)
    assert (error, error.fatal()) == (E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, True)
    assert f"`{TWO_PHASE}=true` of the brokers" in error.str()
    assert "TWO_PHASE_COMMIT" in error.str()


def test_without_the_property_nothing_of_it_is_asked(bank: Bank) -> None:
    bank.cluster.clear_requests()
    producer = bank.producer()
    assert [each.version for each in bank.cluster.requests_of(ApiKey.INIT_PRODUCER_ID)] == [5]
    producer.begin_transaction()
    assert error_of(producer.prepare_transaction, WAIT_S) == E._STATE
    assert error_of(producer.complete_transaction, PreparedTxnState(), WAIT_S) == E._STATE
    producer.abort_transaction(WAIT_S)
    settings = {
        "bootstrap.servers": bank.cluster.bootstrap_servers,
        "transactional.id": "other",
        **SOON,
    }
    with Producer(settings) as other, pytest.raises(KafkaException) as caught:
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
def test_settings_that_do_not_go_with_it(conf: dict[str, Any], text: str) -> None:
    with pytest.raises(KafkaException) as caught:
        Producer({"bootstrap.servers": "localhost:1", TWO_PHASE: True, **conf})
    assert text in caught.value.args[0].str()


def test_a_state_is_text_and_can_be_pickled() -> None:
    state = PreparedTxnState("4000:7")
    assert (state.producer_id, state.epoch, state.has_transaction(), str(state)) == (
        4000,
        7,
        True,
        "4000:7",
    )
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


def test_only_a_state_completes(bank: Bank) -> None:
    producer, state = prepared(bank, "one")
    with pytest.raises(TypeError, match="must be PreparedTxnState, not str"):
        producer.complete_transaction(str(state))  # type: ignore[arg-type]
    producer.complete_transaction(state, WAIT_S)
