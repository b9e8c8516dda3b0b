"""``python -m bench``: run each scenario with all adapters in turn (A B C A B C ...)."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any, NamedTuple

import click
import confluent_kafka
from rich.console import Console

from bench.adapters import ADAPTERS, PLAINTEXT, PRODUCING, READING, SCENARIOS, Figures, Task
from bench.adapters.program import SOURCES
from bench.broker import Servers, at_rest, broker, cpu_seconds, landed, loopback_bytes, topic
from bench.environment import Environment, environment, version
from bench.plan import Budget, Estimate, estimate, shares_topic
from bench.report import Rounds, show, table, verdicts
from bench.saved import MEASURED, OtherRunError, Results, Saved
from bench.scenarios import GROUPS
from bench.variants import ALL, applied, base_of, reason_against, variant_of
from kafka_native import Producer
from kafka_native.cli.measurements import number_option

WARM_UP_MESSAGES = 500_000
WARM_UPS = 3
# --quick: a look at the usual scenarios in five minutes, without the programs that Rust compiles.
QUICK = {"messages": 500_000, "rounds": 1, "warm_ups": 1}
QUICK_SCENARIOS = ("produce", "callback", "consume", "poll", "arrow", "latency")
QUICK_ADAPTERS = ("kafka_native", "confluent_kafka", "librdkafka", "java", "franz_go", "raw")
TIMEOUT_S = 180  # a client that is slower has a line in the table
# "spread" makes a thousand topics, "wide" a topic of ten thousand partitions.
USUAL = tuple(scenario for scenario in SCENARIOS if scenario not in ("spread", "wide"))
# pyarrow imports NumPy if it is installed. NumPy's threads spin after their start, on the measured
# cores.
ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
SPREAD_OVER = 100  # consecutive messages for one partition in a topic with many


class MeasurementError(click.ClickException):
    """An adapter that failed, or reported messages that the broker doesn't have."""


def measure(adapter: str, scenario: str, task: Task) -> Figures:
    """Run one adapter once, in a new process, after the broker has finished its earlier work."""
    if adapter == PLAINTEXT:
        adapter, task = "kafka_native", dataclasses.replace(task, tls="")
    text = json.dumps(dataclasses.asdict(task))
    at_rest(task.pids)
    cpu_before, wire_before = cpu_seconds(task.pids), loopback_bytes()
    output = _output([adapter, base_of(scenario)], text)
    figures = Figures(**json.loads(output.splitlines()[-1]))
    if task.pids:  # a cluster of the bench, on this machine
        figures.broker_cpu_seconds = cpu_seconds(task.pids) - cpu_before
        figures.wire_bytes = loopback_bytes() - wire_before
    return figures


def _output(arguments: list[str], text: str) -> str:
    """Run the worker process. Its group, which has the programs that it starts, ends with it."""
    command = [sys.executable, "-m", "bench.worker", *arguments, repr(time.time())]
    with subprocess.Popen(
        command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        text=True,
        env={**os.environ, **ONE_BLAS_THREAD},
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(text, TIMEOUT_S)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise MeasurementError(f"no end after {TIMEOUT_S} s") from error
            raise
    if process.returncode:
        raise MeasurementError(errors.strip() or f"exit status {process.returncode}")
    return output


def check_landed(adapter: str, figures: Figures, there: int) -> None:
    """Check that the broker has the messages: flush() is as fast when deliveries fail."""
    if there < figures.count:
        raise MeasurementError(
            f"{adapter} reported {figures.count} messages, the broker has {there}"
        )


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
        count = min(task.count, WARM_UP_MESSAGES)
        short = dataclasses.replace(task, topic=name, count=count, tls="")
        for scenario in ("produce", "consume") * times:
            for adapter in adapters:
                if reason_against(adapter, scenario, short) is None:
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
                except (MeasurementError, confluent_kafka.KafkaException) as error:
                    console.print(f"  {scenario}: {adapter} failed:\n{error}", highlight=False)
                    failed[adapter] = reason_of(error)
                    del found[adapter]
                    continue
                found[adapter].append(figures)
                more = "".join(f", {value:.2f} {name}" for name, value in figures.more.items())
                text = f"{figures.rate:,.0f} msg/s, {figures.cpu_us:.3f} us{more}"
                console.print(f"  {scenario} round {number + 1}: {adapter} {text}", highlight=False)
    return found, failed


def reason_of(error: Exception) -> str:
    """Return why a measurement has no figures. A KafkaException is the bench's own."""
    reason = last_line(str(error))
    if isinstance(error, MeasurementError):
        return reason
    return f"the bench couldn't check it: {reason}"


def last_line(text: str) -> str:
    """Return the last line of an error that isn't indented: lines of a stack may follow it."""
    lines = text.splitlines()
    return next((line for line in reversed(lines) if line and not line[0].isspace()), text)


@contextmanager
def prepared(scenario: str, task: Task) -> Iterator[Task]:
    """Make the topics of a round for scenarios that share them. Other scenarios make their own."""
    base = base_of(scenario)
    if shares_topic(base, task) and base not in READING:
        with topic(task.bootstrap, task.partitions) as name:
            yield dataclasses.replace(task, topic=name)
        return
    if base not in (*READING, "wide"):
        yield task
        return
    writing = dataclasses.replace(task, tls="", whole=False)
    with ExitStack() as topics:
        name = topics.enter_context(topic(task.bootstrap, task.partitions))
        ready = dataclasses.replace(task, topic=name)
        if base in ("wide", "copy"):
            second = topics.enter_context(
                topic(task.bootstrap, 1 if base == "wide" else task.partitions)
            )
            ready = dataclasses.replace(ready, second_topic=second)
        if base == "wide":
            narrow = dataclasses.replace(writing, topic=ready.second_topic, partitions=1)
            measure("kafka_native", "produce", narrow)
            fill(ready)
        else:
            measure("kafka_native", "produce", dataclasses.replace(writing, topic=name))
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
    producing = base_of(scenario) in PRODUCING and scenario != "spread"
    with ExitStack() as topics:
        before = 0
        if not task.topic:
            more = task.topics if scenario == "spread" else 0
            own = topics.enter_context(topic(task.bootstrap, task.partitions, more))
            task = dataclasses.replace(task, topic=own)
        elif producing:
            before = landed(task.bootstrap, task.topic, task.partitions, 0)
        figures = measure(adapter, scenario, task)
        if producing:
            wanted = before + figures.count
            there = landed(task.bootstrap, task.topic, task.partitions, wanted)
            check_landed(adapter, figures, there - before)
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


def chosen(scenarios: tuple[str, ...], only: tuple[str, ...], *, everything: bool) -> list[str]:
    """Return the scenarios to run: the named ones, those of groups, all, or the usual ones."""
    named = [
        scenario.name
        for group in GROUPS
        if everything or group.name in only
        for scenario in group.scenarios
    ]
    return list(dict.fromkeys([*scenarios, *named])) or list(USUAL)


class Planned(NamedTuple):
    """A scenario with the adapters that can run it, and why the others can't."""

    scenario: str
    task: Task
    able: list[str]
    without: dict[str, str]
    estimated: Estimate


def planned(scenario: str, names: list[str], task: Task, rounds: int, wide: int) -> Planned:
    """Apply a scenario's settings to the task of the run and choose its adapters."""
    if scenario == "wide":
        task = dataclasses.replace(task, partitions=wide)
    each = applied(scenario, task)
    candidates = [*([PLAINTEXT] if variant_of(scenario).tls else []), *names]
    reasons = {adapter: reason_against(adapter, scenario, each) for adapter in candidates}
    able = [adapter for adapter, reason in reasons.items() if reason is None]
    without = {adapter: reason for adapter, reason in reasons.items() if reason is not None}
    estimated = estimate(scenario, able, each, rounds, earlier())
    return Planned(scenario, each, able, without, estimated)


def earlier() -> dict[str, Rounds]:
    """Return the figures of the run that the page shows."""
    return Results.read(MEASURED).scenarios if MEASURED.exists() else {}


def show_plan(console: Console, plans: list[Planned], minutes: int | None) -> None:
    """Print how long each scenario takes, and the reasons of adapters that are left out."""
    for plan in plans:
        console.print(
            f"{plan.estimated.seconds / 60:5.1f} min  {plan.scenario}: {', '.join(plan.able)}"
        )
        for adapter, reason in plan.without.items():
            console.print(f"           without {adapter}: {reason}", highlight=False)
    total = sum(plan.estimated.seconds for plan in plans) / 60
    parts = f", {total / minutes:.1f} parts of {minutes} minutes" if minutes else ""
    console.print(f"{total:5.0f} min for {len(plans)} scenarios{parts}")


def run(
    plans: list[Planned], saved: Saved, rounds: int, budget: Budget, console: Console
) -> list[str]:
    """Measure the scenarios and save each one's figures. Return those that didn't fit."""
    left = []
    for plan in plans:
        scenario = plan.scenario
        if not budget.allows(plan.estimated):
            left.append(scenario)
            continue
        for adapter, reason in plan.without.items():
            console.print(f"  {scenario}: without {adapter}: {reason}", highlight=False)
        found, failed = rounds_of(scenario, plan.able, plan.task, rounds, console)
        made = table(scenario, found, plan.task.count, failed)
        show(console, made, verdicts(scenario, found), found)
        saved.add(scenario, found, failed, plan.without)
    return left


@click.command()
@click.argument("scenarios", nargs=-1, type=click.Choice(ALL))
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([group.name for group in GROUPS]),
    help="The scenarios of a section of the page. Repeat it for several.",
)
@click.option("--all", "everything", is_flag=True, help="All scenarios, and then the page.")
@click.option("--plan", is_flag=True, help="Print how long each scenario takes, and end.")
@click.option("--minutes", type=click.IntRange(1), help="Start no scenario that ends later.")
@click.option("--resume", is_flag=True, help="Add to the results, without those scenarios.")
@click.option(
    "--bootstrap",
    envvar="BOOTSTRAP",
    help="The cluster (default: a new Apache Kafka).",
)
@number_option("--messages", 3_000_000, minimum=100)
@number_option("--size", 100)
@number_option("--partitions", 2)
@number_option("--rounds", 5)
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
    only: tuple[str, ...],
    everything: bool,
    plan: bool,
    minutes: int | None,
    resume: bool,
    bootstrap: str | None,
    rounds: int,
    wide: int,
    delay: int,
    adapters: str,
    quick: bool,
    output: Path,
    messages: int,
    **settings: Any,
) -> None:
    """Compare kafka_native with other clients and with the broker's limit, on this machine.

    Rates depend on the machine and the time. Compare the ratios within a run, and CPU per message.
    """
    console = Console(width=110)
    warm_ups = WARM_UPS
    if quick:
        messages, rounds, warm_ups = QUICK["messages"], QUICK["rounds"], QUICK["warm_ups"]
        scenarios = scenarios or QUICK_SCENARIOS
        adapters = ",".join(each for each in adapters.split(",") if each in QUICK_ADAPTERS)
    path = output / "results.json"
    wanted = chosen(scenarios, only, everything=everything)
    if resume and path.exists():
        done = json.loads(path.read_text(encoding="utf-8"))["scenarios"]
        wanted = [scenario for scenario in wanted if scenario not in done]
    task = Task("", "", messages, **settings)
    if plan:
        # No broker starts and no program is built. The plan is that of a broker with TLS.
        every, task = adapters.split(","), dataclasses.replace(task, tls="yes")
        show_plan(console, [planned(each, every, task, rounds, wide) for each in wanted], minutes)
        return
    whole = everything and not quick and set(ADAPTERS) <= set(adapters.split(","))
    names = usable(adapters, console)
    budget, left = Budget(minutes), []
    saved: Saved | None = None
    for size in sorted({variant_of(scenario).brokers for scenario in wanted}):
        part = [scenario for scenario in wanted if variant_of(scenario).brokers == size]
        tls = any(variant_of(scenario).tls for scenario in part)
        with broker(bootstrap, delay, tls=tls, size=size) as servers:
            console.print(f"Broker: {servers.plain}{f', TLS {servers.tls}' if tls else ''}")
            ready = listening(task, servers)
            try:
                saved = saved or Saved.opened(
                    path, described(servers.version, ready), resume=resume
                )
            except OtherRunError as error:
                raise click.ClickException(f"{path}: {error}") from error
            warm_up(names, ready, warm_ups)
            plans = [planned(scenario, names, ready, rounds, wide) for scenario in part]
            left += run(plans, saved, rounds, budget, console)
    if left:
        console.print(f"Left for the next part, with --resume: {' '.join(left)}")
    if path.exists():
        from bench.page import publish  # it imports Matplotlib

        console.print(f"Page: {publish(path, whole=whole and not left)}")
    failed = saved.failed if saved else {}
    ours = [each for each in wanted if "kafka_native" in failed.get(each, {})]
    if ours:
        raise click.ClickException(f"kafka_native failed in {', '.join(ours)}")


def listening(task: Task, servers: Servers) -> Task:
    """Return the task with the listeners and the processes of a cluster."""
    return dataclasses.replace(
        task, bootstrap=servers.plain, tls=servers.tls, ca=servers.ca, pids=servers.pids
    )


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
