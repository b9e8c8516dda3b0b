"""Spreads a node's partitions over its data connections (connections.per.broker).

Thread: the control thread only.
"""

from __future__ import annotations

from collections import Counter, defaultdict


class Spread:
    """Chooses the data connection of each partition, and keeps to it.

    A partition stays on its connection, so its batches stay in order. A topic's partitions are
    spread evenly over a node's connections, and so are all partitions.
    """

    def __init__(self, connections: int) -> None:
        """``connections``: data connections to each node."""
        self._numbers = range(connections)
        self._chosen: defaultdict[int, dict[tuple[str, int], int]] = defaultdict(dict)
        self._of_topic: Counter[tuple[int, str, int]] = Counter()
        self._of_node: Counter[tuple[int, int]] = Counter()

    def choose(self, node_id: int, topic: str, partition: int) -> int:
        """The number of the connection to a node for this partition; 0 is the node's own."""
        if len(self._numbers) == 1:
            return 0
        known = self._chosen[node_id]
        number = known.get((topic, partition))
        if number is None:
            number = known[topic, partition] = min(
                self._numbers,
                key=lambda each: (
                    self._of_topic[node_id, topic, each],
                    self._of_node[node_id, each],
                ),
            )
            self._of_topic[node_id, topic, number] += 1
            self._of_node[node_id, number] += 1
        return number
