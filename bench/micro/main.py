"""``python -m bench micro``: counts instructions, and compares them with the budget."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Console
from rich.table import Table

from bench.micro.cases import CASES
from kafka_native.cli.mock import mock_cluster

FOLDER = Path(__file__).parent
BUDGET = FOLDER / "budget.json"
TOLERANCE = 0.05
TIMEOUT_S = 600
DUMP = re.compile(r"^desc: Trigger: Client Request: (\w+)$.*^totals: (\d+)$", re.M | re.S)


def missing() -> str | None:
    """Why instructions can't be counted here, or None."""
    absent = [program for program in ("valgrind", "cc") if shutil.which(program) is None]
    return (
        f"{' and '.join(absent)} not installed (apt-get install valgrind gcc)" if absent else None
    )


def build() -> dict[str, str]:
    """What the figures depend on, apart from the code."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "compiler": _output("cc", "-dumpfullversion"),
        "valgrind": _output("valgrind", "--version"),
    }


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def counted(names: list[str]) -> dict[str, float]:
    """Run cases, and return the instructions of one operation of each."""
    with TemporaryDirectory() as folder, mock_cluster() as bootstrap:
        library = Path(folder) / "counting.so"
        source = FOLDER / "counting.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
        command = [*valgrind, f"--callgrind-out-file={folder}/out", sys.executable, "-m"]
        command += ["bench.micro.child", str(library), bootstrap, *names]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            check=False,
        )
        if done.returncode:
            raise click.ClickException(done.stderr[-4000:])
        operations: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
        texts = [each.read_text() for each in Path(folder).glob("out.*")]
    totals = {found[1]: int(found[2]) for text in texts if (found := DUMP.search(text))}
    return {name: totals[name] / operations[name] for name in names}


def exceeded(figures: dict[str, float], budget: dict[str, float]) -> list[str]:
    """What is wrong: a figure above its budget, or one without a budget."""
    wrong = []
    for name, figure in figures.items():
        allowed = budget.get(name)
        if allowed is None:
            wrong.append(f"{name} has no budget: run `python -m bench micro --write`")
        elif figure > allowed * (1 + TOLERANCE):
            wrong.append(f"{name} takes {figure:.0f} instructions, its budget is {allowed:.0f}")
    return wrong


@click.command()
@click.argument("cases", nargs=-1, type=click.Choice(list(CASES)))
@click.option("--write", is_flag=True, help="Make the figures the budget.")
def main(cases: tuple[str, ...], write: bool) -> None:
    """Count the instructions of operations, and compare them with bench/micro/budget.json.

    A figure that is twice more than 5 % above its budget ends it with status 1: how many records a
    fetch brings changes the figures of consumers a little. Figures of another Python, compiler or
    processor aren't compared.
    """
    if reason := missing():
        raise click.ClickException(reason)
    names, here = list(cases or CASES), build()
    figures = counted(names)
    saved = json.loads(BUDGET.read_text())
    budget: dict[str, float] = saved["budget"]
    if again := [name for name in names if exceeded({name: figures[name]}, budget)]:
        for name, figure in counted(again).items():
            figures[name] = min(figure, figures[name])
    show(figures, budget)
    if write:
        budget |= {name: round(figure, 1) for name, figure in figures.items()}
        BUDGET.write_text(json.dumps({"build": here, "budget": budget}, indent=2) + "\n")
    elif saved["build"] != here:
        click.echo(f"The budget is that of another build: {saved['build']}, not {here}.")
    elif wrong := exceeded(figures, budget):
        raise click.ClickException("\n".join(wrong))


def show(figures: dict[str, float], budget: dict[str, float]) -> None:
    table = Table("operation", "instructions", "budget")
    for name, figure in figures.items():
        allowed = budget.get(name)
        table.add_row(name, f"{figure:,.1f}", "" if allowed is None else f"{allowed:,.1f}")
    Console().print(table)
