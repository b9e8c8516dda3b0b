"""What actors and faults share."""

from __future__ import annotations

import ctypes
import random
import threading
import time
from typing import Any

import payload

from kafka_native import Message
from kafka_native.mock import ListenerSecurity, MockCluster

PARTITIONS = 3
SOURCES = {"copy": "ledger"}
MECHANISMS = ("", "SCRAM-SHA-256", "PLAIN")
"""Of the logins: each in a third of the seeds. The first ones have none."""
USER, PASSWORD = "alice", "wonderland"

Log = dict[int, list[tuple[int, int]]]


def mechanism_of(options: dict[str, Any]) -> str:
    """Return how clients log in, or an empty text."""
    return MECHANISMS[options["seed"] % len(MECHANISMS)]


def security_of(options: dict[str, Any]) -> ListenerSecurity | None:
    """Return the security of the cluster."""
    if not (mechanism := mechanism_of(options)):
        return None
    return ListenerSecurity("sasl_plaintext", [mechanism], {USER: PASSWORD})


class World:
    """The cluster, the options and the problems of a run."""

    def __init__(self, options: dict[str, Any], cluster: MockCluster, machine: ctypes.CDLL) -> None:
        """Begin the time of the run."""
        self.options = options
        self.throttles: list[tuple[str, int, float, float]] = []
        """Client, broker, time and seconds of each throttle time that a client reported."""
        self.cluster = cluster
        self.machine = machine
        self.problems: list[str] = []
        self.taken: list[dict[str, Any]] = []
        """The offsets that members got: an entry for each assignment of a partition."""
        self._began_s = time.monotonic()
        self.removed: set[int] = set()
        """The numbers of the messages of "side" that the cluster has lost or deleted."""
        self._lives = 0
        self._groups = 0
        self._lock = threading.Lock()

    def random(self, name: str) -> random.Random:
        """Return an actor's own numbers. They don't depend on the faults of the run."""
        return random.Random(f"{name} {self.options['seed']}")

    def conf(self, **more: Any) -> dict[str, Any]:
        """Return a client's configuration, with `_` for the dots of names."""
        name = threading.current_thread().name
        found: dict[str, Any] = {
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "client.id": name,
            "log_level": 0,
            "throttle_cb": lambda event: self.throttles.append(
                (name, event.broker_id, time.monotonic(), event.throttle_time)
            ),
        }
        if mechanism := mechanism_of(self.options):
            found |= {
                "security.protocol": "sasl_plaintext",
                "sasl.mechanism": mechanism,
                "sasl.username": USER,
                "sasl.password": PASSWORD,
            }
        return found | {name.replace("_", "."): value for name, value in more.items()}

    def seconds(self) -> float:
        """Return the simulated time since the begin."""
        return time.monotonic() - self._began_s

    def problem(self, text: str) -> None:
        """Note what breaks the promise that everything comes to its end without an error."""
        self.problems.append(f"{self.seconds():.3f} s: {text}")

    def new_life(self) -> int:
        """Return the number of a new life."""
        with self._lock:
            self._lives += 1
            return self._lives

    def new_group(self) -> int:
        """Return the number of a new group of threads. Only the thread of the faults calls it."""
        self._groups += 1
        return self._groups

    def number_of(self, value: bytes | None, topic: str, partition: int) -> int:
        """Return a message's number, and check that it was written there. -1: it wasn't."""
        try:
            return payload.number_of(value, topic, partition)
        except (AssertionError, ValueError) as error:
            self.problem(f"in partition {partition}: {error}")
            return -1

    def number(self, message: Message) -> int:
        """Return the number of a message. Those of the copy are from the ledger."""
        topic, partition = message.topic(), message.partition()
        assert topic is not None
        assert partition is not None
        return self.number_of(message.value(), SOURCES.get(topic, topic), partition)

    def stored(self, topic: str) -> Log:
        """Return offset and number of each record that the mock cluster's memory has."""
        if topic not in self.cluster.topics:
            return {each: [] for each in range(PARTITIONS)}
        return {
            each: [
                (record.offset, self.number_of(record.value, topic, each))
                for record in self.cluster.messages(topic, each)
                if record.offset >= self.cluster.watermarks(topic, each)[0]
            ]
            for each in range(PARTITIONS)
        }

    def logins_again(self) -> int:
        """Return how often clients have logged in again on a connection."""
        if not mechanism_of(self.options):
            return 0
        return sum(login.again for login in self.cluster.security.logins)

    def numbers(self, topic: str) -> set[int]:
        """Return the numbers of the stored records."""
        return {number for records in self.stored(topic).values() for _, number in records}
