"""A classic group under constant change: members join, leave and crash, connections break, and the
coordinator moves.
"""

from __future__ import annotations

import random
import time

import pytest

from kafka_native import TopicPartition
from tests.waiting import wait_for

from .classic_support import Readers
from .support import Client


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky"])
def test_storm(client: Client, strategy: str):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    cluster = client.cluster
    conf = {"session.timeout.ms": 6000, "auto.commit.interval.ms": 100}
    with Readers(client, strategy, partitions=8, **conf) as group:
        all_readers = [group.add() for _ in range(3)]
        produced = 0
        ends = time.monotonic() + 6
        while time.monotonic() < ends:
            time.sleep(rng.choice((0.02, 0.1, 0.4)))
            group.fill(50, start=produced)
            produced += 50
            event = rng.random()
            if event < 0.25 and len(group.readers) < 6:
                all_readers.append(group.add())
            elif event < 0.45 and len(group.readers) > 2:
                rng.choice(group.readers).stop()
            elif event < 0.55 and len(group.readers) > 2:
                rng.choice(group.readers).stop(leave=False)
            elif event < 0.75:
                cluster.disconnect(rng.randint(1, 3))
            elif event < 0.9:
                cluster.move_coordinator(group.id, rng.choice((1, 2, 3, None)))
            else:
                cluster.rebalance_group(group.id)
        group.settle()

        def read_numbers() -> set[int]:
            return {
                int(message.value()) for reader in all_readers for message in tuple(reader.messages)
            }

        wait_for(
            lambda: len(read_numbers()) == produced,
            lambda: f"{len(read_numbers())} of {produced}, {group.readers}",
        )
        for reader in all_readers:
            assert reader.failure is None
            assert reader.errors == []
        committer = rng.choice(group.readers)
        ends_at = [cluster.watermarks(group.topic, number)[1] for number in range(8)]

        def committed() -> list[int]:
            partitions = [TopicPartition(group.topic, number) for number in range(8)]
            return [
                max(each.offset, 0)
                for each in committer.do(lambda consumer: consumer.committed(partitions, 10))
            ]

        wait_for(lambda: committed() == ends_at, lambda: f"{committed()} {ends_at}")
