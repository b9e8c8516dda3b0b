"""Graphs of operations, and their cycles.

An edge leads from an operation to one that depends on it:

- ww: both sent to a key, and the second one's value is the next one in the log.
- wr: the second one polled a value that the first one sent.
- rw: the first one's last poll of a key ended before a value that the second one sent.
- realtime: the first one ended before the second one began. This includes the order of a process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from tests.broker.histories.history import Operation

Graph = dict[int, set[int]]
"""The nodes that each node leads to."""
Versions = Mapping[int, list[tuple[int, int]]]
"""The offsets and values of each key, in the order of the log."""


def components(graph: Graph) -> Iterator[list[int]]:
    """Yield the strongly connected components of several nodes (Tarjan's algorithm)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    for root in graph:
        if root in order:
            continue
        work = [(root, iter(graph[root]))]
        order[root] = low[root] = len(order)
        path.append(root)
        on_path.add(root)
        while work:
            node, rest = work[-1]
            for after in rest:
                if after not in order:
                    order[after] = low[after] = len(order)
                    path.append(after)
                    on_path.add(after)
                    work.append((after, iter(graph.get(after, ()))))
                    break
                if after in on_path:
                    low[node] = min(low[node], order[after])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    found = [path.pop()]
                    while found[-1] != node:
                        found.append(path.pop())
                    on_path.difference_update(found)
                    if len(found) > 1:
                        yield found


def union(*graphs: Graph) -> Graph:
    """Return a graph with the edges of all."""
    found: Graph = {}
    for graph in graphs:
        for node, after in graph.items():
            found.setdefault(node, set()).update(after)
    return found


def _link(graph: Graph, before: int, after: int) -> None:
    if before != after:
        graph.setdefault(before, set()).add(after)


def write_write(versions: Versions, writer: Mapping[int, int]) -> Graph:
    """Return the edges ww. ``writer``: the operation of each value, by its index."""
    graph: Graph = {}
    for values in versions.values():
        for (_, before), (_, after) in pairwise(values):
            _link(graph, writer[before], writer[after])
    return graph


def write_read(operations: Iterable[Operation], writer: Mapping[int, int]) -> Graph:
    """Return the edges wr."""
    graph: Graph = {}
    for index, operation in enumerate(operations):
        for poll in operation.polls():
            for messages in poll.messages.values():
                for _, value in messages:
                    if value in writer:
                        _link(graph, writer[value], index)
    return graph


def read_write(
    operations: Iterable[Operation], versions: Versions, writer: Mapping[int, int]
) -> Graph:
    """Return the edges rw. The first value behind the last poll of a key is enough."""
    graph: Graph = {}
    for index, operation in enumerate(operations):
        last: dict[int, int] = {}
        for poll in operation.polls():
            for key, messages in poll.messages.items():
                last[key] = max([last.get(key, -1), *(offset for offset, _ in messages)])
        for key, offset in last.items():
            values = versions.get(key, [])
            at = bisect_left(values, (offset + 1, -1))
            if at < len(values):
                _link(graph, index, writer[values[at][1]])
    return graph


def realtime(operations: list[Operation]) -> Graph:
    """Return the edges realtime, through nodes of their own: one for each end, in a chain."""
    ended = sorted(
        (operation.end, index)
        for index, operation in enumerate(operations)
        if operation.end is not None
    )
    ends = [end for end, _ in ended]
    first = len(operations)
    graph: Graph = {index: {first + at} for at, (_, index) in enumerate(ended)}
    for at in range(1, len(ended)):
        _link(graph, first + at - 1, first + at)
    for index, operation in enumerate(operations):
        at = bisect_left(ends, operation.begin) - 1
        if at >= 0:
            _link(graph, first + at, index)
    return graph
