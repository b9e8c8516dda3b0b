"""Rules of the type CEL: an expression tests or replaces a message."""

from __future__ import annotations

import datetime
import logging
import re
import threading
from typing import Any

from kafka_native.schema_registry.rules._interface import (
    CONDITION,
    RuleContext,
    RuleError,
    RuleExecutor,
    RuleRegistry,
)

try:
    import celpy
    import lark
    from celpy import celtypes
    from celpy.celparser import CELParseError
    from celpy.evaluation import CELEvalError, Evaluator
except ImportError as missing:
    raise ImportError(
        "rules in CEL need cel-python: pip install 'kafka-native[rules]'"
    ) from missing

from kafka_native.schema_registry.rules.cel.functions import FUNCTIONS
from kafka_native.schema_registry.rules.cel.values import (
    MessageMap,
    from_cel,
    is_message,
    message_from_cel,
    to_cel,
)

__all__ = ["CelExecutor"]

log = logging.getLogger(__name__)

GUARD_END = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(;)""", re.DOTALL)
NOW = re.compile(r"\bnow\b")


class _Evaluator(Evaluator):
    """Evaluates ``has()`` by the presence of Protobuf fields."""

    def macro_has_eval(self, exprlist: Any) -> Any:
        node = exprlist
        while isinstance(node, lark.Tree) and node.data != "member_dot" and len(node.children) == 1:
            node = node.children[0]
        if isinstance(node, lark.Tree) and node.data == "member_dot":
            operand = self.visit(node.children[0])
            if isinstance(operand, MessageMap):
                return celtypes.BoolType(operand.is_set(str(node.children[1])))
        return super().macro_has_eval(exprlist)


class _Runner(celpy.InterpretedRunner):
    def evaluate(self, context: Any) -> Any:
        return _Evaluator(ast=self.ast, activation=self.new_activation()).evaluate(context)


class CelExecutor(RuleExecutor):
    """Runs CEL expressions. The variable ``message`` is the message, ``now`` the time.

    An expression ``guard ; rest`` runs its rest only if the guard is true. Otherwise a condition
    holds, and a transform changes nothing.
    """

    def __init__(self) -> None:
        self._environment = celpy.Environment(runner_class=_Runner)
        self._programs: dict[str, Any] = {}
        self._lock = threading.Lock()

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
        if NOW.search(expr) and "now" not in args:
            now = datetime.datetime.now(tz=datetime.timezone.utc)
            args = {**args, "now": celtypes.TimestampType(now)}
        try:
            return self._program(expr).evaluate(args)
        except (CELParseError, CELEvalError) as error:
            reason = error.args[0] if error.args else type(error).__name__
            raise RuleError(f"the rule {ctx.rule.name} failed: {expr}: {reason}") from error

    def _program(self, expr: str) -> Any:
        with self._lock:
            if expr not in self._programs:
                compiled = self._environment.compile(expr)
                self._programs[expr] = self._environment.program(compiled, functions=FUNCTIONS)
            return self._programs[expr]

    @classmethod
    def register(cls) -> None:
        """Add an executor for all serializers of this process."""
        RuleRegistry.register_rule_executor(cls())


def _split(expr: str) -> tuple[str, str]:
    """Return the guard and the rest of an expression. A semicolon in text doesn't separate."""
    for match in GUARD_END.finditer(expr):
        if match.group(1):
            return expr[: match.start()].strip(), expr[match.end() :]
    return "", expr
