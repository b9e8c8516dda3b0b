"""The producer's calls about transactions (KIP-98, KIP-447)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from kafka_native.client import Client
from kafka_native.control.positions import Key, OffsetPosition
from kafka_native.control.producer.transactions import OUTSTANDING, Kind, Shared, Transactions
from kafka_native.control.requests import Call
from kafka_native.deadlines import deadline_of, left_s
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.types import ConsumerGroupMetadata, PreparedTxnState, TopicPartition

CHECK_INTERVAL_S = 0.1
"""How soon a commit that waits for messages sees that there will be none."""
NOT_CONFIGURED = "transactions need `transactional.id`"


class Reader(Protocol):
    """A `Consumer`, as far as its positions are to be committed."""

    def assignment(self) -> list[TopicPartition]:
        """The partitions that it reads."""

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Where it goes on."""

    def consumer_group_metadata(self) -> ConsumerGroupMetadata:
        """Who it is in its group."""

    def subscription(self) -> list[str]:
        """What it subscribes to."""


class Transacting:
    """What a `Producer` with a ``transactional.id`` can do.

        producer = Producer({"bootstrap.servers": "localhost:9092", "transactional.id": "billing-1"})
        producer.init_transactions()
        with producer.transaction():
            producer.produce("invoices", "42")

    Each call raises KafkaException with a KafkaError that says what to do: ``retriable()``: call again, it goes on
    where it was; ``txn_requires_abort()``: `abort_transaction()`, then begin anew; ``fatal()``: close the producer.

    Timeouts are seconds; negative waits for ever. A call that raises _TIMED_OUT has not given up: its request is on its
    way, and the same call made again waits on.
    """

    __slots__ = ()

    _client: Client
    flush: Callable[..., int]
    purge: Callable[..., None]

    def init_transactions(self, timeout: float = -1, *, keep_prepared_txn: bool = False) -> None:
        """Gets the transactional id, once, before anything else: fences an older instance, aborts what it left.

        :param keep_prepared_txn: What it left is to be ended by `complete_transaction()`, or `abort_transaction()`,
            which comes next (KIP-939). Needs ``transaction.two.phase.commit.enable``.
        :raises KafkaException: See the class. _NOT_CONFIGURED without a ``transactional.id``; _INVALID_ARG:
            ``keep_prepared_txn`` without two-phase commit.
        """
        self._wait(partial(self._transactions().init, keep_prepared=keep_prepared_txn), timeout)

    def begin_transaction(self) -> None:
        """A transaction begins: from now on, until it ends, messages are taken, and are part of it.

        :raises KafkaException: _STATE: not after `init_transactions()`, or there is one already.
        """
        manager = self._transactions()
        error = self._client.main.run(manager.begin)
        if error is not None:
            raise KafkaException(error)

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: ConsumerGroupMetadata, timeout: float = -1
    ) -> None:
        """A consumer's offsets are committed if the transaction is, and only then (KIP-447).

        :param positions: The next offset to read of each partition: `Consumer.position()`; those below 0 are left out.
        :param group_metadata: `Consumer.consumer_group_metadata()`.
        """
        manager = self._transactions()
        _check_metadata(group_metadata)
        offsets = _offsets_of(positions)
        if offsets:
            self._wait(partial(manager.send_offsets, offsets, group_metadata), timeout)

    def commit_transaction(self, timeout: float = -1) -> None:
        """Delivers what was produced, then commits: readers with ``isolation.level=read_committed`` see all of it."""
        deadline = deadline_of(timeout)
        if self._commit_at_once(timeout):
            return
        while (left := self.flush(wait_s(deadline))) and self._awaits(left, deadline, abort=False):
            pass
        self._end(left_s(deadline), abort=False)

    def abort_transaction(self, timeout: float = -1) -> None:
        """Throws away what isn't sent yet (reported with _PURGE_QUEUE), waits for what is on its way, then aborts."""
        deadline = deadline_of(timeout)
        self._stop_taking()
        self.purge(in_queue=True, in_flight=False)
        while (left := self.flush(wait_s(deadline))) and self._awaits(left, deadline, abort=True):
            self.purge(in_queue=True, in_flight=False)  # what has come back meanwhile, to be sent again
        self._end(left_s(deadline), abort=True)

    def prepare_transaction(self, timeout: float = -1) -> PreparedTxnState:
        """Delivers what was produced; what is left is the end, on which somebody else decides (KIP-939).

        Until it ends, by `complete_transaction()`, `commit_transaction()` or `abort_transaction()`, nothing else can be
        called. No timeout ends it, nor does `close()`: readers wait until a producer of this transactional id has.

        :return: Which transaction it is: to be stored by whoever decides, together with what else is decided.
        :raises KafkaException: See the class. _STATE without ``transaction.two.phase.commit.enable``.
        """
        deadline = deadline_of(timeout)
        while (found := self._prepare_at_once(left_s(deadline))) is None:
            self._awaits(self.flush(wait_s(deadline)), deadline, abort=False)
        return found

    def complete_transaction(self, prepared_state: PreparedTxnState, timeout: float = -1) -> None:
        """Commits the prepared transaction if it is this one, and aborts any other (KIP-939).

        A new instance calls it after ``init_transactions(keep_prepared_txn=True)`` with what was stored last; where
        nothing is open, nothing is done.

        :param prepared_state: Of `prepare_transaction()`; ``PreparedTxnState()``: none is to be committed.
        :raises KafkaException: See the class. _STATE: none is prepared.
        """
        deadline = deadline_of(timeout)
        kind = self._complete_at_once(prepared_state, timeout)
        if kind is Kind.COMMIT:
            self.commit_transaction(left_s(deadline))
        elif kind is Kind.ABORT:
            self.abort_transaction(left_s(deadline))

    @contextmanager
    def transaction(self, consumer: Reader | None = None, timeout: float = -1) -> Iterator[None]:
        """A transaction as a ``with`` block: committed at its end, aborted if it raises.

        :param consumer: Its positions are part of the transaction.
        """
        self.begin_transaction()
        try:
            yield
            if consumer is not None:
                positions = consumer.position(consumer.assignment())
                self.send_offsets_to_transaction(positions, owner_of(consumer), timeout)
            self.commit_transaction(timeout)
        except BaseException as error:
            if self._may_abort(error):
                self.abort_transaction(timeout)
            raise

    # --- how ---

    def _transactions(self) -> Transactions:
        self._client.check_open("Producer has been closed")
        found = self._client.main.transactions
        if found is None:
            raise KafkaException(KafkaError(KafkaError._NOT_CONFIGURED, NOT_CONFIGURED))
        return found

    def _commit_at_once(self, timeout: float) -> bool:
        """The first step of a commit: nothing more gets in. Where all is delivered, also the last one: True."""
        return self._wait(self._transactions().shut_and_commit, timeout) is not OUTSTANDING

    def _prepare_at_once(self, timeout: float) -> PreparedTxnState | None:
        """Nothing more gets in, and where all is delivered it is prepared; None: there is something to wait for."""
        found = self._wait(self._transactions().shut_and_prepare, timeout)
        return None if found is OUTSTANDING else found

    def _complete_at_once(self, prepared_state: Any, timeout: float) -> Kind | None:
        """Ends the transaction that the coordinator alone knows; a `Kind`: that call has to be made."""
        manager = self._transactions()
        if not isinstance(prepared_state, PreparedTxnState):
            raise TypeError(f"prepared_state must be PreparedTxnState, not {type(prepared_state).__name__}")
        kind: Kind | None = self._wait(partial(manager.complete, prepared_state), timeout)
        return kind

    def _stop_taking(self) -> None:
        """The first step of an abort: nothing more gets in."""
        manager = self._transactions()
        error = self._client.main.run(lambda: manager.shut(abort=True))
        if error is not None:
            raise KafkaException(error)

    def _awaits(self, left: int, deadline: float | None, *, abort: bool) -> bool:
        """Between two looks of a flush: whether to go on, with so many messages left."""
        if not abort and self._transactions().error is not None:
            return False  # nobody will see them: there is nothing to wait for
        if left_s(deadline) == 0:
            text = f"{left} messages of the transaction are still to be delivered: call again"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, text, retriable=True))
        return True

    def _may_abort(self, error: BaseException) -> bool:
        """Whether what has ended a block leaves something to abort: not what is fatal, nor a commit under way."""
        manager = self._transactions()
        return not is_fatal(error) and not self._client.main.run(lambda: manager.committing)

    def _end(self, timeout: float, *, abort: bool) -> None:
        """The last step."""
        manager = self._transactions()
        self._wait(manager.abort if abort else manager.commit, timeout)

    def _wait(self, start: Callable[[Callable[[Any], None], float], None], timeout: float) -> Any:
        """Has the control thread start something, and waits for its outcome."""

        def make(deadline: float, done: Callable[[Any], None]) -> list[Call]:
            start(done, deadline)
            return []

        return self._client.main.settle(make, timeout)


def share(producer: Transacting) -> Shared:
    """After ``init_transactions()``: what producers of other processes need to write to this one's next transaction.

    :raises KafkaException: _STATE: the producer isn't initialized, or in a transaction.
    """
    found = producer._client.main.run(producer._transactions().share)
    if isinstance(found, KafkaError):
        raise KafkaException(found)
    return found


def adopt(producer: Transacting, shared: Shared) -> None:
    """In place of ``init_transactions()`` and ``begin_transaction()``: the producer is in a transaction of another one.

    Not for applications: they would have to see to it that no two producers write to one partition, and that none ends
    the transaction before all have delivered. Exactly one of them commits or aborts it, the others just flush.

    :raises KafkaException: The producer has a fatal error, or a call that isn't done yet.
    """
    manager = producer._transactions()
    error = producer._client.main.run(lambda: manager.adopt(shared))
    if error is not None:
        raise KafkaException(error)


def trouble(producer: Transacting) -> KafkaError | None:
    """Why the transaction that the producer is in can't be committed; None: nothing is known against it."""
    return producer._transactions().error


def owner_of(consumer: Reader) -> ConsumerGroupMetadata:
    """Who commits. Raises ``KafkaException`` where the group has put it out since the messages were taken.

    It joins again in its next poll() only, so it can't be a new member that commits what another one may have had.
    Brokers would take the offsets of somebody who is no member while a group is empty.
    """
    who = consumer.consumer_group_metadata()
    if who.generation < 0 and consumer.subscription():
        text = f"group {who.group_id} has given this member's partitions away"
        raise KafkaException(KafkaError(KafkaError._ASSIGNMENT_LOST, text, txn_requires_abort=True))
    return who


def _check_metadata(given: Any) -> None:
    if not isinstance(given, ConsumerGroupMetadata):
        text = "group_metadata must be what Consumer.consumer_group_metadata() returns"
        raise TypeError(f"{text}, not {type(given).__name__}")


def wait_s(deadline: float | None) -> float:
    """How long to wait for messages before it is looked whether they are still waited for."""
    left = left_s(deadline)
    return CHECK_INTERVAL_S if left < 0 else min(left, CHECK_INTERVAL_S)


def is_fatal(error: BaseException) -> bool:
    """Whether nothing can be done under the transactional id any more, not even an abort."""
    return isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError) and error.args[0].fatal()


def _offsets_of(positions: list[TopicPartition]) -> dict[Key, OffsetPosition]:
    if not isinstance(positions, list | tuple) or not all(isinstance(each, TopicPartition) for each in positions):
        raise TypeError("positions must be a list of TopicPartition")
    return {
        (each.topic, each.partition): OffsetPosition(
            each.offset, -1 if each.leader_epoch is None else each.leader_epoch, each.metadata
        )
        for each in positions
        if each.offset >= 0
    }
