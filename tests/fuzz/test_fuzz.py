"""Every fuzz target builds and runs briefly. For long runs use `tests/fuzz/run.py --runs N`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
CORPUS_MAX_BYTES = 200_000
RUNS = 3000


def load_runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kn_fuzz_run", HERE / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUNNER = load_runner()


@pytest.fixture(scope="module")
def fuzzer() -> ModuleType:
    if RUNNER.clang() is None:
        pytest.skip("the fuzz targets need clang, which is not installed")
    source = (
        "int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { (void)d; (void)n; "
        "return 0; }"
    )
    command = [RUNNER.clang(), f"-fsanitize={RUNNER.SANITIZERS}", "-x", "c", "-", "-o", "/dev/null"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this clang has no libFuzzer: {done.stderr.strip().splitlines()[-1]}")
    return RUNNER


@pytest.mark.parametrize("target", RUNNER.TARGETS)
def test_target_runs_without_a_finding(
    fuzzer: ModuleType, target: str, capfd: pytest.CaptureFixture[str]
) -> None:
    executed, clean = fuzzer.run(target, RUNS, 0, seed=1)
    assert clean, capfd.readouterr().err
    assert executed >= RUNS


def test_every_target_has_seeds_and_the_corpus_is_small() -> None:
    files = [path for path in (HERE / "corpus").rglob("*") if path.is_file()]
    assert {path.parent.name for path in files} == set(RUNNER.TARGETS)
    assert sum(path.stat().st_size for path in files) < CORPUS_MAX_BYTES


def test_the_runner_refuses_an_unknown_target() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "run.py"), "--runs", "1", "nonsense"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "nonsense" in done.stderr
