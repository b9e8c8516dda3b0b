"""Makes the same odd calls with both libraries: ``python -m tests.compat.odd.compare [PATTERN ...]``.

Each library has its own processes and its own mock cluster. A call that ends the process is a
crash; a call that holds the interpreter lock for too long hangs. Cases whose outcomes differ are
made again, alone, so that a busy machine doesn't make a difference.
"""

from __future__ import annotations

import collections
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
from collections.abc import Iterable
from typing import Any, NamedTuple

from kafka_native.mock import MockCluster
from tests.compat.odd.calls import cases
from tests.compat.odd.values import HELD

LIBRARIES = ("confluent_kafka", "kafka_native.compat.drop_in.confluent_kafka")
THREADS = 8
SILENCE_S = 15.0
"""The time without a line after which the process hangs."""
TRIES_MAX = 2
Outcome = dict[str, Any]


class Difference(NamedTuple):
    """A case with different outcomes."""

    id: str
    theirs: Outcome
    ours: Outcome


class Side:
    """One library with its cluster."""

    def __init__(self, library: str, cluster: MockCluster, threads: int = THREADS) -> None:
        self.library = library
        self.cluster = cluster
        self.threads = threads
        self.outcomes: dict[str, Outcome] = {}
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        cluster.create_topic("odd", 2)

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


def _end_when_silent(
    process: subprocess.Popen[bytes], heard: list[float], hung: threading.Event
) -> None:
    while process.poll() is None:
        time.sleep(0.1)
        if time.monotonic() - heard[0] > SILENCE_S:
            hung.set()
            process.kill()


def time_class(outcome: Outcome) -> str:
    """Return whether a call returned at once."""
    return "at once" if outcome.get("seconds", 0) < 0.3 else "waits"


def _compared(outcome: Outcome) -> Outcome:
    kept = {key: value for key, value in outcome.items() if key not in ("seconds", "text")}
    return {**kept, "time": time_class(outcome)}


def shown(outcome: Outcome) -> str:
    """Return what is compared of an outcome."""
    return json.dumps(_compared(outcome), sort_keys=True)


def differences(ids: Iterable[str], sides: tuple[Side, Side]) -> list[Difference]:
    """Make the calls on both sides, and return those whose outcomes differ."""
    left = list(ids)
    for _ in range(TRIES_MAX):
        running = [threading.Thread(target=side.run, args=(left,)) for side in sides]
        for each in running:
            each.start()
        for each in running:
            each.join()
        theirs, ours = (side.outcomes for side in sides)
        left = [each for each in left if shown(theirs[each]) != shown(ours[each])]
        for side in sides:
            side.threads = 2
    return [Difference(each, theirs[each], ours[each]) for each in left]


def _kind(outcome: Outcome) -> str:
    if "raises" in outcome:
        return " ".join(map(str, outcome["raises"][:2])).removesuffix(" ")
    return "returns " + json.dumps(outcome["returns"])[:60]


def _leaf(theirs: Any, ours: Any, where: str = "") -> tuple[str, str]:
    """Return the first place at which two results differ, with both values."""
    pairs: Iterable[tuple[Any, Any, Any]] = ()
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        pairs = ((key, theirs[key], ours[key]) for key in theirs)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = ((number, *each) for number, each in enumerate(zip(theirs, ours, strict=True)))
    for key, one, other in pairs:
        if one != other:
            return _leaf(one, other, f"{where}.{key}")
    return f"{where}: {json.dumps(theirs)[:60]}", json.dumps(ours)[:60]


def grouped(found: list[Difference]) -> dict[str, list[Difference]]:
    """Group differences by the call, its parameter and the kinds of the outcomes."""
    groups: dict[str, list[Difference]] = collections.defaultdict(list)
    for each in found:
        case = cases()[each.id]
        parameter = case.what.partition("=")[0] if case.named and "=" in case.what else case.what
        theirs, ours = _kind(each.theirs), _kind(each.ours)
        if theirs == ours:
            theirs, ours = _leaf(_compared(each.theirs), _compared(each.ours))
        groups[f"{case.subject.name}.{case.call.name} | {parameter} | {theirs} | {ours}"].append(
            each
        )
    return groups


def report(found: list[Difference]) -> str:
    """Return the differences as text, grouped."""
    lines = []
    for group, members in sorted(grouped(found).items()):
        lines.append(f"{len(members):5} {group}")
        names = [f"{cases()[each.id].state}: {cases()[each.id].what}" for each in members]
        lines.append("        " + "; ".join(names[:12]) + (" ..." if len(names) > 12 else ""))
        first = members[0]
        for who, outcome in (("theirs", first.theirs), ("ours", first.ours)):
            lines.append(f"        {who}: {json.dumps(outcome)[:240]}")
    return "\n".join(lines)


def fill(cluster: MockCluster) -> None:
    """Write the messages that consumers find in partition 0."""
    from kafka_native import Producer

    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(HELD):
            producer.produce(
                "odd", f"value {number}", "key", partition=0, timestamp=1_700_000_000_000
            )
        assert producer.flush(30) == 0


def main(patterns: list[str]) -> None:
    """Print the differences of the cases whose ids match a pattern."""
    wanted = re.compile("|".join(patterns) or ".")
    ids = [each for each in cases() if wanted.search(each)]
    began = time.monotonic()
    with MockCluster(brokers=1) as one, MockCluster(brokers=1) as other:
        sides = Side(LIBRARIES[0], one), Side(LIBRARIES[1], other)
        for side in sides:
            fill(side.cluster)
        found = differences(ids, sides)
    print(report(found))
    print(f"{len(found)} differences of {len(ids)} cases in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
