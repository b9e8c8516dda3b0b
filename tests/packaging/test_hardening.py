"""The compiled objects have all protections of compiler and linker, and no build folder."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from dev.elf import Elf
from tests.packaging import hardening

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "kafka_native" / "_native"
BUILT = sorted(NATIVE.glob("*.so"))

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or sys.maxsize < 2**32, reason="reads ELF files of 64 bits"
)


@pytest.fixture(scope="module")
def setup_py() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kn_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_compiled_objects() -> None:
    names = {path.name.split(".")[0] for path in BUILT}
    assert {path.stem for path in NATIVE.glob("*.pyx")} | {"libkafka_native_core"} <= names


@pytest.mark.parametrize("path", BUILT, ids=[path.name.split(".")[0] for path in BUILT])
def test_compiled_objects_are_hardened(path: Path) -> None:
    assert hardening.faults(path) == []


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (["-Wl,-z,lazy"], "binds lazily"),
        (["-Wl,-z,norelro"], "relocated data stay writable"),
        (["-Wl,-z,execstack"], "executable stack"),
        (["-Wl,-rpath,/usr/local/lib:$ORIGIN"], "searches /usr/local/lib"),
        (
            ["-fcf-protection=none", "-mbranch-protection=none"],
            "not marked for indirect branches: answer",
        ),
    ],
)
def test_each_fault_is_found(
    flags: list[str], fault: str, tmp_path: Path, setup_py: ModuleType
) -> None:
    made = setup_py.Flags(["gcc"], False)
    if fault.startswith("not marked"):
        flags = made._supported([[flag] for flag in flags], link=False)
        if "-fcf-protection" not in made.c:
            pytest.skip("this compiler marks no functions on this processor")
    source = tmp_path / "answer.c"
    source.write_text("int answer(void) { return 42; }\n")
    command = [*made.cc, "-shared", *made.c, *made.link]
    for more, expected in ([], []), (flags, [fault]):
        target = tmp_path / f"answer-{len(more)}.so"
        subprocess.run([*command, *more, str(source), "-o", str(target)], check=True)
        assert [found for found in hardening.faults(target) if found.startswith(fault)] == expected


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("gcc -shared -L/opt/lib -Wl,-rpath,/opt/lib -lz", "gcc -shared -L/opt/lib -lz"),
        ("gcc -Wl,-rpath=/opt/lib -Wl,-O1,-rpath,/opt/lib,-z,now", "gcc -Wl,-O1,-z,now"),
        ("gcc -Wl,-rpath -Wl,/opt/lib -Wl,-R/opt/lib -Wl,-R,/opt/lib", "gcc"),
        ("gcc -Xlinker -rpath -Xlinker /opt/lib -Xlinker --as-needed", "gcc -Wl,--as-needed"),
        ("gcc -Wl,-z,relro -Wl,--rpath,/opt/lib -R /opt/lib -lR", "gcc -Wl,-z,relro -lR"),
    ],
)
def test_no_folder_of_pythons_build_is_searched(
    setup_py: ModuleType, given: str, kept: str
) -> None:
    assert setup_py.without_rpath(given.split()) == kept.split()


def test_flags_that_a_compiler_does_not_know_are_left_out(
    tmp_path: Path, setup_py: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old-gcc"  # refuses newer options, and the ones that it can't compute
    old.write_text(
        "#!/bin/sh\n"
        'case "$*" in *stack-clash*|*cf-protection*|*branch-protection*) exit 1 ;; esac\n'
        'for last; do case $last in *.c) grep -q dynamic_object_size "$last" && exit 1 ;; '
        "esac; done\n"
        "exit 0\n"
    )
    old.chmod(0o755)
    monkeypatch.delenv("KN_DEBUG", raising=False)
    flags = setup_py.Flags([str(old)], False)
    assert "-fstack-protector-strong" in flags.c
    assert "-D_FORTIFY_SOURCE=2" in flags.c
    assert not [
        flag for flag in flags.c if "clash" in flag or "protection" in flag or flag.endswith("=3")
    ]


@pytest.mark.parametrize(
    ("variables", "fortified"),
    [
        ({}, True),
        ({"KN_DEBUG": "1"}, False),
        ({"KN_SANITIZE": "address"}, False),
        ({"KN_OPTIMIZE": "-O0"}, False),
    ],
)
def test_sanitizer_and_debug_builds_keep_their_checks(
    setup_py: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    fortified: bool,
) -> None:
    for name in ("KN_DEBUG", "KN_SANITIZE", "KN_OPTIMIZE", "KN_COVERAGE", "KN_KEEP_GOING"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    flags = setup_py.Flags([str(sysconfig.get_config_var("CC")).split()[0]], True)
    assert bool([flag for flag in flags.c if flag.startswith("-D_FORTIFY_SOURCE=")]) is fortified
    assert "-fstack-protector-strong" in flags.c
    assert "-Wl,-z,now" in flags.link


def test_objects_are_marked_where_the_linker_keeps_the_mark(
    tmp_path: Path, setup_py: ModuleType
) -> None:
    # The linker keeps a mark only if all objects have it, including the C library's own.
    made = setup_py.Flags([str(sysconfig.get_config_var("CC")).split()[0]], True)
    source = tmp_path / "empty.c"
    source.write_text("int answer(void) { return 42; }\n")
    target = tmp_path / "empty.so"
    subprocess.run(
        [*made.cc, "-shared", *made.c, *made.link, str(source), "-o", str(target)], check=True
    )
    possible = Elf(target).features()
    assert {
        path.name: possible - Elf(path).features()
        for path in BUILT
        if possible - Elf(path).features()
    } == {}
