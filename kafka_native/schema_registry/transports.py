"""The two transports: they perform the steps of a call, with threads or with asyncio."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from kafka_native.cleaning import clean
from kafka_native.schema_registry.authentication import FetchedToken
from kafka_native.schema_registry.config import RegistryConfig
from kafka_native.schema_registry.forks import ForkAware
from kafka_native.schema_registry.steps import (
    Call,
    ConnectionFailed,
    Join,
    Response,
    Send,
    Sleep,
    Step,
    UnusableAnswer,
    ask,
    ask_async,
    run,
    run_async,
)

if TYPE_CHECKING:
    from types import ModuleType

T = TypeVar("T")
ERROR_SHOWN_MAX: Final = 300
RESPONSE_MAX_BYTES: Final = 32 << 20
"""The largest answer that a client accepts, in bytes."""


def _httpx() -> ModuleType:
    """Return the HTTP library, which the extra ``registry`` installs.

    :raises ImportError: It is missing. The error has pip's command.
    """
    try:
        import httpx2
    except ImportError as missing:
        raise ImportError(
            "the schema registry client needs httpx2: "
            f"pip install 'kafka-native[registry]' ({missing})"
        ) from missing
    return httpx2


class _Body:
    """The body of an answer while it arrives: limited in size and time."""

    def __init__(self, request: Send, headers: Mapping[str, str], deadline: float) -> None:
        self._what = f"{request.method} {request.url}"
        self._chunks: list[bytes] = []
        self._left = RESPONSE_MAX_BYTES
        self._deadline = deadline
        encoding = headers.get("content-encoding", "identity")
        if encoding.lower() not in ("identity", ""):
            raise UnusableAnswer(f"{self._what}: the answer is encoded as {clean(encoding)}")
        length = headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 18 or int(length) > self._left):
            raise self._too_large()

    def _too_large(self) -> UnusableAnswer:
        return UnusableAnswer(f"{self._what}: the answer is larger than {RESPONSE_MAX_BYTES} bytes")

    def add(self, chunk: bytes) -> None:
        """Add bytes of the body."""
        self._left -= len(chunk)
        if self._left < 0:
            raise self._too_large()
        if time.monotonic() >= self._deadline:
            raise ConnectionFailed("the answer wasn't complete before the timeout")
        self._chunks.append(chunk)

    def bytes(self) -> bytes:
        """Return the complete body."""
        return b"".join(self._chunks)


def _failed(error: Exception) -> ConnectionFailed:
    """Return the error of a connection, without the request and its headers."""
    text = clean(str(error), ERROR_SHOWN_MAX)
    kind = type(error).__name__
    return ConnectionFailed(f"{kind}: {text}" if text else kind)


def is_header_value(value: str) -> bool:
    """Return whether a text can be sent in a header.

    The HTTP library's own error would show the text, which may be a token.
    """
    return value.isascii() and value.isprintable() and value == value.strip()


def _headers(request: Send) -> dict[str, str]:
    for name, value in request.headers.items():
        if not is_header_value(value):
            raise UnusableAnswer(
                f"{request.method} {clean(request.url)}: the value of the header {name} has a line "
                "end, a space at an end, or another character that HTTP doesn't allow"
            )
    # A compressed answer could be far larger than the limit, so the client asks for none.
    return {**request.headers, "Accept-Encoding": "identity"}


class _Transport(ForkAware):
    """The connections of a transport."""

    _client_class: ClassVar[str] = ""
    """The name of httpx2's class for connections."""

    def __init__(self, config: RegistryConfig) -> None:
        self._config = config
        self._httpx = _httpx()
        # The server's TLS alerts arrive as they are: ssl.SSLError, an OSError.
        self._connection_errors = (self._httpx.TransportError, OSError)
        self._open()
        super().__init__()  # a fork resets complete transports only

    def _open(self) -> None:
        client = getattr(self._httpx, self._client_class)
        options = {"proxy": self._config.proxy, "timeout": self._config.timeout_s}
        self._registry = client(verify=self._config.ssl_context, **options)
        # The identity provider has the system's authorities and no certificate of the client.
        self._issuer = (
            client(verify=ssl.create_default_context(), **options)
            if isinstance(self._config.authentication, FetchedToken)
            else self._registry
        )

    def reset_after_fork(self) -> None:
        """Leave the connections to the parent, and open others."""
        if not self._registry.is_closed:
            self._parents = self._registry, self._issuer  # nothing may close them here
            self._open()


class SyncTransport(_Transport):
    """Performs steps in the calling thread. It is thread-safe.

    Parameters
    ----------
    config : RegistryConfig
        The client's configuration.
    """

    _client_class = "Client"

    def close(self) -> None:
        """Close the connections. A second call has no effect."""
        self._registry.close()
        self._issuer.close()

    def run(self, call: Call[T]) -> T:
        """Perform the steps of a call and return its result."""
        return run(call, self._perform)

    def _perform(self, step: Step) -> Any:
        if isinstance(step, Send):
            return self._send(step)
        if isinstance(step, Sleep):
            return time.sleep(step.seconds)
        if isinstance(step, Join):
            return step.future.result()
        return ask(step)

    def _send(self, request: Send) -> Response:
        client = self._issuer if request.is_for_issuer else self._registry
        deadline = time.monotonic() + self._config.timeout_s
        try:
            with client.stream(
                request.method,
                request.url,
                headers=_headers(request),
                content=request.content,
            ) as answer:
                body = _Body(request, answer.headers, deadline)
                for chunk in answer.iter_raw():
                    body.add(chunk)
                return Response(answer.status_code, answer.headers, body.bytes())
        except self._connection_errors as error:
            raise _failed(error) from error
        except self._httpx.InvalidURL as error:
            raise UnusableAnswer(f"{request.method} {clean(request.url)}: {error}") from error


class AsyncTransport(_Transport):
    """Performs steps in an event loop.

    Parameters
    ----------
    config : RegistryConfig
        The client's configuration.
    """

    _client_class = "AsyncClient"

    async def aclose(self) -> None:
        """Close the connections. A second call has no effect."""
        await self._registry.aclose()
        await self._issuer.aclose()

    async def run(self, call: Call[T]) -> T:
        """Perform the steps of a call and return its result."""
        return await run_async(call, self._perform)

    async def _perform(self, step: Step) -> Any:
        if isinstance(step, Send):
            return await self._send(step)
        if isinstance(step, Sleep):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, Join):
            return await asyncio.wrap_future(step.future)
        return await ask_async(step)

    async def _send(self, request: Send) -> Response:
        client = self._issuer if request.is_for_issuer else self._registry
        deadline = time.monotonic() + self._config.timeout_s
        try:
            async with client.stream(
                request.method,
                request.url,
                headers=_headers(request),
                content=request.content,
            ) as answer:
                body = _Body(request, answer.headers, deadline)
                async for chunk in answer.aiter_raw():
                    body.add(chunk)
                return Response(answer.status_code, answer.headers, body.bytes())
        except self._connection_errors as error:
            raise _failed(error) from error
        except self._httpx.InvalidURL as error:
            raise UnusableAnswer(f"{request.method} {clean(request.url)}: {error}") from error
