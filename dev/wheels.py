"""Build, check and try the wheels of Linux on one machine: `make wheels`.

    python -m dev.wheels                             every CPython found here, every platform
    python -m dev.wheels --python 3.13 --platform manylinux_2_28_x86_64

zig is the cross compiler: it brings the C libraries of all platforms along. For each wheel:

1. setup.py compiles the core, with the codec libraries inside, and the extensions.
2. auditwheel checks that the wheel needs only what its platform has. For musl, the names of the
   imported functions are checked too.
3. If this machine can run the wheel, the smoke test runs in an empty environment.

The release workflow builds the same wheels, and those of macOS, with cibuildwheel.
docs/RELEASING.md says what can't be run here.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from .codec_sources import RELEASES
from .elf import Elf

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "wheels"
SOURCES = ROOT / "build" / "codec-sources"
SMOKE = ROOT / "tests" / "packaging" / "smoke.py"
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.14t")
TRUSTME = "trustme>=1.2"  # the mock cluster's certificates
BUILDERS = ("setuptools>=83.0.0", "Cython>=3.1")
# zig turns off a part of AVX-512 that simdjson 3.0.1 doesn't name. Wheels of the release have it.
ZIG_CXX_FLAGS = "-DSIMDJSON_IMPLEMENTATION_ICELAKE=0"
# From musl's release notes: functions of 1.2.2, 1.2.3 and 1.2.5.
NEWER_THAN_MUSL_1_2_0 = {
    *("_Fork", "gettid", "reallocarray", "tcgetwinsize", "tcsetwinsize"),
    *("pthread_getname_np", "qsort_r"),
    *("preadv2", "pwritev2", "statx"),
}
FIND = (
    "import sys, sysconfig, os, venv, ensurepip; "
    "print('%d.%d' % sys.version_info[:2] + getattr(sys, 'abiflags', '')); "
    "assert os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h'))"
)


@dataclass(frozen=True)
class Platform:
    """A platform tag, and zig's name of the processor and C library."""

    tag: str
    machine: str
    libc: str
    version: str = ""

    @property
    def target(self) -> str:
        """Return zig's name."""
        return f"{self.machine}-linux-{self.libc}{self.version}"

    def runs_here(self) -> bool:
        """Return whether this machine and its C library can run the wheel."""
        return self.machine == platform.machine() and self.libc == libc_here()


PLATFORMS = [
    Platform("manylinux_2_28_x86_64", "x86_64", "gnu", ".2.28"),
    Platform("manylinux_2_28_aarch64", "aarch64", "gnu", ".2.28"),
    Platform("musllinux_1_2_x86_64", "x86_64", "musl"),
    Platform("musllinux_1_2_aarch64", "aarch64", "musl"),
]


def libc_here() -> str:
    """Return zig's name of the C library of this process."""
    return "gnu" if platform.libc_ver()[0] == "glibc" else "musl"


def run(*command: str | Path, **variables: str) -> str:
    """Return a command's output. If it fails, print its output and raise SystemExit."""
    drop = {"PYTHONPATH", "VIRTUAL_ENV", "KN_SANITIZE", "KN_DEBUG", "CFLAGS", "LDFLAGS"}
    env = {name: value for name, value in os.environ.items() if name not in drop} | variables
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.stderr.write(done.stdout[-4000:] + done.stderr[-8000:])
        raise SystemExit(f"failed: {' '.join(map(str, command))}")
    return done.stdout


def find_python(version: str) -> Path | None:
    """Return a CPython of this version with headers: this one, on the PATH, or under pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    number = version.rstrip("t")
    kind = "t" if version.endswith("t") else ""
    candidates = [Path(getattr(sys, "_base_executable", sys.executable))]
    candidates += sorted(pyenv.glob(f"versions/{number}.*{kind}/bin/python"), reverse=True)
    if on_path := shutil.which(f"python{version}"):
        candidates.append(Path(on_path))
    for candidate in candidates:
        done = subprocess.run([candidate, "-c", FIND], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return candidate
    return None


def environment(python: Path, folder: Path, *packages: str | Path) -> Path:
    """Make an empty environment, install packages into it, and return its Python."""
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    own = folder / "bin" / "python"
    run(own, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)
    return own


def compilers(target: str) -> tuple[Path, Path]:
    """Write zig's C and C++ compiler for a target as programs."""
    folder = WORK / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for kind, flags in (("cc", ""), ("c++", ZIG_CXX_FLAGS)):
        path = folder / f"{kind}-{target}"
        path.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {kind} -target {target} {flags} "$@"\n'
        )
        path.chmod(0o755)
        made.append(path)
    return made[0], made[1]


def build(own: Path, version: str, to: Platform) -> Path:
    """Compile one wheel with the Python of an environment, and return its path."""
    cc, cxx = compilers(to.target)
    name = f"{version}-{to.tag}"
    out = WORK / "raw" / name
    shutil.rmtree(out, ignore_errors=True)
    tag = "cpython-" + version.replace(".", "")
    command = ["build", f"--build-base={WORK}/{name}", f"--build-temp={WORK}/temp"]
    command += ["bdist_wheel", f"--plat-name={to.tag}", f"--dist-dir={out}"]
    run(
        *(own, "setup.py", "-q", *command),
        CC=str(cc),
        CXX=str(cxx),
        KN_CODEC_SOURCES=str(SOURCES),
        SETUPTOOLS_EXT_SUFFIX=f".{tag}-{to.machine}-linux-{to.libc}.so",
        _PYTHON_HOST_PLATFORM=f"linux-{to.machine}",
        ZIG_GLOBAL_CACHE_DIR=str(WORK / "zig"),
        ZIG_LOCAL_CACHE_DIR=str(WORK / "zig"),
    )
    (wheel,) = out.glob("*.whl")
    return wheel


def fits(found: str, to: Platform) -> bool:
    """Return whether a tag is a platform's tag or an older one of the same kind and processor."""
    pattern = rf"([a-z]+)_(\d+)_(\d+)_{to.machine}"
    have, want = re.fullmatch(pattern, found), re.fullmatch(pattern, to.tag)
    if have is None or want is None or have[1] != want[1]:
        return False
    return (int(have[2]), int(have[3])) <= (int(want[2]), int(want[3]))


def objections(report: dict[str, Any], to: Platform) -> list[str]:
    """Return what a platform lacks, according to `auditwheel show --json`.

    zig calls musl "libc.so", as musl does, and auditwheel knows only Alpine's name. musl's dynamic
    linker takes each library whose name begins with "libc." for itself.
    """
    found = []
    if not fits(report["sym_tag"], to):
        found.append(f"the versions of its symbols need {report['sym_tag']}")
    if report["unsupported_isa"]:
        found.append("a part of it needs a newer processor")
    lacking = report["policy_upgrades"].get(to.tag, {})
    own = {"libc.so"} if to.libc == "musl" else set()
    found += [
        f"the library {name}" for name in sorted({*lacking.get("libs_to_eliminate", ())} - own)
    ]
    found += [f"symbols of {name}" for name in lacking.get("blacklisted_symbols", ())]
    return found


def symbols_of_musl() -> set[str]:
    """Return the names that musl 1.2.0 exports, from zig's table of a newer release."""
    table = Path(str(files("ziglang"))) / "lib" / "libc" / "musl" / "libc.S"
    exported = re.findall(r"^(?:\.globl|\.weak|WEAK\w+) (\w+)$", table.read_text(), re.MULTILINE)
    return set(exported) - NEWER_THAN_MUSL_1_2_0


def symbols_without_provider(wheel: Path, provided: set[str]) -> set[str]:
    """Return the names that a wheel imports from neither itself, Python nor `provided`."""
    symbols = []
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as opened:
        for name in opened.namelist():
            if name.endswith(".so"):
                symbols += Elf(Path(opened.extract(name, folder))).symbols
    own = {symbol.name for symbol in symbols if symbol.address}
    imported = {symbol.name for symbol in symbols if not symbol.address and not symbol.is_weak}
    of_python = {name for name in imported if name.startswith(("Py", "_Py"))}
    return imported - own - of_python - provided - {""}


def check(wheel: Path, to: Platform, dist: Path) -> Path:
    """Move a wheel to `dist`, after a check that it needs nothing that its platform lacks.

    auditwheel searches no folder of this machine for libraries, as they may be another C library's.
    musl has no versions of symbols that auditwheel could compare, so their names are compared.
    """
    command = ("-m", "auditwheel", "show", "--json", "--ldpaths", os.devnull)
    found = objections(json.loads(run(sys.executable, *command, wheel)), to)
    if to.libc == "musl":
        found += sorted(symbols_without_provider(wheel, symbols_of_musl()))
    if found:
        raise SystemExit(f"{wheel.name} needs more than {to.tag} has: {', '.join(found)}")
    dist.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(wheel, dist / wheel.name))


def main() -> None:
    """Build what was asked for, and print one line a wheel."""
    parser = argparse.ArgumentParser(prog="dev.wheels", description="build wheels")
    parser.add_argument("--python", action="append", choices=PYTHONS)
    parser.add_argument("--platform", action="append", choices=[one.tag for one in PLATFORMS])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    chosen = parser.parse_args()
    missing = [one.folder for one in RELEASES if not (SOURCES / one.folder).is_dir()]
    if missing:
        raise SystemExit(f"{SOURCES} lacks {', '.join(missing)}: run `make codec-sources`")
    count = 0
    for version in chosen.python or PYTHONS:
        python = find_python(version)
        if python is None:
            print(f"CPython {version}: skipped, it isn't on the PATH nor under pyenv with headers")
            continue
        builder = environment(python, WORK / f"env-{version}", *BUILDERS)
        for to in PLATFORMS:
            if chosen.platform and to.tag not in chosen.platform:
                continue
            wheel = check(build(builder, version, to), to, chosen.dist)
            outcome = "not run here"
            if to.runs_here():
                own = environment(python, WORK / f"try-{version}", wheel, TRUSTME)
                outcome = run(own, "-I", SMOKE).strip().splitlines()[-1]
            print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {outcome}", flush=True)
            count += 1
    print(f"{count} wheels in {chosen.dist}")


if __name__ == "__main__":
    main()
