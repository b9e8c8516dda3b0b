"""Consumer: reads messages, in a group or from assigned partitions, and commits offsets."""

from __future__ import annotations

import operator
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

from kafka_native._native.arrow_consumer import ColumnBatch, ColumnMemory, ColumnPlan, take_columns
from kafka_native._native.consumer_core import ConsumerCore
from kafka_native._native.message import Message
from kafka_native._native.methods import implemented_by
from kafka_native.arrow import (
    ArrowBatch,
    ArrowStream,
    ColumnRequest,
    Columns,
    Decode,
    OnError,
    checked_records,
)
from kafka_native.client_core import HANDLE_CLOSED_TEXT, ClientCore, own_client, settings_of
from kafka_native.config import Config
from kafka_native.consumer_calls import CLOSED_TEXT, ConsumerCalls
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
from kafka_native.control.group.rebalance import Kind
from kafka_native.control.main_thread import Managers
from kafka_native.control.settings import connection_settings, consumer_settings, producer_settings
from kafka_native.deadlines import deadline_of, left_s, seconds
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.partition_queue import PartitionQueue
from kafka_native.threads import Event
from kafka_native.types import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    AnyMessage,
    ClusterMetadata,
    ConsumerGroupMetadata,
    TopicPartition,
    Uuid,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from kafka_native.codecs.codec import Codec
    from kafka_native.statistics import ClientMetrics

CLOSE_S = 30.0
"""The default timeout of close(), for callbacks, commits and the coordinator, as in Java."""

OnRebalance = Callable[["Consumer", list[TopicPartition]], object]


class Consumer(ConsumerCalls):
    """Reads messages.

        with Consumer({"bootstrap.servers": "localhost:9092", "group.id": "readers"}) as consumer:
            consumer.subscribe(["greetings"])
            for message in consumer:
                print(message.value())

    With `subscribe()`, it joins a group, which shares the partitions of its topics among its
    members. With `assign()`, you choose the partitions. Messages are fetched in the background, up
    to ``queued.max.messages.kbytes``. Configuration: librdkafka's properties
    (docs/CONFIGURATION.md), as a dict, keywords, or both.

    A consumer belongs to one thread at a time; only `wakeup()` and `close()` may come from any
    thread. Callbacks run inside `poll()`, `consume()`, `consume_callback()`, iteration,
    `unsubscribe()` and `close()`. They may call all methods of the consumer. Their exceptions are
    raised by the call that runs them. After ``fork()`` the child has to create its own consumer.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **kwargs: Any) -> None:
        """Raises KafkaException (_INVALID_ARG) for an unknown property or an invalid value.

        RuntimeError: this consumer exists already and isn't closed.
        """
        existing = own_client(self)
        if existing is not None and not existing.closed:
            raise RuntimeError("Consumer already initialized")
        settings = settings_of(self, config, kwargs, "consumer")
        everything = {
            **connection_settings(settings),
            **producer_settings(settings, 0, False),
            **consumer_settings(settings, eof_when_empty=self._behaviour.eof_when_empty),
        }
        strategies: Any = settings["partition.assignment.strategy"]
        assignors = make(strategies)
        self._client = ClientCore(
            settings,
            "consumer",
            everything,
            partial(self._make_managers, settings, assignors),
            eager=self._eager,
            fatal_flag=self._behaviour.fatal_flag,
            no_partition=self._behaviour.no_partition,
            host=self._host,
        )
        self._rebalancing: Kind | None = None
        self._handled = False
        self._closing = threading.Lock()
        interceptors: Any = settings["interceptors"]
        if interceptors is not None:
            from kafka_native.interceptors import Chain, ConsumerHooks, intercept

            chain = Chain(interceptors, self._client.logs["interceptor"])
            self._callbacks.interceptor_on_commit = chain.on_commit
            intercept(self, ConsumerHooks, chain)
        self._rebalance_cb = settings.function("rebalance_cb")
        consume_cb = settings.function("consume_cb")
        if consume_cb is not None:
            from kafka_native.interceptors import ConsumeCallback, mix_in

            self._consume_cb = consume_cb
            mix_in(self, ConsumeCallback)
        self._open(
            self._client.engine,
            error_for,
            exception_of,
            partial(self._client.check_open, CLOSED_TEXT),
            partial(fatal_of, self._client),
            partial(give_back, self._client, self._control.fetches),
            settings.integer("max.poll.records"),
        )
        self._queues: weakref.WeakSet[PartitionQueue] = weakref.WeakSet()
        self._intercepts = interceptors is not None
        self._callback_messages = settings.integer("consume.callback.max.messages")
        self._column_memory = ColumnMemory()
        self._auto_stores = settings.flag("enable.auto.offset.store")
        self._uses_offset_files = settings.text("offset.store.method") == "file"
        self._timeout_s = settings.integer("socket.timeout.ms") / 1000
        self._client.main.start()

    def _make_managers(
        self, settings: Config, assignors: list[Assignor], client: ClientCore
    ) -> Managers:
        on_commit = settings.function("on_commit") or settings.function("offset_commit_cb")
        self._callbacks = ConsumerCallbacks(client, on_commit, self._behaviour.no_partition)
        # The threads hold no strong reference to this consumer, so dropping it ends them.
        hooks = Hooks(
            on_error=self._callbacks.on_error,
            on_fatal=client.on_fatal,
            on_commit=self._callbacks.committed,
            on_silent_commit=self._callbacks.committed_silently,
            call_back=self._callbacks.add,
            polls=partial(_polls, weakref.ref(self)),
            waits=partial(_waits, weakref.ref(self)),
            poll_times=partial(_poll_times, weakref.ref(self)),
        )
        self._control = ConsumerControl(
            client.context, settings, hooks, assignors, behaviour=self._behaviour
        )
        return Managers.of_consumer(self._control)

    # --- messages; the code of most of these calls is in _native/consumer_core.pyx ---

    @implemented_by(ConsumerCore.poll)
    def poll(self, timeout: float | None = None) -> Message | None:
        """Returns the next message.

        The call also raises exceptions of callbacks. No message is lost by that.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait for a message. None, negative or more than a year waits without limit; 0
            doesn't wait.

        Returns
        -------
        Message or None
            None: the time is up, `wakeup()` was called, or the consumer was closed during the call.
            Check `Message.error()`: ends of partition (``enable.partition.eof``), fetch errors and
            a fatal error come as Messages, too.

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
        """Returns several messages at once.

        Parameters
        ----------
        num_messages : int, optional
            How many at most, 0 to 1,000,000. None: up to ``max.poll.records``, and the call returns
            as soon as it has one.
        timeout : float, optional
            Seconds to wait for that many messages. None, negative or more than a year waits without
            limit; 0 doesn't wait.

        Returns
        -------
        list of Message
            Fewer than asked for, or none, when the time is up, after `wakeup()`, and when a
            callback is due. The next call makes that callback before it takes messages.

        Raises
        ------
        ValueError
            ``num_messages`` isn't in its range, or the timeout is NaN.
        RuntimeError
            The consumer is closed.
        """

    @implemented_by(ConsumerCore.__iter__)
    def __iter__(self) -> Iterator[Message]:  # type: ignore[empty-body]
        """The consumer itself."""

    @implemented_by(ConsumerCore.__next__)
    def __next__(self) -> Message:  # type: ignore[empty-body]
        """Waits for the next message that isn't an error.

        An error is raised as KafkaException; a fatal error is raised each time. The iteration ends
        when the consumer is closed. It also ends after `wakeup()`, and can then be continued.
        """

    @implemented_by(ConsumerCore.wakeup)
    def wakeup(self) -> None:
        """Ends the wait of `poll()`, `consume()` or an iteration, or else of the next such call.

        poll() returns None, consume() and consume_callback() return what they have, and an
        iteration ends, even if messages are queued: the next call returns them. Any thread and any
        signal handler may call it. One call ends one wait. On a closed consumer it does nothing.
        """

    def consume_callback(
        self,
        callback: Callable[[Message], object],
        max_messages: int | None = None,
        timeout: float = -1,
    ) -> int:
        """Calls ``callback`` for each message, as librdkafka's legacy consumer does.

        The call waits for the first message, then continues with the messages that are queued by
        then. Later ones are left to the next call. Errors come as Messages, as from `poll()`. The
        callback may call any method of the consumer; `wakeup()` ends the call after the current
        message. An exception of the callback ends the call, and its message counts as delivered.

        Parameters
        ----------
        callback : callable
            Called with one Message; its return value is ignored.
        max_messages : int, optional
            How many at most; 0 for no limit, None for ``consume.callback.max.messages``.
        timeout : float
            Seconds to wait for the first message. Negative waits without limit; 0 doesn't wait.

        Returns
        -------
        int
            How many messages the callback got.

        Raises
        ------
        TypeError
            ``callback`` can't be called.
        ValueError
            ``max_messages`` is negative.
        """
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {type(callback).__name__}")
        limit = self._callback_messages if max_messages is None else operator.index(max_messages)
        if limit < 0:
            raise ValueError("max_messages must be 0 (no limit) or more")
        return self._consume_each(callback, limit, timeout)

    # --- columns ---

    def consume_arrow(
        self,
        max_records: int = 1_000_000,
        timeout: float | None = -1,
        *,
        columns: Columns = None,
        value: Codec | None = None,
        key: Codec | None = None,
        on_error: OnError = "raise",
        flatten: bool = False,
    ) -> ArrowBatch:
        """Returns records as Arrow columns.

        The call makes no Python object per record, and it runs without the interpreter lock. It
        waits for ``max_records`` records or until the time is up, as `consume()` does. An end of
        partition, a callback that is due, `wakeup()` and a full column (one with 32-bit offsets
        holds 2 GiB) end it early. ``max.poll.records`` is ignored. Positions move as with
        `consume()`.

        Parameters
        ----------
        max_records : int
            How many at most, 0 to 2,147,483,647.
        timeout : float, optional
            Seconds. None or negative waits without limit; 0 doesn't wait.
        columns : sequence of str, or mapping of names to types, optional
            The columns, in this order; a type of None is the default. None: topic, partition,
            offset, timestamp, key and value. `kafka_native.arrow.COLUMNS` has all names and types.
            Only these columns are made. A ``_view`` isn't copied; it keeps the response in which it
            came.
        value, key : Codec, optional
            Decodes the column ``value`` or ``key`` into typed columns: `kafka_native.codecs.Avro`,
            ``Protobuf`` or ``Json``. The call asks the schema registry for each new schema once.
        on_error : str
            How to treat a message that doesn't decode. ``"raise"``: the call returns the messages
            before it, and the next call raises the error. ``"null"``: its value is null.
            ``"column"``: its value is null, and a further column ``value_error`` or ``key_error``
            has the reason. ``"bytes"``: like ``"column"``, and a further column ``value_bytes`` or
            ``key_bytes`` has the bytes of this message. ``"split"``: the batch has only the
            messages that decode, and `ArrowBatch.malformed` has the others. ``max_records`` counts
            both.
        flatten : bool
            Whether the fields of decoded records become columns of their own. Default: a column is
            a struct.

        Returns
        -------
        ArrowBatch
            It may be empty. It outlives the consumer.

        Raises
        ------
        KafkaException
            A fetch or a batch has failed, or the consumer has a fatal error (`fatal_error()`).
            Records before the error are returned first; the next call raises it.
        ValueError
            A name, type or number is invalid. Or a column can't hold a record (bytes that aren't
            UTF-8 in a ``string``): the record isn't lost, ask for the column as ``binary``.
        MessageDecodeError
            A message doesn't decode. It isn't lost: seek to the offset after it, or use
            ``on_error``.
        SchemaError
            The reader's schema has no columns.
        SchemaLookupError
            The schema registry doesn't answer, or doesn't have the reader's schema, whatever
            ``on_error`` is. The next call asks again.
        RuntimeError
            The consumer is closed.
        """
        self._check_open()
        request = ColumnRequest(columns, Decode(value, key, on_error, flatten))
        records_max, timeout_s = checked_records(max_records), seconds(timeout)
        return ArrowBatch(
            self._take_columns(request.plan(self._topics_read), records_max, timeout_s)
        )

    def arrow_stream(
        self,
        max_records: int = 100_000,
        timeout: float | None = -1,
        *,
        columns: Columns = None,
        value: Codec | None = None,
        key: Codec | None = None,
        on_error: OnError = "raise",
        flatten: bool = False,
    ) -> ArrowStream:
        """Returns batches of columns, one after the other.

        The stream is an iterator, an async iterator, and an Arrow stream.

        Parameters
        ----------
        max_records : int
            How many records a batch has at most.
        timeout : float, optional
            Seconds. A batch waits that long for ``max_records``, and the stream ends when no record
            came for that long. None or negative: a batch has what is there as soon as there is any
            record, and the stream has no end. ``async for`` never waits for a batch to fill up.
        columns : sequence of str, or mapping of names to types, optional
            As of `consume_arrow()`.
        value, key : Codec, optional
            As of `consume_arrow()`. The reader's schema is looked up when the stream is first
            used. ``async for`` asks the schema registry in a thread.
        on_error : str
            As of `consume_arrow()`. An Arrow library can't read a stream with ``"split"``.
        flatten : bool
            As of `consume_arrow()`.

        Returns
        -------
        ArrowStream
            Its records and errors are those of `consume_arrow()`.

        Raises
        ------
        ValueError
            A name, type or number is invalid.
        """
        request = ColumnRequest(columns, Decode(value, key, on_error, flatten))
        records_max = checked_records(max_records)
        if records_max == 0:
            raise ValueError("max_records must be 1 or more in a stream")
        longest = seconds(timeout)
        self._check_open()

        def take(plan: ColumnPlan, waited_s: float, defer_lookups: bool) -> ColumnBatch:
            return self._take_columns(
                plan,
                records_max,
                waited_s,
                return_early=longest < 0,
                iterating=True,
                defer_lookups=defer_lookups,
            )

        make_plan = partial(request.plan, self._topics_read)
        return ArrowStream(
            self, make_plan, lambda: self._client.closed, self._column_memory, take, longest
        )

    def _topics_read(self) -> set[str]:
        """Return the topics of the subscription and the assignment.

        Each of the two lists is copied in one step, so the control thread isn't asked.

        :raises RuntimeError: The consumer is closed. It reads no topic any more.
        """
        control = self._control
        named = {name for name in list(control.subscription.wanted) if not name.startswith("^")}
        named |= {topic for topic, _ in list(control.fetches.assigned)}
        self._check_open()
        return named

    def _check_columns(self) -> None:
        """Raise if the consumer can't return columns. Interceptors override it."""

    def _take_columns(
        self,
        plan: ColumnPlan,
        records_max: int,
        timeout: float,
        *,
        return_early: bool = False,
        iterating: bool = False,
        defer_lookups: bool = False,
    ) -> ColumnBatch:
        self._check_columns()
        return take_columns(
            self,
            plan,
            self._column_memory,
            records_max,
            timeout,
            return_early=return_early,
            iterating=iterating,
            defer_lookups=defer_lookups,
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
        """Joins the group and reads the partitions of these topics that the group assigns.

        It replaces the subscription. A name that begins with ``^`` is a regular expression: it
        subscribes to all topics that it matches, also to those that are created later. A
        subscription ends an assignment by hand.

        Parameters
        ----------
        topics : list of str
            At least one.
        on_assign : callable, optional
            Called with (consumer, partitions) when partitions are added. It may `assign()` them
            with other offsets (`incremental_assign()` with a cooperative assignor or
            group.protocol=consumer). If it doesn't, they start at the group's committed offset, or
            else where ``auto.offset.reset`` says.
        on_revoke : callable, optional
            Called before partitions go to another member: the last chance to commit. Stored offsets
            are committed after it (``enable.auto.commit``).
        on_lost : callable, optional
            Called when the member was removed from the group and its partitions are gone already.
            Committing them fails. Without it, ``on_revoke`` is called.
        initial_offsets : iterable of TopicPartition
            Where to start partitions for which the group has no committed offset, for instance from
            the application's own checkpoint. Other partitions start where ``auto.offset.reset``
            says.

        Raises
        ------
        TypeError
            ``topics`` isn't a list of str, or a callback can't be called.
        KafkaException
            _INVALID_ARG: no topic, an empty name, or an invalid regular expression. _UNKNOWN_GROUP:
            there is no ``group.id``. _FATAL: after a fatal error.
        """
        self._begin_subscribe(topics, on_assign, on_revoke, on_lost, initial_offsets).result()

    def unsubscribe(self) -> None:
        """Leaves the group.

        It calls ``on_revoke``, commits stored offsets, and reads no partition any more. It waits
        for that, except in a callback. Without a subscription it does nothing.
        """
        self._check_open()
        if self._behaviour.unsubscribe_calls_back and not self._in_callback():
            self._finish(self._control.unsubscribe, CLOSE_S)
        else:
            self._begin_unsubscribe().result()

    def enforce_rebalance(self, reason: str = "") -> None:
        """Joins the group again, so that partitions are assigned again (KIP-568).

        Use it, for example, when an assignor has new information. The coordinator decides whether
        other members have to join, too; it does so when the group's leader asks.

        Parameters
        ----------
        reason : str
            The reason that the coordinator gets (KIP-800).

        Raises
        ------
        KafkaException
            _STATE: there is no subscription. _UNSUPPORTED_FEATURE: with group.protocol=consumer the
            coordinator decides when to assign.
        """
        self._begin_enforce_rebalance(reason).result()

    def subscription(self) -> list[str]:
        """Returns the topics and patterns of the subscription."""
        return self._begin_subscription().result()

    def memberid(self) -> str | None:
        """Returns the member id that the coordinator assigned; None while it is no member."""
        self._check_open()
        member = self._control.member
        return member.member_id if member.joined else None

    def rebalance_protocol(self) -> str:
        """Returns how the group moves partitions between its members.

        Returns
        -------
        str
            ``NONE`` (not joined yet), ``EAGER`` or ``COOPERATIVE``.
        """
        self._check_open()
        return self._begin(lambda: self._control.membership.assignor_protocol).result()

    def consumer_group_metadata(self) -> ConsumerGroupMetadata:
        """Returns this member's identity for `Producer.send_offsets_to_transaction()`.

        Returns
        -------
        ConsumerGroupMetadata
            It can be pickled.

        Raises
        ------
        KafkaException
            _UNKNOWN_GROUP: there is no ``group.id``.
        """
        return self._begin_group_metadata().result()

    # --- assignment ---

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions from now on, and no others.

        With a subscription, call it in an ``on_assign`` or ``on_revoke`` callback of a group that
        rebalances eagerly, or at any time, for instance to start partitions elsewhere. The next
        rebalance of the group replaces the assignment.

        Parameters
        ----------
        partitions : list of TopicPartition
            Each with the offset to start from, or OFFSET_BEGINNING, OFFSET_END or OFFSET_STORED. By
            default a partition starts at the group's committed offset, or else where
            ``auto.offset.reset`` says.

        Raises
        ------
        KafkaException
            _INVALID_ARG: a partition occurs twice. _STATE: the group rebalances cooperatively.
            _FATAL: after a fatal error.
        """
        self._begin_assign(partitions).result()

    def unassign(self) -> None:
        """Reads no partition any more, and commits stored offsets (``enable.auto.commit``)."""
        self._begin_unassign().result()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions in addition to the assigned ones.

        With a subscription, the group has to rebalance cooperatively.

        Parameters
        ----------
        partitions : list of TopicPartition
            As for `assign()`.

        Raises
        ------
        KafkaException
            _CONFLICT: a partition is assigned already. _INVALID_ARG: a partition occurs twice.
            _STATE: the group rebalances eagerly. The assignment stays as it was.
        """
        self._begin_incremental_assign(partitions).result()

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Stops reading these partitions.

        Their stored offsets are committed (``enable.auto.commit``).

        Parameters
        ----------
        partitions : list of TopicPartition
            Partitions that are assigned.

        Raises
        ------
        KafkaException
            _INVALID_ARG: a partition isn't assigned. _STATE: the group rebalances eagerly. The
            assignment stays as it was.
        """
        self._begin_incremental_unassign(partitions).result()

    def assignment(self) -> list[TopicPartition]:
        """Returns the assigned partitions, each with the offset that it was assigned with.

        OFFSET_STORED means that none was given: the partition started at the group's committed
        offset, or else where ``auto.offset.reset`` says. `position()` returns the current offsets.
        """
        return self._begin_assignment().result()

    # --- positions ---

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Returns the next offset to be returned of each partition.

        It comes with the leader epoch of the message before it. The offset is OFFSET_INVALID before
        the partition's first message, after a seek, and if the partition isn't assigned.

        Parameters
        ----------
        partitions : list of TopicPartition
            Partitions, assigned or not.

        Returns
        -------
        list of TopicPartition
            The partitions with their positions.
        """
        self._check_open()
        found = []
        for each in self._listed(partitions):
            key = (each.topic, each.partition)
            state = self._control.fetches.assigned.get(key)
            offset, epoch = (
                (OFFSET_INVALID, None) if state is None else (state.position, state.position_epoch)
            )
            found.append(TopicPartition(*key, offset, each.metadata, epoch))
        return found

    def seek(self, partition: TopicPartition | list[TopicPartition]) -> None:
        """Continues at ``partition.offset``.

        That is an absolute offset, OFFSET_BEGINNING, OFFSET_END or OFFSET_STORED. Messages that
        were fetched and not returned are dropped. If the log doesn't have the offset,
        ``auto.offset.reset`` applies.

        Parameters
        ----------
        partition : TopicPartition or list of TopicPartition
            One, or several: then all of them are moved, or none.

        Raises
        ------
        KafkaException
            A partition isn't assigned: _STATE, or _UNKNOWN_PARTITION if no partition of its topic
            ever was.
        ValueError
            A partition has no offset.
        """
        self._begin_seek(partition).result()

    def seek_to_beginning(self, partitions: list[TopicPartition] | None = None) -> None:
        """Continues at the first message of each of these partitions.

        Parameters
        ----------
        partitions : list of TopicPartition, optional
            None: all that are assigned.
        """
        self._begin_seek_all(partitions, OFFSET_BEGINNING).result()

    def seek_to_end(self, partitions: list[TopicPartition] | None = None) -> None:
        """Continues after the last message of each of these partitions.

        Parameters
        ----------
        partitions : list of TopicPartition, optional
            None: all that are assigned.
        """
        self._begin_seek_all(partitions, OFFSET_END).result()

    def seek_to_time(
        self, timestamp_ms: int, partitions: list[TopicPartition] | None = None, timeout: float = -1
    ) -> None:
        """Continues at each partition's first message that isn't older than a time.

        Without such a message the partition continues at its end.

        Parameters
        ----------
        timestamp_ms : int
            Milliseconds since 1970.
        partitions : list of TopicPartition, optional
            None: all that are assigned.
        timeout : float
            Seconds to wait for the brokers' answers; negative waits without limit.

        Raises
        ------
        KafkaException
            No answer came in time, or a partition isn't assigned. No partition is moved.
        ValueError
            The time is negative.
        """
        self._begin_seek_to_time(timestamp_ms, partitions, timeout).result()

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Returns no messages of these partitions until `resume()`; their positions stay.

        A rebalance keeps the pause. A partition that isn't assigned yet will be paused once it is.
        `unsubscribe()` ends all pauses.

        Parameters
        ----------
        partitions : list of TopicPartition
            Partitions, assigned or not.
        """
        self._begin_pause(partitions).result()

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Ends `pause()` for these partitions, also for those that aren't assigned any more.

        Parameters
        ----------
        partitions : list of TopicPartition
            Partitions, assigned or not.
        """
        self._begin_resume(partitions).result()

    def paused(self) -> list[TopicPartition]:
        """Returns the assigned partitions that are paused."""
        return self._begin_paused().result()

    # --- offsets ---

    @overload
    def commit(
        self, message: AnyMessage | None = ..., *, asynchronous: Literal[True] = ...
    ) -> None: ...

    @overload
    def commit(
        self, *, offsets: list[TopicPartition] | None = ..., asynchronous: Literal[True] = ...
    ) -> None: ...

    @overload
    def commit(
        self, message: AnyMessage | None = ..., *, asynchronous: Literal[False]
    ) -> list[TopicPartition]: ...

    @overload
    def commit(
        self, *, offsets: list[TopicPartition] | None = ..., asynchronous: Literal[False]
    ) -> list[TopicPartition]: ...

    @overload
    def commit(
        self, message: AnyMessage | None = ..., *, asynchronous: bool
    ) -> list[TopicPartition] | None: ...

    @overload
    def commit(
        self, *, offsets: list[TopicPartition] | None = ..., asynchronous: bool
    ) -> list[TopicPartition] | None: ...

    def commit(
        self,
        message: AnyMessage | None = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commits offsets to the group.

        By default it commits what is stored and not committed yet. It retries while the coordinator
        moves, for ``socket.timeout.ms`` at most.

        Parameters
        ----------
        message : Message, optional
            It and all messages before it in its partition are processed: its offset + 1 is
            committed.
        offsets : list of TopicPartition, optional
            The next offset to read of each partition, with metadata and leader epochs. Offsets
            below 0 are left out. Not together with ``message``.
        asynchronous : bool
            True: return None at once; ``on_commit`` gets the outcome. False: wait for the outcome.

        Returns
        -------
        list of TopicPartition or None
            With ``asynchronous=False``: the given or else all assigned partitions. Each has its
            ``error`` or None, and OFFSET_INVALID if it had nothing to commit. ``on_commit`` isn't
            called.

        Raises
        ------
        KafkaException
            _NO_OFFSET: there is nothing to commit. All partitions failed with the same error.
            _UNKNOWN_GROUP: there is no ``group.id``. With ``asynchronous`` only errors that are
            known at once.
        """
        return self._begin_commit(message, offsets, asynchronous).result()

    def store_offsets(
        self, message: AnyMessage | None = None, offsets: list[TopicPartition] | None = None
    ) -> None:
        """Stores offsets for the next commit; needs ``enable.auto.offset.store=false``.

        `commit()` or the automatic commit commits them.

        Parameters
        ----------
        message : Message, optional
            It and all messages before it in its partition are processed: its offset + 1 is stored.
        offsets : list of TopicPartition, optional
            The next offset to read of each partition. Not together with ``message``.

        Raises
        ------
        KafkaException
            None of the partitions is assigned: _STATE, or _UNKNOWN_PARTITION if no partition of
            their topics ever was. _INVALID_ARG: offsets are stored automatically
            (``enable.auto.offset.store``).
        ValueError
            Neither or both are given.
        """
        self._begin_store_offsets(message, offsets).result()

    def committed(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Returns the group's committed offsets of these partitions.

        Parameters
        ----------
        partitions : list of TopicPartition
            Assigned or not.
        timeout : float
            Seconds to wait; negative waits without limit.

        Returns
        -------
        list of TopicPartition
            The partitions with offset, metadata and leader epoch; OFFSET_INVALID if nothing is
            committed.

        Raises
        ------
        KafkaException
            No answer came in time, the coordinator refused, or there is no ``group.id``.
        """
        return self._begin_committed(partitions, timeout).result()

    @property
    def on_commit(self) -> OnCommit | None:
        """Called by the next `poll()` after a commit, with (error, partitions).

        Its initial value is the configuration's ``on_commit``.
        """
        return self._callbacks.on_commit

    @on_commit.setter
    def on_commit(self, callback: OnCommit | None) -> None:
        if callback is not None and not callable(callback):
            raise TypeError("on_commit expects a callable")
        self._callbacks.on_commit = callback

    # --- offsets of the log ---

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Returns the offset of each partition's first message that isn't older than a time.

        Parameters
        ----------
        partitions : list of TopicPartition
            Assigned or not, each with the time as its ``offset``, in milliseconds since 1970.
        timeout : float
            Seconds to wait; negative waits without limit.

        Returns
        -------
        list of TopicPartition
            The same partitions with offsets and leader epochs; OFFSET_END if no message is as
            young. A partition without an answer has the reason as its ``error``.

        Raises
        ------
        KafkaException
            No partition has an answer.
        """
        return self._begin_offsets_for_times(partitions, timeout).result()

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """Returns the partition's first offset, and the offset after its last message.

        With ``isolation.level=read_committed`` the second one is the last stable offset.

        Parameters
        ----------
        partition : TopicPartition
            Assigned or not.
        timeout : float
            Seconds to wait; negative waits without limit.
        cached : bool
            Return the offsets of the last fetch, without a request: OFFSET_INVALID if unknown.

        Returns
        -------
        tuple of int
            The two offsets.

        Raises
        ------
        KafkaException
            No answer came in time, or the leader's error.
        """
        return self._begin_watermarks(partition, timeout, cached).result()

    # --- a thread for each partition ---

    def partition_queue(self, partition: TopicPartition) -> PartitionQueue:
        """Returns a queue that alone gets the messages of this partition.

        So several threads can each read a partition. Until the queue is closed, the consumer's own
        `poll()` and `consume()` don't return the partition's messages. The queue begins at the
        partition's position. The consumer must still be polled: for callbacks, rebalances,
        ``max.poll.interval.ms``, errors, and the partitions without a queue.

        Parameters
        ----------
        partition : TopicPartition
            An assigned partition without a queue.

        Raises
        ------
        KafkaException
            _STATE: the partition isn't assigned, or has a queue. _INVALID_ARG: the consumer has
            ``interceptors``, which would miss these messages.
        RuntimeError
            The consumer is closed.
        """
        [key] = self._keys_of([partition])
        self._check_open()
        if self._intercepts:
            text = "interceptors don't get the messages of a partition's queue"
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
        queue = PartitionQueue(self, key)
        self._queues.add(queue)
        return queue

    # --- lag ---

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Returns how many offsets the application is behind the partition's end.

        The end is that of the last fetch; the call makes no request. With
        ``isolation.level=read_committed`` it is the last stable offset. Offsets without a message
        (compaction, transactions) count.

        Parameters
        ----------
        partition : TopicPartition
            An assigned partition.

        Returns
        -------
        int or None
            None: the position or the end isn't known yet, or the partition isn't assigned.
        """
        [key] = self._keys_of([partition])
        self._check_open()
        state = self._control.fetches.assigned.get(key)
        return None if state is None else self._lag(state)

    def lag(self) -> dict[TopicPartition, int | None]:
        """Returns the `current_lag()` of each assigned partition."""
        return self._begin_lag().result()

    def lag_max(self) -> int | None:
        """Returns the largest `current_lag()` of the assigned partitions, as in Java's metrics.

        Partitions whose lag isn't known yet don't count. None: no lag is known. The call makes no
        request, so the figure is as old as the last fetches.
        """
        return self._begin_lag_max().result()

    # --- the cluster ---

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Sets another user name and password; see `Producer.set_sasl_credentials`."""
        self._client.check_open(HANDLE_CLOSED_TEXT)
        self._client.set_sasl_credentials(username, password)

    def brokers_add(self, brokers: str) -> int:
        """Adds bootstrap servers while the client runs; see `Producer.brokers_add`."""
        self._client.check_open(HANDLE_CLOSED_TEXT)
        return self._client.brokers_add(brokers)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """Asks a broker for brokers, topics and partitions; see `Producer.list_topics`."""
        return self._client.list_topics(topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str | None:
        """Asks a broker for the cluster's id; see `Producer.cluster_id`."""
        return self._client.cluster_id(timeout)

    def client_instance_id(self, timeout: float = -1) -> Uuid:
        """Returns the id under which metrics are pushed; see `Producer.client_instance_id`."""
        return self._client.client_instance_id(timeout)

    def metrics(self) -> ClientMetrics:
        """Returns this client's statistics; see `Producer.metrics`."""
        return self._client.metrics(CLOSED_TEXT)

    def fatal_error(self) -> KafkaError | None:
        """Returns the fatal error of this consumer, None if it has none.

        An example: another member uses its group.instance.id. poll() returns the error once as a
        Message with _FATAL. Iteration raises it, and so do calls that change something.
        """
        return self._client.fatal

    # --- the end ---

    def close(self, timeout: float = CLOSE_S) -> None:
        """Leaves the group, commits stored offsets (``enable.auto.commit``), and ends all threads.

        It calls ``on_revoke`` and ``on_commit``, and ends `poll()` in other threads. A second call
        does nothing. In a callback, the consumer is closed as soon as the callback has returned.

        Parameters
        ----------
        timeout : float
            Seconds. When they are over, the consumer is closed as it is; negative waits without
            limit. If a callback raises, the consumer is closed all the same, and the exception is
            raised afterwards.
        """
        if self._client.closed:
            return
        if self._in_callback():
            self._after_callback(partial(self._close, timeout))
        else:
            self._close(timeout)

    def _close(self, timeout: float) -> None:
        if not self._closing.acquire(blocking=False):
            return  # another thread closes it, or this is one of its callbacks
        self._mark_closed()
        for queue in list(self._queues):
            queue._mark_closed()
        try:
            deadline = deadline_of(timeout)
            try:
                self._finish(self._control.close, timeout)
            finally:
                self._client.push_last(left_s(deadline))
        finally:
            self._shut()

    def _finish(self, begin: Callable[[Callable[[], None], float], None], timeout: float) -> None:
        """Ends something on the control thread.

        Runs its callbacks, then raises their first exception.
        """
        ended = Event()
        engine = self._client.engine

        def done() -> None:
            ended.set()
            engine.kick()

        self._client.main.post(lambda: begin(done, time.monotonic()))
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
        for queue in list(self._queues):
            queue._end()
        if not self._client.forked:
            self._drain()
            self._client.release()

    def __enter__(self) -> Self:
        """The consumer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the consumer. After an exception, the messages of the last call come again."""
        self._hold_back(error)
        self.close()

    def __del__(self) -> None:
        """Leaves the group and stops the threads of a consumer that was dropped without close().

        It commits nothing.
        """
        client = own_client(self)
        if client is not None and not client.closed:
            self._mark_closed()
            self._drain()  # before the client goes: segments need the engine to be freed
            client.drop()

    def __repr__(self) -> str:
        """The consumer's name and state."""
        if own_client(self) is None:
            return object.__repr__(self)
        state = (
            "closed"
            if self._client.closed
            else f"{len(self._control.fetches.assigned)} partitions assigned"
        )
        return f"<Consumer {self._client.name} ({state})>"


def _polls(reference: weakref.ref[Consumer]) -> tuple[int, bool]:
    """How many polls the application has begun, and whether it is inside one."""
    consumer = reference()
    polls, polling, _ = (0, 0, 0) if consumer is None else consumer._poll_counts()
    return polls, polling > 0


def _poll_times(reference: weakref.ref[Consumer], end: bool) -> tuple[int, int, int, int]:
    """The times of the application's polls; see `ConsumerCore._poll_times`."""
    consumer = reference()
    return (0, 0, 0, 0) if consumer is None else consumer._poll_times(end)


def _waits(reference: weakref.ref[Consumer]) -> tuple[int, bool]:
    """How many polls the application has begun, and whether one is running without messages."""
    consumer = reference()
    polls, polling, holding = (0, 0, 0) if consumer is None else consumer._poll_counts()
    return polls, polling > holding
