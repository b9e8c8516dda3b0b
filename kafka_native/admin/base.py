"""What the calls of `AdminClient` stand on: its thread, futures and timeouts, and the checks of arguments."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future
from enum import Enum
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, TypeVar

from kafka_native import deadlines
from kafka_native._native.engine import exits_elsewhere
from kafka_native.client import HANDLE_CLOSED_TEXT, Client
from kafka_native.config import parse
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
from kafka_native.statistics import ClientMetrics
from kafka_native.threads import Empty, SimpleQueue, new_future
from kafka_native.types import Node, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
KeyT = TypeVar("KeyT", bound=Hashable)
ItemT = TypeVar("ItemT")
ResponseT = TypeVar("ResponseT")
ResultT = TypeVar("ResultT")
StepsOf: TypeAlias = Callable[[dict[KeyT, ItemT], "Settle[KeyT, ResultT]", Operation], "Steps[None]"]
"""Makes the steps of a call: of its items, of what takes outcomes, and of the `Operation`."""

CLOSED_TEXT = "AdminClient has been closed"
INT16_MAX, INT32_MAX, INT64_MAX = (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1


class Handle(Client):
    """A client whose callbacks wait for `AdminClient.poll()`."""

    def __init__(self, *args: Any) -> None:
        """See `Client`."""
        self.callbacks: SimpleQueue[Callable[[], Any]] = SimpleQueue()
        super().__init__(*args)

    def call_back(self, callback: Callable[[], Any]) -> None:
        """Control thread: it is due."""
        self.callbacks.put(callback)


class AdminBase:
    """What AdminClient's calls stand on; `AdminClient` says how it is used."""

    _handle = Handle
    _client: Client
    _owner: object | None = None
    """Whose client it is, if it isn't this one's own."""
    _closed = False

    def __init__(self, conf: Mapping[str, Any], **kwargs: Any) -> None:
        """KafkaException (_INVALID_ARG) names an unknown property or a value that can't be."""
        if not isinstance(conf, Mapping):
            raise TypeError(f"expected configuration dict, not {type(conf).__name__}")
        settings = parse({**conf, **kwargs}, "producer")
        everything = {
            **connection_settings(settings),
            **consumer_settings(settings),
            **producer_settings(settings, 0, False),
        }
        self._use(self._handle(settings, "admin", everything))
        self._client.main.start()

    @classmethod
    def of(cls, client: object) -> Self:
        """The calls on another client's handle: a Producer's, a Consumer's or an AdminClient's.

            with AdminClient.of(producer) as admin:
                admin.create_topics([NewTopic("greetings", 3)])["greetings"].result()

        It has the client's connections, thread and configuration (``client.id``, ``socket.timeout.ms``, who is logged
        in) and needs none of its own. Callbacks stay with the client: they are made by its `poll()`, and `poll()` here
        returns 0 at once. Closing this one leaves the client as it is; closing the client fails what isn't done here.
        Calls about groups may wait behind the client's own: a consumer's coordinator answers in order.

        :param client: What has the handle. It is kept alive.
        :raises TypeError: It has none; for asyncio's clients there is `AIOAdminClient.of`.
        :raises RuntimeError: It is closed.
        """
        handle = getattr(client, "_client", None)
        if not isinstance(handle, Client):
            raise TypeError(f"a Producer, Consumer or AdminClient is expected, not {type(client).__name__}")
        handle.check_open(HANDLE_CLOSED_TEXT)
        admin = cls.__new__(cls)
        admin._owner = client
        admin._use(handle)
        return admin

    def _use(self, client: Client) -> None:
        self._client = client
        self._timeout_s = client.config.integer("socket.timeout.ms") / 1000
        self._operations = client.operations()

    def metrics(self) -> ClientMetrics:
        """What this client has counted; see `Producer.metrics`."""
        self._check_open()
        return self._client.metrics(CLOSED_TEXT)

    def poll(self, timeout: float = -1) -> int:
        """Makes the callbacks that are due (``error_cb``, ``throttle_cb``, ``stats_cb``). Futures don't need it.

        :param timeout: Seconds to wait for one; negative or more than a year waits for ever.
        :return: How many were made. What one raises comes out of here.
        """
        self._check_open()
        if self._owner is not None or not isinstance(self._client, Handle):
            return 0
        made = 0
        timeout_s = deadlines.seconds(timeout)
        wait_s = None if timeout_s < 0 else timeout_s
        try:
            while True:
                callback = self._client.callbacks.get(timeout=wait_s)
                made += 1
                wait_s = 0
                callback()
        except Empty:
            return made

    def close(self) -> None:
        """Ends the client; futures that aren't done fail with _DESTROY. Again: nothing happens.

        One that is `of()` another client takes no more calls; what isn't done is done by that client.
        """
        self._closed = True
        if self._owner is None:
            self._client.close()
            self._client.release()

    def __enter__(self) -> Self:
        """Itself."""
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes."""
        self.close()

    def __del__(self) -> None:
        """A client that was dropped without close() ends its threads."""
        if getattr(self, "_client", None) is not None and self._owner is None:
            self._client.drop()

    def __len__(self) -> int:
        """Always 0: confluent_kafka counts events here, which are no matter of this client's."""
        return 0

    def __bool__(self) -> bool:
        """It is there."""
        return True

    def __repr__(self) -> str:
        """Name and state."""
        return f"<AdminClient {self._client.name} ({'closed' if self._closed or self._client.closed else 'open'})>"

    def _check_open(self) -> None:
        """RuntimeError once it is closed, or the client that it is of."""
        if self._closed and not self._client.forked:
            raise RuntimeError(CLOSED_TEXT)
        self._client.check_open(CLOSED_TEXT if self._owner is None else HANDLE_CLOSED_TEXT)

    # --- for the calls ---

    def _timeouts(self, request_timeout: float, operation_timeout: float) -> tuple[float, int]:
        """The whole call's in seconds, the broker's in milliseconds."""
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
        """Starts an operation. Returns a future a key.

        :param items: Keys, and what they stand for in a request, or why they can't be sent.
        """
        return self._begin(
            items, kind.request, lambda wanted, settle, operation: operation.run(kind, wanted, settle), timeout_s
        )

    def _start_one(
        self, kind: AdminOperation[None, ItemT, ResponseT, ResultT], item: ItemT, timeout_s: float
    ) -> Future[ResultT]:
        """As `_start()`, for an operation that has one outcome."""
        return self._start(kind, [(None, item)], timeout_s)[None]

    def _begin_one(
        self, request: Request, steps_of: Callable[[Operation], Steps[ResultT | KafkaError]], timeout_s: float
    ) -> Future[ResultT]:
        """Starts steps that return one outcome. ``request`` is checked first: it stands for all of them."""

        def steps(items: dict[None, None], settle: Settle[None, ResultT], operation: Operation) -> Steps[None]:
            settle(None, (yield from steps_of(operation)))

        return self._begin([(None, None)], lambda _: request, steps, timeout_s)[None]

    def _begin(
        self,
        items: Iterable[tuple[KeyT, ItemT | KafkaError]],
        request: Callable[[list[ItemT]], Request],
        steps_of: StepsOf[KeyT, ItemT, ResultT],
        timeout_s: float,
    ) -> dict[KeyT, Future[ResultT]]:
        """Starts the steps of a call. Returns a future a key.

        :param items: Keys, and what they stand for in a request, or why they can't be sent.
        :param request: The request for some items: one that can't be made or is too large fails its item.
        """
        self._check_open()
        given = list(items)
        futures: dict[KeyT, Future[ResultT]] = {key: new_future(deadlines.Future) for key, _ in given}
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
        return dict(futures)  # the caller's own, to change as it likes

    def _post(
        self, steps: Callable[[Operation], Steps[None]], timeout_s: float, end: Callable[[BaseException], None]
    ) -> None:
        deadline = end_of(timeout_s)
        self._client.main.post(partial(self._operations.begin, steps, deadline, end))
        if self._client.closed:  # meanwhile: the thread may have ended before it came to this
            end(KafkaException(KafkaError(KafkaError._DESTROY, CLOSED_TEXT)))


def _refusal(request: Callable[[list[ItemT]], Request], item: ItemT | KafkaError, count: int) -> KafkaError | None:
    """Why an item can't be sent: it alone fails then."""
    if count > 1:
        return KafkaError(KafkaError._INVALID_ARG, "it is there more than once: there is one future for all")
    if isinstance(item, KafkaError):
        return item
    try:
        size = size_of(request([item]))
    except ProtocolError as error:
        return KafkaError(KafkaError._INVALID_ARG, str(error))
    if size > REQUEST_MAX_BYTES:
        return KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, f"a request of {size} bytes, brokers take {REQUEST_MAX_BYTES}")
    return None


def _complete(future: Future[ResultT], outcome: ResultT | KafkaError | BaseException) -> None:
    """Only the first outcome counts."""
    if future.done():
        return
    if isinstance(outcome, KafkaError):
        outcome = KafkaException(outcome)
    if isinstance(outcome, KafkaException) and outcome.args[0].code() == KafkaError._DESTROY and exits_elsewhere():
        outcome = SystemExit()  # for the daemon thread that waits for it
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def error_or_none(code: int, text: str | None = None) -> KafkaError | None:
    """The error of a part of a response; None: it is done."""
    return KafkaError(code, text or None) if code else None


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Partitions by their topic's name."""
    found: dict[str, list[TopicPartition]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each)
    return found


def nodes_of(brokers: Iterable[MetadataResponse.Broker]) -> dict[int, Node]:
    """The brokers of a Metadata response by their ids."""
    return {each.node_id: Node(each.node_id, each.host, each.port, each.rack) for each in brokers}


# --- arguments: TypeError and ValueError for what can't be ---


def list_of(given: object, kind: type[T], length_min: int = 1) -> list[T]:
    """What was given, if it is a list (or tuple) of these with at least so many."""
    if not isinstance(given, list | tuple):
        raise TypeError(f"expected a list of {kind.__name__}, not {type(given).__name__}")
    for each in given:
        if not isinstance(each, kind):
            raise TypeError(f"expected a list of {kind.__name__}, one of it is {type(each).__name__}")
    if len(given) < length_min:
        raise ValueError(f"Expected non-empty list of {kind.__name__}")
    return list(given)


def distinct(given: object, kind: type[T], what: str) -> list[T]:
    """A list of these, each there once."""
    found = list_of(given, kind)
    if len(set(found)) < len(found):
        raise ValueError(f"duplicate {what} not allowed")
    return found


def set_of(name: str, given: object, kind: type[T]) -> set[T]:
    """What was given, if it is a set of these; None is an empty one."""
    if given is None:
        return set()
    if not isinstance(given, set | frozenset) or not all(isinstance(each, kind) for each in given):
        raise TypeError(f"'{name}' must be a set of {kind.__name__}")
    return set(given)


def flag(name: str, given: object) -> bool:
    """What was given, if it is a bool."""
    if not isinstance(given, bool):
        raise TypeError(f"Expected {name} to be bool type, not {type(given).__name__}")
    return given


def number(name: str, given: object, value_min: int, value_max: int) -> int:
    """What was given, if it is an int from ``value_min`` to ``value_max``."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"'{name}' must be an int, not {type(given).__name__}")
    if not value_min <= given <= value_max:
        raise ValueError(f"'{name}' must be {value_min} to {value_max}, not {given}")
    return given


def topic_name(given: object) -> str:
    """The name of a topic, as the first argument of a constructor."""
    if not isinstance(given, str):
        raise TypeError(f"argument 1 must be str, not {type(given).__name__}")
    return given


def broker_id(given: SupportsIndex) -> int:
    """A broker's id, -1 for none."""
    number = operator.index(given)
    if not -1 <= number <= INT32_MAX:
        raise ValueError(f"there is no broker {number}")
    return number


def node_id(given: SupportsIndex) -> int:
    """The id of a broker or controller."""
    number = broker_id(given)
    if number < 0:
        raise ValueError(f"there is no broker {number}")
    return number


def check_partitions(given: Iterable[object]) -> None:
    """TypeError and ValueError for what can't be a partition."""
    for each in given:
        if not isinstance(each, TopicPartition):
            raise TypeError(f"partition must be a TopicPartition, not {type(each).__name__}")
        if not each.topic:
            raise ValueError("partition topic name cannot be empty")
        if each.partition < 0:
            raise ValueError("'partition' cannot be negative")


def checked_timeout(name: str, value: object) -> float:
    """-1 for the default, `NEVER` for ever."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if value != -1 and not value >= 0:
        raise ValueError(f'Invalid value type for "{name}": it must be -1 or more, not {value}')
    return NEVER if value > deadlines.FOR_EVER_S else float(value)


def wire_ms(timeout_s: float) -> int:
    """Seconds as milliseconds of a request, which has 32 bits for them: 24 days are as good as for ever."""
    return int(min(timeout_s * 1000, INT32_MAX))


# --- enum members ---


def member_of(value: object, kind: type[E], what: str | None = None) -> E:
    """The member that ``value`` (a member, its name in any case, its number) means.

    :raises ValueError: There is none; the text names ``what`` or the enum.
    :raises TypeError: It is of another type.
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
    raise TypeError(f"expected a {kind.__name__}, its name or its number, not {type(value).__name__}")


def members_of(values: Iterable[object] | None, kind: type[E]) -> list[E] | None:
    """As `member_of()`, for each; None stays None."""
    return None if values is None else [member_of(each, kind) for each in values]


def known_member(number: int, kind: type[E]) -> E:
    """The member with this number, UNKNOWN if there is none."""
    return next((each for each in kind if each.value == number and each.name != "ANY"), kind["UNKNOWN"])
