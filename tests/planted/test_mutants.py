"""Each planted bug of the Python code is caught by its rule."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.processes import guarded
from tests.planted.mutants import MUTANTS, ROOT, Mutant, mutated, plant
from tests.planted.workload import WORKLOADS
from tests.waiting import PROGRAM_S, WAIT_S

SHORT_S = 5.0
"""A bug that stops the client shows after this time."""


def broken_rules(workload: str, folder: Path, patience_s: float) -> set[str]:
    """Run a workload in a folder with a package, and return the rules that it broke."""
    done = subprocess.run(
        guarded(sys.executable, "-m", "tests.planted.workload", workload, str(patience_s)),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    print(done.stdout, done.stderr[-3000:])
    assert done.returncode in (0, 1), f"{workload} ended with {done.returncode}"
    found = {line.split(":")[0] for line in done.stdout.splitlines()}
    assert bool(found) == bool(done.returncode), "the workload ended with an error of its own"
    return found


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_has_the_lines_that_it_replaces_and_compiles(mutant: Mutant) -> None:
    compile(mutated(mutant), mutant.file, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_of_the_python_code_is_caught(
    mutant: Mutant, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    plant(mutant, tmp_path)
    assert broken_rules(mutant.workload, tmp_path, SHORT_S) & mutant.rules
    record_property("caught", mutant.name)


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_workload_without_a_bug_breaks_no_rule(workload: str) -> None:
    assert broken_rules(workload, ROOT, WAIT_S) == set()
