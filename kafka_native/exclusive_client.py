"""ExclusiveClient: the base of clients that belong to one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar

from kafka_native._native.engine import exits_elsewhere
from kafka_native.client_core import UninitializedClient, own_client
from kafka_native.errors import ConcurrentModificationException, IllegalStateException

Owner = TypeVar("Owner", bound="ExclusiveClient")


class ExclusiveClient:
    """A client whose calls exclude each other, and its end.

    A call from a second thread raises. So does a call from within one of the client's callbacks.
    """

    _client = UninitializedClient()
    _kind: str
    """What the client is, at the beginning of a sentence: ``Share consumer``."""
    _callback_kind: str
    """What its callbacks are: ``acknowledgement commit callback``."""

    def _allow_access(self) -> None:
        """Begins the time in which calls are possible."""
        self._access_lock = threading.Lock()
        self._access_thread = 0

    @contextmanager
    def _access(self) -> Iterator[None]:
        """Admits one thread at a time, and no call from within a callback."""
        closed_text = f"{self._kind} closed"
        if self._client.forked:
            self._client.check_open(closed_text)
        if self._client.closed:
            raise SystemExit if exits_elsewhere() else IllegalStateException(closed_text)
        if self._access_thread == threading.get_ident():
            raise IllegalStateException(
                f"{self._kind} methods are not accessible from user-defined {self._callback_kind}"
            )
        if not self._access_lock.acquire(blocking=False):
            raise ConcurrentModificationException(
                f"{self._kind} is not safe for multi-threaded access. "
                f"currentThread(id: {threading.get_ident()}) "
                f"otherThread(id: {self._access_thread})"
            )
        self._access_thread = threading.get_ident()
        try:
            yield
        finally:
            self._access_thread = 0
            self._access_lock.release()

    def close(self) -> None:
        """Ends the client. Each class has its own way."""
        raise NotImplementedError

    def __enter__(self: Owner) -> Owner:
        """The client itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the client."""
        self.close()

    def __del__(self) -> None:
        """Leaves the group and stops the threads of a client that was dropped without close()."""
        client = own_client(self)
        if client is not None and not client.closed:
            client.drop()
