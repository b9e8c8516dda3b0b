"""How CEL calls functions of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celpy.evaluation import CELEvalError


def returning_errors(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Make the function for CEL of one that raises ValueError or ArithmeticError.

    It returns the error with its name, so that ``||`` and ``&&`` can ignore it.
    """

    def call(*values: Any) -> Any:
        try:
            return function(*values)
        except (ValueError, ArithmeticError) as error:
            return CELEvalError(f"{name}: {error}")

    return call


def kind_of(value: Any) -> str:
    """Return the name of a value's type in CEL."""
    return "null" if value is None else type(value).__name__.removesuffix("Type").lower()
