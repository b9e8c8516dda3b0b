"""Faults that tests order: errors, delays and cut answers. Requests use them up."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from kafka_native.mock.schema_registry.routes import JSON, Answer, error_answer


class Fault(NamedTuple):
    """What happens to one request."""

    answer: Answer | None = None
    """The answer in place of the registry's."""
    headers: tuple[tuple[str, str], ...] = ()
    done: bool = True
    """Whether the registry carries the request out."""
    delay_s: float = 0.0
    cut_after_bytes: int | None = None
    """How many bytes of the answer are sent before the connection closes."""


@dataclass
class _Armed:
    fault: Fault
    count: int
    method: str | None
    path: str
    listener: int | None


class RegistryFaults:
    """The faults of a mock registry.

    Each method below takes ``count``, the number of requests that meet the fault, and chooses
    them: by ``method`` (such as ``"POST"``), by ``path`` (a pattern with ``*``, such as
    ``"/subjects/*/versions"``; without the query) and by ``listener`` (an index of ``urls``). A
    request uses up at most one fault: the oldest one that fits.
    """

    def __init__(self) -> None:
        """Start without faults."""
        self._lock = threading.Lock()
        self._armed: list[_Armed] = []

    def fail(
        self,
        status: int = 500,
        count: int = 1,
        *,
        error_code: int | None = None,
        message: str = "An error that a test has ordered",
        body: bytes | None = None,
        content_type: str = JSON,
        headers: dict[str, str] | None = None,
        done: bool = False,
        method: str | None = None,
        path: str = "*",
        listener: int | None = None,
    ) -> None:
        """Answer the next requests with an error, or with any other status and body.

        Parameters
        ----------
        status : int
            The HTTP status.
        count : int
            How many requests meet the fault.
        error_code : int, optional
            The error code in the body. The default is the status.
        message : str
            The sentence in the body.
        body : bytes, optional
            The whole body, in place of the error code and the sentence.
        content_type : str
            The type of the body.
        headers : dict of str, optional
            Further headers, such as ``Retry-After``.
        done : bool
            Carry the request out before the answer is sent. The default is not to.
        method, path, listener
            The requests that meet the fault: see the class.
        """
        answer = error_answer(error_code or status, message, status)
        if body is not None:
            answer = Answer(status, body, content_type)
        fault = Fault(answer, tuple((headers or {}).items()), done)
        self._arm(fault, count, method, path, listener)

    def delay(
        self,
        seconds: float,
        count: int = 1,
        *,
        method: str | None = None,
        path: str = "*",
        listener: int | None = None,
    ) -> None:
        """Delay the answers of the next requests. The end of the registry ends a delay, too."""
        self._arm(Fault(delay_s=seconds), count, method, path, listener)

    def cut(
        self,
        after_bytes: int = 0,
        count: int = 1,
        *,
        done: bool = True,
        method: str | None = None,
        path: str = "*",
        listener: int | None = None,
    ) -> None:
        """Close the connection after this number of bytes of the answer.

        With ``done=False`` the registry doesn't carry the request out.
        """
        fault = Fault(done=done, cut_after_bytes=after_bytes)
        self._arm(fault, count, method, path, listener)

    def clear(self) -> None:
        """Remove every fault that no request has met."""
        with self._lock:
            self._armed.clear()

    def take(self, method: str, path: str, listener: int) -> Fault | None:
        """Return the fault that a request meets, and use it up."""
        with self._lock:
            for each in self._armed:
                if (
                    each.method in (None, method)
                    and each.listener in (None, listener)
                    and fnmatchcase(path, each.path)
                ):
                    each.count -= 1
                    if each.count <= 0:
                        self._armed.remove(each)
                    return each.fault
        return None

    def _arm(
        self, fault: Fault, count: int, method: str | None, path: str, listener: int | None
    ) -> None:
        if count < 1:
            raise ValueError(f"count is {count}: at least one request has to meet the fault")
        with self._lock:
            self._armed.append(_Armed(fault, count, method, path, listener))
