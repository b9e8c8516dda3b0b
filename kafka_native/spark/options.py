"""The options of ``format("kafka_native")``: those of Spark's own connector, by the same names and defaults.

Spark's options are texts whose names don't tell case. Here they become typed values, each checked, and every
error names the option and says what to write.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kafka_native import KafkaError, KafkaException
from kafka_native._reference.property import REDACTED, without_secrets
from kafka_native.config import parse
from kafka_native.spark.errors import OptionError
from kafka_native.spark.log import logger
from kafka_native.spark.offsets import (
    EARLIEST,
    LATEST,
    Key,
    Limit,
    parse_assignment,
    parse_offsets,
    parse_timestamps,
)
from kafka_native.spark.properties import PREFIX, client_properties, is_sensitive, time_limit_s

__all__ = ["COLUMNS", "RANGE_COLUMNS", "SinkOptions", "SourceOptions", "Subscription", "lowered", "redacted"]

COLUMNS: Final[Mapping[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""The source's columns and their types in Spark's words, as Spark's own connector has them."""

RANGE_COLUMNS: Final[Mapping[str, str]] = {
    "topic": "string",
    "partition": "int",
    "start_offset": "bigint",
    "end_offset": "bigint",
    "topic_id": "string",
    "lost": "string",
}
"""The columns with ``rows=ranges``: one row for each range of offsets; ``end_offset`` is the first that isn't read.

``topic_id`` is null where it isn't known. ``lost`` is null, or says why nothing of the range can be read any more
(``failOnDataLoss=false``).
"""

SOURCE_NAMES: Final = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "includeHeaders",
    "columns",
    "rows",
    "batchRows",
)
"""The source's options beside ``kafka.*``."""

SINK_NAMES: Final = ("topic", "includeHeaders")
"""The sink's options beside ``kafka.*``."""

_SPARK_OPTIONS: Final = frozenset({"path", "checkpointlocation", "queryname", "outputmode", "withschemaevolution"})
"""Options that Spark itself hands on to sources and sinks."""

_SERIALIZER: Final = "keys and values are always binary columns: convert them with Spark's functions"
_SOURCE_REFUSED: Final = {
    "auto.offset.reset": "write startingOffsets instead; Spark itself keeps track of what was read",
    "key.deserializer": _SERIALIZER,
    "value.deserializer": _SERIALIZER,
    "enable.auto.commit": "offsets are kept in Spark's checkpoints; the source commits none to Kafka",
    "enable.auto.offset.store": "offsets are kept in Spark's checkpoints; the source commits none to Kafka",
    "interceptor.classes": "what an interceptor does to keys and values couldn't be relied on",
}
_SINK_REFUSED: Final = {"key.serializer": _SERIALIZER, "value.serializer": _SERIALIZER}

_DURATION: Final = re.compile(r"\s*([0-9]+)\s*(us|ms|s|m|min|h|d)?\s*")
_DURATION_S: Final = {None: 0.001, "us": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER_MAX: Final = (1 << 63) - 1
PROPAGATION_S: Final = 10.0
_CLIENT_ID: Final = "kafka-native-spark"
_TRANSACTION_MS: Final = "900000"
"""As much as brokers allow unless they are told otherwise: a micro-batch may take its time."""


def lowered(options: Mapping[str, str]) -> dict[str, str]:
    """Spark's options, which don't tell case, with their names in lower case."""
    return {str(name).lower(): str(value) for name, value in options.items()}


def redacted(options: Mapping[str, str]) -> dict[str, str]:
    """The options as they may be shown."""
    return {name: REDACTED if is_sensitive(name) else without_secrets(value) for name, value in options.items()}


@dataclass(frozen=True)
class Subscription:
    """Which partitions are read: one of the three is set."""

    partitions: tuple[Key, ...] = ()
    """``assign``."""
    topics: tuple[str, ...] = ()
    """``subscribe``."""
    pattern: str = ""
    """``subscribePattern``: a regular expression that names of topics match as a whole."""


@dataclass(frozen=True)
class SourceOptions:
    """What a source is told. It can be pickled; its repr shows no secret."""

    subscription: Subscription
    consumer: Mapping[str, Any]
    """The consumer's configuration, whole: what was given, and what the source itself needs."""
    starting: Limit | None = None
    """None: batch queries start at the earliest offsets, streams at the latest."""
    ending: Limit | None = None
    """Of batch queries; None: the latest offsets."""
    by_timestamp_strategy: str = "error"
    """``error`` or ``latest``: what a start after the last record means."""
    fail_on_data_loss: bool = True
    poll_timeout_s: float = 120.0
    """How long a task waits for the next record."""
    fetch_retries: int = 3
    retry_interval_s: float = 1.0
    api_timeout_s: float = 60.0
    """How long one question about topics or offsets may take."""
    propagation_s: float = PROPAGATION_S
    """How long the driver looks for a partition that brokers don't know, before it believes that there is none."""
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_s: float = 900.0
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    columns: tuple[str, ...] = tuple(COLUMNS)[:-1]
    """The columns, in order."""
    rows: Literal["records", "ranges"] = "records"
    """Whether a row is a record, or a range of offsets that a task will read itself."""
    batch_rows: int = 0
    """Rows of an Arrow batch at most; 0: as is best."""
    given: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """All options as they were given, in lower case: secrets among them."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Checks what a source was told, as far as batch queries and streams have it in common.

        :raises OptionError: An option is unknown, missing, or has a value that can't be.
        """
        given = lowered(options)
        _check_names(given, SOURCE_NAMES)
        _refuse(given, _SOURCE_REFUSED)
        reads = _Reader(given)
        consumer = _consumer_config(given)
        return cls(
            subscription=_subscription(given),
            consumer=consumer,
            starting=_limit(given, "starting"),
            ending=_limit(given, "ending"),
            by_timestamp_strategy=reads.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error"),
            fail_on_data_loss=reads.flag("failOnDataLoss", True),
            poll_timeout_s=reads.integer("kafkaConsumer.pollTimeoutMs", 1, 120_000) / 1000,
            fetch_retries=reads.integer("fetchOffset.numRetries", 0, 3),
            retry_interval_s=reads.integer("fetchOffset.retryIntervalMs", 0, 1000) / 1000,
            api_timeout_s=time_limit_s(given),
            propagation_s=_propagation_s(consumer),
            max_offsets_per_trigger=reads.optional("maxOffsetsPerTrigger"),
            min_offsets_per_trigger=reads.optional("minOffsetsPerTrigger"),
            max_trigger_delay_s=reads.duration_s("maxTriggerDelay", 900.0),
            min_partitions=reads.optional("minPartitions"),
            max_records_per_partition=reads.optional("maxRecordsPerPartition"),
            columns=_columns(given, reads.flag("includeHeaders", False)),
            rows="ranges" if reads.choice("rows", ("records", "ranges"), "records") == "ranges" else "records",
            batch_rows=reads.integer("batchRows", 0, 0),
            given=given,
        )

    def for_batch(self) -> SourceOptions:
        """Itself, checked for a batch query.

        :raises OptionError: It starts at the latest offsets or ends at the earliest.
        """
        if self.starting is not None:
            _check_limit(self.starting, LATEST, "latest", "a batch query would read nothing: write earliest or offsets")
        if self.ending is not None:
            _check_limit(self.ending, EARLIEST, "earliest", "a batch query would read nothing: write latest or offsets")
        limit = self.max_offsets_per_trigger or self.min_offsets_per_trigger
        if limit is not None:
            logger.warning("maxOffsetsPerTrigger and minOffsetsPerTrigger mean nothing in a batch query")
        return self

    def for_stream(self) -> SourceOptions:
        """Itself, checked for a stream.

        :raises OptionError: It names an end, or a least number of offsets above the greatest.
        """
        if self.ending is not None:
            raise OptionError(self.ending.option, "a stream has no end: leave it out, or use a batch query")
        least, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise OptionError("minOffsetsPerTrigger", f"{least} is more than maxOffsetsPerTrigger, {most}")
        return self

    def __repr__(self) -> str:
        """What is read and how, without secrets."""
        return f"SourceOptions({redacted(self.given)})"


@dataclass(frozen=True)
class SinkOptions:
    """What a sink is told. It can be pickled; its repr shows no secret."""

    producer: Mapping[str, Any]
    """The producer's configuration, whole."""
    topic: str | None = None
    """Where all rows go; None: each row says so in its column ``topic``."""
    propagation_s: float = PROPAGATION_S
    """How long a partition that brokers don't know is looked for before a batch that needs it fails."""
    given: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """All options as they were given, in lower case: secrets among them."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Checks what a sink was told.

        :raises OptionError: An option is unknown, missing, or has a value that can't be.
        """
        given = lowered(options)
        _check_names(given, SINK_NAMES)
        _refuse(given, _SINK_REFUSED)
        own = client_properties(given, "producer")
        # as Java's producer, whose choices Spark's connector makes: the same keys go to the same partitions, and who
        # waits for fewer acks gives idempotence up
        acks = own.get("acks", own.get("request.required.acks", "all")).strip().lower()
        idempotent = "true" if acks in ("all", "-1") else "false"
        defaults = {"client.id": _CLIENT_ID, "partitioner": "murmur2_random", "enable.idempotence": idempotent}
        if own.get("transactional.id"):
            defaults["transaction.timeout.ms"] = _TRANSACTION_MS
        topic = given.get("topic")
        if topic is not None and not topic.strip():
            raise OptionError("topic", "it is empty: name a topic, or leave it out and have a column topic")
        config = {**defaults, **own}
        checked = _checked_config(config, "producer")
        return cls(producer=checked, topic=topic, propagation_s=_propagation_s(checked), given=given)

    @property
    def transactional_id(self) -> str:
        """``kafka.transactional.id``: rows are written exactly once; empty: at least once."""
        return str(self.producer.get("transactional.id", ""))

    def without_transactions(self, reason: str) -> SinkOptions:
        """Itself, for who can't write exactly once.

        :raises OptionError: It is asked for.
        """
        if self.transactional_id:
            raise OptionError("kafka.transactional.id", f"it can't be set: {reason}")
        return self

    def __repr__(self) -> str:
        """Where rows go and how, without secrets."""
        return f"SinkOptions({redacted(self.given)})"


# --- single values ---


class _Reader:
    """Values by the names that the guide writes."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def integer(self, name: str, least: int, default: int) -> int:
        text = self._given.get(name.lower())
        if text is None:
            return default
        if not re.fullmatch(r"\s*[0-9]{1,19}\s*", text) or not least <= int(text) <= _NUMBER_MAX:
            raise OptionError(name, f"{text!r} can't be: write a whole number of at least {least}")
        return int(text)

    def optional(self, name: str) -> int | None:
        return self.integer(name, 1, 1) if name.lower() in self._given else None

    def flag(self, name: str, default: bool) -> bool:
        text = self._given.get(name.lower(), str(default)).strip().lower()
        if text not in ("true", "false"):
            raise OptionError(name, f"{text!r} can't be: write true or false")
        return text == "true"

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        text = self._given.get(name.lower(), default).strip().lower()
        if text not in choices:
            raise OptionError(name, f"{text!r} can't be: write {' or '.join(choices)}")
        return text

    def duration_s(self, name: str, default: float) -> float:
        text = self._given.get(name.lower())
        if text is None:
            return default
        match = _DURATION.fullmatch(text.lower())
        if match is None:
            raise OptionError(name, f"{text!r} can't be: write a duration such as 500ms, 30s, 15m or 1h")
        return int(match[1]) * _DURATION_S[match[2]]


def _check_names(given: Mapping[str, str], names: Iterable[str]) -> None:
    known = {name.lower(): name for name in names}
    for name in given:
        if name in known or name.startswith(PREFIX) or name in _SPARK_OPTIONS:
            continue
        close = difflib.get_close_matches(name, [*known, *(f"{PREFIX}{each}" for each in ("bootstrap.servers",))], n=1)
        hint = f"did you mean {known.get(close[0], close[0])}?" if close else f"there are {', '.join(sorted(names))}"
        raise OptionError(name, f"there is no such option: {hint}; properties of Kafka begin with kafka.")


def _refuse(given: Mapping[str, str], refused: Mapping[str, str]) -> None:
    for name, reason in refused.items():
        if PREFIX + name in given:
            raise OptionError(PREFIX + name, f"it can't be set: {reason}")


def _subscription(given: Mapping[str, str]) -> Subscription:
    names = [name for name in ("assign", "subscribe", "subscribePattern") if name.lower() in given]
    if len(names) != 1:
        said = f", not {' and '.join(names)}" if names else ""
        raise OptionError("subscribe", f"write exactly one of subscribe, subscribePattern and assign{said}")
    [name] = names
    text = given[name.lower()]
    if name == "assign":
        return Subscription(partitions=parse_assignment(text))
    if name == "subscribe":
        topics = dict.fromkeys(each.strip() for each in text.split(",") if each.strip())
        if not topics:
            raise OptionError(name, "no topic is named: write names with commas between them")
        return Subscription(topics=tuple(topics))
    if not text.strip():
        raise OptionError(name, "it is empty: write a regular expression that names of topics match as a whole")
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(name, f"{text!r} is no regular expression: {error}") from None
    return Subscription(pattern=text)


def _limit(given: Mapping[str, str], edge: str) -> Limit | None:
    """Where reading starts or ends: of three options, the first that is there counts, as in Spark's connector."""
    name = f"{edge}Timestamp"
    if name.lower() in given:
        return Limit("timestamp", name, timestamp=_Reader(given).integer(name, 0, 0))
    name = f"{edge}OffsetsByTimestamp"
    if name.lower() in given:
        return Limit("timestamps", name, parse_timestamps(given[name.lower()], name))
    name = f"{edge}Offsets"
    text = given.get(name.lower())
    if text is None:
        return None
    if text.strip().lower() in ("earliest", "latest"):
        return Limit(text.strip().lower(), name)
    if not text.lstrip().startswith("{"):
        raise OptionError(name, f'{text!r} can\'t be: write earliest, latest, or offsets as {{"topic":{{"0":23}}}}')
    return Limit("offsets", name, parse_offsets(text, name))


def _check_limit(limit: Limit, wrong: int, word: str, hint: str) -> None:
    if limit.kind == word:
        raise OptionError(limit.option, f"it can't be {word}: {hint}")
    if limit.kind == "offsets":
        for (topic, partition), offset in limit.values.items():
            if offset == wrong:
                raise OptionError(limit.option, f"{topic} [{partition}] can't be {word} ({wrong}): {hint}")


def _columns(given: Mapping[str, str], with_headers: bool) -> tuple[str, ...]:
    if "columns" not in given:
        return tuple(name for name in COLUMNS if name != "headers" or with_headers)
    known = {name.lower(): name for name in COLUMNS}
    named = [each.strip() for each in given["columns"].split(",") if each.strip()]
    hint = f"write some of {', '.join(COLUMNS)}"
    if not named:
        raise OptionError("columns", f"no column is named: {hint}")
    for each in named:
        if each.lower() not in known:
            raise OptionError("columns", f"there is no column {each!r}: {hint}")
    found = tuple(known[each.lower()] for each in named)
    if len(set(found)) < len(found):
        raise OptionError("columns", "a column is named twice")
    return found


def _consumer_config(given: Mapping[str, str]) -> Mapping[str, Any]:
    """The whole configuration of the consumers that ask for offsets and read."""
    config: dict[str, Any] = {
        "client.id": _CLIENT_ID,
        "isolation.level": "read_uncommitted",  # Java's default, librdkafka's is the other one
        # The records of a range exist: there is nothing to wait for. A Fetch that waits behind the end of one range
        # holds up the next range, as there is one Fetch at a time.
        "fetch.wait.max.ms": "5",
        **client_properties(given, "consumer"),
        "auto.offset.reset": "error",
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "enable.partition.eof": "true",
        "allow.auto.create.topics": "false",
    }
    prefix = given.get("groupidprefix", "").strip()
    if prefix:
        config.setdefault("group.id", f"{prefix}-kafka-native")
    return _checked_config(config, "consumer")


def _propagation_s(config: Mapping[str, Any]) -> float:
    """As the client is told, else less than its own default: a stream stands still meanwhile."""
    text = config.get("topic.metadata.propagation.max.ms")
    return PROPAGATION_S if text is None else int(text) / 1000


def _checked_config(config: dict[str, Any], role: Literal["consumer", "producer"]) -> Mapping[str, Any]:
    servers = config.get("bootstrap.servers", config.get("metadata.broker.list", ""))
    if not servers.strip():
        raise OptionError("kafka.bootstrap.servers", "it is missing: write host:port of some brokers, with commas")
    try:
        parse(config, role)
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        raise OptionError("kafka.*", str(error) if cause.str() in str(error) else cause.str()) from None
    return config
