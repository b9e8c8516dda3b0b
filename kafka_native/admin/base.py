"""The base of `AdminClient`'s calls: its thread, futures, timeouts, and checks of arguments."""

from __future__ import annotations

import contextlib
import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from enum import Enum
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, TypeVar

from kafka_native import deadlines
from kafka_native._native.engine import exits_elsewhere
from kafka_native.client_core import HANDLE_CLOSED_TEXT, ClientCore
from kafka_native.config import check_is_mapping, parse
from kafka_native.control.main_thread import end_of
from kafka_native.control.operations import (
    REQUEST_MAX_BYTES,
    UNANSWERED,
    AdminOperation,
    Operation,
    Settle,
    Steps,
    size_of,
)
from kafka_native.control.requests import NEVER
from kafka_native.control.settings import connection_settings, consumer_settings, producer_settings
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.protocol import ProtocolError
from kafka_native.protocol.metadata import MetadataResponse
from kafka_native.protocol.schema import Request
from kafka_native.threads import Empty, SimpleQueue, new_future
from kafka_native.types import Node, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self

    from kafka_native.statistics import ClientMetrics

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
KeyT = TypeVar("KeyT", bound=Hashable)
ItemT = TypeVar("ItemT")
ResponseT = TypeVar("ResponseT")
ResultT = TypeVar("ResultT")
StepsOf: TypeAlias = Callable[
    [dict[KeyT, ItemT], "Settle[KeyT, ResultT]", Operation], "Steps[None]"
]
"""Makes the steps of a call from its items, a function for outcomes, and the `Operation`."""

CLOSED_TEXT = "AdminClient has been closed"
INT16_MAX, INT32_MAX, INT64_MAX = (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1


class Handle(ClientCore):
    """A client whose callbacks wait for `AdminClient.poll()`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """See `ClientCore`."""
        self.callbacks: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        """The callbacks that are due; None: the client is closed."""
        super().__init__(*args, **kwargs)

    def call_back(self, callback: Callable[[], object]) -> None:
        """Queues a callback for the next poll(). Control thread only."""
        self.callbacks.put(callback)

    def poll(self, timeout: float) -> int:
        """Runs the callbacks that are due; see `AdminBase.poll`."""
        made = 0
        timeout_s = deadlines.seconds(timeout)
        wait_s = None if timeout_s < 0 else timeout_s
        try:
            while True:
                callback = self.callbacks.get(timeout=wait_s)
                if callback is None:
                    self.callbacks.put(None)  # for other threads that wait
                    return made
                made += 1
                wait_s = 0
                callback()
        except Empty:
            return made

    def close(self) -> None:
        """See `ClientCore.close`. Also ends each `poll()` that waits."""
        super().close()
        if not self.forked:
            self.callbacks.put(None)


class AdminBase:
    """The base of AdminClient's calls. `AdminClient` describes how to use them."""

    _handle = Handle
    _client: ClientCore
    _eager = False
    """Whether to connect without work, see `ClientCore`."""
    _owner: object | None = None
    """The owner of the client, if this object doesn't own it."""
    _closed = False

    def __init__(self, conf: Mapping[str, Any], **kwargs: Any) -> None:
        """Creates an admin client.

        KafkaException: _INVALID_ARG names an unknown or invalid property.
        """
        check_is_mapping(conf)
        settings = parse({**conf, **kwargs}, "producer")
        everything = {
            **connection_settings(settings),
            **consumer_settings(settings),
            **producer_settings(settings, 0, False),
        }
        self._use(self._handle(settings, "admin", everything, eager=self._eager))
        self._client.main.start()

    @classmethod
    def of(cls, client: object) -> Self:
        """Creates an admin client on another one: a Client, Producer, Consumer or AdminClient.

            with AdminClient.of(producer) as admin:
                admin.create_topics([NewTopic("greetings", 3)])["greetings"].result()

        It uses the other client's connections, thread and configuration (``client.id``,
        ``socket.timeout.ms``, the authenticated user). It needs no connections of its own.
        Callbacks stay with the other client: its `poll()` runs them, and `poll()` here returns 0 at
        once. Closing this object doesn't close the other client. Closing the other client fails
        unfinished calls here. Calls about groups may wait behind the other client's requests,
        because a consumer's coordinator replies in order.

        :param client: The other client. It is kept alive.
        :raises TypeError: ``client`` isn't a client; for asyncio's clients, use
            `AIOAdminClient.of`.
        :raises RuntimeError: ``client`` is closed.
        """
        handle = getattr(client, "_client", None)
        if not isinstance(handle, ClientCore):
            raise TypeError(
                "a Client, Producer, Consumer or AdminClient is expected, "
                f"not {type(client).__name__}"
            )
        handle.check_open(HANDLE_CLOSED_TEXT)
        admin = cls.__new__(cls)
        admin._owner = client
        admin._use(handle)
        return admin

    def _use(self, client: ClientCore) -> None:
        self._client = client
        self._timeout_s = client.config.integer("socket.timeout.ms") / 1000
        self._operations = client.operations()

    def metrics(self) -> ClientMetrics:
        """Returns this client's statistics; see `Producer.metrics`."""
        self._check_open()
        return self._client.metrics(CLOSED_TEXT)

    def poll(self, timeout: float = -1) -> int:
        """Runs the callbacks that are due (``error_cb``, ``throttle_cb``, ``stats_cb``).

        Futures don't need it.

        :param timeout: Seconds to wait for a callback; negative or more than a year waits without
            limit. If another thread closes the client, the wait ends.
        :return: How many callbacks ran. Exceptions of callbacks are raised.
        """
        self._check_open()
        if self._owner is not None or not isinstance(self._client, Handle):
            return 0
        return self._client.poll(timeout)

    def close(self) -> None:
        """Closes the client; unfinished futures fail with _DESTROY. A second call does nothing.

        If it was created by `of()`, it only accepts no more calls. The other client finishes those
        that are running.
        """
        self._closed = True
        if self._owner is None:
            self._client.close()
            self._client.release()

    def __enter__(self) -> Self:
        """The client itself."""
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the client."""
        self.close()

    def __del__(self) -> None:
        """Stops the threads of a client that was dropped without close()."""
        if getattr(self, "_client", None) is not None and self._owner is None:
            self._client.drop()

    def __len__(self) -> int:
        """Always 0: confluent_kafka counts events here, which this client doesn't have."""
        return 0

    def __bool__(self) -> bool:
        """Always True."""
        return True

    def __repr__(self) -> str:
        """The client's name and state."""
        state = "closed" if self._closed or self._client.closed else "open"
        return f"<AdminClient {self._client.name} ({state})>"

    def _check_open(self) -> None:
        """Raises RuntimeError if this object is closed, or the client that it uses."""
        if self._closed and not self._client.forked:
            raise RuntimeError(CLOSED_TEXT)
        self._client.check_open(CLOSED_TEXT if self._owner is None else HANDLE_CLOSED_TEXT)

    # --- for the calls ---

    def _timeouts(self, request_timeout: float, operation_timeout: float) -> tuple[float, int]:
        """The timeout of the whole call in seconds, and the broker's in milliseconds."""
        timeout_s = self._request_timeout(request_timeout)
        operation_s = checked_timeout("operation_timeout", operation_timeout)
        return timeout_s, wire_ms(timeout_s if operation_s < 0 else operation_s)

    def _request_timeout(self, value: float) -> float:
        given_s = checked_timeout("request_timeout", value)
        return self._timeout_s if given_s < 0 else given_s

    def _start(
        self,
        kind: AdminOperation[KeyT, ItemT, ResponseT, ResultT],
        items: Iterable[tuple[KeyT, ItemT | KafkaError]],
        timeout_s: float,
    ) -> dict[KeyT, Future[ResultT]]:
        """Starts an operation. Returns one future per key.

        :param items: Keys with their items for a request, or with the error why they can't be sent.
        """
        return self._begin(
            items,
            kind.request,
            lambda wanted, settle, operation: operation.run(kind, wanted, settle),
            timeout_s,
        )

    def _start_one(
        self, kind: AdminOperation[None, ItemT, ResponseT, ResultT], item: ItemT, timeout_s: float
    ) -> Future[ResultT]:
        """Like `_start()`, for an operation with one outcome."""
        return self._start(kind, [(None, item)], timeout_s)[None]

    def _begin_one(
        self,
        request: Request,
        steps_of: Callable[[Operation], Steps[ResultT | KafkaError]],
        timeout_s: float,
    ) -> Future[ResultT]:
        """Starts steps that return one outcome.

        ``request`` is checked first, in place of all of them.
        """

        def steps(
            items: dict[None, None], settle: Settle[None, ResultT], operation: Operation
        ) -> Steps[None]:
            settle(None, (yield from steps_of(operation)))

        return self._begin([(None, None)], lambda _: request, steps, timeout_s)[None]

    def _begin(
        self,
        items: Iterable[tuple[KeyT, ItemT | KafkaError]],
        request: Callable[[list[ItemT]], Request],
        steps_of: StepsOf[KeyT, ItemT, ResultT],
        timeout_s: float,
    ) -> dict[KeyT, Future[ResultT]]:
        """Starts the steps of a call. Returns one future per key.

        :param items: Keys with their items for a request, or with the error why they can't be sent.
        :param request: Makes the request for some items. An item fails if its request is invalid or
            too large.
        """
        self._check_open()
        given = list(items)
        futures: dict[KeyT, Future[ResultT]] = {
            key: new_future(deadlines.Future) for key, _ in given
        }
        for future in futures.values():
            future.set_running_or_notify_cancel()  # from here on it can't be cancelled
        counts = Counter(key for key, _ in given)
        wanted: dict[KeyT, ItemT] = {}
        for key, item in given:
            refused = _refusal(request, item, counts[key])
            if refused is not None:
                _complete(futures[key], refused)
            elif not isinstance(item, KafkaError):
                wanted[key] = item

        def settle(key: KeyT, outcome: ResultT | KafkaError) -> None:
            _complete(futures[key], outcome)

        def end(error: BaseException) -> None:
            for future in futures.values():
                _complete(future, error)

        def steps(operation: Operation) -> Steps[None]:
            yield from steps_of(wanted, settle, operation)
            end(KafkaException(UNANSWERED))

        if wanted:
            self._post(steps, timeout_s, end)
        return dict(futures)  # a copy that the caller may change

    def _post(
        self,
        steps: Callable[[Operation], Steps[None]],
        timeout_s: float,
        end: Callable[[BaseException], None],
    ) -> None:
        deadline = end_of(timeout_s)
        self._client.main.post(partial(self._operations.begin, steps, deadline, end))
        # The thread may have ended before it could run this. An asyncio client is closed only some
        # time after its thread has ended.
        if self._client.closed or self._client.main.stopping:
            end(KafkaException(KafkaError(KafkaError._DESTROY, CLOSED_TEXT)))


def _refusal(
    request: Callable[[list[ItemT]], Request], item: ItemT | KafkaError, count: int
) -> KafkaError | None:
    """Why an item can't be sent; None: it can. Only this item fails."""
    if count > 1:
        return KafkaError(
            KafkaError._INVALID_ARG, "the item occurs more than once, and all share one future"
        )
    if isinstance(item, KafkaError):
        return item
    try:
        size = size_of(request([item]))
    except ProtocolError as error:
        return KafkaError(KafkaError._INVALID_ARG, str(error))
    if size > REQUEST_MAX_BYTES:
        return KafkaError(
            KafkaError.MSG_SIZE_TOO_LARGE,
            f"the request has {size} bytes, but brokers accept {REQUEST_MAX_BYTES}",
        )
    return None


def _complete(future: Future[ResultT], outcome: ResultT | KafkaError | BaseException) -> None:
    """Completes a future, unless it is complete already."""
    if future.done():
        return
    if isinstance(outcome, KafkaError):
        outcome = KafkaException(outcome)
    if (
        isinstance(outcome, KafkaException)
        and outcome.args[0].code() == KafkaError._DESTROY
        and exits_elsewhere()
    ):
        outcome = SystemExit()  # for the daemon thread that waits for it
    # If the client is closing, its control thread and the caller may do this at the same time.
    with contextlib.suppress(InvalidStateError):
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def error_or_none(code: int, text: str | None = None) -> KafkaError | None:
    """The error of a part of a response; None: success."""
    return KafkaError(code, text or None) if code else None


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Groups partitions by topic name."""
    found: dict[str, list[TopicPartition]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each)
    return found


def nodes_of(brokers: Iterable[MetadataResponse.Broker]) -> dict[int, Node]:
    """The brokers of a Metadata response, by id."""
    return {each.node_id: Node(each.node_id, each.host, each.port, each.rack) for each in brokers}


# --- checks of arguments: they raise TypeError and ValueError ---


def list_of(given: object, kind: type[T], length_min: int = 1) -> list[T]:
    """The given list (or tuple), after a check of its type, its items and its length."""
    if not isinstance(given, list | tuple):
        raise TypeError(f"expected a list of {kind.__name__}, not {type(given).__name__}")
    for each in given:
        if not isinstance(each, kind):
            raise TypeError(
                f"expected a list of {kind.__name__}, but one item is of type {type(each).__name__}"
            )
    if len(given) < length_min:
        raise ValueError(f"Expected non-empty list of {kind.__name__}")
    return list(given)


def distinct(given: object, kind: type[T], what: str) -> list[T]:
    """The given list, after a check of its items; each may occur once."""
    found = list_of(given, kind)
    if len(set(found)) < len(found):
        raise ValueError(f"duplicate {what} not allowed")
    return found


def set_of(name: str, given: object, kind: type[T]) -> set[T]:
    """The given set, after a check of its items; None becomes an empty set."""
    if given is None:
        return set()
    if not isinstance(given, set | frozenset) or not all(isinstance(each, kind) for each in given):
        raise TypeError(f"'{name}' must be a set of {kind.__name__}")
    return set(given)


def flag(name: str, given: object) -> bool:
    """The given bool, after a check of its type."""
    if not isinstance(given, bool):
        raise TypeError(f"Expected {name} to be bool type, not {type(given).__name__}")
    return given


def number(name: str, given: object, value_min: int, value_max: int) -> int:
    """The given int, after a check of its type and range."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"'{name}' must be an int, not {type(given).__name__}")
    if not value_min <= given <= value_max:
        raise ValueError(f"'{name}' must be {value_min} to {value_max}, not {given}")
    return given


def topic_name(given: object) -> str:
    """The given topic name, the first argument of a constructor."""
    if not isinstance(given, str):
        raise TypeError(f"argument 1 must be str, not {type(given).__name__}")
    return given


def broker_id(given: SupportsIndex) -> int:
    """The given broker id, after a check; -1: none."""
    number = operator.index(given)
    if not -1 <= number <= INT32_MAX:
        raise ValueError(f"there is no broker {number}")
    return number


def node_id(given: SupportsIndex) -> int:
    """The given id of a broker or controller, after a check."""
    number = broker_id(given)
    if number < 0:
        raise ValueError(f"there is no broker {number}")
    return number


def check_partitions(given: Iterable[object]) -> None:
    """Raises TypeError or ValueError if an item isn't a valid partition."""
    for each in given:
        if not isinstance(each, TopicPartition):
            raise TypeError(f"partition must be a TopicPartition, not {type(each).__name__}")
        if not each.topic:
            raise ValueError("partition topic name cannot be empty")
        if each.partition < 0:
            raise ValueError("'partition' cannot be negative")


def copied_partitions(given: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Copies of the given partitions, after a check.

    The control thread reads them after the call has returned. Then the application may change its
    own objects, for instance the offset of a TopicPartition that it uses again.
    """
    partitions = list(given)
    check_partitions(partitions)
    return [each.with_error(None) for each in partitions]


def checked_timeout(name: str, value: object) -> float:
    """The given timeout: -1 is the default, `NEVER` means no limit."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if value != -1 and not value >= 0:
        raise ValueError(f'Invalid value type for "{name}": it must be -1 or more, not {value}')
    return NEVER if value > deadlines.FOR_EVER_S else float(value)


def wire_ms(timeout_s: float) -> int:
    """Seconds as a request's milliseconds. They have 32 bits: the maximum is 24 days."""
    return int(min(timeout_s * 1000, INT32_MAX))


# --- enum members ---


def member_of(value: object, kind: type[E], what: str | None = None) -> E:
    """The enum member for ``value``: a member, its name in any case, or its number.

    :raises ValueError: There is none; the text names ``what`` or the enum.
    :raises TypeError: ``value`` has another type.
    """
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        found = kind.__members__.get(value.upper())
        if found is None:
            raise ValueError(f'Unknown {what or "value"} "{value}": should be a {kind.__name__}')
        return found
    if isinstance(value, int) and not isinstance(value, bool):
        return kind(value)
    raise TypeError(
        f"expected a {kind.__name__}, its name or its number, not {type(value).__name__}"
    )


def members_of(values: Iterable[object] | None, kind: type[E]) -> list[E] | None:
    """Applies `member_of()` to each value; None stays None."""
    return None if values is None else [member_of(each, kind) for each in values]


def known_member(number: int, kind: type[E]) -> E:
    """The member with this number; UNKNOWN if this client doesn't know it."""
    return next(
        (each for each in kind if each.value == number and each.name != "ANY"), kind["UNKNOWN"]
    )
