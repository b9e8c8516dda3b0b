"""Libraries of the tests that don't run everywhere."""

from __future__ import annotations

import os
from typing import Any

import pytest


def under_tsan() -> bool:
    """Return whether this process has ThreadSanitizer's runtime."""
    return os.environ.get("KN_SANITIZE") == "thread" and "LD_PRELOAD" in os.environ


def polars_or_skip() -> Any:
    """Return polars. Under ThreadSanitizer its import crashes, so the test is skipped."""
    if under_tsan():
        pytest.skip("polars doesn't run under ThreadSanitizer")
    import polars  # Here, because the import may crash

    return polars


not_under_tsan = pytest.mark.skipif(under_tsan(), reason="pyarrow isn't built for ThreadSanitizer")
"""The mark of a test that ends the process there.

It starts a program after a use of pyarrow, whose allocator takes more locks for a fork than the
runtime's deadlock detector allows. Or pyarrow works in threads of its own.
"""


no_threads_in_children = pytest.mark.skipif(
    under_tsan(), reason="ThreadSanitizer ends a child of fork() that reuses a parent's thread id"
)
"""The mark of a test whose forked children start threads.

The runtime keeps the ids of the parent's threads. They are addresses, and the child's C library
gives the same ones to new threads.
"""
