"""Members of the group in one process, each in a thread. A member logs every callback and message
before it commits anything.

    python -m tests.broker.chaos.member < settings

The first line has the settings of the first member. Then commands follow, one a line: "join
SETTINGS" adds a member, and "NAME leave", "NAME stall SECONDS", "NAME resubscribe" are for one
member. The process ends when all its members have left. A log line is one write of one JSON object,
so a killed member leaves at most half a line.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.broker import payload

BATCH = 500
WAIT_S = 0.1
COMMIT_EVERY_S = 0.3
LINE = sys.stdin
MODULES = {"ours": "kafka_native", "confluent": "confluent_kafka"}


@dataclass
class Settings:
    """The settings of a member.

    ``take``: poll or consume. ``commits``: sync, async or store.
    """

    name: str
    log: str
    client: str
    conf: dict[str, Any]
    topics: list[str]
    take: str = "consume"
    commits: str = "sync"
    bug: str = ""


class Log:
    """Appends to a file, one write a line, without a buffer in this process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __call__(self, event: str, **values: Any) -> None:
        line = (
            json.dumps({"t": time.time(), "e": event, **values}, separators=(",", ":")).encode()
            + b"\n"
        )
        assert os.write(self._file, line) == len(line)


def keys(partitions: Iterable[Any]) -> list[tuple[str, int]]:
    """Return TopicPartitions of either client as pairs."""
    return [(each.topic, each.partition) for each in partitions]


class Member:
    """A consumer in a loop: take, log, commit."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.log = Log(Path(settings.log))
        self._module = importlib.import_module(MODULES[settings.client])
        self._consumer = self._module.Consumer({**settings.conf, "on_commit": self._on_commit})
        self._next: dict[
            tuple[str, int], int
        ] = {}  # offsets to commit that the client doesn't have yet
        self._handed: dict[
            tuple[str, int], int
        ] = {}  # the last offsets that the client got, for each owned partition
        self._commit_at = 0.0
        self._kept: set[tuple[str, int]] = set()
        self._taken = 0
        self._commits = 0

    # --- the group's callbacks ---

    def subscribe(self) -> None:
        self._consumer.subscribe(
            self._settings.topics,
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    def _on_assign(self, _: Any, partitions: list[Any]) -> None:
        self.log("assigned", p=keys(partitions))
        for key in keys(partitions):
            self._next.pop(key, None)
            self._handed.pop(key, None)

    def _on_revoke(self, _: Any, partitions: list[Any]) -> None:
        if self._settings.bug == "hang":
            time.sleep(1e6)
        if self._settings.commits != "store":  # else the client commits stored offsets
            self._commit(keys(partitions), wait=True)
        self._forget(keys(partitions))
        given_up = keys(partitions)
        if self._settings.bug == "keep":
            given_up = given_up[1:]
        self.log("revoked", p=given_up)

    def _on_lost(self, _: Any, partitions: list[Any]) -> None:
        self._forget(keys(partitions))
        self.log("lost", p=keys(partitions))

    def _forget(self, gone: Iterable[tuple[str, int]]) -> None:
        for key in gone:
            self._next.pop(key, None)
            self._handed.pop(key, None)

    # --- messages ---

    def step(self) -> None:
        """Take the available messages, after a short wait at most."""
        if self._settings.take == "poll":
            message = self._consumer.poll(WAIT_S)
            messages = [] if message is None else [message]
            while message is not None and len(messages) < BATCH:  # only queued messages
                message = self._consumer.poll(0)
                if message is not None:
                    messages.append(message)
        else:
            messages = self._consumer.consume(BATCH, WAIT_S)
        self._process([message for message in messages if self._good(message)])
        now = time.monotonic()
        if now >= self._commit_at and self._next:
            self._commit_at = now + COMMIT_EVERY_S
            self._commit(list(self._next), wait=self._settings.commits == "sync")

    def _good(self, message: Any) -> bool:
        error = message.error()
        if error is not None:
            self.log("error", text=f"{error.name()}: {error.str()}", fatal=bool(error.fatal()))
        return error is None

    def _process(self, messages: list[Any]) -> None:
        runs: list[list[Any]] = []  # topic, partition, first offset, numbers
        for message in messages:
            key, offset = (message.topic(), message.partition()), message.offset()
            number = payload.number_of(message.value(), *key)
            self._taken += 1
            if self._settings.bug == "skip" and self._taken % 300 == 0:
                continue
            if runs and (*runs[-1][:2],) == key and runs[-1][2] + len(runs[-1][3]) == offset:
                runs[-1][3].append(number)
            else:
                runs.append([*key, offset, [number]])
            self._next[key] = offset + 1
        if runs:
            self.log("got", m=runs)

    # --- commits ---

    def _commit(self, what: list[tuple[str, int]], wait: bool) -> None:
        self._commits += 1
        back = -400 if self._commits % 2 == 0 else 0
        ahead = {"ahead": 40, "back": back}.get(self._settings.bug, 0)
        found = {key: max(self._next.pop(key) + ahead, 0) for key in what if key in self._next}
        if not found:
            return
        self._handed.update(found)
        offsets = [
            self._module.TopicPartition(*key, offset, self._settings.name)
            for key, offset in found.items()
        ]
        try:
            if self._settings.commits == "store":
                self._consumer.store_offsets(offsets=offsets)
            elif wait:
                self._report(self._consumer.commit(offsets=offsets, asynchronous=False))
            else:
                self._consumer.commit(offsets=offsets, asynchronous=True)
        except self._module.KafkaException as error:
            self._refused(error.args[0], list(found))

    def _refused(self, error: Any, what: list[tuple[str, int]]) -> None:
        """Try again with the next commit, but with no lower offset than was tried since."""
        self.log("refused", text=f"{error.name()}: {error.str()}")
        for key in what:
            if key in self._handed:
                self._next.setdefault(key, self._handed[key])

    def _on_commit(self, error: Any, partitions: list[Any]) -> None:
        if error is not None:
            self._refused(error, keys(partitions))
        else:
            self._report(partitions)

    def _report(self, partitions: list[Any]) -> None:
        good = [each for each in partitions if each.error is None and each.offset >= 0]
        if good:
            self.log("committed", o=[(each.topic, each.partition, each.offset) for each in good])
        for each in partitions:
            if each.error is not None:
                self._refused(each.error, keys([each]))

    # --- commands ---

    def obey(self, command: str) -> bool:
        """Carry out a command, and return whether to continue."""
        word, _, rest = command.partition(" ")
        if word == "stall":
            self.log("stalling")
            time.sleep(float(rest))
            self.log("stalled")
        elif word == "resubscribe":
            self._consumer.unsubscribe()
            for _ in range(3):
                self.step()
            self.subscribe()
        return word != "leave"

    def run(self, commands: queue.SimpleQueue[str]) -> None:
        """Run until the command to leave."""
        self.subscribe()
        self.log("ready")
        going_on = True
        while going_on:
            self.step()
            with contextlib.suppress(queue.Empty):
                going_on = self.obey(commands.get_nowait())
        self._commit(list(self._next), wait=True)
        self.log("closing")
        self._consumer.close()
        self.log("closed")


class Host:
    """The members of this process."""

    def __init__(self) -> None:
        self._commands: dict[str, queue.SimpleQueue[str]] = {}
        self._threads: list[threading.Thread] = []

    def take(self, line: str) -> None:
        """Carry out a line of the run."""
        name, _, rest = line.partition(" ")
        if name == "join":
            self.join(Settings(**json.loads(rest)))
        else:
            self._commands[name].put(rest)

    def join(self, settings: Settings) -> None:
        """Start a member."""
        self._commands[settings.name] = queue.SimpleQueue()
        thread = threading.Thread(target=self._run, args=(settings,), name=settings.name)
        self._threads.append(thread)
        thread.start()

    def _run(self, settings: Settings) -> None:
        """Run a member. If it fails, the process ends with all of them."""
        try:
            Member(settings).run(self._commands[settings.name])
        except BaseException as error:
            log = Log(Path(settings.log))
            log("error", text=f"{type(error).__name__}: {error}", fatal=True)
            traceback.print_exc()
            os._exit(1)

    def wait(self) -> None:
        """Return when all members have left. Members may join until then."""
        for thread in self._threads:
            thread.join()


def listen(take: Callable[[str], None]) -> None:
    """Pass commands on. End the process when its parent has ended."""
    for line in LINE:
        take(line.strip())
    os._exit(3)


def main() -> None:
    host = Host()
    host.join(Settings(**json.loads(LINE.readline())))
    threading.Thread(target=listen, args=(host.take,), daemon=True).start()
    host.wait()


if __name__ == "__main__":
    main()
