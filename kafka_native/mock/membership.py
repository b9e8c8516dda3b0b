"""Data that groups of both protocols share: settings, errors, committed offsets, coordinators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.resources import Resources

if TYPE_CHECKING:
    from kafka_native.mock.clock import Clock

EditMetadata = Callable[[str, bytes], bytes]
"""A test's function that changes a member's metadata. It gets the member id and the metadata."""


class GroupError(Exception):
    """A group request that fails.

    ``member_id`` is for MEMBER_ID_REQUIRED. ``text`` is the error message of the response.
    """

    def __init__(self, code: ErrorCode, member_id: str = "", *, text: str | None = None) -> None:
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


class GroupClient(NamedTuple):
    """The client that sent a JoinGroup or SyncGroup request.

    - ``version``: the version of the request.
    - ``is_closing``: returns whether its connection closes.
    - ``check_coordinator``: raises ``GroupError`` unless the request's broker still coordinates the
      group.
    """

    id: str
    host: str
    version: int
    is_closing: Callable[[], bool]
    check_coordinator: Callable[[], None]


class GroupSettings:
    """The settings of all groups. Tests may change them at any time. Times are in seconds.

    - ``rebalance_delay``: how long an empty classic group waits for more members.
    - ``max_size``: the maximum number of members of a group. None means no limit.
    - ``heartbeat_seconds``: the heartbeat interval of the consumer protocol.
    - ``heartbeat_intervals``: the same for single groups.
    - ``session_seconds``: how long a member of the consumer protocol may send nothing.
    - ``server_assignor``: the assignor if no member names one.
    - ``migration``: the direction in which groups may change their protocol. It is
      ``bidirectional``, ``upgrade``, ``downgrade`` or ``disabled``.
    """

    def __init__(
        self,
        rebalance_delay: float,
        heartbeat_seconds: float,
        session_seconds: float,
        max_size: int | None = None,
        resources: Resources | None = None,
    ) -> None:
        """Use these values, and Kafka's defaults for the rest.

        ``resources`` has the settings of single groups.
        """
        self._resources = resources or Resources()
        self.rebalance_delay = rebalance_delay
        self.heartbeat_seconds = heartbeat_seconds
        self.session_seconds = session_seconds
        self.heartbeat_intervals: dict[str, float] = {}
        self.max_size = max_size
        self.server_assignor = "uniform"
        self.migration = "bidirectional"
        self.denied_topics: set[str] = set()
        self.denied_groups: set[str] = set()

    def heartbeat_ms_of(self, group_id: str) -> int:
        """Return the heartbeat interval of a group of the consumer protocol."""
        seconds = self.heartbeat_intervals.get(group_id)
        own = self._resources.number_of_group(group_id, "consumer.heartbeat.interval.ms")
        if seconds is None and own is not None:
            return own
        return int((self.heartbeat_seconds if seconds is None else seconds) * 1000)

    def session_seconds_of(self, group_id: str) -> float:
        """Return the session timeout of a group of the consumer protocol."""
        own = self._resources.number_of_group(group_id, "consumer.session.timeout.ms")
        return self.session_seconds if own is None else own / 1000


class Coordinators:
    """The coordinators that a test chose for groups, and the coordinators that still load."""

    def __init__(self, clock: Clock) -> None:
        """Start with the default coordinator of every group."""
        self._clock = clock
        self.moved: dict[str, int] = {}
        self._loading: dict[str, float] = {}

    def load(self, group_id: str, seconds: float) -> None:
        """Make the coordinator of a group load for this many seconds."""
        self._loading[group_id] = self._clock.now() + seconds

    def check_loaded(self, group_id: str) -> None:
        """Raise ``GroupError`` while the coordinator of this group loads."""
        if self._loading and self._clock.now() < self._loading.get(group_id, 0.0):
            raise GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
