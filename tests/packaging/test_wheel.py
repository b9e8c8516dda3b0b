"""The sdist becomes a wheel, and the wheel works in an empty environment, for each supported
CPython here.

The oldest Python gets the lowest versions of the dependencies that pyproject.toml allows, the
others the newest. Another wheel is built without the C libraries of the codecs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev.wheels import TRUSTME, find_python
from tests.harness.builds import load_setup
from tests.packaging import hardening, requirements

ROOT = Path(__file__).resolve().parents[2]
SMOKE = Path(__file__).with_name("smoke.py")
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
LOWEST = VERSIONS[0]
FULLY_OPTIMIZED = VERSIONS[-1]  # the other Pythons compile with less optimization

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # it compiles for each Python


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """Return a command's output. Its error output is the test's error."""
    drop = {"PYTHONPATH", "LD_PRELOAD", "VIRTUAL_ENV", "KN_SANITIZE", "KN_DEBUG"}
    env = {name: value for name, value in os.environ.items() if name not in drop}
    env |= {"KN_JOBS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (
        f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    )
    return done.stdout


@dataclass(frozen=True)
class Attempt:
    """The result for one Python version."""

    wheel: Path
    printed: str
    installed: str


def lowest_dependencies() -> list[str]:
    """Return the dependencies and the codecs' packages, at the lower bounds of pyproject.toml."""
    wanted = ("dependencies", "codecs")
    return [f"{one.name}=={one.version}" for one in requirements.read() if one.where in wanted]


def linked_codecs() -> list[str]:
    """Return the codecs of a build on this machine that need no Python package of the extra."""
    found = load_setup().CODEC_LIBRARIES.items()
    linked = [name for name, choices in found if any(is_installed(*each) for each in choices)]
    return sorted({"none", "gzip", *linked})


def is_installed(package: str, _: str, lowest: str) -> bool:
    """Return whether this machine has a library that setup.py would link."""
    return load_setup().pkg_config(f"--atleast-version={lowest}", package) is not None


def try_version(python: Path, version: str, sdist: Path, folder: Path) -> Attempt:
    """Build the wheel from the sdist, make an empty environment, and run the smoke test."""
    run(python, "-m", "venv", folder / "venv")
    own = folder / "venv" / "bin" / "python"
    optimize = "-O3" if version == FULLY_OPTIMIZED else "-O0"
    run(own, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, sdist, KN_OPTIMIZE=optimize)
    (wheel,) = folder.glob("*.whl")
    pinned = lowest_dependencies() if version == LOWEST else []
    run(own, "-m", "pip", "install", "-q", wheel, TRUSTME, *pinned)
    printed = run(own, "-I", SMOKE, *([] if pinned else linked_codecs()), cwd=folder)
    return Attempt(wheel, printed, run(own, "-m", "pip", "freeze"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder)
    (path,) = folder.glob("*.tar.gz")
    return path


@pytest.fixture(scope="module")
def attempts(
    sdist: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Attempt]]]:
    """Yield the results of every available version, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        futures = {}
        for version in VERSIONS:
            if python := find_python(version):
                folder = tmp_path_factory.mktemp(f"python{version}-")
                futures[version] = pool.submit(try_version, python, version, sdist, folder)
        yield futures


def test_sdist_has_sources_and_no_builds(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {
        "setup.py",
        "LICENSE",
        "csrc/base/status.h",
        "csrc/base/status.c",
        "kafka_native/_native/wire.pyx",
    } <= names
    assert [
        name
        for name in names
        if name.endswith((".so", ".o", ".pyc")) or re.search(r"_native/\w+\.c$", name)
    ] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_wheel_works_in_an_empty_environment(
    attempts: dict[str, Future[Attempt]], version: str
) -> None:
    if version not in attempts:
        pytest.skip(
            f"no CPython {version} with headers on this machine (PATH and pyenv were searched)"
        )
    tried = attempts[version].result()
    assert f"cp{version.replace('.', '')}-" in tried.wheel.name
    assert "codecs:" in tried.printed
    assert "confluent" not in tried.installed
    assert "Cython" not in tried.installed, "the wheel must not need Cython"


def test_wheel_carries_the_core_and_no_sources(attempts: dict[str, Future[Attempt]]) -> None:
    tried = next(iter(attempts.values())).result()
    names = zipfile.ZipFile(tried.wheel).namelist()
    assert any("_native/libkafka_native_core." in name for name in names)
    assert "kafka_native/py.typed" in names
    assert "kafka_native/_native/wire.pyi" in names
    assert [name for name in names if name.endswith((".pyx", ".pxd", ".c", ".h"))] == []
    assert [name for name in names if not name.startswith(("kafka_native/", "kafka_native-"))] == []


def test_wheel_is_hardened(attempts: dict[str, Future[Attempt]], tmp_path: Path) -> None:
    if FULLY_OPTIMIZED not in attempts:
        pytest.skip(
            f"no CPython {FULLY_OPTIMIZED}: the other wheels are compiled without optimization"
        )
    with zipfile.ZipFile(attempts[FULLY_OPTIMIZED].result().wheel) as wheel:
        wheel.extractall(tmp_path)
    found = {path.name: hardening.faults(path) for path in tmp_path.rglob("*.so")}
    assert len(found) > 10
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_at_least_one_version_is_found(attempts: dict[str, Future[Attempt]]) -> None:
    assert attempts, "not even the Python that runs this test can build"


@pytest.fixture(scope="module")
def without_libraries(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with a build that links no codec library."""
    folder = tmp_path_factory.mktemp("without-")
    run(sys.executable, "-m", "venv", folder / "venv")
    own = folder / "venv" / "bin" / "python"
    options = {"KN_OPTIMIZE": "-O0", "KN_WITHOUT": "gzip,snappy,lz4,zstd"}
    run(own, "-m", "pip", "install", "-q", sdist, TRUSTME, **options)
    shutil.copy(SMOKE, folder)
    return own


def test_a_build_without_libraries_says_which_package_is_missing(without_libraries: Path) -> None:
    folder = without_libraries.parents[2]
    printed = run(without_libraries, "-I", folder / SMOKE.name, "none", "gzip", cwd=folder)
    assert "'gzip': 'Python zlib " in printed
    assert "'lz4': ''" in printed


def test_the_extra_serves_a_build_without_libraries(without_libraries: Path) -> None:
    folder = without_libraries.parents[2]
    packages = [
        f"{one.name}>={one.version}" for one in requirements.read() if one.where == "codecs"
    ]
    run(without_libraries, "-m", "pip", "install", "-q", *packages)
    printed = run(without_libraries, "-I", folder / SMOKE.name, cwd=folder)
    for codec, name in (("snappy", "python-snappy"), ("lz4", "lz4"), ("zstd", "zstandard")):
        assert f"'{codec}': 'Python {name} " in printed
