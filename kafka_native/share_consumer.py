"""ShareConsumer: reads records of topics like a queue, in a share group (KIP-932)."""

from __future__ import annotations

import operator
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kafka_native._native.arrow_consumer import (
    ColumnBatch,
    ColumnMemory,
    ColumnPlan,
    MissingSchema,
    UnfitError,
)
from kafka_native._native.consumer_core import ConsumerCore
from kafka_native._native.enums import STATUS_TOO_LARGE
from kafka_native._native.message import Message
from kafka_native._native.primitives import exact_text
from kafka_native._native.share_core import (
    UNDECIDED,
    begin_columns,
    end_columns,
    masked,
    open_acquired,
)
from kafka_native.arrow import (
    Columns,
    Decode,
    OnError,
    ShareArrowBatch,
    share_request,
    values_of,
)
from kafka_native.client_core import ClientCore, own_client, settings_of
from kafka_native.codecs.codec import Codec
from kafka_native.codecs.errors import MessageDecodeError
from kafka_native.config import Config, merged_conf
from kafka_native.consumer_calls import listed_topics
from kafka_native.control.consumer.held_records import (
    Acknowledgement,
    Acquired,
    HeldRecords,
    HeldRows,
    Outcome,
    offsets_of,
)
from kafka_native.control.consumer.share_group import ShareConsumerControl, ShareHooks
from kafka_native.control.main_thread import Managers
from kafka_native.control.settings import connection_settings, consumer_settings, producer_settings
from kafka_native.deadlines import deadline_of, left_s, seconds
from kafka_native.error import ConsumeError
from kafka_native.errors import (
    IllegalStateException,
    KafkaError,
    KafkaException,
    from_status,
)
from kafka_native.exclusive_client import ExclusiveClient
from kafka_native.statistics import ClientMetrics
from kafka_native.threads import Event
from kafka_native.types import AcknowledgeType, AnyMessage, Messages, TopicPartition, Uuid

if TYPE_CHECKING:
    from typing_extensions import Self

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
    "topics",
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

_TYPES_TEXT = "the type is ACCEPT, RELEASE, REJECT or RENEW"

Taken = TypeVar("Taken", bound=Sized)

CommitCallback: TypeAlias = Callable[
    [dict[TopicPartition, set[int]], KafkaException | None], object
]


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
        # After the callbacks: a call that waits for the outcomes runs these callbacks, too.
        for pending, error in outcomes:
            pending.on_done(error)
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

    def _report(self, pending: Acknowledgement, error: KafkaError | None) -> object:
        """Calls the acknowledgement commit callback for one partition, and returns its result."""
        if self.callback is None:
            return None
        partition = TopicPartition(pending.topic, pending.key[1])
        raised = None if error is None else KafkaException(error)
        return self.callback({partition: set(offsets_of(pending.batches))}, raised)


class _Commit:
    """Acknowledgements whose outcomes a call waits for. The control thread adds the outcomes."""

    def __init__(self, pending: list[Acknowledgement]) -> None:
        self.failed: list[BaseException] = []
        self._waiting = Counter(TopicPartition(each.topic, each.key[1]) for each in pending)
        self._errors: dict[TopicPartition, KafkaException] = {}
        self._left = len(pending)
        for each in pending:
            each.on_done = partial(self._on_done, TopicPartition(each.topic, each.key[1]))

    def _on_done(self, partition: TopicPartition, error: KafkaError | None) -> None:
        if error is not None:
            self._errors.setdefault(partition, KafkaException(error))
        self._waiting[partition] -= 1
        self._left -= 1

    def is_done(self) -> bool:
        """Whether all brokers have answered."""
        return self._left == 0

    def results(self) -> dict[TopicPartition, KafkaException | None]:
        """The result of each partition, _TIMED_OUT if there is none."""
        late = KafkaError(KafkaError._TIMED_OUT, "the broker hasn't answered in time")
        return {
            each: self._errors.get(each) or (KafkaException(late) if left else None)
            for each, left in self._waiting.items()
        }


@dataclass(frozen=True)
class _Leaving:
    """A share consumer on its way out of its group."""

    ended: Event
    failed: list[BaseException]

    def is_over(self) -> bool:
        """Whether it has left, or could not."""
        return bool(self.failed) or self.ended.is_set()


class ShareConsumer(ExclusiveClient):
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

    _kind = "Share consumer"
    _callback_kind = "acknowledgement commit callback"
    _message_type: type[AnyMessage] = Message
    _acknowledge_types: frozenset[int] = frozenset(AcknowledgeType)
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
        given = merged_conf(config, kwargs)
        refused = [name for name in NOT_APPLICABLE if name in given]
        if refused:
            # an unknown name or an invalid value is the first reason
            settings_of(self, given, {}, "consumer")
            _refuse(refused)
        # As in the consumer protocol, the coordinator decides settings such as session timeouts.
        settings = settings_of(self, given, {"group.protocol": "consumer"}, "consumer")
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
        self._held = HeldRecords()
        self._column_memory = ColumnMemory()
        self._batch: Iterator[Message] = iter(())
        self._unreturned: Messages | None = None
        """Records of an asyncio `poll()` that the application hasn't got yet."""
        self._allow_access()
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
            timeout_s = timeout_s_of(timeout)
            self._check_poll()
            return Messages(self._poll(timeout_s, self._take))

    def _check_poll(self) -> None:
        if not self._topics:
            raise IllegalStateException("Consumer is not subscribed to any topics")
        if self._explicit and (count := self._held.count_undecided()):
            raise IllegalStateException(
                f"{count} records from previous poll have not been acknowledged"
            )
        if not self._client.engine.notices:
            self._check_fatal()

    def _poll(self, timeout: float, take: Callable[[], Taken]) -> Taken:
        """Waits until ``take()`` has taken something, or until the time is up."""
        inbox = self._inbox
        deadline = deadline_of(timeout)
        inbox.polls += 1
        inbox.is_polling = True
        try:
            while True:
                in_time = self._serve(inbox.ready, self._begin_fetch(), left_s(deadline))
                taken = take()
                if len(taken):
                    return taken  # a wakeup() is for the next call
                if inbox.is_woken or not in_time:
                    inbox.is_woken = False
                    return taken
        finally:
            inbox.is_polling = False

    def _begin_fetch(self) -> list[BaseException]:
        """Sends the acknowledgements, and fetches if nothing has arrived. See `_begin()`."""
        sessions, inbox = self._control.sessions, self._inbox
        pending = self._collect()

        def begin() -> None:
            sessions.acknowledge(pending)
            if not inbox.fetched:
                sessions.fetch()

        return self._begin(begin)

    def _take(self) -> list[Message]:
        """Decodes the records that have arrived."""
        found: list[Message] = []
        try:
            self._take_into(found)
        except BaseException:  # Ctrl+C
            self._release(found)
            raise
        return found

    def _take_into(self, found: list[Message]) -> None:
        fetched, notices = self._inbox.fetched, self._client.engine.notices
        while notices:
            topic, partition, _, error = notices.popleft()
            found.append(Message(topic=topic, partition=partition, error=error))
        while fetched:
            acquired = fetched[0]
            if self._is_expired(acquired):
                fetched.popleft()
                continue
            try:
                messages, statuses, failures = self._open(acquired)
            except MemoryError:
                if found:
                    break  # keep these; the rest waits for the next poll()
                raise
            fetched.popleft()
            found += messages
            for failure in failures:
                offset, error = _unusable(acquired.topic, acquired.key[1], *failure)
                found.append(
                    Message(
                        topic=acquired.topic,
                        partition=acquired.key[1],
                        offset=offset,
                        error=error,
                    )
                )
            self._held.add(acquired, statuses)

    def _release(self, messages: Iterable[AnyMessage]) -> None:
        """Releases records that the application doesn't get, so that no commit accepts them."""
        for each in messages:
            topic, partition, offset = each.topic(), each.partition(), each.offset()
            if topic is not None and partition is not None and offset is not None:
                self._held.acknowledge(topic, partition, offset, AcknowledgeType.RELEASE)

    def _is_expired(self, acquired: Acquired) -> bool:
        """Whether the broker delivers these records again, to any member."""
        expired = acquired.session.over or time.monotonic() >= acquired.until
        if expired:
            self._client.logger.debug(
                "%s [%d]: locks expired before poll()", acquired.topic, acquired.key[1]
            )
        return expired

    def _open(
        self, acquired: Acquired, columns: ColumnBatch | None = None
    ) -> tuple[list[Message], list[bytearray], list[tuple[int, int]]]:
        return open_acquired(
            self._client.engine,
            acquired.topic,
            acquired.key[1],
            acquired.records,
            acquired.ranges,
            self._check_crcs,
            self._decompressed_max_bytes,
            columns,
        )

    def consume_arrow(
        self,
        timeout: float = -1,
        *,
        columns: Columns = None,
        value: Codec | None = None,
        key: Codec | None = None,
        on_error: OnError = "raise",
        flatten: bool = False,
    ) -> ShareArrowBatch:
        """Acquires records as `poll()` does, and returns them as Arrow columns.

        The call makes no Python object per record. Acknowledge the rows with `acknowledge_arrow()`.

        Parameters
        ----------
        timeout : float
            Seconds to wait for the first record. Negative waits without limit; 0 doesn't wait.
        columns : sequence of str, or mapping of names to types, optional
            As of `Consumer.consume_arrow()`. ``delivery_count`` has the number of deliveries.
        value, key : Codec, optional
            As of `Consumer.consume_arrow()`.
        on_error : str
            As of `Consumer.consume_arrow()`. With ``"raise"`` you can't seek past a record that
            doesn't decode: consume it with ``"null"``, or take it with `poll()`, and reject it.
            ``"split"`` is a ValueError, because each message needs an acknowledgement.
        flatten : bool
            As of `Consumer.consume_arrow()`.

        Returns
        -------
        ShareArrowBatch
            Empty when the time is up and after `wakeup()`. Rows have their records' order in the
            partition.

        Raises
        ------
        KafkaException
            A partition has failed, or a batch can't be read (its records are released). The next
            call returns the records that have arrived.
        ValueError
            A name or type is invalid. Or a column can't hold a record (bytes that aren't UTF-8 in a
            ``string``): the next call returns the record, ask for the column as ``binary``.
        MessageDecodeError, SchemaError, SchemaLookupError
            As of `Consumer.consume_arrow()`. The next call returns the record.
        IllegalStateException, ConcurrentModificationException
            See `poll()`.
        """
        with self._access():
            timeout_s = timeout_s_of(timeout)
            request = share_request(columns, Decode(value, key, on_error, flatten))
            self._check_poll()
            plan = request.plan(lambda: self._topics)
            return self._poll(timeout_s, partial(self._take_decoded, plan))

    def _take_decoded(self, plan: ColumnPlan) -> ShareArrowBatch:
        """Copies the records that have arrived into columns, and looks their schemas up."""
        while True:
            try:
                return self._take_columns(plan)
            except MissingSchema as missing:
                missing.look_up()

    def _take_columns(self, plan: ColumnPlan) -> ShareArrowBatch:
        """Copies the records that have arrived into columns. Errors come first."""
        engine, memory, fetched = self._client.engine, self._column_memory, self._inbox.fetched
        if engine.notices:
            raise KafkaException(engine.notices.popleft()[3])
        columns = begin_columns(engine, plan, memory)
        rows: list[HeldRows] = []
        while fetched and not engine.notices:
            acquired = fetched[0]
            if self._is_expired(acquired):
                fetched.popleft()
                continue
            try:
                _, statuses, failures = self._open(acquired, columns)
            except (MemoryError, UnfitError, MissingSchema, MessageDecodeError):
                if len(columns):
                    break  # keep these rows; the next call raises it
                raise
            fetched.popleft()
            topic, number = acquired.topic, acquired.key[1]
            for failure in failures:
                engine.notices.append((topic, number, *_unusable(topic, number, *failure)))
            rows += self._held.add(acquired, statuses)
        end_columns(columns, memory)
        if engine.notices and not len(columns):
            raise KafkaException(engine.notices.popleft()[3])
        return ShareArrowBatch(columns, rows)

    def __iter__(self) -> Self:
        """The share consumer itself."""
        return self

    def __next__(self) -> Message:
        """Waits for the next message that isn't an error; an error is raised as KafkaException.

        After all messages of the last `poll()`, it calls `poll()` again. The iteration ends after
        `wakeup()`. In implicit mode, a commit accepts only messages that it has returned.

        If a deserializer has raised, the exception is a ConsumeError. Its ``kafka_message`` is the
        record: acknowledge it.
        """
        while True:
            message = next(self._batch, None)
            if message is None:
                messages = self.poll()
                if messages.is_empty():
                    raise StopIteration
                self._batch = iter(messages)
            elif message.error() is not None:
                raise exception_of(message)
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
        self, message: AnyMessage, ack_type: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Sets the outcome of a record, with ``share.acknowledgement.mode=explicit``.

        The next `poll()`, commit or `close()` sends it to the broker. Until then you can change it.

        After RENEW you still hold the record, and its lock runs from the beginning (KIP-1222).
        `poll()` doesn't return it again. Acknowledge it again before the lock expires.

        Parameters
        ----------
        message : Message
            From the last `poll()`.
        ack_type : AcknowledgeType
            ACCEPT: it is processed. RELEASE: deliver it again. REJECT: it can't be processed, don't
            deliver it any more. RENEW: its processing takes longer, extend its lock.

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

    def acknowledge_arrow(
        self,
        batch: ShareArrowBatch,
        ack_type: AcknowledgeType | Any = AcknowledgeType.ACCEPT,
        mask: Any = None,
    ) -> None:
        """Does what `acknowledge()` does, for the rows of a batch of `consume_arrow()`.

        A later call may change the outcome of rows, until it is sent.

        Parameters
        ----------
        batch : ShareArrowBatch
            From `consume_arrow()` of this consumer.
        ack_type : AcknowledgeType, or column of integers
            The outcome of all rows, or one for each row: a pyarrow.Array, a polars.Series, or any
            object with Arrow's PyCapsule interface, or a sequence. A null leaves the row as it is.
        mask : column of booleans, optional
            Only rows whose value is true get the outcome.

        Raises
        ------
        IllegalStateException
            This consumer doesn't hold a record of these rows (any more), or the mode is
            ``implicit``. Then no row has changed.
        TypeError
            ``batch`` is no ShareArrowBatch, or a column has another type.
        ValueError
            A column has another length than the batch, or a type is none of AcknowledgeType.
        """
        with self._access():
            if not isinstance(batch, ShareArrowBatch):
                raise TypeError(f"argument 1 must be ShareArrowBatch, not {type(batch).__name__}")
            types = self._types_of(len(batch), ack_type, mask)
            self._check_explicit("rows")
            lost = self._held.acknowledge_rows(batch._ranges, types)
            if lost is not None:
                held, index = lost
                text = f"[{held.key[1]}] offset {held.first + index} isn't in this consumer's hands"
                raise IllegalStateException(f"Failed to acknowledge rows: {text}")

    def _types_of(self, count: int, ack_type: Any, mask: Any) -> bytes:
        """The acknowledgement type of each row, or UNDECIDED."""
        if isinstance(ack_type, int):
            types = bytes([min(max(ack_type, 0), UNDECIDED - 1)]) * count
        else:
            is_mask, types = values_of(ack_type)
            if is_mask and types:
                raise TypeError("a column of booleans is a mask: pass it as mask=")
        if len(types) != count:
            raise ValueError(f"the column of types has {len(types)} values for {count} rows")
        if not self._acknowledge_types.issuperset(set(types) - {UNDECIDED}):
            raise ValueError(f"Failed to acknowledge rows: {_TYPES_TEXT}")
        if mask is None:
            return types
        is_mask, chosen = values_of(mask)
        if not is_mask and chosen:
            raise TypeError("the mask must have booleans")
        return masked(types, chosen)

    def _check_explicit(self, what: str) -> None:
        if not self._explicit:
            text = (
                "records are accepted by the next poll(); set share.acknowledgement.mode=explicit"
            )
            raise IllegalStateException(f"Failed to acknowledge {what}: {text}")

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
        self._check_explicit(what)
        if kind not in self._acknowledge_types:
            raise ValueError(f"Failed to acknowledge {what}: {_TYPES_TEXT}")
        assert topic is not None
        assert partition is not None
        assert offset is not None
        if not self._held.acknowledge(topic, partition, offset, kind):
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
            timeout_s = timeout_s_of(timeout)
            commit = self._begin_commit()
            self._serve(commit.is_done, commit.failed, timeout_s)
            return commit.results()

    def _begin_commit(self) -> _Commit:
        pending = self._collect()
        commit = _Commit(pending)
        if pending:
            commit.failed = self._begin(lambda: self._control.sessions.acknowledge(pending))
        return commit

    def commit_async(self) -> None:
        """Sends the outcomes of records as `commit_sync()` does, without waiting; see the callback.

        Raises
        ------
        IllegalStateException
            The consumer is closed.
        """
        with self._access():
            self._post_commit()
            self._core._serve_until(lambda: True, 0.0)

    def _collect(self) -> list[Acknowledgement]:
        """Takes the outcomes to send. In implicit mode it accepts the records of the last poll.

        But not those that an iteration hasn't returned yet.
        """
        if self._explicit or self._unreturned is not None:
            return self._held.collect(accept=False)
        rest = ((each.topic(), each.partition(), each.offset()) for each in copy(self._batch))
        return self._held.collect(accept=True, keep=rest)

    def _post_commit(self) -> None:
        pending = self._collect()
        if pending:
            self._client.main.post(lambda: self._control.sessions.acknowledge(pending))

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

    def client_instance_id(self, timeout: float = -1) -> Uuid:
        """Returns the id under which metrics are pushed; see `Producer.client_instance_id`."""
        with self._access():
            return self._client.client_instance_id(timeout_s_of(timeout))

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
            deadline: float | None = 0.0  # if it can't be computed: don't wait
            try:
                deadline = deadline_of(timeout)
                self._topics = []
                self._leave(self._control.close, timeout)
            finally:
                self._client.push_last(left_s(deadline))
                self._shut()

    def _leave(self, begin: Callable[[Callable[[], None], float], None], timeout: float) -> None:
        """Ends sessions and membership. Runs the callbacks, then raises their first exception."""
        leaving = self._begin_leave(begin)
        deadline = deadline_of(timeout)
        raised: BaseException | None = None
        while True:
            try:
                in_time = self._core._serve_until(leaving.is_over, left_s(deadline))
                break
            except Exception as error:
                raised = raised or error
        self._end_leave(leaving, raised, in_time=in_time, timeout=timeout)

    def _begin_leave(self, begin: Callable[[Callable[[], None], float], None]) -> _Leaving:
        pending = self._held.collect(accept=False, renew=False)
        self._held.clear()
        self._batch = iter(())
        self._unreturned = None
        ended = Event()
        engine = self._client.engine

        def done() -> None:
            ended.set()
            engine.kick()

        def start() -> None:
            self._control.sessions.acknowledge(pending)
            begin(done, time.monotonic())

        return _Leaving(ended, self._begin(start))

    def _end_leave(
        self, leaving: _Leaving, raised: BaseException | None, *, in_time: bool, timeout: float
    ) -> None:
        self._inbox.fetched.clear()
        if not in_time:
            self._client.logger.warning("leaving the share group took longer than %g s", timeout)
        raised = raised or next(iter(leaving.failed), None)
        if raised is not None:
            raise raised

    def _shut(self) -> None:
        """Ends the threads."""
        self._core._mark_closed()
        self._client.close()
        self._client.release()

    def _check_fatal(self) -> None:
        if self._client.fatal is not None:
            raise KafkaException(self._client.fatal_error())

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
    listed_topics(topics, list)
    if not all(topics) or len(set(topics)) < len(topics):
        raise ValueError("Failed to subscribe: topic names must be non-empty and unique")
    if any(each.startswith("^") for each in topics):
        raise ValueError("Failed to subscribe: share groups have no regular expressions")
    return [exact_text(each) for each in topics]


def _unusable(topic: str, partition: int, status: int, offset: int) -> tuple[int, KafkaError]:
    """The offset and the error of a batch that can't be used."""
    cause = from_status(status)
    code = KafkaError._BAD_COMPRESSION if status == STATUS_TOO_LARGE else cause.code()
    text = f"{cause.str()} in {topic} [{partition}] at offset {offset}; its records are released"
    return offset, KafkaError(code, text)


def exception_of(message: AnyMessage) -> KafkaException:
    """The exception that an iteration raises for a message with an error."""
    error = message.error()
    assert error is not None
    if error.code() in (KafkaError._KEY_DESERIALIZATION, KafkaError._VALUE_DESERIALIZATION):
        return ConsumeError(error, kafka_message=message)
    return KafkaException(error)


def timeout_s_of(timeout: float) -> float:
    """Like `seconds()`, but None is an error, as in confluent_kafka."""
    if timeout is None:
        raise TypeError("the timeout must be a number of seconds, not None")
    return seconds(timeout)
