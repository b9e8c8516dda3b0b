"""Addresses that begin with ``mock://``: a mock registry in this process."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_native.mock import MockSchemaRegistry

__all__ = ["PREFIX", "MockAddress"]

PREFIX = "mock://"
_lock = threading.Lock()
_named: dict[str, MockSchemaRegistry] = {}


class MockAddress:
    """The registry of an address.

    Clients with the same name after ``mock://`` share a registry, which lives until the process
    ends. Without a name the registry is the client's own, and ends with this object.
    """

    def __init__(self, address: str) -> None:
        from kafka_native.mock import MockSchemaRegistry

        name = address.removeprefix(PREFIX).strip("/")
        if not name:
            registry = MockSchemaRegistry()
            # Nothing is closed at exit: the threads are daemons, and a forked child has none.
            weakref.finalize(self, _close, registry, os.getpid()).atexit = False
        else:
            with _lock:
                if name not in _named:
                    _named[name] = MockSchemaRegistry()
                registry = _named[name]
        self.url = registry.url


def _close(registry: MockSchemaRegistry, owner: int) -> None:
    """Close a registry in the process that has started it.

    The garbage collector may call it in any thread, also in one of the registry: don't wait.
    """
    if os.getpid() == owner:
        registry.close(wait=False)
