"""csrc builds and works with fewer codec libraries than this machine has, and with none."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITHOUT = {"zlib for libdeflate": "libdeflate", "snappy alone": "gzip,lz4,zstd", "none": "gzip,snappy,lz4,zstd"}


def codec_flags(without: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """Compiler and linker flags as setup.py finds them when these libraries are missing."""
    spec = importlib.util.spec_from_file_location("kn_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("KN_WITHOUT", without)
    codecs = module.Codecs()
    return codecs.cflags, codecs.ldflags


@pytest.mark.parametrize("missing", WITHOUT)
def test_codecs_work_without(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cflags, ldflags = codec_flags(WITHOUT[missing], monkeypatch)
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    sources = [ROOT / "tests/csrc/test_codec.c", *ROOT.glob("csrc/base/*.c"), *ROOT.glob("csrc/records/*.c")]
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-DKN_DEBUG=1", "-pthread", *cflags]
    command = [compiler, *flags, f"-I{ROOT}/csrc", f"-I{ROOT}/tests/csrc", *map(str, sources), *ldflags]
    subprocess.run([*command, "-o", str(tmp_path / "test_codec")], check=True)
    done = subprocess.run([str(tmp_path / "test_codec")], capture_output=True, text=True, check=False)
    if missing == "none":
        # Then the program only checks the table, and prints that.
        assert "checked nothing" in done.stderr, done.stderr
    else:
        assert done.returncode == 0, done.stderr
