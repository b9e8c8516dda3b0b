"""ShareConsumer: reads records of topics like a queue, in a share group (KIP-932)."""

from __future__ import annotations

import operator
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, TypeAlias

from kafka_native._native.consumer_core import ConsumerCore
from kafka_native._native.engine import exits_elsewhere
from kafka_native._native.enums import STATUS_TOO_LARGE
from kafka_native._native.message import Message
from kafka_native._native.primitives import exact_text
from kafka_native._native.share_core import ACCEPT, GAP, UNDECIDED, open_acquired
from kafka_native.client_core import ClientCore, UninitializedClient, own_client, settings_of
from kafka_native.config import Config
from kafka_native.control.consumer.share_group import (
    Acknowledgement,
    Acquired,
    Batch,
    Outcome,
    Session,
    ShareConsumerControl,
    ShareHooks,
    ShareKey,
)
from kafka_native.control.main_thread import Managers
from kafka_native.control.settings import connection_settings, consumer_settings, producer_settings
from kafka_native.deadlines import deadline_of, left_s, seconds
from kafka_native.errors import (
    ConcurrentModificationException,
    IllegalStateException,
    KafkaError,
    KafkaException,
    from_status,
)
from kafka_native.statistics import ClientMetrics
from kafka_native.threads import Event
from kafka_native.types import AcknowledgeType, Messages, TopicPartition

CLOSED_TEXT = "Share consumer closed"
CLOSE_S = 30.0
"""The default timeout of close(), for acknowledgements and the coordinator, as in Java."""

NOT_APPLICABLE = (
    "allow.auto.create.topics",
    "auto.offset.reset",
    "consume.callback.max.messages",
    "enable.auto.commit",
    "enable.partition.eof",
    "fetch.error.backoff.ms",
    "fetch.queue.backoff.ms",
    "group.instance.id",
    "group.protocol",
    "group.protocol.type",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "interceptors",
    "isolation.level",
    "on_commit",
    "partition.assignment.strategy",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "session.timeout.ms",
    "topic.blacklist",
)
"""Consumer properties that a share consumer rejects.

The broker's settings of the group replace some of them; others have no meaning here.
"""
IGNORED = (
    "auto.commit.interval.ms",
    "enable.auto.offset.store",
    "offset.store.method",
    "offset.store.path",
    "offset.store.sync.interval.ms",
)
"""Properties without a meaning here that confluent_kafka accepts: a warning says so."""

SENT = 0xFE  # the status byte of a record whose acknowledgement was sent
_DECIDED = re.compile(rb"[\x00-\x03]+")

CommitCallback: TypeAlias = Callable[
    [dict[TopicPartition, set[int]], KafkaException | None], object
]


@dataclass(slots=True, eq=False)
class _Range:
    """Adjacent records that were acquired together.

    ``statuses`` has one byte for each (`_native.share_core`).
    """

    session: Session
    key: ShareKey
    first: int
    statuses: bytearray


class _Inbox:
    """The control thread's records and events for the application.

    It doesn't keep the consumer alive.
    """

    def __init__(self, client: ClientCore) -> None:
        self._engine = client.engine
        self.fetched: deque[Acquired] = deque()
        self.polls = 0
        self.is_polling = False
        self.is_woken = False
        self.callback: CommitCallback | None = None

    # --- for the control thread ---

    def on_records(self, acquired: list[Acquired]) -> None:
        self.fetched.extend(acquired)
        self._engine.kick()

    def on_outcomes(self, outcomes: list[Outcome]) -> None:
        if self.callback is not None:
            for pending, error in outcomes:
                if pending.topic:
                    self._engine.callbacks.append(partial(self._report, pending, error))
        self._engine.kick()

    def on_error(self, topic: str | None, partition: int | None, error: KafkaError) -> None:
        if error.code() == KafkaError._DESTROY:
            return  # the client is closing, and calls report that themselves
        self._engine.notices.append((topic, partition, -1, error))
        self._engine.kick()

    def on_polls(self) -> tuple[int, bool]:
        return self.polls, self.is_polling

    # --- for the application's thread ---

    def ready(self) -> bool:
        return bool(self.fetched or self._engine.notices or self.is_woken)

    def _report(self, pending: Acknowledgement, error: KafkaError | None) -> None:
        """Calls the acknowledgement commit callback for one partition."""
        if self.callback is not None:
            partition = TopicPartition(pending.topic, pending.key[1])
            raised = None if error is None else KafkaException(error)
            self.callback({partition: set(_offsets(pending.batches))}, raised)


class ShareConsumer:
    """Takes single records from topics: share groups are Kafka's queues (KIP-932).

        conf = {"bootstrap.servers": "localhost:9092", "group.id": "workers"}
        with ShareConsumer(conf) as consumer:
            consumer.subscribe(["jobs"])
            for message in consumer:
                work_on(message.value())

    All members of a group may read the same partitions. `poll()` *acquires* the records that it
    returns. No other member gets them until they are acknowledged, or until their lock expires (the
    group's ``share.record.lock.duration.ms``, 30 s by default). After the lock expires, the broker
    delivers them again, to any member, at most ``group.share.delivery.count.limit`` times.
    `Message.delivery_count()` has the number of deliveries.

    ``share.acknowledgement.mode``: with ``implicit`` (the default), the next `poll()` or commit
    accepts the records. With ``explicit``, you have to acknowledge each record (`acknowledge()`)
    before the next `poll()`. Closing the consumer releases its unacknowledged records, and the
    broker delivers them again.

    A share consumer belongs to one thread at a time; only `wakeup()` may come from any other.
    Callbacks run inside `poll()`, `commit_sync()`, `commit_async()` and `close()`, and must not
    call the consumer. After ``fork()`` the child has to create its own consumer.
    """

    _client = UninitializedClient()
    _message_type: type[Message] = Message
    _eager = False  # whether to connect without work, see `ClientCore`
    _host: ClientCore | None = None  # the shared client of which this is a role, in the constructor

    def __init__(self, config: Mapping[str, Any] | None = None, /, **kwargs: Any) -> None:
        """Creates a share consumer.

        KafkaException: _INVALID_ARG names an unknown or invalid property.

        Raises
        ------
        ValueError
            There is no ``group.id``, or a property is set that has no meaning for a share consumer.
        RuntimeError
            A second call, before `close()`.
        """
        existing = own_client(self)
        if existing is not None and not existing.closed:
            raise RuntimeError("ShareConsumer already initialized")
        given = {**(config or {}), **kwargs}
        refused = [name for name in NOT_APPLICABLE if name in given]
        if refused:
            settings_of(
                self, given, "consumer"
            )  # an unknown name or an invalid value is the first reason
            _refuse(refused)
        # As in the consumer protocol, the coordinator decides settings such as session timeouts.
        settings = settings_of(self, {**given, "group.protocol": "consumer"}, "consumer")
        _check(settings)
        everything = {
            **connection_settings(settings),
            **producer_settings(settings, 0, False),
            **consumer_settings(settings),
        }
        self._explicit = settings.text("share.acknowledgement.mode") == "explicit"
        self._check_crcs = settings.flag("check.crcs")
        self._decompressed_max_bytes = settings.integer("decompressed.batch.max.bytes")
        self._client = self._make_client(settings, everything)
        for name in IGNORED:
            if settings.is_set(name):
                self._client.logs["conf"].warning("%s has no effect in a share consumer", name)
        self._topics: list[str] = []
        self._held: dict[tuple[str, int], list[_Range]] = {}
        self._batch: Iterator[Message] = iter(())
        self._access_lock = threading.Lock()
        self._access_thread = 0
        # It waits and runs callbacks, as in a Consumer, but takes no messages.
        self._core = ConsumerCore()
        self._core._open(self._client.engine, _unused, _unused, _unused, _unused, _unused, 0)
        self._client.engine.pins.message_type = self._message_type
        self._client.main.start()

    def _make_client(self, settings: Config, everything: dict[str, Any]) -> ClientCore:
        managers = partial(self._make_managers, settings)
        return ClientCore(
            settings, "consumer", everything, managers, eager=self._eager, host=self._host
        )

    def _make_managers(self, settings: Config, client: ClientCore) -> Managers:
        self._inbox = inbox = _Inbox(client)
        hooks = ShareHooks(
            on_records=inbox.on_records,
            on_outcomes=inbox.on_outcomes,
            on_error=inbox.on_error,
            on_fatal=client.on_fatal,
            polls=inbox.on_polls,
        )
        self._control = control = ShareConsumerControl(client.context, settings, hooks)
        return Managers(
            others=control.managers, on_close=[control.on_close], leave_group=control.quit
        )

    # --- the group ---

    def subscribe(self, topics: list[str]) -> None:
        """Joins the group and takes records of these topics.

        It replaces the subscription; an empty list ends it.

        Parameters
        ----------
        topics : list of str
            Names of topics.

        Raises
        ------
        TypeError
            ``topics`` isn't a list of str.
        ValueError
            A name is empty, occurs twice, or is a regular expression, which share groups don't
            have.
        IllegalStateException
            The consumer is closed.
        """
        with self._access():
            self._subscribe(_names(topics))

    def _subscribe(self, names: list[str]) -> None:
        if not names:
            self._unsubscribe()
            return
        self._check_fatal()
        self._topics = names
        self._client.main.post(lambda: self._control.subscribe(names, time.monotonic()))

    def unsubscribe(self) -> None:
        """Leaves the group: commits acknowledged records and releases the others.

        Without a subscription it does nothing.

        Raises
        ------
        IllegalStateException
            The consumer is closed.
        """
        with self._access():
            self._unsubscribe()

    def _unsubscribe(self) -> None:
        if self._topics:
            self._topics = []
            self._leave(self._control.unsubscribe, CLOSE_S)

    def subscription(self) -> list[str]:
        """Returns the topics of the subscription."""
        with self._access():
            return list(self._topics)

    # --- records ---

    def poll(self, timeout: float = -1) -> Messages:
        """Acquires records, and sends the acknowledgements of earlier ones to the brokers.

        With ``share.acknowledgement.mode=implicit``, it accepts all records of the last poll. It
        returns as soon as there is any record: about ``max.poll.records`` from each broker that
        leads partitions.

        Parameters
        ----------
        timeout : float
            Seconds to wait for the first record. Negative waits without limit; 0 doesn't wait.

        Returns
        -------
        Messages
            Empty when the time is up and after `wakeup()`. Check `Message.error()`: errors of
            partitions, and batches that can't be read (which are released), come as Messages, too.

        Raises
        ------
        IllegalStateException
            There is no subscription, a record of the last poll isn't acknowledged (``explicit``),
            or the consumer is closed.
        ConcurrentModificationException
            Another thread is using the consumer.
        KafkaException
            _FATAL: after a fatal error.
        """
        with self._access():
            timeout_s = _seconds(timeout)
            if not self._topics:
                raise IllegalStateException("Consumer is not subscribed to any topics")
            if self._explicit and (count := self._undecided()):
                raise IllegalStateException(
                    f"{count} records from previous poll have not been acknowledged"
                )
            if not self._client.engine.notices:
                self._check_fatal()
            return Messages(self._poll(timeout_s))

    def _poll(self, timeout: float) -> list[Message]:
        inbox, sessions = self._inbox, self._control.sessions
        deadline = deadline_of(timeout)
        inbox.polls += 1
        inbox.is_polling = True
        try:
            while True:
                pending = self._collect(accept=not self._explicit)

                def begin(pending: list[Acknowledgement] = pending) -> None:
                    sessions.acknowledge(pending)
                    if not inbox.fetched:
                        sessions.fetch()

                failed = self._begin(begin)
                in_time = self._serve(inbox.ready, failed, left_s(deadline))
                messages = self._take()
                if messages or inbox.is_woken or not in_time:
                    inbox.is_woken = False
                    return messages
        finally:
            inbox.is_polling = False

    def _take(self) -> list[Message]:
        """Decodes the records that have arrived."""
        found = []
        fetched, notices = self._inbox.fetched, self._client.engine.notices
        while notices:
            topic, partition, _, error = notices.popleft()
            found.append(Message(topic=topic, partition=partition, error=error))
        while fetched:
            acquired = fetched[0]
            if acquired.session.over or time.monotonic() >= acquired.until:
                fetched.popleft()
                self._client.logger.debug(
                    "%s [%d]: locks expired before poll()", acquired.topic, acquired.key[1]
                )
                continue  # the broker delivers it again, to any member
            number = acquired.key[1]
            try:
                messages, statuses, failures = open_acquired(
                    self._client.engine,
                    acquired.topic,
                    number,
                    acquired.records,
                    acquired.ranges,
                    self._check_crcs,
                    self._decompressed_max_bytes,
                )
            except MemoryError:
                if found:
                    break  # keep these; the rest waits for the next poll()
                raise
            fetched.popleft()
            found += messages
            found += [_unusable(acquired.topic, number, *each) for each in failures]
            ranges = self._held.setdefault((acquired.topic, number), [])
            for (first, _, _), status in zip(acquired.ranges, statuses, strict=True):
                ranges.append(_Range(acquired.session, acquired.key, first, status))
        return found

    def __iter__(self) -> ShareConsumer:
        """The share consumer itself."""
        return self

    def __next__(self) -> Message:
        """Waits for the next message that isn't an error; an error is raised as KafkaException.

        After all messages of the last `poll()`, it calls `poll()` again. The iteration ends after
        `wakeup()`.
        """
        while True:
            message = next(self._batch, None)
            if message is None:
                messages = self.poll()
                if messages.is_empty():
                    raise StopIteration
                self._batch = iter(messages)
            elif (error := message.error()) is not None:
                raise KafkaException(error)
            else:
                return message

    def wakeup(self) -> None:
        """Ends the wait of `poll()` or an iteration, or else of the next call.

        Any thread may call it.
        """
        self._inbox.is_woken = True
        self._client.engine.kick()

    # --- acknowledging ---

    def acknowledge(
        self, message: Message, ack_type: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Sets the outcome of a record, with ``share.acknowledgement.mode=explicit``.

        The next `poll()`, commit or `close()` sends it to the broker. Until then you can change it.

        Parameters
        ----------
        message : Message
            From the last `poll()`.
        ack_type : AcknowledgeType
            ACCEPT: it is processed. RELEASE: deliver it again. REJECT: it can't be processed, don't
            deliver it any more.

        Raises
        ------
        IllegalStateException
            This consumer doesn't hold the record (any more), or the mode is ``implicit``.
        TypeError
            ``message`` is no Message.
        ValueError
            ``ack_type`` is none of these, or the message has no topic, partition or offset.
        """
        with self._access():
            if not isinstance(message, Message):
                raise TypeError(f"argument 1 must be Message, not {type(message).__name__}")
            self._decide(
                message.topic(), message.partition(), message.offset(), ack_type, "message"
            )

    def acknowledge_offset(
        self,
        topic: str,
        partition: int,
        offset: int,
        ack_type: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """Does what `acknowledge()` does, for a record whose Message you no longer have.

        Parameters
        ----------
        topic : str
            The record's topic.
        partition, offset : int
            The record's place in the topic.
        ack_type : AcknowledgeType
            See `acknowledge()`.
        """
        with self._access():
            if not isinstance(topic, str):
                raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")
            number, checked_offset = operator.index(partition), operator.index(offset)
            self._decide(topic, number, checked_offset, ack_type, "offset")

    def _decide(
        self, topic: str | None, partition: int | None, offset: int | None, ack_type: int, what: str
    ) -> None:
        kind = operator.index(ack_type)
        known = (
            topic is not None
            and partition is not None
            and offset is not None
            and partition >= 0
            and offset >= 0
        )
        if not known:
            raise ValueError(
                f"Failed to acknowledge {what}: a topic, a partition and an offset are needed"
            )
        if not self._explicit:
            text = (
                "records are accepted by the next poll(); set share.acknowledgement.mode=explicit"
            )
            raise IllegalStateException(f"Failed to acknowledge {what}: {text}")
        if kind not in tuple(AcknowledgeType):
            raise ValueError(f"Failed to acknowledge {what}: the type is ACCEPT, RELEASE or REJECT")
        assert topic is not None
        assert partition is not None
        assert offset is not None
        for each in reversed(self._held.get((topic, partition), [])):
            index = offset - each.first
            if 0 <= index < len(each.statuses) and each.statuses[index] not in (GAP, SENT):
                each.statuses[index] = kind
                return
        text = f"{topic} [{partition}] offset {offset} isn't in this consumer's hands"
        raise IllegalStateException(f"Failed to acknowledge {what}: {text}")

    def commit_sync(self, timeout: float = 60) -> dict[TopicPartition, KafkaException | None]:
        """Sends the outcomes of records to the brokers, and waits for their answers.

        With ``share.acknowledgement.mode=implicit`` it accepts all records of the last `poll()`.

        Parameters
        ----------
        timeout : float
            Seconds; negative waits without limit. A broker that hasn't answered by then may have
            taken the outcomes all the same.

        Returns
        -------
        dict
            For each partition None, or the error (_TIMED_OUT): then its records are delivered again
            sooner or later. Empty: there was no outcome to send.

        Raises
        ------
        IllegalStateException
            The consumer is closed.
        """
        with self._access():
            timeout_s = _seconds(timeout)
            pending = self._collect(accept=not self._explicit)
            results: dict[TopicPartition, KafkaException | None] = {}
            left = [len(pending)]

            def done(partition: TopicPartition, error: KafkaError | None) -> None:
                # Control thread. The application's thread reads the results only when none is
                # missing.
                results[partition] = results.get(partition) or (
                    None if error is None else KafkaException(error)
                )
                left[0] -= 1

            for each in pending:
                each.on_done = partial(done, TopicPartition(each.topic, each.key[1]))
            failed = (
                self._begin(lambda: self._control.sessions.acknowledge(pending)) if pending else []
            )
            self._serve(lambda: left[0] == 0, failed, timeout_s)
            late = KafkaError(KafkaError._TIMED_OUT, "the broker hasn't answered in time")
            partitions = {
                TopicPartition(each.topic, each.key[1]): KafkaException(late) for each in pending
            }
            return {each: results.get(each, error) for each, error in partitions.items()}

    def commit_async(self) -> None:
        """Sends the outcomes of records as `commit_sync()` does, without waiting; see the callback.

        Raises
        ------
        IllegalStateException
            The consumer is closed.
        """
        with self._access():
            pending = self._collect(accept=not self._explicit)
            if pending:
                self._client.main.post(lambda: self._control.sessions.acknowledge(pending))
            self._core._serve_until(lambda: True, 0.0)

    def set_acknowledgement_commit_callback(self, callback: CommitCallback | None) -> None:
        """Sets ``callback(offsets, exception)`` for the brokers' answers to acknowledgements.

        It is called once for each partition. ``offsets`` maps the TopicPartition to the set of
        offsets. ``exception`` is a KafkaException, or None if all went well. `poll()`,
        `commit_sync()`, `commit_async()` and `close()` call it, and raise its exceptions.

        Parameters
        ----------
        callback : callable, optional
            None removes the callback.

        Raises
        ------
        TypeError
            It can't be called.
        IllegalStateException
            The consumer is closed, or the callback itself makes this call.
        """
        with self._access():
            if callback is not None and not callable(callback):
                raise TypeError("callback must be callable or None")
            self._inbox.callback = callback

    def _begin(self, work: Callable[[], None]) -> list[BaseException]:
        """Starts work on the control thread.

        Its exception goes into the list, and `_serve()` raises it.
        """
        failed: list[BaseException] = []

        def step() -> None:
            try:
                work()
            except BaseException as error:
                failed.append(error)
                self._client.engine.kick()

        self._client.main.post(step)
        return failed

    def _serve(
        self, ready: Callable[[], bool], failed: list[BaseException], timeout_s: float
    ) -> bool:
        """Runs callbacks until ``ready`` or until the work has failed. False: not in time."""
        in_time = self._core._serve_until(lambda: bool(failed) or ready(), timeout_s)
        if failed:
            raise failed[0]
        return in_time

    def _undecided(self) -> int:
        ranges = (each for ranges in self._held.values() for each in ranges)
        return sum(each.statuses.count(UNDECIDED) for each in ranges)

    def _collect(self, *, accept: bool) -> list[Acknowledgement]:
        """Takes the acknowledgements that weren't sent yet, and marks them as sent.

        ``accept``: also accepts the records without an acknowledgement.
        """
        pending: dict[tuple[str, ShareKey, int], Acknowledgement] = {}
        for (topic, _), ranges in list(self._held.items()):
            for each in ranges:
                batches = _batches(each, accept=accept)
                if batches:
                    name = (topic, each.key, id(each.session))
                    piece = pending.setdefault(
                        name, Acknowledgement(each.session, each.key, topic, [])
                    )
                    piece.batches += batches
            kept = [each for each in ranges if UNDECIDED in each.statuses]
            if kept:
                self._held[topic, ranges[0].key[1]] = kept
            else:
                del self._held[topic, ranges[0].key[1]]
        for piece in pending.values():
            piece.batches.sort()
        return list(pending.values())

    # --- the client ---

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Sets another user name and password; see `Producer.set_sasl_credentials`."""
        with self._access():
            self._client.set_sasl_credentials(username, password)

    def brokers_add(self, brokers: str) -> int:
        """Adds bootstrap servers while the client runs; see `Producer.brokers_add`."""
        with self._access():
            return self._client.brokers_add(brokers)

    def metrics(self) -> ClientMetrics:
        """Returns this client's statistics; see `Producer.metrics`."""
        return self._client.metrics(CLOSED_TEXT)

    def fatal_error(self) -> KafkaError | None:
        """Returns the fatal error of this consumer, None if it has none."""
        return self._client.fatal

    def close(self, timeout: float = CLOSE_S) -> None:
        """Commits acknowledged records, releases the others, leaves the group and ends all threads.

        It calls the acknowledgement commit callback. A second call does nothing.

        Parameters
        ----------
        timeout : float
            Seconds. When they are over, the consumer is closed as it is; negative waits without
            limit.
        """
        if self._client.closed:
            return
        with self._access():
            try:
                self._topics = []
                self._leave(self._control.close, timeout)
            finally:
                self._core._mark_closed()
                self._client.close()
                self._client.release()

    def _leave(self, begin: Callable[[Callable[[], None], float], None], timeout: float) -> None:
        """Ends sessions and membership. Runs the callbacks, then raises their first exception."""
        pending = self._collect(accept=False)
        self._held.clear()
        self._batch = iter(())
        ended = Event()
        engine = self._client.engine

        def done() -> None:
            ended.set()
            engine.kick()

        def start() -> None:
            self._control.sessions.acknowledge(pending)
            begin(done, time.monotonic())

        failed = self._begin(start)
        deadline = deadline_of(timeout)
        raised: BaseException | None = None
        while True:
            try:
                in_time = self._core._serve_until(
                    lambda: bool(failed) or ended.is_set(), left_s(deadline)
                )
                break
            except Exception as error:
                raised = raised or error
        self._inbox.fetched.clear()
        if not in_time:
            self._client.logger.warning("leaving the share group took longer than %g s", timeout)
        raised = raised or next(iter(failed), None)
        if raised is not None:
            raise raised

    @contextmanager
    def _access(self) -> Iterator[None]:
        """Admits one thread at a time, and no call from within a callback."""
        if self._client.forked:
            self._client.check_open(CLOSED_TEXT)
        if self._client.closed:
            raise SystemExit if exits_elsewhere() else IllegalStateException(CLOSED_TEXT)
        if self._access_thread == threading.get_ident():
            raise IllegalStateException(
                "Share consumer methods are not accessible from user-defined acknowledgement "
                "commit callback"
            )
        if not self._access_lock.acquire(blocking=False):
            raise ConcurrentModificationException(
                "Share consumer is not safe for multi-threaded access. "
                f"currentThread(id: {threading.get_ident()}) "
                f"otherThread(id: {self._access_thread})"
            )
        self._access_thread = threading.get_ident()
        try:
            yield
        finally:
            self._access_thread = 0
            self._access_lock.release()

    def _check_fatal(self) -> None:
        if self._client.fatal is not None:
            raise KafkaException(self._client.fatal_error())

    def __enter__(self) -> ShareConsumer:
        """The share consumer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the share consumer."""
        self.close()

    def __del__(self) -> None:
        """Leaves the group and stops the threads of a consumer that was dropped without close().

        It accepts no records.
        """
        client = own_client(self)
        if client is not None and not client.closed:
            client.drop()

    def __repr__(self) -> str:
        """The share consumer's name and state."""
        if own_client(self) is None:
            return object.__repr__(self)
        state = (
            "closed"
            if self._client.closed
            else f"{len(self._control.sessions.assigned)} partitions assigned"
        )
        return f"<ShareConsumer {self._client.name} ({state})>"


def _unused(*_: Any) -> Any:
    """Stands for functions that only a Consumer's core calls."""


def _refuse(names: Iterable[str]) -> None:
    for name in names:
        raise ValueError(
            f"Failed to create share consumer: `{name}` is not applicable for share consumer"
        )


def _check(settings: Config) -> None:
    # set under an alias
    _refuse(name for name in NOT_APPLICABLE if name != "group.protocol" and settings.is_set(name))
    mode = settings.text("share.acknowledgement.mode")
    if mode not in ("implicit", "explicit"):
        text = f'Invalid value "{mode}" for configuration property '
        text += '"share.acknowledgement.mode": implicit or explicit'
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
    if not settings.text("group.id"):
        raise ValueError("Failed to create consumer: group.id must be set")


def _names(topics: list[str]) -> list[str]:
    """The topics of a subscription, after a check."""
    if not isinstance(topics, list) or not all(isinstance(each, str) for each in topics):
        raise TypeError("expected list of topic unicode strings")
    if not all(topics) or len(set(topics)) < len(topics):
        raise ValueError("Failed to subscribe: topic names must be non-empty and unique")
    if any(each.startswith("^") for each in topics):
        raise ValueError("Failed to subscribe: share groups have no regular expressions")
    return [exact_text(each) for each in topics]


def _batches(held: _Range, *, accept: bool) -> list[Batch]:
    """Takes the acknowledgements of a range to send, and marks them as sent."""
    if accept:
        held.statuses = held.statuses.replace(bytes([UNDECIDED]), bytes([ACCEPT]))
    found = []
    for run in _DECIDED.finditer(held.statuses):
        types = bytes(run.group())
        one = types.count(types[0]) == len(types)
        found.append(
            (held.first + run.start(), held.first + run.end() - 1, types[:1] if one else types)
        )
    for first, last, _ in found:
        index, count = first - held.first, last - first + 1
        held.statuses[index : index + count] = bytes([SENT]) * count
    return found


def _offsets(batches: list[Batch]) -> Iterator[int]:
    """The offsets of acknowledged records, without gaps."""
    for first, last, types in batches:
        if len(types) == 1:
            yield from range(first, last + 1) if types[0] != GAP else ()
        else:
            yield from (first + index for index, kind in enumerate(types) if kind != GAP)


def _unusable(topic: str, partition: int, status: int, offset: int) -> Message:
    """A Message for a batch that can't be used."""
    cause = from_status(status)
    code = KafkaError._BAD_COMPRESSION if status == STATUS_TOO_LARGE else cause.code()
    text = f"{cause.str()} in {topic} [{partition}] at offset {offset}; its records are released"
    return Message(topic=topic, partition=partition, offset=offset, error=KafkaError(code, text))


def _seconds(timeout: float) -> float:
    """Like `seconds()`, but None is an error, as in confluent_kafka."""
    if timeout is None:
        raise TypeError("the timeout must be a number of seconds, not None")
    return seconds(timeout)
