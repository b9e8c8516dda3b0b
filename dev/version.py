"""The version of the package: `python -m dev.version`.

kafka_native/__init__.py has the only copy. pyproject.toml takes it from there.
"""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "kafka_native" / "__init__.py"


def read_version() -> str:
    """Return the value of ``__version__``, without an import of the package."""
    for statement in ast.parse(SOURCE.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
            if names == ["__version__"]:
                return str(statement.value.value)
    raise SystemExit(f"{SOURCE}: no __version__")


def read_commit() -> str:
    """Return the checkout's commit, with "+" if files have changed since.

    It is "unknown" outside a checkout.
    """
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    print(read_version())
