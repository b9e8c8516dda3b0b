"""TLS of the brokers, with Python's ``ssl`` module: not the implementation of the client.

A stream separates TLS and the socket with buffers in memory. So the two threads of a connection
never wait for each other inside OpenSSL: one reads, the other sends delayed responses. ``_state``
is held for a TLS call without I/O. ``_sending`` is held while its output is sent, so that the
output keeps its order.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import tempfile
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from kafka_native.mock.certificates import Certificates, Identity, Presented

if TYPE_CHECKING:
    from kafka_native.mock.byte_streams import Pieces
    from kafka_native.mock.faults import Faults

log = logging.getLogger(__name__)

ClientCertificates = Literal["none", "requested", "required"]
"""Whether brokers request a client certificate, like ``ssl.client.auth`` of Apache Kafka."""
HandshakeFault = Literal["close", "garbage", "silence"]

_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_GARBAGE = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
_PIECE_BYTES = 256 << 10
_SMALL_BYTES = 16 << 10
_DRAIN_S = 2.0
_KEPT = 10_000


class SeenHandshake(NamedTuple):
    """A completed TLS handshake, in ``MockCluster.handshakes``.

    - ``server_name``: the host name that the client requested (SNI).
    - ``subject``: the subject of the client's certificate.
    - ``resumed``: whether it resumed an older session.
    - ``error``: the reason of a failure.
    - ``time``: the ``time.monotonic()`` of its end.
    """

    broker: int
    server_name: str | None
    version: str | None
    cipher: str | None
    resumed: bool
    subject: str | None
    error: str | None
    time: float


class _ServerSide(ssl.SSLObject):
    """A TLS object without a socket, which stores the host name that the client requested."""

    server_name: str | None = None


def _note_name(tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
    assert isinstance(tls, _ServerSide)
    tls.server_name = name


def _subject(tls: ssl.SSLObject) -> str | None:
    """Return the subject of the client's certificate, in the form of RFC 4514."""
    der = tls.getpeercert(binary_form=True)
    if der is None:
        return None
    from cryptography import x509

    return x509.load_der_x509_certificate(der).subject.rfc4514_string()


class TlsListener:
    """The TLS settings of a cluster's brokers. Its own lock guards the certificates."""

    PLACE: Final = "handshake"
    """The name of the faults for it."""

    def __init__(
        self,
        certificates: Certificates | Identity | None,
        clients: ClientCertificates,
        versions: tuple[str, str],
        faults: Faults,
    ) -> None:
        """Load the good certificate, to report an unusable one at once. Raises ``ssl.SSLError``."""
        self.handshakes: deque[SeenHandshake] = deque(maxlen=_KEPT)
        self.faults = faults
        self._clients = clients
        self._versions = versions
        self._lock = threading.Lock()
        self._given = certificates if isinstance(certificates, Identity) else None
        self._own = certificates if isinstance(certificates, Certificates) else None
        self._presented: dict[int | None, Presented] = {}
        self._contexts: dict[Presented, ssl.SSLContext] = {}
        with self._lock:
            self._context("good")

    @property
    def certificates(self) -> Certificates:
        """The cluster's authority. The first access makes it."""
        if self._own is None:
            self._own = Certificates()
        return self._own

    @property
    def ca_pem(self) -> str:
        """The certificate that clients must trust."""
        if self._given is not None:
            return self._given.ca_pem or self._given.certificate_pem
        return self.certificates.ca_pem

    def present(self, presented: Presented, broker: int | None) -> None:
        """Present this certificate from the next handshake on.

        A setting for one broker wins over a setting for all.
        """
        with self._lock:
            self._context(presented)
            if broker is None:
                self._presented.clear()
            self._presented[broker] = presented

    def rotate(self, identity: Identity | None) -> None:
        """Present another certificate from the next handshake on.

        It is this one, or a new one from the same authority.
        """
        with self._lock:
            self._given = identity
            self._contexts.pop("good", None)
            self._context("good")

    def stream(self, connected: socket.socket, broker: int) -> TlsStream:
        """Return the stream of a connection that a broker accepted."""
        with self._lock:
            presented = self._presented.get(broker) or self._presented.get(None, "good")
            return TlsStream(self, connected, broker, self._context(presented))

    def _context(self, presented: Presented) -> ssl.SSLContext:
        found = self._contexts.get(presented)
        if found is None:
            good = self._given if presented == "good" else None
            found = self._contexts[presented] = self._make(
                good or self.certificates.broker(presented)
            )
        return found

    def _make(self, identity: Identity) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.maximum_version = (
            VERSIONS[version] for version in self._versions
        )
        context.sslobject_class = _ServerSide
        context.sni_callback = _note_name
        context.verify_mode = _VERIFY[self._clients]
        if self._clients != "none":
            context.load_verify_locations(cadata=self.ca_pem)
        # Python loads certificates only from files
        with tempfile.TemporaryDirectory() as directory:
            context.load_cert_chain(*identity.save(directory, "broker"))
        return context


class TlsStream:
    """The TLS session of one connection."""

    def __init__(
        self, listener: TlsListener, connected: socket.socket, broker: int, context: ssl.SSLContext
    ) -> None:
        """Start a TLS session on a blocking socket."""
        self._listener = listener
        self._socket = connected
        self._broker = broker
        self._state = threading.Lock()
        self._sending = threading.Lock()
        self._received = ssl.MemoryBIO()
        self._ready = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._ready, server_side=True)
        self._buffer = bytearray(_SMALL_BYTES)

    # --- handshake ---

    def begin(self) -> str | None:
        """Do the handshake, and return the principal of the client's certificate, or None.

        Raises ``OSError``.
        """
        fault = self._listener.faults.take_break(self._listener.PLACE, self._broker)
        if fault is not None:
            self._misbehave(fault)
        try:
            while not self._shake_hands():
                self._flush()
                if not self._fill():
                    raise ssl.SSLEOFError(
                        ssl.SSL_ERROR_EOF, "the client left in the middle of the handshake"
                    )
            subject = _subject(self._tls)
        except OSError as error:
            self._note(None, str(error))
            self._disconnect()
            raise
        self._note(subject, None)
        self._flush()
        return None if subject is None else f"User:{subject}"

    def _shake_hands(self) -> bool:
        try:
            with self._state:
                self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _note(self, subject: str | None, error: str | None) -> None:
        tls = self._tls
        assert isinstance(tls, _ServerSide)
        cipher = tls.cipher() if error is None else None
        self._listener.handshakes.append(
            SeenHandshake(
                self._broker,
                tls.server_name,
                tls.version() if error is None else None,
                None if cipher is None else cipher[0],
                error is None and bool(tls.session_reused),
                subject,
                error,
                time.monotonic(),
            )
        )

    def _misbehave(self, fault: str) -> None:
        """Read the client's first message, answer with the fault, and fail."""
        self._socket.recv(_SMALL_BYTES)
        self._note(None, f"a fault was armed: {fault}")
        if fault == "garbage":
            self._socket.sendall(_GARBAGE)
        elif fault == "silence":
            while self._socket.recv(_SMALL_BYTES):
                pass
        self._disconnect()
        raise ConnectionAbortedError(fault)

    def _disconnect(self) -> None:
        """Send the TLS alert, if any, and wait until the client has read it.

        Closing a socket with unread bytes would discard the alert.
        """
        deadline = time.monotonic() + _DRAIN_S
        with contextlib.suppress(OSError):
            self._flush()
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(_DRAIN_S)
            while self._socket.recv(_SMALL_BYTES) and time.monotonic() < deadline:
                pass

    # --- bytes ---

    def read_into(self, view: memoryview) -> bool:
        """Fill a buffer. Returns False at the end of the stream. Raises ``OSError``."""
        start = 0
        while start < len(view):
            try:
                with self._state:
                    count = cast("int", self._tls.read(len(view) - start, view[start:]))
            except ssl.SSLWantReadError:
                self._flush()
                if not self._fill():
                    return False
                continue
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return False
            if count == 0:
                return False
            start += count
        return True

    def write(self, pieces: Pieces) -> None:
        """Send all pieces. Small pieces share a TLS record. Raises ``OSError``."""
        if sum(map(len, pieces)) <= _PIECE_BYTES:
            pieces = [b"".join(pieces)]
        for piece in pieces:
            for start in range(0, len(piece), _PIECE_BYTES):
                self._write_one(memoryview(piece)[start : start + _PIECE_BYTES])

    def _write_one(self, data: memoryview) -> None:
        with self._sending:
            with self._state:
                self._tls.write(data)
                ready = self._ready.read()
            self._socket.sendall(ready)

    def end(self) -> None:
        """Send close_notify, as far as possible without waiting."""
        with contextlib.suppress(OSError):
            with self._state:
                with contextlib.suppress(ssl.SSLError):
                    self._tls.unwrap()
                ready = self._ready.read()
            self._socket.send(ready, socket.MSG_DONTWAIT)

    def _fill(self) -> bool:
        """Wait for bytes, and pass them to TLS. Returns False at the end."""
        count = self._socket.recv_into(self._buffer)
        self._received.write(memoryview(self._buffer)[:count])
        if count == len(self._buffer) < _PIECE_BYTES:
            # The client sends a lot, so the next receive may be larger.
            self._buffer = bytearray(_PIECE_BYTES)
        return count > 0

    def _flush(self) -> None:
        """Send the pending output of TLS."""
        if self._ready.pending:
            with self._sending:
                with self._state:
                    ready = self._ready.read()
                self._socket.sendall(ready)
