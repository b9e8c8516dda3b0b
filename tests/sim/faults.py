"""The faults of a run: a list that a seed draws, and that a failing run is reduced to."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from tests.harness.runs import Deck

BROKERS = (1, 2, 3)
PARTITIONS = 3
ACTORS = 7
"""Three writers, two members of the group, the copier, the reader."""
QUIET_S = 20.0
"""No fault begins in the first seconds of a run."""


class Fault(NamedTuple):
    """A method of `inside.faults.Faults`, and when to call it: seconds after the start."""

    at_s: float
    kind: str
    arguments: list[Any]


def _broker(draw: random.Random) -> int:
    return draw.choice(BROKERS)


def _partition(draw: random.Random) -> list[Any]:
    return ["ledger", draw.randrange(PARTITIONS)]


KINDS = {
    "stop_broker": lambda draw: [_broker(draw), draw.uniform(1, 30)],
    "move_leader": lambda draw: [*_partition(draw), _broker(draw)],
    "leaderless": lambda draw: [*_partition(draw), draw.uniform(0.5, 10)],
    "cut": lambda draw: [_broker(draw)],
    "stall": lambda draw: [_broker(draw), draw.choice([1, 2, 3]), draw.uniform(1, 90)],
    "refuse": lambda draw: [_broker(draw), draw.uniform(1, 20)],
    "slow": lambda draw: [draw.uniform(0.01, 2), draw.uniform(5, 30)],
    "split": lambda draw: [draw.choice([1, 2, 7, 100]), draw.uniform(2, 10)],
    "refuse_requests": lambda draw: [
        draw.choice(["PRODUCE", "FETCH", "OFFSET_COMMIT", "END_TXN", "HEARTBEAT", "METADATA"]),
        draw.randrange(1, 6),
    ],
    "lose_answers": lambda draw: [
        draw.choice(["PRODUCE", "FETCH", "OFFSET_COMMIT", "END_TXN", "INIT_PRODUCER_ID"]),
        draw.randrange(1, 4),
    ],
    "cut_answer": lambda draw: [_broker(draw), draw.randrange(60)],
    "corrupt_fetch": _partition,
    "forget_sessions": lambda draw: [_broker(draw)],
    "narrow": lambda draw: [draw.choice([500, 5_000, 125_000]), draw.uniform(5, 30)],
    "lose_segments": lambda draw: [draw.choice([10_000, 50_000, 200_000]), draw.uniform(5, 60)],
    "fail_calls": lambda draw: [draw.choice([3, 10, 100]), draw.uniform(1, 10)],
    "throttle": lambda draw: [_broker(draw), draw.choice([0.1, 1, 10, 90]), draw.randrange(1, 6)],
    "jump": lambda draw: [draw.uniform(-7200, 7200)],
    "expire_logins": lambda draw: [draw.choice([0.2, 1, 5]), draw.uniform(5, 30)],
    "recreate_topic": lambda draw: [draw.choice([0, draw.uniform(0, 10), 40])],
    "truncate": lambda draw: [draw.randrange(PARTITIONS), draw.randrange(1, 20), _broker(draw)],
    "move_log_start": lambda draw: [draw.randrange(PARTITIONS), draw.choice([0.1, 0.5, 1])],
    "restart": lambda draw: [draw.randrange(ACTORS)],
    "freeze": lambda draw: [draw.randrange(ACTORS), draw.choice([0.1, 1, 10, 60])],
    "kill": lambda draw: [draw.randrange(ACTORS), draw.random() < 0.5],
}


def plan(seed: int, seconds: float, every_s: float = 15.0) -> list[Fault]:
    """Draw the faults of a run, on average one in ``every_s`` seconds.

    Each kind comes once before any comes again.
    """
    draw = random.Random(f"faults {seed}")
    kinds = Deck(list(KINDS), draw)
    found = []
    at_s = QUIET_S
    while at_s < seconds:
        kind = kinds.draw()
        found.append(Fault(round(at_s, 3), kind, KINDS[kind](draw)))
        at_s += draw.expovariate(1 / every_s)
    return found
