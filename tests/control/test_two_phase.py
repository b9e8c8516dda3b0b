"""Two-phase commit (KIP-939) in the manager of a transactional id: requests, and the effects of
their answers.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native.control.producer.transaction_calls import OUTSTANDING, Kind
from kafka_native.control.producer.transactions import State
from kafka_native.errors import KafkaError
from kafka_native.protocol.producer_ids import InitProducerIdRequest
from kafka_native.protocol.transactions import (
    EndTxnRequest,
)
from kafka_native.types import PreparedTxnState

from .test_transactions import MEMBER, OFFSETS, World

OPEN = PreparedTxnState("4000:1")
OTHER = PreparedTxnState("4000:9")
NONE = PreparedTxnState()


class TwoPhase(World):
    """A manager whose coordinator keeps one prepared transaction, or none."""

    def __init__(self, version: int = 2) -> None:
        super().__init__(version, two_phase=True)
        self.ongoing = NONE

    def reply_to(self, message: Any, code: int) -> Any:
        found = super().reply_to(message, code)
        if isinstance(message, InitProducerIdRequest) and message.keep_prepared_txn:
            found.ongoing_txn_producer_id = self.ongoing.producer_id
            found.ongoing_txn_producer_epoch = self.ongoing.epoch
        return found

    def prepare(self) -> PreparedTxnState:
        state: PreparedTxnState = self.only(self.manager.shut_and_prepare)
        assert self.manager.state is State.PREPARED
        return state

    def recover(self, code: int = 0) -> list[Any]:
        outcome: list[Any] = []
        self.manager.init(outcome.append, self.now + 60, keep_prepared=True)
        asked = self.answer(code)
        assert (asked.enable2_pc, asked.keep_prepared_txn) == (True, True)
        return outcome


@pytest.fixture
def world() -> TwoPhase:
    return TwoPhase()


def test_prepare_needs_no_request_and_allows_only_the_end(world: TwoPhase) -> None:
    world.begun().written()
    assert world.manager.prepared is None
    state = world.prepare()
    assert (state, world.manager.taking, world.go()) == (OPEN, False, None)
    manager = world.manager
    assert manager.begin() == KafkaError._STATE
    assert world.only(manager.shut_and_prepare) == KafkaError._STATE
    assert world.only(manager.send_offsets, OFFSETS, MEMBER) == KafkaError._STATE
    assert world.only(manager.init) == KafkaError._STATE
    assert [world.only(manager.complete, given) for given in (OPEN, OTHER, NONE)] == [
        Kind.COMMIT,
        Kind.ABORT,
        Kind.ABORT,
    ]
    assert manager.shut(abort=False) is None
    outcome = world.result(manager.commit)
    assert world.answer().committed is True
    assert (outcome, manager.state) == ([None], State.READY)
    assert world.only(manager.complete, OPEN) == KafkaError._STATE


def test_prepare_waits_for_deliveries_and_fails_with_a_failed_message(world: TwoPhase) -> None:
    world.begun().written()
    world.outstanding = 1
    assert world.only(world.manager.shut_and_prepare) is OUTSTANDING
    world.outstanding = 0
    failed = KafkaError(KafkaError._MSG_TIMED_OUT)
    world.pending_events.append(lambda: world.manager.on_failed(failed, world.manager._number))
    assert world.only(world.manager.shut_and_prepare).txn_requires_abort()
    assert (world.manager.state, world.manager.prepared) == (State.ABORTABLE, None)


@pytest.mark.parametrize("commit", [True, False])
def test_a_kept_transaction_is_ended_under_the_new_epoch(world: TwoPhase, commit: bool) -> None:
    world.ongoing = OTHER
    assert (world.recover(), world.manager.state, world.manager.prepared) == (
        [None],
        State.PREPARED,
        OTHER,
    )
    assert world.only(world.manager.complete, OTHER if commit else OPEN) is (
        Kind.COMMIT if commit else Kind.ABORT
    )
    assert world.manager.shut(abort=not commit) is None
    outcome = world.result(world.manager.commit if commit else world.manager.abort)
    asked = world.answer()
    assert isinstance(asked, EndTxnRequest)
    assert (asked.producer_epoch, asked.committed) == (1, commit)
    assert (outcome, world.manager.state) == ([None], State.READY)
    assert world.manager.begin() is None


def test_without_a_kept_transaction_nothing_is_completed(world: TwoPhase) -> None:
    assert (world.recover(), world.manager.state) == ([None], State.READY)
    assert world.only(world.manager.complete, OPEN) is None
    assert world.manager.begin() is None
    assert world.only(world.manager.complete, OPEN) == KafkaError._STATE


@pytest.mark.parametrize(
    ("code", "known"),
    [
        (0, True),
        (KafkaError.PRODUCER_FENCED, False),
        (KafkaError.INVALID_PRODUCER_EPOCH, False),
        (KafkaError.INVALID_PRODUCER_ID_MAPPING, False),
        (KafkaError.INVALID_TXN_STATE, False),
    ],
)
def test_a_coordinator_that_keeps_nothing_completes_by_identity(
    world: TwoPhase, code: int, known: bool
) -> None:
    assert world.recover(KafkaError.UNSUPPORTED_VERSION) == [None]
    assert (world.manager.state, world.manager.prepared, world.log) == (
        State.PREPARED,
        None,
        ["shut"],
    )
    assert world.manager.shut(abort=False) == KafkaError._STATE, (
        "the transaction to commit is unknown"
    )
    outcome = world.result(world.manager.complete, OTHER)
    ended = world.answer(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    assert (ended.producer_id, ended.producer_epoch, ended.committed) == (4000, 9, True)
    assert world.only(world.manager.complete, OPEN) == KafkaError._CONFLICT
    assert isinstance(world.answer(code), EndTxnRequest)
    asked = world.answer()
    assert isinstance(asked, InitProducerIdRequest)
    assert (asked.enable2_pc, asked.keep_prepared_txn, asked.producer_id) == (True, False, -1)
    assert (outcome, world.manager.state) == ([None], State.READY)


def test_no_transaction_by_identity_is_an_abort(world: TwoPhase) -> None:
    world.recover(KafkaError.UNSUPPORTED_VERSION)
    outcome = world.result(world.manager.complete, NONE)
    assert isinstance(world.answer(), InitProducerIdRequest)
    assert (outcome, world.manager.state) == ([None], State.READY)


def test_a_forbidden_end_by_identity_is_fatal(world: TwoPhase) -> None:
    world.recover(KafkaError.UNSUPPORTED_VERSION)
    outcome = world.result(world.manager.complete, OTHER)
    world.answer(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert (outcome[0].fatal(), world.manager.state) == (True, State.FATAL)


@pytest.mark.parametrize(
    ("version", "code", "text"),
    [
        (2, KafkaError.UNSUPPORTED_VERSION, "`unstable.api.versions.enable=true`"),
        (1, 0, "`transaction.version` 2"),
        (
            2,
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "`transaction.two.phase.commit.enable=true` of",
        ),
    ],
)
def test_a_broker_without_two_phase_commit_gives_an_error_with_its_requirement(
    version: int, code: int, text: str
) -> None:
    world = TwoPhase(version)
    outcome = world.result(world.manager.init)
    world.answer(code)
    assert (outcome[0].fatal(), text in outcome[0].str(), world.manager.granted) == (True, True, 0)


def test_keeping_needs_two_phase_commit() -> None:
    world = World(2)
    outcome: list[Any] = []
    world.manager.init(outcome.append, world.now + 60, keep_prepared=True)
    assert (outcome[0].code(), world.manager.state) == (KafkaError._INVALID_ARG, State.INIT)
    world.begun()
    assert world.only(world.manager.shut_and_prepare) == KafkaError._STATE
