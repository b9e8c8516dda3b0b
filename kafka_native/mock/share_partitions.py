"""The state of one partition in a share group (KIP-932): owners and delivery counts of records.

Records from ``start`` to ``end`` are acquired or available again. Records before ``start`` are
done. Records after ``end`` were never delivered. The caller holds the cluster's lock in every
method. There is no timer: each access calls ``refresh()`` first, which expires locks.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_native._native import records
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.dead_letters import LIMIT_REACHED, REJECTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka_native.mock.log import PartitionLog
    from kafka_native.mock.resources import Resources
    from kafka_native.mock.topics import Partition
    from kafka_native.protocol.share import AcknowledgementBatch

_DURATION = re.compile(
    r"by_duration:P((?P<D>\d+)D)?(T((?P<H>\d+)H)?((?P<M>\d+)M)?((?P<S>\d+(\.\d+)?)S)?)?"
)
_SECONDS = {"D": 86_400, "H": 3600, "M": 60, "S": 1}

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


class State(Enum):
    """The state of one record."""

    AVAILABLE = "Available"
    ACQUIRED = "Acquired"
    ACKNOWLEDGED = "Acknowledged"
    ARCHIVED = "Archived"


_DONE = frozenset({State.ACKNOWLEDGED, State.ARCHIVED})
_FINAL_STATES = {GAP: State.ARCHIVED, ACCEPT: State.ACKNOWLEDGED, REJECT: State.ARCHIVED}


class ShareSettings:
    """The settings of all share groups. Tests may change them.

    A group's own settings win. ``of()`` combines both.
    """

    def __init__(
        self, heartbeat_seconds: float, session_seconds: float, resources: Resources
    ) -> None:
        """Use Kafka's defaults, except for heartbeats and sessions.

        ``resources`` has the settings of single groups.
        """
        self._resources = resources
        self.heartbeat_seconds = heartbeat_seconds
        self.session_seconds = session_seconds
        self.lock_seconds = 30.0
        self.delivery_limit = 5
        self.auto_offset_reset = "latest"
        self.in_flight_max = 2000
        self.session_limit = 2000
        self.max_size: int | None = None
        self.renew_enabled = True

    def of(self, group_id: str) -> GroupShareSettings:
        """Return the settings of a group. They follow later changes."""
        return GroupShareSettings(group_id, self, self._resources)


class GroupShareSettings:
    """The settings of one share group: its own, or those of all share groups."""

    def __init__(self, group_id: str, shared: ShareSettings, resources: Resources) -> None:
        """Combine the settings of all share groups with those of this group."""
        self._group_id = group_id
        self._shared = shared
        self._resources = resources

    def _number(self, name: str) -> int | None:
        return self._resources.number_of_group(self._group_id, name)

    @property
    def heartbeat_ms(self) -> int:
        """The heartbeat interval in milliseconds."""
        own = self._number("share.heartbeat.interval.ms")
        return int(self._shared.heartbeat_seconds * 1000) if own is None else own

    @property
    def session_seconds(self) -> float:
        """How many seconds a member may send nothing."""
        own = self._number("share.session.timeout.ms")
        return self._shared.session_seconds if own is None else own / 1000

    @property
    def lock_seconds(self) -> float:
        """How many seconds a member may hold a record."""
        own = self._number("share.record.lock.duration.ms")
        return self._shared.lock_seconds if own is None else own / 1000

    @property
    def delivery_limit(self) -> int:
        """How often a record is delivered at most."""
        return self._number("share.delivery.count.limit") or self._shared.delivery_limit

    @property
    def in_flight_max(self) -> int:
        """The maximum number of acquired records of a partition."""
        return self._number("share.partition.max.record.locks") or self._shared.in_flight_max

    @property
    def auto_offset_reset(self) -> str:
        """Where a partition starts: ``latest``, ``earliest`` or ``by_duration:PnDTnHnMn.nS``."""
        own = self._resources.text_of_group(self._group_id, "share.auto.offset.reset")
        return own or self._shared.auto_offset_reset

    @property
    def renew_enabled(self) -> bool:
        """Whether members may renew the locks of records (KIP-1222)."""
        own = self._resources.text_of_group(self._group_id, "share.renew.acknowledge.enable")
        return self._shared.renew_enabled if own is None else own == "true"

    @property
    def dead_letter_topic(self) -> str | None:
        """The topic for records that the group gives up (KIP-1191)."""
        return self._resources.text_of_group(self._group_id, "errors.deadletterqueue.topic.name")

    @property
    def copies_dead_letters(self) -> bool:
        """Whether that topic gets the records' keys and values."""
        name = "errors.deadletterqueue.copy.record.enable"
        return self._resources.text_of_group(self._group_id, name) == "true"

    @property
    def max_size(self) -> int | None:
        """The maximum number of members. None means no limit."""
        return self._shared.max_size


class _Record:
    __slots__ = ("count", "member", "state", "until")

    def __init__(self) -> None:
        self.state = State.AVAILABLE
        self.member = ""
        self.count = 0
        self.until = 0.0


class Range(NamedTuple):
    """Consecutive records that a member has acquired, with the same delivery count."""

    first: int
    last: int
    deliveries: int


class SharePartition:
    """The records of one partition in one group."""

    def __init__(
        self,
        partition: Partition,
        settings: GroupShareSettings,
        now_ms: int,
        on_dead: Callable[[int, int, str], None],
    ) -> None:
        """Begin at the offset of ``auto_offset_reset``.

        ``on_dead`` gets a record that the group gives up: offset, delivery count and reason.
        """
        self._on_dead = on_dead
        log = partition.log
        self._partition = partition
        self._settings = settings
        self.start = self.end = _first_offset(log, settings.auto_offset_reset, now_ms)
        self._records: dict[int, _Record] = {}
        self._leader_epoch = partition.leader_epoch

    # --- queries ---

    def state_of(self, offset: int) -> tuple[State, int]:
        """Return the state of a record and its delivery count.

        A record that was never delivered is AVAILABLE with count 0.
        """
        if offset < self.start:
            return State.ACKNOWLEDGED, 0
        record = self._records.get(offset)
        return (State.AVAILABLE, 0) if record is None else (record.state, record.count)

    @property
    def lag(self) -> int:
        """The number of records that are not done."""
        done = sum(each.state in _DONE for each in self._records.values())
        return max(self._partition.log.end_offset - self.start, 0) - done

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the partition."""
        return self._leader_epoch

    def saved(self) -> dict[str, Any]:
        """Return the state for a file. Acquired records become available."""
        available = State.AVAILABLE
        return {
            "start": self.start,
            "end": self.end,
            "records": [
                [offset, each.count, (each.state if each.state in _DONE else available).value]
                for offset, each in sorted(self._records.items())
            ],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Take over the state from a file."""
        self.start, self.end = saved["start"], saved["end"]
        for offset, count, state in saved["records"]:
            record = self._records[offset] = _Record()
            record.count, record.state = count, State(state)

    def move(self, offset: int) -> None:
        """Move the start offset, as if the records after it had never been delivered."""
        self.start = self.end = offset
        self._records.clear()

    def lock_end(self, offset: int) -> float:
        """Return when the lock of an acquired record expires."""
        return self._records[offset].until

    def next_expiry(self) -> float:
        """Return the time at which the next lock expires."""
        held = (each.until for each in self._records.values() if each.state is State.ACQUIRED)
        return min(held, default=float("inf"))

    # --- acquisition ---

    def refresh(self, now: float) -> None:
        """Update the state.

        Locks expire, a new leader drops all locks, and records that left the log are skipped.
        """
        moved = self._leader_epoch != self._partition.leader_epoch
        self._leader_epoch = self._partition.leader_epoch
        for offset, record in self._records.items():
            if record.state is State.ACQUIRED and (moved or now >= record.until):
                self._make_available(offset, record)
        begin = self._partition.log.start_offset
        for offset in range(self.start, min(begin, self.end)):
            self._records.pop(offset, None)
        self.start = max(self.start, begin)
        self.end = max(self.end, self.start)
        self._advance()

    def expire(self) -> None:
        """Expire all locks now."""
        self.refresh(float("inf"))
        self._partition.wake()

    def acquire(
        self, member: str, max_records: int, max_bytes: int, now: float, *, strict: bool = False
    ) -> tuple[list[memoryview], list[Range]]:
        """Acquire records for a member, and return their batches and ranges.

        With ``strict`` there are at most ``max_records``. Otherwise the last batch is whole.
        """
        self.refresh(now)
        log = self._partition.log
        free = (offset for offset in range(self.start, self.end) if self._is_free(offset))
        first = next(free, self.end)
        if first >= log.end_offset or (
            first == self.end and self.end - self.start >= self._settings.in_flight_max
        ):
            return [], []
        slices, _ = log.read(first, max_bytes)
        if not slices:
            return [], []
        batches = records.batch_headers(b"".join(slices))
        ends = {each.last_offset for each in batches}
        taken: list[int] = []
        for offset in range(first, batches[-1].last_offset + 1):
            if len(taken) >= max_records and (strict or offset - 1 in ends):
                break
            if self._is_free(offset):
                record = self._records.setdefault(offset, _Record())
                record.state, record.member, record.count = State.ACQUIRED, member, record.count + 1
                record.until = now + self._settings.lock_seconds
                taken.append(offset)
                self.end = max(self.end, offset + 1)
        return slices, self._ranges(taken)

    def _is_free(self, offset: int) -> bool:
        record = self._records.get(offset)
        return record is None or record.state is State.AVAILABLE

    def _ranges(self, offsets: list[int]) -> list[Range]:
        found: list[Range] = []
        for offset in offsets:
            count = self._records[offset].count
            if found and found[-1].last == offset - 1 and found[-1].deliveries == count:
                found[-1] = found[-1]._replace(last=offset)
            else:
                found.append(Range(offset, offset, count))
        return found

    # --- acknowledgement ---

    def acknowledge(
        self, member: str, batches: Iterable[AcknowledgementBatch], now: float, *, renews: bool
    ) -> ErrorCode:
        """Apply acknowledgements: all of them, or none and an error code.

        ``renews``: the request may renew locks (KIP-1222).
        """
        self.refresh(now)
        types_by_offset: dict[int, int] = {}
        before = -1
        for each in batches:
            count, types = each.last_offset - each.first_offset + 1, each.acknowledge_types
            if each.first_offset <= before or count < 1 or len(types) not in (1, count):
                return ErrorCode.INVALID_REQUEST
            if any(kind not in range(RENEW + renews) for kind in types):
                return ErrorCode.INVALID_REQUEST
            if RENEW in types and not self._settings.renew_enabled:
                return ErrorCode.INVALID_RECORD_STATE
            before = each.last_offset
            if each.last_offset >= self.end:
                return ErrorCode.INVALID_RECORD_STATE
            # Acknowledgements of records that are done are ignored, from any member.
            for at in range(max(self.start - each.first_offset, 0), count):
                types_by_offset[each.first_offset + at] = types[at if len(types) > 1 else 0]
        for offset in types_by_offset:
            record = self._records.get(offset)
            if record is None or record.state is not State.ACQUIRED or record.member != member:
                return ErrorCode.INVALID_RECORD_STATE
        for offset, kind in types_by_offset.items():
            if kind == RENEW:
                self._records[offset].until = now + self._settings.lock_seconds
            elif kind == RELEASE:
                self._make_available(offset, self._records[offset])
            else:
                self._records[offset].state = _FINAL_STATES[kind]
                if kind == REJECT:
                    self._on_dead(offset, self._records[offset].count, REJECTED)
        self._advance()
        self._partition.wake()
        return ErrorCode.NO_ERROR

    def release(self, member: str) -> None:
        """Release all records of a member."""
        for offset, record in self._records.items():
            if record.state is State.ACQUIRED and record.member == member:
                self._make_available(offset, record)
        self._advance()
        self._partition.wake()

    def _make_available(self, offset: int, record: _Record) -> None:
        """Make a record available again, or archive it at the delivery limit."""
        over = record.count >= self._settings.delivery_limit
        record.state = State.ARCHIVED if over else State.AVAILABLE
        record.member = ""
        if over:
            self._on_dead(offset, record.count, LIMIT_REACHED)

    def _advance(self) -> None:
        while self.start < self.end and self._records[self.start].state in _DONE:
            del self._records[self.start]
            self.start += 1


def _first_offset(log: PartitionLog, reset: str, now_ms: int) -> int:
    """Return the offset at which a group starts in a partition."""
    if reset == "earliest":
        return log.start_offset
    before = _DURATION.fullmatch(reset)
    if before is None:
        return log.end_offset
    seconds = sum(float(before[name] or 0) * factor for name, factor in _SECONDS.items())
    found = log.offset_of_time(now_ms - int(seconds * 1000))
    return log.end_offset if found is None else found[0]
