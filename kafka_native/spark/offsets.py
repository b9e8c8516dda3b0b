"""Starts and ends of reading: the JSON of Spark's connector, and the offsets of the cluster.

The options ``startingOffsets`` and ``endingOffsets`` and Spark's checkpoints have this JSON:
``{"topic":{"partition":offset,...},...}``. -2 is the earliest offset and -1 the latest.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafka_native import Consumer, KafkaError, KafkaException, TopicPartition
from kafka_native.spark.client_pool import admitted
from kafka_native.spark.errors import OptionError
from kafka_native.spark.log import logger

if TYPE_CHECKING:
    from kafka_native.spark.options import SourceOptions

T = TypeVar("T")

EARLIEST: Final = -2
"""In JSON: the first offset of the partition."""
LATEST: Final = -1
"""In JSON: the end of the partition."""

Key = tuple[str, int]
"""A topic and a partition number."""

_INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
_OFFSET_MAX: Final = (1 << 63) - 1
_PARTITION_MAX: Final = (1 << 31) - 1
UNKNOWN_PARTITION_ERRORS: Final = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)
"""The errors for a topic or partition that doesn't exist, or no longer exists."""


@dataclass(frozen=True)
class Limit:
    """A start or an end of reading, from an option."""

    kind: str
    """``earliest``, ``latest``, ``offsets``, ``timestamps`` or ``timestamp``.

    ``offsets`` and ``timestamps`` are by partition; ``timestamp`` is for all.
    """
    option: str
    """The option's name, for errors."""
    values: Mapping[Key, int] = field(default_factory=dict)
    """By partition: offsets (or EARLIEST, LATEST), or milliseconds since 1970."""
    timestamp: int = 0
    """For kind ``timestamp``: milliseconds since 1970."""


# --- JSON ---


def nested(offsets: Mapping[Key, int]) -> dict[str, dict[str, int]]:
    """Offsets as nested dicts for JSON, sorted, because Spark compares the texts."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def offsets_json(offsets: Mapping[Key, int]) -> str:
    """Offsets as JSON, as Spark's connector writes them to options and checkpoints."""
    return json.dumps(nested(offsets), separators=(",", ":"), ensure_ascii=False)


def parse_offsets(text: str, option: str = "offsets") -> dict[Key, int]:
    """Parse offsets from JSON.

    :param option: The option or file that has the text, for errors.
    :raises OptionError: The text isn't ``{"topic":{"partition":offset}}`` with offsets of -2
        (earliest), -1 (latest) or more.
    """
    return _numbers(
        text, option, EARLIEST, '{"topic":{"0":23,"1":-2}}, with -2 for earliest and -1 for latest'
    )


def flat(offsets: Mapping[str, Any], origin: str) -> dict[Key, int]:
    """Parse the result of `nested`. It comes from a file, which another connector may have written.

    :param origin: The file, for errors.
    :raises OptionError: The structure is another one, or an offset is negative.
    """
    found = parse_offsets(json.dumps(offsets), origin)
    for (topic, partition), offset in found.items():
        if offset < 0:
            raise OptionError(origin, f"{topic} [{partition}]: {offset} is no offset")
    return found


def parse_timestamps(text: str, option: str) -> dict[Key, int]:
    """Parse milliseconds since 1970 from JSON. The errors are those of `parse_offsets`."""
    return _numbers(text, option, 0, '{"topic":{"0":1700000000000}}, in milliseconds since 1970')


def parse_assignment(text: str, option: str = "assign") -> tuple[Key, ...]:
    """Parse partitions from ``{"topic":[0,1]}``.

    :raises OptionError: The text has another structure, or names no partition.
    """
    hint = '{"topicA":[0,1],"topicB":[2]}'
    found: dict[Key, None] = {}
    for topic, partitions in _object(text, option, hint).items():
        if not isinstance(partitions, list) or not partitions:
            raise OptionError(
                option, f"expected a list of partitions for topic {topic!r}: write {hint}"
            )
        for each in partitions:
            if type(each) is not int or not 0 <= each <= _PARTITION_MAX:
                raise OptionError(
                    option, f"topic {topic!r}: {each!r} is no partition: write {hint}"
                )
            found[topic, each] = None
    if not found:
        raise OptionError(option, f"no partition is named: write {hint}")
    return tuple(found)


def _object(text: str, option: str, hint: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise OptionError(option, f"this isn't JSON ({error}): write {hint}") from None
    if not isinstance(parsed, dict):
        raise OptionError(option, f"expected a JSON object: write {hint}")
    return parsed


def _numbers(text: str, option: str, least: int, hint: str) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for topic, partitions in _object(text, option, hint).items():
        if not isinstance(partitions, dict):
            raise OptionError(
                option, f"expected an object of partitions for topic {topic!r}: write {hint}"
            )
        for partition, number in partitions.items():
            if not re.fullmatch(r"[0-9]{1,10}", partition) or int(partition) > _PARTITION_MAX:
                raise OptionError(
                    option, f"topic {topic!r}: {partition!r} is no partition: write {hint}"
                )
            if type(number) is not int or not least <= number <= _OFFSET_MAX:
                raise OptionError(
                    option, f"{topic} [{partition}]: {number!r} can't be: write {hint}"
                )
            found[topic, int(partition)] = number
    return found


# --- requests to the cluster ---


class OffsetReader:
    """Requests partitions and offsets, on the driver.

    A failed request is repeated ``fetchOffset.numRetries`` times, every
    ``fetchOffset.retryIntervalMs``.
    """

    def __init__(self, options: SourceOptions) -> None:
        """Connect at the first request."""
        self._options = options
        self._consumer: Consumer | None = None
        self.topic_ids: dict[str, str] = {}
        """The ids of the topics that `partitions` has found, if brokers send ids."""

    @property
    def consumer(self) -> Consumer:
        """The consumer for the requests, made on first use."""
        if self._consumer is None:
            # The consumer is only used for offsets, so it never fetches.
            patience = {
                "topic.metadata.propagation.max.ms": round(self._options.propagation_s * 1000)
            }
            self._consumer = admitted(Consumer({**self._options.consumer, **patience}))
        return self._consumer

    def close(self) -> None:
        """Close the connection. The next request opens a new one."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def __enter__(self) -> OffsetReader:
        """Return the reader."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self.close()

    def partitions(self) -> list[Key]:
        """The current partitions of ``assign``, ``subscribe`` or ``subscribePattern``, sorted.

        :raises KafkaException: A named topic or partition doesn't exist, or no broker answers.
        """
        return sorted(self._asked(self._partitions))

    def earliest(self, partitions: Iterable[Key]) -> dict[Key, int]:
        """The first offset of each partition."""
        return self._at(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[Key]) -> dict[Key, int]:
        """The end of each partition; with read_committed its last stable offset."""
        return self._at(dict.fromkeys(partitions, LATEST))

    def at_times(self, timestamps: Mapping[Key, int]) -> dict[Key, int | None]:
        """The first offset of each partition at or after a time in ms since 1970, or None."""
        return {key: None if offset < 0 else offset for key, offset in self._at(timestamps).items()}

    def resolve(self, limit: Limit, partitions: Iterable[Key], *, starting: bool) -> dict[Key, int]:
        """The offsets of a limit for each of these partitions.

        :param starting: Whether the limit is a start. As a start, a time after the last record is
            an error unless ``startingOffsetsByTimestampStrategy`` is ``latest``. As an end, it is
            the latest offset.
        :raises OptionError: The limit names other partitions.
        """
        keys = list(partitions)
        if limit.kind == "earliest":
            return self.earliest(keys)
        if limit.kind == "latest":
            return self.latest(keys)
        if limit.kind == "timestamp":
            return self._by_time(limit, dict.fromkeys(keys, limit.timestamp), starting)
        _check_complete(limit, keys)
        if limit.kind == "timestamps":
            return self._by_time(limit, {key: limit.values[key] for key in keys}, starting)
        found = {key: limit.values[key] for key in keys}
        found.update(self._at({key: offset for key, offset in found.items() if offset < 0}))
        return found

    def _by_time(
        self, limit: Limit, timestamps: Mapping[Key, int], starting: bool
    ) -> dict[Key, int]:
        found = self.at_times(timestamps)
        missing = [key for key, offset in found.items() if offset is None]
        if missing and starting and self._options.by_timestamp_strategy == "error":
            topic, partition = missing[0]
            raise OptionError(
                limit.option,
                f"{topic} [{partition}] has no record at or after {timestamps[missing[0]]} ms: "
                "name an earlier time, or write startingOffsetsByTimestampStrategy=latest "
                "to start at the end of such partitions",
            )
        ends = self.latest(missing)
        return {key: ends[key] if offset is None else offset for key, offset in found.items()}

    def _at(self, timestamps: Mapping[Key, int]) -> dict[Key, int]:
        """Send ListOffsets with EARLIEST, LATEST or milliseconds. -1: no record is that new."""
        if not timestamps:
            return {}
        wanted = [TopicPartition(*key, offset) for key, offset in timestamps.items()]

        def ask() -> dict[Key, int]:
            found = self.consumer.offsets_for_times(wanted, self._options.api_timeout_s)
            for each in found:
                if each.error is not None:
                    text = f"{each.topic} [{each.partition}]: {each.error.str()}"
                    raise KafkaException(KafkaError(each.error.code(), text))
            return {(each.topic, each.partition): each.offset for each in found}

        # Not repeated for unknown partitions, because the client has repeated those itself.
        return self._asked(ask, UNKNOWN_PARTITION_ERRORS)

    def _partitions(self) -> list[Key]:
        subscription = self._options.subscription
        if subscription.pattern:
            pattern = re.compile(subscription.pattern)
            topics = self.consumer.list_topics(timeout=self._options.api_timeout_s).topics
            names = [
                name for name in topics if name not in _INTERNAL_TOPICS and pattern.fullmatch(name)
            ]
            self.topic_ids = {name: topics[name]._id for name in names}
            return [(name, number) for name in names for number in topics[name].partitions]
        wanted = (
            dict.fromkeys(topic for topic, _ in subscription.partitions)
            if subscription.partitions
            else None
        )
        existing = [
            key for name in wanted or subscription.topics for key in self._partitions_of(name)
        ]
        if wanted is None:
            return existing
        missing = set(subscription.partitions) - set(existing)
        if missing:
            topic, partition = min(missing)
            raise KafkaException(
                KafkaError(
                    KafkaError._UNKNOWN_PARTITION,
                    f"option assign: {topic} has no partition {partition}",
                )
            )
        return list(subscription.partitions)

    def _partitions_of(self, name: str) -> list[Key]:
        topic = self.consumer.list_topics(name, self._options.api_timeout_s).topics.get(name)
        error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART) if topic is None else topic.error
        if topic is None or error is not None:
            assert error is not None
            raise KafkaException(KafkaError(error.code(), f"topic {name}: {error.str()}"))
        self.topic_ids[name] = topic._id
        return [(name, number) for number in topic.partitions]

    def _asked(self, ask: Callable[[], T], final: Container[int] = ()) -> T:
        """Send a request with retries. Errors with a ``final`` code are raised at once."""
        attempts = self._options.fetch_retries
        while True:
            try:
                return ask()
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                if attempts <= 0 or cause.fatal() or cause.code() in final:
                    raise
                attempts -= 1
                logger.warning("asking for offsets failed, trying again: %s", cause.str())
                if cause.code() not in UNKNOWN_PARTITION_ERRORS:
                    self.close()
                time.sleep(self._options.retry_interval_s)


def _check_complete(limit: Limit, partitions: Iterable[Key]) -> None:
    """Check that a limit names all partitions and no others, as Spark's connector does."""
    assigned, named = set(partitions), set(limit.values)
    if named == assigned:
        return
    missing, beyond = sorted(assigned - named), sorted(named - assigned)
    parts = []
    if missing:
        parts.append(f"it lacks {listed(missing)}")
    if beyond:
        parts.append(f"it names {listed(beyond)}, which the source doesn't read")
    hint = " (use -2 for earliest, -1 for latest)" if limit.kind == "offsets" else ""
    raise OptionError(limit.option, f"name each partition that is read{hint}: {'; '.join(parts)}")


def listed(keys: list[Key]) -> str:
    """The first five partitions as text, for errors."""
    shown = ", ".join(f"{topic} [{partition}]" for topic, partition in keys[:5])
    return shown if len(keys) <= 5 else f"{shown} and {len(keys) - 5} more"
