"""MockSchemaRegistry, the public class."""

from __future__ import annotations

import os
import ssl
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Literal

from kafka_native.mock.certificates import Certificates, Identity
from kafka_native.mock.schema_registry.faults import RegistryFaults
from kafka_native.mock.schema_registry.server import Listener, Logins, SeenHttpRequest, Shared

ClientCertificates = Literal["none", "requested", "required"]
_VERIFY_MODES: Final[dict[str, ssl.VerifyMode]] = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_CHECK_INTERVAL_S: Final = 0.002


class MockSchemaRegistry:
    """A schema registry inside your process: a real HTTP server on 127.0.0.1.

    It has the REST API of Confluent's registry, so any client can use it. Everything is in memory.
    It is ready when it is constructed, and a context manager::

        with MockSchemaRegistry() as registry:
            client = SchemaRegistryClient({"url": registry.url})

    Avro and JSON Schema need nothing else. Protobuf schemas need
    ``pip install 'kafka-native[protobuf]'``, and TLS needs ``pip install 'kafka-native[mock]'``.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        listeners: int = 1,
        users: Mapping[str, str] | None = None,
        tokens: Iterable[str] = (),
        tls: bool = False,
        certificates: Certificates | Identity | None = None,
        client_certificates: ClientCertificates = "none",
    ) -> None:
        """Start the registry.

        Parameters
        ----------
        port : int
            The port of the first listener. The default, 0, is a free one. Further listeners take
            the ports behind it, or free ones.
        listeners : int
            How many URLs the registry has. All of them serve the same schemas, like the members
            of a cluster of registries.
        users : dict of str to str, optional
            Names and passwords for HTTP Basic authentication.
        tokens : iterable of str
            Tokens for ``Authorization: Bearer``. With users or tokens, other requests get 401.
        tls : bool
            Serve HTTPS.
        certificates : Certificates or Identity, optional
            The authority that issues the registry's certificate, or the certificate itself. The
            default is a new authority. Clients trust its ``ca_pem``.
        client_certificates : {"none", "requested", "required"}
            Whether clients need a certificate of the authority.

        Raises
        ------
        OSError
            A port is in use.
        ValueError
            An argument isn't valid.
        ModuleNotFoundError
            ``tls`` needs the package trustme, or your own ``Identity``.
        """
        if listeners < 1:
            raise ValueError(f"listeners is {listeners}: a registry needs at least one")
        if client_certificates not in _VERIFY_MODES:
            raise ValueError(f"client_certificates is {client_certificates!r}")
        if not tls and (certificates is not None or client_certificates != "none"):
            raise ValueError("certificates need tls=True")
        self._shared = Shared(Logins(dict(users or {}), frozenset(tokens)))
        self._certificates = certificates
        self._context: ssl.SSLContext | None = None
        self._ca_pem: str | None = None
        if tls:
            if certificates is None:
                self._certificates = Certificates()
            self._context = self._tls_context(client_certificates)
        self._ports: list[int] = []
        self._listeners: dict[int, Listener] = {}
        self._lock = threading.Lock()
        try:
            for index in range(listeners):
                self._start(index, port + index if port else 0)
        except OSError:
            self.close()
            raise

    def _tls_context(self, client_certificates: str) -> ssl.SSLContext:
        issuer = self._certificates
        identity = issuer.broker() if isinstance(issuer, Certificates) else issuer
        assert identity is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:  # ssl reads files only
            certificate, key = identity.save(folder, "registry")
            context.load_cert_chain(certificate, key)
        self._ca_pem = identity.ca_pem
        if client_certificates != "none":
            if identity.ca_pem is None:
                raise ValueError("client certificates need an Identity with ca_pem")
            context.load_verify_locations(cadata=identity.ca_pem)
        context.verify_mode = _VERIFY_MODES[client_certificates]
        return context

    def _start(self, index: int, port: int) -> None:
        listener = Listener(self._shared, index, port, self._context)
        self._listeners[index] = listener
        self._ports[index : index + 1] = [listener.port]

    # --- addresses ---

    @property
    def url(self) -> str:
        """The URL of the first listener."""
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        """The URLs of all listeners, also of those that are down."""
        scheme = "http" if self._context is None else "https"
        return [f"{scheme}://127.0.0.1:{port}" for port in self._ports]

    def listener_down(self, index: int) -> None:
        """Close a listener with its connections. Clients get "connection refused"."""
        with self._lock:
            if self._listeners.get(index) is None:
                raise ValueError(f"listener {index} isn't up")
            self._listeners.pop(index).close()

    def listener_up(self, index: int) -> None:
        """Open a listener again, on the same port."""
        with self._lock:
            if index in self._listeners or not 0 <= index < len(self._ports):
                raise ValueError(f"listener {index} isn't down")
            self._start(index, self._ports[index])

    # --- TLS ---

    @property
    def ca_pem(self) -> str:
        """The authority that clients trust, as PEM. Raises ``ValueError`` without TLS."""
        if self._ca_pem is None:
            raise ValueError("the registry has no TLS, or an identity without ca_pem")
        return self._ca_pem

    @property
    def certificates(self) -> Certificates:
        """The authority, which also issues certificates for clients."""
        if not isinstance(self._certificates, Certificates):
            raise ValueError("the registry has no authority of its own")
        return self._certificates

    def save_ca(self, path: str | os.PathLike[str]) -> str:
        """Write ``ca_pem`` to a file, and return its path."""
        Path(path).write_text(self.ca_pem)
        return str(path)

    # --- tests ---

    @property
    def faults(self) -> RegistryFaults:
        """The errors, delays and cut connections that the next requests meet."""
        return self._shared.faults

    @property
    def requests(self) -> list[SeenHttpRequest]:
        """The last 100,000 requests, oldest first. It has those that a fault has answered, too."""
        return list(self._shared.requests)

    def clear_requests(self) -> None:
        """Forget the recorded requests."""
        self._shared.requests.clear()

    def wait_for_requests(self, count: int = 1, *, timeout: float = 10) -> list[SeenHttpRequest]:
        """Wait until ``count`` requests have arrived, and return all that have.

        Parameters
        ----------
        count : int
            The number of requests to wait for.
        timeout : float
            The longest wait in seconds.

        Raises
        ------
        TimeoutError
            Fewer requests arrived in this time.
        """
        deadline = time.monotonic() + timeout
        while len(found := self.requests) < count:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{len(found)} of {count} requests came within {timeout} s")
            time.sleep(_CHECK_INTERVAL_S)
        return found

    # --- end of life ---

    def close(self, *, wait: bool = True) -> None:
        """Stop the registry, and close its connections. A second call has no effect.

        Parameters
        ----------
        wait : bool
            Whether to wait until the threads of the connections have ended.
        """
        self._shared.closing.set()
        with self._lock:
            while self._listeners:
                _, listener = self._listeners.popitem()
                listener.close()
                if wait:
                    listener.join()

    def __enter__(self) -> MockSchemaRegistry:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
