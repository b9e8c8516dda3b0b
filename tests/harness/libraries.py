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
