"""Calls as generators: they yield what has to be done, and a transport does it.

The synchronous and the asynchronous client share every call, retry and cache. They differ only in
the transport, which performs the steps.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Send:
    """Send an HTTP request. The result is a `Response`.

    `is_for_issuer` sends the request to the identity provider, so without the registry's
    certificates.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes | None = field(default=None, repr=False)
    is_for_issuer: bool = False


@dataclass(frozen=True)
class Sleep:
    """Wait for a number of seconds."""

    seconds: float


@dataclass(frozen=True)
class Ask:
    """Call a function of the application. An asynchronous transport also awaits its result."""

    function: Callable[[], Any]


@dataclass(frozen=True)
class Join:
    """Wait for the result of another caller's request."""

    future: Future[Any]


Step: TypeAlias = Send | Sleep | Ask | Join
Call: TypeAlias = Generator[Step, Any, T]


@dataclass(frozen=True)
class Response:
    """An HTTP answer whose body is complete."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status <= 299


class ConnectionFailed(Exception):
    """No complete answer arrived. The request may be sent again."""


class UnusableAnswer(Exception):
    """The answer is too large or encoded, or the request is none of HTTP. A retry is no help."""


def run(call: Generator[S, Any, T], perform: Callable[[S], Any]) -> T:
    """Perform the steps of a call and return its result."""
    outcome: Any = None
    failure: BaseException | None = None
    try:
        while True:
            try:
                step = call.send(outcome) if failure is None else call.throw(failure)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = failure = None
            try:
                outcome = perform(step)
            except BaseException as error:
                failure = error  # the call decides what to do with it
    finally:
        failure = None  # the error's traceback refers to this frame


async def run_async(call: Generator[S, Any, T], perform: Callable[[S], Awaitable[Any]]) -> T:
    """Perform the steps of a call and return its result."""
    outcome: Any = None
    failure: BaseException | None = None
    try:
        while True:
            try:
                step = call.send(outcome) if failure is None else call.throw(failure)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = failure = None
            try:
                outcome = await perform(step)
            except BaseException as error:
                failure = error  # the call decides what to do with it
    finally:
        failure = None  # the error's traceback refers to this frame


def ask(step: Ask) -> Any:
    """Call the application's function.

    :raises TypeError: It is a coroutine function.
    """
    found = step.function()
    if inspect.iscoroutine(found):
        found.close()
        raise TypeError("a coroutine function needs the asyncio client or strategy")
    return found


async def ask_async(step: Ask) -> Any:
    """Call the application's function. Await its result if need be."""
    found = step.function()
    return await found if inspect.isawaitable(found) else found
