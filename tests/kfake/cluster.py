"""A kfake cluster in a process of its own: the Go program in ``program``, and its commands."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from tests.harness.processes import guarded, output
from tests.waiting import PROGRAM_S, WAIT_S

SOURCES = Path(__file__).parent / "program"
BINARY = Path(__file__).resolve().parents[2] / "build" / "kfake"
# go.sum has the hashes of all modules. No hash is added here, and no other Go is downloaded.
STRICT = {"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
PLACES = ("go", "/usr/local/go/bin/go", "/usr/lib/go/bin/go")
_VERSION = re.compile(r"(\d+)\.(\d+)")


@cache
def missing() -> str | None:
    """Return why kfake can't be built here, or None. Wrong hashes of modules are an error."""
    go = _go()
    if go is None:
        return "no Go (https://go.dev/doc/install)"
    needed, present = _numbers(_line("go")), _numbers(output(go, "env", "GOVERSION"))
    if present < needed:
        return f"Go {needed[0]}.{needed[1]} or newer is needed"
    done = subprocess.run(
        [go, "mod", "download"],
        cwd=SOURCES,
        env=os.environ | STRICT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_S,
    )
    assert "SECURITY ERROR" not in done.stderr, done.stderr
    return f"Go can't fetch kfake's modules: {done.stderr}" if done.returncode else None


def _go() -> str | None:
    return next((found for place in PLACES if (found := shutil.which(place))), None)


def _line(name: str) -> str:
    """Return the line of go.mod that begins with a word."""
    lines = (SOURCES / "go.mod").read_text(encoding="ascii").splitlines()
    return next(line for line in lines if line.startswith(f"{name} "))


def _numbers(text: str) -> tuple[int, int]:
    found = _VERSION.search(text)
    assert found is not None, text
    return int(found[1]), int(found[2])


@cache
def built() -> Path:
    """Build the program, and return its path. Go builds only what has changed."""
    go = _go()
    assert go is not None
    BINARY.parent.mkdir(parents=True, exist_ok=True)
    partial = BINARY.with_name(f"{BINARY.name}-{os.getpid()}")
    for command in ([go, "mod", "verify"], [go, "build", "-o", str(partial), "."]):
        output(*command, cwd=SOURCES, env=os.environ | STRICT)
    partial.replace(BINARY)
    return BINARY


class Kfake:
    """A running cluster of three brokers. A topic has three partitions. A context manager."""

    def __init__(self) -> None:
        """Start the program."""
        self._process = subprocess.Popen(
            guarded(str(built())), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.bootstrap: str = self._answer()["bootstrap"]

    def __enter__(self) -> Kfake:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(WAIT_S)
        finally:
            self._process.kill()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"kfake ended with {self._process.wait(WAIT_S)}"
        found: dict[str, Any] = json.loads(line)
        assert "error" not in found, found["error"]
        return found

    def do(self, command: str, **fields: Any) -> dict[str, Any]:
        """Send a command, and return the answer. An error is an AssertionError."""
        assert self._process.stdin is not None
        print(json.dumps({"do": command, **fields}), file=self._process.stdin, flush=True)
        return self._answer()

    def create_topic(self, name: str) -> None:
        """Create a topic with three partitions."""
        self.do("create", topic=name)

    def ends(self, topic: str) -> list[int]:
        """Return the end offset of each partition, as the brokers know it."""
        return [self.do("partition", topic=topic, partition=each)["end"] for each in range(3)]

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offsets of a group by partition, as the brokers know them."""
        commits = self.do("group", group=group)["commits"].get(topic, {})
        return {int(partition): offset for partition, offset in commits.items()}

    def cuts(self) -> int:
        """Return how many requests were cut."""
        count: int = self.do("cuts")["count"]
        return count
