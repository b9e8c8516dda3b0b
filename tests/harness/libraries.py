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


not_under_tsan = pytest.mark.skipif(
    under_tsan(), reason="pyarrow's allocator doesn't fork under ThreadSanitizer"
)
"""The mark of a test that starts a program from a process that has used pyarrow.

For a fork, the allocator takes more locks than the runtime's deadlock detector allows.
"""
