"""One connection to one address, made step by step, for ``kafka-native doctor``.

A client hides some facts that this module shows: the address that took the connection, the server's
certificates, the bytes that came in place of an answer. Calls block the caller's thread for a
limited time. There are no retries.
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
from kafka_native._reference.own_properties import SOFTWARE_NAME
from kafka_native.control.brokers.security import MESSAGE_MAX, WRAPPED
from kafka_native.control.brokers.versions import (
    ApiRanges,
    Handshake,
    software_version,
)
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
"""The largest answer that is read. Kafka's answers to these requests are much smaller."""
CHUNK_BYTES: Final = 1 << 16
KEPT_BYTES: Final = 200
"""How many bytes of a foreign answer are kept."""
ROUNDS_MAX: Final = 20
"""The largest number of messages in a log-in. The longest known log-in takes four."""
FAMILIES: Final = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}
CLIENT_ID: Final = "kafka-native-doctor"


class Ended(Exception):
    """The server closed the connection without an answer."""


class Foreign(Exception):
    """The answer isn't in Kafka's protocol. ``received`` has its first bytes."""

    def __init__(self, received: bytes) -> None:
        """Keep the first bytes; see the class."""
        super().__init__(f"{len(received)} bytes that aren't Kafka's")
        self.received = received[:KEPT_BYTES]


class TlsFailed(Exception):
    """The TLS handshake failed, or TLS ended with an error.

    :param reason: OpenSSL's reason.
    :param verify_error: OpenSSL's number for the certificate's error; 0 if there is none.
    :param chain: The server's certificates in DER form.
    :param above: The certificate that was rejected, if it isn't the broker's own.
    """

    def __init__(
        self, reason: str, verify_error: int = 0, chain: tuple[bytes, ...] = (), above: bytes = b""
    ) -> None:
        """Store the arguments; see the class."""
        super().__init__(reason)
        self.reason = reason
        self.verify_error = verify_error
        self.chain = chain
        self.above = above


class Refused(Exception):
    """The broker answered with an error."""

    def __init__(self, error: KafkaError) -> None:
        """Store the broker's error code and text."""
        super().__init__(error.str())
        self.error = error


class ProxyFailed(OSError):
    """There is no connection through the proxy. The text has the reason.

    ``accepts_client``: the proxy accepted the client. Only its connection to the broker failed.
    """

    def __init__(self, text: str, *, accepts_client: bool) -> None:
        """Store the arguments; see the class."""
        super().__init__(text)
        self.accepts_client = accepts_client


class HostPort(NamedTuple):
    """The host and port of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Address(NamedTuple):
    """One address of a server, in the form that sockets take."""

    family: int
    socket_address: tuple[Any, ...]

    @property
    def ip(self) -> str:
        """The IP address without the port."""
        return str(self.socket_address[0])

    def __str__(self) -> str:
        return str(HostPort(self.ip, self.socket_address[1]))

    def connected(self, timeout_s: float) -> socket.socket:
        """Connect; OSError if that fails or takes longer than the timeout."""
        made = socket.socket(self.family, socket.SOCK_STREAM)
        try:
            made.settimeout(timeout_s)
            made.connect(self.socket_address)
        except BaseException:
            made.close()
            raise
        return made


class ProxyRoute(NamedTuple):
    """The way to a server through a proxy."""

    proxy: Proxy
    proxy_address: Address
    """The proxy's address."""
    place: HostPort
    target: Address | None = None
    """The server's address, if this machine resolves its name; None: the proxy resolves it."""

    def __str__(self) -> str:
        return f"{self.target or self.place} through the proxy"

    def connected(self, timeout_s: float) -> socket.socket:
        """Connect; ProxyFailed if that fails or takes longer than the timeout."""
        deadline = time.monotonic() + timeout_s
        try:
            made = self.proxy_address.connected(timeout_s)
        except OSError as error:
            raise ProxyFailed(str(error.strerror or error), accepts_client=False) from error
        address = (
            b""
            if self.target is None
            else ipaddress.ip_address(self.target.ip.partition("%")[0]).packed
        )
        tunnel = Tunnel(self.proxy, made.fileno(), self.place.host, self.place.port, address)
        try:
            made.setblocking(False)
            while events := tunnel.step():
                waiting = select.poll()
                waiting.register(made, events)
                if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    server = " of the broker behind it" if tunnel.logged_in else ""
                    raise ProxyFailed(
                        f"no answer{server} within {timeout_s:g} s", accepts_client=tunnel.logged_in
                    )
        except ConnectionError as error:
            made.close()
            raise ProxyFailed(str(error), accepts_client=tunnel.logged_in) from error
        except BaseException:
            made.close()
            raise
        return made


class Encrypted(NamedTuple):
    """The facts of a finished TLS handshake."""

    version: str
    cipher: str
    chain: tuple[bytes, ...]
    """The server's certificates in DER form, its own first."""


def resolve(place: HostPort, family: str) -> list[Address]:
    """All addresses of a server, in the order in which a client tries them.

    :param family: The value of ``broker.address.family``.
    :raises OSError: The name has no address.
    """
    found = socket.getaddrinfo(place.host, place.port, FAMILIES[family], socket.SOCK_STREAM)
    return list(dict.fromkeys(Address(each[0], each[4]) for each in found))


def certificate_facts(der: bytes) -> dict[str, str]:
    """The facts of a certificate as texts. They come from the server and can be false."""
    peer = Peer(der)
    facts = {"subject": peer.subject, "issuer": peer.issuer, "names": peer.names}
    for name, moment in (("not_before", peer.from_when), ("not_after", peer.until_when)):
        facts[name] = f"{moment:%Y-%m-%d}" if moment is not None else "unknown"
    return facts


class Probe:
    """One connection to one address; a context manager that closes it.

    :param place: The server. Its certificate must name this host.
    :param address: The server's address, or the way through a proxy.
    :param timeout_s: Seconds for each step.
    :raises OSError: There is no connection. ProxyFailed: the proxy is the reason.
    """

    def __init__(self, place: HostPort, address: Address | ProxyRoute, timeout_s: float) -> None:
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
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    # --- TLS ---

    def encrypt(self, context: SSL.Context, *, verifies: bool, identifies: bool) -> Encrypted:
        """Start TLS on the connection.

        The handshake goes on after a bad certificate, so that the command can show the whole chain.
        No data is sent to such a server.

        :param verifies: An authority must have signed the broker's certificate.
        :param identifies: The certificate must name the host.
        :raises TlsFailed: The handshake failed, or a certificate is bad.
        """
        errors: list[tuple[int, bytes]] = []

        def note(
            _connection: SSL.Connection, certificate: crypto.X509, error: int, depth: int, ok: int
        ) -> bool:
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
            crypto.dump_certificate(crypto.FILETYPE_ASN1, each)
            for each in connection.get_peer_cert_chain() or []
        )
        if errors and verifies:
            error, above = errors[0]
            raise TlsFailed("certificate verify failed", error, chain, above)
        return Encrypted(
            connection.get_protocol_version_name(), connection.get_cipher_name() or "", chain
        )

    def _through_tls(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call of OpenSSL's, and move its bytes from and to the socket."""
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
                    self._flush_tls()  # sends the alert with the reason to the server
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
        """Send a request and wait for its answer.

        :raises OSError: The connection broke. TimeoutError: no answer arrived in time.
        :raises Ended: The broker closed the connection.
        :raises Foreign: The answer isn't in Kafka's protocol.
        :raises TlsFailed: TLS ended. With TLS 1.3 a broker rejects a client's certificate only now.
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
        """Send ApiVersions; return the versions of each API that the broker supports.

        :raises Refused: The broker answered with an error.
        :raises OSError, Ended, Foreign, TlsFailed: As in `ask`.
        """
        handshake = Handshake(version())
        while True:
            message = ApiVersionsRequest(
                client_software_name=SOFTWARE_NAME,
                client_software_version=software_version(version()),
            )
            outcome = handshake.on_reply(self._exchange(message, handshake.version)[4:])
            if isinstance(outcome, KafkaError):
                if outcome.code() == KafkaError._BAD_MSG:
                    raise Foreign(self._received)
                raise Refused(outcome)
            if outcome is not None:
                return outcome

    def mechanisms(self) -> list[str] | None:
        """The SASL mechanisms of the listener; None if it takes no SASL.

        The connection can't be used afterwards.

        :raises OSError, Ended, Foreign, TlsFailed: As in `ask`.
        """
        reply = self.ask(SaslHandshakeRequest(mechanism="-"), WRAPPED)
        assert isinstance(reply, SaslHandshakeResponse)
        return (
            reply.mechanisms if reply.error_code == KafkaError.UNSUPPORTED_SASL_MECHANISM else None
        )

    def log_in(self, mechanism: Mechanism, ranges: ApiRanges) -> int:
        """Authenticate on the caller's thread.

        Returns the lifetime of the session in milliseconds; 0 means no limit.

        :raises Refused: The broker rejects the log-in. Its text may contain secrets.
        :raises SaslError: The mechanism fails, or doesn't trust the broker.
        :raises OSError, Ended, Foreign, TlsFailed: As in `ask`.
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
                raise Refused(
                    KafkaError(
                        KafkaError._AUTHENTICATION,
                        "it ended before the broker had proved its identity",
                    )
                )
            auth_reply = self.ask(
                SaslAuthenticateRequest(auth_bytes=answer), ranges.choose(SaslAuthenticateRequest)
            )
            assert isinstance(auth_reply, SaslAuthenticateResponse)
            if auth_reply.error_code:
                raise Refused(
                    KafkaError(
                        auth_reply.error_code, auth_reply.error_message or exchange.problem or None
                    )
                )
            if len(auth_reply.auth_bytes) > MESSAGE_MAX:
                raise Foreign(auth_reply.auth_bytes)
            answer = exchange.respond(auth_reply.auth_bytes)
            if answer is None and exchange.done:
                return auth_reply.session_lifetime_ms
        raise Refused(
            KafkaError(
                KafkaError._AUTHENTICATION,
                f"the log-in wasn't finished after {ROUNDS_MAX} messages",
            )
        )

    # --- bytes ---

    def answer_to(self, data: bytes) -> bytes:
        """Send bytes; return the first bytes of the answer."""
        self._begin()
        self._send(data)
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
            more = (
                self._from_socket()
                if self._tls is None
                else self._through_tls(self._tls.recv, CHUNK_BYTES)
            )
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
        except ConnectionResetError:  # the server closed before it had read all bytes
            return b""

    def _to_socket(self, data: bytes) -> None:
        # The next read reports a closed connection. An answer may still come before that.
        with suppress(ConnectionResetError, BrokenPipeError):
            self._socket.sendall(data)


def speaks_tls(place: HostPort, address: Address | ProxyRoute, timeout_s: float) -> bool:
    """Whether a TLS server answers at the address, even with an alert."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    try:
        with Probe(place, address, timeout_s) as probe:
            probe.encrypt(context, verifies=False, identifies=False)
    except TlsFailed as error:
        return "alert" in error.reason.lower()
    except OSError:
        return False
    return True


def speaks_http(place: HostPort, address: Address | ProxyRoute, timeout_s: float) -> bool:
    """Whether an HTTP server answers at the address.

    Many HTTP servers answer nothing to other protocols until the connection closes.
    """
    try:
        with Probe(place, address, timeout_s) as probe:
            return probe.answer_to(b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/")
    except (OSError, Ended):
        return False


def listener_kind(
    place: HostPort, address: Address | ProxyRoute, timeout_s: float, tls: TlsContext | None
) -> list[str] | str | None:
    """The SASL mechanisms of a listener; None if it takes no SASL; a text if that is unknown."""
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
    """The kind of server that sends these bytes."""
    if received.startswith(b"HTTP/"):
        return "an HTTP server"
    if received[:2] == b"\x15\x03":
        return "a TLS server"
    if received.startswith(b"SSH-"):
        return "an SSH server"
    return "something that isn't Kafka"


def _expect(connection: SSL.Connection, host: str, identifies: bool) -> None:
    """Set the host for SNI and for the check of the certificate, as csrc/net/tls.c does."""
    # A certificate's names have no trailing dot.
    name = host.rstrip(".").encode("idna" if not host.isascii() else "ascii")
    expected: bytes | ipaddress.IPv4Address | ipaddress.IPv6Address = name
    try:
        expected = ipaddress.ip_address(host)
    except ValueError:
        connection.set_tlsext_host_name(name)
    if identifies and not expect_host(connection._ssl, expected):
        raise TlsFailed("the host to verify can't be set")
