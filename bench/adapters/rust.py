"""Builds the programs of peers in Rust."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from bench.adapters import Figures, Task
from bench.adapters.program import BUILT, SOURCES, run

# Cargo.lock has the hashes of all crates.
BUILD = ["build", "--release", "--locked"]


@cache
def missing() -> str | None:
    """The reason why the programs can't run here, or None."""
    cargo = shutil.which("cargo")
    if cargo is None:
        return "no Rust (https://rustup.rs)"
    BUILT.mkdir(parents=True, exist_ok=True)
    command = [cargo, *BUILD, "--target-dir", str(_target())]
    done = subprocess.run(
        command, cwd=SOURCES / "rust", capture_output=True, text=True, check=False
    )
    return f"cargo build failed: {done.stderr[-2000:]}" if done.returncode else None


def _target() -> Path:
    return BUILT.absolute() / "rust"


def built(program: str) -> bool:
    """Whether a peer's program exists."""
    return _path(program).exists()


def _path(program: str) -> Path:
    return _target() / "release" / program


def figures_of(program: str, scenario: str, task: Task) -> Figures:
    """Run a scenario with the program of a peer."""
    return run([_path(program)], scenario, task)
