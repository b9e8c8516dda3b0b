"""The options of aiokafka and kafka-python as properties of kafka_native."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

CLIENT: Final = {
    "bootstrap_servers": "bootstrap.servers",
    "client_id": "client.id",
    "request_timeout_ms": "socket.timeout.ms",
    "metadata_max_age_ms": "topic.metadata.refresh.interval.ms",
    "connections_max_idle_ms": "connections.max.idle.ms",
    "retry_backoff_ms": "retry.backoff.ms",
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "sasl_kerberos_service_name": "sasl.kerberos.service.name",
}
PRODUCER: Final = CLIENT | {
    "acks": "acks",
    "compression_type": "compression.type",
    "linger_ms": "linger.ms",
    "max_request_size": "message.max.bytes",
    "enable_idempotence": "enable.idempotence",
    "transactional_id": "transactional.id",
    "transaction_timeout_ms": "transaction.timeout.ms",
}
CONSUMER: Final = CLIENT | {
    "group_id": "group.id",
    "group_instance_id": "group.instance.id",
    "client_rack": "client.rack",
    "fetch_max_wait_ms": "fetch.wait.max.ms",
    "fetch_min_bytes": "fetch.min.bytes",
    "fetch_max_bytes": "fetch.max.bytes",
    "max_partition_fetch_bytes": "max.partition.fetch.bytes",
    "auto_offset_reset": "auto.offset.reset",
    "enable_auto_commit": "enable.auto.commit",
    "auto_commit_interval_ms": "auto.commit.interval.ms",
    "check_crcs": "check.crcs",
    "isolation_level": "isolation.level",
    "max_poll_records": "max.poll.records",
    "max_poll_interval_ms": "max.poll.interval.ms",
    "session_timeout_ms": "session.timeout.ms",
    "heartbeat_interval_ms": "heartbeat.interval.ms",
}
AIOKAFKA_PRODUCER: Final = PRODUCER | {"max_batch_size": "batch.size"}
KAFKA_PYTHON: Final = {
    "reconnect_backoff_ms": "reconnect.backoff.ms",
    "reconnect_backoff_max_ms": "reconnect.backoff.max.ms",
    "receive_message_max_bytes": "receive.message.max.bytes",
    "receive_buffer_bytes": "socket.receive.buffer.bytes",
    "send_buffer_bytes": "socket.send.buffer.bytes",
    "client_dns_lookup": "client.dns.lookup",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "ssl_crlfile": "ssl.crl.location",
    "ssl_ciphers": "ssl.cipher.suites",
    "socks5_proxy": "proxy.url",
    "proxy_url": "proxy.url",
}
KAFKA_PRODUCER: Final = (
    PRODUCER
    | KAFKA_PYTHON
    | {
        "batch_size": "batch.size",
        "retries": "retries",
        "delivery_timeout_ms": "delivery.timeout.ms",
        "max_block_ms": "max.block.ms",
        "max_in_flight_requests_per_connection": "max.in.flight.requests.per.connection",
    }
)
KAFKA_CONSUMER: Final = (
    CONSUMER | KAFKA_PYTHON | {"allow_auto_create_topics": "allow.auto.create.topics"}
)

REFUSED: Final = {
    "ssl_context": "name the files in ssl.ca.location, ssl.certificate.location and "
    "ssl.key.location",
    "ssl_check_hostname": "set ssl.endpoint.identification.algorithm",
    "sasl_oauth_token_provider": "set oauth_cb, a function that returns the token and its expiry",
    "partitioner": "set partitioner_cb of kafka_native's producers",
    "partition_assignment_strategy": "set partition.assignment.strategy, which takes names",
    "rebalance_timeout_ms": "set max_poll_interval_ms",
    "default_offset_commit_callback": "set on_commit of kafka_native's consumers",
    "api_version": "leave it out: the client asks each broker",
    "loop": "leave it out: the client uses the running loop",
    "consumer_timeout_ms": "leave it out: getone() waits as long as your task does",
    "exclude_internal_topics": "leave it out: write a pattern that doesn't match them",
    "sasl_kerberos_domain_name": "see the guide about SASL",
    "sasl_kerberos_name": "see the guide about SASL",
    **dict.fromkeys(
        (
            "bootstrap_timeout_ms",
            "enable_incremental_fetch_sessions",
            "kafka_client",
            "selector",
            "socket_options",
        ),
        "leave it out: the client decides by itself",
    ),
    **dict.fromkeys(
        (
            "metric_group_prefix",
            "metric_reporters",
            "metrics_enabled",
            "metrics_num_samples",
            "metrics_sample_window_ms",
        ),
        "see the guide about monitoring",
    ),
    "allow_auto_create_topics": "leave it out: the brokers decide",
    "max_in_flight_requests_per_connection": "leave it out: it is for producers",
}
"""Options without a counterpart of one property, and what to do."""

BOOTSTRAP_SERVERS: Final = "localhost:9092"
"""Their default."""
DEFAULTS: Final[Mapping[str, Any]] = {"partitioner": "murmur2_random"}
CONSUMER_DEFAULTS: Final[Mapping[str, Any]] = {
    "isolation.level": "read_uncommitted",
    "allow.auto.create.topics": True,
}
"""Their defaults where another value would send or show other messages."""


def properties(
    options: Mapping[str, Any], known: Mapping[str, str], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the properties of these options.

    A name with a dot is a property already. None is the default, as in their clients.

    :raises TypeError: An option is unknown, or no property has its meaning.
    """
    found = dict(defaults)
    for name, value in options.items():
        if "." in name:
            found[name] = value
        elif name in known:
            if value is not None:
                found[known[name]] = _converted(name, value)
        elif name in REFUSED:
            if value is None or (name, value) == ("ssl_check_hostname", True):
                continue  # the default of both
            raise TypeError(f"{name} has no counterpart in kafka_native: {REFUSED[name]}")
        else:
            near = difflib.get_close_matches(name, known, 1)
            raise TypeError(f"unknown option {name}{f': did you mean {near[0]}?' if near else ''}")
    found.setdefault("bootstrap.servers", BOOTSTRAP_SERVERS)
    weak = found.get("acks", "all") not in ("all", "-1", -1)
    if weak and "transactional.id" not in found:
        found.setdefault("enable.idempotence", False)
    return found


def _converted(name: str, value: Any) -> Any:
    if name == "bootstrap_servers" and not isinstance(value, str):
        return ",".join(value)
    if name == "auto_offset_reset" and value == "none":
        return "error"
    return value


def login(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return aiokafka's default: it logs in with a password.

    Without a login the property would only make a warning.
    """
    protocol = options.get("security_protocol") or options.get("security.protocol") or ""
    return {"sasl.mechanism": "PLAIN"} if str(protocol).upper().startswith("SASL") else {}


def function(options: dict[str, Any], name: str) -> Callable[[Any], Any]:
    """Take a serializer out of the options: a function of one argument, as it is by default."""
    found = options.pop(name, None)
    if found is None:
        return _unchanged
    if not callable(found):
        raise TypeError(f"{name} must be a function of one argument, not {type(found).__name__}")
    return found  # type: ignore[no-any-return]  # callable() says no more


def _unchanged(value: Any) -> Any:
    return value


def check_records_max(records_max: int | None) -> None:
    """Raise ValueError if it is a number below 1."""
    if records_max is not None and operator.index(records_max) < 1:
        raise ValueError("max_records must be positive")


def checked_offset(offset: int) -> int:
    """Return an offset to seek to. Negative ones have a meaning in kafka_native only."""
    if not isinstance(offset, int) or offset < 0:
        raise ValueError("the offset must be an int, 0 or more")
    return offset


def pattern_of(topics: Iterable[str], pattern: str | None) -> list[str]:
    """Return the subscription to topics or to a pattern, which matches from the beginning."""
    if isinstance(topics, str):
        raise TypeError("topics must be a list, not one str")
    if bool(topics := list(topics)) == (pattern is not None):
        raise ValueError("name either topics or a pattern")
    return topics if pattern is None else [f"^{pattern.removeprefix('^')}"]
