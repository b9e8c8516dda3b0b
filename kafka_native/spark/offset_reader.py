"""Requests for the partitions and offsets of the cluster, on the driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Final, TypeVar

from kafka_native import Consumer, KafkaError, KafkaException, TopicPartition
from kafka_native.internal import listed_topic_id
from kafka_native.spark.client_pool import admitted
from kafka_native.spark.errors import OptionError, PartitionGoneError, StaleMetadataError
from kafka_native.spark.log import logger
from kafka_native.spark.offsets import (
    EARLIEST,
    LATEST,
    UNKNOWN_PARTITION_ERRORS,
    Key,
    Limit,
    listed,
)
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.patterns import topic_pattern

T = TypeVar("T")

_INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)


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
        """The ids of the topics that `partitions` has found; empty for brokers that send no ids."""

    @property
    def consumer(self) -> Consumer:
        """The consumer for the requests, made on first use."""
        if self._consumer is None:
            # The consumer is only used for offsets, so it never fetches.
            overrides = {
                "topic.metadata.propagation.max.ms": round(self._options.propagation_s * 1000)
            }
            self._consumer = admitted(Consumer({**self._options.consumer, **overrides}))
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
        return sorted(self._with_retries(self._partitions))

    def cluster_id(self) -> str:
        """The id of the cluster; empty if it sends none."""
        return self._with_retries(
            lambda: self.consumer.cluster_id(self._options.api_timeout_s) or ""
        )

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
                    code = each.error.code()
                    # For unknown partitions the client has repeated the request itself.
                    is_gone = code in UNKNOWN_PARTITION_ERRORS
                    raise (PartitionGoneError if is_gone else KafkaException)(
                        KafkaError(code, text)
                    )
            return {(each.topic, each.partition): each.offset for each in found}

        return self._with_retries(ask)

    def _partitions(self) -> list[Key]:
        subscription = self._options.subscription
        if subscription.pattern:
            pattern = topic_pattern(subscription.pattern)
            topics = self.consumer.list_topics(timeout=self._options.api_timeout_s).topics
            names = [
                name for name in topics if name not in _INTERNAL_TOPICS and pattern.fullmatch(name)
            ]
            self.topic_ids = {name: listed_topic_id(topics[name]) for name in names}
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
            raise StaleMetadataError(
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
            is_unknown = error.code() in UNKNOWN_PARTITION_ERRORS
            raise (StaleMetadataError if is_unknown else KafkaException)(
                KafkaError(error.code(), f"topic {name}: {error.str()}")
            )
        self.topic_ids[name] = listed_topic_id(topic)
        return [(name, number) for number in topic.partitions]

    def _with_retries(self, ask: Callable[[], T]) -> T:
        """Send a request with retries. A partition that is gone is reported at once."""
        attempts = self._options.fetch_retries
        while True:
            try:
                return ask()
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                if attempts <= 0 or cause.fatal() or isinstance(error, PartitionGoneError):
                    raise
                attempts -= 1
                logger.warning("asking for offsets failed, trying again: %s", cause.str())
                if not isinstance(error, StaleMetadataError):
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
