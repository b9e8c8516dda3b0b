"""Consumer: reads messages, in a group or from partitions given by hand, and commits how far it got."""

from __future__ import annotations

import operator
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from kafka_native._native.arrow_consumer import ColumnBatch, ColumnMemory, ColumnPlan, take_columns
from kafka_native._native.consumer_core import ConsumerCore
from kafka_native._native.message import Message
from kafka_native._native.methods import implemented_by
from kafka_native.arrow import ArrowBatch, ArrowStream, Columns, checked_records, plan_of
from kafka_native.client import HANDLE_CLOSED_TEXT, Client, UninitializedClient
from kafka_native.config import Config, parse
from kafka_native.consumer_arguments import change_refusal, checked, given_offsets, keys_of, position_of, topic_names
from kafka_native.consumer_events import (
    ConsumerCallbacks,
    OnCommit,
    error_for,
    exception_of,
    fatal_of,
    give_back,
)
from kafka_native.control.assignors import Assignor, make
from kafka_native.control.consumer.consumer_control import ConsumerControl, Hooks
from kafka_native.control.consumer.fetches import Assigned
from kafka_native.control.group.rebalance import Kind, Listener
from kafka_native.control.main_thread import Managers
from kafka_native.control.positions import Key
from kafka_native.control.positions import position_of as offset_position_of
from kafka_native.control.settings import connection_settings, consumer_settings, producer_settings
from kafka_native.deadlines import deadline_of, left_s, seconds
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.interceptors import Chain, ConsumerHooks, intercept
from kafka_native.pending_call import PendingCall, ReadyCall, raise_error
from kafka_native.statistics import ClientMetrics
from kafka_native.threads import Event
from kafka_native.types import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    ClusterMetadata,
    ConsumerGroupMetadata,
    TopicPartition,
    Uuid,
)

T = TypeVar("T")

CLOSED_TEXT = "Consumer closed"
CLOSE_S = 30.0
"""How long close() waits for a callback, a commit or the coordinator unless it is told another time; as Java."""

OnRebalance = Callable[["Consumer", list[TopicPartition]], object]


class Consumer(ConsumerCore):
    """Reads messages.

        with Consumer({"bootstrap.servers": "localhost:9092", "group.id": "readers"}) as consumer:
            consumer.subscribe(["greetings"])
            for message in consumer:
                print(message.value())

    In a group (`subscribe()`), which shares the partitions of its topics among its members, or from partitions given by
    hand (`assign()`). Messages are fetched in the background, up to ``queued.max.messages.kbytes``. Configuration:
    librdkafka's properties (docs/CONFIGURATION.md), as a dict, keywords, or both.

    A consumer belongs to one thread at a time; `wakeup()` and `close()` may come from any other. Callbacks are made by
    `poll()`, `consume()`, `consume_callback()` and iteration, by `unsubscribe()` and by `close()`. They may call
    anything of the consumer, and what they raise comes out of the call that has made them. After ``fork()`` the child
    has to make a consumer of its own.
    """

    _client = UninitializedClient()
    _control: ConsumerControl
    _rebalancing: Kind | None
    """The step whose callback runs now, on the application's thread."""
    _handled: bool
    """Whether that callback has changed the assignment itself."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **kwargs: Any) -> None:
        """KafkaException (_INVALID_ARG) names an unknown property or a value that can't be."""
        settings = parse({**(config or {}), **kwargs}, "consumer")
        everything = {
            **connection_settings(settings),
            **producer_settings(settings, 0, False),
            **consumer_settings(settings),
        }
        strategies: Any = settings["partition.assignment.strategy"]
        assignors = make(strategies)
        self._client = Client(settings, "consumer", everything, partial(self._make_managers, settings, assignors))
        self._rebalancing: Kind | None = None
        self._handled = False
        self._closing = threading.Lock()
        interceptors: Any = settings["interceptors"]
        if interceptors is not None:
            chain = Chain(interceptors, self._client.logs["interceptor"])
            self._callbacks.intercepted = chain.on_commit
            intercept(self, ConsumerHooks, chain)
        self._open(
            self._client.engine,
            error_for,
            exception_of,
            partial(self._client.check_open, CLOSED_TEXT),
            partial(fatal_of, self._client),
            partial(give_back, self._client, self._control.fetches),
            settings.integer("max.poll.records"),
        )
        self._callback_messages = settings.integer("consume.callback.max.messages")
        self._column_memory = ColumnMemory()
        self._stores_itself = settings.flag("enable.auto.offset.store")
        self._keeps_files = settings.text("offset.store.method") == "file"
        self._timeout_s = settings.integer("socket.timeout.ms") / 1000
        self._client.main.start()

    def _make_managers(self, settings: Config, assignors: list[Assignor], client: Client) -> Managers:
        self._callbacks = ConsumerCallbacks(client, settings.function("on_commit"))
        # Nothing that the threads hold keeps this object alive: dropping it is enough to end them.
        hooks = Hooks(
            on_error=self._callbacks.on_error,
            on_fatal=client.on_fatal,
            on_commit=self._callbacks.committed,
            call_back=self._callbacks.add,
            polls=partial(_polls, weakref.ref(self)),
            waits=partial(_waits, weakref.ref(self)),
        )
        self._control = ConsumerControl(client.context, settings, hooks, assignors)
        return Managers.of_consumer(self._control)

    # --- messages; the code of most of these calls is in _native/consumer_core.pyx ---

    @implemented_by(ConsumerCore.poll)
    def poll(self, timeout: float | None = None) -> Message | None:
        """The next message.

        What a callback raises comes out of here, too; no message is lost by it.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait for it; None, negative or more than a year waits for ever, 0 doesn't wait.

        Returns
        -------
        Message or None
            None when the time is up, after `wakeup()` and when the consumer is closed meanwhile. Check
            `Message.error()`: ends of partition (``enable.partition.eof``), fetch errors and a fatal error
            come as Messages, too.

        Raises
        ------
        RuntimeError
            The consumer is closed.
        ValueError
            The timeout is NaN.
        """

    @implemented_by(ConsumerCore.consume)
    def consume(  # type: ignore[empty-body]
        self, num_messages: int | None = 1, timeout: float | None = -1
    ) -> list[Message]:
        """Several messages at once.

        Parameters
        ----------
        num_messages : int, optional
            How many at most, 0 to 1,000,000. None: ``max.poll.records``, and what is there is returned as
            soon as there is any.
        timeout : float, optional
            Seconds to wait until there are that many; None, negative or more than a year waits for ever,
            0 doesn't wait.

        Returns
        -------
        list of Message
            Fewer, or none, when the time is up, after `wakeup()`, and when a callback is due: it is made
            by the next call, before messages are taken.

        Raises
        ------
        ValueError
            ``num_messages`` isn't in its range, or the timeout is NaN.
        RuntimeError
            The consumer is closed.
        """

    @implemented_by(ConsumerCore.__iter__)
    def __iter__(self) -> Iterator[Message]:  # type: ignore[empty-body]
        """Itself."""

    @implemented_by(ConsumerCore.__next__)
    def __next__(self) -> Message:  # type: ignore[empty-body]
        """Waits for the next message that is no error. An error is raised as KafkaException; a fatal one each time.

        Ends when the consumer is closed, and after `wakeup()`: then it can be taken up again.
        """

    @implemented_by(ConsumerCore.wakeup)
    def wakeup(self) -> None:
        """Ends the wait of `poll()`, `consume()` or an iteration, or else keeps the next one from beginning.

        poll() returns None, consume() and consume_callback() what they have, and an iteration ends, even
        if messages are queued: they come when it is taken up again. From any thread, and from a signal
        handler. One call ends one wait. Harmless once the consumer is closed.
        """

    def consume_callback(
        self, callback: Callable[[Message], object], max_messages: int | None = None, timeout: float = -1
    ) -> int:
        """Calls ``callback`` for each message: what librdkafka's legacy consumer does.

        Waits for the first message, then goes on with what is queued by then; what comes meanwhile is for the next
        call. Errors come as Messages, as from `poll()`. The callback may call anything of the consumer; `wakeup()` ends
        the call behind the message at hand. What it raises comes out of here, and its message counts as handed out.

        Parameters
        ----------
        callback : Callable[[Message], object]
            Called with one Message; what it returns is ignored.
        max_messages : int | None
            How many at most; 0 for no limit, None for ``consume.callback.max.messages``.
        timeout : float
            Seconds to wait for the first message; negative waits for ever, 0 doesn't wait.

        Returns
        -------
        int
            How many messages the callback has got.

        Raises
        ------
        TypeError
            ``callback`` can't be called.
        ValueError
            ``max_messages`` is negative.
        """
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {type(callback).__name__}")
        most = self._callback_messages if max_messages is None else operator.index(max_messages)
        if most < 0:
            raise ValueError("max_messages must be 0 (no limit) or more")
        return self._consume_each(callback, most, timeout)

    # --- columns ---

    def consume_arrow(
        self, max_records: int = 1_000_000, timeout: float | None = -1, *, columns: Columns = None
    ) -> ArrowBatch:
        """Records as Arrow columns, made without a Python object a record and without the interpreter lock.

        Waits until ``max_records`` are there or the time is up, as `consume()` does; an end of partition, a callback
        that is due and `wakeup()` end it early, and so does a column that is full (one with 32-bit offsets holds
        2 GiB). ``max.poll.records`` plays no part. Positions move as by `consume()`.

        Parameters
        ----------
        max_records : int
            At most so many, 0 to 2,147,483,647.
        timeout : float | None
            Seconds; None or negative waits for ever, 0 doesn't wait.
        columns : Columns
            Names, in their order, or a mapping from names to types (None: the default). None:
            topic, partition, offset, timestamp, key and value. `kafka_native.arrow.COLUMNS` has all
            names and types. Only what is asked for is made; a ``_view`` isn't even copied, but
            keeps the response that it came in.

        Returns
        -------
        ArrowBatch
            Perhaps without any row. It outlives the consumer.

        Raises
        ------
        KafkaException
            A fetch or a batch has failed, or the consumer has ended for good (`fatal_error()`).
            What came before it is returned first; the next call raises it.
        ValueError
            A name, a type or a number that can't be; or a record that its column can't hold (bytes
            that aren't UTF-8 in a ``string``): that one isn't lost, ask for it as ``binary``.
        RuntimeError
            The consumer is closed.
        """
        self._check_open()
        return ArrowBatch(self._take_columns(plan_of(columns), checked_records(max_records), seconds(timeout)))

    def arrow_stream(
        self, max_records: int = 100_000, timeout: float | None = -1, *, columns: Columns = None
    ) -> ArrowStream:
        """Batches of columns, one after the other: an iterator, an async iterator, and an Arrow stream.

        Parameters
        ----------
        max_records : int
            In a batch, at most.
        timeout : float | None
            Seconds. A batch waits so long for ``max_records``, and the stream ends when nothing at
            all has come for so long. None or negative: a batch has what is there as soon as there
            is anything, and the stream goes on for ever. ``async for`` never waits for a batch to
            fill up.
        columns : Columns
            As of `consume_arrow()`.

        Raises
        ------
        ValueError
            A name, a type or a number that can't be. Records and errors as with `consume_arrow()`.
        """
        plan, most = plan_of(columns), checked_records(max_records)
        if most == 0:
            raise ValueError("max_records must be 1 or more in a stream")
        longest = seconds(timeout)
        self._check_open()

        def take(waited_s: float) -> ColumnBatch:
            return self._take_columns(plan, most, waited_s, first_will_do=longest < 0, iterating=True)

        return ArrowStream(self, plan, self._column_memory, take, longest)

    def _take_columns(
        self, plan: ColumnPlan, most: int, timeout: float, *, first_will_do: bool = False, iterating: bool = False
    ) -> ColumnBatch:
        return take_columns(
            self, plan, self._column_memory, most, timeout, first_will_do=first_will_do, iterating=iterating
        )

    # --- the group ---

    def subscribe(
        self,
        topics: list[str],
        on_assign: OnRebalance | None = None,
        on_revoke: OnRebalance | None = None,
        on_lost: OnRebalance | None = None,
        *,
        initial_offsets: Iterable[TopicPartition] = (),
    ) -> None:
        """Joins the group and reads the partitions of these topics that it assigns. Replaces the subscription.

        A name that begins with ``^`` is a regular expression: it stands for all topics that it matches, also for those
        that are yet to come. Partitions that were assigned by hand are given up.

        Parameters
        ----------
        topics : list[str]
            At least one.
        on_assign : OnRebalance | None
            Called with (consumer, partitions) when partitions are added. It may `assign()` them
            (`incremental_assign()` with a cooperative assignor or group.protocol=consumer) with
            offsets of its own; if it doesn't, they start where the group has committed, or else
            where ``auto.offset.reset`` says.
        on_revoke : OnRebalance | None
            Called before partitions go to another member: the last chance to commit. What is stored
            is committed after it (``enable.auto.commit``).
        on_lost : OnRebalance | None
            Called when partitions are gone already, because the member was thrown out; committing
            them is no use. ``on_revoke`` is called in its place where it isn't given.
        initial_offsets : Iterable[TopicPartition]
            Where to start partitions that the group has no offset of, for instance from a
            checkpoint of the application's; the others start where ``auto.offset.reset`` says.

        Raises
        ------
        TypeError
            ``topics`` isn't a list of str, or a callback can't be called.
        KafkaException
            _INVALID_ARG: no topic, an empty name, or a regular expression that isn't one;
            _UNKNOWN_GROUP: there is no ``group.id``; _FATAL after a fatal error.
        """
        self._begin_subscribe(topics, on_assign, on_revoke, on_lost, initial_offsets).result()

    def _begin_subscribe(
        self,
        topics: list[str],
        on_assign: OnRebalance | None,
        on_revoke: OnRebalance | None,
        on_lost: OnRebalance | None,
        initial_offsets: Iterable[TopicPartition],
    ) -> PendingCall[None]:
        names = topic_names(topics)
        initial = {(each.topic, each.partition): offset_position_of(each) for each in checked(initial_offsets)}
        if any(position.offset == OFFSET_INVALID for position in initial.values()):
            raise ValueError("initial_offsets: each needs an offset: set TopicPartition(..., offset=...)")
        given = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
        for name, callback in given.items():
            if callback is not None and not callable(callback):
                raise TypeError(f"{name} expects a callable")
        self._check_usable()
        self._check_group("subscribe()")
        wanted = {Kind.ASSIGN: on_assign, Kind.REVOKE: on_revoke, Kind.LOSE: on_lost or on_revoke}
        here = weakref.ref(self)
        listeners: dict[Kind, Listener] = {
            kind: partial(_rebalanced, here, callback) for kind, callback in wanted.items() if callback is not None
        }

        def work() -> KafkaError | None:
            try:
                self._control.subscribe(names, listeners, time.monotonic(), initial)
            except ValueError as error:
                return KafkaError(KafkaError._INVALID_ARG, f"Failed to set subscription: {error}")
            return None

        return self._begin(work).then(raise_error)

    def unsubscribe(self) -> None:
        """Leaves the group: ``on_revoke`` is called, what is stored is committed, all partitions are given up.

        Waits for that, in a callback excepted. Harmless without a subscription.
        """
        self._check_open()
        self._finish(self._control.unsubscribe, CLOSE_S, wait=not self._in_callback())

    def enforce_rebalance(self, reason: str = "") -> None:
        """Joins the group anew, so that partitions are assigned again (KIP-568): say, an assignor has news to go by.

        It is for the coordinator to say whether others have to join, too; it does so when the group's leader asks.

        Parameters
        ----------
        reason : str
            What the coordinator is told (KIP-800).

        Raises
        ------
        KafkaException
            _STATE: nothing is subscribed to; _UNSUPPORTED_FEATURE: with group.protocol=consumer the
            coordinator assigns, whenever it sees fit.
        """
        self._begin_enforce_rebalance(reason).result()

    def _begin_enforce_rebalance(self, reason: str) -> PendingCall[None]:
        self._check_usable()
        if self._control.member.protocol == "consumer":
            text = "enforce_rebalance(): with group.protocol=consumer the coordinator decides when to rebalance"
            raise KafkaException(KafkaError(KafkaError._UNSUPPORTED_FEATURE, text))

        def work() -> KafkaError | None:
            self._control.membership.rejoin(reason or "the application wants a rebalance", time.monotonic())
            if self._control.subscription.wanted:
                return None
            return KafkaError(KafkaError._STATE, "enforce_rebalance(): subscribe() first")

        return self._begin(work).then(raise_error)

    def subscription(self) -> list[str]:
        """The topics and patterns that are subscribed to."""
        return self._begin_subscription().result()

    def _begin_subscription(self) -> PendingCall[list[str]]:
        self._check_open()
        return self._begin(lambda: list(self._control.subscription.wanted))

    def memberid(self) -> str | None:
        """The id that the group's coordinator has given this member; None while it is no member."""
        self._check_open()
        member = self._control.member
        return member.member_id if member.joined else None

    def rebalance_protocol(self) -> str:
        """How partitions change hands in the group: ``NONE`` (not joined yet), ``EAGER`` or ``COOPERATIVE``."""
        self._check_open()
        return self._begin(lambda: self._control.membership.assignor_protocol).result()

    def consumer_group_metadata(self) -> ConsumerGroupMetadata:
        """Who this consumer is in its group, for `Producer.send_offsets_to_transaction()`. It can be pickled.

        Raises
        ------
        KafkaException
            _UNKNOWN_GROUP: there is no ``group.id``.
        """
        return self._begin_group_metadata().result()

    def _begin_group_metadata(self) -> PendingCall[ConsumerGroupMetadata]:
        self._check_open()
        self._check_group("consumer_group_metadata()")
        member = self._control.member

        def work() -> ConsumerGroupMetadata:
            who = (member.generation, member.member_id) if member.joined else (-1, "")
            return ConsumerGroupMetadata(member.group_id, *who, member.instance_id)

        return self._begin(work)

    def _check_group(self, call: str) -> None:
        if not self._control.member.group_id:
            text = f"{call} needs a consumer group: set `group.id`"
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_GROUP, text))

    def _check_keeper(self, call: str) -> None:
        """For calls that need somebody who keeps offsets."""
        if not self._keeps_files:
            self._check_group(call)

    # --- assignment ---

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions from now on, and no others.

        Without a subscription, or in an ``on_assign`` or ``on_revoke`` callback of a group that rebalances eagerly.

        Parameters
        ----------
        partitions : list[TopicPartition]
            Each with the offset to start from, or OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, or
            (the default) where the group has committed, or else where ``auto.offset.reset`` says.

        Raises
        ------
        KafkaException
            _STATE when the group decides; _FATAL after a fatal error.
        """
        self._begin_assign(partitions).result()

    def _begin_assign(self, partitions: list[TopicPartition]) -> PendingCall[None]:
        wanted = [position_of(each) for each in checked(partitions)]

        def work() -> None:
            self._remove(list(self._control.fetches.assigned))
            self._control.fetches.add(wanted, time.monotonic())

        return self._begin_change(work, incremental=False)

    def unassign(self) -> None:
        """Reads nothing any more. What is stored is committed (``enable.auto.commit``)."""
        self._begin_unassign().result()

    def _begin_unassign(self) -> PendingCall[None]:
        return self._begin_change(lambda: self._remove(list(self._control.fetches.assigned)), incremental=False)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions, too.

        Without a subscription, or in an ``on_assign`` callback of a group that rebalances cooperatively.

        Parameters
        ----------
        partitions : list[TopicPartition]
            As for `assign()`.

        Raises
        ------
        KafkaException
            _CONFLICT for a partition that is assigned, _STATE when the group decides; then nothing
            is changed.
        """
        self._begin_incremental_assign(partitions).result()

    def _begin_incremental_assign(self, partitions: list[TopicPartition]) -> PendingCall[None]:
        wanted = [position_of(each) for each in checked(partitions)]

        def work() -> KafkaError | None:
            fetches = self._control.fetches
            for topic, partition, _, _ in wanted:
                if (topic, partition) in fetches.assigned:
                    text = f"{topic} [{partition}] is already part of the current assignment"
                    return KafkaError(KafkaError._CONFLICT, text)
            fetches.add(wanted, time.monotonic())
            return None

        return self._begin_change(work, incremental=True)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions no more. What is stored of them is committed (``enable.auto.commit``).

        Raises
        ------
        KafkaException
            _INVALID_ARG for a partition that isn't assigned, _STATE when the group decides; then
            nothing is changed.
        """
        self._begin_incremental_unassign(partitions).result()

    def _begin_incremental_unassign(self, partitions: list[TopicPartition]) -> PendingCall[None]:
        keys = keys_of(partitions)

        def work() -> KafkaError | None:
            for topic, partition in keys:
                if (topic, partition) not in self._control.fetches.assigned:
                    text = f"{topic} [{partition}] can't be unassigned since it is not in the current assignment"
                    return KafkaError(KafkaError._INVALID_ARG, text)
            self._remove(keys)
            return None

        return self._begin_change(work, incremental=True)

    def _remove(self, keys: list[Key]) -> None:
        """Control thread."""
        if self._rebalancing is Kind.LOSE:
            self._control.fetches.remove(keys)  # another member's by now: nothing to be committed
        else:
            self._control.unassign(keys, lambda: None)

    def _begin_change(self, work: Callable[[], KafkaError | None], *, incremental: bool) -> PendingCall[None]:
        self._check_usable()
        inside = self._in_callback() and self._rebalancing is not None

        def guarded() -> KafkaError | None:
            return change_refusal(self._control, inside, incremental) or work()

        def finish(error: KafkaError | None) -> None:
            raise_error(error)
            if inside:
                self._handled = True

        return self._begin(guarded).then(finish)

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read, each with the offset that it was assigned with.

        OFFSET_STORED where none was given: it started where the group had committed, or else where
        ``auto.offset.reset`` says. `position()` has where it is by now.
        """
        return self._begin_assignment().result()

    def _begin_assignment(self) -> PendingCall[list[TopicPartition]]:
        self._check_open()
        assigned = self._control.fetches.assigned
        return self._begin(lambda: [TopicPartition(*key, state.given) for key, state in assigned.items()])

    # --- positions ---

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The next offset to be handed out of each partition, with the leader epoch of the message before it.

        OFFSET_INVALID before its first message, after a seek, and where a partition isn't assigned.
        """
        self._check_open()
        found = [(key, self._control.fetches.assigned.get(key)) for key in keys_of(partitions)]
        return [
            TopicPartition(*key) if state is None else TopicPartition(*key, state.position, None, state.position_epoch)
            for key, state in found
        ]

    def seek(self, partition: TopicPartition | list[TopicPartition]) -> None:
        """Goes on at ``partition.offset``: absolute, OFFSET_BEGINNING, OFFSET_END or OFFSET_STORED.

        What was fetched and not handed out is dropped. An offset that isn't in the log is for ``auto.offset.reset``.

        Parameters
        ----------
        partition : TopicPartition | list[TopicPartition]
            One, or several: then all of them are moved, or none.

        Raises
        ------
        KafkaException
            A partition isn't assigned: _STATE, or _UNKNOWN_PARTITION when its topic isn't known
            either.
        ValueError
            No offset is given.
        """
        self._begin_seek(partition).result()

    def _begin_seek(self, partition: TopicPartition | list[TopicPartition]) -> PendingCall[None]:
        wanted = checked([partition] if isinstance(partition, TopicPartition) else partition)
        for each in wanted:
            if each.offset == OFFSET_INVALID:
                raise ValueError("seek() needs an offset: set TopicPartition(..., offset=...)")
        self._check_usable()
        positions = [position_of(each) for each in wanted]
        return self._begin(lambda: self._control.fetches.seek_many(positions)).then(raise_error)

    def seek_to_beginning(self, partitions: list[TopicPartition] | None = None) -> None:
        """Goes on at the first message of each of these partitions; None: of all that are assigned."""
        self._begin_seek_all(partitions, OFFSET_BEGINNING).result()

    def seek_to_end(self, partitions: list[TopicPartition] | None = None) -> None:
        """Goes on behind the last message of each of these partitions; None: of all that are assigned."""
        self._begin_seek_all(partitions, OFFSET_END).result()

    def _begin_seek_all(self, partitions: list[TopicPartition] | None, offset: int) -> PendingCall[None]:
        keys = None if partitions is None else keys_of(partitions)
        self._check_usable()
        fetches = self._control.fetches

        def work() -> KafkaError | None:
            wanted = fetches.assigned if keys is None else keys
            return fetches.seek_many([(topic, number, offset, None) for topic, number in wanted])

        return self._begin(work).then(raise_error)

    def seek_to_time(
        self, timestamp_ms: int, partitions: list[TopicPartition] | None = None, timeout: float = -1
    ) -> None:
        """Goes on at the first message of each partition that isn't older; at the end where there is none.

        Parameters
        ----------
        timestamp_ms : int
            Milliseconds since 1970.
        partitions : list[TopicPartition] | None
            None: all that are assigned.
        timeout : float
            Seconds to wait for the brokers' answers; negative waits for ever.

        Raises
        ------
        KafkaException
            No answer in time, or a partition isn't assigned: then none is moved.
        ValueError
            The time is negative.
        """
        self._begin_seek_to_time(timestamp_ms, partitions, timeout).result()

    def _begin_seek_to_time(
        self, timestamp_ms: int, partitions: list[TopicPartition] | None, timeout: float
    ) -> PendingCall[None]:
        if timestamp_ms < 0:
            raise ValueError(f"a time is 0 or more milliseconds, not {timestamp_ms}")
        keys = None if partitions is None else keys_of(partitions)
        self._check_usable()
        fetches = self._control.fetches

        def ask(done: Callable[[Any], None], deadline: float) -> None:
            wanted = list(fetches.assigned) if keys is None else keys
            fetches.seek_to_times([(*key, timestamp_ms) for key in wanted], done, deadline)

        return self._begin_question(ask, timeout)

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Hands out no messages of these partitions until `resume()`; their positions stay.

        A rebalance keeps it; a partition that isn't assigned yet will be paused when it is. `unsubscribe()` forgets it.
        """
        self._begin_pause(partitions).result()

    def _begin_pause(self, partitions: list[TopicPartition]) -> PendingCall[None]:
        keys = keys_of(partitions)
        self._check_usable()
        return self._begin(lambda: self._control.fetches.pause(keys))

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Undoes `pause()`, of partitions that aren't assigned any more, too."""
        self._begin_resume(partitions).result()

    def _begin_resume(self, partitions: list[TopicPartition]) -> PendingCall[None]:
        keys = keys_of(partitions)
        self._check_usable()
        return self._begin(lambda: self._control.fetches.resume(keys))

    def paused(self) -> list[TopicPartition]:
        """Those of the assigned partitions that are paused."""
        return self._begin_paused().result()

    def _begin_paused(self) -> PendingCall[list[TopicPartition]]:
        self._check_open()
        assigned = self._control.fetches.assigned
        return self._begin(lambda: [TopicPartition(*key) for key, state in assigned.items() if state.paused])

    # --- offsets ---

    def commit(
        self,
        message: Message | None = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commits offsets to the group: of a message, given ones, or (by default) what is stored and not committed yet.

        Tried again while the coordinator moves, for ``socket.timeout.ms`` at most.

        Parameters
        ----------
        message : Message | None
            It and all before it in its partition have been dealt with: its offset + 1 is committed.
        offsets : list[TopicPartition] | None
            What to go on with in each partition, with metadata and leader epochs; an offset below 0
            is left out. Not together with ``message``.
        asynchronous : bool
            Return at once, None; ``on_commit`` tells how it went. False: wait for the outcome.

        Returns
        -------
        list[TopicPartition] | None
            False: the given or else all assigned partitions, each with its ``error`` or None, and
            with OFFSET_INVALID where there was nothing to be committed. ``on_commit`` is told the
            same.

        Raises
        ------
        KafkaException
            _NO_OFFSET: there is nothing to be committed; all partitions have failed with the same
            error; _UNKNOWN_GROUP: there is no ``group.id``. With ``asynchronous`` only what is
            known at once.
        """
        return self._begin_commit(message, offsets, asynchronous).result()

    def _begin_commit(
        self, message: Message | None, offsets: list[TopicPartition] | None, asynchronous: bool
    ) -> PendingCall[list[TopicPartition] | None]:
        wanted = given_offsets(message, offsets)
        self._check_usable()
        self._check_keeper("commit()")
        commits = self._control.commits

        def ask(done: Callable[[Any], None], deadline: float) -> None:
            if wanted is None:
                commits.commit_stored(done, deadline)
            else:
                commits.commit(wanted, done, deadline)

        if not asynchronous:
            return self._begin_question(ask, self._timeout_s)
        self._client.main.post(lambda: ask(self._callbacks.had_nothing, time.monotonic() + self._timeout_s))
        return ReadyCall(None)

    def store_offsets(self, message: Message | None = None, offsets: list[TopicPartition] | None = None) -> None:
        """Stores offsets for the next commit, by itself or `commit()`'s; needs ``enable.auto.offset.store=false``.

        Parameters
        ----------
        message : Message | None
            It and all before it in its partition have been dealt with: its offset + 1 is stored.
        offsets : list[TopicPartition] | None
            What to go on with in each partition. Not together with ``message``.

        Raises
        ------
        KafkaException
            _STATE: none of the partitions is assigned; _INVALID_ARG: offsets are stored by
            themselves (``enable.auto.offset.store``).
        ValueError
            Neither or both are given.
        """
        self._begin_store_offsets(message, offsets).result()

    def _begin_store_offsets(self, message: Message | None, offsets: list[TopicPartition] | None) -> PendingCall[None]:
        wanted = given_offsets(message, offsets)
        if wanted is None:
            raise ValueError("expected either message or offsets")
        self._check_usable()
        if self._stores_itself:
            text = "StoreOffsets failed: offsets are stored by themselves; set enable.auto.offset.store=false"
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))

        def finish(stored: list[TopicPartition]) -> None:
            failed = [each for each in stored if each.error is not None]
            if failed and len(failed) == len(stored):
                raise KafkaException(failed[0].error)
            for each in failed:
                self._client.logger.warning("not stored: %s", each.error)

        return self._begin(lambda: self._control.commits.store(wanted)).then(finish)

    def committed(self, partitions: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """What the group has committed of these partitions, assigned or not.

        Parameters
        ----------
        timeout : float
            Seconds to wait; negative waits for ever.

        Returns
        -------
        list[TopicPartition]
            The partitions with offset, metadata and leader epoch; OFFSET_INVALID where nothing is
            committed.

        Raises
        ------
        KafkaException
            No answer in time, the coordinator refuses, or there is no ``group.id``.
        """
        return self._begin_committed(partitions, timeout).result()

    def _begin_committed(self, partitions: list[TopicPartition], timeout: float) -> PendingCall[list[TopicPartition]]:
        keys = keys_of(partitions)
        self._check_open()
        self._check_keeper("committed()")
        commits = self._control.commits
        return self._begin_question(lambda done, deadline: commits.fetch_committed(keys, done, deadline), timeout)

    @property
    def on_commit(self) -> OnCommit | None:
        """Called with (error, partitions) by the next `poll()` when a commit is through; from the configuration."""
        return self._callbacks.on_commit

    @on_commit.setter
    def on_commit(self, callback: OnCommit | None) -> None:
        if callback is not None and not callable(callback):
            raise TypeError("on_commit expects a callable")
        self._callbacks.on_commit = callback

    # --- offsets of the log ---

    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """The offset of the first message that isn't older than a time, for each partition; assigned or not.

        Parameters
        ----------
        partitions : list[TopicPartition]
            Each with the time as its ``offset``, in milliseconds since 1970.
        timeout : float
            Seconds to wait; negative waits for ever.

        Returns
        -------
        list[TopicPartition]
            The same partitions with offsets and leader epochs, OFFSET_END where no message is as
            young; a partition's ``error`` says why it has none.

        Raises
        ------
        KafkaException
            Not one has an answer.
        """
        return self._begin_offsets_for_times(partitions, timeout).result()

    def _begin_offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float
    ) -> PendingCall[list[TopicPartition]]:
        wanted = [(each.topic, each.partition, each.offset) for each in checked(partitions)]
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

        asked = self._begin_question(lambda done, deadline: fetches.lookup_times(wanted, done, deadline), timeout)
        return asked.then(finish)

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """The partition's first offset, and the one after its last message (read_committed: after the last stable one).

        Parameters
        ----------
        timeout : float
            Seconds to wait; negative waits for ever.
        cached : bool
            Only what the last fetch told, without asking: OFFSET_INVALID where nothing is known.

        Raises
        ------
        KafkaException
            No answer in time, or the leader's error.
        """
        return self._begin_watermarks(partition, timeout, cached).result()

    def _begin_watermarks(
        self, partition: TopicPartition, timeout: float, cached: bool
    ) -> PendingCall[tuple[int, int]]:
        [key] = keys_of([partition])
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

        asked = self._begin_question(lambda done, deadline: fetches.watermarks([key], done, deadline), timeout)
        return asked.then(finish)

    # --- lag ---

    def current_lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the application is behind the end of the partition, as far as the last fetch told.

        No request is made. The end is the last stable offset with ``isolation.level=read_committed``. Offsets without
        a message (compaction, transactions) count. None where something isn't known (yet), or it isn't assigned.
        """
        [key] = keys_of([partition])
        self._check_open()
        state = self._control.fetches.assigned.get(key)
        return None if state is None else self._lag(state)

    def lag(self) -> dict[TopicPartition, int | None]:
        """`current_lag()` of each assigned partition."""
        return self._begin_lag().result()

    def _begin_lag(self) -> PendingCall[dict[TopicPartition, int | None]]:
        self._check_open()
        states = self._begin(lambda: list(self._control.fetches.assigned.values()))
        return states.then(lambda found: {TopicPartition(*state.key): self._lag(state) for state in found})

    def _lag(self, state: Assigned) -> int | None:
        cursor = state.cursor
        at = state.position if state.position >= 0 else state.base.offset
        if cursor is None or at < 0:
            return None
        end = cursor.last_stable_offset if self._control.fetches.read_committed else cursor.high_watermark
        return None if end < 0 else max(0, end - at)

    # --- the cluster ---

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Takes another user name and password for PLAIN and SCRAM; see `Producer.set_sasl_credentials`."""
        self._client.check_open(HANDLE_CLOSED_TEXT)
        self._client.set_sasl_credentials(username, password)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The cluster's brokers, topics and partitions; see `Producer.list_topics`."""
        return self._client.list_topics(topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str | None:
        """The cluster's id; see `Producer.cluster_id`."""
        return self._client.cluster_id(timeout)

    def client_instance_id(self, timeout: float = -1) -> Uuid:
        """The id under which this client's metrics are pushed; see `Producer.client_instance_id`."""
        return self._client.client_instance_id(timeout)

    def metrics(self) -> ClientMetrics:
        """What this client has counted; see `Producer.metrics`."""
        return self._client.metrics(CLOSED_TEXT)

    def fatal_error(self) -> KafkaError | None:
        """What has ended this consumer for good, None: nothing. For instance, another one has its group.instance.id.

        poll() returns it as a Message, once, with _FATAL; iteration raises it; so do calls that change something.
        """
        return self._client.fatal

    # --- the end ---

    def close(self, timeout: float = CLOSE_S) -> None:
        """Leaves the group, commits what is stored (``enable.auto.commit``), and ends the background threads.

        ``on_revoke`` and ``on_commit`` are called. `poll()` ends in other threads. Harmless when called again. In a
        callback, it is done as soon as the callback has returned.

        Parameters
        ----------
        timeout : float
            Seconds that this may take, or else it is closed as it is; negative waits for ever. An
            exception of a callback doesn't keep it from closing: it is raised afterwards.
        """
        if self._client.closed:
            return
        if self._in_callback():
            self._after_callback(partial(self._close, timeout))
        else:
            self._close(timeout)

    def _close(self, timeout: float) -> None:
        if not self._closing.acquire(blocking=False):
            return  # another thread is at it, or this is one of its callbacks
        self._mark_closed()
        try:
            deadline = deadline_of(timeout)
            try:
                self._finish(self._control.close, timeout, wait=True)
            finally:
                self._client.push_last(left_s(deadline))
        finally:
            self._shut()

    def _finish(self, begin: Callable[[Callable[[], None], float], None], timeout: float, *, wait: bool) -> None:
        """Has the control thread end something, and makes the callbacks that this takes; then raises what they did."""
        ended = Event()
        engine = self._client.engine

        def done() -> None:
            ended.set()
            engine.kick()

        self._client.main.post(lambda: begin(done, time.monotonic()))
        if not wait:
            return
        deadline = deadline_of(timeout)
        raised: Exception | None = None
        while True:
            try:
                in_time = self._serve_until(ended.is_set, left_s(deadline))
                break
            except Exception as error:
                raised = raised or error
        if not in_time:
            self._client.logger.warning("leaving the group took longer than %g s", timeout)
        if raised is not None:
            raise raised

    def _shut(self) -> None:
        self._mark_closed()
        self._client.close()
        if not self._client.forked:
            self._drain()
            self._client.release()

    def __enter__(self) -> Consumer:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes."""
        self.close()

    def __del__(self) -> None:
        """A consumer that was dropped without close() leaves its group and ends its threads; it commits nothing."""
        client = vars(self).get("_client")
        if client is not None and not client.closed:
            self._mark_closed()
            self._drain()  # before: a segment can't be freed without its engine
            client.drop()

    def __repr__(self) -> str:
        """Name and state."""
        if "_client" not in vars(self):
            return object.__repr__(self)
        state = "closed" if self._client.closed else f"{len(self._control.fetches.assigned)} partitions assigned"
        return f"<Consumer {self._client.name} ({state})>"

    # --- the way to the control thread ---

    def _check_open(self) -> None:
        self._client.check_open(CLOSED_TEXT)

    def _check_usable(self) -> None:
        """For calls that change something: RuntimeError when closed, KafkaException (_FATAL) after a fatal error."""
        self._client.check_open(CLOSED_TEXT)
        if self._client.fatal is not None:
            raise KafkaException(self._client.fatal_error(), hint="close() this consumer and make another one")

    def _begin(self, work: Callable[[], T]) -> PendingCall[T]:
        return PendingCall.run(self._client.main, work)

    def _begin_question(self, ask: Callable[[Callable[[Any], None], float], None], timeout: float) -> PendingCall[Any]:
        """Has the control thread ask something, as ``ask(done, deadline)``; what ``done`` gets, a KafkaError raised."""

        def make(deadline: float, done: Callable[[Any], None]) -> list[Any]:
            ask(done, deadline)
            return []

        return PendingCall.gather(self._client.main, make, timeout)


def _polls(consumer: weakref.ref[Consumer]) -> tuple[int, bool]:
    """How many polls the application has begun, and whether it is inside one."""
    it = consumer()
    polls, polling, _ = (0, 0, 0) if it is None else it._poll_counts()
    return polls, polling > 0


def _waits(consumer: weakref.ref[Consumer]) -> tuple[int, bool]:
    """How many polls the application has begun, and whether it is inside one that has nothing in hand."""
    it = consumer()
    polls, polling, holding = (0, 0, 0) if it is None else it._poll_counts()
    return polls, polling > holding


def _rebalanced(consumer: weakref.ref[Consumer], callback: OnRebalance, kind: Kind, keys: list[Key]) -> bool:
    """A step of a rebalance, on the application's thread; True if the callback has changed the assignment."""
    it = consumer()
    if it is None:
        return False
    it._rebalancing, it._handled = kind, False
    try:
        callback(it, [TopicPartition(*key) for key in keys])
    finally:
        it._rebalancing = None
    return it._handled
