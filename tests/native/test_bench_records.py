"""The benchmark of the record layer, built like a release. `-s` prints its figures."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kafka_native._native.primitives import crc32c_backend
from tests.harness.builds import ROOT, compiler, load_setup

SOURCE = ROOT / "tests" / "csrc" / "bench_records.c"


def measure(directory: Path) -> dict[str, str]:
    """Build the program with the flags of a release, run it, and return its lines."""
    flags = load_setup().Flags(compiler(), False)
    sources = [SOURCE, *ROOT.glob("csrc/base/*.c"), *ROOT.glob("csrc/records/*.c")]
    binary = directory / "bench_records"
    command = [
        *flags.cc,
        *flags.c,
        f"-I{ROOT}/csrc",
        *map(str, sources),
        *flags.link,
        *flags.codecs.ldflags,
    ]
    subprocess.run([*command, "-o", str(binary)], check=True)
    done = subprocess.run([str(binary)], check=True, capture_output=True, text=True)
    print(done.stdout)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@pytest.mark.slow
def test_every_figure_is_printed_and_the_backends_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KN_DEBUG", "KN_SANITIZE", "KN_COVERAGE"):
        monkeypatch.delenv(name, raising=False)
    found = measure(tmp_path)
    # On a quiet core: 25 ns with the checksum, 13 ns, 22 GB/s, 1.9 GB/s by table.
    figures = {name: float(text) for name, text in found.items() if name != "backend"}
    assert figures.keys() >= {"append_ns", "iterate_ns", "crc_gb_s", "portable_crc_gb_s"}
    assert min(figures.values()) > 0
    assert found["backend"] == crc32c_backend()
