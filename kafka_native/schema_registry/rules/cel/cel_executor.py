"""Rules of the type CEL: an expression tests or replaces a message."""

from __future__ import annotations

import logging
import re
from typing import Any

from kafka_native.schema_registry.rules._interface import (
    CONDITION,
    RegisteredExecutor,
    RuleContext,
)
from kafka_native.schema_registry.rules.cel.programs import CelPrograms
from kafka_native.schema_registry.rules.cel.values import (
    from_cel,
    is_message,
    message_from_cel,
    to_cel,
)

__all__ = ["CelExecutor"]

log = logging.getLogger(__name__)

GUARD_END = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(;)""", re.DOTALL)


class CelExecutor(RegisteredExecutor):
    """Runs CEL expressions. The variable ``message`` is the message, ``now`` the time.

    An expression ``guard ; rest`` runs its rest only if the guard is true. Otherwise a condition
    holds, and a transform changes nothing.
    """

    def __init__(self) -> None:
        self._programs = CelPrograms()

    def type(self) -> str:
        """Return the rule type ``CEL``."""
        return "CEL"

    def transform(self, ctx: RuleContext, message: Any) -> Any:
        """Return the result for a message: a bool for a condition, else the new message.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        message : Any
            The message: a dict or a Protobuf message.

        Raises
        ------
        RuleError
            The expression is wrong, or it fails for this message.
        """
        return self.execute(ctx, message, {"message": to_cel(message)})

    def execute(self, ctx: RuleContext, msg: Any, args: dict[str, Any]) -> Any:
        """Return the result for a message or a field.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        msg : Any
            The message or the value of the field.
        args : dict[str, Any]
            The variables of the expression, as CEL has them.

        Raises
        ------
        RuleError
            The expression is wrong, or it fails for this message.
        """
        if ctx.rule.expr is None:
            log.warning("the rule %s has no expression, so it changes nothing", ctx.rule.name)
            return True if ctx.rule.kind == CONDITION else msg
        guard, expression = _split(ctx.rule.expr)
        if guard and not self.execute_rule(ctx, guard, args):
            return True if ctx.rule.kind == CONDITION else msg
        result = self.execute_rule(ctx, expression, args)
        if ctx.rule.kind != CONDITION and is_message(msg):
            return message_from_cel(result, msg)
        return from_cel(result)

    def execute_rule(self, ctx: RuleContext, expr: str, args: dict[str, Any]) -> Any:
        """Return the result of one expression, as CEL has it.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        expr : str
            The expression.
        args : dict[str, Any]
            The variables, as CEL has them.

        Raises
        ------
        RuleError
            The expression is wrong, or it fails with these variables.
        """
        return self._programs.evaluate(ctx.rule.name, expr, args)


def _split(expr: str) -> tuple[str, str]:
    """Return the guard and the rest of an expression. A semicolon in text doesn't separate."""
    for match in GUARD_END.finditer(expr):
        if match.group(1):
            return expr[: match.start()].strip(), expr[match.end() :]
    return "", expr
