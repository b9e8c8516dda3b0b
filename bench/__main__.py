"""``python -m bench``: run each scenario with all adapters in turn (A B C A B C ...)."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import click
import confluent_kafka
from rich.console import Console

from bench.adapters import ADAPTERS, PRODUCING, READING, SCENARIOS, TLS, Figures, Task
from bench.adapters.program import SOURCES
from bench.broker import at_rest, broker, landed, topic
from bench.environment import Environment, environment, version
from bench.report import LATENCIES, Rounds, show, table, verdicts
from kafka_native import Producer
from kafka_native.cli.measurements import number_option

LATENCY_MESSAGES = 5000
WARM_UP_MESSAGES = 500_000
WARM_UPS = 3
# --quick: a look at the usual scenarios in five minutes, without the programs that Rust compiles.
QUICK = {"messages": 500_000, "rounds": 1, "warm_ups": 1}
QUICK_SCENARIOS = ("produce", "callback", "consume", "poll", "arrow", "latency")
QUICK_ADAPTERS = ("kafka_native", "confluent_kafka", "librdkafka", "java", "franz_go", "raw")
TIMEOUT_S = 600
# "spread" makes a thousand topics, "wide" a topic of ten thousand partitions.
USUAL = tuple(scenario for scenario in SCENARIOS if scenario not in ("spread", "wide", *TLS))
PLAINTEXT = "plaintext"  # the name of kafka_native without TLS, next to the TLS measurements
# pyarrow imports NumPy if it is installed. NumPy's threads spin after their start, on the measured
# cores.
ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
SPREAD_OVER = 100  # consecutive messages for one partition in a topic with many


class MeasurementError(click.ClickException):
    """An adapter that failed, or reported messages that the broker doesn't have."""


def measure(adapter: str, scenario: str, task: Task) -> Figures:
    """Run one adapter once, in a new process, after the broker has finished its earlier work."""
    if adapter == PLAINTEXT or scenario not in TLS:
        task = dataclasses.replace(task, tls="")
    adapter = "kafka_native" if adapter == PLAINTEXT else adapter
    scenario = TLS.get(scenario, scenario)
    command = [sys.executable, "-m", "bench.worker", adapter, scenario]
    text = json.dumps(dataclasses.asdict(task))
    env = {**os.environ, **ONE_BLAS_THREAD}
    at_rest(task.pids)
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=env,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(f"no end after {TIMEOUT_S} s") from error
    if done.returncode:
        raise MeasurementError(done.stderr.strip() or f"exit status {done.returncode}")
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def check_landed(adapter: str, figures: Figures, there: int) -> None:
    """Check that the broker has the messages: flush() is as fast when deliveries fail."""
    if there < figures.count:
        raise MeasurementError(
            f"{adapter} reported {figures.count} messages, the broker has {there}"
        )


def can(adapter: str, scenario: str, task: Task) -> bool:
    """Whether an adapter supports a scenario with the task's options."""
    if scenario in TLS:
        return bool(task.tls) and adapter in (PLAINTEXT, "kafka_native", "confluent_kafka", "raw")
    if adapter == PLAINTEXT:
        return False
    if adapter == "raw" and (task.codec != "none" or task.payload != "x"):
        return False  # prebuilt compressed requests are no ceiling for a client that compresses
    if adapter not in ("kafka_native", "confluent_kafka") and task.threads > 1:
        return False
    if adapter == "franz_go" and scenario in ("group", "cold") and task.protocol != "classic":
        return False
    return hasattr(importlib.import_module(f"bench.adapters.{adapter}"), scenario)


def usable(adapters: str, console: Console) -> list[str]:
    """The requested adapters that can run here. The reason for each other one is printed."""
    found = []
    for adapter in adapters.split(","):
        module = importlib.import_module(f"bench.adapters.{adapter}")
        reason = module.missing() if hasattr(module, "missing") else None
        if reason:
            console.print(f"Without {adapter}: {reason}")
        else:
            found.append(adapter)
    return found


def warm_up(adapters: list[str], task: Task, times: int) -> None:
    """Run each adapter a few times unrecorded: a new broker is slow for its first clients.

    The codec and the payload are those of the run, because compressed batches use other code of the
    broker.
    """
    with topic(task.bootstrap, task.partitions) as name:
        short = dataclasses.replace(task, topic=name, count=min(task.count, WARM_UP_MESSAGES))
        for scenario in ("produce", "consume") * times:
            for adapter in adapters:
                if can(adapter, scenario, short):
                    # A failure will be a line of the table.
                    with suppress(MeasurementError):
                        measure(adapter, scenario, short)


def rounds_of(
    scenario: str, adapters: list[str], task: Task, rounds: int, console: Console
) -> tuple[Rounds, dict[str, str]]:
    """Run all adapters in turn, ``rounds`` times, on a new topic for each round.

    Return the figures, and the reasons of the adapters that failed in a round: they are left out.

    Consumers read the result of one produce run. Each round begins with another adapter, because
    the broker still writes to its disk while the first one reads.
    """
    found: Rounds = {adapter: [] for adapter in adapters}
    failed: dict[str, str] = {}
    for number in range(rounds if adapters else 0):
        first = number % len(adapters)
        with prepared(scenario, task) as ready:
            for adapter in adapters[first:] + adapters[:first]:
                if adapter in failed:
                    continue
                try:
                    figures = once(adapter, scenario, ready)
                except MeasurementError as error:
                    console.print(f"  {scenario}: {adapter} failed:\n{error}", highlight=False)
                    failed[adapter] = str(error).splitlines()[-1]
                    del found[adapter]
                    continue
                found[adapter].append(figures)
                more = "".join(f", {value:.2f} {name}" for name, value in figures.more.items())
                text = f"{figures.rate / 1e6:.2f} M msg/s, {figures.cpu_us:.3f} us{more}"
                console.print(f"  {scenario} round {number + 1}: {adapter} {text}", highlight=False)
    return found, failed


@contextmanager
def prepared(scenario: str, task: Task) -> Iterator[Task]:
    """Make the topics of a round for scenarios that read. Other scenarios make their own."""
    if TLS.get(scenario, scenario) not in (*READING, "wide"):
        yield task
        return
    with ExitStack() as topics:
        ready = dataclasses.replace(
            task, topic=topics.enter_context(topic(task.bootstrap, task.partitions))
        )
        if scenario in ("wide", "copy"):
            second = topics.enter_context(
                topic(task.bootstrap, 1 if scenario == "wide" else task.partitions)
            )
            ready = dataclasses.replace(ready, second_topic=second)
        if scenario == "wide":
            measure(
                "kafka_native",
                "produce",
                dataclasses.replace(task, topic=ready.second_topic, partitions=1),
            )
            fill(ready)
        else:
            measure("kafka_native", "produce", ready)
        yield ready


def fill(task: Task) -> None:
    """Produce equally many messages to each partition, several in a row to make larger batches."""
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
    """Run one measurement, on a new topic unless the task has one."""
    if task.topic:
        return measure(adapter, scenario, task)
    more = task.topics if scenario == "spread" else 0
    with topic(task.bootstrap, task.partitions, more) as own:
        figures = measure(adapter, scenario, dataclasses.replace(task, topic=own))
        if TLS.get(scenario, scenario) in PRODUCING and scenario != "spread":
            check_landed(
                adapter, figures, landed(task.bootstrap, own, task.partitions, figures.count)
            )
        return figures


def peer_versions() -> dict[str, str]:
    """The versions of the peers that Go and Cargo fetch."""
    go = (SOURCES / "franz_go" / "go.mod").read_text(encoding="utf-8")
    cargo = (SOURCES / "rust" / "Cargo.toml").read_text(encoding="utf-8")
    found = re.findall(r"(franz-go) v(\S+)", go)
    return dict(found + re.findall(r'^(krafka|rdkafka) = .*?"=([^"]+)"', cargo, re.MULTILINE))


def described(kafka: str, task: Task) -> Environment:
    """The machine, the versions and the settings of this run."""
    versions = {
        "confluent_kafka": version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
        "aiokafka": version("aiokafka"),
        "kafka-python": version("kafka-python"),
        "kafkarrow": version("kafkarrow"),
        **peer_versions(),
        "Apache Kafka and its client": kafka,
    }
    names = ("count", "size", "partitions", "acks", "idempotent", "codec", "payload", "threads")
    settings = {name: getattr(task, name) for name in names}
    return environment(versions, settings, shlex.join(["python", "-m", "bench", *sys.argv[1:]]))


@click.command()
@click.argument("scenarios", nargs=-1, type=click.Choice(SCENARIOS))
@click.option(
    "--bootstrap",
    envvar="BOOTSTRAP",
    help="The cluster (default: a new Apache Kafka).",
)
@number_option("--messages", 3_000_000, minimum=100)
@number_option("--size", 100)
@number_option("--partitions", 2)
@number_option("--rounds", 3)
@click.option("--acks", default="1", show_default=True, type=click.Choice(["0", "1", "all"]))
@click.option("--idempotent", is_flag=True, help="enable.idempotence, with acks=all.")
@click.option("--codec", default="none", show_default=True, help="compression.type")
@click.option("--payload", default="x", show_default=True, type=click.Choice(["x", "json"]))
@number_option("--threads", 1, "Python threads in produce.")
@number_option("--topics", 1000, "Topics of spread.")
@number_option("--wide", 10_000, "Partitions of wide.")
@click.option(
    "--protocol", default="classic", show_default=True, type=click.Choice(["classic", "consumer"])
)
@click.option(
    "--delay",
    default=0,
    show_default=True,
    help="group.initial.rebalance.delay.ms of a new broker.",
)
@click.option("--adapters", default=",".join(ADAPTERS), show_default=True)
@click.option("--quick", is_flag=True, help="Some scenarios, few messages, one round.")
@click.option(
    "--output",
    default="build/bench",
    type=click.Path(file_okay=False, path_type=Path),
    show_default=True,
)
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
    quick: bool,
    output: Path,
) -> None:
    """Compare kafka_native with other clients and with the broker's limit, on this machine.

    Rates depend on the machine and the time. Compare the ratios within a run, and CPU per message.
    """
    console = Console(width=110)
    results: dict[str, object] = {}
    failed: dict[str, dict[str, str]] = {}
    warm_ups = WARM_UPS
    if quick:
        messages, rounds, warm_ups = QUICK["messages"], QUICK["rounds"], QUICK["warm_ups"]
        scenarios = scenarios or QUICK_SCENARIOS
        adapters = ",".join(each for each in adapters.split(",") if each in QUICK_ADAPTERS)
    with broker(bootstrap, delay, tls=bool(TLS.keys() & set(scenarios))) as servers:
        console.print(f"Broker: {servers.plain}{f', TLS {servers.tls}' if servers.tls else ''}")
        names = usable(adapters, console)
        task = Task(
            servers.plain,
            "",
            messages,
            size,
            partitions,
            acks,
            idempotent,
            codec,
            payload,
            threads,
            topics,
        )
        task = dataclasses.replace(
            task, protocol=protocol, tls=servers.tls, ca=servers.ca, pids=servers.pids
        )
        warm_up(names, task, warm_ups)
        for scenario in scenarios or USUAL:
            count = min(messages, LATENCY_MESSAGES) if scenario in LATENCIES else messages
            able = [adapter for adapter in (PLAINTEXT, *names) if can(adapter, scenario, task)]
            each = dataclasses.replace(
                task, count=count, partitions=wide if scenario == "wide" else partitions
            )
            found, failed[scenario] = rounds_of(scenario, able, each, rounds, console)
            made = table(scenario, found, count, failed[scenario])
            results[scenario] = show(console, made, verdicts(scenario, found), found)
    output.mkdir(parents=True, exist_ok=True)
    saved = {
        "environment": described(servers.version, task),
        "scenarios": results,
        "failed": {scenario: reasons for scenario, reasons in failed.items() if reasons},
    }
    (output / "results.json").write_text(json.dumps(saved, indent=2) + "\n")
    ours = [scenario for scenario, reasons in failed.items() if "kafka_native" in reasons]
    if ours:
        raise click.ClickException(f"kafka_native failed in {', '.join(ours)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["spark"]:  # a separate command with other options
        from bench.spark.main import main as spark_main

        spark_main(sys.argv[2:], prog_name="python -m bench spark")
    elif sys.argv[1:2] == ["codecs"]:
        from bench.codecs.main import main as codecs_main

        codecs_main(sys.argv[2:], prog_name="python -m bench codecs")
    elif sys.argv[1:2] == ["micro"]:
        from bench.micro.main import main as micro_main

        micro_main(sys.argv[2:], prog_name="python -m bench micro")
    elif sys.argv[1:2] == ["page"]:
        from bench.page import main as page_main

        page_main(sys.argv[2:], prog_name="python -m bench page")
    elif sys.argv[1:2] == ["reliability"]:
        from bench.reliability_page import main as reliability_main

        reliability_main(sys.argv[2:], prog_name="python -m bench reliability")
    elif sys.argv[1:2] == ["recovery"]:
        from bench.recovery.main import main as recovery_main

        recovery_main(sys.argv[2:], prog_name="python -m bench recovery")
    else:
        main()
