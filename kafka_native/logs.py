"""A client's log: a bounded queue, and a log thread that passes its lines to the logger.

A handler may be slow or block forever. It must not delay heartbeats, deliveries or produce(). So
each thread of the client puts its lines into the queue and continues. The log thread takes the
lines from the queue. A line starts it, and it ends after a minute without lines, because an outage
would leave a thread for each client. With ``log.queue``, the application's poll() takes the lines
instead. If the queue is full, the client drops lines and logs how many it dropped.

A fork waits until no log thread is inside a handler. Otherwise the child would inherit the lock of
stderr from a thread that doesn't exist there. The child would hang as soon as it writes to stderr
or exits.

Thread: `Log` and `Logs.say()` any, including finalisers. They never wait.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
import weakref
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from kafka_native._native.engine import fork_count
from kafka_native._native.enums import LOG_CONTEXTS
from kafka_native.cleaning import printable
from kafka_native.threads import (
    Empty,
    RLock,
    RLockType,
    SimpleQueue,
    Thread,
    current_name,
    get_ident,
)

ERROR, WARNING, INFO, DEBUG = 3, 4, 6, 7
"""The numbers of syslog, as in ``log_level``."""

LEVELS: Final = (
    *(logging.CRITICAL,) * 3,
    logging.ERROR,
    logging.WARNING,
    logging.INFO,
    logging.INFO,
    logging.DEBUG,
)
"""The level of Python's logging for each number of syslog, as in confluent_kafka."""

DROPPED: Final = "%d log lines were dropped because the log queue was full"
LINES_MAX: Final = 10_000
IDLE_S: Final = 60.0
"""The log thread ends after so long without a line."""
END_S: Final = 2.0
"""How long close() waits for a handler that blocks."""
FORK_S: Final = 1.0
"""How long a fork waits for all handlers together."""


class Line(NamedTuple):
    """One line of the log."""

    level: int
    context: str
    text: str
    thread: str
    created: float
    """Unix time in seconds."""
    error: BaseException | None = None


Sink = Callable[[str, Line], None]
"""Passes a line to the user's logger. The first argument is the client's name."""


class Logger(Protocol):
    """The methods of a `Log` that the client uses. A logging.Logger has them, too."""

    def debug(self, text: str, /, *args: object) -> None:
        """Logs a line if ``debug`` names the context."""

    def info(self, text: str, /, *args: object) -> None:
        """Logs an event that users want to know about."""

    def warning(self, text: str, /, *args: object, exc_info: bool = False) -> None:
        """Logs a problem that the client handles by itself."""

    def error(self, text: str, /, *args: object) -> None:
        """Logs an error that needs the user's attention."""

    def exception(self, text: str, /, *args: object) -> None:
        """Logs an error together with the exception that is being handled."""


class Log:
    """One context of a client's log."""

    __slots__ = ("_context", "_logs", "on")

    def __init__(self, logs: Logs, context: str, on: bool) -> None:
        """``on``: whether `debug()` logs. Check it before you compute expensive arguments."""
        self.on = on
        self._logs = logs
        self._context = context

    def debug(self, text: str, /, *args: object) -> None:
        """Logs a line if ``debug`` names this context."""
        if self.on:
            self._logs.say(DEBUG, self._context, text, args)

    def info(self, text: str, /, *args: object) -> None:
        """Logs a line, regardless of ``debug``."""
        self._logs.say(INFO, self._context, text, args)

    def warning(self, text: str, /, *args: object, exc_info: bool = False) -> None:
        """Logs a problem that the client handles by itself.

        ``exc_info``: log the exception that is being handled, too.
        """
        self._logs.say(WARNING, self._context, text, args, sys.exc_info()[1] if exc_info else None)

    def error(self, text: str, /, *args: object) -> None:
        """Logs an error that needs the user's attention."""
        self._logs.say(ERROR, self._context, text, args)

    def exception(self, text: str, /, *args: object) -> None:
        """Logs an error together with the exception that is being handled."""
        self._logs.say(ERROR, self._context, text, args, sys.exc_info()[1])


class Logs:
    """The log of one client, with all its contexts."""

    def __init__(
        self,
        name: str,
        sink: Sink,
        *,
        contexts: Collection[str] = (),
        level: int = INFO,
        call_back: Callable[[Callable[[], None]], None] | None = None,
        lines_max: int = LINES_MAX,
        host: Logs | None = None,
    ) -> None:
        """Makes the log of a client.

        :param contexts: The contexts whose debug lines the client logs.
        :param level: The value of ``log_level``. With contexts, the client logs every level.
        :param call_back: Makes the application's poll() call a function. None: use a log thread.
        :param host: The log whose queue and thread (or poll()) this log uses.
        """
        self.name = name
        self._host = host
        self.contexts = frozenset(contexts)
        self._sink = sink
        self._level = DEBUG if contexts else level
        self._call_back = call_back
        self._lines_max = lines_max
        self._lines: _Queue = SimpleQueue()  # put() may be called from a finaliser
        self._lock = RLock()  # Also taken in finalisers; guards the fields below
        self._thread: Thread | None = None
        # Held by the log thread inside a handler. A handler may fork, so the lock is reentrant.
        self._handler_lock = RLock()
        self._announced = False
        self._ended = False
        self._fork_count = fork_count()
        self._dropped = 0
        self._failing = False
        self._logs = {context: Log(self, context, context in contexts) for context in LOG_CONTEXTS}

    def __getitem__(self, context: str) -> Log:
        """The log of one context."""
        return self._logs[context]

    # --- any thread ---

    def say(
        self,
        level: int,
        context: str,
        text: str,
        args: tuple[object, ...] = (),
        error: BaseException | None = None,
        *,
        thread: str | None = None,
        created: float | None = None,
    ) -> None:
        """Puts a line into the queue. The defaults are the current thread and the current time."""
        if level <= self._level and self._fork_count == fork_count():
            self._put(self._line(level, context, text, args, error, thread, created), 1)

    def say_dropped(self, count: int) -> None:
        """Logs that this number of lines was dropped before they reached the queue."""
        self._put(self._line(WARNING, "generic", DROPPED, (count,)), count)

    @staticmethod
    def _line(
        level: int,
        context: str,
        text: str,
        args: tuple[object, ...] = (),
        error: BaseException | None = None,
        thread: str | None = None,
        created: float | None = None,
    ) -> Line:
        return Line(
            level,
            context,
            printable(text % args if args else text),
            thread or current_name(),
            time.time() if created is None else created,
            error,
        )

    def _put(self, line: Line, line_count: int) -> None:
        # A closed role's lines go the same way: the thread that writes them may be the host's
        (self._host or self)._put_for(self, line, line_count)

    def _put_for(self, logs: Logs, line: Line, line_count: int) -> None:
        """Queues a line of this log, or of one that shares the queue."""
        if self._ended:
            logs._report(line)  # On the thread that closes the client, which may wait
        elif self._lines.qsize() >= self._lines_max:
            with self._lock:
                self._dropped += line_count
        else:
            self._lines.put((logs, line))
            self._wake_reader()

    def _wake_reader(self) -> None:
        """Makes poll() or the log thread take the queued lines."""
        if self._call_back is not None:
            if not self._announced:
                # First, because serve() resets the flag before it reads the queue
                self._announced = True
                self._call_back(self.serve)
        elif self._thread is None:
            with self._lock:
                if self._thread is None and not self._ended:
                    self._start()

    def _start(self) -> None:
        thread = Thread(
            partial(_report_each, self._lines, self._handler_lock, weakref.ref(self)),
            f"kafka-native log {self.name}",
        )
        try:
            thread.start()
        except RuntimeError:  # The interpreter is ending, or no more threads can be created
            self._report_all()
        else:
            self._thread = thread

    # --- poll() or the log thread ---

    def _may_rest(self) -> bool:
        """Return whether the log thread may end. The next line starts another one.

        First the thread is forgotten, then the queue is checked. `_wake_reader()` does the reverse,
        so no line waits without a thread.
        """
        with self._lock:
            thread, self._thread = self._thread, None
            if self._lines.empty() or self._thread is not None:  # A finaliser started another one
                return True
            self._thread = thread
            return False

    def serve(self) -> None:
        """Called by the application's poll(), with ``log.queue``.

        An exception of the logger propagates.
        """
        self._announced = False
        try:
            for _ in range(self._lines.qsize()):
                item = self._lines.get_nowait()
                if item is not None:
                    self._report_dropped()
                    logs, line = item
                    logs._sink(logs.name, line)
        except Empty:
            return  # The poll() of another thread took the line
        finally:
            if not self._lines.empty():
                self._wake_reader()

    def _report(self, line: Line) -> None:
        """Passes a line to the logger.

        An exception of the logger goes to stderr, once, as in logging.
        """
        try:
            self._report_dropped()
            self._sink(self.name, line)
            self._failing = False
        except BaseException:
            if not self._failing and logging.raiseExceptions and sys.stderr:
                sys.stderr.write(
                    f"--- {self.name}: the logger raised; not shown again until it works ---\n"
                )
                traceback.print_exc(file=sys.stderr)
            self._failing = True

    def _report_dropped(self) -> None:
        if not self._dropped:
            return
        with self._lock:
            count, self._dropped = self._dropped, 0
        self._sink(self.name, self._line(WARNING, "generic", DROPPED, (count,)))

    # --- the end ---

    def close(self) -> None:
        """Logs the queued lines and ends the thread.

        A logger that blocks delays this by `END_S` at most.
        """
        with self._lock:
            if self._ended:
                return
            self._ended = True
            thread = self._thread
        if thread is not None:
            self._lines.put(None)
            if not thread.is_current():
                thread.join(END_S)
        else:
            self._report_all()

    def _report_all(self) -> None:
        while not self._lines.empty():
            try:
                item = self._lines.get_nowait()
            except Empty:
                return
            if item is not None:
                item[0]._report(item[1])

    def __del__(self) -> None:
        """Makes the thread log the queued lines and end, if the client wasn't closed.

        The garbage collector may call this before the client's own finaliser. That finaliser closes
        the client and may log more lines: they go to a new queue and another thread. No other
        thread can put a line into this queue any more.
        """
        if self._thread is not None:
            lines, self._lines, self._thread = self._lines, SimpleQueue(), None
            lines.put(None)


_handler_locks: Final[set[RLockType]] = set()
"""The locks that log threads hold inside a handler. A fork takes all of them."""
_taken_locks: Final[dict[int, list[RLockType]]] = {}
"""The locks that a fork has taken, by the forking thread."""


def _before_fork() -> None:
    taken = _taken_locks[get_ident()] = []
    deadline = time.monotonic() + FORK_S
    locks = list(_handler_locks)  # One atomic copy: log threads start and end
    locks.sort(key=id)  # A fixed order, because two threads may fork at the same time
    taken.extend(
        lock for lock in locks if lock.acquire(timeout=max(0.0, deadline - time.monotonic()))
    )


def _after_fork() -> None:
    for lock in _taken_locks.pop(get_ident(), ()):
        lock.release()


def _after_fork_in_child() -> None:
    _after_fork()
    _handler_locks.clear()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
)


_Queue = SimpleQueue[tuple[Logs, Line] | None]
"""A line and its log. None ends the thread."""


def _report_each(lines: _Queue, handler_lock: RLockType, host: weakref.ReferenceType[Logs]) -> None:
    """Runs the log thread.

    While it waits it refers only to the queue and the lock, not to a client.
    """
    forks = fork_count()
    _handler_locks.add(handler_lock)
    while True:
        try:
            item = lines.get(timeout=IDLE_S)
        except Empty:
            if (idle := host()) is not None and idle._may_rest():
                break
            idle = None
            continue
        if item is None:
            break
        logs, line = item
        with handler_lock:
            logs._report(line)
        item = logs = line = None  # type: ignore[assignment]
        if fork_count() != forks:
            return  # The handler forked. In the child, nothing puts a line into this queue
    _handler_locks.discard(handler_lock)


def contexts_of(debug: str) -> frozenset[str]:
    """Return the contexts that a value of ``debug`` names."""
    named = {part.strip().lower() for part in debug.split(",")} - {""}
    return frozenset(LOG_CONTEXTS if "all" in named else named)


def mask_of(contexts: Iterable[str]) -> int:
    """Return the contexts as the engine's bit mask."""
    return sum(1 << LOG_CONTEXTS.index(context) for context in contexts)


# --- sinks ---


def root_of(client_id: str) -> str:
    """Return the name of the default logger. The loggers of the contexts are its children."""
    return f"kafka_native.{client_id}"


def default_sink(client_id: str, contexts: Collection[str], *, thread_names: bool) -> Sink:
    """Return a sink for Python's logging, with one logger per context.

    The loggers of ``contexts`` get the level DEBUG, unless they have a level.

    :param thread_names: Records have the name of the thread that logged the line.
    """
    root = root_of(client_id)
    for context in contexts:
        logger = logging.getLogger(f"{root}.{context}")
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.DEBUG)

    def sink(name: str, line: Line) -> None:
        logger = logging.getLogger(f"{root}.{line.context}")
        level = LEVELS[line.level]
        if not logger.isEnabledFor(level):
            return
        error = line.error
        cause = None if error is None else (type(error), error, error.__traceback__)
        record = logger.makeRecord(
            logger.name, level, __file__, 0, "%s: %s", (name, line.text), cause
        )
        record.relativeCreated += (line.created - record.created) * 1000
        record.created = line.created
        record.msecs = int(line.created % 1 * 1000) + 0.0
        if thread_names:
            record.threadName = line.thread
        logger.handle(record)

    return sink


def _whole(line: Line, thread_names: bool) -> str:
    """Return the text with the thread's name and the exception, which a LogRecord would have."""
    text = f"[thrd:{line.thread}]: {line.text}" if thread_names else line.text
    if line.error is None:
        return text
    return text + "\n" + "".join(traceback.format_exception(line.error)).rstrip()


def given_sink(logger: Any, *, thread_names: bool) -> Sink:
    """Return a sink for the user's ``logger``, which it calls as confluent_kafka does."""

    def sink(name: str, line: Line) -> None:
        logger.log(
            LEVELS[line.level], "%s [%s] %s", line.context.upper(), name, _whole(line, thread_names)
        )

    return sink


def callback_sink(log_cb: Callable[[str, int, str, str], object], *, thread_names: bool) -> Sink:
    """Return a sink for ``log_cb``, librdkafka's callback. It gets the client's name."""

    def sink(name: str, line: Line) -> None:
        log_cb(name, line.level, line.context.upper(), _whole(line, thread_names))

    return sink


QUIET: Final = Logs("", lambda name, line: None, level=-1)
"""A log that drops every line, for objects without a client."""
