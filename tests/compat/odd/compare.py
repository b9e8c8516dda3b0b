"""Makes the same odd calls with both libraries: ``python -m tests.compat.odd.compare [PATTERN ...]``.

Each library has its own processes and its own mock cluster. A call that ends the process is a
crash; a call that holds the interpreter lock for too long hangs. Cases whose outcomes differ are
made again, alone, so that a busy machine doesn't make a difference.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kafka_native import Consumer, Message, Producer, TopicPartition
from kafka_native.mock import MockCluster
from tests.compat.odd.allowed import reason
from tests.compat.odd.calls import cases
from tests.compat.odd.difference import Difference, Outcome, report, shown
from tests.compat.odd.values import HELD, IN_TRANSACTIONS, READ, WRITTEN
from tests.waiting import WAIT_S

LIBRARIES = ("confluent_kafka", "kafka_native.compat.drop_in.confluent_kafka")
SILENCE_S = 15.0
"""The time without a line after which the process hangs."""
THREADS_OF_TRIES = (8, 4, 1)
"""The calls at once. Those with unknown differences are tried again, with less beside them."""


class Side:
    """One library with its cluster."""

    def __init__(self, library: str, cluster: MockCluster) -> None:
        self.library = library
        self.cluster = cluster
        self.threads = THREADS_OF_TRIES[0]
        self.outcomes: dict[str, Outcome] = {}
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        for topic in (READ, WRITTEN, IN_TRANSACTIONS):
            cluster.create_topic(topic, 2)

    def run(self, ids: Iterable[str]) -> None:
        """Make the calls, in as many processes as it takes."""
        left = dict.fromkeys(ids)
        suspects: dict[str, None] = {}
        while left:
            begun, code = self.once(left, self.threads)
            for each in begun:
                del left[each]
                suspects[each] = None
        while suspects:
            begun, code = self.once(suspects, 1)
            for each in begun:
                del suspects[each]
                self.outcomes[each] = {"raises": [f"crash: {code}"]}
        self.read()

    def read(self) -> None:
        """Add to the outcomes the messages that they have written."""
        found: dict[tuple[int | None, int | None], list[Any]] = {}
        conf = {"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": "reader"}
        with Consumer({**conf, "enable.partition.eof": True}) as consumer:
            consumer.assign([TopicPartition(WRITTEN, number, 0) for number in range(2)])
            ended = 0
            while ended < 2:
                message = consumer.poll(WAIT_S)
                assert message is not None, "no message in time"
                if message.error() is not None:
                    ended += 1
                    continue
                found[message.partition(), message.offset()] = _content(message)
        for outcome in self.outcomes.values():
            if outcome.get("places"):
                outcome["written"] = [place and found[tuple(place)] for place in outcome["places"]]

    def once(self, left: dict[str, None], threads: int) -> tuple[list[str], str]:
        """Make calls in one process. Return the cases that were under way at its bad end."""
        command = [sys.executable, "-m", "tests.compat.odd.run", self.library]
        command += [self.cluster.bootstrap_servers, str(threads), uuid.uuid4().hex[:8]]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("".join(f"{each}\n" for each in left).encode())
            process.stdin.close()
            begun: dict[str, None] = {}
            heard = [time.monotonic()]
            hung = threading.Event()
            threading.Thread(
                target=_end_when_silent, args=(process, heard, hung), daemon=True
            ).start()
            for line in process.stdout:
                heard[0] = time.monotonic()
                said = json.loads(line)
                if "begun" in said:
                    begun[said["begun"]] = None
                elif "id" in said:
                    begun.pop(said["id"], None)
                    left.pop(said["id"], None)
                    self.outcomes[said["id"]] = said["outcome"]
                else:
                    begun.clear()
            code = process.wait()
        return list(begun), "hangs" if hung.is_set() else signal.Signals(
            -code
        ).name if code < 0 else str(code)


def _content(message: Message) -> list[Any]:
    kind, at = message.timestamp()
    recent = abs(at - time.time() * 1000) < 86_400_000
    return [
        repr(message.key()),
        repr(message.value()),
        repr(message.headers()),
        kind,
        "now" if recent else at,
    ]


def _end_when_silent(
    process: subprocess.Popen[bytes], heard: list[float], hung: threading.Event
) -> None:
    while process.poll() is None:
        time.sleep(0.1)
        if time.monotonic() - heard[0] > SILENCE_S:
            hung.set()
            process.kill()


def differences(
    ids: Iterable[str], sides: tuple[Side, Side], tries: Sequence[int] = THREADS_OF_TRIES
) -> list[Difference]:
    """Make the calls on both sides, and return those whose outcomes differ.

    It repeats the calls with unknown differences.
    """
    found: dict[str, Difference] = {}
    left = list(ids)
    for threads in tries:
        for side in sides:
            side.threads = threads
        with ThreadPoolExecutor(len(sides)) as pool:
            list(pool.map(lambda side: side.run(left), sides))  # noqa: B023
        tried, left = left, []
        for name in tried:
            found.pop(name, None)
            theirs, ours = (side.outcomes[name] for side in sides)
            if shown(theirs) != shown(ours):
                found[name] = Difference(name, theirs, ours)
                if reason(found[name]) is None:
                    left.append(name)
    return list(found.values())


def fill(cluster: MockCluster) -> None:
    """Write the messages that consumers find in partition 0."""
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(HELD):
            value, at = f"value {number}", 1_700_000_000_000
            producer.produce(READ, value, "key", partition=0, timestamp=at)
        assert producer.flush(WAIT_S) == 0


def compared(ids: list[str], tries: Sequence[int] = THREADS_OF_TRIES) -> list[Difference]:
    """Make these calls on clusters of their own, and return the differences."""
    with MockCluster(brokers=1) as one, MockCluster(brokers=1) as other:
        sides = Side(LIBRARIES[0], one), Side(LIBRARIES[1], other)
        for side in sides:
            fill(side.cluster)
        return differences(ids, sides, tries)


def main() -> None:
    """Print the differences of the cases whose ids match a pattern."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--all", action="store_true", help="also those that stay, with a reason")
    given = parser.parse_args()
    wanted = re.compile("|".join(given.patterns) or ".")
    ids = [each for each in cases() if wanted.search(each)]
    began = time.monotonic()
    found = compared(ids)
    left = [each for each in found if reason(each) is None]
    print(report(found if given.all else left))
    print(
        f"{len(found)} differences of {len(ids)} cases in {time.monotonic() - began:.0f} s: "
        f"{len(found) - len(left)} stay, {len(left)} are new"
    )


if __name__ == "__main__":
    main()
