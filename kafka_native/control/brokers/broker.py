"""One broker of a client: its address, the state of its connection, and the calls that wait for it.

Thread: the control thread only.
"""

from __future__ import annotations

from collections import deque

from kafka_native.control.brokers.versions import ApiRanges, Handshake
from kafka_native.control.requests import Call
from kafka_native.errors import KafkaError
from kafka_native.protocol import ApiKey
from kafka_native.security.mechanisms import Exchange

BOOTSTRAP = -1
"""The node id of a bootstrap address."""


class Authentication:
    """The authentication of one connection."""

    __slots__ = ("again", "asked", "exchange", "ranges", "raw", "session_ms")

    def __init__(self, ranges: ApiRanges, exchange: Exchange, again: bool, raw: bool) -> None:
        """Starts with the handshake.

        :param again: The connection is already in use, and the session is renewed.
        :param raw: The mechanism's messages have no headers (brokers before 1.0).
        """
        self.ranges = ranges
        self.exchange = exchange
        self.again = again
        self.raw = raw
        self.asked = ApiKey.SASL_HANDSHAKE
        self.session_ms = 0


class Broker:
    """One broker, or one bootstrap address (``node_id`` -1)."""

    def __init__(
        self,
        handle: int,
        node_id: int,
        host: str,
        port: int,
        rack: str | None = None,
        *,
        purpose: str = "",
    ) -> None:
        """Stores the address of a broker without a connection.

        :param purpose: "coordinator", "control" or "data 2 of": a further connection to a node, for
            these calls.
        """
        self.handle = handle
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
        self.generation = 0
        self.handshake: Handshake | None = None
        self.ranges: ApiRanges | None = None  # None: not up
        self.authentication: Authentication | None = None  # the one in progress
        # the handshake request at which the connection has ended
        self.ended_at: ApiKey | None = None
        self.works = False  # a request after the handshake was answered
        self.cut_off = False  # the connection ended before that, with a request in flight
        self.failing = False
        self.cause: KafkaError | None = None  # its last failure
        self.held_until = 0.0  # throttled: nothing is sent before this time
        self.avoided_until = 0.0  # calls to any broker go to others before this time
        self.cut_until = 0.0  # until then, its excessive throttle time isn't logged again
        self.refused = False  # the client has closed this connection and reported why
        self.unanswered = False  # this connection ended at the ApiVersions request
        self.waiting: deque[Call] = deque()
        self.purpose = purpose

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
