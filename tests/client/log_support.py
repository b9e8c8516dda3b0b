"""Captures the log of a client."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.waiting import wait_for

_numbers = itertools.count()


class CapturedLog(logging.Handler):
    """All log records of one client.id."""

    def __init__(self, client_id: str) -> None:
        super().__init__()
        self.client_id = client_id
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def lines(self) -> list[str]:
        return [record.getMessage() for record in list(self.records)]

    def matching(self, pattern: str) -> list[str]:
        return [line for line in self.lines if re.search(pattern, line)]

    def wait_for(self, pattern: str) -> list[str]:
        """Return matching lines, once there are any."""
        wait_for(
            lambda: self.matching(pattern), lambda: f"no line matches {pattern!r}: {self.lines}"
        )
        return self.matching(pattern)


@contextmanager
def captured_log() -> Iterator[CapturedLog]:
    """Capture the log of a new client.id."""
    handler = CapturedLog(f"log-test-{next(_numbers)}")
    logger = logging.getLogger(f"kafka_native.{handler.client_id}")
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)


class PlainLogger:
    """A logger that has only the method log()."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def log(self, *args: Any) -> None:
        self.calls.append(args)

    def matching(self, text: str) -> list[tuple[Any, ...]]:
        return [call for call in list(self.calls) if text in call[-1]]

    def texts(self) -> list[str]:
        return [call[1] % call[2:] for call in list(self.calls)]
