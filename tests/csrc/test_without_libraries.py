"""csrc builds and works with fewer codec libraries than this machine has, and with none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness.builds import ROOT, compiler, load_setup

WITHOUT = {
    "zlib for libdeflate": "libdeflate",
    "snappy alone": "gzip,lz4,zstd",
    "none": "gzip,snappy,lz4,zstd",
}


def codec_flags(without: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """Return the flags that setup.py finds if these libraries are missing."""
    module = load_setup()
    monkeypatch.setenv("KN_WITHOUT", without)
    codecs = module.Codecs()
    return codecs.cflags, codecs.ldflags


@pytest.mark.parametrize("missing", WITHOUT)
def test_codecs_work_without(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cflags, ldflags = codec_flags(WITHOUT[missing], monkeypatch)
    sources = [
        ROOT / "tests/csrc/test_codec.c",
        *ROOT.glob("csrc/base/*.c"),
        *ROOT.glob("csrc/records/*.c"),
    ]
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-DKN_DEBUG=1", "-pthread"]
    includes = [f"-I{ROOT}/csrc", f"-I{ROOT}/tests/csrc"]
    command = [compiler()[0], *flags, *cflags, *includes, *map(str, sources), *ldflags]
    subprocess.run([*command, "-o", str(tmp_path / "test_codec")], check=True)
    done = subprocess.run(
        [str(tmp_path / "test_codec")], capture_output=True, text=True, check=False
    )
    if missing == "none":
        # Without codecs the program only checks the table, and prints that.
        assert "checked nothing" in done.stderr, done.stderr
    else:
        assert done.returncode == 0, done.stderr


CODEC_SOURCES = ("builder", "decode_problem", "layout", "limbs", "slab", "text_values")
"""What the JSON decoder needs of csrc/codecs."""


def test_json_columns_need_simdjson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KN_WITHOUT", "simdjson")
    module = load_setup()
    codecs = module.Codecs()
    assert codecs.sources == (".c",)
    assert "-DKN_HAVE_SIMDJSON=1" not in codecs.cflags
    sources = [
        ROOT / "tests/csrc/test_json_decode.c",
        *ROOT.glob("csrc/base/*.c"),
        *(ROOT / f"csrc/codecs/{name}.c" for name in CODEC_SOURCES),
    ]
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-DKN_DEBUG=1", "-pthread"]
    includes = [f"-I{ROOT}/csrc", f"-I{ROOT}/tests/csrc"]
    program = tmp_path / "test_json_decode"
    command = [compiler()[0], *flags, *includes, *map(str, sources), "-lm", "-o", str(program)]
    subprocess.run(command, check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "without simdjson" in done.stdout
