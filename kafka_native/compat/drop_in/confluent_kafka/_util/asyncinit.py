"""A decorator for classes whose constructor is a coroutine function."""

from __future__ import annotations

from typing import Any

__all__ = ["asyncinit"]


def asyncinit(cls: Any) -> Any:
    """Make ``await Class(...)`` return an object after its ``async def __init__``."""
    make = cls.__new__

    async def initialised(it: Any, *args: Any, **kwargs: Any) -> Any:
        await it.__init__(*args, **kwargs)
        return it

    def new(kind: Any, *args: Any, **kwargs: Any) -> Any:
        return initialised(make(kind), *args, **kwargs)

    cls.__new__ = new
    return cls
