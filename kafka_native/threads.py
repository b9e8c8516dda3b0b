"""Threads, locks and queues of the operating system, also where gevent or eventlet has patched the standard library.

A client's threads wait in C for what brokers say; a greenlet that did so would stop every other one. And they tell
greenlets of it from outside their hub, which gevent's and eventlet's locks and queues aren't all made for. So whatever
two threads of which one is ours share is from here. Who waits for it in a greenlet stops its hub meanwhile.

`_thread` is loaded a second time: its functions are replaced in the first, maybe before this module is imported, maybe
afterwards. Where nothing is patched, threads are `threading`'s, which debuggers and profilers see.

Thread: any.
"""

from __future__ import annotations

import importlib.util
import threading
import types
from _queue import Empty as Empty
from _queue import SimpleQueue as SimpleQueue
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final

__all__ = ["Condition", "Empty", "Event", "Lock", "RLock", "SimpleQueue", "Thread", "current_name", "new_future"]


def _unpatched() -> Any:
    spec = importlib.util.find_spec("_thread")
    if spec is None or spec.loader is None:
        raise ImportError("there is no _thread")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_system: Final = _unpatched()
_patched = importlib.import_module("_thread")
Lock: Final[Callable[[], Any]] = _system.allocate_lock
RLock: Final[Callable[[], Any]] = _system.RLock
get_ident: Final[Callable[[], int]] = _system.get_ident
_names: Final[dict[int, str]] = {}
"""Of threads that `threading` doesn't know."""


def is_patched() -> bool:
    """Whether threads of the standard library are greenlets."""
    return not isinstance(_patched.start_new_thread, types.BuiltinFunctionType)


def current_name() -> str:
    """The name of the thread, or greenlet, that asks."""
    return _names.get(get_ident()) or threading.current_thread().name


class Thread:
    """A daemon thread that calls ``target``."""

    def __init__(self, target: Callable[[], object], name: str) -> None:
        """Not running yet."""
        self.name = name
        self._target = target
        self._known: threading.Thread | None = None
        self._running = Lock()
        self._ident: int | None = None
        self.started = False

    def start(self) -> None:
        """Once. RuntimeError: there can't be another thread."""
        if is_patched():
            self._running.acquire()
            try:
                _system.start_new_thread(self._run_unknown, ())
            except RuntimeError:
                self._running.release()
                raise
        else:
            self._known = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._known.start()
        self.started = True

    def _run(self) -> None:
        self._ident = get_ident()
        try:
            self._target()
        finally:
            self._ident = None  # another thread may have it next

    def _run_unknown(self) -> None:
        _names[get_ident()] = self.name
        try:
            self._run()
        finally:
            del _names[get_ident()]
            self._running.release()

    def join(self, timeout_s: float) -> None:
        """Waits until it has ended, for so long."""
        if self._known is not None:
            self._known.join(timeout_s)
        elif self._running.acquire(timeout=timeout_s):
            self._running.release()

    def is_alive(self) -> bool:
        """Whether it has been started and hasn't ended."""
        return self._running.locked() if self._known is None else self._known.is_alive()

    def is_current(self) -> bool:
        """Whether it is the caller's."""
        return self._ident == get_ident()


class Event:
    """Something that happens once, in one thread."""

    def __init__(self) -> None:
        """It hasn't happened."""
        self._happened = False
        self._lock = Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Reports that the event has happened."""
        if not self._happened:
            self._happened = True
            self._lock.release()

    def is_set(self) -> bool:
        """Whether the event has happened."""
        return self._happened

    def wait(self, timeout_s: float) -> bool:
        """Waits for it, for so long."""
        if self._lock.acquire(timeout=timeout_s):
            self._lock.release()
        return self._happened


class Condition:
    """What a Future needs of `threading.Condition`."""

    def __init__(self) -> None:
        """With a lock of its own."""
        self._lock = RLock()
        self._waiting: deque[Any] = deque()

    def __enter__(self) -> bool:
        """Takes the lock."""
        return bool(self._lock.acquire())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives it back."""
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for `notify_all()` without the lock, which the caller has taken once."""
        waiter = Lock()
        waiter.acquire()
        self._waiting.append(waiter)
        self._lock.release()
        try:
            return bool(waiter.acquire(timeout=-1 if timeout is None else max(timeout, 0.0)))
        finally:
            self._lock.acquire()
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def notify_all(self) -> None:
        """Wakes those who wait; the caller has the lock."""
        while self._waiting:
            self._waiting.popleft().release()


def new_future(kind: type[Future[Any]] = Future) -> Future[Any]:
    """A Future that a thread completes and a greenlet may wait for."""
    future = kind()
    if is_patched():
        future._condition = Condition()  # type: ignore[assignment]  # its own would be of greenlets' locks
    return future
