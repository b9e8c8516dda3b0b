"""The program on the simulated machine: a mock cluster, clients, and faults at their times.

    python -B workload.py < options    prints the outcome as JSON
    python workload.py --import        only imports everything

Two writers produce to the topic "ledger". Two members of a group read it. A copier copies it to the
topic "copy" in transactions. A third writer and a reader use the topic "side", whose records the
cluster may lose. The mock cluster and every client run in this process.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import sys
import time
import traceback
from collections import defaultdict
from typing import Any

import bugs
from actors import Actor, Copier, Member, Reader, Writer
from faults import Faults
from world import PARTITIONS, Log, World, security_of

from kafka_native import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey

SETTLED_S = 180.0
"""Simulated seconds after the last fault, within which everything comes to its end."""
READ_S = 60.0
IN_FLIGHT_S = 0.01
"""The network's delay, without a fault."""
HELD_BACK = {"writer": ApiKey.PRODUCE, "member": ApiKey.FETCH}
"""The API for which each kind of client is throttled."""
BROKERS = 3


def read(world: World, topic: str) -> Log:
    """Return the offset and the number of each committed record, by partition."""
    found: Log = {each: [] for each in range(PARTITIONS)}
    conf = world.conf(group_id="reader", isolation_level="read_committed", enable_auto_commit=False)
    ends = 0
    end_s = time.monotonic() + READ_S
    with Consumer(conf | {"enable.partition.eof": True}) as consumer:
        consumer.assign(
            [TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)]
        )
        while ends < PARTITIONS and time.monotonic() < end_s:
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                if error is None:
                    number = world.number(message)
                    found[message.partition()].append((message.offset(), number))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ends += 1
                else:
                    world.problem(f"the reader of {topic}: {error}")
    if ends < PARTITIONS:
        world.problem(f"the reader of {topic} isn't at the end after {READ_S:.0f} s")
    return found


def is_settled(world: World, members: list[Member], copier: Copier, reader: Reader) -> bool:
    """Return whether the group, the copier and the reader have read everything."""
    if not world.numbers("side") <= {number for _, number in reader.got}:
        return False
    ends = {each: world.cluster.watermarks("ledger", each)[1] for each in range(PARTITIONS)}
    return all(
        max((member.committed.get(each, 0) for member in members), default=0) >= end
        and copier.committed.get(each, 0) >= end
        for each, end in ends.items()
    )


def play(world: World) -> dict[str, Any]:
    """Run actors and faults, and return what the rules check."""
    writers = [Writer(world, "ledger", 0), Writer(world, "ledger", 1), Writer(world, "side", 2)]
    members = [Member(world, each) for each in range(2)]
    copier, reader = Copier(world), Reader(world)
    actors: list[Actor] = [*writers, *members, copier, reader]
    faults = Faults(world, actors)
    for actor in actors:
        actor.start()
    faults.run()
    for writer in writers:
        writer.end(SETTLED_S)
    end_s = time.monotonic() + SETTLED_S
    while not is_settled(world, members, copier, reader) and time.monotonic() < end_s:
        time.sleep(0.5)
    if not is_settled(world, members, copier, reader):
        world.problem(f"readers aren't at the end {SETTLED_S:.0f} s after the last fault")
    for actor in [*members, copier, reader]:
        actor.end(SETTLED_S)
    return {
        "lives": [life for writer in writers[:2] for life in writer.lives],
        "logs": {"the cluster": world.stored("ledger"), "a reader": read(world, "ledger")},
        "side": {
            "lives": writers[2].lives,
            "logs": {"the cluster": world.stored("side"), "a reader": read(world, "side")},
            "removed": sorted(world.removed),
            "got": sorted(reader.got),
        },
        "copy": read(world, "copy"),
        "taken": world.taken,
        "committed": [member.committed for member in members],
        "faults": faults.counts,
        "effects": {
            "throttled": len(world.throttles),
            "removed": len(world.removed),
            "logins_again": world.logins_again(),
            **{
                name: machine_count(world.machine, name)
                for name in ("held", "failed_calls", "limited", "lost")
            },
        },
        "hasty": hasty(world),
        "problems": world.problems,
    }


def hasty(world: World) -> list[str]:
    """Return the requests that clients sent to a broker within a throttle time of it."""
    times = defaultdict(list)
    for seen in world.cluster.requests:
        if seen.api_key == HELD_BACK.get(seen.client_id.split()[0]):
            times[seen.client_id, seen.broker].append(seen.time)
    return [
        f"{name} sent a request to broker {broker} {sent_s - at_s:.3f} s after it was throttled "
        f"for {length_s:.3f} s"
        for name, broker, at_s, length_s in world.throttles
        for sent_s in times[name, broker]
        if IN_FLIGHT_S < sent_s - at_s < length_s - IN_FLIGHT_S
    ]


def machine_count(machine: ctypes.CDLL, name: str) -> int:
    """Return one of the machine's counters."""
    function = getattr(machine, f"machine_{name}")
    function.restype = ctypes.c_int64
    return int(function())


def main() -> None:
    """Run it, and print the outcome."""
    faulthandler.enable()  # the machine aborts a process that can't go on
    options = json.load(sys.stdin)
    machine = ctypes.CDLL(None)
    with MockCluster(
        brokers=BROKERS,
        group_session=45.0,
        rebalance_delay=0.1,
        security=security_of(options),
    ) as cluster:
        for topic in ("ledger", "copy", "side"):
            cluster.create_topic(topic, partitions=PARTITIONS)
        cluster.auto_create_topics = False
        world = World(options, cluster, machine)
        bugs.plant(options["bug"])
        result = play(world)
        outcome = {
            "digest": f"{machine_count(machine, 'digest') & (1 << 64) - 1:016x}",
            "seconds": machine_count(machine, "time_us") / 1e6,
            "switches": machine_count(machine, "switches"),
            "carried_bytes": machine_count(machine, "bytes"),
            "result": result,
        }
        print(json.dumps(outcome), flush=True)
        os._exit(0)  # killed threads would never let the interpreter end


if __name__ == "__main__" and "--import" not in sys.argv:
    try:
        main()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # as above
