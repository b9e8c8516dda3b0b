"""The build of this repository: setup.py as a module, and the C compiler."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def load_setup() -> ModuleType:
    """Return setup.py, which has the flags and finds the codec libraries."""
    spec = importlib.util.spec_from_file_location("kn_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiler() -> list[str]:
    """Return the command of the C compiler."""
    command: str = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return command.split()


def preloaded_library(source: Path, *flags: str) -> Path:
    """Return a library for LD_PRELOAD, compiled if it is older than its source."""
    folder = ROOT / "build" / source.stem
    target = folder / f"lib{source.stem}.so"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as own:
            made = Path(own, target.name)
            subprocess.run(
                [*compiler(), "-O1", "-g", "-shared", "-fPIC", *flags, "-o", made, source, "-ldl"],
                check=True,
            )
            made.replace(target)
    return target
