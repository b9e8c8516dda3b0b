import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from types import GenericAlias
from typing import Any, Generic, final

from typing_extensions import TypeVar

from kafka_native._native.message import Message
from kafka_native.errors import KafkaError

_T = TypeVar("_T", default=Message)

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
    def __next__(self) -> Any: ...
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
