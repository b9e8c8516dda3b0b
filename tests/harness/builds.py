"""The build of this repository: setup.py as a module, and the C compiler."""

from __future__ import annotations

import importlib.util
import os
import sysconfig
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
