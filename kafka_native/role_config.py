"""The properties of a shared client, and those of its roles.

A property belongs to one of four groups:

- the shared client's: connections, security, metadata and logging;
- a role's: everything that only a producer or only a consumer does;
- defaults: either may set it, and a role takes the shared client's value without one of its own;
- callbacks: either may set it, each for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka_native.config import Config, Role, declared_property, parse
from kafka_native.errors import KafkaError, KafkaException

HOST_PREFIXES: Final = (
    "api.version.",
    "broker.",
    "client.software.",
    "enable.sasl.",
    "enable.ssl.",
    "https.",
    "log",
    "metadata.",
    "proxy.",
    "reconnect.",
    "sasl.",
    "security.",
    "socket.",
    "ssl",
    "test.mock.",
    "topic.metadata.",
)
"""The first letters of the shared client's properties."""
HOST_NAMES: Final = frozenset(
    {
        "client.dns.lookup",
        "client.id",
        "connections.max.idle.ms",
        "debug",
        "oauth_cb",
        "receive.message.max.bytes",
    }
)
"""The shared client's other properties."""
DEFAULTS: Final = frozenset(
    {
        "client.rack",
        "connections.per.broker",
        "enable.metrics.push",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "statistics.interval.ms",
    }
)
"""A role takes these values from the shared client unless it sets its own."""
CALLBACKS: Final = frozenset({"background_event_cb", "error_cb", "stats_cb", "throttle_cb"})
"""The shared client and each role set these callbacks for themselves."""


def belongs_to_host(name: str) -> bool:
    """Whether only the shared client may set this property. Unknown names belong to nobody."""
    is_of_host = name in HOST_NAMES or name.startswith(HOST_PREFIXES)
    return is_of_host and declared_property(name) is not None


def _own_name(name: object) -> str:
    """The property's own name for an alias. Unknown names stay: `parse()` refuses them."""
    declared = declared_property(str(name))
    return str(name) if declared is None else declared.alias_of or declared.name


def parse_host(conf: Mapping[str, Any]) -> Config:
    """Checks the configuration of a shared client.

    :raises KafkaException: ``_INVALID_ARG``: as `parse()`, or a property belongs to a role.
    """
    for given in conf:
        name = _own_name(given)
        known = declared_property(name) is not None
        if known and not (belongs_to_host(name) or name in DEFAULTS | CALLBACKS):
            text = f"{given} belongs to a role: set it in Client.producer(), consumer() or "
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"{text}share_consumer()"))
    return parse(conf, "producer")


def parse_role(host: Mapping[str, Any], conf: Mapping[str, Any], role: Role) -> Config:
    """Checks the configuration of a role, and adds that of its shared client.

    :param host: The shared client's configuration, as the user wrote it.
    :raises KafkaException: ``_INVALID_ARG``: as `parse()`, or a property belongs to the shared
        client.
    """
    for given in conf:
        if belongs_to_host(_own_name(given)):
            text = f"{given} belongs to the shared Client: set it there, for all its roles"
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
    own = {_own_name(name) for name in conf}
    inherited = {
        name: value
        for name, value in host.items()
        if _own_name(name) not in CALLBACKS and _own_name(name) not in own
    }
    return parse({**inherited, **conf}, role)
