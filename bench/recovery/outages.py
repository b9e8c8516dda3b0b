"""The outages: three brokers, a fault, and the time until each client has recovered."""

from __future__ import annotations

import random
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.recovery import (
    ACK,
    COMMIT,
    CONSUME,
    FAILURE,
    MESSAGE,
    PRODUCE,
    Event,
    Settings,
    first_after,
    longest,
    longest_behind,
)
from bench.recovery.clients import COMMANDS, Process
from tests.broker.cluster import HOST, Cluster, Listener, quiet, start
from tests.broker.support import in_sync
from tests.harness.proxy import Proxy
from tests.waiting import wait_for

PARTITIONS = 3
OFFSETS_TOPIC = "__consumer_offsets"
READY_S = 120.0
STEADY_NS = 3_000_000_000
"""Before a fault every client works for this long."""
STEP_S = 0.1
METADATA_S = 0.02
FOREVER_S = 3600.0
CHANGES = {"broker.session.timeout.ms": "3000"}
Values = dict[str, float | None]
Times = dict[str, Values]
"""The seconds of each client, by the name of the time. None: not in the limit of the run."""


@dataclass
class Rig:
    """Three brokers, a topic with a partition on each, and a proxy in front of each."""

    cluster: Cluster
    proxies: list[Proxy]
    topic: str = field(default_factory=lambda: f"recovery-{uuid.uuid4().hex[:8]}")

    @property
    def behind_proxies(self) -> str:
        return ",".join(proxy.address for proxy in self.proxies)

    def leader(self, topic: str, partition: int, without: int = -1) -> int:
        """Return the leader in the metadata of the brokers but one, or -1."""
        servers = ",".join(
            f"{HOST}:{each.port}" for node, each in self.cluster.brokers.items() if node != without
        )
        admin = AdminClient(quiet({"bootstrap.servers": servers}))
        try:
            found = admin.list_topics(topic, timeout=2).topics[topic].partitions
        except KafkaException:
            return -1
        return int(found[partition].leader) if partition in found else -1

    def is_healthy(self) -> bool:
        """Return whether each broker leads its partition, with all replicas in sync."""
        led = all(self.leader(self.topic, each) == each + 1 for each in range(PARTITIONS))
        return led and in_sync(self.cluster, self.topic)


@contextmanager
def rig() -> Iterator[Rig]:
    """Yield the running cluster."""
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(None)) for _ in range(PARTITIONS)]
        advertised = [proxy.port for proxy in proxies]
        cluster = start(
            PARTITIONS,
            changes=CHANGES,
            listeners={"CLIENTS": Listener("PLAINTEXT", {}, advertised)},
        )
        stack.callback(cluster.close)
        for proxy, behind in zip(proxies, cluster.listeners["CLIENTS"].split(","), strict=True):
            proxy.target = behind
        made = Rig(cluster, proxies)
        order = [1, 2, 3]
        replicas = [order[number:] + order[:number] for number in range(PARTITIONS)]
        topic = NewTopic(made.topic, PARTITIONS, replica_assignment=replicas)
        admin = cluster.admin()  # it must live until the future has its result
        for future in admin.create_topics([topic]).values():
            future.result(60)
        yield made


class Outage:
    """One outage, which all clients meet. Use `Outage(...).run()`."""

    def __init__(
        self,
        kind: str,
        rig: Rig,
        clients: Sequence[str],
        seed: int,
        hole_s: float,
        limit_s: float,
    ) -> None:
        """``limit_s``: a client that takes longer has no time. ``seed``: of the broker."""
        self.kind, self.seed, self.hole_s, self.limit_s = kind, seed, hole_s, limit_s
        self._rig, self._clients = rig, clients
        self._number = uuid.uuid4().hex[:8]
        self.directory = Path(tempfile.mkdtemp(prefix=f"recovery-{kind}-"))
        self._processes: dict[tuple[str, str], Process] = {}
        self.acked: dict[str, int] = {}
        """The messages of each client that were acknowledged, and those that failed."""
        self.failed: dict[str, int] = {}

    def run(self) -> Times:
        """Start the clients, make the fault, and return the times. All is well again at the end."""
        wait_for(self._rig.is_healthy, "a healthy cluster", READY_S)
        try:
            self._start_all()
            self._wait_until_steady()
            times: Times = getattr(self, f"_{self.kind}")()
        finally:
            for process in self._processes.values():
                process.leave()
            for process in self._processes.values():
                process.end()
        for client in self._clients:
            kinds = Counter(event.kind for event in self._events(client, PRODUCE))
            self.acked[client], self.failed[client] = kinds[ACK], kinds[FAILURE]
        return times

    # --- processes ---

    def _group(self, client: str) -> str:
        return f"{client}-{self._number}"

    def _start_all(self) -> None:
        hole = self.kind == "black_hole"
        servers = self._rig.behind_proxies if hole else self._rig.cluster.bootstrap
        for client in self._clients:
            command = COMMANDS[client]()
            for role in (PRODUCE, CONSUME):
                settings = Settings(
                    client=client,
                    role=role,
                    servers=servers,
                    topic=self._rig.topic,
                    partitions=PARTITIONS,
                    group=self._group(client),
                    commits=self.kind in ("coordinator", "black_hole"),
                    output=str(self.directory / f"{client}-{role}.log"),
                )
                self._processes[client, role] = Process(command, settings)

    def _events(self, client: str, role: str) -> list[Event]:
        return self._processes[client, role].events()

    def _wait_until_steady(self) -> None:
        """Wait until every client has worked on every partition for a while."""
        ready_at: list[int] = []

        def is_ready() -> bool:
            for process in self._processes.values():
                process.check()
                kind = ACK if process.settings.role == PRODUCE else MESSAGE
                found = process.events()
                if len({event.partition for event in found if event.kind == kind}) < PARTITIONS:
                    return False
            ready_at.append(time.monotonic_ns())
            return ready_at[-1] - ready_at[0] >= STEADY_NS

        wait_for(is_ready, f"clients that work, see {self.directory}", READY_S)

    def _wait_for_times(self, measure: Callable[[str], Values]) -> Times:
        """Return the times of all clients, when each is there or the limit is over."""
        deadline = time.monotonic() + self.limit_s
        while True:
            for process in self._processes.values():
                process.check()
            times = {client: measure(client) for client in self._clients}
            complete = all(value is not None for each in times.values() for value in each.values())
            if complete or time.monotonic() > deadline:
                return times
            time.sleep(STEP_S)

    # --- outages ---

    def _coordinator_node(self) -> int:
        """Return the coordinator of all groups: the topic of their offsets has one partition."""
        return self._rig.leader(OFFSETS_TOPIC, 0)

    def _without(
        self, node: int, watched: tuple[str, int], measure: Callable[[int, str], Values]
    ) -> Times:
        """Kill a broker until all clients have recovered.

        ``watched``: the partition whose new leader ends the outage of the cluster.
        """
        cluster = self._rig.cluster
        known: list[float] = []
        ended = threading.Event()
        at = time.monotonic_ns()

        def watch() -> None:
            while not ended.is_set():
                if self._rig.leader(*watched, without=node) not in (-1, node):
                    known.append((time.monotonic_ns() - at) / 1e9)
                    return
                time.sleep(METADATA_S)

        watcher = threading.Thread(target=watch, daemon=True)
        broker = cluster.brokers[node]
        at = time.monotonic_ns()
        broker.kill()
        watcher.start()
        try:
            times = self._wait_for_times(lambda client: measure(at, client))
        finally:
            ended.set()
            watcher.join(10)
            broker.start()
            cluster.wait_until_up()
        return {"cluster": {"known_s": known[0] if known else None}, **times}

    def _leader(self) -> Times:
        coordinator = self._coordinator_node()
        nodes = [node for node in self._rig.cluster.brokers if node != coordinator]
        node = random.Random(self.seed).choice(nodes)
        led = (node - 1,)

        def measure(at: int, client: str) -> Values:
            return {
                "ack_s": first_after(self._events(client, PRODUCE), ACK, at, led),
                "message_s": first_after(self._events(client, CONSUME), MESSAGE, at, led),
            }

        return self._without(node, (self._rig.topic, *led), measure)

    def _coordinator(self) -> Times:
        def measure(at: int, client: str) -> Values:
            return {"commit_s": first_after(self._events(client, CONSUME), COMMIT, at, (-1,))}

        return self._without(self._coordinator_node(), (OFFSETS_TOPIC, 0), measure)

    def _black_hole(self) -> Times:
        for proxy in self._rig.proxies:
            proxy.hold(FOREVER_S)
        try:
            time.sleep(self.hole_s)
        finally:
            at = time.monotonic_ns()
            for proxy in self._rig.proxies:
                proxy.hold(0)
        every = range(PARTITIONS)

        def measure(client: str) -> Values:
            acks, others = self._events(client, PRODUCE), self._events(client, CONSUME)
            return {
                # Nothing succeeds in the hole, so that each success is one after it.
                "ack_s": first_after(acks, ACK, at, every, begun=False),
                "message_s": first_after(others, MESSAGE, at, every, begun=False),
                "commit_s": first_after(others, COMMIT, at, (-1,), begun=False),
            }

        return self._wait_for_times(measure)

    def _rolling(self) -> Times:
        since = time.monotonic_ns()
        for broker in self._rig.cluster.brokers.values():
            broker.stop()
            broker.start()
            self._rig.cluster.wait_until_up()
            wait_for(lambda: in_sync(self._rig.cluster, self._rig.topic), "replicas", READY_S)
        wait_for(self._rig.is_healthy, "a healthy cluster", READY_S)
        until = time.monotonic_ns()

        every = range(PARTITIONS)

        def measure(client: str) -> Values:
            mine, messages = self._events(client, PRODUCE), self._events(client, CONSUME)
            # Only when messages after the restart are there, the ones before it are, too.
            ended = all(
                first_after(events, kind, until, (partition,)) is not None
                for events, kind in ((mine, ACK), (messages, MESSAGE))
                for partition in every
            )
            if not ended:
                return {"ack_wait_s": None, "message_wait_s": None}
            acks = [each for other in self._clients for each in self._events(other, PRODUCE)]
            return {
                "ack_wait_s": longest(mine, ACK, since, until),
                "message_wait_s": longest_behind(acks, messages, since, until),
            }

        return self._wait_for_times(measure)
