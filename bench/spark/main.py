"""``python -m bench spark``: run each scenario with all contestants in turn (A B A B ...)."""

from __future__ import annotations

import dataclasses
import json
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from bench.adapters import Figures
from bench.broker import broker, landed, topic
from bench.report import Rounds, show
from bench.spark import AVRO, AVRO_SCHEMA, CONTESTANTS, SCENARIOS, TRIGGERING, WRITING, Work
from bench.spark.report import table, verdicts
from kafka_native import Producer
from kafka_native.cli.measurements import number_option

TIMEOUT_S = 900
STEP = 1000  # consecutive records of one partition; also the size of a batch
POOL = 10_000
WARM_UP_MESSAGES = 1_000_000
USUAL = tuple(name for name in SCENARIOS if name != "to_kafka")


class Failed(click.ClickException):
    """A scenario has no figures. The other scenarios go on."""


class Driver:
    """The process of a contestant."""

    def __init__(self, contestant: str, cores: int, memory: str, log: Path) -> None:
        self.contestant = contestant
        self._log = log
        command = [sys.executable, "-m", "bench.spark.worker", contestant, str(cores), memory]
        with log.open("w") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True
            )
        self._answer()  # waits until its session is ready

    def measure(self, scenario: str, work: Work) -> Figures:
        """Run one scenario once, with a new folder."""
        assert self._process.stdin is not None
        folder = tempfile.mkdtemp(prefix="kafka-native-bench-")
        try:
            request = {
                "scenario": scenario,
                "work": dataclasses.asdict(dataclasses.replace(work, folder=folder)),
            }
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer = self._answer()
            if "failed" in answer:
                raise Failed(f"{self.contestant} {scenario}: {answer['failed'].strip()[-3000:]}")
            return Figures(**answer)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], TIMEOUT_S)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self._process.kill()
            why = "ended" if ready else f"said nothing for {TIMEOUT_S} s"
            raise click.ClickException(
                f"{self.contestant} {why}:\n{self._log.read_text(errors='replace')[-4000:]}"
            )
        return json.loads(line)

    def close(self) -> None:
        """End the process and its JVM."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()


def event(number: int, size: int) -> bytes:
    """A JSON event of a web shop, ``size`` bytes long."""
    kind, country = (
        ("view", "click", "cart", "buy")[number % 4],
        ("de", "fr", "us", "jp")[number // 7 % 4],
    )
    text = (
        f'{{"user":"user-{number * 7919 % 100_000:05}","type":"{kind}",'
        f'"page":"/products/{number % 5000}",'
        f'"country":"{country}","price":{number * 31 % 10_000 / 100}}}'
    )
    return text.ljust(size).encode()[:size]


def avro_events(size: int) -> list[bytes]:
    """The events in Avro, without padding."""
    import pyarrow

    from kafka_native.codecs import AvroEncoder

    rows = [json.loads(event(number, size)) for number in range(POOL)]
    encoded = AvroEncoder(AVRO_SCHEMA).encode(pyarrow.Table.from_pylist(rows))
    values: list[bytes] = pyarrow.chunked_array(encoded).to_pylist()
    return values


def fill(work: Work, partitions: int, *, is_avro: bool) -> None:
    """Produce the topic's records: different keys, values from a pool, STEP records in a batch."""
    values = (
        avro_events(work.size) if is_avro else [event(number, work.size) for number in range(POOL)]
    )
    config = {
        "compression.type": work.codec,
        "batch.num.messages": STEP,
        "linger.ms": 50,
        "max.block.ms": 60_000,
    }
    with Producer({"bootstrap.servers": work.bootstrap, **config}) as producer:
        for first in range(0, work.count, STEP):
            count = min(STEP, work.count - first)
            keys = [b"key-%010d" % number for number in range(first, first + count)]
            some = [values[number % POOL] for number in range(first, first + count)]
            done = 0
            while done < count:
                where = first // STEP % partitions
                done += producer.produce_many(
                    work.source, some[done:], keys[done:], partition=where
                )
        left = producer.flush(TIMEOUT_S)
    if left:
        raise click.ClickException(f"{left} messages were not delivered")


@contextmanager
def filled(work: Work, partitions: int, *, is_avro: bool = False) -> Iterator[Work]:
    """Make a source with its records for the block."""
    with topic(work.bootstrap, partitions) as name:
        ready = dataclasses.replace(work, source=name)
        fill(ready, partitions, is_avro=is_avro)
        yield ready


def sources_of(
    stack: ExitStack, warm: Work, work: Work, partitions: int, *, is_avro: bool
) -> tuple[Work, Work]:
    """Make the sources to warm up and to measure."""
    ready = stack.enter_context(filled(work, partitions, is_avro=is_avro))
    if warm.count >= work.count:
        return ready, ready
    return stack.enter_context(filled(warm, partitions, is_avro=is_avro)), ready


def once(driver: Driver, scenario: str, work: Work, partitions: int) -> Figures:
    """Run one measurement. A rate counts only if each record arrived exactly once."""
    if scenario not in WRITING:
        figures = driver.measure(scenario, work)
        there = figures.count
    else:
        with topic(work.bootstrap, partitions) as target:
            figures = driver.measure(scenario, dataclasses.replace(work, target=target))
            there = landed(work.bootstrap, target, partitions, figures.count)
    wanted = figures.count if scenario in TRIGGERING else work.count
    if there < wanted or (there > wanted and scenario not in TRIGGERING):
        raise Failed(f"{driver.contestant} {scenario}: {there} records, {wanted} were to come")
    return figures


def rounds_of(
    scenario: str,
    drivers: dict[str, Driver],
    warm: Work,
    work: Work,
    partitions: int,
    rounds: int,
    console: Console,
) -> Rounds:
    """Run each contestant once to warm up, then in turn."""
    able = [driver for name, driver in drivers.items() if name in SCENARIOS[scenario]]
    if scenario not in TRIGGERING:  # these scenarios warm up themselves
        able = [driver for driver in able if warms_up(driver, scenario, warm, partitions, console)]
    found: Rounds = {driver.contestant: [] for driver in able}
    for number in range(rounds):
        for driver in able:
            figures = once(driver, scenario, work, partitions)
            found[driver.contestant].append(figures)
            text = f"{figures.rate / 1e6:.2f} M rows/s, {figures.cpu_us:.2f} us"
            more = "".join(f", {name} {value:.0f}" for name, value in figures.more.items())
            console.print(
                f"  {scenario} round {number + 1}: {driver.contestant} {text}{more}",
                highlight=False,
            )
    return found


def warms_up(driver: Driver, scenario: str, warm: Work, partitions: int, console: Console) -> bool:
    """Run a scenario once unrecorded. If it fails, print the reason and return False."""
    try:
        once(driver, scenario, warm, partitions)
    except Failed as error:
        console.print(f"Without {error.message}", highlight=False, markup=False)
        return False
    return True


def usable(names: str, scenarios: tuple[str, ...], console: Console) -> list[str]:
    """The requested contestants that can run here and have a scenario. Others are printed."""
    from tests.spark import jvm

    found = []
    for name in names.split(","):
        if name not in CONTESTANTS:
            raise click.BadParameter(
                f"{name} is none of {', '.join(CONTESTANTS)}", param_hint="--contestants"
            )
        why = jvm.missing() if name == "jvm" else None
        if why:
            console.print(f"Without {name}: {why}")
        elif any(name in SCENARIOS[scenario] for scenario in scenarios):
            found.append(name)
    return found


@click.command()
@click.argument("scenarios", nargs=-1, type=click.Choice(tuple(SCENARIOS)))
@click.option(
    "--bootstrap",
    envvar="BOOTSTRAP",
    help="The cluster (default: a new Apache Kafka).",
)
@number_option("--messages", 5_000_000, minimum=1000)
@number_option("--size", 100, "Bytes of a value.", minimum=20)
@number_option("--partitions", 4)
@click.option("--codec", default="lz4", show_default=True, help="compression.type of the topic.")
@number_option("--rounds", 3)
@click.option("--triggers", default=30, show_default=True, type=click.IntRange(1, 50))
@number_option("--step", 4000, "Records of a trigger.")
@number_option("--cores", 2, "local[CORES]")
@click.option("--memory", default="4g", show_default=True, help="spark.driver.memory")
@click.option("--contestants", default=",".join(CONTESTANTS), show_default=True)
@click.option(
    "--output", default="build/bench-spark", type=click.Path(file_okay=False, path_type=Path)
)
def main(
    scenarios: tuple[str, ...],
    bootstrap: str | None,
    messages: int,
    size: int,
    partitions: int,
    codec: str,
    rounds: int,
    triggers: int,
    step: int,
    cores: int,
    memory: str,
    contestants: str,
    output: Path,
) -> None:
    """Compare with Spark's own Kafka connector, on this machine.

    Rates depend on the machine and the time. Compare the ratios within a run, and the CPU per row.
    """
    console = Console(width=130)
    chosen = scenarios or USUAL
    if 2 * triggers * step > messages and set(TRIGGERING) & set(chosen):
        raise click.BadParameter(
            f"{2 * triggers} triggers of {step} records need as many, there are {messages}",
            param_hint="--messages",
        )
    output.mkdir(parents=True, exist_ok=True)
    results = {}
    with ExitStack() as stack:
        servers = stack.enter_context(broker(bootstrap)).plain
        console.print(f"Broker: {servers}")
        work = Work(servers, "", "", "", messages, size, codec, triggers, step)
        warm = dataclasses.replace(work, count=min(messages, WARM_UP_MESSAGES))
        sources = {
            is_avro: sources_of(stack, warm, work, partitions, is_avro=is_avro)
            for is_avro in {scenario in AVRO for scenario in chosen}
        }
        drivers = {}
        for name in usable(contestants, chosen, console):
            drivers[name] = Driver(name, cores, memory, output / f"{name}.log")
            stack.callback(drivers[name].close)
        for scenario in chosen:
            try:
                sizes = sources[scenario in AVRO]
                found = rounds_of(scenario, drivers, *sizes, partitions, rounds, console)
            except Failed as error:
                console.print(f"Without {scenario}: {error.message}", highlight=False, markup=False)
                continue
            if not found:
                continue
            rows = (
                f"{triggers} triggers of {step:,} rows"
                if scenario in TRIGGERING
                else f"{messages:,} rows"
            )
            made = table(scenario, found, f"{scenario}: {rows}")
            results[scenario] = show(console, made, verdicts(scenario, found), found)
            (output / "results.json").write_text(json.dumps(results, indent=2) + "\n")
