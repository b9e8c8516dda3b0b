"""Hides installed modules from a program: those that the file in ``HIDDEN_MODULES`` names.

Python imports this module at its start, if the folder is in ``PYTHONPATH``. Modules of the same names outside of
site-packages stay.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

HIDDEN = frozenset(json.loads(Path(os.environ["HIDDEN_MODULES"]).read_text(encoding="utf-8")))
find_installed = PathFinder.find_spec


@classmethod  # type: ignore[misc]
def find_spec(
    _cls: type[PathFinder], name: str, path: Sequence[str] | None = None, target: object = None
) -> ModuleSpec | None:
    """Find a module as Python does. An installed one that is hidden, or is in a hidden package, is not found."""
    spec = find_installed(name, path, target)  # type: ignore[arg-type]
    if spec is None:
        return None
    places = [spec.origin or "", *(spec.submodule_search_locations or [])]
    parts = name.split(".")
    is_hidden = any(".".join(parts[:length]) in HIDDEN for length in range(1, len(parts) + 1))
    return None if is_hidden and any("site-packages" in place for place in places) else spec


PathFinder.find_spec = find_spec  # type: ignore[assignment, method-assign]
