"""When a request is sent again, and after which time."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from kafka_native.schema_registry.steps import Response

RETRIABLE_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how soon a client sends a request again.

    Parameters
    ----------
    max_retries : int
        How often a request is sent again after the first attempt.
    wait_ms : int
        The longest wait before the first retry, in milliseconds. It doubles with each retry.
    max_wait_ms : int
        The longest wait before any retry, in milliseconds.
    """

    max_retries: int
    wait_ms: int
    max_wait_ms: int

    def wait_s(self, retries: int, retry_after_s: float = 0.0) -> float:
        """Return the seconds to wait before the next retry, with full jitter.

        The wait is at least what the server asked for.
        """
        longest_ms = min(self.wait_ms * 2.0 ** min(retries, 60), self.max_wait_ms)
        return max(random.random() * longest_ms / 1000, retry_after_s)

    def allows(self, retry_after_s: float) -> bool:
        """Return whether the wait that a server asks for is within the limit."""
        return retry_after_s * 1000 <= self.max_wait_ms


def is_retriable(response: Response) -> bool:
    """Return whether another attempt may bring another answer."""
    return response.status in RETRIABLE_STATUSES


def retry_after_s(response: Response) -> float:
    """Return the seconds that a server asks the client to wait (RFC 9110, section 10.2.3)."""
    value = response.headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(value[:9])
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return 0.0
