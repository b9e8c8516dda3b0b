"""A simple model of Kafka's logs that makes correct histories, for tests of the checker."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count

from tests.broker.histories.history import (
    ASSIGN,
    FAILED,
    OK,
    REBALANCE,
    SEEK,
    UNKNOWN,
    Move,
    Operation,
    Poll,
    Send,
)

MARKER = -1
OPEN, COMMITTED, ABORTED = range(3)


@dataclass
class Transaction:
    """A transaction, and for each of its keys whether its marker is in the log."""

    operation: Operation
    state: int = OPEN
    unmarked: set[int] = field(default_factory=set)


Entry = tuple[int, Transaction | None]
"""A value or `MARKER`, and its transaction."""


@dataclass
class Process:
    """A process with its positions, and its transactions whose markers may be on their way."""

    number: int
    positions: dict[int, int] = field(default_factory=dict)
    current: Transaction | None = None
    last: Transaction | None = None


class Model:
    """Use `Model(random).run(count)`."""

    def __init__(self, draw: random.Random, keys: int = 3, processes: int = 3) -> None:
        self._random = draw
        self._logs: list[list[Entry]] = [[] for _ in range(keys)]
        self._numbers, self._values = count(), count()
        self._processes = [Process(next(self._numbers)) for _ in range(processes)]
        self._operations: list[Operation] = []
        self._time = 0.0

    def run(self, actions: int) -> list[Operation]:
        """Return the history of so many actions, and of a reader at the end."""
        for _ in range(actions):
            self._act(self._random.choice(self._processes))
        for process in self._processes:
            if process.current is not None:
                self._end(process)
            self._mark_all(process.last)
        reader = Process(next(self._numbers))
        self._move(reader, ASSIGN, dict.fromkeys(range(len(self._logs)), 0))
        self._begin(reader)
        self._poll(reader, max(map(len, self._logs)))
        self._end(reader, OK)
        return self._operations

    def _now(self) -> float:
        self._time += 1
        return self._time

    def _act(self, process: Process) -> None:
        draw = self._random.random()
        if process.current is None:
            if draw < 0.2:
                self._move_somewhere(process)
            else:
                self._begin(process)
        elif draw < 0.4:
            self._send(process)
        elif draw < 0.75:
            self._poll(process, self._random.randint(1, 4))
        else:
            self._end(process)
        if process.last is not None and process.last.unmarked and self._random.random() < 0.5:
            self._mark(process.last, self._random.choice(sorted(process.last.unmarked)))

    def _begin(self, process: Process) -> None:
        operation = Operation(process.number, self._now())
        self._operations.append(operation)
        process.current = Transaction(operation)

    def _move_somewhere(self, process: Process) -> None:
        keys = self._random.sample(range(len(self._logs)), self._random.randint(1, 2))
        kind = self._random.choice((ASSIGN, SEEK, REBALANCE))
        positions = {key: self._random.randint(0, len(self._logs[key])) for key in keys}
        self._move(process, kind, positions)

    def _move(self, process: Process, kind: str, positions: dict[int, int]) -> None:
        if kind == ASSIGN:
            process.positions.clear()
        process.positions.update(positions)
        known = {key: None if kind == REBALANCE else at for key, at in positions.items()}
        begin = self._now()
        self._operations.append(
            Operation(process.number, begin, [Move(kind, known)], OK, end=self._now())
        )

    def _send(self, process: Process) -> None:
        assert process.current is not None
        self._mark_all(process.last)
        key, value = self._random.randrange(len(self._logs)), next(self._values)
        log = self._logs[key]
        offset = len(log) if self._random.random() < 0.9 else None
        process.current.operation.steps.append(Send(key, value, offset))
        process.current.unmarked.add(key)
        log.append((value, process.current))

    def _poll(self, process: Process, messages_max: int) -> None:
        assert process.current is not None
        messages: dict[int, list[tuple[int, int]]] = {}
        for key, position in process.positions.items():
            found = messages.setdefault(key, [])
            for offset in range(position, len(self._logs[key])):
                value, owner = self._logs[key][offset]
                is_marker = value == MARKER
                if not is_marker and owner is not None and key in owner.unmarked:
                    break  # the last stable offset
                if len(found) == messages_max:
                    break
                process.positions[key] = offset + 1
                if not is_marker and owner is not None and owner.state == COMMITTED:
                    found.append((offset, value))
        found_any = {key: each for key, each in messages.items() if each}
        process.current.operation.steps.append(Poll(found_any, self._now()))

    def _end(self, process: Process, outcome: str = "") -> None:
        """End a transaction. Without an outcome it is drawn, and the process may die."""
        transaction = process.current
        assert transaction is not None
        self._mark_all(process.last)
        operation = transaction.operation
        operation.outcome = outcome or self._random.choice((OK, OK, OK, FAILED, UNKNOWN))
        if operation.outcome != FAILED:
            operation.commit = self._now()
        is_there = operation.outcome == OK or (
            operation.outcome == UNKNOWN and self._random.random() < 0.5
        )
        transaction.state = COMMITTED if is_there else ABORTED
        process.last, process.current = transaction, None
        if operation.outcome == OK or self._random.random() < 0.5:
            operation.end = self._now()
        else:  # the process has died
            self._mark_all(transaction)
            process.number, process.positions = next(self._numbers), {}

    def _mark(self, transaction: Transaction, key: int) -> None:
        transaction.unmarked.discard(key)
        self._logs[key].append((MARKER, None))

    def _mark_all(self, transaction: Transaction | None) -> None:
        if transaction is not None:
            for key in sorted(transaction.unmarked):
                self._mark(transaction, key)
