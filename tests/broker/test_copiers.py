"""Kafka's own TransactionalMessageCopier and ours in one group: each message is copied once,
whatever process is killed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_native import Producer
from tests.broker import java
from tests.broker.cluster import Cluster, quiet
from tests.broker.support import TopicMaker
from tests.harness import readers
from tests.harness.processes import started

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 4
MESSAGES = 10_000
DOOMED = 50
BATCH = 50
FEED_S = 25.0
KILLS = ("ours-0", "java-0", "java-1", "ours-1")
END_S = 180.0


def commands(cluster: Cluster, source: str, target: str) -> dict[str, list[str]]:
    """Return the commands of two of each, by their transactional ids."""
    ours = [sys.executable, "-m", "tests.broker.copier", cluster.bootstrap, source, target, source]
    theirs = java.java_command(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", cluster.bootstrap, "--input-topic", source, "--output-topic", target),
        *(
            "--input-partition",
            "0",
            "--group-mode",
            "--use-group-metadata",
            "--enable-random-aborts",
        ),
        *("--consumer-group", source, "--transaction-size", "50", "--transaction-timeout", "10000"),
        "--transactional-id",
    )
    return {f"{kind}-{number}": [*command, f"{source}-{kind}-{number}"]
            for kind, command in (("ours", ours), ("java", theirs)) for number in (0, 1)}  # fmt: skip


class Copiers:
    """Processes that are started again. Kafka's copier ends after the messages of its start time."""

    def __init__(self, started_by: dict[str, list[str]], directory: Path) -> None:
        self._commands, self._directory = started_by, directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.starts = dict.fromkeys(started_by, 0)

    def watch(self) -> None:
        """Start the missing ones."""
        for name, command in self._commands.items():
            process = self._processes.get(name)
            if process is None or process.poll() is not None:
                self._processes[name] = started(
                    *command, output=self._directory / f"{name}.out", cwd=ROOT
                )
                self.starts[name] += 1

    def kill(self, name: str) -> None:
        """Kill one with SIGKILL at any moment."""
        self._processes[name].kill()
        self._processes[name].wait(20)

    def kill_all(self) -> None:
        for name in self._processes:
            self.kill(name)


def copied(output: Path) -> bool:
    """Return whether a copier reports copied messages."""
    said = [json.loads(line) for line in output.read_text().splitlines() if line.startswith("{")]
    return any(each.get("totalProcessed", 0) > 0 for each in said)


@contextmanager
def copiers(started_by: dict[str, list[str]], directory: Path) -> Iterator[Copiers]:
    """Yield the copiers. They have ended at the end of the block."""
    found = Copiers(started_by, directory)
    try:
        yield found
    finally:
        found.kill_all()


def feed(producer: Producer, topic: str, numbers: range, value: Callable[[int], str]) -> None:
    """Produce these numbers in a transaction."""
    producer.begin_transaction()
    for number in numbers:
        producer.produce(topic, value(number), key=str(number), partition=number % PARTITIONS)


@pytest.mark.slow
def test_kafkas_copiers_and_ours_copy_each_message_once(
    owned3: Cluster, new_topic: TopicMaker, tool: object, tmp_path: Path
) -> None:
    source, target = new_topic(owned3, PARTITIONS), new_topic(owned3, PARTITIONS)
    conf = {"bootstrap.servers": owned3.bootstrap, "transactional.id": f"{source}-feed"}
    batches = range(0, MESSAGES, BATCH)
    with (
        Producer(quiet(conf)) as producer,
        copiers(commands(owned3, source, target), tmp_path) as group,
    ):
        producer.init_transactions(60)
        kills = list(KILLS)
        began = time.monotonic()
        for done, first in enumerate(batches):
            feed(producer, source, range(first, first + BATCH), str)
            producer.commit_transaction(60)
            if first % (20 * BATCH) == 0:
                feed(producer, source, range(DOOMED), lambda number: f"doomed {number}")
                producer.flush(30)
                producer.abort_transaction(60)
            group.watch()
            if kills and done >= len(batches) * (len(KILLS) - len(kills) + 1) // (len(KILLS) + 2):
                group.kill(kills.pop(0))
            time.sleep(max(0.0, began + FEED_S * done / len(batches) - time.monotonic()))
        deadline = time.monotonic() + END_S
        while len(set(readers.by_ours(owned3, target, PARTITIONS, 0).values())) < MESSAGES:
            assert time.monotonic() < deadline, (
                f"not copied in {END_S} s, starts: {group.starts}; see {tmp_path}"
            )
            time.sleep(1)
    assert not kills
    expected = sorted(range(MESSAGES))
    for read in (readers.by_ours, readers.by_theirs):
        found = sorted(map(int, read(owned3, target, PARTITIONS, 0).values()))
        assert found == expected, (
            f"{len(found)} messages, {len(set(found))} of them different; see {tmp_path}"
        )
    assert readers.open_transactions(owned3, target, source) == []
    assert all(copied(tmp_path / f"{name}.out") for name in group.starts), (
        f"not all took part, see {tmp_path}"
    )
    print(f"{MESSAGES} messages copied once; starts: {group.starts}")
