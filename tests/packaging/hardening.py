"""Finds the missing protections of a shared object that should be hardened."""

from __future__ import annotations

import re
from pathlib import Path

from dev.elf import EM_X86_64, Elf

CORE = "libkafka_native_core"
# The core formats texts and copies bytes whose size the compiler can't know.
CHECKED = {"__memcpy_chk", "__snprintf_chk", "__vsnprintf_chk"}
FOR_CHECKING = re.compile(r" -O[g01]\b(?!.* -O[23])")


def faults(path: Path) -> list[str]:
    """Return one line for each missing protection.

    Builds without optimization lack checked functions.
    """
    elf = Elf(path)
    found = []
    if not elf.binds_now():
        found.append("binds lazily")
    if not elf.has_relro():
        found.append("relocated data stay writable")
    if elf.has_executable_stack():
        found.append("executable stack")
    if elf.writable_code():
        found.append("code that can be written")
    found += [f"searches {folder}" for folder in elf.run_paths() if folder != "$ORIGIN"]
    if elf.machine == EM_X86_64:
        found += [f"not marked for indirect branches: {name}" for name in elf.unmarked_functions()]
    if path.name.startswith(CORE) and not FOR_CHECKING.search(elf.compiler_options()):
        found += [f"doesn't call {name}" for name in sorted(CHECKED - elf.imported())]
    if path.name.startswith(CORE) and "__stack_chk_fail" not in elf.imported():
        found.append("no stack protector")
    return found
