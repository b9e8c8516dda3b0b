import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import GenericAlias
from typing import Any, Generic, final

from typing_extensions import Self, TypeVar

from kafka_native._native.consumer_core import ConsumerCore
from kafka_native._native.delivery_core import DeliveryCore
from kafka_native._native.engine import Engine
from kafka_native._native.message import Message
from kafka_native.errors import KafkaError

_T = TypeVar("_T", default=Message)

@final
class Turns:
    def is_over(self) -> bool: ...
    def begin(self) -> None: ...

@final
class WakeupFd:
    def __new__(cls, engine: Engine, deliveries: bool) -> Self: ...
    def fileno(self) -> int: ...
    def clear(self) -> None: ...
    def close(self) -> None: ...
    @property
    def gone(self) -> bool: ...

@final
class MessageSource:
    turns: Turns
    held: bool
    def __init__(self, core: ConsumerCore) -> None: ...
    def quick(self) -> Message | None: ...
    def one(self) -> Message | None: ...
    def fill(self, into: list[Message], count_max: int) -> None: ...
    def give_back(self, messages: list[Message]) -> None: ...
    @property
    def closed(self) -> bool: ...
    def check(self) -> None: ...
    @property
    def default_max(self) -> int: ...
    def fatal(self) -> BaseException | None: ...
    def exception_of(self, error: KafkaError) -> BaseException | None: ...
    def begin(self) -> None: ...
    def end(self) -> None: ...
    def touch(self) -> None: ...
    def hold(self, more: int) -> None: ...

def flush_begin(core: DeliveryCore) -> None: ...
def flush_end(core: DeliveryCore) -> None: ...

@final
class Delivery(Generic[_T]):
    """The awaitable report of one message: the delivered Message, or KafkaException.

    The result of `AIOProducer.produce_arrow()` is the ArrowReport of its rows.
    It has all methods of an `asyncio.Future` that readers use, at a fraction of the cost.
    `asyncio.gather()`, `wait()` and similar functions accept it. Any number of tasks may await it.
    A cancelled task doesn't cancel it for the others, unlike a Future. `cancel()` does, but the
    message is sent all the same. A failure that nothing retrieves goes to the loop's exception
    handler.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, exception_of: Callable[[KafkaError], BaseException]
    ) -> None: ...
    @classmethod
    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    def __call__(self, error: KafkaError | None, message: _T) -> None: ...
    def __await__(self) -> Generator[Any, None, _T]: ...
    def __iter__(self) -> Generator[Any, None, _T]: ...
    def result(self) -> _T:
        """Return the Message.

        Raises KafkaException, or CancelledError and InvalidStateError like a Future.
        """
    def exception(self) -> BaseException | None:
        """Return the KafkaException, or None if the message was delivered."""
    def done(self) -> bool:
        """Return whether there is a report, or it was cancelled."""
    def cancel(self, msg: object = ...) -> bool:
        """Cancel the report. Returns False if it exists already."""
    def cancelled(self) -> bool:
        """Return whether `cancel()` was called before there was a report."""
    def add_done_callback(
        self, function: Callable[[Delivery[_T]], object], *, context: Context | None = ...
    ) -> None:
        """Make the loop call ``function(self)`` once there is a report."""
    def remove_done_callback(self, function: Callable[[Delivery[_T]], object]) -> int:
        """Remove a callback, and return how often it was there."""
    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop in which the message was produced."""

@final
class DeliveryOutcome:
    def __await__(self) -> Generator[Any]: ...
    def __next__(self) -> Any: ...

class AIOProducerCore:
    _queue: Callable[..., None]
    _loop: asyncio.AbstractEventLoop | None
    _exception_of: Callable[[KafkaError], BaseException]
    _slow: bool
    _turns: Turns
    def produce(
        self,
        topic: str,
        value: Any = ...,
        key: Any = ...,
        partition: int = ...,
        callback: Callable[[KafkaError | None, Message], object] | None = ...,
        on_delivery: Callable[[KafkaError | None, Message], object] | None = ...,
        timestamp: int = ...,
        headers: Any = ...,
    ) -> Coroutine[Any, Any, Delivery]: ...

@final
class ProduceCall:
    def __await__(self) -> Generator[Any, None, Delivery]: ...
    def __iter__(self) -> Generator[Any, None, Delivery]: ...
    def __next__(self) -> Any: ...
    def send(self, value: Any) -> Any: ...
    def throw(self, *args: Any) -> Any: ...
    def close(self) -> None: ...
