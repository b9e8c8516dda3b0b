"""Maps configuration properties to the engine's settings: the fields of struct kn_engine_config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._native.codec_fallback import missing_text
from kafka_native._native.enums import (
    CODEC_NAMES,
    IDEMPOTENCE_DEMANDED,
    IDEMPOTENCE_OFF,
    IDEMPOTENCE_WANTED,
    ISOLATION_READ_COMMITTED,
    ISOLATION_READ_UNCOMMITTED,
)
from kafka_native._native.records import features
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.logs import contexts_of, mask_of
from kafka_native.partitioners import partitioner_id

if TYPE_CHECKING:
    from kafka_native.config import Config

CODECS = {name: number for number, name in enumerate(CODEC_NAMES)}
ADDRESS_FAMILIES = {"any": 0, "v4": 4, "v6": 6}
ISOLATION_LEVELS = {
    "read_uncommitted": ISOLATION_READ_UNCOMMITTED,
    "read_committed": ISOLATION_READ_COMMITTED,
}
KIB = 1024
SHARED_FETCH_BYTES = 4 << 20  # 8 MiB is no faster, 2 MiB is slower
BACKPRESSURE = "queue.buffering.backpressure.threshold"


def connection_settings(config: Config) -> dict[str, object]:
    """The settings that every kind of client has."""
    return {
        "client_id": config["client.id"],
        "rack": config.text("client.rack"),
        "receive_max_bytes": config["receive.message.max.bytes"],
        "setup_timeout_ms": config["socket.connection.setup.timeout.ms"],
        "send_buffer_bytes": config["socket.send.buffer.bytes"],
        "receive_buffer_bytes": config["socket.receive.buffer.bytes"],
        "keepalive": config["socket.keepalive.enable"],
        "nagle_disable": config["socket.nagle.disable"],
        "address_family": ADDRESS_FAMILIES[config.text("broker.address.family")],
        "address_ttl_ms": config["broker.address.ttl"],
        "reconnect_backoff_ms": config["reconnect.backoff.ms"],
        "reconnect_backoff_max_ms": config["reconnect.backoff.max.ms"],
        "request_timeout_ms": config["socket.timeout.ms"],
        "pinned_max_bytes": config.integer("message.pinned.max.kbytes") * KIB,
        "connections_max_idle_ms": config["connections.max.idle.ms"],
        "statistics": config["statistics.interval.ms"] != 0,
        "proxy": None,  # the client sets it
        "tls": None,  # the client sets it
        "log_contexts": mask_of(contexts_of(config.text("debug"))),
    }


def producer_settings(config: Config, partitioner: int, report_all: bool) -> dict[str, object]:
    """The settings of a producer; ``partitioner`` is an id of `kafka_native.partitioners`."""
    return {
        "queue_messages_max": config["queue.buffering.max.messages"],
        "queue_bytes_max": config.integer("queue.buffering.max.kbytes") * KIB,
        "linger_us": int(config.number("linger.ms") * 1000),
        "batch_bytes": config["batch.size"],
        "batch_messages": config["batch.num.messages"],
        "message_max_bytes": config["message.max.bytes"],
        "max_in_flight": config["max.in.flight.requests.per.connection"],
        "backpressure_requests": _backpressure(config),
        "acks": config["acks"],
        "produce_timeout_ms": config["request.timeout.ms"],
        "message_timeout_ms": config["message.timeout.ms"],
        "retries": config["message.send.max.retries"],
        "retry_backoff_ms": config["retry.backoff.ms"],
        "retry_backoff_max_ms": config["retry.backoff.max.ms"],
        "codec": _codec(config.text("compression.codec")),
        "codec_level": config["compression.level"],
        "partitioner": partitioner,
        "sticky_linger_ms": config["sticky.partitioning.linger.ms"],
        "adaptive_partitioning": config["partitioner.adaptive.partitioning.enable"],
        "availability_timeout_ms": config["partitioner.availability.timeout.ms"],
        "rack_aware": config["partitioner.rack.aware"],
        "idempotence": _idempotence(config),
        "gapless": config["enable.gapless.guarantee"],
        "transactional_id": config.text("transactional.id"),
        "report_all": report_all,
        "report_errors_only": config["delivery.report.only.error"],
        "topics": {
            topic: _topic_settings(config, topic, partitioner)
            for topic in (config.own_topics if config.role == "producer" else ())
        },
    }


def _topic_settings(config: Config, topic: str, partitioner: int) -> dict[str, object]:
    """The settings of a topic that has its own properties; ``partitioner`` is the client's."""
    own = str(config.of_topic(topic, "partitioner"))
    return {
        "acks": config.of_topic(topic, "acks"),
        "produce_timeout_ms": config.of_topic(topic, "request.timeout.ms"),
        "message_timeout_ms": config.of_topic(topic, "message.timeout.ms"),
        "codec": _codec(str(config.of_topic(topic, "compression.codec"))),
        "codec_level": config.of_topic(topic, "compression.level"),
        "partitioner": (partitioner if own == config.text("partitioner") else partitioner_id(own)),
    }


def _codec(name: str) -> int:
    """The number of a codec. A codec without a library is an error, as in librdkafka."""
    if name != "none" and not features()[name]:
        text = (
            f'Unsupported value "{name}" for configuration property "compression.codec": '
            f"{missing_text(name)}"
        )
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
    return CODECS[name]


def _idempotence(config: Config) -> int:
    """Whether idempotence is off, required, or used where the brokers support it.

    It is required if the application has set it. If it is only the default, the producer works
    without it on old brokers.
    """
    if not config.flag("enable.idempotence"):
        return IDEMPOTENCE_OFF
    demanded = config.is_set("enable.idempotence") or config.flag("enable.gapless.guarantee")
    demanded = demanded or config.text("transactional.id") != ""
    return IDEMPOTENCE_DEMANDED if demanded else IDEMPOTENCE_WANTED


def _backpressure(config: Config) -> int:
    """How many unsent requests delay new batches; 0: only the byte limits do (the default)."""
    return (
        config.integer("queue.buffering.backpressure.threshold")
        if config.is_set(BACKPRESSURE)
        else 0
    )


def _shared_fetch_bytes(config: Config) -> int:
    """The bytes that one broker's few partitions share in a Fetch request; 0: no sharing."""
    return 0 if config.is_set("fetch.message.max.bytes") else SHARED_FETCH_BYTES


def consumer_settings(config: Config, *, eof_when_empty: bool = False) -> dict[str, object]:
    """The settings of a consumer.

    ``eof_when_empty``: an end of partition comes only after an empty response.
    """
    return {
        "fetch_min_bytes": config["fetch.min.bytes"],
        "fetch_wait_max_ms": config["fetch.wait.max.ms"],
        "fetch_max_bytes": config["fetch.max.bytes"],
        "partition_fetch_bytes": config["max.partition.fetch.bytes"],
        "shared_fetch_bytes": _shared_fetch_bytes(config),
        "queued_min_messages": config.integer("queued.min.messages"),
        "queued_max_bytes": config.integer("queued.max.messages.kbytes") * KIB,
        "fetch_error_backoff_ms": config["fetch.error.backoff.ms"],
        "check_crcs": config["check.crcs"],
        "partition_eof": config["enable.partition.eof"],
        "partition_eof_when_empty": eof_when_empty,
        "isolation_level": ISOLATION_LEVELS[config.text("isolation.level")],
        "decompressed_max_bytes": config["decompressed.batch.max.bytes"],
    }
