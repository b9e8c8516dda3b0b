"""Planted leaks, which show that the rules can break."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from kafka_native import Producer


class Planted:
    """Keeps something for each client or message."""

    BUGS: ClassVar[tuple[str, ...]] = ("memory", "descriptor", "client")
    KEPT_BYTES = 200_000

    def __init__(self, bug: str) -> None:
        """``bug``: one of `BUGS`, or empty."""
        self._bug = bug
        self._kept: list[Any] = []

    def leak(self) -> None:
        """Leak what the bug leaks."""
        if self._bug == "memory":
            self._kept.append(bytes([1]) * self.KEPT_BYTES)
        elif self._bug == "descriptor":
            self._kept.append(os.dup(0))
        elif self._bug == "client":
            self._kept.append(Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}))
