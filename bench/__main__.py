"""``python -m bench``: scenarios, each with every adapter in turn (A B C A B C ...), then the report."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
from rich.console import Console

from bench.adapters import ADAPTERS, PRODUCING, READING, SCENARIOS, TLS, Figures, Task
from bench.broker import at_rest, broker, landed, topic
from bench.report import LATENCIES, Rounds, table, verdicts
from kafka_native import Producer

LATENCY_MESSAGES = 5000
WARM_UP_MESSAGES = 500_000
WARM_UPS = 3
TIMEOUT_S = 600
# The others make a thousand topics, or a topic of ten thousand partitions.
USUAL = tuple(scenario for scenario in SCENARIOS if scenario not in ("spread", "wide", *TLS))
PLAINTEXT = "plaintext"  # kafka_native without TLS, beside those with
# pyarrow imports NumPy where there is one, whose threads spin for a while when they start: on the measured cores.
ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
SPREAD_OVER = 100  # messages in a row for one partition, where they are spread over many


def measure(adapter: str, scenario: str, task: Task) -> Figures:
    """One adapter once, in a process of its own, when the broker has done with what was before."""
    if adapter == PLAINTEXT or scenario not in TLS:
        task = dataclasses.replace(task, tls="")
    adapter = "kafka_native" if adapter == PLAINTEXT else adapter
    scenario = TLS.get(scenario, scenario)
    command = [sys.executable, "-m", "bench.worker", adapter, scenario]
    text = json.dumps(dataclasses.asdict(task))
    env = {**os.environ, **ONE_BLAS_THREAD}
    at_rest(task.pids)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, env=env, check=False)
    if done.returncode:
        raise click.ClickException(f"{adapter} {scenario} failed:\n{done.stderr}")
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def check_landed(adapter: str, figures: Figures, there: int) -> None:
    """A rate counts only if the broker has the messages: flush() is as quick when deliveries fail."""
    if there < figures.count:
        raise click.ClickException(f"{adapter} reported {figures.count} messages, the broker has {there}")


def can(adapter: str, scenario: str, task: Task) -> bool:
    """Whether an adapter has a scenario, and the task's options."""
    if scenario in TLS:
        return bool(task.tls) and adapter in (PLAINTEXT, "kafka_native", "confluent_kafka", "raw")
    if adapter == PLAINTEXT:
        return False
    if adapter == "raw" and (task.codec != "none" or task.payload != "x"):
        return False  # prebuilt requests of compressed records are no ceiling for who has to compress them
    if adapter not in ("kafka_native", "confluent_kafka") and task.threads > 1:
        return False
    if adapter == "franz_go" and scenario in ("group", "cold") and task.protocol != "classic":
        return False
    return hasattr(importlib.import_module(f"bench.adapters.{adapter}"), scenario)


def usable(adapters: str, console: Console) -> list[str]:
    """The adapters that were asked for, without those that lack something here; says what."""
    found = []
    for adapter in adapters.split(","):
        module = importlib.import_module(f"bench.adapters.{adapter}")
        reason = module.missing() if hasattr(module, "missing") else None
        if reason:
            console.print(f"Without {adapter}: {reason}")
        else:
            found.append(adapter)
    return found


def warm_up(adapters: list[str], task: Task) -> None:
    """Every adapter a few times without a record of it: a broker that has just started slows its first clients down.

    With the run's own codec and payload: what the broker does with a compressed batch is other code.
    """
    with topic(task.bootstrap, task.partitions) as name:
        short = dataclasses.replace(task, topic=name, count=min(task.count, WARM_UP_MESSAGES))
        for scenario in ("produce", "consume") * WARM_UPS:
            for adapter in adapters:
                if can(adapter, scenario, short):
                    measure(adapter, scenario, short)


def rounds_of(scenario: str, adapters: list[str], task: Task, rounds: int, console: Console) -> Rounds:
    """Run every adapter in turn, ``rounds`` times, on a fresh topic; consume reads the output of a produce run.

    Each round begins with another adapter: the first one reads while the broker still writes to its disk.
    """
    found: Rounds = {adapter: [] for adapter in adapters}
    for number in range(rounds if adapters else 0):
        first = number % len(adapters)
        with prepared(scenario, task) as ready:
            for adapter in adapters[first:] + adapters[:first]:
                figures = once(adapter, scenario, ready)
                found[adapter].append(figures)
                more = "".join(f", {value:.2f} {name}" for name, value in figures.more.items())
                said = f"{figures.rate / 1e6:.2f} M msg/s, {figures.cpu_us:.3f} us{more}"
                console.print(f"  {scenario} round {number + 1}: {adapter} {said}", highlight=False)
    return found


@contextmanager
def prepared(scenario: str, task: Task) -> Iterator[Task]:
    """A round's topics for a scenario that reads what is there; the others make their own each time."""
    if TLS.get(scenario, scenario) not in (*READING, "wide"):
        yield task
        return
    with ExitStack() as topics:
        ready = dataclasses.replace(task, topic=topics.enter_context(topic(task.bootstrap, task.partitions)))
        if scenario in ("wide", "copy"):
            beside = topics.enter_context(topic(task.bootstrap, 1 if scenario == "wide" else task.partitions))
            ready = dataclasses.replace(ready, beside=beside)
        if scenario == "wide":
            measure("kafka_native", "produce", dataclasses.replace(task, topic=ready.beside, partitions=1))
            fill(ready)
        else:
            measure("kafka_native", "produce", ready)
        yield ready


def fill(task: Task) -> None:
    """The same number of messages for each partition, some in a row, so that no batch is of one message only."""
    values = task.values()
    with Producer(task.config) as producer:
        for number in range(task.count):
            partition = number // SPREAD_OVER % task.partitions
            while True:
                try:
                    producer.produce(task.topic, values[number % len(values)], partition=partition)
                    break
                except BufferError:
                    producer.poll(0.01)
        left = producer.flush(TIMEOUT_S)
    if left:
        raise click.ClickException(f"{left} messages were not delivered")


def once(adapter: str, scenario: str, task: Task) -> Figures:
    """One measurement, on a topic of its own unless one is prepared."""
    if task.topic:
        return measure(adapter, scenario, task)
    more = task.topics if scenario == "spread" else 0
    with topic(task.bootstrap, task.partitions, more) as own:
        figures = measure(adapter, scenario, dataclasses.replace(task, topic=own))
        if TLS.get(scenario, scenario) in PRODUCING and scenario != "spread":
            check_landed(adapter, figures, landed(task.bootstrap, own, task.partitions, figures.count))
        return figures


@click.command()
@click.argument("scenarios", nargs=-1, type=click.Choice(SCENARIOS))
@click.option("--bootstrap", envvar="BOOTSTRAP", help="This cluster (default: a real Apache Kafka of our own).")
@click.option("--messages", default=3_000_000, show_default=True, type=click.IntRange(100))
@click.option("--size", default=100, show_default=True, type=click.IntRange(1))
@click.option("--partitions", default=2, show_default=True, type=click.IntRange(1))
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--acks", default="1", show_default=True, type=click.Choice(["0", "1", "all"]))
@click.option("--idempotent", is_flag=True, help="enable.idempotence, with acks=all.")
@click.option("--codec", default="none", show_default=True, help="compression.type")
@click.option("--payload", default="x", show_default=True, type=click.Choice(["x", "json"]))
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1), help="Python threads in produce.")
@click.option("--topics", default=1000, show_default=True, type=click.IntRange(1), help="Of spread.")
@click.option("--wide", default=10_000, show_default=True, type=click.IntRange(1), help="Partitions of wide.")
@click.option("--protocol", default="classic", show_default=True, type=click.Choice(["classic", "consumer"]))
@click.option("--delay", default=0, show_default=True, help="group.initial.rebalance.delay.ms of a broker of our own.")
@click.option("--adapters", default=",".join(ADAPTERS), show_default=True)
@click.option("--output", default="build/bench", type=click.Path(file_okay=False, path_type=Path), show_default=True)
def main(
    scenarios: tuple[str, ...],
    bootstrap: str | None,
    messages: int,
    size: int,
    partitions: int,
    rounds: int,
    acks: str,
    idempotent: bool,
    codec: str,
    payload: str,
    threads: int,
    topics: int,
    wide: int,
    protocol: str,
    delay: int,
    adapters: str,
    output: Path,
) -> None:
    """Compare kafka_native with other clients and with the broker's own ceiling, on this machine, now.

    Rates swing with the machine; compare the ratios within a run, and the CPU per message.
    """
    console = Console(width=110)
    results = {}
    with broker(bootstrap, delay, tls=bool(TLS.keys() & set(scenarios))) as servers:
        console.print(f"Broker: {servers.plain}{f', TLS {servers.tls}' if servers.tls else ''}")
        names = usable(adapters, console)
        task = Task(servers.plain, "", messages, size, partitions, acks, idempotent, codec, payload, threads, topics)
        task = dataclasses.replace(task, protocol=protocol, tls=servers.tls, ca=servers.ca, pids=servers.pids)
        warm_up(names, task)
        for scenario in scenarios or USUAL:
            count = min(messages, LATENCY_MESSAGES) if scenario in LATENCIES else messages
            able = [adapter for adapter in (PLAINTEXT, *names) if can(adapter, scenario, task)]
            each = dataclasses.replace(task, count=count, partitions=wide if scenario == "wide" else partitions)
            found = rounds_of(scenario, able, each, rounds, console)
            console.print(table(scenario, found, count))
            for line in verdicts(scenario, found):
                console.print(f"  {line}", highlight=False)
            results[scenario] = {name: [dataclasses.asdict(each) for each in every] for name, every in found.items()}
    output.mkdir(parents=True, exist_ok=True)
    (output / "results.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["spark"]:  # a command of its own, with other options
        from bench.spark.main import main as spark_main

        spark_main(sys.argv[2:], prog_name="python -m bench spark")
    else:
        main()
