"""Results and exceptions of both libraries in the same plain form."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from tests.compat.odd.values import IN_TRANSACTIONS, WRITTEN, Env

MESSAGE = (
    "topic",
    "partition",
    "offset",
    "key",
    "value",
    "headers",
    "timestamp",
    "error",
    "leader_epoch",
    "delivery_count",
)
RECENT_MS = 86_400_000
OWN_ATTRIBUTES = {"config_type", "documentation"}
"""The attributes that only kafka_native's types have."""
_objects = re.compile(r"<[\w.]+ object at 0x[0-9a-f]+>")
_groups = re.compile(r"GROUP-\d+")
_class_names = re.compile(r"'(?:[\w.]+\.)?(\w+)' object is not callable")
"""Python shows the module of confluent_kafka's classes, which are written in C."""
_ids = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}")
DEPTH_MAX = 6


def _text(env: Env, value: str) -> str:
    value = _objects.sub("OBJECT", value)
    value = _groups.sub("GROUP", value.replace(env.group, "GROUP"))
    return _ids.sub("ID", value)[:300]


def _error(error: Any) -> list[Any]:
    return [
        "KafkaError",
        error.name(),
        error.fatal(),
        error.retriable(),
        error.txn_requires_abort(),
    ]


def _message(env: Env, value: Any, depth: int) -> list[Any]:
    fields = {name: plain(env, getattr(value, name)(), depth) for name in MESSAGE}
    kind, at = value.timestamp()
    recent = isinstance(at, int) and abs(at - time.time() * 1000) < RECENT_MS
    if recent:
        fields["timestamp"] = [kind, "now"]
    written = recent or value.topic() in (WRITTEN, IN_TRANSACTIONS)
    if written and isinstance(value.offset(), int) and value.offset() >= 0:
        fields["offset"] = "new"  # it depends on the calls before
    return ["Message", fields]


def _attributes(env: Env, value: Any, depth: int) -> Any:
    names = sorted(getattr(value, "__dict__", {}))
    public = [name for name in names if not name.startswith("_") and name not in OWN_ATTRIBUTES]
    return [
        type(value).__name__,
        {name: plain(env, getattr(value, name), depth) for name in public},
    ]


def plain(env: Env, value: Any, depth: int = 0) -> Any:
    """Return a value in types that both libraries have, ready for JSON."""
    lib, depth = env.lib, depth + 1
    if depth > DEPTH_MAX:
        return "..."
    if value is None or isinstance(value, bool):
        return value
    if type(value) is int:
        return value if abs(value) < 2**53 else repr(value)
    if isinstance(value, str):
        return _text(env, str(value))
    if isinstance(value, list | tuple | set | frozenset):
        kind = type(value).__name__
        return [kind if kind != "list" else "", *(plain(env, each, depth) for each in value)]
    if isinstance(value, dict):
        return {str(plain(env, key, depth)): plain(env, each, depth) for key, each in value.items()}
    if isinstance(value, lib.KafkaError):
        return _error(value)
    if isinstance(value, lib.TopicPartition):
        names = ("topic", "partition", "offset", "metadata", "leader_epoch", "error")
        return ["at", *(plain(env, getattr(value, name), depth) for name in names)]
    if isinstance(value, lib.Uuid):
        return _text(env, str(value)) if type(value) is lib.Uuid else "Uuid"
    if isinstance(value, lib.Message):
        return _message(env, value, depth)
    if isinstance(value, BaseException):
        return raised(env, value)
    if isinstance(value, lib.cimpl.NewTopic | lib.cimpl.NewPartitions):
        names = [name for name in dir(value) if not name.startswith("_")]
        return [type(value).__name__, {n: plain(env, getattr(value, n), depth) for n in names}]
    if type(value).__module__.startswith(lib.__name__.partition(".")[0]) and not callable(value):
        if hasattr(value, "poll") or "Metadata" in type(value).__name__:
            return type(value).__name__
        return _attributes(env, value, depth)
    return (
        _text(env, repr(value))
        if isinstance(value, float | bytes | complex)
        else (type(value).__name__)
    )


def raised(env: Env, error: BaseException) -> list[Any]:
    """Return the class of an exception, and its KafkaError with the flags."""
    cause = error.args[0] if error.args else None
    found = _error(cause)[1:] if isinstance(cause, env.lib.KafkaError) else []
    return [type(error).__name__, *found]


def outcome(env: Env, call: Callable[[], Any]) -> dict[str, Any]:
    """Return the result of a call or its exception."""
    try:
        result = call()
        int.from_bytes(b"", "big")  # notices an exception that was set beside a result
        return {"returns": result}
    except BaseException as error:
        try:
            text = _class_names.sub(r"'\1' object is not callable", str(error))[:200]
        except Exception as failure:
            text = f"{type(failure).__name__} of str()"
        return {"raises": raised(env, error), "text": text}
