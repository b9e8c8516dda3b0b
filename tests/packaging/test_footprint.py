"""The figures of `make footprint`. They are printed and have no limits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dev import footprint


def test_the_size_counts_what_pip_installed(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.13" / "site-packages"
    for name, size in {
        "kafka_native/a.so": 1000,
        "kafka_native/__pycache__/a.pyc": 50,
        "pip/b.py": 70,
        "lz4/c.so": 200,
    }.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    assert footprint.installed_bytes(tmp_path / "bin" / "python") == 1200


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_each_figure_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "RUNS", 1)
    monkeypatch.setattr(footprint, "installed_bytes", lambda own: 2_500_000)
    monkeypatch.setattr(footprint, "PRODUCER", "import decimal")
    found = dict(footprint.measure(Path(sys.executable), "import json"))
    assert found["installed"] == "2.5 MB"
    assert found["import"].endswith(" ms")
    assert float(found["memory with a producer"].removesuffix(" MB")) > 1


def test_without_a_wheel_it_says_how_to_build_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footprint, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"no wheel for cp\d+ in dist/: run `make wheels`"):
        footprint.newest_wheel()
