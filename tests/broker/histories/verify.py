"""The checker: anomalies of a history by name. Each rule yields a sentence for each anomaly.

The names are those of Jepsen's test of Kafka, as far as it has them. Its expectations are the same:
transactions of Kafka isolate readers from what isn't committed, and nothing else. Transactions
that write at the same time interleave in the logs. So these cycles are normal, and only counted
(`count_cycles`): of ww edges (G0), of ww and wr edges, and of ww, wr and rw edges (G2). A cycle of
wr edges (G1c), also with edges of time, is an anomaly: somebody read what wasn't committed yet.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from tests.broker.histories import cycles
from tests.broker.histories.history import ASSIGN, FAILED, OK, UNKNOWN, Move, Operation, Poll, Send
from tests.harness.runs import Rule, broken

SHOWN = 5


class Jump(NamedTuple):
    """A poll that didn't continue at the position of its process."""

    is_skip: bool
    is_internal: bool
    """The position is from the same operation."""
    text: str


class Analysis:
    """A history with its indexes."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = sorted(operations, key=lambda each: each.begin)
        self.writer: dict[int, int] = {}  # the index of the operation that sent a value
        self.key_of: dict[int, int] = {}
        self.places: dict[int, set[tuple[int, int]]] = defaultdict(set)  # keys and offsets
        self.values_at: dict[tuple[int, int], set[int]] = defaultdict(set)
        self.polled: set[int] = set()
        self.last_polled: dict[int, int] = {}  # the highest offset of each key
        for index, operation in enumerate(self.operations):
            for send in operation.sends():
                self.writer[send.value], self.key_of[send.value] = index, send.key
                if send.offset is not None:
                    self._place(send.key, send.offset, send.value)
            for key, offset, value, _ in messages_of(operation):
                self._place(key, offset, value)
                self.polled.add(value)
                self.last_polled[key] = max(self.last_polled.get(key, -1), offset)

    def _place(self, key: int, offset: int, value: int) -> None:
        self.places[value].add((key, offset))
        self.values_at[key, offset].add(value)

    def writer_of(self, value: int) -> Operation | None:
        """Return the operation that sent a value."""
        index = self.writer.get(value)
        return None if index is None else self.operations[index]

    @cached_property
    def committed(self) -> set[int]:
        """The operations whose values readers have to see.

        An unknown one was committed if any of its values was polled.
        """
        proven = {self.writer[value] for value in self.polled if value in self.writer}
        return {
            index
            for index, operation in enumerate(self.operations)
            if operation.outcome == OK or (operation.outcome == UNKNOWN and index in proven)
        }

    def is_committed(self, value: int) -> bool:
        """Return whether readers have to see a value."""
        return self.writer.get(value) in self.committed

    def offset_of(self, send: Send) -> int | None:
        """Return the offset of a sent value: that of its report, or else that of a poll."""
        if send.offset is not None:
            return send.offset
        places = self.places.get(send.value, set())
        return min((offset for key, offset in places if key == send.key), default=None)

    @cached_property
    def versions(self) -> dict[int, list[tuple[int, int]]]:
        """The committed values of each key, by offset."""
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for (key, offset), values in sorted(self.values_at.items()):
            found[key] += [(offset, value) for value in sorted(values) if self.is_committed(value)]
        return dict(found)

    @cached_property
    def jumps(self) -> list[Jump]:
        """The polls that don't continue at the position of their process."""
        positions: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
        found: list[Jump] = []
        for index, operation in enumerate(self.operations):
            mine = positions[operation.process]
            for step in operation.steps:
                if isinstance(step, Move):
                    move(mine, step, index)
                elif isinstance(step, Poll):
                    found += self._follow(mine, step, index)
        return found

    def _follow(self, mine: dict[int, tuple[int, int]], poll: Poll, index: int) -> Iterator[Jump]:
        """Yield the jumps of a poll. ``mine``: the next offset of each key, and who set it."""
        for key, messages in poll.messages.items():
            values = self.versions.get(key, [])
            for offset, _ in messages:
                expected, since = mine.get(key, (offset, index))
                text = f"{self.operations[index]}: key {key} @{offset}, expected from {expected}"
                if offset < expected:
                    yield Jump(False, since == index, text)
                elif offset > expected:
                    first = bisect_left(values, (expected, -1))
                    skipped = values[first : bisect_left(values, (offset, -1))]
                    if skipped:
                        yield Jump(True, since == index, f"{text}: skipped {skipped[:SHOWN]}")
                mine[key] = offset + 1, index

    @cached_property
    def write_read(self) -> cycles.Graph:
        """The edges from senders to pollers."""
        return cycles.write_read(self.operations, self.writer)

    def cycles_of(self, *graphs: cycles.Graph) -> list[list[int]]:
        """Return the operations of each cycle of these edges."""
        count = len(self.operations)
        found = cycles.components(cycles.union(*graphs))
        return [[each for each in nodes if each < count] for nodes in found]


def move(mine: dict[int, tuple[int, int]], step: Move, index: int) -> None:
    """Change the positions of a process."""
    if step.kind == ASSIGN:
        mine.clear()
    for key, offset in step.positions.items():
        if offset is None:
            mine.pop(key, None)
        else:
            mine[key] = offset, index


def messages_of(operation: Operation) -> Iterator[tuple[int, int, int, float]]:
    """Yield key, offset, value and time of all messages that an operation polled."""
    for poll in operation.polls():
        for key, messages in poll.messages.items():
            for offset, value in messages:
                yield key, offset, value, poll.time


def _unread(analysis: Analysis) -> Iterator[tuple[Operation, Send]]:
    """Yield what was committed, and nobody polled."""
    for index in sorted(analysis.committed):
        for send in analysis.operations[index].sends():
            if send.value not in analysis.polled:
                yield analysis.operations[index], send


def _is_passed(analysis: Analysis, send: Send) -> bool:
    last = analysis.last_polled.get(send.key, -1)
    return last > (-1 if send.offset is None else send.offset)


def lost_write(analysis: Analysis) -> Iterator[str]:
    """A committed value isn't polled, and a later one of the same key is."""
    for operation, send in _unread(analysis):
        if _is_passed(analysis, send):
            yield f"{operation}: key {send.key} @{send.offset} value {send.value}"


def unseen(analysis: Analysis) -> Iterator[str]:
    """A committed value at the end of its key isn't polled."""
    for operation, send in _unread(analysis):
        if not _is_passed(analysis, send):
            yield f"{operation}: key {send.key} @{send.offset} value {send.value}"


def duplicate(analysis: Analysis) -> Iterator[str]:
    """A value is at several places."""
    for value, places in analysis.places.items():
        if len(places) > 1:
            yield f"value {value} is at {sorted(places)[:SHOWN]}"


def inconsistent_offsets(analysis: Analysis) -> Iterator[str]:
    """Different values are seen at one offset."""
    for (key, offset), values in analysis.values_at.items():
        if len(values) > 1:
            yield f"key {key} @{offset} has values {sorted(values)[:SHOWN]}"


def unwritten_read(analysis: Analysis) -> Iterator[str]:
    """A polled value was never sent, or to another key."""
    for operation in analysis.operations:
        for key, offset, value, _ in messages_of(operation):
            if analysis.key_of.get(value) != key:
                yield f"{operation}: key {key} @{offset} value {value}"


def aborted_read(analysis: Analysis) -> Iterator[str]:
    """A polled value is of a transaction that wasn't committed (G1a)."""
    for operation in analysis.operations:
        for key, offset, value, _ in messages_of(operation):
            writer = analysis.writer_of(value)
            if writer is not None and writer.outcome == FAILED:
                yield f"{operation}: key {key} @{offset} value {value} of the {writer}"


def precommitted_read(analysis: Analysis) -> Iterator[str]:
    """A transaction polls what it has sent itself."""
    for index, operation in enumerate(analysis.operations):
        for key, offset, value, _ in messages_of(operation):
            if analysis.writer.get(value) == index:
                yield f"{operation}: key {key} @{offset} value {value}"


def intermediate_read(analysis: Analysis) -> Iterator[str]:
    """A value is polled before its transaction began to commit."""
    for operation in analysis.operations:
        for key, offset, value, time in messages_of(operation):
            writer = analysis.writer_of(value)
            if writer is not None and writer.commit is not None and time < writer.commit:
                yield f"{operation}: key {key} @{offset} value {value} of the {writer}"


def torn_transaction(analysis: Analysis) -> Iterator[str]:
    """A transaction with an unknown result is only partly there."""
    for operation in analysis.operations:
        if operation.outcome == UNKNOWN:
            are_there = {send.value in analysis.polled for send in operation.sends()}
            if len(are_there) > 1:
                yield str(operation)


def _jumps(analysis: Analysis, is_skip: bool, is_internal: bool) -> Iterator[str]:
    for jump in analysis.jumps:
        if jump.is_skip == is_skip and jump.is_internal == is_internal:
            yield jump.text


def poll_skip(analysis: Analysis) -> Iterator[str]:
    """A process skips committed values between operations."""
    yield from _jumps(analysis, True, False)


def internal_poll_skip(analysis: Analysis) -> Iterator[str]:
    """A process skips committed values inside an operation."""
    yield from _jumps(analysis, True, True)


def nonmonotonic_poll(analysis: Analysis) -> Iterator[str]:
    """A process goes back between operations."""
    yield from _jumps(analysis, False, False)


def internal_nonmonotonic_poll(analysis: Analysis) -> Iterator[str]:
    """A process goes back inside an operation."""
    yield from _jumps(analysis, False, True)


def _backward_sends(analysis: Analysis, is_internal: bool) -> Iterator[str]:
    last: dict[tuple[int, int], tuple[int, int]] = {}
    for index, operation in enumerate(analysis.operations):
        for send in operation.sends():
            offset = analysis.offset_of(send)
            if offset is not None:
                place = operation.process, send.key
                before, since = last.get(place, (-1, index))
                if offset <= before and (since == index) == is_internal:
                    yield f"{operation}: key {send.key} @{offset} after @{before}"
                last[place] = offset, index


def nonmonotonic_send(analysis: Analysis) -> Iterator[str]:
    """A process's later operation has a lower offset of a key."""
    yield from _backward_sends(analysis, False)


def internal_nonmonotonic_send(analysis: Analysis) -> Iterator[str]:
    """A later value of an operation has a lower offset of a key."""
    yield from _backward_sends(analysis, True)


def _tell(analysis: Analysis, found: list[list[int]]) -> Iterator[str]:
    for nodes in found:
        shown = "; ".join(str(analysis.operations[each]) for each in sorted(nodes)[:SHOWN])
        yield f"{len(nodes)} operations: {shown}"


def g1c(analysis: Analysis) -> Iterator[str]:
    """Operations have polled each other's values, in a circle."""
    yield from _tell(analysis, analysis.cycles_of(analysis.write_read))


def g1c_realtime(analysis: Analysis) -> Iterator[str]:
    """A circle of polled values and time: an operation has polled what was sent after its end."""
    graphs = analysis.write_read, cycles.realtime(analysis.operations)
    yield from _tell(analysis, analysis.cycles_of(*graphs))


RULES: tuple[Rule[Analysis], ...] = (
    *(lost_write, unseen, duplicate, inconsistent_offsets, unwritten_read),
    *(aborted_read, precommitted_read, intermediate_read, torn_transaction),
    *(poll_skip, internal_poll_skip, nonmonotonic_poll, internal_nonmonotonic_poll),
    *(nonmonotonic_send, internal_nonmonotonic_send, g1c, g1c_realtime),
)


def violations(operations: Sequence[Operation]) -> list[str]:
    """Return all anomalies of a history."""
    return broken(RULES, Analysis(operations), SHOWN)


def count_cycles(operations: Sequence[Operation]) -> dict[str, int]:
    """Return how many operations are in cycles that are normal in Kafka, by the cycles' edges."""
    analysis = Analysis(operations)
    writes = cycles.write_write(analysis.versions, analysis.writer)
    reads = analysis.write_read
    overtaken = cycles.read_write(analysis.operations, analysis.versions, analysis.writer)
    graphs = {"ww": (writes,), "ww-wr": (writes, reads), "ww-wr-rw": (writes, reads, overtaken)}
    return {
        name: sum(len(nodes) for nodes in analysis.cycles_of(*each))
        for name, each in graphs.items()
    }
