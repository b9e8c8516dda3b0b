"""What the clients of `cimpl` have in common: their configuration and their first call."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka_native.client_core import HANDLE_CLOSED_TEXT, ClientCore, UninitializedClient, own_client
from kafka_native.config import Property, declared_property, parse_bootstrap
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.logs import root_of

TOKEN_TIMEOUT_S: Final = 10
"""How long a constructor waits for the first token of ``oauth_cb``."""
TOKEN_INTERVAL_S: Final = 0.01
_CALLBACKS: Final = {
    "error_cb": TypeError,
    "throttle_cb": ValueError,
    "stats_cb": TypeError,
    "oauth_cb": TypeError,
}
"""Callbacks that can't be None, and the exception for a value that isn't callable."""
_OWN: Final = {"producer": "on_delivery", "consumer": "on_commit"}
"""The callback that only one kind of client takes."""
_DEFAULTS: Final = {"producer": "enable.idempotence", "consumer": "check.crcs"}
"""The property that is false by default in librdkafka, but not in kafka_native. The limit of
decompressed.batch.max.bytes holds here, too: it protects the process from hostile batches.
"""
_VALUE_REFUSAL: Final = "expected configuration property value as type unicode string"
_NEVER_EMPTY: Final = ("debug", "partitioner")
_INTEGER: Final = re.compile(r"\s*[+-]?(?:0[xX][0-9a-fA-F]+|\d+)")
_FLOAT: Final = re.compile(r"\s*[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")


def configuration(args: tuple[Any, ...], kwargs: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the configuration in types that kafka_native accepts.

    :param args: The positional arguments of the constructor: none, or a dict.
    :param kwargs: Its keywords. They win over the dict.
    :param kind: "producer", "consumer" or "admin".
    :raises TypeError: There is no configuration, or a value of a wrong type.
    :raises ValueError: A consumer's configuration has no ``group.id``.
    """
    if len(args) > 1:
        raise TypeError("expected tuple containing single dict")
    if (args and not isinstance(args[0], dict)) or not (args or kwargs):
        raise TypeError("expected configuration dict")
    given: dict[Any, Any] = {**(args[0] if args else {}), **kwargs}
    if kind == "consumer" and "group.id" not in given:
        raise ValueError("Failed to create consumer: group.id must be set")
    if "default.topic.config" in given:
        topic_conf = given.pop("default.topic.config")
        given.update({key: topic_conf[key] for key in topic_conf.keys()})  # noqa: SIM118 - no Mapping
    converted: dict[str, Any] = {}
    for key, value in given.items():
        name = _text(key, "expected configuration property name as type unicode string")
        converted[name] = _converted(name, value, kind)
    if converted.get("logger") is not None:
        converted["log.queue"] = True  # poll() calls it
    for name in ("bootstrap.servers", "metadata.broker.list"):
        if converted.get(name):
            converted[name] = _servers(converted, converted[name])
    if kind in _DEFAULTS and not converted.get("transactional.id"):  # that needs idempotence
        converted.setdefault(_DEFAULTS[kind], "false")
    return converted


def _servers(conf: Mapping[str, Any], servers: str) -> str:
    """Log the bootstrap servers that can't be, and return the others."""
    protocol = str(conf.get("security.protocol") or "plaintext").lower()
    good = []
    for entry in servers.split(","):
        try:
            parse_bootstrap(entry, protocol)
        except KafkaException as error:
            log = conf.get("logger") or logging.getLogger(root_of(str(conf.get("client.id") or "")))
            log.log(logging.ERROR, "%s", error.args[0].str())
        else:
            good.append(entry)
    return ",".join(good)


def _text(value: object, refusal: str) -> str:
    try:
        text = str(value)
    except Exception:
        raise TypeError(refusal) from None
    return text.partition("\0")[0]


def _converted(name: str, value: Any, kind: str) -> Any:
    """Convert one value. Unknown names stay, and are refused later."""
    refusal = _CALLBACKS.get(name)
    if refusal is not None and not callable(value):
        raise refusal(f"expected {name} property as a callable function")
    if name == _OWN.get(kind) and not callable(value):
        _refuse(f"{name} requires a callable object")
    if name in _OWN.values() and name != _OWN.get(kind):
        _refuse(f'No such configuration property: "{name}"')
    if name == "logger":
        return value if callable(getattr(value, "log", None)) else None
    if name == "delivery.report.only.error" and kind == "producer" and not isinstance(value, bool):
        raise TypeError(f"Expected {name} to be bool type, not {type(value).__name__}")
    declared = declared_property(name)
    if declared is not None and declared.kind in ("callable", "object"):
        return value
    if name == "partition.assignment.strategy" and callable(getattr(value, "assign", None)):
        return value  # an assignor, which the original doesn't have
    if value is None and name not in _NEVER_EMPTY:
        return None
    text = "" if value is None else _text(value, _VALUE_REFUSAL)
    if not text and name in _NEVER_EMPTY:
        _refuse(f'Configuration property "{name}" cannot be set to empty value')
    return text if declared is None else _lenient(declared, text)


def _lenient(declared: Property, text: str) -> str:
    """Leave out of a value what librdkafka doesn't read."""
    if declared.kind == "boolean" and text != text.strip():
        _refuse(f'Expected bool value for "{declared.name}": true or false')
    if declared.kind == "integer" and (found := _INTEGER.match(text)):
        return str(_integer(found[0].strip()))
    if declared.kind == "float" and (found := _FLOAT.match(text)):
        number = found[0].strip()
        return str(int(number, 16)) if "x" in number.lower() else number
    return text


def _integer(text: str) -> int:
    """Read an integer as C does: hexadecimal after 0x, octal after 0."""
    digits = text.lstrip("+-").lower()
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
    if base == 8:
        found = re.match(r"0[0-7]*", digits)
        digits = found[0] if found else "0"
    number = int(digits, base)
    number = max(-(1 << 63), -number) if text.startswith("-") else min((1 << 63) - 1, number)
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)  # C converts it to 32 bits


def _refuse(text: str) -> None:
    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))


def await_token(client: Any, conf: Mapping[str, Any]) -> None:
    """Wait in a constructor for the first token of ``oauth_cb``.

    :raises KafkaException: SASL_AUTHENTICATION_FAILED: there is no token in time, or the client
        doesn't need one. The client is closed.
    """
    if conf.get("oauth_cb") is None:
        return
    deadline = time.monotonic() + TOKEN_TIMEOUT_S
    core: ClientCore = client._client
    try:
        while not core.has_token:
            if time.monotonic() >= deadline:
                text = f"OAuth token not set within {TOKEN_TIMEOUT_S} seconds timeout"
                raise KafkaException(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED, text))
            time.sleep(TOKEN_INTERVAL_S)
    except BaseException:
        core.drop()
        del client._client
        raise


def check_new(client: object, text: str) -> None:
    """Refuse a second ``__init__`` with a RuntimeError of this text."""
    if own_client(client) is not None:
        raise RuntimeError(text)


class ClosedClient(UninitializedClient):
    """Stands for the client if ``__init__`` never ran: all calls find it closed."""

    def __init__(self, text: str, kind: type[Exception] = RuntimeError) -> None:
        """All calls raise ``kind`` with this text, but those about the cluster have their own."""
        self._closed = _Closed(lambda text=text: kind(text))

    def __get__(self, instance: object, owner: type) -> ClientCore:
        """Return an object whose calls raise."""
        return self if instance is None else self._closed  # type: ignore[return-value]


class _Closed:
    """A client that is closed from the beginning."""

    closed = True

    def __init__(self, exception: Callable[..., Exception]) -> None:
        self._exception = exception

    def check_open(self, text: str) -> None:
        """Raise the exception that the caller would raise after close()."""
        raise self._exception(text)

    def list_topics(self, *_: object) -> None:
        """Raise an exception, as do all calls about the cluster."""
        raise self._exception(HANDLE_CLOSED_TEXT)

    cluster_id = set_sasl_credentials = list_topics

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._exception()
