"""The manager of a transactional id: its requests, their order, and the effects of errors, in both
versions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from kafka_native.control.positions import OffsetPosition
from kafka_native.control.producer import transactions
from kafka_native.control.producer.transaction_calls import OUTSTANDING
from kafka_native.control.producer.transactions import State, Transactions
from kafka_native.control.requests import Backoff, Call
from kafka_native.errors import KafkaError
from kafka_native.protocol.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from kafka_native.protocol.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafka_native.types import ConsumerGroupMetadata

PAGE = Path(__file__).resolve().parents[2] / "docs" / "internals" / "transactions.md"
TX, GROUP = 7, 8
MEMBER = ConsumerGroupMetadata("g", 3, "me")
OFFSETS = {("in", 0): OffsetPosition(5, 2, "noted")}
WAITS = "waits"


class FakeCoordinator:
    """A coordinator that is known, or unknown."""

    def __init__(self, target: int) -> None:
        self.node = target
        self.target: int | None = target
        self.on_found: list[Callable[[], None]] = []
        self.on_refused: list[Callable[[KafkaError], None]] = []
        self.refused: KafkaError | None = None
        self.noted: list[int] = []

    def pause_s(self, backoff: Backoff) -> float:
        return 0.0 if self.target is None else backoff.next_s()

    def want(self, now: float) -> int | None:
        return self.target

    def failure_text(self) -> str:
        return ""

    def note(self, error: KafkaError) -> bool:
        self.noted.append(error.code())
        return True

    def answered(self) -> None:
        pass


class FakeMetadata:
    """The topic ids that the test has set."""

    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}
        self.wanted: list[str] = []
        self.refreshed = 0

    def want(self, name: str, now: float) -> None:
        self.wanted.append(name)

    def ids(self, names: Iterable[str]) -> dict[str, bytes]:
        return {name: self.known[name] for name in names if name in self.known}

    def name_of(self, topic_id: bytes) -> str | None:
        return {each: name for name, each in self.known.items()}.get(topic_id)

    def refresh(self, now: float) -> None:
        self.refreshed += 1


class World:
    """A manager, its requests, and the outcomes of its calls."""

    def __init__(self, version: int = 1, **more: Any) -> None:
        self.now = 100.0
        self.version = version
        self.hold_s = -1.0
        self.outstanding = 0
        self.pending_events: list[Callable[[], None]] = []
        self.log: list[Any] = []  # calls of the engine
        self.coordinator, self.group = FakeCoordinator(TX), FakeCoordinator(GROUP)
        self.metadata = FakeMetadata()
        self.fatal: list[KafkaError] = []
        self.calls: list[Call] = []
        self.manager = Transactions(
            self,
            self.coordinator,  # type: ignore[arg-type]
            "tx",
            timeout_ms=60_000,
            request_s=30.0,
            backoff=Backoff(0.1, 1.0),
            group_coordinator=lambda name: self.group,  # type: ignore[arg-type,return-value]
            metadata=self.metadata,  # type: ignore[arg-type]
            version=lambda: self.version,
            on_fatal=self.fatal.append,
            handle_events=self.handle_events,
            clock=lambda: self.now,
            **more,
        )
        self.epoch = 0

    def grant(self, producer_id: int, epoch: int) -> None:
        self.log.append(("grant", producer_id, epoch))

    def transaction_begin(self, number: int, implicit: bool, hold_s: float) -> None:
        self.log.append(("begin", number))
        self.hold_s = hold_s

    def handle_events(self) -> None:
        while self.pending_events:
            self.pending_events.pop()()

    def transaction_tolerate(self, tolerant: bool) -> None:
        self.tolerant = tolerant

    def transaction_close(self) -> None:
        self.log.append("shut")

    def transaction_admit(self, topic: str, partition: int, number: int) -> None:
        self.log.append(("admit", topic, partition))

    def go(self) -> Any:
        """Return the next request, or None.

        The clock advances up to its time, by less than the timeout of a call.
        """
        calls, at = self.manager.poll(self.now)
        if not calls and at < self.now + 30:
            self.now = max(self.now, at)
            calls, _ = self.manager.poll(self.now)
        self.calls += calls
        return calls[0].message if calls else None

    def answer(self, code: int = 0) -> Any:
        """Answer the next request, and return it."""
        message = self.go()
        assert message is not None, "there is no request"
        self.calls.pop().on_reply(self.reply_to(message, code))
        return message

    def reply_to(self, message: Any, code: int) -> Any:
        if isinstance(message, InitProducerIdRequest):
            self.epoch += 0 if code else 1
            return InitProducerIdResponse(
                error_code=code, producer_id=4000, producer_epoch=self.epoch
            )
        if isinstance(message, AddPartitionsToTxnRequest):
            results = [
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(
                            partition_index=number, partition_error_code=code
                        )
                        for number in topic.partitions
                    ],
                )
                for topic in message.v3_and_below_topics
            ]
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
        if isinstance(message, AddOffsetsToTxnRequest):
            return AddOffsetsToTxnResponse(error_code=code)
        if isinstance(message, TxnOffsetCommitRequest):
            answer = TxnOffsetCommitResponse.Topic.Partition(partition_index=0, error_code=code)
            [topic] = message.topics
            kind, by_id = TxnOffsetCommitResponse.Topic, topic.topic_id != bytes(16)
            name = "" if by_id else topic.name
            return TxnOffsetCommitResponse(
                topics=[kind(name=name, topic_id=topic.topic_id, partitions=[answer])]
            )
        assert isinstance(message, EndTxnRequest)
        if self.version < 2:
            return EndTxnResponse(error_code=code)
        self.epoch += 0 if code else 1
        return EndTxnResponse(error_code=code, producer_id=4000, producer_epoch=self.epoch)

    def ready(self) -> World:
        self.result(self.manager.init)
        self.answer()
        assert self.manager.state is State.READY
        return self

    def begun(self) -> World:
        if self.manager.state is State.INIT:
            self.ready()
        assert self.manager.begin() is None
        return self

    def written(self, partition: int = 0) -> World:
        """Produce a message in the transaction."""
        self.manager.on_partition("t", partition, self.manager._number)
        if self.version < 2:
            self.answer()
        return self

    def result(self, call: Callable[..., None], *arguments: Any) -> list[Any]:
        """Make a call, and return a list that gets the outcome."""
        outcome: list[Any] = []
        call(*arguments, outcome.append, self.now + 60)
        return outcome

    def only(self, call: Callable[..., None], *arguments: Any) -> Any:
        """Make a call that has its outcome at once, and return the outcome."""
        (outcome,) = self.result(call, *arguments)
        return outcome


@pytest.fixture(params=[1, 2])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def test_the_page_has_every_state_in_its_diagram_and_its_table() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("stateDiagram-v2")[2]
    drawn, table = text.partition("```")[0], text.partition("| state (")[2]
    states = {state.value for state in State}
    assert {word for word in re.findall(r"\w+", drawn) if word in states} == states
    assert set(re.findall(r"^\| `(\w+)` \|", table.partition("\n\n")[0], re.MULTILINE)) == states


def test_init_gets_the_id_and_waits_as_long_as_the_old_transaction_ends(world: World) -> None:
    outcome = world.result(world.manager.init)
    first = world.answer(KafkaError.CONCURRENT_TRANSACTIONS)
    assert (first.transactional_id, first.transaction_timeout_ms, first.producer_id) == (
        "tx",
        60_000,
        -1,
    )
    assert (outcome, world.manager.state) == ([], State.WAIT_PID)
    world.answer()
    assert (outcome, world.manager.state) == ([None], State.READY)
    assert world.log == [("grant", 4000, 1), "shut"]
    assert world.only(world.manager.init) == KafkaError._STATE


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (-(2**63), 0), (4000, -1)])
def test_an_impossible_identity_is_requested_again(
    world: World, producer_id: int, epoch: int
) -> None:
    outcome = world.result(world.manager.init)
    assert isinstance(world.go(), InitProducerIdRequest)
    world.calls.pop().on_reply(
        InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)
    )
    assert (outcome, world.manager.state, world.log) == ([], State.WAIT_PID, [])
    world.answer()
    assert (outcome, world.manager.state) == ([None], State.READY)
    assert world.log == [("grant", 4000, 1), "shut"]


def test_calls_in_the_wrong_state_are_errors(world: World) -> None:
    manager = world.manager
    assert manager.begin() == KafkaError._STATE
    for call in (manager.commit, manager.abort):
        error = world.only(call)
        assert error == KafkaError._STATE
        assert error.str().endswith("in state Init: call init_transactions() first")
    world.ready()
    error = world.only(manager.commit)
    assert error == KafkaError._STATE
    assert error.str() == (
        "commit_transaction() can't be called in state Ready: call begin_transaction() first"
    )
    assert world.only(manager.send_offsets, OFFSETS, MEMBER) == KafkaError._STATE
    world.begun()
    error = manager.begin()
    assert error is not None
    assert error == KafkaError._STATE
    assert "commit_transaction() or abort_transaction() first" in error.str()


def test_every_state_has_an_advice() -> None:
    assert set(transactions._ADVICE) == set(State)


def test_an_empty_transaction_needs_no_request(world: World) -> None:
    for call in ("commit", "abort"):
        world.begun()
        outcome = world.result(getattr(world.manager, call))
        assert world.go() is None
        assert (outcome, world.manager.state) == ([None], State.READY)


def test_partitions_are_admitted_once_they_are_added() -> None:
    world = World(1).begun()
    world.manager.on_partition("t", 0, 1)
    world.manager.on_partition("t", 1, 1)
    asked = world.answer(KafkaError.CONCURRENT_TRANSACTIONS)
    assert [(each.name, each.partitions) for each in asked.v3_and_below_topics] == [("t", [0, 1])]
    assert ("admit", "t", 0) not in world.log
    world.answer()
    assert world.log[-2:] == [("admit", "t", 0), ("admit", "t", 1)]
    world.manager.on_partition("t", 0, 1)
    assert world.go() is None, "it is in the transaction"
    world.manager.on_partition("u", 0, 7)
    assert world.go() is None, "another transaction's"


def test_with_kip_890_partitions_need_no_request() -> None:
    world = World(2).begun().written()
    outcome = world.result(world.manager.commit)
    ended = world.answer()
    assert isinstance(ended, EndTxnRequest)
    assert (ended.committed, ended.producer_epoch) == (True, 1)
    assert (outcome, world.log[-2:]) == ([None], [("grant", 4000, 2), "shut"])


def test_a_commit_waits_for_messages_and_for_their_failures(world: World) -> None:
    world.begun().written()
    world.outstanding = 1
    assert world.result(world.manager.shut_and_commit) == [OUTSTANDING]
    assert (world.manager.state, world.go()) == (State.IN_TRANSACTION, None)
    world.outstanding = 0
    world.pending_events.append(
        lambda: world.manager.on_failed(KafkaError(KafkaError._MSG_TIMED_OUT), 1)
    )
    (error,) = world.result(world.manager.shut_and_commit)
    assert (error == KafkaError._MSG_TIMED_OUT, error.txn_requires_abort()) == (True, True)
    assert world.go() is None
    other = World(world.version).begun().written()
    outcome = other.result(other.manager.shut_and_commit)
    assert isinstance(other.answer(), EndTxnRequest)
    assert outcome == [None]
    assert other.only(other.manager.shut_and_commit) == KafkaError._STATE


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_with_messages_is_ended(world: World, commit: bool) -> None:
    world.begun().written()
    outcome = world.result(world.manager.commit if commit else world.manager.abort)
    world.answer(KafkaError.NOT_COORDINATOR)
    assert world.coordinator.noted == [KafkaError.NOT_COORDINATOR]
    ended = world.answer()
    assert (ended.committed, ended.transactional_id, outcome) == (commit, "tx", [None])
    assert world.manager.state is State.READY


def test_offsets_go_to_the_groups_coordinator(world: World) -> None:
    world.begun()
    outcome = world.result(world.manager.send_offsets, OFFSETS, MEMBER)
    if world.version == 1:
        added = world.answer()
        assert (added.group_id, added.producer_id) == ("g", 4000)
    message = world.go()
    call = world.calls.pop()
    assert call.target == GROUP
    assert (message.group_id, message.member_id) == ("g", "me")
    assert message.generation_id_or_member_epoch == 3
    place = message.topics[0].partitions[0]
    assert (place.committed_offset, place.committed_leader_epoch, place.committed_metadata) == (
        5,
        2,
        "noted",
    )
    call.on_reply(world.reply_to(message, KafkaError.COORDINATOR_LOAD_IN_PROGRESS))
    assert world.group.noted == [KafkaError.COORDINATOR_LOAD_IN_PROGRESS]
    world.answer()
    assert outcome == [None]
    outcome = world.result(world.manager.commit)
    assert isinstance(world.answer(), EndTxnRequest)
    assert outcome == [None]


def test_offsets_are_committed_by_topic_id(world: World) -> None:
    world.begun()
    [(name, _)] = OFFSETS
    outcome = world.result(world.manager.send_offsets, OFFSETS, MEMBER)
    if world.version == 1:
        world.answer()
    assert world.metadata.wanted == ([name] if world.version == 2 else [])
    message = world.go()
    assert (message.topics[0].name, message.topics[0].topic_id) == (name, bytes(16)), "by name"
    for topic_id in (b"1" * 16, b"2" * 16):
        world.metadata.known = {name: topic_id}
        world.calls.pop().on_reply(world.reply_to(message, KafkaError.UNKNOWN_TOPIC_ID))
        message = world.go()
        assert message.topics[0].topic_id == topic_id
    assert world.metadata.refreshed == 2, "the topic may have another id"
    assert outcome == []
    world.calls.pop().on_reply(world.reply_to(message, KafkaError.GROUP_ID_NOT_FOUND))
    [error] = outcome
    assert error == KafkaError.GROUP_ID_NOT_FOUND
    assert f"TxnOffsetCommit {name} [0]" in error.str()


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    ],
)
def test_offsets_that_are_refused_end_the_transaction_only(world: World, code: int) -> None:
    world.begun()
    outcome = world.result(world.manager.send_offsets, OFFSETS, MEMBER)
    if world.version == 1:
        world.answer()
    world.answer(code)
    (error,) = outcome
    assert error == code
    assert (error.txn_requires_abort(), error.fatal(), error.retriable()) == (True, False, False)
    refused = world.only(world.manager.commit)
    assert (refused == code, refused.txn_requires_abort()) == (True, True)
    assert world.manager.begin() == code
    aborted = world.result(world.manager.abort)
    assert world.answer().committed is False, "the group may be in the transaction all the same"
    assert (aborted, world.manager.state) == ([None], State.READY)
    assert world.manager.begin() is None


def test_a_failed_message_requires_an_abort_and_a_new_epoch(world: World) -> None:
    world.begun().written()
    outcome = world.result(world.manager.commit)
    world.manager.on_failed(KafkaError(KafkaError._MSG_TIMED_OUT), 7)
    assert outcome == [], "another transaction's"
    world.manager.on_failed(KafkaError(KafkaError._MSG_TIMED_OUT), 1)
    (error,) = outcome
    assert (error == KafkaError._MSG_TIMED_OUT, error.txn_requires_abort()) == (True, True)
    aborted = world.result(world.manager.abort)
    assert world.answer().committed is False
    if world.version == 1:
        assert aborted == []
        again = world.answer()
        assert (again.producer_id, again.producer_epoch) == (4000, 1), (
            "the next epoch of the same id"
        )
    assert aborted == [None]
    assert ("grant", 4000, 2) in world.log


@pytest.mark.parametrize("code", [KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH])
def test_fencing_is_permanent(world: World, code: int) -> None:
    world.begun().written()
    outcome = world.result(world.manager.commit)
    world.answer(code)
    (error,) = outcome
    assert (error == KafkaError._FENCED, error.fatal()) == (True, True)
    assert world.fatal == [error]
    for call in (world.manager.abort, world.manager.commit, world.manager.init):
        assert world.only(call).fatal()
    assert world.manager.begin() == KafkaError._FENCED


def test_fencing_by_a_leader_is_checked_with_the_coordinator(world: World) -> None:
    """Brokers also return INVALID_PRODUCER_EPOCH after a transaction took too long (KIP-588)."""
    world.begun().written()
    world.manager.on_out_of_sequence(KafkaError(KafkaError.INVALID_PRODUCER_EPOCH), 4000, 0)
    assert world.manager.state is State.IN_TRANSACTION, "an event of an older epoch"
    world.manager.on_out_of_sequence(KafkaError(KafkaError.INVALID_PRODUCER_EPOCH), 4000, 1)
    refused = world.only(world.manager.commit)
    assert (
        refused == KafkaError.INVALID_PRODUCER_EPOCH,
        refused.txn_requires_abort(),
        world.fatal,
    ) == (True, True, [])
    aborted = world.result(world.manager.abort)
    world.answer(KafkaError.PRODUCER_FENCED)
    assert (aborted[0] == KafkaError._FENCED, aborted[0].fatal()) == (True, True)


@pytest.mark.parametrize(
    "code", [KafkaError.PRODUCER_FENCED, KafkaError.CLUSTER_AUTHORIZATION_FAILED]
)
def test_a_message_with_an_impossible_failure_is_fatal(world: World, code: int) -> None:
    world.begun().written()
    world.manager.on_failed(KafkaError(code), 1)
    assert (world.only(world.manager.commit).fatal(), len(world.fatal)) == (True, 1)


def test_an_abort_does_not_wait_for_offsets(world: World) -> None:
    world.begun()
    outcome = world.result(world.manager.send_offsets, OFFSETS, MEMBER)
    if world.version == 1:
        world.answer()
    world.answer(KafkaError.UNKNOWN_TOPIC_OR_PART)
    message = world.go()
    call = world.calls.pop()
    assert (message, outcome) == (call.message, []), "it is asked again"
    assert world.manager.shut(abort=True) is None
    assert outcome[0] == KafkaError._CONFLICT
    aborted = world.result(world.manager.abort)
    call.on_reply(world.reply_to(message, KafkaError.ILLEGAL_GENERATION))
    assert aborted == [], "the outcome of the offsets no longer matters"
    assert world.answer().committed is False
    assert (aborted, world.manager.state) == ([None], State.READY)


def test_a_transaction_that_an_unanswered_request_may_have_begun_is_ended() -> None:
    """Otherwise the broker keeps an open transaction until its timeout, and then fences this
    producer.
    """
    world = World(1).begun()
    world.manager.on_partition("t", 0, 1)
    assert isinstance(world.go(), AddPartitionsToTxnRequest)
    aborted = world.result(world.manager.abort)
    world.calls.pop().on_reply(KafkaError(KafkaError._TIMED_OUT))
    again = world.answer(KafkaError.CONCURRENT_TRANSACTIONS)
    assert (type(again), again.producer_id, aborted) == (InitProducerIdRequest, 4000, [])
    world.answer()
    assert (aborted, world.manager.state) == ([None], State.READY)
    world.begun()
    outcome = world.result(world.manager.commit)
    assert (world.go(), outcome) == (None, [None]), "the next one has no messages"


def test_a_forbidden_coordinator_is_an_error_at_once(world: World) -> None:
    world.begun()
    world.group.target, world.group.refused = (
        None,
        KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED),
    )
    outcome = world.result(world.manager.send_offsets, OFFSETS, MEMBER)
    if world.version == 1:
        world.answer()
    assert world.go() is None
    assert (
        outcome[0] == KafkaError.GROUP_AUTHORIZATION_FAILED,
        outcome[0].txn_requires_abort(),
    ) == (True, True)

    other = World(world.version)
    other.coordinator.target = None
    outcome = other.result(other.manager.init)
    assert (other.go(), outcome) == (None, [])
    other.coordinator.refused = KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    for notify in other.coordinator.on_refused:
        notify(other.coordinator.refused)
    assert other.go() is None
    assert outcome[0].fatal()


def test_markers_of_the_last_transaction_are_waited_for_briefly() -> None:
    world = World(1).begun()
    world.manager.on_partition("t", 0, 1)
    before = world.now
    for _ in range(3):
        world.answer(KafkaError.CONCURRENT_TRANSACTIONS)
    assert isinstance(world.go(), AddPartitionsToTxnRequest)
    assert world.now - before < 0.1, "less than one retry.backoff.ms"


def test_the_next_transaction_waits_for_the_markers_of_the_last_one(world: World) -> None:
    """A leader that finds them missing checks again after 20 ms. They take about as long as the
    EndTxn.
    """
    world.begun().written()
    assert world.hold_s == 0, "there was no last one"
    world.result(world.manager.commit)
    message = world.go()
    call = world.calls.pop()
    world.now += 0.001
    call.on_reply(world.reply_to(message, 0))
    world.begun()
    assert world.hold_s == pytest.approx(0.002)
    ended = world.now
    world.result(world.manager.send_offsets, OFFSETS, MEMBER)
    assert world.manager.poll(world.now)[0] == []
    world.go()
    assert world.now == pytest.approx(ended + 0.002)
    world.now += 1
    other = World(world.version).begun().written()
    other.result(other.manager.abort)
    message = other.go()
    other.now += 5
    other.calls.pop().on_reply(other.reply_to(message, 0))
    other.begun()
    assert other.hold_s == pytest.approx(0.02), "no longer than an early request has to wait"


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError._UNSUPPORTED_FEATURE,
    ],
)
def test_a_refused_init_is_fatal(code: int) -> None:
    world = World()
    outcome = world.result(world.manager.init)
    world.answer(code)
    assert (outcome[0] == code, outcome[0].fatal(), world.manager.state) == (
        True,
        True,
        State.FATAL,
    )


def test_a_coordinator_that_forgot_the_producer_aborts_the_transaction(world: World) -> None:
    world.begun().written()
    outcome = world.result(world.manager.commit)
    world.answer(KafkaError.INVALID_PRODUCER_ID_MAPPING)
    assert outcome[0].txn_requires_abort()
    aborted = world.result(world.manager.abort)
    assert isinstance(world.answer(KafkaError.INVALID_PRODUCER_ID_MAPPING), EndTxnRequest)
    assert isinstance(world.answer(), InitProducerIdRequest)
    assert (aborted, world.manager.state) == ([None], State.READY)


def test_a_call_that_timed_out_continues_and_can_be_repeated(world: World) -> None:
    world.begun().written()
    first = world.result(world.manager.commit)
    assert isinstance(world.go(), EndTxnRequest)
    call = world.calls.pop()
    world.now += 61
    world.manager.poll(world.now)
    assert (first[0] == KafkaError._TIMED_OUT, first[0].retriable()) == (True, True)
    assert world.only(world.manager.abort) == KafkaError._CONFLICT
    assert world.manager.shut(abort=True) == KafkaError._CONFLICT
    assert world.manager.shut(abort=False) is None
    second = world.result(world.manager.commit)
    call.on_reply(world.reply_to(call.message, 0))
    assert (len(first), second) == (1, [None])

    world.begun().written(1)
    world.result(world.manager.commit)
    world.go()
    world.now += 61
    world.manager.poll(world.now)
    call = world.calls.pop()
    call.on_reply(world.reply_to(call.message, 0))
    assert world.manager.committing, "or a block would abort it"
    error = world.only(world.manager.abort)
    assert (
        error == KafkaError._CONFLICT,
        "commit_transaction() isn't done yet" in error.str(),
    ) == (
        True,
        True,
    )
    assert world.only(world.manager.commit) is None, "the outcome that arrived meanwhile"
    assert world.manager.begin() is None


def test_no_request_is_sent_without_a_coordinator() -> None:
    world = World()
    world.coordinator.target = None
    outcome = world.result(world.manager.init)
    assert world.go() is None
    world.coordinator.target = TX
    for notify in world.coordinator.on_found:
        notify()
    world.answer()
    assert outcome == [None]


def test_a_needed_coordinator_is_looked_up_in_the_next_turn() -> None:
    """The coordinator's manager may be new, or may have had its turn: nothing else would wake the
    thread.
    """
    world = World()
    world.coordinator.target = None
    world.result(world.manager.init)
    assert world.manager.poll(world.now) == ([], world.now)
    calls, at = world.manager.poll(world.now)
    assert (calls, at > world.now) == ([], True)


# --- several producers in one transaction ---


def sharing(world: World) -> tuple[World, Any]:
    """Return another producer, and the state that the first one has shared."""
    return World(world.version), world.ready().manager.share()


def test_an_adopter_writes_under_the_shared_identity_and_ends_nothing(world: World) -> None:
    other, shared = sharing(world)
    assert (shared.producer_id, shared.epoch, shared.version) == (4000, 1, world.version)
    assert other.manager.adopt(shared) is None
    assert other.manager.state is State.IN_TRANSACTION
    assert other.log == ["shut", ("grant", 4000, 1), ("begin", 1)]
    other.written()
    assert [type(call.message) for call in other.calls] == []
    assert other.go() is None


def test_an_adopter_can_end_the_messages_of_others(world: World) -> None:
    for end in ("commit", "abort"):
        other, shared = sharing(World(world.version))
        other.manager.adopt(shared)
        outcome = other.result(getattr(other.manager, end))
        message = other.answer()
        assert isinstance(message, EndTxnRequest)
        assert (message.producer_id, message.producer_epoch, message.committed) == (
            4000,
            1,
            end == "commit",
        )
        assert outcome == [None]


def test_adopters_use_the_version_of_the_first_producer(world: World) -> None:
    """A producer that adopts has made no request, so it knows no version yet."""
    other, shared = sharing(world)
    other.version = 0
    other.manager.adopt(shared)
    other.manager.on_partition("t", 0, 1)
    assert (other.go() is None) == (shared.version == 2)


def test_the_next_adoption_replaces_the_last_one(world: World) -> None:
    other, shared = sharing(world)
    other.manager.adopt(shared)
    other.written()
    other.manager.on_failed(KafkaError(KafkaError._MSG_TIMED_OUT), 1)
    assert other.manager.error is not None
    assert other.manager.adopt(type(shared)(4000, 2, shared.version)) is None
    assert (other.manager.error, other.manager.state) == (None, State.IN_TRANSACTION)
    assert other.log[-3:] == ["shut", ("grant", 4000, 2), ("begin", 2)]


def test_only_a_ready_producer_shares_and_a_failed_one_adopts_nothing(world: World) -> None:
    assert world.manager.share() == KafkaError._STATE
    other, shared = sharing(world)
    world.manager.begin()
    assert world.manager.share() == KafkaError._STATE
    other.result(other.manager.init)
    assert other.manager.adopt(shared) == KafkaError._STATE  # a call isn't done
    other.answer(KafkaError.PRODUCER_FENCED)
    assert other.manager.adopt(shared).code() == KafkaError._FENCED  # type: ignore[union-attr]
