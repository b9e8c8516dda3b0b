"""The version of the package: `python -m dev.version`.

kafka_native/__init__.py has the only copy. pyproject.toml takes it from there.
"""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "kafka_native" / "__init__.py"


def read_version() -> str:
    """Return the value of ``__version__``, without an import of the package."""
    for statement in ast.parse(SOURCE.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
            if names == ["__version__"]:
                return str(statement.value.value)
    raise SystemExit(f"{SOURCE}: no __version__")


if __name__ == "__main__":
    print(read_version())
