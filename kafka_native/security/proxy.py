"""The proxy of ``proxy.url``: SOCKS5, or HTTP CONNECT. The engine connects through it."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from kafka_native.config import Config

from .sources import refuse

_SCHEMES: Final = ("socks5", "socks5h", "http")
_LOGIN_BYTES_MAX: Final = 255
"""The maximum length of the user and of the password. SOCKS5 has one byte for each length."""
_HOST_BYTES_MAX: Final = 255
_FORM: Final = "socks5://, socks5h:// or http://, then HOST:PORT or USER:PASSWORD@HOST:PORT"
_SPELLING: Final = (
    f"{_FORM}; in USER and PASSWORD, %40 stands for @, %3A for :, %2F for /, %25 for %"
)


class Proxy(NamedTuple):
    """A proxy for every connection. The repr doesn't show the login."""

    scheme: str
    """``socks5``, ``socks5h`` or ``http`` (CONNECT).

    With ``socks5`` the client resolves the names of brokers, otherwise the proxy does.
    """
    host: str
    port: int
    login: bytes
    """The login message of RFC 1929, or HTTP's header line; empty without a user."""

    def __repr__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"Proxy({self.scheme}://{'[redacted]@' if self.login else ''}{host}:{self.port})"


def proxy_of(config: Config) -> Proxy | None:
    """Return the proxy of ``proxy.url``, or None if it isn't set.

    :raises KafkaException: ``_INVALID_ARG`` for an invalid address. The error doesn't show the
        value.
    """
    text = config.text("proxy.url")
    if not text:
        return None
    parts, port = _split(text)
    scheme, host = parts.scheme, parts.hostname or ""
    if scheme not in _SCHEMES:
        more = (
            ": the client connects to a proxy without TLS, and through it to brokers with TLS"
            if scheme == "https"
            else ""
        )
        refuse(f"proxy.url begins with none of socks5://, socks5h:// and http://{more}", _SPELLING)
    if port is None or not host or len(host) > _HOST_BYTES_MAX:
        refuse(f"proxy.url has no {'port' if host else 'host'}", _SPELLING)
    if parts.path.strip("/") or parts.query or parts.fragment:
        refuse("proxy.url has something after the port", _SPELLING)
    return Proxy(scheme, host, port, b"" if parts.username is None else _login(scheme, parts))


def _split(text: str) -> tuple[SplitResult, int | None]:
    """Return the parts of a URL, and its port or None."""
    if not text.isascii() or not text.isprintable() or " " in text:
        refuse("proxy.url has characters that no URL has", _SPELLING)
    found = None
    # The text of the ValueError may repeat a part of a password, so it must not be chained.
    with suppress(ValueError):
        parts = urlsplit(text)
        found = parts, parts.port or None
    if found is None:
        refuse("proxy.url isn't an URL", _SPELLING)
    return found


def _login(scheme: str, parts: SplitResult) -> bytes:
    user, password = (unquote_to_bytes(each or "") for each in (parts.username, parts.password))
    if not user or max(len(user), len(password)) > _LOGIN_BYTES_MAX:
        refuse(
            f"proxy.url: a user has 1 to {_LOGIN_BYTES_MAX} bytes, a password no more", _SPELLING
        )
    if scheme == "http":
        if b":" in user:
            refuse("proxy.url: with http:// a user has no colon (RFC 7617)", _SPELLING)
        return b"Proxy-Authorization: Basic " + base64.b64encode(user + b":" + password) + b"\r\n"
    if not password:
        refuse("proxy.url: with SOCKS5 a user has a password (RFC 1929)", _SPELLING)
    return b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password
