"""A group member's subscription: topic names, and patterns that match the cluster's topics.

A pattern is a regular expression that begins with ``^``. With the consumer protocol (KIP-848) the
broker matches it. ``server_side`` is True then, and the client matches nothing.

Thread: the control thread only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable

from kafka_native.control.metadata import Metadata, Topic, is_topic_name
from kafka_native.control.requests import ANY_BROKER, NEVER, Backoff, Call, Reply
from kafka_native.errors import KafkaError
from kafka_native.protocol.metadata import MetadataRequest


class Subscription:
    """The subscribed names and patterns, and the topics that they stand for now."""

    def __init__(
        self,
        metadata: Metadata,
        *,
        refresh_s: float,
        timeout_s: float,
        backoff: Backoff,
        create_topics: bool,
        excluded: Iterable[str] = (),
        server_side: bool = False,
        reports_missing: bool = True,
        reports_unmatched: bool = False,
        on_error: Callable[[str, KafkaError], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``refresh_s`` is the interval for matching patterns; <= 0: match once.

        ``excluded``: patterns of topics to ignore (topic.blacklist). ``on_error(topic, error)``
        reports to the application, once per unavailable topic (``reports_missing``) and once per
        pattern without a topic (``reports_unmatched``).
        """
        self._metadata = metadata
        self._refresh_s = refresh_s if refresh_s > 0 else NEVER
        self._timeout_s = timeout_s
        self._backoff = backoff
        self._create_topics = create_topics
        self._excluded = [re.compile(each) for each in excluded if each]
        self._reports_missing = reports_missing
        self._reports_unmatched = reports_unmatched
        self._unknown_errors = {KafkaError._UNKNOWN_TOPIC}
        if reports_unmatched:  # as in librdkafka, an invalid name is an unknown topic, too
            self._unknown_errors.add(KafkaError.TOPIC_EXCEPTION)
        self._on_error = on_error
        self._clock = clock
        self._match_at = NEVER
        self._matching = False
        self._patterns: list[re.Pattern[str]] = []
        self._counts: dict[str, int] = {}
        self._said: dict[str, int] = {}
        self.server_side = server_side
        self.ready = True
        """Whether ``topics`` is complete.

        It is False until the patterns are matched for the first time. Becoming complete counts as a
        change.
        """
        self.wanted: list[str] = []
        """The names and patterns as the application gave them."""
        self.topics: list[str] = []
        """The given names and the topics that match the patterns; sorted."""
        self.on_change: list[Callable[[], None]] = []
        """Called when ``topics`` or a topic's partition count changes, except by `replace()`.
        """
        metadata.on_topic.append(self._on_topic)
        metadata.on_failure.append(self._on_failure)
        metadata.on_missing.append(self._report_error)
        metadata.uses.append(lambda since: self.topics)

    @property
    def names(self) -> list[str]:
        """The topics given by name."""
        return [each for each in self.wanted if not each.startswith("^")]

    @property
    def patterns(self) -> list[str]:
        """The patterns, with the ``^``."""
        return [each for each in self.wanted if each.startswith("^")]

    def replace(self, wanted: Iterable[str], now: float) -> None:
        """Replaces the subscription; empty: unsubscribes. ValueError: a pattern is invalid."""
        wanted = list(dict.fromkeys(wanted))
        patterns = (
            [] if self.server_side else [_compiled(each) for each in wanted if each.startswith("^")]
        )
        self.wanted = wanted
        self._patterns = patterns
        self._said.clear()
        self.ready = not patterns
        self._match_at = now if patterns else NEVER
        kept = {name for name in self.topics if any(pattern.search(name) for pattern in patterns)}
        self._set_topics(kept | set(self.names), now)

    def partition_count(self, name: str) -> int:
        """A topic's known number of partitions; 0: unknown."""
        topic = self._metadata.topics.get(name)
        return len(topic.partitions) if topic is not None and topic.known else 0

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        if self._matching or now < self._match_at:
            return [], NEVER if self._matching else self._match_at
        self._matching = True
        message = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return [Call(message, ANY_BROKER, now + self._timeout_s, self._on_reply)], NEVER

    def _on_reply(self, reply: Reply) -> None:
        self._matching = False
        now = self._clock()
        if isinstance(reply, KafkaError) or reply.error_code:
            self._match_at = now + self._backoff.next_s()
            return
        self._backoff.reset()
        self._match_at = now + self._refresh_s if self._patterns else NEVER
        if not self._patterns:
            return
        there = [
            topic.name or ""
            for topic in reply.topics
            if not topic.error_code and not topic.is_internal
        ]
        matched = {name for name in there if is_topic_name(name) and self._is_matched(name)}
        changed = self._set_topics(matched | set(self.names), now)
        if changed or not self.ready:
            self.ready = True
            self._notify()
        self._metadata.take(reply)
        if self._reports_unmatched:
            for pattern in self._patterns:
                if not any(pattern.search(name) for name in matched):
                    self._report(pattern.pattern, KafkaError.UNKNOWN_TOPIC_OR_PART)

    def _is_matched(self, name: str) -> bool:
        return any(each.search(name) for each in self._patterns) and not any(
            each.search(name) for each in self._excluded
        )

    def _set_topics(self, topics: set[str], now: float) -> bool:
        found = sorted(topics)
        changed = found != self.topics
        dropped = set(self.topics) - topics
        self.topics = found
        self._metadata.forget(dropped)
        for name in dropped:
            self._counts.pop(name, None)
        for name in found:
            self._metadata.want(name, now, create=self._create_topics)
            self._counts.setdefault(name, self.partition_count(name))
        return changed

    def _notify(self) -> None:
        for listener in self.on_change:
            listener()

    def _on_topic(self, topic: Topic) -> None:
        self._said.pop(topic.name, None)
        known = self._counts.get(topic.name)
        if known is None:
            return
        count = self._counts[topic.name] = self.partition_count(topic.name)
        if count != known:
            self._notify()

    def _on_failure(self, topic: Topic, error: KafkaError) -> None:
        self._report_error(topic, error)
        if self._counts.get(topic.name):
            self._counts[topic.name] = 0
            self._notify()

    def _report_error(self, topic: Topic, error: KafkaError) -> None:
        """Reports an unavailable topic to the application, once until the topic exists."""
        if topic.name not in self._counts or not self._reports_missing:
            return
        code = (
            KafkaError.UNKNOWN_TOPIC_OR_PART
            if error.code() in self._unknown_errors
            else error.code()
        )
        self._report(topic.name, code)

    def _report(self, name: str, code: int) -> None:
        if self._said.get(name) != code:
            self._said[name] = code
            text = f"Subscribed topic not available: {name}: {KafkaError(code).str()}"
            self._on_error(name, KafkaError(code, text))


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
