"""A client's log: who has something to say hands it over and goes on; the logger is told on a thread of its own.

A handler may be slow, or wait for ever: that must not hold up heartbeats, deliveries or produce(). So lines are put
into a bounded queue. The log thread, which starts with the first line, takes them from there; with ``log.queue`` it is
the application's poll(). Lines that find the queue full are dropped, and how many they were is the next line.

A fork waits until no log thread is inside a handler: the child would find stderr's lock held by a thread that doesn't
exist, and hang when it writes there or exits.

Thread: `Log` and `Logs.say()` any, also a finaliser's; they never wait.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from kafka_native._native.engine import fork_count
from kafka_native._reference.client_properties import CONTEXTS as CONTEXTS
from kafka_native.cleaning import printable
from kafka_native.threads import Empty, RLock, SimpleQueue, Thread, current_name, get_ident

ERROR, WARNING, INFO, DEBUG = 3, 4, 6, 7
"""Syslog's numbers, as in ``log_level``."""

LEVELS: Final = (
    *(logging.CRITICAL,) * 3,
    logging.ERROR,
    logging.WARNING,
    logging.INFO,
    logging.INFO,
    logging.DEBUG,
)
"""What they are in Python's logging; the same as confluent_kafka's."""

DROPPED: Final = "%d lines of the log were dropped: they come faster than they are taken"
LINES_MAX: Final = 10_000
END_S: Final = 2.0
"""How long close() waits for a handler that doesn't come back."""
FORK_S: Final = 1.0
"""How long a fork does, in all."""


class Line(NamedTuple):
    """Something that was said."""

    level: int
    context: str
    text: str
    thread: str
    created: float
    """Unix time in seconds."""
    error: BaseException | None = None


Sink = Callable[[str, Line], None]
"""Takes a line of the client of this name to the user's logger."""


class Logger(Protocol):
    """What is asked of a `Log`; a logging.Logger has it, too."""

    def debug(self, text: str, /, *args: object) -> None:
        """Only said when the context is on."""

    def info(self, text: str, /, *args: object) -> None:
        """Logs an event that users want to know about."""

    def warning(self, text: str, /, *args: object, exc_info: bool = False) -> None:
        """Something is wrong, and is dealt with."""

    def error(self, text: str, /, *args: object) -> None:
        """Logs an error that needs the user's attention."""

    def exception(self, text: str, /, *args: object) -> None:
        """An error with the exception that is being handled."""


class Log:
    """One context of a client's log."""

    __slots__ = ("_context", "_logs", "on")

    def __init__(self, logs: Logs, context: str, on: bool) -> None:
        """``on``: `debug()` says something; the one test there is, to be made before arguments that cost anything."""
        self.on = on
        self._logs = logs
        self._context = context

    def debug(self, text: str, /, *args: object) -> None:
        """Said if ``debug`` names this context."""
        if self.on:
            self._logs.say(DEBUG, self._context, text, args)

    def info(self, text: str, /, *args: object) -> None:
        """Worth knowing, whatever ``debug`` says."""
        self._logs.say(INFO, self._context, text, args)

    def warning(self, text: str, /, *args: object, exc_info: bool = False) -> None:
        """Something is wrong, and is dealt with. ``exc_info``: with the exception that is being handled."""
        self._logs.say(WARNING, self._context, text, args, sys.exc_info()[1] if exc_info else None)

    def error(self, text: str, /, *args: object) -> None:
        """Logs an error that needs the user's attention."""
        self._logs.say(ERROR, self._context, text, args)

    def exception(self, text: str, /, *args: object) -> None:
        """An error with the exception that is being handled."""
        self._logs.say(ERROR, self._context, text, args, sys.exc_info()[1])


class Logs:
    """Everything that one client says."""

    def __init__(
        self,
        name: str,
        sink: Sink,
        *,
        contexts: Collection[str] = (),
        level: int = INFO,
        call_back: Callable[[Callable[[], None]], None] | None = None,
        lines_max: int = LINES_MAX,
    ) -> None:
        """``contexts``: those whose debug lines are said. ``level``: of ``log_level``; contexts raise it to all.

        ``call_back``: has the application's poll() call something; None: a thread of our own does it.
        """
        self.name = name
        self.contexts = frozenset(contexts)
        self._sink = sink
        self._level = DEBUG if contexts else level
        self._call_back = call_back
        self._lines_max = lines_max
        self._lines: _Queue = SimpleQueue()  # its put() may be called from a finaliser
        self._lock = RLock()  # likewise: guards what is below
        self._thread: Thread | None = None
        self._reporting = RLock()  # held by the log thread while it is in a handler, which may fork itself
        self._announced = False
        self._ended = False
        self._fork_count = fork_count()
        self._dropped = 0
        self._failing = False
        self._logs = {context: Log(self, context, context in contexts) for context in CONTEXTS}

    def __getitem__(self, context: str) -> Log:
        """The log of one context."""
        return self._logs[context]

    # --- anybody ---

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
        """Puts a line into the queue; without ``thread`` and ``created`` it is this one's and now."""
        if level <= self._level and self._fork_count == fork_count():
            self._put(self._line(level, context, text, args, error, thread, created), 1)

    def say_dropped(self, count: int) -> None:
        """So many lines found no room on their way here."""
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

    def _put(self, line: Line, stands_for: int) -> None:
        if self._ended:
            self._report(line)  # by the thread that closes the client, which may as well wait
        elif self._lines.qsize() >= self._lines_max:
            with self._lock:
                self._dropped += stands_for
        else:
            self._lines.put((self, line))
            self._see_to_it()

    def _see_to_it(self) -> None:
        """Somebody will take what is queued."""
        if self._call_back is not None:
            if not self._announced:
                self._announced = True  # before: serve() takes it back before it looks
                self._call_back(self.serve)
        elif self._thread is None:
            with self._lock:
                if self._thread is None and not self._ended:
                    self._start()

    def _start(self) -> None:
        thread = Thread(partial(_report_each, self._lines, self._reporting), f"kafka-native log {self.name}")
        try:
            thread.start()
        except RuntimeError:  # the interpreter is ending, or there can't be another thread
            self._notify_all()
        else:
            self._thread = thread

    # --- who tells the logger ---

    def serve(self) -> None:
        """The application's poll(), with ``log.queue``: what the logger raises comes out of it."""
        self._announced = False
        try:
            for _ in range(self._lines.qsize()):
                item = self._lines.get_nowait()
                if item is not None:
                    self._report_dropped()
                    self._sink(self.name, item[1])
        except Empty:
            return  # another thread's poll() has taken it
        finally:
            if not self._lines.empty():
                self._see_to_it()

    def _report(self, line: Line) -> None:
        """What the logger raises ends nothing; it is shown as logging shows what a handler raises, and once."""
        try:
            self._report_dropped()
            self._sink(self.name, line)
            self._failing = False
        except BaseException:
            if not self._failing and logging.raiseExceptions and sys.stderr:
                sys.stderr.write(f"--- {self.name}: the logger has raised; told once until it works again ---\n")
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
        """Tells what is queued and ends the thread; a logger that doesn't come back is waited for `END_S` only."""
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
            self._notify_all()

    def _notify_all(self) -> None:
        while not self._lines.empty():
            try:
                item = self._lines.get_nowait()
            except Empty:
                return
            if item is not None:
                self._report(item[1])

    def __del__(self) -> None:
        """Nobody has closed the client: the thread tells what is queued, and ends.

        The collector may call this before the client's own finaliser, which closes the client and has more to say: that
        is for another thread, with a queue of its own. Nobody else can be putting a line into this one.
        """
        if self._thread is not None:
            lines, self._lines, self._thread = self._lines, SimpleQueue(), None
            lines.put(None)


_reporting: Final[set[Any]] = set()
"""For each log thread, the lock that it holds while it is in a handler. A fork takes them all."""
_taken: Final[dict[int, list[Any]]] = {}
"""By the thread that forks."""


def _before_fork() -> None:
    taken = _taken[get_ident()] = []
    deadline = time.monotonic() + FORK_S
    locks = list(_reporting)  # at once: log threads come and go
    locks.sort(key=id)  # in one order: two threads may fork at once
    taken.extend(lock for lock in locks if lock.acquire(timeout=max(0.0, deadline - time.monotonic())))


def _after_fork() -> None:
    for lock in _taken.pop(get_ident(), ()):
        lock.release()


def _after_fork_in_child() -> None:
    _after_fork()
    _reporting.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)


_Queue = SimpleQueue[tuple[Logs, Line] | None]
"""A line, and whose it is; None ends the thread."""


def _report_each(lines: _Queue, telling: Any) -> None:
    """The log thread. While it sleeps it holds nothing but the queue and its lock, so it keeps no client alive."""
    forks = fork_count()
    _reporting.add(telling)
    while (item := lines.get()) is not None:
        logs, line = item
        with telling:
            logs._report(line)
        item = logs = line = None  # type: ignore[assignment]
        if fork_count() != forks:
            return  # the handler has forked: nobody will put a line into this queue
    _reporting.discard(telling)


def contexts_of(debug: str) -> frozenset[str]:
    """The contexts that a value of ``debug`` names."""
    named = {part.strip().lower() for part in debug.split(",")} - {""}
    return frozenset(CONTEXTS if "all" in named else named)


def mask_of(contexts: Iterable[str]) -> int:
    """The same as the engine has them: a bit each."""
    return sum(1 << CONTEXTS.index(context) for context in contexts)


# --- where lines go ---


def root_of(client_id: str) -> str:
    """The name of the default logger, whose children are the contexts'."""
    return f"kafka_native.{client_id}"


def default_sink(client_id: str, contexts: Collection[str], *, thread_names: bool) -> Sink:
    """Python's logging: one logger a context. Those of ``debug`` let debug lines pass, unless they have a level.

    ``thread_names``: records have the name of the thread that said it.
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
        record = logger.makeRecord(logger.name, level, __file__, 0, "%s: %s", (name, line.text), cause)
        record.relativeCreated += (line.created - record.created) * 1000
        record.created = line.created
        record.msecs = int(line.created % 1 * 1000) + 0.0
        if thread_names:
            record.threadName = line.thread
        logger.handle(record)

    return sink


def _whole(line: Line, thread_names: bool) -> str:
    """The text with what a logging.LogRecord would have beside it."""
    text = f"[thrd:{line.thread}]: {line.text}" if thread_names else line.text
    if line.error is None:
        return text
    return text + "\n" + "".join(traceback.format_exception(line.error)).rstrip()


def given_sink(logger: Any, *, thread_names: bool) -> Sink:
    """The user's ``logger``, called as confluent_kafka calls it."""

    def sink(name: str, line: Line) -> None:
        logger.log(LEVELS[line.level], "%s [%s] %s", line.context.upper(), name, _whole(line, thread_names))

    return sink


def callback_sink(log_cb: Callable[[str, int, str, str], object], *, thread_names: bool) -> Sink:
    """``log_cb``: librdkafka's callback, with the client's name where C has its handle."""

    def sink(name: str, line: Line) -> None:
        log_cb(name, line.level, line.context.upper(), _whole(line, thread_names))

    return sink


QUIET: Final = Logs("", lambda name, line: None, level=-1)
"""For what is used without a client."""
