"""A consumer's managers: creates them, connects them and passes calls of the public API on.

Thread: the control thread only; the public API gets here through `MainThread.run()`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafka_native.control.brokers.coordinator import Coordinator
from kafka_native.control.consumer.commits import CommitManager, OffsetFiles, OnCommit
from kafka_native.control.consumer.fetches import FetchManager
from kafka_native.control.group.classic_membership import ClassicMembership
from kafka_native.control.group.consumer_membership import ConsumerMembership
from kafka_native.control.group.membership import GroupSettings, Member, Membership, PollWatch
from kafka_native.control.group.rebalance import Kind, Listener, Rebalance
from kafka_native.control.group.subscription import Subscription
from kafka_native.control.positions import Key, OffsetPosition, reset_of
from kafka_native.control.requests import Backoff, Call
from kafka_native.control.settings import ISOLATION_LEVELS
from kafka_native.errors import KafkaError
from kafka_native.types import OFFSET_INVALID

if TYPE_CHECKING:
    from kafka_native._native.engine import Engine
    from kafka_native.config import Config
    from kafka_native.control.assignors import Assignor
    from kafka_native.control.context import ManagerContext

UNSUBSCRIBED = "the consumer unsubscribed from all topics"
CLOSED = "the consumer is being closed"
DROPPED = "the consumer was dropped without being closed"
"""The leave reasons that the coordinator gets (KIP-800)."""


class Behaviour(NamedTuple):
    """The choices in which kafka_native and confluent_kafka differ. The defaults are ours."""

    unsubscribe_calls_back: bool = True
    """`unsubscribe()` runs the callback and waits. False: the next poll() runs it."""
    eof_when_empty: bool = False
    """An end of partition is reported only after a fetch without messages."""
    commits_any_partition: bool = False
    """A subscribed consumer may commit partitions that aren't assigned to it."""
    reports_missing_topics: bool = True
    """A missing topic is an error also after `assign()` and with KIP-848."""
    reports_unmatched_patterns: bool = False
    """A pattern that matches no topic is an error, in the classic protocol."""
    has_unknown_partitions: bool = True
    """A partition that isn't in the metadata yet may be new: calls wait for it."""
    no_partition: int | None = None
    """The partition of an error's Message that concerns a whole topic, or no topic."""
    fatal_flag: bool = True
    """Whether the errors after a fatal error are ``fatal()`` themselves."""


USUAL_BEHAVIOUR = Behaviour()


class Hooks:
    """The functions by which managers reach the application."""

    def __init__(
        self,
        on_error: Callable[[str | None, int | None, int, KafkaError], None],
        on_fatal: Callable[[KafkaError], None],
        on_commit: OnCommit,
        call_back: Callable[[Callable[[], None]], None],
        polls: Callable[[], tuple[int, bool]],
        waits: Callable[[], tuple[int, bool]],
        poll_times: Callable[[bool], tuple[int, int, int, int]] = lambda end: (0, 0, 0, 0),
        on_silent_commit: OnCommit = lambda error, partitions: None,
    ) -> None:
        """Stores the arguments."""
        self.on_error = on_error
        """Adds an error to the messages of the next poll().

        It takes a topic, a partition, an offset and the error.
        """
        self.on_fatal = on_fatal
        self.on_commit = on_commit
        self.call_back = call_back
        """Queues a function for the next poll()."""
        self.polls = polls
        """How many polls the application has begun, and whether it is inside one."""
        self.waits = waits
        """The same, but "inside" is False once the poll has taken messages.

        They aren't processed yet.
        """
        self.poll_times = poll_times
        """`ConsumerCore._poll_times`: the times of the application's polls, for statistics."""
        self.on_silent_commit = on_silent_commit
        """Gets the outcome of a commit whose caller waits for it."""

    def on_group_error(self, error: KafkaError) -> None:
        """Reports an error that concerns no partition."""
        self.on_error(None, None, OFFSET_INVALID, error)

    def on_topic_error(self, topic: str, error: KafkaError) -> None:
        """Reports an error that concerns a whole topic."""
        self.on_error(topic, None, OFFSET_INVALID, error)


class ConsumerControl:
    """The control plane of one consumer: its assignment, its group membership and its commits."""

    def __init__(
        self,
        context: ManagerContext,
        config: Config,
        hooks: Hooks,
        assignors: list[Assignor],
        *,
        behaviour: Behaviour = USUAL_BEHAVIOUR,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Creates the managers; the control thread isn't running yet."""
        self._behaviour = behaviour
        self._context = context
        self._config = config
        self._hooks = hooks
        self.polls, self.poll_times = hooks.polls, hooks.poll_times
        self._logs = context.pool.logs
        self._clock = clock
        self.settings = GroupSettings.of(config)
        self._timeout_s = self.settings.timeout_s
        self.member = Member(
            config.text("group.id"),
            config.text("group.instance.id") or None,
            config.text("group.protocol"),
        )
        self.coordinator = Coordinator(
            context.pool,
            self.member.group_id,
            timeout_s=self._timeout_s,
            query_interval_s=config.integer("coordinator.query.interval.ms") / 1000,
            backoff=self._backoff(),
            clock=clock,
        )
        self.fetches = self._make_fetches()
        self.commits = self._make_commits()
        self.subscription = self._make_subscription()
        self.rebalance = Rebalance(
            self.fetches,
            self.commits,
            call_back=hooks.call_back,
            post=context.work.post,
            clock=clock,
            log=self._logs["cgrp"],
        )
        self.membership: Membership = (
            self._make_consumer()
            if self.member.protocol == "consumer"
            else self._make_classic(assignors)
        )
        self.watch = PollWatch(
            self.membership,
            self._is_subscribed,
            hooks.polls,
            interval_s=self.settings.rebalance_timeout_s,
            on_error=hooks.on_group_error,
        )
        self.commits.subscribed = self._is_subscribed
        self.fetches.on_ended = self._on_ended
        self.managers = (
            IdleMemory(context.engine),
            self.subscription,
            self.watch,
            self.membership,
            self.commits,
            self.coordinator,
        )
        """All managers except ``fetches``, in the order in which the control thread polls them."""

    # --- the parts ---

    def _make_fetches(self) -> FetchManager:
        config, context = self._config, self._context
        return FetchManager(
            context.engine,
            context.metadata,
            context.pool,
            reset=reset_of(config.text("auto.offset.reset")),
            resets={
                topic: reset_of(str(config.of_topic(topic, "auto.offset.reset")))
                for topic in config.own_topics
            },
            isolation_level=ISOLATION_LEVELS[config.text("isolation.level")],
            timeout_s=self._timeout_s,
            create_topics=config.flag("allow.auto.create.topics"),
            on_error=self._hooks.on_error,
            replica_s=config.integer("metadata.max.age.ms") / 1000,
            error_s=config.integer("fetch.error.backoff.ms") / 1000,
            reports_missing_topics=self._behaviour.reports_missing_topics,
            has_unknown_partitions=self._behaviour.has_unknown_partitions,
            logs=self._logs,
            clock=self._clock,
        )

    def _make_commits(self) -> CommitManager:
        config = self._config
        files = None
        if config.text("offset.store.method") == "file":
            sync_ms = config.integer("offset.store.sync.interval.ms")
            sync_s = sync_ms / 1000 if sync_ms > 0 else float(sync_ms)
            files = OffsetFiles(
                config.text("offset.store.path"), self.member.group_id, sync_interval_s=sync_s
            )
        keeps = config.text("offset.store.method") != "none" and (
            self.member.group_id != "" or files is not None
        )
        return CommitManager(
            self.member,
            self.coordinator,
            self.fetches,
            auto_commit=keeps and config.flag("enable.auto.commit"),
            interval_s=config.integer("auto.commit.interval.ms") / 1000,
            timeout_s=self._timeout_s,
            on_commit=self._hooks.on_commit,
            on_silent_commit=self._hooks.on_silent_commit,
            auto_store=config.flag("enable.auto.offset.store"),
            polls=self._hooks.waits,
            commits_any_partition=self._behaviour.commits_any_partition,
            files=files,
            log=self._logs["consumer"],
            backoff=self._backoff(),
            clock=self._clock,
        )

    def _make_classic(self, assignors: list[Assignor]) -> ClassicMembership:
        return ClassicMembership(
            self.member,
            self.coordinator,
            self._context.pool,
            self._context.metadata,
            self.subscription,
            self.rebalance,
            assignors,
            self.settings,
            on_error=self._hooks.on_group_error,
            on_fatal=self._hooks.on_fatal,
            logger=self._logs["cgrp"],
            clock=self._clock,
        )

    def _make_consumer(self) -> ConsumerMembership:
        return ConsumerMembership(
            self.member,
            self.coordinator,
            self._context.pool,
            self._context.metadata,
            self.subscription,
            self.rebalance,
            self.settings,
            assignor=self._config.text("group.remote.assignor") or None,
            on_error=self._hooks.on_group_error,
            on_fatal=self._hooks.on_fatal,
            logger=self._logs["cgrp"],
            clock=self._clock,
        )

    def _backoff(self) -> Backoff:
        return Backoff(self.settings.retry_s, self.settings.retry_max_s)

    def _make_subscription(self) -> Subscription:
        config = self._config
        return Subscription(
            self._context.metadata,
            refresh_s=config.integer("topic.metadata.refresh.interval.ms") / 1000,
            timeout_s=self._timeout_s,
            backoff=self._backoff(),
            create_topics=config.flag("allow.auto.create.topics"),
            excluded=(config.text("topic.blacklist") or "").split(","),
            server_side=self.member.protocol == "consumer",
            reports_missing=self._behaviour.reports_missing_topics
            or self.member.protocol == "classic",
            reports_unmatched=self._behaviour.reports_unmatched_patterns,
            on_error=self._hooks.on_topic_error,
            clock=self._clock,
        )

    def _is_subscribed(self) -> bool:
        return bool(self.subscription.wanted)

    def _on_ended(self, keys: list[Key]) -> None:
        """Handles topics that were deleted and recreated."""
        if self._is_subscribed():
            self.membership.on_ended(keys)
        else:
            self.rebalance.renew(keys, silent=True)

    # --- for the public API ---

    def subscribe(
        self,
        topics: Iterable[str],
        listeners: Mapping[Kind, Listener],
        now: float,
        initial_offsets: Mapping[Key, OffsetPosition] | None = None,
    ) -> None:
        """Joins the group with these topics and patterns. ValueError: a pattern is invalid.

        ``initial_offsets``: the start of partitions for which the group has no offset.
        """
        self._logs["consumer"].debug("group %s: subscribes to %s", self.member.group_id, topics)
        if not self.subscription.wanted and self.fetches.assigned:
            self.unassign(list(self.fetches.assigned), lambda: None)
        self.subscription.replace(topics, now)
        self.rebalance.listeners = dict(listeners)
        self.fetches.initial_offsets = dict(initial_offsets or {})
        self.membership.subscribe(now)

    def unsubscribe(self, done: Callable[[], None], now: float) -> None:
        """Gives up all partitions and leaves the group."""
        self._leave(UNSUBSCRIBED, done, now)

    def _leave(self, reason: str, done: Callable[[], None], now: float) -> None:
        if self.subscription.wanted:
            self._logs["consumer"].debug("group %s: leaves: %s", self.member.group_id, reason)
            self.subscription.replace([], now)

        def left() -> None:
            if not self.subscription.wanted:
                self.fetches.forget_pauses()
            done()

        self.membership.leave(reason, left, now)

    def unassign(self, keys: Iterable[Key], done: Callable[[], None]) -> None:
        """Stops reading these partitions and commits their stored offsets (enable.auto.commit).

        Calls ``done`` at the end.
        """
        self.rebalance.remove(keys, done)

    def close(self, done: Callable[[], None], now: float) -> None:
        """Leaves the group, commits stored offsets (enable.auto.commit), waits for commits."""
        self._leave(CLOSED, lambda: self.unassign(list(self.fetches.assigned), done), now)

    def quit(self, done: Callable[[], None]) -> None:
        """Leaves the group for a consumer that was dropped without `close()`; commits nothing."""
        self.membership.quit(DROPPED, done, self._clock())

    def on_close(self, error: KafkaError) -> None:
        """Fails unfinished calls when the control thread ends."""
        self.membership.close()
        self.commits.close(error)
        self.fetches.close(error)


KEPT_BYTES = 1 << 20
"""The amount of free memory that the engine always keeps."""
CHECK_INTERVAL_S = 1.0
IDLE_CHECK_INTERVAL_S = 10.0
"""The interval while there is no memory to free."""


class IdleMemory:
    """Frees the engine's unused memory in idle times, as `ProduceRouter` does for a producer."""

    def __init__(self, engine: Engine) -> None:
        """Checks ``engine.memory``."""
        self._engine = engine
        self._check_at = 0.0
        self._idle_bytes = 0

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        if now < self._check_at:
            return [], self._check_at
        before = self._idle_bytes
        queued_bytes, self._idle_bytes = self._engine.memory
        # If the amount changes between two checks, the memory is in use, even if nothing is queued
        # right now.
        if self._idle_bytes > KEPT_BYTES and self._idle_bytes == before and not queued_bytes:
            self._engine.expire()
        self._check_at = now + (
            CHECK_INTERVAL_S if self._idle_bytes > KEPT_BYTES else IDLE_CHECK_INTERVAL_S
        )
        return [], self._check_at
