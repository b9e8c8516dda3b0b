"""What a forked process must not share with its parent: connections, locks and waiting callers."""

from __future__ import annotations

import os
import weakref


class ForkAware:
    """An object that a forked process has to reset before it uses it.

    Two processes on one connection would read each other's answers. A lock or a request of a
    thread that doesn't exist in the new process would never be released or answered.
    """

    def __init__(self) -> None:
        _OBJECTS.add(self)

    def reset_after_fork(self) -> None:
        """Replace what belongs to the parent. It runs in the new process, in its only thread."""
        raise NotImplementedError


_OBJECTS: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def _reset() -> None:
    for each in list(_OBJECTS):
        each.reset_after_fork()


os.register_at_fork(after_in_child=_reset)
