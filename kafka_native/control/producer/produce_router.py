"""Passes topics, partitions and leaders from the metadata to the engine, for produced messages.

Thread: the control thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_native.control.brokers.pool import BrokerPool
from kafka_native.control.errors import MISSING_TOPIC_ERRORS, SEQUENCE_LOST_ERRORS
from kafka_native.control.metadata import Metadata, Topic
from kafka_native.control.requests import NEVER, NO_MEMORY_S, Call
from kafka_native.errors import KafkaError, from_status

if TYPE_CHECKING:
    from kafka_native._native.engine import Engine, Event

EXPIRE_EVERY_S = 0.5
"""How often messages are checked against message.timeout.ms."""


class ProduceRouter:
    """The manager that routes produced partitions to their leaders."""

    def __init__(
        self,
        engine: Engine,
        metadata: Metadata,
        pool: BrokerPool,
        *,
        waits_for_partitions: bool = True,
    ) -> None:
        """Registers for events of ``metadata``.

        ``waits_for_partitions``: a message for a partition that the topic doesn't have waits for it
        (topic.metadata.propagation.max.ms). False also refuses messages for a topic that doesn't
        exist, once one was reported.
        """
        self._propagation_s = metadata.propagation_s if waits_for_partitions else 0.0
        self._refuses_missing = not waits_for_partitions
        self._engine = engine
        self._metadata = metadata
        self._pool = pool
        self._expire_at = 0.0
        self._produced: set[str] = set()
        self._short: set[str] = set()  # topics with staged messages for unknown partitions
        self._asked: list[tuple[str, float, Callable[[int | KafkaError], None]]] = []
        self._closed: KafkaError | None = None
        self._unreported: dict[str, Topic] = {}  # the engine had no memory for their partitions
        self._report_at = 0.0
        metadata.on_topic.append(self._on_topic)
        metadata.on_failure.append(self._on_failure)
        metadata.uses.append(self._used_since)
        metadata.on_forgotten.append(self._on_forgotten)

    @property
    def produces(self) -> bool:
        """Whether the application has produced, or is about to produce, a message."""
        return bool(self._produced)

    def on_topic_wanted(self, event: Event, now: float) -> None:
        """Handles the first staged message whose topic or partition isn't known."""
        name = self._engine.topics[event.token - 1].name
        self._produced.add(name)
        topic = self._metadata.want(name, now, create=True)
        if topic.known:
            self._on_topic(topic)
            self._find_partitions(now)

    def ask(
        self, name: str, deadline: float, done: Callable[[int | KafkaError], None], now: float
    ) -> None:
        """Passes a topic's partition count to ``done``, or an error, by ``deadline``."""
        if self._closed is not None:
            done(self._closed)
            return
        self._asked.append((name, deadline, done))
        self._produced.add(name)
        topic = self._metadata.want(name, now, create=True)
        if topic.known:
            self._on_topic(topic)

    def close(self, error: KafkaError) -> None:
        """Fails unfinished calls with ``error``: the client is closing."""
        self._closed = error
        self._answer(None, error)

    def _answer(self, name: str | None, answer: int | KafkaError) -> None:
        due = [done for asked, _, done in self._asked if name is None or asked == name]
        self._asked = [entry for entry in self._asked if name is not None and entry[0] != name]
        for done in due:
            done(answer)

    def _expire_asked(self, now: float) -> float:
        """Fails calls whose deadline is over. Returns the next deadline."""
        if not self._asked:
            return NEVER
        due = [entry for entry in self._asked if entry[1] <= now]
        self._asked = [entry for entry in self._asked if entry[1] > now]
        for name, _, done in due:
            done(
                KafkaError(KafkaError._TIMED_OUT, f"topic {name}: its partitions aren't known yet")
            )
        return min((deadline for _, deadline, _ in self._asked), default=NEVER)

    def on_partition_error(self, event: Event, now: float) -> None:
        """Refreshes the leader after it has rejected a batch: it may have moved.

        A leader whose replicas don't confirm may be cut off from the cluster. So another broker is
        asked, which may know a newer leader.
        """
        broker = self._pool.by_handle(event.broker)
        if event.error_code == KafkaError.REQUEST_TIMED_OUT and broker is not None:
            self._pool.avoid(broker.node_id)
        name = self._engine.topics[event.token - 1].name
        if name not in self._metadata.topics:  # it was just forgotten, with a message on its way
            self._metadata.want(name, now, create=True)
        self._metadata.on_hint(name, event.partition, event.leader_id, event.leader_epoch, now)

    def fatal_error(self, event: Event) -> KafkaError:
        """The error of a partition that has lost its delivery guarantee.

        The producer ends with it.
        """
        where = f"{self._engine.topics[event.token - 1].name} [{event.partition}]"
        if event.error_code in SEQUENCE_LOST_ERRORS:
            error = KafkaError(event.error_code)
            text = f"{where}: {error.str()}: the broker has lost messages that it acknowledged "
            text += "or may have written"
            return KafkaError(event.error_code, text, fatal=True)
        cause = KafkaError(event.error_code) if event.error_code else from_status(event.status)
        text = f"{where}: a message failed ({cause.str()}), and enable.gapless.guarantee "
        text += "allows no message after it"
        return KafkaError(KafkaError._GAPLESS_GUARANTEE, text, fatal=True)

    def _on_topic(self, topic: Topic) -> None:
        if topic.name not in self._produced or not topic.partitions:
            return
        leaders = [
            self._pool.data_handle(partition.leader, topic.name, number)
            for number, partition in enumerate(topic.partitions)
        ]
        try:
            self._engine.topic(topic.name).set_partitions(
                topic.id, leaders, [partition.epoch for partition in topic.partitions]
            )
        except MemoryError:
            self._unreported[topic.name] = topic  # poll() tries again
            return
        self._unreported.pop(topic.name, None)
        self._short.add(topic.name)  # perhaps: the next check decides
        self._answer(topic.name, len(leaders))

    def _find_partitions(self, now: float) -> None:
        """Looks for the partitions of staged messages. Fails messages that have waited too long."""
        for name in list(self._short):
            topic = self._metadata.topics.get(name)
            if topic is None or not topic.known or topic.updated_at is None:
                continue  # their messages wait for the topic
            if self._engine.topic(name).fail_unknown(topic.updated_at - self._propagation_s):
                self._metadata.want_partition(name, len(topic.partitions), now)
            else:
                self._short.discard(name)

    def _on_failure(self, topic: Topic, error: KafkaError) -> None:
        self._unreported.pop(topic.name, None)
        if topic.name in self._produced:
            produced, code = self._engine.topic(topic.name), error.code()
            if self._refuses_missing and code in MISSING_TOPIC_ERRORS:
                produced.refuse()  # first: a callback that gets the error may produce at once
                code = (
                    KafkaError.UNKNOWN_TOPIC_OR_PART if code == KafkaError._UNKNOWN_TOPIC else code
                )
            produced.fail(0, code, error.str())
            self._answer(topic.name, error)

    def _used_since(self, since: float) -> list[str]:
        """The topics with queued messages, or with messages produced since a time."""
        asked = {name for name, _, _ in self._asked}
        return [
            name
            for name in self._produced
            if name in asked or self._engine.topic(name).used_since(since)
        ]

    def _on_forgotten(self, name: str, now: float) -> None:
        if name not in self._produced:
            return
        if self._engine.topic(name).forget():
            self._unreported.pop(name, None)
        else:  # a message was produced meanwhile
            self._metadata.want(name, now, create=True)

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        if now >= self._expire_at:
            self._expire_at = now + EXPIRE_EVERY_S
            self._engine.expire()
            self._find_partitions(now)
        return [], min(self._expire_at, self._report_unreported(now), self._expire_asked(now))

    def _report_unreported(self, now: float) -> float:
        """Passes the partitions to the engine that it had no memory for.

        Returns the next attempt's time.
        """
        if self._unreported and now >= self._report_at:
            self._report_at = now + NO_MEMORY_S
            for topic in list(self._unreported.values()):
                self._on_topic(topic)
        return self._report_at if self._unreported else NEVER
