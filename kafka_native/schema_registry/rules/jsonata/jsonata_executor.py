"""Rules of the type JSONATA: an expression makes a new message of the old one."""

from __future__ import annotations

import threading
from typing import Any

from kafka_native.schema_registry.rules._interface import (
    RegisteredExecutor,
    RuleContext,
    RuleError,
)

try:
    import jsonata
except ImportError as missing:
    raise ImportError(
        "rules in JSONata need jsonata-python: pip install 'kafka-native[rules]'"
    ) from missing

__all__ = ["JsonataExecutor"]


class JsonataExecutor(RegisteredExecutor):
    """Runs JSONata expressions. Each thread compiles an expression once."""

    def __init__(self) -> None:
        self._compiled = threading.local()  # a compiled expression keeps state of its run

    def type(self) -> str:
        """Return the rule type ``JSONATA``."""
        return "JSONATA"

    def transform(self, ctx: RuleContext, message: Any) -> Any:
        """Return the result of the rule's expression.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        message : Any
            The message: dicts, lists and plain values.

        Raises
        ------
        RuleError
            The expression is missing or wrong, or it fails for this message.
        """
        if not ctx.rule.expr:
            raise RuleError(f"the rule {ctx.rule.name} has no expression")
        try:
            result = self._expression(ctx.rule.expr).evaluate(message, {})
        except RecursionError as error:
            raise RuleError(f"the rule {ctx.rule.name} calls itself too often") from error
        except Exception as error:  # JException, and Python's own errors from its functions
            raise RuleError(f"the rule {ctx.rule.name} failed: {error}") from error
        return _plain(result)

    def _expression(self, text: str) -> Any:
        expressions: dict[str, Any] = self._compiled.__dict__
        if text not in expressions:
            expressions[text] = jsonata.Jsonata(text)
        return expressions[text]


def _plain(value: Any) -> Any:
    """Return the value in plain dicts and lists. JSONata has sequences of its own."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value
