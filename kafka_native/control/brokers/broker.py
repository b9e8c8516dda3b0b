"""One broker of a client: its address, the state of its connection, and the calls that wait for it.

Thread: the control thread only.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kafka_native.control.brokers.versions import ApiRanges, Handshake
from kafka_native.control.requests import Call
from kafka_native.errors import KafkaError
from kafka_native.protocol import ApiKey
from kafka_native.security.mechanisms import Exchange

BOOTSTRAP = -1
"""The node id of a bootstrap address."""


@dataclass(slots=True)
class Authentication:
    """The authentication of one connection."""

    ranges: ApiRanges
    exchange: Exchange
    again: bool
    """True: the connection is already in use, and the session is renewed."""
    raw: bool = False
    """True: the mechanism's messages have no headers (brokers before 1.0)."""
    asked: ApiKey = ApiKey.SASL_HANDSHAKE
    session_ms: int = 0


@dataclass(slots=True)
class Broker:
    """One broker, or one bootstrap address (``node_id`` -1)."""

    handle: int
    node_id: int
    host: str
    port: int
    rack: str | None = None
    generation: int = 0
    handshake: Handshake | None = None
    ranges: ApiRanges | None = None  # None: not up
    authentication: Authentication | None = None  # the one in progress
    ended_at: ApiKey | None = None  # the handshake request at which the connection has ended
    works: bool = False  # a request after the handshake was answered
    cut_off: bool = False  # the connection ended before that, with a request in flight
    failing: bool = False
    cause: KafkaError | None = None  # its last failure
    held_until: float = 0.0  # throttled: nothing is sent before this time
    avoided_until: float = 0.0  # calls to any broker go to others before this time
    cut_until: float = 0.0  # until then, its excessive throttle time isn't logged again
    refused: bool = False  # the client has closed this connection and reported why
    unanswered: bool = False  # this connection ended at the ApiVersions request
    waiting: deque[Call] = field(default_factory=deque)
    # "coordinator", "control" or "data 2 of": a further connection to a node, for these calls
    purpose: str = ""
    carries_data: bool = False  # Fetch or Produce requests use it: others would wait behind them
    heartbeat: int = 0  # the token of its heartbeat, 0: none

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port

    @property
    def up(self) -> bool:
        """Connected, with its versions known."""
        return self.ranges is not None

    @property
    def dedicated(self) -> bool:
        """A further connection to a node, for some calls only."""
        return bool(self.purpose)

    @property
    def name(self) -> str:
        """The name in logs and errors: host:port/id."""
        node = (
            "bootstrap" if self.node_id == BOOTSTRAP else f"{self.purpose} {self.node_id}".lstrip()
        )
        return f"{self.host}:{self.port}/{node}"
