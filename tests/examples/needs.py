"""What an example needs beside kafka_native: the ``pip install`` at its top.

`hidden_modules` names everything else that is installed here, so that the example runs as it would with only its packages.
"""

from __future__ import annotations

import functools
import re
import shlex
from importlib.metadata import Distribution, distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

INSTALL = re.compile(r"Needs\s(?:#\s)?`pip install ([^`]+)`")


def named(text: str) -> list[str]:
    """Return the requirements that the top of an example names; kafka-native is always one."""
    found = INSTALL.search(text[:1000])
    return ["kafka-native", *(shlex.split(found[1].replace("\n# ", " ")) if found else [])]


@functools.cache
def installed() -> dict[str, Distribution]:
    return {canonicalize_name(each.metadata["Name"]): each for each in distributions()}


def closure(requirements: list[str]) -> set[str]:
    """Return the names of the installed packages that these requirements bring."""
    todo = [Requirement(each) for each in requirements]
    seen: set[tuple[str, str]] = set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in seen or name not in installed():
                continue
            seen.add((name, extra))
            for text in installed()[name].requires or []:
                needed = Requirement(text)
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    todo.append(needed)
    return {name for name, _ in seen}


@functools.cache
def modules_of(name: str) -> frozenset[str]:
    """Return the dotted names of the modules and packages that a distribution installs."""
    found = set()
    for file in installed()[name].files or []:
        if file.suffix in (".py", ".so") and ".." not in file.parts:
            parts = [*file.parts[:-1], file.name.partition(".")[0]]
            found |= {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return frozenset(found)


def hidden_modules(requirements: list[str]) -> list[str]:
    """Return the installed modules that these requirements don't bring, without those inside of others."""
    kept = closure(requirements)
    shown = {module for name in kept for module in modules_of(name)}
    hidden = {
        module for name in installed() if name not in kept for module in modules_of(name)
    } - shown
    return sorted(each for each in hidden if each.rpartition(".")[0] not in hidden)
