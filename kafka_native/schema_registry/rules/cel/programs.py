"""Compiled CEL expressions, and how they are evaluated."""

from __future__ import annotations

import datetime
import re
import threading
from typing import Any

from kafka_native.schema_registry.rules._interface import RuleError

try:
    import celpy
    import lark
    from celpy import celtypes
    from celpy.celparser import CELParseError
    from celpy.evaluation import CELEvalError, Evaluator, base_functions
except ImportError as missing:
    raise ImportError(
        "rules in CEL need cel-python: pip install 'kafka-native[rules]'"
    ) from missing

from kafka_native.schema_registry.rules.cel.functions import FUNCTIONS
from kafka_native.schema_registry.rules.cel.values import MessageMap

NOW = re.compile(r"\bnow\b")


GLOBAL_MACROS = frozenset({"has", "dyn"})
METHOD_MACROS = frozenset({"map", "filter", "all", "exists", "exists_one", "reduce", "min"})
NAMESPACES = frozenset(name.partition(".")[0] for name in FUNCTIONS if "." in name)


class _Evaluator(Evaluator):
    """Evaluates ``has()`` by the presence of Protobuf fields, and functions such as ``a.b()``."""

    def member_dot_arg(self, tree: Any) -> Any:
        name = _namespaced(tree)
        if name is None:
            return super().member_dot_arg(tree)
        values = self.visit(tree.children[2]) if len(tree.children) > 2 else []
        return self.function_eval(lark.Token("IDENT", name), values)

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


def _namespaced(call: Any) -> str | None:
    """The name of a function with a dot, if a call of a method is one."""
    node = call.children[0]
    while isinstance(node, lark.Tree) and len(node.children) == 1:
        node = node.children[0]
    is_namespace = isinstance(node, lark.Token) and node.type == "IDENT" and node in NAMESPACES
    return f"{node}.{call.children[1]}" if is_namespace else None


def _check_functions(tree: Any) -> None:
    """Refuse a call of a function that doesn't exist, before it meets a message.

    :raises CELEvalError: There is such a call.
    """
    for call in tree.find_pred(
        lambda node: node.data in ("ident_arg", "dot_ident_arg", "member_dot_arg")
    ):
        is_method = call.data == "member_dot_arg"
        own = _namespaced(call) if is_method else None
        name = own or str(call.children[1 if is_method else 0])
        macros = METHOD_MACROS if is_method else GLOBAL_MACROS
        if name not in FUNCTIONS and (own or name not in (*base_functions, *macros)):
            raise CELEvalError(f"there is no function {name}()")


class CelPrograms:
    """Compiles each expression once, and evaluates it. Threads may share it."""

    def __init__(self) -> None:
        self._environment = celpy.Environment(runner_class=_Runner)
        self._programs: dict[str, Any] = {}
        self._lock = threading.Lock()

    def evaluate(self, rule_name: str | None, expr: str, args: dict[str, Any]) -> Any:
        """Return the result of an expression, as CEL has it. ``now`` is the current time.

        Parameters
        ----------
        rule_name : str, optional
            The name of the rule, for errors.
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
            raise RuleError(f"the rule {rule_name} failed: {expr}: {reason}") from error
        except Exception as error:  # Python's own errors from CEL's functions and macros
            raise RuleError(f"the rule {rule_name} failed: {expr}: {error}") from error

    def _program(self, expr: str) -> Any:
        with self._lock:
            if expr not in self._programs:
                compiled = self._environment.compile(expr)
                _check_functions(compiled)
                self._programs[expr] = self._environment.program(compiled, functions=FUNCTIONS)
            return self._programs[expr]
