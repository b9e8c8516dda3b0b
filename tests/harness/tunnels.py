"""Proxies of networks for tests: SOCKS5 and HTTP CONNECT, with or without a login."""

from __future__ import annotations

import base64
import ipaddress
import socket
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType

from tests.harness.proxy import Fates, Proxy, harmless

PATIENCE_S = 10.0
LINE_MAX = 4096

Login = tuple[bytes, bytes]


class Refused(Exception):
    """The proxy has refused the client a connection."""


class Tunnels(Proxy):
    """A proxy that connects each client to its requested target."""

    scheme: str
    """The scheme of proxy.url if the proxy resolves the brokers' names."""

    def __init__(
        self,
        login: Login | None = None,
        *,
        names: Mapping[str, str] = MappingProxyType({}),
        refuse: Callable[[str], int] = lambda host: 0,
        fates: Callable[[], Fates] = harmless,
        patience_s: float = PATIENCE_S,
        port: int = 0,
    ) -> None:
        """``login`` is the only valid user and password. None lets every client in.

        ``names``: hosts that only the proxy can resolve, with their addresses. ``refuse``: the
        error code for a requested host, or 0 for a connection. ``patience_s``: how long it waits
        for a silent client.
        """
        self._patience_s = patience_s
        self._login = login
        self._names = names
        self._refuse = refuse
        self.asked: list[tuple[str, int]] = []
        """The targets that clients requested, in their words."""
        self.logins: list[Login] = []
        """The logins that clients sent."""
        super().__init__(None, fates, port=port)

    def url(self, user: str = "", password: str = "", scheme: str = "") -> str:
        """Return a URL for proxy.url."""
        return f"{scheme or self.scheme}://{f'{user}:{password}@' if user else ''}{self.address}"

    def _serve(self, near: socket.socket) -> None:
        threading.Thread(target=self._negotiate, args=(near,), daemon=True).start()

    def _negotiate(self, near: socket.socket) -> None:
        near.settimeout(self._patience_s)
        try:
            host, port = self._ask(near)
            self.asked.append((host, port))
            if code := self._refuse(host):
                self._answer(near, code)
                raise Refused
            far = self._far(near, host, port)
            self._answer(near, 0)
        except (OSError, Refused):
            near.close()
            return
        near.settimeout(None)
        self._carry_on(near, far)

    def _far(self, near: socket.socket, host: str, port: int) -> socket.socket:
        try:
            return socket.create_connection((self._names.get(host, host), port), PATIENCE_S)
        except OSError:
            self._answer(near, self.unreachable)
            raise

    unreachable: int

    @abstractmethod
    def _ask(self, near: socket.socket) -> tuple[str, int]:
        """Return this client's requested target. Raises Refused."""

    @abstractmethod
    def _answer(self, near: socket.socket, code: int) -> None:
        """Send the result to the client. 0 means that the connection is open."""

    def _lets_in(self, login: Login) -> bool:
        self.logins.append(login)
        return login == self._login


class Socks5(Tunnels):
    """SOCKS5 (RFC 1928, RFC 1929)."""

    scheme = "socks5h"
    unreachable = 5

    def _ask(self, near: socket.socket) -> tuple[str, int]:
        version, count = exactly(near, 2)
        methods = exactly(near, count)
        if version != 5:
            raise Refused
        chosen = 0 if self._login is None else 2
        if chosen not in methods:
            near.sendall(b"\x05\xff")
            raise Refused
        near.sendall(bytes([5, chosen]))
        if self._login is not None:
            user = exactly(near, exactly(near, 2)[1])
            password = exactly(near, exactly(near, 1)[0])
            is_in = self._lets_in((user, password))
            near.sendall(b"\x01\x00" if is_in else b"\x01\x01")
            if not is_in:
                raise Refused
        _, command, _, kind = exactly(near, 4)
        if kind == 3:
            host = exactly(near, exactly(near, 1)[0]).decode()
        else:
            host = str(ipaddress.ip_address(exactly(near, 4 if kind == 1 else 16)))
        port = int.from_bytes(exactly(near, 2), "big")
        if command != 1:
            self._answer(near, 7)
            raise Refused
        return host, port

    def _answer(self, near: socket.socket, code: int) -> None:
        near.sendall(bytes([5, code, 0, 1]) + bytes(6))


class HttpConnect(Tunnels):
    """CONNECT of RFC 9110, with Basic authentication."""

    scheme = "http"
    unreachable = 502

    def _ask(self, near: socket.socket) -> tuple[str, int]:
        first, *fields = iter(lines(near))
        method, where, version = first.split(" ")
        if method != "CONNECT" or not version.startswith("HTTP/1."):
            self._answer(near, 405)
            raise Refused
        if self._login is not None:
            sent = [
                line.partition(": Basic ")[2]
                for line in fields
                if line.startswith("Proxy-Authorization: Basic ")
            ]
            user, _, password = (
                base64.b64decode(sent[0]).partition(b":") if sent else (b"", b"", b"")
            )
            if not sent or not self._lets_in((user, password)):
                self._answer(near, 407)
                raise Refused
        host, _, port = where.rpartition(":")
        return host.strip("[]"), int(port)

    def _answer(self, near: socket.socket, code: int) -> None:
        line = (
            f"HTTP/1.1 {code} Something Of {'the Proxy' * 3}"
            if code
            else "HTTP/1.1 200 Connection established"
        )
        near.sendall(f"{line}\r\nVia: 1.1 a-proxy\r\n\r\n".encode())


class Canned:
    """A server that is no proxy: it reads, sends these bytes, and then closes or stays silent."""

    def __init__(self, says: bytes, *, piece_bytes: int = 1 << 20, stays: bool = False) -> None:
        self._says = says
        self._piece_bytes = piece_bytes
        self._stays = stays
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.received = b""
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def __enter__(self) -> Canned:
        return self

    def __exit__(self, *exc: object) -> None:
        for end in [self._listener, *self._ends]:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for end in [self._listener, *self._ends]:
            end.close()

    def _start(self, target: Callable[..., None], *args: socket.socket) -> None:
        self._threads.append(threading.Thread(target=target, args=args, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._ends.append(near)
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._start(self._talk, near)

    def _talk(self, near: socket.socket) -> None:
        with suppress(OSError):
            self.received += near.recv(LINE_MAX)
            for at in range(0, len(self._says), self._piece_bytes):
                near.sendall(self._says[at : at + self._piece_bytes])
            if not self._stays:
                near.shutdown(socket.SHUT_WR)
            while near.recv(LINE_MAX):
                pass


def exactly(near: socket.socket, count: int) -> bytes:
    """Read so many bytes. Raises OSError if they don't arrive."""
    found = b""
    while len(found) < count:
        more = near.recv(count - len(found))
        if not more:
            raise ConnectionResetError("the client has ended the connection")
        found += more
    return found


def lines(near: socket.socket) -> Iterator[str]:
    """Yield the lines of a request's head, without the final empty one, and read no further."""
    line = b""
    while len(line) < LINE_MAX:
        line += exactly(near, 1)
        if line.endswith(b"\r\n"):
            if line == b"\r\n":
                return
            yield line[:-2].decode("latin-1")
            line = b""
    raise ConnectionResetError("a line without end")
