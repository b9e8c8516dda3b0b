"""Threads, locks and queues of the operating system, even if gevent or eventlet patched the stdlib.

A client's threads wait in C for the brokers. A greenlet that did so would block all other
greenlets. The client's threads also wake greenlets from outside the greenlets' hub. Not all locks
and queues of gevent and eventlet allow that. So everything that a client's thread shares with
another thread comes from this module. A greenlet that waits for such an object blocks its hub
meanwhile.

The module loads `_thread` a second time. gevent and eventlet replace the functions of the first
copy, before or after the import of this module. If nothing is patched, threads are
`threading.Thread` objects, which debuggers and profilers know.

Thread: any.
"""

from __future__ import annotations

import importlib.util
import threading
import types
from _queue import Empty as Empty
from _queue import SimpleQueue as SimpleQueue
from _thread import LockType as LockType
from _thread import RLock as RLockType
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final

__all__ = [
    "Condition",
    "Empty",
    "Event",
    "Lock",
    "LockType",
    "RLock",
    "RLockType",
    "SimpleQueue",
    "Thread",
    "current_name",
    "new_future",
]


def _unpatched() -> Any:
    spec = importlib.util.find_spec("_thread")
    if spec is None or spec.loader is None:
        raise ImportError("there is no _thread")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_system: Final = _unpatched()
_patched = importlib.import_module("_thread")
Lock: Final[Callable[[], LockType]] = _system.allocate_lock
RLock: Final[Callable[[], RLockType]] = _system.RLock
get_ident: Final[Callable[[], int]] = _system.get_ident
_names: Final[dict[int, str]] = {}
"""The names of threads that `threading` doesn't know."""


def is_patched() -> bool:
    """Return True if the threads of the standard library are greenlets."""
    return not isinstance(_patched.start_new_thread, types.BuiltinFunctionType)


def current_name() -> str:
    """Return the name of the current thread or greenlet."""
    return _names.get(get_ident()) or threading.current_thread().name


class Thread:
    """A daemon thread that calls ``target``."""

    def __init__(self, target: Callable[[], object], name: str) -> None:
        """Make a thread that isn't started."""
        self.name = name
        self._target = target
        self._stdlib_thread: threading.Thread | None = None
        self._running = Lock()
        self._ident: int | None = None
        self.started = False

    def start(self) -> None:
        """Start the thread. RuntimeError: the system can't create another thread."""
        if is_patched():
            self._running.acquire()
            try:
                _system.start_new_thread(self._run_unregistered, ())
            except RuntimeError:
                self._running.release()
                raise
        else:
            self._stdlib_thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._stdlib_thread.start()
        self.started = True

    def _run(self) -> None:
        self._ident = get_ident()
        try:
            self._target()
        finally:
            self._ident = None  # Another thread may get the same id next

    def _run_unregistered(self) -> None:
        _names[get_ident()] = self.name
        try:
            self._run()
        finally:
            del _names[get_ident()]
            self._running.release()

    def join(self, timeout_s: float) -> None:
        """Wait until the thread has ended, but at most ``timeout_s`` seconds."""
        if self._stdlib_thread is not None:
            self._stdlib_thread.join(timeout_s)
        elif self._running.acquire(timeout=timeout_s):
            self._running.release()

    def is_alive(self) -> bool:
        """Return True if the thread was started and hasn't ended."""
        return (
            self._running.locked()
            if self._stdlib_thread is None
            else self._stdlib_thread.is_alive()
        )

    def is_current(self) -> bool:
        """Return True if the caller runs on this thread."""
        return self._ident == get_ident()


class Event:
    """An event that one thread sets once, and that others wait for."""

    def __init__(self) -> None:
        """Make an event that isn't set."""
        self._happened = False
        self._lock = Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Set the event and wake the waiting threads."""
        if not self._happened:
            self._happened = True
            self._lock.release()

    def is_set(self) -> bool:
        """Return True if the event is set."""
        return self._happened

    def wait(self, timeout_s: float) -> bool:
        """Wait for the event, but at most ``timeout_s`` seconds. Return True if it is set."""
        if self._lock.acquire(timeout=timeout_s):
            self._lock.release()
        return self._happened


class Condition:
    """The part of `threading.Condition` that a Future uses."""

    def __init__(self) -> None:
        """Make a condition with its own lock."""
        self._lock = RLock()
        self._waiting: deque[LockType] = deque()

    def __enter__(self) -> bool:
        """Acquire the lock."""
        return bool(self._lock.acquire())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the lock."""
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait for `notify_all()` and acquire the lock again.

        The caller has acquired the lock exactly once.
        """
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
        """Wake the waiting threads. The caller holds the lock."""
        while self._waiting:
            self._waiting.popleft().release()


def new_future(kind: type[Future[Any]] = Future) -> Future[Any]:
    """Return a Future that a thread completes and a greenlet may wait for."""
    future = kind()
    if is_patched():
        future._condition = Condition()  # type: ignore[assignment]  # its own has greenlet locks
    return future
