"""One assigned partition: where its application is, where its fetching is, and what is committed of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka_native.control.backoff import Backoff
from kafka_native.control.positions import NO_EPOCH, NO_POSITION, Key, OffsetPosition
from kafka_native.types import OFFSET_INVALID, OFFSET_STORED

if TYPE_CHECKING:
    from kafka_native._native.engine import Cursor


@dataclass(slots=True, eq=False)
class Assigned:
    """A partition's state. It needs work, waits (for an answer, or until ``due``), is fetched, or rests."""

    topic: str
    partition: int
    next: OffsetPosition
    """Where to fetch from next, or a logical offset still to be looked up."""
    base: OffsetPosition = NO_POSITION
    """Where the application goes on as long as it got nothing."""
    given: int = OFFSET_STORED
    """The offset that it was assigned with."""
    asked: OffsetPosition = NO_POSITION
    """What the application wants: as assigned, or sought since."""
    confirmed: bool = False
    """A leader had this partition when it was fetched from there: the place is one of the topic as it was then."""
    ended: bool = False
    """Its topic was deleted and made anew: nothing of it is handed out or committed any more."""
    anew: bool = False
    """The group may have kept an offset of the topic as it was before it was made anew."""
    cursor: Cursor | None = None
    cluster_id: str | None = None
    """Of the cluster that ``cursor`` was made for."""
    fetching: bool = False
    paused: bool = False
    failed: bool = False  # until a seek
    waiting: bool = False  # for an answer to the request that ``serial`` is of
    keep_queued: bool = False  # what was fetched and not handed out goes on being valid
    serial: int = 0  # of requests: an answer to an older one is ignored
    due: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(0.1, 10.0))
    told: tuple[int, int] | None = None  # the error that the application knows of, and the position then
    missing_since: float | None = None  # metadata don't have it
    leader_epoch: int = NO_EPOCH  # under which it is fetched
    validated: int = NO_EPOCH  # the leader epoch under which ``next`` is known to be in the log
    out_of_range: int = OFFSET_INVALID  # the offset that was, and has been validated since
    jump: tuple[int, OffsetPosition] | None = None  # an offset out of range, and where its reset has led
    since: int | None = None  # auto.offset.reset=by_duration: the timestamp to start at
    end: OffsetPosition | None = None  # ... and the end, should nothing be as young
    replica: int = -1  # the node fetched from instead of the leader (KIP-392)
    replica_until: float = 0.0
    stored: OffsetPosition | None = None  # by store_offsets()
    stored_at: int = OFFSET_INVALID  # the position then
    sent: OffsetPosition | None = None  # the last that was given to a commit
    committed: OffsetPosition | None = None  # the last that was committed

    @property
    def key(self) -> Key:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def offset(self) -> int:
        """Where to fetch from next, or a logical offset."""
        return self.next.offset

    @property
    def position(self) -> int:
        """The next offset that the application gets, OFFSET_INVALID before the first message."""
        return OFFSET_INVALID if self.cursor is None or self.ended else self.cursor.position

    @property
    def position_epoch(self) -> int:
        """The leader epoch of the last message that the application got, -1 if it isn't known."""
        return NO_EPOCH if self.cursor is None else self.cursor.position_epoch

    def resume_position(self) -> OffsetPosition:
        """Where to go on for the application when what is queued is dropped."""
        place = OffsetPosition(self.position, self.position_epoch) if self.position >= 0 else self.base
        if self.jump is not None and place.offset == self.jump[0]:
            return self.jump[1]
        return place
