"""A share consumer's managers, held together, as `consuming` does for a consumer.

Thread: the control thread only; the public API gets here through `MainThread.run()` and `post()`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_native.control.backoff import Backoff
from kafka_native.control.brokers.coordinator import Coordinator
from kafka_native.control.consumer.share_group import Acquired, Limits, Outcome, ShareSessions
from kafka_native.control.group.membership import GroupSettings, PollWatch
from kafka_native.control.member import Member
from kafka_native.control.share_membership import ShareMembership
from kafka_native.errors import KafkaError

if TYPE_CHECKING:
    from kafka_native.config import Config
    from kafka_native.control.main_thread import MainThread
    from kafka_native.control.metadata import Topic

UNSUBSCRIBED = "the share consumer unsubscribed from all topics"
CLOSED = "the share consumer is being closed"
DROPPED = "the share consumer was dropped without being closed"


@dataclass(slots=True)
class ShareHooks:
    """How the managers reach the application."""

    on_records: Callable[[list[Acquired]], None]
    on_outcomes: Callable[[list[Outcome]], None]
    on_error: Callable[[str | None, int | None, KafkaError], None]
    """A message of its next poll()."""
    on_fatal: Callable[[KafkaError], None]
    polls: Callable[[], tuple[int, bool]]
    """How many polls it has begun, and whether it is inside one."""


class ShareConsuming:
    """One share consumer's side of the cluster: its membership, and its sessions with the leaders."""

    def __init__(
        self, main: MainThread, config: Config, hooks: ShareHooks, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Makes the managers and puts them into the main thread, which isn't running yet."""
        self._metadata = main.metadata
        self._hooks = hooks
        self._settings = settings = GroupSettings.of(config)
        self.member = Member(config.text("group.id"), None, "share")
        self._log = main.pool.logs["consumer"]
        self.coordinator = Coordinator(
            main.pool,
            self.member.group_id,
            timeout_s=settings.timeout_s,
            query_interval_s=config.integer("coordinator.query.interval.ms") / 1000,
            backoff=self._backoff(),
            clock=clock,
        )
        self.sessions = ShareSessions(
            self.member,
            main.metadata,
            Limits(
                config.integer("fetch.wait.max.ms"),
                config.integer("fetch.min.bytes"),
                config.integer("fetch.max.bytes"),
                config.integer("max.poll.records"),
            ),
            timeout_s=settings.timeout_s,
            backoff=self._backoff,
            on_records=hooks.on_records,
            on_outcomes=hooks.on_outcomes,
            on_error=hooks.on_error,
            waits=lambda: hooks.polls()[1],
            log=main.pool.logs["fetch"],
            clock=clock,
        )
        self.membership = ShareMembership(
            self.member,
            self.coordinator,
            main.pool,
            settings,
            on_assigned=self.sessions.assign,
            on_error=self._on_group_error,
            on_fatal=hooks.on_fatal,
            logger=main.pool.logs["cgrp"],
            clock=clock,
        )
        self.watch = PollWatch(
            self.membership,
            lambda: bool(self.membership.topics),
            hooks.polls,
            interval_s=settings.rebalance_timeout_s,
            on_error=self._on_group_error,
        )
        self._missing: set[str] = set()  # topics that don't exist, as the application knows
        main.metadata.on_topic.append(lambda topic: self._missing.discard(topic.name))
        main.metadata.on_missing.append(self._on_missing)
        main.metadata.on_failure.append(self._on_failure)
        main.managers += [self.watch, self.membership, self.sessions, self.coordinator]
        main.on_close.append(self._on_close)

    def _backoff(self) -> Backoff:
        return Backoff(self._settings.retry_s, self._settings.retry_max_s)

    def _on_group_error(self, error: KafkaError) -> None:
        self._hooks.on_error(None, None, error)

    def _on_missing(self, topic: Topic, error: KafkaError) -> None:
        if topic.name in self.membership.topics and topic.name not in self._missing:
            self._missing.add(topic.name)
            self._hooks.on_error(topic.name, None, error)

    def _on_failure(self, topic: Topic, error: KafkaError) -> None:
        if error.code() == KafkaError._UNKNOWN_TOPIC:
            self._on_missing(topic, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, error.str()))
        elif topic.name in self.membership.topics:
            self._hooks.on_error(topic.name, None, error)

    # --- for the public API ---

    def subscribe(self, topics: list[str], now: float) -> None:
        """Joins the group with these, at least one, in place of those before."""
        self._log.debug("share group %s: subscribes to %s", self.member.group_id, topics)
        for name in set(self.membership.topics) - set(topics):
            self._metadata.forget(name)
        for name in topics:
            self._metadata.want(name, now)
        self._missing.clear()
        self.membership.replace(topics, now)

    def unsubscribe(self, done: Callable[[], None], now: float) -> None:
        """Ends the sessions, so that what isn't acknowledged is released, and leaves the group; then ``done``."""
        self._leave(UNSUBSCRIBED, done, now)

    def close(self, done: Callable[[], None], now: float) -> None:
        """The same, for good."""
        self._leave(CLOSED, done, now)

    def quit(self, done: Callable[[], None]) -> None:
        """The application is gone without `close()`: leaves the group. With the sessions' connections, locks end."""
        self.membership.quit(DROPPED, done, time.monotonic())

    def _leave(self, reason: str, done: Callable[[], None], now: float) -> None:
        for name in self.membership.topics:
            self._metadata.forget(name)
        self.membership.topics = []
        left = [2]

        def ended() -> None:
            left[0] -= 1
            if not left[0]:
                done()

        # Beside each other: neither needs the other's answer.
        self.sessions.end(ended)
        self.membership.leave(reason, ended, now)

    def _on_close(self, error: KafkaError) -> None:
        self.membership.close()
        self.sessions.close()
