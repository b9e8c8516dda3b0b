"""The steps of ``kafka-native doctor`` for a schema registry, and for the payloads of a topic.

Each function raises `Problem`, which has the cause and a remedy.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from kafka_native import Consumer, KafkaError, KafkaException, Message, TopicPartition
from kafka_native.cleaning import clean
from kafka_native.cli.connection import REGISTRY_PREFIX
from kafka_native.cli.errors import line_of
from kafka_native.cli.remedies import Problem
from kafka_native.cli.texts import count
from kafka_native.cli.typed_messages import deserializer, place, text_of
from kafka_native.serialization import MessageField, SerializationContext, SerializationError

if TYPE_CHECKING:
    from kafka_native.schema_registry import SchemaRegistryClient
    from kafka_native.schema_registry.config import RegistryConfig
    from kafka_native.schema_registry.error import SchemaRegistryError

USUAL_PORT: Final = "8081 is the usual port of a schema registry"
PARTITIONS_MAX: Final = 16
"""How many partitions of a topic are read."""
MESSAGES_MAX: Final = 5
"""How many messages of each partition are read, the newest ones."""
TEXT_MAX: Final = 500
"""The longest text of the registry that a step shows."""

_PLAIN_HTTP_REASONS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
_HOST_MISMATCH, _IP_MISMATCH, _EXPIRED = 62, 64, 10


@dataclass(frozen=True, slots=True)
class RegistryServer:
    """One of the URLs of a registry."""

    url: str
    """The URL without credentials."""
    config: RegistryConfig
    """The configuration of a client for this server."""
    properties: Mapping[str, Any] = field(repr=False)


def servers_of(properties: Mapping[str, Any]) -> list[RegistryServer]:
    """The servers that the properties of the registry's client name."""
    whole = _config_of(properties)
    credentials = [each.credentials for each in whole.base_urls if each.credentials]
    found = []
    for each in whole.base_urls:
        own = {**properties, "url": each.url, "max.retries": 0}
        if credentials:  # the first ones are also for the URLs that have none
            own["basic.auth.user.info"] = ":".join(each.credentials or credentials[0])
        found.append(RegistryServer(each.url, _config_of(own), own))
    return found


def _config_of(properties: Mapping[str, Any]) -> RegistryConfig:
    from kafka_native.schema_registry.config import parse

    try:
        return parse(properties)
    except (ValueError, TypeError) as error:
        advice = f"the properties of the registry begin with {REGISTRY_PREFIX}"
        raise Problem(f"the registry's configuration: {error}", advice=advice) from error


@contextmanager
def opened(properties: Mapping[str, Any]) -> Iterator[SchemaRegistryClient]:
    """Open a client that sends each request once."""
    from kafka_native.schema_registry import SchemaRegistryClient

    try:
        client = SchemaRegistryClient({**properties, "max.retries": 0})
    except ImportError as error:
        raise Problem(str(error), "a package is missing") from error
    with client:
        yield client


# --- the connection ---


def check_connection(server: RegistryServer) -> str:
    """Look up, connect to and, for https, greet one registry. Returns what was found."""
    parts, config = urlsplit(server.url), server.config
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    proxy = _proxy_of(parts.scheme, host, config)
    if proxy:
        return f"through the proxy {proxy}"
    try:
        with socket.create_connection((host, port), config.timeout_s) as connection:
            text = f"connected to {connection.getpeername()[0]}"
            if parts.scheme == "https":
                with config.ssl_context.wrap_socket(connection, server_hostname=host) as encrypted:
                    text += f", {encrypted.version()}"
            return text
    except ssl.SSLError as error:
        raise _tls_problem(error, host, port, config.timeout_s) from error
    except OSError as error:
        raise _connection_problem(error, host, port, config.timeout_s) from error


def _proxy_of(scheme: str, host: str, config: RegistryConfig) -> str | None:
    """The host and port of the HTTP proxy; None if there is none."""
    proxy = config.proxy
    if proxy is None and not urllib.request.proxy_bypass(host):
        found = urllib.request.getproxies()
        proxy = found.get(scheme) or found.get("all")
    return None if proxy is None else urlsplit(proxy).netloc.rpartition("@")[2]


def _connection_problem(error: OSError, host: str, port: int, timeout_s: float) -> Problem:
    shown = f"{clean(host, 255)}:{port}"
    if isinstance(error, socket.gaierror):
        return Problem(
            f"{clean(host, 255)} can't be resolved: {error.strerror}",
            "a misspelt name, a name of another network, or no network",
            f"check {REGISTRY_PREFIX}url (-r)",
        )
    if isinstance(error, TimeoutError):
        return Problem(
            f"{shown} didn't answer within {timeout_s:g} s",
            "a firewall drops the packets, or the machine is down",
        )
    if isinstance(error, ConnectionRefusedError):
        return Problem(
            f"{shown} refuses the connection",
            "nothing listens on this port: is the registry up, is it the right port?",
            f"check {REGISTRY_PREFIX}url (-r): {USUAL_PORT}",
        )
    return Problem(f"{shown} can't be reached: {error.strerror or error}")


def _tls_problem(error: ssl.SSLError, host: str, port: int, timeout_s: float) -> Problem:
    shown = f"{clean(host, 255)}:{port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the certificate of {shown} isn't accepted: {clean(error.verify_message, TEXT_MAX)}"
        if error.verify_code in (_HOST_MISMATCH, _IP_MISMATCH):
            return Problem(text, "the certificate is for other names", "use one of its names")
        if error.verify_code == _EXPIRED:
            return Problem(text, "the certificate or this machine's clock is out of date")
        return Problem(
            text,
            "the registry's authority isn't one of those that this machine trusts",
            f"set {REGISTRY_PREFIX}ssl.ca.location to a file with the authority's certificate",
        )
    if error.reason in _PLAIN_HTTP_REASONS or kind_of(host, port, timeout_s) == "http":
        return Problem(
            f"{shown} doesn't speak TLS: {clean(str(error), TEXT_MAX)}",
            "the registry speaks plain HTTP, or another server listens there",
            "write http:// in place of https://",
        )
    return Problem(f"the TLS handshake with {shown} failed: {clean(str(error), TEXT_MAX)}")


def kind_of(host: str, port: int, timeout_s: float) -> Literal["http", "tls", "other"]:
    """The kind of server at an address."""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(f"GET / HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            if connection.recv(16).startswith(b"HTTP/"):
                return "http"
    except (OSError, UnicodeError):
        pass  # a TLS server may break the connection, so try TLS, too
    any_server = ssl.create_default_context()
    any_server.check_hostname = False
    any_server.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout_s) as connection,
            any_server.wrap_socket(connection, server_hostname=host),
        ):
            return "tls"
    except ssl.SSLError as error:
        return "tls" if "ALERT" in (error.reason or "") else "other"
    except (OSError, UnicodeError):
        return "other"


# --- the answer ---


def check_answer(server: RegistryServer) -> str:
    """Ask the registry for its types of schemas, or for its subjects. Returns what it answered."""
    from kafka_native.schema_registry.error import OAuthTokenError, SchemaRegistryError

    try:
        with opened(server.properties) as client:
            return _answer(client)
    except SchemaRegistryError as error:
        raise _answer_problem(error, server.url, server.config) from error
    except OAuthTokenError as error:
        raise Problem(
            f"there is no token for the registry: {error}",
            "the identity provider refuses the client, or doesn't answer",
            f"check {REGISTRY_PREFIX}bearer.auth.*",
        ) from error


def _answer(client: SchemaRegistryClient) -> str:
    from kafka_native.schema_registry.error import SchemaRegistryError

    try:
        types = client.get_schema_types()
    except SchemaRegistryError as error:
        if error.http_status_code != 404:
            raise
        client.get_subjects(limit=1)  # an old registry doesn't know the types
        return "answers"
    return f"answers; schemas of type {', '.join(clean(each) for each in types)}"


def _answer_problem(error: SchemaRegistryError, url: str, config: RegistryConfig) -> Problem:
    text = clean(error.error_message, TEXT_MAX)
    status = error.http_status_code
    if status == 401:
        return _login_problem(text, config)
    if status == 403:
        return Problem(
            f"the registry forbids the request: {text}",
            "the user has no permission to read schemas",
        )
    if status == 404:
        return Problem(
            f"there is no schema registry at {url}: {text}",
            "the URL lacks a path (Apicurio: /apis/ccompat/v7), or this is another web server",
            f"check {REGISTRY_PREFIX}url (-r): {USUAL_PORT}",
        )
    if status == -1:
        return _silence_problem(text, url, config)
    if 200 <= status < 300:
        return Problem(
            f"{url} isn't a schema registry: {text}",
            "another web server listens there, or a proxy or a log-in page answers",
            f"check {REGISTRY_PREFIX}url (-r): {USUAL_PORT}",
        )
    return Problem(f"the registry answers HTTP {status}: {text}", advice="see the registry's log")


def _login_problem(text: str, config: RegistryConfig) -> Problem:
    from kafka_native.schema_registry.authentication import NoAuthentication

    if isinstance(config.authentication, NoAuthentication):
        return Problem(
            f"the registry wants a log-in: {text}",
            "no credentials are set",
            f"set {REGISTRY_PREFIX}basic.auth.user.info=USER:PASSWORD, or "
            f"{REGISTRY_PREFIX}bearer.auth.credentials.source",
        )
    return Problem(
        f"the registry refuses the credentials: {text}",
        "a wrong password or key, a token of another cluster, or an unknown user",
        f"check {REGISTRY_PREFIX}basic.auth.user.info or {REGISTRY_PREFIX}bearer.auth.*",
    )


def _silence_problem(text: str, url: str, config: RegistryConfig) -> Problem:
    """The problem of a server that takes the connection and doesn't answer the request."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        if "alert" in text.lower() or "certificate required" in text.lower():
            return Problem(
                f"the registry ended the TLS connection: {text}",
                "it wants a certificate of the client, or doesn't accept yours",
                f"set {REGISTRY_PREFIX}ssl.certificate.location and "
                f"{REGISTRY_PREFIX}ssl.key.location",
            )
        return Problem(text)
    kind = kind_of(parts.hostname or "", parts.port or 80, config.timeout_s)
    if kind == "tls":
        return Problem(
            text, "the registry speaks HTTP with TLS", "write https:// in place of http://"
        )
    if kind != "http":
        return Problem(
            text,
            "this is no HTTP server: is it the port of a Kafka broker?",
            f"check {REGISTRY_PREFIX}url (-r): {USUAL_PORT}",
        )
    return Problem(text)


# --- payloads ---


@dataclass(slots=True)
class PayloadFacts:
    """What the newest values of a topic are."""

    schemas: dict[str, str] = field(default_factory=dict)
    """The type of each schema that values have, by id or GUID."""
    values: int = 0
    """The number of values that are no null."""
    unframed: list[str] = field(default_factory=list)
    """A line for each value without framing."""

    @property
    def text(self) -> str:
        """The facts as a line."""
        if not self.values:
            return "no values to check"
        if self.unframed:
            total = count(self.values, "value")
            return (
                f"{len(self.unframed):,} of {total} without schema framing, the first: "
                f"{self.unframed[0]}"
            )
        used = ", ".join(f"{each} ({kind})" for each, kind in self.schemas.items())
        return f"{count(self.values, 'value')} with schema {used}"


def check_payloads(
    config: Mapping[str, Any], client: SchemaRegistryClient, topic: str, timeout_s: float
) -> PayloadFacts:
    """Read the newest values of a topic, and decode them.

    :param config: The configuration of a consumer.
    """
    facts = PayloadFacts()
    for message in _newest(config, topic, timeout_s):
        data = message.value()
        if data is not None:
            facts.values += 1
            with _registry_problems(message):
                _check_value(client, message, data, facts)
    return facts


def _check_value(
    client: SchemaRegistryClient, message: Message, data: bytes, facts: PayloadFacts
) -> None:
    from kafka_native.schema_registry.rule_registry import RuleRegistry
    from kafka_native.schema_registry.schema_ids import SchemaId, dual_schema_id_deserializer

    context = SerializationContext(message.topic() or "", MessageField.VALUE, message.headers())
    schema_id = SchemaId("AVRO")
    try:
        dual_schema_id_deserializer(data, context, schema_id)
    except (SerializationError, ValueError):
        facts.unframed.append(f"{place(message)}: {appearance(data)}")
        return
    name = f"id {schema_id.id}" if schema_id.id is not None else str(schema_id.guid)
    if schema_id.id is not None:
        schema = client.get_schema(schema_id.id)
    else:
        schema = client.get_schema_by_guid(str(schema_id.guid))
    kind = facts.schemas[name] = (schema.schema_type or "AVRO").lower()
    if schema.rule_set is not None:  # rules may ask other servers, and decrypt
        facts.schemas[name] = f"{kind} with rules, not decoded"
        return
    try:
        deserializer(kind, client, RuleRegistry())(data, context)
    except ImportError as missing:
        facts.schemas[name] = f"{kind}, not decoded: {missing}"
    except (SerializationError, ValueError) as error:
        text = text_of(error, message.topic() or "")
        raise Problem(
            f"{place(message)}: {clean(text, TEXT_MAX)}",
            "the payload is damaged, or its schema isn't the one that its id names",
            f"kafka-native consume {message.topic()} -s value={kind} -E shows each such message",
        ) from error


@contextmanager
def _registry_problems(message: Message) -> Iterator[None]:
    """Turn the registry's refusal of a schema id into a `Problem`."""
    from kafka_native.schema_registry.error import SchemaRegistryError

    try:
        yield
    except SchemaRegistryError as error:
        text = f"{place(message)}: {clean(error.error_message, TEXT_MAX)}"
        if error.http_status_code != 404:
            raise Problem(text) from error
        raise Problem(
            f"{text}: the registry doesn't know the schema of this value",
            "the producer uses another registry, the schema is deleted, or the value has no schema "
            "framing and begins with a zero byte by chance",
            "compare the registry of the producer with this one; kafka-native schemas list",
        ) from error


def appearance(data: bytes) -> str:
    """What bytes without schema framing look like."""
    start = data.lstrip()[:1]
    if not data:
        return "it is empty"
    if data.startswith(b"Obj\x01"):
        return "it looks like an Avro container file"
    if data.startswith(b"\xc3\x01"):
        return "it looks like Avro's single-object encoding, which has no id of the registry"
    if data.startswith(b"\x1f\x8b"):
        return "it looks like gzip"
    if data[0] in (0, 1):
        return f"it begins like framing, but has only {len(data)} bytes"
    if start in (b"{", b"["):
        try:
            json.loads(data)
        except (ValueError, RecursionError):
            return "it begins like JSON, but isn't JSON"
        return "it looks like JSON"
    try:
        is_text = all(each.isprintable() or each.isspace() for each in data.decode())
    except UnicodeDecodeError:
        is_text = False
    return "it looks like text" if is_text else "perhaps Avro or Protobuf without the schema's id"


def _newest(config: Mapping[str, Any], topic: str, timeout_s: float) -> list[Message]:
    """The newest messages of a topic's first partitions."""
    own = {"enable.auto.commit": False, "enable.partition.eof": True}
    try:
        with Consumer({**config, **own}) as consumer:
            starts = _starts(consumer, topic, timeout_s)
            if not starts:
                return []
            consumer.assign(starts)
            return _read(consumer, len(starts), timeout_s)
    except KafkaException as error:
        raise Problem(f"topic {topic} can't be read: {line_of(error)}") from error


def _starts(consumer: Consumer, topic: str, timeout_s: float) -> list[TopicPartition]:
    found = consumer.list_topics(topic, timeout_s).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    starts = []
    for number in sorted(found.partitions)[:PARTITIONS_MAX]:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout_s)
        if high > low:
            starts.append(TopicPartition(topic, number, max(low, high - MESSAGES_MAX)))
    return starts


def _read(consumer: Consumer, partitions: int, timeout_s: float) -> list[Message]:
    """Read until the end of all partitions, or until the time is over."""
    messages: list[Message] = []
    deadline = time.monotonic() + timeout_s
    ends: set[int | None] = set()
    while len(ends) < partitions and len(messages) < PARTITIONS_MAX * MESSAGES_MAX:
        message = consumer.poll(max(0.0, deadline - time.monotonic()))
        if message is None:
            break
        error: KafkaError | None = message.error()
        if error is None:
            messages.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            ends.add(message.partition())
        else:
            raise KafkaException(error)
    return messages
