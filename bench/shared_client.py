"""``python -m bench.shared_client``: what producers and consumers cost, with and without a Client.

It counts the descriptors, threads and memory of a process with ``--count`` producers and as many
consumers, on a mock cluster of one broker in another process, or on the cluster in BOOTSTRAP.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from kafka_native import Client, Consumer, Producer

TOPIC = "shared-client"
TIMEOUT_S = 300


def counted() -> dict[str, int]:
    """Return the descriptors, threads and resident KiB of this process (Linux)."""
    with open("/proc/self/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": int(fields["Threads"]),
        "memory": int(fields["VmRSS"].split()[0]),
    }


def use(bootstrap: str, count: int, shared: bool) -> dict[str, int]:
    """Return what ``count`` producers and consumers at work add to this process."""
    conf = {"bootstrap.servers": bootstrap}
    client = Client(conf) if shared else None
    before = counted()

    def producer() -> Producer:
        return Producer(conf) if client is None else client.producer()

    def consumer(number: int) -> Consumer:
        own: dict[str, Any] = {"group.id": f"{TOPIC}-{number}", "auto.offset.reset": "earliest"}
        return Consumer({**conf, **own}) if client is None else client.consumer(own)

    producers = [producer() for _ in range(count)]
    for each in producers:
        each.produce(TOPIC, b"x")
    for each in producers:
        each.flush(TIMEOUT_S)
    consumers = [consumer(number) for number in range(count)]
    for reader in consumers:
        reader.subscribe([TOPIC])
    for reader in consumers:
        if reader.poll(TIMEOUT_S) is None:
            raise click.ClickException(f"no message within {TIMEOUT_S} s")
    after = counted()
    for reader in consumers:
        reader.close()
    for each in producers:
        each.close()
    if client is not None:
        client.close()
    return {name: after[name] - before[name] for name in after}


@contextmanager
def cluster() -> Iterator[str]:
    """Yield the servers of BOOTSTRAP, or of a mock cluster in a process of its own."""
    given = os.environ.get("BOOTSTRAP")
    if given:
        yield given
        return
    command = [sys.executable, "-m", "kafka_native.mock", "--brokers", "1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as mock:
        try:
            assert mock.stdout is not None
            yield json.loads(mock.stdout.readline())["bootstrap.servers"]
        finally:
            mock.terminate()


def measured(bootstrap: str, count: int, kind: str) -> dict[str, int]:
    """Run `use()` in a new process."""
    command = [sys.executable, "-m", "bench.shared_client", "--run", kind, "--count", str(count)]
    env = {**os.environ, "BOOTSTRAP": bootstrap}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, check=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


@click.command(help=__doc__)
@click.option("--count", default=50, show_default=True, help="Producers, and as many consumers.")
@click.option("--run", type=click.Choice(["shared", "separate"]), hidden=True)
def main(count: int, run: str | None) -> None:
    """Print the figures of both kinds of process."""
    if run is not None:
        print(json.dumps(use(os.environ["BOOTSTRAP"], count, run == "shared")))
        return
    with cluster() as bootstrap:
        for kind in ("separate", "shared"):
            found = measured(bootstrap, count, kind)
            print(
                f"{kind:8}: {found['descriptors']} descriptors, {found['threads']} threads, "
                f"{found['memory'] / 1024:.0f} MiB"
            )


if __name__ == "__main__":
    main()
