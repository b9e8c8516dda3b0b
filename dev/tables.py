"""Reads the TOML files in this module's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

try:
    import tomllib
except ImportError:  # Python 3.10: pytest brings tomli
    import tomli as tomllib

HERE = Path(__file__).resolve().parent


def table(name: str) -> dict[str, Any]:
    """The content of ``dev/NAME.toml``."""
    return tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))
