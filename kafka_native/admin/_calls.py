"""How AdminClient makes calls: its thread, the futures, their time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kafka_native import deadlines
from kafka_native._native.engine import exits_elsewhere
from kafka_native.admin._checks import checked_timeout, wire_ms
from kafka_native.client import HANDLE_CLOSED_TEXT, Client
from kafka_native.config import parse
from kafka_native.control.main_thread import end_of
from kafka_native.control.operations import REQUEST_MAX_BYTES, UNANSWERED, Operation, Settle, Steps, size_of
from kafka_native.control.settings import connection_settings, consumer_settings, producer_settings
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.protocol import ProtocolError
from kafka_native.protocol.schema import Request
from kafka_native.statistics import ClientMetrics
from kafka_native.threads import Empty, SimpleQueue, new_future

if TYPE_CHECKING:
    from typing_extensions import Self

K = TypeVar("K", bound=Hashable)
StepsOf: TypeAlias = Callable[[Callable[[list[Any]], Request], dict[Any, Any], Settle, Operation], Steps[None]]

CLOSED_TEXT = "AdminClient has been closed"


class Handle(Client):
    """A client whose callbacks wait for `AdminClient.poll()`."""

    def __init__(self, *args: Any) -> None:
        """See `Client`."""
        self.callbacks: SimpleQueue[Callable[[], Any]] = SimpleQueue()
        super().__init__(*args)

    def call_back(self, callback: Callable[[], Any]) -> None:
        """Control thread: it is due."""
        self.callbacks.put(callback)


class Calls:
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

    def _begin(
        self, items: list[tuple[K, Any]], make: Callable[[list[Any]], Request], steps_of: StepsOf, timeout_s: float
    ) -> dict[K, Future[Any]]:
        """A future a key, and the operation that completes them.

        :param items: Keys, and what they stand for in a request.
        :param make: The request for some of these.
        :param steps_of: The operation: ``steps_of(make, {key: item}, settle, operation)``; ``make`` is given keys.
        """
        self._check_open()
        futures: dict[K, Future[Any]] = {key: new_future(deadlines.Future) for key, _ in items}
        for future in futures.values():
            future.set_running_or_notify_cancel()  # from here on it can't be cancelled
        counts = Counter(key for key, _ in items)
        wanted: dict[K, Any] = {}
        for key, item in items:
            refused = _refusal(make, item, counts[key])
            if refused is None:
                wanted[key] = item
            else:
                _complete(futures[key], refused)

        def settle(key: K, outcome: Any) -> None:
            _complete(futures[key], outcome)

        def end(error: BaseException) -> None:
            for future in futures.values():
                _complete(future, error)

        def make_of(keys: list[K]) -> Request:
            return make([wanted[key] for key in keys])

        def steps(operation: Operation) -> Steps[None]:
            yield from steps_of(make_of, wanted, settle, operation)
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


def _refusal(make: Callable[[list[Any]], Request], item: Any, count: int) -> KafkaError | None:
    """Why an item can't be sent: it alone fails then."""
    if count > 1:
        return KafkaError(KafkaError._INVALID_ARG, "it is there more than once: there is one future for all")
    if isinstance(item, KafkaError):
        return item
    try:
        size = size_of(make([item]))
    except ProtocolError as error:
        return KafkaError(KafkaError._INVALID_ARG, str(error))
    if size > REQUEST_MAX_BYTES:
        return KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, f"a request of {size} bytes, brokers take {REQUEST_MAX_BYTES}")
    return None


def _complete(future: Future[Any], outcome: Any) -> None:
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
