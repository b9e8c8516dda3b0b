"""Every fuzz target builds and runs briefly. For long runs use `tests/fuzz/run.py --runs N`."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.waiting import wait_for

HERE = Path(__file__).parent
CORPUS_MAX_BYTES = 200_000
RUNS = 3000


def load_runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kn_fuzz_run", HERE / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


RUNNER = load_runner()


TOOLS = [
    pytest.param("clang", marks=pytest.mark.slow),
    "gcc",
]
# A bug behind three bytes in a row: only a driver that follows the coverage finds it soon.
PLANTED = """
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3 || data[0] != 'K') return 0;
    if (data[1] != 'a') return 0;
    if (data[2] != 'f') return 0;
    %s
    return 0;
}
"""
# Runs a program that is built already as the target "span".
STOPPABLE = """
import importlib.util, pathlib, sys
source, folder, program, toolchain = sys.argv[1:]
spec = importlib.util.spec_from_file_location("kn_fuzz_run", source)
runner = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runner)
runner.BUILD = pathlib.Path(folder)
runner.LEDGER = runner.BUILD / "ledger.jsonl"
runner.build = lambda name, tools: pathlib.Path(program)
sys.argv = [source, "--runs", "1000000000000", "--toolchain", toolchain, "span", "header"]
sys.exit(runner.main())
"""
BUGS = {
    "overflow": ("return data[size];", "heap-buffer-overflow"),
    "undefined": ("return 1 << (int)(size + 40);", "shift exponent"),
    "check": ("abort();", ""),
    "endless": ("for (volatile int i = 0; i < 2; i *= 1);", "longer than the time limit"),
}


@pytest.fixture(scope="module", params=TOOLS)
def tools(request: pytest.FixtureRequest) -> Any:
    try:
        found = RUNNER.toolchain(request.param)
    except FileNotFoundError as error:
        pytest.skip(f"the fuzz targets can't be built: {error}")
    if request.param == "clang" and not RUNNER.has_libfuzzer(found.compiler):
        pytest.skip("this clang has no libFuzzer")
    return found


@pytest.mark.parametrize("target", RUNNER.TARGETS)
def test_target_runs_without_a_finding(
    tools: Any, target: str, capfd: pytest.CaptureFixture[str]
) -> None:
    result = RUNNER.run(target, RUNS, 0, seed=1, tools=tools)
    assert result.is_clean, capfd.readouterr().err
    assert result.executions >= RUNS


def planted(statement: str, folder: Path, tools: Any = None) -> Path:
    """Return a target with a bug, and its driver."""
    tools = tools or RUNNER.toolchain("gcc")
    source = folder / "planted.c"
    source.write_text(PLANTED % statement)
    flags = ["-g", "-fno-sanitize-recover=undefined"]
    drivers = [] if tools.driver is None else [tools.driver]
    RUNNER.compile_all(tools.compiler, [*flags, *tools.flags], [source], folder)
    RUNNER.compile_all(tools.compiler, [*flags, *tools.link_flags], drivers, folder)
    program = folder / "planted"
    linked = [*(tools.link_flags or tools.flags), *map(str, folder.glob("*.o"))]
    subprocess.run([tools.compiler, *linked, "-o", str(program)], check=True)
    return program


@pytest.mark.parametrize("bug", BUGS)
def test_the_driver_finds_a_bug_and_stores_its_input(bug: str, tmp_path: Path) -> None:
    statement, report = BUGS[bug]
    program = planted(statement, tmp_path)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    options = ["-runs=10000000", "-seed=5", "-timeout=1", f"-artifact_prefix={tmp_path}/found-"]
    done = subprocess.run(
        [str(program), str(corpus), *options], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert report in done.stderr
    (found,) = tmp_path.glob("found-crash-*")
    assert found.read_bytes().startswith(b"Kaf")
    assert any(path.read_bytes().startswith(b"Ka") for path in corpus.iterdir())
    command = [
        str(program),
        str(found),
        "-runs=1",
        "-timeout=1",
        f"-artifact_prefix={tmp_path}/again-",
    ]
    again = subprocess.run(command, capture_output=True, check=False)
    assert again.returncode != 0


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_stopped_run_keeps_its_figures(tools: Any, stop: signal.Signals, tmp_path: Path) -> None:
    program = planted("return 0;", tmp_path, tools)
    build = tmp_path / "build"
    build.mkdir()
    corpus = build / tools.name / "corpus" / "span"
    command = [sys.executable, "-c", STOPPABLE, str(HERE / "run.py"), str(build), str(program)]
    with subprocess.Popen([*command, tools.name], stdout=subprocess.PIPE, text=True) as running:
        wait_for(lambda: corpus.exists() and any(corpus.iterdir()), "no input was kept")
        running.send_signal(stop)
        said, _ = running.communicate()
    (line,) = (build / "ledger.jsonl").read_text().splitlines()
    entry = json.loads(line)
    assert (entry["target"], entry["clean"]) == ("span", True)
    assert entry["executions"] > 0
    assert f"{entry['executions']:,} executions, clean" in said
    assert "header" not in said
    assert running.returncode == 128 + stop


def test_one_run_builds_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def try_to_lock() -> None:
        with (tmp_path / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def compile_all(*_: object) -> None:
        with pytest.raises(BlockingIOError):
            try_to_lock()
        raise NotImplementedError("checked")

    monkeypatch.setattr(RUNNER, "BUILD", tmp_path)
    monkeypatch.setattr(RUNNER, "compile_all", compile_all)
    with pytest.raises(NotImplementedError, match="checked"):
        RUNNER.build("span", RUNNER.toolchain("gcc"))
    try_to_lock()


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
