"""Your own assignment strategy: the group's leader assigns partitions by the members' weights.

It starts its own mock cluster.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from kafka_native import Assignor, Consumer, MemberSubscription, PartitionInfo
from kafka_native.mock import MockCluster


class Weighted(Assignor):
    """A member with twice the weight gets twice the partitions."""

    name = "weighted"

    def __init__(self, weight: int) -> None:
        """Set the weight of this member."""
        self.weight = weight

    def user_data(self, topics: list[str], owned: list[tuple[str, int]], generation: int) -> bytes:
        """Return the data about this member for the leader."""
        return str(self.weight).encode()

    def assign(
        self,
        partitions: Mapping[str, list[PartitionInfo]],
        members: Mapping[str, MemberSubscription],
    ) -> dict[str, list[tuple[str, int]]]:
        """Give each partition to the member with the lowest load for its weight."""
        found: dict[str, list[tuple[str, int]]] = {member_id: [] for member_id in members}
        for topic in sorted(partitions):
            readers = [m for m in sorted(members) if topic in members[m].topics]
            for partition in partitions[topic]:
                least = min(
                    readers, key=lambda m: len(found[m]) / int(members[m].user_data or b"1")
                )
                found[least].append((topic, partition.number))
        return found


with MockCluster(brokers=1) as cluster:
    cluster.create_topic("orders", 12)
    conf = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "billing"}
    strong = Consumer(conf, **{"partition.assignment.strategy": Weighted(3)})
    weak = Consumer(conf, **{"partition.assignment.strategy": [Weighted(1)]})
    with strong, weak:
        strong.subscribe(["orders"])
        weak.subscribe(["orders"])
        deadline = time.monotonic() + 30
        while len(strong.assignment()) != 9 or len(weak.assignment()) != 3:
            if time.monotonic() > deadline:
                raise SystemExit("the group didn't settle")
            strong.poll(0.05)
            weak.poll(0.05)
        print(f"strong: {len(strong.assignment())} partitions, weak: {len(weak.assignment())}")
