"""Brokers and connections: a broker has a listener thread, a connection has its own thread.

A connection's thread answers one request after the other, as Apache Kafka does, so a handler may
block. An event loop would need a quarter more processor time for a request of 1 MB: it wakes for
each piece of the frame, but a blocking receive takes the whole frame. While other threads keep the
interpreter busy, both need the same time.

A stopped broker keeps its port bound without listening. So connection attempts are refused, and no
other process can take the port.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import select
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafka_native.mock.byte_streams import PlainStream, Stream
from kafka_native.mock.replies import Close, Reply, frame_pieces
from kafka_native.mock.sasl import Login
from kafka_native.mock.sessions import Sessions
from kafka_native.protocol import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_native.mock.clock import Clock
    from kafka_native.mock.faults import Faults
    from kafka_native.mock.sasl import SaslListener
    from kafka_native.mock.tls import TlsListener
    from kafka_native.protocol.schema import Response

    RequestReader = Callable[[bytearray, "Connection"], "IncomingRequest | None"]

log = logging.getLogger(__name__)

PORT_MAX = 65535
FRAME_MIN_BYTES = 8
# A frame's buffer has its announced size, but at most this size before the bytes arrive.
_TRUSTED_BYTES = 8 << 20
_BACKLOG = 128
_JOIN_SECONDS = 5.0
# The other end has closed. A system without POLLRDHUP reports POLLHUP without a request.
_HUNG_UP = getattr(select, "POLLRDHUP", 0)


class IncomingRequest(Protocol):
    """A request that a broker has read."""

    api_key: int
    correlation_id: int
    reply_version: int

    def handle(self) -> Response | Reply | Close | None:
        """Return the response. None sends no response."""


class BrokerSettings(NamedTuple):
    """The settings that all brokers of a cluster share, and the parts that their connections use.

    ``fetch_sessions_max`` is the number of fetch sessions of one broker.
    """

    sasl: SaslListener | None
    tls: TlsListener | None
    faults: Faults
    clock: Clock
    frame_max_bytes: int
    fetch_sessions_max: int


class BrokerCallbacks(NamedTuple):
    """The functions that brokers and connections call.

    - ``read_request``: reads a frame. None closes the connection. Raises ``ProtocolError`` for
      invalid bytes.
    - ``wake_requests``: wakes the waiting requests after the broker has closed connections.
    - ``end_sessions``: ends the share sessions of a connection whose thread ends.
    """

    read_request: RequestReader
    wake_requests: Callable[[], None]
    end_sessions: Callable[[Connection], None]


class Broker:
    """One broker of the cluster: its port, its connections and its fetch sessions."""

    def __init__(
        self,
        node_id: int,
        host: str,
        port: int,
        settings: BrokerSettings,
        callbacks: BrokerCallbacks,
    ) -> None:
        """Bind the port. ``start()`` listens on it."""
        self.id = node_id
        self.host = host
        self.sessions = Sessions(settings.fetch_sessions_max)
        self._settings = settings
        self._callbacks = callbacks
        self.is_up = False
        self.rack: str | None = None
        self.advertised: tuple[str, int] | None = None
        self._socket = self._bind(port)
        self.port: int = self._socket.getsockname()[1]
        self._connections: set[Connection] = set()
        self._lock = threading.Lock()
        self._acceptor: threading.Thread | None = None
        self._wake: tuple[socket.socket, socket.socket] | None = None

    def _bind(self, port: int) -> socket.socket:
        if not 0 <= port <= PORT_MAX:  # bind() would raise OverflowError
            raise ValueError(f"broker {self.id}: {port} is no port")
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((self.host, port))
        except OSError:
            bound.close()
            raise
        return bound

    @property
    def address(self) -> str:
        """The ``host:port`` on which the broker listens."""
        return f"{self.host}:{self.port}"

    @property
    def endpoint(self) -> tuple[str, int]:
        """The advertised host and port."""
        return self.advertised or (self.host, self.port)

    def move(self, port: int) -> None:
        """Change the port of a stopped broker. 0 finds another free port."""
        taken = self._bind(port)
        self._socket.close()
        self._socket = taken
        self.port = taken.getsockname()[1]

    def start(self) -> None:
        """Listen, and accept connections in a thread."""
        self._socket.listen(_BACKLOG)
        self._socket.setblocking(False)
        self._wake = socket.socketpair()
        self.is_up = True
        self._acceptor = threading.Thread(
            target=self._accept, name=f"mock-broker-{self.id}", daemon=True
        )
        self._acceptor.start()

    def stop(self, *, rebind: bool) -> None:
        """Close the listener and every connection, and wait for their threads.

        ``rebind`` keeps the port.
        """
        if self.is_up:
            self.is_up = False
            assert self._wake is not None
            assert self._acceptor is not None
            self._wake[1].send(b"x")
            self._acceptor.join(_JOIN_SECONDS)
            for end in self._wake:
                end.close()
        self._socket.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.stop()
        self._callbacks.wake_requests()
        for connection in connections:
            connection.join()
        if rebind:
            self._socket = self._bind(self.port)

    def disconnect(self) -> None:
        """Close every connection. Clients may connect again at once."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.stop()
        self._callbacks.wake_requests()

    def connection_count(self) -> int:
        """Return the number of open connections."""
        return len(self._connections)

    def remove(self, connection: Connection) -> None:
        """Remove a connection whose thread ends."""
        self._callbacks.end_sessions(connection)
        with self._lock:
            self._connections.discard(connection)

    def _accept(self) -> None:
        assert self._wake is not None
        listener = self._socket
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            wake = selector.register(self._wake[0], selectors.EVENT_READ)
            while wake not in [key for key, _ in selector.select()]:
                self._accept_one(listener)

    def _accept_one(self, listener: socket.socket) -> None:
        try:
            accepted, peer = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # the client disconnected before the accept
        except OSError as error:
            log.warning("broker %d can't accept: %s", self.id, error)
            time.sleep(0.05)  # no file descriptors left: wait until some are closed
            return
        connection = Connection(self, accepted, peer, self._settings, self._callbacks.read_request)
        with self._lock:
            self._connections.add(connection)
        connection.start()


class Connection:
    """One client's connection, with its own thread."""

    def __init__(
        self,
        broker: Broker,
        accepted: socket.socket,
        peer: tuple[str, int],
        settings: BrokerSettings,
        read_request: RequestReader,
    ) -> None:
        """Take over an accepted socket."""
        accepted.setblocking(True)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.broker = broker
        self.peer = peer
        self.is_closing = False
        self.login = Login(settings.sasl, broker.id)
        self._faults = settings.faults
        self._clock = settings.clock
        self._frame_max_bytes = settings.frame_max_bytes
        self._read_request = read_request
        self._socket = accepted
        self._stream: Stream = (
            PlainStream(accepted)
            if settings.tls is None
            else settings.tls.stream(accepted, broker.id)
        )
        self._outbox: (
            queue.SimpleQueue[tuple[float, list[bytes | memoryview], bool] | None] | None
        ) = None
        self._writer: threading.Thread | None = None
        name = f"mock-{broker.id}-{peer[1]}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the connection's thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the connection's thread. Any thread may call it."""
        self.is_closing = True
        with contextlib.suppress(OSError):  # the connection's thread has closed it already
            self._socket.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        """Wait for the end of the thread, unless it is the calling thread."""
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)

    def is_abandoned(self) -> bool:
        """Return whether either end has closed, so that no answer is needed.

        Only the connection's own thread may call it.
        """
        if self.is_closing:
            return True
        poll = select.poll()
        poll.register(self._socket, _HUNG_UP)
        return bool(poll.poll(0))

    # --- reading ---

    def _run(self) -> None:
        try:
            self.login.principal = self._stream.begin() or self.login.principal
            while not self.is_closing:
                frame = self._read_frame()
                if frame is None or not (
                    self._answer_token if self.login.is_bare else self._answer
                )(frame):
                    break
        except OSError as error:
            log.debug("broker %d, %s: %s", self.broker.id, self.peer, error)
        except Exception:
            log.exception("broker %d closes %s", self.broker.id, self.peer)
        finally:
            self._finish()

    def _finish(self) -> None:
        self.is_closing = True
        if self._outbox is not None and self._writer is not None:
            self._outbox.put(None)
            self._writer.join(_JOIN_SECONDS)
        self._stream.end()
        self._socket.close()
        self.broker.remove(self)

    def _read_frame(self) -> bytearray | None:
        """Return the next frame, or None at the end of the stream or for an invalid length."""
        head = bytearray(4)
        if not self._stream.read_into(memoryview(head)):
            return None
        size = int.from_bytes(head, "big", signed=True)
        smallest = 0 if self.login.is_bare else FRAME_MIN_BYTES
        if not smallest <= size <= self.login.frame_max_bytes(self._frame_max_bytes):
            log.info("broker %d closes %s: a frame of %d bytes", self.broker.id, self.peer, size)
            return None
        frame = bytearray(min(size, _TRUSTED_BYTES))
        if not self._read_into(frame, 0):
            return None
        while len(frame) < size:
            start = len(frame)
            frame.extend(bytes(min(size - start, start)))
            if not self._read_into(frame, start):
                return None
        return frame

    def _read_into(self, buffer: bytearray, start: int) -> bool:
        with memoryview(buffer) as view, view[start:] as rest:
            return self._stream.read_into(rest)

    # --- responses ---

    def _answer(self, frame: bytearray) -> bool:
        """Handle one request. False closes the connection."""
        try:
            request = self._read_request(frame, self)
        except ProtocolError as error:
            log.info("broker %d closes %s: %s", self.broker.id, self.peer, error)
            return False
        if request is None:
            log.info(
                "broker %d closes %s: an unsupported API or version",
                self.broker.id,
                self.peer,
            )
            return False
        reply = request.handle()
        if isinstance(reply, Close):
            return False
        if reply is None or self.is_closing:
            return not (self.is_closing or self.login.has_failed)
        return self._send(reply, request)

    def _answer_token(self, frame: bytearray) -> bool:
        """Process a token without a request header. False closes the connection."""
        answer = self.login.step(bytes(frame))
        if answer is None or self.login.has_failed:
            return False
        self._stream.write([len(answer.token).to_bytes(4, "big"), answer.token])
        return True

    def _send(self, reply: Response | Reply, request: IncomingRequest) -> bool:
        faults = self._faults
        stays_open = not self.login.has_failed
        if faults.has_tampers and self.is_abandoned():
            # keep the armed change for a client that reads it; the connection may have more
            # requests
            return stays_open
        tamper = faults.take_tamper(self.broker.id, request.api_key)
        correlation_id = request.correlation_id
        if tamper is not None:
            correlation_id = (correlation_id + tamper.other_correlation_id) & 0x7FFFFFFF
            if tamper.edit is not None:
                tamper.edit(reply.message if isinstance(reply, Reply) else reply)
        pieces = frame_pieces(reply, request.reply_version, correlation_id)
        if tamper is not None and tamper.after_bytes is not None:
            pieces, stays_open = [b"".join(pieces)[: tamper.after_bytes]], False
        elif tamper is not None and tamper.announced_bytes is not None:
            pieces = [tamper.announced_bytes.to_bytes(4, "big") + b"".join(pieces)[4:]]
        elif tamper is not None and tamper.rewrite is not None:
            pieces = [tamper.rewrite(b"".join(pieces))]
        delay = faults.delay(self.broker.id, request.api_key)
        if delay or self._outbox is not None:
            self._post(self._clock.now() + delay, pieces, stays_open)
        else:
            self._stream.write(pieces)
        return stays_open

    # --- delayed responses ---

    def _post(self, due: float, pieces: list[bytes | memoryview], stays_open: bool) -> None:
        """Pass a response to a second thread, so that this thread can read the next request."""
        if self._outbox is None:
            self._outbox = queue.SimpleQueue()
            self._writer = threading.Thread(
                target=self._write_later, name="mock-writer", daemon=True
            )
            self._writer.start()
        self._outbox.put((due, pieces, stays_open))
        if not stays_open and self._writer is not None:
            # the connection closes after this response, so wait until it is sent
            self._writer.join()

    def _write_later(self) -> None:
        assert self._outbox is not None
        while True:
            item = self._outbox.get()
            if item is None:
                return
            due, pieces, stays_open = item
            while not self.is_closing and (left := due - self._clock.now()) > 0:
                time.sleep(min(left, 0.05))
            try:
                self._stream.write(pieces)
            except OSError as error:
                log.debug("broker %d, %s: %s", self.broker.id, self.peer, error)
                return
            if not stays_open:
                return
