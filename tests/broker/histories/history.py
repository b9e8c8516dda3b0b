"""A history: the operations of processes, with what each sent and polled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"
ASSIGN, SEEK, REBALANCE = "assign", "seek", "rebalance"

Messages = dict[int, list[tuple[int, int]]]
"""The offsets and values of each key, in the order of the poll."""


@dataclass(slots=True)
class Send:
    """A value sent to a key. Values are unique. ``offset`` is that of the delivery report."""

    key: int
    value: int
    offset: int | None = None


@dataclass(slots=True)
class Poll:
    """The messages of a poll, and when it returned."""

    messages: Messages
    time: float = 0.0


@dataclass(slots=True)
class Move:
    """Keys get a new position: an offset, or None if the process doesn't know it.

    ``kind``: `ASSIGN` gives all other keys up. `SEEK` and `REBALANCE` leave them as they are.
    """

    kind: str
    positions: dict[int, int | None]


Step = Send | Poll | Move


@dataclass(slots=True)
class Operation:
    """One operation of a process: a transaction, or moves of its consumer.

    ``commit``: when the process began to commit. None: it never did. ``end``: None if the process
    died before. A new process has another number.
    """

    process: int
    begin: float
    steps: list[Step] = field(default_factory=list)
    outcome: str = FAILED
    commit: float | None = None
    end: float | None = None

    def sends(self) -> Iterator[Send]:
        return (step for step in self.steps if isinstance(step, Send))

    def polls(self) -> Iterator[Poll]:
        return (step for step in self.steps if isinstance(step, Poll))

    def moves(self) -> Iterator[Move]:
        return (step for step in self.steps if isinstance(step, Move))

    def is_move(self) -> bool:
        """Return whether it only moves the consumer."""
        return bool(self.steps) and all(isinstance(step, Move) for step in self.steps)

    def __str__(self) -> str:
        return f"operation of process {self.process} at {self.begin:.3f}"


def plain(step: Step) -> list[Any]:
    """Return a step as JSON's types."""
    match step:
        case Send():
            return ["send", step.key, step.value, step.offset]
        case Poll():
            return ["poll", step.time, [[key, each] for key, each in step.messages.items()]]
        case Move():
            return [step.kind, [[key, at] for key, at in step.positions.items()]]


def step_of(found: list[Any]) -> Step:
    """Return the step of `plain()`."""
    kind, *rest = found
    if kind == "send":
        return Send(*rest)
    if kind == "poll":
        return Poll({key: [(at, value) for at, value in each] for key, each in rest[1]}, rest[0])
    return Move(kind, dict(rest[0]))


def read(lines: Iterable[Mapping[str, Any]]) -> list[Operation]:
    """Return the operations of the lines that processes have logged (see `process.py`).

    A transaction without a line "commit" has failed: nobody has asked to commit it. One without a
    line "end" is unknown.
    """
    found: dict[tuple[int, int], Operation] = {}
    for line in lines:
        if line["e"] not in ("begin", "commit", "end"):
            continue
        place = line["process"], line["number"]
        if line["e"] == "begin":
            found[place] = Operation(line["process"], line["time"])
        operation = found[place]
        if "steps" in line:
            operation.steps = [step_of(each) for each in line["steps"]]
        if line["e"] == "commit":
            operation.commit, operation.outcome = line["time"], UNKNOWN
        elif line["e"] == "end":
            operation.end, operation.outcome = line["time"], line["outcome"]
            offsets = dict(line["offsets"])
            for send in operation.sends():
                send.offset = offsets.get(send.value)
    return sorted(found.values(), key=lambda each: each.begin)


# --- export ---

JEPSEN_TYPES = {OK: "ok", FAILED: "fail", UNKNOWN: "info"}


def _value(operation: Operation, is_done: bool) -> str:
    texts = []
    for step in operation.steps:
        if isinstance(step, Send):
            at = "nil" if step.offset is None else step.offset
            texts.append(f"[:send {step.key} {f'[{at} {step.value}]' if is_done else step.value}]")
        elif isinstance(step, Poll):
            keys = (
                f"{key} [{' '.join(f'[{at} {value}]' for at, value in each)}]"
                for key, each in step.messages.items()
            )
            texts.append(f"[:poll {{{', '.join(keys)}}}]" if is_done else "[:poll]")
    return f"[{' '.join(texts)}]"


def export(operations: Iterable[Operation], file: TextIO) -> None:
    """Write the history as EDN in the form of jepsen.tests.kafka: one map a line, by time."""
    events: list[tuple[float, int, str, str, str]] = []
    for operation in operations:
        name, values = "txn", [_value(operation, False), _value(operation, True)]
        if operation.is_move():
            keys = sorted({key for move in operation.moves() for key in move.positions})
            name, values = "assign", [f"[{' '.join(map(str, keys))}]"] * 2
        events.append((operation.begin, operation.process, "invoke", name, values[0]))
        end = float("inf") if operation.end is None else operation.end
        kind = JEPSEN_TYPES[operation.outcome]
        events.append((end, operation.process, kind, name, values[1]))
    events.sort(key=lambda each: each[0])
    last = max((each[0] for each in events if each[0] < float("inf")), default=0.0)
    for index, (time, process, kind, name, value) in enumerate(events):
        file.write(
            f"{{:index {index}, :time {int(min(time, last) * 1e9)}, :process {process}, "
            f":type :{kind}, :f :{name}, :value {value}}}\n"
        )
