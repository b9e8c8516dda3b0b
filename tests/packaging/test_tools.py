"""A build without a compiler or without Python's headers says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.builds import ROOT, compiler, load_setup


def test_without_a_compiler_the_last_line_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "setup.py",
            "-q",
            "build_ext",
            f"--build-temp={tmp_path}",
            f"--build-lib={tmp_path}",
        ],
        cwd=ROOT,
        env={"CC": "no-such-compiler", "PATH": "/usr/bin:/bin", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("kafka-native needs a C compiler, and there is no 'no-such-compiler'.")
    assert "apt-get install gcc" in last


def test_without_headers_it_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no Python\.h\. Install them .* python3-dev"):
        load_setup().require_tools([sys.executable], [str(tmp_path)])


def test_flags_of_a_compiler_are_no_programs(tmp_path: Path) -> None:
    (tmp_path / "Python.h").touch()
    load_setup().require_tools([sys.executable, "-pthread", "-O3"], [str(tmp_path)])


def test_objects_lie_below_their_folder_also_for_absolute_sources(tmp_path: Path) -> None:
    # Two builds with other flags have the same translated sources. Each has its own objects.
    source = tmp_path / "shared" / "a.c"
    source.parent.mkdir()
    source.write_text("int answer(void) { return 42; }\n")
    for name in ("one", "two"):
        made = load_setup().compile_objects(compiler(), [source], tmp_path / name)
        target = made[source]
        assert target is not None
        assert target.is_relative_to(tmp_path / name)
    assert [path.name for path in source.parent.iterdir()] == ["a.c"]
