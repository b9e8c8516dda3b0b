"""Transactions (KIP-98): one transactional id, its producer id and epoch, its current transaction.

The application calls init, begin, send offsets, commit or abort, one operation at a time. The
operation's requests are retried until it has an outcome, even after the call has timed out. The
next call of the same kind waits for that outcome, or returns it.

Version 1: a partition is added to the transaction before its first batch is sent, and a group
before its offsets. Version 2 (KIP-890): writing adds a partition or group by itself, and each end
of a transaction returns a new epoch. The cluster decides the version. The producer checks it at the
begin of each transaction.

Several producers may write to one transaction (`Transactions.adopt()`). They share the producer id
and epoch that one of them got. Each writes to its own partitions, because a partition's sequence
numbers need one source. One of them ends the transaction for all.

With two-phase commit (KIP-939) a transaction can be prepared: all its messages are delivered, and
only its end is missing. An external coordinator decides how it ends. A newer instance can keep a
prepared transaction and then end it by that decision.

Thread: the control thread only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kafka_native.cleaning import NAME_MAX, clean
from kafka_native.control.errors import (
    MESSAGE_FATAL_ERRORS,
    PRODUCER_FENCED_ERRORS,
    PRODUCER_FORGOTTEN_ERRORS,
    TRANSACTION_FATAL_ERRORS,
    TRANSACTION_NOT_OPEN_ERRORS,
    TRANSACTION_RETRIABLE_ERRORS,
    WRONG_STATE_ERRORS,
)
from kafka_native.control.positions import Key, OffsetPosition
from kafka_native.control.producer.identity import invalid_identity
from kafka_native.control.producer.transaction_calls import OUTSTANDING, Kind, Shared
from kafka_native.control.requests import ANY_VERSION, NEVER, Backoff, Call, Reply
from kafka_native.errors import KafkaError
from kafka_native.logs import QUIET, Log
from kafka_native.protocol.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from kafka_native.protocol.schema import ZERO_UUID
from kafka_native.protocol.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafka_native.types import ConsumerGroupMetadata, PreparedTxnState

if TYPE_CHECKING:
    from kafka_native.control.brokers.coordinator import Coordinator
    from kafka_native.control.metadata import Metadata
    from kafka_native.protocol.schema import Request

NO_PRODUCER = -1
MARKERS_S = 0.002
"""The first delay after CONCURRENT_TRANSACTIONS: the broker still writes the last markers."""
HOLD = 2
"""The next transaction's first request waits this many times the duration of the last EndTxn.

The broker replies to EndTxn after one log append; two more are needed for the markers. An earlier
request may even take longer: a leader that adds the partition itself checks for the markers only
every 20 ms.
"""
HOLD_MAX_S = 0.02
LAST_OF_CLIENTS = 3
"""The newest AddPartitionsToTxn version for clients: newer ones are for brokers."""
LAST_EXPLICIT = 4
"""The newest EndTxn and TxnOffsetCommit versions without KIP-890."""
TRANSACTION_VERSION = "transaction.version"
"""The cluster's feature. From `IMPLICIT` on, transactions follow KIP-890."""
IMPLICIT = 2
TWO_PHASE = "transaction.two.phase.commit.enable"
_UNSTABLE = (
    "InitProducerId 6, which brokers have with `unstable.api.versions.enable=true`, "
    "and an epoch for each transaction, which they have with `transaction.version` 2 (KIP-890)"
)
TWO_PHASE_NEEDS = {
    KafkaError._UNSUPPORTED_FEATURE: _UNSTABLE,
    KafkaError.UNSUPPORTED_VERSION: _UNSTABLE,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: f"`{TWO_PHASE}=true` of the brokers, "
    "and where there is an authorizer the operation TWO_PHASE_COMMIT on the transactional id",
}
"""What two-phase commit needs, by the error that a broker returns without it."""

Done: TypeAlias = Callable[[KafkaError | None], None]


class Writer(Protocol):
    """The engine's functions for transactions."""

    def grant(self, producer_id: int, epoch: int) -> None:
        """Numbers batches with this id and epoch from now on."""

    def transaction_begin(self, number: int, implicit: bool, hold_s: float) -> None:
        """Accepts messages from now on and sends them after ``hold_s``.

        ``implicit``: partitions need no `transaction_admit()`.
        """

    @property
    def outstanding(self) -> int:
        """The number of messages without an outcome, or whose report wasn't served."""

    def transaction_tolerate(self, tolerant: bool) -> None:
        """Whether transactions continue without the messages that the broker refuses as such.

        They are too large or invalid. Their delivery reports have the error.
        """

    def transaction_close(self) -> None:
        """Accepts no more messages. Accepted ones are still sent."""

    def transaction_admit(self, topic: str, partition: int, number: int) -> None:
        """Allows batches of this partition to be sent in this transaction."""


class State(Enum):
    """The state of the transactional id. The names are librdkafka's ``txn_state``."""

    INIT = "Init"
    WAIT_PID = "WaitPID"
    READY = "Ready"
    IN_TRANSACTION = "InTransaction"
    PREPARED = "PreparedTransaction"
    COMMITTING = "CommittingTransaction"
    ABORTABLE = "AbortableError"
    ABORTING = "AbortingTransaction"
    FATAL = "FatalError"


_ADVICE: Final = {
    State.INIT: "call init_transactions() first",
    State.WAIT_PID: "call init_transactions() again, to wait for its end",
    State.READY: "call begin_transaction() first",
    State.IN_TRANSACTION: "call commit_transaction() or abort_transaction() first",
    State.PREPARED: "end the prepared transaction first, with complete_transaction(), "
    "commit_transaction() or abort_transaction()",
    State.COMMITTING: "call commit_transaction() again, to wait for its end",
    State.ABORTABLE: "call abort_transaction() first",
    State.ABORTING: "call abort_transaction() again, to wait for its end",
    State.FATAL: "close the producer and make another one",
}
"""The next step of an application whose call doesn't fit the state."""


class Operation:
    """One call of the application, until its outcome was returned."""

    def __init__(
        self,
        kind: Kind,
        done: Done | None,
        deadline: float,
        offsets: Mapping[Key, OffsetPosition] = MappingProxyType({}),
        member: ConsumerGroupMetadata | None = None,
        *,
        claim: PreparedTxnState | None = None,
        claimed: bool = False,
    ) -> None:
        """Stores a call that has no outcome yet."""
        self.kind = kind
        self.done = done
        self.deadline = deadline
        self.offsets = offsets
        self.member = member
        self.claim = claim
        self.claimed = claimed
        self.over = False
        self.outcome: KafkaError | None = None


class Transactions:
    """The manager of a producer's transactional id."""

    def __init__(
        self,
        writer: Writer,
        coordinator: Coordinator,
        transactional_id: str,
        *,
        timeout_ms: int,
        request_s: float,
        backoff: Backoff,
        group_coordinator: Callable[[str], Coordinator],
        metadata: Metadata,
        version: Callable[[], int],
        on_fatal: Callable[[KafkaError], None],
        handle_events: Callable[[], None],
        log: Log = QUIET["eos"],
        clock: Callable[[], float] = time.monotonic,
        two_phase: bool = False,
        hides_causes: bool = False,
    ) -> None:
        """``timeout_ms``: transaction.timeout.ms; ``request_s``: the timeout of one request.

        ``two_phase``: transaction.two.phase.commit.enable. ``version`` returns the cluster's
        ``transaction.version``. ``group_coordinator`` returns the coordinator of a group.
        ``metadata`` has the topics' ids.
        ``handle_events`` handles the queued events of the engine. ``hides_causes``: as in
        librdkafka, no more messages are accepted after a broker has refused one. After another
        failure, they are, and the commit fails with _INCONSISTENT.
        """
        self._hides_causes = hides_causes
        self._writer = writer
        self._coordinator = coordinator
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._request_s = request_s
        self._backoff = backoff
        self._markers = Backoff(MARKERS_S, backoff.first_s)
        self._group_coordinator = group_coordinator
        self._metadata = metadata
        self._version = version
        self._on_fatal = on_fatal
        self._on_lost: Callable[[KafkaError], None] = lambda error: None
        self._handle_events = handle_events
        self._log = log
        self._clock = clock
        self._two_phase = two_phase
        self.state = State.INIT
        self.producer_id = self.epoch = NO_PRODUCER
        self._undelivered: KafkaError | None = None
        """The error for the commit of this transaction."""
        self.error: KafkaError | None = None
        """Why the transaction has to be aborted, or the producer has to be closed."""
        self.granted = 0
        """The number of ids and epochs so far."""
        self.taking = False
        """Whether the producer accepts messages."""
        self.prepared: PreparedTxnState | None = None
        """The current or last prepared transaction.

        It is empty if init() should keep a prepared transaction, but there was none.
        """
        self._keep = False  # keep the transaction of an older instance
        # the transaction to commit, if it is the open one
        self._claimed: PreparedTxnState | None = None
        self._number = 0
        self._implicit = False
        self._adopted: Shared | None = None
        self._operation: Operation | None = None
        self._asking = False
        self._ask_at = NEVER
        self._asked_at = 0.0
        self._held_until = 0.0  # until then, the last transaction's markers may be missing
        self._to_add: dict[Key, None] = {}
        self._added: set[Key] = set()
        self._added_group = False
        self._touched = False  # the coordinator knows of a transaction
        self._unsure = False  # it may know of one: a request got no reply
        self._reset = False  # a new epoch has to be requested
        self._watched: set[Coordinator] = set()
        self._watch(coordinator)

    @property
    def waits_for_id(self) -> bool:
        """Whether it waits for a producer id and epoch from the coordinator."""
        return self.state is State.WAIT_PID

    @property
    def committing(self) -> bool:
        """Whether a commit was requested. It may succeed even if its call has ended."""
        return self.state is State.COMMITTING or (
            # the operation has ended
            self._operation is not None and self._operation.kind is Kind.COMMIT
        )

    # --- calls of the application ---

    def init(self, done: Done, deadline: float, *, keep_prepared: bool = False) -> None:
        """Gets the producer id, and ends (or keeps) the open transaction of an older instance."""
        if self.state in (State.READY, State.PREPARED) and self._operation is None:
            done(
                _error(
                    KafkaError._STATE,
                    "transactions are initialized already: call begin_transaction()",
                )
            )
            return
        if keep_prepared and not self._two_phase:
            done(_error(KafkaError._INVALID_ARG, f"keep_prepared_txn needs `{TWO_PHASE}`"))
            return
        if self.state is State.INIT:
            self._keep = keep_prepared
        self._call(Operation(Kind.INIT, done, deadline), (State.INIT, State.WAIT_PID))

    def begin(self) -> KafkaError | None:
        """Begins a transaction, without a request."""
        if self.state is not State.READY or self._operation is not None:
            before = self._operation
            return self._unfinished(before) if before else self._out_of_order("begin_transaction")
        implicit = self._spoken() >= IMPLICIT
        # First: it may raise MemoryError, and then nothing has begun.
        self._writer.transaction_begin(
            self._number + 1, implicit, max(0.0, self._held_until - self._clock())
        )
        self.prepared = None
        self._number += 1
        self._implicit = implicit
        self._to_add.clear()
        self._added.clear()
        self._added_group = self._touched = self._unsure = False
        self.state = State.IN_TRANSACTION
        self.taking = True
        return None

    def _spoken(self) -> int:
        """The transaction version in use."""
        return self._version() if self._adopted is None else self._adopted.version

    def share(self) -> Shared | KafkaError:
        """The data for `adopt()` by other producers, or an error."""
        if self.state is not State.READY or self._operation is not None:
            return self._out_of_order("share")
        return Shared(self.producer_id, self.epoch, self._spoken())

    def adopt(self, shared: Shared, *, tolerant: bool = False) -> KafkaError | None:
        """Joins a transaction that other producers write to. Leaves the previous one.

        ``tolerant``: the transaction continues without the messages that the broker refuses.
        This producer assumes that the transaction is open, so ending it always sends a request. No
        message of the previous one is outstanding.
        """
        if self.state is State.FATAL or self._operation is not None:
            return self._out_of_order("adopt")
        self._shut()
        self._writer.transaction_tolerate(tolerant)
        self._adopted = shared
        self._held_until = 0.0
        self._reset = False
        self.error = self._undelivered = None
        self._identify(shared.producer_id, shared.epoch)
        self.state = State.READY
        error = self.begin()
        self._touched = True
        return error

    def send_offsets(
        self,
        offsets: Mapping[Key, OffsetPosition],
        member: ConsumerGroupMetadata,
        done: Done,
        deadline: float,
    ) -> None:
        """Commits the group's offsets with the transaction."""
        if self._implicit:  # otherwise a version without topic ids is sent
            for topic in {topic for topic, _ in offsets}:
                self._metadata.want(topic, self._clock())  # the first commit doesn't wait for it
        operation = Operation(Kind.OFFSETS, done, deadline, dict(offsets), member)
        self._call(operation, (State.IN_TRANSACTION,))

    def shut(self, *, abort: bool) -> KafkaError | None:
        """Accepts no more messages, before a flush or purge.

        Returns an error if it can't end now.
        """
        waits = Kind.ABORT if abort else Kind.COMMIT
        if abort:
            self._drop_offsets()
        if self._operation is not None:
            return None if self._operation.kind is waits else self._unfinished(self._operation)
        ends = {State.IN_TRANSACTION}
        if abort:
            ends |= {State.PREPARED, State.ABORTABLE, State.ABORTING}
        elif self.prepared is not None:
            ends |= {State.PREPARED}
        if self.state not in ends:
            return self._out_of_order(waits.value)
        if abort:
            self.state = State.ABORTING
        self._shut()
        return None

    def _shut(self) -> None:
        self.taking = False
        self._writer.transaction_close()

    def _drop_offsets(self) -> None:
        """Drops unsent offsets, because the transaction is aborted."""
        operation = self._operation
        if (
            operation is not None
            and operation.kind is Kind.OFFSETS
            and self.state is not State.FATAL
        ):
            self._finish(_error(KafkaError._CONFLICT, "the transaction is aborted"))
            self._operation = None

    def shut_and_commit(self, done: Callable[[object], None], deadline: float) -> None:
        """Accepts no more messages, and commits if none are outstanding.

        OUTSTANDING: the caller has to flush and then call `commit()`.
        """
        error = self.shut(abort=False)
        if error is not None or self._writer.outstanding:
            done(OUTSTANDING if error is None else error)
            return
        self._handle_events()  # handles failures that came before the last message was done
        self.commit(done, deadline)

    def shut_and_prepare(self, done: Callable[[object], None], _deadline: float) -> None:
        """Accepts no more messages, and prepares the transaction if none are outstanding.

        OUTSTANDING: the caller has to flush and then call this again.
        """
        if self.state is not State.IN_TRANSACTION or not self._two_phase:
            done(self._out_of_order("prepare_transaction"))
            return
        error = self.shut(abort=False)
        if error is not None or self._writer.outstanding:
            done(OUTSTANDING if error is None else error)
            return
        self._handle_events()
        self._lose_undelivered()
        if self.error is not None:
            done(self._out_of_order("prepare_transaction"))
            return
        self.state = State.PREPARED
        self.prepared = PreparedTxnState(f"{self.producer_id}:{self.epoch}")
        done(self.prepared)

    def complete(
        self, given: PreparedTxnState, done: Callable[[object], None], deadline: float
    ) -> None:
        """Commits the prepared transaction if it is ``given``, else aborts it.

        ``done(Kind)``: the caller has to make that call.
        """
        before, prepared = self._operation, self.prepared
        if (
            before is None
            and self.state is State.READY
            and prepared is not None
            and not prepared.has_transaction()
        ):
            done(None)
        elif before is not None and before.kind is Kind.COMPLETE and before.claim != given:
            done(self._unfinished(before))
        elif prepared is None and (self.state is State.PREPARED or before is not None):
            operation = Operation(
                Kind.COMPLETE, done, deadline, claim=given, claimed=not given.has_transaction()
            )
            self._call(operation, (State.PREPARED,))
        elif prepared is None or (before is None and self.state in (State.READY, State.FATAL)):
            done(self._out_of_order(Kind.COMPLETE.value))
        else:
            done(Kind.COMMIT if given == prepared else Kind.ABORT)

    def commit(self, done: Done, deadline: float) -> None:
        """Commits the transaction; all its messages have been delivered."""
        self._lose_undelivered()
        allowed = (State.IN_TRANSACTION, State.PREPARED, State.COMMITTING)
        self._call(Operation(Kind.COMMIT, done, deadline), allowed)

    def abort(self, done: Done, deadline: float) -> None:
        """Aborts the transaction; none of its messages is queued or in flight."""
        allowed = (State.IN_TRANSACTION, State.PREPARED, State.ABORTABLE, State.ABORTING)
        self._call(Operation(Kind.ABORT, done, deadline), allowed)

    def _call(self, operation: Operation, allowed: Iterable[State]) -> None:
        """Starts an operation, or continues the unfinished one of an earlier call."""
        assert operation.done is not None
        if operation.kind is Kind.ABORT:
            self._drop_offsets()
        before = self._operation
        if before is not None and before.kind is operation.kind:
            if not before.over:
                before.done = _both(before.done, operation.done)
                before.deadline = operation.deadline
                self._check()
                return
            self._operation = None
            operation.done(before.outcome)
            return
        if before is not None:
            operation.done(self._unfinished(before))
            return
        if self.state is State.FATAL or self.state not in allowed:
            operation.done(self._out_of_order(operation.kind.value))
            return
        if operation.kind in (Kind.INIT, Kind.COMPLETE):
            self.state = State.WAIT_PID
        elif operation.kind is Kind.COMMIT:
            self.state = State.COMMITTING
        elif operation.kind is Kind.ABORT:
            self.state = State.ABORTING
        self._operation = operation
        self._check()

    @staticmethod
    def _unfinished(before: Operation) -> KafkaError:
        text = f"{before.kind.value}() isn't done yet: call it again first"
        return KafkaError(KafkaError._CONFLICT, text, retriable=True)

    def _give_up_waiting(self, now: float) -> float:
        """Ends a call whose time is over; the operation goes on. Returns the call's deadline."""
        operation = self._operation
        if operation is None or operation.done is None:
            return NEVER
        if now < operation.deadline:
            return operation.deadline
        done, operation.done = operation.done, None
        text = (
            f"{operation.kind.value}() isn't done in time{self._coordinator.failure_text()}; "
            "it goes on, call it again to wait for it"
        )
        done(KafkaError(KafkaError._TIMED_OUT, text, retriable=True))
        return NEVER

    def _out_of_order(self, call: str) -> KafkaError:
        if self.state is State.FATAL and self.error is not None:
            return self.error
        if self.state is State.ABORTABLE and self.error is not None:
            return KafkaError(self.error.code(), self.error.str(), txn_requires_abort=True)
        text = f"{call}() can't be called in state {self.state.value}: {_ADVICE[self.state]}"
        return _error(KafkaError._STATE, text)

    def _finish(self, outcome: KafkaError | None, state: State | None = None) -> None:
        operation = self._operation
        if state is not None:
            self.state = state
        if operation is None:
            return
        operation.over, operation.outcome = True, outcome
        if operation.done is not None:
            self._operation = None
            operation.done(outcome)

    def give_up(self, on_lost: Callable[[KafkaError], None]) -> None:
        """Registers ``on_lost`` for an error that prevents the commit while the producer closes."""
        self._on_lost = on_lost
        if self.error is not None:
            on_lost(self.error)

    def close(self, error: KafkaError) -> None:
        """Ends the waiting call with this error: the client closes."""
        self._finish(error)

    # --- engine events ---

    def on_partition(self, topic: str, partition: int, number: int) -> None:
        """Handles the first write to a partition in this transaction."""
        if number != self._number or (topic, partition) in self._added:
            return
        if self._implicit:
            self._touched = True
            return
        self._to_add[topic, partition] = None
        self._check()

    def on_failed(self, error: KafkaError, number: int, *, refused: bool = False) -> None:
        """Handles an undelivered message: its transaction can't be committed any more.

        ``refused``: the broker's response has the error.
        """
        if self._hides_causes and error.code() not in MESSAGE_FATAL_ERRORS:
            takes = number == self._number and self.taking
            if refused and takes:
                self._shut()
            elif not refused:
                text = f"{error.str()}: a message of the transaction wasn't delivered"
                error = KafkaError(KafkaError._INCONSISTENT, text)
                if takes and self.state is State.IN_TRANSACTION:
                    self._reset = self._reset or not self._implicit
                    self._undelivered = error  # the commit fails
                    return
        self._lose(error, number)

    def _lose_undelivered(self) -> None:
        """Fail the transaction at its end, if a message of it wasn't delivered."""
        error, self._undelivered = self._undelivered, None
        if error is not None:
            self._lose(error, self._number)

    def _lose(self, error: KafkaError, number: int) -> None:
        if number != self._number or self.state is State.FATAL:
            return
        self._reset = self._reset or not self._implicit  # its sequence numbers may have a gap
        if error.code() in MESSAGE_FATAL_ERRORS:
            self._fail(error)
        elif self.state in (State.IN_TRANSACTION, State.COMMITTING):
            self._to_be_aborted(error)

    def on_out_of_sequence(self, error: KafkaError, producer_id: int, epoch: int) -> None:
        """Handles a partition that can't continue under this id and epoch."""
        if (producer_id, epoch) == (self.producer_id, self.epoch):
            self._lose(error, self._number)

    def _to_be_aborted(self, error: KafkaError) -> None:
        self._log.info("the transaction has to be aborted: %s", error.str())
        self.error = KafkaError(error.code(), error.str(), txn_requires_abort=True)
        lost = self.error
        self._finish(lost, State.ABORTABLE)
        self._on_lost(lost)

    def _fail(self, error: KafkaError) -> None:
        code = KafkaError._FENCED if error.code() in PRODUCER_FENCED_ERRORS else error.code()
        text = f"transactional.id {self._id!r}: {error.str()}"
        self.error = KafkaError(code, text, fatal=True)
        self.taking = False
        self._finish(self.error, State.FATAL)
        self._on_fatal(self.error)

    # --- requests ---

    def _check(self, _: KafkaError | None = None) -> None:
        self._ask_at = min(self._ask_at, self._clock())

    def _watch(self, coordinator: Coordinator) -> Coordinator:
        """Registers for the events of a coordinator, once."""
        if coordinator not in self._watched:
            self._watched.add(coordinator)
            coordinator.on_found.append(self._check)
            coordinator.on_refused.append(self._check)
        return coordinator

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        wake_at = self._give_up_waiting(now)
        if self.state is State.IN_TRANSACTION and now < self._held_until:
            self._ask_at = max(self._ask_at, self._held_until)
        if self._asking or now < self._ask_at:
            return [], wake_at if self._asking else min(wake_at, self._ask_at)
        self._ask_at = NEVER
        step = self._next()
        if step is None:
            return [], min(wake_at, self._ask_at)
        coordinator, message, take = step
        target = coordinator.want(now)
        if target is None:  # `_check` is called when it is found
            if coordinator.refused is not None:
                self._handle_reply(coordinator, coordinator.refused, take)
            return [], now  # not later: the coordinator may not be polled again in this iteration
        self._asking = True
        self._note_asked(message, now)

        def on_reply(reply: Reply) -> None:
            self._asking = False
            self._ask_at = self._clock()
            if self.state is not State.FATAL:
                self._handle_reply(coordinator, reply, take)

        newest = LAST_OF_CLIENTS if isinstance(message, AddPartitionsToTxnRequest) else ANY_VERSION
        if not self._implicit and isinstance(message, EndTxnRequest | TxnOffsetCommitRequest):
            newest = LAST_EXPLICIT
        return [Call(message, target, now + self._request_s, on_reply, newest)], wake_at

    def _note_asked(self, message: Request, now: float) -> None:
        """Records that a request may begin a transaction, even if it gets no reply."""
        self._asked_at = now
        if isinstance(message, AddPartitionsToTxnRequest | AddOffsetsToTxnRequest):
            self._unsure = True
        elif isinstance(message, TxnOffsetCommitRequest):
            self._touched = True  # KIP-890: the coordinator adds the group before all checks

    def _next(self) -> tuple[Coordinator, Request, Callable[[Reply], KafkaError | None]] | None:
        """The next request, its coordinator, and the function that reads its reply."""
        operation = self._operation
        kind = None if operation is None or operation.over else operation.kind
        if operation is not None and operation.claim is not None and not operation.claimed:
            return (
                self._coordinator,
                self._end_request(operation.claim, commit=True),
                self._on_claimed,
            )
        needs_new_epoch = kind is Kind.ABORT and not self._touched and (self._reset or self._unsure)
        if needs_new_epoch or kind in (Kind.INIT, Kind.COMPLETE):
            return self._coordinator, self._init_request(), self._on_identity
        if self._to_add and self.state in (State.IN_TRANSACTION, State.COMMITTING):
            return self._coordinator, self._add_request(), self._on_added
        if kind is Kind.OFFSETS and operation is not None and operation.member is not None:
            if not self._implicit and not self._added_group:
                message = AddOffsetsToTxnRequest(
                    transactional_id=self._id,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    group_id=operation.member.group_id,
                )
                return self._coordinator, message, self._on_group_added
            coordinator = self._watch(self._group_coordinator(operation.member.group_id))
            return (
                coordinator,
                self._offsets_request(operation.offsets, operation.member),
                self._on_offsets,
            )
        if kind in (Kind.COMMIT, Kind.ABORT):
            if not self._touched:
                self._ended()
                return None
            return (
                self._coordinator,
                self._end_request(self, commit=kind is Kind.COMMIT),
                self._on_ended,
            )
        return None

    def _handle_reply(
        self, coordinator: Coordinator, reply: Reply, take: Callable[[Reply], KafkaError | None]
    ) -> None:
        """Handles a reply. After a retriable error, the request is sent again later."""
        error = self._with_hint(reply if isinstance(reply, KafkaError) else take(reply))
        if error is None:
            coordinator.answered()
            self._backoff.reset()
            self._markers.reset()
            return
        code = error.code()
        if code in TRANSACTION_RETRIABLE_ERRORS:
            coordinator.note(error)
            backoff = self._markers if code == KafkaError.CONCURRENT_TRANSACTIONS else self._backoff
            delay_s = coordinator.pause_s(backoff)
            self._ask_at = self._clock() + delay_s
            self._log.debug("%s; asked again in %.3f s", error.str(), delay_s)
        elif (
            code in PRODUCER_FENCED_ERRORS
            or code in TRANSACTION_FATAL_ERRORS
            or self.state is State.WAIT_PID
        ):
            self._fail(error)
        elif code in PRODUCER_FORGOTTEN_ERRORS and self.state is State.ABORTING:
            # nothing to abort: a new epoch replaces the abort
            self._reset, self._touched = True, False
        elif code == KafkaError.INVALID_TXN_STATE and (
            self.state is State.ABORTING or not self._implicit
        ):
            self._fail(error)
        elif self.state is not State.ABORTING or take in (self._on_ended, self._on_identity):
            self._reset = self._reset or code in PRODUCER_FORGOTTEN_ERRORS
            self._to_be_aborted(error)

    def _with_hint(self, error: KafkaError | None) -> KafkaError | None:
        """Adds to an error what two-phase commit needs from the brokers, if that caused it."""
        wanted = (
            TWO_PHASE_NEEDS.get(error.code()) if error is not None and self._two_phase else None
        )
        if error is None or wanted is None or self.state is not State.WAIT_PID:
            return error
        return KafkaError(error.code(), f"{error.str()}; `{TWO_PHASE}` wants {wanted}")

    def _init_request(self) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            enable2_pc=self._two_phase,
            keep_prepared_txn=self._keeps(),
        )

    def _keeps(self) -> bool:
        """Whether this request has to keep the open transaction of an older instance."""
        return self._keep and self._operation is not None and self._operation.kind is Kind.INIT

    def _on_identity(self, reply: InitProducerIdResponse) -> KafkaError | None:
        keeps = self._keeps()
        keeps_nothing = keeps and reply.error_code == KafkaError.UNSUPPORTED_VERSION
        if reply.error_code and not keeps_nothing:
            return _error(reply.error_code, "InitProducerId")
        if self._two_phase and self._spoken() < IMPLICIT:
            return _error(KafkaError.UNSUPPORTED_VERSION, "transactions")
        # Apache Kafka 4.3: the open transaction stays until it is ended by its id and epoch
        if keeps_nothing:
            self._log.info(
                "the coordinator can't keep prepared transactions: "
                "complete_transaction() ends the open one"
            )
            self._await_end(None)
            return None
        if (error := invalid_identity(reply.producer_id, reply.producer_epoch)) is not None:
            return error
        self._identify(reply.producer_id, reply.producer_epoch)
        self._reset = False
        if keeps and reply.ongoing_txn_producer_id != NO_PRODUCER:
            ongoing = f"{reply.ongoing_txn_producer_id}:{reply.ongoing_txn_producer_epoch}"
            self._await_end(PreparedTxnState(ongoing))
            return None
        if keeps:
            self.prepared = PreparedTxnState()
        self._ended()
        return None

    def _await_end(self, prepared: PreparedTxnState | None) -> None:
        """Waits for the end of an older instance's transaction; None: it isn't known."""
        self.prepared = prepared
        self._implicit = True
        self._touched, self._unsure = prepared is not None, prepared is None
        self._shut()
        self._finish(None, State.PREPARED)

    def _identify(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self.granted += 1
            self._log.debug("producer id %d, epoch %d", producer_id, epoch)
            self._writer.grant(producer_id, epoch)

    def _add_request(self) -> AddPartitionsToTxnRequest:
        topics: dict[str, list[int]] = {}
        for topic, partition in self._to_add:
            topics.setdefault(topic, []).append(partition)
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=some) for name, some in topics.items()
            ],
        )

    def _on_added(self, reply: AddPartitionsToTxnResponse) -> KafkaError | None:
        errors: list[KafkaError] = []
        for topic in reply.results_by_topic_v3_and_below:
            for each in topic.results_by_partition:
                key = (topic.name, each.partition_index)
                if not each.partition_error_code:
                    if self._to_add.pop(key, NEVER) is not NEVER:
                        self._added.add(key)
                        self._touched = True
                        self._writer.transaction_admit(*key, self._number)
                elif each.partition_error_code != KafkaError.OPERATION_NOT_ATTEMPTED:
                    errors.append(
                        _error(each.partition_error_code, f"AddPartitionsToTxn {key[0]} [{key[1]}]")
                    )
        return min(
            errors, key=lambda error: error.code() in TRANSACTION_RETRIABLE_ERRORS, default=None
        )

    def _on_group_added(self, reply: AddOffsetsToTxnResponse) -> KafkaError | None:
        if reply.error_code:
            return _error(reply.error_code, "AddOffsetsToTxn")
        self._added_group = self._touched = True
        return None

    def _offsets_request(
        self, offsets: Mapping[Key, OffsetPosition], member: ConsumerGroupMetadata
    ) -> TxnOffsetCommitRequest:
        """The offsets by topic id (KIP-1319), or by name while an id or its version is unknown."""
        topics: dict[str, list[TxnOffsetCommitRequest.Topic.Partition]] = {}
        for (topic, partition), position in offsets.items():
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequest.Topic.Partition(
                    partition_index=partition,
                    committed_offset=position.offset,
                    committed_leader_epoch=position.epoch,
                    committed_metadata=position.metadata,
                )
            )
        topic_ids = self._metadata.ids(topics)
        return TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=member.group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=[
                TxnOffsetCommitRequest.Topic(
                    name=name, topic_id=topic_ids.get(name, ZERO_UUID), partitions=some
                )
                for name, some in topics.items()
            ],
        )

    def _on_offsets(self, reply: TxnOffsetCommitResponse) -> KafkaError | None:
        codes = [
            (each.error_code, f"TxnOffsetCommit {self._name_of(topic)} [{each.partition_index}]")
            for topic in reply.topics
            for each in topic.partitions
            if each.error_code
        ]
        if any(code == KafkaError.UNKNOWN_TOPIC_ID for code, _ in codes):
            self._metadata.refresh(self._clock())
        if codes:
            return min(
                (_error(*each) for each in codes),
                key=lambda error: error.code() in TRANSACTION_RETRIABLE_ERRORS,
            )
        if self._operation is not None and self._operation.kind is Kind.OFFSETS:
            self._finish(None)
        return None

    def _name_of(self, topic: TxnOffsetCommitResponse.Topic) -> str:
        name = topic.name or self._metadata.name_of(topic.topic_id) or topic.topic_id.hex()
        return clean(name, NAME_MAX)

    def _end_request(
        self, whose: Transactions | PreparedTxnState, *, commit: bool
    ) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self._id,
            producer_id=whose.producer_id,
            producer_epoch=whose.epoch,
            committed=commit,
        )

    def _on_claimed(self, reply: EndTxnResponse) -> KafkaError | None:
        """Handles the commit of a transaction by its id and epoch.

        If another one is open, aborts it.
        """
        if reply.error_code and reply.error_code not in TRANSACTION_NOT_OPEN_ERRORS:
            return _error(reply.error_code, "EndTxn")
        if self._operation is not None:
            self._operation.claimed = True
            outcome = "is not the one that is open" if reply.error_code else "is committed"
            self._log.info("the prepared transaction %s %s", self._operation.claim, outcome)
        return None

    def _on_ended(self, reply: EndTxnResponse) -> KafkaError | None:
        if reply.error_code:
            return _error(reply.error_code, "EndTxn")
        if self._implicit and reply.producer_id != NO_PRODUCER:
            if (error := invalid_identity(reply.producer_id, reply.producer_epoch)) is not None:
                return error
            self._identify(reply.producer_id, reply.producer_epoch)
            self._reset = False
        now = self._clock()
        self._held_until = now + min(HOLD * (now - self._asked_at), HOLD_MAX_S)
        self._touched = self._unsure = False
        # without KIP-890, an abort keeps the epoch: sequence numbers restart under the next one
        if self._reset:
            return None
        self._ended()
        return None

    def _ended(self) -> None:
        self._to_add.clear()
        self.error = self._undelivered = None
        self._unsure = False
        self._shut()
        self._finish(None, State.READY)


def _error(code: int, what: str) -> KafkaError:
    """An error of a call, with its subject in the text."""
    own = KafkaError(code)
    text = what if code in WRONG_STATE_ERRORS else f"{what}: {own.str()}"
    return KafkaError(code, text, retriable=code in TRANSACTION_RETRIABLE_ERRORS)


def _both(first: Done | None, second: Done) -> Done:
    """Reports an outcome to two calls that wait for it, in two threads or tasks."""
    if first is None:
        return second
    earlier = first

    def done(outcome: KafkaError | None) -> None:
        earlier(outcome)
        second(outcome)

    return done
