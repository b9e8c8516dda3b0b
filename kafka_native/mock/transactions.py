"""The transaction coordinators: transactional ids, and the contents and ends of transactions.

A transaction ends at once: its markers are written and its offsets are stored before the response
to EndTxn. It belongs to no broker, so it survives its coordinator, as Kafka's do. The cluster's
lock guards it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.membership import Committed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka_native.mock.clock import Clock

LAST_EPOCH = 0x7FFE
FIRST_PRODUCER_ID = 1000
TIMEOUT_MAX_MS = 900_000
NO_TIMEOUT_S = 0x7FFFFFFF / 1000
NO_KEPT_TRANSACTION = (-1, -1)
FENCED_SINCE = 2
"""The version from which requests get PRODUCER_FENCED. InitProducerId gets it from version 4."""

Key = tuple[str, int]


class TransactionError(Exception):
    """A transaction request that fails, with the error code for the client."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class State(Enum):
    """The state of a transactional id."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMMITTED = "CompleteCommit"
    ABORTED = "CompleteAbort"


@dataclass
class Transactional:
    """A transactional id, and its transaction if one is open."""

    producer_id: int
    epoch: int
    timeout_s: float
    """``NO_TIMEOUT_S`` with two-phase commit."""
    state: State = State.EMPTY
    deadline: float = 0.0
    started_ms: int = -1
    partitions: set[Key] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    offsets: dict[str, dict[Key, Committed]] = field(default_factory=dict)
    kept: tuple[int, int] | None = None
    """Producer id and epoch of the open transaction, if a newer instance has kept it (KIP-939)."""
    writer_id: int = -1
    """The producer id of the transaction's batches. An id without further epochs is replaced."""
    before: tuple[int, int] | None = None
    """Producer id and epoch before the last change."""

    def begin(self, clock: Clock) -> None:
        """Begin a transaction, unless one is open."""
        if self.state is not State.ONGOING:
            self.state = State.ONGOING
            self.writer_id = self.producer_id
            self.deadline = clock.now() + self.timeout_s
            self.started_ms = clock.time_ms()

    def end(self, *, commit: bool) -> None:
        """End the open transaction."""
        self.state = State.COMMITTED if commit else State.ABORTED
        self.started_ms = -1
        self.kept = None
        self.partitions.clear()
        self.groups.clear()
        self.offsets.clear()


class Transactions:
    """All producer ids and transactional ids."""

    def __init__(
        self,
        write_marker: Callable[[Key, int, int, bool], None],
        store_offsets: Callable[[str, dict[Key, Committed]], None],
        clock: Clock,
    ) -> None:
        """Start without ids. The two functions end a transaction.

        They are ``write_marker(partition, producer id, epoch, commit)`` and ``store_offsets(group,
        offsets)``.
        """
        self._write_marker = write_marker
        self._store_offsets = store_offsets
        self._clock = clock
        self._by_id: dict[str, Transactional] = {}
        self._by_producer: dict[int, Transactional] = {}
        self._producer_ids = 0

    def find(self, transactional_id: str) -> Transactional | None:
        """Return the state of a transactional id, or None."""
        return self._by_id.get(transactional_id)

    def all(self) -> dict[str, Transactional]:
        """Return all states by transactional id."""
        return dict(self._by_id)

    def forget(self, transactional_id: str) -> None:
        """Forget a transactional id. Its open transaction hangs in the partitions.

        Raises ``KeyError`` for an unknown id.
        """
        found = self._by_id.pop(transactional_id)
        self._by_producer.pop(found.producer_id, None)

    # --- files ---

    def saved(self) -> dict[str, Any]:
        """Return the state for a file. Open transactions stay open."""
        now = self._clock.now()
        return {
            "producer_ids": self._producer_ids,
            "ids": [
                {
                    "name": name,
                    "producer": [each.producer_id, each.epoch],
                    "timeout_s": each.timeout_s,
                    "left_s": each.deadline - now,
                    "state": each.state.value,
                    "started_ms": each.started_ms,
                    "partitions": sorted(each.partitions),
                    "groups": sorted(each.groups),
                    "offsets": [
                        [group, *key, *committed]
                        for group, offsets in each.offsets.items()
                        for key, committed in offsets.items()
                    ],
                    "kept": each.kept,
                    "writer_id": each.writer_id,
                    "before": each.before,
                }
                for name, each in self._by_id.items()
            ],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Take over the state from a file."""
        self._producer_ids = saved["producer_ids"]
        now = self._clock.now()
        for each in saved["ids"]:
            producer_id, epoch = each["producer"]
            found = Transactional(producer_id, epoch, each["timeout_s"], State(each["state"]))
            found.deadline, found.started_ms = now + each["left_s"], each["started_ms"]
            found.partitions = {(topic, index) for topic, index in each["partitions"]}
            found.groups = set(each["groups"])
            for group, topic, index, *committed in each["offsets"]:
                found.offsets.setdefault(group, {})[topic, index] = Committed(*committed)
            found.kept = None if each["kept"] is None else tuple(each["kept"])
            found.writer_id = each["writer_id"]
            found.before = None if each["before"] is None else tuple(each["before"])
            self._by_id[each["name"]] = self._by_producer[found.producer_id] = found

    # --- producer ids ---

    def new_producer_id(self) -> int:
        """Return a new producer id."""
        self._producer_ids += 1
        return FIRST_PRODUCER_ID - 1 + self._producer_ids

    def idempotent(self, known_id: int, known_epoch: int) -> tuple[int, int]:
        """Return producer id and epoch for a producer without transactions.

        A known producer id gets the next epoch.
        """
        if known_id < 0 or known_epoch >= LAST_EPOCH:
            return self.new_producer_id(), 0
        return known_id, known_epoch + 1

    def initialize(
        self,
        transactional_id: str,
        timeout_ms: int,
        known_id: int,
        known_epoch: int,
        version: int,
        *,
        two_phase: bool = False,
        keep: bool = False,
    ) -> tuple[int, int]:
        """Return producer id and epoch for a transactional id. Raises ``TransactionError``.

        Older instances are fenced. An open transaction is aborted, and the client must send the
        request again, as with a real coordinator. With ``keep`` it stays open, and the client must
        end it. With ``two_phase`` transactions of this producer have no timeout.
        """
        if not transactional_id:
            raise TransactionError(ErrorCode.INVALID_REQUEST)
        if not two_phase and not 0 < timeout_ms <= TIMEOUT_MAX_MS:
            raise TransactionError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        timeout_s = NO_TIMEOUT_S if two_phase else timeout_ms / 1000
        found = self._by_id.get(transactional_id)
        if found is None:
            found = self._by_id[transactional_id] = Transactional(
                self.new_producer_id(), -1, timeout_s
            )
        elif known_id >= 0 and (found.producer_id, found.epoch) != (known_id, known_epoch):
            raise TransactionError(_fencing_error(version, 4))
        if found.state is State.ONGOING and keep:
            kept = found.kept or (found.producer_id, found.epoch)
            self._bump(found)
            found.kept = kept
            return found.producer_id, found.epoch
        if found.state is State.ONGOING:
            self._bump(found)
            self._end(found, commit=False)
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
        found.timeout_s = timeout_s
        found.state = State.EMPTY
        self._bump(found)
        self._by_producer[found.producer_id] = found
        return found.producer_id, found.epoch

    def _bump(self, found: Transactional) -> None:
        found.before = found.producer_id, found.epoch
        if found.epoch >= LAST_EPOCH:
            self._by_producer.pop(found.producer_id, None)
            found.producer_id, found.epoch = self.new_producer_id(), -1
        found.epoch += 1
        self._by_producer[found.producer_id] = found

    # --- the open transaction ---

    def find_owned(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        version: int,
        fenced_since: int = FENCED_SINCE,
    ) -> Transactional:
        """Return the state of a transactional id, if it has this producer id and epoch.

        Raises ``TransactionError`` otherwise.
        """
        found = self._by_id.get(transactional_id)
        if found is None or found.producer_id != producer_id:
            raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if found.epoch != epoch:
            raise TransactionError(_fencing_error(version, fenced_since))
        return found

    def add_partitions(self, found: Transactional, keys: Iterable[Key]) -> None:
        """Add partitions to the transaction."""
        found.begin(self._clock)
        found.partitions.update(keys)

    def add_group(self, found: Transactional, group: str) -> None:
        """Add a group to the transaction, for its offsets."""
        found.begin(self._clock)
        found.groups.add(group)

    def write(self, key: Key, producer_id: int, epoch: int, *, implicitly: bool) -> ErrorCode:
        """Return the error code for a batch of a transaction.

        ``implicitly`` adds its partition to the transaction (KIP-890).
        """
        found = self._by_producer.get(producer_id)
        if found is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if epoch != found.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if implicitly:
            self.add_partitions(found, [key])
        is_in_transaction = found.state is State.ONGOING and key in found.partitions
        return ErrorCode.NO_ERROR if is_in_transaction else ErrorCode.INVALID_TXN_STATE

    def has_unstable_offset(self, group: str, key: Key) -> bool:
        """Return whether an open transaction contains an offset of this partition (KIP-447)."""
        return any(key in found.offsets.get(group, ()) for found in self._by_id.values())

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        commit: bool,
        version: int,
        bump_epoch: bool,
    ) -> tuple[int, int]:
        """End a transaction, and return the next producer id and epoch.

        Raises ``TransactionError``.

        With ``bump_epoch`` each end raises the epoch (KIP-890). So the next transaction accepts no
        late batch, and a client that got no response may repeat the request.
        """
        found = self._by_id.get(transactional_id)
        done = State.COMMITTED if commit else State.ABORTED
        if bump_epoch and found and found.before == (producer_id, epoch):
            if found.state is done:
                return found.producer_id, found.epoch
            # The transaction timed out, so only an abort succeeds, as with a real coordinator.
            if found.state is State.ABORTED:
                raise TransactionError(ErrorCode.INVALID_TXN_STATE)
        found = self.find_owned(transactional_id, producer_id, epoch, version)
        if found.state is not State.ONGOING:
            if found.state is done and not bump_epoch:
                return found.producer_id, found.epoch
            if commit or not bump_epoch:
                raise TransactionError(ErrorCode.INVALID_TXN_STATE)
        if bump_epoch:
            self._bump(found)
        self._end(found, commit=commit)
        return found.producer_id, found.epoch

    def _end(self, found: Transactional, *, commit: bool) -> None:
        # A producer id without further epochs ends its last transaction with one epoch more.
        epoch = found.epoch if found.writer_id == found.producer_id else LAST_EPOCH + 1
        for key in sorted(found.partitions):
            self._write_marker(key, found.writer_id, epoch, commit)
        if commit:
            for group, offsets in found.offsets.items():
                self._store_offsets(group, offsets)
        found.end(commit=commit)

    # --- time ---

    def expire(self) -> float:
        """Abort transactions that timed out, and fence their producers.

        Returns the monotonic time of the next timeout.
        """
        now = self._clock.now()
        nearest = float("inf")
        for found in self._by_id.values():
            if found.state is not State.ONGOING:
                continue
            if found.deadline <= now:
                self._bump(found)
                self._end(found, commit=False)
            else:
                nearest = min(nearest, found.deadline)
        return nearest


def _fencing_error(version: int, since: int) -> ErrorCode:
    return ErrorCode.PRODUCER_FENCED if version >= since else ErrorCode.INVALID_PRODUCER_EPOCH
