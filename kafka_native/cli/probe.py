"""One connection to one address, made step by step: what ``kafka-native doctor`` looks at a cluster with.

A client hides what this shows: which address was taken, which certificates were shown, what came in place of an
answer. Everything blocks the caller's thread, for a limited time, and nothing is tried twice.
"""

from __future__ import annotations

import ipaddress
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeVar

from OpenSSL import SSL, crypto

from kafka_native._native.engine import Tunnel
from kafka_native.control.authentication import MESSAGE_MAX, WRAPPED
from kafka_native.control.versions import SOFTWARE_NAME, ApiRanges, Handshake, software_version
from kafka_native.errors import KafkaError
from kafka_native.protocol import ApiKey, ProtocolError
from kafka_native.protocol.frames import decode_response, encode_request
from kafka_native.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafka_native.protocol.schema import Request, Response
from kafka_native.protocol.versions import ApiVersionsRequest
from kafka_native.security.authorities import reasons
from kafka_native.security.mechanisms import Mechanism
from kafka_native.security.openssl import expect_host
from kafka_native.security.proxy import Proxy
from kafka_native.security.tls import TlsContext
from kafka_native.security.tls_errors import Peer
from kafka_native.types import version

T = TypeVar("T")

FRAME_BYTES_MAX: Final = 16 << 20
"""A larger answer is none of Kafka's: what is asked here is answered with far less."""
CHUNK_BYTES: Final = 1 << 16
KEPT_BYTES: Final = 200
"""Of what came in place of an answer."""
ROUNDS_MAX: Final = 20
"""Messages of one log-in; the longest that is known takes four."""
FAMILIES: Final = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}
CLIENT_ID: Final = "kafka-native-doctor"


class Ended(Exception):
    """The other end has closed the connection in place of an answer."""


class Foreign(Exception):
    """What came is no answer of Kafka's; ``received`` are its first bytes."""

    def __init__(self, received: bytes) -> None:
        """Make one; see the class for the arguments."""
        super().__init__(f"{len(received)} bytes that aren't Kafka's")
        self.received = received[:KEPT_BYTES]


class TlsFailed(Exception):
    """There is no TLS; ``reason`` is OpenSSL's, ``verify_error`` its number of what is wrong with a certificate."""

    def __init__(self, reason: str, verify_error: int = 0, chain: tuple[bytes, ...] = (), above: bytes = b"") -> None:
        """Make one; see the class for the arguments. ``chain``: the certificates that were shown, in DER form.

        ``above``: the one that isn't accepted, where it isn't the broker's own.
        """
        super().__init__(reason)
        self.reason = reason
        self.verify_error = verify_error
        self.chain = chain
        self.above = above


class Refused(Exception):
    """The broker has answered with an error."""

    def __init__(self, error: KafkaError) -> None:
        """Make one from the broker's code and its text."""
        super().__init__(error.str())
        self.error = error


class ProxyFailed(OSError):
    """There is no way through the proxy; the text says why.

    ``lets_in``: it is the way from the proxy to the broker that has failed, not that to the proxy or the log-in there.
    """

    def __init__(self, text: str, *, lets_in: bool) -> None:
        """Make one; see the class for the arguments."""
        super().__init__(text)
        self.lets_in = lets_in


class HostPort(NamedTuple):
    """A host and a port, as a client is told them."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Address(NamedTuple):
    """What a place stands for: one of its addresses, as sockets take it."""

    family: int
    socket_address: tuple[Any, ...]

    @property
    def ip(self) -> str:
        """The address alone."""
        return str(self.socket_address[0])

    def __str__(self) -> str:
        return str(HostPort(self.ip, self.socket_address[1]))

    def connected(self, timeout_s: float) -> socket.socket:
        """A connection; OSError if there is none in time."""
        made = socket.socket(self.family, socket.SOCK_STREAM)
        try:
            made.settimeout(timeout_s)
            made.connect(self.socket_address)
        except BaseException:
            made.close()
            raise
        return made


class Through(NamedTuple):
    """What a place stands for behind a proxy."""

    proxy: Proxy
    gate: Address
    """The proxy's own."""
    place: HostPort
    target: Address | None = None
    """The place's, where this machine looks its name up; None: the proxy does."""

    def __str__(self) -> str:
        return f"{self.target or self.place} through the proxy"

    def connected(self, timeout_s: float) -> socket.socket:
        """A connection; ProxyFailed if there is none in time."""
        deadline = time.monotonic() + timeout_s
        try:
            made = self.gate.connected(timeout_s)
        except OSError as error:
            raise ProxyFailed(str(error.strerror or error), lets_in=False) from error
        address = b"" if self.target is None else ipaddress.ip_address(self.target.ip.partition("%")[0]).packed
        tunnel = Tunnel(self.proxy, made.fileno(), self.place.host, self.place.port, address)
        try:
            made.setblocking(False)
            while events := tunnel.step():
                waiting = select.poll()
                waiting.register(made, events)
                if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    of_whom = " of the broker behind it" if tunnel.logged_in else ""
                    raise ProxyFailed(f"no answer{of_whom} within {timeout_s:g} s", lets_in=tunnel.logged_in)
        except ConnectionError as error:
            made.close()
            raise ProxyFailed(str(error), lets_in=tunnel.logged_in) from error
        except BaseException:
            made.close()
            raise
        return made


class Encrypted(NamedTuple):
    """A TLS connection that has been made."""

    version: str
    cipher: str
    chain: tuple[bytes, ...]
    """The certificates that the broker has shown, its own first, in DER form."""


def resolve(place: HostPort, family: str) -> list[Address]:
    """Every address of a place, in the order in which a client tries them.

    :param family: ``broker.address.family``.
    :raises OSError: There is none.
    """
    found = socket.getaddrinfo(place.host, place.port, FAMILIES[family], socket.SOCK_STREAM)
    return list(dict.fromkeys(Address(each[0], each[4]) for each in found))


def certificate_facts(der: bytes) -> dict[str, str]:
    """What a certificate says of itself, readable; it is somebody else's, and may say anything."""
    peer = Peer(der)
    facts = {"subject": peer.subject, "issuer": peer.issuer, "names": peer.names}
    for name, moment in (("not_before", peer.from_when), ("not_after", peer.until_when)):
        facts[name] = f"{moment:%Y-%m-%d}" if moment is not None else "unknown"
    return facts


class Probe:
    """One connection to one address; a context manager that closes it.

    :param place: What is connected to: its host is what a certificate has to be for.
    :param address: Where it is, or the way there.
    :param timeout_s: For each step, in seconds.
    :raises OSError: There is no connection; ProxyFailed: because of the proxy.
    """

    def __init__(self, place: HostPort, address: Address | Through, timeout_s: float) -> None:
        """Connect; see the class for the arguments."""
        self.place = place
        self.address = address
        self._timeout_s = timeout_s
        self._tls: SSL.Connection | None = None
        self._correlation_id = 0
        self._received = b""
        self._deadline = time.monotonic() + timeout_s
        self._socket = address.connected(timeout_s)

    def __enter__(self) -> Probe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    # --- TLS ---

    def encrypt(self, context: SSL.Context, *, verifies: bool, identifies: bool) -> Encrypted:
        """Makes it a TLS connection.

        A certificate that isn't accepted is looked at to its end nevertheless, so that it can be shown; nothing is sent
        to its holder.

        :param verifies: The broker's certificate has to be one of an authority's.
        :param identifies: It has to name the host.
        :raises TlsFailed: There is none.
        """
        errors: list[tuple[int, bytes]] = []

        def note(_connection: Any, certificate: Any, error: int, depth: int, ok: int) -> bool:
            if not ok:
                above = crypto.dump_certificate(crypto.FILETYPE_ASN1, certificate) if depth else b""
                errors.append((error, above))
            return True

        self._tls = connection = SSL.Connection(context, None)
        connection.set_verify(SSL.VERIFY_PEER if verifies else SSL.VERIFY_NONE, note)
        connection.set_connect_state()
        _expect(connection, self.place.host, identifies)
        self._begin()
        try:
            self._through_tls(connection.do_handshake)
        except Ended:
            raise TlsFailed("unexpected eof while reading") from None
        chain = tuple(
            crypto.dump_certificate(crypto.FILETYPE_ASN1, each) for each in connection.get_peer_cert_chain() or []
        )
        if errors and verifies:
            error, above = errors[0]
            raise TlsFailed("certificate verify failed", error, chain, above)
        return Encrypted(connection.get_protocol_version_name(), connection.get_cipher_name() or "", chain)

    def _through_tls(self, call: Callable[..., T], *arguments: Any) -> T:
        """A call of OpenSSL's, with the bytes that it wants moved in and out."""
        assert self._tls is not None
        while True:
            try:
                outcome = call(*arguments)
            except SSL.WantReadError:
                self._flush_tls()
                received = self._from_socket()
                if received:
                    self._tls.bio_write(received)
                else:
                    self._tls.bio_shutdown()
            except (SSL.ZeroReturnError, SSL.SysCallError):
                raise Ended from None
            except SSL.Error as error:
                with suppress(OSError):
                    self._flush_tls()  # the alert that says why
                reason = reasons(error)
                if "unexpected eof" in reason.lower():
                    raise Ended from None
                raise TlsFailed(reason) from None
            else:
                self._flush_tls()
                return outcome

    def _flush_tls(self) -> None:
        assert self._tls is not None
        with suppress(SSL.WantReadError):
            while True:
                self._to_socket(self._tls.bio_read(CHUNK_BYTES))

    # --- requests ---

    def ask(self, message: Request, version: int) -> Response:
        """One request and its answer.

        :raises OSError: The connection has broken, or the answer hasn't come in time (TimeoutError).
        :raises Ended: The broker has closed it.
        :raises Foreign: What came is no answer of Kafka's.
        :raises TlsFailed: TLS has ended: with TLS 1.3 a broker refuses a client's certificate only now.
        """
        frame = self._exchange(message, version)
        try:
            correlation_id, response = decode_response(message.api_key, version, frame)
        except ProtocolError as error:
            raise Foreign(frame) from error
        if correlation_id != self._correlation_id:
            raise Foreign(frame)
        return response

    def _exchange(self, message: Request, version: int) -> bytes:
        self._correlation_id += 1
        self._begin()
        frame = encode_request(message, version, self._correlation_id, CLIENT_ID)
        self._send(len(frame).to_bytes(4, "big") + frame)
        size = int.from_bytes(self._receive(4), "big")
        if not 4 <= size <= FRAME_BYTES_MAX:
            raise Foreign(size.to_bytes(4, "big") + self._received)
        return self._receive(size)

    def versions(self) -> ApiRanges:
        """ApiVersions: what the broker speaks.

        :raises Refused: It has answered with an error.
        :raises OSError, Ended, Foreign, TlsFailed: As `ask()`.
        """
        handshake = Handshake(version())
        while True:
            message = ApiVersionsRequest(
                client_software_name=SOFTWARE_NAME, client_software_version=software_version(version())
            )
            outcome = handshake.on_reply(self._exchange(message, handshake.version)[4:])
            if isinstance(outcome, KafkaError):
                if outcome.code() == KafkaError._BAD_MSG:
                    raise Foreign(self._received)
                raise Refused(outcome)
            if outcome is not None:
                return outcome

    def mechanisms(self) -> list[str] | None:
        """The SASL mechanisms of the listener, None where it takes no SASL; the connection is of no use afterwards.

        :raises OSError, Ended, Foreign, TlsFailed: As `ask()`.
        """
        reply = self.ask(SaslHandshakeRequest(mechanism="-"), WRAPPED)
        assert isinstance(reply, SaslHandshakeResponse)
        return reply.mechanisms if reply.error_code == KafkaError.UNSUPPORTED_SASL_MECHANISM else None

    def log_in(self, mechanism: Mechanism, ranges: ApiRanges) -> int:
        """Authenticates, on the caller's thread; for how long, in milliseconds (0: for good).

        :raises Refused: The broker doesn't take it; the text is the broker's, and may have secrets in it.
        :raises SaslError: The mechanism can't, or won't trust the broker.
        :raises OSError, Ended, Foreign, TlsFailed: As `ask()`.
        """
        reply = self.ask(SaslHandshakeRequest(mechanism=mechanism.name), WRAPPED)
        assert isinstance(reply, SaslHandshakeResponse)
        if reply.error_code:
            offered = ", ".join(reply.mechanisms[:ROUNDS_MAX])
            raise Refused(KafkaError(reply.error_code, offered))
        exchange = mechanism.exchange(self.place.host, self.place.port)
        answer: bytes | None = exchange.begin()
        for _ in range(ROUNDS_MAX):
            if answer is None:
                raise Refused(KafkaError(KafkaError._AUTHENTICATION, "it ended before the broker had proved who it is"))
            said = self.ask(SaslAuthenticateRequest(auth_bytes=answer), ranges.choose(SaslAuthenticateRequest))
            assert isinstance(said, SaslAuthenticateResponse)
            if said.error_code:
                raise Refused(KafkaError(said.error_code, said.error_message or exchange.problem or None))
            if len(said.auth_bytes) > MESSAGE_MAX:
                raise Foreign(said.auth_bytes)
            answer = exchange.respond(said.auth_bytes)
            if answer is None and exchange.done:
                return said.session_lifetime_ms
        raise Refused(KafkaError(KafkaError._AUTHENTICATION, f"the broker wasn't content after {ROUNDS_MAX} messages"))

    # --- bytes ---

    def answer_to(self, words: bytes) -> bytes:
        """The first bytes of what comes upon these."""
        self._begin()
        self._send(words)
        return self._receive(5)

    def _begin(self) -> None:
        self._deadline = time.monotonic() + self._timeout_s

    def _send(self, data: bytes) -> None:
        if self._tls is None:
            self._to_socket(data)
        else:
            self._through_tls(self._tls.sendall, data)

    def _receive(self, size: int) -> bytes:
        while len(self._received) < size:
            more = self._from_socket() if self._tls is None else self._through_tls(self._tls.recv, CHUNK_BYTES)
            if not more:
                if self._received:
                    raise Foreign(self._received)
                raise Ended
            self._received += more
        taken, self._received = self._received[:size], self._received[size:]
        return taken

    def _from_socket(self) -> bytes:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("no answer in time")
        self._socket.settimeout(left_s)
        try:
            return self._socket.recv(CHUNK_BYTES)
        except ConnectionResetError:  # closed before it had read everything
            return b""

    def _to_socket(self, data: bytes) -> None:
        with suppress(ConnectionResetError, BrokenPipeError):  # reading tells it, perhaps behind an answer
            self._socket.sendall(data)


def speaks_tls(place: HostPort, address: Address | Through, timeout_s: float) -> bool:
    """Whether a TLS server answers there, whatever it thinks of us."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    try:
        with Probe(place, address, timeout_s) as probe:
            probe.encrypt(context, verifies=False, identifies=False)
    except TlsFailed as error:
        return "alert" in error.reason.lower()
    except OSError:
        return False
    return True


def speaks_http(place: HostPort, address: Address | Through, timeout_s: float) -> bool:
    """Whether an HTTP server answers there: many wait in silence for the end of what isn't HTTP."""
    try:
        with Probe(place, address, timeout_s) as probe:
            return probe.answer_to(b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/")
    except (OSError, Ended):
        return False


def listener_kind(
    place: HostPort, address: Address | Through, timeout_s: float, tls: TlsContext | None
) -> list[str] | str | None:
    """What a listener wants: its SASL mechanisms; None: no SASL; or, as a text, why that can't be said."""
    try:
        with Probe(place, address, timeout_s) as probe:
            if tls is not None:
                probe.encrypt(tls.context, verifies=tls.verifies, identifies=tls.identifies_hosts)
            if probe.versions().highest(ApiKey.SASL_HANDSHAKE, (WRAPPED, WRAPPED)) != WRAPPED:
                return None
            return probe.mechanisms()
    except Foreign as error:
        return described(error.received)
    except (OSError, Ended, TlsFailed, Refused) as error:
        return str(error) or type(error).__name__


def described(received: bytes) -> str:
    """What sends such bytes."""
    if received.startswith(b"HTTP/"):
        return "an HTTP server"
    if received[:2] == b"\x15\x03":
        return "a TLS server"
    if received.startswith(b"SSH-"):
        return "an SSH server"
    return "something that isn't Kafka"


def _expect(connection: SSL.Connection, host: str, identifies: bool) -> None:
    """Names the host to the broker (SNI), and has its certificate checked for it: as csrc/net/tls.c does."""
    name = host.rstrip(".").encode("idna" if not host.isascii() else "ascii")  # a certificate has no trailing dot
    expected: bytes | ipaddress.IPv4Address | ipaddress.IPv6Address = name
    try:
        expected = ipaddress.ip_address(host)
    except ValueError:
        connection.set_tlsext_host_name(name)
    if identifies and not expect_host(connection._ssl, expected):
        raise TlsFailed("the host to verify can't be set")
