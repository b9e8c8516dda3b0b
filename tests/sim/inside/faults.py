"""Makes the faults of a run at their times."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable
from ctypes import c_int64
from typing import TYPE_CHECKING

from world import PARTITIONS, World, mechanism_of

from kafka_native.mock import CLOSE_CONNECTION
from kafka_native.protocol import ApiKey

if TYPE_CHECKING:
    from actors import Actor

NO_LEADER = -1
REFUSALS = {
    "PRODUCE": (6, 7, 19, 56),  # NOT_LEADER, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, STORAGE_ERROR
    "FETCH": (6, 56, 70, 71),  # ..., FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH
    "OFFSET_COMMIT": (14, 15, 16),  # the coordinator loads, isn't available, is another one
    "END_TXN": (14, 15, 16, 51),  # ..., CONCURRENT_TRANSACTIONS
    "HEARTBEAT": (14, 15, 16, 27),  # ..., REBALANCE_IN_PROGRESS
    "METADATA": (5,),  # LEADER_NOT_AVAILABLE
}
MICROSECONDS = 1_000_000


def _us(seconds: float) -> c_int64:
    return c_int64(int(seconds * MICROSECONDS))


class Faults:
    """Each fault is a method. Times are in seconds. It returns False if it can't be made now."""

    def __init__(self, world: World, actors: list[Actor]) -> None:
        """`run()` makes the faults of the world's options."""
        self.counts: Counter[str] = Counter()
        self._world, self._cluster, self._machine = world, world.cluster, world.machine
        self._actors = actors
        self._draw = world.random("errors")
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0

    def run(self) -> None:
        """Make each fault at its time, wait for the end, and heal everything."""
        for at_s, kind, arguments in self._world.options["faults"]:
            self._wait_until(at_s)
            if getattr(self, kind)(*arguments) is not False:
                self.counts[kind] += 1
        self._wait_until(self._world.options["seconds"])
        while self._later:
            heapq.heappop(self._later)[2]()
        for actor in self._actors:
            self._machine.machine_freeze(actor.group, c_int64(0))
        self._machine.machine_fail_calls(c_int64(1), c_int64(0))
        self._cluster.end_faults()
        self._calm()

    def _wait_until(self, at_s: float) -> None:
        while self._later and self._later[0][0] <= at_s:
            due_s, _, action = heapq.heappop(self._later)
            self._sleep_until(due_s)
            action()
        self._sleep_until(at_s)

    def _sleep_until(self, at_s: float) -> None:
        time.sleep(max(at_s - self._world.seconds(), 0))

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._later, (self._world.seconds() + seconds, self._order, action))

    def _port(self, broker: int) -> int:
        return int(self._cluster.address(broker).rpartition(":")[2])

    # --- brokers ---

    def stop_broker(self, broker: int, seconds: float) -> None:
        """Stop a broker. The others lead its partitions."""
        self._cluster.broker_down(broker)
        self._after(seconds, lambda: self._cluster.broker_up(broker))

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Make another broker the leader."""
        self._cluster.move_leader(topic, partition, broker)

    def leaderless(self, topic: str, partition: int, seconds: float) -> None:
        """Leave a partition without a leader."""
        leader = self._cluster.leader(topic, partition)
        self._cluster.move_leader(topic, partition, NO_LEADER)
        self._after(seconds, lambda: self._cluster.move_leader(topic, partition, max(leader, 1)))

    def refuse_requests(self, api: str, count: int) -> None:
        """Answer the next requests with errors."""
        codes = [self._draw.choice(REFUSALS[api]) for _ in range(count)]
        if api == "PRODUCE":
            partition = self._draw.randrange(PARTITIONS)
            self._cluster.push_request_errors(
                ApiKey[api], codes, topic="ledger", partition=partition
            )
        elif api != "METADATA":
            self._cluster.push_request_errors(ApiKey[api], codes)
        else:
            self._cluster.push_request_errors(ApiKey[api], codes, topic="ledger")

    def lose_answers(self, api: str, count: int) -> None:
        """Execute the next requests, and close their connections in place of an answer."""
        self._cluster.push_request_errors(ApiKey[api], [CLOSE_CONNECTION] * count, done=True)

    def throttle(self, broker: int, seconds: float, count: int) -> None:
        """Make clients wait after their next Produce and Fetch requests, as a quota does."""
        self._cluster.throttle_responses(broker, int(seconds * 1000), count)

    def cut_answer(self, broker: int, after_bytes: int) -> None:
        """Close a connection in the middle of an answer."""
        self._cluster.close_mid_frame(broker, after_bytes)

    def corrupt_fetch(self, topic: str, partition: int) -> None:
        """Flip a bit of the next fetched batch."""
        self._cluster.corrupt_next_fetch(topic, partition)

    def forget_sessions(self, broker: int) -> None:
        """Forget the fetch sessions."""
        self._cluster.clear_fetch_sessions(broker)

    def expire_logins(self, lifetime_s: float, seconds: float) -> bool:
        """Cut all connections. The next logins expire soon, so clients have to log in again."""
        if not mechanism_of(self._world.options):
            return False
        self._cluster.security.set_session_lifetime(int(lifetime_s * 1000))
        for broker in self._cluster.broker_ids:
            self.cut(broker)
        self._after(seconds, lambda: self._cluster.security.set_session_lifetime(0))
        return True

    # --- the contents of the topic "side" ---

    def _take_back(self, change: Callable[[], None]) -> bool:
        """Make a change, and note which messages are gone. It needs the topic."""
        with self._cluster.state.lock:
            if "side" not in self._cluster.topics:
                return False
            before = self._world.numbers("side")
            change()
            self._world.removed |= before - self._world.numbers("side")
        return True

    def recreate_topic(self, seconds: float) -> bool:
        """Delete the topic. After some time there is another one with its name."""
        if not self._take_back(lambda: self._cluster.delete_topic("side")):
            return False
        self._after(seconds, lambda: self._cluster.create_topic("side", partitions=PARTITIONS))
        return True

    def truncate(self, partition: int, count: int, broker: int) -> bool:
        """Lose the last records, as after an unclean election of a leader."""

        def change() -> None:
            first, end = self._cluster.watermarks("side", partition)
            self._cluster.logs.truncate("side", partition, max(first, end - count), broker)

        return self._take_back(change)

    def move_log_start(self, partition: int, share: float) -> bool:
        """Delete a share of the records, as retention does."""

        def change() -> None:
            first, end = self._cluster.watermarks("side", partition)
            self._cluster.logs.move_log_start("side", partition, first + int(share * (end - first)))

        return self._take_back(change)

    # --- the network and the clock ---

    def cut(self, broker: int) -> None:
        """Cut the connections of a broker."""
        self._machine.machine_cut(self._port(broker))

    def stall(self, broker: int, ways: int, seconds: float) -> None:
        """Deliver nothing to a broker (1), from it (2), or both (3)."""
        self._machine.machine_stall(self._port(broker), ways, _us(seconds))

    def refuse(self, broker: int, seconds: float) -> None:
        """Refuse new connections, and cut the old ones."""
        self._machine.machine_refuse(self._port(broker), _us(seconds))
        self._machine.machine_cut(self._port(broker))

    def slow(self, delay_s: float, seconds: float) -> None:
        """Delay everything by up to this time."""
        self._machine.machine_set_delay(c_int64(0), _us(delay_s))
        self._after(seconds, self._calm)

    def split(self, size: int, seconds: float) -> None:
        """Deliver bytes in pieces of at most this size."""
        self._machine.machine_split(c_int64(size))
        self._after(seconds, self._calm)

    def jump(self, seconds: float) -> None:
        """Change the time of day."""
        self._machine.machine_jump(_us(seconds))

    def narrow(self, bytes_per_s: int, seconds: float) -> None:
        """Limit the bandwidth of each connection."""
        self._machine.machine_limit(c_int64(bytes_per_s))
        self._after(seconds, self._calm)

    def lose_segments(self, per_million: int, seconds: float) -> None:
        """Lose TCP segments. TCP sends them again, later and later, or gives up."""
        self._machine.machine_lose(c_int64(per_million))
        self._after(seconds, self._calm)

    def fail_calls(self, one_in: int, seconds: float) -> None:
        """Make clients' system calls fail, be interrupted, or move a part of the bytes."""
        self._machine.machine_fail_calls(c_int64(one_in), _us(seconds))

    def _calm(self) -> None:
        self._machine.machine_limit(c_int64(0))
        self._machine.machine_lose(c_int64(0))
        self._machine.machine_set_delay(c_int64(50), c_int64(500))
        self._machine.machine_split(c_int64(0))

    # --- clients ---

    def restart(self, actor: int) -> None:
        """Close a client. It comes back at once, a producer with an empty queue."""
        self._actors[actor].asked.set()

    def freeze(self, actor: int, seconds: float) -> None:
        """Stop a process for some time, as SIGSTOP does."""
        self._machine.machine_freeze(self._actors[actor].group, _us(seconds))

    def kill(self, actor: int, silently: bool) -> None:
        """Kill a process. Another one takes its place at once."""
        self._actors[actor].kill(silently)
