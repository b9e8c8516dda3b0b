"""Consumer: reads messages, in a group or from partitions given by hand, and commits how far it got."""

from __future__ import annotations

import operator
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any

from kafka_native._native.arrow_consuming import ColumnBatch, ColumnMemory, ColumnPlan, take_columns
from kafka_native._native.engine import Cursor
from kafka_native._native.message import Message
from kafka_native._native.primitives import exact_text
from kafka_native.arrow import ArrowBatch, ArrowStream, Columns, checked_records, plan_of
from kafka_native.assigning import CLOSED_TEXT, Assigning, checked, keys_of
from kafka_native.client import HANDLE_CLOSED_TEXT, Client
from kafka_native.config import Config, parse
from kafka_native.control.assignors import Assignor, make
from kafka_native.control.consumer.consumer_control import ConsumerControl, Hooks
from kafka_native.control.consumer.fetches import FetchManager
from kafka_native.control.group.rebalance import Kind, Listener
from kafka_native.control.main_thread import Managers
from kafka_native.control.positions import Key, position_of
from kafka_native.control.settings import connection_settings, consumer_settings, producer_settings
from kafka_native.deadlines import deadline_of, left_s, seconds
from kafka_native.errors import STATUS_TOO_LARGE, KafkaError, KafkaException, from_status
from kafka_native.interceptors import Chain, ConsumerHooks, intercept
from kafka_native.statistics import ClientMetrics
from kafka_native.threads import Event
from kafka_native.types import OFFSET_INVALID, ClusterMetadata, ConsumerGroupMetadata, TopicPartition, Uuid

CLOSE_S = 30.0
"""How long close() waits for a callback, a commit or the coordinator unless it is told another time; as Java."""

OnRebalance = Callable[["Consumer", list[TopicPartition]], object]
OnCommit = Callable[[KafkaError | None, list[TopicPartition]], object]


class Consumer(Assigning):
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
            _error_for,
            _exception_of,
            partial(self._client.check_open, CLOSED_TEXT),
            partial(_fatal_of, self._client),
            partial(_give_back, self._client, self._control.fetches),
            settings.integer("max.poll.records"),
        )
        self._callback_messages = settings.integer("consume.callback.max.messages")
        self._column_memory = ColumnMemory()
        self._stores_itself = settings.flag("enable.auto.offset.store")
        self._keeps_files = settings.text("offset.store.method") == "file"
        self._timeout_s = settings.integer("socket.timeout.ms") / 1000
        self._client.main.start()

    def _make_managers(self, settings: Config, assignors: list[Assignor], client: Client) -> Managers:
        self._callbacks = _Callbacks(client, settings.function("on_commit"))
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

    # --- messages ---

    def consume_callback(
        self, callback: Callable[[Message], object], max_messages: int | None = None, timeout: float = -1
    ) -> int:
        """Calls ``callback`` for each message: what librdkafka's legacy consumer does.

        Waits for the first message, then goes on with what is queued by then; what comes meanwhile is for the next
        call. Errors come as Messages, as from `poll()`. The callback may call anything of the consumer; `wakeup()` ends
        the call behind the message at hand. What it raises comes out of here, and its message counts as handed out.

        :param callback: Called with one Message; what it returns is ignored.
        :param max_messages: How many at most; 0 for no limit, None for ``consume.callback.max.messages``.
        :param timeout: Seconds to wait for the first message; negative waits for ever, 0 doesn't wait.
        :return: How many messages the callback has got.
        :raises TypeError: ``callback`` can't be called.
        :raises ValueError: ``max_messages`` is negative.
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

        :param max_records: At most so many, 0 to 2,147,483,647.
        :param timeout: Seconds; None or negative waits for ever, 0 doesn't wait.
        :param columns: Names, in their order, or a mapping from names to types (None: the default). None: topic,
        partition, offset, timestamp, key and value. `kafka_native.arrow.COLUMNS` has all names and types. Only what is
        asked for is made; a ``_view`` isn't even copied, but keeps the response that it came in.
        :return: Perhaps without any row. It outlives the consumer.
        :raises KafkaException: A fetch or a batch has failed, or the consumer has ended for good (`fatal_error()`).
        What came before it is returned first; the next call raises it.
        :raises ValueError: A name, a type or a number that can't be; or a record that its column can't hold (bytes that
        aren't UTF-8 in a ``string``): that one isn't lost, ask for it as ``binary``.
        :raises RuntimeError: The consumer is closed.
        """
        self._check_open()
        return ArrowBatch(self._take_columns(plan_of(columns), checked_records(max_records), seconds(timeout)))

    def arrow_stream(
        self, max_records: int = 100_000, timeout: float | None = -1, *, columns: Columns = None
    ) -> ArrowStream:
        """Batches of columns, one after the other: an iterator, an async iterator, and an Arrow stream.

        :param max_records: In a batch, at most.
        :param timeout: Seconds. A batch waits so long for ``max_records``, and the stream ends when nothing at all has
        come for so long. None or negative: a batch has what is there as soon as there is anything, and the stream goes
        on for ever. ``async for`` never waits for a batch to fill up.
        :param columns: As of `consume_arrow()`.
        :raises ValueError: A name, a type or a number that can't be. Records and errors as with `consume_arrow()`.
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

        :param topics: At least one.
        :param on_assign: Called with (consumer, partitions) when partitions are added. It may `assign()` them
        (`incremental_assign()` with a cooperative assignor or group.protocol=consumer) with offsets of its own; if it
        doesn't, they start where the group has committed, or else where ``auto.offset.reset`` says.
        :param on_revoke: Called before partitions go to another member: the last chance to commit. What is stored is
        committed after it (``enable.auto.commit``).
        :param on_lost: Called when partitions are gone already, because the member was thrown out; committing them is
        no use. ``on_revoke`` is called in its place where it isn't given.
        :param initial_offsets: Where to start partitions that the group has no offset of, for instance from a
        checkpoint of the application's; the others start where ``auto.offset.reset`` says.
        :raises TypeError: ``topics`` isn't a list of str, or a callback can't be called.
        :raises KafkaException: _INVALID_ARG: no topic, an empty name, or a regular expression that isn't one;
        _UNKNOWN_GROUP: there is no ``group.id``; _FATAL after a fatal error.
        """
        names = _names(topics)
        initial = {(each.topic, each.partition): position_of(each) for each in checked(initial_offsets)}
        if any(place.offset == OFFSET_INVALID for place in initial.values()):
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
        try:
            self._run(lambda: self._control.subscribe(names, listeners, time.monotonic(), initial))
        except ValueError as error:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"Failed to set subscription: {error}")) from None

    def unsubscribe(self) -> None:
        """Leaves the group: ``on_revoke`` is called, what is stored is committed, all partitions are given up.

        Waits for that, in a callback excepted. Harmless without a subscription.
        """
        self._check_open()
        self._finish(self._control.unsubscribe, CLOSE_S, wait=not self._in_callback())

    def enforce_rebalance(self, reason: str = "") -> None:
        """Joins the group anew, so that partitions are assigned again (KIP-568): say, an assignor has news to go by.

        It is for the coordinator to say whether others have to join, too; it does so when the group's leader asks.

        :param reason: What the coordinator is told (KIP-800).
        :raises KafkaException: _STATE: nothing is subscribed to; _UNSUPPORTED_FEATURE: with group.protocol=consumer the
        coordinator assigns, whenever it sees fit.
        """
        self._check_usable()
        if self._control.member.protocol == "consumer":
            text = "enforce_rebalance(): with group.protocol=consumer the coordinator decides when to rebalance"
            raise KafkaException(KafkaError(KafkaError._UNSUPPORTED_FEATURE, text))

        def work() -> bool:
            self._control.membership.rejoin(reason or "the application wants a rebalance", time.monotonic())
            return bool(self._control.subscription.wanted)

        if not self._run(work):
            raise KafkaException(KafkaError(KafkaError._STATE, "enforce_rebalance(): subscribe() first"))

    def subscription(self) -> list[str]:
        """The topics and patterns that are subscribed to."""
        self._check_open()
        return self._run(lambda: list(self._control.subscription.wanted))

    def memberid(self) -> str | None:
        """The id that the group's coordinator has given this member; None while it is no member."""
        self._check_open()
        member = self._control.member
        return member.member_id if member.joined else None

    def rebalance_protocol(self) -> str:
        """How partitions change hands in the group: ``NONE`` (not joined yet), ``EAGER`` or ``COOPERATIVE``."""
        self._check_open()
        return self._run(lambda: self._control.membership.assignor_protocol)

    def consumer_group_metadata(self) -> ConsumerGroupMetadata:
        """Who this consumer is in its group, for `Producer.send_offsets_to_transaction()`. It can be pickled.

        :raises KafkaException: _UNKNOWN_GROUP: there is no ``group.id``.
        """
        self._check_open()
        self._check_group("consumer_group_metadata()")
        member = self._control.member

        def work() -> ConsumerGroupMetadata:
            who = (member.generation, member.member_id) if member.joined else (-1, "")
            return ConsumerGroupMetadata(member.group_id, *who, member.instance_id)

        return self._run(work)

    def _check_group(self, call: str) -> None:
        if not self._control.member.group_id:
            text = f"{call} needs a consumer group: set `group.id`"
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_GROUP, text))

    def _check_keeper(self, call: str) -> None:
        """For calls that need somebody who keeps offsets."""
        if not self._keeps_files:
            self._check_group(call)

    # --- offsets ---

    def commit(
        self,
        message: Message | None = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commits offsets to the group: of a message, given ones, or (by default) what is stored and not committed yet.

        Tried again while the coordinator moves, for ``socket.timeout.ms`` at most.

        :param message: It and all before it in its partition have been dealt with: its offset + 1 is committed.
        :param offsets: What to go on with in each partition, with metadata and leader epochs; an offset below 0 is left
        out. Not together with ``message``.
        :param asynchronous: Return at once, None; ``on_commit`` tells how it went. False: wait for the outcome.
        :return: False: the given or else all assigned partitions, each with its ``error`` or None, and with
        OFFSET_INVALID where there was nothing to be committed. ``on_commit`` is told the same.
        :raises KafkaException: _NO_OFFSET: there is nothing to be committed; all partitions have failed with the same
        error; _UNKNOWN_GROUP: there is no ``group.id``. With ``asynchronous`` only what is known at once.
        """
        wanted = _given(message, offsets)
        self._check_usable()
        self._check_keeper("commit()")
        commits = self._control.commits

        def ask(done: Callable[[Any], None], deadline: float) -> None:
            if wanted is None:
                commits.commit_stored(done, deadline)
            else:
                commits.commit(wanted, done, deadline)

        if not asynchronous:
            outcome: list[TopicPartition] = self._ask(ask, self._timeout_s)
            return outcome
        self._client.main.post(lambda: ask(self._callbacks.had_nothing, time.monotonic() + self._timeout_s))
        return None

    def store_offsets(self, message: Message | None = None, offsets: list[TopicPartition] | None = None) -> None:
        """Stores offsets for the next commit, by itself or `commit()`'s; needs ``enable.auto.offset.store=false``.

        :param message: It and all before it in its partition have been dealt with: its offset + 1 is stored.
        :param offsets: What to go on with in each partition. Not together with ``message``.
        :raises KafkaException: _STATE: none of the partitions is assigned; _INVALID_ARG: offsets are stored by
        themselves (``enable.auto.offset.store``).
        :raises ValueError: Neither or both are given.
        """
        wanted = _given(message, offsets)
        if wanted is None:
            raise ValueError("expected either message or offsets")
        self._check_usable()
        if self._stores_itself:
            text = "StoreOffsets failed: offsets are stored by themselves; set enable.auto.offset.store=false"
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
        stored = self._run(lambda: self._control.commits.store(wanted))
        failed = [each for each in stored if each.error is not None]
        if failed and len(failed) == len(stored):
            raise KafkaException(failed[0].error)
        for each in failed:
            self._client.logger.warning("not stored: %s", each.error)

    def committed(self, partitions: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """What the group has committed of these partitions, assigned or not.

        :param timeout: Seconds to wait; negative waits for ever.
        :return: The partitions with offset, metadata and leader epoch; OFFSET_INVALID where nothing is committed.
        :raises KafkaException: No answer in time, the coordinator refuses, or there is no ``group.id``.
        """
        keys = keys_of(partitions)
        self._check_open()
        self._check_keeper("committed()")
        commits = self._control.commits
        found: list[TopicPartition] = self._ask(
            lambda done, deadline: commits.fetch_committed(keys, done, deadline), timeout
        )
        return found

    @property
    def on_commit(self) -> OnCommit | None:
        """Called with (error, partitions) by the next `poll()` when a commit is through; from the configuration."""
        return self._callbacks.on_commit

    @on_commit.setter
    def on_commit(self, callback: OnCommit | None) -> None:
        if callback is not None and not callable(callback):
            raise TypeError("on_commit expects a callable")
        self._callbacks.on_commit = callback

    # --- the cluster ---

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Takes another user name and password for PLAIN and SCRAM; see `Producer.set_sasl_credentials`."""
        self._client.check_open(HANDLE_CLOSED_TEXT)
        self._client.set_sasl_credentials(username, password)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The cluster's brokers, topics and partitions; see `Producer.list_topics`."""
        self._client.check_open(HANDLE_CLOSED_TEXT)
        return self._client.list_topics(topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str | None:
        """The cluster's id; see `Producer.cluster_id`."""
        self._client.check_open(HANDLE_CLOSED_TEXT)
        return self._client.cluster_id(timeout)

    def client_instance_id(self, timeout: float = -1) -> Uuid:
        """The id under which this client's metrics are pushed; see `Producer.client_instance_id`."""
        self._client.check_open(HANDLE_CLOSED_TEXT)
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

        :param timeout: Seconds that this may take, or else it is closed as it is; negative waits for ever. An
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


class _Callbacks:
    """What the control thread tells the application: errors as Messages, callbacks of the next poll()."""

    def __init__(self, client: Client, on_commit: OnCommit | None) -> None:
        self._engine = client.engine
        self.on_commit = on_commit
        self.intercepted: OnCommit | None = None

    def add(self, callback: Callable[[], object]) -> None:
        self._engine.callbacks.append(callback)
        self._engine.kick()

    def on_error(self, topic: str | None, partition: int | None, offset: int, error: KafkaError) -> None:
        if error.code() == KafkaError._DESTROY:
            return  # the client is being closed, which calls say themselves
        self._engine.notices.append((topic, partition, offset, error))
        self._engine.kick()

    def committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        for callback in (self.intercepted, self.on_commit):
            if callback is not None:
                self.add(partial(callback, error, partitions))

    def had_nothing(self, outcome: list[TopicPartition] | KafkaError) -> None:
        """The outcome of an asynchronous commit(): that nothing was to be committed isn't told otherwise."""
        if isinstance(outcome, KafkaError) and outcome.code() == KafkaError._NO_OFFSET:
            self.committed(outcome, [])


def _polls(consumer: weakref.ref[Consumer]) -> tuple[int, bool]:
    """How many polls the application has begun, and whether it is inside one."""
    it = consumer()
    return (0, False) if it is None else (it.polls, it.polling > 0)


def _waits(consumer: weakref.ref[Consumer]) -> tuple[int, bool]:
    """How many polls the application has begun, and whether it is inside one that has nothing in hand."""
    it = consumer()
    return (0, False) if it is None else (it.polls, it.polling > it.holding)


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


def _names(topics: Iterable[str]) -> list[str]:
    """The topics of a subscription, checked."""
    if isinstance(topics, str) or not all(isinstance(each, str) for each in topics):
        raise TypeError("expected list of topic unicode strings")
    names = [exact_text(each) for each in topics]
    if not names or not all(names):
        text = "Failed to set subscription: names of topics are expected; unsubscribe() ends a subscription"
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
    return names


def _given(message: Message | None, offsets: list[TopicPartition] | None) -> list[TopicPartition] | None:
    """The offsets that commit() and store_offsets() are to take, checked; None: none are given."""
    if message is not None and offsets is not None:
        raise ValueError("message and offsets are mutually exclusive")
    if offsets is not None:
        return checked(offsets)
    if message is None:
        return None
    if not isinstance(message, Message):
        raise TypeError(f"expected a Message, not {type(message).__name__}")
    error = message.error()
    if error is not None:
        text = f"Cannot commit offsets for message with error: '{error.str()}'"
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise ValueError("the message has no topic, partition or offset")
    return [TopicPartition(topic, partition, offset + 1, None, message.leader_epoch())]


def _error_for(eof: bool, status: int, error_code: int, cursor: Cursor, offset: int, next_offset: int) -> KafkaError:
    """The error of a Message that stands for an end of partition or for a batch that can't be used."""
    if eof:
        return KafkaError(KafkaError._PARTITION_EOF)
    if error_code:
        return KafkaError(error_code)
    code = KafkaError._BAD_COMPRESSION if status == STATUS_TOO_LARGE else from_status(status).code()
    cause = _CAUSES.get(status, from_status(status).str())
    text = f"{cause} in {cursor.topic} [{cursor.partition}] at offset {offset}"
    return KafkaError(code, f"{text}; it is fetched again, or seek to {next_offset} to skip it")


def _exception_of(error: KafkaError) -> KafkaException | None:
    """Iteration goes on at the end of a partition, and raises any other error."""
    return None if error.code() == KafkaError._PARTITION_EOF else KafkaException(error)


def _fatal_of(client: Client) -> KafkaException | None:
    """What an iteration raises for ever once the consumer can't go on."""
    return None if client.fatal is None else KafkaException(client.fatal_error())


def _give_back(client: Client, fetches: FetchManager, messages: list[Message]) -> None:
    """A signal handler has raised in consume(): what it had taken comes again, and doesn't count as handed out."""
    if client.closed:
        return
    first: dict[Any, Any] = {}
    for message in messages:
        if message.error() is None:
            first.setdefault((message.topic(), message.partition()), message.offset())
    for message in reversed(messages):
        if (error := message.error()) is not None:
            at = message.offset()
            notice = (message.topic(), message.partition(), OFFSET_INVALID if at is None else at, error)
            client.engine.notices.appendleft(notice)

    def work() -> None:
        for (topic, partition), offset in first.items():
            fetches.seek(topic, partition, offset)
            assigned = fetches.assigned.get((topic, partition))
            if assigned is not None and assigned.cursor is not None:
                assigned.cursor.position = offset

    client.main.run(work)


_CAUSES = {
    -4: "checksum mismatch (CRC32C)",
    STATUS_TOO_LARGE: "a batch is larger than decompressed.batch.max.bytes when decompressed",
    -6: "compressed data that can't be decompressed",
    -3: "malformed records",
    -7: "a codec or format that this build doesn't know",
}
