"""The configuration: validate a user's mapping and fill in the defaults.

:mod:`kafka_native._reference` declares each property once. Validation, defaults and
``docs/CONFIGURATION.md`` use these declarations. Names, ranges, defaults and error texts are
librdkafka's.

The client never ignores a property silently. If this version doesn't implement a property, there
are two cases:

- Ignoring the property could cause harm: setting it is an error.
- Ignoring the property is harmless: the client accepts it and logs a warning, once per process.
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from types import MappingProxyType
from typing import Any, Final, Literal, NoReturn, SupportsFloat

from ._reference import (
    client_properties,
    consumer_properties,
    own_properties,
    producer_properties,
    security_properties,
)
from ._reference.property import (
    BOTH,
    CONSUMER,
    PRODUCER,
    Property,
    State,
    without_secrets,
)
from .cleaning import clean, is_utf8
from .errors import KafkaError, KafkaException
from .logs import LEVELS, Sink, callback_sink, default_sink, given_sink, root_of
from .partitioners import PARTITIONERS
from .protocol import releases

__all__ = [
    "PROPERTIES",
    "Config",
    "Property",
    "State",
    "parse",
    "parse_bootstrap",
    "read_properties",
]

Role = Literal["producer", "consumer"]
# A log line about a configuration: the level of Python's logging, and the text
Remark = tuple[int, str]

PROPERTIES: Final[Mapping[str, Property]] = MappingProxyType(
    {
        declared.name: declared
        for module in (
            client_properties,
            security_properties,
            producer_properties,
            consumer_properties,
            own_properties,
        )
        for declared in module.PROPERTIES
    }
)
"""Every property by name, including aliases."""

DEFAULT_PORT: Final = 9092
"""The port of a bootstrap server without a port."""
TOPIC_PROPERTIES: Final = frozenset(
    {
        "acks",
        "auto.commit.enable",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "compression.codec",
        "compression.level",
        "compression.type",
        "consume.callback.max.messages",
        "delivery.timeout.ms",
        "enable.auto.commit",
        "message.timeout.ms",
        "offset.store.method",
        "offset.store.path",
        "offset.store.sync.interval.ms",
        "partitioner",
        "partitioner_cb",
        "produce.offset.report",
        "queuing.strategy",
        "request.required.acks",
        "request.timeout.ms",
    }
)
"""The properties of a topic in librdkafka: their names may begin with ``topic.``."""
PER_TOPIC: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "producer": (
            "request.required.acks",
            "request.timeout.ms",
            "message.timeout.ms",
            "compression.codec",
            "compression.level",
            "partitioner",
        ),
        "consumer": ("auto.offset.reset",),
    }
)
"""The properties that `topics` may set for a single topic, by the kind of client."""
ALL_REPLICAS: Final = -1
TRANSACTIONAL_ID_BYTES_MAX: Final = 511
IDEMPOTENT_IN_FLIGHT_MAX: Final = 5

_ATTRIBUTES: Final = {name.replace(".", "_"): name for name in PROPERTIES}
_CLASSIC_ONLY: Final = {
    "session.timeout.ms": ": the broker decides (its group.consumer.session.timeout.ms)",
    "heartbeat.interval.ms": ": the broker decides (its group.consumer.heartbeat.interval.ms)",
    "partition.assignment.strategy": ": the broker assigns; use `group.remote.assignor`",
    "group.protocol.type": "",
}
_KIND_NAMES: Final = {"integer": "Integer", "float": "Float", "boolean": "Bool"}
_STRATEGY: Final = "partition.assignment.strategy"
_STRATEGIES: Final = {
    "range": "EAGER",
    "roundrobin": "EAGER",
    "sticky": "EAGER",
    "cooperative-sticky": "COOPERATIVE",
}
_IN_MEMORY: Final = {
    "ssl_ca": "ssl.ca.pem",
    "ssl_certificate": "ssl.certificate.pem",
    "ssl_key": "ssl.key.pem",
}
"""librdkafka's names of certificates and keys that a program passes as bytes."""
_CONVERSION: Final = r"(?:key|value)\.(?P<kind>serializer|deserializer)(?:\.builder)?"
_CONVERTING_CLIENTS: Final = {
    "serializer": "SerializingProducer has this property; asyncio's is AsyncSerializingProducer",
    "deserializer": (
        "DeserializingConsumer has this property, and so has DeserializingShareConsumer; "
        "asyncio's is AsyncDeserializingConsumer"
    ),
}
"""Advice for whoever passes the property of a converting client to a plain client."""
_NAMES_ELSEWHERE: Final = {
    "buffer.memory": "queue.buffering.max.kbytes, in KiB",
    "max.request.size": "message.max.bytes",
    "sasl.jaas.config": "sasl.username and sasl.password, or oauth_cb for tokens",
    "sasl.login.callback.handler.class": "oauth_cb, or sasl.oauthbearer.method=oidc",
    "schema.registry.url": "SchemaRegistryClient({'url': ...})",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.truststore.location": "ssl.ca.location, a file of PEM certificates",
    "ssl.truststore.password": "ssl.ca.location, a file of PEM certificates without a password",
    "ssl.truststore.type": "ssl.ca.location, a file of PEM certificates",
}
"""What to use in place of properties of Java's clients, by their names."""
_TRUE: Final = ("true", "t", "1")
_FALSE: Final = ("false", "f", "0")
_BYTES: Final = (bytes, bytearray, memoryview)
_FILE_SUFFIXES: Final = (".location", ".file", ".keytab")
"""The properties that name files. A path may have bytes that aren't UTF-8."""

# The INERT or deprecated properties that this process has already warned about
_warned: Final[set[str]] = set()


class Config(Mapping[str, object]):
    """A validated, immutable configuration.

    You read a value by its name or alias, ``config["linger.ms"]``, or as an attribute with
    underscores, ``config.linger_ms``. A property that the user didn't set has its default.
    Iteration returns all names except aliases.
    """

    __slots__ = ("_given", "_role", "_values")

    _role: Role
    _values: dict[str, object]
    _given: frozenset[str]

    def __init__(self, role: Role, values: Mapping[str, object], given: frozenset[str]) -> None:
        """Store validated values. Call :func:`parse` to get a Config.

        :param role: The kind of client: ``producer`` or ``consumer``.
        :param values: A value for each property that is not an alias.
        :param given: The names of the properties that the user set.
        """
        object.__setattr__(self, "_role", role)
        object.__setattr__(self, "_values", dict(values))
        object.__setattr__(self, "_given", given)

    @property
    def role(self) -> Role:
        """The kind of client: ``producer`` or ``consumer``."""
        return self._role

    def is_set(self, name: str) -> bool:
        """Return True if the user set this property, under its name or an alias.

        :raises KeyError: There is no such property.
        """
        return _canonical(name) in self._given

    def integer(self, name: str) -> int:
        """Return the value of an integer property."""
        value = self[name]
        if type(value) is not int:
            raise TypeError(f"{name} is not an integer property")
        return value

    def number(self, name: str) -> float:
        """Return the value of a float or integer property as a float."""
        value = self[name]
        if type(value) is not float and type(value) is not int:
            raise TypeError(f"{name} is not a number")
        return float(value)

    def flag(self, name: str) -> bool:
        """Return the value of a boolean property."""
        value = self[name]
        if not isinstance(value, bool):
            raise TypeError(f"{name} is not a boolean property")
        return value

    def text(self, name: str) -> str:
        """Return the value of a string or enum property, or an empty string if it isn't set."""
        value = self[name]
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} is not a string property")
        return value or ""

    def content(self, name: str) -> bytes:
        """Return the value of a string property that also accepts bytes; empty if it isn't set."""
        value = self[name]
        return value if isinstance(value, bytes) else self.text(name).encode()

    def of_topic(self, topic: str, name: str) -> object:
        """Return the value of a property for this topic: its own one, or else the client's."""
        return self._of_topics().get(topic, {}).get(_canonical(name), self[name])

    @property
    def own_topics(self) -> list[str]:
        """The topics with properties of their own."""
        return list(self._of_topics())

    def _of_topics(self) -> Mapping[str, Mapping[str, object]]:
        found: Any = self._values["topics"]
        return {} if found is None else found

    def function(self, name: str) -> Callable[..., Any] | None:
        """Return a callback, or None."""
        value = self[name]
        if value is not None and not callable(value):
            raise TypeError(f"{name} is not a callback")
        return value

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        """The bootstrap servers as (host, port)."""
        return parse_bootstrap(self.text("bootstrap.servers"), self.text("security.protocol"))

    def log_sink(self, contexts: frozenset[str]) -> Sink:
        """Return the destination of this client's log: ``log_cb``, ``logger`` or Python's logging.

        :param contexts: The contexts in ``debug``.
        """
        thread_names = self.flag("log.thread.name")
        log_cb, logger = self.function("log_cb"), self["logger"]
        if log_cb is not None:
            return callback_sink(log_cb, thread_names=thread_names)
        if logger is not None:
            return given_sink(logger, thread_names=thread_names)
        return default_sink(self.text("client.id"), contexts, thread_names=thread_names)

    def _remark(self, level: int, text: str) -> None:
        """Log a remark about the configuration directly, because no client exists yet."""
        severity = LEVELS.index(level)
        if self.integer("log_level") < severity:
            return
        log_cb, logger = self.function("log_cb"), self._values["logger"]
        if log_cb is not None:
            log_cb("", severity, "CONFWARN", text)
        else:
            target: Any = (
                logging.getLogger(root_of(self.text("client.id"))) if logger is None else logger
            )
            target.log(level, "%s", text)

    def __getitem__(self, name: str) -> object:
        return self._values[_canonical(name)]

    def __getattr__(self, name: str) -> Any:
        dotted = _ATTRIBUTES.get(name)
        if dotted is None:
            raise AttributeError(f"no configuration property is called {name!r}")
        return self[dotted]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a configuration can't be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a configuration can't be changed")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        shown = {name: self.shown(name) for name in sorted(self._given)}
        return f"Config({self._role}, {shown})"

    def shown(self, name: str) -> object:
        """Return the value of a property without secrets, for logs and error texts."""
        return PROPERTIES[name].shown(self[name])

    def __reduce__(self) -> tuple[object, ...]:
        return (Config, (self._role, self._values, self._given))


def parse(conf: Mapping[str, Any], role: Role) -> Config:
    """Check a user's configuration and fill in the defaults.

    A value has the type of its property or is a string, as in confluent_kafka: ``"5"`` for 5,
    ``"true"`` for True, ``"all"`` for acks. Other numbers, paths and UUIDs are converted.

    :param conf: The user's mapping. The function doesn't change it.
    :param role: ``producer`` or ``consumer``. A property of the other role is checked and ignored,
        and the client logs a warning.
    :raises KafkaException: ``_INVALID_ARG`` for an unknown property or an invalid value;
        ``_NOT_IMPLEMENTED`` for a property that this version doesn't implement and can't safely
        ignore.
    """
    check_is_mapping(conf)
    values = {
        name: p.default for name, p in PROPERTIES.items() if not p.alias_of and p.kind != "internal"
    }
    given: dict[str, str] = {}  # The user's names, by the names of the properties
    remarks: list[Remark] = []
    if conf.get("default.topic.config") is not None:
        _check_state(PROPERTIES["default.topic.config"], None, remarks)
    for key, raw in _merged(conf).items():
        declared = _stored_as(_find(str(key), role), raw, conf)
        value = _converted(declared, str(key), raw, role, remarks)
        if not _belongs(declared, role):
            owner = "consumer" if declared.scope == CONSUMER else "producer"
            name = declared.alias_of or declared.name
            text = (
                f"Configuration property {name} is a {owner} property and will be ignored by "
                f"this {role} instance"
            )
            remarks.append((logging.WARNING, text))
            continue
        _check_state(declared, value, remarks)
        name = declared.alias_of or declared.name
        values[name] = value
        given[name] = str(key)
    try:
        _reconcile(values, given.keys(), role, remarks)
    except KafkaException as error:
        _fail_as_written(error, given)
    config = Config(role, values, frozenset(given))
    if not config.bootstrap and not values["test.mock.num.brokers"]:
        text = (
            "No `bootstrap.servers` configured: client will not be able to connect to Kafka cluster"
        )
        remarks.append((logging.WARNING, text))
    for level, text in remarks:
        config._remark(level, text)
    return config


def check_is_mapping(conf: object) -> None:
    """Raise TypeError if a client's configuration is no mapping, such as a list of servers."""
    if not isinstance(conf, Mapping):
        raise TypeError(
            f"expected configuration dict, not {type(conf).__name__}: "
            'for instance {"bootstrap.servers": "localhost:9092"}'
        )


def merged_conf(conf: Mapping[str, Any] | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the arguments of a client's constructor: an optional mapping, and keywords.

    :raises TypeError: ``conf`` is neither a mapping nor None.
    """
    if conf is None:
        return dict(kwargs)
    check_is_mapping(conf)
    return {**conf, **kwargs}


def check_property(name: str, value: object, role: Role) -> None:
    """Check one property as `parse` does, without what depends on other properties.

    :param name: The property's name, or an alias.
    :raises KafkaException: There is no such property, or the value isn't one of its values.
    """
    _converted(_find(name, role), name, value, role, [])


def parse_bootstrap(servers: str, protocol: str = "plaintext") -> list[tuple[str, int]]:
    """Parse a list of bootstrap servers into (host, port) pairs.

    An example of a list is ``h1:9092,[::1]:9093,PLAINTEXT://h2``.

    :param servers: Comma-separated servers. The function ignores blanks and empty entries. The
        default port is 9092.
    :param protocol: ``security.protocol``. An entry may repeat it.
    :raises KafkaException: ``_INVALID_ARG`` if an entry is not a valid server or has another
        protocol.
    """
    return [_parse_server(entry.strip(), protocol) for entry in servers.split(",") if entry.strip()]


def read_properties(text: str) -> dict[str, str]:
    """Read lines of ``name=value``, the file format of Java's tools and of librdkafka's examples.

    Empty lines and lines that begin with ``#`` or ``!`` are comments. ``:`` or a blank can replace
    ``=``.

    :raises ValueError: A line has another form. The error contains only the line's number, because
        the text may be a secret.
    """
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        match = re.fullmatch(r"([^=:\s]+)(?:\s*[=:]\s*|\s+)(.*)", stripped)
        if match is None:
            raise ValueError(f"line {number}: write name=value")
        found[match[1]] = match[2]
    return found


def _fail(text: str, hint: str | None = None, code: int = KafkaError._INVALID_ARG) -> NoReturn:
    raise KafkaException(KafkaError(code, text), hint=hint)


def _fail_as_written(error: KafkaException, given: Mapping[str, str]) -> NoReturn:
    """Raise an error about several properties again, with the names that the user wrote.

    :param given: The user's names of properties, by the names that aliases stand for.
    """

    def written(match: re.Match[str]) -> str:
        declared = PROPERTIES.get(match[1])
        name = match[1] if declared is None else given.get(_canonical(match[1]), match[1])
        return f"`{name}`"

    reason = error.args[0]
    _fail(re.sub(r"`([^`]+)`", written, reason.str()), error.hint, reason.code())


def _got(declared: Property, raw: object) -> str | None:
    """Return a hint that shows a refused value; None for a property with secrets."""
    if declared.sensitive:
        return None
    if isinstance(raw, str):
        return f'got "{clean(without_secrets(raw))}"'
    if isinstance(raw, (int, float)):
        return f"got {raw!r}"
    # The repr of another object may show secrets
    return f"got an object of the type {type(raw).__name__}"


def _canonical(name: str) -> str:
    declared = PROPERTIES[name]
    return declared.alias_of or name


def _belongs(declared: Property, role: Role) -> bool:
    return declared.scope in (BOTH, PRODUCER if role == "producer" else CONSUMER)


def _merged(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the entries of default.topic.config over the others, as confluent_kafka does."""
    merged = dict(conf)
    topic_conf = merged.pop("default.topic.config", None)
    if topic_conf is None:
        return merged
    if not isinstance(topic_conf, Mapping):
        _fail('Configuration property "default.topic.config" requires a dict')
    return merged | dict(topic_conf)


def declared_property(name: str) -> Property | None:
    """Return the property of this name. A topic's property may begin with ``topic.``."""
    declared = PROPERTIES.get(name)
    of_topic = name.removeprefix("topic.")
    return PROPERTIES[of_topic] if declared is None and of_topic in TOPIC_PROPERTIES else declared


def _find(name: str, role: Role) -> Property:
    declared = declared_property(name)
    # confluent_kafka's own keys are not librdkafka properties. The wrong kind of client rejects
    # them
    if declared is not None and not (
        declared.python_only and declared.kind == "callable" and not _belongs(declared, role)
    ):
        return declared
    close = _closest(name, PROPERTIES, cutoff=0.75)
    hint = f'did you mean "{close}"?' if close else None
    if other := _NAMES_ELSEWHERE.get(name):
        hint = f"use {other}"
    elif match := re.fullmatch(_CONVERSION, name.replace("_", ".")):
        hint = _CONVERTING_CLIENTS[match["kind"]]
    _fail(f'No such configuration property: "{name}"', hint)


def _converted(
    declared: Property, key: str, raw: object, role: Role, remarks: list[Remark]
) -> object:
    if declared.name == "interceptors":
        return _convert_interceptors(raw, role)
    if declared.name == "topics":
        return _convert_topics(raw, role, remarks)
    return _convert(declared, key, raw)


def _convert_topics(
    raw: object, role: Role, remarks: list[Remark]
) -> dict[str, dict[str, object]] | None:
    """Return the properties of single topics, by topic and name."""
    if raw is None:
        return None
    shape = 'Configuration property "topics" requires a dict of a dict for each topic'
    if not isinstance(raw, Mapping):
        _fail(shape, 'for instance {"orders": {"acks": 1}}')
    converted: dict[str, dict[str, object]] = {}
    for topic, conf in raw.items():
        if not isinstance(topic, str) or not topic or not isinstance(conf, Mapping):
            _fail(shape, 'for instance {"orders": {"acks": 1}}')
        converted[topic] = {}
        for key, value in conf.items():
            try:
                declared = _topic_property(str(key), role, remarks)
                if declared is not None:
                    name = declared.alias_of or declared.name
                    converted[topic][name] = _convert(declared, str(key), value)
            except KafkaException as error:
                _fail(f'Topic "{topic}": {error.args[0].str()}', error.hint)
    return converted


def _topic_property(name: str, role: Role, remarks: list[Remark]) -> Property | None:
    """Return a property that a single topic may have; None: the other kind of client has it."""
    declared = _find(name, role)
    canonical = declared.alias_of or declared.name
    if canonical in PER_TOPIC[role]:
        return declared
    if any(canonical in names for names in PER_TOPIC.values()):
        other = "consumer" if role == "producer" else "producer"
        text = f"Configuration property {canonical} is a {other} property and will be ignored by "
        remarks.append((logging.WARNING, f"{text}this {role} instance"))
        return None
    hint = (
        "partitioner_cb gets the name of the topic"
        if canonical == "partitioner_cb"
        else f"a {role}'s topic may have {', '.join(PER_TOPIC[role])}"
    )
    _fail(f'Configuration property "{name}" can\'t be set for a single topic', hint)


def _stored_as(declared: Property, raw: object, conf: Mapping[str, Any]) -> Property:
    """Return the property that has the value: another one for bytes of librdkafka's ssl_ca."""
    name = _IN_MEMORY.get(declared.name)
    if name is None or not isinstance(raw, _BYTES):
        return declared
    if conf.get(name):
        _fail(f"`{declared.name}` and `{name}` are mutually exclusive")
    return PROPERTIES[name]


def _check_state(declared: Property, value: object, remarks: list[Remark]) -> None:
    """Refuse a property that this version can't safely ignore.

    Warn, once per process, about a property that is deprecated or has no effect.
    """
    name = declared.name
    if declared.state is State.REFUSED and value != declared.default:
        shown = (
            ""
            if declared.sensitive or declared.kind == "callable"
            else f' value "{declared.shown(value)}"'
        )
        _fail(
            f'Configuration property "{name}"{shown} is not supported by this version',
            f"{declared.note}; remove it to go on without it" if declared.note else None,
            KafkaError._NOT_IMPLEMENTED,
        )
    idle = (
        declared.state is State.INERT
        and value != declared.default
        and value not in declared.harmless
    )
    if name in _warned or not (declared.deprecated or idle):
        return
    _warned.add(name)
    reason = f" ({declared.note})" if idle and declared.note else ""
    if declared.deprecated:
        text = f"Configuration property {name} is deprecated: {declared.doc}{reason}"
    else:
        text = (
            f"Configuration property {name} is accepted but has no effect in this version{reason}"
        )
    remarks.append((logging.WARNING, text))


def _convert(declared: Property, key: str, raw: object) -> object:
    """Convert a user's value to the property's type.

    :param key: The user's name of the property, for errors: it may be an alias.
    """
    kind = declared.kind
    if kind == "internal":
        _fail(f'Property "{key}" must be set through dedicated .._set_..() function', declared.doc)
    if kind == "callable":
        return _convert_callable(declared.name, raw)
    if kind == "object":
        return _convert_logger(raw)
    if declared.name == _STRATEGY and raw is not None and not isinstance(raw, str):
        return _convert_strategies(raw)
    if raw is None or raw == "":
        if kind in _KIND_NAMES:
            _fail(
                f'{_KIND_NAMES[kind]} configuration property "{key}" cannot be set to empty value'
            )
        if kind == "enum":
            _fail(f'Configuration property "{key}" cannot be set to empty value')
        return declared.default if raw is None else ""
    if declared.takes_bytes and isinstance(raw, _BYTES):
        return bytes(raw) or ""
    raw = _plain(raw)
    if not isinstance(raw, (str, int, float)):
        hint = (
            "pass a comma-separated string"
            if isinstance(raw, (list, tuple, set)) and kind == "string"
            else _got(declared, raw)
        )
        _fail(f'Invalid value for configuration property "{key}"', hint)
    if kind == "boolean":
        return _convert_boolean(declared, key, raw)
    if kind in ("integer", "float"):
        return _convert_number(declared, key, raw)
    return _convert_text(declared, key, str(raw))


def _plain(raw: object) -> object:
    """Return a number as int or float, a path or a UUID as a str, and other values as they are."""
    if isinstance(raw, (str, int, float)):
        return raw
    if isinstance(raw, os.PathLike):
        return os.fsdecode(raw)
    # not at the top: few programs pass such values
    import numbers
    import uuid

    if isinstance(raw, numbers.Integral):
        return int(raw)
    if isinstance(raw, numbers.Number):
        return float(raw) if isinstance(raw, SupportsFloat) else str(raw)  # such as Decimal
    return str(raw) if isinstance(raw, uuid.UUID) else raw


def _convert_callable(name: str, raw: object) -> object:
    if raw is None or callable(raw):
        return raw
    if name in ("on_delivery", "on_commit"):
        _fail(f"{name} requires a callable object")
    kind = ValueError if name == "throttle_cb" else TypeError  # As in confluent_kafka
    raise kind(f"expected {name} property as a callable function, not {type(raw).__name__}")


def _convert_logger(raw: object) -> object:
    if raw is not None and not callable(getattr(raw, "log", None)):
        _fail("logger requires a logging.Logger", 'for instance logging.getLogger("my-client")')
    return raw


def _convert_interceptors(raw: object, role: Role) -> object:
    """Return the interceptors as a tuple, or None for an empty list."""
    from .interceptors import ConsumerInterceptor, ProducerInterceptor  # few clients have them

    kind = ProducerInterceptor if role == "producer" else ConsumerInterceptor
    if raw is not None and not isinstance(raw, (list, tuple)):
        _fail(
            'Configuration property "interceptors" requires a list', f"of {kind.__name__} objects"
        )
    for each in raw or ():
        if not isinstance(each, kind):
            shown = each.__name__ if isinstance(each, type) else type(each).__name__
            _fail(f'Configuration property "interceptors": {shown} is no {kind.__name__} object')
    return tuple(raw) if raw else None


def _convert_strategies(raw: object) -> tuple[object, ...]:
    """Return the names and assignors as a tuple. The value is a list, or one assignor."""
    given = tuple(raw) if isinstance(raw, (list, tuple)) else (raw,)
    for each in given:
        named = isinstance(getattr(each, "name", None), str) and callable(
            getattr(each, "assign", None)
        )
        if not isinstance(each, str) and (isinstance(each, type) or not named):
            hint = "names, Assignor objects, or a list of them"
            _fail(f'Invalid value for configuration property "{_STRATEGY}"', hint)
    return given


def _convert_boolean(declared: Property, key: str, raw: str | int | float) -> bool:
    text = str(raw).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    _fail(f'Expected bool value for "{key}": true or false', _got(declared, raw))


def _convert_number(declared: Property, key: str, raw: str | int | float) -> int | float:
    lowered = raw.lower() if isinstance(raw, str) else raw
    for synonym, stands_for in declared.synonyms:
        if lowered == synonym and isinstance(stands_for, int):
            return stands_for
    value = _number_of(raw, declared.kind == "float")
    if value is None:
        words = [name for name, meaning in declared.synonyms if isinstance(meaning, int)]
        kind = "a whole number" if declared.kind == "integer" else "a number"
        allowed = " or ".join([f"{kind} from {declared.minimum} to {declared.maximum}", *words])
        _fail(
            f'Invalid value for configuration property "{key}"',
            f"{_got(declared, raw)}; write {allowed}, without a unit",
        )
    if not declared.minimum <= value <= declared.maximum:
        shown = f"{value:g}" if declared.kind == "float" else str(value)
        allowed = f"{declared.minimum}..{declared.maximum}"
        _fail(f'Configuration property "{key}" value {shown} is outside allowed range {allowed}')
    return value


def _number_of(raw: str | int | float, fractions: bool) -> int | float | None:
    """Return the number, or None if the value is not a number.

    An integer may be decimal, hexadecimal with 0x, or a float without a fraction.
    """
    if isinstance(raw, bool):
        return None
    try:
        if fractions:
            value = float(raw)
            return value if math.isfinite(value) else None
        if isinstance(raw, float):
            return int(raw) if raw.is_integer() else None
        if isinstance(raw, int):
            return raw
        text = raw.strip()
        return int(text, 16) if text.lower().startswith(("0x", "-0x")) else int(text)
    except (ValueError, OverflowError):
        return None


def _convert_text(declared: Property, key: str, text: str) -> str:
    name = declared.alias_of or declared.name
    if not name.endswith(_FILE_SUFFIXES) and not is_utf8(text):
        _fail(f'Configuration property "{key}" is not encodable as UTF-8')
    if declared.kind == "enum":
        return _convert_enum(declared, key, text)
    if declared.kind == "flags" and declared.choices:
        for flag in text.split(","):
            if flag.strip().lower() not in declared.choices:
                _fail(
                    f'Invalid value "{flag.strip()}" for configuration property "{key}"',
                    _suggest(flag, declared.choices),
                )
    if declared.kind == "patterns":
        for pattern in text.split(","):
            _check_pattern(pattern)
    if declared.maximum and len(text.encode()) > declared.maximum:
        _fail(f'Configuration property "{key}" is longer than {declared.maximum} bytes')
    if name == "sasl.mechanisms" and "," in text:
        _fail(f'Invalid value for configuration property "{key}": {text}', "exactly one mechanism")
    if name == "broker.version.fallback":
        _check_broker_version(key, text)
    if name.startswith("client.software."):
        return _convert_software(key, text)
    if name == "partitioner" and text not in PARTITIONERS:
        _fail(
            f'Invalid value for configuration property "{key}": {text}',
            _suggest(text, tuple(PARTITIONERS)),
        )
    return text


def _is_host_name(text: str) -> bool:
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return True


def _convert_software(key: str, text: str) -> str:
    """Return a name or version of a client library in the form of KIP-511, as librdkafka does."""
    converted = re.sub(r"[^a-zA-Z0-9.-]", "-", text).strip(".-")
    if not converted:
        _fail(
            f'Invalid value "{text}" for configuration property "{key}"',
            "it needs a letter or a digit: a-z, A-Z, 0-9",
        )
    return converted


def _check_broker_version(key: str, text: str) -> None:
    try:
        releases.fixed_ranges(text)
    except ValueError:
        _fail(
            f'Invalid value for configuration property "{key}": {text}',
            "brokers from 0.8.0 on are supported",
        )


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        _fail(f'Failed to parse pattern "{pattern}": {error}')


def _convert_enum(declared: Property, key: str, text: str) -> str:
    value = text.lower()
    if declared.duration_prefix and value.startswith(declared.duration_prefix):
        duration = text[len(declared.duration_prefix) :].upper()
        if duration_ms(duration) is None:
            _fail(
                f'Invalid value "{text}" for configuration property "{key}"',
                f"write {declared.duration_prefix} and an ISO-8601 duration, for instance "
                "PT1H30M or P7D",
            )
        return declared.duration_prefix + duration
    if value not in (choice.lower() for choice in declared.choices):
        _fail(
            f'Invalid value "{text}" for configuration property "{key}"',
            _suggest(text, declared.choices),
        )
    value = next(choice for choice in declared.choices if choice.lower() == value)
    return str(dict(declared.synonyms).get(value, value))


_DURATION: Final = (
    r"P(?:(?P<days>\d{1,9})D)?(?:T(?=\d)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,9})(?:\.(?P<fraction>\d{1,9}))?S)?)?"
)


def duration_ms(text: str) -> int | None:
    """Return the milliseconds of an ISO-8601 duration: days, hours, minutes and seconds.

    The accepted texts are those of Java's Duration, but not negative ones. The function returns
    None for any other text.
    """
    match = re.fullmatch(_DURATION, text, re.ASCII)
    if match is None or match.lastgroup is None:
        return None
    days, hours, minutes, seconds = (
        int(match[name] or 0) for name in ("days", "hours", "minutes", "seconds")
    )
    fraction_ms = int((match["fraction"] or "").ljust(3, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction_ms


def _closest(text: str, choices: Iterable[str], *, cutoff: float) -> str | None:
    import difflib  # only for errors

    return next(iter(difflib.get_close_matches(text.lower(), choices, n=1, cutoff=cutoff)), None)


def _suggest(text: str, choices: tuple[str, ...]) -> str:
    close = _closest(text, choices, cutoff=0.6)
    return f'did you mean "{close}"?' if close else f"one of {', '.join(choices)}"


def _reconcile(values: dict[str, Any], given: Set[str], role: Role, remarks: list[Remark]) -> None:
    """Check and adjust properties that depend on each other, as librdkafka does."""
    prefix = f"Failed to create {role}: "
    if values["logger"] is not None and values["log_cb"] is not None:
        _fail(prefix + "`logger` and `log_cb` are mutually exclusive")
    _reconcile_security(values, given, remarks)
    if values["reconnect.backoff.max.ms"] < values["reconnect.backoff.ms"]:
        _fail(prefix + "`reconnect.backoff.max.ms` must be >= `reconnect.backoff.ms`")
    first, longest = values["retry.backoff.ms"], values["retry.backoff.max.ms"]
    if first > longest:
        values["retry.backoff.ms"] = longest
        text = (
            f"Configuration `retry.backoff.ms` with value {first} is greater than configuration "
            f"`retry.backoff.max.ms` with value {longest}. "
            "A static backoff with value `retry.backoff.max.ms` will be applied."
        )
        remarks.append((logging.WARNING, text))
    if role == "producer":
        _reconcile_producer(values, given, prefix, remarks)
    else:
        _reconcile_consumer(values, given, prefix)


def _reconcile_security(values: dict[str, Any], given: Set[str], remarks: list[Remark]) -> None:
    """Warn about a sasl.* or ssl.* property that security.protocol makes ineffective."""
    protocol = values["security.protocol"]
    for prefix, is_used in (
        ("sasl.", protocol.startswith("sasl_")),
        ("ssl.", protocol.endswith("ssl")),
    ):
        idle = sorted(name for name in given if name.startswith(prefix))
        if idle and not is_used:
            text = (
                f"Configuration property {idle[0]} has no effect with security.protocol={protocol}"
            )
            remarks.append((logging.WARNING, text))


def _conflict(values: dict[str, Any], given: Set[str]) -> tuple[str, str | None] | None:
    """Return the first setting of the user that idempotence doesn't allow, and a hint."""
    in_flight = "max.in.flight.requests.per.connection"
    if in_flight in given and values[in_flight] > IDEMPOTENT_IN_FLIGHT_MAX:
        text = f"`max.in.flight` must be set <= {IDEMPOTENT_IN_FLIGHT_MAX}"
        return text, "brokers remember the numbers of five batches a partition"
    if values["message.send.max.retries"] < 1:
        return "`retries` must be set >= 1", None
    if values["request.required.acks"] != ALL_REPLICAS:
        return "`acks` must be set to `all`", None
    for topic, own in (values["topics"] or {}).items():
        if own.get("request.required.acks", ALL_REPLICAS) != ALL_REPLICAS:
            return f'`acks` of topic "{topic}" must be set to `all`', None
    if values["queuing.strategy"] != "fifo":
        return "`queuing.strategy` must be set to `fifo`", None
    return None


def _reconcile_idempotence(
    values: dict[str, Any], given: Set[str], prefix: str, remarks: list[Remark]
) -> None:
    """Refuse settings that conflict with idempotence.

    If idempotence is only on by default, turn it off instead and log this.
    """
    conflict = _conflict(values, given)
    if conflict is None:
        in_flight_max = min(
            values["max.in.flight.requests.per.connection"], IDEMPOTENT_IN_FLIGHT_MAX
        )
        values["max.in.flight.requests.per.connection"] = in_flight_max
        return
    text, hint = conflict
    if (
        "enable.idempotence" in given
        or values["enable.gapless.guarantee"]
        or values["transactional.id"]
    ):
        _fail(f"{prefix}{text} when `enable.idempotence` is true", hint)
    values["enable.idempotence"] = False
    remarks.append((logging.INFO, f"enable.idempotence is off: for it, {text}"))


def _reconcile_transactions(values: dict[str, Any], given: Set[str], prefix: str) -> None:
    """Check a transactional producer: its messages have to time out before the transaction does."""
    if not values["enable.idempotence"]:
        _fail(prefix + "`transactional.id` requires `enable.idempotence=true`")
    if len(values["transactional.id"].encode()) > TRANSACTIONAL_ID_BYTES_MAX:
        _fail(f"{prefix}`transactional.id` is longer than {TRANSACTIONAL_ID_BYTES_MAX} bytes")
    if values["transaction.two.phase.commit.enable"]:
        if "transaction.timeout.ms" in given:
            _fail(
                prefix + "`transaction.timeout.ms` has no effect with "
                "`transaction.two.phase.commit.enable`"
            )
        return
    timeout_max_ms = values["transaction.timeout.ms"]
    if not 0 < values["message.timeout.ms"] <= timeout_max_ms:
        if "message.timeout.ms" in given:
            _fail(prefix + "`message.timeout.ms` must be set <= `transaction.timeout.ms`")
        values["message.timeout.ms"] = timeout_max_ms
    for topic, own in (values["topics"] or {}).items():
        if not 0 < own.get("message.timeout.ms", timeout_max_ms) <= timeout_max_ms:
            text = f'`message.timeout.ms` of topic "{topic}" must be set <= '
            _fail(f"{prefix}{text}`transaction.timeout.ms`")


def _reconcile_producer(
    values: dict[str, Any], given: Set[str], prefix: str, remarks: list[Remark]
) -> None:
    if values["transaction.two.phase.commit.enable"] and not values["transactional.id"]:
        _fail(prefix + "`transaction.two.phase.commit.enable` requires `transactional.id`")
    if values["transactional.id"]:
        _reconcile_transactions(values, given, prefix)
    if values["enable.gapless.guarantee"] and not values["enable.idempotence"]:
        _fail(prefix + "`enable.idempotence` must be true when `enable.gapless.guarantee` is true")
    if values["partitioner.rack.aware"] and not (values["client.rack"] or "").strip():
        _fail(prefix + "`partitioner.rack.aware` requires `client.rack`")
    if values["enable.idempotence"]:
        _reconcile_idempotence(values, given, prefix, remarks)
    timeout_ms = values["message.timeout.ms"]
    if 0 < timeout_ms <= values["queue.buffering.max.ms"]:
        if "queue.buffering.max.ms" in given:
            _fail(prefix + "`message.timeout.ms` must be greater than `linger.ms`")
        values["queue.buffering.max.ms"] = timeout_ms - 0.1
    for topic, own in (values["topics"] or {}).items():
        if 0 < own.get("message.timeout.ms", 0) <= values["queue.buffering.max.ms"]:
            text = f'`message.timeout.ms` of topic "{topic}" must be greater than `linger.ms`'
            _fail(prefix + text)
        if "partitioner" in own and values["partitioner_cb"] is not None:
            text = f'`partitioner` of topic "{topic}" has no effect with `partitioner_cb`'
            _fail(prefix + text, "partitioner_cb gets the name of the topic")


def _reconcile_consumer(values: dict[str, Any], given: Set[str], prefix: str) -> None:
    fetch_max, message_max = values["fetch.max.bytes"], values["message.max.bytes"]
    if "fetch.max.bytes" not in given:
        fetch_max = max(min(fetch_max, values["queued.max.messages.kbytes"] * 1024), message_max)
        values["fetch.max.bytes"] = fetch_max
    elif fetch_max < message_max:
        _fail(prefix + "`fetch.max.bytes` must be >= `message.max.bytes`")
    if "receive.message.max.bytes" not in given:
        values["receive.message.max.bytes"] = max(
            values["receive.message.max.bytes"], fetch_max + 512
        )
    elif values["receive.message.max.bytes"] < fetch_max + 512:
        _fail(prefix + "`receive.message.max.bytes` must be >= `fetch.max.bytes` + 512")
    if values["group.protocol"] == "consumer":
        for name, instead in _CLASSIC_ONLY.items():
            if name in given:
                _fail(prefix + f"`{name}` is not supported for `group.protocol=consumer`{instead}")
    elif values["max.poll.interval.ms"] < values["session.timeout.ms"]:
        _fail(prefix + "`max.poll.interval.ms`must be >= `session.timeout.ms`")
    _check_strategies(values[_STRATEGY], prefix)


def _check_strategies(value: str | tuple[Any, ...], prefix: str) -> None:
    """Refuse unknown assignors, and assignors that can't be in one group together."""
    protocols: dict[str, str] = {}
    for each in (value,) if isinstance(value, str) else value:
        if not isinstance(each, str):
            protocols[each.name] = getattr(each, "protocol", "EAGER")
            continue
        for name in (part.strip() for part in each.split(",")):
            if name and name not in _STRATEGIES:
                _fail(prefix + f"Unsupported {_STRATEGY}: {name}")
            if name:
                protocols[name] = _STRATEGIES[name]
    if len(set(protocols.values())) > 1:
        _fail(
            prefix + f"All {_STRATEGY} ({','.join(protocols)}) assignors must have the same "
            "protocol type, online migration between assignors with different protocol types "
            "is not supported"
        )


_SERVER: Final = r"""(?:(?P<protocol>[A-Za-z][A-Za-z0-9_+.-]*)://)?
        (?:\[(?P<bracketed>[^\]\[]*)\]|(?P<host>[^\s:/?\#@\[\],]+))
        (?::(?P<port>[^:]*))?"""


def _parse_server(entry: str, protocol: str) -> tuple[str, int]:
    """Parse one bootstrap server."""
    # The error text doesn't show the entry, because the entry may contain a password
    if "@" in entry:
        text = "Invalid bootstrap server: it has a user or a password before its host"
        _fail(
            text,
            "a server is host:port; sasl.username and sasl.password are properties of their own",
        )
    if _is_ipv6(entry):
        return entry, DEFAULT_PORT
    match = re.fullmatch(_SERVER, entry, re.VERBOSE)
    if match is None or not (entry.isascii() or _is_host_name(match["host"] or "")):
        _fail(
            f'Invalid bootstrap server "{entry}"', "a server is host:port, or [ipv6 address]:port"
        )
    named = (match["protocol"] or protocol).lower()
    if named not in PROPERTIES["security.protocol"].choices:
        _fail(
            f'Bootstrap server "{entry}": unsupported protocol "{match["protocol"]}"',
            f"write {protocol.upper()}://",
        )
    if named != protocol:
        text = (
            f'Bootstrap server "{entry}": its protocol isn\'t that of security.protocol, which '
            f"is {protocol}"
        )
        _fail(text, "leave it out, or set security.protocol")
    host = match["host"] or match["bracketed"]
    if match["host"] is None and not _is_ipv6(host):
        _fail(f'Bootstrap server "{entry}": "{host}" is not an IPv6 address')
    return host, _parse_port(entry, match["port"])


def _parse_port(entry: str, text: str | None) -> int:
    if text is None:
        return DEFAULT_PORT
    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:6]) < 65536 or len(text) > 5:
        _fail(
            f'Bootstrap server "{entry}": "{text}" is not a port',
            "a port is a number from 1 to 65535",
        )
    return int(text)


def _is_ipv6(text: str) -> bool:
    import ipaddress  # here, because few need it and it takes long to import

    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
