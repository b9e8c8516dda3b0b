"""The configuration of a schema registry client."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from kafka_native.schema_registry import mock_urls
from kafka_native.schema_registry.authentication import (
    Authentication,
    BasicAuthentication,
    NoAuthentication,
    bearer_authentication,
)
from kafka_native.schema_registry.retries import RetryPolicy

TIMEOUT_S = 60.0
CACHE_CAPACITY = 1000
MAX_RETRIES = 3
RETRIES_WAIT_MS = 1000
RETRIES_MAX_WAIT_MS = 20_000
PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")


@dataclass(frozen=True)
class BaseUrl:
    """One registry's address, without credentials, and the credentials that it had.

    ``mock`` keeps the registry of a ``mock://`` address alive.
    """

    url: str
    credentials: tuple[str, str] | None = field(default=None, repr=False)
    mock: mock_urls.MockAddress | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class RegistryConfig:
    """The checked configuration. Secrets don't appear in its repr."""

    base_urls: tuple[BaseUrl, ...]
    timeout_s: float
    cache_capacity: int
    cache_latest_ttl_s: float | None
    retries: RetryPolicy
    authentication: Authentication = field(repr=False)
    ssl_context: ssl.SSLContext = field(repr=False)
    proxy: str | None = field(repr=False)


def parse(conf: Mapping[str, Any]) -> RegistryConfig:
    """Check the properties of a client.

    :raises ValueError: A property is unknown, missing or has a wrong value.
    :raises TypeError: A property's value has a wrong type.
    """
    left = dict(conf)
    base_urls = _base_urls(left)
    retries = RetryPolicy(
        max_retries=int(_number(left, "max.retries", MAX_RETRIES)),
        wait_ms=int(_number(left, "retries.wait.ms", RETRIES_WAIT_MS)),
        max_wait_ms=int(_number(left, "retries.max.wait.ms", RETRIES_MAX_WAIT_MS)),
    )
    config = RegistryConfig(
        base_urls=base_urls,
        ssl_context=_ssl_context(left),
        proxy=_proxy(left),
        timeout_s=float(_number(left, "timeout", TIMEOUT_S, allows_zero=False)),
        cache_capacity=int(_number(left, "cache.capacity", CACHE_CAPACITY)),
        cache_latest_ttl_s=_ttl(left),
        retries=retries,
        authentication=_authentication(left, base_urls, retries),
    )
    if left:
        raise ValueError(f"unrecognized properties: {', '.join(sorted(map(str, left)))}")
    return config


def _base_urls(left: dict[str, Any]) -> tuple[BaseUrl, ...]:
    value = left.pop("url", None)
    if value is None:
        raise ValueError("the property url is missing: set it to the registry's URL")
    if not isinstance(value, str):
        raise TypeError(f"url must be a str, not {type(value).__name__}")
    found = tuple(_base_url(each.strip()) for each in value.split(",") if each.strip())
    if not found:
        raise ValueError("url has no address")
    return found


def _base_url(text: str) -> BaseUrl:
    if text.startswith(mock_urls.PREFIX):
        mock = mock_urls.MockAddress(text)
        return BaseUrl(mock.url, mock=mock)
    # The value may have a password, so the errors don't show it.
    try:
        parts = urlsplit(text)
        is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError(
            "url must be a list of http:// or https:// addresses, or mock://"
        ) from None
    if parts.query or parts.fragment:
        raise ValueError("url must not have a query or a fragment")
    credentials = None
    if parts.username is not None and parts.password is not None:
        credentials = unquote(parts.username), unquote(parts.password)
    host = parts.netloc.rpartition("@")[2]
    url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
    return BaseUrl(url, credentials)


def _number(
    left: dict[str, Any], name: str, default: float, *, allows_zero: bool = True
) -> int | float:
    value = left.pop(name, None)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    if not (value > 0 or (allows_zero and value == 0)) or value == float("inf"):
        raise ValueError(f"{name} must not be {value}")
    return value


def _ttl(left: dict[str, Any]) -> float | None:
    if left.get("cache.latest.ttl.sec") is None:
        left.pop("cache.latest.ttl.sec", None)
        return None
    return float(_number(left, "cache.latest.ttl.sec", 0))


def _text(left: dict[str, Any], name: str) -> str | None:
    value = left.pop(name, None)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    return value


def _proxy(left: dict[str, Any]) -> str | None:
    value = _text(left, "proxy")
    if value is None:
        return None
    # The value may have a password, so the errors don't show it.
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme in PROXY_SCHEMES and parts.hostname and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError("proxy must be an http://, https:// or socks5:// address")
    return value


def _ssl_context(left: dict[str, Any]) -> ssl.SSLContext:
    """Return a context that verifies with the system's authorities, or with the given ones."""
    authorities = left.pop("ssl.ca.location", None)
    key = _text(left, "ssl.key.location")
    password = _text(left, "ssl.key.password")
    certificate = _text(left, "ssl.certificate.location")
    if certificate is None and (key is not None or password is not None):
        raise ValueError(
            "ssl.key.location and ssl.key.password need ssl.certificate.location as well"
        )
    try:
        if isinstance(authorities, str) and os.path.isdir(authorities):
            context = ssl.create_default_context(capath=authorities)
        elif isinstance(authorities, str):
            context = ssl.create_default_context(cafile=authorities)
        elif authorities in (None, True, False):
            context = ssl.create_default_context()
        else:
            raise TypeError(f"ssl.ca.location must be a str, not {type(authorities).__name__}")
        if authorities is False:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
    except OSError as error:  # ssl.SSLError is an OSError
        raise ValueError(f"ssl.ca.location {authorities} can't be read: {error}") from error
    if certificate is not None:
        try:
            # Without a password OpenSSL would ask the terminal for it.
            context.load_cert_chain(certificate, key, password or "")
        except OSError as error:
            where = certificate if key is None else f"{certificate} with the key {key}"
            raise ValueError(f"the certificate {where} can't be loaded: {error}") from error
    return context


def _authentication(
    left: dict[str, Any], base_urls: tuple[BaseUrl, ...], retries: RetryPolicy
) -> Authentication:
    user_info = _text(left, "basic.auth.user.info")
    bearer = bearer_authentication(left, retries)
    of_urls = {each.url: each.credentials for each in base_urls if each.credentials}
    if user_info is not None and of_urls:
        raise ValueError("set either basic.auth.user.info or credentials in url, not both")
    if bearer is not None and (user_info is not None or of_urls):
        raise ValueError(
            "set either bearer.auth.credentials.source or credentials for basic authentication"
        )
    if bearer is not None:
        return bearer
    if user_info is not None:
        user, colon, password = user_info.partition(":")
        if not colon:
            raise ValueError("basic.auth.user.info must have the form username:password")
        return BasicAuthentication({each.url: (user, password) for each in base_urls})
    if of_urls:
        # The first credentials are also for the URLs that have none of their own.
        first = next(iter(of_urls.values()))
        return BasicAuthentication({each.url: each.credentials or first for each in base_urls})
    return NoAuthentication()
