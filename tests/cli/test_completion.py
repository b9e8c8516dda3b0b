"""Completed names from the network never become a command, an option or several words."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class

from kafka_native.cli import completion
from kafka_native.cli.app import PROGRAM, cli
from kafka_native.mock import MockCluster
from tests.cli.running import ROOT, environment, invoke, run

GOOD = ["xa", "xb.c_d-1", "x_", "X9"]
COMMANDS = [
    "$(touch {})",
    "`touch {}`",
    ";touch {};",
    "|touch {}",
    "&touch {}&",
    "\ntouch {}\n",
    "(touch {})",
]
BAD = [
    *(f"x{each}" for each in COMMANDS),
    "x y", "x*", "x?", "x[a]", "x{a,b}", "x~", "x#y", "x!y", "x<y", "x>y", "x'y", 'x"y', "x\\y", "x=y", "x:y", "x,y",
    "x\ty", "x\ny", "x\rdir,/", "x\x1b[31m", "x\x9b", "x\u202ey", "xé", "x\u0660", "x\n", "x/../y", "x\nfile,x",
    "-y", "--yes", "-x", "~x", "*", "", "x" * 256, "x" * 30_000,
]  # fmt: skip
SHELLS = ["bash", "zsh", "fish"]


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "made"


@pytest.fixture
def hostile(
    cluster: MockCluster, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MockCluster]:
    """Create topics and groups with all these names."""
    monkeypatch.setattr("kafka_native.mock.state.is_valid_name", lambda _name: True)
    for name in (*GOOD, *(each.replace("{}", str(marker)) for each in BAD)):
        if name:
            cluster.create_topic(name, 1)
            cluster.set_committed(name, {("xa", 0): 0})
    yield cluster
    assert not marker.exists()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "words", ["groups delete", "topics delete", "consume -G", "consume -t", "groups lag -t a"]
)
def test_a_shell_is_offered_plain_names_only(hostile: MockCluster, shell: str, words: str) -> None:
    line = f"kafka-native {words} "
    count = {"bash": len(words.split()) + 1, "zsh": len(words.split()) + 1, "fish": ""}[shell]
    variables = {
        "_KAFKA_NATIVE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(count),
    }
    done = run(**variables, KAFKA_BOOTSTRAP=hostile.bootstrap_servers)
    output = done.stdout.decode()
    if shell == "zsh":
        found = output.splitlines()
        assert found[::3] == ["plain"] * len(GOOD)
        assert found[2::3] == ["_"] * len(GOOD)
        names = found[1::3]
    else:
        assert all(each.startswith("plain,") for each in output.splitlines())
        names = [each.removeprefix("plain,") for each in output.splitlines()]
    assert sorted(names) == sorted(GOOD)


def test_bash_completes_and_runs_nothing(
    hostile: MockCluster, marker: Path, tmp_path: Path
) -> None:
    """Run our script in a real bash, which evaluates a command with each completion."""
    program = tmp_path / PROGRAM
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafka_native.cli "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    script = f"""
        cd {tmp_path}
        source <(kafka-native completion bash)
        COMP_WORDS=(kafka-native groups delete '') COMP_CWORD=3
        _kafka_native_completion kafka-native
        printf '<%s>\\n' "${{COMPREPLY[@]}}"
        for word in "${{COMPREPLY[@]}}"; do eval "set -- kafka-native groups delete $word"; printf '%s\\n' "$#"; done
    """
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    env = environment(PATH=path, KAFKA_BOOTSTRAP=hostile.bootstrap_servers, PYTHONPATH=str(ROOT))
    done = subprocess.run(
        ["bash", "-c", script], env=env, capture_output=True, timeout=60, check=True, text=True
    )
    lines = done.stdout.splitlines()
    assert sorted(lines[: len(GOOD)]) == sorted(f"<{each}>" for each in GOOD)
    assert lines[len(GOOD) :] == ["4"] * len(GOOD)
    assert not marker.exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_installed_shells_accept_the_script(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} isn't installed")
    script = invoke("completion", shell).stdout
    subprocess.run([shell, "-n"], input=script.encode(), check=True, timeout=60)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_clicks_own(shell: str) -> None:
    made = get_completion_class(shell)
    assert made is not None
    source = made(cli, {}, PROGRAM, "_KAFKA_NATIVE_COMPLETE").source()
    assert invoke("completion", shell).stdout.splitlines() == source.splitlines()


@pytest.mark.parametrize("name", BAD, ids=lambda name: repr(name[:20]))
def test_a_name_with_shell_syntax_is_not_offered(name: str) -> None:
    assert not completion.is_offered(name)


@pytest.mark.parametrize("name", GOOD)
def test_plain_names_are_offered(name: str) -> None:
    assert completion.is_offered(name)


def test_one_function_completes_names() -> None:
    """One function completes names from a cluster, the other completes the program's commands."""
    found = {
        path.name
        for path in (ROOT / "kafka_native" / "cli").rglob("*.py")
        if re.search(r"\bCompletionItem\(", path.read_text())
    }
    assert found == {"completion.py", "app.py"}
    assert (ROOT / "kafka_native/cli/completion.py").read_text().count("CompletionItem(") == 1
