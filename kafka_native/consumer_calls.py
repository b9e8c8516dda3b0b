"""The private half of a consumer: each call checks its arguments and starts work.

It posts the work to the control thread and returns a PendingCall. `kafka_native.Consumer` waits for
the result in its thread, `kafka_native.aio.AIOConsumer` in its event loop.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from kafka_native._native.consumer_core import ConsumerCore
from kafka_native._native.message import Message
from kafka_native._native.primitives import exact_text
from kafka_native.cleaning import is_utf8
from kafka_native.client_core import ClientCore, UninitializedClient
from kafka_native.consumer_events import ConsumerCallbacks
from kafka_native.control.consumer.consumer_control import Behaviour, ConsumerControl
from kafka_native.control.consumer.fetches import Assigned, Given
from kafka_native.control.group.rebalance import Kind, Listener
from kafka_native.control.positions import OFFSET_TAIL_BASE, Key
from kafka_native.control.positions import position_of as offset_position_of
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.pending_call import PendingCall, ReadyCall, raise_error
from kafka_native.types import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    PARTITION_UA,
    AnyMessage,
    ConsumerGroupMetadata,
    TopicPartition,
)

T = TypeVar("T")

CLOSED_TEXT = "Consumer closed"
LOGICAL_OFFSETS = (OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, OFFSET_INVALID)


class ConsumerCalls(ConsumerCore):
    """The private half of a consumer.

    Each ``_begin_`` method belongs to the public method of that name.
    """

    _client = UninitializedClient()
    _behaviour = Behaviour()
    _eager = False  # whether to connect without work, see `ClientCore`
    _host: ClientCore | None = None  # the shared client of which this is a role, in the constructor
    _control: ConsumerControl
    _callbacks: ConsumerCallbacks
    _timeout_s: float
    _auto_stores: bool
    _uses_offset_files: bool
    _rebalance_cb: Callable[..., object] | None
    _rebalancing: Kind | None
    """The rebalance step whose callback is running, on the application's thread."""
    _handled: bool
    """Whether that callback has changed the assignment itself."""

    def _check_open(self) -> None:
        self._client.check_open(CLOSED_TEXT)

    def _check_usable(self) -> None:
        """Checks the consumer before a change.

        RuntimeError: it is closed. KafkaException: _FATAL, after a fatal error.
        """
        self._client.check_open(CLOSED_TEXT)
        if self._client.fatal is not None:
            raise KafkaException(
                self._client.fatal_error(), hint="close() this consumer and make another one"
            )

    def _check_group(self, call: str) -> None:
        if not self._control.member.group_id:
            text = f"{call} needs a consumer group: set `group.id`"
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_GROUP, text))

    def _check_offset_store(self, call: str) -> None:
        """Checks that there is a group, or a file, that stores offsets."""
        if not self._uses_offset_files:
            self._check_group(call)

    def _hold_back(self, error: BaseException | None) -> None:
        """After an exception, lets close() commit nothing of the messages of the last call.

        The application has probably not processed them.
        """
        if error is not None and not self._client.closed and (first := self._in_hand()):
            self._client.main.post(partial(self._control.commits.hold_back, first))

    def _begin(self, work: Callable[[], T]) -> PendingCall[T]:
        return PendingCall.run(self._client.main, work)

    def _begin_question(
        self, ask: Callable[[Callable[[Any], None], float], None], timeout: float
    ) -> PendingCall[Any]:
        """Starts ``ask(done, deadline)`` on the control thread.

        The first value that ``done`` gets is the result; a KafkaError is raised.
        """

        def make(deadline: float, done: Callable[[Any], None]) -> list[Any]:
            ask(done, deadline)
            return []

        return PendingCall.gather(self._client.main, make, timeout)

    def _listed(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return checked(partitions)

    def _keys_of(self, partitions: Iterable[TopicPartition]) -> list[Key]:
        return [(each.topic, each.partition) for each in self._listed(partitions)]

    def _given_offsets(
        self, message: AnyMessage | None, offsets: list[TopicPartition] | None
    ) -> list[TopicPartition] | None:
        """The checked offsets for commit() or store_offsets(); None: neither argument is given."""
        if message is not None and offsets is not None:
            raise ValueError("message and offsets are mutually exclusive")
        if offsets is not None:
            return self._listed(offsets)
        return None if message is None else offsets_after(message)

    # --- the group ---

    def _begin_subscribe(
        self,
        topics: list[str],
        on_assign: Callable[..., object] | None,
        on_revoke: Callable[..., object] | None,
        on_lost: Callable[..., object] | None,
        initial_offsets: Iterable[TopicPartition],
    ) -> PendingCall[None]:
        names = topic_names(topics)
        initial = {
            (each.topic, each.partition): offset_position_of(each)
            for each in checked(initial_offsets)
        }
        if any(position.offset == OFFSET_INVALID for position in initial.values()):
            raise ValueError(
                "initial_offsets: each needs an offset: set TopicPartition(..., offset=...)"
            )
        given = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
        for name, callback in given.items():
            if callback is not None and not callable(callback):
                raise TypeError(f"{name} expects a callable")
        self._check_usable()
        self._check_group("subscribe()")
        wanted = {Kind.ASSIGN: on_assign, Kind.REVOKE: on_revoke, Kind.LOSE: on_lost or on_revoke}
        if self._rebalance_cb is not None:
            for kind, callback in wanted.items():
                if callback is None:
                    wanted[kind] = partial(_call_rebalance_cb, self._rebalance_cb, kind)
        reference = weakref.ref(self)
        listeners: dict[Kind, Listener] = {
            kind: partial(_rebalanced, reference, callback)
            for kind, callback in wanted.items()
            if callback is not None
        }

        def work() -> KafkaError | None:
            try:
                self._control.subscribe(names, listeners, time.monotonic(), initial)
            except ValueError as error:
                return KafkaError(KafkaError._INVALID_ARG, f"Failed to set subscription: {error}")
            return None

        return self._begin(work).then(raise_error)

    def _begin_unsubscribe(self) -> PendingCall[None]:
        """Leaves the group; the next poll() runs the callback before it takes messages."""
        return self._begin(lambda: self._control.unsubscribe(lambda: None, time.monotonic()))

    def _begin_enforce_rebalance(self, reason: str) -> PendingCall[None]:
        self._check_usable()
        if self._control.member.protocol == "consumer":
            text = "enforce_rebalance(): with group.protocol=consumer the coordinator decides "
            text += "when to rebalance"
            raise KafkaException(KafkaError(KafkaError._UNSUPPORTED_FEATURE, text))

        def work() -> KafkaError | None:
            self._control.membership.rejoin(
                reason or "the application wants a rebalance", time.monotonic()
            )
            if self._control.subscription.wanted:
                return None
            return KafkaError(KafkaError._STATE, "enforce_rebalance(): subscribe() first")

        return self._begin(work).then(raise_error)

    def _begin_subscription(self) -> PendingCall[list[str]]:
        self._check_open()
        return self._begin(lambda: list(self._control.subscription.wanted))

    def _begin_group_metadata(self) -> PendingCall[ConsumerGroupMetadata]:
        self._check_open()
        self._check_group("consumer_group_metadata()")
        member = self._control.member

        def work() -> ConsumerGroupMetadata:
            if not member.joined:
                return ConsumerGroupMetadata(member.group_id, instance_id=member.instance_id)
            return ConsumerGroupMetadata(
                member.group_id, member.generation, member.member_id, member.instance_id
            )

        return self._begin(work)

    # --- assignment ---

    def _begin_assign(self, partitions: list[TopicPartition]) -> PendingCall[None]:
        wanted = [given_of(each) for each in self._listed(partitions)]
        raise_error(assign_error(wanted))

        def work() -> None:
            self._remove(list(self._control.fetches.assigned))
            self._control.fetches.add(wanted, time.monotonic())

        return self._begin_change(work, incremental=False)

    def _begin_unassign(self) -> PendingCall[None]:
        return self._begin_change(
            lambda: self._remove(list(self._control.fetches.assigned)), incremental=False
        )

    def _begin_incremental_assign(self, partitions: list[TopicPartition]) -> PendingCall[None]:
        wanted = [given_of(each) for each in self._listed(partitions)]

        def work() -> KafkaError | None:
            fetches = self._control.fetches
            error = assign_error(wanted, fetches.assigned)
            if error is None:
                fetches.add(wanted, time.monotonic())
            return error

        return self._begin_change(work, incremental=True)

    def _begin_incremental_unassign(self, partitions: list[TopicPartition]) -> PendingCall[None]:
        keys = self._keys_of(partitions)

        def work() -> KafkaError | None:
            for topic, partition in keys:
                if (topic, partition) not in self._control.fetches.assigned:
                    text = f"{topic} [{partition}] can't be unassigned since it is not in the "
                    text += "current assignment"
                    return KafkaError(KafkaError._INVALID_ARG, text)
            self._remove(keys)
            return None

        return self._begin_change(work, incremental=True)

    def _begin_change(
        self, work: Callable[[], KafkaError | None], *, incremental: bool
    ) -> PendingCall[None]:
        self._check_usable()
        inside = self._in_callback() and self._rebalancing is not None

        def guarded() -> KafkaError | None:
            return self._change_refusal(incremental) or work()

        def finish(error: KafkaError | None) -> None:
            raise_error(error)
            if inside:
                self._handled = True

        return self._begin(guarded).then(finish)

    def _change_refusal(self, incremental: bool) -> KafkaError | None:
        """Why this change of the assignment isn't allowed; None: it is. Control thread only."""
        if not self._control.subscription.wanted:
            return None
        return change_refusal(self._control.membership.assignor_protocol, incremental)

    def _remove(self, keys: list[Key]) -> None:
        """Removes partitions from the assignment. Control thread only."""
        if self._rebalancing is Kind.LOSE:
            self._control.fetches.remove(keys)  # another member may own them: don't commit
        else:
            self._control.unassign(keys, lambda: None)

    def _begin_assignment(self) -> PendingCall[list[TopicPartition]]:
        self._check_open()
        assigned = self._control.fetches.assigned
        return self._begin(
            lambda: [
                TopicPartition(*key, state.given, state.given_metadata, state.given_epoch)
                for key, state in sorted(assigned.items(), key=lambda item: item[0])
            ]
        )

    # --- positions ---

    def _begin_seek(self, partition: TopicPartition | list[TopicPartition]) -> PendingCall[None]:
        wanted = self._listed([partition] if isinstance(partition, TopicPartition) else partition)
        for each in wanted:
            if each.offset == OFFSET_INVALID:
                raise ValueError("seek() needs an offset: set TopicPartition(..., offset=...)")
        self._check_usable()
        positions = [position_of(each) for each in wanted]
        return self._begin(lambda: self._control.fetches.seek_many(positions)).then(raise_error)

    def _begin_seek_anywhere(self, partitions: list[TopicPartition]) -> PendingCall[None]:
        """Begins `seek()` to any offset but OFFSET_STORED: the broker may refuse it."""
        positions = [position_of(each) for each in partitions]
        fetches = self._control.fetches
        return self._begin(lambda: fetches.seek_many(positions, anywhere=True)).then(raise_error)

    def _begin_seek_all(
        self, partitions: list[TopicPartition] | None, offset: int
    ) -> PendingCall[None]:
        keys = None if partitions is None else self._keys_of(partitions)
        self._check_usable()
        fetches = self._control.fetches

        def work() -> KafkaError | None:
            wanted = fetches.assigned if keys is None else keys
            return fetches.seek_many([(topic, number, offset, None) for topic, number in wanted])

        return self._begin(work).then(raise_error)

    def _begin_seek_to_time(
        self, timestamp_ms: int, partitions: list[TopicPartition] | None, timeout: float
    ) -> PendingCall[None]:
        if timestamp_ms < 0:
            raise ValueError(f"a time is 0 or more milliseconds, not {timestamp_ms}")
        keys = None if partitions is None else self._keys_of(partitions)
        self._check_usable()
        fetches = self._control.fetches

        def ask(done: Callable[[Any], None], deadline: float) -> None:
            wanted = list(fetches.assigned) if keys is None else keys
            fetches.seek_to_times([(*key, timestamp_ms) for key in wanted], done, deadline)

        return self._begin_question(ask, timeout)

    def _begin_pause(self, partitions: list[TopicPartition]) -> PendingCall[None]:
        keys = self._keys_of(partitions)
        self._check_usable()
        return self._begin(lambda: self._control.fetches.pause(keys))

    def _begin_resume(self, partitions: list[TopicPartition]) -> PendingCall[None]:
        keys = self._keys_of(partitions)
        self._check_usable()
        return self._begin(lambda: self._control.fetches.resume(keys))

    def _begin_paused(self) -> PendingCall[list[TopicPartition]]:
        self._check_open()
        assigned = self._control.fetches.assigned
        return self._begin(
            lambda: [TopicPartition(*key) for key, state in assigned.items() if state.paused]
        )

    # --- offsets ---

    def _begin_commit(
        self, message: AnyMessage | None, offsets: list[TopicPartition] | None, asynchronous: bool
    ) -> PendingCall[list[TopicPartition] | None]:
        wanted = self._given_offsets(message, offsets)
        self._check_usable()
        self._check_offset_store("commit()")
        commits = self._control.commits

        def ask(done: Callable[[Any], None], deadline: float) -> None:
            silent = not asynchronous
            if wanted is None:
                commits.commit_stored(done, deadline, silent=silent)
            else:
                commits.commit(wanted, done, deadline, silent=silent)

        if not asynchronous:
            return self._begin_question(ask, self._timeout_s)
        self._client.main.post(
            lambda: ask(self._callbacks.on_nothing_to_commit, time.monotonic() + self._timeout_s)
        )
        return ReadyCall(None)

    def _begin_store_offsets(
        self, message: AnyMessage | None, offsets: list[TopicPartition] | None
    ) -> PendingCall[None]:
        wanted = self._given_offsets(message, offsets)
        if wanted is None:
            raise ValueError("expected either message or offsets")
        self._check_usable()
        if self._auto_stores:
            text = "StoreOffsets failed: offsets are stored automatically; "
            text += "set enable.auto.offset.store=false"
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))

        def finish(stored: list[TopicPartition]) -> None:
            failed = [each for each in stored if each.error is not None]
            if failed and len(failed) == len(stored):
                raise KafkaException(failed[0].error)
            for each in failed:
                self._client.logger.warning("not stored: %s", each.error)

        return self._begin(lambda: self._control.commits.store(wanted)).then(finish)

    def _begin_committed(
        self, partitions: list[TopicPartition], timeout: float
    ) -> PendingCall[list[TopicPartition]]:
        keys = self._keys_of(partitions)
        self._check_open()
        self._check_offset_store("committed()")
        commits = self._control.commits
        return self._begin_question(
            lambda done, deadline: commits.fetch_committed(keys, done, deadline), timeout
        )

    def _begin_offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float
    ) -> PendingCall[list[TopicPartition]]:
        wanted = [(each.topic, each.partition, each.offset) for each in self._listed(partitions)]
        self._check_open()
        fetches = self._control.fetches

        def finish(found: list[tuple[int, int] | KafkaError]) -> list[TopicPartition]:
            errors = [each for each in found if isinstance(each, KafkaError)]
            if errors and len(errors) == len(found):
                raise KafkaException(errors[0])
            outcome = []
            for (topic, number, _), each in zip(wanted, found, strict=True):
                if isinstance(each, KafkaError):
                    outcome.append(TopicPartition(topic, number).with_error(each))
                else:
                    outcome.append(TopicPartition(topic, number, each[0], None, each[1]))
            return outcome

        lookup = self._begin_question(
            lambda done, deadline: fetches.lookup_times(wanted, done, deadline), timeout
        )
        return lookup.then(finish)

    def _begin_watermarks(
        self, partition: TopicPartition, timeout: float, cached: bool
    ) -> PendingCall[tuple[int, int]]:
        [key] = self._keys_of([partition])
        self._check_open()
        fetches = self._control.fetches
        if cached:
            state = fetches.assigned.get(key)
            if state is None or state.cursor is None:
                return ReadyCall((OFFSET_INVALID, OFFSET_INVALID))
            return ReadyCall((state.cursor.log_start_offset, state.cursor.high_watermark))

        def finish(found: list[tuple[int, int] | KafkaError]) -> tuple[int, int]:
            [one] = found
            if isinstance(one, KafkaError):
                raise KafkaException(one)
            first, end = one
            return first, end

        lookup = self._begin_question(
            lambda done, deadline: fetches.watermarks([key], done, deadline), timeout
        )
        return lookup.then(finish)

    def _begin_lag(self) -> PendingCall[dict[TopicPartition, int | None]]:
        self._check_open()
        states = self._begin(lambda: list(self._control.fetches.assigned.values()))
        return states.then(
            lambda found: {TopicPartition(*state.key): self._lag(state) for state in found}
        )

    def _begin_lag_max(self) -> PendingCall[int | None]:
        return self._begin_lag().then(_max_known)

    def _lag(self, state: Assigned) -> int | None:
        return self._control.fetches.lag(state)


def _max_known(lags: Mapping[TopicPartition, int | None]) -> int | None:
    return max((lag for lag in lags.values() if lag is not None), default=None)


def _call_rebalance_cb(
    callback: Callable[..., object],
    kind: Kind,
    consumer: ConsumerCalls,
    partitions: list[TopicPartition],
) -> None:
    """Calls ``rebalance_cb``, which has no callback of `subscribe()` in its place."""
    code = KafkaError._ASSIGN_PARTITIONS if kind is Kind.ASSIGN else KafkaError._REVOKE_PARTITIONS
    callback(consumer, KafkaError(code), partitions)


def _rebalanced(
    reference: weakref.ref[ConsumerCalls],
    callback: Callable[..., object],
    kind: Kind,
    keys: list[Key],
) -> bool:
    """Runs the callback of a rebalance step on the application's thread.

    True: the callback has changed the assignment.
    """
    consumer = reference()
    if consumer is None:
        return False
    consumer._rebalancing, consumer._handled = kind, False
    try:
        callback(consumer, [TopicPartition(*key) for key in keys])
    finally:
        consumer._rebalancing = None
    return consumer._handled


def checked(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The list, after a check of its types and partition numbers."""
    if isinstance(partitions, (str, TopicPartition)):
        raise TypeError(f"a list of TopicPartition is expected, not {type(partitions).__name__}")
    wanted = list(partitions)
    for each in wanted:
        if not isinstance(each, TopicPartition):
            raise TypeError(
                "a list of TopicPartition is expected, "
                f"but one item is of type {type(each).__name__}"
            )
        if each.partition < 0:
            raise ValueError(
                f"{each.topic}: a partition's number is 0 or more, not {each.partition}"
            )
        _check_encodable(each.topic)
    return wanted


def _check_encodable(topic: str) -> None:
    """Refuse a name that no request can contain: the control thread would try it for ever."""
    if not is_utf8(topic):
        text = f"topic {topic} is not encodable as UTF-8"
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))


def position_of(partition: TopicPartition) -> tuple[str, int, int, int | None]:
    """Topic, partition, offset and leader epoch, in the form for the control thread."""
    return partition.topic, partition.partition, partition.offset, partition.leader_epoch


def given_of(partition: TopicPartition) -> Given:
    """The position and the metadata, as `assignment()` returns them."""
    return (*position_of(partition), partition.metadata)


def listed_topics(topics: Iterable[str], kind: type = Iterable) -> list[str]:
    """The topics of a subscription as a list, after a check of the types.

    :param kind: The class that ``topics`` must have.
    """
    refusal = "expected list of topic unicode strings"
    if isinstance(topics, str):
        raise TypeError(f"{refusal}, not a single str: write [{topics!r}]")
    if not isinstance(topics, kind):
        raise TypeError(f"{refusal}, not {type(topics).__name__}")
    names = list(topics)
    for each in names:
        if not isinstance(each, str):
            raise TypeError(f"{refusal}, but one item is of type {type(each).__name__}")
    return names


def topic_names(topics: Iterable[str]) -> list[str]:
    """The topics of a subscription, after a check."""
    names = [exact_text(each) for each in listed_topics(topics)]
    if not names or not all(names):
        text = "Failed to set subscription: topic names are expected; "
        text += "unsubscribe() ends a subscription"
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
    for each in names:
        _check_encodable(each)
    return names


def assign_error(
    partitions: list[Given], assigned: Container[Key] = frozenset()
) -> KafkaError | None:
    """The first error of a list of partitions that are to be assigned.

    A partition occurs twice, can't start at its offset, or is one of those in ``assigned``.
    """
    seen: set[Key] = set()
    for topic, number, offset, *_ in partitions:
        code, text = KafkaError._INVALID_ARG, ""
        if (topic, number) in seen:
            text = f"Duplicate {topic} [{number}] in input list"
        elif OFFSET_TAIL_BASE < offset < 0 and offset not in LOGICAL_OFFSETS:
            text = f"{topic} [{number}] has no offset {offset} to start from"
        elif (topic, number) in assigned:
            code = KafkaError._CONFLICT
            text = f"{topic} [{number}] is already part of the current assignment"
        if text:
            return KafkaError(code, text)
        seen.add((topic, number))
    return None


def offsets_after(message: AnyMessage) -> list[TopicPartition]:
    """The offset to commit or store when this message is processed."""
    if not isinstance(message, Message):
        raise TypeError(
            f"expected a Message, not {type(message).__name__}; pass a TopicPartition in offsets=[]"
        )
    error = message.error()
    if error is not None:
        text = f"Cannot commit offsets for message with error: '{error.str()}'"
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None:
        raise ValueError("the message has no topic")
    # As in confluent_kafka, a missing number counts as its constant.
    partition = PARTITION_UA if partition is None else partition
    offset = OFFSET_INVALID if offset is None else offset
    return [TopicPartition(topic, partition, offset + 1, None, message.leader_epoch())]


def change_refusal(protocol: str, incremental: bool) -> KafkaError | None:
    """Why a group of this protocol doesn't allow a change of the assignment; None: it does."""
    if protocol == "NONE" or incremental == (protocol == "COOPERATIVE"):
        return None
    calls = (
        "incremental_assign() and incremental_unassign()"
        if not incremental
        else "assign() and unassign()"
    )
    return KafkaError(
        KafkaError._STATE,
        f"Changes to the current assignment must be made using {calls}: the group is {protocol}",
    )
