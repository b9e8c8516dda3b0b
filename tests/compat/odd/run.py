"""Makes calls with one library: ``python -m tests.compat.odd.run LIBRARY SERVERS THREADS NUMBER``.

It reads ids of cases from stdin, one a line. It writes a line when it begins a case, and one with
the outcome. Calls that take too long go on in their thread while another one goes on with the
cases.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import os
import queue
import sys
import threading
import time
import warnings
from typing import Any

from tests.compat.odd import clients
from tests.compat.odd.calls import Case, cases
from tests.compat.odd.plain import outcome, plain
from tests.compat.odd.values import IN_TRANSACTIONS, READ, WRITTEN, Env

SOON_S = 0.3
LIMIT_S = 1.6
SETUP_LIMIT_S = 40.0
CLIENTS_MAX = 250
"""The number of clients after which the process ends, and the parent starts another one."""
_written = threading.Lock()
_groups = itertools.count()


def write(**line: Any) -> None:
    """Write a line to the parent."""
    data = json.dumps(line).encode() + b"\n"
    with _written:
        while data:
            data = data[os.write(1, data) :]


class Current:
    """The case that a thread works on."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.begun = 0.0
        """When the call was made."""
        self.made = time.monotonic()
        self.done = False


class Worker(threading.Thread):
    """Takes cases from the queue until one takes too long."""

    def __init__(self, todo: queue.SimpleQueue[str], lib: Any, servers: str, run: str) -> None:
        super().__init__(daemon=True)
        self.todo = todo
        self.env = Env(lib, servers, READ, f"{run}-{next(_groups)}")
        self.current: Current | None = None
        self.lock = threading.Lock()
        self.kept: dict[tuple[str, str], Any] = {}
        self.ended = False

    def run(self) -> None:
        while not self.ended:
            try:
                case = cases()[self.todo.get_nowait()]
            except queue.Empty:
                break
            current = Current(case)
            with self.lock:
                self.current = current
            write(begun=case.id)
            try:
                result = self.result(current)
            except BaseException as error:
                result = {"raises": ["late", type(error).__name__], "text": str(error)[:200]}
            with self.lock:
                if self.ended:
                    return
                current.done = True
                write(id=case.id, outcome=result)
        with self.lock:
            self.current = None
            self.ended = True

    def result(self, current: Current) -> dict[str, Any]:
        case = current.case
        topic = WRITTEN if "Producer" in case.subject.name else READ
        topic = IN_TRANSACTIONS if case.state == "transaction" else topic
        self.env = self.env._replace(topic=topic)
        if case.subject.name.startswith("AIO"):
            return asyncio.run(self.asynchronous(current))
        reports: list[Any] = []
        key = (case.subject.name, case.state)
        used: Any = None
        if not (case.call.configures or case.call.name == "__init__"):
            used = self.kept.pop(key, None) or _Box(self.prepared(case))
        call = self.bound(case, used and used.content, reports)
        if isinstance(call, dict):
            return call
        result = self.timed(current, call)
        self.describe(result)
        if "returns" in result and used:
            after = outcome(
                self.env,
                lambda: plain(self.env, clients.effects(used.content, self.env, case, reports)),
            )
            result["after"] = after.get("returns", after)
            result["places"] = [places_of(self.env, message) for _, message in reports]
        if used and clients.is_client(case.subject):
            if case.state in ("closed", "never") or clients.is_as_before(case.call, result):
                self.kept[key] = used
            else:
                _leaked.append(used)
        return result

    def prepared(self, case: Case) -> Any:
        if clients.is_client(case.subject):
            _count()
        fresh = self.env._replace(group=f"{self.env.group}-{next(_groups)}")
        return clients.made(fresh, case.subject, case.state)

    def bound(self, case: Case, used: Any, reports: list[Any]) -> Any:
        """Return the call with its arguments."""
        env = self.env
        if case.call.configures:
            conf, cls = clients.configured(env, case)
            _count()
            return lambda: cls(conf)
        positional = [make(env) for make in case.positional]
        named = {name: make(env) for name, make in case.named}
        if case.call.operator:
            function = case.call.operator
            return lambda: function(used, *positional, *named.values())
        if case.call.name == "__init__":
            cls = clients.class_of(env, case.subject.name)
            return lambda: cls(*positional, **named)
        if case.call.name in ("produce", "produce_batch") and "Producer" in case.subject.name:
            given = {"callback", "on_delivery"} & named.keys()
            if not given and not positional and case.state not in ("closed", "never"):
                named["on_delivery"] = lambda error, message: reports.append([error, message])
        try:
            method = getattr(used, case.call.name.partition(" ")[0])
        except AttributeError:
            return {"raises": ["no such method"]}
        return lambda: method(*positional, **named)

    def timed(self, current: Current, call: Any) -> dict[str, Any]:
        current.begun = time.monotonic()
        result = outcome(self.env, call)
        result["seconds"] = round(time.monotonic() - current.begun, 3)
        return result

    def describe(self, result: dict[str, Any]) -> None:
        if "returns" in result:
            made = outcome(self.env, lambda: plain(self.env, result["returns"]))
            if hasattr(result["returns"], "list_topics"):
                _leaked.append(result["returns"])
            result["returns"] = made.get("returns", made)

    async def entered(self, case: Case) -> Any:
        """Return asyncio's client in the state of a case."""
        if case.state != "closed":
            return clients.client(self.env, case.subject, case.state)
        used = clients.client(self.env, case.subject, "fresh")
        await used.close()
        return used

    async def asynchronous(self, current: Current) -> dict[str, Any]:
        case = current.case
        making = case.call.name == "__init__"
        used = None if making else await self.entered(case)
        _count()
        call = self.bound(case, used, [])
        if isinstance(call, dict):
            return call
        current.begun = time.monotonic()
        try:
            found = call()
            while asyncio.iscoroutine(found) or asyncio.isfuture(found):
                found = await found
            result: dict[str, Any] = {"returns": found}
        except BaseException as error:
            failed = error
            result = outcome(self.env, lambda: _raise(failed))
        result["seconds"] = round(time.monotonic() - current.begun, 3)
        self.describe(result)
        _leaked.append(used)
        return result


def places_of(env: Env, message: Any) -> list[int] | None:
    """Return the partition and the offset of a message that was written to the topic."""
    written = message.topic() == WRITTEN and message.error() is None
    return [message.partition(), message.offset()] if written else None


def _raise(error: BaseException) -> None:
    raise error


class _Box:
    """A client, which may be false."""

    def __init__(self, content: Any) -> None:
        self.content = content


_leaked: list[Any] = []
_clients = itertools.count(1)
_full = threading.Event()


def _count() -> None:
    if next(_clients) >= CLIENTS_MAX:
        _full.set()


def watch(workers: list[Worker], index: int) -> bool:
    """Give up on a call that takes too long. Return whether its thread is to be replaced."""
    worker = workers[index]
    with worker.lock:
        current = worker.current
        if worker.ended or current is None or current.done:
            return False
        now = time.monotonic()
        late = (
            now - current.begun > LIMIT_S if current.begun else (now - current.made > SETUP_LIMIT_S)
        )
        if late:
            worker.ended = True
            kind = "blocks" if current.begun else "setup blocks"
            write(id=current.case.id, outcome={"raises": [kind]})
        return late


def main(name: str, servers: str, threads: int, run: str) -> None:
    """Make the calls of the cases on stdin."""
    warnings.simplefilter("ignore")
    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    for line in sys.stdin:
        todo.put(line.rstrip("\n"))
    lib = importlib.import_module(name)
    for module in ("admin", "aio", "cimpl", "serialization"):
        importlib.import_module(f"{name}.{module}")
    workers = [Worker(todo, lib, servers, run) for _ in range(threads)]
    for each in workers:
        each.start()
    while not all(each.ended for each in workers):
        time.sleep(0.01)
        for index in range(len(workers)):
            if watch(workers, index):
                workers[index] = Worker(todo, lib, servers, run)
                workers[index].start()
        if _full.is_set():
            while not todo.empty():
                todo.get()
    write(ended=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
