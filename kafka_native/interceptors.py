"""Interceptors (KIP-42): application code that sees every message that a client sends or receives.

The property ``interceptors`` is a list of interceptor objects. A client without interceptors pays
nothing for them: only a client with interceptors gets a subclass whose methods call them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from kafka_native._native.message import Message
from kafka_native.deadlines import deadline_of, left_s
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.logs import Logger
from kafka_native.types import TopicPartition

if TYPE_CHECKING:
    from kafka_native._native.consumer_core import ConsumerCore as ConsumerBase
    from kafka_native._native.producer_core import ProducerCore as ProducerBase
else:
    ConsumerBase = ProducerBase = object  # `intercept()` adds the real base

__all__ = ["ConsumerInterceptor", "ProducerInterceptor", "ProducerRecord", "notify_commit"]


@dataclass(slots=True)
class ProducerRecord:
    """A message on its way into `Producer.produce`, with the arguments of that call."""

    topic: str
    value: Any = None
    """The types of produce(): bytes, str, a buffer or None. The same holds for ``key``."""
    key: Any = None
    partition: int = -1
    headers: Any = None
    timestamp: int = 0
    """Milliseconds since 1970; 0 means the current time."""


class ProducerInterceptor:
    """Sees each message that a producer sends, and its outcome. Override the methods that you need.

        class Traced(ProducerInterceptor):
            def on_send(self, record):
                record.headers = [*(record.headers or []), ("trace", new_trace_id())]

        Producer({..., "interceptors": [Traced()]})

    The producer calls the interceptors in the order of the list. Each one gets the message as the
    previous one left it. If an interceptor raises, the producer logs the exception and ignores that
    interceptor's changes. The methods run on the threads that call the producer. Several threads
    may run them at the same time.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        """Called before the producer checks, partitions and queues the message.

        :param record: You may change it. In `produce_many` and `produce_batch`, the topic must
            stay.
        :return: The record to send instead, or None to send ``record``.
        """
        return None

    def on_acknowledgement(self, error: KafkaError | None, message: Message) -> None:
        """Called in poll() or flush(), before ``on_delivery``, when a message succeeded or failed.

        It is also called when a call raises after `on_send`, for each message that isn't queued,
        and for a message that gets an ``_error`` of `produce_batch`. In these cases it is called
        before the call ends.

        :param error: The reason of the failure; None if the message was delivered.
        """

    def close(self) -> None:
        """Called when the producer is closed, after the last acknowledgement."""


class ConsumerInterceptor:
    """Sees the messages that a consumer returns, and its commits.

    Override the methods that you need.

    The consumer calls the interceptors in the order of the list. If an interceptor raises, the
    consumer logs the exception and continues with the next one.
    """

    def on_consume(self, messages: list[Message]) -> None:
        """Called before poll(), consume() or iteration returns messages, or a callback gets them.

        A consumer with an interceptor that has this method returns no Arrow columns
        (`Consumer.consume_arrow`).

        :param messages: One or more messages, without those that carry an error. You may change
            keys, values and headers, with `Message.set_key` and the like. You must not change the
            list.
        """

    def on_commit(self, offsets: list[TopicPartition], error: KafkaError | None) -> None:
        """Called in the application's poll() when a commit succeeded or failed, like ``on_commit``.

        :param offsets: The offsets of the commit. Each partition has its own ``error``.
        :param error: The reason if some or all offsets weren't committed; None if all were
            committed.
        """

    def close(self) -> None:
        """Called when the consumer is closed."""


def notify_commit(
    interceptors: Iterable[ConsumerInterceptor],
    offsets: list[TopicPartition],
    error: KafkaError | None,
    logger: Logger | None = None,
) -> None:
    """Report the outcome of a commit to each interceptor, and log their exceptions."""
    for each in interceptors:
        _call(logger, each, "on_commit", offsets, error)


def _call(logger: Logger | None, interceptor: object, method: str, *args: object) -> Any:
    """Call a method of an interceptor. If it raises, log a warning and return None."""
    try:
        return getattr(interceptor, method)(*args)
    except Exception:
        log = logging.getLogger("kafka_native") if logger is None else logger
        log.warning(
            "interceptor %s: %s() raised", type(interceptor).__name__, method, exc_info=True
        )
        return None


class Chain:
    """The interceptors of one client."""

    def __init__(self, interceptors: Sequence[Any], logger: Logger) -> None:
        """``interceptors``: in the order of the calls."""
        self.interceptors = tuple(interceptors)
        self._logger = logger
        self._open = [
            True
            # The call of close() that removes the item closes the interceptors. There is no lock,
            # because a forked child could find it held.
        ]
        logger.debug(
            "called in this order: %s", ", ".join(type(each).__name__ for each in self.interceptors)
        )

    def on_send(self, record: ProducerRecord, *, fixed_topic: bool = False) -> ProducerRecord:
        """Return the message as the interceptors changed it.

        An interceptor that raises changes nothing.
        """
        for each in self.interceptors:
            try:
                given = replace(record)
                returned = each.on_send(given)
                if returned is not None and not isinstance(returned, ProducerRecord):
                    raise TypeError(
                        f"a ProducerRecord or None is expected, not {type(returned).__name__}"
                    )
                changed = given if returned is None else returned
                if fixed_topic and changed.topic != record.topic:
                    raise ValueError(
                        "the topic can't be changed in produce_many() and produce_batch()"
                    )
                record = changed
            except Exception:
                self._logger.warning(
                    "interceptor %s: on_send() raised", type(each).__name__, exc_info=True
                )
        return record

    def on_acknowledgement(self, error: KafkaError | None, message: Message) -> None:
        """Report the outcome of a message to every interceptor."""
        for each in self.interceptors:
            _call(self._logger, each, "on_acknowledgement", error, message)

    def on_produce(
        self, topic: str, value: Any, key: Any, partition: int, headers: Any, timestamp: int
    ) -> ProducerRecord:
        """Return the message of `Producer.produce` as the interceptors changed it."""
        return self.on_send(ProducerRecord(topic, value, key, partition, headers, timestamp))

    def raised(self, record: ProducerRecord, raised: BaseException) -> None:
        """Report to every interceptor the exception with which the producer refused a message."""
        self.refused(record, _error_of(raised))

    def refused(self, record: ProducerRecord, error: KafkaError) -> None:
        """Report to every interceptor that the producer didn't queue a message."""
        number = record.partition if isinstance(record.partition, int) else -1
        topic = record.topic if isinstance(record.topic, str) else None
        message = Message(topic, number, None, record.key, record.value, record.headers, error)
        self.on_acknowledgement(error, message)

    def deliver(
        self,
        callback: Callable[[KafkaError | None, Message], object] | None,
        errors_only: bool,
        error: KafkaError | None,
        message: Message,
    ) -> None:
        """Pass a delivery report to the interceptors, then to the message's callback."""
        self.on_acknowledgement(error, message)
        if callback is not None and not (errors_only and error is None):
            callback(error, message)

    def on_consume(self, messages: Iterable[Message]) -> None:
        """Pass messages to every interceptor before the consumer returns them."""
        good = [message for message in messages if message.error() is None]
        if good:
            for each in self.interceptors:
                _call(self._logger, each, "on_consume", list(good))

    def on_commit(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        """Report the outcome of a commit to every interceptor."""
        notify_commit(self.interceptors, offsets, error, self._logger)

    def close(self) -> None:
        """Close the interceptors. Only the first call has an effect."""
        try:
            self._open.pop()
        except IndexError:
            return
        for each in self.interceptors:
            self._logger.debug("%s is closed", type(each).__name__)
            _call(self._logger, each, "close")


def _error_of(raised: BaseException) -> KafkaError:
    """Return an exception of produce() as the error of a delivery report."""
    if isinstance(raised, KafkaException):
        error: KafkaError = raised.args[0]
        return error
    if isinstance(raised, BufferError):
        return KafkaError(KafkaError._QUEUE_FULL)
    is_argument = isinstance(raised, (TypeError, ValueError, OverflowError))
    code = KafkaError._INVALID_ARG if is_argument else KafkaError._FAIL
    return KafkaError(code, f"{type(raised).__name__}: {raised}")


def intercept(client: Any, mixin: type, chain: Chain) -> None:
    """Give the client a class with the mixin before its own. Other clients keep their class."""
    client._chain = chain
    mix_in(client, mixin)


def mix_in(client: Any, mixin: type) -> None:
    """Give the client a class with the mixin before its own. Other clients keep their class."""
    cls: type = type(client)
    client.__class__ = _subclass_of(mixin, cls)


@cache
def _subclass_of(mixin: type, cls: type) -> type:
    body = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__slots__": (),
    }
    return type(cls.__name__, (mixin, cls), body)


def _column(source: Any) -> Any:
    """Return a sequence as a list with one item per message. Return any other value unchanged."""
    is_column = hasattr(source, "__getitem__") and not isinstance(
        source, (str, bytes, bytearray, dict)
    )
    return list(source) if is_column else source


def _fits(column: Any, count: int, *, one_for_all: bool) -> bool:
    """Check that a column has one item per message, or is None.

    ``one_for_all``: one number for all messages is valid, too.
    """
    if isinstance(column, list):
        return len(column) == count
    return column is None or (one_for_all and hasattr(column, "__index__"))


class ProducerHooks(ProducerBase):
    """The mixin of a producer with interceptors. It comes before the producer's own class."""

    __slots__ = ()
    _chain: Chain
    _errors_only: bool

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Callable[..., object] | None = None,
        on_delivery: Callable[..., object] | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Runs the interceptors, then `Producer.produce`."""
        chain = self._chain
        record = chain.on_produce(topic, value, key, partition, headers, timestamp)
        report = self._report(on_delivery if callback is None else callback)
        try:
            super().produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                on_delivery=report,
                timestamp=record.timestamp,
                headers=record.headers,
            )
        except Exception as error:
            chain.raised(record, error)
            raise

    def _report(self, callback: Any) -> Any:
        """Wrap the callback of a message, so that the interceptors get the report first.

        A callback that isn't callable stays as it is: the producer refuses it with its usual error.
        """
        if callback is None or not callable(callback):
            return callback
        return partial(self._chain.deliver, callback, self._errors_only)

    def produce_many(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None = None,
        partition: int | Sequence[int] = -1,
        headers: Sequence[Any] | None = None,
        timestamps: int | Sequence[int] | None = None,
        on_delivery: Callable[..., object] | None = None,
    ) -> int:
        """See `Producer.produce_many`.

        The interceptors get the error of a message that wasn't queued. On the next try it passes
        ``on_send`` again.
        """
        given = (keys, partition, headers, timestamps)
        columns = [_column(each) for each in given]
        whole = _column(values)
        if not isinstance(whole, list) or not all(
            _fits(each, len(whole), one_for_all=number in (1, 3))
            for number, each in enumerate(columns)
        ):
            # Let the producer raise its usual error
            return super().produce_many(topic, values, *given, on_delivery)
        rows = []
        for number, value in enumerate(whole):
            key, chosen, own, moment = (
                each[number] if isinstance(each, list) else each for each in columns
            )
            rows.append(ProducerRecord(topic, value, key, chosen, own, moment or 0))
        sent = [self._chain.on_send(row, fixed_topic=True) for row in rows]
        try:
            queued = super().produce_many(
                topic,
                [row.value for row in sent],
                [row.key for row in sent],
                [row.partition for row in sent],
                [row.headers for row in sent],
                [row.timestamp for row in sent],
                self._report(on_delivery),
            )
        except Exception as error:
            for row in sent[getattr(error, "queued", 0) :]:
                self._chain.raised(row, error)
            raise
        for row in sent[queued:]:
            self._chain.refused(row, KafkaError(KafkaError._QUEUE_FULL))
        return queued

    def _produce_columns(self, *args: object, **kwargs: object) -> int:
        """Refuse `produce_arrow()`, because it makes no ProducerRecord for the interceptors."""
        text = "produce_arrow() makes no ProducerRecord for the interceptors"
        error = KafkaException(
            KafkaError(KafkaError._UNSUPPORTED_FEATURE, text),
            hint="use produce_many(), or a producer without interceptors",
        )
        error.queued = 0  # type: ignore[attr-defined]
        raise error

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Callable[..., object] | None = None,
        on_delivery: Callable[..., object] | None = None,
    ) -> int:
        """Runs the interceptors, then `Producer.produce_batch`."""
        if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
            return super().produce_batch(topic, messages, partition, callback, on_delivery)
        sent: list[ProducerRecord] = []
        rows: list[dict[str, Any]] = []
        for message in messages:
            own = message.get("partition")
            record = self._chain.on_send(
                ProducerRecord(
                    topic,
                    message.get("value"),
                    message.get("key"),
                    partition if own is None else own,
                    message.get("headers"),
                    message.get("timestamp") or 0,
                ),
                fixed_topic=True,
            )
            sent.append(record)
            reports: dict[str, Any] = {
                name: self._report(message[name])
                for name in ("callback", "on_delivery")
                if name in message
            }
            row: dict[str, Any] = {**message, **reports, "value": record.value, "key": record.key}
            row.update(
                partition=record.partition, headers=record.headers, timestamp=record.timestamp
            )
            rows.append(row)
        report = self._report(on_delivery if callback is None else callback)
        try:
            queued = super().produce_batch(topic, rows, partition, None, report)
        except KafkaException:
            raise  # some of the messages may be queued, and get a report
        except Exception as error:  # nothing is queued
            for record in sent:
                self._chain.raised(record, error)
            raise
        for message, row, record in zip(messages, rows, sent, strict=True):
            message.pop("_error", None)
            if "_error" in row:
                message["_error"] = row["_error"]
                self._chain.refused(record, row["_error"])
        return queued

    def _shut(self) -> None:
        try:
            super()._shut()  # type: ignore[misc]
        finally:
            self._chain.close()


class ConsumerHooks(ConsumerBase):
    """The mixin of a consumer with interceptors. It comes before the consumer's own class."""

    __slots__ = ()
    _chain: Chain

    def poll(self, timeout: float | None = -1) -> Message | None:
        """Calls `Consumer.poll`, then runs the interceptors."""
        message = super().poll(timeout)
        if message is not None:
            self._chain.on_consume((message,))
        return message

    def consume(self, num_messages: int | None = 1, timeout: float | None = -1) -> list[Message]:
        """Calls `Consumer.consume`, then runs the interceptors."""
        messages = super().consume(num_messages, timeout)
        self._chain.on_consume(messages)
        return messages

    def _consume_each(
        self, callback: Callable[[Message], object], message_max: int, timeout: float
    ) -> int:
        def each(message: Message) -> None:
            self._chain.on_consume((message,))
            callback(message)

        return super()._consume_each(each, message_max, timeout)

    def _check_columns(self) -> None:
        """Refuse columns if an interceptor has ``on_consume``, because columns have no messages."""
        for each in self._chain.interceptors:
            own = getattr(type(each), "on_consume", None)
            if own is not None and own is not ConsumerInterceptor.on_consume:
                text = f"columns have no Messages for {type(each).__name__}.on_consume()"
                raise KafkaException(KafkaError(KafkaError._UNSUPPORTED_FEATURE, text))

    def __next__(self) -> Message:
        """Return the next message, see `Consumer`."""
        message = super().__next__()
        self._chain.on_consume((message,))
        return message

    def _shut(self) -> None:
        try:
            super()._shut()  # type: ignore[misc]
        finally:
            self._chain.close()


class ConsumeCallback(ConsumerBase):
    """The mixin of a consumer with ``consume_cb``. It comes before the consumer's own class."""

    __slots__ = ()
    _consume_cb: Callable[[Message], object]

    def poll(self, timeout: float | None = -1) -> Message | None:
        """Pass each message to ``consume_cb`` until the time is up, and return None."""
        deadline = deadline_of(-1 if timeout is None else timeout)
        while True:
            message = super().poll(left_s(deadline))
            if message is None:
                return None
            self._consume_cb(message)
            if left_s(deadline) == 0:
                return None
