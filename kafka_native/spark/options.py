"""The options of ``format("kafka_native")``: names and defaults are those of Spark's own connector.

Spark passes options as texts, and their names ignore case. This module checks each one and converts
it to a typed value. Each error names the option and says what to write.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from kafka_native import KafkaError, KafkaException
from kafka_native._reference.property import CONSUMER, REDACTED, without_secrets
from kafka_native.config import PROPERTIES, parse
from kafka_native.spark.columns import COLUMNS
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
from kafka_native.spark.patterns import topic_pattern
from kafka_native.spark.properties import PREFIX, client_properties, is_sensitive, time_limit_s
from kafka_native.spark.typed_columns import (
    FORMAT_NAMES,
    NAMES,
    REGISTRY_PREFIX,
    TypedColumns,
    TypedOptions,
    parse_typed,
)

if TYPE_CHECKING:
    from kafka_native.spark.typed_sink import Encodings

__all__ = [
    "DeadLetterTarget",
    "SinkOptions",
    "SourceOptions",
    "Subscription",
    "lowered",
    "redacted",
]

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
    "taskReports",
    "checkpointLocation",
    "pushFilters",
    "deadLetters",
    *NAMES,
)
"""The source's options besides ``kafka.*``, ``deadLetters.kafka.*`` and ``schema.registry.*``."""

SINK_NAMES: Final = ("topic", "includeHeaders", "taskReports", "deadLetters", *FORMAT_NAMES)
"""The sink's options besides ``kafka.*``, ``deadLetters.kafka.*`` and ``schema.registry.*``."""

DEAD_LETTERS_PREFIX: Final = "deadletters."
"""The prefix of ``kafka.*`` properties for the producer of dead letters."""

_SPARK_OPTIONS: Final = frozenset(
    {"path", "checkpointlocation", "queryname", "outputmode", "withschemaevolution"}
)
"""Spark's own options, which it also passes to sources and sinks. Newer versions may add some."""
_SPARK_PREFIXES: Final = ("spark.", "__")
"""The beginnings of names that Spark uses for itself."""
_SIMILARITY_MIN: Final = 0.75
"""The similarity, from 0 to 1, from which on a name counts as one of ours with a mistake."""

_NO_COMMITS: Final = "offsets are kept in Spark's checkpoints; the source commits none to Kafka"
_SERIALIZER: Final = (
    "keys and values are always binary columns: convert them with Spark's functions"
)
_SOURCE_REFUSED: Final = {
    "auto.offset.reset": "write startingOffsets instead; Spark itself keeps track of what was read",
    "key.deserializer": _SERIALIZER,
    "value.deserializer": _SERIALIZER,
    "enable.auto.commit": _NO_COMMITS,
    "enable.auto.offset.store": _NO_COMMITS,
    "interceptor.classes": "interceptors could change keys and values in Spark's tasks",
}
_SINK_REFUSED: Final = {"key.serializer": _SERIALIZER, "value.serializer": _SERIALIZER}

_DURATION: Final = re.compile(r"\s*([0-9]+)\s*(us|ms|s|m|min|h|d)?\s*")
_DURATION_S: Final = {
    None: 0.001,
    "us": 1e-6,
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NUMBER_MAX: Final = (1 << 63) - 1
PROPAGATION_S: Final = 10.0
_CLIENT_ID: Final = "kafka-native-spark"
_REQUEST_MAX_BYTES: Final = "1048576"
"""The Java client's default of ``max.request.size``. This client's own default is less."""
_SINK_PROPAGATION_MS: Final = "5000"
"""The time for which a task searches for a topic or partition. Spark repeats a failed task."""
_TRANSACTION_MS: Final = "900000"
"""The brokers' default of ``transaction.max.timeout.ms``: a micro-batch may take that long."""


def lowered(options: Mapping[str, str]) -> dict[str, str]:
    """Spark's options with lower-case names, because Spark ignores their case."""
    return {str(name).lower(): str(value) for name, value in options.items()}


def redacted(options: Mapping[str, str]) -> dict[str, str]:
    """The options with secrets replaced, for errors and logs."""
    return {
        name: REDACTED if is_sensitive(name) else without_secrets(value)
        for name, value in options.items()
    }


@dataclass(frozen=True)
class Subscription:
    """The partitions to read. Exactly one of the three fields is set."""

    partitions: tuple[Key, ...] = ()
    """From ``assign``."""
    topics: tuple[str, ...] = ()
    """From ``subscribe``."""
    pattern: str = ""
    """From ``subscribePattern``: a regular expression that whole topic names match."""

    @property
    def named_topics(self) -> tuple[str, ...]:
        """The topics that the options name; empty with a pattern."""
        return self.topics or tuple(dict.fromkeys(topic for topic, _ in self.partitions))


@dataclass(frozen=True)
class SourceOptions:
    """The options of a source. It can be pickled. Its repr hides secrets."""

    subscription: Subscription
    consumer: Mapping[str, Any]
    """The consumer's whole configuration: the user's properties and the source's own."""
    starting: Limit | None = None
    """The start; None: the earliest offsets for batch queries, the latest for streams."""
    ending: Limit | None = None
    """The end of a batch query; None: the latest offsets."""
    by_timestamp_strategy: str = "error"
    """The effect of a start after the last record: ``error`` or ``latest``."""
    fail_on_data_loss: bool = True
    poll_timeout_s: float = 120.0
    """Seconds that a task waits for the next record."""
    fetch_retries: int = 3
    retry_interval_s: float = 1.0
    api_timeout_s: float = 60.0
    """Seconds for one request about topics or offsets."""
    propagation_s: float = PROPAGATION_S
    """Seconds for which the driver searches for a missing partition before it counts as deleted."""
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_s: float = 900.0
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    columns: tuple[str, ...] = tuple(COLUMNS)[:-1]
    """The columns in their order."""
    rows: Literal["records", "ranges"] = "records"
    """The kind of rows: records, or ranges of offsets that your own task reads."""
    typed: TypedOptions | None = None
    """How keys and values are decoded; None: they are bytes."""
    decoded: TypedColumns | None = None
    """The decoded columns, when the driver has found the schemas (`with_columns`)."""
    dead_letters: DeadLetterTarget | None = None
    """Where records go that don't decode; None: nowhere."""
    batch_rows: int = 0
    """The largest number of rows in an Arrow batch; 0: the source chooses."""
    task_reports: bool = False
    """Whether tasks show what they have read, and write it beside the checkpoint."""
    push_filters: bool = False
    """Whether a batch query's filters reduce the offsets to read."""
    checkpoint: str = ""
    """The stream's checkpoint, see `kafka_native.spark.kept_state`; empty: not named."""
    given: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The user's options with lower-case names. They contain secrets."""

    @property
    def file_name(self) -> str:
        """The name of this source's files beside the checkpoint. A query may have several sources.

        They may read topics of one name in different clusters.
        """
        identity = repr((self.consumer.get("bootstrap.servers"), self.subscription))
        return hashlib.sha256(identity.encode()).hexdigest()[:16]

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parse the options that batch queries and streams share.

        :raises OptionError: An option is unknown, missing or invalid.
        """
        given = lowered(options)
        _check_names(given, SOURCE_NAMES, (PREFIX, DEAD_LETTERS_PREFIX + PREFIX, REGISTRY_PREFIX))
        _refuse(given, _SOURCE_REFUSED)
        parser = _OptionParser(given)
        consumer = _consumer_config(given)
        subscription = _subscription(given)
        dead_letters = _dead_letters(given, subscription)
        modes = {} if dead_letters is None else {"mode": "DROPMALFORMED"}
        typed = parse_typed({**given, **modes}, subscription.named_topics, _fields(given))
        rows: Literal["records", "ranges"] = (
            "ranges"
            if parser.choice("rows", ("records", "ranges"), "records") == "ranges"
            else "records"
        )
        if typed is not None and rows == "ranges":
            raise OptionError("rows", "ranges have no typed columns: leave value.format out")
        return cls(
            subscription=subscription,
            consumer=consumer,
            starting=_limit(given, "starting"),
            ending=_limit(given, "ending"),
            by_timestamp_strategy=parser.choice(
                "startingOffsetsByTimestampStrategy", ("error", "latest"), "error"
            ),
            fail_on_data_loss=parser.flag("failOnDataLoss", True),
            poll_timeout_s=parser.integer("kafkaConsumer.pollTimeoutMs", 1, 120_000) / 1000,
            fetch_retries=parser.integer("fetchOffset.numRetries", 0, 3),
            retry_interval_s=parser.integer("fetchOffset.retryIntervalMs", 0, 1000) / 1000,
            api_timeout_s=time_limit_s(given),
            propagation_s=_propagation_s(consumer),
            max_offsets_per_trigger=parser.optional("maxOffsetsPerTrigger"),
            min_offsets_per_trigger=parser.optional("minOffsetsPerTrigger"),
            max_trigger_delay_s=parser.duration_s("maxTriggerDelay", 900.0),
            min_partitions=parser.optional("minPartitions"),
            max_records_per_partition=parser.optional("maxRecordsPerPartition"),
            columns=_columns(given, parser.flag("includeHeaders", False), typed),
            rows=rows,
            typed=typed,
            dead_letters=dead_letters,
            batch_rows=parser.integer("batchRows", 0, 0),
            task_reports=parser.flag("taskReports", False),
            push_filters=parser.flag("pushFilters", False),
            checkpoint=given.get("checkpointlocation", "").strip(),
            given=given,
        )

    def with_columns(self, decoded: TypedColumns) -> SourceOptions:
        """Return the options with the decoded columns.

        :raises OptionError: Two columns have one name, or Spark has no such type.
        """
        decoded.output(self.columns)
        return replace(self, decoded=decoded)

    @property
    def other_columns(self) -> list[str]:
        """The columns that aren't the source's own: fields of decoded records."""
        if self.decoded is None:
            return []
        return [name for name, _ in self.decoded.output(self.columns) if name not in self.columns]

    def for_batch(self) -> SourceOptions:
        """Check the options for a batch query, and return them.

        :raises OptionError: The query starts at the latest offsets or ends at the earliest.
        """
        if self.starting is not None:
            _check_limit(
                self.starting,
                LATEST,
                "latest",
                "a batch query would read nothing: write earliest or offsets",
            )
        if self.ending is not None:
            _check_limit(
                self.ending,
                EARLIEST,
                "earliest",
                "a batch query would read nothing: write latest or offsets",
            )
        limit = self.max_offsets_per_trigger or self.min_offsets_per_trigger
        if limit is not None:
            logger.warning(
                "maxOffsetsPerTrigger and minOffsetsPerTrigger mean nothing in a batch query"
            )
        return self

    def for_stream(self) -> SourceOptions:
        """Check the options for a stream, and return them.

        :raises OptionError: An option sets an end, or minOffsetsPerTrigger exceeds
            maxOffsetsPerTrigger.
        """
        # A direct pipeline with a last batch may end at a time.
        may_end = self.rows == "ranges" and self.ending is not None
        if self.ending is not None and not (may_end and self.ending.kind == "timestamp"):
            raise OptionError(
                self.ending.option, "a stream has no end: leave it out, or use a batch query"
            )
        offsets_min, offsets_max = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if offsets_min is not None and offsets_max is not None and offsets_min > offsets_max:
            raise OptionError(
                "minOffsetsPerTrigger",
                f"{offsets_min} is more than maxOffsetsPerTrigger, {offsets_max}",
            )
        return self

    def __repr__(self) -> str:
        """The user's options, with secrets replaced."""
        return f"SourceOptions({redacted(self.given)})"


@dataclass(frozen=True)
class SinkOptions:
    """The options of a sink. It can be pickled. Its repr hides secrets."""

    producer: Mapping[str, Any]
    """The producer's whole configuration."""
    topic: str | None = None
    """The topic of all rows; None: each row's column ``topic`` names it."""
    typed: TypedOptions | None = None
    """How keys and values are encoded; None: they are bytes or strings."""
    encodings: Encodings | None = None
    """The schemas of encoded columns, when the driver has found them."""
    checkpoint: str = ""
    """The stream's checkpoint, see `kafka_native.spark.kept_state`; empty: unknown."""
    propagation_s: float = PROPAGATION_S
    """Seconds for which the producer searches for a missing partition before the batch fails."""
    dead_letters: DeadLetterTarget | None = None
    """Where rows go that can't be written; None: nowhere, they fail the task."""
    task_reports: bool = False
    """Whether Python workers show the line that each task logs."""
    given: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The user's options with lower-case names. They contain secrets."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Parse the options of a sink.

        :raises OptionError: An option is unknown, missing or invalid.
        """
        given = lowered(options)
        _check_names(given, SINK_NAMES, (PREFIX, DEAD_LETTERS_PREFIX + PREFIX, REGISTRY_PREFIX))
        _refuse(given, _SINK_REFUSED)
        own = client_properties(given, "producer")
        # These are the defaults of the Java producer, which Spark's connector uses. The same keys
        # go to the same partitions. With fewer acks, idempotence is off.
        acks = own.get("acks", own.get("request.required.acks", "all")).strip().lower()
        idempotent = "true" if acks in ("all", "-1") else "false"
        defaults = {
            "client.id": _CLIENT_ID,
            "partitioner": "murmur2_random",
            "enable.idempotence": idempotent,
            "message.max.bytes": _REQUEST_MAX_BYTES,
            "topic.metadata.propagation.max.ms": _SINK_PROPAGATION_MS,
        }
        if own.get("transactional.id"):
            defaults["transaction.timeout.ms"] = _TRANSACTION_MS
        topic = given.get("topic")
        if topic is not None and not topic.strip():
            raise OptionError(
                "topic", "it is empty: name a topic, or leave it out and have a column topic"
            )
        config = {**defaults, **own}
        checked = _checked_config(config, "producer")
        return cls(
            producer=checked,
            topic=topic,
            typed=parse_typed(given, () if topic is None else (topic,), None),
            checkpoint=given.get("checkpointlocation", "").strip(),
            propagation_s=_propagation_s(checked),
            dead_letters=_sink_dead_letters(given, topic),
            task_reports=_OptionParser(given).flag("taskReports", False),
            given=given,
        )

    @property
    def transactional_id(self) -> str:
        """The value of ``kafka.transactional.id``.

        If it is empty, rows are written at least once.
        """
        return str(self.producer.get("transactional.id", ""))

    def without_transactions(self, reason: str) -> SinkOptions:
        """Return the options for a writer that can't write exactly once.

        :raises OptionError: A transactional id is set.
        """
        if self.transactional_id:
            raise OptionError("kafka.transactional.id", f"it can't be set: {reason}")
        return self

    def __repr__(self) -> str:
        """The user's options, with secrets replaced."""
        return f"SinkOptions({redacted(self.given)})"


@dataclass(frozen=True)
class DeadLetterTarget:
    """Where dead letters go: a folder or a topic. It can be pickled. Its repr hides secrets."""

    folder: str = field(default="", repr=False)
    """The folder, or its URI; empty: a topic."""
    sink: SinkOptions | None = None
    """The topic with the options of its producer; None: a folder."""

    def __str__(self) -> str:
        """The name for logs."""
        return without_secrets(self.folder) if self.sink is None else f"topic {self.sink.topic}"


# --- single values ---


class _OptionParser:
    """Reads typed values. Its errors have the option's name as the guide spells it."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def integer(self, name: str, minimum: int, default: int) -> int:
        text = self._given.get(name.lower())
        if text is None:
            return default
        if not re.fullmatch(r"\s*[0-9]{1,19}\s*", text) or not minimum <= int(text) <= _NUMBER_MAX:
            raise OptionError(
                name, f"{text!r} isn't valid: write a whole number of at least {minimum}"
            )
        return int(text)

    def optional(self, name: str) -> int | None:
        return self.integer(name, 1, 1) if name.lower() in self._given else None

    def flag(self, name: str, default: bool) -> bool:
        text = self._given.get(name.lower(), str(default)).strip().lower()
        if text not in ("true", "false"):
            raise OptionError(name, f"{text!r} isn't valid: write true or false")
        return text == "true"

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        text = self._given.get(name.lower(), default).strip().lower()
        if text not in choices:
            raise OptionError(name, f"{text!r} isn't valid: write {' or '.join(choices)}")
        return text

    def duration_s(self, name: str, default: float) -> float:
        text = self._given.get(name.lower())
        if text is None:
            return default
        match = _DURATION.fullmatch(text.lower())
        if match is None:
            raise OptionError(
                name, f"{text!r} isn't valid: write a duration such as 500ms, 30s, 15m or 1h"
            )
        return int(match[1]) * _DURATION_S[match[2]]


def _check_names(
    given: Mapping[str, str], names: Iterable[str], prefixes: tuple[str, ...] = (PREFIX,)
) -> None:
    """Check the names of options. A name like one of ours is a mistake; others may be Spark's."""
    known = {name.lower(): name for name in names}
    for name in given:
        if name in known or name.startswith((*prefixes, *_SPARK_PREFIXES)):
            continue
        if name in PROPERTIES:
            raise OptionError(name, f"properties of Kafka begin with kafka.: write {PREFIX}{name}")
        if name in _SPARK_OPTIONS:
            continue
        close = difflib.get_close_matches(name, known, n=1, cutoff=_SIMILARITY_MIN)
        if close:
            raise OptionError(name, f"there is no such option: did you mean {known[close[0]]}?")
        logger.warning("option %s is ignored: it is none of the source's or sink's options", name)


def _refuse(given: Mapping[str, str], refused: Mapping[str, str]) -> None:
    for name, reason in refused.items():
        if PREFIX + name in given:
            raise OptionError(PREFIX + name, f"it can't be set: {reason}")


def _subscription(given: Mapping[str, str]) -> Subscription:
    names = [name for name in ("assign", "subscribe", "subscribePattern") if name.lower() in given]
    if len(names) != 1:
        found = f", not {' and '.join(names)}" if names else ""
        raise OptionError(
            "subscribe", f"write exactly one of subscribe, subscribePattern and assign{found}"
        )
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
        raise OptionError(
            name, "it is empty: write a regular expression that names of topics match as a whole"
        )
    try:
        topic_pattern(text)
    except ValueError as error:
        raise OptionError(name, f"{text!r} is no regular expression: {error}") from None
    return Subscription(pattern=text)


def _limit(given: Mapping[str, str], edge: str) -> Limit | None:
    """The start or the end. Of its three options the first one counts, as in Spark's connector."""
    name = f"{edge}Timestamp"
    if name.lower() in given:
        return Limit("timestamp", name, timestamp=_OptionParser(given).integer(name, 0, 0))
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
        raise OptionError(
            name,
            f'{text!r} isn\'t valid: write earliest, latest, or offsets as {{"topic":{{"0":23}}}}',
        )
    return Limit("offsets", name, parse_offsets(text, name))


def _check_limit(limit: Limit, wrong: int, word: str, hint: str) -> None:
    if limit.kind == word:
        raise OptionError(limit.option, f"it can't be {word}: {hint}")
    if limit.kind == "offsets":
        for (topic, partition), offset in limit.values.items():
            if offset == wrong:
                raise OptionError(
                    limit.option, f"{topic} [{partition}] can't be {word} ({wrong}): {hint}"
                )


def _columns(
    given: Mapping[str, str], with_headers: bool, typed: TypedOptions | None
) -> tuple[str, ...]:
    """The columns of the source. ``value.customer`` counts as ``value``."""
    errors = () if typed is None else tuple(typed.error_columns)
    taken = sorted({each.lower() for each in errors} & {each.lower() for each in COLUMNS})
    if taken:
        raise OptionError("columnNameOfCorruptRecord", f"there is a column {taken[0]} already")
    if "columns" not in given:
        base = tuple(name for name in COLUMNS if name != "headers" or with_headers)
        return base + errors
    known = {name.lower(): name for name in (*COLUMNS, *errors)}
    decoded = () if typed is None else tuple(each.name for each in typed.decodings)
    hint = f"write some of {', '.join(known.values())}"
    found: list[str] = []
    named = _named(given)
    for each in named:
        name, dot, _ = each.partition(".")
        if dot and name.lower() in decoded:
            found += [name.lower()] if name.lower() not in found else []
            if name.lower() in {other.lower() for other in named}:
                raise OptionError("columns", f"{name} and {each} are named: write one of them")
            continue
        if each.lower() not in known:
            raise OptionError("columns", f"there is no column {each!r}: {hint}")
        found.append(known[each.lower()])
    if not found:
        raise OptionError("columns", f"no column is named: {hint}")
    if len(set(found)) < len(found):
        raise OptionError("columns", "a column is named twice")
    return tuple(found)


def _named(given: Mapping[str, str]) -> list[str]:
    return [each.strip() for each in given.get("columns", "").split(",") if each.strip()]


def _fields(given: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The fields that ``columns`` chooses of keys and values, such as ``value.customer``."""
    found: dict[str, tuple[str, ...]] = {}
    for each in _named(given):
        name, dot, path = each.partition(".")
        if dot:
            found[name.lower()] = (*found.get(name.lower(), ()), path)
    return found


def _dead_letters(given: Mapping[str, str], subscription: Subscription) -> DeadLetterTarget | None:
    """The target of a source's dead letters."""
    target = _dead_letter_target(given)
    if target is None:
        return None
    if "value.format" not in given and "key.format" not in given:
        raise OptionError("deadLetters", "it needs value.format or key.format")
    mode = given.get("mode", "DROPMALFORMED").strip().upper()
    if mode != "DROPMALFORMED":
        raise OptionError(
            "deadLetters", f"it takes bad records out of the frame: leave mode={mode} out"
        )
    topic = None if target.sink is None else target.sink.topic
    if topic is not None and (
        topic in subscription.named_topics
        or (subscription.pattern and topic_pattern(subscription.pattern).fullmatch(topic))
    ):
        raise OptionError("deadLetters", f"the query reads topic {topic} itself: write another")
    return target


def _sink_dead_letters(given: Mapping[str, str], topic: str | None) -> DeadLetterTarget | None:
    """The target of a sink's dead letters."""
    transactional = {PREFIX + name for name in ("transactional.id", "transaction.timeout.ms")}
    target = _dead_letter_target(
        {name: value for name, value in given.items() if name not in transactional}
    )
    if target is None:
        return None
    own = [name for name in given if name.startswith(DEAD_LETTERS_PREFIX)]
    if own and PREFIX + "transactional.id" in given:
        raise OptionError(
            own[0], "dead letters are in the transaction of the other rows: leave it out"
        )
    if topic is not None and target.sink is not None and target.sink.topic == topic:
        raise OptionError("deadLetters", f"the rows go to topic {topic} themselves: write another")
    return target


def _dead_letter_target(given: Mapping[str, str]) -> DeadLetterTarget | None:
    """The target of dead letters: a topic if the name can be one, else a folder."""
    target = given.get("deadletters", "").strip()
    if not target:
        if any(name.startswith(DEAD_LETTERS_PREFIX) for name in given) or "deadletters" in given:
            raise OptionError("deadLetters", "it is missing: write a topic or a folder")
        return None
    if "/" in target:
        return DeadLetterTarget(folder=target)
    if not _TOPIC.fullmatch(target):
        raise OptionError(
            "deadLetters", f"{target!r} is neither a topic nor a folder: write a folder with a /"
        )
    own = {
        PREFIX + name: value
        for name, value in client_properties(given, "producer").items()
        if name not in PROPERTIES or PROPERTIES[name].scope != CONSUMER
    }
    more = {
        name.removeprefix(DEAD_LETTERS_PREFIX): value
        for name, value in given.items()
        if name.startswith(DEAD_LETTERS_PREFIX)
    }
    # By one name, such as message.max.bytes for max.request.size, they replace the query's own.
    for name, value in client_properties(more, "producer").items():
        own[PREFIX + name] = value
    sink = SinkOptions.parse({**own, "topic": target})
    reason = "dead letters are written at least once"
    return DeadLetterTarget(sink=sink.without_transactions(reason))


def _consumer_config(given: Mapping[str, str]) -> Mapping[str, Any]:
    """The whole configuration of the consumers that request offsets and records."""
    config: dict[str, Any] = {
        "client.id": _CLIENT_ID,
        "isolation.level": "read_uncommitted",  # Java's default; librdkafka's is read_committed
        # All records of a range exist already. A Fetch that waits for records after one range
        # delays the next range, because only one Fetch is outstanding.
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
    """The client's property if set; else less than the client's default, because a stream waits."""
    text = config.get("topic.metadata.propagation.max.ms")
    return PROPAGATION_S if text is None else int(text) / 1000


def _checked_config(
    config: dict[str, Any], role: Literal["consumer", "producer"]
) -> Mapping[str, Any]:
    servers = config.get("bootstrap.servers", config.get("metadata.broker.list", ""))
    if not servers.strip():
        raise OptionError(
            "kafka.bootstrap.servers",
            "it is missing: write host:port of some brokers, with commas. (Spark passes no options "
            "for a table of CREATE TABLE: write CREATE TEMPORARY VIEW)",
        )
    try:
        parse(config, role)
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        raise OptionError(
            "kafka.*", str(error) if cause.str() in str(error) else cause.str()
        ) from None
    return config
