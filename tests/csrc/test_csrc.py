"""Compiles csrc with debug checks and warnings as errors, and runs every tests/csrc/test_*.c.

Each test_*.c is a program. KN_SANITIZE=address|thread builds and runs them with a sanitizer. A
program in the role of an owner passes its own tables of functions (csrc/net/broker_events.h). It
must not redefine a function of csrc: all objects are linked, so the function would exist twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.builds import ROOT, compiler, load_setup

RUN_S = 180.0
"""The timeout of a test program. It takes seconds, more with a sanitizer and on busy cores."""
VALGRIND = (
    *("valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full"),
    *("--errors-for-leak-kinds=definite", "--show-leak-kinds=definite", "--fair-sched=yes"),
    f"--suppressions={ROOT / 'tests' / 'valgrind.supp'}",
)
"""The environment variable KN_VALGRIND lets valgrind run the programs, one thread at a time."""
VALGRIND_S = 1800.0
"""The timeout of a program under valgrind, where it takes up to 50 times as long."""
OWN_ALLOCATOR = "__libc_"
"""It is in the programs with an allocator of their own."""
INCLUDED = re.compile(r'^#include "(?:../../csrc/)?(\w+/\w+\.c)"', re.M)
"""A source file that a program includes to test its static functions."""
PROGRAMS = sorted(Path(__file__).parent.glob("test_*.c"))


class CBuild:
    """The objects of csrc and the test programs. Each set of flags has a directory in build/."""

    def __init__(self) -> None:
        self.setup = load_setup()
        self.flags = self.setup.Flags(compiler(), True)
        self.work = Path("build", f"ctest-{self.flags.digest()}")
        self.command = [*self.flags.cc, *self.flags.c, "-Itests/csrc"]
        self.sources = self.setup.csrc_sources(self.flags.codecs.sources)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory, so that one test run at a time builds in it."""
        self.work.mkdir(parents=True, exist_ok=True)
        with open(self.work / "lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @functools.cached_property
    def objects(self) -> dict[str, str]:
        """Return the objects by source. test_csrc_compiles_without_warning reports failures."""
        made = self.setup.compile_objects(self.command, self.sources, self.work)
        return {
            str(source.relative_to("csrc")): str(target)
            for source, target in made.items()
            if target is not None
        }

    def program(self, source: Path) -> Path:
        """Link a test program."""
        source = source.relative_to(ROOT)
        target = self.setup.compile_objects(self.command, [source], self.work)[source]
        assert target is not None, f"{source} does not compile"
        binary = target.with_suffix("")
        included = INCLUDED.findall(source.read_text())
        objects = [path for name, path in self.objects.items() if name not in included]
        line = [*self.flags.cc, str(target), *objects, *self.flags.link, *self.flags.codecs.ldflags]
        done = subprocess.run(
            [*line, "-lm", "-o", str(binary)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return binary


@pytest.fixture(scope="module")
def build() -> Iterator[CBuild]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("KN_DEBUG", os.environ.get("KN_DEBUG", "1"))
        yield CBuild()


def run_program(binary: Path) -> subprocess.CompletedProcess[str]:
    """Run a program. Older TSan runtimes don't support address randomization."""
    settings = {
        "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1:strict_string_checks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
    }
    command = [str(ROOT / binary)]
    if os.environ.get("KN_SANITIZE") == "thread" and shutil.which("setarch"):
        command = ["setarch", platform.machine(), "-R", *command]
    is_slow = bool(os.environ.get("KN_VALGRIND"))
    if is_slow:
        command = [*VALGRIND, *command]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=VALGRIND_S if is_slow else RUN_S,
        env={**settings, **os.environ},
    )


@pytest.mark.slow  # and a part of make lint
def test_csrc_compiles_without_warning(build: CBuild) -> None:
    # Sanitizers add code that causes false warnings, so with them it only has to compile.
    command = build.command if build.flags.sanitize else [*build.command, "-O2", "-Werror"]
    with build.locked():
        made = build.setup.compile_objects(command, build.sources, build.work / "strict")
    assert [str(source) for source, target in made.items() if target is None] == []


@pytest.mark.parametrize("source", PROGRAMS, ids=[path.stem for path in PROGRAMS])
def test_c_program(build: CBuild, source: Path) -> None:
    if os.environ.get("KN_VALGRIND") and OWN_ALLOCATOR in source.read_text():
        pytest.skip("valgrind replaces the allocator of the program")
    with build.locked():
        program = build.program(source)
    done = run_program(program)
    assert done.returncode == 0, (
        f"{source.name} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    )


def test_there_are_c_programs() -> None:
    assert PROGRAMS, "no tests/csrc/test_*.c"
