"""Python's syntax trees, for tests that read programs."""

from __future__ import annotations

import ast
import gc


def parsed(text: str) -> ast.Module:
    """The tree of a program, made without a garbage collection in the middle.

    A collection runs whatever its objects have to say at their end: a future whose exception nobody asked for has its
    traceback printed, which parses, too. CPython 3.11 counts the depth of both in one place and raises SystemError.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if collects:
            gc.enable()
