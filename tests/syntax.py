"""Python's syntax trees, for tests that read programs."""

from __future__ import annotations

import ast
import gc


def parsed(text: str) -> ast.Module:
    """Parse a program without a garbage collection in the middle.

    A collection runs finalizers. For example a future with an unretrieved exception prints its
    traceback, and that parses code too. CPython 3.11 counts the depth of both parsers in one place,
    and raises SystemError.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if collects:
            gc.enable()
