"""The functions that rules have beyond standard CEL: tests of text, ``format()``, and others."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from celpy import celtypes
from celpy.evaluation import CELEvalError

from kafka_native.schema_registry.rules.cel import decimals, timestamps, variants

HOSTNAME_MAX = 253
EMAIL_MAX = 254
MAILBOX_MAX = 64
LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\Z")
MAILBOX = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]+\Z", re.ASCII)
VERB = re.compile(r"%(?:\.(\d+))?([sdfexXob%])")
PRECISION = 6
PRECISION_MAX = 100


def is_hostname(text: str) -> bool:
    """Return whether the text is a host name by RFC 1034. The last label isn't a number."""
    if len(text) > HOSTNAME_MAX:
        return False
    labels = text.removesuffix(".").split(".")
    return all(LABEL.match(label) for label in labels) and not labels[-1].isdigit()


def is_email(text: str) -> bool:
    """Return whether the text is a plain mail address."""
    mailbox, at, host = text.rpartition("@")
    return bool(
        at
        and len(text) <= EMAIL_MAX
        and len(mailbox) <= MAILBOX_MAX
        and MAILBOX.match(mailbox)
        and is_hostname(host)
    )


def is_ipv4(address: str | bytes) -> bool:
    """Return whether the text or the 4 bytes are an IPv4 address."""
    return _is_address(ipaddress.IPv4Address, address)


def is_ipv6(address: str | bytes) -> bool:
    """Return whether the text or the 16 bytes are an IPv6 address."""
    return _is_address(ipaddress.IPv6Address, address)


def _is_address(kind: Callable[[str | bytes], object], address: str | bytes) -> bool:
    try:
        kind(address)
    except ValueError:
        return False
    return True


def is_uuid(text: str) -> bool:
    """Return whether the text is a UUID."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def is_uri(text: str) -> bool:
    """Return whether the text is a URI with a scheme, a host and a path."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc and parts.path)


def is_uri_ref(text: str) -> bool:
    """Return whether the text is a URI or a relative reference."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool((parts.scheme and parts.path) or not parts.fragment)


def _test(
    function: Callable[[Any], bool], *kinds: type
) -> Callable[[Any], celtypes.BoolType | CELEvalError]:
    def call(value: Any) -> celtypes.BoolType | CELEvalError:
        if not isinstance(value, kinds):
            names = " or ".join("string" if kind is str else "bytes" for kind in kinds)
            return CELEvalError(f"{function.__name__} needs a {names}")
        plain = bytes(value) if isinstance(value, bytes) else str(value)
        return celtypes.BoolType(function(plain))

    return call


def format_text(template: Any, values: Any) -> celtypes.StringType | CELEvalError:
    """Return the template with its ``%s``, ``%d``, ``%.2f`` and so on replaced by the values."""
    if not isinstance(template, str) or not isinstance(values, list):
        return CELEvalError("format needs a string and a list")
    left = iter(values)

    def replaced(match: re.Match[str]) -> str:
        digits, verb = match.groups()
        if verb == "%":
            return "%"
        return _formatted(verb, min(int(digits or PRECISION), PRECISION_MAX), next(left))

    try:
        return celtypes.StringType(VERB.sub(replaced, template))
    except StopIteration:
        return CELEvalError("format needs more values")
    except (ValueError, TypeError) as error:
        return CELEvalError(f"format: {error}")


def _formatted(verb: str, precision: int, value: Any) -> str:
    if verb == "s":
        return _as_text(value)
    if verb in "fe":
        return f"{float(value):.{precision}{verb}}"
    if verb in "xX" and isinstance(value, (str, bytes)):
        raw = value.encode() if isinstance(value, str) else value
        return raw.hex().upper() if verb == "X" else raw.hex()
    return f"{int(value):{verb}}"


def _as_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, celtypes.BoolType):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, list):
        return f"[{', '.join(map(_as_text, value))}]"
    if isinstance(value, dict):
        items = sorted((_as_text(key), _as_text(each)) for key, each in value.items())
        return "{" + ", ".join(f"{key}: {each}" for key, each in items) + "}"
    if isinstance(value, float):
        return f"{float(value):g}"
    return str(value)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "isHostname": _test(is_hostname, str),
    "isEmail": _test(is_email, str),
    "isIpv4": _test(is_ipv4, str, bytes),
    "isIpv6": _test(is_ipv6, str, bytes),
    "isUuid": _test(is_uuid, str),
    "isUri": _test(is_uri, str),
    "isUriRef": _test(is_uri_ref, str),
    "format": format_text,
    **decimals.FUNCTIONS,
    **timestamps.FUNCTIONS,
    **variants.FUNCTIONS,
}
"""The functions by name. A name with a dot is called as it is: ``decimals.add(a, b)``."""
