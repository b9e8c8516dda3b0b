"""What groups of both protocols share: settings, errors, stored offsets, and who coordinates which group."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kafka_native._reference.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafka_native.mock.clock import Clock

EditMetadata = Callable[[str, bytes], bytes]
"""What a test makes of a member's metadata: its id and the bytes in, other bytes out."""


class GroupError(Exception):
    """A request that the coordinator refuses; ``member_id`` is for MEMBER_ID_REQUIRED, ``text`` for who asks why."""

    def __init__(self, code: ErrorCode, member_id: str = "", *, text: str | None = None) -> None:
        """Keep all."""
        super().__init__(text or code.name)
        self.code = code
        self.member_id = member_id
        self.text = text


class Committed(NamedTuple):
    """An offset that a group has committed."""

    offset: int
    leader_epoch: int
    metadata: str


class Left(NamedTuple):
    """A member that left by itself, and the reason that it gave."""

    member_id: str
    instance_id: str | None
    reason: str | None


class Settings:
    """What holds for all groups, settable at run time. Times are in seconds.

    ``rebalance_delay`` is how long an empty classic group waits for more members; ``max_size`` the most members of a
    group, None for no limit. The others are about the consumer protocol: ``heartbeat_seconds`` the interval that
    members are told (``heartbeat_intervals`` for single groups), ``session_seconds`` after which a silent member is
    out, ``server_assignor`` the one that is used where no member names one, and ``migration`` which way groups may
    change their protocol: ``bidirectional``, ``upgrade``, ``downgrade`` or ``disabled``.
    """

    def __init__(
        self,
        rebalance_delay: float,
        heartbeat_seconds: float,
        session_seconds: float,
        max_size: int | None = None,
    ) -> None:
        """Take these, and Kafka's defaults for the rest."""
        self.rebalance_delay = rebalance_delay
        self.heartbeat_seconds = heartbeat_seconds
        self.session_seconds = session_seconds
        self.heartbeat_intervals: dict[str, float] = {}
        self.max_size = max_size
        self.server_assignor = "uniform"
        self.migration = "bidirectional"
        self.denied_topics: set[str] = set()
        self.denied_groups: set[str] = set()


class Coordinators:
    """Where a test wants groups to be coordinated, and which coordinators are still loading."""

    def __init__(self, clock: Clock) -> None:
        """Every group is where it belongs."""
        self._clock = clock
        self.moved: dict[str, int] = {}
        self._loading: dict[str, float] = {}

    def load(self, group_id: str, seconds: float) -> None:
        """Let a group's coordinator load for so long."""
        self._loading[group_id] = self._clock.now() + seconds

    def check_loaded(self, group_id: str) -> None:
        """Raises ``GroupError`` while the coordinator of this group loads."""
        if self._loading and self._clock.now() < self._loading.get(group_id, 0.0):
            raise GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
